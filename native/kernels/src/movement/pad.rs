//! Padding.

use super::{GRAIN, Item, check_shape, contiguous};
use crate::par;

/// The values of the elements outside the source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Padding<T> {
    /// A constant.
    Constant(T),
    /// The nearest element of the source.
    Edge,
    /// The source mirrored at its border elements, which are not repeated.
    Reflect,
    /// The source mirrored at its edges, so that border elements are repeated.
    Symmetric,
}

/// The source index for padded index `i`; `None` if it gets the constant.
fn source<T>(mode: &Padding<T>, i: usize, before: usize, n: usize) -> Option<usize> {
    let at = i as isize - before as isize;
    let last = n as isize - 1;
    match mode {
        Padding::Constant(_) => (0..=last).contains(&at).then_some(at as usize),
        Padding::Edge => Some(at.clamp(0, last) as usize),
        Padding::Reflect if last == 0 => Some(0),
        Padding::Reflect => {
            let at = at.rem_euclid(2 * last);
            Some(at.min(2 * last - at) as usize)
        }
        Padding::Symmetric => {
            let at = at.rem_euclid(2 * n as isize);
            Some(at.min(2 * n as isize - 1 - at) as usize)
        }
    }
}

/// Pads `src` of `shape` by `pads[i]` = (before, after) elements along each axis.
///
/// # Panics
/// If a length does not match, or an empty array is padded with its own elements.
pub fn pad<T: Item + PartialEq>(src: &[T], shape: &[usize], pads: &[(usize, usize)], mode: Padding<T>, dst: &mut [T]) {
    check_shape(src.len(), shape);
    assert_eq!(pads.len(), shape.len(), "padding of {} axes for shape {shape:?}", pads.len());
    let out: Vec<usize> = shape.iter().zip(pads).map(|(n, p)| n + p.0 + p.1).collect();
    check_shape(dst.len(), &out);
    let fill = if let Padding::Constant(v) = mode { v } else { T::default() };
    assert!(!src.is_empty() || matches!(mode, Padding::Constant(_)), "an empty array has no elements to pad with");
    let Some((&width, outer)) = out.split_last() else { return dst.copy_from_slice(src) };
    if src.is_empty() || dst.is_empty() {
        return dst.fill(fill);
    }
    let strides = contiguous(shape);
    let last = outer.len();
    let (before, n) = (pads[last].0, shape[last]);
    par::parallel_rows(dst, width, (GRAIN / width).max(1), |row, dst| {
        let mut rest = row;
        let mut base = Some(0);
        for i in (0..last).rev() {
            let at = source(&mode, rest % outer[i], pads[i].0, shape[i]);
            base = base.zip(at).map(|(base, at)| base + at * strides[i] as usize);
            rest /= outer[i];
        }
        let Some(base) = base else { return dst.fill(fill) };
        let line = &src[base..base + n];
        dst[before..before + n].copy_from_slice(line);
        for i in (0..before).chain(before + n..width) {
            dst[i] = source(&mode, i, before, n).map_or(fill, |at| line[at]);
        }
    });
}
