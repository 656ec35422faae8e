//! Symbolic dimensions: unknown dimensions and integers computed from them.
//!
//! A symbol is an integer far below zero, so that integer arrays can mix known and symbolic elements. Expressions are interned in a normal
//! form, a polynomial, so that equal expressions have equal symbols.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use smallvec::SmallVec;

/// Dimensions; unknown ones are symbolic.
pub(crate) type Dims = SmallVec<[i64; 6]>;

/// All integers below are symbols.
const MAX_SYMBOL: i64 = i64::MIN / 2;

/// An unknown dimension to which no symbol has been assigned.
pub(super) const UNKNOWN_DIM: i64 = i64::MIN;

/// Maximum number of terms of a polynomial, and of factors of a term. Larger expressions are unknown.
const MAX_SIZE: usize = 24;

/// Maximum nesting depth of expressions.
const MAX_DEPTH: usize = 24;

/// True for a symbolic dimension.
pub(crate) fn is_symbolic(dim: i64) -> bool {
    dim < MAX_SYMBOL
}

/// The symbol with this index, from 1.
pub(super) fn nth_symbol(index: i64) -> i64 {
    i64::MIN + index
}

/// Non-polynomial functions of two integers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Function {
    /// The quotient, rounded down.
    FloorDiv,
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
}

impl Function {
    fn apply(self, a: i64, b: i64) -> Option<i64> {
        match self {
            Function::FloorDiv => a.checked_div_euclid(b),
            Function::Min => Some(a.min(b)),
            Function::Max => Some(a.max(b)),
        }
    }
}

/// A polynomial: coefficients by monomial. A monomial is a sorted list of symbols; the empty one is 1.
type Polynomial = BTreeMap<Vec<i64>, i64>;

/// The expression that a symbol represents.
#[derive(Clone, PartialEq, Eq, Hash)]
enum DimExpr {
    /// An unknown dimension of a tensor, which is not computed from others.
    Atom,
    /// A polynomial of atoms and functions.
    Polynomial(Polynomial),
    /// A function of two dimensions.
    Function(Function, i64, i64),
}

/// The symbols of a graph and their expressions.
#[derive(Default)]
pub(super) struct Dimensions {
    /// Expression and nesting depth of each symbol.
    exprs: Vec<(DimExpr, usize)>,
    interned: HashMap<DimExpr, i64>,
}

impl Dimensions {
    /// A new symbol for an unknown dimension.
    pub(super) fn new_atom(&mut self) -> i64 {
        self.exprs.push((DimExpr::Atom, 0));
        nth_symbol(self.exprs.len() as i64)
    }

    fn entry(&self, symbol: i64) -> Option<&(DimExpr, usize)> {
        if !is_symbolic(symbol) {
            return None;
        }
        usize::try_from(symbol - i64::MIN - 1).ok().and_then(|k| self.exprs.get(k))
    }

    fn expr(&self, symbol: i64) -> &DimExpr {
        self.entry(symbol).map_or(&DimExpr::Atom, |(expr, _)| expr)
    }

    fn depth(&self, symbol: i64) -> usize {
        self.entry(symbol).map_or(0, |(_, depth)| *depth)
    }

    /// The symbol of an expression; equal expressions share one. `None` if the expression is nested too deeply.
    fn intern(&mut self, expr: DimExpr) -> Option<i64> {
        if let Some(symbol) = self.interned.get(&expr) {
            return Some(*symbol);
        }
        let inner = match &expr {
            DimExpr::Atom => 0,
            DimExpr::Polynomial(terms) => terms.keys().flatten().map(|n| self.depth(*n)).max().unwrap_or(0),
            DimExpr::Function(_, a, b) => self.depth(*a).max(self.depth(*b)),
        };
        if inner >= MAX_DEPTH {
            return None;
        }
        self.exprs.push((expr.clone(), inner + 1));
        let symbol = nth_symbol(self.exprs.len() as i64);
        self.interned.insert(expr, symbol);
        Some(symbol)
    }

