//! Fails if the modules of a crate, or the internal packages of a Scala library, depend on each other in a cycle.
//!
//! The files and subfolders of each folder must depend on each other in one direction. A subfolder counts as one node and is checked in the
//! same way. The tool resolves paths in `use` declarations and in code, through re-exports, to the file that defines the item. A folder and
//! its own `mod.rs`, which declares and re-exports its files and may contain items that they share, may depend on each other.
//!
//! Method calls name no path, so the `impl` blocks of a type may be in several files. Tests may use everything.
//!
//! The public packages of the Scala library are MXNet's and depend on each other as in MXNet. Only packages inside an `internal` package
//! are checked.

mod cycles;
mod rust;
mod scala;
mod tokens;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use cycles::{Uses, cycles};

/// A module path or package, by its parts.
type Name = Vec<String>;

/// The sources below a folder with this extension: path below the folder without the extension, and text.
fn sources(root: &Path, extension: &str) -> io::Result<BTreeMap<Name, String>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                let name = path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
                found.insert(name, fs::read_to_string(entry.path())?);
            }
        }
    }
    Ok(found)
}

/// The cycles within the folders of a crate.
fn cycles_of_crate(sources: BTreeMap<Name, String>) -> Vec<String> {
    let uses = rust::uses(&rust::modules(sources));
    let folders: std::collections::BTreeSet<&[String]> =
        uses.keys().flat_map(|(from, _)| (0..from.len()).map(|depth| &from[..depth])).collect();
    let mut found = Vec::new();
    for folder in folders {
        let depth = folder.len();
        let mut siblings = Uses::new();
        for ((from, to), items) in &uses {
            let is_inside = |name: &Name| name.starts_with(folder) && name.len() > depth;
            if !is_inside(from) || !is_inside(to) {
                continue;
            }
            if from[depth] != to[depth] {
                let key = (from[..=depth].join("::"), to[..=depth].join("::"));
                siblings.entry(key).or_default().extend(items.iter().cloned());
            }
        }
        found.extend(cycles(&siblings));
    }
    found
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let crates = ["core", "kernels", "ops", "runtime", "interop", "capi", "cli"];
    let crates = crates.map(|name| format!("native/{name}/src")).into_iter().chain(["tests/conformance/src".into()]);
    let mut failed = false;
    let mut report = |folder: &str, result: io::Result<Vec<String>>| {
        let lines = result.unwrap_or_else(|e| vec![e.to_string()]);
        failed |= !lines.is_empty();
        lines.iter().for_each(|line| eprintln!("{folder}: {line}"));
    };
    for folder in crates {
        report(&folder, sources(&root.join(&folder), "rs").map(cycles_of_crate));
    }
    for folder in ["jvm/src/main/scala", "spark/src/main/scala"] {
        report(folder, sources(&root.join(folder), "scala").map(|sources| cycles(&scala::uses(&sources))));
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let name = |path: &str| path.split('/').map(String::from).collect();
        cycles_of_crate(files.iter().map(|(path, text)| (name(path), text.to_string())).collect())
    }

    #[test]
    fn files_that_use_each_other_are_a_cycle() {
        let files = [
            ("lib", "mod a; mod b; mod c;"),
            ("a", "use crate::{b::B, c};\n pub struct A(B);"),
            ("b", "pub struct B; fn f() { crate::a::A; }"),
            ("c", "// use crate::a::A;\n const TEXT: &str = \"crate::a::A\";"),
        ];
        assert_eq!(found(&files), ["a -> b (crate::b::B) -> a (crate::a::A)"]);
    }

    #[test]
    fn a_cycle_through_files_of_two_folders_is_one_of_the_folders() {
        let files = [
            ("lib", "mod a; mod b;"),
            ("a/mod", "mod one; mod two;"),
            ("a/one", "use crate::b::three::T;"),
            ("a/two", "pub struct U;"),
            ("b/mod", "pub mod three;"),
            ("b/three", "use crate::a::two::U; pub struct T;"),
        ];
        assert_eq!(found(&files), ["a -> b (crate::b::three::T) -> a (crate::a::two::U)"]);
    }

    #[test]
    fn items_are_those_of_the_file_that_defines_them() {
        // Both use the item of `x` through the folder's file.
        let files = [
            ("lib", "mod a;"),
            ("a/mod", "mod x; mod y; pub use x::X; fn shared() {}"),
            ("a/x", "use super::shared; pub struct X;"),
            ("a/y", "use super::X; use super::shared;"),
        ];
        assert!(found(&files).is_empty());
        let files = [files[0], files[1], ("a/x", "use super::y; pub struct X;"), files[3]];
        assert_eq!(found(&files), ["a::x -> a::y (super::y) -> a::x (super::X)"]);
    }

    #[test]
    fn tests_may_use_what_uses_them() {
        let files = [
            ("lib", "mod family;"),
            ("family/mod", "mod dot; #[cfg(test)] mod tests;"),
            ("family/dot", "pub struct P; #[cfg(test)] mod tests { use crate::family::tests; }"),
            ("family/tests", "use super::dot::P;"),
        ];
        assert!(found(&files).is_empty());
    }
}
