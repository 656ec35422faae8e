//! Operators without a family: checks, replacement of NaN and infinities, polynomials, ediff1d, assignment by a mask.

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{ArgDef, Deps, OpCtx, OpDef, arg};
use ferromx_core::params::TypeOnly;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::map::{Arith, Elements, Src, map};
use ferromx_kernels::movement;
use ferromx_kernels::par;
use ferromx_kernels::reduce::{self, NumericLane, Sum};
use ferromx_kernels::simd::multiversion::{self, Kernel};
use ferromx_kernels::zip::zip;

use super::{elements, elements_mut};
use crate::elemwise::family::{NUMERIC, src};
use crate::elemwise::identity::copy;
use crate::rules::shapes_of_inputs;

/// The operators of this file.
pub(super) static OPS: &[&OpDef] = &[
    &CONSTRAINT_CHECK,
    &SHARE_MEMORY,
    &NAN_TO_NUM,
    &BACKWARD_NAN_TO_NUM,
    &POLYVAL,
    &BACKWARD_POLYVAL,
    &EDIFF1D,
    &BACKWARD_EDIFF1D,
    &MASK_ASSIGN_SCALAR,
    &MASK_ASSIGN_TENSOR,
];

params! {
    /// Parameters of `_npx_constraint_check`.
    pub struct ConstraintParam {
        /// The message of the error.
        msg: String = ("Constraint violated.".to_string());
    }
}

pub(super) static CONSTRAINT_CHECK: OpDef = OpDef::new("_npx_constraint_check")
    .doc("True if all elements are true; otherwise an error with the given message.")
    .inputs(&[arg("input", "An array of type bool.")])
    .params::<ConstraintParam>()
    .shape(|_, io| io.assign_out(0, &Shape::new(&[])))
    .dtype(|_, io| {
        io.assign_in(0, DType::Bool)?;
        io.assign_out(0, DType::Bool)
    })
    .forward(|ctx, ins, outs| {
        let holds = ins[0].slice::<bool>()?.iter().all(|x| *x);
        ensure!(holds, "{}", ctx.params::<ConstraintParam>().msg);
        outs[0].slice_mut::<bool>()?[0] = true;
        Ok(())
    })
    .grad(Grad::Zero);

pub(super) static SHARE_MEMORY: OpDef = OpDef::new("_npi_share_memory")
    .doc("Whether two arrays have memory in common, as bool.")
    .inputs(&[arg("a", "The first array."), arg("b", "The second array, of any shape and type.")])
    .shape(|_, io| io.assign_out(0, &Shape::new(&[])))
    .dtype(|_, io| io.assign_out(0, DType::Bool))
    .forward(|_, ins, outs| {
        let (a, b) = (ins[0].bytes()?.as_ptr_range(), ins[1].bytes()?.as_ptr_range());
        outs[0].slice_mut::<bool>()?[0] = a.start < b.end && b.start < a.end;
        Ok(())
    });

params! {
    /// Parameters of `_npi_nan_to_num`.
    pub struct NanToNumParam {
        /// Ignored: the caller decides by passing the output array.
        copy: bool = true;
        /// The replacement of NaN.
        nan: f64 = 0.0;
        /// The replacement of positive infinity; by default the largest number of the type.
        posinf: Option<f64> = None;
        /// The replacement of negative infinity; by default the lowest number of the type.
        neginf: Option<f64> = None;
    }
}

pub(super) static NAN_TO_NUM: OpDef = OpDef::new("_npi_nan_to_num")
    .doc("Replaces NaN and infinities by numbers; they get no gradient. Integers stay as they are.")
    .params::<NanToNumParam>()
    .forward(|ctx, ins, outs| {
        let (x, p, out) = (&ins[0], ctx.params::<NanToNumParam>(), &mut outs[0]);
        let largest = match out.dtype() {
            DType::F64 => f64::MAX,
            DType::F16 => f16::MAX.to_f64(),
            DType::BF16 => bf16::MAX.to_f64(),
            _ => f64::from(f32::MAX),
        };
        let (nan, high, low) = (p.nan, p.posinf.unwrap_or(largest), p.neginf.unwrap_or(-largest));
        dispatch!(out.dtype(), T in [f32, f16, bf16] => {
            let (nan, high, low) = (nan as f32, high as f32, low as f32);
            map(src::<T>(x)?, out.slice_mut::<T>()?, move |x: f32| {
                if x.is_nan() { nan } else if x.is_infinite() { if x > 0.0 { high } else { low } } else { x }
            });
            Ok(())
        }, d => match d {
            DType::F64 => {
                map(src::<f64>(x)?, out.slice_mut::<f64>()?, move |x: f64| {
                    if x.is_nan() { nan } else if x.is_infinite() { if x > 0.0 { high } else { low } } else { x }
                });
                Ok(())
            }
            _ => copy(ctx, ins, outs),
        })
    })
    .grad(Grad::Kernel(Backward::new(nan_to_num_backward).inputs(Deps::Some(&[0])), None))
    .inplace(&[(0, 0)]);

