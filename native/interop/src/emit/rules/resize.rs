//! The rule for Resize. Axes are resized one after the other: by a gather (nearest), or by a weighted sum of neighbors (linear, cubic). If
//! a length is not known, the operator `_onnx_Resize` resizes the axis when the model runs.

use ferromx_core::ndarray::NDArray;
use ferromx_core::params::ParamValue;
use ferromx_core::shape::Shape;
use ferromx_ops::onnx::{Coordinates, NearestMode, ResizeMode, ResizedAxis, Resizing, scaled_len};

use super::{array, needs_shapes, rules};
use crate::emit::{Arguments, Scope, TensorId, is_symbolic, op};
use crate::error::{Error, Result};
use crate::ir::Value;

rules! {
    /// Resize of ONNX. `how` is a list: mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, exclude_outside,
    /// extrapolation_value, antialias, keep_aspect_ratio_policy.
    fn resized(
        s, tensor: TensorId, roi: Option<Vec<f64>>, scales: Option<Vec<f64>>, sizes: Option<&[Value]>,
        axes: Option<Vec<i64>>, how: &[Value],
    ) -> TensorId {
        let dims = s.info(tensor).dims.clone().ok_or_else(|| needs_shapes("the rank is unknown"))?.to_vec();
        let options = Options::read(how)?;
        let sizes = sizes.and_then(|sizes| sizes.iter().map(Value::int).collect::<Option<Vec<_>>>());
        let non_empty = |list: Option<Vec<f64>>| list.filter(|items| !items.is_empty());
        let axes = axes.filter(|axes| !axes.is_empty());
        let request = Target { axes, roi: non_empty(roi), scales: non_empty(scales), sizes: sizes.filter(|s| !s.is_empty()) };
        let mut axes = changed_axes(request, &dims, &options)?;
        let shrinks = |axis: &Axis| matches!(&axis.length, Length::Known(known) if known.to < known.from);
        if !axes.iter().any(shrinks) {
            // The last axis takes longest, so it is resized first, while the array is small.
            axes.reverse();
        }
        let mut resized = tensor;
        let mut inside = None;
        for Axis { axis, length } in &axes {
            let known = match length {
                Length::Known(known) if known.from == known.to && known.scale == 1.0 && !options.is_crop() => continue,
                Length::Known(known) => known,
                unknown => {
                    resized = resize_dynamic(s, resized, *axis, unknown, &options)?;
                    continue;
                }
            };
            resized = match options.resizing.mode {
                ResizeMode::Nearest => gather(s, resized, *axis, known, &options)?,
                _ => interpolate(s, resized, *axis, known, &options)?,
            };
            if options.is_crop() {
                let within = |x: usize| (0.0..=(known.from - 1) as f64).contains(&options.resizing.coordinate(x, known));
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
            None if resized == tensor => s.emit_named(op!(COPY(resized))),
            None => Ok(resized),
            Some(inside) => s.emit_named(op!(WHERE_RSCALAR(inside, resized), scalar: options.extrapolation)),
        }
    }
}

/// The attributes of Resize, which all axes share.
struct Options<'a> {
    resizing: Resizing,
    extrapolation: f64,
    policy: &'a str,
}

