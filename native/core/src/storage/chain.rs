//! Chains of elementwise kernels, which run block by block: all kernels on one block, then all on the next, so that intermediate
//! results stay in the cache. This file checks the operands; `blocks` runs the kernels.

use std::ptr::NonNull;
use std::sync::OnceLock;

use smallvec::SmallVec;

use super::chunk::Access;
use super::loops::{FloatLoop, RecordedLoop, RecordedOperand};
use super::ndarray::{NDArray, overlap};
use super::operands::Req;
use super::pages::ALIGN;
use super::region::Region;
use super::replacement::Replacement;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::shape::Shape;

/// An operand of a kernel in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// An array, by its index in the chain.
    Array(usize),
    /// An array of one element, by its index in the chain, which every block reads.
    Scalar(usize),
    /// A scratch buffer, by its index, which holds one block at a time.
    Scratch(usize, DType),
    /// An output that is not wanted.
    Unwanted(DType),
}

/// The operands of one kernel of a chain.
pub struct ChainCall {
    /// Inputs.
    pub ins: Vec<Operand>,
    /// Outputs, each with its request.
    pub outs: Vec<(Operand, Req)>,
    /// Whether the kernel [consists of loops](crate::op::Operator::consists_of_loops()).
    pub consists_of_loops: bool,
}

/// The memory of an operand, from which the view of each block is derived.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) base: Base,
    pub(super) dtype: DType,
}

#[derive(Clone, Copy)]
pub(super) enum Base {
    /// The first element of an array.
    Array(NonNull<u8>),
    /// The only element of an array.
    Scalar(NonNull<u8>),
    /// An offset into the scratch memory.
    Scratch(usize),
    Unwanted,
}

/// An array that is read or written block by block, for prefetching.
pub(super) struct Stream {
    pub(super) first: NonNull<u8>,
    pub(super) element_bytes: usize,
    /// Number of bytes of the next block that each kernel prefetches.
    pub(super) prefetch_bytes: usize,
}

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// The checked operands of one kernel; for each input, the index of the output that shares its memory.
pub(super) struct CheckedCall {
    pub(super) ins: SmallVec<[(Source, Option<usize>); 4]>,
    pub(super) outs: SmallVec<[(Source, Req); 2]>,
    /// Whether the loops of the kernel may be recorded.
    pub(super) is_recordable: bool,
}

/// The recorded loops of a chain.
pub(super) struct Recording {
    /// The loops of each call; `None` if the kernel must be called.
    pub(super) calls: Vec<Option<Vec<ChainLoop>>>,
    /// Constant operands, each of which fills a block of the scratch memory after the scratch buffers.
    pub(super) constants: Vec<f32>,
}

/// A recorded loop and its operands: sources of 32-bit floats, none of which overlaps the output.
pub(super) struct ChainLoop {
    pub(super) body: &'static dyn FloatLoop,
    pub(super) operands: SmallVec<[Base; MAX_LOOP_OPERANDS]>,
    pub(super) out: Base,
}

/// The largest number of operands of a recorded loop.
pub(super) const MAX_LOOP_OPERANDS: usize = 3;

/// The operands of a chain, checked once: arrays of equal lengths and scalars, all locked by one region. An array overlaps a written one
/// only if both are exactly the same memory.
pub struct Chain {
    pub(super) region: u64,
    pub(super) arrays: Vec<NDArray>,
    /// The arrays without the scalars.
    pub(super) streams: Vec<Stream>,
    pub(super) len: usize,
    pub(super) block: usize,
    /// Shapes of a full block, of the last block, which may be shorter, and of a scalar.
    pub(super) shapes: [Shape; 3],
    /// Bytes of the scratch buffers.
    pub(super) buffer_bytes: usize,
    pub(super) calls: Vec<CheckedCall>,
    pub(super) recording: OnceLock<Recording>,
}

// SAFETY: the pointers are into chunks that `arrays` keeps alive, used only under their locks.
unsafe impl Send for Chain {}
// SAFETY: as above.
unsafe impl Sync for Chain {}

