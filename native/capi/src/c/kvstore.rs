//! Key-value stores. They live within one process: no function talks to other machines.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;

use ferromx_core::error::{Error, Result};
use ferromx_runtime::imperative::Tensors;
use ferromx_runtime::kvstore::{Key, KvStore, Update, Updater};

use super::args::{attrs, id, put, raw, slice, tensors, text, texts};
use super::guard;
use super::ret::{put_handle, put_text};
use super::types::{KVStoreHandle, MXKVStoreStrUpdater, MXKVStoreUpdater, NDArrayHandle};
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

/// A pointer of the caller's that is passed back to the caller's functions.
#[derive(Clone, Copy)]
struct Caller(*mut c_void);

// SAFETY: the library never looks at what the pointer stands for; the contract of the C API is that its functions may be called
// from any thread that uses the store.
unsafe impl Send for Caller {}
// SAFETY: as above.
unsafe impl Sync for Caller {}

impl Caller {
    fn pointer(self) -> *mut c_void {
        self.0
    }
}

/// An updater that calls the caller's function for the kind of key. Without a function for names, the one for numbers gets the
/// position of the name among all that were stored.
fn updater(by_number: MXKVStoreUpdater, by_name: MXKVStoreStrUpdater, caller: *mut c_void) -> Updater {
    let caller = Caller(caller);
    Arc::new(move |update: Update<'_>| {
        let arrays = || (raw(insert_tensor(update.pushed.clone())), raw(insert_tensor(update.stored.clone())));
        match (update.key, by_name) {
            (Key::Name(key), Some(call)) => {
                let key = CString::new(key.replace('\0', "\\0")).unwrap_or_default();
                let (pushed, stored) = arrays();
                // SAFETY: by the contract of the C API, the function takes a key and two array handles, which it frees; the key
                // lives through the call.
                unsafe { call(key.as_ptr(), pushed, stored, caller.pointer()) };
            }
            (Key::Number(_), _) | (Key::Name(_), None) => {
                let missing = || Error::Value("the updater has no function for keys that are numbers".into());
                let call = by_number.ok_or_else(missing)?;
                let (pushed, stored) = arrays();
                // SAFETY: as above.
                unsafe { call(update.number, pushed, stored, caller.pointer()) };
            }
        }
        Ok(())
    })
}

/// Makes a store: `local` or `device`. Stores across machines are not part of this library.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreCreate(type_: *const c_char, out: *mut KVStoreHandle) -> c_int {
    guard(|| {
        let kind = text(type_, "type")?;
        put_handle(out, || Ok(insert(Object::KvStore(Arc::new(KvStore::new(&kind)?)))))
    })
}

/// Frees a store; null is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreFree(handle: KVStoreHandle) -> c_int {
    guard(|| handle::free(id(handle), "KVStore"))
}

/// Gives the kind of a store, valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreGetType(handle: KVStoreHandle, type_: *mut *const c_char) -> c_int {
    guard(|| put_text("MXKVStoreGetType", kv_store(id(handle))?.kind(), type_))
}

/// Gives the number of this process among those that share the store: 0, the only one.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreGetRank(handle: KVStoreHandle, ret: *mut c_int) -> c_int {
    guard(|| {
        kv_store(id(handle))?;
        put(ret, 0, "ret")
    })
}

/// Gives how many processes share the store: 1.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreGetGroupSize(handle: KVStoreHandle, ret: *mut c_int) -> c_int {
    guard(|| {
        kv_store(id(handle))?;
        put(ret, 1, "ret")
    })
}

/// Waits for the other processes that share the store, of which there are none.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreBarrier(handle: KVStoreHandle) -> c_int {
    guard(|| kv_store(id(handle)).map(|_| ()))
}

/// Tells whether this process serves parameters to others (1). It never does.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreIsServerNode(ret: *mut c_int) -> c_int {
    guard(|| put(ret, 0, "ret"))
}

/// Tells whether this process schedules others (1). It never does.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreIsSchedulerNode(ret: *mut c_int) -> c_int {
    guard(|| put(ret, 0, "ret"))
}

/// Sets how gradients are compressed: `type` (`none`, `2bit`) and `threshold`. Stores of kind `device` can.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreSetGradientCompression(
    handle: KVStoreHandle,
    num_params: u32,
    keys: *mut *const c_char,
    vals: *mut *const c_char,
) -> c_int {
    guard(|| kv_store(id(handle))?.set_compression(&attrs(keys, vals, num_params as usize)?))
}

/// Sets what happens to stored arrays when something is pushed under a number: the function gets the key, the sum of what was
/// pushed, the stored array, and `updater_handle`; it frees both handles.
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

/// As `MXKVStoreSetUpdater`, with a second function for keys that are names.
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

/// Stores copies of arrays under new keys.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreInit(
    handle: KVStoreHandle,
    num: u32,
    keys: *const c_int,
    vals: *mut NDArrayHandle,
) -> c_int {
    guard(|| kv_store(id(handle))?.init(&numbers(keys, num)?, &arrays(vals, num, "vals")?))
}

/// As `MXKVStoreInit`, with names as keys.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreInitEx(
    handle: KVStoreHandle,
    num: u32,
    keys: *mut *const c_char,
    vals: *mut NDArrayHandle,
) -> c_int {
    guard(|| kv_store(id(handle))?.init(&names(keys, num)?, &arrays(vals, num, "vals")?))
}

/// Sums the arrays of each key, and updates or replaces what is stored. Operators run when they are called, so that `priority`
/// changes nothing.
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

/// As `MXKVStorePush`, with names as keys.
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

/// Copies what is stored to arrays; sparse arrays are left out.
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
        kv_store(id(handle))?.pull(&numbers(keys, num)?, &arrays(vals, num, "vals")?, true)
    })
}

/// As `MXKVStorePull`, with names as keys.
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
        kv_store(id(handle))?.pull(&names(keys, num)?, &arrays(vals, num, "vals")?, true)
    })
}

/// As `MXKVStorePull`; sparse arrays are copied too unless `ignore_sparse`.
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
        kv_store(id(handle))?.pull(&numbers(keys, num)?, &arrays(vals, num, "vals")?, ignore_sparse)
    })
}

/// As `MXKVStorePullWithSparse`, with names as keys.
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
        kv_store(id(handle))?.pull(&names(keys, num)?, &arrays(vals, num, "vals")?, ignore_sparse)
    })
}

/// Copies the rows with the numbers in `row_ids` to row_sparse arrays.
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

/// As `MXKVStorePullRowSparse`, with names as keys.
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

/// Pushes arrays, then copies what is stored under the keys to others.
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
        kv_store(id(handle))?.push_pull((&numbers(vkeys, vnum)?, &pushed), (&numbers(okeys, onum)?, &pulled))
    })
}

/// As `MXKVStorePushPull`, with names as keys.
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
        kv_store(id(handle))?.push_pull((&names(vkeys, vnum)?, &pushed), (&names(okeys, onum)?, &pulled))
    })
}

/// Stores arrays under new keys, then copies what is stored to others.
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
        kv_store(id(handle))?.broadcast((&numbers(vkeys, vnum)?, &given), (&numbers(okeys, onum)?, &pulled))
    })
}

/// As `MXKVStoreBroadcast`, with names as keys.
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
        kv_store(id(handle))?.broadcast((&names(vkeys, vnum)?, &given), (&names(okeys, onum)?, &pulled))
    })
}
