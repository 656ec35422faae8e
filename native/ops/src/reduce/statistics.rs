//! NumPy's variance, standard deviation, weighted average and percentiles.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params::{NormDType, Params, ShapeOrNone};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, memory, param_enum, params};
use ferromx_kernels::broadcast::{broadcast, broadcast_any};
use ferromx_kernels::map::{Arith, Elements, Lane, Src};
use ferromx_kernels::movement;
use ferromx_kernels::par::with_scratch;
use ferromx_kernels::reduce::{self, Mean, NumericLane, Sum, SumSquares};
use ferromx_kernels::sort::sort_at_indices;

use super::family::{numpy_reduced_shape, over_axes};
use crate::axes::{Axes, keepdims_shape, numpy_axes, numpy_reduced, without_axes};
use crate::elemwise::family::{NUMERIC, elements, elements_mut, load_lanes};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&VAR, &STD, &AVERAGE, &PERCENTILE];

const A: &[ArgDef] = &[arg("a", "The array.")];

params! {
    /// Parameters of `_npi_var` and `_npi_std`.
    pub struct MomentParam {
        /// The axes to reduce; negative ones count from the last. None means all of them, () none.
        axis: ShapeOrNone = (ShapeOrNone(None));
        /// The type of the result; by default that of the array.
        dtype: Option<NormDType> = None;
        /// Delta degrees of freedom: the divisor is the number of elements minus ddof.
        ddof: i32 = 0;
        /// Whether reduced axes are kept with length 1.
        keepdims: bool = false;
    }
}

over_axes!(MomentParam);

/// Defines the variance or the standard deviation.
macro_rules! moment {
    ($name:ident: $op:literal, $output:literal, $doc:literal, is_std: $IS_STD:literal) => {
        pub(crate) static $name: Operator<MomentParam> = Operator::new($op)
            .doc($doc)
            .inputs(A)
            .output_names_by(|_| vec![$output.into()])
            .shape(numpy_reduced_shape::<MomentParam>)
            .dtype(|p, io| match p.get::<MomentParam>().dtype.map(|d| d.0).or(io.ins[0]) {
                Some(d) => io.assign_out(0, d),
                None => Ok(()),
            })
            .forward(|ctx, ins, outs| moment(ctx, &ins[0], $IS_STD, &mut outs[0]))
            .grad(Grad::Kernel(
                Backward::new(|ctx, ins, outs| moment_backward(ctx, ins, $IS_STD, &mut outs[0]))
                    .inputs(Deps::All)
                    .outputs(Deps::All),
                None,
            ));
    };
}

moment!(VAR: "_npi_var", "var", "The variance over axes: the sum of squared deviations from the mean, divided by n - ddof.", is_std: false);
moment!(STD: "_npi_std", "std", "The standard deviation over axes: the square root of the variance.", is_std: true);

/// Whether the variance is computed in double precision.
fn use_f64(x: DType, out: DType) -> bool {
    matches!(x, DType::F64 | DType::I32 | DType::I64) || out == DType::F64
}

fn moment(ctx: &OpCtx<'_>, x: &In<'_>, is_std: bool, out: &mut Out<'_>) -> Result<()> {
    ensure!(x.dtype() != DType::Bool, "the variance of booleans is not defined: convert them to numbers");
    match use_f64(x.dtype(), out.dtype()) {
        true => moment_in::<f64>(ctx, x, is_std, out),
        false => moment_in::<f32>(ctx, x, is_std, out),
    }
}

/// The axes, and the divisor of the variance: the number of elements that are reduced to one, minus `ddof`.
fn axes_and_divisor(ctx: &OpCtx<'_>, shape: &Shape) -> Result<(Axes, f64)> {
    let p = ctx.params::<MomentParam>();
    let axes = numpy_axes(&p.axis, shape.dims().len())?;
    let n: usize = axes.iter().map(|a| shape.to_usize()[*a]).product();
    Ok((axes, (n as f64 - f64::from(p.ddof)).max(0.0)))
}

