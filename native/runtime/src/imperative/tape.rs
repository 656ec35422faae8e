//! The tape of autograd: records the operators that run on tensors, with the arrays for their gradients.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use ferromx_core::context::Context;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Cache, Forward};
use ferromx_core::params::{Attrs, Params};
use ferromx_core::sparse::{Array, StorageType};
use ferromx_core::storage::Req;
use ferromx_core::user_op::UserOpInstance;
use ferromx_ops::custom::FunctionParam;
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;

use super::invoke::{Arrays, Invocation};
use super::mode::{is_recording, operator_mode};
use super::stored::{self, Stored};
use crate::profiler;
use crate::symbol::OpCall;

/// The gradient array of a variable, and its request.
#[derive(Clone)]
pub struct GradientRequest {
    /// The array.
    pub array: Arc<Tensor>,
    /// Write, add or null.
    pub req: Req,
}

/// Number of variables and operators that this process has put on the tape. As in MXNet, names on the tape end with these numbers.
static NUM_VARIABLES: AtomicU64 = AtomicU64::new(0);
static NUM_OPERATORS: AtomicU64 = AtomicU64::new(0);

/// A recorded operator.
pub(super) struct TapeNode {
    /// The number in its name.
    pub(super) number: u64,
    /// The number of the first input that is not on the tape; the other such inputs have the next numbers.
    pub(super) first_constant: u64,
    pub(super) op: OpCall,
    pub(super) attrs: Attrs,
    /// The arrays for the gradient; `None` after a backward pass that did not retain the graph.
    pub(super) saved: Mutex<Option<SavedArrays>>,
    /// State that a foreign operator keeps for its gradient.
    pub(super) cache: Option<Arc<Cache>>,
}

/// The inputs and outputs of a recorded operator.
#[derive(Clone)]
pub(super) struct SavedArrays {
    pub(super) inputs: Vec<(Option<TapeEntry>, Array)>,
    pub(super) outputs: Stored,
}

impl TapeNode {
    pub(super) fn new(op: OpCall, attrs: Attrs, saved: SavedArrays, cache: Option<Arc<Cache>>) -> Arc<TapeNode> {
        let number = NUM_OPERATORS.fetch_add(1, Ordering::Relaxed);
        let num_constants = saved.inputs.iter().filter(|(tape, _)| tape.is_none()).count() as u64;
        let first_constant = NUM_VARIABLES.fetch_add(num_constants, Ordering::Relaxed);
        Arc::new(TapeNode { number, first_constant, op, attrs, saved: Mutex::new(Some(saved)), cache })
    }

    pub(super) fn is_freed(&self) -> bool {
        self.saved.lock().is_none()
    }

    /// Frees the arrays and returns the tape entries of the inputs.
    pub(super) fn free(&self) -> impl Iterator<Item = TapeEntry> + use<> {
        let saved = self.saved.lock().take();
        saved.into_iter().flat_map(|saved| saved.inputs).filter_map(|(tape, _)| tape)
    }
}

impl Drop for TapeNode {
    /// Drops the nodes of the inputs iteratively, because recursion would overflow the stack on long tapes.
    fn drop(&mut self) {
        let mut pending: Vec<TapeEntry> = self.free().collect();
        while let Some(tape) = pending.pop() {
            if let TapeEntry::Output(node, _) = tape
                && let Some(node) = Arc::into_inner(node)
            {
                pending.extend(node.free());
            }
        }
    }
}

/// The position of a tensor on the tape.
#[derive(Clone)]
pub(super) enum TapeEntry {
    /// A variable with a gradient request.
    Variable(Arc<Leaf>),
    /// An output of a recorded operator, by index.
    Output(Arc<TapeNode>, u32),
    /// An input of a recorded operator that is not on the tape. It may be a head beside others, as in MXNet.
    Constant(Weak<TapeNode>),
}

impl TapeEntry {
    /// Whether there is no gradient: a backward pass has removed the variable, or freed the saved arrays of the operator, or it is
    /// a constant.
    pub(super) fn is_freed(&self) -> bool {
        match self {
            TapeEntry::Variable(leaf) => leaf.is_removed.load(Ordering::Relaxed),
            TapeEntry::Output(node, _) => node.is_freed(),
            TapeEntry::Constant(_) => true,
        }
    }
}

