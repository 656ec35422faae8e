//! The dependencies among the modules of a crate.

use std::collections::{BTreeMap, BTreeSet};

use crate::Name;
use crate::tokens::tokens;

/// A module with its own file.
#[derive(Default)]
pub(crate) struct Module {
    /// The paths in the file, each with the module that it is relative to: the file's, or one inside it.
    paths: Vec<(Name, Name)>,
    /// The path of each name that a `use` declaration of the file brings into scope.
    imports: BTreeMap<String, Name>,
    /// The paths whose items a `use` declaration brings into scope, as `path::*`.
    globs: Vec<Name>,
    /// The names of items that the file defines.
    items: BTreeSet<String>,
    /// The modules that are declared for tests only.
    tests: BTreeSet<String>,
}

/// The modules of a crate by path, from its sources without extension. Files in `bin`, and modules for tests, are left out.
pub(crate) fn modules(sources: BTreeMap<Name, String>) -> BTreeMap<Name, Module> {
    let path = |mut file: Name| match file.last().map(String::as_str) {
        Some("mod" | "lib" | "main") => {
            file.pop();
            file
        }
        _ => file,
    };
    let sources = sources.into_iter().filter(|(file, _)| file[0] != "bin");
    let mut modules: BTreeMap<Name, Module> = BTreeMap::new();
    for (file, text) in sources {
        let name = path(file);
        let mut module = Module::default();
        Parser { tokens: tokens(&text), at: 0, module: &mut module, file: &name }.items(&name);
        modules.insert(name, module);
    }
    let is_test = |name: &Name| {
        (0..name.len()).any(|depth| modules.get(&name[..depth]).is_some_and(|m| m.tests.contains(&name[depth])))
    };
    let tests: Vec<Name> = modules.keys().filter(|name| is_test(name)).cloned().collect();
    tests.iter().for_each(|name| _ = modules.remove(name));
    modules
}

/// For each pair of modules, the paths by which the first uses items of the second.
pub(crate) fn uses(modules: &BTreeMap<Name, Module>) -> BTreeMap<(Name, Name), BTreeSet<String>> {
    let mut uses: BTreeMap<(Name, Name), BTreeSet<String>> = BTreeMap::new();
    for (from, module) in modules {
        for (scope, path) in &module.paths {
            if let Some(to) = resolve(modules, scope, path, 0).filter(|to| to != from) {
                uses.entry((from.clone(), to)).or_default().insert(path.join("::"));
            }
        }
    }
    uses
}

/// Maximum number of re-exports that a path is followed through.
const MAX_REEXPORTS: usize = 12;

/// The module whose file defines what a path names; `None` if it is in another crate.
fn resolve(modules: &BTreeMap<Name, Module>, scope: &[String], path: &[String], reexports: usize) -> Option<Name> {
    let first = path.first().filter(|_| reexports < MAX_REEXPORTS)?;
    let mut base = scope.to_vec();
    let mut rest = path;
    match first.as_str() {
        "crate" => (base, rest) = (Name::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while let Some(("super", parents)) = rest.split_first().map(|(first, rest)| (first.as_str(), rest)) {
                base.pop();
                rest = parents;
            }
        }
        name => {
            let file = file_of(modules, scope);
            let is_module = modules.contains_key([scope, std::slice::from_ref(first)].concat().as_slice());
            if !is_module {
                let import = modules[&file].imports.get(name).filter(|import| import[0] != name)?;
                return resolve(modules, &file, &[import, &path[1..]].concat(), reexports + 1);
            }
        }
    }
    while let Some(name) = rest.first()
        && let inner = [&base[..], std::slice::from_ref(name)].concat()
        && modules.contains_key(&inner)
    {
        (base, rest) = (inner, &rest[1..]);
    }
    let file = file_of(modules, &base);
    let Some(name) = rest.first() else { return Some(file) };
    let module = &modules[&file];
    if module.items.contains(name) {
        return Some(file);
    }
    if let Some(import) = module.imports.get(name) {
        return resolve(modules, &file, &[import, &rest[1..]].concat(), reexports + 1);
    }
    let globs = module.globs.iter();
    let mut found = globs.filter_map(|glob| resolve(modules, &file, &[glob, rest].concat(), reexports + 1));
    if let Some(defines) = found.find(|file| modules[file].items.contains(name)) {
        return Some(defines);
    }
    // Exported macros are items of the crate.
    let mut macros = modules.iter().filter(|(_, module)| file.is_empty() && module.items.contains(&format!("{name}!")));
    Some(macros.next().map_or(file, |(name, _)| name.clone()))
}

