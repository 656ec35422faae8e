//! The distributed part of a store: broadcasts initial values, and sums pushed gradients over all ranks.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::memory;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Mode;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::{read_bytes, write_bytes};
use parking_lot::{Mutex, ReentrantMutex, ReentrantMutexGuard};

use super::bucket::{Bucket, BucketSum, Digest, Layout};
use super::job::Job;
use super::wire::MAX_BODY;
use super::{Key, STORE_CONTEXT};
use crate::imperative::{Tensor, call, unrecorded};

/// A pushed sum that was not yet applied to its key.
pub(super) struct Pending {
    pub(super) key: Key,
    shape: Shape,
    dtype: DType,
    sum: Sum,
}

enum Sum {
    /// Ranges of buckets, whose sums the job computes in the background.
    Buckets(Vec<(Arc<BucketSum>, Range<usize>)>),
    /// An array that was summed at the push.
    Ready(Array),
}

#[derive(Default)]
struct Queue {
    /// The bucket that takes gradients.
    current: Option<Bucket>,
    /// The sums that were not applied yet, in the order of pushes.
    pending: VecDeque<Arc<Pending>>,
}

/// A store's membership in a job.
pub(super) struct Distributed {
    pub(super) job: Arc<Job>,
    id: u64,
    queue: Mutex<Queue>,
    /// Held by the thread that applies sums; reentrant because an updater may use the store.
    applying: ReentrantMutex<()>,
}

impl Distributed {
    pub(super) fn new(job: Arc<Job>) -> Distributed {
        let id = job.new_store();
        Distributed { job, id, queue: Mutex::default(), applying: ReentrantMutex::new(()) }
    }

    fn digest(&self, purpose: &str, key: &Key, array: &Array) -> Digest {
        let description = format!("{key}|{:?}|{}|{}", array.storage_type(), array.shape(), array.dtype());
        Digest::new(purpose).with_number(self.id).with_text(&description)
    }

    /// Broadcasts the content of an array from rank 0.
    pub(super) fn broadcast(&self, key: &Key, array: Array) -> Result<Array> {
        let digest = self.digest("init", key, &array).value();
        match &array {
            Array::Dense(dense) => {
                let total = dense.byte_range().len();
                let own = if self.is_root() { read_bytes(dense, memory::copied) } else { Vec::new() };
                let mut sent = self.all_gather(digest, &own, |rank| if rank == 0 { total } else { 0 })?;
                write_bytes(dense, |bytes| bytes.copy_from_slice(&sent.swap_remove(0)));
                Ok(array)
            }
            Array::Sparse(sparse) => {
                let rows = self.is_root().then(|| Rows::of(sparse)).transpose()?;
                let mut all = self.all_gather_rows(digest, sparse, rows.as_slice(), |rank| usize::from(rank == 0))?;
                Ok(all.swap_remove(0).swap_remove(0).into())
            }
        }
    }

    fn is_root(&self) -> bool {
        self.job.rank() == 0
    }

    /// Gathers bytes of known lengths from all ranks.
    fn all_gather(&self, digest: u64, own: &[u8], len_of: impl Fn(usize) -> usize) -> Result<Vec<Vec<u8>>> {
        let lens: Vec<usize> = (0..self.job.size()).map(len_of).collect();
        let mut gathered = vec![Vec::new(); lens.len()];
        for start in (0..lens.iter().copied().max().unwrap_or(0)).step_by(MAX_BODY) {
            let range = |len: usize| start.min(len)..(start + MAX_BODY).min(len);
            let sent = memory::copied(&own[range(own.len())]);
            let payloads = self.job.gather(digest, sent, lens.iter().map(|len| range(*len).len()).collect())?;
            for (all, payload) in gathered.iter_mut().zip(payloads) {
                memory::reserve(all, payload.len());
                all.extend_from_slice(&payload);
            }
        }
        Ok(gathered)
    }

