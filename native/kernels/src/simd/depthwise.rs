//! Convolution of a plane with a 3 x 3 or 5 x 5 kernel, read in place: the core of depthwise convolution.
//!
//! The output is computed in columns one vector wide, from top to bottom. Each source row is read once and added to all outputs
//! whose windows contain it; masks exclude elements outside the plane.

#[cfg(target_arch = "x86_64")]
use super::Isa;

/// Geometry of the source and the outputs: tap (i, j) of the output at (y, x) reads the source at
/// `(y * stride + i + origin[0], x * stride + j + origin[1])`, which counts as zero outside the plane.
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
    /// Stride in both axes, 1 or 2.
    pub stride: usize,
}

impl PlaneConv {
    /// True if there is an implementation for this kernel size and stride.
    pub fn is_supported(&self) -> bool {
        matches!((self.kernel, self.stride), (3 | 5, 1 | 2))
    }

    /// # Panics
    /// When a slice does not have the length of its plane or of the taps, or the kernel size or stride is not supported.
    fn check(&self, taps: usize, source: usize, grid: usize) {
        let planes = [self.source, self.grid].map(|[height, width]| height * width);
        assert_eq!([source, grid], planes, "elements of the planes of {self:?}");
        assert_eq!(taps, self.kernel * self.kernel, "taps of {self:?}");
        assert!(self.is_supported(), "no kernel supports {self:?}");
    }
}

/// An epilogue of the outputs: clamp(value * scale + bias, low, high), keeping NaN.
#[derive(Clone, Copy, Debug)]
pub struct ScaleClamp<T> {
    /// Multiplier.
    pub scale: T,
    /// Added after scaling.
    pub bias: T,
    /// Lower bound.
    pub low: T,
    /// Upper bound.
    pub high: T,
}

/// The implementations for an element type.
pub struct PlaneConvKernels<T> {
    /// `convolve(conv, weights, source, epilogue, out)` computes the outputs of a plane.
    pub convolve: fn(&PlaneConv, &[T], &[T], Option<ScaleClamp<T>>, &mut [T]),
    /// `correlate(conv, source, grad, sums)` adds the gradient of the weights: for each tap, the sum over the outputs of the
    /// element that it reads times the gradient of the output.
    pub correlate: fn(&PlaneConv, &[T], &[T], &mut [T]),
}

