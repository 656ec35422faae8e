//! Runs operators on arrays of any storage type: by their sparse implementation if there is one, else by the dense fallback.

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::Backward;
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::SparseCall;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, StorageType};
use ferromx_core::storage::{Req, call_once};
use ferromx_ops::sparse::cast::{assign, to_dense};
use smallvec::SmallVec;

use super::invoke::{Arrays, check_inputs, invoke};
use crate::passes::infer::shapes_without_inputs;
use crate::symbol::OpCall;

/// A list of arrays of any storage type, inline while it is short.
pub type Stored = SmallVec<[Array; 4]>;

/// An array to write a gradient to.
#[derive(Clone, Debug)]
pub(super) struct ArraySpec {
    /// The shape.
    pub shape: Shape,
    /// The element type.
    pub dtype: DType,
    /// The device.
    pub context: Context,
    /// The array itself, of this shape, type and device; `None` to allocate it.
    pub destination: Option<NDArray>,
}

impl ArraySpec {
    /// The array. Without a destination it is a new one with undefined elements.
    ///
    /// # Errors
    /// Not enough memory.
    pub(super) fn array(&self) -> Result<NDArray> {
        match &self.destination {
            Some(array) => Ok(array.clone()),
            None => NDArray::empty(&self.shape, self.dtype, self.context),
        }
    }
}

/// Runs an operator on arrays of any storage type and returns all outputs. The first of them are written to the arrays in `outputs`,
/// converted to their storage types.
///
/// # Errors
/// Those of [`invoke`] and of the operator's sparse implementation.
pub fn invoke_stored(
    op: &OpCall,
    context: Option<Context>,
    inputs: &[Array],
    outputs: &[Array],
    is_train: bool,
) -> Result<Stored> {
    dispatch_by_storage(op, context, inputs, outputs, is_train).map_err(|e| op.locate(e, op.name, inputs.len()))
}

fn dispatch_by_storage(
    op: &OpCall,
    context: Option<Context>,
    inputs: &[Array],
    outputs: &[Array],
    is_train: bool,
) -> Result<Stored> {
    check_inputs(op, inputs.len())?;
    let types: SmallVec<[StorageType; 6]> = inputs.iter().map(Array::storage_type).collect();
    let form = op.def.sparse.and_then(|form| {
        let storage_type = (form.rule)(&op.params, &types, outputs.first().map(Array::storage_type))?;
        Some((form, storage_type))
    });
    let context = inputs.first().or(outputs.first()).map(Array::context).or(context).unwrap_or_default();
    let Some((form, storage_type)) = form else { return dense_fallback(op, context, inputs, outputs, is_train) };
    let visible = op.def.num_visible(&op.params);
    let dense = |arrays: &[NDArray]| {
        let mut outputs = Arrays::new();
        invoke(op, Some(context), arrays, &mut outputs, is_train)?;
        outputs.truncate(visible);
        Ok(outputs.into_vec())
    };
    let shapes = infer(op, inputs, outputs)?;
    let results = (form.run)(&SparseCall {
        ctx: &op.ctx(context, is_train, None),
        ins: inputs,
        outs: outputs,
        shapes: &shapes,
        wanted: &vec![true; shapes.len()],
        dense: &dense,
        storage_type,
    })?;
    write_outputs(results, outputs)
}

/// Infers the output shapes and checks the inputs.
fn infer(op: &OpCall, inputs: &[Array], outputs: &[Array]) -> Result<Vec<Shape>> {
    let n = op.def.num_outputs(&op.params);
    let mut ins: Vec<Shape> = inputs.iter().map(|a| a.shape().clone()).collect();
    let mut outs = vec![Shape::unknown(); n];
    if inputs.is_empty() {
        // An output array determines the dimensions that the parameters leave unknown.
        outs.iter_mut().zip(outputs).for_each(|(shape, out)| *shape = out.shape().clone());
        shapes_without_inputs(op, &mut outs)?;
    } else {
        (op.def.infer_shape)(&op.params, &mut ShapeIo { ins: &mut ins, outs: &mut outs })?;
    }
    let mut ins: Vec<Option<DType>> = inputs.iter().map(|a| Some(a.dtype())).collect();
    (op.def.infer_dtype)(&op.params, &mut DTypeIo { ins: &mut ins, outs: &mut vec![None; n] })?;
    Ok(outs)
}

