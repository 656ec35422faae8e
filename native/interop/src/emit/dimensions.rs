//! Symbolic dimensions: unknown dimensions and integers computed from them. Each has a number far below zero as its name, so that integer
//! arrays can mix known and symbolic elements. Expressions have a normal form (a polynomial), so that equal ones have equal names.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use smallvec::SmallVec;

/// Dimensions; unknown ones are symbolic.
pub type Dims = SmallVec<[i64; 6]>;

/// Smaller numbers are names of symbolic dimensions.
const NAMES: i64 = i64::MIN / 2;

/// An unknown dimension without a name.
pub(super) const UNNAMED: i64 = i64::MIN;

/// Maximum number of terms of a polynomial, and of factors of a term. Larger expressions are unknown.
const MAX_SIZE: usize = 24;

/// Maximum nesting depth of expressions.
const MAX_DEPTH: usize = 24;

/// True for a symbolic dimension.
pub fn is_unknown(dim: i64) -> bool {
    dim < NAMES
}

/// The name with an index, from 1.
pub(super) fn unknown(number: i64) -> i64 {
    i64::MIN + number
}

/// Non-polynomial functions of two integers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Function {
    /// The quotient, rounded down.
    Over,
    /// The smaller one.
    Least,
    /// The larger one.
    Most,
}

impl Function {
    fn apply(self, a: i64, b: i64) -> Option<i64> {
        match self {
            Function::Over => a.checked_div_euclid(b),
            Function::Least => Some(a.min(b)),
            Function::Most => Some(a.max(b)),
        }
    }
}

/// A polynomial: products of names with their coefficients. The empty product is 1.
type Polynomial = BTreeMap<Vec<i64>, i64>;

/// The meaning of a name.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Meaning {
    /// A dimension of a tensor.
    Atom,
    /// A polynomial of atoms and functions.
    Sum(Polynomial),
    /// A function of two dimensions.
    Function(Function, i64, i64),
}

/// The names of symbolic dimensions and their meanings.
#[derive(Default)]
pub(super) struct Dimensions {
    /// Meaning and nesting depth by name.
    meanings: Vec<(Meaning, usize)>,
    names: HashMap<Meaning, i64>,
}

impl Dimensions {
    /// A new name for an unknown dimension.
    pub(super) fn fresh(&mut self) -> i64 {
        self.meanings.push((Meaning::Atom, 0));
        unknown(self.meanings.len() as i64)
    }

    fn entry(&self, name: i64) -> Option<&(Meaning, usize)> {
        if !is_unknown(name) {
            return None;
        }
        usize::try_from(name - i64::MIN - 1).ok().and_then(|k| self.meanings.get(k))
    }

    fn meaning(&self, name: i64) -> &Meaning {
        self.entry(name).map_or(&Meaning::Atom, |(meaning, _)| meaning)
    }

    fn depth(&self, name: i64) -> usize {
        self.entry(name).map_or(0, |(_, depth)| *depth)
    }

    /// The name of a meaning; equal meanings share one.
    fn named(&mut self, meaning: Meaning) -> Option<i64> {
        if let Some(name) = self.names.get(&meaning) {
            return Some(*name);
        }
        let inner = match &meaning {
            Meaning::Atom => 0,
            Meaning::Sum(terms) => terms.keys().flatten().map(|n| self.depth(*n)).max().unwrap_or(0),
            Meaning::Function(_, a, b) => self.depth(*a).max(self.depth(*b)),
        };
        if inner >= MAX_DEPTH {
            return None;
        }
        self.meanings.push((meaning.clone(), inner + 1));
        let name = unknown(self.meanings.len() as i64);
        self.names.insert(meaning, name);
        Some(name)
    }

    fn polynomial(&self, dim: i64) -> Polynomial {
        match self.meaning(dim) {
            _ if !is_unknown(dim) => [(Vec::new(), dim)].into_iter().filter(|(_, n)| *n != 0).collect(),
            Meaning::Sum(terms) => terms.clone(),
            _ => [(vec![dim], 1)].into_iter().collect(),
        }
    }

