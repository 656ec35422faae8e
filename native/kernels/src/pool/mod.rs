//! Pooling over one to three spatial dimensions: maximum, average, sum and power mean (MXNet's `Pooling`).
//!
//! Windows are clipped to the input; [`PoolKind`] defines how padding counts. Results do not depend on the number of threads: a
//! plane is computed by one thread, in a fixed order.
//!
//! - `forward`, `backward`: pooling of floating-point elements.
//! - `bytes`: max pooling of 8-bit integers.
//! - `phases`: the polyphase decomposition of rows.
//! - `strided`: a loop over strided elements.
//! - `max_ties`: max pooling whose gradient goes to all equal maxima.
//! - `max_with_indices`: max pooling with dilation and indices (ONNX's `MaxPool`).

mod backward;
mod bytes;
mod forward;
mod max_ties;
pub mod max_with_indices;
mod phases;
mod strided;
#[cfg(test)]
mod tests;

pub use backward::pool_backward;
pub use bytes::max_pool_bytes;
pub use forward::pool_forward;
pub use max_ties::max_pool_backward_to_ties;
pub(crate) use strided::each_strided;

use ferromx_core::dtype::{DType, bf16, f16};
use num_traits::Float;
use smallvec::SmallVec;
use std::ops::Range;

use crate::float::{Accum, FloatElement};
use phases::Phases;

/// The lowest finite number of an element type, with which a maximum starts, as in MXNet.
#[inline(always)]
pub(crate) fn lowest<T: FloatElement>() -> T::Acc {
    match T::DTYPE {
        DType::F16 => T::Acc::of(f16::MIN),
        DType::BF16 => T::Acc::of(bf16::MIN),
        _ => T::Acc::min_value(),
    }
}

/// How the output size along an axis is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolConvention {
    /// Only windows that lie within the padded input: `(input + 2 pad - kernel) / stride + 1`, rounded down.
    Valid,
    /// Enough windows to cover the padded input: as `Valid`, rounded up.
    Full,
    /// `input / stride`, rounded up; the last windows are clipped to the input. Without padding.
    Same,
}

impl PoolConvention {
    /// The output size along an axis; `None` if the kernel exceeds the padded input, the stride or the kernel is zero, or there is
    /// padding with [`PoolConvention::Same`].
    pub fn output_size(self, input: usize, kernel: usize, stride: usize, pad: usize) -> Option<usize> {
        if kernel == 0 || stride == 0 {
            return None;
        }
        let last_start = pad.checked_mul(2)?.checked_add(input)?.checked_sub(kernel);
        match self {
            PoolConvention::Valid => Some(last_start? / stride + 1),
            PoolConvention::Full => Some(last_start?.div_ceil(stride) + 1),
            PoolConvention::Same => (pad == 0).then(|| input.div_ceil(stride)),
        }
    }
}

/// The reduction over the elements of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// The largest element; padding and NaN are ignored. A window without elements gives negative infinity. The gradient goes to
    /// the first of equal elements in row-major order.
    Max,
    /// The mean. A window without elements gives zero.
    Average {
        /// True if the divisor is the size of the window clipped to the padded input, false if it is the number of input elements
        /// in it.
        count_include_pad: bool,
    },
    /// The sum.
    Sum,
    /// The p-th root of the sum of p-th powers (signed: no absolute value is taken, as in MXNet).
    Power(PoolPower),
}

/// The exponent of [`PoolKind::Power`], MXNet's `p_value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolPower {
    /// The plain sum.
    One,
    /// The Euclidean norm.
    Two,
    /// The cube root of the sum of cubes.
    Three,
}

/// The sizes of a pooling: `planes` times three spatial dimensions times `inner` elements.
///
/// For the layout (batch, channel, …) `planes` is batch times channels and `inner` is 1; for (batch, …, channel)
/// `planes` is the batch and `inner` the number of channels. Pooling over fewer than three dimensions has leading
/// dimensions of input, kernel, stride and output 1 and padding 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// Independent images.
    pub planes: usize,
    /// Spatial sizes of the input.
    pub input: [usize; 3],
    /// Contiguous elements per coordinate, which are pooled separately: the channels of channels-last layouts.
    pub inner: usize,
    /// Size of the window.
    pub kernel: [usize; 3],
    /// Stride between neighboring windows, at least 1.
    pub stride: [usize; 3],
    /// Padding before and after the input.
    pub pad: [usize; 3],
    /// Spatial sizes of the output, see [`PoolConvention::output_size`].
    pub output: [usize; 3],
}

impl PoolShape {
    /// Elements of the input.
    pub fn input_len(&self) -> usize {
        self.planes * self.input_plane()
    }

    /// Elements of the output.
    pub fn output_len(&self) -> usize {
        self.planes * self.output_plane()
    }

    fn input_plane(&self) -> usize {
        self.input.iter().product::<usize>() * self.inner
    }

    fn output_plane(&self) -> usize {
        self.output.iter().product::<usize>() * self.inner
    }

