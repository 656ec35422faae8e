//! Matrix views: strided ones to read, and row-major ones to write, which threads can divide into disjoint blocks.

use super::parallel_for;
use std::marker::PhantomData;

/// A read-only matrix: element (i, j) is `data[i * row_stride + j * col_stride]`.
#[derive(Clone, Copy)]
pub struct MatRef<'a, T> {
    data: &'a [T],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

/// One more than the largest offset of an element of the matrix; `None` on overflow.
fn extent(rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Option<usize> {
    if rows == 0 || cols == 0 {
        return Some(0);
    }
    let last_row = (rows - 1).checked_mul(row_stride)?;
    last_row.checked_add((cols - 1).checked_mul(col_stride)?)?.checked_add(1)
}

fn check(len: usize, rows: usize, cols: usize, row_stride: usize, col_stride: usize) {
    assert!(
        extent(rows, cols, row_stride, col_stride).is_some_and(|extent| extent <= len),
        "a {rows} x {cols} matrix with strides {row_stride} and {col_stride} does not fit into {len} elements"
    );
}

impl<'a, T> MatRef<'a, T> {
    /// A `rows` x `cols` matrix with strides in elements.
    ///
    /// # Panics
    /// Panics if `data` is too short.
    pub fn new(data: &'a [T], rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Self {
        check(data.len(), rows, cols, row_stride, col_stride);
        MatRef { data, rows, cols, row_stride, col_stride }
    }

    /// A dense row-major `rows` x `cols` matrix.
    ///
    /// # Panics
    /// Panics if `data` is too short.
    pub fn row_major(data: &'a [T], rows: usize, cols: usize) -> Self {
        Self::new(data, rows, cols, cols, 1)
    }

    /// The transpose.
    pub fn t(self) -> Self {
        let MatRef { data, rows, cols, row_stride, col_stride } = self;
        MatRef { data, rows: cols, cols: rows, row_stride: col_stride, col_stride: row_stride }
    }

    /// The transpose if `transposed`, otherwise the matrix: BLAS's op(A).
    pub fn t_if(self, transposed: bool) -> Self {
        if transposed { self.t() } else { self }
    }

    /// The `rows` x `cols` block that starts at (`row`, `col`).
    ///
    /// # Panics
    /// Panics if the block does not lie within the matrix.
    pub fn block(self, row: usize, col: usize, rows: usize, cols: usize) -> Self {
        check_block((self.rows, self.cols), row, col, rows, cols);
        let start = if rows == 0 || cols == 0 { 0 } else { row * self.row_stride + col * self.col_stride };
        MatRef { data: &self.data[start..], rows, cols, ..self }
    }

    /// The slice that starts with the first element of the matrix.
    pub fn data(self) -> &'a [T] {
        self.data
    }

    /// The number of rows.
    pub fn rows(self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn cols(self) -> usize {
        self.cols
    }

    /// The stride between rows, in elements.
    pub fn row_stride(self) -> usize {
        self.row_stride
    }

    /// The stride between columns, in elements.
    pub fn col_stride(self) -> usize {
        self.col_stride
    }
}

fn check_block((all_rows, all_cols): (usize, usize), row: usize, col: usize, rows: usize, cols: usize) {
    let fits = |start: usize, len: usize, all: usize| start.checked_add(len).is_some_and(|end| end <= all);
    assert!(
        fits(row, rows, all_rows) && fits(col, cols, all_cols),
        "the {rows} x {cols} block at ({row}, {col}) is outside a {all_rows} x {all_cols} matrix"
    );
}

/// An exclusive view of a row-major matrix: element (i, j) is at offset `i * row_stride + j`.
///
/// Unlike a slice it can be split into blocks of columns, so that threads can write different columns of the same rows.
pub struct MatMut<'a, T> {
    start: *mut T,
    rows: usize,
    cols: usize,
    row_stride: usize,
    data: PhantomData<&'a mut [T]>,
}

// SAFETY: a `MatMut` is equivalent to `&mut` references to its elements.
unsafe impl<T: Send> Send for MatMut<'_, T> {}

impl<'a, T> MatMut<'a, T> {
    /// A `rows` x `cols` matrix with a row stride (leading dimension) in elements.
    ///
    /// # Panics
    /// Panics if `data` is too short, or rows would overlap.
    pub fn new(data: &'a mut [T], rows: usize, cols: usize, row_stride: usize) -> Self {
        check(data.len(), rows, cols, row_stride, 1);
        assert!(row_stride >= cols || rows <= 1, "rows of {cols} elements overlap at a distance of {row_stride}");
        MatMut { start: data.as_mut_ptr(), rows, cols, row_stride, data: PhantomData }
    }

    /// A dense `rows` x `cols` matrix.
    ///
    /// # Panics
    /// Panics if `data` is too short.
    pub fn row_major(data: &'a mut [T], rows: usize, cols: usize) -> Self {
        Self::new(data, rows, cols, cols)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The stride between rows, in elements.
    pub fn row_stride(&self) -> usize {
        self.row_stride
    }

    /// A pointer to the first element; element (i, j) is at offset `i * row_stride + j`.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        self.start
    }

