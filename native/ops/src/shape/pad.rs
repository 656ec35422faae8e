//! Padding: MXNet's `Pad`, for images, and NumPy's `pad`.

use std::borrow::Cow;

use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params::{ParamValue, Params};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, memory, param_enum, params};
use ferromx_kernels::map::{Arith, Load, Store};
use ferromx_kernels::movement::{self, Padding};
use ferromx_kernels::reduce::{self, Max, Min, NumericLane};

use crate::axes::outer_len_inner;
use crate::movement::{by_size, source, target};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&PAD, &NP_PAD];

param_enum! {
    /// The values of the padding.
    pub enum SpatialPadMode {
        Constant = "constant",
        Edge = "edge",
        Reflect = "reflect",
    }
}

params! {
    /// Parameters of `Pad`.
    pub struct SpatialPadParam {
        /// Pad with a constant, with the edge elements, or with the array reflected at its edge elements.
        mode: SpatialPadMode = required;
        /// The padding (before, after) of each axis in order; 0 for the first two axes.
        pad_width: Shape = required;
        /// The constant.
        constant_value: f64 = 0.0;
    }
}

pub(crate) static PAD: Operator<SpatialPadParam> = Operator::new("Pad")
    .legacy()
    .aliases(&["pad"])
    .doc("Pads the spatial axes of an array of 4 or 5 dimensions.")
    .inputs(&[arg("data", "The array to pad, of shape (n, c, h, w) or (n, c, d, h, w) and a floating-point type.")])
    .shape(pad_shape)
    .forward(pad)
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let out = &mut outs[0];
            let dims = out.shape().to_usize();
            let p = ctx.params::<SpatialPadParam>();
            if p.mode == SpatialPadMode::Constant && DType::FLOATS.contains(&ins[0].dtype()) {
                return unpad(&ins[0], &widths(p), out);
            }
            dispatch!(ins[0].dtype(), T in [f32, f64, f16] => {
                pad_back::<T, <T as Arith>::Lane>(ins[0].slice()?, &dims, p, out.slice_mut()?);
                Ok(())
            }, d => Err(ctx.unsupported(d, DType::FLOATS)))
        }),
        None,
    ));

/// The padding (before, after) of each axis.
fn widths(p: &SpatialPadParam) -> Vec<(usize, usize)> {
    p.pad_width.to_usize().chunks_exact(2).map(|c| (c[0], c[1])).collect()
}

fn pad_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<SpatialPadParam>();
    let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
    let pads = p.pad_width.dims();
    ensure!(rank == 4 || rank == 5, "Pad takes arrays of 4 or 5 dimensions, but data has shape {}", io.ins[0]);
    ensure!(pads.len() == 2 * rank, "pad_width={} needs {} numbers: two for each axis", p.pad_width, 2 * rank);
    ensure!(pads.iter().all(|w| *w >= 0), "pad_width={} has a negative number", p.pad_width);
    ensure!(
        pads[..4] == [0; 4],
        "pad_width={} must begin with four zeros: the first two axes cannot be padded",
        p.pad_width
    );
    let mut dims: Dims = io.ins[0].dims().into();
    for (i, (d, w)) in dims.iter_mut().zip(pads.chunks_exact(2)).enumerate() {
        if *d < 0 {
            continue;
        }
        ensure!(
            p.mode != SpatialPadMode::Reflect || (w[0] < *d && w[1] < *d) || w == [0, 0],
            "axis {i} of length {d} cannot be padded by reflection with {} and {} elements: give less than its length",
            w[0],
            w[1]
        );
        ensure!(
            p.mode != SpatialPadMode::Edge || *d > 0 || w == [0, 0],
            "axis {i} has length 0, so there is no edge element to pad with"
        );
        *d += w[0] + w[1];
    }
    io.assign_out(0, &Shape::from(dims))
}

