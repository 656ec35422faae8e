//! `Proposal` and `MultiProposal`: the region proposals of Faster R-CNN.

use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{ArgDef, OpCtx, Operator, arg};
use ferromx_core::params::{Params, Tuple};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::detection::{Proposals, proposals};

use super::all_float32;
use super::boxes::output_or_scratch;

params! {
    /// Parameters of `Proposal` and `MultiProposal`.
    pub struct ProposalParam {
        /// Number of best boxes to keep before suppression; 0 or less for all.
        rpn_pre_nms_top_n: i32 = 6000;
        /// Number of regions for each image.
        rpn_post_nms_top_n: i32 = 300;
        /// A box is suppressed where its overlap with a better one is larger.
        threshold: f32 = 0.7;
        /// The smallest width and height, in pixels of the original (unscaled) image.
        rpn_min_size: i32 = 16;
        /// Sizes of anchors, in units of feature_stride.
        scales: Tuple<f32> = (Tuple(vec![4.0, 8.0, 16.0, 32.0]));
        /// Ratios of height to width of anchors.
        ratios: Tuple<f32> = (Tuple(vec![0.5, 1.0, 2.0]));
        /// Image pixels per cell of the feature map.
        feature_stride: i32 = 16;
        /// Whether the scores are a second output.
        output_score: bool = false;
        /// Whether bbox_pred holds offsets of corners, as networks trained with an IoU loss predict.
        iou_loss: bool = false;
    }
}

impl ProposalParam {
    /// The kernel's parameters for a feature map of (height, width) cells.
    fn proposals(&self, height: usize, width: usize) -> Result<Proposals> {
        ensure!(self.feature_stride > 0, "feature_stride is {}: it must be positive", self.feature_stride);
        ensure!(self.rpn_post_nms_top_n > 0, "rpn_post_nms_top_n is {}: it must be positive", self.rpn_post_nms_top_n);
        Ok(Proposals {
            map: (height, width),
            stride: self.feature_stride as f32,
            scales: self.scales.0.clone(),
            ratios: self.ratios.0.clone(),
            pre_nms_top_n: usize::try_from(self.rpn_pre_nms_top_n).ok().filter(|n| *n > 0).unwrap_or(usize::MAX),
            post_nms_top_n: self.rpn_post_nms_top_n as usize,
            overlap: self.threshold,
            min_size: self.rpn_min_size as f32,
            use_corner_codes: self.iou_loss,
        })
    }
}

const INPUTS: &[ArgDef] = &[
    arg(
        "cls_prob",
        "The probabilities of background (first half of the channels) and objects, (batch, 2 * anchors, height, width).",
    ),
    arg("bbox_pred", "The codes of boxes relative to anchors, of shape (batch, 4 * anchors, height, width)."),
    arg("im_info", "Height, width and scale of each image, of shape (batch, 3)."),
];

macro_rules! proposal {
    ($(#[$meta:meta])* $NAME:ident: $op:literal, $images:literal, allows_batch: $allows_batch:literal) => {
        $(#[$meta])*
        pub(crate) static $NAME: Operator<ProposalParam> = Operator::new($op).legacy()
            .doc(concat!(
                "Proposes regions of images that may show objects (Ren et al., \"Faster R-CNN\", 2015): the codes of every anchor are \
                 decoded and clipped to the image, and of overlapping boxes the most probable one is kept. If fewer boxes than \
                 rpn_post_nms_top_n are left, they are repeated from the first on.\n\n\
                 Shapes, with a = scales * ratios: cls_prob (batch, 2 * a, height, width), bbox_pred (batch, 4 * a, height, width), \
                 im_info (batch, 3), output (batch * rpn_post_nms_top_n, 5) with rows (image, left, top, right, bottom), and with \
                 output_score=True scores (batch * rpn_post_nms_top_n, 1). ", $images, " No gradient flows back."))
            .inputs(INPUTS)
            .outputs(|_| 2)
            .visible(|p| if p.get::<ProposalParam>().output_score { 2 } else { 1 })
            .output_names_by(|_| ["output", "score"].map(String::from).to_vec())
            .shape(|p, io| infer_shape(p, io, $allows_batch))
            .dtype(all_float32)
            .forward(forward)
            .grad(Grad::Zero);
    };
}

proposal!(
    /// Region proposals for one image.
    PROPOSAL: "_contrib_Proposal", "The batch is one image.", allows_batch: false
);
proposal!(
    /// Region proposals for a batch of images.
    MULTI_PROPOSAL: "_contrib_MultiProposal", "The batch may hold several images.", allows_batch: true
);

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>, allows_batch: bool) -> Result<()> {
    let p = p.get::<ProposalParam>();
    let anchors = p.proposals(1, 1)?.anchors_per_cell() as i64;
    let scores = io.ins[0].clone();
    if !scores.ndim_is_known() {
        return Ok(());
    }
    ensure!(scores.ndim() == Some(4), "cls_prob has shape {scores}, expected (batch, 2 * anchors, height, width)");
    let (batch, height, width) = (scores.dim(0), scores.dim(2), scores.dim(3));
    ensure!(
        scores.dim(1) < 0 || scores.dim(1) == 2 * anchors,
        "cls_prob has {} channels, expected two for each of the {anchors} pairs of scale and ratio",
        scores.dim(1)
    );
    ensure!(allows_batch || batch <= 1, "Proposal takes one image, but the batch has {batch}: use MultiProposal");
    io.assign_in(1, &Shape::new(&[batch, 4 * anchors, height, width]))?;
    io.assign_in(2, &Shape::new(&[batch, 3]))?;
    let rows = if batch < 0 { -1 } else { batch * i64::from(p.rpn_post_nms_top_n) };
    io.assign_out(0, &Shape::new(&[rows, 5]))?;
    io.assign_out(1, &Shape::new(&[rows, 1]))
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let dims = ins[0].shape().to_usize();
    let (height, width) = (dims[2], dims[3]);
    let config = ctx.params::<ProposalParam>().proposals(height, width)?;
    let info = ins[2].slice::<f32>()?;
    for image in info.chunks_exact(3) {
        let cells = |pixels: f32| (pixels / config.stride) as usize;
        ensure!(
            cells(image[0]) <= height && cells(image[1]) <= width,
            "an image of {} x {} pixels has more cells of {} pixels than the feature map of {height} x {width}",
            image[0],
            image[1],
            config.stride
        );
    }
    let [regions, scores] = outs else { return Ok(()) };
    let (mut discarded_regions, mut discarded_scores) = (Vec::new(), Vec::new());
    let results =
        (output_or_scratch(regions, &mut discarded_regions)?, output_or_scratch(scores, &mut discarded_scores)?);
    proposals(ins[0].slice()?, ins[1].slice()?, info, &config, results);
    Ok(())
}
