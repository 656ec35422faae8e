//! `delete`: an array without some entries along an axis.

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{AnyOperator, Deps, OpCtx, Operator, arg};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out, read_bytes, write_bytes};
use ferromx_core::{ensure, memory, params};
use ferromx_kernels::{index, movement};

use crate::axes::outer_len_inner;
use crate::elemwise::family::load_lanes;
use crate::rules::no_gradient;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&DELETE];

params! {
    /// Parameters of `_npi_delete`.
    pub struct DeleteParam {
        /// The first index of the slice that is removed.
        start: Option<i32> = None;
        /// The end (exclusive) of the slice.
        stop: Option<i32> = None;
        /// The step of the slice.
        step: Option<i32> = None;
        /// A single index to remove.
        int_ind: Option<i32> = None;
        /// The axis along which entries are removed; by default the array is flattened.
        axis: Option<i32> = None;
    }
}

impl DeleteParam {
    /// True if parameters give the indices instead of an array. As in MXNet, a slice must have a step; without one, start and stop are
    /// ignored.
    fn is_constant(&self) -> bool {
        self.step.is_some() || self.int_ind.is_some()
    }
}

pub(super) static DELETE: Operator<DeleteParam> = Operator::new("_npi_delete")
    .doc("The array without some entries along an axis: one index, a slice, or the indices in an array.")
    .inputs(&[arg("arr", "The array."), arg("obj", "The indices; negative ones count from the end.")])
    .num_inputs_by(|p| if p.get::<DeleteParam>().is_constant() { 1 } else { 2 })
    .dynamic(|ctx, ins| {
        let (p, x) = (ctx.params::<DeleteParam>(), &ins[0]);
        let indices = ins.get(1).map(NDArray::to_vec_as::<i64>).transpose()?;
        let ((outer, n, inner), kept) = kept_indices(p, x.shape(), indices.as_deref())?;
        let mut dims: Dims = match p.axis {
            Some(_) => x.shape().dims().into(),
            None => Dims::from_slice(&[0]),
        };
        let axis = p.axis.map_or(Ok(0), |axis| Shape::axis(axis.into(), dims.len()))?;
        dims[axis] = kept.len() as i64;
        let out = NDArray::empty(&Shape::from(dims), x.dtype(), ctx.context)?;
        let shape = (outer, n, inner * x.dtype().size());
        read_bytes(x, |from| write_bytes(&out, |to| index::gather(from, shape, &kept, to)));
        Ok(vec![out])
    })
    .grad(Grad::Kernel(Backward::new(delete_backward).inputs(Deps::All), None));

/// The shape as (outer, n, inner) around the axis, and the indices along it that are kept.
fn kept_indices(
    p: &DeleteParam,
    shape: &Shape,
    indices: Option<&[i64]>,
) -> Result<((usize, usize, usize), Vec<usize>)> {
    let dims = shape.to_usize();
    let extents = match p.axis {
        Some(axis) => outer_len_inner(&dims, Shape::axis(axis.into(), dims.len())?),
        None => (1, dims.iter().product(), 1),
    };
    let n = extents.1;
    let mut is_kept = memory::filled(true, n);
    let mut remove = |i: i64| match Shape::axis(i, n) {
        Ok(i) => {
            is_kept[i] = false;
            Ok(())
        }
        Err(_) => {
            let axis = p.axis.unwrap_or(0);
            Err(Error::Value(format!("index {i} is out of bounds for axis {axis} with size {n}")))
        }
    };
    match (indices, p.int_ind) {
        (Some(indices), _) => indices.iter().try_for_each(|i| remove(*i))?,
        (None, Some(i)) if p.step.is_none() => remove(i.into())?,
        _ => slice_indices(p.start, p.stop, p.step, n)?.into_iter().try_for_each(|i| remove(i as i64))?,
    }
    Ok((extents, memory::collected((0..n).filter(|i| is_kept[*i]))))
}

/// The indices of a slice of `n` entries, as in Python.
///
/// # Errors
/// A step of 0.
pub(super) fn slice_indices(start: Option<i32>, stop: Option<i32>, step: Option<i32>, n: usize) -> Result<Vec<usize>> {
    let (n, step) = (n as i64, i64::from(step.unwrap_or(1)));
    ensure!(step != 0, "the step of a slice cannot be 0");
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let bound = |given: Option<i32>, default: i64| match given.map(i64::from) {
        None => default,
        Some(i) => (if i < 0 { i + n } else { i }).clamp(low, high),
    };
    let (mut index, end) = match step > 0 {
        true => (bound(start, low), bound(stop, high)),
        false => (bound(start, high), bound(stop, low)),
    };
    let mut indices = Vec::new();
    while (step > 0 && index < end) || (step < 0 && index > end) {
        indices.push(index as usize);
        index += step;
    }
    Ok(indices)
}

/// Copies the gradient to the kept entries, and writes zeros to the removed ones.
fn delete_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (g, out) = (&ins[0], &mut outs[0]);
    let indices = ins.get(2).map(load_lanes::<i64>).transpose()?;
    if out.wanted() {
        let ((outer, n, inner), kept) = kept_indices(ctx.params(), out.shape(), indices.as_deref())?;
        let (shape, out) = ((outer, n, inner * g.dtype().size()), out.bytes_mut()?);
        movement::fill(out, 0);
        index::scatter(g.bytes()?, &kept, shape, out);
    }
    outs.get_mut(1).map_or(Ok(()), no_gradient)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn entries_are_removed_by_index_slice_or_array() {
        let x = array(&[0f64, 1.0, 2.0, 3.0, 4.0, 5.0], &[2, 3]);
        let case = |attrs: &[(&str, &str)]| Case::new(&DELETE, attrs);
        let run = |attrs: &[(&str, &str)], obj: Option<&[i64]>| {
            let mut ins = vec![x.clone()];
            ins.extend(obj.map(|o| array(o, &[o.len() as i64])));
            case(attrs).run1(&ins).unwrap().to_vec::<f64>().unwrap()
        };
        assert_eq!(run(&[("int_ind", "1")], None), [0.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(run(&[("int_ind", "-1"), ("axis", "1")], None), [0.0, 1.0, 3.0, 4.0]);
        assert_eq!(run(&[("start", "2"), ("stop", "0"), ("step", "-1"), ("axis", "1")], None), [0.0, 3.0]);
        assert_eq!(run(&[("axis", "1")], Some(&[0, -1, 0])), [1.0, 4.0]);
        assert!(case(&[("int_ind", "7"), ("axis", "1")]).run1(std::slice::from_ref(&x)).is_err());
        let g = array(&[7.0, 8.0], &[2, 1]);
        let grads = case(&[("axis", "1")]).backward(&[x, array(&[0i64, 2], &[2])], &[g]).unwrap();
        assert_eq!(grads[0].to_vec::<f64>().unwrap(), [0.0, 7.0, 0.0, 0.0, 8.0, 0.0]);
    }
}
