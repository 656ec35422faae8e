//! `Attention`: scaled dot-product attention with an additive mask.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::AxisShape;
use ferromx_kernels::attention::{ScoreMask, zero_masked_rows};
use ferromx_kernels::float::Accum;
use ferromx_kernels::gemm::{self, gemm_batched};
use ferromx_kernels::par::{MatRef, with_scratch};
use ferromx_kernels::softmax::{Softmax, softmax_backward, softmax_forward};
use smallvec::SmallVec;

params! {
    /// Parameters of `_onnx_Attention`.
    pub struct AttentionParam {
        /// The scale of the scores, query key^T.
        scale: f64 = 1.0;
        /// Whether the keys are transposed: of shape (..., size, keys).
        transposed_keys: bool = false;
        /// Whether the last input is an attention mask.
        use_mask: bool = false;
        /// Whether a query whose keys are all masked with -inf has weights of 0 instead of NaN.
        zero_masked: bool = false;
    }
}

const INPUTS: &[ArgDef] = &[
    arg("query", "The queries, of shape (..., queries, size)."),
    arg("key", "The keys, of shape (..., keys, size)."),
    arg("value", "The values, of shape (..., keys, width)."),
    arg("attn_mask", "Added to the scores; broadcasts to (..., queries, keys)."),
];

const TYPES: &[DType] = &[DType::F32, DType::F64];

pub(super) static ATTENTION: Operator<AttentionParam> = Operator::new("_onnx_Attention")
    .doc(
        "Scaled dot-product attention: softmax(scale * query key^T + attn_mask) value, with the softmax over the keys (Vaswani et al., \
         \"Attention is all you need\", 2017).\n\n\
         Shapes: the leading dimensions, such as batch and heads, are equal in all three inputs; the output is (..., queries, width). \
         Types: float32 and float64. Source: Attention of ONNX.",
    )
    .inputs(INPUTS)
    .num_inputs_by(|p| if p.get::<AttentionParam>().use_mask { 4 } else { 3 })
    .shape(shapes)
    .forward(|ctx, ins, outs| {
        dispatch!(outs[0].dtype(), T in [f32, f64] => forward::<T>(ctx, ins, &mut outs[0]), other => Err(ctx.unsupported(other, TYPES)))
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            dispatch!(ins[0].dtype(), T in [f32, f64] => backward::<T>(ctx, ins, outs), other => Err(ctx.unsupported(other, TYPES)))
        })
        .inputs(Deps::All),
        None,
    ));

fn shapes(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<AttentionParam>();
    let (query, key, value) = (io.ins[0].clone(), io.ins[1].clone(), io.ins[2].clone());
    let inputs = [&query, &key, &value];
    let Some(rank) = inputs.iter().find_map(|s| s.ndim()) else { return Ok(()) };
    ensure!(
        rank >= 2 && inputs.iter().all(|s| s.ndim().is_none_or(|n| n == rank)),
        "query {query}, key {key} and value {value} should have the same number of dimensions, at least 2"
    );
    let first = |dims: &[i64]| dims.iter().copied().find(|d| *d >= 0).unwrap_or(-1);
    let mut dims: SmallVec<[i64; 6]> =
        (0..rank - 2).map(|i| first(&[query.dim(i), key.dim(i), value.dim(i)])).collect();
    let (key_axis, size_axis) = if p.transposed_keys { (rank - 1, rank - 2) } else { (rank - 2, rank - 1) };
    let size = first(&[query.dim(rank - 1), key.dim(size_axis)]);
    let keys = first(&[key.dim(key_axis), value.dim(rank - 2)]);
    let mut shape = |last: [i64; 2]| {
        dims.truncate(rank - 2);
        dims.extend(last);
        Shape::new(&dims)
    };
    io.assign_in(0, &shape([query.dim(rank - 2), size]))?;
    io.assign_in(1, &shape(if p.transposed_keys { [size, keys] } else { [keys, size] }))?;
    io.assign_in(2, &shape([keys, value.dim(rank - 1)]))?;
    io.assign_out(0, &shape([query.dim(rank - 2), value.dim(rank - 1)]))?;
    if p.use_mask {
        let (mask, scores) = (io.ins[3].clone(), shape([query.dim(rank - 2), keys]));
        let is_broadcastable = |(m, s): (&i64, &i64)| *m == 1 || *m < 0 || *s < 0 || m == s;
        ensure!(
            mask.dims().len() <= rank && mask.dims().iter().rev().zip(scores.dims().iter().rev()).all(is_broadcastable),
            "a mask of shape {mask} does not broadcast to the products of queries and keys, {scores}"
        );
    }
    Ok(())
}

/// The dimensions of a call, and the views of its matrices.
struct AttentionShape {
    /// The product of the leading dimensions, such as batch and heads.
    num_groups: usize,
    num_queries: usize,
    num_keys: usize,
    /// Length of a query and of a key.
    key_size: usize,
    /// Length of a value.
    value_size: usize,
    /// True if keys have shape (..., key_size, num_keys).
    transposed_keys: bool,
    scale: f64,
}

