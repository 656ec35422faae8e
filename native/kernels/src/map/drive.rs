//! The driver of `map`, `zip` and the broadcast kernels: it knows lanes, but neither element types nor formulas.
//!
//! It processes the output in blocks. Operands that are lanes in memory are passed to the loop in place; all others (another
//! element type, a broadcast axis, the output itself) are first converted to a block buffer. Loops only get whole multiples of
//! [`STEP`] lanes, so they are compiled without a scalar remainder.

use super::lane::{Elements, ElementsMut, Lane, Load};
use crate::par::with_scratch;

/// Loops get lengths that are multiples of this.
pub(crate) const STEP: usize = 64;
/// Lanes in a block buffer: three operands and a result in `f64` fit the L1 cache.
const BLOCK: usize = 1024;
/// Elements per chunk; fixed, so that results do not depend on the number of threads.
pub(crate) const GRAIN: usize = 1 << 15;
/// The largest number of operands.
const MAX_OPERANDS: usize = 4;

/// A loop over lanes of the operands, which all have the length of the result.
pub(crate) type Body<'b, C, D> = dyn Fn(&[&[C]], &mut [D]) + Sync + 'b;

/// Where a kernel reads an operand of the output's shape.
///
/// Rust slices cannot overlap a mutable one, so an operand that is the output's own memory is passed as [`Src::InPlace`] instead
/// of a slice. The caller must copy memory that overlaps the output in any other way.
#[derive(Clone, Copy, Debug)]
pub enum Src<'a, T> {
    /// Memory disjoint from the output, of the output's length.
    Slice(&'a [T]),
    /// The output's memory: the operand is the output's old contents.
    InPlace,
    /// The same value at every position.
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
    /// As many elements as the output has, in its order.
    Elements(Elements<'a>),
    /// Elements of a broadcast array, at the (length, stride) of each axis of the output, the innermost last.
    Strided(Elements<'a>, &'a [(usize, usize)]),
    /// The output's old contents.
    InPlace,
    /// The same lane at every position.
    Constant(C),
}

impl<'a, C: Lane> Operand<'a, C> {
    /// The longest run of lanes in memory from output position `at`, if there is one.
    fn run(&self, at: usize) -> Option<&'a [C]> {
        match *self {
            Operand::Elements(elements) => C::view_any(elements).map(|lanes| &lanes[at..]),
            Operand::Strided(elements, axes) => {
                let lanes = C::view_any(elements)?;
                let (pos, within, (n, stride)) = locate(axes, at);
                if stride != 1 { None } else { Some(&lanes[pos..pos + n - within]) }
            }
            _ => None,
        }
    }

    /// Writes the lanes of output positions `at..at + buf.len()`; `out` holds the current elements at these positions.
    fn fill(&self, at: usize, out: Elements<'_>, buf: &mut [C]) {
        match *self {
            Operand::Elements(elements) => C::load_any(elements, at, buf),
            Operand::Strided(elements, axes) => match C::view_any(elements) {
                Some(lanes) => {
                    fill_strided(axes, at, buf, |pos, part| part.copy_from_slice(&lanes[pos..pos + part.len()]));
                }
                None => fill_strided(axes, at, buf, |pos, part| C::load_any(elements, pos, part)),
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

/// The memory offset of output position `at`, its index along the innermost axis, and that axis.
fn locate(axes: &[(usize, usize)], at: usize) -> (usize, usize, (usize, usize)) {
    let (inner, outer) = match axes.split_last() {
        Some((inner, outer)) => (*inner, outer),
        None => ((1, 1), &[][..]),
    };
    let within = at % inner.0;
    let mut rest = at / inner.0;
    let mut pos = within * inner.1;
    // What is left is the index along the outermost axis; divisions would take as long as a short run.
    let Some((outermost, middle)) = outer.split_first() else { return (pos, within, inner) };
    for &(n, stride) in middle.iter().rev() {
        pos += rest % n * stride;
        rest /= n;
    }
    (pos + rest * outermost.1, within, inner)
}

/// Writes the lanes of output positions from `at` on; `load` reads adjacent elements from a memory offset on.
fn fill_strided<C: Lane>(axes: &[(usize, usize)], at: usize, buf: &mut [C], load: impl Fn(usize, &mut [C])) {
    let mut done = 0;
    while done < buf.len() {
        let (pos, within, (n, stride)) = locate(axes, at + done);
        let run = (n - within).min(buf.len() - done);
        let part = &mut buf[done..done + run];
        if stride == 0 {
            load(pos, &mut part[..1]);
            let lane = part[0];
            part.fill(lane);
        } else {
            load(pos, part);
        }
        done += run;
    }
}

/// Computes `out` from at most four operands; `body` writes as many lanes as it is given, always a multiple of [`STEP`].
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
    if out.len() <= STEP {
        return short(operands, 0, &mut out, body);
    }
    if out.len() <= GRAIN {
        return chunk(operands, 0, out, body);
    }
    out.parallel_chunks(GRAIN, &|start, out| chunk(operands, start, out, body));
}

/// Computes the elements of a chunk of the output from position `start` on.
fn chunk<C: Lane, D: Lane>(operands: &[Operand<'_, C>], start: usize, mut out: ElementsMut<'_>, body: &Body<'_, C, D>) {
    let (done, len) = (direct(operands, start, &mut out, body), out.len());
    let (start, mut rest) = (start + done, out.part(done..len));
    if rest.len() > STEP {
        with_scratch(operands.len() * BLOCK, |buffers: &mut [C]| {
            with_scratch(BLOCK, |result: &mut [D]| blocks(operands, start, &mut rest, (buffers, result), body));
        });
    } else if !rest.is_empty() {
        short(operands, start, &mut rest, body);
    }
}

/// Computes the leading elements that are lanes in memory in all operands and the output, and returns their number. Nothing is
/// copied to a buffer, so this starts fast.
fn direct<C: Lane, D: Lane>(
    operands: &[Operand<'_, C>],
    start: usize,
    out: &mut ElementsMut<'_>,
    body: &Body<'_, C, D>,
) -> usize {
    let len = out.len() / STEP * STEP;
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

/// Computes at most [`STEP`] elements with buffers on the stack.
fn short<C: Lane, D: Lane>(
    operands: &[Operand<'_, C>],
    start: usize,
    out: &mut ElementsMut<'_>,
    body: &Body<'_, C, D>,
) {
    let mut buffers = [C::default(); MAX_OPERANDS * STEP];
    let mut result = [D::default(); STEP];
    blocks(operands, start, out, (&mut buffers, &mut result), body);
}

/// Computes the elements block by block: `result` is the buffer for the result, `buffers` has one of this length for each operand.
fn blocks<C: Lane, D: Lane>(
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
        let at = start + done;
        let rest = out.len() - done;
        let mut runs = [None; MAX_OPERANDS];
        let mut n = rest;
        for (run, operand) in runs.iter_mut().zip(operands) {
            *run = operand.run(at).filter(|run| run.len() >= STEP && rest >= STEP);
            n = n.min(run.map_or(max, <[C]>::len));
        }
        let is_direct = n >= STEP && D::view_any_mut(out).is_some();
        if !is_direct {
            n = n.min(max);
        }
        let whole = if n >= STEP { n / STEP * STEP } else { STEP };
        let n = n.min(whole);
        let mut block = out.part(done..done + n);
        for (k, operand) in operands.iter().enumerate().filter(|(k, _)| runs[*k].is_none()) {
            let buffer = &mut buffers[k * max..(k + 1) * max];
            if !operand.is_constant() {
                operand.fill(at, block.as_elements(), &mut buffer[..n]);
                if n < whole {
                    let last = buffer[n - 1];
                    buffer[n..whole].fill(last);
                }
            } else if !filled[k] {
                operand.fill(at, block.as_elements(), buffer);
                filled[k] = true;
            }
        }
        let mut inputs = [&[][..]; MAX_OPERANDS];
        for (k, input) in inputs.iter_mut().enumerate().take(operands.len()) {
            *input = match runs[k] {
                Some(run) => &run[..whole],
                None => &buffers[k * max..k * max + whole],
            };
        }
        let inputs = &inputs[..operands.len()];
        match D::view_any_mut(&mut block) {
            Some(lanes) if is_direct => body(inputs, lanes),
            _ => {
                body(inputs, &mut result[..whole]);
                D::store_any(&result[..n], block);
            }
        }
        done += n;
    }
}
