//! Packs the panels of an implicit convolution from the padded image.
//!
//! A panel has one lane for each of several neighbouring outputs. Each of its rows holds, for one channel and one tap of the
//! kernel, the input elements under that tap. Outputs of one image row have adjacent elements, a "run"; the runs are the same for
//! all rows of the panel, apart from the row's offset.

#[cfg(target_arch = "x86_64")]
use super::Isa;
use super::microkernel::{GemmElement, IndexedPanel};
use crate::par::List;

/// Lanes of an AVX-512 vector of `f32`.
#[cfg(target_arch = "x86_64")]
const LANES: usize = 16;

/// Adjacent lanes whose elements are adjacent too.
#[derive(Clone, Copy, Debug)]
struct Run {
    lane: usize,
    len: usize,
    /// Offset of the first element.
    first: usize,
}

/// Runs that cover the lanes of a panel: offsets are relative to the offset of a row of the panel.
#[derive(Debug)]
pub struct Runs {
    width: usize,
    runs: List<Run>,
    /// One more than the largest offset.
    reach: usize,
}

impl Runs {
    /// No runs yet, in panels of `width` lanes.
    pub fn new(width: usize) -> Runs {
        Runs { width, runs: List::default(), reach: 0 }
    }

    /// Adds `len` lanes from `lane` on, whose elements are adjacent from offset `first` on.
    ///
    /// # Panics
    /// When the lanes exceed the panel.
    pub fn push(&mut self, lane: usize, len: usize, first: usize) {
        assert!(lane + len <= self.width, "lanes {lane}..{} of a panel of {}", lane + len, self.width);
        self.reach = self.reach.max(first + len);
        self.runs.push(Run { lane, len, first });
    }
}

/// An element type whose panels can be packed.
pub trait WindowElement: GemmElement {
    /// Writes as many rows of `panel` as `out` has room for, in the order of `runs`: an element is that of `data` at the offset
    /// of its row plus that of its lane, or zero if the lane is in no run.
    ///
    /// # Panics
    /// When the table has fewer rows than `out` has room for, or an element is outside of `data`.
    fn pack_runs(runs: &Runs, panel: IndexedPanel<'_, Self>, out: &mut [Self]);
}

impl WindowElement for f32 {
    fn pack_runs(runs: &Runs, panel: IndexedPanel<'_, f32>, out: &mut [f32]) {
        let offsets = check_runs(runs, &panel, out);
        #[cfg(target_arch = "x86_64")]
        if runs.width.is_multiple_of(LANES) && Isa::current() == Isa::Avx512 {
            // SAFETY: the processor has AVX-512F; `out` has room for each offset and `data` holds all elements, as checked.
            return unsafe { runs_avx512(runs, offsets, panel.data.as_ptr(), out) };
        }
        runs_portable(runs, offsets, panel.data, out);
    }
}

impl WindowElement for f64 {
    fn pack_runs(runs: &Runs, panel: IndexedPanel<'_, f64>, out: &mut [f64]) {
        runs_portable(runs, check_runs(runs, &panel, out), panel.data, out);
    }
}

/// The offsets of the rows that `out` has room for.
fn check_runs<'a, T>(runs: &Runs, panel: &IndexedPanel<'a, T>, out: &[T]) -> &'a [u32] {
    let count = out.len() / runs.width.max(1);
    let (offsets, reach) = (panel.table.offsets(), panel.table.reach() + runs.reach);
    assert!(reach <= panel.data.len(), "an element at {reach} of {}", panel.data.len());
    &offsets[panel.first..panel.first + count]
}

crate::simd::per_isa! {
    fn runs_portable<T: GemmElement>(runs: &Runs, offsets: &[u32], data: &[T], out: &mut [T]) {
        out.fill(T::zero());
        for run in runs.runs.iter() {
            for (row, offset) in out.chunks_exact_mut(runs.width).zip(offsets) {
                let from = &data[run.first + *offset as usize..][..run.len];
                for (to, from) in row[run.lane..run.lane + run.len].iter_mut().zip(from) {
                    *to = *from;
                }
            }
        }
    }
}

/// # Safety
/// `out` must have room for a row for each offset, and `data` must hold the elements of all lanes at all offsets.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn runs_avx512(runs: &Runs, offsets: &[u32], data: *const f32, out: &mut [f32]) {
    use std::arch::x86_64::*;
    /// Writes one vector of each row from up to PARTS runs, or adds it to what is there.
    ///
    /// # Safety
    /// As above; `out` starts at the vector.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn vector<const PARTS: usize>(
        parts: &[(*const f32, u16)],
        offsets: &[u32],
        out: *mut f32,
        width: usize,
        add: bool,
    ) {
        let parts: [(*const f32, u16); PARTS] = std::array::from_fn(|i| parts[i]);
        for (row, offset) in offsets.iter().enumerate() {
            // SAFETY: the masks select elements of the runs, and lanes of this panel.
            unsafe {
                let to = out.add(row * width);
                let mut lanes = if add { _mm512_loadu_ps(to) } else { _mm512_setzero_ps() };
                for (from, mask) in parts {
                    lanes = _mm512_mask_loadu_ps(lanes, mask, from.wrapping_add(*offset as usize));
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
                parts[count] = (data.wrapping_add(run.first + first).wrapping_sub(run.lane), mask);
                count += 1;
            }
        }
        let out = out.as_mut_ptr().wrapping_add(first);
        let width = runs.width;
        // SAFETY: as the caller guarantees.
        unsafe {
            match count {
                0 | 1 => vector::<1>(&parts, offsets, out, width, false),
                2 => vector::<2>(&parts, offsets, out, width, false),
                3 => vector::<3>(&parts, offsets, out, width, false),
                4 => vector::<4>(&parts, offsets, out, width, false),
                _ => {
                    vector::<4>(&parts, offsets, out, width, false);
                    for parts in parts[4..count].chunks(4) {
                        match parts.len() {
                            4 => vector::<4>(parts, offsets, out, width, true),
                            _ => parts.chunks(1).for_each(|part| vector::<1>(part, offsets, out, width, true)),
                        }
                    }
                }
            }
        }
    }
}
