//! Import and export of models: converts ONNX and NNEF models to MXNet graphs and back, by an interpreter of mapping processes.
//!
//! A module uses only modules above it in this list; `tests/layers.rs` checks that.
//!
//! - `mapped_file`: memory-mapped files; `external`: tensor data in other files of the model's directory.
//! - [`ir`]: the framework-neutral form of models.
//! - [`mapping`]: mapping processes, written as data in `native/interop/mappings`, and the operators of each framework.
//! - [`onnx`]: the front end that reads and writes ONNX files; [`nnef`]: the front end that reads NNEF models; `mxnet`: MXNet graphs in
//!   the neutral form.
//! - [`emit`]: evaluates processes with the rules they call, and builds graphs.
//! - [`import`]: the import process, which builds an MXNet graph, or executes a model directly.
//! - [`export`]: the export process, which reads the same table from right to left.
//! - [`run`]: imported models on arrays.

pub mod emit;
pub mod error;
pub mod export;
mod external;
pub mod import;
pub mod ir;
mod mapped_file;
pub mod mapping;
mod mxnet;
pub mod nnef;
pub mod onnx;
pub mod run;

pub use error::{Error, Position, Problem, Result};
