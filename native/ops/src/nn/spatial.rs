//! Tuples of one number per spatial dimension, for convolution and pooling.

use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::shape::Shape;

/// The parameter `name` with one number for each of `n` spatial dimensions, padded with leading `default`s to three; an empty tuple is all
/// `default`.
///
/// # Errors
/// A different number of items, or an item below `min`.
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

/// The first `n` numbers of a tuple: for pooling, MXNet ignores the others.
pub(crate) fn first(tuple: &Shape, n: usize) -> Shape {
    Shape::new(&tuple.dims()[..n.min(tuple.dims().len())])
}

/// Spatial sizes, padded with leading ones to three.
pub(crate) fn sizes(dims: &[i64]) -> [usize; 3] {
    let mut out = [1; 3];
    let skip = 3 - dims.len().min(3);
    for (o, d) in out[skip..].iter_mut().zip(dims) {
        *o = (*d).max(0) as usize;
    }
    out
}

/// Moves the last axis to axis 1; a shape of rank 2 or less is unchanged.
pub(crate) fn channels_to_front(shape: &Shape) -> Shape {
    let mut shape = shape.clone();
    if let Some(dims) = shape.dims_mut().filter(|d| d.len() > 2) {
        dims[1..].rotate_right(1);
    }
    shape
}

/// The inverse of [`channels_to_front`].
pub(crate) fn channels_to_back(shape: &Shape) -> Shape {
    let mut shape = shape.clone();
    if let Some(dims) = shape.dims_mut().filter(|d| d.len() > 2) {
        dims[1..].rotate_left(1);
    }
    shape
}
