//! Elementwise maps of one operand; `zip` has the maps of several.
//!
//! `drive` runs the loop of a kernel over the lanes of operands of any type, in parallel and block by block.

mod cast;
pub(crate) mod drive;
mod half;
pub mod zip;

pub use crate::lane::{AnyElement, Arith, Elements, ElementsMut, Lane, Load, Store};
pub use crate::simd::multiversion::Loop;
pub use cast::cast;
pub use drive::{LANE_MULTIPLE, Operand, Src};

use crate::simd::multiversion::{self, LoopBody, Multiversioned};
use drive::{Runs, drive};
use std::marker::PhantomData;
use zip::{zip_loop, zip3_loop};

/// An elementwise function of lanes.
///
/// Every Rust function and closure implements it, but the compiler decides whether to inline them; without inlining, the loop has no
/// vector instructions and runs a hundred times slower. So a formula of more than a dozen operations needs its own type, whose
/// `call` is `#[inline(always)]`: `lane_fn!` defines one.
pub trait LaneFn<Args, R>: Copy + Sync {
    /// Applies the function.
    fn call(self, args: Args) -> R;
}

macro_rules! functions {
    ($(($($a:ident)+);)*) => {$(
        impl<F: Fn($($a),+) -> R + Copy + Sync, R, $($a),+> LaneFn<($($a,)+), R> for F {
            #[inline(always)]
            #[allow(non_snake_case)]
            fn call(self, ($($a,)+): ($($a,)+)) -> R {
                self($($a),+)
            }
        }
    )*};
}
functions! { (A1); (A1 A2); (A1 A2 A3); (A1 A2 A3 A4); }

/// Makes a [`LaneFn`] whose body is always inlined into the vector loop.
///
/// It captures nothing: pass run-time parameters as [`Src::Scalar`] operands.
///
/// ```
/// use ferromx_kernels::{lane_fn, map::{Src, map}};
/// let mut y = [0f32; 3];
/// map(Src::Slice(&[1.0, 2.0, 3.0]), &mut y, lane_fn!(|x: f32| -> f32 { x * x + 1.0 }));
/// assert_eq!(y, [2.0, 5.0, 10.0]);
/// ```
#[macro_export]
macro_rules! lane_fn {
    (|$($x:ident: $t:ty),+ $(,)?| -> $r:ty $body:block) => {{
        #[derive(Clone, Copy)]
        struct LaneFormula;
        impl $crate::map::LaneFn<($($t,)+), $r> for LaneFormula {
            #[inline(always)]
            fn call(self, ($($x,)+): ($($t,)+)) -> $r $body
        }
        LaneFormula
    }};
}

struct Map<'a, C, D, F>(Runs<'a, 'a, C, D, 1>, F);

impl<C: Lane, D: Lane, F: LaneFn<(C,), D>> Multiversioned for Map<'_, C, D, F> {
    type Output = ();
    const USE_AVX512: bool = C::LOOPS_USE_AVX512;

    #[inline(always)]
    fn run(self) {
        map_loop(self.0, self.1);
    }
}

#[inline(always)]
fn map_loop<C: Copy, D>(runs: Runs<'_, '_, C, D, 1>, f: impl LaneFn<(C,), D>) {
    for ([x], y) in runs {
        let n = y.len();
        let x = &x[..n];
        for i in 0..n {
            y[i] = f.call((x[i],));
        }
    }
}

