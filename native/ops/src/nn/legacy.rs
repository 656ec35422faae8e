//! `Convolution_v1` and `Pooling_v1`, the first versions of `Convolution` and `Pooling`, for networks that were saved with them.

use std::ops::Range;

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, param_enum, params};
use ferromx_kernels::float::FloatElement;
use ferromx_kernels::movement::{self, Padding};
use ferromx_kernels::par::with_scratch;
use ferromx_kernels::pool::{PoolKind, PoolShape, max_pool_backward_to_ties, pool_backward, pool_forward};

use super::convolution::{self, ConvLayout, ConvolutionParam, CudnnTune};
use super::pooling::{self, Convention, PoolType, PoolingParam};

param_enum! {
    /// Order of the dimensions.
    pub enum ConvLayoutV1 { Ncdhw = "NCDHW", Nchw = "NCHW", Ndhwc = "NDHWC", Nhwc = "NHWC" }
}

params! {
    /// Parameters of `Convolution_v1`.
    pub struct ConvolutionV1Param {
        /// Size of the window: (height, width) or (depth, height, width).
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
        /// Accepted for compatibility: megabytes of temporary memory.
        workspace: u64 = 1024;
        /// Whether there is no bias.
        no_bias: bool = false;
        /// Accepted for compatibility: how cuDNN chooses an algorithm.
        cudnn_tune: Option<CudnnTune> = None;
        /// Accepted for compatibility: turns off cuDNN on a GPU.
        cudnn_off: bool = false;
        /// Order of the dimensions; by default NCHW or NCDHW. With channels last only the shapes can be inferred.
        layout: Option<ConvLayoutV1> = None;
    }
}

impl ConvolutionV1Param {
    /// The equivalent parameters of `Convolution`.
    fn to_convolution(&self) -> ConvolutionParam {
        ConvolutionParam {
            kernel: self.kernel.clone(),
            stride: self.stride.clone(),
            dilate: self.dilate.clone(),
            pad: self.pad.clone(),
            num_filter: self.num_filter,
            num_group: self.num_group,
            workspace: self.workspace,
            no_bias: self.no_bias,
            cudnn_tune: self.cudnn_tune,
            cudnn_off: self.cudnn_off,
            layout: self.layout.map(|layout| match layout {
                ConvLayoutV1::Ncdhw => ConvLayout::Ncdhw,
                ConvLayoutV1::Nchw => ConvLayout::Nchw,
                ConvLayoutV1::Ndhwc => ConvLayout::Ndhwc,
                ConvLayoutV1::Nhwc => ConvLayout::Nhwc,
            }),
        }
    }
}

/// The first version of `Convolution`.
pub(super) static CONVOLUTION_V1: Operator<ConvolutionV1Param> = Operator::new("Convolution_v1").legacy()
    .doc(
        "The first version of `Convolution`, for networks that were saved with it: the same in two and three dimensions.\n\n\
         Shapes in two dimensions: data (batch, channel, height, width), weight (num_filter, channel/num_group, kernel...), bias \
         (num_filter,), output (batch, num_filter, out_height, out_width).",
    )
    .inputs(&[
        arg("data", "The input, of shape (batch, channel, spatial dimensions...)."),
        arg("weight", "The weights, of shape (num_filter, channel/num_group, kernel...)."),
        arg("bias", "The bias, of shape (num_filter,); absent with no_bias=True."),
    ])
    .num_inputs_by(|p| if p.get::<ConvolutionV1Param>().no_bias { 2 } else { 3 })
    .shape(|p, io| {
        let p = p.get::<ConvolutionV1Param>();
        ensure!(p.kernel.dims().len() >= 2, "Convolution_v1 takes two or three dimensions, but the kernel is {}", p.kernel);
        convolution::infer_with(&p.to_convolution(), io)
    })
    .forward(|ctx, ins, outs| {
        convolution::forward_with(ctx, &ctx.params::<ConvolutionV1Param>().to_convolution(), ins, outs)
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            convolution::backward_with(ctx, &ctx.params::<ConvolutionV1Param>().to_convolution(), ins, outs)
        })
        .inputs(Deps::Some(&[0, 1])),
        None,
    ));

