//! Convolution of a plane with 3 x 3 adjacent taps, read in place: the core of depthwise convolution.
//!
//! Columns of blocks, each one vector wide, are computed from top to bottom. Each source row is read once and added to all
//! outputs whose taps reach it; masks exclude elements outside the plane.

#[cfg(target_arch = "x86_64")]
use super::Isa;

/// Geometry of the source and the outputs: tap (i, j) of the output at (y, x) reads the source at (y * step + i + row, x * step +
/// j + column), which counts as zero outside the plane.
#[derive(Clone, Copy, Debug)]
pub struct Conv3x3 {
    /// Height and width of the source.
    pub source: [usize; 2],
    /// Height and width of the output.
    pub grid: [usize; 2],
    /// Source row and column of the first tap of the first output.
    pub origin: [isize; 2],
    /// Distance in the source between neighbouring outputs, 1 or 2.
    pub step: usize,
}

impl Conv3x3 {
    /// # Panics
    /// When a slice does not have the length of its plane, or no kernel supports the step.
    fn check(&self, source: usize, grid: usize) {
        let planes = [self.source, self.grid].map(|[height, width]| height * width);
        assert_eq!([source, grid], planes, "elements of the planes of {self:?}");
        assert!(matches!(self.step, 1 | 2), "no kernel for the step of {self:?}");
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
pub struct Conv3x3Kernels<T> {
    /// `convolve(conv, weights, source, finish, out)` computes the outputs of a plane.
    pub convolve: fn(&Conv3x3, &[T; 9], &[T], Option<Finish<T>>, &mut [T]),
    /// `correlate(conv, source, grad, sums)` adds to the sum of each tap its source elements times the gradients of their
    /// outputs.
    pub correlate: fn(&Conv3x3, &[T], &[T], &mut [T; 9]),
}

/// An element type that may have such kernels.
pub trait Conv3x3Element: Sized + 'static {
    /// The kernels, or `None` if the processor lacks the instructions.
    fn conv3x3_kernels() -> Option<&'static Conv3x3Kernels<Self>>;
}

impl Conv3x3Element for f64 {
    fn conv3x3_kernels() -> Option<&'static Conv3x3Kernels<f64>> {
        None
    }
}

impl Conv3x3Element for f32 {
    fn conv3x3_kernels() -> Option<&'static Conv3x3Kernels<f32>> {
        #[cfg(target_arch = "x86_64")]
        if Isa::current() == Isa::Avx512 {
            return Some(&Conv3x3Kernels { convolve: avx512::convolve, correlate: avx512::correlate });
        }
        None
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{Conv3x3, Finish};
    use std::arch::x86_64::*;

    const LANES: usize = 16;

    pub(super) fn convolve(
        conv: &Conv3x3,
        weights: &[f32; 9],
        source: &[f32],
        finish: Option<Finish<f32>>,
        out: &mut [f32],
    ) {
        conv.check(source.len(), out.len());
        // SAFETY: these kernels are returned only where the processor has AVX-512F.
        unsafe {
            match (conv.step, finish) {
                (1, None) => convolve_plane::<1>(conv, weights, source, out, |sum| sum),
                (1, Some(finish)) => convolve_plane::<1>(conv, weights, source, out, finished(finish)),
                (_, None) => convolve_plane::<2>(conv, weights, source, out, |sum| sum),
                (_, Some(finish)) => convolve_plane::<2>(conv, weights, source, out, finished(finish)),
            }
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

    pub(super) fn correlate(conv: &Conv3x3, source: &[f32], grad: &[f32], sums: &mut [f32; 9]) {
        conv.check(source.len(), grad.len());
        // SAFETY: these kernels are returned only where the processor has AVX-512F.
        unsafe {
            match conv.step {
                1 => correlate_plane::<1>(conv, source, grad, sums),
                _ => correlate_plane::<2>(conv, source, grad, sums),
            }
        }
    }

    /// What the taps of adjacent outputs read in one source row: one vector per column of taps.
    type Taps = [__m512; 3];

    /// Mask of the lanes that lie within a row of `width` elements, for a vector that starts at `first`.
    fn inside(first: isize, width: usize) -> __mmask16 {
        let mask = |lanes: isize| ((1u32 << lanes.clamp(0, LANES as isize)) - 1) as __mmask16;
        mask(width as isize - first) & !mask(-first)
    }

    /// A column of blocks of outputs.
    struct Column<'a, const STEP: usize> {
        source: &'a [f32],
        height: usize,
        width: usize,
        /// Column in the source of the first tap of the first output.
        first: isize,
        /// Source row of the first tap of the first row of outputs.
        row: isize,
        /// Masks for the vectors of a source row.
        masks: [__mmask16; 4],
    }

    impl<'a, const STEP: usize> Column<'a, STEP> {
        /// The column of the outputs from `first` on.
        fn new(conv: &Conv3x3, source: &'a [f32], first: usize) -> Self {
            let [height, width] = conv.source;
            let start = (first * STEP) as isize + conv.origin[1];
            let masks = std::array::from_fn(|i| match STEP {
                1 => inside(start + i as isize, width),
                _ => inside(start + Self::START[i], width),
            });
            Column { source, height, width, first: start, row: conv.origin[0], masks }
        }

        /// Where the vectors of a source row start for a step of 2.
        const START: [isize; 4] = [0, LANES as isize, 2, LANES as isize + 2];

        /// Loads what the taps read in a source row, relative to the row of the first tap.
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn taps(&self, row: usize) -> Taps {
            let row = self.row + row as isize;
            if row < 0 || row >= self.height as isize {
                return [_mm512_setzero_ps(); 3];
            }
            let from = self.source.as_ptr().wrapping_offset(row * self.width as isize + self.first);
            // SAFETY: the masks exclude elements outside the row.
            let load =
                |i: usize, start: isize| unsafe { _mm512_maskz_loadu_ps(self.masks[i], from.wrapping_offset(start)) };
            if STEP == 1 {
                return [load(0, 0), load(1, 1), load(2, 2)];
            }
            let [a, b, c, d] = [0, 1, 2, 3].map(|i| load(i, Self::START[i]));
            let even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
            let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
            let every = |which, a, b| _mm512_permutex2var_ps(a, which, b);
            [every(even, a, b), every(odd, a, b), every(even, c, d)]
        }
    }

    /// Adds one row of taps to the sums.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn add(sum: __m512, weights: &Taps, taps: &Taps) -> __m512 {
        let first = _mm512_fmadd_ps(taps[0], weights[0], sum);
        _mm512_fmadd_ps(taps[2], weights[2], _mm512_fmadd_ps(taps[1], weights[1], first))
    }

