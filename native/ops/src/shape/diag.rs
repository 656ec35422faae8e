//! The operator `diag`.

use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{OpCtx, OpDef, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::movement::{diagonal, diagonal_assign, diagonal_len};

use super::moves::{by_size, source, target};

/// The operators of this file.
pub(super) static OPS: &[&OpDef] = &[&DIAG];

params! {
    /// Parameters of `diag`.
    pub struct DiagParam {
        /// Offset of the diagonal: 0 is the main diagonal, positive is above it, negative below.
        k: i32 = 0;
        /// The axis of the rows; a negative one counts from the end.
        axis1: i32 = 0;
        /// The axis of the columns; a negative one counts from the end.
        axis2: i32 = 1;
    }
}

impl DiagParam {
    /// The axes of rows and columns.
    fn axes(&self, rank: usize) -> Result<(usize, usize)> {
        let (row, col) = (Shape::axis(self.axis1.into(), rank)?, Shape::axis(self.axis2.into(), rank)?);
        ensure!(row != col, "axis1 and axis2 cannot refer to the same axis {row}");
        Ok((row, col))
    }
}

pub(super) static DIAG: OpDef = OpDef::new("diag").names_data()
    .doc(
        "Extracts a diagonal of a matrix, or of the matrices that axis1 and axis2 span: these axes are removed, and the diagonal becomes \
         the last axis. From a vector it makes the matrix with that diagonal and zeros elsewhere.",
    )
    .inputs(&[arg("data", "The matrices, or a vector.")])
    .params::<DiagParam>()
    .shape(diag_shape)
    .forward(|ctx, ins, outs| match *ins[0].shape().dims() {
        [_] => matrix_of_diagonal(ctx, &ins[0], &mut outs[0]),
        _ => extract(ctx, &ins[0], &mut outs[0]),
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| match *outs[0].shape().dims() {
            [_] => extract_from_square(ctx, &ins[0], &mut outs[0]),
            _ => extract_backward(ctx, &ins[0], &mut outs[0]),
        }),
        None,
    ));

fn diag_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<DiagParam>();
    let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
    ensure!(rank > 0, "diag takes a vector or matrices, not a scalar");
    if rank == 1 {
        let n = io.ins[0].dim(0);
        let n = if n < 0 { -1 } else { n + i64::from(p.k).abs() };
        return io.assign_out(0, &Shape::new(&[n, n]));
    }
    let (row, col) = p.axes(rank)?;
    let dims = io.ins[0].dims();
    let len = if dims[row] < 0 || dims[col] < 0 { -1 } else { diagonal_len(dims[row], dims[col], p.k.into()) };
    ensure!(
        len >= 0 || dims[row] < 0 || dims[col] < 0,
        "k={} is outside of matrices with {} rows and {} columns",
        p.k,
        dims[row],
        dims[col]
    );
    let others = (0..rank).filter(|i| *i != row && *i != col).map(|i| dims[i]);
    let out: Dims = others.chain([len]).collect();
    io.assign_out(0, &Shape::from(out))
}

/// Writes the matrix with the vector `x` on its diagonal and zeros elsewhere.
fn matrix_of_diagonal(ctx: &OpCtx<'_>, x: &In<'_>, out: &mut Out<'_>) -> Result<()> {
    let (k, shape) = (ctx.params::<DiagParam>().k as isize, out.shape().to_usize());
    out.bytes_mut()?.fill(0);
    by_size!(x.dtype(), |T| diagonal_assign(source::<T>(x)?, (target::<T>(out)?, &shape), (0, 1), k));
    Ok(())
}

fn extract_from_square(ctx: &OpCtx<'_>, x: &In<'_>, out: &mut Out<'_>) -> Result<()> {
    let (k, shape) = (ctx.params::<DiagParam>().k as isize, x.shape().to_usize());
    by_size!(x.dtype(), |T| diagonal(source::<T>(x)?, &shape, (0, 1), k, target::<T>(out)?));
    Ok(())
}

fn extract(ctx: &OpCtx<'_>, x: &In<'_>, out: &mut Out<'_>) -> Result<()> {
    let (p, shape) = (ctx.params::<DiagParam>(), x.shape().to_usize());
    let axes = p.axes(shape.len())?;
    by_size!(x.dtype(), |T| diagonal(source::<T>(x)?, &shape, axes, p.k as isize, target::<T>(out)?));
    Ok(())
}

/// The gradient of [`extract`]: `x` on the diagonals and zeros elsewhere.
fn extract_backward(ctx: &OpCtx<'_>, x: &In<'_>, out: &mut Out<'_>) -> Result<()> {
    let (p, shape) = (ctx.params::<DiagParam>(), out.shape().to_usize());
    let axes = p.axes(shape.len())?;
    out.bytes_mut()?.fill(0);
    by_size!(x.dtype(), |T| diagonal_assign(source::<T>(x)?, (target::<T>(out)?, &shape), axes, p.k as isize));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x: Vec<f64> = (0..24).map(|i| f64::from(i * 7 % 24)).collect();
        for k in ["0", "1", "-1", "2"] {
            Case::new(&DIAG, &[("k", k)]).check_gradient(&[array(&x[..4], &[4])]);
            Case::new(&DIAG, &[("k", k)]).check_gradient(&[array(&x[..6], &[2, 3])]);
            let case = Case::new(&DIAG, &[("k", k), ("axis1", "-1"), ("axis2", "1")]);
            case.check_gradient(&[array(&x, &[2, 3, 4])]);
        }
    }
}
