//! Normalization: writes the samples of an image to a batch, mirrored and normalized.

use ferromx_core::dtype::Element;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::file_format;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_kernels::image::{Mean, Normalization, normalize_plane};
use ferromx_kernels::rng::Draws;

use super::augment::{Image, random_between};
use super::params::{DetectionStdParam, JitterParam, MeanParam, MirrorParam, StdParam, parse_group};

/// Normalizes samples of type float32: ((x - mean) * contrast + illumination) * scale / std. Those of type int8 are x - round(mean),
/// saturated, and those of type uint8 are not normalized.
pub(super) struct Normalizer {
    /// Mean of each sample, (channels, height, width); overrides `mean`.
    pub mean_image: Option<Vec<f32>>,
    /// Mean of each channel.
    pub mean: [f32; 4],
    /// Standard deviation of each channel.
    pub std: [f32; 4],
    pub scale: f32,
    pub jitter: JitterParam,
    pub mirror: MirrorParam,
}

impl DetectionStdParam {
    /// The parameters with divisors of 1 in place of 0.
    pub(super) fn to_std(&self) -> StdParam {
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
    /// Checks the parameters. The caller sets the mean image.
    pub(super) fn new(
        mean: &MeanParam,
        std: &StdParam,
        jitter: JitterParam,
        mirror: MirrorParam,
    ) -> Result<Normalizer> {
        let divisors = [std.std_r, std.std_g, std.std_b, std.std_a];
        ensure!(divisors.iter().all(|d| *d > 0.0), "std_r, std_g, std_b and std_a are divisors and must be positive");
        let mean = [mean.mean_r, mean.mean_g, mean.mean_b, mean.mean_a];
        Ok(Normalizer { mean_image: None, mean, std: divisors, scale: std.scale, jitter, mirror })
    }

    /// A normalizer that leaves samples as they are.
    pub(super) fn identity() -> Result<Normalizer> {
        let none = Attrs::new();
        Normalizer::new(&parse_group(&none)?, &parse_group(&none)?, parse_group(&none)?, parse_group(&none)?)
    }

    /// Writes an image as (channels, height, width).
    pub(super) fn write<T: Element>(&self, image: &Image, draws: &mut Draws, out: &mut [T]) {
        let mirror = self.mirror.mirror ^ (self.mirror.rand_mirror && draws.uniform() < 0.5);
        let contrast = 1.0 + random_between(draws, -1.0, 1.0) * self.jitter.max_random_contrast;
        let illumination = random_between(draws, -1.0, 1.0) * self.jitter.max_random_illumination;
        let plane = image.height * image.width;
        for (c, out) in out.chunks_exact_mut(plane).enumerate() {
            let mean = match &self.mean_image {
                Some(means) => Mean::Plane(&means[c * plane..(c + 1) * plane]),
                None => Mean::Channel(self.mean[c]),
            };
            let scale = self.scale / self.std[c];
            normalize_plane(image.view(), c, &Normalization { mean, contrast, illumination, scale, mirror }, out);
        }
    }
}

/// Reads a mean image of shape `dims`, (channels, height, width).
pub(super) fn read_mean_image(path: &str, dims: [usize; 3]) -> Result<Vec<f32>> {
    let array = file_format::load(path)?.arrays.into_iter().flatten().next();
    let array = array.and_then(|a| a.dense().ok().cloned()).filter(|a| a.shape().to_usize()[..] == dims);
    let Some(array) = array else {
        return Err(Error::Format(format!(
            "mean_img {path} does not begin with an array of shape {dims:?}, the shape of one image"
        )));
    };
    array.to_vec_as()
}

/// Writes a mean image of shape `dims`, (channels, height, width).
pub(super) fn write_mean_image(path: &str, dims: [usize; 3], mean: &[f32]) -> Result<()> {
    let array = NDArray::from_slice(mean, &dims.map(|d| d as i64))?;
    file_format::save(path, &[array.into()], &["mean_img".into()])
}
