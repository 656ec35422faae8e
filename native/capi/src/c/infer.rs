//! Shape and type inference.

use std::ffi::{c_char, c_int};

use ferromx_runtime::arrays::dtype_of_code;
use ferromx_runtime::dtype::DType;
use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::semantics;
use ferromx_runtime::shape::Shape;
use ferromx_runtime::symbol::Symbol;
use ferromx_runtime::symbol_infer::{argument_names, infer_dtypes, infer_shapes};

use super::args::{id, put, slice, texts};
use super::guard;
use super::number::Integer;
use super::ret::Ret;
use super::types::SymbolHandle;
use crate::handle::symbol;
use Inference::{Full, Partial};

/// Reads `n` shapes from concatenated dimensions: shape `i` is `data[starts[i]..starts[i + 1]]`.
pub(super) fn rows<I: Integer, D: Integer>(n: usize, starts: *const I, data: *const D) -> Result<Vec<Shape>> {
    if n == 0 {
        return Ok(Vec::new());
    }
    let starts = slice(starts, n + 1, "arg_ind_ptr")?;
    let ends: Vec<usize> = starts.iter().map(|i| usize::try_from(i.to_i64()).unwrap_or(usize::MAX)).collect();
    if !ends.is_sorted() || ends[n] > isize::MAX as usize {
        return Err(Error::Value("the offsets of the shapes must be in ascending order".into()));
    }
    let data = slice(data, ends[n], "arg_shape_data")?;
    ends.windows(2).map(|w| shape_of(&data[w[0]..w[1]])).collect()
}

/// Converts dimensions to a shape. In legacy semantics, 0 and -1 both mean an unknown dimension.
fn shape_of<D: Integer>(dims: &[D]) -> Result<Shape> {
    let lowest = if semantics::is_numpy_shape() { i64::MIN } else { -1 };
    let dims: Vec<i64> = dims.iter().map(|d| d.to_i64()).map(|d| if d == lowest { 0 } else { d }).collect();
    semantics::shape_from_user(Some(&dims))
}

/// The names of the arguments for which `n` values are given.
fn names(s: &Symbol, keys: *mut *const c_char, n: usize) -> Result<Vec<String>> {
    let keys = if keys.is_null() { None } else { Some(texts(keys, n, "keys")?) };
    argument_names(s, keys, n)
}

/// The out-parameters for a list of shapes: length, ranks, dimensions.
struct ShapesOut<S, N, D>(*mut S, *mut *const N, *mut *mut *const D);

impl<S: Integer, N: Integer, D: Integer> ShapesOut<S, N, D> {
    fn put(self, ret: &mut Ret, shapes: &[Shape]) -> Result<()> {
        let (mut ranks, mut starts, mut dims) = (Vec::new(), Vec::new(), Vec::new());
        for shape in shapes.iter().map(semantics::shape_to_user) {
            ranks.push(N::from_i64(shape.as_ref().map_or(-1, |d| d.len() as i64))?);
            starts.push(dims.len());
            dims.extend(shape.iter().flatten().map(|d| D::from_i64(*d)).collect::<Result<Vec<_>>>()?);
        }
        // The dimensions of all shapes follow one another, since clients read them as one array from the first pointer.
        let dims = ret.list(dims).cast_const();
        let data = starts.into_iter().map(|start| dims.wrapping_add(start)).collect();
        put(self.0, S::from_i64(shapes.len() as i64)?, "shape_size")?;
        put(self.1, ret.list(ranks).cast_const(), "shape_ndim")?;
        put(self.2, ret.list(data), "shape_data")
    }
}

/// Whether the out-parameter `complete` depends on the result.
#[derive(PartialEq, Eq)]
enum Inference {
    /// It is 0 if anything remains unknown.
    Full,
    /// It is always 1.
    Partial,
}

