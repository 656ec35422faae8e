//! The computing kernels of FerroMX: slices in, slices out.

pub mod float;
pub mod gemm;
pub mod par;
pub mod pool;
pub mod simd;
pub mod softmax;
#[cfg(test)]
mod test_data;
