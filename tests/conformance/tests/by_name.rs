//! Operators without goldens, called by name. MXNet lists them but cannot run them this way, or only with preallocated outputs.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::sync::Arc;

use ferromx_conformance::golden::{self, Case};
use ferromx_conformance::{engine, value};
use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::ndarray::NDArray;
use ferromx_core::storage::Req;
use ferromx_core::user_op::{UserOpBackward, UserOpForward, UserOpInstance};
use ferromx_ops::registry;
use ferromx_runtime::imperative::{self, GradientRequest, Tensor};

fn tensor(items: &[f32], dims: &[i64]) -> Arc<Tensor> {
    Arc::new(Tensor::new(NDArray::from_slice(items, dims).unwrap()))
}

fn call(op: &str, attrs: &[(&str, &str)], inputs: &[Arc<Tensor>]) -> Result<Vec<NDArray>> {
    let (name, _) = registry::find(op)?;
    imperative::call(name, attrs.iter().copied(), inputs, &[])?.iter().map(|t| t.array()).collect()
}

fn floats(array: &NDArray) -> Vec<f32> {
    array.to_vec_as().unwrap()
}

#[test]
fn names_that_stand_for_something_else_say_what_to_do() {
    let error = |op: &str, attrs: &[(&str, &str)]| call(op, attrs, &[tensor(&[1.0], &[1])]).unwrap_err().to_string();
    for (op, attrs, text) in [
        ("_CachedOp", &[][..], "MXCreateCachedOp"),
        ("_CachedOpThreadSafe", &[], "MXCreateCachedOp"),
        ("_NDArray", &[("info", "0x1")], "MXCustomOpRegister"),
        ("_Native", &[("info", "0x1")], "MXCustomOpRegister"),
        ("_NoGradient", &[], "computes nothing"),
        ("_CustomFunction", &[], "autograd.Function"),
        ("_sg_mkldnn_conv", &[], "load the symbol file that has it"),
        ("_sg_mkldnn_fully_connected", &[], "load the symbol file that has it"),
    ] {
        let message = error(op, attrs);
        assert!(message.contains(text), "{op}: {message}");
    }
}

#[test]
fn values_are_set_and_copied() {
    let out = tensor(&[1.0; 4], &[2, 2]);
    let (name, _) = registry::find("_set_value").unwrap();
    imperative::call(name, [("src", "3.5")].into_iter(), &[], std::slice::from_ref(&out)).unwrap();
    assert_eq!(floats(&out.array().unwrap()), [3.5; 4]);
    let copy = call("_CrossDeviceCopy", &[], std::slice::from_ref(&out)).unwrap();
    imperative::call(name, [("src", "0")].into_iter(), &[], &[out]).unwrap();
    assert_eq!(floats(&copy[0]), [3.5; 4]);
}

/// A PNG image of two rows of three pixels, and its decoding by MXNet 1.9.1.
#[test]
fn images_are_decoded_as_in_mxnet() {
    let bytes: [u8; 85] = [
        137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 3, 0, 0, 0, 2, 8, 2, 0, 0, 0, 18, 22,
        241, 77, 0, 0, 0, 28, 73, 68, 65, 84, 120, 156, 99, 96, 229, 151, 84, 214, 53, 119, 244, 14, 101, 136, 207, 44,
        174, 109, 159, 56, 123, 233, 122, 0, 42, 218, 6, 85, 193, 218, 49, 212, 0, 0, 0, 0, 73, 69, 78, 68, 174, 66,
        96, 130,
    ];
    let data = Arc::new(Tensor::new(NDArray::from_slice(&bytes, &[bytes.len() as i64]).unwrap()));
    let decoded = |attrs: &[(&str, &str)]| {
        let image = call("_cvimdecode", attrs, std::slice::from_ref(&data)).unwrap().swap_remove(0);
        (image.shape().dims().to_vec(), image.to_vec::<u8>().unwrap())
    };
    let rgb: Vec<u8> = (0..18).map(|i| 5 + 10 * i).collect();
    assert_eq!(decoded(&[]), (vec![2, 3, 3], rgb));
    assert_eq!(decoded(&[("to_rgb", "False")]).1[..6], [25, 15, 5, 55, 45, 35]);
    assert_eq!(decoded(&[("flag", "0")]), (vec![2, 3, 1], vec![13, 43, 73, 103, 133, 163]));
}