/// The implementation of all variants of shape inference.
fn shapes<I: Integer, D: Integer, S: Integer, N: Integer>(
    function: &'static str,
    (handle, n, keys): (SymbolHandle, u32, *mut *const c_char),
    (starts, data): (*const I, *const D),
    [args, outputs, aux]: [ShapesOut<S, N, D>; 3],
    (complete, inference): (*mut c_int, Inference),
) -> Result<()> {
    let s = symbol(id(handle))?;
    let given = rows(n as usize, starts, data)?;
    let given: Vec<_> = names(&s, keys, n as usize)?.into_iter().zip(given).collect();
    let inferred = infer_shapes(&s, &given)?;
    let mut ret = Ret::new();
    args.put(&mut ret, &inferred.args)?;
    outputs.put(&mut ret, &inferred.outputs)?;
    aux.put(&mut ret, &inferred.aux)?;
    put(complete, c_int::from(inference == Partial || inferred.all(Shape::is_known)), "complete")?;
    ret.keep(function);
    Ok(())
}

/// The out-parameters for a list of types: length, types.
struct TypesOut(*mut u32, *mut *const c_int);

impl TypesOut {
    fn put(self, ret: &mut Ret, types: &[Option<DType>]) -> Result<()> {
        put(self.0, types.len() as u32, "type_size")?;
        let codes = types.iter().map(|d| d.map_or(-1, DType::code)).collect();
        put(self.1, ret.list(codes).cast_const(), "type_data")
    }
}

fn types(
    function: &'static str,
    (handle, n, keys, codes): (SymbolHandle, u32, *mut *const c_char, *const c_int),
    [args, outputs, aux]: [TypesOut; 3],
    (complete, inference): (*mut c_int, Inference),
) -> Result<()> {
    let s = symbol(id(handle))?;
    let codes = slice(codes, n as usize, "arg_type_data")?;
    let given = (names(&s, keys, n as usize)?.into_iter().zip(codes))
        .filter(|(_, code)| **code != -1)
        .map(|(name, code)| Ok((name, dtype_of_code(*code)?)))
        .collect::<Result<Vec<_>>>()?;
    let inferred = infer_dtypes(&s, &given)?;
    let mut ret = Ret::new();
    args.put(&mut ret, &inferred.args)?;
    outputs.put(&mut ret, &inferred.outputs)?;
    aux.put(&mut ret, &inferred.aux)?;
    put(complete, c_int::from(inference == Partial || inferred.all(Option::is_some)), "complete")?;
    ret.keep(function);
    Ok(())
}

/// Infers the shapes of arguments, outputs and auxiliary states from those of some arguments. Argument `i` has the dimensions
/// `arg_shape_data[arg_ind_ptr[i] .. arg_ind_ptr[i + 1]]`; `keys` names the arguments, or is null for the first ones in order. `complete`
/// is 0 if any shape remains unknown. The results are valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolInferShape(
    handle: SymbolHandle,
    num_args: u32,
    keys: *mut *const c_char,
    arg_ind_ptr: *const u32,
    arg_shape_data: *const u32,
    in_shape_size: *mut u32,
    in_shape_ndim: *mut *const u32,
    in_shape_data: *mut *mut *const u32,
    out_shape_size: *mut u32,
    out_shape_ndim: *mut *const u32,
    out_shape_data: *mut *mut *const u32,
    aux_shape_size: *mut u32,
    aux_shape_ndim: *mut *const u32,
    aux_shape_data: *mut *mut *const u32,
    complete: *mut c_int,
) -> c_int {
    guard(|| {
        let args = ShapesOut(in_shape_size, in_shape_ndim, in_shape_data);
        let outputs = ShapesOut(out_shape_size, out_shape_ndim, out_shape_data);
        let aux = ShapesOut(aux_shape_size, aux_shape_ndim, aux_shape_data);
        let given = (handle, num_args, keys);
        shapes("MXSymbolInferShape", given, (arg_ind_ptr, arg_shape_data), [args, outputs, aux], (complete, Full))
    })
}