impl Chain {
    /// Checks the operands of a chain whose kernels run on blocks of `block` elements.
    ///
    /// # Errors
    /// The arrays differ in length, are not locked by the region, or partially overlap an output; two outputs of one kernel share memory.
    pub fn new(region: &Region, arrays: Vec<NDArray>, calls: &[ChainCall], block: usize) -> Result<Chain> {
        let scalars: Vec<bool> = (0..arrays.len()).map(|i| is_scalar(i, calls)).collect();
        let len = arrays.iter().zip(&scalars).find(|(_, is_scalar)| !**is_scalar).map_or(0, |(array, _)| array.len());
        let lens: Vec<usize> = scalars.iter().map(|is_scalar| if *is_scalar { 1 } else { len }).collect();
        check_arrays(region, &arrays, &lens, calls)?;
        let block = block.clamp(1, len.max(1)).next_multiple_of(ALIGN);
        let (offsets, buffer_bytes) = scratch_layout(calls, block);
        let source = |operand: &Operand| -> Result<Source> {
            Ok(match *operand {
                Operand::Array(i) => {
                    let array = arrays.get(i).ok_or_else(|| invalid("no such array"))?;
                    Source { base: Base::Array(array.start()), dtype: array.dtype() }
                }
                Operand::Scalar(i) => {
                    let array =
                        arrays.get(i).filter(|array| array.len() == 1).ok_or_else(|| invalid("no such scalar"))?;
                    Source { base: Base::Scalar(array.start()), dtype: array.dtype() }
                }
                Operand::Scratch(slot, dtype) => Source { base: Base::Scratch(offsets[slot]), dtype },
                Operand::Unwanted(dtype) => Source { base: Base::Unwanted, dtype },
            })
        };
        let calls: Vec<CheckedCall> = calls.iter().map(|c| check_call(c, &source)).collect::<Result<_>>()?;
        let shapes =
            [block.min(len), len - (len.saturating_sub(1) / block * block), 1].map(|n| Shape::new(&[n as i64]));
        let stream = |array: &NDArray| {
            let element_bytes = array.dtype().size();
            let prefetch_bytes = (block * element_bytes).div_ceil(calls.len().max(1)).next_multiple_of(LINE);
            Stream { first: array.start(), element_bytes, prefetch_bytes }
        };
        let block_arrays = arrays.iter().zip(&scalars).filter(|(_, is_scalar)| !**is_scalar);
        let streams = block_arrays.map(|(array, _)| stream(array)).collect();
        let recording = OnceLock::new();
        Ok(Chain { region: region.id, arrays, streams, len, block, shapes, buffer_bytes, calls, recording })
    }

    /// Replaces an input, if it is one. A chain with other locks is not changed.
    pub fn replace(&mut self, replacement: &Replacement) {
        let [old, new] = replacement.regions;
        if self.region != old {
            return;
        }
        self.arrays.iter_mut().for_each(|array| replacement.apply(array));
        self.streams.iter_mut().for_each(|stream| replacement.apply_to_address(&mut stream.first));
        let inputs = self.calls.iter_mut().flat_map(|call| &mut call.ins).map(|(source, _)| &mut source.base);
        let recorded =
            self.recording.get_mut().into_iter().flat_map(|recording| recording.calls.iter_mut().flatten().flatten());
        for base in inputs.chain(recorded.flat_map(|chain_loop| &mut chain_loop.operands)) {
            if let Base::Array(address) | Base::Scalar(address) = base {
                replacement.apply_to_address(address);
            }
        }
        self.region = new;
    }

    /// Number of elements of each array.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of scratch memory that each thread needs, aligned to 64.
    pub fn scratch_bytes(&self) -> usize {
        let constants = self.recording.get().map_or(0, |recording| recording.constants.len());
        self.buffer_bytes + constants * self.constant_bytes()
    }

    /// Bytes of a block of a constant operand.
    pub(super) fn constant_bytes(&self) -> usize {
        self.block * size_of::<f32>()
    }

    /// Fills the blocks of constant operands in the scratch memory of a thread. Must precede `Block::repeat`.
    ///
    /// # Errors
    /// Scratch memory that is too small or not aligned.
    pub fn fill_constants(&self, scratch: &mut [u8]) -> Result<()> {
        self.check_scratch(scratch)?;
        let Some(Recording { constants, .. }) = self.recording.get() else { return Ok(()) };
        let blocks = scratch[self.buffer_bytes..].chunks_exact_mut(self.constant_bytes());
        for (block, constant) in blocks.zip(constants) {
            let bytes = constant.to_ne_bytes();
            let len = self.block.min(self.len);
            block.as_chunks_mut().0[..len].fill(bytes);
        }
        Ok(())
    }

    pub(super) fn check_scratch(&self, scratch: &[u8]) -> Result<()> {
        if scratch.len() < self.scratch_bytes() || !(scratch.as_ptr() as usize).is_multiple_of(ALIGN) {
            return Err(Error::Internal("the scratch memory of a chain is too small or not aligned".into()));
        }
        Ok(())
    }
}

fn invalid(reason: &str) -> Error {
    Error::Internal(format!("a chain of elementwise kernels: {reason}"))
}

