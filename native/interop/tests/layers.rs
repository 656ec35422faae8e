//! The modules of the crate depend on each other in one direction: ir, mapping, front ends, emit, import and export.

#![allow(clippy::unwrap_used)] // Tests may panic.

use std::path::{Path, PathBuf};

/// Each module, with the modules that it may use.
const LAYERS: &[(&str, &[&str])] = &[
    ("error", &["ir"]), // in links of its documentation
    ("mapped_file", &["error"]),
    ("ir", &["error"]),
    ("mapping", &["error", "ir"]),
    ("external", &["error", "mapped_file"]),
    ("onnx", &["error", "external", "ir", "mapped_file"]),
    ("nnef", &["error", "external", "ir", "mapping"]),
    ("mxnet", &["error", "ir"]),
    ("emit", &["error", "ir", "mapping", "mxnet", "onnx"]),
    ("import", &["emit", "error", "ir", "mapping"]),
    ("export", &["emit", "error", "ir", "mapping", "mxnet"]),
    ("run", &["emit", "error", "import", "ir"]),
];

fn sources(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            sources(&entry.unwrap().path(), found);
        }
    } else {
        found.push(path.to_path_buf());
    }
}

/// The modules after each `crate::` of a text.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let name = |rest: &str| rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    text.split("crate::").skip(1).map(move |rest| &rest[..name(rest)])
}

#[test]
fn modules_name_only_those_before_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut wrong = Vec::new();
    for file in files.iter().filter(|f| !f.ends_with("lib.rs")) {
        let inside = file.strip_prefix(&root).unwrap();
        let module = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        let (_, allowed) = LAYERS.iter().find(|(name, _)| *name == module).expect(module);
        let text = std::fs::read_to_string(file).unwrap();
        assert!(!text.contains("crate::{"), "{}: name one module in each use", inside.display());
        let names = named(&text).filter(|name| *name != module && !allowed.contains(name));
        wrong.extend(names.map(|name| format!("{}: {name}", inside.display())));
    }
    assert!(wrong.is_empty(), "a module names one that it must not know:\n{}", wrong.join("\n"));
}
