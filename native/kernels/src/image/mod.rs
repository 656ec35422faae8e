//! Images in (height, width, channels) layout, and their conversion to planes.
//!
//! - `resize`: resizing with OpenCV's filters.
//! - `border`: borders.
//! - `planes`: crops and channels converted to planes, and the subtraction of a mean.
//! - `color`: brightness, contrast, saturation, hue, lighting and normalization.
//! - `hls`: shifts of hue, lightness and saturation.
//! - `warp`: affine transformations.

mod border;
mod color;
mod hls;
mod planes;
mod resize;
#[cfg(test)]
mod tests;
mod warp;

pub use border::{Border, add_border};
pub use color::{Change, adjust, lighting, normalize, to_tensor};
pub use hls::shift_hls;
pub use planes::{Crop, Mean, Normalization, crop_planes, normalize_plane, subtract_mean};
pub use resize::{Interpolation, Pixel, resize};
pub use warp::{Sampling, warp_affine};

/// An image of bytes in (height, width, channels) layout.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// The samples.
    pub samples: &'a [u8],
    /// The number of rows.
    pub height: usize,
    /// The number of columns.
    pub width: usize,
    /// The number of samples per pixel.
    pub channels: usize,
}

/// Elements per chunk.
const GRAIN: usize = 1 << 14;