    /// Planes per chunk.
    fn grain(&self) -> usize {
        const GRAIN: usize = 16 * 1024;
        (GRAIN / (self.input_plane() + self.output_plane()).max(1)).max(1)
    }

    fn axes(&self) -> [Axis; 3] {
        std::array::from_fn(|i| Axis {
            input: self.input[i],
            kernel: self.kernel[i],
            stride: self.stride[i],
            pad: self.pad[i],
            output: self.output[i],
        })
    }

    /// True for windows of 2 x 2 or 1 x 2 with strides of the same size and without padding, which are disjoint and lie within the
    /// image.
    fn is_disjoint_pairs(&self) -> bool {
        self.inner == 1
            && (self.kernel == [1, 2, 2] || self.kernel == [1, 1, 2])
            && (1..3).all(|i| self.stride[i] == self.kernel[i] && self.kernel[i] * self.output[i] <= self.input[i])
            && self.pad == [0; 3]
            && self.output[0] == self.input[0]
            && (self.stride[0] == 1 || self.output[0] == 1)
    }

    /// True if a single window covers each plane.
    fn is_global(&self) -> bool {
        self.inner == 1 && self.output == [1; 3] && self.axes().iter().all(|axis| axis.window(0) == (0..axis.input))
    }

    fn plane_windows(&self) -> PlaneWindows {
        let axes = self.axes();
        PlaneWindows { axes, offsets: axes[2].offsets(), inner: self.inner }
    }

    fn check(&self, input: usize, output: usize) {
        assert_eq!(input, self.input_len(), "elements of the input of {self:?}");
        assert_eq!(output, self.output_len(), "elements of the output of {self:?}");
        assert!(self.stride.iter().all(|&stride| stride > 0), "a stride of zero in {self:?}");
    }
}

/// A pooling in single or double precision.
struct Pooling<'a, A> {
    shape: &'a PoolShape,
    kind: PoolKind,
    /// The lowest finite number of the element type of the arrays.
    lowest: A,
    windows: PlaneWindows,
    phases: Phases,
    is_global: bool,
    /// See [`PoolShape::is_disjoint_pairs`]; false for powers.
    is_disjoint_pairs: bool,
}

impl<'a, A: Accum> Pooling<'a, A> {
    fn new(shape: &'a PoolShape, kind: PoolKind, lowest: A) -> Self {
        let windows = shape.plane_windows();
        let phases = Phases::new(windows.axes[2]);
        let is_disjoint_pairs = !matches!(kind, PoolKind::Power(_)) && shape.is_disjoint_pairs();
        Pooling { shape, kind, lowest, windows, phases, is_global: shape.is_global(), is_disjoint_pairs }
    }
}

/// The windows of a plane.
struct PlaneWindows {
    axes: [Axis; 3],
    /// [`Axis::offsets`] of the last axis.
    offsets: Offsets,
    inner: usize,
}

/// See [`Axis::offsets`].
type Offsets = SmallVec<[(Range<usize>, usize); 8]>;

/// The sizes along one axis.
#[derive(Clone, Copy)]
struct Axis {
    input: usize,
    kernel: usize,
    stride: usize,
    pad: usize,
    output: usize,
}

impl Axis {
    /// The input coordinates in the window of an output.
    fn window(&self, output: usize) -> Range<usize> {
        let start = output * self.stride;
        let end = (start + self.kernel).saturating_sub(self.pad).min(self.input);
        start.saturating_sub(self.pad).min(end)..end
    }

    /// The size of the window of an output, clipped to the padded input.
    fn padded_window(&self, output: usize) -> usize {
        let start = output * self.stride;
        (start + self.kernel).min(self.input + 2 * self.pad).saturating_sub(start)
    }

    /// The size of the window of an output that the average divides by.
    fn size(&self, count_include_pad: bool, output: usize) -> usize {
        if count_include_pad { self.padded_window(output) } else { self.window(output).len() }
    }

    /// The outputs for which the `offset`-th element of the window lies within the input.
    fn outputs(&self, offset: usize) -> Range<usize> {
        let start = self.pad.saturating_sub(offset).div_ceil(self.stride);
        let end = (self.input + self.pad).saturating_sub(offset).div_ceil(self.stride).min(self.output);
        start.min(end)..end
    }

    /// For each element of the window, the outputs for which it lies within the input, and the input coordinate that the first of
    /// them reads. Elements that always lie in the padding are left out.
    fn offsets(&self) -> Offsets {
        let used =
            (0..self.kernel).map(|offset| (self.outputs(offset), offset)).filter(|(outputs, _)| !outputs.is_empty());
        used.map(|(outputs, offset)| (outputs.clone(), self.coordinate(outputs.start, offset))).collect()
    }

    /// The input coordinate of the `offset`-th element of the window of an output; it must lie within the input.
    fn coordinate(&self, output: usize, offset: usize) -> usize {
        output * self.stride + offset - self.pad
    }
}
