//! Storage types over a whole graph: what is sparse where operators have forms for the storage of their inputs.

use std::collections::HashMap;

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Entry, Grad};
use ferromx_core::op::SparseForm;
use ferromx_core::params::{Attrs, Params};
use ferromx_core::sparse::StorageType;
use smallvec::SmallVec;

use super::gradient::{Request, gradient};
use super::infer::Entries;
use crate::graph::{Action, Graph, GraphNode, entry};
use crate::symbol::{Node, Symbol};

/// Attribute in which a variable carries the code of its storage type.
const STORAGE_ATTR: &str = "__storage_type__";

/// The storage types of everything that a symbol is bound to, each in its listing order.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// Arguments.
    pub args: Vec<StorageType>,
    /// Gradients of the arguments; `Default` where none is wanted.
    pub grads: Vec<StorageType>,
    /// Auxiliary states.
    pub aux: Vec<StorageType>,
    /// Outputs.
    pub outputs: Vec<StorageType>,
    /// Whether the symbol itself, without its gradient, has anything sparse.
    pub has_sparse: bool,
}

/// Infers storage types from those of some variables, by name, in the direction of the computation: what no attribute and nobody
/// else says of a variable is dense, and so is the result of an operator without a form for its inputs. A gradient flows into an
/// output in the storage of that output. `wanted` says of each argument whether it gets a gradient. `None` stands for a symbol that
/// has nothing to do with sparse arrays.
///
/// # Errors
/// A name that no variable has, an attribute that is no storage type; those of [`gradient`].
pub fn infer_storage(symbol: &Symbol, given: &[(String, StorageType)], wanted: &[bool]) -> Result<Option<Storage>> {
    let all_dense = given.iter().all(|(_, t)| *t == StorageType::Default);
    if all_dense && !symbol.nodes().iter().any(|node| may_be_sparse(node)) {
        return Ok(None);
    }
    let (mut graph, ys) = Graph::from_symbol(symbol);
    let variables: Vec<(Entry, bool)> = (0..graph.nodes.len())
        .filter(|i| matches!(graph.nodes[*i].action, Action::Variable))
        .map(|i| entry(i, 0))
        .zip(symbol.variables().into_iter().map(|(_, aux)| aux))
        .collect();
    let mut known = HashMap::new();
    for (e, _) in &variables {
        if let Some(storage) = carried(graph.node(*e))? {
            known.insert(*e, storage);
        }
    }
    for (name, storage) in given {
        let found = variables.iter().find(|(e, _)| graph.node(*e).name == *name);
        let (e, _) = found.ok_or_else(|| {
            let all = symbol.list_inputs().join(", ");
            Error::NotFound(format!("there is no argument '{name}'; the arguments are {all}"))
        })?;
        known.insert(*e, *storage);
    }
    let of = |aux: bool| variables.iter().filter(move |v| v.1 == aux).map(|v| v.0);
    let args: Vec<Entry> = of(false).collect();
    let forward_nodes = graph.nodes.len();
    let mut like = HashMap::new();
    let mut head_grads = Vec::new();
    for (i, y) in ys.iter().enumerate().filter(|_| wanted.contains(&true)) {
        let head = graph.variable(&format!("head_grad{i}"), Attrs::new());
        like.insert(head, *y);
        head_grads.push(head);
    }
    let xs: Vec<Entry> = args.iter().zip(wanted).filter(|(_, wanted)| **wanted).map(|(e, _)| *e).collect();
    let mut grads = if xs.is_empty() {
        Vec::new()
    } else {
        gradient(&mut graph, &Request { ys: &ys, head_grads: &head_grads, xs: &xs, again: false })?
    }
    .into_iter();
    let types = sweep(&graph, &known, &like);
    let gradients = wanted.iter().map(|w| if *w { grads.next().flatten() } else { None });
    let forward = (0..forward_nodes).flat_map(|i| types.of_node(i));
    Ok(Some(Storage {
        has_sparse: forward.into_iter().any(|t| *t != StorageType::Default),
        grads: gradients.map(|e| e.map_or(StorageType::Default, |e| types[e])).collect(),
        args: args.iter().map(|e| types[*e]).collect(),
        aux: of(true).map(|e| types[e]).collect(),
        outputs: ys.iter().map(|y| types[*y]).collect(),
    }))
}

/// Whether a node may make something sparse of dense arrays, or is a sparse variable.
fn may_be_sparse(node: &Node) -> bool {
    match &node.op {
        None => node.attrs.read().contains_key(STORAGE_ATTR),
        Some(op) => {
            op.def.sparse.is_some_and(|form| form.from_dense)
                || matches!(op.def.gradient(&op.params), Grad::Kernel(backward, _) if backward.sparse.is_some())
        }
    }
}

/// The storage type that a variable carries in its attributes.
fn carried(node: &GraphNode) -> Result<Option<StorageType>> {
    let Some(text) = node.attrs.get(STORAGE_ATTR) else { return Ok(None) };
    let code = text.trim().parse::<i32>();
    let code = code.map_err(|_| Error::Value(format!("{STORAGE_ATTR} of {} is no number: '{text}'", node.name)))?;
    // -1 stands for a type that is not known.
    if code == -1 { Ok(None) } else { StorageType::from_code(code).map(Some) }
}

fn sweep(graph: &Graph, known: &HashMap<Entry, StorageType>, like: &HashMap<Entry, Entry>) -> Entries<StorageType> {
    let mut types = Entries::new(graph, StorageType::Default);
    for (i, node) in graph.nodes.iter().enumerate() {
        let ins: SmallVec<[StorageType; 6]> = node.inputs.iter().map(|e| types[*e]).collect();
        let rule = |form: Option<SparseForm>, params: &Params| form.and_then(|form| (form.rule)(params, &ins, None));
        let sparse = ins.iter().any(|t| *t != StorageType::Default);
        let (made, outputs) = match &node.action {
            Action::Variable => {
                let e = entry(i, 0);
                let same = like.get(&e).map(|y| types[*y]);
                (same.or(known.get(&e).copied()), 1)
            }
            Action::Forward(op) => {
                let form = op.def.sparse.filter(|form| sparse || form.from_dense);
                (rule(form, &op.params), op.def.num_visible(&op.params))
            }
            Action::Backward { op, backward, .. } => {
                // The product of a gradient and the slope at the same places is zero where the gradient is.
                let same = ins.first().copied().filter(|t| op.def.pointwise && ins.iter().all(|other| other == t));
                (rule(backward.sparse, &op.params).or(same), node.num_outputs)
            }
            Action::Fused { .. } => (None, 0),
        };
        for k in 0..outputs {
            types[entry(i, k)] = made.unwrap_or(StorageType::Default);
        }
    }
    types
}
