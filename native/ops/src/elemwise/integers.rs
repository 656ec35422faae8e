//! Formulas of two integers, such as bitwise ones, and the function that runs them.

use ferromx_core::dispatch;
use ferromx_core::error::Result;
use ferromx_core::op::OpCtx;
use ferromx_core::storage::Out;
use ferromx_kernels::broadcast::broadcast_any;
use ferromx_kernels::map::{Elements, LaneFn};

use super::predicates::INT_OR_BOOL;

/// A formula of two integers, for lanes of 32 and 64 bits. Booleans are the integers 0 and 1.
pub(crate) trait IntBinary: LaneFn<(i32, i32), i32> + LaneFn<(i64, i64), i64> {
    /// The only value.
    const NEW: Self;
}

macro_rules! int_formula {
    ($($(#[$doc:meta])* $name:ident = |$a:ident, $b:ident| $f:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;
        impl IntBinary for $name {
            const NEW: $name = $name;
        }
        int_formula!(@lane $name i32 $a $b $f);
        int_formula!(@lane $name i64 $a $b $f);
    )*};
    (@lane $name:ident $lane:ident $a:ident $b:ident $f:expr) => {
        impl LaneFn<($lane, $lane), $lane> for $name {
            #[inline(always)]
            fn call(self, ($a, $b): ($lane, $lane)) -> $lane {
                $f
            }
        }
    };
}

int_formula! {
    /// The least common multiple of the magnitudes.
    Lcm = |a, b| {
        let (mut x, mut y) = (a.unsigned_abs(), b.unsigned_abs());
        let magnitudes = (x, y);
        // The greatest common divisor by Stein's binary algorithm, which needs no division.
        if x != 0 && y != 0 {
            let twos = (x | y).trailing_zeros();
            x >>= x.trailing_zeros();
            while y != 0 {
                y >>= y.trailing_zeros();
                (x, y) = (x.min(y), x.abs_diff(y));
            }
            x <<= twos;
            (magnitudes.0 / x).wrapping_mul(magnitudes.1).cast_signed()
        } else {
            0
        }
    };
    /// Bitwise and.
    BitAnd = |a, b| a & b;
    /// Bitwise or.
    BitOr = |a, b| a | b;
    /// Bitwise exclusive or.
    BitXor = |a, b| a ^ b;
}

/// `out = F(a, b)` for integers and bool.
pub(crate) fn int_into<F: IntBinary>(
    ctx: &OpCtx<'_>,
    a: (Elements<'_>, &[usize]),
    b: (Elements<'_>, &[usize]),
    out: &mut Out<'_>,
) -> Result<()> {
    let shape = out.shape().to_usize();
    dispatch!(out.dtype(), T in [u8, i8, i32, bool] => {
        broadcast_any::<T, i32, i32, F>(a, b, (out.slice_mut()?, &shape), F::NEW);
        Ok(())
    }, d => dispatch!(d, T in [i64] => {
        broadcast_any::<T, i64, i64, F>(a, b, (out.slice_mut()?, &shape), F::NEW);
        Ok(())
    }, d => Err(ctx.unsupported(d, INT_OR_BOOL))))
}
