//! The interpreter: models move between frameworks and our graphs by named mapping rules.
//!
//! Modules use those before them, never those after them; `tests/layers.rs` checks that.
//!
//! - [`ir`]: the framework-neutral form of models.
//! - [`mapping`]: mapping processes, written as data in `native/interop/mappings`, and the operators of each framework.
//! - [`onnx`]: the front end that reads and writes ONNX files; [`nnef`]: the one that reads models of NNEF; [`mxnet`]: our own graphs
//!   in the neutral form.
//! - [`emit`]: evaluates processes with the rules they call, and builds graphs.
//! - [`import`]: the import process, which makes our graph, or executes a model straight away.
//! - [`export`]: the export process, which reads the same table from right to left.
//! - [`run`]: imported models on arrays.

pub mod emit;
pub mod error;
pub mod export;
pub mod external;
pub mod import;
pub mod ir;
mod map;
pub mod mapping;
pub mod mxnet;
pub mod nnef;
pub mod onnx;
pub mod run;

pub use error::{Error, Position, Problem, Result};
