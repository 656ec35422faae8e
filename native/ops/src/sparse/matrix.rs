//! `slice`, `concat` and `take` of csr matrices.

use ferromx_core::dtype::Element;
use ferromx_core::error::Result;
use ferromx_core::op::SparseCall;
use ferromx_core::params::Params;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::call_once;
use ferromx_kernels::sparse::Csr as Matrix;

use super::cast::{cast, to_dense};
use super::{csr_of, csr_parts, moved, new_csr};
use crate::index::{TakeMode, TakeParam};
use crate::shape::{ConcatParam, SliceParam};
use StorageType::{Csr, Default as Dense};

/// Builds a csr matrix row by row.
struct CsrBuilder<T> {
    indptr: Vec<i64>,
    indices: Vec<i64>,
    values: Vec<T>,
}

impl<T: Copy> CsrBuilder<T> {
    fn new() -> Self {
        CsrBuilder { indptr: vec![0], indices: Vec::new(), values: Vec::new() }
    }

    /// Appends the columns `begin..end` of row `r`, with column indices relative to `begin`.
    fn push_row(&mut self, m: Matrix<'_, T>, r: usize, (begin, end): (i64, i64)) {
        let (columns, values) = m.row(r);
        let (a, b) = (columns.partition_point(|c| *c < begin), columns.partition_point(|c| *c < end));
        self.indices.extend(columns[a..b].iter().map(|c| c - begin));
        self.values.extend_from_slice(&values[a..b]);
        self.indptr.push(self.indices.len() as i64);
    }

    fn parts(self) -> (Vec<i64>, Vec<i64>, Vec<T>) {
        (self.indptr, self.indices, self.values)
    }
}

/// Calls `f` with the builder and the matrix of a csr array.
fn append<T: Element>(
    a: &SparseArray,
    builder: &mut CsrBuilder<T>,
    f: impl FnOnce(&mut CsrBuilder<T>, Matrix<'_, T>),
) -> Result<()> {
    call_once(&csr_parts(&a.parts()?)?, &[], |ins, _| {
        f(builder, csr_of::<T>(ins)?);
        Ok(())
    })
}

/// Runs the dense form on dense copies of the inputs, and converts the result to csr.
fn dense_fallback(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let dense = call.ins.iter().map(to_dense).collect::<Result<Vec<_>>>()?;
    (call.dense)(&dense)?.into_iter().map(|a| cast(&a.into(), call.storage_type)).collect()
}

/// Storage rule: slices of a csr matrix are csr matrices without `step`, or with one step, which is 1. As in MXNet, two steps of 1 give a
/// dense array.
pub fn slice_rule(p: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    let steps = &p.get::<SliceParam>().step.0;
    (ins[0] == Csr && steps.len() < 2 && steps.iter().all(|s| s.is_none_or(|s| s == 1))).then_some(Csr)
}

/// Slices rows and columns of a csr matrix.
pub fn slice(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let a = call.ins[0].sparse()?;
    let p = call.ctx.params::<SliceParam>();
    let range = |axis: usize| {
        let n = a.shape().dim(axis);
        let resolve = |x: i64| if x < 0 { (x + n).max(0) } else { x.min(n) };
        let begin = p.begin.0.get(axis).copied().flatten().map_or(0, resolve);
        (begin, begin + call.shapes[0].dim(axis))
    };
    let (rows, columns) = (range(0), range(1));
    moved!(a.dtype(), T => {
        let mut builder = CsrBuilder::<T>::new();
        append(a, &mut builder, |b, m| (rows.0..rows.1).for_each(|r| b.push_row(m, r as usize, columns)))?;
        Ok(vec![new_csr(&call.shapes[0], builder.parts(), a.context())?.into()])
    })
}

/// Storage rule: csr matrices can be concatenated along axis 0.
pub fn concat_rule(p: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    (p.get::<ConcatParam>().dim == 0 && ins.iter().all(|s| *s == Csr)).then_some(Csr)
}

/// Concatenates csr matrices along axis 0.
pub fn concat(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let arrays = call.ins.iter().map(Array::sparse).collect::<Result<Vec<_>>>()?;
    let context = call.ctx.context;
    moved!(call.ins[0].dtype(), T => {
        let mut builder = CsrBuilder::<T>::new();
        for a in arrays {
            let columns = (0, a.shape().dim(1));
            append(a, &mut builder, |b, m| (0..m.rows()).for_each(|r| b.push_row(m, r, columns)))?;
        }
        Ok(vec![new_csr(&call.shapes[0], builder.parts(), context)?.into()])
    })
}

/// Storage rule: rows of a csr matrix can be gathered by a dense array of indices.
pub fn take_rule(p: &Params, ins: &[StorageType], _: Option<StorageType>) -> Option<StorageType> {
    (p.get::<TakeParam>().axis == 0 && ins == [Csr, Dense]).then_some(Csr)
}

/// Gathers the rows at the given indices.
pub fn take(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let (a, indices) = (call.ins[0].sparse()?, call.ins[1].dense()?);
    let mode = call.ctx.params::<TakeParam>().mode;
    let n = a.shape().dim(0);
    if indices.shape().dims().len() != 1 || n == 0 || mode == TakeMode::Raise {
        return dense_fallback(call);
    }
    let bounded = |i: i64| if mode == TakeMode::Wrap { i.rem_euclid(n) } else { i.clamp(0, n - 1) };
    let rows: Vec<usize> = indices.to_vec_as::<i64>()?.into_iter().map(|i| bounded(i) as usize).collect();
    let columns = (0, a.shape().dim(1));
    moved!(a.dtype(), T => {
        let mut builder = CsrBuilder::<T>::new();
        append(a, &mut builder, |b, m| rows.iter().for_each(|r| b.push_row(m, *r, columns)))?;
        Ok(vec![new_csr(&call.shapes[0], builder.parts(), a.context())?.into()])
    })
}
