//! Passes over graphs.

pub mod chains;
pub mod common;
pub mod devices;
pub mod epilogue;
pub mod gradient;
pub mod infer;
pub mod plan_memory;
pub mod storage;
