//! The description of a matrix product, which `driver`, `few_rows` and `outer` compute.

use super::epilogue::Epilogue;
use super::packed::{PackedA, PackedB};
use crate::par::{MatMut, MatRef};
use crate::simd::microkernel::{GemmElement, MicroKernel};

/// The left operand: a view, or panels packed beforehand.
#[derive(Clone, Copy)]
pub(super) enum Lhs<'a, T: 'static> {
    View(MatRef<'a, T>),
    Packed(&'a PackedA<T>),
}

/// The right operand: a view, or panels packed beforehand.
#[derive(Clone, Copy)]
pub(super) enum Rhs<'a, T: 'static> {
    View(MatRef<'a, T>),
    Packed(&'a PackedB<T>),
}

/// A matrix product to compute.
#[derive(Clone, Copy)]
pub(super) struct Product<'a, T: 'static> {
    pub kernel: &'static MicroKernel<T>,
    pub alpha: T,
    pub a: Lhs<'a, T>,
    pub b: Rhs<'a, T>,
    pub beta: T,
    pub epilogue: &'a Epilogue<'a, T>,
    /// Maximum number of threads.
    pub threads: usize,
}

/// C = `scale` C. A scale of zero overwrites C, even NaN, with zeros.
pub(super) fn scale_matrix<T: GemmElement>(c: &mut MatMut<'_, T>, scale: T) {
    if scale == T::one() {
        return;
    }
    for row in 0..c.rows() {
        let values = c.row_mut(row);
        if scale == T::zero() {
            values.fill(T::zero());
        } else {
            values.iter_mut().for_each(|value| *value = *value * scale);
        }
    }
}
