//! Sums of numbers in unaligned memory, such as the body of a message.

use crate::par;
use ferromx_core::dtype::{bf16, f16};

/// Bytes per chunk; a multiple of the size of every type.
const CHUNK_BYTES: usize = 1 << 17;

/// Numbers that can be summed; integers wrap around.
pub trait Term: Copy {
    /// Reads a number from its bytes in native order.
    fn read(bytes: &[u8]) -> Self;
    /// The sum of two numbers.
    fn plus(self, other: Self) -> Self;
    /// Writes the bytes.
    fn write(self, bytes: &mut [u8]);
}

macro_rules! term {
    ($($ty:ty: $plus:expr;)*) => {$(
        impl Term for $ty {
            #[inline(always)]
            fn read(bytes: &[u8]) -> $ty {
                <$ty>::from_ne_bytes(<[u8; size_of::<$ty>()]>::try_from(bytes).unwrap_or_default())
            }
            #[inline(always)]
            fn plus(self, other: $ty) -> $ty {
                let plus: fn($ty, $ty) -> $ty = $plus;
                plus(self, other)
            }
            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}

term! {
    f32: |x, y| x + y;
    f64: |x, y| x + y;
    f16: |x, y| f16::from_f32(x.to_f32() + y.to_f32());
    bf16: |x, y| bf16::from_f32(x.to_f32() + y.to_f32());
    u8: u8::wrapping_add;
    i8: i8::wrapping_add;
    i32: i32::wrapping_add;
    i64: i64::wrapping_add;
}

/// Adds the numbers in `terms` to those in `total`.
///
/// # Panics
/// Panics if the lengths differ.
pub fn add_bytes<T: Term>(total: &mut [u8], terms: &[u8]) {
    assert_eq!(total.len(), terms.len(), "the terms differ in length");
    let size = size_of::<T>();
    par::parallel_rows(total, CHUNK_BYTES, 1, |i, total| {
        for (x, y) in total.chunks_exact_mut(size).zip(terms[i * CHUNK_BYTES..].chunks_exact(size)) {
            T::read(x).plus(T::read(y)).write(x);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unaligned_numbers_are_added() {
        let numbers = |n: i64| (0..20_000).flat_map(move |i| (i * n).to_ne_bytes());
        let mut total: Vec<u8> = std::iter::once(0).chain(numbers(3)).collect();
        let terms: Vec<u8> = numbers(4).collect();
        add_bytes::<i64>(&mut total[1..], &terms);
        assert!(total[1..].iter().copied().eq(numbers(7)));
        let mut bytes = [250u8, 1];
        add_bytes::<u8>(&mut bytes, &[10, 1]);
        assert_eq!(bytes, [4, 2]);
        let mut half = f16::from_f32(1.5).to_ne_bytes();
        add_bytes::<f16>(&mut half, &f16::from_f32(0.25).to_ne_bytes());
        assert_eq!(f16::from_ne_bytes(half), f16::from_f32(1.75));
    }
}
