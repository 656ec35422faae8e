//! Convolution of planes, each with its 3 x 3 or 5 x 5 kernel, read in place: the core of depthwise convolution.
//!
//! The output is computed in columns one vector wide, from top to bottom. Each source row is read once and added to all outputs
//! whose windows contain it; masks exclude elements outside the plane.
//!
//! - `columns`: the algorithms.
//! - `vector`: what they need of a vector.
//! - `neon`, `x86`: the vectors that they are compiled for.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod columns;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
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
    /// Panics if the slices do not have the lengths of `planes` planes and their taps, or the kernel size or stride is not supported.
    fn check(&self, planes: usize, taps: usize, source: usize, grid: usize) {
        // One by one: arrays, stored as numbers and compared as vectors, fail store forwarding.
        let [source_len, grid_len] = [self.source, self.grid].map(|[height, width]| planes * height * width);
        assert!(
            source == source_len && grid == grid_len,
            "{planes} planes of {source} and {grid} elements for {self:?}"
        );
        assert!(taps == planes * self.kernel * self.kernel, "{planes} planes with {taps} taps for {self:?}");
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

impl ScaleClamp<f32> {
    /// Leaves every value unchanged.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    const IDENTITY: ScaleClamp<f32> =
        ScaleClamp { scale: 1.0, bias: -0.0, low: f32::NEG_INFINITY, high: f32::INFINITY };
}

/// The implementations for an element type.
pub struct PlaneConvKernels<T> {
    /// `convolve(conv, weights, source, epilogues, out)` computes the outputs of planes, which are adjacent in memory. `weights` has a
    /// kernel for each plane; `epilogues` has an epilogue for each or is empty.
    pub convolve: fn(&PlaneConv, &[T], &[T], &[ScaleClamp<T>], &mut [T]),
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
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        return match Isa::current() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Some(&PlaneConvKernels { convolve: avx512::convolve, correlate: avx512::correlate }),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Some(&PlaneConvKernels { convolve: avx2::convolve, correlate: avx2::correlate }),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => Some(&PlaneConvKernels { convolve: pairs::convolve, correlate: pairs::correlate }),
            _ => None,
        };
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        None
    }
}

/// Defines the kernels of an instruction set for its vector.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! plane_conv_kernels {
    ($vector:ty, $features:literal) => {
        use super::columns::{convolve_planes, correlate_plane};
        use super::{PlaneConv, ScaleClamp};

        pub(super) fn convolve(
            conv: &PlaneConv,
            weights: &[f32],
            source: &[f32],
            epilogues: &[ScaleClamp<f32>],
            out: &mut [f32],
        ) {
            let planes = weights.len() / (conv.kernel * conv.kernel);
            conv.check(planes, weights.len(), source.len(), out.len());
            // SAFETY: these kernels are returned only where the processor has the features; the lengths were checked.
            unsafe {
                if epilogues.is_empty() {
                    convolve_sized::<false>(conv, weights, source, epilogues, out);
                } else {
                    assert!(epilogues.len() == planes, "{} epilogues for {planes} planes", epilogues.len());
                    convolve_sized::<true>(conv, weights, source, epilogues, out);
                }
            }
        }

        #[target_feature(enable = $features)]
        unsafe fn convolve_sized<const SCALED: bool>(
            conv: &PlaneConv,
            weights: &[f32],
            source: &[f32],
            epilogues: &[ScaleClamp<f32>],
            out: &mut [f32],
        ) {
            // SAFETY: the caller checked the processor and the lengths.
            unsafe {
                match (conv.kernel, conv.stride) {
                    (3, 1) => convolve_planes::<$vector, 3, 1, 3, SCALED>(conv, weights, source, epilogues, out),
                    (3, _) => convolve_planes::<$vector, 3, 2, 2, SCALED>(conv, weights, source, epilogues, out),
                    (_, 1) => convolve_planes::<$vector, 5, 1, 5, SCALED>(conv, weights, source, epilogues, out),
                    (..) => convolve_planes::<$vector, 5, 2, 3, SCALED>(conv, weights, source, epilogues, out),
                }
            }
        }

        pub(super) fn correlate(conv: &PlaneConv, source: &[f32], grad: &[f32], sums: &mut [f32]) {
            conv.check(1, sums.len(), source.len(), grad.len());
            // SAFETY: these kernels are returned only where the processor has the features; the lengths were checked.
            unsafe { correlate_sized(conv, source, grad, sums) }
        }

        #[target_feature(enable = $features)]
        unsafe fn correlate_sized(conv: &PlaneConv, source: &[f32], grad: &[f32], sums: &mut [f32]) {
            // SAFETY: the caller checked the processor and the lengths.
            unsafe {
                match (conv.kernel, conv.stride) {
                    (3, 1) => correlate_plane::<$vector, 3, 1, 3>(conv, source, grad, sums),
                    (3, _) => correlate_plane::<$vector, 3, 2, 2>(conv, source, grad, sums),
                    (_, 1) => correlate_plane::<$vector, 5, 1, 5>(conv, source, grad, sums),
                    (..) => correlate_plane::<$vector, 5, 2, 3>(conv, source, grad, sums),
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    plane_conv_kernels!(std::arch::x86_64::__m256, "avx2,fma");
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    plane_conv_kernels!(std::arch::x86_64::__m512, "avx512f");
}

#[cfg(target_arch = "aarch64")]
mod pairs {
    plane_conv_kernels!(super::neon::Pair, "neon");
}
