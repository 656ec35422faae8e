//! Non-maximum suppression of rows that hold a box, a score and a class.

use crate::float::{Accum, FloatElement};
use crate::par;
use crate::sort::{self, Order, SortKey};
use ferromx_core::memory;

use super::boxes::{Area, BoxFormat};
use super::wide;

/// The parameters of [`suppress`], and the layout of its rows.
#[derive(Clone, Copy, Debug)]
pub struct Suppression {
    /// Number of values in a row.
    pub width: usize,
    /// Index of the first coordinate.
    pub coordinates: usize,
    /// Index of the score.
    pub score: usize,
    /// Index of the class, if there are classes; boxes then suppress boxes of the same class only. As in MXNet, the class is
    /// truncated for this comparison, but not for the one with `background`.
    pub class: Option<usize>,
    /// The background class, whose boxes are dropped.
    pub background: Option<f32>,
    /// True if boxes suppress boxes of other classes, too.
    pub force_suppress: bool,
    /// Minimum score (exclusive).
    pub valid_above: f32,
    /// Boxes with a larger overlap with a box of higher score are suppressed.
    pub overlap_above: f32,
    /// Maximum number of boxes, by score, before suppression.
    pub topk: Option<usize>,
    /// Box format of the input.
    pub input: BoxFormat,
    /// Box format of the output.
    pub output: BoxFormat,
}

/// Writes the kept boxes of each example of `count` rows, in order of decreasing score, followed by rows of -1. `record` gets the
/// index of the input row (over all examples) of each output row, or -1.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn suppress<T: FloatElement + SortKey>(
    data: &[T],
    count: usize,
    params: &Suppression,
    out: &mut [T],
    record: &mut [i64],
) {
    let len = count * params.width;
    assert!(data.len() == out.len() && record.len() * params.width == out.len(), "lengths of the boxes and the record");
    par::parallel_rows2((out, len), (record, count), 1, |example, out, record| {
        out.fill(T::from_f32(-1.0));
        record.fill(-1);
        let kept = survivors(&data[example * len..][..len], params);
        for ((row_index, out), record) in kept.into_iter().zip(out.chunks_exact_mut(params.width)).zip(record) {
            *record = (example * count + row_index) as i64;
            out.copy_from_slice(&data[example * len + row_index * params.width..][..params.width]);
            if params.input != params.output {
                let corners = &mut out[params.coordinates..][..4];
                let converted = params.output.of_corners(params.input.corners(wide::<T::Acc, T>(corners)));
                corners.iter_mut().zip(converted).for_each(|(c, v)| *c = v.store());
            }
        }
    });
}

/// The row indices of the kept boxes, in order of decreasing score.
fn survivors<T: FloatElement + SortKey>(rows: &[T], params: &Suppression) -> Vec<usize> {
    let valid = |row: &&[T]| {
        let class = params.class.map(|c| row[c].to_f32());
        row[params.score].to_f32() > params.valid_above && (class.is_none() || class != params.background)
    };
    let (candidates, scores): (Vec<usize>, Vec<T>) = (rows.chunks_exact(params.width).enumerate())
        .filter(|(_, row)| valid(row))
        .map(|(i, row)| (i, row[params.score]))
        .unzip();
    let mut order = memory::filled(0i64, scores.len());
    if !scores.is_empty() {
        sort::argsort(&scores, scores.len(), Order::Descending, &mut order);
    }
    order.truncate(params.topk.unwrap_or(usize::MAX));
    let threshold = T::Acc::of(params.overlap_above);
    let by_class = params.class.filter(|_| !params.force_suppress);
    let mut kept: Vec<(usize, Area<T::Acc>, f32)> = Vec::new();
    for row_index in order.into_iter().map(|i| candidates[i as usize]) {
        let row = &rows[row_index * params.width..][..params.width];
        let area = Area::new(params.input.corners(wide::<T::Acc, T>(&row[params.coordinates..])));
        let class = by_class.map_or(0.0, |c| row[c].to_f32().trunc());
        // The overlap of infinite boxes is NaN and suppresses nothing.
        let overlaps = |better: &Area<T::Acc>| better.iou(&area) > threshold;
        if !kept.iter().any(|(_, better, kept_class)| *kept_class == class && overlaps(better)) {
            kept.push((row_index, area, class));
        }
    }
    kept.into_iter().map(|k| k.0).collect()
}

/// The gradient of [`suppress`]: copies the gradients of kept rows to their input rows; the other rows are zero.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn suppress_backward<T: FloatElement>(dy: &[T], record: &[i64], width: usize, dx: &mut [T]) {
    assert!(dy.len() == dx.len() && record.len() * width == dx.len(), "lengths of the gradients and the record");
    dx.fill(T::default());
    for (dy, from) in dy.chunks_exact(width).zip(record) {
        if let Some(dx) = usize::try_from(*from).ok().and_then(|row| dx.chunks_exact_mut(width).nth(row)) {
            dx.copy_from_slice(dy);
        }
    }
}
