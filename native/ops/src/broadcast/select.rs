//! `where`: selection by a condition between arrays or numbers.

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::map::Elements;
use ferromx_kernels::movement;
use ferromx_kernels::par::{Pod, with_scratch};
use ferromx_kernels::select::{self, nonzero_mask, select_by};

use super::binary::{BroadcastSum, broadcast_shapes, broadcast_sum, broadcast_two};
use crate::compose::op;
use crate::elemwise::family::{Arg, Binary, Loops, broadcast_loops, elements, elements_mut, formula};
use crate::rules::{no_gradient, one_dtype_of};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&WHERE, &NP_WHERE, &WHERE_LSCALAR, &WHERE_RSCALAR, &WHERE_SCALAR2];

pub(crate) static WHERE: Operator = Operator::new("where")
    .aliases(&["_sparse_where"])
    .doc(
        "Takes elements of x where the condition is not 0, and of y elsewhere. The condition has the shape of x, or is a vector with \
         one element for each index of the first axis of x.",
    )
    .inputs(&[
        arg("condition", "The condition, of any type: an array of the shape of x, or a vector with one element per row of x."),
        arg("x", "The elements for a true condition."),
        arg("y", "The elements for a false condition, of the shape and type of x."),
    ])
    .shape(where_shape)
    .dtype(|_, io| one_dtype_of(io, [1, 2]))
    .forward(where_forward)
    .grad(Grad::Compose(|g, n| {
        let zeros = g.op(op!(elemwise::identity::ZEROS_LIKE(n.ograds[0])))?;
        let x = g.op(op!(WHERE(n.inputs[0], n.ograds[0], zeros)))?;
        let y = g.op(op!(WHERE(n.inputs[0], zeros, n.ograds[0])))?;
        Ok(vec![None, Some(x), Some(y)])
    }));

fn where_shape(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let mut common = io.outs[0].clone();
    for i in [1, 2] {
        io.assign_in(i, &common)?;
        common = io.ins[i].clone();
    }
    io.assign_in(1, &common)?;
    io.assign_out(0, &common)?;
    let (condition, x) = (&io.ins[0], &io.ins[1]);
    match (condition.ndim(), x.ndim()) {
        (Some(1), Some(n)) if n != 1 => {
            ensure!(n > 0, "a vector cannot be the condition for x of shape {x}");
            let (rows, have) = (x.dim(0), condition.dim(0));
            ensure!(
                rows < 0 || have < 0 || rows == have,
                "the condition has {have} elements, but x of shape {x} has {rows} rows: give one for each, or an array of the shape of x"
            );
            io.assign_in(0, &Shape::new(&[rows]))
        }
        (Some(_), Some(_)) => {
            io.assign_in(0, &common)?;
            let condition = io.ins[0].clone();
            io.assign_in(1, &condition)?;
            io.assign_in(2, &condition)?;
            io.assign_out(0, &condition)
        }
        _ => Ok(()),
    }
}

fn where_forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (condition, x, y, out) = (&ins[0], &ins[1], &ins[2], &mut outs[0]);
    if out.is_empty() {
        return Ok(());
    }
    // With a vector as the condition, an element applies to a whole row of x.
    let row_len = out.len() / condition.len();
    dispatch!(condition.dtype(), C in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        let condition = condition.slice::<C>()?;
        select_by_mask(&|offset, mask: &mut [bool]| nonzero_mask(condition, row_len, offset, mask), x, y, out)
    }, d => Err(ctx.unsupported(d, &DType::ALL)))
}

/// Selects elements of x where the mask is true, otherwise of y; see [`select_by`].
fn select_by_mask(
    load_mask: &(dyn Fn(usize, &mut [bool]) + Sync),
    x: &In<'_>,
    y: &In<'_>,
    out: &mut Out<'_>,
) -> Result<()> {
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        select_by(load_mask, x.slice::<T>()?, y.slice::<T>()?, out.slice_mut::<T>()?);
        Ok(())
    }, d => Err(Error::Internal(format!("no choice of {d}"))))
}

pub(crate) static NP_WHERE: Operator = Operator::new("_npi_where")
    .doc("Takes elements of x where the condition is not 0, and of y elsewhere. The three arrays are broadcast.")
    .inputs(&[
        arg("condition", "The condition, of any type."),
        arg("x", "The elements for a true condition."),
        arg("y", "The elements for a false condition, of the type of x."),
    ])
    .shape(|_, io| {
        if io.ins.iter().any(|s| !s.ndim_is_known()) {
            return Ok(());
        }
        let values = broadcast_two(&io.ins[1], &io.ins[2])?;
        let out = broadcast_two(&io.ins[0], &values)?;
        io.assign_out(0, &out)
    })
    .dtype(|_, io| one_dtype_of(io, [1, 2]))
    .forward(|_, ins, outs| select(&ins[0], Value::Array(&ins[1]), Value::Array(&ins[2]), &mut outs[0]))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let [condition, x, y] = outs else { return Err(Error::Internal("where has three inputs".into())) };
            no_gradient(condition)?;
            masked_gradient::<WhereTrue>(ctx, ins, x)?;
            masked_gradient::<WhereFalse>(ctx, ins, y)
        })
        .inputs(Deps::Some(&[0])),
        None,
    ));

