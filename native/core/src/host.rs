//! Operators that run on arrays, outside of the engine's kernels and without its locks: those that users write.
//!
//! A [`HostFactory`] is registered under a name, the `op_type` of the operator `Custom`. For every node of that type it makes a
//! [`HostOperator`] from the node's attributes, which answers questions about names, shapes and types, and which makes a
//! [`HostInstance`] for every executor or recorded call that runs the node. The C API and the JVM both come in here.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::context::Context;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::grad::{Entry, GradGraph, GradNode};
use crate::ndarray::NDArray;
use crate::params::Attrs;
use crate::shape::Shape;
use crate::storage::Req;

/// What inference found out about the arrays around an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Inferred<T> {
    /// Inputs, as far as they are known.
    pub ins: Vec<T>,
    /// Outputs.
    pub outs: Vec<T>,
    /// Auxiliary states.
    pub states: Vec<T>,
}

/// A user-defined operator with its properties: what one node of a graph is.
pub trait HostOperator: Send + Sync {
    /// Names of the inputs.
    fn inputs(&self) -> Vec<String> {
        vec!["data".into()]
    }

    /// Names of the outputs.
    fn outputs(&self) -> Vec<String> {
        vec!["output".into()]
    }

    /// Names of the auxiliary states, which the operator may change.
    fn states(&self) -> Vec<String> {
        Vec::new()
    }

    /// Shapes of everything from what is known of the shapes of inputs and outputs.
    ///
    /// # Errors
    /// Shapes that the operator does not take, or too little is known; the latter is no error for the graph as long as an input's
    /// shape is not whole.
    fn infer_shape(&self, ins: &[Shape], outs: &[Shape]) -> Result<Inferred<Shape>>;

    /// Element types of everything from what is known of the types of inputs and outputs; by default the first known one for all.
    ///
    /// # Errors
    /// Types that the operator does not take; see [`HostOperator::infer_shape`].
    fn infer_dtype(&self, ins: &[Option<DType>], outs: &[Option<DType>]) -> Result<Inferred<Option<DType>>> {
        let first = ins.iter().chain(outs).flatten().next().copied();
        Ok(Inferred {
            ins: ins.iter().map(|d| d.or(first)).collect(),
            outs: vec![first; self.outputs().len()],
            states: vec![first; self.states().len()],
        })
    }

    /// Whether the gradient reads the gradients of the outputs; a loss does not.
    fn reads_output_gradients(&self) -> bool {
        true
    }

    /// Whether the operator may serve several calls on arrays, each with an instance of its own.
    fn is_reusable(&self) -> bool {
        false
    }

    /// Whether the gradient is composed of operators, by [`HostOperator::compose`], instead of computed by an instance.
    fn is_composed(&self) -> bool {
        false
    }

    /// Adds the operators that compute the gradients of the inputs, states not included.
    ///
    /// # Errors
    /// Whatever the user's code says.
    fn compose(&self, graph: &mut dyn GradGraph, node: &GradNode<'_>) -> Result<Vec<Option<Entry>>> {
        let _ = (graph, node);
        Err(Error::Internal("a gradient that an instance computes is not composed of operators".into()))
    }

    /// An instance for a node that is about to run with inputs of these shapes and types.
    ///
    /// # Errors
    /// Whatever the user's code says.
    fn create(&self, context: Context, shapes: &[Shape], dtypes: &[DType]) -> Result<Box<dyn HostInstance>>;
}

/// The arrays of a forward call. They are the engine's own, not copies: inputs must not be written. Whoever hands them to foreign code
/// hands out [read-only](NDArray::read_only) ones.
pub struct HostCall<'a> {
    /// Training or inference.
    pub is_train: bool,
    /// Inputs.
    pub ins: &'a [NDArray],
    /// Outputs.
    pub outs: &'a [NDArray],
    /// What to do with each output.
    pub reqs: &'a [Req],
    /// Auxiliary states.
    pub states: &'a [NDArray],
}

/// The arrays of a backward call.
pub struct HostGradient<'a> {
    /// Training or inference.
    pub is_train: bool,
    /// Gradients of the outputs; none if the operator does not read them.
    pub ograds: &'a [NDArray],
    /// Inputs of the forward call.
    pub ins: &'a [NDArray],
    /// Outputs of the forward call.
    pub outs: &'a [NDArray],
    /// Where the gradients of the inputs go.
    pub igrads: &'a [NDArray],
    /// What to do with each gradient.
    pub reqs: &'a [Req],
    /// Auxiliary states.
    pub states: &'a [NDArray],
}

