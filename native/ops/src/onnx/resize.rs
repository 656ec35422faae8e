//! `Resize` along one axis: the interpolation taps, and an operator whose output length may depend on the dimensions of its inputs.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::In;
use ferromx_core::{ensure, param_enum, params};
use ferromx_kernels::float::{Accum, FloatElement};
use ferromx_kernels::index::gather;
use ferromx_kernels::interpolate::{Taps, combine, combine_backward};

use super::dim_expr::DimExprs;
use super::symbolic_shape::{first_dtype, has_data, others_have_no_gradient, shapes};
use crate::axes::outer_len_inner;
use crate::movement::{by_size, source, target};
use crate::precision::by_precision;

param_enum! {
    /// The interpolation of `Resize`.
    pub enum ResizeMode {
        /// The nearest element.
        Nearest = "nearest",
        /// Linear, with two taps.
        Linear = "linear",
        /// Cubic convolution, with four taps.
        Cubic = "cubic",
    }
}

param_enum! {
    /// How an output index is mapped to an input coordinate.
    pub enum Coordinates {
        /// Pixels have unit length; the outer edges of input and output coincide.
        HalfPixel = "half_pixel",
        /// Like `half_pixel`, but centered where the output length was rounded.
        HalfPixelSymmetric = "half_pixel_symmetric",
        /// Like `half_pixel`, but an output of length 1 samples coordinate 0.
        PytorchHalfPixel = "pytorch_half_pixel",
        /// The centers of the first and the last elements coincide.
        AlignCorners = "align_corners",
        /// Coordinate `i / scale`.
        Asymmetric = "asymmetric",
        /// A region, which may extend outside the axis, is resized.
        CropAndResize = "tf_crop_and_resize",
    }
}

param_enum! {
    /// How a coordinate is rounded to the nearest element.
    pub enum NearestMode {
        /// Ties round down.
        PreferFloor = "round_prefer_floor",
        /// Ties round up.
        PreferCeil = "round_prefer_ceil",
        /// Always down.
        Floor = "floor",
        /// Always up.
        Ceil = "ceil",
    }
}

/// The attributes of ONNX's Resize.
#[derive(Clone, Copy, Debug)]
pub struct Resizing {
    /// The interpolation.
    pub mode: ResizeMode,
    /// How an output index is mapped to an input coordinate.
    pub coordinates: Coordinates,
    /// How a coordinate is rounded to the nearest element.
    pub nearest: NearestMode,
    /// The coefficient `a` of cubic interpolation.
    pub cubic: f64,
    /// Whether taps outside the axis have weight 0, and the others are renormalized.
    pub exclude_outside: bool,
    /// Whether the filter is stretched when downsampling.
    pub antialias: bool,
}

/// An axis that is resized.
#[derive(Clone, Copy, Debug)]
pub struct ResizedAxis {
    /// The input length.
    pub from: usize,
    /// The output length.
    pub to: usize,
    /// The ratio of output length to input length, before the output length is rounded.
    pub scale: f64,
    /// Start and end of the resized region, normalized to 0..1.
    pub roi: (f64, f64),
}

/// The length of an axis of `from` elements that is resized by a scale. The product is rounded to single precision before it is rounded
/// down, as in ONNX Runtime: 10 elements scaled by 1.3 are 13.
pub fn scaled_len(from: usize, scale: f64) -> f64 {
    f64::from((scale as f32 * from as f32).floor())
}

/// The interpolation taps of an axis: each output element is the weighted sum of `taps` input elements.
#[derive(Clone, Debug)]
pub struct Neighbors {
    /// Number of taps of an output element.
    pub taps: usize,
    /// Input indices, of shape (outputs, taps).
    pub indices: Vec<usize>,
    /// Weights, of shape (outputs, taps).
    pub weights: Vec<f64>,
}

