//! Operators on sparse arrays give the same results as on dense arrays.
#![allow(clippy::unwrap_used)] // Tests may panic.

use StorageType::{Csr, Default as Dense, RowSparse};
use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Mode;
use ferromx_core::params::Attrs;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::Req;
use ferromx_ops::sparse::cast::{cast, to_dense};
use ferromx_runtime::executor::{BoundStored, Executor, ReshapeOptions, SimpleBind};
use ferromx_runtime::imperative::invoke_stored;
use ferromx_runtime::symbol::{AtomicSymbol, OpCall, Symbol};

const STORAGE_TYPES: [StorageType; 3] = [Dense, RowSparse, Csr];

/// An array of density `eighths` / 8: the expected fraction of elements that are not zero.
fn numbers(dims: &[i64], seed: u64, eighths: u64) -> NDArray {
    let n = dims.iter().product::<i64>() as u64;
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let values: Vec<f32> = (0..n)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bits = state >> 33;
            if bits % 8 < eighths { (bits / 8 % 33) as f32 / 16.0 - 1.0 } else { 0.0 }
        })
        .collect();
    NDArray::from_slice(&values, dims).unwrap()
}

fn attrs(pairs: &[(&str, &str)]) -> Attrs {
    pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

fn run(op: &'static str, pairs: &[(&str, &str)], inputs: &[Array]) -> Vec<f32> {
    let call = OpCall::new(op, &attrs(pairs)).unwrap();
    let outputs = invoke_stored(&call, None, inputs, &[]).unwrap();
    to_dense(&outputs[0]).unwrap().to_vec().unwrap()
}

/// Checks that every combination of storage types gives the same results as dense arrays.
fn check(op: &'static str, pairs: &[(&str, &str)], inputs: &[NDArray]) {
    let dense: Vec<Array> = inputs.iter().cloned().map(Array::Dense).collect();
    let expected = run(op, pairs, &dense);
    for k in 0..STORAGE_TYPES.len().pow(inputs.len() as u32) {
        let types =
            (0..inputs.len()).map(|i| STORAGE_TYPES[k / STORAGE_TYPES.len().pow(i as u32) % STORAGE_TYPES.len()]);
        let stored: Vec<Array> = dense.iter().zip(types).map(|(a, storage)| cast(a, storage).unwrap()).collect();
        let given = run(op, pairs, &stored);
        assert_eq!(given.len(), expected.len(), "{op} {pairs:?} {stored:?}");
        for (g, e) in given.iter().zip(&expected) {
            assert!((g - e).abs() <= 1e-5 * (1.0 + e.abs()), "{op} {pairs:?} {stored:?}: {g} instead of {e}");
        }
    }
}

#[test]
fn sparse_equals_dense() {
    for (seed, eighths) in [(1, 0), (2, 1), (3, 4), (4, 8)] {
        let (a, b) = (numbers(&[6, 5], seed, eighths), numbers(&[6, 5], seed + 10, eighths));
        for op in ["abs", "sqrt", "sin", "exp", "relu", "negative", "zeros_like", "ones_like", "_copy"] {
            let a = if op == "sqrt" { numbers(&[6, 5], seed, 0) } else { a.clone() };
            check(op, &[], &[a]);
        }
        for op in ["elemwise_add", "elemwise_sub", "elemwise_mul", "_maximum", "_minimum", "_hypot", "_grad_add"] {
            check(op, &[], &[a.clone(), b.clone()]);
        }
        for axis in ["0", "1", "()"] {
            for op in ["sum", "mean", "norm", "_square_sum"] {
                check(op, &[("axis", axis), ("keepdims", "True")], std::slice::from_ref(&a));
            }
        }
        for scalar in ["2", "-0.5"] {
            check("_mul_scalar", &[("scalar", scalar)], std::slice::from_ref(&a));
            check("_plus_scalar", &[("scalar", scalar)], std::slice::from_ref(&a));
            check("_greater_scalar", &[("scalar", scalar)], std::slice::from_ref(&a));
        }
        check("add_n", &[("num_args", "3")], &[a.clone(), b.clone(), a.clone()]);
        check("slice", &[("begin", "(1, 2)"), ("end", "(5, 4)")], std::slice::from_ref(&a));
        check("Concat", &[("num_args", "2"), ("dim", "0")], &[a.clone(), b.clone()]);
        check("where", &[], &[a.clone(), b.clone(), a.clone()]);
        let c = numbers(&[5, 7], seed + 20, eighths);
        check("dot", &[], &[a.clone(), c.clone()]);
        check("dot", &[("transpose_a", "True")], &[a.clone(), b.clone()]);
        check("dot", &[("transpose_b", "True")], &[a, b]);
    }
}

#[test]
fn outputs_may_have_any_storage_type() {
    let (a, b) = (numbers(&[4, 3], 1, 3), numbers(&[4, 3], 2, 3));
    let call = OpCall::new("elemwise_add", &Attrs::new()).unwrap();
    let expected = run("elemwise_add", &[], &[a.clone().into(), b.clone().into()]);
    for input_type in STORAGE_TYPES {
        for output_type in STORAGE_TYPES {
            let zeros = NDArray::zeros(&Shape::new(&[4, 3]), DType::F32, Context::default()).unwrap();
            let out = cast(&zeros.into(), output_type).unwrap();
            let inputs = [&a, &b].map(|array| cast(&array.clone().into(), input_type).unwrap());
            invoke_stored(&call, None, &inputs, std::slice::from_ref(&out)).unwrap();
            assert_eq!(out.storage_type(), output_type);
            assert_eq!(to_dense(&out).unwrap().to_vec::<f32>().unwrap(), expected);
        }
    }
}

#[test]
fn a_lazy_update_keeps_other_rows() {
    let weight = numbers(&[4, 2], 5, 8);
    let before = weight.to_vec::<f32>().unwrap();
    let values = NDArray::from_slice(&[1f32, 2.0], &[1, 2]).unwrap();
    let rows = NDArray::from_slice(&[2i64], &[1]).unwrap();
    let gradient = SparseArray::row_sparse(&Shape::new(&[4, 2]), values, rows).unwrap();
    let call = OpCall::new("sgd_update", &attrs(&[("lr", "0.5"), ("wd", "0.1")])).unwrap();
    let inputs = [weight.clone().into(), gradient.into()];
    invoke_stored(&call, None, &inputs, &[weight.clone().into()]).unwrap();
    let after = weight.to_vec::<f32>().unwrap();
    assert_eq!((&after[..4], &after[6..]), (&before[..4], &before[6..]));
    assert!((after[4] - (before[4] - 0.5 * (1.0 + 0.1 * before[4]))).abs() < 1e-6);
}

#[test]
fn executors_take_sparse_arguments_and_gradients() {
    let symbol = AtomicSymbol::new("dot", Attrs::new())
        .unwrap()
        .compose("op", &[Symbol::variable("x", Attrs::new()), Symbol::variable("w", Attrs::new())], None)
        .unwrap();
    let (x, w) = (numbers(&[3, 4], 7, 3), numbers(&[4, 2], 8, 8));
    let stored = cast(&x.clone().into(), Csr).unwrap();
    let gradient: Array = SparseArray::zeros(RowSparse, w.shape(), DType::F32, Context::default()).unwrap().into();
    let bound = BoundStored {
        args: vec![stored, w.clone().into()],
        grads: vec![None, Some(gradient.clone())],
        reqs: vec![Req::Null, Req::Write],
        aux: vec![],
    };
    let executor = Executor::bind_stored(&symbol, Context::default(), bound, None).unwrap();
    executor.forward(Mode::Training).unwrap();
    let expected = run("dot", &[], &[x.clone().into(), w.into()]);
    assert_eq!(executor.output_tensors()[0].array().unwrap().to_vec::<f32>().unwrap(), expected);
    let head = numbers(&[3, 2], 9, 8);
    executor.backward(std::slice::from_ref(&head), Mode::Training).unwrap();
    let expected = run("dot", &[("transpose_a", "True")], &[x.into(), head.into()]);
    assert_eq!(to_dense(&gradient).unwrap().to_vec::<f32>().unwrap(), expected);
}

/// An operator on variables, with their storage types as attributes if given.
fn on_variables(op: &str, pairs: &[(&str, &str)], inputs: &[(&str, Option<StorageType>)]) -> Symbol {
    let variable = |(name, storage): &(&str, Option<StorageType>)| {
        let code = storage.map(|s| (s as i32).to_string());
        Symbol::variable(name, code.iter().map(|code| ("__storage_type__".to_string(), code.clone())).collect())
    };
    let inputs: Vec<Symbol> = inputs.iter().map(variable).collect();
    AtomicSymbol::new(op, attrs(pairs)).unwrap().compose("op", &inputs, None).unwrap()
}

/// An input of an operator: its shape, its storage type, and whether its gradient is requested.
type StoredInput<'a> = (&'a [i64], StorageType, bool);

