//! The driver of `map`, `zip` and the broadcast kernels, which is compiled per lane type, but not per element type or formula.
//!
//! It processes the output in blocks. Operands that are lanes in memory are passed to the loop in place; all others (another
//! element type, a broadcast axis, the output itself) are first converted to a block buffer. Loops only get multiples of
//! [`LANE_MULTIPLE`] lanes, so they are compiled without a scalar remainder. If nothing needs a conversion, the output is processed
//! row by row of its innermost axis instead, and the end of a row again in the [`LANE_MULTIPLE`] lanes before it.

use crate::lane::{Elements, ElementsMut, Lane, Load};
use crate::movement::fill_run;
use crate::par::{grain_for_all_threads, with_scratch};

/// The number of lanes that a loop gets is a multiple of this.
pub const LANE_MULTIPLE: usize = 64;
/// Lanes in a block buffer: three operands and a result in `f64` fit into the L1 cache.
const BLOCK: usize = 1024;
/// Elements per chunk; fixed, so that results do not depend on the number of threads.
pub(crate) const GRAIN: usize = 1 << 15;
/// The largest number of operands.
const MAX_OPERANDS: usize = 4;

/// A loop over lanes: `body(operands, result)`. An operand has either the length of the result or fewer lanes, which are repeated:
/// a multiple of [`LANE_MULTIPLE`], the same for all repeated operands.
pub(crate) type Body<'b, C, D> = dyn Fn(&[&[C]], &mut [D]) + Sync + 'b;

/// Lanes of a repeated constant: enough to amortize restarting the loop, few enough to write for each row.
pub(crate) const REPEATED: usize = 4 * LANE_MULTIPLE;

/// Splits the operands and the result of a loop into runs: as long as the repeated operands if there are any, else a single one.
pub(crate) struct Runs<'x, 'y, C, D, const N: usize> {
    operands: [&'x [C]; N],
    result: &'y mut [D],
    run: usize,
}

impl<'x, 'y, C, D, const N: usize> Runs<'x, 'y, C, D, N> {
    /// The runs of a multiple of [`LANE_MULTIPLE`] lanes.
    #[inline(always)]
    pub(crate) fn new(x: &[&'x [C]], y: &'y mut [D]) -> Self {
        let len = y.len() & !(LANE_MULTIPLE - 1);
        // Slices are stored as two words. Loading one as a single vector would fail store forwarding and stall, so the lengths
        // are computed anew.
        let operands: [&[C]; N] = std::array::from_fn(|k| &x[k][..x[k].len().min(len)]);
        let run = operands.iter().map(|x| x.len()).fold(len, usize::min);
        Runs { operands, result: &mut y[..len], run }
    }
}

impl<'x, 'y, C, D, const N: usize> Iterator for Runs<'x, 'y, C, D, N> {
    type Item = ([&'x [C]; N], &'y mut [D]);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let left = self.result.len();
        if left == 0 {
            return None;
        }
        let n = self.run.min(left);
        let (run, rest) = std::mem::take(&mut self.result).split_at_mut(n);
        self.result = rest;
        let operands = self.operands.map(|x| &x[..n]);
        for x in &mut self.operands {
            *x = if x.len() >= left { &x[n..] } else { x };
        }
        Some((operands, run))
    }
}

/// The source of an operand that has the shape of the output.
///
/// A slice must not overlap the mutable output, so an operand that is the output's own memory is passed as [`Src::InPlace`]. The
/// caller must copy memory that overlaps the output in any other way.
#[derive(Clone, Copy, Debug)]
pub enum Src<'a, T> {
    /// Memory disjoint from the output, of the output's length.
    Slice(&'a [T]),
    /// The output's memory: the operand is the output's old contents.
    InPlace,
    /// The same value for every element.
    Scalar(T),
}

impl<'a, T> Src<'a, T> {
    /// The number of elements; `None` if the output decides.
    pub fn len(&self) -> Option<usize> {
        match self {
            Src::Slice(s) => Some(s.len()),
            _ => None,
        }
    }

    /// True for an empty slice.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// The operand in lanes of type `C`.
    pub(crate) fn operand<C>(self) -> Operand<'a, C>
    where
        T: Load<C>,
    {
        match self {
            Src::Slice(s) => Operand::Elements(T::elements(s)),
            Src::InPlace => Operand::InPlace,
            Src::Scalar(v) => Operand::Constant(v.lane()),
        }
    }
}

impl<'a, T> From<&'a [T]> for Src<'a, T> {
    fn from(slice: &'a [T]) -> Self {
        Src::Slice(slice)
    }
}

impl<'a, T> From<&'a Vec<T>> for Src<'a, T> {
    fn from(vec: &'a Vec<T>) -> Self {
        Src::Slice(vec)
    }
}

