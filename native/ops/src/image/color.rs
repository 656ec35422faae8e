//! `_image_random_brightness` and the other changes of colours.

use ferromx_core::dtype::f16;
use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::op::{OpCtx, OpDef, arg};
use ferromx_core::params::Tuple;
use ferromx_core::storage::{In, Out, in_out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::image::{Change, adjust, lighting};
use ferromx_kernels::rng::{Draws, Philox};

use super::same_picture;
use crate::elemwise::family::NUMERIC;
use crate::rules::PASS_BACK;

/// The operators of this file.
pub static OPS: &[&OpDef] = &[
    &RANDOM_BRIGHTNESS,
    &RANDOM_CONTRAST,
    &RANDOM_SATURATION,
    &RANDOM_HUE,
    &RANDOM_COLOR_JITTER,
    &ADJUST_LIGHTING,
    &RANDOM_LIGHTING,
];

/// Applies changes, one after the other, to a copy of a picture.
fn change(ctx: &OpCtx<'_>, input: &In<'_>, out: &mut Out<'_>, changes: &[Change]) -> Result<()> {
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

fn draws(ctx: &OpCtx<'_>) -> Draws {
    let key = ctx.random.next_key();
    Philox::new(key.seed, key.stream).draws(0)
}

fn between(draws: &mut Draws, low: f32, high: f32) -> f32 {
    (f64::from(low) + draws.uniform() * f64::from(high - low)) as f32
}

params! {
    /// Parameters of the random changes of one property.
    pub struct FactorParam {
        /// The smallest factor.
        min_factor: f32 = required, where 0.0..=f32::MAX;
        /// The largest factor.
        max_factor: f32 = required, where 0.0..=f32::MAX;
    }
}

/// Defines a change by a random factor.
macro_rules! random_change {
    ($NAME:ident: $op:literal, $alias:literal, $change:path, $doc:literal) => {
        #[doc = $doc]
        pub static $NAME: OpDef = OpDef::new($op)
            .aliases(&[$alias])
            .doc(concat!($doc, "\n\nThe factor is uniformly distributed over [min_factor, max_factor). Integers cut off the \
                 fraction and stay within their range. Shapes: data and output (height, width, 1 or 3 channels). The gradient is \
                 passed through unchanged, as in MXNet."))
            .inputs(&[arg("data", "The picture, channels last.")])
            .params::<FactorParam>()
            .shape(|_, io| same_picture(io))
            .forward(|ctx, ins, outs| {
                let p = ctx.params::<FactorParam>();
                let factor = between(&mut draws(ctx), p.min_factor, p.max_factor);
                change(ctx, &ins[0], &mut outs[0], &[$change(factor)])
            })
            .inplace(&[(0, 0)])
            .random()
            .grad(Grad::Compose(PASS_BACK));
    };
}

random_change!(RANDOM_BRIGHTNESS: "_image_random_brightness", "_npx__image_random_brightness", Change::Brightness,
    "Changes the brightness of a picture: output = factor * data.");
random_change!(RANDOM_CONTRAST: "_image_random_contrast", "_npx__image_random_contrast", Change::Contrast,
    "Changes the contrast of a picture: output = factor * data + (1 - factor) * mean gray, where the gray of a pixel is 0.299 * \
     red + 0.587 * green + 0.114 * blue.");
random_change!(RANDOM_SATURATION: "_image_random_saturation", "_npx__image_random_saturation", Change::Saturation,
    "Changes the saturation of a picture: output = factor * data + (1 - factor) * gray, where the gray of a pixel is 0.299 * red + \
     0.587 * green + 0.114 * blue. A picture of one channel stays as it is.");
random_change!(RANDOM_HUE: "_image_random_hue", "_npx__image_random_hue", Change::Hue,
    "Turns the hue of a picture by the factor times 360 degrees; lightness and saturation stay. A picture of one channel stays as \
     it is.");

params! {
    /// Parameters of `_image_random_color_jitter`.
    pub struct JitterParam {
        /// The brightness is multiplied by a number within 1 - brightness and 1 + brightness.
        brightness: f32 = required;
        /// The contrast is multiplied by a number within 1 - contrast and 1 + contrast.
        contrast: f32 = required;
        /// The saturation is multiplied by a number within 1 - saturation and 1 + saturation.
        saturation: f32 = required;
        /// The hue is turned by a part of the colour circle within -hue and hue.
        hue: f32 = required;
    }
}

/// Several random changes.
pub static RANDOM_COLOR_JITTER: OpDef = OpDef::new("_image_random_color_jitter")
    .aliases(&["_npx__image_random_color_jitter"])
    .doc(
        "Changes brightness, contrast, saturation and hue of a picture at random, in a random order. What is 0 is left out.\n\n\
         Shapes: data and output (height, width, 1 or 3 channels). The gradient is passed through unchanged, as in MXNet.",
    )
    .inputs(&[arg("data", "The picture, channels last.")])
    .params::<JitterParam>()
    .shape(|_, io| same_picture(io))
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<JitterParam>();
        let mut draws = draws(ctx);
        let kinds: [(f32, f32, fn(f32) -> Change); 4] = [
            (p.brightness, 1.0, Change::Brightness),
            (p.contrast, 1.0, Change::Contrast),
            (p.saturation, 1.0, Change::Saturation),
            (p.hue, 0.0, Change::Hue),
        ];
        let mut changes: Vec<Change> = Vec::new();
        for (range, middle, kind) in kinds.into_iter().filter(|k| k.0 > 0.0) {
            let place = (draws.uniform() * (changes.len() + 1) as f64) as usize;
            changes.insert(place, kind(between(&mut draws, middle - range, middle + range)));
        }
        change(ctx, &ins[0], &mut outs[0], &changes)
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

/// A change of lighting.
pub static ADJUST_LIGHTING: OpDef = OpDef::new("_image_adjust_lighting")
    .aliases(&["_npx__image_adjust_lighting"])
    .doc(
        "Changes the lighting of a picture: adds the sum of the principal components of the colours of photographs, times their \
         standard deviation and alpha (Krizhevsky et al., 2012). A picture of one channel stays as it is.\n\n\
         Shapes: data and output (height, width, 1 or 3 channels).",
    )
    .inputs(&[arg("data", "The picture, channels last.")])
    .params::<LightingParam>()
    .shape(|p, io| {
        let given = p.get::<LightingParam>().alpha.0.len();
        ensure!(given == 3, "alpha has to hold three numbers, but it has {given}");
        same_picture(io)
    })
    .forward(|ctx, ins, outs| {
        let alpha = &ctx.params::<LightingParam>().alpha.0;
        change(ctx, &ins[0], &mut outs[0], &[Change::Shift(lighting([alpha[0], alpha[1], alpha[2]]))])
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

/// A random change of lighting.
pub static RANDOM_LIGHTING: OpDef = OpDef::new("_image_random_lighting")
    .aliases(&["_npx__image_random_lighting"])
    .doc(
        "Changes the lighting of a picture at random: adds the sum of the principal components of the colours of photographs, times \
         their standard deviation and normally distributed weights (Krizhevsky et al., 2012). A picture of one channel stays as it \
         is.\n\nShapes: data and output (height, width, 1 or 3 channels).",
    )
    .inputs(&[arg("data", "The picture, channels last.")])
    .params::<RandomLightingParam>()
    .shape(|_, io| same_picture(io))
    .forward(|ctx, ins, outs| {
        let std = f64::from(ctx.params::<RandomLightingParam>().alpha_std);
        let mut draws = draws(ctx);
        let weights = std::array::from_fn(|_| (draws.normal() * std) as f32);
        change(ctx, &ins[0], &mut outs[0], &[Change::Shift(lighting(weights))])
    })
    .inplace(&[(0, 0)])
    .random()
    .grad(Grad::Compose(PASS_BACK));
