//! Multi-head attention on projections that lie interleaved, as one fully connected layer gives them.

use crate::gemm::{Element, gemm_batched};
use crate::movement::Item;
use crate::par::{MatRef, parallel_rows, with_scratch};

/// Projections of shape (length, batch, heads, parts, dim): for each place, example and head `parts` vectors, such as the
/// query, the key and the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interleaved {
    /// Places.
    pub length: usize,
    /// Examples times heads.
    pub groups: usize,
    /// Vectors of a head: 1 to 3.
    pub parts: usize,
    /// Elements of a vector.
    pub dim: usize,
}

impl Interleaved {
    /// All elements.
    pub fn len(&self) -> usize {
        self.length * self.groups * self.parts * self.dim
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of the vectors for all places, as a matrix (length, dim).
    fn matrix<'a, T>(&self, data: &'a [T], group: usize, part: usize) -> MatRef<'a, T> {
        let start = ((group * self.parts + part) * self.dim).min(data.len());
        MatRef::new(&data[start..], self.length, self.dim, self.groups * self.parts * self.dim, 1)
    }

    /// Writes vectors (groups, length, dim) into their places, zeros where a part is `None`.
    fn interleave<T: Item>(&self, parts: &[Option<&[T]>], out: &mut [T]) {
        let Interleaved { length, groups, dim, .. } = *self;
        parallel_rows(out, self.parts * dim, (1usize << 14).div_ceil((self.parts * dim).max(1)), |row, out| {
            let (place, group) = (row / groups, row % groups);
            for (out, part) in out.chunks_exact_mut(dim.max(1)).zip(parts) {
                match part {
                    Some(part) => out.copy_from_slice(&part[(group * length + place) * dim..][..dim]),
                    None => out.fill(T::default()),
                }
            }
        });
    }
}

/// One of the vectors of an interleaved array.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a, T> {
    /// The shape of the array.
    pub shape: Interleaved,
    /// Its elements.
    pub data: &'a [T],
    /// Which vector.
    pub part: usize,
}

impl<'a, T> Part<'a, T> {
    fn matrix(&self, group: usize) -> MatRef<'a, T> {
        self.shape.matrix(self.data, group, self.part)
    }
}

/// `out[g] = factor * Q[g] K[g]^T`, of shape (groups, places of the queries, places of the keys).
///
/// # Panics
/// When the shapes do not fit.
pub fn attention_scores<T: Element>(factor: T, queries: Part<'_, T>, keys: Part<'_, T>, out: &mut [T]) {
    let shape = (queries.shape.length, keys.shape.length);
    gemm_batched(factor, |g| queries.matrix(g), |g| keys.matrix(g).t(), T::zero(), out, shape);
}

/// `out[g] = A[g] V[g]`, interleaved as (places of A, groups, dim), for the attention A (groups, places, places of the
/// values).
///
/// # Panics
/// When the shapes do not fit.
pub fn attention_values<T: Element + Item + crate::par::Plain>(
    attention: &[T],
    values: Part<'_, T>,
    places: usize,
    out: &mut [T],
) {
    let Interleaved { length, groups, dim, .. } = values.shape;
    let weights = |g: usize| MatRef::row_major(&attention[g * places * length..], places, length);
    with_scratch(out.len(), |sums: &mut [T]| {
        gemm_batched(T::one(), weights, |g| values.matrix(g), T::zero(), sums, (places, dim));
        Interleaved { length: places, groups, parts: 1, dim }.interleave(&[Some(sums)], out);
    });
}

/// The gradient of one part of the projections, from a product of matrices: `left(g) right(g)` times a factor, of shape
/// (groups, length, dim).
fn part_gradient<'a, T: Element>(
    shape: &Interleaved,
    factor: T,
    left: impl Fn(usize) -> MatRef<'a, T> + Sync,
    right: impl Fn(usize) -> MatRef<'a, T> + Sync,
    out: &mut [T],
) {
    gemm_batched(factor, left, right, T::zero(), out, (shape.length, shape.dim));
}

/// The gradient of [`attention_scores`] with respect to the arrays of the queries and of the keys, which may be one array
/// (then it is written to `query_grad`). Parts that play no role have gradient zero.
///
/// # Panics
/// When the shapes do not fit.
pub fn attention_scores_backward<T: Element + Item + crate::par::Plain>(
    factor: T,
    queries: Part<'_, T>,
    keys: Part<'_, T>,
    out_grad: &[T],
    query_grad: Option<&mut [T]>,
    key_grad: Option<&mut [T]>,
    one_array: bool,
) {
    let (rows, columns) = (queries.shape.length, keys.shape.length);
    let head = |g: usize| MatRef::row_major(&out_grad[g * rows * columns..], rows, columns);
    let groups = queries.shape.groups;
    with_scratch(groups * (rows * queries.shape.dim + columns * keys.shape.dim), |buffer: &mut [T]| {
        let (of_queries, of_keys) = buffer.split_at_mut(groups * rows * queries.shape.dim);
        if query_grad.is_some() {
            part_gradient(&queries.shape, factor, head, |g| keys.matrix(g), of_queries);
        }
        if key_grad.is_some() || one_array && query_grad.is_some() {
            part_gradient(&keys.shape, factor, |g| head(g).t(), |g| queries.matrix(g), of_keys);
        }
        if let Some(out) = query_grad {
            let mut parts = [None; 3];
            parts[queries.part] = Some(&*of_queries);
            if one_array {
                parts[keys.part] = Some(&*of_keys);
            }
            queries.shape.interleave(&parts[..queries.shape.parts], out);
        }
        if let Some(out) = key_grad {
            let mut parts = [None; 3];
            parts[keys.part] = Some(&*of_keys);
            keys.shape.interleave(&parts[..keys.shape.parts], out);
        }
    });
}

/// The gradients of [`attention_values`] with respect to the array of the values and to the attention.
///
/// # Panics
/// When the shapes do not fit.
pub fn attention_values_backward<T: Element + Item + crate::par::Plain>(
    attention: &[T],
    values: Part<'_, T>,
    places: usize,
    out_grad: &[T],
    value_grad: Option<&mut [T]>,
    attention_grad: Option<&mut [T]>,
) {
    let Interleaved { length, groups, dim, .. } = values.shape;
    let weights = |g: usize| MatRef::row_major(&attention[g * places * length..], places, length);
    let heads = Interleaved { length: places, groups, parts: 1, dim };
    let head = |g: usize| heads.matrix(out_grad, g, 0);
    if let Some(out) = attention_grad {
        gemm_batched(T::one(), head, |g| values.matrix(g).t(), T::zero(), out, (places, length));
    }
    if let Some(out) = value_grad {
        with_scratch(groups * length * dim, |sums: &mut [T]| {
            part_gradient(&values.shape, T::one(), |g| weights(g).t(), head, sums);
            let mut parts = [None; 3];
            parts[values.part] = Some(&*sums);
            values.shape.interleave(&parts[..values.shape.parts], out);
        });
    }
}
