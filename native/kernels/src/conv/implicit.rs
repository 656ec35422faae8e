//! The implicit matrix product: weights of (rows, depth) times windows of (depth, pixels), where the panels of windows
//! are packed from the image as they are needed and no matrix of windows is ever stored.
//!
//! The inner dimension is cut into blocks which depend on its length alone, and an element of the result is the sum of
//! its blocks in order, so that its bits depend neither on the tile nor on the number of threads.

use super::geometry::Geometry;
use crate::par::{MatMut, MatRef, num_threads, parallel_blocks, with_scratch};
use crate::simd::microkernel::{MicroKernel, Panel};
use crate::simd::window::{WindowElement, WindowPlan};
use std::cell::RefCell;
use std::ops::Range;

/// The most bytes that a row of weights takes in one block of the inner dimension.
const DEPTH_BYTES: usize = 2048;
/// Multiply-adds that are worth a chunk of parallel work.
const CHUNK_WORK: usize = 1 << 18;

/// The blocks that the inner dimension is cut into.
pub(super) fn depth_blocks<T>(depth: usize) -> impl Iterator<Item = Range<usize>> {
    let count = depth.div_ceil(DEPTH_BYTES / size_of::<T>()).max(1);
    let len = depth.div_ceil(count).max(1);
    (0..depth).step_by(len).map(move |start| start..(start + len).min(depth))
}

thread_local! {
    /// Their vectors are kept from call to call.
    static PLANS: RefCell<Vec<WindowPlan>> = const { RefCell::new(Vec::new()) };
}

/// Calls `f` with at least `count` plans of this thread.
pub(super) fn with_plans<R>(count: usize, f: impl FnOnce(&mut [WindowPlan]) -> R) -> R {
    let mut plans = PLANS.with(RefCell::take);
    plans.resize_with(count.max(plans.len()), WindowPlan::default);
    let result = f(&mut plans);
    PLANS.with(|kept| kept.replace(plans));
    result
}

/// Packs weights into panels, block by block of the inner dimension.
pub(super) fn pack_weights<T: WindowElement>(kernel: &MicroKernel<T>, weights: MatRef<'_, T>, out: &mut [T]) {
    let rows = weights.rows();
    for block in depth_blocks::<T>(weights.cols()) {
        let part = kernel.packed_a_len(rows, block.start)..kernel.packed_a_len(rows, block.end);
        kernel.pack_a(weights.block(0, block.start, rows, block.len()), &mut out[part]);
    }
}

/// What the products of one call have in common.
pub(super) struct Implicit<'a, T: 'static> {
    pub kernel: &'static MicroKernel<T>,
    pub geometry: &'a Geometry,
    pub groups: usize,
    /// Rows of the weights of a group.
    pub rows: usize,
    /// Channels of the source in a group.
    pub channels: usize,
    /// Packed weights, group after group.
    pub weights: &'a [T],
    /// The images, (batch, groups * channels, plane).
    pub source: &'a [T],
}

/// Some rows of one group, for some images: where the results go is up to `row_of`.
struct Part {
    group: usize,
    rows: Range<usize>,
    images: Range<usize>,
    /// Rows of the result between images.
    image_rows: usize,
    /// The first row of the group in the result, for the first image.
    first_row: usize,
    /// The first pixel.
    pixel: usize,
}

