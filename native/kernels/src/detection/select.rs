//! Non-maximum suppression that names the boxes it keeps.

/// How boxes are kept.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// Boxes whose overlap with a kept one, intersection over union, is larger are left out.
    pub overlap: f32,
    /// Boxes with a score that is not larger are left out; none without a limit.
    pub score: Option<f32>,
    /// How many are kept at most.
    pub limit: usize,
}

/// The edges of boxes: (top, left, bottom, right) in order, from boxes given by two corners or by centre and size.
pub fn box_edges(boxes: &[f32], centred: bool) -> Vec<[f32; 4]> {
    let edges = |b: &[f32]| match centred {
        // (x, y, width, height) of the centre.
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

/// The boxes that are kept, the best first; of equal scores the first.
pub fn select_boxes(edges: &[[f32; 4]], scores: &[f32], how: &Selection) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..scores.len()).filter(|i| how.score.is_none_or(|least| scores[*i] > least)).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    let mut kept: Vec<usize> = Vec::new();
    for i in order {
        if kept.len() == how.limit {
            break;
        }
        if kept.iter().all(|k| overlap(&edges[i], &edges[*k]) <= how.overlap) {
            kept.push(i);
        }
    }
    kept
}
