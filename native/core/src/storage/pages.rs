//! Memory blocks from the system.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

#[cfg(all(target_os = "linux", not(miri)))]
mod mapped;

/// Alignment of every block: a cache line, and the widest vector register.
pub const ALIGN: usize = 64;

/// Size of a page, and of a huge page.
const PAGE: usize = 4 << 10;
const HUGE_PAGE: usize = 2 << 20;

/// Allocates a block of zeros, or returns `None` if the system has no memory.
///
/// Blocks of 2 MiB and more are aligned to huge pages and request them: loops over large arrays otherwise spend up to a fifth of their
/// time on TLB misses. Blocks of 64 KiB and more are aligned to pages, so that they share none.
pub fn allocate(bytes: usize) -> Option<NonNull<u8>> {
    let layout = layout(bytes)?;
    // SAFETY: the layout has a size of at least one byte.
    let block = NonNull::new(unsafe { alloc(layout) })?;
    if bytes >= HUGE_PAGE {
        prefer_huge_pages(block, bytes);
    }
    // SAFETY: these bytes were just allocated.
    unsafe { block.write_bytes(0, bytes) };
    Some(block)
}

/// Releases a block.
///
/// # Safety
/// The block must come from [`allocate`] with the same number of bytes, and no reference to it may remain.
pub unsafe fn release(block: NonNull<u8>, bytes: usize) {
    if let Some(layout) = layout(bytes) {
        // SAFETY: by the contract of this function, the block was allocated with this layout.
        unsafe { dealloc(block.as_ptr(), layout) }
    }
}

/// Allocates a block of zeros. Large blocks are mapped, so that untouched pages take no physical memory; each costs a system call.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn allocate_untouched(bytes: usize) -> Option<NonNull<u8>> {
    if mapped::is_mapped(bytes) { mapped::map(bytes) } else { allocate(bytes) }
}

/// Allocates a block of zeros.
#[cfg(any(not(target_os = "linux"), miri))]
pub(super) fn allocate_untouched(bytes: usize) -> Option<NonNull<u8>> {
    allocate(bytes)
}

/// Releases a block of [`allocate_untouched`].
///
/// # Safety
/// The block must come from [`allocate_untouched`] with the same number of bytes, and no reference to it may remain.
pub(super) unsafe fn release_untouched(block: NonNull<u8>, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    if mapped::is_mapped(bytes) {
        // SAFETY: by the contract of this function, the block was mapped with this size.
        return unsafe { mapped::unmap(block, bytes) };
    }
    // SAFETY: by the contract of this function, the block comes from `allocate`.
    unsafe { release(block, bytes) }
}

fn layout(bytes: usize) -> Option<Layout> {
    let align = match bytes {
        HUGE_PAGE.. => HUGE_PAGE,
        0x10000.. => PAGE,
        _ => ALIGN,
    };
    Layout::from_size_align(bytes.max(1), align).ok()
}

/// Requests huge pages. Failure is ignored, because it only affects speed.
fn prefer_huge_pages(block: NonNull<u8>, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: the block has these bytes, and the advice does not change their content.
    unsafe {
        libc::madvise(block.as_ptr().cast(), bytes / HUGE_PAGE * HUGE_PAGE, libc::MADV_HUGEPAGE);
    }
    #[cfg(any(not(target_os = "linux"), miri))]
    let _ = (block, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_zero() {
        let sizes = [1, 64, 100, 0x10000, HUGE_PAGE - 1, HUGE_PAGE, 2 * HUGE_PAGE + 12_345];
        // Miri takes minutes for a huge page.
        for bytes in sizes.into_iter().filter(|bytes| !cfg!(miri) || *bytes <= 0x10000) {
            let block = allocate(bytes).unwrap();
            assert_eq!(block.as_ptr() as usize % layout(bytes).unwrap().align(), 0, "{bytes}");
            // SAFETY: the block has these bytes and is released once.
            unsafe {
                assert!(std::slice::from_raw_parts(block.as_ptr(), bytes).iter().all(|byte| *byte == 0), "{bytes}");
                block.write_bytes(7, bytes);
                release(block, bytes);
            }
        }
        assert_eq!(allocate(isize::MAX as usize), None);
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn large_blocks_take_memory_only_where_they_are_used() {
        const BYTES: usize = 3 << 30;
        let resident = || {
            let status = std::fs::read_to_string("/proc/self/statm").unwrap();
            status.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * PAGE
        };
        let before = resident();
        let block = allocate_untouched(BYTES).unwrap();
        assert_eq!(block.as_ptr() as usize % HUGE_PAGE, 0);
        // SAFETY: the block has these bytes and is released once.
        unsafe {
            let last = block.add(BYTES - 1);
            assert_eq!((block.read(), last.read()), (0, 0));
            last.write(1);
            assert!(resident() < before + BYTES / 4);
            release_untouched(block, BYTES);
        }
        assert_eq!(allocate_untouched(isize::MAX as usize / 4), None);
    }
}
