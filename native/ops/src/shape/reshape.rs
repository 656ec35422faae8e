//! Operators that reshape their input without copying.

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Entry, Grad, GradGraph, GradNode};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, ArgDef, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::{ensure, params};

use crate::compose::op;
use crate::rules::{RESHAPE_BACK, complete_from_size, first_dtype};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&RESHAPE, &FLATTEN, &RESHAPE_LIKE, &NP_RESHAPE, &NPX_RESHAPE];

params! {
    /// Parameters of `Reshape`.
    pub struct ReshapeParam {
        /// The target shape. A positive number is a dimension; 0 copies the input's dimension; -1 is inferred from the rest; -2
        /// copies all remaining dimensions; -3 takes the product of two; -4 splits one into the two numbers that follow.
        shape: Shape = (Shape::new(&[]));
        /// Whether special values are resolved from right to left instead of left to right.
        reverse: bool = false;
        /// Deprecated form of `shape`, in which 0 is inferred.
        target_shape: Shape = (Shape::new(&[]));
        /// Deprecated: whether the first dimension is kept, whatever `target_shape` says.
        keep_highest: bool = false;
    }
}

pub(crate) static RESHAPE: Operator<ReshapeParam> = Operator::new("Reshape")
    .aliases(&["reshape"])
    .doc(
        "Reshapes the input; the elements keep their row-major order and are not copied.\n\n\
         `Reshape(x, shape=(0, -1))` of x with shape (2, 3, 4) has shape (2, 12). See `shape` for the special values.",
    )
    .inputs(&[arg("data", "The array to reshape.")])
    .shape(reshape_shape)
    .view()
    .grad(Grad::Compose(RESHAPE_BACK));

fn reshape_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<ReshapeParam>();
    if !io.ins[0].ndim_is_known() {
        return Ok(());
    }
    let target = if !p.shape.dims().is_empty() {
        resolve_directed(io.ins[0].dims(), p.shape.dims(), p.reverse)?
    } else {
        // Without a target, one element becomes an array without axes, as in MXNet.
        let mut dims: Dims = p.target_shape.dims().iter().map(|d| if *d == 0 { -1 } else { *d }).collect();
        if let (true, Some(first)) = (p.keep_highest, dims.first_mut()) {
            *first = io.ins[0].dim(0);
        }
        dims
    };
    let mut out = Shape::from(target);
    complete_from_size(&mut out, &io.ins[0]);
    if io.ins[0].is_known() && io.ins[0].num_elements() > 0 {
        ensure!(
            out.is_known() || out.dims().iter().filter(|dim| **dim < 0).count() > 1,
            "cannot reshape {} with {} elements into {out}: the other dimensions must divide that number",
            io.ins[0],
            io.ins[0].num_elements()
        );
    }
    if io.ins[0].is_known() && out.is_known() {
        ensure!(
            io.ins[0].num_elements() == out.num_elements(),
            "Target shape size is different to source. Target: {out} with {} elements, Source: {} with {}",
            out.num_elements(),
            io.ins[0],
            io.ins[0].num_elements()
        );
    }
    io.assign_out(0, &out)?;
    let out = io.outs[0].clone();
    complete_from_size(&mut io.ins[0], &out);
    Ok(())
}

/// The shape that `Reshape` with shape `spec` gives to an array of shape `source`. The number of elements is not checked: a -1 becomes
/// the largest length for which the array has enough elements.
///
/// # Errors
/// Special values that the dimensions of `source` do not allow, and more than one -1.
pub fn target_shape(source: &Shape, spec: &[i64], reverse: bool) -> Result<Shape> {
    let mut target = resolve_directed(source.dims(), spec, reverse)?;
    if let Some(unknown) = target.iter().position(|d| *d < 0) {
        let known = target.iter().filter(|d| **d >= 0).try_fold(1i64, |n, d| n.checked_mul(*d));
        target[unknown] = known.map_or(0, |known| (source.checked_elements().unwrap_or(0) as i64) / known.max(1));
    }
    Ok(Shape::from(target))
}

/// Resolves the special values of `spec`, from right to left if `reverse` is set.
fn resolve_directed(dims: &[i64], spec: &[i64], reverse: bool) -> Result<Dims> {
    if !reverse {
        return resolve(dims, spec);
    }
    let flip = |d: &[i64]| d.iter().rev().copied().collect::<Dims>();
    Ok(flip(&resolve(&flip(dims), &reverse_spec(spec))?))
}

