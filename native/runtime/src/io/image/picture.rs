//! Pictures in memory and what is done with them before they become part of a batch.

use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::memory;
use ferromx_kernels::image::{self, Border, Change, Interpolation};
use ferromx_kernels::rng::Draws;
use ferromx_ops::image::{decode, interpolation};

use super::params::{AugmentParam, WarpParam};

/// A picture of (height, width, channels) samples.
pub(super) struct Picture {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub samples: Vec<u8>,
}

/// A whole number in `0..n`.
pub(super) fn below(draws: &mut Draws, n: usize) -> usize {
    ((draws.uniform() * n as f64) as usize).min(n.saturating_sub(1))
}

/// A number between two others.
pub(super) fn between(draws: &mut Draws, low: f32, high: f32) -> f32 {
    low + (high - low) * draws.uniform() as f32
}

impl Picture {
    /// Decodes a JPEG, PNG or BMP picture into one, three or four channels.
    ///
    /// # Errors
    /// Damaged data; four channels of a picture that has fewer.
    pub fn decode(data: &[u8], channels: usize) -> Result<Picture> {
        let picture = decode(data, channels == 1)?;
        let (height, width, found) = (picture.height, picture.width, picture.channels);
        let samples = match channels {
            4 => {
                ensure!(found == 4, "the picture has {found} channels, but data_shape asks for 4");
                picture.samples
            }
            _ => picture.converted(channels, true),
        };
        Ok(Picture { height, width, channels, samples })
    }

    /// The picture in another size. The method is a code of `inter_method`.
    pub fn scaled(self, height: usize, width: usize, method: i32, draws: &mut Draws) -> Result<Picture> {
        if (height, width) == (self.height, self.width) {
            return Ok(self);
        }
        let how = match method {
            9 if height > self.height && width > self.width => Interpolation::Cubic,
            9 if height < self.height && width < self.width => Interpolation::Area,
            9 => Interpolation::Linear,
            10 => interpolation(below(draws, 5) as i32)?,
            code => interpolation(code)?,
        };
        let mut samples = memory::filled(0, height * width * self.channels);
        let from = (self.height, self.width, self.channels);
        image::resize(&self.samples, from, (height, width), how, &mut samples);
        Ok(Picture { height, width, samples, ..self })
    }

    /// The picture with its shorter side in this length; -1 leaves it.
    pub fn with_shorter_side(self, side: i32, method: i32, draws: &mut Draws) -> Result<Picture> {
        let Ok(side) = usize::try_from(side) else { return Ok(self) };
        ensure!(side > 0, "resize is 0: a picture needs a side of at least one pixel");
        let (height, width) = match self.height > self.width {
            true => (side * self.height / self.width, side),
            false => (side, side * self.width / self.height),
        };
        self.scaled(height, width, method, draws)
    }

    /// A part of the picture.
    pub fn part(&self, (top, left): (usize, usize), (height, width): (usize, usize)) -> Picture {
        let (row, start, length) = (self.width * self.channels, left * self.channels, width * self.channels);
        let rows = self.samples.chunks_exact(row).skip(top).take(height);
        let samples = rows.flat_map(|r| &r[start..start + length]).copied().collect();
        Picture { height, width, samples, channels: self.channels }
    }

    /// The picture within a larger one of one colour.
    pub fn within(&self, (top, left): (usize, usize), (height, width): (usize, usize), fill: i32) -> Picture {
        let mut samples = memory::filled(0, height * width * self.channels);
        let color = [fill as u8; 4];
        let size = (self.height, self.width);
        let color = &color[..self.channels];
        image::add_border(&self.samples, size, (top, left), width, Border::Constant, color, &mut samples);
        Picture { height, width, samples, channels: self.channels }
    }

    /// Changes the colours.
    pub fn change(&mut self, change: Change) {
        image::adjust(None, self.channels, change, &mut self.samples);
    }
}

/// The augmentations of pictures with labels.
pub(super) struct Augmenter {
    pub param: AugmentParam,
    /// What is done at random before a part is cut out, and with the colours.
    pub warp: WarpParam,
    /// Height and width of the result.
    pub size: (usize, usize),
}

impl Augmenter {
    /// Checks parameters that depend on each other.
    pub fn check(&self) -> Result<()> {
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
        let square = p.max_crop_size != -1 || p.min_crop_size != -1;
        ensure!(
            !square || (!p.random_resized_crop && p.min_crop_size > 0 && p.max_crop_size >= p.min_crop_size),
            "min_crop_size {} and max_crop_size {} do not go together: use 1 <= min_crop_size <= max_crop_size without \
             random_resized_crop",
            p.min_crop_size,
            p.max_crop_size
        );
        let (low, high) = self.ratios();
        ensure!(0.0 < low && low <= high, "ratios of width to height from {low} to {high} are impossible");
        let color = p.brightness > 0.0 || p.contrast > 0.0 || p.saturation > 0.0 || p.pca_noise > 0.0;
        ensure!(
            !color || p.brightness.max(p.contrast).max(p.saturation) <= 1.0,
            "brightness, contrast and saturation are at most 1"
        );
        self.warp.check()
    }

    fn ratios(&self) -> (f32, f32) {
        let most = self.param.max_aspect_ratio;
        self.param.min_aspect_ratio.map_or((1.0 - most, 1.0 + most), |least| (least, most))
    }

