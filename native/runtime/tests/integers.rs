//! Products of dequantized operands, which plans compute on integers. The reference is a plan with a monitor, which runs unfused, in
//! floating point: if scales are powers of two, both are exact.
#![allow(clippy::panic, clippy::unwrap_used)] // Tests may panic.

mod common;

use std::sync::Arc;

use common::{Numbers, op, variable};
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Mode;
use ferromx_core::shape::Shape;
use ferromx_core::storage::Req;
use ferromx_runtime::executor::{Executor, SimpleBind};
use ferromx_runtime::symbol::Symbol;

/// A variable of a network.
struct Input {
    name: &'static str,
    dims: Vec<i64>,
    dtype: DType,
}

/// A quantized layer: the operator, its operands, and the operators after it.
#[derive(Clone, Copy, Debug)]
struct Layer {
    operator: &'static str,
    data: DType,
    weights: DType,
    is_per_channel: bool,
    is_transposed: bool,
    has_bias: bool,
    function: Option<&'static str>,
    result: Option<DType>,
}

fn dtype_name(dtype: DType) -> &'static str {
    if dtype == DType::I8 { "int8" } else { "uint8" }
}

impl Layer {
    /// The network and its inputs.
    fn network(&self) -> (Symbol, Vec<Input>) {
        let mut inputs = Vec::new();
        let mut variable = |name: &'static str, dims: &[i64], dtype: DType| {
            inputs.push(Input { name, dims: dims.to_vec(), dtype });
            Symbol::variable(name, Default::default())
        };
        let (k, n) = (12, 5);
        let (data, weights): (&[i64], &[i64]) = match self.operator {
            "Convolution" => (&[2, k, 6, 7], &[n, k, 3, 3]),
            "FullyConnected" => (&[4, k], if self.is_transposed { &[k, n] } else { &[n, k] }),
            _ => (&[2, 4, k], if self.is_transposed { &[n, k] } else { &[k, n] }),
        };
        let axis = weights.iter().position(|d| *d == n).unwrap().to_string();
        let channels: &[i64] = if self.is_per_channel { &[n] } else { &[1] };
        let x = [
            variable("x", data, self.data),
            variable("x_scale", &[1], DType::F32),
            variable("x_zero", &[1], self.data),
        ];
        let w = [
            variable("w", weights, self.weights),
            variable("w_scale", channels, DType::F32),
            variable("w_zero", channels, self.weights),
        ];
        let x = op("_onnx_DequantizeLinear", "real_x", &x, &[]);
        let mut w = op("_onnx_DequantizeLinear", "real_w", &w, &[("axis", &axis)]);
        if self.is_transposed {
            w = op("transpose", "transposed", &[w], &[]);
        }
        let mut operands = vec![x, w];
        let is_matmul = self.operator == "_npi_matmul";
        let bias = self.has_bias.then(|| variable("bias", &[n], DType::F32));
        operands.extend(bias.clone().filter(|_| !is_matmul));
        let no_bias = if self.has_bias { "False" } else { "True" };
        let attrs: &[(&str, &str)] = match self.operator {
            "Convolution" => &[("kernel", "(3, 3)"), ("pad", "(1, 1)"), ("num_filter", "5"), ("no_bias", no_bias)],
            "FullyConnected" => &[("num_hidden", "5"), ("no_bias", no_bias)],
            _ => &[],
        };
        let mut y = op(self.operator, "product", &operands, attrs);
        if let Some(bias) = bias.filter(|_| is_matmul) {
            y = op("_npi_add", "biased", &[bias, y], &[]);
        }
        y = match self.function {
            Some("clip") => op("clip", "clipped", &[y], &[("a_min", "-3.3"), ("a_max", "7.7")]),
            Some(function) => op(function, "function", &[y], &[]),
            None => y,
        };
        if let Some(dtype) = self.result {
            let q = [y, variable("y_scale", &[1], DType::F32), variable("y_zero", &[1], dtype)];
            y = op("_onnx_QuantizeLinear", "rounded", &q, &[("out_type", dtype_name(dtype))]);
        }
        (y, inputs)
    }

    fn bind(&self, numbers: &mut Numbers) -> Executor {
        let (net, inputs) = self.network();
        bind(&net, &inputs, numbers)
    }
}

