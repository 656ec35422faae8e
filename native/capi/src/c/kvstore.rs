//! Key-value stores, within one process or shared by the workers of a job.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;

use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::imperative::Tensors;
use ferromx_runtime::kvstore::{
    JobRole, Key, KeyedArrays, KvStore, SparseOutputs, Update, Updater, has_job, role, set_environment,
};

use super::args::{UserData, attrs, id, put, raw, slice, tensors, text, texts};
use super::guard;
use super::ret::{put_handle, put_text};
use super::types::{KVStoreHandle, MXKVStoreServerController, MXKVStoreStrUpdater, MXKVStoreUpdater, NDArrayHandle};
use crate::handle::{self, Object, insert, insert_tensor, kv_store};

fn numbers(keys: *const c_int, n: u32) -> Result<Vec<Key>> {
    Ok(slice(keys, n as usize, "keys")?.iter().map(|k| Key::Number(*k)).collect())
}

fn names(keys: *mut *const c_char, n: u32) -> Result<Vec<Key>> {
    Ok(texts(keys, n as usize, "keys")?.into_iter().map(Key::Name).collect())
}

fn arrays(handles: *const NDArrayHandle, n: u32, what: &str) -> Result<Tensors> {
    tensors(handles, n as usize, what)
}

/// An updater that calls the C function for the key's type. Without a function for string keys, the one for integer keys gets the index of
/// the key in order of initialization.
fn updater(by_number: MXKVStoreUpdater, by_name: MXKVStoreStrUpdater, user_data: *mut c_void) -> Updater {
    let user_data = UserData(user_data);
    Arc::new(move |update: Update<'_>| {
        let arrays = || (raw(insert_tensor(update.pushed.clone())), raw(insert_tensor(update.stored.clone())));
        match (update.key, by_name) {
            (Key::Name(key), Some(call)) => {
                let key = CString::new(key.replace('\0', "\\0")).unwrap_or_default();
                let (pushed, stored) = arrays();
                // SAFETY: by the contract of the C API, the function takes a key and two array handles, which it owns; the key outlives
                // the call.
                unsafe { call(key.as_ptr(), pushed, stored, user_data.pointer()) };
            }
            (Key::Number(_), _) | (Key::Name(_), None) => {
                let missing = || Error::Value("the updater has no function for keys that are numbers".into());
                let call = by_number.ok_or_else(missing)?;
                let (pushed, stored) = arrays();
                // SAFETY: as above.
                unsafe { call(update.number, pushed, stored, user_data.pointer()) };
            }
        }
        Ok(())
    })
}

/// Creates a store: of this process (kind `local` or `device`), or shared by the workers of a job (`dist_sync` or `dist_device_sync`). The
/// environment variables `DMLC_*` describe the job.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreCreate(type_: *const c_char, out: *mut KVStoreHandle) -> c_int {
    guard(|| {
        let kind = text(type_, "type")?;
        put_handle(out, || Ok(insert(Object::KvStore(Arc::new(KvStore::new(&kind)?)))))
    })
}

/// Frees a store; null is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreFree(handle: KVStoreHandle) -> c_int {
    guard(|| handle::free(id(handle), "KVStore"))
}

/// Returns the kind of a store, valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreGetType(handle: KVStoreHandle, type_: *mut *const c_char) -> c_int {
    guard(|| put_text("MXKVStoreGetType", kv_store(id(handle))?.kind(), type_))
}

/// Returns the rank of this process among those that share the store.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreGetRank(handle: KVStoreHandle, ret: *mut c_int) -> c_int {
    guard(|| {
        let rank = kv_store(id(handle))?.rank();
        put(ret, rank as c_int, "ret")
    })
}

/// Returns the number of processes that share the store.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreGetGroupSize(handle: KVStoreHandle, ret: *mut c_int) -> c_int {
    guard(|| {
        let size = kv_store(id(handle))?.num_workers()?;
        put(ret, size as c_int, "ret")
    })
}

/// Waits for the other processes that share the store.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreBarrier(handle: KVStoreHandle) -> c_int {
    guard(|| kv_store(id(handle))?.barrier())
}

