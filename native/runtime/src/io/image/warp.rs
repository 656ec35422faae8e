//! Random rotation, shear and scale of images, and random hue, lightness and saturation.

use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::memory;
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
        warp_affine(&image, matrix, size, fill as u8, sampling)
    }

    /// Shifts hue, lightness and saturation by random amounts.
    pub(super) fn recolor(&self, image: &mut Image, draws: &mut Draws) {
        if image.channels != 3 || (self.random_h, self.random_s, self.random_l) == (0, 0, 0) {
            return;
        }
        let mut amount = |max: i32| random_between(draws, -(max as f32), max as f32).trunc();
        let (h, s, l) = (amount(self.random_h), amount(self.random_s), amount(self.random_l));
        shift_hls(image, [h, l, s]);
    }
}

/// Shifts hue (0 to 180), lightness and saturation (0 to 255) of an image of three channels.
pub(super) fn shift_hls(image: &mut Image, shift: [f32; 3]) {
    for pixel in image.samples.as_chunks_mut::<3>().0 {
        let hls = to_hls(*pixel);
        *pixel = from_hls([
            (hls[0] + shift[0]).clamp(0.0, 180.0),
            (hls[1] + shift[1]).clamp(0.0, 255.0),
            (hls[2] + shift[2]).clamp(0.0, 255.0),
        ]);
    }
}

/// How [`warp_affine`] samples between pixels.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sampling {
    Nearest,
    Bilinear,
}

/// Fractional bits of coordinates in [`warp_affine`].
const COORDINATE_BITS: u32 = 10;
/// Fractional bits of the bilinear weights in [`warp_affine`].
const WEIGHT_BITS: u32 = 5;

/// Applies an affine transformation: the pixel at (x, y) relative to the center of the result is sampled at `inverse(matrix) * (x, y)`
/// relative to the center of `image`. A fraction of a pixel in `size`, (height, width), moves the center. Pixels outside `image` have the
/// value `fill`. As in OpenCV, coordinates and weights are fixed-point numbers.
fn warp_affine(image: &Image, matrix: [[f32; 2]; 2], size: (f32, f32), fill: u8, sampling: Sampling) -> Image {
    let shift = |row: [f32; 2], new: f32| (new - row[0] * image.width as f32 - row[1] * image.height as f32) / 2.0;
    let (left, top) = (f64::from(shift(matrix[0], size.1)), f64::from(shift(matrix[1], size.0)));
    let (height, width) = (size.0 as usize, size.1 as usize);
    let [[m00, m01], [m10, m11]] = matrix.map(|row| row.map(f64::from));
    let determinant = m00 * m11 - m01 * m10;
    let inverse = [[m11 / determinant, -m01 / determinant], [-m10 / determinant, m00 / determinant]];
    let origin = inverse.map(|row| -row[0] * left - row[1] * top);
    let to_fixed = |x: f64| (x * f64::from(1 << COORDINATE_BITS)).round_ties_even().clamp(-1e15, 1e15) as i64;
    let n = image.channels;
    let sample = |x: i64, y: i64, c: usize| match (usize::try_from(x), usize::try_from(y)) {
        (Ok(x), Ok(y)) if x < image.width && y < image.height => image.samples[(y * image.width + x) * n + c],
        _ => fill,
    };
    let dropped_bits = match sampling {
        Sampling::Nearest => COORDINATE_BITS,
        Sampling::Bilinear => COORDINATE_BITS - WEIGHT_BITS,
    };
    let half = 1 << (dropped_bits - 1);
    let one = 1 << WEIGHT_BITS;
    let mut samples = memory::with_capacity(height.saturating_mul(width).saturating_mul(n));
    for row in 0..height {
        let start: [i64; 2] = std::array::from_fn(|k| to_fixed(inverse[k][1] * row as f64 + origin[k]) + half);
        for column in 0..width {
            let [x, y]: [i64; 2] =
                std::array::from_fn(|k| (start[k] + to_fixed(inverse[k][0] * column as f64)) >> dropped_bits);
            if sampling == Sampling::Nearest {
                samples.extend((0..n).map(|c| sample(x, y, c)));
                continue;
            }
            let (fx, fy) = (x & (one - 1), y & (one - 1));
            let (x0, y0) = (x >> WEIGHT_BITS, y >> WEIGHT_BITS);
            samples.extend((0..n).map(|c| {
                let at = |i: i64, j: i64| i64::from(sample(x0 + i, y0 + j, c));
                let above = at(0, 0) * (one - fx) + at(1, 0) * fx;
                let below = at(0, 1) * (one - fx) + at(1, 1) * fx;
                ((above * (one - fy) + below * fy + one * one / 2) >> (2 * WEIGHT_BITS)) as u8
            }));
        }
    }
    Image { height, width, samples, channels: n }
}

