//! `depth_to_space` and `space_to_depth`: rearrangement between channels and blocks of pixels.

use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::op::{AnyOperator, Operator, arg};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::{ensure, params};

use super::axes::permute;
use crate::compose::op;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&DEPTH_TO_SPACE, &SPACE_TO_DEPTH];

params! {
    /// Parameters of `depth_to_space` and `space_to_depth`.
    pub struct DepthToSpaceParam {
        /// Height and width of the blocks of pixels.
        block_size: i32 = required, where 1..=i32::MAX;
    }
}

pub(crate) static DEPTH_TO_SPACE: Operator<DepthToSpaceParam> = Operator::new("depth_to_space")
    .names_data()
    .doc(
        "Rearranges channels into blocks of pixels: (n, b*b*c, h, w) becomes (n, c, b*h, b*w), where \
         out[n, c, b*y + i, b*x + j] = data[n, (b*i + j)*C + c, y, x] with C output channels.",
    )
    .inputs(&[arg("data", "The array, of shape (n, channels, h, w).")])
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
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.op(op!(SPACE_TO_DEPTH(n.ograds[0]), ..n.params.get()))?)])));

pub(crate) static SPACE_TO_DEPTH: Operator<DepthToSpaceParam> = Operator::new("space_to_depth").names_data()
    .doc("Rearranges blocks of pixels into channels: (n, c, b*h, b*w) becomes (n, b*b*c, h, w). The inverse of `depth_to_space`.")
    .inputs(&[arg("data", "The array, of shape (n, channels, h, w).")])
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
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.op(op!(DEPTH_TO_SPACE(n.ograds[0]), ..n.params.get()))?)])));

/// The dimensions (batch, channels, height, width), or `None` if one of them is unknown.
fn image_dims(shape: &Shape) -> Result<Option<Dims>> {
    let Some(rank) = shape.ndim() else { return Ok(None) };
    ensure!(rank == 4, "data must have 4 dimensions (n, channels, height, width), but has shape {shape}");
    Ok(shape.is_known().then(|| shape.dims().into()))
}
