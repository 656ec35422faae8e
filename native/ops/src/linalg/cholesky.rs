//! Cholesky factorization and triangular solves.

use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::op::{AnyOperator, Deps, OpCtx, Operator, arg};
use ferromx_core::params;
use ferromx_core::storage::{In, Out};
use ferromx_kernels::gemm::{MatMut, MatRef, gemm};
use ferromx_kernels::linalg::{
    Scalar, Triangle, cholesky, for_each_matrix, solve_left, solve_right, symmetric_from_lower, transpose,
};
use ferromx_kernels::par::with_scratch;

use super::blas::{TriangularParam, keep_triangles, triangular_shape};
use super::matrices::{self, batch_item, matrix_error, matrix_type, square_shape};
use crate::axes::matrix_dims;
use crate::movement::copy_unless_in_place;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&POTRF, &CHOLESKY, &POTRI, &TRSM];

params! {
    /// Parameters of the Cholesky factorization. MXNet's metadata does not list them.
    pub struct CholeskyParam {
        /// Whether the factors are lower triangular, A = L * L^T. Otherwise they are upper triangular, A = U^T * U.
        lower: bool = true;
    }
}

impl CholeskyParam {
    /// L in the memory of a factor: an upper triangular factor is its transpose.
    fn factor(&self) -> Triangle {
        Triangle { lower: self.lower, transposed: !self.lower, unit: false }
    }

    /// The view of L, or of its gradient, in the memory of an upper or lower triangular factor.
    fn view<'a, T: Scalar>(&self, factor: &'a [T], n: usize) -> MatRef<'a, T> {
        let view = MatRef::row_major(factor, n, n);
        if self.lower { view } else { view.t() }
    }

    /// Transposes a matrix in place if the factors are upper triangular.
    fn transpose_if_upper<T: Scalar>(&self, a: &mut [T], n: usize) {
        if !self.lower {
            with_scratch(n * n, |copy: &mut [T]| {
                copy.copy_from_slice(a);
                transpose(copy, n, n, a);
            });
        }
    }
}

pub(super) static POTRF: Operator<CholeskyParam> = Operator::new("_linalg_potrf")
    .aliases(&["linalg_potrf"])
    .doc(
        "The Cholesky factors of symmetric, positive definite matrices: the lower triangular L with A = L * L^T. Only the lower triangle \
         of A is read. With lower=False, the upper triangular U with A = U^T * U; only the upper triangle is read.",
    )
    .inputs(&[arg("A", "The matrices, of shape (..., n, n).")])
    .unlisted_params()
    .shape(square_shape)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<CholeskyParam>();
        let (n, _) = matrix_dims(ins[0].shape());
        copy_unless_in_place(&ins[0], &mut outs[0])?;
        matrix_type!(ctx, ins[0].dtype(), |T| {
            for_each_matrix(outs[0].slice_mut::<T>()?, n * n, |i, a| {
                p.transpose_if_upper(a, n);
                cholesky(a, n).map_err(|k| matrix_error(&format!("is not positive definite: the factorization stops at row {k}"), i))?;
                p.transpose_if_upper(a, n);
                Ok(())
            })
        })
    })
    .grad(Grad::Kernel(Backward::new(potrf_backward).outputs(Deps::All), None))
    .inplace(&[(0, 0)]);

pub(super) static CHOLESKY: Operator<CholeskyParam> = POTRF.renamed("_npi_cholesky").doc(
    "NumPy's linalg.cholesky: the lower triangular L with A = L * L^T for symmetric, positive definite matrices. Only the lower \
     triangle of A is read. With lower=False, the upper triangular U with A = U^T * U; only the upper triangle is read.",
);

/// dA = L^-T S L^-1 / 2, where S = copyltu(L^T dL) mirrors the lower triangle to the upper one (Seeger et al., Auto-Differentiating Linear
/// Algebra, 2017).
fn potrf_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<CholeskyParam>();
    let (n, _) = matrix_dims(ins[0].shape());
    matrix_type!(ctx, ins[0].dtype(), |T| {
        let (grad, l) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?);
        for_each_matrix(outs[0].slice_mut::<T>()?, n * n, |i, out| -> Result<()> {
            let l = batch_item(l, i, n * n);
            gemm(0.5, p.view(l, n).t(), p.view(batch_item(grad, i, n * n), n), 0.0, MatMut::row_major(out, n, n));
            symmetric_from_lower(out, n);
            solve_left(l, n, p.factor().t(), out, n);
            solve_right(l, n, p.factor(), out, n);
            Ok(())
        })
    })
}

