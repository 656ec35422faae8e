//! Diagonals and triangles: `diag`, `diagflat`, `diagonal`, `trace`, `tril`.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::map::Arith;
use ferromx_kernels::movement::{self, diagonal_len};
use ferromx_kernels::par::with_scratch;
use ferromx_kernels::reduce::{self, Sum};

use crate::axes::matrix_dims;
use crate::elemwise::family::NUMERIC;
use crate::movement::{by_size, source, target};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] =
    &[&DIAG, &NP_DIAG, &DIAGFLAT, &DIAGONAL, &TRACE, &DIAG_INDICES_FROM, &TRIL];

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
    /// The axes of the rows and the columns.
    fn axes(&self, rank: usize) -> Result<(usize, usize)> {
        let (row, col) = (Shape::axis(self.axis1.into(), rank)?, Shape::axis(self.axis2.into(), rank)?);
        ensure!(row != col, "axis1 and axis2 cannot refer to the same axis {row}");
        Ok((row, col))
    }
}

pub(super) static DIAG: Operator<DiagParam> = Operator::new("diag").names_data()
    .doc(
        "Extracts a diagonal of a matrix, or of the matrices that axis1 and axis2 span: these axes are removed, and the diagonal becomes \
         the last axis. From a vector it makes the matrix with that diagonal and zeros elsewhere.",
    )
    .inputs(&[arg("data", "The matrices, or a vector.")])
    .shape(diag_shape)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<DiagParam>();
        match ins[0].shape().dims().len() {
            1 => assign_diagonals(&ins[0], (0, 1), p.k, &mut outs[0]),
            rank => extract_diagonals(&ins[0], p.axes(rank)?, p.k, &mut outs[0]),
        }
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let p = ctx.params::<DiagParam>();
            match outs[0].shape().dims().len() {
                1 => extract_diagonals(&ins[0], (0, 1), p.k, &mut outs[0]),
                rank => assign_diagonals(&ins[0], p.axes(rank)?, p.k, &mut outs[0]),
            }
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
        "k={} is outside matrices with {} rows and {} columns",
        p.k,
        dims[row],
        dims[col]
    );
    let mut out = other_dims(&io.ins[0], (row, col));
    out.push(len);
    io.assign_out(0, &Shape::from(out))
}

params! {
    /// Parameters of `_np_diag` and `_np_diagflat`.
    pub struct NpDiagParam {
        /// The diagonal: 0 is the main one, positive numbers are above it, negative ones below.
        k: i32 = 0;
    }
}

pub(super) static NP_DIAG: Operator<NpDiagParam> = Operator::new("_np_diag")
    .names_data()
    .doc("The diagonal k of a matrix, or a square matrix with a vector on its diagonal k and zeros elsewhere.")
    .shape(|p, io| match io.ins[0].ndim() {
        None => Ok(()),
        Some(1) => diagflat_shape(p, io),
        Some(2) => diagonal_shape(io, (0, 1), p.get::<NpDiagParam>().k),
        Some(n) => Err(Error::Value(format!("diag takes a vector or a matrix, not an array of {n} axes"))),
    })
    .forward(|ctx, ins, outs| match ins[0].shape().dims().len() {
        2 => extract_diagonals(&ins[0], (0, 1), ctx.params::<NpDiagParam>().k, &mut outs[0]),
        _ => assign_diagonals(&ins[0], (0, 1), ctx.params::<NpDiagParam>().k, &mut outs[0]),
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| match outs[0].shape().dims().len() {
            2 => assign_diagonals(&ins[0], (0, 1), ctx.params::<NpDiagParam>().k, &mut outs[0]),
            _ => extract_diagonals(&ins[0], (0, 1), ctx.params::<NpDiagParam>().k, &mut outs[0]),
        }),
        None,
    ));

