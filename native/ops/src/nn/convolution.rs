//! `Convolution` in one, two and three dimensions.

use std::convert::Infallible;

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::fusion::{Fused, Role};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, param_enum, params};
use ferromx_kernels::conv::{
    ConvEpilogue, ConvShape, PackedConvLayout, PackedConvWeights, conv_backward_bias, conv_backward_data,
    conv_backward_weights, conv_forward, conv_forward_packed,
};
use ferromx_kernels::float::FloatElement;

use super::fused::{ProductEpilogue, with_epilogue};
use super::spatial::{Windows, infer_channels_last};
use crate::packed::{Packed, Version};

param_enum! {
    /// How cuDNN chooses an algorithm.
    pub enum CudnnTune { Fastest = "fastest", Limited = "limited_workspace", Off = "off" }
}

param_enum! {
    /// Order of the dimensions.
    pub enum ConvLayout { Ncdhw = "NCDHW", Nchw = "NCHW", Ncw = "NCW", Ndhwc = "NDHWC", Nhwc = "NHWC" }
}

params! {
    /// Parameters of `Convolution`.
    pub struct ConvolutionParam {
        /// Size of the window: (width,), (height, width) or (depth, height, width).
        kernel: Shape = required;
        /// Stride of the windows; 1 by default.
        stride: Shape = (Shape::new(&[]));
        /// Dilation of the window; 1 by default.
        dilate: Shape = (Shape::new(&[]));
        /// Zero padding at both ends of each dimension; 0 by default.
        pad: Shape = (Shape::new(&[]));
        /// Number of output channels.
        num_filter: u32 = required, where 1..=u32::MAX;
        /// Number of groups that the channels are divided into; each group is convolved separately.
        num_group: u32 = 1, where 1..=u32::MAX;
        /// Accepted for compatibility: megabytes of temporary memory on a GPU.
        workspace: u64 = 1024;
        /// Whether there is no bias.
        no_bias: bool = false;
        /// Accepted for compatibility: how cuDNN chooses an algorithm.
        cudnn_tune: Option<CudnnTune> = None;
        /// Accepted for compatibility: turns off cuDNN on a GPU.
        cudnn_off: bool = false;
        /// Order of the dimensions; by default NCW, NCHW or NCDHW. With channels last only the shapes can be inferred.
        layout: Option<ConvLayout> = None;
    }
}

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

pub(crate) static CONVOLUTION: Operator<ConvolutionParam> = Operator::new("Convolution").names_outputs()
    .aliases(&["_npx_convolution"])
    .doc(
        "Slides windows over the input and sums the products with the weights (a cross-correlation):\n\n\
         out[n, f, y, x] = bias[f] + sum over c, i, j of data[n, c, y*stride + i*dilate - pad, x*stride + j*dilate - pad] * \
         weight[f, c, i, j].\n\n\
         Shapes in two dimensions: data (batch, channel, height, width), weight (num_filter, channel/num_group, kernel...), bias \
         (num_filter,), output (batch, num_filter, out_height, out_width), where each output size is \
         floor((size + 2*pad - dilate*(kernel - 1) - 1) / stride) + 1. One and three dimensions are analogous.",
    )
    .inputs(&[
        arg("data", "The input, of shape (batch, channel, spatial dimensions...)."),
        arg("weight", "The weights, of shape (num_filter, channel/num_group, kernel...)."),
        arg("bias", "The bias, of shape (num_filter,); absent with no_bias=True."),
    ])
    .num_inputs_by(|p| if p.get::<ConvolutionParam>().no_bias { 2 } else { 3 })
    .shape(infer_shape)
    .forward(forward)
    .grad(Grad::Kernel(Backward::new(backward).inputs(Deps::Some(&[0, 1])), None))
    .role(Role::Product { kernel: forward_fused, channels: |_, _| 1 });

