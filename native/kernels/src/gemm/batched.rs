//! Batches of products of the same shape.

use super::product::{Lhs, Product, Rhs};
use super::{Epilogue, GemmElement};
use crate::par::{self, MatMut, MatRef};
use crate::simd::microkernel::MicroKernel;

/// Minimum multiply-adds in a chunk.
const CHUNK_WORK: usize = 1 << 19;
/// Minimum multiply-adds for splitting each product of a small batch among the threads.
const LARGE_WORK: usize = 1 << 22;

/// Maximum multiply-adds of a product that is computed without a microkernel, which would take longer to start.
const TINY_WORK: usize = 64;
/// Maximum columns of such a product.
const TINY_COLS: usize = 8;

/// C_i = `alpha` A_i B_i + `beta` C_i for consecutive (M, N) matrices C_i in `c`; `shape` is (M, N).
///
/// `a(i)` and `b(i)` return the operands of product i, for example slices of one array, their transposes, or the same matrix for
/// every i.
///
/// # Panics
/// Panics if `c` is not a whole number of matrices or the shapes of the operands do not match.
pub fn gemm_batched<'a, T: GemmElement>(
    alpha: T,
    a: impl Fn(usize) -> MatRef<'a, T> + Sync,
    b: impl Fn(usize) -> MatRef<'a, T> + Sync,
    beta: T,
    c: &mut [T],
    shape: (usize, usize),
) {
    BatchedProduct { kernel: T::microkernel(), alpha, a, b, beta, shape }.run(c);
}

/// Products of the same shape to compute.
pub(super) struct BatchedProduct<T: 'static, A, B> {
    pub kernel: &'static MicroKernel<T>,
    pub alpha: T,
    pub a: A,
    pub b: B,
    pub beta: T,
    /// Rows and columns of each product.
    pub shape: (usize, usize),
}

impl<'a, T: GemmElement, A, B> BatchedProduct<T, A, B>
where
    A: Fn(usize) -> MatRef<'a, T> + Sync,
    B: Fn(usize) -> MatRef<'a, T> + Sync,
{
    pub(super) fn run(&self, c: &mut [T]) {
        if c.is_empty() {
            return;
        }
        let (m, n) = self.shape;
        let len = m * n;
        assert!(
            len > 0 && c.len().is_multiple_of(len),
            "{} elements are not a whole number of {m} x {n} matrices",
            c.len()
        );
        let (batch, work) = (c.len() / len, len * (self.a)(0).cols().max(1));
        if work <= TINY_WORK && n <= TINY_COLS {
            return par::parallel_rows(c, len, CHUNK_WORK / TINY_WORK, |i, c| self.multiply_directly(i, c));
        }
        let epilogue = Epilogue::default();
        let product = |i: usize, threads: usize, c: &mut [T]| {
            let BatchedProduct { kernel, alpha, beta, .. } = *self;
            let (a, b) = (Lhs::View((self.a)(i)), Rhs::View((self.b)(i)));
            Product { kernel, alpha, a, b, beta, epilogue: &epilogue, threads }.run(MatMut::row_major(c, m, n));
        };
        let threads = par::num_threads();
        if work >= LARGE_WORK && !batch.is_multiple_of(threads) && batch < 4 * threads {
            c.chunks_exact_mut(len).enumerate().for_each(|(i, c)| product(i, threads, c));
        } else {
            par::parallel_rows(c, len, CHUNK_WORK.div_ceil(work), |i, c| product(i, 1, c));
        }
    }

    /// Computes product `i`, which has at most [`TINY_COLS`] columns.
    fn multiply_directly(&self, i: usize, c: &mut [T]) {
        let BatchedProduct { alpha, beta, shape: (m, n), .. } = *self;
        let (a, b) = ((self.a)(i), (self.b)(i));
        assert_eq!((a.rows(), a.cols(), b.cols()), (m, b.rows(), n), "the shapes of the operands do not match");
        for (row, c) in c.chunks_exact_mut(n).enumerate() {
            let mut sums = [T::zero(); TINY_COLS];
            for k in 0..a.cols() {
                let x = a.data()[row * a.row_stride() + k * a.col_stride()];
                for (col, sum) in sums[..n].iter_mut().enumerate() {
                    *sum = *sum + x * b.data()[k * b.row_stride() + col * b.col_stride()];
                }
            }
            for (c, sum) in c.iter_mut().zip(sums) {
                let old = if beta == T::zero() { T::zero() } else { beta * *c };
                *c = if alpha == T::zero() { old } else { alpha * sum + old };
            }
        }
    }
}
