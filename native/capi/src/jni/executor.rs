//! Executors: binding, running, outputs, reshaping, monitors.

use std::sync::Arc;

use ferromx_runtime::arrays::dtype_of_code;
use ferromx_runtime::context::Context;
use ferromx_runtime::error::Error;
use ferromx_runtime::executor::{BoundStored, Devices, Executor, Monitor, ReshapeOptions, SimpleBind};
use ferromx_runtime::imperative::Tensor;
use ferromx_runtime::ndarray::NDArray;
use ferromx_runtime::op::Mode;
use ferromx_runtime::sparse::Array;
use ferromx_runtime::storage::Req;
use ferromx_runtime::symbol_infer::{infer_dtypes, infer_shapes};
use jni::Env;
use jni::objects::{JIntArray, JLongArray, JObject, JObjectArray, JString};
use jni::refs::Global;
use jni::sys::{jboolean, jint, jlong};

use super::declarations::MXMonitorCallback;
use super::kvstore::keys_and_arrays;
use super::symbol::unpack_shapes;
use super::{EngineResult, Result, call_back, ints, longs, native, new_longs, same_length, strings, upcalls};
use crate::handle::{self, Object, executor, insert, insert_symbol, insert_tensor, kv_store, symbol, tensor};

fn arrays(handles: &[jlong]) -> Result<Vec<NDArray>> {
    Ok(handles.iter().map(|h| tensor(*h as u64)?.array()).collect::<EngineResult<_>>()?)
}

fn stored(handles: &[jlong]) -> Result<Vec<Array>> {
    Ok(handles.iter().map(|h| tensor(*h as u64)?.stored()).collect::<EngineResult<_>>()?)
}

fn wrap(array: impl Into<Array>) -> jlong {
    insert_tensor(Tensor::new(array)) as jlong
}

/// The handle of a new executor.
fn bound(executor: Executor) -> jlong {
    insert(Object::Executor(Arc::new(executor))) as jlong
}

/// A monitor that calls Java on the thread that called the executor. If the callback throws, the exception stays pending and the
/// callback is not called again.
fn monitor(env: &mut Env<'_>, callback: &JObject<'_>) -> Result<Monitor> {
    let callback: Global<JObject<'static>> = env.new_global_ref(callback)?;
    Ok(Arc::new(move |name: &str, array: Array| {
        let _ = call_back(|env| {
            let name = env.new_string(name)?;
            let arguments = [(&name).into(), wrap(array).into()];
            upcalls::MONITOR.call(env, &callback, &arguments)?;
            env.delete_local_ref(name);
            Ok(())
        });
    }))
}

/// The devices of a graph: the default, and those of `ctx_group` names, which may be null.
fn devices<'l>(
    env: &mut Env<'l>,
    default: (jint, jint),
    names: &JObjectArray<'l, JString<'l>>,
    types: &JIntArray<'l>,
    ids: &JIntArray<'l>,
) -> Result<Devices> {
    let default = Context::from_codes(default.0, default.1)?;
    if names.is_null() {
        return Ok(default.into());
    }
    let (names, types, ids) =
        (strings(env, names, "groupNames")?, ints(env, types, "groupDevTypes")?, ints(env, ids, "groupDevIds")?);
    same_length(types.len(), names.len(), "device types", "groups")?;
    same_length(ids.len(), names.len(), "device numbers", "groups")?;
    let mut devices = Devices::from(default);
    for (name, (t, id)) in names.into_iter().zip(types.into_iter().zip(ids)) {
        devices.groups.insert(name, Context::from_codes(t, id)?);
    }
    Ok(devices)
}

