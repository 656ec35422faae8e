//! Elementwise kernels of two operands that are broadcast by NumPy's rules.

use crate::map::drive::{Body, drive};
use crate::map::zip::zip_body;
use crate::map::{Elements, ElementsMut, Lane, LaneFn, Load, Loop, Operand, Src, Store};
use crate::movement::missing_axes;
use smallvec::{SmallVec, smallvec};

/// The (length, stride) of each axis. Up to six need no allocation.
type Axes = SmallVec<[(usize, usize); 6]>;

/// The axes of both operands over the shape of the output. Axes of length 1 are left out, and adjacent axes are merged if both
/// operands allow it.
fn merged_axes(a: &[usize], b: &[usize], out: &[usize]) -> (Axes, Axes) {
    let (a_strides, b_strides) = (strides(a, out), strides(b, out));
    let (mut a_axes, mut b_axes) = (Axes::new(), Axes::new());
    for i in (0..out.len()).rev() {
        if out[i] == 1 {
            continue;
        }
        match (a_axes.last_mut(), b_axes.last_mut()) {
            (Some(x), Some(y)) if a_strides[i] == x.0 * x.1 && b_strides[i] == y.0 * y.1 => {
                x.0 *= out[i];
                y.0 *= out[i];
            }
            _ => {
                a_axes.push((out[i], a_strides[i]));
                b_axes.push((out[i], b_strides[i]));
            }
        }
    }
    if a_axes.is_empty() {
        a_axes.push((1, 1));
        b_axes.push((1, 1));
    }
    a_axes.reverse();
    b_axes.reverse();
    (a_axes, b_axes)
}

/// The stride of each axis of `out` in a contiguous array of `shape`, which may have fewer axes.
fn strides(shape: &[usize], out: &[usize]) -> SmallVec<[usize; 6]> {
    let missing = missing_axes(shape, out);
    let mut strides: SmallVec<[usize; 6]> = smallvec![0; out.len()];
    let mut stride = 1;
    for (i, &n) in shape.iter().enumerate().rev() {
        let m = out[missing + i];
        assert!(n == m || n == 1, "shape {shape:?} cannot be broadcast to {out:?}");
        strides[missing + i] = if n == 1 { 0 } else { stride };
        stride *= n;
    }
    strides
}

