//! Products with CSR matrices, and sums over them.

use ferromx_core::memory;
use half::f16;

use super::{Csr, GRAIN};
use crate::par::parallel_rows;

/// Element types of products; half precision is summed in single precision.
pub trait MulAdd: Copy + Default + Send + Sync {
    /// The accumulation type.
    type Sum: Copy + Default + Send + Sync;
    /// `sum + a * b`.
    fn mul_add(sum: Self::Sum, a: Self, b: Self) -> Self::Sum;
    /// One.
    const ONE: Self;
    /// Rounds a sum to the element type.
    fn round(sum: Self::Sum) -> Self;
}

macro_rules! mul_add {
    ($($t:ty, $sum:ty, $one:expr, |$s:ident, $a:ident, $b:ident| $f:expr, $round:expr;)*) => {$(
        impl MulAdd for $t {
            type Sum = $sum;
            const ONE: $t = $one;
            #[inline(always)]
            fn mul_add($s: $sum, $a: $t, $b: $t) -> $sum { $f }
            #[inline(always)]
            fn round(sum: $sum) -> $t { $round(sum) }
        }
    )*};
}

mul_add! {
    f32, f32, 1.0, |s, a, b| s + a * b, std::convert::identity;
    f64, f64, 1.0, |s, a, b| s + a * b, std::convert::identity;
    f16, f32, f16::ONE, |s, a, b| s + a.to_f32() * b.to_f32(), f16::from_f32;
    i32, i32, 1, |s, a, b| s.wrapping_add(a.wrapping_mul(b)), std::convert::identity;
    i64, i64, 1, |s, a, b| s.wrapping_add(a.wrapping_mul(b)), std::convert::identity;
    u8, u8, 1, |s, a, b| s.wrapping_add(a.wrapping_mul(b)), std::convert::identity;
    i8, i8, 1, |s, a, b| s.wrapping_add(a.wrapping_mul(b)), std::convert::identity;
}

/// The product with a dense matrix of `n` columns. Row k of the result is the product of row `row_of(k)` of the sparse matrix: the
/// sum of the rows of `dense` at its column indices, weighted by its values.
pub fn product<T: MulAdd>(m: Csr<'_, T>, dense: &[T], n: usize, out: &mut [T], row_of: impl Fn(usize) -> usize + Sync) {
    if n == 0 {
        return;
    }
    parallel_rows(out, n, m.rows_per_chunk(n), |k, out| {
        let (indices, values) = m.row(row_of(k));
        // The sums of a block of columns stay in the L1 cache while the rows stream by.
        const BLOCK: usize = 256;
        for (block, out) in out.chunks_mut(BLOCK).enumerate() {
            let mut sums = [T::Sum::default(); BLOCK];
            let sums = &mut sums[..out.len()];
            for (i, v) in indices.iter().zip(values) {
                let row = &dense[*i as usize * n + block * BLOCK..][..out.len()];
                sums.iter_mut().zip(row).for_each(|(s, x)| *s = T::mul_add(*s, *v, *x));
            }
            out.iter_mut().zip(sums).for_each(|(out, s)| *out = T::round(*s));
        }
    });
}

/// The product of a dense matrix with `m.rows()` columns and a sparse one with `columns` columns.
pub fn dense_product<T: MulAdd>(dense: &[T], m: Csr<'_, T>, columns: usize, out: &mut [T]) {
    let k = m.rows();
    let grain = (GRAIN / (m.indices.len() + columns).max(1)).max(1);
    parallel_rows(out, columns, grain, |i, out| {
        let mut sums = memory::filled(T::Sum::default(), out.len());
        for (r, x) in dense[i * k..(i + 1) * k].iter().enumerate() {
            let (indices, values) = m.row(r);
            for (c, v) in indices.iter().zip(values) {
                let sum = &mut sums[*c as usize];
                *sum = T::mul_add(*sum, *x, *v);
            }
        }
        out.iter_mut().zip(sums).for_each(|(out, s)| *out = T::round(s));
    });
}

/// The sum of each row.
pub fn row_sums<T: MulAdd>(m: Csr<'_, T>, out: &mut [T]) {
    parallel_rows(out, 1, m.rows_per_chunk(1), |r, out| {
        out[0] = T::round(m.row(r).1.iter().fold(T::Sum::default(), |s, v| T::mul_add(s, *v, T::ONE)));
    });
}

/// The sum of each column.
pub fn column_sums<T: MulAdd>(m: Csr<'_, T>, out: &mut [T]) {
    let mut sums = memory::filled(T::Sum::default(), out.len());
    for (c, v) in m.indices.iter().zip(m.data) {
        let sum = &mut sums[*c as usize];
        *sum = T::mul_add(*sum, *v, T::ONE);
    }
    out.iter_mut().zip(sums).for_each(|(out, s)| *out = T::round(s));
}
