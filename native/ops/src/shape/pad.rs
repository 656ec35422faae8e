//! Padding, and rearrangement between channels and blocks of pixels.

use ferromx_core::dtype::{DType, Element, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{OpCtx, OpDef, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, param_enum, params};
use ferromx_kernels::map::Arith;
use ferromx_kernels::map::{Load, Store};
use ferromx_kernels::movement::{self, Padding};
use ferromx_kernels::reduce::NumericLane;

use super::axes::permute;

/// The operators of this file.
pub(crate) static OPS: &[&OpDef] = &[&PAD, &DEPTH_TO_SPACE, &SPACE_TO_DEPTH];

param_enum! {
    /// The values of the padding.
    pub enum PadMode {
        Constant = "constant",
        Edge = "edge",
        Reflect = "reflect",
    }
}

params! {
    /// Parameters of `Pad`.
    pub struct PadParam {
        /// Pad with a constant, with the edge elements, or with the array reflected at its edge elements.
        mode: PadMode = required;
        /// The padding (before, after) of each axis in order; 0 for the first two axes.
        pad_width: Shape = required;
        /// The constant.
        constant_value: f64 = 0.0;
    }
}

pub(crate) static PAD: OpDef = OpDef::new("Pad")
    .legacy()
    .aliases(&["pad"])
    .doc("Pads the spatial axes of an array of 4 or 5 dimensions.")
    .inputs(&[arg("data", "The array to pad, of shape (n, c, h, w) or (n, c, d, h, w) and a floating-point type.")])
    .params::<PadParam>()
    .shape(pad_shape)
    .forward(pad)
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let out = &mut outs[0];
            let dims = out.shape().to_usize();
            let p = ctx.params::<PadParam>();
            dispatch!(ins[0].dtype(), T in [f32, f64, f16] => {
                pad_back::<T, <T as Arith>::Lane>(ins[0].slice()?, &dims, p, out.slice_mut()?);
                Ok(())
            }, d => Err(ctx.unsupported(d, DType::FLOATS)))
        }),
        None,
    ));

/// (before, after) of each axis.
fn widths(p: &PadParam) -> Vec<(usize, usize)> {
    p.pad_width.to_usize().chunks_exact(2).map(|c| (c[0], c[1])).collect()
}

fn pad_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<PadParam>();
    let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
    let pads = p.pad_width.dims();
    ensure!(rank == 4 || rank == 5, "Pad takes arrays of 4 or 5 dimensions, but data has shape {}", io.ins[0]);
    ensure!(pads.len() == 2 * rank, "pad_width={} needs {} numbers: two for each axis", p.pad_width, 2 * rank);
    ensure!(pads.iter().all(|w| *w >= 0), "pad_width={} has a negative number", p.pad_width);
    ensure!(
        pads[..4] == [0; 4],
        "pad_width={} must begin with four zeros: the first two axes cannot be padded",
        p.pad_width
    );
    let mut dims: Dims = io.ins[0].dims().into();
    for (i, (d, w)) in dims.iter_mut().zip(pads.chunks_exact(2)).enumerate() {
        if *d < 0 {
            continue;
        }
        ensure!(
            p.mode != PadMode::Reflect || (w[0] < *d && w[1] < *d) || w == [0, 0],
            "axis {i} of length {d} cannot be padded by reflection with {} and {} elements: give less than its length",
            w[0],
            w[1]
        );
        ensure!(
            p.mode != PadMode::Edge || *d > 0 || w == [0, 0],
            "axis {i} has length 0, so there is no edge element to pad with"
        );
        *d += w[0] + w[1];
    }
    io.assign_out(0, &Shape::from(dims))
}

