//! NumPy's eigenvalues and eigenvectors.

use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params;
use ferromx_core::params::{Params, Untyped};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_kernels::linalg::{EigenError, for_each_matrix, general_eigen, symmetric_eigen, transpose};
use ferromx_kernels::par::with_scratch;

use super::matrices::{
    self, LinalgElement, batch_item, check_square, linalg_dtype, matrix_error, matrix_type, with_converted,
};
use crate::axes::matrix_dims;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&EIG, &EIGVALS, &EIGH, &EIGVALSH];

params! {
    /// Parameters of `_npi_eigh` and `_npi_eigvalsh`.
    pub struct TriangleParam {
        /// The triangle to read: U for the upper one, any other letter for the lower one.
        uplo as "UPLO": Untyped<char> = (Untyped('L'));
    }
}

/// Shape rule: A has shape (..., n, n), the eigenvalues (..., n), and the eigenvectors, if they are an output, (..., n, n).
fn eigen_shape(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    if io.outs.len() > 1 {
        io.tie(0, 1)?;
    }
    let values = &io.outs[0];
    if let Some(n) = values.dims().last() {
        let matrices: Dims = values.dims().iter().copied().chain([*n]).collect();
        io.assign_in(0, &Shape::from(matrices))?;
    }
    let a = io.ins[0].clone();
    check_square(&a, "A")?;
    let Some(rank) = a.ndim() else { return Ok(()) };
    io.assign_out(0, &a.dims()[..rank - 1].into())
}

const NO_CONVERGENCE: &str = "has eigenvalues that do not converge: does it contain NaN or infinity?";

/// Solves one eigenvalue problem. Arguments: the matrix, which is overwritten; n; the eigenvalues; the eigenvectors as columns, or an empty
/// slice.
type EigenSolver<T> = fn(&mut [T], usize, &mut [T], &mut [T]) -> std::result::Result<(), &'static str>;

/// Runs `solve` on each matrix, with an empty slice for the eigenvectors if they are not wanted.
fn solve_batch<T: LinalgElement>(
    ctx: &OpCtx<'_>,
    a: &In<'_>,
    outs: &mut [Out<'_>],
    solve: EigenSolver<T>,
) -> Result<()> {
    let (n, _) = matrix_dims(a.shape());
    let (values, vectors) = outs.split_at_mut(1);
    let values = values[0].slice_mut::<T>()?;
    let has_vectors = vectors.first().is_some_and(Out::wanted);
    let vectors: &mut [T] = if has_vectors { vectors[0].slice_mut()? } else { &mut [] };
    let result_len = n + if has_vectors { n * n } else { 0 };
    with_converted::<T, ()>(a, |a| {
        with_scratch(a.len() / n.max(1) + vectors.len(), |results: &mut [T]| {
            for_each_matrix(results, result_len, |i, result| {
                let (values, vectors) = result.split_at_mut(n);
                with_scratch(n * n, |matrix: &mut [T]| {
                    matrix.copy_from_slice(batch_item(a, i, n * n));
                    solve(matrix, n, values, vectors).map_err(|message| matrix_error(message, i))
                })
            })
            .map_err(|e| e.in_operator(ctx.op, ctx.op))?;
            for (i, result) in results.chunks_exact(result_len.max(1)).enumerate() {
                values[i * n..(i + 1) * n].copy_from_slice(&result[..n]);
                if has_vectors {
                    vectors[i * n * n..(i + 1) * n * n].copy_from_slice(&result[n..]);
                }
            }
            Ok(())
        })
    })
}

fn general<T: LinalgElement>(
    a: &mut [T],
    n: usize,
    values: &mut [T],
    vectors: &mut [T],
) -> std::result::Result<(), &'static str> {
    const COMPLEX: &str = "has complex eigenvalues, for which there is no element type";
    with_scratch(n, |im: &mut [T]| {
        general_eigen(a, n, values, im, vectors).map_err(|e| match e {
            EigenError::Complex(_) => COMPLEX,
            EigenError::NotConverged(_) => NO_CONVERGENCE,
        })?;
        if im.iter().any(|x| *x != T::zero()) { Err(COMPLEX) } else { Ok(()) }
    })
}

/// The solver of a symmetric matrix given by its upper triangle.
fn upper_symmetric<T: LinalgElement>(
    a: &mut [T],
    n: usize,
    values: &mut [T],
    vectors: &mut [T],
) -> std::result::Result<(), &'static str> {
    for i in 0..n {
        (0..i).for_each(|j| a[i * n + j] = a[j * n + i]);
    }
    lower_symmetric(a, n, values, vectors)
}

/// The solver of a symmetric matrix given by its lower triangle.
fn lower_symmetric<T: LinalgElement>(
    a: &mut [T],
    n: usize,
    values: &mut [T],
    vectors: &mut [T],
) -> std::result::Result<(), &'static str> {
    symmetric_eigen(a, n, values).map_err(|_| NO_CONVERGENCE)?;
    if !vectors.is_empty() {
        transpose(a, n, n, vectors);
    }
    Ok(())
}

fn general_forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    matrix_type!(ctx, outs[0].dtype(), |T| solve_batch::<T>(ctx, &ins[0], outs, general))
}

