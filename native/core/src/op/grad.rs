//! Declarations of gradients. The gradient pass of the runtime builds graphs from them, for executors and for the tape.

use super::args::Deps;
use super::kernel::{ForeignFn, KernelFn, OpCtx};
use super::sparse_form::{GradientStorage, SparseFn, SparseForm, SparseRule};
use super::{OpDef, Operation};
use crate::error::{Error, Result};
use crate::params::{Attrs, Params};
use crate::storage::{In, Out};

/// An entry of a graph: one output of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// Index of the node in the graph.
    pub node: u32,
    /// Index of the output.
    pub index: u32,
}

/// The graph to which a composed gradient adds its operators.
pub trait GradGraph {
    /// Adds an operator and returns all its outputs.
    ///
    /// # Errors
    /// Invalid parameters.
    fn apply(&mut self, def: &'static OpDef, inputs: &[Entry], attrs: Attrs) -> Result<Vec<Entry>>;

    /// Copies a node of another graph, whose parameters are already parsed.
    ///
    /// # Errors
    /// See [`GradGraph::apply`].
    fn copy(&mut self, node: &NodeCopy<'_>, inputs: &[Entry]) -> Result<Vec<Entry>> {
        self.apply(node.def, inputs, node.attrs.clone())
    }

    /// Adds an operator and returns all its outputs.
    ///
    /// # Errors
    /// See [`GradGraph::apply`].
    fn outputs(&mut self, operation: Operation<Entry, String>) -> Result<Vec<Entry>> {
        let Operation { def, inputs, params } = operation;
        let mut attrs: Attrs = params.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        let num_args_key = def.key_var_num_args();
        if !num_args_key.is_empty() {
            attrs.insert(num_args_key.into(), inputs.len().to_string());
        }
        self.apply(def, &inputs, attrs)
    }

    /// Adds an operator and returns its first output.
    ///
    /// # Errors
    /// See [`GradGraph::apply`].
    fn op(&mut self, operation: Operation<Entry, String>) -> Result<Entry> {
        Ok(self.outputs(operation)?[0])
    }
}

/// A node of another graph, to copy.
pub struct NodeCopy<'a> {
    /// The operator's name.
    pub name: &'static str,
    /// Its definition.
    pub def: &'static OpDef,
    /// Its parameters.
    pub params: &'a Params,
    /// All attributes of the node as text, parameters included.
    pub attrs: &'a Attrs,
}

/// The forward node whose gradient is composed.
pub struct GradNode<'a> {
    /// Its parameters.
    pub params: &'a Params,
    /// Its inputs.
    pub inputs: &'a [Entry],
    /// Its outputs, hidden ones included.
    pub outputs: &'a [Entry],
    /// Gradients of its visible outputs; zeros for outputs without a gradient.
    pub ograds: &'a [Entry],
}

