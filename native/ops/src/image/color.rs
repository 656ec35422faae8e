//! Color augmentation: `_image_random_brightness`, `_image_adjust_lighting` and their relatives.

use ferromx_core::dtype::f16;
use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params::Tuple;
use ferromx_core::storage::{In, Out, in_out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::image::{Change, adjust, lighting};
use ferromx_kernels::rng::{Draws, Philox};

use super::same_image_shape;
use crate::elemwise::family::NUMERIC;
use crate::rules::PASS_BACK;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[
    &RANDOM_BRIGHTNESS,
    &RANDOM_CONTRAST,
    &RANDOM_SATURATION,
    &RANDOM_HUE,
    &RANDOM_COLOR_JITTER,
    &ADJUST_LIGHTING,
    &RANDOM_LIGHTING,
];

/// Copies an image and applies color changes to the copy in order.
fn apply_changes(ctx: &OpCtx<'_>, input: &In<'_>, out: &mut Out<'_>, changes: &[Change]) -> Result<()> {
    let channels = input.shape().dim(2) as usize;
    dispatch!(input.dtype(), T in [f32, f64, f16, u8, i8, i32, i64] => {
        let (mut src, dst) = in_out::<T, T>(input, out)?;
        if let (Some(src), []) = (src, changes) {
            dst.copy_from_slice(src);
        }
        for change in changes {
            adjust(src.take(), channels, *change, dst);
        }
        Ok(())
    }, other => Err(ctx.unsupported(other, NUMERIC)))
}

/// The random draws of a call.
fn draws(ctx: &OpCtx<'_>) -> Draws {
    let key = ctx.random.next_key();
    Philox::new(key.seed, key.stream).draws(0)
}

/// A number that is uniformly distributed over [low, high).
fn uniform_in(draws: &mut Draws, low: f32, high: f32) -> f32 {
    (f64::from(low) + draws.uniform() * f64::from(high - low)) as f32
}

params! {
    /// Parameters of the operators that randomly scale brightness, contrast, saturation or hue.
    pub struct FactorParam {
        /// The smallest factor.
        min_factor: f32 = required, where 0.0..=f32::MAX;
        /// The largest factor.
        max_factor: f32 = required, where 0.0..=f32::MAX;
    }
}

/// Defines an operator that changes one color property by a random factor.
macro_rules! random_change {
    ($NAME:ident: $op:literal, $alias:literal, $change:path, $doc:literal) => {
        #[doc = $doc]
        pub(crate) static $NAME: Operator<FactorParam> = Operator::new($op)
            .aliases(&[$alias])
            .doc(concat!($doc, "\n\nThe factor is uniformly distributed over [min_factor, max_factor). Integers cut off the \
                 fraction and stay within their range. Shapes: data and output (height, width, 1 or 3 channels). The gradient is \
                 passed through unchanged, as in MXNet."))
            .inputs(&[arg("data", "The image, channels last.")])
            .shape(|_, io| same_image_shape(io))
            .forward(|ctx, ins, outs| {
                let p = ctx.params::<FactorParam>();
                let factor = uniform_in(&mut draws(ctx), p.min_factor, p.max_factor);
                apply_changes(ctx, &ins[0], &mut outs[0], &[$change(factor)])
            })
            .inplace(&[(0, 0)])
            .random()
            .grad(Grad::Compose(PASS_BACK));
    };
}

random_change!(RANDOM_BRIGHTNESS: "_image_random_brightness", "_npx__image_random_brightness", Change::Brightness,
    "Changes the brightness of an image: output = factor * data.");
random_change!(RANDOM_CONTRAST: "_image_random_contrast", "_npx__image_random_contrast", Change::Contrast,
    "Changes the contrast of an image: output = factor * data + (1 - factor) * mean gray, where the gray of a pixel is 0.299 * \
     red + 0.587 * green + 0.114 * blue.");
random_change!(RANDOM_SATURATION: "_image_random_saturation", "_npx__image_random_saturation", Change::Saturation,
    "Changes the saturation of an image: output = factor * data + (1 - factor) * gray, where the gray of a pixel is 0.299 * red + \
     0.587 * green + 0.114 * blue. A single-channel image stays as it is.");
random_change!(RANDOM_HUE: "_image_random_hue", "_npx__image_random_hue", Change::Hue,
    "Rotates the hue of an image by the factor times 360 degrees; lightness and saturation stay. A single-channel image stays as \
     it is.");

params! {
    /// Parameters of `_image_random_color_jitter`.
    pub struct JitterParam {
        /// The brightness is scaled by a random number in [1 - brightness, 1 + brightness).
        brightness: f32 = required;
        /// The contrast is scaled by a random number in [1 - contrast, 1 + contrast).
        contrast: f32 = required;
        /// The saturation is scaled by a random number in [1 - saturation, 1 + saturation).
        saturation: f32 = required;
        /// The hue is rotated by a random fraction of the color wheel in [-hue, hue).
        hue: f32 = required;
    }
}

pub(super) static RANDOM_COLOR_JITTER: Operator<JitterParam> = Operator::new("_image_random_color_jitter")
    .aliases(&["_npx__image_random_color_jitter"])
    .doc(
        "Changes brightness, contrast, saturation and hue of an image at random and in random order. Properties whose parameter is 0 \
         are not changed.\n\n\
         Shapes: data and output (height, width, 1 or 3 channels). The gradient is passed through unchanged, as in MXNet.",
    )
    .inputs(&[arg("data", "The image, channels last.")])
    .shape(|_, io| same_image_shape(io))
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<JitterParam>();
        let mut draws = draws(ctx);
        // The largest deviation from the center, the center, and the change.
        let jitters: [(f32, f32, fn(f32) -> Change); 4] = [
            (p.brightness, 1.0, Change::Brightness),
            (p.contrast, 1.0, Change::Contrast),
            (p.saturation, 1.0, Change::Saturation),
            (p.hue, 0.0, Change::Hue),
        ];
        let mut changes: Vec<Change> = Vec::new();
        for (range, center, change) in jitters.into_iter().filter(|j| j.0 > 0.0) {
            let position = (draws.uniform() * (changes.len() + 1) as f64) as usize;
            changes.insert(position, change(uniform_in(&mut draws, center - range, center + range)));
        }
        apply_changes(ctx, &ins[0], &mut outs[0], &changes)
    })
    .inplace(&[(0, 0)])
    .random()
    .grad(Grad::Compose(PASS_BACK));

