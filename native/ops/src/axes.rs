//! Axes of reductions: resolved by the rules of MXNet's older operators or of NumPy, and the shapes that result. Lengths of the rows and
//! matrices of an array.

use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::params::ShapeOrNone;
use ferromx_core::shape::{Dims, Shape};
use smallvec::SmallVec;

/// Axes or lengths of axes; six fit without a heap allocation.
pub(crate) type Axes = SmallVec<[usize; 6]>;

/// The length of a row: the product of the dimensions starting at `axis`.
pub(crate) fn row_len(shape: &Shape, axis: usize) -> usize {
    shape.to_usize()[axis..].iter().product()
}

/// The numbers of rows and columns of the matrices in the last two axes; (0, 0) for fewer than two axes.
pub(crate) fn matrix_dims(shape: &Shape) -> (usize, usize) {
    match *shape.dims() {
        [.., rows, cols] => (rows.max(0) as usize, cols.max(0) as usize),
        _ => (0, 0),
    }
}

/// A shape collapsed around an axis to (outer, n, inner): the product of the dimensions before the axis, its length, and the product of the
/// dimensions after it.
pub(crate) fn outer_len_inner(dims: &[usize], axis: usize) -> (usize, usize, usize) {
    (dims[..axis].iter().product(), dims[axis], dims[axis + 1..].iter().product())
}

/// The permutation that undoes `perm`.
pub(crate) fn inverse_permutation(perm: &[usize]) -> Axes {
    let mut inverse = Axes::from_elem(0, perm.len());
    perm.iter().enumerate().for_each(|(i, axis)| inverse[*axis] = i);
    inverse
}

/// The axes to reduce out of `n` by the rules of MXNet's older operators, ascending: None and () are all.
///
/// # Errors
/// If an axis does not exist or is given twice.
pub(crate) fn resolve(axis: &ShapeOrNone, n: usize) -> Result<Axes> {
    match &axis.0 {
        Some(given) if !given.dims().is_empty() => sorted_axes(given.dims(), n),
        _ => Ok((0..n).collect()),
    }
}

/// As [`resolve`], but with `exclude` the axes that are not given. None and () are all axes even then.
///
/// # Errors
/// As [`resolve`].
pub(crate) fn resolve_or_exclude(axis: &ShapeOrNone, exclude: bool, n: usize) -> Result<Axes> {
    let axes = resolve(axis, n)?;
    let is_given = axis.0.as_ref().is_some_and(|given| !given.dims().is_empty());
    Ok(if exclude && is_given { (0..n).filter(|a| !axes.contains(a)).collect() } else { axes })
}

/// The axes of an array of `n` axes, checked and ascending.
fn sorted_axes(unresolved: &[i64], n: usize) -> Result<Axes> {
    let mut axes = unresolved.iter().map(|a| Shape::axis(*a, n)).collect::<Result<Axes>>()?;
    axes.sort_unstable();
    ensure!(axes.windows(2).all(|w| w[0] < w[1]), "an axis is given twice in axis={}", Shape::new(unresolved));
    Ok(axes)
}

/// The shape of a reduction by the rules of MXNet's older operators: without the axes, or with length 1 for them if `keepdims`. A result of
/// one element has shape (1), unless a scalar is reduced with `keepdims`.
pub(crate) fn reduced(shape: &Shape, axes: &[usize], keepdims: bool) -> Shape {
    let out = numpy_reduced(shape, axes, keepdims);
    if out.ndim() == Some(0) && !(keepdims && shape.dims().is_empty()) { Shape::new(&[1]) } else { out }
}

/// The dimensions of a shape, with 1 for the reduced axes.
pub(crate) fn keepdims_shape(shape: &Shape, axes: &[usize]) -> Axes {
    shape.to_usize().iter().enumerate().map(|(i, d)| if axes.contains(&i) { 1 } else { *d }).collect()
}

/// The axes to reduce out of `n` by NumPy's rules, ascending: None is all, () none. A scalar may be reduced along
/// axis 0, which changes nothing.
///
/// # Errors
/// If an axis does not exist or is given twice.
pub(crate) fn numpy_axes(axis: &ShapeOrNone, n: usize) -> Result<Axes> {
    let Some(given) = &axis.0 else { return Ok((0..n).collect()) };
    if n == 0 && given.dims().iter().all(|a| *a == 0 || *a == -1) {
        return Ok(Axes::new());
    }
    sorted_axes(given.dims(), n)
}

/// The shape of a reduction by NumPy's rules: without the axes, or with length 1 for them if `keepdims`.
pub(crate) fn numpy_reduced(shape: &Shape, axes: &[usize], keepdims: bool) -> Shape {
    if !keepdims {
        return without_axes(shape, axes);
    }
    Shape::from(shape.dims().iter().enumerate().map(|(i, d)| if axes.contains(&i) { 1 } else { *d }).collect::<Dims>())
}

/// A shape without the axes.
pub(crate) fn without_axes(shape: &Shape, axes: &[usize]) -> Shape {
    let is_kept = |(i, _): &(usize, &i64)| !axes.contains(i);
    Shape::from(shape.dims().iter().enumerate().filter(is_kept).map(|(_, d)| *d).collect::<Dims>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_resolved_as_in_mxnet() {
        let axes = |text: &str, exclude| {
            resolve_or_exclude(&<ShapeOrNone as ferromx_core::params::ParamValue>::parse(text).unwrap(), exclude, 3)
        };
        assert_eq!(axes("None", true).unwrap()[..], [0, 1, 2]);
        assert_eq!(axes("()", false).unwrap()[..], [0, 1, 2]);
        assert_eq!(axes("(2, 0)", false).unwrap()[..], [0, 2]);
        assert_eq!(axes("-1", true).unwrap()[..], [0, 1]);
        assert!(axes("(0, 1, 2)", true).unwrap().is_empty());
        assert!(axes("(0, -3)", false).unwrap_err().to_string().contains("given twice"));
        assert!(axes("5", false).is_err());
    }
}
