//! User operators, which run on arrays outside the engine's kernels and without its locks.
//!
//! A [`UserOpFactory`] is registered under a name, the `op_type` of the operator `Custom`. For each node of that type it creates a
//! [`UserOperator`] from the node's attributes, which infers names, shapes and types and creates a [`UserOpInstance`] for each executor or
//! recorded call that runs the node. The C API and the JVM both register their operators here.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::context::Context;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::grad::{Entry, GradGraph, GradNode};
use crate::params::Attrs;
use crate::shape::Shape;
use crate::sparse::{Array, StorageType};
use crate::storage::Req;

/// The shapes or types of an operator's arguments, as inferred.
#[derive(Clone, Debug, PartialEq)]
pub struct InferredArgs<T> {
    /// Inputs; may be partially unknown.
    pub ins: Vec<T>,
    /// Outputs.
    pub outs: Vec<T>,
    /// Auxiliary states.
    pub states: Vec<T>,
}

/// A user operator with its attributes: one node of a graph.
pub trait UserOperator: Send + Sync {
    /// Names of the inputs.
    fn inputs(&self) -> Vec<String> {
        vec!["data".into()]
    }

    /// Names of the outputs.
    fn outputs(&self) -> Vec<String> {
        vec!["output".into()]
    }

    /// Names of the auxiliary states, which the operator may modify.
    fn states(&self) -> Vec<String> {
        Vec::new()
    }

    /// Infers all shapes from the known ones of inputs and outputs.
    ///
    /// # Errors
    /// Shapes that the operator does not accept, or unknown ones that it needs. While an input's shape is not fully known,
    /// inference ignores the error and tries again later.
    fn infer_shape(&self, ins: &[Shape], outs: &[Shape]) -> Result<InferredArgs<Shape>>;

    /// Infers all element types from the known ones of inputs and outputs; by default all are the first known one.
    ///
    /// # Errors
    /// Types that the operator does not accept; see [`UserOperator::infer_shape`].
    fn infer_dtype(&self, ins: &[Option<DType>], outs: &[Option<DType>]) -> Result<InferredArgs<Option<DType>>> {
        let first = ins.iter().chain(outs).flatten().next().copied();
        Ok(InferredArgs {
            ins: ins.iter().map(|d| d.or(first)).collect(),
            outs: vec![first; self.outputs().len()],
            states: vec![first; self.states().len()],
        })
    }

    /// Infers all storage types from those of the inputs. `None`: the operator gets dense copies of sparse arrays and returns dense arrays.
    ///
    /// # Errors
    /// Storage types that the operator does not accept.
    fn infer_storage(&self, ins: &[StorageType]) -> Result<Option<InferredArgs<StorageType>>> {
        let _ = ins;
        Ok(None)
    }

    /// Infers the storage types of the input gradients from those of the output gradients, the inputs, the outputs and the auxiliary
    /// states. `None`: `backward` gets dense copies of sparse arrays and returns dense gradients.
    ///
    /// # Errors
    /// Storage types that the operator does not accept.
    fn infer_gradient_storage(
        &self,
        ograds: &[StorageType],
        ins: &[StorageType],
        outs: &[StorageType],
        states: &[StorageType],
    ) -> Result<Option<Vec<StorageType>>> {
        let _ = (ograds, ins, outs, states);
        Ok(None)
    }

    /// True if the gradient depends on the gradients of the outputs; false for a loss.
    fn reads_output_gradients(&self) -> bool {
        true
    }

    /// True if several imperative calls may share the operator, each with its own instance.
    fn is_reusable(&self) -> bool {
        false
    }

    /// True if the gradient is composed of operators by [`UserOperator::compose`]; false if an instance computes it.
    fn is_composed(&self) -> bool {
        false
    }

    /// Adds the operators that compute the gradients of the inputs, without the auxiliary states.
    ///
    /// # Errors
    /// Errors of the user's code.
    fn compose(&self, graph: &mut dyn GradGraph, node: &GradNode<'_>) -> Result<Vec<Option<Entry>>> {
        let _ = (graph, node);
        Err(Error::Internal("a gradient that an instance computes is not composed of operators".into()))
    }

    /// Creates the instance of a node for inputs of these shapes and types.
    ///
    /// # Errors
    /// Errors of the user's code.
    fn create(&self, context: Context, shapes: &[Shape], dtypes: &[DType]) -> Result<Box<dyn UserOpInstance>>;
}

