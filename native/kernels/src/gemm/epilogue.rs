//! Elementwise operations on a block of C before it leaves the cache.

use crate::lane::unchanged;
use crate::par::{MatMut, MatRef};
use crate::simd::microkernel::GemmElement;

/// The bias vector.
#[derive(Clone, Copy, Default)]
pub enum Bias<'a, T> {
    /// Nothing is added.
    #[default]
    None,
    /// One value per row of C (the channels of a convolution).
    PerRow(&'a [T]),
    /// One value per column of C (the units of a fully connected layer).
    PerCol(&'a [T]),
}

/// The activation, applied last.
#[derive(Clone, Copy, Default)]
pub enum Activation<T> {
    /// The identity.
    #[default]
    Identity,
    /// max(x, 0), keeping NaN.
    Relu,
    /// x if positive, otherwise x times a slope.
    Leaky(T),
    /// Clamps to an interval, keeping NaN.
    Clamp {
        /// Lower bound.
        low: T,
        /// Upper bound; takes precedence if it is below the lower one.
        high: T,
    },
    /// min(max(alpha * x + beta, 0), 1), keeping NaN.
    HardSigmoid {
        /// The slope.
        alpha: T,
        /// The value at zero.
        beta: T,
    },
    /// x * min(max(alpha * x + beta, 0), 1), keeping NaN.
    HardSwish {
        /// The slope.
        alpha: T,
        /// The value at zero.
        beta: T,
    },
    /// f(x): the function replaces each element of a slice by its value. The slice is any part of a row.
    Map(fn(&mut [T])),
    /// x * f(x), for a function as in [`Map`](Activation::Map): Swish, GELU.
    Gated(fn(&mut [T])),
}

/// Replaces C by activation(C * scale + bias + residual).
#[derive(Clone, Copy)]
pub struct Epilogue<'a, T> {
    /// Scale per row or column, like the bias; requires a bias.
    pub scale: Option<&'a [T]>,
    /// Bias per row or column.
    pub bias: Bias<'a, T>,
    /// Added after the bias; has the shape of C (the shortcut of a residual network).
    pub residual: Option<MatRef<'a, T>>,
    /// Applied last.
    pub activation: Activation<T>,
}

impl<T> Default for Epilogue<'_, T> {
    fn default() -> Self {
        Epilogue { scale: None, bias: Bias::None, residual: None, activation: Activation::Identity }
    }
}

impl<'a, T: GemmElement> Epilogue<'a, T> {
    /// The same epilogue for the transpose of C.
    pub(super) fn t(&self) -> Epilogue<'a, T> {
        let bias = match self.bias {
            Bias::None => Bias::None,
            Bias::PerRow(bias) => Bias::PerCol(bias),
            Bias::PerCol(bias) => Bias::PerRow(bias),
        };
        Epilogue { bias, residual: self.residual.map(MatRef::t), ..*self }
    }

    /// # Panics
    /// Panics if the bias or the residual does not match a C of `rows` x `cols`.
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
        assert!(self.scale.is_none_or(|scale| scale.len() == biases), "a scale needs a bias");
        if let Some(residual) = self.residual {
            assert_eq!((residual.rows(), residual.cols()), (rows, cols), "the residual must have the shape of C");
        }
    }

    /// True if the epilogue leaves C unchanged.
    pub(super) fn is_empty(&self) -> bool {
        matches!((self.bias, self.residual, self.activation), (Bias::None, None, Activation::Identity))
    }

    /// Applies the epilogue to the block of C that starts at (`row`, `col`).
    pub(crate) fn apply(&self, row: usize, col: usize, block: &mut MatMut<'_, T>) {
        apply(self, row, col, block);
    }
}

crate::simd::per_isa! {
    /// See [`Epilogue::apply`].
    fn apply<T: GemmElement>(epilogue: &Epilogue<'_, T>, row: usize, col: usize, block: &mut MatMut<'_, T>) {
        for i in 0..block.rows() {
            let values = block.row_mut(i);
            let cols = values.len();
            // Contiguous operands are added in one pass; a strided residual needs a second pass before the activation.
            let residual = epilogue.residual.map(|residual| residual.block(row + i, col, 1, cols));
            let (contiguous, strided) = match residual {
                Some(residual) if residual.col_stride() == 1 => (Some(&residual.data()[..cols]), None),
                residual => (None, residual),
            };
            let activation = if strided.is_some() { Activation::Identity } else { epilogue.activation };
            let scale_bias = match (epilogue.bias, epilogue.scale) {
                (Bias::PerCol(bias), scale) => {
                    let range = col..col + cols;
                    ScaleBias::Each(scale.map(|scale| &scale[range.clone()]), &bias[range])
                }
                (Bias::PerRow(bias), scale) => ScaleBias::Same(scale.map_or(T::one(), |scale| scale[row + i]), bias[row + i]),
                (Bias::None, _) => ScaleBias::identity(),
            };
            activate(values, scale_bias, contiguous, activation);
            if let Some(residual) = strided {
                let residual = residual.data().iter().step_by(residual.col_stride().max(1));
                values.iter_mut().zip(residual).for_each(|(value, &x)| *value = *value + x);
                activate(values, ScaleBias::identity(), None, epilogue.activation);
            }
        }
    }
}

