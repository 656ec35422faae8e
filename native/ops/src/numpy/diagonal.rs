//! Diagonals: extraction, matrices with a given diagonal, traces.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{OpCtx, OpDef};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::map::Arith;
use ferromx_kernels::movement;
use ferromx_kernels::par::with_scratch;
use ferromx_kernels::reduce::{self, Sum};

use crate::elemwise::family::NUMERIC;
use crate::shape::moves::{by_size, source, target};

/// The operators of this file.
pub(super) static OPS: &[&OpDef] = &[&DIAG, &DIAGFLAT, &DIAGONAL, &TRACE, &DIAG_INDICES_FROM];

params! {
    /// Parameters of `_np_diag` and `_np_diagflat`.
    pub struct DiagParam {
        /// The diagonal: 0 is the main one, positive numbers are above it, negative ones below.
        k: i32 = 0;
    }
}

pub(super) static DIAG: OpDef = OpDef::new("_np_diag")
    .doc("The diagonal k of a matrix, or a square matrix with a vector on its diagonal k and zeros elsewhere.")
    .params::<DiagParam>()
    .shape(|p, io| match io.ins[0].ndim() {
        None => Ok(()),
        Some(1) => flat_shape(p, io),
        Some(2) => diagonal_shape(io, (0, 1), p.get::<DiagParam>().k, true),
        Some(n) => Err(Error::Value(format!("diag takes a vector or a matrix, not an array of {n} axes"))),
    })
    .forward(|ctx, ins, outs| match ins[0].shape().dims().len() {
        2 => extract_diagonals(&ins[0], (0, 1), ctx.params::<DiagParam>().k, &mut outs[0]),
        _ => assign_diagonals(&ins[0], (0, 1), ctx.params::<DiagParam>().k, &mut outs[0]),
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| match outs[0].shape().dims().len() {
            2 => assign_diagonals(&ins[0], (0, 1), ctx.params::<DiagParam>().k, &mut outs[0]),
            _ => extract_diagonals(&ins[0], (0, 1), ctx.params::<DiagParam>().k, &mut outs[0]),
        }),
        None,
    ));

pub(super) static DIAGFLAT: OpDef = OpDef::new("_np_diagflat")
    .doc("A square matrix with the elements of the array on its diagonal k and zeros elsewhere.")
    .params::<DiagParam>()
    .shape(flat_shape)
    .forward(|ctx, ins, outs| assign_diagonals(&ins[0], (0, 1), ctx.params::<DiagParam>().k, &mut outs[0]))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| extract_diagonals(&ins[0], (0, 1), ctx.params::<DiagParam>().k, &mut outs[0])),
        None,
    ));

/// The smallest square matrix whose diagonal k holds all elements.
fn flat_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    if !io.ins[0].is_known() {
        return Ok(());
    }
    let n = io.ins[0].num_elements() as i64 + i64::from(p.get::<DiagParam>().k).abs();
    io.assign_out(0, &Shape::new(&[n, n]))
}

/// Extracts the diagonals of two axes into a contiguous output.
fn extract_diagonals(x: &In<'_>, pair: (usize, usize), offset: i32, out: &mut Out<'_>) -> Result<()> {
    let dims = x.shape().to_usize();
    by_size!(x.dtype(), |T| {
        movement::diagonal(source::<T>(x)?, &dims, pair, offset as isize, target::<T>(out)?);
    });
    Ok(())
}

/// Writes elements to the diagonals of two axes and zeros elsewhere.
fn assign_diagonals(x: &In<'_>, pair: (usize, usize), offset: i32, out: &mut Out<'_>) -> Result<()> {
    let dims = out.shape().to_usize();
    by_size!(x.dtype(), |T| {
        let out = target::<T>(out)?;
        out.fill(T::default());
        movement::diagonal_assign(source::<T>(x)?, (out, &dims), pair, offset as isize);
    });
    Ok(())
}

