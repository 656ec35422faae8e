//! `Dropout`.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{ShapeIo, same_shape};
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, param_enum, params};
use ferromx_kernels::broadcast::broadcast;
use ferromx_kernels::dropout::dropout_mask;
use ferromx_kernels::float::FloatElement;
use ferromx_kernels::map::{Lane, Load, Src, Store};
use ferromx_kernels::math;
use ferromx_kernels::par::with_scratch;
use ferromx_kernels::rng::Philox;

use crate::elemwise::family::src;
use crate::movement::copy_unless_in_place;

param_enum! {
    /// When dropout is active.
    pub enum Mode { Always = "always", Training = "training" }
}

params! {
    /// Parameters of `Dropout`.
    pub struct DropoutParam {
        /// The probability with which an element becomes 0.
        p: f32 = 0.5, where 0.0..=1.0;
        /// Whether elements are dropped in training only, or always.
        mode: Mode = (Mode::Training);
        /// The axes along which elements share one random decision.
        axes: Shape = (Shape::new(&[]));
        /// Accepted for compatibility; cuDNN is never used.
        cudnn_off: Option<bool> = (Some(false));
    }
}

pub(super) static DROPOUT: Operator<DropoutParam> = Operator::new("Dropout").names_data().names_outputs()
    .aliases(&["_npx_dropout"])
    .doc(
        "In training, sets elements to 0 with the probability p and multiplies the others by 1 / (1 - p), so that the expectation \
         stays; otherwise it returns its input (Srivastava et al., 2014).",
    )
    .inputs(&[arg("data", "The input, of a floating-point type.")])
    .outputs(|_| 2)
    .visible(|_| 1)
    .output_names_by(|_| vec!["output".into(), "mask".into()])
    .shape(infer_shape)
    .forward(forward)
    .grad(Grad::Kernel(
        Backward::new(backward).outputs(Deps::Some(&[1])).inplace(&[(0, 0)]),
        Some(|_, n| {
            // Whether the graph runs in training is unknown here; with p = 0 it does not matter.
            if n.params.get::<DropoutParam>().p > 0.0 {
                return Err(Error::NotDifferentiable("Dropout with p > 0 (a second time)".into()));
            }
            Ok(vec![Some(n.ograds[0])])
        }),
    ))
    .inplace(&[(0, 0)])
    .random();

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    same_shape(p, &mut ShapeIo { ins: &mut *io.ins, outs: &mut io.outs[..1] })?;
    let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
    let mut mask = io.ins[0].clone();
    for axis in p.get::<DropoutParam>().axes.dims() {
        let axis = Shape::axis(*axis, rank)?;
        if let Some(dims) = mask.dims_mut() {
            dims[axis] = 1;
        }
    }
    io.assign_out(1, &mask)
}

/// True if this call drops elements.
fn is_active(ctx: &OpCtx<'_>) -> bool {
    let p = ctx.params::<DropoutParam>();
    p.p > 0.0 && (ctx.is_train || p.mode == Mode::Always)
}

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    dispatch!(ins[0].dtype(), T in [f32, f16, bf16] => forward_as::<T, f32>(ctx, ins, outs), d => {
        dispatch!(d, T in [f64] => forward_as::<T, f64>(ctx, ins, outs), d => Err(ctx.unsupported(d, TYPES)))
    })
}

fn forward_as<T, C>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()>
where
    T: FloatElement + Load<C> + Store<C> + Store<f32>,
    C: Lane + math::MathFloat,
{
    let [out, mask] = outs else { return Err(Error::Internal("Dropout has two outputs".into())) };
    if !is_active(ctx) {
        // `backward()` runs in training mode by default, even after `record(train_mode=False)`, and then reads the mask.
        if mask.wanted() {
            mask.slice_mut::<T>()?.fill(T::from_f64(1.0));
        }
        return copy_unless_in_place(&ins[0], out);
    }
    let key = ctx.random.next_key();
    let random = Philox::new(key.seed, key.stream);
    let p = f64::from(ctx.params::<DropoutParam>().p);
    let shape = mask.shape().to_usize();
    let discarded_len = if mask.wanted() { 0 } else { mask.len() };
    with_scratch(discarded_len, |discarded: &mut [T]| {
        let mask = if mask.wanted() { mask.slice_mut::<T>()? } else { discarded };
        dropout_mask(&random, p, mask);
        apply_mask::<T, C>(&ins[0], mask, &shape, out)
    })
}

fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    dispatch!(ins[0].dtype(), T in [f32, f16, bf16] => backward_as::<T, f32>(ctx, ins, outs), d => {
        dispatch!(d, T in [f64] => backward_as::<T, f64>(ctx, ins, outs), d => Err(ctx.unsupported(d, TYPES)))
    })
}

fn backward_as<T, C>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()>
where
    T: FloatElement + Load<C> + Store<C>,
    C: Lane + math::MathFloat,
{
    if !is_active(ctx) {
        return copy_unless_in_place(&ins[0], &mut outs[0]);
    }
    apply_mask::<T, C>(&ins[0], ins[1].slice()?, &ins[1].shape().to_usize(), &mut outs[0])
}

#[inline(always)]
fn product<C: math::MathFloat>(x: C, mask: C) -> C {
    x * mask
}

/// `out = x * mask`, with the mask broadcast.
fn apply_mask<T, C>(x: &In<'_>, mask: &[T], mask_shape: &[usize], out: &mut Out<'_>) -> Result<()>
where
    T: FloatElement + Load<C> + Store<C>,
    C: Lane + math::MathFloat,
{
    let shape = out.shape().to_usize();
    let x = src::<T>(x)?;
    let out = out.slice_mut::<T>()?;
    broadcast((x, &shape), (Src::Slice(mask), mask_shape), (out, &shape), product::<C>);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn training_drops_about_p_of_the_elements_and_scales_the_rest() {
        let x = array(&[3f32; 4000], &[40, 100]);
        let y = Case::new(&DROPOUT, &[("p", "0.25")])
            .train()
            .run1(std::slice::from_ref(&x))
            .unwrap()
            .to_vec::<f32>()
            .unwrap();
        assert!(y.iter().all(|y| *y == 0.0 || (*y - 4.0).abs() < 1e-5));
        let dropped = y.iter().filter(|y| **y == 0.0).count();
        assert!((800..1200).contains(&dropped), "{dropped} of 4000");
        assert_eq!(Case::new(&DROPOUT, &[]).run1(&[x]).unwrap().to_vec::<f32>().unwrap(), [3.0; 4000]);
    }

    #[test]
    fn axes_drop_their_elements_together_and_the_gradient_reuses_the_mask() {
        let x = array(&[1f64; 60], &[20, 3]);
        let case = Case::new(&DROPOUT, &[("axes", "(1,)"), ("mode", "always")]);
        let y = case.run1(std::slice::from_ref(&x)).unwrap().to_vec::<f64>().unwrap();
        assert!(y.chunks(3).all(|row| row.iter().all(|y| *y == row[0])));
        assert_eq!(
            case.backward(std::slice::from_ref(&x), std::slice::from_ref(&x)).unwrap()[0].to_vec::<f64>().unwrap(),
            y
        );
    }
}
