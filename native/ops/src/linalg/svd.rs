//! NumPy's singular value decomposition and pseudoinverses.

use ferromx_core::dtype::Element;
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{AnyOperator, ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params;
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_kernels::broadcast::broadcast;
use ferromx_kernels::gemm::{MatMut, MatRef, gemm};
use ferromx_kernels::linalg::{Scalar, for_each_matrix, svd};
use ferromx_kernels::map::Src;
use ferromx_kernels::par::with_scratch;

use super::decompositions::{bounded, bounded_difference};
use super::matrices::{self, batch_item, check_rank, matrix_error, matrix_type};
use crate::axes::matrix_dims;
use crate::rules::slice_if_wanted;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&SVD, &PINV, &PINV_SCALAR_RCOND];

const NO_CONVERGENCE: &str = "has singular values that do not converge: does it contain NaN or infinity?";

pub(super) static SVD: Operator = Operator::new("_npi_svd")
    .doc(
        "NumPy's linalg.svd of matrices with at most as many rows as columns: A = UT * diag(L) * V with UT orthogonal, V with orthonormal \
         rows, and the singular values L in decreasing order. A of shape (..., m, n) gives shapes (..., m, m), (..., m), (..., m, n). \
         The common sign of a row of V and its column of UT is not specified. The gradient assumes that the singular values \
         are distinct and not 0.",
    )
    .inputs(&[arg("A", "The matrices.")])
    .outputs(|_| 3)
    .shape(|_, io| {
        let (a, v) = (io.ins[0].clone(), io.outs[2].clone());
        check_rank(&a, "A")?;
        io.assign_out(2, &a)?;
        io.assign_in(0, &v)?;
        let a = io.ins[0].clone();
        let [batch @ .., m, n] = a.dims() else { return Ok(()) };
        ensure!(m <= n || *n < 0, "A of shape {a} has more rows than columns: pass its transpose");
        let batch_of = |dims: &[i64]| Shape::from(batch.iter().chain(dims).copied().collect::<Dims>());
        io.assign_out(0, &batch_of(&[*m, *m]))?;
        io.assign_out(1, &batch_of(&[*m]))
    })
    .forward(svd_forward)
    .grad(Grad::Kernel(Backward::new(svd_backward).outputs(Deps::All), None));

fn svd_forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (m, n) = matrix_dims(ins[0].shape());
    let [u, s, v] = outs else { return Ok(()) };
    matrix_type!(ctx, ins[0].dtype(), |T| {
        let a = ins[0].slice::<T>()?;
        let (u, s, v) = (slice_if_wanted(u)?, slice_if_wanted(s)?, slice_if_wanted(v)?);
        for_each_svd::<T>(a, (m, n), &mut |i, parts| {
            store_item(u, i, parts.u);
            store_item(s, i, parts.s);
            store_item(v, i, parts.v);
        })
    })
}

/// Writes item `i` of an output, which is empty if it is not wanted.
fn store_item<T: Copy>(out: &mut [T], i: usize, item: &[T]) {
    if let Some(to) = out.get_mut(i * item.len()..(i + 1) * item.len()) {
        to.copy_from_slice(item);
    }
}

/// The decomposition A = u diag(s) v of an (m, n) matrix, with u of shape (m, k), s (k,) and v (k, n), where k = min(m, n).
pub(super) struct Svd<'a, T> {
    pub u: &'a [T],
    pub s: &'a [T],
    pub v: &'a [T],
}

/// Decomposes the matrices in parallel and calls `f` with the results in order.
pub(super) fn for_each_svd<T: Scalar + Element>(
    a: &[T],
    (m, n): (usize, usize),
    f: &mut dyn FnMut(usize, Svd<'_, T>),
) -> Result<()> {
    let k = m.min(n);
    let (u_len, s_len, result_len) = (m * k, k, m * k + k + k * n);
    let num_matrices = a.len() / (m * n).max(1);
    with_scratch(num_matrices * result_len, |results: &mut [T]| {
        for_each_matrix(results, result_len, |i, result| {
            let (u, rest) = result.split_at_mut(u_len);
            let (s, v) = rest.split_at_mut(s_len);
            svd(batch_item(a, i, m * n), m, n, u, s, v).map_err(|_| matrix_error(NO_CONVERGENCE, i))
        })?;
        for (i, result) in results.chunks_exact(result_len.max(1)).enumerate() {
            let (u, rest) = result.split_at(u_len);
            let (s, v) = rest.split_at(s_len);
            f(i, Svd { u, s, v });
        }
        Ok(())
    })
}

/// dA = U ((F . (G - G^T)) S + S (F . (H - H^T)) + diag(ds) - S^-1 H^T) V + U S^-1 dV, where G = U^T dU, H = V dV^T, and
/// F_ij = 1 / (s_j^2 - s_i^2) for i != j, else 0 (Townsend, Differentiating the singular value decomposition, 2016).
fn svd_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (m, n) = matrix_dims(outs[0].shape());
    matrix_type!(ctx, outs[0].dtype(), |T| {
        let (du, ds, dv) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
        let (u, s, v) = (ins[3].slice::<T>()?, ins[4].slice::<T>()?, ins[5].slice::<T>()?);
        for_each_matrix(outs[0].slice_mut::<T>()?, m * n, |i, out| -> Result<()> {
            let forward = Svd { u: batch_item(u, i, m * m), s: batch_item(s, i, m), v: batch_item(v, i, m * n) };
            let grads = Svd { u: batch_item(du, i, m * m), s: batch_item(ds, i, m), v: batch_item(dv, i, m * n) };
            gradient(&forward, &grads, (m, n), out);
            Ok(())
        })
    })
}

