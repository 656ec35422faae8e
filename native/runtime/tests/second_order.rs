//! Second-order gradients: the gradient of a sum of squared gradients, compared with finite differences of that sum.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::sync::Arc;

use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_core::storage::Req;
use ferromx_runtime::imperative::{self, GradientRequest, Keep, Tensor};
use ferromx_runtime::symbol::OpCall;

/// Unary operators with second-order gradients in MXNet 1.9.1.
const UNARY: &[&str] = &[
    "abs",
    "arcsinh",
    "arctan",
    "cbrt",
    "cos",
    "cosh",
    "exp",
    "expm1",
    "log",
    "log10",
    "log1p",
    "log2",
    "negative",
    "rcbrt",
    "reciprocal",
    "relu",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "_npi_absolute",
    "_npi_arcsinh",
    "_npi_arctan",
    "_npi_cbrt",
    "_npi_cos",
    "_npi_cosh",
    "_npi_exp",
    "_npi_expm1",
    "_npi_log",
    "_npi_log10",
    "_npi_log1p",
    "_npi_log2",
    "_npi_negative",
    "_npi_reciprocal",
    "_npi_sin",
    "_npi_sinh",
    "_npi_sqrt",
    "_npi_square",
    "_npi_tan",
    "_npi_tanh",
    "_npx_relu",
    "_npx_sigmoid",
    "_copy",
    "_np_copy",
    "_contrib_div_sqrt_dim",
];

/// Unary operators that are defined only on (-1, 1) or for x >= 1, with an offset that moves the inputs into their domain.
const BOUNDED: &[(&str, f64)] = &[
    ("arcsin", -0.5),
    ("arccos", -0.5),
    ("arctanh", -0.5),
    ("arccosh", 2.0),
    ("_npi_arcsin", -0.5),
    ("_npi_arccos", -0.5),
    ("_npi_arctanh", -0.5),
    ("_npi_arccosh", 2.0),
];

/// Operators with parameters and input shapes. Input elements are positive and not 1.
const TABLE: &[(&str, &[(&str, &str)], &[&[i64]])] = &[
    ("_plus_scalar", &[("scalar", "2")], &[&[2, 3]]),
    ("_minus_scalar", &[("scalar", "2")], &[&[2, 3]]),
    ("_rminus_scalar", &[("scalar", "2")], &[&[2, 3]]),
    ("_npi_add_scalar", &[("scalar", "2"), ("is_int", "1")], &[&[2, 3]]),
    ("_npi_subtract_scalar", &[("scalar", "2"), ("is_int", "1")], &[&[2, 3]]),
    ("_npi_rsubtract_scalar", &[("scalar", "2"), ("is_int", "1")], &[&[2, 3]]),
    ("add_n", &[("num_args", "3")], &[&[2, 3], &[2, 3], &[2, 3]]),
    ("elemwise_add", &[], &[&[2, 3], &[2, 3]]),
    ("batch_dot", &[], &[&[2, 2, 3], &[2, 3, 2]]),
    ("batch_dot", &[("transpose_a", "True"), ("transpose_b", "True")], &[&[2, 3, 2], &[2, 2, 3]]),
    ("FullyConnected", &[("num_hidden", "2")], &[&[2, 3], &[2, 3], &[2]]),
    ("FullyConnected", &[("num_hidden", "2"), ("no_bias", "True"), ("flatten", "False")], &[&[2, 2, 3], &[2, 3]]),
    ("transpose", &[], &[&[2, 3]]),
    ("_np_transpose", &[], &[&[2, 3]]),
    ("_np_moveaxis", &[("source", "0"), ("destination", "-1")], &[&[2, 3]]),
    ("_np_roll", &[("shift", "1")], &[&[2, 3]]),
    ("_npi_rot90", &[("k", "1"), ("axes", "(0, 1)")], &[&[2, 3]]),
    ("Dropout", &[("p", "0")], &[&[2, 3]]),
    ("_power_scalar", &[("scalar", "3"), ("is_int", "False")], &[&[2, 3]]),
    ("_mul_scalar", &[("scalar", "3")], &[&[2, 3]]),
    ("_rdiv_scalar", &[("scalar", "3")], &[&[2, 3]]),
    ("elemwise_mul", &[], &[&[2, 3], &[2, 3]]),
    ("elemwise_div", &[], &[&[2, 3], &[2, 3]]),
    ("erf", &[], &[&[2, 3]]),
    ("softsign", &[], &[&[2, 3]]),
    ("Activation", &[("act_type", "softrelu")], &[&[2, 3]]),
    ("softmax", &[], &[&[2, 3]]),
    ("softmax", &[("axis", "0"), ("temperature", "2")], &[&[2, 3]]),
    ("log_softmax", &[("axis", "1")], &[&[2, 3]]),
    ("softmin", &[("axis", "0"), ("temperature", "0.5")], &[&[3, 2]]),
    ("broadcast_add", &[], &[&[2, 3], &[3]]),
    ("broadcast_sub", &[], &[&[2, 3], &[2, 1]]),
    ("broadcast_mul", &[], &[&[2, 3], &[2, 1]]),
    ("broadcast_div", &[], &[&[1, 3], &[2, 1]]),
    ("broadcast_power", &[], &[&[2, 3], &[3]]),
    ("broadcast_hypot", &[], &[&[2, 1], &[2, 3]]),
    ("broadcast_maximum", &[], &[&[2, 1], &[2, 3]]),
    ("_npi_multiply", &[], &[&[2, 3], &[3]]),
    ("_npi_true_divide", &[], &[&[2, 3], &[2, 1]]),
    ("broadcast_axis", &[("axis", "1"), ("size", "3")], &[&[2, 1]]),
    ("sum", &[("axis", "1")], &[&[2, 3]]),
    ("mean", &[("axis", "0")], &[&[2, 3]]),
    ("norm", &[("axis", "1")], &[&[2, 3]]),
    ("prod", &[("axis", "1")], &[&[2, 3]]),
    ("_np_sum", &[("axis", "1")], &[&[2, 3]]),
    ("_np_sum", &[("axis", "(0, 2)")], &[&[2, 3, 2]]),
    ("_npi_mean", &[("axis", "0"), ("keepdims", "True")], &[&[2, 3]]),
    ("_npi_mean", &[], &[&[2, 3]]),
    ("dot", &[], &[&[2, 3], &[3, 2]]),
    ("dot", &[("transpose_a", "True"), ("transpose_b", "True")], &[&[3, 2], &[2, 3]]),
    ("Concat", &[("num_args", "2"), ("dim", "1")], &[&[2, 1], &[2, 2]]),
    ("slice_axis", &[("axis", "1"), ("begin", "1"), ("end", "3")], &[&[2, 3]]),
    ("Reshape", &[("shape", "(3, 2)")], &[&[2, 3]]),
];

