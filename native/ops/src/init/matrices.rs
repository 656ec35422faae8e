//! `eye`, `identity`, and `indices`: matrices with ones on a diagonal, and the indices of a grid.

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::op::{AnyOperator, OpCtx, Operator};
use ferromx_core::params::{NumDType, ParamValue, Untyped};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::{index, movement};

use super::{InitParam, fill};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&EYE, &NP_EYE, &IDENTITY, &INDICES];

/// An element type of `_eye`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EyeDType(DType);

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
        /// The number of columns; 0 or less means the number of rows.
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

pub(super) static EYE: Operator<EyeParam> = Operator::new("_eye")
    .doc("A matrix of N rows and M columns with ones on a diagonal and zeros elsewhere.")
    .inputs(&[])
    .shape(|p, io| {
        let p = p.get::<EyeParam>();
        io.assign_out(0, &Shape::new(&[p.n, p.columns()]))
    })
    .dtype(|p, io| io.assign_out(0, p.get::<EyeParam>().dtype.0))
    .forward(|ctx, _, outs| ones_on_diagonal(ctx.params::<EyeParam>().k, &mut outs[0]))
    .grad(Grad::Zero);

params! {
    /// Parameters of `_npi_eye`.
    pub struct NpEyeParam {
        /// The number of rows.
        n as "N": i64 = required;
        /// The number of columns; by default the number of rows.
        m as "M": Untyped<Option<i64>> = (Untyped(None));
        /// The diagonal: 0 is the main one, positive numbers are above it, negative ones below.
        k: i64 = 0;
        /// The device, such as `cpu(0)`; by default the current one.
        ctx: String = (String::new());
        /// The element type.
        dtype: NumDType = (NumDType(DType::F32));
    }
}

pub(super) static NP_EYE: Operator<NpEyeParam> = Operator::new("_npi_eye")
    .doc("A matrix of N rows and M columns with ones on a diagonal and zeros elsewhere.")
    .inputs(&[])
    .shape(|p, io| {
        let p = p.get::<NpEyeParam>();
        let columns = p.m.0.unwrap_or(p.n);
        ensure!(p.n >= 0 && columns >= 0, "negative dimensions are not allowed: N={}, M={columns}", p.n);
        io.assign_out(0, &Shape::new(&[p.n, columns]))
    })
    .dtype(|p, io| io.assign_out(0, p.get::<NpEyeParam>().dtype.0))
    .forward(|ctx, _, outs| ones_on_diagonal(ctx.params::<NpEyeParam>().k, &mut outs[0]))
    .grad(Grad::Zero);

pub(super) static IDENTITY: Operator<InitParam> = Operator::new("_npi_identity")
    .doc(
        "A square matrix of the given shape with ones on its diagonal and zeros elsewhere. With one axis only the first element is 1; \
         in an array of any other shape with n rows, n elements that are n + 1 apart in memory are 1.",
    )
    .inputs(&[])
    .shape(|p, io| {
        let shape = &p.get::<InitParam>().shape;
        ensure!(shape.ndim() != Some(0), "shape=() has no rows: expected the shape of a square matrix, such as (3, 3)");
        io.assign_out(0, shape)
    })
    .dtype(|p, io| io.assign_out(0, p.get::<InitParam>().dtype.0))
    .forward(|_, _, outs| identity(&mut outs[0]))
    .grad(Grad::Zero);

/// Sets n elements to 1, spaced n + 1 apart, where n is the number of rows. They are the diagonal of a square matrix; MXNet does the same
/// for other shapes.
fn identity(out: &mut Out<'_>) -> Result<()> {
    fill(out, 0.0)?;
    let rows = out.shape().to_usize()[0];
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        movement::diagonal_fill(T::from_f64(1.0), (out.slice_mut::<T>()?, rows), 0);
        Ok(())
    }, d => Err(Error::Internal(format!("no one of type {d}"))))
}

fn ones_on_diagonal(k: i64, out: &mut Out<'_>) -> Result<()> {
    fill(out, 0.0)?;
    let dims = out.shape().to_usize();
    let columns = dims.last().copied().unwrap_or(1);
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        movement::diagonal_fill(T::from_f64(1.0), (out.slice_mut::<T>()?, columns), k);
        Ok(())
    }, d => Err(Error::Internal(format!("no one of type {d}"))))
}

params! {
    /// Parameters of `_npi_indices`.
    pub struct IndicesParam {
        /// The shape of the grid.
        dimensions: Shape = required;
        /// The element type.
        dtype: NumDType = (NumDType(DType::I32));
        /// The device, such as `cpu(0)`; by default the current one.
        ctx: String = (String::new());
    }
}

pub(super) static INDICES: Operator<IndicesParam> = Operator::new("_npi_indices")
    .doc("The indices of a grid: for each axis an array of the grid's shape that holds the index along that axis.")
    .inputs(&[])
    .shape(|p, io| {
        let grid = p.get::<IndicesParam>().dimensions.dims();
        ensure!(grid.iter().all(|d| *d >= 0), "dimensions={} has a negative number", Shape::new(grid));
        let out: Dims = std::iter::once(grid.len() as i64).chain(grid.iter().copied()).collect();
        io.assign_out(0, &Shape::from(out))
    })
    .dtype(|p, io| io.assign_out(0, p.get::<IndicesParam>().dtype.0))
    .forward(indices)
    .grad(Grad::Zero);

fn indices(ctx: &OpCtx<'_>, _: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let grid = ctx.params::<IndicesParam>().dimensions.to_usize();
    dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        index::grid(&grid, outs[0].slice_mut::<T>()?);
        Ok(())
    }, d => Err(Error::Internal(format!("no index of type {d}"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::created;

    #[test]
    fn eye_and_identity_have_ones_on_a_diagonal() {
        assert_eq!(created(&EYE, &[("N", "2"), ("M", "3"), ("k", "1")]).unwrap(), [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
        assert_eq!(created(&NP_EYE, &[("N", "2"), ("M", "3"), ("k", "1")]).unwrap(), [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
        assert_eq!(created(&NP_EYE, &[("N", "2"), ("k", "-1")]).unwrap(), [0.0, 0.0, 1.0, 0.0]);
        assert!(created(&NP_EYE, &[("N", "2"), ("M", "0")]).unwrap().is_empty());
        assert_eq!(created(&IDENTITY, &[("shape", "(2, 2)"), ("dtype", "bool")]).unwrap(), [1.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn indices_have_a_plane_per_axis() {
        assert_eq!(created(&INDICES, &[("dimensions", "(2, 2)")]).unwrap(), [0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
    }
}
