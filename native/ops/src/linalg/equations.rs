//! NumPy's linear equations: `solve`, `tensorsolve`, `tensorinv`.

use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, Deps, OpCtx, Operator, arg};
use ferromx_core::params;
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_kernels::gemm::{MatMut, MatRef, gemm};
use ferromx_kernels::linalg::{Scalar, Transpose, for_each_matrix, invert, lu, solve_lu, transpose};
use ferromx_kernels::map::cast;
use ferromx_kernels::movement;
use ferromx_kernels::par::with_scratch;

use super::matrices::{
    self, LinalgElement, batch_item, check_square, copy_converted, linalg_dtype, matrix_error, matrix_type,
    with_converted,
};
use crate::axes::inverse_permutation;
use crate::axes::matrix_dims;
use crate::elemwise::family::elements_mut;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&SOLVE, &TENSORSOLVE, &TENSORINV];

/// Solves op(A) X = B in place for an (n, n) matrix A, where op may transpose. On entry `x` holds B, of shape (n, m).
fn solve<T: Scalar>(
    a: &[T],
    n: usize,
    trans: Transpose,
    x: &mut [T],
    m: usize,
) -> std::result::Result<(), &'static str> {
    with_scratch(n * n, |factors: &mut [T]| {
        match trans {
            Transpose::Yes => transpose(a, n, n, factors),
            Transpose::No => factors.copy_from_slice(a),
        }
        let mut pivots = vec![0; n];
        lu(factors, n, &mut pivots);
        if (0..n).any(|k| factors[k * n + k] == T::zero()) {
            return Err("is singular: the equations have no single solution");
        }
        solve_lu(factors, n, &pivots, x, m);
        Ok(())
    })
}

/// [`solve`] for each matrix of a batch.
fn solve_batch<T: Scalar>(a: &[T], n: usize, trans: Transpose, x: &mut [T], m: usize) -> Result<()> {
    for_each_matrix(x, n * m, |i, x| solve(batch_item(a, i, n * n), n, trans, x, m).map_err(|e| matrix_error(e, i)))
}

/// The gradients of the solution X of A X = B: dB = A^-T dX and dA = -dB X^T. On entry `grad_b` holds dX.
fn solve_gradients<T: LinalgElement>(
    (a, x): (&[T], &[T]),
    (n, m): (usize, usize),
    grad_b: &mut [T],
    grad_a: Option<&mut [T]>,
) -> Result<()> {
    solve_batch(a, n, Transpose::Yes, grad_b, m)?;
    let Some(grad_a) = grad_a else { return Ok(()) };
    for_each_matrix(grad_a, n * n, |i, out| -> Result<()> {
        let view = |x| MatRef::row_major(batch_item::<T>(x, i, n * m), n, m);
        gemm(-T::one(), view(grad_b), view(x).t(), T::zero(), MatMut::row_major(out, n, n));
        Ok(())
    })
}

/// Writes a gradient converted to the dtype of its operand, which is 0 for integers.
fn write_gradient<T: LinalgElement>(grad: &[T], out: &mut Out<'_>) -> Result<()> {
    if !out.wanted() {
        return Ok(());
    }
    if !out.dtype().is_float() {
        return crate::rules::no_gradient(out);
    }
    cast(T::elements(grad), elements_mut(out)?);
    Ok(())
}

