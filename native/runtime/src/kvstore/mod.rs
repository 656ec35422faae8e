//! Key-value stores: they sum the arrays that devices push, update the stored arrays, and copy them to the arrays that devices pull. Stores
//! of kind `dist_sync` sum over all ranks of a [job](Job), each of which stores all values and applies the same updates.
//!
//! - `distributed` exchanges arrays with other ranks, and `bucket` sends gradients of several keys together;
//! - `backward` pushes gradients while a backward pass computes others;
//! - `tree` has the order of additions, which does not depend on the number of ranks;
//! - `job` has the membership in a job, and `collective` its operations over connections that `connect` makes, with the messages of `wire`;
//! - `environment` joins the job that MXNet's environment variables describe, `member` one that a program sets up.

mod backward;
mod bucket;
mod collective;
mod connect;
mod distributed;
mod environment;
mod job;
mod member;
#[cfg(test)]
mod tests;
mod tree;
mod wire;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferromx_core::context::{Context, DeviceType};
use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::memory;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Mode;
use ferromx_core::params;
use ferromx_core::params::{Attrs, OpParams};
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::write_slice;
use ferromx_kernels::quantize::quantize_ternary;
use parking_lot::Mutex;

pub use self::environment::{JobRole, has_job, role, set_environment};
pub use self::job::{Job, JoinOptions};
pub use self::member::Member;

use self::distributed::Distributed;
use crate::imperative::{self, Tensor, call, unrecorded};

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

/// Arrays, each with its key. A key may occur several times.
#[derive(Clone, Copy)]
pub struct KeyedArrays<'a> {
    /// The key of each array.
    pub keys: &'a [Key],
    /// The arrays.
    pub arrays: &'a [Arc<Tensor>],
}

/// Updates a stored array.
pub type Updater = Arc<dyn Fn(Update<'_>) -> Result<()> + Send + Sync>;

/// The device on which stores keep and sum arrays.
const STORE_CONTEXT: Context = Context { device_type: DeviceType::CpuPinned, device_id: 0 };

/// The kinds of stores that several processes share. As in MXNet, they support gradient compression. All of them sum on the CPU.
const DISTRIBUTED_KINDS: &[&str] = &["dist_sync", "dist_device_sync", "dist_sync_device", "dist"];

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

impl Value {
    /// A copy of a pushed array with the shape and type of the value.
    fn converted(&self, array: &Array, storage_type: StorageType) -> Result<Array> {
        let converted: Array = match storage_type {
            StorageType::Default => NDArray::zeros(&self.shape, self.dtype, STORE_CONTEXT)?.into(),
            _ => SparseArray::zeros(storage_type, &self.shape, self.dtype, STORE_CONTEXT)?.into(),
        };
        imperative::copy(array, &converted)?;
        Ok(converted)
    }
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

/// The processes that share a store.
enum Scope {
    /// The devices of this process.
    Local,
    /// The ranks of a job.
    Job(Distributed),
    /// None: the process is a server or scheduler, which stores no values.
    Service(JobRole),
}

/// A key-value store.
pub struct KvStore {
    kind: String,
    scope: Scope,
    /// Whether dropping the store waits for the other ranks.
    waits_at_end: AtomicBool,
    state: Mutex<State>,
}

impl Drop for KvStore {
    fn drop(&mut self) {
        if self.waits_at_end.load(Ordering::Relaxed)
            && let Err(e) = self.barrier()
        {
            log::warn!("a key-value store was closed without the other ranks: {e}");
        }
    }
}

/// Groups arrays by key, in order of the keys' first occurrence.
fn group_by_key<'t, T>(keys: &[Key], items: &'t [T]) -> Vec<(Key, Vec<&'t T>)> {
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

/// Groups the arrays of a push by key.
fn pushed_groups<'t>(keys: &[Key], arrays: &'t [Arc<Tensor>]) -> Result<Vec<(Key, Vec<&'t Arc<Tensor>>)>> {
    check_count(keys, arrays.len())?;
    for array in arrays {
        ensure!(
            array.storage_type() != Some(StorageType::Csr),
            "Unexpected storage type detected during kvstore push: {}: push dense or row_sparse arrays",
            StorageType::Csr as i32
        );
    }
    Ok(group_by_key(keys, arrays))
}

fn check_count(keys: &[Key], arrays: usize) -> Result<()> {
    ensure!(keys.len() == arrays, "{} keys were given for {arrays} arrays", keys.len());
    Ok(())
}

/// What [`KvStore::pull_with_sparse`] does with sparse outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SparseOutputs {
    /// Leaves them unchanged.
    Skip,
    /// Writes them like dense ones.
    Write,
}

