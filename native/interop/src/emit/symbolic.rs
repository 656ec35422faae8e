//! Propagation of symbolic dimensions: through operators on integer tensors, and through shape inference, which runs with sample lengths.

use std::collections::HashMap;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_ops::definitions::{
    ADD, BROADCAST_ADD, BROADCAST_MAXIMUM, BROADCAST_MINIMUM, BROADCAST_MUL, BROADCAST_SUB, EQUAL, GREATER,
    GREATER_EQUAL, LESS, LESS_EQUAL, MOD, MULTIPLY, NOT_EQUAL, SUBTRACT,
};
use ferromx_runtime::imperative::{self, Arrays};
use ferromx_runtime::symbol::OpCall;

use super::dimensions::{Dimensions, Dims, Function, UNKNOWN_DIM, is_symbolic};
use crate::error::Result;

/// True if an element is symbolic.
pub(super) fn has_symbolic(array: &NDArray) -> bool {
    array.to_vec::<i64>().is_ok_and(|items| items.iter().any(|x| is_symbolic(*x)))
}

/// Converts integers to another element type.
pub(super) fn convert(array: &NDArray, dtype: DType) -> Result<NDArray> {
    if array.dtype() == dtype {
        return Ok(array.clone());
    }
    let out = NDArray::empty(array.shape(), dtype, Context::default())?;
    out.copy_from_slice_as(&array.to_vec::<i64>()?)?;
    Ok(out)
}

/// Operators that move integers without changing their values.
const DATA_MOVEMENT: &[&str] = &[
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
    "_npi_broadcast_to",
    "tile",
    "_np_transpose",
];

/// A binary operator on integers; `None` if the result is not known.
type Combine = fn(&mut Dimensions, i64, i64) -> Option<i64>;

/// The result of a comparison, if it is the same for all lengths. `results` has the results for less, equal and greater.
fn compare(d: &Dimensions, a: i64, b: i64, results: [bool; 3]) -> Option<i64> {
    let [less, equal, greater] = results.map(i64::from);
    match (d.is_at_least(a, b), d.is_at_least(b, a)) {
        _ if a == b => Some(equal),
        _ if d.is_greater(a, b) => Some(greater),
        _ if d.is_greater(b, a) => Some(less),
        (true, _) if equal == greater => Some(greater),
        (_, true) if equal == less => Some(less),
        _ => None,
    }
}

/// Elementwise binary operators.
const ARITHMETIC: &[(&str, Combine)] = &[
    (ADD.name(), Dimensions::plus),
    (SUBTRACT.name(), Dimensions::minus),
    (MULTIPLY.name(), Dimensions::times),
    (BROADCAST_ADD.name(), Dimensions::plus),
    (BROADCAST_SUB.name(), Dimensions::minus),
    (BROADCAST_MUL.name(), Dimensions::times),
    (MOD.name(), Dimensions::remainder),
    (BROADCAST_MAXIMUM.name(), |d, a, b| d.min_or_max(Function::Max, a, b)),
    (BROADCAST_MINIMUM.name(), |d, a, b| d.min_or_max(Function::Min, a, b)),
    (EQUAL.name(), |d, a, b| compare(d, a, b, [false, true, false])),
    (NOT_EQUAL.name(), |d, a, b| compare(d, a, b, [true, false, true])),
    (LESS.name(), |d, a, b| compare(d, a, b, [true, false, false])),
    (LESS_EQUAL.name(), |d, a, b| compare(d, a, b, [true, true, false])),
    (GREATER.name(), |d, a, b| compare(d, a, b, [false, false, true])),
    (GREATER_EQUAL.name(), |d, a, b| compare(d, a, b, [false, true, true])),
];

