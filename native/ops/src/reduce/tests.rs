use ferromx_core::dtype::DType;
use ferromx_core::op::OpDef;
use ferromx_core::shape::Shape;

use super::arg::NP_ARGMAX;
use super::logic::{ALL, ANY};
use super::sums::*;
use crate::testing::{Case, array, close, vector};

const AXES: &[&[(&str, &str)]] = &[
    &[],
    &[("axis", "1")],
    &[("axis", "(0, 2)")],
    &[("axis", "-1"), ("keepdims", "True")],
    &[("axis", "1"), ("exclude", "True")],
    &[("axis", "(0, 1, 2)"), ("exclude", "True")],
];

/// The operators that follow the rules of MXNet's older operators.
fn legacy_operators() -> impl Iterator<Item = &'static OpDef> {
    OPS.iter().map(|operator| operator.def()).filter(|def| !def.name.starts_with("_np"))
}

#[test]
fn gradients_agree_with_finite_differences() {
    let x: Vec<f64> = (0..24).map(|i| 0.5 + ((i * 7) % 24) as f64 / 16.0).collect();
    for def in legacy_operators() {
        for attrs in AXES {
            Case::new(def, attrs).check_gradient(&[array(&x, &[2, 3, 4])]);
        }
    }
}

#[test]
fn shapes_of_results_are_those_of_mxnet() {
    let shape = |attrs: &[(&str, &str)]| Case::new(&SUM, attrs).shapes(&[[2, 3, 4].into()]).unwrap()[0].clone();
    let want: [&[i64]; 6] = [&[1], &[2, 4], &[3], &[2, 3, 1], &[3], &[2, 3, 4]];
    for (attrs, want) in AXES.iter().zip(want) {
        assert_eq!(shape(attrs), Shape::new(want), "{attrs:?}");
    }
    assert_eq!(shape(&[("keepdims", "True")]), [1, 1, 1].into());
    for def in [&MAX, &MIN] {
        let error = Case::new(def, &[("axis", "0")]).shapes(&[[2, 0].into()]).unwrap_err().to_string();
        assert!(error.contains("shape [2,0] has no elements"), "{error}");
    }
    assert_eq!(Case::new(&SUM, &[("axis", "0")]).shapes(&[[-1, 3].into()]).unwrap(), [Shape::new(&[3])]);
}

#[test]
fn every_type_is_reduced() {
    let want = [
        ("sum", [7.0, 14.0]),
        ("mean", [7.0 / 3.0, 14.0 / 3.0]),
        ("prod", [9.0, 0.0]),
        ("max", [3.0, 7.0]),
        ("min", [1.0, 0.0]),
    ];
    for def in legacy_operators() {
        for dtype in DType::ALL {
            let x = vector(dtype, &[1.0, 3.0, 3.0, 7.0, 0.0, 7.0]).reshape(&[2, 3].into()).unwrap();
            let y = Case::new(def, &[("axis", "1")]).run1(&[x]).unwrap();
            assert_eq!(y.dtype(), dtype);
            let Some((_, want)) = want.iter().find(|(name, _)| *name == def.name) else { continue };
            let want = want.map(|w| match dtype {
                DType::Bool => f64::from(w != 0.0),
                d if d.is_float() => w,
                _ => w.trunc(),
            });
            close(&y.to_vec_as::<f64>().unwrap(), &want, if dtype == DType::F64 { 0.0 } else { 1e-2 });
        }
    }
}

