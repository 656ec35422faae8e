//! LQ and eigenvalue decompositions, inverses and determinants.

use ferromx_core::dtype::Element;
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::op::{AnyOperator, Deps, OpCtx, Operator, arg};
use ferromx_core::semantics::is_numpy_shape;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::gemm::{MatMut, MatRef, gemm};
use ferromx_kernels::linalg::{
    Scalar, Triangle, for_each_matrix, invert, lq_batch, lu, solve_left, symmetric_eigen_batch, symmetric_from_lower,
};
use ferromx_kernels::math::log;
use ferromx_kernels::par::with_scratch;

use super::matrices::{
    self, batch_item, check_rank, check_square, matrix_error, matrix_type, replace_last_axes, square_shape,
};
use crate::axes::matrix_dims;
use crate::compose::op;
use crate::rules::slice_if_wanted;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&GELQF, &SYEVD, &INVERSE, &DET, &SLOGDET];

pub(super) static GELQF: Operator = Operator::new("_linalg_gelqf")
    .aliases(&["linalg_gelqf"])
    .doc(
        "The LQ factors of matrices with at most as many rows as columns: A = L * Q with orthonormal rows of Q and L lower triangular. \
         A of shape (..., m, n) gives Q of shape (..., m, n) and L of shape (..., m, m). The signs are LAPACK's.",
    )
    .inputs(&[arg("A", "The matrices.")])
    .outputs(|_| 2)
    .shape(|_, io| {
        io.tie(0, 0)?;
        let a = io.ins[0].clone();
        check_rank(&a, "A")?;
        let Some(rank) = a.ndim() else { return Ok(()) };
        let (m, n) = (a.dim(rank - 2), a.dim(rank - 1));
        ensure!(m <= n || n < 0, "A of shape {a} has more rows than columns: pass its transpose for a QR factorization");
        io.assign_out(1, &replace_last_axes(&a, 1, &[m]))
    })
    .forward(|ctx, ins, outs| {
        let (m, n) = matrix_dims(ins[0].shape());
        let (q, l) = outs.split_at_mut(1);
        q[0].bytes_mut()?.copy_from_slice(ins[0].bytes()?);
        matrix_type!(ctx, ins[0].dtype(), |T| {
            lq_batch(q[0].slice_mut::<T>()?, (m, n), l[0].slice_mut::<T>()?);
            Ok(())
        })
    })
    .grad(Grad::Kernel(Backward::new(gelqf_backward).outputs(Deps::All), None));

/// dA = L^-T (dQ + M Q), where M = copyltu(L^T dL - dQ Q^T) mirrors the lower triangle to the upper one (Seeger et al.,
/// Auto-Differentiating Linear Algebra, 2017).
fn gelqf_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (m, n) = matrix_dims(ins[0].shape());
    matrix_type!(ctx, ins[0].dtype(), |T| {
        let (dq, dl) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?);
        let (q, l) = (ins[2].slice::<T>()?, ins[3].slice::<T>()?);
        for_each_matrix(outs[0].slice_mut::<T>()?, m * n, |i, out| -> Result<()> {
            let wide = |x| MatRef::row_major(batch_item::<T>(x, i, m * n), m, n);
            let square = |x| MatRef::row_major(batch_item::<T>(x, i, m * m), m, m);
            out.copy_from_slice(batch_item(dq, i, m * n));
            with_scratch(m * m, |s: &mut [T]| {
                gemm(1.0, square(l).t(), square(dl), 0.0, MatMut::row_major(s, m, m));
                gemm(-1.0, wide(dq), wide(q).t(), 1.0, MatMut::row_major(s, m, m));
                symmetric_from_lower(s, m);
                gemm(1.0, MatRef::row_major(s, m, m), wide(q), 1.0, MatMut::row_major(out, m, n));
            });
            let triangle = Triangle { lower: true, transposed: true, unit: false };
            solve_left(batch_item(l, i, m * m), m, triangle, out, n);
            Ok(())
        })
    })
}

pub(super) static SYEVD: Operator = Operator::new("_linalg_syevd")
    .doc(
        "The eigenvectors and eigenvalues of symmetric matrices: A = U^T * diag(L) * U with the eigenvectors as rows of U and the \
         eigenvalues L in increasing order. Only the lower triangle of A is read. The element of largest magnitude in each eigenvector \
         is positive. The gradient treats equal eigenvalues as slightly different.",
    )
    .inputs(&[arg("A", "The matrices, of shape (..., n, n).")])
    .outputs(|_| 2)
    .shape(|_, io| {
        let (a, u) = (io.ins[0].clone(), io.outs[0].clone());
        io.assign_out(0, &a)?;
        io.assign_in(0, &u)?;
        check_square(&io.ins[0], "A")?;
        if !io.ins[0].ndim_is_known() {
            return Ok(());
        }
        let values = replace_last_axes(&io.ins[0], 1, &[]);
        io.assign_out(1, &values)
    })
    .forward(|ctx, ins, outs| {
        let (n, _) = matrix_dims(ins[0].shape());
        let (u, values) = outs.split_at_mut(1);
        u[0].bytes_mut()?.copy_from_slice(ins[0].bytes()?);
        matrix_type!(ctx, ins[0].dtype(), |T| {
            symmetric_eigen_batch(u[0].slice_mut::<T>()?, n, values[0].slice_mut::<T>()?)
                .map_err(|i| matrix_error("has eigenvalues that do not converge: does it contain NaN or infinity?", i))
        })
    })
    .grad(Grad::Kernel(Backward::new(syevd_backward).outputs(Deps::All), None));

