//! Packing the B panels of an implicit convolution straight from the image.
//!
//! A panel has `width` lanes, one for each of as many neighbouring outputs. A row of a panel holds, for one channel and
//! one tap of the kernel, the input elements under that tap; where the tap lies in the padding, zero. Where these
//! elements are in a plane of the image does not depend on the channel: a [`WindowPlan`] is made once for a panel and
//! used for all channels, and for all images of a batch.

use super::Isa;
use super::microkernel::{Element, Steps};
use std::ops::Range;

/// Neighbouring lanes whose elements lie at equal distances in the plane.
#[derive(Clone, Copy, Debug)]
struct Run {
    lane: usize,
    len: usize,
    /// Index of the first element, from the start of the plane.
    source: usize,
}

/// One vector load: lane `i` takes element `offset + i * stride` of the plane if the mask has its bit.
///
/// With stride 2 the mask has the bits of elements instead: two loads are made and every second element kept.
#[derive(Clone, Copy, Debug)]
struct Load {
    offset: isize,
    mask: u32,
}

/// Lanes of an AVX-512 vector of `f32`.
const LANES: usize = 16;

/// Where the elements of a panel come from, for every tap.
#[derive(Debug, Default)]
pub struct WindowPlan {
    width: usize,
    stride: usize,
    plane: usize,
    extent: usize,
    runs: Vec<Run>,
    /// The end of each tap in `runs`.
    tap_ends: Vec<usize>,
    loads: Vec<Load>,
    /// The end in `loads` for each tap and vector.
    vector_ends: Vec<usize>,
}

impl WindowPlan {
    /// Starts anew, for panels of `width` lanes; neighbouring lanes of a run are `stride` elements apart. Planes of
    /// neighbouring channels are `plane` elements apart, and runs may reach up to `extent` elements from the start of
    /// their plane (more than `plane` to reach into other images).
    pub fn reset(&mut self, width: usize, stride: usize, plane: usize, extent: usize) {
        (self.width, self.stride, self.plane, self.extent) = (width, stride.max(1), plane, extent);
        self.runs.clear();
        self.tap_ends.clear();
        self.loads.clear();
        self.vector_ends.clear();
    }

    /// Adds to the tap in preparation `len` lanes from `lane` on, the first of which is element `source` of a plane.
    ///
    /// # Panics
    /// When they leave the panel or the extent.
    pub fn push_run(&mut self, lane: usize, len: usize, source: usize) {
        if len == 0 {
            return;
        }
        assert!(lane + len <= self.width, "lanes {lane}..{} of a panel of {}", lane + len, self.width);
        let last = source + (len - 1) * self.stride;
        assert!(last < self.extent, "element {last} of {}", self.extent);
        self.runs.push(Run { lane, len, source });
    }

    /// Completes a tap: lanes without a run are zero.
    pub fn end_tap(&mut self) {
        let first = self.tap_ends.last().copied().unwrap_or(0);
        self.tap_ends.push(self.runs.len());
        for vector in 0..self.width.div_ceil(LANES) {
            let lanes = vector * LANES..(vector + 1) * LANES;
            for run in &self.runs[first..] {
                let (start, end) = (run.lane.max(lanes.start), (run.lane + run.len).min(lanes.end));
                if start < end {
                    let bits = (start - lanes.start..end - lanes.start).map(|lane| 1u32 << (lane * self.load_step()));
                    let offset =
                        run.source as isize + (lanes.start as isize - run.lane as isize) * self.stride as isize;
                    self.loads.push(Load { offset, mask: bits.sum() });
                }
            }
            self.vector_ends.push(self.loads.len());
        }
    }

    fn load_step(&self) -> usize {
        if self.stride == 2 { 2 } else { 1 }
    }

    fn taps(&self) -> usize {
        self.tap_ends.len()
    }
}

/// Neighbouring lanes of a panel, and the places of their elements: the same for all steps, up to the place of the step.
#[derive(Debug, Default)]
pub struct Runs {
    width: usize,
    runs: Vec<Run>,
    /// One more than the largest place.
    reach: usize,
}

impl Runs {
    /// Starts anew, for panels of `width` lanes.
    pub fn reset(&mut self, width: usize) {
        (self.width, self.reach) = (width, 0);
        self.runs.clear();
    }

