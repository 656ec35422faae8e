//! NumPy's `linalg.norm` of vectors and matrices.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::{Params, ShapeOrNone};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::broadcast::broadcast;
use ferromx_kernels::gemm::{MatMut, MatRef, gemm};
use ferromx_kernels::map::{Lane, Load, Src, Store, cast};
use ferromx_kernels::math::{maximum, minimum};
use ferromx_kernels::movement;
use ferromx_kernels::par::with_scratch;
use ferromx_kernels::reduce::{L1Norm, L2Norm, Max, Min, NumericLane, Sum, reduce};

use super::matrices::{LinalgElement, with_converted};
use super::svd::for_each_svd;
use crate::axes::{Axes, inverse_permutation, keepdims_shape};
use crate::elemwise::family::elements_mut;

params! {
    /// Parameters of `_npi_norm`.
    pub struct NormParam {
        /// The order of the norm.
        ord: f64 = 2.0;
        /// The axis of vectors, or the axes of rows and columns of matrices; negative ones count from the last. None means the last two.
        axis: ShapeOrNone = (ShapeOrNone(None));
        /// Whether the reduced axes are kept with length 1.
        keepdims: bool = false;
        /// The kind of norm: -2 Euclidean over all elements, 1 Frobenius, 2 nuclear; any other
        /// number selects the norm of order `ord`.
        flag: i32 = (-1);
    }
}

/// A norm and its axes.
struct Norm {
    axes: Axes,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// (sum of |x|^p)^(1/p) over the axes, which need not be adjacent.
    Vector(f64),
    /// The largest or smallest column sum of absolute values.
    ColumnSum { largest: bool },
    /// The largest or smallest row sum of absolute values.
    RowSum { largest: bool },
    /// The largest or smallest singular value.
    SingularValue { largest: bool },
    /// The sum of the singular values.
    Nuclear,
}

impl Norm {
    /// Resolves the parameters for an array of `rank` axes.
    fn new(p: &NormParam, rank: usize) -> Result<Norm> {
        let axes = match p.axis.0.as_ref().map(Shape::dims) {
            Some(axes) => axes.iter().map(|a| Shape::axis(*a, rank)).collect::<Result<Axes>>()?,
            None if p.flag == -2 => (0..rank).collect(),
            None => (rank.saturating_sub(2)..rank).collect(),
        };
        ensure!(
            (1..axes.len()).all(|i| !axes[..i].contains(&axes[i])),
            "an axis is given twice in axis={}",
            p.axis_text()
        );
        let kind = match (axes.len(), p.flag) {
            (_, -2) | (2, 1) => Kind::Vector(2.0),
            (1, flag) if flag != 2 => Kind::Vector(p.ord),
            (2, flag) => Norm::matrix_kind(p.ord, flag == 2)?,
            (n, flag) => {
                return Err(Error::Value(format!(
                    "flag={flag} stands for a norm of {}, but axis={} names {n} axes",
                    if flag == 2 { "matrices" } else { "vectors or matrices" },
                    p.axis_text()
                )));
            }
        };
        Ok(Norm { axes, kind })
    }

    /// The matrix norm of order `ord`; with `nuclear`, order 2 is the nuclear norm.
    fn matrix_kind(ord: f64, nuclear: bool) -> Result<Kind> {
        let largest = ord > 0.0;
        match ord.abs() {
            2.0 if nuclear => Ok(Kind::Nuclear),
            2.0 => Ok(Kind::SingularValue { largest }),
            1.0 => Ok(Kind::ColumnSum { largest }),
            f64::INFINITY => Ok(Kind::RowSum { largest }),
            _ => {
                Err(Error::Value(format!("ord={ord} is not a matrix norm: use 1, 2 or infinity, positive or negative")))
            }
        }
    }
}

impl NormParam {
    fn axis_text(&self) -> String {
        self.axis.0.as_ref().map_or("None".into(), Shape::to_string)
    }
}

fn norm_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<NormParam>();
    let x = io.ins[0].clone();
    let Some(rank) = x.ndim() else { return Ok(()) };
    let norm = Norm::new(p, rank)?;
    let length = |(i, d): (usize, &i64)| if norm.axes.contains(&i) { p.keepdims.then_some(1) } else { Some(*d) };
    io.assign_out(0, &Shape::from(x.dims().iter().enumerate().filter_map(length).collect::<Dims>()))
}