/// `x` bounded away from 0, so that a gradient divided by it stays finite: the bound if |x| is smaller.
pub(super) fn bounded<T: Scalar + Element>(x: T) -> T {
    // MXNet's bounds for single and double precision.
    let bound = T::from_f64(if size_of::<T>() == 4 { 1e-30 } else { 1e-100 });
    if x.abs() >= bound { x } else { bound }
}

/// The difference `a - b` of two eigenvalues or singular values, bounded away from 0. `is_negative` is the sign of the bound.
pub(super) fn bounded_difference<T: Scalar + Element>(a: T, b: T, is_negative: bool) -> T {
    if is_negative { -bounded(b - a) } else { bounded(a - b) }
}

/// dA = U^T (S + diag(dL)) U, where S holds (G - G^T) / 2 divided by the differences of eigenvalues, and G = dU U^T.
fn syevd_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (n, _) = matrix_dims(ins[0].shape());
    matrix_type!(ctx, ins[0].dtype(), |T| {
        let (du, dl) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?);
        let (u, l) = (ins[2].slice::<T>()?, ins[3].slice::<T>()?);
        for_each_matrix(outs[0].slice_mut::<T>()?, n * n, |i, out| -> Result<()> {
            let view = |x| MatRef::row_major(batch_item::<T>(x, i, n * n), n, n);
            let (dl, l) = (batch_item(dl, i, n), batch_item(l, i, n));
            with_scratch(2 * n * n, |scratch: &mut [T]| {
                let (g, s) = scratch.split_at_mut(n * n);
                gemm(1.0, view(du), view(u).t(), 0.0, MatMut::row_major(g, n, n));
                for j in 0..n {
                    for k in 0..n {
                        s[j * n + k] = match j == k {
                            true => dl[j],
                            false => (g[j * n + k] - g[k * n + j]) * 0.5 / bounded_difference(l[j], l[k], j < k),
                        };
                    }
                }
                gemm(1.0, view(u).t(), MatRef::row_major(s, n, n), 0.0, MatMut::row_major(g, n, n));
                gemm(1.0, MatRef::row_major(g, n, n), view(u), 0.0, MatMut::row_major(out, n, n));
            });
            Ok(())
        })
    })
}

pub(super) static INVERSE: Operator = Operator::new("_linalg_inverse")
    .aliases(&["_npi_inv", "linalg_inverse"])
    .doc("The inverses of square matrices. A matrix without an inverse is an error.")
    .inputs(&[arg("A", "The matrices, of shape (..., n, n).")])
    .shape(square_shape)
    .forward(|ctx, ins, outs| {
        let (n, _) = matrix_dims(ins[0].shape());
        matrix_type!(ctx, ins[0].dtype(), |T| {
            let a = ins[0].slice::<T>()?;
            for_each_matrix(outs[0].slice_mut::<T>()?, n * n, |i, out| {
                inverse(batch_item(a, i, n * n), n, out).map_err(|k| {
                    matrix_error(&format!("has no inverse: column {k} depends linearly on the columns before it"), i)
                })
            })
        })
    })
    .grad(Grad::Compose(|g, n| {
        let (b, grad) = (n.outputs[0], n.ograds[0]);
        let product = g.op(op!(linalg::blas::GEMM2(b, grad), transpose_a: true, alpha: -1.0))?;
        Ok(vec![Some(g.op(op!(linalg::blas::GEMM2(product, b), transpose_b: true))?)])
    }));

/// Writes the inverse of a matrix. For a singular matrix, the error is the index of the first zero pivot of its LU factorization.
fn inverse<T: Scalar>(a: &[T], n: usize, out: &mut [T]) -> std::result::Result<(), usize> {
    with_scratch(n * n, |factors: &mut [T]| {
        factors.copy_from_slice(a);
        invert(factors, n, out)
    })
}

/// Calls `f` with the index of each matrix and, of its LU factorization, the sign of the row permutation and the diagonal of U.
/// `num_matrices` does not follow from the length of `a` if `n` is 0.
fn for_each_lu_diagonal<T: Scalar>(
    a: &[T],
    n: usize,
    num_matrices: usize,
    mut f: impl FnMut(usize, T, &mut dyn Iterator<Item = T>),
) {
    let mut pivots = vec![0; n];
    with_scratch(n * n, |factors: &mut [T]| {
        for i in 0..num_matrices {
            factors.copy_from_slice(batch_item(a, i, n * n));
            let sign = if lu(factors, n, &mut pivots) { -T::one() } else { T::one() };
            f(i, sign, &mut (0..n).map(|k| factors[k * n + k]));
        }
    });
}

