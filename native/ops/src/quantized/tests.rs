use super::{convert, layers, product};
use crate::testing::{Case, array};

fn scalar(x: f32) -> ferromx_core::ndarray::NDArray {
    array(&[x], &[1])
}

#[test]
fn a_round_trip_changes_numbers_by_at_most_one_step() {
    let x: Vec<f32> = (0..64).map(|i| (i as f32 - 31.0) / 16.0).collect();
    let outs = Case::new(&convert::QUANTIZE_V2, &[]).run(&[array(&x, &[64])]).unwrap();
    let y = Case::new(&convert::DEQUANTIZE, &[]).run1(&outs).unwrap().to_vec::<f32>().unwrap();
    x.iter().zip(y).for_each(|(x, y)| assert!((x - y).abs() <= 2.0 / 127.5, "{x} {y}"));
}

#[test]
fn fully_connected_computes_exact_sums_with_the_range_of_int32() {
    let data = array(&[10u8, 200, 30, 40, 50, 255], &[2, 3]);
    let weight = array(&[1i8, -2, 3, -100, 50, 127], &[2, 3]);
    let ins = [data, weight, scalar(0.0), scalar(2.0), scalar(-1.0), scalar(1.0)];
    let attrs = [("num_hidden", "2"), ("no_bias", "True")];
    let outs = Case::new(&product::FULLY_CONNECTED_INT8, &attrs).run(&ins).unwrap();
    assert_eq!(
        outs[0].to_vec::<i32>().unwrap(),
        [10 - 400 + 90, -1000 + 10000 + 3810, 40 - 100 + 765, -4000 + 2500 + 32385]
    );
    let max = outs[2].to_vec::<f32>().unwrap()[0];
    let number = 12810.0 * max / i32::MAX as f32;
    assert!((number - 12810.0 * 2.0 / 255.0 / 127.0).abs() < 1e-4, "{number}");
}

#[test]
fn concatenated_arrays_share_a_range() {
    let ins =
        [array(&[100i8], &[1, 1]), array(&[100i8], &[1, 1]), scalar(-1.0), scalar(1.0), scalar(-2.0), scalar(2.0)];
    let outs = Case::new(&layers::CONCATENATE, &[("num_args", "2")]).run(&ins).unwrap();
    assert_eq!(outs[0].to_vec::<i8>().unwrap(), [50, 100]);
    assert_eq!(outs[1].to_vec::<f32>().unwrap(), [-2.0]);
}

#[test]
fn unsupported_activations_and_types_are_errors() {
    let ins = [array(&[100i8], &[1, 1]), scalar(-1.0), scalar(1.0)];
    let e = Case::new(&layers::ACT, &[("act_type", "tanh")]).run(&ins).unwrap_err().to_string();
    assert!(e.contains("only supports act_type=relu"), "{e}");
    let e = Case::new(&convert::QUANTIZE_V2, &[]).run(&[array(&[1i32], &[1])]).unwrap_err().to_string();
    assert!(e.contains("int32"), "{e}");
}
