//! Operators on arrays of any storage: by their sparse form where they have one, else through dense arrays.

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::Backward;
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{OpCtx, SparseCall};
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, StorageType};
use ferromx_core::storage::{Req, call_once};
use ferromx_ops::sparse::cast::{assign, to_dense};
use smallvec::SmallVec;

use super::invoke::{Arrays, check_inputs, invoke};
use crate::random;
use crate::symbol::OpCall;

/// A list of arrays of any storage, short as a rule.
pub type Stored = SmallVec<[Array; 4]>;

/// What an array to be made is like.
#[derive(Clone, Debug)]
pub struct Like {
    /// Its shape.
    pub shape: Shape,
    /// Its element type.
    pub dtype: DType,
    /// Its device.
    pub context: Context,
}

/// Runs an operator on arrays of any storage and returns all outputs. The first of them are written to the arrays in `given`,
/// whatever storage those have.
///
/// # Errors
/// Those of [`invoke`], and of the operator's sparse form.
pub fn invoke_stored(
    op: &OpCall,
    context: Option<Context>,
    inputs: &[Array],
    given: &[Array],
    is_train: bool,
) -> Result<Stored> {
    by_storage(op, context, inputs, given, is_train).map_err(|e| op.locate(e, op.name, inputs.len()))
}

fn by_storage(
    op: &OpCall,
    context: Option<Context>,
    inputs: &[Array],
    given: &[Array],
    is_train: bool,
) -> Result<Stored> {
    check_inputs(op, inputs.len())?;
    let types: SmallVec<[StorageType; 6]> = inputs.iter().map(Array::storage_type).collect();
    let form = op.def.sparse.and_then(|form| {
        let storage_type = (form.rule)(&op.params, &types, given.first().map(Array::storage_type))?;
        Some((form, storage_type))
    });
    let context = inputs.first().or(given.first()).map(Array::context).or(context).unwrap_or_default();
    let Some((form, storage_type)) = form else { return through_dense(op, context, inputs, given, is_train) };
    let visible = op.def.num_visible(&op.params);
    let dense = |arrays: &[NDArray]| {
        let mut outputs = Arrays::new();
        invoke(op, Some(context), arrays, &mut outputs, is_train)?;
        outputs.truncate(visible);
        Ok(outputs.into_vec())
    };
    let shapes = infer(op, inputs)?;
    let made = (form.run)(&SparseCall {
        ctx: &OpCtx {
            op: op.name,
            params: &op.params,
            is_train,
            random: random::device(context),
            cache: None,
            context,
        },
        ins: inputs,
        outs: given,
        shapes: &shapes,
        wanted: &vec![true; shapes.len()],
        dense: &dense,
        storage_type,
    })?;
    place(made, given)
}

/// Shapes of the outputs; shapes and types of the inputs are checked.
fn infer(op: &OpCall, inputs: &[Array]) -> Result<Vec<Shape>> {
    let n = op.def.num_outputs(&op.params);
    let mut ins: Vec<Shape> = inputs.iter().map(|a| a.shape().clone()).collect();
    let mut outs = vec![Shape::unknown(); n];
    (op.def.infer_shape)(&op.params, &mut ShapeIo { ins: &mut ins, outs: &mut outs })?;
    let mut ins: Vec<Option<DType>> = inputs.iter().map(|a| Some(a.dtype())).collect();
    (op.def.infer_dtype)(&op.params, &mut DTypeIo { ins: &mut ins, outs: &mut vec![None; n] })?;
    Ok(outs)
}

/// Makes all inputs dense, runs the dense form, and brings outputs and changed inputs into their own storage.
fn through_dense(op: &OpCall, context: Context, inputs: &[Array], given: &[Array], is_train: bool) -> Result<Stored> {
    let arrays = inputs.iter().map(to_dense).collect::<Result<Arrays>>()?;
    let dense_form = |array: &Array| match array {
        Array::Dense(a) => Ok(a.clone()),
        Array::Sparse(a) => NDArray::zeros(a.shape(), a.dtype(), a.context()),
    };
    let mut outputs = given.iter().map(dense_form).collect::<Result<Arrays>>()?;
    invoke(op, Some(context), &arrays, &mut outputs, is_train)?;
    for i in op.def.mutates {
        if let (Some(state @ Array::Sparse(_)), Some(changed)) = (inputs.get(*i), arrays.get(*i)) {
            assign(state, changed.clone().into())?;
        }
    }
    place(outputs.into_iter().map(Array::Dense), given)
}

/// Puts what was made into the arrays that were given for it.
fn place(made: impl IntoIterator<Item = Array>, given: &[Array]) -> Result<Stored> {
    made.into_iter()
        .enumerate()
        .map(|(k, array)| match given.get(k) {
            Some(target) if is_same(target, &array) => Ok(array),
            Some(target) => {
                assign(target, array)?;
                Ok(target.clone())
            }
            None => Ok(array),
        })
        .collect()
}

fn is_same(a: &Array, b: &Array) -> bool {
    match (a, b) {
        (Array::Dense(a), Array::Dense(b)) => {
            std::sync::Arc::ptr_eq(a.chunk(), b.chunk()) && a.byte_range() == b.byte_range()
        }
        (Array::Sparse(a), Array::Sparse(b)) => a.is_same(b),
        _ => false,
    }
}

/// Overwrites an array by a copy of another of its shape and type, whatever their storage.
///
/// # Errors
/// Shapes or types differ.
pub fn write(target: &Array, value: &Array) -> Result<()> {
    match (target, value) {
        (Array::Sparse(to), Array::Sparse(from)) if to.storage_type() == from.storage_type() => to.copy_from(from),
        _ => assign(target, value.clone()),
    }
}

/// Runs the gradient kernel of an operator. `outputs` tells what the gradients are like.
///
/// # Errors
/// Those of the kernel.
pub fn backward_stored(
    op: &OpCall,
    backward: &Backward,
    inputs: &[Array],
    outputs: &[Like],
    wanted: &[bool],
    is_train: bool,
) -> Result<Stored> {
    let context = outputs.first().map(|o| o.context).or(inputs.first().map(Array::context)).unwrap_or_default();
    let ctx =
        OpCtx { op: op.name, params: &op.params, is_train, random: random::device(context), cache: None, context };
    let dense = |arrays: &[NDArray]| {
        let gradients =
            outputs.iter().map(|o| NDArray::empty(&o.shape, o.dtype, o.context)).collect::<Result<Arrays>>()?;
        let requests = wanted.iter().map(|w| if *w { Req::Write } else { Req::Null });
        let outs: SmallVec<[(&NDArray, Req); 4]> = gradients.iter().zip(requests).collect();
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
        let made = (form.run)(&SparseCall {
            ctx: &ctx,
            ins: inputs,
            outs: &[],
            shapes: &shapes,
            wanted,
            dense: &dense,
            storage_type,
        })?;
        return Ok(made.into_iter().collect());
    }
    let arrays = inputs.iter().map(to_dense).collect::<Result<Arrays>>()?;
    Ok(dense(&arrays)?.into_iter().map(Array::Dense).collect())
}
