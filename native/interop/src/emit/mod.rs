//! Evaluates the expressions of processes and emits operators: MXNet's in an import, the framework's in an export.
//!
//! - `scope`: the state of a process while it is applied to a node; `eval`: evaluates its expressions.
//! - [`rules`]: the built-in rules, which expressions call; `arguments`: the types of their arguments and results; `tables`: the tables of
//!   the frameworks, with these rules.
//! - `builder`: an MXNet graph under construction, with shape inference and constant folding; `operation`: calls of MXNet operators that
//!   are checked at compile time; `bodies`: the bodies of control flow operators.
//! - `dimensions`: symbolic dimensions; `symbolic`: their propagation through operators.
//! - `integer_widening`: integer types that arrays do not support.
//! - `nodes`: the nodes that an export emits; `onnx_ops`: the ONNX operators that rules emit.
//! - `hooks`: user code that replaces or adjusts the mapping of a node.
//!
//! Import and export differ in their [`NodeContext`].

mod arguments;
mod bodies;
mod builder;
mod dimensions;
mod eval;
mod hooks;
mod integer_widening;
mod nodes;
mod onnx_ops;
mod operation;
pub mod rules;
mod scope;
mod symbolic;
mod tables;

use std::collections::HashMap;

use indexmap::IndexMap;

pub(crate) use arguments::{Argument, Arguments, RuleResult};
pub(crate) use arguments::{SymInt, SymInts, TensorId};
pub(crate) use bodies::{Body, Operands};
pub(crate) use builder::check_shape;
pub(crate) use builder::{Builder, Mode, TensorInfo};
pub(crate) use dimensions::{Dims, is_symbolic};
pub(crate) use hooks::copy_symbols;
pub(crate) use hooks::located;
pub use hooks::{HookNode, HookOutputs, HookTensor, Hooks, RewrittenNode};
pub(crate) use integer_widening::type_code;
pub(crate) use nodes::{Sink, framework_call};
pub(crate) use nodes::{framework_node, framework_operator};
pub(crate) use onnx_ops::OnnxOp;
pub(crate) use operation::{Operation, op};
pub(crate) use scope::{Names, Naming, Scope};

use crate::error::{Error, Result};
use crate::ir::{Framework, Graph, Node, OpDescriptor, Value};
use crate::mapping::{Mappings, Schema, Table};

/// The graph that is built, and the processes that build it.
pub struct Emitter<'t> {
    /// The graph.
    pub builder: Builder,
    /// The framework whose operators are mapped.
    pub framework: Framework,
    /// Its processes.
    pub table: &'t Table,
    /// Its operators.
    pub schema: &'t Schema,
    /// The budget for unrolled loops.
    pub unrolling: Unrolling,
    opsets: IndexMap<String, i64>,
}

/// Bounds the unrolling of nested loops, whose numbers of iterations multiply.
pub struct Unrolling {
    /// Number of nodes of subgraphs mapped so far; those of an unrolled loop count for each iteration.
    pub num_mapped: usize,
    /// The number of mapped nodes at which the outermost unrolled loop is too long; `None` outside of loops.
    limit: Option<usize>,
    /// Number of nodes that may still be mapped in loops that turn out to be too long.
    wasted: usize,
}

/// Maximum number of nodes of an unrolled loop, with the loops in it.
const MAX_UNROLLED_NODES: usize = 1 << 15;

impl Unrolling {
    /// Begins a loop. Returns the limit of the loop around it.
    pub fn begin(&mut self) -> Option<usize> {
        let outer = self.limit;
        let limit = self.num_mapped + self.wasted.min(MAX_UNROLLED_NODES);
        self.limit = Some(outer.map_or(limit, |outer| outer.min(limit)));
        outer
    }

    /// Ends a loop that began when `num_mapped` was `start`; `outer` is the limit of the loop around it.
    pub fn end(&mut self, start: usize, outer: Option<usize>, is_unrolled: bool) {
        self.limit = outer;
        if outer.is_none() && !is_unrolled {
            self.wasted = self.wasted.saturating_sub(self.num_mapped - start);
        }
    }

