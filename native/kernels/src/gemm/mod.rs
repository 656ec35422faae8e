//! Matrix products: C = alpha A B + beta C, optionally with prepacked operands and a fused epilogue.
//!
//! A is (M, K), B is (K, N) and C is (M, N); K is called the depth. Operands are strided views, so that all transposed cases are
//! one function: `gemm(1.0, x, w.t(), 0.0, c)`. Every element of C is a sum over depth blocks that depend on K alone, so its bits
//! do not depend on the number of threads.
//!
//! - `driver`: the blocking loops that pack the operands and call the microkernel.
//! - `product`: a product to compute, for `driver`, `few_rows` and `outer`.
//! - `packed`: operands packed once and used many times, by depth blocks.
//! - `epilogue`: bias, scale, residual and activation, applied while a tile of C is in the cache.
//! - `few_rows`: dot products for a few rows of A, without packing.
//! - `outer`: products of depth 1.
//! - `batched`: many products of the same shape.
//! - `reduced_precision`: products of 16-bit floating-point operands.
//! - `integers`: products of integer matrices.

mod batched;
mod driver;
mod epilogue;
mod few_rows;
mod integers;
mod outer;
mod packed;
mod product;
mod reduced_precision;
#[cfg(test)]
mod tests;

pub use crate::par::{MatMut, MatRef};
pub use crate::simd::microkernel::GemmElement;
pub use batched::gemm_batched;
pub(crate) use driver::CACHE_WAY_BYTES;
pub use epilogue::{Activation, Bias, Epilogue};
pub use integers::integer_products;
pub use packed::{PackedA, PackedB};
pub(crate) use packed::{depth_blocks, even_blocks};
pub use reduced_precision::{ReducedPrecision, gemm_reduced_precision};

use crate::par;

use product::{Lhs, Product, Rhs};

/// C = `alpha` A B + `beta` C, for A (M, K), B (K, N) and C (M, N). If `beta` is zero, the old contents of C, even NaN, are
/// ignored.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn gemm<T: GemmElement>(alpha: T, a: MatRef<'_, T>, b: MatRef<'_, T>, beta: T, c: MatMut<'_, T>) {
    gemm_fused(alpha, a, b, beta, c, &Epilogue::default());
}

/// Like [`gemm`], followed by bias, residual and activation while the result is in the cache: see [`Epilogue`].
///
/// # Panics
/// Panics if the shapes do not match.
pub fn gemm_fused<T: GemmElement>(
    alpha: T,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    beta: T,
    c: MatMut<'_, T>,
    epilogue: &Epilogue<'_, T>,
) {
    let (kernel, threads) = (T::microkernel(), par::num_threads());
    Product { kernel, alpha, a: Lhs::View(a), b: Rhs::View(b), beta, epilogue, threads }.run(c);
}

/// Like [`gemm_fused`], for a packed A (constant weights on the left, as in a convolution).
///
/// # Panics
/// Panics if the shapes do not match.
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
        a: Lhs::Packed(a),
        b: Rhs::View(b),
        beta,
        epilogue,
        threads: par::num_threads(),
    }
    .run(c);
}

/// Like [`gemm_fused`], for a packed B (constant weights on the right, as in a fully connected layer).
///
/// # Panics
/// Panics if the shapes do not match.
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
        a: Lhs::View(a),
        b: Rhs::Packed(b),
        beta,
        epilogue,
        threads: par::num_threads(),
    }
    .run(c);
}
