//! Multi-head attention on interleaved projections, the output of one fully connected layer (MXNet's `interleaved_matmul_*`).

use crate::gemm::{GemmElement, gemm_batched};
use crate::movement::Item;
use crate::par::{MatRef, parallel_rows, with_scratch};

/// The shape (length, batch, heads, parts, dim) of projections: for each token, sequence and head, `parts` vectors such as query,
/// key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interleaved {
    /// Sequence length.
    pub length: usize,
    /// Batch size times heads.
    pub groups: usize,
    /// Vectors per head: 1 to 3.
    pub parts: usize,
    /// Elements of a vector.
    pub dim: usize,
}

impl Interleaved {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.length * self.groups * self.parts * self.dim
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One part of a group at all positions: a matrix (length, dim).
    fn matrix<'a, T>(&self, data: &'a [T], group: usize, part: usize) -> MatRef<'a, T> {
        let start = ((group * self.parts + part) * self.dim).min(data.len());
        MatRef::new(&data[start..], self.length, self.dim, self.groups * self.parts * self.dim, 1)
    }

    /// Interleaves parts of shape (groups, length, dim); zeros replace a part that is `None`.
    fn interleave<T: Item>(&self, parts: &[Option<&[T]>], out: &mut [T]) {
        let Interleaved { length, groups, dim, .. } = *self;
        parallel_rows(out, self.parts * dim, (1usize << 14).div_ceil((self.parts * dim).max(1)), |row, out| {
            let (position, group) = (row / groups, row % groups);
            for (out, part) in out.chunks_exact_mut(dim.max(1)).zip(parts) {
                match part {
                    Some(part) => out.copy_from_slice(&part[(group * length + position) * dim..][..dim]),
                    None => out.fill(T::default()),
                }
            }
        });
    }
}

/// One of the parts of interleaved projections: the queries, the keys or the values.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a, T> {
    /// The shape of the projections.
    pub shape: Interleaved,
    /// The projections.
    pub data: &'a [T],
    /// Index of the part.
    pub part: usize,
}

impl<'a, T> Part<'a, T> {
    fn matrix(&self, group: usize) -> MatRef<'a, T> {
        self.shape.matrix(self.data, group, self.part)
    }
}

/// `out[g] = scale * Q[g] K[g]^T`: (groups, query length, key length).
///
/// # Panics
/// Panics if the shapes do not match.
pub fn attention_scores<T: GemmElement>(scale: T, queries: Part<'_, T>, keys: Part<'_, T>, out: &mut [T]) {
    let shape = (queries.shape.length, keys.shape.length);
    gemm_batched(scale, |g| queries.matrix(g), |g| keys.matrix(g).t(), T::zero(), out, shape);
}

/// `out[g] = A[g] V[g]`: (query length, groups, dim), for the attention weights A (groups, query length, key length).
///
/// # Panics
/// Panics if the shapes do not match.
pub fn attention_values<T: GemmElement + Item + crate::par::Pod>(
    attention: &[T],
    values: Part<'_, T>,
    query_len: usize,
    out: &mut [T],
) {
    let Interleaved { length, groups, dim, .. } = values.shape;
    let weights = |g: usize| MatRef::row_major(&attention[g * query_len * length..], query_len, length);
    with_scratch(out.len(), |sums: &mut [T]| {
        gemm_batched(T::one(), weights, |g| values.matrix(g), T::zero(), sums, (query_len, dim));
        Interleaved { length: query_len, groups, parts: 1, dim }.interleave(&[Some(sums)], out);
    });
}

/// The gradient of one part of the projections, `scale * left(g) right(g)`: (groups, length, dim).
fn part_gradient<'a, T: GemmElement>(
    shape: &Interleaved,
    scale: T,
    left: impl Fn(usize) -> MatRef<'a, T> + Sync,
    right: impl Fn(usize) -> MatRef<'a, T> + Sync,
    out: &mut [T],
) {
    gemm_batched(scale, left, right, T::zero(), out, (shape.length, shape.dim));
}

/// The gradient of [`attention_scores`] with respect to the projections of queries and keys. If `is_shared`, both are the same
/// array, whose gradient is written to `query_grad`. Unused parts have gradient zero.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn attention_scores_backward<T: GemmElement + Item + crate::par::Pod>(
    scale: T,
    queries: Part<'_, T>,
    keys: Part<'_, T>,
    out_grad: &[T],
    query_grad: Option<&mut [T]>,
    key_grad: Option<&mut [T]>,
    is_shared: bool,
) {
    let (rows, columns) = (queries.shape.length, keys.shape.length);
    let grad_of = |g: usize| MatRef::row_major(&out_grad[g * rows * columns..], rows, columns);
    let groups = queries.shape.groups;
    with_scratch(groups * (rows * queries.shape.dim + columns * keys.shape.dim), |buffer: &mut [T]| {
        let (query_sums, key_sums) = buffer.split_at_mut(groups * rows * queries.shape.dim);
        if query_grad.is_some() {
            part_gradient(&queries.shape, scale, grad_of, |g| keys.matrix(g), query_sums);
        }
        if key_grad.is_some() || is_shared && query_grad.is_some() {
            part_gradient(&keys.shape, scale, |g| grad_of(g).t(), |g| queries.matrix(g), key_sums);
        }
        if let Some(out) = query_grad {
            let mut parts = [None; 3];
            parts[queries.part] = Some(&*query_sums);
            if is_shared {
                parts[keys.part] = Some(&*key_sums);
            }
            queries.shape.interleave(&parts[..queries.shape.parts], out);
        }
        if let Some(out) = key_grad {
            let mut parts = [None; 3];
            parts[keys.part] = Some(&*key_sums);
            keys.shape.interleave(&parts[..keys.shape.parts], out);
        }
    });
}

/// The gradients of [`attention_values`] with respect to the projections of the values and to the attention weights.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn attention_values_backward<T: GemmElement + Item + crate::par::Pod>(
    attention: &[T],
    values: Part<'_, T>,
    query_len: usize,
    out_grad: &[T],
    value_grad: Option<&mut [T]>,
    attention_grad: Option<&mut [T]>,
) {
    let Interleaved { length, groups, dim, .. } = values.shape;
    let weights = |g: usize| MatRef::row_major(&attention[g * query_len * length..], query_len, length);
    let heads = Interleaved { length: query_len, groups, parts: 1, dim };
    let grad_of = |g: usize| heads.matrix(out_grad, g, 0);
    if let Some(out) = attention_grad {
        gemm_batched(T::one(), grad_of, |g| values.matrix(g).t(), T::zero(), out, (query_len, length));
    }
    if let Some(out) = value_grad {
        with_scratch(groups * length * dim, |sums: &mut [T]| {
            part_gradient(&values.shape, T::one(), |g| weights(g).t(), grad_of, sums);
            let mut parts = [None; 3];
            parts[values.part] = Some(&*sums);
            values.shape.interleave(&parts[..values.shape.parts], out);
        });
    }
}