    fn polynomial(&self, dim: i64) -> Polynomial {
        match self.expr(dim) {
            _ if !is_symbolic(dim) => [(Vec::new(), dim)].into_iter().filter(|(_, n)| *n != 0).collect(),
            DimExpr::Polynomial(terms) => terms.clone(),
            _ => [(vec![dim], 1)].into_iter().collect(),
        }
    }

    /// A polynomial as a number if it is constant, otherwise as a symbol.
    fn intern_polynomial(&mut self, terms: Polynomial) -> Option<i64> {
        let mut each = terms.iter();
        match (each.next(), each.next()) {
            (None, _) => Some(0),
            (Some((monomial, n)), None) if monomial.is_empty() => Some(*n).filter(|n| !is_symbolic(*n)),
            (Some((monomial, 1)), None) if monomial.len() == 1 => Some(monomial[0]),
            _ if terms.len() > MAX_SIZE || terms.keys().any(|monomial| monomial.len() > MAX_SIZE) => None,
            _ => self.intern(DimExpr::Polynomial(terms)),
        }
    }

    /// `a + coefficient * b`.
    fn sum(&mut self, a: i64, b: i64, coefficient: i64) -> Option<i64> {
        let mut terms = self.polynomial(a);
        add(&mut terms, &self.polynomial(b), &[], coefficient)?;
        self.intern_polynomial(terms)
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
        for (monomial, n) in &x {
            add(&mut terms, &y, monomial, *n)?;
        }
        self.intern_polynomial(terms)
    }

    /// The product of dimensions.
    pub(super) fn product(&mut self, dims: &[i64]) -> Option<i64> {
        dims.iter().try_fold(1, |product, d| self.times(product, *d))
    }

    /// The quotient of two dimensions, if the division is exact for all lengths.
    pub(super) fn exact_quotient(&mut self, a: i64, b: i64) -> Option<i64> {
        let (mut rest, divisor) = (self.polynomial(a), self.polynomial(b));
        let (first, n) = leading_term(&divisor)?;
        let mut quotient = Polynomial::new();
        // Polynomial long division: each step cancels the leading term of the remainder.
        for _ in 0..MAX_SIZE {
            let Some((monomial, m)) = leading_term(&rest) else { return self.intern_polynomial(quotient) };
            let factor = divide_monomials(monomial, first)?;
            let coefficient = m.checked_rem(*n).filter(|r| *r == 0).and_then(|_| m.checked_div(*n))?;
            quotient.insert(factor.clone(), coefficient);
            add(&mut rest, &divisor, &factor, coefficient.checked_neg()?)?;
        }
        None
    }

    /// The quotient of two dimensions, rounded down.
    pub(super) fn floor_div(&mut self, a: i64, b: i64) -> Option<i64> {
        if b == 0 {
            return None;
        }
        if let Some(exact) = self.exact_quotient(a, b) {
            return Some(exact);
        }
        if is_symbolic(b) || b < 0 {
            return self.function(Function::FloorDiv, a, b);
        }
        // Multiples of b need no rounding: (q b + r) / b = q + r / b.
        let (mut whole, mut rest) = (Polynomial::new(), Polynomial::new());
        for (monomial, n) in self.polynomial(a) {
            for (part, n) in [(&mut whole, n.div_euclid(b)), (&mut rest, n.rem_euclid(b))] {
                if n != 0 {
                    part.insert(monomial.clone(), n);
                }
            }
        }
        let nested = self.nested_quotient(&rest);
        let (whole, rest) = (self.intern_polynomial(whole)?, self.intern_polynomial(rest)?);
        if let Some((dividend, divisor, shift)) = nested {
            // floor((floor(x / p) + c) / b) = floor((x + c p) / (p b))
            let dividend = self.plus(dividend, shift.checked_mul(divisor)?)?;
            let rest = self.floor_div(dividend, divisor.checked_mul(b)?)?;
            return self.plus(whole, rest);
        }
        let rest = self.function(Function::FloorDiv, rest, b)?;
        self.plus(whole, rest)
    }