#[test]
fn gradients_of_parts_are_joined() {
    let parts = [tensor(&[1.0, 2.0], &[2, 1]), tensor(&[3.0, 4.0, 5.0, 6.0], &[2, 2])];
    let joined = [1.0, 3.0, 4.0, 2.0, 5.0, 6.0];
    let attrs = [("indices", "(0, 1)"), ("axis", "1")];
    assert_eq!(floats(&call("_split_v2_backward", &attrs, &parts).unwrap()[0]), joined);
    assert_eq!(floats(&call("_npi_hsplit_backward", &attrs, &parts).unwrap()[0]), joined);
    let squeezed = [("indices", "(0, 1)"), ("axis", "1"), ("squeeze_axis", "True")];
    let rows = [tensor(&[1.0, 2.0], &[2]), tensor(&[3.0, 4.0], &[2])];
    let stacked = call("_split_v2_backward", &squeezed, &rows).unwrap();
    assert_eq!((stacked[0].shape().dims(), floats(&stacked[0])), (&[2, 2][..], vec![1.0, 3.0, 2.0, 4.0]));
}

#[test]
fn gradients_of_broadcasting_are_sums() {
    let head = tensor(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let sums = call("_broadcast_backward", &[("axis", "(0,)"), ("keepdims", "True")], &[head]).unwrap();
    assert_eq!((sums[0].shape().dims(), floats(&sums[0])), (&[1, 3][..], vec![5.0, 7.0, 9.0]));
}

#[test]
fn products_run_along_an_axis() {
    let x = || [tensor(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])];
    let products = |attrs: &[(&str, &str)]| floats(&call("_onnx_CumProd", attrs, &x()).unwrap()[0]);
    assert_eq!(products(&[("axis", "1")]), [1.0, 2.0, 6.0, 4.0, 20.0, 120.0]);
    assert_eq!(products(&[("axis", "-2")]), [1.0, 2.0, 3.0, 4.0, 10.0, 18.0]);
    assert_eq!(products(&[("axis", "1"), ("exclusive", "1")]), [1.0, 1.0, 2.0, 1.0, 4.0, 20.0]);
    assert_eq!(products(&[("axis", "1"), ("reverse", "1")]), [6.0, 6.0, 3.0, 120.0, 30.0, 6.0]);
}

#[test]
fn rows_are_rounded_to_what_8_bits_represent() {
    let x = tensor(&[63.5, -25.25, 0.1, 0.0, 0.0, 0.0, -254.0, 3.0, 126.9], &[3, 3]);
    let rounded = call("_contrib_fake_quantize", &[], &[x]).unwrap();
    assert_eq!(floats(&rounded[0]), [63.5, -25.0, 0.0, 0.0, 0.0, 0.0, -254.0, 4.0, 126.0]);
}

/// Sampling points centered between four pixels, each of which contributes a quarter.
#[test]
fn regions_are_pooled_by_the_largest_contribution() {
    let image = tensor(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], &[1, 1, 3, 3]);
    let region = tensor(&[0.0, 0.0, 0.0, 2.0, 2.0], &[1, 5]);
    let attrs = [("pooled_size", "(2, 2)"), ("spatial_scale", "1"), ("sample_ratio", "1")];
    let pooled = call("_onnx_MaxRoiAlign", &attrs, &[image, region]).unwrap();
    assert_eq!(floats(&pooled[0]), [1.25, 1.5, 2.0, 2.25]);
}

