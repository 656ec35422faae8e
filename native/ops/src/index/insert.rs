//! `insert`: inserts entries along an axis before one index, the indices of a slice, or the indices in an array.

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, memory, params};
use ferromx_kernels::map::Lane;
use ferromx_kernels::movement::{self, Entries};
use ferromx_kernels::reduce::reduce_to_shape;

use super::delete::slice_indices;
use crate::axes::outer_len_inner;
use crate::elemwise::family::{elements, elements_mut, load_lanes};
use crate::rules::first_dtype;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&INSERT_SCALAR, &INSERT_SLICE, &INSERT_TENSOR];

params! {
    /// Parameters of `_npi_insert_scalar`, `_npi_insert_slice` and `_npi_insert_tensor`.
    pub struct InsertParam {
        /// The number to insert, instead of an array of values.
        val: Option<f64> = None;
        /// The first index of the slice.
        start: Option<i32> = None;
        /// The end (exclusive) of the slice.
        stop: Option<i32> = None;
        /// The step of the slice.
        step: Option<i32> = None;
        /// A single index.
        int_ind: Option<i32> = None;
        /// The axis along which entries are inserted; by default the array is flattened.
        axis: Option<i32> = None;
    }
}

const ARR: ArgDef = arg("arr", "The array.");
const VALUES: ArgDef =
    arg("values", "The values to insert, broadcast to the inserted entries and converted to the type of the array.");

const OBJ: ArgDef = arg("obj", "The indices before which entries are inserted; negative ones count from the end.");

/// How the indices are given.
#[derive(Clone, Copy, PartialEq)]
enum IndexKind {
    Index,
    Slice,
    Array,
}

/// Defines one of the operators.
macro_rules! insert {
    ($name:ident: $op:literal, $inputs:expr, $kind:expr, $doc:literal) => {
        pub(crate) static $name: Operator<InsertParam> = Operator::new($op)
            .doc(concat!(
                "Inserts entries along an axis ",
                $doc,
                " With a single index, several entries can be inserted before it."
            ))
            .inputs($inputs)
            .num_inputs_by(|p| {
                1 + usize::from(p.get::<InsertParam>().val.is_none()) + usize::from($kind == IndexKind::Array)
            })
            .input_names_by(|p| {
                let values = p.get::<InsertParam>().val.is_none().then_some("values");
                let obj = ($kind == IndexKind::Array).then_some("obj");
                ["arr"].into_iter().chain(values).chain(obj).map(str::to_string).collect()
            })
            .shape(|p, io| insert_shape(p, io, $kind))
            .dtype(first_dtype)
            .forward(|ctx, ins, outs| insert(ctx, ins, $kind, &mut outs[0]))
            .grad(Grad::Kernel(
                Backward::new(|ctx, ins, outs| backward(ctx, ins, $kind, outs)).inputs(Deps::All),
                None,
            ));
    };
}

insert!(INSERT_SCALAR: "_npi_insert_scalar", &[ARR, VALUES], IndexKind::Index, "before one index.");
insert!(INSERT_SLICE: "_npi_insert_slice", &[ARR, VALUES], IndexKind::Slice, "before each index of a slice.");
insert!(INSERT_TENSOR: "_npi_insert_tensor", &[ARR, VALUES, OBJ], IndexKind::Array, "before each index in an array.");

/// The arrays whose entries make up the result.
const OLD: usize = 0;
const INSERTED: usize = 1;

/// How values are broadcast to the inserted entries. As in NumPy, the first axis of the values is moved to `axis` if there is a single
/// index.
struct Insertion {
    /// The shape of the array, or its length if it is flattened.
    dims: Vec<usize>,
    axis: usize,
    /// The shape of the values, padded with leading ones to the rank of the array.
    values: Vec<usize>,
    /// The axis of the values for each axis of the inserted entries.
    perm: Vec<usize>,
    num_indices: usize,
    /// Number of inserted entries.
    num_inserted: usize,
}

