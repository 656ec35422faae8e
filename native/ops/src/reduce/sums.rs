//! Sums, means, products, maxima and minima over axes.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Compose, Entry, Grad, GradGraph, GradNode};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params::{Params, ShapeOrNone, SumDType};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::broadcast::broadcast_any;
use ferromx_kernels::map::{Arith, Elements, ElementsMut};
use ferromx_kernels::movement;
use ferromx_kernels::par::with_scratch;
use ferromx_kernels::reduce::{self, Max, Mean, Min, NanProd, NanSum, NumericLane, Prod, Reducer, Sum, SumSquares};

use super::family::{
    OverAxes, ReduceParam, ReductionGradient, broadcast_args, broadcast_binary, broadcast_scalar, multiply_broadcast,
    numpy_reduced_shape, over_axes, reduce_shape,
};
use super::products::{AllFactors, Factors, SkipNan, products_of_others};
use crate::axes::{Axes, keepdims_shape, numpy_axes, resolve_or_exclude};
use crate::compose::{Graph, op};
use crate::elemwise::family::{
    Arg, Loops, apply_two, broadcast_loops, elements, elements_mut, formula, operators, with_scalar,
};
use crate::elemwise::formulas::{Div, Equal, Mul};
use crate::movement::{by_size, source, target};
use crate::rules::no_gradient;

/// Defines a reduction with [`ReduceParam`] from a [`Reducer`], the kernel of its gradient with the inputs and outputs that it reads, and
/// the same gradient composed of operators. `sums_csr` after the name adds the kernel for csr matrices.
macro_rules! reduce_op {
    ($name:ident sums_csr: $($operator:tt)+) => {
        reduce_op!(@def [.sparse(super::sparse::reduce_rule, super::sparse::reduce)] $name: $($operator)+);
    };
    (@def [$($sparse:tt)*] $name:ident: $op:literal $([$($alias:literal),+])?, $doc:literal, $R:ident, $backward:expr,
     $inputs:expr, $outputs:expr,
     graph = |$s:ident| $graph:expr) => {
        pub(crate) static $name: Operator<ReduceParam> = {
            const COMPOSE: Compose = |graph, n| {
                let mut graph = Graph(graph);
                let params = ReduceParam { keepdims: true, ..n.params.get::<ReduceParam>().clone() };
                let mut reduction = ReductionGradient::new(&mut graph, &$name, params, n)?;
                let $s = &mut reduction;
                let gradient = { $graph }?;
                Ok(vec![Some(gradient)])
            };
            Operator::new($op)
                $(.aliases(&[$($alias),+]))?
                .doc(concat!($doc, " A result of one element has shape (1)."))
                .shape(infer_shape::<$R>)
                .forward(forward::<$R>)
                .grad(Grad::Kernel(Backward::new($backward).inputs($inputs).outputs($outputs), Some(COMPOSE)))
                $($sparse)*
        };
    };
    ($name:ident: $($operator:tt)+) => { reduce_op!(@def [] $name: $($operator)+); };
}

/// Defines the maximum or the minimum by NumPy's rules.
macro_rules! extremum {
    ($name:ident: $op:literal [$alias:literal], $doc:literal, $R:ident) => {
        pub(crate) static $name: Operator<ExtremumParam> = Operator::new($op)
            .aliases(&[$alias])
            .doc(concat!($doc, " Each element that equals it gets the whole gradient."))
            .inputs(A)
            .shape(extremum_shape)
            .forward(|ctx, ins, outs| {
                reduce_any::<$R>(&ins[0], &numpy_axes_of::<ExtremumParam>(ctx, ins[0].shape())?, &mut outs[0])
            })
            .grad(Grad::Kernel(Backward::new(np_extremum_backward).inputs(Deps::All).outputs(Deps::All), None));
    };
}

