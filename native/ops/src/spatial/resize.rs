//! `_contrib_BilinearResize2D` and `_contrib_AdaptiveAvgPooling2D`.

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, param_enum, params};
use ferromx_kernels::resize::{
    Resize, average_resize, average_resize_backward, bilinear_resize, bilinear_resize_backward,
};

use super::{TYPES, expect_images, image_size};
use crate::init::fill;
use crate::precision::by_precision;
use crate::rules::no_gradient;

param_enum! {
    /// How the size of the output is determined.
    pub enum ResizeMode {
        Like = "like", OddScale = "odd_scale", Size = "size", ToEvenDown = "to_even_down", ToEvenUp = "to_even_up",
        ToOddDown = "to_odd_down", ToOddUp = "to_odd_up"
    }
}

params! {
    /// Parameters of `_contrib_BilinearResize2D`.
    pub struct BilinearResizeParam {
        /// Height of the output, for mode `size` without scale_height.
        height: i32 = 1, where 1..=i32::MAX;
        /// Width of the output, for mode `size` without scale_width.
        width: i32 = 1, where 1..=i32::MAX;
        /// Scale of the height, for the modes `size` and `odd_scale`; give scale_width too.
        scale_height: Option<f32> = None;
        /// Scale of the width, for the modes `size` and `odd_scale`; give scale_height too.
        scale_width: Option<f32> = None;
        /// `size`: height and width, or the scales if given; `odd_scale`: the scales, with odd sizes n resized to (n - 1) * scale + 1;
        /// `like`: the size of the second input; `to_even_down`, `to_odd_up`, ...: the nearest even or odd size in that direction.
        mode: ResizeMode = (ResizeMode::Size);
        /// Whether the centers of the corner pixels of input and output are aligned; otherwise their outer edges are.
        align_corners: bool = true;
    }
}

pub(super) static BILINEAR_RESIZE: Operator<BilinearResizeParam> = Operator::new("_contrib_BilinearResize2D")
    .names_data()
    .doc(
        "Resizes images of shape (batch, channel, height, width) by bilinear interpolation.\n\n\
         Output pixel i samples the input at coordinate i * (size - 1) / (out_size - 1) with align_corners, else at \
         (i + 0.5) * size / out_size - 0.5, and at 0 if that is negative or out_size is 1.",
    )
    .inputs(&[
        arg("data", "The images, of shape (batch, channel, height, width)."),
        arg("like", "With mode `like`, a 4D array whose height and width are used."),
    ])
    .num_inputs_by(|p| if p.get::<BilinearResizeParam>().mode == ResizeMode::Like { 2 } else { 1 })
    .shape(bilinear_shape)
    .forward(|ctx, ins, outs| {
        let (shape, align_corners) =
            (resize_shape(ins[0].shape(), outs[0].shape())?, ctx.params::<BilinearResizeParam>().align_corners);
        by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
            bilinear_resize(&shape, align_corners, ins[0].slice::<T>()?, outs[0].slice_mut::<T>()?);
            Ok(())
        }, other => Err(ctx.unsupported(other, TYPES)))
    })
    .grad(Grad::Kernel(Backward::new(bilinear_backward), None));

/// The sizes of images before and after resizing.
fn resize_shape(from: &Shape, to: &Shape) -> Result<Resize> {
    let shape = Resize { input: image_size(from), output: image_size(to) };
    ensure!(
        shape.input.iter().all(|d| *d > 0) || to.num_elements() == 0,
        "images of shape {from} have no pixels, so they cannot be resized to {to}"
    );
    Ok(shape)
}

impl BilinearResizeParam {
    /// The size of the output along an axis of `size` pixels. `given` is the parameter height or width.
    fn resized(&self, size: i64, given: i32, scale: Option<f32>) -> Result<i64> {
        let scaled = |size: i64| match scale {
            // MXNet multiplies in single precision, where 10 * 0.7 is 7.
            Some(scale) => Ok((size as f32 * scale) as i64),
            None => Err(Error::Value(format!("mode {:?} needs both scale_height and scale_width", self.mode))),
        };
        let is_even = size % 2 == 0;
        let resized = match self.mode {
            // As in MXNet, scale_width alone has no effect.
            ResizeMode::Size if self.scale_height.is_none() => given.into(),
            ResizeMode::Size => scaled(size)?,
            ResizeMode::OddScale if is_even => scaled(size)?,
            ResizeMode::OddScale => scaled(size - 1)? + 1,
            ResizeMode::ToEvenDown => size - i64::from(!is_even),
            ResizeMode::ToEvenUp => size + i64::from(!is_even),
            ResizeMode::ToOddDown => size - i64::from(is_even),
            ResizeMode::ToOddUp => size + i64::from(is_even),
            ResizeMode::Like => size,
        };
        ensure!(
            (size.min(1)..=i64::from(i32::MAX)).contains(&resized),
            "an axis of {size} pixels would be resized to {resized}: change the scale or the mode"
        );
        Ok(resized)
    }
}

