//! Legacy and NumPy shape semantics, per thread, and the conversion of shapes at the API boundary.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::shape::{Dims, Shape};

thread_local! {
    static NUMPY_SHAPE: Cell<bool> = const { Cell::new(false) };
}

/// True if NumPy semantics are on for all threads.
static NUMPY_SHAPE_EVERYWHERE: AtomicBool = AtomicBool::new(false);

/// True if NumPy semantics are on for this thread: -1 is an unknown dimension, and 0 makes a zero-size array.
pub fn is_numpy_shape() -> bool {
    NUMPY_SHAPE.get() || NUMPY_SHAPE_EVERYWHERE.load(Ordering::Relaxed)
}

/// The code of `MXIsNumpyShape` for this thread: 0 off, 1 on for this thread, 2 on for all threads.
pub fn numpy_shape_code() -> i32 {
    match NUMPY_SHAPE_EVERYWHERE.load(Ordering::Relaxed) {
        true => 2,
        false => i32::from(NUMPY_SHAPE.get()),
    }
}

/// Sets NumPy semantics by a code of [`numpy_shape_code`]; 0 turns them off for this thread and globally.
///
/// # Errors
/// An unknown code.
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
                "numpy shape code {code} is unknown: use 0 (off), 1 (this thread) or 2 (all threads)"
            )));
        }
    }
    Ok(())
}

/// Sets NumPy semantics for this thread and returns the old setting.
pub fn set_numpy_shape(on: bool) -> bool {
    NUMPY_SHAPE.replace(on)
}

/// Converts a shape from the API by the semantics of this thread; `None` is an unknown rank.
///
/// # Errors
/// A negative dimension (below -1 in NumPy semantics).
pub fn shape_from_user(dims: Option<&[i64]>) -> Result<Shape> {
    let Some(dims) = dims else { return Ok(Shape::unknown()) };
    let min = if is_numpy_shape() { -1 } else { 0 };
    if let Some(d) = dims.iter().find(|d| **d < min) {
        return Err(Error::Value(format!(
            "shape {} has the negative dimension {d}: dimensions are numbers of elements",
            Shape::new(dims)
        )));
    }
    Ok(if is_numpy_shape() { Shape::new(dims) } else { Shape::from_legacy(dims) })
}

/// Converts the shape of a new array. An array has no unknown dimensions: even in legacy semantics, 0 means no elements here, and an
/// empty shape makes an array of one element, as MXNet's front end expects.
///
/// # Errors
/// See [`shape_from_user`].
pub fn array_shape_from_user(dims: &[i64]) -> Result<Shape> {
    shape_from_user(Some(dims))?;
    Ok(Shape::new(dims))
}

/// Converts a shape for the API by the semantics of this thread; `None` is an unknown rank in NumPy semantics.
pub fn shape_to_user(shape: &Shape) -> Option<Dims> {
    match is_numpy_shape() {
        true => shape.ndim_is_known().then(|| shape.dims().into()),
        false => Some(shape.to_legacy()),
    }
}
