//! Key-value stores and distributed jobs.

use std::sync::Arc;
use std::time::Duration;

use ferromx_runtime::error::Error;
use ferromx_runtime::imperative::Tensors;
use ferromx_runtime::kvstore::{JoinOptions, Key, KvStore, Member, Update, Updater, set_environment};
use jni::Env;
use jni::objects::{JByteArray, JLongArray, JObject, JObjectArray, JString};
use jni::refs::Global;
use jni::sys::{jboolean, jint, jlong};

use super::declarations::KVStoreCallback;
use super::{JniError, Result, attrs, call_back, longs, native, null, string, strings, upcalls};
use crate::handle::{self, Object, insert, insert_tensor, job, kv_store};

/// The keys and arrays of a call.
pub(super) fn keys_and_arrays<'l>(
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
            upcalls::UPDATER.call(env, &callback, &arguments)?;
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
    fn kvstoreCreate(env, kind: JString<'l>) -> jlong {
        let store = KvStore::new(&string(env, &kind, "the store's type")?)?;
        Ok(insert(Object::KvStore(Arc::new(store))) as jlong)
    }

    fn kvstoreFree(_env, handle: jlong) {
        Ok(handle::free(handle as u64, "KVStore")?)
    }

    fn kvstoreType(env, handle: jlong) -> JString<'l> {
        Ok(env.new_string(kv_store(handle as u64)?.kind())?)
    }

    fn kvstoreInit(
        env, handle: jlong, keys: JObjectArray<'l, JString<'l>>, arrays: JLongArray<'l>)
    {
        let (keys, arrays) = keys_and_arrays(env, &keys, &arrays)?;
        Ok(kv_store(handle as u64)?.init(&keys, &arrays)?)
    }

    fn kvstorePush(
        env, handle: jlong, keys: JObjectArray<'l, JString<'l>>, arrays: JLongArray<'l>)
    {
        let (keys, arrays) = keys_and_arrays(env, &keys, &arrays)?;
        Ok(kv_store(handle as u64)?.push(&keys, &arrays)?)
    }

    fn kvstorePull(
        env, handle: jlong, keys: JObjectArray<'l, JString<'l>>, arrays: JLongArray<'l>)
    {
        let (keys, arrays) = keys_and_arrays(env, &keys, &arrays)?;
        Ok(kv_store(handle as u64)?.pull(&keys, &arrays)?)
    }

    fn kvstoreSetUpdater(env, handle: jlong, callback: KVStoreCallback<'l>) {
        if callback.is_null() {
            return Err(null("the updater"));
        }
        let updater = updater(env, &callback)?;
        kv_store(handle as u64)?.set_updater(updater);
        Ok(())
    }

    fn kvstoreRank(_env, handle: jlong) -> jint {
        Ok(kv_store(handle as u64)?.rank() as jint)
    }

    fn kvstoreNumWorkers(_env, handle: jlong) -> jint {
        Ok(kv_store(handle as u64)?.num_workers()? as jint)
    }

    fn kvstoreNumDead(_env, handle: jlong, group: jint) -> jint {
        Ok(kv_store(handle as u64)?.num_dead(group) as jint)
    }

    fn kvstoreBarrier(_env, handle: jlong) {
        Ok(kv_store(handle as u64)?.barrier()?)
    }

    fn kvstoreWaitAtEnd(_env, handle: jlong, wait: jboolean) {
        kv_store(handle as u64)?.set_wait_at_end(wait);
        Ok(())
    }

    fn kvstoreServe(_env, handle: jlong) {
        Ok(kv_store(handle as u64)?.serve()?)
    }

    fn kvstoreCompress(
        env, handle: jlong, keys: JObjectArray<'l, JString<'l>>, values: JObjectArray<'l, JString<'l>>)
    {
        let params = attrs(env, &keys, &values)?;
        Ok(kv_store(handle as u64)?.set_compression(&params)?)
    }

    fn jobEnvironment(
        env, keys: JObjectArray<'l, JString<'l>>, values: JObjectArray<'l, JString<'l>>)
    {
        let variables = attrs(env, &keys, &values)?;
        Ok(set_environment(&variables)?)
    }

    fn jobListen(env, host: JString<'l>, port: jint) -> jlong {
        let host = string(env, &host, "the host")?;
        let port = u16::try_from(port).map_err(|_| Error::Value(format!("port is {port}: ports are 0 to 65535")))?;
        Ok(insert(Object::Job(Arc::new(Member::listen(&host, port)?))) as jlong)
    }

    fn jobPort(_env, handle: jlong) -> jint {
        Ok(jint::from(job(handle as u64)?.port()))
    }

    fn jobJoin(
        env, handle: jlong, rank: jint, peers: JObjectArray<'l, JString<'l>>, secret: JByteArray<'l>, timeout: jlong)
    {
        if secret.is_null() {
            return Err(null("the secret"));
        }
        let options = JoinOptions {
            rank: usize::try_from(rank).map_err(|_| Error::Value(format!("rank is {rank}: ranks count from 0")))?,
            peers: strings(env, &peers, "the peers")?,
            secret: env.convert_byte_array(&secret)?,
            timeout: Duration::from_millis(timeout.max(0) as u64),
        };
        Ok(job(handle as u64)?.join(options)?)
    }

    fn jobRank(_env, handle: jlong) -> jint {
        Ok(job(handle as u64)?.job()?.rank() as jint)
    }

    fn jobSize(_env, handle: jlong) -> jint {
        Ok(job(handle as u64)?.job()?.size() as jint)
    }

    fn jobBarrier(_env, handle: jlong) {
        Ok(job(handle as u64)?.job()?.barrier()?)
    }

    fn jobStore(env, handle: jlong, kind: JString<'l>) -> jlong {
        let kind = string(env, &kind, "the store's type")?;
        let store = KvStore::of_job(&job(handle as u64)?.job()?, &kind)?;
        Ok(insert(Object::KvStore(Arc::new(store))) as jlong)
    }

    fn jobClose(_env, handle: jlong) {
        job(handle as u64)?.close();
        Ok(())
    }

    fn jobFree(_env, handle: jlong) {
        Ok(handle::free(handle as u64, "Job")?)
    }
}
