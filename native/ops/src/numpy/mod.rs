//! The operators of MXNet's NumPy interface. They follow NumPy where it differs from MXNet's older operators: operands of
//! different types are promoted, comparisons return booleans, and a result without axes has the shape ().

pub(crate) mod binary;
pub(crate) mod compare;
mod diagonal;
mod discrete;
mod dynamic;
mod einsum;
mod init;
mod insert;
mod joins;
mod misc;
pub(crate) mod moves;
pub(crate) mod pad;
mod products;
mod random;
mod reduce;
mod running;
mod scalar;
pub(crate) mod select;
mod stats;
pub(crate) mod unary;
pub(crate) mod views;

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::op::OpDef;

use crate::elemwise::family::{elements, elements_mut};

/// Functions of one array.
pub static UNARY: &[&OpDef] = unary::OPS;
/// Arithmetic of two arrays.
pub static BINARY: &[&OpDef] = binary::OPS;
/// Comparisons of two arrays, or of an array and a number.
pub static COMPARE: &[&OpDef] = compare::OPS;
/// Arithmetic of an array and a number.
pub static SCALAR: &[&OpDef] = scalar::OPS;

/// Sums, extremes, argmax and argmin.
pub static REDUCE: &[&OpDef] = reduce::OPS;
/// Reshapes.
pub static VIEWS: &[&OpDef] = views::OPS;
/// Transposes, flips, rolls and broadcasts.
pub static MOVES: &[&OpDef] = moves::OPS;
/// Diagonals.
pub static DIAGONAL: &[&OpDef] = diagonal::OPS;

/// Concatenation and splits.
pub static JOINS: &[&OpDef] = joins::OPS;
/// Array creation.
pub static INIT: &[&OpDef] = init::OPS;
/// `where`.
pub static SELECT: &[&OpDef] = select::OPS;

/// Variance, averages, percentiles.
pub static STATS: &[&OpDef] = stats::OPS;
/// Cumulative sums and differences.
pub static RUNNING: &[&OpDef] = running::OPS;

/// `dot`, `matmul`, `tensordot`.
pub static PRODUCTS: &[&OpDef] = products::OPS;

/// Operators with data-dependent output shapes.
pub static DYNAMIC: &[&OpDef] = dynamic::OPS;
/// Checks, special values, polynomials, masks.
pub static MISC: &[&OpDef] = misc::OPS;

/// Einstein notation.
pub static EINSUM: &[&OpDef] = einsum::OPS;

/// `insert`.
pub static INSERT: &[&OpDef] = insert::OPS;
/// Padding.
pub static PAD: &[&OpDef] = pad::OPS;
/// Random numbers of continuous distributions.
pub static RANDOM: &[&OpDef] = random::OPS;
/// Random integers.
pub static DISCRETE: &[&OpDef] = discrete::OPS;

/// The type to which two operands are promoted: the wider floating-point type, a floating-point type over an integer, the wider
/// integer, any type over bool.
///
/// # Errors
/// int8 and uint8, which have no common type.
fn promote(a: DType, b: DType) -> Result<DType> {
    let wider = |a: DType, b: DType| if a.size() >= b.size() { a } else { b };
    Ok(match (a, b) {
        (a, b) if a == b => a,
        (DType::Bool, other) | (other, DType::Bool) => other,
        (DType::F16, DType::BF16) | (DType::BF16, DType::F16) => DType::F32,
        (a, b) if a.is_float() && b.is_float() => wider(a, b),
        (a, _) if a.is_float() => a,
        (_, b) if b.is_float() => b,
        (DType::U8, DType::I8) | (DType::I8, DType::U8) => {
            return Err(Error::Value("arrays of types int8 and uint8 have no common type: convert one of them".into()));
        }
        (a, b) => wider(a, b),
    })
}
