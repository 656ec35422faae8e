//! The driver of `map`, `zip`, `zip3` and the broadcast kernels.
//!
//! It processes the output in blocks. Operands that are lanes in memory are passed to the loop in place; all others (another
//! element type, a broadcast axis, the output itself) are first converted to a block buffer. Loops only get whole multiples of
//! [`STEP`] lanes, so they are compiled without a scalar remainder.

use super::lane::{Lane, Load, Store};
use crate::par;
use ferromx_core::dtype::Element;

/// Loops get lengths that are multiples of this.
pub(crate) const STEP: usize = 64;
/// Lanes in a block buffer: three operands and a result in `f64` fit the first-level cache.
const BLOCK: usize = 1024;
/// Elements in a parallel chunk; fixed, so that results do not depend on the number of threads.
pub(crate) const GRAIN: usize = 1 << 15;

/// An operand of an elementwise kernel whose output holds elements of type `U`.
pub(crate) trait Feed<C, U>: Sync {
    /// The longest run of lanes in memory from output position `at`, if there is one.
    fn run(&self, at: usize) -> Option<&[C]>;
    /// Writes the lanes of output positions `at..at + buf.len()`; `out` holds the current elements at these positions.
    fn fill(&self, at: usize, out: &[U], buf: &mut [C]);
    /// Whether all lanes are equal, so that a filled buffer stays valid.
    fn is_constant(&self) -> bool {
        false
    }
}

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

impl<T> Src<'_, T> {
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

impl<C: Lane, T: Load<C>, U: Load<C>> Feed<C, U> for Src<'_, T> {
    fn run(&self, at: usize) -> Option<&[C]> {
        match self {
            Src::Slice(s) => T::view(&s[at..]),
            _ => None,
        }
    }

    fn fill(&self, at: usize, out: &[U], buf: &mut [C]) {
        match self {
            Src::Slice(s) => T::load(&s[at..at + buf.len()], buf),
            Src::InPlace => U::load(out, buf),
            Src::Scalar(v) => buf.fill(v.lane()),
        }
    }

    fn is_constant(&self) -> bool {
        matches!(self, Src::Scalar(_))
    }
}

/// Panics unless a slice operand has the output's length, with the location of the kernel's caller.
#[track_caller]
pub(crate) fn check_len<T>(src: &Src<'_, T>, out: usize) {
    if let Some(len) = src.len() {
        assert_eq!(len, out, "an operand of {len} elements does not fit an output of {out} elements");
    }
}

/// Computes `out` from `N` operands; `body` writes as many lanes as it is given, always a multiple of [`STEP`].
pub(crate) fn drive<U, C, D, const N: usize>(
    feeds: [&dyn Feed<C, U>; N],
    out: &mut [U],
    body: &(dyn Fn([&[C]; N], &mut [D]) + Sync),
) where
    U: Element + Store<D>,
    C: Lane,
    D: Lane,
{
    if out.len() <= STEP {
        return drive_chunk::<U, C, D, N, STEP>(feeds, 0, out, body);
    }
    par::parallel_rows(out, GRAIN, 1, |i, chunk| {
        let start = i * GRAIN;
        let done = drive_direct(feeds, start, chunk, body);
        let rest = &mut chunk[done..];
        if rest.len() > STEP {
            drive_chunk::<U, C, D, N, BLOCK>(feeds, start + done, rest, body);
        } else if !rest.is_empty() {
            drive_chunk::<U, C, D, N, STEP>(feeds, start + done, rest, body);
        }
    });
}

/// Computes the leading elements that are lanes in memory in all operands and the output, and returns their number. Nothing is
/// copied to a buffer, so this starts fast.
fn drive_direct<U, C, D, const N: usize>(
    feeds: [&dyn Feed<C, U>; N],
    start: usize,
    out: &mut [U],
    body: &(dyn Fn([&[C]; N], &mut [D]) + Sync),
) -> usize
where
    U: Element + Store<D>,
    C: Lane,
    D: Lane,
{
    let len = out.len() / STEP * STEP;
    let runs = feeds.map(|feed| feed.run(start).filter(|run| run.len() >= len));
    let Some(lanes) = U::view_mut(&mut out[..len]).filter(|_| runs.iter().all(Option::is_some)) else { return 0 };
    body(runs.map(|run| run.map_or(&[][..], |run| &run[..len])), lanes);
    len
}

fn drive_chunk<U, C, D, const N: usize, const B: usize>(
    feeds: [&dyn Feed<C, U>; N],
    start: usize,
    out: &mut [U],
    body: &(dyn Fn([&[C]; N], &mut [D]) + Sync),
) where
    U: Element + Store<D>,
    C: Lane,
    D: Lane,
{
    let mut buffers = [[C::default(); B]; N];
    let mut result = [D::default(); B];
    let mut filled = [false; N];
    let mut done = 0;
    while done < out.len() {
        let at = start + done;
        let rest = out.len() - done;
        let runs = feeds.map(|f| f.run(at).filter(|run| run.len() >= STEP && rest >= STEP));
        let mut n = rest;
        for run in runs {
            n = n.min(run.map_or(B, <[C]>::len));
        }
        let direct = U::view_mut(&mut out[done..]).is_some() && n >= STEP;
        if !direct {
            n = n.min(B);
        }
        let whole = if n >= STEP { n / STEP * STEP } else { STEP };
        let n = n.min(whole);
        let block = &mut out[done..done + n];
        for k in 0..N {
            let constant = feeds[k].is_constant();
            if runs[k].is_none() && !(constant && filled[k]) {
                let len = if constant { B } else { n };
                feeds[k].fill(at, block, &mut buffers[k][..len]);
                if n < whole && !constant {
                    let last = buffers[k][n - 1];
                    buffers[k][n..whole].fill(last);
                }
                filled[k] = true;
            }
        }
        let inputs = std::array::from_fn(|k| runs[k].map_or_else(|| &buffers[k][..whole], |run| &run[..whole]));
        match U::view_mut(block) {
            Some(lanes) if direct => body(inputs, lanes),
            _ => {
                body(inputs, &mut result[..whole]);
                U::store(&result[..n], block);
            }
        }
        done += n;
    }
}
