//! Operators that gather and scatter elements at the indices in an array.
//!
//! Index arrays may have any dtype; fractions are truncated. No gradient flows to them.
//!
//! - `take` looks up rows, for `take` and `Embedding`; `pick` takes one element of each row.
//! - `nd` gathers and scatters at coordinates; `ravel` converts coordinates to flat indices and back.
//! - `one_hot` and `nonzero` convert indices to arrays and arrays to indices.
//! - `assign` replaces rows and elements at indices, `mask` those that a mask selects.
//! - `insert` and `delete` lengthen and shorten an axis.
//! - `sparse` has the sparse forms of `take` and of the gradient of `Embedding`.

mod assign;
pub(crate) mod delete;
mod insert;
mod mask;
mod nd;
mod nonzero;
mod one_hot;
mod pick;
mod ravel;
mod sparse;
pub(crate) mod take;

use ferromx_core::dispatch;
use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::op::{AnyOperator, OpCtx};
use ferromx_core::storage::In;
use ferromx_kernels::index::{self, BadIndex, Bounds};

use crate::rules::no_gradient;

/// The operators of this family.
pub(crate) static OPS: &[&[&dyn AnyOperator]] = &[
    &[
        &take::EMBEDDING,
        &take::SPARSE_EMBEDDING,
        &take::TAKE,
        &pick::PICK,
        &pick::BATCH_TAKE,
        &one_hot::ONE_HOT,
        &nd::GATHER_ND,
        &nd::SCATTER_ND,
        &nd::SCATTER_SET_ND,
        &ravel::RAVEL_MULTI_INDEX,
        &ravel::UNRAVEL_INDEX,
        &assign::INDEX_ARRAY,
        &assign::INDEX_COPY,
        &assign::BACKWARD_INDEX_COPY,
        &assign::FILL_ELEMENT_0INDEX,
        &assign::ONEHOT_ENCODE,
    ],
    delete::OPS,
    insert::OPS,
    mask::OPS,
    nonzero::OPS,
];

/// Runs `$body` with `$I` bound to the element type of an index array.
macro_rules! index_type {
    ($ctx:expr, $dtype:expr, |$I:ident| $body:expr) => {
        dispatch!($dtype, $I in [f32, i32, i64, f64, f16, bf16, u8, i8, bool] => $body,
            d => Err($ctx.unsupported(d, &DType::ALL)))
    };
}
use index_type;

fn bad_index(e: BadIndex) -> Error {
    Error::Value(format!(
        "index {} (element {} of the indices) is out of bounds for an axis of length {}",
        e.index, e.position, e.len
    ))
}

/// The elements of an index array as indices into an axis of length `len`, checked or adjusted as `bounds` says.
pub(crate) fn row_indices(ctx: &OpCtx<'_>, indices: &In<'_>, len: usize, bounds: Bounds) -> Result<Vec<usize>> {
    index_type!(ctx, indices.dtype(), |I| index::rows(indices.slice::<I>()?, len, bounds).map_err(bad_index))
}

#[cfg(test)]
mod tests;