    /// A polynomial as a number, if it is constant, or as a name.
    fn of_polynomial(&mut self, terms: Polynomial) -> Option<i64> {
        let mut each = terms.iter();
        match (each.next(), each.next()) {
            (None, _) => Some(0),
            (Some((names, n)), None) if names.is_empty() => Some(*n).filter(|n| !is_unknown(*n)),
            (Some((names, 1)), None) if names.len() == 1 => Some(names[0]),
            _ if terms.len() > MAX_SIZE || terms.keys().any(|names| names.len() > MAX_SIZE) => None,
            _ => self.named(Meaning::Sum(terms)),
        }
    }

    /// The sum of a dimension and `times` another dimension.
    fn sum(&mut self, a: i64, b: i64, times: i64) -> Option<i64> {
        let mut terms = self.polynomial(a);
        add(&mut terms, &self.polynomial(b), &[], times)?;
        self.of_polynomial(terms)
    }

    /// The sum of two dimensions.
    pub(super) fn plus(&mut self, a: i64, b: i64) -> Option<i64> {
        self.sum(a, b, 1)
    }

    /// The difference of two dimensions.
    pub(super) fn minus(&mut self, a: i64, b: i64) -> Option<i64> {
        self.sum(a, b, -1)
    }

    /// The product of two dimensions.
    pub(super) fn times(&mut self, a: i64, b: i64) -> Option<i64> {
        let (x, y) = (self.polynomial(a), self.polynomial(b));
        if x.len() * y.len() > MAX_SIZE * MAX_SIZE {
            return None;
        }
        let mut terms = Polynomial::new();
        for (names, n) in &x {
            add(&mut terms, &y, names, *n)?;
        }
        self.of_polynomial(terms)
    }

    /// The product of dimensions.
    pub(super) fn product(&mut self, dims: &[i64]) -> Option<i64> {
        dims.iter().try_fold(1, |product, d| self.times(product, *d))
    }

    /// The quotient of two dimensions, if the division is exact for all lengths.
    pub(super) fn exact_quotient(&mut self, a: i64, b: i64) -> Option<i64> {
        let (mut rest, by) = (self.polynomial(a), self.polynomial(b));
        let (first, n) = leading(&by)?;
        let mut quotient = Polynomial::new();
        // Polynomial long division: each step cancels the leading term of the remainder.
        for _ in 0..MAX_SIZE {
            let Some((names, m)) = leading(&rest) else { return self.of_polynomial(quotient) };
            let factor = without(names, first)?;
            let times = m.checked_rem(*n).filter(|r| *r == 0).and_then(|_| m.checked_div(*n))?;
            quotient.insert(factor.clone(), times);
            add(&mut rest, &by, &factor, times.checked_neg()?)?;
        }
        None
    }

    /// The quotient of two dimensions, rounded down.
    pub(super) fn over(&mut self, a: i64, b: i64) -> Option<i64> {
        if b == 0 {
            return None;
        }
        if let Some(exact) = self.exact_quotient(a, b) {
            return Some(exact);
        }
        if is_unknown(b) || b < 0 {
            return self.function(Function::Over, a, b);
        }
        // Exactly divisible terms move out of the floor.
        let (mut whole, mut rest) = (Polynomial::new(), Polynomial::new());
        for (names, n) in self.polynomial(a) {
            for (part, n) in [(&mut whole, n.div_euclid(b)), (&mut rest, n.rem_euclid(b))] {
                if n != 0 {
                    part.insert(names.clone(), n);
                }
            }
        }
        let (whole, rest) = (self.of_polynomial(whole)?, self.of_polynomial(rest)?);
        let rest = self.function(Function::Over, rest, b)?;
        self.plus(whole, rest)
    }

    /// The remainder of a floor division.
    pub(super) fn remainder(&mut self, a: i64, b: i64) -> Option<i64> {
        let quotient = self.over(a, b)?;
        let whole = self.times(quotient, b)?;
        self.minus(a, whole)
    }

    /// The smaller or the larger of two dimensions.
    pub(super) fn extreme(&mut self, which: Function, a: i64, b: i64) -> Option<i64> {
        let larger = if self.is_at_least(a, b) {
            Some((a, b))
        } else if self.is_at_least(b, a) {
            Some((b, a))
        } else {
            None
        };
        match larger {
            Some((most, least)) => Some(if which == Function::Most { most } else { least }),
            None => self.function(which, a.min(b), a.max(b)),
        }
    }