/// Returns whether this process sends its optimizer to servers: 1 for a worker by `DMLC_ROLE`; 0 once it has a distributed store of its
/// environment, because it then stores all values and runs the optimizer itself.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreIsWorkerNode(ret: *mut c_int) -> c_int {
    guard(|| put(ret, c_int::from(role()? == JobRole::Worker && !has_job()), "ret"))
}

/// Returns whether this process is a server by `DMLC_ROLE`.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreIsServerNode(ret: *mut c_int) -> c_int {
    guard(|| put(ret, c_int::from(role()? == JobRole::Server), "ret"))
}

/// Returns whether this process is a scheduler by `DMLC_ROLE`.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreIsSchedulerNode(ret: *mut c_int) -> c_int {
    guard(|| put(ret, c_int::from(role()? == JobRole::Scheduler), "ret"))
}

/// Sets gradient compression: `type` (`none` or `2bit`) and `threshold`. Stores of kind `device` and distributed stores support it.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreSetGradientCompression(
    handle: KVStoreHandle,
    num_params: u32,
    keys: *mut *const c_char,
    vals: *mut *const c_char,
) -> c_int {
    guard(|| kv_store(id(handle))?.set_compression(&attrs(keys, vals, num_params as usize)?))
}

/// Sets the updater that pushes to integer keys call. It gets the key, the sum of the pushed arrays, the stored array, and
/// `updater_handle`; it frees both array handles.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreSetUpdater(
    handle: KVStoreHandle,
    updater: MXKVStoreUpdater,
    updater_handle: *mut c_void,
) -> c_int {
    guard(|| {
        kv_store(id(handle))?.set_updater(self::updater(updater, None, updater_handle));
        Ok(())
    })
}

/// Like `MXKVStoreSetUpdater`, with a second function for string keys.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreSetUpdaterEx(
    handle: KVStoreHandle,
    updater: MXKVStoreUpdater,
    str_updater: MXKVStoreStrUpdater,
    updater_handle: *mut c_void,
) -> c_int {
    guard(|| {
        kv_store(id(handle))?.set_updater(self::updater(updater, str_updater, updater_handle));
        Ok(())
    })
}

/// Initializes new keys with copies of arrays.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreInit(
    handle: KVStoreHandle,
    num: u32,
    keys: *const c_int,
    vals: *mut NDArrayHandle,
) -> c_int {
    guard(|| kv_store(id(handle))?.init(&numbers(keys, num)?, &arrays(vals, num, "vals")?))
}

/// Like `MXKVStoreInit`, with string keys.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreInitEx(
    handle: KVStoreHandle,
    num: u32,
    keys: *mut *const c_char,
    vals: *mut NDArrayHandle,
) -> c_int {
    guard(|| kv_store(id(handle))?.init(&names(keys, num)?, &arrays(vals, num, "vals")?))
}

/// Sums the arrays of each key and updates or replaces its stored array. The arrays of a distributed store are the gradients of this
/// worker's shards. `priority` has no effect, since operators run when they are called.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStorePush(
    handle: KVStoreHandle,
    num: u32,
    keys: *const c_int,
    vals: *mut NDArrayHandle,
    priority: c_int,
) -> c_int {
    guard(|| {
        let _ = priority;
        kv_store(id(handle))?.push(&numbers(keys, num)?, &arrays(vals, num, "vals")?)
    })
}

/// Like `MXKVStorePush`, with string keys.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStorePushEx(
    handle: KVStoreHandle,
    num: u32,
    keys: *mut *const c_char,
    vals: *mut NDArrayHandle,
    priority: c_int,
) -> c_int {
    guard(|| {
        let _ = priority;
        kv_store(id(handle))?.push(&names(keys, num)?, &arrays(vals, num, "vals")?)
    })
}

/// Copies stored arrays to `vals`; sparse outputs are skipped.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStorePull(
    handle: KVStoreHandle,
    num: u32,
    keys: *const c_int,
    vals: *mut NDArrayHandle,
    priority: c_int,
) -> c_int {
    guard(|| {
        let _ = priority;
        kv_store(id(handle))?.pull(&numbers(keys, num)?, &arrays(vals, num, "vals")?)
    })
}