impl<T: WindowElement> Implicit<'_, T> {
    fn depth(&self) -> usize {
        self.channels * self.geometry.taps.len()
    }

    /// Computes all images into `out`, (batch * groups * rows, pixels), in parallel. `finish(row, pixel, block)` is
    /// called for every block of the result when it is complete.
    pub fn run(&self, batch: usize, out: MatMut<'_, T>, finish: &(dyn Fn(usize, usize, MatMut<'_, T>) + Sync)) {
        let (pixels, threads) = (out.cols(), num_threads());
        let image_rows = self.groups * self.rows;
        if batch == 0 || pixels == 0 || image_rows == 0 {
            return;
        }
        let work = image_rows * pixels * self.depth().max(1);
        if batch >= 2 * threads || threads == 1 || work * batch < 2 * CHUNK_WORK {
            let images = (CHUNK_WORK / work).clamp(1, batch.div_ceil(2 * threads).max(1));
            let images = images.next_multiple_of(self.merged(batch, pixels));
            return parallel_blocks(out, images * image_rows, pixels, |row, _, mut block| {
                let images = row / image_rows..(row + block.rows()) / image_rows;
                self.images(images, 0, &mut block, &|r, pixel, block| finish(row + r, pixel, block));
            });
        }
        let mut out = out;
        let (tiles, panels) = (self.rows.div_ceil(self.kernel.mr()), pixels.div_ceil(self.kernel.nr()));
        let across = panels.min(3 * threads);
        let down = (3 * threads).div_ceil(across * batch * self.groups).clamp(1, tiles.div_ceil(4));
        let (cols, rows) = (panels.div_ceil(across) * self.kernel.nr(), tiles.div_ceil(down) * self.kernel.mr());
        if down == 1 {
            // Whole images, divided by pixels.
            return parallel_blocks(out, image_rows, cols, |row, pixel, mut block| {
                let images = row / image_rows..row / image_rows + 1;
                self.images(images, pixel, &mut block, &|r, p, block| finish(row + r, p, block));
            });
        }
        for i in 0..batch * self.groups {
            let (first, image, group) = (i * self.rows, i / self.groups, i % self.groups);
            parallel_blocks(out.block(first, 0, self.rows, pixels), rows, cols, |row, pixel, mut block| {
                let rows = row..row + block.rows();
                let part = Part { group, rows, images: image..image + 1, image_rows, first_row: 0, pixel };
                self.part(&part, &mut block, &|r, p, block| finish(first + row + r, p, block));
            });
        }
    }

    /// All groups of some images for the pixels from `pixel` on.
    pub fn images(
        &self,
        images: Range<usize>,
        pixel: usize,
        out: &mut MatMut<'_, T>,
        finish: &dyn Fn(usize, usize, MatMut<'_, T>),
    ) {
        for group in 0..self.groups {
            let (image_rows, first_row) = (self.groups * self.rows, group * self.rows);
            let part = Part { group, rows: 0..self.rows, images: images.clone(), image_rows, first_row, pixel };
            self.part(&part, out, finish);
        }
    }

    fn part(&self, part: &Part, out: &mut MatMut<'_, T>, finish: &dyn Fn(usize, usize, MatMut<'_, T>)) {
        let (nr, depth, pixels) = (self.kernel.nr(), self.depth(), out.cols());
        if depth == 0 {
            return self.empty(part, out, finish);
        }
        let weights = &self.weights[part.group * self.kernel.packed_a_len(self.rows, depth)..];
        let merged = self.merged(part.images.len(), pixels);
        if merged > 1 {
            return self.merge(part, merged, weights, out, finish);
        }
        let longest = depth_blocks::<T>(depth).map(|block| block.len()).max().unwrap_or(0);
        with_plans(1, |plans| {
            let plan = &mut plans[0];
            with_scratch(longest * nr, |panel: &mut [T]| {
                for block in depth_blocks::<T>(depth) {
                    let weights = &weights[self.kernel.packed_a_len(self.rows, block.start)..];
                    for first in (0..pixels).step_by(nr) {
                        let cols = nr.min(pixels - first);
                        if !self.geometry.is_pointwise() {
                            self.geometry.plan(part.pixel + first, cols, nr, plan);
                        }
                        for image in 0..part.images.len() {
                            let row = part.first_row + image * part.image_rows;
                            let mut c = out.block(row, first, part.rows.len(), cols);
                            let b = self.panel(part, image, &block, (first, cols), plan, panel);
                            self.tiles(part, &block, weights, b, &mut c);
                            if block.end == depth {
                                finish(row, part.pixel + first, c);
                            }
                        }
                    }
                }
            });
        });
    }

    /// How many of the images share a panel: as many as have room in it.
    fn merged(&self, images: usize, pixels: usize) -> usize {
        if pixels == self.geometry.pixels() { (self.kernel.nr() / pixels).clamp(1, images.max(1)) } else { 1 }
    }

    /// A part whose images are so small that `merged` of them fit into a panel. Their results come out side by side, and
    /// are then put in their places.
    fn merge(
        &self,
        part: &Part,
        merged: usize,
        weights: &[T],
        out: &mut MatMut<'_, T>,
        finish: &dyn Fn(usize, usize, MatMut<'_, T>),
    ) {
        let (nr, depth, pixels, plane) = (self.kernel.nr(), self.depth(), out.cols(), self.geometry.plane());
        let (rows, distance) = (part.rows.len(), self.groups * self.channels * plane);
        let longest = depth_blocks::<T>(depth).map(|block| block.len()).max().unwrap_or(0);
        with_plans(1, |plans| {
            with_scratch((longest + rows) * nr, |buffer: &mut [T]| {
                let (panel, sums) = buffer.split_at_mut(longest * nr);
                let mut planned = 0;
                for first in (0..part.images.len()).step_by(merged) {
                    let images = merged.min(part.images.len() - first);
                    if images != planned {
                        self.geometry.plan_images((images, distance), 0, pixels, nr, &mut plans[0]);
                        planned = images;
                    }
                    let channel = ((part.images.start + first) * self.groups + part.group) * self.channels;
                    let mut c = MatMut::new(sums, rows, images * pixels, nr);
                    for block in depth_blocks::<T>(depth) {
                        T::pack(&plans[0], &self.source[channel * plane..], block.clone(), panel);
                        let weights = &weights[self.kernel.packed_a_len(self.rows, block.start)..];
                        self.tiles(part, &block, weights, Panel { data: panel, step: nr }, &mut c);
                    }
                    for image in 0..images {
                        let row = part.first_row + (first + image) * part.image_rows;
                        let mut to = out.block(row, 0, rows, pixels);
                        for (i, sums) in sums.chunks_exact(nr).enumerate() {
                            to.row_mut(i).copy_from_slice(&sums[image * pixels..(image + 1) * pixels]);
                        }
                        finish(row, part.pixel, to);
                    }
                }
            });
        });
    }

    /// Without an inner dimension the product is zero.
    fn empty(&self, part: &Part, out: &mut MatMut<'_, T>, finish: &dyn Fn(usize, usize, MatMut<'_, T>)) {
        let pixels = out.cols();
        for image in 0..part.images.len() {
            let row = part.first_row + image * part.image_rows;
            let mut c = out.block(row, 0, part.rows.len(), pixels);
            (0..c.rows()).for_each(|row| c.row_mut(row).fill(T::zero()));
            finish(row, part.pixel, c);
        }
    }

    /// The panel of B of some pixels, packed unless it is good enough as it stands.
    fn panel<'p>(
        &'p self,
        part: &Part,
        image: usize,
        block: &Range<usize>,
        (first, cols): (usize, usize),
        plan: &WindowPlan,
        panel: &'p mut [T],
    ) -> Panel<'p, T> {
        let plane = self.geometry.plane();
        let channel = ((part.images.start + image) * self.groups + part.group) * self.channels;
        let source = &self.source[channel * plane..(channel + self.channels) * plane];
        let step = self.kernel.nr();
        if !self.geometry.is_pointwise() {
            T::pack(plan, source, block.clone(), panel);
        } else {
            let from = &source[block.start * plane + part.pixel + first..];
            if part.rows.len() <= self.kernel.mr() {
                return Panel { data: from, step: plane };
            }
            self.kernel.pack_b(MatRef::new(from, block.len(), cols, plane, 1), panel);
        }
        Panel { data: panel, step }
    }

    fn tiles(&self, part: &Part, block: &Range<usize>, weights: &[T], b: Panel<'_, T>, c: &mut MatMut<'_, T>) {
        let (mr, cols) = (self.kernel.mr(), c.cols());
        for row in part.rows.clone().step_by(mr) {
            let a = Panel { data: &weights[row * block.len()..], step: mr };
            let tile = c.block(row - part.rows.start, 0, mr.min(part.rows.end - row), cols);
            self.kernel.tile(block.len(), T::one(), a, b, tile, block.start > 0);
        }
    }
}
