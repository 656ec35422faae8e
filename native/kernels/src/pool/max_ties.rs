//! Max pooling whose gradient goes to all equal maxima of a window.

use super::PoolShape;
use crate::float::{Accum, FloatElement};
use crate::par::{parallel_rows, with_scratch};

/// The gradient of max pooling. Every element that equals the maximum of its window gets the whole gradient, as in MXNet's `Pooling_v1`.
/// Padding and `inner` of the shape are ignored: the input is already padded.
///
/// # Panics
/// Panics if a slice is shorter than its planes.
pub fn max_pool_backward_to_ties<T: FloatElement>(shape: &PoolShape, x: &[T], y: &[T], dy: &[T], dx: &mut [T]) {
    let [_, rows, columns] = shape.output;
    let [_, height, width] = shape.input;
    let num_windows: usize = shape.output.iter().product();
    let window = |axis: usize, index: usize| {
        let start = index * shape.stride[axis];
        start..(start + shape.kernel[axis]).min(shape.input[axis])
    };
    parallel_rows(dx, shape.input.iter().product(), 1, |plane, dx| {
        let (x, first) = (&x[plane * dx.len()..][..dx.len()], plane * num_windows);
        with_scratch(dx.len(), |sums: &mut [T::Acc]| {
            sums.fill(T::Acc::of(0.0f32));
            for (w, (y, dy)) in y[first..][..num_windows].iter().zip(&dy[first..][..num_windows]).enumerate() {
                let (y, dy) = (T::Acc::of(*y), T::Acc::of(*dy));
                for d in window(0, w / (rows * columns)) {
                    for h in window(1, w / columns % rows) {
                        let row = (d * height + h) * width;
                        for i in window(2, w % columns).map(|column| row + column) {
                            if T::Acc::of(x[i]) == y {
                                sums[i] += dy;
                            }
                        }
                    }
                }
            }
            dx.iter_mut().zip(&*sums).for_each(|(dx, sum)| *dx = sum.store());
        });
    });
}
