//! Diagonals and triangles of matrices.

use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::op::{AnyOperator, Deps, OpCtx, Operator, arg};
use ferromx_core::params;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::linalg::{pack_triangle, unpack_triangle};
use ferromx_kernels::math::log;
use ferromx_kernels::movement::{diagonal, diagonal_assign};

use super::matrices::{self, check_square, matrix_type, replace_last_axes};
use crate::axes::matrix_dims;
use crate::compose::op;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&SUMLOGDIAG, &EXTRACTDIAG, &MAKEDIAG, &EXTRACTTRIAN, &MAKETRIAN];

pub(super) static SUMLOGDIAG: Operator = Operator::new("_linalg_sumlogdiag")
    .aliases(&["linalg_sumlogdiag"])
    .doc(
        "The sums of the logarithms of the diagonals of square matrices, such as Cholesky factors: A of shape (..., n, n) gives shape \
         (...), or (1,) for a single matrix.",
    )
    .inputs(&[arg("A", "The matrices.")])
    .shape(|_, io| {
        check_square(&io.ins[0], "A")?;
        if !io.ins[0].ndim_is_known() {
            return Ok(());
        }
        let out = replace_last_axes(&io.ins[0], 2, &[]);
        io.assign_out(0, &out)
    })
    .forward(|ctx, ins, outs| {
        let (n, _) = matrix_dims(ins[0].shape());
        matrix_type!(ctx, ins[0].dtype(), |T| {
            let a = ins[0].slice::<T>()?;
            for (i, out) in outs[0].slice_mut::<T>()?.iter_mut().enumerate() {
                *out = a[i * n * n..(i + 1) * n * n].iter().step_by(n + 1).map(|x| log(*x)).sum();
            }
            Ok(())
        })
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let (n, _) = matrix_dims(ins[1].shape());
            matrix_type!(ctx, ins[0].dtype(), |T| {
                let (grad, a) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?);
                let out = outs[0].slice_mut::<T>()?;
                out.fill(0.0);
                for (i, grad) in grad.iter().enumerate() {
                    (0..n).map(|k| i * n * n + k * (n + 1)).for_each(|index| out[index] = grad / a[index]);
                }
                Ok(())
            })
        })
        .inputs(Deps::All),
        None,
    ));

params! {
    /// Parameters of `_linalg_extractdiag` and `_linalg_makediag`.
    pub struct DiagonalParam {
        /// The diagonal: 0 is the main one, positive numbers are above it, negative ones below.
        offset: i32 = 0;
    }
}

params! {
    /// Parameters of `_linalg_extracttrian` and `_linalg_maketrian`.
    pub struct TriangleParam {
        /// The diagonal that bounds the triangle: positive numbers take an upper triangle above the main diagonal, negative ones a
        /// lower triangle below it.
        offset: i32 = 0;
        /// With offset 0, whether the triangle is the lower one.
        lower: bool = true;
    }
}

impl TriangleParam {
    fn is_lower(&self) -> bool {
        self.offset < 0 || self.offset == 0 && self.lower
    }
}

/// The length of the diagonal at `offset` in an n x n matrix; -1 if n is unknown.
fn diagonal_len(n: i64, offset: i32) -> Result<i64> {
    let len = n - i64::from(offset).abs();
    ensure!(
        n < 0 || len > 0 || (n == 0 && offset == 0),
        "Illegal offset {offset} for diag/trian extraction of matrix with dimension {n}"
    );
    Ok(if n < 0 { -1 } else { len })
}

pub(super) static EXTRACTDIAG: Operator<DiagonalParam> = Operator::new("_linalg_extractdiag")
    .aliases(&["linalg_extractdiag"])
    .doc("Diagonals of square matrices: A of shape (..., n, n) gives shape (..., n - |offset|).")
    .inputs(&[arg("A", "The matrices.")])
    .shape(|p, io| {
        check_square(&io.ins[0], "A")?;
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        let len = diagonal_len(io.ins[0].dim(rank - 1), p.get::<DiagonalParam>().offset)?;
        let out = replace_last_axes(&io.ins[0], 2, &[len]);
        io.assign_out(0, &out)
    })
    .forward(extract_diagonal)
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.op(op!(MAKEDIAG(n.ograds[0]), ..n.params.get()))?)])));

fn extract_diagonal(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (offset, shape) = (ctx.params::<DiagonalParam>().offset as isize, ins[0].shape().to_usize());
    let axes = (shape.len() - 2, shape.len() - 1);
    matrix_type!(ctx, ins[0].dtype(), |T| {
        diagonal(ins[0].slice::<T>()?, &shape, axes, offset, outs[0].slice_mut()?);
        Ok(())
    })
}