/// A variable with its gradient.
pub(super) struct Leaf {
    /// The number in its name.
    pub(super) number: u64,
    pub(super) gradient: Mutex<GradientRequest>,
    pub(super) value: Array,
    /// Whether the gradient was computed since the flag was last cleared. Trainers use it to detect stale gradients.
    pub(super) is_fresh: AtomicBool,
    /// Whether a backward pass has removed the variable from the tape, as it does if the request is null.
    pub(super) is_removed: AtomicBool,
}

/// An array with its tape entry; array handles refer to tensors.
#[derive(Default)]
pub struct Tensor {
    data: RwLock<Option<Array>>,
    pub(super) tape: Mutex<Option<TapeEntry>>,
}

impl Tensor {
    /// A tensor that holds an array.
    pub fn new(data: impl Into<Array>) -> Tensor {
        Tensor { data: RwLock::new(Some(data.into())), ..Tensor::default() }
    }

    /// The dense array.
    ///
    /// # Errors
    /// Errors of [`Tensor::stored`]; the array is sparse.
    pub fn array(&self) -> Result<NDArray> {
        match &*self.data.read() {
            Some(Array::Dense(a)) => Ok(a.clone()),
            Some(sparse) => sparse.dense().cloned(),
            None => Err(unwritten()),
        }
    }

    /// The array, dense or sparse.
    ///
    /// # Errors
    /// The tensor was created without an array and no operator has written it yet.
    pub fn stored(&self) -> Result<Array> {
        self.data.read().clone().ok_or_else(unwritten)
    }

    /// The storage type; `None` if there is no array.
    pub fn storage_type(&self) -> Option<StorageType> {
        self.data.read().as_ref().map(Array::storage_type)
    }

    /// Whether the tensor has no array.
    pub fn is_empty(&self) -> bool {
        self.data.read().is_none()
    }

    /// Replaces the array and clears the tape entry.
    pub fn set(&self, data: impl Into<Array>) {
        *self.data.write() = Some(data.into());
        *self.tape.lock() = None;
    }

    /// Assigns value and tape entry of another tensor. An existing array is overwritten in place.
    pub(super) fn assign(&self, other: &Tensor) -> Result<()> {
        match self.stored() {
            Ok(array) => stored::write(&array, &other.stored()?)?,
            Err(_) => self.set(other.stored()?),
        }
        *self.tape.lock() = other.variable_or_output();
        Ok(())
    }

    /// A tensor that shares the memory, but is not on the tape.
    pub fn detach(&self) -> Result<Tensor> {
        self.stored().map(Tensor::new)
    }

    /// The gradient array of a marked variable. After a backward pass that did not retain the graph, a variable with a null request
    /// has none.
    pub fn grad(&self) -> Option<Arc<Tensor>> {
        match self.tape.lock().as_ref().filter(|tape| !tape.is_freed()) {
            Some(TapeEntry::Variable(leaf)) => Some(leaf.gradient.lock().array.clone()),
            _ => None,
        }
    }

    /// The tape entry, unless it is a constant.
    pub(super) fn variable_or_output(&self) -> Option<TapeEntry> {
        self.tape.lock().clone().filter(|tape| !matches!(tape, TapeEntry::Constant(_)))
    }

    /// Whether this is a constant input of an operator that is still on the tape.
    pub(super) fn is_constant_of_tape(&self) -> bool {
        match &*self.tape.lock() {
            Some(TapeEntry::Constant(node)) => node.upgrade().is_some_and(|node| !node.is_freed()),
            _ => false,
        }
    }

    /// Whether the tensor is on the tape, with the arrays for its gradient.
    pub fn is_recorded(&self) -> bool {
        self.tape.lock().as_ref().is_some_and(|tape| !tape.is_freed())
    }

    /// Whether `backward` has written the gradient of this variable since the flag was cleared; `false` if this is not a variable.
    pub fn fresh_gradient(&self) -> bool {
        match &*self.tape.lock() {
            Some(TapeEntry::Variable(leaf)) => leaf.is_fresh.load(Ordering::Relaxed),
            _ => false,
        }
    }

