//! Operators whose output shapes depend on the values of the inputs; they run imperatively only.

use ferromx_core::context::Context;
use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Deps, OpCtx, OpDef, arg};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out, read_bytes, read_slice, write_bytes};
use ferromx_core::{dispatch, ensure, memory, params};
use ferromx_kernels::sort::{self, Order};

use crate::elemwise::family::NUMERIC;
use crate::shape::moves::around;

/// The operators of this file.
pub(super) static OPS: &[&OpDef] = &[&NONZERO, &UNIQUE, &BINCOUNT, &DELETE];

/// A new array of the given elements.
fn new_array<T: Element>(items: &[T], dims: &[i64], context: Context) -> Result<NDArray> {
    NDArray::from_slice(items, dims)?.to_context(context)
}

pub(super) static NONZERO: OpDef = OpDef::new("_npx_nonzero")
    .aliases(&["_npi_nonzero"])
    .doc("The indices of the elements that are not 0: one row for each in row-major order, one column for each axis, as int64.")
    .inputs(&[arg("x", "The array.")])
    .dynamic(|ctx, ins| {
        let x = &ins[0];
        let dims = if x.shape().dims().is_empty() { vec![1] } else { x.shape().to_usize().to_vec() };
        let hits: Vec<usize> = dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
            read_slice::<T, _>(x, |x| memory::collected((0..x.len()).filter(|i| x[*i] != T::default())))?
        }, d => return Err(ctx.unsupported(d, &DType::ALL)));
        let mut indices = memory::filled(0i64, hits.len() * dims.len());
        for (mut at, row) in hits.iter().copied().zip(indices.chunks_exact_mut(dims.len())) {
            for (index, n) in row.iter_mut().zip(&dims).rev() {
                *index = (at % n) as i64;
                at /= n;
            }
        }
        Ok(vec![new_array(&indices, &[hits.len() as i64, dims.len() as i64], ctx.context)?])
    })
    .grad(Grad::Zero);

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

pub(super) static UNIQUE: OpDef = OpDef::new("_npi_unique").names_data()
    .doc(
        "The unique elements in ascending order (or the unique slices along an axis), and on request the index of each one's first \
         occurrence, the index into the unique elements for each element, and the counts, as int64. NaNs are equal and come last.",
    )
    .params::<UniqueParam>()
    .outputs(|p| {
        let p = p.get::<UniqueParam>();
        1 + usize::from(p.return_index) + usize::from(p.return_inverse) + usize::from(p.return_counts)
    })
    .dynamic(unique)
    .grad(Grad::Zero);

fn unique(ctx: &OpCtx<'_>, ins: &[NDArray]) -> Result<Vec<NDArray>> {
    let (p, x) = (ctx.params::<UniqueParam>(), &ins[0]);
    if x.is_empty() {
        let wanted = [p.return_index, p.return_inverse, p.return_counts].into_iter().filter(|w| *w).map(|_| DType::I64);
        return std::iter::once(x.dtype()).chain(wanted).map(|d| NDArray::empty(&[0].into(), d, ctx.context)).collect();
    }
    let dims = x.shape().to_usize();
    let (outer, n, inner) = match p.axis {
        Some(axis) => around(&dims, Shape::axis(axis.into(), dims.len())?),
        None => (1, x.len(), 1),
    };
    dispatch!(x.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        read_slice::<T, _>(x, |x| {
            if p.axis.is_none() && !(p.return_index || p.return_inverse || p.return_counts) && (1..u32::MAX as usize).contains(&n) {
                let mut sorted = memory::filled(T::default(), n);
                sort::sort(x, n, Order::Ascending, &mut sorted);
                sorted.dedup_by(|a, b| compare(*a, *b).is_eq());
                return Ok(vec![new_array(&sorted, &[sorted.len() as i64], ctx.context)?]);
            }
            // The elements of slice i in comparison order.
            let entry = |i: usize| (0..outer).flat_map(move |o| (0..inner).map(move |k| x[(o * n + i) * inner + k]));
            let order = |a: &usize, b: &usize| {
                entry(*a).zip(entry(*b)).map(|(a, b)| compare(a, b)).find(|o| o.is_ne()).unwrap_or(a.cmp(b))
            };
            let same = |a: usize, b: usize| entry(a).zip(entry(b)).all(|(a, b)| compare(a, b).is_eq());
            let mut sorted: Vec<usize> = memory::collected(0..n);
            if outer * inner == 1 && (1..u32::MAX as usize).contains(&n) {
                let mut order = memory::filled(0i64, n);
                sort::argsort(x, n, Order::Ascending, &mut order);
                sorted.iter_mut().zip(order).for_each(|(to, index)| *to = index as usize);
            } else {
                sorted.sort_unstable_by(order);
            }
            let (mut firsts, mut inverse, mut counts) = (Vec::<i64>::new(), memory::filled(0i64, n), Vec::<i64>::new());
            for &i in &sorted {
                match (firsts.last(), counts.last_mut()) {
                    (Some(first), Some(count)) if same(*first as usize, i) => *count += 1,
                    _ => {
                        firsts.push(i as i64);
                        counts.push(1);
                    }
                }
                inverse[i] = firsts.len() as i64 - 1;
            }
            let found = firsts.len() as i64;
            let values: Vec<T> = (0..outer)
                .flat_map(|o| firsts.iter().flat_map(move |i| (0..inner).map(move |k| x[(o * n + *i as usize) * inner + k])))
                .collect();
            let mut shape: Dims = match p.axis {
                Some(_) => dims.iter().map(|d| *d as i64).collect(),
                None => Dims::from_slice(&[found]),
            };
            if let Some(axis) = p.axis {
                shape[Shape::axis(axis.into(), dims.len())?] = found;
            }
            let mut outs = vec![new_array(&values, &shape, ctx.context)?];
            for (wanted, numbers) in [(p.return_index, &firsts), (p.return_inverse, &inverse), (p.return_counts, &counts)] {
                if wanted {
                    outs.push(new_array(numbers, &[numbers.len() as i64], ctx.context)?);
                }
            }
            Ok(outs)
        })?
    }, d => Err(ctx.unsupported(d, &DType::ALL)))
}

