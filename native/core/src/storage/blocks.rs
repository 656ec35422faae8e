//! Runs the kernels of a chain block by block. Threads may run different blocks at the same time.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::chain::{Base, Chain, ChainLoop, LINE, MAX_LOOP_OPERANDS, Recording, Source, Stream};
use super::loops::{LOOP_MULTIPLE, LoopRecorder};
use super::operand_lists::with_operands;
use super::operands::{In, Out, View};
use super::region::RegionGuard;
use crate::dtype::DType;
use crate::error::{Error, Result};

impl Chain {
    /// Starts a run of the chain.
    ///
    /// # Errors
    /// A guard of another region.
    pub fn blocks<'c>(&'c self, guard: &'c mut RegionGuard<'_>) -> Result<Blocks<'c>> {
        if guard.region.id != self.region {
            return Err(Error::Internal("a chain runs under the locks of another region".into()));
        }
        Ok(Blocks { chain: self, next: AtomicUsize::new(0) })
    }
}

/// Consecutive blocks that one thread takes at a time, so that it can prefetch the next one.
const BLOCKS_PER_RUN: usize = 8;

/// The blocks of a running chain, each of which one thread takes.
pub struct Blocks<'c> {
    chain: &'c Chain,
    next: AtomicUsize,
}

impl<'c> Blocks<'c> {
    /// The number of times that [`Blocks::take`] returns blocks.
    pub fn num_runs(&self) -> usize {
        self.chain.len.div_ceil(self.chain.block * BLOCKS_PER_RUN)
    }

    /// Records the loops of kernels that consist of loops, unless they were recorded before. `kernel(i, recorder, ins, outs)` calls
    /// kernel `i`.
    ///
    /// # Errors
    /// Scratch memory that is too small or not aligned.
    pub fn record(
        &self,
        scratch: &mut [u8],
        kernel: impl Fn(usize, &LoopRecorder, &[In<'_>], &mut [Out<'_>]) -> Result<()>,
    ) -> Result<()> {
        let chain = self.chain;
        chain.check_scratch(scratch)?;
        let memory = NonNull::from(scratch).cast::<u8>();
        let first = Block { chain, range: 0..chain.block.min(chain.len), lifetime: PhantomData };
        chain.recording.get_or_init(|| {
            let mut constants: Vec<f32> = Vec::new();
            let calls = chain.calls.iter().enumerate().map(|(i, call)| {
                let recorder = LoopRecorder::default();
                // If the kernel fails, it is called again for every block and reports its error then.
                if !call.is_recordable
                    || first.with_views(i, memory, |ins, outs| kernel(i, &recorder, ins, outs)).is_err()
                {
                    return None;
                }
                let constant = |value: f32| {
                    let index = constants.iter().position(|c| c.to_bits() == value.to_bits()).unwrap_or_else(|| {
                        constants.push(value);
                        constants.len() - 1
                    });
                    Base::Scratch(chain.buffer_bytes + index * chain.constant_bytes())
                };
                let block = |source: &Source| first.start(source.base, source.dtype, memory).as_ptr() as usize;
                call.chain_loops(recorder.into_loops()?, block, constant)
            });
            Recording { calls: calls.collect(), constants }
        });
        Ok(())
    }

    /// True if [`Blocks::record`] has not run yet.
    pub fn is_unrecorded(&self) -> bool {
        self.chain.recording.get().is_none()
    }

    /// The next run of consecutive blocks, or `None` if all blocks were taken.
    pub fn take(&self) -> Option<impl Iterator<Item = Block<'_>>> {
        let Chain { len, block, .. } = *self.chain;
        let first = self.next.fetch_add(1, Ordering::Relaxed).checked_mul(block * BLOCKS_PER_RUN)?;
        let range = move |start: usize| start..(start + block).min(len);
        let starts = (first..len).step_by(block).take(BLOCKS_PER_RUN);
        (first < len)
            .then(|| starts.map(move |start| Block { chain: self.chain, range: range(start), lifetime: PhantomData }))
    }
}

/// One block of a running chain.
pub struct Block<'b> {
    chain: &'b Chain,
    range: Range<usize>,
    lifetime: PhantomData<&'b mut u8>,
}

