//! Fourier transforms and count sketches along the last axis.

use ferromx_core::dtype::Element;
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::op::{AnyOperator, Deps, OpCtx, Operator, arg};
use ferromx_core::params;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::fft::{inverse_transform_rows, transform_rows};
use ferromx_kernels::linalg::Scalar;
use ferromx_kernels::sketch::SketchHash;

use super::matrices::{self, matrix_type, replace_last_axes};
use crate::compose::op;
use crate::rules::no_gradient;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&FFT, &IFFT, &COUNT_SKETCH];

params! {
    /// Parameters of `_contrib_fft` and `_contrib_ifft`.
    pub struct FftParam {
        /// Number of rows that a GPU transforms at a time; ignored on CPU.
        compute_size: i32 = 128;
    }
}

/// The length of the last axis.
fn last_axis_len(x: &In<'_>) -> usize {
    x.shape().dims().last().map_or(0, |n| (*n).max(0) as usize)
}

pub(crate) static FFT: Operator<FftParam> = Operator::new("_contrib_fft")
    .doc(
        "The discrete Fourier transform of the last axis: for real data of shape (..., d) the result has shape (..., 2 d), with the real \
         and imaginary parts of X[k] = sum of data[j] exp(-2 pi i j k / d) interleaved.",
    )
    .inputs(&[arg("data", "Real numbers.")])
    .shape(|_, io| {
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        ensure!(rank > 0, "data must have at least one axis");
        let d = io.ins[0].dim(rank - 1);
        let out = replace_last_axes(&io.ins[0], 1, &[if d < 0 { -1 } else { 2 * d }]);
        io.assign_out(0, &out)
    })
    .forward(|ctx, ins, outs| matrix_type!(ctx, ins[0].dtype(), |T| fft::<T>(&ins[0], &mut outs[0])))
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.op(op!(IFFT(n.ograds[0])))?)])));

fn fft<T: Scalar + Element>(x: &In<'_>, out: &mut Out<'_>) -> Result<()> {
    let d = last_axis_len(x);
    transform_rows(x.slice::<T>()?, d, out.slice_mut::<T>()?);
    Ok(())
}

pub(crate) static IFFT: Operator<FftParam> = Operator::new("_contrib_ifft")
    .doc(
        "The real part of the inverse discrete Fourier transform of the last axis, times its length: for data of shape (..., 2 d), with \
         real and imaginary parts interleaved, the result of shape (..., d) is the real part of the sum of data[k] exp(2 pi i j k / d). \
         Divide by d for the inverse of _contrib_fft.",
    )
    .inputs(&[arg("data", "Real and imaginary parts.")])
    .shape(|_, io| {
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        ensure!(rank > 0, "data must have at least one axis");
        let d = io.ins[0].dim(rank - 1);
        ensure!(d < 0 || d % 2 == 0, "the last axis has length {d}: it must be even, since real and imaginary parts alternate");
        let out = replace_last_axes(&io.ins[0], 1, &[if d < 0 { -1 } else { d / 2 }]);
        io.assign_out(0, &out)
    })
    .forward(|ctx, ins, outs| matrix_type!(ctx, ins[0].dtype(), |T| ifft::<T>(&ins[0], &mut outs[0])))
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.op(op!(FFT(n.ograds[0])))?)])));

fn ifft<T: Scalar + Element>(x: &In<'_>, out: &mut Out<'_>) -> Result<()> {
    let d = last_axis_len(x) / 2;
    inverse_transform_rows(x.slice::<T>()?, d, out.slice_mut::<T>()?);
    Ok(())
}

params! {
    /// Parameters of `_contrib_count_sketch`.
    pub struct CountSketchParam {
        /// The length of the sketch.
        out_dim: i32 = required, where 1..=i32::MAX;
        /// Number of rows that a GPU processes at a time; ignored on CPU.
        processing_batch_size: i32 = 32;
    }
}

