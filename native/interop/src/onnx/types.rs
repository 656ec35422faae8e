//! ONNX element types by their codes.

use ferromx_core::dtype::DType;

use crate::ir::ElementType;

/// The types of arrays with their codes.
const OURS: [(i32, DType); 9] = [
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

/// Types that arrays do not support.
const FOREIGN: [(i32, &str); 17] = [
    (4, "uint16"),
    (5, "int16"),
    (8, "string"),
    (12, "uint32"),
    (13, "uint64"),
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
pub fn element_type(code: i64) -> ElementType {
    if let Some((_, dtype)) = OURS.iter().find(|(c, _)| i64::from(*c) == code) {
        return ElementType::Ours(*dtype);
    }
    let name = FOREIGN.iter().find(|(c, _)| i64::from(*c) == code).map(|(_, name)| name.to_string());
    ElementType::Foreign(name.unwrap_or_else(|| format!("with the code {code}")))
}

/// The code of a type of arrays.
pub fn code_of(dtype: DType) -> i32 {
    OURS.iter().find(|(_, d)| *d == dtype).map_or(0, |(code, _)| *code)
}