/// Binds a network to random integers and scales.
fn bind(net: &Symbol, inputs: &[Input], numbers: &mut Numbers) -> Executor {
    let shapes = inputs.iter().map(|i| (i.name.to_string(), Shape::new(&i.dims))).collect();
    let dtypes = inputs.iter().map(|i| (i.name.to_string(), i.dtype)).collect();
    let reqs = vec![Req::Null; net.list_arguments().len()];
    let executor = SimpleBind { shapes, dtypes, reqs, ..Default::default() }.bind(net).unwrap();
    for (name, array) in net.list_arguments().iter().zip(executor.args()) {
        let bytes: Vec<u8> = (0..array.len()).map(|_| numbers.below(256) as u8).collect();
        match (array.dtype(), name.as_str()) {
            (DType::F32, "y_scale") => array.copy_from_slice(&[1024f32]),
            (DType::F32, "bias") => {
                array.copy_from_slice(&bytes.iter().map(|b| f32::from(*b) - 99.5).collect::<Vec<_>>())
            }
            (DType::F32, _) => {
                array.copy_from_slice(&bytes.iter().map(|b| 1.0 / f32::from(1u8 << (b % 4))).collect::<Vec<_>>())
            }
            (DType::U8, _) => array.copy_from_slice(&bytes),
            _ => array.copy_from_slice(&bytes.iter().map(|b| b.cast_signed()).collect::<Vec<_>>()),
        }
        .unwrap();
    }
    executor
}

fn numbers_of(array: &NDArray) -> Vec<f32> {
    match array.dtype() {
        DType::U8 => array.to_vec::<u8>().unwrap().iter().map(|q| f32::from(*q)).collect(),
        DType::I8 => array.to_vec::<i8>().unwrap().iter().map(|q| f32::from(*q)).collect(),
        _ => array.to_vec::<f32>().unwrap(),
    }
}

/// Runs fused and unfused.
fn both(executor: &Executor) -> [Vec<f32>; 2] {
    executor.forward(Mode::Inference).unwrap();
    let fused = numbers_of(&executor.outputs()[0]);
    executor.set_monitor(Some(Arc::new(|_, _| {})), false);
    executor.forward(Mode::Inference).unwrap();
    let unfused = numbers_of(&executor.outputs()[0]);
    executor.set_monitor(None, false);
    [fused, unfused]
}

#[test]
fn products_of_all_kinds_agree_with_floating_point() {
    let mut numbers = Numbers(7);
    for case in 0..240 {
        let mut pick = |n: usize| numbers.below(n);
        let layer = Layer {
            operator: ["Convolution", "FullyConnected", "_npi_matmul"][case % 3],
            data: [DType::U8, DType::I8][pick(2)],
            weights: [DType::U8, DType::I8][pick(2)],
            is_per_channel: pick(2) == 0,
            is_transposed: case % 3 > 0 && pick(2) == 0,
            has_bias: pick(2) == 0,
            function: [None, Some("relu"), Some("clip"), Some("sigmoid")][pick(4)],
            result: [None, Some(DType::U8), Some(DType::I8)][pick(3)],
        };
        let executor = layer.bind(&mut numbers);
        let [fused, unfused] = both(&executor);
        assert_eq!(fused, unfused, "{layer:?}");
    }
}

/// The sum is exact on integers but not in float32, so an exact result shows that the plan computes on integers.
#[test]
fn large_sums_are_exact() {
    let k = 8193;
    let variables = ["x", "s", "x_zero", "w", "w_zero", "bias"].map(variable);
    let [x, s, x_zero, w, w_zero, bias] = &variables;
    let x = op("_onnx_DequantizeLinear", "real_x", &[x.clone(), s.clone(), x_zero.clone()], &[]);
    let w = op("_onnx_DequantizeLinear", "real_w", &[w.clone(), s.clone(), w_zero.clone()], &[]);
    let net = op("FullyConnected", "product", &[x, w, bias.clone()], &[("num_hidden", "1")]);
    let named =
        |names: &[&str], dims: &[i64]| names.iter().map(|n| (n.to_string(), Shape::new(dims))).collect::<Vec<_>>();
    let shapes = [named(&["x", "w"], &[1, k]), named(&["s", "x_zero", "w_zero", "bias"], &[1])].concat();
    let types = [("x", DType::U8), ("x_zero", DType::U8), ("w", DType::I8), ("w_zero", DType::I8)];
    let executor = SimpleBind {
        shapes: shapes.into_iter().collect(),
        dtypes: types.iter().map(|(n, d)| (n.to_string(), *d)).collect(),
        reqs: vec![Req::Null; 6],
        ..Default::default()
    }
    .bind(&net)
    .unwrap();
    let names = net.list_arguments();
    let arg = |name: &str| &executor.args()[names.iter().position(|n| n == name).unwrap()];
    // The products sum up to 255 * 127 * 8192 + 1 = 265297921. The bias, a multiple of the scale, leaves 1.
    let mut weights = vec![127i8; k as usize];
    let mut data = vec![255u8; k as usize];
    (weights[k as usize - 1], data[k as usize - 1]) = (1, 1);
    arg("x").copy_from_slice(&data).unwrap();
    arg("w").copy_from_slice(&weights).unwrap();
    arg("s").copy_from_slice(&[1f32]).unwrap();
    arg("x_zero").copy_from_slice(&[0u8]).unwrap();
    arg("w_zero").copy_from_slice(&[0i8]).unwrap();
    arg("bias").copy_from_slice(&[-265_297_920f32]).unwrap();
    executor.forward(Mode::Inference).unwrap();
    assert_eq!(executor.outputs()[0].to_vec::<f32>().unwrap(), [1.0]);
    // New weights are packed again.
    weights[0] = 126;
    arg("w").copy_from_slice(&weights).unwrap();
    executor.forward(Mode::Inference).unwrap();
    assert_eq!(executor.outputs()[0].to_vec::<f32>().unwrap(), [-254.0]);
}