pub(super) static SOLVE: Operator = Operator::new("_npi_solve")
    .doc(
        "NumPy's linalg.solve: the solutions X of A * X = B for square matrices A of shape (..., n, n). B has shape (..., n, m), or \
         (..., n) for one right-hand side each, with the same batch axes; X has the shape of B. A singular matrix is an error. Two \
         operands of type float32 give float32, others float64.",
    )
    .inputs(&[arg("A", "The matrices."), arg("B", "The right-hand sides.")])
    .shape(|_, io| {
        let (a, x) = (io.ins[0].clone(), io.outs[0].clone());
        check_square(&a, "A")?;
        io.assign_in(1, &x)?;
        let b = io.ins[1].clone();
        let (Some(rank), Some(num_b_axes)) = (a.ndim(), b.ndim()) else { return Ok(()) };
        let is_compatible = a.dims()[..rank - 1].iter().zip(b.dims()).all(|(a, b)| a == b || *a < 0 || *b < 0);
        ensure!(
            is_compatible && (num_b_axes == rank || num_b_axes + 1 == rank),
            "B must have shape (..., n, m) or (..., n) for A of shape (..., n, n), but A has shape {a} and B {b}"
        );
        io.assign_out(0, &b)
    })
    .dtype(linalg_dtype)
    .forward(|ctx, ins, outs| {
        let (n, _) = matrix_dims(ins[0].shape());
        let m = num_right_hand_sides(&ins[0], &ins[1]);
        matrix_type!(ctx, outs[0].dtype(), |T| {
            let out = outs[0].slice_mut::<T>()?;
            copy_converted(&ins[1], out)?;
            with_converted(&ins[0], |a| solve_batch::<T>(a, n, Transpose::No, out, m))
        })
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let ((n, _), m) = (matrix_dims(ins[1].shape()), num_right_hand_sides(&ins[1], &ins[0]));
            matrix_type!(ctx, ins[0].dtype(), |T| {
                let (grad, x) = (ins[0].slice::<T>()?, ins[2].slice::<T>()?);
                let grad_a_len = if outs[0].wanted() { ins[1].len() } else { 0 };
                with_scratch(grad.len() + grad_a_len, |scratch: &mut [T]| {
                    let (grad_b, grad_a) = scratch.split_at_mut(grad.len());
                    grad_b.copy_from_slice(grad);
                    with_converted(&ins[1], |a| {
                        solve_gradients((a, x), (n, m), grad_b, (grad_a_len > 0).then_some(&mut *grad_a))
                    })?;
                    if grad_a_len > 0 {
                        write_gradient(grad_a, &mut outs[0])?;
                    }
                    write_gradient(grad_b, &mut outs[1])
                })
            })
        })
        .inputs(Deps::Some(&[0]))
        .outputs(Deps::All),
        None,
    ));

/// The number of right-hand sides in `b` for each matrix of `a`.
fn num_right_hand_sides(a: &In<'_>, b: &In<'_>) -> usize {
    if a.shape().ndim() == b.shape().ndim() { matrix_dims(b.shape()).1 } else { 1 }
}

params! {
    /// Parameters of `_npi_tensorsolve`.
    pub struct TensorSolveParam {
        /// Axes of a that are first moved to the end, in this order; negative ones count from the last.
        a_axes: Shape = (Shape::new(&[]));
    }
}

/// The permutation of the axes of a that moves `a_axes` to the end.
fn axis_permutation(p: &Params, rank: usize) -> Result<Vec<usize>> {
    let last_axes = p.get::<TensorSolveParam>().a_axes.dims().iter();
    let last_axes = last_axes.map(|a| Shape::axis(*a, rank)).collect::<Result<Vec<_>>>()?;
    let mut perm: Vec<usize> = (0..rank).filter(|i| !last_axes.contains(i)).collect();
    perm.extend(&last_axes);
    ensure!(perm.len() == rank, "an axis is given twice in a_axes={}", p.get::<TensorSolveParam>().a_axes);
    Ok(perm)
}

fn tensorsolve_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let (a, b) = (io.ins[0].clone(), io.ins[1].clone());
    let (Some(rank), Some(num_b_axes)) = (a.ndim(), b.ndim()) else { return Ok(()) };
    let perm = axis_permutation(p, rank)?;
    let dims: Dims = perm.iter().map(|i| a.dim(*i)).collect();
    // NumPy's `dims[num_b_axes - rank:]`: the last axes, or all axes if both ranks are equal, or those from an index if b has more axes.
    let first = if num_b_axes < rank { num_b_axes } else { (num_b_axes - rank).min(rank) };
    let x = Shape::new(&dims[first..]);
    if a.is_known() && b.is_known() {
        let n = x.num_elements();
        ensure!(
            n * n == a.num_elements() && b.num_elements() == n,
            "a of shape {a} must be square for b of shape {b}: a solution of shape {x} has {n} elements"
        );
    }
    io.assign_out(0, &x)
}

/// Calls `f` with `a` as a square matrix, after the permutation of [`axis_permutation`].
fn with_matrix<T: LinalgElement, R>(ctx: &OpCtx<'_>, a: &In<'_>, f: impl FnOnce(&[T]) -> Result<R>) -> Result<R> {
    let dims = a.shape().to_usize();
    let perm = axis_permutation(ctx.params, dims.len())?;
    with_converted(a, |a| {
        with_scratch(a.len(), |permuted: &mut [T]| {
            movement::transpose(a, &dims, &perm, permuted);
            f(permuted)
        })
    })
}

