//! Region proposals (Ren et al., "Faster R-CNN", 2015).

use crate::par;

/// The parameters of [`proposals`].
#[derive(Clone, Debug)]
pub struct Proposals {
    /// Height and width of the feature map.
    pub map: (usize, usize),
    /// Pixels of the image per cell of the feature map.
    pub stride: f32,
    /// Scales of the anchors, in cells of the feature map.
    pub scales: Vec<f32>,
    /// Ratios of height to width of the anchors.
    pub ratios: Vec<f32>,
    /// Maximum number of boxes, by score, before suppression.
    pub pre_nms_top_n: usize,
    /// Number of result rows per image.
    pub post_nms_top_n: usize,
    /// Boxes with a larger overlap with a box of higher score are suppressed.
    pub overlap: f32,
    /// Minimum width and height, in pixels of the original image.
    pub min_size: f32,
    /// True if the codes are offsets of corners, false if they are offsets of centers and logarithms of sizes.
    pub use_corner_codes: bool,
}

/// A box in pixels: left, top, right and bottom, all inclusive.
type Pixels = [f32; 4];

/// Width and height of a box.
fn size(b: &Pixels) -> (f32, f32) {
    (b[2] - b[0] + 1.0, b[3] - b[1] + 1.0)
}

impl Proposals {
    /// Number of anchors per cell.
    pub fn anchors_per_cell(&self) -> usize {
        self.scales.len() * self.ratios.len()
    }

    /// The anchors of the first cell: (ratios, scales).
    fn base(&self) -> Vec<Pixels> {
        let center = 0.5 * (self.stride - 1.0);
        let anchor_of = |ratio: f32, scale: f32| {
            let root = ((self.stride * self.stride / ratio).floor()).sqrt();
            let width = (root + 0.5).floor() * scale;
            let height = (width / scale * ratio + 0.5).floor() * scale;
            let (w, h) = (0.5 * (width - 1.0), 0.5 * (height - 1.0));
            [center - w, center - h, center + w, center + h]
        };
        self.ratios.iter().flat_map(|r| self.scales.iter().map(move |s| anchor_of(*r, *s))).collect()
    }

    /// The boxes of one image with their scores.
    fn boxes(&self, scores: &[f32], codes: &[f32], info: &[f32]) -> Vec<(f32, Pixels)> {
        let (height, width) = self.map;
        let (cells, base) = (height * width, self.base());
        // Cells outside the image are padding of the feature map.
        let (real_height, real_width) = ((info[0] / self.stride) as usize, (info[1] / self.stride) as usize);
        let min_size = self.min_size * info[2];
        let mut boxes = Vec::with_capacity(cells * base.len());
        for cell in 0..cells {
            let (row, col) = (cell / width, cell % width);
            let (x, y) = (col as f32 * self.stride, row as f32 * self.stride);
            for (a, b) in base.iter().enumerate() {
                let anchor = [b[0] + x, b[1] + y, b[2] + x, b[3] + y];
                let code = std::array::from_fn(|k| codes[(4 * a + k) * cells + cell]);
                let mut proposal =
                    if self.use_corner_codes { decode_corners(&anchor, code) } else { decode_center(&anchor, code) };
                for (k, c) in proposal.iter_mut().enumerate() {
                    *c = c.min(info[1 - k % 2] - 1.0).max(0.0);
                }
                let mut score = scores[a * cells + cell];
                let (w, h) = size(&proposal);
                if w < min_size || h < min_size {
                    let half = min_size / 2.0;
                    proposal = [proposal[0] - half, proposal[1] - half, proposal[2] + half, proposal[3] + half];
                    score = -1.0;
                }
                if row >= real_height || col >= real_width {
                    score = -1.0;
                }
                boxes.push((score, proposal));
            }
        }
        boxes
    }

    /// Non-maximum suppression of boxes that are sorted by score: the indices of the kept ones.
    fn suppress(&self, boxes: &[(f32, Pixels)]) -> Vec<usize> {
        let areas: Vec<f32> = boxes.iter().map(|(_, b)| size(b).0 * size(b).1).collect();
        let overlaps = |i: usize, j: usize| {
            let (a, b) = (&boxes[i].1, &boxes[j].1);
            let w = (a[2].min(b[2]) - a[0].max(b[0]) + 1.0).max(0.0);
            let h = (a[3].min(b[3]) - a[1].max(b[1]) + 1.0).max(0.0);
            w * h / (areas[i] + areas[j] - w * h) > self.overlap
        };
        let mut indices: Vec<usize> = Vec::new();
        for i in 0..boxes.len() {
            if indices.len() == self.post_nms_top_n.min(boxes.len()) {
                break;
            }
            if !indices.iter().any(|better| overlaps(*better, i)) {
                indices.push(i);
            }
        }
        indices
    }
}

/// Decodes offsets of the center, relative to the size, and logarithms of the size.
fn decode_center(anchor: &Pixels, code: [f32; 4]) -> Pixels {
    let (width, height) = size(anchor);
    let x = code[0] * width + anchor[0] + 0.5 * (width - 1.0);
    let y = code[1] * height + anchor[1] + 0.5 * (height - 1.0);
    let (w, h) = (0.5 * (code[2].exp() * width - 1.0), 0.5 * (code[3].exp() * height - 1.0));
    [x - w, y - h, x + w, y + h]
}

/// Decodes offsets of the corners in pixels.
fn decode_corners(anchor: &Pixels, code: [f32; 4]) -> Pixels {
    std::array::from_fn(|k| anchor[k] + code[k])
}

/// Writes `post_nms_top_n` rows (image index, left, top, right, bottom) per image to `regions`, and their scores to `probabilities`. If
/// fewer boxes are kept, they are repeated.
///
/// `scores` is (images, 2 x anchors, height, width), background first; `codes` is (images, 4 x anchors, height, width); `info` is
/// (images, 3): height, width and scale.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn proposals(
    scores: &[f32],
    codes: &[f32],
    info: &[f32],
    params: &Proposals,
    (regions, probabilities): (&mut [f32], &mut [f32]),
) {
    let plane = params.anchors_per_cell() * params.map.0 * params.map.1;
    par::parallel_rows2(
        (regions, 5 * params.post_nms_top_n),
        (probabilities, params.post_nms_top_n),
        1,
        |image, regions, probabilities| {
            let scores = &scores[(2 * image + 1) * plane..][..plane];
            let mut boxes = params.boxes(scores, &codes[4 * image * plane..][..4 * plane], &info[3 * image..][..3]);
            boxes.sort_by(|a, b| b.0.total_cmp(&a.0));
            boxes.truncate(params.pre_nms_top_n);
            let indices = params.suppress(&boxes);
            for (i, (region, probability)) in regions.chunks_exact_mut(5).zip(probabilities).enumerate() {
                let (score, corners) = match indices.len() {
                    0 => (0.0, [0.0; 4]),
                    n => boxes[indices[i % n]],
                };
                region[0] = image as f32;
                region[1..].copy_from_slice(&corners);
                *probability = score;
            }
        },
    );
}
