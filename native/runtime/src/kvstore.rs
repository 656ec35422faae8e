//! A store of arrays by key, within one process: it sums what devices push, updates, and gives them the result.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::params;
use ferromx_core::params::{Attrs, OpParams};
use ferromx_core::sparse::{Array, StorageType};
use ferromx_core::storage::write_slice;
use parking_lot::Mutex;

use crate::imperative::{Tensor, call, unrecorded};

/// The key of an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A number.
    Number(i32),
    /// A name.
    Name(String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Number(n) => n.fmt(f),
            Key::Name(name) => name.fmt(f),
        }
    }
}

/// Changes a stored array: key, sum of what was pushed, stored array.
pub type Updater = Arc<dyn Fn(&Key, Arc<Tensor>, Arc<Tensor>) -> Result<()> + Send + Sync>;

/// The kinds of stores, each with whether it can compress gradients.
const KINDS: &[(&str, bool)] = &[
    ("local", false),
    ("local_update_cpu", false),
    ("local_allreduce_cpu", false),
    ("device", true),
    ("local_allreduce_device", true),
];

params! {
    /// Parameters of the compression of gradients.
    struct CompressionParam {
        /// `none`, or `2bit`: threshold, -threshold or 0 for each number.
        type_ as "type": String = (String::from("none"));
        /// What has to come together before it is passed on.
        threshold: f32 = 0.5;
    }
}

#[derive(Default)]
struct State {
    values: HashMap<Key, Arc<Tensor>>,
    updater: Option<Updater>,
    /// Threshold of the compression of gradients.
    threshold: Option<f32>,
    /// What compression has kept back, by key and device.
    kept: HashMap<(Key, usize), Vec<f32>>,
}

/// A store.
pub struct KvStore {
    kind: &'static str,
    can_compress: bool,
    state: Mutex<State>,
}

/// Keys, each with all arrays that were given for it, in the order of the first.
fn grouped<'t, T>(keys: &[Key], items: &'t [T]) -> Vec<(Key, Vec<&'t T>)> {
    let mut groups: Vec<(Key, Vec<&T>)> = Vec::new();
    let mut places = HashMap::new();
    for (key, item) in keys.iter().zip(items) {
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(item),
            None => groups.push((key.clone(), vec![item])),
        }
    }
    groups
}

fn check_count(keys: &[Key], arrays: usize) -> Result<()> {
    ensure!(keys.len() == arrays, "{} keys were given for {arrays} arrays", keys.len());
    Ok(())
}

impl KvStore {
    /// Makes an empty store of a kind: `local` and `device`, and their longer names.
    ///
    /// # Errors
    /// Another kind, such as those of several machines.
    pub fn new(kind: &str) -> Result<KvStore> {
        let known = KINDS.iter().find(|(name, _)| *name == kind);
        let Some((kind, can_compress)) = known else {
            let names: Vec<_> = KINDS.iter().map(|(name, _)| *name).collect();
            return Err(Error::Unsupported(format!(
                "a key-value store of kind '{kind}' is not there: this library has {}, all within one process",
                names.join(", ")
            )));
        };
        Ok(KvStore { kind, can_compress: *can_compress, state: Mutex::default() })
    }

    /// The kind that it was made of.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Stores copies of arrays under new keys.
    ///
    /// # Errors
    /// A key that is there already, or keys of both kinds.
    pub fn init(&self, keys: &[Key], arrays: &[Arc<Tensor>]) -> Result<()> {
        check_count(keys, arrays.len())?;
        for (key, array) in keys.iter().zip(arrays) {
            let copy = copy_of(&array.stored()?)?;
            let mut state = self.state.lock();
            ensure!(!state.values.contains_key(key), "key {key} was initialized already: use push to change it");
            if let Some(other) = state.values.keys().next() {
                check_kind(key, other)?;
            }
            state.values.insert(key.clone(), Arc::new(Tensor::new(copy)));
        }
        Ok(())
    }