/// An operator with the storage types of its output and of the gradients of its inputs.
struct StorageCase<'a> {
    op: &'a str,
    attrs: &'a [(&'a str, &'a str)],
    inputs: &'a [StoredInput<'a>],
    gradients: &'a [StorageType],
    output: StorageType,
}

/// Storage types of gradients and outputs, as MXNet 1.9.1 infers them.
#[test]
fn storage_types_are_inferred() {
    let cases: &[StorageCase<'_>] = &[
        StorageCase {
            op: "dot",
            attrs: &[],
            inputs: &[(&[4, 5], Csr, false), (&[5, 3], RowSparse, true)],
            gradients: &[Dense, RowSparse],
            output: Dense,
        },
        StorageCase {
            op: "Embedding",
            attrs: &[("input_dim", "5"), ("output_dim", "3"), ("sparse_grad", "True")],
            inputs: &[(&[4], Dense, false), (&[5, 3], Dense, true)],
            gradients: &[Dense, RowSparse],
            output: Dense,
        },
        StorageCase {
            op: "elemwise_add",
            attrs: &[],
            inputs: &[(&[4, 3], RowSparse, true), (&[4, 3], RowSparse, true)],
            gradients: &[RowSparse, RowSparse],
            output: RowSparse,
        },
        StorageCase {
            op: "square",
            attrs: &[],
            inputs: &[(&[4, 3], RowSparse, true)],
            gradients: &[RowSparse],
            output: RowSparse,
        },
        StorageCase {
            op: "exp",
            attrs: &[],
            inputs: &[(&[4, 3], RowSparse, true)],
            gradients: &[Dense],
            output: Dense,
        },
        StorageCase {
            op: "_mul_scalar",
            attrs: &[("scalar", "2")],
            inputs: &[(&[4, 3], Csr, true)],
            gradients: &[Csr],
            output: Csr,
        },
        StorageCase {
            op: "cast_storage",
            attrs: &[("stype", "csr")],
            inputs: &[(&[4, 5], Dense, true)],
            gradients: &[Csr],
            output: Csr,
        },
        StorageCase {
            op: "cast_storage",
            attrs: &[("stype", "default")],
            inputs: &[(&[4, 5], Csr, true)],
            gradients: &[Dense],
            output: Dense,
        },
        StorageCase {
            op: "FullyConnected",
            attrs: &[("num_hidden", "3"), ("no_bias", "True")],
            inputs: &[(&[4, 5], Csr, true), (&[3, 5], Dense, true)],
            gradients: &[Dense, Dense],
            output: Dense,
        },
    ];
    let names = ["x", "w"];
    for StorageCase { op, attrs, inputs, gradients, output } in cases {
        for by_attribute in [false, true] {
            let of = |storage: StorageType| by_attribute.then_some(storage);
            let variables: Vec<_> = names.iter().zip(*inputs).map(|(name, x)| (*name, of(x.1))).collect();
            let symbol = on_variables(op, attrs, &variables);
            let given = names.iter().zip(*inputs).filter(|_| !by_attribute);
            let mut simple_bind = SimpleBind {
                shapes: names.iter().zip(*inputs).map(|(name, x)| (name.to_string(), Shape::new(x.0))).collect(),
                storage_types: Some(given.map(|(name, x)| (name.to_string(), x.1)).collect()),
                reqs: inputs.iter().map(|x| if x.2 { Req::Write } else { Req::Null }).collect(),
                ..SimpleBind::default()
            };
            let executor = simple_bind.bind(&symbol).unwrap();
            let types: Vec<_> = executor.stored_args().iter().map(Array::storage_type).collect();
            assert_eq!(types, inputs.iter().map(|x| x.1).collect::<Vec<_>>(), "{op}");
            let found = executor.stored_grads().into_iter().map(|g| g.map_or(Dense, |g| g.storage_type()));
            assert_eq!(found.collect::<Vec<_>>(), *gradients, "gradients of {op} {attrs:?}");
            assert_eq!(executor.output_tensors()[0].storage_type(), Some(*output), "output of {op} {attrs:?}");
        }
    }
}