pub(super) static POTRI: Operator<CholeskyParam> = Operator::new("_linalg_potri")
    .aliases(&["linalg_potri"])
    .doc(
        "The inverses of matrices from their Cholesky factors: (L * L^T)^-1 for lower triangular matrices L. With lower=False, \
         (U^T * U)^-1 for upper triangular matrices U.",
    )
    .inputs(&[arg("A", "The factors, of shape (..., n, n); only their lower or upper triangle is read.")])
    .unlisted_params()
    .shape(square_shape)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<CholeskyParam>();
        let (n, _) = matrix_dims(ins[0].shape());
        matrix_type!(ctx, ins[0].dtype(), |T| {
            let l = ins[0].slice::<T>()?;
            for_each_matrix(outs[0].slice_mut::<T>()?, n * n, |i, out| {
                let l = batch_item(l, i, n * n);
                if let Some(k) = (0..n).find(|k| l[k * n + k] == 0.0) {
                    return Err(matrix_error(
                        &format!("is not a Cholesky factor: element {k} of its diagonal is 0"),
                        i,
                    ));
                }
                inverse_from_cholesky(l, n, p.factor(), out);
                Ok(())
            })
        })
    })
    .grad(Grad::Kernel(Backward::new(potri_backward).inputs(Deps::All).outputs(Deps::All), None));

/// The inverse (L L^T)^-1 = L^-T L^-1.
fn inverse_from_cholesky<T: Scalar>(l: &[T], n: usize, factor: Triangle, out: &mut [T]) {
    with_scratch(n * n, |inverse: &mut [T]| {
        inverse.fill(T::zero());
        (0..n).for_each(|i| inverse[i * n + i] = T::one());
        solve_left(l, n, factor, inverse, n);
        let x = MatRef::row_major(inverse, n, n);
        gemm(T::one(), x.t(), x, T::zero(), MatMut::row_major(out, n, n));
    });
}

/// dL is the lower triangle of -B (dB + dB^T) L^-T, where B is the result.
fn potri_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<CholeskyParam>();
    let (n, _) = matrix_dims(ins[0].shape());
    matrix_type!(ctx, ins[0].dtype(), |T| {
        let (grad, l, b) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
        let out = outs[0].slice_mut::<T>()?;
        for_each_matrix(out, n * n, |i, out| -> Result<()> {
            let view = |x| MatRef::row_major(batch_item(x, i, n * n), n, n);
            gemm(-1.0, view(b), view(grad), 0.0, MatMut::row_major(out, n, n));
            gemm(-1.0, view(b), view(grad).t(), 1.0, MatMut::row_major(out, n, n));
            solve_right(batch_item(l, i, n * n), n, p.factor().t(), out, n);
            p.transpose_if_upper(out, n);
            Ok(())
        })?;
        keep_triangles(out, n, p.lower);
        Ok(())
    })
}

impl TriangularParam {
    /// The triangle of op(A).
    fn triangle(&self) -> Triangle {
        Triangle { lower: self.lower, transposed: self.transpose, unit: false }
    }
}

pub(super) static TRSM: Operator<TriangularParam> = Operator::new("_linalg_trsm")
    .aliases(&["linalg_trsm"])
    .doc(
        "Triangular solve: the solutions X of op(A) * X = alpha * B, or X * op(A) = alpha * B with rightside, where op may transpose. \
         Only the selected triangle of A is read; a zero on its diagonal gives infinities.",
    )
    .inputs(&[arg("A", "The triangular matrices, of shape (..., n, n)."), arg("B", "The right-hand sides.")])
    .shape(triangular_shape)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<TriangularParam>();
        let (n, _) = matrix_dims(ins[0].shape());
        copy_unless_in_place(&ins[1], &mut outs[0])?;
        let dims = matrix_dims(outs[0].shape());
        matrix_type!(ctx, ins[0].dtype(), |T| {
            let a = ins[0].slice::<T>()?;
            for_each_matrix(outs[0].slice_mut::<T>()?, dims.0 * dims.1, |i, x| -> Result<()> {
                triangular_solve(p.triangle(), p.rightside, batch_item(a, i, n * n), n, x, dims);
                scale(x, p.alpha as T);
                Ok(())
            })
        })
    })
    .grad(Grad::Kernel(Backward::new(trsm_backward).inputs(Deps::Some(&[0])).outputs(Deps::All), None))
    .inplace(&[(1, 0)]);

