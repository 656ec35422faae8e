//! Sums, means, products, maxima and minima over axes.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Compose, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, OpDef};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure};
use ferromx_kernels::broadcast::broadcast;
use ferromx_kernels::map::{Arith, Load, Src, Store};
use ferromx_kernels::par::with_scratch;
use ferromx_kernels::reduce::{self, Max, Mean, Min, NanProd, NanSum, NumericLane, Prod, Reducer, Sum, SumSquares};
use ferromx_kernels::zip::zip;

use super::axes::{Axes, ReduceParam, Spread, kept, reduce_shape, resolve, spread, spread_scalar, times_spread};
use crate::elemwise::family::{Graph, NUMERIC, formula};
use crate::elemwise::formulas::{Div, Equal, Mul};

/// The operators of this file.
pub(crate) static OPS: &[&OpDef] = &[&SUM, &MEAN, &PROD, &NANSUM, &NANPROD, &MAX, &MIN, &SQUARE_SUM];

/// Defines a reduction with [`ReduceParam`] from a [`Reducer`], the kernel of its gradient, the forward operands that it reads, and the
/// same gradient composed of operators. `sums_csr` before the name declares the form for csr matrices.
macro_rules! reduce_op {
    (sums_csr $($operator:tt)+) => {
        reduce_op!(@def [.sparse(crate::sparse::reduce_rule, crate::sparse::reduce)] $($operator)+);
    };
    (@def [$($sparse:tt)*] $name:ident: $op:literal $([$($alias:literal),+])?, $doc:literal, $R:ident, $backward:expr,
     $inputs:expr, $outputs:expr,
     graph = |$s:ident| $graph:expr) => {
        pub(crate) static $name: OpDef = {
            const COMPOSE: Compose = |graph, n| {
                let mut graph = Graph(graph);
                let mut spread = Spread::new(&mut graph, $op, n)?;
                let $s = &mut spread;
                let gradient = { $graph }?;
                Ok(vec![Some(gradient)])
            };
            OpDef::new($op)
                $(.aliases(&[$($alias),+]))?
                .doc(concat!($doc, " A result of one element has shape (1)."))
                .params::<ReduceParam>()
                .shape(shape_of::<$R>)
                .forward(forward::<$R>)
                .grad(Grad::Kernel(Backward::new($backward).inputs($inputs).outputs($outputs), Some(COMPOSE)))
                $($sparse)*
        };
    };
    ($name:ident: $($operator:tt)+) => { reduce_op!(@def [] $name: $($operator)+); };
}

reduce_op!(sums_csr SUM: "sum" ["_sparse_sum", "sum_axis"], "The sum of the elements over axes. Integers wrap around.",
    Sum, sum_backward, Deps::None, Deps::None, graph = |s| s.grad());
reduce_op!(sums_csr MEAN: "mean" ["_sparse_mean"], "The arithmetic mean of the elements over axes; truncated for integers.",
Mean, mean_backward, Deps::None, Deps::None, graph = |s| {
    let ones = s.g.op("ones_like", s.x)?;
    let count = s.again("sum", ones)?;
    let share = s.g.op2("broadcast_div", s.grad, count)?;
    s.g.op2("broadcast_like", share, s.x)
});
reduce_op!(PROD: "prod", "The product of the elements over axes. Integers wrap around.",
Prod, prod_backward::<AllFactors>, Deps::All, Deps::None, graph = |s| {
    let d = s.g.op2("broadcast_mul", s.grad, s.y)?;
    let d = s.g.op2("broadcast_like", d, s.x)?;
    s.g.div(d, s.x)
});
reduce_op!(NANSUM: "nansum", "The sum over axes of the elements that are not NaN.",
NanSum, nansum_backward, Deps::All, Deps::None, graph = |s| {
    let number = s.g.op2("_equal", s.x, s.x)?;
    s.g.op2("broadcast_mul", number, s.grad)
});
reduce_op!(NANPROD: "nanprod", "The product over axes of the elements that are not NaN.",
NanProd, prod_backward::<SkipNan>, Deps::All, Deps::None, graph = |s| {
    let d = s.g.op2("broadcast_mul", s.grad, s.y)?;
    let d = s.g.op2("broadcast_like", d, s.x)?;
    let d = s.g.div(d, s.x)?;
    let number = s.g.op2("_equal", s.x, s.x)?;
    let zeros = s.g.op("zeros_like", d)?;
    s.g.0.apply1("where", &[number, d, zeros], &[])
});
reduce_op!(MAX: "max" ["max_axis"],
"The largest element over axes, NaN if there is one. Each element that equals it gets the whole gradient.",
Max, extreme_backward, Deps::All, Deps::All, graph = |s| {
    let hit = s.g.op2("broadcast_equal", s.x, s.y)?;
    s.g.op2("broadcast_mul", hit, s.grad)
});
reduce_op!(MIN: "min" ["min_axis"],
"The smallest element over axes, NaN if there is one. Each element that equals it gets the whole gradient.",
Min, extreme_backward, Deps::All, Deps::All, graph = |s| {
    let hit = s.g.op2("broadcast_equal", s.x, s.y)?;
    s.g.op2("broadcast_mul", hit, s.grad)
});

