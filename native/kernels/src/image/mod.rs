//! Images in (height, width, channels) layout, and their conversion to planes.
//!
//! - `resize`: resizing with OpenCV's filters.
//! - `border`: borders.
//! - `planes`: crops converted to planes, and the subtraction of a mean image.
//! - `color`: brightness, contrast, saturation, hue, lighting and normalization.

mod border;
mod color;
mod planes;
mod resize;
#[cfg(test)]
mod tests;

pub use border::{Border, add_border};
pub use color::{Change, adjust, lighting, normalize, saturate, to_tensor};
pub use planes::{Crop, crop_planes, subtract_mean};
pub use resize::{Interpolation, Pixel, resize};

/// Elements per chunk.
const GRAIN: usize = 1 << 14;
