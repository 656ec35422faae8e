//! The driver of `map`, `zip` and the broadcast kernels, which is compiled per lane type, but not per element type or formula.
//!
//! It processes the output in blocks. Operands that are lanes in memory are passed to the loop in place; all others (another
//! element type, a broadcast axis, the output itself) are first converted to a block buffer. Loops only get multiples of
//! [`LANE_MULTIPLE`] lanes, so they are compiled without a scalar remainder.

use super::lane::{Elements, ElementsMut, Lane, Load};
use crate::par::with_scratch;

/// The number of lanes that a loop gets is a multiple of this.
pub const LANE_MULTIPLE: usize = 64;
/// Lanes in a block buffer: three operands and a result in `f64` fit into the L1 cache.
const BLOCK: usize = 1024;
/// Elements per chunk; fixed, so that results do not depend on the number of threads.
pub(crate) const GRAIN: usize = 1 << 15;
/// The largest number of operands.
const MAX_OPERANDS: usize = 4;

/// A loop over lanes: `body(operands, result)`, where all operands have the length of the result.
pub(crate) type Body<'b, C, D> = dyn Fn(&[&[C]], &mut [D]) + Sync + 'b;

/// The source of an operand that has the shape of the output.
///
/// Rust slices cannot overlap a mutable one, so an operand that is the output's own memory is passed as [`Src::InPlace`] instead
/// of a slice. The caller must copy memory that overlaps the output in any other way.
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
    /// The longest contiguous run of lanes in memory from output index `start` on, if there is one.
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
            Operand::Constant(lane) => buf.fill(lane),
        }
    }

    /// True if all lanes are equal, so that a filled buffer stays valid.
    fn is_constant(&self) -> bool {
        matches!(self, Operand::Constant(_) | Operand::Strided(_, [(_, 0)]))
    }
}

/// The memory offset of output index `start`, its index along the innermost axis, and the (length, stride) of that axis.
fn locate(axes: &[(usize, usize)], start: usize) -> (usize, usize, (usize, usize)) {
    let (inner, outer) = match axes.split_last() {
        Some((inner, outer)) => (*inner, outer),
        None => ((1, 1), &[][..]),
    };
    let index = start % inner.0;
    let mut rest = start / inner.0;
    let mut offset = index * inner.1;
    // The outermost axis needs no division, which would take as long as a short run.
    let Some((outermost, middle)) = outer.split_first() else { return (offset, index, inner) };
    for &(n, stride) in middle.iter().rev() {
        offset += rest % n * stride;
        rest /= n;
    }
    (offset + rest * outermost.1, index, inner)
}

/// Writes the lanes for the output indices from `start` on to `buf`; `load(offset, run)` reads a contiguous run.
fn fill_strided<C: Lane>(axes: &[(usize, usize)], start: usize, buf: &mut [C], load: impl Fn(usize, &mut [C])) {
    let mut done = 0;
    while done < buf.len() {
        let (offset, index, (n, stride)) = locate(axes, start + done);
        let len = (n - index).min(buf.len() - done);
        let run = &mut buf[done..done + len];
        if stride == 0 {
            load(offset, &mut run[..1]);
            let lane = run[0];
            run.fill(lane);
        } else {
            load(offset, run);
        }
        done += len;
    }
}

/// Computes `out` from at most four operands. `body` is called with a multiple of [`LANE_MULTIPLE`] lanes at a time.
///
/// # Panics
/// If an operand differs in length from `out`.
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
    out.parallel_chunks(GRAIN, &|start, out| drive_chunk(operands, start, out, body));
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
    if rest.len() > LANE_MULTIPLE {
        with_scratch(operands.len() * BLOCK, |buffers: &mut [C]| {
            with_scratch(BLOCK, |result: &mut [D]| drive_blocks(operands, start, &mut rest, (buffers, result), body));
        });
    } else if !rest.is_empty() {
        drive_short(operands, start, &mut rest, body);
    }
}

/// Computes the chunk up to a multiple of [`LANE_MULTIPLE`] in place if all operands and the output are lanes in memory, and
/// returns the number of elements computed. Without buffers this has little overhead.
fn drive_in_place<C: Lane, D: Lane>(
    operands: &[Operand<'_, C>],
    start: usize,
    out: &mut ElementsMut<'_>,
    body: &Body<'_, C, D>,
) -> usize {
    let len = out.len() / LANE_MULTIPLE * LANE_MULTIPLE;
    let mut inputs = [&[][..]; MAX_OPERANDS];
    for (input, operand) in inputs.iter_mut().zip(operands) {
        match operand.run(start) {
            Some(run) if run.len() >= len => *input = &run[..len],
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
                operand.fill(index, block.as_elements(), buffer);
                filled[k] = true;
            }
        }
        let mut inputs = [&[][..]; MAX_OPERANDS];
        for (k, input) in inputs.iter_mut().enumerate().take(operands.len()) {
            *input = match runs[k] {
                Some(run) => &run[..padded_len],
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