/// Calls `f` with the deviations of the elements from their mean over the axes.
fn with_deviations<C: NumericLane>(x: Elements<'_>, shape: &Shape, axes: &[usize], f: impl FnOnce(&mut [C])) {
    let (dims, reduced_shape, n) = (shape.to_usize(), keepdims_shape(shape, axes), [x.len()]);
    with_scratch(n[0], |lanes: &mut [C]| {
        broadcast_any((x, &n), (Elements::I64(&[0]), &[]), (&mut *lanes, &n), |x: C, _: C| x);
        with_scratch(reduced_shape.iter().product(), |mean: &mut [C]| {
            reduce::reduce::<Mean, C, C, C>(lanes, &dims, axes, mean);
            // `NumericLane` has no subtraction, so the negated mean is added.
            mean.iter_mut().for_each(|m| *m = C::from_f64(-m.to_f64()));
            broadcast((Src::<C>::InPlace, &dims), (Src::Slice(&*mean), &reduced_shape), (&mut *lanes, &dims), C::plus);
        });
        f(lanes);
    });
}

fn moment_in<C: NumericLane>(ctx: &OpCtx<'_>, x: &In<'_>, is_std: bool, out: &mut Out<'_>) -> Result<()> {
    let (axes, divisor) = axes_and_divisor(ctx, x.shape())?;
    let (dims, n, to) = (x.shape().to_usize(), out.len(), elements_mut(out)?);
    with_deviations::<C>(elements(x)?, x.shape(), &axes, |deviations| {
        with_scratch(n, |sums: &mut [C]| {
            reduce::reduce::<SumSquares, C, C, C>(deviations, &dims, &axes, sums);
            for s in sums.iter_mut() {
                let variance = s.to_f64() / divisor;
                *s = C::from_f64(if is_std { variance.sqrt() } else { variance });
            }
            C::store_any(sums, to);
        });
    });
    Ok(())
}

/// The derivative is `2 d / (n - ddof)` for the variance and `d / ((n - ddof) * std)` for the standard deviation, where d is the deviation
/// from the mean.
fn moment_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], is_std: bool, out: &mut Out<'_>) -> Result<()> {
    if !out.dtype().is_float() {
        out.bytes_mut()?.fill(0);
        return Ok(());
    }
    match use_f64(out.dtype(), out.dtype()) {
        true => moment_backward_in::<f64>(ctx, ins, is_std, out),
        false => moment_backward_in::<f32>(ctx, ins, is_std, out),
    }
}

fn moment_backward_in<C: NumericLane>(ctx: &OpCtx<'_>, ins: &[In<'_>], is_std: bool, out: &mut Out<'_>) -> Result<()> {
    let (g, x, y) = (&ins[0], &ins[1], elements(&ins[2])?);
    let (axes, divisor) = axes_and_divisor(ctx, x.shape())?;
    let (dims, reduced_shape) = (x.shape().to_usize(), keepdims_shape(x.shape(), &axes));
    let (g, to) = (elements(g)?, elements_mut(out)?);
    with_deviations::<C>(elements(x)?, x.shape(), &axes, |deviations| {
        with_scratch(g.len(), |scaled_grad: &mut [C]| {
            C::load_any(g, 0, scaled_grad);
            with_scratch(y.len(), |values: &mut [C]| {
                C::load_any(y, 0, values);
                for (g, y) in scaled_grad.iter_mut().zip(&*values) {
                    let scale = match (is_std, y.to_f64()) {
                        (false, _) => 2.0 / divisor,
                        // The standard deviation is not differentiable at 0; its gradient is defined as 0.
                        (true, 0.0) => 0.0,
                        (true, y) => 1.0 / (divisor * y),
                    };
                    *g = C::from_f64(g.to_f64() * scale);
                }
            });
            broadcast(
                (Src::<C>::InPlace, &dims),
                (Src::Slice(&*scaled_grad), &reduced_shape),
                (&mut *deviations, &dims),
                C::times,
            );
        });
        C::store_any(deviations, to);
    });
    Ok(())
}

params! {
    /// Parameters of `_npi_average`.
    pub struct AverageParam {
        /// The axes to reduce; negative ones count from the last. None means all of them, () none.
        axis: ShapeOrNone = (ShapeOrNone(None));
        /// Whether the sum of the weights is returned too.
        returned: bool = false;
        /// Whether there are weights.
        weighted: bool = true;
    }
}

