//! Optimizer updates: kernels that update several arrays in one pass.

use crate::map::drive::GRAIN;
use crate::map::{Lane, LaneFn, Load, Store};
use crate::par::{Group, parallel_groups};
use crate::simd::multiversion::{self, Multiversioned};
use smallvec::SmallVec;

/// Lanes in a block.
const LANES: usize = 64;

/// A block, which is kept in registers and on the stack, aligned to cache lines: wider vectors would cross them.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Block<C>([C; LANES]);

impl<C: Lane> Block<C> {
    #[inline(always)]
    fn new() -> Self {
        Block([C::default(); LANES])
    }
}

struct Update<'a, C, P, F, const I: usize, const O: usize> {
    state: &'a mut [Block<C>; O],
    inputs: &'a [Block<C>; I],
    params: P,
    f: F,
}

impl<C: Lane, P: Copy, F: LaneFn<(P, [C; O], [C; I]), [C; O]>, const I: usize, const O: usize> Multiversioned
    for Update<'_, C, P, F, I, O>
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut result = [Block::<C>::new(); O];
        for i in 0..LANES {
            let state = std::array::from_fn(|k| self.state[k].0[i]);
            let input = std::array::from_fn(|k| self.inputs[k].0[i]);
            let new = self.f.call((self.params, state, input));
            for (lanes, new) in result.iter_mut().zip(new) {
                lanes.0[i] = new;
            }
        }
        *self.state = result;
    }
}

/// The arrays of one parameter that [`update_all`] updates together.
pub struct Step<'a, S, G, N, P, const I: usize, const O: usize> {
    /// The arrays to update.
    pub state: [&'a mut [S]; O],
    /// The array from which the first state is read; empty if it is updated in place.
    pub origin: &'a [S],
    /// A copy of the updated first state in another type; empty if not needed.
    pub rounded: &'a mut [N],
    /// The read-only inputs.
    pub inputs: [&'a [G]; I],
    /// Parameters of the formula.
    pub params: P,
}

/// The operands that all chunks of an update read.
struct Reads<'a, S, G, P, const I: usize> {
    origin: &'a [S],
    inputs: [&'a [G]; I],
    params: P,
}

/// Number of steps that are kept on the stack instead of the heap.
const STEPS: usize = 16;

/// Updates `O` arrays together, such as a weight and its moments, for any number of weights in one parallel loop: `state[..][i] =
/// f(params, state[..][i], inputs[..][i])`.
///
/// `f` must not capture anything and must be inlinable, see [`lane_fn!`](crate::lane_fn); parameters other than the elements are
/// passed in `params`.
///
/// # Errors
/// The first error of the iterator; nothing is changed then.
///
/// # Panics
/// Panics if the arrays of a step differ in length.
pub fn update_all<'a, S, G, N, C, P, F, E, const I: usize, const O: usize>(
    steps: impl IntoIterator<Item = Result<Step<'a, S, G, N, P, I, O>, E>>,
    f: F,
) -> Result<(), E>
where
    S: Load<C> + Store<C>,
    G: Load<C>,
    N: Store<C>,
    C: Lane,
    P: Copy + Sync,
    F: LaneFn<(P, [C; O], [C; I]), [C; O]>,
{
    let mut groups: SmallVec<[Group<'a, S, N, O>; STEPS]> = SmallVec::new();
    let mut reads: SmallVec<[Reads<'a, S, G, P, I>; STEPS]> = SmallVec::new();
    for step in steps {
        let Step { state, origin, rounded, inputs, params } = step?;
        let group = Group::new(state, rounded);
        let len = group.len();
        for l in inputs.iter().map(|x| x.len()).chain((!origin.is_empty()).then_some(origin.len())) {
            assert_eq!(l, len, "the arrays of an update have {l} and {len} elements");
        }
        groups.push(group);
        reads.push(Reads { origin, inputs, params });
    }
    parallel_groups(&mut groups, GRAIN, |group, start, state, rounded| {
        update_chunk(state, rounded, &reads[group], start, f);
    });
    Ok(())
}

fn update_chunk<S, G, N, C, P, F, const I: usize, const O: usize>(
    state: [&mut [S]; O],
    rounded: &mut [N],
    reads: &Reads<'_, S, G, P, I>,
    start: usize,
    f: F,
) where
    S: Load<C> + Store<C>,
    G: Load<C>,
    N: Store<C>,
    C: Lane,
    P: Copy,
    F: LaneFn<(P, [C; O], [C; I]), [C; O]>,
{
    let len = state.first().map_or(0, |s| s.len());
    let mut old = [Block::<C>::new(); O];
    let mut input = [Block::<C>::new(); I];
    for offset in (0..len).step_by(LANES) {
        let n = LANES.min(len - offset);
        let from = start + offset;
        for k in 0..O {
            match reads.origin {
                [_, ..] if k == 0 => load_padded(&reads.origin[from..from + n], &mut old[k]),
                _ => load_padded(&state[k][offset..offset + n], &mut old[k]),
            }
        }
        for (lanes, input) in input.iter_mut().zip(&reads.inputs) {
            load_padded(&input[from..from + n], lanes);
        }
        multiversion::run(Update { state: &mut old, inputs: &input, params: reads.params, f });
        for k in 0..O {
            S::store(&old[k].0[..n], &mut state[k][offset..offset + n]);
        }
        if !rounded.is_empty() {
            N::store(&old[0].0[..n], &mut rounded[offset..offset + n]);
        }
    }
}

#[inline(always)]
fn load_padded<T: Load<C>, C: Lane>(src: &[T], Block(dst): &mut Block<C>) {
    let n = src.len();
    T::load(src, &mut dst[..n]);
    let last = dst[n - 1];
    dst[n..].fill(last);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane_fn;
    use ferromx_core::dtype::f16;

    #[test]
    fn steps_change_all_states_and_round_the_first() {
        let momentum = lane_fn!(|p: (f32, f32), s: [f32; 2], g: [f32; 1]| -> [f32; 2] {
            let m = p.0 * s[1] - p.1 * g[0];
            [s[0] + m, m]
        });
        let sizes = [0, 1, 64, 70_000, 100];
        let grads: Vec<Vec<f16>> =
            sizes.map(|n| (0..n).map(|i| f16::from_f32((i % 100) as f32)).collect::<Vec<_>>()).into();
        let mut weights = sizes.map(|n| vec![1f32; n]);
        let mut moments = sizes.map(|n| vec![2f32; n]);
        let mut halves = sizes.map(|n| vec![f16::ZERO; n]);
        let origins = sizes.map(|n| vec![-1f32; n]);
        let arrays = weights.iter_mut().zip(&mut moments).zip(halves.iter_mut().zip(&grads));
        let steps = arrays.enumerate().map(|(k, ((w, m), (h, g)))| {
            Ok::<_, ()>(Step {
                state: [w, m],
                // The third weight is read from another array, and needs no rounded copy.
                origin: if k == 2 { &origins[2] } else { &[] },
                rounded: if k == 2 { &mut [] } else { h },
                inputs: [g],
                params: (0.5, k as f32),
            })
        });
        update_all::<f32, f16, f16, f32, _, _, _, 1, 2>(steps, momentum).unwrap();
        for k in 0..sizes.len() {
            for i in 0..sizes[k] {
                let m = 1.0 - k as f32 * (i % 100) as f32;
                let origin = if k == 2 { -1.0 } else { 1.0 };
                assert_eq!((weights[k][i], moments[k][i]), (origin + m, m));
                assert_eq!(halves[k][i], if k == 2 { f16::ZERO } else { f16::from_f32(1.0 + m) });
            }
        }
    }
}
