//! Kernel calls, whose operands are checked against each other.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use smallvec::SmallVec;

use super::chunk::Access;
use super::ndarray::NDArray;
use super::operand_lists::with_operands;
use super::operands::{In, Out, Req, View};
use super::region::{Locks, Region, RegionGuard};
use super::replacement::Replacement;
use crate::error::{Error, Result};

#[derive(Clone)]
struct Slot {
    ptr: NonNull<u8>,
    array: NDArray,
    req: Req,
    /// For an input: index of the output that is exactly the same memory.
    shared_with: Option<usize>,
}

/// The view of an array whose first element is at `ptr`.
pub(super) fn view_of(ptr: NonNull<u8>, array: &NDArray) -> View<'_> {
    View { ptr, shape: array.shape(), len: array.len(), dtype: array.dtype() }
}

impl Slot {
    fn view(&self) -> View<'_> {
        view_of(self.ptr, &self.array)
    }
}

/// The operands of a kernel call, checked once: in bounds, locked by a region, and disjoint, unless an input and an output are exactly
/// the same memory.
#[derive(Clone)]
pub struct Call {
    region: u64,
    ins: SmallVec<[Slot; 4]>,
    outs: SmallVec<[Slot; 2]>,
}

// SAFETY: the pointers are into chunks that `array` keeps alive, used only under their locks.
unsafe impl Send for Call {}
// SAFETY: as above.
unsafe impl Sync for Call {}

impl Call {
    /// Checks the operands.
    ///
    /// # Errors
    /// An array that the region does not lock, outputs that overlap, or an input that partially overlaps an output.
    pub fn new<'a>(
        region: &Region,
        ins: impl IntoIterator<Item = &'a NDArray>,
        outs: impl IntoIterator<Item = (&'a NDArray, Req)>,
    ) -> Result<Call> {
        let ins: SmallVec<[&NDArray; 6]> = ins.into_iter().collect();
        let outs: SmallVec<[(&NDArray, Req); 4]> = outs.into_iter().collect();
        if outs.iter().any(|(array, req)| *req != Req::Null && !region.covers(array, Access::Write)) {
            return Err(Error::Internal("an output is not locked for writing".into()));
        }
        if ins.iter().any(|array| !region.covers(array, Access::Read)) {
            return Err(Error::Internal("an input is not locked".into()));
        }
        let shared = find_shared_outputs(&ins, &outs)?;
        let slot =
            |array: &NDArray, req, shared_with| Slot { ptr: array.start(), array: array.clone(), req, shared_with };
        Ok(Call {
            region: region.id,
            ins: ins.iter().zip(shared).map(|(array, shared_with)| slot(array, Req::Null, shared_with)).collect(),
            outs: outs.iter().map(|(array, req)| slot(array, *req, None)).collect(),
        })
    }

    /// Replaces an input, if it is one. A call with other locks is not changed.
    pub fn replace(&mut self, replacement: &Replacement) {
        let [old, new] = replacement.regions;
        if self.region == old {
            for slot in self.ins.iter_mut().chain(&mut self.outs) {
                replacement.apply(&mut slot.array);
                slot.ptr = slot.array.start();
            }
            self.region = new;
        }
    }

    /// Runs a kernel on the operands.
    ///
    /// # Errors
    /// Errors of the kernel; a guard of another region.
    pub fn with<R>(
        &self,
        guard: &mut RegionGuard<'_>,
        kernel: impl FnOnce(&[In<'_>], &mut [Out<'_>]) -> Result<R>,
    ) -> Result<R> {
        if guard.region.id != self.region {
            return Err(Error::Internal("a call runs under the locks of another region".into()));
        }
        let ins = self.ins.iter().map(|s| In { view: s.view(), array: Some(&s.array), shared_with: s.shared_with });
        let outs = self.outs.iter().map(|s| Out { view: s.view(), req: s.req, lifetime: PhantomData });
        with_operands(ins, outs, |ins, outs| kernel(ins, outs))
    }
}

