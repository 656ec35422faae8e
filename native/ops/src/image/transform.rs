//! `_image_to_tensor`, `_image_normalize`, `_image_crop` and flips.

use ferromx_core::dtype::{DType, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Entry, Grad, GradGraph, GradNode};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, Deps, OpCtx, Operator, arg};
use ferromx_core::params::{Params, Tuple};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out, in_out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::{image, movement, rng::Philox};

use super::{check_channels, same_image_shape};
use crate::compose::op;
use crate::elemwise::family::NUMERIC;
use crate::movement::{by_size, source, target};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[
    &TO_TENSOR,
    &NORMALIZE,
    &CROP,
    &FLIP_LEFT_RIGHT,
    &FLIP_TOP_BOTTOM,
    &RANDOM_FLIP_LEFT_RIGHT,
    &RANDOM_FLIP_TOP_BOTTOM,
];

pub(super) static TO_TENSOR: Operator = Operator::new("_image_to_tensor").names_data()
    .aliases(&["_npx__image_to_tensor"])
    .doc(
        "Converts images to network inputs: channels come first, and elements are divided by 255.\n\n\
         Shapes: data (height, width, channels) gives (channels, height, width); data (batch, height, width, channels) gives \
         (batch, channels, height, width). The output is of type float32.",
    )
    .inputs(&[arg("data", "One image, or a batch of them, channels last.")])
    .shape(|_, io| {
        let shape = &io.ins[0];
        let Some(rank) = shape.ndim() else { return Ok(()) };
        ensure!(
            rank == 3 || rank == 4,
            "Input image must have shape (height, width, channels), or (N, height, width, channels) but got {shape}"
        );
        let mut dims: Dims = shape.dims().into();
        dims[rank - 3..].rotate_right(1);
        io.assign_out(0, &Shape::from(dims))
    })
    .dtype(|_, io| io.assign_out(0, DType::F32))
    .forward(|ctx, ins, outs| {
        let dims = ins[0].shape().to_usize();
        let n = dims.len();
        dispatch!(ins[0].dtype(), T in [f32, f64, f16, u8, i8, i32, i64] => {
            image::to_tensor(ins[0].slice::<T>()?, (dims[n - 3] * dims[n - 2], dims[n - 1]), outs[0].slice_mut()?);
            Ok(())
        }, other => Err(ctx.unsupported(other, NUMERIC)))
    })
    .grad(Grad::Compose(to_tensor_grad));

fn to_tensor_grad(g: &mut dyn GradGraph, n: &GradNode<'_>) -> Result<Vec<Option<Entry>>> {
    // Two swaps of adjacent axes move the channels back to the end. Negative axes work with and without a batch axis.
    let moved = g.op(op!(shape::axes::SWAP_AXIS(n.ograds[0]), dim1: -3, dim2: -2))?;
    let moved = g.op(op!(shape::axes::SWAP_AXIS(moved), dim1: -2, dim2: -1))?;
    Ok(vec![Some(g.op(op!(elemwise::scalar::DIV(moved), scalar: 255.0))?)])
}

params! {
    /// Parameters of `_image_normalize`.
    pub struct NormalizeParam {
        /// The mean of each channel, or one for all.
        mean: Tuple<f32> = (Tuple(vec![0.0; 4]));
        /// The standard deviation of each channel, or one for all.
        std: Tuple<f32> = (Tuple(vec![1.0; 4]));
    }
}

pub(super) static NORMALIZE: Operator<NormalizeParam> = Operator::new("_image_normalize").names_data()
    .aliases(&["_npx__image_normalize"])
    .doc(
        "Normalizes the channels of images: output = (data - mean) / std.\n\n\
         Shapes: data (channels, height, width) or (batch, channels, height, width) with 1 or 3 channels; the output has the same \
         shape.",
    )
    .inputs(&[arg("data", "One image, or a batch of them, channels before height and width.")])
    .shape(|p, io| {
        if let Some(rank) = io.ins[0].ndim() {
            let shape = &io.ins[0];
            ensure!(
                rank == 3 || rank == 4,
                "Input tensor must have shape (channels, height, width), or (N, channels, height, width), but got {shape}"
            );
            check_channels(shape, rank - 3)?;
            if shape.dim(rank - 3) > 0 {
                moments(p.get(), shape.dim(rank - 3) as usize)?;
            }
        }
        ferromx_core::infer::same_shape(p, io)
    })
    .forward(|ctx, ins, outs| {
        let moments = input_moments(ctx, &ins[0])?;
        normalize(ctx, &ins[0], &moments, &mut outs[0])
    })
    .inplace(&[(0, 0)])
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            // The gradient is divided by the standard deviation, but no mean is subtracted.
            let mut moments = input_moments(ctx, &ins[0])?;
            moments.iter_mut().for_each(|(mean, _)| *mean = 0.0);
            normalize(ctx, &ins[0], &moments, &mut outs[0])
        })
        .inplace(&[(0, 0)]),
        None,
    ));

