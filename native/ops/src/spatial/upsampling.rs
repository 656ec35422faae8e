//! `UpSampling`: enlarges images by an integer scale.

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, param_enum, params};
use ferromx_kernels::conv::{ConvEpilogue, ConvShape, conv_backward_data, conv_backward_weights, conv_forward};
use ferromx_kernels::float::FloatElement;
use ferromx_kernels::resize::{Resize, nearest_resize, nearest_resize_backward};

use super::{TYPES, expect_images, image_size};
use crate::precision::by_precision;

param_enum! {
    /// The interpolation of `UpSampling`.
    pub enum SampleType { Bilinear = "bilinear", Nearest = "nearest" }
}

param_enum! {
    /// How several inputs are combined into one output.
    pub enum MultiInputMode { Concat = "concat", Sum = "sum" }
}

params! {
    /// Parameters of `UpSampling`.
    pub struct UpSamplingParam {
        /// The scale of height and width.
        scale: i32 = required, where 1..=i32::MAX;
        /// Accepted for compatibility: the number of channels, which is that of the data.
        num_filter: i32 = 0;
        /// `nearest` repeats pixels; `bilinear` is a depthwise transposed convolution with trainable weights.
        sample_type: SampleType = required;
        /// Whether the channels of several inputs are concatenated or added, for `nearest`.
        multi_input_mode: MultiInputMode = (MultiInputMode::Concat);
        /// Number of inputs: the images, and for `bilinear` also the weights.
        num_args: i32 = required, where 1..=i32::MAX;
        /// Accepted for compatibility: megabytes of temporary memory on a GPU.
        workspace: u64 = 512;
    }
}

pub(super) static UP_SAMPLING: Operator<UpSamplingParam> = Operator::new("UpSampling").names_outputs()
    .doc(
        "Enlarges images of shape (batch, channel, height, width) by an integer scale.\n\n\
         `nearest` repeats each pixel: out[n, c, y, x] = data[n, c, y / scale, x / scale]. Further inputs may have other sizes that \
         divide the output's; the channels of all are concatenated, or added with multi_input_mode `sum`. `bilinear` is a depthwise \
         `Deconvolution`, with weights of shape (channel, 1, k, k), k = 2 * scale - scale % 2, stride \
         `scale` and padding ceil((scale - 1) / 2); initialize them with `Bilinear` for interpolation.",
    )
    .variadic("data", "The images; for `bilinear` one array of images and the weights.", "num_args")
    .num_inputs_by(|p| {
        let p = p.get::<UpSamplingParam>();
        if p.sample_type == SampleType::Bilinear { 2 } else { p.num_args.max(1) as usize }
    })
    .input_names_by(|p| {
        let p = p.get::<UpSamplingParam>();
        match p.sample_type {
            SampleType::Bilinear => vec!["data".into(), "weight".into()],
            SampleType::Nearest => (0..p.num_args).map(|i| format!("arg{i}")).collect(),
        }
    })
    .input_init(&[(1, "[\"bilinear\", {}]")])
    .shape(infer_shape)
    .forward(forward)
    .grad(Grad::Kernel(Backward::new(backward).inputs(Deps::All), None));

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<UpSamplingParam>();
    let scale = i64::from(p.scale);
    expect_images("UpSampling: data", &io.ins[0])?;
    let scaled = |d: i64| if d < 0 { -1 } else { d * scale };
    let (height, width) = (scaled(io.ins[0].dim(2)), scaled(io.ins[0].dim(3)));
    if p.sample_type == SampleType::Bilinear {
        ensure!(
            io.ins.len() == 2,
            "UpSampling with sample_type bilinear takes 2 inputs, data and weight, but got {}",
            io.ins.len()
        );
        let kernel = 2 * scale - scale % 2;
        io.assign_in(1, &Shape::new(&[io.ins[0].dim(1), 1, kernel, kernel]))?;
        return io.assign_out(0, &Shape::new(&[io.ins[0].dim(0), io.ins[0].dim(1), height, width]));
    }
    ensure!(io.ins.len() == p.num_args as usize, "num_args is {}, but {} inputs were given", p.num_args, io.ins.len());
    let mut channels = 0;
    for shape in io.ins.iter() {
        expect_images("UpSampling: data", shape)?;
        for (axis, size) in [(2, height), (3, width)] {
            let d = shape.dim(axis);
            ensure!(
                d < 0 || size < 0 || (d > 0 && size % d == 0),
                "UpSampling: size {d} of axis {axis} of the input {shape} does not divide the output size {size}"
            );
        }
        channels = match (p.multi_input_mode, shape.dim(1)) {
            (_, -1) => -1,
            (MultiInputMode::Concat, c) if channels >= 0 => channels + c,
            (MultiInputMode::Concat, _) => -1,
            (MultiInputMode::Sum, c) => c,
        };
    }
    if p.multi_input_mode == MultiInputMode::Sum {
        let channels = io.ins.iter().map(|s| s.dim(1)).find(|c| *c >= 0).unwrap_or(-1);
        (0..io.ins.len()).try_for_each(|i| io.assign_in(i, &Shape::new(&[-1, channels, -1, -1])))?;
    }
    io.assign_out(0, &Shape::new(&[io.ins[0].dim(0), channels, height, width]))?;
    let batch = Shape::new(&[io.outs[0].dim(0), -1, -1, -1]);
    (0..io.ins.len()).try_for_each(|i| io.assign_in(i, &batch))
}