/// For every input: index of the output that is exactly the same memory.
///
/// # Errors
/// Outputs that overlap, or an input that partially overlaps an output.
fn find_shared_outputs(ins: &[&NDArray], outs: &[(&NDArray, Req)]) -> Result<SmallVec<[Option<usize>; 6]>> {
    let written = || outs.iter().enumerate().filter(|(_, (_, req))| *req != Req::Null);
    written().try_for_each(|(_, (array, _))| array.check_writable())?;
    // Sorted, so that the time does not grow with the square of their number.
    let address = |array: &NDArray| Arc::as_ptr(array.chunk()) as usize;
    let mut ranges: SmallVec<[(usize, Range<usize>, usize); 4]> = written()
        .map(|(k, (array, _))| (address(array), array.byte_range(), k))
        .filter(|(_, range, _)| !range.is_empty())
        .collect();
    ranges.sort_unstable_by_key(|(chunk, range, _)| (*chunk, range.start));
    if ranges.windows(2).any(|pair| pair[0].0 == pair[1].0 && pair[1].1.start < pair[0].1.end) {
        return Err(Error::Value("two outputs of one operator share memory: give each its own array".into()));
    }
    let mut shared = SmallVec::new();
    for array in ins {
        let (chunk, range) = (address(array), array.byte_range());
        let next = ranges.partition_point(|(other, output, _)| (*other, output.end) <= (chunk, range.start));
        let output = ranges.get(next).filter(|(other, output, _)| *other == chunk && output.start < range.end);
        if output.is_some_and(|(_, output, _)| *output != range) {
            return Err(Error::Internal("an input partially overlaps an output".into()));
        }
        shared.push(output.map(|(_, _, k)| *k));
    }
    Ok(shared)
}

/// Runs a kernel once. A kernel that runs repeatedly uses a [`Region`] and a [`Call`].
///
/// # Errors
/// Errors of [`Call::new`] and of the kernel.
pub fn call_once<R>(
    ins: &[&NDArray],
    outs: &[(&NDArray, Req)],
    kernel: impl FnOnce(&[In<'_>], &mut [Out<'_>]) -> Result<R>,
) -> Result<R> {
    let (mut kernel, mut result) = (Some(kernel), None);
    run_once(ins, outs, &mut |ins, outs| result = kernel.take().map(|kernel| kernel(ins, outs)))?;
    result.unwrap_or_else(|| Err(Error::Internal("a kernel did not run".into())))
}

/// [`call_once`] without type parameters, so that it is compiled only once.
fn run_once(
    ins: &[&NDArray],
    outs: &[(&NDArray, Req)],
    kernel: &mut dyn FnMut(&[In<'_>], &mut [Out<'_>]),
) -> Result<()> {
    let shared = find_shared_outputs(ins, outs)?;
    let _locks = Locks::acquire(ins.iter().copied(), outs.iter().map(|(array, _)| *array));
    let mut inputs: SmallVec<[In<'_>; 6]> = SmallVec::new();
    inputs.extend(ins.iter().zip(shared).map(|(array, shared_with)| {
        let view = view_of(array.start(), array);
        In { view, array: Some(array), shared_with }
    }));
    let mut outputs: SmallVec<[Out<'_>; 4]> = SmallVec::new();
    outputs.extend(outs.iter().map(|(array, req)| {
        let view = view_of(array.start(), array);
        Out { view, req: *req, lifetime: PhantomData }
    }));
    kernel(&inputs, &mut outputs);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::in_out;
    use super::*;

    #[test]
    fn overlapping_operands_are_detected() {
        let a = NDArray::from_slice(&[1f32, 2.0, 3.0, 4.0], &[4]).unwrap();
        let (lo, hi, mid) = (a.slice(0, 2).unwrap(), a.slice(2, 4).unwrap(), a.slice(1, 3).unwrap());
        let mut region = Region::new([&lo], [&hi, &mid]);
        assert!(Call::new(&region, [&lo], [(&hi, Req::Write)]).is_ok());
        assert!(Call::new(&region, [&lo], [(&mid, Req::Write)]).is_err());
        assert!(Call::new(&region, [], [(&hi, Req::Write), (&mid, Req::Write)]).is_err());
        assert!(Call::new(&region, [], [(&hi, Req::Write), (&mid, Req::Null)]).is_ok());
        let both = Call::new(&region, [&hi, &lo, &a], [(&hi, Req::Write), (&lo, Req::Write)]);
        assert!(both.is_err(), "the first two inputs are outputs, but the third one is larger than either");
        let both = Call::new(&region, [&hi, &lo], [(&hi, Req::Write), (&lo, Req::Write)]).unwrap();
        assert_eq!([0, 1].map(|i| both.ins[i].shared_with), [Some(0), Some(1)]);
        let in_place = Call::new(&region, [&lo], [(&lo, Req::Write)]).unwrap();
        let mut guard = region.lock();
        in_place
            .with(&mut guard, |ins, outs| {
                assert!(ins[0].slice::<f32>().is_err());
                let (input, output) = in_out::<f32, f32>(&ins[0], &mut outs[0])?;
                assert!(input.is_none());
                output[0] = 7.0;
                Ok(())
            })
            .unwrap();
        drop(guard);
        assert_eq!(a.to_vec::<f32>().unwrap(), [7.0, 2.0, 3.0, 4.0]);
    }
}