#[test]
fn every_extremum_gets_the_gradient_and_products_with_zeros_have_gradients() {
    let grad = |def, x: &[f64]| {
        let x = vector(DType::F64, x).reshape(&[2, 3].into()).unwrap();
        let g = Case::new(def, &[("axis", "1")]).backward(&[x], &[array(&[1f64, 2.0], &[2])]).unwrap();
        g[0].to_vec::<f64>().unwrap()
    };
    let x = [1.0, 3.0, 3.0, 7.0, 0.0, 7.0];
    assert_eq!(grad(&MAX, &x), [0.0, 1.0, 1.0, 2.0, 0.0, 2.0]);
    assert_eq!(grad(&MIN, &x), [1.0, 0.0, 0.0, 0.0, 2.0, 0.0]);
    assert_eq!(grad(&PROD, &x), [9.0, 3.0, 3.0, 0.0, 98.0, 0.0]);
    assert_eq!(grad(&PROD, &[0.0, 0.0, 3.0, 2.0, 2.0, 2.0]), [0.0, 0.0, 0.0, 8.0, 8.0, 8.0]);
    let nan = f64::NAN;
    assert_eq!(grad(&NANSUM, &[1.0, nan, 3.0, nan, nan, nan]), [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(grad(&NANPROD, &[2.0, nan, 3.0, nan, nan, nan]), [3.0, 0.0, 2.0, 0.0, 0.0, 0.0]);
}

const NP_AXES: &[&[(&str, &str)]] =
    &[&[], &[("axis", "1")], &[("axis", "(0, 2)")], &[("axis", "-1"), ("keepdims", "True")], &[("axis", "()")]];

#[test]
fn gradients_of_the_numpy_interface_agree_with_finite_differences() {
    let x: Vec<f64> = (0..24).map(|i| 0.5 + ((i * 7) % 24) as f64 / 16.0).collect();
    for def in [&*NP_SUM, &*NP_PROD, &*NP_MEAN, &*NP_MAX, &*NP_MIN] {
        for attrs in NP_AXES {
            Case::new(def, attrs).check_gradient(&[array(&x, &[2, 3, 4])]);
        }
        Case::new(def, &[]).check_gradient(&[array(&[1.5], &[])]);
    }
}

#[test]
fn full_reductions_return_scalars() {
    let shape = |def, attrs: &[(&str, &str)], dims: &[i64]| {
        Case::new(def, attrs).shapes(&[Shape::new(dims)]).map(|s| s[0].clone())
    };
    assert_eq!(shape(&NP_SUM, &[], &[2, 3]).unwrap(), Shape::new(&[]));
    assert_eq!(shape(&NP_SUM, &[("axis", "()")], &[2, 3]).unwrap(), Shape::new(&[2, 3]));
    assert_eq!(shape(&NP_SUM, &[("axis", "0")], &[]).unwrap(), Shape::new(&[]));
    assert_eq!(shape(&NP_ARGMAX, &[("keepdims", "1")], &[2, 3]).unwrap(), Shape::new(&[1, 1]));
    assert!(shape(&NP_SUM, &[("initial", "1")], &[2]).unwrap_err().to_string().contains("initial is not supported"));
    assert!(shape(&NP_SUM, &[("axis", "(0, -2)")], &[2, 3]).unwrap_err().to_string().contains("given twice"));
    assert!(shape(&NP_MAX, &[("axis", "0")], &[0, 3]).is_err());
    assert_eq!(shape(&NP_MAX, &[("axis", "1")], &[0, 3]).unwrap(), Shape::new(&[0]));
}

#[test]
fn sums_of_no_elements_are_0_products_1_and_means_nan() {
    let run = |def| Case::new(def, &[]).run1(&[array::<f32>(&[], &[0, 3])]).unwrap().to_vec_as::<f64>().unwrap();
    assert_eq!((run(&NP_SUM), run(&NP_PROD), run(&ANY), run(&ALL)), (vec![0.0], vec![1.0], vec![0.0], vec![1.0]));
    assert!(run(&NP_MEAN)[0].is_nan());
}

#[test]
fn the_type_of_a_result_is_dtype_or_follows_from_the_array() {
    let x = vector(DType::U8, &[100.0, 200.0]);
    let run = |def, attrs: &[(&str, &str)], x: &ferromx_core::ndarray::NDArray| {
        let y = Case::new(def, attrs).run1(std::slice::from_ref(x)).unwrap();
        (y.dtype(), y.to_vec_as::<f64>().unwrap()[0])
    };
    assert_eq!(run(&NP_SUM, &[], &x), (DType::U8, 44.0));
    assert_eq!(run(&NP_SUM, &[("dtype", "int32")], &x), (DType::I32, 300.0));
    assert_eq!(run(&NP_MEAN, &[], &x), (DType::F32, 150.0));
    assert_eq!(run(&NP_SUM, &[], &vector(DType::Bool, &[1.0, 1.0])), (DType::I64, 2.0));
    assert_eq!(run(&NP_SUM, &[("dtype", "int32")], &vector(DType::F32, &[0.6, 0.6])), (DType::I32, 1.0));
    assert_eq!(run(&NP_SUM, &[("dtype", "bool")], &x), (DType::Bool, 1.0));
}

#[test]
fn gradients_have_the_type_of_the_array_whatever_dtype_is() {
    let x = vector(DType::F64, &[2.0, 3.0]);
    for (def, want) in [(&NP_SUM, [4.0, 4.0]), (&NP_MEAN, [2.0, 2.0]), (&NP_PROD, [12.0, 8.0])] {
        let case = Case::new(def, &[("dtype", "float32")]);
        let g = case.backward(std::slice::from_ref(&x), &[array(&[4f32], &[])]).unwrap();
        close(&g[0].to_vec::<f64>().unwrap(), &want, 1e-7);
    }
}