impl Block<'_> {
    /// Runs the kernel of index `call` on this block. All kernels of a block get the same `scratch` memory.
    ///
    /// # Errors
    /// Errors of the kernel; scratch memory that is too small or not aligned.
    pub fn call<R>(
        &mut self,
        call: usize,
        scratch: &mut [u8],
        kernel: impl FnOnce(&[In<'_>], &mut [Out<'_>]) -> Result<R>,
    ) -> Result<R> {
        self.chain.check_scratch(scratch)?;
        self.prefetch_next(call);
        self.with_views(call, NonNull::from(scratch).cast(), kernel)
    }

    /// Repeats the recorded loops of the kernel of index `call` on this block. Returns false if the kernel must be called instead.
    ///
    /// # Errors
    /// Scratch memory that is too small or not aligned.
    pub fn repeat(&mut self, call: usize, scratch: &mut [u8]) -> Result<bool> {
        let len = self.range.len();
        let recording = self.chain.recording.get().and_then(|recording| recording.calls[call].as_ref());
        let Some(loops) = recording.filter(|_| len.is_multiple_of(LOOP_MULTIPLE)) else { return Ok(false) };
        self.chain.check_scratch(scratch)?;
        self.prefetch_next(call);
        let memory = NonNull::from(scratch).cast::<u8>();
        let start = |base: Base| self.start(base, DType::F32, memory).cast::<f32>().as_ptr();
        for ChainLoop { body, operands, out } in loops {
            let mut slices: [&[f32]; MAX_LOOP_OPERANDS] = [&[]; MAX_LOOP_OPERANDS];
            for (slice, operand) in slices.iter_mut().zip(operands) {
                // SAFETY: locked, in bounds, aligned, initialized 32-bit floats (`is_recordable`), or a block of a constant in `scratch`.
                *slice = unsafe { std::slice::from_raw_parts(start(*operand), len) };
            }
            // SAFETY: as above, and locked for writing; no operand shares memory with an output (`is_recordable`).
            let out = unsafe { std::slice::from_raw_parts_mut(start(*out), len) };
            body.run(&slices[..operands.len()], out);
        }
        Ok(true)
    }

    /// The address of this block of an operand. `memory` is the scratch memory.
    fn start(&self, base: Base, dtype: DType, memory: NonNull<u8>) -> NonNull<u8> {
        match base {
            // SAFETY: the range lies inside the array, which has `chain.len` elements of this type.
            Base::Array(first) => unsafe { first.add(self.range.start * dtype.size()) },
            // SAFETY: `memory` has at least `scratch_bytes` bytes, which all offsets and blocks fit into.
            Base::Scratch(offset) => unsafe { memory.add(offset) },
            Base::Scalar(element) => element,
            Base::Unwanted => NonNull::<u64>::dangling().cast(),
        }
    }

    /// Calls `kernel` with views of this block.
    fn with_views<R>(
        &self,
        call: usize,
        memory: NonNull<u8>,
        kernel: impl FnOnce(&[In<'_>], &mut [Out<'_>]) -> Result<R>,
    ) -> Result<R> {
        let chain = self.chain;
        let len = self.range.len();
        let shape = &chain.shapes[usize::from(self.range.end == chain.len)];
        let view = |source: &Source| {
            let is_scalar = matches!(source.base, Base::Scalar(_));
            let (shape, len) = if is_scalar { (&chain.shapes[2], 1) } else { (shape, len) };
            View { ptr: self.start(source.base, source.dtype, memory), shape, len, dtype: source.dtype }
        };
        let checked = &chain.calls[call];
        let ins = checked.ins.iter().map(|(p, s)| In { view: view(p), array: None, shared_with: *s });
        let outs = checked.outs.iter().map(|(p, r)| Out { view: view(p), req: *r, lifetime: PhantomData });
        with_operands(ins, outs, |ins, outs| kernel(ins, outs))
    }

    /// Prefetches the share of kernel `call` of the next block, so that memory access overlaps with computation.
    fn prefetch_next(&self, call: usize) {
        let Chain { len, block, ref streams, .. } = *self.chain;
        let next = self.range.end..(self.range.end + block).min(len);
        // The streams alternate: a burst of lines of one stream would occupy all miss buffers.
        let lines = streams.iter().map(|stream| stream.prefetch_bytes / LINE).max().unwrap_or(0);
        for line in 0..lines {
            for &Stream { first, element_bytes, prefetch_bytes } in streams {
                let byte = next.start * element_bytes + call * prefetch_bytes + line * LINE;
                if line * LINE < prefetch_bytes && byte < next.end * element_bytes {
                    prefetch(first.as_ptr().wrapping_add(byte));
                }
            }
        }
    }
}

/// Prefetches a cache line into the L2 cache, since two blocks of each array and the scratch memory do not fit in the L1 cache.
#[inline(always)]
fn prefetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, and it accepts any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) };
    }
    // SAFETY: prefetching reads nothing, and accepts any address. The intrinsic is not stable.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{}]", in(reg) line.addr(), options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}
