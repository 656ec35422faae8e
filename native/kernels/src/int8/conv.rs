//! Convolutions as implicit GEMM.
//!
//! The image is copied once, padded, with groups of channels interleaved into words and split into one phase per residue of the
//! stride. The words that a tap reads for neighboring outputs are then contiguous, at a fixed offset, and tiles read them in
//! place. Outputs are computed for all columns of the padded phases; those between rows are discarded.

use super::depthwise::Kernels;
use super::epilogue::{Channels, overwrite};
use super::padded_layout::{FillRun, PaddedLayout, fill_phases};
use super::{Encoder, Epilogue, Int8, Int8Weights, OutputElement};
use crate::conv::ConvShape;
use crate::par::{self, AlignedVec, MatMut, with_scratch};
use crate::simd::int8::{COLS, Layout, ROWS, Tile};
use crate::simd::multiversion::{self, Multiversioned};

/// Output channels in a chunk.
const CHUNK_FILTERS: usize = 128;
/// Approximate pixels in a chunk.
const CHUNK_PIXELS: usize = 256;
/// Minimum number of images x groups at which each is a chunk.
const MANY_IMAGES: usize = 4;

/// The weights of a convolution in one or two dimensions, packed.
pub struct ConvWeights {
    layout: Layout,
    /// (convolution groups, tiles of filters, groups of k indices, [`ROWS`] filters).
    words: AlignedVec<i32>,
    /// The sum of the weights of each filter.
    sums: Vec<i32>,
    /// The kernels of a depthwise convolution, which uses no words.
    kernels: Option<Kernels>,
}

/// True if every group has one input and one output channel.
fn is_depthwise(shape: &ConvShape) -> bool {
    shape.groups == shape.in_channels && shape.groups == shape.out_channels
}

impl ConvWeights {
    /// Packs weights (out_channels, in_channels / groups, kernel).
    ///
    /// # Panics
    /// Panics if a length does not match, or the shape has three dimensions.
    pub fn new(shape: &ConvShape, weights: &Int8Weights<'_>) -> ConvWeights {
        let taps = shape.kernel[1] * shape.kernel[2];
        let (inputs, filters) = (shape.in_channels / shape.groups, shape.out_channels / shape.groups);
        assert!(shape.kernel[0] == 1 && shape.input[0] == 1, "a convolution in three dimensions");
        assert_eq!(weights.bytes.len(), shape.out_channels * inputs * taps, "elements of the weights of {shape:?}");
        assert!([1, shape.out_channels].contains(&weights.zeros.len()), "zero points of {shape:?}");
        if is_depthwise(shape) {
            let kernels = Kernels::new(shape, weights);
            let (words, sums) = (AlignedVec::zeroed(0), vec![0; shape.out_channels]);
            return ConvWeights { layout: Layout::Words, words, sums, kernels: Some(kernels) };
        }
        let layout = weights.layout();
        let channel_groups = inputs.div_ceil(layout.group());
        let groups = channel_groups * taps;
        let tiles = filters.div_ceil(ROWS);
        let mut words = AlignedVec::zeroed(shape.groups * tiles * groups * ROWS);
        let mut sums = vec![0; shape.out_channels];
        for (tile, words) in words.chunks_exact_mut((groups * ROWS).max(1)).enumerate() {
            let (conv_group, first) = (tile / tiles, tile % tiles * ROWS);
            for lane in 0..ROWS.min(filters - first) {
                let filter = conv_group * filters + first + lane;
                let (encoder, bytes) =
                    (Encoder::weights(weights, filter, layout), &weights.bytes[filter * inputs * taps..]);
                for group in 0..groups {
                    let (channel, tap) = (group / taps * layout.group(), group % taps);
                    let term = |i: usize| (channel + i < inputs).then(|| bytes[(channel + i) * taps + tap]);
                    let word = encoder.word(term);
                    words[group * ROWS + lane] = word;
                    sums[filter] = i32::wrapping_add(sums[filter], encoder.sum_of_terms(word));
                }
            }
        }
        ConvWeights { layout, words, sums, kernels: None }
    }
}

