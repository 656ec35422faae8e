//! Checks a model: whether it can be mapped, and whether the resulting graph can be bound.

use std::collections::HashMap;

use ferromx_core::shape::Shape;
use ferromx_runtime::symbol_infer::{infer_dtypes, infer_shapes};

use super::{ImportOptions, Imported, import};
use crate::emit::NumpyShapes;
use crate::error::{Error, Problem, Result};
use crate::ir::{Dim, Model};

/// The first lengths to try for dynamic dimensions, all different. Some models need lengths with many divisors, others short ones.
const DIFFERENT: [&[i64]; 2] = [&[4, 6, 10, 12], &[64, 96, 160, 224]];
/// Lengths to try next for all dynamic dimensions together, after 1 to 64.
const EQUAL: [i64; 14] = [224, 640, 1024, 128, 160, 192, 256, 384, 480, 512, 768, 16_000, 48_000, 480_000];

/// Maps a model like [`import`] and checks that the graph can be bound: for the shapes of its inputs, or for sample lengths of their
/// dynamic dimensions.
///
/// # Errors
/// All parts of the model that cannot be mapped, with the names of the nodes; the reason why the graph cannot be bound.
pub fn check(model: &Model, options: &ImportOptions) -> Result<Imported> {
    let imported = import(model, options)?;
    match unbound(&imported, options) {
        Some(problem) => Err(Error::Model(vec![problem])),
        None => Ok(imported),
    }
}

/// The reason why a graph cannot be bound for any length of its dynamic dimensions.
fn unbound(imported: &Imported, options: &ImportOptions) -> Option<Problem> {
    let _numpy = NumpyShapes::set();
    let mut first: Option<(String, Error)> = None;
    let different = DIFFERENT.iter().map(|lengths| lengths.to_vec());
    let equal = (1..=64).chain(EQUAL).map(|length| vec![length]);
    for lengths in different.chain(equal) {
        let (given, is_dynamic_shape) = shapes(imported, options, &lengths)?;
        let Err(e) = bound(imported, &given) else { return None };
        let inputs: Vec<_> = given.iter().map(|(name, shape)| format!("{name}={shape}")).collect();
        first.get_or_insert((inputs.join(", "), e));
        if !is_dynamic_shape {
            break;
        }
    }
    let (inputs, e) = first?;
    let with = if inputs.is_empty() { String::new() } else { format!(" with {inputs}") };
    let message = format!("it can be mapped, but the resulting graph cannot be bound{with}: {e}");
    Some(Problem { location: "the graph".into(), message, needs_value: false })
}

/// The shapes of the inputs with lengths for dynamic dimensions, and whether there are any; `None` if a rank is unknown.
fn shapes(imported: &Imported, options: &ImportOptions, lengths: &[i64]) -> Option<(Vec<(String, Shape)>, bool)> {
    let mut chosen: HashMap<String, i64> = HashMap::new();
    let mut is_dynamic_shape = false;
    let mut given = Vec::new();
    for input in &imported.inputs {
        let fixed = options.shapes.get(&input.name);
        let mut dims = Vec::new();
        for (k, dim) in input.dims.as_ref()?.iter().enumerate() {
            let fixed = fixed.and_then(|dims| dims.get(k)).copied().filter(|d| *d >= 0);
            dims.push(match (dim, fixed) {
                (_, Some(length)) => length,
                (Dim::Known(n), None) => i64::try_from(*n).ok()?,
                (other, None) => {
                    is_dynamic_shape = true;
                    let name = match other {
                        Dim::Named(name) => name.clone(),
                        _ => format!("{}.{k}", input.name),
                    };
                    let next = lengths[chosen.len() % lengths.len()];
                    *chosen.entry(name).or_insert(next)
                }
            });
        }
        given.push((input.name.clone(), Shape::new(&dims)));
    }
    Some((given, is_dynamic_shape))
}

/// Infers shapes and types as binding does.
fn bound(imported: &Imported, inputs: &[(String, Shape)]) -> Result<()> {
    let arrays = || imported.args.iter().chain(&imported.aux);
    let mut given: Vec<_> = arrays().map(|(name, array)| (name.clone(), array.shape().clone())).collect();
    given.extend(inputs.iter().cloned());
    let shapes = infer_shapes(&imported.symbol, &given)?;
    let mut types: Vec<_> = arrays().map(|(name, array)| (name.clone(), array.dtype())).collect();
    for input in &imported.inputs {
        if let Some(element) = &input.element {
            types.push((input.name.clone(), element.dtype()?));
        }
    }
    infer_dtypes(&imported.symbol, &types)?;
    // Shapes that depend on data are known only when the graph runs.
    if imported.symbol.is_dynamic() {
        return Ok(());
    }
    let names = imported.symbol.list_arguments();
    let unknown: Vec<&str> =
        names.iter().zip(&shapes.args).filter(|(_, shape)| !shape.is_known()).map(|(name, _)| name.as_str()).collect();
    match unknown.is_empty() {
        true => Ok(()),
        false => Err(Error::value(format!(
            "the shapes of {} cannot be inferred from those of the inputs",
            unknown.join(", ")
        ))),
    }
}
