//! `LRN` and `L2Normalization`: division by the norm of adjacent channels, or of some axes.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, param_enum, params};
use ferromx_kernels::AxisShape;
use ferromx_kernels::float::{FloatElement, with_wide};
use ferromx_kernels::map::Store;
use ferromx_kernels::norm::{LocalNorm, l2_norm_backward, l2_norm_forward, local_norm_backward, local_norm_forward};
use ferromx_kernels::par::with_scratch;

use crate::precision::by_precision;

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

params! {
    /// Parameters of `LRN`.
    pub struct LrnParam {
        /// The weight of the mean of squares.
        alpha: f32 = 1e-4;
        /// The exponent.
        beta: f32 = 0.75;
        /// Added to the weighted mean of squares.
        knorm: f32 = 2.0;
        /// Size of the channel window. An even size n covers (n - 1) / 2 channels on either side, but still divides by n.
        nsize: u32 = required, where 1..=u32::MAX;
    }
}

pub(super) static LRN: Operator<LrnParam> = Operator::new("LRN").names_data().names_outputs()
    .doc(
        "Divides each element by a power of the sum of squares of adjacent channels:\n\n\
         out[n, c, ...] = data[n, c, ...] / (knorm + alpha / nsize * sum over i of data[n, i, ...]^2)^beta, \
         where i runs over the existing channels among the nsize around c (Krizhevsky, Sutskever and Hinton, 2012). The output has the \
         shape of the data.",
    )
    .inputs(&[arg("data", "The input, of shape (batch, channel, ...).")])
    .outputs(|_| 2)
    .visible(|_| 1)
    .output_names_by(|_| vec!["output".into(), "tmp_norm".into()])
    .shape(lrn_shape)
    .forward(lrn_forward)
    .grad(Grad::Kernel(
        Backward::new(lrn_backward).ograds(Deps::Some(&[0])).inputs(Deps::All).outputs(Deps::Some(&[1])),
        None,
    ));

/// The data as (batch, channels, inner).
fn channels(data: &Shape) -> AxisShape {
    AxisShape::new(&data.to_usize(), 1)
}

impl LrnParam {
    fn local_norm(&self) -> LocalNorm {
        LocalNorm {
            window: self.nsize as usize,
            alpha: f64::from(self.alpha),
            beta: f64::from(self.beta),
            bias: f64::from(self.knorm),
        }
    }
}

fn lrn_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    ferromx_core::infer::same_shape(p, io)?;
    ensure!(
        io.ins[0].ndim().is_none_or(|n| n >= 2),
        "LRN needs data of at least two dimensions, (batch, channel, ...), but it is {}",
        io.ins[0]
    );
    Ok(())
}

fn lrn_forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => lrn_forward_as::<T>(ctx, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn lrn_forward_as<T: FloatElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<LrnParam>().local_norm();
    let x = ins[0].slice::<T>()?;
    let [out, norm] = outs else {
        return Err(ferromx_core::error::Error::Internal("LRN has two outputs".into()));
    };
    let y = out.slice_mut::<T>()?;
    let shape = channels(ins[0].shape());
    if norm.wanted() {
        local_norm_forward(shape, &p, x, y, norm.slice_mut::<T>()?);
    } else {
        with_scratch(x.len(), |norm: &mut [T]| local_norm_forward(shape, &p, x, y, norm));
    }
    Ok(())
}

/// Inputs: gradient of the output, data, norm. Output: gradient of the data.
fn lrn_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    if !outs[0].wanted() {
        return Ok(());
    }
    let p = ctx.params::<LrnParam>().local_norm();
    let shape = channels(ins[1].shape());
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
        let (y_grad, x, norm) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
        local_norm_backward(shape, &p, x, norm, y_grad, outs[0].slice_mut::<T>()?);
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

param_enum! {
    /// Which elements share a norm.
    pub enum L2Mode { Channel = "channel", Instance = "instance", Spatial = "spatial" }
}

params! {
    /// Parameters of `L2Normalization`.
    pub struct L2NormalizationParam {
        /// Added to the sum of squares for numerical stability.
        eps: f32 = 1e-10;
        /// Elements normalized together: an example, all channels at a position, or one channel.
        mode: L2Mode = (L2Mode::Instance);
    }
}

