//! A cache of parsed operator calls, so that parameters are parsed once.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::op::Forward;
use ferromx_core::params::Attrs;
use ferromx_core::user_op;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::tape::{Tensor, Tensors, record};
use crate::graph::op_call;
use crate::symbol::OpCall;

/// An operator with its parameters, parsed and as text.
pub struct PreparedCall {
    /// Operator and parameters.
    pub op: OpCall,
    /// The parameters as text.
    pub attrs: Attrs,
}

/// Maximum number of cached calls per thread; a full cache is cleared.
const CAPACITY: usize = 4096;

/// A cached call and its key: operator, parameters as written, and number of inputs.
struct CachedCall {
    op: &'static str,
    attrs: Vec<(String, String)>,
    inputs: usize,
    hash: u64,
    /// The generation of registered user operators that the call is valid for; 0 if it does not depend on them.
    generation: u64,
    call: Rc<PreparedCall>,
}

#[derive(Default)]
struct Calls {
    table: HashTable<CachedCall>,
    hasher: DefaultHashBuilder,
}

thread_local! {
    static CALLS: RefCell<Calls> = RefCell::default();
}

/// The call of `op` (a name from the registry) with these attributes, from the cache if it was parsed before. The lookup does not
/// allocate. For a variadic operator, `inputs` is the number of inputs if the attributes omit it.
///
/// # Errors
/// Parameters that do not parse.
pub fn prepare<'a>(
    op: &'static str,
    attrs: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    inputs: usize,
) -> Result<Rc<PreparedCall>> {
    let generation = user_op::generation();
    let same = |cached: &CachedCall| {
        let mut given = attrs.clone();
        std::ptr::eq(cached.op, op)
            && cached.inputs == inputs
            && (cached.generation == 0 || cached.generation == generation)
            && cached.attrs.iter().all(|(k, v)| given.next().is_some_and(|(key, value)| key == k && value == v))
            && given.next().is_none()
    };
    let (hash, found) = CALLS.with_borrow(|calls| {
        let mut state = calls.hasher.build_hasher();
        (op.as_ptr(), inputs).hash(&mut state);
        attrs.clone().for_each(|pair| pair.hash(&mut state));
        let hash = state.finish();
        (hash, calls.table.find(hash, same).map(|cached| cached.call.clone()))
    });
    if let Some(call) = found {
        return Ok(call);
    }
    let written: Vec<_> = attrs.map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let call = Rc::new(parse(op, &written, inputs)?);
    if !call.op.def.reusable(&call.op.params) {
        return Ok(call);
    }
    let generation = if matches!(call.op.def.forward, Forward::Foreign(_)) { generation } else { 0 };
    let cached = CachedCall { op, attrs: written, inputs, hash, generation, call: call.clone() };
    CALLS.with_borrow_mut(|calls| {
        if calls.table.len() >= CAPACITY {
            calls.table.clear();
        }
        calls.table.insert_unique(hash, cached, |cached| cached.hash);
    });
    Ok(call)
}

fn parse(op: &'static str, written: &[(String, String)], inputs: usize) -> Result<PreparedCall> {
    let count = ferromx_ops::registry::find(op)?.1.key_var_num_args();
    let mut attrs: Attrs = written.iter().cloned().collect();
    if !count.is_empty() {
        attrs.entry(count.into()).or_insert_with(|| inputs.to_string());
    }
    let call = PreparedCall { op: op_call(op, &attrs)?, attrs };
    check_count(&call, count, inputs)?;
    Ok(call)
}

/// Checks the number of inputs that the attributes of a variadic operator name. The number of inputs of control flow also depends on
/// the graphs.
fn check_count(call: &PreparedCall, count: &str, inputs: usize) -> Result<()> {
    let op = call.op.name;
    if count.is_empty()
        || call.op.def.num_inputs(&call.op.params).is_some()
        || ["_foreach", "_while_loop", "_cond"].contains(&op)
    {
        return Ok(());
    }
    let named = call.attrs.get(count).and_then(|text| text.parse::<usize>().ok());
    ensure!(
        named.is_none_or(|n| n == inputs),
        "Operator {op} expects {} inputs, but got {inputs} instead.: {count} is the number of inputs",
        named.unwrap_or(inputs)
    );
    Ok(())
}

/// Runs an operator by name on tensors, and records it if the thread is recording. Results are written to `outputs`, or to new tensors
/// if that is empty. Returns the visible outputs.
///
/// # Errors
/// No such operator, parameters that do not parse, and those of [`record`].
pub fn call<'a>(
    op: &'static str,
    attrs: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    inputs: &[Arc<Tensor>],
    outputs: &[Arc<Tensor>],
) -> Result<Tensors> {
    let prepared = prepare(op, attrs, inputs.len())?;
    let context = match prepared.attrs.get("ctx") {
        Some(text) if inputs.is_empty() && !text.is_empty() => {
            Some(text.parse::<Context>().map_err(|e| e.in_operator(op, op))?)
        }
        _ => None,
    };
    record(&prepared.op, &prepared.attrs, context, inputs, outputs)
}
