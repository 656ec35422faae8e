//! Partitioning backends by name.

use std::collections::{HashMap, HashSet};

use ferromx_core::error::{Error, Result};
use parking_lot::Mutex;

use super::by_name;
use super::onednn::{self, Purpose};
use crate::symbol::Symbol;

/// Backends that group the operators whose names a program sets.
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

/// Partitions a graph for a backend; with an unknown backend the graph is unchanged.
///
/// # Errors
/// See [`partition`].
pub fn optimize(symbol: &Symbol, backend: &str) -> Result<Symbol> {
    match check(backend) {
        Ok(()) => partition(symbol, backend),
        Err(e) => {
            log::warn!("Error optimizing for backend '{backend}' cannot be found: {e}");
            Ok(symbol.deep_copy())
        }
    }
}

/// Sets the operators that a backend groups.
///
/// # Errors
/// No such backend.
pub fn set_op_names(backend: &str, ops: HashSet<String>) -> Result<()> {
    check(backend)?;
    OP_NAMES.lock().get_or_insert_default().insert(backend.into(), ops);
    Ok(())
}

/// Removes the operators that a backend groups.
///
/// # Errors
/// No such backend.
pub fn remove_op_names(backend: &str) -> Result<()> {
    check(backend)?;
    OP_NAMES.lock().get_or_insert_default().remove(backend);
    Ok(())
}

/// Sets the operators that a backend groups and partitions a graph.
///
/// # Errors
/// No such backend.
pub fn build(symbol: &Symbol, backend: &str, ops: HashSet<String>) -> Result<Symbol> {
    set_op_names(backend, ops)?;
    partition(symbol, backend)
}

/// Partitions a graph for a backend.
///
/// # Errors
/// No such backend; operator names that were not set; parameters that the node of a group does not accept.
pub fn partition(symbol: &Symbol, backend: &str) -> Result<Symbol> {
    check(backend)?;
    match backend {
        "MKLDNN" => return onednn::partition(symbol, Purpose::Float),
        "MKLDNN_QUANTIZE" => return onednn::partition(symbol, Purpose::Quantization),
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