/// The gradient of one matrix, given its decomposition `x` and the gradients `d` of u, s and v.
fn gradient<T: Scalar + Element>(x: &Svd<'_, T>, d: &Svd<'_, T>, (m, n): (usize, usize), out: &mut [T]) {
    let (zero, one) = (T::zero(), T::one());
    with_scratch(3 * m * m + m * n, |scratch: &mut [T]| {
        let (g, rest) = scratch.split_at_mut(m * m);
        let (h, rest) = rest.split_at_mut(m * m);
        let (inner, scaled) = rest.split_at_mut(m * m);
        let (u, v) = (MatRef::row_major(x.u, m, m), MatRef::row_major(x.v, m, n));
        gemm(one, u.t(), MatRef::row_major(d.u, m, m), zero, MatMut::row_major(g, m, m));
        gemm(one, v, MatRef::row_major(d.v, m, n).t(), zero, MatMut::row_major(h, m, m));
        for i in 0..m {
            let s_i = bounded(x.s[i]);
            for j in 0..m {
                let (ij, ji) = (i * m + j, j * m + i);
                let term = match i == j {
                    true => d.s[i],
                    false => {
                        let numerator = (g[ij] - g[ji]) * x.s[j] + x.s[i] * (h[ij] - h[ji]);
                        numerator / bounded_difference(x.s[j], x.s[i], i < j) / bounded(x.s[j] + x.s[i])
                    }
                };
                inner[ij] = term - h[ji] / s_i;
            }
            for (to, from) in scaled[i * n..(i + 1) * n].iter_mut().zip(&d.v[i * n..(i + 1) * n]) {
                *to = *from / s_i;
            }
        }
        gemm(one, MatRef::row_major(inner, m, m), v, one, MatMut::row_major(scaled, m, n));
        gemm(one, u, MatRef::row_major(scaled, m, n), zero, MatMut::row_major(out, m, n));
    });
}

params! {
    /// Parameters of `_npi_pinv`.
    pub struct PinvParam {
        /// Accepted for NumPy (A is symmetric); it does not change the result.
        hermitian: bool = false;
    }
}

params! {
    /// Parameters of `_npi_pinv_scalar_rcond`.
    pub struct PinvScalarParam {
        /// Singular values up to rcond times the largest one count as 0.
        rcond: f64 = 1e-15;
        /// Accepted for NumPy (A is symmetric); it does not change the result.
        hermitian: bool = false;
    }
}

/// Shape rule: (..., m, n) gives (..., n, m), the batch axes broadcast with those of `rcond`.
fn pinv_shape(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    if let [batch @ .., n, m] = io.outs[0].dims() {
        let matrices: Dims = batch.iter().chain([m, n]).copied().collect();
        io.assign_in(0, &Shape::from(matrices))?;
    }
    let a = io.ins[0].clone();
    check_rank(&a, "A")?;
    let [batch @ .., m, n] = a.dims() else { return Ok(()) };
    let mut dims: Dims = batch.into();
    if let Some(rcond) = io.ins.get(1).filter(|rcond| rcond.ndim_is_known()) {
        let is_broadcastable = rcond.dims().len() <= dims.len()
            && rcond.dims().iter().rev().zip(dims.iter().rev()).all(|(r, d)| *r == 1 || r == d || *r < 0 || *d < 0);
        ensure!(
            is_broadcastable,
            "rcond of shape {rcond} must be one number, or one for each matrix of A of shape {a}"
        );
    }
    dims.extend([*n, *m]);
    io.assign_out(0, &Shape::from(dims))
}

fn pinv_type(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    match io.first_known() {
        Some(d) => io.assign_all(d),
        None => Ok(()),
    }
}

/// Writes the pseudoinverses. Singular values up to a cutoff times the largest one, or within its rounding error, count as 0. There is one
/// cutoff per matrix, or one for all.
fn pinv<T: Scalar + Element>(ctx: &OpCtx<'_>, a: &In<'_>, cutoffs: &[T], out: &mut Out<'_>) -> Result<()> {
    let (m, n) = matrix_dims(a.shape());
    let k = m.min(n);
    let out = out.slice_mut::<T>()?;
    let rounding = T::epsilon() * T::from_f64(m.max(n) as f64);
    for_each_svd::<T>(a.slice()?, (m, n), &mut |i, x| {
        let cutoff = x.s.first().map_or(T::zero(), |s| *s * cutoffs[i % cutoffs.len()].max(rounding));
        with_scratch(k * n, |scaled: &mut [T]| {
            for (j, (to, from)) in scaled.chunks_exact_mut(n.max(1)).zip(x.v.chunks_exact(n.max(1))).enumerate() {
                let inverse = if x.s[j] > cutoff { T::one() / x.s[j] } else { T::zero() };
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from * inverse);
            }
            let (v, u) = (MatRef::row_major(scaled, k, n), MatRef::row_major(x.u, m, k));
            let to = MatMut::row_major(&mut out[i * m * n..(i + 1) * m * n], n, m);
            gemm(T::one(), v.t(), u.t(), T::zero(), to);
        });
    })
    .map_err(|e| e.in_operator(ctx.op, ctx.op))
}