/// The operands of all kernels.
fn operands(calls: &[ChainCall]) -> impl Iterator<Item = &Operand> {
    calls.iter().flat_map(|call| call.ins.iter().chain(call.outs.iter().map(|(operand, _)| operand)))
}

/// True if array `i` is only read as a scalar.
fn is_scalar(i: usize, calls: &[ChainCall]) -> bool {
    !operands(calls).any(|operand| *operand == Operand::Array(i))
}

/// Checks the lengths and locks of arrays, and that an array overlaps a written one only if it is the same memory.
fn check_arrays(region: &Region, arrays: &[NDArray], lens: &[usize], calls: &[ChainCall]) -> Result<()> {
    let mut accesses = vec![Access::Read; arrays.len()];
    for (operand, req) in calls.iter().flat_map(|call| &call.outs) {
        if let (Operand::Array(i), true) = (operand, *req != Req::Null) {
            *accesses.get_mut(*i).ok_or_else(|| invalid("no such array"))? = Access::Write;
        }
    }
    for (i, a) in arrays.iter().enumerate() {
        if a.len() != lens[i] || !region.covers(a, accesses[i]) {
            return Err(invalid("an array has a different length or is not locked"));
        }
        for (_, b) in arrays.iter().enumerate().filter(|(k, _)| *k != i && accesses[*k] == Access::Write) {
            let is_same_memory = a.byte_range() == b.byte_range() && a.dtype() == b.dtype();
            if overlap(a, b) && (!is_same_memory || accesses[i] == Access::Write) {
                return Err(invalid("two arrays overlap"));
            }
        }
    }
    Ok(())
}

/// Offsets of the scratch buffers, and their total size in bytes.
fn scratch_layout(calls: &[ChainCall], block: usize) -> (Vec<usize>, usize) {
    let mut sizes: Vec<usize> = Vec::new();
    for operand in operands(calls) {
        if let Operand::Scratch(slot, dtype) = *operand {
            sizes.resize(sizes.len().max(slot + 1), 0);
            sizes[slot] = sizes[slot].max(dtype.size() * block);
        }
    }
    let slot_ends = sizes.iter().scan(0, |total, size| {
        *total += size;
        Some(*total)
    });
    let offsets = slot_ends.zip(&sizes).map(|(end, size)| end - size).collect();
    (offsets, sizes.iter().sum())
}

/// Checks the operands of one kernel, and whether its loops can be recorded.
fn check_call(call: &ChainCall, source: &dyn Fn(&Operand) -> Result<Source>) -> Result<CheckedCall> {
    let is_same_memory = |a: &Source, b: &Source| match (a.base, b.base) {
        (Base::Array(a), Base::Array(b)) => a == b,
        (Base::Scratch(a), Base::Scratch(b)) => a == b,
        _ => false,
    };
    let mut outs: SmallVec<[(Source, Req); 2]> = SmallVec::new();
    for (operand, req) in &call.outs {
        let out = source(operand)?;
        let wanted = *req != Req::Null;
        if wanted
            && (*operand == Operand::Unwanted(out.dtype)
                || outs.iter().any(|(o, r)| *r != Req::Null && is_same_memory(o, &out)))
        {
            return Err(Error::Internal(
                "an output of a chain was not requested or shares memory with another output".into(),
            ));
        }
        outs.push((out, *req));
    }
    let mut ins: SmallVec<[(Source, Option<usize>); 4]> = SmallVec::new();
    for operand in &call.ins {
        let input = source(operand)?;
        if matches!(input.base, Base::Unwanted) {
            return Err(Error::Internal("an input of a chain was not requested".into()));
        }
        let shared_with = outs.iter().position(|(o, r)| *r != Req::Null && is_same_memory(o, &input));
        if shared_with.is_some_and(|k| outs[k].0.dtype != input.dtype) {
            return Err(Error::Internal("an input of a chain shares memory with an output of a different type".into()));
        }
        ins.push((input, shared_with));
    }
    let are_floats =
        ins.iter().map(|(input, _)| input).chain(outs.iter().map(|(out, _)| out)).all(|x| x.dtype == DType::F32);
    let are_blocks = !ins.iter().any(|(input, shared)| shared.is_some() || matches!(input.base, Base::Scalar(_)));
    let are_written = !outs.iter().any(|(_, req)| *req == Req::Add);
    let is_recordable = call.consists_of_loops && are_floats && are_blocks && are_written;
    Ok(CheckedCall { ins, outs, is_recordable })
}