operators! { OPS [SQUARE_SUM, NP_SUM, NP_PROD, NP_MEAN] =
    reduce_op!(SUM sums_csr: "sum" ["_sparse_sum", "sum_axis"], "The sum of the elements over axes. Integers wrap around.",
        Sum, sum_backward, Deps::None, Deps::None, graph = |s| s.grad());
    reduce_op!(MEAN sums_csr: "mean" ["_sparse_mean"], "The arithmetic mean of the elements over axes; truncated for integers.",
        Mean, mean_backward, Deps::None, Deps::None, graph = |s| {
            let ones = s.g.op(op!(elemwise::identity::ONES_LIKE(s.x)))?;
            let count = s.g.op(op!(SUM(ones), ..&s.params))?;
            let grad = s.g.op(op!(broadcast::binary::DIV(s.grad, count)))?;
            s.g.op(op!(broadcast::expand::BROADCAST_LIKE(grad, s.x)))
        });
    reduce_op!(PROD: "prod", "The product of the elements over axes. Integers wrap around.",
        Prod, prod_backward::<AllFactors>, Deps::All, Deps::None, graph = |s| {
            let d = s.g.op(op!(broadcast::binary::MUL(s.grad, s.y)))?;
            let d = s.g.op(op!(broadcast::expand::BROADCAST_LIKE(d, s.x)))?;
            s.g.div(d, s.x)
        });
    reduce_op!(NANSUM: "nansum", "The sum over axes of the elements that are not NaN.",
        NanSum, nansum_backward, Deps::All, Deps::None, graph = |s| {
            let is_not_nan = s.g.op(op!(elemwise::binary::EQUAL(s.x, s.x)))?;
            s.g.op(op!(broadcast::binary::MUL(is_not_nan, s.grad)))
        });
    reduce_op!(NANPROD: "nanprod", "The product over axes of the elements that are not NaN.",
        NanProd, prod_backward::<SkipNan>, Deps::All, Deps::None, graph = |s| {
            let d = s.g.op(op!(broadcast::binary::MUL(s.grad, s.y)))?;
            let d = s.g.op(op!(broadcast::expand::BROADCAST_LIKE(d, s.x)))?;
            let d = s.g.div(d, s.x)?;
            let is_not_nan = s.g.op(op!(elemwise::binary::EQUAL(s.x, s.x)))?;
            let zeros = s.g.op(op!(elemwise::identity::ZEROS_LIKE(d)))?;
            s.g.op(op!(broadcast::select::WHERE(is_not_nan, d, zeros)))
        });
    reduce_op!(MAX: "max" ["max_axis"],
        "The largest element over axes, NaN if there is one. Each element that equals it gets the whole gradient.",
        Max, extremum_backward, Deps::All, Deps::All, graph = |s| {
            let is_extremum = s.g.op(op!(broadcast::binary::EQUAL(s.x, s.y)))?;
            s.g.op(op!(broadcast::binary::MUL(is_extremum, s.grad)))
        });
    reduce_op!(MIN: "min" ["min_axis"],
        "The smallest element over axes, NaN if there is one. Each element that equals it gets the whole gradient.",
        Min, extremum_backward, Deps::All, Deps::All, graph = |s| {
            let is_extremum = s.g.op(op!(broadcast::binary::EQUAL(s.x, s.y)))?;
            s.g.op(op!(broadcast::binary::MUL(is_extremum, s.grad)))
        });
    extremum!(NP_MAX: "_np_max" ["_np_amax"], "The largest element over axes, NaN if there is one.", Max);
    extremum!(NP_MIN: "_np_min" ["_np_amin"], "The smallest element over axes, NaN if there is one.", Min);
}

