//! Short rows, computed side by side: blocks of rows are transposed so that a vector holds one element of each row.

use crate::float::Accum;
use crate::map::{Elements, ElementsMut};
use crate::par::{MatMut, MatRef};

/// Maximum length of a short row.
pub(crate) const LONGEST: usize = 32;
/// Rows computed together.
pub(crate) const ROWS: usize = 64;

/// Writes element `a` of each row to row `a` of `to`. The rows have `len` elements and begin at element `at` of `from`; `buffer` is
/// scratch memory of the length of `to`.
pub(crate) fn load<A: Accum>(from: Elements<'_>, at: usize, len: usize, buffer: &mut [A], to: &mut [A]) {
    match A::view_any(from) {
        Some(lanes) => transpose(&lanes[at..at + to.len()], len, to),
        None => {
            A::load_any(from, at, buffer);
            transpose(buffer, len, to);
        }
    }
}

/// The inverse of [`load`], to the rows that make up `to`.
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