/// Reverses the target shape. Each -4 stays in front of the two dimensions that it splits into.
fn reverse_spec(spec: &[i64]) -> Dims {
    let mut out = Dims::new();
    let mut i = 0;
    let mut groups: Vec<&[i64]> = Vec::new();
    while i < spec.len() {
        let n = if spec[i] == -4 { 3.min(spec.len() - i) } else { 1 };
        groups.push(&spec[i..i + n]);
        i += n;
    }
    for g in groups.into_iter().rev() {
        match g {
            [-4, a, b] => out.extend([-4, *b, *a]),
            other => out.extend(other.iter().copied()),
        }
    }
    out
}

/// The two dimensions that -4 in `spec` splits `dim` into: those that follow it, of which one may be -1.
fn split_dim(dim: i64, [mut a, mut b]: [i64; 2], spec: &[i64]) -> Result<[i64; 2]> {
    ensure!(a != -1 || b != -1, "-4 in shape {} can infer only one of its two dimensions", Shape::new(spec));
    ensure!(a != 0 && b != 0, "a dimension after -4 in shape {} is 0", Shape::new(spec));
    if dim >= 0 {
        if a == -1 {
            a = dim / b;
        } else if b == -1 {
            b = dim / a;
        }
        ensure!(a * b == dim, "-4 in shape {} cannot split {dim} into {a} and {b}", Shape::new(spec));
    }
    Ok([a, b])
}

/// Resolves the special values of `spec` except -1, of which at most one remains if `dims` are known.
fn resolve(dims: &[i64], spec: &[i64]) -> Result<Dims> {
    let mut out = Dims::new();
    let mut src = 0;
    let mut i = 0;
    let next = |src: usize| {
        dims.get(src).copied().ok_or_else(|| {
            Error::Value(format!(
                "shape {} uses more dimensions than the input {} has",
                Shape::new(spec),
                Shape::new(dims)
            ))
        })
    };
    while i < spec.len() {
        match spec[i] {
            0 => {
                out.push(next(src)?);
                src += 1;
            }
            -1 => {
                out.push(-1);
                src += 1;
            }
            -2 => {
                out.extend(dims.iter().skip(src).copied());
                src = dims.len();
            }
            -3 => {
                let (a, b) = (next(src)?, next(src + 1)?);
                out.push(if a < 0 || b < 0 { -1 } else { a * b });
                src += 2;
            }
            -4 => {
                ensure!(i + 2 < spec.len(), "-4 in shape {} needs two numbers after it", Shape::new(spec));
                out.extend(split_dim(next(src)?, [spec[i + 1], spec[i + 2]], spec)?);
                src += 1;
                i += 2;
            }
            d if d > 0 => {
                out.push(d);
                src += 1;
            }
            d => ensure!(false, "{d} in shape {} has no meaning: use numbers of at least -4", Shape::new(spec)),
        }
        i += 1;
    }
    ensure!(
        out.iter().filter(|d| **d == -1).count() <= 1 || dims.iter().any(|d| *d < 0),
        "One and only one dim can be inferred: shape {} has more",
        Shape::new(spec)
    );
    Ok(out)
}

pub(crate) static FLATTEN: Operator = Operator::new("Flatten")
    .aliases(&["_npx_batch_flatten", "flatten"])
    .doc("Reshapes an input of shape (d1, d2, ..., dk) to a matrix of shape (d1, d2*...*dk), without copying.")
    .inputs(&[arg("data", "The array to flatten, of one or more dimensions.")])
    .shape(|_, io| {
        let Some(n) = io.ins[0].ndim() else { return Ok(()) };
        ensure!(n >= 1, "Flatten needs at least one dimension");
        let out = Shape::new(&[io.ins[0].dim(0), io.ins[0].product(1..)]);
        io.assign_out(0, &out)?;
        if let Some(d) = io.outs[0].dims().first().copied() {
            let mut back = Shape::of_rank(n);
            if let Some(dims) = back.dims_mut() {
                dims[0] = d;
            }
            io.assign_in(0, &back)?;
        }
        Ok(())
    })
    .view()
    .grad(Grad::Compose(RESHAPE_BACK));

params! {
    /// Parameters of `reshape_like`.
    pub struct ReshapeLikeParam {
        /// First dimension of `lhs` to replace; 0 by default.
        lhs_begin: Option<i32> = None;
        /// End (exclusive) of the dimensions of `lhs` to replace; by default the last.
        lhs_end: Option<i32> = None;
        /// First dimension of `rhs` to take; 0 by default.
        rhs_begin: Option<i32> = None;
        /// End (exclusive) of the dimensions of `rhs` to take; by default the last.
        rhs_end: Option<i32> = None;
    }
}

