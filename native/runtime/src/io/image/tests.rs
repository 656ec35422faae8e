use std::fs;

use super::*;
use crate::io::recordio::Writer;
use crate::io::test_file::TestFile;

/// A BMP image with RGB samples `color(y, x)`; BMP stores rows from the bottom up, padded to multiples of four bytes.
fn bmp(height: usize, width: usize, color: impl Fn(usize, usize) -> [u8; 3]) -> Vec<u8> {
    let row = (3 * width).next_multiple_of(4);
    let mut bytes = b"BM".to_vec();
    bytes.extend((54 + (row * height) as u32).to_le_bytes());
    bytes.extend([0; 4]);
    [54u32, 40, width as u32, height as u32].iter().for_each(|n| bytes.extend(n.to_le_bytes()));
    bytes.extend([1, 0, 24, 0]);
    bytes.extend([0; 24]);
    for y in (0..height).rev() {
        let start = bytes.len();
        (0..width).for_each(|x| bytes.extend(color(y, x).iter().rev()));
        bytes.resize(start + row, 0);
    }
    bytes
}

fn record(id: u64, labels: &[f32], image: &[u8]) -> Vec<u8> {
    let (count, label) = if labels.len() == 1 { (0, labels[0]) } else { (labels.len() as u32, 0.0) };
    let mut bytes = [count.to_le_bytes(), label.to_le_bytes()].concat();
    bytes.extend(id.to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    if count > 0 {
        labels.iter().for_each(|l| bytes.extend(l.to_le_bytes()));
    }
    [bytes, image.to_vec()].concat()
}

fn write(records: &[Vec<u8>]) -> TestFile {
    let path = TestFile::new();
    let mut writer = Writer::create(&path).unwrap();
    records.iter().for_each(|r| writer.write(r).unwrap());
    writer.flush().unwrap();
    path
}

/// Images of 4 x 6 pixels; red is 10 * row + column, green 100 + red, blue the index of the image.
fn images(n: u64) -> TestFile {
    let image = |i: u64| bmp(4, 6, |y, x| [(10 * y + x) as u8, (100 + 10 * y + x) as u8, i as u8]);
    write(&(0..n).map(|i| record(i, &[i as f32], &image(i))).collect::<Vec<_>>())
}

type Create = fn(&Attrs) -> Result<Box<dyn DataIter>>;

fn make(create: Create, path: &str, more: &[(&str, &str)]) -> Result<Box<dyn DataIter>> {
    let basic = [("path_imgrec", path), ("data_shape", "(3, 2, 3)"), ("batch_size", "2")];
    create(&basic.iter().chain(more).map(|(k, v)| (k.to_string(), v.to_string())).collect())
}

fn labels(it: &mut dyn DataIter) -> Vec<(Vec<f32>, usize)> {
    std::iter::from_fn(|| {
        it.next().unwrap().then(|| {
            let batch = it.batch().unwrap();
            (batch.label.dense().unwrap().to_vec().unwrap(), batch.pad)
        })
    })
    .collect()
}

fn data(it: &mut dyn DataIter) -> Vec<f32> {
    assert!(it.next().unwrap());
    it.batch().unwrap().data.dense().unwrap().to_vec_as().unwrap()
}

#[test]
fn the_center_crop_is_stored_by_channel() {
    let path = images(3);
    let first = data(&mut *make(create, &path, &[]).unwrap());
    assert_eq!(first.len(), 2 * 18);
    assert_eq!(first[..6], [11., 12., 13., 21., 22., 23.]);
    assert_eq!(first[6..9], [111., 112., 113.]);
    assert_eq!((first[12], first[18 + 12]), (0., 1.));
    let mirrored = data(&mut *make(create, &path, &[("mirror", "True")]).unwrap());
    assert_eq!(mirrored[..3], [13., 12., 11.]);
    let normal = [("mean_r", "1"), ("std_r", "2"), ("scale", "0.5"), ("dtype", "float32")];
    assert_eq!(data(&mut *make(create, &path, &normal).unwrap())[..2], [2.5, 2.75]);
    let signed = data(&mut *make(create_i8, &path, &[]).unwrap());
    assert_eq!(signed[6..12], [111., 112., 113., 121., 122., 123.]);
    let unsigned = data(&mut *make(create_u8, &path, &[("mirror", "True"), ("mean_r", "5"), ("scale", "2")]).unwrap());
    assert_eq!(unsigned[..3], [13., 12., 11.]);
    let centered =
        data(&mut *make(create_i8, &path, &[("mean_r", "11.5"), ("std_r", "2"), ("mirror", "True")]).unwrap());
    assert_eq!(centered[..3], [1., 0., -1.]);
    let gray = data(&mut *make(create_u8, &path, &[("data_shape", "(1, 2, 3)")]).unwrap());
    assert_eq!(gray[0], (0.299f32 * 11.0 + 0.587 * 111.0).round());
}

#[test]
fn a_missing_mean_image_is_computed_and_written() {
    let path = images(3);
    let mean = format!("{path}-mean");
    let options = [("mean_img", mean.as_str()), ("mirror", "True"), ("scale", "0.5")];
    // The mean of blue, the index of the image, is 1; red is the same in all images.
    let want = [vec![0.0; 12], vec![-0.5; 6]].concat();
    let computed = data(&mut *make(create, &path, &options).unwrap());
    assert_eq!(computed[..18], want);
    let saved = ferromx_core::file_format::load(&mean).unwrap();
    assert_eq!(saved.names, ["mean_img"]);
    let read = data(&mut *make(create_v1, &path, &options).unwrap());
    assert_eq!(read, computed);
    let error = make(create, &path, &[("mean_img", &mean), ("data_shape", "(3, 3, 3)")]).err().unwrap().to_string();
    assert!(error.contains("does not begin with an array of shape [3, 3, 3]"), "{error}");
    fs::remove_file(&mean).unwrap();
    let error = make(create, &path, &[("mean_img", &mean), ("label_width", "2")]).err().unwrap().to_string();
    assert!(error.contains("record at byte 0") && error.contains("has 1 labels, but label_width is 2"), "{error}");
    data(&mut *make(create_u8, &path, &options).unwrap());
    assert!(!std::path::Path::new(&mean).exists());
}

#[test]
fn the_last_batch_is_filled_up_from_the_next_epoch() {
    let path = images(5);
    let mut it = make(create, &path, &[]).unwrap();
    assert_eq!(labels(&mut *it), [(vec![0., 1.], 0), (vec![2., 3.], 0), (vec![4., 0.], 1)]);
    it.before_first().unwrap();
    assert_eq!(labels(&mut *it), [(vec![1., 2.], 0), (vec![3., 4.], 0)]);
    let mut it = make(create, &path, &[("round_batch", "0")]).unwrap();
    assert_eq!(labels(&mut *it).last(), Some(&(vec![4., 0.], 1)));
    it.before_first().unwrap();
    assert_eq!(labels(&mut *it)[0].0, [0., 1.]);
    // An interrupted epoch leaves no prefetched batch.
    assert!(!it.next().unwrap());
    it.before_first().unwrap();
    assert!(it.next().unwrap());
    it.before_first().unwrap();
    assert_eq!(labels(&mut *it)[0].0, [0., 1.]);
}

#[test]
fn seeds_determine_order_and_augmentation() {
    let path = images(8);
    let random = [
        ("shuffle", "1"),
        ("rand_crop", "1"),
        ("rand_mirror", "1"),
        ("brightness", "0.5"),
        ("pca_noise", "0.1"),
        ("max_random_illumination", "9"),
    ];
    let run = |more: &[(&str, &str)]| {
        let mut it = make(create, &path, &[&random[..], more].concat()).unwrap();
        let all: Vec<f32> = (0..4).flat_map(|_| data(&mut *it)).collect();
        it.before_first().unwrap();
        (all, labels(&mut *it))
    };
    let first = run(&[("seed", "3"), ("preprocess_threads", "1")]);
    assert_eq!(first, run(&[("seed", "3"), ("preprocess_threads", "4")]));
    assert_ne!(first.0, run(&[("seed", "4")]).0);
    assert_ne!(first.0, run(&[("seed", "3"), ("seed_aug", "4")]).0);
    assert_eq!(first.1, run(&[("seed", "3"), ("seed_aug", "4")]).1);
    let mut sorted: Vec<f32> = first.1.iter().flat_map(|(l, _)| l.clone()).collect();
    sorted.sort_by(f32::total_cmp);
    assert_eq!(sorted, [0., 1., 2., 3., 4., 5., 6., 7.]);
}

#[test]
fn parts_are_disjoint_and_complete() {
    let path = images(7);
    let index = format!("{path}.idx");
    let mut reader = crate::io::recordio::Reader::open(&path).unwrap();
    let lines: Vec<_> =
        std::iter::from_fn(|| reader.skip().unwrap()).enumerate().map(|(i, at)| format!("{i}\t{at}\n")).collect();
    fs::write(&index, lines.concat()).unwrap();
    for more in [&[][..], &[("path_imgidx", index.as_str())][..]] {
        let mut all_labels = Vec::new();
        for part in ["0", "1", "2"] {
            let part = [&[("num_parts", "3"), ("part_index", part), ("batch_size", "1")][..], more].concat();
            all_labels.extend(labels(&mut *make(create, &path, &part).unwrap()).into_iter().map(|(l, _)| l[0]));
        }
        assert_eq!(all_labels, [0., 1., 2., 3., 4., 5., 6.]);
    }
    assert!(make(create, &path, &[("num_parts", "2"), ("part_index", "2")]).is_err());
}

#[test]
fn labels_come_from_records_or_a_list() {
    let image = bmp(2, 3, |_, _| [1, 2, 3]);
    let path = write(&[record(7, &[1., 2.], &image), record(9, &[3., 4.], &image)]);
    let mut it = make(create, &path, &[("label_width", "2")]).unwrap();
    assert_eq!(labels(&mut *it), [(vec![1., 2., 3., 4.], 0)]);
    let e = make(create, &path, &[]).unwrap().next().unwrap_err().to_string();
    assert!(e.contains("record at byte 0: image 7 has 2 labels, but label_width is 1"), "{e}");
    let list = format!("{path}.lst");
    fs::write(&list, "9\t5\tb.png\n7\t6\ta.png\n").unwrap();
    assert_eq!(labels(&mut *make(create, &path, &[("path_imglist", &list)]).unwrap()), [(vec![6., 5.], 0)]);
    fs::write(&list, "9\t5\tb.png\n").unwrap();
    let e = make(create, &path, &[("path_imglist", &list)]).unwrap().next().unwrap_err().to_string();
    assert!(e.contains("no labels for image 7"), "{e}");
}

#[test]
fn invalid_parameters_and_files_are_errors() {
    let path = images(2);
    let error = |more: &[(&str, &str)]| make(create, &path, more).err().unwrap().to_string();
    assert!(error(&[("rotate", "900")]).contains("rotate"));
    assert!(error(&[("min_random_scale", "2")]).contains("min_random_scale <= max_random_scale"));
    assert!(error(&[("nonsense", "1")]).contains("Cannot find argument 'nonsense'"));
    assert!(error(&[("aug_seq", "mine")]).contains("aug_default"));
    assert!(error(&[("data_shape", "(2, 2, 2)")]).contains("1, 3 or 4 channels"));
    assert!(error(&[("dtype", "float64")]).contains("yields float32, uint8, int8"));
    assert!(error(&[("min_crop_size", "4")]).contains("cannot be combined"));
    assert!(make(create, &path, &[("rotate", "-1"), ("random_h", "0")]).is_ok());
    let bad = write(&[record(3, &[1.], b"\xff\xd8 no image"), vec![1, 2, 3]]);
    let e = make(create, &bad, &[]).unwrap().next().unwrap_err().to_string();
    assert!(e.contains("too short for its header"), "{e}");
    let e = make(create, &bad, &[("batch_size", "1")]).unwrap().next().unwrap_err().to_string();
    assert!(e.contains("record at byte 0: the JPEG image is damaged"), "{e}");
    let bytes = fs::read(&*path).unwrap();
    let cut = format!("{path}.cut");
    fs::write(&cut, &bytes[..bytes.len() - 8]).unwrap();
    assert!(make(create, &cut, &[]).err().unwrap().to_string().contains("cut off"));
}

#[test]
fn square_and_random_crops_have_the_requested_size() {
    let path = images(2);
    let size = |more: &[(&str, &str)]| data(&mut *make(create, &path, more).unwrap()).len();
    assert_eq!(size(&[("max_crop_size", "3"), ("min_crop_size", "2"), ("rand_crop", "1")]), 36);
    let part = [("random_resized_crop", "1"), ("min_random_area", "0.3"), ("max_aspect_ratio", "0.25")];
    assert_eq!(size(&part), 36);
    for method in ["0", "1", "2", "3", "4", "9", "10"] {
        assert_eq!(size(&[("resize", "3"), ("inter_method", method)]), 36);
    }
    let large = [("data_shape", "(3, 8, 8)"), ("pad", "1"), ("fill_value", "7")];
    let padded = data(&mut *make(create, &path, &large).unwrap());
    assert_eq!((padded.len(), padded[0]), (2 * 192, 7.0));
}

#[test]
fn images_are_rotated_scaled_and_recolored() {
    let image = bmp(5, 5, |y, x| [if (y, x) == (1, 2) { 200 } else { 40 }, 40, 40]);
    let path = write(&[record(1, &[1.], &image)]);
    let red = |more: &[(&str, &str)]| {
        let shape = [("data_shape", "(3, 5, 5)"), ("batch_size", "1"), ("fill_value", "40")];
        data(&mut *make(create, &path, &[&shape[..], more].concat()).unwrap())[..25].to_vec()
    };
    let bright = |samples: &[f32]| samples.iter().position(|x| *x > 100.0);
    assert_eq!(bright(&red(&[])), Some(7));
    assert_eq!(bright(&red(&[("rotate", "180")])), Some(23));
    let twice = [("min_random_scale", "2"), ("max_random_scale", "2"), ("inter_method", "0")];
    assert_eq!(red(&twice).iter().filter(|x| **x > 100.0).count(), 2);
    let other = red(&[("random_l", "100")]);
    assert!(other != red(&[]) && other[0] == other[1]);
}

#[test]
fn objects_move_with_their_image() {
    let image = bmp(4, 8, |_, x| [x as u8; 3]);
    let object = [2., 5., 1., 0.25, 0.5, 0.5, 1.];
    let two = [&object[..], &[3., 0., 0., 1., 1.]].concat();
    let path = write(&[record(1, &object, &image), record(2, &two, &image)]);
    let mut it = make(create_detection, &path, &[("data_shape", "(3, 4, 8)")]).unwrap();
    assert!(it.next().unwrap());
    let label: Vec<f32> = it.batch().unwrap().label.dense().unwrap().to_vec().unwrap();
    assert_eq!(label.len(), 2 * 16);
    assert_eq!(label[..12], [3., 4., 8., 7., 2., 5., 1., 0.25, 0.5, 0.5, 1., -1.]);
    assert_eq!(label[16..20], [3., 4., 8., 12.]);
    let mut it = make(create_detection, &path, &[("data_shape", "(3, 4, 8)"), ("rand_mirror_prob", "1")]).unwrap();
    assert!(it.next().unwrap());
    let batch = it.batch().unwrap();
    assert_eq!(batch.label.dense().unwrap().to_vec::<f32>().unwrap()[7..11], [0.5, 0.5, 0.75, 1.]);
    assert_eq!(batch.data.dense().unwrap().to_vec::<f32>().unwrap()[..8], [7., 6., 5., 4., 3., 2., 1., 0.]);
    let fit = [("data_shape", "(3, 6, 6)"), ("resize_mode", "fit"), ("fill_value", "9"), ("label_pad_width", "13")];
    let mut it = make(create_detection, &path, &fit).unwrap();
    assert!(it.next().unwrap());
    let batch = it.batch().unwrap();
    assert_eq!(batch.label.dense().unwrap().to_vec::<f32>().unwrap()[..4], [3., 3., 6., 7.]);
    assert_eq!(batch.data.dense().unwrap().to_vec::<f32>().unwrap()[18..24], [0.; 6]);
    let e = make(create_detection, &images(1), &[]).err().unwrap().to_string();
    assert!(e.contains("are not objects"), "{e}");
}

/// `n` records of one image with two objects whose boxes overlap.
fn two_objects(n: u64) -> TestFile {
    let image = bmp(20, 30, |_, _| [150, 100, 60]);
    let objects = [2., 5., 0., 0.2, 0.3, 0.6, 0.8, 1., 0.5, 0.1, 0.9, 0.5];
    write(&(0..n).map(|i| record(i, &objects, &image)).collect::<Vec<_>>())
}

/// The labels of an epoch and the colors of the center pixels.
fn detections(path: &str, more: &[(&str, &str)]) -> (Vec<Vec<f32>>, Vec<[f32; 3]>) {
    let shape = [("data_shape", "(3, 20, 30)"), ("batch_size", "100"), ("seed", "3")];
    let mut it = make(create_detection, path, &[&shape[..], more].concat()).unwrap();
    let (mut labels, mut colors) = (Vec::new(), Vec::new());
    while it.next().unwrap() {
        let batch = it.batch().unwrap();
        let width = batch.label.shape().dim(1) as usize;
        let label = batch.label.dense().unwrap().to_vec::<f32>().unwrap();
        labels.extend(label.chunks_exact(width).map(<[f32]>::to_vec));
        let data = batch.data.dense().unwrap().to_vec::<f32>().unwrap();
        colors.extend(data.chunks_exact(1800).map(|p| [p[315], p[915], p[1515]]));
    }
    (labels, colors)
}

/// Means over many random crops: objects kept, images cropped, first objects kept, their width and their height.
fn statistics(labels: &[Vec<f32>]) -> [f32; 5] {
    let n = labels.len() as f32;
    let objects = |l: &Vec<f32>| (l[3] as usize - 2) / 5;
    let first: Vec<&[f32]> = labels.iter().filter(|l| l[6] == 0.0).map(|l| &l[6..11]).collect();
    let mean = |f: &dyn Fn(&[f32]) -> f32| first.iter().map(|o| f(o)).sum::<f32>() / first.len() as f32;
    let cropped = labels.iter().filter(|l| (l[7] - 0.2).abs() + (l[10] - 0.8).abs() > 1e-4).count() as f32;
    [
        labels.iter().map(objects).sum::<usize>() as f32 / n,
        cropped / n,
        first.len() as f32 / n,
        mean(&|o| o[3] - o[1]),
        mean(&|o| o[4] - o[2]),
    ]
}

// Expected values: means over 2000 images in MXNet 1.9.1. The tolerances are four standard errors of the difference.
#[test]
fn random_crops_keep_the_objects_that_mxnet_keeps() {
    let path = two_objects(2000);
    let sizes =
        [("min_crop_scales", "(0.3,)"), ("min_crop_aspect_ratios", "(0.5,)"), ("max_crop_aspect_ratios", "(2,)")];
    let check = |more: &[(&str, &str)], expected: [f32; 5]| {
        let (labels, _) = detections(&path, &[&sizes[..], more].concat());
        for label in &labels {
            let objects = label[6..4 + label[3] as usize].chunks_exact(5);
            for o in objects.clone() {
                assert!(
                    0.0 <= o[1] && o[1] < o[3] && o[3] <= 1.0 && 0.0 <= o[2] && o[2] < o[4] && o[4] <= 1.0,
                    "{o:?}"
                );
            }
            assert!(objects.len() >= 1 && label[4 + label[3] as usize..].iter().all(|x| *x == -1.0));
        }
        for (k, (given, expected)) in statistics(&labels).iter().zip(expected).enumerate() {
            let tolerance = [0.065, 0.052, 0.04, 0.03, 0.03][k];
            assert!((given - expected).abs() <= tolerance, "{more:?}: statistic {k} is {given}, in MXNet {expected}");
        }
    };
    check(&[("rand_crop_prob", "0.8")], [1.704, 0.788, 0.918, 0.5327, 0.6165]);
    let covered =
        [("max_crop_scales", "(0.9,)"), ("min_crop_object_coverages", "(0.7,)"), ("max_crop_trials", "(50,)")];
    check(&[&covered[..], &[("rand_crop_prob", "1")]].concat(), [1.706, 1.0, 0.9075, 0.568, 0.6521]);
    let overlap = [
        ("rand_crop_prob", "1"),
        ("crop_emit_mode", "overlap"),
        ("emit_overlap_thresh", "0.5"),
        ("min_crop_overlaps", "(0.2,)"),
        ("max_crop_overlaps", "(0.6,)"),
    ];
    check(&overlap, [1.6635, 0.9995, 0.895, 0.5448, 0.6315]);
    let two = [
        ("rand_crop_prob", "1"),
        ("num_crop_sampler", "2"),
        ("min_crop_scales", "(0.3, 0.8)"),
        ("max_crop_scales", "(0.5, 1)"),
        ("min_crop_aspect_ratios", "(1,)"),
        ("max_crop_aspect_ratios", "(1,)"),
        ("min_crop_sample_coverages", "(0.3, 0.1)"),
    ];
    check(&two, [1.5155, 1.0, 0.8215, 0.6381, 0.6075]);
    let e =
        make(create_detection, &path, &[("num_crop_sampler", "2"), ("max_crop_trials", "(1, 2, 3)")]).err().unwrap();
    assert!(e.to_string().contains("max_crop_trials has 3 numbers, but num_crop_sampler is 2"), "{e}");
    let e =
        make(create_detection, &path, &[("min_crop_scales", "(0.9,)"), ("max_crop_scales", "(0.5,)")]).err().unwrap();
    assert!(e.to_string().contains("crop_scales from 0.9 to 0.5"), "{e}");
}

#[test]
fn colors_of_detection_images_change_with_their_probability() {
    let path = two_objects(1000);
    let check = |more: &[(&str, &str)], range: [[f32; 2]; 3]| {
        let (labels, colors) = detections(&path, more);
        assert!(labels.iter().all(|l| l[6..11] == [0., 0.2, 0.3, 0.6, 0.8]));
        let unchanged = colors.iter().filter(|c| **c == [150., 100., 60.]).count() as f32 / colors.len() as f32;
        assert!((0.42..0.58).contains(&unchanged), "{more:?}: {unchanged} are the same");
        for (c, [low, high]) in range.iter().enumerate() {
            let all = colors.iter().map(|color| color[c]);
            let (least, most) = all.fold((f32::MAX, f32::MIN), |(l, m), x| (l.min(x), m.max(x)));
            assert!(
                (least - low).abs() <= 3.0 && (most - high).abs() <= 3.0,
                "{more:?}: channel {c} from {least} to {most}"
            );
        }
        assert_eq!(detections(&path, more).1, colors, "the same seed gives the same colors");
    };
    // In MXNet 1.9.1 the hue's ranges are 114 to 150, 60 to 150, and 60.
    check(&[("max_random_hue", "30"), ("random_hue_prob", "0.5")], [[114., 150.], [60., 150.], [60., 60.]]);
    check(
        &[("max_random_illumination", "50"), ("random_illumination_prob", "0.5")],
        [[79., 198.], [52., 150.], [31., 112.]],
    );
    check(&[("max_random_contrast", "0.5"), ("random_contrast_prob", "0.5")], [[75., 225.], [50., 150.], [30., 90.]]);
}
