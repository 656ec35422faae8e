use super::*;
use crate::sort::Order;

#[test]
fn overlap_of_boxes() {
    let mut out = [0f32; 2];
    box_iou(&[0.0, 0.0, 2.0, 2.0], &[1.0, 1.0, 3.0, 3.0, 5.0, 5.0, 6.0, 6.0], BoxFormat::Corner, &mut out);
    assert_eq!(out, [1.0 / 7.0, 0.0]);
    box_iou(&[1.0, 1.0, 2.0, 2.0], &[2.0, 2.0, 2.0, 2.0, 9.0, 9.0, 1.0, 1.0], BoxFormat::Center, &mut out);
    assert_eq!(out, [1.0 / 7.0, 0.0]);
}

#[test]
fn decoding_inverts_encoding() {
    let anchors = [0.0f64, 0.0, 4.0, 2.0, 1.0, 1.0, 2.0, 5.0];
    let boxes = [1.0f64, 0.5, 3.0, 4.0, 0.0, 2.0, 2.5, 4.5];
    let (mut codes, mut masks, mut again) = ([0f64; 8], [0f64; 8], [0f64; 8]);
    let encoding = Encoding {
        examples: 1,
        samples: &[1.0, 1.0],
        matches: &[0.0, 1.0],
        anchors: &anchors,
        refs: &boxes,
        means: &[0.0; 4],
        stds: &[0.1, 0.1, 0.2, 0.2],
    };
    box_encode(&encoding, &mut codes, &mut masks);
    assert_eq!(masks, [1.0; 8]);
    let params = Decoding { format: BoxFormat::Corner, stds: [0.1, 0.1, 0.2, 0.2], clip: -1.0 };
    box_decode(&codes, &anchors, &params, &mut again);
    again.iter().zip(boxes).for_each(|(a, b)| assert!((a - b).abs() < 1e-6, "{again:?}"));
}

#[test]
fn matching_is_greedy() {
    let scores = [0.5f32, 0.9, 0.8, 0.1];
    let (mut rows, mut cols) = ([0f32; 2], [0f32; 2]);
    bipartite_matching(&scores, (2, 2), Order::Descending, 0.0, None, (&mut rows, &mut cols));
    assert_eq!((rows, cols), ([1.0, 0.0], [1.0, 0.0]));
    bipartite_matching(&scores, (2, 2), Order::Descending, 0.85, None, (&mut rows, &mut cols));
    assert_eq!((rows, cols), ([1.0, -1.0], [-1.0, 0.0]));
}

#[test]
fn a_region_of_whole_pixels_is_their_average() {
    let data: Vec<f64> = (0..16).map(f64::from).collect();
    let maps = Maps { images: 1, channels: 1, height: 4, width: 4 };
    let shape = AlignShape { bins: (2, 2), scale: 1.0, points: Some(2) };
    let regions =
        RoiAlign { rois: &[0.0f64, 0.0, 0.0, 4.0, 4.0], maps, shape, position_sensitive: false, aligned: true };
    let mut out = [0.0; 4];
    pool_regions(&data, &maps, &regions, &mut out);
    assert_eq!(out, [2.5, 4.5, 10.5, 12.5]);
    let mut dx = [0.0; 16];
    pool_regions_backward(&[4.0; 4], &maps, &regions, &mut dx);
    assert_eq!(dx, [1.0; 16]);
}

#[test]
fn pooling_is_the_same_for_any_number_of_regions() {
    let data: Vec<f32> = (0..2 * 4 * 30).map(|i| (i * 37 % 101) as f32 / 8.0).collect();
    let maps = Maps { images: 2, channels: 4, height: 5, width: 6 };
    let rois: Vec<f32> =
        (0..200).flat_map(|i| [(i % 2) as f32, (i % 3) as f32, 0.5, 4.0, 3.0 + (i % 2) as f32]).collect();
    let shape = AlignShape { bins: (2, 3), scale: 1.0, points: None };
    let all = RoiAlign { rois: &rois, maps, shape, position_sensitive: false, aligned: false };
    let mut out = vec![0f32; 200 * 4 * 6];
    pool_regions(&data, &maps, &all, &mut out);
    let one = RoiAlign { rois: &rois[5 * 150..][..5], ..all };
    let mut alone = vec![0f32; 4 * 6];
    pool_regions(&data, &maps, &one, &mut alone);
    assert_eq!(alone, out[150 * 24..][..24]);
    let mut dx = vec![0f32; data.len()];
    pool_regions_backward(&vec![1f32; out.len()], &maps, &RoiAlign { rois: &rois, ..one }, &mut dx);
    let total: f32 = dx.iter().sum();
    assert!((total - 4800.0).abs() < 0.5, "{total}");
}