/// Evaluates `$body` with `$T` bound to the type in which norms of a dtype are computed.
macro_rules! compute_type {
    ($ctx:expr, $dtype:expr, |$T:ident| $body:expr) => {
        match $dtype {
            DType::F32 | DType::F16 | DType::BF16 => {
                type $T = f32;
                $body
            }
            DType::Bool => Err($ctx.unsupported(DType::Bool, DType::FLOATS)),
            _ => {
                type $T = f64;
                $body
            }
        }
    };
}

/// Writes results converted to the dtype of the output.
fn write_results<T: LinalgElement>(results: &[T], out: &mut Out<'_>) -> Result<()> {
    cast(T::elements(results), elements_mut(out)?);
    Ok(())
}

pub(super) static NORM: Operator<NormParam> = Operator::new("_npi_norm")
    .doc(
        "NumPy's linalg.norm. Along one axis: (sum of |x|^ord)^(1/ord), the number of nonzero elements for ord=0, the largest and \
         smallest absolute value for positive and negative infinity. Along two axes (rows and columns): the largest (ord=2) or smallest \
         (-2) singular value, the largest (1) or smallest (-1) column sum of absolute values, the largest or smallest row sum (positive \
         and negative infinity); flag selects the Frobenius and the nuclear norm. The result has the type of the input.",
    )
    .inputs(&[arg("data", "The array.")])
    .unlisted_params()
    .output_names_by(|_| vec!["output0".into()])
    .shape(norm_shape)
    .forward(|ctx, ins, outs| {
        let shape = ins[0].shape().to_usize();
        let norm = Norm::new(ctx.params(), shape.len())?;
        compute_type!(ctx, ins[0].dtype(), |T| {
            with_converted::<T, ()>(&ins[0], |x| {
                with_scratch(outs[0].len(), |norms: &mut [T]| {
                    match norm.kind {
                        Kind::Vector(ord) => vector_norms(x, &shape, &norm.axes, ord, norms),
                        kind => with_matrices(x, &shape, &norm.axes, |x, size| matrix_norms(ctx, x, size, kind, norms))?,
                    }
                    write_results(norms, &mut outs[0])
                })
            })
        })
    })
    .grad(Grad::Kernel(Backward::new(backward).inputs(Deps::All).outputs(Deps::All), None));

/// Vector norms along axes. Norms that are not finite, because powers overflow or underflow, are computed again from the elements divided
/// by the largest finite one of the vector.
fn vector_norms<T>(x: &[T], shape: &[usize], axes: &[usize], ord: f64, norms: &mut [T])
where
    T: LinalgElement + NumericLane + Lane + Load<T> + Store<T>,
{
    unscaled_norms(x, shape, axes, ord, norms);
    if norms.iter().all(|n| n.is_finite()) || ord == 0.0 || x.is_empty() {
        return;
    }
    let reduced_shape: Vec<usize> =
        shape.iter().enumerate().map(|(i, n)| if axes.contains(&i) { 1 } else { *n }).collect();
    with_scratch(x.len() + 2 * norms.len(), |scratch: &mut [T]| {
        let (scaled, rest) = scratch.split_at_mut(x.len());
        let (scales, rescaled) = rest.split_at_mut(norms.len());
        scaled.iter_mut().zip(x).for_each(|(to, x)| *to = if x.is_finite() { x.abs() } else { T::zero() });
        reduce::<Max, T, T, T>(scaled, shape, axes, scales);
        scales.iter_mut().filter(|scale| **scale == T::zero()).for_each(|scale| *scale = T::one());
        broadcast(
            (Src::Slice(x), shape),
            (Src::Slice(&*scales), &reduced_shape),
            (&mut *scaled, shape),
            |x: T, s: T| x / s,
        );
        unscaled_norms(scaled, shape, axes, ord, rescaled);
        let not_finite = norms.iter_mut().zip(&*rescaled).zip(&*scales).filter(|((norm, _), _)| !norm.is_finite());
        not_finite.for_each(|((norm, rescaled), scale)| *norm = *rescaled * *scale);
    });
}

