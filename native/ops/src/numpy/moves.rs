//! Data movement: transposes, flips, rotations, rolls, broadcasts and triangles.

use ferromx_core::dtype::{bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{ArgDef, OpCtx, OpDef, arg};
use ferromx_core::params::{Params, ShapeOrNone};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::map::Arith;
use ferromx_kernels::movement;
use ferromx_kernels::par::with_scratch;
use ferromx_kernels::reduce::{self, Sum};

use super::reduce::resolve;
use crate::broadcast::binary::sum_to;
use crate::elemwise::family::NUMERIC;
use crate::reduce::axes::Axes;
use crate::shape::axes::permute;
use crate::shape::moves::{around, by_size, source, target};

/// The operators of this file.
pub(super) static OPS: &[&OpDef] = &[&TRANSPOSE, &MOVEAXIS, &FLIP, &ROT90, &ROLL, &BROADCAST_TO, &TRIL];

const A: &[ArgDef] = &[arg("a", "The array.")];

params! {
    /// Parameters of `_np_transpose`.
    pub struct TransposeParam {
        /// For each axis of the result, the axis of the array that becomes it; by default all axes in reverse order.
        axes: Shape = (Shape::unknown());
    }
}

pub(super) static TRANSPOSE: OpDef = OpDef::new("_np_transpose")
    .doc("Permutes the axes: axis i of the result is axis `axes[i]` of the array.")
    .inputs(A)
    .params::<TransposeParam>()
    .shape(|p, io| permuted_shape(io, |rank| permutation(p.get(), rank)))
    .forward(|ctx, ins, outs| {
        let axes = permutation(ctx.params(), ins[0].shape().dims().len())?;
        permute(&ins[0], &ins[0].shape().to_usize(), &axes, &mut outs[0])
    })
    .grad(Grad::Compose(|g, n| {
        let axes = &n.params.get::<TransposeParam>().axes;
        let inverse = match axes.ndim() {
            None => Shape::unknown(),
            Some(rank) => {
                let forward = permutation(n.params.get(), rank)?;
                Shape::from(
                    (0..rank).map(|i| forward.iter().position(|a| *a == i).unwrap_or(i) as i64).collect::<Dims>(),
                )
            }
        };
        Ok(vec![Some(g.apply1("_np_transpose", &n.ograds[..1], &[("axes", &inverse.to_string())])?)])
    }));

/// The permutation of `rank` axes.
fn permutation(p: &TransposeParam, rank: usize) -> Result<Vec<usize>> {
    let Some(given) = p.axes.ndim() else { return Ok((0..rank).rev().collect()) };
    ensure!(given == rank, "axes={} does not match the array, which has {rank} axes", p.axes);
    let axes = p.axes.dims().iter().map(|a| Shape::axis(*a, rank)).collect::<Result<Vec<_>>>()?;
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    ensure!(
        sorted.into_iter().eq(0..rank),
        "ValueError: repeated axis in transpose: axes={} is not a permutation: list each of the {rank} axes once",
        p.axes
    );
    Ok(axes)
}

/// Shape rule of permutations, which infers in both directions.
fn permuted_shape(io: &mut ShapeIo<'_>, permutation: impl Fn(usize) -> Result<Vec<usize>>) -> Result<()> {
    let Some(rank) = io.ins[0].ndim().or(io.outs[0].ndim()) else { return Ok(()) };
    let axes = permutation(rank)?;
    if io.ins[0].ndim_is_known() {
        let out: Dims = axes.iter().map(|a| io.ins[0].dim(*a)).collect();
        io.assign_out(0, &Shape::from(out))?;
    }
    let mut back: Dims = std::iter::repeat_n(-1, rank).collect();
    for (a, d) in axes.iter().zip(io.outs[0].dims()) {
        back[*a] = *d;
    }
    io.assign_in(0, &Shape::from(back))
}

params! {
    /// Parameters of `_np_moveaxis`.
    pub struct MoveaxisParam {
        /// The axes to move.
        source: Shape = required;
        /// The position of each moved axis in the result; the other axes keep their order.
        destination: Shape = required;
    }
}

pub(crate) static MOVEAXIS: OpDef = OpDef::new("_np_moveaxis")
    .doc("Moves axes to other positions; the others keep their order.")
    .inputs(A)
    .params::<MoveaxisParam>()
    .shape(|p, io| permuted_shape(io, |rank| moved(p.get(), rank)))
    .forward(|ctx, ins, outs| {
        let axes = moved(ctx.params(), ins[0].shape().dims().len())?;
        permute(&ins[0], &ins[0].shape().to_usize(), &axes, &mut outs[0])
    })
    .grad(Grad::Compose(|g, n| {
        let p = n.params.get::<MoveaxisParam>();
        let attrs = [("source", p.destination.to_string()), ("destination", p.source.to_string())];
        let attrs = attrs.each_ref().map(|(k, v)| (*k, v.as_str()));
        Ok(vec![Some(g.apply1("_np_moveaxis", &n.ograds[..1], &attrs)?)])
    }));

/// The permutation that moves the axes.
fn moved(p: &MoveaxisParam, rank: usize) -> Result<Vec<usize>> {
    let (from, to) = (p.source.dims(), p.destination.dims());
    ensure!(
        from.len() == to.len(),
        "source={} and destination={} must have the same number of axes",
        p.source,
        p.destination
    );
    let resolve = |axes: &[i64], name: &str| {
        let resolved = axes.iter().map(|a| Shape::axis(*a, rank)).collect::<Result<Vec<_>>>()?;
        let mut sorted = resolved.clone();
        sorted.sort_unstable();
        ensure!(sorted.windows(2).all(|w| w[0] < w[1]), "{name}={} names an axis twice", Shape::new(axes));
        Ok(resolved)
    };
    let (from, to) = (resolve(from, "source")?, resolve(to, "destination")?);
    let mut rest = (0..rank).filter(|a| !from.contains(a));
    let axis = |i: usize| to.iter().position(|t| *t == i).map(|k| from[k]);
    Ok((0..rank).map(|i| axis(i).or_else(|| rest.next()).unwrap_or(i)).collect())
}

params! {
    /// Parameters of `_npi_flip`.
    pub struct FlipParam {
        /// The axes to reverse; negative ones count from the last, () reverses nothing,
        /// None reverses all.
        axis: Shape = required;
    }
}

pub(crate) static FLIP: OpDef = OpDef::new("_npi_flip")
    .names_data()
    .doc("Reverses the order of the elements along some axes.")
    .params::<FlipParam>()
    .forward(|ctx, ins, outs| {
        let dims = ins[0].shape().to_usize();
        let axes = flipped_axes(&ctx.params::<FlipParam>().axis, dims.len())?;
        by_size!(ins[0].dtype(), |T| movement::flip(source::<T>(&ins[0])?, &dims, &axes, target::<T>(&mut outs[0])?));
        Ok(())
    })
    .grad(Grad::Compose(|g, n| Ok(vec![Some(g.apply1("_npi_flip", &n.ograds[..1], n.attrs)?)])));

/// The axes that are reversed an odd number of times; a second reversal undoes the first.
fn flipped_axes(axis: &Shape, rank: usize) -> Result<Axes> {
    if !axis.ndim_is_known() {
        return Ok((0..rank).collect());
    }
    let given = axis.dims().iter().map(|a| Shape::axis(*a, rank)).collect::<Result<Axes>>()?;
    Ok((0..rank).filter(|a| given.iter().filter(|g| *g == a).count() % 2 == 1).collect())
}

params! {
    /// Parameters of `_npi_rot90`.
    pub struct Rot90Param {
        /// The number of rotations by 90 degrees; negative numbers rotate the other way.
        k: i32 = 1;
        /// The two axes of the plane; the rotation is from the first towards the second.
        axes: ShapeOrNone = (ShapeOrNone(None));
    }
}

pub(super) static ROT90: OpDef = OpDef::new("_npi_rot90")
    .names_data()
    .doc("Rotates by k times 90 degrees in the plane of two axes.")
    .params::<Rot90Param>()
    .shape(|p, io| {
        let p = p.get::<Rot90Param>();
        permuted_shape(io, |rank| Ok(rotation(p, rank)?.0))
    })
    .forward(|ctx, ins, outs| {
        let dims = ins[0].shape().to_usize();
        let (perm, flipped) = rotation(ctx.params(), dims.len())?;
        by_size!(ins[0].dtype(), |T| {
            movement::permute_flip(source::<T>(&ins[0])?, &dims, &perm, &flipped, target::<T>(&mut outs[0])?);
        });
        Ok(())
    })
    .grad(Grad::Compose(|g, n| {
        let p = n.params.get::<Rot90Param>();
        let k = (-(p.k.rem_euclid(4))).to_string();
        let axes = p.axes.0.as_ref().map_or("None".to_string(), Shape::to_string);
        Ok(vec![Some(g.apply1("_npi_rot90", &n.ograds[..1], &[("k", &k), ("axes", &axes)])?)])
    }));

/// A rotation as a permutation of axes and a reversal of some of them.
fn rotation(p: &Rot90Param, rank: usize) -> Result<(Vec<usize>, Vec<bool>)> {
    let given = p.axes.0.as_ref().map_or(&[][..], Shape::dims);
    let [a, b] = given[..] else {
        ensure!(false, "axes must be the two axes of a plane, {} were given", given.len());
        return Ok((Vec::new(), Vec::new()));
    };
    let k = p.k.rem_euclid(4);
    if k == 0 {
        // MXNet does not look at the axes of a rotation that changes nothing.
        return Ok(((0..rank).collect(), vec![false; rank]));
    }
    let (a, b) = (Shape::axis(a, rank)?, Shape::axis(b, rank)?);
    ensure!(a != b, "axes={} must be two different axes", Shape::new(given));
    let mut perm: Vec<usize> = (0..rank).collect();
    if k % 2 == 1 {
        perm.swap(a, b);
    }
    let mut flipped = vec![false; rank];
    flipped[a] = k >= 2;
    flipped[b] = k == 1 || k == 2;
    Ok((perm, flipped))
}

params! {
    /// Parameters of `_np_roll`.
    pub struct RollParam {
        /// The shift: one number, or one for each axis.
        shift: ShapeOrNone = (ShapeOrNone(None));
        /// The axes to roll; by default the flattened array is rolled.
        axis: ShapeOrNone = (ShapeOrNone(None));
    }
}

pub(super) static ROLL: OpDef = OpDef::new("_np_roll")
    .names_data()
    .doc("Rolls the elements along axes; those beyond the last position re-enter at the first.")
    .params::<RollParam>()
    .shape(|p, io| {
        if let Some(rank) = io.ins[0].ndim() {
            rolls(p.get(), rank)?;
        }
        ferromx_core::infer::same_shape(p, io)
    })
    .forward(roll)
    .grad(Grad::Compose(|g, n| {
        let p = n.params.get::<RollParam>();
        let back: Dims = p.shift.0.as_ref().map_or(&[][..], Shape::dims).iter().map(|s| s.saturating_neg()).collect();
        let axis = p.axis.0.as_ref().map_or("None".to_string(), Shape::to_string);
        let shift = Shape::from(back).to_string();
        Ok(vec![Some(g.apply1("_np_roll", &n.ograds[..1], &[("shift", &shift), ("axis", &axis)])?)])
    }));

/// The rolled axes with their shifts; `None` stands for the flattened array.
fn rolls(p: &RollParam, rank: usize) -> Result<Vec<(Option<usize>, i64)>> {
    let Some(shift) = &p.shift.0 else {
        ensure!(false, "shift is missing: give a number, or one for each axis");
        return Ok(Vec::new());
    };
    let Some(axis) = &p.axis.0 else {
        ensure!(shift.dims().len() == 1, "shift={shift} must be one number if no axis is given");
        return Ok(vec![(None, shift.dim(0))]);
    };
    let (shifts, n) = (shift.dims(), axis.dims().len());
    ensure!(shifts.len() == n || shifts.len() == 1, "shift={shift} and axis={axis} must have the same length");
    resolve(&p.axis, rank)?;
    let each = axis.dims().iter().enumerate();
    each.map(|(i, a)| Ok((Some(Shape::axis(*a, rank)?), shifts[if shifts.len() == 1 { 0 } else { i }]))).collect()
}

fn roll(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let dims = ins[0].shape().to_usize();
    if ins[0].is_empty() {
        return Ok(());
    }
    let mut moves = Vec::new();
    for (axis, shift) in rolls(ctx.params(), dims.len())? {
        let around = axis.map_or((1, ins[0].len(), 1), |axis| around(&dims, axis));
        moves.push((around, shift.rem_euclid(around.1 as i64) as usize));
    }
    by_size!(ins[0].dtype(), |T| {
        let (src, dst) = (source::<T>(&ins[0])?, target::<T>(&mut outs[0])?);
        match &moves[..] {
            [] => dst.copy_from_slice(src),
            [(around, shift), rest @ ..] => {
                movement::roll(src, *around, *shift, dst);
                for (around, shift) in rest {
                    with_scratch(dst.len(), |before: &mut [T]| {
                        before.copy_from_slice(dst);
                        movement::roll(before, *around, *shift, dst);
                    });
                }
            }
        }
    });
    Ok(())
}

params! {
    /// Parameters of `_npi_broadcast_to`.
    pub struct BroadcastToParam {
        /// The shape of the result; -2 keeps the length of the array.
        shape: Shape = (Shape::new(&[]));
    }
}

pub(crate) static BROADCAST_TO: OpDef = OpDef::new("_npi_broadcast_to")
    .doc("Repeats the array along axes of length 1, and along new axes in front, to another shape.")
    .inputs(&[arg("array", "The array.")])
    .params::<BroadcastToParam>()
    .shape(broadcast_to_shape)
    .forward(|_, ins, outs| {
        let (from, to) = (ins[0].shape().to_usize(), outs[0].shape().to_usize());
        by_size!(ins[0].dtype(), |T| {
            movement::broadcast_to(source::<T>(&ins[0])?, &from, (target::<T>(&mut outs[0])?, &to));
        });
        Ok(())
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let (from, to) = (ins[0].shape().to_usize(), outs[0].shape().to_usize());
            sum_to(ctx, &ins[0], (&from, &to), &mut outs[0])
        }),
        None,
    ));

