//! Convolution of a plane with 3 x 3 or 5 x 5 adjacent taps, read in place: the core of depthwise convolution.
//!
//! Columns of blocks, each one vector wide, are computed from top to bottom. Each source row is read once and added to all
//! outputs whose taps reach it; masks exclude elements outside the plane.

#[cfg(target_arch = "x86_64")]
use super::Isa;

/// Geometry of the source and the outputs: tap (i, j) of the output at (y, x) reads the source at (y * step + i + row, x * step +
/// j + column), which counts as zero outside the plane.
#[derive(Clone, Copy, Debug)]
pub struct PlaneConv {
    /// Height and width of the source.
    pub source: [usize; 2],
    /// Height and width of the output.
    pub grid: [usize; 2],
    /// Source row and column of the first tap of the first output.
    pub origin: [isize; 2],
    /// Height and width of the kernel, 3 or 5.
    pub kernel: usize,
    /// Distance in the source between neighbouring outputs, 1 or 2.
    pub step: usize,
}

impl PlaneConv {
    /// True if there are kernels for this size and step.
    pub fn is_supported(&self) -> bool {
        matches!((self.kernel, self.step), (3 | 5, 1 | 2))
    }

    /// # Panics
    /// When a slice does not have the length of its plane or of the taps, or no kernel supports the size or the step.
    fn check(&self, taps: usize, source: usize, grid: usize) {
        let planes = [self.source, self.grid].map(|[height, width]| height * width);
        assert_eq!([source, grid], planes, "elements of the planes of {self:?}");
        assert_eq!(taps, self.kernel * self.kernel, "taps of {self:?}");
        assert!(self.is_supported(), "no kernel supports {self:?}");
    }
}

/// Applied to the outputs: value * scale + bias, clamped to low..=high, with NaN kept.
#[derive(Clone, Copy, Debug)]
pub struct Finish<T> {
    /// Multiplier.
    pub scale: T,
    /// Added after scaling.
    pub bias: T,
    /// Lower bound.
    pub low: T,
    /// Upper bound.
    pub high: T,
}

/// The kernels of an element type.
pub struct PlaneConvKernels<T> {
    /// `convolve(conv, weights, source, finish, out)` computes the outputs of a plane.
    pub convolve: fn(&PlaneConv, &[T], &[T], Option<Finish<T>>, &mut [T]),
    /// `correlate(conv, source, grad, sums)` adds to the sum of each tap its source elements times the gradients of their
    /// outputs.
    pub correlate: fn(&PlaneConv, &[T], &[T], &mut [T]),
}

/// An element type that may have such kernels.
pub trait PlaneConvElement: Sized + 'static {
    /// The kernels, or `None` if the processor lacks the instructions.
    fn plane_conv_kernels() -> Option<&'static PlaneConvKernels<Self>>;
}

impl PlaneConvElement for f64 {
    fn plane_conv_kernels() -> Option<&'static PlaneConvKernels<f64>> {
        None
    }
}

impl PlaneConvElement for f32 {
    fn plane_conv_kernels() -> Option<&'static PlaneConvKernels<f32>> {
        #[cfg(target_arch = "x86_64")]
        if Isa::current() == Isa::Avx512 {
            return Some(&PlaneConvKernels { convolve: avx512::convolve, correlate: avx512::correlate });
        }
        None
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{Finish, PlaneConv};
    use std::arch::x86_64::*;

    const LANES: usize = 16;