params! {
    /// Parameters of `_np_diagonal` and `_np_trace`.
    pub struct DiagonalParam {
        /// The diagonal: 0 is the main one, positive numbers are above it, negative ones below.
        offset: i32 = 0;
        /// The axis of the rows.
        axis1: i32 = 0;
        /// The axis of the columns.
        axis2: i32 = 1;
    }
}

impl DiagonalParam {
    /// The two axes.
    fn pair(&self, rank: usize) -> Result<(usize, usize)> {
        ensure!(rank >= 2, "diagonals need an array with at least two axes, but it has {rank}");
        let pair = (Shape::axis(self.axis1.into(), rank)?, Shape::axis(self.axis2.into(), rank)?);
        ensure!(pair.0 != pair.1, "axis1={} and axis2={} cannot be the same axis", self.axis1, self.axis2);
        Ok(pair)
    }
}

/// The other axes, followed by the diagonal with `keep_diagonal`.
fn diagonal_shape(io: &mut ShapeIo<'_>, pair: (usize, usize), offset: i32, keep_diagonal: bool) -> Result<()> {
    let shape = io.ins[0].clone();
    let others = shape.dims().iter().enumerate().filter(|(i, _)| *i != pair.0 && *i != pair.1);
    let mut dims: Dims = others.map(|(_, d)| *d).collect();
    if keep_diagonal {
        let (rows, columns, offset) = (shape.dim(pair.0), shape.dim(pair.1), i64::from(offset));
        let length = (rows + offset.min(0)).min(columns - offset.max(0)).max(0);
        dims.push(if rows < 0 || columns < 0 { -1 } else { length });
    }
    io.assign_out(0, &Shape::from(dims))
}

pub(super) static DIAGONAL: OpDef = OpDef::new("_np_diagonal")
    .doc("The diagonals of the matrices in two axes: the other axes in order, then the diagonal. For any number of axes from 2 up.")
    .params::<DiagonalParam>()
    .shape(|p, io| {
        let p = p.get::<DiagonalParam>();
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        diagonal_shape(io, p.pair(rank)?, p.offset, true)
    })
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<DiagonalParam>();
        extract_diagonals(&ins[0], p.pair(ins[0].shape().dims().len())?, p.offset, &mut outs[0])
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let p = ctx.params::<DiagonalParam>();
            assign_diagonals(&ins[0], p.pair(outs[0].shape().dims().len())?, p.offset, &mut outs[0])
        }),
        None,
    ));

pub(super) static TRACE: OpDef = OpDef::new("_np_trace")
    .doc("The sums of the diagonals of the matrices in two axes; the other axes stay.")
    .params::<DiagonalParam>()
    .shape(|p, io| {
        let p = p.get::<DiagonalParam>();
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        diagonal_shape(io, p.pair(rank)?, p.offset, false)
    })
    .forward(trace)
    .grad(Grad::Kernel(Backward::new(trace_backward), None));

/// Length of the diagonals.
fn length(dims: &[usize], pair: (usize, usize), offset: i32) -> usize {
    let (down, right) = (offset.min(0).unsigned_abs() as usize, offset.max(0) as usize);
    dims[pair.0].saturating_sub(down).min(dims[pair.1].saturating_sub(right))
}

fn trace(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (p, dims) = (ctx.params::<DiagonalParam>(), ins[0].shape().to_usize());
    let pair = p.pair(dims.len())?;
    let (n, groups) = (length(&dims, pair, p.offset), outs[0].len());
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        with_scratch(groups * n, |diagonals: &mut [T]| {
            movement::diagonal(ins[0].slice::<T>()?, &dims, pair, p.offset as isize, diagonals);
            reduce::reduce::<Sum, T, T, <T as Arith>::Lane>(diagonals, &[groups, n], &[1], outs[0].slice_mut()?);
            Ok(())
        })
    }, d => Err(ctx.unsupported(d, NUMERIC)))
}

