//! Affine transformations of images.

use ferromx_core::memory;

use super::Image;

/// How samples between pixels are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// The sample of the nearest pixel.
    Nearest,
    /// The average of four pixels, weighted by distance.
    Bilinear,
}

/// Fractional bits of coordinates of [`warp_affine`].
const COORDINATE_BITS: u32 = 10;
/// Fractional bits of the bilinear weights of [`warp_affine`].
const WEIGHT_BITS: u32 = 5;

/// Applies an affine transformation: the pixel at (x, y) relative to the center of the result is sampled at `inverse(matrix) * (x, y)`
/// relative to the center of `image`. A fraction of a pixel in `size`, (height, width), moves the center. Pixels outside `image` have the
/// value `fill`. As in OpenCV, coordinates and weights are fixed-point numbers.
pub fn warp_affine(image: Image<'_>, matrix: [[f32; 2]; 2], size: (f32, f32), fill: u8, sampling: Sampling) -> Vec<u8> {
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
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transforms_keep_the_center() {
        const IDENTITY: [[f32; 2]; 2] = [[1.0, 0.0], [0.0, 1.0]];
        let image = Image { samples: &[1, 2, 3, 4, 5, 6], height: 2, width: 3, channels: 1 };
        assert_eq!(warp_affine(image, IDENTITY, (2.0, 3.0), 0, Sampling::Bilinear), image.samples);
        let wider = warp_affine(image, IDENTITY, (2.0, 5.0), 9, Sampling::Nearest);
        assert_eq!(wider, [9, 1, 2, 3, 9, 9, 4, 5, 6, 9]);
        let row = Image { samples: &[10, 20], height: 1, width: 2, channels: 1 };
        let twice = warp_affine(row, [[2.0, 0.0], [0.0, 1.0]], (1.0, 4.0), 0, Sampling::Bilinear);
        assert_eq!(twice, [10, 15, 20, 10]);
    }
}
