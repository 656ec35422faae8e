//! 3 x 3 neighbouring taps over a plane that is read where it is: what a depthwise convolution is made of.
//!
//! A column of blocks, each as wide as a vector, is followed from the top of the plane to its bottom. Every row of the source is
//! read once and goes into all outputs whose taps reach it; masks leave out what is outside of the plane.

#[cfg(target_arch = "x86_64")]
use super::Isa;

/// The source and the outputs over it: tap (i, j) of the output at (y, x) is at (y * step + i + row, x * step + j + column) of
/// the source, and counts as zero outside of it.
#[derive(Clone, Copy, Debug)]
pub struct Square {
    /// Height and width of the source.
    pub source: [usize; 2],
    /// Height and width of the output.
    pub grid: [usize; 2],
    /// Row and column of the first tap of the first output.
    pub origin: [isize; 2],
    /// The distance between neighbouring outputs in the source, 1 or 2.
    pub step: usize,
}

impl Square {
    /// # Panics
    /// When a slice is not as long as its plane, or there is no kernel for the step.
    fn check(&self, source: usize, grid: usize) {
        let planes = [self.source, self.grid].map(|[height, width]| height * width);
        assert_eq!([source, grid], planes, "elements of the planes of {self:?}");
        assert!(matches!(self.step, 1 | 2), "no kernel for the step of {self:?}");
    }
}

/// What is done to the outputs on the way: value * scale + bias, limited to low..=high, with NaN kept.
#[derive(Clone, Copy, Debug)]
pub struct Finish<T> {
    /// The factor.
    pub scale: T,
    /// The summand.
    pub bias: T,
    /// The least value.
    pub low: T,
    /// The largest value.
    pub high: T,
}

/// The kernels for an element type.
pub struct SquareKernels<T> {
    /// `weigh(square, weights, source, finish, out)`: the outputs of a plane.
    pub weigh: fn(&Square, &[T; 9], &[T], Option<Finish<T>>, &mut [T]),
    /// `correlate(square, source, grad, sums)` adds to each tap's sum its elements times the gradients of their outputs.
    pub correlate: fn(&Square, &[T], &[T], &mut [T; 9]),
}

/// An element type that may have such kernels.
pub trait SquareElement: Sized + 'static {
    /// The kernels, where the processor has the instructions for them.
    fn square_kernels() -> Option<&'static SquareKernels<Self>>;
}

impl SquareElement for f64 {
    fn square_kernels() -> Option<&'static SquareKernels<f64>> {
        None
    }
}

impl SquareElement for f32 {
    fn square_kernels() -> Option<&'static SquareKernels<f32>> {
        #[cfg(target_arch = "x86_64")]
        if Isa::current() == Isa::Avx512 {
            return Some(&SquareKernels { weigh: avx512::weigh, correlate: avx512::correlate });
        }
        None
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{Finish, Square};
    use std::arch::x86_64::*;

    const LANES: usize = 16;

    pub(super) fn weigh(
        square: &Square,
        weights: &[f32; 9],
        source: &[f32],
        finish: Option<Finish<f32>>,
        out: &mut [f32],
    ) {
        square.check(source.len(), out.len());
        // SAFETY: these kernels are given out where the processor has AVX-512F.
        unsafe {
            match (square.step, finish) {
                (1, None) => weigh_plane::<1>(square, weights, source, out, |sum| sum),
                (1, Some(finish)) => weigh_plane::<1>(square, weights, source, out, finished(finish)),
                (_, None) => weigh_plane::<2>(square, weights, source, out, |sum| sum),
                (_, Some(finish)) => weigh_plane::<2>(square, weights, source, out, finished(finish)),
            }
        }
    }

