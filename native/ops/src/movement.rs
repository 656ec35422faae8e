//! Helpers of operators that move elements and do not compute with them.

use ferromx_core::dtype::Element;
use ferromx_core::error::Result;
use ferromx_core::op::OpCtx;
use ferromx_core::storage::{In, Out, from_bytes};
use ferromx_kernels::movement::fill;
use ferromx_kernels::par::parallel_copy;

/// Evaluates `$body` with `$T` bound to an element type of the size of `$dtype`, so that a kernel that only moves elements is compiled
/// once per size.
macro_rules! by_size {
    ($dtype:expr, $T:ident => $body:expr) => {
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

/// Copies the input to the output, unless they share memory.
pub(crate) fn copy_unless_in_place(x: &In<'_>, out: &mut Out<'_>) -> Result<()> {
    if x.shared_with().is_none() {
        out.bytes_mut()?.copy_from_slice(x.bytes()?);
    }
    Ok(())
}

/// The kernel that sets the first output to zero.
///
/// # Errors
/// None.
pub fn zeros(_: &OpCtx<'_>, _: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    fill(outs[0].bytes_mut()?, 0);
    Ok(())
}

/// The kernel that copies the first input to the output, unless they share memory. Their shapes may differ.
///
/// # Errors
/// Different numbers of bytes.
pub fn copy(_: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    if ins[0].shared_with().is_none() && outs[0].wanted() {
        parallel_copy(ins[0].bytes()?, outs[0].bytes_mut()?);
    }
    Ok(())
}