pub(crate) static RESHAPE_LIKE: Operator<ReshapeLikeParam> = Operator::new("reshape_like")
    .aliases(&["_npx_reshape_like"])
    .doc(
        "Reshapes `lhs` to the shape of `rhs`, or replaces the dimensions lhs_begin..lhs_end of `lhs` by the dimensions \
         rhs_begin..rhs_end of `rhs`; the number of elements must stay the same. Only the shape of `rhs` is used.",
    )
    .inputs(&[arg("lhs", "The array to reshape."), arg("rhs", "The array whose shape is taken.")])
    .shape(reshape_like_shape)
    .dtype(first_dtype)
    .view()
    .grad(Grad::Compose(|g: &mut dyn GradGraph, n: &GradNode<'_>| -> Result<Vec<Option<Entry>>> {
        Ok(vec![Some(g.op(op!(RESHAPE_LIKE(n.ograds[0], n.inputs[0])))?), None])
    }));

fn reshape_like_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<ReshapeLikeParam>();
    let (Some(l), Some(r)) = (io.ins[0].ndim(), io.ins[1].ndim()) else { return Ok(()) };
    let range = |begin: Option<i32>, end: Option<i32>, n: usize, side: &str| -> Result<(usize, usize)> {
        let resolve = |x: Option<i32>, default: usize| match x {
            None => default as i64,
            Some(x) if x < 0 => i64::from(x) + n as i64,
            Some(x) => i64::from(x),
        };
        let (b, e) = (resolve(begin, 0), resolve(end, n));
        ensure!(0 <= b && b <= e && e <= n as i64, "{side}_begin..{side}_end = {b}..{e} is outside {n} dimensions");
        Ok((b as usize, e as usize))
    };
    let (lb, le) = range(p.lhs_begin, p.lhs_end, l, "lhs")?;
    let (rb, re) = range(p.rhs_begin, p.rhs_end, r, "rhs")?;
    let mut dims: Dims = io.ins[0].dims()[..lb].into();
    dims.extend_from_slice(&io.ins[1].dims()[rb..re]);
    dims.extend_from_slice(&io.ins[0].dims()[le..]);
    let mut out = Shape::from(dims);
    complete_from_size(&mut out, &io.ins[0]);
    if io.ins[0].is_known() && out.is_known() {
        ensure!(
            io.ins[0].num_elements() == out.num_elements(),
            "cannot reshape lhs {} like rhs {}: the result {out} has a different number of elements",
            io.ins[0],
            io.ins[1]
        );
    }
    io.assign_out(0, &out)
}

const A: &[ArgDef] = &[arg("a", "The array.")];

params! {
    /// Parameters of `_np_reshape`.
    pub struct NpReshapeParam {
        /// The new shape; one length may be -1, which is inferred.
        newshape: Shape = required;
        /// The order of the elements; only 'C' (row-major) is supported.
        order: String = ("C".to_string());
    }
}

pub(crate) static NP_RESHAPE: Operator<NpReshapeParam> = Operator::new("_np_reshape")
    .doc("Reshapes the array without a copy; the elements keep their row-major order.")
    .inputs(A)
    .shape(|p, io| {
        let p = p.get::<NpReshapeParam>();
        check_order(&p.order)?;
        ensure!(
            p.newshape.dims().iter().all(|d| *d >= -1),
            "newshape={} has a length below -1: only -1 (to be inferred) is allowed",
            p.newshape
        );
        let unknown = p.newshape.dims().iter().filter(|d| **d < 0).count();
        ensure!(unknown <= 1, "Can only specify one unknown dimension: {} has {unknown}", p.newshape);
        reshape_to(io, p.newshape.clone())
    })
    .view()
    .grad(Grad::Compose(RESHAPE_BACK));

fn check_order(order: &str) -> Result<()> {
    // 'A' means column-major only for arrays that are column-major in memory; none is.
    ensure!(matches!(order, "C" | "A"), "order='{order}' is not supported: only row-major order, 'C', is");
    Ok(())
}

/// Infers the -1 of `target` and assigns it to the output.
fn reshape_to(io: &mut ShapeIo<'_>, mut target: Shape) -> Result<()> {
    if !io.ins[0].is_known() {
        io.assign_out(0, &target)?;
        complete_from_size(&mut io.ins[0], &io.outs[0]);
        return Ok(());
    }
    let unknown = target.dims().iter().filter(|d| **d < 0).count();
    ensure!(unknown <= 1, "Can only specify one unknown dimension: {target} has {unknown}");
    let requested = target.clone();
    let elements = io.ins[0].checked_elements()?;
    complete_from_size(&mut target, &io.ins[0]);
    ensure!(
        target.is_known() && target.checked_elements().is_ok_and(|n| n == elements),
        "Cannot reshape array of shape {} with {} elements into shape {requested}",
        io.ins[0],
        io.ins[0].num_elements()
    );
    io.assign_out(0, &target)
}

