//! Operators on sparse arrays give the same results as on dense arrays.
#![allow(clippy::unwrap_used)] // Tests may panic.

use StorageType::{Csr, Default as Dense, RowSparse};
use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::Req;
use ferromx_ops::sparse::cast::{cast, to_dense};
use ferromx_runtime::executor::{BoundStored, Executor, SimpleBind};
use ferromx_runtime::imperative::invoke_stored;
use ferromx_runtime::symbol::{AtomicSymbol, OpCall, Symbol};

const KINDS: [StorageType; 3] = [Dense, RowSparse, Csr];

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
    let outputs = invoke_stored(&call, None, inputs, &[], false).unwrap();
    to_dense(&outputs[0]).unwrap().to_vec().unwrap()
}

/// Checks that every combination of storage types gives the same results as dense arrays.
fn check(op: &'static str, pairs: &[(&str, &str)], inputs: &[NDArray]) {
    let dense: Vec<Array> = inputs.iter().cloned().map(Array::Dense).collect();
    let expected = run(op, pairs, &dense);
    for k in 0..KINDS.len().pow(inputs.len() as u32) {
        let kinds = (0..inputs.len()).map(|i| KINDS[k / KINDS.len().pow(i as u32) % KINDS.len()]);
        let stored: Vec<Array> = dense.iter().zip(kinds).map(|(a, kind)| cast(a, kind).unwrap()).collect();
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
    for kind in KINDS {
        for storage in KINDS {
            let zeros = NDArray::zeros(&Shape::new(&[4, 3]), DType::F32, Context::default()).unwrap();
            let out = cast(&zeros.into(), storage).unwrap();
            let inputs = [cast(&a.clone().into(), kind).unwrap(), cast(&b.clone().into(), kind).unwrap()];
            invoke_stored(&call, None, &inputs, std::slice::from_ref(&out), false).unwrap();
            assert_eq!(out.storage_type(), storage);
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
    invoke_stored(&call, None, &inputs, &[weight.clone().into()], false).unwrap();
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
    executor.forward(true).unwrap();
    let expected = run("dot", &[], &[x.clone().into(), w.into()]);
    assert_eq!(executor.output_tensors()[0].array().unwrap().to_vec::<f32>().unwrap(), expected);
    let head = numbers(&[3, 2], 9, 8);
    executor.backward(std::slice::from_ref(&head), true).unwrap();
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

/// Storage types of gradients and outputs, as MXNet 1.9.1 infers them.
#[test]
fn storage_types_are_inferred() {
    type Case<'a> =
        (&'a str, &'a [(&'a str, &'a str)], &'a [(&'a [i64], StorageType, bool)], &'a [StorageType], StorageType);
    let cases: &[Case<'_>] = &[
        ("dot", &[], &[(&[4, 5], Csr, false), (&[5, 3], RowSparse, true)], &[Dense, RowSparse], Dense),
        (
            "Embedding",
            &[("input_dim", "5"), ("output_dim", "3"), ("sparse_grad", "True")],
            &[(&[4], Dense, false), (&[5, 3], Dense, true)],
            &[Dense, RowSparse],
            Dense,
        ),
        (
            "elemwise_add",
            &[],
            &[(&[4, 3], RowSparse, true), (&[4, 3], RowSparse, true)],
            &[RowSparse, RowSparse],
            RowSparse,
        ),
        ("square", &[], &[(&[4, 3], RowSparse, true)], &[RowSparse], RowSparse),
        ("exp", &[], &[(&[4, 3], RowSparse, true)], &[Dense], Dense),
        ("_mul_scalar", &[("scalar", "2")], &[(&[4, 3], Csr, true)], &[Csr], Csr),
        ("cast_storage", &[("stype", "csr")], &[(&[4, 5], Dense, true)], &[Csr], Csr),
        ("cast_storage", &[("stype", "default")], &[(&[4, 5], Csr, true)], &[Dense], Dense),
        (
            "FullyConnected",
            &[("num_hidden", "3"), ("no_bias", "True")],
            &[(&[4, 5], Csr, true), (&[3, 5], Dense, true)],
            &[Dense, Dense],
            Dense,
        ),
    ];
    let names = ["x", "w"];
    for (op, pairs, inputs, gradients, output) in cases {
        for by_attribute in [false, true] {
            let of = |storage: StorageType| by_attribute.then_some(storage);
            let variables: Vec<_> = names.iter().zip(*inputs).map(|(name, x)| (*name, of(x.1))).collect();
            let symbol = on_variables(op, pairs, &variables);
            let given = names.iter().zip(*inputs).filter(|_| !by_attribute);
            let mut simple_bind = SimpleBind {
                shapes: names.iter().zip(*inputs).map(|(name, x)| (name.to_string(), Shape::new(x.0))).collect(),
                storage_types: Some(given.map(|(name, x)| (name.to_string(), x.1)).collect()),
                reqs: inputs.iter().map(|x| if x.2 { Req::Write } else { Req::Null }).collect(),
                ..SimpleBind::default()
            };
            let executor = simple_bind.bind(&symbol).unwrap();
            let kinds: Vec<_> = executor.stored_args().iter().map(Array::storage_type).collect();
            assert_eq!(kinds, inputs.iter().map(|x| x.1).collect::<Vec<_>>(), "{op}");
            let found = executor.stored_grads().into_iter().map(|g| g.map_or(Dense, |g| g.storage_type()));
            assert_eq!(found.collect::<Vec<_>>(), *gradients, "gradients of {op} {pairs:?}");
            assert_eq!(executor.output_tensors()[0].storage_type(), Some(*output), "output of {op} {pairs:?}");
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
        executor.forward(true).unwrap();
        let squares: Vec<f32> = values.to_vec::<f32>().unwrap().iter().map(|v| v * v).collect();
        assert_eq!(to_dense(&y).unwrap().to_vec::<f32>().unwrap(), squares);
        let before = to_dense(&executor.stored_grads()[0].clone().unwrap()).unwrap().to_vec::<f32>().unwrap();
        let head = cast(&NDArray::from_slice(&[1f32; 8], &[4, 2]).unwrap().into(), RowSparse).unwrap();
        executor.backward_stored(&[head], true).unwrap();
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
        simple_bind.bind(symbol).map(|_| ()).unwrap_err().to_string()
    };
    let symbol = on_variables("square", &[], &[("x", None)]);
    assert!(bind(&symbol, &[2, 3, 4], &[("x", Csr)]).contains("x cannot be csr"));
    assert!(bind(&symbol, &[2, 3], &[("y", Csr)]).contains("there is no argument 'y'"));
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
    let smaller = executor.reshape(false, false, &[("x".to_string(), Shape::new(&[3, 2]))]).unwrap();
    let x = smaller.stored_args()[0].dense().unwrap().clone();
    x.copy_from_slice(&[0f32, 1.0, 0.0, 0.0, 2.0, 0.0]).unwrap();
    smaller.forward(false).unwrap();
    let output = smaller.output_tensors()[0].stored().unwrap();
    assert_eq!((output.storage_type(), output.shape()), (Csr, &Shape::new(&[3, 2])));
    let larger = executor.stored_args()[0].dense().unwrap().clone();
    assert_eq!(larger.to_vec::<f32>().unwrap()[..6], [0.0, 1.0, 0.0, 0.0, 2.0, 0.0], "the memory is shared");
}
