//! `_broadcast_backward`, and the gradients of broadcasting operators as graphs, for higher derivatives.

use ferromx_core::error::Result;
use ferromx_core::grad::{Compose, Entry, Grad, GradNode};
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params;
use ferromx_core::params::ShapeOrNone;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::map::{Elements, ElementsMut, Loop};
use ferromx_kernels::reduce::{NumericLane, Sum, reduce_any, reduce_to_shape_any};

use crate::axes::{Axes, reduced, resolve_or_exclude};
use crate::compose::{Graph, op};
use crate::elemwise::family::{Loops, WithLoop, elements, elements_mut, lane_dtype};
use crate::elemwise::formulas::Add;

/// The operators of this file.
pub(crate) static OPS: &[&dyn AnyOperator] = &[&BACKWARD];

params! {
    /// Parameters of `_broadcast_backward`.
    pub struct BackwardParam {
        /// The axes that were broadcast; None or () means all of them.
        axis: ShapeOrNone = (ShapeOrNone(None));
        /// Whether they are kept with length 1.
        keepdims: bool = false;
        /// Whether `axis` names the axes that were not broadcast.
        exclude: bool = false;
        /// Whether the array that was broadcast is a second input; the result then has its shape, and the other parameters are ignored.
        like: bool = false;
    }
}

pub(crate) static BACKWARD: Operator<BackwardParam> = Operator::new("_broadcast_backward")
    .doc("The gradient of an array that was broadcast: the sum of the gradient over the broadcast axes.")
    .inputs(&[
        arg("grad", "The gradient of the result."),
        arg("data", "The array that was broadcast, if `like` is set."),
    ])
    .listed(0)
    .unlisted_params()
    .num_inputs_by(|p| 1 + usize::from(p.get::<BackwardParam>().like))
    .shape(|p, io| {
        let p = p.get::<BackwardParam>();
        if let Some(like) = io.ins.get(1).cloned() {
            return io.assign_out(0, &like);
        }
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        let out = reduced(&io.ins[0], &resolve_or_exclude(&p.axis, p.exclude, rank)?, p.keepdims);
        io.assign_out(0, &out)
    })
    .forward(|ctx, ins, outs| {
        let from = ins[0].shape().to_usize();
        if ins.len() > 1 {
            let to = outs[0].shape().to_usize();
            return sum_to(ctx, &ins[0], (&from, &to), &mut outs[0]);
        }
        let p = ctx.params::<BackwardParam>();
        sum_over(ctx, &ins[0], &from, &resolve_or_exclude(&p.axis, p.exclude, from.len())?, &mut outs[0])
    })
    .grad(Grad::Compose(|graph, n| {
        let mut g = Graph(graph);
        // Addition to zeros of the input's shape broadcasts the gradient back.
        let zeros = g.op(op!(elemwise::identity::ZEROS_LIKE(n.inputs[0])))?;
        let repeated = g.op(op!(broadcast::binary::ADD(zeros, n.ograds[0])))?;
        Ok(std::iter::once(Some(repeated)).chain(n.inputs[1..].iter().map(|_| None)).collect())
    }));

/// Sums an array of shape `from` over the axes that have length 1 in shape `to` or that `to` lacks.
pub(crate) fn sum_to(ctx: &OpCtx<'_>, x: &In<'_>, (from, to): (&[usize], &[usize]), out: &mut Out<'_>) -> Result<()> {
    struct SumTo<'e, 'a, 'x>(Elements<'a>, (&'e [usize], &'e [usize]), ElementsMut<'x>);

    impl WithLoop for SumTo<'_, '_, '_> {
        fn run<C: NumericLane>(self, _: &Loop<C>) -> Result<()> {
            reduce_to_shape_any::<C>(self.0, self.1.0, self.1.1, self.2);
            Ok(())
        }
    }
    if from == to {
        out.bytes_mut()?.copy_from_slice(x.bytes()?);
        return Ok(());
    }
    let dtype = lane_dtype(out.dtype());
    const { &Loops::binary::<Add>() }.select(ctx, dtype, SumTo(elements(x)?, (from, to), elements_mut(out)?))
}

fn sum_over(ctx: &OpCtx<'_>, x: &In<'_>, shape: &[usize], axes: &Axes, out: &mut Out<'_>) -> Result<()> {
    struct Sums<'e, 'a, 'x>(Elements<'a>, &'e [usize], &'e [usize], ElementsMut<'x>);

    impl WithLoop for Sums<'_, '_, '_> {
        fn run<C: NumericLane>(self, _: &Loop<C>) -> Result<()> {
            reduce_any::<Sum, C>(self.0, self.1, self.2, self.3);
            Ok(())
        }
    }
    let sums = Sums(elements(x)?, shape, axes, elements_mut(out)?);
    const { &Loops::binary::<Add>() }.select(ctx, x.dtype(), sums)
}

/// `x` summed over broadcast axes to the shape of `like`.
pub(crate) fn sum_like(g: &mut Graph<'_>, x: Entry, like: Entry) -> Result<Entry> {
    g.op(op!(BACKWARD(x, like), like: true))
}

