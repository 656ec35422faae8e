//! Views of tensors. While recording, a view of a recorded tensor is recorded as an operator, so that gradients flow through it.

use std::sync::Arc;

use ferromx_core::error::Result;
use ferromx_core::shape::Shape;

use super::calls::call;
use super::mode::is_recording;
use super::tape::Tensor;
use crate::arrays;

fn call_recorded(op: &'static str, attrs: &[(&str, &str)], source: &Arc<Tensor>) -> Result<Arc<Tensor>> {
    let mut outputs = call(op, attrs.iter().copied(), std::slice::from_ref(source), &[])?;
    Ok(outputs.swap_remove(0))
}

fn is_recorded(source: &Tensor) -> bool {
    is_recording() && source.is_recorded()
}

/// Rows `begin..end`.
///
/// # Errors
/// Indices outside the first axis.
pub fn slice(source: &Arc<Tensor>, begin: i64, end: i64) -> Result<Arc<Tensor>> {
    let view = arrays::slice(&source.array()?, begin, end)?;
    if !is_recorded(source) {
        return Ok(Arc::new(Tensor::new(view)));
    }
    if begin == end {
        // `slice_axis` refuses empty ranges.
        let index = format!("({begin},)");
        return call_recorded("slice", &[("begin", &index), ("end", &index)], source);
    }
    let (begin, end) = (begin.to_string(), end.to_string());
    call_recorded("slice_axis", &[("axis", "0"), ("begin", &begin), ("end", &end)], source)
}

/// Row `index`, without the first axis.
///
/// # Errors
/// An index outside the first axis.
pub fn at(source: &Arc<Tensor>, index: i64) -> Result<Arc<Tensor>> {
    let view = arrays::at(&source.array()?, index)?;
    if !is_recorded(source) {
        return Ok(Arc::new(Tensor::new(view)));
    }
    let row = slice(source, index, index + 1)?;
    match view.shape().dims() {
        [] => call_recorded("_np_reshape", &[("newshape", "()")], &row),
        dims => call_recorded("Reshape", &[("shape", &Shape::new(dims).to_string()), ("reverse", "false")], &row),
    }
}

/// A view with another shape, in which the special values of the operator `Reshape` are allowed.
///
/// # Errors
/// Errors of `Reshape`.
pub fn reshape(source: &Arc<Tensor>, dims: &[i64], reverse: bool) -> Result<Arc<Tensor>> {
    if !is_recorded(source) {
        return Ok(Arc::new(Tensor::new(arrays::reshape(&source.array()?, dims, reverse)?)));
    }
    let (shape, reverse) = (Shape::new(dims).to_string(), reverse.to_string());
    call_recorded("Reshape", &[("shape", &shape), ("reverse", &reverse)], source)
}
