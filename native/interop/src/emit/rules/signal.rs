//! Rules of signal processing: windows, weights of mel bands, Fourier transforms, grids of affine transformations.

use std::f64::consts::PI;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_runtime::arrays::write_converted;

use super::{Rule, handle, int, ints, made_elements, text};
use crate::emit::Scope;
use crate::error::{Error, Result};
use crate::ir::Value;

pub(super) static RULES: &[Rule] = &[
    Rule::new(
        "window",
        "(coefficients, size, periodic, dtype) -> tensor",
        "A cosine-sum window: the sum of coefficient k times cos(2 pi k n / N), with N the size, or one less if not periodic.",
        |s, a| {
            let coefficients = numbers(&a[0])?;
            let size = int(a, 1)?;
            if !(0..=1 << 28).contains(&size) {
                return Err(Error::value(format!("a window of {size} samples cannot be made")));
            }
            let length = (if int(a, 2)? != 0 { size } else { size - 1 }).max(1) as f64;
            let term = |n: i64, k: usize| (2.0 * PI * k as f64 * n as f64 / length).cos();
            let value = |n: i64| coefficients.iter().enumerate().map(|(k, c)| c * term(n, k)).sum();
            constant(s, &[size], (0..size).map(value).collect(), text(a, 3)?)
        },
    ),
    Rule::new(
        "mel_weights",
        "(bands, dft_length, sample_rate, low, high, dtype) -> tensor",
        "The matrix that sums the bins of a spectrum to bands that are evenly spaced on the mel scale.",
        mel_weights,
    ),
    Rule::new(
        "affine_grid",
        "(sizes, align_corners, dtype) -> tensor",
        "The sampling grid of an image of these sizes, in homogeneous coordinates from -1 to 1 with that of the last \
         axis first: (points, axes + 1).",
        affine_grid,
    ),
    Rule::new(
        "fourier",
        "(tensor, axis, length, inverse, onesided) -> tensor",
        "The discrete Fourier transform along an axis. The last axis holds real parts, or real and imaginary parts. A length that is not \
         given is that of the axis.",
        fourier,
    ),
];

fn numbers(value: &Value) -> Result<Vec<f64>> {
    match value {
        Value::List(items) => items.iter().map(Value::number).collect::<Option<_>>(),
        _ => None,
    }
    .ok_or_else(|| Error::value("a list of numbers was expected"))
}

fn constant(s: &mut Scope<'_, '_>, dims: &[i64], items: Vec<f64>, dtype: &str) -> Result<Value> {
    let dtype: DType = dtype.parse().map_err(Error::Value)?;
    let array = NDArray::zeros(&Shape::new(dims), dtype, Context::default())?;
    write_converted(&array, items.into_iter())?;
    let name = s.name.clone();
    Ok(Value::Handle(s.builder().constant(&name, array)))
}

fn mel_weights(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let (bands, length, rate) = (int(args, 0)?, int(args, 1)?, int(args, 2)?);
    let edge = |i: usize| args[i].number().ok_or_else(|| Error::value("the edges of the bands are numbers"));
    let (low, high) = (edge(3)?, edge(4)?);
    if bands < 1 || length < 1 || rate < 1 || bands.saturating_mul(length) > 1 << 28 || !(0.0..high).contains(&low) {
        return Err(Error::value(format!(
            "{bands} bands from {low} to {high} Hz of {length} samples at {rate} Hz cannot be made"
        )));
    }
    let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let step = (mel(high) - mel(low)) / (bands + 2) as f64;
    // The first, middle and last spectrum bin of each band.
    let bin = |k: i64| {
        let hertz = 700.0 * (10f64.powf((mel(low) + k as f64 * step) / 2595.0) - 1.0);
        ((length + 1) as f64 * hertz / rate as f64).floor() as i64
    };
    let bins = length / 2 + 1;
    let mut weights = vec![0.0; (bins * bands) as usize];
    let mut put = |bin: i64, band: i64, weight: f64| {
        if (0..bins).contains(&bin) {
            weights[(bin * bands + band) as usize] = weight;
        }
    };
    for band in 0..bands {
        let (left, middle, right) = (bin(band), bin(band + 1), bin(band + 2));
        match middle - left {
            0 => put(middle, band, 1.0),
            rise => (left..=middle).for_each(|j| put(j, band, (j - left) as f64 / rise as f64)),
        }
        if right > middle {
            (middle..right).for_each(|j| put(j, band, (right - j) as f64 / (right - middle) as f64));
        }
    }
    constant(s, &[bins, bands], weights, text(args, 5)?)
}

