//! Executors: a graph bound to arrays, compiled once into a flat plan that runs without allocating.

mod bind;
mod chain;
mod compile;
mod place;
mod plan;
mod plans;
mod reports;
mod simple_bind;
mod stepwise;

use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::Array;
use ferromx_core::storage::Req;
use ferromx_ops::sparse::cast::to_dense;
use parking_lot::Mutex;

pub use bind::{Bound, BoundStored, is_dynamic};
pub(crate) use compile::no_plan;
pub(crate) use plan::copy_kernel;
use plans::Guarded;
pub use simple_bind::SimpleBind;
use stepwise::Stepwise;

use crate::arrays;
use crate::imperative::Tensor;
pub use crate::passes::devices::Devices;
use crate::symbol::Symbol;

/// Called with the name and a copy of every output of every operator that ran, and of the gradients of its inputs; with inputs too if
/// so asked.
pub type Monitor = Arc<dyn Fn(&str, NDArray) + Send + Sync>;

/// A symbol bound to its arguments, gradients and auxiliary states.
pub struct Executor {
    symbol: Symbol,
    optimized: Symbol,
    devices: Devices,
    args: Vec<NDArray>,
    grads: Vec<Option<NDArray>>,
    reqs: Vec<Req>,
    aux: Vec<NDArray>,
    outputs: Vec<NDArray>,
    head_grads: Vec<Option<NDArray>>,
    engine: Engine,
    monitor: Mutex<Option<(Monitor, bool)>>,
}

/// How an executor runs.
enum Engine {
    /// By plans.
    Planned(Box<Guarded>),
    /// Operator by operator: there are sparse arrays, or shapes depend on contents. The executor's own lists of arrays are those of
    /// dense arguments, and there are no output arrays.
    Stepwise(Box<Stepwise>),
}

impl Executor {
    /// Computes the outputs.
    ///
    /// # Errors
    /// Those of the operators, with operator and node name.
    pub fn forward(&self, is_train: bool) -> Result<()> {
        let monitor = self.monitor.lock().clone();
        match &self.engine {
            Engine::Planned(plans) => plans.enter()?.forward(is_train, monitor.as_ref()),
            Engine::Stepwise(steps) => steps.forward(is_train, monitor.as_ref()),
        }
    }

