//! Gradients of first and second order against finite differences, on the inputs of the goldens, in double precision.
//!
//! For fixed weights w, the sum of w * output is a function of the inputs. Its directional derivative, from values at four neighboring
//! points, is compared with the gradient. The second order does the same with the sum of v * gradient, for fixed v. Cases are skipped if
//! the function has a kink between the points or is undefined there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::storage::Req;
use ferromx_runtime::imperative::{self, GradientRequest, Keep, Tensor, Tensors};
use ferromx_runtime::{random, semantics};

use crate::engine::{cast, to_engine};
use crate::golden::{self, Case, OpCase};

/// Goldens whose gradients are not the derivatives although FerroMX and MXNet agree, with a description of each gradient.
pub const NOT_DERIVATIVE_CASES: &[(&str, &str)] = &[
    ("layers/LeakyReLU/25", SELU),
    ("layers/LeakyReLU/26", SELU),
    ("layers/LeakyReLU/27", SELU),
    ("layers/LeakyReLU/33", SELU),
    ("layers/LeakyReLU/34", SELU),
    ("layers/LeakyReLU/35", SELU),
    ("layers/SoftmaxActivation/1", "along axis 1, though the softmax is along the last axis"),
];

const SELU: &str = "scale * (alpha + y) for negative numbers, not scale * alpha + y";

/// Operators whose gradients are by design not the derivatives of their outputs, with a description of each gradient.
pub const NOT_DERIVATIVES: &[(&str, &str)] = &[
    ("BlockGrad", "zero"),
    ("IdentityAttachKLSparseReg", "that of a penalty on the activations is added"),
    ("LinearRegressionOutput", "that of the loss"),
    ("LogisticRegressionOutput", "that of the loss"),
    ("MAERegressionOutput", "that of the loss"),
    ("MakeLoss", "the scale of the loss"),
    ("make_loss", "1, that of a loss"),
    ("SVMOutput", "that of the loss"),
    ("SoftmaxOutput", "that of the loss"),
    ("_contrib_box_decode", "zero"),
    ("_contrib_gradientmultiplier", "the gradient of the output times a number"),
    ("_contrib_round_ste", "passed straight through"),
    ("_contrib_sign_ste", "passed straight through"),
    ("_image_adjust_lighting", "passed straight through"),
    ("_image_random_brightness", "passed straight through"),
    ("_image_random_contrast", "passed straight through"),
    ("_image_random_hue", "passed straight through"),
    ("_image_random_saturation", "passed straight through"),
    ("_linalg_potrf", "of a symmetric matrix"),
    ("_linalg_syevd", "of a symmetric matrix"),
    ("_npi_cholesky", "of a symmetric matrix"),
    ("_npi_eig", "zero"),
    ("_npi_eigh", "of a symmetric matrix"),
    ("_npi_eigvals", "zero"),
    ("_npi_eigvalsh", "of a symmetric matrix"),
    ("_npi_pinv", "zero"),
    ("_npi_pinv_scalar_rcond", "zero"),
    ("_random_pdf_generalized_negative_binomial", "of the parameters alone"),
    ("_random_pdf_negative_binomial", "of the parameters alone"),
    ("_random_pdf_poisson", "of the parameters alone"),
];

/// Indices of outputs that pass no gradient to the inputs, as in MXNet.
const OUTPUTS_WITHOUT_GRADIENT: &[(&str, &[usize])] = &[
    ("BatchNorm_v1", &[1, 2]),
    ("GroupNorm", &[1, 2]),
    ("LayerNorm", &[1, 2]),
    ("_contrib_SyncBatchNorm", &[1, 2]),
    ("_contrib_hawkesll", &[1]),
];

/// Cases at points without a derivative: repeated singular values.
const SINGULAR: &[&str] = &["edges/_npi_svd/1", "edges/_npi_svd/2"];

/// The outcome of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Gradient and finite difference agree.
    Agrees,
    /// Nothing to compare, with the reason.
    Skipped(String),
    /// They differ.
    Differs(String),
}

/// A call of an operator with perturbable inputs.
struct Call<'a> {
    case: &'a OpCase,
    name: &'static str,
    inputs: Vec<NDArray>,
    /// Indices of the perturbed inputs.
    moving: Vec<usize>,
}

