//! `Correlation` of two feature maps.

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::correlation::{CorrelationShape, correlation, correlation_backward};
use ferromx_kernels::float::FloatElement;

use super::{TYPES, expect_images, image_size};
use crate::precision::by_precision;

params! {
    /// Parameters of `Correlation`.
    pub struct CorrelationParam {
        /// Height and width of a patch; an odd number.
        kernel_size: u32 = 1;
        /// The largest displacement of the second patch in each direction, in pixels.
        max_displacement: u32 = 1;
        /// Distance between neighboring patches of the first image.
        stride1: u32 = 1, where 1..=u32::MAX;
        /// Distance between neighboring displacements.
        stride2: u32 = 1, where 1..=u32::MAX;
        /// Zeros added around the images.
        pad_size: u32 = 0;
        /// Whether patches are compared by the product of their pixels; otherwise by the absolute difference.
        is_multiply: bool = true;
    }
}

pub(super) static CORRELATION: Operator<CorrelationParam> = Operator::new("Correlation").legacy()
    .doc(
        "Compares patches of two images at a range of displacements (Fischer et al., \"FlowNet\", 2015):\n\n\
         out[n, d, i, j] = mean over channels c and taps h, w of data1[n, c, y + h, x + w] * data2[n, c, y + dy + h, x + dx + w], \
         where y = i * stride1 + max_displacement, x = j * stride1 + max_displacement, and displacement d = (dy, dx) runs \
         over the multiples of stride2 up to max_displacement in both directions. With is_multiply=False the product \
         is the absolute difference.\n\n\
         Shapes: data1 and data2 (batch, channel, height, width), output (batch, D * D, out_height, out_width) with \
         D = 2 * floor(max_displacement / stride2) + 1 and an output size of \
         ceil((size + 2 * pad_size - 2 * max_displacement - kernel_size + 1) / stride1).",
    )
    .inputs(&[
        arg("data1", "The first images, of shape (batch, channel, height, width)."),
        arg("data2", "The second images, of the same shape."),
    ])
    .shape(infer_shape)
    .forward(|ctx, ins, outs| {
        let s = ctx.params::<CorrelationParam>().shape(ins[0].shape())?;
        by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
            correlation(&s, ins[0].slice::<T>()?, ins[1].slice::<T>()?, outs[0].slice_mut::<T>()?);
            Ok(())
        }, other => Err(ctx.unsupported(other, TYPES)))
    })
    .grad(Grad::Kernel(Backward::new(backward).inputs(Deps::All), None));

impl CorrelationParam {
    /// The dimensions of a call on images of shape `data`, 0 where unknown.
    fn shape(&self, data: &Shape) -> Result<CorrelationShape> {
        let sizes = [self.kernel_size, self.max_displacement, self.stride1, self.stride2, self.pad_size];
        let [kernel, displacement, stride1, stride2, pad] = sizes.map(|v| v as usize);
        ensure!(
            kernel % 2 == 1,
            "kernel_size should be an odd number, so that a patch has a center, but it is {kernel}"
        );
        ensure!(
            sizes.iter().all(|v| *v <= 1 << 16),
            "Correlation: sizes above {} are not supported: kernel_size {kernel}, max_displacement {displacement}, pad_size {pad}",
            1 << 16
        );
        let s = CorrelationShape {
            batch: data.dim(0).max(0) as usize,
            channels: data.dim(1).max(0) as usize,
            input: image_size(data),
            kernel,
            displacement,
            strides: [stride1, stride2],
            pad,
            is_multiply: self.is_multiply,
        };
        ensure!(
            !data.is_known() || s.output().iter().all(|d| *d > 0),
            "Correlation has no output: patches of {kernel} and displacements of {displacement} do not fit into {data} with \
             padding {pad}"
        );
        Ok(s)
    }
}

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    (0..2).try_for_each(|i| expect_images("data", &io.ins[i]))?;
    let (first, second) = (io.ins[0].clone(), io.ins[1].clone());
    io.assign_in(0, &second)?;
    io.assign_in(1, &first)?;
    let s = p.get::<CorrelationParam>().shape(&io.ins[0])?;
    let known = |axis: usize, size: usize| if io.ins[0].dim(axis) < 0 { -1 } else { size as i64 };
    let [height, width] = s.output();
    let out = [io.ins[0].dim(0), s.displacements() as i64, known(2, height), known(3, width)];
    io.assign_out(0, &Shape::from(out))?;
    (0..2).try_for_each(|i| io.assign_in(i, &Shape::new(&[io.outs[0].dim(0), -1, -1, -1])))
}

/// Inputs: gradient of the output, both images. Outputs: gradients of both images.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => backward_as::<T>(ctx, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn backward_as<T: FloatElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let s = ctx.params::<CorrelationParam>().shape(ins[1].shape())?;
    let [first, second] = outs else { return Err(Error::Internal("Correlation has two inputs".into())) };
    let grads = [
        first.wanted().then(|| first.slice_mut::<T>()).transpose()?,
        second.wanted().then(|| second.slice_mut::<T>()).transpose()?,
    ];
    let images = [ins[1].slice::<T>()?, ins[2].slice::<T>()?];
    correlation_backward(&s, images, ins[0].slice::<T>()?, grads);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn gradients_agree_with_finite_differences() {
        // The absolute difference has no derivative at 0, so pixels differ from each other and from the padding.
        let image = |k: i32| {
            let pixels: Vec<_> = (0..40).map(|i| f64::from(i * k % 17) / 3.0 + f64::from(k) / 50.0).collect();
            array(&pixels, &[1, 2, 4, 5])
        };
        let sizes = [("kernel_size", "3"), ("max_displacement", "2"), ("stride1", "2"), ("pad_size", "3")];
        for more in [[("is_multiply", "1"), ("stride2", "1")], [("is_multiply", "0"), ("stride2", "2")]] {
            Case::new(&CORRELATION, &[&sizes[..], &more].concat()).check_gradient(&[image(7), image(11)]);
        }
        Case::new(&CORRELATION, &[]).check_gradient(&[image(7), image(11)]);
    }

    #[test]
    fn patches_that_do_not_fit_are_errors() {
        let shapes = |attrs: &[(&str, &str)]| {
            Case::new(&CORRELATION, attrs).shapes(&[[2, 3, 10, 11].into(), [2, 3, 10, 11].into()])
        };
        assert!(shapes(&[("kernel_size", "2")]).is_err());
        assert!(shapes(&[("max_displacement", "9")]).is_err());
        let fits = [("kernel_size", "3"), ("max_displacement", "2"), ("stride1", "2"), ("pad_size", "3")];
        assert_eq!(shapes(&fits).unwrap()[0], [2, 25, 5, 6].into());
    }
}