pub(crate) static SQUARE_SUM: OpDef = {
    const COMPOSE: Compose = |graph, n| {
        let mut graph = Graph(graph);
        let mut spread = Spread::new(&mut graph, "_square_sum", n)?;
        let (grad, x) = (spread.grad()?, spread.x);
        let product = graph.mul(grad, x)?;
        Ok(vec![Some(graph.scale(product, 2.0)?)])
    };
    OpDef::new("_square_sum")
        .doc("The sum of the squares of the elements over axes. A result of one element has shape (1).")
        .params::<ReduceParam>()
        .shape(shape_of::<SumSquares>)
        .forward(forward::<SumSquares>)
        .sparse(crate::sparse::row_reduce_rule, crate::sparse::on_rows)
        .grad(Grad::Compose(COMPOSE))
};

/// A reducer for every lane type.
pub(crate) trait AnyLane: Reducer<f32> + Reducer<f64> + Reducer<i32> + Reducer<i64> {
    /// Whether an empty reduction has a result.
    const OF_NOTHING: bool = true;
}
impl AnyLane for Sum {}
impl AnyLane for Mean {}
impl AnyLane for Prod {}
impl AnyLane for NanSum {}
impl AnyLane for SumSquares {}
impl AnyLane for NanProd {}
impl AnyLane for Max {
    const OF_NOTHING: bool = false;
}
impl AnyLane for Min {
    const OF_NOTHING: bool = false;
}

fn shape_of<R: AnyLane>(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    ensure!(
        R::OF_NOTHING || !io.ins[0].dims().contains(&0),
        "an array of shape {} has no elements, so it has no maximum or minimum",
        io.ins[0]
    );
    reduce_shape(p, io)
}

fn forward<R: AnyLane>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (x, out) = (&ins[0], &mut outs[0]);
    let shape = x.shape().to_usize();
    let axes = axes_of(ctx, x.shape())?;
    if x.dtype() == DType::Bool {
        // Compares the result with 0 before the mean is truncated.
        reduce::reduce::<R, bool, bool, f32>(x.slice()?, &shape, &axes, out.slice_mut()?);
        return Ok(());
    }
    dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        reduce::reduce::<R, T, T, <T as Arith>::Lane>(x.slice()?, &shape, &axes, out.slice_mut()?);
        Ok(())
    }, other => Err(ctx.unsupported(other, &DType::ALL)))
}

fn axes_of(ctx: &OpCtx<'_>, shape: &Shape) -> Result<Axes> {
    let p = ctx.params::<ReduceParam>();
    resolve(&p.axis, p.exclude, shape.dims().len())
}

formula!(Binary First = |x, _nothing| x, int |x, _nothing| x);
formula!(Binary IsNumber = |x, _y| if x.is_nan() { 0.0 } else { 1.0 }, int |_x, _y| 1);

fn sum_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let axes = axes_of(ctx, outs[0].shape())?;
    spread_scalar::<First>(ctx, &ins[0], 0.0, &axes, &mut outs[0])
}

