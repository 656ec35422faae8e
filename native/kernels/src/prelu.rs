//! The activation PReLU, `max(x, 0) + slope * min(x, 0)`, with a slope for each channel.

use crate::float::{Accum, FloatElement};
use crate::par::parallel_rows;

/// Elements per chunk.
const GRAIN: usize = 1 << 14;

/// The slopes, and the number of consecutive elements to which each applies. An example has as many elements as all slopes apply to.
#[derive(Clone, Copy, Debug)]
pub struct Slopes<'a, T> {
    /// The slopes.
    pub values: &'a [T],
    /// Elements per slope.
    pub inner: usize,
}

impl<T: FloatElement> Slopes<'_, T> {
    fn example_len(&self) -> usize {
        self.values.len() * self.inner
    }

    /// The activations of `x`, or of `out` itself if `x` is `None`.
    ///
    /// # Panics
    /// Panics if `x` is shorter than `out`.
    pub fn forward(&self, x: Option<&[T]>, out: &mut [T]) {
        let example_len = self.example_len();
        parallel_rows(out, example_len, GRAIN / example_len.max(1), |i, out| {
            if let Some(x) = x {
                out.copy_from_slice(&x[i * example_len..][..out.len()]);
            }
            for (out, slope) in out.chunks_mut(self.inner.max(1)).zip(self.values) {
                let slope = T::Acc::of(*slope);
                for out in out {
                    let x = T::Acc::of(*out);
                    *out = if x > T::Acc::of(0.0f32) { *out } else { (x * slope).store() };
                }
            }
        });
    }

    /// The gradient of `x` for the gradient `grad` of the activations.
    ///
    /// # Panics
    /// Panics if `x` or `grad` is shorter than `out`.
    pub fn backward_data(&self, x: &[T], grad: &[T], out: &mut [T]) {
        let example_len = self.example_len();
        parallel_rows(out, example_len, GRAIN / example_len.max(1), |i, out| {
            let start = i * example_len;
            let (x, grad) = (&x[start..start + out.len()], &grad[start..start + out.len()]);
            for (k, out) in out.iter_mut().enumerate() {
                let slope = T::Acc::of(self.values[k / self.inner]);
                *out = if x[k].to_f32() > 0.0 { grad[k] } else { (T::Acc::of(grad[k]) * slope).store() };
            }
        });
    }

    /// The gradient of the slopes, summed in double precision.
    ///
    /// # Panics
    /// Panics if `grad` is shorter than `x`, or `out` longer than the slopes.
    pub fn backward_slopes(&self, x: &[T], grad: &[T], out: &mut [T]) {
        let example_len = self.example_len();
        for (channel, out) in out.iter_mut().enumerate() {
            let starts = (0..x.len() / example_len.max(1)).map(|i| i * example_len + channel * self.inner);
            let sum: f64 = starts
                .map(|start| start..start + self.inner)
                .flat_map(|range| x[range.clone()].iter().zip(&grad[range]))
                .filter(|(x, _)| x.to_f32().is_nan() || x.to_f32() <= 0.0)
                .fold(0.0, |sum, (x, g)| sum + x.to_f64() * g.to_f64());
            *out = T::from_f64(sum);
        }
    }
}