impl AttentionShape {
    fn of(ctx: &OpCtx<'_>, query: &In<'_>, value: &In<'_>) -> AttentionShape {
        let p = ctx.params::<AttentionParam>();
        let (q, v) = (query.shape().to_usize(), value.shape().to_usize());
        let n = q.len();
        AttentionShape {
            num_groups: q[..n - 2].iter().product(),
            num_queries: q[n - 2],
            num_keys: v[n - 2],
            key_size: q[n - 1],
            value_size: v[n - 1],
            transposed_keys: p.transposed_keys,
            scale: p.scale,
        }
    }

    fn num_scores(&self) -> usize {
        self.num_groups * self.num_queries * self.num_keys
    }

    /// The scores as rows over the keys.
    fn softmax_shape(&self) -> AxisShape {
        AxisShape { outer: self.num_groups * self.num_queries, axis: self.num_keys, inner: 1 }
    }

    fn query<'a, T>(&self, data: &'a [T], g: usize) -> MatRef<'a, T> {
        MatRef::row_major(&data[g * self.num_queries * self.key_size..], self.num_queries, self.key_size)
    }

    /// The keys of group `g`, of shape (num_keys, key_size).
    fn key<'a, T>(&self, data: &'a [T], g: usize) -> MatRef<'a, T> {
        let data = &data[g * self.num_keys * self.key_size..];
        match self.transposed_keys {
            true => MatRef::row_major(data, self.key_size, self.num_keys).t(),
            false => MatRef::row_major(data, self.num_keys, self.key_size),
        }
    }

    /// The mask of the scores.
    fn mask(&self, ins: &[In<'_>]) -> ScoreMask {
        let mut scores = ins[0].shape().to_usize();
        scores.pop();
        scores.push(self.num_keys);
        ScoreMask::new(&ins[3].shape().to_usize(), &scores)
    }

    fn value<'a, T>(&self, data: &'a [T], g: usize) -> MatRef<'a, T> {
        MatRef::row_major(&data[g * self.num_keys * self.value_size..], self.num_keys, self.value_size)
    }

    fn score<'a, T>(&self, data: &'a [T], g: usize) -> MatRef<'a, T> {
        MatRef::row_major(&data[g * self.num_queries * self.num_keys..], self.num_queries, self.num_keys)
    }

    fn out<'a, T>(&self, data: &'a [T], g: usize) -> MatRef<'a, T> {
        MatRef::row_major(&data[g * self.num_queries * self.value_size..], self.num_queries, self.value_size)
    }
}

/// Computes the probabilities, of shape (num_groups, num_queries, num_keys). `scores` is a scratch buffer of the same length.
fn compute_probabilities<T: gemm::GemmElement + Accum>(
    ctx: &OpCtx<'_>,
    s: &AttentionShape,
    ins: &[In<'_>],
    scores: &mut [T],
    probabilities: &mut [T],
) -> Result<()> {
    let (query, key) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?);
    let scale = T::of(s.scale);
    gemm_batched(scale, |g| s.query(query, g), |g| s.key(key, g).t(), T::zero(), scores, (s.num_queries, s.num_keys));
    if ctx.params::<AttentionParam>().use_mask {
        s.mask(ins).add(ins[3].slice::<T>()?, scores);
    }
    softmax_forward(s.softmax_shape(), Softmax::PLAIN, scores, probabilities);
    if ctx.params::<AttentionParam>().zero_masked {
        zero_masked_rows(probabilities);
    }
    Ok(())
}

fn forward<T: gemm::GemmElement + Accum>(ctx: &OpCtx<'_>, ins: &[In<'_>], out: &mut Out<'_>) -> Result<()> {
    let s = AttentionShape::of(ctx, &ins[0], &ins[2]);
    let (value, out) = (ins[2].slice::<T>()?, out.slice_mut::<T>()?);
    with_scratch(2 * s.num_scores(), |buffer: &mut [T]| {
        let (scores, probabilities) = buffer.split_at_mut(s.num_scores());
        compute_probabilities(ctx, &s, ins, scores, probabilities)?;
        gemm_batched(
            T::one(),
            |g| s.score(probabilities, g),
            |g| s.value(value, g),
            T::zero(),
            out,
            (s.num_queries, s.value_size),
        );
        Ok(())
    })
}

impl AttentionShape {
    /// Computes the gradient of the keys from that of the scores, in the layout of the keys.
    fn key_gradient<T: gemm::GemmElement + Accum>(&self, query: &[T], score_grads: &[T], out: &mut [T]) {
        let scale = T::of(self.scale);
        let (query, grads) = (|g| self.query(query, g), |g| self.score(score_grads, g));
        match self.transposed_keys {
            true => gemm_batched(scale, |g| query(g).t(), grads, T::zero(), out, (self.key_size, self.num_keys)),
            false => gemm_batched(scale, |g| grads(g).t(), query, T::zero(), out, (self.num_keys, self.key_size)),
        }
    }
}

