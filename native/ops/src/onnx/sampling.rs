//! `GridSample`, and interpolation along one axis with taps that are inputs.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, param_enum, params};
use ferromx_kernels::float::FloatElement;
use ferromx_kernels::grid_sample::{
    GridInterpolation, GridSampling, GridShape, MAX_AXES, Outside, grid_sample, grid_sample_backward_data,
    grid_sample_backward_grid,
};
use ferromx_kernels::interpolate::{Taps, combine, combine_backward};
use ferromx_kernels::map::Load;

use super::integers;
use crate::axes::outer_len_inner;
use crate::precision::by_precision;
use crate::rules::{no_gradient, one_dtype_of};

param_enum! {
    /// The interpolation between pixels.
    pub enum GridMode {
        /// The nearest pixel.
        Nearest = "nearest",
        /// Linear, with two taps on each axis.
        Linear = "linear",
        /// Cubic convolution, with four taps on each axis.
        Cubic = "cubic",
    }
}

param_enum! {
    /// The value of pixels outside the image.
    pub enum GridPadding {
        /// Zeros.
        Zeros = "zeros",
        /// The nearest pixel of the border.
        Border = "border",
        /// The image reflected at its border.
        Reflection = "reflection",
    }
}

params! {
    /// Parameters of `_onnx_GridSample`.
    pub struct GridSampleParam {
        /// The interpolation between pixels.
        mode: GridMode = (GridMode::Linear);
        /// The value of pixels outside the image.
        padding_mode: GridPadding = (GridPadding::Zeros);
        /// Whether -1 and 1 are the centers of the outermost pixels, or their outer edges.
        align_corners: bool = false;
    }
}

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

pub(super) static GRID_SAMPLE: Operator<GridSampleParam> = Operator::new("_onnx_GridSample")
    .doc(
        "Samples images at the coordinates of a grid: output (n, c, p) is image (n, c) at grid (n, p), with coordinates normalized to \
         -1..1, that of the last axis first.\n\n\
         Shapes: data (batch, channel, d1, ..., dk) with k of 1 to 3, grid (batch, o1, ..., ok, k), output (batch, channel, o1, ..., ok). \
         Source: GridSample of ONNX.",
    )
    .inputs(&[
        arg("data", "The images, of shape (batch, channel, d1, ..., dk)."),
        arg("grid", "The coordinates, of shape (batch, o1, ..., ok, k)."),
    ])
    .shape(grid_shape)
    .forward(|ctx, ins, outs| {
        by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
            let shape = sampling_shape(ins[0].shape(), ins[1].shape())?;
            grid_sample(&grid_sampling(ctx), &shape, ins[0].slice::<T>()?, ins[1].slice::<T>()?, outs[0].slice_mut::<T>()?);
            Ok(())
        }, other => Err(ctx.unsupported(other, TYPES)))
    })
    .grad(Grad::Kernel(Backward::new(grid_backward).inputs(Deps::All), None));

fn grid_shape(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let (data, grid) = (io.ins[0].clone(), io.ins[1].clone());
    let Some(rank) = data.ndim().or(grid.ndim()) else { return Ok(()) };
    ensure!(
        (3..=MAX_AXES + 2).contains(&rank),
        "data has shape {data}, expected a batch, channels and 1 to {MAX_AXES} spatial axes"
    );
    io.assign_in(0, &Shape::of_rank(rank))?;
    io.assign_in(1, &Shape::of_rank(rank))?;
    let mut grid_dims: Dims = std::iter::repeat_n(-1, rank).collect();
    (grid_dims[0], grid_dims[rank - 1]) = (data.dim(0), rank as i64 - 2);
    io.assign_in(1, &Shape::from(grid_dims))?;
    let (data, grid) = (&io.ins[0], &io.ins[1]);
    let dims: Dims = [grid.dim(0), data.dim(1)].into_iter().chain(grid.dims()[1..rank - 1].iter().copied()).collect();
    io.assign_out(0, &Shape::from(dims))
}

fn sampling_shape(data: &Shape, grid: &Shape) -> Result<GridShape> {
    let (d, g) = (data.to_usize(), grid.to_usize());
    let points = g[1..g.len() - 1].iter().product();
    ensure!(points == 0 || d[2..].iter().all(|n| *n > 0), "images of shape {data} have no pixels to sample");
    Ok(GridShape { batch: d[0], channels: d[1], input: d[2..].to_vec(), points })
}

