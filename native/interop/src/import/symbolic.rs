//! Dimensions that are not known yet. Each has a number far below zero as its name, so that arrays of whole numbers can hold known
//! and unknown ones side by side, and moving the numbers about (slicing, joining, gathering) keeps track of them.

use std::collections::HashMap;

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

/// The names of unknown dimensions, and how some of them follow from others.
#[derive(Default)]
pub struct Dimensions {
    last: i64,
    /// Sums, differences and products by what they are made of.
    made: HashMap<(Arithmetic, i64, i64), i64>,
    /// The other way round, for products, with how deep they nest.
    factors: HashMap<i64, (i64, i64, usize)>,
}

/// Products of products of dimensions that are taken apart.
const MAX_NESTED: usize = 8;

/// What whole numbers are combined by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Arithmetic {
    Plus,
    Minus,
    Times,
    Over,
}

impl Dimensions {
    /// A name for a dimension that nothing is known of.
    pub fn fresh(&mut self) -> i64 {
        self.last += 1;
        unknown(self.last)
    }

    /// The names of which a product is made, or the name itself.
    fn atoms(&self, name: i64, atoms: &mut Vec<i64>) {
        match self.factors.get(&name) {
            Some((a, b, _)) => [*a, *b].into_iter().for_each(|d| self.atoms(d, atoms)),
            None if is_unknown(name) => atoms.push(name),
            None => {}
        }
    }

    /// A number for a dimension where each atom has one.
    fn sample(&self, dim: i64, atoms: &[i64], samples: &[i64; 8]) -> i64 {
        match (self.factors.get(&dim), atoms.binary_search(&dim)) {
            (Some((a, b, _)), _) => self.sample(*a, atoms, samples).saturating_mul(self.sample(*b, atoms, samples)),
            (None, Ok(k)) => samples[k],
            (None, Err(_)) => dim,
        }
    }

    /// The dimension that completes `some` to as many elements as `all` have, if that is known to be a number.
    pub fn missing(&self, all: &[i64], some: &[i64]) -> Option<i64> {
        let parts = |dims: &[i64]| {
            let mut atoms = Vec::new();
            dims.iter().for_each(|d| self.atoms(*d, &mut atoms));
            atoms.sort_unstable();
            // With each atom as 1 the numbers are left.
            let numbers = dims.iter().try_fold(1i64, |n, d| n.checked_mul(self.sample(*d, &atoms, &[1; 8])));
            (atoms.len() <= 8).then_some((atoms, numbers?))
        };
        let ((a, n), (b, m)) = (parts(all)?, parts(some)?);
        (a == b && m > 0 && n % m == 0).then(|| n / m)
    }

    /// The product of two dimensions.
    pub fn product(&mut self, a: i64, b: i64) -> Option<i64> {
        self.combined(Arithmetic::Times, a, b)
    }

