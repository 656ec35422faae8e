//! Rules for signal processing: windows, mel filter banks, Fourier transforms; and sampling grids of affine transformations.

use std::f64::consts::PI;

use ferromx_core::dtype::DType;
use ferromx_core::shape::Shape;
use ferromx_ops::definitions::PadMode;

use super::{array, constant_len, needs_shapes, rules};
use crate::emit::{Scope, TensorId, op};
use crate::error::{Error, Result};

rules! {
    /// A cosine-sum window: the sum of coefficient k times cos(2 pi k n / N), with N the size, or one less if not periodic.
    fn window(s, coefficients: Vec<f64>, size: i64, periodic: bool, dtype: DType) -> TensorId {
        if !(0..=1 << 28).contains(&size) {
            return Err(Error::value(format!("a window of {size} samples is too large")));
        }
        let length = (if periodic { size } else { size - 1 }).max(1) as f64;
        let term = |n: i64, k: usize| (2.0 * PI * k as f64 * n as f64 / length).cos();
        let value = |n: i64| coefficients.iter().enumerate().map(|(k, c)| c * term(n, k)).sum();
        let window = array::<f64>(&[size], dtype, (0..size).map(value).collect())?;
        Ok(s.constant(window))
    }

    /// The matrix that sums the bins of a spectrum to bands that are evenly spaced on the mel scale.
    fn mel_weights(
        s, bands: i64, dft_length: i64, sample_rate: i64, low: f64, high: f64, dtype: DType,
    ) -> TensorId {
        let (length, rate) = (dft_length, sample_rate);
        if bands < 1 || length < 1 || rate < 1 || bands.saturating_mul(length) > 1 << 28 || !(0.0..high).contains(&low)
        {
            return Err(Error::value(format!(
                "{bands} bands from {low} to {high} Hz of {length} samples at {rate} Hz cannot be made"
            )));
        }
        let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
        let step = (mel(high) - mel(low)) / (bands + 2) as f64;
        // The bin of the spectrum at which band k begins, band k - 1 peaks and band k - 2 ends.
        let bin = |k: i64| {
            let hertz = 700.0 * (10f64.powf((mel(low) + k as f64 * step) / 2595.0) - 1.0);
            ((length + 1) as f64 * hertz / rate as f64).floor() as i64
        };
        let bins = length / 2 + 1;
        let mut weights = vec![0.0; (bins * bands) as usize];
        let mut set_weight = |bin: i64, band: i64, weight: f64| {
            if (0..bins).contains(&bin) {
                weights[(bin * bands + band) as usize] = weight;
            }
        };
        for band in 0..bands {
            let (left, middle, right) = (bin(band), bin(band + 1), bin(band + 2));
            match middle - left {
                0 => set_weight(middle, band, 1.0),
                rise => (left..=middle).for_each(|j| set_weight(j, band, (j - left) as f64 / rise as f64)),
            }
            if right > middle {
                (middle..right).for_each(|j| set_weight(j, band, (right - j) as f64 / (right - middle) as f64));
            }
        }
        let weights = array::<f64>(&[bins, bands], dtype, weights)?;
        Ok(s.constant(weights))
    }

    /// The sampling grid of an image of these sizes, in homogeneous coordinates from -1 to 1 with that of the last axis first: (points,
    /// axes + 1).
    fn affine_grid(s, sizes: Vec<i64>, align_corners: bool, dtype: DType) -> TensorId {
        let count = constant_len(&sizes)?;
        if !(2..=3).contains(&sizes.len()) || count > 1 << 26 {
            let text = format!("a sampling grid needs two or three spatial axes, not the sizes {sizes:?}");
            return Err(Error::value(text));
        }
        let coordinate = |i: i64, n: i64| match align_corners {
            true if n == 1 => -1.0,
            true => 2.0 * i as f64 / (n - 1) as f64 - 1.0,
            false => (2 * i + 1) as f64 / n as f64 - 1.0,
        };
        let mut items = Vec::with_capacity(count * (sizes.len() + 1));
        for p in 0..count as i64 {
            let mut rest = p;
            for n in sizes.iter().rev() {
                items.push(coordinate(rest % n, *n));
                rest /= n;
            }
            items.push(1.0);
        }
        let grid = array::<f64>(&[count as i64, sizes.len() as i64 + 1], dtype, items)?;
        Ok(s.constant(grid))
    }

    /// The discrete Fourier transform along an axis. The last axis holds real parts, or real and imaginary parts. The default length is
    /// that of the axis.
    fn fourier(s, tensor: TensorId, axis: i64, length: Option<i64>, inverse: bool, onesided: bool) -> TensorId {
        let info = s.info(tensor);
        let (shape, dtype) = (info.shape.clone(), info.dtype);
        let unknown = || needs_shapes("a transform needs an axis and real or complex numbers");
        let rank = shape.ndim().filter(|r| *r >= 2).ok_or_else(unknown)?;
        let axis = Shape::axis(axis, rank)?;
        let (from, num_components) = (shape.dim(axis), shape.dim(rank - 1));
        if axis == rank - 1 || !(1..=2).contains(&num_components) {
            return Err(Error::value(format!(
                "a transform along axis {axis} of {shape}: the last axis holds 1 or 2 numbers"
            )));
        }
        if from < 0 {
            return Err(needs_shapes(&format!("the length of axis {axis} is unknown")));
        }
        let n = length.unwrap_or(if inverse && onesided { 2 * (from - 1) } else { from });
        if !(1..=1 << 28).contains(&n) {
            return Err(Error::value(format!("a transform of {n} numbers is not supported")));
        }
        let half = n / 2 + 1;
        let mut t = Fourier { scope: s, rank, n };
        let (axis, inner) = (vec![axis as i64], vec![rank as i64 - 2]);
        // Large terms cancel in these sums, so that float32 would lose precision.
        let wide = t.scope.emit(op!(CAST(tensor), dtype: DType::F64))?;
        let x = t.scope.emit(op!(MOVEAXIS(wide), source: axis.clone(), destination: inner.clone()))?;
        let x = t.crop_or_pad(x, from, if inverse && onesided { half } else { n })?;
        let transformed = match (inverse, onesided) {
            (false, _) => {
                let all = t.forward(x, num_components == 2)?;
                if onesided { t.slice(all, -2, 0, half)? } else { all }
            }
            (true, false) if num_components == 2 => t.inverse(x)?,
            (true, true) if num_components == 2 => {
                // The omitted bins are conjugates of these, so that all bins but the first and the Nyquist bin count twice.
                let weight = |k: i64| if k == 0 || 2 * k == n { 1.0 } else { 2.0 };
                let weights = array::<f64>(&[half, 1], DType::F64, (0..half).map(weight).collect())?;
                let weights = t.scope.constant(weights);
                let doubled = t.scope.emit(op!(MULTIPLY(x, weights)))?;
                let all = t.crop_or_pad(doubled, half, n)?;
                let real = t.real_inverse(all)?;
                t.scope.emit(op!(EXPAND_DIMS(real), axis: -1))?
            }
            _ => {
                let text = "the inverse transform of real numbers is not supported: give real and imaginary parts";
                return Err(Error::unsupported(text));
            }
        };
        let transformed = t.scope.emit(op!(MOVEAXIS(transformed), source: inner, destination: axis))?;
        t.scope.emit(op!(CAST(transformed), dtype: dtype.unwrap_or(DType::F32)))
    }
}

