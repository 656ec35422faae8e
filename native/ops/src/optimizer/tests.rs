use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;

use super::multi_sgd::MULTI_SGD_MOM_UPDATE;
use super::norms::{ALL_FINITE, RESET_ARRAYS};
use crate::testing::{Case, array, vector};

#[test]
fn every_weight_takes_its_own_step() {
    let ins: Vec<_> = [[1.0, 2.0], [4.0, 8.0], [1.0, 1.0], [3.0, 5.0], [2.0, 2.0], [0.0, 0.0]]
        .iter()
        .map(|x| vector(DType::F32, x))
        .collect();
    let attrs = [("lrs", "(0.5, 0.25)"), ("wds", "(0, 1)"), ("momentum", "0.5"), ("num_weights", "2")];
    let outs = Case::new(&MULTI_SGD_MOM_UPDATE, &attrs).run(&ins).unwrap();
    let values = |x: &NDArray| x.to_vec::<f32>().unwrap();
    assert_eq!((values(&outs[0]), values(&outs[1])), (vec![-0.5, -1.5], vec![1.75, 3.25]));
    assert_eq!((values(&ins[2]), values(&ins[5])), (vec![-1.5, -3.5], vec![-1.25, -1.75]));
}

#[test]
fn lists_of_the_wrong_length_are_errors() {
    let case = Case::new(&MULTI_SGD_MOM_UPDATE, &[("lrs", "(1,)"), ("wds", "(0, 0)"), ("num_weights", "2")]);
    let e = case.run(&[0; 6].map(|_| vector(DType::F32, &[1.0]))).unwrap_err().to_string();
    assert!(e.contains("lrs has 1 numbers for 2 weights"), "{e}");
    let many = [("lrs", "(1,)"), ("wds", "(1,)"), ("num_weights", "1000")];
    assert!(Case::parse(&MULTI_SGD_MOM_UPDATE, &many).err().unwrap().to_string().contains("256"));
}

#[test]
fn one_nonfinite_element_among_many_is_found() {
    let mut x = vec![1f32; 200_000];
    let finite = |x: &[f32]| Case::new(&ALL_FINITE, &[]).run1(&[array(x, &[x.len() as i64])]).unwrap();
    assert_eq!(finite(&x).to_vec::<f32>().unwrap(), [1.0]);
    for (index, bad) in [(0, f32::NAN), (123_456, f32::INFINITY), (199_999, f32::NEG_INFINITY)] {
        x[index] = bad;
        assert_eq!(finite(&x).to_vec::<f32>().unwrap(), [0.0]);
        x[index] = f32::MAX;
    }
}

#[test]
fn arrays_of_any_types_are_reset() {
    let ins = [vector(DType::F16, &[1.0, 2.0]), vector(DType::I64, &[3.0])];
    assert!(Case::new(&RESET_ARRAYS, &[("num_arrays", "2")]).run(&ins).unwrap().is_empty());
    assert!(ins.iter().all(|x| x.to_vec_as::<f64>().unwrap().iter().all(|x| *x == 0.0)));
}