#[test]
fn sparse_outputs_are_updated_and_gradients_accumulate() {
    let symbol = on_variables("square", &[], &[("x", Some(RowSparse))]);
    let mut simple_bind = SimpleBind {
        shapes: vec![("x".into(), Shape::new(&[4, 2]))],
        storage_types: Some(Vec::new()),
        reqs: vec![Req::Add],
        ..SimpleBind::default()
    };
    let executor = simple_bind.bind(&symbol).unwrap();
    let (x, y) = (executor.stored_args().swap_remove(0), executor.output_tensors()[0].stored().unwrap());
    for seed in [3, 4] {
        let values = numbers(&[4, 2], seed, 3);
        ferromx_ops::sparse::cast::assign(&x, values.clone().into()).unwrap();
        executor.forward(Mode::Training).unwrap();
        let squares: Vec<f32> = values.to_vec::<f32>().unwrap().iter().map(|v| v * v).collect();
        assert_eq!(to_dense(&y).unwrap().to_vec::<f32>().unwrap(), squares);
        let before = to_dense(&executor.stored_grads()[0].clone().unwrap()).unwrap().to_vec::<f32>().unwrap();
        let head = cast(&NDArray::from_slice(&[1f32; 8], &[4, 2]).unwrap().into(), RowSparse).unwrap();
        executor.backward_stored(&[head], Mode::Training, None).unwrap();
        let after = to_dense(&executor.stored_grads()[0].clone().unwrap()).unwrap().to_vec::<f32>().unwrap();
        let added: Vec<f32> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
        assert_eq!(added, values.to_vec::<f32>().unwrap().iter().map(|v| 2.0 * v).collect::<Vec<_>>());
    }
}