pub(super) static AVERAGE: Operator<AverageParam> = Operator::new("_npi_average")
    .doc(
        "The weighted average over axes: the sum of a * weights, divided by the sum of the weights. The weights have the shape of a, or \
         are a vector along a single reduced axis.",
    )
    .inputs(&[arg("a", "The array."), arg("weights", "The weights, of the type of a.")])
    .num_inputs_by(|p| if p.get::<AverageParam>().weighted { 2 } else { 1 })
    .outputs(|_| 2)
    .visible(|p| if p.get::<AverageParam>().returned { 2 } else { 1 })
    .shape(average_shape)
    .forward(average)
    .grad(Grad::Kernel(Backward::new(average_backward).inputs(Deps::All).outputs(Deps::All), None));

fn average_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<AverageParam>();
    let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
    let axes = numpy_axes(&p.axis, rank)?;
    let out = without_axes(&io.ins[0], &axes);
    io.assign_out(0, &out)?;
    if !p.weighted {
        return io.assign_out(1, &Shape::new(&[]));
    }
    let (a, w) = (io.ins[0].clone(), io.ins[1].clone());
    let Some(weights) = w.ndim() else { return Ok(()) };
    if weights == rank {
        io.assign_in(1, &a)?;
        return io.assign_out(1, &out);
    }
    ensure!(
        weights == 1 && axes.len() == 1 && p.axis.0.is_some(),
        "weights of shape {w} do not match an array of shape {a}: give weights of that shape, or a vector and a single axis"
    );
    io.assign_in(1, &Shape::new(&[a.dim(axes[0])]))?;
    io.assign_out(1, &Shape::new(&[]))
}

/// The shape in which weights are broadcast to the array. A vector of weights lies along the reduced axis.
fn weights_shape(a: &Shape, w: Option<&Shape>, axes: &[usize]) -> Vec<usize> {
    match w {
        None => Vec::new(),
        Some(w) if w.dims().len() == a.dims().len() => w.to_usize().to_vec(),
        Some(w) => {
            let mut dims = memory::filled(1, a.dims().len() - axes[0]);
            dims[0] = w.to_usize()[0];
            dims
        }
    }
}

fn average(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (a, w) = (&ins[0], ins.get(1));
    let axes = numpy_axes(&ctx.params::<AverageParam>().axis, a.shape().dims().len())?;
    dispatch!(a.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        average_in::<<T as Arith>::Lane>(a, w, &axes, outs)
    }, d => Err(ctx.unsupported(d, NUMERIC)))
}