fn grid_sampling(ctx: &OpCtx<'_>) -> GridSampling {
    let p = ctx.params::<GridSampleParam>();
    let interpolation = match p.mode {
        GridMode::Nearest => GridInterpolation::Nearest,
        GridMode::Linear => GridInterpolation::Linear,
        GridMode::Cubic => GridInterpolation::Cubic,
    };
    let outside = match p.padding_mode {
        GridPadding::Zeros => Outside::Zeros,
        GridPadding::Border => Outside::Border,
        GridPadding::Reflection => Outside::Reflection,
    };
    GridSampling { interpolation, outside, align_corners: p.align_corners }
}

/// Inputs: gradient of the output, data, grid. Outputs: gradients of data and grid.
fn grid_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
        let (sampling, shape) = (grid_sampling(ctx), sampling_shape(ins[1].shape(), ins[2].shape())?);
        let (dy, data, grid) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
        if outs[0].wanted() {
            grid_sample_backward_data(&sampling, &shape, grid, dy, outs[0].slice_mut::<T>()?);
        }
        if outs[1].wanted() {
            grid_sample_backward_grid(&sampling, &shape, data, grid, dy, outs[1].slice_mut::<T>()?);
        }
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

params! {
    /// Parameters of `_onnx_Interpolate`.
    pub struct InterpolateParam {
        /// The axis to interpolate along; a negative one counts from the end.
        axis: i32 = required;
    }
}

pub(crate) static INTERPOLATE: Operator<InterpolateParam> = Operator::new("_onnx_Interpolate")
    .doc(
        "Interpolates along an axis: output element i is the sum over k of weights[i, k] times the element at index indices[i, k]. \
         Resizing an image applies it once to each axis.\n\n\
         Shapes: data of any, indices and weights (n, taps), output as data with length n along the axis. Indices and weights have no \
         gradient. Source: Resize of ONNX.",
    )
    .inputs(&[
        arg("data", "The array to interpolate."),
        arg("indices", "The index of each tap along the axis, of shape (n, taps). Integers."),
        arg("weights", "The weight of each tap, of shape (n, taps)."),
    ])
    .shape(interpolate_shape)
    .dtype(|_, io| one_dtype_of(io, [0, 2]))
    .forward(|ctx, ins, outs| {
        by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
            with_taps::<T>(ctx, ins[0].shape(), &ins[1], &ins[2], |dims, taps| {
                combine(ins[0].slice::<T>()?, dims, taps, outs[0].slice_mut::<T>()?);
                Ok(())
            })
        }, other => Err(ctx.unsupported(other, TYPES)))
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            for out in &mut outs[1..] {
                no_gradient(out)?;
            }
            if !outs[0].wanted() {
                return Ok(());
            }
            by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
                let shape = outs[0].shape().clone();
                with_taps::<T>(ctx, &shape, &ins[1], &ins[2], |dims, taps| {
                    combine_backward(ins[0].slice::<T>()?, dims, taps, outs[0].slice_mut::<T>()?);
                    Ok(())
                })
            }, other => Err(ctx.unsupported(other, TYPES)))
        })
        .inputs(Deps::Some(&[1, 2])),
        None,
    ));

fn interpolate_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    for (a, b) in [(1, 2), (2, 1)] {
        ensure!(
            io.ins[a].ndim().is_none_or(|n| n == 2),
            "indices and weights have shape {}, expected (n, taps)",
            io.ins[a]
        );
        io.assign_in(b, &io.ins[a].clone())?;
    }
    let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
    let axis = Shape::axis(p.get::<InterpolateParam>().axis.into(), rank)?;
    let mut out = io.ins[0].clone();
    if let Some(dims) = out.dims_mut() {
        dims[axis] = if io.ins[1].ndim_is_known() { io.ins[1].dim(0) } else { -1 };
    }
    io.assign_out(0, &out)
}

