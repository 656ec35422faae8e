//! Propagation of symbolic dimensions: through operators on integers, and through shape rules, which are evaluated for sample lengths.

use std::collections::HashMap;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_ops::definitions::{
    ADD, BROADCAST_ADD, BROADCAST_MAXIMUM, BROADCAST_MINIMUM, BROADCAST_MUL, BROADCAST_SUB, EQUAL, GREATER,
    GREATER_EQUAL, LESS, LESS_EQUAL, MOD, MULTIPLY, NOT_EQUAL, SUBTRACT,
};
use ferromx_runtime::arrays::write_converted;
use ferromx_runtime::imperative::{self, Arrays};
use ferromx_runtime::symbol::OpCall;

use super::dimensions::{Dimensions, Dims, Function, UNNAMED, is_unknown};
use crate::error::Result;

/// True if an element is symbolic.
pub(super) fn has_unknown(array: &NDArray) -> bool {
    array.to_vec::<i64>().is_ok_and(|items| items.iter().any(|x| is_unknown(*x)))
}

/// The elements converted to another type.
pub(super) fn converted(array: &NDArray, dtype: DType) -> Result<NDArray> {
    if array.dtype() == dtype {
        return Ok(array.clone());
    }
    let out = NDArray::empty(array.shape(), dtype, Context::default())?;
    write_converted(&out, array.to_vec::<i64>()?.into_iter())?;
    Ok(out)
}

/// Operators that move integers without changing their values.
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
    "_npi_broadcast_to",
    "tile",
    "_np_transpose",
];

/// A combination of two integers; `None` if the result is not known.
type Combine = fn(&mut Dimensions, i64, i64) -> Option<i64>;

/// The order of two integers, if it is the same for all lengths.
fn compared(d: &Dimensions, a: i64, b: i64, is_wanted: [bool; 3]) -> Option<i64> {
    let [less, equal, above] = is_wanted.map(i64::from);
    match (d.is_at_least(a, b), d.is_at_least(b, a)) {
        _ if a == b => Some(equal),
        _ if d.is_above(a, b) => Some(above),
        _ if d.is_above(b, a) => Some(less),
        (true, _) if equal == above => Some(above),
        (_, true) if equal == less => Some(less),
        _ => None,
    }
}

/// Operators that combine integers.
const COMBINES: &[(&str, Combine)] = &[
    (ADD.name(), Dimensions::plus),
    (SUBTRACT.name(), Dimensions::minus),
    (MULTIPLY.name(), Dimensions::times),
    (BROADCAST_ADD.name(), Dimensions::plus),
    (BROADCAST_SUB.name(), Dimensions::minus),
    (BROADCAST_MUL.name(), Dimensions::times),
    (MOD.name(), Dimensions::remainder),
    (BROADCAST_MAXIMUM.name(), |d, a, b| d.extreme(Function::Most, a, b)),
    (BROADCAST_MINIMUM.name(), |d, a, b| d.extreme(Function::Least, a, b)),
    (EQUAL.name(), |d, a, b| compared(d, a, b, [false, true, false])),
    (NOT_EQUAL.name(), |d, a, b| compared(d, a, b, [true, false, true])),
    (LESS.name(), |d, a, b| compared(d, a, b, [true, false, false])),
    (LESS_EQUAL.name(), |d, a, b| compared(d, a, b, [true, true, false])),
    (GREATER.name(), |d, a, b| compared(d, a, b, [false, false, true])),
    (GREATER_EQUAL.name(), |d, a, b| compared(d, a, b, [false, true, true])),
];

