//! Elementwise kernels of two broadcast operands, and the broadcast alone.

use crate::map::drive::{Feed, Src};
use crate::map::{Elements, Lane, LaneFn, Load, Store};
use crate::movement::missing_axes;
use crate::zip::{zip, zip_feeds};
use smallvec::{SmallVec, smallvec};

/// (length, stride) of axes; usually so few that nothing is allocated.
type Axes = SmallVec<[(usize, usize); 6]>;

/// An array broadcast to a larger shape: along an axis its elements are `stride` apart, or repeated where the stride is 0.
#[derive(Debug)]
struct View<'a, T> {
    data: Src<'a, T>,
    /// (length, stride) of each axis, the innermost last; never empty.
    axes: Axes,
}

/// The axes of two operands in the output's shape, with adjacent axes merged where both operands allow it.
fn plan(a: &[usize], b: &[usize], out: &[usize]) -> (Axes, Axes) {
    let (sa, sb) = (strides(a, out), strides(b, out));
    let (mut va, mut vb) = (Axes::new(), Axes::new());
    for i in (0..out.len()).rev() {
        if out[i] == 1 {
            continue;
        }
        match (va.last_mut(), vb.last_mut()) {
            (Some(x), Some(y)) if sa[i] == x.0 * x.1 && sb[i] == y.0 * y.1 => {
                x.0 *= out[i];
                y.0 *= out[i];
            }
            _ => {
                va.push((out[i], sa[i]));
                vb.push((out[i], sb[i]));
            }
        }
    }
    if va.is_empty() {
        va.push((1, 1));
        vb.push((1, 1));
    }
    va.reverse();
    vb.reverse();
    (va, vb)
}

/// The stride of each axis of `out` in a contiguous array of `shape`, which may have fewer axes.
fn strides(shape: &[usize], out: &[usize]) -> SmallVec<[usize; 6]> {
    let missing = missing_axes(shape, out);
    let mut strides: SmallVec<[usize; 6]> = smallvec![0; out.len()];
    let mut step = 1;
    for (i, &n) in shape.iter().enumerate().rev() {
        let m = out[missing + i];
        assert!(n == m || n == 1, "shape {shape:?} cannot be broadcast to {out:?}");
        strides[missing + i] = if n == 1 { 0 } else { step };
        step *= n;
    }
    strides
}

/// True if the axes enumerate memory in order.
fn is_contiguous(axes: &[(usize, usize)]) -> bool {
    matches!(axes, [(_, 1)])
}

/// The memory offset of output position `at`, its index along the innermost axis, and that axis.
fn locate(axes: &[(usize, usize)], at: usize) -> (usize, usize, (usize, usize)) {
    let (inner, outer) = match axes.split_last() {
        Some((inner, outer)) => (*inner, outer),
        None => ((1, 1), &[][..]),
    };
    let within = at % inner.0;
    let mut rest = at / inner.0;
    let mut pos = within * inner.1;
    for &(n, stride) in outer.iter().rev() {
        pos += rest % n * stride;
        rest /= n;
    }
    (pos, within, inner)
}

/// Writes the lanes of output positions from `at` on; `load` reads adjacent elements from a memory offset on.
fn fill_strided<C: Lane>(axes: &[(usize, usize)], at: usize, buf: &mut [C], load: impl Fn(usize, &mut [C])) {
    let mut done = 0;
    while done < buf.len() {
        let (pos, within, (n, stride)) = locate(axes, at + done);
        let run = (n - within).min(buf.len() - done);
        let part = &mut buf[done..done + run];
        if stride == 0 {
            load(pos, &mut part[..1]);
            let lane = part[0];
            part.fill(lane);
        } else {
            load(pos, part);
        }
        done += run;
    }
}

impl<C: Lane, T: Load<C>, U: Load<C>> Feed<C, U> for View<'_, T> {
    fn run(&self, at: usize) -> Option<&[C]> {
        let Src::Slice(data) = self.data else { return None };
        let (pos, within, (n, stride)) = locate(&self.axes, at);
        if stride != 1 { None } else { T::view(&data[pos..pos + n - within]) }
    }

    fn fill(&self, at: usize, out: &[U], buf: &mut [C]) {
        let data = match self.data {
            Src::Slice(data) => data,
            Src::InPlace => return U::load(out, buf),
            Src::Scalar(v) => return buf.fill(v.lane()),
        };
        fill_strided(&self.axes, at, buf, |pos, part| match part {
            [lane] => *lane = data[pos].lane(),
            part => T::load(&data[pos..pos + part.len()], part),
        });
    }

    fn is_constant(&self) -> bool {
        matches!(self.data, Src::Scalar(_))
    }
}