    /// Two dimensions combined: a number if both are, else a name, the same one each time.
    fn combined(&mut self, how: Arithmetic, a: i64, b: i64) -> Option<i64> {
        use Arithmetic::{Minus, Over, Plus, Times};
        if !is_unknown(a) && !is_unknown(b) {
            return match how {
                Plus => a.checked_add(b),
                Minus => a.checked_sub(b),
                Times => a.checked_mul(b),
                Over => a.checked_div(b),
            };
        }
        match (how, a, b) {
            (Plus | Minus, a, 0) | (Times | Over, a, 1) | (Plus, 0, a) | (Times, 1, a) => return Some(a),
            (Times, 0, _) | (Times, _, 0) => return Some(0),
            (Over, _, 0) => return None,
            (Minus | Over, a, b) if a == b => return Some(if how == Minus { 0 } else { 1 }),
            _ => {}
        }
        if let (Over, Some((x, y, _))) = (how, self.factors.get(&a))
            && (*x == b || *y == b)
        {
            return Some(if *x == b { *y } else { *x });
        }
        let (a, b) = if matches!(how, Plus | Times) { (a.min(b), a.max(b)) } else { (a, b) };
        if let Some(known) = self.made.get(&(how, a, b)) {
            return Some(*known);
        }
        let name = self.fresh();
        self.made.insert((how, a, b), name);
        let depth = |d: i64| self.factors.get(&d).map_or(0, |(_, _, depth)| *depth);
        let depth = 1 + depth(a).max(depth(b));
        if how == Times && depth <= MAX_NESTED {
            self.factors.insert(name, (a, b, depth));
        }
        Some(name)
    }
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

/// Operators that combine whole numbers.
const COMBINES: &[(&str, Arithmetic)] = &[
    ("_npi_add", Arithmetic::Plus),
    ("_npi_subtract", Arithmetic::Minus),
    ("_npi_multiply", Arithmetic::Times),
    ("broadcast_add", Arithmetic::Plus),
    ("broadcast_sub", Arithmetic::Minus),
    ("broadcast_mul", Arithmetic::Times),
    ("broadcast_div", Arithmetic::Over),
];

/// The elements of two arrays combined, of which one may be a single number.
fn combined(dimensions: &mut Dimensions, how: Arithmetic, values: &[NDArray]) -> Result<Option<NDArray>> {
    let [a, b] = values else { return Ok(None) };
    let single = |x: &NDArray| x.len() == 1;
    if values.iter().any(|x| x.dtype() != DType::I64) || !(single(a) || single(b) || a.shape() == b.shape()) {
        return Ok(None);
    }
    let shape = match (single(a), single(b)) {
        (true, true) if a.shape().dims().len() >= b.shape().dims().len() => a.shape(),
        (true, _) => b.shape(),
        _ => a.shape(),
    };
    let (x, y) = (a.to_vec::<i64>()?, b.to_vec::<i64>()?);
    let at = |items: &[i64], i: usize| if items.len() == 1 { items[0] } else { items[i] };
    let made: Option<Vec<i64>> =
        (0..x.len().max(y.len())).map(|i| dimensions.combined(how, at(&x, i), at(&y, i))).collect();
    made.map(|made| Ok(NDArray::from_slice(&made, shape.dims())?)).transpose()
}

/// The result of an operator on whole numbers of which some are only names; nothing if the operator is not followed.
///
/// # Errors
/// Those of the operator.
pub fn follow(dimensions: &mut Dimensions, call: &OpCall, mut values: Vec<NDArray>) -> Result<Option<NDArray>> {
    let name = call.def.name;
    if let Some((_, how)) = COMBINES.iter().find(|(op, _)| *op == name) {
        return combined(dimensions, *how, &values);
    }
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
    dimensions: &mut Dimensions,
    op: &str,
    ins: &[Dims],
    shapes: &[Shape],
    infer: impl Fn(Vec<Shape>) -> Option<Vec<Shape>>,
) -> Vec<Option<Dims>> {
    let mut names: Vec<i64> = ins.iter().flatten().copied().filter(|d| is_unknown(*d)).collect();
    let mut atoms = Vec::new();
    names.iter().for_each(|name| dimensions.atoms(*name, &mut atoms));
    names.extend(&atoms);
    for list in [&mut names, &mut atoms] {
        list.sort_unstable();
        list.dedup();
    }
    let nothing = || vec![None; shapes.len()];
    if names.is_empty() || atoms.len() > SAMPLES[0].len() || shapes.iter().all(Shape::is_known) {
        return nothing();
    }
    let sampled = |samples: &[i64; 8]| {
        let number = |d: &i64| dimensions.sample(*d, &atoms, samples);
        infer(ins.iter().map(|dims| Shape::new(&dims.iter().map(number).collect::<Dims>())).collect())
    };
    let (Some(first), Some(second)) = (sampled(&SAMPLES[0]), sampled(&SAMPLES[1])) else { return nothing() };
    let samples = |name: &i64| SAMPLES.each_ref().map(|set| dimensions.sample(*name, &atoms, set));
    let known: Vec<(i64, [i64; 2])> = names.iter().map(|name| (*name, samples(name))).collect();
    let mut output = |o: usize| {
        let (a, b, shape) = (first.get(o)?, second.get(o)?, &shapes[o]);
        if !a.is_known() || a.ndim() != b.ndim() || (shape.ndim_is_known() && shape.ndim() != a.ndim()) {
            return None;
        }
        let mut dim = |k: usize| match known.iter().find(|(_, pair)| *pair == [a.dim(k), b.dim(k)]) {
            _ if shape.dim(k) >= 0 => shape.dim(k),
            Some((name, _)) => *name,
            None if a.dim(k) == b.dim(k) && (RESHAPES.contains(&op) || passed_on(op, ins, k, a.dim(k))) => a.dim(k),
            None => product(dimensions, &known, [a.dim(k), b.dim(k)]).unwrap_or(UNNAMED),
        };
        Some((0..a.dims().len()).map(&mut dim).collect())
    };
    (0..shapes.len()).map(&mut output).collect()
}

/// Whether a user-defined operator, whose rule says nothing as long as something is not known, passes on a known dimension of an input.
fn passed_on(op: &str, ins: &[Dims], k: usize, dim: i64) -> bool {
    op == "Custom" && ins.iter().any(|dims| dims.get(k) == Some(&dim))
}

/// The name of a dimension that is the product of two unknown ones, or of one and a number, by what samples of it are.
fn product(dimensions: &mut Dimensions, known: &[(i64, [i64; 2])], samples: [i64; 2]) -> Option<i64> {
    for (name, pair) in known {
        if pair.iter().zip(samples).any(|(s, x)| *s == 0 || x % s != 0) {
            continue;
        }
        let rest = [samples[0] / pair[0], samples[1] / pair[1]];
        if rest[0] == rest[1] {
            return dimensions.product(*name, rest[0]);
        }
        if let Some((other, _)) = known.iter().find(|(_, pair)| *pair == rest) {
            return dimensions.product(*name, *other);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_recognised() {
        let (batch, length) = (unknown(1), unknown(2));
        let ins = [Dims::from_slice(&[batch, length, 8])];
        let transposed = |s: Vec<Shape>| Some(vec![Shape::new(&[s[0].dim(1), s[0].dim(0), 8])]);
        let mut dimensions = Dimensions { last: 2, ..Dimensions::default() };
        let out = probe(&mut dimensions, "transpose", &ins, &[Shape::new(&[-1, -1, 8])], transposed);
        assert_eq!(out, [Some(Dims::from_slice(&[length, batch, 8]))]);
        let doubled = |s: Vec<Shape>| Some(vec![Shape::new(&[2 * s[0].dim(0)])]);
        let out = probe(&mut dimensions, "repeat", &ins, &[Shape::unknown()], doubled);
        assert_eq!(out, [Some(Dims::from_slice(&[dimensions.product(2, batch).unwrap()]))]);
        let joined = |s: Vec<Shape>| Some(vec![Shape::new(&[s[0].dim(0) * s[0].dim(1), 8])]);
        let product = dimensions.product(length, batch).unwrap();
        let out = probe(&mut dimensions, "_npx_reshape", &ins, &[Shape::new(&[-1, 8])], joined);
        assert_eq!(out, [Some(Dims::from_slice(&[product, 8]))]);
        let more = |s: Vec<Shape>| Some(vec![Shape::new(&[s[0].dim(0) + 1])]);
        let out = probe(&mut dimensions, "pad", &ins, &[Shape::unknown()], more);
        assert_eq!(out, [Some(Dims::from_slice(&[UNNAMED]))]);
    }

    #[test]
    fn names_are_calculated_with() {
        use super::Arithmetic::{Minus, Over, Plus, Times};
        let mut d = Dimensions { last: 2, ..Dimensions::default() };
        let (a, b) = (unknown(1), unknown(2));
        let ab = d.combined(Times, a, b).unwrap();
        assert_eq!(d.combined(Times, b, a), Some(ab));
        assert_eq!((d.combined(Over, ab, a), d.combined(Over, ab, b)), (Some(b), Some(a)));
        assert_eq!(
            (d.combined(Plus, a, 0), d.combined(Times, 1, a), d.combined(Minus, a, a)),
            (Some(a), Some(a), Some(0))
        );
        assert_eq!((d.combined(Times, 6, 7), d.combined(Over, 7, 0), d.combined(Over, a, 0)), (Some(42), None, None));
        assert_ne!(d.combined(Plus, a, 1), d.combined(Plus, a, 2));
        assert_eq!(d.missing(&[ab, 4, 10], &[a, 5, b]), Some(8));
        assert_eq!((d.missing(&[ab], &[a]), d.missing(&[a, 3], &[a, 2])), (None, None));
    }
}