/// The flat index into an array of shape `from` for a flat index into the broadcast shape `to`.
fn broadcast_index(index: usize, from: &[i64], to: &[i64]) -> usize {
    let (mut rest, mut source, mut stride) = (index, 0, 1);
    for (k, n) in to.iter().enumerate().rev() {
        let coordinate = rest % (*n).max(1) as usize;
        rest /= (*n).max(1) as usize;
        let Some(own) = (k + from.len()).checked_sub(to.len()).map(|i| from[i]) else { continue };
        source += if own == 1 { 0 } else { coordinate * stride };
        stride *= own.max(1) as usize;
    }
    source
}

/// The common broadcast shape of arrays.
fn broadcast_dims(values: &[NDArray]) -> Option<Vec<i64>> {
    let rank = values.iter().map(|v| v.shape().dims().len()).max()?;
    let mut dims = vec![1; rank];
    for value in values {
        let own = value.shape().dims();
        for (d, n) in dims[rank - own.len()..].iter_mut().zip(own) {
            match (*d, *n) {
                (a, b) if a == b || b == 1 => {}
                (1, b) => *d = b,
                _ => return None,
            }
        }
    }
    Some(dims)
}

/// Applies a function to the elements of arrays with broadcasting; `None` if a shape or a result is not known.
fn map_broadcast(values: &[NDArray], mut f: impl FnMut(&[i64]) -> Option<i64>) -> Result<Option<NDArray>> {
    let Some(dims) = broadcast_dims(values) else { return Ok(None) };
    let items = values.iter().map(NDArray::to_vec::<i64>).collect::<std::result::Result<Vec<_>, _>>()?;
    let mut results = Vec::new();
    for i in 0..dims.iter().product::<i64>() as usize {
        let operand = |(v, x): (&NDArray, &Vec<i64>)| x[broadcast_index(i, v.shape().dims(), &dims)];
        let Some(result) = f(&values.iter().zip(&items).map(operand).collect::<Vec<_>>()) else { return Ok(None) };
        results.push(result);
    }
    Ok(Some(NDArray::from_slice(&results, &dims)?))
}

/// Converts arrays to int64, which symbolic elements need; `None` if an element is not an integer.
fn to_integers(values: Vec<NDArray>) -> Result<Option<Vec<NDArray>>> {
    let mut ints = Vec::with_capacity(values.len());
    for value in values {
        if value.dtype().is_float() && value.to_vec_as::<f64>()?.iter().any(|x| x.fract() != 0.0 || x.abs() > 1e15) {
            return Ok(None);
        }
        ints.push(match value.dtype() {
            DType::I64 => value,
            _ => NDArray::from_slice(&value.to_vec_as::<i64>()?, value.shape().dims())?,
        });
    }
    Ok(Some(ints))
}

/// The results of an operator on arrays with symbolic elements, as int64; `None` if they are not known. `outs` are the inferred shapes and
/// the type of the first output.
///
/// # Errors
/// The operator's errors.
pub(super) fn propagate(
    dimensions: &mut Dimensions,
    call: &OpCall,
    values: Vec<NDArray>,
    outs: (&[Shape], Option<DType>),
) -> Result<Option<Vec<NDArray>>> {
    let name = call.def.name;
    let (shapes, dtype) = outs;
    let is_float = dtype.is_none_or(DType::is_float);
    let Some(mut ints) = to_integers(values)? else { return Ok(None) };
    let single = |array: Option<NDArray>| array.map(|a| vec![a]);
    if let Some((_, combine)) = ARITHMETIC.iter().find(|(op, _)| *op == name) {
        return Ok(single(map_broadcast(&ints, |x| combine(dimensions, *x.first()?, *x.get(1)?))?));
    }
    match name {
        // An inexact floating-point quotient is not an integer.
        "broadcast_div" | "_npi_true_divide" => {
            let quotient = if is_float { Dimensions::exact_quotient } else { Dimensions::floor_div };
            return Ok(single(map_broadcast(&ints, |x| quotient(dimensions, *x.first()?, *x.get(1)?))?));
        }
        "Cast" if dtype == Some(DType::Bool) && ints.iter().any(has_symbolic) => return Ok(None),
        "Cast" | "floor" | "ceil" | "_npi_around" => return Ok(single(ints.pop())),
        "negative" => return Ok(single(map_broadcast(&ints, |x| dimensions.minus(0, x[0]))?)),
        "_npi_where" => {
            return Ok(single(map_broadcast(&ints, |x| match x {
                [_, a, b] if a == b => Some(*a),
                [c, a, b] if !is_symbolic(*c) => Some(if *c != 0 { *a } else { *b }),
                _ => None,
            })?));
        }
        "prod" => {
            let product = dimensions.product(&ints[0].to_vec::<i64>()?);
            return match (product, shapes.first().map(Shape::dims)) {
                (Some(p), Some(dims)) if dims.iter().all(|d| *d == 1) => {
                    Ok(Some(vec![NDArray::from_slice(&[p], dims)?]))
                }
                _ => Ok(None),
            };
        }
        _ => {}
    }
    // The indices of `take` must be known.
    if !DATA_MOVEMENT.contains(&name) || (name == "take" && ints.get(1).is_none_or(has_symbolic)) {
        return Ok(None);
    }
    let mut moved = Arrays::new();
    imperative::invoke(call, Some(Context::default()), &ints, &mut moved)?;
    Ok(Some(moved.into_iter().collect()))
}

