//! Runs operators on arrays of any storage type: by their sparse implementation if there is one, else by the dense fallback.

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::Backward;
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Cache, ForeignFn, Forward, GradientStorage, Mode, OpCtx, SparseCall};
use ferromx_core::params::Attrs;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, StorageType};
use ferromx_core::storage::{Req, call_once};
use ferromx_ops::sparse::cast::{assign, read_dense};
use ferromx_ops::sparse::{add_rows, merged};
use smallvec::SmallVec;

use super::invoke::{Arrays, Invocation, check_inputs, invoke};
use super::mode::unrecorded;
use crate::passes::infer::shapes_without_inputs;
use crate::symbol::OpCall;

/// A list of arrays of any storage type, inline while it is short.
pub type Stored = SmallVec<[Array; 4]>;

/// An array to write a gradient to.
#[derive(Clone, Debug)]
pub(crate) struct ArraySpec {
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
    pub(crate) fn array(&self) -> Result<NDArray> {
        match &self.destination {
            Some(array) => Ok(array.clone()),
            None => NDArray::empty(&self.shape, self.dtype, self.context),
        }
    }
}

/// Runs an operator on arrays of any storage type in inference mode and returns all outputs. The first of them are written to the arrays in
/// `outputs`, converted to their storage types.
///
/// # Errors
/// Errors of [`invoke`] and of the operator's sparse implementation.
pub fn invoke_stored(op: &OpCall, context: Option<Context>, inputs: &[Array], outputs: &[Array]) -> Result<Stored> {
    Invocation { op, context, mode: Mode::Inference, cache: None }.run_stored(inputs, outputs)
}

impl Invocation<'_> {
    /// [`invoke_stored`] for an invocation.
    pub(super) fn run_stored(self, inputs: &[Array], outputs: &[Array]) -> Result<Stored> {
        self.dispatch_by_storage(inputs, outputs).map_err(|e| self.op.locate(e, self.op.name, inputs.len()))
    }

    /// [`run_stored`](Invocation::run_stored) for an operator of a graph, where dense arrays are the common case.
    pub(crate) fn run_node(self, inputs: &[Array], outputs: &[Array]) -> Result<Stored> {
        let makes_sparse = self.op.def.sparse.is_some_and(|form| (form.from_dense)(&self.op.params));
        let dense = |arrays: &[Array]| arrays.iter().map(|a| a.dense().ok().cloned()).collect::<Option<Arrays>>();
        let (Some(ins), Some(mut outs), false) = (dense(inputs), dense(outputs), makes_sparse) else {
            return self.run_stored(inputs, outputs);
        };
        self.run(&ins, &mut outs)?;
        Ok(outs.into_iter().map(Array::Dense).collect())
    }

    fn dispatch_by_storage(self, inputs: &[Array], outputs: &[Array]) -> Result<Stored> {
        let Invocation { op, mode, cache, .. } = self;
        check_inputs(op, inputs.len())?;
        let types: SmallVec<[StorageType; 6]> = inputs.iter().map(Array::storage_type).collect();
        let form = op.def.sparse.and_then(|form| {
            let storage_type = (form.rule)(&op.params, &types, outputs.first().map(Array::storage_type))?;
            Some((form, storage_type))
        });
        let context = inputs.first().or(outputs.first()).map(Array::context).or(self.context).unwrap_or_default();
        let Some((form, storage_type)) = form else {
            return Invocation { context: Some(context), ..self }.dense_fallback(inputs, outputs);
        };
        let visible = op.def.num_visible(&op.params);
        let dense = |arrays: &[NDArray]| {
            let mut outputs = Arrays::new();
            Invocation { op, context: Some(context), mode, cache: None }.run(arrays, &mut outputs)?;
            outputs.truncate(visible);
            Ok(outputs.into_vec())
        };
        let shapes = infer(op, inputs, outputs)?;
        let is_foreign = matches!(op.def.kernels.forward, Forward::Foreign(_));
        let call = SparseCall {
            ctx: &op.ctx(context, mode, cache.filter(|_| is_foreign)),
            ins: inputs,
            outs: outputs,
            shapes: &shapes,
            wanted: &vec![true; shapes.len()],
            dense: &dense,
            storage_type,
        };
        let results = if is_foreign { unrecorded(mode, || (form.run)(&call)) } else { (form.run)(&call) };
        let ordinary = |array: Array| match array.context().for_results() {
            context if context == array.context() => Ok(array),
            context => array.to_context(context),
        };
        write_outputs(results?.into_iter().map(ordinary).collect::<Result<Vec<_>>>()?, outputs)
    }

    /// Converts inputs to dense arrays, runs the dense kernel, and converts outputs and mutated inputs to their storage types.
    fn dense_fallback(self, inputs: &[Array], outputs: &[Array]) -> Result<Stored> {
        let arrays = inputs.iter().map(read_dense).collect::<Result<Arrays>>()?;
        let dense_output = |array: &Array| match array {
            Array::Dense(a) => Ok(a.clone()),
            Array::Sparse(a) => NDArray::zeros(a.shape(), a.dtype(), a.context()),
        };
        let mut results = outputs.iter().map(dense_output).collect::<Result<Arrays>>()?;
        self.run(&arrays, &mut results)?;
        for i in self.op.def.signature.mutates {
            if let (Some(state @ Array::Sparse(_)), Some(updated)) = (inputs.get(*i), arrays.get(*i)) {
                assign(state, updated.clone().into())?;
            }
        }
        write_outputs(results.into_iter().map(Array::Dense), outputs)
    }
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
        (op.def.inference.shape)(&op.params, &mut ShapeIo { ins: &mut ins, outs: &mut outs })?;
    }
    let mut ins: Vec<Option<DType>> = inputs.iter().map(|a| Some(a.dtype())).collect();
    (op.def.inference.dtype)(&op.params, &mut DTypeIo { ins: &mut ins, outs: &mut vec![None; n] })?;
    Ok(outs)
}

