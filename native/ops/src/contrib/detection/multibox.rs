//! `MultiBoxPrior`, `MultiBoxTarget`, `MultiBoxDetection`: anchors, training targets and detections of a single shot detector (SSD).

use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{OpCtx, Operator, arg};
use ferromx_core::params::{Params, Tuple};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::detection::{Anchors, Detection, NegativeMining, Targets, detections, multibox_targets, priors};

use super::all_float32;
use super::boxes::output_or_scratch;

params! {
    /// Parameters of `MultiBoxPrior`.
    pub struct PriorParam {
        /// Sizes of anchors, relative to the image.
        sizes: Tuple<f32> = (Tuple(vec![1.0]));
        /// Ratios of width to height of anchors.
        ratios: Tuple<f32> = (Tuple(vec![1.0]));
        /// Whether anchors are clipped to the image.
        clip: bool = false;
        /// Distance (y, x) between neighboring cells, relative to the image; -1 spaces the cells evenly.
        steps: Tuple<f32> = (Tuple(vec![-1.0, -1.0]));
        /// Center (y, x) of the anchors within a cell, relative to the cell.
        offsets: Tuple<f32> = (Tuple(vec![0.5, 0.5]));
    }
}

impl PriorParam {
    /// The anchors of a feature map of (height, width) cells.
    fn anchors(&self, height: usize, width: usize) -> Result<Anchors> {
        ensure!(!self.sizes.0.is_empty(), "sizes is empty: give at least one");
        ensure!(!self.ratios.0.is_empty(), "ratios is empty: give at least one");
        let [step_y, step_x] = self.steps.0[..] else {
            return Err(ferromx_core::error::Error::value("Step ndim must be 2: (step_y, step_x)"));
        };
        ensure!(step_y * step_x >= 0.0, "steps is ({step_y}, {step_x}): give both as positive numbers, or both as -1");
        let [y, x] = self.offsets.0[..] else {
            return Err(ferromx_core::error::Error::value("offsets must have two elements: (offset_y, offset_x)"));
        };
        ensure!([y, x].iter().all(|o| (0.0..=1.0).contains(o)), "offsets is ({y}, {x}): both must be in [0, 1]");
        let steps = (step_y > 0.0 && step_x > 0.0).then_some((step_y, step_x));
        let (sizes, ratios) = (self.sizes.0.clone(), self.ratios.0.clone());
        Ok(Anchors { map: (height, width), sizes, ratios, steps, offsets: (y, x), clip: self.clip })
    }
}

pub(super) static PRIOR: Operator<PriorParam> = Operator::new("_contrib_MultiBoxPrior").legacy()
    .aliases(&["_npx_multibox_prior"])
    .doc(
        "Anchors (prior boxes) around the cells of a feature map (Liu et al., \"SSD: Single Shot MultiBox Detector\", 2016), as corners \
         relative to the image: for each cell all sizes with the first ratio, then the first size with the other ratios. An anchor of \
         size s and ratio r has width s * sqrt(r) * height / width of the map, and height s / sqrt(r).\n\n\
         Shapes: data (batch, channel, height, width), output (1, height * width * (sizes + ratios - 1), 4). No gradient flows back.",
    )
    .inputs(&[arg("data", "The feature map; only its shape is used.")])
    .shape(|p, io| {
        let data = &io.ins[0];
        let Some(rank) = data.ndim() else { return Ok(()) };
        ensure!(rank >= 4, "Input data should be 4D: batch-channel-y-x, but it has {rank} dimensions");
        let per_cell = p.get::<PriorParam>().anchors(1, 1)?.per_cell() as i64;
        let cells = data.product(2..4);
        io.assign_out(0, &Shape::new(&[1, if cells < 0 { -1 } else { cells * per_cell }, 4]))
    })
    .dtype(all_float32)
    .forward(|ctx, ins, outs| {
        let dims = ins[0].shape().to_usize();
        priors(&ctx.params::<PriorParam>().anchors(dims[2], dims[3])?, outs[0].slice_mut()?);
        Ok(())
    })
    .grad(Grad::Zero);

/// Checks that there are four variances, which scale the codes.
fn variances(v: &Tuple<f32>) -> Result<[f32; 4]> {
    let len = v.0.len();
    <[f32; 4]>::try_from(&v.0[..])
        .map_err(|_| ferromx_core::error::Error::Value(format!("variances must have four elements, but it has {len}")))
}

