//! Aligned memory for numbers, and the working memory that each thread keeps.

use ferromx_core::memory::out_of_memory;
use ferromx_core::storage::pages::{self, ALIGN};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

mod sealed {
    pub trait Sealed {}
}

/// Numbers for which every bit pattern is a value, so that memory may pass from one type to another.
pub trait Plain: Copy + Send + Sync + sealed::Sealed + 'static {}

macro_rules! plain {
    ($($t:ty)*) => { $( impl sealed::Sealed for $t {} impl Plain for $t {} )* };
}
plain!(u8 i8 u16 i16 u32 i32 u64 i64 usize isize f32 f64 half::f16 half::bf16);

/// Zero-initialised bytes, aligned to 64. Their number stands in a line before them, so that this is a single pointer: a wider value
/// that was just written and is read again would wait until everything written before it has left the processor.
struct Block {
    start: NonNull<u8>,
}

// SAFETY: the block owns its memory.
unsafe impl Send for Block {}
// SAFETY: a shared block gives no access to its memory.
unsafe impl Sync for Block {}

impl Block {
    fn new(bytes: usize) -> Block {
        let memory = bytes.checked_add(ALIGN).and_then(pages::take);
        let Some(memory) = memory else { out_of_memory(bytes) };
        // SAFETY: the line before the bytes has room for their number and is aligned to 64.
        unsafe {
            memory.cast::<usize>().write(bytes);
            Block { start: memory.add(ALIGN) }
        }
    }

    /// The line before the bytes, and their number.
    fn memory(&self) -> (NonNull<u8>, usize) {
        // SAFETY: `new` wrote the number there.
        unsafe {
            let memory = self.start.sub(ALIGN);
            (memory, memory.cast::<usize>().read())
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let (memory, bytes) = self.memory();
        // SAFETY: taken in `new` with this size.
        unsafe { pages::give(memory, bytes + ALIGN) }
    }
}

/// A slice of numbers on the heap that starts at a multiple of 64 bytes; at first all zero.
pub struct AlignedVec<T> {
    block: Block,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Plain> AlignedVec<T> {
    /// `len` zeros.
    ///
    /// Unwinds with an `OutOfMemory` if there is no memory for them.
    pub fn zeroed(len: usize) -> Self {
        AlignedVec { block: Block::new(len.saturating_mul(size_of::<T>())), len, element: PhantomData }
    }
}

impl<T: Plain> Deref for AlignedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the block has room for `len` aligned elements, is initialised, and every bit pattern is a `T`.
        unsafe { std::slice::from_raw_parts(self.block.start.as_ptr().cast(), self.len) }
    }
}

impl<T: Plain> DerefMut for AlignedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and the mutable borrow excludes other users.
        unsafe { std::slice::from_raw_parts_mut(self.block.start.as_ptr().cast(), self.len) }
    }
}

thread_local! {
    /// The buffers that are not in use, the one for the outermost user last.
    static FREE: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
}

/// Calls `f` with `len` elements of working memory, aligned to 64 bytes, whose contents are unspecified.
///
/// The memory belongs to the thread and is used again by its next call; it grows to the largest length asked for, so
/// that a computation that is repeated allocates nothing. Calls may be nested, each level has memory of its own.
///
/// Unwinds with an `OutOfMemory` if there is no memory for them.
pub fn with_scratch<T: Plain, R>(len: usize, f: impl FnOnce(&mut [T]) -> R) -> R {
    let bytes = len.saturating_mul(size_of::<T>());
    // Without thread-local storage, that is while the thread ends, the buffer is used once.
    let free = FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten();
    let block = free.filter(|block| block.memory().1 >= bytes).unwrap_or_else(|| Block::new(bytes));
    // SAFETY: the block has room for `len` aligned elements, was initialised when it was allocated, every bit pattern is
    // a `T`, and this call owns it.
    let result = f(unsafe { std::slice::from_raw_parts_mut(block.start.as_ptr().cast(), len) });
    // An error here means the same: the thread ends, and the buffer with it.
    let _ = FREE.try_with(|free| free.borrow_mut().push(block));
    result
}