    /// `(x, p, c)` if the terms are `floor(x / p) + c` with numbers p > 0 and c.
    fn nested_quotient(&self, terms: &Polynomial) -> Option<(i64, i64, i64)> {
        let shift = terms.get(&Vec::new()).copied().unwrap_or(0);
        let mut others = terms.iter().filter(|(monomial, _)| !monomial.is_empty());
        let (Some((monomial, 1)), None) = (others.next(), others.next()) else { return None };
        match (monomial.as_slice(), monomial.first().map(|symbol| self.expr(*symbol))?) {
            ([_], DimExpr::Function(Function::FloorDiv, a, b)) if !is_symbolic(*b) && *b > 0 => Some((*a, *b, shift)),
            _ => None,
        }
    }

    /// The remainder of a floor division.
    pub(super) fn remainder(&mut self, a: i64, b: i64) -> Option<i64> {
        let quotient = self.floor_div(a, b)?;
        let whole = self.times(quotient, b)?;
        self.minus(a, whole)
    }

    /// The smaller or the larger of two dimensions.
    pub(super) fn min_or_max(&mut self, which: Function, a: i64, b: i64) -> Option<i64> {
        let larger = if self.is_at_least(a, b) {
            Some((a, b))
        } else if self.is_at_least(b, a) {
            Some((b, a))
        } else {
            None
        };
        match larger {
            Some((most, least)) => Some(if which == Function::Max { most } else { least }),
            None => self.function(which, a.min(b), a.max(b)),
        }
    }

    fn function(&mut self, f: Function, a: i64, b: i64) -> Option<i64> {
        match is_symbolic(a) || is_symbolic(b) {
            true => self.intern(DimExpr::Function(f, a, b)),
            false => f.apply(a, b),
        }
    }

    /// True if a dimension is non-negative for all lengths.
    fn is_non_negative(&self, dim: i64) -> bool {
        match self.expr(dim) {
            _ if !is_symbolic(dim) => dim >= 0,
            DimExpr::Atom => true,
            DimExpr::Polynomial(terms) => are_non_negative(self, terms),
            DimExpr::Function(Function::Max, a, b) => self.is_non_negative(*a) || self.is_non_negative(*b),
            DimExpr::Function(_, a, b) => self.is_non_negative(*a) && self.is_non_negative(*b),
        }
    }

    /// True if `a >= b` for all lengths.
    pub(super) fn is_at_least(&self, a: i64, b: i64) -> bool {
        let mut terms = self.polynomial(a);
        let is_sum = add(&mut terms, &self.polynomial(b), &[], -1).is_some() && are_non_negative(self, &terms);
        is_sum
            || matches!(self.expr(b), DimExpr::Function(Function::Min, x, y) if self.is_at_least(a, *x) || self.is_at_least(a, *y))
            || matches!(self.expr(a), DimExpr::Function(Function::Max, x, y) if self.is_at_least(*x, b) || self.is_at_least(*y, b))
    }

    /// The length of a slice of an axis of length `n`; absent bounds are those of the axis. `None` if a bound may count from the end.
    pub(super) fn slice_len(&mut self, n: i64, begin: Option<i64>, end: Option<i64>) -> Option<i64> {
        let (begin, end) = (begin.unwrap_or(0), end.unwrap_or(n));
        if !self.is_non_negative(begin) || !self.is_non_negative(end) {
            return None;
        }
        let (begin, end) = (self.min_or_max(Function::Min, begin, n)?, self.min_or_max(Function::Min, end, n)?);
        let len = self.minus(end, begin)?;
        self.min_or_max(Function::Max, len, 0)
    }

    /// The number of symbols. Symbols that are added later are newer, see [`Dimensions::is_new_atom`].
    pub(super) fn num_symbols(&self) -> usize {
        self.exprs.len()
    }

    /// True for an unknown dimension that was added after the first `num_symbols` symbols.
    pub(super) fn is_new_atom(&self, dim: i64, num_symbols: usize) -> bool {
        dim > nth_symbol(num_symbols as i64) && is_symbolic(dim) && *self.expr(dim) == DimExpr::Atom
    }

