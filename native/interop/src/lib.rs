//! The interpreter: models move between frameworks and our graphs by named mapping rules.
//!
//! - [`ir`]: the framework-neutral form of models.
//! - [`onnx`]: the front end that reads and writes ONNX files; [`nnef`]: the one that reads models of NNEF.
//! - [`framework`]: what belongs to a framework: its operators and its table.
//! - [`mapping`]: mapping processes, written as data in `native/interop/mappings`, and the rules they are made of.
//! - [`import`]: the import process, which makes our graph, or executes a model straight away.
//! - [`export`]: the export process, which reads the same table from right to left.
//! - [`mxnet`]: our own graphs in the neutral form.
//! - [`run`]: imported models on arrays.

pub mod error;
pub mod export;
pub mod external;
pub mod framework;
pub mod import;
pub mod ir;
mod map;
pub mod mapping;
pub mod mxnet;
pub mod nnef;
pub mod onnx;
pub mod run;

pub use error::{Error, Position, Problem, Result};