pub(super) static DIAGFLAT: Operator<NpDiagParam> = Operator::new("_np_diagflat")
    .names_data()
    .doc("A square matrix with the elements of the array on its diagonal k and zeros elsewhere.")
    .shape(diagflat_shape)
    .forward(|ctx, ins, outs| assign_diagonals(&ins[0], (0, 1), ctx.params::<NpDiagParam>().k, &mut outs[0]))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| extract_diagonals(&ins[0], (0, 1), ctx.params::<NpDiagParam>().k, &mut outs[0])),
        None,
    ));

/// Shape rule of `diagflat`: the smallest square matrix whose diagonal k holds all elements.
fn diagflat_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    if !io.ins[0].is_known() {
        return Ok(());
    }
    let n = io.ins[0].num_elements() as i64 + i64::from(p.get::<NpDiagParam>().k).abs();
    io.assign_out(0, &Shape::new(&[n, n]))
}

/// Extracts the diagonals of the matrices in two axes (rows, columns) into a contiguous output.
fn extract_diagonals(x: &In<'_>, axes: (usize, usize), offset: i32, out: &mut Out<'_>) -> Result<()> {
    let dims = x.shape().to_usize();
    by_size!(x.dtype(), T => {
        movement::diagonal(source::<T>(x)?, &dims, axes, offset as isize, target::<T>(out)?);
    });
    Ok(())
}

/// Writes elements to the diagonals of the matrices in two axes (rows, columns), and zeros elsewhere.
fn assign_diagonals(x: &In<'_>, axes: (usize, usize), offset: i32, out: &mut Out<'_>) -> Result<()> {
    let dims = out.shape().to_usize();
    by_size!(x.dtype(), T => {
        let out = target::<T>(out)?;
        out.fill(T::default());
        movement::diagonal_assign(source::<T>(x)?, (out, &dims), axes, offset as isize);
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
    /// The axes of the rows and the columns.
    fn axes(&self, rank: usize) -> Result<(usize, usize)> {
        ensure!(rank >= 2, "diagonals need an array with at least two axes, but it has {rank}");
        let (row, col) = (Shape::axis(self.axis1.into(), rank)?, Shape::axis(self.axis2.into(), rank)?);
        ensure!(row != col, "axis1={} and axis2={} cannot be the same axis", self.axis1, self.axis2);
        Ok((row, col))
    }
}

/// Infers the shape of the diagonals of two axes: the other axes in order, then the diagonal.
fn diagonal_shape(io: &mut ShapeIo<'_>, (row, col): (usize, usize), offset: i32) -> Result<()> {
    let shape = io.ins[0].clone();
    let mut dims = other_dims(&shape, (row, col));
    let (rows, columns, offset) = (shape.dim(row), shape.dim(col), i64::from(offset));
    let length = (rows + offset.min(0)).min(columns - offset.max(0)).max(0);
    dims.push(if rows < 0 || columns < 0 { -1 } else { length });
    io.assign_out(0, &Shape::from(dims))
}

/// The dimensions of all axes but two.
fn other_dims(shape: &Shape, (row, col): (usize, usize)) -> Dims {
    shape.dims().iter().enumerate().filter(|(i, _)| *i != row && *i != col).map(|(_, d)| *d).collect()
}

pub(super) static DIAGONAL: Operator<DiagonalParam> = Operator::new("_np_diagonal").names_data()
    .doc("The diagonals of the matrices in two axes: the other axes in order, then the diagonal. For any number of axes from 2 up.")
    .shape(|p, io| {
        let p = p.get::<DiagonalParam>();
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        diagonal_shape(io, p.axes(rank)?, p.offset)
    })
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<DiagonalParam>();
        extract_diagonals(&ins[0], p.axes(ins[0].shape().dims().len())?, p.offset, &mut outs[0])
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let p = ctx.params::<DiagonalParam>();
            assign_diagonals(&ins[0], p.axes(outs[0].shape().dims().len())?, p.offset, &mut outs[0])
        }),
        None,
    ));

