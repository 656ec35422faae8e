//! The L1 and L2 norm over axes.

use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Compose, Grad};
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params;
use ferromx_core::params::{NormDType, Params, ShapeOrNone};
use ferromx_core::sparse::StorageType;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::map::{Elements, Lane};
use ferromx_kernels::par::with_scratch;
use ferromx_kernels::reduce::{self, L1Norm, L2Norm, NumericLane, Reducer};

use super::family::{ReductionGradient, broadcast_args};
use crate::axes::{keepdims_shape, reduced, resolve};
use crate::compose::{Graph, op};
use crate::elemwise::family::{Arg, Binary, Loops, elements, elements_mut, formula};
use crate::elemwise::formulas::Mul;

params! {
    /// Parameters of `norm`.
    pub struct NormParam {
        /// The order of the norm, 1 or 2.
        ord: i32 = 2;
        /// The axes to reduce; a negative one counts from the end. None or () reduces all.
        axis: ShapeOrNone = (ShapeOrNone(None));
        /// The type of the result; None is the type of the input.
        out_dtype: Option<NormDType> = None;
        /// Whether reduced axes are kept with length 1.
        keepdims: bool = false;
    }
}

pub(crate) static NORM: Operator<NormParam> = Operator::new("norm")
    .aliases(&["_sparse_norm"])
    .doc(
        "The norm of the vectors along the given axes: the sum of absolute values for ord=1, the square root of the sum of squares \
         for ord=2. A result of one element has shape (1).",
    )
    .inputs(&[arg("data", "The array.")])
    .shape(|p, io| {
        let p = p.get::<NormParam>();
        ensure!(matches!(p.ord, 1 | 2), "norm: ord={} is not supported: use 1 or 2", p.ord);
        let Some(n) = io.ins[0].ndim() else { return Ok(()) };
        let out = reduced(&io.ins[0], &resolve(&p.axis, n)?, p.keepdims);
        io.assign_out(0, &out)
    })
    .dtype(|p, io| match (p.get::<NormParam>().out_dtype, io.ins[0]) {
        (Some(d), _) => io.assign_out(0, d.0),
        (None, Some(d)) => io.assign_out(0, d),
        (None, None) => io.outs[0].map_or(Ok(()), |d| io.assign_in(0, d)),
    })
    .sparse(storage_rule, super::sparse::norm)
    .forward(forward)
    .grad(Grad::Kernel(Backward::new(backward).inputs(Deps::All).outputs(Deps::All), Some(COMPOSE)));

/// Storage rule: the norm of all elements only depends on the stored ones.
fn storage_rule(p: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    let has_all_axes = p.get::<NormParam>().axis.0.as_ref().is_none_or(|axes| axes.dims().is_empty());
    (has_all_axes && ins[0] != StorageType::Default).then_some(StorageType::Default)
}

/// The derivative of a norm with respect to an element.
trait Norm: Binary {
    /// Computes the norm.
    type Reducer: Reducer<f32> + Reducer<f64>;
}

formula!(Binary
    /// The derivative of the L1 norm with respect to an element.
    Sign = |x, _norm| if x > 0.0 { 1.0 } else if x < 0.0 { -1.0 } else { 0.0 });
formula!(Binary
    /// The derivative of the L2 norm with respect to an element.
    ElementOverNorm = |x, norm| x / norm);

impl Norm for Sign {
    type Reducer = L1Norm;
}

impl Norm for ElementOverNorm {
    type Reducer = L2Norm;
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    match ctx.params::<NormParam>().ord {
        1 => forward_as::<Sign>(ctx, &ins[0], &mut outs[0]),
        _ => forward_as::<ElementOverNorm>(ctx, &ins[0], &mut outs[0]),
    }
}

fn forward_as<F: Norm>(ctx: &OpCtx<'_>, x: &In<'_>, out: &mut Out<'_>) -> Result<()> {
    let shape = x.shape().to_usize();
    let axes = resolve(&ctx.params::<NormParam>().axis, shape.len())?;
    let x = elements(x)?;
    if let Elements::F64(_) = x {
        return reduce_into::<F::Reducer, f64>(x, &shape, &axes, out).map(|_| ());
    }
    match reduce_into::<F::Reducer, f32>(x, &shape, &axes, out)? {
        Range::Finite => Ok(()),
        // Squares overflow single precision before their root does.
        Range::Overflow => reduce_into::<F::Reducer, f64>(x, &shape, &axes, out).map(|_| ()),
    }
}

