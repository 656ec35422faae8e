//! A store of arrays by key, within one process: it sums what devices push, updates, and gives them the result.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use ferromx_core::context::{Context, DeviceType};
use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::params;
use ferromx_core::params::{Attrs, OpParams};
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::write_slice;
use parking_lot::Mutex;

use crate::arrays;
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

/// What an updater is called with.
pub struct Update<'k> {
    /// The key.
    pub key: &'k Key,
    /// The key if it is a number; else how many names were stored before it.
    pub number: i32,
    /// The sum of what was pushed.
    pub pushed: Arc<Tensor>,
    /// What is stored.
    pub stored: Arc<Tensor>,
}

/// Changes a stored array.
pub type Updater = Arc<dyn Fn(Update<'_>) -> Result<()> + Send + Sync>;

/// Where stores keep and sum arrays.
const HOME: Context = Context { device_type: DeviceType::CpuPinned, device_id: 0 };

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

/// What is stored under a key.
#[derive(Clone)]
struct Value {
    tensor: Arc<Tensor>,
    number: i32,
    /// Shape and type of sums, those that the key was initialized with.
    shape: Shape,
    dtype: DType,
}

#[derive(Default)]
struct State {
    values: HashMap<Key, Value>,
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
            let copy = copy_of(&array.stored()?, HOME)?;
            let mut state = self.state.lock();
            if let Some(other) = state.values.keys().next() {
                check_kind(key, other)?;
            }
            ensure!(
                !state.values.contains_key(key),
                "duplicate init of key {key}. Please double check if you called kv.init or kv.broadcast with this key multiple \
                 times; push changes what is stored"
            );
            let number = match key {
                Key::Number(number) => *number,
                Key::Name(_) => state.values.len() as i32,
            };
            let (shape, dtype) = (copy.shape().clone(), copy.dtype());
            state.values.insert(key.clone(), Value { tensor: Arc::new(Tensor::new(copy)), number, shape, dtype });
        }
        Ok(())
    }

    fn value(&self, key: &Key) -> Result<Value> {
        let state = self.state.lock();
        if let Some(value) = state.values.get(key) {
            return Ok(value.clone());
        }
        if let Some(other) = state.values.keys().next() {
            check_kind(key, other)?;
        }
        Err(Error::NotFound(format!("key {key} has not been inited: call init first")))
    }

    /// Sums the arrays of each key and updates what is stored under it, or replaces it if there is no updater.
    ///
    /// # Errors
    /// A key that is not there; arrays that do not fit or are csr; those of the updater.
    pub fn push(&self, keys: &[Key], arrays: &[Arc<Tensor>]) -> Result<()> {
        check_count(keys, arrays.len())?;
        for array in arrays {
            let kind = array.storage_type();
            ensure!(
                kind != Some(StorageType::Csr),
                "Unexpected storage type detected during kvstore push: {}: push dense or row_sparse arrays",
                StorageType::Csr as i32
            );
        }
        for (key, group) in grouped(keys, arrays) {
            let value = self.value(&key)?;
            let sum = self.sum(&key, &value, &group).map_err(|e| located(e, "push", &key))?;
            // The updater is not called under the lock: it may use the store itself.
            let updater = self.state.lock().updater.clone();
            match updater {
                Some(updater) => updater(Update {
                    key: &key,
                    number: value.number,
                    pushed: Arc::new(Tensor::new(sum)),
                    stored: value.tensor,
                })?,
                None => value.tensor.set(sum),
            }
        }
        Ok(())
    }

    /// The sum of some arrays in memory of its own. Several arrays are brought into the shape and type of the key's value and the
    /// storage of the first of them.
    fn sum(&self, key: &Key, value: &Value, arrays: &[&Arc<Tensor>]) -> Result<Array> {
        let mut parts = arrays.iter().map(|a| a.stored()).collect::<Result<Vec<_>>>()?;
        let kind = parts.first().map_or(StorageType::Default, Array::storage_type);
        let single = parts.len() == 1;
        for part in &mut parts {
            if single {
                let context = if kind == StorageType::Default { part.context() } else { HOME };
                *part = copy_of(part, context)?;
            } else {
                let home = zeros(kind, &value.shape, value.dtype, HOME)?;
                arrays::copy(part, &home)?;
                *part = home;
            }
        }
        // Read apart from the loop, which takes the lock again.
        let threshold = self.state.lock().threshold;
        if let Some(threshold) = threshold {
            for (device, part) in parts.iter().enumerate() {
                self.compress(key, device, part, threshold)?;
            }
        }
        if single {
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

    /// Copies what is stored to the arrays, converted to their types and storage. With `ignore_sparse`, sparse arrays are left out.
    ///
    /// # Errors
    /// A key that is not there; arrays that do not fit.
    pub fn pull(&self, keys: &[Key], outputs: &[Arc<Tensor>], ignore_sparse: bool) -> Result<()> {
        check_count(keys, outputs.len())?;
        for (key, output) in keys.iter().zip(outputs) {
            let output = output.stored()?;
            if ignore_sparse && output.storage_type() != StorageType::Default {
                continue;
            }
            let stored = self.value(key)?.tensor.stored()?;
            arrays::copy(&stored, &output).map_err(|e| located(e, "pull", key))?;
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
        for output in outputs {
            let kind = output.stored()?.storage_type();
            ensure!(
                kind == StorageType::RowSparse,
                "Expected row_sparse storage type for row_sparse_pull values, but detected storage type {}",
                kind as i32
            );
        }
        for ((key, output), rows) in keys.iter().zip(outputs).zip(rows) {
            let stored = self.value(key)?.tensor;
            let kept = stored.storage_type();
            ensure!(
                kept == Some(StorageType::RowSparse),
                "PullRowSparse expects row_sparse src NDArray, but key {key} holds an array of another storage type: use pull"
            );
            let mut wanted = rows.array()?.to_vec_as::<i64>()?;
            wanted.sort_unstable();
            wanted.dedup();
            let ids = NDArray::from_slice(&wanted, &[wanted.len() as i64])?.to_context(stored.stored()?.context())?;
            let inputs = [stored, Arc::new(Tensor::new(ids))];
            let part = unrecorded(false, || call("_sparse_retain", std::iter::empty(), &inputs, &[]))?;
            arrays::copy(&part[0].stored()?, &output.stored()?).map_err(|e| located(e, "row_sparse_pull", key))?;
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
        self.pull(out_keys, outputs, true)
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
        self.pull(out_keys, outputs, true)
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
        "Mixed key types are not allowed: key {key} and key {other}: a store has either numbers or names as keys"
    );
    Ok(())
}

/// A copy on a device.
fn copy_of(array: &Array, context: Context) -> Result<Array> {
    Ok(match array {
        Array::Dense(a) => a.to_context(context)?.into(),
        Array::Sparse(a) => a.to_context(context)?.into(),
    })
}

fn zeros(kind: StorageType, shape: &Shape, dtype: DType, context: Context) -> Result<Array> {
    Ok(match kind {
        StorageType::Default => NDArray::zeros(shape, dtype, context)?.into(),
        _ => SparseArray::zeros(kind, shape, dtype, context)?.into(),
    })
}

/// Adds function and key to an error.
fn located(error: Error, function: &'static str, key: &Key) -> Error {
    error.in_operator(&format!("KVStore.{function}"), &key.to_string())
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
        store.set_updater(Arc::new(|update| {
            let Update { pushed, stored, .. } = update;
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
        assert!(error(store.init(&[Key::Number(3)], &[tensor(&[1.])])).contains("duplicate init of key 3"));
        assert!(error(store.init(&[key("a")], &[tensor(&[1.])])).contains("either numbers or names"));
        assert!(error(store.push(&[Key::Number(4)], &[tensor(&[1.])])).contains("key 4 has not been inited"));
        let two = [tensor(&[1., 2.]), tensor(&[1., 2.])];
        assert!(error(store.push(&[Key::Number(3), Key::Number(3)], &two)).contains("operands shape mismatch"));
        assert!(error(store.pull(&[Key::Number(3)], &[tensor(&[1., 2.])], true)).contains("operands shape mismatch"));
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