    /// Sets the flag of [`Tensor::fresh_gradient`]; does nothing if this is not a variable.
    pub fn set_fresh_gradient(&self, fresh: bool) {
        if let Some(TapeEntry::Variable(leaf)) = &*self.tape.lock() {
            leaf.is_fresh.store(fresh, Ordering::Relaxed);
        }
    }
}

fn unwritten() -> Error {
    Error::Value("the array is empty: no operator has written it yet".into())
}

/// A list of tensors, inline while it is short.
pub type Tensors = SmallVec<[Arc<Tensor>; 4]>;

/// Marks tensors as variables with gradients.
///
/// # Errors
/// A gradient whose shape differs from its variable.
pub fn mark_variables(variables: &[Arc<Tensor>], gradients: &[GradientRequest]) -> Result<()> {
    for (variable, gradient) in variables.iter().zip(gradients) {
        let (value, grad) = (variable.stored()?, gradient.array.stored()?);
        ensure!(
            value.shape() == grad.shape(),
            "the gradient has shape {}, but its variable has {}",
            grad.shape(),
            value.shape()
        );
        let number = NUM_VARIABLES.fetch_add(1, Ordering::Relaxed);
        let gradient = Mutex::new(gradient.clone());
        let leaf =
            Leaf { number, gradient, value, is_fresh: AtomicBool::new(false), is_removed: AtomicBool::new(false) };
        *variable.tape.lock() = Some(TapeEntry::Variable(Arc::new(leaf)));
    }
    Ok(())
}

/// Collects the arrays of dense operands. Returns false if one is sparse, or the operator has sparse outputs for dense inputs.
fn dense_operands(
    op: &OpCall,
    inputs: &[Arc<Tensor>],
    outputs: &[Arc<Tensor>],
    arrays: &mut Arrays,
    results: &mut Arrays,
) -> Result<bool> {
    if op.def.sparse.is_some_and(|form| (form.from_dense)(&op.params)) {
        return Ok(false);
    }
    for tensor in inputs {
        match &*tensor.data.read() {
            Some(Array::Dense(a)) => arrays.push(a.clone()),
            Some(Array::Sparse(_)) => return Ok(false),
            None => return Err(unwritten().in_operator(op.name, op.name)),
        }
    }
    for tensor in outputs {
        match &*tensor.data.read() {
            Some(Array::Dense(a)) => results.push(a.clone()),
            Some(Array::Sparse(_)) => return Ok(false),
            None => break,
        }
    }
    Ok(true)
}

/// Checks that a recorded operator would not overwrite a tensor on the tape, whose value the gradient needs.
///
/// # Errors
/// An output is on the tape.
pub(crate) fn check_outputs(outputs: &[Arc<Tensor>]) -> Result<()> {
    ensure!(
        !is_recording() || !outputs.iter().any(|t| t.is_recorded()),
        "Assigning to NDArrays that are already in a computational graph will cause undefined behavior when evaluating gradients. \
         Please call backward first to clear the graph or do this out side of a record section. Also note that you cannot use \
         inplace operations like +=, *=, relu(x, out=x), y[idx]=x, etc inside a record section."
    );
    Ok(())
}

