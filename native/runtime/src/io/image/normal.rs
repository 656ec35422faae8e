//! Samples become the numbers of a batch.

use ferromx_core::dtype::{DType, Element};
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::file_format;
use ferromx_kernels::image::saturate;
use ferromx_kernels::rng::Draws;

use super::params::{DetectionStdParam, JitterParam, MeanParam, MirrorParam, StdParam};
use super::picture::{Picture, between};

/// How samples become numbers.
pub(super) struct Normalizer {
    /// One mean for each sample of the result, (channels, height, width); else there is one for each channel.
    pub mean_image: Option<Vec<f32>>,
    pub mean: [f32; 4],
    /// Divisors of the channels.
    pub std: [f32; 4],
    pub scale: f32,
    pub jitter: JitterParam,
    pub mirror: MirrorParam,
}

impl DetectionStdParam {
    /// The same divisors, where 0 is no longer special.
    pub(super) fn plain(&self) -> StdParam {
        let or_one = |x: f32| if x == 0.0 { 1.0 } else { x };
        StdParam {
            std_r: or_one(self.std_r),
            std_g: or_one(self.std_g),
            std_b: or_one(self.std_b),
            std_a: or_one(self.std_a),
            scale: self.scale,
        }
    }
}

impl Normalizer {
    /// Checks the parameters and reads the mean picture, of (channels, height, width) = `dims`.
    pub fn new(
        mean: &MeanParam,
        std: &StdParam,
        jitter: JitterParam,
        mirror: MirrorParam,
        dims: [usize; 3],
    ) -> Result<Normalizer> {
        let divisors = [std.std_r, std.std_g, std.std_b, std.std_a];
        ensure!(divisors.iter().all(|d| *d > 0.0), "std_r, std_g, std_b and std_a are divisors and must be positive");
        let mean_image = match mean.mean_img.as_str() {
            "" => None,
            path => {
                let loaded = file_format::load(path)?;
                let array = loaded.arrays.into_iter().flatten().next();
                let array = array.and_then(|a| a.dense().ok().cloned());
                let values =
                    array.filter(|a| a.shape().to_usize()[..] == dims).map(|a| a.to_vec_as::<f32>()).transpose()?;
                ensure!(
                    values.is_some(),
                    "mean_img {path} does not begin with an array of shape {dims:?}, that of a picture"
                );
                values
            }
        };
        let mean = [mean.mean_r, mean.mean_g, mean.mean_b, mean.mean_a];
        Ok(Normalizer { mean_image, mean, std: divisors, scale: std.scale, jitter, mirror })
    }

    /// Writes a picture as (channels, height, width). Bytes stay as they are, up to the largest that the type has.
    pub fn write<T: Element>(&self, picture: &Picture, draws: &mut Draws, out: &mut [T]) {
        let mirror = self.mirror.mirror ^ (self.mirror.rand_mirror && draws.uniform() < 0.5);
        let contrast = 1.0 + between(draws, -1.0, 1.0) * self.jitter.max_random_contrast;
        let illumination = between(draws, -1.0, 1.0) * self.jitter.max_random_illumination;
        let plane = picture.height * picture.width;
        for (c, out) in out.chunks_exact_mut(plane).enumerate() {
            let factor = self.scale / self.std[c];
            let number = |x: u8, mean: f32| match T::DTYPE {
                DType::F32 => T::from_f32(((f32::from(x) - mean) * contrast + illumination) * factor),
                _ => saturate(f32::from(x)),
            };
            match &self.mean_image {
                Some(means) => {
                    let means = &means[c * plane..(c + 1) * plane];
                    each(picture, c, mirror, out, |x, at| number(x, means[at]));
                }
                None => {
                    let table: [T; 256] = std::array::from_fn(|x| number(x as u8, self.mean[c]));
                    each(picture, c, mirror, out, |x, _| table[usize::from(x)]);
                }
            }
        }
    }
}

/// Fills one channel from the samples and their places in the picture that is not mirrored.
fn each<T>(picture: &Picture, c: usize, mirror: bool, out: &mut [T], f: impl Fn(u8, usize) -> T) {
    let (width, n) = (picture.width, picture.channels);
    let rows = picture.samples.chunks_exact(width * n).zip(out.chunks_exact_mut(width));
    for (y, (row, out)) in rows.enumerate() {
        let samples = row[c..].iter().step_by(n).enumerate().map(|(x, s)| f(*s, y * width + x));
        match mirror {
            true => out.iter_mut().rev().zip(samples).for_each(|(o, s)| *o = s),
            false => out.iter_mut().zip(samples).for_each(|(o, s)| *o = s),
        }
    }
}