fn average_in<C: NumericLane>(a: &In<'_>, w: Option<&In<'_>>, axes: &[usize], outs: &mut [Out<'_>]) -> Result<()> {
    let (dims, w_dims) = (a.shape().to_usize(), weights_shape(a.shape(), w.map(In::shape), axes));
    let one = Elements::I64(&[1]);
    let (values, weights) = (elements(a)?, w.map_or(Ok(one), elements)?);
    let count: usize = axes.iter().map(|i| dims[*i]).product();
    let (num_averages, num_sums) = (outs[0].len(), outs[1].len());
    // An array without elements may have weights.
    with_scratch(values.len().max(weights.len()), |lanes: &mut [C]| {
        broadcast_any((values, &dims), (weights, &w_dims), (&mut lanes[..values.len()], &dims), C::times);
        with_scratch(num_averages, |average: &mut [C]| {
            reduce::reduce::<Sum, C, C, C>(&lanes[..values.len()], &dims, axes, average);
            with_scratch(num_sums, |total: &mut [C]| {
                match w {
                    None => total.fill(C::count(count)),
                    Some(_) => {
                        let n = weights.len();
                        C::load_any(weights, 0, &mut lanes[..n]);
                        match num_sums == num_averages && w_dims.len() == dims.len() {
                            true => reduce::reduce::<Sum, C, C, C>(&lanes[..n], &dims, axes, total),
                            false => reduce::reduce::<Sum, C, C, C>(&lanes[..n], &[n], &[0], total),
                        }
                    }
                }
                for (i, x) in average.iter_mut().enumerate() {
                    *x = x.over(total[if num_sums == num_averages { i } else { 0 }]);
                }
                let [average_out, sum_out] = outs else {
                    return Err(Error::Internal("average has two outputs".into()));
                };
                if average_out.wanted() {
                    C::store_any(average, elements_mut(average_out)?);
                }
                if sum_out.wanted() {
                    C::store_any(total, elements_mut(sum_out)?);
                }
                Ok(())
            })
        })
    })
}

/// `da = g w / s` and `dw = g (a - average) / s + h`, where s is the sum of the weights and h its gradient.
fn average_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let returned = usize::from(ctx.params::<AverageParam>().returned);
    let (g, h, rest) = (&ins[0], ins.get(1).filter(|_| returned == 1), &ins[1 + returned..]);
    let has_weights = rest.len() == 4;
    let (a, w) = (&rest[0], has_weights.then(|| &rest[1]));
    let (y, s) = (&rest[rest.len() - 2], &rest[rest.len() - 1]);
    let axes = numpy_axes(&ctx.params::<AverageParam>().axis, a.shape().dims().len())?;
    let (dims, reduced_shape) = (a.shape().to_usize(), keepdims_shape(a.shape(), &axes));
    let s_dims = if s.len() == y.len() && s.shape() == y.shape() { reduced_shape.clone() } else { Axes::new() };
    let shapes = AverageShapes {
        data: dims,
        weights: weights_shape(a.shape(), w.map(In::shape), &axes),
        average: reduced_shape,
        sum: s_dims,
    };
    // In double precision, because the gradient of the weights is a difference of large terms.
    let mut g_over_s = memory::filled(0.0, y.len());
    broadcast(
        (Src::Slice(&load_lanes::<f64>(g)?), &shapes.average),
        (Src::Slice(&load_lanes::<f64>(s)?), &shapes.sum),
        (&mut g_over_s, &shapes.average),
        |g: f64, s: f64| g / s,
    );
    let [first, others @ ..] = outs else { return Ok(()) };
    if first.wanted() {
        let mut da = memory::filled(0.0, a.len());
        broadcast(
            (Src::Slice(&g_over_s), &shapes.average),
            (Src::Slice(&w.map_or(Ok(vec![1.0]), load_lanes::<f64>)?), &shapes.weights),
            (&mut da, &shapes.data),
            |g: f64, w: f64| g * w,
        );
        f64::store_any(&da, elements_mut(first)?);
    }
    match others.first_mut().filter(|o| o.wanted()) {
        Some(second) => average_weights_gradient(&shapes, &g_over_s, a, y, h, second),
        None => Ok(()),
    }
}

/// The shapes of a weighted average, with reduced axes of length 1.
struct AverageShapes {
    data: Axes,
    weights: Vec<usize>,
    average: Axes,
    /// Empty for one sum of all weights.
    sum: Axes,
}

/// `dw = g_over_s (a - average) + h`.
fn average_weights_gradient(
    shapes: &AverageShapes,
    g_over_s: &[f64],
    a: &In<'_>,
    average: &In<'_>,
    h: Option<&In<'_>>,
    out: &mut Out<'_>,
) -> Result<()> {
    let mut terms = load_lanes::<f64>(a)?;
    let in_place = (Src::<f64>::InPlace, &shapes.data[..]);
    let average = load_lanes::<f64>(average)?;
    broadcast(in_place, (Src::Slice(&average), &shapes.average), (&mut terms, &shapes.data), |a: f64, y: f64| a - y);
    broadcast(in_place, (Src::Slice(g_over_s), &shapes.average), (&mut terms, &shapes.data), |d: f64, g: f64| d * g);
    let mut sums = memory::filled(0.0, out.len());
    reduce::reduce_to_shape::<f64, f64>(&terms, &shapes.data, &shapes.weights, &mut sums);
    if let Some(h) = h {
        let to = out.shape().to_usize();
        broadcast(
            (Src::<f64>::InPlace, &to),
            (Src::Slice(&load_lanes::<f64>(h)?), &shapes.sum),
            (&mut sums, &to),
            |d: f64, h: f64| d + h,
        );
    }
    f64::store_any(&sums, elements_mut(out)?);
    Ok(())
}

param_enum! {
    /// How a percentile between two elements is computed.
    pub enum PercentileInterpolation {
        /// The larger of the two.
        Higher = "higher",
        /// Linear interpolation.
        Linear = "linear",
        /// The smaller of the two.
        Lower = "lower",
        /// The mean of the two.
        Midpoint = "midpoint",
        /// The nearer one; halfway between, the one with the even index.
        Nearest = "nearest",
    }
}

