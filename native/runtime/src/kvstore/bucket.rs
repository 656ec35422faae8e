//! Buckets: gradients of several keys, or ranges of a large one, that are sent together.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::memory;

use super::collective::{Collective, Payload};
use super::job::Job;
use super::tree;
use super::wire::MAX_BODY;

/// Buckets of at most this many bytes are all-gathered and summed by every rank, which takes one message delay instead of two.
const MAX_WHOLE_BYTES: usize = 32 << 10;
/// Slices begin at multiples of this many bytes, so that elements are not split.
const ALIGNMENT: usize = 64;

/// The encoding of gradients in messages.
#[derive(Clone, Copy, PartialEq)]
enum Encoding {
    /// The bytes in memory.
    Raw,
    /// Two bits for each `float32`: 0, threshold or -threshold.
    TwoBit(f32),
}

impl Encoding {
    fn len(self, bytes: usize) -> usize {
        match self {
            Encoding::Raw => bytes,
            Encoding::TwoBit(_) => (bytes / 4).div_ceil(4),
        }
    }

    fn encode(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            Encoding::Raw => out.extend_from_slice(bytes),
            Encoding::TwoBit(_) => out.extend(bytes.chunks(16).map(|four| {
                let codes = four.chunks_exact(4).map(|x| match f32::from_ne_bytes([x[0], x[1], x[2], x[3]]) {
                    x if x > 0.0 => 1,
                    x if x < 0.0 => 2,
                    _ => 0u8,
                });
                codes.enumerate().fold(0, |byte, (i, code)| byte | (code << (2 * i)))
            })),
        }
    }

    /// The inverse of `encode`, for a result of `len` bytes.
    fn decode(self, bytes: &[u8], len: usize) -> Vec<u8> {
        match self {
            Encoding::Raw => memory::copied(bytes),
            Encoding::TwoBit(threshold) => {
                let values = [0.0, threshold, -threshold, 0.0].map(f32::to_ne_bytes);
                let mut out = memory::with_capacity(len);
                for element in 0..len / 4 {
                    let code = bytes.get(element / 4).map_or(0, |byte| (byte >> (2 * (element % 4))) & 3);
                    out.extend_from_slice(&values[code as usize]);
                }
                out
            }
        }
    }
}

/// The properties of a bucket that must be equal on all ranks.
#[derive(Clone, PartialEq)]
pub(super) struct Layout {
    pub(super) dtype: DType,
    pub(super) shards_per_rank: usize,
    /// Threshold of 2-bit compression.
    pub(super) threshold: Option<f32>,
    size: usize,
    encoding: Encoding,
    /// The nodes of the summation tree whose sums each rank sends.
    nodes: Arc<Vec<Vec<Range<usize>>>>,
}

impl Layout {
    pub(super) fn new(dtype: DType, shards_per_rank: usize, threshold: Option<f32>, size: usize) -> Layout {
        let max_nodes = tree::max_nodes(shards_per_rank, size);
        // Choose the smaller encoding: two bits for each shard, or 32 bits for each node.
        let encoding = match threshold {
            Some(threshold) if dtype == DType::F32 && shards_per_rank <= 16 * max_nodes => Encoding::TwoBit(threshold),
            _ => Encoding::Raw,
        };
        let nodes = (0..size).map(|rank| match encoding {
            Encoding::Raw => tree::nodes_of(rank, shards_per_rank, size),
            Encoding::TwoBit(_) => (rank * shards_per_rank..(rank + 1) * shards_per_rank).map(|s| s..s + 1).collect(),
        });
        Layout { dtype, shards_per_rank, threshold, size, encoding, nodes: Arc::new(nodes.collect()) }
    }

    /// Maximum number of gradient bytes in a bucket, so that no message exceeds its limit.
    fn capacity(&self) -> usize {
        let max_bytes = self.nodes.iter().map(|nodes| nodes.len() * self.encoding.len(ALIGNMENT)).max().unwrap_or(1);
        (MAX_BODY * ALIGNMENT / max_bytes.max(ALIGNMENT)) / ALIGNMENT * ALIGNMENT
    }

