//! Memory from the system.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

/// Alignment of every block: a cache line, and the widest vector register.
pub const ALIGN: usize = 64;

/// A page of memory, and a large one.
const PAGE: usize = 4 << 10;
const LARGE_PAGE: usize = 2 << 20;

/// A block of zeros, if the system has it.
///
/// Blocks of 2 MiB and more start on a large page and ask the system for such pages: loops over large arrays would otherwise spend up to
/// a fifth of their time on finding out where their pages are. Blocks of 64 KiB and more start on a page, so that they share none.
pub fn take(bytes: usize) -> Option<NonNull<u8>> {
    let layout = layout(bytes)?;
    // SAFETY: the layout has a size of at least one byte.
    let block = NonNull::new(unsafe { alloc(layout) })?;
    if bytes >= LARGE_PAGE {
        prefer_large_pages(block, bytes);
    }
    // SAFETY: these bytes were just given to us.
    unsafe { block.write_bytes(0, bytes) };
    Some(block)
}

/// Gives a block back.
///
/// # Safety
/// The block must come from [`take`] with the same number of bytes, and nobody may refer to it any more.
pub unsafe fn give(block: NonNull<u8>, bytes: usize) {
    if let Some(layout) = layout(bytes) {
        // SAFETY: the block was allocated with this layout, as the caller says.
        unsafe { dealloc(block.as_ptr(), layout) }
    }
}

fn layout(bytes: usize) -> Option<Layout> {
    let align = match bytes {
        LARGE_PAGE.. => LARGE_PAGE,
        0x10000.. => PAGE,
        _ => ALIGN,
    };
    Layout::from_size_align(bytes.max(1), align).ok()
}

/// Without the system's consent the pages are small ones, and nothing is wrong.
fn prefer_large_pages(block: NonNull<u8>, bytes: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: these bytes are ours, and which pages they are on changes nothing of what they hold.
    unsafe {
        libc::madvise(block.as_ptr().cast(), bytes / LARGE_PAGE * LARGE_PAGE, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (block, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_zero() {
        for bytes in [1, 64, 100, 0x10000, LARGE_PAGE - 1, LARGE_PAGE, 2 * LARGE_PAGE + 12_345] {
            let block = take(bytes).unwrap();
            assert_eq!(block.as_ptr() as usize % layout(bytes).unwrap().align(), 0, "{bytes}");
            // SAFETY: the block has these bytes, and is given back once.
            unsafe {
                assert!(std::slice::from_raw_parts(block.as_ptr(), bytes).iter().all(|byte| *byte == 0), "{bytes}");
                block.write_bytes(7, bytes);
                give(block, bytes);
            }
        }
        assert_eq!(take(isize::MAX as usize), None);
    }
}