params! {
    /// Parameters of `_npi_percentile`.
    pub struct PercentileParam {
        /// The axes to reduce; negative ones count from the last. None means all of them.
        axis: ShapeOrNone = (ShapeOrNone(None));
        /// How a percentile between two elements is computed.
        interpolation: PercentileInterpolation = (PercentileInterpolation::Linear);
        /// Whether reduced axes are kept with length 1.
        keepdims: bool = false;
        /// The percentile as a number, instead of the array `q`.
        q_scalar: Option<f64> = None;
    }
}

pub(super) static PERCENTILE: Operator<PercentileParam> = Operator::new("_npi_percentile")
    .doc(
        "The q-th percentiles over axes, for q from 0 to 100, as float64 for float64 arrays, otherwise float32. The axis of q comes \
         first. A group with a NaN gives NaN.",
    )
    .inputs(&[arg("a", "The array."), arg("q", "The percentiles: a number or a vector, from 0 to 100.")])
    .num_inputs_by(|p| if p.get::<PercentileParam>().q_scalar.is_some() { 1 } else { 2 })
    .shape(|p, io| {
        let p = p.get::<PercentileParam>();
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        let mut dims: Dims = match (p.q_scalar, io.ins.get(1)) {
            (Some(_), _) => Dims::new(),
            (None, Some(q)) if q.ndim_is_known() => q.dims().into(),
            _ => return Ok(()),
        };
        ensure!(dims.len() <= 1, "q must be a number or a vector, not an array of {} axes", dims.len());
        dims.extend_from_slice(numpy_reduced(&io.ins[0], &numpy_axes(&p.axis, rank)?, p.keepdims).dims());
        io.assign_out(0, &Shape::from(dims))
    })
    .dtype(|_, io| match io.ins[0] {
        Some(d) => io.assign_out(0, if d == DType::F64 { d } else { DType::F32 }),
        None => Ok(()),
    })
    .forward(percentile)
    .grad(Grad::Zero);

fn percentile(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (p, dims) = (ctx.params::<PercentileParam>(), ins[0].shape().to_usize());
    let mut qs = memory::filled(p.q_scalar.unwrap_or(0.0), ins.get(1).map_or(1, In::len));
    if let Some(q) = ins.get(1) {
        f64::load_any(elements(q)?, 0, &mut qs);
    }
    if let Some(q) = qs.iter().find(|q| !(0.0..=100.0).contains(*q)) {
        return Err(Error::Value(format!("ValueError: percentile exceeds the valid range: {q} is not from 0 to 100")));
    }
    let axes = numpy_axes(&p.axis, dims.len())?;
    let perm: Vec<usize> = (0..dims.len()).filter(|i| !axes.contains(i)).chain(axes.iter().copied()).collect();
    let n: usize = axes.iter().map(|a| dims[*a]).product();
    ensure!(n > 0 || outs[0].is_empty(), "an array of shape {} has no elements, so no percentiles", ins[0].shape());
    let mut values = memory::filled(0.0, ins[0].len());
    with_scratch(values.len(), |wide: &mut [f64]| {
        f64::load_any(elements(&ins[0])?, 0, wide);
        movement::transpose(wide, &dims, &perm, &mut values);
        Ok::<(), Error>(())
    })?;
    if n == 0 {
        return Ok(());
    }
    let groups = values.len() / n;
    let indices = needed_indices(&qs, n);
    sort_at_indices(&mut values, n, &indices);
    let mut results = memory::filled(0.0, qs.len() * groups);
    for (q, row) in qs.iter().zip(results.chunks_mut(groups)) {
        for (group, y) in values.chunks(n).zip(row) {
            *y = interpolate(group, q / 100.0 * (n - 1) as f64, p.interpolation);
        }
    }
    f64::store_any(&results, elements_mut(&mut outs[0])?);
    Ok(())
}

/// The indices into a sorted group of `n` elements that the percentiles depend on, ascending.
fn needed_indices(qs: &[f64], n: usize) -> Vec<usize> {
    let fractional_index = |q: &f64| q / 100.0 * (n - 1) as f64;
    let mut indices: Vec<usize> =
        qs.iter().flat_map(|q| [fractional_index(q).floor() as usize, fractional_index(q).ceil() as usize]).collect();
    indices.sort_unstable();
    indices.dedup();
    indices
}