impl Insertion {
    fn new(p: &InsertParam, arr: &Shape, values: &[usize], obj: Option<&Shape>, kind: IndexKind) -> Result<Insertion> {
        let (dims, axis) = match p.axis {
            Some(axis) => (arr.to_usize().to_vec(), Shape::axis(axis.into(), arr.dims().len())?),
            None => (vec![arr.num_elements()], 0),
        };
        let num_indices = match kind {
            IndexKind::Index => 1,
            IndexKind::Slice => slice_indices(p.start, p.stop, p.step, dims[axis])?.len(),
            IndexKind::Array => obj.map_or(1, |o| o.to_usize().iter().product()),
        };
        let is_single = kind == IndexKind::Index || obj.is_some_and(|o| o.dims().is_empty());
        let rank = dims.len();
        ensure!(
            values.len() <= rank,
            "values of shape {} have more axes than the array, which has {rank}",
            Shape::from_usize(values)
        );
        let values: Vec<usize> = std::iter::repeat_n(1, rank - values.len()).chain(values.iter().copied()).collect();
        let mut perm: Vec<usize> = (0..rank).collect();
        if is_single {
            let first = perm.remove(0);
            perm.insert(axis, first);
        }
        let num_inserted = if num_indices == 1 { values[perm[axis]] } else { num_indices };
        let insertion = Insertion { dims, axis, values, perm, num_indices, num_inserted };
        for (i, (have, want)) in insertion.permuted_shape().into_iter().zip(insertion.inserted_shape()).enumerate() {
            ensure!(
                have == want || have == 1,
                "the values have length {have} along axis {i}, but {want} entries are inserted"
            );
        }
        Ok(insertion)
    }

    /// The shape of the values after the permutation.
    fn permuted_shape(&self) -> Vec<usize> {
        self.perm.iter().map(|i| self.values[*i]).collect()
    }

    /// The shape of the inserted entries.
    fn inserted_shape(&self) -> Vec<usize> {
        let mut dims = self.dims.clone();
        dims[self.axis] = self.num_inserted;
        dims
    }

    /// The ranges of entries that make up the result, in order.
    fn runs(&self, p: &InsertParam, obj: Option<&[i64]>, kind: IndexKind) -> Result<Vec<Entries>> {
        let n = self.dims[self.axis];
        let indices: Vec<i64> = match (kind, obj) {
            (IndexKind::Index, _) => vec![p.int_ind.unwrap_or(0).into()],
            (IndexKind::Slice, _) => slice_indices(p.start, p.stop, p.step, n)?.into_iter().map(|i| i as i64).collect(),
            (IndexKind::Array, obj) => obj.unwrap_or(&[]).to_vec(),
        };
        let mut targets = Vec::with_capacity(indices.len());
        for i in indices {
            let target = if i < 0 { i + n as i64 } else { i };
            ensure!((0..=n as i64).contains(&target), "index {i} is out of bounds: use -{n} to {n}");
            targets.push(target as usize);
        }
        // For each inserted entry, the index in the array before which it is inserted, and its index in the values.
        let mut inserted: Vec<(usize, usize)> = match targets[..] {
            [one] if self.num_indices == 1 => (0..self.num_inserted).map(|k| (one, k)).collect(),
            _ => targets.iter().copied().zip(0..).collect(),
        };
        inserted.sort_by_key(|(target, _)| *target);
        let mut runs = Vec::with_capacity(2 * inserted.len() + 1);
        // The first entry of the array that is in no run yet.
        let mut next = 0;
        for (target, k) in inserted {
            if target > next {
                runs.push(Entries { array: OLD, range: next..target });
                next = target;
            }
            match runs.last_mut() {
                Some(Entries { array: INSERTED, range }) if range.end == k => range.end += 1,
                _ => runs.push(Entries { array: INSERTED, range: k..k + 1 }),
            }
        }
        runs.push(Entries { array: OLD, range: next..n });
        Ok(runs)
    }
}

