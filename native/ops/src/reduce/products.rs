//! The gradient of a product: for each element, the product of the others, even if some elements are 0.

use ferromx_core::dispatch;
use ferromx_core::dtype::{bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::op::OpCtx;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::broadcast::broadcast;
use ferromx_kernels::map::{Arith, Load, Src, Store};
use ferromx_kernels::par::with_scratch;
use ferromx_kernels::reduce::{self, NumericLane, Reducer};
use ferromx_kernels::zip::zip;

use crate::axes::keepdims_shape;
use crate::elemwise::family::NUMERIC;

/// Selects the elements that are factors of a product.
pub(super) trait Factors: 'static {
    /// True if an element is a factor.
    fn is_factor<C: NumericLane>(x: C) -> bool;
}

/// All elements are factors.
pub(super) struct AllFactors;

/// Elements that are NaN are skipped.
pub(super) struct SkipNan;

impl Factors for AllFactors {
    #[inline(always)]
    fn is_factor<C: NumericLane>(_: C) -> bool {
        true
    }
}

impl Factors for SkipNan {
    #[inline(always)]
    fn is_factor<C: NumericLane>(x: C) -> bool {
        !x.not_a_number()
    }
}

/// The product of the nonzero factors.
struct NonZero<F>(std::marker::PhantomData<F>);

impl<F: Factors, C: NumericLane> Reducer<C> for NonZero<F> {
    const IDENTITY: C = C::ONE;
    #[inline(always)]
    fn map(x: C) -> C {
        if x == C::ZERO || !F::is_factor(x) { C::ONE } else { x }
    }
    #[inline(always)]
    fn merge(a: C, b: C) -> C {
        a.times(b)
    }
    #[inline(always)]
    fn finish(x: C, _: C) -> C {
        x
    }
}

/// The number of zeros.
struct Zeros;

impl<C: NumericLane> Reducer<C> for Zeros {
    const IDENTITY: C = C::ZERO;
    #[inline(always)]
    fn map(x: C) -> C {
        if x == C::ZERO { C::ONE } else { C::ZERO }
    }
    #[inline(always)]
    fn merge(a: C, b: C) -> C {
        a.plus(b)
    }
    #[inline(always)]
    fn finish(x: C, _: C) -> C {
        x
    }
}

/// Writes, for each element, the product of the other elements that are reduced with it.
pub(super) fn products_of_others<F: Factors>(
    ctx: &OpCtx<'_>,
    x: &In<'_>,
    axes: &[usize],
    out: &mut Out<'_>,
) -> Result<()> {
    let (shape, reduced_shape) = (out.shape().to_usize(), keepdims_shape(out.shape(), axes));
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        let (x, out) = (x.slice::<T>()?, out.slice_mut::<T>()?);
        other_factors::<F, T, <T as Arith>::Lane>(x, &shape, &reduced_shape, axes, out);
        Ok(())
    }, other => Err(ctx.unsupported(other, NUMERIC)))
}

fn other_factors<F: Factors, T, C: NumericLane>(
    x: &[T],
    shape: &[usize],
    reduced_shape: &[usize],
    axes: &[usize],
    out: &mut [T],
) where
    T: Load<C> + Store<C>,
{
    let num_products = reduced_shape.iter().product();
    with_scratch(num_products, |product: &mut [C]| {
        with_scratch(num_products, |zeros: &mut [C]| {
            reduce::reduce::<NonZero<F>, T, C, C>(x, shape, axes, product);
            reduce::reduce::<Zeros, T, C, C>(x, shape, axes, zeros);
            let has_zeros = zeros.iter().any(|z| *z != C::ZERO);
            // Without zeros, the product of the others is the full product divided by the element.
            with_scratch(num_products, |full_product: &mut [C]| {
                zip(Src::Slice(&*product), Src::Slice(&*zeros), full_product, without_zeros::<C>);
                broadcast(
                    (Src::Slice(x), shape),
                    (Src::Slice(&*full_product), reduced_shape),
                    (&mut *out, shape),
                    quotient::<F, C>,
                );
            });
            // With one zero, only the derivative with respect to it is not 0. With several, all derivatives are 0. A NaN makes all NaN.
            if has_zeros {
                zip(Src::<C>::InPlace, Src::Slice(&*zeros), product, with_one_zero::<C>);
                with_scratch(x.len(), |at_zeros: &mut [C]| {
                    broadcast(
                        (Src::Slice(x), shape),
                        (Src::Slice(&*product), reduced_shape),
                        (&mut *at_zeros, shape),
                        at_zero::<C>,
                    );
                    zip(Src::<T>::InPlace, Src::Slice(&*at_zeros), out, C::plus);
                });
            }
        });
    });
}

#[inline(always)]
fn without_zeros<C: NumericLane>(product: C, zeros: C) -> C {
    if zeros == C::ZERO || product.not_a_number() { product } else { C::ZERO }
}

#[inline(always)]
fn with_one_zero<C: NumericLane>(product: C, zeros: C) -> C {
    if zeros == C::ONE || product.not_a_number() { product } else { C::ZERO }
}

#[inline(always)]
fn quotient<F: Factors, C: NumericLane>(x: C, full_product: C) -> C {
    if x == C::ZERO || !F::is_factor(x) { C::ZERO } else { full_product.over(x) }
}

#[inline(always)]
fn at_zero<C: NumericLane>(x: C, product: C) -> C {
    if x == C::ZERO { product } else { C::ZERO }
}