/// Several sets of sample lengths for up to eight unknown dimensions: lengths that happen to be equal in one set differ in another.
type Samples = [[i64; 8]; 3];

/// Primes as sample lengths of unknown dimensions.
const SAMPLES: Samples = [
    [1013, 1213, 1423, 1613, 1823, 2027, 2221, 2423],
    [3011, 3217, 3413, 3613, 3821, 4013, 4211, 4421],
    [5003, 5209, 5413, 5623, 5813, 6011, 6211, 6421],
];

/// Sample lengths for rules that divide: multiples of a number with many divisors.
const MULTIPLES: Samples = [
    [221760, 262080, 342720, 383040, 463680, 584640, 624960, 745920],
    [826560, 866880, 947520, 1068480, 1189440, 1229760, 1350720, 1431360],
    [1471680, 1592640, 1673280, 1794240, 1955520, 2036160, 2076480, 2157120],
];

/// Sample lengths for rules that would overflow with larger ones.
const SMALL: Samples =
    [[29, 31, 37, 41, 43, 47, 53, 59], [61, 67, 71, 73, 79, 83, 89, 97], [101, 103, 107, 109, 113, 127, 131, 137]];

/// Sample lengths for rules that would fail with longer ones, such as a sum with a table of 64 positions.
const TINY: Samples = [[5, 7, 9, 11, 13, 15, 17, 19], [6, 10, 8, 14, 12, 20, 16, 22], [23, 27, 25, 21, 29, 26, 30, 28]];

/// How far a length is varied to find its rounding, which is also the largest divisor that can be found.
const MAX_STRIDE: i64 = 32;

/// Operators whose output lengths come from parameters: a length that is equal in all samples is a constant.
const RESHAPES: &[&str] = &["_npx_reshape", "_np_reshape", "_onnx_Reshape", "_onnx_Full", "_onnx_Expand"];

/// Operators that clip lengths to those of an axis.
const SLICES: &[&str] = &["slice", "slice_axis", "slice_like", "_onnx_Slice", "Crop"];

/// Shape inference of an operator for known input shapes.
type Infer<'a> = &'a dyn Fn(Vec<Shape>) -> Option<Vec<Shape>>;

/// Shape inference of an operator and its results for sample lengths.
struct Probe<'a> {
    dimensions: &'a mut Dimensions,
    ins: &'a [Dims],
    atoms: Vec<i64>,
    infer: Infer<'a>,
    /// Sample lengths of the atoms, with the output shapes for them.
    samples: Vec<(HashMap<i64, i64>, Vec<Shape>)>,
}

