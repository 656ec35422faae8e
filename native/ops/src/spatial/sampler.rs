//! `BilinearSampler` and `SpatialTransformer`.

use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{param_enum, params};
use ferromx_kernels::float::FloatElement;
use ferromx_kernels::par::with_scratch;
use ferromx_kernels::sampler::{
    Sampling, affine_grid, affine_grid_backward, bilinear_sample, bilinear_sample_backward_data,
    bilinear_sample_backward_grid,
};

use super::{TYPES, expect_images, image_size, pair};
use crate::precision::by_precision;

params! {
    /// Parameters of `BilinearSampler`.
    pub struct BilinearSamplerParam {
        /// Accepted for compatibility: whether cuDNN is not used on a GPU.
        cudnn_off: Option<bool> = None;
    }
}

pub(super) static BILINEAR_SAMPLER: Operator<BilinearSamplerParam> = Operator::new("BilinearSampler").legacy()
    .doc(
        "Samples images at the coordinates of a grid by bilinear interpolation (Jaderberg et al., \"Spatial transformer networks\", \
         2015): out[n, c, i, j] is data[n, c] at x = grid[n, 0, i, j], y = grid[n, 1, i, j], where -1 and 1 are the centers of the \
         corner pixels. Pixels outside the image are 0.\n\n\
         Shapes: data (batch, channel, height, width), grid (batch, 2, out_height, out_width), output (batch, channel, \
         out_height, out_width).",
    )
    .inputs(&[
        arg("data", "The images, of shape (batch, channel, height, width)."),
        arg("grid", "The coordinates, of shape (batch, 2, out_height, out_width)."),
    ])
    .shape(sampler_shape)
    .forward(|ctx, ins, outs| {
        by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
            let shape = sampling(ins[0].shape(), outs[0].shape());
            bilinear_sample(&shape, ins[0].slice::<T>()?, ins[1].slice::<T>()?, outs[0].slice_mut::<T>()?);
            Ok(())
        }, other => Err(ctx.unsupported(other, TYPES)))
    })
    .grad(Grad::Kernel(Backward::new(sampler_backward).inputs(Deps::All), None));

/// The dimensions of a call with images of shape `data` and an output of shape `out`.
fn sampling(data: &Shape, out: &Shape) -> Sampling {
    let dims = data.to_usize();
    Sampling {
        batch: dims[0],
        channels: dims[1],
        input: image_size(data),
        points: image_size(out).into_iter().product(),
    }
}

fn sampler_shape(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    expect_images("data", &io.ins[0])?;
    expect_images("grid", &io.ins[1])?;
    io.assign_in(1, &Shape::new(&[io.ins[0].dim(0), 2, io.outs[0].dim(2), io.outs[0].dim(3)]))?;
    io.assign_in(0, &Shape::new(&[io.ins[1].dim(0), io.outs[0].dim(1), -1, -1]))?;
    let grid = &io.ins[1];
    io.assign_out(0, &Shape::new(&[io.ins[0].dim(0), io.ins[0].dim(1), grid.dim(2), grid.dim(3)]))
}

/// Inputs: gradient of the output, data, grid. Outputs: gradients of data and grid.
fn sampler_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
        let shape = sampling(ins[1].shape(), ins[0].shape());
        let (dy, x, grid) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
        if outs[0].wanted() {
            bilinear_sample_backward_data(&shape, grid, dy, outs[0].slice_mut::<T>()?);
        }
        if outs[1].wanted() {
            bilinear_sample_backward_grid(&shape, x, grid, dy, outs[1].slice_mut::<T>()?);
        }
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

param_enum! {
    /// How the sampling grid is made.
    pub enum AffineOnly { Affine = "affine" }
}

param_enum! {
    /// The interpolation between pixels.
    pub enum BilinearOnly { Bilinear = "bilinear" }
}

params! {
    /// Parameters of `SpatialTransformer`.
    pub struct SpatialTransformerParam {
        /// Height and width of the output.
        target_shape: Shape = (Shape::new(&[0, 0]));
        /// How the sampling grid is made; only `affine` exists.
        transform_type: AffineOnly = required;
        /// The interpolation between pixels; only `bilinear` exists.
        sampler_type: BilinearOnly = required;
        /// Accepted for compatibility: whether cuDNN is not used on a GPU.
        cudnn_off: Option<bool> = None;
    }
}

