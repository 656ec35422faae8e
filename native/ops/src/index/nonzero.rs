//! `nonzero`: the indices of the elements that are not 0.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::grad::Grad;
use ferromx_core::op::{OpDef, arg};
use ferromx_core::storage::read_slice;
use ferromx_core::{dispatch, memory};

use crate::rules::new_array;

/// The operators of this file.
pub(super) static OPS: &[&OpDef] = &[&NONZERO];

pub(super) static NONZERO: OpDef = OpDef::new("_npx_nonzero")
    .aliases(&["_npi_nonzero"])
    .doc("The indices of the elements that are not 0: one row for each in row-major order, one column for each axis, as int64.")
    .inputs(&[arg("x", "The array.")])
    .dynamic(|ctx, ins| {
        let x = &ins[0];
        let dims = if x.shape().dims().is_empty() { vec![1] } else { x.shape().to_usize().to_vec() };
        let offsets: Vec<usize> = dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
            read_slice::<T, _>(x, |x| memory::collected((0..x.len()).filter(|i| x[*i] != T::default())))?
        }, d => return Err(ctx.unsupported(d, &DType::ALL)));
        let mut indices = memory::filled(0i64, offsets.len() * dims.len());
        for (mut offset, row) in offsets.iter().copied().zip(indices.chunks_exact_mut(dims.len())) {
            for (index, n) in row.iter_mut().zip(&dims).rev() {
                *index = (offset % n) as i64;
                offset /= n;
            }
        }
        Ok(vec![new_array(&indices, &[offsets.len() as i64, dims.len() as i64], ctx.context)?])
    })
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
        for (x, rows) in [(array(&[true], &[]), 1), (array(&[0u8], &[]), 0), (array::<u8>(&[], &[0]), 0)] {
            assert_eq!(*Case::new(&NONZERO, &[]).run1(&[x]).unwrap().shape(), [rows, 1].into());
        }
    }
}