    /// True if the outermost loop is too long.
    pub fn is_exhausted(&self) -> bool {
        self.limit.is_some_and(|limit| self.num_mapped > limit)
    }
}

/// The advice for an operator without a process.
pub(crate) const ADVICE: &str = "map it with a hook, or create the model without it";

impl<'t> Emitter<'t> {
    /// An empty graph for a model with these operator sets.
    ///
    /// # Errors
    /// An operator set version that is newer than the descriptors.
    pub fn new(
        framework: Framework,
        mappings: Option<&'t Mappings>,
        opsets: IndexMap<String, i64>,
        mode: Mode,
    ) -> Result<Emitter<'t>> {
        let (table, schema) = match mappings {
            Some(added) => (&added.table, &added.schema),
            None => (framework.table()?, framework.schema()?),
        };
        for (domain, version) in &opsets {
            if let Some(newest) = schema.newest(domain)
                && *version > newest
            {
                return Err(Error::unsupported(format!(
                    "the model uses version {version} of the operator set '{domain}', but the newest supported version is \
                     {newest}: export it with an older version"
                )));
            }
        }
        let unrolling = Unrolling { num_mapped: 0, limit: None, wasted: 2 * MAX_UNROLLED_NODES };
        Ok(Emitter { builder: Builder::new(mode), framework, table, schema, unrolling, opsets })
    }

    /// The version of a domain's operator set that the model uses.
    pub fn version(&self, domain: &str) -> i64 {
        self.opsets.get(domain).copied().unwrap_or(1)
    }

    /// The operator set version of a node.
    pub fn version_of(&self, node: &Node) -> i64 {
        node.version.unwrap_or_else(|| self.version(&node.domain))
    }

    /// The descriptor of a node's operator.
    ///
    /// # Errors
    /// The framework has no such operator in the model's version of the operator set.
    pub fn descriptor(&self, node: &Node) -> Result<&'t OpDescriptor> {
        let version = self.version_of(node);
        self.schema.find(&node.domain, &node.op, version).ok_or_else(|| {
            Error::unsupported(match node.domain.as_str() {
                "" => {
                    let framework = self.framework.name();
                    format!(
                        "version {version} of the operator set of {framework} has no operator {}: {ADVICE}",
                        node.op
                    )
                }
                domain => format!("the operator {} of the domain {domain} is unknown: {ADVICE}", node.op),
            })
        })
    }
}

/// The import or export that evaluates a process.
pub trait NodeContext<'t> {
    /// The graph and the processes.
    fn emitter(&self) -> &Emitter<'t>;

    /// The graph and the processes.
    fn emitter_mut(&mut self) -> &mut Emitter<'t>;

    /// The sink of an export, with the graph; `None` in an import.
    fn sink(&mut self) -> Option<(&mut Sink, &mut Builder)>;

    /// Maps a subgraph of the framework with these input values and returns its outputs.
    ///
    /// # Errors
    /// Subgraphs that are nested too deeply; a failed hook; any call in an export, which cannot map subgraphs.
    fn graph(&mut self, graph: &Graph, inputs: HashMap<String, Value>) -> Result<Vec<Value>>;

    /// Number of problems reported so far.
    fn problem_count(&self) -> usize;
}

/// A guard that enables NumPy shape semantics, since ONNX has zero-dimensional tensors and axes of length 0. Restores the previous setting.
pub struct NumpyShapes(bool);

impl NumpyShapes {
    /// Enables NumPy shape semantics.
    pub fn set() -> NumpyShapes {
        NumpyShapes(ferromx_runtime::semantics::set_numpy_shape(true))
    }
}

impl Drop for NumpyShapes {
    fn drop(&mut self) {
        ferromx_runtime::semantics::set_numpy_shape(self.0);
    }
}
