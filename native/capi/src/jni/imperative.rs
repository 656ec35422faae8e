//! Imperative execution and autograd.

use std::sync::Arc;

use ferromx_runtime::error::Error;
use ferromx_runtime::imperative::{self, GradientRequest, Keep, Tensor, Tensors};
use ferromx_runtime::op::Mode;
use ferromx_runtime::storage::Req;
use jni::Env;
use jni::objects::{JIntArray, JLongArray, JObjectArray, JString};
use jni::sys::{jboolean, jdouble, jlong};

use super::{EngineResult, Result, ints, longs, native, new_longs, pairs, same_length};
use crate::handle::{self, insert_tensor, tensor};

fn tensors(handles: &[jlong]) -> Result<Tensors> {
    Ok(handle::tensors(handles.iter().map(|h| *h as u64))?)
}

/// Runs an operator with one visible output. Returns a handle of the output, or `out` if the result is written to it.
fn one_output(op: jlong, inputs: &[jlong], attrs: &[(&str, &str)], out: jlong) -> Result<jlong> {
    let (name, _) = handle::operator_of(op as u64)?;
    let inputs = tensors(inputs)?;
    let outputs = tensors(if out == 0 { &[] } else { std::slice::from_ref(&out) })?;
    let mut results = imperative::call(name, attrs.iter().copied(), &inputs, &outputs)?;
    match (out, results.pop()) {
        (0, Some(result)) if results.is_empty() => Ok(insert_tensor(result) as jlong),
        (0, _) => {
            Err(Error::Value(format!("operator {name} does not have one output: call it with imperativeInvoke")).into())
        }
        _ => Ok(out),
    }
}

/// The heads and their head gradients, if given.
fn heads_of(
    env: &Env<'_>,
    heads: &JLongArray<'_>,
    gradients: &JLongArray<'_>,
) -> Result<(Tensors, Vec<Option<Arc<Tensor>>>)> {
    let heads = tensors(&longs(env, heads, "heads")?)?;
    let gradients = if gradients.is_null() { Vec::new() } else { longs(env, gradients, "headGradients")? };
    if !gradients.is_empty() {
        same_length(gradients.len(), heads.len(), "head gradients", "heads")?;
    }
    let gradients = gradients
        .into_iter()
        .map(|h| if h == 0 { Ok(None) } else { tensor(h as u64).map(Some) })
        .collect::<EngineResult<_>>()?;
    Ok((heads, gradients))
}

native! {
    fn imperativeInvoke(
        env, op: jlong, inputs: JLongArray<'l>, outputs: JLongArray<'l>, keys: JObjectArray<'l, JString<'l>>,
        values: JObjectArray<'l, JString<'l>>) -> JLongArray<'l>
    {
        let (name, _) = handle::operator_of(op as u64)?;
        let inputs = tensors(&longs(env, &inputs, "inputs")?)?;
        let given = if outputs.is_null() { Tensors::new() } else { tensors(&longs(env, &outputs, "outputs")?)? };
        let attrs = pairs(env, &keys, &values)?;
        let results = imperative::call(name, attrs.iter().map(|(k, v)| (k.as_str(), v.as_str())), &inputs, &given)?;
        if !outputs.is_null() {
            return Ok(JLongArray::default());
        }
        let handles: Vec<jlong> = results.into_iter().map(|t| insert_tensor(t) as jlong).collect();
        new_longs(env, &handles)
    }

    fn imperativeInvokeUnary(_env, op: jlong, data: jlong, out: jlong) -> jlong {
        one_output(op, &[data], &[], out)
    }

    fn imperativeInvokeBinary(_env, op: jlong, lhs: jlong, rhs: jlong, out: jlong) -> jlong {
        one_output(op, &[lhs, rhs], &[], out)
    }

    fn imperativeInvokeScalar(
        _env, op: jlong, data: jlong, scalar: jdouble, out: jlong) -> jlong
    {
        one_output(op, &[data], &[("scalar", &scalar.to_string())], out)
    }

    fn autogradSetRecording(_env, recording: jboolean) -> jboolean {
        Ok(imperative::set_recording(recording))
    }

    fn autogradSetTraining(_env, training: jboolean) -> jboolean {
        Ok(imperative::set_training(training))
    }

    fn autogradIsRecording(_env) -> jboolean {
        Ok(imperative::is_recording())
    }

    fn autogradIsTraining(_env) -> jboolean {
        Ok(imperative::is_training())
    }

    fn autogradMarkVariables(
        env, variables: JLongArray<'l>, reqs: JIntArray<'l>, gradients: JLongArray<'l>)
    {
        let variables = tensors(&longs(env, &variables, "variables")?)?;
        let reqs = ints(env, &reqs, "gradReqs")?;
        let gradients = tensors(&longs(env, &gradients, "gradients")?)?;
        same_length(reqs.len(), variables.len(), "gradient requests", "variables")?;
        same_length(gradients.len(), variables.len(), "gradients", "variables")?;
        let requests = gradients
            .into_iter()
            .zip(reqs)
            .map(|(array, req)| Ok(GradientRequest { array, req: Req::from_code(req as u32)? }))
            .collect::<Result<Vec<_>>>()?;
        Ok(imperative::mark_variables(&variables, &requests)?)
    }

    fn autogradBackward(
        env, heads: JLongArray<'l>, head_gradients: JLongArray<'l>, retain_graph: jboolean, is_train: jboolean)
    {
        let keep = if retain_graph { Keep::Graph } else { Keep::Nothing };
        let (heads, gradients) = heads_of(env, &heads, &head_gradients)?;
        imperative::backward_in_mode(&heads, &gradients, &[], keep, Mode::training_if(is_train))?;
        Ok(())
    }

    fn autogradGradients(
        env, heads: JLongArray<'l>, head_gradients: JLongArray<'l>, variables: JLongArray<'l>, create_graph: jboolean,
        is_train: jboolean) -> JLongArray<'l>
    {
        let (heads, gradients) = heads_of(env, &heads, &head_gradients)?;
        let variables = tensors(&longs(env, &variables, "variables")?)?;
        if variables.is_empty() {
            return Err(Error::value("no variables were given: pass the arrays to differentiate with respect to").into());
        }
        let keep = if create_graph { Keep::Gradients } else { Keep::Graph };
        let computed = imperative::backward_in_mode(&heads, &gradients, &variables, keep, Mode::training_if(is_train))?;
        let handles: Vec<jlong> = computed.into_iter().map(|t| insert_tensor(t) as jlong).collect();
        new_longs(env, &handles)
    }

    fn ndarrayGrad(_env, handle: jlong) -> jlong {
        Ok(tensor(handle as u64)?.grad().map_or(0, |g| insert_tensor(g) as jlong))
    }
}
