//! Vectors of 32-bit floats.

use super::ScaleClamp;
use std::ops::Range;

/// A vector of 32-bit floats. All operations are unsafe because the processor must have its instructions.
pub(super) trait Vector: Copy {
    /// Number of lanes.
    const LANES: usize;
    /// Selects lanes.
    type Mask: Copy;
    /// All lanes from `start` up to `end`.
    unsafe fn mask(lanes: Range<usize>) -> Self::Mask;
    unsafe fn splat(value: f32) -> Self;
    /// Reads the selected lanes; the others are zero, and their memory is not touched.
    unsafe fn load(from: *const f32, mask: Self::Mask) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// Writes the selected lanes.
    unsafe fn store_masked(self, to: *mut f32, mask: Self::Mask);
    /// `self * factor + addend`, rounded once.
    unsafe fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// The elements at even and those at odd positions of `near` and, after it, `far`.
    unsafe fn deinterleave(near: Self, far: Self) -> [Self; 2];
    /// Zero in the lanes that are not selected.
    unsafe fn keep(self, mask: Self::Mask) -> Self;
    unsafe fn scale_clamp(self, epilogue: ScaleClamp<Self>) -> Self;
    /// The sum of all lanes.
    unsafe fn sum(self) -> f32;
}