impl KvStore {
    /// Creates an empty store. As in MXNet, a kind containing `dist` connects to the distributed job that environment variables describe;
    /// any other kind is local to the process, and compresses gradients if it contains `device`.
    ///
    /// # Errors
    /// A store of GPUs; a distributed kind that is not supported, missing variables, ranks that do not connect in time.
    pub fn new(kind: &str) -> Result<KvStore> {
        if !kind.contains("dist") {
            ensure!(
                !kind.contains("nccl"),
                "compile with USE_NCCL=1 to use nccl: there are no GPUs here, so use 'device'"
            );
            return Ok(KvStore::in_scope(kind, Scope::Local));
        }
        let kind = distributed_kind(kind)?;
        let scope = match environment::role()? {
            JobRole::Worker => Scope::Job(Distributed::new(environment::job()?)),
            role => Scope::Service(role),
        };
        Ok(KvStore::in_scope(kind, scope))
    }

    /// Creates an empty distributed store of a job.
    ///
    /// # Errors
    /// A kind that is not distributed.
    pub fn of_job(job: &Arc<Job>, kind: &str) -> Result<KvStore> {
        Ok(KvStore::in_scope(distributed_kind(kind)?, Scope::Job(Distributed::new(job.clone()))))
    }

    fn in_scope(kind: &str, scope: Scope) -> KvStore {
        KvStore { kind: kind.into(), scope, waits_at_end: AtomicBool::new(false), state: Mutex::default() }
    }

    fn distributed(&self) -> Option<&Distributed> {
        match &self.scope {
            Scope::Job(distributed) => Some(distributed),
            _ => None,
        }
    }

    /// The rank of this process among those that share the store.
    pub fn rank(&self) -> usize {
        self.distributed().map_or(0, |d| d.job.rank())
    }

    /// Number of processes that share the store.
    ///
    /// # Errors
    /// The environment of a server or scheduler lacks the number of workers.
    pub fn num_workers(&self) -> Result<usize> {
        match &self.scope {
            Scope::Local => Ok(1),
            Scope::Job(distributed) => Ok(distributed.job.size()),
            Scope::Service(_) => environment::num_workers(),
        }
    }

    /// Number of workers that are lost or have ended, if `group`, a sum of 1 (scheduler), 2 (servers) and 4 (workers), contains them.
    pub fn num_dead(&self, group: i32) -> usize {
        self.distributed().filter(|_| group & 4 != 0).map_or(0, |d| d.job.num_lost())
    }

    /// Waits for all processes that share the store.
    ///
    /// # Errors
    /// A rank that is lost or silent, by name.
    pub fn barrier(&self) -> Result<()> {
        let Some(distributed) = self.distributed() else { return Ok(()) };
        distributed.send_incomplete_bucket()?;
        distributed.job.barrier()
    }

    /// Sets whether dropping the store waits for the other ranks. It need not, because a dropped store notifies them.
    pub fn set_wait_at_end(&self, wait: bool) {
        self.waits_at_end.store(wait, Ordering::Relaxed);
    }

