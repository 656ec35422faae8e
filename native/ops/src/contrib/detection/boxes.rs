//! `box_iou`, `box_encode`, `box_decode`, `bipartite_matching`.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::detection::{self, Decoding, Encoding};
use ferromx_kernels::sort::Order;

use super::{Format, check_last_axis};
use crate::precision::by_precision;

params! {
    /// Parameters of `box_iou`.
    pub struct BoxIouParam {
        /// The format of the boxes: `corner` (left, top, right, bottom) or `center` (x, y, width, height).
        format: Format = (Format::Corner);
    }
}

pub(super) static BOX_IOU: Operator<BoxIouParam> = Operator::new("_contrib_box_iou")
    .doc(
        "The overlap of every box of lhs with every box of rhs: the area of the intersection divided by that of the union.\n\n\
         Shapes: lhs (a1, ..., am, 4), rhs (b1, ..., bn, 4), output (a1, ..., am, b1, ..., bn). No gradient flows back.",
    )
    .inputs(&[arg("lhs", "Boxes, of shape (..., 4)."), arg("rhs", "Boxes, of shape (..., 4).")])
    .shape(|_, io| {
        let mut dims = Dims::new();
        for (name, shape) in ["lhs", "rhs"].into_iter().zip(&*io.ins) {
            let Some(rank) = shape.ndim() else { return Ok(()) };
            ensure!(rank >= 2, "{name} must have dim >= 2, boxes along the last axis, but it has {rank}");
            check_last_axis(name, shape, 4, "a box")?;
            dims.extend_from_slice(&shape.dims()[..rank - 1]);
        }
        io.assign_out(0, &Shape::from(dims))
    })
    .forward(|ctx, ins, outs| {
        let format = ctx.params::<BoxIouParam>().format.to_kernel();
        by_precision!((ins, outs), ins[0].dtype(), T for [F16] => {
            detection::box_iou(ins[0].slice::<T>()?, ins[1].slice()?, format, outs[0].slice_mut()?);
            Ok(())
        }, other => Err(ctx.unsupported(other, DType::FLOATS)))
    })
    .grad(Grad::Zero);

pub(super) static BOX_ENCODE: Operator = Operator::new("_contrib_box_encode")
    .doc(
        "The training targets of boxes (corners) relative to anchors: ((x - ax) / aw - means[0]) / stds[0], the same for y, and (log(w \
         / aw) - means[2]) / stds[2], the same for h, where (x, y, w, h) is the box that an anchor is matched to. Targets of anchors \
         that are not positive are 0.\n\n\
         Shapes: samples and matches (batch, n), anchors (batch, n, 4), refs (batch, m, 4), means and stds (4,); outputs: targets and \
         masks, both (batch, n, 4). No gradient flows back.",
    )
    .inputs(&[
        arg("samples", "1 for positive anchors, 0 or -1 for others; of shape (batch, n)."),
        arg("matches", "The index of the box that each anchor is matched to, of shape (batch, n)."),
        arg("anchors", "The anchors as corners, of shape (batch, n, 4)."),
        arg("refs", "The boxes as corners, of shape (batch, m, 4)."),
        arg("means", "The means to subtract from the codes, of shape (4,)."),
        arg("stds", "The standard deviations by which to divide the codes, of shape (4,)."),
    ])
    .outputs(|_| 2)
    .shape(encode_shape)
    .forward(|ctx, ins, outs| {
        by_precision!((ins, outs), ins[0].dtype(), T for [F16] => box_encode::<T>(ins, outs),
            other => Err(ctx.unsupported(other, DType::FLOATS)))
    })
    .grad(Grad::Zero);

fn encode_shape(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    io.assign_in(4, &Shape::new(&[4]))?;
    io.assign_in(5, &Shape::new(&[4]))?;
    for (i, name) in [(2, "anchors"), (3, "refs")] {
        check_last_axis(name, &io.ins[i], 4, "a box")?;
    }
    let (samples, anchors) = (io.ins[0].clone(), io.ins[2].clone());
    ensure!(samples.ndim().is_none_or(|n| n == 2), "samples has shape {samples}, expected (batch, n)");
    ensure!(anchors.ndim().is_none_or(|n| n == 3), "anchors has shape {anchors}, expected (batch, n, 4)");
    let (batch, n) = (samples.dim(0), samples.dim(1));
    io.assign_in(1, &Shape::new(&[batch, n]))?;
    io.assign_in(2, &Shape::new(&[batch, n, 4]))?;
    io.assign_in(3, &Shape::new(&[batch, -1, 4]))?;
    let out = Shape::new(&[batch.max(anchors.dim(0)), n.max(anchors.dim(1)), 4]);
    io.assign_out(0, &out)?;
    io.assign_out(1, &out)
}

fn box_encode<T: ferromx_kernels::float::FloatElement>(ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let batch = ins[0].shape().dim(0) as usize;
    let [targets, masks] = outs else { return Ok(()) };
    let (mut discarded_targets, mut discarded_masks) = (Vec::new(), Vec::new());
    let targets = output_or_scratch(targets, &mut discarded_targets)?;
    let masks = output_or_scratch(masks, &mut discarded_masks)?;
    let encoding = Encoding {
        examples: batch,
        samples: ins[0].slice::<T>()?,
        matches: ins[1].slice()?,
        anchors: ins[2].slice()?,
        refs: ins[3].slice()?,
        means: ins[4].slice()?,
        stds: ins[5].slice()?,
    };
    detection::box_encode(&encoding, targets, masks);
    Ok(())
}

