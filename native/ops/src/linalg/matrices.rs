//! Shape, type and error helpers of the matrix operators. Matrices are in the last two axes; all others are batch axes.

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::infer::{DTypeIo, ShapeIo, same_shape};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::In;
use ferromx_kernels::linalg::Scalar;
use ferromx_kernels::map::{self, AnyElement};
use ferromx_kernels::par::with_scratch;

use crate::elemwise::family::elements;

/// The element types of matrices.
pub(super) const TYPES: &[DType] = &[DType::F32, DType::F64];

/// Evaluates `$body` with `$T` bound to the element type for `$dtype`, `f32` or `f64`.
macro_rules! matrix_type {
    ($ctx:expr, $dtype:expr, |$T:ident| $body:expr) => {
        ferromx_core::dispatch!($dtype, $T in [f32, f64] => $body, d => Err($ctx.unsupported(d, matrices::TYPES)))
    };
}
pub(super) use matrix_type;

/// Checks that an operand of known rank has at least two axes.
pub(super) fn check_rank(shape: &Shape, name: &str) -> Result<()> {
    ensure!(shape.ndim().is_none_or(|n| n >= 2), "{name} must have at least two axes, but has shape {shape}");
    Ok(())
}

/// Checks that the matrices of an operand are square, if its shape is known.
pub(super) fn check_square(shape: &Shape, name: &str) -> Result<()> {
    check_rank(shape, name)?;
    if let [.., rows, cols] = *shape.dims() {
        ensure!(rows == cols || rows < 0 || cols < 0, "{name} must hold square matrices, but has shape {shape}");
    }
    Ok(())
}

/// Shape rule: input and output are square matrices of the same shape.
pub(super) fn square_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    same_shape(p, io)?;
    check_square(&io.ins[0], "A")
}

/// The shape with its last `num_axes` axes replaced by `new`; () becomes (1,).
pub(super) fn replace_last_axes(shape: &Shape, num_axes: usize, new: &[i64]) -> Shape {
    let mut dims = shape.dims()[..shape.dims().len() - num_axes].to_vec();
    dims.extend_from_slice(new);
    if dims.is_empty() {
        dims.push(1);
    }
    Shape::new(&dims)
}

/// Matrix `i` of a batch of matrices of `len` elements.
pub(super) fn batch_item<T>(data: &[T], i: usize, len: usize) -> &[T] {
    &data[i * len..(i + 1) * len]
}

/// The error for matrix `i` of A, such as "matrix 0 of A is singular".
pub(super) fn matrix_error(message: &str, i: usize) -> Error {
    Error::Value(format!("matrix {i} of A {message}"))
}

/// Type rule: float32 if all operands are float32, otherwise float64; integers are converted.
pub(super) fn linalg_dtype(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    for d in io.ins.iter().flatten() {
        ensure!(
            !d.is_half() && *d != DType::Bool,
            "linear algebra takes arrays of type float32, float64 or of an integer type, not {d}: convert them"
        );
    }
    if io.ins.iter().any(Option::is_none) {
        return Ok(());
    }
    let all_float32 = io.ins.iter().all(|d| *d == Some(DType::F32));
    let d = if all_float32 { DType::F32 } else { DType::F64 };
    (0..io.outs.len()).try_for_each(|k| io.assign_out(k, d))
}

/// An element type to which operands are converted for the computation.
pub(super) trait LinalgElement: Scalar + AnyElement {}

impl LinalgElement for f32 {}
impl LinalgElement for f64 {}

/// Copies the elements of an operand, converted to `T`.
pub(super) fn copy_converted<T: LinalgElement>(x: &In<'_>, out: &mut [T]) -> Result<()> {
    with_converted(x, |x| {
        out.copy_from_slice(x);
        Ok(())
    })
}

/// Calls `f` with the elements of an operand converted to `T`.
pub(super) fn with_converted<T: LinalgElement, R>(x: &In<'_>, f: impl FnOnce(&[T]) -> Result<R>) -> Result<R> {
    if x.dtype() == T::DTYPE {
        return f(x.slice()?);
    }
    with_scratch(x.len(), |converted: &mut [T]| {
        map::cast(elements(x)?, T::elements_mut(converted));
        f(converted)
    })
}
