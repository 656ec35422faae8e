//! The pool of memory blocks, which are reused by size class.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::pages;
use crate::error::{Error, Result};

/// Maximum number of bytes of cached free blocks; further ones are returned to the system.
const MAX_CACHED_BYTES: usize = 2 << 30;

/// Number of size classes: two per power of two, from 64 bytes up.
const NUM_CLASSES: usize = 2 * 48;

/// A block of the pool, in use or free.
pub(super) struct Allocated {
    pub(super) start: NonNull<u8>,
    /// Whether all bytes are zero. Otherwise the content is that of the last use.
    pub(super) is_zero: bool,
}

pub(super) struct Pool {
    free: Mutex<[Vec<Allocated>; NUM_CLASSES]>,
    cached_bytes: AtomicUsize,
    bytes_in_use: AtomicUsize,
}

// SAFETY: the pointers are free blocks to which no other reference exists; the mutex hands each to one caller.
unsafe impl Send for Pool {}
// SAFETY: as above; all access goes through the mutex.
unsafe impl Sync for Pool {}

pub(super) static POOL: Pool = Pool {
    free: Mutex::new([const { Vec::new() }; NUM_CLASSES]),
    cached_bytes: AtomicUsize::new(0),
    bytes_in_use: AtomicUsize::new(0),
};

/// Size class and block size for a request: 64, 96, 128, 192, 256, ... bytes.
fn class_of(bytes: usize) -> (usize, usize) {
    let n = bytes.max(pages::ALIGN);
    let power = usize::BITS - 1 - n.leading_zeros();
    let base = 1usize << power;
    let index = 2 * (power as usize - 6);
    if n == base {
        (index, base)
    } else if n <= base + base / 2 {
        (index + 1, base + base / 2)
    } else {
        (index + 2, 2 * base)
    }
}

impl Pool {
    pub(super) fn allocate(&self, bytes: usize) -> Result<Allocated> {
        if bytes > isize::MAX as usize / 4 {
            return Err(Error::OutOfMemory(bytes));
        }
        let (class, size) = class_of(bytes);
        let reused = self.free.lock().get_mut(class).and_then(Vec::pop);
        let block = match reused {
            Some(block) => {
                self.cached_bytes.fetch_sub(size, Ordering::Relaxed);
                block
            }
            None => {
                let start = pages::allocate_untouched(size).ok_or(Error::OutOfMemory(bytes))?;
                Allocated { start, is_zero: true }
            }
        };
        self.bytes_in_use.fetch_add(size, Ordering::Relaxed);
        Ok(block)
    }

    pub(super) fn release(&self, block: Allocated, bytes: usize) {
        let (class, size) = class_of(bytes);
        self.bytes_in_use.fetch_sub(size, Ordering::Relaxed);
        if self.cached_bytes.load(Ordering::Relaxed) + size <= MAX_CACHED_BYTES {
            self.cached_bytes.fetch_add(size, Ordering::Relaxed);
            self.free.lock()[class].push(block);
        } else {
            // SAFETY: the block was allocated with this size, and no reference to it remains.
            unsafe { pages::release_untouched(block.start, size) }
        }
    }
}

/// Returns all cached free blocks to the system.
pub fn release_cached_memory() {
    let mut free = POOL.free.lock();
    for (class, blocks) in free.iter_mut().enumerate() {
        let base = 1usize << (class / 2 + 6);
        let size = if class % 2 == 0 { base } else { base + base / 2 };
        for block in blocks.drain(..) {
            POOL.cached_bytes.fetch_sub(size, Ordering::Relaxed);
            // SAFETY: the block was allocated with the size of its class, and no reference to it remains.
            unsafe { pages::release_untouched(block.start, size) }
        }
    }
}

/// Bytes of blocks that arrays use, and bytes of cached free blocks.
pub fn memory_in_use() -> (usize, usize) {
    (POOL.bytes_in_use.load(Ordering::Relaxed), POOL.cached_bytes.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_cover_their_requests() {
        for bytes in [0, 1, 64, 65, 96, 97, 128, 1000, 1 << 20, (1 << 20) + 1, (3 << 19) + 1] {
            let (class, size) = class_of(bytes);
            assert!(size >= bytes && size <= 2 * bytes.max(pages::ALIGN), "{bytes} -> {size}");
            assert_eq!(class_of(size), (class, size));
        }
    }
}
