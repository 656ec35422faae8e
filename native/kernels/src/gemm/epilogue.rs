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
    pub(crate) fn apply(&self, row: usize, col: usize, mut block: MatMut<'_, T>) {
        apply(self, row, col, &mut block);
    }
}

crate::simd::per_isa! {
    /// See [`Epilogue::apply`].
    fn apply<T: Element>(epilogue: &Epilogue<'_, T>, row: usize, col: usize, block: &mut MatMut<'_, T>) {
        let cols = block.cols();
        for i in 0..block.rows() {
            let values = block.row_mut(i);
            match (epilogue.bias, epilogue.scale) {
                (Bias::None, _) => {}
                (Bias::PerRow(bias), None) => {
                    let bias = bias[row + i];
                    values.iter_mut().for_each(|value| *value = *value + bias);
                }
                (Bias::PerRow(bias), Some(scale)) => {
                    let (scale, bias) = (scale[row + i], bias[row + i]);
                    values.iter_mut().for_each(|value| *value = *value * scale + bias);
                }
                (Bias::PerCol(bias), None) => add(values, &bias[col..col + cols]),
                (Bias::PerCol(bias), Some(scale)) => {
                    let terms = scale[col..col + cols].iter().zip(&bias[col..col + cols]);
                    values.iter_mut().zip(terms).for_each(|(value, (&scale, &bias))| *value = *value * scale + bias);
                }
            }
            if let Some(residual) = epilogue.residual {
                let part = residual.block(row + i, col, 1, cols);
                if part.col_stride() == 1 {
                    add(values, &part.data()[..cols]);
                } else {
                    let steps = part.data().iter().step_by(part.col_stride().max(1));
                    values.iter_mut().zip(steps).for_each(|(value, &x)| *value = *value + x);
                }
            }
            match epilogue.activation {
                Activation::Identity => {}
                Activation::Relu => {
                    values.iter_mut().for_each(|value| *value = if *value <= T::zero() { T::zero() } else { *value });
                }
                Activation::Leaky(slope) => {
                    values
                        .iter_mut()
                        .for_each(|value| *value = if *value > T::zero() { *value } else { slope * *value });
                }
                Activation::Clamp { low, high } => values.iter_mut().for_each(|value| {
                    let limited = if *value < low { low } else { *value };
                    *value = if *value > high { high } else { limited };
                }),
                Activation::Map(f) => f(values),
            }
        }
    }
}

#[inline(always)]
fn add<T: Element>(values: &mut [T], terms: &[T]) {
    values.iter_mut().zip(terms).for_each(|(value, &term)| *value = *value + term);
}
