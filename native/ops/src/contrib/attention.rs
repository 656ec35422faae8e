//! Multi-head attention on interleaved projections: `_contrib_interleaved_matmul_*`.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::attention::{
    Interleaved, Part, ProjectionGrads, attention_scores, attention_scores_backward, attention_values,
    attention_values_backward,
};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&SELFATT_QK, &SELFATT_VALATT, &ENCDEC_QK, &ENCDEC_VALATT];

params! {
    /// Parameters of the interleaved products.
    pub struct HeadsParam {
        /// Number of heads.
        heads: i32 = required, where 1..=i32::MAX;
    }
}

const TYPES: &[DType] = &[DType::F32, DType::F64];

pub(super) const SELF_PROJECTIONS: ArgDef = arg(
    "queries_keys_values",
    "The projections, of shape (length, batch, heads * 3 * dim): for each head a query, a key and a value.",
);
const KEYS_VALUES: ArgDef = arg(
    "keys_values",
    "The projections, of shape (key_length, batch, heads * 2 * dim): for each head a key and a value.",
);

pub(super) static SELFATT_QK: Operator<HeadsParam> = Operator::new("_contrib_interleaved_matmul_selfatt_qk").names_outputs()
    .doc(
        "The scores of multi-head self-attention, before softmax: out[n * heads + h, i, j] = query_i . key_j / sqrt(dim) for \
         example n and head h (Vaswani et al., \"Attention is all you need\", 2017). The output has shape (batch * heads, length, \
         length).",
    )
    .inputs(&[SELF_PROJECTIONS])
    .shape(|p, io| selfatt_qk_shape(p.get::<HeadsParam>().heads, io))
    .forward(|ctx, ins, outs| selfatt_qk(ctx, heads(ctx), ins, outs))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            scores_backward(ctx, &ins[0], [&ins[1], &ins[1]], [(3, 0), (3, 1)], [outs.get_mut(0), None])
        })
        .inputs(Deps::All),
        None,
    ));

pub(super) static SELFATT_VALATT: Operator<HeadsParam> = Operator::new("_contrib_interleaved_matmul_selfatt_valatt")
    .names_outputs()
    .doc(
        "The weighted values of multi-head self-attention: out[i, n, h * dim..] = sum over j of \
         attention[n * heads + h, i, j] * value_j. The output has shape (length, batch, heads * dim).",
    )
    .inputs(&[SELF_PROJECTIONS, arg("attention", "The weights, of shape (batch * heads, length, length).")])
    .shape(|p, io| selfatt_valatt_shape(p.get::<HeadsParam>().heads, io))
    .forward(|ctx, ins, outs| selfatt_valatt(ctx, heads(ctx), ins, outs))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| values_backward(ctx, ins, (3, 2), outs)).inputs(Deps::All),
        None,
    ));

pub(super) static ENCDEC_QK: Operator<HeadsParam> = Operator::new("_contrib_interleaved_matmul_encdec_qk").names_outputs()
    .doc(
        "The scores of multi-head encoder-decoder attention, before softmax: out[n * heads + h, i, j] = query_i . key_j / sqrt(dim) for \
         example n and head h (Vaswani et al., 2017). The output has shape (batch * heads, query_length, key_length).",
    )
    .inputs(&[arg("queries", "The queries, of shape (query_length, batch, heads * dim)."), KEYS_VALUES])
    .shape(|p, io| {
        let queries = projection_dims(p.get::<HeadsParam>().heads, "queries", &io.ins[0], 1)?;
        let keys = projection_dims(p.get::<HeadsParam>().heads, "keys_values", &io.ins[1], 2)?;
        io.assign_in(0, &Shape::new(&[-1, keys.batch, keys.width]))?;
        let known = if queries.width < 0 { -1 } else { 2 * queries.width };
        io.assign_in(1, &Shape::new(&[-1, queries.batch, known]))?;
        io.assign_out(0, &Shape::new(&[queries.groups.max(keys.groups), queries.length, keys.length]))
    })
    .forward(|ctx, ins, outs| scores(ctx, heads(ctx), [&ins[0], &ins[1]], [(1, 0), (2, 0)], &mut outs[0]))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            let [queries, keys] = outs else { return Err(Error::Internal("attention has two inputs".into())) };
            scores_backward(ctx, &ins[0], [&ins[1], &ins[2]], [(1, 0), (2, 0)], [Some(queries), Some(keys)])
        })
        .inputs(Deps::All),
        None,
    ));

