//! The library's global allocator: the system allocator, with a reserve for when the system runs out of memory.
//!
//! Rust's collections abort the process when an allocation fails. Memory whose size depends on input is allocated fallibly
//! ([`crate::memory`]); all other allocations are small and come from the reserve until the current call returns with an error.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Size of the reserve. It is zero-initialized static memory: untouched pages take no physical memory.
const RESERVE_BYTES: usize = 32 << 20;

/// Allocation unit of the reserve, and its alignment: the largest that the standard library and this library ask for, to keep data that
/// threads share on cache lines of their own.
const GRANULE: usize = 128;
const NUM_GRANULES: usize = RESERVE_BYTES / GRANULE;

/// The memory of the reserve.
#[repr(C, align(128))]
struct Memory(UnsafeCell<[u8; RESERVE_BYTES]>);

// SAFETY: `allocate` hands out disjoint ranges, and each belongs to one owner.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; RESERVE_BYTES]));

/// One bit per granule, set while it is in use.
type Bitmap = [u64; NUM_GRANULES / 64];

/// The bitmap under a spin lock, because a lock that parks its thread may allocate.
struct Used {
    is_locked: AtomicBool,
    bitmap: UnsafeCell<Bitmap>,
}

// SAFETY: `with` gives access to one thread at a time.
unsafe impl Sync for Used {}

impl Used {
    /// Runs `f` on the bitmap. `f` must not panic, as the lock would stay held.
    fn with<R>(&self, f: impl FnOnce(&mut Bitmap) -> R) -> R {
        while self.is_locked.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        // SAFETY: the lock is held.
        let result = f(unsafe { &mut *self.bitmap.get() });
        self.is_locked.store(false, Ordering::Release);
        result
    }
}

static USED: Used = Used { is_locked: AtomicBool::new(false), bitmap: UnsafeCell::new([0; NUM_GRANULES / 64]) };

static BYTES_IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Bytes of the reserve that are in use; 0 unless a system allocation failed.
pub fn reserve_in_use() -> usize {
    BYTES_IN_USE.load(Ordering::Relaxed)
}

/// Whether an allocation that bypasses this allocator must fail, because a test injects a failure.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn injects_failure() -> bool {
    faults::is_due()
}

fn num_granules(bytes: usize) -> usize {
    bytes.div_ceil(GRANULE).max(1)
}

fn base() -> *mut u8 {
    MEMORY.0.get().cast()
}

fn is_set(used: &Bitmap, granule: usize) -> bool {
    used[granule / 64] >> (granule % 64) & 1 == 1
}

/// Inverts the bits of `count` granules starting at `first`.
fn toggle(used: &mut Bitmap, first: usize, count: usize) {
    (first..first + count).for_each(|granule| used[granule / 64] ^= 1 << (granule % 64));
}

/// The index of the first free run of `count` granules.
fn find_free_run(used: &Bitmap, count: usize) -> Option<usize> {
    let mut run = 0;
    for granule in 0..NUM_GRANULES {
        run = if is_set(used, granule) { 0 } else { run + 1 };
        if run == count {
            return Some(granule + 1 - count);
        }
    }
    None
}

/// Allocates from the reserve, or returns null if no free range fits.
fn allocate(layout: Layout) -> *mut u8 {
    let count = num_granules(layout.size());
    if layout.align() > GRANULE || count > NUM_GRANULES {
        return std::ptr::null_mut();
    }
    let free_run = USED.with(|used| find_free_run(used, count).inspect(|&first| toggle(used, first, count)));
    let Some(first) = free_run else { return std::ptr::null_mut() };
    BYTES_IN_USE.fetch_add(count * GRANULE, Ordering::Relaxed);
    base().wrapping_add(first * GRANULE)
}

/// True if a block belongs to the reserve.
fn owns(block: *mut u8) -> bool {
    (block as usize).wrapping_sub(base() as usize) < RESERVE_BYTES
}

fn release(block: *mut u8, bytes: usize) {
    let first = (block as usize - base() as usize) / GRANULE;
    USED.with(|used| toggle(used, first, num_granules(bytes)));
    BYTES_IN_USE.fetch_sub(num_granules(bytes) * GRANULE, Ordering::Relaxed);
}

/// The system allocator, with a reserve of 32 MiB for when it fails.
pub struct ReservingAllocator;

