//! What is done with pictures with objects: colours change, pictures are mirrored, put into larger ones, and cut (Liu et al., "SSD:
//! Single Shot MultiBox Detector", 2016).

use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::params::Tuple;
use ferromx_kernels::image::Change;
use ferromx_kernels::rng::Draws;

use super::params::{CropEmitMode, DetectionAugmentParam, DetectionColorParam, DetectionCropParam, ResizeMode};
use super::picture::{Picture, below, between};
use super::warp::shift_hls;

/// The objects of a picture: rows of class, left, top, right and bottom of the box as parts of the picture, and whatever else.
pub(super) struct Objects {
    pub rows: Vec<f32>,
    /// Numbers of a row.
    pub width: usize,
}

/// A rectangle as parts of a picture.
#[derive(Clone, Copy)]
struct Box {
    left: f32,
    top: f32,
    right: f32,
    bottom: f32,
}

impl Box {
    fn of(row: &[f32]) -> Box {
        Box { left: row[1], top: row[2], right: row[3], bottom: row[4] }
    }

    fn area(self) -> f32 {
        (self.right - self.left).max(0.0) * (self.bottom - self.top).max(0.0)
    }

    fn common(self, other: Box) -> Box {
        Box {
            left: self.left.max(other.left),
            top: self.top.max(other.top),
            right: self.right.min(other.right),
            bottom: self.bottom.min(other.bottom),
        }
    }

    fn holds(self, x: f32, y: f32) -> bool {
        (self.left..self.right).contains(&x) && (self.top..self.bottom).contains(&y)
    }
}

impl Objects {
    /// Moves all boxes.
    fn map(&mut self, f: impl Fn(Box) -> Box) {
        for row in self.rows.chunks_exact_mut(self.width) {
            let moved = f(Box::of(row));
            (row[1], row[2], row[3], row[4]) = (moved.left, moved.top, moved.right, moved.bottom);
        }
    }
}

/// Bounds of a number.
#[derive(Clone, Copy)]
struct Bounds {
    low: f32,
    high: f32,
}

impl Bounds {
    /// Whether a share is bound at all.
    fn matter(self) -> bool {
        self.low > 0.0 || self.high < 1.0
    }

    fn hold(self, x: f32) -> bool {
        (self.low..=self.high).contains(&x)
    }
}

/// How parts are chosen.
struct Sampler {
    scale: Bounds,
    ratio: Bounds,
    /// Of what a part and an object cover together, of the part, of the object: the share that both cover.
    shares: [Bounds; 3],
    trials: usize,
}

impl Sampler {
    /// A part of a picture whose width is `aspect` times its height.
    fn choose(&self, aspect: f32, draws: &mut Draws) -> Box {
        let scale = between(draws, self.scale.low, self.scale.high).max(1e-6);
        // Beyond these ratios the part would be wider or higher than the picture.
        let square = scale * scale;
        let (low, high) = ((self.ratio.low / aspect).max(square), (self.ratio.high / aspect).min(1.0 / square));
        let stretch = between(draws, low, high.max(low)).sqrt();
        let (width, height) = ((scale * stretch).min(1.0), (scale / stretch).min(1.0));
        let (left, top) = (between(draws, 0.0, 1.0 - width), between(draws, 0.0, 1.0 - height));
        Box { left, top, right: left + width, bottom: top + height }
    }

    /// Whether the part has an object as it has to have one.
    fn accepts(&self, part: Box, objects: &Objects) -> bool {
        if !self.shares.iter().any(|bounds| bounds.matter()) {
            return true;
        }
        objects.rows.chunks_exact(objects.width).any(|row| {
            let object = Box::of(row);
            let common = part.common(object).area();
            let wholes = [part.area() + object.area() - common, part.area(), object.area()];
            self.shares.iter().zip(wholes).all(|(bounds, whole)| !bounds.matter() || bounds.hold(common / whole))
        })
    }
}

/// The augmentations of pictures with objects.
pub(super) struct DetectionAugmenter {
    param: DetectionAugmentParam,
    color: DetectionColorParam,
    /// Probability of a part, and how parts are chosen.
    crop_probability: f32,
    samplers: Vec<Sampler>,
    /// What share of an object a part has to cover; without one it has to hold the object's middle.
    least_share: Option<f32>,
    /// Height and width of the result.
    size: (usize, usize),
}