fn pad(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<SpatialPadParam>();
    let dims = ins[0].shape().to_usize();
    if outs[0].is_empty() {
        return Ok(());
    }
    dispatch!(ins[0].dtype(), T in [f32, f64, f16] => {
        movement::pad(ins[0].slice::<T>()?, &dims, &widths(p), padding(p), outs[0].slice_mut()?);
        Ok(())
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
}

fn padding<T: Element>(p: &SpatialPadParam) -> Padding<T> {
    match p.mode {
        SpatialPadMode::Constant => Padding::Constant(T::from_f64(p.constant_value)),
        SpatialPadMode::Edge => Padding::Edge,
        SpatialPadMode::Reflect => Padding::Reflect,
    }
}

/// Adds each element of the gradient to the element of `dst` from which the forward pass copied it.
fn pad_back<T, C>(grad: &[T], dims: &[usize], p: &SpatialPadParam, dst: &mut [T])
where
    C: NumericLane,
    T: Load<C> + Store<C>,
{
    let mode = padding::<C>(p);
    let sources: Vec<Vec<Option<usize>>> = dims
        .iter()
        .zip(widths(p))
        .map(|(&n, (before, after))| (0..before + n + after).map(|i| mode.source_index(i, before, n)).collect())
        .collect();
    let mut sums = vec![C::ZERO; dst.len()];
    let Some((row, outer)) = sources.split_last() else { return };
    let width = dims[dims.len() - 1];
    for (r, grad) in grad.chunks_exact(row.len().max(1)).enumerate() {
        let (mut rest, mut base, mut stride) = (r, Some(0), width);
        for (axis, n) in outer.iter().zip(dims).rev() {
            base = base.zip(axis[rest % axis.len()]).map(|(base, index)| base + index * stride);
            stride *= n;
            rest /= axis.len();
        }
        let Some(base) = base else { continue };
        for (g, index) in grad.iter().zip(row) {
            if let Some(index) = index {
                sums[base + index] = sums[base + index].plus(g.lane());
            }
        }
    }
    dst.iter_mut().zip(sums).for_each(|(d, s)| *d = T::element(s));
}

/// The number of elements before and after each axis: `((1, 2), (0, 3))`. A single pair, `(1, 2)`, pads an array with one axis.
#[derive(Clone, Debug, PartialEq)]
pub struct PadWidth(pub Vec<(usize, usize)>);

impl ParamValue for PadWidth {
    fn type_name() -> Cow<'static, str> {
        "tuple of <Shape(tuple)>".into()
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let wrong =
            || format!("'{text}' is not a pad width: give a pair of numbers for each axis, as in ((1, 1), (0, 2))");
        let trimmed = text.trim();
        let inner = trimmed.strip_prefix(['(', '[']).and_then(|t| t.strip_suffix([')', ']'])).ok_or_else(wrong)?;
        let has_pairs = inner.contains(['(', '[']) || inner.trim().is_empty();
        let inner = if has_pairs { inner } else { trimmed };
        let mut pairs = Vec::new();
        let mut rest = inner.trim();
        while !rest.is_empty() {
            let end = rest.find([')', ']']).ok_or_else(wrong)?;
            let pair: Shape = rest[..=end].parse()?;
            let [before, after] = pair.dims() else { return Err(wrong()) };
            match (usize::try_from(*before), usize::try_from(*after)) {
                (Ok(before), Ok(after)) => pairs.push((before, after)),
                _ => return Err(format!("'{text}' has a negative pad width")),
            }
            rest = rest[end + 1..].trim_start().trim_start_matches(',').trim_start();
        }
        Ok(PadWidth(pairs))
    }

    fn print(&self) -> String {
        let pairs: Vec<_> = self.0.iter().map(|(a, b)| format!("[{a},{b}]")).collect();
        format!("[{}]", pairs.join(","))
    }
}

param_enum! {
    /// How padding is filled.
    pub enum PadMode {
        /// A constant.
        Constant = "constant",
        /// The nearest edge element.
        Edge = "edge",
        /// The largest element along the axis.
        Maximum = "maximum",
        /// The smallest element along the axis.
        Minimum = "minimum",
        /// The array mirrored about its edge elements.
        Reflect = "reflect",
        /// The array mirrored about its edges, the edge elements included.
        Symmetric = "symmetric",
    }
}

params! {
    /// Parameters of `_npi_pad`.
    pub struct PadParam {
        /// The number of elements added before and after each axis, one pair for each.
        pad_width: PadWidth = required;
        /// How padding is filled.
        mode: PadMode = (PadMode::Constant);
        /// The value with mode='constant'.
        constant_value: f64 = 0.0;
        /// The kind of reflection; only 'even' is supported.
        reflect_type: String = ("even".to_string());
    }
}

pub(crate) static NP_PAD: Operator<PadParam> = Operator::new("_npi_pad").names_data()
    .doc(
        "Pads an array with a constant, edge or mirrored elements, or the largest or smallest element along each axis. Only constant \
         padding has a gradient.",
    )
    .inputs(&[arg("data", "The array.")])
    .shape(|p, io| {
        let p = p.get::<PadParam>();
        ensure!(p.reflect_type == "even", "reflect_type='{}' is not supported: use 'even'", p.reflect_type);
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        let pads = &p.pad_width.0;
        ensure!(pads.len() == rank, "pad_width has {} pairs, but the array has {rank} axes", pads.len());
        let mut dims = Dims::new();
        for (d, (before, after)) in io.ins[0].dims().iter().zip(pads) {
            let padded = before + after > 0;
            ensure!(
                *d != 0 || !padded || p.mode == PadMode::Constant,
                "an empty axis can only be padded with constants: use mode='constant'"
            );
            dims.push(if *d < 0 { -1 } else { d + (before + after) as i64 });
        }
        io.assign_out(0, &Shape::from(dims))
    })
    .forward(np_pad)
    .grad(Grad::Kernel(Backward::new(np_pad_backward), None));

fn np_pad(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (p, dims) = (ctx.params::<PadParam>(), ins[0].shape().to_usize());
    if outs[0].is_empty() {
        return Ok(());
    }
    let pads = &p.pad_width.0;
    if p.mode == PadMode::Constant {
        return dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
            let mode = Padding::Constant(T::from_f64(p.constant_value));
            movement::pad(ins[0].slice::<T>()?, &dims, pads, mode, outs[0].slice_mut::<T>()?);
            Ok(())
        }, d => Err(ctx.unsupported(d, &DType::ALL)));
    }
    if matches!(p.mode, PadMode::Maximum | PadMode::Minimum) {
        return dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => {
            let largest = p.mode == PadMode::Maximum;
            pad_extremes::<T, <T as Arith>::Lane>(ins[0].slice()?, &dims, pads, largest, outs[0].slice_mut()?);
            Ok(())
        }, d => Err(ctx.unsupported(d, &DType::ALL)));
    }
    by_size!(ins[0].dtype(), T => {
        let mode = match p.mode {
            PadMode::Reflect => Padding::<T>::Reflect,
            PadMode::Symmetric => Padding::Symmetric,
            _ => Padding::Edge,
        };
        movement::pad(source::<T>(&ins[0])?, &dims, pads, mode, target::<T>(&mut outs[0])?);
    });
    Ok(())
}

