//! Arithmetic, comparison and logic of two arrays with broadcasting.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_kernels::broadcast::apply_broadcast;
use ferromx_kernels::map::{Elements, ElementsMut, LaneFn, Loop, Operand, apply};
use ferromx_kernels::par::with_scratch;
use ferromx_kernels::reduce::{NumericLane, reduce_to_shape_any};

use super::backward::{self, sum_to};
use crate::elemwise::family::{
    Arg, Binary, ChainRule2, Loops, Truncated, WithLoop, apply_two, broadcast_loops, elements, elements_mut, formula,
    operators, ternary_into,
};
use crate::elemwise::formulas::*;

/// The arguments of operators with broadcasting.
pub(crate) const LHS_RHS: &[ArgDef] = &[
    arg("lhs", "The first array."),
    arg(
        "rhs",
        "The second array, of the same type. Aligned at the last axis, each axis has the length of lhs, or one of the two is 1.",
    ),
];

/// Defines an operator of two broadcast inputs `lhs` and `rhs`, for all numeric types, from a [`Binary`] formula.
///
/// ```text
/// broadcast_op!(MUL: "broadcast_mul", "The product.", Mul, grad(grad_from_other::<Mul>, grad_from_other::<Mul>), graph MUL);
/// broadcast_op!(SUB: "broadcast_sub", "The difference.", Sub, sums(grad_pass, grad_negate), graph SUB);
/// broadcast_op!(EQUAL: "broadcast_equal", "Whether they are equal.", Equal, zero);
/// ```
/// - `grad` names the kernels of both gradients.
/// - `sums` names them if they only read the output's gradient.
/// - `graph` is the gradient composed of operators, from [`backward`].
/// - `keeps_csr` after the name states that the result of a csr and a dense array is csr.
macro_rules! broadcast_op {
    ($name:ident keeps_csr: $($operator:tt)+) => {
        broadcast_op!(@def [.sparse(crate::sparse::broadcast_rule, crate::sparse::broadcast)] $name: $($operator)+);
    };
    (@def [$($sparse:tt)*] $name:ident: $op:literal $([$($alias:literal),+])?, $doc:expr, $F:ident, $($grad:tt)+) => {
        pub(crate) static $name: Operator = Operator::new($op)
            $(.aliases(&[$($alias),+]))?
            .doc($doc)
            .inputs(LHS_RHS)
            .shape(broadcast_shapes)
            .broadcasts()
            .consists_of_loops()
            .forward(forward::<$F>)
            .grad(broadcast_op!(@grad $($grad)+))
            $($sparse)*;
    };
    (@grad zero) => { Grad::Zero };
    (@grad sums($lhs:expr, $rhs:expr), graph $graph:ident) => {
        Grad::Kernel(broadcast_op!(@kernel $lhs, $rhs), Some(backward::$graph))
    };
    (@grad grad($lhs:expr, $rhs:expr), graph $graph:ident) => {
        Grad::Kernel(broadcast_op!(@kernel $lhs, $rhs).inputs(Deps::All), Some(backward::$graph))
    };
    (@kernel $lhs:expr, $rhs:expr) => {
        Backward::new(|ctx, ins, outs| {
            if outs[0].wanted() {
                $lhs(ctx, ins, 0, &mut outs[0])?;
            }
            if outs[1].wanted() {
                $rhs(ctx, ins, 1, &mut outs[1])?;
            }
            Ok(())
        })
    };
    ($name:ident: $($operator:tt)+) => { broadcast_op!(@def [] $name: $($operator)+); };
}