fn affine_grid(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let sizes = ints(args, 0)?;
    let corners = int(args, 1)? != 0;
    let count = made_elements(&Shape::new(&sizes))?;
    if !(2..=3).contains(&sizes.len()) || count > 1 << 26 {
        return Err(Error::value(format!("a sampling grid needs two or three spatial axes, not the sizes {sizes:?}")));
    }
    let coordinate = |i: i64, n: i64| match corners {
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
    constant(s, &[count as i64, sizes.len() as i64 + 1], items, text(args, 2)?)
}

/// A transform in progress, along the second to last axis.
struct Fourier<'s, 'a, 't> {
    scope: &'s mut Scope<'a, 't>,
    rank: usize,
    /// Transform length.
    n: i64,
}

impl Fourier<'_, '_, '_> {
    fn op(&mut self, op: &str, inputs: Vec<Value>, params: Vec<(&str, Value)>) -> Result<Value> {
        self.scope.operator(op, inputs, params, false)
    }

    fn cut(&mut self, x: Value, axis: i64, begin: i64, end: i64) -> Result<Value> {
        let range = vec![("axis", Value::Int(axis)), ("begin", Value::Int(begin)), ("end", Value::Int(end))];
        self.op("slice_axis", vec![x], range)
    }

    /// Real or imaginary parts, without the last axis.
    fn part(&mut self, x: &Value, k: i64) -> Result<Value> {
        let one = self.cut(x.clone(), -1, k, k + 1)?;
        self.op("_np_squeeze", vec![one], vec![("axis", vec![-1].into())])
    }

    /// Crops or zero-pads the axis to a length.
    fn sized(&mut self, x: Value, from: i64, to: i64) -> Result<Value> {
        if to <= from {
            return if to == from { Ok(x) } else { self.cut(x, -2, 0, to) };
        }
        let mut pairs = vec![Value::from(vec![0, 0]); self.rank];
        pairs[self.rank - 2] = vec![0, to - from].into();
        self.op("_npi_pad", vec![x], vec![("pad_width", Value::List(pairs)), ("mode", "constant".into())])
    }

    /// Interleaves real and imaginary parts, and back.
    fn paired(&mut self, x: Value, pairs: bool) -> Result<Value> {
        let kept = self.rank - 2;
        let tail = if pairs { vec![self.n, 2] } else { vec![2 * self.n] };
        let shape: Vec<i64> = std::iter::repeat_n(-2, kept).chain(tail).collect();
        self.op("_npx_reshape", vec![x], vec![("newshape", shape.into())])
    }

    fn stacked(&mut self, re: Value, im: Value) -> Result<Value> {
        self.op("stack", vec![re, im], vec![("axis", Value::Int(-1))])
    }

    fn forward(&mut self, x: &Value, complex: bool) -> Result<Value> {
        let re = self.part(x, 0)?;
        let re = self.op("_contrib_fft", vec![re], vec![])?;
        let re = self.paired(re, true)?;
        if !complex {
            return Ok(re);
        }
        // The transform is linear: F(i y) = i F(y).
        let im = self.part(x, 1)?;
        let im = self.op("_contrib_fft", vec![im], vec![])?;
        let im = self.paired(im, true)?;
        let (a, b) = (self.part(&im, 0)?, self.part(&im, 1)?);
        let minus = self.op("negative", vec![b], vec![])?;
        let rotated = self.stacked(minus, a)?;
        self.op("_npi_add", vec![re, rotated], vec![])
    }

    /// The real part of the inverse.
    fn real_inverse(&mut self, x: Value) -> Result<Value> {
        let flat = self.paired(x, false)?;
        let made = self.op("_contrib_ifft", vec![flat], vec![])?;
        self.op("_npi_multiply", vec![made, Value::Float(1.0 / self.n as f64)], vec![])
    }

    fn inverse(&mut self, x: &Value) -> Result<Value> {
        let re = self.real_inverse(x.clone())?;
        // The imaginary part of a number is the real part of -i times it.
        let (a, b) = (self.part(x, 0)?, self.part(x, 1)?);
        let minus = self.op("negative", vec![a], vec![])?;
        let rotated = self.stacked(b, minus)?;
        let im = self.real_inverse(rotated)?;
        self.stacked(re, im)
    }
}

