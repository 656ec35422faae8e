//! The types that all crates share. This crate defines no operators.
//!
//! - `dtype`, `shape` and `context` describe arrays; `semantics` converts shapes at the boundary of the C and JNI interfaces;
//! - `ndarray` has dense arrays and `sparse` sparse ones, `storage` their memory and its locks, and `file_format` their files;
//! - `params` declares parameters, `op` operators, `infer` shape and type rules, `grad` gradients, and `fusion` the roles of operators in
//!   fused kernels;
//! - `subgraph` is the interface of graphs inside operators, and `user_op` that of user operators;
//! - `memory` allocates vectors fallibly, and `error` has the errors of the engine.

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