param_enum! {
    /// The reduction of a window.
    pub enum PoolTypeV1 { Avg = "avg", Max = "max", Sum = "sum" }
}

param_enum! {
    /// How the number of windows is rounded.
    pub enum ConventionV1 { Full = "full", Valid = "valid" }
}

params! {
    /// Parameters of `Pooling_v1`.
    pub struct PoolingV1Param {
        /// Size of the window: (height, width) or (depth, height, width). Not needed with `global_pool`.
        kernel: Shape = (Shape::new(&[]));
        /// The reduction of a window: the average, the maximum or the sum.
        pool_type: PoolTypeV1 = (PoolTypeV1::Max);
        /// Whether one window covers the whole input; kernel, stride and pad are then ignored.
        global_pool: bool = false;
        /// Number of windows: `valid` rounds down, `full` rounds up.
        pooling_convention: ConventionV1 = (ConventionV1::Valid);
        /// Stride of the windows; 1 by default.
        stride: Shape = (Shape::new(&[]));
        /// Zero padding at both ends of each dimension; 0 by default.
        pad: Shape = (Shape::new(&[]));
    }
}

impl PoolingV1Param {
    /// The parameters of `Pooling`, which differs only for windows that reach over the border.
    fn to_pooling(&self) -> PoolingParam {
        PoolingParam {
            kernel: self.kernel.clone(),
            pool_type: match self.pool_type {
                PoolTypeV1::Avg => PoolType::Avg,
                PoolTypeV1::Max => PoolType::Max,
                PoolTypeV1::Sum => PoolType::Sum,
            },
            global_pool: self.global_pool,
            cudnn_off: false,
            pooling_convention: match self.pooling_convention {
                ConventionV1::Full => Convention::Full,
                ConventionV1::Valid => Convention::Valid,
            },
            stride: self.stride.clone(),
            pad: self.pad.clone(),
            p_value: None,
            count_include_pad: None,
            layout: None,
        }
    }
}

/// The first version of `Pooling`.
pub(super) static POOLING_V1: Operator<PoolingV1Param> = Operator::new("Pooling_v1").legacy()
    .doc(
        "The first version of `Pooling`, for networks that were saved with it. It differs for windows that reach over the border: \
         padding is 0, for the maximum too, and averages always divide by the size of the window.\n\n\
         Shapes in two dimensions: data (batch, channel, height, width), output (batch, channel, out_height, out_width), where an \
         output size is floor((size + 2*pad - kernel) / stride) + 1, with pooling_convention `full` rounded up.",
    )
    .inputs(&[arg("data", "The input, of shape (batch, channel, spatial dimensions...), with two or three of these.")])
    .shape(pooling_shape)
    .forward(|ctx, ins, outs| {
        dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16] => pooling_forward::<T>(ctx, ins, outs),
            other => Err(ctx.unsupported(other, TYPES)))
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16] => pooling_backward::<T>(ctx, ins, outs),
                other => Err(ctx.unsupported(other, TYPES)))
        })
        .inputs(Deps::All)
        .outputs(Deps::All),
        None,
    ));

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

fn pooling_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    ensure!(
        io.ins[0].ndim().is_none_or(|n| n == 4 || n == 5),
        "Pooling_v1: Input data should be 4D in (batch, channel, y, x) or 5D in (batch, channel, d, y, x), but it is {}",
        io.ins[0]
    );
    pooling::infer_with(&p.get::<PoolingV1Param>().to_pooling(), io)
}

/// The geometry of pooling the explicitly padded input, and the padding (before, after) of each of the axes (planes, depth, height, width).
fn padded(p: &PoolingV1Param, data: &Shape) -> Result<(PoolShape, PoolKind, [(usize, usize); 4])> {
    let p = p.to_pooling();
    let (shape, kind) = (p.shape(data)?, p.kind()?);
    let mut pads = [(0, 0); 4];
    let mut input = shape.input;
    for i in 0..3 {
        // Sums and averages need full windows. The maximum does not change when a window is clipped.
        let windows_end = (shape.output[i].max(1) - 1) * shape.stride[i] + shape.kernel[i];
        let after = match kind {
            PoolKind::Max => 0,
            _ => windows_end.saturating_sub(shape.input[i] + shape.pad[i]),
        };
        pads[i + 1] = (shape.pad[i], after.max(shape.pad[i]));
        input[i] += shape.pad[i] + pads[i + 1].1;
    }
    Ok((PoolShape { input, pad: [0; 3], ..shape }, kind, pads))
}

