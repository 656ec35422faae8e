//! `docs/op-coverage.md` is up to date, and `docs/differences.md` explains every known difference.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::collections::HashSet;

use ferromx_conformance::coverage;
use ferromx_conformance::suite::Known;

#[test]
fn the_page_of_coverage_is_up_to_date() {
    let committed = std::fs::read_to_string(coverage::path()).unwrap();
    let update = "run `cargo run -p ferromx-conformance --bin coverage`";
    for (line, (committed, now)) in committed.lines().zip(coverage::page().unwrap().lines()).enumerate() {
        assert_eq!(committed, now, "line {}: {update}", line + 1);
    }
    assert_eq!(committed.lines().count(), coverage::page().unwrap().lines().count(), "{update}");
}

#[test]
fn every_known_difference_is_explained() {
    let page = std::fs::read_to_string(coverage::path().with_file_name("differences.md")).unwrap();
    let explained: HashSet<String> = page.split('`').flat_map(expand).collect();
    let known = Known::of_repository().unwrap();
    let unexplained: Vec<&str> = known.ids().filter(|id| !explained.contains(*id)).collect();
    assert!(unexplained.is_empty(), "explain these in docs/differences.md: {}", unexplained.join(", "));
}

/// Expands `reduce/prod/{45,46}` to the ids of both goldens.
fn expand(text: &str) -> Vec<String> {
    match text.strip_suffix('}').and_then(|text| text.split_once('{')) {
        Some((prefix, numbers)) => numbers.split(',').map(|number| format!("{prefix}{number}")).collect(),
        None => vec![text.to_string()],
    }
}