/// Pads one axis after the other with the largest or smallest element along it. As in NumPy, that element may be padding of an
/// earlier axis.
fn pad_extremes<T, C>(x: &[T], dims: &[usize], pads: &[(usize, usize)], largest: bool, out: &mut [T])
where
    T: Element + Load<C> + Store<C>,
    C: NumericLane,
{
    let (mut current, mut dims) = (x.to_vec(), dims.to_vec());
    for (axis, (before, after)) in pads.iter().enumerate() {
        let (outer, n, inner) = outer_len_inner(&dims, axis);
        let mut extreme = memory::filled(T::default(), outer * inner);
        if largest {
            reduce::reduce::<Max, T, T, C>(&current, &[outer, n, inner], &[1], &mut extreme);
        } else {
            reduce::reduce::<Min, T, T, C>(&current, &[outer, n, inner], &[1], &mut extreme);
        }
        let mut padded = Vec::with_capacity(outer * (n + before + after) * inner);
        for o in 0..outer {
            let row = &extreme[o * inner..(o + 1) * inner];
            (0..*before).for_each(|_| padded.extend_from_slice(row));
            padded.extend_from_slice(&current[o * n * inner..(o + 1) * n * inner]);
            (0..*after).for_each(|_| padded.extend_from_slice(row));
        }
        dims[axis] = n + before + after;
        current = padded;
    }
    out.copy_from_slice(&current);
}

