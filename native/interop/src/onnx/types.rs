//! ONNX element types by their codes.

use ferromx_core::dtype::DType;

use crate::error::Result;
use crate::ir::{ElementType, WidenedInt};

/// Types that arrays support, with their codes.
const ARRAY_TYPES: [(i32, DType); 9] = [
    (1, DType::F32),
    (2, DType::U8),
    (3, DType::I8),
    (6, DType::I32),
    (7, DType::I64),
    (9, DType::Bool),
    (10, DType::F16),
    (11, DType::F64),
    (16, DType::BF16),
];

/// Integer types that are stored in wider ones, with their codes.
const WIDENED: [(i32, WidenedInt); 4] =
    [(4, WidenedInt::U16), (5, WidenedInt::I16), (12, WidenedInt::U32), (13, WidenedInt::U64)];

/// Unsupported types, with their codes.
const UNSUPPORTED: [(i32, &str); 13] = [
    (8, "string"),
    (14, "complex64"),
    (15, "complex128"),
    (17, "float8e4m3fn"),
    (18, "float8e4m3fnuz"),
    (19, "float8e5m2"),
    (20, "float8e5m2fnuz"),
    (21, "uint4"),
    (22, "int4"),
    (23, "float4e2m1"),
    (24, "float8e8m0"),
    (25, "uint2"),
    (26, "int2"),
];

/// The element type of a code.
pub(crate) fn element_type(code: i64) -> ElementType {
    if let Some((_, dtype)) = ARRAY_TYPES.iter().find(|(c, _)| i64::from(*c) == code) {
        return ElementType::DType(*dtype);
    }
    if let Some((_, int)) = WIDENED.iter().find(|(c, _)| i64::from(*c) == code) {
        return ElementType::Widened(*int);
    }
    let name = UNSUPPORTED.iter().find(|(c, _)| i64::from(*c) == code).map(|(_, name)| name.to_string());
    ElementType::Unsupported(name.unwrap_or_else(|| format!("with the code {code}")))
}

/// The code of a type that arrays support.
pub(crate) fn code_of(dtype: DType) -> i32 {
    ARRAY_TYPES.iter().find(|(_, d)| *d == dtype).map_or(0, |(code, _)| *code)
}

/// The code of an element type.
///
/// # Errors
/// An unsupported element type.
pub(crate) fn code_of_element(element: &ElementType) -> Result<i32> {
    match element {
        ElementType::Widened(int) => Ok(WIDENED.iter().find(|(_, i)| i == int).map_or(0, |(code, _)| *code)),
        other => other.dtype().map(code_of),
    }
}
