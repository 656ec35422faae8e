//! `GridGenerator`: sampling grids for `BilinearSampler`.

use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{ShapeIo, same_shape};
use ferromx_core::op::{OpCtx, Operator, arg};
use ferromx_core::params::{NoParams, Params};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, param_enum, params};
use ferromx_kernels::sampler::{affine_grid, affine_grid_backward, warp_grid, warp_grid_backward};

use super::{TYPES, image_size, pair};
use crate::precision::by_precision;

param_enum! {
    /// How the sampling grid is made from the data.
    pub enum TransformType { Affine = "affine", Warp = "warp" }
}

params! {
    /// Parameters of `GridGenerator`.
    pub struct GridGeneratorParam {
        /// `affine`: data holds affine transformations; `warp`: displacements in pixels.
        transform_type: TransformType = required;
        /// Height and width of the grid, for `affine`.
        target_shape: Shape = (Shape::new(&[0, 0]));
    }
}

pub(super) static GRID_GENERATOR: Operator<GridGeneratorParam> = Operator::new("GridGenerator").legacy()
    .doc(
        "Makes a grid for `BilinearSampler`, of shape (batch, 2, height, width): x and y coordinates, normalized to -1..1 over the image \
         (Jaderberg et al., \"Spatial transformer networks\", 2015).\n\n\
         `affine`: data (batch, 6) holds 2 x 3 matrices A, row by row, and the grid is A (x, y, 1) for evenly spaced x and y of an image \
         of size target_shape. `warp`: data (batch, 2, height, width) holds displacements d in pixels, and the grid is \
         (x + d_x) * 2 / (width - 1) - 1 for pixel x, and the same for y. An axis of one pixel has coordinate 0.",
    )
    .inputs(&[arg("data", "Affine matrices of shape (batch, 6), or displacements of shape (batch, 2, height, width).")])
    .shape(infer_shape)
    .forward(forward)
    .grad(Grad::Kernel(Backward::new(backward), None));

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<GridGeneratorParam>();
    match p.transform_type {
        TransformType::Warp => {
            io.assign_in(0, &Shape::new(&[-1, 2, -1, -1]))?;
            same_shape(&Params::new(NoParams {}), io)
        }
        TransformType::Affine => {
            let [height, width] = pair("target_shape", &p.target_shape, 1)?.map(|d| d as i64);
            io.assign_in(0, &Shape::new(&[io.outs[0].dim(0), 6]))?;
            io.assign_out(0, &Shape::new(&[io.ins[0].dim(0), 2, height, width]))
        }
    }
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<GridGeneratorParam>();
    let size = image_size(outs[0].shape());
    ensure!(
        ins[0].is_empty() || size.iter().all(|d| *d > 0),
        "a sampling grid of size {size:?} is empty: height and width must be at least 1"
    );
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
        let (x, y) = (ins[0].slice::<T>()?, outs[0].slice_mut::<T>()?);
        match p.transform_type {
            TransformType::Affine => affine_grid(size, x, y),
            TransformType::Warp => warp_grid(size, x, y),
        }
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

/// Input: gradient of the grid. Output: gradient of the data.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    if !outs[0].wanted() {
        return Ok(());
    }
    let size = image_size(ins[0].shape());
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
        let (dy, dx) = (ins[0].slice::<T>()?, outs[0].slice_mut::<T>()?);
        match ctx.params::<GridGeneratorParam>().transform_type {
            TransformType::Affine => affine_grid_backward(size, dy, dx),
            TransformType::Warp => warp_grid_backward(size, dy, dx),
        }
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let theta = array(&[1.3, 0.1, 0.2, -0.1, 0.9, -0.3, 1.0, 0.0, 0.5, 0.0, 1.0, 0.5], &[2, 6]);
        let affine = [("transform_type", "affine"), ("target_shape", "(2, 3)")];
        Case::new(&GRID_GENERATOR, &affine).check_gradient(&[theta]);
        let flow = array(&(0..12).map(|i| f64::from(i % 5)).collect::<Vec<_>>(), &[1, 2, 2, 3]);
        Case::new(&GRID_GENERATOR, &[("transform_type", "warp")]).check_gradient(&[flow]);
    }

    #[test]
    fn a_grid_of_one_pixel_is_centered() {
        let theta = array(&[1.0, 0.0, 0.25, 0.0, 1.0, 0.0], &[1, 6]);
        let affine = [("transform_type", "affine"), ("target_shape", "(1, 1)")];
        let grid = Case::new(&GRID_GENERATOR, &affine).run1(&[theta]).unwrap();
        close(&grid.to_vec::<f64>().unwrap(), &[0.25, 0.0], 1e-12);
        assert!(Case::new(&GRID_GENERATOR, &[("transform_type", "affine")]).shapes(&[[1, 6].into()]).is_err());
    }
}