    /// Does with a picture what the parameters say.
    pub fn apply(&self, picture: Picture, draws: &mut Draws) -> Result<Picture> {
        let p = &self.param;
        let picture = picture.with_shorter_side(p.resize, p.inter_method, draws)?;
        let ratios = if p.random_resized_crop { (1.0, 1.0) } else { self.ratios() };
        let mut picture = self.warp.warp(picture, ratios, (p.fill_value, p.inter_method), draws);
        if p.pad > 0 {
            let pad = p.pad as usize;
            let size = (picture.height + 2 * pad, picture.width + 2 * pad);
            picture = picture.within((pad, pad), size, p.fill_value);
        }
        picture = if p.random_resized_crop {
            self.random_part(picture, draws)?
        } else if p.max_crop_size != -1 {
            self.square(picture, draws)?
        } else {
            self.window(picture, draws)?
        };
        self.recolor(&mut picture, draws);
        self.warp.recolor(&mut picture, draws);
        Ok(picture)
    }

    /// Where a window lies that leaves so many rows and columns free.
    fn place(&self, (rows, columns): (usize, usize), draws: &mut Draws) -> (usize, usize) {
        match self.param.rand_crop {
            true => (below(draws, rows + 1), below(draws, columns + 1)),
            false => (rows / 2, columns / 2),
        }
    }

    /// A part of the size of the result; a picture that is too small is scaled before.
    fn window(&self, mut picture: Picture, draws: &mut Draws) -> Result<Picture> {
        let ((height, width), method) = (self.size, self.param.inter_method);
        if picture.height < height {
            let scaled = (height as f32 / picture.height as f32 * picture.width as f32) as usize;
            picture = picture.scaled(height, scaled.max(1), method, draws)?;
        }
        if picture.width < width {
            let scaled = (width as f32 / picture.width as f32 * picture.height as f32) as usize;
            picture = picture.scaled(scaled.max(height), width, method, draws)?;
        }
        let at = self.place((picture.height - height, picture.width - width), draws);
        Ok(picture.part(at, self.size))
    }

    /// A square of random size, scaled.
    fn square(&self, picture: Picture, draws: &mut Draws) -> Result<Picture> {
        let (low, high) = (self.param.min_crop_size as usize, self.param.max_crop_size as usize);
        ensure!(
            picture.height >= high && picture.width >= high,
            "a picture of {} x {} pixels is smaller than max_crop_size {high}: scale it with resize first",
            picture.width,
            picture.height
        );
        let side = low + below(draws, high - low + 1);
        let at = self.place((picture.height - side, picture.width - side), draws);
        let (height, width) = self.size;
        picture.part(at, (side, side)).scaled(height, width, self.param.inter_method, draws)
    }

    /// A part of random size and proportions, scaled (Szegedy et al., "Going deeper with convolutions", 2015).
    fn random_part(&self, picture: Picture, draws: &mut Draws) -> Result<Picture> {
        let area = (picture.height * picture.width) as f32;
        let (low, high) = self.ratios();
        let mut chosen = None;
        for _ in 0..10 {
            let target = between(draws, self.param.min_random_area, self.param.max_random_area) * area;
            let ratio = between(draws, low, high);
            let mut size = ((target / ratio).sqrt().round() as usize, (target * ratio).sqrt().round() as usize);
            if draws.uniform() < 0.5 {
                size = (size.1, size.0);
            }
            if (1..=picture.height).contains(&size.0) && (1..=picture.width).contains(&size.1) {
                let at = (below(draws, picture.height - size.0 + 1), below(draws, picture.width - size.1 + 1));
                chosen = Some((at, size));
                break;
            }
        }
        let side = picture.height.min(picture.width);
        let middle = ((picture.height - side) / 2, (picture.width - side) / 2);
        let (at, size) = chosen.unwrap_or((middle, (side, side)));
        picture.part(at, size).scaled(self.size.0, self.size.1, self.param.inter_method, draws)
    }

    fn recolor(&self, picture: &mut Picture, draws: &mut Draws) {
        let p = &self.param;
        if picture.channels == 4 {
            return;
        }
        let mut changes: Vec<(f32, fn(f32) -> Change)> = vec![
            (p.brightness, Change::Brightness),
            (p.contrast, Change::Contrast),
            (p.saturation, Change::Saturation),
        ];
        while !changes.is_empty() {
            let (most, change) = changes.swap_remove(below(draws, changes.len()));
            if most > 0.0 {
                picture.change(change(between(draws, 1.0 - most, 1.0 + most)));
            }
        }
        if p.pca_noise > 0.0 {
            let weights = [0; 3].map(|_| draws.normal() as f32 * p.pca_noise);
            picture.change(Change::Shift(image::lighting(weights)));
        }
    }
}

impl Picture {
    /// Exchanges left and right.
    pub fn mirror(&mut self) {
        for row in self.samples.chunks_exact_mut(self.width * self.channels) {
            let n = self.channels;
            for x in 0..self.width / 2 {
                let (left, right) = row.split_at_mut((self.width - 1 - x) * n);
                left[x * n..(x + 1) * n].swap_with_slice(&mut right[..n]);
            }
        }
    }
}
