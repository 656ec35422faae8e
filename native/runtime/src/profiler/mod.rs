//! The profiler: measures operators, calls of the C API and spans that users mark. `report` formats them as a trace for Chrome's viewer and
//! as a table.
//!
//! While it is stopped, its only cost is one atomic load per measured call.

mod at_exit;
mod report;

use std::collections::BTreeMap;
use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ferromx_core::error::{Error, Result};
use ferromx_core::params::{Attrs, OpParams};
use ferromx_core::storage::memory_in_use;
use ferromx_core::{ensure, param_enum, params};
use parking_lot::Mutex;

pub use report::{Layout, SortBy, StatisticsOptions};

use crate::thread_id::thread_id;

param_enum! {
    /// The process to profile.
    pub enum ProfiledProcess { Worker = "worker", Server = "server" }
}

params! {
    /// Parameters of the profiler.
    struct Config {
        /// The file that traces are written to.
        filename: String = (String::from("profile.json"));
        /// Whether to measure everything.
        profile_all: bool = false;
        /// Whether to measure the operators of bound graphs.
        profile_symbolic: bool = true;
        /// Whether to measure imperative operators.
        profile_imperative: bool = true;
        /// Whether to record the memory in use after every operator.
        profile_memory: bool = false;
        /// Whether to measure calls of the C API.
        profile_api: bool = false;
        /// Whether to write the file periodically while the profiler runs.
        continuous_dump: bool = false;
        /// Seconds between two writes.
        dump_period: f32 = 1.0, where 0.0..=f32::MAX;
        /// Whether to keep aggregate statistics.
        aggregate_stats: bool = false;
        /// The process to profile; only `worker` is supported.
        profile_process: ProfiledProcess = (ProfiledProcess::Worker);
    }
}

/// Bit mask of the enabled measurements; 0 while the profiler is stopped or paused.
static ENABLED: AtomicU8 = AtomicU8::new(ENVIRONMENT_UNREAD);
const SYMBOLIC: u8 = 1;
const IMPERATIVE: u8 = 2;
const MEMORY: u8 = 4;
const API: u8 = 8;
/// Spans, counters and instants that users mark.
const MARKED: u8 = 16;
/// The environment may still start the profiler.
const ENVIRONMENT_UNREAD: u8 = 128;

/// The category of operators.
const OPERATOR: &str = "operator";
/// The category of calls of the C API.
const C_API: &str = "MXNET_C_API";
/// The category of memory.
const DEVICE_STORAGE: &str = "Device Storage";

/// The way in which the viewer shows a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Spans of one thread that nest.
    Nested,
    /// Spans that may overlap.
    Overlapping,
    /// Spans of frames.
    Frame,
}

/// One event of a trace.
enum Event {
    /// A duration.
    Span { category: String, name: String, kind: Kind, start: u64, end: u64, thread: u64 },
    /// The value of a counter at a point in time.
    Counter { category: String, name: String, at: u64, value: i64, thread: u64 },
    /// A point in time.
    Instant { category: String, name: String, at: u64, scope: char, thread: u64 },
}

/// How values of one name are added up.
#[derive(Clone, Copy)]
enum Aggregation {
    /// The sum of all values.
    Sum,
    /// The last value.
    Last,
}

/// Aggregate statistics of one name: times in microseconds, or bytes.
#[derive(Clone, Copy)]
struct Stat {
    count: u64,
    /// The last value.
    last: u64,
    aggregation: Aggregation,
    sum: u64,
    min: u64,
    max: u64,
}

#[derive(Default)]
struct State {
    config: Option<Config>,
    is_running: bool,
    is_paused: bool,
    /// Whether the profiler ran since the last finished trace.
    has_run: bool,
    /// Whether the process writes the trace when it ends.
    writes_at_exit: bool,
    events: Vec<Event>,
    /// Statistics of spans and counters, by category and name.
    times: BTreeMap<String, BTreeMap<String, Stat>>,
    /// Statistics of the memory in use, by device.
    memory: BTreeMap<String, Stat>,
    last_dump: Option<Instant>,
}

static STATE: Mutex<State> = Mutex::new(State {
    config: None,
    is_running: false,
    is_paused: false,
    has_run: false,
    writes_at_exit: false,
    events: Vec::new(),
    times: BTreeMap::new(),
    memory: BTreeMap::new(),
    last_dump: None,
});

/// Microseconds since 1970 by a monotonic clock.
fn now() -> u64 {
    static START: OnceLock<(Instant, u64)> = OnceLock::new();
    let (start, at) = START.get_or_init(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (Instant::now(), since.as_micros() as u64)
    });
    at + start.elapsed().as_micros() as u64
}

