//! Reductions: sums, products, means, extremes, any, all, argmax and argmin.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Entry, Grad, GradGraph, GradNode};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{ArgDef, Deps, OpCtx, OpDef, arg};
use ferromx_core::params::{OpParams, Params, ShapeOrNone, SumDType};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::broadcast::broadcast_any;
use ferromx_kernels::map::{Arith, Elements, ElementsMut};
use ferromx_kernels::par::with_scratch;
use ferromx_kernels::reduce::{self, Max, Mean, Min, NumericLane, Prod, Reducer, Sum};

use super::{elements, elements_mut};
use crate::elemwise::family::{Arg, Graph, Loops, NUMERIC, apply_two, broadcast_loops};
use crate::elemwise::formulas::{Div, Equal, Mul};
use crate::reduce::axes::{Axes, kept, spread, spread_args, times_spread};
use crate::reduce::sums::{AllFactors, AnyLane, products_of_others};
use crate::rules::no_gradient;

/// The operators of this file.
pub(super) static OPS: &[&OpDef] = &[&SUM, &PROD, &MEAN, &MAX, &MIN, &ANY, &ALL, &ARGMAX, &ARGMIN];

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
    pub struct ExtremeParam {
        /// The axes to reduce; negative ones count from the last. None means all of them, () none.
        axis: ShapeOrNone = (ShapeOrNone(None));
        /// Whether reduced axes are kept with length 1.
        keepdims: bool = false;
        /// Not supported.
        initial: Option<f64> = None;
    }
}

params! {
    /// Parameters of `_np_any` and `_np_all`.
    pub struct LogicParam {
        /// The axes to reduce; negative ones count from the last. None means all of them, () none.
        axis: ShapeOrNone = (ShapeOrNone(None));
        /// Whether reduced axes are kept with length 1.
        keepdims: bool = false;
    }
}

/// Parameters of a reduction over axes.
pub(super) trait OverAxes: OpParams {
    /// The axes as given.
    fn axis(&self) -> &ShapeOrNone;
    /// Whether reduced axes are kept.
    fn keepdims(&self) -> bool;
    /// The initial value, if given.
    fn initial(&self) -> Option<f64> {
        None
    }
}

impl OverAxes for SumParam {
    fn axis(&self) -> &ShapeOrNone {
        &self.axis
    }
    fn keepdims(&self) -> bool {
        self.keepdims
    }
    fn initial(&self) -> Option<f64> {
        self.initial
    }
}

impl OverAxes for ExtremeParam {
    fn axis(&self) -> &ShapeOrNone {
        &self.axis
    }
    fn keepdims(&self) -> bool {
        self.keepdims
    }
    fn initial(&self) -> Option<f64> {
        self.initial
    }
}

impl OverAxes for LogicParam {
    fn axis(&self) -> &ShapeOrNone {
        &self.axis
    }
    fn keepdims(&self) -> bool {
        self.keepdims
    }
}

/// The axes to reduce out of `n`, ascending. A scalar may be reduced along axis 0, which changes nothing.
///
/// # Errors
/// An axis that is out of range or given twice.
pub(super) fn resolve(axis: &ShapeOrNone, n: usize) -> Result<Axes> {
    let Some(given) = &axis.0 else { return Ok((0..n).collect()) };
    if n == 0 && given.dims().iter().all(|a| *a == 0 || *a == -1) {
        return Ok(Axes::new());
    }
    let mut axes = given.dims().iter().map(|a| Shape::axis(*a, n)).collect::<Result<Axes>>()?;
    axes.sort_unstable();
    ensure!(axes.windows(2).all(|w| w[0] < w[1]), "an axis is given twice in axis={given}");
    Ok(axes)
}

/// The shape without the axes, or with length 1 along them.
pub(super) fn reduced(shape: &Shape, axes: &[usize], keepdims: bool) -> Shape {
    let keep = |(i, d): (usize, &i64)| match (axes.contains(&i), keepdims) {
        (false, _) => Some(*d),
        (true, true) => Some(1),
        (true, false) => None,
    };
    Shape::from(shape.dims().iter().enumerate().filter_map(keep).collect::<Dims>())
}

