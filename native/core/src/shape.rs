//! Shapes, which may be partially or wholly unknown.
//!
//! Inside the engine an unknown dimension is -1 and an unknown rank is `None`, as in MXNet's NumPy semantics. The legacy
//! semantics, in which 0 means "unknown", exist only at the C boundary: [`Shape::from_legacy`] and [`Shape::to_legacy`].

use std::fmt;
use std::str::FromStr;

use smallvec::SmallVec;

use crate::error::{Error, Result};

/// Dimensions of known rank; six fit without a heap allocation.
pub type Dims = SmallVec<[i64; 6]>;

/// Known dimensions, or indices of axes.
pub type Sizes = SmallVec<[usize; 6]>;

/// The shape of an array, possibly only partially known. `Shape::default()` is unknown.
#[derive(PartialEq, Eq, Hash, Default)]
pub struct Shape(Option<Dims>);

impl Clone for Shape {
    /// A single memory copy; the derived clone would copy the dimensions one by one.
    fn clone(&self) -> Shape {
        Shape(self.0.as_ref().map(|dims| Dims::from_slice(dims)))
    }
}

impl Shape {
    /// A shape of unknown rank.
    pub const fn unknown() -> Shape {
        Shape(None)
    }

    /// A shape with these dimensions; -1 marks an unknown one.
    pub fn new(dims: &[i64]) -> Shape {
        Shape(Some(Dims::from_slice(dims)))
    }

    /// A shape of known rank whose dimensions are all unknown.
    pub fn of_rank(ndim: usize) -> Shape {
        Shape(Some(smallvec::smallvec![-1; ndim]))
    }

    /// A fully known shape.
    pub fn from_usize(dims: &[usize]) -> Shape {
        Shape(Some(dims.iter().map(|d| *d as i64).collect()))
    }

    /// The rank, if known.
    pub fn ndim(&self) -> Option<usize> {
        self.0.as_ref().map(|d| d.len())
    }

    /// The dimensions; empty for an unknown rank and for a scalar.
    pub fn dims(&self) -> &[i64] {
        self.0.as_deref().unwrap_or(&[])
    }

    /// The dimensions, mutably, if the rank is known.
    pub fn dims_mut(&mut self) -> Option<&mut Dims> {
        self.0.as_mut()
    }

    /// Dimension `i`; -1 if it is unknown.
    pub fn dim(&self, i: usize) -> i64 {
        self.dims().get(i).copied().unwrap_or(-1)
    }

    /// True if the rank is known.
    pub fn ndim_is_known(&self) -> bool {
        self.0.is_some()
    }

    /// True if the rank and all dimensions are known.
    pub fn is_known(&self) -> bool {
        self.0.as_ref().is_some_and(|d| d.iter().all(|x| *x >= 0))
    }

    /// The number of elements of a fully known shape (1 for a scalar).
    pub fn num_elements(&self) -> usize {
        debug_assert!(self.is_known(), "the number of elements of the partially unknown shape {self}");
        self.dims().iter().map(|d| *d as usize).product()
    }

    /// The number of elements, or an error if the shape is not fully known or its product overflows.
    pub fn checked_elements(&self) -> Result<usize> {
        if !self.is_known() {
            return Err(Error::Value(format!("the shape {self} is not fully known: specify the missing dimensions")));
        }
        self.dims()
            .iter()
            .try_fold(1usize, |n, d| n.checked_mul(usize::try_from(*d).ok()?))
            .filter(|n| *n <= isize::MAX as usize / 8)
            .ok_or_else(|| Error::Value(format!("the shape {self} has more elements than memory can hold")))
    }

    /// The dimensions as `usize`; unknown ones become 0.
    pub fn to_usize(&self) -> Sizes {
        self.dims().iter().map(|d| usize::try_from(*d).unwrap_or(0)).collect()
    }

    /// The product of the dimensions in a range; -1 if one of them is unknown.
    pub fn product(&self, range: impl std::slice::SliceIndex<[i64], Output = [i64]>) -> i64 {
        let dims = self.dims().get(range).unwrap_or(&[]);
        if dims.iter().any(|d| *d < 0) { -1 } else { dims.iter().product() }
    }

    /// Fills in an unknown rank or unknown dimensions from `other`; known ones must agree (MXNet's `shape_assign`).
    ///
    /// Returns true if the two are consistent; if not, `self` may be partially filled in.
    pub fn assign(&mut self, other: &Shape) -> bool {
        let Some(theirs) = &other.0 else { return true };
        let Some(mine) = &mut self.0 else {
            self.0 = Some(theirs.clone());
            return true;
        };
        if mine.len() != theirs.len() {
            return false;
        }
        mine.iter_mut().zip(theirs).all(|(m, t)| {
            if *m < 0 {
                *m = *t;
            }
            *m == *t || *t < 0
        })
    }

    /// From the legacy C convention: rank 0 is an unknown rank, a dimension of 0 is unknown.
    pub fn from_legacy(dims: &[i64]) -> Shape {
        if dims.is_empty() {
            return Shape(None);
        }
        Shape(Some(dims.iter().map(|d| if *d == 0 { -1 } else { *d }).collect()))
    }

