//! Augmentation for object detection: color jitter, mirroring, random padding and random crops, which transform the bounding boxes, too
//! (Liu et al., "SSD: Single Shot MultiBox Detector", 2016).

use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::memory;
use ferromx_core::params::Tuple;
use ferromx_kernels::image::{Change, shift_hls};
use ferromx_kernels::rng::Draws;

use super::augment::{Image, random_between, random_index};
use super::params::{CropEmitMode, DetectionAugmentParam, DetectionColorParam, DetectionCropParam, ResizeMode};

/// The objects of an image: rows of class, left, top, right, bottom as fractions of the image size, and any further values.
pub(super) struct Objects {
    pub rows: Vec<f32>,
    /// Length of a row.
    pub width: usize,
}

/// A bounding box in fractions of the image size.
#[derive(Clone, Copy)]
struct BBox {
    left: f32,
    top: f32,
    right: f32,
    bottom: f32,
}

impl BBox {
    fn from_row(row: &[f32]) -> BBox {
        BBox { left: row[1], top: row[2], right: row[3], bottom: row[4] }
    }

    fn area(self) -> f32 {
        (self.right - self.left).max(0.0) * (self.bottom - self.top).max(0.0)
    }

    fn intersection(self, other: BBox) -> BBox {
        BBox {
            left: self.left.max(other.left),
            top: self.top.max(other.top),
            right: self.right.min(other.right),
            bottom: self.bottom.min(other.bottom),
        }
    }

    fn contains_point(self, x: f32, y: f32) -> bool {
        (self.left..self.right).contains(&x) && (self.top..self.bottom).contains(&y)
    }
}

impl Objects {
    /// Applies `f` to all boxes.
    fn map_boxes(&mut self, f: impl Fn(BBox) -> BBox) {
        for row in self.rows.chunks_exact_mut(self.width) {
            let new_box = f(BBox::from_row(row));
            (row[1], row[2], row[3], row[4]) = (new_box.left, new_box.top, new_box.right, new_box.bottom);
        }
    }
}

/// An inclusive range.
#[derive(Clone, Copy)]
struct Bounds {
    low: f32,
    high: f32,
}

impl Bounds {
    /// Whether the range excludes any fraction from 0 to 1.
    fn is_limiting(self) -> bool {
        self.low > 0.0 || self.high < 1.0
    }

    fn contains(self, x: f32) -> bool {
        (self.low..=self.high).contains(&x)
    }
}

/// Samples crops at random.
struct Sampler {
    scale: Bounds,
    ratio: Bounds,
    /// Bounds of the intersection of crop and object as a fraction of their union, of the crop and of the object.
    coverages: [Bounds; 3],
    num_trials: usize,
}

impl Sampler {
    /// Samples a crop of an image whose width is `aspect` times its height.
    fn sample(&self, aspect: f32, draws: &mut Draws) -> BBox {
        let scale = random_between(draws, self.scale.low, self.scale.high).max(1e-6);
        // Beyond these ratios the crop would be wider or higher than the image.
        let square = scale * scale;
        let (low, high) = ((self.ratio.low / aspect).max(square), (self.ratio.high / aspect).min(1.0 / square));
        let stretch = random_between(draws, low, high.max(low)).sqrt();
        let (width, height) = ((scale * stretch).min(1.0), (scale / stretch).min(1.0));
        let (left, top) = (random_between(draws, 0.0, 1.0 - width), random_between(draws, 0.0, 1.0 - height));
        BBox { left, top, right: left + width, bottom: top + height }
    }

    /// Whether any object satisfies all coverage bounds.
    fn accepts(&self, crop_box: BBox, objects: &Objects) -> bool {
        if !self.coverages.iter().any(|bounds| bounds.is_limiting()) {
            return true;
        }
        objects.rows.chunks_exact(objects.width).any(|row| {
            let object = BBox::from_row(row);
            let intersection = crop_box.intersection(object).area();
            let areas = [crop_box.area() + object.area() - intersection, crop_box.area(), object.area()];
            self.coverages
                .iter()
                .zip(areas)
                .all(|(bounds, area)| !bounds.is_limiting() || bounds.contains(intersection / area))
        })
    }
}

