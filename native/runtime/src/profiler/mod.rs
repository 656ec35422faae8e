//! The profiler: what operators, calls of the C API and spans that users mark take, as a trace for Chrome's viewer and as a table.
//!
//! While it does not run, each place that would be measured reads one atomic number.

mod report;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ferromx_core::error::{Error, Result};
use ferromx_core::params::{Attrs, OpParams};
use ferromx_core::storage::memory_in_use;
use ferromx_core::{ensure, param_enum, params};
use parking_lot::Mutex;

pub use report::{Layout, SortBy};

param_enum! {
    /// Whose work is measured.
    pub enum Process { Worker = "worker", Server = "server" }
}

params! {
    /// Parameters of the profiler.
    struct Config {
        /// The file that traces are written to.
        filename: String = (String::from("profile.json"));
        /// Whether everything is measured.
        profile_all: bool = false;
        /// Whether the operators of bound graphs are measured.
        profile_symbolic: bool = true;
        /// Whether operators that are called one by one are measured.
        profile_imperative: bool = true;
        /// Whether the memory in use is noted after every operator.
        profile_memory: bool = false;
        /// Whether calls of the C API are measured.
        profile_api: bool = false;
        /// Whether the file is written again and again while the profiler runs.
        continuous_dump: bool = false;
        /// Seconds between two writes.
        dump_period: f32 = 1.0, where 0.0..=f32::MAX;
        /// Whether the table is kept.
        aggregate_stats: bool = false;
        /// Whose work is measured: there are workers alone.
        profile_process: Process = (Process::Worker);
    }
}

/// What is measured now, by bits; none while the profiler is stopped or pauses.
static WANTED: AtomicU8 = AtomicU8::new(0);
const SYMBOLIC: u8 = 1;
const IMPERATIVE: u8 = 2;
const MEMORY: u8 = 4;
const API: u8 = 8;
/// What users mark themselves.
const MARKED: u8 = 16;

/// The category of operators.
const OPERATOR: &str = "operator";
/// The category of calls of the C API.
const C_API: &str = "MXNET_C_API";
/// The category of memory.
const DEVICE_STORAGE: &str = "Device Storage";

/// How the viewer shows the two ends of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Spans of one thread, one inside of another.
    Nested,
    /// Spans that may overlap.
    Overlapping,
    /// Spans of frames.
    Frame,
}

/// One line of a trace.
enum Event {
    /// Something that took a while.
    Span { category: String, name: String, kind: Kind, start: u64, end: u64, thread: u64 },
    /// A number at a time.
    Counter { category: String, name: String, at: u64, value: i64, thread: u64 },
    /// A moment.
    Instant { category: String, name: String, at: u64, scope: char, thread: u64 },
}

/// What is known of everything of one name: times in microseconds, or bytes.
#[derive(Clone, Copy)]
struct Stat {
    count: u64,
    /// The last number of a counter.
    last: u64,
    is_counter: bool,
    total: u64,
    least: u64,
    most: u64,
}

#[derive(Default)]
struct State {
    config: Option<Config>,
    running: bool,
    paused: bool,
    /// Whether it ran since the last trace that was finished.
    has_run: bool,
    events: Vec<Event>,
    /// By category and name.
    times: BTreeMap<String, BTreeMap<String, Stat>>,
    memory: BTreeMap<String, Stat>,
    last_dump: Option<Instant>,
}

static STATE: Mutex<State> = Mutex::new(State {
    config: None,
    running: false,
    paused: false,
    has_run: false,
    events: Vec::new(),
    times: BTreeMap::new(),
    memory: BTreeMap::new(),
    last_dump: None,
});

/// Microseconds since 1970, never going back.
fn now() -> u64 {
    static START: OnceLock<(Instant, u64)> = OnceLock::new();
    let (start, at) = START.get_or_init(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (Instant::now(), since.as_micros() as u64)
    });
    at + start.elapsed().as_micros() as u64
}

