//! The registry of operators, by name and alias.

use std::collections::HashMap;
use std::sync::OnceLock;

use ferromx_core::error::{Error, Result};
use ferromx_core::op::OpDef;

/// The tables of the families. A new family is added here and nowhere else.
static FAMILIES: &[&[&OpDef]] = &[
    crate::broadcast::BINARY,
    crate::broadcast::EXPAND,
    crate::broadcast::BACKWARD,
    crate::contrib::ATTENTION,
    crate::contrib::FUSED_ATTENTION,
    crate::contrib::REWRITTEN,
    crate::contrib::DEFORMABLE,
    crate::contrib::DETECTION,
    crate::contrib::MASK,
    crate::contrib::ELEMENTWISE,
    crate::control_flow::OPS,
    crate::custom::OPS,
    crate::elemwise::UNARY,
    crate::elemwise::BINARY,
    crate::elemwise::SCALAR,
    crate::elemwise::PARAMETRIC,
    crate::elemwise::IDENTITY,
    crate::init::OPS,
    crate::init::RANGES,
    crate::internal::OPS,
    crate::image::DECODE,
    crate::image::IMDECODE,
    crate::image::TRANSFORM,
    crate::image::COLOR,
    crate::image::RESIZE,
    crate::linalg::DOT,
    crate::linalg::KHATRI_RAO,
    crate::linalg::PRODUCTS,
    crate::linalg::SOLVE,
    crate::linalg::FACTOR,
    crate::linalg::EIGEN,
    crate::linalg::SINGULAR,
    crate::linalg::EQUATIONS,
    crate::linalg::NORMS,
    crate::linalg::DIAGONALS,
    crate::linalg::TRANSFORMS,
    crate::nn::OPS,
    crate::nn::SOFTMAX,
    crate::nn::REGRESSION,
    crate::numpy::UNARY,
    crate::numpy::BINARY,
    crate::numpy::COMPARE,
    crate::numpy::SCALAR,
    crate::numpy::REDUCE,
    crate::numpy::VIEWS,
    crate::numpy::MOVES,
    crate::numpy::DIAGONAL,
    crate::numpy::JOINS,
    crate::numpy::INIT,
    crate::numpy::SELECT,
    crate::numpy::STATS,
    crate::numpy::RUNNING,
    crate::numpy::PRODUCTS,
    crate::numpy::DYNAMIC,
    crate::numpy::MISC,
    crate::numpy::EINSUM,
    crate::nn::PROCESSES,
    crate::numpy::INSERT,
    crate::numpy::PAD,
    crate::numpy::RANDOM,
    crate::numpy::DISCRETE,
    crate::onnx::OPS,
    crate::optimizer::SGD,
    crate::optimizer::MULTI_SGD,
    crate::optimizer::ADAPTIVE,
    crate::optimizer::GROUP,
    crate::optimizer::ADAMW,
    crate::optimizer::LAMB,
    crate::optimizer::NORMS,
    crate::quantized::CONVERT,
    crate::quantized::LAYERS,
    crate::quantized::PRODUCT,
    crate::quantized::RNN,
    crate::random::FIXED,
    crate::random::SAMPLED,
    crate::random::DISCRETE,
    crate::random::PDF,
    crate::reduce::SUMS,
    crate::reduce::NORMS,
    crate::reduce::ARG,
    crate::reduce::COUNTS,
    crate::shape::RESHAPE,
    crate::shape::AXES,
    crate::shape::DIAG,
    crate::shape::SLICE,
    crate::shape::JOIN,
    crate::shape::REPEAT,
    crate::shape::PAD,
    crate::index::OPS,
    crate::sort::OPS,
    crate::spatial::OPS,
    crate::sparse::OPS,
    crate::sparse::GRAPH,
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
        for def in FAMILIES.iter().copied().flatten() {
            for name in std::iter::once(&def.name).chain(def.aliases) {
                let earlier = by_name.insert(*name, *def);
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
    let r = registry();
    if let Some((key, def)) = r.by_name.get_key_value(name) {
        return Ok((key, def));
    }
    let lower = name.to_lowercase();
    let internal = |n: &str| n.starts_with('_') && !name.starts_with('_');
    let alike: Vec<_> = r.names.iter().filter(|n| n.to_lowercase().contains(&lower) && !internal(n)).take(5).collect();
    let hint = match alike.is_empty() {
        true => "see Symbol.api for the list of operators".to_string(),
        false => format!("did you mean {}?", alike.iter().map(|s| s.to_string()).collect::<Vec<_>>().join(", ")),
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
    FAMILIES.iter().copied().flatten().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_documented() {
        let mut by_name = HashMap::new();
        for def in all() {
            assert!(def.doc.len() > 10, "{} has no description", def.name);
            for name in std::iter::once(&def.name).chain(def.aliases) {
                assert!(by_name.insert(*name, def.name).is_none(), "{name} is defined twice");
            }
            for (arg, _, doc) in def.arguments() {
                assert!(!doc.is_empty(), "argument {arg} of {} has no description", def.name);
            }
        }
    }

    #[test]
    fn unknown_names_get_a_hint() {
        let e = find("flatte").map(|(n, _)| n).unwrap_err().to_string();
        assert!(e.contains("did you mean Flatten, flatten?"), "{e}");
    }
}