pub(super) static ENCDEC_VALATT: Operator<HeadsParam> = Operator::new("_contrib_interleaved_matmul_encdec_valatt").names_outputs()
    .doc(
        "The weighted values of multi-head encoder-decoder attention: out[i, n, h * dim..] = sum over j of attention[n * heads + h, i, \
         j] * value_j. The output has shape (query_length, batch, heads * dim).",
    )
    .inputs(&[KEYS_VALUES, arg("attention", "The weights, of shape (batch * heads, query_length, key_length).")])
    .shape(|p, io| {
        let data = projection_dims(p.get::<HeadsParam>().heads, "keys_values", &io.ins[0], 2)?;
        io.assign_in(1, &Shape::new(&[data.groups, -1, data.length]))?;
        io.assign_out(0, &Shape::new(&[io.ins[1].dim(1), data.batch, data.width]))
    })
    .forward(|ctx, ins, outs| values(ctx, heads(ctx), ins, (2, 1), &mut outs[0]))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| values_backward(ctx, ins, (2, 1), outs)).inputs(Deps::All),
        None,
    ));

/// Dimensions of interleaved projections; -1 if unknown.
struct ProjectionDims {
    length: i64,
    batch: i64,
    /// batch * heads.
    groups: i64,
    /// heads * dim.
    width: i64,
}

/// The dimensions of projections with `parts` vectors per head. Checks the shape of the argument `name`.
fn projection_dims(heads: i32, name: &str, shape: &Shape, parts: i64) -> Result<ProjectionDims> {
    let heads = i64::from(heads);
    ensure!(
        shape.ndim().is_none_or(|n| n == 3),
        "{name} should be 3D, (length, batch, heads * {parts} * dim), but it is {shape}"
    );
    let (length, batch, features) = (shape.dim(0), shape.dim(1), shape.dim(2));
    ensure!(
        features < 0 || features % (heads * parts) == 0,
        "{name} {shape} has {features} features, which is not a multiple of {heads} heads * {parts} vectors"
    );
    let groups = if batch < 0 { -1 } else { batch * heads };
    Ok(ProjectionDims { length, batch, groups, width: if features < 0 { -1 } else { features / parts } })
}

/// The queries, keys or values in projections: vector `part` of the `parts` vectors per head.
fn part<'a, T: ferromx_core::dtype::Element>(
    heads: i32,
    x: &In<'a>,
    (parts, part): (usize, usize),
) -> Result<Part<'a, T>> {
    let (dims, heads) = (x.shape().to_usize(), heads as usize);
    let shape = Interleaved { length: dims[0], groups: dims[1] * heads, parts, dim: dims[2] / (heads * parts) };
    Ok(Part { shape, data: x.slice::<T>()?, part })
}

/// Shape rule of the attention scores of self-attention.
pub(super) fn selfatt_qk_shape(heads: i32, io: &mut ShapeIo<'_>) -> Result<()> {
    let data = projection_dims(heads, "queries_keys_values", &io.ins[0], 3)?;
    io.assign_out(0, &Shape::new(&[data.groups, data.length, data.length]))
}

/// The attention scores of self-attention.
pub(super) fn selfatt_qk(ctx: &OpCtx<'_>, heads: i32, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    scores(ctx, heads, [&ins[0], &ins[0]], [(3, 0), (3, 1)], &mut outs[0])
}

/// Shape rule of the weighted values of self-attention.
pub(super) fn selfatt_valatt_shape(heads: i32, io: &mut ShapeIo<'_>) -> Result<()> {
    let data = projection_dims(heads, "queries_keys_values", &io.ins[0], 3)?;
    io.assign_in(1, &Shape::new(&[data.groups, data.length, data.length]))?;
    io.assign_out(0, &Shape::new(&[data.length, data.batch, data.width]))
}

/// The weighted values of self-attention.
pub(super) fn selfatt_valatt(ctx: &OpCtx<'_>, heads: i32, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    values(ctx, heads, ins, (3, 2), &mut outs[0])
}

fn heads(ctx: &OpCtx<'_>) -> i32 {
    ctx.params::<HeadsParam>().heads
}

