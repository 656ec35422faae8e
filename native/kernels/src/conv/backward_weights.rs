//! The gradients of weights and bias.
//!
//! The gradient of the weights is a matrix product whose inner dimension are the pixels: rows are output channels, columns are
//! channels and taps. The part of the input that some pixels need is transposed in working memory, padding included, such that
//! the channels of a place are neighbours: a panel of B is then a table of places, one for each pixel, which is the same for all
//! taps. With few channels, neighbouring taps of a row are neighbours too and fill the lanes together.

use super::{ConvShape, check_len, depthwise};
use crate::float::{Accum, Real, with_wide, with_wide_mut};
use crate::par::{List, MatMut, MatRef, num_threads, parallel_blocks, parallel_rows, with_scratch};
use crate::simd::microkernel::{MicroKernel, Panel, StepTable, Steps};
use std::ops::Range;

/// Pixels that are multiplied at a time, about: the inner dimension of the microkernel.
const BLOCK: usize = 512;
/// The most parts of the batch whose gradients are computed apart from each other and added at the end.
const PARTS: usize = 4;
/// The most bytes of gradients that are computed apart.
const PART_BYTES: usize = 16 << 20;

/// Writes the gradient of the weights, given that of the output. It is summed over parts of the batch, whose number
/// depends on the shape only, and then over the parts in order.
///
/// # Panics
/// When a slice does not have the elements that `shape` says.
pub fn conv_backward_weights<T: Real>(shape: &ConvShape, input: &[T], output_grad: &[T], weights_grad: &mut [T]) {
    with_wide(input, |input| {
        with_wide(output_grad, |output_grad| {
            with_wide_mut(weights_grad, |weights_grad| backward(shape, input, output_grad, weights_grad));
        });
    });
}

fn backward<T: Accum>(shape: &ConvShape, input: &[T], output_grad: &[T], weights_grad: &mut [T]) {
    shape.check();
    check_len("input", input.len(), shape.input_len(), shape);
    check_len("output", output_grad.len(), shape.output_len(), shape);
    check_len("weights", weights_grad.len(), shape.weights_len(), shape);
    if weights_grad.is_empty() {
        return;
    }
    if shape.batch == 0 || output_grad.is_empty() {
        return weights_grad.fill(T::zero());
    }
    if depthwise::is_depthwise(shape) {
        return depthwise::backward_weights(shape, input, output_grad, weights_grad);
    }
    let product = Product::new(shape, input, output_grad);
    let (rows, depth, nr) = (shape.group_out(), shape.depth(), product.kernel.nr());
    let unit = rows * nr;
    let len = shape.groups * product.units.len() * unit;
    let parts = PARTS.min(shape.batch).min((PART_BYTES / (len * size_of::<T>())).max(2));
    with_scratch(parts * len, |sums: &mut [T]| {
        product.run(parts, sums);
        let sums = &*sums;
        // Rows of one group together, so that those of a unit are adjacent.
        let together = (1..=16.min(rows)).rev().find(|together| rows.is_multiple_of(*together)).unwrap_or(1);
        parallel_rows(weights_grad, together * depth, 1, |i, grad| {
            let row = i * together;
            for (i, columns) in product.columns.chunks(nr).enumerate() {
                let at = (row / rows * product.units.len() + i) * unit + row % rows * nr;
                add_parts(&sums[at..], len, parts, columns, depth, grad);
            }
        });
    });
}