pub(super) static COUNT_SKETCH: Operator<CountSketchParam> = Operator::new("_contrib_count_sketch").legacy()
    .doc(
        "Count sketches of the last axis: out[..., h[j]] is the sum of s[j] * data[..., j] over the j with that hash (Charikar, Chen, \
         Farach-Colton, Finding Frequent Items in Data Streams, 2002).",
    )
    .inputs(&[
        arg("data", "The rows, of shape (..., d)."),
        arg("h", "The index in the sketch of each element, from 0 to out_dim - 1: d elements."),
        arg("s", "The sign of each element, 1 or -1: d elements."),
    ])
    .shape(|p, io| {
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        ensure!(rank > 0, "data must have at least one axis");
        let d = io.ins[0].dim(rank - 1);
        for (i, name) in [(1, "h"), (2, "s")] {
            let is_valid = d < 0 || !io.ins[i].is_known() || io.ins[i].num_elements() as i64 == d;
            ensure!(is_valid, "{name} of shape {} must have {d} elements, as many as the rows of data", io.ins[i]);
        }
        let out = replace_last_axes(&io.ins[0], 1, &[p.get::<CountSketchParam>().out_dim.into()]);
        io.assign_out(0, &out)
    })
    .forward(|ctx, ins, outs| {
        let n = ctx.params::<CountSketchParam>().out_dim as usize;
        matrix_type!(ctx, ins[0].dtype(), |T| {
            let hash = SketchHash { indices: &indices::<T>(ctx, &ins[1])?, signs: ins[2].slice::<T>()? };
            hash.sketch(ins[0].slice::<T>()?, n, outs[0].slice_mut::<T>()?);
            Ok(())
        })
    })
    .grad(Grad::Kernel(Backward::new(sketch_backward).inputs(Deps::Some(&[1, 2])), None));

/// The hashes `h` as indices into the sketch. Checks that they are in bounds.
fn indices<T: Scalar + Element>(ctx: &OpCtx<'_>, h: &In<'_>) -> Result<Vec<usize>> {
    let n = ctx.params::<CountSketchParam>().out_dim;
    let index = |h: &T| {
        let index = Element::to_f64(*h);
        ensure!(
            (0.0..f64::from(n)).contains(&index),
            "h contains {index}, which is out of bounds for a sketch of {n} elements"
        );
        Ok(index as usize)
    };
    h.slice::<T>()?.iter().map(index).collect()
}

/// Inputs: gradient of the output, h, s. Outputs: gradients of data, h and s; only that of the data is not 0.
fn sketch_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (data, others) = outs.split_at_mut(1);
    others.iter_mut().try_for_each(no_gradient)?;
    if !data[0].wanted() {
        return Ok(());
    }
    let n = last_axis_len(&ins[0]);
    matrix_type!(ctx, ins[0].dtype(), |T| {
        let hash = SketchHash { indices: &indices::<T>(ctx, &ins[1])?, signs: ins[2].slice::<T>()? };
        hash.backward(ins[0].slice::<T>()?, n, data[0].slice_mut::<T>()?);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close};

    #[test]
    fn ifft_of_fft_is_the_data_times_its_length() {
        let x = array(&[1.0, 2.0, 3.0, 4.0, 0.5, -1.0, 2.5, 0.0, 1.0, 3.0], &[2, 5]);
        let y = Case::new(&FFT, &[]).run1(std::slice::from_ref(&x)).unwrap();
        assert_eq!(y.shape().dims(), [2, 10]);
        let inverse = Case::new(&IFFT, &[]).run1(std::slice::from_ref(&y)).unwrap().to_vec::<f64>().unwrap();
        close(&inverse.iter().map(|y| y / 5.0).collect::<Vec<_>>(), &x.to_vec::<f64>().unwrap(), 1e-12);
        Case::new(&FFT, &[]).check_gradient(&[x]);
        Case::new(&IFFT, &[]).check_gradient(&[y]);
    }

    #[test]
    fn count_sketch_adds_signed_elements_at_their_hashes() {
        let x = array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], &[2, 4]);
        let (h, s) = (array(&[0.0, 2.0, 2.0, 0.0], &[4]), array(&[1.0, -1.0, 1.0, 1.0], &[4]));
        let case = Case::new(&COUNT_SKETCH, &[("out_dim", "3")]);
        let y = case.run1(&[x.clone(), h.clone(), s.clone()]).unwrap();
        assert_eq!(y.to_vec::<f64>().unwrap(), [5.0, 0.0, 1.0, 13.0, 0.0, 1.0]);
        let ones = array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
        let grads = case.backward(&[x.clone(), h, s.clone()], &[ones]).unwrap();
        assert_eq!(grads[0].to_vec::<f64>().unwrap(), [1.0, -3.0, 3.0, 1.0, 4.0, -6.0, 6.0, 4.0]);
        let outside = case.run(&[x, array(&[0.0, 3.0, 2.0, 0.0], &[4]), s]).unwrap_err().to_string();
        assert!(outside.contains("h contains 3"), "{outside}");
    }
}
