//! Test networks, and arrays with reproducible values.
#![allow(dead_code, unreachable_pub)] // Each test uses a part.

use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_core::storage::Req;
use ferromx_runtime::executor::{Executor, SimpleBind};
use ferromx_runtime::symbol::Symbol;

/// A linear congruential generator with Knuth's constants.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    /// `n` numbers from 0.1 to 1.1, where all elementwise functions are smooth.
    pub fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.below(1000) as f32 / 1000.0 + 0.1).collect()
    }

    pub fn fill(&mut self, array: &NDArray) {
        array.copy_from_slice(&self.floats(array.len())).unwrap();
    }
}

pub fn variable(name: &str) -> Symbol {
    Symbol::variable(name, Default::default())
}

pub fn op(op: &str, name: &str, inputs: &[Symbol], attrs: &[(&str, &str)]) -> Symbol {
    Symbol::op(op, name, inputs, attrs).unwrap()
}

/// Binds to new arrays and fills them, gradients included, with reproducible random numbers.
pub fn bind(symbol: &Symbol, shapes: &[(&str, &[i64])], reqs: Vec<Req>, seed: u64) -> Executor {
    let shapes = shapes.iter().map(|(n, s)| (n.to_string(), Shape::new(s))).collect();
    let executor = SimpleBind { shapes, reqs, ..Default::default() }.bind(symbol).unwrap();
    fill(&executor, seed);
    executor
}

/// Refills all arrays of an executor.
pub fn fill(executor: &Executor, seed: u64) {
    let mut numbers = Numbers(seed);
    executor.args().iter().chain(executor.aux()).for_each(|a| numbers.fill(a));
    executor.grads().iter().flatten().for_each(|a| numbers.fill(a));
}

pub fn values(arrays: &[NDArray]) -> Vec<Vec<f32>> {
    arrays.iter().map(|a| a.to_vec::<f32>().unwrap()).collect()
}

pub fn gradients(executor: &Executor) -> Vec<Vec<f32>> {
    executor.grads().iter().map(|g| g.as_ref().map_or(vec![], |g| g.to_vec::<f32>().unwrap())).collect()
}

/// LeNet on images of 8x8 pixels.
pub fn lenet(activation: &str) -> Symbol {
    let mut x = variable("data");
    for (n, filters) in [("1", "20"), ("2", "50")] {
        let attrs = [("kernel", "(3, 3)"), ("pad", "(1, 1)"), ("num_filter", filters)];
        x = op("Convolution", &format!("conv{n}"), &[x], &attrs);
        x = op("Activation", &format!("act{n}"), &[x], &[("act_type", activation)]);
        let attrs = [("pool_type", "max"), ("kernel", "(2, 2)"), ("stride", "(2, 2)")];
        x = op("Pooling", &format!("pool{n}"), &[x], &attrs);
    }
    x = op("Flatten", "flatten", &[x], &[]);
    dense(x, &["128", "10"], activation)
}

/// Fully connected layers up to a `SoftmaxOutput`.
pub fn dense(mut x: Symbol, units: &[&str], activation: &str) -> Symbol {
    for (n, units_of_layer) in units.iter().enumerate() {
        x = op("FullyConnected", &format!("fc{n}"), &[x], &[("num_hidden", units_of_layer)]);
        if n + 1 < units.len() {
            x = op("Activation", &format!("fc_act{n}"), &[x], &[("act_type", activation)]);
        }
    }
    op("SoftmaxOutput", "softmax", &[x], &[])
}

/// `tanh(a * b + c) * exp(-d)`.
pub fn elementwise_chain() -> Symbol {
    let [a, b, c, d] = ["a", "b", "c", "d"].map(variable);
    let product = op("elemwise_mul", "product", &[a, b], &[]);
    let sum = op("elemwise_add", "sum", &[product, c], &[]);
    let tanh = op("tanh", "tanh", &[sum], &[]);
    let minus = op("negative", "minus", &[d], &[]);
    let exp = op("exp", "exp", &[minus], &[]);
    op("elemwise_mul", "result", &[tanh, exp], &[])
}

/// The request `Write` for each argument.
pub fn writes(symbol: &Symbol) -> Vec<Req> {
    vec![Req::Write; symbol.list_arguments().len()]
}
