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
/// Maximum number of dynamic dimensions, and of known lengths, of which sums are tried.
const MAX_SUMMED: usize = 5;
/// Known lengths below this may be terms of a sum: the number of tokens of a step, for example.
const MAX_TERM: i64 = 65;

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
    let num_dims = shapes(imported, options, &Sample { lengths: &[1], shares_states: true })?.1;
    let sums = sums(num_dims, &known_lengths(imported)).into_iter().map(|lengths| (lengths, true));
    for (lengths, shares_states) in different.chain(equal).map(|lengths| (lengths, false)).chain(sums) {
        let (given, num_dims) = shapes(imported, options, &Sample { lengths: &lengths, shares_states })?;
        let Err(e) = bound(imported, &given) else { return None };
        let inputs: Vec<_> = given.iter().map(|(name, shape)| format!("{name}={shape}")).collect();
        first.get_or_insert((inputs.join(", "), e));
        if num_dims == 0 {
            break;
        }
    }
    let (inputs, e) = first?;
    let with = if inputs.is_empty() { String::new() } else { format!(" with {inputs}") };
    let message = format!("it can be mapped, but the resulting graph cannot be bound{with}: {e}");
    Some(Problem { location: "the graph".into(), message, needs_value: false })
}

/// Lengths of `num_dims` dynamic dimensions of which one is the sum of two others, or of another and a known length, as the length of a
/// mask is that of the inputs and the states.
fn sums(num_dims: usize, known: &[i64]) -> Vec<Vec<i64>> {
    if num_dims > MAX_SUMMED {
        return Vec::new();
    }
    let base: Vec<i64> = DIFFERENT[0].iter().copied().cycle().take(num_dims).collect();
    let mut samples = Vec::new();
    for (total, a) in (0..num_dims).flat_map(|total| (0..num_dims).map(move |a| (total, a))).filter(|(t, a)| t != a) {
        let others = (0..a).filter(|b| *b != total).map(|b| base[b]);
        for term in others.chain(known.iter().copied()) {
            let mut lengths = base.clone();
            lengths[total] = base[a] + term;
            samples.push(lengths);
        }
    }
    samples
}

/// The different known lengths of the inputs, up to a few.
fn known_lengths(imported: &Imported) -> Vec<i64> {
    let dims = imported.inputs.iter().filter_map(|input| input.dims.as_ref()).flatten();
    let known = dims.filter_map(|dim| if let Dim::Known(n) = dim { i64::try_from(*n).ok() } else { None });
    let mut lengths: Vec<i64> = known.filter(|n| (1..MAX_TERM).contains(n)).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths.truncate(MAX_SUMMED);
    lengths
}

/// How to choose the lengths of dynamic dimensions.
struct Sample<'a> {
    /// The lengths of the dimensions in the order of the inputs; from the start again if there are more dimensions.
    lengths: &'a [i64],
    /// Whether an axis of all inputs with the same number of axes above 2 has the same length, as in the states of the layers.
    shares_states: bool,
}

/// The shapes of the inputs with lengths for dynamic dimensions, and the number of different ones; `None` if a rank is unknown.
fn shapes(imported: &Imported, options: &ImportOptions, sample: &Sample<'_>) -> Option<(Vec<(String, Shape)>, usize)> {
    let mut chosen: HashMap<String, i64> = HashMap::new();
    let mut states: HashMap<(usize, usize), i64> = HashMap::new();
    let mut given = Vec::new();
    for input in &imported.inputs {
        let fixed = options.shapes.get(&input.name);
        let mut dims = Vec::new();
        let declared = input.dims.as_ref()?;
        for (k, dim) in declared.iter().enumerate() {
            let fixed = fixed.and_then(|dims| dims.get(k)).copied().filter(|d| *d >= 0);
            dims.push(match (dim, fixed) {
                (_, Some(length)) => length,
                (Dim::Known(n), None) => i64::try_from(*n).ok()?,
                (other, None) => {
                    let name = match other {
                        Dim::Named(name) => name.clone(),
                        _ => format!("{}.{k}", input.name),
                    };
                    let state = Some((declared.len(), k)).filter(|_| sample.shares_states && declared.len() > 2);
                    match state.and_then(|state| states.get(&state)) {
                        Some(length) => *length,
                        None => {
                            let next = sample.lengths[chosen.len() % sample.lengths.len()];
                            let length = *chosen.entry(name).or_insert(next);
                            states.extend(state.map(|state| (state, length)));
                            length
                        }
                    }
                }
            });
        }
        given.push((input.name.clone(), Shape::new(&dims)));
    }
    Some((given, chosen.len()))
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
