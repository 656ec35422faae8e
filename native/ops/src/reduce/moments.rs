//! `moments`: mean and variance in one pass.

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::{Params, ShapeOrNone};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::float::FloatElement;
use ferromx_kernels::map::{Load, Store};
use ferromx_kernels::movement::transpose;
use ferromx_kernels::norm::{row_moments, row_moments_backward};
use ferromx_kernels::par::with_scratch;

use crate::axes::{Axes, inverse_permutation, reduced, resolve};
use crate::elemwise::family::NUMERIC;
use crate::precision::by_precision;

params! {
    /// Parameters of `moments`.
    pub struct MomentsParam {
        /// The axes to reduce; a negative one counts from the end.
        axes: ShapeOrNone = (ShapeOrNone(None));
        /// Whether reduced axes are kept with length 1.
        keepdims: bool = false;
    }
}

/// Mean and variance.
pub(super) static MOMENTS: Operator<MomentsParam> = Operator::new("moments").names_data()
    .doc(
        "The mean and the (biased) variance over some axes: two outputs, of the shape of the data without these axes. Integers are \
         computed in floating point and truncated.",
    )
    .inputs(&[arg("data", "The array.")])
    .outputs(|_| 2)
    .shape(infer_shape)
    .forward(forward)
    .grad(Grad::Kernel(Backward::new(backward).inputs(Deps::All).outputs(Deps::Some(&[0])), None));

impl MomentsParam {
    fn resolve(&self, ndim: usize) -> Result<Axes> {
        ensure!(
            self.axes.0.as_ref().is_some_and(|axes| !axes.dims().is_empty()),
            "Empty axes is not supported: for moments of all elements give all axes"
        );
        resolve(&self.axes, ndim)
    }
}

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<MomentsParam>();
    ensure!(p.axes.0.as_ref().is_some_and(|axes| !axes.dims().is_empty()), "moments needs axes: give one or more");
    let Some(n) = io.ins[0].ndim() else { return Ok(()) };
    let out = reduced(&io.ins[0], &p.resolve(n)?, p.keepdims);
    (0..2).try_for_each(|i| io.assign_out(i, &out))
}

/// The permutation that moves the reduced axes to the end, and the number of elements that are reduced to one.
fn rows(axes: &Axes, shape: &[usize]) -> (Vec<usize>, usize) {
    let kept = (0..shape.len()).filter(|axis| !axes.contains(axis));
    (kept.chain(axes.iter().copied()).collect(), axes.iter().map(|axis| shape[*axis]).product())
}

/// Calls `f` with the elements after a permutation of the axes.
fn with_permuted<T: FloatElement, R>(x: &[T], shape: &[usize], perm: &[usize], f: impl FnOnce(&[T]) -> R) -> R {
    if perm.is_sorted() {
        return f(x);
    }
    with_scratch(x.len(), |permuted: &mut [T]| {
        transpose(x, shape, perm, permuted);
        f(permuted)
    })
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let shape = ins[0].shape().to_usize();
    let (perm, len) = rows(&ctx.params::<MomentsParam>().resolve(shape.len())?, &shape);
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
        with_permuted(ins[0].slice::<T>()?, &shape, &perm, |x| write_moments(x, len, outs))
    }, dtype => dispatch!(dtype, T in [u8, i8, i32, i64] => {
        with_scratch(ins[0].len(), |wide: &mut [f64]| {
            <T as Load<f64>>::load(ins[0].slice::<T>()?, wide);
            with_permuted(wide, &shape, &perm, |x| write_moments_as::<f64, T>(x, len, outs))
        })
    }, other => Err(ctx.unsupported(other, NUMERIC))))
}

