//! Cumulative sums, and differences of adjacent elements.

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::DTypeIo;
use ferromx_core::op::{AnyOperator, ArgDef, OpCtx, Operator, arg};
use ferromx_core::params::{NormDType, Params};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, memory, params};
use ferromx_kernels::map::{Arith, Elements, Lane, Src};
use ferromx_kernels::reduce::NumericLane;
use ferromx_kernels::scan::{self, Direction, differences_backward};
use ferromx_kernels::zip::zip;

use crate::axes::outer_len_inner;
use crate::elemwise::family::{NUMERIC, elements, elements_mut};
use crate::rules::{OUTPUT_GRADIENT, shapes_of_inputs};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&CUMSUM, &DIFF, &EDIFF1D, &BACKWARD_EDIFF1D];

const A: &[ArgDef] = &[arg("a", "The array.")];

params! {
    /// Parameters of `_np_cumsum`.
    pub struct CumsumParam {
        /// The axis along which to sum; by default the array is flattened first.
        axis: Option<i32> = None;
        /// The type of the result; by default that of the array, int64 for booleans.
        dtype: Option<NormDType> = None;
    }
}

pub(super) static CUMSUM: Operator<CumsumParam> = Operator::new("_np_cumsum")
    .aliases(&["cumsum"])
    .doc("The cumulative sums along an axis: element i is the sum of the elements 0 to i.")
    .inputs(A)
    .shape(|p, io| {
        let rank = io.ins[0].ndim().or(io.outs[0].ndim().filter(|_| p.get::<CumsumParam>().axis.is_some()));
        let Some(rank) = rank else { return Ok(()) };
        match p.get::<CumsumParam>().axis {
            Some(axis) => {
                Shape::axis(axis.into(), rank)?;
                io.tie(0, 0)
            }
            None => {
                let n = io.ins[0].product(..);
                io.assign_out(0, &Shape::new(&[n]))
            }
        }
    })
    .dtype(cumsum_dtype)
    .forward(|ctx, ins, outs| cumsum(ctx, &ins[0], ins[0].shape(), Direction::Forward, &mut outs[0]))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let shape = outs[0].shape().clone();
            cumsum(ctx, &ins[0], &shape, Direction::Reverse, &mut outs[0])
        }),
        None,
    ));

fn cumsum_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    match (p.get::<CumsumParam>().dtype, io.ins[0]) {
        (Some(d), _) => io.assign_out(0, d.0),
        (None, Some(DType::Bool)) => io.assign_out(0, DType::I64),
        (None, Some(d)) => io.assign_out(0, d),
        (None, None) => Ok(()),
    }
}

/// Cumulative sums of an array of shape `shape` in lanes of the output's type.
fn cumsum(ctx: &OpCtx<'_>, x: &In<'_>, shape: &Shape, direction: Direction, out: &mut Out<'_>) -> Result<()> {
    let dims = shape.to_usize();
    let dims = match ctx.params::<CumsumParam>().axis {
        Some(axis) => outer_len_inner(&dims, Shape::axis(axis.into(), dims.len())?),
        None => (1, x.len(), 1),
    };
    let x = elements(x)?;
    match out.dtype() {
        DType::Bool => cumulative_truth(x, dims, direction, out.slice_mut()?),
        DType::F64 => scan::cumsum::<f64>(x, dims, direction, elements_mut(out)?),
        DType::I64 => scan::cumsum::<i64>(x, dims, direction, elements_mut(out)?),
        d if d.is_float() => scan::cumsum::<f32>(x, dims, direction, elements_mut(out)?),
        _ => scan::cumsum::<i32>(x, dims, direction, elements_mut(out)?),
    }
    Ok(())
}

/// Cumulative sums of truth values, as in MXNet: whether an element up to this one is not 0.
fn cumulative_truth(x: Elements<'_>, (outer, n, inner): (usize, usize, usize), direction: Direction, out: &mut [bool]) {
    let mut lanes = memory::filled(0.0, x.len());
    f64::load_any(x, 0, &mut lanes);
    for o in 0..outer {
        let mut sums = vec![false; inner];
        for k in 0..n {
            let i = if direction == Direction::Reverse { n - 1 - k } else { k };
            let start = (o * n + i) * inner;
            let row = start..start + inner;
            for ((sum, x), out) in sums.iter_mut().zip(&lanes[row.clone()]).zip(&mut out[row]) {
                *sum |= *x != 0.0;
                *out = *sum;
            }
        }
    }
}

params! {
    /// Parameters of `_npi_diff`.
    pub struct DiffParam {
        /// The order of the difference.
        n: i32 = 1;
        /// The axis along which neighbors are subtracted.
        axis: i32 = (-1);
    }
}