crate::simd::per_isa! {
    /// Writes to some columns of each row of `depth` elements of `grad` the sum of as many parts, which are `len` elements
    /// apart and have these columns side by side. A column that does not exist is `depth`.
    fn add_parts<T: Accum>(sums: &[T], len: usize, parts: usize, columns: &[usize], depth: usize, grad: &mut [T]) {
        let mut total = [T::zero(); 32];
        let (nr, count) = (columns.len(), columns.iter().filter(|column| **column < depth).count());
        let total = &mut total[..nr];
        let adjacent = columns[..count].iter().zip(columns[0]..).all(|(column, next)| *column == next);
        for (row, grad) in grad.chunks_exact_mut(depth).enumerate() {
            total.copy_from_slice(&sums[row * nr..][..nr]);
            for part in 1..parts {
                let terms = &sums[part * len + row * nr..][..nr];
                total.iter_mut().zip(terms).for_each(|(total, term)| *total += *term);
            }
            if adjacent {
                grad[columns[0]..columns[0] + count].copy_from_slice(&total[..count]);
                continue;
            }
            for (column, total) in columns[..count].iter().zip(&*total) {
                grad[*column] = *total;
            }
        }
    }
}

/// Some columns of the weights that are computed side by side.
struct Unit {
    /// The block of channels.
    block: usize,
    /// The place of the first tap, in steps of the dilation.
    tap: [usize; 3],
    /// Lanes between that tap and the first column.
    skip: usize,
    /// The number of columns.
    lanes: usize,
}

/// Pixels of a plane of an image: whole rows, or a part of one.
#[derive(Clone)]
struct Piece {
    image: usize,
    plane: usize,
    rows: Range<usize>,
    cols: Range<usize>,
}

impl Piece {
    fn pixels(&self) -> usize {
        self.rows.len() * self.cols.len()
    }
}

struct Product<'a, T: 'static> {
    shape: &'a ConvShape,
    kernel: &'static MicroKernel<T>,
    input: &'a [T],
    output_grad: &'a [T],
    /// Channels that are neighbours: all, or as many as fill the lanes.
    width: usize,
    units: List<Unit>,
    /// For each unit, the columns of the weights in its `nr` lanes; where there is none, the number of columns.
    columns: List<usize>,
}

/// What a block of pixels needs of the input: places in each dimension.
#[derive(Clone, Copy, PartialEq)]
struct Slab([usize; 3]);

impl Slab {
    fn of(shape: &ConvShape, piece: &Piece) -> Slab {
        let reach = |d: usize, outputs: usize| {
            outputs.saturating_sub(1) * shape.stride[d] + (shape.kernel[d] - 1) * shape.dilate[d] + 1
        };
        Slab([reach(0, 1), reach(1, piece.rows.len()), reach(2, piece.cols.len())])
    }

    fn places(&self) -> usize {
        self.0.iter().product()
    }

    /// The number of a place.
    fn place(&self, at: [usize; 3]) -> usize {
        (at[0] * self.0[1] + at[1]) * self.0[2] + at[2]
    }
}

impl<'a, T: Accum> Product<'a, T> {
    fn new(shape: &'a ConvShape, input: &'a [T], output_grad: &'a [T]) -> Self {
        let kernel = T::microkernel();
        let (channels, nr, [planes, height, taps]) = (shape.group_in(), kernel.nr(), shape.kernel);
        let width = channels.min(nr);
        // Neighbouring taps fill the lanes together if they are neighbours in the input.
        let together = if channels < nr && shape.dilate[2] == 1 { taps } else { 1 };
        let (mut units, mut columns) = (List::default(), List::default());
        for (block, plane, row) in (0..channels.div_ceil(width))
            .flat_map(|block| (0..planes).flat_map(move |plane| (0..height).map(move |row| (block, plane, row))))
        {
            let side_by_side = together * width.min(channels - block * width);
            for (tap, skip) in
                (0..taps).step_by(together).flat_map(|tap| (0..side_by_side).step_by(nr).map(move |skip| (tap, skip)))
            {
                let lanes = nr.min(side_by_side - skip);
                units.push(Unit { block, tap: [plane, row, tap], skip, lanes });
                columns.extend((skip..skip + nr).map(|lane| {
                    let (channel, tap) = (block * width + lane % width, tap + lane / width);
                    let column = channel * shape.taps() + (plane * height + row) * taps + tap;
                    if lane < skip + lanes { column } else { shape.depth() }
                }));
            }
        }
        Product { shape, kernel, input, output_grad, width, units, columns }
    }

