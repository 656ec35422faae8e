//! The types in which kernels compute: 16-bit floating-point arrays are converted to single precision and back, so that a kernel is
//! compiled for `f32` and `f64` only.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::storage::{HalfConversion, In, Out};
use ferromx_kernels::map::{Load, Store};

/// Runs `$body`, a kernel on `$ins` and `$outs`, with `$T` bound to `f64` for float64 and to `f32` for float32. For the 16-bit types
/// in the list, the operands of these types are converted to single precision and `$T` is `f32`. Other types run the last arm.
///
/// The results are those of a kernel that converts each element when it reads or writes it.
macro_rules! by_precision {
    (($ins:ident, $outs:ident), $dtype:expr, $T:ident for [$($half:ident),+] => $body:expr, $other:ident => $else:expr $(,)?) => {{
        use ferromx_core::dtype::DType as Type;
        use ferromx_core::storage::{In, Out};
        let dtype = $dtype;
        let mut single = |$ins: &[In<'_>], $outs: &mut [Out<'_>]| -> ferromx_core::error::Result<()> {
            type $T = f32;
            $body
        };
        match dtype {
            Type::F32 => single($ins, $outs),
            Type::F64 => {
                type $T = f64;
                $body
            }
            $(Type::$half)|+ => $crate::precision::CONVERSION.call($ins, $outs, &mut single),
            $other => $else,
        }
    }};
}
pub(crate) use by_precision;

/// The conversions of [`by_precision!`].
pub(crate) const CONVERSION: HalfConversion = HalfConversion { load, store };

/// Runs a kernel that computes in single and double precision, on copies in single precision of the 16-bit operands, if there are any.
pub(crate) fn without_half(
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
    kernel: &mut dyn FnMut(&[In<'_>], &mut [Out<'_>]) -> Result<()>,
) -> Result<()> {
    if ins.iter().any(|x| x.dtype().is_half()) || outs.iter().any(|y| y.dtype().is_half()) {
        CONVERSION.call(ins, outs, kernel)
    } else {
        kernel(ins, outs)
    }
}

fn load(x: &In<'_>, wide: &mut [f32]) -> Result<()> {
    match x.dtype() {
        DType::F16 => <f16 as Load<f32>>::load(x.slice::<f16>()?, wide),
        _ => <bf16 as Load<f32>>::load(x.slice::<bf16>()?, wide),
    }
    Ok(())
}

fn store(wide: &[f32], y: &mut Out<'_>) -> Result<()> {
    match y.dtype() {
        DType::F16 => <f16 as Store<f32>>::store(wide, y.slice_mut::<f16>()?),
        _ => <bf16 as Store<f32>>::store(wide, y.slice_mut::<bf16>()?),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferromx_core::storage::Req;
    use ferromx_core::storage::call_once;
    use ferromx_core::storage::ndarray::NDArray;

    #[test]
    fn both_16_bit_types_are_computed_in_single_precision() {
        let x = NDArray::from_slice(&[f16::from_f32(1.5), f16::NAN], &[2]).unwrap();
        let y = NDArray::from_slice(&[bf16::ZERO; 2], &[2]).unwrap();
        let double = &mut |ins: &[In<'_>], outs: &mut [Out<'_>]| {
            let x = ins[0].slice::<f32>()?;
            outs[0].slice_mut::<f32>()?.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
            Ok(())
        };
        call_once(&[&x], &[(&y, Req::Write)], |ins, outs| without_half(ins, outs, double)).unwrap();
        let y = y.to_vec_as::<f32>().unwrap();
        assert!(y[0] == 3.0 && y[1].is_nan(), "{y:?}");
    }
}