pub(super) static MAKEDIAG: Operator<DiagonalParam> = Operator::new("_linalg_makediag")
    .aliases(&["linalg_makediag"])
    .doc("Square matrices with given diagonals and zeros elsewhere: A of shape (..., n) gives shape (..., n + |offset|, n + |offset|).")
    .inputs(&[arg("A", "The diagonals.")])
    .shape(|p, io| {
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        ensure!(rank > 0, "A must have at least one axis");
        let n = io.ins[0].dim(rank - 1);
        let n = if n < 0 { -1 } else { n + i64::from(p.get::<DiagonalParam>().offset).abs() };
        let out = replace_last_axes(&io.ins[0], 1, &[n, n]);
        io.assign_out(0, &out)
    })
    .forward(|ctx, ins, outs| {
        let (offset, shape) = (ctx.params::<DiagonalParam>().offset as isize, outs[0].shape().to_usize());
        let axes = (shape.len() - 2, shape.len() - 1);
        matrix_type!(ctx, ins[0].dtype(), |T| {
            let out = outs[0].slice_mut::<T>()?;
            out.fill(0.0);
            diagonal_assign(ins[0].slice::<T>()?, (out, &shape), axes, offset);
            Ok(())
        })
    })
    .grad(Grad::Kernel(
        Backward::new(extract_diagonal),
        Some(|g, n| Ok(vec![Some(g.op(op!(EXTRACTDIAG(n.ograds[0]), ..n.params.get()))?)])),
    ));

pub(super) static EXTRACTTRIAN: Operator<TriangleParam> = Operator::new("_linalg_extracttrian")
    .aliases(&["linalg_extracttrian"])
    .doc(
        "Triangles of square matrices as vectors: the concatenated rows of a lower triangle or columns of an upper one. A of shape \
         (..., n, n) gives shape (..., m (m + 1) / 2) with m = n - |offset|.",
    )
    .inputs(&[arg("A", "The matrices.")])
    .shape(|p, io| {
        check_square(&io.ins[0], "A")?;
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        let m = diagonal_len(io.ins[0].dim(rank - 1), p.get::<TriangleParam>().offset)?;
        let out = replace_last_axes(&io.ins[0], 2, &[if m < 0 { -1 } else { m * (m + 1) / 2 }]);
        io.assign_out(0, &out)
    })
    .forward(extract_triangle)
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.op(op!(MAKETRIAN(n.ograds[0]), ..n.params.get()))?)])));

fn extract_triangle(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (p, (n, _)) = (ctx.params::<TriangleParam>(), matrix_dims(ins[0].shape()));
    matrix_type!(ctx, ins[0].dtype(), |T| {
        pack_triangle(ins[0].slice::<T>()?, n, p.is_lower(), p.offset.unsigned_abs() as usize, outs[0].slice_mut()?);
        Ok(())
    })
}

pub(super) static MAKETRIAN: Operator<TriangleParam> = Operator::new("_linalg_maketrian")
    .aliases(&["linalg_maketrian"])
    .doc(
        "Square matrices from triangles, with zeros elsewhere: the inverse of _linalg_extracttrian. A of shape (..., m (m + 1) / 2) \
         gives shape (..., n, n) with n = m + |offset|.",
    )
    .inputs(&[arg("A", "The triangles as vectors.")])
    .shape(|p, io| {
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        ensure!(rank > 0, "A must have at least one axis");
        let len = io.ins[0].dim(rank - 1);
        let mut n = -1;
        if len >= 0 {
            let m = ((8 * len + 1).isqrt() - 1) / 2;
            ensure!(m * (m + 1) / 2 == len, "the last axis of A has length {len}, which is not m (m + 1) / 2 for any m");
            n = m + i64::from(p.get::<TriangleParam>().offset).abs();
        }
        let out = replace_last_axes(&io.ins[0], 1, &[n, n]);
        io.assign_out(0, &out)
    })
    .forward(|ctx, ins, outs| {
        let (p, (n, _)) = (ctx.params::<TriangleParam>(), matrix_dims(outs[0].shape()));
        matrix_type!(ctx, ins[0].dtype(), |T| {
            let out = outs[0].slice_mut::<T>()?;
            unpack_triangle(ins[0].slice::<T>()?, n, p.is_lower(), p.offset.unsigned_abs() as usize, out);
            Ok(())
        })
    })
    .grad(Grad::Kernel(
        Backward::new(extract_triangle),
        Some(|g, n| Ok(vec![Some(g.op(op!(EXTRACTTRIAN(n.ograds[0]), ..n.params.get()))?)])),
    ));