    /// Adds `len` lanes from `lane` on, whose elements are adjacent from `place` on.
    ///
    /// # Panics
    /// When they leave the panel.
    pub fn push(&mut self, lane: usize, len: usize, place: usize) {
        assert!(lane + len <= self.width, "lanes {lane}..{} of a panel of {}", lane + len, self.width);
        self.reach = self.reach.max(place + len);
        self.runs.push(Run { lane, len, source: place });
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

    /// Writes `rows` of a panel to `out`, `plan.width` elements each. Row `r` is tap `r % taps` of channel `r / taps`;
    /// the plane of channel c starts at `image[c * plane]`.
    ///
    /// # Panics
    /// When the image has no such channel or `out` is too short.
    fn pack(plan: &WindowPlan, image: &[Self], rows: Range<usize>, out: &mut [Self]);
}

fn check<T>(plan: &WindowPlan, image: &[T], rows: &Range<usize>, out: &[T]) -> bool {
    if rows.is_empty() {
        return false;
    }
    assert!(plan.taps() > 0, "a plan without taps");
    assert!((rows.end - 1) / plan.taps() * plan.plane + plan.extent <= image.len(), "rows {rows:?} exceed the image");
    assert!(rows.len() * plan.width <= out.len(), "{} elements for {rows:?} of a panel", out.len());
    true
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

    fn pack(plan: &WindowPlan, image: &[f32], rows: Range<usize>, out: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if check(plan, image, &rows, out)
            && plan.stride <= 2
            && plan.width.is_multiple_of(LANES)
            && Isa::current() == Isa::Avx512
        {
            // SAFETY: the processor has AVX-512F; the loads of a plan stay within its extent where their masks have a bit
            // (`push_run`), the image reaches that far for each channel and `out` the room (`check`).
            return unsafe {
                if plan.stride == 1 {
                    pack_avx512::<1>(plan, image, rows, out)
                } else {
                    pack_avx512::<2>(plan, image, rows, out)
                }
            };
        }
        pack_portable(plan, image, rows, out);
    }
}

impl WindowElement for f64 {
    fn pack_runs(runs: &Runs, steps: Steps<'_, f64>, out: &mut [f64]) {
        runs_portable(runs, check_runs(runs, &steps, out), steps.data, out);
    }

    fn pack(plan: &WindowPlan, image: &[f64], rows: Range<usize>, out: &mut [f64]) {
        pack_portable(plan, image, rows, out);
    }
}

fn pack_portable<T: Element>(plan: &WindowPlan, image: &[T], rows: Range<usize>, out: &mut [T]) {
    if !check(plan, image, &rows, out) {
        return;
    }
    let taps = plan.taps();
    for (row, out) in rows.zip(out.chunks_exact_mut(plan.width)) {
        let (channel, tap) = (row / taps, row % taps);
        let plane = &image[channel * plan.plane..][..plan.extent];
        out.fill(T::zero());
        let first = if tap == 0 { 0 } else { plan.tap_ends[tap - 1] };
        for run in &plan.runs[first..plan.tap_ends[tap]] {
            let to = &mut out[run.lane..run.lane + run.len];
            if plan.stride == 1 {
                to.copy_from_slice(&plane[run.source..run.source + run.len]);
            } else {
                to.iter_mut().zip(plane[run.source..].iter().step_by(plan.stride)).for_each(|(to, x)| *to = *x);
            }
        }
    }
}

/// # Safety
/// As said in `WindowElement::pack` for `f32`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn pack_avx512<const STRIDE: usize>(plan: &WindowPlan, image: &[f32], rows: Range<usize>, out: &mut [f32]) {
    use std::arch::x86_64::*;
    let (taps, vectors) = (plan.taps(), plan.width / LANES);
    let even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    let mut to = out.as_mut_ptr();
    let (mut channel, mut tap) = (rows.start / taps, rows.start % taps);
    for _ in rows {
        let plane = image.as_ptr().wrapping_add(channel * plan.plane);
        for vector in tap * vectors..(tap + 1) * vectors {
            let first = if vector == 0 { 0 } else { plan.vector_ends[vector - 1] };
            let mut lanes = _mm512_setzero_ps();
            for load in &plan.loads[first..plan.vector_ends[vector]] {
                let from = plane.wrapping_offset(load.offset);
                if STRIDE == 1 {
                    // SAFETY: the mask selects elements within the extent only.
                    lanes = unsafe { _mm512_mask_loadu_ps(lanes, load.mask as u16, from) };
                } else {
                    // SAFETY: as above.
                    let (low, high) = unsafe {
                        (
                            _mm512_maskz_loadu_ps(load.mask as u16, from),
                            _mm512_maskz_loadu_ps((load.mask >> LANES) as u16, from.wrapping_add(LANES)),
                        )
                    };
                    // Lanes without a source are zero in `low` and `high`, whose bits may be joined.
                    let some = _mm512_castps_si512(_mm512_permutex2var_ps(low, even, high));
                    lanes = _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(lanes), some));
                }
            }
            // SAFETY: `out` has `width` elements for each row.
            unsafe {
                _mm512_storeu_ps(to, lanes);
                to = to.add(LANES);
            }
        }
        tap += 1;
        if tap == taps {
            (channel, tap) = (channel + 1, 0);
        }
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
        for run in &runs.runs {
            for (step, place) in out.chunks_exact_mut(runs.width).zip(places) {
                let from = &data[run.source + *place as usize..][..run.len];
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
        for run in &runs.runs {
            let (start, end) = (run.lane.max(first), (run.lane + run.len).min(first + LANES));
            if start < end {
                let mask = (u16::MAX >> (LANES - (end - start))) << (start - first);
                parts[count] = (data.wrapping_add(run.source + first).wrapping_sub(run.lane), mask);
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