pub(crate) static SQUARE_SUM: Operator<ReduceParam> = {
    const COMPOSE: Compose = |graph, n| {
        let mut graph = Graph(graph);
        let params = ReduceParam { keepdims: true, ..n.params.get::<ReduceParam>().clone() };
        let mut reduction = ReductionGradient::new(&mut graph, &SQUARE_SUM, params, n)?;
        let (grad, x) = (reduction.grad()?, reduction.x);
        let product = graph.mul(grad, x)?;
        Ok(vec![Some(graph.scale(product, 2.0)?)])
    };
    Operator::new("_square_sum")
        .doc("The sum of the squares of the elements over axes. A result of one element has shape (1).")
        .shape(infer_shape::<SumSquares>)
        .forward(forward::<SumSquares>)
        .sparse(super::sparse::row_reduce_rule, super::sparse::on_rows)
        .grad(Grad::Kernel(
            Backward::new(square_sum_backward)
                .inputs(Deps::All)
                .sparse(super::sparse::square_sum_backward_rule, super::sparse::square_sum_backward),
            Some(COMPOSE),
        ))
};

fn square_sum_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let axes = axes_of(ctx, outs[0].shape())?;
    with_scalar::<Mul>(ctx, &ins[1], 2.0, &mut outs[0])?;
    multiply_broadcast(ctx, &ins[0], &axes, &mut outs[0])
}

/// A reducer that is defined for every lane type.
pub(crate) trait AnyLane: Reducer<f32> + Reducer<f64> + Reducer<i32> + Reducer<i64> {
    /// Whether a reduction of no elements has a result.
    const ALLOWS_EMPTY: bool = true;
}

impl AnyLane for Sum {}

impl AnyLane for Mean {}

impl AnyLane for Prod {}

impl AnyLane for NanSum {}

impl AnyLane for SumSquares {}

impl AnyLane for NanProd {}

impl AnyLane for Max {
    const ALLOWS_EMPTY: bool = false;
}

impl AnyLane for Min {
    const ALLOWS_EMPTY: bool = false;
}

fn infer_shape<R: AnyLane>(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    ensure!(
        R::ALLOWS_EMPTY || !io.ins[0].dims().contains(&0),
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
        // The result is compared with 0 in float32, because a mean below 1 would be truncated to false.
        reduce::reduce::<R, bool, bool, f32>(x.slice()?, &shape, &axes, out.slice_mut()?);
        return Ok(());
    }
    dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        reduce::reduce::<R, T, T, <T as Arith>::Lane>(x.slice()?, &shape, &axes, out.slice_mut()?);
        Ok(())
    }, other => Err(ctx.unsupported(other, &DType::ALL)))
}

/// The axes to reduce by the rules of MXNet's older operators.
fn axes_of(ctx: &OpCtx<'_>, shape: &Shape) -> Result<Axes> {
    let p = ctx.params::<ReduceParam>();
    resolve_or_exclude(&p.axis, p.exclude, shape.dims().len())
}

formula!(Binary First = |x, _nothing| x, int |x, _nothing| x);
formula!(Binary IsNotNan = |x, _y| if x.is_nan() { 0.0 } else { 1.0 }, int |_x, _y| 1);

fn sum_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let axes = axes_of(ctx, outs[0].shape())?;
    let (shape, reduced_shape) = (outs[0].shape().to_usize(), keepdims_shape(outs[0].shape(), &axes));
    if ins[0].dtype() == outs[0].dtype() {
        return by_size!(ins[0].dtype(), T => {
            movement::broadcast_to(source::<T>(&ins[0])?, &reduced_shape, (target::<T>(&mut outs[0])?, &shape));
            Ok(())
        });
    }
    if outs[0].dtype() == DType::Bool {
        let operands = [(Arg::Elements(elements(&ins[0])?), &reduced_shape[..]), (Arg::Number(0.0), &[][..])];
        let out = (elements_mut(&mut outs[0])?, &shape[..]);
        return broadcast_loops(ctx, const { &Loops::binary::<First>() }, DType::I32, operands, out);
    }
    broadcast_scalar::<First>(ctx, &ins[0], 0.0, &axes, &mut outs[0])
}

