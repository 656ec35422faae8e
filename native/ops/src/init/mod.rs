//! Array creation: constants, ranges, identity matrices. The runtime handles the attribute `ctx`, so kernels only fill their
//! output.

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::op::{OpCtx, OpDef};
use ferromx_core::params::{AnyDType, NumDType, ParamValue};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::par;

mod ranges;

/// `_linspace`, `_contrib_arange_like`, `_set_value`.
pub static RANGES: &[&OpDef] = ranges::OPS;
/// The operators of this file.
pub static OPS: &[&OpDef] = &[&ZEROS, &ONES, &FULL, &ZEROS_WITHOUT_DTYPE, &ARANGE, &EYE];

params! {
    /// Parameters of `_zeros` and `_ones`.
    pub struct InitParam {
        /// The shape.
        shape: Shape = (Shape::new(&[]));
        /// The device, such as `cpu(0)`; by default the current one.
        ctx: String = (String::new());
        /// The element type.
        dtype: AnyDType = (AnyDType(DType::F32));
    }
}

/// Zeros.
pub static ZEROS: OpDef = OpDef::new("_zeros")
    .doc("An array of zeros.")
    .inputs(&[])
    .params::<InitParam>()
    .shape(|p, io| io.assign_out(0, &p.get::<InitParam>().shape))
    .dtype(|p, io| io.assign_out(0, p.get::<InitParam>().dtype.0))
    .forward(|_, _, outs| fill(&mut outs[0], 0.0))
    .sparse(crate::sparse::zeros_rule, crate::sparse::zeros)
    .grad(Grad::Zero);

/// Ones.
pub static ONES: OpDef = OpDef::new("_ones")
    .doc("An array of ones.")
    .inputs(&[])
    .params::<InitParam>()
    .shape(|p, io| io.assign_out(0, &p.get::<InitParam>().shape))
    .dtype(|p, io| io.assign_out(0, p.get::<InitParam>().dtype.0))
    .forward(|_, _, outs| fill(&mut outs[0], 1.0))
    .grad(Grad::Zero);

/// Sets every element to a value.
pub fn fill(out: &mut Out<'_>, value: f64) -> Result<()> {
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        out.slice_mut::<T>()?.fill(T::from_f64(value));
        Ok(())
    }, d => Err(Error::Internal(format!("no constant of type {d}"))))
}

params! {
    /// Parameters of `_full`.
    pub struct FullParam {
        /// The shape.
        shape: Shape = (Shape::unknown());
        /// The device, such as `cpu(0)`; by default the current one.
        ctx: String = (String::new());
        /// The element type.
        dtype: AnyDType = (AnyDType(DType::F32));
        /// The value of every element.
        value: f64 = required;
    }
}

/// A constant.
pub static FULL: OpDef = OpDef::new("_full")
    .aliases(&["_npi_full"])
    .doc("An array whose elements are all equal to `value`.")
    .inputs(&[])
    .params::<FullParam>()
    .shape(|p, io| io.assign_out(0, &p.get::<FullParam>().shape))
    .dtype(|p, io| io.assign_out(0, p.get::<FullParam>().dtype.0))
    .forward(|ctx, _, outs| fill(&mut outs[0], ctx.params::<FullParam>().value))
    .grad(Grad::Zero);

params! {
    /// Parameters of `_zeros_without_dtype`.
    pub struct ZerosWithoutDTypeParam {
        /// The shape.
        shape: Shape = (Shape::unknown());
        /// The device, such as `cpu(0)`; by default the current one.
        ctx: String = (String::new());
        /// The code of the element type; -1 to infer it.
        dtype: i32 = (-1);
    }
}

/// Zeros whose dtype may be inferred.
pub static ZEROS_WITHOUT_DTYPE: OpDef = OpDef::new("_zeros_without_dtype")
    .doc("An array of zeros whose element type may be left to inference.")
    .inputs(&[])
    .params::<ZerosWithoutDTypeParam>()
    .shape(|p, io| io.assign_out(0, &p.get::<ZerosWithoutDTypeParam>().shape))
    .dtype(|p, io| {
        let code = p.get::<ZerosWithoutDTypeParam>().dtype;
        let known = DType::from_code(code);
        ensure!(known.is_some() || code == -1, "dtype {code} is not the code of an element type: use -1 to infer it");
        known.map_or(Ok(()), |d| io.assign_out(0, d))
    })
    .forward(|_, _, outs| fill(&mut outs[0], 0.0))
    .grad(Grad::Zero);