/// The depthwise convolution whose transpose is bilinear upsampling.
fn depthwise(p: &UpSamplingParam, data: &Shape) -> ConvShape {
    let (dims, scale) = (data.to_usize(), p.scale as usize);
    // The convolution kernels take three spatial dimensions; the first one is not used.
    let spatial = |d: usize, unused: usize| [unused, d, d];
    ConvShape {
        batch: dims[0],
        groups: dims[1],
        in_channels: dims[1],
        out_channels: dims[1],
        input: [1, dims[2] * scale, dims[3] * scale],
        kernel: spatial(2 * scale - scale % 2, 1),
        stride: spatial(scale, 1),
        pad: spatial((scale - 1).div_ceil(2), 0),
        dilate: [1; 3],
    }
}

/// For each input, how it is resized, the number of its channels, and its first channel in the output.
fn channel_ranges<'a>(
    p: &UpSamplingParam,
    shapes: impl Iterator<Item = &'a Shape> + 'a,
    out: &Shape,
) -> impl Iterator<Item = (Resize, usize, usize)> + 'a {
    let (output, is_concat, mut first) = (image_size(out), p.multi_input_mode == MultiInputMode::Concat, 0);
    shapes.map(move |shape| {
        let channels = shape.dim(1) as usize;
        let range = (Resize { input: image_size(shape), output }, channels, first);
        first += if is_concat { channels } else { 0 };
        range
    })
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => forward_as::<T>(ctx.params(), ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn forward_as<T: FloatElement>(p: &UpSamplingParam, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let out = outs[0].shape().clone();
    let y = outs[0].slice_mut::<T>()?;
    if p.sample_type == SampleType::Bilinear {
        let shape = depthwise(p, ins[0].shape());
        conv_backward_data(&shape, ins[0].slice::<T>()?, ins[1].slice::<T>()?, y);
        return Ok(());
    }
    let (image_len, plane_len) = (out.product(1..) as usize, out.product(2..) as usize);
    let is_sum = p.multi_input_mode == MultiInputMode::Sum;
    for (i, (resize, channels, first)) in channel_ranges(p, ins.iter().map(In::shape), &out).enumerate() {
        let (x, add) = (ins[i].slice::<T>()?, is_sum && i > 0);
        if channels * plane_len == image_len {
            nearest_resize(&resize, add, x, y);
            continue;
        }
        let input_len = x.len() / (out.dim(0) as usize).max(1);
        for (x, y) in x.chunks_exact(input_len.max(1)).zip(y.chunks_exact_mut(image_len.max(1))) {
            nearest_resize(&resize, add, x, &mut y[first * plane_len..(first + channels) * plane_len]);
        }
    }
    Ok(())
}

/// Inputs: gradient of the output, inputs. Outputs: gradients of the inputs.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => backward_as::<T>(ctx.params(), ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn backward_as<T: FloatElement>(p: &UpSamplingParam, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let dy = ins[0].slice::<T>()?;
    if p.sample_type == SampleType::Bilinear {
        let [x, w] = &ins[1..] else { return Err(Error::Internal("UpSampling reads data and weight".into())) };
        let shape = depthwise(p, x.shape());
        if outs[0].wanted() {
            conv_forward(&shape, dy, w.slice::<T>()?, &ConvEpilogue::default(), outs[0].slice_mut::<T>()?);
        }
        if outs[1].wanted() {
            conv_backward_weights(&shape, dy, x.slice::<T>()?, outs[1].slice_mut::<T>()?);
        }
        return Ok(());
    }
    let out = ins[0].shape();
    let (image_len, plane_len) = (out.product(1..) as usize, out.product(2..) as usize);
    for (i, (resize, channels, first)) in channel_ranges(p, ins[1..].iter().map(In::shape), out).enumerate() {
        if !outs[i].wanted() {
            continue;
        }
        let dx = outs[i].slice_mut::<T>()?;
        if channels * plane_len == image_len {
            nearest_resize_backward(&resize, dy, dx);
            continue;
        }
        let input_len = dx.len() / (out.dim(0) as usize).max(1);
        for (dx, dy) in dx.chunks_exact_mut(input_len.max(1)).zip(dy.chunks_exact(image_len.max(1))) {
            nearest_resize_backward(&resize, &dy[first * plane_len..(first + channels) * plane_len], dx);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    fn images(dims: &[i64]) -> ferromx_core::ndarray::NDArray {
        let n = dims.iter().product::<i64>();
        array(&(0..n).map(|i| (i * 7 % 13) as f64 / 4.0).collect::<Vec<_>>(), dims)
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let nearest = [("sample_type", "nearest"), ("scale", "2"), ("num_args", "2")];
        Case::new(&UP_SAMPLING, &nearest).check_gradient(&[images(&[2, 2, 2, 3]), images(&[2, 1, 4, 2])]);
        let sum = [nearest[0], nearest[1], nearest[2], ("multi_input_mode", "sum")];
        Case::new(&UP_SAMPLING, &sum).check_gradient(&[images(&[1, 2, 2, 1]), images(&[1, 2, 1, 2])]);
        let bilinear = [("sample_type", "bilinear"), ("scale", "3"), ("num_args", "2"), ("num_filter", "2")];
        Case::new(&UP_SAMPLING, &bilinear).check_gradient(&[images(&[1, 2, 2, 2]), images(&[2, 1, 5, 5])]);
    }

    #[test]
    fn sizes_that_do_not_divide_the_output_are_errors() {
        let attrs = [("sample_type", "nearest"), ("scale", "2"), ("num_args", "2")];
        let shapes = |a: [i64; 4], b: [i64; 4]| Case::new(&UP_SAMPLING, &attrs).shapes(&[a.into(), b.into()]);
        assert_eq!(shapes([1, 3, 4, 4], [1, 2, 2, 2]).unwrap()[0], [1, 5, 8, 8].into());
        assert!(shapes([1, 3, 4, 4], [1, 2, 3, 3]).is_err());
        assert!(shapes([1, 3, 4, 4], [1, 2, 16, 16]).is_err());
        assert!(shapes([1, 3, 4, 4], [2, 2, 4, 4]).is_err());
    }
}
