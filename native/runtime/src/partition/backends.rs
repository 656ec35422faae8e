//! Backends by the names under which programs ask for them.

use std::collections::{HashMap, HashSet};

use ferromx_core::error::{Error, Result};
use parking_lot::Mutex;

use super::{by_name, onednn};
use crate::symbol::Symbol;

/// Backends that group operators of names that a program sets.
const BY_NAME: [&str; 2] = ["default", "default_v2"];
const ONEDNN: [&str; 2] = ["MKLDNN", "MKLDNN_QUANTIZE"];

static OP_NAMES: Mutex<Option<HashMap<String, HashSet<String>>>> = Mutex::new(None);

fn check(backend: &str) -> Result<()> {
    if BY_NAME.contains(&backend) || ONEDNN.contains(&backend) {
        return Ok(());
    }
    Err(Error::NotFound(format!(
        "Check failed: it != backend_map_.end(): SubgraphProperty {backend} is not found in SubgraphBackendRegistry; there are {}",
        [BY_NAME, ONEDNN].concat().join(", ")
    )))
}

/// The graph as a backend partitions it; a name that is no backend leaves it as it is.
///
/// # Errors
/// Those of [`partition`].
pub fn optimize(symbol: &Symbol, backend: &str) -> Result<Symbol> {
    match check(backend) {
        Ok(()) => partition(symbol, backend),
        Err(e) => {
            log::warn!("Error optimizing for backend '{backend}' cannot be found: {e}");
            Ok(symbol.deep_copy())
        }
    }
}

/// Sets which operators a backend groups.
///
/// # Errors
/// No such backend.
pub fn set_op_names(backend: &str, ops: HashSet<String>) -> Result<()> {
    check(backend)?;
    OP_NAMES.lock().get_or_insert_default().insert(backend.into(), ops);
    Ok(())
}

/// Forgets which operators a backend groups.
///
/// # Errors
/// No such backend.
pub fn remove_op_names(backend: &str) -> Result<()> {
    check(backend)?;
    OP_NAMES.lock().get_or_insert_default().remove(backend);
    Ok(())
}

/// The graph with groups of operators of these names as nodes; the backend keeps the names.
///
/// # Errors
/// No such backend.
pub fn build(symbol: &Symbol, backend: &str, ops: HashSet<String>) -> Result<Symbol> {
    set_op_names(backend, ops)?;
    partition(symbol, backend)
}

/// The graph as a backend partitions it.
///
/// # Errors
/// No such backend; operators' names were not set; parameters that a node for a group does not take.
pub fn partition(symbol: &Symbol, backend: &str) -> Result<Symbol> {
    check(backend)?;
    match backend {
        "MKLDNN" => return onednn::partition(symbol, false),
        "MKLDNN_QUANTIZE" => return onednn::partition(symbol, true),
        _ => {}
    }
    let ops = OP_NAMES.lock().as_ref().and_then(|all| all.get(backend)).cloned();
    let ops = ops.ok_or_else(|| {
        Error::Value(format!(
            "Check failed: it != attrs_.end(): Cannot find attribute op_names in SubgraphProperty; set the operators that '{backend}' \
             groups by MXSetSubgraphPropertyOpNamesV2"
        ))
    })?;
    by_name::partition(symbol, &ops)
}