    pub(super) fn convolve(
        conv: &PlaneConv,
        weights: &[f32],
        source: &[f32],
        finish: Option<Finish<f32>>,
        out: &mut [f32],
    ) {
        conv.check(weights.len(), source.len(), out.len());
        // SAFETY: these kernels are returned only where the processor has AVX-512F.
        unsafe {
            match finish {
                None => convolve_sized(conv, weights, source, out, |sum| sum),
                Some(finish) => convolve_sized(conv, weights, source, out, finished(finish)),
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn convolve_sized(
        conv: &PlaneConv,
        weights: &[f32],
        source: &[f32],
        out: &mut [f32],
        finish: impl Fn(__m512) -> __m512,
    ) {
        match (conv.kernel, conv.step) {
            (3, 1) => convolve_plane::<3, 1, 3>(conv, weights, source, out, finish),
            (3, _) => convolve_plane::<3, 2, 2>(conv, weights, source, out, finish),
            (_, 1) => convolve_plane::<5, 1, 5>(conv, weights, source, out, finish),
            (..) => convolve_plane::<5, 2, 3>(conv, weights, source, out, finish),
        }
    }

    /// The vector form of `finish`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn finished(finish: Finish<f32>) -> impl Fn(__m512) -> __m512 {
        let Finish { scale, bias, low, high } = finish;
        let [scale, bias, low, high] = [scale, bias, low, high].map(|value| _mm512_set1_ps(value));
        // If one operand is NaN, the instruction returns the second one.
        move |sum| _mm512_min_ps(high, _mm512_max_ps(low, _mm512_add_ps(_mm512_mul_ps(sum, scale), bias)))
    }

    pub(super) fn correlate(conv: &PlaneConv, source: &[f32], grad: &[f32], sums: &mut [f32]) {
        conv.check(sums.len(), source.len(), grad.len());
        // SAFETY: these kernels are returned only where the processor has AVX-512F.
        unsafe {
            match (conv.kernel, conv.step) {
                (3, 1) => correlate_plane::<3, 1>(conv, source, grad, sums),
                (3, _) => correlate_plane::<3, 2>(conv, source, grad, sums),
                (_, 1) => correlate_plane::<5, 1>(conv, source, grad, sums),
                (..) => correlate_plane::<5, 2>(conv, source, grad, sums),
            }
        }
    }

    /// Mask of the lanes that lie within a row of `width` elements, for a vector that starts at `first`.
    fn inside(first: isize, width: usize) -> __mmask16 {
        let mask = |lanes: isize| ((1u32 << lanes.clamp(0, LANES as isize)) - 1) as __mmask16;
        mask(width as isize - first) & !mask(-first)
    }

    /// A column of blocks of outputs. What its K adjacent taps read in a source row are K vectors.
    struct Column<'a, const K: usize, const STEP: usize> {
        source: &'a [f32],
        height: usize,
        width: usize,
        /// Column in the source of the first tap of the first output.
        first: isize,
        /// Source row of the first tap of the first row of outputs.
        row: isize,
        /// Masks of the vectors of a source row: one per tap for a step of 1, otherwise two per pair of taps.
        masks: [[__mmask16; 2]; K],
    }

    impl<'a, const K: usize, const STEP: usize> Column<'a, K, STEP> {
        /// The column of the outputs from `first` on.
        fn new(conv: &PlaneConv, source: &'a [f32], first: usize) -> Self {
            let [height, width] = conv.source;
            let start = (first * STEP) as isize + conv.origin[1];
            let masks = std::array::from_fn(|i| [0, LANES].map(|next| inside(start + (i + next) as isize, width)));
            Column { source, height, width, first: start, row: conv.origin[0], masks }
        }

        /// Loads what the taps read in a source row, relative to the row of the first tap.
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn taps(&self, row: usize) -> [__m512; K] {
            let mut taps = [_mm512_setzero_ps(); K];
            let row = self.row + row as isize;
            if row < 0 || row >= self.height as isize {
                return taps;
            }
            let from = self.source.as_ptr().wrapping_offset(row * self.width as isize + self.first);
            // SAFETY: the masks exclude elements outside the row.
            let load = |i: usize, next: usize| unsafe {
                _mm512_maskz_loadu_ps(self.masks[i][next], from.wrapping_add(i + next * LANES))
            };
            if STEP == 1 {
                for (i, tap) in taps.iter_mut().enumerate() {
                    *tap = load(i, 0);
                }
                return taps;
            }
            let even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
            let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
            for i in (0..K).step_by(2) {
                let (near, far) = (load(i, 0), load(i, 1));
                taps[i] = _mm512_permutex2var_ps(near, even, far);
                if i + 1 < K {
                    taps[i + 1] = _mm512_permutex2var_ps(near, odd, far);
                }
            }
            taps
        }
    }

    /// Convolves with `K` x `K` taps. `SUMS` is K / STEP, rounded up: the rows of outputs whose taps reach a source row.
    #[target_feature(enable = "avx512f")]
    fn convolve_plane<const K: usize, const STEP: usize, const SUMS: usize>(
        conv: &PlaneConv,
        weights: &[f32],
        source: &[f32],
        out: &mut [f32],
        finish: impl Fn(__m512) -> __m512,
    ) {
        let [height, width] = conv.grid;
        let mut rows = [[_mm512_setzero_ps(); K]; K];
        for (to, weight) in rows.as_flattened_mut().iter_mut().zip(weights) {
            *to = _mm512_set1_ps(*weight);
        }
        // Adds row `row` of the taps of the first of the outputs to `sums`.
        let add = |sums: &mut [__m512; SUMS], row: usize, taps: [__m512; K]| {
            for (i, sum) in sums.iter_mut().enumerate() {
                if row >= i * STEP && row - i * STEP < K {
                    for (tap, weight) in taps.iter().zip(rows[row - i * STEP]) {
                        *sum = _mm512_fmadd_ps(*tap, weight, *sum);
                    }
                }
            }
        };
        for first in (0..width).step_by(LANES) {
            let lanes = inside(first as isize, width);
            let column = Column::<K, STEP>::new(conv, source, first);
            let mut to = out.as_mut_ptr().wrapping_add(first);
            // Partial sums of the next rows of outputs.
            let mut sums = [_mm512_setzero_ps(); SUMS];
            for row in 0..K - STEP {
                add(&mut sums, row, column.taps(row));
            }
            for y in 0..height {
                for row in K - STEP..K {
                    add(&mut sums, row, column.taps(STEP * y + row));
                }
                // SAFETY: the mask excludes elements outside row `y` of the output.
                unsafe { _mm512_mask_storeu_ps(to, lanes, finish(sums[0])) };
                to = to.wrapping_add(width);
                sums.rotate_left(1);
                sums[SUMS - 1] = _mm512_setzero_ps();
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    fn correlate_plane<const K: usize, const STEP: usize>(
        conv: &PlaneConv,
        source: &[f32],
        grad: &[f32],
        sums: &mut [f32],
    ) {
        let [height, width] = conv.grid;
        let mut totals = [[_mm512_setzero_ps(); K]; K];
        for first in (0..width).step_by(LANES) {
            let lanes = inside(first as isize, width);
            let column = Column::<K, STEP>::new(conv, source, first);
            for y in 0..height {
                // SAFETY: the mask excludes elements outside row `y` of the gradient.
                let grad = unsafe { _mm512_maskz_loadu_ps(lanes, grad.as_ptr().wrapping_add(y * width + first)) };
                for (row, totals) in totals.iter_mut().enumerate() {
                    for (total, taps) in totals.iter_mut().zip(column.taps(STEP * y + row)) {
                        *total = _mm512_mask3_fmadd_ps(taps, grad, *total, lanes);
                    }
                }
            }
        }
        for (sum, total) in sums.iter_mut().zip(totals.as_flattened()) {
            *sum += _mm512_reduce_add_ps(*total);
        }
    }
}
