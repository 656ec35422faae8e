//! Equally spaced numbers: `arange`, `linspace`, `arange_like`, `logspace`. Also `_set_value`.

use std::borrow::Cow;

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, SparseCall, arg};
use ferromx_core::params::{Attrs, FieldInfo, NumDType, OpParams, ParamValue, Params};
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::{In, Out, Req, call_once};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::progression::arithmetic_progression;

use super::fill;
use crate::elemwise::family::elements_mut;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&ARANGE, &LINSPACE, &ARANGE_LIKE, &SET_VALUE, &NP_ARANGE, &LOGSPACE];

params! {
    /// Parameters of `_arange`.
    pub struct RangeParam {
        /// The first number; if `stop` is omitted, the end of a range from 0.
        start: f64 = required;
        /// The end of the range (exclusive).
        stop: Option<f64> = None;
        /// The step between neighboring numbers.
        step: f64 = 1.0;
        /// Number of repetitions of each number.
        repeat: i32 = 1, where 1..=i32::MAX;
        /// Whether the end is inferred from the shape of the output.
        infer_range: bool = false;
        /// The device, such as `cpu(0)`; by default the current one.
        ctx: String = (String::new());
        /// The element type.
        dtype: NumDType = (NumDType(DType::F32));
    }
}

static ARANGE: Operator<RangeParam> = Operator::new("_arange")
    .doc(
        "Equally spaced numbers from `start` up to `stop` (exclusive), each repeated `repeat` times:\n\n\
         _arange(0, 3, repeat=2) = [0, 0, 1, 1, 2, 2].",
    )
    .inputs(&[])
    .shape(|p, io| {
        let p = p.get::<RangeParam>();
        ensure!(p.step != 0.0, "Range does not support step=0");
        if p.infer_range && p.stop.is_none() {
            return Ok(());
        }
        let (start, stop) = bounds(p);
        let is_nonempty = if p.step > 0.0 { start < stop } else { start > stop };
        ensure!(
            is_nonempty,
            "Invalid range (start, stop, step) = ({start},{stop},{}): it is empty; stop must be beyond start in the direction of step",
            p.step
        );
        let count = ((stop - start) / p.step).ceil() * f64::from(p.repeat);
        ensure!(count < i64::MAX as f64, "the range from {start} to {stop} by {} has too many numbers", p.step);
        io.assign_out(0, &Shape::new(&[count as i64]))
    })
    .dtype(|p, io| io.assign_out(0, p.get::<RangeParam>().dtype.0))
    .forward(arange)
    .grad(Grad::Zero);

/// Start and end of the range.
fn bounds(p: &RangeParam) -> (f64, f64) {
    match p.stop {
        Some(stop) => (p.start, stop),
        None if p.infer_range => (p.start, f64::INFINITY),
        None => (0.0, p.start),
    }
}

/// The numbers of a range.
fn arange(ctx: &OpCtx<'_>, _: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<RangeParam>();
    fill_range(&mut outs[0], bounds(p).0, p.step, p.repeat as usize, RangeRounding::Converted)
}

/// Fills an array with equally spaced numbers, each repeated `repeat` times.
pub(crate) fn fill_range(
    out: &mut Out<'_>,
    start: f64,
    step: f64,
    repeat: usize,
    rounding: RangeRounding,
) -> Result<()> {
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        let (start, step, last) = match rounding {
            RangeRounding::Converted => (T::from_f64(start).to_f64(), T::from_f64(step).to_f64(), None),
            RangeRounding::Exact { last } => (start, step, last),
        };
        let out = out.slice_mut::<T>()?;
        arithmetic_progression(start, step, repeat, out);
        if let (Some(x), Some(last)) = (out.last_mut(), last) {
            *x = T::from_f64(last);
        }
        Ok(())
    }, d => Err(Error::Internal(format!("no range of type {d}"))))
}

/// How the numbers of a range are rounded.
#[derive(Clone, Copy)]
pub(crate) enum RangeRounding {
    /// Start and step are converted to the element type first, so that integers are equally spaced.
    Converted,
    /// Each number is computed in double precision, then converted. The last one may be given, to avoid its rounding error.
    Exact {
        /// The last number.
        last: Option<f64>,
    },
}

params! {
    /// The parameters that `_linspace` reads.
    pub struct LinspaceParam {
        /// The first number.
        start: f64 = required;
        /// The last number, or with endpoint=False the exclusive end.
        stop: f64 = required;
        /// The number of elements.
        num: i32 = required, where 0..=i32::MAX;
        /// Whether stop is included as the last number.
        endpoint: bool = true;
        /// The device, such as `cpu(0)`; by default the current one.
        ctx: String = (String::new());
        /// The element type.
        dtype: NumDType = (NumDType(DType::F32));
    }
}

/// The parameters of `_linspace`. As in MXNet, the metadata lists the parameters of `_arange` instead.
pub(super) struct Linspace(LinspaceParam);

impl OpParams for Linspace {
    fn fields() -> Vec<FieldInfo> {
        RangeParam::fields()
    }

    fn parse(attrs: &Attrs) -> Result<Self> {
        LinspaceParam::parse(attrs).map(Linspace)
    }
}