/// The module whose file has a module, which may be an inner one.
fn file_of(modules: &BTreeMap<Name, Module>, name: &[String]) -> Name {
    let found = (0..=name.len()).rev().find(|len| modules.contains_key(&name[..*len]));
    name[..found.unwrap_or(0)].to_vec()
}

/// Reads the items and paths of a file.
struct Parser<'t, 'm> {
    tokens: Vec<&'t str>,
    at: usize,
    module: &'m mut Module,
    file: &'m Name,
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

impl Parser<'_, '_> {
    fn peek(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).copied().unwrap_or_default()
    }

    /// The index after the group that begins at a bracket.
    fn group_end(&self, start: usize) -> usize {
        let mut depth = 0;
        for (i, token) in self.tokens.iter().enumerate().skip(start) {
            match *token {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return i + 1;
            }
        }
        self.tokens.len()
    }

    /// Reads the items of a module, whose name is `scope`, up to the end of the file.
    fn items(&mut self, scope: &Name) {
        self.items_until(self.tokens.len(), scope);
    }

    fn items_until(&mut self, end: usize, scope: &Name) {
        while self.at < end {
            match self.peek(0) {
                "#" if self.peek(1) == "[" => self.attribute(),
                // `use ::name` is another crate.
                "use" if self.peek(1) == "::" => {
                    self.at += self.tokens[self.at..].iter().take_while(|t| **t != ";").count()
                }
                "use" => {
                    self.at += 1;
                    self.use_tree(&Name::new(), scope);
                }
                "mod" if self.peek(2) == "{" => {
                    let inner = [&scope[..], &[self.peek(1).to_string()]].concat();
                    let end = self.group_end(self.at + 2);
                    self.at += 3;
                    self.items_until(end - 1, &inner);
                }
                "macro_rules" => {
                    let name = self.peek(2).to_string();
                    self.module.items.insert(format!("{name}!"));
                    self.module.items.insert(name);
                    self.at += 3;
                }
                "struct" | "enum" | "trait" | "fn" | "const" | "static" | "type" | "union" => {
                    let name = self.peek(if self.peek(1) == "mut" { 2 } else { 1 }).to_string();
                    if is_word(&name) {
                        self.module.items.insert(name);
                    }
                    self.at += 1;
                }
                word if is_word(word) && self.peek(1) == "::" => self.path(scope),
                _ => self.at += 1,
            }
        }
    }

    /// Skips an attribute, and the item that follows it if that is compiled for tests only.
    fn attribute(&mut self) {
        let is_test = self.peek(2) == "cfg" && self.peek(4) == "test" && self.peek(5) == ")";
        self.at = self.group_end(self.at + 1);
        if !is_test {
            return;
        }
        while self.peek(0) == "#" {
            self.at = self.group_end(self.at + 1);
        }
        while !matches!(self.peek(0), "{" | ";" | "") {
            if self.peek(0) == "mod" {
                let name = self.peek(1).to_string();
                self.module.tests.insert(name);
            }
            self.at += 1;
        }
        self.at = if self.peek(0) == "{" { self.group_end(self.at) } else { self.at + 1 };
    }

    /// Reads a path in code.
    fn path(&mut self, scope: &Name) {
        let mut path = Name::new();
        while is_word(self.peek(0)) {
            path.push(self.peek(0).to_string());
            self.at += 1;
            if self.peek(0) != "::" {
                break;
            }
            self.at += 1;
        }
        self.module.paths.push((scope.clone(), path));
    }

    /// Reads a tree of a `use` declaration.
    fn use_tree(&mut self, prefix: &[String], scope: &Name) {
        let mut path = prefix.to_vec();
        loop {
            let token = self.peek(0).to_string();
            self.at += 1;
            match token.as_str() {
                "{" => {
                    while !matches!(self.peek(0), "}" | "") {
                        self.use_tree(&path, scope);
                        self.at += usize::from(self.peek(0) == ",");
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    if scope == self.file {
                        self.module.globs.push(path.clone());
                    }
                    break;
                }
                // `path::{self}` names the path.
                "self" if !path.is_empty() => {}
                "::" => continue,
                _ => path.push(token),
            }
            if self.peek(0) != "::" {
                let mut name = path.last().cloned().unwrap_or_default();
                if self.peek(0) == "as" {
                    name = self.peek(1).to_string();
                    self.at += 2;
                }
                if scope == self.file {
                    self.module.imports.insert(name, path.clone());
                }
                break;
            }
        }
        self.module.paths.push((scope.clone(), path));
    }
}