fn mean_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let axes = axes_of(ctx, outs[0].shape())?;
    let shape = outs[0].shape().to_usize();
    let count: usize = axes.iter().map(|a| shape[*a]).product();
    // The count may overflow float16; its reciprocal does not.
    match outs[0].dtype().is_float() {
        true => broadcast_scalar::<Mul>(ctx, &ins[0], 1.0 / count.max(1) as f64, &axes, &mut outs[0]),
        false => broadcast_scalar::<Div>(ctx, &ins[0], count as f64, &axes, &mut outs[0]),
    }
}

fn nansum_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let axes = axes_of(ctx, outs[0].shape())?;
    broadcast_binary::<IsNotNan>(ctx, &ins[1], &ins[0], &axes, &mut outs[0])?;
    multiply_broadcast(ctx, &ins[0], &axes, &mut outs[0])
}

fn extremum_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let axes = axes_of(ctx, outs[0].shape())?;
    broadcast_binary::<Equal>(ctx, &ins[1], &ins[2], &axes, &mut outs[0])?;
    multiply_broadcast(ctx, &ins[0], &axes, &mut outs[0])
}

/// The derivative with respect to an element is the product of the others, even if some are 0.
fn prod_backward<F: Factors>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let axes = axes_of(ctx, outs[0].shape())?;
    products_of_others::<F>(ctx, &ins[1], &axes, &mut outs[0])?;
    multiply_broadcast(ctx, &ins[0], &axes, &mut outs[0])
}

const A: &[ArgDef] = &[arg("a", "The array.")];

params! {
    /// Parameters of `_np_sum`, `_np_prod` and `_npi_mean`.
    pub struct SumParam {
        /// The axes to reduce; negative ones count from the last. None means all of them, () none.
        axis: ShapeOrNone = (ShapeOrNone(None));
        /// The type of the result; by default the type of the array, but int64 for the sum of booleans.
        dtype: Option<SumDType> = None;
        /// Whether reduced axes are kept with length 1.
        keepdims: bool = false;
        /// Not supported.
        initial: Option<f64> = None;
    }
}

params! {
    /// Parameters of `_np_max` and `_np_min`.
    pub struct ExtremumParam {
        /// The axes to reduce; negative ones count from the last. None means all of them, () none.
        axis: ShapeOrNone = (ShapeOrNone(None));
        /// Whether reduced axes are kept with length 1.
        keepdims: bool = false;
        /// Not supported.
        initial: Option<f64> = None;
    }
}

over_axes!(SumParam, initial);
over_axes!(ExtremumParam, initial);

/// The axes to reduce by NumPy's rules.
pub(super) fn numpy_axes_of<P: OverAxes>(ctx: &OpCtx<'_>, shape: &Shape) -> Result<Axes> {
    numpy_axes(ctx.params::<P>().axis(), shape.dims().len())
}

pub(super) static NP_SUM: Operator<SumParam> = Operator::new("_np_sum")
    .doc("The sum of the elements over axes. Integers wrap around.")
    .inputs(A)
    .shape(numpy_reduced_shape::<SumParam>)
    .dtype(sum_dtype)
    .forward(|ctx, ins, outs| {
        reduce_any::<Sum>(&ins[0], &numpy_axes_of::<SumParam>(ctx, ins[0].shape())?, &mut outs[0])
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let axes = numpy_axes_of::<SumParam>(ctx, outs[0].shape())?;
            broadcast_divided(ctx, &ins[0], 1, &axes, &mut outs[0])
        }),
        Some(|graph, n| compose(graph, n, |_, grad, _| Ok(grad))),
    ));