    /// Gathers row_sparse arrays of the type and shape of `like`; `num_arrays` is the number of arrays of a rank.
    fn all_gather_rows(
        &self,
        digest: u64,
        like: &SparseArray,
        own: &[Rows],
        num_arrays: impl Fn(usize) -> usize,
    ) -> Result<Vec<Vec<SparseArray>>> {
        ensure!(
            like.storage_type() == StorageType::RowSparse,
            "a distributed key-value store holds dense and row_sparse arrays: convert the csr array with tostype first"
        );
        let own_counts: Vec<u8> = own.iter().flat_map(|rows| rows.num_rows.to_le_bytes()).collect();
        let counts = self.all_gather(digest, &own_counts, |rank| 8 * num_arrays(rank))?;
        let num_rows: Vec<Vec<u64>> =
            counts.iter().map(|bytes| bytes.chunks_exact(8).map(read_u64).collect()).collect();
        let dims = like.shape().dims();
        let max_rows = dims.first().copied().unwrap_or(0).max(0) as u64;
        for (rank, counts) in num_rows.iter().enumerate() {
            ensure!(
                counts.iter().all(|n| *n <= max_rows),
                "rank {rank} sent {counts:?} rows of an array of {max_rows}"
            );
        }
        let row_bytes = 8 + dims.iter().skip(1).product::<i64>() as usize * like.dtype().size();
        let bytes: Vec<u8> = own.iter().flat_map(|rows| rows.bytes.iter().copied()).collect();
        let total = |rank: usize| num_rows[rank].iter().map(|n| *n as usize * row_bytes).sum::<usize>();
        let gathered = self.all_gather(digest, &bytes, total)?;
        let read = |(rank, (bytes, counts)): (usize, (&Vec<u8>, &Vec<u64>))| {
            let mut remaining = bytes.as_slice();
            let arrays = counts.iter().map(|n| {
                let (first, others) = remaining.split_at(*n as usize * row_bytes);
                remaining = others;
                Rows { num_rows: *n, bytes: first.to_vec() }.to_array(like)
            });
            let arrays: Result<Vec<_>> = arrays.collect();
            arrays.map_err(|e| Error::Value(format!("rank {rank} sent an invalid row_sparse array: {e}")))
        };
        gathered.iter().zip(&num_rows).enumerate().map(read).collect()
    }

    /// Starts the sum of gradients over all ranks, from those of this rank's shards. All are dense or all row_sparse, of one shape and
    /// type.
    pub(super) fn push(&self, key: &Key, shards: &[Array], threshold: Option<f32>) -> Result<()> {
        let Some(first) = shards.first() else { return Ok(()) };
        let (shape, dtype) = (first.shape().clone(), first.dtype());
        let call_digest = self.digest("push", key, first);
        let sum = match first {
            Array::Dense(_) => {
                ensure!(
                    dtype != DType::Bool,
                    "arrays of bool cannot be summed by a distributed key-value store: convert with Cast first"
                );
                let layout = Layout::new(dtype, shards.len(), threshold, self.job.size());
                Sum::Buckets(self.fill(&layout, call_digest.value(), shards)?)
            }
            Array::Sparse(like) => Sum::Ready(self.sum_rows(call_digest, like, shards)?),
        };
        self.queue.lock().pending.push_back(Arc::new(Pending { key: key.clone(), shape, dtype, sum }));
        Ok(())
    }

    /// Copies gradients into buckets and sends those that are full.
    fn fill(&self, layout: &Layout, call_digest: u64, shards: &[Array]) -> Result<Vec<(Arc<BucketSum>, Range<usize>)>> {
        let arrays = shards.iter().map(Array::dense).collect::<Result<Vec<_>>>()?;
        let total = arrays.first().map_or(0, |a| a.byte_range().len());
        let mut ranges = Vec::new();
        let mut start = 0;
        while start < total {
            let mut queue = self.queue.lock();
            if queue.current.as_ref().is_some_and(|b| b.layout() != layout || b.space() < layout.dtype.size()) {
                send(&mut queue)?;
            }
            let digest = Digest::new("bucket").with_number(self.id);
            let bucket = queue.current.get_or_insert_with(|| Bucket::new(&self.job, layout.clone(), digest));
            let space = bucket.space() / layout.dtype.size() * layout.dtype.size();
            let end = total.min(start + space);
            let bucket_sum = bucket.bucket_sum.clone();
            let added = if let [array] = &arrays[..] {
                read_bytes(array, |bytes| bucket.add(call_digest, &[&bytes[start..end]]))?
            } else {
                let copies: Vec<Vec<u8>> =
                    arrays.iter().map(|a| read_bytes(a, |bytes| memory::copied(&bytes[start..end]))).collect();
                let copies: Vec<&[u8]> = copies.iter().map(Vec::as_slice).collect();
                bucket.add(call_digest, &copies)?
            };
            ranges.push((bucket_sum, added));
            if bucket.space() < layout.dtype.size() {
                send(&mut queue)?;
            }
            start = end;
        }
        Ok(ranges)
    }