impl Resizing {
    /// The input coordinate of output element `x`.
    pub fn coordinate(&self, x: usize, axis: &ResizedAxis) -> f64 {
        let (x, n, out) = (x as f64, axis.from as f64, axis.to as f64);
        match self.coordinates {
            Coordinates::AlignCorners | Coordinates::PytorchHalfPixel if axis.to == 1 => 0.0,
            // The specification uses the scaled length before rounding.
            Coordinates::AlignCorners => x * (n - 1.0) / (axis.scale * n - 1.0),
            // Single precision, as in ONNX Runtime, decides ties of the nearest element.
            Coordinates::Asymmetric => f64::from(x as f32 / axis.scale as f32),
            Coordinates::CropAndResize if axis.to > 1 => {
                axis.roi.0 * (n - 1.0) + x * (axis.roi.1 - axis.roi.0) * (n - 1.0) / (out - 1.0)
            }
            Coordinates::CropAndResize => 0.5 * (axis.roi.0 + axis.roi.1) * (n - 1.0),
            Coordinates::HalfPixelSymmetric => {
                let adjustment = out / (axis.scale * n);
                n / 2.0 * (1.0 - adjustment) + (x + 0.5) / axis.scale - 0.5
            }
            Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => {
                f64::from((x as f32 + 0.5) / axis.scale as f32 - 0.5)
            }
        }
    }

    /// The input index nearest to output element `x`.
    fn nearest(&self, x: usize, axis: &ResizedAxis) -> usize {
        let coordinate = self.coordinate(x, axis);
        let nearest = match self.nearest {
            NearestMode::Floor => coordinate.floor(),
            NearestMode::Ceil => coordinate.ceil(),
            NearestMode::PreferCeil => (coordinate + 0.5).floor(),
            NearestMode::PreferFloor => (coordinate - 0.5).ceil(),
        };
        clamped(nearest as i64, axis.from)
    }

    /// The (offset, weight) of each tap of a coordinate with the fraction `ratio`. Offsets are relative to the floor of the coordinate.
    fn weights(&self, ratio: f64, axis: &ResizedAxis) -> Vec<(i64, f64)> {
        let scale = if self.antialias { axis.scale.min(1.0) } else { 1.0 };
        let a = self.cubic;
        let (radius, filter): (f64, &dyn Fn(f64) -> f64) = match self.mode {
            ResizeMode::Cubic => (2.0, &|x| match x.abs() {
                x if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
                x if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
                _ => 0.0,
            }),
            _ => (1.0, &|x: f64| (1.0 - x.abs()).max(0.0)),
        };
        let start = (-radius / scale).floor() as i64 + 1;
        let taps: Vec<(i64, f64)> = (start..=1 - start).map(|i| (i, filter((i as f64 - ratio) * scale))).collect();
        let sum: f64 = taps.iter().map(|(_, w)| w).sum();
        taps.into_iter().map(|(i, w)| (i, if self.antialias { w / sum } else { w })).collect()
    }

    /// The taps of all output elements.
    pub fn neighbors(&self, axis: &ResizedAxis) -> Neighbors {
        if self.mode == ResizeMode::Nearest {
            let indices: Vec<usize> = (0..axis.to).map(|x| self.nearest(x, axis)).collect();
            return Neighbors { taps: 1, weights: vec![1.0; indices.len()], indices };
        }
        let mut rows: Vec<Vec<(usize, f64)>> = Vec::with_capacity(axis.to);
        for o in 0..axis.to {
            let coordinate = self.coordinate(o, axis);
            let base = coordinate.floor();
            let mut taps = self.weights(coordinate - base, axis);
            let outside = |i: i64| i < 0 || i >= axis.from as i64;
            if self.exclude_outside {
                taps.retain(|(i, _)| !outside(base as i64 + i));
                let sum: f64 = taps.iter().map(|(_, w)| w).sum();
                taps.iter_mut().for_each(|(_, w)| *w /= sum);
            }
            let row = taps.into_iter().map(|(i, w)| (clamped(base as i64 + i, axis.from), w));
            rows.push(row.filter(|(_, w)| *w != 0.0).collect());
        }
        let taps = rows.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let (mut indices, mut weights) = (vec![0; axis.to * taps], vec![0.0; axis.to * taps]);
        for (o, row) in rows.into_iter().enumerate() {
            for (k, (index, weight)) in row.into_iter().enumerate() {
                (indices[o * taps + k], weights[o * taps + k]) = (index, weight);
            }
        }
        Neighbors { taps, indices, weights }
    }
}

