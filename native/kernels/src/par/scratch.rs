//! Aligned memory for numbers, and the scratch memory of each thread.

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
pub trait Pod: Copy + Send + Sync + sealed::Sealed + 'static {}

macro_rules! pod {
    ($($t:ty)*) => { $( impl sealed::Sealed for $t {} impl Pod for $t {} )* };
}
pod!(u8 i8 u16 i16 u32 i32 u64 i64 usize isize f32 f64 half::f16 half::bf16);

/// Zero-initialised bytes, aligned to 64. Their count is stored in the cache line before them, so that this is a single pointer:
/// a wider value that was just written would stall the processor when it is read back.
struct Block {
    start: NonNull<u8>,
}

// SAFETY: the block owns its memory.
unsafe impl Send for Block {}
// SAFETY: a shared block gives no access to its memory.
unsafe impl Sync for Block {}

impl Block {
    fn new(bytes: usize) -> Block {
        let memory = bytes.checked_add(ALIGN).and_then(pages::allocate);
        let Some(memory) = memory else { out_of_memory(bytes) };
        // SAFETY: the line before the bytes has room for their count and is aligned to 64.
        unsafe {
            memory.cast::<usize>().write(bytes);
            Block { start: memory.add(ALIGN) }
        }
    }

    /// The start of the allocation, and the number of bytes.
    fn memory(&self) -> (NonNull<u8>, usize) {
        // SAFETY: `new` stored the count there.
        unsafe {
            let memory = self.start.sub(ALIGN);
            (memory, memory.cast::<usize>().read())
        }
    }
}

impl Block {
    /// An unused block of the thread, or a new one if that is too small.
    fn take(bytes: usize) -> Block {
        // Thread-local storage is gone while the thread exits; the block is then used once.
        let free = FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten();
        free.filter(|block| block.memory().1 >= bytes).unwrap_or_else(|| Block::new(bytes))
    }

    /// Keeps the block for the thread's next call.
    fn keep(self) {
        // An error means that the thread exits; the block is freed.
        let _ = FREE.try_with(|free| free.borrow_mut().push(self));
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let (memory, bytes) = self.memory();
        // SAFETY: allocated in `new` with this size.
        unsafe { pages::release(memory, bytes + ALIGN) }
    }
}

/// A heap-allocated slice of numbers that starts at a multiple of 64 bytes; initially all zero.
pub struct AlignedVec<T> {
    block: Block,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Pod> AlignedVec<T> {
    /// Allocates `len` zeros.
    ///
    /// Unwinds with an `OutOfMemory` if the allocation fails.
    pub fn zeroed(len: usize) -> Self {
        AlignedVec { block: Block::new(len.saturating_mul(size_of::<T>())), len, element: PhantomData }
    }
}

impl<T: Pod> Deref for AlignedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the block has room for `len` aligned elements, is initialised, and every bit pattern is a `T`.
        unsafe { std::slice::from_raw_parts(self.block.start.as_ptr().cast(), self.len) }
    }
}

impl<T: Pod> DerefMut for AlignedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and the mutable borrow excludes other users.
        unsafe { std::slice::from_raw_parts_mut(self.block.start.as_ptr().cast(), self.len) }
    }
}

thread_local! {
    /// The unused buffers, that of the outermost call last.
    static FREE: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
}

/// Calls `f` with `len` elements of scratch memory, aligned to 64 bytes, whose contents are unspecified.
///
/// The memory belongs to the thread and is reused by its next call; it grows to the largest requested length, so that a repeated
/// computation allocates nothing. Calls may be nested; each level has its own memory.
///
/// Unwinds with an `OutOfMemory` if the allocation fails.
pub fn with_scratch<T: Pod, R>(len: usize, f: impl FnOnce(&mut [T]) -> R) -> R {
    let block = Block::take(len.saturating_mul(size_of::<T>()));
    // SAFETY: the block has room for `len` aligned elements, was initialised when it was allocated, every bit pattern is a `T`,
    // and this call owns it.
    let result = f(unsafe { std::slice::from_raw_parts_mut(block.start.as_ptr().cast(), len) });
    block.keep();
    result
}
