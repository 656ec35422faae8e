//! Storage type inference over a whole graph.

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Entry, Grad};
use ferromx_core::op::{Deps, GradientStorage, SparseForm};
use ferromx_core::params::{Attrs, Params};
use ferromx_core::sparse::StorageType;
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::gradient::{GradientArgs, gradient};
use super::infer::Entries;
use crate::graph::{Action, Graph, GraphNode, entry};
use crate::symbol::{Node, Symbol};

/// The attribute with the storage type code of a variable.
const STORAGE_ATTR: &str = "__storage_type__";

/// The storage types of the arrays of a symbol, each list in listing order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Storage {
    /// Arguments.
    pub args: Vec<StorageType>,
    /// Gradients of the arguments; `Default` where none is requested.
    pub grads: Vec<StorageType>,
    /// Auxiliary states.
    pub aux: Vec<StorageType>,
    /// Outputs.
    pub outputs: Vec<StorageType>,
    /// Whether any array of the forward graph is sparse.
    pub has_sparse: bool,
}

/// Infers storage types forwards from those of the variables in `given`, by name. Other variables have the type in their attribute, or
/// are dense. Names that no variable has are ignored. The output of an operator without a sparse implementation for its inputs is dense.
/// A head gradient has the storage type of its output. `is_requested` says for each argument whether its gradient is requested. Returns
/// `None` if all arrays are dense.
///
/// # Errors
/// An attribute that is not a storage type; an operator without a gradient.
pub(crate) fn infer_storage(
    symbol: &Symbol,
    given: &[(String, StorageType)],
    is_requested: &[bool],
) -> Result<Option<Storage>> {
    let is_all_dense = given.iter().all(|(_, t)| *t == StorageType::Default);
    if is_all_dense && !symbol.nodes().iter().any(|node| may_be_sparse(node)) {
        return Ok(None);
    }
    let (mut graph, outputs) = Graph::from_symbol(symbol);
    let is_aux = symbol.variables().into_iter().map(|v| v.is_aux);
    let variables: Vec<(Entry, bool)> = graph.variables().zip(is_aux).collect();
    let variable_types = variable_types(&graph, &variables, given)?;
    let args: Vec<Entry> = variables.iter().filter(|(_, is_aux)| !is_aux).map(|(e, _)| *e).collect();
    let num_forward_nodes = graph.nodes.len();
    let mut head_grad_outputs = HashMap::new();
    let mut head_grads = Vec::new();
    for (i, output) in outputs.iter().enumerate().filter(|_| is_requested.contains(&true)) {
        let head_grad = graph.variable(&format!("head_grad{i}"), Attrs::new());
        head_grad_outputs.insert(head_grad, *output);
        head_grads.push(head_grad);
    }
    let requested: Vec<Entry> =
        args.iter().zip(is_requested).filter(|(_, is_requested)| **is_requested).map(|(e, _)| *e).collect();
    let grad_args =
        GradientArgs { heads: &outputs, head_grads: &head_grads, variables: &requested, create_graph: false };
    let grads = if requested.is_empty() { Vec::new() } else { gradient(&mut graph, &grad_args)? };
    let mut grads = grads.into_iter();
    let types = infer_types(&graph, &variable_types, &head_grad_outputs);
    // A gradient that is zero has the storage type of its argument.
    let gradients = is_requested.iter().zip(&args).map(|(is_requested, arg)| match is_requested {
        true => types[grads.next().flatten().unwrap_or(*arg)],
        false => StorageType::Default,
    });
    let forward = (0..num_forward_nodes).flat_map(|i| types.of_node(i));
    Ok(Some(Storage {
        has_sparse: forward.into_iter().any(|t| *t != StorageType::Default),
        grads: gradients.collect(),
        args: args.iter().map(|e| types[*e]).collect(),
        aux: variables.iter().filter(|(_, is_aux)| *is_aux).map(|(e, _)| types[*e]).collect(),
        outputs: outputs.iter().map(|e| types[*e]).collect(),
    }))
}

