//! Vectors of NEON.
#![expect(
    unsafe_op_in_unsafe_fn,
    reason = "every operation needs what its caller promises: the processor has the instructions"
)]

use super::ScaleClamp;
use super::vector::Vector;
use std::arch::aarch64::*;
use std::ops::Range;

/// Two vectors of four lanes, which hide the latency of the multiply-adds.
#[derive(Clone, Copy)]
pub(super) struct Pair([float32x4_t; 2]);

/// Loads two lanes; a lane whose mask bit is clear is zero.
#[inline(always)]
unsafe fn load_two(from: *const f32, bits: u8) -> float32x2_t {
    let zero = vdup_n_f32(0.0);
    match bits {
        0 => zero,
        1 => vld1_lane_f32::<0>(from, zero),
        2 => vld1_lane_f32::<1>(from.wrapping_add(1), zero),
        _ => vld1_f32(from),
    }
}

/// Loads four lanes; a lane whose mask bit is clear is zero.
#[inline(always)]
unsafe fn load_four(from: *const f32, bits: u8) -> float32x4_t {
    match bits {
        0b1111 => vld1q_f32(from),
        _ => vcombine_f32(load_two(from, bits & 3), load_two(from.wrapping_add(2), bits >> 2)),
    }
}

/// Stores the lanes of a two-lane vector whose mask bits are set.
#[inline(always)]
unsafe fn store_two(to: *mut f32, bits: u8, value: float32x2_t) {
    match bits {
        0 => {}
        1 => vst1_lane_f32::<0>(to, value),
        2 => vst1_lane_f32::<1>(to.wrapping_add(1), value),
        _ => vst1_f32(to, value),
    }
}

/// Stores the lanes of a four-lane vector whose mask bits are set.
#[inline(always)]
unsafe fn store_four(to: *mut f32, bits: u8, value: float32x4_t) {
    store_two(to, bits & 3, vget_low_f32(value));
    store_two(to.wrapping_add(2), bits >> 2, vget_high_f32(value));
}

impl Vector for Pair {
    const LANES: usize = 8;
    const SHORT: bool = false;
    /// A bit per lane.
    type Mask = u8;

    #[inline(always)]
    unsafe fn mask(lanes: Range<usize>) -> u8 {
        ((1u32 << lanes.end) - (1 << lanes.start.min(lanes.end))) as u8
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Pair {
        Pair([vdupq_n_f32(value); 2])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32, mask: u8) -> Pair {
        if mask == u8::MAX {
            return Pair([vld1q_f32(from), vld1q_f32(from.wrapping_add(4))]);
        }
        Pair([load_four(from, mask & 15), load_four(from.wrapping_add(4), mask >> 4)])
    }

    #[inline(always)]
    unsafe fn load_all(from: *const f32) -> Pair {
        Pair([vld1q_f32(from), vld1q_f32(from.wrapping_add(4))])
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        vst1q_f32(to, self.0[0]);
        vst1q_f32(to.wrapping_add(4), self.0[1]);
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, len: usize) {
        let mask = Self::mask(0..len);
        store_four(to, mask & 15, self.0[0]);
        store_four(to.wrapping_add(4), mask >> 4, self.0[1]);
    }

    #[inline(always)]
    unsafe fn add(self, other: Pair) -> Pair {
        Pair([vaddq_f32(self.0[0], other.0[0]), vaddq_f32(self.0[1], other.0[1])])
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Pair, addend: Pair) -> Pair {
        let [low, high] = [0, 1].map(|i| vfmaq_f32(addend.0[i], self.0[i], factor.0[i]));
        Pair([low, high])
    }

    #[inline(always)]
    unsafe fn deinterleave(near: Pair, far: Pair) -> [Pair; 2] {
        let (near, far) = (near.0, far.0);
        let even = Pair([vuzp1q_f32(near[0], near[1]), vuzp1q_f32(far[0], far[1])]);
        [even, Pair([vuzp2q_f32(near[0], near[1]), vuzp2q_f32(far[0], far[1])])]
    }

    #[inline(always)]
    unsafe fn keep(self, mask: u8) -> Pair {
        const BITS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
        let mask = vdupq_n_u32(mask.into());
        let kept = |value: float32x4_t, bits: *const u32| {
            let selected = vtstq_u32(mask, vld1q_u32(bits));
            vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(value), selected))
        };
        Pair([kept(self.0[0], BITS.as_ptr()), kept(self.0[1], BITS.as_ptr().add(4))])
    }

    #[inline(always)]
    unsafe fn scale_clamp(self, epilogue: ScaleClamp<Pair>) -> Pair {
        let ScaleClamp { scale, bias, low, high } = epilogue;
        let clamped = |i: usize| {
            let value = vaddq_f32(vmulq_f32(self.0[i], scale.0[i]), bias.0[i]);
            // If an operand is NaN, so is the result.
            vminq_f32(high.0[i], vmaxq_f32(low.0[i], value))
        };
        Pair([clamped(0), clamped(1)])
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let quads = vaddq_f32(self.0[0], self.0[1]);
        let pairs = vadd_f32(vget_low_f32(quads), vget_high_f32(quads));
        vget_lane_f32::<0>(vpadd_f32(pairs, pairs))
    }
}
