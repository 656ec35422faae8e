//! Chunks of memory that arrays share, with a lock and a version.

use std::any::Any;
use std::fs::File;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use memmap2::{MmapMut, MmapRaw};
use parking_lot::lock_api::RawRwLock as _;

use super::pool::{Allocated, POOL};
use crate::context::{Context, DeviceType};
use crate::error::Result;

/// The origin of a chunk's memory.
pub(super) enum Origin {
    /// The pool.
    Pool,
    /// Another library; dropping the owner releases the memory.
    Foreign { _owner: Box<dyn Any + Send + Sync> },
    /// An unlinked file that several processes map.
    Shared { _map: MmapRaw, file: File },
    /// A private mapping of a file that nothing changes.
    Mapped { _map: MmapMut },
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A block of memory that arrays share. Every access holds its lock; releasing a write lock increments its version.
pub struct Chunk {
    pub(super) ptr: NonNull<u8>,
    bytes: usize,
    context: Context,
    id: u64,
    lock: parking_lot::RawRwLock,
    version: AtomicU64,
    is_exposed: AtomicBool,
    /// Whether the whole block, whose size may exceed `bytes`, was zero when it was allocated.
    was_zero: bool,
    pub(super) origin: Origin,
}

// SAFETY: the memory is reached only through views that hold `lock`.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// Allocates at least `bytes` bytes with unspecified but initialized content. On `cpu_shared` other processes can map them.
    pub fn new(bytes: usize, context: Context) -> Result<Arc<Chunk>> {
        match context.device_type {
            DeviceType::CpuShared => Chunk::shared(bytes, context),
            _ => Ok(Arc::new(Chunk::of_pool(POOL.allocate(bytes)?, bytes, context))),
        }
    }

    /// Allocates at least `bytes` zero bytes. Fresh memory is zero already and is not touched.
    pub fn zeros(bytes: usize, context: Context) -> Result<Arc<Chunk>> {
        if context.device_type == DeviceType::CpuShared {
            return Chunk::shared(bytes, context);
        }
        let block = POOL.allocate(bytes)?;
        if !block.is_zero {
            // SAFETY: the block has these bytes, and nothing else refers to it.
            unsafe { block.start.write_bytes(0, bytes) };
        }
        Ok(Arc::new(Chunk::of_pool(block, bytes, context)))
    }

    fn of_pool(block: Allocated, bytes: usize, context: Context) -> Chunk {
        let mut chunk = Chunk::with(block.start, bytes, context, Origin::Pool);
        chunk.was_zero = block.is_zero;
        chunk
    }

    pub(super) fn with(ptr: NonNull<u8>, bytes: usize, context: Context, origin: Origin) -> Chunk {
        Chunk {
            ptr,
            bytes,
            context,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            lock: parking_lot::RawRwLock::INIT,
            version: AtomicU64::new(0),
            // Other owners of the memory may write to it unobserved.
            is_exposed: AtomicBool::new(matches!(origin, Origin::Foreign { .. } | Origin::Shared { .. })),
            was_zero: false,
            origin,
        }
    }

    /// The device that the memory belongs to.
    pub fn context(&self) -> Context {
        self.context
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Identity and version of the content: data derived from the content is valid as long as this pair stays the same. `None` once a
    /// raw pointer was handed out, because writes through it cannot be observed.
    pub fn version(&self) -> Option<(u64, u64)> {
        match self.is_exposed.load(Ordering::Relaxed) {
            true => None,
            false => Some((self.id, self.version.load(Ordering::Acquire))),
        }
    }

    /// A raw pointer for foreign code that does not write.
    pub fn address(&self) -> *const u8 {
        self.ptr.as_ptr()
    }

    /// A raw pointer for foreign code that may write; [`Chunk::version`] is `None` from now on.
    pub fn expose(&self) -> *mut u8 {
        self.is_exposed.store(true, Ordering::Relaxed);
        self.ptr.as_ptr()
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Origin::Pool = self.origin {
            let is_unchanged = *self.version.get_mut() == 0 && !*self.is_exposed.get_mut();
            POOL.release(Allocated { start: self.ptr, is_zero: self.was_zero && is_unchanged }, self.bytes);
        }
    }
}

/// How an operation accesses a chunk; the stronger access comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Alone.
    Write,
    /// Beside others that read.
    Read,
}

/// Locks a chunk.
pub(super) fn lock(chunk: &Chunk, access: Access) {
    match access {
        Access::Write => chunk.lock.lock_exclusive(),
        Access::Read => chunk.lock.lock_shared(),
    }
}

/// Releases a lock acquired by [`lock`], and increments the version if it was for writing.
///
/// # Safety
/// The caller holds this lock, and no reference to memory under it remains.
pub(super) unsafe fn unlock(chunk: &Chunk, access: Access) {
    // SAFETY: by the contract of this function.
    unsafe {
        match access {
            Access::Write => {
                chunk.version.fetch_add(1, Ordering::Release);
                chunk.lock.unlock_exclusive();
            }
            Access::Read => chunk.lock.unlock_shared(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ndarray::NDArray;
    use super::super::{ALIGN, read_bytes, write_bytes};
    use super::*;
    use crate::dtype::DType;
    use crate::error::Error;
    use crate::shape::Shape;

    #[test]
    fn blocks_are_reused() {
        let p = Chunk::new(123_456, Context::default()).unwrap().ptr;
        let q = Chunk::new(123_456, Context::default()).unwrap().ptr;
        assert_eq!(p, q);
        assert_eq!(q.as_ptr() as usize % ALIGN, 0);
    }

    #[test]
    fn zeros_are_zero_in_fresh_and_reused_blocks() {
        // A size that no other test allocates, smaller for Miri, which reads a byte in a microsecond.
        const BYTES: usize = if cfg!(miri) { 7_777 } else { 777_777 };
        for _ in 0..3 {
            let chunk = Chunk::zeros(BYTES, Context::default()).unwrap();
            let array = NDArray::view(chunk, 0, Shape::new(&[BYTES as i64]), DType::U8).unwrap();
            assert!(read_bytes(&array, |bytes| bytes.iter().all(|byte| *byte == 0)));
            write_bytes(&array, |bytes| bytes.fill(7));
        }
    }

    #[test]
    fn blocks_stay_zero_until_they_are_written() {
        // Size classes that no other test allocates.
        let is_zero = |bytes: usize, touch: fn(&NDArray)| {
            let chunk = Chunk::zeros(bytes, Context::default()).unwrap();
            touch(&NDArray::view(chunk, 0, Shape::new(&[bytes as i64]), DType::U8).unwrap());
            let block = POOL.allocate(bytes).unwrap();
            let is_zero = block.is_zero;
            POOL.release(block, bytes);
            is_zero
        };
        assert!(is_zero(1_100_000, |_| ()));
        assert!(is_zero(1_100_000, |array| assert_eq!(read_bytes(array, |bytes| bytes[9]), 0)));
        assert!(!is_zero(1_100_000, |array| write_bytes(array, |bytes| bytes[9] = 1)));
        assert!(!is_zero(1_700_000, |array| _ = array.chunk().expose()));
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(matches!(Chunk::new(usize::MAX, Context::default()), Err(Error::OutOfMemory(_))));
    }

    #[test]
    fn writes_increment_the_version_and_exposed_chunks_have_none() {
        let a = NDArray::from_slice(&[1f32], &[1]).unwrap();
        let v = a.chunk().version();
        a.copy_from_slice(&[2f32]).unwrap();
        assert_ne!(v, a.chunk().version());
        a.chunk().expose();
        assert_eq!(a.chunk().version(), None);
    }
}
