//! Key-value stores within one process: they sum the arrays that devices push, update the stored arrays, and return them by pull.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use ferromx_core::context::{Context, DeviceType};
use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::memory;
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

/// The arguments of an updater.
pub struct Update<'k> {
    /// The key.
    pub key: &'k Key,
    /// The key if it is a number; for a name, the number of keys initialized before it.
    pub number: i32,
    /// The sum of the pushed arrays.
    pub pushed: Arc<Tensor>,
    /// The stored array.
    pub stored: Arc<Tensor>,
}

/// Updates a stored array.
pub type Updater = Arc<dyn Fn(Update<'_>) -> Result<()> + Send + Sync>;

/// The device on which stores keep and sum arrays.
const STORE_CONTEXT: Context = Context { device_type: DeviceType::CpuPinned, device_id: 0 };

/// The kinds of stores, each with whether it supports gradient compression.
const KINDS: &[(&str, bool)] = &[
    ("local", false),
    ("local_update_cpu", false),
    ("local_allreduce_cpu", false),
    ("device", true),
    ("local_allreduce_device", true),
];

params! {
    /// Parameters of gradient compression.
    struct CompressionParam {
        /// `none`, or `2bit`, which quantizes each element to threshold, -threshold or 0.
        type_ as "type": String = (String::from("none"));
        /// Threshold of 2-bit quantization.
        threshold: f32 = 0.5;
    }
}

/// The value of a key.
#[derive(Clone)]
struct Value {
    tensor: Arc<Tensor>,
    number: i32,
    /// Shape and type of sums, with which the key was initialized.
    shape: Shape,
    dtype: DType,
}

#[derive(Default)]
struct State {
    values: HashMap<Key, Value>,
    updater: Option<Updater>,
    /// Threshold of gradient compression, if enabled.
    threshold: Option<f32>,
    /// Quantization error that was not pushed yet, by key and device.
    residuals: HashMap<(Key, usize), Vec<f32>>,
}

/// A key-value store.
pub struct KvStore {
    kind: &'static str,
    can_compress: bool,
    state: Mutex<State>,
}

/// Groups arrays by key, in order of the keys' first occurrence.
fn grouped<'t, T>(keys: &[Key], items: &'t [T]) -> Vec<(Key, Vec<&'t T>)> {
    let mut groups: Vec<(Key, Vec<&T>)> = Vec::new();
    let mut indices = HashMap::new();
    for (key, item) in keys.iter().zip(items) {
        let index = *indices.entry(key).or_insert(groups.len());
        match groups.get_mut(index) {
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
    /// Creates an empty store of kind `local` or `device`, or one of their synonyms.
    ///
    /// # Errors
    /// Another kind, such as the distributed ones.
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

    /// The kind of the store.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Initializes new keys with copies of arrays.
    ///
    /// # Errors
    /// A key that exists already; a mix of numbers and names as keys.
    pub fn init(&self, keys: &[Key], arrays: &[Arc<Tensor>]) -> Result<()> {
        check_count(keys, arrays.len())?;
        for (key, array) in keys.iter().zip(arrays) {
            let copy = copy_of(&array.stored()?, STORE_CONTEXT)?;
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
        Err(Error::NotFound(match key {
            Key::Number(_) => format!("key {key} has not been inited: call init first"),
            Key::Name(_) => format!("key {key} doesn't exist. Did you init?"),
        }))
    }

    /// Sums the arrays of each key and updates its stored array, or replaces it if there is no updater.
    ///
    /// # Errors
    /// An unknown key; incompatible or csr arrays; errors of the updater.
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
            // Call the updater without the lock, since it may use the store.
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

    /// The sum of the arrays in new memory. Several arrays are converted to the shape and type of the key's value and to the storage type
    /// of the first array.
    fn sum(&self, key: &Key, value: &Value, arrays: &[&Arc<Tensor>]) -> Result<Array> {
        let mut terms = arrays.iter().map(|a| a.stored()).collect::<Result<Vec<_>>>()?;
        let kind = terms.first().map_or(StorageType::Default, Array::storage_type);
        let is_single = terms.len() == 1;
        for term in &mut terms {
            if is_single {
                let context = if kind == StorageType::Default { term.context() } else { STORE_CONTEXT };
                *term = copy_of(term, context)?;
            } else {
                let converted = zeros(kind, &value.shape, value.dtype, STORE_CONTEXT)?;
                arrays::copy(term, &converted)?;
                *term = converted;
            }
        }
        // Copied, since `compress` takes the lock again.
        let threshold = self.state.lock().threshold;
        if let Some(threshold) = threshold {
            for (device, term) in terms.iter().enumerate() {
                self.compress(key, device, term, threshold)?;
            }
        }
        if is_single {
            return Ok(terms.swap_remove(0));
        }
        let terms: Vec<_> = terms.into_iter().map(|a| Arc::new(Tensor::new(a))).collect();
        unrecorded(false, || call("add_n", std::iter::empty(), &terms, &[]))?[0].stored()
    }

    /// Quantizes elements to threshold, -threshold or 0 and keeps the error for the next push.
    fn compress(&self, key: &Key, device: usize, array: &Array, threshold: f32) -> Result<()> {
        let array = array.dense()?;
        let mut state = self.state.lock();
        let residuals = state.residuals.entry((key.clone(), device)).or_default();
        let more = array.len().saturating_sub(residuals.len());
        memory::reserve(residuals, more);
        residuals.resize(array.len(), 0.0);
        write_slice::<f32, _>(array, |elements| {
            for (x, residual) in elements.iter_mut().zip(residuals) {
                *residual += *x;
                *x = if *residual >= threshold {
                    threshold
                } else if *residual <= -threshold {
                    -threshold
                } else {
                    0.0
                };
                *residual -= *x;
            }
        })
    }

    /// Copies stored arrays to `outputs`, converted to their types and storage types. With `ignore_sparse`, sparse outputs are skipped.
    ///
    /// # Errors
    /// An unknown key; incompatible arrays.
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

    /// Copies the rows with indices `rows` of stored arrays to row_sparse outputs, in ascending order and without duplicates.
    ///
    /// # Errors
    /// An unknown key, or one whose array is not row_sparse; incompatible arrays; row indices out of range.
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
            let kind = stored.storage_type();
            ensure!(
                kind == Some(StorageType::RowSparse),
                "PullRowSparse expects row_sparse src NDArray, but key {key} holds an array of another storage type: use pull"
            );
            let mut wanted = rows.array()?.to_vec_as::<i64>()?;
            wanted.sort_unstable();
            wanted.dedup();
            let ids = NDArray::from_slice(&wanted, &[wanted.len() as i64])?.to_context(stored.stored()?.context())?;
            let inputs = [stored, Arc::new(Tensor::new(ids))];
            let retained = unrecorded(false, || call("_sparse_retain", std::iter::empty(), &inputs, &[]))?;
            arrays::copy(&retained[0].stored()?, &output.stored()?).map_err(|e| located(e, "row_sparse_pull", key))?;
        }
        Ok(())
    }

    /// Pushes arrays, then pulls the results to `outputs`.
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

    /// Initializes keys, then pulls the stored arrays to `outputs`.
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

    /// Sets the updater that `push` calls.
    pub fn set_updater(&self, updater: Updater) {
        self.state.lock().updater = Some(updater);
    }

    /// Sets gradient compression: `type` is `none` or `2bit`, `threshold` is positive. As in MXNet, other parameters are ignored.
    ///
    /// # Errors
    /// Another type or threshold; a store that does not support compression.
    pub fn set_compression(&self, attrs: &Attrs) -> Result<()> {
        let known = attrs.iter().filter(|(key, _)| matches!(key.as_str(), "type" | "threshold"));
        let p = CompressionParam::parse(&known.map(|(key, value)| (key.clone(), value.clone())).collect())?;
        let threshold = match p.type_.as_str() {
            "none" => None,
            "2bit" => Some(p.threshold),
            other => {
                return Err(Error::Param(format!(
                    "Unknown type for gradient compression {other}: the types are none and 2bit"
                )));
            }
        };
        ensure!(
            p.threshold > 0.0,
            "Check failed: params.threshold > 0 ({} vs. 0): threshold must be greater than 0",
            p.threshold
        );
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
            store.pull(&[key("a")], std::slice::from_ref(&out), true).unwrap();
            numbers(&out)
        };
        assert_eq!(round(), [0., 1., -0.5]);
        assert_eq!(round(), [0.5, 1., -0.5]);
    }
}