/// An operand in lanes of type `C`; like [`Src`], for elements of any type.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a, C> {
    /// A contiguous array of the shape of the output.
    Elements(Elements<'a>),
    /// A broadcast array, with the (length, stride) of each axis of the output, the innermost last.
    Strided(Elements<'a>, &'a [(usize, usize)]),
    /// The output's old contents.
    InPlace,
    /// The same lane for every element.
    Constant(C),
}

impl<'a, C: Lane> Operand<'a, C> {
    /// The longest contiguous run of lanes in memory starting at output index `start`, if there is one.
    fn run(&self, start: usize) -> Option<&'a [C]> {
        match *self {
            Operand::Elements(elements) => C::view_any(elements).map(|lanes| &lanes[start..]),
            Operand::Strided(elements, axes) => {
                let lanes = C::view_any(elements)?;
                let (offset, index, (n, stride)) = locate(axes, start);
                if stride != 1 { None } else { Some(&lanes[offset..offset + n - index]) }
            }
            _ => None,
        }
    }

    /// The lanes of an operand that is the same in every row of the output, for whole rows from output index `start` on.
    fn repeated_row(&self, start: usize) -> Option<&'a [C]> {
        match *self {
            Operand::Strided(elements, &[(_, 0), (n, 1)])
                if n.is_multiple_of(LANE_MULTIPLE) && start.is_multiple_of(n) =>
            {
                C::view_any(elements)
            }
            _ => None,
        }
    }

    /// Writes the lanes for the output indices `start..start + buf.len()` to `buf`; `out` holds the current elements of the
    /// output there.
    fn fill(&self, start: usize, out: Elements<'_>, buf: &mut [C]) {
        match *self {
            Operand::Elements(elements) => C::load_any(elements, start, buf),
            Operand::Strided(elements, axes) => match C::view_any(elements) {
                Some(lanes) => {
                    fill_strided(axes, start, buf, |offset, run| {
                        run.copy_from_slice(&lanes[offset..offset + run.len()])
                    });
                }
                None => fill_strided(axes, start, buf, |offset, run| C::load_any(elements, offset, run)),
            },
            Operand::InPlace => C::load_any(out, 0, buf),
            Operand::Constant(lane) => fill_run(buf, lane),
        }
    }

    /// The lanes of a row starting at a position; `None` if they need a conversion.
    fn row(&self, RowPosition { row, len, index }: RowPosition) -> Option<Row<'a, C>> {
        match *self {
            Operand::Elements(elements) => C::view_any(elements).map(|lanes| Row::Lanes(&lanes[row * len + index..])),
            Operand::Strided(elements, axes) => {
                let lanes = C::view_any(elements)?;
                let (inner, outer) = axes.split_last()?;
                let offset = row_offset(outer, row);
                match inner.1 {
                    0 => Some(Row::Constant(lanes[offset])),
                    1 => Some(Row::Lanes(&lanes[offset + index..])),
                    _ => None,
                }
            }
            Operand::InPlace => None,
            Operand::Constant(lane) => Some(Row::Constant(lane)),
        }
    }

    /// True if all lanes are equal.
    fn is_constant(&self) -> bool {
        matches!(self, Operand::Constant(_) | Operand::Strided(_, [(_, 0)]))
    }
}

/// An index into a row of the innermost axis.
#[derive(Clone, Copy)]
struct RowPosition {
    row: usize,
    /// Length of a row.
    len: usize,
    index: usize,
}

/// The lanes of an operand along a row.
#[derive(Clone, Copy)]
enum Row<'a, C> {
    /// Lanes in memory, at least those of the row.
    Lanes(&'a [C]),
    /// The same lane for the whole row.
    Constant(C),
}

/// The memory offset of output index `start`, its index along the innermost axis, and the (length, stride) of that axis.
fn locate(axes: &[(usize, usize)], start: usize) -> (usize, usize, (usize, usize)) {
    let (inner, outer) = match axes.split_last() {
        Some((inner, outer)) => (*inner, outer),
        None => ((1, 1), &[][..]),
    };
    let index = start % inner.0;
    (row_offset(outer, start / inner.0) + index * inner.1, index, inner)
}

/// The memory offset of row `row`, where `axes` are the axes outside a row.
fn row_offset(axes: &[(usize, usize)], mut row: usize) -> usize {
    // The outermost axis needs no division, which would take as long as a short run.
    let Some((outermost, middle)) = axes.split_first() else { return 0 };
    let mut offset = 0;
    for &(n, stride) in middle.iter().rev() {
        offset += row % n * stride;
        row /= n;
    }
    offset + row * outermost.1
}

