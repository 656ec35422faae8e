//! Packs panels of B for the implicit GEMM of a convolution from the padded image.
//!
//! A panel is (channels x taps, outputs): each lane is an output, and each row holds the input elements that one tap reads in one
//! channel. Neighboring outputs of an image row read contiguous elements, which form a run; the runs are the same for all rows of
//! the panel, apart from the offset of the row.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::Isa;
use super::microkernel::{GemmElement, IndexedPanel};
use crate::par::List;

/// Adjacent lanes with contiguous elements.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// First lane.
    lane: usize,
    len: usize,
    /// Offset of the first element, relative to the offset of a panel row.
    offset: usize,
}

/// The runs of a panel. Lanes without a run are zero.
#[derive(Debug)]
pub struct Runs {
    /// Lanes of the panel.
    width: usize,
    runs: List<Run>,
    /// End of the run with the largest offsets.
    end: usize,
}

impl Runs {
    /// No runs yet, in panels of `width` lanes.
    pub fn new(width: usize) -> Runs {
        Runs { width, runs: List::default(), end: 0 }
    }

    /// Adds a run of `len` lanes starting at `lane`, whose elements start at `offset`.
    ///
    /// # Panics
    /// Panics if the lanes exceed the panel.
    pub fn push(&mut self, lane: usize, len: usize, offset: usize) {
        assert!(lane + len <= self.width, "lanes {lane}..{} of a panel of {}", lane + len, self.width);
        self.end = self.end.max(offset + len);
        self.runs.push(Run { lane, len, offset });
    }
}

/// An element type for which panels can be packed.
pub trait WindowElement: GemmElement {
    /// Packs as many rows of `panel` as `out` has room for: each lane gets the element of `data` at the offset of its row plus the
    /// offset of its run, or zero if it has no run.
    ///
    /// # Panics
    /// Panics if the table has fewer rows than `out` has room for, or an element is outside `data`.
    fn pack_runs(runs: &Runs, panel: IndexedPanel<'_, Self>, out: &mut [Self]);
}

impl WindowElement for f32 {
    fn pack_runs(runs: &Runs, panel: IndexedPanel<'_, f32>, out: &mut [f32]) {
        let offsets = check_runs(runs, &panel, out);
        #[cfg(target_arch = "x86_64")]
        {
            let data = panel.data.as_ptr();
            let avx512: [CopyRunsFn; 4] =
                [copy_runs_avx512::<1>, copy_runs_avx512::<2>, copy_runs_avx512::<3>, copy_runs_avx512::<4>];
            let avx2: [CopyRunsFn; 4] =
                [copy_runs_avx2::<1>, copy_runs_avx2::<2>, copy_runs_avx2::<3>, copy_runs_avx2::<4>];
            match Isa::current() {
                Isa::Avx512 if runs.width.is_multiple_of(16) => {
                    // SAFETY: the processor has AVX-512; `out` has room for each offset and `data` holds all elements, as checked.
                    return unsafe { pack_by_vector::<16>(runs, offsets, data, out, avx512) };
                }
                Isa::Avx2 | Isa::Avx512 if runs.width.is_multiple_of(8) => {
                    // SAFETY: as above, with AVX2.
                    return unsafe { pack_by_vector::<8>(runs, offsets, data, out, avx2) };
                }
                _ => {}
            }
        }
        #[cfg(target_arch = "aarch64")]
        if Isa::current() == Isa::Neon {
            // SAFETY: the processor has NEON; `out` has room for each offset and `data` holds all elements, as checked.
            return unsafe { pack_neon(runs, offsets, panel.data.as_ptr(), out) };
        }
        pack_portable(runs, offsets, panel.data, out);
    }
}

impl WindowElement for f64 {
    fn pack_runs(runs: &Runs, panel: IndexedPanel<'_, f64>, out: &mut [f64]) {
        pack_portable(runs, check_runs(runs, &panel, out), panel.data, out);
    }
}

/// Checks the bounds and returns the offsets of the rows that `out` has room for.
fn check_runs<'a, T>(runs: &Runs, panel: &IndexedPanel<'a, T>, out: &[T]) -> &'a [u32] {
    let num_rows = out.len() / runs.width.max(1);
    let (offsets, end) = (panel.table.offsets(), panel.table.max_offset() + runs.end);
    assert!(end <= panel.data.len(), "a panel reads up to element {end} of {}", panel.data.len());
    &offsets[panel.first..panel.first + num_rows]
}