/// Sums the gradients of the broadcast operands to the shapes of the operands.
fn sum_both(g: &mut Graph<'_>, n: &GradNode<'_>, lhs: Entry, rhs: Entry) -> Result<Vec<Option<Entry>>> {
    Ok(vec![Some(sum_like(g, lhs, n.inputs[0])?), Some(sum_like(g, rhs, n.inputs[1])?)])
}

/// Defines composed gradients of binary operators. `($lhs, $rhs)` are the gradients of the broadcast operands in terms of the output's
/// gradient `$dy`, the operands `$a` and `$b`, and the output `$y`.
macro_rules! gradients {
    ($($(#[$doc:meta])* $name:ident = |$g:ident, $dy:ident, $a:ident, $b:ident, $y:ident| ($lhs:expr, $rhs:expr);)*) => {$(
        $(#[$doc])*
        pub(crate) const $name: Compose = |graph, n| {
            let mut graph = Graph(graph);
            let ($g, $dy, $a, $b, $y) = (&mut graph, n.ograds[0], n.inputs[0], n.inputs[1], n.outputs[0]);
            let _ = ($a, $b, $y);
            let lhs = { $lhs }?;
            let rhs = { $rhs }?;
            sum_both($g, n, lhs, rhs)
        };
    )*};
}

gradients! {
    /// The gradient of a + b.
    ADD = |g, dy, a, b, y| (g.identity(dy), g.identity(dy));
    /// The gradient of a - b.
    SUB = |g, dy, a, b, y| (g.identity(dy), g.scale(dy, -1.0));
    /// The gradient of a * b.
    MUL = |g, dy, a, b, y| (g.op(op!(broadcast::binary::MUL(dy, b))), g.op(op!(broadcast::binary::MUL(dy, a))));
    /// The gradient of a / b.
    DIV = |g, dy, a, b, y| (g.op(op!(broadcast::binary::DIV(dy, b))), {
        let term = g.op(op!(broadcast::binary::MUL(dy, y)))?;
        let term = g.op(op!(broadcast::binary::DIV(term, b)))?;
        g.scale(term, -1.0)
    });
    /// The gradient of the remainder of a / b.
    MOD = |g, dy, a, b, y| (g.identity(dy), {
        let quotient = g.op(op!(broadcast::binary::DIV(a, b)))?;
        let floored = g.op(op!(elemwise::unary::FLOOR(quotient)))?;
        let product = g.op(op!(broadcast::binary::MUL(dy, floored)))?;
        g.scale(product, -1.0)
    });
    /// The gradient of a to the power b.
    POWER = |g, dy, a, b, y| ({
        let exponent = g.affine(b, 1.0, -1.0)?;
        let power = g.op(op!(broadcast::binary::POWER(a, exponent)))?;
        let derivative = g.op(op!(broadcast::binary::MUL(power, b)))?;
        g.mul(dy, derivative)
    }, {
        let log = g.op(op!(elemwise::unary::LOG(a)))?;
        let derivative = g.op(op!(broadcast::binary::MUL(y, log)))?;
        g.mul(dy, derivative)
    });
    /// The gradient of sqrt(a^2 + b^2).
    HYPOT = |g, dy, a, b, y| ({
        let derivative = g.op(op!(broadcast::binary::DIV(a, y)))?;
        g.mul(dy, derivative)
    }, {
        let derivative = g.op(op!(broadcast::binary::DIV(b, y)))?;
        g.mul(dy, derivative)
    });
    /// The gradient of max(a, b).
    MAXIMUM = |g, dy, a, b, y| ({
        let mask = g.op(op!(broadcast::binary::GREATER_EQUAL(a, b)))?;
        g.mul(dy, mask)
    }, {
        let mask = g.op(op!(broadcast::binary::LESSER(a, b)))?;
        g.mul(dy, mask)
    });
    /// The gradient of min(a, b).
    MINIMUM = |g, dy, a, b, y| ({
        let mask = g.op(op!(broadcast::binary::LESSER_EQUAL(a, b)))?;
        g.mul(dy, mask)
    }, {
        let mask = g.op(op!(broadcast::binary::GREATER(a, b)))?;
        g.mul(dy, mask)
    });
}

/// The gradient of `broadcast_to` and its relatives. Inputs after the first only give the shape and have none.
pub(crate) const BROADCAST: Compose = |graph, n| {
    let mut g = Graph(graph);
    let first = sum_like(&mut g, n.ograds[0], n.inputs[0])?;
    Ok(std::iter::once(Some(first)).chain(n.inputs[1..].iter().map(|_| None)).collect())
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn gradients_are_summed_over_axes_or_to_a_shape() {
        let x = || array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
        let kept = Case::new(&BACKWARD, &[("axis", "(1,)"), ("keepdims", "True")]).run1(&[x()]).unwrap();
        assert_eq!((kept.shape().dims(), kept.to_vec::<f64>().unwrap()), (&[2, 1][..], vec![6.0, 15.0]));
        let like = Case::new(&BACKWARD, &[("like", "True")]);
        let sum = like.run1(&[x(), array(&[0.0; 3], &[3])]).unwrap();
        assert_eq!(sum.to_vec::<f64>().unwrap(), [5.0, 7.0, 9.0]);
        like.check_gradient(&[x(), array(&[0.0; 2], &[2, 1])]);
        Case::new(&BACKWARD, &[("axis", "0")]).check_gradient(&[x()]);
    }
}
