//! Scalar operators: a binary operator with a one-element constant becomes the variant with a scalar parameter.

use super::builder::Builder;
use crate::ir::Value;

/// Binary operators with their variants for a scalar second and a scalar first operand.
const WITH_NUMBER: [(&str, &str, &str); 9] = [
    ("_npi_add", "_plus_scalar", "_plus_scalar"),
    ("_npi_subtract", "_minus_scalar", "_rminus_scalar"),
    ("_npi_multiply", "_mul_scalar", "_mul_scalar"),
    ("broadcast_div", "_div_scalar", "_rdiv_scalar"),
    ("_npi_true_divide", "_div_scalar", "_rdiv_scalar"),
    ("_npi_power", "_power_scalar", "_rpower_scalar"),
    ("broadcast_maximum", "_maximum_scalar", "_maximum_scalar"),
    ("broadcast_minimum", "_minimum_scalar", "_minimum_scalar"),
    ("broadcast_add", "_plus_scalar", "_plus_scalar"),
];

/// The scalar variant of a binary operator, if one input is a constant that broadcasts to the other.
pub(super) fn with_number(builder: &Builder, op: &str, inputs: &[Value]) -> Option<(&'static str, usize, f64)> {
    let (_, second, first) = WITH_NUMBER.iter().find(|(name, ..)| *name == op)?;
    let [Value::Handle(a), Value::Handle(b)] = inputs else { return None };
    let number = |constant: usize, other: usize| {
        let (c, o) = (builder.info(constant), builder.info(other));
        let value = c.value.as_ref().filter(|v| v.len() == 1 && !c.is_parameter && v.dtype().is_float())?;
        let fits =
            o.value.is_none() && c.dtype == o.dtype && o.shape.ndim().is_some_and(|n| n >= value.shape().dims().len());
        let x = value.to_vec_as::<f64>().ok()?[0];
        (fits && x.is_finite()).then_some(x)
    };
    match number(*b, *a) {
        Some(x) => Some((second, *a, x)),
        None => number(*a, *b).map(|x| (*first, *b, x)),
    }
}
