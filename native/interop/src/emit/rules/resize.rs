//! The rule for Resize. Each axis that changes is gathered (nearest) or interpolated with weights (linear, cubic); if a length is not
//! known, the operator `_onnx_Resize` does this when the model runs.

use ferromx_core::ndarray::NDArray;
use ferromx_core::params::ParamValue;
use ferromx_core::shape::Shape;
use ferromx_ops::onnx::{Coordinates, NearestMode, ResizeMode, ResizedAxis, Resizing};

use super::{array, needs_shapes, rules};
use crate::emit::{Arguments, Handle, Scope, is_symbolic, op};
use crate::error::{Error, Result};
use crate::ir::Value;

rules! {
    /// Resize of ONNX. `how` is a list: mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, exclude_outside,
    /// extrapolation_value, antialias, keep_aspect_ratio_policy.
    fn resized(
        s, tensor: Handle, roi: Option<Vec<f64>>, scales: Option<Vec<f64>>, sizes: Option<&[Value]>,
        axes: Option<Vec<i64>>, how: &[Value],
    ) -> Handle {
        let dims = s.info(tensor).dims.clone().ok_or_else(|| needs_shapes("the rank is not known"))?.to_vec();
        let how = How::read(how)?;
        let sizes = sizes.and_then(|sizes| sizes.iter().map(Value::int).collect::<Option<Vec<_>>>());
        let given = |list: Option<Vec<f64>>| list.filter(|items| !items.is_empty());
        let axes = axes.filter(|axes| !axes.is_empty());
        let request = Request { axes, roi: given(roi), scales: given(scales), sizes: sizes.filter(|s| !s.is_empty()) };
        let mut axes = changed_axes(request, &dims, &how)?;
        let shrinks = |axis: &Axis| matches!(&axis.change, Change::Known(known) if known.to < known.from);
        if !axes.iter().any(shrinks) {
            // The last axis, which takes longest, is resized while the array is small.
            axes.reverse();
        }
        let mut made = tensor;
        let mut inside = None;
        for Axis { axis, change } in &axes {
            let known = match change {
                Change::Known(known) if known.from == known.to && known.scale == 1.0 && !how.is_cropping() => continue,
                Change::Known(known) => known,
                unknown => {
                    made = resized_dynamic(s, made, *axis, unknown, &how)?;
                    continue;
                }
            };
            made = match how.resizing.mode {
                ResizeMode::Nearest => gathered(s, made, *axis, known, &how)?,
                _ => weighted(s, made, *axis, known, &how)?,
            };
            if how.is_cropping() {
                let within = |x: usize| (0.0..=(known.from - 1) as f64).contains(&how.resizing.coordinate(x, known));
                let mask: Vec<bool> = (0..known.to).map(within).collect();
                let mut mask_dims = vec![1; dims.len()];
                mask_dims[*axis] = known.to as i64;
                let mask = s.constant(NDArray::from_slice(&mask, &mask_dims)?);
                inside = match inside {
                    None => Some(mask),
                    Some(earlier) => Some(s.emit(op!(BITWISE_AND(earlier, mask)))?),
                };
            }
        }
        match inside {
            None if made == tensor => s.emit_named(op!(COPY(made))),
            None => Ok(made),
            Some(inside) => s.emit_named(op!(WHERE_RSCALAR(inside, made), scalar: how.extrapolation)),
        }
    }
}

/// The parameters that all axes share.
struct How<'a> {
    resizing: Resizing,
    extrapolation: f64,
    policy: &'a str,
}

