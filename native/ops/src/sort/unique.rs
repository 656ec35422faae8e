//! `unique`.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::infer::ShapeIo;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{AnyOperator, OpCtx, Operator};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::read_slice;
use ferromx_core::{dispatch, memory, params};
use ferromx_kernels::sort::{self, Order};

use crate::axes::outer_len_inner;
use crate::rules::{first_dtype, new_array};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&UNIQUE];

params! {
    /// Parameters of `_npi_unique`.
    pub struct UniqueParam {
        /// Whether the index of the first occurrence of each unique value is returned.
        return_index: bool = false;
        /// Whether for each element the index into the unique values is returned.
        return_inverse: bool = false;
        /// Whether the number of occurrences of each unique value is returned.
        return_counts: bool = false;
        /// The axis whose slices are compared; by default the array is flattened.
        axis: Option<i32> = None;
    }
}

pub(super) static UNIQUE: Operator<UniqueParam> = Operator::new("_npi_unique").names_data()
    .doc(
        "The unique elements in ascending order (or the unique slices along an axis), and on request the index of each one's first \
         occurrence, the index into the unique elements for each element, and the counts, as int64. NaNs are equal and come last.",
    )
    .outputs(|p| {
        let p = p.get::<UniqueParam>();
        1 + usize::from(p.return_index) + usize::from(p.return_inverse) + usize::from(p.return_counts)
    })
    .dynamic(unique)
    .shape(infer_shape)
    .dtype(|p, io| {
        (1..io.outs.len()).try_for_each(|k| io.assign_out(k, DType::I64))?;
        first_dtype(p, io)
    })
    .grad(Grad::Zero);

/// The number of unique elements, or of unique slices along an axis, is unknown.
fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let unknown = Shape::new(&[-1]);
    (1..io.outs.len()).try_for_each(|k| io.assign_out(k, &unknown))?;
    let Some(axis) = p.get::<UniqueParam>().axis else { return io.assign_out(0, &unknown) };
    let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
    let axis = Shape::axis(axis.into(), rank.max(1))?;
    let mut dims = io.ins[0].dims().to_vec();
    dims.resize(rank.max(1), -1);
    dims[axis] = -1;
    io.assign_out(0, &Shape::new(&dims))
}

fn unique(ctx: &OpCtx<'_>, ins: &[NDArray]) -> Result<Vec<NDArray>> {
    let (p, x) = (ctx.params::<UniqueParam>(), &ins[0]);
    let mut dims = x.shape().to_usize();
    if dims.is_empty() {
        dims.push(1);
    }
    let axis = p.axis.map(|axis| Shape::axis(axis.into(), dims.len())).transpose()?;
    if x.is_empty() {
        let index_dtypes =
            [p.return_index, p.return_inverse, p.return_counts].into_iter().filter(|w| *w).map(|_| DType::I64);
        return std::iter::once(x.dtype())
            .chain(index_dtypes)
            .map(|d| NDArray::empty(&[0].into(), d, ctx.context))
            .collect();
    }
    let (outer, n, inner) = match axis {
        Some(axis) => outer_len_inner(&dims, axis),
        None => (1, x.len(), 1),
    };
    let needs_indices = axis.is_some() || p.return_index || p.return_inverse || p.return_counts;
    if !needs_indices && (1..u32::MAX as usize).contains(&n) {
        return Ok(vec![unique_elements(ctx, x)?]);
    }
    let groups = dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        read_slice::<T, _>(x, |x| sort::group_equal(x, (outer, n, inner)))?
    }, d => return Err(ctx.unsupported(d, &DType::ALL)));
    let num_unique = groups.firsts.len() as i64;
    let shape: Dims = match axis {
        Some(axis) => dims.iter().enumerate().map(|(i, d)| if i == axis { num_unique } else { *d as i64 }).collect(),
        None => Dims::from_slice(&[num_unique]),
    };
    let mut outs = vec![slices(ctx, x, (outer, n, inner), &groups.firsts, &shape)?];
    for (is_wanted, indices) in
        [(p.return_index, &groups.firsts), (p.return_inverse, &groups.inverse), (p.return_counts, &groups.counts)]
    {
        if is_wanted {
            outs.push(new_array(indices, &[indices.len() as i64].into(), ctx.context)?);
        }
    }
    Ok(outs)
}

/// The distinct elements in ascending order.
fn unique_elements(ctx: &OpCtx<'_>, x: &NDArray) -> Result<NDArray> {
    dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        read_slice::<T, _>(x, |x| {
            let mut sorted = memory::filled(T::default(), x.len());
            sort::sort(x, x.len(), Order::Ascending, &mut sorted);
            let is_nan = |x: T| x.partial_cmp(&x).is_none();
            sorted.dedup_by(|a, b| a == b || (is_nan(*a) && is_nan(*b)));
            new_array(&sorted, &[sorted.len() as i64].into(), ctx.context)
        })?
    }, d => Err(ctx.unsupported(d, &DType::ALL)))
}

/// The slices of an array of shape (outer, n, inner) at the given indices of its middle axis.
fn slices(
    ctx: &OpCtx<'_>,
    x: &NDArray,
    (outer, n, inner): (usize, usize, usize),
    indices: &[i64],
    shape: &Dims,
) -> Result<NDArray> {
    dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        read_slice::<T, _>(x, |x| {
            let mut values = Vec::with_capacity(outer * indices.len() * inner);
            for o in 0..outer {
                for i in indices {
                    values.extend_from_slice(&x[(o * n + *i as usize) * inner..][..inner]);
                }
            }
            new_array(&values, &Shape::new(shape), ctx.context)
        })?
    }, d => Err(ctx.unsupported(d, &DType::ALL)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn unique_finds_elements_and_slices() {
        let all = [("return_index", "1"), ("return_inverse", "1"), ("return_counts", "1")];
        let x = array(&[3f64, 1.0, f64::NAN, 1.0, 3.0, f64::NAN], &[6]);
        let y = Case::new(&UNIQUE, &all).run(&[x]).unwrap();
        let values = y[0].to_vec::<f64>().unwrap();
        assert!(values[..2] == [1.0, 3.0] && values[2].is_nan() && values.len() == 3);
        let numbers: Vec<_> = y[1..].iter().map(|y| y.to_vec::<i64>().unwrap()).collect();
        assert_eq!(numbers, [vec![1, 0, 2], vec![1, 0, 2, 0, 1, 2], vec![2, 2, 2]]);
        let rows = array(&[1i32, 2, 1, 2, 0, 5], &[3, 2]);
        let y = Case::new(&UNIQUE, &[("axis", "0"), ("return_counts", "1")]).run(&[rows]).unwrap();
        assert_eq!((y[0].to_vec::<i32>().unwrap(), y[1].to_vec::<i64>().unwrap()), (vec![0, 5, 1, 2], vec![1, 2]));
    }
}
