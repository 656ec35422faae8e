//! Copies between contiguous arrays and strided views.

use super::runs::Runs;
use super::{Axes, Axis, GRAIN, Item, check_permutation, check_shape, contiguous, merge_axes, missing_axes, offset_of};
use crate::item::{Bits, bits, bits_mut, by_size};
use crate::par;
use crate::simd::multiversion;
use smallvec::SmallVec;

/// Copies a strided view of `src`, with the first element at `start` and merged `axes`, to the contiguous `dst`.
pub(super) fn gather<T: Item>(src: &[T], start: usize, axes: &[Axis], dst: &mut [T]) {
    by_size!(T, B => gather_bits::<B>(bits(src), start, axes, bits_mut(dst)));
}

fn gather_bits<T: Bits>(src: &[T], start: usize, axes: &[Axis], dst: &mut [T]) {
    let (inner, outer) = match axes.split_last() {
        Some((&inner, outer)) => (inner, outer),
        None => (Axis { n: 1, stride: 1 }, &[][..]),
    };
    if dst.is_empty() {
        return;
    }
    if outer.is_empty() && inner.n > 2 * GRAIN {
        return par::parallel_rows(dst, GRAIN, 1, |i, dst| {
            let start = (start as isize + (i * GRAIN) as isize * inner.stride) as usize;
            multiversion::run(Runs { src, start, outer: &[], inner: Axis { n: dst.len(), ..inner }, first: 0, dst });
        });
    }
    let runs = par::grain_for_all_threads(dst.len() / inner.n, (GRAIN / inner.n).max(1));
    par::parallel_rows(dst, runs * inner.n, 1, |i, dst| {
        multiversion::run(Runs { src, start, outer, inner, first: i * runs, dst });
    });
}

/// The offset of the first element and the merged axes of `begin + step * i` for i in `out_shape`, within an array of `shape`.
fn slice_axes(shape: &[usize], begin: &[usize], step: &[isize], out_shape: &[usize]) -> (usize, Axes) {
    let rank = shape.len();
    assert!(
        begin.len() == rank && step.len() == rank && out_shape.len() == rank,
        "a slice of {shape:?} needs {rank} values of begin, step and shape"
    );
    for i in 0..rank {
        let last = begin[i] as isize + out_shape[i].saturating_sub(1) as isize * step[i];
        assert!(
            out_shape[i] == 0 || begin[i] < shape[i] && (0..shape[i] as isize).contains(&last),
            "axis {i} of length {}: elements {} to {last} are not within it",
            shape[i],
            begin[i]
        );
    }
    let strides = contiguous(shape);
    let start = begin.iter().zip(&strides).map(|(b, s)| b * *s as usize).sum();
    (start, merge_axes((0..rank).map(|i| Axis { n: out_shape[i], stride: strides[i] * step[i] })))
}

/// Copies the elements `begin + step * i` of `src`, for i in `out_shape`, to `dst`. Steps may be negative.
///
/// # Panics
/// Panics if an element lies outside `shape`, or a length does not match its shape.
pub fn slice<T: Item>(
    (src, shape): (&[T], &[usize]),
    begin: &[usize],
    step: &[isize],
    (dst, out_shape): (&mut [T], &[usize]),
) {
    check_shape(src.len(), shape);
    check_shape(dst.len(), out_shape);
    let (start, axes) = slice_axes(shape, begin, step, out_shape);
    gather(src, start, &axes, dst);
}

/// Calls `f(index, offset, len, stride)` for each run along the innermost axis of a view: the row-major index of its first element,
/// its memory offset, its length and its stride.
pub(super) fn for_each_run(start: usize, axes: &[Axis], size: usize, mut f: impl FnMut(usize, usize, usize, isize)) {
    let (inner, outer) = match axes.split_last() {
        Some((&inner, outer)) => (inner, outer),
        None => (Axis { n: 1, stride: 1 }, &[][..]),
    };
    if size == 0 {
        return;
    }
    for i in 0..size / inner.n {
        f(i * inner.n, (start as isize + offset_of(outer, i)) as usize, inner.n, inner.stride);
    }
}

/// Writes `src` to the elements `begin + step * i` of `dst`, for i in `src_shape`.
///
/// # Panics
/// Panics if an element lies outside `shape`, or a length does not match its shape.
pub fn slice_assign<T: Item>(
    (src, src_shape): (&[T], &[usize]),
    begin: &[usize],
    step: &[isize],
    (dst, shape): (&mut [T], &[usize]),
) {
    check_shape(src.len(), src_shape);
    check_shape(dst.len(), shape);
    let (start, axes) = slice_axes(shape, begin, step, src_shape);
    for_each_run(start, &axes, src.len(), |from, to, n, stride| {
        let src = &src[from..from + n];
        if stride == 1 {
            return dst[to..to + n].copy_from_slice(src);
        }
        for (i, &v) in src.iter().enumerate() {
            dst[(to as isize + i as isize * stride) as usize] = v;
        }
    });
}

/// Writes `value` to the elements `begin + step * i` of `dst`, for i in `slice_shape`.
///
/// # Panics
/// Panics if an element lies outside `shape`, or a length does not match its shape.
pub fn slice_fill<T: Item>(
    value: T,
    slice_shape: &[usize],
    begin: &[usize],
    step: &[isize],
    (dst, shape): (&mut [T], &[usize]),
) {
    check_shape(dst.len(), shape);
    let (start, axes) = slice_axes(shape, begin, step, slice_shape);
    for_each_run(start, &axes, slice_shape.iter().product(), |_, to, n, stride| {
        for i in 0..n as isize {
            dst[(to as isize + i * stride) as usize] = value;
        }
    });
}