/// The elements of an output, or a scratch buffer of the same length if the output is not wanted.
pub(super) fn output_or_scratch<'a, T: ferromx_core::dtype::Element>(
    out: &'a mut Out<'_>,
    scratch: &'a mut Vec<T>,
) -> Result<&'a mut [T]> {
    if out.wanted() {
        return out.slice_mut();
    }
    scratch.resize(out.len(), T::default());
    Ok(scratch)
}

params! {
    /// Parameters of `box_decode`.
    pub struct BoxDecodeParam {
        /// The scale of the first code (x).
        std0: f32 = 1.0;
        /// The scale of the second code (y).
        std1: f32 = 1.0;
        /// The scale of the third code (width).
        std2: f32 = 1.0;
        /// The scale of the fourth code (height).
        std3: f32 = 1.0;
        /// Upper bound of the logarithm of a size ratio; no bound if it is not positive.
        clip: f32 = (-1.0);
        /// The format of the anchors: `corner` (left, top, right, bottom) or `center` (x, y, width, height).
        format: Format = (Format::Center);
    }
}

/// Decodes boxes, the inverse of [`BOX_ENCODE`].
pub(super) static BOX_DECODE: Operator<BoxDecodeParam> = Operator::new("_contrib_box_decode")
    .doc(
        "Boxes from codes relative to anchors, the inverse of box_encode: the center is (code[0] * std0 * aw + ax, code[1] * std1 \
         * ah + ay), the size (exp(code[2] * std2) * aw, exp(code[3] * std3) * ah).\n\n\
         Shapes: data (batch, n, 4), anchors (1, n, 4), output (batch, n, 4) as corners. No gradient flows back.",
    )
    .inputs(&[
        arg("data", "The codes, of shape (batch, n, 4)."),
        arg("anchors", "The anchors, of shape (1, n, 4)."),
    ])
    .shape(|_, io| {
        let data = io.ins[0].clone();
        ensure!(data.ndim().is_none_or(|n| n == 3), "data has shape {data}, expected (batch, n, 4)");
        check_last_axis("data", &data, 4, "a box")?;
        io.assign_in(1, &Shape::new(&[1, data.dim(1), 4]))?;
        let n = data.dim(1).max(io.ins[1].dim(1));
        io.assign_in(0, &Shape::new(&[-1, n, 4]))?;
        io.assign_out(0, &Shape::new(&[data.dim(0), n, 4]))
    })
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<BoxDecodeParam>();
        let decoding = Decoding { format: p.format.to_kernel(), stds: [p.std0, p.std1, p.std2, p.std3], clip: p.clip };
        by_precision!((ins, outs), ins[0].dtype(), T for [F16] => {
            detection::box_decode(ins[0].slice::<T>()?, ins[1].slice()?, &decoding, outs[0].slice_mut()?);
            Ok(())
        }, other => Err(ctx.unsupported(other, DType::FLOATS)))
    })
    .grad(Grad::Zero);

params! {
    /// Parameters of `bipartite_matching`.
    pub struct BipartiteMatchingParam {
        /// Whether lower scores are better.
        is_ascend: bool = false;
        /// Only scores better than this are matched.
        threshold: f32 = required;
        /// Maximum number of matched pairs; -1 for no limit.
        topk: i32 = (-1);
    }
}

pub(super) static BIPARTITE_MATCHING: Operator<BipartiteMatchingParam> = Operator::new("_contrib_bipartite_matching")
    .doc(
        "Matches the rows and columns of matrices of scores, best score first, each row and each column once. Of equal scores the first \
         one wins.\n\n\
         Shapes: data (..., n, m); outputs: for each row its column (..., n), for each column its row (..., m), -1 if unmatched. No \
         gradient flows back.",
    )
    .inputs(&[arg("data", "The scores, of shape (..., n, m).")])
    .outputs(|_| 2)
    .shape(|_, io| {
        let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
        ensure!(rank >= 2, "the scores must have dim >= 2, (..., rows, columns), but they have {rank}");
        let mut rows: Dims = io.ins[0].dims().into();
        let cols = rows.pop();
        let mut columns = rows.clone();
        columns[rank - 2] = cols.unwrap_or(-1);
        io.assign_out(0, &Shape::from(rows))?;
        io.assign_out(1, &Shape::from(columns))
    })
    .forward(bipartite_matching)
    .grad(Grad::Zero);

fn bipartite_matching(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<BipartiteMatchingParam>();
    let dims = ins[0].shape().to_usize();
    let matrix = (dims[dims.len() - 2], dims[dims.len() - 1]);
    let order = if p.is_ascend { Order::Ascending } else { Order::Descending };
    let topk = usize::try_from(p.topk).ok().filter(|k| *k > 0);
    by_precision!((ins, outs), ins[0].dtype(), T for [F16] => {
        let [rows, cols] = outs else { return Ok(()) };
        let (mut discarded_rows, mut discarded_cols) = (Vec::new(), Vec::new());
        let matches = (output_or_scratch::<T>(rows, &mut discarded_rows)?, output_or_scratch::<T>(cols, &mut discarded_cols)?);
        detection::bipartite_matching(ins[0].slice()?, matrix, order, p.threshold, topk, matches);
        Ok(())
    }, other => Err(ctx.unsupported(other, DType::FLOATS)))
}
