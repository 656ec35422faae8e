//! `Crop`: rectangles of images.

use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{ArgDef, OpCtx, Operator};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::movement::{self, Padding};

use super::{TYPES, expect_images, image_size, pair};
use crate::precision::by_precision;
use crate::rules::no_gradient;

params! {
    /// Parameters of `Crop`.
    pub struct CropParam {
        /// Number of inputs: 1 or 2; a second input gives the size.
        num_args: i32 = required, where 1..=2;
        /// First row and column of the rectangle.
        offset: Shape = (Shape::new(&[0, 0]));
        /// Height and width of the rectangle, if there is one input.
        h_w: Shape = (Shape::new(&[0, 0]));
        /// Whether the rectangle is centered; `offset` is then ignored.
        center_crop: bool = false;
    }
}

pub(super) static CROP: Operator<CropParam> = Operator::new("Crop").legacy()
    .doc(
        "Cuts the rectangle of height and width h_w, or of the size of a second input, out of images: out[n, c, i, j] = \
         data[n, c, i + offset_y, j + offset_x]. With center_crop the offset is (size - out_size) / 2, rounded down. The second \
         input has no gradient.",
    )
    .variadic_arg(
        ArgDef {
            name: "data",
            doc: "The images, of shape (batch, channel, height, width), and optionally an array whose height and width are used.",
            type_string: "Symbol or Symbol[]",
        },
        "num_args",
    )
    .shape(infer_shape)
    .forward(forward)
    .grad(Grad::Kernel(Backward::new(backward), None));

impl CropParam {
    /// The first row and column of the rectangle of size `size` in an image of size `image`, both (height, width).
    fn offset(&self, image: [usize; 2], size: [usize; 2]) -> Result<[usize; 2]> {
        let offset = match self.center_crop {
            true => [0, 1].map(|i| image[i].saturating_sub(size[i]) / 2),
            false => pair("offset", &self.offset, 0)?,
        };
        ensure!(
            (0..2).all(|i| size[i] <= image[i] && offset[i] <= image[i] - size[i]),
            "Crop: a rectangle of height and width {size:?} at {offset:?} exceeds an image of {image:?}"
        );
        Ok(offset)
    }
}

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<CropParam>();
    ensure!(io.ins.len() == p.num_args as usize, "num_args is {}, but {} inputs were given", p.num_args, io.ins.len());
    expect_images("data", &io.ins[0])?;
    io.assign_in(0, &Shape::new(&[io.outs[0].dim(0), io.outs[0].dim(1), -1, -1]))?;
    let [height, width] = match io.ins.get(1) {
        Some(like) => {
            expect_images("the second input", like)?;
            [like.dim(2), like.dim(3)]
        }
        None => pair("h_w", &p.h_w, 1)?.map(|d| d as i64),
    };
    io.assign_out(0, &Shape::new(&[io.ins[0].dim(0), io.ins[0].dim(1), height, width]))?;
    if io.ins[0].is_known() && io.outs[0].is_known() {
        p.offset(image_size(&io.ins[0]), image_size(&io.outs[0]))?;
    }
    Ok(())
}

/// The shape (planes, height, width).
fn planes(shape: &Shape) -> [usize; 3] {
    let dims = shape.to_usize();
    [dims[0] * dims[1], dims[2], dims[3]]
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (image, size) = (planes(ins[0].shape()), planes(outs[0].shape()));
    let [top, left] = ctx.params::<CropParam>().offset([image[1], image[2]], [size[1], size[2]])?;
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
        let (from, to) = ((ins[0].slice::<T>()?, &image[..]), (outs[0].slice_mut::<T>()?, &size[..]));
        movement::slice(from, &[0, top, left], &[1; 3], to);
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

/// Input: gradient of the output. Outputs: gradients of the images and of the second input.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    if let Some(like) = outs.get_mut(1) {
        no_gradient(like)?;
    }
    if !outs[0].wanted() {
        return Ok(());
    }
    let (image, size) = (planes(outs[0].shape()), planes(ins[0].shape()));
    let [top, left] = ctx.params::<CropParam>().offset([image[1], image[2]], [size[1], size[2]])?;
    let pads = [(0, 0), (top, image[1] - size[1] - top), (left, image[2] - size[2] - left)];
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
        movement::pad(ins[0].slice::<T>()?, &size, &pads, Padding::Constant(T::default()), outs[0].slice_mut::<T>()?);
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x = || array(&(0..24).map(f64::from).collect::<Vec<_>>(), &[1, 2, 3, 4]);
        Case::new(&CROP, &[("num_args", "1"), ("offset", "(1, 2)"), ("h_w", "(2, 1)")]).check_gradient(&[x()]);
        let like = array(&[0f64; 4], &[1, 1, 2, 2]);
        Case::new(&CROP, &[("num_args", "2"), ("center_crop", "1")]).check_gradient(&[x(), like]);
    }

    #[test]
    fn rectangles_outside_the_image_are_errors() {
        let shapes = |attrs: &[(&str, &str)]| Case::new(&CROP, attrs).shapes(&[[1, 2, 3, 4].into()]);
        assert!(shapes(&[("num_args", "1"), ("h_w", "(4, 1)")]).is_err());
        assert!(shapes(&[("num_args", "1"), ("h_w", "(2, 2)"), ("offset", "(2, 0)")]).is_err());
        assert!(shapes(&[("num_args", "1")]).is_err());
        assert_eq!(shapes(&[("num_args", "1"), ("h_w", "(2, 2)")]).unwrap()[0], [1, 2, 2, 2].into());
    }
}
