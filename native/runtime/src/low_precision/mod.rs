//! Symbols that compute with fewer bits.
//!
//! - `precision` inserts the casts of automatic mixed precision, and `amp` removes them;
//! - `quantize` replaces operators by their quantized versions.

mod amp;
mod precision;
mod quantize;

pub use precision::{Conditional, Precision};
pub use quantize::{Mode, Quantization};