/// Like `MXSymbolInferShape`, with signed dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolInferShapeEx(
    handle: SymbolHandle,
    num_args: u32,
    keys: *mut *const c_char,
    arg_ind_ptr: *const u32,
    arg_shape_data: *const c_int,
    in_shape_size: *mut u32,
    in_shape_ndim: *mut *const c_int,
    in_shape_data: *mut *mut *const c_int,
    out_shape_size: *mut u32,
    out_shape_ndim: *mut *const c_int,
    out_shape_data: *mut *mut *const c_int,
    aux_shape_size: *mut u32,
    aux_shape_ndim: *mut *const c_int,
    aux_shape_data: *mut *mut *const c_int,
    complete: *mut c_int,
) -> c_int {
    guard(|| {
        let args = ShapesOut(in_shape_size, in_shape_ndim, in_shape_data);
        let outputs = ShapesOut(out_shape_size, out_shape_ndim, out_shape_data);
        let aux = ShapesOut(aux_shape_size, aux_shape_ndim, aux_shape_data);
        let given = (handle, num_args, keys);
        shapes("MXSymbolInferShapeEx", given, (arg_ind_ptr, arg_shape_data), [args, outputs, aux], (complete, Full))
    })
}

/// Like `MXSymbolInferShape`, with 64-bit dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolInferShapeEx64(
    handle: SymbolHandle,
    num_args: u32,
    keys: *mut *const c_char,
    arg_ind_ptr: *const i64,
    arg_shape_data: *const i64,
    in_shape_size: *mut usize,
    in_shape_ndim: *mut *const c_int,
    in_shape_data: *mut *mut *const i64,
    out_shape_size: *mut usize,
    out_shape_ndim: *mut *const c_int,
    out_shape_data: *mut *mut *const i64,
    aux_shape_size: *mut usize,
    aux_shape_ndim: *mut *const c_int,
    aux_shape_data: *mut *mut *const i64,
    complete: *mut c_int,
) -> c_int {
    guard(|| {
        let args = ShapesOut(in_shape_size, in_shape_ndim, in_shape_data);
        let outputs = ShapesOut(out_shape_size, out_shape_ndim, out_shape_data);
        let aux = ShapesOut(aux_shape_size, aux_shape_ndim, aux_shape_data);
        let given = (handle, num_args, keys);
        shapes("MXSymbolInferShapeEx64", given, (arg_ind_ptr, arg_shape_data), [args, outputs, aux], (complete, Full))
    })
}

/// Like `MXSymbolInferShape`, but shapes may remain unknown.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolInferShapePartial(
    handle: SymbolHandle,
    num_args: u32,
    keys: *mut *const c_char,
    arg_ind_ptr: *const u32,
    arg_shape_data: *const u32,
    in_shape_size: *mut u32,
    in_shape_ndim: *mut *const u32,
    in_shape_data: *mut *mut *const u32,
    out_shape_size: *mut u32,
    out_shape_ndim: *mut *const u32,
    out_shape_data: *mut *mut *const u32,
    aux_shape_size: *mut u32,
    aux_shape_ndim: *mut *const u32,
    aux_shape_data: *mut *mut *const u32,
    complete: *mut c_int,
) -> c_int {
    guard(|| {
        let args = ShapesOut(in_shape_size, in_shape_ndim, in_shape_data);
        let outputs = ShapesOut(out_shape_size, out_shape_ndim, out_shape_data);
        let aux = ShapesOut(aux_shape_size, aux_shape_ndim, aux_shape_data);
        let given = (handle, num_args, keys);
        shapes(
            "MXSymbolInferShapePartial",
            given,
            (arg_ind_ptr, arg_shape_data),
            [args, outputs, aux],
            (complete, Partial),
        )
    })
}

