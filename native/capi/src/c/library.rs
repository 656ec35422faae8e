//! The library as a whole: version, features, seeds, threads, semantics.

use std::cell::Cell;
use std::ffi::c_int;

use ferromx_core::context::Context;
use ferromx_kernels::par;
use ferromx_runtime::{MXNET_VERSION, features, random, semantics};

use super::args::{count, put};
use super::guard;
use super::ret::Ret;
use super::types::LibFeature;

thread_local! {
    static BULK_SIZE: Cell<c_int> = const { Cell::new(0) };
}

/// Gives the version of MXNet that this library stands in for: 10901.
#[unsafe(no_mangle)]
pub extern "C" fn MXGetVersion(out: *mut c_int) -> c_int {
    guard(|| put(out, MXNET_VERSION, "out"))
}

/// Lists the features that a build may have. The array is valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXLibInfoFeatures(lib_feature: *mut *const LibFeature, size: *mut usize) -> c_int {
    guard(|| {
        let mut ret = Ret::new();
        let all: Vec<_> =
            features::all().into_iter().map(|(name, enabled)| LibFeature { name: ret.text(name), enabled }).collect();
        put(size, all.len(), "size")?;
        put(lib_feature, ret.list(all).cast_const(), "lib_feature")?;
        ret.keep("MXLibInfoFeatures");
        Ok(())
    })
}

/// Seeds the random numbers of every device.
#[unsafe(no_mangle)]
pub extern "C" fn MXRandomSeed(seed: c_int) -> c_int {
    guard(|| {
        random::seed(seed as u64);
        Ok(())
    })
}

/// Seeds the random numbers of one device.
#[unsafe(no_mangle)]
pub extern "C" fn MXRandomSeedContext(seed: c_int, dev_type: c_int, dev_id: c_int) -> c_int {
    guard(|| {
        random::seed_context(seed as u64, Context::from_codes(dev_type, dev_id)?);
        Ok(())
    })
}

/// Announces the end of the process. Operators have finished when their call returns, so nothing is left to wait for.
#[unsafe(no_mangle)]
pub extern "C" fn MXNotifyShutdown() -> c_int {
    guard(|| Ok(()))
}

/// Sets the number of threads that one operator may use, the caller included.
#[unsafe(no_mangle)]
pub extern "C" fn MXSetNumOMPThreads(thread_num: c_int) -> c_int {
    guard(|| {
        par::set_num_threads(count(thread_num, "thread_num")?);
        Ok(())
    })
}

/// Sets how many operators are pushed at once on this thread and gives the last setting. Operators run when they are called, so
/// that the size changes nothing; programs that set it and set it back find what they set.
#[unsafe(no_mangle)]
pub extern "C" fn MXEngineSetBulkSize(bulk_size: c_int, prev_bulk_size: *mut c_int) -> c_int {
    guard(|| {
        put(prev_bulk_size, BULK_SIZE.get(), "prev_bulk_size")?;
        BULK_SIZE.set(bulk_size);
        Ok(())
    })
}

/// Tells whether dimensions of size zero and scalars exist: 0 no, 1 on this thread, 2 everywhere.
#[unsafe(no_mangle)]
pub extern "C" fn MXIsNumpyShape(curr: *mut c_int) -> c_int {
    guard(|| put(curr, semantics::numpy_shape_code(), "curr"))
}

/// Switches dimensions of size zero and scalars off (0), on for this thread (1) or on everywhere (2), and gives whether they
/// were on before.
#[unsafe(no_mangle)]
pub extern "C" fn MXSetIsNumpyShape(is_np_shape: c_int, prev: *mut c_int) -> c_int {
    guard(|| {
        put(prev, c_int::from(semantics::is_numpy_shape()), "prev")?;
        semantics::set_numpy_shape_code(is_np_shape)
    })
}

/// Gives the number of GPUs that this build can use: none.
#[unsafe(no_mangle)]
pub extern "C" fn MXGetGPUCount(out: *mut c_int) -> c_int {
    guard(|| put(out, 0, "out"))
}

/// Gives memory that freed arrays left back to the system.
#[unsafe(no_mangle)]
pub extern "C" fn MXStorageEmptyCache(dev_type: c_int, dev_id: c_int) -> c_int {
    guard(|| {
        Context::from_codes(dev_type, dev_id)?;
        ferromx_core::storage::release_cached_memory();
        Ok(())
    })
}

/// Tells whether this process trains (1) rather than serves parameters to others. It always does: there are no servers.
#[unsafe(no_mangle)]
pub extern "C" fn MXKVStoreIsWorkerNode(ret: *mut c_int) -> c_int {
    guard(|| put(ret, 1, "ret"))
}