pub(super) static SPATIAL_TRANSFORMER: Operator<SpatialTransformerParam> = Operator::new("SpatialTransformer").legacy()
    .doc(
        "Transforms images by affine maps, as `GridGenerator` followed by `BilinearSampler` (Jaderberg et al., \"Spatial transformer \
         networks\", 2015).\n\n\
         Shapes: data (batch, channel, height, width), loc (batch, 6) with the rows of a 2 x 3 matrix for each image, output \
         (batch, channel) + target_shape.",
    )
    .inputs(&[
        arg("data", "The images, of shape (batch, channel, height, width)."),
        arg("loc", "The transformations, of shape (batch, 6)."),
    ])
    .shape(transformer_shape)
    .forward(|ctx, ins, outs| {
        by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => transform_as::<T>(ins, outs),
            other => Err(ctx.unsupported(other, TYPES)))
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => transform_backward_as::<T>(ins, outs),
                other => Err(ctx.unsupported(other, TYPES)))
        })
        .inputs(Deps::All),
        None,
    ));

fn transformer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let target = &p.get::<SpatialTransformerParam>().target_shape;
    let [height, width] = pair("target_shape", target, 1)?.map(|d| d as i64);
    expect_images("data", &io.ins[0])?;
    io.assign_in(0, &Shape::new(&[io.ins[1].dim(0).max(io.outs[0].dim(0)), io.outs[0].dim(1), -1, -1]))?;
    io.assign_in(1, &Shape::new(&[io.ins[0].dim(0), 6]))?;
    io.assign_out(0, &Shape::new(&[io.ins[0].dim(0), io.ins[0].dim(1), height, width]))
}

/// Calls `f` with the sampling grids of the affine maps `loc`, in a scratch buffer.
fn with_grid<T: FloatElement, R>(size: [usize; 2], loc: &[T], f: impl FnOnce(&mut [T]) -> R) -> R {
    with_scratch(loc.len() / 3 * size[0] * size[1], |grid: &mut [T]| {
        affine_grid(size, loc, grid);
        f(grid)
    })
}

fn transform_as<T: FloatElement>(ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let shape = sampling(ins[0].shape(), outs[0].shape());
    with_grid(image_size(outs[0].shape()), ins[1].slice::<T>()?, |grid| {
        bilinear_sample(&shape, ins[0].slice::<T>()?, grid, outs[0].slice_mut::<T>()?);
        Ok(())
    })
}

/// Inputs: gradient of the output, data, affine maps. Outputs: gradients of data and affine maps.
fn transform_backward_as<T: FloatElement>(ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let shape = sampling(ins[1].shape(), ins[0].shape());
    let size = image_size(ins[0].shape());
    let (dy, x) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?);
    with_grid(size, ins[2].slice::<T>()?, |grid| {
        if outs[0].wanted() {
            bilinear_sample_backward_data(&shape, grid, dy, outs[0].slice_mut::<T>()?);
        }
        if outs[1].wanted() {
            with_scratch(grid.len(), |grid_grad: &mut [T]| {
                bilinear_sample_backward_grid(&shape, x, grid, dy, grid_grad);
                affine_grid_backward(size, grid_grad, outs[1].slice_mut::<T>()?);
                Ok(())
            })?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    fn image() -> ferromx_core::ndarray::NDArray {
        array(&(0..24).map(|i| f64::from(i * 7 % 13) / 3.0).collect::<Vec<_>>(), &[1, 2, 3, 4])
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let grid = [-1.2, -0.9, -0.31, 0.42, 0.95, 1.15, 0.77, 0.13, -0.52, -2.5, 0.05, 1.05];
        let grid = array(&grid, &[1, 2, 2, 3]);
        Case::new(&BILINEAR_SAMPLER, &[]).check_gradient(&[image(), grid]);
        let loc = array(&[0.83, 0.11, 0.07, -0.13, 0.79, 0.05], &[1, 6]);
        let attrs = [("transform_type", "affine"), ("sampler_type", "bilinear"), ("target_shape", "(3, 2)")];
        Case::new(&SPATIAL_TRANSFORMER, &attrs).check_gradient(&[image(), loc]);
    }

    #[test]
    fn nan_and_huge_coordinates_stay_in_bounds() {
        let grid = array(&[f64::NAN, f64::INFINITY, 1e300, -1e300, 0.0, 0.0], &[1, 2, 1, 3]);
        let y = Case::new(&BILINEAR_SAMPLER, &[]).run1(&[image(), grid]).unwrap().to_vec::<f64>().unwrap();
        assert!(y[0].is_nan() && y[1].is_nan());
        assert_eq!(y[2], 0.0);
    }

    #[test]
    fn mismatched_shapes_are_errors() {
        let case = || Case::new(&BILINEAR_SAMPLER, &[]);
        assert_eq!(case().shapes(&[[2, 3, 4, 5].into(), [2, 2, 6, 7].into()]).unwrap()[0], [2, 3, 6, 7].into());
        assert!(case().shapes(&[[2, 3, 4, 5].into(), [3, 2, 6, 7].into()]).is_err());
        assert!(case().shapes(&[[2, 3, 4].into(), [2, 2, 6, 7].into()]).is_err());
    }
}