pub(super) static TRACE: Operator<DiagonalParam> = Operator::new("_np_trace")
    .names_data()
    .doc("The sums of the diagonals of the matrices in two axes; the other axes stay.")
    .shape(|p, io| {
        let p = p.get::<DiagonalParam>();
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        let dims = other_dims(&io.ins[0], p.axes(rank)?);
        io.assign_out(0, &Shape::from(dims))
    })
    .forward(trace)
    .grad(Grad::Kernel(Backward::new(trace_backward), None));

/// The length of the diagonals of two axes, 0 if the offset is outside of the matrices.
fn length(dims: &[usize], (row, col): (usize, usize), offset: i32) -> usize {
    let (down, right) = (offset.min(0).unsigned_abs() as usize, offset.max(0) as usize);
    dims[row].saturating_sub(down).min(dims[col].saturating_sub(right))
}

fn trace(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (p, dims) = (ctx.params::<DiagonalParam>(), ins[0].shape().to_usize());
    let axes = p.axes(dims.len())?;
    let (n, num_matrices) = (length(&dims, axes, p.offset), outs[0].len());
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        with_scratch(num_matrices * n, |diagonals: &mut [T]| {
            movement::diagonal(ins[0].slice::<T>()?, &dims, axes, p.offset as isize, diagonals);
            reduce::reduce::<Sum, T, T, <T as Arith>::Lane>(diagonals, &[num_matrices, n], &[1], outs[0].slice_mut()?);
            Ok(())
        })
    }, d => Err(ctx.unsupported(d, NUMERIC)))
}

fn trace_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (p, dims) = (ctx.params::<DiagonalParam>(), outs[0].shape().to_usize());
    let axes = p.axes(dims.len())?;
    let (n, num_matrices) = (length(&dims, axes, p.offset), ins[0].len());
    by_size!(ins[0].dtype(), T => {
        let out = target::<T>(&mut outs[0])?;
        out.fill(T::default());
        with_scratch(num_matrices * n, |diagonals: &mut [T]| {
            movement::repeat(source::<T>(&ins[0])?, (1, num_matrices, 1), n, diagonals);
            movement::diagonal_assign(diagonals, (out, &dims), axes, p.offset as isize);
            Ok::<(), Error>(())
        })?;
    });
    Ok(())
}

pub(super) static DIAG_INDICES_FROM: Operator = Operator::new("_npi_diag_indices_from").names_data()
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

params! {
    /// Parameters of `_npi_tril`.
    pub struct TrilParam {
        /// The last diagonal that is kept: 0 is the main one, positive numbers are above it.
        k: i32 = 0;
    }
}

pub(super) static TRIL: Operator<TrilParam> = Operator::new("_npi_tril").names_data()
    .doc(
        "The lower triangles of the matrices in the last two axes, with zeros above diagonal k. A vector of n elements is broadcast to \
         n equal rows.",
    )
    .shape(|_, io| match io.ins[0].dims() {
        _ if !io.ins[0].ndim_is_known() => Ok(()),
        [] => Err(Error::Value("tril needs an array of at least one axis".into())),
        [n] => {
            let square = Shape::new(&[*n, *n]);
            io.assign_out(0, &square)
        }
        _ => {
            let shape = io.ins[0].clone();
            io.assign_out(0, &shape)?;
            let shape = io.outs[0].clone();
            io.assign_in(0, &shape)
        }
    })
    .forward(|ctx, ins, outs| {
        let (rows, columns) = matrix_dims(outs[0].shape());
        by_size!(ins[0].dtype(), T => {
            let k = ctx.params::<TrilParam>().k;
            copy_lower(source::<T>(&ins[0])?, rows, columns, k.into(), target::<T>(&mut outs[0])?);
        });
        Ok(())
    })
    .grad(Grad::Kernel(Backward::new(tril_backward), None));