    /// The function that does it.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn finished(finish: Finish<f32>) -> impl Fn(__m512) -> __m512 {
        let Finish { scale, bias, low, high } = finish;
        let [scale, bias, low, high] = [scale, bias, low, high].map(|value| _mm512_set1_ps(value));
        // Of two operands of which one is NaN, the second is the result.
        move |sum| _mm512_min_ps(high, _mm512_max_ps(low, _mm512_add_ps(_mm512_mul_ps(sum, scale), bias)))
    }

    pub(super) fn correlate(square: &Square, source: &[f32], grad: &[f32], sums: &mut [f32; 9]) {
        square.check(source.len(), grad.len());
        // SAFETY: these kernels are given out where the processor has AVX-512F.
        unsafe {
            match square.step {
                1 => correlate_plane::<1>(square, source, grad, sums),
                _ => correlate_plane::<2>(square, source, grad, sums),
            }
        }
    }

    /// What the taps of neighbouring outputs of a row read in a row of the source: one vector for each column of taps.
    type Taps = [__m512; 3];

    /// The lanes of a vector that starts at `place` of a row of `width` elements and are inside of it.
    fn inside(place: isize, width: usize) -> __mmask16 {
        let mask = |lanes: isize| ((1u32 << lanes.clamp(0, LANES as isize)) - 1) as __mmask16;
        mask(width as isize - place) & !mask(-place)
    }

    /// A column of blocks of outputs.
    struct Column<'a, const STEP: usize> {
        source: &'a [f32],
        height: usize,
        width: usize,
        /// Where the first tap of the first output reads, in a row of the source.
        place: isize,
        /// The row of the first tap of the first row of outputs.
        row: isize,
        /// What may be read of the vectors of a row.
        masks: [__mmask16; 4],
    }

    impl<'a, const STEP: usize> Column<'a, STEP> {
        /// That of the outputs from `first` on.
        fn new(square: &Square, source: &'a [f32], first: usize) -> Self {
            let [height, width] = square.source;
            let place = (first * STEP) as isize + square.origin[1];
            let masks = std::array::from_fn(|i| match STEP {
                1 => inside(place + i as isize, width),
                _ => inside(place + Self::START[i], width),
            });
            Column { source, height, width, place, row: square.origin[0], masks }
        }

        /// Where the vectors of a row start if every other element is an output's.
        const START: [isize; 4] = [0, LANES as isize, 2, LANES as isize + 2];

        /// What the taps of the outputs read in a row of the source, counted from that of the first tap.
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn taps(&self, row: usize) -> Taps {
            let row = self.row + row as isize;
            if row < 0 || row >= self.height as isize {
                return [_mm512_setzero_ps(); 3];
            }
            let from = self.source.as_ptr().wrapping_offset(row * self.width as isize + self.place);
            // SAFETY: the masks leave out what is not in the row.
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

    /// The sum, and what a row of taps adds to it.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn add(sum: __m512, weights: &Taps, taps: &Taps) -> __m512 {
        let first = _mm512_fmadd_ps(taps[0], weights[0], sum);
        _mm512_fmadd_ps(taps[2], weights[2], _mm512_fmadd_ps(taps[1], weights[1], first))
    }

    #[target_feature(enable = "avx512f")]
    fn weigh_plane<const STEP: usize>(
        square: &Square,
        weights: &[f32; 9],
        source: &[f32],
        out: &mut [f32],
        finish: impl Fn(__m512) -> __m512,
    ) {
        let [height, width] = square.grid;
        let all = weights.map(|weight| _mm512_set1_ps(weight));
        let [upper, middle, lower] = [0, 3, 6].map(|i| [all[i], all[i + 1], all[i + 2]]);
        let zero = _mm512_setzero_ps();
        for first in (0..width).step_by(LANES) {
            let lanes = inside(first as isize, width);
            let column = Column::<STEP>::new(square, source, first);
            let mut to = out.as_mut_ptr().wrapping_add(first);
            // The sums so far of the next outputs, and of those below them.
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
                // SAFETY: the mask leaves out what is not in row `y` of the output.
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
    fn correlate_plane<const STEP: usize>(square: &Square, source: &[f32], grad: &[f32], sums: &mut [f32; 9]) {
        let [height, width] = square.grid;
        let mut totals = [[_mm512_setzero_ps(); 3]; 3];
        for first in (0..width).step_by(LANES) {
            let lanes = inside(first as isize, width);
            let column = Column::<STEP>::new(square, source, first);
            let mut upper = column.taps(0);
            let mut middle = if STEP == 1 { column.taps(1) } else { upper };
            for y in 0..height {
                if STEP == 2 {
                    middle = column.taps(2 * y + 1);
                }
                let lower = column.taps(STEP * y + 2);
                // SAFETY: the mask leaves out what is not in row `y` of the gradient.
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
