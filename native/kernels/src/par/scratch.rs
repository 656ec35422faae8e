//! Memory aligned to 64 bytes, and the scratch memory of each thread.

use crate::item::Item;
use ferromx_core::memory::out_of_memory;
use ferromx_core::storage::pages::{self, ALIGN};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

mod sealed {
    pub trait Sealed {}
}

/// Plain old data: every bit pattern is a valid value, so memory can be reused for another type.
pub trait Pod: Item + sealed::Sealed {}

macro_rules! pod {
    ($($t:ty)*) => { $( impl sealed::Sealed for $t {} impl Pod for $t {} )* };
}
pod!(u8 i8 u16 i16 u32 i32 u64 i64 usize isize f32 f64 half::f16 half::bf16);

/// Zero-initialized memory, aligned to 64 bytes. Its length is stored in the cache line before it, so that this type is a single
/// pointer: a wider value, stored field by field and read back as a whole, would fail store forwarding and stall.
struct Allocation {
    start: NonNull<u8>,
}

// SAFETY: the allocation is owned.
unsafe impl Send for Allocation {}
// SAFETY: a shared reference gives no access to the memory.
unsafe impl Sync for Allocation {}

impl Allocation {
    fn new(bytes: usize) -> Allocation {
        let memory = bytes.checked_add(ALIGN).and_then(pages::allocate);
        let Some(memory) = memory else { out_of_memory(bytes) };
        // SAFETY: the cache line before the bytes has room for their length and is aligned to 64.
        unsafe {
            memory.cast::<usize>().write(bytes);
            Allocation { start: memory.add(ALIGN) }
        }
    }

    /// The start of the allocation, and the number of bytes.
    fn memory(&self) -> (NonNull<u8>, usize) {
        // SAFETY: `new` stored the length there.
        unsafe {
            let memory = self.start.sub(ALIGN);
            (memory, memory.cast::<usize>().read())
        }
    }
}

impl Allocation {
    /// An unused allocation of the thread, or a new one if that is too small.
    fn take(bytes: usize) -> Allocation {
        // Thread-local storage is gone while the thread exits; the allocation is then used once.
        let free = FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten();
        free.filter(|allocation| allocation.memory().1 >= bytes).unwrap_or_else(|| Allocation::new(bytes))
    }

    /// Keeps the allocation for the thread's next call.
    fn keep(self) {
        // An error means that the thread exits; the allocation is then freed.
        let _ = FREE.try_with(|free| free.borrow_mut().push(self));
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let (memory, bytes) = self.memory();
        // SAFETY: allocated in `new` with this size.
        unsafe { pages::release(memory, bytes + ALIGN) }
    }
}

/// A zero-initialized slice on the heap, aligned to 64 bytes.
pub struct AlignedVec<T> {
    allocation: Allocation,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Pod> AlignedVec<T> {
    /// Allocates `len` zeros.
    ///
    /// Unwinds with an `OutOfMemory` if the allocation fails.
    pub fn zeroed(len: usize) -> Self {
        AlignedVec { allocation: Allocation::new(len.saturating_mul(size_of::<T>())), len, element: PhantomData }
    }
}

impl<T: Pod> Deref for AlignedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the allocation has room for `len` aligned elements, is initialized, and every bit pattern is a `T`.
        unsafe { std::slice::from_raw_parts(self.allocation.start.as_ptr().cast(), self.len) }
    }
}

impl<T: Pod> DerefMut for AlignedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and the mutable borrow excludes other users.
        unsafe { std::slice::from_raw_parts_mut(self.allocation.start.as_ptr().cast(), self.len) }
    }
}

thread_local! {
    /// The unused allocations, that of the outermost call last.
    static FREE: RefCell<Vec<Allocation>> = const { RefCell::new(Vec::new()) };
}

/// Calls `f` with a scratch buffer of `len` elements, aligned to 64 bytes, whose contents are unspecified.
///
/// The buffer belongs to the thread and is reused by its next call; it grows to the largest requested length, so that a repeated
/// computation allocates nothing. Calls may be nested; each level has its own buffer.
///
/// Unwinds with an `OutOfMemory` if the allocation fails.
pub fn with_scratch<T: Pod, R>(len: usize, f: impl FnOnce(&mut [T]) -> R) -> R {
    let allocation = Allocation::take(len.saturating_mul(size_of::<T>()));
    // SAFETY: the allocation has room for `len` aligned elements, was initialized when it was allocated, every bit pattern is a
    // `T`, and this call owns it.
    let result = f(unsafe { std::slice::from_raw_parts_mut(allocation.start.as_ptr().cast(), len) });
    allocation.keep();
    result
}
