//! `polyval`: evaluation of polynomials by Horner's rule.

use ferromx_core::dtype::{bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::op::{AnyOperator, Deps, OpCtx, Operator, arg};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure};
use ferromx_kernels::map::{Arith, Lane, Src};
use ferromx_kernels::par;
use ferromx_kernels::polynomial::{Evaluate, horner};
use ferromx_kernels::reduce::{self, NumericLane, Sum};
use ferromx_kernels::zip::zip;

use super::family::{NUMERIC, elements, elements_mut, load_lanes};
use crate::rules::{OUTPUT_GRADIENT, no_gradient, shapes_of_inputs};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&POLYVAL, &BACKWARD_POLYVAL];

pub(super) static POLYVAL: Operator = Operator::new("_npi_polyval")
    .doc("The polynomial p[0] x^(n-1) + ... + p[n-2] x + p[n-1] at each element of x, by Horner's rule.")
    .inputs(&[
        arg("p", "The coefficients, a vector; that of the highest power comes first."),
        arg("x", "The points at which to evaluate."),
    ])
    .shape(|_, io| {
        if let Some(rank) = io.ins[0].ndim() {
            ensure!(rank == 1, "ValueError: p has to be an 1-D array, but its shape is {}", io.ins[0]);
        }
        let x = io.ins[1].clone();
        io.assign_out(0, &x)?;
        let out = io.outs[0].clone();
        io.assign_in(1, &out)
    })
    .forward(|ctx, ins, outs| {
        dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
            let (p, x) = (elements(&ins[0])?, elements(&ins[1])?);
            par::with_scratch(x.len(), |y: &mut [<T as Arith>::Lane]| {
                horner(p, x, y, Evaluate::Polynomial);
                Lane::store_any(y, elements_mut(&mut outs[0])?);
                Ok(())
            })
        }, d => Err(ctx.unsupported(d, NUMERIC)))
    })
    .grad(Grad::Kernel(Backward::new(polyval_backward).inputs(Deps::All), None));

pub(super) static BACKWARD_POLYVAL: Operator = Operator::new("_npi_backward_polyval")
    .doc("The gradients of `_npi_polyval`: the sums of grad * x^(n-1-k) for coefficient k, and grad times the derivative for x.")
    .inputs(&[OUTPUT_GRADIENT, arg("p", "The coefficients."), arg("x", "The points at which the polynomial was evaluated.")])
    .listed(0)
    .outputs(|_| 2)
    .shape(|_, io| shapes_of_inputs(io, 1))
    .forward(polyval_backward);

/// Up to this number of elements, a plain loop is faster than a call of a multiversioned kernel.
const MAX_PLAIN_LOOP: usize = 32;

/// `dp[k] = sum(g x^(n-1-k))`, `dx = g p'(x)`.
fn polyval_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16] => {
        polyval_gradients::<<T as Arith>::Lane>(ins, outs)
    }, d => match NUMERIC.contains(&d) {
        // Integers have no gradient in MXNet.
        true => outs.iter_mut().try_for_each(no_gradient),
        false => Err(ctx.unsupported(d, NUMERIC)),
    })
}

fn polyval_gradients<C: NumericLane>(ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (g, p, x) = (load_lanes::<C>(&ins[0])?, elements(&ins[1])?, elements(&ins[2])?);
    let [dp, dx] = outs else { return Err(Error::Internal("polyval has two inputs".into())) };
    if dx.wanted() {
        let mut d = vec![C::ZERO; g.len()];
        horner(p, x, &mut d, Evaluate::Derivative);
        zip(Src::<C>::InPlace, Src::Slice(&g), &mut d, C::times);
        C::store_any(&d, elements_mut(dx)?);
    }
    if dp.wanted() {
        // The terms g x^k of the gradient of the coefficient of x^k, from k = 0.
        let (mut terms, points) = (g, load_lanes::<C>(&ins[2])?);
        let mut sums = vec![C::ZERO; p.len()];
        for sum in sums.iter_mut().rev() {
            if terms.len() <= MAX_PLAIN_LOOP {
                *sum = terms.iter().fold(C::ZERO, |sum, term| sum.plus(*term));
                terms.iter_mut().zip(&points).for_each(|(term, x)| *term = term.times(*x));
                continue;
            }
            reduce::reduce::<Sum, C, C, C>(&terms, &[terms.len()], &[0], std::slice::from_mut(sum));
            zip(Src::<C>::InPlace, Src::Slice(&points), &mut terms, C::times);
        }
        C::store_any(&sums, elements_mut(dp)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x = array(&[0.5, -1.5, 2.0, 1.0], &[2, 2]);
        Case::new(&POLYVAL, &[]).check_gradient(&[array(&[2.0, -1.0, 0.5], &[3]), x]);
    }
}
