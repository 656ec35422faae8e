//! Passes over graphs:
//!
//! - `infer` and `storage` infer shapes, types and storage types;
//! - `gradient` differentiates;
//! - `devices` assigns devices and inserts copies;
//! - `common_subexpressions`, `integers`, `epilogue` and `chains` optimize;
//! - `plan_memory` assigns offsets in the arena.

pub mod chains;
pub mod common_subexpressions;
pub mod devices;
pub mod epilogue;
pub mod gradient;
pub mod infer;
pub mod integers;
pub mod plan_memory;
pub mod storage;
