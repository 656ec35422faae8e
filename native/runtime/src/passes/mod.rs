//! Passes over graphs:
//!
//! - `infer` infers shapes and types, `storage` storage types;
//! - `gradient` extends a graph by gradients;
//! - `devices` assigns a device to each node and inserts copies;
//! - `common_subexpressions` merges equal nodes;
//! - `integers` fuses quantized products, sums and pooling into kernels on 8-bit integers;
//! - `epilogue` fuses normalization, residual and activation into products;
//! - `chains` groups elementwise nodes, which gives the schedule;
//! - `plan_memory` assigns offsets in the arena.

pub(crate) mod chains;
pub(crate) mod common_subexpressions;
pub(crate) mod devices;
pub(crate) mod epilogue;
pub(crate) mod gradient;
pub(crate) mod infer;
pub(crate) mod integers;
pub(crate) mod plan_memory;
pub(crate) mod storage;