fn broadcast_to_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let (from, to) = (io.ins[0].clone(), &p.get::<BroadcastToParam>().shape);
    let (Some(n), m) = (from.ndim(), to.dims().len()) else { return Ok(()) };
    let mut out: Dims = to.dims().into();
    let mut fits = n <= m;
    for i in 0..n.min(m) {
        let (have, want) = (from.dim(n - 1 - i), &mut out[m - 1 - i]);
        if *want == -2 {
            *want = have;
        }
        fits &= have < 0 || have == 1 || have == *want;
    }
    ensure!(fits && out.iter().all(|d| *d >= 0 || !from.is_known()), "shape {from} is not broadcastable to {to}");
    io.assign_out(0, &Shape::from(out))
}

params! {
    /// Parameters of `_npi_tril`.
    pub struct TrilParam {
        /// The last diagonal that is kept: 0 is the main one, positive numbers are above it.
        k: i32 = 0;
    }
}

pub(super) static TRIL: OpDef = OpDef::new("_npi_tril").names_data()
    .doc(
        "The lower triangles of the matrices in the last two axes, with zeros above diagonal k. A vector of n elements is broadcast to \
         n equal rows.",
    )
    .params::<TrilParam>()
    .shape(|_, io| match io.ins[0].dims() {
        _ if !io.ins[0].ndim_is_known() => Ok(()),
        [] => Err(ferromx_core::error::Error::Value("tril needs an array of at least one axis".into())),
        [n] => {
            let square = Shape::new(&[*n, *n]);
            io.assign_out(0, &square)
        }
        _ => {
            let shape = io.ins[0].clone();
            io.assign_out(0, &shape)?;
            let shape = io.outs[0].clone();
            io.assign_in(0, &shape)
        }
    })
    .forward(|ctx, ins, outs| {
        let (rows, columns) = matrix(outs[0].shape());
        by_size!(ins[0].dtype(), |T| {
            let k = ctx.params::<TrilParam>().k;
            lower(source::<T>(&ins[0])?, rows, columns, k.into(), target::<T>(&mut outs[0])?);
        });
        Ok(())
    })
    .grad(Grad::Kernel(Backward::new(tril_backward), None));

