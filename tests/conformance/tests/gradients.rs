//! Gradients agree with finite differences, in double precision, on the inputs of the goldens.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::collections::BTreeMap;

use ferromx_conformance::gradients::{self, Checked, NOT_DERIVATIVE_CASES, NOT_DERIVATIVES};
use ferromx_core::grad::Grad;
use ferromx_ops::registry;

fn otherwise(name: &str) -> bool {
    NOT_DERIVATIVES.iter().any(|(op, _)| *op == name)
}

/// Ignores operators and cases whose gradients are by design not the derivatives.
fn wrong<'a>(all: &'a BTreeMap<&'static str, Checked>) -> Vec<&'a String> {
    let listed = |text: &&String| NOT_DERIVATIVE_CASES.iter().any(|(case, _)| text.split(':').next() == Some(*case));
    let differing = all.iter().filter(|(name, _)| !otherwise(name)).flat_map(|(_, checked)| &checked.differs);
    differing.filter(|text| !listed(text)).collect()
}

#[test]
fn gradients_of_first_and_second_order_agree_with_finite_differences() {
    let all = gradients::all().unwrap();
    let wrong = wrong(&all);
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.iter().map(|s| format!("{s}\n")).collect::<String>());
    let has_gradient = |name: &str| {
        let (_, def) = registry::find(name).unwrap();
        !matches!(def.gradient.rule, Grad::None | Grad::Zero)
    };
    let unchecked: Vec<_> = (all.iter())
        .filter(|(name, checked)| has_gradient(name) && !otherwise(name) && checked.first == 0)
        .map(|(name, checked)| format!("{name}: {:?}", checked.skipped.first()))
        .collect();
    assert!(unchecked.is_empty(), "no case could be compared:\n{}", unchecked.join("\n"));
    for (name, what) in NOT_DERIVATIVES {
        assert!(all[name].first < all[name].cases, "the gradient of {name} is its derivative, and not {what}");
    }
    let twice = gradients::differentiated_twice_by_mxnet().unwrap();
    let once: Vec<_> = (twice.iter())
        .filter(|name| !otherwise(name) && all[**name].second == 0)
        .map(|name| format!("{name}: {:?}", all[name].skipped_second.first()))
        .collect();
    assert!(once.is_empty(), "no second derivative could be compared:\n{}", once.join("\n"));
}
