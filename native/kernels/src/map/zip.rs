//! Elementwise kernels of two to four operands of one shape, used for most gradients.

use super::drive::{Runs, drive};
use super::{Lane, LaneFn, Load, Src, Store};
use crate::simd::multiversion::{self, Multiversioned};

struct Zip<'a, C, D, F>(Runs<'a, 'a, C, D, 2>, F);

impl<C: Lane, D: Lane, F: LaneFn<(C, C), D>> Multiversioned for Zip<'_, C, D, F> {
    type Output = ();
    const USE_AVX512: bool = C::LOOPS_USE_AVX512;

    #[inline(always)]
    fn run(self) {
        zip_loop(self.0, self.1);
    }
}

#[inline(always)]
pub(crate) fn zip_loop<C: Copy, D>(runs: Runs<'_, '_, C, D, 2>, f: impl LaneFn<(C, C), D>) {
    for ([a, b], y) in runs {
        let n = y.len();
        let (a, b) = (&a[..n], &b[..n]);
        for i in 0..n {
            y[i] = f.call((a[i], b[i]));
        }
    }
}

struct Zip3<'a, C, D, F>(Runs<'a, 'a, C, D, 3>, F);

impl<C: Lane, D: Lane, F: LaneFn<(C, C, C), D>> Multiversioned for Zip3<'_, C, D, F> {
    type Output = ();
    const USE_AVX512: bool = C::LOOPS_USE_AVX512;

    #[inline(always)]
    fn run(self) {
        zip3_loop(self.0, self.1);
    }
}

#[inline(always)]
pub(crate) fn zip3_loop<C: Copy, D>(runs: Runs<'_, '_, C, D, 3>, f: impl LaneFn<(C, C, C), D>) {
    for ([a, b, c], y) in runs {
        let n = y.len();
        let (a, b, c) = (&a[..n], &b[..n], &c[..n]);
        for i in 0..n {
            y[i] = f.call((a[i], b[i], c[i]));
        }
    }
}

/// The loop of [`zip`] for [`drive()`]; a closure inside [`zip`] would be compiled for every element type.
pub(crate) fn zip_body<C: Lane, D: Lane, F: LaneFn<(C, C), D>>(f: F) -> impl Fn(&[&[C]], &mut [D]) + Sync {
    move |x, y| multiversion::run(Zip(Runs::new(x, y), f))
}

fn zip3_body<C: Lane, D: Lane, F: LaneFn<(C, C, C), D>>(f: F) -> impl Fn(&[&[C]], &mut [D]) + Sync {
    move |x, y| multiversion::run(Zip3(Runs::new(x, y), f))
}

/// `out[i] = f(a[i], b[i])` in lanes of type `C`; see [`map`](crate::map::map) for the choice of lanes and of `f`. For an
/// operator with a scalar, pass a [`Src::Scalar`] on either side.
///
/// # Panics
/// Panics if a slice operand differs in length from `out`.
pub fn zip<A, B, U, C, D, F>(a: Src<'_, A>, b: Src<'_, B>, out: &mut [U], f: F)
where
    A: Load<C>,
    B: Load<C>,
    U: Load<C> + Store<D>,
    C: Lane,
    D: Lane,
    F: LaneFn<(C, C), D>,
{
    drive(&[a.operand(), b.operand()], U::elements_mut(out), &zip_body(f));
}

/// `out[i] = f(a[i], b[i], c[i])`, like [`zip`].
///
/// # Panics
/// Panics if a slice operand differs in length from `out`.
pub fn zip3<A, B, E, U, C, D, F>(a: Src<'_, A>, b: Src<'_, B>, c: Src<'_, E>, out: &mut [U], f: F)
where
    A: Load<C>,
    B: Load<C>,
    E: Load<C>,
    U: Load<C> + Store<D>,
    C: Lane,
    D: Lane,
    F: LaneFn<(C, C, C), D>,
{
    drive(&[a.operand(), b.operand(), c.operand()], U::elements_mut(out), &zip3_body(f));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane_fn;

    #[test]
    fn operands_may_be_the_output_or_a_scalar() {
        let sub = lane_fn!(|a: f32, b: f32| -> f32 { a - 2.0 * b });
        for n in [0, 1, 63, 64, 65, 1000, 40_000] {
            let a: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let b: Vec<f32> = (0..n).map(|i| (i % 7) as f32).collect();
            let want: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a - 2.0 * b).collect();
            let mut y = vec![0f32; n];
            zip(Src::from(&a), Src::from(&b), &mut y, sub);
            assert_eq!(y, want);
            let mut y = a.clone();
            zip(Src::<f32>::InPlace, Src::from(&b), &mut y, sub);
            assert_eq!(y, want);
            let mut y = b.clone();
            zip(Src::from(&a), Src::<f32>::InPlace, &mut y, sub);
            assert_eq!(y, want);
            let mut y = a.clone();
            zip(Src::<f32>::Scalar(1.0), Src::<f32>::InPlace, &mut y, sub);
            assert!(y.iter().zip(&a).all(|(y, a)| *y == 1.0 - 2.0 * a));
            let mut y = b.clone();
            zip3(
                Src::from(&a),
                Src::<f32>::InPlace,
                Src::<f32>::Scalar(3.0),
                &mut y,
                lane_fn!(|a: f32, b: f32, c: f32| -> f32 { a + b * c }),
            );
            assert!(y.iter().zip(a.iter().zip(&b)).all(|(y, (a, b))| *y == a + b * 3.0));
        }
    }

    #[test]
    fn comparisons_may_change_the_type() {
        let a = [1i64, 5, 1 << 60];
        let mut y = [false; 3];
        zip(Src::Slice(&a), Src::<i64>::Scalar(5), &mut y, lane_fn!(|a: i64, b: i64| -> i64 { i64::from(a >= b) }));
        assert_eq!(y, [false, true, true]);
    }
}