/// Rows and columns of the matrices in the last two axes.
fn matrix(shape: &Shape) -> (usize, usize) {
    let dims = shape.to_usize();
    (dims[dims.len() - 2], dims[dims.len() - 1])
}

/// Copies the elements on and below diagonal `k`; a source of a single row is broadcast.
fn lower<T: Copy + Default>(src: &[T], rows: usize, columns: usize, k: i64, dst: &mut [T]) {
    if columns == 0 {
        return;
    }
    for (i, out) in dst.chunks_exact_mut(columns).enumerate() {
        let kept = (((i % rows) as i64 + k + 1).max(0) as usize).min(columns);
        let at = if src.len() == columns { 0 } else { i * columns };
        out[..kept].copy_from_slice(&src[at..at + kept]);
        out[kept..].fill(T::default());
    }
}

fn tril_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (g, k) = (&ins[0], i64::from(ctx.params::<TrilParam>().k));
    let (rows, columns) = matrix(g.shape());
    if outs[0].shape().dims().len() > 1 {
        by_size!(g.dtype(), |T| lower(source::<T>(g)?, rows, columns, k, target::<T>(&mut outs[0])?));
        return Ok(());
    }
    dispatch!(g.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        with_scratch(g.len(), |masked: &mut [T]| {
            lower(g.slice::<T>()?, rows, columns, k, masked);
            reduce::reduce::<Sum, T, T, <T as Arith>::Lane>(masked, &[rows, columns], &[0], outs[0].slice_mut()?);
            Ok(())
        })
    }, d => Err(ctx.unsupported(d, NUMERIC)))
}

