//! Padding with constants or elements of the source.

use super::{GRAIN, Item, check_shape, contiguous};
use crate::par;

/// The padding mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Padding<T> {
    /// A constant.
    Constant(T),
    /// The nearest element of the source.
    Edge,
    /// The source reflected at its border elements, which are not repeated.
    Reflect,
    /// The source reflected at its edges, so that border elements are repeated.
    Symmetric,
}

/// The source index for padded index `i`, or `None` for the constant.
fn source_index<T>(mode: &Padding<T>, i: usize, before: usize, n: usize) -> Option<usize> {
    let source = i as isize - before as isize;
    let last = n as isize - 1;
    match mode {
        Padding::Constant(_) => (0..=last).contains(&source).then_some(source as usize),
        Padding::Edge => Some(source.clamp(0, last) as usize),
        Padding::Reflect if last == 0 => Some(0),
        Padding::Reflect => {
            let source = source.rem_euclid(2 * last);
            Some(source.min(2 * last - source) as usize)
        }
        Padding::Symmetric => {
            let source = source.rem_euclid(2 * n as isize);
            Some(source.min(2 * n as isize - 1 - source) as usize)
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
            let source = source_index(&mode, rest % outer[i], pads[i].0, shape[i]);
            base = base.zip(source).map(|(base, source)| base + source * strides[i] as usize);
            rest /= outer[i];
        }
        let Some(base) = base else { return dst.fill(fill) };
        let row_elements = &src[base..base + n];
        dst[before..before + n].copy_from_slice(row_elements);
        for i in (0..before).chain(before + n..width) {
            dst[i] = source_index(&mode, i, before, n).map_or(fill, |source| row_elements[source]);
        }
    });
}