/// A [`View`] of elements of any type.
struct AnyView<'a> {
    data: Elements<'a>,
    axes: Axes,
}

impl<C: Lane, U: Load<C>> Feed<C, U> for AnyView<'_> {
    fn run(&self, at: usize) -> Option<&[C]> {
        let lanes = C::view_any(self.data)?;
        let (pos, within, (n, stride)) = locate(&self.axes, at);
        if stride != 1 { None } else { Some(&lanes[pos..pos + n - within]) }
    }

    fn fill(&self, at: usize, _: &[U], buf: &mut [C]) {
        fill_strided(&self.axes, at, buf, |pos, part| C::load_any(self.data, pos, part));
    }

    fn is_constant(&self) -> bool {
        matches!(self.axes[..], [(_, 0)])
    }
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
    for (data, shape) in [(a, a_shape), (b, b_shape)] {
        assert_eq!(data.len(), shape.iter().product(), "{} elements do not have shape {shape:?}", data.len());
    }
    assert_eq!(out.len(), out_shape.iter().product(), "the output does not have shape {out_shape:?}");
    let (a_axes, b_axes) = plan(a_shape, b_shape, out_shape);
    if !out.is_empty() {
        zip_feeds(&AnyView { data: a, axes: a_axes }, &AnyView { data: b, axes: b_axes }, out, f);
    }
}

/// `out = f(a, b)`, where `a_shape` and `b_shape` are broadcast to `out_shape` by NumPy's rules: aligned at the last
/// axis, axes of length 1 repeated. The lanes and `f` are those of [`zip`]. An operand may be [`Src::InPlace`] only if
/// its shape is the output's (up to leading ones).
///
/// # Panics
/// If a shape cannot be broadcast to `out_shape`, or a slice does not have the length of its shape.
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
    check(&a, a_shape, out.len());
    check(&b, b_shape, out.len());
    assert_eq!(out.len(), out_shape.iter().product(), "the output does not have shape {out_shape:?}");
    let (a_axes, b_axes) = plan(a_shape, b_shape, out_shape);
    if out.is_empty() {
        return;
    }
    match (is_contiguous(&a_axes), is_contiguous(&b_axes)) {
        (true, true) => zip(a, b, out, f),
        (true, false) => zip_feeds(&a, &View { data: b, axes: b_axes }, out, f),
        (false, true) => zip_feeds(&View { data: a, axes: a_axes }, &b, out, f),
        (false, false) => zip_feeds(&View { data: a, axes: a_axes }, &View { data: b, axes: b_axes }, out, f),
    }
}

fn check<T>(src: &Src<'_, T>, shape: &[usize], out: usize) {
    let size = shape.iter().product::<usize>();
    match src.len() {
        Some(len) => assert_eq!(len, size, "an operand of {len} elements does not have shape {shape:?}"),
        None => assert!(matches!(src, Src::Scalar(_)) || size == out, "an operand in place has the output's shape"),
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

    fn naive(a: &[f32], sa: &[usize], b: &[f32], sb: &[usize], out: &[usize]) -> Vec<f32> {
        let (ta, tb) = (strides(sa, out), strides(sb, out));
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
            (&[70, 900], &[900]),
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
        for &(sa, sb) in cases.iter().chain(&cases.iter().map(|&(a, b)| (b, a)).collect::<Vec<_>>()) {
            let out = broadcast_shape(sa, sb).unwrap();
            let a: Vec<f32> = (0..sa.iter().product()).map(|i| (i % 1013) as f32).collect();
            let b: Vec<f32> = (0..sb.iter().product()).map(|i| (i % 211) as f32).collect();
            let want = naive(&a, sa, &b, sb, &out);
            let mut y = vec![0f32; want.len()];
            broadcast((Src::from(&a), sa), (Src::from(&b), sb), (&mut y, &out), f);
            assert_eq!(y, want, "{sa:?} {sb:?}");
            if a.len() == want.len() {
                let mut y = a.clone();
                broadcast((Src::<f32>::InPlace, sa), (Src::from(&b), sb), (&mut y, &out), f);
                assert_eq!(y, want, "{sa:?} {sb:?} in place");
            }
            let h = |x: &[f32]| x.iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>();
            let mut y = vec![f16::ZERO; want.len()];
            broadcast((Src::from(&h(&a)), sa), (Src::from(&h(&b)), sb), (&mut y, &out), f);
            assert_eq!(y, h(&want), "{sa:?} {sb:?} float16");
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
