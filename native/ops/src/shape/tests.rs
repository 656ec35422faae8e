use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::OpDef;
use ferromx_core::shape::Shape;

use crate::registry;
use crate::testing::{Case, array, cast, count};

fn op(name: &str, attrs: &[(&str, &str)]) -> Case {
    Case::new(registry::find(name).unwrap().1, attrs)
}

fn shapes(name: &str, attrs: &[(&str, &str)], ins: &[&[i64]]) -> Result<Vec<Shape>, String> {
    op(name, attrs).shapes(&ins.iter().map(|s| Shape::new(s)).collect::<Vec<_>>()).map_err(|e| e.to_string())
}

/// Operators with their parameters and inputs.
fn cases() -> Vec<(&'static str, Vec<(&'static str, &'static str)>, Vec<NDArray>)> {
    vec![
        ("transpose", vec![("axes", "(2,0,1)")], vec![count(&[2, 3, 4])]),
        ("SwapAxis", vec![("dim1", "0"), ("dim2", "-1")], vec![count(&[2, 3, 2])]),
        ("expand_dims", vec![("axis", "-1")], vec![count(&[2, 3])]),
        ("squeeze", vec![("axis", "(1,)")], vec![count(&[2, 1, 3])]),
        ("reverse", vec![("axis", "(0,1)")], vec![count(&[2, 3])]),
        ("_np_transpose", vec![], vec![count(&[2, 3, 2])]),
        ("_np_transpose", vec![("axes", "(1, 2, 0)")], vec![count(&[2, 3, 2])]),
        ("_np_moveaxis", vec![("source", "(0, 1)"), ("destination", "(-1, 0)")], vec![count(&[2, 3, 2])]),
        ("_npi_flip", vec![("axis", "(0, -1)")], vec![count(&[2, 3, 2])]),
        ("_npi_rot90", vec![("k", "1"), ("axes", "(0, 2)")], vec![count(&[2, 3, 2])]),
        ("_npi_rot90", vec![("k", "-3"), ("axes", "(1, 0)")], vec![count(&[2, 3, 2])]),
        ("_np_roll", vec![("shift", "5")], vec![count(&[2, 3, 2])]),
        ("_np_roll", vec![("shift", "(1, -2)"), ("axis", "(0, 1)")], vec![count(&[2, 3, 2])]),
        ("_npi_tril", vec![("k", "-1")], vec![count(&[2, 3, 2])]),
        ("_npi_tril", vec![("k", "1")], vec![count(&[3])]),
        ("slice", vec![("begin", "(0,None)"), ("end", "(2,0)"), ("step", "(1,-2)")], vec![count(&[3, 4])]),
        ("slice_axis", vec![("axis", "-1"), ("begin", "-3"), ("end", "None")], vec![count(&[2, 4])]),
        ("slice_like", vec![("axes", "(0,-1)")], vec![count(&[3, 4]), count(&[2, 1])]),
        ("_slice_assign", vec![("begin", "(1,)"), ("end", "(3,)")], vec![count(&[3, 2]), count(&[2, 2])]),
        ("_slice_assign_scalar", vec![("begin", "(1,)"), ("end", "(2,)"), ("scalar", "4")], vec![count(&[3, 2])]),
        ("Concat", vec![("num_args", "3"), ("dim", "-1")], vec![count(&[2, 2]), count(&[2, 1]), count(&[2, 3])]),
        ("stack", vec![("num_args", "2"), ("axis", "1")], vec![count(&[2, 3]), count(&[2, 3])]),
        ("SliceChannel", vec![("num_outputs", "2")], vec![count(&[2, 4, 2])]),
        ("SliceChannel", vec![("num_outputs", "3"), ("axis", "0"), ("squeeze_axis", "1")], vec![count(&[3, 2])]),
        ("_split_v2", vec![("indices", "(0,1)"), ("axis", "1")], vec![count(&[2, 4])]),
        ("tile", vec![("reps", "(2,1,3)")], vec![count(&[2, 2])]),
        ("repeat", vec![("repeats", "2"), ("axis", "0")], vec![count(&[2, 3])]),
        ("repeat", vec![("repeats", "3")], vec![count(&[2, 2])]),
        ("depth_to_space", vec![("block_size", "2")], vec![count(&[1, 8, 2, 3])]),
        ("space_to_depth", vec![("block_size", "2")], vec![count(&[1, 2, 4, 2])]),
    ]
}

fn is_view(def: &OpDef) -> bool {
    matches!(def.kernels.forward, ferromx_core::op::Forward::View)
}

#[test]
fn gradients_agree_with_finite_differences() {
    for (name, attrs, ins) in cases() {
        op(name, &attrs).check_gradient(&ins);
    }
    for mode in ["constant", "edge", "reflect"] {
        op("Pad", &[("mode", mode), ("pad_width", "(0,0,0,0,1,2,2,1)")]).check_gradient(&[count(&[1, 2, 3, 3])]);
    }
}