/// A user-defined operator of one node in one executor or recorded call. It may keep what its forward call found for the gradient.
pub trait HostInstance: Send {
    /// Computes the outputs.
    ///
    /// # Errors
    /// Whatever the user's code says.
    fn forward(&mut self, call: &HostCall<'_>) -> Result<()>;

    /// Computes the gradients of the inputs.
    ///
    /// # Errors
    /// Whatever the user's code says.
    fn backward(&mut self, call: &HostGradient<'_>) -> Result<()>;
}

/// Makes the operators of one type.
pub trait HostFactory: Send + Sync {
    /// The operator with these properties.
    ///
    /// # Errors
    /// Properties that the operator does not have or take.
    fn make(&self, attrs: &Attrs) -> Result<Arc<dyn HostOperator>>;
}

type Factories = HashMap<String, Arc<dyn HostFactory>>;

static FACTORIES: RwLock<Option<Factories>> = RwLock::new(None);

static GENERATION: AtomicU64 = AtomicU64::new(1);

/// A number that changes whenever a type is registered.
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

/// Looks for a type that nobody has registered; a JVM looks through its class path.
pub type Resolver = Arc<dyn Fn(&str) -> Result<Option<Arc<dyn HostFactory>>> + Send + Sync>;

static RESOLVER: RwLock<Option<Resolver>> = RwLock::new(None);

/// Sets what looks for types that nobody has registered.
pub fn set_resolver(resolver: Resolver) {
    *RESOLVER.write() = Some(resolver);
}

/// Registers a type of operators. A type of the same name is replaced for nodes that are made from now on, as in MXNet; returns
/// whether there was one.
pub fn register(op_type: &str, factory: Arc<dyn HostFactory>) -> bool {
    GENERATION.fetch_add(1, Ordering::Release);
    let mut all = FACTORIES.write();
    all.get_or_insert_with(Factories::new).insert(op_type.into(), factory).is_some()
}

/// The factory of a type, if there is one of this name.
///
/// # Errors
/// Those of the [`Resolver`].
pub fn lookup(op_type: &str) -> Result<Option<Arc<dyn HostFactory>>> {
    let registered = FACTORIES.read().as_ref().and_then(|all| all.get(op_type)).cloned();
    if registered.is_some() {
        return Ok(registered);
    }
    // The locks are free while the resolver runs: it may register types.
    let resolver = RESOLVER.read().clone();
    let Some(found) = resolver.map(|resolve| resolve(op_type)).transpose()?.flatten() else { return Ok(None) };
    let mut all = FACTORIES.write();
    Ok(Some(all.get_or_insert_with(Factories::new).entry(op_type.into()).or_insert(found).clone()))
}

/// The error for a type that is not there, which says how to supply it.
pub fn unknown(op_type: &str) -> Error {
    Error::NotFound(format!(
        "the user-defined operator '{op_type}' is not registered: put the class that is annotated with @UserDefinedOp and has this \
         opName on the class path, or register it by Operator.register in Scala, mx.operator.register in Python or \
         MXCustomOpRegister in C"
    ))
}

/// The factory of a type.
///
/// # Errors
/// There is none of this name; those of [`lookup`].
pub fn find(op_type: &str) -> Result<Arc<dyn HostFactory>> {
    lookup(op_type)?.ok_or_else(|| unknown(op_type))
}

/// A graph inside of an operator: the body of a loop, a condition, a branch.
pub trait Subgraph: Send + Sync {
    /// Number of inputs.
    fn inputs(&self) -> usize;

    /// Number of outputs.
    fn outputs(&self) -> usize;

    /// Positions of the inputs that the graph changes.
    fn states(&self) -> &[usize];

    /// Completes shapes of inputs and outputs.
    ///
    /// # Errors
    /// Shapes that contradict each other.
    fn infer_shape(&self, ins: &mut [Shape], outs: &mut [Shape]) -> Result<()>;

    /// Completes element types of inputs and outputs.
    ///
    /// # Errors
    /// Types that contradict each other.
    fn infer_dtype(&self, ins: &mut [Option<DType>], outs: &mut [Option<DType>]) -> Result<()>;

    /// Plans the graph for these inputs. `grads` are places for their gradients; without any the graph computes none.
    ///
    /// # Errors
    /// Arrays that do not fit the graph, an operator without gradient, no memory.
    fn bind(&self, context: Context, ins: &[NDArray], grads: &[Option<(NDArray, Req)>]) -> Result<Box<dyn BoundGraph>>;
}

/// A [`Subgraph`] with its arrays.
pub trait BoundGraph: Send {
    /// The outputs, which the next forward call overwrites.
    fn outputs(&self) -> &[NDArray];

    /// Computes the outputs.
    ///
    /// # Errors
    /// Those of the operators.
    fn forward(&self, is_train: bool) -> Result<()>;

    /// Computes the gradients of the inputs from those of the outputs.
    ///
    /// # Errors
    /// Those of the operators.
    fn backward(&self, ograds: &[NDArray], is_train: bool) -> Result<()>;
}
