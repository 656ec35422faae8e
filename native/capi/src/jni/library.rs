//! Global functions and operator metadata.

use ferromx_runtime::context::Context;
use ferromx_runtime::error::Error;
use ferromx_runtime::op::RandomKey;
use ferromx_runtime::random::{self, DeviceState};
use ferromx_runtime::{MXNET_VERSION, features, semantics};
use jni::objects::{JBooleanArray, JLongArray, JObjectArray, JString};
use jni::sys::{jboolean, jint, jlong};

use super::declarations::ABI_VERSION;
use super::{JniError, longs, native, new_longs, new_strings, string};
use crate::handle;

fn wrong_random_state(len: usize) -> JniError {
    Error::Value(format!("a random state has 1 + 4 * devices numbers, not {len}")).into()
}

native! {
    fn abiVersion(_env) -> jint {
        Ok(ABI_VERSION)
    }

    fn version(_env) -> jint {
        Ok(MXNET_VERSION)
    }

    fn featureNames(env) -> JObjectArray<'l, JString<'l>> {
        let names: Vec<_> = features::all().into_iter().map(|(name, _)| name).collect();
        new_strings(env, &names)
    }

    fn featureEnabled(env) -> JBooleanArray<'l> {
        let enabled: Vec<jboolean> = features::all().into_iter().map(|(_, on)| on).collect();
        let out = JBooleanArray::new(env, enabled.len())?;
        out.set_region(env, 0, &enabled)?;
        Ok(out)
    }

    fn memoryInUse(_env) -> jlong {
        Ok(ferromx_runtime::storage::memory_in_use().0 as jlong)
    }

    fn releaseCachedMemory(_env) {
        ferromx_runtime::storage::release_cached_memory();
        Ok(())
    }

    fn setNumpyShape(_env, active: jboolean) -> jboolean {
        Ok(semantics::set_numpy_shape(active))
    }

    fn isNumpyShape(_env) -> jboolean {
        Ok(semantics::is_numpy_shape())
    }

    fn randomSeed(_env, seed: jint) {
        random::seed(seed as u64);
        Ok(())
    }

    fn randomSetThread(env, state: JLongArray<'l>) -> JLongArray<'l> {
        let next = match state.is_null() {
            true => None,
            false => match longs(env, &state, "the random state of a thread")?[..] {
                [seed, stream] => Some(RandomKey { seed: seed as u64, stream: stream as u64 }),
                ref other => return Err(Error::Value(format!("a thread has 2 numbers as its random state, not {}", other.len())).into()),
            },
        };
        match random::set_thread_key(next) {
            Some(RandomKey { seed, stream }) => new_longs(env, &[seed as jlong, stream as jlong]),
            None => Ok(JLongArray::null()),
        }
    }

    fn randomState(env) -> JLongArray<'l> {
        let state = random::state();
        let mut flat = vec![state.global_seed as jlong];
        for DeviceState { context, seed, next_stream } in state.devices {
            flat.extend([context.device_type as jlong, context.device_id.into(), seed as jlong, next_stream as jlong]);
        }
        new_longs(env, &flat)
    }

    fn randomRestore(env, state: JLongArray<'l>) {
        let flat = longs(env, &state, "the random state")?;
        let [global_seed, devices @ ..] = &flat[..] else { return Err(wrong_random_state(flat.len())) };
        let (devices, []) = devices.as_chunks::<4>() else { return Err(wrong_random_state(flat.len())) };
        let devices = devices.iter().map(|&[device_type, id, seed, next_stream]| {
            let (device_type, id) = (i32::try_from(device_type).unwrap_or(-1), i32::try_from(id).unwrap_or(-1));
            let context = Context::from_codes(device_type, id)?;
            Ok(DeviceState { context, seed: seed as u64, next_stream: next_stream as u64 })
        });
        let devices = devices.collect::<Result<_, Error>>()?;
        random::restore(&random::State { global_seed: *global_seed as u64, devices });
        Ok(())
    }

    fn listAllOpNames(env) -> JObjectArray<'l, JString<'l>> {
        new_strings(env, ferromx_runtime::registry::names())
    }

    fn opHandle(env, name: JString<'l>) -> jlong {
        Ok(handle::operator(&string(env, &name, "the operator name")?)? as jlong)
    }

    fn symbolAtomicInfo(env, op: jlong) -> JObjectArray<'l, JString<'l>> {
        let (name, def) = handle::operator_of(op as u64)?;
        let mut flat = vec![name.to_string(), def.metadata.doc.to_string(), def.key_var_num_args().to_string(), String::new()];
        for (arg, ty, doc) in def.arguments() {
            flat.extend([arg.to_string(), ty, doc.to_string()]);
        }
        new_strings(env, &flat)
    }
}