crate::simd::per_isa! {
    fn pack_portable<T: GemmElement>(runs: &Runs, offsets: &[u32], data: &[T], out: &mut [T]) {
        out.fill(T::zero());
        for run in runs.runs.iter() {
            for (row, offset) in out.chunks_exact_mut(runs.width).zip(offsets) {
                let from = &data[run.offset + *offset as usize..][..run.len];
                for (to, from) in row[run.lane..run.lane + run.len].iter_mut().zip(from) {
                    *to = *from;
                }
            }
        }
    }
}

/// The lanes of one run within a vector of a panel row.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct VectorRun {
    /// Address that lane 0 of the vector would read in a row of offset 0; may lie outside the data.
    from: *const f32,
    /// The run covers the lanes `start..end`.
    start: usize,
    end: usize,
}

/// Writes one vector of each row of a panel of `width` lanes from its first N runs. Lanes outside these runs become zero, or with
/// `add` keep their values.
#[cfg(target_arch = "x86_64")]
type CopyRunsFn = unsafe fn(runs: &[VectorRun], offsets: &[u32], out: *mut f32, width: usize, add: bool);

/// Packs one column of vectors after the other; `copy[n - 1]` copies n runs.
///
/// # Safety
/// `out` must have room for a row for each offset, `data` must hold the elements of all lanes at all offsets, and the processor
/// must have the instructions of `copy`, whose vectors have LANES lanes.
#[cfg(target_arch = "x86_64")]
unsafe fn pack_by_vector<const LANES: usize>(
    runs: &Runs,
    offsets: &[u32],
    data: *const f32,
    out: &mut [f32],
    copy: [CopyRunsFn; 4],
) {
    for first in (0..runs.width).step_by(LANES) {
        let mut vector_runs = [VectorRun { from: data, start: 0, end: 0 }; LANES];
        let mut count = 0;
        for run in runs.runs.iter() {
            let (start, end) = (run.lane.max(first), (run.lane + run.len).min(first + LANES));
            if start < end {
                let from = data.wrapping_add(run.offset + first).wrapping_sub(run.lane);
                vector_runs[count] = VectorRun { from, start: start - first, end: end - first };
                count += 1;
            }
        }
        let out = out.as_mut_ptr().wrapping_add(first);
        for (i, group) in vector_runs[..count.max(1)].chunks(copy.len()).enumerate() {
            // SAFETY: as the caller guarantees; `group` has as many runs as the function copies.
            unsafe { copy[group.len() - 1](group, offsets, out, runs.width, i > 0) };
        }
    }
}

/// # Safety
/// As for [`pack_by_vector`]; `runs` has at least N elements, `out` starts at the vector.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn copy_runs_avx512<const N: usize>(
    runs: &[VectorRun],
    offsets: &[u32],
    out: *mut f32,
    width: usize,
    add: bool,
) {
    use std::arch::x86_64::*;
    let runs: [(*const f32, u16); N] = std::array::from_fn(|i| {
        let VectorRun { from, start, end } = runs[i];
        (from, ((1u32 << end) - (1u32 << start)) as u16)
    });
    for (row, offset) in offsets.iter().enumerate() {
        // SAFETY: the masks select elements of the runs, and lanes of this panel.
        unsafe {
            let to = out.add(row * width);
            let mut lanes = if add { _mm512_loadu_ps(to) } else { _mm512_setzero_ps() };
            for (from, mask) in runs {
                lanes = _mm512_mask_loadu_ps(lanes, mask, from.wrapping_add(*offset as usize));
            }
            _mm512_storeu_ps(to, lanes);
        }
    }
}