/// An element type that may have these kernels.
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
    use super::{PlaneConv, ScaleClamp};
    use std::arch::x86_64::*;

    const LANES: usize = 16;

    pub(super) fn convolve(
        conv: &PlaneConv,
        weights: &[f32],
        source: &[f32],
        epilogue: Option<ScaleClamp<f32>>,
        out: &mut [f32],
    ) {
        conv.check(weights.len(), source.len(), out.len());
        // SAFETY: these kernels are returned only where the processor has AVX-512F.
        unsafe {
            match epilogue {
                None => convolve_sized(conv, weights, source, out, |sum| sum),
                Some(epilogue) => convolve_sized(conv, weights, source, out, scale_clamp(epilogue)),
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
        epilogue: impl Fn(__m512) -> __m512,
    ) {
        match (conv.kernel, conv.stride) {
            (3, 1) => convolve_plane::<3, 1, 3>(conv, weights, source, out, epilogue),
            (3, _) => convolve_plane::<3, 2, 2>(conv, weights, source, out, epilogue),
            (_, 1) => convolve_plane::<5, 1, 5>(conv, weights, source, out, epilogue),
            (..) => convolve_plane::<5, 2, 3>(conv, weights, source, out, epilogue),
        }
    }

    /// The vector form of an epilogue.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn scale_clamp(epilogue: ScaleClamp<f32>) -> impl Fn(__m512) -> __m512 {
        let ScaleClamp { scale, bias, low, high } = epilogue;
        let [scale, bias, low, high] = [scale, bias, low, high].map(|value| _mm512_set1_ps(value));
        // If either operand is NaN, min and max return the second one.
        move |sum| _mm512_min_ps(high, _mm512_max_ps(low, _mm512_add_ps(_mm512_mul_ps(sum, scale), bias)))
    }

    pub(super) fn correlate(conv: &PlaneConv, source: &[f32], grad: &[f32], sums: &mut [f32]) {
        conv.check(sums.len(), source.len(), grad.len());
        // SAFETY: these kernels are returned only where the processor has AVX-512F.
        unsafe {
            match (conv.kernel, conv.stride) {
                (3, 1) => correlate_plane::<3, 1>(conv, source, grad, sums),
                (3, _) => correlate_plane::<3, 2>(conv, source, grad, sums),
                (_, 1) => correlate_plane::<5, 1>(conv, source, grad, sums),
                (..) => correlate_plane::<5, 2>(conv, source, grad, sums),
            }
        }
    }

    /// Mask of the lanes within a row of `width` elements, for a vector that starts at column `first`.
    fn inside(first: isize, width: usize) -> __mmask16 {
        let mask = |lanes: isize| ((1u32 << lanes.clamp(0, LANES as isize)) - 1) as __mmask16;
        mask(width as isize - first) & !mask(-first)
    }

    /// A column of output vectors. In a source row it reads K vectors, one per tap of a kernel row.
    struct Column<'a, const K: usize, const STRIDE: usize> {
        source: &'a [f32],
        height: usize,
        width: usize,
        /// Source column that the first tap of the first output reads.
        first: isize,
        /// Source row that the first tap of the first output reads.
        row: isize,
        /// Load masks of a source row: for a stride of 1 one per tap, for a stride of 2 two per pair of taps.
        masks: [[__mmask16; 2]; K],
    }

    impl<'a, const K: usize, const STRIDE: usize> Column<'a, K, STRIDE> {
        /// The column of the outputs from `first` on.
        fn new(conv: &PlaneConv, source: &'a [f32], first: usize) -> Self {
            let [height, width] = conv.source;
            let start = (first * STRIDE) as isize + conv.origin[1];
            let masks = std::array::from_fn(|i| [0, LANES].map(|next| inside(start + (i + next) as isize, width)));
            Column { source, height, width, first: start, row: conv.origin[0], masks }
        }

        /// Loads what the taps of a kernel row read. `row` is the source row, relative to that of the first tap of the first
        /// output.
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
            if STRIDE == 1 {
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

    /// Convolves with a K x K kernel. SUMS is K / STRIDE, rounded up: the number of output rows whose windows contain a source row.
    #[target_feature(enable = "avx512f")]
    fn convolve_plane<const K: usize, const STRIDE: usize, const SUMS: usize>(
        conv: &PlaneConv,
        weights: &[f32],
        source: &[f32],
        out: &mut [f32],
        epilogue: impl Fn(__m512) -> __m512,
    ) {
        let [height, width] = conv.grid;
        let mut rows = [[_mm512_setzero_ps(); K]; K];
        for (to, weight) in rows.as_flattened_mut().iter_mut().zip(weights) {
            *to = _mm512_set1_ps(*weight);
        }
        // Adds the products of a source row, which meets kernel row `row - i * STRIDE` of `sums[i]`.
        let add = |sums: &mut [__m512; SUMS], row: usize, taps: [__m512; K]| {
            for (i, sum) in sums.iter_mut().enumerate() {
                if row >= i * STRIDE && row - i * STRIDE < K {
                    for (tap, weight) in taps.iter().zip(rows[row - i * STRIDE]) {
                        *sum = _mm512_fmadd_ps(*tap, weight, *sum);
                    }
                }
            }
        };
        for first in (0..width).step_by(LANES) {
            let lanes = inside(first as isize, width);
            let column = Column::<K, STRIDE>::new(conv, source, first);
            let mut to = out.as_mut_ptr().wrapping_add(first);
            // Partial sums of the next SUMS output rows.
            let mut sums = [_mm512_setzero_ps(); SUMS];
            for row in 0..K - STRIDE {
                add(&mut sums, row, column.taps(row));
            }
            for y in 0..height {
                for row in K - STRIDE..K {
                    add(&mut sums, row, column.taps(STRIDE * y + row));
                }
                // SAFETY: the mask excludes elements outside row `y` of the output.
                unsafe { _mm512_mask_storeu_ps(to, lanes, epilogue(sums[0])) };
                to = to.wrapping_add(width);
                sums.rotate_left(1);
                sums[SUMS - 1] = _mm512_setzero_ps();
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    fn correlate_plane<const K: usize, const STRIDE: usize>(
        conv: &PlaneConv,
        source: &[f32],
        grad: &[f32],
        sums: &mut [f32],
    ) {
        let [height, width] = conv.grid;
        let mut totals = [[_mm512_setzero_ps(); K]; K];
        for first in (0..width).step_by(LANES) {
            let lanes = inside(first as isize, width);
            let column = Column::<K, STRIDE>::new(conv, source, first);
            for y in 0..height {
                // SAFETY: the mask excludes elements outside row `y` of the gradient.
                let grad = unsafe { _mm512_maskz_loadu_ps(lanes, grad.as_ptr().wrapping_add(y * width + first)) };
                for (row, totals) in totals.iter_mut().enumerate() {
                    for (total, taps) in totals.iter_mut().zip(column.taps(STRIDE * y + row)) {
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
