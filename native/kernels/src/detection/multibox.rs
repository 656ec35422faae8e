//! The single shot detector (Liu et al., "SSD: Single Shot MultiBox Detector", 2016): anchors, training targets and detections.

use crate::par;
use ferromx_core::memory;

use super::boxes::Area;
use super::wide;

/// Anchors in the cells of a feature map, in units of the image size.
#[derive(Clone, Debug)]
pub struct Anchors {
    /// Height and width of the feature map.
    pub map: (usize, usize),
    /// Box sizes; the first one is combined with every ratio, the others with the first ratio.
    pub sizes: Vec<f32>,
    /// Ratios of width to height.
    pub ratios: Vec<f32>,
    /// Size of a cell (y, x); by default the cells fill the image.
    pub steps: Option<(f32, f32)>,
    /// The center within a cell (y, x).
    pub offsets: (f32, f32),
    /// True if boxes are clipped to the image.
    pub clip: bool,
}

impl Anchors {
    /// Number of anchors per cell.
    pub fn per_cell(&self) -> usize {
        (self.sizes.len() + self.ratios.len()).saturating_sub(1)
    }
}

/// Writes the corners of all anchors, (height, width, anchors per cell, 4). The anchors of a cell are those of all sizes with the
/// first ratio, then those of the first size with the other ratios.
///
/// # Panics
/// Panics if the length does not match.
pub fn priors(anchors: &Anchors, out: &mut [f32]) {
    let (height, width) = anchors.map;
    let (step_y, step_x) = anchors.steps.unwrap_or((1.0 / height as f32, 1.0 / width as f32));
    let aspect = height as f32 / width as f32;
    let first = anchors.ratios.first().map_or(1.0, |r| r.sqrt());
    let sizes = anchors.sizes.iter().map(|size| (*size, first));
    let ratios = anchors.ratios.iter().skip(1).map(|ratio| (anchors.sizes[0], ratio.sqrt()));
    let halves: Vec<(f32, f32)> =
        sizes.chain(ratios).map(|(size, root)| (size * aspect * root / 2.0, size / root / 2.0)).collect();
    assert_eq!(out.len(), 4 * height * width * halves.len(), "number of anchors");
    for (cell, out) in out.chunks_exact_mut(4 * halves.len()).enumerate() {
        let x = ((cell % width) as f32 + anchors.offsets.1) * step_x;
        let y = ((cell / width) as f32 + anchors.offsets.0) * step_y;
        for ((w, h), out) in halves.iter().zip(out.chunks_exact_mut(4)) {
            out.copy_from_slice(&[x - w, y - h, x + w, y + h]);
        }
    }
    if anchors.clip {
        out.iter_mut().for_each(|x| *x = x.clamp(0.0, 1.0));
    }
}

/// Hard negative mining: the selection of anchors without an object that are trained as background.
#[derive(Clone, Copy, Debug)]
pub struct NegativeMining {
    /// Number of negatives per positive anchor.
    pub ratio: f32,
    /// Maximum overlap of a negative with any object.
    pub overlap_below: f32,
    /// Minimum number of negatives.
    pub minimum: usize,
}

/// The parameters of [`multibox_targets`].
#[derive(Clone, Copy, Debug)]
pub struct Targets {
    /// Numbers per label: class, left, top, right, bottom, and others that are ignored.
    pub label_width: usize,
    /// An anchor is matched with the object that it overlaps most if the overlap is larger than this. If not positive, only the
    /// best anchor of each object is matched.
    pub overlap: f32,
    /// Class target of anchors that are ignored in training.
    pub ignore: f32,
    /// Hard negative mining; without it, all anchors without an object are background.
    pub mining: Option<NegativeMining>,
    /// Variances, by which the codes are divided.
    pub variances: [f32; 4],
}

/// What an anchor is trained to predict.
#[derive(Clone, Copy, PartialEq)]
enum AnchorTarget {
    Ignored,
    Background,
    Object(usize),
}