params! {
    /// Parameters of `_npi_where_lscalar` and `_npi_where_rscalar`.
    pub struct WhereScalarParam {
        /// The number.
        scalar: f64 = 0.0;
    }
}

/// Defines a selection between an array and a number.
macro_rules! where_with_scalar {
    ($name:ident: $op:literal, $array:literal, $doc:literal, |$x:ident, $s:ident| ($left:expr, $right:expr), $F:ident) => {
        pub(crate) static $name: Operator<WhereScalarParam> = Operator::new($op)
            .doc($doc)
            .inputs(&[
                arg("condition", "The condition, of any type."),
                arg($array, "The array, broadcast with the condition."),
            ])
            .shape(broadcast_shapes)
            .dtype(|_, io| {
                let Some(d) = io.ins[1].or(io.outs[0]) else { return Ok(()) };
                io.assign_in(1, d)?;
                io.assign_out(0, d)
            })
            .forward(|ctx, ins, outs| {
                let ($x, $s) = (Value::Array(&ins[1]), Value::Number(ctx.params::<WhereScalarParam>().scalar));
                select(&ins[0], $left, $right, &mut outs[0])
            })
            .grad(Grad::Kernel(
                Backward::new(|ctx, ins, outs| {
                    no_gradient(&mut outs[0])?;
                    masked_gradient::<$F>(ctx, ins, &mut outs[1])
                })
                .inputs(Deps::Some(&[0])),
                None,
            ));
    };
}

where_with_scalar!(WHERE_LSCALAR: "_npi_where_lscalar", "x", "The scalar where the condition is not 0, and elements of x elsewhere.",
    |x, s| (s, x), WhereFalse);

where_with_scalar!(WHERE_RSCALAR: "_npi_where_rscalar", "y", "Elements of y where the condition is not 0, and the scalar elsewhere.",
    |y, s| (y, s), WhereTrue);

params! {
    /// Parameters of `_npi_where_scalar2`.
    pub struct WhereScalar2Param {
        /// The value for a true condition.
        x: f64 = 0.0;
        /// The value for a false condition.
        y: f64 = 0.0;
    }
}

pub(crate) static WHERE_SCALAR2: Operator<WhereScalar2Param> = Operator::new("_npi_where_scalar2")
    .doc("One number where the condition is not 0, and another elsewhere, as float32.")
    .inputs(&[arg("condition", "The condition, of any type.")])
    .dtype(|_, io| io.assign_out(0, DType::F32))
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<WhereScalar2Param>();
        select(&ins[0], Value::Number(p.x), Value::Number(p.y), &mut outs[0])
    })
    .grad(Grad::Zero);

/// An operand from which elements are selected.
#[derive(Clone, Copy)]
enum Value<'a, 'b> {
    Array(&'b In<'a>),
    Number(f64),
}

/// Calls `f` with the elements of an operand in shape `to`, broadcast to a scratch buffer if the operand has another shape.
fn with_operand<T: Element + Pod, R>(value: Value<'_, '_>, to: &[usize], f: impl FnOnce(&[T]) -> R) -> Result<R> {
    let x = match value {
        Value::Array(x) => x,
        Value::Number(s) => {
            return Ok(with_scratch(to.iter().product(), |all: &mut [T]| {
                all.fill(T::from_f64(s));
                f(all)
            }));
        }
    };
    let from = x.shape().to_usize();
    if from[..] == *to {
        return Ok(f(x.slice::<T>()?));
    }
    let x = x.slice::<T>()?;
    Ok(with_scratch(to.iter().product(), |all: &mut [T]| {
        movement::broadcast_to(x, &from, (&mut *all, to));
        f(all)
    }))
}

/// `out = x where condition, else y`.
fn select(condition: &In<'_>, x: Value<'_, '_>, y: Value<'_, '_>, out: &mut Out<'_>) -> Result<()> {
    let shape = out.shape().to_usize();
    let mask = broadcast_mask(condition, &shape)?;
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        let out = out.slice_mut::<T>()?;
        with_operand::<T, _>(x, &shape, |x| with_operand::<T, _>(y, &shape, |y| select::select(&mask, x, y, out)))?
    }, d => match d {
        DType::Bool => {
            let broadcast = |v: Value<'_, '_>| -> Result<Vec<bool>> {
                match v {
                    Value::Number(s) => Ok(vec![s != 0.0; mask.len()]),
                    Value::Array(x) => {
                        let (from, x) = (x.shape().to_usize(), x.slice::<bool>()?);
                        let mut elements = vec![false; mask.len()];
                        movement::broadcast_to(x, &from, (&mut elements, &shape));
                        Ok(elements)
                    }
                }
            };
            let (x, y) = (broadcast(x)?, broadcast(y)?);
            select::select(&mask, &x, &y, out.slice_mut::<bool>()?);
            Ok(())
        }
        d => Err(Error::Internal(format!("no choice of {d}"))),
    })
}

