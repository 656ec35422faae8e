//! Helpers for tests with recorded cases.
#![allow(dead_code, reason = "not every test uses all of it")]

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_interop::ir::WidenedInt;
use serde_json::Value;

/// Decodes hexadecimal digits.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// An array of a case.
pub(crate) fn array(v: &Value) -> NDArray {
    let name = v["dtype"].as_str().unwrap();
    let dtype: DType = WidenedInt::from_name(name).map_or_else(|| name.parse().unwrap(), WidenedInt::storage_dtype);
    let dims: Vec<i64> = v["shape"].as_array().unwrap().iter().map(|d| d.as_i64().unwrap()).collect();
    let data = v["data"].as_array().unwrap();
    let array = NDArray::zeros(&Shape::new(&dims), dtype, Context::default()).unwrap();
    if dtype.is_float() {
        let number = |x: &Value| x.as_f64().unwrap_or_else(|| x.as_str().unwrap().parse().unwrap());
        array.copy_from_slice_as(&data.iter().map(number).collect::<Vec<f64>>()).unwrap();
    } else {
        let number = |x: &Value| x.as_i64().unwrap_or_else(|| i64::from(x.as_bool().unwrap()));
        array.copy_from_slice_as(&data.iter().map(number).collect::<Vec<i64>>()).unwrap();
    }
    array
}

/// How the arrays differ.
pub(crate) fn difference(got: &[NDArray], want: &[NDArray]) -> Option<String> {
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        if (g.shape(), g.dtype()) != (w.shape(), w.dtype()) {
            return Some(format!("output {i} is {} {}, not {} {}", g.dtype(), g.shape(), w.dtype(), w.shape()));
        }
        let (g, w) = (g.to_vec_as::<f64>().unwrap(), w.to_vec_as::<f64>().unwrap());
        let close = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 2e-5 + 2e-5 * b.abs();
        if let Some(k) = (0..w.len()).find(|k| !close(g[*k], w[*k])) {
            return Some(format!("output {i} has {} instead of {} at {k}", g[k], w[k]));
        }
    }
    (got.len() != want.len()).then(|| format!("{} outputs instead of {}", got.len(), want.len()))
}
