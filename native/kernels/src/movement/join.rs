//! Concatenation of arrays along an axis, and splitting.

use super::{GRAIN, Item};
use crate::par;

/// Concatenates arrays along an axis. A part is the elements of an array and its row length: the product of the lengths of the
/// concatenated axis and the axes after it. All parts have the same number of rows.
///
/// # Panics
/// If the parts do not all have the same number of rows, or do not fill `dst`.
pub fn concat<T: Item>(parts: &[(&[T], usize)], dst: &mut [T]) {
    let width: usize = parts.iter().map(|p| p.1).sum();
    if width == 0 {
        assert!(dst.is_empty(), "no parts to fill {} elements", dst.len());
        return;
    }
    let rows = dst.len() / width;
    assert_eq!(dst.len(), rows * width, "rows of {width} elements do not fill {}", dst.len());
    for (part, n) in parts {
        assert_eq!(part.len(), rows * n, "a part of {} elements does not have {rows} rows of {n}", part.len());
    }
    par::parallel_rows(dst, width, (GRAIN / width).max(1), |r, dst| {
        let mut start = 0;
        for (part, n) in parts {
            dst[start..start + n].copy_from_slice(&part[r * n..(r + 1) * n]);
            start += n;
        }
    });
}

/// Splits an array along an axis; the parts are described as in [`concat`](fn@concat).
///
/// # Panics
/// If the parts do not all have the same number of rows, or `src` does not fill them.
pub fn split<T: Item>(src: &[T], parts: &mut [(&mut [T], usize)]) {
    let width: usize = parts.iter().map(|p| p.1).sum();
    let rows = src.len().checked_div(width).unwrap_or(0);
    assert_eq!(src.len(), rows * width, "rows of {width} elements do not make up {}", src.len());
    let mut start = 0;
    for (part, n) in parts {
        let n = *n;
        assert_eq!(part.len(), rows * n, "a part of {} elements does not have {rows} rows of {n}", part.len());
        par::parallel_rows(part, n, (GRAIN / n.max(1)).max(1), |r, dst| {
            dst.copy_from_slice(&src[r * width + start..r * width + start + n]);
        });
        start += n;
    }
}