fn np_pad_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<PadParam>();
    if p.mode != PadMode::Constant {
        return Err(Error::Unsupported(format!(
            "padding with mode='{}' has no gradient: use mode='constant', or concatenate copies",
            p.mode.print()
        )));
    }
    unpad(&ins[0], &p.pad_width.0, &mut outs[0])
}

/// Copies the elements between the padding.
fn unpad(padded: &In<'_>, pads: &[(usize, usize)], out: &mut Out<'_>) -> Result<()> {
    let (from, to) = (padded.shape().to_usize(), out.shape().to_usize());
    let begin: Vec<usize> = pads.iter().map(|(before, _)| *before).collect();
    by_size!(padded.dtype(), T => {
        let to = (target::<T>(out)?, &to[..]);
        movement::slice((source::<T>(padded)?, &from), &begin, &memory::filled(1, begin.len()), to);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    fn padded(mode: &str, width: &str) -> Vec<f64> {
        let x = array(&[0f64, 1.0, 2.0, 3.0, 4.0, 5.0], &[2, 3]);
        let case = Case::new(&NP_PAD, &[("pad_width", width), ("mode", mode), ("constant_value", "7")]);
        case.run1(&[x]).unwrap().to_vec::<f64>().unwrap()
    }

    #[test]
    fn every_mode_pads_like_numpy() {
        for (mode, want) in [
            ("constant", [7.0, 7.0, 7.0, 7.0, 7.0, 0.0, 1.0, 2.0, 7.0, 3.0, 4.0, 5.0]),
            ("edge", [0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 1.0, 2.0, 3.0, 3.0, 4.0, 5.0]),
            ("reflect", [4.0, 3.0, 4.0, 5.0, 1.0, 0.0, 1.0, 2.0, 4.0, 3.0, 4.0, 5.0]),
            ("symmetric", [0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 1.0, 2.0, 3.0, 3.0, 4.0, 5.0]),
            ("maximum", [5.0, 3.0, 4.0, 5.0, 2.0, 0.0, 1.0, 2.0, 5.0, 3.0, 4.0, 5.0]),
            ("minimum", [0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 1.0, 2.0, 3.0, 3.0, 4.0, 5.0]),
        ] {
            assert_eq!(padded(mode, "((1, 0), (1, 0))"), want, "{mode}");
        }
        assert_eq!(padded("symmetric", "((0, 0), (0, 4))")[..7], [0.0, 1.0, 2.0, 2.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn invalid_widths_are_refused() {
        assert_eq!(PadWidth::parse("((1,2),(0,3))").unwrap(), PadWidth(vec![(1, 2), (0, 3)]));
        assert_eq!(PadWidth::parse("[[1, 2]]").unwrap().print(), "[[1,2]]");
        assert_eq!(PadWidth::parse("(1, 2)").unwrap(), PadWidth(vec![(1, 2)]));
        assert_eq!(PadWidth::parse("()").unwrap(), PadWidth(vec![]));
        for bad in ["1", "(1,)", "(1, 2, 3)", "((1,),(2,))", "((-1, 0))", "((1, 2)"] {
            assert!(PadWidth::parse(bad).is_err(), "{bad}");
        }
        let shapes = |attrs: &[(&str, &str)], dims: &[i64]| Case::new(&NP_PAD, attrs).shapes(&[Shape::new(dims)]);
        assert!(shapes(&[("pad_width", "((1, 1),)")], &[2, 3]).unwrap_err().to_string().contains("2 axes"));
        assert!(shapes(&[("pad_width", "((1, 1),)"), ("mode", "edge")], &[0]).is_err());
        assert_eq!(shapes(&[("pad_width", "((1, 1),)")], &[0]).unwrap(), [Shape::new(&[2])]);
    }

    #[test]
    fn only_constant_padding_has_a_gradient() {
        let x = array(&[0f64, 1.0, 2.0, 3.0, 4.0, 5.0], &[2, 3]);
        let case = |mode| Case::new(&NP_PAD, &[("pad_width", "((1, 2), (2, 1))"), ("mode", mode)]);
        case("constant").check_gradient(std::slice::from_ref(&x));
        let g = array(&[1f64; 30], &[5, 6]);
        assert!(case("edge").backward(&[x], &[g]).unwrap_err().to_string().contains("no gradient"));
    }
}
