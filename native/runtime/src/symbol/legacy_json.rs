//! What graphs written by older versions of MXNet need before they mean the same today.
//!
//! Before 0.9 parameters stood in `param` and user attributes in `attr`, without underscores around `lr_mult` and the like, and
//! auxiliary states were no inputs. Before 0.9.4 argmax and argmin wrote -1 for "no axis".

use ferromx_core::op::{Inputs, OpDef};
use ferromx_core::params::Attrs;

use super::compose::{HIDDEN_KEYS, automatic_variable};
use super::{NodeEntry, OpCall};

/// Version of files that do not say theirs.
pub(super) const UNVERSIONED: i64 = 800;

/// Renames attributes to what they are called today.
pub(super) fn upgrade_attrs(op: &str, attrs: &mut Attrs, version: i64) {
    for key in HIDDEN_KEYS {
        if let Some(value) = attrs.shift_remove(*key) {
            attrs.insert(format!("__{key}__"), value);
        }
    }
    if version < 904 && (op == "argmax" || op == "argmin") && attrs.get("axis").is_some_and(|a| a == "-1") {
        attrs.shift_remove("axis");
    }
}

/// Moves attributes such as `weight_lr_mult` from an operator to the variable that is its input `weight`, where they are
/// `__lr_mult__` today.
pub(super) fn move_attrs_of_arguments(def: &OpDef, attrs: &mut Attrs, inputs: &[NodeEntry]) {
    let Inputs::Fixed(args) = def.inputs else { return };
    for (arg, input) in args.iter().zip(inputs).filter(|(_, input)| input.node.is_variable()) {
        for key in HIDDEN_KEYS {
            if let Some(value) = attrs.shift_remove(&format!("{}_{key}", arg.name)) {
                input.node.attrs.write().insert(format!("__{key}__"), value);
            }
        }
    }
}

/// Adds the auxiliary states that files before 0.9 leave out.
pub(super) fn add_missing_states(
    node: &str,
    op: &OpCall,
    attrs: &Attrs,
    expected: usize,
    inputs: &mut Vec<NodeEntry>,
    version: i64,
) {
    let def = op.def;
    if version >= 900 || def.mutates.is_empty() {
        return;
    }
    let names = def.input_names(&op.params, expected);
    while inputs.len() < expected && def.mutates.contains(&inputs.len()) {
        let i = inputs.len();
        inputs.push(automatic_variable(def, node, i, &names[i], attrs));
    }
}
