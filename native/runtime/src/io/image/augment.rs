//! Decodes images, and augments them for classification.

use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::memory;
use ferromx_kernels::image::{self, Border, Change, Interpolation};
use ferromx_kernels::rng::Draws;
use ferromx_ops::image::{ChannelOrder, decode, interpolation};

use super::params::{AugmentParam, WarpParam};

/// An image in memory: samples of shape (height, width, channels).
pub(super) struct Image {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub samples: Vec<u8>,
}

impl Image {
    pub(super) fn view(&self) -> image::Image<'_> {
        image::Image { samples: &self.samples, height: self.height, width: self.width, channels: self.channels }
    }
}

/// A random integer in `0..n`.
pub(super) fn random_index(draws: &mut Draws, n: usize) -> usize {
    ((draws.uniform() * n as f64) as usize).min(n.saturating_sub(1))
}

/// A random number from `low` to `high`.
pub(super) fn random_between(draws: &mut Draws, low: f32, high: f32) -> f32 {
    low + (high - low) * draws.uniform() as f32
}

impl Image {
    /// Decodes a JPEG, PNG or BMP image into one, three or four channels.
    ///
    /// # Errors
    /// Damaged data; four channels requested of an image with fewer.
    pub(super) fn decode(data: &[u8], channels: usize) -> Result<Image> {
        let image = decode(data, channels == 1)?;
        let (height, width, num_channels) = (image.height, image.width, image.channels);
        let samples = match channels {
            4 => {
                ensure!(num_channels == 4, "the image has {num_channels} channels, but data_shape asks for 4");
                image.samples
            }
            _ => image.converted(channels, ChannelOrder::Rgb),
        };
        Ok(Image { height, width, channels, samples })
    }

    /// Resizes the image. `method` is a code of `inter_method`.
    pub(super) fn resized(self, height: usize, width: usize, method: i32, draws: &mut Draws) -> Result<Image> {
        if (height, width) == (self.height, self.width) {
            return Ok(self);
        }
        let interpolation = match method {
            9 if height > self.height && width > self.width => Interpolation::Cubic,
            9 if height < self.height && width < self.width => Interpolation::Area,
            9 => Interpolation::Linear,
            10 => interpolation(random_index(draws, 5) as i32)?,
            code => interpolation(code)?,
        };
        let mut samples = memory::filled(0, height * width * self.channels);
        let from = (self.height, self.width, self.channels);
        image::resize(&self.samples, from, (height, width), interpolation, &mut samples);
        Ok(Image { height, width, samples, ..self })
    }

    /// Resizes the image so that its shorter side has `side` pixels; -1 keeps the size.
    pub(super) fn resized_shorter_side(self, side: i32, method: i32, draws: &mut Draws) -> Result<Image> {
        let Ok(side) = usize::try_from(side) else { return Ok(self) };
        ensure!(side > 0, "resize is 0: an image needs a side of at least one pixel");
        let (height, width) = match self.height > self.width {
            true => (side * self.height / self.width, side),
            false => (side, side * self.width / self.height),
        };
        self.resized(height, width, method, draws)
    }

    /// Crops the image to the given size at (top, left).
    pub(super) fn crop(&self, (top, left): (usize, usize), (height, width): (usize, usize)) -> Image {
        let (row, start, len) = (self.width * self.channels, left * self.channels, width * self.channels);
        let rows = self.samples.chunks_exact(row).skip(top).take(height);
        let mut samples = memory::with_capacity(height * len);
        rows.for_each(|r| samples.extend_from_slice(&r[start..start + len]));
        Image { height, width, samples, channels: self.channels }
    }

    /// Pads the image with a constant to a larger one, in which it begins at (top, left).
    pub(super) fn padded(&self, (top, left): (usize, usize), (height, width): (usize, usize), fill: i32) -> Image {
        let mut samples = memory::filled(0, height * width * self.channels);
        let color = [fill as u8; 4];
        let size = (self.height, self.width);
        let color = &color[..self.channels];
        image::add_border(&self.samples, size, (top, left), Border::Constant, color, (&mut samples, width));
        Image { height, width, samples, channels: self.channels }
    }