    /// Runs as a server or scheduler until all workers are connected; returns immediately for other stores.
    ///
    /// # Errors
    /// Missing variables; workers that do not connect in time.
    pub fn serve(&self) -> Result<()> {
        match self.scope {
            Scope::Service(role) => environment::serve(role),
            _ => Ok(()),
        }
    }

    /// Sends a command to servers. There are none: local stores ignore it, as in MXNet.
    ///
    /// # Errors
    /// A distributed store.
    pub fn send_command(&self, command: i32) -> Result<()> {
        match self.scope {
            Scope::Local => Ok(()),
            _ => Err(Error::Unsupported(format!(
                "command {command} cannot be sent: there are no servers, because every worker holds all values. Set the updater or \
                 optimizer of each worker's store instead"
            ))),
        }
    }

    /// The kind of the store.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Initializes new keys with copies of arrays.
    ///
    /// # Errors
    /// A key that exists already; a mix of numbers and names as keys.
    pub fn init(&self, keys: &[Key], arrays: &[Arc<Tensor>]) -> Result<()> {
        check_count(keys, arrays.len())?;
        for (key, array) in keys.iter().zip(arrays) {
            let mut copy = array.stored()?.to_context(STORE_CONTEXT)?;
            self.check_new(key)?;
            match &self.scope {
                Scope::Local => (),
                Scope::Job(job) => copy = job.broadcast(key, copy).map_err(|e| in_function(e, "init", key))?,
                Scope::Service(role) => return Err(no_values(*role)),
            }
            let mut state = self.state.lock();
            let number = match key {
                Key::Number(number) => *number,
                Key::Name(_) => state.values.len() as i32,
            };
            let (shape, dtype) = (copy.shape().clone(), copy.dtype());
            state.values.insert(key.clone(), Value { tensor: Arc::new(Tensor::new(copy)), number, shape, dtype });
        }
        Ok(())
    }

