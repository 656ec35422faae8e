//! `NonMaxSuppression`: selection of object detections.

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{OpCtx, Operator, arg};
use ferromx_core::params;
use ferromx_core::shape::Shape;
use ferromx_kernels::detection::{Selection, box_edges, select_boxes_of_classes};

params! {
    /// Parameters of `_onnx_NonMaxSuppression`.
    pub struct NonMaxSuppressionParam {
        /// Whether boxes are (x_center, y_center, width, height); otherwise (y1, x1, y2, x2), any two opposite corners.
        center_point_box: bool = false;
        /// The most boxes that are kept for each class.
        max_output_boxes_per_class: i64 = 0;
        /// Boxes whose intersection over union with a better box exceeds this are suppressed.
        iou_threshold: f32 = 0.0, where 0.0..=1.0;
        /// Boxes with a score of at most this are dropped.
        score_threshold: Option<f32> = None;
    }
}

pub(super) static NON_MAX_SUPPRESSION: Operator<NonMaxSuppressionParam> = Operator::new("_onnx_NonMaxSuppression")
    .doc(
        "Selects boxes of each image and class that do not overlap a better one: rows (image, class, box), the best box of a class first. \
         Imperative only, as the number of boxes depends on the data.\n\n\
         Shapes: boxes (images, n, 4), scores (images, classes, n), both float32; output (m, 3) of int64. Source: NonMaxSuppression of \
         ONNX.",
    )
    .inputs(&[
        arg("boxes", "The boxes, of shape (images, n, 4)."),
        arg("scores", "Their scores, of shape (images, classes, n)."),
    ])
    .dynamic(forward)
    .shape(|_, io| io.assign_out(0, &Shape::new(&[-1, 3])))
    .dtype(|_, io| io.assign_out(0, DType::I64));

fn forward(ctx: &OpCtx<'_>, ins: &[NDArray]) -> Result<Vec<NDArray>> {
    let p = ctx.params::<NonMaxSuppressionParam>();
    let (b, s) = (ins[0].shape(), ins[1].shape());
    for array in ins {
        if array.dtype() != DType::F32 {
            return Err(ctx.unsupported(array.dtype(), &[DType::F32]));
        }
    }
    ensure!(
        b.dims().len() == 3 && s.dims().len() == 3 && b.dim(2) == 4 && b.dim(0) == s.dim(0) && b.dim(1) == s.dim(2),
        "boxes of shape {b} and scores of shape {s} do not match: expected (images, n, 4) and (images, classes, n)"
    );
    let (classes, n) = (s.dim(1) as usize, s.dim(2) as usize);
    let edges = box_edges(&ins[0].to_vec::<f32>()?, p.center_point_box);
    let scores = ins[1].to_vec::<f32>()?;
    let limit = usize::try_from(p.max_output_boxes_per_class).unwrap_or(0);
    let selection = Selection { overlap: p.iou_threshold, score: p.score_threshold, limit };
    let kept = select_boxes_of_classes(&edges, &scores, (classes, n), &selection);
    let row = |i: usize, index: &usize| [(i / classes) as i64, (i % classes) as i64, *index as i64];
    let rows: Vec<i64> =
        kept.iter().enumerate().flat_map(|(i, kept)| kept.iter().flat_map(move |index| row(i, index))).collect();
    Ok(vec![NDArray::from_slice(&rows, &[rows.len() as i64 / 3, 3])?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn boxes_that_overlap_a_better_one_are_suppressed() {
        let boxes = array(&[0f32, 0.0, 1.0, 1.0, 1.0, 1.1, 0.0, 0.1, 0.0, 2.0, 1.0, 3.0], &[1, 3, 4]);
        let scores = array(&[0.5f32, 0.9, 0.2, 0.1, 0.1, 0.1], &[1, 2, 3]);
        let attrs = [("max_output_boxes_per_class", "9"), ("iou_threshold", "0.5"), ("score_threshold", "0.15")];
        let out = Case::new(&NON_MAX_SUPPRESSION, &attrs).run1(&[boxes.clone(), scores.clone()]).unwrap();
        assert_eq!((out.shape().dims(), out.to_vec::<i64>().unwrap()), (&[2, 3][..], vec![0, 0, 1, 0, 0, 2]));
        let none = Case::new(&NON_MAX_SUPPRESSION, &[]).run1(&[boxes.clone(), scores]).unwrap();
        assert_eq!(none.shape().dims(), [0, 3]);
        let e = Case::new(&NON_MAX_SUPPRESSION, &[]).run1(&[boxes.clone(), boxes]).unwrap_err();
        assert!(e.to_string().contains("do not match"), "{e}");
    }
}