/// The element of a broadcast array at an index of the result.
fn broadcast_index(index: usize, from: &[i64], to: &[i64]) -> usize {
    let (mut rest, mut at, mut stride) = (index, 0, 1);
    for (k, n) in to.iter().enumerate().rev() {
        let coordinate = rest % (*n).max(1) as usize;
        rest /= (*n).max(1) as usize;
        let Some(own) = (k + from.len()).checked_sub(to.len()).map(|i| from[i]) else { continue };
        at += if own == 1 { 0 } else { coordinate * stride };
        stride *= own.max(1) as usize;
    }
    at
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

/// The elementwise combination of two arrays.
fn each(values: &[NDArray], mut f: impl FnMut(&[i64]) -> Option<i64>) -> Result<Option<NDArray>> {
    let Some(dims) = broadcast_dims(values) else { return Ok(None) };
    let items = values.iter().map(NDArray::to_vec::<i64>).collect::<std::result::Result<Vec<_>, _>>()?;
    let mut made = Vec::new();
    for i in 0..dims.iter().product::<i64>() as usize {
        let at = |(v, x): (&NDArray, &Vec<i64>)| x[broadcast_index(i, v.shape().dims(), &dims)];
        let Some(element) = f(&values.iter().zip(&items).map(at).collect::<Vec<_>>()) else { return Ok(None) };
        made.push(element);
    }
    Ok(Some(NDArray::from_slice(&made, &dims)?))
}

/// The result of an operator on symbolic integers; `None` if the operator is not supported.
///
/// # Errors
/// Those of the operator.
pub(super) fn follow(
    dimensions: &mut Dimensions,
    call: &OpCall,
    values: Vec<NDArray>,
    outs: (&[Shape], Option<DType>),
) -> Result<Option<Vec<NDArray>>> {
    let name = call.def.name;
    let (shapes, dtype) = outs;
    let is_float = dtype.is_none_or(DType::is_float);
    // Booleans and integers of other types are int64 here.
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
    let single = |array: Option<NDArray>| array.map(|a| vec![a]);
    if let Some((_, combine)) = COMBINES.iter().find(|(op, _)| *op == name) {
        return Ok(single(each(&ints, |x| combine(dimensions, *x.first()?, *x.get(1)?))?));
    }
    match name {
        // An inexact floating-point quotient is not an integer.
        "broadcast_div" | "_npi_true_divide" => {
            let quotient = if is_float { Dimensions::exact_quotient } else { Dimensions::over };
            return Ok(single(each(&ints, |x| quotient(dimensions, *x.first()?, *x.get(1)?))?));
        }
        "Cast" if dtype == Some(DType::Bool) && ints.iter().any(has_unknown) => return Ok(None),
        "Cast" | "floor" | "ceil" | "_npi_around" => return Ok(single(ints.pop())),
        "negative" => return Ok(single(each(&ints, |x| dimensions.minus(0, x[0]))?)),
        "_npi_where" => {
            return Ok(single(each(&ints, |x| match x {
                [_, a, b] if a == b => Some(*a),
                [c, a, b] if !is_unknown(*c) => Some(if *c != 0 { *a } else { *b }),
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
    // `take` moves its first input only; an unknown index gives no result.
    if !MOVES.contains(&name) || (name == "take" && ints.get(1).is_none_or(has_unknown)) {
        return Ok(None);
    }
    let mut moved = Arrays::new();
    imperative::invoke(call, Some(Context::default()), &ints, &mut moved, false)?;
    Ok(Some(moved.into_iter().collect()))
}

/// Sample lengths for eight unknown dimensions, in several sets, so that a coincidence in one set has no effect.
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

/// Range in which a length is varied to find its rounding, and the largest divisor that can be found.
const MAX_STRIDE: i64 = 32;

/// Operators whose parameters alone determine the lengths of the result.
const RESHAPES: &[&str] = &["_npx_reshape", "_np_reshape", "_onnx_Reshape", "_onnx_Full", "_onnx_Expand"];

/// Evaluates a shape rule for known shapes.
type Infer<'a> = &'a dyn Fn(Vec<Shape>) -> Option<Vec<Shape>>;

/// A shape rule with its samples.
struct Probe<'a> {
    dimensions: &'a mut Dimensions,
    ins: &'a [Dims],
    atoms: Vec<i64>,
    infer: Infer<'a>,
    /// Sample lengths of the atoms and the resulting shapes.
    tried: Vec<(HashMap<i64, i64>, Vec<Shape>)>,
}

/// The dimensions of outputs as expressions of those of the inputs. The shape rule runs with sample lengths; an output length that equals
/// an input's sample in all sets is that dimension. `shapes` is the result of the rule without samples, if it has one.
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
    let mut probe = Probe { dimensions, ins, atoms, infer: &infer, tried: Vec::new() };
    if !probe.try_all(&SAMPLES) && !probe.try_all(&MULTIPLES) && !probe.try_all(&SMALL) {
        return nothing();
    }
    (0..shapes.len()).map(|o| probe.output(op, o, &shapes[o])).collect()
}

impl Probe<'_> {
    fn shapes(&self, atoms: &HashMap<i64, i64>) -> Option<Vec<Shape>> {
        let shape = |dims: &Dims| {
            let dims: Option<Dims> =
                dims.iter().map(|d| self.dimensions.sample(*d, atoms).filter(|n| *n >= 0)).collect();
            dims.map(|dims| Shape::new(&dims))
        };
        (self.infer)(self.ins.iter().map(shape).collect::<Option<_>>()?)
    }

    fn try_all(&mut self, sets: &Samples) -> bool {
        self.tried.clear();
        for set in sets {
            let atoms: HashMap<i64, i64> = self.atoms.iter().copied().zip(*set).collect();
            let Some(shapes) = self.shapes(&atoms) else { return false };
            self.tried.push((atoms, shapes));
        }
        true
    }

    fn output(&mut self, op: &str, o: usize, shape: &Shape) -> Option<Dims> {
        let made: Vec<Shape> = self.tried.iter().map(|(_, shapes)| shapes.get(o).cloned()).collect::<Option<_>>()?;
        let rank = made[0].ndim()?;
        let fits = |s: &Shape| s.is_known() && s.ndim() == Some(rank);
        if !made.iter().all(fits) || (shape.ndim_is_known() && shape.ndim() != Some(rank)) {
            return None;
        }
        let dim = |k: usize| {
            let samples: Vec<i64> = made.iter().map(|s| s.dim(k)).collect();
            let is_constant = samples.iter().all(|n| *n == samples[0]);
            match self.named(&samples) {
                _ if shape.dim(k) >= 0 => shape.dim(k),
                Some(name) => name,
                None if is_constant && (RESHAPES.contains(&op) || passed_on(op, self.ins, k, samples[0])) => samples[0],
                None if is_constant => UNNAMED,
                None => self.calculated(o, k, &samples).unwrap_or(UNNAMED),
            }
        };
        Some((0..rank).map(dim).collect())
    }

    /// The unknown dimensions of the inputs and their atoms.
    fn names(&self) -> Vec<i64> {
        let mut names: Vec<i64> = self.ins.iter().flatten().copied().filter(|d| is_unknown(*d)).collect();
        names.extend(&self.atoms);
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The values of a dimension in all samples.
    fn samples_of(&self, name: i64) -> Option<Vec<i64>> {
        self.tried.iter().map(|(atoms, _)| self.dimensions.sample(name, atoms)).collect()
    }

    /// The input dimension with these values in the samples.
    fn named(&self, samples: &[i64]) -> Option<i64> {
        self.names().into_iter().find(|name| self.samples_of(*name).is_some_and(|s| s == samples))
    }

    /// A dimension computed from others: a product, a sum, or a floor quotient.
    fn calculated(&mut self, o: usize, k: usize, samples: &[i64]) -> Option<i64> {
        let found = self.product(samples).or_else(|| self.sum(o, k)).or_else(|| self.quotient(o, k));
        found.filter(|name| self.samples_of(*name).is_some_and(|s| s == samples))
    }

    /// A product of two unknown dimensions, a multiple of one, or a quotient by a number.
    fn product(&mut self, samples: &[i64]) -> Option<i64> {
        let names = self.names();
        for name in &names {
            let own = self.samples_of(*name)?;
            if own.iter().zip(samples).all(|(n, x)| *n != 0 && x % n == 0) {
                let rest: Vec<i64> = own.iter().zip(samples).map(|(n, x)| x / n).collect();
                let other = if rest.iter().all(|r| *r == rest[0]) { Some(rest[0]) } else { self.named(&rest) };
                if let Some(other) = other {
                    return self.dimensions.times(*name, other);
                }
            }
            if own.iter().zip(samples).all(|(n, x)| *x != 0 && n % x == 0 && n / x == own[0] / samples[0]) {
                return self.dimensions.over(*name, own[0] / samples[0]);
            }
        }
        None
    }

    /// An output dimension if these atoms are longer than in the first sample.
    fn varied(&self, o: usize, k: usize, longer: &[(i64, i64)]) -> Option<i64> {
        let mut atoms = self.tried.first()?.0.clone();
        longer.iter().for_each(|(atom, by)| *atoms.entry(*atom).or_default() += by);
        self.shapes(&atoms)?.get(o).filter(|s| s.ndim().is_some_and(|n| k < n)).map(|s| s.dim(k))
    }

    /// A linear combination of atoms plus a constant.
    fn sum(&mut self, o: usize, k: usize) -> Option<i64> {
        let first = self.varied(o, k, &[])?;
        let mut sum = first;
        let (atoms, start) = (self.atoms.clone(), self.tried.first()?.0.clone());
        let mut dim = 0;
        for atom in atoms {
            let (one, two) = (self.varied(o, k, &[(atom, 1)])? - first, self.varied(o, k, &[(atom, 2)])? - first);
            if two != 2 * one {
                return None;
            }
            sum = sum.checked_sub(start.get(&atom)?.checked_mul(one)?)?;
            let term = self.dimensions.times(atom, one)?;
            dim = self.dimensions.plus(dim, term)?;
        }
        self.dimensions.plus(dim, sum)
    }

    /// A floor quotient `(atom + shift) / stride`, the length that windows give.
    fn quotient(&mut self, o: usize, k: usize) -> Option<i64> {
        for atom in self.atoms.clone() {
            let start = *self.tried.first()?.0.get(&atom)?;
            let made: Option<Vec<i64>> = (0..2 * MAX_STRIDE).map(|by| self.varied(o, k, &[(atom, by)])).collect();
            let made = made?;
            let steps: Vec<i64> = (1..made.len()).filter(|i| made[*i] != made[i - 1]).map(|i| i as i64).collect();
            let [first, second, ..] = steps.as_slice() else { continue };
            let stride = second - first;
            // Where the quotient first increases, the division is exact.
            let shift = made[*first as usize].checked_mul(stride)?.checked_sub(start + first)?;
            let sum = self.dimensions.plus(atom, shift)?;
            return self.dimensions.over(sum, stride);
        }
        None
    }
}

/// True if the output of a user-defined operator has a known dimension of its input. Its shape rule needs complete shapes.
fn passed_on(op: &str, ins: &[Dims], k: usize, dim: i64) -> bool {
    op == "Custom" && ins.iter().any(|dims| dims.get(k) == Some(&dim))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probed(d: &mut Dimensions, ins: &[i64], shape: &[i64], f: fn(&[i64]) -> Vec<i64>) -> Option<Dims> {
        let infer = |s: Vec<Shape>| Some(vec![Shape::new(&f(s[0].dims()))]);
        probe(d, "_npx_reshape", &[Dims::from_slice(ins)], &[Shape::new(shape)], infer).remove(0)
    }

    #[test]
    fn dimensions_are_recognised() {
        let mut d = Dimensions::default();
        let (batch, length) = (d.fresh(), d.fresh());
        let ins = [batch, length, 8];
        let made = |dims: &[i64]| Some(Dims::from_slice(dims));
        assert_eq!(probed(&mut d, &ins, &[-1, -1, 8], |s| vec![s[1], s[0], 8]), made(&[length, batch, 8]));
        let (double, product) = (d.times(2, batch).unwrap(), d.times(length, batch).unwrap());
        assert_eq!(probed(&mut d, &ins, &[-1], |s| vec![2 * s[0]]), made(&[double]));
        assert_eq!(probed(&mut d, &ins, &[-1, 8], |s| vec![s[0] * s[1], 8]), made(&[product, 8]));
        let sum = d.plus(batch, length).and_then(|x| d.plus(x, 1)).unwrap();
        assert_eq!(probed(&mut d, &ins, &[-1], |s| vec![s[0] + s[1] + 1]), made(&[sum]));
        let strided = d.plus(length, -1).and_then(|x| d.over(x, 2)).and_then(|x| d.plus(x, 1)).unwrap();
        assert_eq!(probed(&mut d, &ins, &[-1], |s| vec![(s[1] - 1) / 2 + 1]), made(&[strided]));
        let third = d.over(length, 3).unwrap();
        assert_eq!(probed(&mut d, &ins, &[-1], |s| vec![s[1] / 3]), made(&[third]));
        assert_eq!(probed(&mut d, &ins, &[-1], |s| vec![s[1] * s[1] / 7]), made(&[UNNAMED]));
    }

    #[test]
    fn arrays_are_broadcast() {
        let (a, b) = (NDArray::from_slice(&[1i64, 2], &[2, 1]), NDArray::from_slice(&[10i64, 20, 30], &[3]));
        let sum = each(&[a.unwrap(), b.unwrap()], |x| Some(x[0] + x[1])).unwrap().unwrap();
        assert_eq!((sum.to_vec::<i64>().unwrap(), sum.shape().dims()), (vec![11, 21, 31, 12, 22, 32], &[2, 3][..]));
    }
}
