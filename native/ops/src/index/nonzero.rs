//! `nonzero`: the indices of the elements that are not 0.

use ferromx_core::dispatch;
use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::grad::Grad;
use ferromx_core::op::{AnyOperator, Operator, arg};
use ferromx_core::shape::Shape;
use ferromx_core::storage::read_slice;
use ferromx_kernels::nonzero;

use crate::rules::new_array;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&NONZERO];

pub(super) static NONZERO: Operator = Operator::new("_npx_nonzero")
    .aliases(&["_npi_nonzero"])
    .doc("The indices of the elements that are not 0: one row for each in row-major order, one column for each axis, as int64.")
    .inputs(&[arg("x", "The array.")])
    .dynamic(|ctx, ins| {
        let x = &ins[0];
        let dims = if x.shape().dims().is_empty() { vec![1] } else { x.shape().to_usize().to_vec() };
        let indices = dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
            read_slice::<T, _>(x, |x| nonzero::coordinates(x, &dims))?
        }, d => return Err(ctx.unsupported(d, &DType::ALL)));
        Ok(vec![new_array(&indices, &[(indices.len() / dims.len()) as i64, dims.len() as i64].into(), ctx.context)?])
    })
    .shape(|_, io| match io.ins[0].ndim() {
        Some(rank) => io.assign_out(0, &Shape::new(&[-1, rank.max(1) as i64])),
        None => Ok(()),
    })
    .dtype(|_, io| io.assign_out(0, DType::I64))
    .grad(Grad::Zero);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn nonzero_lists_coordinates_in_row_major_order() {
        let x = array(&[0f32, 3.0, f32::NAN, 0.0, 0.0, -1.0], &[2, 3]);
        let y = Case::new(&NONZERO, &[]).run1(&[x]).unwrap();
        assert_eq!((y.shape(), y.to_vec::<i64>().unwrap()), (&[3, 2].into(), vec![0, 1, 0, 2, 1, 2]));
        let x = array(&[0i32, 1, 0, 2, 0, 0, 3, 0, 0, 0, 0, 4], &[2, 3, 2]);
        let y = Case::new(&NONZERO, &[]).run1(&[x]).unwrap();
        assert_eq!(y.to_vec::<i64>().unwrap(), [0, 0, 1, 0, 1, 1, 1, 0, 0, 1, 2, 1]);
        for (x, rows) in [(array(&[true], &[]), 1), (array(&[0u8], &[]), 0), (array::<u8>(&[], &[0]), 0)] {
            assert_eq!(*Case::new(&NONZERO, &[]).run1(&[x]).unwrap().shape(), [rows, 1].into());
        }
    }
}