    /// Adjusts the colors.
    pub(super) fn adjust(&mut self, change: Change) {
        image::adjust(None, self.channels, change, &mut self.samples);
    }
}

/// Augments images whose labels do not depend on positions.
pub(super) struct Augmenter {
    pub param: AugmentParam,
    /// Random geometry changes before the crop, and random hue, lightness and saturation.
    pub warp: WarpParam,
    /// Height and width of the result.
    pub size: (usize, usize),
}

impl Augmenter {
    /// Checks parameters that depend on each other.
    pub(super) fn check(&self) -> Result<()> {
        let p = &self.param;
        ensure!(
            p.random_resized_crop || (p.max_random_area == 1.0 && p.min_random_area == 1.0),
            "max_random_area and min_random_area need random_resized_crop=True"
        );
        ensure!(
            p.min_random_area <= p.max_random_area,
            "min_random_area {} is above max_random_area {}",
            p.min_random_area,
            p.max_random_area
        );
        let has_crop_size = p.max_crop_size != -1 || p.min_crop_size != -1;
        ensure!(
            !has_crop_size || (!p.random_resized_crop && p.min_crop_size > 0 && p.max_crop_size >= p.min_crop_size),
            "min_crop_size {} and max_crop_size {} cannot be combined: use 1 <= min_crop_size <= max_crop_size without \
             random_resized_crop",
            p.min_crop_size,
            p.max_crop_size
        );
        let (low, high) = self.ratios();
        ensure!(
            0.0 < low && low <= high,
            "ratios of width to height from {low} to {high} are not valid: use 0 < minimum <= maximum"
        );
        let has_color_jitter = p.brightness > 0.0 || p.contrast > 0.0 || p.saturation > 0.0 || p.pca_noise > 0.0;
        ensure!(
            !has_color_jitter || p.brightness.max(p.contrast).max(p.saturation) <= 1.0,
            "brightness, contrast and saturation must be at most 1"
        );
        self.warp.check()
    }

    /// Bounds of the random aspect ratio.
    fn ratios(&self) -> (f32, f32) {
        let max = self.param.max_aspect_ratio;
        self.param.min_aspect_ratio.map_or((1.0 - max, 1.0 + max), |min| (min, max))
    }

    /// Augments an image and brings it to the size of the result.
    pub(super) fn apply(&self, image: Image, draws: &mut Draws) -> Result<Image> {
        let p = &self.param;
        let image = image.resized_shorter_side(p.resize, p.inter_method, draws)?;
        let ratios = if p.random_resized_crop { (1.0, 1.0) } else { self.ratios() };
        let mut image = self.warp.warp(image, ratios, (p.fill_value, p.inter_method), draws);
        if p.pad > 0 {
            let pad = p.pad as usize;
            let size = (image.height + 2 * pad, image.width + 2 * pad);
            image = image.padded((pad, pad), size, p.fill_value);
        }
        image = if p.random_resized_crop {
            self.random_resized_crop(image, draws)?
        } else if p.max_crop_size != -1 {
            self.square_crop(image, draws)?
        } else {
            self.plain_crop(image, draws)?
        };
        self.recolor(&mut image, draws);
        self.warp.recolor(&mut image, draws);
        Ok(image)
    }

    /// Offset of a crop, random or centered, that leaves out this many rows and columns.
    fn crop_offset(&self, (rows, columns): (usize, usize), draws: &mut Draws) -> (usize, usize) {
        match self.param.rand_crop {
            true => (random_index(draws, rows + 1), random_index(draws, columns + 1)),
            false => (rows / 2, columns / 2),
        }
    }

