use super::{color, resize, transform};
use crate::testing::{Case, array};

fn image() -> ferromx_core::ndarray::NDArray {
    array(&(0..24).map(|x| x as f32 * 10.0).collect::<Vec<_>>(), &[2, 4, 3])
}

#[test]
fn linear_operators_have_gradients() {
    let x = crate::testing::cast(&image(), ferromx_core::dtype::DType::F64);
    Case::new(&transform::CROP, &[("x", "1"), ("y", "0"), ("width", "2"), ("height", "2")])
        .check_gradient(std::slice::from_ref(&x));
    Case::new(&transform::FLIP_LEFT_RIGHT, &[]).check_gradient(std::slice::from_ref(&x));
    Case::new(&transform::FLIP_TOP_BOTTOM, &[]).check_gradient(std::slice::from_ref(&x));
    let x = x.reshape(&[3, 2, 4].into()).unwrap();
    Case::new(&transform::NORMALIZE, &[("mean", "(1, 2, 3)"), ("std", "(2, 4, 8)")]).check_gradient(&[x]);
}

#[test]
fn random_flips_flip_the_whole_image_or_nothing() {
    let x = image();
    let (kept, flipped) = (
        x.to_vec::<f32>().unwrap(),
        Case::new(&transform::FLIP_TOP_BOTTOM, &[]).run1(std::slice::from_ref(&x)).unwrap(),
    );
    let flipped = flipped.to_vec::<f32>().unwrap();
    let outs = Case::new(&transform::RANDOM_FLIP_TOP_BOTTOM, &[]).run(&[x]).unwrap();
    let want = if outs[1].to_vec::<u8>().unwrap() == [1] { flipped } else { kept };
    assert_eq!(outs[0].to_vec::<f32>().unwrap(), want);
}

#[test]
fn random_factors_lie_within_their_range() {
    let attrs = [("min_factor", "2"), ("max_factor", "3")];
    let y = Case::new(&color::RANDOM_BRIGHTNESS, &attrs).run1(&[image()]).unwrap().to_vec::<f32>().unwrap();
    let factor = y[1] / 10.0;
    assert!((2.0..=3.0).contains(&factor), "{factor}");
    y.iter().enumerate().for_each(|(i, y)| assert!((y - factor * 10.0 * i as f32).abs() < 1e-3));
    let none = [("brightness", "0"), ("contrast", "0"), ("saturation", "0"), ("hue", "0")];
    let same = Case::new(&color::RANDOM_COLOR_JITTER, &none).run1(&[image()]).unwrap();
    assert_eq!(same.to_vec::<f32>().unwrap(), image().to_vec::<f32>().unwrap());
}

#[test]
fn lighting_keeps_an_image_of_one_channel_whatever_the_weights() {
    let x = array(&[1f32, 2., 3., 4.], &[2, 2, 1]);
    let y = Case::new(&color::ADJUST_LIGHTING, &[("alpha", "(1, 2)")]).run1(&[x]).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [1., 2., 3., 4.]);
}

#[test]
fn errors_name_the_invalid_parameter() {
    let error = |case: Case| case.run1(&[image()]).unwrap_err().to_string();
    assert!(error(Case::new(&resize::IMAGE_RESIZE, &[("size", "(0, 2)")])).contains("greater than 0"));
    assert!(error(Case::new(&resize::CV_RESIZE, &[("w", "2"), ("h", "2"), ("interp", "9")])).contains("interp 9"));
    assert!(error(Case::new(&color::ADJUST_LIGHTING, &[("alpha", "(1, 2)")])).contains("three elements"));
    let crop = [("x", "3"), ("y", "0"), ("width", "2"), ("height", "1")];
    assert!(error(Case::new(&transform::CROP, &crop)).contains("3..5 is not within axis 1"));
}