impl<'a> How<'a> {
    fn read(options: &'a [Value]) -> Result<How<'a>> {
        let mut options = Arguments::new(options);
        let mode = ResizeMode::parse(options.next("mode")?).map_err(Error::Unsupported)?;
        let coordinates = options.next("coordinate_transformation_mode")?;
        let nearest = options.next("nearest_mode")?;
        let cubic = options.next::<Option<f64>>("cubic_coeff_a")?;
        let exclude_outside = options.next("exclude_outside")?;
        let extrapolation = options.next::<Option<f64>>("extrapolation_value")?;
        let antialias = options.next("antialias")?;
        let resizing = Resizing {
            mode,
            coordinates: Coordinates::parse(coordinates).map_err(Error::Unsupported)?,
            nearest: NearestMode::parse(nearest).map_err(Error::Unsupported)?,
            cubic: cubic.unwrap_or(-0.75),
            exclude_outside,
            antialias,
        };
        let policy = options.next("keep_aspect_ratio_policy")?;
        Ok(How { resizing, extrapolation: extrapolation.unwrap_or_default(), policy })
    }

    fn is_cropping(&self) -> bool {
        self.resizing.coordinates == Coordinates::CropAndResize
    }
}

/// One axis that is resized.
struct Axis {
    axis: usize,
    change: Change,
}

enum Change {
    /// Both lengths are known.
    Known(ResizedAxis),
    /// The new length is a dimension that is not known, or the axis is.
    Size(i64),
    /// The axis is not known.
    Scale(f64),
}

/// The parameters of a node, without empty lists.
struct Request {
    axes: Option<Vec<i64>>,
    roi: Option<Vec<f64>>,
    scales: Option<Vec<f64>>,
    sizes: Option<Vec<i64>>,
}

/// The resized axes with their new lengths and scales.
fn changed_axes(request: Request, dims: &[i64], how: &How<'_>) -> Result<Vec<Axis>> {
    let Request { axes, roi, scales, sizes } = request;
    let named: Vec<usize> = match axes {
        Some(axes) => axes.into_iter().map(|a| Shape::axis(a, dims.len())).collect::<Result<_, _>>()?,
        None => (0..dims.len()).collect(),
    };
    let given = scales.as_ref().map(Vec::len).or(sizes.as_ref().map(Vec::len)).unwrap_or(0);
    if given != named.len() || scales.is_some() == sizes.is_some() {
        return Err(Error::value(format!("either scales or sizes must have {} numbers", named.len())));
    }
    let mut made = Vec::new();
    for (k, axis) in named.iter().copied().enumerate() {
        let scale = scales.as_ref().map(|s| s[k]);
        let size = sizes.as_ref().map(|s| s[k]);
        if (scale == Some(1.0) || size == Some(dims[axis])) && !how.is_cropping() && how.policy == "stretch" {
            continue;
        }
        if is_symbolic(dims[axis]) || size.is_some_and(is_symbolic) {
            if how.is_cropping() || how.policy != "stretch" {
                let text = format!("dimension {axis} must be known to resize it: give the shapes of the inputs");
                return Err(Error::NeedsValue(text));
            }
            let change = size.map(Change::Size).or(scale.map(Change::Scale)).unwrap_or(Change::Scale(1.0));
            made.push(Axis { axis, change });
            continue;
        }
        let from = usize::try_from(dims[axis]).ok().filter(|n| *n > 0);
        let from = from.ok_or_else(|| Error::value("an empty axis cannot be resized"))?;
        let to = size.map_or_else(|| (scale.unwrap_or(1.0) * from as f64).floor(), |n| n as f64);
        let scale = scale.unwrap_or(to / from as f64);
        if !(scale > 0.0 && to < 1e9) {
            return Err(Error::value(format!("an axis of {from} cannot be scaled by {scale}")));
        }
        let roi = match &roi {
            Some(roi) if roi.len() == 2 * named.len() => (roi[k], roi[k + named.len()]),
            _ => (0.0, 1.0),
        };
        made.push(Axis { axis, change: Change::Known(ResizedAxis { from, to: to as usize, scale, roi }) });
    }
    if sizes.is_some() && how.policy != "stretch" {
        keep_ratio(&mut made, how.policy == "not_smaller");
    }
    Ok(made)
}

/// Scales all axes equally, so that none exceeds its new length, or none falls below it.
fn keep_ratio(axes: &mut [Axis], is_larger: bool) {
    let mut known: Vec<&mut ResizedAxis> = Vec::new();
    for axis in axes {
        if let Change::Known(axis) = &mut axis.change {
            known.push(axis);
        }
    }
    let pick = |a: f64, b: f64| if is_larger { a.max(b) } else { a.min(b) };
    let scale = known.iter().map(|a| a.scale).reduce(pick).unwrap_or(1.0);
    for a in known {
        (a.scale, a.to) = (scale, (scale * a.from as f64 + 0.5).floor() as usize);
    }
}

/// Resizes an axis when the model runs.
fn resized_dynamic(
    s: &mut Scope<'_, '_>,
    tensor: Handle,
    axis: usize,
    change: &Change,
    how: &How<'_>,
) -> Result<Handle> {
    let (inputs, size, scale) = match change {
        Change::Size(size) => {
            let (inputs, size) = s.builder().dim_exprs(&[tensor.0], &[*size])?;
            (inputs, Some(format!("({})", size.join(", "))), None)
        }
        Change::Scale(scale) => (vec![tensor.into()], None, Some(*scale)),
        Change::Known(axis) => (vec![tensor.into()], Some(format!("({})", axis.to)), None),
    };
    let r = &how.resizing;
    let resize = op!(
        SYMBOLIC_RESIZE(inputs), axis: axis, mode: r.mode, coordinates: r.coordinates, nearest_mode: r.nearest,
        cubic_coeff_a: r.cubic, exclude_outside: r.exclude_outside, antialias: r.antialias, size: size, scale: scale
    );
    s.emit_as(&format!("axis{axis}"), resize)
}

/// Takes the nearest elements along an axis.
fn gathered(
    s: &mut Scope<'_, '_>,
    tensor: Handle,
    axis: usize,
    resized: &ResizedAxis,
    how: &How<'_>,
) -> Result<Handle> {
    let indices: Vec<i64> = how.resizing.neighbours(resized).indices.into_iter().map(|i| i as i64).collect();
    let indices = s.integers("indices", &indices)?;
    s.emit_named(op!(TAKE(tensor, indices), axis: axis))
}

/// Sums weighted neighbours along an axis.
fn weighted(
    s: &mut Scope<'_, '_>,
    tensor: Handle,
    axis: usize,
    resized: &ResizedAxis,
    how: &How<'_>,
) -> Result<Handle> {
    let dtype = s.info(tensor).dtype.filter(|d| d.is_float());
    let dtype = dtype.ok_or_else(|| Error::unsupported("only floating-point numbers can be interpolated"))?;
    let made = how.resizing.neighbours(resized);
    let dims = [resized.to as i64, made.taps as i64];
    let indices: Vec<i64> = made.indices.into_iter().map(|i| i as i64).collect();
    let weights = array::<f64>(&dims, dtype, made.weights)?;
    let taps = s.inner_constant("indices", NDArray::from_slice(&indices, &dims)?);
    let weights = s.inner_constant("weights", weights);
    s.emit_named(op!(INTERPOLATE(tensor, taps, weights), axis: axis))
}