fn is_enabled(bits: u8) -> bool {
    let enabled = ENABLED.load(Ordering::Relaxed);
    if enabled == ENVIRONMENT_UNREAD {
        return start_by_environment() & bits != 0;
    }
    enabled & bits != 0
}

/// Starts the profiler if the environment variable `MXNET_PROFILER_AUTOSTART` is set and no call has configured it. Returns the enabled
/// measurements.
#[cold]
fn start_by_environment() -> u8 {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.trim().parse::<u8>().ok());
    let mut state = STATE.lock();
    if ENABLED.load(Ordering::Relaxed) == ENVIRONMENT_UNREAD {
        ENABLED.store(0, Ordering::Relaxed);
        if number("MXNET_PROFILER_AUTOSTART").is_some_and(|on| on != 0) {
            let started = state.start(number("MXNET_PROFILER_MODE"));
            report_failure(started, "MXNET_PROFILER_AUTOSTART has no effect");
        }
    }
    ENABLED.load(Ordering::Relaxed)
}

/// Writes the trace, unless it was written before.
extern "C" fn write_at_exit() {
    // A thread that still runs may hold the lock.
    let Some(mut state) = STATE.try_lock_for(Duration::from_secs(1)) else { return };
    if state.has_run {
        report_failure(state.write(), "the profile is not written");
    }
}

/// Logs an error that no caller can receive.
fn report_failure(result: Result<()>, what: &str) {
    if let Err(error) = result {
        log::error!("{what}: {error}");
    }
}

impl State {
    /// Starts the profiler with the measurements of `mode`, a bit mask: 1 for bound graphs, 2 for imperative operators, 4 for the C API, 8
    /// for memory. By default it measures them all.
    fn start(&mut self, mode: Option<u8>) -> Result<()> {
        let measured = [("profile_symbolic", 1), ("profile_imperative", 2), ("profile_api", 4), ("profile_memory", 8)];
        let is_measured = |bit: u8| u8::from(mode.is_none_or(|mode| mode & bit != 0));
        let attrs: Attrs =
            measured.map(|(name, bit)| (name.to_string(), is_measured(bit).to_string())).into_iter().collect();
        self.config = Some(Config::parse(&attrs)?);
        self.set_running(true)
    }

    fn set_running(&mut self, on: bool) -> Result<()> {
        if on && !self.writes_at_exit {
            at_exit::register(write_at_exit)?;
            self.writes_at_exit = true;
        }
        self.is_running = on;
        self.has_run |= on;
        self.update_enabled()
    }

    fn config(&mut self) -> Result<&mut Config> {
        if self.config.is_none() {
            self.config = Some(Config::parse(&Attrs::new())?);
        }
        self.config.as_mut().ok_or_else(|| Error::Internal("the profiler has no parameters".into()))
    }

    /// Updates [`ENABLED`] from state and configuration.
    fn update_enabled(&mut self) -> Result<()> {
        let is_active = self.is_running && !self.is_paused;
        let c = self.config()?;
        let bit = |on: bool, bit: u8| if on || c.profile_all { bit } else { 0 };
        let bits = bit(c.profile_symbolic, SYMBOLIC)
            | bit(c.profile_imperative, IMPERATIVE)
            | bit(c.profile_memory, MEMORY)
            | bit(c.profile_api, API)
            | MARKED;
        ENABLED.store(if is_active { bits } else { 0 }, Ordering::Relaxed);
        Ok(())
    }

    fn add(&mut self, event: Event) {
        let has_statistics = self.config.as_ref().is_some_and(|c| c.aggregate_stats);
        match &event {
            Event::Span { category, name, start, end, .. } if has_statistics => {
                add_stat(self.times.entry(category.clone()).or_default(), name, end - start, Aggregation::Sum);
            }
            Event::Counter { category, name, value, .. } if has_statistics && category != DEVICE_STORAGE => {
                let value = u64::try_from(*value).unwrap_or(0);
                add_stat(self.times.entry(category.clone()).or_default(), name, value, Aggregation::Last);
            }
            // Instants have no statistics, but the table has their category.
            Event::Instant { category, .. } if has_statistics => {
                self.times.entry(category.clone()).or_default();
            }
            _ => {}
        }
        self.events.push(event);
        let is_due = |c: &Config| {
            c.continuous_dump
                && self.last_dump.is_none_or(|last| last.elapsed() >= Duration::from_secs_f32(c.dump_period))
        };
        if self.config.as_ref().is_some_and(is_due) {
            // No caller expects an error here; an explicit dump reports it.
            let _ignored = self.write();
        }
    }

