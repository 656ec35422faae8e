//! Matrix products for every floating-point element type.

use std::convert::Infallible;

use ferromx_core::dtype::{bf16, f16};
use ferromx_core::op::Cache;
use ferromx_core::storage::{Out, Req};
use ferromx_kernels::float::FloatElement;
use ferromx_kernels::gemm::{
    Bias, Epilogue, MatMut, MatRef, PackedB, gemm_batched, gemm_fused, gemm_packed_b, gemm_reduced_precision,
};
use ferromx_kernels::par::with_scratch;

use crate::packed::{Packed, Version};

/// An element type of matrix products.
pub(crate) trait MatrixElement: FloatElement {
    /// C = A B + `beta` C, plus one value of `bias` for each column.
    fn product(a: MatRef<'_, Self>, b: MatRef<'_, Self>, beta: f32, bias: Option<&[Self]>, c: MatMut<'_, Self>);

    /// Batched product C_i = A_i B_i: `c` holds consecutive (m, n) matrices, `a(i)` and `b(i)` give the operands.
    fn products<'a>(
        a: impl Fn(usize) -> MatRef<'a, Self> + Sync,
        b: impl Fn(usize) -> MatRef<'a, Self> + Sync,
        c: &mut [Self],
        (m, n): (usize, usize),
    ) {
        for (i, c) in c.chunks_exact_mut(m * n).enumerate() {
            Self::product(a(i), b(i), 0.0, None, MatMut::row_major(c, m, n));
        }
    }

    /// C = A B plus one value of `bias` for each column, for a B that rarely changes, such as weights in inference. The packed B is kept in
    /// `cache` and reused while `version` stays the same.
    fn product_with_constant(
        _cache: &Cache,
        _version: Version,
        a: MatRef<'_, Self>,
        b: MatRef<'_, Self>,
        bias: Option<&[Self]>,
        c: MatMut<'_, Self>,
    ) {
        Self::product(a, b, 0.0, bias, c);
    }
}

/// Rows, columns and strides of a packed operand.
type Layout = [usize; 4];

/// With fewer rows the product is bound by reading B, and packing does not help.
const MIN_PACKED_ROWS: usize = 4;

/// An element type whose products support every epilogue, because they are computed without conversion.
pub(crate) trait EpilogueElement: MatrixElement {
    /// C = A B followed by `epilogue`. `constant` is the cache and the version of a B that rarely changes: see
    /// [`MatrixElement::product_with_constant`].
    fn product_with_epilogue(
        constant: Option<(&Cache, Version)>,
        a: MatRef<'_, Self>,
        b: MatRef<'_, Self>,
        epilogue: &Epilogue<'_, Self>,
        c: MatMut<'_, Self>,
    );
}

macro_rules! full_precision {
    ($($t:ty)*) => {$(
        impl EpilogueElement for $t {
            fn product_with_epilogue(
                constant: Option<(&Cache, Version)>,
                a: MatRef<'_, Self>,
                b: MatRef<'_, Self>,
                epilogue: &Epilogue<'_, Self>,
                c: MatMut<'_, Self>,
            ) {
                let Some((cache, version)) = constant.filter(|_| a.rows() >= MIN_PACKED_ROWS) else {
                    return gemm_fused(1.0, a, b, 0.0, c, epilogue);
                };
                let layout = [b.rows(), b.cols(), b.row_stride(), b.col_stride()];
                let pack = |old: Option<PackedB<$t>>| match old {
                    Some(mut operand) => {
                        operand.pack(b);
                        Ok::<_, Infallible>(operand)
                    }
                    None => Ok(PackedB::new(b)),
                };
                let Ok(operand) = cache.with(|packed: &mut Packed<Layout, PackedB<$t>>| packed.get(version, layout, pack));
                gemm_packed_b(1.0, a, &operand, 0.0, c, epilogue);
            }
        }

        impl MatrixElement for $t {
            fn product(a: MatRef<'_, Self>, b: MatRef<'_, Self>, beta: f32, bias: Option<&[Self]>, c: MatMut<'_, Self>) {
                let bias = bias.map_or(Bias::None, Bias::PerCol);
                gemm_fused(1.0, a, b, beta.into(), c, &Epilogue { bias, ..Epilogue::default() });
            }

            fn products<'a>(
                a: impl Fn(usize) -> MatRef<'a, Self> + Sync,
                b: impl Fn(usize) -> MatRef<'a, Self> + Sync,
                c: &mut [Self],
                shape: (usize, usize),
            ) {
                gemm_batched(1.0, a, b, 0.0, c, shape);
            }

            fn product_with_constant(
                cache: &Cache,
                version: Version,
                a: MatRef<'_, Self>,
                b: MatRef<'_, Self>,
                bias: Option<&[Self]>,
                c: MatMut<'_, Self>,
            ) {
                let bias = bias.map_or(Bias::None, Bias::PerCol);
                Self::product_with_epilogue(Some((cache, version)), a, b, &Epilogue { bias, ..Epilogue::default() }, c);
            }
        }
    )*};
}
full_precision!(f32 f64);

macro_rules! half_precision {
    ($($t:ty)*) => {$(
        impl MatrixElement for $t {
            fn product(a: MatRef<'_, Self>, b: MatRef<'_, Self>, beta: f32, bias: Option<&[Self]>, c: MatMut<'_, Self>) {
                with_scratch(bias.map_or(0, <[Self]>::len), |wide: &mut [f32]| {
                    wide.iter_mut().zip(bias.unwrap_or(&[])).for_each(|(w, b)| *w = b.to_f32());
                    let bias = if bias.is_some() { Bias::PerCol(wide) } else { Bias::None };
                    gemm_reduced_precision(1.0, a, b, beta, c, &Epilogue { bias, ..Epilogue::default() });
                });
            }
        }
    )*};
}
half_precision!(f16 bf16);

/// BLAS's beta, the scale of the output's old contents: 1 for `Req::Add`, otherwise 0.
pub(crate) fn beta(out: &Out<'_>) -> f32 {
    if out.req() == Req::Add { 1.0 } else { 0.0 }
}

/// Matrix `i` of a batch of (rows, cols) matrices.
pub(crate) fn batch_matrix<T: Copy>(data: &[T], i: usize, (rows, cols): (usize, usize)) -> MatRef<'_, T> {
    MatRef::row_major(&data[i * rows * cols..][..rows * cols], rows, cols)
}