fn nan_to_num_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16] => {
        let (g, x) = (src::<T>(&ins[0])?, src::<T>(&ins[1])?);
        type C = <T as Arith>::Lane;
        zip(g, x, outs[0].slice_mut::<T>()?, |g: C, x: C| if x.is_finite() { g } else { 0.0 });
        Ok(())
    }, _d => copy(ctx, &ins[..1], outs))
}

const GRAD: ArgDef = arg("grad", "The gradient of the output.");

pub(super) static BACKWARD_NAN_TO_NUM: OpDef = OpDef::new("_npi_backward_nan_to_num")
    .doc("The gradient of `_npi_nan_to_num`: that of the output where the data is finite, else 0.")
    .inputs(&[GRAD, arg("data", "The array.")])
    .listed(0)
    .params::<NanToNumParam>()
    .unlisted_params()
    .forward(nan_to_num_backward);

pub(super) static POLYVAL: OpDef = OpDef::new("_npi_polyval")
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
                horner(p, x, y, false);
                ferromx_kernels::map::Lane::store_any(y, elements_mut(&mut outs[0])?);
                Ok(())
            })
        }, d => Err(ctx.unsupported(d, NUMERIC)))
    })
    .grad(Grad::Kernel(Backward::new(polyval_backward).inputs(Deps::All), None));

pub(super) static BACKWARD_POLYVAL: OpDef = OpDef::new("_npi_backward_polyval")
    .doc("The gradients of `_npi_polyval`: the sums of grad * x^(n-1-k) for coefficient k, and grad times the derivative for x.")
    .inputs(&[GRAD, arg("p", "The coefficients."), arg("x", "The points at which the polynomial was evaluated.")])
    .listed(0)
    .outputs(|_| 2)
    .shape(|_, io| shapes_of_inputs(io, 1))
    .forward(polyval_backward);

/// The elements of an array in lanes of type `C`.
fn lanes_of<C: NumericLane>(x: &In<'_>) -> Result<Vec<C>> {
    let mut all = vec![C::ZERO; x.len()];
    C::load_any(elements(x)?, 0, &mut all);
    Ok(all)
}

/// Elements of a chunk, sized for the L1 cache.
const CHUNK: usize = 1 << 10;

/// Up to this many elements, a plain loop is faster than a call of a multiversioned kernel.
const FEW: usize = 32;

/// Elements kept in registers over all coefficients.
const LANES: usize = 16;

/// The values of a polynomial, or of its derivative.
fn horner<C: NumericLane>(p: Elements<'_>, x: Elements<'_>, y: &mut [C], derivative: bool) {
    par::parallel_rows(y, CHUNK, 1, |chunk, y| {
        let (mut at, mut value, mut slope) = ([C::ZERO; CHUNK], [C::ZERO; CHUNK], [C::ZERO; CHUNK]);
        C::load_any(x, chunk * CHUNK, &mut at[..y.len()]);
        let mut coefficients = [C::ZERO; CHUNK];
        let lanes = y.len().div_ceil(LANES);
        for begin in (0..p.len()).step_by(CHUNK) {
            let coefficients = &mut coefficients[..CHUNK.min(p.len() - begin)];
            C::load_any(p, begin, coefficients);
            let values = value.as_chunks_mut::<LANES>().0.iter_mut().zip(slope.as_chunks_mut::<LANES>().0);
            for ((value, slope), x) in values.zip(at.as_chunks::<LANES>().0).take(lanes) {
                multiversion::run(Horner { coefficients, x, value, slope: derivative.then_some(slope) });
            }
        }
        let result = if derivative { &slope } else { &value };
        y.copy_from_slice(&result[..y.len()]);
    });
}

/// Horner's method for a run of coefficients; with `slope` also for the derivative.
struct Horner<'a, C> {
    coefficients: &'a [C],
    x: &'a [C; LANES],
    value: &'a mut [C; LANES],
    slope: Option<&'a mut [C; LANES]>,
}

