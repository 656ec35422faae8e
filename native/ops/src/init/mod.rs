//! Array creation. The runtime allocates arrays on the device `ctx`; kernels only fill them.
//!
//! Constants are in this file. `matrices` has identity matrices and the indices of a grid, `ranges` equally spaced numbers, and `windows`
//! window functions.

mod matrices;
mod ranges;
mod windows;

pub(crate) use ranges::{RangeRounding, fill_range};

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::op::{AnyOperator, Operator, arg};
use ferromx_core::params::AnyDType;
use ferromx_core::shape::Shape;
use ferromx_core::storage::Out;
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::movement;

/// The operators of this family.
pub(crate) static OPS: &[&[&dyn AnyOperator]] = &[
    &[&ZEROS, &ONES, &ZEROS.renamed("_npi_zeros"), &ONES.renamed("_npi_ones"), &FULL, &FULL_LIKE, &ZEROS_WITHOUT_DTYPE],
    matrices::OPS,
    ranges::OPS,
    windows::OPS,
];

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

pub(crate) static ZEROS: Operator<InitParam> = Operator::new("_zeros")
    .doc("An array of zeros.")
    .inputs(&[])
    .shape(|p, io| io.assign_out(0, &p.get::<InitParam>().shape))
    .dtype(|p, io| io.assign_out(0, p.get::<InitParam>().dtype.0))
    .forward(|_, _, outs| fill(&mut outs[0], 0.0))
    .sparse(crate::sparse::zeros_rule, crate::sparse::zeros)
    .grad(Grad::Zero);

pub(crate) static ONES: Operator<InitParam> = Operator::new("_ones")
    .doc("An array of ones.")
    .inputs(&[])
    .shape(|p, io| io.assign_out(0, &p.get::<InitParam>().shape))
    .dtype(|p, io| io.assign_out(0, p.get::<InitParam>().dtype.0))
    .forward(|_, _, outs| fill(&mut outs[0], 1.0))
    .grad(Grad::Zero);

/// Sets every element to a value.
pub(crate) fn fill(out: &mut Out<'_>, value: f64) -> Result<()> {
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        movement::fill(out.slice_mut::<T>()?, T::from_f64(value));
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

pub(crate) static FULL: Operator<FullParam> = Operator::new("_full")
    .aliases(&["_npi_full"])
    .doc("An array whose elements are all equal to `value`.")
    .inputs(&[])
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

pub(crate) static ZEROS_WITHOUT_DTYPE: Operator<ZerosWithoutDTypeParam> = Operator::new("_zeros_without_dtype")
    .doc("An array of zeros whose element type may be left to inference.")
    .inputs(&[])
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
    /// Parameters of `_npi_full_like`.
    pub struct FullLikeParam {
        /// The value of every element.
        fill_value: f64 = required;
        /// The device; ignored, the result is on the device of the array.
        ctx: String = (String::new());
        /// The element type; by default that of the array.
        dtype: Option<AnyDType> = None;
    }
}

pub(super) static FULL_LIKE: Operator<FullLikeParam> = Operator::new("_npi_full_like")
    .doc("An array of the shape of another whose elements are all equal to `fill_value`.")
    .inputs(&[arg("a", "The array whose shape is taken.")])
    .dtype(|p, io| match p.get::<FullLikeParam>().dtype.map(|d| d.0).or(io.ins[0]) {
        Some(d) => io.assign_out(0, d),
        None => Ok(()),
    })
    .forward(|ctx, _, outs| fill(&mut outs[0], ctx.params::<FullLikeParam>().fill_value))
    .grad(Grad::Zero);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, created};

    #[test]
    fn constants_have_the_requested_type() {
        let full = created(&FULL, &[("shape", "(2,)"), ("value", "-1.25"), ("dtype", "int8")]).unwrap();
        assert_eq!(full, [-1.0, -1.0]);
        let e = Case::new(&ZEROS_WITHOUT_DTYPE, &[("dtype", "99")]).dtypes(&[]).unwrap_err().to_string();
        assert!(e.contains("99"), "{e}");
    }
}