    fn value(&self, key: &Key) -> Result<Arc<Tensor>> {
        let state = self.state.lock();
        if let Some(value) = state.values.get(key) {
            return Ok(value.clone());
        }
        if let Some(other) = state.values.keys().next() {
            check_kind(key, other)?;
        }
        Err(Error::NotFound(format!("key {key} was not initialized: call init first")))
    }

    /// Sums the arrays of each key and updates what is stored under it, or replaces it if there is no updater.
    ///
    /// # Errors
    /// A key that is not there; arrays that do not fit; those of the updater.
    pub fn push(&self, keys: &[Key], arrays: &[Arc<Tensor>]) -> Result<()> {
        check_count(keys, arrays.len())?;
        for (key, group) in grouped(keys, arrays) {
            let value = self.value(&key)?;
            let sum = self.sum(&key, &group).map_err(|e| e.in_operator("KVStore.push", &key.to_string()))?;
            // The updater is not called under the lock: it may use the store itself.
            let updater = self.state.lock().updater.clone();
            match updater {
                Some(updater) => updater(&key, Arc::new(Tensor::new(sum)), value)?,
                None => {
                    let stored = value.stored()?;
                    ensure!(
                        stored.shape() == sum.shape() && stored.dtype() == sum.dtype(),
                        "key {key} holds {} {}, but {} {} was pushed",
                        stored.shape(),
                        stored.dtype(),
                        sum.shape(),
                        sum.dtype()
                    );
                    value.set(sum);
                }
            }
        }
        Ok(())
    }

    /// The sum of some arrays, in memory of its own, on the first device.
    fn sum(&self, key: &Key, arrays: &[&Arc<Tensor>]) -> Result<Array> {
        let mut parts = arrays.iter().map(|a| a.stored().and_then(|a| copy_of(&a))).collect::<Result<Vec<_>>>()?;
        // Read apart from the loop, which takes the lock again.
        let threshold = self.state.lock().threshold;
        if let Some(threshold) = threshold {
            for (device, part) in parts.iter().enumerate() {
                self.compress(key, device, part, threshold)?;
            }
        }
        if parts.len() == 1 {
            return Ok(parts.swap_remove(0));
        }
        let parts: Vec<_> = parts.into_iter().map(|a| Arc::new(Tensor::new(a))).collect();
        unrecorded(false, || call("add_n", std::iter::empty(), &parts, &[]))?[0].stored()
    }

    /// Replaces numbers by threshold, -threshold and 0 and keeps back the difference.
    fn compress(&self, key: &Key, device: usize, array: &Array, threshold: f32) -> Result<()> {
        let array = array.dense()?;
        let mut state = self.state.lock();
        let kept = state.kept.entry((key.clone(), device)).or_default();
        kept.resize(array.len(), 0.0);
        write_slice::<f32, _>(array, |numbers| {
            for (x, kept) in numbers.iter_mut().zip(kept) {
                *kept += *x;
                *x = if *kept >= threshold {
                    threshold
                } else if *kept <= -threshold {
                    -threshold
                } else {
                    0.0
                };
                *kept -= *x;
            }
        })
    }

    /// Copies what is stored to the arrays. With `ignore_sparse`, keys that hold sparse arrays are left out.
    ///
    /// # Errors
    /// A key that is not there; arrays that do not fit.
    pub fn pull(&self, keys: &[Key], outputs: &[Arc<Tensor>], ignore_sparse: bool) -> Result<()> {
        check_count(keys, outputs.len())?;
        for (key, output) in keys.iter().zip(outputs) {
            let stored = self.value(key)?.stored()?;
            if ignore_sparse && stored.storage_type() != StorageType::Default {
                continue;
            }
            give(&stored, output).map_err(|e| e.in_operator("KVStore.pull", &key.to_string()))?;
        }
        Ok(())
    }

