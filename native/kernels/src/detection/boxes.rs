//! Overlaps of boxes, encoding relative to anchors, and bipartite matching.

use crate::float::{Accum, FloatElement};
use crate::par::{self, with_scratch};
use crate::sort::{self, Order, SortKey};

use super::wide;

/// Elements per chunk.
const GRAIN: usize = 1 << 13;

/// The meaning of the four numbers of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoxFormat {
    /// Left, top, right, bottom.
    Corner,
    /// Center x, center y, width, height.
    Center,
}

impl BoxFormat {
    /// Converts a box to corners: left, top, right, bottom.
    #[inline(always)]
    pub(super) fn corners<A: Accum>(self, b: [A; 4]) -> [A; 4] {
        if self == BoxFormat::Corner {
            return b;
        }
        let (w, h) = (half(b[2]), half(b[3]));
        [b[0] - w, b[1] - h, b[0] + w, b[1] + h]
    }

    /// Converts corners to this format.
    #[inline(always)]
    pub(super) fn of_corners<A: Accum>(self, b: [A; 4]) -> [A; 4] {
        if self == BoxFormat::Corner {
            return b;
        }
        [half(b[0] + b[2]), half(b[1] + b[3]), b[2] - b[0], b[3] - b[1]]
    }
}

#[inline(always)]
fn half<A: Accum>(x: A) -> A {
    x * A::of(0.5f32)
}

/// The corners of a box and its area.
#[derive(Clone, Copy)]
pub(super) struct Area<A> {
    corners: [A; 4],
    area: A,
}

impl<A: Accum> Area<A> {
    /// Computes the area; that of an inverted box is zero.
    #[inline(always)]
    pub(super) fn new(corners: [A; 4]) -> Self {
        let (w, h) = (corners[2] - corners[0], corners[3] - corners[1]);
        Area { corners, area: if w < A::zero() || h < A::zero() { A::zero() } else { w * h } }
    }

    /// Intersection over union.
    #[inline(always)]
    pub(super) fn iou(&self, other: &Self) -> A {
        let (a, b) = (&self.corners, &other.corners);
        let w = (a[2].min(b[2]) - a[0].max(b[0])).max(A::zero());
        let h = (a[3].min(b[3]) - a[1].max(b[1])).max(A::zero());
        let common = w * h;
        if common <= A::zero() { A::zero() } else { common / (self.area + other.area - common) }
    }
}

/// Intersection over union of every pair of boxes: `out` is (boxes of `left`, boxes of `right`).
///
/// # Panics
/// Panics if the lengths do not match.
pub fn box_iou<T: FloatElement>(left: &[T], right: &[T], format: BoxFormat, out: &mut [T]) {
    let area = |b: &[T]| Area::<T::Acc>::new(format.corners(wide(b)));
    let right: Vec<_> = right.chunks_exact(4).map(area).collect();
    let cols = right.len();
    assert_eq!(out.len(), left.len() / 4 * cols, "number of overlaps");
    par::parallel_rows(out, cols, (GRAIN / cols.max(1)).max(1), |row, out| {
        let left = area(&left[4 * row..]);
        out.iter_mut().zip(&right).for_each(|(out, right)| *out = left.iou(right).store());
    });
}

/// The operands of [`box_encode`].
#[derive(Clone, Copy, Debug)]
pub struct Encoding<'a, T> {
    /// Number of examples.
    pub examples: usize,
    /// Above one half for a positive anchor: (examples, anchors).
    pub samples: &'a [T],
    /// Indices into the references of the example: (examples, anchors).
    pub matches: &'a [T],
    /// Corners: (examples, anchors, 4).
    pub anchors: &'a [T],
    /// Corners of the references: (examples, references, 4).
    pub refs: &'a [T],
    /// Subtracted from each of the four codes.
    pub means: &'a [T],
    /// Divides each of the four codes.
    pub stds: &'a [T],
}