    #[target_feature(enable = "avx512f")]
    fn convolve_plane<const STEP: usize>(
        conv: &Conv3x3,
        weights: &[f32; 9],
        source: &[f32],
        out: &mut [f32],
        finish: impl Fn(__m512) -> __m512,
    ) {
        let [height, width] = conv.grid;
        let all = weights.map(|weight| _mm512_set1_ps(weight));
        let [upper, middle, lower] = [0, 3, 6].map(|i| [all[i], all[i + 1], all[i + 2]]);
        let zero = _mm512_setzero_ps();
        for first in (0..width).step_by(LANES) {
            let lanes = inside(first as isize, width);
            let column = Column::<STEP>::new(conv, source, first);
            let mut to = out.as_mut_ptr().wrapping_add(first);
            // Partial sums of the next row of outputs and of the one below it.
            let taps = column.taps(0);
            let mut next = add(zero, &upper, &taps);
            let mut below = zero;
            if STEP == 1 {
                let taps = column.taps(1);
                (next, below) = (add(next, &middle, &taps), add(zero, &upper, &taps));
            }
            for y in 0..height {
                if STEP == 2 {
                    next = add(next, &middle, &column.taps(2 * y + 1));
                }
                let taps = column.taps(STEP * y + 2);
                // SAFETY: the mask excludes elements outside row `y` of the output.
                unsafe { _mm512_mask_storeu_ps(to, lanes, finish(add(next, &lower, &taps))) };
                to = to.wrapping_add(width);
                (next, below) = match STEP {
                    1 => (add(below, &middle, &taps), add(zero, &upper, &taps)),
                    _ => (add(zero, &upper, &taps), below),
                };
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    fn correlate_plane<const STEP: usize>(conv: &Conv3x3, source: &[f32], grad: &[f32], sums: &mut [f32; 9]) {
        let [height, width] = conv.grid;
        let mut totals = [[_mm512_setzero_ps(); 3]; 3];
        for first in (0..width).step_by(LANES) {
            let lanes = inside(first as isize, width);
            let column = Column::<STEP>::new(conv, source, first);
            let mut upper = column.taps(0);
            let mut middle = if STEP == 1 { column.taps(1) } else { upper };
            for y in 0..height {
                if STEP == 2 {
                    middle = column.taps(2 * y + 1);
                }
                let lower = column.taps(STEP * y + 2);
                // SAFETY: the mask excludes elements outside row `y` of the gradient.
                let grad = unsafe { _mm512_maskz_loadu_ps(lanes, grad.as_ptr().wrapping_add(y * width + first)) };
                for (totals, taps) in totals.iter_mut().zip([upper, middle, lower]) {
                    for (total, taps) in totals.iter_mut().zip(taps) {
                        *total = _mm512_mask3_fmadd_ps(taps, grad, *total, lanes);
                    }
                }
                (upper, middle) = if STEP == 1 { (middle, lower) } else { (lower, lower) };
            }
        }
        for (sum, total) in sums.iter_mut().zip(totals.as_flattened()) {
            *sum += _mm512_reduce_add_ps(*total);
        }
    }
}
