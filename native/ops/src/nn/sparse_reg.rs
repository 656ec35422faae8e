//! `IdentityAttachKLSparseReg`: the identity, with a sparsity penalty in the gradient.

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params;
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::sparse_reg::{blend_column_means, sparse_reg_backward};

use crate::precision::by_precision;

params! {
    /// Parameters of `IdentityAttachKLSparseReg`.
    pub struct SparseRegParam {
        /// The target of the mean activation, between 0 and 1.
        sparseness_target: f32 = 0.1, where 0.0..=1.0;
        /// Weight of the penalty.
        penalty: f32 = 0.001;
        /// The momentum of the moving mean: the fraction that a training step keeps.
        momentum: f32 = 0.9, where 0.0..=1.0;
    }
}

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

pub(super) static IDENTITY_ATTACH_KL_SPARSE_REG: Operator<SparseRegParam> = Operator::new("IdentityAttachKLSparseReg").legacy()
    .doc(
        "Copies the activations of sigmoid units, and adds to their gradient that of a penalty for units that are active too often: \
         the Kullback-Leibler divergence between sparseness_target and the mean activation m of each unit (Ng, \"Sparse \
         autoencoder\", 2011), penalty * ((1 - target) / (1 - m) - target / m). m is a moving mean, the auxiliary state moving_avg: \
         the backward pass sets it to m * momentum + mean of the batch * (1 - momentum).\n\n\
         Shapes: data and output (batch, units), moving_avg (units,).",
    )
    .inputs(&[
        arg("data", "The activations, between 0 and 1, of shape (batch, units)."),
        arg("moving_avg", "The moving mean of each unit, updated by the backward pass."),
    ])
    .listed(1)
    .mutates(&[1])
    .input_init(&[(1, "[\"zero\", {}]")])
    .shape(infer_shape)
    .forward(forward)
    .grad(Grad::Kernel(Backward::new(backward).inputs(Deps::All).updates(&[2]), None));

fn infer_shape(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let out = io.outs[0].clone();
    io.assign_in(0, &out)?;
    let data = io.ins[0].clone();
    let Some(n) = data.ndim() else { return Ok(()) };
    ensure!(n == 2, "IdentityAttachKLSparseReg takes data of shape (batch, units), not {data}: flatten it");
    let units = Shape::new(&[data.dim(1)]);
    io.assign_in(1, &units)?;
    io.assign_out(0, &data)
}

fn forward(_: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    outs[0].bytes_mut()?.copy_from_slice(ins[0].bytes()?);
    Ok(())
}

/// Inputs: gradient of the output, activations, their moving mean. Outputs: gradient of the data, the moving mean.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<SparseRegParam>();
    by_precision!((ins, outs), ins[1].dtype(), T for [F16, BF16] => {
        let [grad, moving] = outs else {
            return Err(Error::Internal("the gradient of IdentityAttachKLSparseReg has an output and a state".into()));
        };
        let moving = moving.slice_mut::<T>()?;
        blend_column_means(f64::from(p.momentum), ins[1].slice::<T>()?, moving);
        if grad.wanted() {
            let (target, penalty) = (f64::from(p.sparseness_target), f64::from(p.penalty));
            sparse_reg_backward(target, penalty, moving, ins[0].slice::<T>()?, grad.slice_mut::<T>()?);
        }
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close};

    #[test]
    fn the_backward_pass_updates_the_moving_mean_and_adds_the_penalty() {
        let case = Case::new(&IDENTITY_ATTACH_KL_SPARSE_REG, &[("penalty", "0.5"), ("momentum", "0.5")]).train();
        let x = array(&[0.2, 0.4, 0.6, 0.8], &[2, 2]);
        let state = array(&[0.1, 0.2], &[2]);
        let y = case.run1(&[x.clone(), state.clone()]).unwrap().to_vec::<f64>().unwrap();
        assert_eq!(y, [0.2, 0.4, 0.6, 0.8]);
        assert_eq!(state.to_vec::<f64>().unwrap(), [0.1, 0.2]);
        let head = array(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
        let grad = case.backward(&[x, state.clone()], &[head]).unwrap()[0].to_vec::<f64>().unwrap();
        close(&state.to_vec::<f64>().unwrap(), &[0.25, 0.4], 1e-7);
        let penalty_gradient = |m: f64| 0.5 * (0.9 / (1.0 - m) - 0.1 / m);
        let (a, b) = (penalty_gradient(0.25), penalty_gradient(0.4));
        close(&grad, &[1.0 + a, 2.0 + b, 3.0 + a, 4.0 + b], 1e-6);
    }
}
