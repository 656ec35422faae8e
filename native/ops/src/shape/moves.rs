//! Helpers of operators that move elements without interpreting them.

use ferromx_core::dtype::Element;
use ferromx_core::error::Result;
use ferromx_core::storage::{In, Out, from_bytes};

/// Runs `$body` with `$T` bound to a type of the size of the given element type, so that a kernel that only moves elements is
/// compiled once per size.
macro_rules! by_size {
    ($dtype:expr, |$T:ident| $body:expr) => {
        match $dtype.size() {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = ferromx_core::dtype::f16;
                $body
            }
            4 => {
                type $T = i32;
                $body
            }
            _ => {
                type $T = i64;
                $body
            }
        }
    };
}
pub(crate) use by_size;

/// The input's elements, as a type of the same size.
pub(crate) fn source<'a, T: Element>(input: &In<'a>) -> Result<&'a [T]> {
    from_bytes(input.bytes()?)
}

/// The output's elements, as a type of the same size.
pub(crate) fn target<'s, T: Element>(out: &'s mut Out<'_>) -> Result<&'s mut [T]> {
    out.slice_mut_as()
}

/// The shape around an axis: the number of elements before it, its length, the number after it.
pub(crate) fn around(dims: &[usize], axis: usize) -> (usize, usize, usize) {
    (dims[..axis].iter().product(), dims[axis], dims[axis + 1..].iter().product())
}
