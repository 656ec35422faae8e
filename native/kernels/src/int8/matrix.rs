//! Products with a constant matrix, as in a fully connected layer.

use super::epilogue::Channels;
use super::{Encoder, Epilogue, Int8, Int8Weights, OutputElement};
use crate::par::{self, AlignedVec, MatMut, MatRef, with_scratch};
use crate::simd::int8::{COLS, Layout, Offsets, ROWS, Tile};

/// Rows and columns of a chunk.
const CHUNK: [usize; 2] = [64, 2 * COLS];
/// Products of fewer multiply-adds run on the calling thread.
const PARALLEL_WORK: usize = 1 << 18;

/// A constant matrix (K, N), packed as the right operand. Its columns are the output channels.
pub struct MatrixWeights {
    layout: Layout,
    depth: usize,
    cols: usize,
    /// (panels, groups of k indices, [`COLS`]).
    words: AlignedVec<i32>,
    offsets: Offsets,
    /// The sum of the weights of each column.
    sums: Vec<i32>,
}

impl MatrixWeights {
    /// Packs `matrix`, a view of `weights.bytes`. Its columns are the channels of the zero points.
    ///
    /// # Panics
    /// Panics if there are neither one nor `matrix.cols()` zero points.
    pub fn new(weights: &Int8Weights<'_>, matrix: MatRef<'_, u8>) -> MatrixWeights {
        let (depth, cols, layout) = (matrix.rows(), matrix.cols(), weights.layout());
        assert!([1, cols].contains(&weights.zeros.len()), "{} zero points of {cols} columns", weights.zeros.len());
        let groups = depth.div_ceil(layout.group());
        let mut words = AlignedVec::zeroed(cols.div_ceil(COLS) * groups * COLS);
        let mut sums = vec![0; cols];
        let (data, strides) = (matrix.data(), [matrix.row_stride(), matrix.col_stride()]);
        par::parallel_rows2((&mut *words, groups * COLS), (&mut sums, COLS), 1, |panel, words, sums| {
            for (lane, sum) in sums.iter_mut().enumerate() {
                let col = panel * COLS + lane;
                let encoder = Encoder::weights(weights, col, layout);
                for group in 0..groups {
                    let term = |i: usize| {
                        let row = group * layout.group() + i;
                        (row < depth).then(|| data[row * strides[0] + col * strides[1]])
                    };
                    let word = encoder.word(term);
                    words[group * COLS + lane] = word;
                    *sum = i32::wrapping_add(*sum, encoder.sum_of_terms(word));
                }
            }
        });
        MatrixWeights { layout, depth, cols, words, offsets: Offsets::new((0..groups).map(|g| g * COLS)), sums }
    }
}

/// `out` = `x` `w`, requantized by the epilogue, for `x` (M, K), `w` (K, N) and `out` (M, N).
///
/// # Panics
/// Panics if the shapes do not match.
pub fn gemm_int8<T: OutputElement>(x: Int8<'_>, w: &MatrixWeights, epilogue: &Epilogue<'_>, out: MatMut<'_, T>) {
    let (m, n, k) = (out.rows(), out.cols(), w.depth);
    assert!(x.bytes.len() == m * k && n == w.cols, "({m}, {k}) times ({k}, {}) is not ({m}, {n})", w.cols);
    epilogue.check(n);
    if m * n == 0 {
        return;
    }
    let groups = w.offsets.len();
    let encoder = Encoder::data(x, w.layout);
    let channels = Channels::new(epilogue, &w.sums, encoder);
    let [chunk_rows, chunk_cols] = if m * n * k < PARALLEL_WORK { [m, n.next_multiple_of(COLS)] } else { CHUNK };
    with_scratch(m.div_ceil(ROWS) * groups * ROWS, |rows: &mut [i32]| {
        if groups > 0 {
            par::parallel_rows(rows, groups * ROWS, chunk_rows.div_ceil(ROWS), |tile, words| {
                let first = tile * ROWS;
                pack_rows(encoder, &x.bytes[first * k..m.min(first + ROWS) * k], k, words);
            });
        }
        let rows = &*rows;
        par::parallel_blocks(out, chunk_rows, chunk_cols, |row, col, mut out| {
            let (mut sums, mut results) = ([0; ROWS * COLS], [T::default(); (ROWS + 1) * COLS]);
            for j in (0..out.cols()).step_by(COLS) {
                let num_cols = COLS.min(out.cols() - j);
                let columns = &w.words[(col + j) * groups..][..groups * COLS];
                for i in (0..out.rows()).step_by(ROWS) {
                    let num_rows = ROWS.min(out.rows() - i);
                    let rows = &rows[(row + i) * groups..][..groups * ROWS];
                    let offsets = &w.offsets;
                    let tile = Tile { rows, columns, offsets, num_rows, num_cols, has_data_rows: true };
                    channels.multiply(col + j, &tile, w.layout, &mut sums, &mut results);
                    for (r, results) in results.chunks_exact(COLS).enumerate().take(num_rows) {
                        out.row_mut(i + r)[j..j + num_cols].copy_from_slice(&results[..num_cols]);
                    }
                }
            }
        });
    });
}

/// Packs up to [`ROWS`] rows of depth `k` as the words of a tile, (groups of k indices, [`ROWS`]).
fn pack_rows(encoder: Encoder, rows: &[u8], k: usize, words: &mut [i32]) {
    words.fill(0);
    for (lane, row) in rows.chunks_exact(k.max(1)).enumerate() {
        match encoder.layout {
            Layout::Bytes => {
                let (groups, tail) = row.as_chunks::<4>();
                let mut words = words.iter_mut().skip(lane).step_by(ROWS);
                groups.iter().zip(&mut words).for_each(|(terms, word)| *word = encoder.four(*terms));
                if let Some(word) = words.next() {
                    *word = encoder.word(|i| tail.get(i).copied());
                }
            }
            Layout::Words => {
                let (groups, tail) = row.as_chunks::<2>();
                let mut words = words.iter_mut().skip(lane).step_by(ROWS);
                groups.iter().zip(&mut words).for_each(|(terms, word)| *word = encoder.two(*terms));
                if let Some(word) = words.next() {
                    *word = encoder.word(|i| tail.get(i).copied());
                }
            }
        }
    }
}
