//! Matrix products: C = alpha A B + beta C, optionally with prepacked operands and a fused epilogue.
//!
//! Operands are views, so that all transposed cases are one function: `gemm(1.0, x, w.t(), 0.0, c)`. Every element of C is a sum
//! over depth blocks that depend on the depth alone, so its bits do not depend on the number of threads.

mod batched;
mod driver;
mod epilogue;
mod few_rows;
mod packed;
mod reduced;
#[cfg(test)]
mod tests;

pub use crate::par::{MatMut, MatRef};
pub use crate::simd::microkernel::GemmElement;
pub use batched::gemm_batched;
pub use epilogue::{Activation, Bias, Epilogue};
pub use packed::{PackedA, PackedB};
pub use reduced::{Reduced, gemm_reduced};

use crate::par;
use crate::simd::microkernel::MicroKernel;
use driver::{Left, Product, Right};

/// C = `alpha` A B + `beta` C, for A of (m, k), B of (k, n) and C of (m, n) elements. With a `beta` of zero the old contents of
/// C, even NaN, are ignored.
///
/// # Panics
/// When the shapes do not match.
pub fn gemm<T: GemmElement>(alpha: T, a: MatRef<'_, T>, b: MatRef<'_, T>, beta: T, c: MatMut<'_, T>) {
    gemm_fused(alpha, a, b, beta, c, &Epilogue::default());
}

/// Like [`gemm`], followed by bias, residual and activation while the result is in the cache: see [`Epilogue`].
///
/// # Panics
/// When the shapes do not match.
pub fn gemm_fused<T: GemmElement>(
    alpha: T,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    beta: T,
    c: MatMut<'_, T>,
    epilogue: &Epilogue<'_, T>,
) {
    gemm_with(T::microkernel(), alpha, a, b, beta, c, epilogue);
}

fn gemm_with<T: GemmElement>(
    kernel: &'static MicroKernel<T>,
    alpha: T,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    beta: T,
    c: MatMut<'_, T>,
    epilogue: &Epilogue<'_, T>,
) {
    Product { kernel, alpha, a: Left::View(a), b: Right::View(b), beta, epilogue, threads: par::num_threads() }.run(c);
}

/// Like [`gemm_fused`], with an A that was packed beforehand (constant weights on the left, as in a convolution).
///
/// # Panics
/// When the shapes do not match.
pub fn gemm_packed_a<T: GemmElement>(
    alpha: T,
    a: &PackedA<T>,
    b: MatRef<'_, T>,
    beta: T,
    c: MatMut<'_, T>,
    epilogue: &Epilogue<'_, T>,
) {
    Product {
        kernel: a.kernel(),
        alpha,
        a: Left::Packed(a),
        b: Right::View(b),
        beta,
        epilogue,
        threads: par::num_threads(),
    }
    .run(c);
}

/// Like [`gemm_fused`], with a B that was packed beforehand (constant weights on the right, as in a fully connected layer).
///
/// # Panics
/// When the shapes do not match.
pub fn gemm_packed_b<T: GemmElement>(
    alpha: T,
    a: MatRef<'_, T>,
    b: &PackedB<T>,
    beta: T,
    c: MatMut<'_, T>,
    epilogue: &Epilogue<'_, T>,
) {
    Product {
        kernel: b.kernel(),
        alpha,
        a: Left::View(a),
        b: Right::Packed(b),
        beta,
        epilogue,
        threads: par::num_threads(),
    }
    .run(c);
}
