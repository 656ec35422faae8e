//! Kernels in vector instructions, chosen once at run time.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod isa;
pub mod microkernel;
pub mod multiversion;
mod portable;
pub mod window;

pub use isa::Isa;
pub(crate) use multiversion::per_isa;
