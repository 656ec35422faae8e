use ferromx_core::shape::Shape;

use super::{boxes, multibox, nms, proposal, roi_pooling};
use crate::testing::{Case, array};

#[test]
fn errors_name_the_invalid_parameter() {
    let nms_error = |attrs: &[(&str, &str)]| {
        Case::new(&nms::BOX_NMS, attrs).shapes(&[Shape::new(&[4, 6])]).unwrap_err().to_string()
    };
    assert!(nms_error(&[("coord_start", "3")]).contains("out of range for rows of 6"));
    assert!(nms_error(&[("score_index", "3")]).contains("one of the coordinates"));
    let prior = Case::new(&multibox::PRIOR, &[("steps", "(0.1,)")]).shapes(&[Shape::new(&[1, 1, 2, 2])]);
    assert!(prior.unwrap_err().to_string().contains("Step ndim must be 2"));
    let data = Shape::new(&[2, 4, 3, 3]);
    let e = Case::new(&proposal::PROPOSAL, &[("scales", "(1, 2)"), ("ratios", "(1,)")])
        .shapes(&[data, Shape::unknown(), Shape::unknown()])
        .unwrap_err();
    assert!(e.to_string().contains("use MultiProposal"), "{e}");
}

#[test]
fn input_shapes_are_inferred_from_one_another() {
    let attrs = [("scales", "(1, 2)"), ("ratios", "(1,)"), ("rpn_post_nms_top_n", "7")];
    let (ins, outs) = Case::new(&proposal::MULTI_PROPOSAL, &attrs)
        .shapes_both(&[Shape::new(&[2, 4, 3, 5]), Shape::unknown(), Shape::unknown()], &[])
        .unwrap();
    assert_eq!(&ins[1..], [Shape::new(&[2, 8, 3, 5]), Shape::new(&[2, 3])]);
    assert_eq!(outs, [Shape::new(&[14, 5]), Shape::new(&[14, 1])]);
    let (ins, _) = Case::new(&boxes::BOX_ENCODE, &[])
        .shapes_both(&[&[Shape::new(&[2, 3])][..], &vec![Shape::unknown(); 5]].concat(), &[])
        .unwrap();
    assert_eq!(ins[2..], [[2, 3, 4].into(), [2, -1, 4].into(), [4].into(), [4].into()] as [Shape; 4]);
}

#[test]
fn roi_align_distributes_the_gradient_over_the_data_and_not_the_regions() {
    let data = |n: i64, dims: &[i64]| {
        let items: Vec<f64> = (0..n).map(|i| f64::from((i * 29 % 37) as i32) / 7.0 - 2.0).collect();
        array(&items, dims)
    };
    let rois = array(&[0f32, 0.3, 0.4, 3.1, 2.9, 1.0, 1.2, 0.1, 4.3, 3.7], &[2, 5]);
    let rois = crate::testing::cast(&rois, ferromx_core::dtype::DType::F64);
    let attrs = [("pooled_size", "(2, 2)"), ("spatial_scale", "1"), ("sample_ratio", "2")];
    let case = Case::new(&roi_pooling::ROI_ALIGN, &attrs);
    let x = data(2 * 2 * 20, &[2, 2, 4, 5]);
    let out = case.run1(&[x.clone(), rois.clone()]).unwrap();
    let ones = array(&vec![1f64; out.len()], out.shape().dims());
    let grads = case.backward(&[x, rois], &[ones]).unwrap();
    assert!(grads[1].to_vec::<f64>().unwrap().iter().all(|g| *g == 0.0));
    let total: f64 = grads[0].to_vec::<f64>().unwrap().iter().sum();
    assert!((total - 16.0).abs() < 1e-9, "{total}");
}

#[test]
fn regions_with_an_image_index_out_of_range_are_refused() {
    let attrs = [("pooled_size", "(2, 2)"), ("spatial_scale", "1")];
    let e = Case::new(&roi_pooling::ROI_ALIGN, &attrs)
        .run1(&[array(&[0f32; 9], &[1, 1, 3, 3]), array(&[1f32, 0.0, 0.0, 2.0, 2.0], &[1, 5])])
        .unwrap_err();
    assert!(e.to_string().contains("region 0 belongs to image 1"), "{e}");
}

#[test]
fn more_sampling_points_than_fit_into_memory_are_refused() {
    for (pooled_size, ratio) in [("(2, 2)", "1000000000"), ("(2, 2)", "2147483647"), ("(100000, 100000)", "-1")] {
        let attrs = [("pooled_size", pooled_size), ("spatial_scale", "1"), ("sample_ratio", ratio)];
        let e = Case::new(&roi_pooling::ROI_ALIGN, &attrs)
            .run1(&[array(&[0f32; 9], &[1, 1, 3, 3]), array(&[0f32, 0.0, 0.0, 2.0, 2.0], &[1, 5])])
            .unwrap_err();
        assert!(e.to_string().contains("sampling points"), "{e}");
    }
}