/// A number for the calling thread.
fn thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    if NUMBER.get() == 0 {
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

fn wanted(what: u8) -> bool {
    WANTED.load(Ordering::Relaxed) & what != 0
}

impl State {
    fn config(&mut self) -> Result<&mut Config> {
        if self.config.is_none() {
            self.config = Some(Config::parse(&Attrs::new())?);
        }
        self.config.as_mut().ok_or_else(|| Error::Internal("the profiler has no parameters".into()))
    }

    /// Publishes what is to be measured.
    fn publish(&mut self) -> Result<()> {
        let running = self.running && !self.paused;
        let c = self.config()?;
        let bit = |on: bool, bit: u8| if on || c.profile_all { bit } else { 0 };
        let bits = bit(c.profile_symbolic, SYMBOLIC)
            | bit(c.profile_imperative, IMPERATIVE)
            | bit(c.profile_memory, MEMORY)
            | bit(c.profile_api, API)
            | MARKED;
        WANTED.store(if running { bits } else { 0 }, Ordering::Relaxed);
        Ok(())
    }

    fn add(&mut self, event: Event) {
        let aggregate = self.config.as_ref().is_some_and(|c| c.aggregate_stats);
        match &event {
            Event::Span { category, name, start, end, .. } if aggregate => {
                add_stat(self.times.entry(category.clone()).or_default(), name, end - start, false);
            }
            Event::Counter { category, name, value, .. } if aggregate && category != DEVICE_STORAGE => {
                let value = u64::try_from(*value).unwrap_or(0);
                add_stat(self.times.entry(category.clone()).or_default(), name, value, true);
            }
            _ => {}
        }
        self.events.push(event);
        let due = |c: &Config| {
            c.continuous_dump
                && self.last_dump.is_none_or(|last| last.elapsed() >= Duration::from_secs_f32(c.dump_period))
        };
        if self.config.as_ref().is_some_and(due) {
            // There is nobody to tell that a file cannot be written; the next dump that is asked for will.
            let _written = self.write();
        }
    }

    fn note_memory(&mut self) {
        let (bytes, _) = memory_in_use();
        let name = "Memory: cpu/0";
        if self.config.as_ref().is_some_and(|c| c.aggregate_stats) {
            add_stat(&mut self.memory, name, bytes as u64, false);
        }
        let (category, name) = (DEVICE_STORAGE.to_string(), name.to_string());
        self.events.push(Event::Counter { category, name, at: now(), value: bytes as i64, thread: thread() });
    }

    fn write(&mut self) -> Result<()> {
        self.last_dump = Some(Instant::now());
        let text = report::trace(&self.events);
        let path = &self.config()?.filename;
        fs::write(path, text).map_err(|e| Error::io(path, &e))
    }
}

fn add_stat(stats: &mut BTreeMap<String, Stat>, name: &str, value: u64, is_counter: bool) {
    let new = Stat { count: 0, last: 0, is_counter, total: 0, least: u64::MAX, most: 0 };
    let stat = match stats.get_mut(name) {
        Some(stat) => stat,
        None => stats.entry(name.to_string()).or_insert(new),
    };
    stat.count += 1;
    stat.last = value;
    stat.total = stat.total.saturating_add(value);
    stat.least = stat.least.min(value);
    stat.most = stat.most.max(value);
}

/// Sets the parameters: `filename`, `profile_all`, `profile_symbolic` and so on. As in MXNet, those that are left out get their defaults.
///
/// # Errors
/// An unknown parameter, or one that does not parse; servers, of which there are none.
pub fn configure(attrs: &Attrs) -> Result<()> {
    let given = Config::parse(attrs)?;
    ensure!(
        given.profile_process == Process::Worker,
        "KVStoreHandle passed to profiler is null: profile_process is server, but there are no servers; use worker"
    );
    let mut state = STATE.lock();
    state.config = Some(given);
    state.publish()
}

/// Starts or stops the profiler.
///
/// # Errors
/// None that a caller could cause.
pub fn run(on: bool) -> Result<()> {
    let mut state = STATE.lock();
    state.running = on;
    state.has_run |= on;
    state.publish()
}

/// Holds the profiler while it runs, or lets it go on.
///
/// # Errors
/// None that a caller could cause.
pub fn pause(on: bool) -> Result<()> {
    let mut state = STATE.lock();
    state.paused = on;
    state.publish()
}

/// Writes the trace of everything since the last trace that was finished. A finished one is forgotten.
///
/// # Errors
/// The profiler did not run since the last trace that was finished; the file cannot be written.
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

/// The table of times and memory, empty unless `aggregate_stats` was set; `reset` empties it.
pub fn statistics(layout: Layout, sort_by: SortBy, ascending: bool, reset: bool) -> String {
    let mut state = STATE.lock();
    let aggregate = state.config.as_ref().is_some_and(|c| c.aggregate_stats);
    let text = if aggregate {
        report::statistics(&state.times, &state.memory, layout, sort_by, ascending)
    } else {
        String::new()
    };
    if reset {
        state.times.clear();
        state.memory.clear();
    }
    text
}

/// Measures until it is dropped.
pub struct Scope {
    category: &'static str,
    name: String,
    start: u64,
}

impl Drop for Scope {
    fn drop(&mut self) {
        let (category, name) = (self.category.to_string(), std::mem::take(&mut self.name));
        let kind = if self.category == C_API { Kind::Overlapping } else { Kind::Nested };
        let event = Event::Span { category, name, kind, start: self.start, end: now(), thread: thread() };
        let mut state = STATE.lock();
        state.add(event);
        if self.category == OPERATOR && wanted(MEMORY) {
            state.note_memory();
        }
    }
}

fn scope(what: u8, category: &'static str, name: impl FnOnce() -> String) -> Option<Scope> {
    wanted(what).then(|| Scope { category, name: name(), start: now() })
}

/// Measures a step of a bound graph, if that is wanted.
pub(crate) fn symbolic(name: impl FnOnce() -> String) -> Option<Scope> {
    scope(SYMBOLIC, OPERATOR, name)
}

/// Measures an operator that is called by itself, if that is wanted.
pub(crate) fn imperative(name: &str) -> Option<Scope> {
    scope(IMPERATIVE, OPERATOR, || name.to_string())
}

/// Measures a call of the C API, if that is wanted.
pub fn api(name: impl FnOnce() -> String) -> Option<Scope> {
    scope(API, C_API, name)
}

/// What users mark in their own programs.
pub enum Mark {
    /// A name that others are grouped under.
    Domain(String),
    /// A span that begins and ends.
    Duration {
        /// Domain, or kind.
        category: String,
        /// What is measured.
        name: String,
        /// How it is shown.
        kind: Kind,
        /// When it began.
        start: Mutex<Option<u64>>,
    },
    /// A number that changes.
    Counter {
        /// Domain.
        category: String,
        /// What is counted.
        name: String,
        /// The number now.
        value: AtomicI64,
    },
}

impl Mark {
    /// The name of a domain.
    ///
    /// # Errors
    /// It is no domain.
    pub fn domain(&self) -> Result<&str> {
        match self {
            Mark::Domain(name) => Ok(name),
            _ => Err(Error::value("a domain was expected: make one by MXProfileCreateDomain")),
        }
    }

    /// A span of a category, which is a domain or a kind.
    pub fn duration(category: &str, name: &str, kind: Kind) -> Mark {
        Mark::Duration { category: category.into(), name: name.into(), kind, start: Mutex::new(None) }
    }

    /// A counter in a domain, at 0.
    pub fn counter(category: &str, name: &str) -> Mark {
        Mark::Counter { category: category.into(), name: name.into(), value: AtomicI64::new(0) }
    }

    /// Begins a span.
    ///
    /// # Errors
    /// It is no span.
    pub fn start(&self) -> Result<()> {
        let Mark::Duration { start, .. } = self else { return Err(no_duration()) };
        *start.lock() = Some(now());
        Ok(())
    }

    /// Ends a span; one that has not begun is empty.
    ///
    /// # Errors
    /// It is no span.
    pub fn stop(&self) -> Result<()> {
        let Mark::Duration { category, name, kind, start } = self else { return Err(no_duration()) };
        let end = now();
        let start = start.lock().take().unwrap_or(end);
        if wanted(MARKED) {
            let (category, name) = (category.clone(), name.clone());
            STATE.lock().add(Event::Span { category, name, kind: *kind, start, end, thread: thread() });
        }
        Ok(())
    }

    /// Changes a counter: sets it, or adds to it.
    ///
    /// # Errors
    /// It is no counter.
    pub fn count(&self, number: i64, add: bool) -> Result<()> {
        let Mark::Counter { category, name, value } = self else {
            return Err(Error::value("a counter was expected: make one by MXProfileCreateCounter"));
        };
        let value = match add {
            true => value.fetch_add(number, Ordering::Relaxed).wrapping_add(number),
            false => {
                value.store(number, Ordering::Relaxed);
                number
            }
        };
        if wanted(MARKED) {
            let (category, name) = (category.clone(), name.clone());
            STATE.lock().add(Event::Counter { category, name, at: now(), value, thread: thread() });
        }
        Ok(())
    }
}

fn no_duration() -> Error {
    Error::value("a task, frame or event was expected: make one by MXProfileCreateTask, -Frame or -Event")
}

/// Marks a moment. The scope is `global`, `process`, `thread`, `task` or `marker`.
///
/// # Errors
/// Another scope.
pub fn mark(domain: &str, name: &str, scope: &str) -> Result<()> {
    let scope = match scope {
        "global" => 'g',
        "process" => 'p',
        "thread" => 't',
        // The viewer knows no narrower scopes than threads.
        "task" | "marker" => 't',
        other => {
            return Err(Error::Value(format!(
                "Invalid Input: '{other}', valid values are: {{'global', 'marker', 'process', 'task', 'thread'}}"
            )));
        }
    };
    if wanted(MARKED) {
        let category = format!("{domain},instant_marker");
        STATE.lock().add(Event::Instant { category, name: name.into(), at: now(), scope, thread: thread() });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
