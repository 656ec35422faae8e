//! Every random operator draws from its documented distribution, and the same samples with any number of threads.
#![allow(clippy::panic, clippy::unwrap_used)] // Tests may panic.

use ferromx_conformance::statistics::DRAWS;
use ferromx_kernels::par::{num_threads, set_num_threads};
use ferromx_ops::registry;

#[test]
fn random_numbers_have_their_distributions_with_any_number_of_threads() {
    let mut wrong = Vec::new();
    let threads = num_threads();
    for draw in DRAWS {
        let with = |threads: usize| {
            set_num_threads(threads);
            draw.numbers(11).unwrap_or_else(|e| panic!("{}: {e}", draw.op))
        };
        let numbers = with(1);
        if with(3) != numbers {
            wrong.push(format!("{}: the numbers depend on the number of threads", draw.op));
        }
        wrong.extend(draw.check(&numbers).err().map(|e| format!("{} {:?}: {e}", draw.op, draw.attrs)));
        if draw.numbers(12).unwrap() == numbers {
            wrong.push(format!("{}: the numbers do not depend on the seed", draw.op));
        }
    }
    set_num_threads(threads);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_operator_that_draws_is_tested() {
    // Control flow and user operators draw the samples of their bodies.
    let foreign = |name: &str| matches!(name, "Custom" | "_CustomFunction");
    let drawing = registry::all()
        .filter(|def| def.kernels.is_random && def.signature.graph_args.is_empty() && !foreign(def.name));
    let missing: Vec<_> =
        drawing.filter(|def| !DRAWS.iter().any(|draw| draw.op == def.name)).map(|def| def.name).collect();
    assert!(missing.is_empty(), "add to the table of statistics: {}", missing.join(", "));
}
