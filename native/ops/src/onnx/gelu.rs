//! `Gelu` with the tanh approximation.
#![allow(clippy::excessive_precision)] // The constants serve single and double precision alike.

use ferromx_core::grad::{Backward, Grad};
use ferromx_core::op::Deps;
use ferromx_kernels::math;

use crate::elemwise::family::{self, formula, unary};

unary!(GELU_TANH: "_onnx_GeluTanh",
    "The Gaussian error linear unit, approximated: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) (Hendrycks and Gimpel, 2016). \
     `LeakyReLU` with act_type=\"gelu\" is the exact one. Source: Gelu of ONNX with approximate=\"tanh\".",
    f = |x| 0.5 * x * (1.0 + math::tanh(0.797_884_560_802_865_4 * (x + 0.044715 * x * x * x))),
    df(Input) = |x| {
        let t = math::tanh(0.797_884_560_802_865_4 * (x + 0.044715 * x * x * x));
        0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * 0.797_884_560_802_865_4 * (1.0 + 0.134145 * x * x)
    }, graph = none);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn values_match_onnx_and_the_gradient_finite_differences() {
        let x = array(&[-3.0f64, -0.5, 0.0, 0.7, 2.5], &[5]);
        let y = Case::new(&GELU_TANH, &[]).run1(std::slice::from_ref(&x)).unwrap().to_vec::<f64>().unwrap();
        let want = [-0.003_637_392_081_773, -0.154_285_990_174_856, 0.0, 0.530_570_134_705_112, 2.484_915_733_910_001];
        assert!(y.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12), "{y:?}");
        Case::new(&GELU_TANH, &[]).check_gradient(&[x]);
    }
}
