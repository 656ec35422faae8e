//! `Deconvolution` in one, two and three dimensions.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::conv::{
    ConvEpilogue, ConvShape, conv_add_bias, conv_backward_bias, conv_backward_data, conv_backward_weights, conv_forward,
};
use ferromx_kernels::float::FloatElement;

use super::convolution::{ConvLayout, CudnnTune, num_spatial};
use super::spatial::{first_items, infer_channels_last, sizes, triple};

params! {
    /// Parameters of `Deconvolution`.
    pub struct DeconvolutionParam {
        /// Size of the window: (width,), (height, width) or (depth, height, width).
        kernel: Shape = required;
        /// Stride of the windows in the output; 1 by default.
        stride: Shape = (Shape::new(&[]));
        /// Dilation of the window; 1 by default.
        dilate: Shape = (Shape::new(&[]));
        /// Cropping at both ends of each dimension of the output; 0 by default. Ignored with `target_shape`.
        pad: Shape = (Shape::new(&[]));
        /// Elements added to the end of each dimension of the output, less than the stride; 0 by default. Ignored with `target_shape`.
        adj: Shape = (Shape::new(&[]));
        /// Spatial size of the output, from which `pad` and `adj` follow.
        target_shape: Shape = (Shape::new(&[]));
        /// Number of output channels.
        num_filter: u32 = required, where 1..=u32::MAX;
        /// Number of groups that the channels are divided into; each group is transformed separately.
        num_group: u32 = 1, where 1..=u32::MAX;
        /// Accepted for compatibility: megabytes of temporary memory on a GPU.
        workspace: u64 = 512;
        /// Whether there is no bias.
        no_bias: bool = true;
        /// Accepted for compatibility: how cuDNN chooses an algorithm.
        cudnn_tune: Option<CudnnTune> = None;
        /// Accepted for compatibility: turns off cuDNN on a GPU.
        cudnn_off: bool = false;
        /// Order of the dimensions; by default NCW, NCHW or NCDHW. With channels last only the shapes can be inferred.
        layout: Option<ConvLayout> = None;
    }
}

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

pub(super) static DECONVOLUTION: Operator<DeconvolutionParam> = Operator::new("Deconvolution").names_outputs()
    .aliases(&["_npx_deconvolution"])
    .doc(
        "A transposed convolution, which is the gradient of `Convolution` with respect to its data: each input element adds its \
         multiple of the window to the output,\n\n\
         out[n, f, y*stride + i*dilate - pad, x*stride + j*dilate - pad] += data[n, c, y, x] * weight[c, f, i, j], plus bias[f].\n\n\
         Shapes in two dimensions: data (batch, channel, height, width), weight (channel, num_filter/num_group, kernel...), bias \
         (num_filter,), output (batch, num_filter, out_height, out_width), where each output size is \
         stride*(size - 1) + dilate*(kernel - 1) + 1 - 2*pad + adj, or that of target_shape.",
    )
    .inputs(&[
        arg("data", "The input, of shape (batch, channel, spatial dimensions...)."),
        arg("weight", "The weights, of shape (channel, num_filter/num_group, kernel...)."),
        arg("bias", "The bias, of shape (num_filter,); absent with no_bias=True."),
    ])
    .num_inputs_by(|p| if p.get::<DeconvolutionParam>().no_bias { 2 } else { 3 })
    .shape(infer_shape)
    .forward(forward)
    .grad(Grad::Kernel(Backward::new(backward).inputs(Deps::Some(&[0, 1])), None));

impl DeconvolutionParam {
    fn num_spatial(&self) -> Result<usize> {
        num_spatial(&self.kernel, self.num_filter, self.num_group, self.layout)
    }

    /// The first `n` items of `target_shape`; empty if all are 0, which MXNet treats as unset.
    fn target(&self, n: usize) -> Shape {
        let target = first_items(&self.target_shape, n);
        if target.dims().iter().all(|d| *d == 0) { Shape::new(&[]) } else { target }
    }

    fn channels_last(&self) -> bool {
        matches!(self.layout, Some(ConvLayout::Nhwc | ConvLayout::Ndhwc))
    }

