//! Shape and type inference over a whole graph, forwards and backwards to a fixed point.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::shape::Shape;
use smallvec::SmallVec;

use crate::graph::{Action, Graph, GraphNode, entry};
use crate::semantics;
use crate::symbol::{DTYPE_ATTR, OpCall};

/// One value for each entry of a graph.
#[derive(Clone)]
pub(crate) struct Entries<T> {
    start: Vec<usize>,
    values: Vec<T>,
}

impl<T: Clone> Entries<T> {
    /// The same value for all entries.
    pub(crate) fn new(graph: &Graph, value: T) -> Entries<T> {
        let mut start = Vec::with_capacity(graph.nodes.len() + 1);
        start.push(0);
        for node in &graph.nodes {
            start.push(start[start.len() - 1] + node.num_outputs);
        }
        Entries { values: vec![value; start[start.len() - 1]], start }
    }

    /// The index of the value of an entry.
    pub(crate) fn id(&self, e: Entry) -> usize {
        self.start[e.node as usize] + e.index as usize
    }

    /// The values of all outputs of a node.
    pub(crate) fn of_node(&self, node: usize) -> &[T] {
        &self.values[self.start[node]..self.start[node + 1]]
    }
}

impl<T: Clone> std::ops::Index<Entry> for Entries<T> {
    type Output = T;
    fn index(&self, e: Entry) -> &T {
        &self.values[self.id(e)]
    }
}

impl<T: Clone> std::ops::IndexMut<Entry> for Entries<T> {
    fn index_mut(&mut self, e: Entry) -> &mut T {
        let i = self.id(e);
        &mut self.values[i]
    }
}

/// The attribute with the shape of a variable.
const SHAPE_ATTR: &str = "__shape__";
/// The attribute with the shape of a variable in NumPy semantics, which take precedence over the thread's: for scalars and zero-size
/// arrays.
const NUMPY_SHAPE_ATTR: &str = "__np_shape__";

/// Adds the node to an error of inference. In graphs, MXNet's front end finds the exception class only in errors of kernels.
fn node_error(node: &GraphNode, e: Error) -> Error {
    match node.op() {
        Some(op) => op.locate(e.without_class(), &node.name, node.inputs.len()),
        None => e.in_operator("null", &node.name),
    }
}

/// The effect of applying an inference rule to a node.
struct Effect {
    has_changed: bool,
    /// Whether all values of the node are known. The rule has checked them, so it need not run again.
    is_complete: bool,
}

/// Sweeps forwards and backwards over the first `n` nodes until `visit` changes nothing more. Nodes whose values are all known are
/// visited once.
fn fixpoint(n: usize, mut visit: impl FnMut(usize) -> Result<Effect>) -> Result<()> {
    let mut is_complete = vec![false; n];
    let mut visit = |i: usize| -> Result<bool> {
        if is_complete[i] {
            return Ok(false);
        }
        let effect = visit(i)?;
        is_complete[i] = effect.is_complete;
        Ok(effect.has_changed)
    };
    // Networks need few sweeps. The limit guards against rules that never reach a fixed point.
    for _ in 0..64 {
        let mut has_changed = false;
        for i in 0..n {
            has_changed |= visit(i)?;
        }
        if !has_changed {
            return Ok(());
        }
        let mut has_changed = false;
        for i in (0..n).rev() {
            has_changed |= visit(i)?;
        }
        if !has_changed {
            return Ok(());
        }
    }
    Ok(())
}

/// Infers the shapes of an operator without inputs, such as `_zeros`. In legacy semantics a parameter `shape` without dimensions, and a
/// dimension of 0 in it, are unknown, as is the batch size of a recurrent network's initial states. A known output then determines the
/// shape. A length of 0 that follows from other parameters is known.
pub(crate) fn shapes_without_inputs(op: &OpCall, outs: &mut [Shape]) -> Result<()> {
    let mut inferred: SmallVec<[Shape; 4]> = smallvec::smallvec![Shape::unknown(); outs.len()];
    (op.def.inference.shape)(&op.params, &mut ShapeIo { ins: &mut [], outs: &mut inferred })?;
    if !semantics::is_numpy_shape() && op.def.fields().iter().any(|field| field.name == "shape") {
        for shape in &mut inferred {
            *shape = Shape::from_legacy(shape.dims());
        }
    }
    let mut io = ShapeIo { ins: &mut [], outs };
    for (k, shape) in inferred.iter().enumerate() {
        if shape.is_known() || !io.outs[k].is_known() {
            io.assign_out(k, shape)?;
        }
    }
    Ok(())
}

/// The shape in the attributes of a variable.
fn shape_of_variable(node: &GraphNode) -> Result<Shape> {
    let parse = |text: &String| text.parse::<Shape>().map_err(|e: String| node_error(node, Error::Value(e)));
    if let Some(text) = node.attrs.get(NUMPY_SHAPE_ATTR) {
        return parse(text);
    }
    let Some(text) = node.attrs.get(SHAPE_ATTR) else { return Ok(Shape::unknown()) };
    let shape = parse(text)?;
    Ok(if semantics::is_numpy_shape() { shape } else { Shape::from_legacy(shape.dims()) })
}

