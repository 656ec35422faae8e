//! Random rotation, shear and scale of images, and random hue, lightness and saturation.

use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_kernels::image::{Sampling, shift_hls, warp_affine};
use ferromx_kernels::rng::Draws;

use super::augment::{Image, random_between, random_index};
use super::params::WarpParam;

/// The largest side of a warped image, in pixels.
const MAX_SIDE: f32 = 65536.0;

impl WarpParam {
    /// Checks parameters that depend on each other.
    pub(super) fn check(&self) -> Result<()> {
        ensure!(
            0.0 < self.min_random_scale && self.min_random_scale <= self.max_random_scale,
            "random scales from {} to {} are not valid: use 0 < min_random_scale <= max_random_scale",
            self.min_random_scale,
            self.max_random_scale
        );
        ensure!(
            self.min_img_size <= self.max_img_size && self.min_img_size <= MAX_SIDE && self.max_img_size >= 1.0,
            "sides of {} to {} pixels are not valid",
            self.min_img_size,
            self.max_img_size
        );
        Ok(())
    }

    /// Rotates, shears and scales an image about its center. `ratios` are the bounds of a random change of its aspect ratio.
    pub(super) fn warp(
        &self,
        image: Image,
        ratios: (f32, f32),
        (fill, method): (i32, i32),
        draws: &mut Draws,
    ) -> Image {
        let is_unrotated = self.max_rotate_angle == 0 && self.rotate <= 0 && self.max_shear_ratio == 0.0;
        let is_unscaled = self.max_random_scale == 1.0 && self.min_random_scale == 1.0;
        let is_unbounded = self.max_img_size == 1e10 && self.min_img_size == 0.0;
        if is_unrotated && is_unscaled && is_unbounded && ratios == (1.0, 1.0) {
            return image;
        }
        let shear = random_between(draws, -self.max_shear_ratio, self.max_shear_ratio);
        let max_angle = self.max_rotate_angle as usize;
        let angle = match self.rotate {
            fixed if fixed > 0 => fixed,
            _ => random_index(draws, 2 * max_angle + 1) as i32 - self.max_rotate_angle,
        };
        let (b, a) = (angle as f32).to_radians().sin_cos();
        let scale = random_between(draws, self.min_random_scale, self.max_random_scale);
        let ratio = random_between(draws, ratios.0, ratios.1);
        let tall = 2.0 * scale / (1.0 + ratio);
        let wide = ratio * tall;
        let side = |n: usize| (n as f32 * scale).min(self.max_img_size).max(self.min_img_size).clamp(1.0, MAX_SIDE);
        let size = (side(image.height), side(image.width));
        let matrix = [[tall * a - shear * b * wide, tall * b + shear * a * wide], [-b * wide, a * wide]];
        let sampling = if method == 0 { Sampling::Nearest } else { Sampling::Bilinear };
        let (height, width) = (size.0 as usize, size.1 as usize);
        let samples = warp_affine(image.view(), matrix, size, fill as u8, sampling);
        Image { height, width, samples, channels: image.channels }
    }

    /// Shifts hue, lightness and saturation by random amounts.
    pub(super) fn recolor(&self, image: &mut Image, draws: &mut Draws) {
        if image.channels != 3 || (self.random_h, self.random_s, self.random_l) == (0, 0, 0) {
            return;
        }
        let mut amount = |max: i32| random_between(draws, -(max as f32), max as f32).trunc();
        let (h, s, l) = (amount(self.random_h), amount(self.random_s), amount(self.random_l));
        shift_hls(&mut image.samples, [h, l, s]);
    }
}