params! {
    /// Parameters of `MultiBoxTarget`.
    pub struct TargetParam {
        /// An anchor is also matched to the object that it overlaps most if the overlap exceeds this.
        overlap_threshold: f32 = 0.5;
        /// The class of ignored anchors.
        ignore_label: f32 = (-1.0);
        /// Number of hard negatives (background anchors) per positive anchor; -1 for
        /// all negatives.
        negative_mining_ratio: f32 = (-1.0);
        /// Only anchors whose overlap with every object is smaller are negatives.
        negative_mining_thresh: f32 = 0.5;
        /// Minimum number of negatives.
        minimum_negative_samples: i32 = 0;
        /// The scales by which codes are divided.
        variances: Tuple<f32> = (Tuple(vec![0.1, 0.1, 0.2, 0.2]));
    }
}

pub(super) static TARGET: Operator<TargetParam> = Operator::new("_contrib_MultiBoxTarget").legacy()
    .aliases(&["_npx_multibox_target"])
    .doc(
        "Training targets of anchors (Liu et al., \"SSD: Single Shot MultiBox Detector\", 2016). Each object is matched to the anchor \
         that it overlaps most; any other anchor to the object that it overlaps most, if the overlap exceeds overlap_threshold. The \
         codes of an anchor are ((x - ax) / aw, (y - ay) / ah, log(w / aw), log(h / ah)) / variances.\n\n\
         Shapes: anchor (1, n, 4), label (batch, objects, 5 or more) with rows (class, left, top, right, bottom) and -1 after the last \
         object, cls_pred (batch, classes, n); outputs: codes and their mask, both (batch, 4 * n), and the class of each anchor (batch, \
         n), 0 being the background. Examples without an object are ignored. No gradient flows back.",
    )
    .inputs(&[
        arg("anchor", "The anchors as corners, of shape (1, n, 4)."),
        arg("label", "The objects, of shape (batch, objects, 5 or more)."),
        arg("cls_pred", "The predicted scores of classes, of shape (batch, classes, n)."),
    ])
    .outputs(|_| 3)
    .output_names_by(|_| ["loc_target", "loc_mask", "cls_target"].map(String::from).to_vec())
    .shape(target_shape)
    .dtype(all_float32)
    .forward(target)
    .grad(Grad::Zero);

fn target_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    variances(&p.get::<TargetParam>().variances)?;
    let (anchor, label) = (io.ins[0].clone(), io.ins[1].clone());
    ensure!(anchor.ndim().is_none_or(|n| n == 3), "anchor has shape {anchor}, expected (1, n, 4)");
    ensure!(anchor.dim(0) < 0 || anchor.dim(0) == 1, "Anchors are shared across batches, first dimension should be 1");
    ensure!(label.ndim().is_none_or(|n| n == 3), "label has shape {label}, expected (batch, objects, 5 or more)");
    ensure!(
        label.dim(2) < 0 || label.dim(2) >= 5,
        "Label width should be greater than or equal to 5 (class and corners), but it is {}",
        label.dim(2)
    );
    io.assign_in(0, &Shape::new(&[1, -1, 4]))?;
    let n = anchor.dim(1);
    io.assign_in(2, &Shape::new(&[label.dim(0), -1, n]))?;
    let (batch, codes) = (label.dim(0).max(io.ins[2].dim(0)), if n < 0 { -1 } else { 4 * n });
    io.assign_out(0, &Shape::new(&[batch, codes]))?;
    io.assign_out(1, &Shape::new(&[batch, codes]))?;
    io.assign_out(2, &Shape::new(&[batch, n]))
}