/// Like `MXKVStorePull`, with string keys.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStorePullEx(
    handle: KVStoreHandle,
    num: u32,
    keys: *mut *const c_char,
    vals: *mut NDArrayHandle,
    priority: c_int,
) -> c_int {
    guard(|| {
        let _ = priority;
        kv_store(id(handle))?.pull(&names(keys, num)?, &arrays(vals, num, "vals")?)
    })
}

fn sparse_outputs(ignore_sparse: bool) -> SparseOutputs {
    if ignore_sparse { SparseOutputs::Skip } else { SparseOutputs::Write }
}

/// Like `MXKVStorePull`; sparse outputs are skipped only if `ignore_sparse` is set.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStorePullWithSparse(
    handle: KVStoreHandle,
    num: u32,
    keys: *const c_int,
    vals: *mut NDArrayHandle,
    priority: c_int,
    ignore_sparse: bool,
) -> c_int {
    guard(|| {
        let _ = priority;
        kv_store(id(handle))?.pull_with_sparse(
            &numbers(keys, num)?,
            &arrays(vals, num, "vals")?,
            sparse_outputs(ignore_sparse),
        )
    })
}

/// Like `MXKVStorePullWithSparse`, with string keys.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStorePullWithSparseEx(
    handle: KVStoreHandle,
    num: u32,
    keys: *mut *const c_char,
    vals: *mut NDArrayHandle,
    priority: c_int,
    ignore_sparse: bool,
) -> c_int {
    guard(|| {
        let _ = priority;
        kv_store(id(handle))?.pull_with_sparse(
            &names(keys, num)?,
            &arrays(vals, num, "vals")?,
            sparse_outputs(ignore_sparse),
        )
    })
}

/// Copies the rows with indices `row_ids` to row_sparse arrays.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStorePullRowSparse(
    handle: KVStoreHandle,
    num: u32,
    keys: *const c_int,
    vals: *mut NDArrayHandle,
    row_ids: *const NDArrayHandle,
    priority: c_int,
) -> c_int {
    guard(|| {
        let _ = priority;
        let (outputs, rows) = (arrays(vals, num, "vals")?, arrays(row_ids, num, "row_ids")?);
        kv_store(id(handle))?.pull_rows(&numbers(keys, num)?, &outputs, &rows)
    })
}

/// Like `MXKVStorePullRowSparse`, with string keys.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStorePullRowSparseEx(
    handle: KVStoreHandle,
    num: u32,
    keys: *mut *const c_char,
    vals: *mut NDArrayHandle,
    row_ids: *const NDArrayHandle,
    priority: c_int,
) -> c_int {
    guard(|| {
        let _ = priority;
        let (outputs, rows) = (arrays(vals, num, "vals")?, arrays(row_ids, num, "row_ids")?);
        kv_store(id(handle))?.pull_rows(&names(keys, num)?, &outputs, &rows)
    })
}

/// Pushes arrays, then pulls the results.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStorePushPull(
    handle: KVStoreHandle,
    vnum: u32,
    vkeys: *const c_int,
    onum: u32,
    okeys: *const c_int,
    vals: *mut NDArrayHandle,
    outs: *mut NDArrayHandle,
    priority: c_int,
) -> c_int {
    guard(|| {
        let _ = priority;
        let (pushed, pulled) = (arrays(vals, vnum, "vals")?, arrays(outs, onum, "outs")?);
        let (keys, out_keys) = (numbers(vkeys, vnum)?, numbers(okeys, onum)?);
        let outputs = KeyedArrays { keys: &out_keys, arrays: &pulled };
        kv_store(id(handle))?.push_pull(KeyedArrays { keys: &keys, arrays: &pushed }, outputs)
    })
}