/// Calls `f` with (n, inner), the length of the axis and the product of the dimensions after it, and with the taps.
fn with_taps<T: FloatElement>(
    ctx: &OpCtx<'_>,
    data: &Shape,
    indices: &In<'_>,
    weights: &In<'_>,
    f: impl FnOnce((usize, usize), &Taps<'_, T::Acc>) -> Result<()>,
) -> Result<()> {
    let dims = data.to_usize();
    let (_, n, inner) = outer_len_inner(&dims, Shape::axis(ctx.params::<InterpolateParam>().axis.into(), dims.len())?);
    let taps = indices.shape().dims().last().map_or(0, |n| *n as usize);
    let indices = integers("indices", indices)?;
    let checked = |index: &i64| {
        let in_bounds = usize::try_from(*index).ok().filter(|i| *i < n);
        in_bounds.ok_or_else(|| {
            Error::Value(format!("indices has {index}, which is out of bounds for an axis of length {n}"))
        })
    };
    let indices = indices.iter().map(checked).collect::<Result<Vec<usize>>>()?;
    let weights: Vec<T::Acc> = weights.slice::<T>()?.iter().map(|w| Load::<T::Acc>::lane(*w)).collect();
    f((n, inner), &Taps { taps, indices: &indices, weights: &weights })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    fn image(dims: &[i64]) -> ferromx_core::ndarray::NDArray {
        let n: i64 = dims.iter().product();
        array(&(0..n).map(|i| f64::from((i * 7 % 13) as i32) / 3.0).collect::<Vec<_>>(), dims)
    }

    #[test]
    fn gradients_of_samples_agree_with_finite_differences() {
        let grid = [-1.22, -0.91, -0.31, 0.42, 0.95, 1.15, 0.77, 0.13, -0.52, -2.53, 0.05, 1.07];
        for mode in ["linear", "cubic"] {
            for padding in ["zeros", "border", "reflection"] {
                for corners in ["True", "False"] {
                    let attrs = [("mode", mode), ("padding_mode", padding), ("align_corners", corners)];
                    Case::new(&GRID_SAMPLE, &attrs)
                        .check_gradient(&[image(&[1, 2, 3, 4]), array(&grid, &[1, 2, 3, 2])]);
                    Case::new(&GRID_SAMPLE, &attrs)
                        .check_gradient(&[image(&[1, 2, 3, 4, 2]), array(&grid, &[1, 1, 2, 2, 3])]);
                }
            }
        }
    }

    #[test]
    fn nan_and_huge_coordinates_stay_in_bounds() {
        let grid = array(&[f64::NAN, f64::INFINITY, 1e300, -1e300], &[1, 1, 2, 2]);
        for padding in ["zeros", "border", "reflection"] {
            for mode in ["nearest", "linear", "cubic"] {
                let case = Case::new(&GRID_SAMPLE, &[("mode", mode), ("padding_mode", padding)]);
                assert_eq!(case.run1(&[image(&[1, 1, 3, 4]), grid.clone()]).unwrap().len(), 2);
            }
        }
    }

    #[test]
    fn taps_are_summed_along_any_axis() {
        let indices = array(&[0i64, 1, 2, 2, 1, 0, 0, 2], &[4, 2]);
        let weights = array(&[0.25f64, 0.75, 1.0, 0.0, 0.5, 0.5, 2.0, -1.0], &[4, 2]);
        for axis in ["0", "1", "-1"] {
            let x = image(&[3, 3, 3]);
            let case = Case::new(&INTERPOLATE, &[("axis", axis)]);
            let dy = image(case.shapes(&[[3, 3, 3].into(), [4, 2].into(), [4, 2].into()]).unwrap()[0].dims());
            let y = case.run1(&[x.clone(), indices.clone(), weights.clone()]).unwrap().to_vec::<f64>().unwrap();
            let dx = case.backward(&[x.clone(), indices.clone(), weights.clone()], std::slice::from_ref(&dy)).unwrap();
            // The gradient is the adjoint: <y, dy> = <x, dx>.
            let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let left = product(&y, &dy.to_vec::<f64>().unwrap());
            let right = product(&x.to_vec::<f64>().unwrap(), &dx[0].to_vec::<f64>().unwrap());
            assert!((left - right).abs() < 1e-9, "{left} {right}");
        }
        let x = array(&[1.0f64, 2.0, 4.0], &[3]);
        let y = Case::new(&INTERPOLATE, &[("axis", "0")]).run1(&[x, indices, weights]).unwrap();
        assert_eq!(y.to_vec::<f64>().unwrap(), [1.75, 4.0, 1.5, -2.0]);
    }
}