/// The arrays of a forward call; only those that [`UserOperator::infer_storage`] allows are sparse. They are the engine's arrays, not
/// copies: inputs must not be written, so foreign code gets [read-only](crate::ndarray::NDArray::read_only) ones.
pub struct UserOpForward<'a> {
    /// True in training, false in inference.
    pub is_train: bool,
    /// Inputs.
    pub ins: &'a [Array],
    /// Outputs.
    pub outs: &'a [Array],
    /// The request of each output.
    pub reqs: &'a [Req],
    /// Auxiliary states.
    pub states: &'a [Array],
}

/// The arrays of a backward call; see [`UserOperator::infer_gradient_storage`].
pub struct UserOpBackward<'a> {
    /// True in training, false in inference.
    pub is_train: bool,
    /// Gradients of the outputs; empty if the operator does not read them.
    pub ograds: &'a [Array],
    /// Inputs of the forward call.
    pub ins: &'a [Array],
    /// Outputs of the forward call.
    pub outs: &'a [Array],
    /// Gradients of the inputs, to be written.
    pub igrads: &'a [Array],
    /// The request of each gradient.
    pub reqs: &'a [Req],
    /// Auxiliary states.
    pub states: &'a [Array],
}

/// The instance of a user operator for one node of one executor or recorded call. It may keep results of the forward call for the
/// backward call.
pub trait UserOpInstance: Send {
    /// Computes the outputs.
    ///
    /// # Errors
    /// Errors of the user's code.
    fn forward(&mut self, call: &UserOpForward<'_>) -> Result<()>;

    /// Computes the gradients of the inputs.
    ///
    /// # Errors
    /// Errors of the user's code.
    fn backward(&mut self, call: &UserOpBackward<'_>) -> Result<()>;
}

/// Creates the user operators of one type.
pub trait UserOpFactory: Send + Sync {
    /// The operator with these attributes.
    ///
    /// # Errors
    /// Attributes that the operator does not accept.
    fn make(&self, attrs: &Attrs) -> Result<Arc<dyn UserOperator>>;
}

type Factories = HashMap<String, Arc<dyn UserOpFactory>>;

static FACTORIES: RwLock<Option<Factories>> = RwLock::new(None);

static GENERATION: AtomicU64 = AtomicU64::new(1);

/// A counter that changes whenever a type is registered.
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

/// Finds a type that is not registered. The JNI interface sets one that searches the class path.
pub type Resolver = Arc<dyn Fn(&str) -> Result<Option<Arc<dyn UserOpFactory>>> + Send + Sync>;

static RESOLVER: RwLock<Option<Resolver>> = RwLock::new(None);

/// Sets the resolver of types that are not registered.
pub fn set_resolver(resolver: Resolver) {
    *RESOLVER.write() = Some(resolver);
}

/// Registers a type of user operators and returns true if it replaces one of the same name. As in MXNet, existing nodes keep the old
/// type.
pub fn register(op_type: &str, factory: Arc<dyn UserOpFactory>) -> bool {
    GENERATION.fetch_add(1, Ordering::Release);
    let mut all = FACTORIES.write();
    all.get_or_insert_with(Factories::new).insert(op_type.into(), factory).is_some()
}

/// The factory of a type, or `None` if there is none of this name.
///
/// # Errors
/// Errors of the [`Resolver`].
pub fn lookup(op_type: &str) -> Result<Option<Arc<dyn UserOpFactory>>> {
    let registered = FACTORIES.read().as_ref().and_then(|all| all.get(op_type)).cloned();
    if registered.is_some() {
        return Ok(registered);
    }
    // No lock is held while the resolver runs, as it may register types.
    let resolver = RESOLVER.read().clone();
    let Some(factory) = resolver.map(|resolve| resolve(op_type)).transpose()?.flatten() else { return Ok(None) };
    let mut all = FACTORIES.write();
    Ok(Some(all.get_or_insert_with(Factories::new).entry(op_type.into()).or_insert(factory).clone()))
}

/// The error for an unknown type. The message says how to supply it.
pub fn unknown(op_type: &str) -> Error {
    Error::NotFound(format!(
        "the user-defined operator '{op_type}' is not registered: put the class that is annotated with @UserDefinedOp and has this \
         opName on the class path, or register it with Operator.register in Scala, mx.operator.register in Python or \
         MXCustomOpRegister in C"
    ))
}

/// The factory of a type.
///
/// # Errors
/// There is no type of this name; see also [`lookup`].
pub fn find(op_type: &str) -> Result<Arc<dyn UserOpFactory>> {
    lookup(op_type)?.ok_or_else(|| unknown(op_type))
}
