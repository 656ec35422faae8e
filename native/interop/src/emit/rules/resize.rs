//! The rule for Resize. Each axis that changes is gathered (nearest) or interpolated with weights (linear, cubic); if a length is not
//! known, the operator `_onnx_Resize` does this when the model runs.

use ferromx_core::context::Context;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::{Attrs, ParamValue};
use ferromx_core::shape::Shape;
use ferromx_ops::onnx::{Coordinates, NearestMode, ResizeMode, ResizedAxis, Resizing};
use ferromx_runtime::arrays::write_converted;

use super::{Rule, handle, int, list, text};
use crate::emit::{Scope, is_unknown};
use crate::error::{Error, Result};
use crate::ir::Value;

pub(super) static RULES: &[Rule] = &[Rule::new(
    "resized",
    "(tensor, roi, scales, sizes, axes, how) -> tensor",
    "Resize of ONNX. `how` is a list: mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, exclude_outside, \
     extrapolation_value, antialias, keep_aspect_ratio_policy.",
    resized,
)];

/// The parameters that all axes share.
struct How<'a> {
    resizing: Resizing,
    extrapolation: f64,
    policy: &'a str,
}

impl How<'_> {
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

fn resized(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let h = handle(args, 0)?;
    let dims = s.info(h).dims.clone();
    let dims =
        dims.ok_or_else(|| Error::NeedsValue("the rank is not known: give the shapes of the inputs".into()))?.to_vec();
    let options = list(args, 5)?;
    let how = How {
        resizing: Resizing {
            mode: ResizeMode::parse(text(options, 0)?).map_err(Error::Unsupported)?,
            coordinates: Coordinates::parse(text(options, 1)?).map_err(Error::Unsupported)?,
            nearest: NearestMode::parse(text(options, 2)?).map_err(Error::Unsupported)?,
            cubic: options[3].number().unwrap_or(-0.75),
            exclude_outside: int(options, 4)? != 0,
            antialias: int(options, 6)? != 0,
        },
        extrapolation: options[5].number().unwrap_or_default(),
        policy: text(options, 7)?,
    };
    let axes = axes(args, &dims, &how)?;
    let mut value = args[0].clone();
    let mut inside = Value::None;
    for Axis { axis, change } in &axes {
        let known = match change {
            Change::Known(known) if known.from == known.to && known.scale == 1.0 && !how.is_cropping() => continue,
            Change::Known(known) => known,
            unknown => {
                value = resized_dynamic(s, value, *axis, unknown, &how)?;
                continue;
            }
        };
        value = match how.resizing.mode {
            ResizeMode::Nearest => gathered(s, value, *axis, known, &how)?,
            _ => weighted(s, value, *axis, known, &how)?,
        };
        if how.is_cropping() {
            let within = |x: usize| (0.0..=(known.from - 1) as f64).contains(&how.resizing.coordinate(x, known));
            let mask: Vec<bool> = (0..known.to).map(within).collect();
            let mut mask_dims = vec![1; dims.len()];
            mask_dims[*axis] = known.to as i64;
            let name = s.name.clone();
            let mask = s.builder().constant(&name, NDArray::from_slice(&mask, &mask_dims)?);
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

/// The resized axes with their new lengths and scales.
fn axes(args: &[Value], dims: &[i64], how: &How<'_>) -> Result<Vec<Axis>> {
    let numbers = |i: usize| match &args[i] {
        Value::List(items) if !items.is_empty() => items.iter().map(Value::number).collect::<Option<Vec<f64>>>(),
        _ => None,
    };
    let named: Vec<usize> = match numbers(4) {
        Some(axes) => axes.iter().map(|a| Shape::axis(*a as i64, dims.len())).collect::<Result<_, _>>()?,
        None => (0..dims.len()).collect(),
    };
    let sizes = args[3].ints().filter(|sizes| !sizes.is_empty());
    let (scales, roi) = (numbers(2), numbers(1));
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
        if is_unknown(dims[axis]) || size.is_some_and(is_unknown) {
            if how.is_cropping() || how.policy != "stretch" {
                let text = format!(
                    "dimension {axis} decides what is resized, and is not known: give the shapes of the inputs"
                );
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

fn resized_dynamic(s: &mut Scope<'_, '_>, value: Value, axis: usize, change: &Change, how: &How<'_>) -> Result<Value> {
    let h = handle(std::slice::from_ref(&value), 0)?;
    let r = &how.resizing;
    let mut attrs: Attrs = [
        ("axis", axis.to_string()),
        ("mode", r.mode.print()),
        ("coordinates", r.coordinates.print()),
        ("nearest_mode", r.nearest.print()),
        ("cubic_coeff_a", r.cubic.to_string()),
        ("exclude_outside", r.exclude_outside.print()),
        ("antialias", r.antialias.print()),
    ]
    .map(|(key, text)| (key.to_string(), text))
    .into_iter()
    .collect();
    let mut inputs = vec![value];
    match change {
        Change::Size(size) => {
            let (given, written) = s.builder().expressions(&[h], &[*size])?;
            inputs = given;
            attrs.insert("size".into(), format!("({})", written.join(", ")));
        }
        Change::Scale(scale) => drop(attrs.insert("scale".into(), scale.to_string())),
        Change::Known(axis) => drop(attrs.insert("size".into(), format!("({})", axis.to))),
    }
    let name = format!("{}/axis{axis}", s.name);
    Ok(Value::Handle(s.builder().apply_with("_onnx_Resize", &name, &inputs, attrs, &[])?[0]))
}

fn gathered(s: &mut Scope<'_, '_>, value: Value, axis: usize, resized: &ResizedAxis, how: &How<'_>) -> Result<Value> {
    let indices: Vec<i64> = how.resizing.neighbours(resized).indices.into_iter().map(|i| i as i64).collect();
    let name = format!("{}/indices", s.name);
    let indices = s.builder().constant(&name, NDArray::from_slice(&indices, &[resized.to as i64])?);
    s.operator("take", vec![value, Value::Handle(indices)], vec![("axis", Value::Int(axis as i64))], true)
}

fn weighted(s: &mut Scope<'_, '_>, value: Value, axis: usize, resized: &ResizedAxis, how: &How<'_>) -> Result<Value> {
    let Value::Handle(h) = value else { return Err(Error::value("a tensor is resized")) };
    let dtype = s.info(h).dtype.filter(|d| d.is_float());
    let dtype = dtype.ok_or_else(|| Error::unsupported("only floating-point numbers can be interpolated"))?;
    let made = how.resizing.neighbours(resized);
    let dims = [resized.to as i64, made.taps as i64];
    let indices: Vec<i64> = made.indices.into_iter().map(|i| i as i64).collect();
    let array = NDArray::zeros(&Shape::new(&dims), dtype, Context::default())?;
    write_converted(&array, made.weights.into_iter())?;
    let (indices_name, weights_name) = (format!("{}/indices", s.name), format!("{}/weights", s.name));
    let taps = Value::Handle(s.builder().constant(&indices_name, NDArray::from_slice(&indices, &dims)?));
    let weights = Value::Handle(s.builder().constant(&weights_name, array));
    let params = vec![("axis", Value::Int(axis as i64))];
    s.operator("_onnx_Interpolate", vec![value, taps, weights], params, true)
}