/// The number of spatial dimensions of a convolution or deconvolution. Checks the parameters against each other.
pub(super) fn num_spatial(
    kernel: &Shape,
    num_filter: u32,
    num_group: u32,
    layout: Option<ConvLayout>,
) -> Result<usize> {
    let n = kernel.dims().len();
    ensure!((1..=3).contains(&n), "kernel {kernel} must have one, two or three numbers");
    ensure!(num_filter.is_multiple_of(num_group), "num_filter {num_filter} is not a multiple of num_group {num_group}");
    match (layout, n) {
        (None, _)
        | (Some(ConvLayout::Ncw), 1)
        | (Some(ConvLayout::Nchw | ConvLayout::Nhwc), 2)
        | (Some(ConvLayout::Ncdhw | ConvLayout::Ndhwc), 3) => Ok(n),
        (Some(layout), n) => Err(Error::Value(format!("layout {layout:?} does not match a kernel of {n} dimensions"))),
    }
}

impl ConvolutionParam {
    fn num_spatial(&self) -> Result<usize> {
        num_spatial(&self.kernel, self.num_filter, self.num_group, self.layout)
    }

    /// True for NHWC and NDHWC.
    pub fn channels_last(&self) -> bool {
        matches!(self.layout, Some(ConvLayout::Nhwc | ConvLayout::Ndhwc))
    }

    /// The geometry for the kernels, which support only channels first.
    pub(crate) fn computed(&self, data: &Shape) -> Result<ConvShape> {
        if self.channels_last() {
            return Err(Error::Unsupported(
                "convolution with channels last is not supported: transpose the input and use NCHW or NCDHW".into(),
            ));
        }
        self.shape(data)
    }

    /// The geometry for data of shape (batch, channels, spatial dimensions...). Unknown sizes are 0.
    fn shape(&self, data: &Shape) -> Result<ConvShape> {
        let n = self.num_spatial()?;
        let dims = data.dims();
        ensure!(dims.len() == n + 2, "the input {data} must have {} dimensions for a kernel {}", n + 2, self.kernel);
        let windows = Windows { kernel: &self.kernel, stride: &self.stride, dilate: &self.dilate, pad: &self.pad };
        windows.shape(dims, self.num_group as usize, self.num_filter as usize)
    }
}

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    infer_with(p.get(), io)
}

/// Shape inference for `Convolution` and `Convolution_v1`.
pub(super) fn infer_with(p: &ConvolutionParam, io: &mut ShapeIo<'_>) -> Result<()> {
    if p.channels_last() {
        infer_channels_last(io, |io| infer_channels_first(p, io))
    } else {
        infer_channels_first(p, io)
    }
}

fn infer_channels_first(p: &ConvolutionParam, io: &mut ShapeIo<'_>) -> Result<()> {
    p.num_spatial()?;
    let (filters, groups) = (i64::from(p.num_filter), i64::from(p.num_group));
    io.expect_inputs(if p.no_bias { &["data", "weight"] } else { &["data", "weight", "bias"] })?;
    if !io.ins[0].ndim_is_known() {
        return Ok(());
    }
    if !p.no_bias {
        io.assign_in(2, &Shape::new(&[filters]))?;
    }
    let mut weight = Dims::from_slice(&[filters, -1]);
    weight.extend_from_slice(p.kernel.dims());
    let mut weight = Shape::from(weight);
    let shape = p.shape(&io.ins[0])?;
    let channels = io.ins[0].dim(1);
    if channels >= 0 {
        ensure!(
            channels % groups == 0,
            "the input {} has {channels} channels, which is not a multiple of num_group {groups}",
            io.ins[0]
        );
        if let Some(dims) = weight.dims_mut() {
            dims[1] = channels / groups;
        }
    }
    io.assign_in(1, &weight)?;
    io.assign_out(0, &p.output_shape(&io.ins[0], &shape)?)?;
    io.assign_in(0, &p.data_shape(&io.outs[0], &io.ins[1], &shape))
}

impl ConvolutionParam {
    /// The shape of the output for data with channels first; -1 where the size of the data is unknown.
    fn output_shape(&self, data: &Shape, shape: &ConvShape) -> Result<Shape> {
        let (n, sizes) = (self.kernel.dims().len(), shape.output());
        let mut out = Dims::from_slice(&[data.dim(0), self.num_filter.into()]);
        for i in 0..n {
            let (known, size) = (data.dim(2 + i) >= 0, sizes[3 - n + i]);
            ensure!(
                !known || size > 0,
                "kernel {} with dilate {} exceeds the input {data} with pad {}",
                self.kernel,
                self.dilate,
                self.pad
            );
            out.push(if known { size as i64 } else { -1 });
        }
        Ok(Shape::from(out))
    }