#[test]
fn results_do_not_depend_on_the_element_type() {
    for (name, attrs, ins) in cases() {
        let case = op(name, &attrs);
        let small: Vec<_> = ins.iter().map(|x| cast(&cast(x, DType::I32), DType::I8)).collect();
        let want = case.run(&small).unwrap();
        for dtype in DType::ALL.into_iter().filter(|d| *d != DType::Bool) {
            let got = case.run(&small.iter().map(|x| cast(x, dtype)).collect::<Vec<_>>()).unwrap();
            for (g, w) in got.iter().zip(&want) {
                assert_eq!((g.dtype(), g.shape()), (dtype, w.shape()), "{name}");
                assert_eq!(g.to_vec_as::<f64>().unwrap(), w.to_vec_as::<f64>().unwrap(), "{name} {dtype}");
            }
        }
    }
    assert!(is_view(registry::find("squeeze").unwrap().1));
}

#[test]
fn booleans_are_rotated_and_masked() {
    let x = cast(&array(&[0.0, 1.0, 2.0, 3.0], &[2, 2]), DType::Bool);
    for (name, attrs, want) in [
        ("_npi_rot90", vec![("k", "2"), ("axes", "(0, 1)")], [true, true, true, false]),
        ("_npi_tril", vec![], [false, false, true, true]),
    ] {
        assert_eq!(op(name, &attrs).run1(std::slice::from_ref(&x)).unwrap().to_vec::<bool>().unwrap(), want, "{name}");
    }
}

#[test]
fn slices_follow_python() {
    let run = |begin: &str, end: &str, step: &str| {
        let attrs = [("begin", begin), ("end", end), ("step", step)];
        op("slice", &attrs).run1(&[count(&[6])]).unwrap().to_vec_as::<f64>().unwrap()
    };
    assert_eq!(run("(1,)", "(-1,)", "()"), [2.0, 3.0, 4.0, 5.0]);
    assert_eq!(run("(None,)", "(None,)", "(-2,)"), [6.0, 4.0, 2.0]);
    assert_eq!(run("(-99,)", "(99,)", "(4,)"), [1.0, 5.0]);
    assert_eq!(run("(99,)", "(-99,)", "(-5,)"), [6.0, 1.0]);
    assert_eq!(run("(3,)", "(3,)", "(1,)"), [0.0; 0]);
}

#[test]
fn slice_assignment_changes_only_its_region() {
    let attrs = [("begin", "(0,1)"), ("end", "(2,3)"), ("scalar", "9")];
    let y = op("_slice_assign_scalar", &attrs).run1(&[count(&[2, 3])]).unwrap();
    assert_eq!(y.to_vec::<f64>().unwrap(), [1.0, 9.0, 9.0, 4.0, 9.0, 9.0]);
}

#[test]
fn shapes_are_inferred_in_both_directions() {
    let both = |name, attrs: &[(&str, &str)], ins: &[&[i64]], out: &[i64]| {
        let ins: Vec<_> = ins.iter().map(|s| Shape::new(s)).collect();
        op(name, attrs).shapes_both(&ins, &[Shape::new(out)]).unwrap()
    };
    let (ins, outs) = both("transpose", &[], &[&[-1, 3]], &[-1, 2]);
    assert_eq!((&ins[0], &outs[0]), (&[2, 3].into(), &[3, 2].into()));
    let (ins, _) = both("Concat", &[("num_args", "2")], &[&[2, 3], &[-1, -1]], &[2, 7]);
    assert_eq!(ins[1], [2, 4].into());
    let (ins, _) = both("expand_dims", &[("axis", "1")], &[&[-1, 3]], &[2, 1, 3]);
    assert_eq!(ins[0], [2, 3].into());
    assert_eq!(shapes("slice", &[("begin", "(0,1)"), ("end", "(1,3)")], &[&[-1, 9]]).unwrap(), [[-1, 2].into()]);
}

#[test]
fn errors_explain_wrong_arguments() {
    let e = |name, attrs: &[(&str, &str)], ins: &[&[i64]]| shapes(name, attrs, ins).unwrap_err();
    assert!(e("transpose", &[("axes", "(0,0)")], &[&[2, 3]]).contains("not a permutation of the 2 axes"));
    assert!(e("squeeze", &[("axis", "(1,)")], &[&[1, 3]]).contains("axis 1 of length 3 cannot be removed"));
    assert!(e("slice_axis", &[("axis", "0"), ("begin", "3"), ("end", "2")], &[&[4]]).contains("begin=3 and end=2"));
    assert!(
        e("Concat", &[("num_args", "2")], &[&[2, 2], &[3, 2]]).contains("Incompatible input shape: expected [2,-1]")
    );
    assert!(e("SliceChannel", &[("num_outputs", "2")], &[&[2, 3]]).contains("does not divide axis 1 of [2,3]"));
    assert!(e("Pad", &[("mode", "edge"), ("pad_width", "(1,1)")], &[&[3]]).contains("4 or 5 dimensions"));
    assert!(e("repeat", &[("repeats", "-1")], &[&[3]]).contains("-1 was given"));
    assert!(e("_np_transpose", &[("axes", "()")], &[&[2, 3]]).contains("does not match"));
    assert!(e("_np_transpose", &[("axes", "(0, 0)")], &[&[2, 3]]).contains("not a permutation"));
    let moved = [("source", "(0, 0)"), ("destination", "(0, 1)")];
    assert!(e("_np_moveaxis", &moved, &[&[2, 3]]).contains("names an axis twice"));
    assert!(e("_np_roll", &[], &[&[2, 3]]).contains("shift is missing"));
    assert!(e("_npi_rot90", &[], &[&[2, 3]]).contains("two axes"));
}
