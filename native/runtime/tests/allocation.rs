//! Running a plan does not allocate, neither on the calling thread nor on the threads of the pool.
#![allow(clippy::panic, clippy::unwrap_used)] // Tests may panic.
#![allow(unsafe_code)] // The counting allocator.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::*;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Mode;
use ferromx_core::storage::Req;
use ferromx_runtime::executor::Executor;
use ferromx_runtime::symbol::Symbol;

/// An allocator that counts the allocations of all threads while counting is on.
struct Counting;

static COUNTING: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn count() {
    if COUNTING.load(Ordering::Relaxed) {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: forwards to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number of allocations in five runs after a warm-up. Each thread allocates scratch memory on first use, and the assignment of chunks
/// to threads is random, so the result is the smallest of up to ten measurements.
fn allocations(mut run: impl FnMut()) -> usize {
    let mut least = usize::MAX;
    for _ in 0..10 {
        (0..3).for_each(|_| run());
        COUNT.store(0, Ordering::Relaxed);
        COUNTING.store(true, Ordering::Relaxed);
        (0..5).for_each(|_| run());
        COUNTING.store(false, Ordering::Relaxed);
        least = least.min(COUNT.load(Ordering::Relaxed));
        if least == 0 {
            break;
        }
    }
    least
}

fn train_step(executor: &Executor) {
    executor.forward(Mode::Training).unwrap();
    executor.backward(&[], Mode::Training).unwrap();
}

/// Checks a training step of a network with given head gradients.
fn assert_trains_without_allocating(net: &Symbol, shapes: &[(&str, &[i64])], what: &str) {
    let executor = bind(net, shapes, writes(net), 3);
    let heads: Vec<NDArray> = executor.outputs().iter().map(|y| y.to_context(executor.context()).unwrap()).collect();
    let run = || {
        executor.forward(Mode::Training).unwrap();
        executor.backward(&heads, Mode::Training).unwrap();
    };
    assert_eq!(allocations(run), 0, "training of {what}");
    assert_eq!(allocations(|| executor.forward(Mode::Inference).unwrap()), 0, "inference of {what}");
}

/// All convolution algorithms: few and many channels, with and without stride, grouped, depthwise, and transposed.
fn convolutions(threads: usize) {
    let (name, net) = (format!("LeNet, {threads} threads"), lenet("relu"));
    let executor = bind(&net, &[("data", &[8, 1, 8, 8])], writes(&net), 1);
    assert_eq!(allocations(|| train_step(&executor)), 0, "training of {name}");
    assert_eq!(allocations(|| executor.forward(Mode::Inference).unwrap()), 0, "inference of {name}");
    for (operator, attrs, channels) in [
        ("Convolution", [("kernel", "(3, 3)"), ("pad", "(1, 1)"), ("stride", "(1, 1)"), ("num_group", "1")], "32"),
        ("Convolution", [("kernel", "(7, 7)"), ("pad", "(3, 3)"), ("stride", "(2, 2)"), ("num_group", "1")], "8"),
        ("Convolution", [("kernel", "(1, 1)"), ("pad", "(0, 0)"), ("stride", "(1, 1)"), ("num_group", "2")], "8"),
        ("Convolution", [("kernel", "(3, 3)"), ("pad", "(1, 1)"), ("stride", "(2, 2)"), ("num_group", "32")], "32"),
        ("Deconvolution", [("kernel", "(4, 4)"), ("pad", "(1, 1)"), ("stride", "(2, 2)"), ("num_group", "1")], "8"),
    ] {
        let mut attrs = attrs.to_vec();
        attrs.push(("num_filter", channels));
        let net = op(operator, "layer", &[variable("data")], &attrs);
        let what = format!("{operator} {attrs:?}, {threads} threads");
        assert_trains_without_allocating(&net, &[("data", &[2, 32, 14, 14])], &what);
    }
}

/// Operators that only move elements.
fn moves(threads: usize) {
    let x = variable("data");
    for (operator, attrs) in [
        ("transpose", &[("axes", "(2, 0, 1)")][..]),
        ("slice_axis", &[("axis", "1"), ("begin", "1"), ("end", "3")]),
        ("slice", &[("begin", "(0, 1, 2)"), ("end", "(6, 3, 7)"), ("step", "(2, 1, 2)")]),
        ("SliceChannel", &[("num_outputs", "2"), ("axis", "2")]),
        ("Concat", &[("num_args", "1"), ("dim", "1")]),
        ("tile", &[("reps", "(2, 1, 3)")]),
        ("reverse", &[("axis", "1")]),
        ("SwapAxis", &[("dim1", "0"), ("dim2", "2")]),
        ("repeat", &[("repeats", "2"), ("axis", "1")]),
        ("broadcast_axis", &[("axis", "0"), ("size", "3")]),
        ("max", &[("axis", "(0, 2)")]),
    ] {
        let net = op(operator, "moved", std::slice::from_ref(&x), attrs);
        let sizes: &[i64] = if operator == "broadcast_axis" { &[1, 4, 8] } else { &[6, 4, 8] };
        assert_trains_without_allocating(&net, &[("data", sizes)], &format!("{operator}, {threads} threads"));
    }
}

/// A single test, since the allocator counts for the whole process.
#[test]
fn plans_run_without_allocating() {
    for threads in [1, 2] {
        ferromx_kernels::par::set_num_threads(threads);
        for activation in ["relu", "tanh"] {
            let (name, net) = ("multilayer perceptron", dense(variable("data"), &["128", "64", "10"], activation));
            let executor = bind(&net, &[("data", &[32, 64])], writes(&net), 1);
            assert_eq!(allocations(|| train_step(&executor)), 0, "training of a {name}, {threads} threads");
            let inference = allocations(|| executor.forward(Mode::Inference).unwrap());
            assert_eq!(inference, 0, "inference of a {name}, {threads} threads");
        }
        let x = variable("data");
        let many = op("add_n", "many", &vec![x.clone(); 9], &[]);
        let row = op("mean", "mean", &[x], &[("axis", "0"), ("keepdims", "True")]);
        let centered = op("broadcast_sub", "centered", &[many, row], &[]);
        let normed = op("BatchNorm", "normed", &[centered], &[("fix_gamma", "False")]);
        let net = op("Dropout", "dropped", &[op("softmax", "shares", &[normed], &[])], &[]);
        let what = format!("many operands, broadcasting and reductions, {threads} threads");
        assert_trains_without_allocating(&net, &[("data", &[64, 48])], &what);
        convolutions(threads);
        moves(threads);
        let chain = elementwise_chain();
        let executor = bind(&chain, &[("a", &[300_000])], vec![Req::Add; 4], 2);
        let heads = [executor.outputs()[0].to_context(executor.context()).unwrap()];
        let run = || {
            executor.forward(Mode::Training).unwrap();
            executor.backward(&heads, Mode::Training).unwrap();
        };
        assert_eq!(allocations(run), 0, "a chain of elementwise operators, {threads} threads");
    }
}
