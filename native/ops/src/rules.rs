//! Inference rules and gradients that several families share. Rules for all-equal shapes and types are in
//! [`ferromx_core::infer`].

use ferromx_core::context::Context;
use ferromx_core::dtype::Element;
use ferromx_core::error::Result;
use ferromx_core::grad::{Compose, Entry, GradGraph, GradNode};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{ArgDef, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::Out;

use crate::compose::op;

/// The gradient of an operator that only reshapes its input: the output's gradient, reshaped to the input's shape.
pub(crate) const RESHAPE_BACK: Compose = |g: &mut dyn GradGraph, n: &GradNode<'_>| -> Result<Vec<Option<Entry>>> {
    Ok(vec![Some(g.op(op!(shape::reshape::RESHAPE_LIKE(n.ograds[0], n.inputs[0])))?)])
};

/// The gradient of the identity.
pub(crate) const PASS_BACK: Compose =
    |_: &mut dyn GradGraph, n: &GradNode<'_>| -> Result<Vec<Option<Entry>>> { Ok(vec![Some(n.ograds[0])]) };

/// The first argument of listed gradient operators.
pub(crate) const OUTPUT_GRADIENT: ArgDef = arg("grad", "The gradient of the output.");

/// Infers the only unknown dimension of `shape` from the number of elements of `other`. Does nothing if several dimensions are unknown, or
/// if the number of elements is unknown or not a multiple of the known dimensions.
pub(crate) fn complete_from_size(shape: &mut Shape, other: &Shape) {
    if !other.is_known() {
        return;
    }
    let Ok(total) = other.checked_elements().map(|n| n as i64) else { return };
    let Some(dims) = shape.dims_mut() else { return };
    let unknown: Vec<usize> = (0..dims.len()).filter(|i| dims[*i] < 0).collect();
    let known = dims.iter().filter(|d| **d >= 0).try_fold(1i64, |n, d| n.checked_mul(*d));
    if let ([i], Some(known)) = (&unknown[..], known)
        && known > 0
        && total % known == 0
    {
        let i = *i;
        dims[i] = total / known;
    }
}

/// Type rule: all operands have one type.
pub(crate) fn one_dtype(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    io.first_known().map_or(Ok(()), |d| io.assign_all(d))
}

/// Type rule: the first input and the output have one type, and the other inputs may have any type.
pub(crate) fn first_dtype(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    match io.ins[0].or(io.outs[0]) {
        Some(d) => {
            io.assign_in(0, d)?;
            io.assign_out(0, d)
        }
        None => Ok(()),
    }
}

/// Two inputs, by index, and output 0 have one type.
pub(crate) fn one_dtype_of(io: &mut DTypeIo<'_>, [a, b]: [usize; 2]) -> Result<()> {
    let Some(dtype) = io.ins[a].or(io.ins[b]).or(io.outs[0]) else { return Ok(()) };
    io.assign_in(a, dtype)?;
    io.assign_in(b, dtype)?;
    io.assign_out(0, dtype)
}

/// Shape rule of listed gradient operators: the outputs have the shapes of the inputs, starting at input `first`.
pub(crate) fn shapes_of_inputs(io: &mut ShapeIo<'_>, first: usize) -> Result<()> {
    for k in 0..io.outs.len() {
        let shape = io.ins[first + k].clone();
        io.assign_out(k, &shape)?;
    }
    Ok(())
}

/// A new array of the given elements, for outputs whose shapes depend on the data.
pub(crate) fn new_array<T: Element>(items: &[T], shape: &Shape, context: Context) -> Result<NDArray> {
    let array = NDArray::empty(shape, T::DTYPE, context)?;
    array.copy_from_slice(items)?;
    Ok(array)
}

/// The elements of an output; empty if it is not wanted.
pub(crate) fn slice_if_wanted<'s, T: Element>(out: &'s mut Out<'_>) -> Result<&'s mut [T]> {
    if out.wanted() { out.slice_mut() } else { Ok(&mut []) }
}

/// The gradient of an input that has none, such as an index array or a label: zeros.
pub(crate) fn no_gradient(out: &mut Out<'_>) -> Result<()> {
    if out.wanted() {
        out.bytes_mut()?.fill(0);
    }
    Ok(())
}
