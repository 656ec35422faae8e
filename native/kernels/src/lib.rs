//! The computing kernels of FerroMX: slices in, slices out.

#[cfg(test)]
mod test_data;

pub mod broadcast;
pub mod conv;
pub mod dropout;
pub mod float;
pub mod gemm;
pub mod index;
pub mod map;
pub mod math;
pub mod movement;
pub mod norm;
pub mod par;
pub mod pool;
pub mod reduce;
pub mod rng;
pub mod scan;
pub mod simd;
pub mod softmax;
pub mod sort;
pub mod zip;
