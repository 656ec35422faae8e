//! Unsigned integer keys that have the order of the elements.

use crate::item::Item;
use ferromx_core::dtype::{Element, bf16, f16};

/// An unsigned integer type.
pub trait KeyBits: Copy + Ord + Default + Send + Sync {
    /// The number of bits.
    const WIDTH: u32;
    /// The complement, which reverses the order.
    fn inverted(self) -> Self;
    /// The key as a wider integer.
    fn widened(self) -> u64;
    /// The 11-bit digit at a shift.
    fn digit(self, shift: u32) -> usize;
    /// A key and an index in one integer, ordered by the key first.
    type Packed: Copy + Ord + Default;
    /// Packs this key and an index.
    fn packed(self, index: u32) -> Self::Packed;
    /// The packed index.
    fn index(packed: Self::Packed) -> u32;
}

macro_rules! bits {
    ($($t:ty, $packed:ty;)*) => {$(
        impl KeyBits for $t {
            const WIDTH: u32 = <$t>::BITS;
            #[inline(always)]
            fn inverted(self) -> $t {
                !self
            }
            #[inline(always)]
            fn widened(self) -> u64 {
                u64::from(self)
            }
            #[inline(always)]
            fn digit(self, shift: u32) -> usize {
                (self >> shift) as usize & 0x7ff
            }
            type Packed = $packed;
            #[inline(always)]
            fn packed(self, index: u32) -> $packed {
                <$packed>::from(self) << 32 | <$packed>::from(index)
            }
            #[inline(always)]
            fn index(packed: $packed) -> u32 {
                packed as u32
            }
        }
    )*};
}
bits! { u8, u64; u16, u64; u32, u64; u64, u128; }

/// An element type with a sort key.
pub trait SortKey: Element + Item {
    /// The key.
    type Key: KeyBits;
    /// The key. Equal elements have equal keys, and NaN has the largest key.
    fn key(self) -> Self::Key;
    /// A key in which -0 is smaller than 0, so that the element can be recovered.
    #[inline(always)]
    fn value_key(self) -> Self::Key {
        self.key()
    }
    /// The element with this [`SortKey::value_key`].
    fn from_key(key: Self::Key) -> Self;
}

macro_rules! float {
    ($($t:ty: $u:ty;)*) => {$(
        impl SortKey for $t {
            type Key = $u;
            #[inline(always)]
            fn key(self) -> $u {
                const SIGN: $u = 1 << (<$u>::BITS - 1);
                if self.to_bits() == SIGN { SIGN } else { self.value_key() }
            }
            #[inline(always)]
            fn value_key(self) -> $u {
                const SIGN: $u = 1 << (<$u>::BITS - 1);
                let bits = self.to_bits();
                let key = if bits & SIGN == 0 { bits | SIGN } else { !bits };
                if self.is_nan() { <$u>::MAX } else { key }
            }
            #[inline(always)]
            fn from_key(key: $u) -> $t {
                const SIGN: $u = 1 << (<$u>::BITS - 1);
                <$t>::from_bits(if key & SIGN == 0 { !key } else { key ^ SIGN })
            }
        }
    )*};
}
float! { f32: u32; f64: u64; f16: u16; bf16: u16; }

macro_rules! integer {
    ($($t:ty: $u:ty, $flip:expr;)*) => {$(
        impl SortKey for $t {
            type Key = $u;
            #[inline(always)]
            fn key(self) -> $u {
                self as $u ^ $flip
            }
            #[inline(always)]
            fn from_key(key: $u) -> $t {
                (key ^ $flip) as $t
            }
        }
    )*};
}
integer! { u8: u8, 0; i8: u8, 0x80; i32: u32, 0x8000_0000; i64: u64, 1 << 63; }

impl SortKey for bool {
    type Key = u8;
    #[inline(always)]
    fn key(self) -> u8 {
        u8::from(self)
    }
    #[inline(always)]
    fn from_key(key: u8) -> bool {
        key & 1 == 1
    }
}
