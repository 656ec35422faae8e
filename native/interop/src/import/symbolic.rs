//! Dimensions that are not known yet. Each has a number far below zero as its name, so that arrays of whole numbers can hold known
//! and unknown ones side by side, and moving the numbers about (slicing, joining, gathering) keeps track of them.

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_runtime::arrays::write_converted;
use ferromx_runtime::imperative::{self, Arrays};
use ferromx_runtime::symbol::OpCall;
use smallvec::SmallVec;

use crate::error::Result;

/// Dimensions, unknown ones by name.
pub type Dims = SmallVec<[i64; 6]>;

/// Numbers below are names.
const NAMES: i64 = i64::MIN / 2;

/// A dimension that is a function of others, and gets a name of its own.
pub const UNNAMED: i64 = i64::MIN;

/// The name with a number, from 1.
pub fn unknown(number: i64) -> i64 {
    i64::MIN + number
}

/// Whether the dimension has only a name.
pub fn is_unknown(dim: i64) -> bool {
    dim < NAMES
}

/// Whether some element is only a name.
pub fn has_unknown(array: &NDArray) -> bool {
    array.to_vec::<i64>().is_ok_and(|items| items.iter().any(|x| is_unknown(*x)))
}

/// The elements in another type.
pub fn converted(array: &NDArray, dtype: DType) -> Result<NDArray> {
    if array.dtype() == dtype {
        return Ok(array.clone());
    }
    let out = NDArray::empty(array.shape(), dtype, Context::default())?;
    write_converted(&out, array.to_vec::<i64>()?.into_iter())?;
    Ok(out)
}

/// Operators that move whole numbers without changing them.
const MOVES: &[&str] = &[
    "_copy",
    "_np_copy",
    "_np_reshape",
    "_npx_reshape",
    "Reshape",
    "_np_squeeze",
    "squeeze",
    "expand_dims",
    "take",
    "slice",
    "slice_axis",
    "_npi_concatenate",
    "Concat",
    "_npi_stack",
    "stack",
    "_split_v2",
    "_npi_flip",
    "Cast",
];

/// The result of an operator on whole numbers of which some are only names; nothing if the operator is not followed.
///
/// # Errors
/// Those of the operator.
pub fn follow(call: &OpCall, mut values: Vec<NDArray>) -> Result<Option<NDArray>> {
    let name = call.def.name;
    if name == "Cast" || name == "_copy" {
        return Ok(values.pop().filter(|a| a.dtype() == DType::I64));
    }
    if MOVES.contains(&name) {
        // Of `take` only the first input is moved; an index that is not known leads nowhere.
        if name == "take" && values.get(1).is_none_or(|i| i.dtype() == DType::I64 && has_unknown(i)) {
            return Ok(None);
        }
        if values.iter().take(if name == "take" { 1 } else { usize::MAX }).any(|a| a.dtype() != DType::I64) {
            return Ok(None);
        }
        let mut outs = Arrays::new();
        imperative::invoke(call, Some(Context::default()), &values, &mut outs, false)?;
        return Ok(outs.into_iter().next());
    }
    Ok(None)
}

/// Numbers that stand for unknown dimensions while a shape rule is tried; two sets, so that a coincidence in one shows in the other.
const SAMPLES: [[i64; 8]; 2] =
    [[1013, 1213, 1423, 1613, 1823, 2027, 2221, 2423], [3011, 3217, 3413, 3613, 3821, 4013, 4211, 4421]];

/// Operators whose result has the lengths that their parameters say, whatever the lengths of their inputs are.
const RESHAPES: &[&str] = &["_npx_reshape", "_np_reshape"];

/// The dimensions of outputs in terms of those of the inputs: a shape rule is run with sample numbers, and an unknown dimension that
/// comes out as the sample of an input's dimension is that dimension. `shapes` is what the rule says without samples, if anything.
pub fn probe(
    op: &str,
    ins: &[Dims],
    shapes: &[Shape],
    infer: impl Fn(Vec<Shape>) -> Option<Vec<Shape>>,
) -> Vec<Option<Dims>> {
    let mut names: Vec<i64> = ins.iter().flatten().copied().filter(|d| is_unknown(*d)).collect();
    names.sort_unstable();
    names.dedup();
    let nothing = || vec![None; shapes.len()];
    if names.is_empty() || names.len() > SAMPLES[0].len() || shapes.iter().all(Shape::is_known) {
        return nothing();
    }
    let sampled = |samples: &[i64; 8]| {
        let number = |d: &i64| names.binary_search(d).map_or(*d, |k| samples[k]);
        infer(ins.iter().map(|dims| Shape::new(&dims.iter().map(number).collect::<Dims>())).collect())
    };
    let (Some(first), Some(second)) = (sampled(&SAMPLES[0]), sampled(&SAMPLES[1])) else { return nothing() };
    let output = |o: usize| {
        let (a, b, shape) = (first.get(o)?, second.get(o)?, &shapes[o]);
        if !a.is_known() || a.ndim() != b.ndim() || (shape.ndim_is_known() && shape.ndim() != a.ndim()) {
            return None;
        }
        let dim = |k: usize| {
            let same = |i: &usize| SAMPLES[0][*i] == a.dim(k) && SAMPLES[1][*i] == b.dim(k);
            match (0..names.len()).find(same) {
                _ if shape.dim(k) >= 0 => shape.dim(k),
                Some(i) => names[i],
                None if RESHAPES.contains(&op) && a.dim(k) == b.dim(k) => a.dim(k),
                None => UNNAMED,
            }
        };
        Some((0..a.dims().len()).map(dim).collect())
    };
    (0..shapes.len()).map(output).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_recognised() {
        let (batch, length) = (unknown(1), unknown(2));
        let ins = [Dims::from_slice(&[batch, length, 8])];
        let transposed = |s: Vec<Shape>| Some(vec![Shape::new(&[s[0].dim(1), s[0].dim(0), 8])]);
        let out = probe("transpose", &ins, &[Shape::new(&[-1, -1, 8])], transposed);
        assert_eq!(out, [Some(Dims::from_slice(&[length, batch, 8]))]);
        let doubled = |s: Vec<Shape>| Some(vec![Shape::new(&[2 * s[0].dim(0)])]);
        assert_eq!(probe("repeat", &ins, &[Shape::unknown()], doubled), [Some(Dims::from_slice(&[UNNAMED]))]);
    }
}
