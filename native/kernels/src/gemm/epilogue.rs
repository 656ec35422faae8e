//! What is done to a product before it leaves the cache.

use crate::par::{MatMut, MatRef};
use crate::simd::microkernel::Element;

/// A vector added to the product.
#[derive(Clone, Copy, Default)]
pub enum Bias<'a, T> {
    /// Nothing is added.
    #[default]
    None,
    /// One value for each row of C (the channels of a convolution).
    PerRow(&'a [T]),
    /// One value for each column of C (the units of a fully connected layer).
    PerCol(&'a [T]),
}

/// An elementwise function applied at the end.
#[derive(Clone, Copy, Default)]
pub enum Activation<T> {
    /// The value as it is.
    #[default]
    Identity,
    /// max(x, 0), with NaN kept.
    Relu,
    /// x above 0, a multiple of it otherwise.
    Leaky(T),
    /// The value limited to an interval, with NaN kept.
    Clamp {
        /// The least value.
        low: T,
        /// The largest value, which wins if it is the smaller one.
        high: T,
    },
    /// A function that replaces each element of a part of a row by its value; the parts are of no particular length.
    Map(fn(&mut [T])),
}

/// C becomes activation(C * scale + bias + residual).
#[derive(Clone, Copy)]
pub struct Epilogue<'a, T> {
    /// Factors, one for each value of the bias, which there must be then.
    pub scale: Option<&'a [T]>,
    /// The vector that is added.
    pub bias: Bias<'a, T>,
    /// A matrix of the shape of C that is added (the shortcut of a residual network).
    pub residual: Option<MatRef<'a, T>>,
    /// The function applied to the sum.
    pub activation: Activation<T>,
}

impl<T> Default for Epilogue<'_, T> {
    fn default() -> Self {
        Epilogue { scale: None, bias: Bias::None, residual: None, activation: Activation::Identity }
    }
}

impl<'a, T: Element> Epilogue<'a, T> {
    /// What does the same to the transpose of C.
    pub(super) fn t(&self) -> Epilogue<'a, T> {
        let bias = match self.bias {
            Bias::None => Bias::None,
            Bias::PerRow(bias) => Bias::PerCol(bias),
            Bias::PerCol(bias) => Bias::PerRow(bias),
        };
        Epilogue { bias, residual: self.residual.map(MatRef::t), ..*self }
    }

    /// # Panics
    /// When the bias or the residual does not fit a C of `rows` x `cols`.
    pub(super) fn check(&self, rows: usize, cols: usize) {
        match self.bias {
            Bias::None => {}
            Bias::PerRow(bias) => {
                assert_eq!(bias.len(), rows, "the bias per row must have the length of a column of C")
            }
            Bias::PerCol(bias) => {
                assert_eq!(bias.len(), cols, "the bias per column must have the length of a row of C")
            }
        }
        let biases = match self.bias {
            Bias::None => 0,
            Bias::PerRow(bias) | Bias::PerCol(bias) => bias.len(),
        };
        assert!(self.scale.is_none_or(|scale| scale.len() == biases), "each factor must have its bias");
        if let Some(residual) = self.residual {
            assert_eq!((residual.rows(), residual.cols()), (rows, cols), "the residual must have the shape of C");
        }
    }

    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        matches!((self.bias, self.residual, self.activation), (Bias::None, None, Activation::Identity))
    }

    /// Applies it to the block of C that starts at (`row`, `col`).
    pub(crate) fn apply(&self, row: usize, col: usize, block: &mut MatMut<'_, T>) {
        apply(self, row, col, block);
    }
}

