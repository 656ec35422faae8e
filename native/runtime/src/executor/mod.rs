//! Executors: a graph bound to arrays and compiled to a plan, which runs without allocating.
//!
//! - `bind` and `simple_bind` check or allocate the arrays (`bound_arrays`) and build the graph with its gradients (`network`);
//! - `compile` compiles a graph to a plan, with `assign_memory` for its arenas, `chain` for chains of elementwise operators and `overlaps`
//!   to find aliases;
//! - `plan` runs the steps of one plan, and `plans` holds the plans of an executor;
//! - `reports` lists the arrays that a monitor gets, and the order of steps that gives MXNet's order;
//! - `stepwise` runs graphs that cannot have a plan, operator by operator;
//! - `subgraph` infers and runs the graphs inside operators, such as loop bodies.

mod assign_memory;
mod bind;
mod bound_arrays;
mod chain;
mod compile;
mod network;
mod overlaps;
mod plan;
mod plans;
mod reports;
mod simple_bind;
mod stepwise;
mod subgraph;

use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Mode;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::Array;
use ferromx_core::storage::Req;
use ferromx_ops::sparse::cast::to_dense;
use parking_lot::Mutex;

pub use bound_arrays::{Bound, BoundStored};
use plans::PlanLock;
pub use simple_bind::SimpleBind;
use stepwise::Stepwise;

use crate::arrays;
use crate::imperative::Tensor;
pub use crate::passes::devices::Devices;
use crate::symbol::Symbol;

/// A callback that gets the name and a copy of every output of every operator that ran and of every gradient, and optionally of the
/// operators' inputs.
pub type Monitor = Arc<dyn Fn(&str, Array) + Send + Sync>;

/// A monitor that is installed in an executor.
#[derive(Clone)]
struct InstalledMonitor {
    callback: Monitor,
    /// Whether it gets the inputs of operators, too.
    monitor_all: bool,
}

/// A callback of a backward pass that gets the index of each argument whose gradient is complete.
pub type OnComplete<'c> = &'c mut dyn FnMut(usize) -> Result<()>;

/// The changes of shapes that [`Executor::reshape`] allows.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReshapeOptions {
    /// Arrays without a given shape may change theirs.
    pub partial_shaping: bool,
    /// Arrays may grow.
    pub allow_up_sizing: bool,
}

/// A symbol bound to its arguments, gradients and auxiliary states.
pub struct Executor {
    symbol: Symbol,
    /// The symbol without common subexpressions.
    optimized: Symbol,
    devices: Devices,
    args: Vec<NDArray>,
    grads: Vec<Option<NDArray>>,
    reqs: Vec<Req>,
    aux: Vec<NDArray>,
    outputs: Vec<NDArray>,
    /// Arguments that a forward pass fills with constants.
    filled: Vec<(NDArray, f64)>,
    execution: Execution,
    monitor: Mutex<Option<InstalledMonitor>>,
}

/// The execution of a graph: by plans, or operator by operator.
enum Execution {
    /// Runs compiled plans.
    Planned(Box<PlanLock>),
    /// Runs operator by operator, because arrays are sparse or shapes depend on values. Such an executor lists only dense arrays, and its
    /// outputs are tensors.
    Stepwise(Box<Stepwise>),
}

impl Executor {
    /// Computes the outputs.
    ///
    /// # Errors
    /// Errors of the operators, with operator and node name.
    pub fn forward(&self, mode: Mode) -> Result<()> {
        self.filled.iter().try_for_each(|(array, value)| arrays::fill(array, *value))?;
        let monitor = self.monitor.lock().clone();
        match &self.execution {
            Execution::Planned(plans) => plans.enter()?.forward(mode, monitor.as_ref()),
            Execution::Stepwise(steps) => steps.forward(mode, monitor.as_ref()),
        }
    }

    /// Runs one operator of the forward pass in inference mode and returns the number of remaining steps. The outputs are valid once all
    /// steps have run in order from 0. Without a plan, step 0 runs all operators. A step past the last does nothing.
    ///
    /// # Errors
    /// The operator's errors.
    pub fn partial_forward(&self, step: usize) -> Result<usize> {
        let monitor = self.monitor.lock().clone();
        match &self.execution {
            Execution::Planned(plans) => plans.enter()?.partial_forward(step, monitor.as_ref()),
            Execution::Stepwise(steps) if step == 0 => steps.forward(Mode::Inference, monitor.as_ref()).map(|()| 0),
            Execution::Stepwise(_) => Ok(0),
        }
    }

    /// Computes the gradients of the last forward pass. `head_grads` are the gradients of the outputs, in their order and of any type;
    /// those of losses and surplus ones are ignored. Does nothing if no gradient is requested. Large arrays are read in place: the executor
    /// refers to them until it gets others.
    ///
    /// # Errors
    /// A head gradient that is missing or has the wrong shape; errors of the operators.
    pub fn backward(&self, head_grads: &[NDArray], mode: Mode) -> Result<()> {
        match &self.execution {
            Execution::Planned(plans) => self.backward_by(plans, head_grads, mode, None),
            Execution::Stepwise(_) => {
                let head_grads: Vec<Array> = head_grads.iter().cloned().map(Array::Dense).collect();
                self.backward_stored(&head_grads, mode, None)
            }
        }
    }

    fn backward_by(
        &self,
        plans: &PlanLock,
        head_grads: &[NDArray],
        mode: Mode,
        on_complete: Option<OnComplete<'_>>,
    ) -> Result<()> {
        if self.reqs.iter().all(|r| *r == Req::Null) {
            return Ok(());
        }
        let monitor = self.monitor.lock().clone();
        let mut plans = plans.enter()?;
        plans.set_head_grads(&self.symbol, head_grads)?;
        plans.backward(mode, monitor.as_ref(), on_complete)
    }