fn pooling_forward<T: FloatElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (shape, kind, pads) = padded(ctx.params(), ins[0].shape())?;
    let (x, y) = (ins[0].slice::<T>()?, outs[0].slice_mut::<T>()?);
    with_padded(&shape, &pads, x, |x| {
        pool_forward(&shape, kind, x, y);
        if kind == PoolKind::Max {
            propagate_nan(&shape, x, y);
        }
    });
    Ok(())
}

/// Sets the maximum of each window with a NaN to NaN. Unlike in `Pooling`, a NaN does not count as smaller than every number.
fn propagate_nan<T: FloatElement>(shape: &PoolShape, x: &[T], y: &mut [T]) {
    let (plane, windows) = (shape.input.iter().product::<usize>(), shape.output.iter().product::<usize>());
    let [_, height, width] = shape.output;
    for (i, x) in x.iter().enumerate().filter(|(_, x)| x.to_f32().is_nan()) {
        let position = unravel(i % plane, shape.input);
        let [depths, rows, columns]: [Range<usize>; 3] = std::array::from_fn(|axis| {
            let (stride, kernel) = (shape.stride[axis], shape.kernel[axis]);
            let first = (position[axis] + 1).saturating_sub(kernel).div_ceil(stride);
            first..(position[axis] / stride + 1).min(shape.output[axis])
        });
        let y = &mut y[i / plane * windows..][..windows];
        for row in depths.flat_map(|depth| rows.clone().map(move |row| depth * height + row)) {
            columns.clone().for_each(|column| y[row * width + column] = *x);
        }
    }
}

/// The coordinates of an index.
fn unravel(index: usize, [_, height, width]: [usize; 3]) -> [usize; 3] {
    [index / (height * width), index / width % height, index % width]
}

/// The shape (planes, depth, height, width) of the input without padding.
fn unpadded_dims(shape: &PoolShape, pads: &[(usize, usize); 4]) -> [usize; 4] {
    let size = |i: usize| shape.input[i] - pads[i + 1].0 - pads[i + 1].1;
    [shape.planes, size(0), size(1), size(2)]
}

/// Calls `f` with the padded input.
fn with_padded<T: FloatElement, R>(
    shape: &PoolShape,
    pads: &[(usize, usize); 4],
    x: &[T],
    f: impl FnOnce(&[T]) -> R,
) -> R {
    if *pads == [(0, 0); 4] {
        return f(x);
    }
    with_scratch(shape.input_len(), |padded: &mut [T]| {
        movement::pad(x, &unpadded_dims(shape, pads), pads, Padding::Constant(T::default()), padded);
        f(padded)
    })
}

