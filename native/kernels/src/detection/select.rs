//! Non-maximum suppression that returns the indices of the boxes it keeps.

use crate::par;

/// The parameters of [`select_boxes_of_classes`].
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// Boxes with a larger overlap with a kept box are suppressed.
    pub overlap: f32,
    /// Minimum score (exclusive), if any.
    pub score: Option<f32>,
    /// Maximum number of boxes to keep.
    pub limit: usize,
}

/// The edges (top, left, bottom, right) of boxes given as two corners, or as center and size if `is_centered`.
pub fn box_edges(boxes: &[f32], is_centered: bool) -> Vec<[f32; 4]> {
    let edges = |b: &[f32]| match is_centered {
        // Center x, center y, width, height.
        true => [b[1] - b[3] / 2.0, b[0] - b[2] / 2.0, b[1] + b[3] / 2.0, b[0] + b[2] / 2.0],
        false => [b[0].min(b[2]), b[1].min(b[3]), b[0].max(b[2]), b[1].max(b[3])],
    };
    boxes.chunks_exact(4).map(edges).collect()
}

fn overlap(a: &[f32; 4], b: &[f32; 4]) -> f32 {
    let height = a[2].min(b[2]) - a[0].max(b[0]);
    let width = a[3].min(b[3]) - a[1].max(b[1]);
    if height <= 0.0 || width <= 0.0 {
        return 0.0;
    }
    let area = |e: &[f32; 4]| (e[2] - e[0]) * (e[3] - e[1]);
    let (first, second) = (area(a), area(b));
    if first <= 0.0 || second <= 0.0 {
        return 0.0;
    }
    height * width / (first + second - height * width)
}

/// The kept boxes of each class of each image, in order of decreasing score; boxes of equal score keep their order. `edges` has
/// `num_boxes` boxes per image, and `scores` as many scores per image and class.
///
/// # Panics
/// Panics if there are scores for more boxes than edges.
pub fn select_boxes_of_classes(
    edges: &[[f32; 4]],
    scores: &[f32],
    (num_classes, num_boxes): (usize, usize),
    params: &Selection,
) -> Vec<Vec<usize>> {
    let mut kept = vec![Vec::new(); scores.len().checked_div(num_boxes).unwrap_or(0)];
    par::parallel_rows(&mut kept, 1, 1, |i, kept| {
        let edges = &edges[i / num_classes * num_boxes..][..num_boxes];
        kept[0] = select_boxes(edges, &scores[i * num_boxes..(i + 1) * num_boxes], params);
    });
    kept
}

/// Indices of the kept boxes of one class.
fn select_boxes(edges: &[[f32; 4]], scores: &[f32], params: &Selection) -> Vec<usize> {
    let mut candidates: Vec<usize> =
        (0..scores.len()).filter(|i| params.score.is_none_or(|least| scores[*i] > least)).collect();
    candidates.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    let mut kept: Vec<usize> = Vec::new();
    for i in candidates {
        if kept.len() == params.limit {
            break;
        }
        if kept.iter().all(|k| overlap(&edges[i], &edges[*k]) <= params.overlap) {
            kept.push(i);
        }
    }
    kept
}
