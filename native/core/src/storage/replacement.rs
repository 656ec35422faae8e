//! Lets a plan read another array than the one that it was compiled with.

use std::ptr::NonNull;
use std::sync::Arc;

use super::ndarray::NDArray;

/// The replacement of an array that a plan reads by another of the same size, which [`Region::replace`](super::Region::replace) has
/// checked and locks from now on.
pub struct Replacement {
    old: NDArray,
    new: NDArray,
    /// The ids of the region before and after.
    pub(super) regions: [u64; 2],
}

impl Replacement {
    pub(super) fn new(old: &NDArray, new: &NDArray, regions: [u64; 2]) -> Replacement {
        debug_assert_eq!(old.byte_range().len(), new.byte_range().len());
        Replacement { old: old.clone(), new: new.clone(), regions }
    }

    /// Replaces `array` by the same view of the new memory if it is a view of the old one.
    pub fn apply(&self, array: &mut NDArray) {
        let (old, range) = (self.old.byte_range(), array.byte_range());
        if !Arc::ptr_eq(array.chunk(), self.old.chunk()) || range.start < old.start || range.end > old.end {
            return;
        }
        let offset = self.new.byte_range().start + range.start - old.start;
        // The view is inside the new array, which has the same number of bytes.
        if let Ok(view) = NDArray::view(self.new.chunk().clone(), offset, array.shape().clone(), array.dtype()) {
            *array = if array.is_read_only() { view.read_only() } else { view };
        }
    }

    /// Replaces an address in the old memory by that in the new one.
    pub(super) fn apply_to_address(&self, address: &mut NonNull<u8>) {
        let offset = (address.as_ptr() as usize).wrapping_sub(self.old.start().as_ptr() as usize);
        if offset < self.old.byte_range().len() {
            // SAFETY: the new array has as many bytes as the old one.
            *address = unsafe { self.new.start().add(offset) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Call, Chain, ChainCall, Operand, Region, Req};
    use super::*;

    #[repr(align(64))]
    struct Scratch([u8; 64]);

    fn vector(x: &[f32]) -> NDArray {
        NDArray::from_slice(x, &[x.len() as i64]).unwrap()
    }

    fn double(ins: &[super::super::In<'_>], outs: &mut [super::super::Out<'_>]) -> crate::error::Result<()> {
        outs[0].slice_mut::<f32>()?.iter_mut().zip(ins[0].slice::<f32>()?).for_each(|(y, x)| *y = 2.0 * x);
        Ok(())
    }

    #[test]
    fn calls_and_chains_read_the_new_array() {
        let (old, new, out) = (vector(&[1.0; 4]), vector(&[1.0, 2.0, 3.0, 4.0, 5.0]), vector(&[0.0; 4]));
        let (new, tail, end) = (new.slice(1, 5).unwrap(), old.slice(2, 4).unwrap(), out.slice(2, 4).unwrap());
        let mut region = Region::new([&old], [&out]);
        let mut call = Call::new(&region, [&tail], [(&end, Req::Write)]).unwrap();
        let calls = [ChainCall {
            ins: vec![Operand::Array(0)],
            outs: vec![(Operand::Array(1), Req::Write)],
            consists_of_loops: false,
        }];
        let mut chain = Chain::new(&region, vec![old.clone(), out.clone()], &calls, 64).unwrap();

        let replacement = region.replace(&old, &new).unwrap();
        assert!(call.with(&mut region.lock(), double).is_err(), "the old array is not locked any more");
        call.replace(&replacement);
        chain.replace(&replacement);
        call.with(&mut region.lock(), double).unwrap();
        assert_eq!(out.to_vec::<f32>().unwrap(), [0.0, 0.0, 8.0, 10.0]);
        let mut guard = region.lock();
        let (blocks, mut scratch) = (chain.blocks(&mut guard).unwrap(), Scratch([0; 64]));
        for mut block in std::iter::from_fn(|| blocks.take()).flatten() {
            block.call(0, &mut scratch.0, double).unwrap();
        }
        drop(guard);
        assert_eq!(out.to_vec::<f32>().unwrap(), [4.0, 6.0, 8.0, 10.0]);
    }

    #[test]
    fn written_and_locked_arrays_are_not_replaced() {
        let (a, b, out) = (vector(&[1.0; 4]), vector(&[2.0; 4]), vector(&[0.0; 4]));
        let mut region = Region::new([&a, &b], [&out]);
        assert!(region.replace(&out, &vector(&[3.0; 4])).is_none(), "written");
        assert!(region.replace(&a, &b).is_none(), "locked as another operand");
        assert!(region.replace(&a, &vector(&[3.0; 5])).is_none(), "of another size");
        assert!(region.replace(&vector(&[3.0; 4]), &vector(&[3.0; 4])).is_none(), "not an operand");
        assert!(region.replace(&a, &vector(&[3.0; 4])).is_some());
    }
}