fn trace_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (p, dims) = (ctx.params::<DiagonalParam>(), outs[0].shape().to_usize());
    let pair = p.pair(dims.len())?;
    let (n, groups) = (length(&dims, pair, p.offset), ins[0].len());
    by_size!(ins[0].dtype(), |T| {
        let out = target::<T>(&mut outs[0])?;
        out.fill(T::default());
        with_scratch(groups * n, |diagonals: &mut [T]| {
            movement::repeat(source::<T>(&ins[0])?, (1, groups, 1), n, diagonals);
            movement::diagonal_assign(diagonals, (out, &dims), pair, p.offset as isize);
            Ok::<(), Error>(())
        })?;
    });
    Ok(())
}

pub(super) static DIAG_INDICES_FROM: OpDef = OpDef::new("_npi_diag_indices_from")
    .doc("The indices of the diagonal of an array whose axes all have length n: for each axis 0, 1, ..., n - 1, as int64.")
    .shape(|_, io| {
        if !io.ins[0].is_known() {
            return Ok(());
        }
        let dims = io.ins[0].dims();
        let shape = &io.ins[0];
        ensure!(dims.len() >= 2, "ValueError: Input array should be at least 2d, but its shape is {shape}");
        ensure!(
            dims.windows(2).all(|w| w[0] == w[1]),
            "ValueError: All dimensions of input must be of equal length, but the shape is {shape}"
        );
        let out = Shape::new(&[dims.len() as i64, dims[0]]);
        io.assign_out(0, &out)
    })
    .dtype(|_, io| io.assign_out(0, DType::I64))
    .forward(|_, ins, outs| {
        let n = ins[0].shape().dim(0);
        for (i, x) in outs[0].slice_mut::<i64>()?.iter_mut().enumerate() {
            *x = i as i64 % n;
        }
        Ok(())
    })
    .grad(Grad::Zero);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    fn counted(dims: &[i64]) -> ferromx_core::ndarray::NDArray {
        array(&(0..dims.iter().product::<i64>()).map(|i| i as f64).collect::<Vec<_>>(), dims)
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        for k in ["-1", "0", "2", "7"] {
            for dims in [&[3][..], &[2, 3]] {
                Case::new(&DIAG, &[("k", k)]).check_gradient(&[counted(dims)]);
                Case::new(&DIAGFLAT, &[("k", k)]).check_gradient(&[counted(dims)]);
            }
            for def in [&DIAGONAL, &TRACE] {
                Case::new(def, &[("offset", k)]).check_gradient(&[counted(&[2, 3])]);
                Case::new(def, &[("offset", k), ("axis1", "-1"), ("axis2", "0")])
                    .check_gradient(&[counted(&[2, 3, 4])]);
            }
        }
    }

    #[test]
    fn shapes_and_errors() {
        let shape = |def, attrs: &[(&str, &str)], dims: &[i64]| {
            Case::new(def, attrs).shapes(&[Shape::new(dims)]).map(|s| s[0].clone())
        };
        assert_eq!(shape(&DIAG, &[("k", "5")], &[2, 3]).unwrap(), [0].into());
        assert_eq!(shape(&DIAG, &[("k", "-1")], &[3]).unwrap(), [4, 4].into());
        assert_eq!(shape(&DIAGONAL, &[("offset", "-1")], &[2, 3, 4]).unwrap(), [4, 1].into());
        assert!(shape(&DIAG, &[], &[2, 3, 4]).unwrap_err().to_string().contains("a vector or a matrix"));
        assert!(shape(&TRACE, &[("axis2", "0")], &[2, 3]).unwrap_err().to_string().contains("the same axis"));
        assert!(shape(&DIAG_INDICES_FROM, &[], &[2, 3]).unwrap_err().to_string().contains("must have the same length"));
        let indices = Case::new(&DIAG_INDICES_FROM, &[]).run1(&[counted(&[3, 3])]).unwrap();
        assert_eq!(indices.to_vec::<i64>().unwrap(), [0, 1, 2, 0, 1, 2]);
    }
}