/// A product that is also an output of the graph is computed in floating point.
#[test]
fn results_with_another_reader_stay_in_floating_point() {
    let layer = Layer {
        operator: "FullyConnected",
        data: DType::U8,
        weights: DType::I8,
        is_per_channel: true,
        is_transposed: false,
        has_bias: true,
        function: Some("relu"),
        result: Some(DType::U8),
    };
    let (net, inputs) = layer.network();
    let internals = net.internals();
    let product = internals.list_outputs().iter().position(|name| name == "product_output").unwrap();
    let group = Symbol::group(&[net, internals.output(product).unwrap()]);
    let executor = bind(&group, &inputs, &mut Numbers(3));
    let [fused, unfused] = both(&executor);
    assert_eq!(fused, unfused);
    let product = executor.outputs()[1].to_vec::<f32>().unwrap();
    assert!(product.iter().any(|y| *y < 0.0), "the product before ReLU: {product:?}");
}

fn dequantized(name: &'static str, scale: &'static str, zero: &'static str) -> Symbol {
    op("_onnx_DequantizeLinear", &format!("real_{name}"), &[name, scale, zero].map(variable), &[])
}

#[test]
fn sums_agree_with_floating_point() {
    let mut numbers = Numbers(11);
    for case in 0..48 {
        let types = [case & 1, case >> 1 & 1, case >> 2 & 1].map(|signed| [DType::U8, DType::I8][signed]);
        let dims: &[&[i64]] = &[&[2, 3, 5, 7], &[4, 1], &[9]];
        let dims = dims[case % 3];
        // A scale of several elements, or an operand that is broadcast, stays in floating point.
        let (scales, other): (&[i64], &[i64]) = match case % 6 {
            0 => (&[3], dims),
            1 => (&[1], &[1]),
            _ => (&[1], dims),
        };
        let mut y = op("_npi_add", "sum", &[dequantized("a", "a_s", "a_z"), dequantized("b", "b_s", "b_z")], &[]);
        if case >> 3 & 1 == 1 {
            y = op("relu", "function", &[y], &[]);
        }
        let q = [y, variable("y_scale"), variable("y_zero")];
        let net = op("_onnx_QuantizeLinear", "rounded", &q, &[("out_type", dtype_name(types[2]))]);
        let one: &[i64] = &[1];
        let inputs: Vec<Input> = [
            ("a", dims, types[0]),
            ("a_s", scales, DType::F32),
            ("a_z", scales, types[0]),
            ("b", other, types[1]),
            ("b_s", one, DType::F32),
            ("b_z", one, types[1]),
            ("y_scale", one, DType::F32),
            ("y_zero", one, types[2]),
        ]
        .into_iter()
        .map(|(name, dims, dtype)| Input { name, dims: dims.to_vec(), dtype })
        .collect();
        let executor = bind(&net, &inputs, &mut numbers);
        let at = net.list_arguments().iter().position(|name| name == "y_scale").unwrap();
        executor.args()[at].copy_from_slice(&[1.3f32]).unwrap();
        let [fused, unfused] = both(&executor);
        assert_eq!(fused, unfused, "case {case}");
    }
}

#[test]
fn max_pooling_agrees_with_floating_point() {
    let mut numbers = Numbers(13);
    for (dtype, result_scale) in [(DType::U8, "s"), (DType::I8, "s"), (DType::I8, "other")] {
        let attrs = [("kernel", "(3, 2)"), ("stride", "(2, 1)"), ("pad", "(1, 0)"), ("pool_type", "max")];
        let y = op("Pooling", "maximum", &[dequantized("x", "s", "z")], &attrs);
        let q = [y, variable(result_scale), variable("z")];
        let net = op("_onnx_QuantizeLinear", "rounded", &q, &[("out_type", dtype_name(dtype))]);
        let input = |name: &'static str, dims: &[i64], dtype: DType| Input { name, dims: dims.to_vec(), dtype };
        let mut inputs = vec![input("x", &[2, 3, 7, 6], dtype), input("s", &[1], DType::F32), input("z", &[1], dtype)];
        if result_scale != "s" {
            inputs.push(input(result_scale, &[1], DType::F32));
        }
        let [fused, unfused] = both(&bind(&net, &inputs, &mut numbers));
        assert_eq!(fused, unfused, "{dtype} {result_scale}");
    }
}