/// The shape of one number per square matrix. For a single matrix it is () under NumPy shape semantics, (1,) otherwise.
fn batch_shape(a: &Shape) -> Result<Option<Shape>> {
    check_square(a, "A")?;
    Ok(a.ndim().map(|rank| if rank == 2 && is_numpy_shape() { Shape::new(&[]) } else { replace_last_axes(a, 2, &[]) }))
}

pub(super) static DET: Operator = Operator::new("_linalg_det")
    .aliases(&["_npi_det", "linalg_det"])
    .doc("The determinants of square matrices: A of shape (..., n, n) gives shape (...); a single matrix gives (1,), or () with NumPy's \
          shape semantics.")
    .inputs(&[arg("A", "The matrices.")])
    .output_names_by(|_| vec!["output0".into()])
    .shape(|_, io| match batch_shape(&io.ins[0])? {
        Some(out) => io.assign_out(0, &out),
        None => Ok(()),
    })
    .forward(|ctx, ins, outs| {
        let (n, _) = matrix_dims(ins[0].shape());
        matrix_type!(ctx, ins[0].dtype(), |T| {
            let out = outs[0].slice_mut::<T>()?;
            let a = ins[0].slice::<T>()?;
            for_each_lu_diagonal(a, n, out.len(), |i, sign, diagonal| out[i] = diagonal.fold(sign, |d, x| d * x));
            Ok(())
        })
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            matrix_type!(ctx, ins[0].dtype(), |T| {
                let (grad, det) = (ins[0].slice::<T>()?, ins[2].slice::<T>()?);
                scaled_inverse_transposes::<T>(&ins[1], |i| grad[i] * det[i], &mut outs[0])
            })
        })
        .inputs(Deps::All)
        .outputs(Deps::All),
        None,
    ));

/// Writes scale(i) A_i^-T for each matrix A_i, or 0 if it is singular.
fn scaled_inverse_transposes<T: Scalar + Element>(
    a: &In<'_>,
    scale: impl Fn(usize) -> T + Sync,
    out: &mut Out<'_>,
) -> Result<()> {
    let (n, _) = matrix_dims(a.shape());
    let a = a.slice::<T>()?;
    for_each_matrix(out.slice_mut::<T>()?, n * n, |i, out| -> Result<()> {
        with_scratch(n * n, |x: &mut [T]| match inverse(batch_item(a, i, n * n), n, x) {
            Ok(()) => {
                let scale = scale(i);
                for (k, out) in out.iter_mut().enumerate() {
                    *out = scale * x[k % n * n + k / n];
                }
            }
            Err(_) => out.fill(T::zero()),
        });
        Ok(())
    })
}

pub(super) static SLOGDET: Operator = Operator::new("_linalg_slogdet")
    .aliases(&["_npi_slogdet", "linalg_slogdet"])
    .doc(
        "The determinants of square matrices as their signs and the logarithms of their magnitudes; 0 and negative infinity for a \
         determinant of 0. A of shape (..., n, n) gives shapes (...); a single matrix gives (1,), or () with NumPy's shape semantics.",
    )
    .inputs(&[arg("A", "The matrices.")])
    .outputs(|_| 2)
    .shape(|_, io| match batch_shape(&io.ins[0])? {
        Some(out) => (0..2).try_for_each(|k| io.assign_out(k, &out)),
        None => Ok(()),
    })
    .forward(|ctx, ins, outs| {
        let (n, _) = matrix_dims(ins[0].shape());
        let num_matrices = outs[0].len();
        let (signs, logs) = outs.split_at_mut(1);
        matrix_type!(ctx, ins[0].dtype(), |T| {
            let (signs, logs) = (slice_if_wanted::<T>(&mut signs[0])?, slice_if_wanted::<T>(&mut logs[0])?);
            for_each_lu_diagonal(ins[0].slice::<T>()?, n, num_matrices, |i, sign, diagonal| {
                let (mut sign, mut log_abs) = (sign, 0.0);
                for x in diagonal {
                    sign *= if x == 0.0 { 0.0 } else { x.signum() };
                    log_abs += log(x.abs());
                }
                if let Some(out) = signs.get_mut(i) {
                    *out = sign;
                }
                if let Some(out) = logs.get_mut(i) {
                    *out = log_abs;
                }
            });
            Ok(())
        })
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            matrix_type!(ctx, ins[0].dtype(), |T| {
                let grad = ins[1].slice::<T>()?;
                scaled_inverse_transposes::<T>(&ins[2], |i| grad[i], &mut outs[0])
            })
        })
        .inputs(Deps::All),
        None,
    ));
