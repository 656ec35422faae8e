//! Sums, means and norms of csr matrices, and sums of squares of row_sparse ones.

use StorageType::{Csr, Default as Dense, RowSparse};
use ferromx_core::dtype::{DType, Element};
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::SparseCall;
use ferromx_core::params::Params;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::{Req, call_once};
use ferromx_core::{dispatch, shape::Shape};
use ferromx_kernels::sparse::{self as kernels, MulAdd, Positions};

use super::family::ReduceParam;
use crate::axes::resolve_or_exclude;
use crate::axes::row_len;
use crate::sparse::cast::to_dense;
use crate::sparse::{csr_components, csr_of, dense_fallback, dispatch_numeric, new_vector};

/// Storage rule: a csr matrix can be reduced along one axis or both.
pub(super) fn reduce_rule(p: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    let p = p.get::<ReduceParam>();
    let has_axes = resolve_or_exclude(&p.axis, p.exclude, 2).is_ok_and(|axes| !axes.is_empty());
    (ins[0] == Csr && has_axes).then_some(Dense)
}

/// The sum, or, for `mean`, the sum divided by the number of elements. Integers use the dense form.
pub(super) fn reduce(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let a = call.ins[0].sparse()?;
    let p = call.ctx.params::<ReduceParam>();
    let axes = resolve_or_exclude(&p.axis, p.exclude, 2)?;
    let count: i64 = axes.iter().map(|axis| a.shape().dim(*axis)).product();
    if !a.dtype().is_float() || count == 0 {
        return dense_fallback(call);
    }
    let components = a.components()?;
    let out = NDArray::zeros(&call.shapes[0], a.dtype(), a.context())?;
    let scale = if call.ctx.op.ends_with("mean") { 1.0 / count as f64 } else { 1.0 };
    call_once(&csr_components(&components)?, &[(&out, Req::Write)], |ins, outs| {
        dispatch!(a.dtype(), T in [f32, f64, half::f16] => {
            let (m, out) = (csr_of::<T>(ins)?, outs[0].slice_mut::<T>()?);
            match axes.as_slice() {
                [0] => kernels::column_sums(m, out),
                [_] => kernels::row_sums(m, out),
                _ => {
                    let mut rows = vec![T::default(); m.rows()];
                    kernels::row_sums(m, &mut rows);
                    let total: f64 = rows.iter().map(|x| Element::to_f64(*x)).sum();
                    out[0] = Element::from_f64(total);
                }
            }
            if scale != 1.0 {
                out.iter_mut().for_each(|x| *x = Element::from_f64(Element::to_f64(*x) * scale));
            }
            Ok(())
        }, d => Err(call.ctx.unsupported(d, DType::FLOATS)))
    })?;
    Ok(vec![out.into()])
}

/// The axis of a matrix that is reduced; `None` for both or neither.
fn only_axis(p: &ReduceParam) -> Option<usize> {
    let axes = resolve_or_exclude(&p.axis, p.exclude, 2).ok()?;
    if let [axis] = axes.as_slice() { Some(*axis) } else { None }
}

/// Storage rule: a row_sparse matrix can be reduced along one axis. Along axis 1 with `keepdims`, the stored rows stay the same.
pub(super) fn row_reduce_rule(p: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    let p = p.get::<ReduceParam>();
    match only_axis(p).filter(|_| ins[0] == RowSparse)? {
        1 if p.keepdims => Some(RowSparse),
        _ => Some(Dense),
    }
}

/// Runs the dense form on the stored rows.
pub(super) fn on_rows(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let a = call.ins[0].sparse()?;
    if a.shape().dims().len() != 2 {
        return dense_fallback(call);
    }
    let (components, shape) = (a.components()?, &call.shapes[0]);
    if components.data.is_empty() {
        return Ok(vec![match call.storage_type {
            RowSparse => SparseArray::zeros(RowSparse, shape, a.dtype(), a.context())?.into(),
            _ => NDArray::zeros(shape, a.dtype(), a.context())?.into(),
        }]);
    }
    let sums =
        (call.dense)(&[components.data])?.pop().ok_or_else(|| Error::Internal("a reduction has no output".into()))?;
    if only_axis(call.ctx.params::<ReduceParam>()) == Some(0) {
        return Ok(vec![sums.into()]);
    }
    let by_row = SparseArray::row_sparse(shape, sums, components.indices)?.into();
    Ok(vec![if call.storage_type == RowSparse { by_row } else { to_dense(&by_row)?.into() }])
}

/// Storage rule of the gradient of `_square_sum`, which stores rows.
pub(super) fn square_sum_backward_rule(p: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    let p = p.get::<ReduceParam>();
    let has_rule = match only_axis(p)? {
        1 if p.keepdims => ins[0] != Csr,
        _ => ins[0] == Dense,
    };
    (has_rule && ins[1] == RowSparse).then_some(RowSparse)
}

/// 2 x y.
fn twice_product<T: MulAdd>(x: T, y: T) -> T {
    T::round(T::mul_add(T::mul_add(T::Sum::default(), x, y), x, y))
}

/// The gradient of `_square_sum` with respect to the stored rows. Inputs: gradient of the output, matrix. It stores the rows of a
/// row_sparse gradient of sums over the columns, otherwise those of the matrix.
pub(super) fn square_sum_backward(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let x = call.ins[1].sparse()?;
    if x.shape().dims().len() != 2 {
        return dense_fallback(call);
    }
    let (components, shape) = (x.components()?, x.shape());
    let is_row_sum = only_axis(call.ctx.params::<ReduceParam>()) == Some(1);
    let (grad, rows, is_grad_stored) = match &call.ins[0] {
        Array::Sparse(grad) if is_row_sum => {
            let components = grad.components()?;
            (components.data, components.indices, true)
        }
        grad => (to_dense(grad)?, components.indices.clone(), false),
    };
    let (num_rows, len) = (shape.dim(0) as usize, row_len(shape, 1));
    let out = NDArray::zeros(&Shape::new(&[rows.len() as i64, shape.dim(1)]), x.dtype(), x.context())?;
    call_once(&[&components.indices, &components.data, &rows, &grad], &[(&out, Req::Write)], |ins, outs| {
        let (stored, rows) = (ins[0].slice::<i64>()?, ins[2].slice::<i64>()?);
        let positions = Positions::new(stored, num_rows, rows.len());
        dispatch_numeric!(call, x.dtype(), T => {
            let (values, grad, out) = (ins[1].slice::<T>()?, ins[3].slice::<T>()?, outs[0].slice_mut::<T>()?);
            for (k, (row, out)) in rows.iter().zip(out.chunks_mut(len.max(1))).enumerate() {
                let Some(position) = positions.find(*row) else { continue };
                let of_row = if is_grad_stored { k } else { *row as usize };
                for (column, (x, out)) in values[position * len..][..len].iter().zip(out).enumerate() {
                    *out = twice_product(*x, grad[if is_row_sum { of_row } else { column }]);
                }
            }
            Ok(())
        })
    })?;
    Ok(vec![SparseArray::row_sparse(shape, out, rows)?.into()])
}

/// The norm of the stored values.
pub(super) fn norm(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let a = call.ins[0].sparse()?;
    let values = a.components()?.data;
    let values = match values.is_empty() {
        true => new_vector(&[0f32], a.context())?,
        false => values.reshape(&Shape::new(&[values.len() as i64]))?,
    };
    if values.dtype() != a.dtype() {
        return dense_fallback(call);
    }
    (call.dense)(&[values])?.into_iter().map(|a| Ok(a.reshape(&call.shapes[0])?.into())).collect()
}
