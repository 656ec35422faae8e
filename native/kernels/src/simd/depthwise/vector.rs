//! Vectors of 32-bit floats.

use super::ScaleClamp;
use std::ops::Range;

/// A vector of 32-bit floats. All operations are unsafe because the processor must have its instructions.
pub(super) trait Vector: Copy {
    /// Number of lanes.
    const LANES: usize;
    /// True if loading three neighboring vectors takes no longer than three multiply-adds, because few of them cross a cache line.
    const SHORT: bool;
    /// Selects lanes.
    type Mask: Copy;
    /// All lanes from `start` up to `end`.
    unsafe fn mask(lanes: Range<usize>) -> Self::Mask;
    unsafe fn splat(value: f32) -> Self;
    /// Reads the selected lanes; the others are zero, and their memory is not touched.
    unsafe fn load(from: *const f32, mask: Self::Mask) -> Self;
    /// Reads all lanes.
    unsafe fn load_all(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// Writes the first `len` lanes.
    unsafe fn store_first(self, to: *mut f32, len: usize);
    unsafe fn add(self, other: Self) -> Self;
    /// `self * factor + addend`, rounded once.
    unsafe fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// The elements at even and at odd indices of the concatenation of `near` and `far`.
    unsafe fn deinterleave(near: Self, far: Self) -> [Self; 2];
    /// Zero in the lanes that are not selected.
    unsafe fn keep(self, mask: Self::Mask) -> Self;
    unsafe fn scale_clamp(self, epilogue: ScaleClamp<Self>) -> Self;
    /// The sum of all lanes.
    unsafe fn sum(self) -> f32;
}
