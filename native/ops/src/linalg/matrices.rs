//! What the operators on matrices share: the matrices are the last two axes, all others count them.

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::infer::{ShapeIo, same_shape};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};

/// The element types of matrices.
pub const TYPES: &[DType] = &[DType::F32, DType::F64];

/// Runs `$body` with `$T` bound to the element type of matrices.
macro_rules! matrix_type {
    ($ctx:expr, $dtype:expr, |$T:ident| $body:expr) => {
        ferromx_core::dispatch!($dtype, $T in [f32, f64] => $body, d => Err($ctx.unsupported(d, matrices::TYPES)))
    };
}
pub(super) use matrix_type;

/// Rows and columns of the matrices of an operand; 0 x 0 for what is no matrix.
pub fn size(shape: &Shape) -> (usize, usize) {
    match *shape.dims() {
        [.., rows, cols] => (rows.max(0) as usize, cols.max(0) as usize),
        _ => (0, 0),
    }
}

/// Checks that an operand consists of matrices, as far as its shape is known.
pub fn check(shape: &Shape, name: &str) -> Result<()> {
    ensure!(shape.ndim().is_none_or(|n| n >= 2), "{name} must have two axes or more, but has shape {shape}");
    Ok(())
}

/// Checks that an operand consists of square matrices, as far as its shape is known.
pub fn check_square(shape: &Shape, name: &str) -> Result<()> {
    check(shape, name)?;
    if let [.., rows, cols] = *shape.dims() {
        ensure!(rows == cols || rows < 0 || cols < 0, "{name} must be square matrices, but has shape {shape}");
    }
    Ok(())
}

/// Square matrices give square matrices.
pub fn square_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    same_shape(p, io)?;
    check_square(&io.ins[0], "A")
}

/// The shape without its last axes, and others in their place; a single number has shape (1,).
pub fn replaced(shape: &Shape, drop: usize, with: &[i64]) -> Shape {
    let mut dims = shape.dims()[..shape.dims().len() - drop].to_vec();
    dims.extend_from_slice(with);
    if dims.is_empty() {
        dims.push(1);
    }
    Shape::new(&dims)
}

/// Copies the input to the output, unless they are the same memory.
pub fn start_from(x: &In<'_>, out: &mut Out<'_>) -> Result<()> {
    if x.shared_with().is_none() {
        out.bytes_mut()?.copy_from_slice(x.bytes()?);
    }
    Ok(())
}

/// The error for a matrix that an operator cannot work with.
pub fn unfit(what: &str, matrix: usize) -> Error {
    Error::Value(format!("matrix {matrix} of A {what}"))
}