crate::simd::per_isa! {
    /// See [`Epilogue::apply`].
    fn apply<T: Element>(epilogue: &Epilogue<'_, T>, row: usize, col: usize, block: &mut MatMut<'_, T>) {
        for i in 0..block.rows() {
            let values = block.row_mut(i);
            let cols = values.len();
            // What is adjacent is added on the way; the rest has a pass of its own before the activation.
            let residual = epilogue.residual.map(|residual| residual.block(row + i, col, 1, cols));
            let (near, far) = match residual {
                Some(part) if part.col_stride() == 1 => (Some(&part.data()[..cols]), None),
                part => (None, part),
            };
            let activation = if far.is_some() { Activation::Identity } else { epilogue.activation };
            let line = match (epilogue.bias, epilogue.scale) {
                (Bias::PerCol(bias), scale) => {
                    let part = col..col + cols;
                    Line::Each(scale.map(|scale| &scale[part.clone()]), &bias[part])
                }
                (Bias::PerRow(bias), scale) => Line::Same(scale.map_or(T::one(), |scale| scale[row + i]), bias[row + i]),
                (Bias::None, _) => Line::nothing(),
            };
            activate(values, line, near, activation);
            if let Some(part) = far {
                let steps = part.data().iter().step_by(part.col_stride().max(1));
                values.iter_mut().zip(steps).for_each(|(value, &x)| *value = *value + x);
                activate(values, Line::nothing(), None, epilogue.activation);
            }
        }
    }
}

/// Factor and bias of the values of a row.
#[derive(Clone, Copy)]
enum Line<'a, T> {
    /// The same for all.
    Same(T, T),
    /// One for each; there may be no factors.
    Each(Option<&'a [T]>, &'a [T]),
}

impl<T: Element> Line<'_, T> {
    /// What changes no value.
    fn nothing() -> Self {
        Line::Same(T::one(), T::neg_zero())
    }
}

/// Replaces every value by activation(value * factor + bias + residual).
#[inline(always)]
fn activate<T: Element>(values: &mut [T], line: Line<'_, T>, residual: Option<&[T]>, activation: Activation<T>) {
    match activation {
        Activation::Identity => replace(values, line, residual, |sum| sum),
        Activation::Relu => replace(values, line, residual, |sum| if sum <= T::zero() { T::zero() } else { sum }),
        Activation::Leaky(slope) => {
            replace(values, line, residual, |sum| if sum > T::zero() { sum } else { slope * sum });
        }
        Activation::Clamp { low, high } => replace(values, line, residual, |sum| {
            let limited = if sum < low { low } else { sum };
            if sum > high { high } else { limited }
        }),
        Activation::Map(f) => {
            replace(values, line, residual, |sum| sum);
            f(values);
        }
    }
}

/// Replaces every value by `f` of the sum. There is a loop for everything that may be there, since nothing else is to be read.
#[inline(always)]
fn replace<T: Element>(values: &mut [T], line: Line<'_, T>, residual: Option<&[T]>, f: impl Fn(T) -> T) {
    match (line, residual) {
        (Line::Same(scale, bias), None) => with_others(values, [], |value, []| f(value * scale + bias)),
        (Line::Same(scale, bias), Some(residual)) => {
            with_others(values, [residual], |value, [x]| f(value * scale + bias + x));
        }
        (Line::Each(None, bias), None) => with_others(values, [bias], |value, [bias]| f(value + bias)),
        (Line::Each(None, bias), Some(residual)) => {
            with_others(values, [bias, residual], |value, [bias, x]| f(value + bias + x));
        }
        (Line::Each(Some(scale), bias), None) => {
            with_others(values, [scale, bias], |value, [scale, bias]| f(value * scale + bias));
        }
        (Line::Each(Some(scale), bias), Some(residual)) => {
            with_others(values, [scale, bias, residual], |value, [scale, bias, x]| f(value * scale + bias + x));
        }
    }
}

/// `f` of every value and its others. The length that all have in common lets the compiler use vectors.
#[inline(always)]
fn with_others<T: Element, const N: usize>(values: &mut [T], others: [&[T]; N], f: impl Fn(T, [T; N]) -> T) {
    let len = values.len();
    let others = others.map(|other| &other[..len]);
    for i in 0..len {
        values[i] = f(values[i], others.map(|other| other[i]));
    }
}
