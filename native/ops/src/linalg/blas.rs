//! Matrix products with BLAS's options, in single and double precision: gemm, syrk, trmm.

use ferromx_core::dtype::Element;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Compose, Entry, Grad, GradGraph};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::gemm::{MatMut, MatRef, gemm, gemm_batched};
use ferromx_kernels::linalg::{Scalar, copy_triangle};
use ferromx_kernels::par::with_scratch;

use super::matrices::{self, check_rank, check_square, matrix_type, replace_last_axes};
use super::product::batch_matrix;
use crate::axes::matrix_dims;
use crate::compose::op;
use crate::movement::copy_unless_in_place;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&GEMM, &GEMM2, &SYRK, &TRMM];

params! {
    /// Parameters of `_linalg_gemm`.
    pub struct GemmParam {
        /// Whether A is transposed.
        transpose_a: bool = false;
        /// Whether B is transposed.
        transpose_b: bool = false;
        /// The scale of the product.
        alpha: f64 = 1.0;
        /// The scale of C.
        beta: f64 = 1.0;
        /// The axis of the rows; the last axis is that of the columns, all others are batch axes.
        axis: i32 = (-2);
    }
}

params! {
    /// Parameters of `_linalg_gemm2`.
    pub struct Gemm2Param {
        /// Whether A is transposed.
        transpose_a: bool = false;
        /// Whether B is transposed.
        transpose_b: bool = false;
        /// The scale of the product.
        alpha: f64 = 1.0;
        /// The axis of the rows; the last axis is that of the columns, all others are batch axes.
        axis: i32 = (-2);
    }
}

/// A product alpha op(A) op(B) with its row axis.
#[derive(Clone, Copy)]
struct Gemm {
    transpose: [bool; 2],
    alpha: f64,
    axis: i32,
}

impl From<&GemmParam> for Gemm {
    fn from(p: &GemmParam) -> Gemm {
        Gemm { transpose: [p.transpose_a, p.transpose_b], alpha: p.alpha, axis: p.axis }
    }
}

impl From<&Gemm2Param> for Gemm {
    fn from(p: &Gemm2Param) -> Gemm {
        Gemm { transpose: [p.transpose_a, p.transpose_b], alpha: p.alpha, axis: p.axis }
    }
}

impl Gemm {
    /// The axis of the rows of an operand of `rank` axes.
    fn row_axis(&self, rank: usize) -> Result<usize> {
        let axis = Shape::axis(self.axis.into(), rank)?;
        ensure!(axis + 1 < rank, "Invalid row axis ({}): the last axis is the column axis", self.axis);
        Ok(axis)
    }

    /// The shape of the product.
    fn shape(&self, a: &Shape, b: &Shape) -> Result<Option<Shape>> {
        check_rank(a, "A")?;
        check_rank(b, "B")?;
        let (Some(rank), Some(b_rank)) = (a.ndim(), b.ndim()) else { return Ok(None) };
        ensure!(rank == b_rank, "A and B must have the same number of axes, but have shapes {a} and {b}");
        let row = self.row_axis(rank)?;
        let mut out = a.dims().to_vec();
        for (i, (out, b)) in out.iter_mut().zip(b.dims()).enumerate().take(rank - 1).filter(|(i, _)| *i != row) {
            ensure!(
                *out == *b || *out < 0 || *b < 0,
                "Shapes of inputs 0, 1 must be the same, except on row/col axis: axis {i} of {a} and {b}"
            );
            *out = (*out).max(*b);
        }
        let matrix_dims = |s: &Shape, transposed: bool| {
            let (rows, cols) = (s.dim(row), s.dim(rank - 1));
            if transposed { (cols, rows) } else { (rows, cols) }
        };
        let ((m, k), (k2, n)) = (matrix_dims(a, self.transpose[0]), matrix_dims(b, self.transpose[1]));
        ensure!(
            k == k2 || k < 0 || k2 < 0,
            "Incompatible matrix dimensions for multiplication: {a} and {b} sum over {k} and {k2}"
        );
        (out[row], out[rank - 1]) = (m, n);
        Ok(Some(Shape::new(&out)))
    }

