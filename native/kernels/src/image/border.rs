//! Borders around images.

use crate::par;

/// The border mode, shown for a row `abcdef`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    /// A constant color.
    Constant,
    /// `aaa|abcdef|fff`.
    Replicate,
    /// `cba|abcdef|fed`.
    Reflect,
    /// `def|abcdef|abc`.
    Wrap,
    /// `dcb|abcdef|edc`.
    Mirror,
}

impl Border {
    /// Index of the source pixel at coordinate `x` of an axis of `len` pixels; `None` for the border color.
    fn source_index(self, x: isize, len: usize) -> Option<usize> {
        let n = len as isize;
        if (0..n).contains(&x) {
            return Some(x as usize);
        }
        let reflected = |period: isize, edge: isize| {
            let x = x.rem_euclid(period);
            if x < n { x } else { period - edge - x }
        };
        Some(match self {
            _ if n == 0 => return None,
            Border::Constant => return None,
            Border::Replicate => x.clamp(0, n - 1),
            Border::Wrap => x.rem_euclid(n),
            Border::Reflect => reflected(2 * n, 1),
            Border::Mirror if n == 1 => 0,
            Border::Mirror => reflected(2 * n - 2, 0),
        } as usize)
    }
}

/// Copies an image (height, width, channels) into a larger one, `top` rows and `left` columns from its corner. `color` has one
/// element per channel. The result is given with its width.
///
/// # Panics
/// Panics if a length does not match.
pub fn add_border<T: Copy + Send + Sync>(
    src: &[T],
    (height, width): (usize, usize),
    (top, left): (usize, usize),
    border: Border,
    color: &[T],
    (dst, out_width): (&mut [T], usize),
) {
    let n = color.len();
    assert_eq!(src.len(), height * width * n, "the source does not have this shape");
    let columns: Vec<Option<usize>> =
        (0..out_width).map(|i| border.source_index(i as isize - left as isize, width).map(|x| x * n)).collect();
    par::parallel_rows(dst, out_width * n, (super::GRAIN / (out_width * n).max(1)).max(1), |row, dst| {
        let row = border.source_index(row as isize - top as isize, height);
        for (dst, column) in dst.chunks_exact_mut(n).zip(&columns) {
            let pixel = match (row, column) {
                (Some(row), Some(column)) => &src[row * width * n + column..][..n],
                _ => color,
            };
            dst.copy_from_slice(pixel);
        }
    });
}