params! {
    /// Parameters of `_image_adjust_lighting`.
    pub struct LightingParam {
        /// The weights of the three principal components.
        alpha: Tuple<f32> = required;
    }
}

pub(super) static ADJUST_LIGHTING: Operator<LightingParam> = Operator::new("_image_adjust_lighting")
    .aliases(&["_npx__image_adjust_lighting"])
    .doc(
        "PCA lighting: adds the principal components of ImageNet's colors, each scaled by its \
         standard deviation and by alpha (Krizhevsky et al., 2012). A single-channel image stays as it is.\n\n\
         Shapes: data and output (height, width, 1 or 3 channels).",
    )
    .inputs(&[arg("data", "The image, channels last.")])
    .shape(|p, io| {
        same_image_shape(io)?;
        let given = p.get::<LightingParam>().alpha.0.len();
        let is_gray = io.ins[0].dims().last() == Some(&1);
        ensure!(given == 3 || is_gray, "alpha must have three elements, but it has {given}");
        Ok(())
    })
    .forward(|ctx, ins, outs| {
        let alpha = &ctx.params::<LightingParam>().alpha.0;
        let weights = std::array::from_fn(|i| alpha.get(i).copied().unwrap_or(0.0));
        apply_changes(ctx, &ins[0], &mut outs[0], &[Change::Shift(lighting(weights))])
    })
    .inplace(&[(0, 0)])
    .grad(Grad::Compose(PASS_BACK));

params! {
    /// Parameters of `_image_random_lighting`.
    pub struct RandomLightingParam {
        /// The standard deviation of the weights of the principal components.
        alpha_std: f32 = 0.05;
    }
}

pub(super) static RANDOM_LIGHTING: Operator<RandomLightingParam> = Operator::new("_image_random_lighting")
    .aliases(&["_npx__image_random_lighting"])
    .doc(
        "Random PCA lighting: adds the principal components of ImageNet's colors, each scaled by its \
         standard deviation and by a normally distributed weight (Krizhevsky et al., 2012). A single-channel image \
         stays as it is.\n\nShapes: data and output (height, width, 1 or 3 channels).",
    )
    .inputs(&[arg("data", "The image, channels last.")])
    .shape(|_, io| same_image_shape(io))
    .forward(|ctx, ins, outs| {
        let std = f64::from(ctx.params::<RandomLightingParam>().alpha_std);
        let mut draws = draws(ctx);
        let weights = std::array::from_fn(|_| (draws.normal() * std) as f32);
        apply_changes(ctx, &ins[0], &mut outs[0], &[Change::Shift(lighting(weights))])
    })
    .inplace(&[(0, 0)])
    .random()
    .grad(Grad::Compose(PASS_BACK));