fn mean_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let axes = axes_of(ctx, outs[0].shape())?;
    let shape = outs[0].shape().to_usize();
    let count: usize = axes.iter().map(|a| shape[*a]).product();
    // The count may overflow float16; its reciprocal does not.
    match outs[0].dtype().is_float() {
        true => spread_scalar::<Mul>(ctx, &ins[0], 1.0 / count.max(1) as f64, &axes, &mut outs[0]),
        false => spread_scalar::<Div>(ctx, &ins[0], count as f64, &axes, &mut outs[0]),
    }
}

fn nansum_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let axes = axes_of(ctx, outs[0].shape())?;
    spread::<IsNumber>(ctx, &ins[1], &ins[0], &axes, &mut outs[0])?;
    times_spread(ctx, &ins[0], &axes, &mut outs[0])
}

fn extreme_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let axes = axes_of(ctx, outs[0].shape())?;
    spread::<Equal>(ctx, &ins[1], &ins[2], &axes, &mut outs[0])?;
    times_spread(ctx, &ins[0], &axes, &mut outs[0])
}

/// Selects the elements that are factors of a product.
pub(crate) trait Factors: 'static {
    /// True if an element is a factor.
    fn is_factor<C: NumericLane>(x: C) -> bool;
}

/// All elements are factors.
pub(crate) struct AllFactors;
/// Elements that are NaN are skipped.
struct SkipNan;

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

/// The derivative with respect to each factor is the product of the others, even if factors are 0.
fn prod_backward<F: Factors>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let axes = axes_of(ctx, outs[0].shape())?;
    products_of_others::<F>(ctx, &ins[1], &axes, &mut outs[0])?;
    times_spread(ctx, &ins[0], &axes, &mut outs[0])
}

/// For each element, the product of the other elements of its reduction.
pub(crate) fn products_of_others<F: Factors>(
    ctx: &OpCtx<'_>,
    x: &In<'_>,
    axes: &[usize],
    out: &mut Out<'_>,
) -> Result<()> {
    let (shape, small) = (out.shape().to_usize(), kept(out.shape(), axes));
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        let (x, out) = (x.slice::<T>()?, out.slice_mut::<T>()?);
        other_factors::<F, T, <T as Arith>::Lane>(x, &shape, &small, axes, out);
        Ok(())
    }, other => Err(ctx.unsupported(other, NUMERIC)))
}