    /// To the legacy C convention; an unknown rank is an empty list.
    pub fn to_legacy(&self) -> Dims {
        self.dims().iter().map(|d| (*d).max(0)).collect()
    }

    /// The index of an axis; a negative one counts from the end.
    ///
    /// # Errors
    /// The axis is outside `-ndim .. ndim`.
    pub fn axis(axis: i64, ndim: usize) -> Result<usize> {
        let n = ndim as i64;
        if axis < -n || axis >= n {
            return Err(Error::Value(format!(
                "axis {axis} is out of range for an array of {ndim} dimensions: use {} to {}",
                -n,
                n - 1
            )));
        }
        Ok(if axis < 0 { axis + n } else { axis } as usize)
    }
}

impl From<&[i64]> for Shape {
    fn from(dims: &[i64]) -> Shape {
        Shape::new(dims)
    }
}

impl<const N: usize> From<[i64; N]> for Shape {
    fn from(dims: [i64; N]) -> Shape {
        Shape::new(&dims)
    }
}

impl From<Dims> for Shape {
    fn from(dims: Dims) -> Shape {
        Shape(Some(dims))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(dims) = &self.0 else { return f.write_str("None") };
        f.write_str("[")?;
        for (i, d) in dims.iter().enumerate() {
            write!(f, "{}{d}", if i == 0 { "" } else { "," })?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Splits `(a, b)`, `[a, b]`, `(a,)`, or a bare `a` into its items, as MXNet's tuple parser does. A bracket may close a parenthesis, and
/// items may have the suffix `L` of Python 2.
pub fn split_tuple(text: &str) -> Result<Vec<&str>, String> {
    let t = text.trim();
    let inner = match (t.chars().next(), t.chars().last()) {
        (Some('(' | '['), Some(')' | ']')) if t.len() >= 2 => &t[1..t.len() - 1],
        (Some('(' | '['), _) | (_, Some(')' | ']')) => return Err(format!("'{text}' has an unmatched bracket")),
        _ if t.is_empty() || t.contains(',') => {
            return Err(format!("'{text}' is not a tuple; write its items in parentheses, such as (2, 3)"));
        }
        _ => t,
    };
    let inner = inner.trim();
    if inner.is_empty() {
        return Ok(Vec::new());
    }
    let inner = inner.strip_suffix(',').unwrap_or(inner);
    Ok(inner.split(',').map(|item| item.trim().strip_suffix('L').unwrap_or(item).trim()).collect())
}

impl FromStr for Shape {
    type Err = String;

    /// Parses `(2, 3)`, `[2,3]`, `5`, `()`, or `None` for an unknown shape.
    fn from_str(s: &str) -> Result<Shape, String> {
        if s.trim() == "None" {
            return Ok(Shape::unknown());
        }
        let dims: Result<Dims, String> = split_tuple(s)?
            .into_iter()
            .map(|d| {
                d.parse::<i64>().map_err(|_| format!("'{d}' in '{s}' is not a dimension; write a tuple such as (2, 3)"))
            })
            .collect();
        Ok(Shape(Some(dims?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(d: &[i64]) -> Shape {
        Shape::new(d)
    }

    #[test]
    fn assign_follows_shape_assign() {
        let mut y = Shape::unknown();
        assert!(y.assign(&s(&[2, -1])));
        assert!(y.assign(&s(&[-1, 3])));
        assert_eq!(y, s(&[2, 3]));
        assert!(y.assign(&Shape::unknown()));
        assert!(!y.assign(&s(&[2, 4])));
        assert!(!y.assign(&s(&[2])));
    }

    #[test]
    fn shapes_are_parsed_and_printed() {
        assert_eq!("(2, 3)".parse(), Ok(s(&[2, 3])));
        assert_eq!("[2,3]".parse(), Ok(s(&[2, 3])));
        assert_eq!("(2,)".parse(), Ok(s(&[2])));
        assert_eq!("2L".parse(), Ok(s(&[2])));
        assert_eq!("[2, 3)".parse(), Ok(s(&[2, 3])));
        assert_eq!("(2 L,3)".parse(), Ok(s(&[2, 3])));
        assert_eq!("()".parse(), Ok(s(&[])));
        assert_eq!("None".parse(), Ok(Shape::unknown()));
        assert!("(2, x)".parse::<Shape>().is_err());
        for malformed in ["(2, 3", "2, 3", "", "2)"] {
            assert!(malformed.parse::<Shape>().is_err(), "{malformed}");
        }
        assert_eq!(s(&[2, 3]).to_string(), "[2,3]");
    }

    #[test]
    fn legacy_zero_is_unknown() {
        assert_eq!(Shape::from_legacy(&[0, 3]), s(&[-1, 3]));
        assert_eq!(Shape::from_legacy(&[]), Shape::unknown());
        assert_eq!(s(&[-1, 3]).to_legacy().as_slice(), [0, 3]);
    }

    #[test]
    fn overflowing_element_counts_are_errors() {
        assert!(s(&[i64::MAX, 2]).checked_elements().is_err());
        assert!(s(&[-1, 2]).checked_elements().is_err());
        assert_eq!(s(&[]).checked_elements(), Ok(1));
        assert_eq!(s(&[4, 0]).checked_elements(), Ok(0));
    }
}
