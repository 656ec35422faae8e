//! Batches of products of the same shape.

use super::driver::{Left, Product, Right};
use super::{Epilogue, GemmElement};
use crate::par::{self, MatMut, MatRef};
use crate::simd::microkernel::MicroKernel;

/// Multiply-adds in a parallel task.
const TASK_WORK: usize = 1 << 19;
/// Multiply-adds from which each product of a small batch is split among the threads.
const LARGE_WORK: usize = 1 << 22;

/// C_i = `alpha` A_i B_i + `beta` C_i for consecutive matrices C_i of (m, n) elements in `c`.
///
/// `a(i)` and `b(i)` return the operands of product i: slices of one array, transposed ones, or the same one for every i.
///
/// # Panics
/// When `c` is not a whole number of matrices or the shapes of the operands do not match.
pub fn gemm_batched<'a, T: GemmElement>(
    alpha: T,
    a: impl Fn(usize) -> MatRef<'a, T> + Sync,
    b: impl Fn(usize) -> MatRef<'a, T> + Sync,
    beta: T,
    c: &mut [T],
    shape: (usize, usize),
) {
    batched_with(T::microkernel(), alpha, a, b, beta, c, shape);
}

pub(super) fn batched_with<'a, T: GemmElement>(
    kernel: &'static MicroKernel<T>,
    alpha: T,
    a: impl Fn(usize) -> MatRef<'a, T> + Sync,
    b: impl Fn(usize) -> MatRef<'a, T> + Sync,
    beta: T,
    c: &mut [T],
    (m, n): (usize, usize),
) {
    if c.is_empty() {
        return;
    }
    let len = m * n;
    assert!(len > 0 && c.len().is_multiple_of(len), "{} elements are no whole number of {m} x {n} matrices", c.len());
    let (count, work) = (c.len() / len, len * a(0).cols().max(1));
    let epilogue = Epilogue::default();
    let product = |i: usize, threads: usize, c: &mut [T]| {
        let (a, b) = (Left::View(a(i)), Right::View(b(i)));
        Product { kernel, alpha, a, b, beta, epilogue: &epilogue, threads }.run(MatMut::row_major(c, m, n));
    };
    let threads = par::num_threads();
    if work >= LARGE_WORK && !count.is_multiple_of(threads) && count < 4 * threads {
        c.chunks_exact_mut(len).enumerate().for_each(|(i, c)| product(i, threads, c));
    } else {
        par::parallel_rows(c, len, TASK_WORK.div_ceil(work), |i, c| product(i, 1, c));
    }
}