    /// C = alpha op(A) op(B) + beta C for all matrices.
    fn run<T: Scalar + Element>(&self, a: &In<'_>, b: &In<'_>, beta: T, c: &mut Out<'_>) -> Result<()> {
        let alpha = T::from(self.alpha).unwrap_or(T::one());
        let dims = [a.shape().to_usize(), b.shape().to_usize(), c.shape().to_usize()];
        let row = self.row_axis(dims[0].len())?;
        // Batch axes between the row axis and the column axis.
        let num_inner: usize = dims[2][row + 1..dims[2].len() - 1].iter().product();
        let matrix = dims.each_ref().map(|d| (d[row], d[d.len() - 1]));
        let (a, b, c) = (a.slice::<T>()?, b.slice::<T>()?, c.slice_mut::<T>()?);
        if c.is_empty() {
            return Ok(());
        }
        if num_inner == 1 {
            let left = |i| batch_matrix(a, i, matrix[0]).t_if(self.transpose[0]);
            let right = |i| batch_matrix(b, i, matrix[1]).t_if(self.transpose[1]);
            gemm_batched(alpha, left, right, beta, c, matrix[2]);
            return Ok(());
        }
        // The rows of a matrix are num_inner * cols elements apart.
        let num_matrices = c.len() / (matrix[2].0 * matrix[2].1);
        let start =
            |i: usize, (rows, cols): (usize, usize)| i / num_inner * rows * num_inner * cols + i % num_inner * cols;
        let view = |data, i: usize, (rows, cols): (usize, usize)| {
            let data: &[T] = data;
            // Operands may be empty although the result is not.
            MatRef::new(data.get(start(i, (rows, cols))..).unwrap_or_default(), rows, cols, num_inner * cols, 1)
        };
        for i in 0..num_matrices {
            let (rows, cols) = matrix[2];
            let target = MatMut::new(&mut c[start(i, matrix[2])..], rows, cols, num_inner * cols);
            gemm(
                alpha,
                view(a, i, matrix[0]).t_if(self.transpose[0]),
                view(b, i, matrix[1]).t_if(self.transpose[1]),
                beta,
                target,
            );
        }
        Ok(())
    }

    /// The gradients of A and B.
    fn gradients(&self, g: &mut dyn GradGraph, a: Entry, b: Entry, grad: Entry) -> Result<[Entry; 2]> {
        let p = Gemm2Param { transpose_a: false, transpose_b: false, alpha: self.alpha, axis: self.axis };
        let [ta, tb] = self.transpose;
        let left = match ta {
            true => op!(GEMM2(b, grad), transpose_a: tb, transpose_b: true, ..&p),
            false => op!(GEMM2(grad, b), transpose_b: !tb, ..&p),
        };
        let right = match tb {
            true => op!(GEMM2(grad, a), transpose_a: true, transpose_b: ta, ..&p),
            false => op!(GEMM2(a, grad), transpose_a: !ta, ..&p),
        };
        Ok([g.op(left)?, g.op(right)?])
    }
}

pub(super) static GEMM: Operator<GemmParam> = Operator::new("_linalg_gemm")
    .aliases(&["linalg_gemm"])
    .doc(
        "The products of matrices, plus other matrices: alpha * op(A) * op(B) + beta * C, where op may transpose. A of shape \
         (..., m, k) and B of shape (..., k, n) give (..., m, n), after transposition.",
    )
    .inputs(&[arg("A", "The left matrices."), arg("B", "The right matrices."), arg("C", "The array to add, of the shape of the result.")])
    .shape(|p, io| {
        if let Some(out) = Gemm::from(p.get::<GemmParam>()).shape(&io.ins[0], &io.ins[1])? {
            io.assign_in(2, &out)?;
            let c = io.ins[2].clone();
            io.assign_out(0, &c)?;
        }
        Ok(())
    })
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<GemmParam>();
        copy_unless_in_place(&ins[2], &mut outs[0])?;
        matrix_type!(ctx, ins[0].dtype(), |T| Gemm::from(p).run::<T>(&ins[0], &ins[1], p.beta as T, &mut outs[0]))
    })
    .grad(Grad::Compose(|g, n| {
        let p = n.params.get::<GemmParam>();
        let [a, b] = Gemm::from(p).gradients(g, n.inputs[0], n.inputs[1], n.ograds[0])?;
        let c = g.op(op!(elemwise::scalar::MUL(n.ograds[0]), scalar: p.beta))?;
        Ok(vec![Some(a), Some(b), Some(c)])
    }))
    .inplace(&[(2, 0)]);

