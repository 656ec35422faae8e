//! Packing the panels of an implicit convolution from the padded image.
//!
//! A panel has one lane for each of as many neighbouring outputs. A step of it holds, for one channel and one tap of the
//! kernel, the input elements under that tap. Outputs of one row of the image have adjacent elements, a "run"; the runs are the
//! same for all steps, apart from the place of the step.

#[cfg(target_arch = "x86_64")]
use super::Isa;
use super::microkernel::{Element, Steps};
use crate::par::List;

/// Lanes of an AVX-512 vector of `f32`.
#[cfg(target_arch = "x86_64")]
const LANES: usize = 16;

/// Neighbouring lanes whose elements are adjacent.
#[derive(Clone, Copy, Debug)]
struct Run {
    lane: usize,
    len: usize,
    /// The place of the first element.
    place: usize,
}

/// Neighbouring lanes of a panel, and the places of their elements: the same for all steps, up to the place of the step.
#[derive(Debug)]
pub struct Runs {
    width: usize,
    runs: List<Run>,
    /// One more than the largest place.
    reach: usize,
}

impl Runs {
    /// No runs yet, in panels of `width` lanes.
    pub fn new(width: usize) -> Runs {
        Runs { width, runs: List::default(), reach: 0 }
    }

    /// Adds `len` lanes from `lane` on, whose elements are adjacent from `place` on.
    ///
    /// # Panics
    /// When they leave the panel.
    pub fn push(&mut self, lane: usize, len: usize, place: usize) {
        assert!(lane + len <= self.width, "lanes {lane}..{} of a panel of {}", lane + len, self.width);
        self.reach = self.reach.max(place + len);
        self.runs.push(Run { lane, len, place });
    }
}

/// An element type whose panels can be packed.
pub trait WindowElement: Element {
    /// Writes the steps `first..` of the table to `out`, a panel of `runs` each: an element is that of `data` at the place of
    /// its step plus the place of its lane, or zero where a lane is in no run.
    ///
    /// # Panics
    /// When the table does not have as many steps as there is room for, or an element is outside of `data`.
    fn pack_runs(runs: &Runs, steps: Steps<'_, Self>, out: &mut [Self]);
}

impl WindowElement for f32 {
    fn pack_runs(runs: &Runs, steps: Steps<'_, f32>, out: &mut [f32]) {
        let places = check_runs(runs, &steps, out);
        #[cfg(target_arch = "x86_64")]
        if runs.width.is_multiple_of(LANES) && Isa::current() == Isa::Avx512 {
            // SAFETY: the processor has AVX-512F; `out` has a panel for each place and `data` all of their elements, as checked.
            return unsafe { runs_avx512(runs, places, steps.data.as_ptr(), out) };
        }
        runs_portable(runs, places, steps.data, out);
    }
}

impl WindowElement for f64 {
    fn pack_runs(runs: &Runs, steps: Steps<'_, f64>, out: &mut [f64]) {
        runs_portable(runs, check_runs(runs, &steps, out), steps.data, out);
    }
}

/// The places of the steps that `out` has room for.
fn check_runs<'a, T>(runs: &Runs, steps: &Steps<'a, T>, out: &[T]) -> &'a [u32] {
    let count = out.len() / runs.width.max(1);
    let (places, reach) = (steps.table.places(), steps.table.reach() + runs.reach);
    assert!(reach <= steps.data.len(), "an element at {reach} of {}", steps.data.len());
    &places[steps.first..steps.first + count]
}

crate::simd::per_isa! {
    fn runs_portable<T: Element>(runs: &Runs, places: &[u32], data: &[T], out: &mut [T]) {
        out.fill(T::zero());
        for run in runs.runs.iter() {
            for (step, place) in out.chunks_exact_mut(runs.width).zip(places) {
                let from = &data[run.place + *place as usize..][..run.len];
                for (to, from) in step[run.lane..run.lane + run.len].iter_mut().zip(from) {
                    *to = *from;
                }
            }
        }
    }
}

/// # Safety
/// `out` must have a panel for each place, and there must be elements at `data` for all lanes of the runs and all places.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn runs_avx512(runs: &Runs, places: &[u32], data: *const f32, out: &mut [f32]) {
    use std::arch::x86_64::*;
    /// A vector of each step from up to PARTS runs; more of them are added to what is there.
    ///
    /// # Safety
    /// As above; `out` is that of the vector.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn vector<const PARTS: usize>(
        parts: &[(*const f32, u16)],
        places: &[u32],
        out: *mut f32,
        width: usize,
        add: bool,
    ) {
        let parts: [(*const f32, u16); PARTS] = std::array::from_fn(|i| parts[i]);
        for (step, place) in places.iter().enumerate() {
            // SAFETY: the masks select elements of the runs, and lanes of this panel.
            unsafe {
                let to = out.add(step * width);
                let mut lanes = if add { _mm512_loadu_ps(to) } else { _mm512_setzero_ps() };
                for (from, mask) in parts {
                    lanes = _mm512_mask_loadu_ps(lanes, mask, from.wrapping_add(*place as usize));
                }
                _mm512_storeu_ps(to, lanes);
            }
        }
    }

    for first in (0..runs.width).step_by(LANES) {
        let mut parts = [(data, 0u16); LANES];
        let mut count = 0;
        for run in runs.runs.iter() {
            let (start, end) = (run.lane.max(first), (run.lane + run.len).min(first + LANES));
            if start < end {
                let mask = (u16::MAX >> (LANES - (end - start))) << (start - first);
                parts[count] = (data.wrapping_add(run.place + first).wrapping_sub(run.lane), mask);
                count += 1;
            }
        }
        let out = out.as_mut_ptr().wrapping_add(first);
        let width = runs.width;
        // SAFETY: as the caller says.
        unsafe {
            match count {
                0 | 1 => vector::<1>(&parts, places, out, width, false),
                2 => vector::<2>(&parts, places, out, width, false),
                3 => vector::<3>(&parts, places, out, width, false),
                4 => vector::<4>(&parts, places, out, width, false),
                _ => {
                    vector::<4>(&parts, places, out, width, false);
                    for parts in parts[4..count].chunks(4) {
                        match parts.len() {
                            4 => vector::<4>(parts, places, out, width, true),
                            _ => parts.chunks(1).for_each(|part| vector::<1>(part, places, out, width, true)),
                        }
                    }
                }
            }
        }
    }
}
