//! Convolution over one to three spatial dimensions and its gradients (MXNet's `Convolution`). With roles exchanged, the same
//! functions compute `Deconvolution` and its gradients.
//!
//! A convolution is an implicit GEMM: panels of windows are packed straight from the image, padding included, and multiplied by
//! packed weights. The gradient of the data is a convolution of the output gradient with the rotated weights, one for each residue
//! of the stride; the gradient of the weights is the product of the output gradient and the windows. Results do not depend on the
//! number of threads.
//!
//! 3 x 3 kernels with stride 1 on many channels use Winograd's algorithm in `f32`, whose rounding errors are about ten times as
//! large; the environment variable `MXNET_EXACT_CONV=1` disables it.
//!
//! - `forward`: the choice of the algorithm, and packed weights.
//! - `backward_data`, `backward_weights`, `bias`: the gradients.
//! - `epilogue`: what is applied to the output.
//! - `geometry`: the input elements that the windows read.
//! - `phases`: splits the input into elements that the same taps read, for the gradient of strided convolutions.
//! - `layout`: copies planes so that taps read contiguous elements.
//! - `implicit`: implicit GEMM with pixels in the vector lanes.
//! - `output_channel_gemm`: implicit GEMM with output channels in the vector lanes, for small images.
//! - `winograd`: Winograd's algorithm for 3 x 3 kernels.
//! - `depthwise`: one kernel per channel.
//! - `single_output`: kernels that cover the whole image, as plain matrix products.
//! - `few_outputs`: the gradient of the input for kernels nearly as large as the image.
//! - `disjoint`: the gradient of the input for windows that do not overlap.
//! - `strided_compaction`: removes input elements that no window reads.
//! - `crop`: removes taps that read only padding.
//! - `deformable`: deformable convolution.
//! - `im2col`: the explicit matrix of windows, which MXNet offers as an operator of its own.
//!
//! | Of a deconvolution with data x, weights w, result y | is |
//! |---|---|
//! | y | [`conv_backward_data`] of x as the gradient of an output |
//! | gradient of x | [`conv_forward`] of the gradient of y |
//! | gradient of w | [`conv_backward_weights`] with the gradient of y as data and x as the gradient of an output |

mod backward_data;
mod backward_weights;
mod bias;
mod crop;
mod deformable;
mod depthwise;
mod disjoint;
mod epilogue;
mod few_outputs;
mod forward;
mod geometry;
mod im2col;
mod implicit;
mod layout;
mod output_channel_gemm;
mod phases;
mod single_output;
mod strided_compaction;
#[cfg(test)]
mod tests;
mod winograd;

pub use backward_data::conv_backward_data;
pub use backward_weights::conv_backward_weights;
pub use bias::{conv_add_bias, conv_backward_bias};
pub use deformable::{DeformGrads, DeformInputs, DeformShape, deform_backward, deform_forward};
pub use epilogue::ConvEpilogue;
pub use forward::{PackedConvLayout, PackedConvWeights, conv_forward, conv_forward_packed};
pub use im2col::{col2im, im2col};

use geometry::Geometry;

/// The sizes of a convolution.
///
/// The input is (batch, in_channels, input), the output (batch, out_channels, [`ConvShape::output`]), the weights are
/// (out_channels, in_channels / groups, kernel). A convolution over fewer than three dimensions has leading dimensions
/// of input and kernel 1, of stride and dilation 1, and of padding 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvShape {
    /// Number of images.
    pub batch: usize,
    /// Groups of channels that are convolved separately; divides both channel counts.
    pub groups: usize,
    /// Channels of the input.
    pub in_channels: usize,
    /// Channels of the output: MXNet's `num_filter`.
    pub out_channels: usize,
    /// Spatial size of the input.
    pub input: [usize; 3],
    /// Size of the kernel.
    pub kernel: [usize; 3],
    /// Stride between neighboring windows, at least 1.
    pub stride: [usize; 3],
    /// Zeros before and after the input.
    pub pad: [usize; 3],
    /// Stride between neighboring taps, at least 1.
    pub dilate: [usize; 3],
}

impl ConvShape {
    /// Spatial size of the output: `(input + 2 pad - dilate (kernel - 1) - 1) / stride + 1`, or zero where the kernel exceeds the
    /// padded input.
    pub fn output(&self) -> [usize; 3] {
        std::array::from_fn(|i| {
            let dilated_kernel = self.dilate[i] * self.kernel[i].saturating_sub(1) + 1;
            let last_start = (self.input[i] + 2 * self.pad[i]).checked_sub(dilated_kernel);
            last_start.map_or(0, |start| start / self.stride[i].max(1) + 1)
        })
    }

    /// The equivalent convolution whose strides do not exceed the padded input; with a longer stride there is also just one window.
    /// Axes of size zero, which may be unknown, keep their strides.
    pub fn with_bounded_strides(mut self) -> Self {
        for i in (0..3).filter(|i| self.input[*i] > 0) {
            self.stride[i] = self.stride[i].min(self.input[i].saturating_add(self.pad[i].saturating_mul(2)));
        }
        self
    }

    /// True if packing the weights once does not speed up [`conv_forward`].
    pub fn is_faster_unpacked(&self) -> bool {
        /// With fewer rows, a product is bound by reading the weights.
        const ROWS: usize = 4;
        crop::cropped(self).is_some() || (single_output::applies(self) && self.batch < ROWS)
    }

    /// True if [`conv_forward`] and [`conv_forward_packed`] give the same bits.
    pub fn gives_same_bits_unpacked(&self) -> bool {
        crop::cropped(self).is_none() && !single_output::applies(self)
    }

    /// Elements of the input.
    pub fn input_len(&self) -> usize {
        self.batch * self.in_channels * self.input_plane()
    }

    /// Elements of the output.
    pub fn output_len(&self) -> usize {
        self.batch * self.out_channels * self.output_plane()
    }

    /// Elements of the weights.
    pub fn weights_len(&self) -> usize {
        self.out_channels * self.depth()
    }

    fn input_plane(&self) -> usize {
        self.input.iter().product()
    }

    fn output_plane(&self) -> usize {
        self.output().iter().product()
    }

    fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    fn group_in(&self) -> usize {
        self.in_channels / self.groups
    }

    fn group_out(&self) -> usize {
        self.out_channels / self.groups
    }

    /// Depth of the matrix product: input channels of a group x taps.
    fn depth(&self) -> usize {
        self.group_in() * self.taps()
    }

    /// # Panics
    /// Panics if groups, strides or dilations are invalid.
    fn check(&self) {
        assert!(
            self.groups > 0
                && self.in_channels.is_multiple_of(self.groups)
                && self.out_channels.is_multiple_of(self.groups)
                && self.stride.iter().chain(&self.dilate).all(|&d| d > 0),
            "groups must divide the channels, strides and dilations be positive: {self:?}"
        );
    }

    /// The windows of the forward pass.
    fn windows(&self) -> Geometry {
        let tap = |i: usize| {
            let tap_index =
                [i / (self.kernel[1] * self.kernel[2]), i / self.kernel[2] % self.kernel[1], i % self.kernel[2]];
            std::array::from_fn(|d| (tap_index[d] * self.dilate[d]) as isize - self.pad[d] as isize)
        };
        Geometry {
            grid: self.output(),
            source: self.input,
            stride: self.stride,
            taps: (0..self.taps()).map(tap).collect(),
        }
    }
}

fn check_len(what: &str, len: usize, expected: usize, shape: &ConvShape) {
    assert_eq!(len, expected, "elements of the {what} of {shape:?}");
}
