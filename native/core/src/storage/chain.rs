//! Chains of elementwise kernels, which run block by block: all kernels on one block, then on the next, so that what passes from
//! kernel to kernel stays in the cache. Blocks may run on several threads at once.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use smallvec::SmallVec;

use super::operands::with_operands;
use super::{In, Out, Region, RegionGuard, Req, View, overlap, start};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ndarray::NDArray;
use crate::shape::Shape;

/// An operand of a kernel in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// An array, by its number in the chain.
    Array(usize),
    /// A piece of working memory, by number, which holds one block at a time.
    Scratch(usize, DType),
    /// An output that nobody wants.
    Nobody(DType),
}

/// The operands of one kernel of a chain.
pub struct ChainCall {
    /// Inputs.
    pub ins: Vec<Operand>,
    /// Outputs and what to do with them.
    pub outs: Vec<(Operand, Req)>,
}

/// A view of a block, before it is known which one.
#[derive(Clone, Copy)]
struct Place {
    base: Base,
    dtype: DType,
}

#[derive(Clone, Copy)]
enum Base {
    /// The first element of an array.
    Array(NonNull<u8>),
    /// An offset in the working memory.
    Scratch(usize),
    Nobody,
}

struct Prepared {
    ins: SmallVec<[(Place, Option<usize>); 4]>,
    outs: SmallVec<[(Place, Req); 2]>,
}

/// The operands of a chain, checked once: arrays of one length that a region covers, and which overlap a written one only where
/// they are exactly the same elements.
pub struct Chain {
    region: u64,
    arrays: Vec<NDArray>,
    /// The first byte of each array and the size of its elements.
    starts: Vec<(NonNull<u8>, usize)>,
    len: usize,
    block: usize,
    /// The shapes that kernels see: of a block, and of the last one.
    shapes: [Shape; 2],
    scratch_bytes: usize,
    calls: Vec<Prepared>,
}

// SAFETY: the pointers are into chunks that `arrays` keeps alive, used only under their locks.
unsafe impl Send for Chain {}
// SAFETY: as above.
unsafe impl Sync for Chain {}

impl Chain {
    /// Prepares a chain whose kernels run on blocks of `block` elements.
    ///
    /// # Errors
    /// Arrays of different lengths, outside the region, or that overlap a written one in part; two outputs of one kernel in the
    /// same memory.
    pub fn new(region: &Region, arrays: Vec<NDArray>, calls: &[ChainCall], block: usize) -> Result<Chain> {
        let bad = |what: &str| Error::Internal(format!("a chain of elementwise kernels: {what}"));
        let len = arrays.first().map_or(0, NDArray::len);
        let mut written = vec![false; arrays.len()];
        for (operand, req) in calls.iter().flat_map(|c| &c.outs) {
            if let (Operand::Array(i), true) = (operand, *req != Req::Null) {
                *written.get_mut(*i).ok_or_else(|| bad("no such array"))? = true;
            }
        }
        for (i, a) in arrays.iter().enumerate() {
            if a.len() != len || !region.covers(a, written[i]) {
                return Err(bad("an array of another length, or one that is not locked"));
            }
            for (k, b) in arrays.iter().enumerate().filter(|(k, _)| *k != i && written[*k]) {
                let same = a.byte_range() == b.byte_range() && a.dtype() == b.dtype();
                if overlap(a, b) && (!same || (written[i] && written[k])) {
                    return Err(bad("two arrays overlap"));
                }
            }
        }
        let block = block.clamp(1, len.max(1)).next_multiple_of(super::ALIGN);
        let (offsets, scratch_bytes) = scratch(calls, block);
        let place = |operand: &Operand| -> Result<Place> {
            Ok(match *operand {
                Operand::Array(i) => {
                    let array = arrays.get(i).ok_or_else(|| bad("no such array"))?;
                    Place { base: Base::Array(start(array)), dtype: array.dtype() }
                }
                Operand::Scratch(slot, dtype) => Place { base: Base::Scratch(offsets[slot]), dtype },
                Operand::Nobody(dtype) => Place { base: Base::Nobody, dtype },
            })
        };
        let calls = calls.iter().map(|c| prepare(c, &place)).collect::<Result<_>>()?;
        let shapes = [block.min(len), len - (len.saturating_sub(1) / block * block)].map(|n| Shape::new(&[n as i64]));
        let starts = arrays.iter().map(|array| (start(array), array.dtype().size())).collect();
        Ok(Chain { region: region.id, arrays, starts, len, block, shapes, scratch_bytes, calls })
    }

