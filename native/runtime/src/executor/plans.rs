//! The plans of an executor: one for each purpose, made when it is first needed. They compute the same; intermediate results lie in
//! one arena.

use std::sync::Arc;

use ferromx_core::error::Result;
use ferromx_core::storage::Chunk;

use super::Monitor;
use super::compile::{Blueprint, Purpose};
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
    pub fn new(blueprint: Blueprint, arena: Option<Arc<Chunk>>) -> Result<Plans> {
        let purpose = if blueprint.targets.is_empty() { Purpose::Inference } else { Purpose::Training };
        let mut plans = Plans { blueprint, inference: None, training: None, monitoring: None, last: None };
        let plan = plans.blueprint.compile(purpose, arena)?;
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

    /// The largest arena of the plans.
    pub fn arena(&self) -> Option<Arc<Chunk>> {
        self.all().map(|plan| plan.arena.clone()).max_by_key(|arena| arena.bytes())
    }

    fn plan(&mut self, purpose: Purpose) -> Result<&mut Plan> {
        if self.slot(purpose).is_none() {
            let plan = self.blueprint.compile(purpose, self.arena())?;
            *self.slot(purpose) = Some(plan);
        }
        match self.slot(purpose) {
            Some(plan) => Ok(plan),
            None => Err(ferromx_core::error::Error::Internal("a plan got lost".into())),
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
