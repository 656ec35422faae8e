//! Compiles functions and loops for several instruction sets and picks the best one that the processor has at run time.
//!
//! Every version computes the same bits: nothing is reassociated and `f32::mul_add` is exact everywhere. Debug builds therefore
//! compile the portable version alone, which takes a fraction of the time; this crate's own tests compile all.
#![allow(unsafe_code)]

use super::{Isa, half};
use ferromx_core::dtype::f16;
use std::sync::OnceLock;

/// Declares functions whose body is compiled for every level of [`Isa`] and chosen at run time.
///
/// The body should consist of loops over slices that the compiler can vectorize; functions that it calls must be inlined. Each
/// call evaluates [`level`], so it should do at least a few hundred operations. With `avx512 if CONDITION;` before it, which
/// depends on the generic types, a function is compiled for AVX-512 only if the condition holds.
macro_rules! per_isa {
    (avx512 if $condition:expr; $($function:tt)+) => {
        $crate::simd::multiversion::per_isa! { @condition ($condition) $($function)+ }
    };
    ($(#[$meta:meta])* $vis:vis fn $($function:tt)+) => {
        $crate::simd::multiversion::per_isa! { @condition (true) $(#[$meta])* $vis fn $($function)+ }
    };
    (@condition ($condition:expr) $(#[$meta:meta])* $vis:vis fn $name:ident $(<$($g:ident: $bound:path),+ $(,)?>)?
     ($($arg:ident: $t:ty),* $(,)?) $(-> $r:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(unsafe_code)]
        $vis fn $name $(<$($g: $bound),+>)? ($($arg: $t),*) $(-> $r)? {
            #[inline(always)]
            fn portable $(<$($g: $bound),+>)? ($($arg: $t),*) $(-> $r)? $body

            #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
            #[target_feature(enable = "avx2,fma")]
            fn avx2 $(<$($g: $bound),+>)? ($($arg: $t),*) $(-> $r)? {
                portable $(::<$($g),+>)? ($($arg),*)
            }

            #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
            #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")]
            fn avx512 $(<$($g: $bound),+>)? ($($arg: $t),*) $(-> $r)? {
                portable $(::<$($g),+>)? ($($arg),*)
            }

            #[allow(clippy::match_single_binding)] // debug builds have the last arm only
            match $crate::simd::multiversion::level() {
                // SAFETY: `level` returns a level only if the processor has its instructions.
                #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
                $crate::simd::Isa::Avx512 if $condition => unsafe { avx512 $(::<$($g),+>)? ($($arg),*) },
                // SAFETY: as above.
                #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
                $crate::simd::Isa::Avx2 | $crate::simd::Isa::Avx512 => unsafe { avx2 $(::<$($g),+>)? ($($arg),*) },
                _ => portable $(::<$($g),+>)? ($($arg),*),
            }
        }
    };
}
pub(crate) use per_isa;

/// The instruction set of the selected versions: [`Isa::current`], except that AVX-512 also requires the extensions VL, DQ and BW,
/// which all its processors since 2017 have.
pub(crate) fn level() -> Isa {
    static LEVEL: OnceLock<Isa> = OnceLock::new();
    *LEVEL.get_or_init(|| match Isa::current() {
        Isa::Avx512 if !has_avx512_extensions() => Isa::Avx2,
        isa => isa,
    })
}

#[cfg(target_arch = "x86_64")]
fn has_avx512_extensions() -> bool {
    is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512bw")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx512_extensions() -> bool {
    false
}

/// Loops over slices that [`run`] compiles for every instruction set (function multiversioning). `run` and all functions called in the
/// loops must be `#[inline(always)]`, because only inlined code is compiled for the wider instruction set.
pub(crate) trait Multiversioned {
    /// What the loops return.
    type Output;
    /// False to compile the loops for AVX2 at most.
    // Debug builds and other processors have the portable version alone.
    #[cfg_attr(not(all(target_arch = "x86_64", any(test, not(debug_assertions)))), allow(dead_code))]
    const USE_AVX512: bool = true;

    /// The loops, as plain scalar Rust.
    fn run(self) -> Self::Output;
}

per_isa! {
    avx512 if L::USE_AVX512;
    /// Runs `loops` with the widest instructions of this processor: AVX-512, AVX2 with FMA, or the target's baseline.
    pub(crate) fn run<L: Multiversioned>(loops: L) -> L::Output {
        loops.run()
    }
}

/// The loop of an elementwise formula, `y[i] = f(x[0][i], x[1][i], …)`. An operand has the length of the result or fewer elements,
/// which are repeated.
pub trait LoopBody<C, D> {
    /// False to compile the loop for AVX2 at most.
    const USE_AVX512: bool = true;

    /// The loop. It and everything that it calls must be `#[inline(always)]`.
    fn run(x: &[&[C]], y: &mut [D]);
}

/// The loop of a formula of single precision over 16-bit floats, which are converted in registers.
pub(crate) trait HalfLoopBody {
    /// The loop. It and everything that it calls must be `#[inline(always)]`.
    fn run(convert: impl half::Convert, x: &[&[f16]], y: &mut [f16]);
}

type LoopVersion<C, D> = unsafe fn(&[&[C]], &mut [D]);

/// A loop over lanes of type `C` with results of type `D`, compiled for each instruction set. Where NEON is part of the target's
/// baseline, the portable version uses it.
///
/// A loop is a constant of three function pointers, so that code that takes one is compiled once for all formulas.
#[derive(Debug)]
pub struct Loop<C, D = C> {
    portable: LoopVersion<C, D>,
    #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
    avx2: LoopVersion<C, D>,
    #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
    avx512: LoopVersion<C, D>,
}

impl<C, D> Clone for Loop<C, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, D> Copy for Loop<C, D> {}

impl<C, D> Loop<C, D> {
    /// The versions of the loop `B`.
    pub const fn new<B: LoopBody<C, D>>() -> Loop<C, D> {
        fn portable<C, D, B: LoopBody<C, D>>(x: &[&[C]], y: &mut [D]) {
            B::run(x, y);
        }
        #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
        #[target_feature(enable = "avx2,fma")]
        fn avx2<C, D, B: LoopBody<C, D>>(x: &[&[C]], y: &mut [D]) {
            B::run(x, y);
        }
        #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
        #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")]
        fn avx512<C, D, B: LoopBody<C, D>>(x: &[&[C]], y: &mut [D]) {
            B::run(x, y);
        }
        Loop {
            portable: portable::<C, D, B>,
            #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
            avx2: avx2::<C, D, B>,
            #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
            avx512: if B::USE_AVX512 { avx512::<C, D, B> } else { avx2::<C, D, B> },
        }
    }

    /// Runs the version for this processor. The lengths of `y` and of the operands are multiples of
    /// [`LANE_MULTIPLE`](crate::map::LANE_MULTIPLE).
    pub fn run(&self, x: &[&[C]], y: &mut [D]) {
        #[allow(clippy::match_single_binding)] // debug builds have the last arm only
        let version = match level() {
            #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
            Isa::Avx512 => self.avx512,
            #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
            Isa::Avx2 => self.avx2,
            _ => self.portable,
        };
        // SAFETY: `level` returns a level only if the processor has its instructions; the versions have no other requirement.
        unsafe { version(x, y) }
    }
}

impl Loop<f16> {
    /// The versions of the loop `B`.
    pub(crate) const fn half<B: HalfLoopBody>() -> Loop<f16> {
        fn portable<B: HalfLoopBody>(x: &[&[f16]], y: &mut [f16]) {
            B::run(half::Portable, x, y);
        }
        #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn avx2<B: HalfLoopBody>(x: &[&[f16]], y: &mut [f16]) {
            // SAFETY: this function is only called on processors with the instructions it is compiled for.
            B::run(unsafe { half::F16c::new() }, x, y);
        }
        Loop {
            portable: portable::<B>,
            #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
            avx2: avx2::<B>,
            // The conversion of wider vectors is not faster.
            #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
            avx512: avx2::<B>,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Axpy<'a>(&'a [f32], &'a mut [f32]);

    impl Multiversioned for Axpy<'_> {
        type Output = ();

        #[inline(always)]
        fn run(self) {
            for (y, x) in self.1.iter_mut().zip(self.0) {
                *y = x.mul_add(0.1, *y);
            }
        }
    }

    #[test]
    fn every_version_gives_the_same_bits() {
        let x: Vec<f32> = (0..1003).map(|i| (i as f32).sin()).collect();
        let (mut base, mut best) = (x.clone(), x.clone());
        Axpy(&x, &mut base).run();
        run(Axpy(&x, &mut best));
        assert_eq!(base, best);
    }
}