impl<C: NumericLane> Kernel for Horner<'_, C> {
    type Output = ();
    const EVERY_ISA: bool = C::EVERY_ISA;

    #[inline(always)]
    fn run(self) {
        let (x, mut value) = (*self.x, *self.value);
        if let Some(slope) = self.slope {
            for c in self.coefficients {
                for k in 0..LANES {
                    slope[k] = slope[k].times(x[k]).plus(value[k]);
                    value[k] = value[k].times(x[k]).plus(*c);
                }
            }
        } else {
            for c in self.coefficients {
                for k in 0..LANES {
                    value[k] = value[k].times(x[k]).plus(*c);
                }
            }
        }
        *self.value = value;
    }
}

/// `dp[k] = sum g x^(n-1-k)`, `dx = g p'(x)`.
fn polyval_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        polyval_gradients::<<T as Arith>::Lane>(ins, outs)
    }, d => Err(ctx.unsupported(d, NUMERIC)))
}

fn polyval_gradients<C: NumericLane>(ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (g, p, x) = (lanes_of::<C>(&ins[0])?, elements(&ins[1])?, elements(&ins[2])?);
    let [dp, dx] = outs else { return Err(Error::Internal("polyval has two inputs".into())) };
    if dx.wanted() {
        let mut d = vec![C::ZERO; g.len()];
        horner(p, x, &mut d, true);
        zip(Src::<C>::InPlace, Src::Slice(&g), &mut d, C::times);
        C::store_any(&d, elements_mut(dx)?);
    }
    if dp.wanted() {
        let (mut power, at, n) = (g, lanes_of::<C>(&ins[2])?, p.len());
        let mut sums = vec![C::ZERO; n];
        for sum in sums.iter_mut().rev() {
            if power.len() <= FEW {
                *sum = power.iter().fold(C::ZERO, |sum, p| sum.plus(*p));
                power.iter_mut().zip(&at).for_each(|(p, x)| *p = p.times(*x));
                continue;
            }
            reduce::reduce::<Sum, C, C, C>(&power, &[power.len()], &[0], std::slice::from_mut(sum));
            zip(Src::<C>::InPlace, Src::Slice(&at), &mut power, C::times);
        }
        C::store_any(&sums, elements_mut(dp)?);
    }
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

pub(super) static EDIFF1D: OpDef = OpDef::new("_npi_ediff1d")
    .doc("The differences of neighbours in the flattened array, with elements prepended and appended.")
    .inputs(&[
        arg("input1", "The array."),
        arg("input2", "The elements to prepend; those to append, if there are none to prepend."),
        arg("input3", "The elements to append."),
    ])
    .params::<Ediff1dParam>()
    .num_inputs_by(|p| {
        let p = p.get::<Ediff1dParam>();
        1 + usize::from(p.to_begin_arr_given) + usize::from(p.to_end_arr_given)
    })
    .shape(|p, io| {
        if io.ins.iter().any(|s| !s.is_known()) {
            return Ok(());
        }
        let p = p.get::<Ediff1dParam>();
        let numbers = usize::from(p.to_begin_scalar.is_some() && !p.to_begin_arr_given)
            + usize::from(p.to_end_scalar.is_some() && !p.to_end_arr_given);
        let arrays: usize = io.ins[1..].iter().map(Shape::num_elements).sum();
        let n = io.ins[0].num_elements().saturating_sub(1) + numbers + arrays;
        io.assign_out(0, &Shape::new(&[n as i64]))
    })
    .forward(|ctx, ins, outs| {
        dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
            let (p, x) = (ctx.params::<Ediff1dParam>(), ins[0].slice::<T>()?);
            let mut rest = ins[1..].iter();
            let mut end = |given: bool, scalar: Option<f64>| match (given, scalar) {
                (true, _) => rest.next().map_or(Ok(Vec::new()), |x| x.slice::<T>().map(<[T]>::to_vec)),
                (false, scalar) => Ok(scalar.map(T::from_f64).into_iter().collect()),
            };
            let (begin, last) = (end(p.to_begin_arr_given, p.to_begin_scalar)?, end(p.to_end_arr_given, p.to_end_scalar)?);
            let out = outs[0].slice_mut::<T>()?;
            let (first, others) = out.split_at_mut(begin.len());
            let (middle, tail) = others.split_at_mut(others.len() - last.len());
            first.copy_from_slice(&begin);
            tail.copy_from_slice(&last);
            if let [_, next @ ..] = x {
                type C = <T as Arith>::Lane;
                let minus = C::from_f64(-1.0);
                zip(Src::Slice(next), Src::Slice(&x[..next.len()]), middle, move |b: C, a: C| b.plus(a.times(minus)));
            }
            Ok(())
        }, d => Err(ctx.unsupported(d, NUMERIC)))
    })
    .grad(Grad::Kernel(Backward::new(ediff1d_backward), None));