#[test]
fn an_incompatible_storage_type_is_an_error() {
    let bind = |symbol: &Symbol, dims: &[i64], storage: &[(&str, StorageType)]| {
        let mut simple_bind = SimpleBind {
            shapes: vec![("x".into(), Shape::new(dims))],
            storage_types: Some(storage.iter().map(|(n, s)| (n.to_string(), *s)).collect()),
            reqs: vec![Req::Null],
            ..SimpleBind::default()
        };
        simple_bind.bind(symbol).map(|_| ())
    };
    let symbol = on_variables("square", &[], &[("x", None)]);
    assert!(bind(&symbol, &[2, 3, 4], &[("x", Csr)]).unwrap_err().to_string().contains("x cannot be csr"));
    bind(&symbol, &[2, 3], &[("y", Csr)]).expect("names that no argument has are ignored");
}

#[test]
fn an_executor_with_sparse_results_is_reshaped() {
    let symbol = on_variables("cast_storage", &[("stype", "csr")], &[("x", None)]);
    let bind = |rows: i64| SimpleBind {
        shapes: vec![("x".to_string(), Shape::new(&[rows, 2]))],
        reqs: vec![Req::Write],
        ..SimpleBind::default()
    };
    let executor = bind(4).bind(&symbol).unwrap();
    let smaller = executor.reshape(ReshapeOptions::default(), &[("x".to_string(), Shape::new(&[3, 2]))]).unwrap();
    let x = smaller.stored_args()[0].dense().unwrap().clone();
    x.copy_from_slice(&[0f32, 1.0, 0.0, 0.0, 2.0, 0.0]).unwrap();
    smaller.forward(Mode::Inference).unwrap();
    let output = smaller.output_tensors()[0].stored().unwrap();
    assert_eq!((output.storage_type(), output.shape()), (Csr, &Shape::new(&[3, 2])));
    let larger = executor.stored_args()[0].dense().unwrap().clone();
    assert_eq!(larger.to_vec::<f32>().unwrap()[..6], [0.0, 1.0, 0.0, 0.0, 2.0, 0.0], "the memory is shared");
}

fn variable(name: &str, storage: StorageType) -> Symbol {
    Symbol::variable(name, attrs(&[("__storage_type__", &(storage as i32).to_string())]))
}