    /// The elements of one row.
    ///
    /// # Panics
    /// Panics if there is no such row.
    pub fn row_mut(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows, "row {row} of a matrix with {} rows", self.rows);
        // SAFETY: the row lies within the borrowed elements (checked in `new` and `block`), which only `self` covers.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.row_stride), self.cols) }
    }

    /// All elements of a dense matrix.
    ///
    /// # Panics
    /// Panics if there is a gap between the rows.
    pub fn dense_mut(&mut self) -> &mut [T] {
        let (rows, cols, stride) = (self.rows, self.cols, self.row_stride);
        assert!(stride == cols || rows <= 1, "rows of {cols} elements with a stride of {stride} are not dense");
        // SAFETY: without gaps, the borrowed elements are those of the rows, which only `self` covers.
        unsafe { std::slice::from_raw_parts_mut(self.start, rows * cols) }
    }

    /// The `rows` x `cols` block that starts at (`row`, `col`).
    ///
    /// # Panics
    /// Panics if the block does not lie within the matrix.
    pub fn block(&mut self, row: usize, col: usize, rows: usize, cols: usize) -> MatMut<'_, T> {
        check_block((self.rows, self.cols), row, col, rows, cols);
        // SAFETY: the block lies within the matrix, as checked, and `self` stays borrowed while it is in use.
        unsafe { self.block_unchecked(row, col, rows, cols) }
    }

    /// A contiguous column, viewed as a row.
    ///
    /// # Panics
    /// Panics if there are several columns, or the row stride is not 1.
    pub fn into_row(self) -> MatMut<'a, T> {
        assert!(
            self.cols == 1 && self.row_stride == 1,
            "a {} x {} matrix with a row stride of {} is not a dense column",
            self.rows,
            self.cols,
            self.row_stride
        );
        MatMut { rows: 1, cols: self.rows, row_stride: self.rows, ..self }
    }

    /// # Safety
    /// The block must lie within the matrix and overlap no other reference while it is in use.
    unsafe fn block_unchecked<'b>(&self, row: usize, col: usize, rows: usize, cols: usize) -> MatMut<'b, T> {
        let offset = if rows == 0 || cols == 0 { 0 } else { row * self.row_stride + col };
        // SAFETY: the offset is that of an element of the matrix, or zero.
        let start = unsafe { self.start.add(offset) };
        MatMut { start, rows, cols, row_stride: self.row_stride, data: PhantomData }
    }
}

struct Shared<'m, 'a, T>(&'m MatMut<'a, T>);

// SAFETY: used in `parallel_blocks` only, to hand out disjoint blocks, which is sending `T` to other threads.
unsafe impl<T: Send> Sync for Shared<'_, '_, T> {}

impl<T> Shared<'_, '_, T> {
    fn get(&self) -> &MatMut<'_, T> {
        self.0
    }
}

/// Divides `matrix` into blocks of `block_rows` x `block_cols` elements (fewer at the lower and right edges) and calls
/// `f(row, col, block)` for each in parallel, with the indices of its first row and column. Each block is one chunk.
pub(crate) fn parallel_blocks<T: Send>(
    matrix: MatMut<'_, T>,
    block_rows: usize,
    block_cols: usize,
    f: impl Fn(usize, usize, MatMut<'_, T>) + Sync,
) {
    let rows = matrix.rows;
    parallel_blocks_of_groups(matrix, rows, [block_rows, block_cols], f);
}

/// Like [`parallel_blocks`], for a matrix of groups of `group_rows` rows, such as the channels of an image. Each group is divided into
/// blocks of its own, and the blocks of all groups are chunks of one loop.
pub(crate) fn parallel_blocks_of_groups<T: Send>(
    matrix: MatMut<'_, T>,
    group_rows: usize,
    [block_rows, block_cols]: [usize; 2],
    f: impl Fn(usize, usize, MatMut<'_, T>) + Sync,
) {
    let (group_rows, block_rows, block_cols) = (group_rows.max(1), block_rows.max(1), block_cols.max(1));
    let (blocks_down, blocks_across) = (group_rows.div_ceil(block_rows), matrix.cols.div_ceil(block_cols));
    let (groups, cols) = (matrix.rows.div_ceil(group_rows), matrix.cols);
    let shared = Shared(&matrix);
    parallel_for(groups * blocks_down * blocks_across, |chunk| {
        let (group, block) = (chunk / (blocks_down * blocks_across), chunk % (blocks_down * blocks_across));
        // Column by column, so that the smaller blocks of the lower edge are spread evenly over the chunks.
        let (row, col) = (group * group_rows + block % blocks_down * block_rows, block / blocks_down * block_cols);
        let end = shared.get().rows.min((group + 1) * group_rows);
        let (block_rows, block_cols) = (block_rows.min(end.saturating_sub(row)), block_cols.min(cols - col));
        if block_rows > 0 {
            // SAFETY: the block lies within the matrix; each one is visited once, and blocks do not overlap.
            f(row, col, unsafe { shared.get().block_unchecked(row, col, block_rows, block_cols) });
        }
    });
}
