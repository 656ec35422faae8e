//! The rule for Resize: each axis that changes is gathered (nearest), or sums of neighbours with weights are made along it (linear, cubic).

use ferromx_core::context::Context;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_runtime::arrays::write_converted;

use super::{Rule, handle, int, list, text};
use crate::error::{Error, Result};
use crate::import::Scope;
use crate::ir::Value;

pub(super) static RULES: &[Rule] = &[Rule::new(
    "resized",
    "(tensor, roi, scales, sizes, axes, how) -> tensor",
    "Resize of ONNX. `how` is a list: mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, exclude_outside, \
     extrapolation_value, antialias, keep_aspect_ratio_policy.",
    resized,
)];

/// What all axes share.
struct How<'a> {
    mode: &'a str,
    coordinates: &'a str,
    nearest: &'a str,
    cubic: f64,
    exclude_outside: bool,
    extrapolation: f64,
    antialias: bool,
    policy: &'a str,
}

/// One axis that changes.
struct Axis {
    axis: usize,
    from: usize,
    to: usize,
    scale: f64,
    roi: (f64, f64),
}

fn resized(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let h = handle(args, 0)?;
    let shape = s.importer.builder.info(h).shape.clone();
    let rank =
        shape.ndim().ok_or_else(|| Error::NeedsValue("the rank is not known: give the shapes of the inputs".into()))?;
    let options = list(args, 5)?;
    let how = How {
        mode: text(options, 0)?,
        coordinates: text(options, 1)?,
        nearest: text(options, 2)?,
        cubic: options[3].number().unwrap_or(-0.75),
        exclude_outside: int(options, 4)? != 0,
        extrapolation: options[5].number().unwrap_or_default(),
        antialias: int(options, 6)? != 0,
        policy: text(options, 7)?,
    };
    let axes = axes(args, &shape, rank, &how)?;
    let mut value = args[0].clone();
    let mut inside = Value::None;
    for axis in &axes {
        let unchanged = axis.from == axis.to && axis.scale == 1.0 && how.coordinates != "tf_crop_and_resize";
        if unchanged {
            continue;
        }
        value = match how.mode {
            "nearest" => gathered(s, value, axis, &how)?,
            _ => weighted(s, value, axis, &how)?,
        };
        if how.coordinates == "tf_crop_and_resize" {
            let within = |x: usize| (0.0..=(axis.from - 1) as f64).contains(&position(x, axis, &how));
            let mask: Vec<bool> = (0..axis.to).map(within).collect();
            let mut dims = vec![1; rank];
            dims[axis.axis] = axis.to as i64;
            let name = s.name.clone();
            let mask = s.importer.builder.constant(&name, NDArray::from_slice(&mask, &dims)?);
            inside = match inside {
                Value::None => Value::Handle(mask),
                earlier => s.operator("_npi_bitwise_and", vec![earlier, Value::Handle(mask)], vec![], false)?,
            };
        }
    }
    match inside {
        Value::None if value == args[0] => s.operator("_copy", vec![value], vec![], true),
        Value::None => Ok(value),
        inside => s.operator(
            "_npi_where_rscalar",
            vec![inside, value],
            vec![("scalar", Value::Float(how.extrapolation))],
            true,
        ),
    }
}

/// The axes that are named, with their new lengths and scales.
fn axes(args: &[Value], shape: &Shape, rank: usize, how: &How<'_>) -> Result<Vec<Axis>> {
    let numbers = |i: usize| match &args[i] {
        Value::List(items) if !items.is_empty() => items.iter().map(Value::number).collect::<Option<Vec<f64>>>(),
        _ => None,
    };
    let named: Vec<usize> = match numbers(4) {
        Some(axes) => axes.iter().map(|a| Shape::axis(*a as i64, rank)).collect::<Result<_, _>>()?,
        None => (0..rank).collect(),
    };
    let (scales, sizes, roi) = (numbers(2), numbers(3), numbers(1));
    let given = scales.as_ref().or(sizes.as_ref()).map_or(0, Vec::len);
    if given != named.len() || scales.is_some() == sizes.is_some() {
        return Err(Error::value(format!("either scales or sizes must have {} numbers", named.len())));
    }
    let length = |axis: usize| {
        let n = usize::try_from(shape.dim(axis))
            .map_err(|_| Error::NeedsValue(format!("dimension {axis} is not known: give the shapes of the inputs")))?;
        if n == 0 { Err(Error::value("an empty axis cannot be resized")) } else { Ok(n) }
    };
    let mut made = Vec::new();
    for (k, axis) in named.iter().copied().enumerate() {
        let unchanged = scales.as_ref().is_some_and(|s| s[k] == 1.0) && how.coordinates != "tf_crop_and_resize";
        if unchanged {
            continue;
        }
        let from = length(axis)?;
        let (scale, to) = match (&scales, &sizes) {
            (Some(scales), _) => (scales[k], (scales[k] * from as f64).floor()),
            (_, Some(sizes)) => (sizes[k] / from as f64, sizes[k]),
            _ => (1.0, from as f64),
        };
        if !(scale > 0.0 && to < 1e9) {
            return Err(Error::value(format!("an axis of {from} cannot be scaled by {scale}")));
        }
        let roi = match &roi {
            Some(roi) if roi.len() == 2 * named.len() => (roi[k], roi[k + named.len()]),
            _ => (0.0, 1.0),
        };
        made.push(Axis { axis, from, to: to as usize, scale, roi });
    }
    if sizes.is_some() && how.policy != "stretch" {
        let larger = how.policy == "not_smaller";
        let pick = |a: f64, b: f64| if larger { a.max(b) } else { a.min(b) };
        let scale = made.iter().map(|a| a.scale).reduce(pick).unwrap_or(1.0);
        for a in &mut made {
            (a.scale, a.to) = (scale, (scale * a.from as f64 + 0.5).floor() as usize);
        }
    }
    Ok(made)
}

