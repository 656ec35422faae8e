//! Element types of arrays, with the numeric codes of MXNet's C API.

use std::fmt;
use std::str::FromStr;

pub use half::{bf16, f16};

/// The type of an array's elements. The discriminants are the type flags of MXNet 1.9.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i32)]
pub enum DType {
    /// IEEE 754 single precision.
    F32 = 0,
    /// IEEE 754 double precision.
    F64 = 1,
    /// IEEE 754 half precision.
    F16 = 2,
    /// Unsigned 8-bit integer.
    U8 = 3,
    /// Signed 32-bit integer.
    I32 = 4,
    /// Signed 8-bit integer.
    I8 = 5,
    /// Signed 64-bit integer.
    I64 = 6,
    /// One byte, 0 or 1.
    Bool = 7,
    /// Brain floating point: the upper half of an `F32`.
    BF16 = 12,
}

impl DType {
    /// All types, in the order of their codes.
    pub const ALL: [DType; 9] =
        [DType::F32, DType::F64, DType::F16, DType::U8, DType::I32, DType::I8, DType::I64, DType::Bool, DType::BF16];
    /// The floating-point types that most operators support.
    pub const FLOATS: &'static [DType] = &[DType::F16, DType::F32, DType::F64];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 => 8,
            DType::F32 | DType::I32 => 4,
            DType::F16 | DType::BF16 => 2,
            DType::U8 | DType::I8 | DType::Bool => 1,
        }
    }

    /// MXNet's name, such as `float32`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::F16 => "float16",
            DType::U8 => "uint8",
            DType::I32 => "int32",
            DType::I8 => "int8",
            DType::I64 => "int64",
            DType::Bool => "bool",
            DType::BF16 => "bfloat16",
        }
    }

    /// True for floating-point types.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::F32 | DType::F64 | DType::BF16)
    }

    /// True for floating-point types of 16 bits.
    pub const fn is_half(self) -> bool {
        matches!(self, DType::F16 | DType::BF16)
    }

    /// The type of a C API code; `None` for -1 (unknown) and for undefined codes.
    pub fn from_code(code: i32) -> Option<DType> {
        DType::ALL.into_iter().find(|d| *d as i32 == code)
    }

    /// The code of the C API.
    pub const fn code(self) -> i32 {
        self as i32
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = String;

    fn from_str(s: &str) -> Result<DType, String> {
        DType::ALL
            .into_iter()
            .find(|d| d.name() == s)
            .ok_or_else(|| format!("'{s}' is not a data type; use one of {}", DType::ALL.map(|d| d.name()).join(", ")))
    }
}

/// A Rust type that arrays can hold.
pub trait Element: Copy + Default + Send + Sync + fmt::Debug + PartialOrd + 'static {
    /// The data type of `Self`.
    const DTYPE: DType;

    /// Converts from double precision; rounds to nearest even (floating point) or towards zero (integers).
    fn from_f64(x: f64) -> Self;
    /// The value in double precision; integers beyond 2^53 are rounded.
    fn to_f64(self) -> f64;
    /// Converts from single precision; see [`Element::from_f64`].
    fn from_f32(x: f32) -> Self;
    /// The value in single precision.
    fn to_f32(self) -> f32;
}

macro_rules! element {
    ($($t:ty => $d:ident, |$x:ident| $from64:expr, $to64:expr, $from32:expr, $to32:expr;)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$d;
            #[inline(always)]
            fn from_f64($x: f64) -> Self { $from64 }
            #[inline(always)]
            fn to_f64(self) -> f64 { let $x = self; $to64 }
            #[inline(always)]
            fn from_f32($x: f32) -> Self { $from32 }
            #[inline(always)]
            fn to_f32(self) -> f32 { let $x = self; $to32 }
        }
    )*};
}

element! {
    f32 => F32, |x| x as f32, f64::from(x), x, x;
    f64 => F64, |x| x, x, f64::from(x), x as f32;
    f16 => F16, |x| f16::from_f64(x), x.to_f64(), f16::from_f32(x), x.to_f32();
    bf16 => BF16, |x| bf16::from_f64(x), x.to_f64(), bf16::from_f32(x), x.to_f32();
    u8 => U8, |x| truncate_i32(x) as u8, f64::from(x), truncate_i32(x.into()) as u8, f32::from(x);
    i8 => I8, |x| truncate_i32(x) as i8, f64::from(x), truncate_i32(x.into()) as i8, f32::from(x);
    i32 => I32, |x| truncate_i32(x), f64::from(x), truncate_i32(x.into()), x as f32;
    i64 => I64, |x| truncate_i64(x), x as f64, truncate_i64(x.into()), x as f32;
    bool => Bool, |x| x != 0.0, f64::from(u8::from(x)), x != 0.0, f32::from(u8::from(x));
}

/// Truncates to 32 bits as x86-64 does: NaN and numbers beyond the range become the smallest integer. Narrow integers take the low
/// bits of the result.
#[inline(always)]
pub fn truncate_i32(x: f64) -> i32 {
    if x < 2_147_483_648.0 { x as i32 } else { i32::MIN }
}

/// Truncates to 64 bits; see [`truncate_i32`].
#[inline(always)]
pub fn truncate_i64(x: f64) -> i64 {
    if x < 9_223_372_036_854_775_808.0 { x as i64 } else { i64::MIN }
}

/// Runs `$body` with the type alias `$T` bound to the Rust type of a `DType` from the list; other types run the last arm.
///
/// ```
/// use ferromx_core::{dtype::DType, dispatch};
/// fn bytes(d: DType) -> usize {
///     dispatch!(d, T in [f32, f64] => std::mem::size_of::<T>(), other => other.size())
/// }
/// assert_eq!(bytes(DType::F64), 8);
/// ```
#[macro_export]
macro_rules! dispatch {
    ($d:expr, $T:ident in [$($t:ty),+ $(,)?] => $body:expr, $other:ident => $else:expr) => {{
        let d__ = $d;
        $(if d__ == <$t as $crate::dtype::Element>::DTYPE { type $T = $t; $body } else)+ { let $other = d__; $else }
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_those_of_mxnet() {
        assert_eq!(DType::from_code(12), Some(DType::BF16));
        assert_eq!(DType::from_code(-1), None);
        assert_eq!("int64".parse(), Ok(DType::I64));
        assert!("int16".parse::<DType>().unwrap_err().contains("use one of float32"));
    }

    #[test]
    fn narrow_integers_wrap() {
        assert_eq!(u8::from_f64(-1.0), 255);
        assert_eq!(i8::from_f64(200.7), -56);
        assert!(bool::from_f64(0.5));
    }
}
