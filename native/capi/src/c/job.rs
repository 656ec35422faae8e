//! Distributed jobs that programs set up themselves. MXNet has no such functions.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use ferromx_runtime::ensure;
use ferromx_runtime::kvstore::{JoinOptions, KvStore, Member};

use super::args::{count, id, put, slice, text, texts};
use super::guard;
use super::ret::put_handle;
use super::types::{FerroJobHandle, KVStoreHandle};
use crate::handle::{self, Object, insert, job};

/// Opens the listener of a distributed job on a local address; port 0 takes a free one. The program sends the port to the other ranks; then
/// all ranks join.
#[unsafe(no_mangle)]
pub extern "C" fn FerroJobListen(host: *const c_char, port: c_int, out: *mut FerroJobHandle) -> c_int {
    guard(|| {
        let host = text(host, "host")?;
        ensure!((0..=65535).contains(&port), "port is {port}: ports are 0 to 65535");
        put_handle(out, || Ok(insert(Object::Job(Arc::new(Member::listen(&host, port as u16)?)))))
    })
}

/// Returns the port of the listener of a job.
#[unsafe(no_mangle)]
pub extern "C" fn FerroJobGetPort(handle: FerroJobHandle, port: *mut c_int) -> c_int {
    guard(|| put(port, c_int::from(job(id(handle))?.port()), "port"))
}

/// Connects to all other ranks of a job. `peers` has `host:port` for each of the `size` ranks. `secret` has 16 or more bytes, the same for
/// all ranks. `timeout_ms` is the maximum time in milliseconds to wait for other ranks, now and in each later operation.
#[unsafe(no_mangle)]
pub extern "C" fn FerroJobJoin(
    handle: FerroJobHandle,
    rank: c_int,
    size: c_int,
    peers: *mut *const c_char,
    secret: *const c_void,
    secret_len: usize,
    timeout_ms: u64,
) -> c_int {
    guard(|| {
        let options = JoinOptions {
            rank: count(rank, "rank")?,
            peers: texts(peers, count(size, "size")?, "peers")?,
            secret: slice(secret.cast::<u8>(), secret_len, "secret")?.to_vec(),
            timeout: Duration::from_millis(timeout_ms),
        };
        job(id(handle))?.join(options)
    })
}

/// Returns the rank of this process in a job.
#[unsafe(no_mangle)]
pub extern "C" fn FerroJobGetRank(handle: FerroJobHandle, rank: *mut c_int) -> c_int {
    guard(|| put(rank, job(id(handle))?.job()?.rank() as c_int, "rank"))
}

/// Returns the number of ranks of a job.
#[unsafe(no_mangle)]
pub extern "C" fn FerroJobGetSize(handle: FerroJobHandle, size: *mut c_int) -> c_int {
    guard(|| put(size, job(id(handle))?.job()?.size() as c_int, "size"))
}

/// Waits for the other ranks of a job.
#[unsafe(no_mangle)]
pub extern "C" fn FerroJobBarrier(handle: FerroJobHandle) -> c_int {
    guard(|| job(id(handle))?.job()?.barrier())
}

/// Creates a store of kind `dist_sync` or `dist_device_sync` of a job. All ranks create their stores in the same order.
#[unsafe(no_mangle)]
pub extern "C" fn FerroJobCreateStore(handle: FerroJobHandle, kind: *const c_char, out: *mut KVStoreHandle) -> c_int {
    guard(|| {
        let (job, kind) = (job(id(handle))?.job()?, text(kind, "kind")?);
        put_handle(out, || Ok(insert(Object::KvStore(Arc::new(KvStore::of_job(&job, &kind)?)))))
    })
}

/// Leaves a job. Threads that wait get an error.
#[unsafe(no_mangle)]
pub extern "C" fn FerroJobClose(handle: FerroJobHandle) -> c_int {
    guard(|| {
        job(id(handle))?.close();
        Ok(())
    })
}

/// Frees the handle of a job; null is ignored. The job ends with its last store, unless it was closed before.
#[unsafe(no_mangle)]
pub extern "C" fn FerroJobFree(handle: FerroJobHandle) -> c_int {
    guard(|| handle::free(id(handle), "Job"))
}