fn pad(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<PadParam>();
    let dims = ins[0].shape().to_usize();
    if outs[0].is_empty() {
        return Ok(());
    }
    dispatch!(ins[0].dtype(), T in [f32, f64, f16] => {
        let mode = match p.mode {
            PadMode::Constant => Padding::Constant(<T as Element>::from_f64(p.constant_value)),
            PadMode::Edge => Padding::Edge,
            PadMode::Reflect => Padding::Reflect,
        };
        movement::pad(ins[0].slice::<T>()?, &dims, &widths(p), mode, outs[0].slice_mut()?);
        Ok(())
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
}

/// Adds each element of the gradient to the element of `dst` that it was copied from.
fn pad_back<T, C>(grad: &[T], dims: &[usize], p: &PadParam, dst: &mut [T])
where
    C: NumericLane,
    T: Load<C> + Store<C>,
{
    let sources: Vec<Vec<Option<usize>>> = dims
        .iter()
        .zip(widths(p))
        .map(|(&n, (before, after))| (0..before + n + after).map(|i| origin(p.mode, i, before, n)).collect())
        .collect();
    let mut sums = vec![C::ZERO; dst.len()];
    let Some((row, outer)) = sources.split_last() else { return };
    let width = dims[dims.len() - 1];
    for (r, grad) in grad.chunks_exact(row.len().max(1)).enumerate() {
        let (mut rest, mut base, mut stride) = (r, Some(0), width);
        for (axis, n) in outer.iter().zip(dims).rev() {
            base = base.zip(axis[rest % axis.len()]).map(|(base, at)| base + at * stride);
            stride *= n;
            rest /= axis.len();
        }
        let Some(base) = base else { continue };
        for (g, at) in grad.iter().zip(row) {
            if let Some(at) = at {
                sums[base + at] = sums[base + at].plus(g.lane());
            }
        }
    }
    dst.iter_mut().zip(sums).for_each(|(d, s)| *d = T::element(s));
}

/// The index, on the unpadded axis of length `n`, of the element at index `i` of the padded axis; `None` for constant padding.
fn origin(mode: PadMode, i: usize, before: usize, n: usize) -> Option<usize> {
    let at = i as i64 - before as i64;
    let last = n as i64 - 1;
    let at = match mode {
        PadMode::Constant => Some(at).filter(|at| (0..=last).contains(at)),
        PadMode::Edge => Some(at.clamp(0, last.max(0))),
        PadMode::Reflect if at < 0 => Some(-at),
        PadMode::Reflect => Some(if at > last { 2 * last - at } else { at }),
    };
    at.map(|at| at as usize)
}

params! {
    /// Parameters of `depth_to_space` and `space_to_depth`.
    pub struct DepthToSpaceParam {
        /// Height and width of the blocks of pixels.
        block_size: i32 = required, where 1..=i32::MAX;
    }
}

pub(crate) static DEPTH_TO_SPACE: OpDef = OpDef::new("depth_to_space")
    .names_data()
    .doc(
        "Rearranges channels into blocks of pixels: (n, b*b*c, h, w) becomes (n, c, b*h, b*w), where \
         out[n, c, b*y + i, b*x + j] = data[n, (b*i + j)*C + c, y, x] with C output channels.",
    )
    .inputs(&[arg("data", "The array, of shape (n, channels, h, w).")])
    .params::<DepthToSpaceParam>()
    .shape(|p, io| {
        let b = i64::from(p.get::<DepthToSpaceParam>().block_size);
        let Some(mut dims) = image_dims(&io.ins[0])? else { return Ok(()) };
        ensure!(dims[1] % (b * b) == 0, "block_size={b} squared does not divide the channels of {}", io.ins[0]);
        dims[1] /= b * b;
        dims[2] *= b;
        dims[3] *= b;
        io.assign_out(0, &Shape::from(dims))
    })
    .forward(|ctx, ins, outs| {
        let (b, d) = (ctx.params::<DepthToSpaceParam>().block_size as usize, ins[0].shape().to_usize());
        permute(&ins[0], &[d[0], b, b, d[1] / (b * b), d[2], d[3]], &[0, 3, 4, 1, 5, 2], &mut outs[0])
    })
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.apply1("space_to_depth", &n.ograds[..1], n.attrs)?)])));

pub(crate) static SPACE_TO_DEPTH: OpDef = OpDef::new("space_to_depth").names_data()
    .doc("Rearranges blocks of pixels into channels: (n, c, b*h, b*w) becomes (n, b*b*c, h, w). The inverse of `depth_to_space`.")
    .inputs(&[arg("data", "The array, of shape (n, channels, h, w).")])
    .params::<DepthToSpaceParam>()
    .shape(|p, io| {
        let b = i64::from(p.get::<DepthToSpaceParam>().block_size);
        let Some(mut dims) = image_dims(&io.ins[0])? else { return Ok(()) };
        ensure!(
            dims[2] % b == 0 && dims[3] % b == 0,
            "block_size={b} does not divide the height and width of {}",
            io.ins[0]
        );
        dims[1] *= b * b;
        dims[2] /= b;
        dims[3] /= b;
        io.assign_out(0, &Shape::from(dims))
    })
    .forward(|ctx, ins, outs| {
        let (b, d) = (ctx.params::<DepthToSpaceParam>().block_size as usize, ins[0].shape().to_usize());
        permute(&ins[0], &[d[0], d[1], d[2] / b, b, d[3] / b, b], &[0, 3, 5, 1, 2, 4], &mut outs[0])
    })
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.apply1("depth_to_space", &n.ograds[..1], n.attrs)?)])));

/// The dimensions of a batch of images, or `None` if one is unknown.
fn image_dims(shape: &Shape) -> Result<Option<Dims>> {
    let Some(rank) = shape.ndim() else { return Ok(None) };
    ensure!(rank == 4, "data must have 4 dimensions (n, channels, height, width), but has shape {shape}");
    Ok(shape.is_known().then(|| shape.dims().into()))
}