fn numbers(dims: &[i64], seed: usize) -> Vec<f64> {
    (0..dims.iter().product::<i64>() as usize).map(|i| 0.4 + ((i * 5 + seed * 3) % 11) as f64 / 7.0).collect()
}

fn tensor(items: &[f64], dims: &[i64]) -> Arc<Tensor> {
    Arc::new(Tensor::new(NDArray::from_slice(items, dims).unwrap()))
}

fn run(op: &str, attrs: &[(&str, &str)], inputs: &[Arc<Tensor>]) -> Arc<Tensor> {
    let attrs: Attrs = attrs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    imperative::record(&OpCall::new(op, &attrs).unwrap(), &attrs, None, inputs, &[]).unwrap().swap_remove(0)
}

fn values(t: &Tensor) -> Vec<f64> {
    t.array().unwrap().to_vec().unwrap()
}

/// Returns the sum of the squared gradients of a sum of squared outputs, and the inputs with attached gradients.
fn sum_of_squares(op: &str, attrs: &[(&str, &str)], inputs: &[(Vec<f64>, &[i64])]) -> (Arc<Tensor>, Vec<Arc<Tensor>>) {
    let xs: Vec<_> = inputs.iter().map(|(items, dims)| tensor(items, dims)).collect();
    let requests: Vec<_> = inputs
        .iter()
        .map(|(items, dims)| GradientRequest { array: tensor(&vec![0.0; items.len()], dims), req: Req::Write })
        .collect();
    imperative::mark_variables(&xs, &requests).unwrap();
    let previous = imperative::set_recording(true);
    let y = run(op, attrs, &xs);
    let y = run("square", &[], &[y]);
    let grads = imperative::backward(&[y], &[], &xs, Keep::Gradients).unwrap();
    imperative::set_recording(true);
    let mut total: Option<Arc<Tensor>> = None;
    for grad in grads {
        let square = run("square", &[], &[grad]);
        let sum = run("sum", &[], &[square]);
        total = Some(match total {
            Some(total) => run("elemwise_add", &[], &[total, sum]),
            None => sum,
        });
    }
    imperative::set_recording(previous);
    (total.unwrap(), xs)
}