pub(super) static L2_NORMALIZATION: Operator<L2NormalizationParam> = Operator::new("L2Normalization").legacy()
    .doc(
        "Divides by the Euclidean norm: out = data / sqrt(sum of squares + eps).\n\n\
         The sum runs, for data of shape (batch, channel, ...), over all axes but the first with mode `instance`, over the \
         channels with `channel`, and over the axes after the channels with `spatial`. The output has the shape of the data.",
    )
    .inputs(&[arg("data", "The input, of shape (batch, ...), or (batch, channel, ...) for the modes `channel` and `spatial`.")])
    .outputs(|_| 2)
    .visible(|_| 1)
    .output_names_by(|_| vec!["output".into(), "norm".into()])
    .shape(l2_shape)
    .forward(l2_forward)
    .grad(Grad::Kernel(Backward::new(l2_backward).ograds(Deps::Some(&[0])).outputs(Deps::All), None));

impl L2NormalizationParam {
    /// The data as (outer, axis, inner), where the elements along `axis` share a norm.
    fn norm_shape(&self, data: &Shape) -> AxisShape {
        if data.ndim() == Some(1) {
            return AxisShape { outer: data.num_elements(), axis: 1, inner: 1 };
        }
        let AxisShape { outer, axis, inner } = channels(data);
        match self.mode {
            L2Mode::Instance => AxisShape { outer, axis: axis * inner, inner: 1 },
            L2Mode::Channel => AxisShape { outer, axis, inner },
            L2Mode::Spatial => AxisShape { outer: outer * axis, axis: inner, inner: 1 },
        }
    }
}

fn l2_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let mode = p.get::<L2NormalizationParam>().mode;
    let out = io.outs[0].clone();
    io.assign_in(0, &out)?;
    let data = io.ins[0].clone();
    let Some(n) = data.ndim() else { return Ok(()) };
    let min_rank = if mode == L2Mode::Instance { 1 } else { 3 };
    ensure!(
        n >= min_rank,
        "L2Normalization with mode {mode:?} needs data of at least {min_rank} dimensions, but it is {data}"
    );
    io.assign_out(0, &data)?;
    let dims = data.dims();
    let norm: Dims = match mode {
        L2Mode::Instance => dims[..1].into(),
        L2Mode::Channel => dims[..1].iter().chain(&dims[2..]).copied().collect(),
        L2Mode::Spatial => dims[..2].into(),
    };
    io.assign_out(1, &Shape::from(norm))
}

fn l2_forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => l2_forward_as::<T>(ctx, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn l2_forward_as<T: FloatElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<L2NormalizationParam>();
    let shape = p.norm_shape(ins[0].shape());
    with_scratch(shape.outer * shape.inner, |norm: &mut [T::Acc]| {
        l2_norm_forward(shape, f64::from(p.eps), ins[0].slice::<T>()?, outs[0].slice_mut::<T>()?, norm);
        if outs[1].wanted() {
            <T as Store<T::Acc>>::store(norm, outs[1].slice_mut::<T>()?);
        }
        Ok(())
    })
}

/// Inputs: gradient of the output, output, norm. Output: gradient of the data.
fn l2_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    if !outs[0].wanted() {
        return Ok(());
    }
    let shape = ctx.params::<L2NormalizationParam>().norm_shape(ins[1].shape());
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
        let (y_grad, y, norm) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
        let x_grad = outs[0].slice_mut::<T>()?;
        with_wide(norm, |norm| l2_norm_backward(shape, y, norm, y_grad, x_grad));
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    fn data(dims: &[i64]) -> ferromx_core::ndarray::NDArray {
        let x: Vec<f64> = (0..dims.iter().product::<i64>()).map(|i| (i * 7 % 11) as f64 / 4.0 - 1.0).collect();
        array(&x, dims)
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        for (nsize, beta) in [("3", "0.75"), ("5", "0.6")] {
            let attrs = [("nsize", nsize), ("beta", beta), ("alpha", "0.5"), ("knorm", "1")];
            Case::new(&LRN, &attrs).check_gradient(&[data(&[2, 4, 3])]);
        }
        for mode in ["channel", "instance", "spatial"] {
            Case::new(&L2_NORMALIZATION, &[("mode", mode), ("eps", "0.1")]).check_gradient(&[data(&[2, 3, 2])]);
        }
    }

    #[test]
    fn invalid_parameters_and_ranks_are_errors() {
        assert!(Case::parse(&LRN, &[("nsize", "0")]).is_err());
        assert!(Case::new(&LRN, &[("nsize", "3")]).shapes(&[[2].into()]).is_err());
        assert!(Case::new(&L2_NORMALIZATION, &[("mode", "channel")]).shapes(&[[2, 3].into()]).is_err());
    }
}
