//! Second-order gradients: the gradient of a sum of squared gradients, against finite differences of that sum.

use std::sync::Arc;

use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_core::storage::Req;
use ferromx_runtime::graph::op_call;
use ferromx_runtime::imperative::{self, GradientRequest, Tensor};

/// An operator, its parameters, and the shapes of its inputs; the elements are positive and not 1.
const TABLE: &[(&str, &[(&str, &str)], &[&[i64]])] = &[
    ("sin", &[], &[&[2, 3]]),
    ("tanh", &[], &[&[2, 3]]),
    ("log", &[], &[&[2, 3]]),
    ("sigmoid", &[], &[&[2, 3]]),
    ("rsqrt", &[], &[&[2, 3]]),
    ("_power_scalar", &[("scalar", "3"), ("is_int", "False")], &[&[2, 3]]),
    ("elemwise_mul", &[], &[&[2, 3], &[2, 3]]),
    ("elemwise_div", &[], &[&[2, 3], &[2, 3]]),
    ("broadcast_add", &[], &[&[2, 3], &[3]]),
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
    ("dot", &[], &[&[2, 3], &[3, 2]]),
    ("dot", &[("transpose_a", "True"), ("transpose_b", "True")], &[&[3, 2], &[2, 3]]),
    ("batch_dot", &[], &[&[2, 2, 3], &[2, 3, 2]]),
    ("FullyConnected", &[("num_hidden", "2")], &[&[2, 3], &[2, 3], &[2]]),
    ("transpose", &[], &[&[2, 3]]),
];

fn numbers(dims: &[i64], seed: usize) -> Vec<f64> {
    (0..dims.iter().product::<i64>() as usize).map(|i| 0.4 + ((i * 5 + seed * 3) % 11) as f64 / 7.0).collect()
}

fn tensor(items: &[f64], dims: &[i64]) -> Arc<Tensor> {
    Arc::new(Tensor::new(NDArray::from_slice(items, dims).unwrap()))
}

fn run(op: &str, attrs: &[(&str, &str)], inputs: &[Arc<Tensor>]) -> Arc<Tensor> {
    let attrs: Attrs = attrs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    imperative::record(&op_call(op, &attrs).unwrap(), &attrs, None, inputs, &[]).unwrap().swap_remove(0)
}

fn values(t: &Tensor) -> Vec<f64> {
    t.array().unwrap().to_vec().unwrap()
}

/// The sum of the squared gradients of a sum of squared outputs, and the inputs with attached gradients.
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
    let grads = imperative::backward(&[y], &[], &xs, true, true).unwrap();
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

#[test]
fn second_order_gradients_agree_with_finite_differences() {
    for (op, attrs, shapes) in TABLE {
        let inputs: Vec<_> = shapes.iter().enumerate().map(|(k, dims)| (numbers(dims, k), *dims)).collect();
        let (total, xs) = sum_of_squares(op, attrs, &inputs);
        imperative::backward(&[total], &[], &[], false, true).unwrap();
        for (k, x) in xs.iter().enumerate() {
            let got = values(&x.grad().unwrap());
            for (i, got) in got.iter().enumerate() {
                let at = |d: f64| {
                    let mut moved = inputs.clone();
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
}
