//! Recurrent networks over whole sequences: vanilla, LSTM (Hochreiter and Schmidhuber, 1997; with projection: Sak et al., 2014)
//! and GRU (Cho et al., 2014, as in cuDNN), with stacked layers and two directions.
//!
//! The inputs of all time steps are multiplied with the input weights in one matrix product. Each time step then needs a product of
//! the previous state with the recurrent weights, which are packed once, and one pass over the gates.
//!
//! - `geometry`: the sizes of a network and the order of its parameters.
//! - `forward`, `backward`: the passes over layers, directions and time steps.
//! - `cells`: the gates of one sequence at one time step.
//! - `general`: layers with configurable activations, as in ONNX.

mod backward;
mod cells;
mod forward;
pub mod general;
mod geometry;
#[cfg(test)]
mod tests;

pub use backward::{Gradients, backward};
pub use forward::{Inputs, Outputs, forward};
pub use geometry::{Cell, Clip, Geometry};

use crate::gemm::{self, Epilogue, MatMut, MatRef, PackedB, gemm_fused, gemm_packed_b};
use crate::map::Store;
use crate::{float, math};

/// An element type of recurrent networks: `f32` or `f64`.
pub trait RnnElement: gemm::GemmElement + math::MathFloat + float::FloatElement + Store<f32> {}
impl RnnElement for f32 {}
impl RnnElement for f64 {}

/// Minimum number of time steps for which packing the weights pays off.
const MIN_PACKED_STEPS: usize = 4;

/// The weights on the right of the product of every time step.
enum Weights<'a, T: 'static> {
    View(MatRef<'a, T>),
    Packed(PackedB<T>),
}

impl<'a, T: RnnElement> Weights<'a, T> {
    fn new(b: MatRef<'a, T>, steps: usize) -> Self {
        if steps < MIN_PACKED_STEPS { Weights::View(b) } else { Weights::Packed(PackedB::new(b)) }
    }

    /// C = A B + `beta` C, followed by the epilogue.
    fn product(&self, a: MatRef<'_, T>, beta: T, c: MatMut<'_, T>, epilogue: &Epilogue<'_, T>) {
        match self {
            Weights::View(b) => gemm_fused(T::ONE, a, *b, beta, c, epilogue),
            Weights::Packed(b) => gemm_packed_b(T::ONE, a, b, beta, c, epilogue),
        }
    }
}

/// The elements of the step computed before time step `t` (`None` if `t` is the first), and those from `t` on. Each step has `len`
/// elements.
fn with_previous<T>(data: &mut [T], len: usize, t: usize, reverse: bool) -> (Option<&[T]>, &mut [T]) {
    if reverse {
        let (now, later) = data.split_at_mut(((t + 1) * len).min(data.len()));
        (Some(&*later).filter(|l| !l.is_empty()), &mut now[t * len..])
    } else {
        let (earlier, now) = data.split_at_mut(t * len);
        (t.checked_sub(1).map(|t| &earlier[t * len..]), now)
    }
}

/// The elements from the step computed before time step `t` on; `None` if `t` is the first step.
fn previous<T>(data: &[T], len: usize, t: usize, reverse: bool, steps: usize) -> Option<&[T]> {
    let t = if reverse { Some(t + 1).filter(|t| *t < steps) } else { t.checked_sub(1) };
    t.map(|t| &data[t * len..])
}