pub(super) static TENSORSOLVE: Operator<TensorSolveParam> = Operator::new("_npi_tensorsolve")
    .doc(
        "NumPy's linalg.tensorsolve: the x with tensordot(a, x, axes = rank of x) = b. The axes of a in a_axes are first moved to the \
         end; the first axes of a, as many as b has, then belong to b, and the others give the shape of x. If b has as many axes as a, x \
         has the shape of a; if b has k more, x has the axes of a from k on. b and x must have the same number of elements. \
         Two operands of type float32 give float32, others float64.",
    )
    .inputs(&[arg("a", "The coefficients."), arg("b", "The right-hand side.")])
    .shape(tensorsolve_shape)
    .dtype(linalg_dtype)
    .forward(|ctx, ins, outs| {
        let n = ins[1].len();
        matrix_type!(ctx, outs[0].dtype(), |T| {
            let out = outs[0].slice_mut::<T>()?;
            copy_converted(&ins[1], out)?;
            with_matrix(ctx, &ins[0], |a| solve_batch::<T>(a, n, Transpose::No, out, 1))
        })
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let n = ins[0].len();
            let dims = ins[1].shape().to_usize();
            let perm = axis_permutation(ctx.params, dims.len())?;
            matrix_type!(ctx, ins[0].dtype(), |T| {
                let (grad, x) = (ins[0].slice::<T>()?, ins[2].slice::<T>()?);
                with_scratch(n + 2 * n * n, |scratch: &mut [T]| {
                    let (grad_b, rest) = scratch.split_at_mut(n);
                    let (permuted_grad_a, grad_a) = rest.split_at_mut(n * n);
                    grad_b.copy_from_slice(grad);
                    let wanted = outs[0].wanted();
                    with_matrix(ctx, &ins[1], |a| {
                        solve_gradients((a, x), (n, 1), grad_b, wanted.then_some(&mut *permuted_grad_a))
                    })?;
                    if wanted {
                        let permuted_dims: Vec<usize> = perm.iter().map(|i| dims[*i]).collect();
                        movement::transpose(permuted_grad_a, &permuted_dims, &inverse_permutation(&perm), grad_a);
                        write_gradient(grad_a, &mut outs[0])?;
                    }
                    write_gradient(grad_b, &mut outs[1])
                })
            })
        })
        .inputs(Deps::Some(&[0]))
        .outputs(Deps::All),
        None,
    ));

params! {
    /// Parameters of `_npi_tensorinv`.
    pub struct TensorInvParam {
        /// The number of leading axes of a that become the trailing axes of the inverse.
        ind: i32 = 2;
    }
}

pub(super) static TENSORINV: Operator<TensorInvParam> = Operator::new("_npi_tensorinv")
    .doc(
        "NumPy's linalg.tensorinv: the inverse of the map tensordot(a, x, axes = rank of x), whose results have the shape of the first \
         ind axes of a. Those axes and the others must have the same number of elements; in the output the others come first.",
    )
    .inputs(&[arg("a", "The coefficients.")])
    .shape(|p, io| {
        let (a, ind) = (io.ins[0].clone(), p.get::<TensorInvParam>().ind);
        ensure!(ind > 0, "ind={ind} must be positive");
        let Some(rank) = a.ndim() else { return Ok(()) };
        let (front, back) = a.dims().split_at(rank.min(ind as usize));
        if a.is_known() {
            let (rows, columns) = (front.iter().product::<i64>(), back.iter().product::<i64>());
            ensure!(
                rows == columns,
                "a of shape {a} must be square: its first {ind} axes have {rows} elements, the others {columns}"
            );
        }
        io.assign_out(0, &Shape::new(&[back, front].concat()))
    })
    .forward(|ctx, ins, outs| {
        let n = ins[0].len().isqrt();
        matrix_type!(ctx, ins[0].dtype(), |T| {
            with_scratch(n * n, |factors: &mut [T]| {
                factors.copy_from_slice(ins[0].slice()?);
                invert(factors, n, outs[0].slice_mut::<T>()?)
                    .map_err(|k| matrix_error(&format!("has no inverse: column {k} depends linearly on the columns before it"), 0))
            })
        })
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let n = ins[0].len().isqrt();
            matrix_type!(ctx, ins[0].dtype(), |T| {
                let grad = MatRef::row_major(ins[0].slice::<T>()?, n, n);
                let inverse = MatRef::row_major(ins[1].slice::<T>()?, n, n);
                with_scratch(n * n, |product: &mut [T]| {
                    gemm(-1.0, inverse.t(), grad, 0.0, MatMut::row_major(product, n, n));
                    gemm(1.0, MatRef::row_major(product, n, n), inverse.t(), 0.0, MatMut::row_major(outs[0].slice_mut::<T>()?, n, n));
                    Ok(())
                })
            })
        })
        .outputs(Deps::All),
        None,
    ));

