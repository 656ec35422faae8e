//! Blocks that are mapped directly, so that their zeros need not be written.

use std::ptr::NonNull;

use super::{HUGE_PAGE, PAGE, prefer_huge_pages};
use crate::memory::reserve;

/// The smallest block that is mapped. Smaller ones are not worth a system call each.
const MIN_BYTES: usize = 256 << 10;

/// Whether blocks of this size are mapped.
pub(super) fn is_mapped(bytes: usize) -> bool {
    bytes >= MIN_BYTES
}

/// Maps a block of zeros, or returns `None` if the system has no memory. Blocks of 2 MiB and more are aligned to huge pages.
pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
    let bytes = bytes.checked_next_multiple_of(PAGE)?;
    if bytes < HUGE_PAGE {
        return map_pages(bytes);
    }
    let padded = bytes.checked_add(HUGE_PAGE - PAGE)?;
    let first = map_pages(padded)?;
    let unused = first.align_offset(HUGE_PAGE);
    // SAFETY: the block lies within the mapping, which has `HUGE_PAGE - PAGE` bytes more; only the rest is unmapped, and nothing refers
    // to it.
    let block = unsafe {
        let block = first.add(unused);
        unmap_pages(first, unused);
        unmap_pages(block.add(bytes), padded - unused - bytes);
        block
    };
    prefer_huge_pages(block, bytes);
    Some(block)
}

/// Releases a block.
///
/// # Safety
/// The block must come from [`map`] with the same number of bytes, and no reference to it may remain.
pub(super) unsafe fn unmap(block: NonNull<u8>, bytes: usize) {
    // SAFETY: by the contract of this function.
    unsafe { unmap_pages(block, bytes.next_multiple_of(PAGE)) }
}

fn map_pages(bytes: usize) -> Option<NonNull<u8>> {
    if reserve::injects_failure() {
        return None;
    }
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: an anonymous mapping at an address that the system chooses affects no other memory.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) }
}

/// Unmaps pages.
///
/// # Safety
/// The pages are part of a mapping of [`map_pages`], and nothing refers to them.
unsafe fn unmap_pages(start: NonNull<u8>, bytes: usize) {
    if bytes > 0 {
        // SAFETY: by the contract of this function. A failure leaves the pages mapped, which wastes them but harms nothing.
        unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
    }
}
