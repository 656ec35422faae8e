//! Gradients that are composed of operators: [`op!`] names an operator with its inputs and parameters, [`Graph`] adds it and the operators
//! of common formulas.

use ferromx_core::error::Result;
use ferromx_core::grad::{Entry, GradGraph};
use ferromx_core::op::Operation;

/// An operator with its inputs and parameters, as [`ferromx_core::op!`] describes. An operator of the same file is named by its constant,
/// another one by its path in this crate; the path needs no import, since operators may be gradients of each other.
///
/// ```text
/// op!(COS(x))
/// op!(shape::slice::SLICE_AXIS(x), axis: 0, begin: 0, end: n)
/// ```
macro_rules! op {
    ($operator:ident ($($inputs:tt)*) $($params:tt)*) => { ferromx_core::op!($operator ($($inputs)*) $($params)*) };
    ($($path:ident)::+ ($($inputs:tt)*) $($params:tt)*) => {
        ferromx_core::op!(crate::$($path)::+ ($($inputs)*) $($params)*)
    };
}
pub(crate) use op;

/// Adds the operators of a formula to a graph: `g.mul(a, b)`, `g.op(op!(SIN(x)))`.
pub(crate) struct Graph<'a>(pub &'a mut dyn GradGraph);

impl Graph<'_> {
    /// The entry itself.
    pub(crate) fn identity(&mut self, x: Entry) -> Result<Entry> {
        Ok(x)
    }

    /// The first output of an operator.
    pub(crate) fn op(&mut self, operation: Operation<Entry, String>) -> Result<Entry> {
        self.0.op(operation)
    }

    /// The product.
    pub(crate) fn mul(&mut self, a: Entry, b: Entry) -> Result<Entry> {
        self.op(op!(elemwise::binary::MUL(a, b)))
    }

    /// The quotient.
    pub(crate) fn div(&mut self, a: Entry, b: Entry) -> Result<Entry> {
        self.op(op!(elemwise::binary::DIV(a, b)))
    }

    /// The difference.
    pub(crate) fn sub(&mut self, a: Entry, b: Entry) -> Result<Entry> {
        self.op(op!(elemwise::binary::SUB(a, b)))
    }

    /// `scale * x`. The scale keeps the type of `x`, as all scalars of composed gradients do: `is_int` is true by default.
    pub(crate) fn scale(&mut self, x: Entry, scale: f64) -> Result<Entry> {
        self.op(op!(elemwise::scalar::MUL(x), scalar: scale))
    }

    /// `scale * x + shift`.
    pub(crate) fn affine(&mut self, x: Entry, scale: f64, shift: f64) -> Result<Entry> {
        let scaled = if scale == 1.0 { x } else { self.scale(x, scale)? };
        self.op(op!(elemwise::scalar::PLUS(scaled), scalar: shift))
    }

    /// `x` to a power.
    pub(crate) fn power(&mut self, x: Entry, exponent: f64) -> Result<Entry> {
        self.op(op!(elemwise::scalar::POWER(x), scalar: exponent))
    }
}
