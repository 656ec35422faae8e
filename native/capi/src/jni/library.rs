//! Global functions and operator metadata.

use ferromx_runtime::{MXNET_VERSION, features, random, semantics};
use jni::objects::{JBooleanArray, JObjectArray, JString};
use jni::sys::{jboolean, jint, jlong};

use super::{native, new_strings, string};
use crate::handle;

/// Version of the contract in `LibInfo.scala` that these functions implement.
const ABI_VERSION: jint = 5;

native! {
    fn Java_org_apache_mxnet_LibInfo_abiVersion(_env) -> jint {
        Ok(ABI_VERSION)
    }

    fn Java_org_apache_mxnet_LibInfo_version(_env) -> jint {
        Ok(MXNET_VERSION)
    }

    fn Java_org_apache_mxnet_LibInfo_featureNames(env) -> JObjectArray<'l, JString<'l>> {
        let names: Vec<_> = features::all().into_iter().map(|(name, _)| name).collect();
        new_strings(env, &names)
    }

    fn Java_org_apache_mxnet_LibInfo_featureEnabled(env) -> JBooleanArray<'l> {
        let enabled: Vec<jboolean> = features::all().into_iter().map(|(_, on)| on).collect();
        let out = JBooleanArray::new(env, enabled.len())?;
        out.set_region(env, 0, &enabled)?;
        Ok(out)
    }

    fn Java_org_apache_mxnet_LibInfo_memoryInUse(_env) -> jlong {
        Ok(ferromx_runtime::storage::memory_in_use().0 as jlong)
    }

    fn Java_org_apache_mxnet_LibInfo_notifyShutdown(_env) {
        // Worker threads have no state to save; they end with the process.
        Ok(())
    }

    fn Java_org_apache_mxnet_LibInfo_setNumpyShape(_env, active: jboolean) -> jboolean {
        Ok(semantics::set_numpy_shape(active))
    }

    fn Java_org_apache_mxnet_LibInfo_isNumpyShape(_env) -> jboolean {
        Ok(semantics::is_numpy_shape())
    }

    fn Java_org_apache_mxnet_LibInfo_randomSeed(_env, seed: jint) {
        random::seed(seed as u64);
        Ok(())
    }

    fn Java_org_apache_mxnet_LibInfo_listAllOpNames(env) -> JObjectArray<'l, JString<'l>> {
        new_strings(env, ferromx_runtime::registry::names())
    }

    fn Java_org_apache_mxnet_LibInfo_opHandle(env, name: JString<'l>) -> jlong {
        Ok(handle::operator(&string(env, &name, "the operator name")?)? as jlong)
    }

    fn Java_org_apache_mxnet_LibInfo_symbolAtomicInfo(env, op: jlong) -> JObjectArray<'l, JString<'l>> {
        let (name, def) = handle::operator_of(op as u64)?;
        let mut flat = vec![name.to_string(), def.doc.to_string(), def.key_var_num_args().to_string(), String::new()];
        for (arg, ty, doc) in def.arguments() {
            flat.extend([arg.to_string(), ty, doc.to_string()]);
        }
        new_strings(env, &flat)
    }
}