fn apply(op: &str, pairs: &[(&str, &str)], inputs: &[&Symbol]) -> Symbol {
    let inputs: Vec<Symbol> = inputs.iter().map(|s| (*s).clone()).collect();
    AtomicSymbol::new(op, attrs(pairs)).unwrap().compose(op, &inputs, None).unwrap()
}

/// A factorization machine: a linear term, the square of the sum of factors, and the sum of their squares.
fn factorization_machine() -> Symbol {
    let (x, w, v) = (variable("x", Csr), variable("w", RowSparse), variable("v", RowSparse));
    let pairs = apply("square", &[], &[&apply("dot", &[], &[&x, &v])]);
    let sums = apply("_square_sum", &[("axis", "1"), ("keepdims", "True")], &[&v]);
    let squares = apply("dot", &[], &[&apply("square", &[], &[&x]), &sums]);
    let pairs = apply("sum", &[("axis", "1"), ("keepdims", "True")], &[&pairs]);
    let linear = apply("elemwise_add", &[], &[&apply("dot", &[], &[&x, &w]), &pairs]);
    apply("elemwise_sub", &[], &[&linear, &squares])
}

/// The stored rows of an array.
#[derive(Debug, PartialEq)]
struct Rows {
    values: Vec<f32>,
    indices: Vec<i64>,
}

fn rows(array: &Array) -> Rows {
    let components = array.sparse().unwrap().components().unwrap();
    Rows { values: components.data.to_vec().unwrap(), indices: components.indices.to_vec().unwrap() }
}

/// The results of a training step.
struct Step {
    outputs: Vec<f32>,
    /// The rows of each gradient, followed by those of the updated weight.
    rows: Vec<Rows>,
}

/// A training step of a factorization machine on 8 features that are `distance` columns apart.
fn step_of_factorization_machine(distance: i64, optimizer: &'static str) -> Step {
    let num_features = 8 * distance;
    let mut simple_bind = SimpleBind {
        shapes: vec![
            ("x".into(), Shape::new(&[4, num_features])),
            ("w".into(), Shape::new(&[num_features, 1])),
            ("v".into(), Shape::new(&[num_features, 3])),
        ],
        storage_types: Some(Vec::new()),
        reqs: vec![Req::Null, Req::Write, Req::Write],
        ..SimpleBind::default()
    };
    let executor = simple_bind.bind(&factorization_machine()).unwrap();
    let args = executor.stored_args();
    let spread = |a: &Array, dims: &[i64]| {
        let components = a.sparse().unwrap().components().unwrap();
        let indices: Vec<i64> = components.indices.to_vec::<i64>().unwrap().iter().map(|i| i * distance).collect();
        let indices = NDArray::from_slice(&indices, &[indices.len() as i64]).unwrap();
        let shape = Shape::new(dims);
        match components.indptr {
            Some(indptr) => SparseArray::csr(&shape, components.data, indptr, indices).unwrap(),
            None => SparseArray::row_sparse(&shape, components.data, indices).unwrap(),
        }
    };
    for (name, array) in executor.symbol().list_arguments().iter().zip(&args) {
        let (dims, seed, eighths, storage) = match name.as_str() {
            "x" => ([4, 8], 1, 3, Csr),
            "w" => ([8, 1], 2, 6, RowSparse),
            _ => ([8, 3], 3, 4, RowSparse),
        };
        let small = cast(&numbers(&dims, seed, eighths).into(), storage).unwrap();
        array.sparse().unwrap().take(spread(&small, array.shape().dims())).unwrap();
    }
    executor.forward(Mode::Training).unwrap();
    executor.backward(&[numbers(&[4, 1], 9, 8)], Mode::Training).unwrap();
    let mut stored = Vec::new();
    for (weight, gradient) in args.iter().zip(executor.stored_grads()) {
        let Some(gradient) = gradient else { continue };
        let mut inputs = vec![weight.clone(), gradient.clone()];
        if optimizer == "adam_update" {
            let state = || SparseArray::zeros(RowSparse, weight.shape(), DType::F32, Context::default()).unwrap();
            inputs.extend([state().into(), state().into()]);
        }
        let call = OpCall::new(optimizer, &attrs(&[("lr", "0.5")])).unwrap();
        invoke_stored(&call, None, &inputs, std::slice::from_ref(weight)).unwrap();
        stored.extend([rows(&gradient), rows(weight)]);
    }
    Step { outputs: executor.output_tensors()[0].array().unwrap().to_vec().unwrap(), rows: stored }
}

