//! Finds the tests of an operator in the test sources: those that mention its name or the static that defines it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ferromx_core::op::OpDef;
use ferromx_ops::registry;

/// A test and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// The function.
    pub name: String,
    /// The file, relative to the repository.
    pub file: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All Rust files below a folder except generated ones, sorted.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries = std::fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<std::io::Result<Vec<_>>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, into)?;
        } else if path.extension().is_some_and(|x| x == "rs") {
            into.push(path);
        }
    }
    Ok(())
}

/// A token of a source: an identifier or the content of a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word<'a> {
    Name(&'a str),
    Text(&'a str),
    Brace(bool),
}

/// The tokens of a source, without comments and character literals, whose quotes could be mistaken for those of strings.
fn words(source: &str) -> Vec<Word<'_>> {
    let mut all = Vec::new();
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '\'' if rest.starts_with("'\\") => rest.get(3..).and_then(|r| r.find('\'')).map_or(1, |n| n + 4),
            '\'' if rest.chars().nth(2) == Some('\'') => rest.char_indices().nth(3).map_or(rest.len(), |(i, _)| i),
            'r' if rest.starts_with("r#\"") => {
                let end = rest[3..].find("\"#").map_or(rest.len(), |n| n + 3);
                all.push(Word::Text(rest.get(3..end).unwrap_or_default()));
                (end + 2).min(rest.len())
            }
            '"' => {
                let mut escaped = false;
                let end = rest[1..].find(|c| {
                    let ends = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    ends
                });
                let end = end.map_or(rest.len(), |n| n + 1);
                all.push(Word::Text(&rest[1..end]));
                (end + 1).min(rest.len())
            }
            '{' | '}' => {
                all.push(Word::Brace(c == '{'));
                1
            }
            c if c.is_alphabetic() || c == '_' => {
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                all.push(Word::Name(&rest[..end]));
                end
            }
            c => c.len_utf8(),
        };
        rest = &rest[taken.max(1).min(rest.len())..];
    }
    all
}

/// True if a name is that of a static.
fn is_static(name: &str) -> bool {
    name.len() > 1 && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// The operators that a source defines: each belongs to the last static, or macro argument, before its name.
fn statics<'a>(words: &[Word<'a>], defs: &BTreeMap<&str, &'static OpDef>) -> BTreeMap<&'a str, &'static str> {
    let mut found = BTreeMap::new();
    let mut last = None;
    for word in words {
        match word {
            Word::Name(name) if is_static(name) => last = Some(*name),
            Word::Text(text) => {
                if let (Some(name), Some(def)) = (last, defs.get(text)) {
                    found.entry(name).or_insert(def.name);
                }
            }
            _ => {}
        }
    }
    found
}

/// The tests of a source with the tokens of their bodies.
fn tests<'w, 'a>(words: &'w [Word<'a>]) -> Vec<(&'a str, &'w [Word<'a>])> {
    let mut found = Vec::new();
    let mut i = 0;
    while i + 2 < words.len() {
        let (Word::Name("test"), Word::Name("fn"), Word::Name(name)) = (words[i], words[i + 1], words[i + 2]) else {
            i += 1;
            continue;
        };
        let (mut depth, mut end) = (0usize, i + 3);
        while let Some(word) = words.get(end) {
            end += 1;
            match word {
                Word::Brace(true) => depth += 1,
                Word::Brace(false) if depth == 1 => break,
                Word::Brace(false) => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        found.push((name, &words[i + 3..end]));
        i = end;
    }
    found
}

/// The first test of each operator, by canonical name.
///
/// # Errors
/// A source cannot be read.
pub fn named() -> Result<BTreeMap<&'static str, Test>, String> {
    let mut defs = BTreeMap::new();
    for def in registry::all() {
        defs.extend(def.metadata.aliases.iter().chain([&def.name]).map(|name| (*name, def)));
    }
    let mut files = Vec::new();
    for folder in ["native", "tests"] {
        sources(&root().join(folder), &mut files).map_err(|e| format!("{folder}: {e}"))?;
    }
    let mut found = BTreeMap::new();
    for file in files {
        let source = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let words = words(&source);
        let statics = statics(&words, &defs);
        for (name, body) in tests(&words) {
            for word in body {
                let operator = match word {
                    Word::Name(name) => statics.get(name).copied(),
                    Word::Text(text) => defs.get(text).map(|def| def.name),
                    Word::Brace(_) => None,
                };
                let file = file.strip_prefix(root()).unwrap_or(&file).to_string_lossy().into_owned();
                let test = Test { name: name.to_owned(), file };
                operator.map(|operator| found.entry(operator).or_insert(test));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_by_what_they_name() {
        let source = r#"
            pub static SINE: Operator = Operator::new("sin");
            // "cos"
            unary!(TANGENT: "tan", f = |x| x);
            #[test]
            fn it_swings() { if '"' != '\'' { run(&SINE) } else { run("cosh") } }
            #[test]
            fn it_grows() { run(&TANGENT) }
        "#;
        let words = words(source);
        let defs: BTreeMap<_, _> =
            ["sin", "tan"].into_iter().map(|name| (name, registry::find(name).unwrap().1)).collect();
        assert_eq!(statics(&words, &defs), [("SINE", "sin"), ("TANGENT", "tan")].into());
        let tests = tests(&words);
        assert_eq!(tests.iter().map(|t| t.0).collect::<Vec<_>>(), ["it_swings", "it_grows"]);
        assert!(tests[0].1.contains(&Word::Text("cosh")) && tests[1].1.contains(&Word::Name("TANGENT")));
    }
}
