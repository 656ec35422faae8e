//! Executors: a graph bound to arrays, compiled once into a flat plan that runs without allocating.

mod bind;
mod chain;
mod compile;
mod place;
mod plan;
mod plans;
mod simple_bind;
mod twins;

use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_core::storage::Req;
use parking_lot::Mutex;

pub use bind::Bound;
pub(crate) use plan::copy_kernel;
use plans::Guarded;
pub use simple_bind::SimpleBind;
pub use twins::BoundStored;
use twins::Twins;

use crate::symbol::Symbol;

/// Called with the name and a copy of every visible output of every operator that ran; with inputs too if so asked.
pub type Monitor = Arc<dyn Fn(&str, NDArray) + Send + Sync>;

/// A symbol bound to its arguments, gradients and auxiliary states.
pub struct Executor {
    symbol: Symbol,
    context: Context,
    args: Vec<NDArray>,
    grads: Vec<Option<NDArray>>,
    reqs: Vec<Req>,
    aux: Vec<NDArray>,
    outputs: Vec<NDArray>,
    head_grads: Vec<Option<NDArray>>,
    plans: Guarded,
    monitor: Mutex<Option<(Monitor, bool)>>,
    twins: Twins,
}

impl Executor {
    /// Computes the outputs.
    ///
    /// # Errors
    /// Those of the operators, with operator and node name.
    pub fn forward(&self, is_train: bool) -> Result<()> {
        let monitor = self.monitor.lock().clone();
        self.twins.before_forward()?;
        self.plans.enter()?.forward(is_train, monitor.as_ref())?;
        self.twins.after_forward(is_train)
    }

    /// Runs one step of the forward pass for inference, with every operator by itself, and returns how many steps are behind it. The
    /// outputs are computed when all steps ran, from 0 on. A step that does not exist does nothing.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn partial_forward(&self, step: usize) -> Result<usize> {
        let monitor = self.monitor.lock().clone();
        if step == 0 {
            self.twins.before_forward()?;
        }
        let left = self.plans.enter()?.partial_forward(step, monitor.as_ref())?;
        if left == 0 {
            self.twins.after_forward(false)?;
        }
        Ok(left)
    }

    /// Computes the gradients of the last training forward pass. Each output that is no loss needs its gradient in `head_grads`,
    /// in the order of the outputs; losses ignore theirs. Where no gradient was requested there is nothing to do.
    ///
    /// # Errors
    /// A missing or misshapen head gradient, those of the operators.
    pub fn backward(&self, head_grads: &[NDArray], is_train: bool) -> Result<()> {
        if self.reqs.iter().all(|r| *r == Req::Null) {
            return Ok(());
        }
        ensure!(
            head_grads.is_empty() || head_grads.len() == self.outputs.len(),
            "{} head gradients were given for {} outputs",
            head_grads.len(),
            self.outputs.len()
        );
        for (i, slot) in self.head_grads.iter().enumerate() {
            let Some(slot) = slot else { continue };
            let Some(given) = head_grads.get(i) else {
                return Err(Error::Value(format!(
                    "output {i} ({}) is no loss, so backward needs its gradient: pass one array per output, \
                     or end the network with a loss such as SoftmaxOutput or MakeLoss",
                    self.symbol.list_outputs()[i]
                )));
            };
            ensure!(
                given.shape() == slot.shape() && given.dtype() == slot.dtype(),
                "the head gradient of output {i} is {} {}, but the output is {} {}",
                given.shape(),
                given.dtype(),
                slot.shape(),
                slot.dtype()
            );
            slot.copy_from(given)?;
        }
        let monitor = self.monitor.lock().clone();
        self.twins.before_backward()?;
        self.plans.enter()?.backward(is_train, monitor.as_ref())?;
        self.twins.after_backward()
    }

    /// The output arrays. They are overwritten by the next forward pass and stay valid when the executor is gone.
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

    /// The device.
    pub fn context(&self) -> Context {
        self.context
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
        ensure!(
            self.twins.is_empty(),
            "an executor that is bound to sparse arrays cannot be reshaped: bind the symbol again"
        );
        bind::reshape(self, partial_shaping, allow_up_sizing, shapes)
    }

    /// A listing of the plan: operators in order of execution and memory.
    pub fn debug_string(&self) -> String {
        let plans = self.plans.enter().map_or_else(|e| e.to_string(), |plans| plans.describe());
        format!("{}{plans}", self.symbol.debug_string())
    }
}