operators! { OPS [] =
    broadcast_op!(ADD: "broadcast_add" ["_sparse_broadcast_add", "_sparse_broadcast_plus", "broadcast_plus"],
        "The sum lhs + rhs with broadcasting.", Add, sums(grad_pass, grad_pass), graph ADD);
    broadcast_op!(SUB: "broadcast_sub" ["_sparse_broadcast_minus", "_sparse_broadcast_sub", "broadcast_minus"],
        "The difference lhs - rhs with broadcasting.", Sub, sums(grad_pass, grad_negate), graph SUB);
    broadcast_op!(MUL keeps_csr: "broadcast_mul" ["_sparse_broadcast_mul"],
        "The product lhs * rhs with broadcasting.", Mul, grad(grad_from_other::<Mul>, grad_from_other::<Mul>), graph MUL);
    broadcast_op!(DIV keeps_csr: "broadcast_div" ["_sparse_broadcast_div"],
        "The quotient lhs / rhs with broadcasting; integers are truncated, and integer division by 0 gives 0.",
        Div, grad(grad_from_other::<Div>, grad_from_both::<DivB>), graph DIV);
    broadcast_op!(MOD: "broadcast_mod",
        "The remainder of lhs / rhs with broadcasting; it has the sign of rhs, and is 0 where rhs is 0.",
        Mod, grad(grad_from_both::<ModA>, grad_from_both::<ModB>), graph MOD);
    broadcast_op!(POWER: "broadcast_power",
        "lhs to the power rhs with broadcasting.", Power, grad(grad_from_both::<PowerA>, grad_from_both::<PowerB>), graph POWER);
    broadcast_op!(HYPOT: "broadcast_hypot", "The hypotenuse sqrt(lhs^2 + rhs^2) with broadcasting.",
        Hypot, grad(grad_from_both::<HypotA>, grad_from_both::<HypotB>), graph HYPOT);
    broadcast_op!(MAXIMUM: "broadcast_maximum" ["_npi_maximum"],
        "The larger element with broadcasting, NaN if one is NaN. Where they are equal, the gradient goes to lhs.",
        Maximum, grad(grad_from_both::<MaximumA>, grad_from_both::<MaximumB>), graph MAXIMUM);
    broadcast_op!(MINIMUM: "broadcast_minimum" ["_npi_minimum"],
        "The smaller element with broadcasting, NaN if one is NaN. Where they are equal, the gradient goes to lhs.",
        Minimum, grad(grad_from_both::<MinimumA>, grad_from_both::<MinimumB>), graph MINIMUM);
    broadcast_op!(EQUAL: "broadcast_equal", "1 where lhs equals rhs with broadcasting, else 0.", Equal, zero);
    broadcast_op!(NOT_EQUAL: "broadcast_not_equal", "1 where lhs differs from rhs with broadcasting, else 0.", NotEqual, zero);
    broadcast_op!(GREATER: "broadcast_greater", "1 where lhs > rhs with broadcasting, else 0.", Greater, zero);
    broadcast_op!(GREATER_EQUAL: "broadcast_greater_equal", "1 where lhs >= rhs with broadcasting, else 0.", GreaterEqual, zero);
    broadcast_op!(LESSER: "broadcast_lesser", "1 where lhs < rhs with broadcasting, else 0.", Lesser, zero);
    broadcast_op!(LESSER_EQUAL: "broadcast_lesser_equal", "1 where lhs <= rhs with broadcasting, else 0.", LesserEqual, zero);
    broadcast_op!(AND: "broadcast_logical_and", "1 where lhs and rhs are not 0 with broadcasting, else 0.", And, zero);
    broadcast_op!(OR: "broadcast_logical_or", "1 where lhs or rhs is not 0 with broadcasting, else 0.", Or, zero);
    broadcast_op!(XOR: "broadcast_logical_xor", "1 where exactly one of lhs and rhs is not 0 with broadcasting, else 0.", Xor, zero);
}

/// Shape rule of two broadcast inputs.
pub(crate) fn broadcast_shapes(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    if !io.ins[0].ndim_is_known() || !io.ins[1].ndim_is_known() {
        return Ok(());
    }
    let out = broadcast_two(&io.ins[0], &io.ins[1])?;
    io.assign_out(0, &out)
}

/// The shape to which two shapes of known rank are broadcast. Shapes are aligned at the last axis; lengths are equal or one is 1.
///
/// # Errors
/// Lengths that differ, if neither is 1.
pub(crate) fn broadcast_two(a: &Shape, b: &Shape) -> Result<Shape> {
    let (a_rank, b_rank) = (a.dims().len(), b.dims().len());
    let rank = a_rank.max(b_rank);
    let length = |s: &Shape, s_rank: usize, i: usize| if i + s_rank < rank { 1 } else { s.dim(i + s_rank - rank) };
    let mut dims = Dims::new();
    for i in 0..rank {
        dims.push(match (length(a, a_rank, i), length(b, b_rank, i)) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            // An unknown length can only be 1 or `x`, so the output has length `x`.
            (x, -1) | (-1, x) => x,
            (x, y) => {
                return Err(Error::Value(format!(
                    "operands could not be broadcast together with shapes {a} {b}: {x} and {y} on axis {i} differ, and neither \
                     is 1"
                )));
            }
        });
    }
    Ok(Shape::from(dims))
}

fn forward<F: Binary>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let loops = const { &Loops::binary::<F>() };
    if let Some(recorder) = ctx.recorder {
        loops.record(recorder, &[Arg::Array(&ins[0]), Arg::Array(&ins[1])], &outs[0]);
        return Ok(());
    }
    broadcast_two_into(ctx, loops, [&ins[0], &ins[1]], &mut outs[0])
}

/// `out = f(a, b)` with broadcasting.
fn broadcast_two_into(ctx: &OpCtx<'_>, loops: &Loops, [a, b]: [&In<'_>; 2], out: &mut Out<'_>) -> Result<()> {
    let (shape, a_shape, b_shape) = (out.shape().to_usize(), a.shape().to_usize(), b.shape().to_usize());
    let operands = [(Arg::Array(a), &a_shape[..]), (Arg::Array(b), &b_shape[..])];
    broadcast_loops(ctx, loops, out.dtype(), operands, (elements_mut(out)?, &shape))
}