/// Convolves `x` (batch, in_channels, input) into `out` (batch, out_channels, output), requantized by the epilogue. The padding is
/// the zero point of `x`.
///
/// # Panics
/// Panics if a length does not match, or the shape has three dimensions.
pub fn conv_int8<T: OutputElement>(
    shape: &ConvShape,
    x: Int8<'_>,
    weights: &ConvWeights,
    epilogue: &Epilogue<'_>,
    out: &mut [T],
) {
    assert_eq!(x.bytes.len(), shape.input_len(), "elements of the input of {shape:?}");
    assert_eq!(out.len(), shape.output_len(), "elements of the output of {shape:?}");
    assert_eq!(weights.sums.len(), shape.out_channels, "filters of {shape:?}");
    epilogue.check(shape.out_channels);
    if let Some(kernels) = &weights.kernels {
        return kernels.convolve(shape, x, epilogue, out);
    }
    let encoder = Encoder::data(x, weights.layout);
    if out.is_empty() {
        return;
    }
    let padded = PaddedLayout::new(shape, weights.layout);
    let (filters, inputs) = (shape.out_channels / shape.groups, x.bytes.len() / (shape.batch * shape.groups));
    let channels: Vec<Channels> = (0..shape.groups)
        .map(|g| {
            let range = g * filters..(g + 1) * filters;
            let epilogue = Epilogue {
                bias: epilogue.bias.get(range.clone()).unwrap_or(&[]),
                scale: epilogue.scale.get(range.clone()).unwrap_or(&[]),
                shift: epilogue.shift.get(range.clone()).unwrap_or(&[]),
                limits: epilogue.limits,
            };
            Channels::new(&epilogue, &weights.sums[range], encoder)
        })
        .collect();
    let words = weights.words.len() / shape.groups;
    let convolve_group = |i: usize, out: &mut [T]| {
        let g = i % shape.groups;
        let (image, weights) = (&x.bytes[i * inputs..][..inputs], &weights.words[g * words..][..words]);
        padded.convolve(image, encoder, weights, &channels[g], MatMut::row_major(out, filters, padded.pixels()));
    };
    let len = filters * padded.pixels();
    if shape.batch * shape.groups >= MANY_IMAGES {
        par::parallel_rows(out, len, 1, convolve_group);
    } else {
        out.chunks_exact_mut(len).enumerate().for_each(|(i, out)| convolve_group(i, out));
    }
}

impl PaddedLayout {
    /// Convolves one group of one image.
    fn convolve<T: OutputElement>(
        &self,
        image: &[u8],
        encoder: Encoder,
        weights: &[i32],
        channels: &Channels,
        out: MatMut<'_, T>,
    ) {
        let (group, source) = (self.layout.group(), self.shape.input[1] * self.shape.input[2]);
        let per_group = self.group_words();
        let filled = self.inputs.div_ceil(group) * per_group;
        with_scratch(self.words(), |words: &mut [i32]| {
            let grain = ((1 << 15) / per_group.max(1)).max(1);
            par::parallel_rows(&mut words[..filled], per_group, grain, |i, to| {
                let channels = &image[i * group * source..self.inputs.min((i + 1) * group) * source];
                multiversion::run(FillWords { padded: self, channels, encoder, to });
            });
            let words = &*words;
            let rows = CHUNK_PIXELS.div_ceil(self.output[1]);
            par::parallel_blocks(out, CHUNK_FILTERS, rows * self.output[1], |filter, pixel, mut out| {
                let y = pixel / self.output[1];
                let first = [filter, y];
                self.convolve_chunk(words, weights, channels, first, &mut out);
            });
        });
    }

    /// Computes a chunk of the output, whose rows are filters and whose columns are whole rows of pixels. `first` is its first
    /// filter and its first row of pixels.
    fn convolve_chunk<T: OutputElement>(
        &self,
        words: &[i32],
        weights: &[i32],
        channels: &Channels,
        [first, first_row]: [usize; 2],
        out: &mut MatMut<'_, T>,
    ) {
        let rows = first_row..first_row + out.cols() / self.output[1];
        let width = self.grid[1];
        let (start, end) = (rows.start * width, (rows.end - 1) * width + self.output[1]);
        let tile_words = self.offsets.len() * ROWS;
        let (mut sums, mut results) = ([0; ROWS * COLS], [T::default(); (ROWS + 1) * COLS]);
        for start_col in (start..end).step_by(COLS) {
            let num_cols = COLS.min(end - start_col);
            let (segments, num_segments) = self.segments(start_col, num_cols, rows.start);
            for filter in (0..out.rows()).step_by(ROWS) {
                let num_rows = ROWS.min(out.rows() - filter);
                let tile = Tile {
                    rows: &weights[(first + filter) / ROWS * tile_words..][..tile_words],
                    columns: &words[start_col..],
                    offsets: &self.offsets,
                    num_rows,
                    num_cols,
                    has_data_rows: false,
                };
                channels.multiply(first + filter, &tile, self.layout, &mut sums, &mut results);
                for r in 0..num_rows {
                    let row = out.row_mut(filter + r);
                    for [from, to, len] in &segments[..num_segments] {
                        if let Some(from) = results[r * COLS + from..].first_chunk::<COLS>() {
                            overwrite(from, &mut row[*to..], *len);
                        }
                    }
                }
            }
        }
    }