    fn record_memory(&mut self) {
        let (bytes, _) = memory_in_use();
        let name = "Memory: cpu/0";
        if self.config.as_ref().is_some_and(|c| c.aggregate_stats) {
            add_stat(&mut self.memory, name, bytes as u64, Aggregation::Sum);
        }
        let (category, name) = (DEVICE_STORAGE.to_string(), name.to_string());
        self.events.push(Event::Counter { category, name, at: now(), value: bytes as i64, thread: thread_id() });
    }

    fn write(&mut self) -> Result<()> {
        self.last_dump = Some(Instant::now());
        let text = report::trace(&self.events);
        let path = &self.config()?.filename;
        fs::write(path, text).map_err(|e| Error::io(path, &e))
    }
}

fn add_stat(stats: &mut BTreeMap<String, Stat>, name: &str, value: u64, aggregation: Aggregation) {
    let new = Stat { count: 0, last: 0, aggregation, sum: 0, min: u64::MAX, max: 0 };
    let stat = match stats.get_mut(name) {
        Some(stat) => stat,
        None => stats.entry(name.to_string()).or_insert(new),
    };
    stat.count += 1;
    stat.last = value;
    stat.sum = stat.sum.saturating_add(value);
    stat.min = stat.min.min(value);
    stat.max = stat.max.max(value);
}

/// Sets the parameters, such as `filename` and `profile_all`. As in MXNet, omitted ones get their defaults.
///
/// # Errors
/// An unknown parameter, or one that does not parse; `profile_process=server`.
pub fn configure(attrs: &Attrs) -> Result<()> {
    let config = Config::parse(attrs)?;
    ensure!(
        config.profile_process == ProfiledProcess::Worker,
        "KVStoreHandle passed to profiler is null: profile_process is server, but there are no servers; use worker"
    );
    let mut state = STATE.lock();
    state.config = Some(config);
    state.update_enabled()
}

/// Starts or stops the profiler. If no call writes the trace before the process ends, it is written then.
///
/// # Errors
/// None that a caller could cause.
pub fn run(on: bool) -> Result<()> {
    STATE.lock().set_running(on)
}

/// Pauses or resumes the profiler.
///
/// # Errors
/// None that a caller could cause.
pub fn pause(on: bool) -> Result<()> {
    let mut state = STATE.lock();
    state.is_paused = on;
    state.update_enabled()
}

/// Writes the trace of all events since the last finished trace. With `finished`, the events are then discarded.
///
/// # Errors
/// The profiler did not run since the last finished trace; the file cannot be written.
pub fn dump(finished: bool) -> Result<()> {
    let mut state = STATE.lock();
    ensure!(
        state.has_run,
        "Profiler hasn't been run. Config and start profiler first: mx.profiler.set_config, then set_state('run')"
    );
    state.write()?;
    if finished {
        state.events.clear();
        state.has_run = false;
    }
    Ok(())
}

/// The statistics of times and memory, empty unless `aggregate_stats` is set.
pub fn statistics(options: StatisticsOptions) -> String {
    let mut state = STATE.lock();
    let has_statistics = state.config.as_ref().is_some_and(|c| c.aggregate_stats);
    let text = if has_statistics { report::statistics(&state.times, &state.memory, options) } else { String::new() };
    if options.reset {
        state.times.clear();
        state.memory.clear();
    }
    text
}

/// Measures a span until it is dropped.
pub struct Scope {
    category: &'static str,
    name: String,
    start: u64,
}

impl Drop for Scope {
    fn drop(&mut self) {
        let (category, name) = (self.category.to_string(), std::mem::take(&mut self.name));
        let kind = if self.category == C_API { Kind::Overlapping } else { Kind::Nested };
        let event = Event::Span { category, name, kind, start: self.start, end: now(), thread: thread_id() };
        let mut state = STATE.lock();
        state.add(event);
        if self.category == OPERATOR && is_enabled(MEMORY) {
            state.record_memory();
        }
    }
}

fn scope(bits: u8, category: &'static str, name: impl FnOnce() -> String) -> Option<Scope> {
    is_enabled(bits).then(|| Scope { category, name: name(), start: now() })
}

/// Measures a step of a bound graph, if enabled.
pub(crate) fn symbolic(name: impl FnOnce() -> String) -> Option<Scope> {
    scope(SYMBOLIC, OPERATOR, name)
}

