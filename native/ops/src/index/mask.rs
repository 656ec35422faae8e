//! `boolean_mask_assign`: assignment to the elements that a mask selects.

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, ArgDef, Operator, arg};
use ferromx_core::params::TypeOnly;
use ferromx_core::shape::Shape;
use ferromx_core::storage::In;
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::{index, movement, nonzero};

use crate::movement::copy;
use crate::rules::{first_dtype, one_dtype_of};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&MASK_ASSIGN_SCALAR, &MASK_ASSIGN_TENSOR];

params! {
    /// Parameters of `_npi_boolean_mask_assign_scalar`.
    pub struct MaskScalarParam {
        /// The value that is written.
        value: TypeOnly<f32> = required;
        /// The first masked axis of the data.
        start_axis: TypeOnly<i32> = (TypeOnly(0));
    }
}

params! {
    /// Parameters of `_npi_boolean_mask_assign_tensor`.
    pub struct MaskTensorParam {
        /// The first masked axis of the data.
        start_axis: TypeOnly<i32> = (TypeOnly(0));
    }
}

const DATA: ArgDef = arg("data", "The array.");
const MASK: ArgDef = arg("mask", "Nonzero where to write; its shape matches consecutive axes of the data.");
const VALUE: ArgDef = arg(
    "value",
    "The values to write, broadcast to the data with the masked axes replaced by the number of nonzero mask elements.",
);

pub(super) static MASK_ASSIGN_SCALAR: Operator<MaskScalarParam> = Operator::new("_npi_boolean_mask_assign_scalar")
    .doc("The data with a number written where the mask is not 0.")
    .inputs(&[DATA, MASK])
    .shape(|p, io| mask_shape(io, p.get::<MaskScalarParam>().start_axis.0))
    .dtype(first_dtype)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<MaskScalarParam>();
        copy(ctx, &ins[..1], outs)?;
        let selection = selection(&ins[1], outs[0].shape(), p.start_axis.0)?;
        dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
            let value = T::from_f64(p.value.0.into());
            index::fill_rows(value, &selection.selected, selection.extents, outs[0].slice_mut::<T>()?);
            Ok(())
        }, d => Err(ctx.unsupported(d, &DType::ALL)))
    })
    .grad(Grad::Zero)
    .inplace(&[(0, 0)]);

pub(super) static MASK_ASSIGN_TENSOR: Operator<MaskTensorParam> = Operator::new("_npi_boolean_mask_assign_tensor")
    .doc("The data with the elements of an array written, one after the other, where the mask is not 0.")
    .inputs(&[DATA, MASK, VALUE])
    .shape(|p, io| mask_shape(io, p.get::<MaskTensorParam>().start_axis.0))
    .dtype(|_, io| one_dtype_of(io, [0, 2]))
    .forward(|ctx, ins, outs| {
        copy(ctx, &ins[..1], outs)?;
        let selection = selection(&ins[1], outs[0].shape(), ctx.params::<MaskTensorParam>().start_axis.0)?;
        let (from, to) = (ins[2].shape().to_usize(), selection.shape(outs[0].shape()));
        // As in MXNet, the shape of the values is not checked if the mask selects nothing.
        if to.contains(&0) {
            return Ok(());
        }
        let is_broadcastable = from.len() <= to.len()
            && from.iter().rev().zip(to.iter().rev()).all(|(have, want)| have == want || *have == 1);
        ensure!(
            is_broadcastable,
            "value of shape {} does not match the shape {} of the selected elements",
            ins[2].shape(),
            Shape::from_usize(&to)
        );
        dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
            let mut values = vec![T::default(); to.iter().product()];
            movement::broadcast_to(ins[2].slice::<T>()?, &from, (&mut values, &to));
            index::scatter(&values, &selection.selected, selection.extents, outs[0].slice_mut::<T>()?);
            Ok(())
        }, d => Err(ctx.unsupported(d, &DType::ALL)))
    })
    .grad(Grad::Zero)
    .inplace(&[(0, 0)]);

