//! The plans of an executor: one for each purpose, compiled on first use. They share the arenas.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Mode;
use parking_lot::{Mutex, MutexGuard};

use super::assign_memory::Arenas;
use super::compile::{Blueprint, Purpose};
use super::plan::Plan;
use super::{InstalledMonitor, OnComplete, head_grad};
use crate::symbol::Symbol;
use crate::thread_id::thread_id;
use crate::{imperative, random};

/// Copying fewer bytes takes less time than changing the operands of a plan.
const MIN_IN_PLACE_BYTES: usize = 1 << 18;

/// The plans, and the purpose of the last forward pass.
pub(super) struct Plans {
    /// The mode of the last forward pass.
    mode: Mode,
    /// Whether a backward pass has run since, which overwrites the intermediate results.
    is_spent: bool,
    /// The state of the random number generators before the last forward pass, if an operator draws random numbers.
    random: Option<random::State>,
    /// Whether an operator draws random numbers.
    has_random: bool,
    blueprint: Blueprint,
    /// The gradient of each output; `None` for losses.
    head_grads: Vec<Option<HeadGrad>>,
    inference: Option<Plan>,
    training: Option<Plan>,
    monitoring: Option<Plan>,
    /// The plan of the last forward pass, if its intermediate results are complete.
    last_purpose: Option<Purpose>,
}

/// The gradient of an output.
#[derive(Clone, Copy)]
struct HeadGrad {
    variable: Entry,
    /// Whether the plans read it from an array that the program passed, instead of from a copy.
    is_borrowed: bool,
}

impl Plans {
    /// Compiles the plan that is most likely needed, so that errors are reported when the symbol is bound.
    pub(super) fn new(blueprint: Blueprint, head_grads: Vec<Option<Entry>>, arenas: &Arenas) -> Result<Plans> {
        let purpose = if blueprint.targets.is_empty() { Purpose::Inference } else { Purpose::Training };
        let has_random = blueprint.forward_calls().any(|(_, op)| op.def.kernels.is_random);
        let mut plans = Plans {
            mode: Mode::Inference,
            is_spent: false,
            random: None,
            has_random,
            blueprint,
            head_grads: head_grads.into_iter().map(|e| Some(HeadGrad { variable: e?, is_borrowed: false })).collect(),
            inference: None,
            training: None,
            monitoring: None,
            last_purpose: None,
        };
        let plan = plans.blueprint.compile(purpose, arenas)?;
        *plans.slot(purpose) = Some(plan);
        Ok(plans)
    }

