//! The tape of autograd: records the operators that run, and computes gradients of their results.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ferromx_core::context::Context;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Cache, Forward};
use ferromx_core::params::{Attrs, Params};
use ferromx_core::sparse::{Array, StorageType};
use ferromx_core::storage::{Chunk, Req};
use ferromx_core::user_op::UserOpInstance;
use ferromx_ops::custom::FunctionParam;
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;

use super::failures;
use super::invoke::{Arrays, invoke_with};
use super::stored::{self, GradientCall, Stored};
use crate::arrays::zeros_like;
use crate::graph::{Action, Graph, entry};
use crate::passes::gradient::{Request, gradient};
use crate::profiler;
use crate::symbol::{Node, NodeAttrs, NodeEntry, OpCall, Symbol};

thread_local! {
    static RECORDING: Cell<bool> = const { Cell::new(false) };
    static TRAINING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread records operators.
pub fn is_recording() -> bool {
    RECORDING.get()
}

/// Switches recording on this thread on or off and returns the previous state.
pub fn set_recording(on: bool) -> bool {
    RECORDING.replace(on)
}

/// Whether operators on this thread run in training mode.
pub fn is_training() -> bool {
    TRAINING.get()
}

/// Switches training mode on this thread on or off and returns the previous state.
pub fn set_training(on: bool) -> bool {
    TRAINING.replace(on)
}

/// Runs a foreign function or another graph within an operator: without recording, and in the training mode of the operator.
pub(crate) fn unrecorded<R>(is_train: bool, f: impl FnOnce() -> R) -> R {
    in_mode(false, is_train, f)
}

/// Runs `f` with recording and training mode as given.
fn in_mode<R>(record: bool, is_train: bool, f: impl FnOnce() -> R) -> R {
    struct Restore(bool, bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            RECORDING.set(self.0);
            TRAINING.set(self.1);
        }
    }
    let _restore = Restore(set_recording(record), set_training(is_train));
    f()
}

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
struct TapeNode {
    /// The number in its name.
    number: u64,
    /// The number of the first input that is not on the tape; the other such inputs have the next numbers.
    first_constant: u64,
    op: OpCall,
    attrs: Attrs,
    /// The arrays for the gradient; `None` after a backward pass that did not retain the graph.
    saved: Mutex<Option<SavedArrays>>,
    /// State that a foreign operator keeps for its gradient.
    cache: Option<Arc<Cache>>,
}

/// The inputs and outputs of a recorded operator.
#[derive(Clone)]
struct SavedArrays {
    inputs: Vec<(Option<TapeEntry>, Array)>,
    outputs: Stored,
}

impl TapeNode {
    fn new(op: OpCall, attrs: Attrs, saved: SavedArrays, cache: Option<Arc<Cache>>) -> Arc<TapeNode> {
        let number = NUM_OPERATORS.fetch_add(1, Ordering::Relaxed);
        let num_constants = saved.inputs.iter().filter(|(tape, _)| tape.is_none()).count() as u64;
        let first_constant = NUM_VARIABLES.fetch_add(num_constants, Ordering::Relaxed);
        Arc::new(TapeNode { number, first_constant, op, attrs, saved: Mutex::new(Some(saved)), cache })
    }

    fn is_freed(&self) -> bool {
        self.saved.lock().is_none()
    }

