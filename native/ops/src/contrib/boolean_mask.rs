//! `boolean_mask`: the entries along an axis that a mask selects.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out, read_bytes, read_slice, write_bytes};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::{index, movement, nonzero};

use crate::axes::outer_len_inner;
use crate::rules::{first_dtype, no_gradient};

params! {
    /// Parameters of `boolean_mask`.
    pub struct BooleanMaskParam {
        /// The masked axis; a negative one counts from the last.
        axis: i32 = 0;
    }
}

pub(super) static BOOLEAN_MASK: Operator<BooleanMaskParam> = Operator::new("_contrib_boolean_mask")
    .aliases(&["_npi_boolean_mask"])
    .doc(
        "The entries of data along an axis whose mask element is not 0. Imperative only, since the output's shape depends on the \
         mask.\n\n\
         Shapes: data (d0, ..., dk), index (n,) with n the length of the axis, output like data except for the axis. Each entry's \
         gradient goes to its source; the mask has none.",
    )
    .inputs(&[
        arg("data", "The rows."),
        arg("index", "The mask, a vector of the length of the axis."),
    ])
    .dynamic(forward)
    .shape(infer_shape)
    .dtype(first_dtype)
    .grad(Grad::Kernel(Backward::new(backward).inputs(Deps::Some(&[1])), None));

/// The shape of the data with an unknown length of the masked axis.
fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
    let axis = Shape::axis(p.get::<BooleanMaskParam>().axis.into(), rank)?;
    let dim = |(k, d): (usize, &i64)| if k == axis { -1 } else { *d };
    let dims: Vec<i64> = io.ins[0].dims().iter().enumerate().map(dim).collect();
    io.assign_out(0, &Shape::new(&dims))
}

/// The masked axis, the number of elements before it, its length, and the number of bytes after it.
fn layout(ctx: &OpCtx<'_>, data: &Shape, dtype: DType) -> Result<(usize, usize, usize, usize)> {
    let dims = data.to_usize();
    let axis = Shape::axis(ctx.params::<BooleanMaskParam>().axis.into(), dims.len())?;
    let (outer, n, inner) = outer_len_inner(&dims, axis);
    Ok((axis, outer, n, inner * dtype.size()))
}

/// The indices of the elements of a mask of length `n` that are not 0.
fn selected_indices(ctx: &OpCtx<'_>, mask: &NDArray, n: usize) -> Result<Vec<usize>> {
    ensure!(mask.shape().dims().len() == 1, "the mask has shape {}, expected a vector", mask.shape());
    ensure!(mask.len() == n, "the mask has {} elements, but the axis has length {n}", mask.len());
    dispatch!(mask.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        read_slice::<T, _>(mask, nonzero::indices)
    }, other => Err(ctx.unsupported(other, &DType::ALL)))
}

fn forward(ctx: &OpCtx<'_>, ins: &[NDArray]) -> Result<Vec<NDArray>> {
    let data = &ins[0];
    let (axis, outer, n, inner_bytes) = layout(ctx, data.shape(), data.dtype())?;
    let selected = selected_indices(ctx, &ins[1], n)?;
    let mut shape = data.shape().clone();
    if let Some(dims) = shape.dims_mut() {
        dims[axis] = selected.len() as i64;
    }
    let out = NDArray::zeros(&shape, data.dtype(), ctx.context)?;
    read_bytes(data, |rows| write_bytes(&out, |out| index::gather(rows, (outer, n, inner_bytes), &selected, out)));
    Ok(vec![out])
}

/// Inputs: the gradient, the mask. Outputs: gradients of the data and of the mask.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    no_gradient(&mut outs[1])?;
    if !outs[0].wanted() {
        return Ok(());
    }
    let (_, outer, n, inner_bytes) = layout(ctx, outs[0].shape(), outs[0].dtype())?;
    let selected = dispatch!(ins[1].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        nonzero::indices(ins[1].slice::<T>()?)
    }, other => return Err(ctx.unsupported(other, &DType::ALL)));
    let (rows, dx) = (ins[0].bytes()?, outs[0].bytes_mut()?);
    movement::fill(dx, 0);
    index::scatter(rows, &selected, (outer, n, inner_bytes), dx);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn gradients_go_to_the_selected_rows() {
        let data = array(&[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2]);
        let mask = array(&[1f32, 0.0, 2.0], &[3]);
        let case = Case::new(&BOOLEAN_MASK, &[]);
        let out = case.run1(&[data.clone(), mask.clone()]).unwrap();
        assert_eq!((out.shape().dims(), out.to_vec::<f64>().unwrap()), (&[2, 2][..], vec![1.0, 2.0, 5.0, 6.0]));
        let dy = array(&[10.0f64, 20.0, 30.0, 40.0], &[2, 2]);
        let grads = case.backward(&[data.clone(), mask], &[dy]).unwrap();
        assert_eq!(grads[0].to_vec::<f64>().unwrap(), [10.0, 20.0, 0.0, 0.0, 30.0, 40.0]);
        let columns = Case::new(&BOOLEAN_MASK, &[("axis", "-1")]).run1(&[data, array(&[0i32, 7], &[2])]).unwrap();
        assert_eq!(columns.to_vec::<f64>().unwrap(), [2.0, 4.0, 6.0]);
    }

    #[test]
    fn masks_of_another_length_are_refused() {
        let e = Case::new(&BOOLEAN_MASK, &[]).run1(&[array(&[1f32; 3], &[3]), array(&[1f32; 2], &[2])]).unwrap_err();
        assert!(e.to_string().contains("the mask has 2 elements"), "{e}");
    }
}
