//! `im2col` and `col2im`: unfold the windows of a convolution into the columns of a matrix, and fold them back.

use std::slice::{from_mut, from_ref};

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::conv::{ConvShape, col2im, im2col};

use super::spatial::Windows;
use crate::precision::by_precision;

params! {
    /// Parameters of `im2col`.
    pub struct Im2colParam {
        /// Size of the window: (width,), (height, width) or (depth, height, width).
        kernel: Shape = required;
        /// Stride of the windows; 1 by default.
        stride: Shape = (Shape::new(&[]));
        /// Dilation of the window; 1 by default.
        dilate: Shape = (Shape::new(&[]));
        /// Zero padding at both ends of each dimension; 0 by default.
        pad: Shape = (Shape::new(&[]));
    }
}

params! {
    /// Parameters of `col2im`.
    pub struct Col2imParam {
        /// Spatial size of the images.
        output_size: Shape = required;
        /// Size of the window: (width,), (height, width) or (depth, height, width).
        kernel: Shape = required;
        /// Stride of the windows; 1 by default.
        stride: Shape = (Shape::new(&[]));
        /// Dilation of the window; 1 by default.
        dilate: Shape = (Shape::new(&[]));
        /// Zero padding at both ends of each dimension; 0 by default.
        pad: Shape = (Shape::new(&[]));
    }
}

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

pub(super) static IM2COL: Operator<Im2colParam> = Operator::new("im2col").names_data().names_outputs()
    .doc(
        "Unfolds the windows of a convolution into columns of a matrix: out[n, c * taps + t, p] is the element of channel c at tap t of \
         the window of output pixel p, 0 in the padding. The weights as a matrix (num_filter, channel * taps) times the result are the \
         convolution.\n\n\
         Shapes: data (batch, channel, spatial dimensions...), output (batch, channel * taps, pixels), where the numbers of output \
         pixels are those of `Convolution`.",
    )
    .inputs(&[arg("data", "The images, of shape (batch, channel, spatial dimensions...).")])
    .shape(im2col_shape)
    .forward(|ctx, ins, outs| {
        let shape = ctx.params::<Im2colParam>().windows().on_images(ins[0].shape())?;
        to_columns(ctx, &shape, &ins[0], &mut outs[0])
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let shape = ctx.params::<Im2colParam>().windows().on_images(outs[0].shape())?;
            to_images(ctx, &shape, &ins[0], &mut outs[0])
        }),
        None,
    ));

pub(super) static COL2IM: Operator<Col2imParam> = Operator::new("col2im").names_data().names_outputs()
    .doc(
        "Adds the elements of windows to the pixels they were taken from. This is the gradient of `im2col`, and its inverse if windows do \
         not overlap.\n\n\
         Shapes: data (batch, channel * taps, pixels), output (batch, channel) + output_size, where `pixels` is the number of \
         windows on such images.",
    )
    .inputs(&[arg("data", "The columns, of shape (batch, channel * taps, pixels).")])
    .shape(col2im_shape)
    .forward(|ctx, ins, outs| {
        let shape = ctx.params::<Col2imParam>().windows().on_images(outs[0].shape())?;
        to_images(ctx, &shape, &ins[0], &mut outs[0])
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let shape = ctx.params::<Col2imParam>().windows().on_images(ins[0].shape())?;
            to_columns(ctx, &shape, &ins[0], &mut outs[0])
        }),
        None,
    ));

impl Im2colParam {
    fn windows(&self) -> Windows<'_> {
        Windows { kernel: &self.kernel, stride: &self.stride, dilate: &self.dilate, pad: &self.pad }
    }
}

impl Col2imParam {
    fn windows(&self) -> Windows<'_> {
        Windows { kernel: &self.kernel, stride: &self.stride, dilate: &self.dilate, pad: &self.pad }
    }
}

impl Windows<'_> {
    /// The geometry on images of shape (batch, channels, spatial dimensions...). Unknown sizes are 0.
    fn on_images(&self, images: &Shape) -> Result<ConvShape> {
        let n = self.kernel.dims().len();
        ensure!((1..=3).contains(&n), "kernel {} must have one, two or three numbers", self.kernel);
        let dims = if self.is_1d_on_2d(images) { &images.dims()[..3] } else { images.dims() };
        ensure!(dims.len() == n + 2, "images {images} must have {} dimensions for a kernel {}", n + 2, self.kernel);
        self.shape(dims, 1, 1)
    }

    /// True for a 1D kernel on 2D images. As in MXNet, the first channels * height elements of each image are then read as an image of
    /// shape (channels, height), and the others are ignored.
    fn is_1d_on_2d(&self, images: &Shape) -> bool {
        self.kernel.dims().len() == 1 && images.dims().len() == 4
    }

    /// The number of windows; -1 if a spatial size is unknown.
    fn num_windows(&self, images: &Shape) -> Result<i64> {
        let shape = self.on_images(images)?;
        if images.dims()[2..self.kernel.dims().len() + 2].iter().any(|d| *d < 0) {
            return Ok(-1);
        }
        let windows = shape.output().iter().product::<usize>();
        ensure!(
            windows > 0,
            "kernel {} with dilate {} exceeds images {images} with pad {}",
            self.kernel,
            self.dilate,
            self.pad
        );
        Ok(windows as i64)
    }

    fn num_taps(&self) -> i64 {
        self.kernel.dims().iter().product()
    }
}