/// The shape rule of reductions.
pub(super) fn reduced_shape<P: OverAxes>(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<P>();
    ensure!(p.initial().is_none(), "initial is not supported: combine the result with the initial value");
    let Some(n) = io.ins[0].ndim() else { return Ok(()) };
    let out = reduced(&io.ins[0], &resolve(p.axis(), n)?, p.keepdims());
    io.assign_out(0, &out)
}

fn axes_of<P: OverAxes>(ctx: &OpCtx<'_>, shape: &Shape) -> Result<Axes> {
    resolve(ctx.params::<P>().axis(), shape.dims().len())
}

pub(super) static SUM: OpDef = OpDef::new("_np_sum")
    .doc("The sum of the elements over axes. Integers wrap around.")
    .inputs(A)
    .params::<SumParam>()
    .shape(reduced_shape::<SumParam>)
    .dtype(sum_dtype)
    .forward(|ctx, ins, outs| reduce_any::<Sum>(&ins[0], &axes_of::<SumParam>(ctx, ins[0].shape())?, &mut outs[0]))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let axes = axes_of::<SumParam>(ctx, outs[0].shape())?;
            spread_divided(ctx, &ins[0], 1, &axes, &mut outs[0])
        }),
        Some(|graph, n| composed(graph, n, false)),
    ));

pub(super) static PROD: OpDef = OpDef::new("_np_prod")
    .aliases(&["_np_product"])
    .doc("The product of the elements over axes; 1 where there are none. Integers wrap around.")
    .inputs(A)
    .params::<SumParam>()
    .arg_order(&["axis", "dtype", "keepdims", "initial", "a"])
    .shape(reduced_shape::<SumParam>)
    .dtype(sum_dtype)
    .forward(|ctx, ins, outs| reduce_any::<Prod>(&ins[0], &axes_of::<SumParam>(ctx, ins[0].shape())?, &mut outs[0]))
    .grad(Grad::Kernel(Backward::new(prod_backward).inputs(Deps::All), None));

pub(super) static MEAN: OpDef = OpDef::new("_npi_mean")
    .doc(
        "The arithmetic mean of the elements over axes, float32 for integers and booleans unless dtype says otherwise.",
    )
    .inputs(A)
    .params::<SumParam>()
    .shape(reduced_shape::<SumParam>)
    .dtype(|p, io| match (p.get::<SumParam>().dtype, io.ins[0]) {
        (Some(d), _) => io.assign_out(0, d.0),
        (None, Some(d)) => io.assign_out(0, if d.is_float() { d } else { DType::F32 }),
        _ => Ok(()),
    })
    .forward(|ctx, ins, outs| reduce_any::<Mean>(&ins[0], &axes_of::<SumParam>(ctx, ins[0].shape())?, &mut outs[0]))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let axes = axes_of::<SumParam>(ctx, outs[0].shape())?;
            let count: i64 = axes.iter().map(|a| outs[0].shape().dim(*a)).product();
            spread_divided(ctx, &ins[0], count.max(1), &axes, &mut outs[0])
        }),
        Some(|graph, n| composed(graph, n, true)),
    ));

/// The gradient of a sum or mean composed of operators: the output's gradient broadcast along the reduced axes.
fn composed(graph: &mut dyn GradGraph, n: &GradNode<'_>, mean: bool) -> Result<Vec<Option<Entry>>> {
    if n.params.get::<SumParam>().dtype.is_some() {
        let what = "a reduction with dtype (a second time): convert its input with Cast instead";
        return Err(Error::NotDifferentiable(what.into()));
    }
    let mut g = Graph(graph);
    let axis = n.attrs.iter().find(|(name, _)| *name == "axis").map_or("None", |(_, axis)| axis);
    let counts = g.op("ones_like", n.inputs[0])?;
    let counts = g.0.apply1("_np_sum", &[counts], &[("axis", axis), ("keepdims", "True")])?;
    let share = g.op2("reshape_like", n.ograds[0], counts)?;
    let share = if mean { g.div(share, counts)? } else { share };
    Ok(vec![Some(g.op2("broadcast_like", share, n.inputs[0])?)])
}

fn sum_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    match (p.get::<SumParam>().dtype, io.ins[0]) {
        (Some(d), _) => io.assign_out(0, d.0),
        (None, Some(DType::Bool)) => io.assign_out(0, DType::I64),
        (None, Some(d)) => io.assign_out(0, d),
        (None, None) => io.outs[0].filter(|d| *d != DType::I64).map_or(Ok(()), |d| io.assign_in(0, d)),
    }
}