    /// Frees the arrays and returns the tape entries of the inputs.
    fn free(&self) -> impl Iterator<Item = TapeEntry> + use<> {
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
enum TapeEntry {
    /// A variable with a gradient request.
    Variable(Arc<Leaf>),
    /// An output of a recorded operator, by index.
    Output(Arc<TapeNode>, u32),
}

impl TapeEntry {
    /// Whether the saved arrays of its operator were freed.
    fn is_freed(&self) -> bool {
        matches!(self, TapeEntry::Output(node, _) if node.is_freed())
    }
}

/// A variable with its gradient.
struct Leaf {
    /// The number in its name.
    number: u64,
    gradient: Mutex<GradientRequest>,
    value: Array,
    /// Whether the gradient was computed since the flag was last cleared. Trainers use it to detect stale gradients.
    is_fresh: AtomicBool,
}

/// An array with its tape entry; array handles refer to tensors.
#[derive(Default)]
pub struct Tensor {
    data: RwLock<Option<Array>>,
    tape: Mutex<Option<TapeEntry>>,
}

impl Tensor {
    /// A tensor that holds an array.
    pub fn new(data: impl Into<Array>) -> Tensor {
        Tensor { data: RwLock::new(Some(data.into())), ..Tensor::default() }
    }

    /// The dense array.
    ///
    /// # Errors
    /// Those of [`Tensor::stored`]; the array is sparse.
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
        *self.tape.lock() = other.tape.lock().clone();
        Ok(())
    }

    /// A tensor that shares the memory, but is not on the tape.
    pub fn detach(&self) -> Result<Tensor> {
        self.stored().map(Tensor::new)
    }

    /// The gradient array of a marked variable.
    pub fn grad(&self) -> Option<Arc<Tensor>> {
        match &*self.tape.lock() {
            Some(TapeEntry::Variable(leaf)) => Some(leaf.gradient.lock().array.clone()),
            _ => None,
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

    /// Zeroes the gradient of a variable if its request is to write and `backward` has not written it since the flag was cleared.
    ///
    /// # Errors
    /// The gradient array is empty.
    pub fn zero_stale_gradient(&self) -> Result<()> {
        let tape = self.tape.lock().clone();
        let Some(TapeEntry::Variable(leaf)) = tape.filter(|_| !self.fresh_gradient()) else { return Ok(()) };
        let gradient = leaf.gradient.lock();
        if !matches!(gradient.req, Req::Write | Req::Inplace) {
            return Ok(());
        }
        let array = gradient.array.stored()?;
        stored::write(&array, &zeros_like(&array)?)
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
        let leaf = Leaf { number, gradient, value, is_fresh: AtomicBool::new(false) };
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
/// Those of [`invoke`](super::invoke()); an output that is a recorded tensor while recording.
pub fn record(
    op: &OpCall,
    attrs: &Attrs,
    context: Option<Context>,
    inputs: &[Arc<Tensor>],
    outputs: &[Arc<Tensor>],
) -> Result<Tensors> {
    let recorded = is_recording() && inputs.iter().any(|t| t.is_recorded());
    check_outputs(outputs).map_err(|e| e.in_operator(op.name, op.name))?;
    let _measured = profiler::imperative(op.title());
    let cache = matches!(op.def.forward, Forward::Foreign(_)).then(Arc::<Cache>::default);
    let visible = op.def.num_visible(&op.params);
    let (mut arrays, mut results) = (Arrays::new(), Arrays::new());
    let (arrays, mut results): (Stored, Stored) = if dense_operands(op, inputs, outputs, &mut arrays, &mut results)? {
        invoke_with(op, context, &arrays, &mut results, is_training(), cache.as_deref())?;
        if !recorded {
            return Ok(tensors(results.drain(..visible).map(Array::Dense), outputs));
        }
        (arrays.into_iter().map(Array::Dense).collect(), results.into_iter().map(Array::Dense).collect())
    } else {
        let arrays = inputs.iter().map(|t| t.stored()).collect::<Result<Stored>>()?;
        let given: Stored = outputs.iter().map_while(|t| t.stored().ok()).collect();
        let results = stored::invoke_stored_with(op, context, &arrays, &given, is_training(), cache.as_deref())?;
        (arrays, results)
    };
    let node = recorded.then(|| {
        let inputs = inputs.iter().map(|t| t.tape.lock().clone()).zip(arrays).collect();
        TapeNode::new(op.clone(), attrs.clone(), SavedArrays { inputs, outputs: results.clone() }, cache)
    });
    let tensors = tensors(results.drain(..visible), outputs);
    if let Some(node) = node {
        for (k, tensor) in tensors.iter().enumerate() {
            *tensor.tape.lock() = Some(TapeEntry::Output(node.clone(), k as u32));
        }
    }
    Ok(tensors)
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
    let inputs = inputs.iter().map(|t| t.tape.lock().clone()).zip(values).collect();
    let op = OpCall { name, def, params };
    let node = TapeNode::new(op, Attrs::new(), SavedArrays { inputs, outputs: arrays }, None);
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

/// The recorded operators as a graph, with the values of its entries.
#[derive(Default)]
struct TapeGraph {
    graph: Graph,
    values: HashMap<Entry, Array>,
    nodes: HashMap<*const TapeNode, (u32, Arc<TapeNode>)>,
    leaves: HashMap<*const Leaf, (Entry, Arc<Leaf>)>,
    /// The numbers of inputs that are not on the tape, by node.
    constants: HashMap<u32, u64>,
}

impl TapeGraph {
    fn leaf(&mut self, leaf: &Arc<Leaf>) -> Entry {
        if let Some((e, _)) = self.leaves.get(&Arc::as_ptr(leaf)) {
            return *e;
        }
        let e = self.graph.variable("variable", Attrs::new());
        self.values.insert(e, leaf.value.clone());
        self.leaves.insert(Arc::as_ptr(leaf), (e, leaf.clone()));
        e
    }

    fn constant(&mut self, value: &Array) -> Entry {
        let e = self.graph.variable("constant", Attrs::new());
        self.values.insert(e, value.clone());
        e
    }

    /// The graph entry of a tape entry, if its operator is in the graph.
    fn entry_of(&mut self, tape: &TapeEntry) -> Option<Entry> {
        match tape {
            TapeEntry::Variable(leaf) => Some(self.leaf(leaf)),
            TapeEntry::Output(node, k) => Some(entry(self.nodes.get(&Arc::as_ptr(node))?.0 as usize, *k as usize)),
        }
    }

    /// Adds the operators that `head` depends on, in topological order, and returns its entry.
    fn add(&mut self, head: &TapeEntry) -> Result<Entry> {
        let mut stack = vec![head.clone()];
        while let Some(top) = stack.last() {
            let TapeEntry::Output(node, _) = top.clone() else {
                stack.pop();
                continue;
            };
            if self.nodes.contains_key(&Arc::as_ptr(&node)) {
                stack.pop();
                continue;
            }
            let Some(saved) = node.saved.lock().clone() else {
                stack.pop();
                continue;
            };
            let is_pending = |tape: &TapeEntry| match tape {
                TapeEntry::Output(n, _) => !self.nodes.contains_key(&Arc::as_ptr(n)) && !n.is_freed(),
                TapeEntry::Variable(_) => false,
            };
            let pending_inputs: Vec<TapeEntry> =
                saved.inputs.iter().filter_map(|(t, _)| t.clone()).filter(is_pending).collect();
            if !pending_inputs.is_empty() {
                stack.extend(pending_inputs);
                continue;
            }
            let mut inputs = Vec::with_capacity(saved.inputs.len());
            let mut numbers = node.first_constant..;
            for (tape, value) in &saved.inputs {
                let number = if tape.is_none() { numbers.next() } else { None };
                let recorded = tape.as_ref().and_then(|t| self.entry_of(t));
                inputs.push(recorded.unwrap_or_else(|| self.constant(value)));
                self.constants.extend(number.zip(inputs.last()).map(|(number, e)| (e.node, number)));
            }
            let first = self.graph.push(node.op.title(), Action::Forward(node.op.clone()), inputs, node.attrs.clone());
            if let Some(cache) = &node.cache {
                self.graph.nodes[first.node as usize].cache = cache.clone();
            }
            for (k, value) in saved.outputs.iter().enumerate() {
                self.values.insert(entry(first.node as usize, k), value.clone());
            }
            self.nodes.insert(Arc::as_ptr(&node), (first.node, node));
            stack.pop();
        }
        self.entry_of(head).ok_or_else(|| Error::Internal("a recorded operator is missing".into()))
    }
}

/// The recorded computation of a tensor as a symbol. As in MXNet, variables are named `var0`, `var1`, ... in the order in which they were
/// marked, operators `node_0`, `node_1`, ... in the order in which they were recorded. Inputs that are not on the tape share the numbers of
/// variables and are named `null0`, `null1`, ...
///
/// # Errors
/// The tensor was not recorded.
pub fn symbol_of(tensor: &Tensor) -> Result<Symbol> {
    let tape = tensor.tape.lock().clone();
    let tape = tape.ok_or_else(|| {
        Error::value("NDArray is not part of a computation graph. Did you forget to turn on recording?")
    })?;
    let mut recorded = TapeGraph::default();
    let head = recorded.add(&tape)?;
    let variables = recorded.leaves.values().map(|(e, leaf)| (e.node, format!("var{}", leaf.number)));
    let operators = recorded.nodes.values().map(|(i, node)| (*i, format!("node_{}", node.number)));
    let constants = recorded.constants.iter().map(|(i, number)| (*i, format!("null{number}")));
    let mut names: HashMap<u32, String> = variables.chain(operators).chain(constants).collect();
    let mut nodes: Vec<Arc<Node>> = Vec::new();
    for (i, node) in recorded.graph.nodes.iter().enumerate() {
        let inputs =
            node.inputs.iter().map(|e| NodeEntry { node: nodes[e.node as usize].clone(), index: e.index }).collect();
        let op = match &node.action {
            Action::Forward(op) => Some(op.clone()),
            _ => None,
        };
        let name = names.remove(&(i as u32)).unwrap_or_else(|| "null".into());
        let attrs = NodeAttrs::new(Attrs::clone(&node.attrs));
        nodes.push(Arc::new(Node { name, op, inputs, graphs: Vec::new(), attrs }));
    }
    Ok(Symbol::of_entry(NodeEntry { node: nodes[head.node as usize].clone(), index: head.index }))
}

/// The part of the tape that a backward pass retains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing: the saved arrays are freed, and a second backward pass is an error.
    Nothing,
    /// The recorded operators.
    Graph,
    /// The recorded operators and the operators of the gradients, for higher-order gradients.
    Gradients,
}

/// Computes the gradients of `heads`. They are written to the gradient arrays of all marked variables, or returned for `variables` if
/// any are given. A head gradient of `None` means ones.
///
/// # Errors
/// A head that was not recorded; a variable that does not influence the heads; operators without gradients.
pub fn backward(
    heads: &[Arc<Tensor>],
    head_grads: &[Option<Arc<Tensor>>],
    variables: &[Arc<Tensor>],
    keep: Keep,
    is_train: bool,
) -> Result<Vec<Arc<Tensor>>> {
    let create_graph = keep == Keep::Gradients;
    let mut recorded = TapeGraph::default();
    let mut head_entries = Vec::new();
    for (i, head) in heads.iter().enumerate() {
        let tape = head.tape.lock().clone().filter(|tape| !tape.is_freed()).ok_or_else(|| {
            Error::Value(format!(
                "Cannot differentiate node because it is not in a computational graph. You need to set is_recording to true or use \
                 autograd.record() to save computational graphs for backward. If you want to differentiate the same graph twice, you \
                 need to pass retain_graph=True to backward. (head {i})"
            ))
        })?;
        head_entries.push(recorded.add(&tape)?);
    }
    let mut head_grad_entries = Vec::new();
    for (i, head) in heads.iter().enumerate() {
        let value = match head_grads.get(i).cloned().flatten() {
            Some(given) => given.stored()?,
            None => ones_like(&head.stored()?)?,
        };
        let shape = head.stored()?.shape().clone();
        ensure!(*value.shape() == shape, "head gradient {i} has shape {}, but the head has {shape}", value.shape());
        head_grad_entries.push(recorded.constant(&value));
    }
    let targets: Vec<(Entry, Arc<Leaf>)> = match variables.is_empty() {
        true => recorded.leaves.values().filter(|(_, leaf)| leaf.gradient.lock().req != Req::Null).cloned().collect(),
        false => variables.iter().map(|v| find_target(&recorded, v)).collect::<Result<_>>()?,
    };
    let mut targets = targets;
    if variables.is_empty() {
        targets.sort_by_key(|(e, _)| *e);
    }
    let target_entries: Vec<Entry> = targets.iter().map(|(e, _)| *e).collect();
    ensure!(!targets.is_empty(), "There are no inputs in computation graph that require gradients.");
    let TapeGraph { mut graph, values, leaves, nodes, .. } = recorded;
    let request =
        Request { heads: &head_entries, head_grads: &head_grad_entries, variables: &target_entries, create_graph };
    let entries = gradient(&mut graph, &request)?;
    let destinations = match variables.is_empty() && !create_graph {
        true => destinations(&targets, &entries, &values),
        false => HashMap::new(),
    };
    let mut tensors = Evaluator::new(&graph, values, leaves, create_graph);
    tensors.destinations = destinations;
    tensors.run(entries.iter().flatten().copied(), is_train)?;
    let mut results = Vec::new();
    for ((_, leaf), e) in targets.iter().zip(entries) {
        let value = match e {
            Some(e) => tensors.tensor(e)?,
            None => {
                let value = &leaf.value;
                let zeros = match variables.is_empty() {
                    true => zeros_like(&leaf.gradient.lock().array.stored()?)?,
                    false => NDArray::zeros(value.shape(), value.dtype(), value.context())?.into(),
                };
                Arc::new(Tensor::new(zeros))
            }
        };
        if variables.is_empty() {
            write_gradient(leaf, &value)?;
        } else {
            results.push(value);
        }
    }
    if keep == Keep::Nothing {
        nodes.into_values().for_each(|(_, node)| drop(node.free()));
    }
    Ok(results)
}

fn find_target(recorded: &TapeGraph, variable: &Arc<Tensor>) -> Result<(Entry, Arc<Leaf>)> {
    match &*variable.tape.lock() {
        Some(TapeEntry::Variable(leaf)) => recorded.leaves.get(&Arc::as_ptr(leaf)).cloned().ok_or_else(|| {
            Error::Value("a variable does not influence the heads, so there is no gradient with respect to it".into())
        }),
        _ => Err(Error::Value("a gradient was requested with respect to an array without an attached gradient".into())),
    }
}

/// The gradient arrays that kernels can write without a copy, by the entry of the gradient: those that are written rather than added
/// to, and whose memory no other gradient and no array on the tape uses.
fn destinations(
    targets: &[(Entry, Arc<Leaf>)],
    entries: &[Option<Entry>],
    values: &HashMap<Entry, Array>,
) -> HashMap<Entry, NDArray> {
    let dense = |array: &Array| array.dense().ok().cloned();
    let arrays: Vec<(Entry, NDArray)> = targets
        .iter()
        .zip(entries)
        .filter_map(|((_, leaf), e)| {
            let gradient = leaf.gradient.lock();
            let array = dense(&gradient.array.stored().ok()?)?;
            let fits = *array.shape() == *leaf.value.shape() && array.dtype() == leaf.value.dtype();
            let is_written = matches!(gradient.req, Req::Write | Req::Inplace);
            (is_written && fits && array.context() == leaf.value.context()).then_some(((*e)?, array))
        })
        .collect();
    let mut uses: HashMap<*const Chunk, usize> = HashMap::new();
    let on_tape = values.values().filter_map(dense);
    for array in arrays.iter().map(|(_, array)| array.clone()).chain(on_tape) {
        *uses.entry(Arc::as_ptr(array.chunk())).or_default() += 1;
    }
    arrays.into_iter().filter(|(_, array)| uses[&Arc::as_ptr(array.chunk())] == 1).collect()
}

/// Writes a gradient to the gradient array of its variable, or adds it, as requested.
fn write_gradient(leaf: &Leaf, value: &Tensor) -> Result<()> {
    let gradient = leaf.gradient.lock();
    let (target, value) = (gradient.array.stored()?, value.stored()?);
    if let (Array::Dense(to), Array::Dense(from)) = (&target, &value)
        && let Some(failure) = failures::find([to, from])
        && gradient.req != Req::Null
    {
        leaf.is_fresh.store(true, Ordering::Relaxed);
        failures::mark([to], &failure);
        return Ok(());
    }
    if gradient.req == Req::Null {
        return Ok(());
    }
    stored::write_as_requested(&target, gradient.req, value)?;
    leaf.is_fresh.store(true, Ordering::Relaxed);
    Ok(())
}

/// Runs a gradient kernel. If it fails and errors are deferred, the gradients are zeros that depend on the failure.
fn run_deferring_errors(
    inputs: &[Array],
    gradients: &[stored::ArraySpec],
    f: impl FnOnce() -> Result<Stored>,
) -> Result<Stored> {
    let mut results = Stored::new();
    let failure = failures::run_or_defer(inputs.iter().filter_map(|a| a.dense().ok()), || {
        results = f()?;
        Ok(())
    })?;
    let Some(failure) = failure else { return Ok(results) };
    let placeholders =
        gradients.iter().map(|o| NDArray::zeros(&o.shape, o.dtype, o.context)).collect::<Result<Arrays>>()?;
    failures::mark(&placeholders, &failure);
    Ok(placeholders.into_iter().map(Array::Dense).collect())
}

fn ones_like(array: &Array) -> Result<Array> {
    let op = OpCall::new("ones_like", &Attrs::new())?;
    let mut out = stored::invoke_stored(&op, None, std::slice::from_ref(array), &[], false)?;
    out.pop().ok_or_else(|| Error::Internal("ones_like has no output".into()))
}

/// Runs the gradient nodes of a graph one by one, recording them for higher-order gradients.
struct Evaluator<'g> {
    graph: &'g Graph,
    tensors: HashMap<Entry, Arc<Tensor>>,
    /// The arrays that gradients are written to. The others get arrays of their own.
    destinations: HashMap<Entry, NDArray>,
    /// The entries that a node reads, and the targets.
    live: HashSet<Entry>,
    /// Whether the gradients are recorded.
    is_recording: bool,
}

impl<'g> Evaluator<'g> {
    fn new(
        graph: &'g Graph,
        values: HashMap<Entry, Array>,
        leaves: HashMap<*const Leaf, (Entry, Arc<Leaf>)>,
        is_recording: bool,
    ) -> Evaluator<'g> {
        let mut tensors: HashMap<Entry, Arc<Tensor>> =
            values.into_iter().map(|(e, v)| (e, Arc::new(Tensor::new(v)))).collect();
        if is_recording {
            for (e, leaf) in leaves.into_values() {
                if let Some(t) = tensors.get_mut(&e) {
                    *t.tape.lock() = Some(TapeEntry::Variable(leaf));
                }
            }
        }
        Evaluator { graph, tensors, destinations: HashMap::new(), live: HashSet::new(), is_recording }
    }

    fn run(&mut self, targets: impl Iterator<Item = Entry>, is_train: bool) -> Result<()> {
        let targets: Vec<Entry> = targets.collect();
        let needed = self.graph.needed_for(targets.iter().copied());
        let readers = self.graph.nodes.iter().zip(&needed).filter(|(_, needed)| **needed);
        self.live = readers.flat_map(|(node, _)| node.inputs.iter().copied()).chain(targets).collect();
        in_mode(self.is_recording, is_train, || self.run_needed(&needed, is_train))
    }

    fn run_needed(&mut self, needed: &[bool], is_train: bool) -> Result<()> {
        for (i, node) in self.graph.nodes.iter().enumerate().filter(|(i, _)| needed[*i]) {
            // For gradients of gradients, the forward operators must be on the new tape, too.
            let is_computed = self.tensors.contains_key(&entry(i, 0));
            let is_replayed = self.is_recording && matches!(node.action, Action::Forward(_)) && is_computed;
            if matches!(node.action, Action::Variable) || (is_computed && !is_replayed) {
                continue;
            }
            let inputs: Vec<Arc<Tensor>> = node.inputs.iter().map(|e| self.tensor(*e)).collect::<Result<_>>()?;
            let outputs = match &node.action {
                // Only plans contain fused nodes.
                Action::Variable | Action::Fused { .. } => continue,
                Action::Forward(op) if is_replayed => self.replay(i, op, &node.attrs, &inputs)?,
                Action::Forward(op) => {
                    let outputs = self.destination(i, op, &inputs).map(|array| Arc::new(Tensor::new(array)));
                    record(op, &node.attrs, None, &inputs, outputs.as_slice())?
                }
                Action::Backward { of, op, backward } => {
                    let gradients = self.gradient_specs(i, *of, op)?;
                    let stored = inputs.iter().map(|t| t.stored()).collect::<Result<Stored>>()?;
                    let wanted: SmallVec<[bool; 4]> =
                        (0..gradients.len()).map(|k| self.live.contains(&entry(i, k))).collect();
                    let call = GradientCall {
                        op,
                        backward,
                        inputs: &stored,
                        outputs: &gradients,
                        wanted: &wanted,
                        is_train,
                        cache: &self.graph.nodes[*of as usize].cache,
                    };
                    let results = run_deferring_errors(&stored, &gradients, || {
                        call.run().map_err(|e| e.in_operator(op.title(), &node.name))
                    })?;
                    results.into_iter().map(|a| Arc::new(Tensor::new(a))).collect()
                }
            };
            for (k, t) in outputs.into_iter().enumerate() {
                self.tensors.insert(entry(i, k), t);
            }
            if self.graph.checked_gradients.iter().any(|checked| checked.gradient.node as usize == i) {
                self.check_gradients()?;
            }
        }
        self.check_gradients()
    }

    /// The array that output 0 of a forward node is written to, if the output certainly has its shape and type: those of input 0,
    /// which it may overwrite. User operators may compose gradients of any shape, which are checked later.
    fn destination(&self, i: usize, op: &OpCall, inputs: &[Arc<Tensor>]) -> Option<NDArray> {
        let target = self.destinations.get(&entry(i, 0))?;
        let first = inputs.first()?.array().ok()?;
        let keeps_shape = op.def.inplace.contains(&(0, 0)) && matches!(op.def.forward, Forward::Kernel(_));
        let fits = keeps_shape && first.shape() == target.shape() && first.dtype() == target.dtype();
        (fits && self.graph.checked_gradients.is_empty()).then(|| target.clone())
    }

    /// Checks shapes and types of the gradients of user operators that are computed so far.
    fn check_gradients(&self) -> Result<()> {
        let array = |e: Entry| self.tensors.get(&e)?.stored().ok();
        self.graph.check_gradients("the shape", |e| array(e).map(|a| a.shape().clone()))?;
        self.graph.check_gradients("the type", |e| array(e).map(|a| a.dtype()))
    }

    /// Records a forward operator with the outputs that it had, without running it again.
    fn replay(&self, i: usize, op: &OpCall, attrs: &Attrs, inputs: &[Arc<Tensor>]) -> Result<Tensors> {
        let n = op.def.num_outputs(&op.params);
        let outputs = (0..n).map(|k| self.tensor(entry(i, k))?.stored()).collect::<Result<Stored>>()?;
        let arrays = inputs.iter().map(|t| t.stored()).collect::<Result<Vec<_>>>()?;
        let inputs: Vec<_> = inputs.iter().map(|t| t.tape.lock().clone()).zip(arrays).collect();
        if inputs.iter().all(|(tape, _)| tape.is_none()) {
            return outputs.into_iter().map(|a| Ok(Arc::new(Tensor::new(a)))).collect();
        }
        let cache = Some(self.graph.nodes[i].cache.clone());
        let (op, attrs) = (op.clone(), attrs.clone());
        let node = TapeNode::new(op, attrs, SavedArrays { inputs, outputs: outputs.clone() }, cache);
        Ok(outputs
            .into_iter()
            .enumerate()
            .map(|(k, a)| {
                let tensor = Tensor::new(a);
                *tensor.tape.lock() = Some(TapeEntry::Output(node.clone(), k as u32));
                Arc::new(tensor)
            })
            .collect())
    }

    /// The input gradients of a forward node, which the node at index `backward` computes.
    fn gradient_specs(&self, backward: usize, of: u32, op: &OpCall) -> Result<Vec<stored::ArraySpec>> {
        let inputs = self.graph.nodes[of as usize].inputs.iter().enumerate();
        inputs
            .filter(|(k, _)| !op.mutated().contains(k))
            .enumerate()
            .map(|(k, (_, e))| {
                let a = self.tensor(*e)?.stored()?;
                let destination = self.destinations.get(&entry(backward, k)).cloned();
                Ok(stored::ArraySpec { shape: a.shape().clone(), dtype: a.dtype(), context: a.context(), destination })
            })
            .collect()
    }

    fn tensor(&self, e: Entry) -> Result<Arc<Tensor>> {
        self.tensors.get(&e).cloned().ok_or_else(|| {
            Error::Internal(format!("output {} of {} was not kept on the tape", e.index, self.graph.node(e).name))
        })
    }
}
