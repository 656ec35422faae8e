//! Packed functions: called by name with dynamically typed arguments. MXNet's NumPy front end calls a few functions this way; each one here
//! forwards to an operator.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use ferromx_runtime::ensure;
use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::imperative::{Tensor, call};

use super::args::{id, put, raw, slice, text};
use super::guard;
use super::ret::put_texts;
use super::types::{MXNetFunctionHandle, MXNetObjectHandle, MXNetValue};
use crate::handle::{self, Object, insert, insert_tensor, packed, tensor};
use crate::objects::PackedObject;

/// Type codes of values.
const CODE_INT: i32 = 0;
const CODE_FLOAT: i32 = 2;
const CODE_NULL: i32 = 4;
const CODE_OBJECT: i32 = 8;
const CODE_STR: i32 = 11;
const CODE_ARRAY: i32 = 14;

/// An argument.
enum Argument {
    Null,
    Integer(i64),
    Float,
    Text(String),
    Object(Arc<PackedObject>),
    Array(Arc<Tensor>),
}

/// A result.
enum Outcome {
    Object(PackedObject),
    Array(Arc<Tensor>),
    Integer(i64),
}

/// A function by name.
struct Function {
    name: &'static str,
    call: fn(&[Argument]) -> Result<Outcome>,
}

/// The functions. A handle is the index in this list plus one.
static FUNCTIONS: &[Function] = &[
    Function { name: "_ADT", call: list },
    Function { name: "_Integer", call: integer },
    Function { name: "_nop", call: nop },
    Function { name: "_npi.tensordot", call: tensordot },
    Function { name: "_npi.zeros", call: zeros },
];

fn function(handle: MXNetFunctionHandle) -> Result<&'static Function> {
    FUNCTIONS
        .get((id(handle) as usize).wrapping_sub(1))
        .ok_or_else(|| Error::NotFound(format!("{handle:p} is not a packed function: get one from MXNetFuncGetGlobal")))
}

impl Argument {
    fn read(value: MXNetValue, code: i32) -> Result<Argument> {
        // SAFETY: by the contract of the C API the type code says which field of the union is set; all are plain data of 8 bytes.
        unsafe {
            Ok(match code {
                CODE_NULL => Argument::Null,
                CODE_INT => Argument::Integer(value.v_int64),
                CODE_FLOAT => Argument::Float,
                CODE_STR => Argument::Text(text(value.v_str, "argument")?.into_owned()),
                CODE_OBJECT => Argument::Object(packed(id(value.v_handle))?),
                CODE_ARRAY => Argument::Array(tensor(id(value.v_handle))?),
                other => return Err(Error::Unsupported(format!("an argument of type code {other} is not supported"))),
            })
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Argument::Null => "None",
            Argument::Integer(_) => "an integer",
            Argument::Float => "a number",
            Argument::Text(_) => "a string",
            Argument::Object(_) => "a list of integers",
            Argument::Array(_) => "an array",
        }
    }

    fn expected(&self, what: &str) -> Error {
        Error::Value(format!("TypeError: {what} was expected, but {} was given", self.kind()))
    }

    fn array(&self) -> Result<Arc<Tensor>> {
        match self {
            Argument::Array(a) => Ok(a.clone()),
            other => Err(other.expected("an array")),
        }
    }

    /// The integers of a list, or a single integer.
    fn integers(&self) -> Result<Vec<i64>> {
        match self {
            Argument::Integer(n) => Ok(vec![*n]),
            Argument::Object(o) => o.integers(),
            other => Err(other.expected("an integer or a list of integers")),
        }
    }

    /// A string; None is the empty string.
    fn text(&self) -> Result<&str> {
        match self {
            Argument::Text(s) => Ok(s),
            Argument::Null => Ok(""),
            other => Err(other.expected("a string")),
        }
    }
}

impl PackedObject {
    fn integers(&self) -> Result<Vec<i64>> {
        match self {
            PackedObject::Integer(n) => Ok(vec![*n]),
            PackedObject::List(items) => items
                .iter()
                .map(|item| match **item {
                    PackedObject::Integer(n) => Ok(n),
                    PackedObject::List(_) => {
                        Err(Error::value("TypeError: a list of integers was expected, but it has lists in it"))
                    }
                })
                .collect(),
        }
    }
}

fn check_count(args: &[Argument], expected: usize) -> Result<()> {
    ensure!(args.len() == expected, "TypeError: {expected} arguments were expected, but {} were given", args.len());
    Ok(())
}

/// Does nothing and returns 0. Clients measure the cost of a call with it.
fn nop(_: &[Argument]) -> Result<Outcome> {
    Ok(Outcome::Integer(0))
}

fn integer(args: &[Argument]) -> Result<Outcome> {
    check_count(args, 1)?;
    match &args[0] {
        Argument::Integer(n) => Ok(Outcome::Object(PackedObject::Integer(*n))),
        other => Err(other.expected("an integer")),
    }
}

