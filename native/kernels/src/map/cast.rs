//! Conversion between element types.

use super::drive::GRAIN;
use super::{Elements, ElementsMut, Lane};
use crate::par::grain_for_all_threads;
use ferromx_core::dtype::DType;

/// Converts between element types as MXNet's `Cast`: truncation towards zero for integers, nearest even for floats.
///
/// # Panics
/// Panics if the lengths differ.
pub fn cast(x: Elements<'_>, out: ElementsMut<'_>) {
    use DType::{BF16, F16, F32, F64, I64};
    let (from, to) = (x.dtype(), out.dtype());
    match (from, to) {
        (F64, _) | (_, F64) => cast_lanes::<f64>(x, out),
        // Integers that single precision rounds are infinite in float16, and MXNet makes bfloat16 of single precision.
        (F32 | F16 | BF16, _) | (_, F32 | F16 | BF16) => cast_lanes::<f32>(x, out),
        (I64, _) | (_, I64) => cast_lanes::<i64>(x, out),
        _ => cast_lanes::<i32>(x, out),
    }
}

/// Converts by way of lanes of type `C`.
fn cast_lanes<C: Lane>(x: Elements<'_>, out: ElementsMut<'_>) {
    const BLOCK: usize = 512;
    assert_eq!(x.len(), out.len(), "the numbers of elements differ");
    let grain = grain_for_all_threads(out.len(), GRAIN);
    out.parallel_chunks(grain, &|start, mut out| {
        let len = out.len();
        if let Some(lanes) = C::view_any(x) {
            return C::store_any(&lanes[start..start + len], out);
        }
        if let Some(lanes) = C::view_any_mut(&mut out) {
            return C::load_any(x, start, lanes);
        }
        let mut buffer = [C::from_f64(0.0); BLOCK];
        for begin in (0..len).step_by(BLOCK) {
            let lanes = &mut buffer[..BLOCK.min(len - begin)];
            C::load_any(x, start + begin, lanes);
            C::store_any(lanes, out.part(begin..begin + lanes.len()));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::AnyElement;
    use ferromx_core::dtype::{Element, f16};

    fn converted<T: AnyElement, U: AnyElement + Element>(x: &[T]) -> Vec<U> {
        let mut y = vec![U::from_f64(1.0); x.len()];
        cast(T::elements(x), U::elements_mut(&mut y));
        y
    }

    #[test]
    fn keeps_large_integers_and_truncates_floats() {
        assert_eq!(converted::<u8, i64>(&[7, 255]), [7, 255]);
        assert_eq!(converted::<f32, i32>(&[-1.9, 2.5, f32::NAN, 3e9, -3e9]), [-1, 2, i32::MIN, i32::MIN, i32::MIN]);
        assert_eq!(converted::<f32, u8>(&[-1.9, 256.5, 300.0, f32::INFINITY]), [255, 0, 44, 0]);
        assert_eq!(converted::<f32, i64>(&[-1e12, f32::NAN]), [-999_999_995_904, i64::MIN]);
        assert_eq!(converted::<f64, i64>(&[9_007_199_254_740_993.0, 1e300]), [9_007_199_254_740_992, i64::MIN]);
        assert_eq!(converted::<i64, i32>(&[(1 << 53) + 1]), [1]);
        assert_eq!(converted::<f16, i8>(&[f16::from_f32(-3.75), f16::MAX]), [-3, -32]);
    }

    #[test]
    fn rounds_to_the_nearest() {
        assert_eq!(converted::<f64, f16>(&[65519.9]), [f16::MAX]);
        assert_eq!(converted::<i64, f16>(&[65519, 65520, i64::MIN]), [f16::MAX, f16::INFINITY, f16::NEG_INFINITY]);
        assert_eq!(converted::<i64, f32>(&[(1 << 24) + 1, (1 << 62) + 1]), [16_777_216.0, 2f32.powi(62)]);
    }

    #[test]
    fn booleans_are_whether_numbers_are_not_zero() {
        assert_eq!(converted::<f32, bool>(&[0.0, -0.0, 0.25, f32::NAN]), [false, false, true, true]);
        assert_eq!(converted::<i64, bool>(&[0, 1 << 40]), [false, true]);
        assert_eq!(converted::<f16, bool>(&[f16::ZERO, f16::from_f32(6e-8)]), [false, true]);
        assert_eq!(converted::<bool, f16>(&[true, false]), [f16::ONE, f16::ZERO]);
        assert_eq!(converted::<u8, bool>(&[0, 200]), [false, true]);
    }

    #[test]
    fn converts_arrays_of_any_length() {
        let x: Vec<f16> = (0..5000).map(|i| f16::from_f32(i as f32 * 0.25)).collect();
        for len in [0, 1, 511, 512, 513, 5000] {
            let want: Vec<i32> = x[..len].iter().map(|x| x.to_f32() as i32).collect();
            assert_eq!(converted::<f16, i32>(&x[..len]), want);
        }
    }
}
