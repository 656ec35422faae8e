//! Padding with constants or elements of the source.

use super::runs::copy_run;
use super::{GRAIN, Item, check_shape, contiguous};
use crate::item::{Bits, bits, bits_mut, bits_of, by_size};
use crate::par;
use crate::simd::multiversion::{self, Multiversioned};

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

impl<T> Padding<T> {
    /// The source index for index `i` of a padded axis, or `None` for the constant. The source has `n` elements along the axis, and
    /// `before` come before them.
    pub fn source_index(&self, i: usize, before: usize, n: usize) -> Option<usize> {
        let source = i as isize - before as isize;
        let last = n as isize - 1;
        match self {
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
}

/// Pads `src` of `shape` by `pads[i]` = (before, after) elements along each axis.
///
/// # Panics
/// Panics if a length does not match, or an empty array is padded with its own elements.
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
    // For each axis, the offset of the source of each padded index.
    let offsets: Vec<Vec<Option<usize>>> = (0..shape.len())
        .map(|axis| {
            let source = |i| mode.source_index(i, pads[axis].0, shape[axis]);
            (0..out[axis]).map(|i| source(i).map(|index| index * strides[axis] as usize)).collect()
        })
        .collect();
    let n = shape[outer.len()];
    let grain = (GRAIN / width).max(1);
    let before = pads[outer.len()].0;
    par::parallel_rows(dst, width * grain, 1, |i, dst| {
        let first = i * grain;
        by_size!(T, B => {
            let (src, fill, dst) = (bits::<T, B>(src), bits_of(fill), bits_mut(dst));
            multiversion::run(Pad { src, offsets: &offsets, before, n, fill, first, dst });
        });
    });
}

/// Pads rows starting at row `first`.
struct Pad<'a, T> {
    src: &'a [T],
    offsets: &'a [Vec<Option<usize>>],
    /// Elements before a row.
    before: usize,
    /// Elements of a row of the source.
    n: usize,
    fill: T,
    first: usize,
    dst: &'a mut [T],
}

impl<T: Bits> Multiversioned for Pad<'_, T> {
    type Output = ();
    const USE_AVX512: bool = false;

    #[inline(always)]
    fn run(self) {
        let Pad { src, offsets, before, n, fill, first, dst } = self;
        let Some((columns, outer)) = offsets.split_last() else { return };
        let num_rows = outer.last().map_or(1, Vec::len);
        let (left, right) = (&columns[..before], &columns[before + n..]);
        let (mut index, mut row, mut base) = (first / num_rows, first % num_rows, base_of(outer, first / num_rows));
        for dst in dst.chunks_exact_mut(columns.len()) {
            if row == num_rows {
                (index, row) = (index + 1, 0);
                base = base_of(outer, index);
            }
            let offset = outer.last().map_or(Some(0), |offsets| offsets[row]);
            row += 1;
            let Some((base, offset)) = base.zip(offset) else {
                dst.fill(fill);
                continue;
            };
            let from = &src[base + offset..][..n];
            copy_run(from, &mut dst[before..before + n]);
            let end = before + n;
            dst[..before].iter_mut().zip(left).for_each(|(to, source)| *to = source.map_or(fill, |i| from[i]));
            dst[end..].iter_mut().zip(right).for_each(|(to, source)| *to = source.map_or(fill, |i| from[i]));
        }
    }
}

/// The source offset of an index into all axes but the last two; `None` for the constant.
fn base_of(outer: &[Vec<Option<usize>>], mut index: usize) -> Option<usize> {
    let mut base = Some(0);
    for axis in outer.iter().rev().skip(1) {
        base = base.zip(axis[index % axis.len()]).map(|(base, offset)| base + offset);
        index /= axis.len();
    }
    base
}
