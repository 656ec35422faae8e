//! Suppression of boxes that overlap better ones.

use crate::float::{Accum, Real};
use crate::par;
use crate::sort::{self, Order, SortKey};
use ferromx_core::memory;

use super::boxes::{Area, BoxFormat};
use super::wide;

/// Which boxes are suppressed, and where the numbers of a box stand in its row.
#[derive(Clone, Copy, Debug)]
pub struct Suppression {
    /// Numbers in a row.
    pub width: usize,
    /// Where the coordinates start.
    pub coordinates: usize,
    /// Where the score is.
    pub score: usize,
    /// Where the class is, if there are classes; boxes suppress those of their class only.
    pub class: Option<usize>,
    /// The class that is left out.
    pub background: Option<f32>,
    /// Boxes suppress those of every class.
    pub force: bool,
    /// Only boxes with a larger score count.
    pub valid_above: f32,
    /// A box is suppressed where its overlap with a better one is larger.
    pub overlap_above: f32,
    /// How many of the best boxes count.
    pub topk: Option<usize>,
    /// The format of the input.
    pub input: BoxFormat,
    /// The format of the output.
    pub output: BoxFormat,
}

/// For each example of `count` rows: the boxes that are not suppressed, best first, then rows of -1. `record` gets, for each
/// row of the output, the number of the row (over all examples) that it came from, or -1.
///
/// # Panics
/// If the lengths do not fit.
pub fn suppress<T: Real + SortKey>(data: &[T], count: usize, how: &Suppression, out: &mut [T], record: &mut [i64]) {
    let len = count * how.width;
    assert!(data.len() == out.len() && record.len() * how.width == out.len(), "the boxes do not fit");
    par::parallel_rows2((out, len), (record, count), 1, |example, out, record| {
        out.fill(T::from_f32(-1.0));
        record.fill(-1);
        let kept = survivors(&data[example * len..][..len], how);
        for ((place, out), record) in kept.into_iter().zip(out.chunks_exact_mut(how.width)).zip(record) {
            *record = (example * count + place) as i64;
            out.copy_from_slice(&data[example * len + place * how.width..][..how.width]);
            if how.input != how.output {
                let corners = &mut out[how.coordinates..][..4];
                let converted = how.output.of_corners(how.input.corners(wide::<T::Acc, T>(corners)));
                corners.iter_mut().zip(converted).for_each(|(c, v)| *c = v.store());
            }
        }
    });
}

/// The rows of the boxes that stay, best first.
fn survivors<T: Real + SortKey>(rows: &[T], how: &Suppression) -> Vec<usize> {
    let valid = |row: &&[T]| {
        let class = how.class.map(|c| row[c].to_f32());
        row[how.score].to_f32() > how.valid_above && (class.is_none() || class != how.background)
    };
    let (places, scores): (Vec<usize>, Vec<T>) = (rows.chunks_exact(how.width).enumerate())
        .filter(|(_, row)| valid(row))
        .map(|(i, row)| (i, row[how.score]))
        .unzip();
    let mut order = memory::filled(0i64, scores.len());
    if !scores.is_empty() {
        sort::argsort(&scores, scores.len(), Order::Descending, &mut order);
    }
    order.truncate(how.topk.unwrap_or(usize::MAX));
    let threshold = T::Acc::of(how.overlap_above);
    let by_class = how.class.filter(|_| !how.force);
    let mut kept: Vec<(usize, Area<T::Acc>, f32)> = Vec::new();
    for place in order.into_iter().map(|i| places[i as usize]) {
        let row = &rows[place * how.width..][..how.width];
        let area = Area::new(how.input.corners(wide::<T::Acc, T>(&row[how.coordinates..])));
        let class = by_class.map_or(0.0, |c| row[c].to_f32());
        if kept.iter().all(|(_, better, of)| *of != class || better.iou(&area) <= threshold) {
            kept.push((place, area, class));
        }
    }
    kept.into_iter().map(|k| k.0).collect()
}

/// Sends the gradients of the rows that stayed back to where they came from; the others get zeros.
///
/// # Panics
/// If the lengths do not fit.
pub fn suppress_backward<T: Real>(dy: &[T], record: &[i64], width: usize, dx: &mut [T]) {
    assert!(dy.len() == dx.len() && record.len() * width == dx.len(), "the gradients do not fit");
    dx.fill(T::default());
    for (dy, from) in dy.chunks_exact(width).zip(record) {
        if let Some(dx) = usize::try_from(*from).ok().and_then(|row| dx.chunks_exact_mut(width).nth(row)) {
            dx.copy_from_slice(dy);
        }
    }
}
