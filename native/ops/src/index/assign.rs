//! `index_array`, `index_copy`, `fill_element_0index`, `onehot_encode`.

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::op::{Deps, OpCtx, Operator, arg, array_arg};
use ferromx_core::params::ShapeOrNone;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::index::{self, Bounds};

use super::{index_type, no_gradient, row_indices};
use crate::elemwise::family::NUMERIC;
use crate::movement::{by_size, source, target};
use crate::rules::{one_dtype_of, shapes_of_inputs};

params! {
    /// Parameters of `_contrib_index_array`.
    pub struct IndexArrayParam {
        /// The axes whose coordinates are returned; negative ones count from the last; all axes by default.
        axes: ShapeOrNone = (ShapeOrNone(None));
    }
}

/// The axes whose coordinates are returned.
fn listed_axes(p: &IndexArrayParam, rank: usize) -> Result<Vec<usize>> {
    match &p.axes.0 {
        None => Ok((0..rank).collect()),
        Some(axes) => axes.dims().iter().map(|a| Shape::axis(*a, rank)).collect(),
    }
}

pub(super) static INDEX_ARRAY: Operator<IndexArrayParam> = Operator::new("_contrib_index_array").names_data().names_outputs()
    .doc(
        "The coordinates of all elements: for data of shape (d1, ..., dn) an array of shape (d1, ..., dn, m), of type int64, whose last \
         axis has the coordinates along the m axes.",
    )
    .inputs(&[arg("data", "An array of which only the shape is used.")])
    .shape(|p, io| {
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        let m = listed_axes(p.get(), rank)?.len() as i64;
        let out: Dims = io.ins[0].dims().iter().copied().chain([m]).collect();
        io.assign_out(0, &Shape::from(out))
    })
    .dtype(|_, io| io.assign_out(0, DType::I64))
    .forward(|ctx, ins, outs| {
        let dims = ins[0].shape().to_usize();
        let axes = listed_axes(ctx.params(), dims.len())?;
        index::coordinates(&dims, &axes, outs[0].slice_mut::<i64>()?);
        Ok(())
    })
    .grad(Grad::Zero);

pub(super) static INDEX_COPY: Operator = Operator::new("_contrib_index_copy")
    .doc(
        "A copy of an array in which rows are replaced: row index_vector[i] by row i of new_tensor. If an index occurs several \
         times, the last row wins. Indices out of range are an error.",
    )
    .inputs(&[
        arg("old_tensor", "The array, with at least one axis."),
        arg("index_vector", "The indices of the rows to replace, of shape (m,)."),
        arg("new_tensor", "The new rows, of shape (m, ...)."),
    ])
    .shape(|_, io| {
        io.tie(0, 0)?;
        let old = io.ins[0].clone();
        let (Some(rank), Some(_)) = (old.ndim(), io.ins[1].ndim()) else { return Ok(()) };
        ensure!(io.ins[1].ndim() == Some(1), "index_vector must be a vector, but has shape {}", io.ins[1]);
        ensure!(rank > 0, "old_tensor must have at least one axis");
        let (rows, count) = (old.dim(0), io.ins[1].dim(0));
        ensure!(rows < 0 || count <= rows, "index_vector has {count} indices, more than old_tensor's {rows} rows");
        let new: Dims = std::iter::once(io.ins[1].dim(0)).chain(old.dims()[1..].iter().copied()).collect();
        io.assign_in(2, &Shape::from(new))
    })
    .dtype(|_, io| one_dtype_of(io, [0, 2]))
    .forward(|ctx, ins, outs| {
        let n = num_rows(outs[0].shape());
        let rows = row_indices(ctx, &ins[1], n, Bounds::Raise)?;
        outs[0].bytes_mut()?.copy_from_slice(ins[0].bytes()?);
        let shape = (1, n, outs[0].len().checked_div(n).unwrap_or(0));
        by_size!(ins[0].dtype(), T => {
            index::scatter(source::<T>(&ins[2])?, &rows, shape, target::<T>(&mut outs[0])?);
        });
        Ok(())
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| index_copy_gradients(ctx, &ins[0], &ins[1], outs)).inputs(Deps::Some(&[1])),
        None,
    ));

pub(super) static BACKWARD_INDEX_COPY: Operator = Operator::new("_contrib_backward_index_copy")
    .doc(
        "The gradients of `_contrib_index_copy`: the old array's is 0 in the replaced rows, the new rows get those rows of the output's \
         gradient, the indices have none.",
    )
    .inputs(&[
        arg("grad", "The gradient of the output."),
        arg("old_tensor", "The array."),
        arg("index_vector", "The indices of the replaced rows."),
        arg("new_tensor", "The new rows."),
    ])
    .listed(0)
    .outputs(|_| 3)
    .shape(|_, io| shapes_of_inputs(io, 1))
    .dtype(|_, io| {
        if let Some(index) = io.ins[2].or(io.outs[1]) {
            io.assign_out(1, index)?;
        }
        match io.ins[0].or(io.ins[1]).or(io.ins[3]) {
            Some(d) => {
                io.assign_out(0, d)?;
                io.assign_out(2, d)
            }
            None => Ok(()),
        }
    })
    .forward(|ctx, ins, outs| index_copy_gradients(ctx, &ins[0], &ins[2], outs));

fn num_rows(shape: &Shape) -> usize {
    shape.dim(0).max(0) as usize
}