/// Augments images and their objects.
pub(super) struct DetectionAugmenter {
    param: DetectionAugmentParam,
    color: DetectionColorParam,
    crop_probability: f32,
    samplers: Vec<Sampler>,
    /// Fraction of an object that a crop must cover to keep it; if `None`, the crop must contain the object's center.
    min_coverage: Option<f32>,
    /// Height and width of the result.
    size: (usize, usize),
}

impl DetectionAugmenter {
    /// Checks parameters that depend on each other. The result has the height and width `size`.
    ///
    /// # Errors
    /// Lists with neither one value nor one per sampler; invalid bounds.
    pub(super) fn new(
        param: DetectionAugmentParam,
        color: DetectionColorParam,
        crop: &DetectionCropParam,
        size: (usize, usize),
    ) -> Result<DetectionAugmenter> {
        let n = crop.num_crop_sampler.max(0) as usize;
        let trials: Vec<f32> = crop.max_crop_trials.dims().iter().map(|t| *t as f32).collect();
        let trials = per_sampler("max_crop_trials", &trials, n)?;
        let bounds = |name: &str, low: &Tuple<f32>, high: &Tuple<f32>, max: f32| -> Result<Vec<Bounds>> {
            let (low, high) = (per_sampler(name, &low.0, n)?, per_sampler(name, &high.0, n)?);
            let all = memory::collected(low.into_iter().zip(high).map(|(low, high)| Bounds { low, high }));
            for Bounds { low, high } in &all {
                ensure!(0.0 <= *low && low <= high && *high <= max, "{name} from {low} to {high} are not valid");
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
            coverages: [overlaps[i], samples[i], objects[i]],
            num_trials: trials[i] as usize,
        };
        let min_coverage = match c.crop_emit_mode {
            CropEmitMode::Center => None,
            CropEmitMode::Overlap => Some(c.emit_overlap_thresh),
        };
        let samplers = memory::collected((0..n).map(sampler));
        Ok(DetectionAugmenter { param, color, crop_probability: c.rand_crop_prob, samplers, min_coverage, size })
    }

    /// Augments an image and its objects. Returns the image and the height and width that it takes up within the result.
    pub(super) fn apply(
        &self,
        image: Image,
        objects: &mut Objects,
        draws: &mut Draws,
    ) -> Result<(Image, (usize, usize))> {
        let p = &self.param;
        let mut image = image.resized_shorter_side(p.resize, p.inter_method, draws)?;
        self.recolor(&mut image, draws);
        if bernoulli(p.rand_mirror_prob, draws) {
            image.mirror();
            objects.map_boxes(|b| BBox { left: 1.0 - b.right, right: 1.0 - b.left, ..b });
        }
        if p.max_pad_scale > 1.0 && bernoulli(p.rand_pad_prob, draws) {
            image = self.random_pad(&image, objects, draws);
        }
        if bernoulli(self.crop_probability, draws)
            && let Some(crop_box) = self.sample_crop(image.width as f32 / image.height as f32, objects, draws)
        {
            image = crop(&image, crop_box);
        }
        let (height, columns) = self.size;
        let scale = (height as f32 / image.height as f32).min(columns as f32 / image.width as f32);
        let scale = match p.resize_mode {
            ResizeMode::Force => {
                return Ok((image.resized(height, columns, p.inter_method, draws)?, self.size));
            }
            ResizeMode::Fit => scale,
            ResizeMode::Shrink => scale.min(1.0),
        };
        let side = |n: usize, max: usize| ((n as f32 * scale) as usize).clamp(1, max);
        let size = (side(image.height, height), side(image.width, columns));
        let image = image.resized(size.0, size.1, p.inter_method, draws)?;
        Ok((image.padded((0, 0), self.size, p.fill_value), size))
    }

    /// Jitters hue, lightness, saturation and contrast, each with its own probability.
    fn recolor(&self, image: &mut Image, draws: &mut Draws) {
        let c = &self.color;
        let mut amount = |probability: f32, max: f32| match bernoulli(probability, draws) {
            true => random_between(draws, -max, max),
            false => 0.0,
        };
        let hue = amount(c.random_hue_prob, c.max_random_hue as f32).trunc();
        let saturation = amount(c.random_saturation_prob, c.max_random_saturation as f32).trunc();
        let lightness = amount(c.random_illumination_prob, c.max_random_illumination as f32).trunc();
        let contrast = amount(c.random_contrast_prob, c.max_random_contrast);
        if image.channels == 3 && (hue, saturation, lightness) != (0.0, 0.0, 0.0) {
            shift_hls(&mut image.samples, [hue, lightness, saturation]);
        }
        if contrast != 0.0 {
            image.adjust(Change::Brightness(1.0 + contrast));
        }
    }

    /// Pads the image to a larger one at a random offset and adjusts the boxes.
    fn random_pad(&self, image: &Image, objects: &mut Objects, draws: &mut Draws) -> Image {
        let scale = random_between(draws, 1.0, self.param.max_pad_scale);
        let larger = |n: usize| ((n as f32 * scale) as usize).max(n);
        let (height, columns) = (larger(image.height), larger(image.width));
        let offset = (random_index(draws, height - image.height + 1), random_index(draws, columns - image.width + 1));
        let x = |v: f32| (v * image.width as f32 + offset.1 as f32) / columns as f32;
        let y = |v: f32| (v * image.height as f32 + offset.0 as f32) / height as f32;
        objects.map_boxes(|b| BBox { left: x(b.left), top: y(b.top), right: x(b.right), bottom: y(b.bottom) });
        image.padded(offset, (height, columns), self.param.fill_value)
    }

    /// Samples a crop and moves the objects into its coordinates. The objects stay unchanged if no sampler finds a crop.
    fn sample_crop(&self, aspect: f32, objects: &mut Objects, draws: &mut Draws) -> Option<BBox> {
        let mut samplers: Vec<&Sampler> = self.samplers.iter().collect();
        while !samplers.is_empty() {
            let sampler = samplers.swap_remove(random_index(draws, samplers.len()));
            for _ in 0..sampler.num_trials {
                let crop_box = sampler.sample(aspect, draws);
                if !sampler.accepts(crop_box, objects) {
                    continue;
                }
                let objects_in_crop = self.crop_objects(crop_box, objects);
                if !objects_in_crop.is_empty() {
                    objects.rows = objects_in_crop;
                    return Some(crop_box);
                }
            }
        }
        None
    }

    /// The objects that a crop keeps, in its coordinates.
    fn crop_objects(&self, crop_box: BBox, objects: &Objects) -> Vec<f32> {
        let rows = objects.rows.chunks_exact(objects.width).filter(|row| {
            let object = BBox::from_row(row);
            match self.min_coverage {
                None => crop_box.contains_point((object.left + object.right) / 2.0, (object.top + object.bottom) / 2.0),
                Some(min) => crop_box.intersection(object).area() > min * object.area(),
            }
        });
        let mut objects_in_crop = Objects { rows: rows.flatten().copied().collect(), width: objects.width };
        let x = |v: f32| ((v - crop_box.left) / (crop_box.right - crop_box.left)).clamp(0.0, 1.0);
        let y = |v: f32| ((v - crop_box.top) / (crop_box.bottom - crop_box.top)).clamp(0.0, 1.0);
        objects_in_crop.map_boxes(|b| BBox { left: x(b.left), top: y(b.top), right: x(b.right), bottom: y(b.bottom) });
        objects_in_crop.rows
    }
}

/// A Bernoulli trial: true with the given probability.
fn bernoulli(probability: f32, draws: &mut Draws) -> bool {
    probability > 0.0 && draws.uniform() < f64::from(probability)
}

/// Broadcasts a list of one value, or of one per sampler, to all samplers.
fn per_sampler(name: &str, given: &[f32], samplers: usize) -> Result<Vec<f32>> {
    let n = given.len();
    ensure!(
        n == 1 || n == samplers,
        "{name} has {n} numbers, but num_crop_sampler is {samplers}: give one number, or one for each sampler"
    );
    Ok(memory::collected((0..samplers).map(|i| given[i.min(n - 1)])))
}

/// Cuts a crop of at least one pixel out of an image.
fn crop(image: &Image, crop_box: BBox) -> Image {
    let pixels = |from: f32, to: f32, n: usize| {
        let start = ((from * n as f32) as usize).min(n - 1);
        (start, (((to - from) * n as f32) as usize).clamp(1, n - start))
    };
    let (left, width) = pixels(crop_box.left, crop_box.right, image.width);
    let (top, height) = pixels(crop_box.top, crop_box.bottom, image.height);
    image.crop((top, left), (height, width))
}