/// Converts RGB to hue (0 to 180), lightness and saturation (0 to 255).
fn to_hls(pixel: [u8; 3]) -> [f32; 3] {
    let [r, g, b] = pixel.map(|x| f32::from(x) / 255.0);
    let (max, min) = (r.max(g).max(b), r.min(g).min(b));
    let (range, sum) = (max - min, max + min);
    if range == 0.0 {
        return [0.0, 127.5 * sum, 0.0];
    }
    let saturation = range / if sum < 1.0 { sum } else { 2.0 - sum };
    let sixth = match max {
        m if m == r => (g - b) / range,
        m if m == g => 2.0 + (b - r) / range,
        _ => 4.0 + (r - g) / range,
    };
    [sixth.rem_euclid(6.0) * 30.0, 127.5 * sum, 255.0 * saturation]
}

/// The inverse of [`to_hls`].
fn from_hls([hue, lightness, saturation]: [f32; 3]) -> [u8; 3] {
    let (l, s) = (lightness / 255.0, saturation / 255.0);
    let max = if l <= 0.5 { l * (1.0 + s) } else { l + s - l * s };
    let min = 2.0 * l - max;
    let channel = |offset: f32| {
        // The hue in sixths of the circle, shifted so that the channel peaks from 1 to 3.
        let sixth = (hue / 30.0 + offset).rem_euclid(6.0);
        let weight = if sixth < 1.0 {
            sixth
        } else if sixth < 3.0 {
            1.0
        } else if sixth < 4.0 {
            4.0 - sixth
        } else {
            0.0
        };
        ((min + (max - min) * weight) * 255.0).round().clamp(0.0, 255.0) as u8
    };
    [channel(2.0), channel(0.0), channel(4.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gray(height: usize, width: usize, samples: &[u8]) -> Image {
        Image { height, width, channels: 1, samples: samples.to_vec() }
    }

    #[test]
    fn transforms_keep_the_center() {
        let image = gray(2, 3, &[1, 2, 3, 4, 5, 6]);
        let unchanged = warp_affine(&image, [[1.0, 0.0], [0.0, 1.0]], (2.0, 3.0), 0, Sampling::Bilinear);
        assert_eq!(unchanged.samples, image.samples);
        let wider = warp_affine(&image, [[1.0, 0.0], [0.0, 1.0]], (2.0, 5.0), 9, Sampling::Nearest);
        assert_eq!(wider.samples, [9, 1, 2, 3, 9, 9, 4, 5, 6, 9]);
        let twice = warp_affine(&gray(1, 2, &[10, 20]), [[2.0, 0.0], [0.0, 1.0]], (1.0, 4.0), 0, Sampling::Bilinear);
        assert_eq!(twice.samples, [10, 15, 20, 10]);
    }

    #[test]
    fn colors_survive_a_round_trip_through_hls() {
        for pixel in [[0, 0, 0], [255, 255, 255], [255, 0, 0], [0, 255, 0], [12, 200, 255], [90, 91, 17], [128, 5, 130]]
        {
            assert_eq!(from_hls(to_hls(pixel)), pixel);
        }
        assert_eq!(to_hls([0, 255, 0]), [60.0, 127.5, 255.0]);
    }
}