fn scores(ctx: &OpCtx<'_>, heads: i32, ins: [&In<'_>; 2], parts: [(usize, usize); 2], out: &mut Out<'_>) -> Result<()> {
    dispatch!(out.dtype(), T in [f32, f64] => {
        let (queries, keys) = (part::<T>(heads, ins[0], parts[0])?, part::<T>(heads, ins[1], parts[1])?);
        attention_scores((queries.shape.dim as T).sqrt().recip(), queries, keys, out.slice_mut::<T>()?);
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

/// The gradients of queries and keys. Without a second output, both are parts of the first.
fn scores_backward(
    ctx: &OpCtx<'_>,
    out_grad: &In<'_>,
    ins: [&In<'_>; 2],
    parts: [(usize, usize); 2],
    [query_grad, key_grad]: [Option<&mut Out<'_>>; 2],
) -> Result<()> {
    let (heads, is_shared) = (heads(ctx), key_grad.is_none());
    dispatch!(out_grad.dtype(), T in [f32, f64] => {
        let (queries, keys) = (part::<T>(heads, ins[0], parts[0])?, part::<T>(heads, ins[1], parts[1])?);
        let scale = (queries.shape.dim as T).sqrt().recip();
        let query_grad = query_grad.filter(|o| o.wanted()).map(|o| o.slice_mut::<T>()).transpose()?;
        let key_grad = key_grad.filter(|o| o.wanted()).map(|o| o.slice_mut::<T>()).transpose()?;
        let grads = match is_shared {
            true => ProjectionGrads::Shared(query_grad),
            false => ProjectionGrads::Separate { queries: query_grad, keys: key_grad },
        };
        attention_scores_backward(scale, queries, keys, out_grad.slice::<T>()?, grads);
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

fn values(ctx: &OpCtx<'_>, heads: i32, ins: &[In<'_>], value_part: (usize, usize), out: &mut Out<'_>) -> Result<()> {
    let query_len = out.shape().to_usize()[0];
    dispatch!(out.dtype(), T in [f32, f64] => {
        attention_values(ins[1].slice::<T>()?, part::<T>(heads, &ins[0], value_part)?, query_len, out.slice_mut::<T>()?);
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

/// Inputs: gradient of the output, projections, attention. Outputs: gradients of projections and attention.
fn values_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], value_part: (usize, usize), outs: &mut [Out<'_>]) -> Result<()> {
    let (heads, query_len) = (heads(ctx), ins[0].shape().to_usize()[0]);
    let [projections, attention] = outs else { return Err(Error::Internal("attention has two inputs".into())) };
    dispatch!(ins[0].dtype(), T in [f32, f64] => {
        let values = part::<T>(heads, &ins[1], value_part)?;
        let value_grad = projections.wanted().then(|| projections.slice_mut::<T>()).transpose()?;
        let attention_grad = attention.wanted().then(|| attention.slice_mut::<T>()).transpose()?;
        let (out_grad, weights) = (ins[0].slice::<T>()?, ins[2].slice::<T>()?);
        attention_values_backward(weights, values, query_len, out_grad, value_grad, attention_grad);
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, numbers};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let heads = [("heads", "2")];
        Case::new(&SELFATT_QK, &heads).check_gradient(&[numbers(&[3, 2, 12])]);
        Case::new(&SELFATT_VALATT, &heads).check_gradient(&[numbers(&[3, 2, 12]), numbers(&[4, 3, 3])]);
        Case::new(&ENCDEC_QK, &heads).check_gradient(&[numbers(&[2, 2, 4]), numbers(&[3, 2, 8])]);
        Case::new(&ENCDEC_VALATT, &heads).check_gradient(&[numbers(&[3, 2, 8]), numbers(&[4, 2, 3])]);
    }

    #[test]
    fn mismatched_shapes_are_refused() {
        let heads = [("heads", "2")];
        assert!(Case::new(&SELFATT_QK, &heads).shapes(&[[3, 2, 10].into()]).is_err());
        assert!(Case::new(&ENCDEC_QK, &heads).shapes(&[[3, 2, 4].into(), [3, 2, 4].into()]).is_err());
        assert!(Case::new(&ENCDEC_QK, &heads).shapes(&[[3, 2, 4].into(), [3, 1, 8].into()]).is_err());
    }
}