/// Writes mean and variance of rows of `len` elements.
fn write_moments<T: FloatElement>(x: &[T], len: usize, outs: &mut [Out<'_>]) -> Result<()> {
    let [mean, variance] = outs else { return Err(Error::Internal("moments has two outputs".into())) };
    let discarded_len = |out: &Out<'_>| if out.wanted() { 0 } else { out.len() };
    with_scratch(discarded_len(mean), |discarded_mean: &mut [T]| {
        with_scratch(discarded_len(variance), |discarded_variance: &mut [T]| {
            let mean = if mean.wanted() { mean.slice_mut::<T>()? } else { discarded_mean };
            let variance = if variance.wanted() { variance.slice_mut::<T>()? } else { discarded_variance };
            row_moments_or_nan(len, x, mean, variance);
            Ok(())
        })
    })
}

/// Mean and variance of each row; NaN for empty rows.
fn row_moments_or_nan<T: FloatElement>(len: usize, x: &[T], mean: &mut [T], variance: &mut [T]) {
    if len > 0 {
        return row_moments(len, x, mean, variance);
    }
    mean.fill(T::from_f32(f32::NAN));
    variance.fill(T::from_f32(f32::NAN));
}

/// [`write_moments`] for outputs of another type.
fn write_moments_as<T: FloatElement, U: Store<T>>(x: &[T], len: usize, outs: &mut [Out<'_>]) -> Result<()> {
    let num_rows = outs[0].len();
    with_scratch(2 * num_rows, |stats: &mut [T]| {
        let (mean, variance) = stats.split_at_mut(num_rows);
        row_moments_or_nan(len, x, mean, variance);
        for (out, stat) in outs.iter_mut().zip([mean, variance]) {
            if out.wanted() {
                <U as Store<T>>::store(stat, out.slice_mut::<U>()?);
            }
        }
        Ok(())
    })
}

/// Inputs: gradients of mean and variance, data, mean. Output: gradient of the data.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    if !outs[0].wanted() {
        return Ok(());
    }
    let shape = ins[2].shape().to_usize();
    let (perm, len) = rows(&ctx.params::<MomentsParam>().resolve(shape.len())?, &shape);
    by_precision!((ins, outs), ins[2].dtype(), T for [F16, BF16] => {
        let (x, mean) = (ins[2].slice::<T>()?, ins[3].slice::<T>()?);
        let head_grads = [ins[0].slice::<T>()?, ins[1].slice::<T>()?];
        let dx = outs[0].slice_mut::<T>()?;
        if perm.is_sorted() {
            row_moments_backward(len, x, mean, head_grads, dx);
            return Ok(());
        }
        with_permuted(x, &shape, &perm, |x| with_scratch(x.len(), |permuted: &mut [T]| {
            row_moments_backward(len, x, mean, head_grads, permuted);
            let permuted_shape: Axes = perm.iter().map(|axis| shape[*axis]).collect();
            transpose(permuted, &permuted_shape, &inverse_permutation(&perm), dx);
        }));
        Ok(())
    }, dtype => dispatch!(dtype, T in [u8, i8, i32, i64] => {
        backward_of_integers::<T>(ins, &mut outs[0], (&shape, &perm, len))
    }, other => Err(ctx.unsupported(other, NUMERIC))))
}

/// The gradient of integers, whose two terms are truncated.
fn backward_of_integers<T: Store<f64> + Load<f64>>(
    ins: &[In<'_>],
    dx: &mut Out<'_>,
    (shape, perm, len): (&[usize], &[usize], usize),
) -> Result<()> {
    let (d_mean, d_variance) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?);
    let (x, mean) = (ins[2].slice::<T>()?, ins[3].slice::<T>()?);
    let permuted_shape: Axes = perm.iter().map(|axis| shape[*axis]).collect();
    with_scratch(3 * x.len(), |scratch: &mut [f64]| {
        let (wide, rest) = scratch.split_at_mut(x.len());
        let (permuted, gradients) = rest.split_at_mut(x.len());
        <T as Load<f64>>::load(x, wide);
        transpose(wide, shape, perm, permuted);
        for (row, values) in permuted.chunks_mut(len.max(1)).enumerate() {
            let (n, mean): (f64, f64) = (len as f64, mean[row].lane());
            let (d_mean, d_variance): (f64, f64) = (d_mean[row].lane(), d_variance[row].lane());
            for x in values {
                *x = (d_mean / n).trunc() + (2.0 * (*x - mean) * d_variance / n).trunc();
            }
        }
        transpose(permuted, &permuted_shape, &inverse_permutation(perm), gradients);
        <T as Store<f64>>::store(gradients, dx.slice_mut::<T>()?);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};
    use ferromx_core::shape::Shape;

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x = || array(&(0..24).map(|i| f64::from(i * 7 % 13)).collect::<Vec<_>>(), &[2, 3, 4]);
        for axes in ["(2,)", "(0,)", "(0, -1)", "(1,)", "(0, 1, 2)"] {
            Case::new(&MOMENTS, &[("axes", axes)]).check_gradient(&[x()]);
            Case::new(&MOMENTS, &[("axes", axes), ("keepdims", "True")]).check_gradient(&[x()]);
        }
    }

    #[test]
    fn moments_of_integers_are_truncated_and_axes_are_required() {
        let x = array(&[0i32, 1, 2, 3, 4, 6], &[2, 3]);
        let outs = Case::new(&MOMENTS, &[("axes", "(1,)")]).run(&[x]).unwrap();
        assert_eq!(outs[0].to_vec::<i32>().unwrap(), [1, 4]);
        assert_eq!(outs[1].to_vec::<i32>().unwrap(), [0, 1]);
        assert!(Case::new(&MOMENTS, &[]).shapes(&[Shape::new(&[2, 3])]).is_err());
    }
}