/// Total order of elements: NaN is greater than all numbers and equal to itself.
fn compare<T: Element>(a: T, b: T) -> std::cmp::Ordering {
    let is_nan = |x: T| x.partial_cmp(&x).is_none();
    a.partial_cmp(&b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

params! {
    /// Parameters of `_npi_bincount`.
    pub struct BincountParam {
        /// Minimum number of bins.
        minlength: i32 = 0;
        /// Whether there are weights.
        has_weights: bool = false;
    }
}

pub(super) static BINCOUNT: OpDef = OpDef::new("_npi_bincount").names_data()
    .doc("How often each of the numbers 0, 1, 2, ... occurs, in the type of the data; with weights the sums of their weights.")
    .inputs(&[
        arg("data", "A vector of non-negative integers."),
        arg("weights", "The weight of each element; the result has their type."),
    ])
    .params::<BincountParam>()
    .num_inputs_by(|p| if p.get::<BincountParam>().has_weights { 2 } else { 1 })
    .dynamic(bincount)
    .grad(Grad::Zero);

fn bincount(ctx: &OpCtx<'_>, ins: &[NDArray]) -> Result<Vec<NDArray>> {
    let (p, x) = (ctx.params::<BincountParam>(), &ins[0]);
    ensure!(x.shape().dims().len() <= 1, "bincount takes a vector, not an array of shape {}", x.shape());
    ensure!(!x.dtype().is_float() && x.dtype() != DType::Bool, "bincount takes integers, not {}", x.dtype());
    let numbers = x.to_vec_as::<i64>()?;
    ensure!(numbers.iter().all(|n| *n >= 0), "bincount takes non-negative integers, but the data has a negative one");
    let most = numbers.iter().max().map_or(0, |n| n + 1).max(p.minlength.into());
    let bins = Shape::new(&[most]).checked_elements()?;
    let weights = match ins.get(1) {
        None => x,
        Some(w) => w,
    };
    ensure!(weights.len() == numbers.len(), "there are {} weights for {} numbers", weights.len(), numbers.len());
    dispatch!(weights.dtype(), T in [f32, f64, f16, bf16] => {
        let mut sums = memory::filled(0f64, bins);
        for (n, w) in numbers.iter().zip(weights.to_vec_as::<f64>()?) {
            sums[*n as usize] += w;
        }
        let sums: Vec<T> = memory::collected(sums.into_iter().map(T::from_f64));
        Ok(vec![new_array(&sums, &[most], ctx.context)?])
    }, d => dispatch!(d, T in [u8, i8, i32, i64] => {
        let mut sums = memory::filled(0i64, bins);
        let one = ins.len() == 1;
        for (n, w) in numbers.iter().zip(weights.to_vec_as::<i64>()?) {
            sums[*n as usize] = sums[*n as usize].wrapping_add(if one { 1 } else { w });
        }
        // Truncation to the low bits equals wrap-around arithmetic in the type itself.
        let sums: Vec<T> = memory::collected(sums.into_iter().map(|s| s as T));
        Ok(vec![new_array(&sums, &[most], ctx.context)?])
    }, d => Err(ctx.unsupported(d, NUMERIC))))
}

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
    /// Whether the indices are given by parameters, not by an array. A slice always has a step; without one, start and stop are
    /// ignored.
    fn is_constant(&self) -> bool {
        self.step.is_some() || self.int_ind.is_some()
    }
}

pub(super) static DELETE: OpDef = OpDef::new("_npi_delete")
    .doc("The array without some entries along an axis: one index, a slice, or the indices in an array.")
    .inputs(&[arg("arr", "The array."), arg("obj", "The indices; negative ones count from the end.")])
    .params::<DeleteParam>()
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
        let size = inner * x.dtype().size();
        read_bytes(x, |from| {
            write_bytes(&out, |to| {
                let offsets = (0..outer).flat_map(|o| kept.iter().map(move |i| (o * n + i) * size));
                for (at, to) in offsets.zip(to.chunks_exact_mut(size.max(1))) {
                    to.copy_from_slice(&from[at..at + size]);
                }
            });
        });
        Ok(vec![out])
    })
    .grad(Grad::Kernel(Backward::new(delete_backward).inputs(Deps::All), None));

