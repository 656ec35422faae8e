//! The profiler.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use ferromx_runtime::ensure;
use ferromx_runtime::error::Result;
use ferromx_runtime::profiler::{self, Kind, Layout, ProfilerObject, SortBy, StatisticsOptions};

use super::args::{attrs, count, id, text};
use super::guard;
use super::ret::{put_handle, put_text};
use super::types::{KVStoreHandle, ProfileHandle};
use crate::handle::{self, Object, insert, profiler_object};

/// Checks that `profile_process` is 0, the worker. 1 would be the servers of a distributed store, which do not exist here.
fn check_process(process: c_int) -> Result<()> {
    ensure!(
        process == 0,
        "Kvstore Handle passed to profiler is null: profile_process is {process}, but there are no servers to profile; use 0 (worker)"
    );
    Ok(())
}

fn configure(n: c_int, keys: *const *const c_char, vals: *const *const c_char) -> Result<()> {
    profiler::configure(&attrs(keys.cast_mut(), vals.cast_mut(), count(n, "num_params")?)?)
}

fn put_profiler_object(out: *mut ProfileHandle, new: ProfilerObject) -> Result<()> {
    put_handle(out, || Ok(insert(Object::ProfilerObject(Arc::new(new)))))
}

/// Configures the profiler. The parameters are `filename`, `profile_all`, `profile_symbolic`, `profile_imperative`, `profile_memory`,
/// `profile_api`, `continuous_dump`, `dump_period` and `aggregate_stats`.
#[unsafe(no_mangle)]
pub extern "C" fn MXSetProfilerConfig(
    num_params: c_int,
    keys: *const *const c_char,
    vals: *const *const c_char,
) -> c_int {
    guard(|| configure(num_params, keys, vals))
}

/// Like `MXSetProfilerConfig`. The store is ignored: stores have no servers here.
#[unsafe(no_mangle)]
pub extern "C" fn MXSetProcessProfilerConfig(
    num_params: c_int,
    keys: *const *const c_char,
    vals: *const *const c_char,
    kv_store_handle: KVStoreHandle,
) -> c_int {
    guard(|| {
        let _ = kv_store_handle;
        configure(num_params, keys, vals)
    })
}

/// Stops (0) or starts (1) the profiler.
#[unsafe(no_mangle)]
pub extern "C" fn MXSetProfilerState(state: c_int) -> c_int {
    guard(|| profiler::run(state != 0))
}

/// Like `MXSetProfilerState`, for the worker (`profile_process` 0).
#[unsafe(no_mangle)]
pub extern "C" fn MXSetProcessProfilerState(
    state: c_int,
    profile_process: c_int,
    kv_store_handle: KVStoreHandle,
) -> c_int {
    guard(|| {
        let _ = kv_store_handle;
        check_process(profile_process)?;
        profiler::run(state != 0)
    })
}

/// Pauses (1) or resumes (0) the profiler.
#[unsafe(no_mangle)]
pub extern "C" fn MXProfilePause(paused: c_int) -> c_int {
    guard(|| profiler::pause(paused != 0))
}

/// Like `MXProfilePause`, for the worker (`profile_process` 0).
#[unsafe(no_mangle)]
pub extern "C" fn MXProcessProfilePause(
    paused: c_int,
    profile_process: c_int,
    kv_store_handle: KVStoreHandle,
) -> c_int {
    guard(|| {
        let _ = kv_store_handle;
        check_process(profile_process)?;
        profiler::pause(paused != 0)
    })
}

/// Writes the trace to the configured file, in the format of `chrome://tracing`. With `finished`, its events are then discarded; otherwise
/// the next trace contains them, too.
#[unsafe(no_mangle)]
pub extern "C" fn MXDumpProfile(finished: c_int) -> c_int {
    guard(|| profiler::dump(finished != 0))
}

/// Like `MXDumpProfile`, for the worker (`profile_process` 0).
#[unsafe(no_mangle)]
pub extern "C" fn MXDumpProcessProfile(
    finished: c_int,
    profile_process: c_int,
    kv_store_handle: KVStoreHandle,
) -> c_int {
    guard(|| {
        let _ = kv_store_handle;
        check_process(profile_process)?;
        profiler::dump(finished != 0)
    })
}

/// Returns the statistics as a table, valid until the next call on this thread. With `reset`, they then start again at zero.
#[unsafe(no_mangle)]
pub extern "C" fn MXAggregateProfileStatsPrint(out_str: *mut *const c_char, reset: c_int) -> c_int {
    guard(|| {
        let (layout, sort_by) = (Layout::Table, SortBy::Total);
        let text = profiler::statistics(StatisticsOptions { layout, sort_by, ascending: false, reset: reset != 0 });
        put_text("MXAggregateProfileStatsPrint", &text, out_str)
    })
}

