//! How operators declare their gradients. One builder in the runtime serves the symbolic pass and the imperative tape.

use crate::error::{Error, Result};
use crate::op::{Deps, HostFn, KernelFn, OpCtx, OpDef, SparseFn, SparseForm, SparseRule};
use crate::params::{Attrs, Params};
use crate::storage::{In, Out};

/// One output of one node of the graph in which a gradient is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// Node number in the graph under construction.
    pub node: u32,
    /// Which of its outputs.
    pub index: u32,
}

/// The graph in which a composed gradient adds its operators.
pub trait GradGraph {
    /// Adds an operator and returns all its outputs.
    ///
    /// # Errors
    /// No such operator; parameters that do not parse.
    fn apply(&mut self, op: &str, inputs: &[Entry], attrs: &[(&str, &str)]) -> Result<Vec<Entry>>;

    /// Adds a node of another graph: an operator whose parameters are parsed already.
    ///
    /// # Errors
    /// Those of [`GradGraph::apply`].
    fn copy(&mut self, node: &Copied<'_>, inputs: &[Entry]) -> Result<Vec<Entry>> {
        let attrs: Vec<(&str, &str)> = node.attrs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        self.apply(node.name, inputs, &attrs)
    }

    /// Adds an operator and returns its first output.
    fn apply1(&mut self, op: &str, inputs: &[Entry], attrs: &[(&str, &str)]) -> Result<Entry> {
        Ok(self.apply(op, inputs, attrs)?[0])
    }
}

/// A node that is copied into a gradient's graph.
pub struct Copied<'a> {
    /// The operator's name.
    pub name: &'static str,
    /// Its definition.
    pub def: &'static OpDef,
    /// Its parameters.
    pub params: &'a Params,
    /// They and whatever else the node carries, as text.
    pub attrs: &'a Attrs,
}

/// The forward node whose gradient is built.
pub struct GradNode<'a> {
    /// Its parameters.
    pub params: &'a Params,
    /// Its attributes as text, for operators that take the same ones.
    pub attrs: &'a [(&'a str, &'a str)],
    /// Its inputs.
    pub inputs: &'a [Entry],
    /// Its outputs, hidden ones included.
    pub outputs: &'a [Entry],
    /// Gradients of its visible outputs; zeros where nothing flows back.
    pub ograds: &'a [Entry],
}

/// Builds the gradients of all inputs; `None` where an input has none (its gradient is then zero).
pub type Compose = fn(&mut dyn GradGraph, &GradNode<'_>) -> Result<Vec<Option<Entry>>>;

/// A gradient computed by a kernel of its own.
///
/// The kernel's inputs are the gradients of the outputs in `ograds`, then the forward `inputs`, then the forward `outputs` that
/// it asked for, each in order. Its outputs are the gradients of all forward inputs but the mutable ones, with the shapes and
/// types of those inputs; some may be unwanted.
#[derive(Clone, Copy)]
pub struct Backward {
    /// The kernel.
    pub kernel: KernelFn,
    /// What runs instead of the kernel, without the engine's locks, and with the cache of the forward node.
    pub host: Option<HostFn>,
    /// Output gradients that it reads.
    pub ograds: Deps,
    /// Whether the output gradients are read at all, where the parameters decide it.
    pub reads_ograds: Option<fn(&Params) -> bool>,
    /// Forward inputs that it reads.
    pub inputs: Deps,
    /// Forward outputs that it reads.
    pub outputs: Deps,
    /// Pairs (kernel input, kernel output) that may be the same memory.
    pub inplace: &'static [(usize, usize)],
    /// Whether the kernel itself handles a request to add.
    pub accumulates: bool,
    /// Whether it works element by element, so that it may run block by block inside a fused chain.
    pub pointwise: bool,
    /// The computation where operands are sparse; its inputs and outputs are those of the kernel.
    pub sparse: Option<SparseForm>,
}

impl Backward {
    /// A kernel that reads all output gradients and nothing else.
    pub const fn new(kernel: KernelFn) -> Backward {
        Backward {
            kernel,
            host: None,
            ograds: Deps::All,
            reads_ograds: None,
            inputs: Deps::None,
            outputs: Deps::None,
            inplace: &[],
            accumulates: false,
            pointwise: false,
            sparse: None,
        }
    }

    /// A function that runs without the engine's locks, reads all output gradients and handles every request.
    pub const fn host(f: HostFn) -> Backward {
        Backward { host: Some(f), accumulates: true, ..Backward::new(no_kernel) }
    }

    /// Which output gradients the kernel reads; a loss reads none.
    pub const fn ograds(mut self, deps: Deps) -> Backward {
        self.ograds = deps;
        self
    }

    /// The output gradients are read only where the predicate holds; otherwise the operator is a loss.
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

    /// Which forward inputs the kernel reads.
    pub const fn inputs(mut self, deps: Deps) -> Backward {
        self.inputs = deps;
        self
    }

    /// Which forward outputs the kernel reads.
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
        self.accumulates = true;
        self
    }

    /// The form for sparse operands, with the storage of the gradients that it makes sparse.
    pub const fn sparse(mut self, rule: SparseRule, run: SparseFn) -> Backward {
        self.sparse = Some(SparseForm { rule, run, from_dense: true });
        self
    }

    /// The kernel works element by element on equally shaped operands.
    pub const fn pointwise(mut self) -> Backward {
        self.pointwise = true;
        self
    }
}

fn no_kernel(ctx: &OpCtx<'_>, _: &[In<'_>], _: &mut [Out<'_>]) -> Result<()> {
    Err(Error::Internal(format!("the gradient of {} has no kernel", ctx.op)))
}

/// The gradient of an operator.
#[derive(Clone, Copy)]
pub enum Grad {
    /// Asking for it is an error that says so.
    None,
    /// The gradients of all inputs are zero.
    Zero,
    /// A kernel, and optionally the same gradient composed of operators, which is used where it is differentiated again.
    Kernel(Backward, Option<Compose>),
    /// Composed of other operators, hence differentiable again.
    Compose(Compose),
    /// The parameters decide it; see [`OpDef::gradient`].
    By(fn(&Params) -> Grad),
}
