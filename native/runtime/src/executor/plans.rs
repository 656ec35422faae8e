//! The plans of an executor: one for each purpose, made when it is first needed. They compute the same; intermediate results lie in
//! one arena.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

use ferromx_core::error::{Error, Result};
use parking_lot::{Mutex, MutexGuard};

use super::Monitor;
use super::compile::{Blueprint, Purpose};
use super::place::Arenas;
use super::plan::Plan;

/// The plans, and which of them ran the last forward pass.
pub struct Plans {
    blueprint: Blueprint,
    inference: Option<Plan>,
    training: Option<Plan>,
    monitoring: Option<Plan>,
    last: Option<Purpose>,
}

impl Plans {
    /// Makes the plan that is likely to be needed, so that errors show when a symbol is bound.
    pub fn new(blueprint: Blueprint, arenas: &Arenas) -> Result<Plans> {
        let purpose = if blueprint.targets.is_empty() { Purpose::Inference } else { Purpose::Training };
        let mut plans = Plans { blueprint, inference: None, training: None, monitoring: None, last: None };
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

    /// The largest arenas of the plans.
    pub fn arenas(&self) -> Arenas {
        let mut largest = Arenas::new();
        for (context, arena) in self.all().flat_map(|plan| &plan.arenas) {
            let kept = largest.entry(*context).or_insert_with(|| arena.clone());
            if arena.bytes() > kept.bytes() {
                *kept = arena.clone();
            }
        }
        largest
    }

    fn plan(&mut self, purpose: Purpose) -> Result<&mut Plan> {
        if self.slot(purpose).is_none() {
            let plan = self.blueprint.compile(purpose, &self.arenas())?;
            *self.slot(purpose) = Some(plan);
        }
        match self.slot(purpose) {
            Some(plan) => Ok(plan),
            None => Err(Error::Internal("a plan got lost".into())),
        }
    }

    /// Computes the outputs.
    pub fn forward(&mut self, is_train: bool, monitor: Option<&(Monitor, bool)>) -> Result<()> {
        let purpose = match (monitor, is_train) {
            (Some(_), _) => Purpose::Monitoring,
            (None, true) => Purpose::Training,
            (None, false) => Purpose::Inference,
        };
        self.last = None;
        self.plan(purpose)?.forward(is_train, monitor)?;
        self.last = Some(purpose);
        Ok(())
    }

    /// Computes the gradients. The intermediate results that they need are those of the last forward pass; after one that was for
    /// inference only, they are computed again.
    pub fn backward(&mut self, is_train: bool, monitor: Option<&(Monitor, bool)>) -> Result<()> {
        let purpose = match self.last {
            Some(purpose @ (Purpose::Training | Purpose::Monitoring)) => purpose,
            Some(Purpose::Inference) | None => {
                let purpose = if monitor.is_some() { Purpose::Monitoring } else { Purpose::Training };
                self.plan(purpose)?.forward(false, None)?;
                purpose
            }
        };
        self.last = Some(purpose);
        self.plan(purpose)?.backward(is_train, monitor)
    }

    /// The steps and the memory of the first plan in words.
    pub fn describe(&self) -> String {
        self.all().next().map_or_else(String::new, Plan::describe)
    }
}

/// Plans that one thread uses at a time. An operator that runs user code gives that code the chance to come back to its own executor,
/// which is an error, not a deadlock.
pub struct Guarded {
    plans: Mutex<Plans>,
    user: AtomicU64,
}

/// The plans while this thread uses them.
pub struct InUse<'p> {
    user: &'p AtomicU64,
    plans: MutexGuard<'p, Plans>,
}

impl Guarded {
    /// Plans that nobody uses.
    pub fn new(plans: Plans) -> Guarded {
        Guarded { plans: Mutex::new(plans), user: AtomicU64::new(0) }
    }

    /// Waits until no other thread uses the plans.
    ///
    /// # Errors
    /// This thread uses them already.
    pub fn enter(&self) -> Result<InUse<'_>> {
        let me = thread_number();
        // Only this thread sets its own number, so the answer cannot be out of date.
        if self.user.load(Ordering::Relaxed) == me {
            let text = "an operator of this executor used the executor while it was running: bind another one for it";
            return Err(Error::value(text));
        }
        let plans = self.plans.lock();
        self.user.store(me, Ordering::Relaxed);
        Ok(InUse { user: &self.user, plans })
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.user.store(0, Ordering::Relaxed);
    }
}

impl Deref for InUse<'_> {
    type Target = Plans;

    fn deref(&self) -> &Plans {
        &self.plans
    }
}

impl DerefMut for InUse<'_> {
    fn deref_mut(&mut self) -> &mut Plans {
        &mut self.plans
    }
}

/// A number that no other thread has, from 1 on.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}