/// Where an output element lies among those of the input.
fn position(x: usize, axis: &Axis, how: &How<'_>) -> f64 {
    let (x, n, out) = (x as f64, axis.from as f64, axis.to as f64);
    match how.coordinates {
        "align_corners" if axis.to == 1 => 0.0,
        // The specification counts the scaled length before it is rounded.
        "align_corners" => x * (n - 1.0) / (axis.scale * n - 1.0),
        "asymmetric" => x / axis.scale,
        "pytorch_half_pixel" if axis.to == 1 => 0.0,
        "tf_crop_and_resize" if axis.to > 1 => {
            axis.roi.0 * (n - 1.0) + x * (axis.roi.1 - axis.roi.0) * (n - 1.0) / (out - 1.0)
        }
        "tf_crop_and_resize" => 0.5 * (axis.roi.0 + axis.roi.1) * (n - 1.0),
        "half_pixel_symmetric" => {
            let adjustment = out / (axis.scale * n);
            n / 2.0 * (1.0 - adjustment) + (x + 0.5) / axis.scale - 0.5
        }
        _ => (x + 0.5) / axis.scale - 0.5,
    }
}

fn gathered(s: &mut Scope<'_, '_>, value: Value, axis: &Axis, how: &How<'_>) -> Result<Value> {
    let index = |x: usize| {
        let at = position(x, axis, how);
        let at = match how.nearest {
            "floor" => at.floor(),
            "ceil" => at.ceil(),
            "round_prefer_ceil" => (at + 0.5).floor(),
            _ => (at - 0.5).ceil(),
        };
        (at as i64).clamp(0, axis.from as i64 - 1)
    };
    let indices: Vec<i64> = (0..axis.to).map(index).collect();
    let name = format!("{}/indices", s.name);
    let indices = s.importer.builder.constant(&name, NDArray::from_slice(&indices, &[axis.to as i64])?);
    s.operator("take", vec![value, Value::Handle(indices)], vec![("axis", Value::Int(axis.axis as i64))], true)
}

/// The weights of neighbours, as their offsets from the element before the place, for a place `ratio` behind that element.
fn weights(ratio: f64, axis: &Axis, how: &How<'_>) -> Vec<(i64, f64)> {
    let scale = if how.antialias { axis.scale.min(1.0) } else { 1.0 };
    let a = how.cubic;
    let (reach, f): (f64, &dyn Fn(f64) -> f64) = match how.mode {
        "cubic" => (2.0, &|x| match x.abs() {
            x if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            x if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
            _ => 0.0,
        }),
        _ => (1.0, &|x: f64| (1.0 - x.abs()).max(0.0)),
    };
    let start = (-reach / scale).floor() as i64 + 1;
    let all: Vec<(i64, f64)> = (start..=1 - start).map(|i| (i, f((i as f64 - ratio) * scale))).collect();
    let sum: f64 = all.iter().map(|(_, w)| w).sum();
    all.into_iter().map(|(i, w)| (i, if how.antialias { w / sum } else { w })).collect()
}

fn weighted(s: &mut Scope<'_, '_>, value: Value, axis: &Axis, how: &How<'_>) -> Result<Value> {
    let Value::Handle(h) = value else { return Err(Error::value("a tensor is resized")) };
    let dtype = s.importer.builder.info(h).dtype.filter(|d| d.is_float());
    let dtype = dtype.ok_or_else(|| Error::unsupported("only floating-point numbers can be interpolated"))?;
    // The places and weights of each output element.
    let mut rows: Vec<Vec<(i64, f64)>> = Vec::with_capacity(axis.to);
    for o in 0..axis.to {
        let at = position(o, axis, how);
        let base = at.floor();
        let mut taps = weights(at - base, axis, how);
        let outside = |i: i64| i < 0 || i >= axis.from as i64;
        if how.exclude_outside {
            taps.retain(|(i, _)| !outside(base as i64 + i));
            let sum: f64 = taps.iter().map(|(_, w)| w).sum();
            taps.iter_mut().for_each(|(_, w)| *w /= sum);
        }
        let place = |(i, w): (i64, f64)| ((base as i64 + i).clamp(0, axis.from as i64 - 1), w);
        rows.push(taps.into_iter().map(place).filter(|(_, w)| *w != 0.0).collect());
    }
    let width = rows.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let (mut places, mut factors) = (vec![0i64; axis.to * width], vec![0f64; axis.to * width]);
    for (o, row) in rows.into_iter().enumerate() {
        for (k, (place, weight)) in row.into_iter().enumerate() {
            (places[o * width + k], factors[o * width + k]) = (place, weight);
        }
    }
    let dims = [axis.to as i64, width as i64];
    let array = NDArray::zeros(&Shape::new(&dims), dtype, Context::default())?;
    write_converted(&array, factors.into_iter())?;
    let (places_name, weights_name) = (format!("{}/places", s.name), format!("{}/weights", s.name));
    let places = Value::Handle(s.importer.builder.constant(&places_name, NDArray::from_slice(&places, &dims)?));
    let weights = Value::Handle(s.importer.builder.constant(&weights_name, array));
    let params = vec![("axis", Value::Int(axis.axis as i64))];
    s.operator("_onnx_Interpolate", vec![value, places, weights], params, true)
}
