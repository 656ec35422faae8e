//! Operators that read and write elements whose places are given by index arrays.
//!
//! Index arrays may have any element type; fractions are cut off. No gradient flows to them.

mod nd;
mod one_hot;
mod pick;
mod places;
mod ravel;
pub(crate) mod take;

pub(crate) use take::{EmbeddingParam, TakeMode, TakeParam};

use ferromx_core::dispatch;
use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::infer::DTypeIo;
use ferromx_core::op::{OpCtx, OpDef};
use ferromx_core::params::Params;
use ferromx_core::storage::In;
use ferromx_kernels::index::{self, BadIndex, Bounds};

use crate::rules::no_gradient;

/// The operators of this family.
pub static OPS: &[&OpDef] = &[
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
    &places::INDEX_ARRAY,
    &places::INDEX_COPY,
    &places::BACKWARD_INDEX_COPY,
    &places::FILL_ELEMENT_0INDEX,
    &places::ONEHOT_ENCODE,
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
        e.index, e.place, e.len
    ))
}

/// The row numbers that an index array means on an axis of length `len`.
pub(crate) fn row_numbers(ctx: &OpCtx<'_>, indices: &In<'_>, len: usize, bounds: Bounds) -> Result<Vec<usize>> {
    index_type!(ctx, indices.dtype(), |I| index::rows(indices.slice::<I>()?, len, bounds).map_err(bad_index))
}

/// The data and the output have one type; the indices have any.
pub(crate) fn data_dtype(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    match io.ins[0].or(io.outs[0]) {
        Some(d) => {
            io.assign_in(0, d)?;
            io.assign_out(0, d)
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