/// The condition as booleans, broadcast to a shape.
fn broadcast_mask(condition: &In<'_>, shape: &[usize]) -> Result<Vec<bool>> {
    let from = condition.shape().to_usize();
    let mut mask = vec![false; condition.len()];
    dispatch!(condition.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        nonzero_mask(condition.slice::<T>()?, 1, 0, &mut mask);
    }, d => return Err(Error::Internal(format!("no condition of {d}"))));
    if from[..] == *shape {
        return Ok(mask);
    }
    let mut broadcast = vec![false; shape.iter().product()];
    movement::broadcast_to(&mask, &from, (&mut broadcast, shape));
    Ok(broadcast)
}

formula!(Binary WhereTrue = |g, c| if c != 0.0 { g } else { 0.0 }, int |g, c| if c != 0 { g } else { 0 });
formula!(Binary WhereFalse = |g, c| if c != 0.0 { 0.0 } else { g }, int |g, c| if c != 0 { 0 } else { g });

/// The gradient of one operand: the output's gradient where the operand was selected, summed over broadcast axes.
fn masked_gradient<F: Binary>(ctx: &OpCtx<'_>, ins: &[In<'_>], out: &mut Out<'_>) -> Result<()> {
    if !out.wanted() {
        return Ok(());
    }
    let (g, shape, to) = (&ins[0], ins[0].shape().to_usize(), out.shape().to_usize());
    let mask = broadcast_mask(&ins[1], &shape)?;
    let operands = [(Arg::Elements(elements(g)?), &shape[..]), (Arg::Elements(Elements::Bool(&mask)), &shape[..])];
    let (loops, dtype, out) = (const { &Loops::binary::<F>() }, out.dtype(), elements_mut(out)?);
    if shape == to {
        return broadcast_loops(ctx, loops, dtype, operands, (out, &shape));
    }
    broadcast_sum(ctx, loops, dtype, BroadcastSum { operands, multiplier: None, shape: &shape, to: &to, out })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, vector};

    #[test]
    fn where_selects_elements_or_rows() {
        let (x, y) = (array(&[1f64, 2.0, 3.0, 4.0], &[2, 2]), array(&[-1f64, -2.0, -3.0, -4.0], &[2, 2]));
        let run = |c| Case::new(&WHERE, &[]).run1(&[c, x.clone(), y.clone()]).unwrap().to_vec::<f64>().unwrap();
        assert_eq!(run(array(&[1i32, 0, 0, -5], &[2, 2])), [1.0, -2.0, -3.0, 4.0]);
        assert_eq!(run(array(&[0f32, f32::NAN], &[2])), [-1.0, -2.0, 3.0, 4.0]);
        Case::new(&WHERE, &[]).check_gradient(&[array(&[1f32, 0.0, 0.0, 2.0], &[2, 2]), x.clone(), y.clone()]);
    }

    #[test]
    fn where_refuses_conditions_of_another_shape() {
        let shapes = |c: &[i64]| Case::new(&WHERE, &[]).shapes(&[Shape::new(c), Shape::new(&[2, 3]), Shape::unknown()]);
        assert_eq!(shapes(&[2]).unwrap(), [Shape::new(&[2, 3])]);
        assert!(shapes(&[3]).unwrap_err().to_string().contains("has 3 elements, but x of shape [2,3] has 2 rows"));
        assert!(shapes(&[2, 1]).is_err());
    }

    #[test]
    fn gradients_go_to_the_selected_operand() {
        let condition = array(&[1i32, 0, 0, 2, 1, 0], &[2, 3]);
        let x = array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
        Case::new(&NP_WHERE, &[]).check_gradient(&[condition.clone(), x.clone(), array(&[7.0, 8.0], &[2, 1])]);
        Case::new(&NP_WHERE, &[]).check_gradient(&[array(&[1f32], &[]), array(&[7.0], &[]), x.clone()]);
        Case::new(&WHERE_LSCALAR, &[("scalar", "2.5")]).check_gradient(&[condition.clone(), x.clone()]);
        Case::new(&WHERE_RSCALAR, &[("scalar", "2.5")]).check_gradient(&[condition, array(&[1.0, 2.0, 3.0], &[3])]);
    }

    #[test]
    fn every_type_is_supported() {
        for dtype in DType::ALL {
            let ins = [array(&[true, false], &[2]), vector(dtype, &[1.0, 1.0]), vector(dtype, &[0.0, 0.0])];
            let y = Case::new(&NP_WHERE, &[]).run1(&ins).unwrap();
            assert_eq!((y.dtype(), y.to_vec_as::<f64>().unwrap()), (dtype, vec![1.0, 0.0]));
            let run = |def| Case::new(def, &[("scalar", "1")]).run1(&ins[..2]).unwrap().to_vec_as::<f64>().unwrap();
            assert_eq!((run(&WHERE_LSCALAR), run(&WHERE_RSCALAR)), (vec![1.0, 1.0], vec![1.0, 1.0]));
        }
        let y = Case::new(&WHERE_SCALAR2, &[("x", "1.5"), ("y", "-2")]).run1(&[array(&[0.1f64, 0.0], &[2])]).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [1.5, -2.0]);
    }
}
