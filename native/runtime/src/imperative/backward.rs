//! Gradients of recorded tensors.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Mode;
use ferromx_core::params::Attrs;
use ferromx_core::sparse::Array;
use ferromx_core::storage::{Chunk, Req};
use smallvec::SmallVec;

use super::copies::converted;
use super::failures;
use super::invoke::Arrays;
use super::mode::{ThreadMode, in_mode};
use super::stored::{self, GradientCall, Stored};
use super::tape::{Leaf, SavedArrays, TapeEntry, TapeNode, Tensor, Tensors, record};
use super::tape_graph::TapeGraph;
use crate::arrays::zeros_like;
use crate::graph::{Action, Graph, entry};
use crate::passes::gradient::{GradientArgs, gradient};
use crate::profiler;
use crate::symbol::OpCall;

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

/// Computes the gradients of `heads` in training mode. They are written to the gradient arrays of all marked variables, or returned for
/// `variables` if any are given. A head gradient of `None` means ones.
///
/// # Errors
/// A head that was not recorded; a variable that does not influence the heads; operators without gradients.
pub fn backward(
    heads: &[Arc<Tensor>],
    head_grads: &[Option<Arc<Tensor>>],
    variables: &[Arc<Tensor>],
    keep: Keep,
) -> Result<Vec<Arc<Tensor>>> {
    backward_in_mode(heads, head_grads, variables, keep, Mode::Training)
}

/// [`backward`], in any mode.
///
/// # Errors
/// See [`backward`].
pub fn backward_in_mode(
    heads: &[Arc<Tensor>],
    head_grads: &[Option<Arc<Tensor>>],
    variables: &[Arc<Tensor>],
    keep: Keep,
    mode: Mode,
) -> Result<Vec<Arc<Tensor>>> {
    let create_graph = keep == Keep::Gradients;
    let mut recorded = TapeGraph::default();
    let head_entries = add_heads(&mut recorded, heads)?;
    let head_grad_entries = add_head_gradients(&mut recorded, heads, head_grads)?;
    let targets = find_targets(&recorded, variables)?;
    let target_entries: Vec<Entry> = targets.iter().map(|(e, _)| *e).collect();
    ensure!(!targets.is_empty(), "There are no inputs in computation graph that require gradients.");
    let unrequested = unrequested(&recorded, &targets);
    let TapeGraph { mut graph, values, leaves, nodes, .. } = recorded;
    let args =
        GradientArgs { heads: &head_entries, head_grads: &head_grad_entries, variables: &target_entries, create_graph };
    let entries = gradient(&mut graph, &args)?;
    let destinations = match variables.is_empty() && !create_graph {
        true => destinations(&targets, &entries, &values),
        false => HashMap::new(),
    };
    let mut tensors = Evaluator::new(&graph, values, leaves, create_graph);
    tensors.destinations = destinations;
    tensors.run(entries.iter().flatten().copied(), mode)?;
    let mut results = Vec::new();
    for ((variable, leaf), e) in targets.iter().zip(entries) {
        let value = match e {
            Some(e) => tensors.tensor(e)?,
            None => Arc::new(Tensor::new(zero_gradient(leaf, variables.is_empty())?)),
        };
        if variables.is_empty() {
            write_gradient(leaf, &value)?;
        } else {
            results.push(if create_graph { tensors.attached(value, e, *variable, mode)? } else { value });
        }
    }
    if keep == Keep::Nothing {
        nodes.into_values().for_each(|(_, node)| drop(node.free()));
        unrequested.iter().for_each(|leaf| leaf.is_removed.store(true, Ordering::Relaxed));
    }
    Ok(results)
}

/// The gradient of a variable that does not influence the heads: like its gradient array, or else like its value.
fn zero_gradient(leaf: &Leaf, like_gradient_array: bool) -> Result<Array> {
    let value = &leaf.value;
    match like_gradient_array {
        true => zeros_like(&leaf.gradient.lock().array.stored()?),
        false => Ok(NDArray::zeros(value.shape(), value.dtype(), value.context())?.into()),
    }
}

/// Adds the heads and the operators that they depend on to the graph.
fn add_heads(recorded: &mut TapeGraph, heads: &[Arc<Tensor>]) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for (i, head) in heads.iter().enumerate() {
        if head.is_constant_of_tape() {
            entries.push(recorded.constant(&head.stored()?));
            continue;
        }
        let tape = head.tape.lock().clone().filter(|tape| !tape.is_freed()).ok_or_else(|| {
            Error::Value(format!(
                "Cannot differentiate node because it is not in a computational graph. You need to set is_recording to true or use \
                 autograd.record() to save computational graphs for backward. If you want to differentiate the same graph twice, you \
                 need to pass retain_graph=True to backward. (head {i})"
            ))
        })?;
        entries.push(recorded.add(&tape)?);
    }
    Ok(entries)
}

