//! `nonzero`: the indices of the elements that are not 0.

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::grad::Grad;
use ferromx_core::op::{AnyOperator, Operator, arg};
use ferromx_core::shape::Sizes;
use ferromx_core::storage::read_slice;
use ferromx_core::{dispatch, memory};

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
            read_slice::<T, _>(x, |x| nonzero(x, &dims))?
        }, d => return Err(ctx.unsupported(d, &DType::ALL)));
        Ok(vec![new_array(&indices, &[(indices.len() / dims.len()) as i64, dims.len() as i64], ctx.context)?])
    })
    .grad(Grad::Zero);

/// The coordinates of the elements that are not 0.
fn nonzero<T: Element>(x: &[T], dims: &[usize]) -> Vec<i64> {
    let (Some((&width, outer)), rank) = (dims.split_last(), dims.len()) else { return Vec::new() };
    let count = x.iter().filter(|x| **x != T::default()).count();
    let mut indices = memory::filled(0i64, count * rank);
    let mut found = 0;
    let mut coordinates: Sizes = outer.iter().map(|_| 0).collect();
    for row in x.chunks_exact(width.max(1)) {
        for (i, x) in row.iter().enumerate() {
            // Written for every element; the next one overwrites the coordinates of a zero.
            if let Some(to) = indices.get_mut(found..found + rank) {
                to.iter_mut().zip(&coordinates).for_each(|(to, index)| *to = *index as i64);
                to[rank - 1] = i as i64;
            }
            found += if *x != T::default() { rank } else { 0 };
        }
        for (index, n) in coordinates.iter_mut().zip(outer).rev() {
            *index += 1;
            if *index < *n {
                break;
            }
            *index = 0;
        }
    }
    indices
}

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