impl CheckedCall {
    /// Replaces the addresses of recorded loops by operands of the chain: `block` returns the address at which an operand started during
    /// recording. `None` if the loops do not compute all outputs.
    pub(super) fn chain_loops(
        &self,
        loops: Vec<RecordedLoop>,
        block: impl Fn(&Source) -> usize,
        mut constant: impl FnMut(f32) -> Base,
    ) -> Option<Vec<ChainLoop>> {
        let wanted = self.outs.iter().filter(|(_, req)| *req != Req::Null).count();
        let mut chain_loops: Vec<ChainLoop> = Vec::new();
        for RecordedLoop { body, operands, out } in loops {
            let mut bases = SmallVec::new();
            for operand in operands {
                bases.push(match operand {
                    RecordedOperand::Input(address) => {
                        self.ins.iter().find(|(source, _)| block(source) == address)?.0.base
                    }
                    RecordedOperand::Constant(value) => constant(value),
                });
            }
            let (out, _) = self.outs.iter().find(|(source, req)| *req != Req::Null && block(source) == out)?;
            chain_loops.push(ChainLoop { body, operands: bases, out: out.base });
        }
        let fits = chain_loops.iter().all(|chain_loop| chain_loop.operands.len() <= MAX_LOOP_OPERANDS);
        (fits && chain_loops.len() == wanted).then_some(chain_loops)
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chain of {} kernels on {} arrays of {} elements", self.calls.len(), self.arrays.len(), self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::super::operands::{In, Out};
    use super::super::{LoopOperand, LoopRecorder, in_out};
    use super::*;

    #[repr(align(64))]
    struct Memory([u8; 512]);

    fn call(ins: &[Operand], out: Operand) -> ChainCall {
        ChainCall { ins: ins.to_vec(), outs: vec![(out, Req::Write)], consists_of_loops: false }
    }

    #[test]
    fn blocks_cover_all_elements_once() {
        let n = 1000;
        let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let (a, b) = (NDArray::from_slice(&x, &[10, 100]).unwrap(), NDArray::from_slice(&x, &[1000]).unwrap());
        let temporary = Operand::Scratch(0, DType::F32);
        let calls = [
            call(&[Operand::Array(0)], temporary),
            call(&[temporary], temporary),
            call(&[temporary, Operand::Array(1)], Operand::Array(1)),
        ];
        let mut region = Region::new([&a], [&b]);
        let chain = Chain::new(&region, vec![a, b.clone()], &calls, 64).unwrap();
        let mut guard = region.lock();
        let blocks = chain.blocks(&mut guard).unwrap();
        assert_eq!((blocks.num_runs(), chain.scratch_bytes()), (2, 256));
        let mut memory = Memory([0; 512]);
        let mut lens = Vec::new();
        for mut block in std::iter::from_fn(|| blocks.take()).flatten() {
            let twice = |ins: &[In<'_>], outs: &mut [Out<'_>]| {
                let (x, y) = in_out::<f32, f32>(&ins[0], &mut outs[0])?;
                match x {
                    Some(x) => y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x),
                    None => y.iter_mut().for_each(|y| *y *= 2.0),
                }
                Ok(())
            };
            block.call(0, &mut memory.0, twice).unwrap();
            block.call(1, &mut memory.0, twice).unwrap();
            let add = |ins: &[In<'_>], outs: &mut [Out<'_>]| {
                lens.push(outs[0].shape().dim(0));
                let x = ins[0].slice::<f32>()?;
                assert_eq!(ins[1].shared_with(), Some(0));
                outs[0].slice_mut::<f32>()?.iter_mut().zip(x).for_each(|(y, x)| *y += x);
                Ok(())
            };
            block.call(2, &mut memory.0, add).unwrap();
            assert!(block.call(0, &mut memory.0[1..], twice).is_err());
        }
        drop(guard);
        assert_eq!((lens.len(), lens[0], lens[15]), (16, 64, 40));
        assert!(b.to_vec::<f32>().unwrap().iter().zip(&x).all(|(y, x)| *y == 5.0 * x));
    }

