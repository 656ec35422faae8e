//! Formats traces and statistics.

use std::collections::BTreeMap;
use std::fmt::Write;

use ferromx_core::error::{Error, Result};
use serde_json::{Value, json};

use super::{Aggregation, DEVICE_STORAGE, Event, Kind, Stat};

/// The format of statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A table.
    Table,
    /// JSON.
    Json,
}

impl Layout {
    /// The layout with this C API code.
    ///
    /// # Errors
    /// An unknown code.
    pub fn from_code(code: i32) -> Result<Layout> {
        match code {
            0 => Ok(Layout::Table),
            1 => Ok(Layout::Json),
            _ => Err(Error::Value(format!("format {code} is unknown: use 0 (table) or 1 (JSON)"))),
        }
    }
}

/// The sort key of statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortBy {
    /// The sum.
    Total,
    /// The mean.
    Average,
    /// The minimum.
    Minimum,
    /// The maximum.
    Maximum,
    /// The number of events.
    Count,
}

impl SortBy {
    /// The sort key with this C API code.
    ///
    /// # Errors
    /// An unknown code.
    pub fn from_code(code: i32) -> Result<SortBy> {
        Ok(match code {
            0 => SortBy::Total,
            1 => SortBy::Average,
            2 => SortBy::Minimum,
            3 => SortBy::Maximum,
            4 => SortBy::Count,
            _ => {
                return Err(Error::Value(format!(
                    "sort_by {code} is unknown: use 0 (total), 1 (average), 2 (minimum), 3 (maximum) or 4 (count)"
                )));
            }
        })
    }
}

/// How statistics are written.
#[derive(Clone, Copy, Debug)]
pub struct StatisticsOptions {
    /// The format.
    pub layout: Layout,
    /// The sort key.
    pub sort_by: SortBy,
    /// True if the lowest value comes first.
    pub ascending: bool,
    /// True if the statistics start again at zero afterwards.
    pub reset: bool,
}

impl Stat {
    fn total(&self) -> u64 {
        match self.aggregation {
            Aggregation::Sum => self.sum,
            Aggregation::Last => self.last,
        }
    }

    fn average(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }
}

fn sorted(stats: &BTreeMap<String, Stat>, options: StatisticsOptions) -> Vec<(&str, Stat)> {
    let mut all: Vec<_> = stats.iter().map(|(name, stat)| (name.as_str(), *stat)).collect();
    let key = |s: &Stat| match options.sort_by {
        SortBy::Total => s.total() as f64,
        SortBy::Average => s.average(),
        SortBy::Minimum => s.min as f64,
        SortBy::Maximum => s.max as f64,
        SortBy::Count => s.count as f64,
    };
    all.sort_by(|(_, a), (_, b)| if options.ascending { key(a).total_cmp(&key(b)) } else { key(b).total_cmp(&key(a)) });
    all
}

/// Converts microseconds to milliseconds, or bytes to kilobytes.
fn to_thousands(x: f64) -> f64 {
    x / 1000.0
}

/// The statistics as text.
pub(super) fn statistics(
    times: &BTreeMap<String, BTreeMap<String, Stat>>,
    memory: &BTreeMap<String, Stat>,
    options: StatisticsOptions,
) -> String {
    match options.layout {
        Layout::Table => table(times, memory, options),
        Layout::Json => to_json(times, memory, options),
    }
}

fn to_json(
    times: &BTreeMap<String, BTreeMap<String, Stat>>,
    memory: &BTreeMap<String, Stat>,
    options: StatisticsOptions,
) -> String {
    let number = |x: f64| (to_thousands(x) * 1e4).round() / 1e4;
    let time = |(name, s): (&str, Stat)| {
        let (total, min, max) = (s.total() as f64, s.min as f64, s.max as f64);
        let numbers = json!({
            "Count": s.count, "Total": number(total), "Min": number(min), "Max": number(max), "Avg": number(s.average())
        });
        (name.to_string(), numbers)
    };
    let bytes = |(name, s): (&str, Stat)| {
        let (min, max) = (s.min as f64, s.max as f64);
        let numbers = json!({"Count": s.count, "Min": number(min), "Max": number(max), "Avg": number(s.average())});
        (name.to_string(), numbers)
    };
    let mut categories = serde_json::Map::new();
    for (category, stats) in times {
        let stats: serde_json::Map<_, _> = sorted(stats, options).into_iter().map(time).collect();
        categories.insert(category.clone(), stats.into());
    }
    let devices: serde_json::Map<_, _> = sorted(memory, options).into_iter().map(bytes).collect();
    let all = json!({
        "Time": categories,
        "Memory": {DEVICE_STORAGE: devices},
        "Unit": {"Time": "ms", "Memory": "kB"}
    });
    serde_json::to_string_pretty(&all).unwrap_or_default()
}