    /// Copies rows of what is stored to sparse arrays: those with the numbers in `rows`, each once, in rising order.
    ///
    /// # Errors
    /// A key that is not there or holds no row_sparse array; arrays that do not fit; rows that are not there.
    pub fn pull_rows(&self, keys: &[Key], outputs: &[Arc<Tensor>], rows: &[Arc<Tensor>]) -> Result<()> {
        check_count(keys, outputs.len())?;
        check_count(keys, rows.len())?;
        for ((key, output), rows) in keys.iter().zip(outputs).zip(rows) {
            let stored = self.value(key)?;
            let kept = stored.storage_type();
            ensure!(
                kept == Some(StorageType::RowSparse),
                "key {key} holds an array that is not row_sparse: use pull instead of row_sparse_pull"
            );
            let mut wanted = rows.array()?.to_vec_as::<i64>()?;
            wanted.sort_unstable();
            wanted.dedup();
            let ids = NDArray::from_slice(&wanted, &[wanted.len() as i64])?.to_context(stored.stored()?.context())?;
            let inputs = [stored, Arc::new(Tensor::new(ids))];
            let part = unrecorded(false, || call("_sparse_retain", std::iter::empty(), &inputs, &[]))?;
            give(&part[0].stored()?, output).map_err(|e| e.in_operator("KVStore.row_sparse_pull", &key.to_string()))?;
        }
        Ok(())
    }

    /// Pushes arrays, then copies what is stored under the keys to others.
    ///
    /// # Errors
    /// Those of [`KvStore::push`] and [`KvStore::pull`].
    pub fn push_pull(
        &self,
        (keys, arrays): (&[Key], &[Arc<Tensor>]),
        (out_keys, outputs): (&[Key], &[Arc<Tensor>]),
    ) -> Result<()> {
        let pushed: HashSet<&Key> = keys.iter().collect();
        let pulled: HashSet<&Key> = out_keys.iter().collect();
        ensure!(pushed == pulled, "pushpull needs the same keys for what is pushed and what is pulled");
        self.push(keys, arrays)?;
        self.pull(out_keys, outputs, false)
    }

    /// Stores arrays under new keys, then copies what is stored to others.
    ///
    /// # Errors
    /// Those of [`KvStore::init`] and [`KvStore::pull`].
    pub fn broadcast(
        &self,
        (keys, arrays): (&[Key], &[Arc<Tensor>]),
        (out_keys, outputs): (&[Key], &[Arc<Tensor>]),
    ) -> Result<()> {
        self.init(keys, arrays)?;
        self.pull(out_keys, outputs, false)
    }

    /// Sets what happens to stored arrays when something is pushed.
    pub fn set_updater(&self, updater: Updater) {
        self.state.lock().updater = Some(updater);
    }

    /// Sets how gradients are compressed: `type` is `none` or `2bit`, `threshold` a positive number.
    ///
    /// # Errors
    /// Another type or threshold; a store of a kind that does not compress.
    pub fn set_compression(&self, attrs: &Attrs) -> Result<()> {
        let p = CompressionParam::parse(attrs)?;
        let threshold = match p.type_.as_str() {
            "none" => None,
            "2bit" => Some(p.threshold),
            other => return Err(Error::Param(format!("compression of type '{other}' is unknown: use none or 2bit"))),
        };
        ensure!(p.threshold > 0.0, "threshold is {}: a positive number was expected", p.threshold);
        ensure!(
            threshold.is_none() || self.can_compress,
            "a key-value store of kind '{}' does not compress gradients: make one of kind 'device'",
            self.kind
        );
        self.state.lock().threshold = threshold;
        Ok(())
    }
}

/// Checks that two keys are both numbers or both names.
fn check_kind(key: &Key, other: &Key) -> Result<()> {
    ensure!(
        std::mem::discriminant(key) == std::mem::discriminant(other),
        "key {key} and key {other}: a store has either numbers or names as keys"
    );
    Ok(())
}

/// A copy on the first device.
fn copy_of(array: &Array) -> Result<Array> {
    let context = Context::default();
    Ok(match array {
        Array::Dense(a) => a.to_context(context)?.into(),
        Array::Sparse(a) => a.to_context(context)?.into(),
    })
}