/// The training targets of boxes, relative to their anchors.
///
/// The target of a positive anchor is (offset of the center / anchor size, log of the ratio of sizes), minus the means, divided by the
/// standard deviations, and its mask is 1; targets and masks of the others are 0.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn box_encode<T: FloatElement>(encoding: &Encoding<'_, T>, targets: &mut [T], masks: &mut [T]) {
    let Encoding { examples, samples, matches, anchors, refs, means, stds } = *encoding;
    let per_example = samples.len().checked_div(examples).unwrap_or(0).max(1);
    let refs_per_example = refs.len().checked_div(4 * examples).unwrap_or(0);
    let means_stds = (wide::<T::Acc, T>(means), wide::<T::Acc, T>(stds));
    par::parallel_rows2((targets, 4 * GRAIN), (masks, 4 * GRAIN), 1, |chunk, targets, masks| {
        let first = chunk * GRAIN;
        // The index of the first reference of the current example, and the number of anchors left in the example.
        let (mut boxes, mut left) = (first / per_example * refs_per_example, per_example - first % per_example);
        with_scratch(targets.len(), |codes: &mut [T::Acc]| {
            let rows = codes.as_chunks_mut::<4>().0.iter_mut().zip(masks.as_chunks_mut::<4>().0);
            for (i, (code, mask)) in (first..).zip(rows) {
                if left == 0 {
                    (boxes, left) = (boxes + refs_per_example, per_example);
                }
                left -= 1;
                let index = T::Acc::of(matches[i]).wide();
                let is_positive =
                    T::Acc::of(samples[i]).wide() > 0.5 && index >= 0.0 && (index as usize) < refs_per_example;
                *mask = [if is_positive { T::from_f32(1.0) } else { T::default() }; 4];
                let reference = if is_positive { &refs[4 * (boxes + index as usize)..] } else { &anchors[4 * i..] };
                let anchor = BoxFormat::Center.of_corners(wide::<T::Acc, T>(&anchors[4 * i..]));
                let target_box = BoxFormat::Center.of_corners(wide::<T::Acc, T>(reference));
                let (x, y) = (target_box[0] - anchor[0], target_box[1] - anchor[1]);
                *code = [x / anchor[2], y / anchor[3], target_box[2] / anchor[2], target_box[3] / anchor[3]];
            }
            normalize_codes(codes, means_stds, (masks, targets));
        });
    });
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// Takes the logarithm of the ratios of sizes and normalizes all codes. Those of anchors with mask 0 become 0.
    fn normalize_codes<T: FloatElement>(codes: &[T::Acc], means_stds: ([T::Acc; 4], [T::Acc; 4]), out: (&[T], &mut [T])) {
        const LANES: usize = 16;
        let (mut means, mut stds) = ([T::Acc::default(); LANES], [T::Acc::default(); LANES]);
        for k in 0..LANES {
            (means[k], stds[k]) = (means_stds.0[k % 4], means_stds.1[k % 4]);
        }
        for (start, codes) in (0..codes.len()).step_by(LANES).zip(codes.chunks(LANES)) {
            let n = codes.len();
            let (mask, target) = (&out.0[start..start + n], &mut out.1[start..start + n]);
            for k in 0..n {
                let log = codes[k].logarithm();
                let code = if k % 4 < 2 { codes[k] } else { log };
                let code = (code - means[k % LANES]) / stds[k % LANES];
                target[k] = if mask[k].to_f32() > 0.0 { code.store() } else { T::default() };
            }
        }
    }
}

/// The parameters of [`box_decode`].
#[derive(Clone, Copy, Debug)]
pub struct Decoding {
    /// The format of the anchors.
    pub format: BoxFormat,
    /// Standard deviations, by which the codes are multiplied.
    pub stds: [f32; 4],
    /// Upper bound of the size codes, if positive.
    pub clip: f32,
}