/// The type in which a reduction of `x` to `out` is computed: that of the elements if they are floats (or the wider of two
/// floats), otherwise that of the result.
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
    // The mean of booleans is true if it is not 0, so it must not be truncated first.
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
    let (n, left) = ([x.len()], kept(&Shape::from_usize(shape), axes).iter().product());
    with_scratch(n[0], |lanes: &mut [C]| {
        broadcast_any((x, &n), (Elements::I64(&[0]), &[]), (&mut *lanes, &n), |x: C, _: C| x);
        with_scratch(left, |result: &mut [C]| {
            reduce::reduce::<R, C, C, C>(lanes, shape, axes, result);
            C::store_any(result, out);
        });
    });
}

/// Broadcasts `g / divisor` along the reduced axes, in the type of the output: integers truncate g before they divide.
fn spread_divided(ctx: &OpCtx<'_>, g: &In<'_>, divisor: i64, axes: &[usize], out: &mut Out<'_>) -> Result<()> {
    if out.dtype() == DType::Bool {
        return no_gradient(out);
    }
    let (shape, small, is_float) = (out.shape().to_usize(), kept(out.shape(), axes), out.dtype().is_float());
    let share = [if is_float { 1.0 / divisor as f64 } else { 1.0 }];
    let operands = [(Arg::Elements(elements(g)?), &small[..]), (Arg::Elements(Elements::F64(&share)), &[][..])];
    let mul = const { &Loops::binary::<Mul>() };
    broadcast_loops(ctx, mul, out.dtype(), operands, (elements_mut(out)?, &shape))?;
    if !is_float && divisor != 1 {
        apply_two::<Div>(ctx, Arg::Output, Arg::Number(divisor as f64), out)?;
    }
    Ok(())
}

fn prod_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let out = &mut outs[0];
    let axes = axes_of::<SumParam>(ctx, out.shape())?;
    if out.dtype() == DType::Bool {
        return no_gradient(out);
    }
    products_of_others::<AllFactors>(ctx, &ins[1], &axes, out)?;
    let g = Arg::Elements(elements(&ins[0])?);
    spread_args(ctx, const { &Loops::binary::<Mul>() }, Arg::Output, g, &axes, out)
}

/// Defines the maximum or minimum.
macro_rules! extreme {
    ($name:ident: $op:literal [$alias:literal], $doc:literal, $R:ident) => {
        pub(crate) static $name: OpDef = OpDef::new($op)
            .aliases(&[$alias])
            .doc(concat!($doc, " Each element that equals it gets the whole gradient."))
            .inputs(A)
            .params::<ExtremeParam>()
            .shape(extreme_shape)
            .forward(|ctx, ins, outs| {
                reduce_any::<$R>(&ins[0], &axes_of::<ExtremeParam>(ctx, ins[0].shape())?, &mut outs[0])
            })
            .grad(Grad::Kernel(Backward::new(extreme_backward).inputs(Deps::All).outputs(Deps::All), None));
    };
}

extreme!(MAX: "_np_max" ["_np_amax"], "The largest element over axes, NaN if there is one.", Max);
extreme!(MIN: "_np_min" ["_np_amin"], "The smallest element over axes, NaN if there is one.", Min);

fn extreme_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let axes = resolve(p.get::<ExtremeParam>().axis(), io.ins[0].dims().len());
    if io.ins[0].ndim_is_known() {
        ensure!(
            axes?.iter().all(|a| io.ins[0].dim(*a) != 0),
            "an array of shape {} has no elements along a reduced axis, so it has no maximum or minimum",
            io.ins[0]
        );
    }
    reduced_shape::<ExtremeParam>(p, io)
}

fn extreme_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let axes = axes_of::<ExtremeParam>(ctx, outs[0].shape())?;
    spread::<Equal>(ctx, &ins[1], &ins[2], &axes, &mut outs[0])?;
    times_spread(ctx, &ins[0], &axes, &mut outs[0])
}