params! {
    /// Parameters of `_npx_reshape`.
    pub struct NpxReshapeParam {
        /// The new shape. Non-negative numbers are lengths; -1 is inferred; -2 copies a length of the array; -3 drops an
        /// axis of length 1; -4 copies all remaining lengths; -5 is the product of the next two lengths; -6 splits a length into
        /// the two numbers that follow, one of which may be -1.
        newshape: Shape = required;
        /// Whether the special numbers are matched from the last axis backwards.
        reverse: bool = false;
        /// The order of the elements; only 'C' (row-major) is supported.
        order: String = ("C".to_string());
    }
}

pub(crate) static NPX_RESHAPE: Operator<NpxReshapeParam> = Operator::new("_npx_reshape")
    .aliases(&["_npi_reshape"])
    .doc("Reshapes the array without a copy; special numbers in the new shape refer to its current one.")
    .inputs(A)
    .shape(|p, io| {
        let p = p.get::<NpxReshapeParam>();
        check_order(&p.order)?;
        if !io.ins[0].ndim_is_known() {
            return Ok(());
        }
        let target = if p.reverse {
            let reversed = |d: &[i64]| d.iter().rev().copied().collect::<Dims>();
            let mut target = resolve_npx(&reversed(io.ins[0].dims()), &reversed(p.newshape.dims()), &p.newshape)?;
            target.reverse();
            target
        } else {
            resolve_npx(io.ins[0].dims(), p.newshape.dims(), &p.newshape)?
        };
        reshape_to(io, Shape::from(target))
    })
    .view()
    .grad(Grad::Compose(RESHAPE_BACK));

/// The two dimensions that -6 in `spec_text` splits `dim` into: those that follow it, of which one may be -1.
fn split_dim_npx(dim: i64, [a, b]: [i64; 2], spec_text: &Shape) -> Result<[i64; 2]> {
    ensure!(a >= -1 && b >= -1 && (a > 0 || b > 0), "-6 in newshape={spec_text} cannot split {dim} into {a} and {b}");
    let (a, b) = match (a, b) {
        _ if dim < 0 => (a, b),
        (-1, b) => (dim / b, b),
        (a, -1) => (a, dim / a),
        pair => pair,
    };
    ensure!(dim < 0 || a * b == dim, "-6 in newshape={spec_text} cannot split {dim} into {a} and {b}");
    Ok([a, b])
}

