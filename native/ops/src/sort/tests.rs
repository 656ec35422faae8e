use ferromx_core::dtype::DType;

use super::topk::TOPK;
use super::{ARGSORT, SORT};
use crate::testing::{Case, array, vector};

#[test]
fn arrays_are_sorted_along_any_axis() {
    let x = array(&[3f32, 1.0, 2.0, 0.0, 5.0, 4.0], &[2, 3]);
    let run = |def, attrs: &[(&str, &str)]| Case::new(def, attrs).run(std::slice::from_ref(&x)).unwrap().swap_remove(0);
    assert_eq!(run(&SORT, &[]).to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 0.0, 4.0, 5.0]);
    assert_eq!(run(&SORT, &[("axis", "0")]).to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 5.0, 4.0]);
    let all = run(&SORT, &[("axis", "None"), ("is_ascend", "False")]);
    assert_eq!((all.shape().dims(), all.to_vec::<f32>().unwrap()), (&[6][..], vec![5.0, 4.0, 3.0, 2.0, 1.0, 0.0]));
    let indices = run(&ARGSORT, &[("axis", "0"), ("dtype", "int64")]);
    assert_eq!(indices.to_vec::<i64>().unwrap(), [1, 0, 0, 0, 1, 1]);
}

#[test]
fn topk_returns_the_requested_outputs() {
    let x = array(&[3f64, 1.0, 2.0, 0.0, 5.0, 4.0], &[2, 3]);
    let run = |attrs: &[(&str, &str)]| Case::new(&TOPK, attrs).run(std::slice::from_ref(&x)).unwrap();
    assert_eq!(run(&[("k", "2")])[0].to_vec::<f32>().unwrap(), [0.0, 2.0, 1.0, 2.0]);
    let both = run(&[("k", "1"), ("axis", "0"), ("ret_typ", "both"), ("dtype", "uint8")]);
    assert_eq!(both[0].to_vec::<f64>().unwrap(), [3.0, 5.0, 4.0]);
    assert_eq!(both[1].to_vec::<u8>().unwrap(), [0, 1, 1]);
    let mask = run(&[("k", "3"), ("axis", "None"), ("ret_typ", "mask"), ("is_ascend", "1")]);
    assert_eq!(mask[0].to_vec::<f64>().unwrap(), [0.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
    assert_eq!(run(&[("k", "0"), ("ret_typ", "value")])[0].to_vec::<f64>().unwrap(), [3.0, 2.0, 1.0, 5.0, 4.0, 0.0]);
}

#[test]
fn every_number_type_is_sorted() {
    for dtype in DType::ALL.into_iter().filter(|d| *d != DType::Bool) {
        let y = Case::new(&SORT, &[]).run1(&[vector(dtype, &[3.0, 0.0, 2.0, 1.0])]).unwrap();
        assert_eq!(y.to_vec_as::<f64>().unwrap(), [0.0, 1.0, 2.0, 3.0], "{dtype}");
    }
}

#[test]
fn gradients_are_scattered_to_the_original_indices() {
    let x = array(&[3f64, 1.0, 2.0, 0.0, 5.0, 4.0], &[2, 3]);
    for axis in ["-1", "0", "None"] {
        Case::new(&SORT, &[("axis", axis)]).check_gradient(std::slice::from_ref(&x));
        Case::new(&TOPK, &[("axis", axis), ("k", "2"), ("ret_typ", "value")]).check_gradient(std::slice::from_ref(&x));
    }
}

#[test]
fn k_above_the_length_of_the_axis_is_an_error() {
    let e = Case::new(&TOPK, &[("k", "4")]).run(&[array(&[1f32, 2.0], &[2])]).map(|_| ()).unwrap_err().to_string();
    assert!(e.contains("k must be at most 2"), "{e}");
}