    /// The convolution whose gradient with respect to its data is this operator, for data with channels first. The input of that
    /// convolution is the output of this operator, with size 1 where the size of `data` is unknown.
    fn shape(&self, data: &Shape) -> Result<ConvShape> {
        let n = self.num_spatial()?;
        let dims = data.dims();
        ensure!(dims.len() == n + 2, "the input {data} must have {} dimensions for a kernel {}", n + 2, self.kernel);
        let kernel = triple("kernel", &self.kernel, n, 1, 1)?;
        let stride = triple("stride", &self.stride, n, 1, 1)?;
        let dilate = triple("dilate", &self.dilate, n, 1, 1)?;
        let mut pad = triple("pad", &self.pad, n, 0, 0)?;
        let mut adj = triple("adj", &self.adj, n, 0, 0)?;
        let target = triple("target_shape", &self.target(n), n, 0, 0)?;
        let has_target = target.iter().any(|t| *t > 0);
        let size = sizes(&dims[2..]);
        let mut input = [1; 3];
        for i in 3 - n..3 {
            if dims[i + n - 1] < 0 {
                continue;
            }
            // An axis without elements counts as one element, less the stride.
            let uncropped = (stride[i] * size[i] + dilate[i] * (kernel[i] - 1) + 1).saturating_sub(stride[i]);
            if has_target {
                ensure!(
                    target[i] <= uncropped,
                    "too big target shape {}: without padding the output of {data} has {uncropped} elements in dimension {}",
                    self.target_shape,
                    i + n - 3
                );
                let excess = uncropped - target[i];
                (pad[i], adj[i]) = (excess.div_ceil(2), excess % 2);
            }
            let (dimension, changeable) = (i + n - 3, if has_target { "target_shape" } else { "adj" });
            ensure!(
                adj[i] < stride[i],
                "the output adjustment {} in dimension {dimension} must be less than the stride {}: change {changeable}",
                adj[i],
                stride[i]
            );
            let extent = uncropped + adj[i];
            ensure!(extent > 2 * pad[i], "pad {} crops all of an output of {extent} elements", self.pad);
            input[i] = extent - 2 * pad[i];
        }
        Ok(ConvShape {
            batch: dims[0].max(0) as usize,
            groups: self.num_group as usize,
            in_channels: self.num_filter as usize,
            out_channels: dims[1].max(0) as usize,
            input,
            kernel,
            stride,
            pad,
            dilate,
        })
    }

    /// The geometry for the kernels, which support only channels first.
    fn computed(&self, data: &Shape) -> Result<ConvShape> {
        if self.channels_last() {
            return Err(Error::Unsupported(
                "deconvolution with channels last is not supported: transpose the input and use NCHW or NCDHW".into(),
            ));
        }
        self.shape(data)
    }
}

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<DeconvolutionParam>();
    if p.channels_last() {
        infer_channels_last(io, |io| infer_channels_first(p, io))
    } else {
        infer_channels_first(p, io)
    }
}

fn infer_channels_first(p: &DeconvolutionParam, io: &mut ShapeIo<'_>) -> Result<()> {
    let n = p.num_spatial()?;
    let (filters, groups) = (i64::from(p.num_filter), i64::from(p.num_group));
    io.expect_inputs(if p.no_bias { &["data", "weight"] } else { &["data", "weight", "bias"] })?;
    if !io.ins[0].ndim_is_known() {
        return Ok(());
    }
    if !p.no_bias {
        io.assign_in(2, &Shape::new(&[filters]))?;
    }
    let mut weight = Dims::from_slice(&[-1, filters / groups]);
    weight.extend_from_slice(p.kernel.dims());
    let shape = p.shape(&io.ins[0])?;
    weight[0] = io.ins[0].dim(1);
    ensure!(
        weight[0] < 0 || weight[0] % groups == 0,
        "the input {} has {} channels, which is not a multiple of num_group {groups}",
        io.ins[0],
        weight[0]
    );
    io.assign_in(1, &Shape::from(weight))?;
    let mut out = Dims::from_slice(&[io.ins[0].dim(0), filters]);
    let target = p.target(n);
    let target = target.dims();
    let has_target = target.iter().any(|t| *t > 0);
    out.extend((0..n).map(|i| match (io.ins[0].dim(2 + i) >= 0, has_target) {
        (true, _) => shape.input[3 - n + i] as i64,
        (false, true) => target[i],
        (false, false) => -1,
    }));
    io.assign_out(0, &Shape::from(out))?;
    // Infer the data's batch size and channels from the output and the weights, and its spatial sizes unless there is a target_shape.
    let mut data = Dims::from_slice(&[io.outs[0].dim(0), io.ins[1].dim(0)]);
    let adj = triple("adj", &p.adj, n, 0, 0)?;
    data.extend((3 - n..3).map(|i| {
        let min_size = (shape.dilate[i] * (shape.kernel[i] - 1) + 1 + adj[i]) as i64;
        let excess = io.outs[0].dim(i + n - 1) + 2 * shape.pad[i] as i64 - min_size;
        let stride = shape.stride[i] as i64;
        let is_determined = !has_target && io.outs[0].dim(i + n - 1) >= 0 && excess >= 0 && excess % stride == 0;
        if is_determined { excess / stride + 1 } else { -1 }
    }));
    io.assign_in(0, &Shape::from(data))
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16] => forward_as::<T>(ctx, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn forward_as<T: FloatElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<DeconvolutionParam>();
    let shape = p.computed(ins[0].shape())?;
    let y = outs[0].slice_mut::<T>()?;
    match ins[0].is_empty() {
        true => y.fill(T::default()),
        false => conv_backward_data(&shape, ins[0].slice::<T>()?, ins[1].slice::<T>()?, y),
    }
    if !p.no_bias {
        conv_add_bias(shape.batch, ins[2].slice::<T>()?, y);
    }
    Ok(())
}

