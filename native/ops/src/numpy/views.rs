//! Operators whose result is the array with another shape: reshape, squeeze, atleast_nd.

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Grad;
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{ArgDef, OpDef, arg};
use ferromx_core::params::{Params, ShapeOrNone};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::{ensure, params};

use crate::rules::{RESHAPE_BACK, complete_from_size};

/// The operators of this file.
pub(super) static OPS: &[&OpDef] = &[&RESHAPE, &NPX_RESHAPE, &SQUEEZE, &ATLEAST_1D, &ATLEAST_2D, &ATLEAST_3D];

const A: &[ArgDef] = &[arg("a", "The array.")];

params! {
    /// Parameters of `_np_reshape`.
    pub struct ReshapeParam {
        /// The new shape; one length may be -1, which is inferred.
        newshape: Shape = required;
        /// The order of the elements; only 'C' (row-major) is supported.
        order: String = ("C".to_string());
    }
}

pub(crate) static RESHAPE: OpDef = OpDef::new("_np_reshape")
    .doc("Reshapes the array without a copy; the elements keep their row-major order.")
    .inputs(A)
    .params::<ReshapeParam>()
    .shape(|p, io| {
        let p = p.get::<ReshapeParam>();
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
    ensure!(order == "C", "order='{order}' is not supported: only row-major order, 'C', is");
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
    let wanted = target.clone();
    let elements = io.ins[0].checked_elements()?;
    complete_from_size(&mut target, &io.ins[0]);
    ensure!(
        target.is_known() && target.checked_elements().is_ok_and(|n| n == elements),
        "Cannot reshape array of shape {} with {} elements into shape {wanted}",
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

pub(crate) static NPX_RESHAPE: OpDef = OpDef::new("_npx_reshape")
    .aliases(&["_npi_reshape"])
    .doc("Reshapes the array without a copy; special numbers in the new shape refer to its current one.")
    .inputs(A)
    .params::<NpxReshapeParam>()
    .shape(|p, io| {
        let p = p.get::<NpxReshapeParam>();
        check_order(&p.order)?;
        if !io.ins[0].ndim_is_known() {
            return Ok(());
        }
        let target = if p.reverse {
            let reversed = |d: &[i64]| d.iter().rev().copied().collect::<Dims>();
            let mut target = resolve(&reversed(io.ins[0].dims()), &reversed(p.newshape.dims()), &p.newshape)?;
            target.reverse();
            target
        } else {
            resolve(io.ins[0].dims(), p.newshape.dims(), &p.newshape)?
        };
        reshape_to(io, Shape::from(target))
    })
    .view()
    .grad(Grad::Compose(RESHAPE_BACK));

/// Replaces the special numbers except -1.
fn resolve(dims: &[i64], spec: &[i64], spec_text: &Shape) -> Result<Dims> {
    let mut left = dims.iter().copied();
    let mut next = || {
        left.next().ok_or_else(|| {
            Error::Value(format!("newshape={spec_text} uses more axes than shape {} has", Shape::new(dims)))
        })
    };
    let mut out = Dims::new();
    let mut numbers = spec.iter().copied();
    while let Some(number) = numbers.next() {
        match number {
            -1 => {
                out.push(-1);
                next().ok();
            }
            -2 => out.push(next()?),
            -3 => {
                let n = next()?;
                ensure!(
                    n == 1 || n < 0,
                    "-3 in newshape={spec_text} drops an axis of length 1, but meets one of length {n}"
                );
            }
            -4 => {
                while let Ok(n) = next() {
                    out.push(n);
                }
            }
            -5 => {
                let (a, b) = (next()?, next()?);
                out.push(if a < 0 || b < 0 { -1 } else { a * b });
            }
            -6 => {
                let n = next()?;
                let (Some(a), Some(b)) = (numbers.next(), numbers.next()) else {
                    return Err(Error::Value(format!("-6 in newshape={spec_text} needs two numbers after it")));
                };
                ensure!(
                    a >= -1 && b >= -1 && (a > 0 || b > 0),
                    "-6 in newshape={spec_text} cannot split {n} into {a} and {b}"
                );
                let (a, b) = match (a, b) {
                    _ if n < 0 => (a, b),
                    (-1, b) => (n / b, b),
                    (a, -1) => (a, n / a),
                    pair => pair,
                };
                ensure!(n < 0 || a * b == n, "-6 in newshape={spec_text} cannot split {n} into {a} and {b}");
                out.extend([a, b]);
            }
            n => {
                ensure!(n >= 0, "{n} in newshape={spec_text} has no meaning: use numbers from -6 up");
                out.push(n);
                next().ok();
            }
        }
    }
    Ok(out)
}

params! {
    /// Parameters of `_np_squeeze`.
    pub struct SqueezeParam {
        /// The axes to remove, all of length 1; by default every axis of length 1.
        axis: ShapeOrNone = (ShapeOrNone(None));
    }
}

pub(crate) static SQUEEZE: OpDef = OpDef::new("_np_squeeze")
    .doc("Removes axes of length 1 without a copy.")
    .inputs(A)
    .params::<SqueezeParam>()
    .shape(squeeze_shape)
    .view()
    .grad(Grad::Compose(RESHAPE_BACK));

fn squeeze_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let shape = io.ins[0].clone();
    let Some(rank) = shape.ndim() else { return Ok(()) };
    let gone: Vec<usize> = match &p.get::<SqueezeParam>().axis {
        ShapeOrNone(None) if !shape.is_known() => return Ok(()),
        ShapeOrNone(None) => (0..rank).filter(|i| shape.dim(*i) == 1).collect(),
        // As in MXNet, an axis may be given twice.
        ShapeOrNone(Some(given)) if rank > 0 => {
            given.dims().iter().map(|axis| Shape::axis(*axis, rank)).collect::<Result<Vec<usize>>>()?
        }
        given => super::reduce::resolve(given, rank)?.to_vec(),
    };
    if let Some(axis) = gone.iter().find(|i| shape.dim(**i) > 1 || shape.dim(**i) == 0) {
        return Err(Error::Value(format!("axis {axis} of shape {shape} cannot be removed: its length is not 1")));
    }
    io.assign_out(0, &super::reduce::reduced(&shape, &gone, false))
}

params! {
    /// Parameters of `_np_atleast_1d`, `_np_atleast_2d` and `_np_atleast_3d`.
    pub struct AtleastParam {
        /// Number of arrays.
        num_args: i32 = required, where 1..=i32::MAX;
    }
}

/// Defines the operator that gives arrays at least `$n` axes.
macro_rules! atleast {
    ($name:ident: $op:literal, $n:literal, $doc:literal) => {
        pub(crate) static $name: OpDef = OpDef::new($op)
            .doc($doc)
            .variadic("arys", "The arrays.", "num_args")
            .params::<AtleastParam>()
            .input_names_by(|p| (0..p.get::<AtleastParam>().num_args).map(|i| format!("ary{i}")).collect())
            .outputs(|p| p.get::<AtleastParam>().num_args as usize)
            .shape(|_, io| {
                for i in 0..io.ins.len() {
                    if io.ins[i].ndim_is_known() {
                        let shape = with_axes(&io.ins[i], $n);
                        io.assign_out(i, &shape)?;
                    }
                }
                Ok(())
            })
            .dtype(|_, io| (0..io.ins.len()).try_for_each(|i| io.ins[i].map_or(Ok(()), |d| io.assign_out(i, d))))
            .forward(|_, ins, outs| {
                for (x, out) in ins.iter().zip(outs).filter(|(_, out)| out.wanted()) {
                    out.bytes_mut()?.copy_from_slice(x.bytes()?);
                }
                Ok(())
            })
            .grad(Grad::Compose(|g, n| {
                let back = |(x, og)| g.apply1("reshape_like", &[og, x], &[]).map(Some);
                n.inputs.iter().copied().zip(n.ograds.iter().copied()).map(back).collect()
            }));
    };
}

atleast!(ATLEAST_1D: "_np_atleast_1d", 1, "Gives each array at least one axis: a number becomes an array of shape (1).");
atleast!(ATLEAST_2D: "_np_atleast_2d", 2,
    "Gives each array at least two axes: () becomes (1, 1), and (n) becomes (1, n).");
atleast!(ATLEAST_3D: "_np_atleast_3d", 3,
    "Gives each array at least three axes: () becomes (1, 1, 1), (n) becomes (1, n, 1), and (m, n) becomes (m, n, 1).");

/// The shape with at least `n` axes.
pub(super) fn with_axes(shape: &Shape, n: usize) -> Shape {
    match (shape.dims(), n) {
        ([], n) => Shape::new(&[1, 1, 1][..n]),
        ([d], 2) => Shape::new(&[1, *d]),
        ([d], 3) => Shape::new(&[1, *d, 1]),
        ([a, b], 3) => Shape::new(&[*a, *b, 1]),
        (dims, _) => Shape::new(dims),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    fn shaped(def: &'static OpDef, dims: &[i64], attrs: &[(&str, &str)]) -> Result<Shape> {
        Case::parse(def, attrs)?.shapes(&[Shape::new(dims)]).map(|s| s[0].clone())
    }

    #[test]
    fn one_length_is_inferred() {
        let reshape = |dims: &[i64], to: &str| shaped(&RESHAPE, dims, &[("newshape", to)]);
        assert_eq!(reshape(&[2, 3], "(3, -1)").unwrap(), [3, 2].into());
        assert_eq!(reshape(&[1, 1], "()").unwrap(), Shape::new(&[]));
        assert_eq!(reshape(&[0, 3], "(5, 0)").unwrap(), [5, 0].into());
        for bad in ["(-1, -1)", "(4, -1)", "(0, -1)", "(-2, 3)"] {
            assert!(reshape(&[2, 3], bad).is_err(), "{bad}");
        }
        assert!(
            shaped(&RESHAPE, &[2], &[("newshape", "2"), ("order", "F")]).unwrap_err().to_string().contains("order='F'")
        );
    }

    #[test]
    fn special_numbers() {
        let reshape =
            |to: &str, reverse: &str| shaped(&NPX_RESHAPE, &[2, 3, 4], &[("newshape", to), ("reverse", reverse)]);
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
        assert_eq!(shaped(&NPX_RESHAPE, &[1, 3], &[("newshape", "(-3, -4)")]).unwrap(), [3].into());
        for bad in ["(-3,)", "(-7,)", "(-6, -1, -1, -4)", "(-4, 3)", "(-2, -2, 4, -2)", "(-5, -5)", "(-6, 2)"] {
            assert!(reshape(bad, "0").is_err(), "{bad}");
        }
    }

    #[test]
    fn axes_of_length_one_are_removed() {
        let squeeze = |dims: &[i64], axis: &str| shaped(&SQUEEZE, dims, &[("axis", axis)]);
        assert_eq!(squeeze(&[1, 1, 1], "None").unwrap(), Shape::new(&[]));
        assert_eq!(squeeze(&[1, 1, 4], "(0, -2)").unwrap(), [4].into());
        assert!(squeeze(&[2, 1], "0").unwrap_err().to_string().contains("axis 0 of shape [2,1]"));
    }

    #[test]
    fn axes_are_added() {
        let x = [array(&[1f64], &[]), array(&[1f64, 2.0], &[2])];
        for (def, want) in [
            (&ATLEAST_1D, [&[1][..], &[2]]),
            (&ATLEAST_2D, [&[1, 1], &[1, 2]]),
            (&ATLEAST_3D, [&[1, 1, 1], &[1, 2, 1]]),
        ] {
            let case = Case::new(def, &[("num_args", "2")]);
            let shapes: Vec<_> = case.run(&x).unwrap().iter().map(|y| y.shape().clone()).collect();
            assert_eq!(shapes, want.map(Shape::new));
            case.check_gradient(&x);
        }
    }
}