/// Writes the training targets of all examples: box codes and their masks, (examples, anchors, 4), and classes, (examples,
/// anchors).
///
/// `labels` is (examples, objects, `label_width`), padded with class -1; `scores` is (examples, classes, anchors), where class 0
/// is the background.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn multibox_targets(
    anchors: &[f32],
    labels: &[f32],
    scores: &[f32],
    examples: usize,
    params: &Targets,
    (codes, masks, classes): (&mut [f32], &mut [f32], &mut [f32]),
) {
    let count = anchors.len() / 4;
    let (label_len, score_len) = (labels.len() / examples.max(1), scores.len() / examples.max(1));
    let areas: Vec<Area<f32>> = anchors.chunks_exact(4).map(|a| Area::new(wide(a))).collect();
    let objects = |example: usize| -> Vec<&[f32]> {
        let labels = labels[example * label_len..][..label_len].chunks_exact(params.label_width);
        labels.take_while(|l| l[0] != -1.0).collect()
    };
    let mut targets = memory::filled(AnchorTarget::Ignored, examples * count);
    par::parallel_rows(&mut targets, count, 1, |example, targets| {
        assign(&areas, &objects(example), &scores[example * score_len..][..score_len], params, targets);
    });
    par::parallel_rows(classes, count, 1, |example, classes| {
        let objects = objects(example);
        for (class, target) in classes.iter_mut().zip(&targets[example * count..]) {
            *class = match target {
                AnchorTarget::Ignored => params.ignore,
                AnchorTarget::Background => 0.0,
                AnchorTarget::Object(o) => objects[*o][0] + 1.0,
            };
        }
    });
    par::parallel_rows2((codes, 4 * count), (masks, 4 * count), 1, |example, codes, masks| {
        let objects = objects(example);
        let rows = codes.chunks_exact_mut(4).zip(masks.chunks_exact_mut(4)).zip(anchors.chunks_exact(4));
        for (((code, mask), anchor), target) in rows.zip(&targets[example * count..]) {
            let assigned = match target {
                AnchorTarget::Object(o) => Some(encode(anchor, &objects[*o][1..], params.variances)),
                _ => None,
            };
            mask.fill(if assigned.is_some() { 1.0 } else { 0.0 });
            code.copy_from_slice(&assigned.unwrap_or_default());
        }
    });
}

fn encode(anchor: &[f32], object: &[f32], variances: [f32; 4]) -> [f32; 4] {
    let center = |b: &[f32]| [(b[0] + b[2]) * 0.5, (b[1] + b[3]) * 0.5, b[2] - b[0], b[3] - b[1]];
    let (a, o) = (center(anchor), center(object));
    let codes = [(o[0] - a[0]) / a[2], (o[1] - a[1]) / a[3], (o[2] / a[2]).ln(), (o[3] / a[3]).ln()];
    std::array::from_fn(|k| codes[k] / variances[k])
}

/// Assigns a target to each anchor of one example.
fn assign(anchors: &[Area<f32>], objects: &[&[f32]], scores: &[f32], params: &Targets, targets: &mut [AnchorTarget]) {
    if objects.is_empty() {
        return;
    }
    let objects: Vec<Area<f32>> = objects.iter().map(|o| Area::new(wide(&o[1..]))).collect();
    let overlaps: Vec<f32> = anchors.iter().flat_map(|a| objects.iter().map(move |o| a.iou(o))).collect();
    let rows = || overlaps.chunks_exact(objects.len());
    best_anchors(&overlaps, objects.len(), targets);
    let best: Vec<(usize, f32)> = rows().map(best_object).collect();
    if params.overlap > 0.0 {
        for (target, (object, overlap)) in targets.iter_mut().zip(&best) {
            if *target == AnchorTarget::Ignored && *overlap > params.overlap {
                *target = AnchorTarget::Object(*object);
            }
        }
    }
    match params.mining {
        None => targets.iter_mut().filter(|r| **r == AnchorTarget::Ignored).for_each(|r| *r = AnchorTarget::Background),
        Some(mining) => mine(&mining, &best, scores, targets),
    }
}

/// Matches each object with the unmatched anchor that it overlaps most, in order of decreasing overlap.
fn best_anchors(overlaps: &[f32], objects: usize, targets: &mut [AnchorTarget]) {
    let mut free = memory::filled(true, objects);
    // The best anchor of an object is only searched again if another object has taken it.
    let search = |object: usize, targets: &[AnchorTarget]| {
        let column = overlaps.iter().skip(object).step_by(objects).enumerate();
        column
            .filter(|(i, _)| targets[*i] == AnchorTarget::Ignored)
            .fold((usize::MAX, 1e-6f32), |best, (i, overlap)| if *overlap > best.1 { (i, *overlap) } else { best })
    };
    let mut best: Vec<(usize, f32)> = (0..objects).map(|o| search(o, targets)).collect();
    loop {
        // Ties are resolved in favor of the first anchor, then of the first object.
        let candidates = (0..objects).filter(|o| free[*o] && best[*o].0 != usize::MAX);
        let better = |a: usize, b: usize| best[a].1 > best[b].1 || best[a].1 == best[b].1 && best[a].0 < best[b].0;
        let Some(object) = candidates.reduce(|a, b| if better(b, a) { b } else { a }) else { return };
        let anchor = best[object].0;
        targets[anchor] = AnchorTarget::Object(object);
        free[object] = false;
        for other in (0..objects).filter(|o| free[*o]) {
            if best[other].0 == anchor {
                best[other] = search(other, targets);
            }
        }
    }
}

/// The index of the object with the largest overlap, and the overlap.
fn best_object(overlaps: &[f32]) -> (usize, f32) {
    let better = |best: (usize, f32), (i, overlap): (usize, &f32)| if *overlap > best.1 { (i, *overlap) } else { best };
    overlaps.iter().enumerate().fold((0, -1.0), better)
}

