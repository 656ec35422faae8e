//! Upgrades graphs written by older versions of MXNet.
//!
//! Before 0.9, parameters were in `param` and user attributes in `attr`, keys such as `lr_mult` had no underscores, and auxiliary states
//! were not inputs. Before 0.9.4, argmax and argmin wrote -1 for "no axis". Before 1.6, the only activation that oneDNN fused was relu.

use ferromx_core::op::{Inputs, OpDef};
use ferromx_core::params::Attrs;

use super::compose::{HIDDEN_KEYS, automatic_variable, set_initializers};
use super::{NodeEntry, OpCall};

/// The version of files without a version.
pub(super) const UNVERSIONED: i64 = 800;

/// Parameters of the nodes that oneDNN fused, before and since 1.6.
const FUSED_ACTIVATIONS: [(&str, &str, &str); 3] = [
    ("_sg_mkldnn_conv", "with_relu", "with_act"),
    ("_sg_mkldnn_conv", "with_postsum_relu", "with_postsum_act"),
    ("_sg_mkldnn_fully_connected", "with_relu", "with_eltwise"),
];

/// Renames attributes to their current names.
pub(super) fn upgrade_attrs(op: &str, attrs: &mut Attrs, version: i64) {
    for key in HIDDEN_KEYS {
        if let Some(value) = attrs.shift_remove(*key) {
            attrs.insert(format!("__{key}__"), value);
        }
    }
    for (_, old, new) in FUSED_ACTIVATIONS.iter().filter(|(fused, ..)| *fused == op) {
        if let Some(value) = attrs.shift_remove(*old) {
            attrs.insert((*new).into(), value);
        }
    }
    if version < 904 && (op == "argmax" || op == "argmin") && attrs.get("axis").is_some_and(|a| a == "-1") {
        attrs.shift_remove("axis");
    }
}

/// Moves attributes such as `weight_lr_mult` of an operator to its input variable `weight`, as `__lr_mult__`.
pub(super) fn move_attrs_of_arguments(def: &OpDef, attrs: &mut Attrs, inputs: &[NodeEntry]) {
    let Inputs::Fixed(args) = def.signature.inputs else { return };
    for (arg, input) in args.iter().zip(inputs).filter(|(_, input)| input.node.is_variable()) {
        for key in HIDDEN_KEYS {
            if let Some(value) = attrs.shift_remove(&format!("{}_{key}", arg.name)) {
                input.node.attrs.write().insert(format!("__{key}__"), value);
            }
        }
    }
}

/// Adds the auxiliary states that files before 0.9 omit.
pub(super) fn add_missing_states(
    node: &str,
    op: &OpCall,
    attrs: &Attrs,
    expected: usize,
    inputs: &mut Vec<NodeEntry>,
    version: i64,
) {
    let def = op.def;
    if version >= 900 || def.signature.mutates.is_empty() {
        return;
    }
    let names = def.input_names(&op.params, expected);
    while inputs.len() < expected && def.signature.mutates.contains(&inputs.len()) {
        let i = inputs.len();
        inputs.push(automatic_variable(node, &names[i], attrs));
    }
    set_initializers(def, inputs);
}