/// Defines a reducer of the flags `x != 0`: their maximum or minimum.
macro_rules! logic {
    ($($(#[$doc:meta])* $name:ident: $identity:ident, |$a:ident, $b:ident| $merge:expr;)*) => {$(
        $(#[$doc])*
        struct $name;
        impl<C: NumericLane> Reducer<C> for $name {
            const IDENTITY: C = C::$identity;
            #[inline(always)]
            fn map(x: C) -> C {
                if x == C::ZERO { C::ZERO } else { C::ONE }
            }
            #[inline(always)]
            fn merge($a: C, $b: C) -> C {
                $merge
            }
            #[inline(always)]
            fn finish(x: C, _: C) -> C {
                x
            }
        }
    )*};
}

logic! {
    /// Whether any element is not 0.
    Any: ZERO, |a, b| if a > b { a } else { b };
    /// Whether no element is 0.
    All: ONE, |a, b| if a < b { a } else { b };
}

pub(super) static ANY: OpDef =
    logic_op::<Any>("_np_any", "Whether any of the elements over axes is not 0, as bool; false where there are none.")
        .aliases(&["_np_sometrue"]);
pub(super) static ALL: OpDef =
    logic_op::<All>("_np_all", "Whether none of the elements over axes is 0, as bool; true where there are none.");

const fn logic_op<R>(name: &'static str, doc: &'static str) -> OpDef
where
    R: Reducer<f32> + Reducer<f64> + Reducer<i32> + Reducer<i64>,
{
    OpDef::new(name)
        .names_data()
        .doc(doc)
        .params::<LogicParam>()
        .shape(reduced_shape::<LogicParam>)
        .dtype(|_, io| io.assign_out(0, DType::Bool))
        .forward(|ctx, ins, outs| {
            let (x, out) = (&ins[0], outs[0].slice_mut::<bool>()?);
            let (shape, axes) = (x.shape().to_usize(), axes_of::<LogicParam>(ctx, x.shape())?);
            dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
                reduce::reduce::<R, T, bool, <T as Arith>::Lane>(x.slice()?, &shape, &axes, out);
                Ok(())
            }, d => Err(ctx.unsupported(d, &DType::ALL)))
        })
        .grad(Grad::Zero)
}

params! {
    /// Parameters of `_npi_argmax` and `_npi_argmin`.
    pub struct ArgParam {
        /// The axis to reduce; negative ones count from the last. None means the flattened array.
        axis: Option<i32> = None;
        /// Whether the reduced axis is kept with length 1.
        keepdims: bool = false;
    }
}

pub(super) static ARGMAX: OpDef =
    arg_op("_npi_argmax", "The index of the first largest element along an axis, as int64; NaN counts as the largest.")
        .forward(|ctx, ins, outs| {
            position(ctx, &ins[0], &mut outs[0], |x, dims, out| {
                dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
                reduce::argmax::<T, i64, <T as Arith>::Lane>(x.slice()?, dims, out);
                Ok(())
            }, d => Err(ctx.unsupported(d, NUMERIC)))
            })
        });
pub(super) static ARGMIN: OpDef = arg_op(
    "_npi_argmin",
    "The index of the first smallest element along an axis, as int64; NaN counts as the smallest.",
)
.forward(|ctx, ins, outs| {
    position(ctx, &ins[0], &mut outs[0], |x, dims, out| {
        dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
                reduce::argmin::<T, i64, <T as Arith>::Lane>(x.slice()?, dims, out);
                Ok(())
            }, d => Err(ctx.unsupported(d, NUMERIC)))
    })
});

const fn arg_op(name: &'static str, doc: &'static str) -> OpDef {
    OpDef::new(name)
        .doc(doc)
        .params::<ArgParam>()
        .shape(|p, io| {
            let p = p.get::<ArgParam>();
            let Some(n) = io.ins[0].ndim() else { return Ok(()) };
            let axis = ShapeOrNone(p.axis.map(|a| Shape::new(&[a.into()])));
            let out = reduced(&io.ins[0], &resolve(&axis, n)?, p.keepdims);
            io.assign_out(0, &out)
        })
        .dtype(|_, io| io.assign_out(0, DType::I64))
        .grad(Grad::Zero)
}

