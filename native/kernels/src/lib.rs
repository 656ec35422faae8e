//! The computing kernels of FerroMX: slices in, slices out.

pub mod gemm;
pub mod par;
pub mod simd;