/// A pseudo-random number between -1 and 1 for each index.
fn weight(index: usize, salt: usize) -> f64 {
    let mixed = |x: usize, by: u64| (x as u64 + 1).wrapping_mul(by);
    let x = mixed(index, 0x9E37_79B9_7F4A_7C15).wrapping_add(mixed(salt, 0xBF58_476D_1CE4_E5B9));
    let x = (x ^ (x >> 29)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (x >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// Weights with the shape and type of an array; `None` for integers, which have no gradient.
fn weights(like: &Tensor, salt: usize) -> Result<Option<Arc<Tensor>>> {
    let like = like.array()?;
    if !like.dtype().is_float() {
        return Ok(None);
    }
    let all: Vec<f64> = (0..like.len()).map(|i| weight(i, salt)).collect();
    Ok(Some(Arc::new(Tensor::new(cast(&NDArray::from_slice(&all, like.shape().dims())?, like.dtype())?))))
}

fn dot(x: &NDArray, salt: usize) -> Result<f64> {
    if !x.dtype().is_float() {
        return Ok(0.0);
    }
    Ok(x.to_vec_as::<f64>()?.iter().enumerate().map(|(i, x)| x * weight(i, salt)).sum())
}

fn tensors(arrays: &[NDArray]) -> Vec<Arc<Tensor>> {
    arrays.iter().map(|a| Arc::new(Tensor::new(a.clone()))).collect()
}

impl<'a> Call<'a> {
    fn new(case: &'a OpCase) -> Result<Call<'a>> {
        let (name, def) = ferromx_ops::registry::find(&case.op)?;
        let inputs = case.inputs.iter().map(to_engine).map(|array| {
            let array = array?;
            if array.dtype().is_float() { cast(&array, DType::F64) } else { Ok(array) }
        });
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let moves = |i: &usize| {
            let input = &case.inputs[*i];
            case.wrt.contains(&input.name) && inputs[*i].dtype() == DType::F64 && !def.signature.mutates.contains(i)
        };
        let moving = (0..inputs.len()).filter(moves).collect();
        Ok(Call { case, name, inputs, moving })
    }

    /// The visible outputs for these inputs.
    fn outputs(&self, inputs: &[Arc<Tensor>]) -> Result<Tensors> {
        random::seed_context(5, Context::default());
        let attrs = self.case.attrs.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        imperative::call(self.name, attrs, inputs, &[])
    }

    /// The inputs moved by `step` along the direction.
    fn moved(&self, step: f64) -> Result<Vec<NDArray>> {
        let mut inputs = self.inputs.iter().map(|x| x.to_context(x.context())).collect::<Result<Vec<_>>>()?;
        for i in &self.moving {
            let values = self.inputs[*i].to_vec::<f64>()?;
            let values: Vec<f64> = values.iter().enumerate().map(|(k, x)| x + step * weight(k, 100 + i)).collect();
            inputs[*i] = NDArray::from_slice(&values, self.inputs[*i].shape().dims())?;
        }
        Ok(inputs)
    }

    /// The weighted sum of the outputs for the moved inputs.
    fn value(&self, step: f64) -> Result<f64> {
        let outputs = self.outputs(&tensors(&self.moved(step)?))?;
        for y in &outputs {
            let dtype = y.array()?.dtype();
            if !dtype.is_float() && self.case.attrs.contains_key("dtype") {
                return Err(Error::Value(format!("the result is cut to {dtype}")));
            }
            if dtype.is_float() && dtype != DType::F64 {
                return Err(Error::Value(format!("the result is rounded to {dtype}")));
            }
        }
        let silent =
            OUTPUTS_WITHOUT_GRADIENT.iter().find(|(op, _)| *op == self.name).map_or(&[][..], |(_, outputs)| outputs);
        let heard = outputs.iter().enumerate().filter(|(k, _)| !silent.contains(k));
        heard.map(|(k, y)| dot(&y.array()?, k)).sum()
    }

    /// Inputs on the tape with gradient arrays, and the recorded outputs.
    fn recorded(&self, step: f64) -> Result<(Vec<Arc<Tensor>>, Tensors)> {
        let inputs = tensors(&self.moved(step)?);
        let variables: Vec<Arc<Tensor>> = self.moving.iter().map(|i| inputs[*i].clone()).collect();
        let requests = variables.iter().map(|x| {
            let x = x.array()?;
            let array = Arc::new(Tensor::new(NDArray::zeros(x.shape(), x.dtype(), x.context())?));
            Ok(GradientRequest { array, req: Req::Write })
        });
        imperative::mark_variables(&variables, &requests.collect::<Result<Vec<_>>>()?)?;
        imperative::set_recording(true);
        let outputs = self.outputs(&inputs);
        imperative::set_recording(false);
        Ok((variables, outputs?))
    }

    /// The gradients of the weighted sum for the moved inputs; `graph` records them on the tape.
    fn gradients(&self, step: f64, graph: bool) -> Result<(Vec<Arc<Tensor>>, Vec<Arc<Tensor>>)> {
        let (variables, outputs) = self.recorded(step)?;
        let heads = outputs.iter().enumerate().map(|(k, y)| weights(y, k)).collect::<Result<Vec<_>>>()?;
        let keep = if graph { Keep::Gradients } else { Keep::Graph };
        imperative::set_recording(graph);
        let gradients = imperative::backward_in_mode(&outputs, &heads, &variables, keep, self.case.mode());
        imperative::set_recording(false);
        Ok((variables, gradients?))
    }

    /// The directional derivative from gradients.
    fn along(&self, gradients: &[Arc<Tensor>]) -> Result<f64> {
        let parts = self.moving.iter().zip(gradients).map(|(i, g)| dot(&g.array()?, 100 + i));
        parts.sum()
    }

    /// The weighted sum of the gradients with these indices, for the moved inputs.
    fn slope(&self, indices: &[usize], step: f64) -> Result<f64> {
        let (_, gradients) = self.gradients(step, false)?;
        indices.iter().map(|k| dot(&gradients[*k].array()?, 200 + k)).sum()
    }

    /// The indices of differentiable gradients, and the directional derivative of their [`Call::slope`].
    fn curvature(&self) -> Result<(Vec<usize>, f64)> {
        let (variables, gradients) = self.gradients(0.0, true)?;
        // Constant gradients, and gradients computed by a kernel, are not on the tape.
        let recorded = gradients.into_iter().enumerate().filter(|(_, g)| g.is_recorded());
        let (indices, gradients): (Vec<usize>, Vec<Arc<Tensor>>) = recorded.unzip();
        if indices.is_empty() {
            return Err(Error::Value("no gradient is composed of operators that depend on the inputs".into()));
        }
        let heads = indices.iter().zip(&gradients).map(|(k, g)| weights(g, 200 + k)).collect::<Result<Vec<_>>>()?;
        imperative::backward_in_mode(&gradients, &heads, &[], Keep::Nothing, self.case.mode())?;
        let second =
            variables.iter().map(|x| x.grad().ok_or_else(|| Error::Internal("a variable has no gradient".into())));
        Ok((indices, self.along(&second.collect::<Result<Vec<_>>>()?)?))
    }
}

/// Half the distance between neighboring points.
const STEP: f64 = 1e-5;

/// Compares a derivative with differences of a function's values.
fn compare(derivative: f64, value: impl Fn(f64) -> Result<f64>) -> Result<Outcome> {
    let at = |k: f64| value(k * STEP);
    let (far_left, left, middle, right, far_right) = (at(-2.0)?, at(-1.0)?, at(0.0)?, at(1.0)?, at(2.0)?);
    if [far_left, left, middle, right, far_right, derivative].iter().any(|x| !x.is_finite()) {
        return Ok(Outcome::Skipped("there is no value".into()));
    }
    let difference = (8.0 * (right - left) - (far_right - far_left)) / (12.0 * STEP);
    let size = derivative.abs().max(difference.abs()).max(1.0);
    // Allow for rounding errors and the truncation error of the differences.
    let rounding = 1e-10 * middle.abs().max(1.0) / STEP;
    if (difference - derivative).abs() <= 2e-5 * size + rounding {
        return Ok(Outcome::Agrees);
    }
    let slopes = [left - far_left, middle - left, right - middle, far_right - right].map(|d| d / STEP);
    let bend = |i: usize| (slopes[i + 1] - slopes[i]).abs();
    let smooth = 1e-3 * size + 4.0 * rounding;
    if (0..3).any(|i| bend(i) > smooth) {
        return Ok(Outcome::Skipped("there is a kink".into()));
    }
    Ok(Outcome::Differs(format!("the gradient gives {derivative}, finite differences {difference}")))
}

/// Held while random numbers must repeat from call to call: the random state is global.
static DRAWING: Mutex<()> = Mutex::new(());

fn checked(case: &OpCase, compare: impl Fn(&Call<'_>) -> Result<Outcome>) -> Outcome {
    let draws = ferromx_ops::registry::find(&case.op).is_ok_and(|(_, def)| def.kernels.is_random);
    let _drawing = draws.then(|| DRAWING.lock().unwrap_or_else(PoisonError::into_inner));
    semantics::set_numpy_shape(case.np_shape);
    let before = imperative::set_training(case.train);
    let outcome = Call::new(case).and_then(|mut call| {
        let moving = std::mem::take(&mut call.moving);
        let together = std::iter::once(moving.clone());
        let mut outcome = Ok(Outcome::Skipped("no input of the case can be moved".into()));
        // If moving all inputs fails, some may hold integers or sit at a kink, so each input is tried alone.
        for inputs in together.chain(moving.into_iter().map(|i| vec![i])).filter(|inputs| !inputs.is_empty()) {
            call.moving = inputs;
            outcome = compare(&call);
            if matches!(outcome, Ok(Outcome::Agrees | Outcome::Differs(_))) {
                break;
            }
        }
        outcome
    });
    imperative::set_recording(false);
    imperative::set_training(before);
    semantics::set_numpy_shape(false);
    outcome.unwrap_or_else(|e| Outcome::Skipped(e.to_string()))
}

/// Compares the gradient of a case with finite differences.
pub fn first_order(case: &OpCase) -> Outcome {
    checked(case, |call| {
        let (_, gradients) = call.gradients(0.0, false)?;
        compare(call.along(&gradients)?, |step| call.value(step))
    })
}

/// Compares the second derivatives of a case with finite differences of its gradient.
pub fn second_order(case: &OpCase) -> Outcome {
    checked(case, |call| {
        let (indices, curvature) = call.curvature()?;
        compare(curvature, |step| call.slope(&indices, step))
    })
}

/// The results of an operator's goldens.
#[derive(Debug, Default, Clone)]
pub struct Checked {
    /// Cases that request gradients.
    pub cases: usize,
    /// Cases whose gradient agrees with finite differences.
    pub first: usize,
    /// Cases whose second derivatives do.
    pub second: usize,
    /// Differences and reasons of failures, by case.
    pub differs: Vec<String>,
    /// Why gradients were not compared.
    pub skipped: Vec<String>,
    /// Why second derivatives were not compared.
    pub skipped_second: Vec<String>,
}

/// The comparisons of all goldens that request gradients, by canonical operator name.
///
/// # Errors
/// The goldens cannot be read.
pub fn all() -> std::result::Result<BTreeMap<&'static str, Checked>, String> {
    let mut all = BTreeMap::<_, Checked>::new();
    for family in golden::families(&golden::folder())? {
        for case in golden::load(&golden::folder(), &family)? {
            let Case::Op(case) = case else { continue };
            let Ok((_, def)) = ferromx_ops::registry::find(&case.op) else { continue };
            if case.wrt.is_empty() || case.error.is_some() || SINGULAR.contains(&case.id.as_str()) {
                continue;
            }
            let checked = all.entry(def.name).or_default();
            checked.cases += 1;
            match first_order(&case) {
                Outcome::Agrees => checked.first += 1,
                Outcome::Skipped(why) => checked.skipped.push(why),
                Outcome::Differs(what) => checked.differs.push(format!("{}: {what}", case.id)),
            }
            match second_order(&case) {
                Outcome::Agrees => checked.second += 1,
                Outcome::Skipped(why) => checked.skipped_second.push(why),
                Outcome::Differs(what) => checked.differs.push(format!("{}: second order: {what}", case.id)),
            }
        }
    }
    Ok(all)
}

/// The operators that MXNet 1.9.1 can differentiate twice (`tests/oracle/second-order.txt`), by canonical name.
///
/// # Errors
/// The file cannot be read, or names an unknown operator.
pub fn differentiated_twice_by_mxnet() -> std::result::Result<Vec<&'static str>, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../oracle/second-order.txt");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    text.lines().map(|name| Ok(ferromx_ops::registry::find(name).map_err(|e| e.to_string())?.1.name)).collect()
}