/// Runs an operator on tensors and records it if this thread records and an input is on the tape. Returns the visible outputs.
///
/// # Errors
/// Errors of [`invoke`](super::invoke()); an output that is a recorded tensor while recording.
pub fn record(
    op: &OpCall,
    attrs: &Attrs,
    context: Option<Context>,
    inputs: &[Arc<Tensor>],
    outputs: &[Arc<Tensor>],
) -> Result<Tensors> {
    let recorded = is_recording() && inputs.iter().any(|t| t.is_recorded());
    check_outputs(outputs).map_err(|e| e.in_operator(op.name, op.name))?;
    let _measured = profiler::imperative(|| op.profiled_name().into());
    let cache = matches!(op.def.kernels.forward, Forward::Foreign(_)).then(Arc::<Cache>::default);
    let invocation = Invocation { op, context, mode: operator_mode(), cache: cache.as_deref() };
    let visible = op.def.num_visible(&op.params);
    let (mut arrays, mut results) = (Arrays::new(), Arrays::new());
    let (arrays, mut results): (Stored, Stored) = if dense_operands(op, inputs, outputs, &mut arrays, &mut results)? {
        invocation.run(&arrays, &mut results)?;
        if !recorded {
            return Ok(tensors(results.drain(..visible).map(Array::Dense), outputs));
        }
        (arrays.into_iter().map(Array::Dense).collect(), results.into_iter().map(Array::Dense).collect())
    } else {
        let arrays = inputs.iter().map(|t| t.stored()).collect::<Result<Stored>>()?;
        let given: Stored = outputs.iter().map_while(|t| t.stored().ok()).collect();
        let results = invocation.run_stored(&arrays, &given)?;
        (arrays, results)
    };
    let node = recorded.then(|| {
        let saved = SavedArrays { inputs: entries(inputs).zip(arrays).collect(), outputs: results.clone() };
        let node = TapeNode::new(op.clone(), attrs.clone(), saved, cache);
        mark_constants(inputs, &node);
        node
    });
    let tensors = tensors(results.drain(..visible), outputs);
    if let Some(node) = node {
        for (k, tensor) in tensors.iter().enumerate() {
            *tensor.tape.lock() = Some(TapeEntry::Output(node.clone(), k as u32));
        }
    }
    Ok(tensors)
}

fn entries(inputs: &[Arc<Tensor>]) -> impl Iterator<Item = Option<TapeEntry>> {
    inputs.iter().map(|tensor| tensor.variable_or_output())
}

/// Marks the inputs of `node` that are not on the tape as its constants.
fn mark_constants(inputs: &[Arc<Tensor>], node: &Arc<TapeNode>) {
    for tensor in inputs {
        let mut tape = tensor.tape.lock();
        if tape.as_ref().is_none_or(TapeEntry::is_freed) {
            *tape = Some(TapeEntry::Constant(Arc::downgrade(node)));
        }
    }
}

/// The results of an operator as tensors: those in `given`, which get the array if they are empty, then new ones.
fn tensors(results: impl Iterator<Item = Array>, given: &[Arc<Tensor>]) -> Tensors {
    let tensor = |(k, array): (usize, Array)| match given.get(k) {
        Some(tensor) => {
            if tensor.is_empty() {
                tensor.set(array);
            }
            tensor.clone()
        }
        None => Arc::new(Tensor::new(array)),
    };
    results.enumerate().map(tensor).collect()
}

/// Records a foreign function that has run already, if an input is on the tape. `function` computes its gradient.
///
/// # Errors
/// An input or output without an array.
pub fn record_function(
    function: Box<dyn UserOpInstance>,
    inputs: &[Arc<Tensor>],
    outputs: &[Arc<Tensor>],
) -> Result<()> {
    check_outputs(outputs)?;
    let (name, def) = ferromx_ops::registry::find("_CustomFunction")?;
    let params = Params::new(FunctionParam::new(function, inputs.len(), outputs.len()));
    let arrays = outputs.iter().map(|t| t.stored()).collect::<Result<Stored>>()?;
    let values = inputs.iter().map(|t| t.stored()).collect::<Result<Vec<_>>>()?;
    if !inputs.iter().any(|t| t.is_recorded()) {
        return Ok(());
    }
    let saved = SavedArrays { inputs: entries(inputs).zip(values).collect(), outputs: arrays };
    let node = TapeNode::new(OpCall { name, def, params }, Attrs::new(), saved, None);
    mark_constants(inputs, &node);
    for (k, tensor) in outputs.iter().enumerate() {
        *tensor.tape.lock() = Some(TapeEntry::Output(node.clone(), k as u32));
    }
    Ok(())
}

/// A tensor with the same memory that is on the tape, although no gradient flows into it.
pub(crate) fn recorded_constant(tensor: &Tensor) -> Result<Arc<Tensor>> {
    let array = tensor.stored()?;
    let saved = SavedArrays { inputs: vec![(None, array.clone())], outputs: Stored::from_iter([array.clone()]) };
    let node = TapeNode::new(OpCall::new("BlockGrad", &Attrs::new())?, Attrs::new(), saved, None);
    let constant = Tensor::new(array);
    *constant.tape.lock() = Some(TapeEntry::Output(node, 0));
    Ok(Arc::new(constant))
}