/// Makes the hardest negatives background: the anchors with the lowest background score.
fn mine(mining: &NegativeMining, best: &[(usize, f32)], scores: &[f32], targets: &mut [AnchorTarget]) {
    let count = targets.len();
    let positive = targets.iter().filter(|r| matches!(r, AnchorTarget::Object(_))).count();
    let num_negatives = ((positive as f32 * mining.ratio) as usize).max(mining.minimum).min(count - positive);
    let background = |i: usize| {
        let column = || scores.iter().skip(i).step_by(count);
        let top = column().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
        let sum: f32 = column().map(|s| (s - top).exp()).sum();
        (scores[i] - top).exp() / sum
    };
    let candidates = (0..count).filter(|i| targets[*i] == AnchorTarget::Ignored && best[*i].1 < mining.overlap_below);
    let mut hard: Vec<(f32, usize)> = candidates.map(|i| (background(i), i)).collect();
    hard.sort_by(|a, b| a.0.total_cmp(&b.0));
    hard.into_iter().take(num_negatives).for_each(|(_, i)| targets[i] = AnchorTarget::Background);
}

/// The parameters of [`detections`].
#[derive(Clone, Copy, Debug)]
pub struct Detection {
    /// Index of the background class; without one, every class is an object.
    pub background: Option<usize>,
    /// True if boxes are clipped to the image.
    pub clip: bool,
    /// Boxes with a smaller probability are dropped.
    pub threshold: f32,
    /// Boxes with at least this overlap with a box of higher score are suppressed; no suppression if absent.
    pub overlap: Option<f32>,
    /// True if boxes suppress boxes of other classes, too.
    pub force_suppress: bool,
    /// Variances, by which the codes are multiplied.
    pub variances: [f32; 4],
    /// Maximum number of boxes, by score, before suppression.
    pub topk: Option<usize>,
}

/// Writes the detections (examples, anchors, 6) with rows (class, probability, left, top, right, bottom), in order of decreasing
/// probability. Suppressed boxes have class -1; unused rows are all -1. `scores` is (examples, classes, anchors). Classes of the
/// result are numbered without the background.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn detections(
    scores: &[f32],
    codes: &[f32],
    anchors: &[f32],
    examples: usize,
    params: &Detection,
    out: &mut [f32],
) {
    let count = anchors.len() / 4;
    let score_len = scores.len() / examples.max(1);
    par::parallel_rows(out, 6 * count, 1, |example, out| {
        out.fill(-1.0);
        let mut rows =
            decode(&scores[example * score_len..][..score_len], &codes[example * 4 * count..], anchors, params);
        if let Some(overlap) = params.overlap {
            rows.sort_by(|a, b| b[1].total_cmp(&a[1]));
            rows.truncate(params.topk.unwrap_or(usize::MAX));
            let areas: Vec<Area<f32>> = rows.iter().map(|r| Area::new(wide(&r[2..]))).collect();
            for i in 0..rows.len() {
                let class = rows[i][0];
                if class < 0.0 {
                    continue;
                }
                for j in i + 1..rows.len() {
                    let is_candidate = rows[j][0] >= 0.0 && (params.force_suppress || rows[j][0] == class);
                    if is_candidate && areas[i].iou(&areas[j]) >= overlap {
                        rows[j][0] = -1.0;
                    }
                }
            }
        }
        out.chunks_exact_mut(6).zip(&rows).for_each(|(out, row)| out.copy_from_slice(row));
    });
}

/// Decodes the boxes of one example whose most probable class is not the background, in the order of the anchors.
fn decode(scores: &[f32], codes: &[f32], anchors: &[f32], params: &Detection) -> Vec<[f32; 6]> {
    let count = anchors.len() / 4;
    let clip = |x: f32| if params.clip { x.clamp(0.0, 1.0) } else { x };
    let mut rows = Vec::new();
    for i in 0..count {
        let column =
            scores.iter().skip(i).step_by(count.max(1)).enumerate().filter(|(k, _)| Some(*k) != params.background);
        let better = |best: (Option<usize>, f32), (k, p): (usize, &f32)| if *p > best.1 { (Some(k), *p) } else { best };
        let (class, probability) = column.fold((None, -1.0), better);
        let Some(class) = class.filter(|_| probability >= params.threshold) else { continue };
        let class = class - usize::from(params.background.is_some_and(|background| class > background));
        let (a, code) = (&anchors[4 * i..], &codes[4 * i..]);
        let (width, height) = (a[2] - a[0], a[3] - a[1]);
        let x = code[0] * params.variances[0] * width + (a[0] + a[2]) / 2.0;
        let y = code[1] * params.variances[1] * height + (a[1] + a[3]) / 2.0;
        let w = (code[2] * params.variances[2]).exp() * width / 2.0;
        let h = (code[3] * params.variances[3]).exp() * height / 2.0;
        rows.push([class as f32, probability, clip(x - w), clip(y - h), clip(x + w), clip(y + h)]);
    }
    rows
}
