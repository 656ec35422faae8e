//! `_image_resize`, `_cvimresize` and `_cvcopyMakeBorder`.

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg, array_arg};
use ferromx_core::params::Tuple;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::image::{self, Border, Interpolation};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&IMAGE_RESIZE, &CV_RESIZE, &CV_COPY_MAKE_BORDER];

const TYPES: &[DType] = &[DType::U8, DType::F32, DType::F64];

/// The interpolation for a code of OpenCV.
///
/// # Errors
/// An unknown code.
pub fn interpolation(code: i32) -> Result<Interpolation> {
    Ok(match code {
        0 => Interpolation::Nearest,
        1 => Interpolation::Linear,
        2 => Interpolation::Cubic,
        3 => Interpolation::Area,
        4 => Interpolation::Lanczos,
        _ => {
            return Err(Error::Value(format!(
                "interp {code} is unknown: use 0 (nearest), 1 (bilinear), 2 (bicubic), 3 (area) or 4 (Lanczos)"
            )));
        }
    })
}

/// Resizes images of shape (height, width, channels), or with a batch axis in front.
fn resize(ctx: &OpCtx<'_>, input: &In<'_>, out: &mut Out<'_>, interpolation: Interpolation) -> Result<()> {
    let (from, to) = (input.shape().to_usize(), out.shape().to_usize());
    let n = from.len();
    let shape = (from[n - 3], from[n - 2], from[n - 1]);
    let (image_len, out_image_len) = (shape.0 * shape.1 * shape.2, to[n - 3] * to[n - 2] * to[n - 1]);
    if out_image_len == 0 || out.is_empty() {
        return Ok(());
    }
    ensure!(image_len > 0, "an image without pixels cannot be resized to {}", out.shape());
    dispatch!(input.dtype(), T in [u8, f32, f64] => {
        image::resize(input.slice::<T>()?, shape, (to[n - 3], to[n - 2]), interpolation, out.slice_mut::<T>()?);
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

params! {
    /// Parameters of `_image_resize`.
    pub struct ResizeParam {
        /// The new size: (width, height), or one number for both.
        size: Shape = (Shape::new(&[]));
        /// Whether a single number is the new length of the shorter side, the aspect ratio staying the same.
        keep_ratio: bool = false;
        /// The interpolation: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos.
        interp: i32 = 1;
    }
}

impl ResizeParam {
    /// The new height and width.
    fn size(&self, height: i64, width: i64) -> Result<(i64, i64)> {
        let sizes = self.size.dims();
        ensure!(matches!(sizes.len(), 1 | 2), "Input size dimension must be 1 or 2, but got {}", sizes.len());
        ensure!(sizes.iter().all(|s| *s > 0), "Input width and height should be greater than 0, but got {}", self.size);
        if let [width, height] = *sizes {
            return Ok((height, width));
        }
        let short = sizes[0];
        Ok(match self.keep_ratio {
            false => (short, short),
            true if height < 0 || width < 0 => (-1, -1),
            true if height > width => (short * height / width.max(1), short),
            true => (short, short * width / height.max(1)),
        })
    }
}

pub(super) static IMAGE_RESIZE: Operator<ResizeParam> = Operator::new("_image_resize")
    .aliases(&["_npx__image_resize"])
    .doc(
        "Resizes images. Filters and rounding are OpenCV's.\n\n\
         Shapes: data ([batch,] height, width, channels), output with the new height and width. Not differentiable.",
    )
    .inputs(&[arg("data", "One image, or a batch of them, channels last, of type uint8, float32 or float64.")])
    .shape(|p, io| {
        let p = p.get::<ResizeParam>();
        interpolation(p.interp)?;
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        ensure!(rank == 3 || rank == 4, "Input image dimension should be 3 or 4 but got {rank}");
        let mut dims: Dims = io.ins[0].dims().into();
        (dims[rank - 3], dims[rank - 2]) = p.size(dims[rank - 3], dims[rank - 2])?;
        io.assign_out(0, &Shape::from(dims))
    })
    .forward(|ctx, ins, outs| resize(ctx, &ins[0], &mut outs[0], interpolation(ctx.params::<ResizeParam>().interp)?));

params! {
    /// Parameters of `_cvimresize`.
    pub struct CvResizeParam {
        /// The new width.
        w: i32 = required, where 1..=i32::MAX;
        /// The new height.
        h: i32 = required, where 1..=i32::MAX;
        /// The interpolation: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos.
        interp: i32 = 1;
    }
}

pub(super) static CV_RESIZE: Operator<CvResizeParam> = Operator::new("_cvimresize")
    .aliases(&["_npi_cvimresize"])
    .doc("Resizes an image. Shapes: src (height, width, channels), output (h, w, channels). Not differentiable.")
    .inputs(&[array_arg("src", "The image, channels last, of type uint8, float32 or float64.")])
    .shape(|p, io| {
        let p = p.get::<CvResizeParam>();
        interpolation(p.interp)?;
        let src = &io.ins[0];
        let Some(rank) = src.ndim() else { return Ok(()) };
        ensure!(rank == 3, "src has shape {src}, expected (height, width, channels)");
        io.assign_out(0, &Shape::new(&[p.h.into(), p.w.into(), src.dim(2)]))
    })
    .forward(|ctx, ins, outs| resize(ctx, &ins[0], &mut outs[0], interpolation(ctx.params::<CvResizeParam>().interp)?));

params! {
    /// Parameters of `_cvcopyMakeBorder`.
    pub struct BorderParam {
        /// Rows to add above.
        top: i32 = required;
        /// Rows to add below.
        bot: i32 = required;
        /// Columns to add on the left.
        left: i32 = required;
        /// Columns to add on the right.
        right: i32 = required;
        /// How the border is filled: 0 one color, 1 the edge pixels, 2 the image reflected, 3 the image repeated, 4 reflected
        /// without the edge pixels. 16, which may be added, has no effect.
        kind as "type": i32 = 0;
        /// The color, if `values` is empty.
        value: f64 = 0.0;
        /// The color, one value for each channel.
        values: Tuple<f64> = (Tuple(Vec::new()));
    }
}

pub(super) static CV_COPY_MAKE_BORDER: Operator<BorderParam> = Operator::new("_cvcopyMakeBorder")
    .doc(
        "Adds a border around an image. Shapes: src (height, width, channels), output (top + height + bot, left + width + right, \
         channels). Not differentiable.",
    )
    .inputs(&[array_arg("src", "The image, channels last.")])
    .shape(|p, io| {
        let p = p.get::<BorderParam>();
        let sizes = [p.top, p.bot, p.left, p.right];
        ensure!(sizes.iter().all(|s| *s >= 0), "a border of {sizes:?} (top, bot, left, right) must not be negative");
        let src = &io.ins[0];
        let Some(rank) = src.ndim() else { return Ok(()) };
        ensure!(rank == 3, "src has shape {src}, expected (height, width, channels)");
        let extended = |axis: usize, a: i32, b: i32| match src.dim(axis) {
            ..=-1 => -1,
            n => n + i64::from(a) + i64::from(b),
        };
        let out = Shape::new(&[extended(0, p.top, p.bot), extended(1, p.left, p.right), src.dim(2)]);
        io.assign_out(0, &out)
    })
    .forward(|ctx, ins, outs| {
        dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => border::<T>(ctx, &ins[0], &mut outs[0]),
            other => Err(ctx.unsupported(other, &DType::ALL)))
    })
    .grad(Grad::None);

/// A color as an image has it. As in OpenCV, integers are rounded to nearest, ties to even, and pixels of 8 bits saturate.
fn border_value<T: Element>(color: f64) -> T {
    let rounded = color.round_ties_even();
    let is_int32 = (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&rounded);
    let int32 = if is_int32 { rounded } else { f64::from(i32::MIN) };
    T::from_f64(match T::DTYPE {
        DType::U8 => int32.clamp(0.0, f64::from(u8::MAX)),
        DType::I8 => int32.clamp(f64::from(i8::MIN), f64::from(i8::MAX)),
        DType::I32 => int32,
        DType::I64 => rounded,
        _ => color,
    })
}

/// The bit of OpenCV's border types that ignores what lies around a region of interest; an image is not a region of another one.
const BORDER_ISOLATED: i32 = 16;

fn border<T: Element>(ctx: &OpCtx<'_>, input: &In<'_>, out: &mut Out<'_>) -> Result<()> {
    let p = ctx.params::<BorderParam>();
    let kind = match p.kind & !BORDER_ISOLATED {
        0 => Border::Constant,
        1 => Border::Replicate,
        2 => Border::Reflect,
        3 => Border::Wrap,
        4 => Border::Mirror,
        other => {
            return Err(Error::Value(format!(
                "border type {other} is unknown: use 0 (constant), 1 (replicate), 2 (reflect), 3 (wrap) or 4 (reflect without the edge)"
            )));
        }
    };
    let (dims, width) = (input.shape().to_usize(), out.shape().dim(1) as usize);
    let color = |channel: usize| match &p.values.0[..] {
        [] => p.value,
        values => values.get(channel).copied().unwrap_or(0.0),
    };
    let color: Vec<T> = (0..dims[2]).map(|c| border_value(color(c))).collect();
    let corner = (p.top as usize, p.left as usize);
    if color.is_empty() || out.is_empty() {
        return Ok(());
    }
    let is_empty = dims[0] == 0 || dims[1] == 0;
    ensure!(
        !is_empty || kind == Border::Constant,
        "a border of type {} needs pixels to copy, but the image has none: use type 0",
        p.kind
    );
    image::add_border(input.slice::<T>()?, (dims[0], dims[1]), corner, kind, &color, (out.slice_mut()?, width));
    Ok(())
}