pub(super) static BACKWARD_EDIFF1D: OpDef = OpDef::new("_npi_backward_ediff1d")
    .doc("The gradients of `_npi_ediff1d`, in the order of its inputs.")
    .inputs(&[
        GRAD,
        arg("input1", "The array."),
        arg("input2", "The elements to prepend; those to append, if there are none to prepend."),
        arg("input3", "The elements to append."),
    ])
    .listed(0)
    .params::<Ediff1dParam>()
    .unlisted_params()
    .num_inputs_by(|p| 1 + EDIFF1D.num_inputs(p).unwrap_or(1))
    .outputs(|p| EDIFF1D.num_inputs(p).unwrap_or(1))
    .shape(|_, io| shapes_of_inputs(io, 1))
    .forward(ediff1d_backward);

fn ediff1d_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<Ediff1dParam>();
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        let g = ins[0].slice::<T>()?;
        let n = outs[0].len().saturating_sub(1);
        let front = match p.to_begin_arr_given {
            true => outs[1].len(),
            false => usize::from(p.to_begin_scalar.is_some()),
        };
        let back = match p.to_end_arr_given {
            true => outs[outs.len() - 1].len(),
            false => usize::from(p.to_end_scalar.is_some()),
        };
        ensure!(g.len() == front + n + back, "the gradient has {} elements, expected {}", g.len(), front + n + back);
        let (first, rest) = g.split_at(front);
        let (middle, last) = rest.split_at(n);
        let mut arrays = 1;
        for (given, part) in [(p.to_begin_arr_given, first), (p.to_end_arr_given, last)] {
            if given {
                if outs[arrays].wanted() {
                    outs[arrays].slice_mut::<T>()?.copy_from_slice(part);
                }
                arrays += 1;
            }
        }
        if outs[0].wanted() {
            type C = <T as Arith>::Lane;
            let (out, minus) = (outs[0].slice_mut::<T>()?, C::from_f64(-1.0));
            out.fill(T::default());
            if n > 0 {
                out[1..].copy_from_slice(middle);
                zip(Src::<T>::InPlace, Src::Slice(middle), &mut out[..n], move |a: C, g: C| a.plus(g.times(minus)));
            }
        }
        Ok(())
    }, d => Err(ctx.unsupported(d, NUMERIC)))
}

params! {
    /// Parameters of `_npi_boolean_mask_assign_scalar`.
    pub struct MaskScalarParam {
        /// The value that is written.
        value: TypeOnly<f32> = required;
        /// The first masked axis of the data.
        start_axis: TypeOnly<i32> = (TypeOnly(0));
    }
}

params! {
    /// Parameters of `_npi_boolean_mask_assign_tensor`.
    pub struct MaskTensorParam {
        /// The first masked axis of the data.
        start_axis: TypeOnly<i32> = (TypeOnly(0));
    }
}

const DATA: ArgDef = arg("data", "The array.");
const MASK: ArgDef = arg("mask", "Nonzero where to write; its shape matches consecutive axes of the data.");
const VALUE: ArgDef = arg(
    "value",
    "The values to write, broadcast to the data with the masked axes replaced by the number of nonzero mask elements.",
);

pub(super) static MASK_ASSIGN_SCALAR: OpDef = OpDef::new("_npi_boolean_mask_assign_scalar")
    .doc("The data with a number written where the mask is not 0.")
    .inputs(&[DATA, MASK])
    .params::<MaskScalarParam>()
    .shape(|p, io| mask_shape(io, p.get::<MaskScalarParam>().start_axis.0))
    .dtype(|_, io| match io.ins[0].or(io.outs[0]) {
        Some(d) => {
            io.assign_in(0, d)?;
            io.assign_out(0, d)
        }
        None => Ok(()),
    })
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<MaskScalarParam>();
        copy(ctx, &ins[..1], outs)?;
        let selection = selection(&ins[1], outs[0].shape(), p.start_axis.0)?;
        dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
            let (out, value) = (outs[0].slice_mut::<T>()?, T::from_f64(p.value.0.into()));
            selection.for_each_run(|_, at, n| out[at..at + n].fill(value));
            Ok(())
        }, d => Err(ctx.unsupported(d, &DType::ALL)))
    })
    .grad(Grad::Zero)
    .inplace(&[(0, 0)]);