fn insert_shape(p: &Params, io: &mut ShapeIo<'_>, kind: IndexKind) -> Result<()> {
    let p = p.get::<InsertParam>();
    if io.ins.iter().any(|s| !s.is_known()) {
        return Ok(());
    }
    let values = if p.val.is_some() { Vec::new() } else { io.ins[1].to_usize().to_vec() };
    let obj = (kind == IndexKind::Array).then(|| io.ins[io.ins.len() - 1].clone());
    let insertion = Insertion::new(p, &io.ins[0], &values, obj.as_ref(), kind)?;
    let mut dims: Dims = insertion.dims.iter().map(|d| *d as i64).collect();
    dims[insertion.axis] += insertion.num_inserted as i64;
    if kind == IndexKind::Index {
        // Checks the index.
        insertion.runs(p, None, kind)?;
    }
    io.assign_out(0, &Shape::from(dims))
}

/// The insertion of a call, and the runs of its result. `rest` has the inputs after the array.
fn insertion_and_runs(
    p: &InsertParam,
    arr: &Shape,
    rest: &[In<'_>],
    kind: IndexKind,
) -> Result<(Insertion, Vec<Entries>)> {
    let values = if p.val.is_some() { None } else { rest.first() };
    let obj = if kind == IndexKind::Array { rest.last() } else { None };
    let dims = values.map_or(Vec::new(), |v| v.shape().to_usize().to_vec());
    let insertion = Insertion::new(p, arr, &dims, obj.map(In::shape), kind)?;
    let indices = obj.map(load_lanes::<i64>).transpose()?;
    let runs = insertion.runs(p, indices.as_deref(), kind)?;
    Ok((insertion, runs))
}

fn insert(ctx: &OpCtx<'_>, ins: &[In<'_>], kind: IndexKind, out: &mut Out<'_>) -> Result<()> {
    let p = ctx.params::<InsertParam>();
    let (insertion, runs) = insertion_and_runs(p, ins[0].shape(), &ins[1..], kind)?;
    let (outer, n, inner) = outer_len_inner(&insertion.dims, insertion.axis);
    dispatch!(out.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
        let values: Vec<T> = match p.val {
            Some(number) => vec![T::from_f64(number)],
            None if ins[1].dtype() == T::DTYPE => ins[1].slice::<T>()?.to_vec(),
            None => {
                let mut wide = memory::filled(0.0, ins[1].len());
                f64::load_any(elements(&ins[1])?, 0, &mut wide);
                wide.into_iter().map(T::from_f64).collect()
            }
        };
        let mut transposed = memory::filled(T::default(), values.len());
        movement::transpose(&values, &insertion.values, &insertion.perm, &mut transposed);
        let entries = insertion.inserted_shape();
        let mut new = memory::filled(T::default(), entries.iter().product());
        movement::broadcast_to(&transposed, &insertion.permuted_shape(), (&mut new, &entries));
        let arrays = [(ins[0].slice::<T>()?, n), (&new[..], insertion.num_inserted)];
        movement::join_entries(&arrays, &runs, (outer, inner), out.slice_mut::<T>()?);
        Ok(())
    }, d => Err(ctx.unsupported(d, &DType::ALL)))
}