/// # Safety
/// As for [`copy_runs_avx512`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn copy_runs_avx2<const N: usize>(runs: &[VectorRun], offsets: &[u32], out: *mut f32, width: usize, add: bool) {
    use std::arch::x86_64::*;
    let index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let runs: [(*const f32, __m256i); N] = std::array::from_fn(|i| {
        let VectorRun { from, start, end } = runs[i];
        let from_start = _mm256_cmpgt_epi32(index, _mm256_set1_epi32(start as i32 - 1));
        (from, _mm256_and_si256(from_start, _mm256_cmpgt_epi32(_mm256_set1_epi32(end as i32), index)))
    });
    for (row, offset) in offsets.iter().enumerate() {
        // SAFETY: the masks select elements of the runs, and lanes of this panel.
        unsafe {
            let to = out.add(row * width);
            let mut lanes = if add { _mm256_loadu_ps(to) } else { _mm256_setzero_ps() };
            for (from, mask) in runs {
                // Each lane is zero in at least one of the two.
                lanes = _mm256_or_ps(lanes, _mm256_maskload_ps(from.wrapping_add(*offset as usize), mask));
            }
            _mm256_storeu_ps(to, lanes);
        }
    }
}

/// Packs one run after the other. NEON has no masked loads or stores, so the last vector of a run overlaps the previous one.
///
/// # Safety
/// As for [`pack_by_vector`].
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
unsafe fn pack_neon(runs: &Runs, offsets: &[u32], data: *const f32, out: &mut [f32]) {
    let width = runs.width;
    if runs.runs.iter().map(|run| run.len).sum::<usize>() < width {
        out.fill(0.0);
    }
    for run in runs.runs.iter() {
        // SAFETY: as the caller guarantees; the run lies within a row of the panel.
        unsafe {
            let (from, to) = (data.add(run.offset), out.as_mut_ptr().add(run.lane));
            match run.len {
                0 => {}
                1 => copy_singles::<1>(from, offsets, to, width),
                2 => copy_singles::<2>(from, offsets, to, width),
                3 => copy_singles::<3>(from, offsets, to, width),
                4 => copy_vectors::<1>(from, offsets, to, width, 4),
                5..=8 => copy_vectors::<2>(from, offsets, to, width, run.len),
                9..=12 => copy_vectors::<3>(from, offsets, to, width, run.len),
                _ => {
                    for first in (0..run.len - 12).step_by(12) {
                        copy_vectors::<3>(from.add(first), offsets, to.add(first), width, 12);
                    }
                    copy_vectors::<3>(from.add(run.len - 12), offsets, to.add(run.len - 12), width, 12);
                }
            }
        }
    }
}

/// Copies LEN elements from each offset to a row of `width`.
///
/// # Safety
/// Each offset and row has LEN elements.
#[cfg(target_arch = "aarch64")]
#[inline]
#[target_feature(enable = "neon")]
unsafe fn copy_singles<const LEN: usize>(from: *const f32, offsets: &[u32], to: *mut f32, width: usize) {
    for (row, offset) in offsets.iter().enumerate() {
        for i in 0..LEN {
            // SAFETY: as the caller guarantees.
            unsafe { *to.add(row * width + i) = *from.add(*offset as usize + i) };
        }
    }
}

/// Copies `len` elements from each offset to a row of `width`, in N vectors.
///
/// # Safety
/// Each offset and row has `len` elements, at least four and more than `4 * (N - 1)`, at most `4 * N`.
#[cfg(target_arch = "aarch64")]
#[inline]
#[target_feature(enable = "neon")]
unsafe fn copy_vectors<const N: usize>(from: *const f32, offsets: &[u32], to: *mut f32, width: usize, len: usize) {
    use std::arch::aarch64::*;
    for (row, offset) in offsets.iter().enumerate() {
        for v in 0..N {
            let i = (4 * v).min(len - 4);
            // SAFETY: as the caller guarantees.
            unsafe { vst1q_f32(to.add(row * width + i), vld1q_f32(from.add(*offset as usize + i))) };
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
        for (width, lens) in [
            (32, &[20, 9][..]),
            (16, &[1; 16]),
            (24, &[3, 1, 2, 2, 5, 4, 1]),
            (14, &[6, 8]),
            (16, &[]),
            (60, &[12, 35, 13]),
        ] {
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
