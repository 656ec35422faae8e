//! Copies of many strided runs.

use super::{Axis, Item, fill_run, offset_of};
use crate::simd::multiversion::Multiversioned;

/// Copies successive runs of a strided view. Runs are usually short, so the offset of each is computed from the previous one.
pub(super) struct Runs<'a, T> {
    pub(super) src: &'a [T],
    /// The offset of the first element of the view.
    pub(super) start: usize,
    /// The axes of the view except the last.
    pub(super) outer: &'a [Axis],
    /// The last axis.
    pub(super) inner: Axis,
    /// The index of the first run.
    pub(super) first: usize,
    pub(super) dst: &'a mut [T],
}

impl<T: Item> Multiversioned for Runs<'_, T> {
    type Output = ();
    const USE_AVX512: bool = false;

    #[inline(always)]
    fn run(self) {
        let Runs { src, start, outer, inner, first, dst } = self;
        match (inner.stride, outer.split_last()) {
            (1, _) => each_run(start, outer, first, inner.n, dst, |start, dst| copy_run(&src[start..], dst)),
            (0, Some((next, _))) if inner.n <= MAX_REPEATS && next.stride == 1 => {
                // Each element is repeated several times in a row.
                each_row(start, outer, first, inner.n, dst, |start, _, dst| repeat_run(&src[start..], inner.n, dst));
            }
            (0, _) => each_run(start, outer, first, inner.n, dst, |start, dst| fill_run(dst, src[start])),
            (-1, _) => each_run(start, outer, first, inner.n, dst, |start, dst| {
                let from = &src[start + 1 - dst.len()..=start];
                dst.iter_mut().zip(from.iter().rev()).for_each(|(to, from)| *to = *from);
            }),
            (2, _) => each_run(start, outer, first, inner.n, dst, |start, dst| {
                // The last element may be the last of the source.
                let Some((last, rest)) = dst.split_last_mut() else { return };
                rest.iter_mut().zip(src[start..].as_chunks::<2>().0).for_each(|(to, from)| *to = from[0]);
                *last = src[start + 2 * rest.len()];
            }),
            (stride, _) if stride > 0 => each_run(start, outer, first, inner.n, dst, |start, dst| {
                let from = src[start..].iter().step_by(stride as usize);
                dst.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }),
            (stride, _) => each_run(start, outer, first, inner.n, dst, |start, dst| {
                let from = src[..=start].iter().rev().step_by(stride.unsigned_abs());
                dst.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }),
        }
    }
}

/// The most repetitions of an element that [`repeat_run`] writes.
const MAX_REPEATS: usize = 16;

/// Writes each element `times` times.
#[inline(always)]
fn repeat_run<T: Item>(from: &[T], times: usize, dst: &mut [T]) {
    #[inline(always)]
    fn exactly<T: Item, const N: usize>(from: &[T], dst: &mut [T]) {
        dst.as_chunks_mut::<N>().0.iter_mut().zip(from).for_each(|(to, from)| *to = [*from; N]);
    }
    match times {
        1 => exactly::<T, 1>(from, dst),
        2 => exactly::<T, 2>(from, dst),
        3 => exactly::<T, 3>(from, dst),
        4 => exactly::<T, 4>(from, dst),
        8 => exactly::<T, 8>(from, dst),
        _ => {
            let mut done = 0;
            for from in &from[..dst.len() / times] {
                // Writes more elements than needed if there is room; the next element overwrites them.
                match dst[done..].first_chunk_mut::<MAX_REPEATS>() {
                    Some(to) => *to = [*from; MAX_REPEATS],
                    None => dst[done..done + times].fill(*from),
                }
                done += times;
            }
        }
    }
}

/// Copies the first elements of `src`.
#[inline(always)]
pub(super) fn copy_run<T: Item>(src: &[T], dst: &mut [T]) {
    const BLOCK: usize = 16;
    let src = &src[..dst.len()];
    if dst.len() < BLOCK {
        return copy_short(src, dst);
    }
    if dst.len() > 16 * BLOCK {
        return dst.copy_from_slice(src);
    }
    for (to, from) in dst.as_chunks_mut::<BLOCK>().0.iter_mut().zip(src.as_chunks::<BLOCK>().0) {
        *to = *from;
    }
    // The last block overlaps the previous one.
    if let (Some(to), Some(from)) = (dst.last_chunk_mut::<BLOCK>(), src.last_chunk::<BLOCK>()) {
        *to = *from;
    }
}

/// Copies fewer than 16 elements.
#[inline(always)]
fn copy_short<T: Item>(src: &[T], dst: &mut [T]) {
    #[inline(always)]
    fn ends<T: Item, const N: usize>(src: &[T], dst: &mut [T]) -> bool {
        let Some((first, last)) = src.first_chunk::<N>().zip(src.last_chunk::<N>()) else { return false };
        if let Some(to) = dst.first_chunk_mut::<N>() {
            *to = *first;
        }
        if let Some(to) = dst.last_chunk_mut::<N>() {
            *to = *last;
        }
        true
    }
    let _ = ends::<T, 8>(src, dst) || ends::<T, 4>(src, dst) || ends::<T, 2>(src, dst) || ends::<T, 1>(src, dst);
}

/// Calls `f(start, run)` with each run of `n` elements of `dst` and the offset of its first element in the source. `first` is the
/// index of the first run.
#[inline(always)]
fn each_run<T>(start: usize, outer: &[Axis], first: usize, n: usize, dst: &mut [T], f: impl Fn(usize, &mut [T])) {
    each_row(start, outer, first, n, dst, |start, stride, runs| {
        for (i, run) in runs.chunks_exact_mut(n).enumerate() {
            f((start as isize + i as isize * stride) as usize, run);
        }
    });
}

/// Calls `f(start, stride, runs)` with the runs along the last of the `outer` axes: the offset of the first, the stride to the next.
#[inline(always)]
fn each_row<T>(
    start: usize,
    outer: &[Axis],
    first: usize,
    n: usize,
    mut dst: &mut [T],
    f: impl Fn(usize, isize, &mut [T]),
) {
    let Some((last, rest)) = outer.split_last() else { return f(start, 0, dst) };
    let (mut index, mut i) = (first / last.n, first % last.n);
    while !dst.is_empty() {
        let (runs, after) = dst.split_at_mut(((last.n - i) * n).min(dst.len()));
        f((start as isize + offset_of(rest, index) + i as isize * last.stride) as usize, last.stride, runs);
        (dst, index, i) = (after, index + 1, 0);
    }
}

/// Elements of a row that [`interleave`] loads at once.
const BLOCK: usize = 4;

/// Writes the elements of N rows alternately.
#[inline(always)]
pub(super) fn interleave<T: Item, const N: usize>(rows: [&[T]; N], dst: &mut [T]) {
    let rows = rows.map(|row| row.as_chunks::<BLOCK>());
    let (groups, _) = dst.as_chunks_mut::<N>();
    let (blocks, rest) = groups.as_chunks_mut::<BLOCK>();
    for (i, block) in blocks.iter_mut().enumerate() {
        let lanes: [[T; BLOCK]; N] = std::array::from_fn(|j| rows[j].0[i]);
        *block = std::array::from_fn(|k| std::array::from_fn(|j| lanes[j][k]));
    }
    for (k, group) in rest.iter_mut().enumerate() {
        *group = std::array::from_fn(|j| rows[j].1[k]);
    }
}