static LINSPACE: Operator<Linspace> = Operator::new("_linspace")
    .aliases(&["_npi_linspace"])
    .doc(
        "`num` equally spaced numbers from `start` to `stop`. The parameters are start, stop, num, endpoint (whether stop is the last \
         number, true by default), ctx and dtype.",
    )
    .inputs(&[])
    .shape(|p, io| io.assign_out(0, &Shape::new(&[p.get::<Linspace>().0.num.into()])))
    .dtype(|p, io| io.assign_out(0, p.get::<Linspace>().0.dtype.0))
    .forward(|ctx, _, outs| {
        let p = &ctx.params::<Linspace>().0;
        let num_intervals = if p.endpoint { p.num - 1 } else { p.num };
        let step = if num_intervals > 0 { (p.stop - p.start) / f64::from(num_intervals) } else { 0.0 };
        // `start + n * step` would differ from `stop` by a rounding error.
        let last = (p.endpoint && num_intervals > 0).then_some(p.stop);
        fill_range(&mut outs[0], p.start, step, 1, RangeRounding::Exact { last })
    })
    .grad(Grad::Zero);

params! {
    /// Parameters of `_contrib_arange_like`.
    pub struct ArangeLikeParam {
        /// The first number.
        start: f64 = 0.0;
        /// The step between neighboring numbers.
        step: f64 = 1.0;
        /// Number of repetitions of each number.
        repeat: i32 = 1, where 1..=i32::MAX;
        /// The device; ignored, the result is on the device of data.
        ctx: String = (String::new());
        /// The axis of data whose length the result has; by default the result has the shape of data.
        axis: Option<i32> = None;
    }
}

static ARANGE_LIKE: Operator<ArangeLikeParam> = Operator::new("_contrib_arange_like")
    .aliases(&["_npx_arange_like"])
    .doc("Equally spaced numbers from `start` on, each repeated `repeat` times, with the type of data and its shape or an axis's length.")
    .inputs(&[arg("data", "An array of which only shape and type are used.")])
    .shape(|p, io| {
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        let shape = match p.get::<ArangeLikeParam>().axis {
            None => io.ins[0].clone(),
            Some(axis) => Shape::new(&[io.ins[0].dim(Shape::axis(axis.into(), rank)?)]),
        };
        io.assign_out(0, &shape)
    })
    .forward(|ctx, _, outs| {
        let p = ctx.params::<ArangeLikeParam>();
        fill_range(&mut outs[0], p.start, p.step, p.repeat as usize, RangeRounding::Converted)
    })
    .grad(Grad::Zero);

/// A number that the metadata lists with the type `real_t`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RealT(f32);

impl ParamValue for RealT {
    fn type_name() -> Cow<'static, str> {
        "real_t".into()
    }
    fn parse(text: &str) -> std::result::Result<Self, String> {
        f32::parse(text).map(RealT)
    }
    fn print(&self) -> String {
        self.0.print()
    }
    const TYPE_ONLY: bool = true;
}

params! {
    /// Parameters of `_set_value`.
    pub struct SetValueParam {
        /// The value of every element.
        src: RealT = required;
    }
}

static SET_VALUE: Operator<SetValueParam> = Operator::new("_set_value")
    .doc("Sets every element of the array that is given as output to `src`.")
    .inputs(&[])
    .shape(|_, _| Ok(()))
    .dtype(|_, io| match io.outs[0] {
        Some(_) => Ok(()),
        None => io.assign_out(0, DType::F32),
    })
    .forward(|ctx, _, outs| fill(&mut outs[0], ctx.params::<SetValueParam>().src.0.into()))
    .sparse(stores_all_rows, set_all_rows)
    .grad(Grad::Zero);

fn stores_all_rows(_: &Params, _: &[StorageType], out: Option<StorageType>) -> Option<StorageType> {
    out.filter(|s| *s == StorageType::RowSparse)
}

/// A row_sparse array that stores all rows, even if the value is 0.
fn set_all_rows(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let [out] = call.outs else { return Err(Error::Internal("_set_value has one output array".into())) };
    let shape = &call.shapes[0];
    let data = NDArray::empty(shape, out.dtype(), out.context())?;
    let rows = NDArray::empty(&Shape::new(&[shape.dim(0)]), DType::I64, out.context())?;
    let value = call.ctx.params::<SetValueParam>().src.0.into();
    call_once(&[], &[(&data, Req::Write), (&rows, Req::Write)], |_, outs| {
        fill(&mut outs[0], value)?;
        (0..).zip(outs[1].slice_mut::<i64>()?).for_each(|(i, row)| *row = i);
        Ok(())
    })?;
    Ok(vec![SparseArray::row_sparse(shape, data, rows)?.into()])
}