/// The dimensions of outputs as expressions of those of the inputs. Shape inference runs with sample lengths; an output length that equals
/// the length of an input dimension in all samples is that dimension. `shapes` is the result of inference without samples; it may be
/// partly unknown.
pub(super) fn probe(
    dimensions: &mut Dimensions,
    op: &str,
    ins: &[Dims],
    shapes: &[Shape],
    infer: impl Fn(Vec<Shape>) -> Option<Vec<Shape>>,
) -> Vec<Option<Dims>> {
    let mut atoms = Vec::new();
    ins.iter().flatten().for_each(|d| dimensions.atoms(*d, &mut atoms));
    let nothing = || vec![None; shapes.len()];
    if atoms.is_empty() || atoms.len() > SAMPLES[0].len() || shapes.iter().all(Shape::is_known) {
        return nothing();
    }
    let mut probe = Probe { dimensions, ins, atoms, infer: &infer, samples: Vec::new() };
    if ![SAMPLES, MULTIPLES, SMALL, TINY].iter().any(|sets| probe.sample_all(sets)) {
        return nothing();
    }
    (0..shapes.len()).map(|o| probe.output(op, o, &shapes[o])).collect()
}

impl Probe<'_> {
    /// The output shapes for these lengths of the atoms.
    fn shapes(&self, atoms: &HashMap<i64, i64>) -> Option<Vec<Shape>> {
        let shape = |dims: &Dims| {
            let dims: Option<Dims> =
                dims.iter().map(|d| self.dimensions.sample(*d, atoms).filter(|n| *n >= 0)).collect();
            dims.map(|dims| Shape::new(&dims))
        };
        (self.infer)(self.ins.iter().map(shape).collect::<Option<_>>()?)
    }

    /// Runs inference for all sets of lengths; false if it fails for one of them.
    fn sample_all(&mut self, sets: &Samples) -> bool {
        self.samples.clear();
        for set in sets {
            let atoms: HashMap<i64, i64> = self.atoms.iter().copied().zip(*set).collect();
            let Some(shapes) = self.shapes(&atoms) else { return false };
            self.samples.push((atoms, shapes));
        }
        true
    }

    /// The dimensions of output `o`; `None` if its rank is not the same for all samples.
    fn output(&mut self, op: &str, o: usize, shape: &Shape) -> Option<Dims> {
        let sampled: Vec<Shape> =
            self.samples.iter().map(|(_, shapes)| shapes.get(o).cloned()).collect::<Option<_>>()?;
        let rank = sampled[0].ndim()?;
        let has_rank = |s: &Shape| s.is_known() && s.ndim() == Some(rank);
        if !sampled.iter().all(has_rank) || (shape.ndim_is_known() && shape.ndim() != Some(rank)) {
            return None;
        }
        let dim = |k: usize| {
            let lengths: Vec<i64> = sampled.iter().map(|s| s.dim(k)).collect();
            let is_constant = lengths.iter().all(|n| *n == lengths[0]);
            match self.find(&lengths) {
                _ if shape.dim(k) >= 0 => shape.dim(k),
                Some(dim) => dim,
                None if is_constant && (RESHAPES.contains(&op) || keeps_dim(op, self.ins, k, lengths[0])) => lengths[0],
                None if is_constant => UNKNOWN_DIM,
                None => self.derived(o, k, &lengths).unwrap_or(UNKNOWN_DIM),
            }
        };
        Some((0..rank).map(dim).collect())
    }

    /// The symbolic dimensions of the inputs and their atoms.
    fn candidates(&self) -> Vec<i64> {
        let mut dims: Vec<i64> = self.ins.iter().flatten().copied().filter(|d| is_symbolic(*d)).collect();
        dims.extend(&self.atoms);
        dims.sort_unstable();
        dims.dedup();
        dims
    }

    /// The lengths of a dimension in all samples.
    fn lengths(&self, dim: i64) -> Option<Vec<i64>> {
        self.samples.iter().map(|(atoms, _)| self.dimensions.sample(dim, atoms)).collect()
    }

    /// The input dimension that has these lengths in the samples.
    fn find(&self, lengths: &[i64]) -> Option<i64> {
        self.candidates().into_iter().find(|dim| self.lengths(*dim).is_some_and(|own| own == lengths))
    }

    /// A dimension computed from those of the inputs: a product, a sum, or a floor quotient.
    fn derived(&mut self, o: usize, k: usize, lengths: &[i64]) -> Option<i64> {
        let has_lengths = |probe: &Self, dim: &i64| probe.lengths(*dim).is_some_and(|own| own == lengths);
        let product = self.product(lengths).filter(|dim| has_lengths(self, dim));
        let sum = product.or_else(|| self.sum(o, k).filter(|dim| has_lengths(self, dim)));
        sum.or_else(|| self.quotient(o, k).filter(|dim| has_lengths(self, dim)))
    }

    /// The product of an input dimension and another dimension or a constant, or its quotient by a constant.
    fn product(&mut self, lengths: &[i64]) -> Option<i64> {
        for dim in self.candidates() {
            let own = self.lengths(dim)?;
            if own.iter().zip(lengths).all(|(n, x)| *n != 0 && x % n == 0) {
                let rest: Vec<i64> = own.iter().zip(lengths).map(|(n, x)| x / n).collect();
                let other = if rest.iter().all(|r| *r == rest[0]) { Some(rest[0]) } else { self.find(&rest) };
                if let Some(other) = other {
                    return self.dimensions.times(dim, other);
                }
            }
            if own.iter().zip(lengths).all(|(n, x)| *x != 0 && n % x == 0 && n / x == own[0] / lengths[0]) {
                return self.dimensions.floor_div(dim, own[0] / lengths[0]);
            }
        }
        None
    }

    /// The length of axis `k` of output `o` for the first sample with these increments of its atoms.
    fn length_with(&self, o: usize, k: usize, increments: &[(i64, i64)]) -> Option<i64> {
        let mut atoms = self.samples.first()?.0.clone();
        increments.iter().for_each(|(atom, increment)| *atoms.entry(*atom).or_default() += increment);
        self.shapes(&atoms)?.get(o).filter(|s| s.ndim().is_some_and(|n| k < n)).map(|s| s.dim(k))
    }

    /// A linear combination of atoms plus a constant. The slopes are the differences for increments of 1.
    fn sum(&mut self, o: usize, k: usize) -> Option<i64> {
        let length = self.length_with(o, k, &[])?;
        let mut constant = length;
        let (atoms, start) = (self.atoms.clone(), self.samples.first()?.0.clone());
        let mut dim = 0;
        for atom in atoms {
            let slope = self.length_with(o, k, &[(atom, 1)])? - length;
            if self.length_with(o, k, &[(atom, 2)])? - length != 2 * slope {
                return None;
            }
            constant = constant.checked_sub(start.get(&atom)?.checked_mul(slope)?)?;
            let term = self.dimensions.times(atom, slope)?;
            dim = self.dimensions.plus(dim, term)?;
        }
        self.dimensions.plus(dim, constant)
    }

    /// The length of axis `k` of output `o` for the first sample, with `length` instead of the sample of dimension `dim`.
    fn length_for(&self, o: usize, k: usize, dim: i64, length: i64) -> Option<i64> {
        let atoms = &self.samples.first()?.0;
        let other = |d: &i64| if *d == dim { Some(length) } else { self.dimensions.sample(*d, atoms) };
        let shape = |dims: &Dims| dims.iter().map(other).collect::<Option<Dims>>().map(|dims| Shape::new(&dims));
        let shapes = (self.infer)(self.ins.iter().map(shape).collect::<Option<_>>()?)?;
        shapes.get(o).filter(|s| s.ndim().is_some_and(|n| k < n)).map(|s| s.dim(k))
    }

    /// A floor quotient `(dim + shift) / stride` that equals the length of axis `k`, such as the output length of sliding windows.
    fn quotient(&mut self, o: usize, k: usize) -> Option<i64> {
        for dim in self.candidates() {
            let start = self.dimensions.sample(dim, &self.samples.first()?.0)?;
            let lengths: Option<Vec<i64>> =
                (0..2 * MAX_STRIDE).map(|increment| self.length_for(o, k, dim, start + increment)).collect();
            let lengths = lengths?;
            let steps: Vec<i64> =
                (1..lengths.len()).filter(|i| lengths[*i] != lengths[i - 1]).map(|i| i as i64).collect();
            let [first, second, ..] = steps.as_slice() else { continue };
            let stride = second - first;
            // The division is exact at the increment that changes the quotient.
            let shift = lengths[*first as usize].checked_mul(stride)?.checked_sub(start + first)?;
            let sum = self.dimensions.plus(dim, shift)?;
            return self.dimensions.floor_div(sum, stride);
        }
        None
    }
}