params! {
    /// Parameters of `_arange`.
    pub struct RangeParam {
        /// The first number; if `stop` is omitted, the end of a range from 0.
        start: f64 = required;
        /// The end of the range (exclusive).
        stop: Option<f64> = None;
        /// The step between neighbouring numbers.
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

/// Equally spaced numbers.
pub static ARANGE: OpDef = OpDef::new("_arange")
    .doc(
        "Equally spaced numbers from `start` up to `stop` (exclusive), each repeated `repeat` times:\n\n\
         _arange(0, 3, repeat=2) = [0, 0, 1, 1, 2, 2].",
    )
    .inputs(&[])
    .params::<RangeParam>()
    .shape(|p, io| {
        let p = p.get::<RangeParam>();
        ensure!(p.step != 0.0, "Range does not support step=0");
        if p.infer_range && p.stop.is_none() {
            return Ok(());
        }
        let (start, stop) = bounds(p);
        let forwards = if p.step > 0.0 { start < stop } else { start > stop };
        ensure!(
            forwards,
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
pub(crate) fn bounds(p: &RangeParam) -> (f64, f64) {
    match p.stop {
        Some(stop) => (p.start, stop),
        None if p.infer_range => (p.start, f64::INFINITY),
        None => (0.0, p.start),
    }
}

/// Elements of a parallel chunk.
const GRAIN: usize = 1 << 14;

/// The numbers of a range.
pub fn arange(ctx: &OpCtx<'_>, _: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
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
        par::parallel_rows(out, GRAIN, 1, |chunk, out| {
            for (i, x) in out.iter_mut().enumerate() {
                *x = T::from_f64(start + ((chunk * GRAIN + i) / repeat) as f64 * step);
            }
        });
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
    /// Each number is computed in double precision and converted once; the last one may be given exactly.
    Exact {
        /// The last number.
        last: Option<f64>,
    },
}

/// The element types of `_eye`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EyeDType(pub DType);

impl EyeDType {
    const SET: [DType; 7] = [DType::F16, DType::F32, DType::F64, DType::I32, DType::I64, DType::I8, DType::U8];
}

impl ParamValue for EyeDType {
    fn type_name() -> std::borrow::Cow<'static, str> {
        ferromx_core::params::enum_type(&Self::SET.map(DType::name)).into()
    }
    fn parse(text: &str) -> std::result::Result<Self, String> {
        let known = Self::SET.into_iter().find(|d| d.name() == text).map(EyeDType);
        known.ok_or_else(|| ferromx_core::params::enum_error(text, &Self::SET.map(DType::name)))
    }
    fn print(&self) -> String {
        self.0.name().into()
    }
    fn print_default(&self) -> String {
        format!("'{}'", self.0.name())
    }
    const SEPARATOR: &'static str = ",";
}

params! {
    /// Parameters of `_eye`.
    pub struct EyeParam {
        /// The number of rows.
        n as "N": i64 = required, where 0..=i64::MAX;
        /// The number of columns; 0 or less for as many as rows.
        m as "M": i64 = 0;
        /// The diagonal: 0 is the main one, positive numbers are above it, negative ones below.
        k: i64 = 0;
        /// The device, such as `cpu(0)`; by default the current one.
        ctx: String = (String::new());
        /// The element type.
        dtype: EyeDType = (EyeDType(DType::F32));
    }
}

impl EyeParam {
    fn columns(&self) -> i64 {
        if self.m > 0 { self.m } else { self.n }
    }
}

/// A matrix with ones on a diagonal.
pub static EYE: OpDef = OpDef::new("_eye")
    .doc("A matrix of N rows and M columns with ones on a diagonal and zeros elsewhere.")
    .inputs(&[])
    .params::<EyeParam>()
    .shape(|p, io| {
        let p = p.get::<EyeParam>();
        io.assign_out(0, &Shape::new(&[p.n, p.columns()]))
    })
    .dtype(|p, io| io.assign_out(0, p.get::<EyeParam>().dtype.0))
    .forward(|ctx, _, outs| {
        let p = ctx.params::<EyeParam>();
        fill(&mut outs[0], 0.0)?;
        dispatch!(outs[0].dtype(), T in [f32, f64, f16, u8, i8, i32, i64] => {
            let rows = outs[0].slice_mut::<T>()?.chunks_exact_mut(p.columns().max(1) as usize);
            for (i, row) in (0i64..).zip(rows) {
                let one = i.checked_add(p.k).and_then(|j| usize::try_from(j).ok());
                if let Some(x) = one.and_then(|j| row.get_mut(j)) {
                    *x = T::from_f64(1.0);
                }
            }
            Ok(())
        }, d => Err(ctx.unsupported(d, &EyeDType::SET)))
    })
    .grad(Grad::Zero);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Case;

    fn numbers(def: &'static OpDef, attrs: &[(&str, &str)]) -> Result<Vec<f64>> {
        Case::parse(def, attrs)?.run1(&[])?.to_vec_as::<f64>()
    }

    #[test]
    fn ranges_are_equally_spaced_and_exclude_their_end() {
        assert_eq!(numbers(&ARANGE, &[("start", "5")]).unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0]);
        let down = [("start", "5"), ("stop", "0"), ("step", "-2"), ("dtype", "int32")];
        assert_eq!(numbers(&ARANGE, &down).unwrap(), [5.0, 3.0, 1.0]);
        assert_eq!(numbers(&ARANGE, &[("start", "2"), ("repeat", "2")]).unwrap(), [0.0, 0.0, 1.0, 1.0]);
        let empty = numbers(&ARANGE, &[("start", "3"), ("stop", "3")]).unwrap_err().to_string();
        assert!(empty.contains("Invalid range"), "{empty}");
    }

    #[test]
    fn ranges_infer_their_end_from_the_shape() {
        let case = Case::new(&ARANGE, &[("start", "3"), ("infer_range", "True")]);
        assert_eq!(case.shapes_both(&[], &[Shape::new(&[4])]).unwrap().1, [Shape::new(&[4])]);
    }

    #[test]
    fn constants_have_the_requested_type() {
        let full = numbers(&FULL, &[("shape", "(2,)"), ("value", "-1.25"), ("dtype", "int8")]).unwrap();
        assert_eq!(full, [-1.0, -1.0]);
        assert_eq!(numbers(&EYE, &[("N", "2"), ("M", "3"), ("k", "1")]).unwrap(), [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
        let e = Case::new(&ZEROS_WITHOUT_DTYPE, &[("dtype", "99")]).dtypes(&[]).unwrap_err().to_string();
        assert!(e.contains("99"), "{e}");
    }
}
