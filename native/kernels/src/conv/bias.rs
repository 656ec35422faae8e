//! The bias of a convolution: one value per channel.

use crate::float::{Accum, FloatElement};
use crate::par::parallel_rows;
use num_traits::Zero;

/// Elements per chunk.
const GRAIN: usize = 1 << 14;

/// Adds the bias to `y` of shape (batch, channels, space).
///
/// # Panics
/// Panics if `y` is not `batch` whole images of `bias.len()` channels.
pub fn conv_add_bias<T: FloatElement>(batch: usize, bias: &[T], y: &mut [T]) {
    let pixels = plane(batch, bias.len(), y.len());
    parallel_rows(y, pixels, GRAIN.div_ceil(pixels.max(1)), |row, y| {
        add(T::Acc::of(bias[row % bias.len()]), y);
    });
}

/// Writes the gradient of the bias: the gradient of the output, of shape (batch, channels, space), summed over batch and space.
///
/// # Panics
/// Panics if the gradient is not `batch` whole images of `bias_grad.len()` channels.
pub fn conv_backward_bias<T: FloatElement>(batch: usize, output_grad: &[T], bias_grad: &mut [T]) {
    let channels = bias_grad.len();
    let pixels = plane(batch, channels, output_grad.len());
    let grain = (GRAIN / (batch * pixels).max(1)).max(1);
    parallel_rows(bias_grad, 1, grain, |channel, sum| {
        sum[0] = total(output_grad, channel * pixels, channels * pixels, pixels).store();
    });
}

/// Checks the length of an array (batch, channels, space) and returns the number of elements of a plane.
fn plane(batch: usize, channels: usize, len: usize) -> usize {
    let planes = batch * channels;
    assert_eq!(len, len / planes.max(1) * planes, "elements of {batch} images of {channels} channels");
    len / planes.max(1)
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    fn add<T: FloatElement>(bias: T::Acc, y: &mut [T]) {
        y.iter_mut().for_each(|y| *y = (T::Acc::of(*y) + bias).store());
    }
}

crate::simd::per_isa! {
    avx512 if T::USE_AVX512;
    /// Sums the rows of `len` contiguous elements that start at `first`, `first + stride` and so on, in several lanes.
    fn total<T: FloatElement>(values: &[T], first: usize, stride: usize, len: usize) -> T::Acc {
        const LANES: usize = 16;
        let mut lanes = [T::Acc::zero(); LANES];
        for start in (first..values.len()).step_by(stride.max(1)) {
            let (blocks, rest) = values[start..][..len].as_chunks::<LANES>();
            lanes.iter_mut().zip(rest).for_each(|(lane, x)| *lane += T::Acc::of(*x));
            for block in blocks {
                lanes.iter_mut().zip(block).for_each(|(lane, x)| *lane += T::Acc::of(*x));
            }
        }
        lanes.into_iter().sum()
    }
}
