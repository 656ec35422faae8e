//! Integer expressions over the dimensions of an operator's inputs. `#0.1*8` is eight times the second dimension of the first input.
//! Expressions are built with `+`, `-`, `*`, `div` (floor division), `min`, `max` and parentheses.

use std::borrow::Cow;

use ferromx_core::error::{Error, Result};
use ferromx_core::params::ParamValue;
use ferromx_core::shape::Shape;

/// The maximum nesting depth of an expression.
const MAX_DEPTH: usize = 64;
/// The maximum length of a list of expressions.
const MAX_LEN: usize = 4096;

/// An integer expression over the dimensions of the inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum DimExpr {
    Number(i64),
    /// A dimension: input and axis.
    Dim(usize, usize),
    Binary(DimOp, Box<(DimExpr, DimExpr)>),
}

/// A binary operation of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimOp {
    /// The sum.
    Add,
    /// The difference.
    Sub,
    /// The product.
    Mul,
    /// The quotient, rounded towards negative infinity.
    FloorDiv,
    /// The smaller operand.
    Min,
    /// The larger operand.
    Max,
}

/// A leaf of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimLeaf {
    /// A constant.
    Number(i64),
    /// A dimension: input and axis.
    Dim(usize, usize),
}

impl DimExpr {
    /// The value, or `None` if a dimension is unknown.
    fn value(&self, shapes: &[&Shape]) -> Result<Option<i64>> {
        match self {
            DimExpr::Number(n) => Ok(Some(*n)),
            DimExpr::Dim(input, axis) => {
                let missing =
                    || Error::Value(format!("#{input}.{axis} is not a dimension of the {} inputs", shapes.len()));
                let shape = shapes.get(*input).ok_or_else(missing)?;
                match shape.ndim() {
                    None => Ok(None),
                    Some(rank) if *axis >= rank => Err(missing()),
                    Some(_) => Ok(Some(shape.dim(*axis)).filter(|d| *d >= 0)),
                }
            }
            DimExpr::Binary(op, pair) => {
                let (Some(a), Some(b)) = (pair.0.value(shapes)?, pair.1.value(shapes)?) else { return Ok(None) };
                let result = match op {
                    DimOp::Add => a.checked_add(b),
                    DimOp::Sub => a.checked_sub(b),
                    DimOp::Mul => a.checked_mul(b),
                    DimOp::FloorDiv => a.checked_div_euclid(b),
                    DimOp::Min => Some(a.min(b)),
                    DimOp::Max => Some(a.max(b)),
                };
                result
                    .map(Some)
                    .ok_or_else(|| Error::Value(format!("{op:?} of {a} and {b} is undefined or does not fit 64 bits")))
            }
        }
    }

    /// Folds the expression from its leaves up.
    fn build<T, E>(
        &self,
        leaf: &mut dyn FnMut(DimLeaf) -> std::result::Result<T, E>,
        combine: &mut dyn FnMut(DimOp, T, T) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        match self {
            DimExpr::Number(n) => leaf(DimLeaf::Number(*n)),
            DimExpr::Dim(input, axis) => leaf(DimLeaf::Dim(*input, *axis)),
            DimExpr::Binary(op, pair) => {
                let (a, b) = (pair.0.build(leaf, combine)?, pair.1.build(leaf, combine)?);
                combine(*op, a, b)
            }
        }
    }
}

/// A list of expressions. An entry that is `None` selects the operator's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimExprs {
    text: String,
    items: Vec<Option<DimExpr>>,
}

impl DimExprs {
    /// An empty list.
    pub fn empty() -> DimExprs {
        DimExprs { text: "()".into(), items: Vec::new() }
    }

    /// The number of entries, `None` included.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True if the list has no entries.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Folds each expression from its leaves up; `None` entries stay `None`.
    ///
    /// # Errors
    /// Errors of `leaf` and `combine`.
    pub fn build<T, E>(
        &self,
        leaf: &mut dyn FnMut(DimLeaf) -> std::result::Result<T, E>,
        combine: &mut dyn FnMut(DimOp, T, T) -> std::result::Result<T, E>,
    ) -> std::result::Result<Vec<Option<T>>, E> {
        self.items.iter().map(|item| item.as_ref().map(|e| e.build(leaf, combine)).transpose()).collect()
    }

    /// The values of all entries, with -1 for those that depend on an unknown dimension. No entry may be `None`.
    ///
    /// # Errors
    /// A dimension that no input has, an overflow of 64 bits, or an entry that is `None`.
    pub fn dims(&self, shapes: &[&Shape]) -> Result<Vec<i64>> {
        let dim = |item: &Option<DimExpr>| {
            let item = item.as_ref().ok_or_else(|| Error::Value(format!("an entry of {} is None", self.text)))?;
            Ok(item.value(shapes)?.unwrap_or(-1))
        };
        self.items.iter().map(dim).collect()
    }

    /// The values of all entries, or `None` if any of them depends on an unknown dimension.
    ///
    /// # Errors
    /// A dimension that no input has, or an overflow of 64 bits.
    pub fn values(&self, shapes: &[&Shape]) -> Result<Option<Vec<Option<i64>>>> {
        let mut values = Vec::with_capacity(self.items.len());
        for item in &self.items {
            match item {
                None => values.push(None),
                Some(e) => match e.value(shapes)? {
                    Some(x) => values.push(Some(x)),
                    None => return Ok(None),
                },
            }
        }
        Ok(Some(values))
    }
}