pub(super) static DIFF: Operator<DiffParam> = Operator::new("_npi_diff")
    .doc("The n-th differences of neighbors along an axis, which becomes shorter by n.")
    .inputs(A)
    .shape(|p, io| {
        let p = p.get::<DiffParam>();
        ensure!(p.n >= 0, "n={} must be 0 or more", p.n);
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        let axis = Shape::axis(p.axis.into(), rank)?;
        let mut dims: Dims = io.ins[0].dims().into();
        if dims[axis] >= 0 {
            dims[axis] = (dims[axis] - i64::from(p.n)).max(0);
        }
        io.assign_out(0, &Shape::from(dims))
    })
    .forward(|ctx, ins, outs| {
        let dims = ins[0].shape().to_usize();
        if outs[0].is_empty() {
            return Ok(());
        }
        differences(ctx, &ins[0], &dims, Pass::Forward, &mut outs[0])
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            if ins[0].is_empty() {
                outs[0].bytes_mut()?.fill(0);
                return Ok(());
            }
            let dims = ins[0].shape().to_usize();
            differences(ctx, &ins[0], &dims, Pass::Backward, &mut outs[0])
        }),
        None,
    ));

/// Whether differences or their gradient are computed.
#[derive(Clone, Copy)]
enum Pass {
    Forward,
    Backward,
}

/// The n-th differences, or their gradient, which makes the axis longer.
fn differences(ctx: &OpCtx<'_>, x: &In<'_>, dims: &[usize], pass: Pass, out: &mut Out<'_>) -> Result<()> {
    let p = ctx.params::<DiffParam>();
    let dims = outer_len_inner(dims, Shape::axis(p.axis.into(), dims.len())?);
    dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        differences_in::<<T as Arith>::Lane>(elements(x)?, dims, p.n as usize, pass, out)
    }, d => Err(ctx.unsupported(d, NUMERIC)))
}

fn differences_in<C: NumericLane>(
    x: Elements<'_>,
    (outer, mut n, inner): (usize, usize, usize),
    order: usize,
    pass: Pass,
    out: &mut Out<'_>,
) -> Result<()> {
    let mut current = vec![C::ZERO; x.len()];
    C::load_any(x, 0, &mut current);
    for _ in 0..order {
        let m = match pass {
            Pass::Forward => n.saturating_sub(1),
            Pass::Backward => n + 1,
        };
        let mut next = vec![C::ZERO; outer * m * inner];
        match pass {
            Pass::Forward => scan::differences(&current, (outer, n, inner), &mut next),
            Pass::Backward => differences_backward(&current, (outer, n, inner), &mut next),
        }
        (current, n) = (next, m);
    }
    C::store_any(&current, elements_mut(out)?);
    Ok(())
}

params! {
    /// Parameters of `_npi_ediff1d`.
    pub struct Ediff1dParam {
        /// Whether an array of elements to prepend is given.
        to_begin_arr_given: bool = false;
        /// Whether an array of elements to append is given; it is the last input.
        to_end_arr_given: bool = false;
        /// A number to prepend.
        to_begin_scalar: Option<f64> = None;
        /// A number to append.
        to_end_scalar: Option<f64> = None;
    }
}

pub(super) static EDIFF1D: Operator<Ediff1dParam> = Operator::new("_npi_ediff1d")
    .doc("The differences of neighbors in the flattened array, with elements prepended and appended.")
    .inputs(&[
        arg("input1", "The array."),
        arg("input2", "The elements to prepend; those to append, if there are none to prepend."),
        arg("input3", "The elements to append."),
    ])
    .num_inputs_by(|p| {
        let p = p.get::<Ediff1dParam>();
        1 + usize::from(p.to_begin_arr_given) + usize::from(p.to_end_arr_given)
    })
    .shape(|p, io| {
        if io.ins.iter().any(|s| !s.is_known()) {
            return Ok(());
        }
        let p = p.get::<Ediff1dParam>();
        let num_scalars = usize::from(p.to_begin_scalar.is_some() && !p.to_begin_arr_given)
            + usize::from(p.to_end_scalar.is_some() && !p.to_end_arr_given);
        let num_array_elements: usize = io.ins[1..].iter().map(Shape::num_elements).sum();
        let n = io.ins[0].num_elements().saturating_sub(1) + num_scalars + num_array_elements;
        io.assign_out(0, &Shape::new(&[n as i64]))
    })
    .forward(|ctx, ins, outs| {
        dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
            let (p, x) = (ctx.params::<Ediff1dParam>(), ins[0].slice::<T>()?);
            let mut arrays = ins[1..].iter();
            let mut next_end = |is_array: bool, scalar: Option<f64>| match (is_array, scalar) {
                (true, _) => arrays.next().map_or(Ok(Vec::new()), |x| x.slice::<T>().map(<[T]>::to_vec)),
                (false, scalar) => Ok(scalar.map(T::from_f64).into_iter().collect()),
            };
            let begin = next_end(p.to_begin_arr_given, p.to_begin_scalar)?;
            let end = next_end(p.to_end_arr_given, p.to_end_scalar)?;
            let out = outs[0].slice_mut::<T>()?;
            let (out_begin, rest) = out.split_at_mut(begin.len());
            let (differences, out_end) = rest.split_at_mut(rest.len() - end.len());
            out_begin.copy_from_slice(&begin);
            out_end.copy_from_slice(&end);
            if let [_, next @ ..] = x {
                type C = <T as Arith>::Lane;
                let minus = C::from_f64(-1.0);
                zip(Src::Slice(next), Src::Slice(&x[..next.len()]), differences, move |b: C, a: C| b.plus(a.times(minus)));
            }
            Ok(())
        }, d => Err(ctx.unsupported(d, NUMERIC)))
    })
    .grad(Grad::Kernel(Backward::new(ediff1d_backward), None));