/// `out[i] = f(x[i])`, computed in lanes of type `C`; the result of `f` is converted to `U`. For most operators, use `C = D = <T
/// as Arith>::Lane`; transcendental functions of integers need `C = f32` as in MXNet.
///
/// [`Src::InPlace`] reads `out`.
///
/// # Panics
/// Panics if `x` is a slice that differs in length from `out`.
pub fn map<T, U, C, D, F>(x: Src<'_, T>, out: &mut [U], f: F)
where
    T: Load<C>,
    U: Load<C> + Store<D>,
    C: Lane,
    D: Lane,
    F: LaneFn<(C,), D>,
{
    drive(&[x.operand()], U::elements_mut(out), &map_body(f));
}

/// The loop of [`map`] for [`drive()`]; a closure inside [`map`] would be compiled for every element type.
fn map_body<C: Lane, D: Lane, F: LaneFn<(C,), D>>(f: F) -> impl Fn(&[&[C]], &mut [D]) + Sync {
    move |x, y| multiversion::run(Map(Runs::new(x, y), f))
}

/// Computes `out` from operands of any types, one for each argument of the loop's formula.
///
/// # Panics
/// Panics if an operand differs in length from `out`.
pub fn apply<C: Lane, D: Lane>(formula: &Loop<C, D>, operands: &[Operand<'_, C>], out: ElementsMut<'_>) {
    drive(operands, out, &|x, y| formula.run(x, y));
}

/// The loop of a formula of `N` operands that captures nothing.
struct Each<F, const N: usize>(PhantomData<F>);

impl<C: Lane, D: Lane, F: LaneFn<(C,), D> + Default> LoopBody<C, D> for Each<F, 1> {
    const USE_AVX512: bool = C::LOOPS_USE_AVX512;

    #[inline(always)]
    fn run(x: &[&[C]], y: &mut [D]) {
        map_loop(Runs::new(x, y), F::default());
    }
}

impl<C: Lane, D: Lane, F: LaneFn<(C, C), D> + Default> LoopBody<C, D> for Each<F, 2> {
    const USE_AVX512: bool = C::LOOPS_USE_AVX512;

    #[inline(always)]
    fn run(x: &[&[C]], y: &mut [D]) {
        zip_loop(Runs::new(x, y), F::default());
    }
}

impl<C: Lane, D: Lane, F: LaneFn<(C, C, C), D> + Default> LoopBody<C, D> for Each<F, 3> {
    const USE_AVX512: bool = C::LOOPS_USE_AVX512;

    #[inline(always)]
    fn run(x: &[&[C]], y: &mut [D]) {
        zip3_loop(Runs::new(x, y), F::default());
    }
}

impl<C: Lane, D: Lane> Loop<C, D> {
    /// The loop of a formula of one operand.
    pub const fn map<F: LaneFn<(C,), D> + Default>() -> Loop<C, D> {
        Loop::new::<Each<F, 1>>()
    }

    /// The loop of a formula of two operands.
    pub const fn zip<F: LaneFn<(C, C), D> + Default>() -> Loop<C, D> {
        Loop::new::<Each<F, 2>>()
    }

    /// The loop of a formula of three operands.
    pub const fn zip3<F: LaneFn<(C, C, C), D> + Default>() -> Loop<C, D> {
        Loop::new::<Each<F, 3>>()
    }
}

/// `x[i] = f(x[i])` on the calling thread, for a slice that is in the cache.
pub fn apply_in_place<C: Lane>(formula: &Loop<C>, x: &mut [C]) {
    const BLOCK: usize = 4 * LANE_MULTIPLE;
    let (mut from, mut to) = ([C::default(); BLOCK], [C::default(); LANE_MULTIPLE]);
    for block in x.chunks_mut(BLOCK) {
        let (len, full) = (block.len(), block.len() & !(LANE_MULTIPLE - 1));
        from[..len].copy_from_slice(block);
        formula.run(&[&from[..full]], &mut block[..full]);
        if full < len {
            // The loop takes multiples of its lane count only, so the tail is padded.
            from[len..full + LANE_MULTIPLE].fill(block[len - 1]);
            formula.run(&[&from[full..full + LANE_MULTIPLE]], &mut to);
            block[full..].copy_from_slice(&to[..len - full]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferromx_core::dtype::{bf16, f16};

    #[derive(Clone, Copy, Default)]
    struct Scaled;

    impl LaneFn<(f32,), f32> for Scaled {
        #[inline(always)]
        fn call(self, (x,): (f32,)) -> f32 {
            x * 1.5 - 2.0
        }
    }

    #[test]
    fn every_length_and_in_place_agree_with_the_naive_loop() {
        for n in [0, 1, 2, 15, 63, 64, 65, 127, 1000, 1024, 1025, 70_001] {
            let x: Vec<f32> = (0..n).map(|i| i as f32 * 0.25 - 7.0).collect();
            let want: Vec<f32> = x.iter().map(|x| x * 1.5 - 2.0).collect();
            let mut y = vec![0f32; n];
            map(Src::Slice(&x), &mut y, Scaled);
            let mut z = x.clone();
            apply_in_place(&Loop::map::<Scaled>(), &mut z);
            assert_eq!(z, want, "length {n}");
            assert_eq!(y, want);
            let mut y = x.clone();
            map(Src::<f32>::InPlace, &mut y, Scaled);
            assert_eq!(y, want);
        }
    }

    #[test]
    fn narrow_floats_and_integers_compute_in_wider_lanes() {
        let x: Vec<f16> = (0..300).map(|i| f16::from_f32(i as f32)).collect();
        let mut y = vec![bf16::ZERO; 300];
        map(Src::Slice(&x), &mut y, lane_fn!(|x: f32| -> f32 { x.sqrt() }));
        assert!(y.iter().enumerate().all(|(i, y)| *y == bf16::from_f32((i as f32).sqrt())));
        let mut y: Vec<u8> = (0..=255).collect();
        map(Src::<u8>::InPlace, &mut y, lane_fn!(|x: i32| -> i32 { x * x }));
        assert_eq!((y[16], y[200]), (0, 64));
    }
}