    /// Elements of every array.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of working memory that each thread needs, aligned to 64.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }

    /// Starts a run.
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

/// Offsets of the pieces of working memory, and the size of all.
fn scratch(calls: &[ChainCall], block: usize) -> (Vec<usize>, usize) {
    let mut sizes: Vec<usize> = Vec::new();
    for operand in calls.iter().flat_map(|c| c.ins.iter().chain(c.outs.iter().map(|(o, _)| o))) {
        if let Operand::Scratch(slot, dtype) = *operand {
            sizes.resize(sizes.len().max(slot + 1), 0);
            sizes[slot] = sizes[slot].max(dtype.size() * block);
        }
    }
    let ends = sizes.iter().scan(0, |total, size| {
        *total += size;
        Some(*total)
    });
    let offsets = ends.zip(&sizes).map(|(end, size)| end - size).collect();
    (offsets, sizes.iter().sum())
}

fn prepare(call: &ChainCall, place: &dyn Fn(&Operand) -> Result<Place>) -> Result<Prepared> {
    let same = |a: &Place, b: &Place| match (a.base, b.base) {
        (Base::Array(a), Base::Array(b)) => a == b,
        (Base::Scratch(a), Base::Scratch(b)) => a == b,
        _ => false,
    };
    let mut outs: SmallVec<[(Place, Req); 2]> = SmallVec::new();
    for (operand, req) in &call.outs {
        let out = place(operand)?;
        let wanted = *req != Req::Null;
        if wanted
            && (*operand == Operand::Nobody(out.dtype) || outs.iter().any(|(o, r)| *r != Req::Null && same(o, &out)))
        {
            return Err(Error::Internal("an output of a chain has no place of its own".into()));
        }
        outs.push((out, *req));
    }
    let mut ins: SmallVec<[(Place, Option<usize>); 4]> = SmallVec::new();
    for operand in &call.ins {
        let input = place(operand)?;
        if matches!(input.base, Base::Nobody) {
            return Err(Error::Internal("an input of a chain has no place".into()));
        }
        let shared_with = outs.iter().position(|(o, r)| *r != Req::Null && same(o, &input));
        if shared_with.is_some_and(|k| outs[k].0.dtype != input.dtype) {
            return Err(Error::Internal("an input of a chain shares memory with an output of another type".into()));
        }
        ins.push((input, shared_with));
    }
    Ok(Prepared { ins, outs })
}

/// Neighbouring blocks that one thread computes one after the other, so that it knows which one it needs next.
const STRETCH: usize = 8;

/// A run of a chain: hands out each block once.
pub struct Blocks<'c> {
    chain: &'c Chain,
    next: AtomicUsize,
}

impl<'c> Blocks<'c> {
    /// How often there is something to take.
    pub fn stretches(&self) -> usize {
        self.chain.len.div_ceil(self.chain.block * STRETCH)
    }

    /// The next blocks that no one has taken.
    pub fn take(&self) -> Option<impl Iterator<Item = Block<'_>>> {
        let Chain { len, block, .. } = *self.chain;
        let first = self.next.fetch_add(1, Ordering::Relaxed).checked_mul(block * STRETCH)?;
        let range = move |start: usize| start..(start + block).min(len);
        let starts = (first..len).step_by(block).take(STRETCH);
        (first < len)
            .then(|| starts.map(move |start| Block { chain: self.chain, range: range(start), life: PhantomData }))
    }
}

/// One block of a running chain.
pub struct Block<'b> {
    chain: &'b Chain,
    range: Range<usize>,
    life: PhantomData<&'b mut u8>,
}

