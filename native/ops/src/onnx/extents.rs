//! Integers that are calculated from the dimensions of an operator's inputs: `#0.1*8` is eight times the second dimension of the first
//! input. Sums, differences, products, `div` (rounded down), `min` and `max` nest.

use std::borrow::Cow;

use ferromx_core::error::{Error, Result};
use ferromx_core::params::ParamValue;
use ferromx_core::shape::Shape;

/// How deep expressions nest.
const MAX_DEPTH: usize = 64;
/// Integers in a list.
const MAX_COUNT: usize = 4096;

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Extent {
    Number(i64),
    /// A dimension: input and axis.
    Dim(usize, usize),
    Combined(Function, Box<(Extent, Extent)>),
}

/// How two integers are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The sum.
    Plus,
    /// The difference.
    Minus,
    /// The product.
    Times,
    /// The quotient, rounded down.
    Over,
    /// The smaller one.
    Least,
    /// The larger one.
    Most,
}

/// What expressions are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// A number.
    Number(i64),
    /// A dimension: input and axis.
    Dim(usize, usize),
}

impl Extent {
    /// The value; `None` if a dimension is not known.
    fn value(&self, shapes: &[&Shape]) -> Result<Option<i64>> {
        match self {
            Extent::Number(n) => Ok(Some(*n)),
            Extent::Dim(input, axis) => {
                let missing =
                    || Error::Value(format!("#{input}.{axis} is no dimension of the {} inputs", shapes.len()));
                let shape = shapes.get(*input).ok_or_else(missing)?;
                match shape.ndim() {
                    None => Ok(None),
                    Some(rank) if *axis >= rank => Err(missing()),
                    Some(_) => Ok(Some(shape.dim(*axis)).filter(|d| *d >= 0)),
                }
            }
            Extent::Combined(function, pair) => {
                let (Some(a), Some(b)) = (pair.0.value(shapes)?, pair.1.value(shapes)?) else { return Ok(None) };
                let made = match function {
                    Function::Plus => a.checked_add(b),
                    Function::Minus => a.checked_sub(b),
                    Function::Times => a.checked_mul(b),
                    Function::Over => a.checked_div_euclid(b),
                    Function::Least => Some(a.min(b)),
                    Function::Most => Some(a.max(b)),
                };
                made.map(Some).ok_or_else(|| Error::Value(format!("{a} and {b} cannot be combined by {function:?}")))
            }
        }
    }
}

impl Extent {
    fn build<T, E>(
        &self,
        leaf: &mut dyn FnMut(Leaf) -> std::result::Result<T, E>,
        combine: &mut dyn FnMut(Function, T, T) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        match self {
            Extent::Number(n) => leaf(Leaf::Number(*n)),
            Extent::Dim(input, axis) => leaf(Leaf::Dim(*input, *axis)),
            Extent::Combined(function, pair) => {
                let (a, b) = (pair.0.build(leaf, combine)?, pair.1.build(leaf, combine)?);
                combine(*function, a, b)
            }
        }
    }
}

/// A list of expressions. An entry may be `None` where the operator has a default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extents {
    text: String,
    items: Vec<Option<Extent>>,
}

impl Extents {
    /// No expressions.
    pub fn none() -> Extents {
        Extents { text: "()".into(), items: Vec::new() }
    }

    /// How many there are.
    pub fn num_items(&self) -> usize {
        self.items.len()
    }

    /// Builds something of each expression from its leaves up; nothing of `None`.
    ///
    /// # Errors
    /// Those of the functions.
    pub fn build<T, E>(
        &self,
        leaf: &mut dyn FnMut(Leaf) -> std::result::Result<T, E>,
        combine: &mut dyn FnMut(Function, T, T) -> std::result::Result<T, E>,
    ) -> std::result::Result<Vec<Option<T>>, E> {
        self.items.iter().map(|item| item.as_ref().map(|e| e.build(leaf, combine)).transpose()).collect()
    }

    /// The values; -1 for what is not known. The list must have no `None`.
    ///
    /// # Errors
    /// A dimension that no input has; numbers beyond 64 bits; `None`.
    pub fn dims(&self, shapes: &[&Shape]) -> Result<Vec<i64>> {
        let given = |item: &Option<Extent>| {
            let item = item.as_ref().ok_or_else(|| Error::Value(format!("an entry of {} is None", self.text)))?;
            Ok(item.value(shapes)?.unwrap_or(-1))
        };
        self.items.iter().map(given).collect()
    }