/// True if axis `k` may have the known length `dim` because an input has it. A slice may have it because an unknown length was clipped.
fn keeps_dim(op: &str, ins: &[Dims], k: usize, dim: i64) -> bool {
    !SLICES.contains(&op) && ins.iter().any(|dims| dims.get(k) == Some(&dim))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probed(d: &mut Dimensions, ins: &[i64], shape: &[i64], f: fn(&[i64]) -> Vec<i64>) -> Option<Dims> {
        let infer = |s: Vec<Shape>| Some(vec![Shape::new(&f(s[0].dims()))]);
        probe(d, "_npx_reshape", &[Dims::from_slice(ins)], &[Shape::new(shape)], infer).remove(0)
    }

    #[test]
    fn output_dimensions_are_derived_from_samples() {
        let mut d = Dimensions::default();
        let (batch, length) = (d.new_atom(), d.new_atom());
        let ins = [batch, length, 8];
        let dims_of = |dims: &[i64]| Some(Dims::from_slice(dims));
        assert_eq!(probed(&mut d, &ins, &[-1, -1, 8], |s| vec![s[1], s[0], 8]), dims_of(&[length, batch, 8]));
        let (double, product) = (d.times(2, batch).unwrap(), d.times(length, batch).unwrap());
        assert_eq!(probed(&mut d, &ins, &[-1], |s| vec![2 * s[0]]), dims_of(&[double]));
        assert_eq!(probed(&mut d, &ins, &[-1, 8], |s| vec![s[0] * s[1], 8]), dims_of(&[product, 8]));
        let sum = d.plus(batch, length).and_then(|x| d.plus(x, 1)).unwrap();
        assert_eq!(probed(&mut d, &ins, &[-1], |s| vec![s[0] + s[1] + 1]), dims_of(&[sum]));
        let strided = d.plus(length, -1).and_then(|x| d.floor_div(x, 2)).and_then(|x| d.plus(x, 1)).unwrap();
        assert_eq!(probed(&mut d, &ins, &[-1], |s| vec![(s[1] - 1) / 2 + 1]), dims_of(&[strided]));
        let third = d.floor_div(length, 3).unwrap();
        assert_eq!(probed(&mut d, &ins, &[-1], |s| vec![s[1] / 3]), dims_of(&[third]));
        assert_eq!(probed(&mut d, &ins, &[-1], |s| vec![s[1] * s[1] / 7]), dims_of(&[UNKNOWN_DIM]));
    }

    #[test]
    fn functions_are_applied_with_broadcasting() {
        let (a, b) = (NDArray::from_slice(&[1i64, 2], &[2, 1]), NDArray::from_slice(&[10i64, 20, 30], &[3]));
        let sum = map_broadcast(&[a.unwrap(), b.unwrap()], |x| Some(x[0] + x[1])).unwrap().unwrap();
        assert_eq!((sum.to_vec::<i64>().unwrap(), sum.shape().dims()), (vec![11, 21, 31, 12, 22, 32], &[2, 3][..]));
    }
}
