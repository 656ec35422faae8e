//! Conformance: compares an implementation's answers with those of MXNet 1.9.1 (`tests/oracle`).
//!
//! [`golden`] reads the cases, a [`Runner`] runs one, [`check`] compares, [`suite`] does this for a whole family and counts.
//! [`engine::Engine`] is the runner that calls the Rust facade, [`c_api::Library`] the one that calls a built library through the C API,
//! [`process::Process`] the one that asks a program, such as the JVM's (`jvm/src/test`).

pub mod c_api;
pub mod check;
pub mod coverage;
pub mod engine;
pub mod evidence;
pub mod fixture;
pub mod golden;
pub mod gradients;
pub mod process;
pub mod statistics;
pub mod suite;
pub mod value;

use std::collections::BTreeMap;

use serde::Deserialize;

use golden::{GraphCase, InferCase, OpCase};
use value::Array;

/// Runs cases in one implementation.
pub trait Runner {
    /// Runs one operator.
    ///
    /// # Errors
    /// The implementation's message if it rejects the call before it computes the outputs.
    fn run(&self, case: &OpCase) -> Result<OpResult, String>;

    /// Infers shapes or types.
    ///
    /// # Errors
    /// The implementation's message.
    fn infer(&self, case: &InferCase) -> Result<Inferred, String>;

    /// Loads a network and describes it.
    ///
    /// # Errors
    /// The implementation's message.
    fn graph(&self, case: &GraphCase) -> Result<GraphResult, String>;
}

/// The results of an operator call.
#[derive(Debug, Clone)]
pub struct OpResult {
    /// The visible outputs.
    pub outputs: Vec<Array>,
    /// Their storage types, of a call on arrays with sparse inputs.
    pub storage_types: Vec<String>,
    /// The requested gradients by input name, or the error. Empty without a request.
    pub grads: Result<BTreeMap<String, Array>, String>,
    /// Auxiliary or updated states after the call, by input name.
    pub aux: BTreeMap<String, Array>,
}

/// A shape or type per argument, output and auxiliary state, as text: `[2,0]`, `float32`, or `?` if unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Inferred {
    /// Arguments in listing order.
    pub arg: Vec<String>,
    /// Outputs.
    pub out: Vec<String>,
    /// Auxiliary states.
    pub aux: Vec<String>,
}

/// An implementation's description of a saved network.
#[derive(Debug, Clone)]
pub struct GraphResult {
    /// Names of arguments.
    pub arg_names: Vec<String>,
    /// Names of auxiliary states.
    pub aux_names: Vec<String>,
    /// Names of outputs.
    pub output_names: Vec<String>,
    /// Names of the outputs of all nodes.
    pub internals: Vec<String>,
    /// Attributes by node and key.
    pub attrs: BTreeMap<String, BTreeMap<String, String>>,
    /// The network saved again.
    pub json: String,
    /// Shapes from the case's shapes.
    pub shapes: Inferred,
    /// Types from the case's types.
    pub types: Inferred,
}

/// Attributes by node and key, from pairs of `node$key` and value.
pub fn by_node(pairs: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut attrs: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (key, value) in pairs {
        if let Some((node, key)) = key.split_once('$') {
            attrs.entry(node.to_owned()).or_default().insert(key.to_owned(), value);
        }
    }
    attrs
}
