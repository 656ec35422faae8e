//! Parameters and shapes with one number per spatial dimension, for convolution and pooling.

use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::infer::ShapeIo;
use ferromx_core::shape::Shape;
use ferromx_kernels::conv::ConvShape;

/// The tuple parameter `name` for `n` spatial dimensions as (depth, height, width). Dimensions before the last `n`, and all dimensions of
/// an empty tuple, are `default`.
///
/// # Errors
/// If the tuple is neither empty nor has `n` items, or if an item is below `min`.
pub(crate) fn triple(name: &str, tuple: &Shape, n: usize, default: usize, min: i64) -> Result<[usize; 3]> {
    let dims = tuple.dims();
    ensure!(
        dims.is_empty() || dims.len() == n,
        "{name} {tuple} has {} numbers, but there are {n} spatial dimensions",
        dims.len()
    );
    ensure!(dims.iter().all(|d| *d >= min), "{name} {tuple} must have numbers of at least {min}");
    let mut out = [default; 3];
    for (o, d) in out[3 - n..].iter_mut().zip(dims) {
        *o = *d as usize;
    }
    Ok(out)
}

/// The parameters of the windows of a convolution, one number per spatial dimension.
pub(super) struct Windows<'a> {
    pub(super) kernel: &'a Shape,
    pub(super) stride: &'a Shape,
    pub(super) dilate: &'a Shape,
    pub(super) pad: &'a Shape,
}

impl Windows<'_> {
    /// The geometry for data of shape `dims`, (batch, channels, spatial dimensions...). Unknown sizes are 0.
    ///
    /// # Errors
    /// See [`triple`].
    pub(super) fn shape(&self, dims: &[i64], groups: usize, out_channels: usize) -> Result<ConvShape> {
        let n = self.kernel.dims().len();
        let shape = ConvShape {
            batch: dims[0].max(0) as usize,
            groups,
            in_channels: dims[1].max(0) as usize,
            out_channels,
            input: sizes(&dims[2..]),
            kernel: triple("kernel", self.kernel, n, 1, 1)?,
            stride: triple("stride", self.stride, n, 1, 1)?,
            pad: triple("pad", self.pad, n, 0, 0)?,
            dilate: triple("dilate", self.dilate, n, 1, 1)?,
        };
        Ok(shape.with_bounded_strides())
    }
}

/// The first `n` items of a tuple. MXNet ignores extra items of pooling parameters and of `target_shape`.
pub(crate) fn first_items(tuple: &Shape, n: usize) -> Shape {
    Shape::new(&tuple.dims()[..n.min(tuple.dims().len())])
}

/// Up to three spatial sizes as (depth, height, width), with 1 for missing leading dimensions and 0 for unknown sizes.
pub(crate) fn sizes(dims: &[i64]) -> [usize; 3] {
    let mut out = [1; 3];
    let skip = 3 - dims.len().min(3);
    for (o, d) in out[skip..].iter_mut().zip(dims) {
        *o = (*d).max(0) as usize;
    }
    out
}

/// The shape with its last axis moved to axis 1: (batch, ..., channels) becomes (batch, channels, ...).
fn channels_to_front(shape: &Shape) -> Shape {
    let mut shape = shape.clone();
    if let Some(dims) = shape.dims_mut().filter(|d| d.len() > 2) {
        dims[1..].rotate_right(1);
    }
    shape
}

/// The inverse of [`channels_to_front`].
fn channels_to_back(shape: &Shape) -> Shape {
    let mut shape = shape.clone();
    if let Some(dims) = shape.dims_mut().filter(|d| d.len() > 2) {
        dims[1..].rotate_left(1);
    }
    shape
}

/// Infers shapes with channels last by a rule for channels first.
pub(super) fn infer_channels_last(
    io: &mut ShapeIo<'_>,
    infer_channels_first: impl FnOnce(&mut ShapeIo<'_>) -> Result<()>,
) -> Result<()> {
    let mut ins: Vec<Shape> = io.ins.iter().map(channels_to_front).collect();
    let mut outs: Vec<Shape> = io.outs.iter().map(channels_to_front).collect();
    infer_channels_first(&mut ShapeIo { ins: &mut ins, outs: &mut outs })?;
    for (to, from) in io.ins.iter_mut().chain(io.outs.iter_mut()).zip(ins.iter().chain(&outs)) {
        *to = channels_to_back(from);
    }
    Ok(())
}
