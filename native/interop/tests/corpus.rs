//! Runs the fuzz targets on their corpus and on mutations of it, without a fuzzer. The mutations are the same in every run unless
//! FERROMX_FUZZ_SECONDS is set: then the test generates new ones for that many seconds, from FERROMX_FUZZ_SEED or a random seed.
//! `scripts/fuzz` runs this test. Add inputs that fail to the corpus.
#![allow(clippy::unwrap_used)] // Tests may panic.

#[path = "../fuzz/targets.rs"]
mod targets;

use std::io::Write;
use std::panic;
use std::path::Path;
use std::time::{Duration, Instant};

use ferromx_core::memory::{OutOfMemory, ReservingAllocator};
use ferromx_interop::onnx::proto::{
    AttributeProto, DimensionValue, GraphProto, ModelProto, NodeProto, TensorProto, TypeValue,
};
use prost::Message;

/// The library's allocator, with which running out of memory is an error and does not end the process.
#[global_allocator]
static ALLOCATOR: ReservingAllocator = ReservingAllocator;

/// The random number generator of the mutations.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }

    /// One of [`EDGES`].
    fn edge(&mut self) -> i64 {
        EDGES[self.below(EDGES.len())]
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}

/// The files of a target's corpus, by name. For FerroMX's own formats, these are the fixtures of other tests.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let (directory, suffix) = match target {
        "onnx" => ("fuzz/corpus/onnx", ".onnx"),
        "images" => ("fuzz/corpus/images", ""),
        "records" => ("fuzz/corpus/records", ""),
        "tables" => ("fuzz/corpus/tables", ""),
        "nnef" => return nnef_graphs(),
        "symbol" => ("../../tests/oracle/fixtures", "-symbol.json"),
        _ => ("../../tests/oracle/fixtures", ".params"),
    };
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let files = std::fs::read_dir(directory).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        (path.file_name().unwrap().to_string_lossy().into_owned(), path)
    });
    let mut files: Vec<_> = files
        .filter(|(name, _)| name.ends_with(suffix))
        .map(|(name, path)| (name, std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// The graphs of the recorded cases of NNEF.
fn nnef_graphs() -> Vec<(String, Vec<u8>)> {
    let cases = include_str!("../../../tests/nnef/data/cases.jsonl").lines();
    let cases = cases.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    cases.map(|c| (c["name"].as_str().unwrap().into(), c["text"].as_str().unwrap().as_bytes().to_vec())).collect()
}

/// Numbers at which code often fails.
const EDGES: [i64; 16] = [
    0,
    1,
    -1,
    2,
    -2,
    3,
    7,
    64,
    1 << 20,
    i32::MAX as i64,
    i32::MIN as i64,
    1 << 32,
    i64::MAX,
    i64::MIN,
    i64::MAX - 1,
    -7,
];

/// Changes some bytes, or inserts some of another input.
fn mutated_bytes(random: &mut Random, from: &[u8], others: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = from.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(5) {
            _ if bytes.is_empty() => bytes.push(random.below(256) as u8),
            0 => bytes[at] = random.below(256) as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes.truncate(at),
            3 => drop(bytes.remove(at)),
            _ => {
                let Some((_, other)) = random.pick(others) else { continue };
                let from = random.below(other.len());
                let part = &other[from..(from + random.below(40)).min(other.len())];
                bytes.splice(at..at, part.iter().copied());
            }
        }
    }
    bytes
}

fn mutate_tensor(random: &mut Random, t: &mut TensorProto) {
    match random.below(4) {
        0 => t.data_type = random.below(24) as i32,
        1 => {
            if let Some(i) = (!t.dims.is_empty()).then(|| random.below(t.dims.len())) {
                t.dims[i] = random.edge();
            }
        }
        2 => t.int64_data.iter_mut().for_each(|x| *x = random.edge()),
        _ => {
            // Shapes, axes and limits are usually numbers of eight bytes.
            if let Some(raw) = &t.raw_data {
                let mut raw = raw.to_vec();
                let at = random.below(raw.len()) / 8 * 8;
                let edge = random.edge().to_le_bytes();
                raw.iter_mut().skip(at).zip(edge).for_each(|(x, e)| *x = e);
                t.raw_data = Some(raw.into());
            }
        }
    }
}

fn mutate_attribute(random: &mut Random, a: &mut AttributeProto) {
    let edge = random.edge();
    match random.below(6) {
        0 => a.i = a.i.map(|_| edge),
        1 => a.f = a.f.map(|_| [0.0, -1.0, f32::NAN, f32::INFINITY, 1e30][random.below(5)]),
        2 => {
            if let Some(i) = (!a.ints.is_empty()).then(|| random.below(a.ints.len())) {
                a.ints[i] = edge;
            }
        }
        3 => drop(a.ints.pop()),
        4 => a.ints.push(edge),
        _ => {
            if let Some(t) = a.t.as_mut() {
                mutate_tensor(random, t);
            }
        }
    }
    if let Some(g) = a.g.as_mut() {
        mutate_graph(random, g, &[]);
    }
}

/// Changes a graph so that it remains a well-formed file.
fn mutate_graph(random: &mut Random, g: &mut GraphProto, others: &[ModelProto]) {
    let values: Vec<String> =
        g.input.iter().map(|i| i.name.clone()).chain(g.node.iter().flat_map(|n| n.output.clone())).collect();
    let node = (!g.node.is_empty()).then(|| random.below(g.node.len()));
    match (random.below(9), node) {
        (0, Some(n)) => {
            // A different operator on the same inputs.
            let other = random.pick(others).and_then(|m| m.graph.as_ref()).and_then(|g| g.node.first().cloned());
            if let Some(other) = other {
                let old = &g.node[n];
                g.node[n] = NodeProto { input: old.input.clone(), output: old.output.clone(), ..other };
            }
        }
        (1, Some(n)) => {
            let i = random.below(g.node[n].input.len());
            if let (Some(input), Some(value)) = (g.node[n].input.get_mut(i), random.pick(&values)) {
                input.clone_from(value);
            }
        }
        (2, Some(n)) => drop(g.node[n].input.pop()),
        (3, Some(n)) => g.node[n].input.push(values.first().cloned().unwrap_or_default()),
        (4 | 5, Some(n)) => {
            let i = random.below(g.node[n].attribute.len());
            if let Some(a) = g.node[n].attribute.get_mut(i) {
                mutate_attribute(random, a);
            }
        }
        (6, _) => {
            let i = random.below(g.initializer.len());
            if let Some(t) = g.initializer.get_mut(i) {
                mutate_tensor(random, t);
            }
        }
        (7, _) => {
            // An input with another shape or type, or an initializer that becomes an input.
            let i = random.below(g.initializer.len());
            if i < g.initializer.len() && random.below(2) == 0 {
                let name = g.initializer.remove(i).name;
                if let Some(mut input) = g.input.first().cloned() {
                    input.name = name;
                    g.input.push(input);
                }
            } else if let Some(input) = g.input.first_mut()
                && let Some(TypeValue::Tensor(t)) = input.r#type.as_mut().and_then(|t| t.value.as_mut())
            {
                t.elem_type = random.below(14) as i32;
                if random.below(2) == 0 {
                    t.shape = None;
                }
            }
        }
        _ => {
            let i = random.below(g.input.len());
            if let Some(TypeValue::Tensor(t)) =
                g.input.get_mut(i).and_then(|i| i.r#type.as_mut()).and_then(|t| t.value.as_mut())
                && let Some(shape) = t.shape.as_mut()
                && let Some(dim) = shape.dim.first_mut()
            {
                dim.value = Some(DimensionValue::Value(random.edge()));
            }
        }
    }
}

/// Runs a target on the corpus and on mutations; collects the inputs that panicked or took too long.
fn fuzz(kind: &str, rounds: usize, target: fn(&[u8]), mutate: impl Fn(&mut Random, &[u8]) -> Vec<u8>) {
    let files = corpus(kind);
    let mut wrong = Vec::new();
    let seconds = std::env::var("FERROMX_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok());
    let kept = |what: &str| std::env::temp_dir().join(format!("ferromx-{kind}-{}-{what}", std::process::id()));
    let mut check = |name: &str, bytes: &[u8]| {
        if seconds.is_some() {
            // If the process runs out of memory, this file is all that is left.
            std::fs::write(kept("last"), bytes).unwrap();
        }
        let started = Instant::now();
        let outcome = panic::catch_unwind(|| target(bytes));
        let failed = outcome.is_err_and(|payload| !payload.is::<OutOfMemory>());
        let took = started.elapsed();
        if failed || took > Duration::from_secs(10) {
            let kept = kept(&wrong.len().to_string());
            std::fs::write(&kept, bytes).unwrap();
            wrong.push(format!(
                "{name}: {} ({took:?}), kept as {}",
                if failed { "panic" } else { "slow" },
                kept.display()
            ));
        }
        wrong.len() < 20
    };
    for (name, bytes) in &files {
        check(name, bytes);
    }
    let until = seconds.map(|s| Instant::now() + Duration::from_secs(s));
    let chosen = std::env::var("FERROMX_FUZZ_SEED").ok().and_then(|s| s.parse().ok());
    let seed = chosen.unwrap_or(if until.is_some() { u64::from(std::process::id()) << 8 } else { 1 });
    let mut random = Random(seed | 1);
    let (started, mut inputs) = (Instant::now(), files.len());
    for round in 0.. {
        if until.map_or(round >= rounds, |t| Instant::now() > t) {
            break;
        }
        let (name, bytes) = &files[random.below(files.len())];
        let bytes = mutate(&mut random, bytes);
        inputs += 1;
        if !check(&format!("round {round}, {name}"), &bytes) {
            break;
        }
    }
    if let Some(path) = std::env::var_os("FERROMX_FUZZ_TOTALS") {
        let mut totals = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        let line = format!("{kind}\t{inputs}\t{}\t{}\n", started.elapsed().as_secs(), wrong.len());
        totals.write_all(line.as_bytes()).unwrap();
    }
    let _ = std::fs::remove_file(kept("last"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn onnx() {
    let files = corpus("onnx");
    let models: Vec<ModelProto> = files.iter().filter_map(|(_, b)| ModelProto::decode(b.as_slice()).ok()).collect();
    fuzz("onnx", 3000, targets::onnx, |random, from| {
        if let (true, Ok(mut model)) = (random.below(4) > 0, ModelProto::decode(from)) {
            for _ in 0..=random.below(3) {
                if let Some(g) = model.graph.as_mut() {
                    mutate_graph(random, g, &models);
                }
            }
            return model.encode_to_vec();
        }
        mutated_bytes(random, from, &files)
    });
}

#[test]
fn symbol() {
    let files = corpus("symbol");
    fuzz("symbol", 2000, targets::symbol, |random, from| mutated_bytes(random, from, &files));
}

#[test]
fn params() {
    let files = corpus("params");
    fuzz("params", 4000, targets::params, |random, from| mutated_bytes(random, from, &files));
}

#[test]
fn images() {
    fuzz_binary("images", 1000, targets::images);
}

#[test]
fn records() {
    fuzz_binary("records", 500, targets::records);
}

#[test]
fn tables() {
    fuzz_binary("tables", 500, targets::tables);
}

/// Fuzzes a target of binary or text files with changed bytes and with [`EDGES`].
fn fuzz_binary(kind: &str, rounds: usize, target: fn(&[u8])) {
    let files = corpus(kind);
    fuzz(kind, rounds, target, |random, from| {
        if random.below(3) > 0 {
            return mutated_bytes(random, from, &files);
        }
        let mut changed = from.to_vec();
        let at = random.below(changed.len());
        let edge = random.edge();
        let number = if random.below(2) == 0 {
            edge.to_le_bytes()
        } else {
            edge.to_string().repeat(8).as_bytes()[..8].try_into().unwrap()
        };
        let len = 1 << random.below(4);
        changed.iter_mut().skip(at).zip(number).take(len).for_each(|(x, e)| *x = e);
        changed
    });
}

#[test]
fn nnef() {
    let files = corpus("nnef");
    fuzz("nnef", 3000, targets::nnef, |random, from| {
        let mut changed = from.to_vec();
        // Numbers, a line of another graph, or any bytes.
        match random.below(3) {
            0 => {
                let text = String::from_utf8_lossy(from).into_owned();
                let positions: Vec<usize> =
                    text.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(i, _)| i).collect();
                if let Some(at) = random.pick(&positions) {
                    let edge = random.edge().to_string();
                    changed.splice(*at..at + 1, edge.into_bytes());
                }
            }
            1 => {
                let line = random.pick(&files).and_then(|(_, other)| {
                    let lines: Vec<&[u8]> = other.split(|b| *b == b'\n').collect();
                    random.pick(&lines).map(|l| l.to_vec())
                });
                let ends: Vec<usize> = (0..from.len()).filter(|i| from[*i] == b'\n').collect();
                if let (Some(mut line), Some(at)) = (line, random.pick(&ends)) {
                    line.insert(0, b'\n');
                    changed.splice(*at..*at, line);
                }
            }
            _ => changed = mutated_bytes(random, from, &files),
        }
        changed
    });
}
