//! Kernels in vector instructions, and the choice of the instruction set at run time.
//!
//! - `isa`: the instruction sets, and the one in use.
//! - `multiversion`: plain loops compiled for every instruction set.
//! - `microkernel`: the interface to the GEMM microkernels in `portable`, `neon`, `avx2` and `avx512`, and the packing of operands.
//! - `int8`: tiles of 8-bit integer products.
//! - `half`: conversion of 16-bit floats.
//! - `truncate`: conversion of floats to integers.
//! - `window`: packs panels of convolution windows.
//! - `depthwise`: depthwise convolution of a plane.
//! - `byte_windows`: depthwise convolution of a plane of bytes.
#![allow(unsafe_code)]

use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod byte_windows;
pub(crate) mod depthwise;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod dots;
pub(crate) mod half;
pub(crate) mod int8;
mod isa;
pub(crate) mod microkernel;
pub(crate) mod multiversion;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
pub(crate) mod truncate;
pub(crate) mod window;

/// Size of the L2 cache of a core in bytes, as reported by `cpuid`; 1 MiB if unknown.
pub(crate) fn l2_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::__cpuid;
            const CACHES: u32 = 0x8000_0006;
            // SAFETY: every x86-64 processor has `cpuid`. In compilers newer than the minimum version the function is safe.
            #[allow(unused_unsafe)]
            let kib = unsafe { if __cpuid(0x8000_0000).eax < CACHES { 0 } else { __cpuid(CACHES).ecx >> 16 } };
            if kib > 0 {
                return kib as usize * 1024;
            }
        }
        1 << 20
    })
}

/// Prefetches the cache line at `address` into the L2 cache.
#[inline(always)]
fn prefetch_line<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: SSE is part of the architecture, and prefetching is valid for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
    }
    #[cfg(target_arch = "aarch64")]
    neon::prefetch(address);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// Prefetches `ahead` into the L2 cache.
#[inline]
pub(crate) fn prefetch<T>(ahead: &[T]) {
    ahead.chunks(64 / size_of::<T>().clamp(1, 64)).for_each(|line| prefetch_line(line.as_ptr()));
}

/// Prefetches the elements `start..start + LEN` of `ahead` into the L2 cache, whether or not they exist.
#[inline(always)]
pub(crate) fn prefetch_at<T, const LEN: usize>(ahead: &[T], start: usize) {
    let line = 64 / size_of::<T>().clamp(1, 64);
    for i in (start..start + LEN).step_by(line) {
        prefetch_line(ahead.as_ptr().wrapping_add(i));
    }
}

pub(crate) use multiversion::per_isa;

isa::instruction_sets! {
    /// NEON: 16-byte vectors; part of every 64-bit ARM application processor.
    Neon = "neon" on "aarch64" if std::arch::is_aarch64_feature_detected!("neon"), in neon;
    /// AVX2 with fused multiply-add and conversion of 16-bit floats: 32-byte vectors.
    Avx2 = "avx2" on "x86_64"
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c"), in avx2;
    /// AVX-512F: 64-byte vectors.
    Avx512 = "avx512" on "x86_64" if Isa::Avx2.is_available() && is_x86_feature_detected!("avx512f"), in avx512;
}