impl DetectionAugmenter {
    /// Checks parameters that depend on each other. The result has the height and width `size`.
    ///
    /// # Errors
    /// Lists that have neither one number nor one for each sampler; bounds that are impossible.
    pub fn new(
        param: DetectionAugmentParam,
        color: DetectionColorParam,
        crop: &DetectionCropParam,
        size: (usize, usize),
    ) -> Result<DetectionAugmenter> {
        let n = crop.num_crop_sampler.max(0) as usize;
        let trials: Vec<f32> = crop.max_crop_trials.dims().iter().map(|t| *t as f32).collect();
        let trials = of_samplers("max_crop_trials", &trials, n)?;
        let bounds = |name: &str, low: &Tuple<f32>, high: &Tuple<f32>, most: f32| -> Result<Vec<Bounds>> {
            let (low, high) = (of_samplers(name, &low.0, n)?, of_samplers(name, &high.0, n)?);
            let all: Vec<_> = low.into_iter().zip(high).map(|(low, high)| Bounds { low, high }).collect();
            for Bounds { low, high } in &all {
                ensure!(0.0 <= *low && low <= high && *high <= most, "{name} from {low} to {high} are impossible");
            }
            Ok(all)
        };
        let c = crop;
        let scales = bounds("crop_scales", &c.min_crop_scales, &c.max_crop_scales, 1.0)?;
        let ratios = bounds("crop_aspect_ratios", &c.min_crop_aspect_ratios, &c.max_crop_aspect_ratios, f32::MAX)?;
        let overlaps = bounds("crop_overlaps", &c.min_crop_overlaps, &c.max_crop_overlaps, 1.0)?;
        let (low, high) = (&c.min_crop_sample_coverages, &c.max_crop_sample_coverages);
        let samples = bounds("crop_sample_coverages", low, high, 1.0)?;
        let (low, high) = (&c.min_crop_object_coverages, &c.max_crop_object_coverages);
        let objects = bounds("crop_object_coverages", low, high, 1.0)?;
        let sampler = |i: usize| Sampler {
            scale: scales[i],
            ratio: ratios[i],
            shares: [overlaps[i], samples[i], objects[i]],
            trials: trials[i] as usize,
        };
        let least_share = match c.crop_emit_mode {
            CropEmitMode::Center => None,
            CropEmitMode::Overlap => Some(c.emit_overlap_thresh),
        };
        let samplers = (0..n).map(sampler).collect();
        Ok(DetectionAugmenter { param, color, crop_probability: c.rand_crop_prob, samplers, least_share, size })
    }

    /// Does with a picture and its objects what the parameters say. Returns the picture and its height and width within the result.
    pub fn apply(
        &self,
        picture: Picture,
        objects: &mut Objects,
        draws: &mut Draws,
    ) -> Result<(Picture, (usize, usize))> {
        let p = &self.param;
        let mut picture = picture.with_shorter_side(p.resize, p.inter_method, draws)?;
        self.recolor(&mut picture, draws);
        if happens(p.rand_mirror_prob, draws) {
            picture.mirror();
            objects.map(|b| Box { left: 1.0 - b.right, right: 1.0 - b.left, ..b });
        }
        if p.max_pad_scale > 1.0 && happens(p.rand_pad_prob, draws) {
            picture = self.padded(&picture, objects, draws);
        }
        if happens(self.crop_probability, draws)
            && let Some(part) = self.part(picture.width as f32 / picture.height as f32, objects, draws)
        {
            picture = cut(&picture, part);
        }
        let (height, columns) = self.size;
        let scale = (height as f32 / picture.height as f32).min(columns as f32 / picture.width as f32);
        let scale = match p.resize_mode {
            ResizeMode::Force => {
                return Ok((picture.scaled(height, columns, p.inter_method, draws)?, self.size));
            }
            ResizeMode::Fit => scale,
            ResizeMode::Shrink => scale.min(1.0),
        };
        let side = |n: usize, most: usize| ((n as f32 * scale) as usize).clamp(1, most);
        let size = (side(picture.height, height), side(picture.width, columns));
        let picture = picture.scaled(size.0, size.1, p.inter_method, draws)?;
        Ok((picture.within((0, 0), self.size, p.fill_value), size))
    }

