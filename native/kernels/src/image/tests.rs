use super::color::saturate;
use super::*;

#[test]
fn resizing_keeps_a_constant_image() {
    let src = [77u8; 5 * 7 * 3];
    for interpolation in [
        Interpolation::Nearest,
        Interpolation::Linear,
        Interpolation::Cubic,
        Interpolation::Area,
        Interpolation::Lanczos,
    ] {
        for to in [(3, 4), (11, 9), (5, 7), (1, 1), (9, 2)] {
            let mut dst = vec![0u8; to.0 * to.1 * 3];
            resize(&src, (5, 7, 3), to, interpolation, &mut dst);
            assert!(dst.iter().all(|x| x.abs_diff(77) <= 1), "{interpolation:?} {to:?}: {dst:?}");
        }
    }
}

#[test]
fn nearest_pixels_are_those_of_opencv() {
    let mut dst = [0u8; 34];
    resize(&[0, 1, 2, 3, 4, 5], (1, 6, 1), (1, 34), Interpolation::Nearest, &mut dst);
    // 17 * 6 / 34 is 3, but 17 * (1 / (34 / 6)) rounds to less.
    assert_eq!(dst[16..19], [2, 2, 3]);
}

#[test]
fn area_is_the_average() {
    let src: Vec<f32> = (0..16).map(|x| x as f32).collect();
    let mut dst = [0f32; 4];
    resize(&src, (4, 4, 1), (2, 2), Interpolation::Area, &mut dst);
    assert_eq!(dst, [2.5, 4.5, 10.5, 12.5]);
}

#[test]
fn borders() {
    let row = |border| {
        let mut dst = [0u8; 12];
        add_border(b"abcdef", (1, 6), (0, 3), border, b".", (&mut dst, 12));
        String::from_utf8(dst.to_vec()).unwrap()
    };
    assert_eq!(row(Border::Constant), "...abcdef...");
    assert_eq!(row(Border::Replicate), "aaaabcdeffff");
    assert_eq!(row(Border::Reflect), "cbaabcdeffed");
    assert_eq!(row(Border::Wrap), "defabcdefabc");
    assert_eq!(row(Border::Mirror), "dcbabcdefedc");
}

#[test]
fn hue_turns_red_into_green() {
    let mut image = [255f32, 0.0, 0.0, 10.0, 10.0, 10.0];
    adjust(None, 3, Change::Hue(1.0 / 3.0), &mut image);
    let want = [0.0, 255.0, 0.0, 10.0, 10.0, 10.0];
    image.iter().zip(want).for_each(|(a, b)| assert!((a - b).abs() < 1e-3, "{image:?}"));
}

#[test]
fn integers_saturate() {
    assert_eq!((saturate::<u8>(-3.0), saturate::<u8>(300.0), saturate::<i8>(-200.0)), (0, 255, -128));
}