    /// The sum of row_sparse arrays over all ranks. Each rank gets all of them, since their rows differ.
    fn sum_rows(&self, call_digest: Digest, like: &SparseArray, shards: &[Array]) -> Result<Array> {
        let own = shards.iter().map(|a| Rows::of(a.sparse()?)).collect::<Result<Vec<_>>>()?;
        let digest = call_digest.with_number(shards.len() as u64).value();
        let gathered = self.all_gather_rows(digest, like, &own, |_| shards.len())?;
        let terms = gathered.into_iter().flatten().map(|a| Arc::new(Tensor::new(a))).collect::<Vec<_>>();
        sum_tensors(&terms)?.stored()
    }

    /// Sends the bucket that takes gradients, even if it is not full.
    pub(super) fn send_incomplete_bucket(&self) -> Result<()> {
        send(&mut self.queue.lock())
    }

    /// Excludes other threads from applying sums.
    pub(super) fn lock_application(&self) -> ReentrantMutexGuard<'_, ()> {
        self.applying.lock()
    }

    /// The next sum to apply, if one for `key` is pending. Sums are applied in the order of pushes.
    pub(super) fn first_pending(&self, key: &Key) -> Option<Arc<Pending>> {
        let queue = self.queue.lock();
        queue.pending.iter().any(|p| p.key == *key).then(|| queue.pending.front().cloned()).flatten()
    }

    /// Waits for a sum.
    pub(super) fn sum(&self, pending: &Pending) -> Result<Array> {
        let ranges = match &pending.sum {
            Sum::Ready(array) => return Ok(array.clone()),
            Sum::Buckets(ranges) => ranges,
        };
        if ranges.iter().any(|(bucket, _)| !bucket.is_sent()) {
            self.send_incomplete_bucket()?;
        }
        let array = NDArray::empty(&pending.shape, pending.dtype, STORE_CONTEXT)?;
        let mut start = 0;
        for (bucket, range) in ranges {
            let sum = bucket.sum()?;
            write_bytes(&array, |bytes| bytes[start..start + range.len()].copy_from_slice(&sum[range.clone()]));
            start += range.len();
        }
        Ok(array.into())
    }

    /// Removes an applied sum.
    pub(super) fn remove(&self, pending: &Arc<Pending>) {
        self.queue.lock().pending.retain(|p| !Arc::ptr_eq(p, pending));
    }
}

fn send(queue: &mut Queue) -> Result<()> {
    queue.current.take().map_or(Ok(()), Bucket::send)
}

/// The sum of arrays, in the order of the summation tree.
fn sum_tensors(terms: &[Arc<Tensor>]) -> Result<Arc<Tensor>> {
    if let [term] = terms {
        return Ok(term.clone());
    }
    let (left, right) = terms.split_at(terms.len().div_ceil(2));
    let pair = [sum_tensors(left)?, sum_tensors(right)?];
    Ok(unrecorded(Mode::Inference, || call("add_n", std::iter::empty(), &pair, &[]))?.remove(0))
}

fn read_u64(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, byte| (n << 8) | u64::from(*byte))
}

/// The stored rows of a row_sparse array: all indices, then all values.
struct Rows {
    num_rows: u64,
    bytes: Vec<u8>,
}

impl Rows {
    fn of(array: &SparseArray) -> Result<Rows> {
        let components = array.components()?;
        let mut bytes = Vec::new();
        for index in components.indices.to_vec_as::<i64>()? {
            bytes.extend(index.to_le_bytes());
        }
        let num_rows = components.indices.len() as u64;
        if num_rows > 0 {
            read_bytes(&components.data, |values| {
                memory::reserve(&mut bytes, values.len());
                bytes.extend_from_slice(values);
            });
        }
        Ok(Rows { num_rows, bytes })
    }

    fn to_array(&self, like: &SparseArray) -> Result<SparseArray> {
        if self.num_rows == 0 {
            return SparseArray::zeros(like.storage_type(), like.shape(), like.dtype(), STORE_CONTEXT);
        }
        let (indices, values) = self.bytes.split_at(8 * self.num_rows as usize);
        let indices: Vec<i64> = indices.chunks_exact(8).map(|bytes| read_u64(bytes) as i64).collect();
        let indices = NDArray::from_slice(&indices, &[indices.len() as i64])?.to_context(STORE_CONTEXT)?;
        let mut dims = like.shape().dims().to_vec();
        dims[0] = self.num_rows as i64;
        let data = NDArray::empty(&Shape::new(&dims), like.dtype(), STORE_CONTEXT)?;
        write_bytes(&data, |bytes| bytes.copy_from_slice(values));
        SparseArray::row_sparse(like.shape(), data, indices)
    }
}