/// Copies a stored array to one of a user's.
fn give(stored: &Array, output: &Arc<Tensor>) -> Result<()> {
    match (stored, output.stored()?) {
        (Array::Dense(from), Array::Dense(to)) => {
            ensure!(to.shape() == from.shape(), "the output has shape {}, what is stored {}", to.shape(), from.shape());
            to.check_writable()?;
            to.copy_from(from)
        }
        (Array::Sparse(from), Array::Sparse(to)) => to.copy_from(from),
        (from, to) => Err(Error::Value(format!(
            "the output is of storage type {}, but what is stored is {}",
            to.storage_type(),
            from.storage_type()
        ))),
    }
}

#[cfg(test)]
mod tests {
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
    fn pushes_are_summed_and_replace_or_update() {
        let store = KvStore::new("local").unwrap();
        let first = tensor(&[1., 2.]);
        store.init(&[key("a"), key("b")], &[first.clone(), tensor(&[5.])]).unwrap();
        first.array().unwrap().copy_from_slice(&[9f32, 9.]).unwrap();
        let out = tensor(&[0., 0.]);
        store.pull(&[key("a")], std::slice::from_ref(&out), true).unwrap();
        assert_eq!(numbers(&out), [1., 2.]);
        store.push(&[key("a"), key("b"), key("a")], &[tensor(&[1., 1.]), tensor(&[7.]), tensor(&[2., 3.])]).unwrap();
        store.pull(&[key("a")], std::slice::from_ref(&out), true).unwrap();
        assert_eq!(numbers(&out), [3., 4.]);
        store.set_updater(Arc::new(|_, pushed, stored| {
            call("elemwise_sub", std::iter::empty(), &[stored.clone(), pushed], &[stored]).map(|_| ())
        }));
        store.push_pull((&[key("a")], &[tensor(&[1., 1.])]), (&[key("a")], std::slice::from_ref(&out))).unwrap();
        assert_eq!(numbers(&out), [2., 3.]);
    }

    #[test]
    fn mistakes_are_named() {
        let store = KvStore::new("device").unwrap();
        store.init(&[Key::Number(3)], &[tensor(&[1.])]).unwrap();
        let error = |r: Result<()>| r.unwrap_err().to_string();
        assert!(error(store.init(&[Key::Number(3)], &[tensor(&[1.])])).contains("initialized already"));
        assert!(error(store.init(&[key("a")], &[tensor(&[1.])])).contains("either numbers or names"));
        assert!(error(store.push(&[Key::Number(4)], &[tensor(&[1.])])).contains("key 4 was not initialized"));
        assert!(error(store.push(&[Key::Number(3)], &[tensor(&[1., 2.])])).contains("float32 was pushed"));
        assert!(error(store.pull(&[Key::Number(3)], &[tensor(&[1., 2.])], true)).contains("shape"));
        assert!(KvStore::new("dist_sync").err().unwrap().to_string().contains("within one process"));
        let attrs = Attrs::from([("type".to_string(), "2bit".to_string())]);
        assert!(error(KvStore::new("local").unwrap().set_compression(&attrs)).contains("does not compress"));
    }

    #[test]
    fn compression_keeps_back_what_is_small() {
        let store = KvStore::new("device").unwrap();
        store.set_compression(&Attrs::from([("type".to_string(), "2bit".to_string())])).unwrap();
        store.init(&[key("a")], &[tensor(&[0.; 3])]).unwrap();
        let out = tensor(&[0.; 3]);
        let pass = || {
            store.push(&[key("a"), key("a")], &[tensor(&[0.3, 0.6, -2.]), tensor(&[0., 0.5, 0.])]).unwrap();
            store.pull(&[key("a")], std::slice::from_ref(&out), true).unwrap();
            numbers(&out)
        };
        assert_eq!(pass(), [0., 1., -0.5]);
        assert_eq!(pass(), [0.5, 1., -0.5]);
    }
}
