//! The vocabulary of FerroMX: data types, shapes, storage, arrays, parameters and operator definitions.
//!
//! This crate defines no operators. The other crates depend on it in a line: `core <- kernels <- ops <- runtime <- capi`.

pub mod context;
pub mod dtype;
pub mod error;
pub mod file_format;
pub mod fusion;
pub mod grad;
pub mod infer;
pub mod memory;
pub mod ndarray;
pub mod op;
pub mod params;
pub mod semantics;
pub mod shape;
pub mod sparse;
pub mod storage;
pub mod subgraph;
pub mod user_op;