fn bilinear_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<BilinearResizeParam>();
    io.ins.iter().try_for_each(|s| expect_images("data", s))?;
    io.assign_in(0, &Shape::new(&[io.outs[0].dim(0), io.outs[0].dim(1), -1, -1]))?;
    let mut out = [io.ins[0].dim(0), io.ins[0].dim(1), -1, -1];
    for (axis, given, scale) in [(2, p.height, p.scale_height), (3, p.width, p.scale_width)] {
        out[axis] = match (p.mode, io.ins[0].dim(axis)) {
            (ResizeMode::Like, _) => io.ins.get(1).map_or(-1, |like| like.dim(axis)),
            (_, -1) => -1,
            (_, size) => p.resized(size, given, scale)?,
        };
    }
    io.assign_out(0, &out.into())
}

/// Input: gradient of the output. Outputs: gradients of the images and of `like`.
fn bilinear_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    if let Some(like) = outs.get_mut(1) {
        no_gradient(like)?;
    }
    if !outs[0].wanted() {
        return Ok(());
    }
    let align_corners = ctx.params::<BilinearResizeParam>().align_corners;
    let shape = resize_shape(outs[0].shape(), ins[0].shape())?;
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
        bilinear_resize_backward(&shape, align_corners, ins[0].slice::<T>()?, outs[0].slice_mut::<T>()?);
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

params! {
    /// Parameters of `_contrib_AdaptiveAvgPooling2D`.
    pub struct AdaptiveAvgPoolingParam {
        /// Height and width of the output, or one number for both; 1 by default.
        output_size: Shape = (Shape::new(&[]));
    }
}

pub(super) static ADAPTIVE_AVG_POOLING: Operator<AdaptiveAvgPoolingParam> = Operator::new("_contrib_AdaptiveAvgPooling2D")
    .doc(
        "Averages images of shape (batch, channel, height, width) over output_size evenly divided windows: output row i is the mean of \
         the rows floor(i * height / out_height) to ceil((i + 1) * height / out_height) - 1, and the same for columns.",
    )
    .inputs(&[arg("data", "The images, of shape (batch, channel, height, width).")])
    .shape(|p, io| {
        let output_size = &p.get::<AdaptiveAvgPoolingParam>().output_size;
        let size = match output_size.dims() {
            [size] => [*size; 2],
            [height, width] => [*height, *width],
            // As in MXNet, pooling is global unless one or two sizes are given.
            _ => [1, 1],
        };
        ensure!(size.iter().all(|d| *d > 0), "output_size {output_size} must be one or two numbers of at least 1");
        expect_images("data", &io.ins[0])?;
        io.assign_in(0, &Shape::new(&[io.outs[0].dim(0), io.outs[0].dim(1), -1, -1]))?;
        io.assign_out(0, &Shape::new(&[io.ins[0].dim(0), io.ins[0].dim(1), size[0], size[1]]))
    })
    .forward(|ctx, ins, outs| {
        if ins[0].is_empty() {
            // The mean over no pixels.
            return fill(&mut outs[0], f64::NAN);
        }
        let shape = resize_shape(ins[0].shape(), outs[0].shape())?;
        by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
            average_resize(&shape, ins[0].slice::<T>()?, outs[0].slice_mut::<T>()?);
            Ok(())
        }, other => Err(ctx.unsupported(other, TYPES)))
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            if outs[0].shape().num_elements() == 0 {
                return Ok(());
            }
            let shape = resize_shape(outs[0].shape(), ins[0].shape())?;
            by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
                average_resize_backward(&shape, ins[0].slice::<T>()?, outs[0].slice_mut::<T>()?);
                Ok(())
            }, other => Err(ctx.unsupported(other, TYPES)))
        }),
        None,
    ));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x = || array(&(0..30).map(|i| f64::from(i * 7 % 13)).collect::<Vec<_>>(), &[1, 2, 3, 5]);
        for corners in ["True", "False"] {
            for (height, width) in [("5", "3"), ("1", "7"), ("2", "1")] {
                let attrs = [("height", height), ("width", width), ("align_corners", corners)];
                Case::new(&BILINEAR_RESIZE, &attrs).check_gradient(&[x()]);
            }
        }
        for size in ["(2, 3)", "(4,)", "()"] {
            Case::new(&ADAPTIVE_AVG_POOLING, &[("output_size", size)]).check_gradient(&[x()]);
        }
    }

    #[test]
    fn sizes_follow_the_mode() {
        let sized = |attrs: &[(&str, &str)], h: i64, w: i64| {
            let out = Case::new(&BILINEAR_RESIZE, attrs).shapes(&[[1, 2, h, w].into()])?;
            Ok::<_, Error>((out[0].dim(2), out[0].dim(3)))
        };
        let scales = [("scale_height", "1.5"), ("scale_width", "0.5")];
        assert_eq!(sized(&[&scales[..], &[("mode", "odd_scale")]].concat(), 5, 7), Ok((7, 4)));
        assert_eq!(sized(&scales, 6, 8), Ok((9, 4)));
        assert_eq!(sized(&[("mode", "to_odd_down")], 6, 7), Ok((5, 7)));
        assert_eq!(sized(&[("mode", "to_even_up")], 6, 7), Ok((6, 8)));
        assert!(sized(&[("mode", "to_even_down")], 1, 2).is_err());
        assert!(sized(&scales[..1], 5, 7).is_err());
    }
}