    /// The shape of the data: batch size and channels from those of output and weight, and spatial sizes where the stride is 1.
    fn data_shape(&self, out: &Shape, weight: &Shape, shape: &ConvShape) -> Shape {
        let n = self.kernel.dims().len();
        let mut data = Dims::from_slice(&[out.dim(0), weight.dim(1).max(-1)]);
        if data[1] > 0 {
            data[1] *= i64::from(self.num_group);
        }
        for i in 0..n {
            let (out_size, axis) = (out.dim(2 + i), 3 - n + i);
            let kernel_extent = shape.dilate[axis] * (shape.kernel[axis] - 1) + 1;
            let size = out_size - 1 + kernel_extent as i64 - 2 * shape.pad[axis] as i64;
            data.push(if out_size >= 0 && shape.stride[axis] == 1 { size } else { -1 });
        }
        Shape::from(data)
    }
}

/// The packed weights of a node. Weights are packed at their second use: allocating memory for them costs more than packing, which a
/// single inference does not recover.
struct NodeWeights<T: FloatElement> {
    /// The version of the weights that were used last without packing them.
    used: Option<Version>,
    packed: Packed<PackedConvLayout, PackedConvWeights<T>>,
}

impl<T: FloatElement> Default for NodeWeights<T> {
    fn default() -> Self {
        NodeWeights { used: None, packed: Packed::default() }
    }
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    forward_with(ctx, ctx.params(), ins, outs)
}

/// The kernel of `Convolution` and `Convolution_v1`.
pub(super) fn forward_with(ctx: &OpCtx<'_>, p: &ConvolutionParam, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16] => forward_as::<T>(ctx, p, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn forward_as<T: FloatElement>(
    ctx: &OpCtx<'_>,
    p: &ConvolutionParam,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
) -> Result<()> {
    let bias = if p.no_bias { None } else { Some(ins[2].slice::<T>()?) };
    convolve(ctx, p, ins, &ConvEpilogue { bias, ..ConvEpilogue::default() }, &mut outs[0])
}

/// The kernel with a fused epilogue.
fn forward_fused(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let fused = ctx.params::<Fused>();
    let p = fused.product.get::<ConvolutionParam>();
    dispatch!(ins[0].dtype(), T in [f32, f64] => {
        let bias = if p.no_bias { None } else { Some(ins[2].slice::<T>()?) };
        let rest = if p.no_bias { &ins[2..] } else { &ins[3..] };
        with_epilogue(fused, p.num_filter as usize, bias, rest, |epilogue: &ProductEpilogue<'_, T>| {
            let ProductEpilogue { scale, bias, residual, activation } = *epilogue;
            convolve(ctx, p, ins, &ConvEpilogue { scale, bias, residual, activation }, &mut outs[0])
        })
    }, other => Err(ctx.unsupported(other, &[DType::F32, DType::F64])))
}

fn convolve<T: FloatElement>(
    ctx: &OpCtx<'_>,
    p: &ConvolutionParam,
    ins: &[In<'_>],
    epilogue: &ConvEpilogue<'_, T>,
    out: &mut Out<'_>,
) -> Result<()> {
    let shape = p.computed(ins[0].shape())?;
    let (x, w, y) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, out.slice_mut::<T>()?);
    match (ctx.cache, ins[1].version()) {
        (Some(cache), Some(version)) if !ctx.is_train && !shape.is_faster_unpacked() => {
            let layout = PackedConvWeights::<T>::layout(&shape);
            let pack = |old: Option<PackedConvWeights<T>>| match old {
                Some(mut weights) => {
                    weights.pack(w);
                    Ok::<_, Infallible>(weights)
                }
                None => Ok(PackedConvWeights::new(&shape, w)),
            };
            let weights = cache.with(|node: &mut NodeWeights<T>| {
                let is_first_use =
                    !node.packed.is_packed(version, &layout) && node.used.replace(version) != Some(version);
                if is_first_use && shape.gives_same_bits_unpacked() {
                    return None;
                }
                let Ok(weights) = node.packed.get(version, layout, pack);
                Some(weights)
            });
            match weights {
                Some(weights) => conv_forward_packed(&shape, x, &weights, epilogue, y),
                None => conv_forward(&shape, x, w, epilogue, y),
            }
        }
        _ => conv_forward(&shape, x, w, epilogue, y),
    }
    Ok(())
}

