//! Element types as other types of the same size.
#![allow(unsafe_code)]

use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// An element type that can be moved: it has no padding bytes.
pub trait Item: Copy + Default + Send + Sync + sealed::Sealed + 'static {}

macro_rules! items {
    ($($t:ty)*) => { $( impl sealed::Sealed for $t {} impl Item for $t {} )* };
}
items!(u8 i8 bool u16 i16 f16 bf16 u32 i32 f32 u64 i64 f64 usize isize);

/// A type for which every bit pattern is valid.
pub(crate) trait Bits: Item {}

impl Bits for u8 {}
impl Bits for u16 {}
impl Bits for u32 {}
impl Bits for u64 {}
impl Bits for f32 {}

/// Evaluates `$body` with `$B` bound to the unsigned integer of the size of `$T`.
macro_rules! by_size {
    ($T:ty, $B:ident => $body:expr) => {
        match size_of::<$T>() {
            1 => {
                type $B = u8;
                $body
            }
            2 => {
                type $B = u16;
                $body
            }
            4 => {
                type $B = u32;
                $body
            }
            _ => {
                type $B = u64;
                $body
            }
        }
    };
}
pub(crate) use by_size;

/// The elements as another type of the same size.
///
/// # Panics
/// Panics if the types differ in size.
#[inline(always)]
pub(crate) fn bits<T: Item, B: Bits>(items: &[T]) -> &[B] {
    assert_eq!(size_of::<T>(), size_of::<B>());
    // SAFETY: all items of a size have the same alignment, every byte of an item is initialized, and every bit pattern is valid for B.
    unsafe { std::slice::from_raw_parts(items.as_ptr().cast(), items.len()) }
}

/// Like [`bits`], to be overwritten with elements of the original type.
///
/// # Panics
/// Panics if the types differ in size.
#[inline(always)]
pub(crate) fn bits_mut<T: Item, B: Bits>(items: &mut [T]) -> &mut [B] {
    assert_eq!(size_of::<T>(), size_of::<B>());
    // SAFETY: as in `bits`. The caller only writes the bits of items, so that each item remains valid.
    unsafe { std::slice::from_raw_parts_mut(items.as_mut_ptr().cast(), items.len()) }
}

/// The bits of an element.
pub(crate) fn bits_of<T: Item, B: Bits>(item: T) -> B {
    bits(&[item])[0]
}