/// Writes the lanes for the output indices starting at `start` to `buf`; `load(offset, run)` reads a contiguous run.
fn fill_strided<C: Lane>(axes: &[(usize, usize)], start: usize, buf: &mut [C], load: impl Fn(usize, &mut [C])) {
    let mut done = 0;
    while done < buf.len() {
        let (offset, index, (n, stride)) = locate(axes, start + done);
        let len = (n - index).min(buf.len() - done);
        let run = &mut buf[done..done + len];
        if stride == 0 {
            load(offset, &mut run[..1]);
            let lane = run[0];
            fill_run(run, lane);
        } else {
            load(offset, run);
        }
        done += len;
    }
}

/// Computes `out` from at most four operands. `body` is called with a multiple of [`LANE_MULTIPLE`] lanes at a time.
///
/// # Panics
/// Panics if an operand differs in length from `out`.
pub(crate) fn drive<C: Lane, D: Lane>(operands: &[Operand<'_, C>], mut out: ElementsMut<'_>, body: &Body<'_, C, D>) {
    for operand in operands {
        if let Operand::Elements(x) = operand {
            let (len, out) = (x.len(), out.len());
            assert_eq!(len, out, "an operand of {len} elements does not fit an output of {out} elements");
        }
    }
    if out.len() <= LANE_MULTIPLE {
        return drive_short(operands, 0, &mut out, body);
    }
    if out.len() <= GRAIN {
        return drive_chunk(operands, 0, out, body);
    }
    let whole_rows = operands.iter().find_map(|operand| operand.repeated_row(0)).map_or(1, <[C]>::len);
    let multiple = if whole_rows <= GRAIN { whole_rows.max(LANE_MULTIPLE) } else { LANE_MULTIPLE };
    let grain = grain_for_all_threads(out.len(), GRAIN).next_multiple_of(multiple);
    out.parallel_chunks(grain, &|start, out| drive_chunk(operands, start, out, body));
}

/// Computes the chunk of the output that starts at index `start`.
fn drive_chunk<C: Lane, D: Lane>(
    operands: &[Operand<'_, C>],
    start: usize,
    mut out: ElementsMut<'_>,
    body: &Body<'_, C, D>,
) {
    let (done, len) = (drive_in_place(operands, start, &mut out, body), out.len());
    let (start, mut rest) = (start + done, out.part(done..len));
    if rest.is_empty() {
        return;
    }
    if rest.len() <= LANE_MULTIPLE {
        return drive_short(operands, start, &mut rest, body);
    }
    if !drive_rows(operands, start, &mut rest, body) {
        with_scratch(operands.len() * BLOCK, |buffers: &mut [C]| {
            with_scratch(BLOCK, |result: &mut [D]| drive_blocks(operands, start, &mut rest, (buffers, result), body));
        });
    }
}

/// Computes the elements row by row if rows are long and no operand needs a conversion; returns false otherwise.
fn drive_rows<C: Lane, D: Lane>(
    operands: &[Operand<'_, C>],
    start: usize,
    out: &mut ElementsMut<'_>,
    body: &Body<'_, C, D>,
) -> bool {
    let inner = operands.iter().find_map(|operand| match operand {
        Operand::Strided(_, axes) => axes.last().map(|axis| axis.0),
        _ => None,
    });
    let row_len = inner.unwrap_or(start + out.len());
    let mut at = RowPosition { row: start / row_len, len: row_len, index: start % row_len };
    let is_direct = operands.iter().all(|operand| operand.row(at).is_some());
    if row_len < LANE_MULTIPLE || !is_direct || D::view_any_mut(out).is_none() {
        return false;
    }
    let mut constants = [[C::default(); REPEATED]; MAX_OPERANDS];
    let mut done = 0;
    while done < out.len() {
        let len = (row_len - at.index).min(out.len() - done);
        match D::view_any_mut(out) {
            Some(lanes) if len >= LANE_MULTIPLE => {
                drive_row(operands, at, &mut lanes[done..done + len], &mut constants, body);
            }
            _ => drive_short(operands, start + done, &mut out.part(done..done + len), body),
        }
        done += len;
        at = RowPosition { row: at.row + 1, index: 0, ..at };
    }
    true
}

/// Computes the part of a row that starts at a position. `constants` are buffers for operands that are constant along the row.
fn drive_row<C: Lane, D: Lane>(
    operands: &[Operand<'_, C>],
    at: RowPosition,
    out: &mut [D],
    constants: &mut [[C; REPEATED]; MAX_OPERANDS],
    body: &Body<'_, C, D>,
) {
    let n = out.len() / LANE_MULTIPLE * LANE_MULTIPLE;
    // Lanes before the end are computed again, with the same result.
    let last = out.len() - LANE_MULTIPLE;
    let (mut inputs, mut last_inputs) = ([&[][..]; MAX_OPERANDS], [&[][..]; MAX_OPERANDS]);
    for (k, (operand, constant)) in operands.iter().zip(constants).enumerate() {
        (inputs[k], last_inputs[k]) = match operand.row(at) {
            Some(Row::Lanes(row)) => (&row[..n], &row[last..last + LANE_MULTIPLE]),
            Some(Row::Constant(lane)) => {
                fill_run(&mut constant[..REPEATED.min(n)], lane);
                (&constant[..REPEATED.min(n)], &constant[..LANE_MULTIPLE])
            }
            None => (&[][..], &[][..]),
        };
    }
    body(&inputs[..operands.len()], &mut out[..n]);
    if n < out.len() {
        body(&last_inputs[..operands.len()], &mut out[last..]);
    }
}

/// Computes the chunk up to a multiple of [`LANE_MULTIPLE`] in place if the output and all operands are lanes in memory, contiguous
/// or one row that is repeated, and returns the number of elements computed. Without buffers this has little overhead.
fn drive_in_place<C: Lane, D: Lane>(
    operands: &[Operand<'_, C>],
    start: usize,
    out: &mut ElementsMut<'_>,
    body: &Body<'_, C, D>,
) -> usize {
    let len = out.len() / LANE_MULTIPLE * LANE_MULTIPLE;
    let mut inputs = [&[][..]; MAX_OPERANDS];
    for (input, operand) in inputs.iter_mut().zip(operands) {
        match (operand.run(start), operand.repeated_row(start)) {
            (Some(run), _) if run.len() >= len => *input = &run[..len],
            (_, Some(row)) => *input = row,
            _ => return 0,
        }
    }
    let Some(lanes) = D::view_any_mut(out) else { return 0 };
    body(&inputs[..operands.len()], &mut lanes[..len]);
    len
}

/// Computes at most [`LANE_MULTIPLE`] elements with buffers on the stack.
fn drive_short<C: Lane, D: Lane>(
    operands: &[Operand<'_, C>],
    start: usize,
    out: &mut ElementsMut<'_>,
    body: &Body<'_, C, D>,
) {
    let mut buffers = [C::default(); MAX_OPERANDS * LANE_MULTIPLE];
    let mut result = [D::default(); LANE_MULTIPLE];
    drive_blocks(operands, start, out, (&mut buffers, &mut result), body);
}

/// Computes the elements block by block. `result` is the buffer for the result; `buffers` has one of the same length per operand.
fn drive_blocks<C: Lane, D: Lane>(
    operands: &[Operand<'_, C>],
    start: usize,
    out: &mut ElementsMut<'_>,
    (buffers, result): (&mut [C], &mut [D]),
    body: &Body<'_, C, D>,
) {
    let max = result.len();
    let mut filled = [false; MAX_OPERANDS];
    let mut done = 0;
    while done < out.len() {
        let index = start + done;
        let rest = out.len() - done;
        let mut runs = [None; MAX_OPERANDS];
        let mut n = rest;
        for (run, operand) in runs.iter_mut().zip(operands) {
            *run = operand.run(index).filter(|run| run.len() >= LANE_MULTIPLE && rest >= LANE_MULTIPLE);
            n = n.min(run.map_or(max, <[C]>::len));
        }
        let is_direct = n >= LANE_MULTIPLE && D::view_any_mut(out).is_some();
        if !is_direct {
            n = n.min(max);
        }
        let padded_len = if n >= LANE_MULTIPLE { n / LANE_MULTIPLE * LANE_MULTIPLE } else { LANE_MULTIPLE };
        let n = n.min(padded_len);
        let mut block = out.part(done..done + n);
        for (k, operand) in operands.iter().enumerate().filter(|(k, _)| runs[*k].is_none()) {
            let buffer = &mut buffers[k * max..(k + 1) * max];
            if !operand.is_constant() {
                operand.fill(index, block.as_elements(), &mut buffer[..n]);
                if n < padded_len {
                    let last = buffer[n - 1];
                    buffer[n..padded_len].fill(last);
                }
            } else if !filled[k] {
                operand.fill(index, block.as_elements(), &mut buffer[..REPEATED.min(max)]);
                filled[k] = true;
            }
        }
        let mut inputs = [&[][..]; MAX_OPERANDS];
        for (k, input) in inputs.iter_mut().enumerate().take(operands.len()) {
            *input = match runs[k] {
                Some(run) => &run[..padded_len],
                None if filled[k] => &buffers[k * max..k * max + padded_len.min(REPEATED)],
                None => &buffers[k * max..k * max + padded_len],
            };
        }
        let inputs = &inputs[..operands.len()];
        match D::view_any_mut(&mut block) {
            Some(lanes) if is_direct => body(inputs, lanes),
            _ => {
                body(inputs, &mut result[..padded_len]);
                D::store_any(&result[..n], block);
            }
        }
        done += n;
    }
}
