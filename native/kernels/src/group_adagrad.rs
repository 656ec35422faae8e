//! AdaGrad with one learning rate per row.

use crate::math::clip;
use crate::par::parallel_rows2;
use ferromx_core::dtype::Element;

/// The parameters of a step.
#[derive(Clone, Copy, Debug)]
pub struct GroupAdaGrad {
    /// The learning rate.
    pub lr: f64,
    /// The gradient is multiplied by this before clipping.
    pub rescale: f64,
    /// The rescaled gradient is clipped to [-bound, bound].
    pub bound: f64,
    /// Added to the history before its square root is taken.
    pub epsilon: f64,
}

impl GroupAdaGrad {
    /// Updates rows of `len` elements of the weight, and their history.
    ///
    /// # Panics
    /// Panics if the gradient is shorter than the weight.
    pub fn step<T: Element>(&self, (weight, len): (&mut [T], usize), grad: &[T], history: &mut [T]) {
        parallel_rows2((weight, len), (history, 1), (1 << 14) / len.max(1), |i, weight, history| {
            self.update_row(weight, &grad[i * len..(i + 1) * len], &mut history[0]);
        });
    }

    fn update_row<T: Element>(&self, weight: &mut [T], grad: &[T], history: &mut T) {
        let scaled = |g: &T| clip(g.to_f64() * self.rescale, self.bound);
        let squares: f64 = grad.iter().map(|g| scaled(g) * scaled(g)).sum();
        *history = T::from_f64(history.to_f64() + squares / grad.len() as f64);
        let lr = self.lr / (history.to_f64() + self.epsilon).sqrt();
        for (w, g) in weight.iter_mut().zip(grad) {
            *w = T::from_f64(w.to_f64() - lr * scaled(g));
        }
    }
}