/// The scale and bias of a row.
#[derive(Clone, Copy)]
enum ScaleBias<'a, T> {
    /// The same scale and bias for all values.
    Same(T, T),
    /// A scale (1 if absent) and a bias for each value.
    Each(Option<&'a [T]>, &'a [T]),
}

impl<T: GemmElement> ScaleBias<'_, T> {
    /// Leaves every value unchanged: adding negative zero keeps the sign of zeros. The constant is opaque to the compiler for the reason
    /// that `replace_if` gives.
    fn identity() -> Self {
        ScaleBias::Same(T::one(), unchanged())
    }
}

/// Replaces every value by activation(value * scale + bias + residual).
#[inline(always)]
fn activate<T: GemmElement>(
    values: &mut [T],
    scale_bias: ScaleBias<'_, T>,
    residual: Option<&[T]>,
    activation: Activation<T>,
) {
    match activation {
        Activation::Identity => replace(values, scale_bias, residual, |sum| sum),
        Activation::Relu => replace(values, scale_bias, residual, |sum| if sum <= T::zero() { T::zero() } else { sum }),
        Activation::Leaky(slope) => {
            replace(values, scale_bias, residual, |sum| if sum > T::zero() { sum } else { slope * sum });
        }
        Activation::Clamp { low, high } => replace(values, scale_bias, residual, |sum| {
            let limited = if sum < low { low } else { sum };
            if sum > high { high } else { limited }
        }),
        Activation::HardSigmoid { alpha, beta } => {
            replace(values, scale_bias, residual, |sum| hard_sigmoid(sum, alpha, beta));
        }
        Activation::HardSwish { alpha, beta } => {
            replace(values, scale_bias, residual, |sum| sum * hard_sigmoid(sum, alpha, beta));
        }
        Activation::Map(f) => {
            replace(values, scale_bias, residual, |sum| sum);
            f(values);
        }
        Activation::Gated(f) => {
            replace(values, scale_bias, residual, |sum| sum);
            for values in values.chunks_mut(GATES) {
                let mut gates = [T::zero(); GATES];
                let gates = &mut gates[..values.len()];
                gates.copy_from_slice(values);
                f(gates);
                values.iter_mut().zip(&*gates).for_each(|(value, gate)| *value = *value * *gate);
            }
        }
    }
}

/// Values per block of a gated activation.
const GATES: usize = 256;

/// min(max(alpha * x + beta, 0), 1), keeping NaN.
#[inline(always)]
fn hard_sigmoid<T: GemmElement>(x: T, alpha: T, beta: T) -> T {
    let line = alpha * x + beta;
    let raised = if line < T::zero() { T::zero() } else { line };
    if line > T::one() { T::one() } else { raised }
}

/// Replaces every value by `f(value * scale + bias + residual)`. Each combination of operands has its own loop, so that absent
/// operands cost nothing.
#[inline(always)]
fn replace<T: GemmElement>(values: &mut [T], scale_bias: ScaleBias<'_, T>, residual: Option<&[T]>, f: impl Fn(T) -> T) {
    match (scale_bias, residual) {
        (ScaleBias::Same(scale, bias), None) => zip_map(values, [], |value, []| f(value * scale + bias)),
        (ScaleBias::Same(scale, bias), Some(residual)) => {
            zip_map(values, [residual], |value, [x]| f(value * scale + bias + x));
        }
        (ScaleBias::Each(None, bias), None) => zip_map(values, [bias], |value, [bias]| f(value + bias)),
        (ScaleBias::Each(None, bias), Some(residual)) => {
            zip_map(values, [bias, residual], |value, [bias, x]| f(value + bias + x));
        }
        (ScaleBias::Each(Some(scale), bias), None) => {
            zip_map(values, [scale, bias], |value, [scale, bias]| f(value * scale + bias));
        }
        (ScaleBias::Each(Some(scale), bias), Some(residual)) => {
            zip_map(values, [scale, bias, residual], |value, [scale, bias, x]| f(value * scale + bias + x));
        }
    }
}

/// Replaces every value by `f(value, operands at its index)`. Slicing the operands to one length lets the compiler vectorize the
/// loop.
#[inline(always)]
fn zip_map<T: GemmElement, const N: usize>(values: &mut [T], operands: [&[T]; N], f: impl Fn(T, [T; N]) -> T) {
    let len = values.len();
    let operands = operands.map(|operand| &operand[..len]);
    for i in 0..len {
        values[i] = f(values[i], operands.map(|operand| operand[i]));
    }
}
