//! Images in (height, width, channels) layout.
//!
//! - `resize`: resizing with OpenCV's filters.
//! - `border`: borders.
//! - `color`: brightness, contrast, saturation, hue, lighting and normalization.

mod border;
mod color;
mod resize;
#[cfg(test)]
mod tests;

pub use border::{Border, add_border};
pub use color::{Change, adjust, lighting, normalize, saturate, to_tensor};
pub use resize::{Interpolation, Pixel, resize};

/// Elements per chunk.
const GRAIN: usize = 1 << 14;