fn table(
    times: &BTreeMap<String, BTreeMap<String, Stat>>,
    memory: &BTreeMap<String, Stat>,
    options: StatisticsOptions,
) -> String {
    let mut text = String::from("\nProfile Statistics:\n\tNote the difference in units for different entries.\n");
    let mut section = |title: &str, columns: &[&str], rows: Vec<(&str, u64, Vec<f64>)>| {
        let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0).max(25);
        let _ = write!(text, "{title}\n{}\n{:width$}{:>16}", "=".repeat(17), "Name", "Total Count");
        columns.iter().for_each(|c| {
            let _ = write!(text, "{c:>17}");
        });
        let dashes = |title: &str| "-".repeat(title.len());
        let _ = write!(text, "\n{:width$}{:>16}", "----", dashes("Total Count"));
        columns.iter().for_each(|c| {
            let _ = write!(text, "{:>17}", dashes(c));
        });
        text.push('\n');
        for (name, count, numbers) in rows {
            let _ = write!(text, "{name:width$}{count:>16}");
            numbers.iter().for_each(|x| {
                let _ = write!(text, "{:>17.4}", to_thousands(*x));
            });
            text.push('\n');
        }
        text.push('\n');
    };
    if !memory.is_empty() {
        let row = |(name, s): (_, Stat)| (name, s.count, vec![s.min as f64, s.max as f64, s.average()]);
        let rows = sorted(memory, options).into_iter().map(row).collect();
        section(DEVICE_STORAGE, &["Min Use  (kB)", "Max Use  (kB)", "Avg Use  (kB)"], rows);
    }
    for (category, stats) in times {
        let row =
            |(name, s): (_, Stat)| (name, s.count, vec![s.total() as f64, s.min as f64, s.max as f64, s.average()]);
        let rows = sorted(stats, options).into_iter().map(row).collect();
        section(category, &["Time (ms)", "Min Time (ms)", "Max Time (ms)", "Avg Time (ms)"], rows);
    }
    text
}

/// The processes that MXNet's traces begin with.
const DEVICES: [&str; 4] = ["cpu/0", "cpu/1", "cpu pinned/", "cpu shared/"];

/// Events in the trace format of Chrome's viewer. Each category is shown as a process.
pub(super) fn trace(events: &[Event]) -> String {
    let mut processes: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events {
        let (Event::Span { category, .. } | Event::Counter { category, .. } | Event::Instant { category, .. }) = event;
        let next = DEVICES.len() + processes.len();
        processes.entry(category).or_insert(next);
    }
    let process =
        |(name, id): (&str, usize)| json!({"ph": "M", "name": "process_name", "pid": id, "args": {"name": name}});
    let devices = DEVICES.into_iter().enumerate().map(|(id, name)| (name, id));
    let mut lines: Vec<Value> = devices.chain(processes.iter().map(|(name, id)| (*name, *id))).map(process).collect();
    let id_of = |category: &str| processes.get(category).copied().unwrap_or_default();
    for event in events {
        match event {
            Event::Span { category, name, kind, start, end, thread } => {
                let phases = match kind {
                    Kind::Nested => ["B", "E"],
                    Kind::Overlapping => ["b", "e"],
                    Kind::Frame => ["(", ")"],
                };
                for (phase, time) in phases.into_iter().zip([start, end]) {
                    let mut line = json!({
                        "name": name, "cat": category, "ph": phase, "ts": time, "pid": id_of(category), "tid": thread
                    });
                    if *kind == Kind::Overlapping {
                        line["id"] = json!(thread);
                    }
                    lines.push(line);
                }
            }
            Event::Counter { category, name, at, value, thread } => lines.push(json!({
                "name": name, "cat": category, "ph": "C", "ts": at, "pid": id_of(category), "tid": thread, "args": {name: value}
            })),
            Event::Instant { category, name, at, scope, thread } => lines.push(json!({
                "name": name, "cat": category, "ph": "n", "ts": at, "pid": id_of(category), "tid": thread, "s": scope.to_string()
            })),
        }
    }
    json!({"traceEvents": lines, "displayTimeUnit": "ms"}).to_string()
}
