//! L2 normalization (MXNet's `L2Normalization`): each row divided by its Euclidean norm.

use super::moments::dot;
use super::{COLUMNS, GRAIN};
use crate::AxisShape;
use crate::float::{Accum, FloatElement};
use crate::par::{MatMut, parallel_blocks, parallel_rows, parallel_rows2, with_scratch};
use crate::short_rows;
use num_traits::Float;

/// Divides the rows of `x`, which run along the axis, by `norm = sqrt(sum of squares + eps)`. Writes the results to `y` and the
/// norms of the `outer` x `inner` rows to `norm`.
///
/// MXNet's mode `instance` corresponds to the shape (batch, all other, 1), `channel` to (batch, channels, space), `spatial` to
/// (batch times channels, space, 1).
///
/// # Panics
/// Panics if the lengths do not match the shape.
pub fn l2_norm_forward<T: FloatElement>(shape: AxisShape, eps: f64, x: &[T], y: &mut [T], norm: &mut [T::Acc]) {
    let AxisShape { outer, axis, inner } = shape;
    shape.check(&[x.len(), y.len()]);
    assert_eq!(norm.len(), outer * inner, "norms of the rows of {shape:?}");
    let root = |squares: f64| T::Acc::of((squares + eps).sqrt());
    if shape.is_empty() {
        return norm.fill(root(0.0));
    }
    if inner == 1 && axis <= short_rows::MAX_LEN {
        let block = axis * short_rows::BLOCK_ROWS;
        let grain = GRAIN.div_ceil(block);
        return parallel_rows2((y, block), (norm, short_rows::BLOCK_ROWS), grain, |i, y, norm| {
            with_scratch(2 * y.len(), |buffer: &mut [T::Acc]| {
                let (buffer, lanes) = buffer.split_at_mut(y.len());
                short_rows::load(T::elements(x), i * block, axis, buffer, lanes);
                let mut squares = [0.0; short_rows::BLOCK_ROWS];
                let squares = &mut squares[..norm.len()];
                column_dots::<T::Acc>(lanes, lanes, norm.len(), 0, axis, squares);
                norm.iter_mut().zip(squares).for_each(|(norm, squares)| *norm = root(*squares));
                divide_columns(norm, lanes);
                short_rows::store(lanes, axis, buffer, T::elements_mut(y));
            });
        });
    }
    if inner == 1 {
        return parallel_rows2((y, axis), (norm, 1), GRAIN.div_ceil(axis), |i, y, norm| {
            let x = &x[i * axis..(i + 1) * axis];
            norm[0] = root(dot(x, x));
            scale(x, norm[0].recip(), y);
        });
    }
    parallel_rows(norm, inner, GRAIN.div_ceil(axis * inner), |n, norm| {
        let image = &x[n * axis * inner..];
        for (c, norm) in norm.chunks_mut(COLUMNS).enumerate() {
            let mut squares = [0.0; COLUMNS];
            column_dots(image, image, inner, c * COLUMNS, axis, &mut squares[..norm.len()]);
            norm.iter_mut().zip(squares).for_each(|(norm, squares)| *norm = root(squares));
        }
    });
    let norm = &*norm;
    parallel_rows(y, inner, GRAIN.div_ceil(inner), |row, y| {
        let norm = &norm[row / axis * inner..];
        for (y, (x, norm)) in y.iter_mut().zip(x[row * inner..].iter().zip(norm)) {
            *y = (T::Acc::of(*x) / *norm).store();
        }
    });
}

