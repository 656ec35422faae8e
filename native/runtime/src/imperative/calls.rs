//! Parsed operator calls, kept so that a call site parses its parameters once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::error::Result;
use ferromx_core::params::Attrs;

use super::tape::{Tensor, record};
use crate::graph::op_call;
use crate::symbol::OpCall;

/// An operator with parsed parameters and their text.
pub struct PreparedCall {
    /// Operator and parameters.
    pub op: OpCall,
    /// The parameters as text.
    pub attrs: Attrs,
}

/// Distinct calls kept per thread; beyond that the oldest generation is dropped at once.
const CAPACITY: usize = 4096;

#[derive(PartialEq, Eq, Hash)]
struct Key {
    op: *const u8,
    inputs: usize,
    attrs: String,
}

thread_local! {
    static CALLS: RefCell<HashMap<Key, Rc<PreparedCall>>> = RefCell::default();
}

/// The call of `op` (a name from the registry) with these attributes, from the cache if it was parsed before. A variadic
/// operator's number of inputs is filled in from `inputs` if the attributes leave it out.
///
/// # Errors
/// Parameters that do not parse.
pub fn prepare<'a>(
    op: &'static str,
    attrs: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    inputs: usize,
) -> Result<Rc<PreparedCall>> {
    let mut text = String::new();
    for (k, v) in attrs.clone() {
        text.push_str(k);
        text.push('\u{1}');
        text.push_str(v);
        text.push('\u{2}');
    }
    let key = Key { op: op.as_ptr(), inputs, attrs: text };
    if let Some(call) = CALLS.with_borrow(|calls| calls.get(&key).cloned()) {
        return Ok(call);
    }
    let count = ferromx_ops::registry::find(op)?.1.key_var_num_args();
    let mut attrs: Attrs = attrs.map(|(k, v)| (k.to_string(), v.to_string())).collect();
    if !count.is_empty() {
        attrs.entry(count.into()).or_insert_with(|| inputs.to_string());
    }
    let call = Rc::new(PreparedCall { op: op_call(op, &attrs)?, attrs });
    CALLS.with_borrow_mut(|calls| {
        if calls.len() >= CAPACITY {
            calls.clear();
        }
        calls.insert(key, call.clone());
    });
    Ok(call)
}

/// Runs an operator by name on tensors, recording it where the thread records. Outputs go to `outputs`, or to new tensors if that
/// is empty; either way the visible ones are returned.
///
/// # Errors
/// No such operator, parameters that do not parse, and those of [`record`].
pub fn call<'a>(
    op: &'static str,
    attrs: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    inputs: &[Arc<Tensor>],
    outputs: &[Arc<Tensor>],
) -> Result<Vec<Arc<Tensor>>> {
    let prepared = prepare(op, attrs, inputs.len())?;
    let context = match prepared.attrs.get("ctx") {
        Some(text) if inputs.is_empty() && !text.is_empty() => {
            Some(text.parse::<Context>().map_err(|e| e.in_operator(op, op))?)
        }
        _ => None,
    };
    record(&prepared.op, &prepared.attrs, context, inputs, outputs)
}
