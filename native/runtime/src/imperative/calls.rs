//! A cache of parsed operator calls, so that parameters are parsed only once.

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

/// A cached call and its key: operator, parameters as text, and number of inputs.
struct CachedCall {
    op: &'static str,
    attrs: Vec<(String, String)>,
    num_inputs: usize,
    hash: u64,
    /// The generation of the user operator registry that the call is valid for; 0 if the operator is built in.
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

/// The call of `op`, a name from the registry, with these attributes, from the cache if it was parsed before. A lookup does not allocate.
/// `num_inputs` is the number of inputs of a variadic operator whose attributes omit it.
///
/// # Errors
/// Parameters that do not parse.
pub fn prepare<'a>(
    op: &'static str,
    attrs: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    num_inputs: usize,
) -> Result<Rc<PreparedCall>> {
    let generation = user_op::generation();
    let is_match = |cached: &CachedCall| {
        let mut remaining = attrs.clone();
        std::ptr::eq(cached.op, op)
            && cached.num_inputs == num_inputs
            && (cached.generation == 0 || cached.generation == generation)
            && cached.attrs.iter().all(|(k, v)| remaining.next().is_some_and(|(key, value)| key == k && value == v))
            && remaining.next().is_none()
    };
    let (hash, cached_call) = CALLS.with_borrow(|calls| {
        let mut state = calls.hasher.build_hasher();
        (op.as_ptr(), num_inputs).hash(&mut state);
        attrs.clone().for_each(|pair| pair.hash(&mut state));
        let hash = state.finish();
        (hash, calls.table.find(hash, is_match).map(|cached| cached.call.clone()))
    });
    if let Some(call) = cached_call {
        return Ok(call);
    }
    let text_attrs: Vec<_> = attrs.map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let call = Rc::new(parse(op, &text_attrs, num_inputs)?);
    if !call.op.def.is_reusable(&call.op.params) {
        return Ok(call);
    }
    let generation = if matches!(call.op.def.kernels.forward, Forward::Foreign(_)) { generation } else { 0 };
    let cached = CachedCall { op, attrs: text_attrs, num_inputs, hash, generation, call: call.clone() };
    CALLS.with_borrow_mut(|calls| {
        if calls.table.len() >= CAPACITY {
            calls.table.clear();
        }
        calls.table.insert_unique(hash, cached, |cached| cached.hash);
    });
    Ok(call)
}

fn parse(op: &'static str, text_attrs: &[(String, String)], num_inputs: usize) -> Result<PreparedCall> {
    let num_args_key = ferromx_ops::registry::find(op)?.1.key_var_num_args();
    let mut attrs: Attrs = text_attrs.iter().cloned().collect();
    if !num_args_key.is_empty() {
        attrs.entry(num_args_key.into()).or_insert_with(|| num_inputs.to_string());
    }
    let call = PreparedCall { op: OpCall::new(op, &attrs)?, attrs };
    check_num_args(&call, num_args_key, num_inputs)?;
    Ok(call)
}

/// Checks the parameter that counts the inputs of a variadic operator. Control flow operators are exempt, since their number of inputs also
/// depends on their subgraphs.
fn check_num_args(call: &PreparedCall, num_args_key: &str, num_inputs: usize) -> Result<()> {
    let op = call.op.name;
    if num_args_key.is_empty()
        || call.op.def.num_inputs(&call.op.params).is_some()
        || ["_foreach", "_while_loop", "_cond"].contains(&op)
    {
        return Ok(());
    }
    let Some(text) = call.attrs.get(num_args_key) else { return Ok(()) };
    ensure!(
        text.trim().parse() == Ok(num_inputs),
        "Operator {op} expects {text} inputs, but got {num_inputs} instead.: {num_args_key} is the number of inputs"
    );
    Ok(())
}

/// Runs an operator by name on tensors, and records it if the thread is recording. Results are written to `outputs`, or to new tensors
/// if that is empty. Returns the visible outputs.
///
/// # Errors
/// No such operator; parameters that do not parse; see also [`record`].
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