fn symmetric_forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let is_upper = ctx.params::<TriangleParam>().uplo.0 == 'U';
    matrix_type!(ctx, outs[0].dtype(), |T| {
        let solve: EigenSolver<T> = if is_upper { upper_symmetric } else { lower_symmetric };
        solve_batch::<T>(ctx, &ins[0], outs, solve)
    })
}

pub(super) static EIG: Operator = Operator::new("_npi_eig")
    .doc(
        "NumPy's linalg.eig: eigenvalues and eigenvectors of square matrices, A * v = w * v. A of shape (..., n, n) gives the values of \
         shape (..., n) and the vectors, as columns of norm 1, of shape (..., n, n). A matrix with complex eigenvalues is an error. \
         Integers are converted to float64.",
    )
    .inputs(&[arg("A", "The matrices.")])
    .outputs(|_| 2)
    .shape(eigen_shape)
    .dtype(linalg_dtype)
    .forward(general_forward)
    .grad(Grad::Zero);

pub(super) static EIGVALS: Operator = Operator::new("_npi_eigvals")
    .doc(
        "NumPy's linalg.eigvals: the eigenvalues of square matrices. A of shape (..., n, n) gives shape (..., n). A matrix with complex \
         eigenvalues is an error. Integers are converted to float64.",
    )
    .inputs(&[arg("A", "The matrices.")])
    .shape(eigen_shape)
    .dtype(linalg_dtype)
    .forward(general_forward)
    .grad(Grad::Zero);

pub(super) static EIGH: Operator<TriangleParam> = Operator::new("_npi_eigh")
    .doc(
        "NumPy's linalg.eigh: eigenvalues and eigenvectors of symmetric matrices, of which one triangle is read. A of shape (..., n, n) \
         gives the values of shape (..., n), in increasing order, and the vectors, as columns of norm 1 whose element of largest \
         magnitude is positive, of shape (..., n, n). Integers are converted to float64.",
    )
    .inputs(&[arg("A", "The matrices.")])
    .outputs(|_| 2)
    .shape(eigen_shape)
    .dtype(linalg_dtype)
    .forward(symmetric_forward)
    .grad(Grad::Zero);

pub(super) static EIGVALSH: Operator<TriangleParam> = Operator::new("_npi_eigvalsh")
    .doc(
        "NumPy's linalg.eigvalsh: the eigenvalues of symmetric matrices, of which one triangle is read, in increasing order. A of shape \
         (..., n, n) gives shape (..., n). Integers are converted to float64.",
    )
    .inputs(&[arg("A", "The matrices.")])
    .shape(eigen_shape)
    .dtype(linalg_dtype)
    .forward(symmetric_forward)
    .grad(Grad::Zero);

#[cfg(test)]
mod tests {
    use ferromx_core::dtype::DType;

    use super::*;
    use crate::testing::{Case, array, close, vector};

    #[test]
    fn eigenvectors_are_scaled_by_their_eigenvalues() {
        let a = array(&[2.0, 1.0, 0.0, 0.5, 3.0, 1.0, 1.0, 0.0, 5.0], &[3, 3]);
        for (op, attrs) in [(&*EIG, &[][..]), (&*EIGH, &[("UPLO", "U")]), (&*EIGH, &[])] {
            let lower = !attrs.is_empty();
            let outs = Case::new(op, attrs).run(std::slice::from_ref(&a)).unwrap();
            let (w, v) = (outs[0].to_vec::<f64>().unwrap(), outs[1].to_vec::<f64>().unwrap());
            let mut m = a.to_vec::<f64>().unwrap();
            if op.name == "_npi_eigh" {
                for (i, j) in [(0, 1), (0, 2), (1, 2)] {
                    let (from, to) = if lower { (i * 3 + j, j * 3 + i) } else { (j * 3 + i, i * 3 + j) };
                    m[to] = m[from];
                }
                assert!(w.windows(2).all(|w| w[0] <= w[1]));
            }
            for k in 0..3 {
                let product: Vec<_> =
                    (0..3).map(|i| (0..3).map(|j| m[i * 3 + j] * v[j * 3 + k]).sum::<f64>()).collect();
                close(&product, &(0..3).map(|i| w[k] * v[i * 3 + k]).collect::<Vec<_>>(), 1e-10);
            }
        }
    }

    #[test]
    fn complex_eigenvalues_and_unsupported_types_are_errors() {
        let rotation = array(&[0.0, 1.0, -1.0, 0.0], &[2, 2]);
        let e = Case::new(&EIGVALS, &[]).run(&[rotation]).unwrap_err().to_string();
        assert!(e.contains("matrix 0 of A has complex eigenvalues"), "{e}");
        assert!(Case::parse(&EIGH, &[("UPLO", "lower")]).is_err());
        let e = Case::new(&EIG, &[]).dtypes(&[Some(DType::F16)]).unwrap_err().to_string();
        assert!(e.contains("float32, float64 or of an integer type"), "{e}");
        assert_eq!(Case::new(&EIG, &[]).dtypes(&[Some(DType::I32)]).unwrap(), [Some(DType::F64); 2]);
        let one =
            Case::new(&EIGVALSH, &[]).run1(&[vector(DType::I8, &[7.0]).reshape(&[1, 1].into()).unwrap()]).unwrap();
        assert_eq!(one.to_vec::<f64>().unwrap(), [7.0]);
    }
}
