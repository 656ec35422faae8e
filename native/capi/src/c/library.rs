//! Global functions: version, features, seeds, threads, semantics, environment.

use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::{CString, c_char, c_int};
use std::sync::LazyLock;

use ferromx_runtime::context::{Context, DeviceType};
use ferromx_runtime::ensure;
use ferromx_runtime::error::Result;
use ferromx_runtime::set_num_threads;
use ferromx_runtime::{MXNET_VERSION, features, random, semantics};

use super::args::{count, optional_text, put, text};
use super::guard;
use super::ret::put_text;
use super::types::LibFeature;

thread_local! {
    static BULK_SIZE: Cell<c_int> = const { Cell::new(0) };
}

/// Returns the version of MXNet that this library implements: 10901.
#[unsafe(no_mangle)]
pub extern "C" fn MXGetVersion(out: *mut c_int) -> c_int {
    guard(|| put(out, MXNET_VERSION, "out"))
}

/// The features as C strings, valid as long as the process: clients keep the structures.
static FEATURES: LazyLock<Vec<LibFeature>> = LazyLock::new(|| {
    let feature = |(name, enabled)| LibFeature {
        name: Box::leak(CString::new(name).unwrap_or_default().into_boxed_c_str()).as_ptr(),
        enabled,
    };
    features::all().into_iter().map(feature).collect()
});

/// Lists the features that a build may have. The array stays valid.
#[unsafe(no_mangle)]
pub extern "C" fn MXLibInfoFeatures(lib_feature: *mut *const LibFeature, size: *mut usize) -> c_int {
    guard(|| {
        put(size, FEATURES.len(), "size")?;
        put(lib_feature, FEATURES.as_ptr(), "lib_feature")
    })
}

/// Seeds the random number generators of all devices.
#[unsafe(no_mangle)]
pub extern "C" fn MXRandomSeed(seed: c_int) -> c_int {
    guard(|| {
        random::seed(seed as u64);
        Ok(())
    })
}

/// Seeds the random number generator of one device.
#[unsafe(no_mangle)]
pub extern "C" fn MXRandomSeedContext(seed: c_int, dev_type: c_int, dev_id: c_int) -> c_int {
    guard(|| {
        random::seed_context(seed as u64, Context::from_codes(dev_type, dev_id)?);
        Ok(())
    })
}

/// Notifies the library of the end of the process. Does nothing: operators have finished when their call returns.
#[unsafe(no_mangle)]
pub extern "C" fn MXNotifyShutdown() -> c_int {
    guard(|| Ok(()))
}

/// Sets the number of threads per operator, including the caller.
#[unsafe(no_mangle)]
pub extern "C" fn MXSetNumOMPThreads(thread_num: c_int) -> c_int {
    guard(|| {
        set_num_threads(count(thread_num, "thread_num")?);
        Ok(())
    })
}

/// Sets the bulk size of this thread and returns the previous one. The value is stored without effect, since operators run when they are
/// called.
#[unsafe(no_mangle)]
pub extern "C" fn MXEngineSetBulkSize(bulk_size: c_int, prev_bulk_size: *mut c_int) -> c_int {
    guard(|| {
        put(prev_bulk_size, BULK_SIZE.get(), "prev_bulk_size")?;
        BULK_SIZE.set(bulk_size);
        Ok(())
    })
}

/// Returns whether NumPy shape semantics (dimensions of size zero and scalars) are on: 0 off, 1 on for this thread, 2 on globally.
#[unsafe(no_mangle)]
pub extern "C" fn MXIsNumpyShape(curr: *mut c_int) -> c_int {
    guard(|| put(curr, semantics::numpy_shape_code(), "curr"))
}

/// Switches NumPy shape semantics off (0), on for this thread (1) or on globally (2), and returns whether they were on before.
#[unsafe(no_mangle)]
pub extern "C" fn MXSetIsNumpyShape(is_np_shape: c_int, prev: *mut c_int) -> c_int {
    guard(|| {
        put(prev, c_int::from(semantics::is_numpy_shape()), "prev")?;
        semantics::set_numpy_shape_code(is_np_shape)
    })
}

/// Returns the number of GPUs that this build can use: 0.
#[unsafe(no_mangle)]
pub extern "C" fn MXGetGPUCount(out: *mut c_int) -> c_int {
    guard(|| put(out, 0, "out"))
}

/// Always an error: this build has no GPU backend. Would return free and total memory of a GPU in MiB.
#[unsafe(no_mangle)]
pub extern "C" fn MXGetGPUMemoryInformation(dev: c_int, free_mem: *mut c_int, total_mem: *mut c_int) -> c_int {
    guard(|| {
        put(free_mem, 0, "free_mem")?;
        put(total_mem, 0, "total_mem")?;
        Context::from_codes(DeviceType::Gpu as c_int, dev).map(|_| ())
    })
}

/// Like `MXGetGPUMemoryInformation`, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn MXGetGPUMemoryInformation64(dev: c_int, free_mem: *mut u64, total_mem: *mut u64) -> c_int {
    guard(|| {
        put(free_mem, 0, "free_mem")?;
        put(total_mem, 0, "total_mem")?;
        Context::from_codes(DeviceType::Gpu as c_int, dev).map(|_| ())
    })
}

/// Returns the value of an environment variable, or null if it is not set. Valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXGetEnv(name: *const c_char, value: *mut *const c_char) -> c_int {
    guard(|| {
        let name = variable_name(name)?;
        match std::env::var_os(&*name) {
            Some(found) => put_text("MXGetEnv", &found.to_string_lossy(), value),
            None => put(value, std::ptr::null(), "value"),
        }
    })
}

/// Sets an environment variable; a null value removes it. No other thread may access the environment during the call.
#[unsafe(no_mangle)]
pub extern "C" fn MXSetEnv(name: *const c_char, value: *const c_char) -> c_int {
    guard(|| {
        let name = variable_name(name)?;
        match optional_text(value) {
            // SAFETY: by the contract of this function no other thread reads or changes the environment during the call.
            Some(value) => unsafe { std::env::set_var(&*name, &*value) },
            // SAFETY: as above.
            None => unsafe { std::env::remove_var(&*name) },
        }
        Ok(())
    })
}

fn variable_name<'a>(name: *const c_char) -> Result<Cow<'a, str>> {
    let name = text(name, "name")?;
    ensure!(!name.is_empty() && !name.contains('='), "'{name}' is not a valid name of an environment variable");
    Ok(name)
}

/// Releases cached memory of freed arrays to the system.
#[unsafe(no_mangle)]
pub extern "C" fn MXStorageEmptyCache(dev_type: c_int, dev_id: c_int) -> c_int {
    guard(|| {
        Context::from_codes(dev_type, dev_id)?;
        ferromx_runtime::storage::release_cached_memory();
        Ok(())
    })
}