/// Completes `shapes`; those that cannot be inferred stay partly unknown.
///
/// # Errors
/// Inconsistent shapes; the message names operator, node and argument.
pub(crate) fn shapes(graph: &Graph, mut shapes: Entries<Shape>) -> Result<Entries<Shape>> {
    shapes_before(graph, graph.nodes.len(), &mut shapes)?;
    graph.check_gradients("the shape", |e| Some(&shapes[e]).filter(|s| s.is_known()))?;
    Ok(shapes)
}

/// Completes `shapes` from those of the first `num_nodes` nodes; see [`shapes`].
pub(crate) fn shapes_before(graph: &Graph, num_nodes: usize, shapes: &mut Entries<Shape>) -> Result<()> {
    for (i, node) in graph.nodes.iter().enumerate().take(num_nodes) {
        let slot = &mut shapes[entry(i, 0)];
        if !slot.ndim_is_known() && matches!(node.action, Action::Variable) {
            *slot = shape_of_variable(node)?;
        }
    }
    fixpoint(num_nodes, |i| {
        let node = &graph.nodes[i];
        let mut ins: SmallVec<[Shape; 6]> = node.inputs.iter().map(|e| shapes[*e].clone()).collect();
        let mut outs: SmallVec<[Shape; 4]> = shapes.of_node(i).into();
        match &node.action {
            // Fusion runs after inference.
            Action::Variable | Action::Fused { .. } => return Ok(Effect { has_changed: false, is_complete: true }),
            Action::Forward(op) if ins.is_empty() => {
                shapes_without_inputs(op, &mut outs).map_err(|e| node_error(node, e))?
            }
            Action::Forward(op) => {
                (op.def.inference.shape)(&op.params, &mut ShapeIo { ins: &mut ins, outs: &mut outs })
                    .map_err(|e| node_error(node, e))?
            }
            Action::Backward { of, op, .. } => {
                let forward = &graph.nodes[*of as usize].inputs;
                let inputs = forward.iter().enumerate().filter(|(k, _)| !op.mutated().contains(k)).map(|(_, e)| *e);
                outs.iter_mut().zip(inputs).for_each(|(o, e)| *o = shapes[e].clone());
            }
        }
        let mut effect = Effect { has_changed: false, is_complete: true };
        let outputs = (0..outs.len()).map(|k| entry(i, k));
        for (e, shape) in node.inputs.iter().copied().chain(outputs).zip(ins.into_iter().chain(outs)) {
            effect.is_complete &= shape.is_known();
            if shapes[e] != shape {
                shapes[e] = shape;
                effect.has_changed = true;
            }
        }
        Ok(effect)
    })
}

/// Completes `dtypes`; see [`shapes`].
pub(crate) fn dtypes(graph: &Graph, mut dtypes: Entries<Option<DType>>) -> Result<Entries<Option<DType>>> {
    dtypes_before(graph, graph.nodes.len(), &mut dtypes)?;
    graph.check_gradients("the type", |e| dtypes[e])?;
    Ok(dtypes)
}

/// Completes `dtypes` from those of the first `num_nodes` nodes; see [`shapes`].
pub(crate) fn dtypes_before(graph: &Graph, num_nodes: usize, dtypes: &mut Entries<Option<DType>>) -> Result<()> {
    for (i, node) in graph.nodes.iter().enumerate().take(num_nodes) {
        if let (Action::Variable, Some(text)) = (&node.action, node.attrs.get(DTYPE_ATTR)) {
            let slot = &mut dtypes[entry(i, 0)];
            *slot = slot.or_else(|| DType::from_code(text.trim().parse().unwrap_or(-1)));
        }
    }
    fixpoint(num_nodes, |i| {
        let node = &graph.nodes[i];
        let mut ins: SmallVec<[Option<DType>; 6]> = node.inputs.iter().map(|e| dtypes[*e]).collect();
        let mut outs: SmallVec<[Option<DType>; 4]> = dtypes.of_node(i).into();
        match &node.action {
            // Fusion runs after inference.
            Action::Variable | Action::Fused { .. } => return Ok(Effect { has_changed: false, is_complete: true }),
            Action::Forward(op) => {
                (op.def.inference.dtype)(&op.params, &mut DTypeIo { ins: &mut ins, outs: &mut outs })
                    .map_err(|e| node_error(node, e))?
            }
            Action::Backward { of, op, .. } => {
                let forward = &graph.nodes[*of as usize].inputs;
                let inputs = forward.iter().enumerate().filter(|(k, _)| !op.mutated().contains(k)).map(|(_, e)| *e);
                outs.iter_mut().zip(inputs).for_each(|(o, e)| *o = dtypes[e]);
            }
        }
        let mut effect = Effect { has_changed: false, is_complete: true };
        let outputs = (0..outs.len()).map(|k| entry(i, k));
        for (e, dtype) in node.inputs.iter().copied().chain(outputs).zip(ins.into_iter().chain(outs)) {
            effect.is_complete &= dtype.is_some();
            effect.has_changed |= std::mem::replace(&mut dtypes[e], dtype) != dtype;
        }
        Ok(effect)
    })
}