/// The gradient of an operand: the output's gradient, summed over broadcast axes.
pub(crate) fn grad_pass(ctx: &OpCtx<'_>, ins: &[In<'_>], _: usize, out: &mut Out<'_>) -> Result<()> {
    let (from, to) = (ins[0].shape().to_usize(), out.shape().to_usize());
    sum_to(ctx, &ins[0], (&from, &to), out)
}

/// The gradient of an operand: the output's gradient, summed over broadcast axes and negated.
pub(crate) fn grad_negate(ctx: &OpCtx<'_>, ins: &[In<'_>], operand: usize, out: &mut Out<'_>) -> Result<()> {
    grad_pass(ctx, ins, operand, out)?;
    apply_two::<Negative>(ctx, Arg::Output, Arg::Number(0.0), out)
}

formula!(Binary Negative = |x, _unused| -x, int |x, _unused| x.wrapping_neg());

/// The gradient of operand 0 or 1: `F(g, other operand)` for the output's gradient g, summed over broadcast axes.
pub(crate) fn grad_from_other<F: Binary>(
    ctx: &OpCtx<'_>,
    ins: &[In<'_>],
    operand: usize,
    out: &mut Out<'_>,
) -> Result<()> {
    from_other(ctx, const { &Loops::binary::<F>() }, [&ins[0], &ins[2 - operand]], out)
}

fn from_other(ctx: &OpCtx<'_>, loops: &Loops, [g, x]: [&In<'_>; 2], out: &mut Out<'_>) -> Result<()> {
    let (shape, x_shape, to) = (g.shape().to_usize(), x.shape().to_usize(), out.shape().to_usize());
    if shape == to {
        return broadcast_two_into(ctx, loops, [g, x], out);
    }
    let operands = [(Arg::Array(g), &shape[..]), (Arg::Array(x), &x_shape[..])];
    broadcast_sum(
        ctx,
        loops,
        out.dtype(),
        BroadcastSum { operands, multiplier: None, shape: &shape, to: &to, out: elements_mut(out)? },
    )
}

/// The gradient of an operand: `g * F(lhs, rhs)` for the output's gradient g, summed over broadcast axes.
pub(crate) fn grad_from_both<F: Binary>(ctx: &OpCtx<'_>, ins: &[In<'_>], _: usize, out: &mut Out<'_>) -> Result<()> {
    let shape = ins[0].shape();
    if out.dtype().is_float() && out.shape() == shape && ins[1..3].iter().all(|x| x.shape() == shape) {
        return ternary_into::<ChainRule2<F>>(ctx, &ins[..3], out);
    }
    from_both(ctx, const { &Loops::binary::<Truncated<F>>() }, [&ins[0], &ins[1], &ins[2]], out)
}

fn from_both(ctx: &OpCtx<'_>, loops: &Loops, [g, a, b]: [&In<'_>; 3], out: &mut Out<'_>) -> Result<()> {
    let (shape, to) = (g.shape().to_usize(), out.shape().to_usize());
    let (a_shape, b_shape) = (a.shape().to_usize(), b.shape().to_usize());
    let operands = [(Arg::Array(a), &a_shape[..]), (Arg::Array(b), &b_shape[..])];
    let multiplier = Some(elements(g)?);
    broadcast_sum(
        ctx,
        loops,
        out.dtype(),
        BroadcastSum { operands, multiplier, shape: &shape, to: &to, out: elements_mut(out)? },
    )
}