/// The mean and the standard deviation of each channel. The default parameters have four elements and fit any number of channels.
fn moments(p: &NormalizeParam, channels: usize) -> Result<Vec<(f32, f32)>> {
    let of = |name: &str, given: &Tuple<f32>, default: f32| -> Result<Vec<f32>> {
        match given.0[..] {
            [one] => Ok(vec![one; channels]),
            _ if given.0.len() == channels => Ok(given.0.clone()),
            _ if given.0 == [default; 4] => Ok(vec![default; channels]),
            _ => Err(Error::Value(format!(
                "{name} must have either 1 or {channels} elements, but it has {}",
                given.0.len()
            ))),
        }
    };
    Ok(of("mean", &p.mean, 0.0)?.into_iter().zip(of("std", &p.std, 1.0)?).collect())
}

/// The moments of the channels of an image or a batch, of shape (channels, height, width) or (batch, channels, height, width).
fn input_moments(ctx: &OpCtx<'_>, input: &In<'_>) -> Result<Vec<(f32, f32)>> {
    let dims = input.shape().to_usize();
    moments(ctx.params(), dims[dims.len() - 3])
}

/// Subtracts the mean of each channel and divides by its standard deviation.
fn normalize(ctx: &OpCtx<'_>, input: &In<'_>, moments: &[(f32, f32)], out: &mut Out<'_>) -> Result<()> {
    if !out.wanted() {
        return Ok(());
    }
    let dims = input.shape().to_usize();
    let n = dims.len();
    dispatch!(input.dtype(), T in [f32, f64, f16, u8, i8, i32, i64] => {
        let (src, dst) = in_out::<T, T>(input, out)?;
        image::normalize(src, dims[n - 2] * dims[n - 1], moments, dst);
        Ok(())
    }, other => Err(ctx.unsupported(other, NUMERIC)))
}

params! {
    /// Parameters of `_image_crop`.
    pub struct CropParam {
        /// The first column.
        x: i32 = required;
        /// The first row.
        y: i32 = required;
        /// The number of columns.
        width: i32 = required;
        /// The number of rows.
        height: i32 = required;
    }
}

pub(super) static CROP: Operator<CropParam> = Operator::new("_image_crop")
    .aliases(&["_npx__image_crop"])
    .doc(
        "Crops images to a rectangle.\n\n\
         Shapes: data ([batch,] height, width, 1 or 3 channels), output with the height and width of the rectangle.",
    )
    .inputs(&[arg("data", "One image, or a batch of them, channels last.")])
    .shape(crop_shape)
    .forward(|ctx, ins, outs| {
        let (begin, dims) = (first_indices(ctx.params(), ins[0].shape()), ins[0].shape().to_usize());
        let out_dims = outs[0].shape().to_usize();
        by_size!(ins[0].dtype(), T => {
            let out = (target::<T>(&mut outs[0])?, &out_dims[..]);
            movement::slice((source::<T>(&ins[0])?, &dims), &begin, &vec![1; dims.len()], out);
        });
        Ok(())
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            if !outs[0].wanted() {
                return Ok(());
            }
            let (begin, dims) = (first_indices(ctx.params(), outs[0].shape()), ins[0].shape().to_usize());
            let out_dims = outs[0].shape().to_usize();
            by_size!(ins[0].dtype(), T => {
                let out = target::<T>(&mut outs[0])?;
                out.fill(T::default());
                movement::slice_assign((source::<T>(&ins[0])?, &dims), &begin, &vec![1; dims.len()], (out, &out_dims));
            });
            Ok(())
        }),
        None,
    ));