fn im2col_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<Im2colParam>().windows();
    let is_1d_on_2d = p.is_1d_on_2d(&io.ins[0]);
    if !is_1d_on_2d {
        io.assign_in(0, &Shape::of_rank(p.kernel.dims().len() + 2))?;
    }
    let windows = p.num_windows(&io.ins[0])?;
    let (batch, channels) = (io.ins[0].dim(0), io.ins[0].dim(1));
    io.assign_out(0, &[batch, if channels < 0 { -1 } else { channels * p.num_taps() }, windows].into())?;
    if is_1d_on_2d {
        return Ok(());
    }
    let (batch, rows) = (io.outs[0].dim(0), io.outs[0].dim(1));
    let mut data = Dims::from_elem(-1, p.kernel.dims().len() + 2);
    (data[0], data[1]) = (batch, if rows >= 0 && rows % p.num_taps() == 0 { rows / p.num_taps() } else { -1 });
    io.assign_in(0, &data.into())
}

fn col2im_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<Col2imParam>();
    let (window, size) = (p.windows(), &p.output_size);
    ensure!(
        size.dims().len() == window.kernel.dims().len() && size.dims().iter().all(|d| *d > 0),
        "output_size {size} must have one positive number for each dimension of the kernel {}",
        window.kernel
    );
    let mut images = Dims::from_slice(&[-1, -1]);
    images.extend_from_slice(size.dims());
    let windows = window.num_windows(&images.clone().into())?;
    io.assign_in(0, &[io.outs[0].dim(0), -1, windows].into())?;
    let (rows, taps) = (io.ins[0].dim(1), window.num_taps());
    ensure!(
        rows < 0 || rows % taps == 0,
        "the {rows} rows of the columns are not a multiple of the {taps} taps of a window"
    );
    (images[0], images[1]) = (io.ins[0].dim(0), if rows < 0 { -1 } else { rows / taps });
    io.assign_out(0, &images.into())?;
    let channels = io.outs[0].dim(1);
    io.assign_in(0, &[-1, if channels < 0 { -1 } else { channels * taps }, -1].into())
}

/// The geometry for one image and the number of elements read from it, if the windows read only the start of each image.
fn partial_read(shape: &ConvShape, num_elements: usize) -> Option<(ConvShape, usize)> {
    let used = shape.in_channels * shape.input.iter().product::<usize>();
    (shape.batch * used < num_elements).then_some((ConvShape { batch: 1, ..*shape }, used))
}

fn to_columns(ctx: &OpCtx<'_>, shape: &ConvShape, images: &In<'_>, columns: &mut Out<'_>) -> Result<()> {
    let (ins, outs) = (from_ref(images), from_mut(columns));
    by_precision!((ins, outs), images.dtype(), T for [F16, BF16] => {
        let (images, columns) = (ins[0].slice::<T>()?, outs[0].slice_mut::<T>()?);
        let Some((one, used)) = partial_read(shape, images.len()) else {
            im2col(shape, images, columns);
            return Ok(());
        };
        let (image_len, matrix_len) = (images.len() / shape.batch, columns.len() / shape.batch);
        for (image, matrix) in images.chunks_exact(image_len).zip(columns.chunks_exact_mut(matrix_len)) {
            im2col(&one, &image[..used], matrix);
        }
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

fn to_images(ctx: &OpCtx<'_>, shape: &ConvShape, columns: &In<'_>, images: &mut Out<'_>) -> Result<()> {
    let (ins, outs) = (from_ref(columns), from_mut(images));
    by_precision!((ins, outs), columns.dtype(), T for [F16, BF16] => {
        let (images, columns) = (outs[0].slice_mut::<T>()?, ins[0].slice::<T>()?);
        let Some((one, used)) = partial_read(shape, images.len()) else {
            col2im(shape, columns, images);
            return Ok(());
        };
        images.fill(T::default());
        let (image_len, matrix_len) = (images.len() / shape.batch, columns.len() / shape.batch);
        for (image, matrix) in images.chunks_exact_mut(image_len).zip(columns.chunks_exact(matrix_len)) {
            col2im(&one, matrix, &mut image[..used]);
        }
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let numbers = |dims: &[i64]| {
            let n = dims.iter().product::<i64>();
            array(&(0..n).map(|i| (i * 7 % 13) as f64).collect::<Vec<_>>(), dims)
        };
        let window = [("kernel", "(3, 2)"), ("stride", "(2, 1)"), ("dilate", "(1, 2)"), ("pad", "(1, 1)")];
        Case::new(&IM2COL, &window).check_gradient(&[numbers(&[2, 3, 5, 4])]);
        let images = [&window[..], &[("output_size", "(5, 4)")]].concat();
        Case::new(&COL2IM, &images).check_gradient(&[numbers(&[2, 18, 12])]);
        Case::new(&IM2COL, &[("kernel", "(3,)"), ("pad", "(1,)")]).check_gradient(&[numbers(&[1, 2, 4])]);
        Case::new(&IM2COL, &[("kernel", "(2,)"), ("pad", "(1,)")]).check_gradient(&[numbers(&[2, 2, 4, 3])]);
    }

    #[test]
    fn shapes_that_do_not_match_the_windows_are_errors() {
        let shapes = |attrs: &[(&str, &str)], data: &[i64]| Case::new(&COL2IM, attrs).shapes(&[Shape::new(data)]);
        let attrs = [("kernel", "(2, 2)"), ("output_size", "(3, 4)")];
        assert_eq!(shapes(&attrs, &[1, 8, 6]).unwrap()[0], [1, 2, 3, 4].into());
        assert!(shapes(&attrs, &[1, 8, 5]).is_err());
        assert!(shapes(&attrs, &[1, 7, 6]).is_err());
        assert!(Case::new(&IM2COL, &[("kernel", "(7, 2)")]).shapes(&[[2, 3, 5, 4].into()]).is_err());
    }
}
