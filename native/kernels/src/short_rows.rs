//! Short rows, transposed in blocks so that each lane of a vector holds an element of another row.

use crate::float::Accum;
use crate::map::{Elements, ElementsMut};
use crate::par::{MatMut, MatRef};

/// Maximum length of a short row.
pub(crate) const MAX_LEN: usize = 32;
/// Rows in a block.
pub(crate) const BLOCK_ROWS: usize = 64;

/// Transposes a block of rows of `len` elements, which starts at element `start` of `from`, into `to`: (len, rows). `buffer` is a
/// scratch buffer as long as `to`.
pub(crate) fn load<A: Accum>(from: Elements<'_>, start: usize, len: usize, buffer: &mut [A], to: &mut [A]) {
    match A::view_any(from) {
        Some(lanes) => transpose(&lanes[start..start + to.len()], len, to),
        None => {
            A::load_any(from, start, buffer);
            transpose(buffer, len, to);
        }
    }
}

/// The inverse of [`load`]: transposes `from`, (len, rows), into the contiguous rows `to`.
pub(crate) fn store<A: Accum>(from: &[A], len: usize, buffer: &mut [A], mut to: ElementsMut<'_>) {
    let rows = from.len() / len.max(1);
    if let Some(lanes) = A::view_any_mut(&mut to) {
        return transpose(from, rows, lanes);
    }
    transpose(from, rows, buffer);
    A::store_any(buffer, to);
}

/// Transposes rows of `width` elements.
fn transpose<A: Accum>(from: &[A], width: usize, to: &mut [A]) {
    let rows = from.len() / width.max(1);
    if rows <= 1 || width <= 1 {
        return to.copy_from_slice(from);
    }
    let kernel = A::microkernel();
    kernel.transpose(MatRef::row_major(from, rows, width), &mut MatMut::row_major(to, width, rows));
}