/// Like `MXAggregateProfileStatsPrint`, as a table (`format` 0) or JSON (1), sorted by total (0), average, minimum, maximum or count (4).
#[unsafe(no_mangle)]
pub extern "C" fn MXAggregateProfileStatsPrintEx(
    out_str: *mut *const c_char,
    reset: c_int,
    format: c_int,
    sort_by: c_int,
    ascending: c_int,
) -> c_int {
    guard(|| {
        let (layout, sort_by) = (Layout::from_code(format)?, SortBy::from_code(sort_by)?);
        let (ascending, reset) = (ascending != 0, reset != 0);
        let text = profiler::statistics(StatisticsOptions { layout, sort_by, ascending, reset });
        put_text("MXAggregateProfileStatsPrintEx", &text, out_str)
    })
}

/// Creates a domain, which groups other profiling objects.
#[unsafe(no_mangle)]
pub extern "C" fn MXProfileCreateDomain(domain: *const c_char, out: *mut ProfileHandle) -> c_int {
    guard(|| put_profiler_object(out, ProfilerObject::Domain(text(domain, "domain")?.into_owned())))
}

/// Creates a task, which lasts from a start to a stop.
#[unsafe(no_mangle)]
pub extern "C" fn MXProfileCreateTask(
    domain: ProfileHandle,
    task_name: *const c_char,
    out: *mut ProfileHandle,
) -> c_int {
    guard(|| {
        put_profiler_object(
            out,
            ProfilerObject::span(
                profiler_object(id(domain))?.domain()?,
                &text(task_name, "task_name")?,
                Kind::Overlapping,
            ),
        )
    })
}

/// Creates a frame, which lasts from a start to a stop.
#[unsafe(no_mangle)]
pub extern "C" fn MXProfileCreateFrame(
    domain: ProfileHandle,
    frame_name: *const c_char,
    out: *mut ProfileHandle,
) -> c_int {
    guard(|| {
        put_profiler_object(
            out,
            ProfilerObject::span(
                &format!("{},frame", profiler_object(id(domain))?.domain()?),
                &text(frame_name, "frame_name")?,
                Kind::Frame,
            ),
        )
    })
}

/// Creates an event without a domain, which lasts from a start to a stop.
#[unsafe(no_mangle)]
pub extern "C" fn MXProfileCreateEvent(event_name: *const c_char, out: *mut ProfileHandle) -> c_int {
    guard(|| put_profiler_object(out, ProfilerObject::span("event", &text(event_name, "event_name")?, Kind::Nested)))
}

/// Creates a counter of value 0.
#[unsafe(no_mangle)]
pub extern "C" fn MXProfileCreateCounter(
    domain: ProfileHandle,
    counter_name: *const c_char,
    out: *mut ProfileHandle,
) -> c_int {
    guard(|| {
        put_profiler_object(
            out,
            ProfilerObject::counter(profiler_object(id(domain))?.domain()?, &text(counter_name, "counter_name")?),
        )
    })
}

/// Frees a domain, task, frame, event or counter; null is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn MXProfileDestroyHandle(frame_handle: ProfileHandle) -> c_int {
    guard(|| handle::free(id(frame_handle), "Profile"))
}

/// Starts a task, frame or event.
#[unsafe(no_mangle)]
pub extern "C" fn MXProfileDurationStart(duration_handle: ProfileHandle) -> c_int {
    guard(|| profiler_object(id(duration_handle))?.start())
}

/// Stops a task, frame or event.
#[unsafe(no_mangle)]
pub extern "C" fn MXProfileDurationStop(duration_handle: ProfileHandle) -> c_int {
    guard(|| profiler_object(id(duration_handle))?.stop())
}

/// Sets a counter.
#[unsafe(no_mangle)]
pub extern "C" fn MXProfileSetCounter(counter_handle: ProfileHandle, value: u64) -> c_int {
    guard(|| profiler_object(id(counter_handle))?.set_counter(value.cast_signed()))
}

/// Adds to a counter.
#[unsafe(no_mangle)]
pub extern "C" fn MXProfileAdjustCounter(counter_handle: ProfileHandle, value: i64) -> c_int {
    guard(|| profiler_object(id(counter_handle))?.add_to_counter(value))
}

/// Records an instant marker; the scope is `global`, `process`, `thread`, `task` or `marker`.
#[unsafe(no_mangle)]
pub extern "C" fn MXProfileSetMarker(
    domain: ProfileHandle,
    instant_marker_name: *const c_char,
    scope: *const c_char,
) -> c_int {
    guard(|| {
        let name = text(instant_marker_name, "instant_marker_name")?;
        profiler::mark(profiler_object(id(domain))?.domain()?, &name, &text(scope, "scope")?)
    })
}