/// Inputs: gradient of the output, data, weight. Outputs: gradients of data, weight, bias.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16] => backward_as::<T>(ctx, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn backward_as<T: FloatElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<DeconvolutionParam>();
    let shape = p.computed(ins[1].shape())?;
    let (dy, x, w) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
    if outs[0].wanted() && !x.is_empty() {
        conv_forward(&shape, dy, w, &ConvEpilogue::default(), outs[0].slice_mut::<T>()?);
    }
    if outs[1].wanted() && x.is_empty() {
        outs[1].slice_mut::<T>()?.fill(T::default());
    } else if outs[1].wanted() {
        conv_backward_weights(&shape, dy, x, outs[1].slice_mut::<T>()?);
    }
    if !p.no_bias && outs[2].wanted() {
        conv_backward_bias(shape.batch, dy, outs[2].slice_mut::<T>()?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn shapes_are_inferred_in_both_directions() {
        let base = [("kernel", "(3, 3)"), ("num_filter", "6"), ("stride", "(2, 2)")];
        let unknown = [Shape::new(&[2, 4, 5, -1]), Shape::unknown()];
        let both = |more: &[(&str, &str)], ins: &[Shape], out: Shape| {
            Case::new(&DECONVOLUTION, &[&base[..], more].concat()).shapes_both(ins, &[out])
        };
        let (ins, outs) = both(&[("pad", "(1, 1)"), ("adj", "(1, 1)")], &unknown, Shape::unknown()).unwrap();
        assert_eq!((&ins[1], &outs[0]), (&[4, 6, 3, 3].into(), &[2, 6, 10, -1].into()));
        let (ins, _) = both(&[], &unknown, [-1, -1, -1, 9].into()).unwrap();
        assert_eq!(ins[0], [2, 4, 5, 4].into());
        let (_, outs) = both(&[("target_shape", "(10, 9)")], &unknown, Shape::unknown()).unwrap();
        assert_eq!(outs[0], [2, 6, 10, 9].into());
        for wrong in [("target_shape", "(12, 9)"), ("adj", "(2, 0)"), ("target_shape", "(1,)"), ("pad", "(9, 9)")] {
            assert!(both(&[wrong], &unknown, Shape::unknown()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let values = |n: i64, m: i64| (0..n).map(|i| (i * 7 % m) as f64 / 4.0 - 1.0).collect::<Vec<_>>();
        let ins =
            [array(&values(24, 11), &[1, 4, 2, 3]), array(&values(48, 13), &[4, 3, 2, 2]), array(&values(6, 5), &[6])];
        let attrs = [("kernel", "(2, 2)"), ("num_filter", "6"), ("num_group", "2"), ("no_bias", "False")];
        let more = [("stride", "(2, 1)"), ("pad", "(1, 0)"), ("adj", "(1, 0)"), ("dilate", "(1, 2)")];
        Case::new(&DECONVOLUTION, &[attrs, more].concat()).check_gradient(&ins);
    }
}