    fn function(&mut self, f: Function, a: i64, b: i64) -> Option<i64> {
        match is_unknown(a) || is_unknown(b) {
            true => self.named(Meaning::Function(f, a, b)),
            false => f.apply(a, b),
        }
    }

    /// True if a dimension is non-negative for all lengths.
    fn is_natural(&self, dim: i64) -> bool {
        match self.meaning(dim) {
            _ if !is_unknown(dim) => dim >= 0,
            Meaning::Atom => true,
            Meaning::Sum(terms) => all_natural(self, terms),
            Meaning::Function(Function::Most, a, b) => self.is_natural(*a) || self.is_natural(*b),
            Meaning::Function(_, a, b) => self.is_natural(*a) && self.is_natural(*b),
        }
    }

    /// True if `a >= b` for all lengths.
    pub(super) fn is_at_least(&self, a: i64, b: i64) -> bool {
        let mut terms = self.polynomial(a);
        add(&mut terms, &self.polynomial(b), &[], -1).is_some() && all_natural(self, &terms)
    }

    /// True if `a > b` for all lengths.
    pub(super) fn is_above(&self, a: i64, b: i64) -> bool {
        let mut terms = self.polynomial(a);
        add(&mut terms, &self.polynomial(b), &[], -1).is_some()
            && terms.get(&Vec::new()).is_some_and(|n| *n > 0)
            && all_natural(self, &terms)
    }

    /// The tensor dimensions that a dimension is computed from.
    pub(super) fn atoms(&self, dim: i64, atoms: &mut Vec<i64>) {
        match self.meaning(dim) {
            _ if !is_unknown(dim) => {}
            Meaning::Atom => {
                if !atoms.contains(&dim) {
                    atoms.push(dim);
                }
            }
            Meaning::Sum(terms) => terms.keys().flatten().for_each(|name| self.atoms(*name, atoms)),
            Meaning::Function(_, a, b) => [*a, *b].into_iter().for_each(|d| self.atoms(d, atoms)),
        }
    }

    /// The value of a dimension for given values of its atoms.
    pub(super) fn sample(&self, dim: i64, atoms: &HashMap<i64, i64>) -> Option<i64> {
        match self.meaning(dim) {
            _ if !is_unknown(dim) => Some(dim),
            Meaning::Atom => atoms.get(&dim).copied(),
            Meaning::Sum(terms) => terms.iter().try_fold(0i64, |sum, (names, n)| {
                let term = names.iter().try_fold(*n, |p, name| p.checked_mul(self.sample(*name, atoms)?))?;
                sum.checked_add(term)
            }),
            Meaning::Function(f, a, b) => f.apply(self.sample(*a, atoms)?, self.sample(*b, atoms)?),
        }
    }

    /// The text of a dimension as an operator parameter; `atom` writes the dimensions of inputs.
    pub(super) fn write(&self, dim: i64, atom: &mut dyn FnMut(i64) -> Option<String>) -> Option<String> {
        match self.meaning(dim) {
            _ if !is_unknown(dim) => Some(dim.to_string()),
            Meaning::Atom => atom(dim),
            Meaning::Sum(terms) => {
                let mut text = String::new();
                // Positive terms first.
                let (plus, minus): (Vec<_>, Vec<_>) = terms.iter().rev().partition(|(_, n)| **n > 0);
                for (names, n) in plus.into_iter().chain(minus) {
                    let sign = if *n < 0 {
                        "-"
                    } else if text.is_empty() {
                        ""
                    } else {
                        "+"
                    };
                    text.push_str(sign);
                    let mut factors = Vec::new();
                    if n.unsigned_abs() != 1 || names.is_empty() {
                        factors.push(n.unsigned_abs().to_string());
                    }
                    for name in names {
                        factors.push(self.write(*name, atom)?);
                    }
                    text.push_str(&factors.join("*"));
                }
                Some(text)
            }
            Meaning::Function(f, a, b) => {
                let (a, b) = (self.write(*a, atom)?, self.write(*b, atom)?);
                let name = match f {
                    Function::Over => "div",
                    Function::Least => "min",
                    Function::Most => "max",
                };
                let mut text = String::new();
                write!(text, "{name}({a},{b})").ok()?;
                Some(text)
            }
        }
    }
}