    /// Runs one step of the forward pass for inference, with every operator by itself, and returns how many steps are left. The
    /// outputs are computed when all steps ran, from 0 on; without a plan the first step runs everything. A step that does not exist does nothing.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn partial_forward(&self, step: usize) -> Result<usize> {
        let monitor = self.monitor.lock().clone();
        match &self.engine {
            Engine::Planned(plans) => plans.enter()?.partial_forward(step, monitor.as_ref()),
            Engine::Stepwise(steps) if step == 0 => steps.forward(false, monitor.as_ref()).map(|()| 0),
            Engine::Stepwise(_) => Ok(0),
        }
    }

    /// Computes the gradients of the last training forward pass. Each output that is no loss needs its gradient in `head_grads`,
    /// in the order of the outputs, of any type; losses ignore theirs, and so is what is left over. Where no gradient was requested
    /// there is nothing to do.
    ///
    /// # Errors
    /// A missing or misshapen head gradient, those of the operators.
    pub fn backward(&self, head_grads: &[NDArray], is_train: bool) -> Result<()> {
        let plans = match &self.engine {
            Engine::Planned(plans) => plans,
            Engine::Stepwise(steps) => {
                let head_grads: Vec<Array> = head_grads.iter().cloned().map(Array::Dense).collect();
                return steps.backward(&head_grads, is_train);
            }
        };
        if self.reqs.iter().all(|r| *r == Req::Null) {
            return Ok(());
        }
        for (i, slot) in self.head_grads.iter().enumerate() {
            let Some(slot) = slot else { continue };
            let Some(given) = head_grads.get(i) else {
                return Err(Error::Value(format!(
                    "Because the last operator is not Loss function, head_gradient is required when calling backward. If you are \
                     attempting to minimize the output as an objective, please modify your network and pass it through the \
                     make_loss symbol. Output {i} ({}) has no head gradient: pass one array for each output",
                    self.symbol.list_outputs()[i]
                )));
            };
            ensure!(
                given.shape() == slot.shape(),
                "operands shape mismatch from.shape = {} to.shape={}: the head gradient of output {i} must have its shape",
                given.shape(),
                slot.shape()
            );
            arrays::copy_dense(given, slot)?;
        }
        let monitor = self.monitor.lock().clone();
        plans.enter()?.backward(is_train, monitor.as_ref())
    }

    /// [`Executor::backward`] with gradients of the outputs in any storage.
    ///
    /// # Errors
    /// Those of [`Executor::backward`]; sparse arrays whose parts do not fit together.
    pub fn backward_stored(&self, head_grads: &[Array], is_train: bool) -> Result<()> {
        match &self.engine {
            Engine::Planned(_) => {
                self.backward(&head_grads.iter().map(to_dense).collect::<Result<Vec<_>>>()?, is_train)
            }
            Engine::Stepwise(steps) => steps.backward(head_grads, is_train),
        }
    }

    /// The outputs as tensors that hold the results of the last forward pass.
    pub fn output_tensors(&self) -> Vec<Arc<Tensor>> {
        match &self.engine {
            Engine::Planned(_) => self.outputs.iter().map(|y| Arc::new(Tensor::new(y.clone()))).collect(),
            Engine::Stepwise(steps) => steps.outputs().to_vec(),
        }
    }

    /// The arguments in the storage that they are bound in; see [`Executor::args`].
    pub fn stored_args(&self) -> Vec<Array> {
        match &self.engine {
            Engine::Planned(_) => self.args.iter().cloned().map(Array::Dense).collect(),
            Engine::Stepwise(steps) => steps.bound.args.clone(),
        }
    }

    /// The auxiliary states in their storage; see [`Executor::aux`].
    pub fn stored_aux(&self) -> Vec<Array> {
        match &self.engine {
            Engine::Planned(_) => self.aux.iter().cloned().map(Array::Dense).collect(),
            Engine::Stepwise(steps) => steps.bound.aux.clone(),
        }
    }

    /// The gradients in their storage; see [`Executor::grads`].
    pub fn stored_grads(&self) -> Vec<Option<Array>> {
        match &self.engine {
            Engine::Planned(_) => self.grads.iter().map(|g| g.clone().map(Array::Dense)).collect(),
            Engine::Stepwise(steps) => steps.bound.grads.clone(),
        }
    }

    /// The output arrays of a plan. They are overwritten by the next forward pass and stay valid when the executor is gone. Without a
    /// plan there are none: see [`Executor::output_tensors`].
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

    /// The symbol that is bound.
    pub fn symbol(&self) -> &Symbol {
        &self.symbol
    }

    /// The symbol that is bound, without repeated expressions.
    pub fn optimized(&self) -> &Symbol {
        &self.optimized
    }

    /// The device of what belongs to no group.
    pub fn context(&self) -> Context {
        self.devices.default
    }

    /// Installs a monitor, or removes it. While there is one, operators run one by one.
    pub fn set_monitor(&self, monitor: Option<Monitor>, inputs_too: bool) {
        *self.monitor.lock() = monitor.map(|m| (m, inputs_too));
    }

    /// An executor of the same symbol for other input shapes. Arrays whose shape stays are shared, others are views of the old
    /// memory where it suffices, and new where `allow_up_sizing` permits.
    ///
    /// # Errors
    /// A shape changes that was not given and `partial_shaping` is false; a larger array is needed and `allow_up_sizing` is false.
    pub fn reshape(
        &self,
        partial_shaping: bool,
        allow_up_sizing: bool,
        shapes: &[(String, Shape)],
    ) -> Result<Executor> {
        let is_sparse = match &self.engine {
            Engine::Planned(_) => false,
            Engine::Stepwise(steps) => steps.bound.has_sparse(),
        };
        ensure!(!is_sparse, "an executor that is bound to sparse arrays cannot be reshaped: bind the symbol again");
        bind::reshape(self, partial_shaping, allow_up_sizing, shapes)
    }

    /// A listing of the plan: operators in order of execution and memory.
    pub fn debug_string(&self) -> String {
        let plans = match &self.engine {
            Engine::Planned(plans) => plans.enter().map_or_else(|e| e.to_string(), |plans| plans.describe()),
            Engine::Stepwise(_) => {
                "Runs operator by operator, since arrays are sparse or shapes depend on contents\n".into()
            }
        };
        format!("{}{plans}", self.optimized.debug_string())
    }
}