/// A dense copy of an array with 2^43 rows would not fit into memory.
#[test]
fn graphs_of_sparse_arrays_need_memory_for_stored_elements_only() {
    for optimizer in ["sgd_update", "adam_update"] {
        let (small, large) =
            (step_of_factorization_machine(1, optimizer), step_of_factorization_machine(1 << 40, optimizer));
        assert_eq!(small.outputs, large.outputs);
        assert_eq!(small.rows.len(), 4);
        for (small, large) in small.rows.iter().zip(&large.rows) {
            assert!(!small.values.is_empty());
            assert_eq!(small.values, large.values);
            assert_eq!(small.indices.iter().map(|r| r << 40).collect::<Vec<_>>(), large.indices);
        }
    }
}

#[test]
fn lookups_in_row_sparse_tables_read_and_write_rows_only() {
    // The dense table would have 2^40 elements.
    let table_shape = Shape::new(&[i64::from(i32::MAX), 512]);
    let pairs = [("input_dim", "2147483647"), ("output_dim", "512"), ("sparse_grad", "True")];
    let symbol = apply("Embedding", &pairs, &[&variable("ids", Dense), &variable("table", RowSparse)]);
    let mut simple_bind = SimpleBind {
        shapes: vec![("ids".into(), Shape::new(&[3]))],
        storage_types: Some(Vec::new()),
        dtypes: vec![("ids".into(), DType::I32)],
        reqs: vec![Req::Null, Req::Add],
        ..SimpleBind::default()
    };
    let executor = simple_bind.bind(&symbol).unwrap();
    let args = executor.stored_args();
    args[0].dense().unwrap().copy_from_slice(&[2_000_000_000i32, 5, 5]).unwrap();
    let values = numbers(&[2, 512], 4, 8);
    let stored = NDArray::from_slice(&[5i64, 7], &[2]).unwrap();
    args[1].sparse().unwrap().take(SparseArray::row_sparse(&table_shape, values.clone(), stored).unwrap()).unwrap();
    executor.forward(Mode::Training).unwrap();
    let row = &values.to_vec::<f32>().unwrap()[..512];
    assert_eq!(
        executor.output_tensors()[0].array().unwrap().to_vec::<f32>().unwrap(),
        [&[0.0; 512], row, row].concat()
    );
    let head = NDArray::from_slice(&[1f32; 3 * 512], &[3, 512]).unwrap();
    for pass in [1.0, 2.0] {
        executor.backward(std::slice::from_ref(&head), Mode::Training).unwrap();
        let gradient = rows(executor.stored_grads()[1].as_ref().unwrap());
        let values = [[2.0 * pass; 512], [pass; 512]].concat();
        assert_eq!(gradient, Rows { values, indices: vec![5, 2_000_000_000] });
    }
    args[0].dense().unwrap().copy_from_slice(&[-1i32, 5, 5]).unwrap();
    assert!(executor.forward(Mode::Inference).unwrap_err().to_string().contains("index -1 is outside"));
}

/// Every way to request the gradient of a table, in a dense and in a row_sparse array.
#[test]
fn row_sparse_gradients_are_written_and_added_to_arrays_of_any_storage_type() {
    let pairs = [("input_dim", "4"), ("output_dim", "2"), ("sparse_grad", "True")];
    let symbol = apply("Embedding", &pairs, &[&variable("ids", Dense), &variable("table", RowSparse)]);
    let table = cast(&numbers(&[4, 2], 1, 8).into(), RowSparse).unwrap();
    let ids = NDArray::from_slice(&[1f32, 3.0, 1.0], &[3]).unwrap();
    let head = NDArray::from_slice(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2]).unwrap();
    let before = [1f32, 1.0, 0.0, 0.0, 2.0, 2.0, 3.0, 3.0];
    let gradient = [0f32, 0.0, 6.0, 8.0, 0.0, 0.0, 3.0, 4.0];
    for storage in [Dense, RowSparse] {
        for req in [Req::Write, Req::Add] {
            let array = cast(&NDArray::from_slice(&before, &[4, 2]).unwrap().into(), storage).unwrap();
            let bound = BoundStored {
                args: vec![ids.clone().into(), table.clone()],
                grads: vec![None, Some(array.clone())],
                reqs: vec![Req::Null, req],
                aux: vec![],
            };
            let executor = Executor::bind_stored(&symbol, Context::default(), bound, None).unwrap();
            executor.forward(Mode::Training).unwrap();
            executor.backward(std::slice::from_ref(&head), Mode::Training).unwrap();
            let added = if req == Req::Add { before } else { [0.0; 8] };
            let expected: Vec<f32> = gradient.iter().zip(added).map(|(g, b)| g + b).collect();
            assert_eq!(to_dense(&array).unwrap().to_vec::<f32>().unwrap(), expected, "{storage} {req:?}");
        }
    }
}