/// The gradients that MXNet gives for `_contrib_hawkesll`, by the name of its gradient.
#[test]
fn gradients_of_hawkes_processes_are_those_of_mxnet() {
    let mut compared = 0;
    for case in golden::load(&golden::folder(), "misc").unwrap() {
        let Case::Op(case) = case else { continue };
        if case.op != "_contrib_hawkesll" || case.error.is_some() || case.grads.is_empty() {
            continue;
        }
        let arrays =
            case.head_grads.iter().chain(&case.inputs).map(|a| Arc::new(Tensor::new(engine::to_engine(a).unwrap())));
        let gradients = call("_contrib_backward_hawkesll", &[], &arrays.collect::<Vec<_>>()).unwrap();
        for expected in &case.grads {
            let index = case.inputs.iter().position(|i| i.name == expected.name).unwrap();
            let close = value::Tolerance { rtol: 1e-4, atol: 1e-5 };
            engine::from_engine(&gradients[index]).expect(&expected.array().unwrap(), close).unwrap();
            compared += 1;
        }
    }
    assert!(compared >= 3, "only {compared} gradients were compared");
}

/// Dequantizes by `(q - shift) / scale`, within half a quantization step; the calibrated range maps to the integer range.
#[test]
fn integers_of_an_own_range_stand_for_the_numbers() {
    let numbers = [-1.5f32, 0.25, 0.75, 3.5, 1.0, 2.125];
    let found = call("_contrib_quantize_asym", &[], &[tensor(&numbers, &[2, 3])]).unwrap();
    let (scale, shift) = (floats(&found[1])[0], floats(&found[2])[0]);
    assert!((scale - 51.0).abs() < 1e-4 && (shift - 76.5).abs() < 1e-3, "{scale} {shift}");
    assert_eq!((found[0].dtype(), found[0].shape().dims()), (DType::U8, &[2, 3][..]));
    for (q, x) in floats(&found[0]).iter().zip(numbers) {
        assert!(((q - shift) / scale - x).abs() <= 0.5001 / scale, "{q} stands for {x}");
    }
    let calibrated = [("min_calib_range", "0"), ("max_calib_range", "2.55")];
    let found = call("_contrib_quantize_asym", &calibrated, &[tensor(&[-1.0, 1.0, 9.0], &[3])]).unwrap();
    assert_eq!(floats(&found[0]), [0.0, 100.0, 255.0]);
}

/// A function whose gradient is three times the gradient of its output.
struct Threefold;

impl UserOpInstance for Threefold {
    fn forward(&mut self, _: &UserOpForward<'_>) -> Result<()> {
        unreachable!("the function was computed when it was recorded")
    }

    fn backward(&mut self, call: &UserOpBackward<'_>) -> Result<()> {
        let tripled: Vec<f32> = floats(call.ograds[0].dense()?).iter().map(|g| 3.0 * g).collect();
        let gradient = call.igrads[0].dense()?;
        gradient.copy_from(&NDArray::from_slice(&tripled, gradient.shape().dims())?)
    }
}

/// The tape node of `_CustomFunction`.
#[test]
fn recorded_functions_give_their_own_gradients() {
    let (x, y, gradient) = (tensor(&[1.0, 2.0], &[2]), tensor(&[5.0, 6.0], &[2]), tensor(&[0.0; 2], &[2]));
    let request = GradientRequest { array: gradient.clone(), req: Req::Write };
    imperative::mark_variables(std::slice::from_ref(&x), &[request]).unwrap();
    imperative::record_function(Box::new(Threefold), &[x], std::slice::from_ref(&y)).unwrap();
    let head = tensor(&[1.0, -2.0], &[2]);
    imperative::backward(&[y], &[Some(head)], &[], imperative::Keep::Nothing).unwrap();
    assert_eq!(floats(&gradient.array().unwrap()), [3.0, -6.0]);
    let e = call("_CustomFunction", &[], &[]).unwrap_err().to_string();
    assert!(e.contains("cannot be called by name"), "{e}");
}