/// Writes indices along the axis, which must not be empty unless the result is.
fn position(
    ctx: &OpCtx<'_>,
    x: &In<'_>,
    out: &mut Out<'_>,
    find: impl Fn(&In<'_>, (usize, usize, usize), &mut [i64]) -> Result<()>,
) -> Result<()> {
    let shape = x.shape().to_usize();
    let dims = match ctx.params::<ArgParam>().axis {
        Some(axis) if !shape.is_empty() => crate::shape::moves::around(&shape, Shape::axis(axis.into(), shape.len())?),
        _ => (1, x.len(), 1),
    };
    if out.is_empty() {
        return Ok(());
    }
    ensure!(dims.1 > 0, "argmax and argmin need a non-empty axis, but the shape is {}", x.shape());
    find(x, dims, out.slice_mut::<i64>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close, vector};

    const AXES: &[&[(&str, &str)]] =
        &[&[], &[("axis", "1")], &[("axis", "(0, 2)")], &[("axis", "-1"), ("keepdims", "True")], &[("axis", "()")]];

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x: Vec<f64> = (0..24).map(|i| 0.5 + ((i * 7) % 24) as f64 / 16.0).collect();
        for def in [&SUM, &PROD, &MEAN, &MAX, &MIN] {
            for attrs in AXES {
                Case::new(def, attrs).check_gradient(&[array(&x, &[2, 3, 4])]);
            }
            Case::new(def, &[]).check_gradient(&[array(&[1.5], &[])]);
        }
    }

    #[test]
    fn full_reductions_return_scalars() {
        let shape = |def, attrs: &[(&str, &str)], dims: &[i64]| {
            Case::new(def, attrs).shapes(&[Shape::new(dims)]).map(|s| s[0].clone())
        };
        assert_eq!(shape(&SUM, &[], &[2, 3]).unwrap(), Shape::new(&[]));
        assert_eq!(shape(&SUM, &[("axis", "()")], &[2, 3]).unwrap(), Shape::new(&[2, 3]));
        assert_eq!(shape(&SUM, &[("axis", "0")], &[]).unwrap(), Shape::new(&[]));
        assert_eq!(shape(&ARGMAX, &[("keepdims", "1")], &[2, 3]).unwrap(), Shape::new(&[1, 1]));
        assert!(shape(&SUM, &[("initial", "1")], &[2]).unwrap_err().to_string().contains("initial is not supported"));
        assert!(shape(&SUM, &[("axis", "(0, -2)")], &[2, 3]).unwrap_err().to_string().contains("given twice"));
        assert!(shape(&MAX, &[("axis", "0")], &[0, 3]).is_err());
        assert_eq!(shape(&MAX, &[("axis", "1")], &[0, 3]).unwrap(), Shape::new(&[0]));
    }

    #[test]
    fn reductions_of_empty_arrays() {
        let run = |def| Case::new(def, &[]).run1(&[array::<f32>(&[], &[0, 3])]).unwrap().to_vec_as::<f64>().unwrap();
        assert_eq!((run(&SUM), run(&PROD), run(&ANY), run(&ALL)), (vec![0.0], vec![1.0], vec![0.0], vec![1.0]));
        assert!(run(&MEAN)[0].is_nan());
    }

    #[test]
    fn types_of_results() {
        let x = vector(DType::U8, &[100.0, 200.0]);
        let run = |def, attrs: &[(&str, &str)], x: &ferromx_core::ndarray::NDArray| {
            let y = Case::new(def, attrs).run1(std::slice::from_ref(x)).unwrap();
            (y.dtype(), y.to_vec_as::<f64>().unwrap()[0])
        };
        assert_eq!(run(&SUM, &[], &x), (DType::U8, 44.0));
        assert_eq!(run(&SUM, &[("dtype", "int32")], &x), (DType::I32, 300.0));
        assert_eq!(run(&MEAN, &[], &x), (DType::F32, 150.0));
        assert_eq!(run(&SUM, &[], &vector(DType::Bool, &[1.0, 1.0])), (DType::I64, 2.0));
        assert_eq!(run(&SUM, &[("dtype", "int32")], &vector(DType::F32, &[0.6, 0.6])), (DType::I32, 1.0));
        assert_eq!(run(&SUM, &[("dtype", "bool")], &x), (DType::Bool, 1.0));
    }

    #[test]
    fn gradients_have_the_type_of_the_array() {
        let x = vector(DType::F64, &[2.0, 3.0]);
        for (def, want) in [(&SUM, [4.0, 4.0]), (&MEAN, [2.0, 2.0]), (&PROD, [12.0, 8.0])] {
            let case = Case::new(def, &[("dtype", "float32")]);
            let g = case.backward(std::slice::from_ref(&x), &[array(&[4f32], &[])]).unwrap();
            close(&g[0].to_vec::<f64>().unwrap(), &want, 1e-7);
        }
    }
}