#[cfg(test)]
mod tests {
    use ferromx_core::dtype::DType;
    use ferromx_core::ndarray::NDArray;

    use super::*;
    use crate::testing::{Case, array, close, vector};

    /// (n, n) matrices with a dominant diagonal, which makes them well-conditioned.
    fn numbers(dims: &[i64], n: usize) -> NDArray {
        let len = dims.iter().product::<i64>() as usize;
        let element =
            |i: usize| ((i * 7 + 3) % 11) as f64 / 7.0 + if (i % (n * n)).is_multiple_of(n + 1) { 4.0 } else { 0.0 };
        array(&(0..len).map(element).collect::<Vec<_>>(), dims)
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        for b in [&[2, 3, 2][..], &[2, 3]] {
            Case::new(&SOLVE, &[]).check_gradient(&[numbers(&[2, 3, 3], 3), numbers(b, 9)]);
        }
        Case::new(&TENSORSOLVE, &[]).check_gradient(&[numbers(&[2, 3, 6], 6), numbers(&[2, 3], 9)]);
        Case::new(&TENSORSOLVE, &[("a_axes", "(1,)")]).check_gradient(&[numbers(&[2, 6, 3], 6), numbers(&[2, 3], 9)]);
        Case::new(&TENSORINV, &[]).check_gradient(&[numbers(&[2, 3, 6], 6)]);
    }

    #[test]
    fn products_with_the_solution_give_the_right_hand_side() {
        let (a, b) = (numbers(&[2, 2], 2), vector(DType::F64, &[1.0, 2.0]));
        let x = Case::new(&SOLVE, &[]).run1(&[a.clone(), b]).unwrap().to_vec::<f64>().unwrap();
        let a = a.to_vec::<f64>().unwrap();
        close(&[a[0] * x[0] + a[1] * x[1], a[2] * x[0] + a[3] * x[1]], &[1.0, 2.0], 1e-12);
    }

    #[test]
    fn shapes_of_solutions_follow_the_number_of_axes() {
        let shape =
            |a: &[i64], b: &[i64]| Case::new(&TENSORSOLVE, &[]).shapes(&[a.into(), b.into()]).unwrap().remove(0);
        assert_eq!(shape(&[6, 2, 3], &[6]), [2, 3].into());
        assert_eq!(shape(&[1, 1, 1], &[1, 1, 1]), [1, 1, 1].into());
        assert_eq!(shape(&[1, 1], &[1, 1, 1, 1, 1]), Shape::new(&[]));
        assert_eq!(shape(&[1, 12, 4, 1, 3], &[1, 2, 1, 2, 1, 3, 1]), [4, 1, 3].into());
        let case = Case::new(&TENSORSOLVE, &[]);
        case.check_gradient(&[numbers(&[1, 6, 2, 1, 3], 6), numbers(&[1, 2, 1, 1, 3, 1, 1], 9)]);
    }

    #[test]
    fn mismatched_shapes_and_singular_matrices_are_errors() {
        let error = |op, shapes: &[Shape]| Case::new(op, &[]).shapes(shapes).unwrap_err().to_string();
        assert!(error(&SOLVE, &[[2, 3, 3].into(), [3, 3].into()]).contains("but A has shape [2,3,3] and B [3,3]"));
        assert!(error(&TENSORINV, &[[3, 3].into()]).contains("must be square"));
        assert!(error(&TENSORSOLVE, &[[2, 3, 5].into(), [2, 3].into()]).contains("must be square"));
        let singular = Case::new(&SOLVE, &[]).run(&[array(&[0.0; 4], &[2, 2]), vector(DType::F64, &[1.0, 2.0])]);
        assert!(singular.unwrap_err().to_string().contains("matrix 0 of A is singular"));
        let types = Case::new(&SOLVE, &[]).dtypes(&[Some(DType::F32), Some(DType::I32)]).unwrap();
        assert_eq!(types, [Some(DType::F64)]);
    }
}