/// The shape around the axis, and the indices along it that are kept.
fn kept_indices(
    p: &DeleteParam,
    shape: &Shape,
    indices: Option<&[i64]>,
) -> Result<((usize, usize, usize), Vec<usize>)> {
    let dims = shape.to_usize();
    let around = match p.axis {
        Some(axis) => around(&dims, Shape::axis(axis.into(), dims.len())?),
        None => (1, dims.iter().product(), 1),
    };
    let n = around.1;
    let mut is_kept = memory::filled(true, n);
    let mut remove = |i: i64| match Shape::axis(i, n) {
        Ok(i) => {
            is_kept[i] = false;
            Ok(())
        }
        Err(_) => Err(Error::Value(format!("index {i} is out of bounds for an axis of length {n}"))),
    };
    match (indices, p.int_ind) {
        (Some(indices), _) => indices.iter().try_for_each(|i| remove(*i))?,
        (None, Some(i)) => remove(i.into())?,
        (None, None) => slice_indices(p.start, p.stop, p.step, n)?.into_iter().try_for_each(|i| remove(i as i64))?,
    }
    Ok((around, memory::collected((0..n).filter(|i| is_kept[*i]))))
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
    let (mut at, end) = match step > 0 {
        true => (bound(start, low), bound(stop, high)),
        false => (bound(start, high), bound(stop, low)),
    };
    let mut indices = Vec::new();
    while (step > 0 && at < end) || (step < 0 && at > end) {
        indices.push(at as usize);
        at += step;
    }
    Ok(indices)
}

/// The gradient of the kept entries, zeros for the removed ones.
fn delete_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (g, out) = (&ins[0], &mut outs[0]);
    let mut wide = Vec::new();
    if let Some(obj) = ins.get(2) {
        wide.resize(obj.len(), 0);
        <i64 as ferromx_kernels::map::Lane>::load_any(super::elements(obj)?, 0, &mut wide);
    }
    let indices = ins.get(2).map(|_| wide.as_slice());
    if out.wanted() {
        let ((outer, n, inner), kept) = kept_indices(ctx.params(), out.shape(), indices)?;
        let size = inner * g.dtype().size();
        let (g, to) = (g.bytes()?, out.bytes_mut()?);
        to.fill(0);
        let offsets = (0..outer).flat_map(|o| kept.iter().map(move |i| (o * n + i) * size));
        for (at, g) in offsets.zip(g.chunks_exact(size.max(1))) {
            to[at..at + size].copy_from_slice(g);
        }
    }
    if let Some(obj) = outs.get_mut(1).filter(|o| o.wanted()) {
        obj.bytes_mut()?.fill(0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, vector};

    #[test]
    fn nonzero_lists_indices() {
        let x = array(&[0f32, 3.0, f32::NAN, 0.0, 0.0, -1.0], &[2, 3]);
        let y = Case::new(&NONZERO, &[]).run1(&[x]).unwrap();
        assert_eq!((y.shape(), y.to_vec::<i64>().unwrap()), (&[3, 2].into(), vec![0, 1, 0, 2, 1, 2]));
        for (x, rows) in [(array(&[true], &[]), 1), (array(&[0u8], &[]), 0), (array::<u8>(&[], &[0]), 0)] {
            assert_eq!(*Case::new(&NONZERO, &[]).run1(&[x]).unwrap().shape(), [rows, 1].into());
        }
    }

    #[test]
    fn unique_elements_and_rows() {
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

    #[test]
    fn counts_of_numbers() {
        let run = |x: &[NDArray], weights, minlength| {
            Case::new(&BINCOUNT, &[("has_weights", weights), ("minlength", minlength)]).run1(x)
        };
        let x = array(&[1i32, 1, 3], &[3]);
        assert_eq!(run(std::slice::from_ref(&x), "0", "0").unwrap().to_vec::<i32>().unwrap(), [0, 2, 0, 1]);
        let y = run(&[x.clone(), array(&[0.5f32, 1.0, 2.0], &[3])], "1", "5").unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [0.0, 1.5, 0.0, 2.0, 0.0]);
        assert!(run(&[array(&[-1i32], &[1])], "0", "0").unwrap_err().to_string().contains("negative"));
        assert!(run(&[vector(DType::F32, &[1.0])], "0", "0").unwrap_err().to_string().contains("takes integers"));
    }

    #[test]
    fn entries_are_removed() {
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