pub(super) static GEMM2: Operator<Gemm2Param> = Operator::new("_linalg_gemm2")
    .aliases(&["linalg_gemm2"])
    .doc(
        "The products of matrices: alpha * op(A) * op(B), where op may transpose. A of shape (..., m, k) and B of shape (..., k, n) \
         give (..., m, n), after transposition.",
    )
    .inputs(&[arg("A", "The left matrices."), arg("B", "The right matrices.")])
    .shape(|p, io| match Gemm::from(p.get::<Gemm2Param>()).shape(&io.ins[0], &io.ins[1])? {
        Some(out) => io.assign_out(0, &out),
        None => Ok(()),
    })
    .forward(|ctx, ins, outs| {
        let gemm = Gemm::from(ctx.params::<Gemm2Param>());
        matrix_type!(ctx, ins[0].dtype(), |T| gemm.run::<T>(&ins[0], &ins[1], 0.0, &mut outs[0]))
    })
    .grad(Grad::Compose(|g, n| {
        let gemm = Gemm::from(n.params.get::<Gemm2Param>());
        Ok(gemm.gradients(g, n.inputs[0], n.inputs[1], n.ograds[0])?.map(Some).into())
    }));

params! {
    /// Parameters of `_linalg_syrk`.
    pub struct SyrkParam {
        /// Whether A^T A is computed instead of A A^T.
        transpose: bool = false;
        /// The scale of the product.
        alpha: f64 = 1.0;
    }
}

pub(super) static SYRK: Operator<SyrkParam> = Operator::new("_linalg_syrk")
    .aliases(&["linalg_syrk"])
    .doc("The products of matrices with their own transposes: alpha * A * A^T, or alpha * A^T * A.")
    .inputs(&[arg("A", "The matrices, of shape (..., m, n).")])
    .shape(|p, io| {
        check_rank(&io.ins[0], "A")?;
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        let n = io.ins[0].dim(if p.get::<SyrkParam>().transpose { rank - 1 } else { rank - 2 });
        let out = replace_last_axes(&io.ins[0], 2, &[n, n]);
        io.assign_out(0, &out)
    })
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<SyrkParam>();
        let (matrix, out) = (matrix_dims(ins[0].shape()), matrix_dims(outs[0].shape()));
        matrix_type!(ctx, ins[0].dtype(), |T| {
            let a = ins[0].slice::<T>()?;
            let left = |i| batch_matrix(a, i, matrix).t_if(p.transpose);
            gemm_batched(p.alpha as T, left, |i| left(i).t(), 0.0, outs[0].slice_mut::<T>()?, out);
            Ok(())
        })
    })
    .grad(Grad::Compose(SYRK_COMPOSE));

const SYRK_COMPOSE: Compose = |g, n| {
    let p = n.params.get::<SyrkParam>();
    let (a, dy) = (n.inputs[0], n.ograds[0]);
    let (plain, transposed) = match p.transpose {
        true => (op!(GEMM2(a, dy), alpha: p.alpha), op!(GEMM2(a, dy), alpha: p.alpha, transpose_b: true)),
        false => (op!(GEMM2(dy, a), alpha: p.alpha), op!(GEMM2(dy, a), alpha: p.alpha, transpose_a: true)),
    };
    let (plain, transposed) = (g.op(plain)?, g.op(transposed)?);
    Ok(vec![Some(g.op(op!(elemwise::binary::ADD(plain, transposed)))?)])
};

params! {
    /// Parameters of `_linalg_trmm` and `_linalg_trsm`.
    pub struct TriangularParam {
        /// Whether A is transposed.
        transpose: bool = false;
        /// Whether A is the right operand.
        rightside: bool = false;
        /// Whether the lower triangle of A is used; otherwise the upper one.
        lower: bool = true;
        /// The scale of the result.
        alpha: f64 = 1.0;
    }
}