/// Like `MXKVStorePushPull`, with string keys.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStorePushPullEx(
    handle: KVStoreHandle,
    vnum: u32,
    vkeys: *mut *const c_char,
    onum: u32,
    okeys: *mut *const c_char,
    vals: *mut NDArrayHandle,
    outs: *mut NDArrayHandle,
    priority: c_int,
) -> c_int {
    guard(|| {
        let _ = priority;
        let (pushed, pulled) = (arrays(vals, vnum, "vals")?, arrays(outs, onum, "outs")?);
        let (keys, out_keys) = (names(vkeys, vnum)?, names(okeys, onum)?);
        let outputs = KeyedArrays { keys: &out_keys, arrays: &pulled };
        kv_store(id(handle))?.push_pull(KeyedArrays { keys: &keys, arrays: &pushed }, outputs)
    })
}

/// Initializes new keys with arrays, then pulls them.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreBroadcast(
    handle: KVStoreHandle,
    vnum: u32,
    vkeys: *const c_int,
    onum: u32,
    okeys: *const c_int,
    vals: *mut NDArrayHandle,
    outs: *mut NDArrayHandle,
    priority: c_int,
) -> c_int {
    guard(|| {
        let _ = priority;
        let (given, pulled) = (arrays(vals, vnum, "vals")?, arrays(outs, onum, "outs")?);
        let (keys, out_keys) = (numbers(vkeys, vnum)?, numbers(okeys, onum)?);
        let outputs = KeyedArrays { keys: &out_keys, arrays: &pulled };
        kv_store(id(handle))?.broadcast(KeyedArrays { keys: &keys, arrays: &given }, outputs)
    })
}

/// Like `MXKVStoreBroadcast`, with string keys.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreBroadcastEx(
    handle: KVStoreHandle,
    vnum: u32,
    vkeys: *mut *const c_char,
    onum: u32,
    okeys: *mut *const c_char,
    vals: *mut NDArrayHandle,
    outs: *mut NDArrayHandle,
    priority: c_int,
) -> c_int {
    guard(|| {
        let _ = priority;
        let (given, pulled) = (arrays(vals, vnum, "vals")?, arrays(outs, onum, "outs")?);
        let (keys, out_keys) = (names(vkeys, vnum)?, names(okeys, onum)?);
        let outputs = KeyedArrays { keys: &out_keys, arrays: &pulled };
        kv_store(id(handle))?.broadcast(KeyedArrays { keys: &keys, arrays: &given }, outputs)
    })
}

/// Sets variables such as `DMLC_ROLE` that describe the job of distributed stores, with precedence over the environment.
#[unsafe(no_mangle)]
pub extern "C" fn MXInitPSEnv(num_vars: u32, keys: *mut *const c_char, vals: *mut *const c_char) -> c_int {
    guard(|| set_environment(&attrs(keys, vals, num_vars as usize)?))
}

/// Returns the number of workers that are lost or have ended, if the group `node_id` contains workers (4).
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreGetNumDeadNode(
    handle: KVStoreHandle,
    node_id: c_int,
    number: *mut c_int,
    timeout_sec: c_int,
) -> c_int {
    guard(|| {
        // A lost connection is noticed immediately.
        let _ = timeout_sec;
        let dead = kv_store(id(handle))?.num_dead(node_id);
        put(number, dead as c_int, "number")
    })
}

/// Sets whether the end of a store waits for the other processes.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreSetBarrierBeforeExit(handle: KVStoreHandle, barrier_before_exit: c_int) -> c_int {
    guard(|| {
        kv_store(id(handle))?.set_wait_at_end(barrier_before_exit != 0);
        Ok(())
    })
}

/// Runs in this process's role. A scheduler sends the workers each other's addresses. A server has nothing to do and returns at once, as
/// does a worker.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreRunServer(
    handle: KVStoreHandle,
    controller: MXKVStoreServerController,
    controller_handle: *mut c_void,
) -> c_int {
    guard(|| {
        // Workers send no commands.
        let _ = (controller, controller_handle);
        kv_store(id(handle))?.serve()
    })
}

/// Sends a command to the servers of a store: ignored by a local store, an error for a distributed one, because every worker stores all
/// values.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreSendCommmandToServers(
    handle: KVStoreHandle,
    cmd_id: c_int,
    cmd_body: *const c_char,
) -> c_int {
    guard(|| {
        text(cmd_body, "cmd_body")?;
        kv_store(id(handle))?.send_command(cmd_id)
    })
}
