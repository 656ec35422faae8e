//! Legacy and numpy shape semantics, per thread, and the conversion of shapes at the boundary.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::shape::{Dims, Shape};

thread_local! {
    static NUMPY_SHAPE: Cell<bool> = const { Cell::new(false) };
}

/// Whether numpy semantics hold on every thread.
static NUMPY_SHAPE_EVERYWHERE: AtomicBool = AtomicBool::new(false);

/// Whether numpy semantics hold on this thread: -1 is an unknown dimension, 0 a dimension without elements.
pub fn is_numpy_shape() -> bool {
    NUMPY_SHAPE.get() || NUMPY_SHAPE_EVERYWHERE.load(Ordering::Relaxed)
}

/// Where numpy semantics hold, as `MXIsNumpyShape` counts: 0 not here, 1 on this thread, 2 on every thread.
pub fn numpy_shape_code() -> i32 {
    match NUMPY_SHAPE_EVERYWHERE.load(Ordering::Relaxed) {
        true => 2,
        false => i32::from(NUMPY_SHAPE.get()),
    }
}

/// Sets where numpy semantics hold by a code of [`numpy_shape_code`]; 0 ends them on this thread and everywhere.
///
/// # Errors
/// Another code.
pub fn set_numpy_shape_code(code: i32) -> Result<()> {
    match code {
        0 => {
            NUMPY_SHAPE.set(false);
            NUMPY_SHAPE_EVERYWHERE.store(false, Ordering::Relaxed);
        }
        1 => NUMPY_SHAPE.set(true),
        2 => NUMPY_SHAPE_EVERYWHERE.store(true, Ordering::Relaxed),
        _ => {
            return Err(Error::Value(format!(
                "numpy shape {code} is unknown: use 0 (off), 1 (on this thread) or 2 (on every thread)"
            )));
        }
    }
    Ok(())
}

/// Sets numpy semantics on this thread and returns what it was before.
pub fn set_numpy_shape(on: bool) -> bool {
    NUMPY_SHAPE.replace(on)
}

/// A shape from outside, by the semantics of this thread; `None` is an unknown rank.
///
/// # Errors
/// A negative dimension (below -1 in numpy semantics).
pub fn shape_from_user(dims: Option<&[i64]>) -> Result<Shape> {
    let Some(dims) = dims else { return Ok(Shape::unknown()) };
    let lowest = if is_numpy_shape() { -1 } else { 0 };
    if let Some(d) = dims.iter().find(|d| **d < lowest) {
        return Err(Error::Value(format!(
            "shape {} has the negative dimension {d}: dimensions are numbers of elements",
            Shape::new(dims)
        )));
    }
    Ok(if is_numpy_shape() { Shape::new(dims) } else { Shape::from_legacy(dims) })
}

/// The shape of an array that is made at a user's request. An array has no unknown dimensions: in the legacy semantics 0 means no
/// elements here, and no dimensions at all make an array of one element, as MXNet's front end uses them.
///
/// # Errors
/// Those of [`shape_from_user`].
pub fn array_shape_from_user(dims: &[i64]) -> Result<Shape> {
    shape_from_user(Some(dims))?;
    Ok(Shape::new(dims))
}

/// A shape for outside, by the semantics of this thread; `None` is an unknown rank in numpy semantics.
pub fn shape_to_user(shape: &Shape) -> Option<Dims> {
    match is_numpy_shape() {
        true => shape.ndim_is_known().then(|| shape.dims().into()),
        false => Some(shape.to_legacy()),
    }
}
