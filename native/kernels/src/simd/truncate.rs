//! Truncation of floats to integers as on x86-64: NaN and numbers beyond the range become the smallest integer.
//!
//! The compiler does not vectorize `as`, which saturates. These functions bring each number into the range first.

macro_rules! truncate {
    ($($name:ident: $float:ty => $int:ty, $doc:literal;)*) => {$(
        #[doc = $doc]
        #[inline(always)]
        #[allow(clippy::manual_range_contains)] // `contains` is a branch.
        pub(crate) fn $name(x: $float) -> $int {
            const MIN: $float = <$int>::MIN as $float;
            let x = if (x >= MIN) & (x < -MIN) { x } else { MIN };
            // SAFETY: `x` is at least the smallest integer and less than the largest one plus 1.
            unsafe { x.to_int_unchecked() }
        }
    )*};
}
truncate! {
    f32_to_i32: f32 => i32, "Truncates to 32 bits.";
    f32_to_i64: f32 => i64, "Truncates to 64 bits.";
    f64_to_i32: f64 => i32, "Truncates to 32 bits.";
    f64_to_i64: f64 => i64, "Truncates to 64 bits.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferromx_core::dtype::{truncate_i32, truncate_i64};

    #[test]
    fn truncates_as_the_conversions_of_elements() {
        let sizes =
            [0.0, 0.5, 1.0, 1.75, 255.9, 2_147_483_520.0, 2_147_483_647.5, 2_147_483_648.0, 4e9, 9.2e18, 9.3e18];
        for x in sizes.iter().flat_map(|x| [*x, -*x]).chain([f64::INFINITY, f64::NEG_INFINITY, f64::NAN]) {
            let single = x as f32;
            assert_eq!((f64_to_i32(x), f64_to_i64(x)), (truncate_i32(x), truncate_i64(x)), "{x}");
            assert_eq!(f32_to_i32(single), truncate_i32(single.into()), "{single}");
            assert_eq!(f32_to_i64(single), truncate_i64(single.into()), "{single}");
        }
    }
}