pub(super) static MASK_ASSIGN_TENSOR: OpDef = OpDef::new("_npi_boolean_mask_assign_tensor")
    .doc("The data with the elements of an array written, one after the other, where the mask is not 0.")
    .inputs(&[DATA, MASK, VALUE])
    .params::<MaskTensorParam>()
    .shape(|p, io| mask_shape(io, p.get::<MaskTensorParam>().start_axis.0))
    .dtype(|_, io| match io.ins[0].or(io.ins[2]).or(io.outs[0]) {
        Some(d) => {
            io.assign_in(0, d)?;
            io.assign_in(2, d)?;
            io.assign_out(0, d)
        }
        None => Ok(()),
    })
    .forward(|ctx, ins, outs| {
        copy(ctx, &ins[..1], outs)?;
        let selection = selection(&ins[1], outs[0].shape(), ctx.params::<MaskTensorParam>().start_axis.0)?;
        let (from, to) = (ins[2].shape().to_usize(), selection.shape(outs[0].shape()));
        let fits = from.len() <= to.len()
            && from.iter().rev().zip(to.iter().rev()).all(|(have, want)| have == want || *have == 1);
        ensure!(
            fits,
            "value of shape {} does not match the shape {} of the selected elements",
            ins[2].shape(),
            Shape::from_usize(&to)
        );
        dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
            let mut all = vec![T::default(); to.iter().product()];
            movement::broadcast_to(ins[2].slice::<T>()?, &from, (&mut all, &to));
            let out = outs[0].slice_mut::<T>()?;
            selection.for_each_run(|k, at, n| out[at..at + n].copy_from_slice(&all[k * n..(k + 1) * n]));
            Ok(())
        }, d => Err(ctx.unsupported(d, &DType::ALL)))
    })
    .grad(Grad::Zero)
    .inplace(&[(0, 0)]);

fn mask_shape(io: &mut ShapeIo<'_>, start: i32) -> Result<()> {
    let data = io.ins[0].clone();
    io.assign_out(0, &data)?;
    let (data, mask) = (io.outs[0].clone(), io.ins[1].clone());
    io.assign_in(0, &data)?;
    let (Some(rank), Some(axes)) = (data.ndim(), mask.ndim()) else { return Ok(()) };
    let start = usize::try_from(start).ok().filter(|s| s + axes <= rank);
    let Some(start) = start else {
        return Err(Error::Value(format!(
            "a mask of shape {mask} does not match the axes of shape {data} from start_axis on"
        )));
    };
    for (i, m) in mask.dims().iter().enumerate() {
        let d = data.dim(start + i);
        ensure!(
            d == *m || d < 0 || *m < 0,
            "boolean index did not match indexed array along dimension {}: it has length {d}, the mask {m}",
            start + i
        );
    }
    Ok(())
}

/// The elements of an array that a mask selects.
struct Selection {
    /// (outer size, mask size, inner size) of the data around the masked axes.
    around: (usize, usize, usize),
    start: usize,
    axes: usize,
    hits: Vec<usize>,
}

fn selection(mask: &In<'_>, data: &Shape, start: i32) -> Result<Selection> {
    let (dims, start, axes) = (data.to_usize(), start.max(0) as usize, mask.shape().dims().len());
    let product = |d: &[usize]| d.iter().product::<usize>();
    let hits = dispatch!(mask.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        let mask = mask.slice::<T>()?;
        (0..mask.len()).filter(|i| mask[*i] != T::default()).collect()
    }, d => return Err(Error::Internal(format!("no mask of type {d}"))));
    let around = (product(&dims[..start]), mask.len(), product(&dims[start + axes..]));
    Ok(Selection { around, start, axes, hits })
}

impl Selection {
    /// The shape of the selected elements.
    fn shape(&self, data: &Shape) -> Vec<usize> {
        let dims = data.to_usize();
        [&dims[..self.start], &[self.hits.len()], &dims[self.start + self.axes..]].concat()
    }