fn crop_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<CropParam>();
    let shape = io.ins[0].clone();
    let Some(rank) = shape.ndim() else { return Ok(()) };
    ensure!(rank == 3 || rank == 4, "Image Crop expects inputs of 3D (h, w, c) or 4D (n, h, w, c), but got {shape}");
    check_channels(&shape, rank - 1)?;
    ensure!(p.height > 0 && p.width > 0, "height {} and width {} must be greater than 0", p.height, p.width);
    for (axis, start, len) in [(rank - 3, p.y, p.height), (rank - 2, p.x, p.width)] {
        let end = i64::from(start) + i64::from(len);
        let length = shape.dim(axis);
        ensure!(
            start >= 0 && (length < 0 || end <= length),
            "{start}..{end} is not within axis {axis} of the shape {shape}"
        );
    }
    let mut dims: Dims = shape.dims().into();
    (dims[rank - 3], dims[rank - 2]) = (p.height.into(), p.width.into());
    io.assign_out(0, &Shape::from(dims))
}

/// The first index along each axis: the top left corner of the rectangle.
fn first_indices(p: &CropParam, shape: &Shape) -> Vec<usize> {
    let mut begin = vec![0; shape.dims().len()];
    let n = begin.len();
    (begin[n - 3], begin[n - 2]) = (p.y as usize, p.x as usize);
    begin
}

/// Reverses the elements along an axis, or copies the image.
fn flip(input: &In<'_>, axis: Option<usize>, out: &mut Out<'_>) -> Result<()> {
    let dims = input.shape().to_usize();
    if !out.wanted() {
        return Ok(());
    }
    by_size!(input.dtype(), T => movement::flip(source::<T>(input)?, &dims, axis.as_slice(), target::<T>(out)?));
    Ok(())
}

/// Defines a flip along an axis, and the operator that flips at random.
macro_rules! flips {
    ($NAME:ident: $op:literal, $alias:literal, $RANDOM:ident: $random:literal, $random_alias:literal, $what:literal, $axis:literal) => {
        #[doc = concat!("Exchanges ", $what, " of an image.")]
        pub(crate) static $NAME: Operator = Operator::new($op)
            .aliases(&[$alias])
            .doc(concat!(
                "Exchanges ",
                $what,
                " of an image.\n\n",
                "Shapes: data and output (height, width, 1 or 3 channels)."
            ))
            .inputs(&[arg("data", "The image, channels last.")])
            .shape(|_, io| same_image_shape(io))
            .forward(|_, ins, outs| flip(&ins[0], Some($axis), &mut outs[0]))
            .grad(Grad::Kernel(Backward::new(|_, ins, outs| flip(&ins[0], Some($axis), &mut outs[0])), None));

        #[doc = concat!("Exchanges ", $what, " of an image with a probability of one half.")]
        pub(crate) static $RANDOM: Operator = Operator::new($random)
            .aliases(&[$random_alias])
            .doc(concat!(
                "Exchanges ",
                $what,
                " of an image with a probability of one half.\n\n",
                "Shapes: data and output (height, width, 1 or 3 channels)."
            ))
            .inputs(&[arg("data", "The image, channels last.")])
            .outputs(|_| 2)
            .visible(|_| 1)
            .output_names_by(|_| vec!["output".into(), "flipped".into()])
            .shape(|_, io| {
                io.assign_out(1, &Shape::new(&[1]))?;
                same_image_shape(io)
            })
            .dtype(|_, io| {
                io.assign_out(1, DType::U8)?;
                match io.ins[0].or(io.outs[0]) {
                    Some(d) => io.assign_in(0, d).and_then(|()| io.assign_out(0, d)),
                    None => Ok(()),
                }
            })
            .forward(|ctx, ins, outs| {
                let key = ctx.random.next_key();
                let flipped = Philox::new(key.seed, key.stream).draws(0).uniform() < 0.5;
                if outs[1].wanted() {
                    outs[1].slice_mut::<u8>()?.fill(u8::from(flipped));
                }
                flip(&ins[0], flipped.then_some($axis), &mut outs[0])
            })
            .random()
            .grad(Grad::Kernel(
                Backward::new(|_, ins, outs| {
                    let flipped = ins[1].slice::<u8>()?.first() == Some(&1);
                    flip(&ins[0], flipped.then_some($axis), &mut outs[0])
                })
                .outputs(Deps::Some(&[1])),
                None,
            ));
    };
}

flips!(FLIP_LEFT_RIGHT: "_image_flip_left_right", "_npx__image_flip_left_right",
    RANDOM_FLIP_LEFT_RIGHT: "_image_random_flip_left_right", "_npx__image_random_flip_left_right", "left and right", 1);
flips!(FLIP_TOP_BOTTOM: "_image_flip_top_bottom", "_npx__image_flip_top_bottom",
    RANDOM_FLIP_TOP_BOTTOM: "_image_random_flip_top_bottom", "_npx__image_random_flip_top_bottom", "top and bottom", 0);