/// Shape rule: A holds square matrices that match the rows of B, or its columns with `rightside`; the result has the shape of B.
pub(super) fn triangular_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    check_square(&io.ins[0], "A")?;
    let (b, out) = (io.ins[1].clone(), io.outs[0].clone());
    io.assign_out(0, &b)?;
    io.assign_in(1, &out)?;
    check_rank(&io.ins[1], "B")?;
    let Some(rank) = io.ins[1].ndim() else { return Ok(()) };
    let n = io.ins[1].dim(if p.get::<TriangularParam>().rightside { rank - 1 } else { rank - 2 });
    let a = replace_last_axes(&io.ins[1], 2, &[n, n]);
    io.assign_in(0, &a)
}

pub(super) static TRMM: Operator<TriangularParam> = Operator::new("_linalg_trmm")
    .aliases(&["linalg_trmm"])
    .doc(
        "The products of triangular matrices with others: alpha * op(A) * B, or alpha * B * op(A) with rightside, where op may \
         transpose. Only the selected triangle of A is read.",
    )
    .inputs(&[arg("A", "The triangular matrices, of shape (..., n, n)."), arg("B", "The other matrices.")])
    .shape(triangular_shape)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<TriangularParam>();
        matrix_type!(ctx, ins[0].dtype(), |T| {
            let (n, _) = matrix_dims(ins[0].shape());
            with_triangles::<T, _>(ins[0].slice()?, n, p.lower, |a| {
                p.product::<T>(a, p.transpose, ins[1].slice()?, matrix_dims(ins[1].shape()), outs[0].slice_mut()?);
                Ok(())
            })
        })
    })
    .grad(Grad::Kernel(Backward::new(trmm_backward).inputs(Deps::All), None));

/// Calls `f` with copies of the matrices, in which the elements outside the triangles are 0.
fn with_triangles<T: Scalar, R>(a: &[T], n: usize, lower: bool, f: impl FnOnce(&[T]) -> Result<R>) -> Result<R> {
    with_scratch(a.len(), |copies: &mut [T]| {
        let len = (n * n).max(1);
        copies.chunks_mut(len).zip(a.chunks(len)).for_each(|(copy, a)| copy_triangle(a, n, lower, copy));
        f(copies)
    })
}

impl TriangularParam {
    /// Writes alpha * A * B, or alpha * B * A with `rightside`, where A is transposed if `transposed`.
    fn product<T: Scalar + Element>(
        &self,
        a: &[T],
        transposed: bool,
        b: &[T],
        (rows, cols): (usize, usize),
        out: &mut [T],
    ) {
        let alpha = T::from_f64(self.alpha);
        let n = if self.rightside { cols } else { rows };
        let a = |i| batch_matrix(a, i, (n, n)).t_if(transposed);
        let b = |i| batch_matrix(b, i, (rows, cols));
        if self.rightside {
            gemm_batched(alpha, b, a, T::zero(), out, (rows, cols));
        } else {
            gemm_batched(alpha, a, b, T::zero(), out, (rows, cols));
        }
    }
}

fn trmm_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<TriangularParam>();
    let ((n, _), b_dims) = (matrix_dims(ins[1].shape()), matrix_dims(ins[2].shape()));
    matrix_type!(ctx, ins[0].dtype(), |T| {
        let (grad, a, b) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
        if outs[1].wanted() {
            with_triangles::<T, _>(a, n, p.lower, |a| {
                p.product::<T>(a, !p.transpose, grad, b_dims, outs[1].slice_mut()?);
                Ok(())
            })?;
        }
        if outs[0].wanted() {
            let out = outs[0].slice_mut::<T>()?;
            // dA = dC B^T. If A is transposed or on the right, the operands are swapped or transposed.
            let swapped = p.transpose != p.rightside;
            let (x, y) = if swapped { (b, grad) } else { (grad, b) };
            let left = |i| batch_matrix(x, i, b_dims).t_if(p.rightside);
            let right = |i| batch_matrix(y, i, b_dims).t_if(!p.rightside);
            gemm_batched(p.alpha as T, left, right, 0.0, out, (n, n));
            keep_triangles(out, n, p.lower);
        }
        Ok(())
    })
}

/// Zeroes the elements outside the triangles.
pub(super) fn keep_triangles<T: Scalar>(a: &mut [T], n: usize, lower: bool) {
    for (i, row) in a.chunks_mut(n.max(1)).enumerate() {
        let i = i % n.max(1);
        if lower { row[i + 1..].fill(T::zero()) } else { row[..i].fill(T::zero()) }
    }
}
