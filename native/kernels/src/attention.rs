//! Multi-head attention on interleaved projections, the output of one fully connected layer (MXNet's `interleaved_matmul_*`), and masks of
//! attention scores.

use crate::float::Accum;
use crate::gemm::{GemmElement, gemm_batched};
use crate::movement::Item;
use crate::par::{MatRef, parallel_rows, with_scratch};
use smallvec::{SmallVec, smallvec};

/// Elements per chunk.
const GRAIN: usize = 1 << 14;

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
        parallel_rows(out, self.parts * dim, GRAIN.div_ceil((self.parts * dim).max(1)), |row, out| {
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

/// Where [`attention_scores_backward`] writes the gradients of the projections; `None` for those that are not needed.
pub enum ProjectionGrads<'a, T> {
    /// Queries and keys are parts of one array.
    Shared(Option<&'a mut [T]>),
    /// Queries and keys are parts of two arrays.
    Separate {
        /// The gradient of the array with the queries.
        queries: Option<&'a mut [T]>,
        /// The gradient of the array with the keys.
        keys: Option<&'a mut [T]>,
    },
}

/// The gradient of [`attention_scores`] with respect to the projections of queries and keys. Unused parts have gradient zero.
///
/// # Panics
/// Panics if the shapes do not match.
pub fn attention_scores_backward<T: GemmElement + Item + crate::par::Pod>(
    scale: T,
    queries: Part<'_, T>,
    keys: Part<'_, T>,
    out_grad: &[T],
    grads: ProjectionGrads<'_, T>,
) {
    let (query_grad, key_grad, is_shared) = match grads {
        ProjectionGrads::Shared(grad) => (grad, None, true),
        ProjectionGrads::Separate { queries, keys } => (queries, keys, false),
    };
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

/// A mask that is broadcast to attention scores of shape (..., queries, keys).
#[derive(Clone, Debug)]
pub struct ScoreMask {
    /// For each axis of the scores but the last, its length and the stride of the mask along it, 0 if the mask is broadcast.
    outer: SmallVec<[(usize, usize); 6]>,
    /// The stride of the mask along the keys, 0 or 1.
    key_stride: usize,
    num_keys: usize,
}

impl ScoreMask {
    /// A mask of shape `mask` for scores of shape `scores`, to which it is broadcast.
    pub fn new(mask: &[usize], scores: &[usize]) -> ScoreMask {
        let mut strides: SmallVec<[usize; 6]> = smallvec![0; scores.len()];
        let mut stride = 1;
        for (to, length) in strides.iter_mut().rev().zip(mask.iter().rev()) {
            *to = if *length == 1 { 0 } else { stride };
            stride *= length;
        }
        let key_stride = strides.pop().unwrap_or(0);
        let num_keys = scores.last().copied().unwrap_or(1);
        ScoreMask { outer: scores.iter().copied().zip(strides).collect(), key_stride, num_keys }
    }

    /// The offset of the mask row that is added to a row of the scores.
    fn offset(&self, row: usize) -> usize {
        let (mut rest, mut offset) = (row, 0);
        for (length, stride) in self.outer.iter().rev() {
            offset += rest % length * stride;
            rest /= length;
        }
        offset
    }

    /// Adds the elements of the mask to the scores.
    ///
    /// # Panics
    /// Panics if `mask` does not have the shape given to [`ScoreMask::new`].
    pub fn add<T: Accum>(&self, mask: &[T], scores: &mut [T]) {
        parallel_rows(scores, self.num_keys, GRAIN.div_ceil(self.num_keys.max(1)), |row, scores| {
            let mask = &mask[self.offset(row)..];
            match self.key_stride {
                0 => scores.iter_mut().for_each(|x| *x += mask[0]),
                _ => scores.iter_mut().zip(mask).for_each(|(x, m)| *x += *m),
            }
        });
    }

    /// Writes the gradient of the mask: the sums of the gradients of the scores to which its elements are added.
    ///
    /// # Panics
    /// Panics if `mask_grad` does not have the shape given to [`ScoreMask::new`].
    pub fn backward<T: Accum>(&self, score_grads: &[T], mask_grad: &mut [T]) {
        mask_grad.fill(T::zero());
        for (row, grads) in score_grads.chunks_exact(self.num_keys.max(1)).enumerate() {
            let sums = &mut mask_grad[self.offset(row)..];
            grads.iter().enumerate().for_each(|(k, grad)| sums[k * self.key_stride] += *grad);
        }
    }
}

/// Replaces NaN by 0: the softmax of a query whose keys are all masked is NaN.
pub fn zero_masked_rows<T: Accum>(weights: &mut [T]) {
    parallel_rows(weights, GRAIN, 1, |_, chunk| {
        chunk.iter_mut().filter(|p| p.is_nan()).for_each(|p| *p = T::zero());
    });
}