    /// The segments of a tile of `len` columns that are outputs: column in the tile, index among the outputs starting at `row`, length.
    fn segments(&self, start_col: usize, len: usize, row: usize) -> ([[usize; 3]; COLS], usize) {
        let (mut segments, mut count) = ([[0; 3]; COLS], 0);
        if self.grid[1] == self.output[1] {
            segments[0] = [0, start_col - row * self.output[1], len];
            return (segments, 1);
        }
        let (mut col, end) = (start_col, start_col + len);
        while col < end {
            let (y, x) = (col / self.grid[1], col % self.grid[1]);
            let next = (y + 1) * self.grid[1];
            if x < self.output[1] {
                let run = (self.output[1] - x).min(end - col);
                segments[count] = [col - start_col, (y - row) * self.output[1] + x, run];
                count += 1;
            }
            col = next;
        }
        (segments, count)
    }
}

/// Copies a group of channels to the phases, interleaved into words.
struct FillWords<'a> {
    padded: &'a PaddedLayout,
    channels: &'a [u8],
    encoder: Encoder,
    to: &'a mut [i32],
}

impl Multiversioned for FillWords<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let FillWords { padded, channels, encoder, to } = self;
        let shape = &padded.shape;
        let [_, height, width] = shape.input;
        let source = height * width;
        let last = channels.len() / source - 1;
        // The last channel substitutes for missing ones, whose weights are zero.
        let planes: [&[u8]; 4] = std::array::from_fn(|i| &channels[i.min(last) * source..][..source]);
        if shape.stride == [1; 3] && shape.pad == [0; 3] && padded.grid == [height, width] {
            return interleave(planes, encoder, &mut to[..source]);
        }
        fill_phases(padded, to, encoder.zero_word(), &Words { planes, encoder });
    }
}

struct Words<'a> {
    planes: [&'a [u8]; 4],
    encoder: Encoder,
}

impl FillRun<i32> for Words<'_> {
    #[inline(always)]
    fn fill(&self, first: usize, stride: usize, to: &mut [i32]) {
        let encoder = self.encoder;
        if stride == 1 {
            return interleave(self.planes.map(|plane| &plane[first..first + to.len()]), encoder, to);
        }
        let word = |terms: [u8; 4]| match encoder.layout {
            Layout::Bytes => encoder.four(terms),
            Layout::Words => encoder.two([terms[0], terms[1]]),
        };
        let mut done = 0;
        if stride == 2 {
            // The last element may have no neighbor.
            done = to.len() - 1;
            let [a, b, c, d] = self.planes.map(|plane| &plane[first..first + 2 * done].as_chunks::<2>().0[..done]);
            for ((((word, a), b), c), d) in to.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *word = match encoder.layout {
                    Layout::Bytes => encoder.four([a[0], b[0], c[0], d[0]]),
                    Layout::Words => encoder.two([a[0], b[0]]),
                };
            }
        }
        for (i, to) in to.iter_mut().enumerate().skip(done) {
            *to = word(self.planes.map(|plane| plane[first + i * stride]));
        }
    }
}

/// Interleaves the elements of contiguous runs of up to four channels.
#[inline(always)]
fn interleave([a, b, c, d]: [&[u8]; 4], encoder: Encoder, to: &mut [i32]) {
    let terms = to.iter_mut().zip(a).zip(b);
    match encoder.layout {
        Layout::Bytes => {
            for ((((word, a), b), c), d) in terms.zip(c).zip(d) {
                *word = encoder.four([*a, *b, *c, *d]);
            }
        }
        Layout::Words => terms.for_each(|((word, a), b)| *word = encoder.two([*a, *b])),
    }
}