fn target(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<TargetParam>();
    let label = ins[1].shape().to_usize();
    ensure!(
        p.negative_mining_ratio <= 0.0 || p.negative_mining_thresh > 0.0,
        "Check failed: negative_mining_thresh > 0 ({} vs. 0): no anchor could be a negative",
        p.negative_mining_thresh
    );
    let mining = (p.negative_mining_ratio > 0.0).then(|| NegativeMining {
        ratio: p.negative_mining_ratio,
        overlap_below: p.negative_mining_thresh,
        minimum: p.minimum_negative_samples.max(0) as usize,
    });
    let targets = Targets {
        label_width: label[2],
        overlap: p.overlap_threshold,
        ignore: p.ignore_label,
        mining,
        variances: variances(&p.variances)?,
    };
    let [codes, masks, classes] = outs else { return Ok(()) };
    let mut discarded = [Vec::new(), Vec::new(), Vec::new()];
    let [codes_scratch, masks_scratch, classes_scratch] = &mut discarded;
    let results = (
        output_or_scratch(codes, codes_scratch)?,
        output_or_scratch(masks, masks_scratch)?,
        output_or_scratch(classes, classes_scratch)?,
    );
    multibox_targets(ins[0].slice()?, ins[1].slice()?, ins[2].slice()?, label[0], &targets, results);
    Ok(())
}

params! {
    /// Parameters of `MultiBoxDetection`.
    pub struct DetectionParam {
        /// Whether boxes are clipped to the image.
        clip: bool = true;
        /// Boxes with a smaller probability are dropped.
        threshold: f32 = 0.01;
        /// The background class; -1 for none.
        background_id: i32 = 0;
        /// A box is suppressed where its overlap with a better one reaches this. Outside (0, 1] nothing is suppressed or sorted.
        nms_threshold: f32 = 0.5;
        /// Whether a box also suppresses boxes of other classes.
        force_suppress: bool = false;
        /// The scales by which codes are multiplied.
        variances: Tuple<f32> = (Tuple(vec![0.1, 0.1, 0.2, 0.2]));
        /// Number of best boxes to keep before suppression; -1 for all.
        nms_topk: i32 = (-1);
    }
}

pub(super) static DETECTION: Operator<DetectionParam> = Operator::new("_contrib_MultiBoxDetection").legacy()
    .aliases(&["_npx_multibox_detection"])
    .doc(
        "The boxes that a single shot detector detects (Liu et al., \"SSD: Single Shot MultiBox Detector\", 2016): the codes of every \
         anchor are decoded, and of overlapping boxes the most probable one is kept.\n\n\
         Shapes: cls_prob (batch, classes, n), loc_pred (batch, 4 * n), anchor (1, n, 4); output (batch, n, 6) with rows (class, \
         probability, left, top, right, bottom), most probable first. Classes are numbered without the background; the class of a \
         suppressed box, and all numbers of a row without a box, are -1. No gradient flows back.",
    )
    .inputs(&[
        arg("cls_prob", "The probabilities of classes, the background among them; of shape (batch, classes, n)."),
        arg("loc_pred", "The predicted codes, of shape (batch, 4 * n)."),
        arg("anchor", "The anchors as corners, of shape (1, n, 4)."),
    ])
    .shape(|p, io| {
        variances(&p.get::<DetectionParam>().variances)?;
        let probability = io.ins[0].clone();
        ensure!(probability.ndim().is_none_or(|n| n == 3), "cls_prob has shape {probability}, expected (batch, classes, n)");
        let (batch, n) = (probability.dim(0), probability.dim(2));
        let codes = io.ins[1].dim(1);
        ensure!(n < 0 || codes < 0 || codes == 4 * n, "loc_pred has {codes} codes for an example, expected 4 * {n} anchors");
        io.assign_in(1, &Shape::new(&[batch, if n < 0 { -1 } else { 4 * n }]))?;
        io.assign_in(2, &Shape::new(&[1, n, 4]))?;
        io.assign_out(0, &Shape::new(&[batch, n, 6]))
    })
    .dtype(all_float32)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<DetectionParam>();
        let detection = Detection {
            background: usize::try_from(p.background_id).ok(),
            clip: p.clip,
            threshold: p.threshold,
            overlap: (p.nms_threshold > 0.0 && p.nms_threshold <= 1.0).then_some(p.nms_threshold),
            force_suppress: p.force_suppress,
            variances: variances(&p.variances)?,
            topk: usize::try_from(p.nms_topk).ok().filter(|k| *k > 0),
        };
        let batch = ins[0].shape().dim(0) as usize;
        detections(ins[0].slice()?, ins[1].slice()?, ins[2].slice()?, batch, &detection, outs[0].slice_mut()?);
        Ok(())
    })
    .grad(Grad::Zero);