/// Resolves the special numbers of `spec` except -1. `spec_text` is the shape to print in errors.
fn resolve_npx(dims: &[i64], spec: &[i64], spec_text: &Shape) -> Result<Dims> {
    let mut remaining = dims.iter().copied();
    let missing = || Error::Value(format!("newshape={spec_text} uses more axes than shape {} has", Shape::new(dims)));
    let mut out = Dims::new();
    let mut numbers = spec.iter().copied();
    while let Some(number) = numbers.next() {
        match number {
            -1 => {
                out.push(-1);
                remaining.next();
            }
            -2 => out.push(remaining.next().ok_or_else(missing)?),
            -3 => {
                let n = remaining.next().ok_or_else(missing)?;
                ensure!(
                    n == 1 || n < 0,
                    "-3 in newshape={spec_text} removes an axis of length 1, but this axis has length {n}"
                );
            }
            -4 => {
                out.extend(remaining.by_ref());
            }
            -5 => {
                let (Some(a), Some(b)) = (remaining.next(), remaining.next()) else { return Err(missing()) };
                out.push(if a < 0 || b < 0 { -1 } else { a * b });
            }
            -6 => {
                let n = remaining.next().ok_or_else(missing)?;
                let (Some(a), Some(b)) = (numbers.next(), numbers.next()) else {
                    return Err(Error::Value(format!("-6 in newshape={spec_text} needs two numbers after it")));
                };
                out.extend(split_dim_npx(n, [a, b], spec_text)?);
            }
            n => {
                ensure!(n >= 0, "{n} in newshape={spec_text} has no meaning: use numbers from -6 up");
                out.push(n);
                remaining.next();
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use ferromx_core::op::OpDef;

    use super::*;
    use crate::testing::Case;

    fn shaped(dims: &[i64], shape: &str, reverse: bool) -> Result<Shape> {
        let attrs = [("shape", shape.to_string()), ("reverse", reverse.to_string())];
        let p = RESHAPE.parse(&attrs.into_iter().map(|(k, v)| (k.to_string(), v)).collect())?;
        let (mut ins, mut outs) = ([Shape::new(dims)], [Shape::unknown()]);
        (RESHAPE.inference.shape)(&p, &mut ShapeIo { ins: &mut ins, outs: &mut outs })?;
        Ok(outs[0].clone())
    }

    #[test]
    fn reshape_resolves_special_values() {
        assert_eq!(shaped(&[2, 3, 4], "(4,0,2)", false).unwrap(), [4, 3, 2].into());
        assert_eq!(shaped(&[2, 3, 4], "(6,1,-1)", false).unwrap(), [6, 1, 4].into());
        assert_eq!(shaped(&[2, 3, 4], "(-2,1,1)", false).unwrap(), [2, 3, 4, 1, 1].into());
        assert_eq!(shaped(&[2, 3, 4, 5], "(-3,-3)", false).unwrap(), [6, 20].into());
        assert_eq!(shaped(&[2, 3, 4], "(-4,1,2,-2)", false).unwrap(), [1, 2, 3, 4].into());
        assert_eq!(shaped(&[2, 3, 4], "(2,-4,-1,3,-2)", false).unwrap(), [2, 1, 3, 4].into());
        assert_eq!(shaped(&[10, 5, 4], "(-1,0)", true).unwrap(), [50, 4].into());
        assert!(shaped(&[2, 3], "(4,2)", false).is_err());
        assert!(shaped(&[2, 3], "(-1,-1)", false).is_err());
        let indivisible = shaped(&[2, 3], "(4,-1)", false).unwrap_err().to_string();
        assert!(indivisible.contains("cannot reshape [2,3] with 6 elements into [4,-1]"), "{indivisible}");
    }

    fn shape_of(def: &'static OpDef, dims: &[i64], attrs: &[(&str, &str)]) -> Result<Shape> {
        Case::parse(def, attrs)?.shapes(&[Shape::new(dims)]).map(|s| s[0].clone())
    }

    #[test]
    fn one_length_is_inferred() {
        let reshape = |dims: &[i64], to: &str| shape_of(&NP_RESHAPE, dims, &[("newshape", to)]);
        assert_eq!(reshape(&[2, 3], "(3, -1)").unwrap(), [3, 2].into());
        assert_eq!(reshape(&[1, 1], "()").unwrap(), Shape::new(&[]));
        assert_eq!(reshape(&[0, 3], "(5, 0)").unwrap(), [5, 0].into());
        for bad in ["(-1, -1)", "(4, -1)", "(0, -1)", "(-2, 3)"] {
            assert!(reshape(&[2, 3], bad).is_err(), "{bad}");
        }
        assert_eq!(shape_of(&NP_RESHAPE, &[4], &[("newshape", "(2, -1)"), ("order", "A")]).unwrap(), [2, 2].into());
        assert!(
            shape_of(&NP_RESHAPE, &[2], &[("newshape", "2"), ("order", "F")])
                .unwrap_err()
                .to_string()
                .contains("order='F'")
        );
    }

    #[test]
    fn npx_reshape_resolves_special_numbers() {
        let reshape =
            |to: &str, reverse: &str| shape_of(&NPX_RESHAPE, &[2, 3, 4], &[("newshape", to), ("reverse", reverse)]);
        for (to, reverse, want) in [
            ("(-2, -1)", "0", &[2, 12][..]),
            ("(-5, -4)", "0", &[6, 4]),
            ("(-6, 1, 2, -4)", "0", &[1, 2, 3, 4]),
            ("(-6, -1, 1, -4)", "0", &[2, 1, 3, 4]),
            ("(-4,)", "0", &[2, 3, 4]),
            ("(-1, -2)", "1", &[6, 4]),
        ] {
            assert_eq!(reshape(to, reverse).unwrap(), Shape::new(want), "{to}");
        }
        assert_eq!(shape_of(&NPX_RESHAPE, &[1, 3], &[("newshape", "(-3, -4)")]).unwrap(), [3].into());
        for bad in ["(-3,)", "(-7,)", "(-6, -1, -1, -4)", "(-4, 3)", "(-2, -2, 4, -2)", "(-5, -5)", "(-6, 2)"] {
            assert!(reshape(bad, "0").is_err(), "{bad}");
        }
    }
}