/// Inputs: gradient of the output, data, weight. Outputs: gradients of data, weight, bias.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    backward_with(ctx, ctx.params(), ins, outs)
}

/// The gradient of `Convolution` and `Convolution_v1`.
pub(super) fn backward_with(ctx: &OpCtx<'_>, p: &ConvolutionParam, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16] => backward_as::<T>(p, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn backward_as<T: FloatElement>(p: &ConvolutionParam, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let shape = p.computed(ins[1].shape())?;
    let (dy, x, w) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
    if outs[0].wanted() {
        conv_backward_data(&shape, dy, w, outs[0].slice_mut::<T>()?);
    }
    if outs[1].wanted() {
        conv_backward_weights(&shape, x, dy, outs[1].slice_mut::<T>()?);
    }
    if !p.no_bias && outs[2].wanted() {
        conv_backward_bias(shape.batch, dy, outs[2].slice_mut::<T>()?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn infer(attrs: &[(&str, &str)], mut ins: Vec<Shape>, out: Shape) -> Result<(Vec<Shape>, Shape)> {
        let p = CONVOLUTION.parse(&attrs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())?;
        let mut outs = [out];
        infer_shape(&p, &mut ShapeIo { ins: &mut ins, outs: &mut outs })?;
        Ok((ins, outs[0].clone()))
    }

    #[test]
    fn shapes_are_inferred_in_both_directions() {
        let attrs =
            [("kernel", "(3, 3)"), ("num_filter", "8"), ("num_group", "2"), ("pad", "(1, 1)"), ("stride", "(2, 1)")];
        let unknown = || vec![Shape::new(&[-1, 4, 9, 7]), Shape::unknown(), Shape::unknown()];
        let (ins, out) = infer(&attrs, unknown(), Shape::unknown()).unwrap();
        assert_eq!((&ins[1], &ins[2], &out), (&[8, 2, 3, 3].into(), &[8].into(), &[-1, 8, 5, 7].into()));
        let ins = vec![Shape::new(&[-1, -1, 9, -1]), Shape::new(&[8, 2, 3, 3]), Shape::unknown()];
        let (ins, _) = infer(&attrs, ins, Shape::new(&[6, 8, 5, 7])).unwrap();
        assert_eq!(ins[0], [6, 4, 9, 7].into());
    }

    #[test]
    fn shapes_of_channels_last_layouts_are_inferred() {
        let attrs = [("kernel", "(3, 2)"), ("num_filter", "6"), ("num_group", "2"), ("layout", "NHWC")];
        let ins = vec![Shape::new(&[2, 8, 9, 4]), Shape::unknown(), Shape::unknown()];
        let (ins, out) = infer(&attrs, ins, Shape::unknown()).unwrap();
        assert_eq!((&ins[0], &ins[1]), (&[2, 8, 9, 4].into(), &[6, 3, 2, 2].into()));
        assert_eq!((&ins[2], &out), (&[6].into(), &[2, 6, 8, 6].into()));
    }

    #[test]
    fn invalid_kernels_groups_and_strides_are_errors() {
        let ins = || vec![Shape::new(&[1, 3, 2, 2]), Shape::unknown(), Shape::unknown()];
        let error = |attrs: &[(&str, &str)]| infer(attrs, ins(), Shape::unknown()).unwrap_err().to_string();
        assert!(error(&[("kernel", "(3, 3)"), ("num_filter", "8")]).contains("exceeds the input"));
        assert!(
            error(&[("kernel", "(1, 1)"), ("num_filter", "8"), ("num_group", "2")])
                .contains("not a multiple of num_group 2")
        );
        assert!(error(&[("kernel", "(1, 1)"), ("num_filter", "8"), ("stride", "(1)")]).contains("spatial dimensions"));
        assert!(error(&[("kernel", "(1, 1)"), ("num_filter", "8"), ("stride", "(0, 1)")]).contains("at least 1"));
    }
}
