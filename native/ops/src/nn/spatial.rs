//! What convolution and pooling share: tuples of one number per spatial dimension.

use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::shape::Shape;

/// A tuple parameter with one number for each of `n` spatial dimensions, as three numbers with `default` in front; an empty tuple
/// is all `default`.
///
/// # Errors
/// Another number of items, or an item below `lowest`.
pub fn triple(what: &str, tuple: &Shape, n: usize, default: usize, lowest: i64) -> Result<[usize; 3]> {
    let dims = tuple.dims();
    ensure!(
        dims.is_empty() || dims.len() == n,
        "{what} {tuple} has {} numbers, but there are {n} spatial dimensions",
        dims.len()
    );
    ensure!(dims.iter().all(|d| *d >= lowest), "{what} {tuple} must have numbers of {lowest} and above");
    let mut out = [default; 3];
    for (o, d) in out[3 - n..].iter_mut().zip(dims) {
        *o = *d as usize;
    }
    Ok(out)
}

/// The first `n` numbers of a tuple. MXNet does not look at more of pooling's tuples.
pub fn first(tuple: &Shape, n: usize) -> Shape {
    Shape::new(&tuple.dims()[..n.min(tuple.dims().len())])
}

/// Spatial sizes as three numbers with ones in front.
pub fn sizes(dims: &[i64]) -> [usize; 3] {
    let mut out = [1; 3];
    let skip = 3 - dims.len().min(3);
    for (o, d) in out[skip..].iter_mut().zip(dims) {
        *o = (*d).max(0) as usize;
    }
    out
}

/// The shape with its last axis as axis 1; a vector stays as it is.
pub fn channels_to_front(shape: &Shape) -> Shape {
    let mut shape = shape.clone();
    if let Some(dims) = shape.dims_mut().filter(|d| d.len() > 2) {
        dims[1..].rotate_right(1);
    }
    shape
}

/// Undoes [`channels_to_front`].
pub fn channels_to_back(shape: &Shape) -> Shape {
    let mut shape = shape.clone();
    if let Some(dims) = shape.dims_mut().filter(|d| d.len() > 2) {
        dims[1..].rotate_left(1);
    }
    shape
}
