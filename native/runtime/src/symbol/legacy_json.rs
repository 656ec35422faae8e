//! What graphs written by older versions of MXNet need before they mean the same today.
//!
//! Before 0.9 parameters stood in `param` and user attributes in `attr`, without underscores around `lr_mult` and the like, and
//! auxiliary states were no inputs. Before 0.9.4 argmax and argmin wrote -1 for "no axis".

use ferromx_core::op::OpDef;
use ferromx_core::params::{Attrs, Params};

use super::compose::HIDDEN_KEYS;
use super::{Node, NodeEntry};

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

/// Adds the auxiliary states that files before 0.9 leave out.
pub(super) fn add_missing_states(
    node: &str,
    def: &OpDef,
    params: &Params,
    expected: usize,
    inputs: &mut Vec<NodeEntry>,
    version: i64,
) {
    if version >= 900 || def.mutates.is_empty() {
        return;
    }
    let names = def.input_names(params, expected);
    while inputs.len() < expected && def.mutates.contains(&inputs.len()) {
        let name = format!("{node}_{}", names[inputs.len()]);
        inputs.push(NodeEntry { node: Node::variable(&name, Attrs::new()), index: 0 });
    }
}