fn other_factors<F: Factors, T, C: NumericLane>(
    x: &[T],
    shape: &[usize],
    small: &[usize],
    axes: &[usize],
    out: &mut [T],
) where
    T: Load<C> + Store<C>,
{
    let groups = small.iter().product();
    with_scratch(groups, |product: &mut [C]| {
        with_scratch(groups, |zeros: &mut [C]| {
            reduce::reduce::<NonZero<F>, T, C, C>(x, shape, axes, product);
            reduce::reduce::<Zeros, T, C, C>(x, shape, axes, zeros);
            let any_zero = zeros.iter().any(|z| *z != C::ZERO);
            // Without zeros, the product of the others is the whole product divided by the element.
            with_scratch(groups, |whole: &mut [C]| {
                zip(Src::Slice(&*product), Src::Slice(&*zeros), whole, without_zeros::<C>);
                broadcast((Src::Slice(x), shape), (Src::Slice(&*whole), small), (&mut *out, shape), quotient::<F, C>);
            });
            if any_zero {
                zip(Src::<C>::InPlace, Src::Slice(&*zeros), product, with_one_zero::<C>);
                with_scratch(x.len(), |at_zeros: &mut [C]| {
                    broadcast(
                        (Src::Slice(x), shape),
                        (Src::Slice(&*product), small),
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
    if zeros == C::ZERO { product } else { C::ZERO }
}

#[inline(always)]
fn with_one_zero<C: NumericLane>(product: C, zeros: C) -> C {
    if zeros == C::ONE { product } else { C::ZERO }
}

#[inline(always)]
fn quotient<F: Factors, C: NumericLane>(x: C, whole: C) -> C {
    if x == C::ZERO || !F::is_factor(x) { C::ZERO } else { whole.over(x) }
}

#[inline(always)]
fn at_zero<C: NumericLane>(x: C, product: C) -> C {
    if x == C::ZERO { product } else { C::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close, vector};

    const AXES: &[&[(&str, &str)]] = &[
        &[],
        &[("axis", "1")],
        &[("axis", "(0, 2)")],
        &[("axis", "-1"), ("keepdims", "True")],
        &[("axis", "1"), ("exclude", "True")],
        &[("axis", "(0, 1, 2)"), ("exclude", "True")],
    ];

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x: Vec<f64> = (0..24).map(|i| 0.5 + ((i * 7) % 24) as f64 / 16.0).collect();
        for def in OPS {
            for attrs in AXES {
                Case::new(def, attrs).check_gradient(&[array(&x, &[2, 3, 4])]);
            }
        }
    }

    #[test]
    fn shapes_follow_mxnet() {
        let shape = |attrs: &[(&str, &str)]| Case::new(&SUM, attrs).shapes(&[[2, 3, 4].into()]).unwrap()[0].clone();
        let want: [&[i64]; 6] = [&[1], &[2, 4], &[3], &[2, 3, 1], &[3], &[2, 3, 4]];
        for (attrs, want) in AXES.iter().zip(want) {
            assert_eq!(shape(attrs), Shape::new(want), "{attrs:?}");
        }
        assert_eq!(shape(&[("keepdims", "True")]), [1, 1, 1].into());
        for def in [&MAX, &MIN] {
            let error = Case::new(def, &[("axis", "0")]).shapes(&[[2, 0].into()]).unwrap_err().to_string();
            assert!(error.contains("shape [2,0] has no elements"), "{error}");
        }
        assert_eq!(Case::new(&SUM, &[("axis", "0")]).shapes(&[[-1, 3].into()]).unwrap(), [Shape::new(&[3])]);
    }

    #[test]
    fn all_types_are_reduced() {
        let want = [
            ("sum", [7.0, 14.0]),
            ("mean", [7.0 / 3.0, 14.0 / 3.0]),
            ("prod", [9.0, 0.0]),
            ("max", [3.0, 7.0]),
            ("min", [1.0, 0.0]),
        ];
        for def in OPS {
            for dtype in DType::ALL {
                let x = vector(dtype, &[1.0, 3.0, 3.0, 7.0, 0.0, 7.0]).reshape(&[2, 3].into()).unwrap();
                let y = Case::new(def, &[("axis", "1")]).run1(&[x]).unwrap();
                assert_eq!(y.dtype(), dtype);
                let Some((_, want)) = want.iter().find(|(name, _)| *name == def.name) else { continue };
                let want = want.map(|w| match dtype {
                    DType::Bool => f64::from(w != 0.0),
                    d if d.is_float() => w,
                    _ => w.trunc(),
                });
                close(&y.to_vec_as::<f64>().unwrap(), &want, if dtype == DType::F64 { 0.0 } else { 1e-2 });
            }
        }
    }

    #[test]
    fn ties_share_the_gradient_and_zero_factors_get_theirs() {
        let grad = |def, x: &[f64]| {
            let x = vector(DType::F64, x).reshape(&[2, 3].into()).unwrap();
            let g = Case::new(def, &[("axis", "1")]).backward(&[x], &[array(&[1f64, 2.0], &[2])]).unwrap();
            g[0].to_vec::<f64>().unwrap()
        };
        let x = [1.0, 3.0, 3.0, 7.0, 0.0, 7.0];
        assert_eq!(grad(&MAX, &x), [0.0, 1.0, 1.0, 2.0, 0.0, 2.0]);
        assert_eq!(grad(&MIN, &x), [1.0, 0.0, 0.0, 0.0, 2.0, 0.0]);
        assert_eq!(grad(&PROD, &x), [9.0, 3.0, 3.0, 0.0, 98.0, 0.0]);
        assert_eq!(grad(&PROD, &[0.0, 0.0, 3.0, 2.0, 2.0, 2.0]), [0.0, 0.0, 0.0, 8.0, 8.0, 8.0]);
        let nan = f64::NAN;
        assert_eq!(grad(&NANSUM, &[1.0, nan, 3.0, nan, nan, nan]), [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        assert_eq!(grad(&NANPROD, &[2.0, nan, 3.0, nan, nan, nan]), [3.0, 0.0, 2.0, 0.0, 0.0, 0.0]);
    }
}