    fn check_new(&self, key: &Key) -> Result<()> {
        let state = self.state.lock();
        if let Some(other) = state.values.keys().next() {
            check_kind(key, other)?;
        }
        ensure!(
            !state.values.contains_key(key),
            "duplicate init of key {key}. Please double check if you called kv.init or kv.broadcast with this key multiple \
             times; use push to change the stored value"
        );
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

    /// Sums the arrays of each key and updates its stored array, or replaces it if there is no updater. The arrays of a distributed store
    /// are the gradients of this rank's shards; their sum is computed in the background and applied when the key is pulled.
    ///
    /// # Errors
    /// An unknown key; incompatible or csr arrays; errors of the updater.
    pub fn push(&self, keys: &[Key], arrays: &[Arc<Tensor>]) -> Result<()> {
        pushed_groups(keys, arrays)?.iter().try_for_each(|(key, group)| self.push_group(key, group))
    }

    /// Pushes the arrays of one key.
    fn push_group(&self, key: &Key, group: &[&Arc<Tensor>]) -> Result<()> {
        let value = self.value(key)?;
        if let Some(distributed) = self.distributed() {
            return self.push_shards(distributed, key, &value, group).map_err(|e| in_function(e, "push", key));
        }
        let sum = self.sum(key, &value, group).map_err(|e| in_function(e, "push", key))?;
        self.apply(key, &value, sum)
    }

    /// Updates a stored array by the sum of the pushed arrays.
    fn apply(&self, key: &Key, value: &Value, sum: Array) -> Result<()> {
        // Call the updater without the lock, because it may use the store.
        let updater = self.state.lock().updater.clone();
        match updater {
            Some(updater) => {
                let (pushed, stored) = (Arc::new(Tensor::new(sum)), value.tensor.clone());
                updater(Update { key, number: value.number, pushed, stored })
            }
            None => {
                value.tensor.set(sum);
                Ok(())
            }
        }
    }

    fn push_shards(&self, job: &Distributed, key: &Key, value: &Value, arrays: &[&Arc<Tensor>]) -> Result<()> {
        // Apply the sum of an earlier push first.
        self.apply_pending(key)?;
        let mut terms = arrays.iter().map(|a| a.stored()).collect::<Result<Vec<_>>>()?;
        let storage_type = terms.first().map_or(StorageType::Default, Array::storage_type);
        let threshold = self.state.lock().threshold;
        for (shard, term) in terms.iter_mut().enumerate() {
            let has_value_type =
                term.storage_type() == storage_type && *term.shape() == value.shape && term.dtype() == value.dtype;
            if !has_value_type || threshold.is_some() {
                *term = value.converted(term, storage_type)?;
            }
            if let Some(threshold) = threshold {
                self.compress(key, shard, term, threshold)?;
            }
        }
        job.push(key, &terms, threshold)
    }

    /// Applies the sums of earlier pushes up to that of a key, in order.
    fn apply_pending(&self, key: &Key) -> Result<()> {
        let Some(distributed) = self.distributed() else { return Ok(()) };
        let _guard = distributed.lock_application();
        while let Some(pending) = distributed.first_pending(key) {
            let value = self.value(&pending.key)?;
            let sum = distributed.sum(&pending).map_err(|e| in_function(e, "pull", key))?;
            distributed.remove(&pending);
            self.apply(&pending.key, &value, sum)?;
        }
        Ok(())
    }

    /// The sum of the arrays in new memory. Several arrays are converted to the shape and type of the key's value and to the storage type
    /// of the first array.
    fn sum(&self, key: &Key, value: &Value, arrays: &[&Arc<Tensor>]) -> Result<Array> {
        let mut terms = arrays.iter().map(|a| a.stored()).collect::<Result<Vec<_>>>()?;
        let storage_type = terms.first().map_or(StorageType::Default, Array::storage_type);
        let is_single = terms.len() == 1;
        for term in &mut terms {
            *term = if is_single {
                let context = if storage_type == StorageType::Default { term.context() } else { STORE_CONTEXT };
                term.to_context(context)?
            } else {
                value.converted(term, storage_type)?
            };
        }
        // Copy the threshold, because `compress` takes the lock again.
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
        unrecorded(Mode::Inference, || call("add_n", std::iter::empty(), &terms, &[]))?[0].stored()
    }

    /// Quantizes elements to threshold, -threshold or 0 and keeps the error for the next push.
    fn compress(&self, key: &Key, device: usize, array: &Array, threshold: f32) -> Result<()> {
        let array = array.dense()?;
        let mut state = self.state.lock();
        let residuals = state.residuals.entry((key.clone(), device)).or_default();
        let num_new = array.len().saturating_sub(residuals.len());
        memory::reserve(residuals, num_new);
        residuals.resize(array.len(), 0.0);
        write_slice::<f32, _>(array, |elements| quantize_ternary(elements, residuals, threshold))
    }

    /// Copies stored arrays to `outputs`, converted to their types and storage types. Sparse outputs are skipped.
    ///
    /// # Errors
    /// An unknown key; incompatible arrays.
    pub fn pull(&self, keys: &[Key], outputs: &[Arc<Tensor>]) -> Result<()> {
        self.pull_with_sparse(keys, outputs, SparseOutputs::Skip)
    }

    /// [`KvStore::pull`] with a choice for sparse outputs.
    ///
    /// # Errors
    /// See [`KvStore::pull`].
    pub fn pull_with_sparse(&self, keys: &[Key], outputs: &[Arc<Tensor>], sparse: SparseOutputs) -> Result<()> {
        check_count(keys, outputs.len())?;
        for (key, output) in keys.iter().zip(outputs) {
            let output = output.stored()?;
            if sparse == SparseOutputs::Skip && output.storage_type() != StorageType::Default {
                continue;
            }
            self.apply_pending(key)?;
            let stored = self.value(key)?.tensor.stored()?;
            imperative::copy(&stored, &output).map_err(|e| in_function(e, "pull", key))?;
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
            let storage_type = output.stored()?.storage_type();
            ensure!(
                storage_type == StorageType::RowSparse,
                "Expected row_sparse storage type for row_sparse_pull values, but detected storage type {}",
                storage_type as i32
            );
        }
        for ((key, output), rows) in keys.iter().zip(outputs).zip(rows) {
            self.apply_pending(key)?;
            let stored = self.value(key)?.tensor;
            ensure!(
                stored.storage_type() == Some(StorageType::RowSparse),
                "PullRowSparse expects row_sparse src NDArray, but key {key} holds an array of another storage type: use pull"
            );
            let inputs = [stored, Arc::new(Tensor::new(rows.array()?))];
            let retained = unrecorded(Mode::Inference, || call("_sparse_retain", std::iter::empty(), &inputs, &[]))?;
            imperative::copy(&retained[0].stored()?, &output.stored()?)
                .map_err(|e| in_function(e, "row_sparse_pull", key))?;
        }
        Ok(())
    }

    /// Pushes arrays, then pulls the results to `outputs`.
    ///
    /// # Errors
    /// See [`KvStore::push`] and [`KvStore::pull`].
    pub fn push_pull(&self, pushed: KeyedArrays<'_>, outputs: KeyedArrays<'_>) -> Result<()> {
        let pushed_keys: HashSet<&Key> = pushed.keys.iter().collect();
        let pulled_keys: HashSet<&Key> = outputs.keys.iter().collect();
        ensure!(pushed_keys == pulled_keys, "pushpull needs the same keys for pushed and pulled arrays");
        self.push(pushed.keys, pushed.arrays)?;
        self.pull(outputs.keys, outputs.arrays)
    }

    /// Initializes keys, then pulls the stored arrays to `outputs`.
    ///
    /// # Errors
    /// See [`KvStore::init`] and [`KvStore::pull`].
    pub fn broadcast(&self, initial: KeyedArrays<'_>, outputs: KeyedArrays<'_>) -> Result<()> {
        self.init(initial.keys, initial.arrays)?;
        self.pull(outputs.keys, outputs.arrays)
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
        let supported = attrs.iter().filter(|(key, _)| matches!(key.as_str(), "type" | "threshold"));
        let p = CompressionParam::parse(&supported.map(|(key, value)| (key.clone(), value.clone())).collect())?;
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
        let can_compress = !matches!(self.scope, Scope::Local) || self.kind.contains("device");
        ensure!(
            threshold.is_none() || can_compress,
            "a key-value store of kind '{}' does not compress gradients: create one of kind 'device' or 'dist_sync'",
            self.kind
        );
        self.state.lock().threshold = threshold;
        Ok(())
    }
}

/// The kind of a distributed store.
fn distributed_kind(kind: &str) -> Result<&'static str> {
    DISTRIBUTED_KINDS.iter().find(|name| **name == kind).copied().ok_or_else(|| {
        Error::Unsupported(format!(
            "key-value stores of kind '{kind}' are not supported: the distributed kinds are {}",
            DISTRIBUTED_KINDS.join(", ")
        ))
    })
}

fn no_values(role: JobRole) -> Error {
    Error::Unsupported(format!(
        "this process is a {role:?} of a distributed job and holds no values: set DMLC_ROLE to worker for training"
    ))
}

/// Checks that two keys are both numbers or both names.
fn check_kind(key: &Key, other: &Key) -> Result<()> {
    ensure!(
        std::mem::discriminant(key) == std::mem::discriminant(other),
        "Mixed key types are not allowed: key {key} and key {other}: the keys of a store must be all numbers or all names"
    );
    Ok(())
}

/// Adds function and key to an error.
fn in_function(error: Error, function: &'static str, key: &Key) -> Error {
    error.in_operator(&format!("KVStore.{function}"), &key.to_string())
}
