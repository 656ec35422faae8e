//! The global allocator of the library: the system's, with a reserve for the moment when the system has no more memory.
//!
//! Rust's collections end the process when an allocation fails. Memory whose size input decides is allocated fallibly
//! ([`crate::memory`]); everything else is small and comes from the reserve until the call in progress returns with an error.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes of the reserve. They lie in zero-initialised static memory: pages that are never used are never backed.
const BYTES: usize = 32 << 20;

/// The unit of the reserve, and its alignment.
const GRANULE: usize = 64;
const GRANULES: usize = BYTES / GRANULE;

/// The memory of the reserve.
#[repr(C, align(64))]
struct Memory(UnsafeCell<[u8; BYTES]>);

// SAFETY: `Reserve` hands out disjoint ranges, and each belongs to one owner.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; BYTES]));

/// One bit per granule, set while it is in use.
type Bitmap = [u64; GRANULES / 64];

/// The bitmap under a spin lock: a lock that parks its thread may allocate.
struct Used {
    locked: AtomicBool,
    bitmap: UnsafeCell<Bitmap>,
}

// SAFETY: `with` gives access to one thread at a time.
unsafe impl Sync for Used {}

impl Used {
    /// `f` must not panic.
    fn with<R>(&self, f: impl FnOnce(&mut Bitmap) -> R) -> R {
        while self.locked.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        // SAFETY: the lock is held.
        let result = f(unsafe { &mut *self.bitmap.get() });
        self.locked.store(false, Ordering::Release);
        result
    }
}

static USED: Used = Used { locked: AtomicBool::new(false), bitmap: UnsafeCell::new([0; GRANULES / 64]) };

static BYTES_IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Bytes of the reserve that are in use. Zero unless an allocation of the system failed.
pub fn reserve_in_use() -> usize {
    BYTES_IN_USE.load(Ordering::Relaxed)
}

fn granules(bytes: usize) -> usize {
    bytes.div_ceil(GRANULE).max(1)
}

fn start() -> *mut u8 {
    MEMORY.0.get().cast()
}

fn is_set(used: &Bitmap, granule: usize) -> bool {
    used[granule / 64] >> (granule % 64) & 1 == 1
}

fn mark(used: &mut Bitmap, first: usize, count: usize) {
    (first..first + count).for_each(|granule| used[granule / 64] ^= 1 << (granule % 64));
}

/// The index of the first free run of `count` granules.
fn find(used: &Bitmap, count: usize) -> Option<usize> {
    let mut run = 0;
    for granule in 0..GRANULES {
        run = if is_set(used, granule) { 0 } else { run + 1 };
        if run == count {
            return Some(granule + 1 - count);
        }
    }
    None
}

/// Memory from the reserve, or null if it has none that fits.
fn take(layout: Layout) -> *mut u8 {
    let count = granules(layout.size());
    if layout.align() > GRANULE || count > GRANULES {
        return std::ptr::null_mut();
    }
    let found = USED.with(|used| find(used, count).inspect(|&first| mark(used, first, count)));
    let Some(first) = found else { return std::ptr::null_mut() };
    BYTES_IN_USE.fetch_add(count * GRANULE, Ordering::Relaxed);
    start().wrapping_add(first * GRANULE)
}

/// Whether a block lies in the reserve.
fn owns(block: *mut u8) -> bool {
    (block as usize).wrapping_sub(start() as usize) < BYTES
}

fn give(block: *mut u8, bytes: usize) {
    let first = (block as usize - start() as usize) / GRANULE;
    USED.with(|used| mark(used, first, granules(bytes)));
    BYTES_IN_USE.fetch_sub(granules(bytes) * GRANULE, Ordering::Relaxed);
}

/// The system's allocator, and a reserve of 32 MiB for when it fails.
pub struct ReservingAllocator;

// SAFETY: blocks come from the system, which keeps the contract, or from `take`, whose ranges are disjoint, aligned to 64 bytes and
// stay in use until `give`; which of the two a block came from is told by its address.
unsafe impl GlobalAlloc for ReservingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let block = if faults::is_due() { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } };
        if block.is_null() { take(layout) } else { block }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let block = if faults::is_due() { std::ptr::null_mut() } else { unsafe { System.alloc_zeroed(layout) } };
        if !block.is_null() {
            return block;
        }
        let block = take(layout);
        if !block.is_null() {
            // SAFETY: the block has these bytes.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if owns(block) {
            give(block, layout.size());
        } else {
            // SAFETY: the block came from the system with this layout.
            unsafe { System.dealloc(block, layout) }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !owns(block) && !faults::is_due() {
            // SAFETY: the block came from the system with this layout.
            let moved = unsafe { System.realloc(block, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: the size is not zero and does not overflow, as the caller promises.
        let moved = take(unsafe { Layout::from_size_align_unchecked(size, layout.align()) });
        if !moved.is_null() {
            // SAFETY: both blocks have the smaller number of bytes and do not overlap; the old one is given back once.
            unsafe {
                moved.copy_from_nonoverlapping(block, layout.size().min(size));
                self.dealloc(block, layout);
            }
        }
        moved
    }
}

/// The allocation that fails by request: that with the number in `FERROMX_FAIL_ALLOCATION`, counted from the first one of the process.
/// It is reported on standard error, so that a sweep knows where the last one was.
#[cfg(feature = "allocation-faults")]
mod faults {
    use std::sync::atomic::{AtomicI64, Ordering};

    const UNREAD: i64 = i64::MIN;

    static LEFT: AtomicI64 = AtomicI64::new(UNREAD);

    fn requested() -> i64 {
        // SAFETY: the names and texts end with a zero, and nothing here allocates.
        unsafe {
            let text = libc::getenv(c"FERROMX_FAIL_ALLOCATION".as_ptr());
            if text.is_null() { i64::MAX } else { libc::strtoll(text, std::ptr::null_mut(), 10) }
        }
    }

    pub(super) fn is_due() -> bool {
        if LEFT.load(Ordering::Relaxed) == UNREAD {
            // Two threads that both read it set the same value.
            LEFT.store(requested(), Ordering::Relaxed);
        }
        let due = LEFT.fetch_sub(1, Ordering::Relaxed) == 0;
        if due {
            let message = b"this allocation fails\n";
            // SAFETY: the message has these bytes.
            unsafe { libc::write(2, message.as_ptr().cast(), message.len()) };
        }
        due
    }
}

#[cfg(not(feature = "allocation-faults"))]
mod faults {
    #[inline(always)]
    pub(super) fn is_due() -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_the_reserve_are_disjoint_and_come_back() {
        let layout = |bytes| Layout::from_size_align(bytes, 16).unwrap();
        let before = reserve_in_use();
        let blocks: Vec<_> = [1, 64, 65, 4096].into_iter().map(|bytes| (take(layout(bytes)), bytes)).collect();
        for pair in blocks.windows(2) {
            assert!(pair[0].0 as usize + pair[0].1 <= pair[1].0 as usize);
        }
        assert!(blocks.iter().all(|(block, _)| owns(*block) && (*block as usize).is_multiple_of(GRANULE)));
        assert_eq!(reserve_in_use() - before, 64 + 64 + 128 + 4096);
        blocks.iter().for_each(|(block, bytes)| give(*block, *bytes));
        assert_eq!(reserve_in_use(), before);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(take(Layout::from_size_align(BYTES + 1, 16).unwrap()).is_null());
        assert!(take(Layout::from_size_align(64, 4096).unwrap()).is_null());
    }
}