/// Converts all inputs to dense arrays, runs the dense kernel, and converts outputs and mutated inputs to their storage types.
fn dense_fallback(
    op: &OpCall,
    context: Context,
    inputs: &[Array],
    outputs: &[Array],
    is_train: bool,
) -> Result<Stored> {
    let arrays = inputs.iter().map(to_dense).collect::<Result<Arrays>>()?;
    let dense_output = |array: &Array| match array {
        Array::Dense(a) => Ok(a.clone()),
        Array::Sparse(a) => NDArray::zeros(a.shape(), a.dtype(), a.context()),
    };
    let mut results = outputs.iter().map(dense_output).collect::<Result<Arrays>>()?;
    invoke(op, Some(context), &arrays, &mut results, is_train)?;
    for i in op.def.mutates {
        if let (Some(state @ Array::Sparse(_)), Some(updated)) = (inputs.get(*i), arrays.get(*i)) {
            assign(state, updated.clone().into())?;
        }
    }
    write_outputs(results.into_iter().map(Array::Dense), outputs)
}

/// Writes results to the arrays in `outputs`; results without an array there stay as they are.
fn write_outputs(results: impl IntoIterator<Item = Array>, outputs: &[Array]) -> Result<Stored> {
    results
        .into_iter()
        .enumerate()
        .map(|(k, array)| match outputs.get(k) {
            Some(target) if is_same_memory(target, &array) => Ok(array),
            Some(target) => {
                assign(target, array)?;
                Ok(target.clone())
            }
            None => Ok(array),
        })
        .collect()
}

/// Whether both are the same elements in memory.
pub(super) fn is_same_memory(a: &Array, b: &Array) -> bool {
    match (a, b) {
        (Array::Dense(a), Array::Dense(b)) => {
            std::sync::Arc::ptr_eq(a.chunk(), b.chunk()) && a.byte_range() == b.byte_range()
        }
        (Array::Sparse(a), Array::Sparse(b)) => a.is_same(b),
        _ => false,
    }
}

/// Overwrites an array with another of equal shape and type and any storage type.
///
/// # Errors
/// Shapes or types differ.
pub(crate) fn write(target: &Array, value: &Array) -> Result<()> {
    match (target, value) {
        (Array::Sparse(to), Array::Sparse(from)) if to.storage_type() == from.storage_type() => to.copy_from(from),
        _ => assign(target, value.clone()),
    }
}

/// Runs the gradient kernel of an operator, sparse or dense. `outputs` specifies the gradients.
///
/// # Errors
/// Those of the kernel.
pub(super) fn backward_stored(
    op: &OpCall,
    backward: &Backward,
    inputs: &[Array],
    outputs: &[ArraySpec],
    wanted: &[bool],
    is_train: bool,
) -> Result<Stored> {
    let context = outputs.first().map(|o| o.context).or(inputs.first().map(Array::context)).unwrap_or_default();
    let ctx = op.ctx(context, is_train, None);
    let dense = |arrays: &[NDArray]| {
        let gradients = outputs.iter().map(ArraySpec::array).collect::<Result<Arrays>>()?;
        let requests = wanted.iter().map(|w| if *w { Req::Write } else { Req::Null });
        let states = backward.updates.iter().filter_map(|i| Some((arrays.get(*i)?, Req::Write)));
        let outs: SmallVec<[(&NDArray, Req); 4]> = gradients.iter().zip(requests).chain(states).collect();
        let ins: SmallVec<[&NDArray; 6]> = arrays.iter().collect();
        call_once(&ins, &outs, |ins, outs| (backward.kernel)(&ctx, ins, outs))?;
        drop(outs);
        Ok(gradients.into_vec())
    };
    let types: SmallVec<[StorageType; 6]> = inputs.iter().map(Array::storage_type).collect();
    if let Some(form) = backward.sparse
        && let Some(storage_type) = (form.rule)(&op.params, &types, None)
    {
        let shapes: Vec<Shape> = outputs.iter().map(|o| o.shape.clone()).collect();
        let results = (form.run)(&SparseCall {
            ctx: &ctx,
            ins: inputs,
            outs: &[],
            shapes: &shapes,
            wanted,
            dense: &dense,
            storage_type,
        })?;
        return Ok(results.into_iter().collect());
    }
    let arrays = inputs.iter().map(to_dense).collect::<Result<Arrays>>()?;
    Ok(dense(&arrays)?.into_iter().map(Array::Dense).collect())
}