    /// The slice of each rank.
    fn slices(&self, len: usize) -> Vec<Range<usize>> {
        let num_units = len.div_ceil(ALIGNMENT);
        let slice_start = |rank: usize| (num_units * rank / self.size * ALIGNMENT).min(len);
        (0..self.size).map(|rank| slice_start(rank)..slice_start(rank + 1)).collect()
    }

    /// Bytes that each rank sends for `len` bytes of gradient.
    fn lens(&self, len: usize) -> Vec<usize> {
        self.nodes.iter().map(|nodes| nodes.len() * self.encoding.len(len)).collect()
    }

    /// The sum over all shards, from the messages of all ranks for `len` bytes of gradient.
    fn sum(&self, len: usize, sent: &[Payload]) -> Result<Vec<u8>> {
        let node_bytes = self.encoding.len(len);
        tree::sum(self.dtype, 0..self.shards_per_rank * self.size, &mut |node| {
            let rank = node.start / self.shards_per_rank;
            let index = self.nodes.get(rank)?.iter().position(|n| n == node)?;
            let bytes = sent.get(rank)?.get(index * node_bytes..(index + 1) * node_bytes)?;
            Some(self.encoding.decode(bytes, len))
        })
    }
}

/// A reference to a bucket, which gives its sum once the job has computed it.
pub(super) struct BucketSum {
    layout: Layout,
    /// Length and operation number, once the bucket is sent.
    sent: OnceLock<Result<(usize, u64)>>,
    sum: OnceLock<Vec<u8>>,
    job: Arc<Job>,
}

impl Drop for BucketSum {
    fn drop(&mut self) {
        if let Some(Ok((_, sequence))) = self.sent.get() {
            self.job.discard(*sequence);
        }
    }
}

impl BucketSum {
    pub(super) fn is_sent(&self) -> bool {
        self.sent.get().is_some()
    }

    /// Waits for the sum.
    pub(super) fn sum(&self) -> Result<&[u8]> {
        if let Some(sum) = self.sum.get() {
            return Ok(sum);
        }
        let not_sent = || Error::Internal("a bucket was not sent".into());
        let (len, sequence) = self.sent.get().cloned().ok_or_else(not_sent)??;
        let payloads = self.job.wait(sequence)?;
        let sum = if is_whole(len, self.layout.size) {
            self.layout.sum(len, &payloads)?
        } else {
            let mut sum = memory::with_capacity(len);
            payloads.iter().for_each(|slice| sum.extend_from_slice(slice));
            sum
        };
        self.job.discard(sequence);
        Ok(self.sum.get_or_init(|| sum))
    }
}

/// Whether a bucket is sent whole to all ranks, instead of one slice to each.
fn is_whole(len: usize, size: usize) -> bool {
    len <= MAX_WHOLE_BYTES || size == 1
}

/// A bucket that still takes gradients.
pub(super) struct Bucket {
    pub(super) bucket_sum: Arc<BucketSum>,
    /// The sum of each node of this rank.
    sums: Vec<Vec<u8>>,
    len: usize,
    digest: Digest,
}

impl Bucket {
    pub(super) fn new(job: &Arc<Job>, layout: Layout, digest: Digest) -> Bucket {
        let sums = vec![Vec::new(); layout.nodes[job.rank()].len()];
        let bucket_sum = BucketSum { layout, sent: OnceLock::new(), sum: OnceLock::new(), job: job.clone() };
        Bucket { bucket_sum: Arc::new(bucket_sum), sums, len: 0, digest }
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.bucket_sum.layout
    }

    /// Remaining bytes.
    pub(super) fn space(&self) -> usize {
        self.layout().capacity() - self.len
    }

