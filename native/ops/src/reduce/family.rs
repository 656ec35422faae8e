//! What reductions share: parameters, shape rules, and gradients that broadcast a reduced array back.

use ferromx_core::error::Result;
use ferromx_core::grad::{Entry, GradNode};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{OpCtx, Operation, Operator};
use ferromx_core::params::{OpParams, Params, PrintParams, ShapeOrNone};
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};

use crate::axes::{keepdims_shape, numpy_axes, numpy_reduced, reduced, resolve_or_exclude};
use crate::compose::{Graph, op};
use crate::elemwise::family::{Arg, Binary, Loops, broadcast_loops, elements_mut};
use crate::elemwise::formulas::Mul;

params! {
    /// Parameters of the reductions.
    pub struct ReduceParam {
        /// The axes to reduce; a negative one counts from the end. None or () reduces all.
        axis: ShapeOrNone = (ShapeOrNone(None));
        /// Whether reduced axes are kept with length 1.
        keepdims: bool = false;
        /// Whether `axis` names the axes that are not reduced.
        exclude: bool = false;
    }
}

/// The shape rule of operators with [`ReduceParam`].
pub(crate) fn reduce_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<ReduceParam>();
    let Some(n) = io.ins[0].ndim() else { return Ok(()) };
    let axes = resolve_or_exclude(&p.axis, p.exclude, n)?;
    let out = reduced(&io.ins[0], &axes, p.keepdims);
    io.assign_out(0, &out)
}

/// `out = F(x, y)`, where `y` is reduced over the axes and broadcast, and `x` has the output's shape.
pub(crate) fn broadcast_binary<F: Binary>(
    ctx: &OpCtx<'_>,
    x: &In<'_>,
    y: &In<'_>,
    axes: &[usize],
    out: &mut Out<'_>,
) -> Result<()> {
    broadcast_args(ctx, const { &Loops::binary::<F>() }, Arg::Array(x), Arg::Array(y), axes, out)
}

/// `out = F(y, scalar)`, where `y` is reduced over the axes and broadcast.
pub(crate) fn broadcast_scalar<F: Binary>(
    ctx: &OpCtx<'_>,
    y: &In<'_>,
    scalar: f64,
    axes: &[usize],
    out: &mut Out<'_>,
) -> Result<()> {
    let (shape, reduced_shape) = (out.shape().to_usize(), keepdims_shape(out.shape(), axes));
    let operands = [(Arg::Array(y), &reduced_shape[..]), (Arg::Number(scalar), &[][..])];
    broadcast_loops(ctx, const { &Loops::binary::<F>() }, out.dtype(), operands, (elements_mut(out)?, &shape))
}

/// `out *= y`, where `y` is reduced over the axes and broadcast.
pub(crate) fn multiply_broadcast(ctx: &OpCtx<'_>, y: &In<'_>, axes: &[usize], out: &mut Out<'_>) -> Result<()> {
    broadcast_args(ctx, const { &Loops::binary::<Mul>() }, Arg::Output, Arg::Array(y), axes, out)
}

/// `out = f(x, y)`, where `y` is reduced over the axes and broadcast, and `x` has the output's shape.
pub(crate) fn broadcast_args(
    ctx: &OpCtx<'_>,
    loops: &Loops,
    x: Arg<'_, '_>,
    y: Arg<'_, '_>,
    axes: &[usize],
    out: &mut Out<'_>,
) -> Result<()> {
    let (shape, reduced_shape) = (out.shape().to_usize(), keepdims_shape(out.shape(), axes));
    broadcast_loops(ctx, loops, out.dtype(), [(x, &shape), (y, &reduced_shape)], (elements_mut(out)?, &shape))
}

/// The operands of the gradient of a reduction, composed of operators that are themselves differentiable.
pub(crate) struct ReductionGradient<'a, 'g, P> {
    /// The graph.
    pub g: &'a mut Graph<'g>,
    /// The input.
    pub x: Entry,
    /// The output, with reduced axes of length 1.
    pub y: Entry,
    /// The gradient of the output, with reduced axes of length 1.
    pub grad: Entry,
    /// The parameters, with `keepdims`.
    pub params: P,
}

impl<'a, 'g, P: PrintParams> ReductionGradient<'a, 'g, P> {
    /// Applies the reduction again with `params`, which have `keepdims`, because the gradient is broadcast from that shape.
    pub(crate) fn new(
        g: &'a mut Graph<'g>,
        operator: &'static Operator<P>,
        params: P,
        n: &GradNode<'_>,
    ) -> Result<ReductionGradient<'a, 'g, P>> {
        let y = g.op(Operation::new(operator).input(n.inputs[0]).with_rest(operator, &params))?;
        let grad = g.op(op!(shape::reshape::RESHAPE_LIKE(n.ograds[0], y)))?;
        Ok(ReductionGradient { g, x: n.inputs[0], y, grad, params })
    }

    /// The gradient of the output, broadcast to the shape of the input.
    pub(crate) fn grad(&mut self) -> Result<Entry> {
        self.g.op(op!(broadcast::expand::BROADCAST_LIKE(self.grad, self.x)))
    }
}

/// The parameters of a reduction by NumPy's rules.
pub(crate) trait OverAxes: OpParams {
    /// The axes, before they are resolved.
    fn axis(&self) -> &ShapeOrNone;
    /// Whether reduced axes are kept.
    fn keepdims(&self) -> bool;
    /// The initial value, if there is one.
    fn initial(&self) -> Option<f64> {
        None
    }
}

/// Implements [`OverAxes`] for parameters with the fields `axis`, `keepdims` and, if it is named, `initial`.
macro_rules! over_axes {
    ($param:ty $(, $initial:ident)?) => {
        impl $crate::reduce::family::OverAxes for $param {
            fn axis(&self) -> &ferromx_core::params::ShapeOrNone {
                &self.axis
            }
            fn keepdims(&self) -> bool {
                self.keepdims
            }
            $(fn initial(&self) -> Option<f64> {
                self.$initial
            })?
        }
    };
}
pub(crate) use over_axes;

/// The shape rule of reductions of the NumPy interface.
pub(crate) fn numpy_reduced_shape<P: OverAxes>(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<P>();
    ensure!(p.initial().is_none(), "initial is not supported: combine the result with the initial value");
    let Some(n) = io.ins[0].ndim() else { return Ok(()) };
    let out = numpy_reduced(&io.ins[0], &numpy_axes(p.axis(), n)?, p.keepdims());
    io.assign_out(0, &out)
}
