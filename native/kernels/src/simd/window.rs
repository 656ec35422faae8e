//! Packs the panels of an implicit convolution from the padded image.
//!
//! A panel has one lane for each of several neighbouring outputs. Each of its rows holds, for one channel and one tap of the
//! kernel, the input elements under that tap. Outputs of one image row have adjacent elements, a "run"; the runs are the same for
//! all rows of the panel, apart from the row's offset.

#[cfg(target_arch = "x86_64")]
use super::Isa;
use super::microkernel::{GemmElement, IndexedPanel};
use crate::par::List;

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
        {
            let data = panel.data.as_ptr();
            let avx512: [PartsFn; 4] = [parts_avx512::<1>, parts_avx512::<2>, parts_avx512::<3>, parts_avx512::<4>];
            let avx2: [PartsFn; 4] = [parts_avx2::<1>, parts_avx2::<2>, parts_avx2::<3>, parts_avx2::<4>];
            match Isa::current() {
                Isa::Avx512 if runs.width.is_multiple_of(16) => {
                    // SAFETY: the processor has AVX-512; `out` has room for each offset and `data` holds all elements, as checked.
                    return unsafe { runs_by_vector::<16>(runs, offsets, data, out, avx512) };
                }
                Isa::Avx2 | Isa::Avx512 if runs.width.is_multiple_of(8) => {
                    // SAFETY: as above, with AVX2.
                    return unsafe { runs_by_vector::<8>(runs, offsets, data, out, avx2) };
                }
                _ => {}
            }
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

/// The elements that one run has in a vector of a panel.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Part {
    /// Where lane 0 would be read at offset 0; may lie outside the data.
    from: *const f32,
    /// The lanes from `start` up to `end` belong to the run.
    start: usize,
    end: usize,
}

/// Writes one vector of each row of a panel of `width` lanes from up to PARTS parts, or fills its missing lanes if `add`.
#[cfg(target_arch = "x86_64")]
type PartsFn = unsafe fn(parts: &[Part], offsets: &[u32], out: *mut f32, width: usize, add: bool);

/// Packs vector by vector; `copy[n]` copies n + 1 parts.
///
/// # Safety
/// `out` must have room for a row for each offset, `data` must hold the elements of all lanes at all offsets, and the processor must
/// have the instructions of `copy`, whose vectors have LANES lanes.
#[cfg(target_arch = "x86_64")]
unsafe fn runs_by_vector<const LANES: usize>(
    runs: &Runs,
    offsets: &[u32],
    data: *const f32,
    out: &mut [f32],
    copy: [PartsFn; 4],
) {
    for first in (0..runs.width).step_by(LANES) {
        let mut parts = [Part { from: data, start: 0, end: 0 }; LANES];
        let mut count = 0;
        for run in runs.runs.iter() {
            let (start, end) = (run.lane.max(first), (run.lane + run.len).min(first + LANES));
            if start < end {
                let from = data.wrapping_add(run.first + first).wrapping_sub(run.lane);
                parts[count] = Part { from, start: start - first, end: end - first };
                count += 1;
            }
        }
        let out = out.as_mut_ptr().wrapping_add(first);
        for (i, parts) in parts[..count.max(1)].chunks(copy.len()).enumerate() {
            // SAFETY: as the caller guarantees; `parts` has as many elements as the function copies.
            unsafe { copy[parts.len() - 1](parts, offsets, out, runs.width, i > 0) };
        }
    }
}

/// # Safety
/// As for [`runs_by_vector`]; `parts` has at least PARTS elements, `out` starts at the vector.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn parts_avx512<const PARTS: usize>(parts: &[Part], offsets: &[u32], out: *mut f32, width: usize, add: bool) {
    use std::arch::x86_64::*;
    let parts: [(*const f32, u16); PARTS] = std::array::from_fn(|i| {
        let Part { from, start, end } = parts[i];
        (from, ((1u32 << end) - (1u32 << start)) as u16)
    });
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

/// # Safety
/// As for [`parts_avx512`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn parts_avx2<const PARTS: usize>(parts: &[Part], offsets: &[u32], out: *mut f32, width: usize, add: bool) {
    use std::arch::x86_64::*;
    let index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let parts: [(*const f32, __m256i); PARTS] = std::array::from_fn(|i| {
        let Part { from, start, end } = parts[i];
        let from_start = _mm256_cmpgt_epi32(index, _mm256_set1_epi32(start as i32 - 1));
        (from, _mm256_and_si256(from_start, _mm256_cmpgt_epi32(_mm256_set1_epi32(end as i32), index)))
    });
    for (row, offset) in offsets.iter().enumerate() {
        // SAFETY: the masks select elements of the runs, and lanes of this panel.
        unsafe {
            let to = out.add(row * width);
            let mut lanes = if add { _mm256_loadu_ps(to) } else { _mm256_setzero_ps() };
            for (from, mask) in parts {
                // Other lanes are zero in one of the two.
                lanes = _mm256_or_ps(lanes, _mm256_maskload_ps(from.wrapping_add(*offset as usize), mask));
            }
            _mm256_storeu_ps(to, lanes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::microkernel::OffsetTable;

    #[test]
    fn panels_hold_the_elements_of_their_runs() {
        let data: Vec<f32> = (0..400).map(|i| i as f32).collect();
        let offsets = [0, 7, 3, 100, 65];
        let table = OffsetTable::new(offsets);
        for (width, lens) in
            [(32, &[20, 9][..]), (16, &[1; 16]), (24, &[3, 1, 2, 2, 5, 4, 1]), (14, &[6, 8]), (16, &[])]
        {
            let (mut runs, mut expected, mut lane) = (Runs::new(width), vec![0.0; offsets.len() * width], 0);
            for (i, &len) in lens.iter().enumerate() {
                let first = 11 * i + 5;
                runs.push(lane, len, first);
                for (row, offset) in offsets.iter().enumerate() {
                    let from = &data[offset + first..][..len];
                    expected[row * width + lane..][..len].copy_from_slice(from);
                }
                lane += len;
            }
            let mut panel = vec![f32::NAN; expected.len()];
            f32::pack_runs(&runs, IndexedPanel { data: &data, table: &table, first: 0 }, &mut panel);
            assert_eq!(panel, expected, "{width} lanes in runs of {lens:?}");
        }
    }
}
