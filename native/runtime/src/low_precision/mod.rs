//! Symbols that compute with fewer bits.
//!
//! - `insert_casts` inserts the casts of automatic mixed precision (AMP), and `remove_casts` removes them;
//! - `quantize` replaces operators by their quantized versions.

mod insert_casts;
mod quantize;
mod remove_casts;

pub use insert_casts::{AmpRules, ConditionalOp};
pub use quantize::{Mode, Quantization};
