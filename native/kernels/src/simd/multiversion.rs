//! Compiles one generic loop for several instruction sets and picks the best that the processor has.
//!
//! Every version computes the same bits: the loops hold no reassociation and `f32::mul_add` is exact everywhere. A debug build
//! therefore has the portable version alone, which compiles in a fraction of the time; the tests of this crate have all.
#![allow(unsafe_code)]

/// A loop that is worth compiling for wide vectors. `run` and everything that it calls in the loop must be
/// `#[inline(always)]`, for only inlined code takes part in the wider instruction set.
pub trait Kernel {
    /// What the loop returns.
    type Output;

    /// The loop itself, as plain scalar Rust.
    fn run(self) -> Self::Output;
}

/// Runs `kernel` with the widest instructions of this processor: AVX-512, AVX2 with FMA, or the compile target's own.
#[inline]
pub fn run<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
    {
        match x86::level() {
            // SAFETY: this level means that the processor has every feature that `run_avx512` enables.
            x86::AVX512 => return unsafe { x86::run_avx512(kernel) },
            // SAFETY: this level means that the processor has every feature that `run_avx2` enables.
            x86::AVX2 => return unsafe { x86::run_avx2(kernel) },
            _ => {}
        }
    }
    kernel.run()
}

#[cfg(all(target_arch = "x86_64", any(test, not(debug_assertions))))]
mod x86 {
    use super::Kernel;
    use crate::simd::Isa;
    use std::sync::atomic::{AtomicU8, Ordering};

    const UNKNOWN: u8 = 0;
    const BASELINE: u8 = 1;
    pub(super) const AVX2: u8 = 2;
    pub(super) const AVX512: u8 = 3;

    static LEVEL: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[inline(always)]
    pub(super) fn level() -> u8 {
        match LEVEL.load(Ordering::Relaxed) {
            UNKNOWN => detect(),
            known => known,
        }
    }

    #[cold]
    fn detect() -> u8 {
        let isa = Isa::current();
        let wide = is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw");
        let level = match isa {
            Isa::Avx512 if wide => AVX512,
            Isa::Avx512 | Isa::Avx2 => AVX2,
            Isa::Portable => BASELINE,
        };
        LEVEL.store(level, Ordering::Relaxed);
        level
    }

    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
    pub(super) fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
        kernel.run()
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
        kernel.run()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        struct Axpy<'a>(&'a [f32], &'a mut [f32]);

        impl Kernel for Axpy<'_> {
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
            let base = {
                let mut y = x.clone();
                Axpy(&x, &mut y).run();
                y
            };
            let mut best = x.clone();
            super::super::run(Axpy(&x, &mut best));
            assert_eq!(base, best);
            if level() >= AVX2 {
                let mut y = x.clone();
                // SAFETY: the level says that the processor has AVX2 and FMA.
                unsafe { run_avx2(Axpy(&x, &mut y)) };
                assert_eq!(base, y);
            }
        }
    }
}
