//! The names of inputs, outputs and auxiliary states are those of MXNet 1.9.1. Programs find arguments, outputs of layers and parameters in
//! files by them.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use ferromx_conformance::fixture;
use ferromx_core::params::Attrs;
use ferromx_runtime::symbol::AtomicSymbol;

/// Operators whose inputs have the names of their arguments here. MXNet lacks a list of names for them, and calls the only input `data`; it
/// names several inputs of a multi-tensor update alike; or it does not name the inputs as its own metadata does.
const NAMED_AS_ARGUMENTS: &[&str] = &[
    "_broadcast_backward",
    "_contrib_dgl_graph_compact",
    "_contrib_dgl_subgraph",
    "_contrib_quantized_rnn",
    "_cvcopyMakeBorder",
    "_cvimdecode",
    "_cvimresize",
    "_multi_adamw_update",
    "_multi_lamb_update",
    "_multi_mp_adamw_update",
    "_multi_mp_lamb_update",
    "_npi_cvimdecode",
    "_npi_cvimresize",
    "_npi_multinomial",
];

/// Operators that cannot be composed here: `docs/differences.md` says why.
const NOT_COMPOSED: &[&str] = &["_NoGradient", "_imdecode", "_sg_mkldnn_selfatt_qk", "_sg_mkldnn_selfatt_valatt"];

type Recorded = (String, BTreeMap<String, String>, Vec<String>, Vec<String>, Vec<String>);

#[test]
fn inputs_outputs_and_states_have_the_names_of_mxnet() {
    let text = fs::read_to_string(fixture::folder().join("operator-names.jsonl")).unwrap();
    let mut other_inputs = BTreeSet::new();
    let mut differences = Vec::new();
    let mut compared = 0;
    for line in text.lines() {
        let (op, parameters, inputs, outputs, states): Recorded = serde_json::from_str(line).unwrap();
        if NOT_COMPOSED.contains(&op.as_str()) {
            continue;
        }
        let attrs: Attrs = parameters.into_iter().collect();
        match AtomicSymbol::new(&op, attrs).and_then(|symbol| symbol.compose("n", &[], None)) {
            Ok(symbol) => {
                compared += 1;
                let same_inputs = symbol.list_arguments() == inputs && symbol.list_auxiliary_states() == states;
                if !same_inputs {
                    other_inputs.insert(op.clone());
                }
                if symbol.list_outputs() != outputs || !(same_inputs || NAMED_AS_ARGUMENTS.contains(&op.as_str())) {
                    differences.push(format!(
                        "{line}\n  here {:?} {:?}",
                        symbol.list_arguments(),
                        symbol.list_outputs()
                    ));
                }
            }
            Err(error) => differences.push(format!("{line}\n  here {error}")),
        }
    }
    assert!(differences.is_empty(), "{} of {compared} calls:\n{}", differences.len(), differences.join("\n"));
    assert_eq!(
        other_inputs,
        NAMED_AS_ARGUMENTS.iter().map(|op| op.to_string()).collect(),
        "operators with other names"
    );
    assert!(compared > 900, "only {compared} calls were compared");
}