/// Like `MXSymbolInferShapePartial`, with signed dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolInferShapePartialEx(
    handle: SymbolHandle,
    num_args: u32,
    keys: *mut *const c_char,
    arg_ind_ptr: *const u32,
    arg_shape_data: *const c_int,
    in_shape_size: *mut u32,
    in_shape_ndim: *mut *const c_int,
    in_shape_data: *mut *mut *const c_int,
    out_shape_size: *mut u32,
    out_shape_ndim: *mut *const c_int,
    out_shape_data: *mut *mut *const c_int,
    aux_shape_size: *mut u32,
    aux_shape_ndim: *mut *const c_int,
    aux_shape_data: *mut *mut *const c_int,
    complete: *mut c_int,
) -> c_int {
    guard(|| {
        let args = ShapesOut(in_shape_size, in_shape_ndim, in_shape_data);
        let outputs = ShapesOut(out_shape_size, out_shape_ndim, out_shape_data);
        let aux = ShapesOut(aux_shape_size, aux_shape_ndim, aux_shape_data);
        let given = (handle, num_args, keys);
        shapes(
            "MXSymbolInferShapePartialEx",
            given,
            (arg_ind_ptr, arg_shape_data),
            [args, outputs, aux],
            (complete, Partial),
        )
    })
}

/// Like `MXSymbolInferShapePartial`, with 64-bit dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolInferShapePartialEx64(
    handle: SymbolHandle,
    num_args: u32,
    keys: *mut *const c_char,
    arg_ind_ptr: *const i64,
    arg_shape_data: *const i64,
    in_shape_size: *mut usize,
    in_shape_ndim: *mut *const c_int,
    in_shape_data: *mut *mut *const i64,
    out_shape_size: *mut usize,
    out_shape_ndim: *mut *const c_int,
    out_shape_data: *mut *mut *const i64,
    aux_shape_size: *mut usize,
    aux_shape_ndim: *mut *const c_int,
    aux_shape_data: *mut *mut *const i64,
    complete: *mut c_int,
) -> c_int {
    guard(|| {
        let args = ShapesOut(in_shape_size, in_shape_ndim, in_shape_data);
        let outputs = ShapesOut(out_shape_size, out_shape_ndim, out_shape_data);
        let aux = ShapesOut(aux_shape_size, aux_shape_ndim, aux_shape_data);
        let given = (handle, num_args, keys);
        shapes(
            "MXSymbolInferShapePartialEx64",
            given,
            (arg_ind_ptr, arg_shape_data),
            [args, outputs, aux],
            (complete, Partial),
        )
    })
}

/// Infers the element types of arguments, outputs and auxiliary states from those of some arguments; -1 means unknown. `keys` names the
/// arguments, or is null for the first ones in order. The results are valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolInferType(
    handle: SymbolHandle,
    num_args: u32,
    keys: *mut *const c_char,
    arg_type_data: *const c_int,
    in_type_size: *mut u32,
    in_type_data: *mut *const c_int,
    out_type_size: *mut u32,
    out_type_data: *mut *const c_int,
    aux_type_size: *mut u32,
    aux_type_data: *mut *const c_int,
    complete: *mut c_int,
) -> c_int {
    guard(|| {
        let args = TypesOut(in_type_size, in_type_data);
        let outputs = TypesOut(out_type_size, out_type_data);
        let aux = TypesOut(aux_type_size, aux_type_data);
        let given = (handle, num_args, keys, arg_type_data);
        types("MXSymbolInferType", given, [args, outputs, aux], (complete, Full))
    })
}

/// Like `MXSymbolInferType`, but types may remain unknown.
#[unsafe(no_mangle)]
pub extern "C" fn MXSymbolInferTypePartial(
    handle: SymbolHandle,
    num_args: u32,
    keys: *mut *const c_char,
    arg_type_data: *const c_int,
    in_type_size: *mut u32,
    in_type_data: *mut *const c_int,
    out_type_size: *mut u32,
    out_type_data: *mut *const c_int,
    aux_type_size: *mut u32,
    aux_type_data: *mut *const c_int,
    complete: *mut c_int,
) -> c_int {
    guard(|| {
        let args = TypesOut(in_type_size, in_type_data);
        let outputs = TypesOut(out_type_size, out_type_data);
        let aux = TypesOut(aux_type_size, aux_type_data);
        let given = (handle, num_args, keys, arg_type_data);
        types("MXSymbolInferTypePartial", given, [args, outputs, aux], (complete, Partial))
    })
}