const A: ArgDef = arg("A", "The matrices, of shape (..., m, n).");

pub(super) static PINV: Operator<PinvParam> = Operator::new("_npi_pinv")
    .doc(
        "NumPy's linalg.pinv: the Moore-Penrose pseudoinverses of matrices, V^T * diag(1 / s) * U^T for A = U * diag(s) * V, with 0 in \
         place of 1 / s for singular values up to rcond times the largest one. A of shape (..., m, n) gives shape (..., n, m).",
    )
    .inputs(&[A, arg("rcond", "One number, or one for each matrix, of A's type.")])
    .shape(pinv_shape)
    .dtype(pinv_type)
    .forward(|ctx, ins, outs| {
        let batch = ins[0].shape().to_usize();
        let batch = &batch[..batch.len() - 2];
        matrix_type!(ctx, ins[0].dtype(), |T| {
            with_scratch(batch.iter().product(), |cutoffs: &mut [T]| {
                let (rcond, rcond_shape) = (Src::Slice(ins[1].slice::<T>()?), ins[1].shape().to_usize());
                let first = ferromx_kernels::lane_fn!(|x: T, _zero: T| -> T { x });
                broadcast((rcond, &rcond_shape), (Src::Scalar(0.0), &[]), (&mut *cutoffs, batch), first);
                pinv::<T>(ctx, &ins[0], cutoffs, &mut outs[0])
            })
        })
    })
    .grad(Grad::Zero);

pub(super) static PINV_SCALAR_RCOND: Operator<PinvScalarParam> = Operator::new("_npi_pinv_scalar_rcond")
    .doc("The pseudoinverses of matrices, as `_npi_pinv` with one number rcond. A of shape (..., m, n) gives shape (..., n, m).")
    .inputs(&[A])
    .shape(pinv_shape)
    .dtype(pinv_type)
    .forward(|ctx, ins, outs| {
        let rcond = ctx.params::<PinvScalarParam>().rcond;
        matrix_type!(ctx, ins[0].dtype(), |T| pinv::<T>(ctx, &ins[0], &[T::from_f64(rcond)], &mut outs[0]))
    })
    .grad(Grad::Zero);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close};

    const A: [f64; 6] = [1.0, 2.0, -1.0, 0.5, 3.0, 4.0];

    #[test]
    fn the_product_of_the_factors_is_the_matrix() {
        let outs = Case::new(&SVD, &[]).run(&[array(&A, &[2, 3])]).unwrap();
        let [u, s, v] = [0, 1, 2].map(|k: usize| outs[k].to_vec::<f64>().unwrap());
        let product: Vec<_> =
            (0..6).map(|i| (0..2).map(|k| u[i / 3 * 2 + k] * s[k] * v[k * 3 + i % 3]).sum::<f64>()).collect();
        close(&product, &A, 1e-12);
        assert!(s[0] > s[1]);
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        Case::new(&SVD, &[]).check_gradient(&[array(&A, &[2, 3])]);
        Case::new(&SVD, &[]).check_gradient(&[array(&A[..4], &[1, 2, 2])]);
    }

    #[test]
    fn small_singular_values_count_as_zero() {
        let a = array(&[2.0, 0.0, 0.0, 1e-3], &[2, 2]);
        let y = Case::new(&PINV_SCALAR_RCOND, &[]).run1(std::slice::from_ref(&a)).unwrap();
        close(&y.to_vec::<f64>().unwrap(), &[0.5, 0.0, 0.0, 1e3], 1e-12);
        let batch = array(&[2.0, 0.0, 0.0, 1e-3, 2.0, 0.0, 0.0, 1e-3], &[2, 2, 2]);
        let y = Case::new(&PINV, &[]).run1(&[batch, array(&[1e-2, 1e-4], &[2])]).unwrap();
        close(&y.to_vec::<f64>().unwrap(), &[0.5, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 1e3], 1e-12);
        let e = Case::new(&PINV, &[]).shapes(&[[2, 2, 3].into(), [3].into()]).unwrap_err().to_string();
        assert!(e.contains("rcond of shape [3]"), "{e}");
    }

    #[test]
    fn tall_matrices_are_refused() {
        let e = Case::new(&SVD, &[]).shapes(&[[3, 2].into()]).unwrap_err().to_string();
        assert!(e.contains("more rows than columns"), "{e}");
    }
}