/// The gradient of [`l2_norm_forward`] with respect to `x`, from its results and the gradient of `y`.
///
/// # Panics
/// Panics if the lengths do not match the shape.
pub fn l2_norm_backward<T: FloatElement>(shape: AxisShape, y: &[T], norm: &[T::Acc], y_grad: &[T], x_grad: &mut [T]) {
    let AxisShape { outer, axis, inner } = shape;
    shape.check(&[y.len(), y_grad.len(), x_grad.len()]);
    assert_eq!(norm.len(), outer * inner, "norms of the rows of {shape:?}");
    if shape.is_empty() {
        return;
    }
    if inner == 1 && axis <= short_rows::MAX_LEN {
        let block = axis * short_rows::BLOCK_ROWS;
        return parallel_rows(x_grad, block, GRAIN.div_ceil(block), |i, x_grad| {
            let (start, len, rows) = (i * block, x_grad.len(), x_grad.len() / axis);
            with_scratch(3 * len, |buffer: &mut [T::Acc]| {
                let (buffer, lanes) = buffer.split_at_mut(len);
                let (y_lanes, grads) = lanes.split_at_mut(len);
                short_rows::load(T::elements(y), start, axis, buffer, y_lanes);
                short_rows::load(T::elements(y_grad), start, axis, buffer, grads);
                let mut dots = [0.0; short_rows::BLOCK_ROWS];
                column_dots::<T::Acc>(y_lanes, grads, rows, 0, axis, &mut dots[..rows]);
                project_columns(&dots[..rows], &norm[start / axis..][..rows], y_lanes, grads);
                short_rows::store(grads, axis, buffer, T::elements_mut(x_grad));
            });
        });
    }
    if inner == 1 {
        return parallel_rows(x_grad, axis, GRAIN.div_ceil(axis), |i, x_grad| {
            let (y, y_grad) = (&y[i * axis..(i + 1) * axis], &y_grad[i * axis..(i + 1) * axis]);
            let dot = T::Acc::of(dot(y, y_grad));
            project(dot, norm[i].recip(), y, y_grad, x_grad);
        });
    }
    parallel_blocks(MatMut::row_major(x_grad, outer * axis, inner), axis, COLUMNS, |row, column, mut x_grad| {
        let (y, y_grad, columns) = (&y[row * inner..], &y_grad[row * inner..], x_grad.cols());
        let mut dots = [0.0; COLUMNS];
        column_dots(y, y_grad, inner, column, axis, &mut dots[..columns]);
        let norm = &norm[row / axis * inner + column..];
        for a in 0..axis {
            let from = y[a * inner + column..].iter().zip(&y_grad[a * inner + column..]);
            for ((to, (y, grad)), (dot, norm)) in x_grad.row_mut(a).iter_mut().zip(from).zip(dots.iter().zip(norm)) {
                let dot = T::Acc::of(*dot);
                *to = ((T::Acc::of(*grad) - T::Acc::of(*y) * dot) / *norm).store();
            }
        }
    });
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn scale<T: FloatElement>(x: &[T], scale: T::Acc, y: &mut [T]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = (T::Acc::of(*x) * scale).store());
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// Removes the component along `y` from `y_grad`, given their dot product, then divides by the norm.
    fn project<T: FloatElement>(dot: T::Acc, inverse: T::Acc, y: &[T], y_grad: &[T], x_grad: &mut [T]) {
        for (x_grad, (y, grad)) in x_grad.iter_mut().zip(y.iter().zip(y_grad)) {
            *x_grad = ((T::Acc::of(*grad) - T::Acc::of(*y) * dot) * inverse).store();
        }
    }
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    /// Divides the elements of each column by its norm.
    fn divide_columns<A: Accum>(norm: &[A], lanes: &mut [A]) {
        for row in lanes.chunks_exact_mut(norm.len()) {
            row.iter_mut().zip(norm).for_each(|(x, norm)| *x /= *norm);
        }
    }
}

crate::simd::per_isa! {
    avx512 if A::USE_AVX512;
    /// [`project`] for columns.
    fn project_columns<A: Accum>(dots: &[f64], norm: &[A], y: &[A], grads: &mut [A]) {
        for (grads, y) in grads.chunks_exact_mut(norm.len()).zip(y.chunks_exact(norm.len())) {
            for ((grad, y), (dot, norm)) in grads.iter_mut().zip(y).zip(dots.iter().zip(norm)) {
                *grad = (*grad - *y * A::of(*dot)) / *norm;
            }
        }
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// The dot products of the columns of `a` and `b` starting at `column`, over `axis` rows of the given stride.
    fn column_dots<T: FloatElement>(a: &[T], b: &[T], stride: usize, column: usize, axis: usize, totals: &mut [f64]) {
        for row in 0..axis {
            let start = row * stride + column;
            let terms = a[start..].iter().zip(&b[start..]);
            for (total, (a, b)) in totals.iter_mut().zip(terms) {
                *total += (T::Acc::of(*a) * T::Acc::of(*b)).wide();
            }
        }
    }
}