fn mask_shape(io: &mut ShapeIo<'_>, start: i32) -> Result<()> {
    let data = io.ins[0].clone();
    io.assign_out(0, &data)?;
    let (data, mask) = (io.outs[0].clone(), io.ins[1].clone());
    io.assign_in(0, &data)?;
    let (Some(rank), Some(axes)) = (data.ndim(), mask.ndim()) else { return Ok(()) };
    let start = usize::try_from(start).ok().filter(|s| s + axes <= rank);
    let Some(start) = start else {
        return Err(Error::Value(format!(
            "a mask of shape {mask} does not match the axes of shape {data} from start_axis on"
        )));
    };
    for (i, m) in mask.dims().iter().enumerate() {
        let d = data.dim(start + i);
        ensure!(
            d == *m || d < 0 || *m < 0,
            "boolean index did not match indexed array along dimension {}: it has length {d}, the mask {m}",
            start + i
        );
    }
    Ok(())
}

/// The elements of an array that a mask selects.
struct Selection {
    /// The data as (outer, n, inner): the axes before the masked ones, the masked axes, the axes after them.
    extents: (usize, usize, usize),
    /// The first masked axis.
    start: usize,
    /// Number of masked axes.
    num_axes: usize,
    /// Indices of the nonzero elements of the mask.
    selected: Vec<usize>,
}

fn selection(mask: &In<'_>, data: &Shape, start: i32) -> Result<Selection> {
    let (dims, start, num_axes) = (data.to_usize(), start.max(0) as usize, mask.shape().dims().len());
    let product = |d: &[usize]| d.iter().product::<usize>();
    let selected = dispatch!(mask.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        nonzero::indices(mask.slice::<T>()?)
    }, d => return Err(Error::Internal(format!("no mask of type {d}"))));
    let extents = (product(&dims[..start]), mask.len(), product(&dims[start + num_axes..]));
    Ok(Selection { extents, start, num_axes, selected })
}

impl Selection {
    /// The shape of the selected elements.
    fn shape(&self, data: &Shape) -> Vec<usize> {
        let dims = data.to_usize();
        [&dims[..self.start], &[self.selected.len()], &dims[self.start + self.num_axes..]].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn masked_elements_are_written() {
        let x = array(&[0f64, 1.0, 2.0, 3.0, 4.0, 5.0], &[2, 3]);
        let mask = array(&[true, false, true], &[3]);
        let scalar = Case::new(&MASK_ASSIGN_SCALAR, &[("value", "9.5"), ("start_axis", "1")]);
        assert_eq!(
            scalar.run1(&[x.clone(), mask.clone()]).unwrap().to_vec::<f64>().unwrap(),
            [9.5, 1.0, 9.5, 9.5, 4.0, 9.5]
        );
        let tensor = Case::new(&MASK_ASSIGN_TENSOR, &[("start_axis", "1")]);
        let y = tensor.run1(&[x.clone(), mask.clone(), array(&[7.0, 8.0], &[2])]).unwrap();
        assert_eq!(y.to_vec::<f64>().unwrap(), [7.0, 1.0, 8.0, 7.0, 4.0, 8.0]);
        assert!(tensor.run1(&[x.clone(), mask.clone(), array(&[7.0, 8.0, 9.0], &[3])]).is_err());
        let error = scalar.shapes(&[[2, 4].into(), [3].into()]).unwrap_err().to_string();
        assert!(error.contains("along dimension 1"), "{error}");
        let whole =
            Case::new(&MASK_ASSIGN_TENSOR, &[]).run1(&[x, array(&[0i32, 1], &[2]), array(&[6.0], &[1])]).unwrap();
        assert_eq!(whole.to_vec::<f64>().unwrap()[3..], [6.0, 6.0, 6.0]);
    }
}
