//! Every golden case, one test per family.
#![allow(clippy::unwrap_used)] // Tests may panic.

use ferromx_conformance::engine::Engine;
use ferromx_conformance::golden;
use ferromx_conformance::suite::{self, Known};

fn family(name: &str) {
    let known = Known::of_repository().unwrap();
    let report = suite::run(&Engine, &golden::folder(), name, &known).unwrap();
    let wrong: Vec<String> = report.failures.iter().map(|(id, message)| format!("{id}: {message}")).collect();
    assert!(wrong.is_empty(), "{report}\n{}", wrong.join("\n"));
    assert!(report.passed + report.known > 0, "{name} has no cases");
}

macro_rules! families {
    ($($name:ident),*) => {
        $(#[test] fn $name() { family(stringify!($name)); })*
        const FAMILIES: &[&str] = &[$(stringify!($name)),*];
    };
}

families!(
    attention,
    binary,
    control_flow,
    conv,
    detection,
    edges,
    found,
    graphs,
    image,
    index,
    infer,
    init,
    layers,
    legacy,
    linalg,
    loss,
    masks,
    matrices,
    message_graphs,
    misc,
    movement,
    norm,
    np_data,
    np_linalg,
    np_math,
    np_products,
    np_reduce,
    np_shape,
    np_stats,
    optimizer,
    order,
    quantized,
    reduce,
    rnn,
    sequence,
    shape,
    sparse,
    spatial,
    unary,
    updates
);

#[test]
fn every_family_is_run() {
    assert_eq!(golden::families(&golden::folder()).unwrap(), FAMILIES);
}