/// Inputs: gradient of the output, then the inputs of the forward pass. Outputs: gradients of these inputs.
fn backward<T: gemm::GemmElement + Accum>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (grad_out, ins) =
        ins.split_first().ok_or_else(|| Error::Internal("attention backward got no output gradient".into()))?;
    let s = AttentionShape::of(ctx, &ins[0], &ins[2]);
    let (query, key, value) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
    let grad_out = grad_out.slice::<T>()?;
    let scale = T::of(s.scale);
    with_scratch(3 * s.num_scores(), |buffer: &mut [T]| {
        let (scores, rest) = buffer.split_at_mut(s.num_scores());
        let (probabilities, probability_grads) = rest.split_at_mut(s.num_scores());
        compute_probabilities(ctx, &s, ins, scores, probabilities)?;
        if outs[2].wanted() {
            let out = outs[2].slice_mut::<T>()?;
            gemm_batched(
                T::one(),
                |g| s.score(probabilities, g).t(),
                |g| s.out(grad_out, g),
                T::zero(),
                out,
                (s.num_keys, s.value_size),
            );
        }
        gemm_batched(
            T::one(),
            |g| s.out(grad_out, g),
            |g| s.value(value, g).t(),
            T::zero(),
            probability_grads,
            (s.num_queries, s.num_keys),
        );
        softmax_backward(s.softmax_shape(), Softmax::PLAIN, probabilities, probability_grads, scores);
        // `scores` now holds the gradient of the scores.
        if outs[0].wanted() {
            let out = outs[0].slice_mut::<T>()?;
            gemm_batched(scale, |g| s.score(scores, g), |g| s.key(key, g), T::zero(), out, (s.num_queries, s.key_size));
        }
        if outs[1].wanted() {
            s.key_gradient(query, scores, outs[1].slice_mut::<T>()?);
        }
        if let Some(out) = outs.get_mut(3).filter(|o| o.wanted()) {
            s.mask(ins).backward(scores, out.slice_mut::<T>()?);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, numbers};

    #[test]
    fn the_output_is_the_mean_of_the_values_weighted_by_softmax() {
        let (q, k) = (array(&[1.0f64, 0.0], &[1, 1, 2]), array(&[1.0f64, 0.0, 0.0, 1.0], &[1, 2, 2]));
        let v = array(&[1.0f64, 2.0, 3.0, 4.0], &[1, 2, 2]);
        let out = Case::new(&ATTENTION, &[("scale", "2")]).run1(&[q.clone(), k.clone(), v.clone()]).unwrap();
        let w = 1.0 / (1.0 + (-2.0f64).exp());
        let want = [w + 3.0 * (1.0 - w), 2.0 * w + 4.0 * (1.0 - w)];
        let got = out.to_vec::<f64>().unwrap();
        assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12), "{got:?}");
        // The mask hides the first key.
        let mask = array(&[f64::NEG_INFINITY, 0.0], &[2]);
        let out = Case::new(&ATTENTION, &[("use_mask", "True")]).run1(&[q, k, v, mask]).unwrap();
        assert_eq!(out.to_vec::<f64>().unwrap(), [3.0, 4.0]);
        // The mask hides every key.
        let (q, k, v) = (array(&[1.0f64], &[1, 1]), array(&[1.0f64, 2.0], &[2, 1]), array(&[1.0f64, 2.0], &[2, 1]));
        let mask = array(&[f64::NEG_INFINITY; 2], &[2]);
        let run = |more: &[(&str, &str)]| {
            let attrs = [&[("use_mask", "True")], more].concat();
            let out = Case::new(&ATTENTION, &attrs).run1(&[q.clone(), k.clone(), v.clone(), mask.clone()]);
            out.unwrap().to_vec::<f64>().unwrap()[0]
        };
        assert!(run(&[]).is_nan());
        assert_eq!(run(&[("zero_masked", "True")]), 0.0);
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let scale = [("scale", "0.5")];
        Case::new(&ATTENTION, &scale).check_gradient(&[numbers(&[2, 3, 4]), numbers(&[2, 5, 4]), numbers(&[2, 5, 3])]);
        let transposed = [("scale", "0.5"), ("transposed_keys", "True"), ("use_mask", "True")];
        let inputs =
            |mask: &[i64]| [numbers(&[2, 2, 3, 4]), numbers(&[2, 2, 4, 5]), numbers(&[2, 2, 5, 3]), numbers(mask)];
        Case::new(&ATTENTION, &transposed).check_gradient(&inputs(&[2, 1, 3, 5]));
        Case::new(&ATTENTION, &transposed).check_gradient(&inputs(&[2, 1, 1]));
    }

    #[test]
    fn mismatched_shapes_are_errors() {
        let case = Case::new(&ATTENTION, &[("use_mask", "True")]);
        let shapes = |mask: &[i64]| {
            case.shapes(&[Shape::new(&[2, 3, 4]), Shape::new(&[2, 5, 4]), Shape::new(&[2, 5, 6]), Shape::new(mask)])
        };
        assert!(shapes(&[3, 5]).is_ok());
        assert!(shapes(&[3, 4]).unwrap_err().to_string().contains("does not broadcast"));
        assert!(Case::new(&ATTENTION, &[]).shapes(&[[2, 3, 4].into(), [2, 5, 3].into(), [2, 5, 6].into()]).is_err());
    }
}