    /// Calls `f` for each contiguous run of selected elements with its index, its offset in the data, and its length.
    fn for_each_run(&self, mut f: impl FnMut(usize, usize, usize)) {
        let (outer, n, inner) = self.around;
        let mut k = 0;
        for o in 0..outer {
            for hit in &self.hits {
                f(k, (o * n + hit) * inner, inner);
                k += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, vector};

    #[test]
    fn a_violated_constraint_is_an_error_with_its_message() {
        let run = |x: &[bool]| {
            Case::new(&CONSTRAINT_CHECK, &[("msg", "no!")])
                .run1(&[array(x, &[x.len() as i64])])
                .map(|y| y.shape().clone())
        };
        assert_eq!(run(&[true, true]).unwrap(), Shape::new(&[]));
        assert!(run(&[true, false]).unwrap_err().to_string().contains("no!"));
        let x = array(&[1f32, 2.0, 3.0], &[3]);
        let shared = |a, b| Case::new(&SHARE_MEMORY, &[]).run1(&[a, b]).unwrap().to_vec::<bool>().unwrap()[0];
        assert!(shared(x.clone(), x.slice(1, 2).unwrap()));
        assert!(!shared(x.slice(0, 1).unwrap(), x.slice(1, 3).unwrap()));
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x = array(&[0.5, -1.5, 2.0, 1.0], &[2, 2]);
        Case::new(&POLYVAL, &[]).check_gradient(&[array(&[2.0, -1.0, 0.5], &[3]), x.clone()]);
        Case::new(&NAN_TO_NUM, &[]).check_gradient(std::slice::from_ref(&x));
        Case::new(&EDIFF1D, &[]).check_gradient(std::slice::from_ref(&x));
        let ends = [("to_begin_arr_given", "1"), ("to_end_arr_given", "1")];
        let (begin, end) = (array(&[9.0, 8.0], &[2]), array(&[7.0], &[1]));
        Case::new(&EDIFF1D, &ends).check_gradient(&[x.clone(), begin.clone(), end]);
        Case::new(&EDIFF1D, &[("to_end_arr_given", "1"), ("to_begin_scalar", "1.5")]).check_gradient(&[x, begin]);
    }

    #[test]
    fn special_values_are_replaced() {
        let x = [1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let run = |dtype, attrs: &[(&str, &str)]| {
            Case::new(&NAN_TO_NUM, attrs).run1(&[vector(dtype, &x)]).unwrap().to_vec_as::<f64>().unwrap()
        };
        assert_eq!(run(DType::F64, &[]), [1.0, 0.0, f64::MAX, f64::MIN]);
        assert_eq!(run(DType::F16, &[]), [1.0, 0.0, 65504.0, -65504.0]);
        assert_eq!(run(DType::F32, &[("nan", "7"), ("posinf", "8"), ("neginf", "9")]), [1.0, 7.0, 8.0, 9.0]);
    }

    #[test]
    fn masked_elements_are_written() {
        let x = array(&[0f64, 1.0, 2.0, 3.0, 4.0, 5.0], &[2, 3]);
        let mask = array(&[true, false, true], &[3]);
        let scalar = Case::new(&MASK_ASSIGN_SCALAR, &[("value", "9.5"), ("start_axis", "1")]);
        assert_eq!(
            scalar.run1(&[x.clone(), mask.clone()]).unwrap().to_vec::<f64>().unwrap(),
            [9.5, 1.0, 9.5, 9.5, 4.0, 9.5]
        );
        let tensor = Case::new(&MASK_ASSIGN_TENSOR, &[("start_axis", "1")]);
        let y = tensor.run1(&[x.clone(), mask.clone(), array(&[7.0, 8.0], &[2])]).unwrap();
        assert_eq!(y.to_vec::<f64>().unwrap(), [7.0, 1.0, 8.0, 7.0, 4.0, 8.0]);
        assert!(tensor.run1(&[x.clone(), mask.clone(), array(&[7.0, 8.0, 9.0], &[3])]).is_err());
        let error = scalar.shapes(&[[2, 4].into(), [3].into()]).unwrap_err().to_string();
        assert!(error.contains("along dimension 1"), "{error}");
        let whole =
            Case::new(&MASK_ASSIGN_TENSOR, &[]).run1(&[x, array(&[0i32, 1], &[2]), array(&[6.0], &[1])]).unwrap();
        assert_eq!(whole.to_vec::<f64>().unwrap()[3..], [6.0, 6.0, 6.0]);
    }
}
