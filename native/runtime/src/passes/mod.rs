//! Passes over graphs.

pub mod chains;
pub mod gradient;
pub mod infer;
pub mod plan_memory;