    #[test]
    fn every_block_reads_a_scalar() {
        let x: Vec<f32> = (0..200).map(|i| i as f32).collect();
        let (a, b) = (NDArray::from_slice(&x, &[200]).unwrap(), NDArray::from_slice(&[3f32], &[]).unwrap());
        let out = NDArray::from_slice(&x, &[200]).unwrap();
        let scaled = call(&[Operand::Scalar(0), Operand::Array(1)], Operand::Array(2));
        let mut region = Region::new([&a, &b], [&out]);
        let longer = Chain::new(&region, vec![a.clone(), a.clone(), out.clone()], std::slice::from_ref(&scaled), 64);
        assert!(longer.is_err(), "a scalar of 200 elements");
        let chain = Chain::new(&region, vec![b, a, out.clone()], &[scaled], 64).unwrap();
        let mut memory = Memory([0; 512]);
        let mut guard = region.lock();
        let blocks = chain.blocks(&mut guard).unwrap();
        for mut block in std::iter::from_fn(|| blocks.take()).flatten() {
            let multiply = |ins: &[In<'_>], outs: &mut [Out<'_>]| {
                assert_eq!(ins[0].shape().dims(), [1]);
                let (scalar, x) = (ins[0].slice::<f32>()?[0], ins[1].slice::<f32>()?);
                outs[0].slice_mut::<f32>()?.iter_mut().zip(x).for_each(|(y, x)| *y = scalar * x);
                Ok(())
            };
            block.call(0, &mut memory.0, multiply).unwrap();
        }
        drop(guard);
        assert!(out.to_vec::<f32>().unwrap().iter().zip(&x).all(|(y, x)| *y == 3.0 * x));
    }

    #[test]
    fn recorded_loops_are_repeated_on_whole_blocks() {
        struct Product;
        impl FloatLoop for Product {
            fn run(&self, operands: &[&[f32]], out: &mut [f32]) {
                out.iter_mut().enumerate().for_each(|(i, y)| *y = operands.iter().map(|x| x[i]).product());
            }
        }
        let x: Vec<f32> = (0..200).map(|i| i as f32).collect();
        let (a, out) = (NDArray::from_slice(&x, &[200]).unwrap(), NDArray::from_slice(&x, &[200]).unwrap());
        let (temporary, array) = (Operand::Scratch(0, DType::F32), Operand::Array(0));
        let mut calls =
            [call(&[array], temporary), call(&[temporary, array], Operand::Array(1)), call(&[array], temporary)];
        calls[..2].iter_mut().for_each(|call| call.consists_of_loops = true);
        let mut region = Region::new([&a], [&out]);
        let chain = Chain::new(&region, vec![a, out.clone()], &calls, 64).unwrap();
        let mut guard = region.lock();
        let blocks = chain.blocks(&mut guard).unwrap();
        let mut memory = Memory([0; 512]);
        assert!(blocks.is_unrecorded());
        let record = |call: usize, recorder: &LoopRecorder, ins: &[In<'_>], outs: &mut [Out<'_>]| {
            let number = [LoopOperand::Constant(3.0)];
            let operands: Vec<_> = ins.iter().map(LoopOperand::Input).chain(number).collect();
            assert!(call < 2, "the third kernel does not consist of loops");
            recorder.record(&Product, &operands[..2], &outs[0]);
            Ok(())
        };
        blocks.record(&mut memory.0, record).unwrap();
        assert!(!blocks.is_unrecorded());
        assert_eq!(chain.scratch_bytes(), 2 * 256, "one buffer and one constant");
        chain.fill_constants(&mut memory.0).unwrap();
        let mut repeated = Vec::new();
        for mut block in std::iter::from_fn(|| blocks.take()).flatten() {
            repeated.push([0, 1, 2].map(|i| block.repeat(i, &mut memory.0).unwrap()));
        }
        drop(guard);
        assert_eq!(repeated, [[true, true, false], [true, true, false], [true, true, false], [false; 3]]);
        assert_eq!(out.to_vec::<f32>().unwrap()[..192], x.iter().map(|x| 3.0 * x * x).collect::<Vec<_>>()[..192]);
    }

    #[test]
    fn invalid_operands_are_errors() {
        let a = NDArray::from_slice(&[1f32, 2.0, 3.0, 4.0], &[4]).unwrap();
        let (lo, hi, mid) = (a.slice(0, 2).unwrap(), a.slice(2, 4).unwrap(), a.slice(1, 3).unwrap());
        let region = Region::new([], [&a]);
        let copy = [call(&[Operand::Array(0)], Operand::Array(1))];
        assert!(Chain::new(&region, vec![lo.clone(), hi.clone()], &copy, 64).is_ok());
        assert!(Chain::new(&region, vec![lo.clone(), mid], &copy, 64).is_err());
        assert!(Chain::new(&region, vec![lo.clone(), a.clone()], &copy, 64).is_err());
        let twice = ChainCall { ins: vec![], outs: vec![(Operand::Array(0), Req::Write); 2], consists_of_loops: false };
        assert!(Chain::new(&region, vec![lo, hi], &[twice], 64).is_err());
        assert!(Chain::new(&Region::new([], []), vec![a], &[], 64).is_err());
    }
}
