//! AdaGrad with one learning rate per row.

use ferromx_core::dispatch;
use ferromx_core::dtype::{DType, f16};
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::group_adagrad::GroupAdaGrad;

use super::family::bound;
use crate::sparse::{lazy_update, lazy_update_rule};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&GROUP_ADAGRAD_UPDATE];

params! {
    /// Parameters of `_contrib_group_adagrad_update`.
    pub struct GroupAdaGradParam {
        /// The learning rate.
        lr: f32 = required;
        /// The gradient is multiplied by this before clipping.
        rescale_grad: f32 = 1.0;
        /// The rescaled gradient is clipped to [-clip_gradient, clip_gradient]; a negative number disables clipping.
        clip_gradient: f32 = (-1.0);
        /// A small constant for numerical stability.
        epsilon: f32 = 1e-5;
    }
}

pub(super) static GROUP_ADAGRAD_UPDATE: Operator<GroupAdaGradParam> = Operator::new("_contrib_group_adagrad_update")
    .doc(
        "A step of AdaGrad with one step size for each row, which suits embeddings: with g = clip(rescale_grad * grad), the history of a \
         row grows by the mean of its g^2, and the result is weight - lr * g / sqrt(history + epsilon). With a row_sparse gradient only \
         the rows it has are updated (Duchi et al., 2011).",
    )
    .inputs(&[
        arg("weight", "The weight, of shape (n, ...)."),
        arg("grad", "Its gradient."),
        arg("history", "The accumulated mean squares of the gradient of each row, of shape (n, 1)."),
    ])
    .mutates(&[2])
    .shape(|_, io| {
        let mut weight = io.ins[0].clone();
        for known in [io.ins[1].clone(), io.outs[0].clone()] {
            if weight.assign(&known) {
                continue;
            }
            ensure!(false, "weight has shape {weight}, but its gradient or the output has shape {known}: they must be equal");
        }
        io.assign_in(0, &weight)?;
        io.assign_in(1, &weight)?;
        io.assign_out(0, &weight)?;
        let Some(rank) = weight.ndim() else { return Ok(()) };
        ensure!(rank > 0, "weight must have one axis or more");
        let history = io.ins[2].clone();
        if !history.ndim_is_known() {
            return io.assign_in(2, &Shape::new(&[weight.dim(0), 1]));
        }
        ensure!(
            !history.is_known() || weight.dim(0) < 0 || history.num_elements() as i64 == weight.dim(0),
            "history of shape {history} must have one element for each row of the weight of shape {weight}"
        );
        Ok(())
    })
    .sparse(lazy_update_rule, lazy_update)
    .forward(forward)
    .inplace(&[(0, 0)]);

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<GroupAdaGradParam>();
    let [out, history] = outs else { return Ok(()) };
    if !out.wanted() {
        return Ok(());
    }
    if ins[0].shared_with().is_none() {
        out.bytes_mut()?.copy_from_slice(ins[0].bytes()?);
    }
    let len = ins[0].len().checked_div(history.len()).unwrap_or(0);
    let step = GroupAdaGrad {
        lr: p.lr.into(),
        rescale: p.rescale_grad.into(),
        bound: bound(p.clip_gradient).into(),
        epsilon: p.epsilon.into(),
    };
    dispatch!(ins[0].dtype(), T in [f32, f64, f16] => {
        step.step((out.slice_mut::<T>()?, len), ins[1].slice::<T>()?, history.slice_mut::<T>()?);
        Ok(())
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close};

    #[test]
    fn elements_of_a_row_share_a_learning_rate() {
        let (w, g, h) = (array(&[1.0, 2.0], &[1, 2]), array(&[1.0, -4.0], &[1, 2]), array(&[1.0], &[1, 1]));
        let case =
            Case::new(&GROUP_ADAGRAD_UPDATE, &[("lr", "0.1"), ("rescale_grad", "0.5"), ("clip_gradient", "1.5")]);
        let out = case.run1(&[w, g, h.clone()]).unwrap().to_vec::<f64>().unwrap();
        let history = 1.0 + (0.25 + 2.25) / 2.0;
        let rate = 0.1 / (history + 1e-5f64).sqrt();
        close(&out, &[1.0 - rate * 0.5, 2.0 + rate * 1.5], 1e-7);
        close(&h.to_vec::<f64>().unwrap(), &[history], 1e-12);
    }

    #[test]
    fn the_history_has_one_element_per_row() {
        let case = Case::new(&GROUP_ADAGRAD_UPDATE, &[("lr", "1")]);
        let (ins, _) = case.shapes_both(&[[3, 2].into(), Shape::unknown(), Shape::unknown()], &[]).unwrap();
        assert_eq!(ins[2], [3, 1].into());
        let e = case.shapes(&[[3, 2].into(), [3, 2].into(), [2, 1].into()]).unwrap_err().to_string();
        assert!(e.contains("history of shape [2,1]"), "{e}");
    }
}