/// Whether a reduction stayed within the range of its lanes.
enum Range {
    Finite,
    Overflow,
}

/// Reduces in lanes of type `C`, then converts to the output's type.
fn reduce_into<R: Reducer<C>, C: NumericLane>(
    x: Elements<'_>,
    shape: &[usize],
    axes: &[usize],
    out: &mut Out<'_>,
) -> Result<Range> {
    with_scratch(out.len(), |norms: &mut [C]| {
        reduce::reduce_any::<R, C>(x, shape, axes, C::elements_mut(norms));
        elements_mut(out)?.set_each(&|i| norms[i].to_f64());
        Ok(if norms.iter().all(|n| n.to_f64().is_finite()) { Range::Finite } else { Range::Overflow })
    })
}

fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    match ctx.params::<NormParam>().ord {
        1 => backward_as::<Sign>(ctx, ins, &mut outs[0]),
        _ => backward_as::<ElementOverNorm>(ctx, ins, &mut outs[0]),
    }
}

fn backward_as<F: Norm>(ctx: &OpCtx<'_>, ins: &[In<'_>], out: &mut Out<'_>) -> Result<()> {
    let shape = out.shape().to_usize();
    let axes = resolve(&ctx.params::<NormParam>().axis, shape.len())?;
    let reduced_shape = keepdims_shape(out.shape(), &axes);
    // The norms and their gradients may have another type than the input.
    with_scratch(reduced_shape.iter().product(), |norms: &mut [f64]| {
        f64::load_any(elements(&ins[2])?, 0, norms);
        let norms_arg = Arg::Elements(Elements::F64(norms));
        broadcast_args(ctx, const { &Loops::binary::<F>() }, Arg::Array(&ins[1]), norms_arg, &axes, out)?;
        let grads = norms;
        f64::load_any(elements(&ins[0])?, 0, grads);
        broadcast_args(
            ctx,
            const { &Loops::binary::<Mul>() },
            Arg::Output,
            Arg::Elements(Elements::F64(grads)),
            &axes,
            out,
        )
    })
}

const COMPOSE: Compose = |graph, n| {
    let mut graph = Graph(graph);
    let params = NormParam { keepdims: true, ..n.params.get::<NormParam>().clone() };
    let r = ReductionGradient::new(&mut graph, &NORM, params, n)?;
    let d = match n.params.get::<NormParam>().ord {
        1 => r.g.op(op!(elemwise::unary::SIGN(r.x)))?,
        _ => r.g.op(op!(broadcast::binary::DIV(r.x, r.y)))?,
    };
    Ok(vec![Some(r.g.op(op!(broadcast::binary::MUL(d, r.grad)))?)])
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close, vector};
    use ferromx_core::dtype::DType;

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x = || array(&[1.0, -3.0, 0.5, 2.0, -0.25, 4.0], &[2, 3]);
        for ord in ["1", "2"] {
            for axis in ["None", "0", "-1"] {
                Case::new(&NORM, &[("ord", ord), ("axis", axis)]).check_gradient(&[x()]);
            }
        }
    }

    #[test]
    fn norms_have_the_type_of_the_array_or_out_dtype() {
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I8, DType::U8, DType::I32, DType::I64] {
            let y = Case::new(&NORM, &[]).run1(&[vector(dtype, &[3.0, 4.0])]).unwrap();
            assert_eq!((y.dtype(), y.to_vec_as::<f64>().unwrap()), (dtype, vec![5.0]));
        }
        let wide = Case::new(&NORM, &[("out_dtype", "float64")]);
        let x = array(&[1f32, 3.0], &[2]);
        let y = wide.run1(std::slice::from_ref(&x)).unwrap();
        assert_eq!(y.dtype(), DType::F64);
        let g = wide.backward(&[x], &[array(&[2f64], &[1])]).unwrap();
        close(&g[0].to_vec_as::<f64>().unwrap(), &[2.0 / 10f64.sqrt(), 6.0 / 10f64.sqrt()], 1e-6);
        let e = Case::new(&NORM, &[("ord", "3")]).shapes(&[[2].into()]).unwrap_err().to_string();
        assert!(e.contains("ord=3 is not supported"), "{e}");
    }
}