/// Vector norms along axes, without protection against overflow.
fn unscaled_norms<T: LinalgElement + NumericLane>(x: &[T], shape: &[usize], axes: &[usize], ord: f64, norms: &mut [T]) {
    match ord {
        1.0 => return reduce::<L1Norm, T, T, T>(x, shape, axes, norms),
        2.0 => return reduce::<L2Norm, T, T, T>(x, shape, axes, norms),
        _ => {}
    }
    with_scratch(x.len(), |powers: &mut [T]| {
        let ord = T::from_f64(ord);
        powers.iter_mut().zip(x).for_each(|(to, x)| *to = power(*x, ord));
        if ord == T::infinity() {
            return reduce::<Max, T, T, T>(powers, shape, axes, norms);
        }
        if ord == T::neg_infinity() {
            return reduce::<Min, T, T, T>(powers, shape, axes, norms);
        }
        reduce::<Sum, T, T, T>(powers, shape, axes, norms);
        if ord != T::zero() {
            norms.iter_mut().for_each(|norm| *norm = norm.powf(ord.recip()));
        }
    });
}

/// The term of an element in the sum or extremum of a norm of order `ord`.
fn power<T: LinalgElement>(x: T, ord: T) -> T {
    if ord.is_infinite() {
        x.abs()
    } else if ord == T::zero() {
        if x == T::zero() { T::zero() } else { T::one() }
    } else {
        x.abs().powf(ord)
    }
}

/// The permutation that moves the matrix axes to the end.
fn matrix_axes_last(rank: usize, axes: &[usize]) -> Axes {
    (0..rank).filter(|i| !axes.contains(i)).chain(axes.iter().copied()).collect()
}

/// Calls `f` with the array after [`matrix_axes_last`], and the numbers of rows and columns.
fn with_matrices<T: LinalgElement, R>(
    x: &[T],
    shape: &[usize],
    axes: &[usize],
    f: impl FnOnce(&[T], (usize, usize)) -> Result<R>,
) -> Result<R> {
    let perm = matrix_axes_last(shape.len(), axes);
    let dims = (shape[axes[0]], shape[axes[1]]);
    if perm.iter().copied().eq(0..shape.len()) {
        return f(x, dims);
    }
    with_scratch(x.len(), |permuted: &mut [T]| {
        movement::transpose(x, shape, &perm, permuted);
        f(permuted, dims)
    })
}

/// Calls `f` with the row or column sums of absolute values of one matrix.
fn with_abs_sums<T: LinalgElement + NumericLane>(x: &[T], (m, n): (usize, usize), kind: Kind, f: impl FnOnce(&[T])) {
    let by_column = matches!(kind, Kind::ColumnSum { .. });
    with_scratch(if by_column { n } else { m }, |sums: &mut [T]| {
        reduce::<L1Norm, T, T, T>(x, &[m, n], &[usize::from(!by_column)], sums);
        f(sums);
    });
}

/// The largest or smallest element.
fn extremum<T: LinalgElement + NumericLane>(x: &[T], largest: bool) -> T {
    let (start, pick): (T, fn(T, T) -> T) = if largest { (T::LOWEST, maximum) } else { (T::HIGHEST, minimum) };
    x.iter().copied().fold(start, pick)
}

fn matrix_norms<T: LinalgElement + NumericLane>(
    ctx: &OpCtx<'_>,
    x: &[T],
    dims: (usize, usize),
    kind: Kind,
    norms: &mut [T],
) -> Result<()> {
    if x.is_empty() {
        norms.fill(T::zero());
        return Ok(());
    }
    match kind {
        Kind::ColumnSum { largest } | Kind::RowSum { largest } => {
            for (norm, x) in norms.iter_mut().zip(x.chunks_exact((dims.0 * dims.1).max(1))) {
                with_abs_sums(x, dims, kind, |sums| *norm = extremum(sums, largest));
            }
            Ok(())
        }
        _ => for_each_svd(x, dims, &mut |i, svd| {
            norms[i] = match kind {
                Kind::Nuclear => svd.s.iter().copied().sum(),
                Kind::SingularValue { largest: false } => svd.s.last().copied().unwrap_or(T::zero()),
                _ => svd.s.first().copied().unwrap_or(T::zero()),
            };
        })
        .map_err(|e| e.in_operator(ctx.op, ctx.op)),
    }
}

fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let shape = outs[0].shape().to_usize();
    let norm = Norm::new(ctx.params(), shape.len())?;
    if !outs[0].dtype().is_float() {
        return crate::rules::no_gradient(&mut outs[0]);
    }
    compute_type!(ctx, outs[0].dtype(), |T| {
        with_converted::<T, ()>(&ins[0], |grad| {
            with_converted::<T, ()>(&ins[1], |x| {
                with_scratch(x.len(), |out: &mut [T]| {
                    match norm.kind {
                        Kind::Vector(ord) => with_converted::<T, ()>(&ins[2], |norms| {
                            let reduced_shape = keepdims_shape(outs[0].shape(), &norm.axes);
                            vector_gradient((x, &shape), (norms, grad, &reduced_shape), ord, out);
                            Ok(())
                        })?,
                        kind => {
                            with_matrices(x, &shape, &norm.axes, |x, size| {
                                with_scratch(x.len(), |permuted_grad: &mut [T]| {
                                    matrix_gradient(ctx, (x, size), grad, kind, permuted_grad)?;
                                    undo_matrix_axes_last(permuted_grad, &shape, &norm.axes, out);
                                    Ok(())
                                })
                            })?;
                        }
                    }
                    write_results(out, &mut outs[0])
                })
            })
        })
    })
}

/// dx = dnorm * sign(x) * (|x| / norm)^(ord - 1). For ord = 0 it is 0, and for an infinite ord it is dnorm * sign(x) where |x| is the norm,
/// else 0.
fn vector_gradient<T>(
    (x, shape): (&[T], &[usize]),
    (norms, grad, reduced_shape): (&[T], &[T], &[usize]),
    ord: f64,
    out: &mut [T],
) where
    T: LinalgElement + NumericLane + Lane + Load<T> + Store<T>,
{
    let (x, norms) = ((Src::Slice(x), shape), (Src::Slice(norms), reduced_shape));
    let to = (&mut *out, shape);
    match ord {
        0.0 => return out.fill(T::zero()),
        1.0 => broadcast(x, norms, to, |x: T, _: T| sign(x)),
        2.0 => broadcast(x, norms, to, |x: T, norm: T| x / norm),
        _ if ord.is_infinite() => {
            broadcast(x, norms, to, |x: T, norm: T| if x.abs() == norm { sign(x) } else { T::zero() });
        }
        _ => {
            let exponent = T::from_f64(ord - 1.0);
            broadcast(x, norms, to, move |x: T, norm: T| sign(x) * (x.abs() / norm).powf(exponent));
        }
    }
    broadcast((Src::<T>::InPlace, shape), (Src::Slice(grad), reduced_shape), (out, shape), |d: T, grad: T| d * grad);
}

fn sign<T: LinalgElement>(x: T) -> T {
    if x == T::zero() { x } else { x.signum() }
}

/// The gradients of a batch of matrices.
fn matrix_gradient<T: LinalgElement + NumericLane>(
    ctx: &OpCtx<'_>,
    (x, (m, n)): (&[T], (usize, usize)),
    grad: &[T],
    kind: Kind,
    out: &mut [T],
) -> Result<()> {
    let len = (m * n).max(1);
    match kind {
        Kind::ColumnSum { largest } | Kind::RowSum { largest } => {
            for ((out, x), grad) in out.chunks_exact_mut(len).zip(x.chunks_exact(len)).zip(grad) {
                with_abs_sums(x, (m, n), kind, |sums| {
                    let norm = extremum(sums, largest);
                    for (i, (out, x)) in out.iter_mut().zip(x).enumerate() {
                        let index = if matches!(kind, Kind::ColumnSum { .. }) { i % n } else { i / n };
                        *out = if sums[index] == norm { sign(*x) * *grad } else { T::zero() };
                    }
                });
            }
            Ok(())
        }
        _ => {
            let k = m.min(n);
            let range = match kind {
                Kind::Nuclear => 0..k,
                Kind::SingularValue { largest: false } => k.saturating_sub(1)..k,
                _ => 0..k.min(1),
            };
            for_each_svd(x, (m, n), &mut |i, svd| {
                let to = MatMut::row_major(&mut out[i * m * n..(i + 1) * m * n], m, n);
                let u = MatRef::new(&svd.u[range.start..], m, range.len(), k, 1);
                let v = MatRef::row_major(&svd.v[range.start * n..range.end * n], range.len(), n);
                gemm(grad[i], u, v, T::zero(), to);
            })
            .map_err(|e| e.in_operator(ctx.op, ctx.op))
        }
    }
}

