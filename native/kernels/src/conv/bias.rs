//! The bias of a convolution: one number for each channel.

use crate::float::{Accum, Real};
use crate::par::parallel_rows;
use num_traits::Zero;

/// Elements that make a chunk of parallel work.
const CHUNK: usize = 1 << 14;

/// Adds the bias of its channel to every element of `y`, of shape (batch, channels, space).
///
/// # Panics
/// When `y` is not a whole number of images of `bias.len()` channels.
pub fn conv_add_bias<T: Real>(batch: usize, bias: &[T], y: &mut [T]) {
    let pixels = plane(batch, bias.len(), y.len());
    parallel_rows(y, pixels, CHUNK.div_ceil(pixels.max(1)), |row, y| {
        add(T::Acc::of(bias[row % bias.len()]), y);
    });
}

/// Writes the gradient of the bias: the sum of the output's gradient, of shape (batch, channels, space), over images and
/// space.
///
/// # Panics
/// When the gradient is not a whole number of images of `bias_grad.len()` channels.
pub fn conv_backward_bias<T: Real>(batch: usize, output_grad: &[T], bias_grad: &mut [T]) {
    let channels = bias_grad.len();
    let pixels = plane(batch, channels, output_grad.len());
    let grain = (CHUNK / (batch * pixels).max(1)).max(1);
    parallel_rows(bias_grad, 1, grain, |channel, sum| {
        sum[0] = total(output_grad, channel * pixels, channels * pixels, pixels).store();
    });
}

/// Elements of a channel of an image.
fn plane(batch: usize, channels: usize, len: usize) -> usize {
    let planes = batch * channels;
    assert_eq!(len, len / planes.max(1) * planes, "elements of {batch} images of {channels} channels");
    len / planes.max(1)
}

crate::simd::per_isa! {
    fn add<T: Real>(bias: T::Acc, y: &mut [T]) {
        y.iter_mut().for_each(|y| *y = (T::Acc::of(*y) + bias).store());
    }
}

crate::simd::per_isa! {
    /// The sum of `len` adjacent elements from `first` on, and from every place `distance` further on, in lanes.
    fn total<T: Real>(values: &[T], first: usize, distance: usize, len: usize) -> T::Acc {
        const LANES: usize = 16;
        let mut lanes = [T::Acc::zero(); LANES];
        for start in (first..values.len()).step_by(distance.max(1)) {
            let (blocks, rest) = values[start..][..len].as_chunks::<LANES>();
            lanes.iter_mut().zip(rest).for_each(|(lane, x)| *lane += T::Acc::of(*x));
            for block in blocks {
                lanes.iter_mut().zip(block).for_each(|(lane, x)| *lane += T::Acc::of(*x));
            }
        }
        lanes.into_iter().sum()
    }
}
