//! `one_hot`.

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::op::{OpCtx, Operator, arg};
use ferromx_core::params::NumDType;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, params};
use ferromx_kernels::index;
use ferromx_kernels::map::Load;

use super::index_type;
use crate::elemwise::family::NUMERIC;

params! {
    /// Parameters of `one_hot`.
    pub struct OneHotParam {
        /// The length of the vectors.
        depth: i32 = required, where 0..=i32::MAX;
        /// The value at the index.
        on_value: f64 = 1.0;
        /// The value everywhere else.
        off_value: f64 = 0.0;
        /// The type of the result.
        dtype: NumDType = (NumDType(DType::F32));
    }
}

pub(super) static ONE_HOT: Operator<OneHotParam> = Operator::new("one_hot")
    .aliases(&["_npx_one_hot"])
    .doc("A vector of length depth for each index: on_value at the index, off_value elsewhere. Indices out of range give only off_value.")
    .inputs(&[arg("indices", "The indices, of any shape.")])
    .shape(|p, io| {
        if !io.ins[0].ndim_is_known() {
            return Ok(());
        }
        let mut dims: Dims = io.ins[0].dims().into();
        dims.push(i64::from(p.get::<OneHotParam>().depth));
        io.assign_out(0, &Shape::from(dims))
    })
    .dtype(|p, io| io.assign_out(0, p.get::<OneHotParam>().dtype.0))
    .forward(one_hot)
    .grad(Grad::Zero);

fn one_hot(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<OneHotParam>();
    let depth = p.depth as usize;
    // Indices are converted to int64, so that the kernel is compiled once per type of the result.
    let indices: Vec<i64> = index_type!(ctx, ins[0].dtype(), |I| Ok::<_, Error>(
        ins[0].slice::<I>()?.iter().map(|i| Load::<i64>::lane(*i)).collect()
    ))?;
    dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        let (on, off) = (<T as Element>::from_f64(p.on_value), <T as Element>::from_f64(p.off_value));
        index::one_hot(&indices, depth, on, off, outs[0].slice_mut::<T>()?);
        Ok(())
    }, d => Err(ctx.unsupported(d, NUMERIC)))
}
