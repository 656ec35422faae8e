//! The dependencies among the internal packages of a Scala library.

use std::collections::{BTreeMap, BTreeSet};

use crate::Name;
use crate::cycles::Uses;
use crate::tokens::tokens;

/// For each pair of packages in an `internal` package, the items of the second that the first uses, by imports and qualified names.
pub(crate) fn uses(sources: &BTreeMap<Name, String>) -> Uses {
    let files: Vec<(Name, Vec<&str>)> = sources.values().map(|text| package_and_tokens(text)).collect();
    let is_internal = |package: &Name| package.iter().any(|part| part == "internal");
    let packages: BTreeSet<&Name> = files.iter().map(|(package, _)| package).filter(|p| is_internal(p)).collect();
    let mut uses = Uses::new();
    for (from, tokens) in files.iter().filter(|(package, _)| is_internal(package)) {
        for path in paths(tokens) {
            // A path is relative to an enclosing package, or absolute.
            let mut used = (0..=from.len()).rev().filter_map(|depth| {
                let path = [&from[..depth], &path[..]].concat();
                let contains = |package: &&&Name| package.len() > depth && path.starts_with(package);
                packages.iter().filter(contains).max_by_key(|package| package.len())
            });
            if let Some(to) = used.next().filter(|to| **to != from) {
                uses.entry((from.join("."), to.join("."))).or_default().insert(path.join("."));
            }
        }
    }
    uses
}

/// The package of a file, which several clauses may give, and the tokens after them.
fn package_and_tokens(text: &str) -> (Name, Vec<&str>) {
    let mut tokens = tokens(text);
    let mut package = Name::new();
    while tokens.first() == Some(&"package") && tokens.get(1) != Some(&"object") {
        let mut end = 2;
        while tokens.get(end) == Some(&".") {
            end += 2;
        }
        package.extend(tokens.drain(..end).skip(1).step_by(2).map(String::from));
    }
    (package, tokens)
}

/// The dotted paths of a file. A path with a list of names in braces is one for each name.
fn paths(tokens: &[&str]) -> Vec<Name> {
    let is_word = |token: &str| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut found = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let start = i;
        while i + 2 < tokens.len() && is_word(tokens[i]) && tokens[i + 1] == "." && is_word(tokens[i + 2]) {
            i += 2;
        }
        i += 1;
        let path: Name = tokens[start..i].iter().step_by(2).map(|part| part.to_string()).collect();
        if tokens[i..].starts_with(&[".", "{"]) {
            let list = tokens[i + 2..].iter().take_while(|token| **token != "}");
            found.extend(list.filter(|token| is_word(token)).map(|name| [&path[..], &[name.to_string()]].concat()));
        } else if path.len() > 1 {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_and_qualified_names_are_uses() {
        let files = [
            ("a", "package org.mxnet\npackage internal.jni\nimport org.mxnet.internal.{util => u}\nclass A"),
            ("b", "package org.mxnet\npackage internal.util\nobject Json { def f = internal.jni.A.g }"),
            ("c", "package org.mxnet\nclass C { val x = internal.jni.A }"),
        ];
        let files = files.map(|(name, text)| (vec![name.to_string()], text.to_string())).into_iter().collect();
        let found: Vec<(String, String)> = uses(&files).into_keys().collect();
        let pair = |a: &str, b: &str| (format!("org.mxnet.internal.{a}"), format!("org.mxnet.internal.{b}"));
        assert_eq!(found, [pair("jni", "util"), pair("util", "jni")]);
    }
}