    /// Writes the gradients over `parts` parts of the batch: for each part, group and unit, rows of `nr` lanes.
    fn run(&self, parts: usize, sums: &mut [T]) {
        let unit = self.shape.group_out() * self.kernel.nr();
        // More threads than parts and groups divide the units, which changes no result.
        let share = num_threads().div_ceil(parts * self.shape.groups).min(self.units.len());
        let share = self.units.len().div_ceil(share);
        let sums = MatMut::row_major(sums, parts * self.shape.groups, self.units.len() * unit);
        parallel_blocks(sums, 1, share * unit, |row, column, mut out| {
            let (part, group, first) = (row / self.shape.groups, row % self.shape.groups, column / unit);
            let images = self.shape.batch * part / parts..self.shape.batch * (part + 1) / parts;
            let units = first..(first + share).min(self.units.len());
            self.part(group, images, units, out.row_mut(0));
        });
    }

    /// The gradient with respect to some columns of the weights of a group, over some images.
    fn part(&self, group: usize, images: Range<usize>, units: Range<usize>, sums: &mut [T]) {
        let (kernel, rows, nr) = (self.kernel, self.shape.group_out(), self.kernel.nr());
        let units = &self.units[units];
        let (Some(first), Some(last)) = (units.first(), units.last()) else { return };
        let blocks = first.block..last.block + 1;
        let (mut table, mut planned) = (StepTable::default(), None);
        let mut accumulate = false;
        self.blocks(images, |pieces| {
            let depth: usize = pieces.iter().map(Piece::pixels).sum();
            let slab = Slab::of(self.shape, &pieces[0]);
            let block = pieces.len() * slab.places() * self.width;
            if planned != Some((slab, depth)) {
                table = StepTable::new(self.places(pieces, &slab));
                planned = Some((slab, depth));
            }
            let inputs = blocks.len() * block + nr;
            with_scratch(inputs + kernel.packed_a_len(rows, depth), |buffer: &mut [T]| {
                let (inputs, grads) = buffer.split_at_mut(inputs);
                self.pack_inputs(group, pieces, &slab, &blocks, inputs);
                self.pack_grads(group, pieces, depth, grads);
                for row in (0..rows).step_by(kernel.mr()) {
                    let a = Panel { data: &grads[row * depth..], step: kernel.mr(), ahead: &[] };
                    for (unit, sums) in units.iter().zip(sums.chunks_exact_mut(rows * nr)) {
                        let place = slab.place(std::array::from_fn(|d| unit.tap[d] * self.shape.dilate[d]));
                        let start = (unit.block - blocks.start) * block + place * self.width + unit.skip;
                        let b = Steps { data: &inputs[start..], table: &table, first: 0 };
                        let cols = unit.lanes.next_multiple_of(kernel.lanes());
                        let c = MatMut::new(&mut sums[row * nr..], kernel.mr().min(rows - row), cols, nr);
                        kernel.indexed_tile(depth, T::one(), a, b, c, accumulate);
                    }
                }
            });
            accumulate = true;
        });
    }

    /// Cuts the pixels of the images into blocks: of several small planes, or of some rows or a part of a row.
    fn blocks(&self, images: Range<usize>, mut f: impl FnMut(&[Piece])) {
        let [planes, height, width] = self.shape.output();
        let all = images.flat_map(|image| (0..planes).map(move |plane| (image, plane)));
        let together = BLOCK / (height * width);
        if together > 1 {
            let whole = |(image, plane)| Piece { image, plane, rows: 0..height, cols: 0..width };
            let pieces: List<Piece> = all.map(whole).collect();
            return pieces.chunks(together).for_each(f);
        }
        // Parts of equal size, up to rounding.
        let rows = height.div_ceil(height.div_ceil((BLOCK / width).max(1)));
        let cols = if rows > 1 { width } else { width.div_ceil(width.div_ceil(BLOCK)) };
        for (image, plane) in all {
            for row in (0..height).step_by(rows) {
                for col in (0..width).step_by(cols) {
                    let (rows, cols) = (row..(row + rows).min(height), col..(col + cols).min(width));
                    f(&[Piece { image, plane, rows, cols }]);
                }
            }
        }
    }