/// Copies the elements on and below diagonal `k` of each matrix, and writes zeros above. A source of a single row is broadcast.
fn copy_lower<T: Copy + Default>(src: &[T], rows: usize, columns: usize, k: i64, dst: &mut [T]) {
    if columns == 0 {
        return;
    }
    for (i, out) in dst.chunks_exact_mut(columns).enumerate() {
        let kept = (((i % rows) as i64 + k + 1).max(0) as usize).min(columns);
        let offset = if src.len() == columns { 0 } else { i * columns };
        out[..kept].copy_from_slice(&src[offset..offset + kept]);
        out[kept..].fill(T::default());
    }
}

fn tril_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (g, k) = (&ins[0], i64::from(ctx.params::<TrilParam>().k));
    let (rows, columns) = matrix_dims(g.shape());
    if outs[0].shape().dims().len() > 1 {
        by_size!(g.dtype(), T => copy_lower(source::<T>(g)?, rows, columns, k, target::<T>(&mut outs[0])?));
        return Ok(());
    }
    dispatch!(g.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        with_scratch(g.len(), |masked: &mut [T]| {
            copy_lower(g.slice::<T>()?, rows, columns, k, masked);
            reduce::reduce::<Sum, T, T, <T as Arith>::Lane>(masked, &[rows, columns], &[0], outs[0].slice_mut()?);
            Ok(())
        })
    }, d => Err(ctx.unsupported(d, NUMERIC)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, numbers};

    #[test]
    fn diag_gradients_agree_with_finite_differences() {
        let x: Vec<f64> = (0..24).map(|i| f64::from(i * 7 % 24)).collect();
        for k in ["0", "1", "-1", "2"] {
            Case::new(&DIAG, &[("k", k)]).check_gradient(&[array(&x[..4], &[4])]);
            Case::new(&DIAG, &[("k", k)]).check_gradient(&[array(&x[..6], &[2, 3])]);
            let case = Case::new(&DIAG, &[("k", k), ("axis1", "-1"), ("axis2", "1")]);
            case.check_gradient(&[array(&x, &[2, 3, 4])]);
        }
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        for k in ["-1", "0", "2", "7"] {
            for dims in [&[3][..], &[2, 3]] {
                Case::new(&NP_DIAG, &[("k", k)]).check_gradient(&[numbers(dims)]);
                Case::new(&DIAGFLAT, &[("k", k)]).check_gradient(&[numbers(dims)]);
            }
            for def in [&DIAGONAL, &TRACE] {
                Case::new(def, &[("offset", k)]).check_gradient(&[numbers(&[2, 3])]);
                Case::new(def, &[("offset", k), ("axis1", "-1"), ("axis2", "0")])
                    .check_gradient(&[numbers(&[2, 3, 4])]);
            }
        }
    }

    #[test]
    fn shapes_depend_on_the_offset_and_invalid_axes_are_errors() {
        let shape = |def, attrs: &[(&str, &str)], dims: &[i64]| {
            Case::new(def, attrs).shapes(&[Shape::new(dims)]).map(|s| s[0].clone())
        };
        assert_eq!(shape(&NP_DIAG, &[("k", "5")], &[2, 3]).unwrap(), [0].into());
        assert_eq!(shape(&NP_DIAG, &[("k", "-1")], &[3]).unwrap(), [4, 4].into());
        assert_eq!(shape(&DIAGONAL, &[("offset", "-1")], &[2, 3, 4]).unwrap(), [4, 1].into());
        assert!(shape(&NP_DIAG, &[], &[2, 3, 4]).unwrap_err().to_string().contains("a vector or a matrix"));
        assert!(shape(&TRACE, &[("axis2", "0")], &[2, 3]).unwrap_err().to_string().contains("the same axis"));
        assert!(shape(&DIAG_INDICES_FROM, &[], &[2, 3]).unwrap_err().to_string().contains("of equal length"));
        let indices = Case::new(&DIAG_INDICES_FROM, &[]).run1(&[numbers(&[3, 3])]).unwrap();
        assert_eq!(indices.to_vec::<i64>().unwrap(), [0, 1, 2, 0, 1, 2]);
    }
}
