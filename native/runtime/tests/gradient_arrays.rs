//! Backward passes write gradients directly to the arrays of the variables if that is safe. Results must not depend on it.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::sync::Arc;

use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_core::storage::Req;
use ferromx_runtime::imperative::{self, GradientRequest, Keep, Tensor};
use ferromx_runtime::symbol::OpCall;

fn tensor(values: &[f32]) -> Arc<Tensor> {
    Arc::new(Tensor::new(NDArray::from_slice(values, &[values.len() as i64]).unwrap()))
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.array().unwrap().to_vec::<f32>().unwrap()
}

/// Marks variables, all with the same request.
fn mark(variables: &[(&Arc<Tensor>, &Arc<Tensor>)], req: Req) {
    let (variables, gradients): (Vec<_>, Vec<_>) = variables
        .iter()
        .map(|(variable, gradient)| (Arc::clone(variable), GradientRequest { array: Arc::clone(gradient), req }))
        .unzip();
    imperative::mark_variables(&variables, &gradients).unwrap();
}

fn binary(op: &str, a: &Arc<Tensor>, b: &Arc<Tensor>) -> Arc<Tensor> {
    let op = OpCall::new(op, &Attrs::new()).unwrap();
    imperative::set_recording(true);
    let result = imperative::record(&op, &Attrs::new(), None, &[a.clone(), b.clone()], &[]).unwrap();
    imperative::set_recording(false);
    result[0].clone()
}

fn backward(head: &Arc<Tensor>, head_grad: &Arc<Tensor>) {
    imperative::backward(std::slice::from_ref(head), &[Some(head_grad.clone())], &[], Keep::Nothing).unwrap();
}

#[test]
fn gradients_replace_the_old_contents() {
    let (a, b, da, db) = (tensor(&[1., 2.]), tensor(&[3., 5.]), tensor(&[7., 7.]), tensor(&[7., 7.]));
    mark(&[(&a, &da), (&b, &db)], Req::Write);
    backward(&binary("elemwise_mul", &a, &b), &tensor(&[10., 100.]));
    assert_eq!((values(&da), values(&db)), (vec![30., 500.], vec![10., 200.]));
}

#[test]
fn the_gradients_of_several_uses_are_added() {
    let (a, da) = (tensor(&[1., 2.]), tensor(&[7., 7.]));
    mark(&[(&a, &da)], Req::Write);
    let square = binary("elemwise_mul", &a, &a);
    backward(&binary("elemwise_add", &square, &a), &tensor(&[1., 10.]));
    assert_eq!(values(&da), [3., 50.]);
}

#[test]
fn gradients_that_share_an_array_are_written_in_order() {
    let (a, b, shared) = (tensor(&[1., 2.]), tensor(&[3., 5.]), tensor(&[7., 7.]));
    mark(&[(&a, &shared), (&b, &shared)], Req::Write);
    backward(&binary("elemwise_mul", &a, &b), &tensor(&[1., 1.]));
    assert_eq!(values(&shared), [1., 2.]);
}

#[test]
fn a_gradient_array_that_the_backward_pass_reads_is_written_last() {
    let (a, b, da, db) = (tensor(&[1., 2.]), tensor(&[3., 5.]), tensor(&[10., 100.]), tensor(&[7., 7.]));
    mark(&[(&a, &da), (&b, &db)], Req::Write);
    // The head gradient is the array of a's gradient.
    backward(&binary("elemwise_mul", &a, &b), &da);
    assert_eq!((values(&da), values(&db)), (vec![30., 500.], vec![10., 200.]));

    // An operand is the array of a's gradient.
    let (a, b, da, db) = (tensor(&[1., 2.]), tensor(&[3., 5.]), tensor(&[10., 100.]), tensor(&[7., 7.]));
    mark(&[(&a, &da), (&b, &db)], Req::Write);
    let product = binary("elemwise_mul", &a, &da);
    backward(&binary("elemwise_mul", &product, &b), &tensor(&[1., 1.]));
    assert_eq!((values(&da), values(&db)), (vec![30., 500.], vec![10., 200.]));
}

#[test]
fn gradients_are_added_on_request() {
    let (a, b, da) = (tensor(&[1., 2.]), tensor(&[3., 5.]), tensor(&[7., 7.]));
    mark(&[(&a, &da)], Req::Add);
    backward(&binary("elemwise_mul", &a, &b), &tensor(&[1., 1.]));
    assert_eq!(values(&da), [10., 12.]);
}
