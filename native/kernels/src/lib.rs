//! The compute kernels of FerroMX. Kernels take slices or matrix views and know nothing of arrays or operators.

#[cfg(test)]
mod test_data;

pub mod attention;
mod axis_shape;
pub mod broadcast;
pub mod calibrate;
pub mod check;
pub mod conv;
pub mod correlation;
pub mod ctc;
pub mod detection;
pub mod dropout;
pub mod fft;
pub mod float;
pub mod gemm;
pub mod grid_sample;
pub mod histogram;
pub mod image;
pub mod index;
pub mod int8;
pub mod interpolate;
mod lane;
pub mod linalg;
pub mod map;
pub mod math;
pub mod movement;
pub mod norm;
pub mod par;
pub mod pool;
pub mod quantize;
pub mod reduce;
pub mod resize;
pub mod rng;
pub mod rnn;
pub mod roi_pool;
pub mod sampler;
pub mod scan;
pub mod sequence;
mod short_rows;
pub mod simd;
pub mod softmax;
pub mod sort;
pub mod sparse;
pub mod sparse_reg;
pub mod svm;
pub mod update;

pub use axis_shape::AxisShape;
pub use map::zip;
