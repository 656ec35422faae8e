//! `box_nms`: non-maximum suppression.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::detection::{Suppression, suppress, suppress_backward};
use ferromx_kernels::progression::arithmetic_progression;

use super::Format;
use super::boxes::output_or_scratch;
use crate::precision::by_precision;

params! {
    /// Parameters of `box_nms`.
    pub struct BoxNmsParam {
        /// A box is suppressed where its overlap (intersection over union) with a better one is larger.
        overlap_thresh: f32 = 0.5;
        /// Only boxes with a larger score are kept.
        valid_thresh: f32 = 0.0;
        /// Number of best boxes to keep before suppression; -1 for all.
        topk: i32 = (-1);
        /// The index of the first of the four coordinates in a row.
        coord_start: i32 = 2;
        /// The index of the score in a row.
        score_index: i32 = 1;
        /// The index of the class in a row; -1 if there are no classes.
        id_index: i32 = (-1);
        /// The class whose boxes are dropped, if there are classes.
        background_id: i32 = (-1);
        /// Whether a box also suppresses boxes of other classes.
        force_suppress: bool = false;
        /// The format of the input boxes: `corner` (left, top, right, bottom) or `center` (x, y, width, height).
        in_format: Format = (Format::Corner);
        /// The format of the output boxes.
        out_format: Format = (Format::Corner);
    }
}

impl BoxNmsParam {
    /// Checks the indices of coordinates, score and class against the length of a row.
    fn check(&self, shape: &Shape) -> Result<()> {
        let Some(rank) = shape.ndim() else { return Ok(()) };
        ensure!(rank >= 2, "the data must have dim >= 2, (..., boxes, numbers of a box), but its shape is {shape}");
        let row_len = shape.dim(rank - 1);
        if row_len < 0 {
            return Ok(());
        }
        let check_index = |name: &str, i: i32| -> Result<()> {
            ensure!((0..row_len).contains(&i64::from(i)), "{name} {i} is out of range for rows of {row_len} numbers");
            let coordinates = self.coord_start..self.coord_start.saturating_add(4);
            ensure!(!coordinates.contains(&i), "{name} {i} is one of the coordinates {coordinates:?}");
            Ok(())
        };
        let end = i64::from(self.coord_start) + 4;
        ensure!(
            self.coord_start >= 0 && end <= row_len,
            "the coordinates {}..{end} are out of range for rows of {row_len} numbers",
            self.coord_start
        );
        check_index("score_index", self.score_index)?;
        if self.id_index >= 0 {
            check_index("id_index", self.id_index)?;
            ensure!(self.id_index != self.score_index, "id_index and score_index are both {}", self.id_index);
        }
        Ok(())
    }

    fn suppression(&self, row_len: usize) -> Suppression {
        let class = usize::try_from(self.id_index).ok();
        Suppression {
            width: row_len,
            coordinates: self.coord_start as usize,
            score: self.score_index as usize,
            class,
            background: class.map(|_| self.background_id as f32),
            force_suppress: self.force_suppress,
            valid_above: self.valid_thresh,
            overlap_above: self.overlap_thresh,
            topk: usize::try_from(self.topk).ok(),
            input: self.in_format.to_kernel(),
            output: self.out_format.to_kernel(),
        }
    }
}

pub(super) static BOX_NMS: Operator<BoxNmsParam> = Operator::new("_contrib_box_nms")
    .aliases(&["_contrib_box_non_maximum_suppression"])
    .doc(
        "Non-maximum suppression: of boxes that overlap, the one with the best score is kept. The result holds the kept boxes, \
         best first, followed by rows of -1.\n\n\
         Shapes: data and output (..., boxes, numbers of a box). The gradient of a row goes to its source row. With \
         topk=0 the data is returned unchanged.",
    )
    .inputs(&[arg("data", "Boxes with scores, of shape (..., boxes, numbers of a box).")])
    .outputs(|_| 2)
    .visible(|_| 1)
    .shape(|p, io| {
        p.get::<BoxNmsParam>().check(&io.ins[0])?;
        io.assign_out(0, &io.ins[0].clone())?;
        io.assign_in(0, &io.outs[0].clone())?;
        let rank = io.ins[0].ndim().unwrap_or(0);
        if rank > 0 {
            io.assign_out(1, &Shape::new(&io.ins[0].dims()[..rank - 1]))?;
        }
        Ok(())
    })
    .dtype(|_, io| {
        io.assign_out(1, DType::I64)?;
        if let Some(d) = io.ins[0].or(io.outs[0]) {
            io.assign_in(0, d)?;
            io.assign_out(0, d)?;
        }
        Ok(())
    })
    .forward(forward)
    .grad(Grad::Kernel(Backward::new(backward).outputs(Deps::Some(&[1])), None));

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<BoxNmsParam>();
    let dims = ins[0].shape().to_usize();
    let (num_boxes, row_len) = (dims[dims.len() - 2], dims[dims.len() - 1]);
    by_precision!((ins, outs), ins[0].dtype(), T for [F16] => {
        let [out, record] = outs else { return Ok(()) };
        let (mut discarded, mut discarded_record) = (Vec::new(), Vec::new());
        let record = output_or_scratch::<i64>(record, &mut discarded_record)?;
        let (data, out) = (ins[0].slice::<T>()?, output_or_scratch::<T>(out, &mut discarded)?);
        if p.topk == 0 {
            out.copy_from_slice(data);
            arithmetic_progression(0.0, 1.0, 1, record);
        } else {
            suppress(data, num_boxes, &p.suppression(row_len), out, record);
        }
        Ok(())
    }, other => Err(ctx.unsupported(other, DType::FLOATS)))
}

/// Inputs: gradient of the output, source index of each of its rows. Output: gradient of the data.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let row_len = outs[0].shape().dims().last().map_or(1, |w| *w as usize);
    if !outs[0].wanted() {
        return Ok(());
    }
    by_precision!((ins, outs), ins[0].dtype(), T for [F16] => {
        suppress_backward(ins[0].slice::<T>()?, ins[1].slice()?, row_len, outs[0].slice_mut()?);
        Ok(())
    }, other => Err(ctx.unsupported(other, DType::FLOATS)))
}