    /// The values, with nothing for `None`; nothing at all if a value is not known.
    ///
    /// # Errors
    /// A dimension that no input has; numbers beyond 64 bits.
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

impl ParamValue for Extents {
    fn type_name() -> Cow<'static, str> {
        "string".into()
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let trimmed = text.trim();
        let inner = trimmed.strip_prefix('(').and_then(|t| t.strip_suffix(')'));
        let inner = inner.ok_or_else(|| format!("'{text}' is no list of integers such as (#0.0, 8)"))?;
        let mut parser = Parser { rest: inner.trim_start(), depth: 0 };
        let mut items = Vec::new();
        while !parser.rest.is_empty() && items.len() < MAX_COUNT {
            items.push(match parser.takes("None") {
                true => None,
                false => Some(parser.sum().map_err(|why| format!("'{text}': {why} at '{}'", parser.rest))?),
            });
            if !parser.takes(",") {
                break;
            }
        }
        match parser.rest {
            "" => Ok(Extents { text: trimmed.into(), items }),
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

struct Parser<'t> {
    /// What is left, without blanks at its beginning.
    rest: &'t str,
    depth: usize,
}

impl Parser<'_> {
    fn takes(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> std::result::Result<(), String> {
        if self.takes(token) { Ok(()) } else { Err(format!("expected '{token}'")) }
    }

    fn number(&mut self) -> Option<u64> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let number = self.rest[..end].parse().ok()?;
        self.rest = self.rest[end..].trim_start();
        Some(number)
    }

    fn sum(&mut self) -> std::result::Result<Extent, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("expressions nest deeper than {MAX_DEPTH}"));
        }
        let mut left = match self.takes("-") {
            true => combined(Function::Minus, Extent::Number(0), self.product()?),
            false => self.product()?,
        };
        for _ in 0..MAX_DEPTH {
            let function = match () {
                () if self.takes("+") => Function::Plus,
                () if self.takes("-") => Function::Minus,
                () => break,
            };
            left = combined(function, left, self.product()?);
        }
        self.depth -= 1;
        Ok(left)
    }

    fn product(&mut self) -> std::result::Result<Extent, String> {
        let mut left = self.factor()?;
        for _ in 0..MAX_DEPTH {
            if !self.takes("*") {
                break;
            }
            left = combined(Function::Times, left, self.factor()?);
        }
        Ok(left)
    }

    fn factor(&mut self) -> std::result::Result<Extent, String> {
        if self.takes("#") {
            let input = self.number().ok_or("expected the number of an input")?;
            self.expect(".")?;
            let axis = self.number().ok_or("expected the number of an axis")?;
            return match (usize::try_from(input), usize::try_from(axis)) {
                (Ok(input), Ok(axis)) => Ok(Extent::Dim(input, axis)),
                _ => Err("an index is too large".into()),
            };
        }
        for (name, function) in [("div(", Function::Over), ("min(", Function::Least), ("max(", Function::Most)] {
            if self.takes(name) {
                let a = self.sum()?;
                self.expect(",")?;
                let b = self.sum()?;
                self.expect(")")?;
                return Ok(combined(function, a, b));
            }
        }
        if self.takes("(") {
            let inner = self.sum()?;
            self.expect(")")?;
            return Ok(inner);
        }
        let number = self.number().and_then(|n| i64::try_from(n).ok());
        number.map(Extent::Number).ok_or_else(|| "expected a number or a dimension".into())
    }
}

fn combined(function: Function, a: Extent, b: Extent) -> Extent {
    Extent::Combined(function, Box::new((a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_dimensions_are_calculated() {
        let (a, b) = (Shape::new(&[2, 5]), Shape::new(&[7, -1]));
        let dims = |text: &str| Extents::parse(text).unwrap().dims(&[&a, &b]);
        assert_eq!(dims("(#0.0*#0.1, 8, -1)").unwrap(), [10, 8, -1]);
        assert_eq!(dims("(div(#1.0+1-#0.0,2)*3, max(#0.0, min(4,#0.1)))").unwrap(), [9, 4]);
        assert_eq!(dims("(#1.1+1,)").unwrap(), [-1]);
        assert_eq!(dims("()").unwrap(), [0i64; 0]);
        assert!(dims("(#2.0)").is_err() && dims("(#0.2)").is_err() && dims("(div(#0.0,0))").is_err());
        assert!(dims("(9223372036854775807*#0.0)").is_err());
        let values = |text: &str| Extents::parse(text).unwrap().values(&[&a, &b]).unwrap();
        assert_eq!(values("(None, #0.1 - 1)"), Some(vec![None, Some(4)]));
        assert_eq!(values("(#1.1)"), None);
    }

    #[test]
    fn other_texts_are_errors() {
        for text in ["8", "(#0)", "(#0.)", "(1 2)", "(div(1))", "(1+)", "(a)", &"(".repeat(100_000)] {
            assert!(Extents::parse(text).is_err(), "{text}");
        }
        assert!(Extents::parse(&format!("({}1{})", "(".repeat(100_000), ")".repeat(100_000))).is_err());
    }
}