#[test]
fn an_executor_with_a_sparse_weight_is_reshaped_for_other_batches() {
    let pairs = [("input_dim", "4"), ("output_dim", "2"), ("sparse_grad", "True")];
    let symbol = apply("Embedding", &pairs, &[&variable("ids", Dense), &variable("table", RowSparse)]);
    let mut simple_bind = SimpleBind {
        shapes: vec![("ids".into(), Shape::new(&[3]))],
        storage_types: Some(Vec::new()),
        reqs: vec![Req::Null, Req::Write],
        ..SimpleBind::default()
    };
    let executor = simple_bind.bind(&symbol).unwrap();
    let table = executor.stored_args().swap_remove(1);
    ferromx_ops::sparse::cast::assign(&table, numbers(&[4, 2], 6, 8).into()).unwrap();
    let smaller = executor.reshape(ReshapeOptions::default(), &[("ids".into(), Shape::new(&[2]))]).unwrap();
    smaller.stored_args()[0].dense().unwrap().copy_from_slice(&[3f32, 0.0]).unwrap();
    smaller.forward(Mode::Training).unwrap();
    let weights = to_dense(&table).unwrap().to_vec::<f32>().unwrap();
    let outputs = smaller.output_tensors()[0].array().unwrap().to_vec::<f32>().unwrap();
    assert_eq!(outputs, [&weights[6..], &weights[..2]].concat());
    smaller.backward(&[numbers(&[2, 2], 7, 8)], Mode::Training).unwrap();
    assert_eq!(rows(executor.stored_grads()[1].as_ref().unwrap()).indices, [0, 3], "the gradient is shared");
    let csr = apply("dot", &[], &[&variable("x", Csr), &variable("w", Dense)]);
    let mut simple_bind = SimpleBind {
        shapes: vec![("x".into(), Shape::new(&[4, 3])), ("w".into(), Shape::new(&[3, 2]))],
        storage_types: Some(Vec::new()),
        reqs: vec![Req::Null; 2],
        ..SimpleBind::default()
    };
    let executor = simple_bind.bind(&csr).unwrap();
    let error =
        executor.reshape(ReshapeOptions::default(), &[("x".into(), Shape::new(&[2, 3]))]).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("x is a csr array of shape [4,3]"), "{error}");
}

#[test]
fn sums_of_squares_have_the_values_and_gradients_of_dense_arrays() {
    for (axis, keepdims) in [("0", "False"), ("0", "True"), ("1", "False"), ("1", "True"), ("()", "False")] {
        let results: Vec<_> = [Dense, RowSparse]
            .map(|storage| {
                let symbol =
                    apply("_square_sum", &[("axis", axis), ("keepdims", keepdims)], &[&variable("x", storage)]);
                let x = cast(&numbers(&[6, 3], 3, 3).into(), storage).unwrap();
                let gradient = cast(&numbers(&[6, 3], 4, 8).into(), storage).unwrap();
                let (args, grads) = (vec![x], vec![Some(gradient.clone())]);
                let bound = BoundStored { args, grads, reqs: vec![Req::Write], aux: vec![] };
                let executor = Executor::bind_stored(&symbol, Context::default(), bound, None).unwrap();
                executor.forward(Mode::Training).unwrap();
                let output = executor.output_tensors()[0].stored().unwrap();
                executor.backward(&[numbers(output.shape().dims(), 5, 8)], Mode::Training).unwrap();
                [output, gradient].map(|a| to_dense(&a).unwrap().to_vec::<f32>().unwrap())
            })
            .into();
        assert_eq!(results[0], results[1], "axis {axis}, keepdims {keepdims}");
        assert!(results[0][1].iter().any(|g| g.fract() != 0.0));
    }
}