/// Inputs: gradient of the output, data, output. Output: gradient of the data.
fn pooling_backward<T: FloatElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (shape, kind, pads) = padded(ctx.params(), ins[1].shape())?;
    let (dy, x, y) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
    if !outs[0].wanted() {
        return Ok(());
    }
    let dx = outs[0].slice_mut::<T>()?;
    let backward = |x: &[T], dx: &mut [T]| match kind {
        PoolKind::Max => max_pool_backward_to_ties(&shape, x, y, dy, dx),
        _ => pool_backward(&shape, kind, x, y, dy, dx),
    };
    with_padded(&shape, &pads, x, |x| {
        if pads == [(0, 0); 4] {
            return backward(x, dx);
        }
        with_scratch(x.len(), |padded: &mut [T]| {
            backward(x, padded);
            let [depth, height, width] = shape.input;
            let begin = pads.map(|(before, _)| before);
            let from = (&*padded, &[shape.planes, depth, height, width][..]);
            movement::slice(from, &begin, &[1; 4], (dx, &unpadded_dims(&shape, &pads)));
        });
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    fn image() -> ferromx_core::ndarray::NDArray {
        array(&(0..18).map(|i| f64::from(i * 7 % 19) / 3.0 - 3.0).collect::<Vec<_>>(), &[1, 2, 3, 3])
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        for kind in ["avg", "max", "sum"] {
            for convention in ["valid", "full"] {
                let more = [("pool_type", kind), ("pooling_convention", convention)];
                let window = [("kernel", "(2, 2)"), ("stride", "(2, 2)")];
                Case::new(&POOLING_V1, &[window, more].concat()).check_gradient(&[image()]);
                Case::new(&POOLING_V1, &[&window[..], &more, &[("pad", "(1, 1)")]].concat()).check_gradient(&[image()]);
            }
            Case::new(&POOLING_V1, &[("global_pool", "1"), ("pool_type", kind)]).check_gradient(&[image()]);
        }
        let weight = array(&(0..16).map(|i| f64::from(i * 5 % 7) / 3.0).collect::<Vec<_>>(), &[2, 2, 2, 2]);
        let attrs = [("kernel", "(2, 2)"), ("num_filter", "2"), ("no_bias", "1"), ("pad", "(1, 0)")];
        Case::new(&CONVOLUTION_V1, &attrs).check_gradient(&[image(), weight]);
    }

    #[test]
    fn each_of_several_equal_maxima_gets_the_whole_gradient() {
        let (x, g) = (array(&[1.0f32, 1.0, 0.0, 1.0], &[1, 1, 1, 4]), array(&[2.0f32, 3.0, 5.0], &[1, 1, 1, 3]));
        let case = Case::new(&POOLING_V1, &[("kernel", "(1, 2)")]);
        let grad = case.backward(&[x], &[g]).unwrap()[0].to_vec::<f32>().unwrap();
        assert_eq!(grad, [2.0, 5.0, 0.0, 5.0]);
    }

    #[test]
    fn the_maximum_of_a_window_with_nan_is_nan() {
        let mut numbers = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        numbers[6] = f32::NAN;
        let case = Case::new(&POOLING_V1, &[("kernel", "(2, 2)")]);
        let y = case.run1(&[array(&numbers, &[1, 1, 2, 4])]).unwrap().to_vec::<f32>().unwrap();
        assert!(y[0] == 6.0 && y[1].is_nan() && y[2].is_nan(), "{y:?}");
    }

    #[test]
    fn nan_reaches_exactly_the_windows_that_contain_it() {
        // Windows of 2 x 3 elements with strides of 3 and 2: rows 2 and 5 are in no window.
        let case = Case::new(&POOLING_V1, &[("kernel", "(2, 3)"), ("stride", "(3, 2)")]);
        for at in 0..2 * 6 * 7 {
            let mut numbers = [0.0f32; 2 * 6 * 7];
            numbers[at] = f32::NAN;
            let y = case.run1(&[array(&numbers, &[1, 2, 6, 7])]).unwrap().to_vec::<f32>().unwrap();
            let (plane, row, column) = (at / 42, at / 7 % 6, at % 7);
            for (w, y) in y.iter().enumerate() {
                let (top, left) = (w / 3 % 2 * 3, w % 3 * 2);
                let contains = w / 6 == plane && (top..top + 2).contains(&row) && (left..left + 3).contains(&column);
                assert_eq!(y.is_nan(), contains, "NaN at {at}, window {w}");
            }
        }
    }

    #[test]
    fn padding_is_zero_for_every_reduction() {
        let x = array(&(1..10).map(|i| -f64::from(i)).collect::<Vec<_>>(), &[1, 1, 3, 3]);
        let pooled = |attrs: &[(&str, &str)]| {
            let attrs = [&[("kernel", "(2, 2)"), ("stride", "(2, 2)"), ("pooling_convention", "full")], attrs].concat();
            Case::new(&POOLING_V1, &attrs).run1(std::slice::from_ref(&x)).unwrap().to_vec::<f64>().unwrap()
        };
        assert_eq!(pooled(&[("pool_type", "max")]), [-1.0, -3.0, -7.0, -9.0]);
        assert_eq!(pooled(&[("pool_type", "avg")]), [-3.0, -2.25, -3.75, -2.25]);
        let pad = ("pad", "(1, 1)");
        assert_eq!(pooled(&[("pool_type", "max"), pad]), [0.0, 0.0, 0.0, 0.0, -5.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(pooled(&[("pool_type", "sum"), pad]), [-1.0, -5.0, 0.0, -11.0, -28.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