    /// Changes hue, lightness, saturation and contrast, each with its probability.
    fn recolor(&self, picture: &mut Picture, draws: &mut Draws) {
        let c = &self.color;
        let mut amount = |probability: f32, most: f32| match happens(probability, draws) {
            true => between(draws, -most, most),
            false => 0.0,
        };
        let hue = amount(c.random_hue_prob, c.max_random_hue as f32).trunc();
        let saturation = amount(c.random_saturation_prob, c.max_random_saturation as f32).trunc();
        let lightness = amount(c.random_illumination_prob, c.max_random_illumination as f32).trunc();
        let contrast = amount(c.random_contrast_prob, c.max_random_contrast);
        if picture.channels == 3 && (hue, saturation, lightness) != (0.0, 0.0, 0.0) {
            shift_hls(picture, [hue, lightness, saturation]);
        }
        if contrast != 0.0 {
            picture.change(Change::Brightness(1.0 + contrast));
        }
    }

    /// The picture in a random place of a larger one, with its boxes.
    fn padded(&self, picture: &Picture, objects: &mut Objects, draws: &mut Draws) -> Picture {
        let scale = between(draws, 1.0, self.param.max_pad_scale);
        let larger = |n: usize| ((n as f32 * scale) as usize).max(n);
        let (height, columns) = (larger(picture.height), larger(picture.width));
        let at = (below(draws, height - picture.height + 1), below(draws, columns - picture.width + 1));
        let x = |v: f32| (v * picture.width as f32 + at.1 as f32) / columns as f32;
        let y = |v: f32| (v * picture.height as f32 + at.0 as f32) / height as f32;
        objects.map(|b| Box { left: x(b.left), top: y(b.top), right: x(b.right), bottom: y(b.bottom) });
        picture.within(at, (height, columns), self.param.fill_value)
    }

    /// A part that a sampler chose, with the objects that are in it, as parts of it. Without one the objects stay as they are.
    fn part(&self, aspect: f32, objects: &mut Objects, draws: &mut Draws) -> Option<Box> {
        let mut samplers: Vec<&Sampler> = self.samplers.iter().collect();
        while !samplers.is_empty() {
            let sampler = samplers.swap_remove(below(draws, samplers.len()));
            for _ in 0..sampler.trials {
                let part = sampler.choose(aspect, draws);
                if !sampler.accepts(part, objects) {
                    continue;
                }
                let inside = self.inside(part, objects);
                if !inside.is_empty() {
                    objects.rows = inside;
                    return Some(part);
                }
            }
        }
        None
    }

    /// The objects that a part keeps, as parts of it.
    fn inside(&self, part: Box, objects: &Objects) -> Vec<f32> {
        let kept = objects.rows.chunks_exact(objects.width).filter(|row| {
            let object = Box::of(row);
            match self.least_share {
                None => part.holds((object.left + object.right) / 2.0, (object.top + object.bottom) / 2.0),
                Some(share) => part.common(object).area() > share * object.area(),
            }
        });
        let mut inside = Objects { rows: kept.flatten().copied().collect(), width: objects.width };
        let x = |v: f32| ((v - part.left) / (part.right - part.left)).clamp(0.0, 1.0);
        let y = |v: f32| ((v - part.top) / (part.bottom - part.top)).clamp(0.0, 1.0);
        inside.map(|b| Box { left: x(b.left), top: y(b.top), right: x(b.right), bottom: y(b.bottom) });
        inside.rows
    }
}

fn happens(probability: f32, draws: &mut Draws) -> bool {
    probability > 0.0 && draws.uniform() < f64::from(probability)
}

/// A number for each sampler, of as many or of one.
fn of_samplers(name: &str, given: &[f32], samplers: usize) -> Result<Vec<f32>> {
    let n = given.len();
    ensure!(
        n == 1 || n == samplers,
        "{name} has {n} numbers, but num_crop_sampler is {samplers}: give one, or one for each sampler"
    );
    Ok((0..samplers).map(|i| given[i.min(n - 1)]).collect())
}

/// The pixels of a part, at least one.
fn cut(picture: &Picture, part: Box) -> Picture {
    let place = |from: f32, to: f32, n: usize| {
        let start = ((from * n as f32) as usize).min(n - 1);
        (start, (((to - from) * n as f32) as usize).clamp(1, n - start))
    };
    let (left, width) = place(part.left, part.right, picture.width);
    let (top, height) = place(part.top, part.bottom, picture.height);
    picture.part((top, left), (height, width))
}