    /// True if `a > b` for all lengths.
    pub(super) fn is_greater(&self, a: i64, b: i64) -> bool {
        let mut terms = self.polynomial(a);
        add(&mut terms, &self.polynomial(b), &[], -1).is_some()
            && terms.get(&Vec::new()).is_some_and(|n| *n > 0)
            && are_non_negative(self, &terms)
    }

    /// Collects the atoms that a dimension is computed from.
    pub(super) fn atoms(&self, dim: i64, atoms: &mut Vec<i64>) {
        match self.expr(dim) {
            _ if !is_symbolic(dim) => {}
            DimExpr::Atom => {
                if !atoms.contains(&dim) {
                    atoms.push(dim);
                }
            }
            DimExpr::Polynomial(terms) => terms.keys().flatten().for_each(|symbol| self.atoms(*symbol, atoms)),
            DimExpr::Function(_, a, b) => [*a, *b].into_iter().for_each(|d| self.atoms(d, atoms)),
        }
    }

    /// The value of a dimension for given values of its atoms.
    pub(super) fn sample(&self, dim: i64, atoms: &HashMap<i64, i64>) -> Option<i64> {
        match self.expr(dim) {
            _ if !is_symbolic(dim) => Some(dim),
            DimExpr::Atom => atoms.get(&dim).copied(),
            DimExpr::Polynomial(terms) => terms.iter().try_fold(0i64, |sum, (monomial, n)| {
                let term = monomial.iter().try_fold(*n, |p, symbol| p.checked_mul(self.sample(*symbol, atoms)?))?;
                sum.checked_add(term)
            }),
            DimExpr::Function(f, a, b) => f.apply(self.sample(*a, atoms)?, self.sample(*b, atoms)?),
        }
    }

    /// The text of a dimension in an operator parameter; `atom` gives the text of an atom, which refers to an input's dimension.
    pub(super) fn write(&self, dim: i64, atom: &mut dyn FnMut(i64) -> Option<String>) -> Option<String> {
        match self.expr(dim) {
            _ if !is_symbolic(dim) => Some(dim.to_string()),
            DimExpr::Atom => atom(dim),
            DimExpr::Polynomial(terms) => {
                let mut text = String::new();
                // Positive terms first.
                let (plus, minus): (Vec<_>, Vec<_>) = terms.iter().rev().partition(|(_, n)| **n > 0);
                for (monomial, n) in plus.into_iter().chain(minus) {
                    let sign = if *n < 0 {
                        "-"
                    } else if text.is_empty() {
                        ""
                    } else {
                        "+"
                    };
                    text.push_str(sign);
                    let mut factors = Vec::new();
                    if n.unsigned_abs() != 1 || monomial.is_empty() {
                        factors.push(n.unsigned_abs().to_string());
                    }
                    for symbol in monomial {
                        factors.push(self.write(*symbol, atom)?);
                    }
                    text.push_str(&factors.join("*"));
                }
                Some(text)
            }
            DimExpr::Function(f, a, b) => {
                let (a, b) = (self.write(*a, atom)?, self.write(*b, atom)?);
                let name = match f {
                    Function::FloorDiv => "div",
                    Function::Min => "min",
                    Function::Max => "max",
                };
                let mut text = String::new();
                write!(text, "{name}({a},{b})").ok()?;
                Some(text)
            }
        }
    }
}

fn are_non_negative(dimensions: &Dimensions, terms: &Polynomial) -> bool {
    terms.iter().all(|(monomial, n)| *n >= 0 && monomial.iter().all(|symbol| dimensions.is_non_negative(*symbol)))
}

/// Adds `coefficient * factor * more` to `terms`, where `factor` is a monomial. `None` if a coefficient overflows.
fn add(terms: &mut Polynomial, more: &Polynomial, factor: &[i64], coefficient: i64) -> Option<()> {
    for (monomial, n) in more {
        let mut key = [monomial.as_slice(), factor].concat();
        key.sort_unstable();
        let n = terms.get(&key).copied().unwrap_or(0).checked_add(n.checked_mul(coefficient)?)?;
        if n == 0 {
            terms.remove(&key);
        } else {
            terms.insert(key, n);
        }
    }
    Some(())
}