    /// Where the first tap of each pixel is.
    fn places<'p>(&'p self, pieces: &'p [Piece], slab: &'p Slab) -> impl Iterator<Item = usize> + 'p {
        let [_, down, across] = self.shape.stride;
        pieces.iter().enumerate().flat_map(move |(i, piece)| {
            (0..piece.rows.len()).flat_map(move |row| {
                (0..piece.cols.len())
                    .map(move |col| (i * slab.places() + slab.place([0, row * down, col * across])) * self.width)
            })
        })
    }

    /// Packs the gradients of the output: a row for each channel of the group, a step for each pixel.
    fn pack_grads(&self, group: usize, pieces: &[Piece], depth: usize, out: &mut [T]) {
        let ([planes, height, width], mr) = (self.shape.output(), self.kernel.mr());
        let (rows, pixels) = (self.shape.group_out(), planes * height * width);
        let mut done = 0;
        for piece in pieces {
            let (channel, len) = (piece.image * self.shape.out_channels + group * rows, piece.pixels());
            let first = (piece.plane * height + piece.rows.start) * width + piece.cols.start;
            let grads = MatRef::new(&self.output_grad[channel * pixels + first..], rows, len, pixels, 1);
            for row in (0..rows).step_by(mr) {
                let panel = &mut out[row * depth + done * mr..][..mr * len];
                self.kernel.pack_a(grads.block(row, 0, mr.min(rows - row), len), panel);
            }
            done += len;
        }
    }

    /// Transposes what the pieces need of some blocks of channels; what lies in the padding is zero.
    fn pack_inputs(&self, group: usize, pieces: &[Piece], slab: &Slab, blocks: &Range<usize>, out: &mut [T]) {
        let (shape, [depth, height, width]) = (self.shape, self.shape.input);
        let (plane, channels, len) = (shape.input_plane(), shape.group_in(), slab.places() * self.width);
        if shape.pad != [0; 3] {
            out.fill(T::zero());
        }
        for (i, piece) in pieces.iter().enumerate() {
            let start = |d: usize, first: usize| (first * shape.stride[d]) as isize - shape.pad[d] as isize;
            let origin = [start(0, piece.plane), start(1, piece.rows.start), start(2, piece.cols.start)];
            let inside = |d: usize, size: usize| {
                let range = (-origin[d]).max(0)..(size as isize - origin[d]).min(slab.0[d] as isize);
                (range.start as usize..range.end.max(0) as usize, (origin[d] + range.start) as usize)
            };
            let ((ds, d0), (hs, h0), (ws, w0)) = (inside(0, depth), inside(1, height), inside(2, width));
            if ws.is_empty() {
                continue;
            }
            for (d, h) in ds.clone().flat_map(|d| hs.clone().map(move |h| (d, h))) {
                let from = ((d0 + d - ds.start) * height + h0 + h - hs.start) * width + w0;
                let to = slab.place([d, h, ws.start]) * self.width;
                for block in blocks.clone() {
                    let channel = block * self.width;
                    let lanes = self.width.min(channels - channel);
                    let first = (piece.image * shape.in_channels + group * channels + channel) * plane + from;
                    let rows = MatRef::new(&self.input[first..], lanes, ws.len(), plane, 1);
                    let out = &mut out[((block - blocks.start) * pieces.len() + i) * len + to..];
                    self.kernel.pack_lanes(rows, self.width, &mut out[..ws.len() * self.width]);
                }
            }
        }
    }
}