#[cfg(test)]
mod tests {
    use ferromx_core::dtype::DType;

    use super::*;
    use crate::testing::{Case, array};

    fn counted(dims: &[i64]) -> ferromx_core::ndarray::NDArray {
        array(&(0..dims.iter().product::<i64>()).map(|i| i as f64).collect::<Vec<_>>(), dims)
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x = counted(&[2, 3, 2]);
        let cases: &[(&'static OpDef, &[(&str, &str)])] = &[
            (&TRANSPOSE, &[]),
            (&TRANSPOSE, &[("axes", "(1, 2, 0)")]),
            (&MOVEAXIS, &[("source", "(0, 1)"), ("destination", "(-1, 0)")]),
            (&FLIP, &[("axis", "(0, -1)")]),
            (&ROT90, &[("k", "1"), ("axes", "(0, 2)")]),
            (&ROT90, &[("k", "-3"), ("axes", "(1, 0)")]),
            (&ROLL, &[("shift", "5")]),
            (&ROLL, &[("shift", "(1, -2)"), ("axis", "(0, 1)")]),
            (&BROADCAST_TO, &[("shape", "(2, 2, 3, 2)")]),
            (&TRIL, &[("k", "-1")]),
        ];
        for (def, attrs) in cases {
            Case::new(def, attrs).check_gradient(std::slice::from_ref(&x));
        }
        Case::new(&TRIL, &[("k", "1")]).check_gradient(&[counted(&[3])]);
        Case::new(&BROADCAST_TO, &[("shape", "(3, -2)")]).check_gradient(&[counted(&[1, 2])]);
    }

    #[test]
    fn invalid_axes_are_refused() {
        let error =
            |def, attrs: &[(&str, &str)]| Case::new(def, attrs).shapes(&[Shape::new(&[2, 3])]).unwrap_err().to_string();
        assert!(error(&TRANSPOSE, &[("axes", "()")]).contains("does not match"));
        assert!(error(&TRANSPOSE, &[("axes", "(0, 0)")]).contains("not a permutation"));
        assert!(error(&MOVEAXIS, &[("source", "(0, 0)"), ("destination", "(0, 1)")]).contains("names an axis twice"));
        assert!(error(&ROLL, &[]).contains("shift is missing"));
        assert!(error(&ROT90, &[]).contains("two axes"));
        assert!(error(&BROADCAST_TO, &[("shape", "(3,)")]).contains("not broadcastable"));
    }

    #[test]
    fn types_do_not_matter() {
        for dtype in DType::ALL {
            let x = crate::testing::cast(&counted(&[2, 2]), dtype);
            let y = Case::new(&ROT90, &[("k", "2"), ("axes", "(0, 1)")]).run1(std::slice::from_ref(&x)).unwrap();
            assert_eq!((y.dtype(), y.to_vec_as::<f64>().unwrap()[3]), (dtype, 0.0));
            assert_eq!(Case::new(&TRIL, &[]).run1(&[x]).unwrap().to_vec_as::<f64>().unwrap()[1], 0.0);
        }
    }
}