fn all_natural(dimensions: &Dimensions, terms: &Polynomial) -> bool {
    terms.iter().all(|(names, n)| *n >= 0 && names.iter().all(|name| dimensions.is_natural(*name)))
}

/// Adds `times` the product of `factor` and a polynomial.
fn add(terms: &mut Polynomial, more: &Polynomial, factor: &[i64], times: i64) -> Option<()> {
    for (names, n) in more {
        let mut key = [names.as_slice(), factor].concat();
        key.sort_unstable();
        let n = terms.get(&key).copied().unwrap_or(0).checked_add(n.checked_mul(times)?)?;
        if n == 0 {
            terms.remove(&key);
        } else {
            terms.insert(key, n);
        }
    }
    Some(())
}

/// The term of the highest degree.
fn leading(terms: &Polynomial) -> Option<(&Vec<i64>, &i64)> {
    terms.iter().max_by_key(|(names, _)| (names.len(), *names))
}

/// The factors of a product without those of another one.
fn without(names: &[i64], others: &[i64]) -> Option<Vec<i64>> {
    let mut left = names.to_vec();
    for other in others {
        let at = left.iter().position(|name| name == other)?;
        left.remove(at);
    }
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_expressions_have_equal_names() {
        let mut d = Dimensions::default();
        let (a, b) = (d.fresh(), d.fresh());
        let ab = d.times(a, b).unwrap();
        assert_eq!(d.times(b, a), Some(ab));
        assert_eq!((d.over(ab, a), d.over(ab, b), d.over(ab, ab)), (Some(b), Some(a), Some(1)));
        assert_eq!((d.plus(a, 0), d.times(1, a), d.minus(a, a), d.times(a, 0)), (Some(a), Some(a), Some(0), Some(0)));
        assert_eq!((d.times(6, 7), d.over(7, 0), d.over(a, 0), d.over(7, 2)), (Some(42), None, None, Some(3)));
        let next = d.plus(a, 1).unwrap();
        assert_ne!(Some(next), d.plus(a, 2));
        // (a + 1) * b - b = a * b
        let more = d.times(next, b).unwrap();
        assert_eq!(d.minus(more, b), Some(ab));
        assert_eq!((d.over(more, b), d.over(more, next)), (Some(next), Some(b)));
        // (2 a + 1) / 2 = a, and (a + 3) / 2 = (a + 1) / 2 + 1
        let odd = d.times(a, 2).and_then(|x| d.plus(x, 1)).unwrap();
        assert_eq!(d.over(odd, 2), Some(a));
        let (three, half) = (d.plus(a, 3).unwrap(), d.over(next, 2).unwrap());
        assert_eq!(d.over(three, 2), d.plus(half, 1));
        assert_eq!(d.product(&[a, 4, b, 1]), d.times(4, ab));
    }

    #[test]
    fn what_holds_for_all_lengths_is_known() {
        let mut d = Dimensions::default();
        let a = d.fresh();
        let next = d.plus(a, 1).unwrap();
        assert!(d.is_above(next, a) && d.is_above(a, -1) && d.is_at_least(a, 0) && !d.is_above(a, 0));
        assert_eq!((d.extreme(Function::Most, a, next), d.extreme(Function::Least, a, 0)), (Some(next), Some(0)));
        let least = d.extreme(Function::Least, a, 5).unwrap();
        assert!(is_unknown(least) && d.extreme(Function::Least, 5, a) == Some(least));
        let atoms = HashMap::from([(a, 7)]);
        assert_eq!((d.sample(least, &atoms), d.sample(next, &atoms)), (Some(5), Some(8)));
        let half = d.over(next, 2).and_then(|h| d.minus(h, 3)).unwrap();
        assert_eq!(d.write(half, &mut |_| Some("#0.1".into())).unwrap(), "div(#0.1+1,2)-3");
    }

    #[test]
    fn what_grows_without_bound_is_not_followed() {
        let mut d = Dimensions::default();
        let a = d.fresh();
        let mut x = Some(a);
        for _ in 0..200 {
            x = x.and_then(|x| d.times(x, a));
        }
        assert_eq!(x, None);
        assert_eq!(d.plus(i64::MAX, 1), None);
    }
}