    /// Adds the gradients of this rank's shards, of equal length, and returns their range in the sum. `call_digest` must be equal on all
    /// ranks.
    pub(super) fn add(&mut self, call_digest: u64, shards: &[&[u8]]) -> Result<Range<usize>> {
        let len = shards.first().map_or(0, |bytes| bytes.len());
        self.digest = self.digest.with_number(call_digest).with_number(len as u64);
        let layout = self.layout().clone();
        let rank = self.bucket_sum.job.rank();
        let first = rank * layout.shards_per_rank;
        for (node, sums) in layout.nodes[rank].iter().zip(&mut self.sums) {
            if node.len() == 1
                && let Some(bytes) = shards.get(node.start - first)
            {
                memory::reserve(sums, bytes.len());
                sums.extend_from_slice(bytes);
                continue;
            }
            let bytes = tree::sum(layout.dtype, node.clone(), &mut |node| {
                (node.len() == 1).then(|| shards.get(node.start - first).map(|bytes| memory::copied(bytes))).flatten()
            })?;
            memory::reserve(sums, bytes.len());
            sums.extend_from_slice(&bytes);
        }
        self.len += len;
        Ok(self.len - len..self.len)
    }

    /// Sends the bucket.
    pub(super) fn send(self) -> Result<()> {
        let Bucket { bucket_sum, mut sums, len, digest } = self;
        let layout = &bucket_sum.layout;
        let encoded = |sums: &[Vec<u8>], range: Range<usize>| {
            let mut out = memory::with_capacity(sums.len() * layout.encoding.len(range.len()));
            sums.iter().for_each(|sum| layout.encoding.encode(&sum[range.clone()], &mut out));
            out
        };
        let collective = if is_whole(len, layout.size) {
            let own = match (layout.encoding, sums.len()) {
                (Encoding::Raw, 1) => sums.swap_remove(0),
                _ => encoded(&sums, 0..len),
            };
            Collective::AllGather { own, lens: layout.lens(len) }
        } else {
            let slices = layout.slices(len);
            let own: Vec<_> = slices.iter().map(|slice| encoded(&sums, slice.clone())).collect();
            let lens = layout.lens(slices[bucket_sum.job.rank()].len());
            let layout = layout.clone();
            Collective::AllReduce { own, lens, slices, sum: Box::new(move |slice, sent| layout.sum(slice.len(), sent)) }
        };
        let digest = digest.with_number(layout.shards_per_rank as u64).with_number(layout.dtype.code() as u64).value();
        let started = bucket_sum.job.start(digest, collective).map(|sequence| (len, sequence));
        let result = started.clone().map(|_| ());
        bucket_sum.sent.get_or_init(|| started);
        result
    }
}

/// An FNV-1a hash of the properties of a call, which must be equal on all ranks.
#[derive(Clone, Copy)]
pub(super) struct Digest(u64);

impl Digest {
    pub(super) fn new(purpose: &str) -> Digest {
        Digest(0xcbf2_9ce4_8422_2325).with_text(purpose)
    }

    pub(super) fn with_text(self, text: &str) -> Digest {
        let bytes = text.bytes().chain([0xff]);
        Digest(bytes.fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
    }

    pub(super) fn with_number(self, number: u64) -> Digest {
        self.with_text(&number.to_string())
    }

    pub(super) fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_bits_keep_the_quantized_values() {
        let values = [0.5f32, -0.5, 0.0, 0.5, -0.5];
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let encoding = Encoding::TwoBit(0.5);
        let mut codes = Vec::new();
        encoding.encode(&bytes, &mut codes);
        assert_eq!(codes.len(), encoding.len(bytes.len()));
        assert_eq!(encoding.decode(&codes, bytes.len()), bytes);
    }

    #[test]
    fn slices_and_messages_keep_their_limits() {
        for (shards_per_rank, size) in [(1, 1), (1, 3), (2, 3), (3, 2), (7, 5), (64, 2), (5, 48)] {
            for threshold in [None, Some(0.5)] {
                let layout = Layout::new(DType::F32, shards_per_rank, threshold, size);
                let capacity = layout.capacity();
                assert!(capacity >= ALIGNMENT, "{capacity}");
                assert!(layout.lens(capacity).into_iter().all(|len| len <= MAX_BODY));
                let slices = layout.slices(capacity - 4);
                assert_eq!(slices.iter().map(Range::len).sum::<usize>(), capacity - 4);
                assert!(slices.iter().all(|s| s.start % ALIGNMENT == 0 || s.start == capacity - 4));
            }
        }
    }
}