/// Copies the gradient of each entry back to the array or the values. That of the values is summed over broadcast axes.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], kind: IndexKind, outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<InsertParam>();
    let (insertion, runs) = insertion_and_runs(p, ins[1].shape(), &ins[2..], kind)?;
    let (outer, n, inner) = outer_len_inner(&insertion.dims, insertion.axis);
    let mut g = memory::filled(0.0, ins[0].len());
    f64::load_any(elements(&ins[0])?, 0, &mut g);
    let mut old = memory::filled(0.0, outer * n * inner);
    let mut new = memory::filled(0.0, outer * insertion.num_inserted * inner);
    let mut arrays = [(&mut old[..], n), (&mut new[..], insertion.num_inserted)];
    movement::split_entries(&g, &runs, (outer, inner), &mut arrays);
    let has_values = p.val.is_none();
    for (k, out) in outs.iter_mut().enumerate().filter(|(_, out)| out.wanted()) {
        match k {
            0 => f64::store_any(&old, elements_mut(out)?),
            1 if has_values => {
                let shape = insertion.permuted_shape();
                let mut sums = memory::filled(0.0, shape.iter().product());
                reduce_to_shape::<f64, f64>(&new, &insertion.inserted_shape(), &shape, &mut sums);
                let mut inverse = memory::filled(0, insertion.perm.len());
                insertion.perm.iter().enumerate().for_each(|(i, p)| inverse[*p] = i);
                let mut values = memory::filled(0.0, sums.len());
                movement::transpose(&sums, &shape, &inverse, &mut values);
                f64::store_any(&values, elements_mut(out)?);
            }
            1 | 2 => out.bytes_mut()?.fill(0),
            _ => return Err(Error::Internal("insert has at most three inputs".into())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ferromx_core::ndarray::NDArray;

    use super::*;
    use crate::testing::{Case, array};

    fn a() -> NDArray {
        array(&[0f64, 1.0, 2.0, 3.0, 4.0, 5.0], &[2, 3])
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let check = |def, attrs: &[(&str, &str)], rest: &[NDArray]| {
            Case::new(def, attrs).check_gradient(&[&[a()], rest].concat());
        };
        check(&INSERT_SCALAR, &[("int_ind", "1"), ("axis", "1")], &[array(&[7.0, 8.0], &[2])]);
        check(&INSERT_SCALAR, &[("int_ind", "1"), ("axis", "1")], &[array(&[7.0, 8.0], &[2, 1])]);
        check(&INSERT_SCALAR, &[("int_ind", "-1"), ("val", "2.5")], &[]);
        check(&INSERT_SLICE, &[("stop", "4"), ("step", "2")], &[array(&[7.0], &[1])]);
        check(&INSERT_TENSOR, &[("axis", "1")], &[array(&[7.0, 8.0], &[2]), array(&[2i64, 0], &[2])]);
        check(&INSERT_TENSOR, &[("axis", "0"), ("val", "1")], &[array(&[1i32], &[1])]);
    }

    #[test]
    fn entries_are_inserted_before_their_indices() {
        let run = |def, attrs: &[(&str, &str)], rest: &[NDArray]| {
            Case::new(def, attrs).run1(&[&[a()], rest].concat()).unwrap().to_vec::<f64>().unwrap()
        };
        let two = array(&[7.0, 8.0], &[2]);
        let axis = [("int_ind", "1"), ("axis", "1")];
        assert_eq!(run(&INSERT_SCALAR, &axis, std::slice::from_ref(&two)), [0.0, 7.0, 1.0, 2.0, 3.0, 8.0, 4.0, 5.0]);
        let column = array(&[7.0, 8.0], &[2, 1]);
        assert_eq!(run(&INSERT_SCALAR, &axis, &[column]), [0.0, 7.0, 8.0, 1.0, 2.0, 3.0, 7.0, 8.0, 4.0, 5.0]);
        let obj = array(&[2i64, 0], &[2]);
        assert_eq!(run(&INSERT_TENSOR, &[], &[two, obj]), [8.0, 0.0, 1.0, 7.0, 2.0, 3.0, 4.0, 5.0]);
        let seven = array(&[7.0], &[1]);
        assert_eq!(
            run(&INSERT_SLICE, &[("stop", "4"), ("step", "2")], &[seven]),
            [7.0, 0.0, 1.0, 7.0, 2.0, 3.0, 4.0, 5.0]
        );
    }

    #[test]
    fn invalid_indices_are_refused() {
        let error = |attrs: &[(&str, &str)], values: &[i64]| {
            Case::new(&INSERT_SCALAR, attrs).shapes(&[[2, 3].into(), Shape::new(values)]).unwrap_err().to_string()
        };
        assert!(error(&[("int_ind", "4"), ("axis", "1")], &[2]).contains("out of bounds"));
        assert!(error(&[("int_ind", "1"), ("axis", "0")], &[2]).contains("have length 2 along axis 1"));
    }
}