pub(super) static BACKWARD_EDIFF1D: Operator<Ediff1dParam> = Operator::new("_npi_backward_ediff1d")
    .doc("The gradients of `_npi_ediff1d`, in the order of its inputs.")
    .inputs(&[
        OUTPUT_GRADIENT,
        arg("input1", "The array."),
        arg("input2", "The elements to prepend; those to append, if there are none to prepend."),
        arg("input3", "The elements to append."),
    ])
    .listed(0)
    .unlisted_params()
    .num_inputs_by(|p| 1 + EDIFF1D.num_inputs(p).unwrap_or(1))
    .outputs(|p| EDIFF1D.num_inputs(p).unwrap_or(1))
    .shape(|_, io| shapes_of_inputs(io, 1))
    .forward(ediff1d_backward);

/// Inputs: gradient of the output, followed by the inputs of `_npi_ediff1d` if called as [`BACKWARD_EDIFF1D`]; they are not read. Outputs:
/// gradients of the inputs.
fn ediff1d_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<Ediff1dParam>();
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        let g = ins[0].slice::<T>()?;
        let n = outs[0].len().saturating_sub(1);
        let begin_len = match p.to_begin_arr_given {
            true => outs[1].len(),
            false => usize::from(p.to_begin_scalar.is_some()),
        };
        let end_len = match p.to_end_arr_given {
            true => outs[outs.len() - 1].len(),
            false => usize::from(p.to_end_scalar.is_some()),
        };
        ensure!(g.len() == begin_len + n + end_len, "the gradient has {} elements, expected {}", g.len(), begin_len + n + end_len);
        let (begin, rest) = g.split_at(begin_len);
        let (differences, end) = rest.split_at(n);
        let mut input = 1;
        for (is_array, grad) in [(p.to_begin_arr_given, begin), (p.to_end_arr_given, end)] {
            if is_array {
                if outs[input].wanted() {
                    outs[input].slice_mut::<T>()?.copy_from_slice(grad);
                }
                input += 1;
            }
        }
        if outs[0].wanted() {
            type C = <T as Arith>::Lane;
            let (out, minus) = (outs[0].slice_mut::<T>()?, C::from_f64(-1.0));
            out.fill(T::default());
            if n > 0 {
                out[1..].copy_from_slice(differences);
                zip(Src::<T>::InPlace, Src::Slice(differences), &mut out[..n], move |a: C, g: C| a.plus(g.times(minus)));
            }
        }
        Ok(())
    }, d => Err(ctx.unsupported(d, NUMERIC)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, vector};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x = array(&(0..24).map(|i| ((i * 7) % 11) as f64 / 4.0 + 0.5).collect::<Vec<_>>(), &[2, 3, 4]);
        for attrs in [&[][..], &[("axis", "1")], &[("axis", "-1")]] {
            Case::new(&CUMSUM, attrs).check_gradient(std::slice::from_ref(&x));
        }
        for attrs in [&[][..], &[("n", "2"), ("axis", "1")], &[("n", "0")], &[("n", "9")]] {
            Case::new(&DIFF, attrs).check_gradient(std::slice::from_ref(&x));
        }
    }

    #[test]
    fn sums_and_differences_of_uint8_wrap_around() {
        let x = vector(DType::U8, &[200.0, 100.0, 3.0]);
        let run = |def, attrs: &[(&str, &str)]| {
            Case::new(def, attrs).run1(std::slice::from_ref(&x)).unwrap().to_vec_as::<f64>().unwrap()
        };
        assert_eq!(run(&CUMSUM, &[]), [200.0, 44.0, 47.0]);
        assert_eq!(run(&CUMSUM, &[("dtype", "int32")]), [200.0, 300.0, 303.0]);
        assert_eq!(run(&DIFF, &[]), [156.0, 159.0]);
    }

    #[test]
    fn gradients_of_ediff1d_agree_with_finite_differences() {
        let x = array(&[0.5, -1.5, 2.0, 1.0], &[2, 2]);
        Case::new(&EDIFF1D, &[]).check_gradient(std::slice::from_ref(&x));
        let ends = [("to_begin_arr_given", "1"), ("to_end_arr_given", "1")];
        let (begin, end) = (array(&[9.0, 8.0], &[2]), array(&[7.0], &[1]));
        Case::new(&EDIFF1D, &ends).check_gradient(&[x.clone(), begin.clone(), end]);
        Case::new(&EDIFF1D, &[("to_end_arr_given", "1"), ("to_begin_scalar", "1.5")]).check_gradient(&[x, begin]);
    }
}