/// The inverse of [`box_encode`]: decodes boxes to corners. All examples share the anchors.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn box_decode<T: FloatElement>(codes: &[T], anchors: &[T], params: &Decoding, out: &mut [T]) {
    assert_eq!(codes.len(), out.len(), "number of boxes");
    par::parallel_rows(out, 4 * DECODE_GRAIN, 1, |chunk, out| {
        decode_block(&codes[4 * DECODE_GRAIN * chunk..], anchors, chunk * DECODE_GRAIN, params, out);
    });
}

/// Boxes in a chunk of [`box_decode`].
const DECODE_GRAIN: usize = 1 << 11;

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// Decodes the boxes starting at index `first`.
    fn decode_block<T: FloatElement>(codes: &[T], anchors: &[T], first: usize, params: &Decoding, out: &mut [T]) {
        let stds = params.stds.map(T::Acc::of);
        let clip = T::Acc::of(params.clip);
        let count = (anchors.len() / 4).max(1);
        let mut index = first % count;
        for (code, out) in codes.chunks_exact(4).zip(out.chunks_exact_mut(4)) {
            let anchor = wide::<T::Acc, T>(&anchors[4 * index..]);
            index = if index + 1 == count { 0 } else { index + 1 };
            let [ax, ay, aw, ah] = match params.format {
                BoxFormat::Corner => BoxFormat::Center.of_corners(anchor),
                BoxFormat::Center => anchor,
            };
            let code = wide::<T::Acc, T>(code);
            let (x, y) = (code[0] * stds[0] * aw + ax, code[1] * stds[1] * ah + ay);
            let (w, h) = (half_size(code[2] * stds[2], clip, aw), half_size(code[3] * stds[3], clip, ah));
            out[0] = (x - w).store();
            out[1] = (y - h).store();
            out[2] = (x + w).store();
            out[3] = (y + h).store();
        }
    }
}

/// Half the width or height that a code represents.
#[inline(always)]
fn half_size<A: Accum>(code: A, clip: A, anchor: A) -> A {
    let code = if clip > A::zero() { code.min(clip) } else { code };
    half(code.exponential() * anchor)
}

/// Greedily matches the rows and columns of each (`rows`, `cols`) matrix of scores, best score first, until no score is better
/// than `threshold` or, as in MXNet, `topk + 1` pairs are matched. `row_of` gets the column of each row, `col_of` the row of each
/// column; -1 if unmatched. Equal scores are matched in row-major order.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn bipartite_matching<T: FloatElement + SortKey>(
    scores: &[T],
    (rows, cols): (usize, usize),
    order: Order,
    threshold: f32,
    topk: Option<usize>,
    (row_of, col_of): (&mut [T], &mut [T]),
) {
    let cells = rows * cols;
    let none = T::from_f32(-1.0);
    par::parallel_rows2((row_of, rows), (col_of, cols), (GRAIN / cells.max(1)).max(1), |b, row_of, col_of| {
        row_of.fill(none);
        col_of.fill(none);
        let scores = &scores[b * cells..][..cells];
        let mut cells_by_score = vec![0i64; cells];
        sort::argsort(scores, cells, order, &mut cells_by_score);
        let (mut rows_free, mut cols_free) = (vec![true; rows], vec![true; cols]);
        let mut left = topk.unwrap_or(usize::MAX);
        for cell in cells_by_score {
            let (row, col) = (cell as usize / cols, cell as usize % cols);
            if !rows_free[row] || !cols_free[col] {
                continue;
            }
            let score = scores[cell as usize].to_f32();
            let is_better = if order == Order::Ascending { score < threshold } else { score > threshold };
            if !is_better {
                break;
            }
            (rows_free[row], cols_free[col]) = (false, false);
            (row_of[row], col_of[col]) = (T::from_f64(col as f64), T::from_f64(row as f64));
            if left == 0 {
                break;
            }
            left -= 1;
        }
    });
}