/// Splits the gradient of the output: replaced rows go to the new rows, all others to the old array.
fn index_copy_gradients(ctx: &OpCtx<'_>, grad: &In<'_>, index: &In<'_>, outs: &mut [Out<'_>]) -> Result<()> {
    let n = num_rows(grad.shape());
    let rows = row_indices(ctx, index, n, Bounds::Raise)?;
    let inner = grad.len().checked_div(n).unwrap_or(0);
    no_gradient(&mut outs[1])?;
    by_size!(grad.dtype(), T => {
        let grad = source::<T>(grad)?;
        if outs[2].wanted() {
            index::gather(grad, (1, n, inner), &rows, target::<T>(&mut outs[2])?);
        }
        if outs[0].wanted() {
            let old = target::<T>(&mut outs[0])?;
            old.copy_from_slice(grad);
            rows.iter().for_each(|row| old[row * inner..(row + 1) * inner].fill(T::default()));
        }
    });
    Ok(())
}

/// The column index for each row, or `None` if it is out of range.
fn column_indices(ctx: &OpCtx<'_>, indices: &In<'_>, len: usize) -> Result<Vec<Option<usize>>> {
    index_type!(ctx, indices.dtype(), |I| {
        let checked = |i: &I| usize::try_from(i.to_f64() as i64).ok().filter(|i| *i < len);
        Ok(indices.slice::<I>()?.iter().map(checked).collect())
    })
}

pub(super) static FILL_ELEMENT_0INDEX: Operator = Operator::new("fill_element_0index")
    .doc(
        "A copy of a matrix in which one element of each row is replaced: lhs[i, rhs[i]] by mhs[i]. Rows whose index is out of \
         range are copied unchanged.",
    )
    .inputs(&[
        array_arg("lhs", "The matrix, of shape (n, m)."),
        array_arg("mhs", "The new elements, of shape (n,)."),
        array_arg("rhs", "Their indices into the rows, of shape (n,)."),
    ])
    .shape(|_, io| {
        let lhs = io.ins[0].clone();
        ensure!(lhs.ndim().is_none_or(|n| n == 2), "lhs must be a matrix, but has shape {lhs}");
        if lhs.ndim_is_known() {
            (1..3).try_for_each(|i| io.assign_in(i, &Shape::new(&[lhs.dim(0)])))?;
        }
        io.assign_out(0, &lhs)
    })
    .dtype(|_, io| match io.ins[0].or(io.ins[1]) {
        Some(d) => {
            io.assign_in(0, d)?;
            io.assign_in(1, d)?;
            io.assign_out(0, d)
        }
        None => Ok(()),
    })
    .forward(|ctx, ins, outs| {
        let m = ins[0].shape().dim(1).max(0) as usize;
        let indices = column_indices(ctx, &ins[2], m)?;
        outs[0].bytes_mut()?.copy_from_slice(ins[0].bytes()?);
        by_size!(ins[0].dtype(), T => {
            let out = target::<T>(&mut outs[0])?;
            for (i, (value, index)) in source::<T>(&ins[1])?.iter().zip(&indices).enumerate() {
                if let Some(index) = index {
                    out[i * m + index] = *value;
                }
            }
        });
        Ok(())
    });

pub(super) static ONEHOT_ENCODE: Operator = Operator::new("_onehot_encode")
    .doc(
        "One-hot rows: element lhs[i] of row i is 1, the others are 0; rows whose index is out of range are all 0. See one_hot for more \
         options.",
    )
    .inputs(&[
        array_arg("lhs", "The indices of the ones, of shape (n,)."),
        array_arg("rhs", "An array whose shape (n, m) and type the result has."),
    ])
    .shape(|_, io| {
        let rhs = io.ins[1].clone();
        ensure!(rhs.ndim().is_none_or(|n| n == 2), "rhs must be a matrix, but has shape {rhs}");
        if rhs.ndim_is_known() {
            io.assign_in(0, &Shape::new(&[rhs.dim(0)]))?;
        }
        io.assign_out(0, &rhs)
    })
    .dtype(|_, io| match io.ins[1].or(io.outs[0]) {
        Some(d) => io.assign_in(1, d).and_then(|()| io.assign_out(0, d)),
        None => Ok(()),
    })
    .forward(|ctx, ins, outs| {
        let m = outs[0].shape().dim(1).max(0) as usize;
        let indices = column_indices(ctx, &ins[0], m)?;
        dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
            let out = outs[0].slice_mut::<T>()?;
            out.fill(T::default());
            for (i, index) in indices.iter().enumerate() {
                if let Some(index) = index {
                    out[i * m + index] = T::from_f64(1.0);
                }
            }
            Ok(())
        }, d => Err(ctx.unsupported(d, NUMERIC)))
    })
    .inplace(&[(1, 0)]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, vector};

    #[test]
    fn gradients_go_to_new_rows_where_rows_are_replaced() {
        let old = array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2]);
        let new = array(&[7.0, 8.0, 9.0, 10.0], &[2, 2]);
        Case::new(&INDEX_COPY, &[]).check_gradient(&[old.clone(), vector(DType::I32, &[2.0, 0.0]), new.clone()]);
        let outside = Case::new(&INDEX_COPY, &[]).run(&[old, vector(DType::F32, &[2.0, 3.0]), new]).unwrap_err();
        assert!(outside.to_string().contains("index 3"), "{outside}");
    }
}