    fn slot(&mut self, purpose: Purpose) -> &mut Option<Plan> {
        match purpose {
            Purpose::Inference => &mut self.inference,
            Purpose::Training => &mut self.training,
            Purpose::Monitoring => &mut self.monitoring,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Plan> {
        [&self.training, &self.inference, &self.monitoring].into_iter().flatten()
    }

    /// The largest arena of each device.
    pub(super) fn arenas(&self) -> Arenas {
        let mut largest = Arenas::new();
        for (context, arena) in self.all().flat_map(|plan| &plan.arenas) {
            let max = largest.entry(*context).or_insert_with(|| arena.clone());
            if arena.bytes() > max.bytes() {
                *max = arena.clone();
            }
        }
        largest
    }

    /// The plan for a purpose, compiled if necessary.
    fn plan(&mut self, purpose: Purpose) -> Result<&mut Plan> {
        if self.slot(purpose).is_none() {
            let plan = self.blueprint.compile(purpose, &self.arenas())?;
            *self.slot(purpose) = Some(plan);
        }
        match self.slot(purpose) {
            Some(plan) => Ok(plan),
            None => Err(Error::Internal("a plan is missing".into())),
        }
    }

    /// Computes the outputs.
    pub(super) fn forward(&mut self, mode: Mode, monitor: Option<&InstalledMonitor>) -> Result<()> {
        let purpose = match (monitor, mode) {
            (Some(_), _) => Purpose::Monitoring,
            (None, Mode::Training) => Purpose::Training,
            (None, Mode::Inference) => Purpose::Inference,
        };
        self.last_purpose = None;
        self.random = self.has_random.then(random::state);
        (self.mode, self.is_spent) = (mode, false);
        self.plan(purpose)?.forward(mode, monitor)?;
        self.last_purpose = Some(purpose);
        Ok(())
    }

    /// Runs one operator for inference and returns the number of remaining steps.
    pub(super) fn partial_forward(&mut self, step: usize, monitor: Option<&InstalledMonitor>) -> Result<usize> {
        self.last_purpose = None;
        self.plan(Purpose::Monitoring)?.partial_forward(step, monitor)
    }

    /// Sets the gradients of the outputs for the next backward pass. An array of the bound type that is large and not bound as something
    /// else is read in place, others are copied.
    pub(super) fn set_head_grads(&mut self, symbol: &Symbol, given: &[NDArray]) -> Result<()> {
        for i in 0..self.head_grads.len() {
            let Some(HeadGrad { variable, is_borrowed }) = self.head_grads[i] else { continue };
            let bound = self.blueprint.external[&variable].clone();
            let given = head_grad(symbol, i, given, bound.shape(), NDArray::shape)?;
            if given.is_same_view(&bound) {
                continue;
            }
            if self.reads_in_place(&bound, given) {
                self.replace(variable, &bound, given);
                self.head_grads[i] = Some(HeadGrad { variable, is_borrowed: true });
                continue;
            }
            let own = if is_borrowed {
                NDArray::empty(bound.shape(), bound.dtype(), bound.context())?
            } else {
                bound.clone()
            };
            if is_borrowed {
                self.replace(variable, &bound, &own);
                self.head_grads[i] = Some(HeadGrad { variable, is_borrowed: false });
            }
            imperative::copy_dense(given, &own)?;
        }
        Ok(())
    }

    /// Whether the plans should read the head gradient `given` instead of a copy in `bound`.
    fn reads_in_place(&self, bound: &NDArray, given: &NDArray) -> bool {
        let is_alike = given.dtype() == bound.dtype() && given.context() == bound.context();
        let is_bound = |array: &NDArray| Arc::ptr_eq(array.chunk(), given.chunk());
        let gradients = self.blueprint.targets.iter().map(|t| &t.array);
        is_alike
            && given.byte_range().len() >= MIN_IN_PLACE_BYTES
            && !self.blueprint.external.values().chain(gradients).any(is_bound)
            && self.all().all(|plan| plan.can_replace(bound, given))
    }

    /// Lets all plans read `new` instead of `old`, the array of a variable that no step writes.
    fn replace(&mut self, variable: Entry, old: &NDArray, new: &NDArray) {
        self.blueprint.external.insert(variable, new.clone());
        let plans = [&mut self.training, &mut self.inference, &mut self.monitoring];
        plans.into_iter().flatten().for_each(|plan| plan.replace(old, new));
    }

    /// Computes the gradients from the intermediate results of the last forward pass. If that ran in inference mode, which does not keep
    /// them, or a backward pass has overwritten them, the forward pass runs again, with the same random numbers.
    pub(super) fn backward(
        &mut self,
        mode: Mode,
        monitor: Option<&InstalledMonitor>,
        on_complete: Option<OnComplete<'_>>,
    ) -> Result<()> {
        let purpose = match self.last_purpose {
            Some(purpose @ (Purpose::Training | Purpose::Monitoring)) => purpose,
            last => {
                let purpose = if monitor.is_some() { Purpose::Monitoring } else { Purpose::Training };
                self.is_spent = last.is_some();
                if last.is_none() {
                    self.random = self.has_random.then(random::state);
                    self.mode = Mode::Inference;
                    self.plan(purpose)?.forward(Mode::Inference, None)?;
                }
                purpose
            }
        };
        if self.is_spent {
            self.recompute(purpose)?;
        }
        (self.last_purpose, self.is_spent) = (Some(purpose), true);
        self.plan(purpose)?.backward(mode, monitor, on_complete)
    }

    /// Runs the last forward pass again, with the same random numbers. Auxiliary states keep their values.
    fn recompute(&mut self, purpose: Purpose) -> Result<()> {
        let mut states = Vec::new();
        for (inputs, op) in self.blueprint.forward_calls() {
            for e in op.mutated().iter().filter_map(|i| inputs.get(*i)) {
                if let Some(array) = self.blueprint.external.get(e) {
                    let saved = NDArray::empty(array.shape(), array.dtype(), array.context())?;
                    imperative::copy_dense(array, &saved)?;
                    states.push((array.clone(), saved));
                }
            }
        }
        let mode = self.mode;
        let state_after = self.random.as_ref().map(|before| {
            let state_after = random::state();
            random::restore(before);
            state_after
        });
        let result = self.plan(purpose)?.forward(mode, None);
        if let Some(state_after) = state_after {
            random::restore(&state_after);
        }
        states.iter().try_for_each(|(array, saved)| imperative::copy_dense(saved, array))?;
        result
    }

    /// Lists the steps and the memory of one plan.
    pub(super) fn describe(&self) -> String {
        self.all().next().map_or_else(String::new, Plan::describe)
    }
}

/// A lock around the plans that detects reentry: a user operator may call its own executor, which must be an error, not a deadlock.
pub(super) struct PlanLock {
    plans: Mutex<Plans>,
    /// Id of the thread that holds the lock, or 0.
    owner: AtomicU64,
}

/// The plans while this thread holds the lock.
pub(super) struct PlanGuard<'p> {
    owner: &'p AtomicU64,
    plans: MutexGuard<'p, Plans>,
}

impl PlanLock {
    /// Wraps plans; the lock is free.
    pub(super) fn new(plans: Plans) -> PlanLock {
        PlanLock { plans: Mutex::new(plans), owner: AtomicU64::new(0) }
    }

    /// Waits until no other thread holds the lock, and takes it.
    ///
    /// # Errors
    /// This thread holds it already.
    pub(super) fn enter(&self) -> Result<PlanGuard<'_>> {
        let current = thread_id();
        // Only this thread stores its own id, so a relaxed load cannot miss it.
        if self.owner.load(Ordering::Relaxed) == current {
            let text =
                "an operator of this executor used the executor while it was running: bind a second executor for it";
            return Err(Error::value(text));
        }
        let plans = self.plans.lock();
        self.owner.store(current, Ordering::Relaxed);
        Ok(PlanGuard { owner: &self.owner, plans })
    }
}

impl Drop for PlanGuard<'_> {
    fn drop(&mut self) {
        self.owner.store(0, Ordering::Relaxed);
    }
}

impl Deref for PlanGuard<'_> {
    type Target = Plans;

    fn deref(&self) -> &Plans {
        &self.plans
    }
}

impl DerefMut for PlanGuard<'_> {
    fn deref_mut(&mut self) -> &mut Plans {
        &mut self.plans
    }
}