/// Computes `out` from two broadcast operands with a loop over lanes.
///
/// # Panics
/// As [`broadcast`].
fn drive_broadcast<C: Lane, D: Lane>(
    (a, a_shape): (Operand<'_, C>, &[usize]),
    (b, b_shape): (Operand<'_, C>, &[usize]),
    (out, out_shape): (ElementsMut<'_>, &[usize]),
    body: &Body<'_, C, D>,
) {
    assert_eq!(out.len(), out_shape.iter().product(), "the output does not have shape {out_shape:?}");
    check(&a, a_shape, out.len());
    check(&b, b_shape, out.len());
    let (a_axes, b_axes) = merged_axes(a_shape, b_shape, out_shape);
    if !out.is_empty() {
        drive(&[strided(a, &a_axes), strided(b, &b_axes)], out, body);
    }
}

/// The operand with the given axes, or unchanged if these enumerate its memory in order.
fn strided<'a, C>(operand: Operand<'a, C>, axes: &'a [(usize, usize)]) -> Operand<'a, C> {
    match operand {
        Operand::Elements(elements) if !is_contiguous(axes) => Operand::Strided(elements, axes),
        _ => operand,
    }
}

/// True if the axes, the innermost last, enumerate memory in order.
fn is_contiguous(axes: &[(usize, usize)]) -> bool {
    let mut next = 1;
    axes.iter().rev().all(|&(n, stride)| {
        let expected = next;
        next *= n;
        stride == expected
    })
}

/// [`apply`](crate::map::apply) for two operands, which are broadcast as in [`broadcast`].
///
/// # Panics
/// As [`broadcast`].
pub fn apply_broadcast<C: Lane, D: Lane>(
    formula: &Loop<C, D>,
    a: (Operand<'_, C>, &[usize]),
    b: (Operand<'_, C>, &[usize]),
    out: (ElementsMut<'_>, &[usize]),
) {
    drive_broadcast(a, b, out, &|x, y| formula.run(x, y));
}

/// Like [`broadcast`], for operands of any types, each converted to lanes of type `C` block by block.
///
/// # Panics
/// As [`broadcast`].
pub fn broadcast_any<U, C, D, F>(
    (a, a_shape): (Elements<'_>, &[usize]),
    (b, b_shape): (Elements<'_>, &[usize]),
    (out, out_shape): (&mut [U], &[usize]),
    f: F,
) where
    U: Load<C> + Store<D>,
    C: Lane,
    D: Lane,
    F: LaneFn<(C, C), D>,
{
    let (a, b) = ((Operand::Elements(a), a_shape), (Operand::Elements(b), b_shape));
    drive_broadcast(a, b, (U::elements_mut(out), out_shape), &zip_body(f));
}

/// `out = f(a, b)`, where `a_shape` and `b_shape` are broadcast to `out_shape` by NumPy's rules: aligned at the last axis, axes
/// of length 1 repeated. The lanes and `f` are those of [`zip`](crate::map::zip::zip). An operand may be [`Src::InPlace`] only if its
/// shape is the output's (up to leading ones).
///
/// # Panics
/// Panics if a shape cannot be broadcast to `out_shape`, or a slice does not have the length of its shape.
pub fn broadcast<A, B, U, C, D, F>(
    (a, a_shape): (Src<'_, A>, &[usize]),
    (b, b_shape): (Src<'_, B>, &[usize]),
    (out, out_shape): (&mut [U], &[usize]),
    f: F,
) where
    A: Load<C>,
    B: Load<C>,
    U: Load<C> + Store<D>,
    C: Lane,
    D: Lane,
    F: LaneFn<(C, C), D>,
{
    let (a, b) = ((a.operand(), a_shape), (b.operand(), b_shape));
    drive_broadcast(a, b, (U::elements_mut(out), out_shape), &zip_body(f));
}

fn check<C>(operand: &Operand<'_, C>, shape: &[usize], out: usize) {
    let size = shape.iter().product::<usize>();
    match operand {
        Operand::Elements(x) | Operand::Strided(x, _) => {
            assert_eq!(x.len(), size, "an operand of {} elements does not have shape {shape:?}", x.len());
        }
        Operand::InPlace => assert_eq!(size, out, "an operand in place has the output's shape"),
        Operand::Constant(_) => {}
    }
}

/// The shape that `a` and `b` are broadcast to by NumPy's rules; `None` if two lengths differ and neither is 1.
pub fn broadcast_shape(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let axis = |s: &[usize], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
    (0..rank)
        .map(|i| match (axis(a, i), axis(b, i)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane_fn;
    use ferromx_core::dtype::f16;

    fn naive(a: &[f32], a_strides: &[usize], b: &[f32], b_strides: &[usize], out: &[usize]) -> Vec<f32> {
        let (ta, tb) = (strides(a_strides, out), strides(b_strides, out));
        let n: usize = out.iter().product();
        (0..n)
            .map(|mut i| {
                let (mut pa, mut pb) = (0, 0);
                for k in (0..out.len()).rev() {
                    pa += i % out[k] * ta[k];
                    pb += i % out[k] * tb[k];
                    i /= out[k];
                }
                a[pa] - 3.0 * b[pb]
            })
            .collect()
    }

    #[test]
    fn all_forms_agree_with_the_naive_loop() {
        let f = lane_fn!(|a: f32, b: f32| -> f32 { a - 3.0 * b });
        let cases: &[(&[usize], &[usize])] = &[
            (&[3, 4], &[3, 4]),
            (&[70, 900], &[1, 900]),
            (&[20, 7000], &[1, 7000]),
            (&[70, 900], &[900]),
            (&[70, 128], &[1, 128]),
            (&[600, 192], &[192]),
            (&[3, 49_152], &[1, 49_152]),
            (&[2, 70, 128], &[2, 1, 128]),
            (&[70, 900], &[70, 1]),
            (&[70, 3], &[70, 1]),
            (&[70, 3], &[3]),
            (&[1, 900], &[70, 1]),
            (&[5, 1, 7, 1], &[1, 6, 1, 8]),
            (&[2, 3, 64, 5], &[1, 3, 1, 1]),
            (&[2, 65, 20, 20], &[2, 65, 1, 1]),
            (&[4, 1, 130], &[4, 300, 1]),
            (&[1], &[1]),
            (&[], &[3, 1]),
            (&[0, 3], &[1, 3]),
            (&[1, 1, 1], &[257, 129]),
        ];
        for &(a_strides, b_strides) in cases.iter().chain(&cases.iter().map(|&(a, b)| (b, a)).collect::<Vec<_>>()) {
            let out = broadcast_shape(a_strides, b_strides).unwrap();
            let a: Vec<f32> = (0..a_strides.iter().product()).map(|i| (i % 1013) as f32).collect();
            let b: Vec<f32> = (0..b_strides.iter().product()).map(|i| (i % 211) as f32).collect();
            let want = naive(&a, a_strides, &b, b_strides, &out);
            let mut y = vec![0f32; want.len()];
            broadcast((Src::from(&a), a_strides), (Src::from(&b), b_strides), (&mut y, &out), f);
            assert_eq!(y, want, "{a_strides:?} {b_strides:?}");
            if a.len() == want.len() {
                let mut y = a.clone();
                broadcast((Src::<f32>::InPlace, a_strides), (Src::from(&b), b_strides), (&mut y, &out), f);
                assert_eq!(y, want, "{a_strides:?} {b_strides:?} in place");
            }
            let h = |x: &[f32]| x.iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>();
            let mut y = vec![f16::ZERO; want.len()];
            broadcast((Src::from(&h(&a)), a_strides), (Src::from(&h(&b)), b_strides), (&mut y, &out), f);
            assert_eq!(y, h(&want), "{a_strides:?} {b_strides:?} float16");
        }
    }

    #[test]
    fn operands_of_any_types_are_converted() {
        let a: Vec<i64> = (0..300).collect();
        let b = [f16::from_f32(0.5), f16::from_f32(-2.0), f16::from_f32(4.0)];
        let mut y = vec![0f32; 900];
        let f = lane_fn!(|a: f32, b: f32| -> f32 { a - b });
        broadcast_any((a[..].into(), &[300, 1]), (b[..].into(), &[3]), (&mut y, &[300, 3]), f);
        assert!(y.iter().enumerate().all(|(i, y)| *y == (i / 3) as f32 - [0.5, -2.0, 4.0][i % 3]));
        let mut equal = vec![false; 300];
        let f = lane_fn!(|a: i64, b: i64| -> i64 { i64::from(a == b) });
        broadcast_any((a[..].into(), &[300]), ([7u8][..].into(), &[]), (&mut equal, &[300]), f);
        assert!(equal.iter().enumerate().all(|(i, y)| *y == (i == 7)));
    }

    #[test]
    fn mismatched_shapes_are_reported() {
        assert_eq!(broadcast_shape(&[2, 1, 3], &[4, 1]), Some(vec![2, 4, 3]));
        assert_eq!(broadcast_shape(&[2], &[3]), None);
        assert_eq!(broadcast_shape(&[0], &[1]), Some(vec![0]));
    }
}
