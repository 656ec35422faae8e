//! Key-value stores.

use std::sync::Arc;

use ferromx_runtime::error::Error;
use ferromx_runtime::imperative::Tensors;
use ferromx_runtime::kvstore::{Key, KvStore, Update, Updater};
use jni::objects::{JLongArray, JObject, JObjectArray, JString};
use jni::refs::Global;
use jni::sys::jlong;
use jni::{Env, jni_sig, jni_str};

use super::{JniError, Result, call_back, longs, native, null, string, strings};
use crate::handle::{self, Object, insert, insert_tensor, kv_store};

/// The keys and arrays of a call.
fn pairs<'l>(
    env: &mut Env<'l>,
    keys: &JObjectArray<'l, JString<'l>>,
    arrays: &JLongArray<'l>,
) -> Result<(Vec<Key>, Tensors)> {
    let keys = strings(env, keys, "keys")?.into_iter().map(Key::Name).collect();
    let arrays = longs(env, arrays, "arrays")?;
    Ok((keys, handle::tensors(arrays.into_iter().map(|h| h as u64))?))
}

/// An updater that calls Java. An exception that it throws stays pending.
fn updater(env: &mut Env<'_>, callback: &JObject<'_>) -> Result<Updater> {
    let callback: Global<JObject<'static>> = env.new_global_ref(callback)?;
    Ok(Arc::new(move |update: Update<'_>| {
        call_back(|env| {
            let key = env.new_string(update.key.to_string())?;
            let (pushed, stored) =
                (insert_tensor(update.pushed.clone()) as jlong, insert_tensor(update.stored.clone()) as jlong);
            let arguments = [(&key).into(), pushed.into(), stored.into()];
            let sig = jni_sig!("(Ljava/lang/String;JJ)V");
            env.call_method(&callback, jni_str!("update"), sig, &arguments)?;
            env.delete_local_ref(key);
            Ok(())
        })
        .map_err(|error| match error {
            JniError::Engine(error) => error,
            JniError::Jni(error) => Error::Value(format!("the updater of the key-value store failed: {error}")),
        })
    }))
}

native! {
    fn Java_org_apache_mxnet_LibInfo_kvstoreCreate(env, kind: JString<'l>) -> jlong {
        let store = KvStore::new(&string(env, &kind, "the store's type")?)?;
        Ok(insert(Object::KvStore(Arc::new(store))) as jlong)
    }

    fn Java_org_apache_mxnet_LibInfo_kvstoreFree(_env, handle: jlong) {
        Ok(handle::free(handle as u64, "KVStore")?)
    }

    fn Java_org_apache_mxnet_LibInfo_kvstoreType(env, handle: jlong) -> JString<'l> {
        Ok(env.new_string(kv_store(handle as u64)?.kind())?)
    }

    fn Java_org_apache_mxnet_LibInfo_kvstoreInit(
        env, handle: jlong, keys: JObjectArray<'l, JString<'l>>, arrays: JLongArray<'l>)
    {
        let (keys, arrays) = pairs(env, &keys, &arrays)?;
        Ok(kv_store(handle as u64)?.init(&keys, &arrays)?)
    }

    fn Java_org_apache_mxnet_LibInfo_kvstorePush(
        env, handle: jlong, keys: JObjectArray<'l, JString<'l>>, arrays: JLongArray<'l>)
    {
        let (keys, arrays) = pairs(env, &keys, &arrays)?;
        Ok(kv_store(handle as u64)?.push(&keys, &arrays)?)
    }

    fn Java_org_apache_mxnet_LibInfo_kvstorePull(
        env, handle: jlong, keys: JObjectArray<'l, JString<'l>>, arrays: JLongArray<'l>)
    {
        let (keys, arrays) = pairs(env, &keys, &arrays)?;
        Ok(kv_store(handle as u64)?.pull(&keys, &arrays, true)?)
    }

    fn Java_org_apache_mxnet_LibInfo_kvstoreSetUpdater(env, handle: jlong, callback: JObject<'l>) {
        if callback.is_null() {
            return Err(null("the updater"));
        }
        let updater = updater(env, &callback)?;
        kv_store(handle as u64)?.set_updater(updater);
        Ok(())
    }
}
