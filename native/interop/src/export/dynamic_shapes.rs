//! Shapes of a graph with dynamic inputs. Sample lengths determine the dimensions that inference leaves unknown.

use std::collections::HashMap;

use ferromx_core::shape::Shape;
use ferromx_runtime::symbol::Symbol;
use ferromx_runtime::symbol_infer::infer_shapes;

use crate::error::Result;
use crate::mxnet;

/// Pairs of sets of sample lengths for unknown dimensions. A dimension that is equal for both sets of a pair does not depend on them. Some
/// graphs need lengths with many divisors, others need short ones.
const SAMPLES: [[[i64; 8]; 2]; 3] = [
    [[5, 7, 11, 13, 17, 19, 23, 29], [31, 37, 41, 43, 47, 53, 59, 61]],
    [[64, 96, 160, 224, 320, 352, 416, 480], [128, 192, 256, 288, 384, 448, 512, 544]],
    [[1013, 1213, 1423, 1613, 1823, 2027, 2221, 2423], [3011, 3217, 3413, 3613, 3821, 4013, 4211, 4421]],
];

/// The shapes of all outputs of a graph, with -1 for dimensions that depend on unknown dimensions of the inputs.
///
/// # Errors
/// Errors of inference.
pub(super) fn infer(symbol: &Symbol, given: Vec<(String, Shape)>) -> Result<Vec<Shape>> {
    let plain = infer_shapes(symbol, &given).map(|inferred| inferred.outputs);
    if plain.as_ref().is_ok_and(|shapes| shapes.iter().all(Shape::is_known)) {
        return Ok(plain?);
    }
    let inputs = dynamic_inputs(symbol, given);
    for [first, second] in &SAMPLES {
        let (Some(a), Some(b)) = (sampled(symbol, &inputs, first), sampled(symbol, &inputs, second)) else { continue };
        return Ok(a.iter().zip(&b).map(|(a, b)| common(a, b)).collect());
    }
    Ok(plain?)
}

/// The dimensions that are equal in both shapes; the others are -1.
fn common(a: &Shape, b: &Shape) -> Shape {
    match a.ndim_is_known() && a.ndim() == b.ndim() {
        true => {
            Shape::new(&a.dims().iter().zip(b.dims()).map(|(a, b)| if a == b { *a } else { -1 }).collect::<Vec<_>>())
        }
        false => Shape::unknown(),
    }
}

/// An input with names for its unknown dimensions; equal names are equal lengths.
struct Input {
    name: String,
    shape: Shape,
    names: Vec<String>,
}

/// The inputs with a known rank, given or declared by the variable.
fn dynamic_inputs(symbol: &Symbol, given: Vec<(String, Shape)>) -> Vec<Input> {
    let mut inputs: Vec<Input> = Vec::new();
    let mut given: HashMap<String, Shape> = given.into_iter().collect();
    for node in symbol.nodes().iter().filter(|n| n.is_variable()) {
        let attrs = node.attrs.read();
        let declared = || {
            let legacy = |shape: Shape| {
                Shape::new(&shape.dims().iter().map(|d| if *d == 0 { -1 } else { *d }).collect::<Vec<_>>())
            };
            let numpy = attrs.get("__np_shape__").and_then(|text| text.parse::<Shape>().ok());
            numpy.or_else(|| attrs.get("__shape__").and_then(|text| text.parse().ok()).map(legacy))
        };
        let Some(shape) = given.remove(node.name.as_str()).or_else(declared).filter(Shape::ndim_is_known) else {
            continue;
        };
        let name =
            |k: usize| attrs.get(&mxnet::dim_name_key(k)).cloned().unwrap_or_else(|| format!("{}.{k}", node.name));
        let names = (0..shape.dims().len()).map(name).collect();
        inputs.push(Input { name: node.name.to_string(), shape, names });
    }
    inputs
}

/// The shapes of all outputs with a sample length for each unknown dimension of the inputs; `None` if one remains unknown.
fn sampled(symbol: &Symbol, inputs: &[Input], lengths: &[i64; 8]) -> Option<Vec<Shape>> {
    let mut known: HashMap<&str, i64> = HashMap::new();
    let mut shapes = Vec::new();
    for input in inputs {
        let mut dims = input.shape.dims().to_vec();
        for (d, name) in dims.iter_mut().zip(&input.names).filter(|(d, _)| **d < 0) {
            let next = lengths.get(known.len()).copied();
            *d = match known.get(name.as_str()) {
                Some(length) => *length,
                None => next?,
            };
            known.insert(name, *d);
        }
        shapes.push((input.name.clone(), Shape::new(&dims)));
    }
    let outputs = infer_shapes(symbol, &shapes).ok()?.outputs;
    outputs.iter().all(Shape::is_known).then_some(outputs)
}