native! {
    fn executorBind(
        env, symbol_handle: jlong, dev_type: jint, dev_id: jint, group_names: JObjectArray<'l, JString<'l>>,
        group_types: JIntArray<'l>, group_ids: JIntArray<'l>, args: JLongArray<'l>, grads: JLongArray<'l>,
        reqs: JIntArray<'l>, aux: JLongArray<'l>, shared: jlong) -> jlong
    {
        let devices = devices(env, (dev_type, dev_id), &group_names, &group_types, &group_ids)?;
        let s = symbol(symbol_handle as u64)?;
        let args = stored(&longs(env, &args, "args")?)?;
        let grads = longs(env, &grads, "grads")?
            .into_iter()
            .map(|h| if h == 0 { Ok(None) } else { Ok(Some(tensor(h as u64)?.stored()?)) })
            .collect::<Result<Vec<_>>>()?;
        let reqs = ints(env, &reqs, "gradReqs")?
            .into_iter()
            .zip(&grads)
            .map(|(r, g)| Ok(if g.is_none() { Req::Null } else { Req::from_code(r as u32)? }))
            .collect::<Result<Vec<_>>>()?;
        let aux = stored(&longs(env, &aux, "aux")?)?;
        let shared = if shared == 0 { None } else { Some(executor(shared as u64)?) };
        Ok(bound(Executor::bind_stored(&s, devices, BoundStored { args, grads, reqs, aux }, shared.as_deref())?))
    }

    fn executorSimpleBind(
        env, symbol_handle: jlong, dev_type: jint, dev_id: jint, req: jint, names: JObjectArray<'l, JString<'l>>,
        ndims: JIntArray<'l>, dims: JLongArray<'l>, typed: JObjectArray<'l, JString<'l>>, dtypes: JIntArray<'l>) -> jlong
    {
        let s = symbol(symbol_handle as u64)?;
        let names = strings(env, &names, "names")?;
        let shapes = unpack_shapes(&ints(env, &ndims, "ndims")?, &longs(env, &dims, "dims")?)?;
        same_length(shapes.len(), names.len(), "shapes", "names")?;
        let (typed, codes) = (strings(env, &typed, "typed")?, ints(env, &dtypes, "dtypes")?);
        same_length(codes.len(), typed.len(), "types", "names")?;
        let dtypes = typed.into_iter().zip(codes).filter(|(_, code)| *code != -1);
        let dtypes = dtypes.map(|(name, code)| Ok((name, dtype_of_code(code)?))).collect::<Result<Vec<_>>>()?;
        let learned = Req::from_code(req as u32)?;
        let is_input = |name: &String| name.ends_with("data") || name.ends_with("label");
        let arguments = s.list_arguments();
        let given: Vec<_> = names.into_iter().zip(shapes).collect();
        // Inference refuses names that neither an argument nor an auxiliary state has; binding ignores them.
        if given.iter().any(|(name, _)| !arguments.contains(name)) {
            infer_shapes(&s, &given)?;
        }
        if dtypes.iter().any(|(name, _)| !arguments.contains(name)) {
            infer_dtypes(&s, &dtypes)?;
        }
        let reqs = arguments.iter().map(|name| if is_input(name) { Req::Null } else { learned });
        let mut simple_bind = SimpleBind {
            shapes: given,
            dtypes,
            reqs: reqs.collect(),
            devices: Context::from_codes(dev_type, dev_id)?.into(),
            ..SimpleBind::default()
        };
        Ok(bound(simple_bind.bind(&s)?))
    }

    fn executorFree(_env, handle: jlong) {
        Ok(handle::free(handle as u64, "Executor")?)
    }

    fn executorForward(_env, handle: jlong, is_train: jboolean) {
        Ok(executor(handle as u64)?.forward(Mode::training_if(is_train))?)
    }

    fn executorBackward(env, handle: jlong, head_grads: JLongArray<'l>) {
        let grads = if head_grads.is_null() { Vec::new() } else { arrays(&longs(env, &head_grads, "headGrads")?)? };
        Ok(executor(handle as u64)?.backward(&grads, Mode::Training)?)
    }

    fn executorBackwardPush(
        env, handle: jlong, head_grads: JLongArray<'l>, store: jlong, keys: JObjectArray<'l, JString<'l>>,
        arrays: JLongArray<'l>)
    {
        let grads = if head_grads.is_null() { Vec::new() } else { stored(&longs(env, &head_grads, "headGrads")?)? };
        let (keys, arrays) = keys_and_arrays(env, &keys, &arrays)?;
        let (executor, store) = (executor(handle as u64)?, kv_store(store as u64)?);
        Ok(store.push_in_backward(&executor, (&grads, Mode::Training), &keys, &arrays)?)
    }

    fn executorArguments(env, handle: jlong) -> JLongArray<'l> {
        let handles: Vec<jlong> = executor(handle as u64)?.stored_args().into_iter().map(wrap).collect();
        new_longs(env, &handles)
    }

    fn executorGradients(env, handle: jlong) -> JLongArray<'l> {
        let gradients = executor(handle as u64)?.stored_grads();
        let handles: Vec<jlong> = gradients.into_iter().map(|g| g.map_or(0, wrap)).collect();
        new_longs(env, &handles)
    }

    fn executorAuxiliaryStates(env, handle: jlong) -> JLongArray<'l> {
        let handles: Vec<jlong> = executor(handle as u64)?.stored_aux().into_iter().map(wrap).collect();
        new_longs(env, &handles)
    }

    fn executorOutputs(env, handle: jlong) -> JLongArray<'l> {
        let outputs = executor(handle as u64)?.output_tensors();
        let handles: Vec<jlong> = outputs.into_iter().map(|y| insert_tensor(y) as jlong).collect();
        new_longs(env, &handles)
    }

    fn executorSymbol(_env, handle: jlong) -> jlong {
        Ok(insert_symbol(executor(handle as u64)?.symbol().clone()) as jlong)
    }

    fn executorReshape(
        env, handle: jlong, partial_shaping: jboolean, allow_up_sizing: jboolean, dev_type: jint, dev_id: jint,
        group_names: JObjectArray<'l, JString<'l>>, group_types: JIntArray<'l>, group_ids: JIntArray<'l>,
        names: JObjectArray<'l, JString<'l>>, ndims: JIntArray<'l>, dims: JLongArray<'l>) -> jlong
    {
        let context = devices(env, (dev_type, dev_id), &group_names, &group_types, &group_ids)?.default;
        let old = executor(handle as u64)?;
        if context != old.context() {
            return Err(Error::Value(format!("an executor on {} cannot be reshaped on {context}", old.context())).into());
        }
        let names = strings(env, &names, "names")?;
        let shapes = unpack_shapes(&ints(env, &ndims, "ndims")?, &longs(env, &dims, "dims")?)?;
        same_length(shapes.len(), names.len(), "shapes", "names")?;
        let options = ReshapeOptions { partial_shaping, allow_up_sizing };
        Ok(bound(old.reshape(options, &names.into_iter().zip(shapes).collect::<Vec<_>>())?))
    }

    fn executorPrint(env, handle: jlong) -> JString<'l> {
        Ok(env.new_string(executor(handle as u64)?.debug_string())?)
    }

    fn executorSetMonitorCallback(
        env, handle: jlong, callback: MXMonitorCallback<'l>, monitor_all: jboolean)
    {
        let installed = if callback.is_null() { None } else { Some(monitor(env, &callback)?) };
        executor(handle as u64)?.set_monitor(installed, monitor_all);
        Ok(())
    }
}