/// Undoes the permutation of [`matrix_axes_last`].
fn undo_matrix_axes_last<T: LinalgElement>(permuted: &[T], shape: &[usize], axes: &[usize], out: &mut [T]) {
    let perm = matrix_axes_last(shape.len(), axes);
    let permuted_shape: Axes = perm.iter().map(|i| shape[*i]).collect();
    movement::transpose(permuted, &permuted_shape, &inverse_permutation(&perm), out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close, vector};

    const X: [f64; 12] = [1.0, -2.0, 0.5, 3.0, 0.25, -1.5, 2.0, 4.0, -0.75, 1.25, -3.5, 0.1];

    #[test]
    fn an_infinite_row_leaves_the_others() {
        let x = array(&[30f32, 40.0, f32::NEG_INFINITY, 1.0, f32::NAN, 1.0, 1e20, 1e20], &[4, 2]);
        let norms = Case::new(&NORM, &[("axis", "(1,)"), ("ord", "100")]).run1(&[x]).unwrap().to_vec::<f32>().unwrap();
        assert!((norms[0] - 40.0).abs() < 1e-3 && norms[1] == f32::INFINITY && norms[2].is_nan(), "{norms:?}");
        assert!((norms[3] / 1e20 - 1.0).abs() < 0.01, "{norms:?}");
    }

    #[test]
    fn matrices_without_elements_have_norm_0() {
        for (ord, flag) in [("2", "0"), ("1", "0"), ("inf", "0"), ("2", "2")] {
            let case = Case::new(&NORM, &[("axis", "(0, 1)"), ("ord", ord), ("flag", flag)]);
            let norms = case.run1(&[array(&[0f64; 0], &[2, 0, 4])]).unwrap();
            assert_eq!(norms.to_vec::<f64>().unwrap(), [0.0; 4], "{ord}");
        }
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        for (ord, axis, flag) in [
            ("2", "None", "-2"),
            ("2", "(0,)", "-1"),
            ("3", "(1,)", "-1"),
            ("-1.5", "(-1,)", "-1"),
            ("1", "(2,)", "-1"),
            ("inf", "(2,)", "-1"),
            ("2", "(0, 2)", "1"),
            ("2", "(2, 0)", "-1"),
            ("-2", "(1, 2)", "0"),
            ("1", "(0, 1)", "-1"),
            ("-inf", "(0, 1)", "-1"),
            ("2", "None", "2"),
        ] {
            Case::new(&NORM, &[("ord", ord), ("axis", axis), ("flag", flag)]).check_gradient(&[array(&X, &[2, 3, 2])]);
        }
    }

    #[test]
    fn every_matrix_norm_of_a_diagonal_matrix() {
        let x = || array(&[3.0, 0.0, 0.0, -4.0], &[2, 2]);
        let norm = |ord: &str, flag: &str| {
            Case::new(&NORM, &[("ord", ord), ("flag", flag)]).run1(&[x()]).unwrap().to_vec::<f64>().unwrap()[0]
        };
        let norms =
            [norm("2", "0"), norm("-2", "0"), norm("1", "-1"), norm("-inf", "-1"), norm("2", "1"), norm("2", "2")];
        close(&norms, &[4.0, 3.0, 4.0, 3.0, 5.0, 7.0], 1e-12);
    }

    #[test]
    fn results_have_the_type_of_the_data_and_invalid_orders_are_errors() {
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I8, DType::I64] {
            let y = Case::new(&NORM, &[("flag", "-2")]).run1(&[vector(dtype, &[3.0, 4.0])]).unwrap();
            assert_eq!((y.dtype(), y.shape().dims(), y.to_vec_as::<f64>().unwrap()), (dtype, &[][..], vec![5.0]));
        }
        let shapes = |attrs: &[(&str, &str)]| Case::new(&NORM, attrs).shapes(&[[2, 3, 4].into()]);
        assert_eq!(shapes(&[("keepdims", "True")]).unwrap(), [[2, 1, 1].into()]);
        assert!(shapes(&[("ord", "3")]).unwrap_err().to_string().contains("ord=3 is not a matrix norm"));
        assert!(shapes(&[("axis", "(0,)"), ("flag", "2")]).unwrap_err().to_string().contains("names 1 axes"));
        assert!(shapes(&[("axis", "(0,1,2)")]).unwrap_err().to_string().contains("names 3 axes"));
    }
}