fn fourier(s: &mut Scope<'_, '_>, args: &[Value]) -> Result<Value> {
    let info = s.info(handle(args, 0)?);
    let (shape, dtype) = (info.shape.clone(), info.dtype);
    let rank = shape.ndim().filter(|r| *r >= 2).ok_or_else(|| {
        Error::NeedsValue("a transform needs an axis and real or complex numbers: give the shapes of the inputs".into())
    })?;
    let axis = Shape::axis(int(args, 1)?, rank)?;
    let (from, parts) = (shape.dim(axis), shape.dim(rank - 1));
    if axis == rank - 1 || !(1..=2).contains(&parts) {
        return Err(Error::value(format!(
            "a transform along axis {axis} of {shape}: the last axis holds 1 or 2 numbers"
        )));
    }
    let (inverse, onesided) = (int(args, 3)? != 0, int(args, 4)? != 0);
    if from < 0 {
        return Err(Error::NeedsValue(format!(
            "the length of axis {axis} is not known: give the shapes of the inputs"
        )));
    }
    let n = match &args[2] {
        Value::None if inverse && onesided => 2 * (from - 1),
        Value::None => from,
        length => length.int().ok_or_else(|| Error::value("the length is a whole number"))?,
    };
    if !(1..=1 << 28).contains(&n) {
        return Err(Error::value(format!("a transform of {n} numbers cannot be made")));
    }
    let half = n / 2 + 1;
    let mut t = Fourier { scope: s, rank, n };
    let to = |x: usize| vec![Value::Int(x as i64)];
    let moved =
        |from: usize, to_: usize| vec![("source", Value::List(to(from))), ("destination", Value::List(to(to_)))];
    // Large terms cancel in these sums, so they need float64.
    let wide = t.op("Cast", vec![args[0].clone()], vec![("dtype", "float64".into())])?;
    let x = t.op("_np_moveaxis", vec![wide], moved(axis, rank - 2))?;
    let x = t.sized(x, from, if inverse && onesided { half } else { n })?;
    let made = match (inverse, onesided) {
        (false, _) => {
            let all = t.forward(&x, parts == 2)?;
            if onesided { t.cut(all, -2, 0, half)? } else { all }
        }
        (true, false) if parts == 2 => t.inverse(&x)?,
        (true, true) if parts == 2 => {
            // The other half holds the conjugates of these bins, so all but the first and the Nyquist bin count twice.
            let weight = |k: i64| if k == 0 || 2 * k == n { 1.0 } else { 2.0 };
            let weights = (0..half).map(weight).collect();
            let weights = constant(t.scope, &[half, 1], weights, "float64")?;
            let doubled = t.op("_npi_multiply", vec![x, weights], vec![])?;
            let all = t.sized(doubled, half, n)?;
            let real = t.real_inverse(all)?;
            t.op("expand_dims", vec![real], vec![("axis", Value::Int(-1))])?
        }
        _ => return Err(Error::unsupported("the inverse transform of real numbers has no process: give both parts")),
    };
    let made = t.op("_np_moveaxis", vec![made], moved(rank - 2, axis))?;
    t.op("Cast", vec![made], vec![("dtype", dtype.map_or("float32", |d| d.name()).into())])
}