impl Block<'_> {
    /// Runs kernel number `call` of the chain on this block. `scratch` is the working memory, the same for all its kernels.
    ///
    /// # Errors
    /// Those of the kernel; working memory that is too small or not aligned.
    pub fn call<R>(
        &mut self,
        call: usize,
        scratch: &mut [u8],
        kernel: impl FnOnce(&[In<'_>], &mut [Out<'_>]) -> Result<R>,
    ) -> Result<R> {
        let chain = self.chain;
        if scratch.len() < chain.scratch_bytes || !(scratch.as_ptr() as usize).is_multiple_of(super::ALIGN) {
            return Err(Error::Internal("the working memory of a chain is too small".into()));
        }
        self.fetch_ahead(call);
        let memory = NonNull::from(scratch).cast::<u8>();
        let len = self.range.len();
        let shape = &chain.shapes[usize::from(self.range.end == chain.len)];
        let view = |place: &Place| View {
            ptr: match place.base {
                // SAFETY: the range lies inside the array, which has `chain.len` elements of this type.
                Base::Array(first) => unsafe { first.add(self.range.start * place.dtype.size()) },
                // SAFETY: `scratch` has at least `scratch_bytes` bytes, which all offsets and blocks fit into.
                Base::Scratch(offset) => unsafe { memory.add(offset) },
                Base::Nobody => NonNull::<u64>::dangling().cast(),
            },
            shape,
            len,
            dtype: place.dtype,
        };
        let prepared = &chain.calls[call];
        let ins = prepared.ins.iter().map(|(p, s)| In { view: view(p), array: None, shared_with: *s });
        let outs = prepared.outs.iter().map(|(p, r)| Out { view: view(p), req: *r, life: PhantomData });
        with_operands(ins, outs, |ins, outs| kernel(ins, outs))
    }

    /// Has the cache fetch a part of the arrays' next block, another one before each kernel: the memory works while they compute.
    fn fetch_ahead(&self, call: usize) {
        const LINE: usize = 64;
        let Chain { len, block, ref calls, ref starts, .. } = *self.chain;
        let next = self.range.end..(self.range.end + block).min(len);
        for (first, size) in starts {
            let lines = (next.len() * size).div_ceil(LINE);
            for line in lines * call / calls.len()..lines * (call + 1) / calls.len() {
                fetch(first.as_ptr().wrapping_add(next.start * size + line * LINE));
            }
        }
    }
}

/// Has the first-level cache fetch the line of an address.
#[inline(always)]
fn fetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every such processor has the instruction, and it may be given any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chain of {} kernels on {} arrays of {} elements", self.calls.len(), self.arrays.len(), self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_out;
    use super::*;

    fn call(ins: &[Operand], out: Operand) -> ChainCall {
        ChainCall { ins: ins.to_vec(), outs: vec![(out, Req::Write)] }
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
        assert_eq!((blocks.stretches(), chain.scratch_bytes()), (2, 256));
        #[repr(align(64))]
        struct Memory([u8; 256]);
        let mut memory = Memory([0; 256]);
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
    fn operands_are_checked() {
        let a = NDArray::from_slice(&[1f32, 2.0, 3.0, 4.0], &[4]).unwrap();
        let (lo, hi, mid) = (a.slice(0, 2).unwrap(), a.slice(2, 4).unwrap(), a.slice(1, 3).unwrap());
        let region = Region::new([], [&a]);
        let copy = [call(&[Operand::Array(0)], Operand::Array(1))];
        assert!(Chain::new(&region, vec![lo.clone(), hi.clone()], &copy, 64).is_ok());
        assert!(Chain::new(&region, vec![lo.clone(), mid], &copy, 64).is_err());
        assert!(Chain::new(&region, vec![lo.clone(), a.clone()], &copy, 64).is_err());
        let twice = ChainCall { ins: vec![], outs: vec![(Operand::Array(0), Req::Write); 2] };
        assert!(Chain::new(&region, vec![lo, hi], &[twice], 64).is_err());
        assert!(Chain::new(&Region::new([], []), vec![a], &[], 64).is_err());
    }
}