fn clamped(index: i64, len: usize) -> usize {
    index.clamp(0, len as i64 - 1) as usize
}

params! {
    /// Parameters of `_onnx_Resize`.
    pub struct SymbolicResizeParam {
        /// The axis to resize; a negative one counts from the end.
        axis: i32 = required;
        /// The output length: `(#1.2,)` is that of axis 2 of input 1. By default the axis is resized by `scale`.
        size: DimExprs = (DimExprs::empty());
        /// Output length / input length; the output length is rounded down.
        scale: f64 = 1.0;
        /// The interpolation.
        mode: ResizeMode = (ResizeMode::Linear);
        /// How an output index is mapped to an input coordinate.
        coordinates: Coordinates = (Coordinates::HalfPixel);
        /// How a coordinate is rounded to the nearest element.
        nearest_mode: NearestMode = (NearestMode::PreferFloor);
        /// The coefficient `a` of cubic interpolation.
        cubic_coeff_a: f64 = (-0.75);
        /// Whether taps outside the axis have weight 0, and the others are renormalized.
        exclude_outside: bool = false;
        /// Whether the filter is stretched when downsampling.
        antialias: bool = false;
    }
}

impl SymbolicResizeParam {
    fn resizing(&self) -> Resizing {
        Resizing {
            mode: self.mode,
            coordinates: self.coordinates,
            nearest: self.nearest_mode,
            cubic: self.cubic_coeff_a,
            exclude_outside: self.exclude_outside,
            antialias: self.antialias,
        }
    }

    /// The axis index and how it is resized, or `None` if a length is unknown.
    fn resized(&self, shapes: &[&Shape]) -> Result<Option<(usize, ResizedAxis)>> {
        let Some(rank) = shapes[0].ndim() else { return Ok(None) };
        let axis = Shape::axis(self.axis.into(), rank)?;
        let Ok(from) = usize::try_from(shapes[0].dim(axis)) else { return Ok(None) };
        let (to, scale) = match self.size.dims(shapes)?.as_slice() {
            [] => (scaled_len(from, self.scale), self.scale),
            [-1] => return Ok(None),
            [to] => (*to as f64, *to as f64 / from as f64),
            more => return Err(Error::Value(format!("size has {} numbers, expected one output length", more.len()))),
        };
        ensure!(
            from > 0 && scale > 0.0 && (0.0..1e9).contains(&to),
            "an axis of {from} elements cannot be resized to {to}: both lengths must be at least 1"
        );
        Ok(Some((axis, ResizedAxis { from, to: to as usize, scale, roi: (0.0, 1.0) })))
    }
}