/// Writes results to the arrays in `outputs`; results without an array there are returned unchanged.
fn write_outputs(results: impl IntoIterator<Item = Array>, outputs: &[Array]) -> Result<Stored> {
    results
        .into_iter()
        .enumerate()
        .map(|(k, array)| match outputs.get(k) {
            Some(target) if target.is_same_memory(&array) => Ok(array),
            Some(target) => {
                assign(target, array)?;
                Ok(target.clone())
            }
            None => Ok(array),
        })
        .collect()
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

/// Writes a gradient to an array, or adds it, as requested.
///
/// # Errors
/// Lengths or types differ.
pub(crate) fn write_as_requested(target: &Array, req: Req, value: Array) -> Result<()> {
    match (req, target, &value) {
        (Req::Null, ..) => Ok(()),
        (Req::Write | Req::Inplace, ..) if target.is_same_memory(&value) => Ok(()),
        (Req::Write | Req::Inplace, Array::Dense(to), Array::Dense(from)) => to.copy_from(&from.reshape(to.shape())?),
        (Req::Write | Req::Inplace, ..) => write(target, &value),
        (Req::Add, Array::Dense(to), Array::Sparse(rows)) if rows.storage_type() == StorageType::RowSparse => {
            add_rows(to, rows, &|arrays| {
                let mut sum = Arrays::new();
                invoke(&OpCall::new("_grad_add", &Attrs::new())?, None, arrays, &mut sum)?;
                Ok(sum.into_vec())
            })
        }
        (Req::Add, ..) => {
            let add = OpCall::new("_grad_add", &Attrs::new())?;
            invoke_stored(&add, None, &[target.clone(), value], std::slice::from_ref(target)).map(|_| ())
        }
    }
}

/// A gradient node of a graph, with its operands.
pub(crate) struct GradientCall<'a> {
    /// The operator that is differentiated.
    pub op: &'a OpCall,
    /// Its gradient kernel.
    pub backward: &'a Backward,
    /// The inputs of the kernel.
    pub inputs: &'a [Array],
    /// The gradients.
    pub outputs: &'a [ArraySpec],
    /// Whether each gradient has readers; the others may have any content.
    pub wanted: &'a [bool],
    /// The mode in which the gradient is computed.
    pub mode: Mode,
    /// State that the operator keeps for its gradient.
    pub cache: &'a Cache,
}

impl GradientCall<'_> {
    /// Computes the gradients.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(crate) fn run(&self) -> Result<Stored> {
        let types: SmallVec<[StorageType; 6]> = self.inputs.iter().map(Array::storage_type).collect();
        match self.backward.foreign {
            Some(f) => match self.backward.sparse.filter(|form| (form.rule)(&self.op.params, &types, None).is_some()) {
                Some(_) => unrecorded(self.mode, || self.run_kernel()),
                None => self.run_foreign(f),
            },
            None => self.run_kernel(),
        }
    }

    /// Runs the gradient function of a foreign operator.
    fn run_foreign(&self, f: ForeignFn) -> Result<Stored> {
        let ins = self.inputs.iter().map(read_dense).collect::<Result<Arrays>>()?;
        let outs = self.outputs.iter().map(ArraySpec::array).collect::<Result<Arrays>>()?;
        let context = outs.first().or(ins.first()).map(NDArray::context).unwrap_or_default();
        let ctx = self.op.ctx(context, self.mode, Some(self.cache));
        unrecorded(self.mode, || f(&ctx, &ins, &outs, &vec![Req::Write; outs.len()]))?;
        Ok(outs.into_iter().map(Array::Dense).collect())
    }

    /// Runs the gradient kernel, sparse or dense.
    fn run_kernel(&self) -> Result<Stored> {
        let GradientCall { op, backward, inputs, outputs, wanted, mode, cache } = *self;
        let context = outputs.first().map(|o| o.context).or(inputs.first().map(Array::context)).unwrap_or_default();
        let ctx = op.ctx(context, mode, backward.foreign.map(|_| cache));
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
        if op.def.gradient.storage == GradientStorage::OfOperands
            && let Some(first) = types.first().filter(|first| **first != StorageType::Default)
            && types.iter().all(|t| t == first)
        {
            return self.run_on_stored_values(&ctx, *first);
        }
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
        let arrays = inputs.iter().map(read_dense).collect::<Result<Arrays>>()?;
        Ok(dense(&arrays)?.into_iter().map(Array::Dense).collect())
    }

    /// Computes the gradient of an elementwise operator on the stored values of arrays of one storage type.
    fn run_on_stored_values(&self, ctx: &OpCtx<'_>, storage_type: StorageType) -> Result<Stored> {
        let output = &self.outputs[0];
        let dense = |arrays: &[NDArray]| {
            let gradient = NDArray::empty(arrays[0].shape(), output.dtype, ctx.context)?;
            let ins: SmallVec<[&NDArray; 6]> = arrays.iter().collect();
            call_once(&ins, &[(&gradient, Req::Write)], |ins, outs| (self.backward.kernel)(ctx, ins, outs))?;
            Ok(vec![gradient])
        };
        let shapes = [output.shape.clone()];
        let call = SparseCall {
            ctx,
            ins: self.inputs,
            outs: &[],
            shapes: &shapes,
            wanted: self.wanted,
            dense: &dense,
            storage_type,
        };
        Ok(merged(&call)?.into_iter().collect())
    }
}
