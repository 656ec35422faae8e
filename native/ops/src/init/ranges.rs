//! `_linspace`, `_contrib_arange_like`, `_set_value`.

use std::borrow::Cow;

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{OpDef, SparseCall, arg};
use ferromx_core::params;
use ferromx_core::params::{Attrs, FieldInfo, NumDType, OpParams, ParamValue, Params};
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::{Req, call_once};

use super::{RangeParam, RangeRounding, fill, fill_range};

/// The operators of this file.
pub(super) static OPS: &[&OpDef] = &[&LINSPACE, &ARANGE_LIKE, &SET_VALUE];

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

/// The parameters of `_linspace`, for which MXNet's metadata lists those of `_arange`.
pub(super) struct Linspace(LinspaceParam);

impl OpParams for Linspace {
    fn fields() -> Vec<FieldInfo> {
        RangeParam::fields()
    }

    fn parse(attrs: &Attrs) -> Result<Self> {
        LinspaceParam::parse(attrs).map(Linspace)
    }
}

pub(super) static LINSPACE: OpDef = OpDef::new("_linspace")
    .aliases(&["_npi_linspace"])
    .doc(
        "`num` equally spaced numbers from `start` to `stop`. The parameters are start, stop, num, endpoint (whether stop is the last \
         number, true by default), ctx and dtype.",
    )
    .inputs(&[])
    .params::<Linspace>()
    .shape(|p, io| io.assign_out(0, &Shape::new(&[p.get::<Linspace>().0.num.into()])))
    .dtype(|p, io| io.assign_out(0, p.get::<Linspace>().0.dtype.0))
    .forward(|ctx, _, outs| {
        let p = &ctx.params::<Linspace>().0;
        let num_intervals = if p.endpoint { p.num - 1 } else { p.num };
        let step = if num_intervals > 0 { (p.stop - p.start) / f64::from(num_intervals) } else { 0.0 };
        // The last number is exactly stop, without rounding error.
        let last = (p.endpoint && num_intervals > 0).then_some(p.stop);
        fill_range(&mut outs[0], p.start, step, 1, RangeRounding::Exact { last })
    })
    .grad(Grad::Zero);

params! {
    /// Parameters of `_contrib_arange_like`.
    pub struct ArangeLikeParam {
        /// The first number.
        start: f64 = 0.0;
        /// The step between neighbouring numbers.
        step: f64 = 1.0;
        /// Number of repetitions of each number.
        repeat: i32 = 1, where 1..=i32::MAX;
        /// The device; ignored, the result is on the device of data.
        ctx: String = (String::new());
        /// The axis of data whose length the result has; by default the result has the shape of data.
        axis: Option<i32> = None;
    }
}

pub(super) static ARANGE_LIKE: OpDef = OpDef::new("_contrib_arange_like")
    .aliases(&["_npx_arange_like"])
    .doc("Equally spaced numbers from `start` on, each repeated `repeat` times, with the type of data and its shape or an axis's length.")
    .inputs(&[arg("data", "An array of which only shape and type are used.")])
    .params::<ArangeLikeParam>()
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

/// A number whose type the metadata lists as `real_t`.
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

pub(super) static SET_VALUE: OpDef = OpDef::new("_set_value")
    .doc("Sets every element of the array that is given as output to `src`.")
    .inputs(&[])
    .params::<SetValueParam>()
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

/// A row_sparse array that stores every row, even if the value is 0.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn both_ends_are_exact() {
        let y = Case::new(&LINSPACE, &[("start", "0"), ("stop", "0.7"), ("num", "8")]).run1(&[]).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap()[7], 0.7);
        let one = Case::new(&LINSPACE, &[("start", "3"), ("stop", "9"), ("num", "1")]).run1(&[]).unwrap();
        assert_eq!(one.to_vec::<f32>().unwrap(), [3.0]);
    }

    #[test]
    fn numbers_like_an_axis() {
        let x = array(&[0i32; 6], &[2, 3]);
        let y = Case::new(&ARANGE_LIKE, &[("axis", "-1"), ("start", "5")]).run1(&[x]).unwrap();
        assert_eq!(y.to_vec::<i32>().unwrap(), [5, 6, 7]);
    }
}
