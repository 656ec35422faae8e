//! Replaces a binary operator with a one-element constant by its variant with a scalar parameter.

use ferromx_ops::definitions::{
    ADD, BROADCAST_ADD, BROADCAST_DIV, BROADCAST_MAXIMUM, BROADCAST_MINIMUM, DIV_SCALAR, MAXIMUM_SCALAR,
    MINIMUM_SCALAR, MINUS_SCALAR, MUL_SCALAR, MULTIPLY, PLUS_SCALAR, POWER, POWER_SCALAR, RDIV_SCALAR, RMINUS_SCALAR,
    RPOWER_SCALAR, SUBTRACT, TRUE_DIVIDE,
};

use super::Builder;
use crate::ir::Value;

/// Binary operators with their variants for a scalar second and a scalar first operand.
const SCALAR_VARIANTS: [(&str, &str, &str); 9] = [
    (ADD.name(), PLUS_SCALAR.name(), PLUS_SCALAR.name()),
    (SUBTRACT.name(), MINUS_SCALAR.name(), RMINUS_SCALAR.name()),
    (MULTIPLY.name(), MUL_SCALAR.name(), MUL_SCALAR.name()),
    (BROADCAST_DIV.name(), DIV_SCALAR.name(), RDIV_SCALAR.name()),
    (TRUE_DIVIDE.name(), DIV_SCALAR.name(), RDIV_SCALAR.name()),
    (POWER.name(), POWER_SCALAR.name(), RPOWER_SCALAR.name()),
    (BROADCAST_MAXIMUM.name(), MAXIMUM_SCALAR.name(), MAXIMUM_SCALAR.name()),
    (BROADCAST_MINIMUM.name(), MINIMUM_SCALAR.name(), MINIMUM_SCALAR.name()),
    (BROADCAST_ADD.name(), PLUS_SCALAR.name(), PLUS_SCALAR.name()),
];

/// The scalar variant of a binary operator with its tensor and its scalar, if one input is a one-element constant that broadcasts to the
/// other.
pub(super) fn scalar_variant(builder: &Builder, op: &str, inputs: &[Value]) -> Option<(&'static str, usize, f64)> {
    let (_, second, first) = SCALAR_VARIANTS.iter().find(|(name, ..)| *name == op)?;
    let [Value::TensorId(a), Value::TensorId(b)] = inputs else { return None };
    let scalar = |constant: usize, other: usize| {
        let (c, o) = (builder.info(constant), builder.info(other));
        let value = c.value.as_ref().filter(|v| v.len() == 1 && !c.is_parameter && v.dtype().is_float())?;
        let broadcasts =
            o.value.is_none() && c.dtype == o.dtype && o.shape.ndim().is_some_and(|n| n >= value.shape().dims().len());
        let x = value.to_vec_as::<f64>().ok()?[0];
        (broadcasts && x.is_finite()).then_some(x)
    };
    match scalar(*b, *a) {
        Some(x) => Some((second, *a, x)),
        None => scalar(*a, *b).map(|x| (*first, *b, x)),
    }
}
