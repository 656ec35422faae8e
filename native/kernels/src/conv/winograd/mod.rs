//! Convolution with 3 x 3 kernels and stride 1 by Winograd's minimal filtering algorithm F(4 x 4, 3 x 3) (Lavin and Gray, "Fast
//! algorithms for convolutional neural networks", 2016): tiles of 4 x 4 outputs from 6 x 6 inputs take 36 products per pair of
//! channels, where the definition takes 144. Rounding errors are about ten times those of the definition.
//!
//! With the matrices A, B and G of the paper, the outputs of a tile are A^T [(G g G^T) * (B^T d B)] A, summed over the channels,
//! for weights g and inputs d. The gradient of the weights is G^T [(A y A^T) * (B^T d B)] G, summed over all tiles, for gradients y
//! of the outputs.
//!
//! - `forward`: the outputs, and the gradient of the input, which is a convolution of the same kind.
//! - `backward_weights`: the gradient of the weights.

mod backward_weights;
mod forward;

pub(super) use backward_weights::{backward_weights, is_profitable_for_weights};
pub(super) use forward::{WeightOrder, forward, transform_weights, weights_len};

use super::ConvShape;
use crate::float::Accum;
use std::sync::OnceLock;

/// Elements of a transformed tile.
const ELEMENTS: usize = 36;
/// Outputs of a tile along each dimension.
const TILE: usize = 4;
/// Vector lanes of a transform: tiles, or channels of one tile.
const LANES: usize = 16;
/// Minimum number of input and output channels for which the transforms pay off.
const MIN_CHANNELS: usize = 24;

/// True if `MXNET_EXACT_CONV` is 1, which rules out algorithms with larger rounding errors than the definition. Read once.
fn is_exact_required() -> bool {
    static EXACT: OnceLock<bool> = OnceLock::new();
    *EXACT.get_or_init(|| std::env::var("MXNET_EXACT_CONV").is_ok_and(|value| value.trim() == "1"))
}

/// True if the convolution has a 3 x 3 kernel, stride 1, and enough channels and pixels.
pub(super) fn is_profitable<T: Accum>(shape: &ConvShape) -> bool {
    saves_products::<T>(shape, tiles(shape).next_multiple_of(LANES))
}

/// Number of tiles of an image.
fn tiles(shape: &ConvShape) -> usize {
    let output = shape.output();
    output[1].div_ceil(TILE) * output[2].div_ceil(TILE)
}

/// True if the algorithm may be used, and computing `tiles` tiles for each image takes fewer products than the definition by a
/// margin that pays for the transforms.
fn saves_products<T: Accum>(shape: &ConvShape, tiles: usize) -> bool {
    let channels = shape.group_in().min(shape.group_out());
    !is_exact_required()
        && size_of::<T>() == size_of::<f32>()
        && supports(shape)
        && channels >= MIN_CHANNELS
        && 5 * shape.output_plane() >= 3 * tiles * TILE * TILE
}

/// True if the algorithm can compute `shape`.
pub(super) fn supports(shape: &ConvShape) -> bool {
    shape.kernel == [1, 3, 3]
        && shape.input[0] == 1
        && shape.stride == [1; 3]
        && shape.dilate == [1; 3]
        && shape.pad[0] == 0
        && shape.pad[1..].iter().all(|&pad| pad <= 2)
}

/// The convolution that computes the gradient of the input from that of the output.
pub(super) fn adjoint(shape: &ConvShape) -> ConvShape {
    ConvShape {
        in_channels: shape.out_channels,
        out_channels: shape.in_channels,
        input: shape.output(),
        pad: [0, 2 - shape.pad[1], 2 - shape.pad[2]],
        ..*shape
    }
}

/// B^T d for a column of six inputs.
#[inline(always)]
fn transform_inputs_1d<T: Accum>(d: [T; 6]) -> [T; 6] {
    let c = |x: f64| T::of(x);
    let (a, b) = (d[4] - d[2] * c(4.0), d[3] - d[1] * c(4.0));
    let (e, f) = (d[4] - d[2], (d[3] - d[1]) * c(2.0));
    [d[0] * c(4.0) - d[2] * c(5.0) + d[4], a + b, a - b, e + f, e - f, d[1] * c(4.0) - d[3] * c(5.0) + d[5]]
}