impl ParamValue for DimExprs {
    fn type_name() -> Cow<'static, str> {
        "string".into()
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let trimmed = text.trim();
        let inner = trimmed.strip_prefix('(').and_then(|t| t.strip_suffix(')'));
        let inner = inner.ok_or_else(|| format!("'{text}' is not a list of integers such as (#0.0, 8)"))?;
        let mut parser = Parser { rest: inner.trim_start(), depth: 0 };
        let mut items = Vec::new();
        while !parser.rest.is_empty() && items.len() < MAX_LEN {
            items.push(match parser.accept("None") {
                true => None,
                false => Some(parser.sum().map_err(|why| format!("'{text}': {why} at '{}'", parser.rest))?),
            });
            if !parser.accept(",") {
                break;
            }
        }
        match parser.rest {
            "" => Ok(DimExprs { text: trimmed.into(), items }),
            rest => Err(format!("'{text}': expected a comma at '{rest}'")),
        }
    }

    fn print(&self) -> String {
        self.text.clone()
    }

    fn print_default(&self) -> String {
        format!("'{}'", self.text)
    }
}

/// A recursive descent parser. Depth and length are limited, so that malicious text can exhaust neither stack nor memory.
struct Parser<'t> {
    /// The unparsed text, without leading blanks.
    rest: &'t str,
    depth: usize,
}

impl Parser<'_> {
    /// Skips a token if the text begins with it.
    fn accept(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> std::result::Result<(), String> {
        if self.accept(token) { Ok(()) } else { Err(format!("expected '{token}'")) }
    }

    fn number(&mut self) -> Option<u64> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let number = self.rest[..end].parse().ok()?;
        self.rest = self.rest[end..].trim_start();
        Some(number)
    }

    fn sum(&mut self) -> std::result::Result<DimExpr, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("expressions are nested deeper than {MAX_DEPTH}"));
        }
        let mut left = match self.accept("-") {
            true => binary(DimOp::Sub, DimExpr::Number(0), self.product()?),
            false => self.product()?,
        };
        for _ in 0..MAX_DEPTH {
            let op = match () {
                () if self.accept("+") => DimOp::Add,
                () if self.accept("-") => DimOp::Sub,
                () => break,
            };
            left = binary(op, left, self.product()?);
        }
        self.depth -= 1;
        Ok(left)
    }

    fn product(&mut self) -> std::result::Result<DimExpr, String> {
        let mut left = self.atom()?;
        for _ in 0..MAX_DEPTH {
            if !self.accept("*") {
                break;
            }
            left = binary(DimOp::Mul, left, self.atom()?);
        }
        Ok(left)
    }

    fn atom(&mut self) -> std::result::Result<DimExpr, String> {
        if self.accept("#") {
            let input = self.number().ok_or("expected the index of an input")?;
            self.expect(".")?;
            let axis = self.number().ok_or("expected the index of an axis")?;
            return match (usize::try_from(input), usize::try_from(axis)) {
                (Ok(input), Ok(axis)) => Ok(DimExpr::Dim(input, axis)),
                _ => Err("an index is too large".into()),
            };
        }
        for (name, op) in [("div(", DimOp::FloorDiv), ("min(", DimOp::Min), ("max(", DimOp::Max)] {
            if self.accept(name) {
                let a = self.sum()?;
                self.expect(",")?;
                let b = self.sum()?;
                self.expect(")")?;
                return Ok(binary(op, a, b));
            }
        }
        if self.accept("(") {
            let inner = self.sum()?;
            self.expect(")")?;
            return Ok(inner);
        }
        let number = self.number().and_then(|n| i64::try_from(n).ok());
        number.map(DimExpr::Number).ok_or_else(|| "expected a number or a dimension".into())
    }
}

fn binary(op: DimOp, a: DimExpr, b: DimExpr) -> DimExpr {
    DimExpr::Binary(op, Box::new((a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_evaluated_with_the_dimensions_of_the_inputs() {
        let (a, b) = (Shape::new(&[2, 5]), Shape::new(&[7, -1]));
        let dims = |text: &str| DimExprs::parse(text).unwrap().dims(&[&a, &b]);
        assert_eq!(dims("(#0.0*#0.1, 8, -1)").unwrap(), [10, 8, -1]);
        assert_eq!(dims("(div(#1.0+1-#0.0,2)*3, max(#0.0, min(4,#0.1)))").unwrap(), [9, 4]);
        assert_eq!(dims("(#1.1+1,)").unwrap(), [-1]);
        assert_eq!(dims("()").unwrap(), [0i64; 0]);
        assert!(dims("(#2.0)").is_err() && dims("(#0.2)").is_err() && dims("(div(#0.0,0))").is_err());
        assert!(dims("(9223372036854775807*#0.0)").is_err());
        let values = |text: &str| DimExprs::parse(text).unwrap().values(&[&a, &b]).unwrap();
        assert_eq!(values("(None, #0.1 - 1)"), Some(vec![None, Some(4)]));
        assert_eq!(values("(#1.1)"), None);
    }

    #[test]
    fn malformed_expressions_are_errors() {
        for text in ["8", "(#0)", "(#0.)", "(1 2)", "(div(1))", "(1+)", "(a)", &"(".repeat(100_000)] {
            assert!(DimExprs::parse(text).is_err(), "{text}");
        }
        assert!(DimExprs::parse(&format!("({}1{})", "(".repeat(100_000), ")".repeat(100_000))).is_err());
    }
}
