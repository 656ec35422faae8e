//! The compute kernels of FerroMX. Kernels take slices or matrix views and know nothing of arrays or operators.
//!
//! - Foundations: `par` runs parallel loops, `simd` compiles loops for each instruction set and has the microkernels, `math` the
//!   elementary functions; `lane`, `item` and `float` describe element types.
//! - Elementwise: `map`, `broadcast`, `select`, `polynomial`, `progression`, `predicates`, `quantize`.
//! - Along axes: `reduce`, `scan`, `sort`, `softmax`, `norm`, `histogram`, with `axis_shape` and `short_rows`.
//! - Moving elements: `movement`, `index`, `nonzero`, `sequence`.
//! - Matrices: `gemm`, `int8`, `linalg`, `fft`, `sparse`, `sketch`.
//! - Layers and losses: `conv`, `pool`, `rnn`, `attention`, `dropout`, `prelu`, `ctc`, `svm`, `sparse_reg`, `correlation`.
//! - Images and regions: `image` (channels last); `resize`, `interpolate`, `grid_sample`, `sampler` (channels first); `detection`,
//!   `roi_pool`.
//! - Random numbers: `rng`, `density`.
//! - Training: `update`, `group_adagrad`, `calibrate`, and `byte_sum` for the gradients of other ranks.
//! - Text: `ngrams`.

#[cfg(test)]
mod test_data;

pub mod attention;
mod axis_shape;
pub mod broadcast;
pub mod byte_sum;
pub mod calibrate;
pub mod conv;
pub mod correlation;
pub mod ctc;
pub mod density;
pub mod detection;
pub mod dropout;
pub mod fft;
pub mod float;
pub mod gemm;
pub mod grid_sample;
pub mod group_adagrad;
pub mod histogram;
pub mod image;
pub mod index;
pub mod int8;
pub mod interpolate;
mod item;
mod lane;
pub mod linalg;
pub mod map;
pub mod math;
pub mod movement;
pub mod ngrams;
pub mod nonzero;
pub mod norm;
pub mod par;
pub mod polynomial;
pub mod pool;
pub mod predicates;
pub mod prelu;
pub mod progression;
pub mod quantize;
pub mod reduce;
pub mod resize;
pub mod rng;
pub mod rnn;
pub mod roi_pool;
pub mod sampler;
pub mod scan;
pub mod select;
pub mod sequence;
mod short_rows;
pub mod simd;
pub mod sketch;
pub mod softmax;
pub mod sort;
pub mod sparse;
pub mod sparse_reg;
pub mod svm;
pub mod update;

pub use axis_shape::AxisShape;
pub use map::zip;
