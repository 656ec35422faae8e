//! Fallible allocation of vectors whose length depends on input.
//!
//! A `vec![]` that cannot be allocated aborts the process. The functions here unwind with an [`OutOfMemory`] instead, which the C and JNI
//! interfaces convert to [`Error::OutOfMemory`], so that kernels need no `Result` for scratch memory.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::error::{Error, Result};

pub(crate) mod reserve;

pub use reserve::{ReservingAllocator, reserve_in_use};

/// The payload of an unwinding allocation failure: the number of bytes that were requested.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OutOfMemory(pub usize);

/// Unwinds with an [`OutOfMemory`]. The panic hook is not called, because a backtrace would need memory.
pub fn out_of_memory(bytes: usize) -> ! {
    resume_unwind(Box::new(OutOfMemory(bytes)))
}

/// An empty vector with capacity for `len` elements. Unwinds with an [`OutOfMemory`] if there is no memory for them.
pub fn with_capacity<T>(len: usize) -> Vec<T> {
    let mut vector = Vec::new();
    reserve(&mut vector, len);
    vector
}

/// `len` copies of a value. Unwinds with an [`OutOfMemory`] if there is no memory for them.
pub fn filled<T: Clone>(value: T, len: usize) -> Vec<T> {
    let mut vector = with_capacity(len);
    vector.resize(len, value);
    vector
}

/// Collects an iterator into a vector. Unwinds with an [`OutOfMemory`] if there is no memory for it.
pub fn collected<T>(elements: impl Iterator<Item = T>) -> Vec<T> {
    let mut vector = with_capacity(elements.size_hint().0);
    for element in elements {
        if vector.len() == vector.capacity() {
            let additional = vector.len().max(16);
            reserve(&mut vector, additional);
        }
        vector.push(element);
    }
    vector
}

/// A copy of a slice. Unwinds with an [`OutOfMemory`] if there is no memory for it.
pub fn copied<T: Clone>(elements: &[T]) -> Vec<T> {
    let mut vector = with_capacity(elements.len());
    vector.extend_from_slice(elements);
    vector
}

/// Runs `f`, and returns an unwinding [`OutOfMemory`] as an error. Threads need it, because an unwinding thread loses its payload.
pub fn catch<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|payload| match payload.downcast_ref() {
        Some(OutOfMemory(bytes)) => Err(Error::OutOfMemory(*bytes)),
        None => resume_unwind(payload),
    })
}

/// Reserves capacity for `additional` elements. Unwinds with an [`OutOfMemory`] if there is no memory for them.
pub fn reserve<T>(vector: &mut Vec<T>, additional: usize) {
    if vector.try_reserve(additional).is_err() {
        out_of_memory(vector.len().saturating_add(additional).saturating_mul(size_of::<T>()));
    }
}

/// Returns an error unless this many bytes can be allocated now. Parsers whose own allocations are infallible call it with an estimate of
/// their use.
pub fn ensure_available(bytes: usize) -> Result<()> {
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| Error::OutOfMemory(bytes))
}

/// Returns an error if the reserve is in use, that is, if a system allocation failed. Loops that build many small objects from input call
/// it once per object.
pub fn check() -> Result<()> {
    match reserve_in_use() {
        0 => Ok(()),
        bytes => Err(Error::OutOfMemory(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri ends where memory runs out")]
    fn an_impossible_length_unwinds_with_the_number_of_bytes() {
        let caught = std::panic::catch_unwind(|| filled(0u32, isize::MAX as usize / 4)).unwrap_err();
        assert_eq!(caught.downcast_ref(), Some(&OutOfMemory(isize::MAX as usize / 4 * 4)));
    }

    #[test]
    fn more_than_the_address_space_is_not_available() {
        assert_eq!(ensure_available(usize::MAX), Err(Error::OutOfMemory(usize::MAX)));
        assert_eq!(ensure_available(1 << 20), Ok(()));
    }

    #[test]
    fn vectors_hold_the_requested_elements() {
        assert_eq!(filled(7u8, 3), [7, 7, 7]);
        assert_eq!(collected((0..3).map(|i| i * i)), [0, 1, 4]);
        assert_eq!(collected((0..100).filter(|i| i % 50 == 1)), [1, 51]);
        assert_eq!(copied(&[1, 2]), [1, 2]);
    }

    #[test]
    fn only_allocation_failures_are_caught() {
        assert_eq!(catch(|| Ok(copied(&[1]))), Ok(vec![1]));
        assert_eq!(catch(|| -> Result<()> { out_of_memory(7) }), Err(Error::OutOfMemory(7)));
        assert!(std::panic::catch_unwind(|| catch(|| -> Result<()> { resume_unwind(Box::new(())) })).is_err());
    }
}