/// Repeats `src` along its axes of length 1 (or missing at the front) to fill `out_shape`.
///
/// # Panics
/// Panics if `shape` cannot be broadcast, or a length does not match its shape.
pub fn broadcast_to<T: Item>(src: &[T], shape: &[usize], (dst, out_shape): (&mut [T], &[usize])) {
    check_shape(src.len(), shape);
    check_shape(dst.len(), out_shape);
    let missing = missing_axes(shape, out_shape);
    let strides = contiguous(shape);
    let axes = merge_axes(out_shape.iter().enumerate().map(|(i, &n)| {
        let (len, stride) = if i < missing { (1, 0) } else { (shape[i - missing], strides[i - missing]) };
        assert!(len == n || len == 1, "shape {shape:?} cannot be broadcast to {out_shape:?}");
        Axis { n, stride: if len == 1 { 0 } else { stride } }
    }));
    gather(src, 0, &axes, dst);
}

/// Reverses the order of the elements along `axes`.
///
/// # Panics
/// Panics if there is no such axis, or a length does not match.
pub fn flip<T: Item>(src: &[T], shape: &[usize], axes: &[usize], dst: &mut [T]) {
    check_shape(src.len(), shape);
    check_shape(dst.len(), shape);
    assert!(axes.iter().all(|&a| a < shape.len()), "{shape:?} does not have all axes of {axes:?}");
    if src.is_empty() {
        return;
    }
    let flipped = |i: usize| axes.contains(&i);
    let begin: SmallVec<[usize; 6]> =
        shape.iter().enumerate().map(|(i, n)| if flipped(i) { n - 1 } else { 0 }).collect();
    let step: SmallVec<[isize; 6]> = (0..shape.len()).map(|i| if flipped(i) { -1 } else { 1 }).collect();
    slice((src, shape), &begin, &step, (dst, shape));
}

/// Permutes axes and reverses some of them: axis `i` of the result is axis `perm[i]` of the source, reversed if
/// `flipped[perm[i]]`.
///
/// # Panics
/// Panics if `perm` is not a permutation of the axes, or a length does not match.
pub fn permute_flip<T: Item>(src: &[T], shape: &[usize], perm: &[usize], flipped: &[bool], dst: &mut [T]) {
    check_shape(src.len(), shape);
    check_shape(dst.len(), shape);
    check_permutation(perm, shape);
    if src.is_empty() {
        return;
    }
    let strides = contiguous(shape);
    let start = (0..shape.len()).filter(|i| flipped[*i]).map(|i| (shape[i] - 1) * strides[i] as usize).sum();
    let axis = |&i: &usize| Axis { n: shape[i], stride: if flipped[i] { -strides[i] } else { strides[i] } };
    gather(src, start, &merge_axes(perm.iter().map(axis)), dst);
}

/// Rolls the middle axis of `src`, (outer, n, inner), by `shift`: elements shifted past the end reappear at the start.
///
/// # Panics
/// Panics if a length does not match, or `shift` is not below the length of the axis.
pub fn roll<T: Item>(src: &[T], (outer, n, inner): (usize, usize, usize), shift: usize, dst: &mut [T]) {
    check_shape(src.len(), &[outer, n, inner]);
    check_shape(dst.len(), &[outer, n, inner]);
    if src.is_empty() {
        return;
    }
    assert!(shift < n, "a shift by {shift} of an axis of length {n}");
    let row = n * inner;
    par::parallel_rows(dst, row, (GRAIN / row).max(1), |i, dst| {
        for (k, dst) in dst.chunks_mut(row).enumerate() {
            let (stay, wrap) = src[(i + k) * row..(i + k + 1) * row].split_at((n - shift) * inner);
            dst[..wrap.len()].copy_from_slice(wrap);
            dst[wrap.len()..].copy_from_slice(stay);
        }
    });
}

/// Tiles `reps[i]` copies of `src` along axis `i`. The shorter of `shape` and `reps` is extended by leading ones, as in NumPy.
///
/// # Panics
/// Panics if a length does not match.
pub fn tile<T: Item>(src: &[T], shape: &[usize], reps: &[usize], dst: &mut [T]) {
    check_shape(src.len(), shape);
    assert_eq!(dst.len(), src.len() * reps.iter().product::<usize>(), "{reps:?} copies of {shape:?} do not fill it");
    let rank = shape.len().max(reps.len());
    let len_of = |s: &[usize], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
    let strides = contiguous(shape);
    let axes = (0..rank).flat_map(|i| {
        let stride = (i + shape.len()).checked_sub(rank).map_or(0, |i| strides[i]);
        [Axis { n: len_of(reps, i), stride: 0 }, Axis { n: len_of(shape, i), stride }]
    });
    gather(src, 0, &merge_axes(axes), dst);
}

/// Repeats each element of the middle axis of `src`, (outer, n, inner), `times` times: (outer, n, times, inner).
///
/// # Panics
/// Panics if a length does not match.
pub fn repeat<T: Item>(src: &[T], (outer, n, inner): (usize, usize, usize), times: usize, dst: &mut [T]) {
    check_shape(src.len(), &[outer, n, inner]);
    check_shape(dst.len(), &[outer, n, times, inner]);
    let axis = |n, stride: usize| Axis { n, stride: stride as isize };
    gather(src, 0, &merge_axes([axis(outer * n, inner), axis(times, 0), axis(inner, 1)]), dst);
}
