//! The registry of operators, by name and alias.

use std::collections::HashMap;
use std::sync::OnceLock;

use ferromx_core::error::{Error, Result};
use ferromx_core::op::{AnyOperator, OpDef};

/// The tables of the families. A new family is added here and nowhere else.
static FAMILIES: &[&[&[&dyn AnyOperator]]] = &[
    crate::broadcast::OPS,
    crate::contrib::OPS,
    &[crate::control_flow::OPS],
    &[crate::custom::OPS],
    crate::elemwise::OPS,
    crate::image::OPS,
    crate::index::OPS,
    crate::init::OPS,
    &[crate::internal::OPS],
    crate::linalg::OPS,
    crate::nn::OPS,
    &[crate::onnx::OPS],
    crate::optimizer::OPS,
    crate::quantized::OPS,
    crate::random::OPS,
    crate::reduce::OPS,
    crate::shape::OPS,
    crate::sort::OPS,
    crate::sparse::OPS,
    &[crate::spatial::OPS],
];

struct Registry {
    by_name: HashMap<&'static str, &'static OpDef>,
    names: Vec<&'static str>,
    entries: Vec<(&'static str, &'static OpDef)>,
}

fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let mut by_name = HashMap::new();
        for def in all() {
            for name in std::iter::once(&def.name).chain(def.metadata.aliases) {
                let earlier = by_name.insert(*name, def);
                debug_assert!(earlier.is_none(), "operator name {name} is defined twice");
            }
        }
        let mut names: Vec<_> = by_name.keys().copied().collect();
        names.sort_unstable();
        let entries = names.iter().map(|name| (*name, by_name[name])).collect();
        Registry { by_name, names, entries }
    })
}

/// The operator with this name or alias, and the name as a `'static` string.
///
/// # Errors
/// Unknown names; the message suggests similar ones.
pub fn find(name: &str) -> Result<(&'static str, &'static OpDef)> {
    let registry = registry();
    if let Some((key, def)) = registry.by_name.get_key_value(name) {
        return Ok((key, def));
    }
    let lower = name.to_lowercase();
    let is_internal = |n: &str| n.starts_with('_') && !name.starts_with('_');
    let similar: Vec<_> =
        registry.names.iter().filter(|n| n.to_lowercase().contains(&lower) && !is_internal(n)).take(5).collect();
    let hint = match similar.is_empty() {
        true => "see Symbol.api for the list of operators".to_string(),
        false => format!("did you mean {}?", similar.iter().map(|s| s.to_string()).collect::<Vec<_>>().join(", ")),
    };
    Err(Error::NotFound(format!("operator '{name}' is not registered; {hint}")))
}

/// All names and aliases in alphabetical order.
pub fn names() -> &'static [&'static str] {
    &registry().names
}

/// Name and definition by the index of the name in [`names`].
pub fn entry(index: usize) -> Option<(&'static str, &'static OpDef)> {
    registry().entries.get(index).copied()
}

/// All operators, each once.
pub fn all() -> impl Iterator<Item = &'static OpDef> {
    FAMILIES.iter().copied().flatten().copied().flatten().map(|operator| operator.def())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_documented() {
        let mut by_name = HashMap::new();
        for def in all() {
            assert!(def.metadata.doc.len() > 10, "{} has no description", def.name);
            for name in std::iter::once(&def.name).chain(def.metadata.aliases) {
                assert!(by_name.insert(*name, def.name).is_none(), "{name} is defined twice");
            }
            for (arg, _, doc) in def.arguments() {
                assert!(!doc.is_empty(), "argument {arg} of {} has no description", def.name);
            }
        }
    }

    #[test]
    fn an_unknown_name_suggests_similar_ones() {
        let e = find("flatte").map(|(n, _)| n).unwrap_err().to_string();
        assert!(e.contains("did you mean Flatten, flatten?"), "{e}");
    }
}