/// A formula of two broadcast operands, summed over broadcast axes.
pub(crate) struct BroadcastSum<'e, 'o, 'a, 'x> {
    /// The operands of the formula, with their shapes.
    pub operands: [(Arg<'o, 'a>, &'e [usize]); 2],
    /// An array of shape `shape` by which the formula is multiplied before the sum.
    pub multiplier: Option<Elements<'a>>,
    /// The shape to which the operands are broadcast.
    pub shape: &'e [usize],
    /// The shape of the sum.
    pub to: &'e [usize],
    /// The sum.
    pub out: ElementsMut<'x>,
}

/// Computes a [`BroadcastSum`] in the lanes of `dtype`.
pub(crate) fn broadcast_sum(
    ctx: &OpCtx<'_>,
    loops: &Loops,
    dtype: DType,
    sum: BroadcastSum<'_, '_, '_, '_>,
) -> Result<()> {
    struct Run<'e, 'o, 'a, 'x>(DType, BroadcastSum<'e, 'o, 'a, 'x>);

    impl WithLoop for Run<'_, '_, '_, '_> {
        fn run<C: NumericLane>(self, formula: &Loop<C>) -> Result<()> {
            let Run(dtype, BroadcastSum { operands: [(a, a_shape), (b, b_shape)], multiplier, shape, to, out }) = self;
            let (a, b) = ((a.lanes(dtype)?, a_shape), (b.lanes(dtype)?, b_shape));
            with_scratch(shape.iter().product(), |buf: &mut [C]| {
                apply_broadcast(formula, a, b, (C::elements_mut(buf), shape));
                if let Some(x) = multiplier {
                    multiply(buf, x);
                }
                reduce_to_shape_any::<C>(C::elements(buf), shape, to, out);
            });
            Ok(())
        }
    }
    loops.select(ctx, dtype, Run(dtype, sum))
}

/// The product of two lanes.
#[derive(Clone, Copy, Default)]
struct Product;

impl<C: NumericLane> LaneFn<(C, C), C> for Product {
    #[inline(always)]
    fn call(self, (a, b): (C, C)) -> C {
        a.times(b)
    }
}

/// `lanes *= x`.
fn multiply<C: NumericLane>(lanes: &mut [C], x: Elements<'_>) {
    apply(const { &Loop::<C>::zip::<Product>() }, &[Operand::InPlace, Operand::Elements(x)], C::elements_mut(lanes));
}

#[cfg(test)]
mod tests {
    use ferromx_core::dtype::DType;

    use super::*;
    use crate::testing::{Case, array, vector};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let b = array(&[1.2, 0.4, 2.6], &[3, 1]);
        for def in OPS {
            for dims in [&[2, 1, 2][..], &[1, 4], &[1, 1]] {
                let n = dims.iter().product::<i64>() as usize;
                let a = array(&[0.7, 1.9, 5.3, 0.9][..n], dims);
                Case::new(def, &[]).check_gradient(&[a.clone(), b.clone()]);
                Case::new(def, &[]).check_gradient(&[b.clone(), a]);
            }
            let (a, b) = (vector(DType::F64, &[0.7, 1.9, 5.3]), vector(DType::F64, &[1.2, 0.4, 2.0]));
            Case::new(def, &[]).check_gradient(&[a, b]);
        }
    }

    #[test]
    fn results_agree_for_all_numeric_types() {
        for def in OPS {
            for dtype in [DType::F16, DType::BF16, DType::F32, DType::U8, DType::I8, DType::I32, DType::I64] {
                let (a, b) =
                    (vector(dtype, &[8.0, 2.0, 4.0]).reshape(&[3, 1].into()).unwrap(), vector(dtype, &[2.0, 1.0]));
                let y = Case::new(def, &[]).run1(&[a, b]).unwrap();
                assert_eq!((y.dtype(), y.shape()), (dtype, &[3, 2].into()));
                let expect: Option<[f64; 6]> = match def.name {
                    "broadcast_sub" => Some([6.0, 7.0, 0.0, 1.0, 2.0, 3.0]),
                    "broadcast_div" => Some([4.0, 8.0, 1.0, 2.0, 2.0, 4.0]),
                    "broadcast_greater" => Some([1.0, 1.0, 0.0, 1.0, 1.0, 1.0]),
                    "broadcast_power" => Some([64.0, 8.0, 4.0, 2.0, 16.0, 4.0]),
                    _ => None,
                };
                if let Some(expect) = expect {
                    assert_eq!(y.to_vec_as::<f64>().unwrap(), expect, "{} {dtype}", def.name);
                }
            }
        }
        assert!(Case::new(&ADD, &[]).run1(&[array(&[true], &[1]), array(&[true], &[1])]).is_err());
    }

    #[test]
    fn shapes_are_aligned_at_the_last_axis() {
        let shape =
            |a: &[i64], b: &[i64]| Case::new(&ADD, &[]).shapes(&[Shape::new(a), Shape::new(b)]).map(|s| s[0].clone());
        assert_eq!(shape(&[2, 1, 4], &[5, 1]).unwrap(), [2, 5, 4].into());
        assert_eq!(shape(&[2, -1, 4], &[5, 1]).unwrap(), [2, 5, 4].into());
        assert_eq!(shape(&[2, -1], &[-1, 1]).unwrap(), [2, -1].into());
        assert!(shape(&[2, 1, 4], &[5, 3]).unwrap_err().to_string().contains("4 and 3 on axis 2 differ"));
    }

    #[test]
    fn sums_of_integers_stay_exact_in_gradients() {
        let big = (1i64 << 60) + 1;
        let (a, b) = (array(&[1i64], &[1]), array(&[1i64, 2], &[2]));
        let grads = Case::new(&SUB, &[]).backward(&[a, b], &[array(&[big, 1], &[2])]).unwrap();
        assert_eq!(grads[0].to_vec::<i64>().unwrap(), [big + 1]);
        assert_eq!(grads[1].to_vec::<i64>().unwrap(), [-big, -1]);
    }
}