fn check(op: &str, attrs: &[(&str, &str)], inputs: &[(Vec<f64>, &[i64])]) {
    let (total, xs) = sum_of_squares(op, attrs, inputs);
    imperative::backward(&[total], &[], &[], Keep::Nothing).unwrap();
    for (k, x) in xs.iter().enumerate() {
        let got = values(&x.grad().unwrap());
        for (i, got) in got.iter().enumerate() {
            let at = |d: f64| {
                let mut moved = inputs.to_vec();
                moved[k].0[i] += d;
                values(&sum_of_squares(op, attrs, &moved).0)[0]
            };
            let want = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!(
                (got - want).abs() <= 1e-4 * want.abs().max(1.0),
                "{op} {attrs:?}: input {k}, element {i}: {got}, finite difference {want}"
            );
        }
    }
}

#[test]
fn second_order_gradients_agree_with_finite_differences() {
    for (op, attrs, shapes) in TABLE {
        let inputs: Vec<_> = shapes.iter().enumerate().map(|(k, dims)| (numbers(dims, k), *dims)).collect();
        check(op, attrs, &inputs);
    }
}

#[test]
fn second_order_gradients_of_unary_operators_agree_with_finite_differences() {
    for op in UNARY {
        check(op, &[], &[(numbers(&[2, 3], 0), &[2, 3])]);
    }
    for (op, offset) in BOUNDED {
        let items = numbers(&[2, 3], 0).iter().map(|x| x / 2.5 + offset).collect();
        check(op, &[], &[(items, &[2, 3])]);
    }
}

#[test]
fn the_second_derivative_of_the_cube_root_is_infinite_at_zero() {
    let x = tensor(&[0.0, 8.0], &[2]);
    let request = GradientRequest { array: tensor(&[0.0; 2], &[2]), req: Req::Write };
    imperative::mark_variables(std::slice::from_ref(&x), &[request]).unwrap();
    let previous = imperative::set_recording(true);
    let y = run("cbrt", &[], std::slice::from_ref(&x));
    let grads = imperative::backward(&[y], &[], std::slice::from_ref(&x), Keep::Gradients).unwrap();
    imperative::set_recording(previous);
    imperative::backward(&grads, &[], &[], Keep::Nothing).unwrap();
    let second = values(&x.grad().unwrap());
    assert!(second[0] == f64::NEG_INFINITY && (second[1] + 1.0 / 144.0).abs() < 1e-12, "{second:?}");
}

/// Differentiates `op` at 0.5 and 2.5 twice, and then the sum of the result, which does not depend on the variable.
fn differentiate_to_a_constant(op: &str) -> (Vec<f64>, Vec<f64>) {
    let x = tensor(&[0.5, 2.5], &[2]);
    let request = GradientRequest { array: tensor(&[7.0; 2], &[2]), req: Req::Write };
    imperative::mark_variables(std::slice::from_ref(&x), &[request]).unwrap();
    let previous = imperative::set_recording(true);
    let mut heads = vec![run(op, &[], std::slice::from_ref(&x))];
    for _ in 0..2 {
        heads = imperative::backward(&heads, &[], std::slice::from_ref(&x), Keep::Gradients).unwrap();
    }
    imperative::set_recording(previous);
    imperative::backward(&heads, &[], &[], Keep::Nothing).unwrap();
    (values(&heads[0]), values(&x.grad().unwrap()))
}

#[test]
fn constant_gradients_can_be_differentiated_again() {
    assert_eq!(differentiate_to_a_constant("floor"), (vec![0.0; 2], vec![0.0; 2]));
    assert_eq!(differentiate_to_a_constant("relu"), (vec![0.0; 2], vec![0.0; 2]));
    assert_eq!(differentiate_to_a_constant("square"), (vec![2.0; 2], vec![0.0; 2]));
}

#[test]
fn gradients_that_depend_on_other_variables_only_have_a_second_gradient_of_zero() {
    let (data, weight) = (tensor(&[0.5, 2.5], &[1, 2]), tensor(&[1.0, -1.0], &[1, 2]));
    let request = |req| GradientRequest { array: tensor(&[7.0; 2], &[1, 2]), req };
    let variables = [data, weight.clone()];
    imperative::mark_variables(&variables, &[request(Req::Null), request(Req::Write)]).unwrap();
    let previous = imperative::set_recording(true);
    let output = run("FullyConnected", &[("num_hidden", "1"), ("no_bias", "True")], &variables);
    let of_weight = std::slice::from_ref(&weight);
    let first = imperative::backward(&[output], &[], of_weight, Keep::Gradients).unwrap();
    imperative::set_recording(previous);
    imperative::backward(&first, &[], &[], Keep::Nothing).unwrap();
    assert_eq!((values(&first[0]), values(&weight.grad().unwrap())), (vec![0.5, 2.5], vec![0.0; 2]));
}
