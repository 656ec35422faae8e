//! Files that MXNet wrote: arrays, networks, and the trained checkpoint of the main job.
#![allow(clippy::panic, clippy::unwrap_used)] // Tests may panic.

use ferromx_runtime::op::Mode;
use std::fs;

use ferromx_conformance::by_node;
use ferromx_conformance::check::network;
use ferromx_conformance::engine::{from_engine, to_engine};
use ferromx_conformance::fixture::{self, Checkpoint, Fixture, StoredParam};
use ferromx_conformance::golden::GoldenArray;
use ferromx_conformance::suite::Known;
use ferromx_conformance::value::{Array, Tolerance};
use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::file_format::{self, Loaded};
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_core::semantics;
use ferromx_core::sparse;
use ferromx_core::storage::Req;
use ferromx_ops::sparse::cast::to_dense;
use ferromx_runtime::executor::{Bound, Executor};
use ferromx_runtime::imperative::{Arrays, invoke};
use ferromx_runtime::symbol::OpCall;
use ferromx_runtime::symbol::Symbol;

fn path(file: &str) -> String {
    fixture::folder().join(file).to_str().unwrap().to_owned()
}

/// Runs a check on its fixtures. Those in `known-differences.txt` must fail, all others must pass.
fn each(check: impl Fn(&Fixture) -> Option<(String, Result<(), String>)>) {
    let known = Known::of_repository().unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (id, result) in fixture::load(&fixture::folder()).unwrap().iter().filter_map(check) {
        count += 1;
        match (result, known.covers(&id)) {
            (Ok(()), true) => wrong.push(format!("{id}: is right now; remove it from known-differences.txt")),
            (Err(message), false) => wrong.push(format!("{id}: {message}")),
            _ => {}
        }
    }
    assert!(count > 10, "only {count} fixtures were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn array_files_load_or_are_refused_as_in_mxnet() {
    each(|f| match f {
        Fixture::Params { id, file, arrays, error } => {
            let loaded = file_format::load(&path(file));
            let result = match (loaded, error) {
                (Ok(_), Some(e)) => Err(format!("was loaded, but must be refused: {}", e.message)),
                (Err(_), Some(_)) => Ok(()),
                (Err(e), None) => Err(e.to_string()),
                (Ok(loaded), None) => same_arrays(&loaded, arrays),
            };
            Some((id.clone(), result))
        }
        _ => None,
    });
}

fn same_arrays(loaded: &Loaded, expected: &[StoredParam]) -> Result<(), String> {
    let names: Vec<&str> = expected.iter().filter_map(|a| a.name.as_deref()).collect();
    if loaded.names != names || loaded.arrays.len() != expected.len() {
        return Err(format!("{} arrays named {:?}, expected {names:?}", loaded.arrays.len(), loaded.names));
    }
    for (given, e) in loaded.arrays.iter().zip(expected) {
        let given = given.as_ref().ok_or_else(|| format!("{:?} is empty", e.name))?;
        if e.storage != given.storage_type().name() {
            return Err(format!("{:?} has storage {}, not {}", e.name, given.storage_type(), e.storage));
        }
        let (data, indices, indptr) = match given {
            sparse::Array::Dense(array) => (array.clone(), None, None),
            sparse::Array::Sparse(array) => {
                let components = array.components().map_err(|e| e.to_string())?;
                (components.data, Some(components.indices), components.indptr)
            }
        };
        let all = [(Some(data), Some(&e.data)), (indices, e.indices.as_ref()), (indptr, e.indptr.as_ref())];
        for (given, expected) in all {
            same_part(given.as_ref(), expected).map_err(|m| format!("{:?}: {m}", e.name))?;
        }
    }
    Ok(())
}

fn same_part(given: Option<&NDArray>, expected: Option<&GoldenArray>) -> Result<(), String> {
    match (given, expected) {
        (Some(given), Some(expected)) => {
            let values = expected.array().ok_or("no values are recorded")?;
            from_engine(given).expect(&values, Tolerance { rtol: 0.0, atol: 0.0 })
        }
        (None, None) => Ok(()),
        _ => Err("has other components".into()),
    }
}

#[test]
fn a_loaded_array_file_is_saved_with_the_same_bytes() {
    for file in [
        "dtypes.params",
        "sparse.params",
        "no-elements.params",
        "unnamed.params",
        "no-arrays.params",
        "lenet-0030.params",
    ] {
        let loaded = file_format::load(&path(file)).unwrap();
        let arrays: Vec<_> = loaded.arrays.into_iter().map(Option::unwrap).collect();
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join(file);
        // The format depends on the shape semantics, with which MXNet wrote this file.
        let before = semantics::set_numpy_shape(file == "no-elements.params");
        file_format::save(copy.to_str().unwrap(), &arrays, &loaded.names).unwrap();
        semantics::set_numpy_shape(before);
        let saved = fs::read(&copy).unwrap();
        assert!(saved == fs::read(path(file)).unwrap(), "{file} changed");
    }
}

#[test]
fn networks_load_or_are_refused_as_in_mxnet() {
    each(|f| match f {
        Fixture::Symbol { id, file, error, .. } => {
            let loaded = Symbol::from_json(&fs::read_to_string(path(file)).unwrap());
            let result = match (loaded, error) {
                (Ok(_), Some(e)) => Err(format!("was loaded, but must be refused: {}", e.message)),
                (Err(_), Some(_)) => Ok(()),
                (Err(e), None) => Err(e.to_string()),
                (Ok(symbol), None) => same_network(&symbol, f),
            };
            Some((id.clone(), result))
        }
        _ => None,
    });
}

fn same_network(symbol: &Symbol, expected: &Fixture) -> Result<(), String> {
    let Fixture::Symbol { arg_names, aux_names, output_names, attr_dict, json, .. } = expected else {
        return Err("no network is expected".to_owned());
    };
    for (what, given, expected) in [
        ("arguments", symbol.list_arguments(), arg_names),
        ("auxiliary states", symbol.list_auxiliary_states(), aux_names),
        ("outputs", symbol.list_outputs(), output_names),
    ] {
        if given != *expected {
            return Err(format!("{what} {given:?}, expected {expected:?}"));
        }
    }
    let attrs = by_node(symbol.list_attr());
    if attrs != *attr_dict {
        return Err(format!("attributes {attrs:?}, expected {attr_dict:?}"));
    }
    let (given, expected) = (network(&symbol.to_json())?, network(json)?);
    if given == expected { Ok(()) } else { Err(format!("is saved as {given}, expected {expected}")) }
}

#[test]
fn networks_that_were_rewritten_for_onednn_predict_what_they_predict_there() {
    let fixtures = fixture::load(&fixture::folder()).unwrap();
    let mut count = 0;
    for fixture in &fixtures {
        let Fixture::Prediction(expected) = fixture else { continue };
        let network = expected.id.strip_prefix("prediction/").unwrap();
        let symbol = Symbol::from_json(&fs::read_to_string(path(&format!("{network}-symbol.json"))).unwrap()).unwrap();
        let loaded = file_format::load(&path(&format!("{network}-0000.params"))).unwrap();
        let args: Vec<NDArray> = (symbol.list_arguments().iter())
            .map(|name| match name.as_str() {
                "data" => to_engine(&expected.data).unwrap(),
                weight => named(&loaded, &format!("arg:{weight}")),
            })
            .collect();
        let aux = symbol.list_auxiliary_states().iter().map(|name| named(&loaded, &format!("aux:{name}"))).collect();
        let bound = Bound { grads: vec![None; args.len()], reqs: vec![Req::Null; args.len()], args, aux };
        let executor = Executor::bind(&symbol, Context::default(), bound, None).unwrap();
        executor.forward(Mode::Inference).unwrap();
        assert_eq!(executor.outputs().len(), expected.outputs.len(), "{network}");
        for (given, expected_output) in executor.outputs().iter().zip(&expected.outputs) {
            let close = Tolerance { rtol: 0.0, atol: expected.atol };
            from_engine(given)
                .expect(&expected_output.array().unwrap(), close)
                .unwrap_or_else(|e| panic!("{network}: {e}"));
        }
        count += 1;
    }
    assert_eq!(count, 4, "in single precision, and with 8-bit integers in three forms");
}

fn checkpoint() -> Checkpoint {
    let fixtures = fixture::load(&fixture::folder()).unwrap();
    let found = fixtures.into_iter().find_map(|f| match f {
        Fixture::Checkpoint(c) => Some(*c),
        _ => None,
    });
    found.expect("the fixtures have a checkpoint")
}

fn named(loaded: &Loaded, name: &str) -> NDArray {
    let index = loaded.names.iter().position(|n| n == name).unwrap_or_else(|| panic!("there is no {name}"));
    to_dense(loaded.arrays[index].as_ref().unwrap()).unwrap()
}

/// The images, scaled as by MNISTIter.
fn scaled(images: &GoldenArray) -> NDArray {
    let values: Vec<f32> = images.bytes.iter().map(|b| f32::from(*b) / 255.0).collect();
    NDArray::from_slice(&values, &images.shape).unwrap()
}

/// The trained network on a batch.
fn bound(images: NDArray, labels: NDArray, req: Req) -> Executor {
    let symbol = Symbol::from_json(&fs::read_to_string(path("lenet-symbol.json")).unwrap()).unwrap();
    let loaded = file_format::load(&path("lenet-0030.params")).unwrap();
    let names = symbol.list_arguments();
    let args: Vec<NDArray> = (names.iter())
        .map(|name| match name.as_str() {
            "data" => images.clone(),
            "softmax_label" => labels.clone(),
            weight => named(&loaded, &format!("arg:{weight}")),
        })
        .collect();
    let reqs: Vec<Req> =
        names.iter().map(|n| if n == "data" || n == "softmax_label" { Req::Null } else { req }).collect();
    let grads = (args.iter().zip(&reqs))
        .map(|(a, r)| (*r != Req::Null).then(|| NDArray::zeros(a.shape(), a.dtype(), Context::default()).unwrap()))
        .collect();
    Executor::bind(&symbol, Context::default(), Bound { args, grads, reqs, aux: Vec::new() }, None).unwrap()
}

#[test]
fn a_checkpoint_of_mxnet_predicts_what_it_predicts_there() {
    let expected = checkpoint();
    let executor = bound(scaled(&expected.images), to_engine(&expected.labels).unwrap(), Req::Null);
    executor.forward(Mode::Inference).unwrap();
    let given = from_engine(&executor.outputs()[0]);
    let probabilities = expected.probabilities.array().unwrap();
    given.expect(&probabilities, Tolerance { rtol: 0.0, atol: 1e-4 }).unwrap();
    let labels = expected.labels.array().unwrap().to_f64();
    let right = given.to_f64().chunks(10).zip(&labels).filter(|(row, label)| best(row) == **label as usize).count();
    let accuracy = right as f64 / labels.len() as f64;
    assert!(
        (accuracy - expected.accuracies[0]).abs() < 1e-6,
        "accuracy {accuracy}, MXNet's {}",
        expected.accuracies[0]
    );
}

fn best(row: &[f64]) -> usize {
    (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap()
}

#[test]
fn one_training_step_changes_the_weights_as_in_mxnet() {
    let expected = checkpoint();
    let executor = bound(scaled(&expected.step_images), to_engine(&expected.step_labels).unwrap(), Req::Write);
    executor.forward(Mode::Training).unwrap();
    executor.backward(&[], Mode::Training).unwrap();
    let step = file_format::load(&path("lenet-0030-step.params")).unwrap();
    let attrs: Attrs = [("lr", "0.05"), ("momentum", "0.9"), ("rescale_grad", "0.03125")]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into_iter()
        .collect();
    let update = OpCall::new("sgd_mom_update", &attrs).unwrap();
    let close = Tolerance { rtol: 1e-4, atol: 1e-6 };
    let mut updated = 0;
    for ((name, weight), grad) in executor.symbol().list_arguments().iter().zip(executor.args()).zip(executor.grads()) {
        let Some(grad) = grad else { continue };
        let momentum = named(&step, &format!("momentum:{name}"));
        let inputs = [weight.clone(), grad.clone(), momentum.clone()];
        invoke(&update, None, &inputs, &mut Arrays::from_iter([weight.clone()])).unwrap();
        for (given, what) in [(weight, "after"), (&momentum, "momentum_after")] {
            let wanted: Array = from_engine(&named(&step, &format!("{what}:{name}")));
            assert_eq!(wanted.dtype, DType::F32);
            from_engine(given).expect(&wanted, close).unwrap_or_else(|e| panic!("{what}:{name}: {e}"));
        }
        updated += 1;
    }
    assert_eq!(updated, 8, "weights and biases of four layers");
}

#[test]
fn mxnet_reaches_the_accuracy_that_the_main_job_is_held_to() {
    let expected = checkpoint();
    let mean = expected.accuracies.iter().sum::<f64>() / expected.accuracies.len() as f64;
    assert!((mean - expected.mean).abs() < 1e-6 && mean >= 0.95, "{mean}");
}
