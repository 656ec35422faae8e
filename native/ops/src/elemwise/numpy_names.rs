//! Operators of this family under their names in MXNet's NumPy interface.

use ferromx_core::op::{AnyOperator, Operator, arg};

use super::predicates::X;
use super::{identity, scalar, unary};

/// An alias of an operator whose argument is named `x` instead of `data`.
const fn of_x<P>(name: &'static str, operator: &Operator<P>) -> Operator<P> {
    operator.renamed(name).inputs(X)
}

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[
    &of_x("_npi_absolute", &unary::ABS).aliases(&["_npi_abs"]),
    &of_x("_npi_arccos", &unary::ARCCOS),
    &of_x("_npi_arccosh", &unary::ARCCOSH),
    &of_x("_npi_arcsin", &unary::ARCSIN),
    &of_x("_npi_arcsinh", &unary::ARCSINH),
    &of_x("_npi_arctan", &unary::ARCTAN),
    &of_x("_npi_arctanh", &unary::ARCTANH),
    &of_x("_npi_cbrt", &unary::CBRT),
    &of_x("_npi_ceil", &unary::CEIL),
    &of_x("_npi_cos", &unary::COS),
    &of_x("_npi_cosh", &unary::COSH),
    &of_x("_npi_degrees", &unary::DEGREES),
    &of_x("_npi_exp", &unary::EXP),
    &of_x("_npi_expm1", &unary::EXPM1),
    &of_x("_npi_fix", &unary::FIX),
    &of_x("_npi_floor", &unary::FLOOR),
    &of_x("_npi_log", &unary::LOG),
    &of_x("_npi_log10", &unary::LOG10),
    &of_x("_npi_log1p", &unary::LOG1P),
    &of_x("_npi_log2", &unary::LOG2),
    &of_x("_npi_negative", &unary::NEGATIVE),
    &of_x("_npi_radians", &unary::RADIANS),
    &of_x("_npi_reciprocal", &unary::RECIPROCAL),
    &of_x("_npi_rint", &unary::RINT),
    &of_x("_npi_sign", &unary::SIGN),
    &of_x("_npi_sin", &unary::SIN),
    &of_x("_npi_sinh", &unary::SINH),
    &of_x("_npi_sqrt", &unary::SQRT),
    &of_x("_npi_square", &unary::SQUARE),
    &of_x("_npi_tan", &unary::TAN),
    &of_x("_npi_tanh", &unary::TANH),
    &of_x("_npi_trunc", &unary::TRUNC),
    &unary::RELU.renamed("_npx_relu"),
    &unary::SIGMOID.renamed("_npx_sigmoid"),
    &identity::COPY.renamed("_np_copy").inputs(&[arg("a", "The array to copy.")]),
    &scalar::PLUS.renamed("_npi_add_scalar"),
    &scalar::MINUS.renamed("_npi_subtract_scalar"),
    &scalar::RMINUS.renamed("_npi_rsubtract_scalar"),
    &scalar::MUL.renamed("_npi_multiply_scalar"),
    &scalar::MOD.renamed("_npi_mod_scalar"),
    &scalar::RMOD.renamed("_npi_rmod_scalar"),
    &scalar::POWER.renamed("_npi_power_scalar"),
    &scalar::RPOWER.renamed("_npi_rpower_scalar"),
];
