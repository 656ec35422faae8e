//! The microkernel in plain Rust, for the compiler to vectorise.

use super::Isa;
use super::microkernel::{Element, MicroKernel, TileArgs, TileFn};

const MR: usize = 4;
const VECTOR: usize = 4;

pub(super) static F32: MicroKernel<f32> = kernel(&TILES_F32);
pub(super) static F64: MicroKernel<f64> = kernel(&TILES_F64);

const fn kernel<T: Element>(tiles: &'static [TileFn<T>]) -> MicroKernel<T> {
    MicroKernel { isa: Isa::Portable, mr: MR, nr: 2 * VECTOR, lanes: VECTOR, tiles, transpose, copy }
}

macro_rules! tiles {
    ($t:ty) => {
        [
            tile::<$t, 1, 4>,
            tile::<$t, 2, 4>,
            tile::<$t, 3, 4>,
            tile::<$t, 4, 4>,
            tile::<$t, 1, 8>,
            tile::<$t, 2, 8>,
            tile::<$t, 3, 8>,
            tile::<$t, 4, 8>,
        ]
    };
}
#[rustfmt::skip]
static TILES_F32: [TileFn<f32>; 8] = tiles!(f32);
#[rustfmt::skip]
static TILES_F64: [TileFn<f64>; 8] = tiles!(f64);

/// x * y + z, fused where the target has such an instruction.
#[inline(always)]
fn mul_add<T: Element>(x: T, y: T, z: T) -> T {
    if cfg!(any(target_arch = "aarch64", target_feature = "fma")) { x.mul_add(y, z) } else { x * y + z }
}

/// A tile of M rows and N columns or up to three columns fewer. See `TileFn`.
unsafe fn tile<T: Element, const M: usize, const N: usize>(args: &TileArgs<T>) {
    let cols = N - VECTOR + args.tail;
    let mut sums = [[T::zero(); N]; M];
    for p in 0..args.depth {
        // SAFETY: step `p` of the panels has M and `cols` elements.
        let (a, b) = unsafe {
            let b = std::slice::from_raw_parts(args.b.add(p * args.b_step), cols);
            (std::slice::from_raw_parts(args.a.add(p * args.a_step), M), b)
        };
        let b: [T; N] = match b.try_into() {
            Ok(full) => full,
            Err(_) => std::array::from_fn(|j| b.get(j).copied().unwrap_or(T::zero())),
        };
        for (row, &x) in sums.iter_mut().zip(a) {
            for (sum, &y) in row.iter_mut().zip(&b) {
                *sum = mul_add(x, y, *sum);
            }
        }
    }
    for (i, row) in sums.iter().enumerate() {
        // SAFETY: row `i` of the tile has `cols` elements, which belong to this call.
        let out = unsafe { std::slice::from_raw_parts_mut(args.c.add(i * args.c_stride), cols) };
        for (c, &sum) in out.iter_mut().zip(row) {
            *c = if args.accumulate { mul_add(args.alpha, sum, *c) } else { args.alpha * sum };
        }
    }
}

/// See `TransposeFn`. Blocks of eight steps, so that every cache line of the source is used up when it is read.
pub(super) unsafe fn transpose<T: Copy>(
    src: *const T,
    stride: usize,
    lanes: usize,
    depth: usize,
    out: *mut T,
    width: usize,
) {
    for first in (0..depth).step_by(8) {
        for lane in 0..lanes {
            for p in first..depth.min(first + 8) {
                // SAFETY: the caller passes `lanes` x `depth` elements and room for `depth` steps of `width` elements.
                unsafe { *out.add(p * width + lane) = *src.add(lane * stride + p) };
            }
        }
    }
}

/// See `CopyFn`.
pub(super) unsafe fn copy<T: Copy>(
    src: *const T,
    stride: usize,
    lanes: usize,
    depth: usize,
    out: *mut T,
    width: usize,
) {
    for p in 0..depth {
        // SAFETY: the caller passes `depth` steps of `lanes` elements and room for `depth` steps of `width` elements.
        unsafe { std::ptr::copy_nonoverlapping(src.add(p * stride), out.add(p * width), lanes) };
    }
}
