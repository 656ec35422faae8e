//! Arrays of expected and actual values, and their comparison.

use ferromx_core::dtype::DType;
use half::f16;

/// A dense array by value.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Element type.
    pub dtype: DType,
    /// Shape; empty for a scalar.
    pub shape: Vec<i64>,
    /// Little-endian elements.
    pub bytes: Vec<u8>,
}

/// Tolerance: `|given - expected| <= atol + rtol * |expected|`.
#[derive(Debug, Clone, Copy)]
pub struct Tolerance {
    /// Relative tolerance.
    pub rtol: f64,
    /// Absolute tolerance.
    pub atol: f64,
}

impl Tolerance {
    /// The default tolerance of a type: a few units in the last place, because sums may be computed in another order.
    pub fn of(dtype: DType) -> Tolerance {
        let (rtol, atol) = match dtype {
            DType::F16 | DType::BF16 => (5e-3, 2e-3),
            DType::F32 => (2e-5, 2e-6),
            DType::F64 => (1e-9, 1e-10),
            _ => (0.0, 0.0),
        };
        Tolerance { rtol, atol }
    }
}

impl Array {
    /// The elements as doubles. Integers beyond 2^53 lose their last digits.
    pub fn to_f64(&self) -> Vec<f64> {
        let chunks = self.bytes.chunks_exact(self.dtype.size());
        match self.dtype {
            DType::F32 => chunks.map(|c| f32::from_le_bytes(fixed(c)).into()).collect(),
            DType::F64 => chunks.map(|c| f64::from_le_bytes(fixed(c))).collect(),
            DType::F16 => chunks.map(|c| f16::from_le_bytes(fixed(c)).to_f64()).collect(),
            DType::BF16 => chunks.map(|c| half::bf16::from_le_bytes(fixed(c)).to_f64()).collect(),
            DType::U8 | DType::Bool => chunks.map(|c| c[0].into()).collect(),
            DType::I8 => chunks.map(|c| i8::from_le_bytes(fixed(c)).into()).collect(),
            DType::I32 => chunks.map(|c| i32::from_le_bytes(fixed(c)).into()).collect(),
            DType::I64 => chunks.map(|c| i64::from_le_bytes(fixed(c)) as f64).collect(),
        }
    }

    /// Compares type, shape and values; NaN equals NaN and infinities must agree.
    ///
    /// # Errors
    /// The difference, with the first differing value.
    pub fn expect(&self, expected: &Array, tolerance: Tolerance) -> Result<(), String> {
        self.expect_form(expected.dtype, &expected.shape)?;
        if self.bytes == expected.bytes {
            return Ok(());
        }
        let close = |g: f64, e: f64| {
            g == e || (g.is_nan() && e.is_nan()) || (g - e).abs() <= tolerance.atol + tolerance.rtol * e.abs()
        };
        // An infinite expected value would make the tolerance infinite.
        let equal = |g: f64, e: f64| if e.is_infinite() { g == e } else { close(g, e) };
        let (given, wanted) = (self.to_f64(), expected.to_f64());
        match (given.iter().zip(&wanted)).position(|(g, e)| !equal(*g, *e)) {
            None => Ok(()),
            Some(i) => Err(format!(
                "element {i} is {:e}, expected {:e}; all: {}, expected {}",
                given[i],
                wanted[i],
                abridged(&given),
                abridged(&wanted)
            )),
        }
    }

    /// Compares type and shape.
    ///
    /// # Errors
    /// The difference.
    pub fn expect_form(&self, dtype: DType, shape: &[i64]) -> Result<(), String> {
        if self.dtype == dtype && self.shape == shape {
            return Ok(());
        }
        Err(format!("is {} of shape {:?}, expected {} of shape {shape:?}", self.dtype.name(), self.shape, dtype.name()))
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(bytes);
    out
}

fn abridged(values: &[f64]) -> String {
    let shown: Vec<String> = values.iter().take(24).map(|v| format!("{v:.6}")).collect();
    format!("[{}{}]", shown.join(", "), if values.len() > 24 { ", ..." } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(values: &[f32]) -> Array {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Array { dtype: DType::F32, shape: vec![values.len() as i64], bytes }
    }

    #[test]
    fn close_values_agree_and_others_do_not() {
        let t = Tolerance::of(DType::F32);
        assert!(
            array(&[1.0, f32::NAN, f32::INFINITY]).expect(&array(&[1.000_001, f32::NAN, f32::INFINITY]), t).is_ok()
        );
        for (given, expected) in
            [(1.0, 1.01), (1.0, f32::NAN), (f32::NAN, 1.0), (1.0, f32::INFINITY), (f32::NEG_INFINITY, f32::INFINITY)]
        {
            assert!(array(&[given]).expect(&array(&[expected]), t).is_err(), "{given} passed for {expected}");
        }
    }

    #[test]
    fn type_and_shape_must_agree() {
        let t = Tolerance::of(DType::F32);
        let square = Array { shape: vec![2, 2], ..array(&[1.0; 4]) };
        assert!(array(&[1.0; 4]).expect(&square, t).unwrap_err().contains("expected float32 of shape [2, 2]"));
        let other = Array { dtype: DType::I32, ..array(&[0.0; 4]) };
        assert!(array(&[0.0; 4]).expect(&other, t).unwrap_err().contains("expected int32"));
    }
}