// SAFETY: blocks come from the system, which keeps the contract, or from `allocate`, whose ranges are disjoint, aligned to a granule and
// stay in use until `release`; the address of a block tells the two apart.
unsafe impl GlobalAlloc for ReservingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the contract of this function.
        let block = if faults::is_due() { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } };
        if block.is_null() { allocate(layout) } else { block }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the contract of this function.
        let block = if faults::is_due() { std::ptr::null_mut() } else { unsafe { System.alloc_zeroed(layout) } };
        if !block.is_null() {
            return block;
        }
        let block = allocate(layout);
        if !block.is_null() {
            // SAFETY: the block has these bytes.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if owns(block) {
            release(block, layout.size());
        } else {
            // SAFETY: the block came from the system with this layout.
            unsafe { System.dealloc(block, layout) }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !owns(block) && !faults::is_due() {
            // SAFETY: the block came from the system with this layout.
            let new_block = unsafe { System.realloc(block, layout, size) };
            if !new_block.is_null() {
                return new_block;
            }
        }
        // SAFETY: by the contract of this function, the size is not zero and does not overflow.
        let new_block = allocate(unsafe { Layout::from_size_align_unchecked(size, layout.align()) });
        if !new_block.is_null() {
            // SAFETY: both blocks have at least the smaller size and do not overlap; the old one is released once.
            unsafe {
                new_block.copy_from_nonoverlapping(block, layout.size().min(size));
                self.dealloc(block, layout);
            }
        }
        new_block
    }
}

/// Fault injection in debug builds: fails allocation number `FERROMX_FAIL_ALLOCATION` of the process and reports that on standard error.
/// `FERROMX_FAIL_ALLOCATION=-1` fails none, but reports every 1024 allocations, so that a test can find out how many there are.
#[cfg(all(debug_assertions, not(miri)))]
mod faults {
    use std::sync::atomic::{AtomicI64, Ordering};

    const REPORT_INTERVAL: i64 = 1024;

    const UNINITIALIZED: i64 = i64::MIN;
    /// Allocations are counted down from here if they are only reported.
    const REPORT_ONLY: i64 = i64::MIN / 2;

    static REMAINING: AtomicI64 = AtomicI64::new(UNINITIALIZED);

    fn requested() -> i64 {
        // SAFETY: the strings are null-terminated, and nothing here allocates.
        let number = unsafe {
            let text = libc::getenv(c"FERROMX_FAIL_ALLOCATION".as_ptr());
            if text.is_null() { i64::MAX } else { libc::strtoll(text, std::ptr::null_mut(), 10) }
        };
        if number < 0 { REPORT_ONLY } else { number }
    }

    fn report(message: &[u8]) {
        // SAFETY: the message has these bytes.
        unsafe { libc::write(2, message.as_ptr().cast(), message.len()) };
    }

    pub(super) fn is_due() -> bool {
        if REMAINING.load(Ordering::Relaxed) == UNINITIALIZED {
            // Racing threads store the same value.
            REMAINING.store(requested(), Ordering::Relaxed);
        }
        let remaining = REMAINING.fetch_sub(1, Ordering::Relaxed);
        if remaining == 0 {
            report(b"this allocation fails\n");
        } else if remaining < REPORT_ONLY && remaining % REPORT_INTERVAL == 0 {
            report(b"1024 more allocations\n");
        }
        remaining == 0
    }
}

#[cfg(any(not(debug_assertions), miri))]
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
    fn blocks_of_the_reserve_are_disjoint_and_reusable() {
        let layout = |bytes| Layout::from_size_align(bytes, 16).unwrap();
        let before = reserve_in_use();
        let blocks: Vec<_> =
            [1, GRANULE, GRANULE + 1, 4096].into_iter().map(|bytes| (allocate(layout(bytes)), bytes)).collect();
        for pair in blocks.windows(2) {
            assert!(pair[0].0 as usize + pair[0].1 <= pair[1].0 as usize);
        }
        assert!(blocks.iter().all(|(block, _)| owns(*block) && (*block as usize).is_multiple_of(GRANULE)));
        assert_eq!(reserve_in_use() - before, GRANULE + GRANULE + 2 * GRANULE + 4096);
        blocks.iter().for_each(|(block, bytes)| release(*block, *bytes));
        assert_eq!(reserve_in_use(), before);
    }

    #[test]
    fn data_on_cache_lines_of_its_own_can_be_allocated() {
        let layout = Layout::from_size_align(512, 128).unwrap();
        let block = allocate(layout);
        assert!(owns(block) && (block as usize).is_multiple_of(128));
        release(block, 512);
    }

    #[test]
    fn requests_that_do_not_fit_return_null() {
        assert!(allocate(Layout::from_size_align(RESERVE_BYTES + 1, 16).unwrap()).is_null());
        assert!(allocate(Layout::from_size_align(64, 4096).unwrap()).is_null());
    }
}