/// The value at a fractional index. The elements at the two neighboring indices must be in sorted order.
fn interpolate(sorted: &[f64], index: f64, interpolation: PercentileInterpolation) -> f64 {
    let (low, high) = (sorted[index.floor() as usize], sorted[index.ceil() as usize]);
    match interpolation {
        PercentileInterpolation::Lower => low,
        PercentileInterpolation::Higher => high,
        // As in MXNet; NumPy rounds halves to even.
        PercentileInterpolation::Nearest => sorted[(index + 0.5).floor() as usize],
        PercentileInterpolation::Midpoint => (low + high) / 2.0,
        PercentileInterpolation::Linear => low + (high - low) * index.fract(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close, vector};

    fn numbers(dims: &[i64]) -> ferromx_core::ndarray::NDArray {
        let n = dims.iter().product::<i64>();
        array(&(0..n).map(|i| ((i * 7) % 11) as f64 / 4.0 + 0.5).collect::<Vec<_>>(), dims)
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x = numbers(&[2, 3, 4]);
        for attrs in [&[][..], &[("axis", "1"), ("ddof", "1")], &[("axis", "(0, 2)"), ("keepdims", "1")]] {
            Case::new(&VAR, attrs).check_gradient(std::slice::from_ref(&x));
            Case::new(&STD, attrs).check_gradient(std::slice::from_ref(&x));
        }
        let a = numbers(&[2, 3]);
        for returned in ["0", "1"] {
            let case = |axis| Case::new(&AVERAGE, &[("axis", axis), ("returned", returned)]);
            case("None").check_gradient(&[a.clone(), numbers(&[2, 3])]);
            case("1").check_gradient(&[a.clone(), numbers(&[2, 3])]);
            case("1").check_gradient(&[a.clone(), numbers(&[3])]);
            case("0").check_gradient(&[a.clone(), numbers(&[2])]);
            Case::new(&AVERAGE, &[("weighted", "0"), ("axis", "0"), ("returned", returned)])
                .check_gradient(std::slice::from_ref(&a));
        }
    }

    #[test]
    fn nothing_has_an_average_with_weights() {
        let case = Case::new(&AVERAGE, &[("axis", "1")]);
        assert_eq!(case.run1(&[numbers(&[0, 3, 2]), numbers(&[3])]).unwrap().shape(), &[0, 2].into());
    }

    #[test]
    fn percentiles_are_interpolated_between_elements() {
        let x = vector(DType::F64, &[3.0, 0.0, 5.0, 1.0, 4.0, 2.0]);
        for (interpolation, want) in
            [("linear", 1.75), ("lower", 1.0), ("higher", 2.0), ("nearest", 2.0), ("midpoint", 1.5)]
        {
            let case = Case::new(&PERCENTILE, &[("q_scalar", "35"), ("interpolation", interpolation)]);
            assert_eq!(case.run1(std::slice::from_ref(&x)).unwrap().to_vec::<f64>().unwrap(), [want]);
        }
        let halves = Case::new(&PERCENTILE, &[("q_scalar", "50"), ("interpolation", "nearest")]);
        let median = halves.run1(&[vector(DType::F64, &[1.0, 0.0])]).unwrap();
        assert_eq!(median.to_vec::<f64>().unwrap(), [1.0], "a half is rounded up");
        let y = Case::new(&PERCENTILE, &[("axis", "1")])
            .run1(&[x.reshape(&[2, 3].into()).unwrap(), vector(DType::F64, &[0.0, 100.0])])
            .unwrap();
        assert_eq!((y.shape(), y.to_vec::<f64>().unwrap()), (&[2, 2].into(), vec![0.0, 1.0, 5.0, 4.0]));
        let nan = Case::new(&PERCENTILE, &[("q_scalar", "0")]).run1(&[vector(DType::F32, &[1.0, f64::NAN])]).unwrap();
        assert!(nan.to_vec::<f32>().unwrap()[0].is_nan());
        assert!(
            Case::new(&PERCENTILE, &[("q_scalar", "135")])
                .run1(&[x])
                .unwrap_err()
                .to_string()
                .contains("not from 0 to 100")
        );
    }

    #[test]
    fn the_variance_of_uint8_does_not_overflow() {
        let x = vector(DType::U8, &[200.0, 100.0, 3.0]);
        let y = Case::new(&VAR, &[("dtype", "float64")]).run1(&[x]).unwrap();
        close(&y.to_vec_as::<f64>().unwrap(), &[6_468.666_666_666_667], 1e-6);
    }
}