pub(super) static NP_PROD: Operator<SumParam> = Operator::new("_np_prod")
    .aliases(&["_np_product"])
    .doc("The product of the elements over axes; 1 if there are none. Integers wrap around.")
    .inputs(A)
    .arg_order(&["axis", "dtype", "keepdims", "initial", "a"])
    .shape(numpy_reduced_shape::<SumParam>)
    .dtype(sum_dtype)
    .forward(|ctx, ins, outs| {
        reduce_any::<Prod>(&ins[0], &numpy_axes_of::<SumParam>(ctx, ins[0].shape())?, &mut outs[0])
    })
    .grad(Grad::Kernel(Backward::new(np_prod_backward).inputs(Deps::All), None));

pub(super) static NP_MEAN: Operator<SumParam> = Operator::new("_npi_mean")
    .doc(
        "The arithmetic mean of the elements over axes, float32 for integers and booleans unless dtype says otherwise.",
    )
    .inputs(A)
    .shape(numpy_reduced_shape::<SumParam>)
    .dtype(|p, io| match (p.get::<SumParam>().dtype, io.ins[0]) {
        (Some(d), _) => io.assign_out(0, d.0),
        (None, Some(d)) => io.assign_out(0, if d.is_float() { d } else { DType::F32 }),
        _ => Ok(()),
    })
    .forward(|ctx, ins, outs| {
        reduce_any::<Mean>(&ins[0], &numpy_axes_of::<SumParam>(ctx, ins[0].shape())?, &mut outs[0])
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let axes = numpy_axes_of::<SumParam>(ctx, outs[0].shape())?;
            let count: i64 = axes.iter().map(|a| outs[0].shape().dim(*a)).product();
            broadcast_divided(ctx, &ins[0], count.max(1), &axes, &mut outs[0])
        }),
        Some(|graph, n| compose(graph, n, |g, grad, counts| g.div(grad, counts))),
    ));

/// The gradient of a sum or mean, composed of differentiable operators: the output's gradient, broadcast along the reduced axes.
/// `scale` scales the gradient of the output, given the number of elements that are reduced to one.
fn compose(
    graph: &mut dyn GradGraph,
    n: &GradNode<'_>,
    scale: fn(&mut Graph<'_>, Entry, Entry) -> Result<Entry>,
) -> Result<Vec<Option<Entry>>> {
    let p = n.params.get::<SumParam>();
    if p.dtype.is_some() {
        let what = "a reduction with dtype (a second time): convert its input with Cast instead";
        return Err(Error::NotDifferentiable(what.into()));
    }
    let mut g = Graph(graph);
    let counts = g.op(op!(elemwise::identity::ONES_LIKE(n.inputs[0])))?;
    let counts = g.op(op!(NP_SUM(counts), axis: &p.axis, keepdims: true))?;
    let grad = g.op(op!(shape::reshape::RESHAPE_LIKE(n.ograds[0], counts)))?;
    let grad = scale(&mut g, grad, counts)?;
    Ok(vec![Some(g.op(op!(broadcast::expand::BROADCAST_LIKE(grad, n.inputs[0])))?)])
}

fn sum_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    match (p.get::<SumParam>().dtype, io.ins[0]) {
        (Some(d), _) => io.assign_out(0, d.0),
        (None, Some(DType::Bool)) => io.assign_out(0, DType::I64),
        (None, Some(d)) => io.assign_out(0, d),
        (None, None) => io.outs[0].filter(|d| *d != DType::I64).map_or(Ok(()), |d| io.assign_in(0, d)),
    }
}

/// The type in which elements of type `x` are reduced to results of type `out`: f64 or f32 if one of them is a floating-point type or the
/// results are booleans, otherwise i64 or i32.
fn lane_of(x: DType, out: DType) -> DType {
    match (x, out) {
        (DType::F64, _) | (_, DType::F64) => DType::F64,
        (x, out) if x.is_float() || out.is_float() || out == DType::Bool => DType::F32,
        (_, DType::I64) => DType::I64,
        _ => DType::I32,
    }
}