/// Measures an imperative operator, if enabled.
pub(crate) fn imperative(name: impl FnOnce() -> String) -> Option<Scope> {
    scope(IMPERATIVE, OPERATOR, name)
}

/// Measures a call of the C API, if enabled.
pub fn api(name: impl FnOnce() -> String) -> Option<Scope> {
    scope(API, C_API, name)
}

/// A profiling object that user programs create.
pub enum ProfilerObject {
    /// A name to group other objects under.
    Domain(String),
    /// A span.
    Span {
        /// Domain or kind.
        category: String,
        /// Name of the span.
        name: String,
        /// The way in which the viewer shows it.
        kind: Kind,
        /// Start time, if it is running.
        start: Mutex<Option<u64>>,
    },
    /// A counter.
    Counter {
        /// Domain.
        category: String,
        /// Name of the counter.
        name: String,
        /// Current value.
        value: AtomicI64,
    },
}

impl ProfilerObject {
    /// The name of a domain.
    ///
    /// # Errors
    /// The object is not a domain.
    pub fn domain(&self) -> Result<&str> {
        match self {
            ProfilerObject::Domain(name) => Ok(name),
            _ => Err(Error::value("a domain was expected: create one with MXProfileCreateDomain")),
        }
    }

    /// Creates a span in a category, which is a domain or a kind.
    pub fn span(category: &str, name: &str, kind: Kind) -> ProfilerObject {
        ProfilerObject::Span { category: category.into(), name: name.into(), kind, start: Mutex::new(None) }
    }

    /// Creates a counter of value 0 in a domain.
    pub fn counter(category: &str, name: &str) -> ProfilerObject {
        ProfilerObject::Counter { category: category.into(), name: name.into(), value: AtomicI64::new(0) }
    }

    /// Starts a span.
    ///
    /// # Errors
    /// The object is not a span.
    pub fn start(&self) -> Result<()> {
        let ProfilerObject::Span { start, .. } = self else { return Err(not_a_span()) };
        *start.lock() = Some(now());
        Ok(())
    }

    /// Ends a span; a span that was not started has length 0.
    ///
    /// # Errors
    /// The object is not a span.
    pub fn stop(&self) -> Result<()> {
        let ProfilerObject::Span { category, name, kind, start } = self else { return Err(not_a_span()) };
        let end = now();
        let start = start.lock().take().unwrap_or(end);
        if is_enabled(MARKED) {
            let (category, name) = (category.clone(), name.clone());
            STATE.lock().add(Event::Span { category, name, kind: *kind, start, end, thread: thread_id() });
        }
        Ok(())
    }

    /// Sets a counter.
    ///
    /// # Errors
    /// The object is not a counter.
    pub fn set_counter(&self, value: i64) -> Result<()> {
        self.update_counter(|counter| {
            counter.store(value, Ordering::Relaxed);
            value
        })
    }

    /// Adds to a counter.
    ///
    /// # Errors
    /// The object is not a counter.
    pub fn add_to_counter(&self, delta: i64) -> Result<()> {
        self.update_counter(|counter| counter.fetch_add(delta, Ordering::Relaxed).wrapping_add(delta))
    }

    /// Records the new value, which `update` returns.
    fn update_counter(&self, update: impl FnOnce(&AtomicI64) -> i64) -> Result<()> {
        let ProfilerObject::Counter { category, name, value } = self else {
            return Err(Error::value("a counter was expected: create one with MXProfileCreateCounter"));
        };
        let value = update(value);
        if is_enabled(MARKED) {
            let (category, name) = (category.clone(), name.clone());
            STATE.lock().add(Event::Counter { category, name, at: now(), value, thread: thread_id() });
        }
        Ok(())
    }
}

fn not_a_span() -> Error {
    Error::value("a task, frame or event was expected: create one with MXProfileCreateTask, -Frame or -Event")
}

/// Records an instant. The scope is `global`, `process`, `thread`, `task` or `marker`.
///
/// # Errors
/// Another scope.
pub fn mark(domain: &str, name: &str, scope: &str) -> Result<()> {
    let scope = match scope {
        "global" => 'g',
        "process" => 'p',
        "thread" => 't',
        // Thread is the narrowest scope of the viewer.
        "task" | "marker" => 't',
        other => {
            return Err(Error::Value(format!(
                "Invalid Input: '{other}', valid values are: {{'global', 'marker', 'process', 'task', 'thread'}}"
            )));
        }
    };
    if is_enabled(MARKED) {
        let category = format!("{domain},instant_marker");
        STATE.lock().add(Event::Instant { category, name: name.into(), at: now(), scope, thread: thread_id() });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
