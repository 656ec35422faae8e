//! `slice` and `concat` of csr matrices.

use ferromx_core::error::Result;
use ferromx_core::op::SparseCall;
use ferromx_core::sparse::Array;

use crate::sparse::{CsrBuilder, append, dispatch_any, new_csr};

/// Slices rows and columns of a csr matrix. An axis without an index in `begin` is taken from its start.
pub(super) fn slice(call: &SparseCall<'_>, begin: &[Option<i64>]) -> Result<Vec<Array>> {
    let a = call.ins[0].sparse()?;
    let range = |axis: usize| {
        let n = a.shape().dim(axis);
        let resolve = |x: i64| if x < 0 { (x + n).max(0) } else { x.min(n) };
        let begin = begin.get(axis).copied().flatten().map_or(0, resolve);
        (begin, begin + call.shapes[0].dim(axis))
    };
    let (rows, columns) = (range(0), range(1));
    dispatch_any!(a.dtype(), T => {
        let mut builder = CsrBuilder::<T>::new();
        append(a, &mut builder, |b, m| (rows.0..rows.1).for_each(|r| b.push_row(m, r as usize, columns)))?;
        Ok(vec![new_csr(&call.shapes[0], builder.components(), a.context())?.into()])
    })
}

/// Concatenates csr matrices along axis 0.
pub(super) fn concat(call: &SparseCall<'_>) -> Result<Vec<Array>> {
    let arrays = call.ins.iter().map(Array::sparse).collect::<Result<Vec<_>>>()?;
    let context = call.ctx.context;
    dispatch_any!(call.ins[0].dtype(), T => {
        let mut builder = CsrBuilder::<T>::new();
        for a in arrays {
            let columns = (0, a.shape().dim(1));
            append(a, &mut builder, |b, m| (0..m.rows()).for_each(|r| b.push_row(m, r, columns)))?;
        }
        Ok(vec![new_csr(&call.shapes[0], builder.components(), context)?.into()])
    })
}
