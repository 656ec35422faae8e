//! Sums, means and norms of csr matrices.

use StorageType::{Csr, Default as Dense, RowSparse};
use ferromx_core::dtype::{DType, Element};
use ferromx_core::error::Result;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::SparseCall;
use ferromx_core::params::Params;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::{Req, call_once};
use ferromx_core::{dispatch, shape::Shape};
use ferromx_kernels::sparse as kernels;

use super::family::ReduceParam;
use super::norm::NormParam;
use crate::axes::resolve;
use crate::sparse::cast::to_dense;
use crate::sparse::{csr_of, csr_parts, new_vector};

/// Storage rule: a csr matrix can be reduced along one axis or both.
pub(super) fn reduce_rule(p: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    let p = p.get::<ReduceParam>();
    let has_axes = resolve(&p.axis, p.exclude, 2).is_ok_and(|axes| !axes.is_empty());
    (ins[0] == Csr && has_axes).then_some(Dense)
}

/// The sum, or, for `mean`, the sum divided by the number of elements. Integers use the dense form.
pub(super) fn reduce(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let a = call.ins[0].sparse()?;
    let p = call.ctx.params::<ReduceParam>();
    let axes = resolve(&p.axis, p.exclude, 2)?;
    let count: i64 = axes.iter().map(|axis| a.shape().dim(*axis)).product();
    if !a.dtype().is_float() || count == 0 {
        return dense_fallback(call);
    }
    let parts = a.parts()?;
    let out = NDArray::zeros(&call.shapes[0], a.dtype(), a.context())?;
    let scale = if call.ctx.op.ends_with("mean") { 1.0 / count as f64 } else { 1.0 };
    call_once(&csr_parts(&parts)?, &[(&out, Req::Write)], |ins, outs| {
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

/// Runs the dense form on a dense copy of the input.
fn dense_fallback(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    Ok((call.dense)(&[to_dense(&call.ins[0])?])?.into_iter().map(Array::Dense).collect())
}

/// Storage rule: a row_sparse matrix can be reduced along axis 1 with `keepdims`, so that the stored rows stay the same.
pub(super) fn row_reduce_rule(p: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    let p = p.get::<ReduceParam>();
    let keeps_rows = p.keepdims && resolve(&p.axis, p.exclude, 2).is_ok_and(|axes| axes.as_slice() == [1]);
    (ins[0] == RowSparse && keeps_rows).then_some(RowSparse)
}

/// Runs the dense form on the stored rows.
pub(super) fn on_rows(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let a = call.ins[0].sparse()?;
    let parts = a.parts()?;
    if parts.data.is_empty() {
        return Ok(vec![SparseArray::zeros(RowSparse, &call.shapes[0], a.dtype(), a.context())?.into()]);
    }
    let sums = (call.dense)(&[parts.data])?;
    sums.into_iter().map(|s| Ok(SparseArray::row_sparse(&call.shapes[0], s, parts.indices.clone())?.into())).collect()
}

/// Storage rule: the norm of all elements only depends on the stored ones.
pub(super) fn norm_rule(p: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    let has_all_axes = p.get::<NormParam>().axis.0.as_ref().is_none_or(|axes| axes.dims().is_empty());
    (has_all_axes && ins[0] != Dense).then_some(Dense)
}

/// The norm of the stored values.
pub(super) fn norm(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let a = call.ins[0].sparse()?;
    let values = a.parts()?.data;
    let values = match values.is_empty() {
        true => new_vector(&[0f32], a.context())?,
        false => values.reshape(&Shape::new(&[values.len() as i64]))?,
    };
    if values.dtype() != a.dtype() {
        return dense_fallback(call);
    }
    (call.dense)(&[values])?.into_iter().map(|a| Ok(a.reshape(&call.shapes[0])?.into())).collect()
}
