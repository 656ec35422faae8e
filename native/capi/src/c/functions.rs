//! Legacy array functions. Each is an operator that is called with input arrays, numbers and output arrays, in this order.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use ferromx_runtime::context::Context;
use ferromx_runtime::dtype::DType;
use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::imperative::{self, Tensor};
use ferromx_runtime::ndarray::NDArray;
use ferromx_runtime::op::OpDef;
use ferromx_runtime::shape::Shape;

use super::args::{count as count_of, id, pairs, put, raw, slice, tensors, text};
use super::guard;
use super::operators::describe;
use super::ret::Ret;
use super::types::{FunctionHandle, NDArrayHandle};
use crate::handle;

/// Bits of the type mask: arrays come before numbers; output arrays may be empty.
const ARRAYS_FIRST: c_int = 1;
const ACCEPTS_EMPTY: c_int = 1 << 2;

/// The parameter of `_imdecode` with the encoded image.
const IMAGE_PARAM: &str = "str_img";

/// A function with its arguments. Every function has one output array.
struct Function {
    name: &'static str,
    /// The number of input arrays.
    num_arrays: usize,
    /// The parameters that are given as numbers.
    numbers: &'static [&'static str],
    type_mask: c_int,
}

/// The functions, in MXNet's order.
static FUNCTIONS: &[Function] = &[
    Function { name: "_set_value", num_arrays: 0, numbers: &["src"], type_mask: 0 },
    Function { name: "_onehot_encode", num_arrays: 2, numbers: &[], type_mask: ARRAYS_FIRST | ACCEPTS_EMPTY },
    Function { name: "fill_element_0index", num_arrays: 3, numbers: &[], type_mask: ARRAYS_FIRST | ACCEPTS_EMPTY },
    Function {
        name: "_imdecode",
        num_arrays: 1,
        numbers: &["index", "x0", "y0", "x1", "y1", "c", "size"],
        type_mask: ARRAYS_FIRST | ACCEPTS_EMPTY,
    },
];

fn listed() -> String {
    FUNCTIONS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ")
}

/// The function and the operator of a handle. The handle of a function is that of its operator.
fn function(handle: FunctionHandle) -> Result<(&'static Function, &'static OpDef)> {
    let (name, def) = handle::operator_of(id(handle))?;
    let found = FUNCTIONS.iter().find(|f| f.name == name);
    found.map(|f| (f, def)).ok_or_else(|| {
        Error::NotFound(format!("{name} is an operator: call it by MXImperativeInvoke; the functions are {}", listed()))
    })
}

/// The arguments of a call.
struct Call {
    handle: FunctionHandle,
    arrays: *mut NDArrayHandle,
    numbers: *mut f32,
    written: *mut NDArrayHandle,
}

impl Call {
    /// Runs the function with further parameters as text.
    fn run(&self, count: c_int, keys: *mut *mut c_char, values: *mut *mut c_char) -> Result<()> {
        let (function, def) = function(self.handle)?;
        let numbers = slice(self.numbers, function.numbers.len(), "scalar_args")?;
        let mut attrs: Vec<(String, String)> =
            function.numbers.iter().zip(numbers).map(|(name, x)| (name.to_string(), x.to_string())).collect();
        let count = count_of(count, "num_params")?;
        if function.numbers.contains(&"size") {
            attrs.push((IMAGE_PARAM.to_owned(), image_bytes(numbers, slice(values, count, "param_vals")?)?));
        } else {
            let given = pairs(keys.cast(), values.cast(), count)?;
            attrs.extend(given.into_iter().map(|(k, v)| (k.into_owned(), v.into_owned())));
        }
        let written = tensors(self.written, 1, "mutate_vars")?;
        let inputs = tensors(self.arrays, function.num_arrays, "use_vars")?;
        let inputs = inputs.iter().map(|t| array_or_empty(t, &written[0])).collect::<Result<Vec<_>>>()?;
        let attrs = attrs.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        imperative::call(def.name, attrs, &inputs, &written).map(|_| ())
    }
}

/// The encoded image as text with one character per byte. The last number is the length of the image in bytes.
fn image_bytes(numbers: &[f32], values: &[*mut c_char]) -> Result<String> {
    let (Some(size), [value]) = (numbers.last(), values) else {
        return Err(Error::Value(format!(
            "one parameter, the encoded image, was expected, but {} were given",
            values.len()
        )));
    };
    Ok(slice(value.cast_const().cast::<u8>(), *size as usize, "param_vals")?.iter().map(|b| char::from(*b)).collect())
}