/// The term of the highest degree.
fn leading_term(terms: &Polynomial) -> Option<(&Vec<i64>, &i64)> {
    terms.iter().max_by_key(|(monomial, _)| (monomial.len(), *monomial))
}

/// The quotient of two monomials, or `None` if the division is not exact.
fn divide_monomials(monomial: &[i64], divisor: &[i64]) -> Option<Vec<i64>> {
    let mut quotient = monomial.to_vec();
    for factor in divisor {
        let index = quotient.iter().position(|symbol| symbol == factor)?;
        quotient.remove(index);
    }
    Some(quotient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_expressions_have_equal_symbols() {
        let mut d = Dimensions::default();
        let (a, b) = (d.new_atom(), d.new_atom());
        let ab = d.times(a, b).unwrap();
        assert_eq!(d.times(b, a), Some(ab));
        assert_eq!((d.floor_div(ab, a), d.floor_div(ab, b), d.floor_div(ab, ab)), (Some(b), Some(a), Some(1)));
        assert_eq!((d.plus(a, 0), d.times(1, a), d.minus(a, a), d.times(a, 0)), (Some(a), Some(a), Some(0), Some(0)));
        assert_eq!(
            (d.times(6, 7), d.floor_div(7, 0), d.floor_div(a, 0), d.floor_div(7, 2)),
            (Some(42), None, None, Some(3))
        );
        let next = d.plus(a, 1).unwrap();
        assert_ne!(Some(next), d.plus(a, 2));
        // (a + 1) * b - b = a * b
        let more = d.times(next, b).unwrap();
        assert_eq!(d.minus(more, b), Some(ab));
        assert_eq!((d.floor_div(more, b), d.floor_div(more, next)), (Some(next), Some(b)));
        // (2 a + 1) / 2 = a, and (a + 3) / 2 = (a + 1) / 2 + 1
        let odd = d.times(a, 2).and_then(|x| d.plus(x, 1)).unwrap();
        assert_eq!(d.floor_div(odd, 2), Some(a));
        let (three, half) = (d.plus(a, 3).unwrap(), d.floor_div(next, 2).unwrap());
        assert_eq!(d.floor_div(three, 2), d.plus(half, 1));
        assert_eq!(d.product(&[a, 4, b, 1]), d.times(4, ab));
        // ((a + 1) / 2 + 3) / 5 = (a + 7) / 10
        let (nested, seven) = (d.plus(half, 3).and_then(|x| d.floor_div(x, 5)), d.plus(a, 7).unwrap());
        assert_eq!(nested, d.floor_div(seven, 10));
    }

    #[test]
    fn dimensions_are_compared_for_all_lengths() {
        let mut d = Dimensions::default();
        let a = d.new_atom();
        let next = d.plus(a, 1).unwrap();
        assert!(d.is_greater(next, a) && d.is_greater(a, -1) && d.is_at_least(a, 0) && !d.is_greater(a, 0));
        assert_eq!((d.min_or_max(Function::Max, a, next), d.min_or_max(Function::Min, a, 0)), (Some(next), Some(0)));
        let least = d.min_or_max(Function::Min, a, 5).unwrap();
        assert!(is_symbolic(least) && d.min_or_max(Function::Min, 5, a) == Some(least));
        let atoms = HashMap::from([(a, 7)]);
        assert_eq!((d.sample(least, &atoms), d.sample(next, &atoms)), (Some(5), Some(8)));
        let half = d.floor_div(next, 2).and_then(|h| d.minus(h, 3)).unwrap();
        assert_eq!(d.write(half, &mut |_| Some("#0.1".into())).unwrap(), "div(#0.1+1,2)-3");
    }

    #[test]
    fn oversized_expressions_are_unknown() {
        let mut d = Dimensions::default();
        let a = d.new_atom();
        let mut x = Some(a);
        for _ in 0..200 {
            x = x.and_then(|x| d.times(x, a));
        }
        assert_eq!(x, None);
        assert_eq!(d.plus(i64::MAX, 1), None);
    }
}