fn list(args: &[Argument]) -> Result<Outcome> {
    let item = |arg: &Argument| match arg {
        Argument::Object(o) => Ok(o.clone()),
        Argument::Integer(n) => Ok(Arc::new(PackedObject::Integer(*n))),
        other => Err(other.expected("an integer or a list")),
    };
    Ok(Outcome::Object(PackedObject::List(args.iter().map(item).collect::<Result<_>>()?)))
}

/// Formats a tuple parameter such as `(1,2)`.
fn tuple(items: &[i64]) -> String {
    let items: Vec<_> = items.iter().map(i64::to_string).collect();
    format!("({})", items.join(","))
}

fn run(op: &str, attrs: &[(&str, &str)], inputs: &[Arc<Tensor>]) -> Result<Outcome> {
    let (op, _) = ferromx_runtime::registry::find(op)?;
    Ok(Outcome::Array(call(op, attrs.iter().copied(), inputs, &[])?.swap_remove(0)))
}

/// `tensordot(a, b, axes)`, where `axes` is the number of last axes of `a` and first axes of `b`, or a pair of lists of axes.
fn tensordot(args: &[Argument]) -> Result<Outcome> {
    check_count(args, 3)?;
    let inputs = [args[0].array()?, args[1].array()?];
    match &args[2] {
        Argument::Integer(n) => run("_npi_tensordot_int_axes", &[("axes", &n.to_string())], &inputs),
        Argument::Object(axes) => {
            let PackedObject::List(pair) = &**axes else { return Err(args[2].expected("a pair of axes")) };
            let [a, b] = &pair[..] else { return Err(args[2].expected("a pair of axes")) };
            let (a, b) = (tuple(&a.integers()?), tuple(&b.integers()?));
            run("_npi_tensordot", &[("a_axes_summed", &a), ("b_axes_summed", &b)], &inputs)
        }
        other => Err(other.expected("axes")),
    }
}

/// `zeros(shape, dtype, ctx)`.
fn zeros(args: &[Argument]) -> Result<Outcome> {
    check_count(args, 3)?;
    let shape = tuple(&args[0].integers()?);
    let dtype = match args[1].text()? {
        "" => "float32",
        dtype => dtype,
    };
    run("_npi_zeros", &[("shape", &shape), ("dtype", dtype), ("ctx", args[2].text()?)], &[])
}

/// Lists the packed functions. The list is valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXNetFuncListGlobalNames(out_size: *mut c_int, out_array: *mut *mut *const c_char) -> c_int {
    guard(|| {
        let names: Vec<_> = FUNCTIONS.iter().map(|f| f.name).collect();
        put_texts("MXNetFuncListGlobalNames", &names, out_size.cast::<u32>(), out_array)
    })
}

/// Looks up a packed function by name; null if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn MXNetFuncGetGlobal(name: *const c_char, out: *mut MXNetFunctionHandle) -> c_int {
    guard(|| {
        let name = text(name, "name")?;
        put(out, raw(FUNCTIONS.iter().position(|f| f.name == name).map_or(0, |i| i as u64 + 1)), "out")
    })
}

/// Frees a packed function. Does nothing, since those of this library are static.
#[unsafe(no_mangle)]
pub extern "C" fn MXNetFuncFree(func: MXNetFunctionHandle) -> c_int {
    guard(|| function(func).map(|_| ()))
}

/// Calls a packed function. Type codes: 0 integer, 2 floating-point number, 4 null, 8 object, 11 string, 14 array. The caller frees a
/// result that is an array (`MXNDArrayFree`) or an object (`MXNetObjectFree`).
#[unsafe(no_mangle)]
pub extern "C" fn MXNetFuncCall(
    func: MXNetFunctionHandle,
    arg_values: *mut MXNetValue,
    type_codes: *mut c_int,
    num_args: c_int,
    ret_val: *mut MXNetValue,
    ret_type_code: *mut c_int,
) -> c_int {
    guard(|| {
        let function = function(func)?;
        let n = super::args::count(num_args, "num_args")?;
        let values = slice(arg_values.cast_const(), n, "arg_values")?.iter();
        let codes = slice(type_codes.cast_const(), n, "type_codes")?;
        let args = values.zip(codes).map(|(v, c)| Argument::read(*v, *c)).collect::<Result<Vec<_>>>()?;
        put(ret_type_code, CODE_NULL, "ret_type_code")?;
        put(ret_val, MXNetValue { v_int64: 0 }, "ret_val")?;
        let (value, code) = match (function.call)(&args).map_err(|e| e.in_operator(function.name, function.name))? {
            Outcome::Object(object) => {
                (MXNetValue { v_handle: raw(insert(Object::Packed(Arc::new(object)))) }, CODE_OBJECT)
            }
            Outcome::Array(array) => (MXNetValue { v_handle: raw(insert_tensor(array)) }, CODE_ARRAY),
            Outcome::Integer(n) => (MXNetValue { v_int64: n }, CODE_INT),
        };
        put(ret_val, value, "ret_val")?;
        put(ret_type_code, code, "ret_type_code")
    })
}

/// Frees an object; null is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn MXNetObjectFree(obj: MXNetObjectHandle) -> c_int {
    guard(|| handle::free(id(obj), "Object"))
}