/// The tensor, or an array without elements of the output's type if it is empty.
fn array_or_empty(tensor: &Arc<Tensor>, written: &Arc<Tensor>) -> Result<Arc<Tensor>> {
    if !tensor.is_empty() {
        return Ok(tensor.clone());
    }
    let dtype = if written.is_empty() { DType::F32 } else { written.array()?.dtype() };
    Ok(Arc::new(Tensor::new(NDArray::zeros(&Shape::new(&[0]), dtype, Context::default())?)))
}

/// Lists the legacy array functions. The array is valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXListFunctions(out_size: *mut u32, out_array: *mut *mut FunctionHandle) -> c_int {
    guard(|| {
        let all =
            FUNCTIONS.iter().map(|f| Ok(raw(handle::operator(f.name)?).cast_const())).collect::<Result<Vec<_>>>()?;
        let mut ret = Ret::new();
        put(out_size, all.len() as u32, "out_size")?;
        put(out_array, ret.list(all), "out_array")?;
        ret.keep("MXListFunctions");
        Ok(())
    })
}

/// Returns the handle of a function. It is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn MXGetFunction(name: *const c_char, out: *mut FunctionHandle) -> c_int {
    guard(|| {
        let name = text(name, "name")?;
        if !FUNCTIONS.iter().any(|f| f.name == name) {
            return Err(Error::NotFound(format!("there is no function '{name}'; the functions are {}", listed())));
        }
        put(out, raw(handle::operator(&name)?).cast_const(), "out")
    })
}

/// Describes a function like `MXSymbolGetAtomicSymbolInfo`. All pointers are valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXFuncGetInfo(
    fun: FunctionHandle,
    name: *mut *const c_char,
    description: *mut *const c_char,
    num_args: *mut u32,
    arg_names: *mut *mut *const c_char,
    arg_type_infos: *mut *mut *const c_char,
    arg_descriptions: *mut *mut *const c_char,
    return_type: *mut *const c_char,
) -> c_int {
    guard(|| {
        let (function, def) = function(fun)?;
        let arguments = (num_args, arg_names, arg_type_infos, arg_descriptions);
        let ret = describe(function.name, Some(def), (name, description), arguments, return_type)?;
        ret.keep("MXFuncGetInfo");
        Ok(())
    })
}

/// Returns the numbers of a function's input arrays, scalars and output arrays, and a bit mask: arrays come before scalars (1), output
/// arrays may be empty (4).
#[unsafe(no_mangle)]
pub extern "C" fn MXFuncDescribe(
    fun: FunctionHandle,
    num_use_vars: *mut u32,
    num_scalars: *mut u32,
    num_mutate_vars: *mut u32,
    type_mask: *mut c_int,
) -> c_int {
    guard(|| {
        let (function, _) = function(fun)?;
        put(num_use_vars, function.num_arrays as u32, "num_use_vars")?;
        put(num_scalars, function.numbers.len() as u32, "num_scalars")?;
        put(num_mutate_vars, 1, "num_mutate_vars")?;
        put(type_mask, function.type_mask, "type_mask")
    })
}

/// Calls a function with the numbers of arrays and scalars that `MXFuncDescribe` returns.
#[unsafe(no_mangle)]
pub extern "C" fn MXFuncInvoke(
    fun: FunctionHandle,
    use_vars: *mut NDArrayHandle,
    scalar_args: *mut f32,
    mutate_vars: *mut NDArrayHandle,
) -> c_int {
    guard(|| {
        let call = Call { handle: fun, arrays: use_vars, numbers: scalar_args, written: mutate_vars };
        call.run(0, std::ptr::null_mut(), std::ptr::null_mut())
    })
}

/// Like `MXFuncInvoke`, with further parameters as text. The parameter of `_imdecode` is the encoded image, which has `size` bytes and may
/// contain zeros.
#[unsafe(no_mangle)]
pub extern "C" fn MXFuncInvokeEx(
    fun: FunctionHandle,
    use_vars: *mut NDArrayHandle,
    scalar_args: *mut f32,
    mutate_vars: *mut NDArrayHandle,
    num_params: c_int,
    param_keys: *mut *mut c_char,
    param_vals: *mut *mut c_char,
) -> c_int {
    guard(|| {
        let call = Call { handle: fun, arrays: use_vars, numbers: scalar_args, written: mutate_vars };
        call.run(num_params, param_keys, param_vals)
    })
}