impl<'a> Options<'a> {
    fn read(list: &'a [Value]) -> Result<Options<'a>> {
        let mut options = Arguments::new(list);
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
        Ok(Options { resizing, extrapolation: extrapolation.unwrap_or_default(), policy })
    }

    fn is_crop(&self) -> bool {
        self.resizing.coordinates == Coordinates::CropAndResize
    }
}

/// An axis to be resized, with its new length.
struct Axis {
    axis: usize,
    length: Length,
}

enum Length {
    /// The old and the new length are known.
    Known(ResizedAxis),
    /// The new length, if it or the old one is symbolic.
    Size(i64),
    /// The scale of a symbolic length.
    Scale(f64),
}

/// The inputs that determine the new lengths; empty ones are absent.
struct Target {
    axes: Option<Vec<i64>>,
    roi: Option<Vec<f64>>,
    scales: Option<Vec<f64>>,
    sizes: Option<Vec<i64>>,
}

/// The axes that change, with their new lengths.
fn changed_axes(request: Target, dims: &[i64], options: &Options<'_>) -> Result<Vec<Axis>> {
    let Target { axes, roi, scales, sizes } = request;
    let axes: Vec<usize> = match axes {
        Some(axes) => axes.into_iter().map(|a| Shape::axis(a, dims.len())).collect::<Result<_, _>>()?,
        None => (0..dims.len()).collect(),
    };
    let num_given = scales.as_ref().map(Vec::len).or(sizes.as_ref().map(Vec::len)).unwrap_or(0);
    if num_given != axes.len() || scales.is_some() == sizes.is_some() {
        return Err(Error::value(format!("either scales or sizes must have {} numbers", axes.len())));
    }
    let mut changed = Vec::new();
    for (k, axis) in axes.iter().copied().enumerate() {
        let scale = scales.as_ref().map(|s| s[k]);
        let size = sizes.as_ref().map(|s| s[k]);
        if (scale == Some(1.0) || size == Some(dims[axis])) && !options.is_crop() && options.policy == "stretch" {
            continue;
        }
        if is_symbolic(dims[axis]) || size.is_some_and(is_symbolic) {
            if options.is_crop() || options.policy != "stretch" {
                let text = format!("dimension {axis} must be known to resize it: give the shapes of the inputs");
                return Err(Error::NeedsValue(text));
            }
            let length = size.map(Length::Size).or(scale.map(Length::Scale)).unwrap_or(Length::Scale(1.0));
            changed.push(Axis { axis, length });
            continue;
        }
        let from = usize::try_from(dims[axis]).ok().filter(|n| *n > 0);
        let from = from.ok_or_else(|| Error::value("an empty axis cannot be resized"))?;
        let to = size.map_or_else(|| scaled_len(from, scale.unwrap_or(1.0)), |n| n as f64);
        let scale = scale.unwrap_or(to / from as f64);
        if !(scale > 0.0 && to < 1e9) {
            return Err(Error::value(format!("an axis of {from} cannot be scaled by {scale}")));
        }
        let roi = match &roi {
            Some(roi) if roi.len() == 2 * axes.len() => (roi[k], roi[k + axes.len()]),
            _ => (0.0, 1.0),
        };
        changed.push(Axis { axis, length: Length::Known(ResizedAxis { from, to: to as usize, scale, roi }) });
    }
    if sizes.is_some() && options.policy != "stretch" {
        keep_aspect_ratio(&mut changed, options.policy == "not_smaller");
    }
    Ok(changed)
}

/// Scales all axes equally, by the largest of their scales if `use_largest` is true, otherwise by the smallest.
fn keep_aspect_ratio(axes: &mut [Axis], use_largest: bool) {
    let mut known: Vec<&mut ResizedAxis> = Vec::new();
    for axis in axes {
        if let Length::Known(axis) = &mut axis.length {
            known.push(axis);
        }
    }
    let pick = |a: f64, b: f64| if use_largest { a.max(b) } else { a.min(b) };
    let scale = known.iter().map(|a| a.scale).reduce(pick).unwrap_or(1.0);
    for a in known {
        (a.scale, a.to) = (scale, (scale * a.from as f64 + 0.5).floor() as usize);
    }
}

/// Resizes an axis when the model runs.
fn resize_dynamic(
    s: &mut Scope<'_, '_>,
    tensor: TensorId,
    axis: usize,
    length: &Length,
    options: &Options<'_>,
) -> Result<TensorId> {
    let (inputs, size, scale) = match length {
        Length::Size(size) => {
            let (inputs, size) = s.builder().dim_exprs(&[tensor.0], &[*size])?;
            (inputs, Some(format!("({})", size.join(", "))), None)
        }
        Length::Scale(scale) => (vec![tensor.into()], None, Some(*scale)),
        Length::Known(axis) => (vec![tensor.into()], Some(format!("({})", axis.to)), None),
    };
    let r = &options.resizing;
    let resize = op!(
        SYMBOLIC_RESIZE(inputs), axis: axis, mode: r.mode, coordinates: r.coordinates, nearest_mode: r.nearest,
        cubic_coeff_a: r.cubic, exclude_outside: r.exclude_outside, antialias: r.antialias, size: size, scale: scale
    );
    s.emit_as(&format!("axis{axis}"), resize)
}

/// Takes the nearest elements along an axis.
fn gather(
    s: &mut Scope<'_, '_>,
    tensor: TensorId,
    axis: usize,
    resized: &ResizedAxis,
    options: &Options<'_>,
) -> Result<TensorId> {
    let indices: Vec<i64> = options.resizing.neighbors(resized).indices.into_iter().map(|i| i as i64).collect();
    let indices = s.integers("indices", &indices)?;
    s.emit_named(op!(TAKE(tensor, indices), axis: axis))
}

/// Sums weighted neighbors along an axis.
fn interpolate(
    s: &mut Scope<'_, '_>,
    tensor: TensorId,
    axis: usize,
    resized: &ResizedAxis,
    options: &Options<'_>,
) -> Result<TensorId> {
    let dtype = s.info(tensor).dtype.filter(|d| d.is_float());
    let dtype = dtype.ok_or_else(|| Error::unsupported("only floating-point numbers can be interpolated"))?;
    let neighbors = options.resizing.neighbors(resized);
    let dims = [resized.to as i64, neighbors.taps as i64];
    let indices: Vec<i64> = neighbors.indices.into_iter().map(|i| i as i64).collect();
    let weights = array::<f64>(&dims, dtype, neighbors.weights)?;
    let taps = s.inner_constant("indices", NDArray::from_slice(&indices, &dims)?);
    let weights = s.inner_constant("weights", weights);
    s.emit_named(op!(INTERPOLATE(tensor, taps, weights), axis: axis))
}