/// Solves op(A) X = B or, with `rightside`, X op(A) = B in place. On entry `x` holds B.
fn triangular_solve<T: Scalar>(
    op: Triangle,
    rightside: bool,
    a: &[T],
    n: usize,
    x: &mut [T],
    (rows, cols): (usize, usize),
) {
    if rightside {
        solve_right(a, n, op, x, rows);
    } else {
        solve_left(a, n, op, x, cols);
    }
}

fn scale<T: Scalar>(x: &mut [T], by: T) {
    if by != T::one() {
        x.iter_mut().for_each(|x| *x *= by);
    }
}

/// With M the solution of op(A)^T M = dX, dB = alpha M and dA is the triangle of -M X^T. If A is transposed or on the right, the operands
/// of that product are swapped or transposed.
fn trsm_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<TriangularParam>();
    let ((n, _), dims) = (matrix_dims(ins[1].shape()), matrix_dims(ins[0].shape()));
    let len = dims.0 * dims.1;
    let (a_grad, b_grad) = outs.split_at_mut(1);
    matrix_type!(ctx, ins[0].dtype(), |T| {
        let (grad, a, x) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
        with_scratch(grad.len(), |m: &mut [T]| {
            m.copy_from_slice(grad);
            for_each_matrix(m, len, |i, m| -> Result<()> {
                triangular_solve(p.triangle().t(), p.rightside, batch_item(a, i, n * n), n, m, dims);
                Ok(())
            })?;
            if a_grad[0].wanted() {
                let out = a_grad[0].slice_mut::<T>()?;
                for_each_matrix(out, n * n, |i, out| -> Result<()> {
                    let view = |x| MatRef::row_major(batch_item(x, i, len), dims.0, dims.1);
                    let (y, z) = if p.transpose != p.rightside { (view(x), view(m)) } else { (view(m), view(x)) };
                    let (y, z) = if p.rightside { (y.t(), z) } else { (y, z.t()) };
                    gemm(-1.0, y, z, 0.0, MatMut::row_major(out, n, n));
                    Ok(())
                })?;
                keep_triangles(out, n, p.lower);
            }
            if b_grad[0].wanted() {
                scale(m, p.alpha as T);
                b_grad[0].slice_mut::<T>()?.copy_from_slice(m);
            }
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferromx_core::ndarray::NDArray;

    use crate::testing::{Case, array, close, numbers};

    /// A batch of two symmetric, positive definite matrices: B B^T + 4 I.
    fn positive_definite() -> Vec<f64> {
        let b = numbers(&[2, 3, 3]).to_vec::<f64>().unwrap();
        let mut a = vec![0.0; b.len()];
        for m in 0..2 {
            for (i, j) in (0..9).map(|k| (k / 3, k % 3)) {
                let dot: f64 = (0..3).map(|k| b[m * 9 + i * 3 + k] * b[m * 9 + j * 3 + k]).sum();
                a[m * 9 + i * 3 + j] = dot + if i == j { 4.0 } else { 0.0 };
            }
        }
        a
    }

    fn transposed(a: &[f64]) -> Vec<f64> {
        (0..18).map(|k| a[k / 9 * 9 + k % 3 * 3 + k / 3 % 3]).collect()
    }

    /// Upper triangular factors are the transposes of the lower triangular ones, with the same inverses and gradients.
    #[test]
    fn upper_triangular_factors_are_transposes() {
        let upper: &[(&str, &str)] = &[("lower", "False")];
        let a = positive_definite();
        let batch = |x: &[f64]| array(x, &[2, 3, 3]);
        let values = |x: &NDArray| x.to_vec::<f64>().unwrap();
        for def in [&POTRF, &CHOLESKY] {
            let lower = values(&Case::new(def, &[]).run1(&[batch(&a)]).unwrap());
            close(&values(&Case::new(def, upper).run1(&[batch(&a)]).unwrap()), &transposed(&lower), 1e-12);
        }
        let factor = values(&Case::new(&POTRF, &[]).run1(&[batch(&a)]).unwrap());
        let inverse = values(&Case::new(&POTRI, &[]).run1(&[batch(&factor)]).unwrap());
        close(&values(&Case::new(&POTRI, upper).run1(&[batch(&transposed(&factor))]).unwrap()), &inverse, 1e-12);
        let head = values(&numbers(&[2, 3, 3]));
        for (def, x, flipped) in [(&POTRF, &a, a.clone()), (&POTRI, &factor, transposed(&factor))] {
            let lower = Case::new(def, &[]).backward(&[batch(x)], &[batch(&head)]).unwrap();
            let upper = Case::new(def, upper).backward(&[batch(&flipped)], &[batch(&transposed(&head))]).unwrap();
            close(&values(&upper[0]), &transposed(&values(&lower[0])), 1e-12);
        }
    }
}