pub(crate) static RESIZE: Operator<SymbolicResizeParam> = Operator::new("_onnx_Resize")
    .doc(
        "Resizes an axis of the first input by interpolation, to a length that is calculated from the inputs' dimensions, or by a scale. \
         Of all other inputs only the shapes are used. Source: Resize of ONNX.",
    )
    .variadic("data", "The array, then the arrays whose dimensions the expressions use.", "num_args")
    .shape(resize_shape)
    .dtype(first_dtype)
    .forward(|ctx, ins, outs| {
        let (axis, resized) = resized(ctx, ins)?;
        let dims = ins[0].shape().to_usize();
        let (outer, n, inner) = outer_len_inner(&dims, axis);
        let resizing = ctx.params::<SymbolicResizeParam>().resizing();
        let neighbors = resizing.neighbors(&resized);
        if resizing.mode == ResizeMode::Nearest {
            by_size!(ins[0].dtype(), T => {
                gather(source::<T>(&ins[0])?, (outer, n, inner), &neighbors.indices, target::<T>(&mut outs[0])?);
            });
            return Ok(());
        }
        by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
            let weights = weights::<T>(&neighbors);
            let taps = Taps { taps: neighbors.taps, indices: &neighbors.indices, weights: &weights };
            combine(ins[0].slice::<T>()?, (n, inner), &taps, outs[0].slice_mut::<T>()?);
            Ok(())
        }, other => Err(ctx.unsupported(other, TYPES)))
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            others_have_no_gradient(outs)?;
            if !outs[0].wanted() {
                return Ok(());
            }
            let (axis, resized) = resized(ctx, &ins[1..])?;
            let dims = outs[0].shape().to_usize();
            let (_, n, inner) = outer_len_inner(&dims, axis);
            let neighbors = ctx.params::<SymbolicResizeParam>().resizing().neighbors(&resized);
            by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
                let weights = weights::<T>(&neighbors);
                let taps = Taps { taps: neighbors.taps, indices: &neighbors.indices, weights: &weights };
                combine_backward(ins[0].slice::<T>()?, (n, inner), &taps, outs[0].slice_mut::<T>()?);
                Ok(())
            }, other => Err(ctx.unsupported(other, TYPES)))
        })
        .inputs(Deps::All),
        None,
    ));

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

fn weights<T: FloatElement>(neighbors: &Neighbors) -> Vec<T::Acc> {
    neighbors.weights.iter().map(|w| T::Acc::of(*w)).collect()
}

fn resize_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    has_data(io.ins.len())?;
    let p = p.get::<SymbolicResizeParam>();
    let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
    let axis = Shape::axis(p.axis.into(), rank)?;
    let to = p.resized(&shapes(io.ins))?.map_or(-1, |(_, axis)| axis.to as i64);
    let mut out = io.ins[0].clone();
    if let Some(dims) = out.dims_mut() {
        dims[axis] = to;
    }
    io.assign_out(0, &out)
}

fn resized(ctx: &OpCtx<'_>, ins: &[In<'_>]) -> Result<(usize, ResizedAxis)> {
    let shapes: Vec<&Shape> = ins.iter().map(In::shape).collect();
    let resized = ctx.params::<SymbolicResizeParam>().resized(&shapes)?;
    resized.ok_or_else(|| Error::Internal("an axis of unknown length reached the kernel of _onnx_Resize".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close, numbers};

    #[test]
    fn an_axis_is_resized_to_the_length_of_another() {
        let (x, like) = (array(&[0.0f64, 1.0, 2.0, 3.0], &[1, 4]), numbers(&[2, 8]));
        let run = |attrs: &[(&str, &str)]| {
            let all = [&[("axis", "1"), ("size", "(#1.1,)")][..], attrs].concat();
            Case::new(&RESIZE, &all).run1(&[x.clone(), like.clone()]).unwrap().to_vec::<f64>().unwrap()
        };
        close(&run(&[]), &[0.0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3.0], 1e-12);
        let nearest = run(&[("mode", "nearest"), ("coordinates", "asymmetric"), ("nearest_mode", "floor")]);
        assert_eq!(nearest, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
        let scaled = Case::new(&RESIZE, &[("axis", "-1"), ("scale", "0.5")]).run1(std::slice::from_ref(&x)).unwrap();
        assert_eq!(scaled.to_vec::<f64>().unwrap(), [0.5, 2.5]);
        assert!(Case::new(&RESIZE, &[("axis", "1"), ("size", "(0,)")]).run1(std::slice::from_ref(&x)).is_err());
        Case::new(&RESIZE, &[("axis", "1"), ("size", "(#1.1,)"), ("mode", "cubic")]).check_gradient(&[x, like]);
    }
}