/// Emits a Fourier transform along the second to last axis.
struct Fourier<'s, 'a, 't> {
    scope: &'s mut Scope<'a, 't>,
    rank: usize,
    /// Transform length.
    n: i64,
}

impl Fourier<'_, '_, '_> {
    fn slice(&mut self, x: TensorId, axis: i64, begin: i64, end: i64) -> Result<TensorId> {
        self.scope.emit(op!(SLICE_AXIS(x), axis: axis, begin: begin, end: end))
    }

    /// The real (0) or imaginary (1) parts, without the last axis.
    fn component(&mut self, x: TensorId, k: i64) -> Result<TensorId> {
        let one = self.slice(x, -1, k, k + 1)?;
        self.scope.emit(op!(SQUEEZE(one), axis: vec![-1]))
    }

    /// Crops or zero-pads the axis from length `from` to length `to`.
    fn crop_or_pad(&mut self, x: TensorId, from: i64, to: i64) -> Result<TensorId> {
        if to <= from {
            return if to == from { Ok(x) } else { self.slice(x, -2, 0, to) };
        }
        let mut pairs = vec![[0, 0]; self.rank];
        pairs[self.rank - 2] = [0, to - from];
        self.scope.emit(op!(PAD(x), pad_width: pairs, mode: PadMode::Constant))
    }

    /// Splits the interleaved real and imaginary parts that FFT returns into a last axis.
    fn split_interleaved(&mut self, x: TensorId) -> Result<TensorId> {
        self.reshape(x, &[self.n, 2])
    }

    fn reshape(&mut self, x: TensorId, tail: &[i64]) -> Result<TensorId> {
        let shape: Vec<i64> = std::iter::repeat_n(-2, self.rank - 2).chain(tail.iter().copied()).collect();
        self.scope.emit(op!(NPX_RESHAPE(x), newshape: shape))
    }

    fn stack(&mut self, re: TensorId, im: TensorId) -> Result<TensorId> {
        self.scope.emit(op!(STACK(re, im), axis: -1))
    }

    fn forward(&mut self, x: TensorId, is_complex: bool) -> Result<TensorId> {
        let re = self.component(x, 0)?;
        let re = self.scope.emit(op!(FFT(re)))?;
        let re = self.split_interleaved(re)?;
        if !is_complex {
            return Ok(re);
        }
        // The transform is linear: F(i y) = i F(y).
        let im = self.component(x, 1)?;
        let im = self.scope.emit(op!(FFT(im)))?;
        let im = self.split_interleaved(im)?;
        let (a, b) = (self.component(im, 0)?, self.component(im, 1)?);
        let minus = self.scope.emit(op!(NEGATIVE(b)))?;
        let rotated = self.stack(minus, a)?;
        self.scope.emit(op!(ADD(re, rotated)))
    }

    /// The real part of the inverse transform.
    fn real_inverse(&mut self, x: TensorId) -> Result<TensorId> {
        let flat = self.reshape(x, &[2 * self.n])?;
        let real = self.scope.emit(op!(IFFT(flat)))?;
        self.scope.emit(op!(MULTIPLY(real, 1.0 / self.n as f64)))
    }

    fn inverse(&mut self, x: TensorId) -> Result<TensorId> {
        let re = self.real_inverse(x)?;
        // Im(z) = Re(-i z).
        let (a, b) = (self.component(x, 0)?, self.component(x, 1)?);
        let minus = self.scope.emit(op!(NEGATIVE(a)))?;
        let rotated = self.stack(b, minus)?;
        let im = self.real_inverse(rotated)?;
        self.stack(re, im)
    }
}