static NP_ARANGE: Operator<RangeParam> = Operator::new("_npi_arange")
    .doc("Equally spaced numbers from `start` up to `stop` (exclusive); from 0 up to `start` if there is no stop.")
    .inputs(&[])
    .shape(|p, io| {
        let p = p.get::<RangeParam>();
        ensure!(p.step != 0.0, "step=0 is not allowed in a range");
        ensure!(p.repeat == 1, "repeat={} is not supported: apply repeat to the range", p.repeat);
        ensure!(!p.infer_range || p.stop.is_some(), "infer_range needs a stop");
        let (start, stop) = bounds(p);
        let count = ((stop - start) / p.step).ceil().max(0.0);
        ensure!(count < i64::MAX as f64, "the range from {start} to {stop} by {} has too many numbers", p.step);
        io.assign_out(0, &Shape::new(&[count as i64]))
    })
    .dtype(|p, io| io.assign_out(0, p.get::<RangeParam>().dtype.0))
    .forward(arange)
    .grad(Grad::Zero);

params! {
    /// Parameters of `_npi_logspace`.
    pub struct LogspaceParam {
        /// The first exponent.
        start: f64 = required;
        /// The last exponent.
        stop: f64 = required;
        /// Number of elements.
        num: i32 = required;
        /// Whether `stop` is included as the last exponent.
        endpoint: bool = true;
        /// The base of the powers.
        base: f64 = 10.0;
        /// The device, such as `cpu(0)`; by default the current one.
        ctx: String = (String::new());
        /// The element type.
        dtype: NumDType = (NumDType(DType::F32));
    }
}

static LOGSPACE: Operator<LogspaceParam> = Operator::new("_npi_logspace")
    .doc("Powers of `base` with equally spaced exponents from `start` to `stop`.")
    .inputs(&[])
    .shape(|p, io| {
        let n = p.get::<LogspaceParam>().num;
        ensure!(n >= 0, "num={n} must be 0 or more");
        io.assign_out(0, &Shape::new(&[n.into()]))
    })
    .dtype(|p, io| io.assign_out(0, p.get::<LogspaceParam>().dtype.0))
    .forward(|ctx, _, outs| {
        let p = ctx.params::<LogspaceParam>();
        let num_intervals = if p.endpoint { p.num - 1 } else { p.num };
        let step = if num_intervals > 0 { (p.stop - p.start) / f64::from(num_intervals) } else { 0.0 };
        elements_mut(&mut outs[0])?.set_each(&|i| p.base.powf(p.start + i as f64 * step));
        Ok(())
    })
    .grad(Grad::Zero);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, created};

    #[test]
    fn ranges_are_equally_spaced_and_exclude_their_end() {
        assert_eq!(created(&ARANGE, &[("start", "5")]).unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0]);
        let down = [("start", "5"), ("stop", "0"), ("step", "-2"), ("dtype", "int32")];
        assert_eq!(created(&ARANGE, &down).unwrap(), [5.0, 3.0, 1.0]);
        assert_eq!(created(&ARANGE, &[("start", "2"), ("repeat", "2")]).unwrap(), [0.0, 0.0, 1.0, 1.0]);
        let empty = created(&ARANGE, &[("start", "3"), ("stop", "3")]).unwrap_err().to_string();
        assert!(empty.contains("Invalid range"), "{empty}");
    }

    #[test]
    fn ranges_infer_their_end_from_the_shape() {
        let case = Case::new(&ARANGE, &[("start", "3"), ("infer_range", "True")]);
        assert_eq!(case.shapes_both(&[], &[Shape::new(&[4])]).unwrap().1, [Shape::new(&[4])]);
    }

    #[test]
    fn linspace_ends_exactly_at_stop() {
        let y = Case::new(&LINSPACE, &[("start", "0"), ("stop", "0.7"), ("num", "8")]).run1(&[]).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap()[7], 0.7);
        let one = Case::new(&LINSPACE, &[("start", "3"), ("stop", "9"), ("num", "1")]).run1(&[]).unwrap();
        assert_eq!(one.to_vec::<f32>().unwrap(), [3.0]);
    }

    #[test]
    fn arange_like_has_the_length_of_the_axis() {
        let x = array(&[0i32; 6], &[2, 3]);
        let y = Case::new(&ARANGE_LIKE, &[("axis", "-1"), ("start", "5")]).run1(&[x]).unwrap();
        assert_eq!(y.to_vec::<i32>().unwrap(), [5, 6, 7]);
    }

    #[test]
    fn numpy_ranges_may_be_empty() {
        assert_eq!(created(&NP_ARANGE, &[("start", "3")]).unwrap(), [0.0, 1.0, 2.0]);
        assert!(created(&NP_ARANGE, &[("start", "5"), ("stop", "3")]).unwrap().is_empty());
        assert!(created(&NP_ARANGE, &[("start", "5"), ("repeat", "2")]).is_err());
    }

    #[test]
    fn logspace_has_equally_spaced_exponents() {
        assert_eq!(created(&LOGSPACE, &[("start", "0"), ("stop", "2"), ("num", "3")]).unwrap(), [1.0, 10.0, 100.0]);
        let without_endpoint =
            [("start", "0"), ("stop", "4"), ("num", "2"), ("endpoint", "0"), ("base", "2"), ("dtype", "int32")];
        assert_eq!(created(&LOGSPACE, &without_endpoint).unwrap(), [1.0, 4.0]);
    }
}