    /// A crop of the size of the result. A smaller image is enlarged first.
    fn plain_crop(&self, mut image: Image, draws: &mut Draws) -> Result<Image> {
        let ((height, width), method) = (self.size, self.param.inter_method);
        if image.height < height {
            let scaled = (height as f32 / image.height as f32 * image.width as f32) as usize;
            image = image.resized(height, scaled.max(1), method, draws)?;
        }
        if image.width < width {
            let scaled = (width as f32 / image.width as f32 * image.height as f32) as usize;
            image = image.resized(scaled.max(height), width, method, draws)?;
        }
        let offset = self.crop_offset((image.height - height, image.width - width), draws);
        Ok(image.crop(offset, self.size))
    }

    /// A square crop of random size, resized.
    fn square_crop(&self, image: Image, draws: &mut Draws) -> Result<Image> {
        let (low, high) = (self.param.min_crop_size as usize, self.param.max_crop_size as usize);
        ensure!(
            image.height >= high && image.width >= high,
            "an image of {} x {} pixels is smaller than max_crop_size {high}: enlarge it first with the parameter resize",
            image.width,
            image.height
        );
        let side = low + random_index(draws, high - low + 1);
        let offset = self.crop_offset((image.height - side, image.width - side), draws);
        let (height, width) = self.size;
        image.crop(offset, (side, side)).resized(height, width, self.param.inter_method, draws)
    }

    /// A crop of random area and aspect ratio, resized (Szegedy et al., "Going deeper with convolutions", 2015).
    fn random_resized_crop(&self, image: Image, draws: &mut Draws) -> Result<Image> {
        let area = (image.height * image.width) as f32;
        let (low, high) = self.ratios();
        let mut chosen = None;
        for _ in 0..10 {
            let target = random_between(draws, self.param.min_random_area, self.param.max_random_area) * area;
            let ratio = random_between(draws, low, high);
            let mut size = ((target / ratio).sqrt().round() as usize, (target * ratio).sqrt().round() as usize);
            if draws.uniform() < 0.5 {
                size = (size.1, size.0);
            }
            if (1..=image.height).contains(&size.0) && (1..=image.width).contains(&size.1) {
                let offset =
                    (random_index(draws, image.height - size.0 + 1), random_index(draws, image.width - size.1 + 1));
                chosen = Some((offset, size));
                break;
            }
        }
        let side = image.height.min(image.width);
        let middle = ((image.height - side) / 2, (image.width - side) / 2);
        let (offset, size) = chosen.unwrap_or((middle, (side, side)));
        image.crop(offset, size).resized(self.size.0, self.size.1, self.param.inter_method, draws)
    }

    /// Jitters brightness, contrast and saturation in random order, and adds PCA noise.
    fn recolor(&self, image: &mut Image, draws: &mut Draws) {
        let p = &self.param;
        if image.channels == 4 {
            return;
        }
        let mut changes: Vec<(f32, fn(f32) -> Change)> = vec![
            (p.brightness, Change::Brightness),
            (p.contrast, Change::Contrast),
            (p.saturation, Change::Saturation),
        ];
        while !changes.is_empty() {
            let (max, change) = changes.swap_remove(random_index(draws, changes.len()));
            if max > 0.0 {
                image.adjust(change(random_between(draws, 1.0 - max, 1.0 + max)));
            }
        }
        if p.pca_noise > 0.0 {
            let weights = [0; 3].map(|_| draws.normal() as f32 * p.pca_noise);
            image.adjust(Change::Shift(image::lighting(weights)));
        }
    }
}

impl Image {
    /// Flips the image horizontally.
    pub(super) fn mirror(&mut self) {
        for row in self.samples.chunks_exact_mut(self.width * self.channels) {
            let n = self.channels;
            for x in 0..self.width / 2 {
                let (left, right) = row.split_at_mut((self.width - 1 - x) * n);
                left[x * n..(x + 1) * n].swap_with_slice(&mut right[..n]);
            }
        }
    }
}