/// Builds the gradients of all inputs; `None` for a gradient of zero.
pub type Compose = fn(&mut dyn GradGraph, &GradNode<'_>) -> Result<Vec<Option<Entry>>>;

/// A gradient kernel.
///
/// The kernel's inputs are the output gradients that `ograds` selects, then the forward inputs and outputs that `inputs` and `outputs`
/// select, each in order. Its outputs are the gradients of all forward inputs except the mutable ones, with the shapes and types of those
/// inputs, then the inputs that `updates` lists. The request of a gradient may be null.
#[derive(Clone, Copy)]
pub struct Backward {
    /// The kernel.
    pub kernel: KernelFn,
    /// A foreign function in place of the kernel. It runs without the engine's locks, with the cache of the forward node.
    pub foreign: Option<ForeignFn>,
    /// Output gradients that it reads.
    pub ograds: Deps,
    /// Whether the kernel reads output gradients, if that depends on the parameters.
    pub reads_ograds: Option<fn(&Params) -> bool>,
    /// Forward inputs that it reads.
    pub inputs: Deps,
    /// Forward outputs that it reads.
    pub outputs: Deps,
    /// Pairs (kernel input, kernel output) that may be the same memory.
    pub inplace: &'static [(usize, usize)],
    /// Whether the kernel handles [`Req::Add`](crate::storage::Req::Add) itself.
    pub is_accumulating: bool,
    /// Whether the kernel is elementwise, so that it may run block by block in a fused chain.
    pub is_pointwise: bool,
    /// Whether the kernel consists of loops; see [`Operator::consists_of_loops`](crate::op::Operator::consists_of_loops()).
    pub consists_of_loops: bool,
    /// The sparse implementation; its inputs and outputs are those of the kernel.
    pub sparse: Option<SparseForm>,
    /// The gradients to which the storage type rule of the sparse implementation applies; the others are dense.
    pub sparse_gradients: Deps,
    /// Inputs of the kernel that it mutates: auxiliary states. They follow the gradients as [`Out`]s.
    pub updates: &'static [usize],
}

impl Backward {
    /// A kernel that reads all output gradients and nothing else.
    pub const fn new(kernel: KernelFn) -> Backward {
        Backward {
            kernel,
            foreign: None,
            ograds: Deps::All,
            reads_ograds: None,
            inputs: Deps::None,
            outputs: Deps::None,
            inplace: &[],
            is_accumulating: false,
            is_pointwise: false,
            consists_of_loops: false,
            sparse: None,
            sparse_gradients: Deps::All,
            updates: &[],
        }
    }

    /// A function that runs without the engine's locks, reads all output gradients and handles every request.
    pub const fn foreign(f: ForeignFn) -> Backward {
        Backward { foreign: Some(f), is_accumulating: true, ..Backward::new(no_kernel) }
    }

    /// The output gradients that the kernel reads; a loss reads none.
    pub const fn ograds(mut self, deps: Deps) -> Backward {
        self.ograds = deps;
        self
    }

    /// Output gradients are read only if the predicate holds; otherwise the operator is a loss.
    pub const fn ograds_if(mut self, reads: fn(&Params) -> bool) -> Backward {
        self.reads_ograds = Some(reads);
        self
    }

    /// The output gradients that the kernel reads with these parameters.
    pub fn ograds_for(&self, params: &Params) -> Deps {
        match self.reads_ograds {
            Some(reads) if !reads(params) => Deps::None,
            _ => self.ograds,
        }
    }

    /// The forward inputs that the kernel reads.
    pub const fn inputs(mut self, deps: Deps) -> Backward {
        self.inputs = deps;
        self
    }

    /// The forward outputs that the kernel reads.
    pub const fn outputs(mut self, deps: Deps) -> Backward {
        self.outputs = deps;
        self
    }

    /// Pairs (kernel input, kernel output) that may be the same memory.
    pub const fn inplace(mut self, pairs: &'static [(usize, usize)]) -> Backward {
        self.inplace = pairs;
        self
    }

    /// The kernel handles [`Req::Add`](crate::storage::Req::Add) itself.
    pub const fn accumulates(mut self) -> Backward {
        self.is_accumulating = true;
        self
    }

    /// The sparse implementation; `rule` infers the storage types of the gradients.
    pub const fn sparse(mut self, rule: SparseRule, run: SparseFn) -> Backward {
        self.sparse = Some(SparseForm { rule, run, of_outputs: None, from_dense: |_| true });
        self
    }

    /// The sparse implementation.
    pub const fn sparse_form(mut self, form: SparseForm) -> Backward {
        self.sparse = Some(form);
        self
    }

    /// The gradients to which the rule of [`Backward::sparse`] applies; the others are dense.
    pub const fn sparse_gradients(mut self, deps: Deps) -> Backward {
        self.sparse_gradients = deps;
        self
    }

    /// Inputs of the kernel that it mutates, such as moving averages.
    pub const fn updates(mut self, inputs: &'static [usize]) -> Backward {
        self.updates = inputs;
        self
    }

    /// The kernel is elementwise on operands of equal shapes.
    pub const fn pointwise(mut self) -> Backward {
        self.is_pointwise = true;
        self
    }

    /// The kernel consists of loops; see [`Operator::consists_of_loops`](crate::op::Operator::consists_of_loops()).
    pub const fn consists_of_loops(mut self) -> Backward {
        self.consists_of_loops = true;
        self
    }
}

fn no_kernel(ctx: &OpCtx<'_>, _: &[In<'_>], _: &mut [Out<'_>]) -> Result<()> {
    Err(Error::Internal(format!("the gradient of {} has no kernel", ctx.op)))
}

/// The gradient of an operator.
#[derive(Clone, Copy)]
pub enum Grad {
    /// The operator is not differentiable: requesting its gradient is an error.
    None,
    /// The gradients of all inputs are zero.
    Zero,
    /// A kernel, and optionally the same gradient composed of operators, which can be differentiated again.
    Kernel(Backward, Option<Compose>),
    /// Composed of other operators, which can be differentiated again.
    Compose(Compose),
    /// Depends on the parameters; see [`OpDef::gradient`].
    By(fn(&Params) -> Grad),
}

/// The gradient and the storage types of the arrays for it.
#[derive(Clone, Copy)]
pub struct Gradient {
    /// How the gradient is computed.
    pub rule: Grad,
    /// The storage types of the gradients that `simple_bind` allocates.
    pub storage: GradientStorage,
}

impl Gradient {
    /// No gradient.
    pub(super) const fn new() -> Gradient {
        Gradient { rule: Grad::None, storage: GradientStorage::Composed }
    }
}

impl OpDef {
    /// The gradient of a call with these parameters; never [`Grad::By`].
    pub fn gradient(&self, params: &Params) -> Grad {
        match self.gradient.rule {
            Grad::By(f) => f(params),
            grad => grad,
        }
    }
}
