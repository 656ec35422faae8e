use ferromx_core::dtype::DType;
use ferromx_core::shape::Shape;

use super::nd::{GATHER_ND, SCATTER_ND};
use super::one_hot::ONE_HOT;
use super::pick::{BATCH_TAKE, PICK};
use super::take::{EMBEDDING, TAKE};
use crate::testing::{Case, array, cast, count, vector};

#[test]
fn take_clips_wraps_or_refuses_indices() {
    let run =
        |mode: &str| Case::new(&TAKE, &[("mode", mode)]).run1(&[count(&[3]), vector(DType::F32, &[-1.5, 4.0, 1.9])]);
    assert_eq!(run("clip").unwrap().to_vec::<f64>().unwrap(), [1.0, 3.0, 2.0]);
    assert_eq!(run("wrap").unwrap().to_vec::<f64>().unwrap(), [3.0, 2.0, 2.0]);
    let e = run("raise").map(|_| ()).unwrap_err().to_string();
    assert!(e.contains("index -1 (element 0 of the indices) is out of bounds for an axis of length 3"), "{e}");
}

#[test]
fn rows_are_looked_up_by_any_index_type() {
    for dtype in DType::ALL.into_iter().filter(|d| *d != DType::Bool) {
        let case = Case::new(&EMBEDDING, &[("input_dim", "3"), ("output_dim", "2")]);
        let y = case.run1(&[vector(dtype, &[2.0, 0.0]), count(&[3, 2])]).unwrap();
        assert_eq!(y.to_vec::<f64>().unwrap(), [5.0, 6.0, 1.0, 2.0]);
    }
}

#[test]
fn gradients_of_repeated_rows_add_up() {
    let twice = array(&[1i32, 0, 1], &[3]);
    for axis in ["0", "1", "-1"] {
        Case::new(&TAKE, &[("axis", axis)]).check_gradient(&[count(&[2, 2, 2]), twice.clone()]);
    }
    Case::new(&PICK, &[("axis", "0")]).check_gradient(&[count(&[2, 3]), twice.clone()]);
    Case::new(&BATCH_TAKE, &[]).check_gradient(&[count(&[3, 2]), twice.clone()]);
    Case::new(&GATHER_ND, &[]).check_gradient(&[count(&[2, 2]), array(&[1i32, 0, 1], &[1, 3])]);
    let distinct = array(&[2i32, 0, -1, 1], &[2, 2]);
    Case::new(&SCATTER_ND, &[("shape", "(3,2,2)")]).check_gradient(&[count(&[2, 2]), distinct]);
}

#[test]
fn the_gradient_of_embedding_indices_is_an_error() {
    let case = Case::new(&EMBEDDING, &[("input_dim", "3"), ("output_dim", "1")]);
    let e = case.backward(&[array(&[1f64], &[1]), count(&[3, 1])], &[count(&[1, 1])]).map(|_| ()).unwrap_err();
    assert!(e.to_string().contains("indices"), "{e}");
}

#[test]
fn one_hot_supports_every_type() {
    for dtype in DType::ALL.into_iter().filter(|d| *d != DType::Bool) {
        let case = Case::new(&ONE_HOT, &[("depth", "3"), ("on_value", "2"), ("dtype", dtype.name())]);
        let y = case.run1(&[array(&[2f32, -1.0], &[2])]).unwrap();
        assert_eq!((y.dtype(), y.to_vec_as::<f64>().unwrap()), (dtype, vec![0.0, 0.0, 2.0, 0.0, 0.0, 0.0]));
    }
}

#[test]
fn scatter_nd_is_the_inverse_of_gather_nd() {
    let indices = array(&[1i64, -3, 0, 1], &[2, 2]);
    let data = cast(&count(&[3, 2, 2]), DType::F32);
    let y = Case::new(&GATHER_ND, &[]).run1(&[data, indices.clone()]).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [5.0, 6.0, 3.0, 4.0]);
    let back = Case::new(&SCATTER_ND, &[("shape", "(3,2,2)")]).run1(&[y, indices]).unwrap();
    let want = [0.0, 0.0, 3.0, 4.0, 5.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(back.to_vec::<f32>().unwrap(), want);
    let far = array(&[3i64], &[1, 1]);
    assert!(
        Case::new(&GATHER_ND, &[])
            .run(&[count(&[3]), far])
            .is_err_and(|e| e.to_string().contains("index 3 is out of bounds for axis 0 with size 3"))
    );
}

#[test]
fn index_shapes_are_inferred_from_the_data() {
    let case = |keep: &str| Case::new(&PICK, &[("axis", "1"), ("keepdims", keep)]);
    let shapes = |keep: &str, index: Shape| case(keep).shapes_both(&[Shape::new(&[2, 3, 4]), index], &[]);
    let (ins, outs) = shapes("0", Shape::unknown()).unwrap();
    assert_eq!((&ins[1], &outs[0]), (&[2, 4].into(), &[2, 4].into()));
    assert_eq!(shapes("1", Shape::new(&[2, 4])).unwrap().1, [[2, 1, 4].into()]);
    assert!(shapes("0", Shape::new(&[3, 4])).is_err());
}