/// Reduces elements of any type to a result of any type.
fn reduce_any<R: AnyLane>(x: &In<'_>, axes: &[usize], out: &mut Out<'_>) -> Result<()> {
    let shape = x.shape().to_usize();
    let (from, to) = (x.dtype(), out.dtype());
    // The mean of booleans is true if it is not 0, so it must not be truncated before the comparison.
    if from == to && from != DType::Bool {
        dispatch!(from, T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
            reduce::reduce::<R, T, T, <T as Arith>::Lane>(x.slice()?, &shape, axes, out.slice_mut()?);
        }, _d => {});
        return Ok(());
    }
    let (x, out) = (elements(x)?, elements_mut(out)?);
    dispatch!(lane_of(from, to), C in [f32, f64, i32, i64] => reduce_in::<R, C>(x, &shape, axes, out), _d => {});
    Ok(())
}

/// Reduces in lanes of type `C`.
fn reduce_in<R: Reducer<C>, C: NumericLane>(x: Elements<'_>, shape: &[usize], axes: &[usize], out: ElementsMut<'_>) {
    let (n, num_results) = ([x.len()], keepdims_shape(&Shape::from_usize(shape), axes).iter().product());
    with_scratch(n[0], |lanes: &mut [C]| {
        broadcast_any((x, &n), (Elements::I64(&[0]), &[]), (&mut *lanes, &n), |x: C, _: C| x);
        with_scratch(num_results, |result: &mut [C]| {
            reduce::reduce::<R, C, C, C>(lanes, shape, axes, result);
            C::store_any(result, out);
        });
    });
}

/// Broadcasts `grad / divisor` along the reduced axes, in the type of the output. For integers, the gradient is truncated before the
/// division.
fn broadcast_divided(ctx: &OpCtx<'_>, grad: &In<'_>, divisor: i64, axes: &[usize], out: &mut Out<'_>) -> Result<()> {
    if out.dtype() == DType::Bool {
        return no_gradient(out);
    }
    let (shape, reduced_shape, is_float) =
        (out.shape().to_usize(), keepdims_shape(out.shape(), axes), out.dtype().is_float());
    let scale = [if is_float { 1.0 / divisor as f64 } else { 1.0 }];
    let operands =
        [(Arg::Elements(elements(grad)?), &reduced_shape[..]), (Arg::Elements(Elements::F64(&scale)), &[][..])];
    let mul = const { &Loops::binary::<Mul>() };
    broadcast_loops(ctx, mul, out.dtype(), operands, (elements_mut(out)?, &shape))?;
    if !is_float && divisor != 1 {
        apply_two::<Div>(ctx, Arg::Output, Arg::Number(divisor as f64), out)?;
    }
    Ok(())
}

fn np_prod_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let out = &mut outs[0];
    let axes = numpy_axes_of::<SumParam>(ctx, out.shape())?;
    if out.dtype() == DType::Bool {
        return no_gradient(out);
    }
    products_of_others::<AllFactors>(ctx, &ins[1], &axes, out)?;
    let g = Arg::Elements(elements(&ins[0])?);
    broadcast_args(ctx, const { &Loops::binary::<Mul>() }, Arg::Output, g, &axes, out)
}

fn extremum_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let axes = numpy_axes(p.get::<ExtremumParam>().axis(), io.ins[0].dims().len());
    if io.ins[0].ndim_is_known() {
        ensure!(
            axes?.iter().all(|a| io.ins[0].dim(*a) != 0),
            "an array of shape {} has no elements along a reduced axis, so it has no maximum or minimum",
            io.ins[0]
        );
    }
    numpy_reduced_shape::<ExtremumParam>(p, io)
}

fn np_extremum_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let axes = numpy_axes_of::<ExtremumParam>(ctx, outs[0].shape())?;
    broadcast_binary::<Equal>(ctx, &ins[1], &ins[2], &axes, &mut outs[0])?;
    multiply_broadcast(ctx, &ins[0], &axes, &mut outs[0])
}
