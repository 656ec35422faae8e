//! The types that all crates share. This crate defines no operators.
//!
//! - `dtype`, `shape` and `context` describe arrays; `semantics` converts shapes at the boundary of the C and JNI interfaces;
//! - `storage` has dense arrays (`storage::ndarray`), their memory and its locks; `sparse` has sparse arrays, and `file_format` reads and
//!   writes both;
//! - `params` declares parameters, `op` operators with their gradients (`op::grad`) and their roles in fused kernels (`op::fusion`), and
//!   `infer` shape and type rules;
//! - `mode` distinguishes training from inference;
//! - `subgraph` is the interface of graphs inside operators, and `user_op` that of user operators;
//! - `memory` allocates vectors fallibly, and `error` has the errors of the engine.

pub mod context;
pub mod dtype;
pub mod error;
pub mod file_format;
pub mod infer;
pub mod memory;
mod mode;
pub mod op;
pub mod params;
pub mod semantics;
pub mod shape;
pub mod sparse;
pub mod storage;
pub mod subgraph;
pub mod user_op;

pub use op::{fusion, grad};
pub use storage::ndarray;