    /// [`Executor::backward`] with head gradients of any storage type. `on_complete` is called for each requested gradient once the pass
    /// does not write to its array any more, usually while other gradients are still to be computed. The order of calls depends only on
    /// the symbol and the requests. An error of the callback ends the pass.
    ///
    /// # Errors
    /// Errors of [`Executor::backward`] and of the callback; inconsistent sparse arrays.
    pub fn backward_stored(&self, head_grads: &[Array], mode: Mode, on_complete: Option<OnComplete<'_>>) -> Result<()> {
        match &self.execution {
            Execution::Planned(plans) => {
                let head_grads = head_grads.iter().map(to_dense).collect::<Result<Vec<_>>>()?;
                self.backward_by(plans, &head_grads, mode, on_complete)
            }
            Execution::Stepwise(steps) => {
                let monitor = self.monitor.lock().clone();
                steps.backward(head_grads, mode, monitor.as_ref(), on_complete)
            }
        }
    }

    /// The outputs as tensors that hold the results of the last forward pass.
    pub fn output_tensors(&self) -> Vec<Arc<Tensor>> {
        match &self.execution {
            Execution::Planned(_) => self.outputs.iter().map(|y| Arc::new(Tensor::new(y.clone()))).collect(),
            Execution::Stepwise(steps) => steps.outputs().to_vec(),
        }
    }

    /// The arguments as bound, dense or sparse; see [`Executor::args`].
    pub fn stored_args(&self) -> Vec<Array> {
        match &self.execution {
            Execution::Planned(_) => self.args.iter().cloned().map(Array::Dense).collect(),
            Execution::Stepwise(steps) => steps.bound.args.clone(),
        }
    }

    /// The auxiliary states, dense or sparse; see [`Executor::aux`].
    pub fn stored_aux(&self) -> Vec<Array> {
        match &self.execution {
            Execution::Planned(_) => self.aux.iter().cloned().map(Array::Dense).collect(),
            Execution::Stepwise(steps) => steps.bound.aux.clone(),
        }
    }

    /// The gradients, dense or sparse; see [`Executor::grads`].
    pub fn stored_grads(&self) -> Vec<Option<Array>> {
        match &self.execution {
            Execution::Planned(_) => self.grads.iter().map(|g| g.clone().map(Array::Dense)).collect(),
            Execution::Stepwise(steps) => steps.bound.grads.clone(),
        }
    }

    /// The output arrays. The next forward pass overwrites them; they outlive the executor. Empty without a plan: see
    /// [`Executor::output_tensors`].
    pub fn outputs(&self) -> &[NDArray] {
        &self.outputs
    }

    /// The arguments in the order of [`Symbol::list_arguments`].
    pub fn args(&self) -> &[NDArray] {
        &self.args
    }

    /// The gradients in the order of the arguments; `None` where none was requested.
    pub fn grads(&self) -> &[Option<NDArray>] {
        &self.grads
    }

    /// The auxiliary states in the order of [`Symbol::list_auxiliary_states`].
    pub fn aux(&self) -> &[NDArray] {
        &self.aux
    }

    /// The bound symbol.
    pub fn symbol(&self) -> &Symbol {
        &self.symbol
    }

    /// The bound symbol without its common subexpressions.
    pub fn optimized(&self) -> &Symbol {
        &self.optimized
    }

    /// The device of nodes without a context group.
    pub fn context(&self) -> Context {
        self.devices.default
    }

    /// Installs a monitor, or removes it. With `monitor_all` it gets the inputs of operators, too. A monitored plan has no fusion.
    pub fn set_monitor(&self, monitor: Option<Monitor>, monitor_all: bool) {
        *self.monitor.lock() = monitor.map(|callback| InstalledMonitor { callback, monitor_all });
    }

    /// Binds the same symbol for other input shapes. Arrays that keep their shape are shared. The others are views of the old memory if
    /// it is large enough, and are allocated otherwise.
    ///
    /// # Errors
    /// A change that `options` do not allow; the shape of a sparse array changes.
    pub fn reshape(&self, options: ReshapeOptions, shapes: &[(String, Shape)]) -> Result<Executor> {
        bind::reshape(self, options, shapes)
    }

    /// A listing of the plan: the operators in order of execution, and the memory.
    pub fn debug_string(&self) -> String {
        let plans = match &self.execution {
            Execution::Planned(plans) => plans.enter().map_or_else(|e| e.to_string(), |plans| plans.describe()),
            Execution::Stepwise(_) => plan::describe_stepwise(),
        };
        format!("{}{plans}", self.optimized.debug_string())
    }
}

/// The head gradient of output `i`, which `backward` needs.
///
/// # Errors
/// It is missing or does not have the output's shape.
fn head_grad<'a, A>(
    symbol: &Symbol,
    i: usize,
    head_grads: &'a [A],
    expected: &Shape,
    shape: fn(&A) -> &Shape,
) -> Result<&'a A> {
    let Some(given) = head_grads.get(i) else {
        return Err(Error::Value(format!(
            "Because the last operator is not Loss function, head_gradient is required when calling backward. If you are attempting to \
             minimize the output as an objective, please modify your network and pass it through the make_loss symbol. Output {i} ({}) \
             has no head gradient: pass one array for each output",
            symbol.list_outputs()[i]
        )));
    };
    ensure!(
        shape(given) == expected,
        "operands shape mismatch from.shape = {} to.shape={expected}: the head gradient of output {i} must have its shape",
        shape(given)
    );
    Ok(given)
}
