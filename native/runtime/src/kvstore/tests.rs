//! Tests of stores within one process. Those of jobs are in `tests/jobs.rs`.

mod jobs;

use super::*;

fn tensor(numbers: &[f32]) -> Arc<Tensor> {
    Arc::new(Tensor::new(NDArray::from_slice(numbers, &[numbers.len() as i64]).unwrap()))
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.array().unwrap().to_vec().unwrap()
}

fn key(name: &str) -> Key {
    Key::Name(name.into())
}

#[test]
fn pushes_are_summed_and_replace_the_value_or_call_the_updater() {
    let store = KvStore::new("local").unwrap();
    let first = tensor(&[1., 2.]);
    store.init(&[key("a"), key("b")], &[first.clone(), tensor(&[5.])]).unwrap();
    first.array().unwrap().copy_from_slice(&[9f32, 9.]).unwrap();
    let out = tensor(&[0., 0.]);
    store.pull(&[key("a")], std::slice::from_ref(&out)).unwrap();
    assert_eq!(numbers(&out), [1., 2.]);
    store.push(&[key("a"), key("b"), key("a")], &[tensor(&[1., 1.]), tensor(&[7.]), tensor(&[2., 3.])]).unwrap();
    store.pull(&[key("a")], std::slice::from_ref(&out)).unwrap();
    assert_eq!(numbers(&out), [3., 4.]);
    store.set_updater(Arc::new(|update| {
        let Update { pushed, stored, .. } = update;
        call("elemwise_sub", std::iter::empty(), &[stored.clone(), pushed], &[stored]).map(|_| ())
    }));
    let keys = [key("a")];
    let pushed = KeyedArrays { keys: &keys, arrays: &[tensor(&[1., 1.])] };
    store.push_pull(pushed, KeyedArrays { keys: &keys, arrays: std::slice::from_ref(&out) }).unwrap();
    assert_eq!(numbers(&out), [2., 3.]);
}

#[test]
fn invalid_calls_are_errors_that_say_why() {
    let store = KvStore::new("device").unwrap();
    store.init(&[Key::Number(3)], &[tensor(&[1.])]).unwrap();
    let error = |r: Result<()>| r.unwrap_err().to_string();
    assert!(error(store.init(&[Key::Number(3)], &[tensor(&[1.])])).contains("duplicate init of key 3"));
    assert!(error(store.init(&[key("a")], &[tensor(&[1.])])).contains("all numbers or all names"));
    assert!(error(store.push(&[Key::Number(4)], &[tensor(&[1.])])).contains("key 4 has not been inited"));
    let two = [tensor(&[1., 2.]), tensor(&[1., 2.])];
    assert!(error(store.push(&[Key::Number(3), Key::Number(3)], &two)).contains("operands shape mismatch"));
    assert!(error(store.pull(&[Key::Number(3)], &[tensor(&[1., 2.])])).contains("operands shape mismatch"));
    assert!(KvStore::new("dist_async").err().unwrap().to_string().contains("the distributed kinds are dist_sync"));
    let compress = |key: &str, value: &str| {
        let attrs = [("type", "2bit"), (key, value)].map(|(k, v)| (k.to_string(), v.to_string()));
        store.set_compression(&Attrs::from_iter(attrs))
    };
    assert!(error(compress("type", "1bit")).contains("Unknown type for gradient compression 1bit"));
    assert!(error(compress("threshold", "-1")).contains("Check failed: params.threshold > 0 (-1 vs. 0)"));
    assert_eq!(compress("other", "1"), Ok(()));
    let attrs = Attrs::from([("type".to_string(), "2bit".to_string())]);
    assert!(error(KvStore::new("local").unwrap().set_compression(&attrs)).contains("does not compress"));
}

#[test]
fn compression_keeps_the_residual() {
    let store = KvStore::new("device").unwrap();
    store.set_compression(&Attrs::from([("type".to_string(), "2bit".to_string())])).unwrap();
    store.init(&[key("a")], &[tensor(&[0.; 3])]).unwrap();
    let out = tensor(&[0.; 3]);
    let round = || {
        store.push(&[key("a"), key("a")], &[tensor(&[0.3, 0.6, -2.]), tensor(&[0., 0.5, 0.])]).unwrap();
        store.pull(&[key("a")], std::slice::from_ref(&out)).unwrap();
        numbers(&out)
    };
    assert_eq!(round(), [0., 1., -0.5]);
    assert_eq!(round(), [0.5, 1., -0.5]);
}