/// Adds the head gradients to the graph: those given, converted to the types of their heads, or ones.
fn add_head_gradients(
    recorded: &mut TapeGraph,
    heads: &[Arc<Tensor>],
    head_grads: &[Option<Arc<Tensor>>],
) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for (i, head) in heads.iter().enumerate() {
        let value = match head_grads.get(i).cloned().flatten() {
            Some(given) => given.stored()?,
            None => ones_like(&head.stored()?)?,
        };
        let head = head.stored()?;
        let shape = head.shape();
        ensure!(value.shape() == shape, "head gradient {i} has shape {}, but the head has {shape}", value.shape());
        entries.push(recorded.constant(&converted(&value, head.dtype())?));
    }
    Ok(entries)
}

/// The variables to differentiate with respect to: those given, or all with a gradient request, in the order of their entries.
fn find_targets(recorded: &TapeGraph, variables: &[Arc<Tensor>]) -> Result<Vec<(Entry, Arc<Leaf>)>> {
    if !variables.is_empty() {
        return variables.iter().map(|v| find_target(recorded, v)).collect();
    }
    let requested = recorded.leaves.values().filter(|(_, leaf)| leaf.gradient.lock().req != Req::Null);
    let mut targets: Vec<(Entry, Arc<Leaf>)> = requested.cloned().collect();
    targets.sort_by_key(|(e, _)| *e);
    Ok(targets)
}

/// The variables with a null request that are no targets.
fn unrequested(recorded: &TapeGraph, targets: &[(Entry, Arc<Leaf>)]) -> Vec<Arc<Leaf>> {
    let leaves = recorded.leaves.values().filter(|(_, leaf)| leaf.gradient.lock().req == Req::Null);
    let is_target = |leaf: &Arc<Leaf>| targets.iter().any(|(_, target)| Arc::ptr_eq(target, leaf));
    leaves.map(|(_, leaf)| leaf.clone()).filter(|leaf| !is_target(leaf)).collect()
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
    let mut out = stored::invoke_stored(&op, None, std::slice::from_ref(array), &[])?;
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

    fn run(&mut self, targets: impl Iterator<Item = Entry>, mode: Mode) -> Result<()> {
        let targets: Vec<Entry> = targets.collect();
        // Gradients update the states of their layers, so their order matters; this is MXNet's.
        let order = self.graph.depth_first(targets.iter().copied());
        let read = order.iter().flat_map(|i| self.graph.nodes[*i].inputs.iter().copied());
        self.live = read.chain(targets).collect();
        in_mode(ThreadMode { is_recording: self.is_recording, mode }, || self.run_in_order(&order, mode))
    }

    fn run_in_order(&mut self, order: &[usize], mode: Mode) -> Result<()> {
        for (i, node) in order.iter().map(|i| (*i, &self.graph.nodes[*i])) {
            // For higher-order gradients, the forward operators must be on the new tape, too.
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
                        mode,
                        cache: &self.graph.nodes[*of as usize].cache,
                    };
                    let _measured = profiler::imperative(|| op.profiled_gradient());
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

    /// The gradient array that output 0 of a forward node is written to, if there is one.
    fn destination(&self, i: usize, op: &OpCall, inputs: &[Arc<Tensor>]) -> Option<NDArray> {
        let target = self.destinations.get(&entry(i, 0))?;
        let first = inputs.first()?.array().ok()?;
        self.graph.can_write_gradient(op, &first, target).then(|| target.clone())
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

    /// A gradient that is on the tape, so that it can be differentiated again. One that does not depend on its variable, such as that of
    /// `floor`, gets a derivative of zero. One from a kernel without a second-order gradient stays off the tape, which reports it.
    fn attached(&self, gradient: Arc<Tensor>, e: Option<Entry>, variable: Entry, mode: Mode) -> Result<Arc<Tensor>> {
        let needed = self.graph.needed_for(e);
        let depends_on_variable = needed[variable.node as usize];
        let variable = self.tensor(variable)?;
        let mut nodes = self.graph.nodes.iter().zip(needed).filter_map(|(node, needed)| needed.then_some(node));
        let has_kernel = nodes.any(|node| matches!(node.action, Action::Backward { .. }));
        if gradient.is_recorded() && depends_on_variable
            || has_kernel
            || gradient.array().is_err()
            || variable.array().is_err()
        {
            return Ok(gradient);
        }
        let op = OpCall::new("_identity_with_attr_like_rhs", &Attrs::new())?;
        let mode = ThreadMode { is_recording: true, mode };
        let mut outputs = in_mode(mode, || record(&op, &Attrs::new(), None, &[gradient, variable], &[]))?;
        outputs.pop().ok_or_else(|| Error::Internal("_identity_with_attr_like_rhs has no output".into()))
    }

    fn tensor(&self, e: Entry) -> Result<Arc<Tensor>> {
        self.tensors.get(&e).cloned().ok_or_else(|| {
            Error::Internal(format!("output {} of {} was not kept on the tape", e.index, self.graph.node(e).name))
        })
    }
}