/// The storage types of the variables whose type is given or in an attribute.
fn variable_types(
    graph: &Graph,
    variables: &[(Entry, bool)],
    given: &[(String, StorageType)],
) -> Result<HashMap<Entry, StorageType>> {
    let mut types = HashMap::new();
    for (e, _) in variables {
        if let Some(storage) = storage_attr(graph.node(*e))? {
            types.insert(*e, storage);
        }
    }
    for (name, storage) in given {
        let matches = variables.iter().map(|(e, _)| *e).filter(|e| graph.node(*e).name == *name);
        types.extend(matches.map(|e| (e, *storage)));
    }
    Ok(types)
}

/// Whether a node may have sparse outputs for dense inputs, or is a sparse variable.
fn may_be_sparse(node: &Node) -> bool {
    match node.op() {
        None => node.attrs.read().contains_key(STORAGE_ATTR),
        Some(op) => {
            op.def.sparse.is_some_and(|form| (form.from_dense)(&op.params))
                || matches!(op.def.gradient(&op.params), Grad::Kernel(backward, _)
                    if backward.sparse.is_some_and(|form| (form.from_dense)(&op.params)))
        }
    }
}

/// The storage of gradients of the forward node, if the node helps to compute them.
fn gradient_storage(graph: &Graph, node: &GraphNode) -> Option<GradientStorage> {
    Some(graph.nodes[node.gradient_of? as usize].op()?.def.gradient.storage)
}

/// The storage type in the attributes of a variable.
fn storage_attr(node: &GraphNode) -> Result<Option<StorageType>> {
    let Some(text) = node.attrs.get(STORAGE_ATTR) else { return Ok(None) };
    let code = text.trim().parse::<i32>();
    let code = code.map_err(|_| {
        Error::Value(format!("{STORAGE_ATTR} of {} is '{text}': a storage type code was expected", node.name))
    })?;
    // -1 means unknown.
    if code == -1 { Ok(None) } else { StorageType::from_code(code).map(Some) }
}

/// Infers the storage types of all entries. `head_grad_outputs` maps each head gradient to its output.
fn infer_types(
    graph: &Graph,
    variable_types: &HashMap<Entry, StorageType>,
    head_grad_outputs: &HashMap<Entry, Entry>,
) -> Entries<StorageType> {
    let mut types = Entries::new(graph, StorageType::Default);
    for (i, node) in graph.nodes.iter().enumerate() {
        let ins: SmallVec<[StorageType; 6]> = node.inputs.iter().map(|e| types[*e]).collect();
        let rule = |form: Option<SparseForm>, params: &Params| form.and_then(|form| (form.rule)(params, &ins, None));
        let has_sparse_input = ins.iter().any(|t| *t != StorageType::Default);
        let mut form = None;
        let (inferred, sparse_outputs) = match &node.action {
            Action::Variable => {
                let e = entry(i, 0);
                let of_output = head_grad_outputs.get(&e).map(|output| types[*output]);
                (of_output.or(variable_types.get(&e).copied()), Deps::Some(&[0]))
            }
            Action::Forward(_) if gradient_storage(graph, node) == Some(GradientStorage::Dense) => (None, Deps::None),
            Action::Forward(op) => {
                form = op.def.sparse.filter(|form| has_sparse_input || (form.from_dense)(&op.params)).map(|f| (f, op));
                (rule(form.map(|(f, _)| f), &op.params), Deps::All)
            }
            Action::Backward { op, backward, .. } => {
                let follows_operands = op.def.gradient.storage == GradientStorage::OfOperands;
                let common = ins.first().copied().filter(|t| follows_operands && ins.iter().all(|i| i == t));
                form = backward.sparse.map(|f| (f, op));
                (rule(backward.sparse, &op.params).or(common), backward.sparse_gradients)
            }
            Action::Fused { .. } => (None, Deps::None),
        };
        let of_outputs = form.and_then(|(form, op)| Some((form.of_outputs?)(&op.params, &ins)));
        for k in sparse_outputs.indices(node.num_visible()) {
            let of_output = of_outputs.as_ref().and_then(|types| types.get(k).copied());
            types[entry(i, k)] = of_output.or(inferred).unwrap_or(StorageType::Default);
        }
    }
    types
}
