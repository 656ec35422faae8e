//! `RNN`, `GRU` and `LSTM` with all attributes of ONNX.

use ferromx_core::dtype::{DType, Element};
use ferromx_core::error::{Error, Result};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{ArgDef, OpCtx, Operator, arg};
use ferromx_core::params::{Params, Tuple};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, param_enum, params};
use ferromx_kernels::rnn::RnnElement;
use ferromx_kernels::rnn::general::{
    Activation, Function, GeneralCell, GeneralInputs, GeneralLayer, GeneralOutputs, general_forward,
};

param_enum! {
    /// The direction in which time steps are processed.
    pub enum RecurrentDirection { Forward = "forward", Reverse = "reverse", Both = "bidirectional" }
}

param_enum! {
    /// An activation function, with parameters alpha and beta.
    pub enum RecurrentFunction {
        Relu = "Relu",
        Tanh = "Tanh",
        Sigmoid = "Sigmoid",
        Affine = "Affine",
        LeakyRelu = "LeakyRelu",
        ThresholdedRelu = "ThresholdedRelu",
        ScaledTanh = "ScaledTanh",
        HardSigmoid = "HardSigmoid",
        Elu = "Elu",
        Softsign = "Softsign",
        Softplus = "Softplus",
    }
}

params! {
    /// Parameters of the recurrent layers.
    pub struct RecurrentParam {
        /// The direction in which time steps are processed.
        direction: RecurrentDirection = (RecurrentDirection::Forward);
        /// The activations of each direction, in order; by default Sigmoid for gates and Tanh for states.
        activations: Tuple<RecurrentFunction> = (Tuple(Vec::new()));
        /// The alpha of each activation that has one, in order; by default ONNX's.
        activation_alpha: Tuple<f32> = (Tuple(Vec::new()));
        /// The beta of each activation that has one, in order; by default ONNX's.
        activation_beta: Tuple<f32> = (Tuple(Vec::new()));
        /// Inputs of activations are clipped to [-clip, clip].
        clip: Option<f32> = None;
        /// GRU: whether the reset gate is applied after the product of weights and state, instead of to the state.
        linear_before_reset: bool = false;
        /// LSTM: whether the input and forget gates are coupled.
        input_forget: bool = false;
        /// Whether the last input holds the lengths of the sequences.
        use_sequence_length: bool = false;
    }
}

const X: ArgDef = arg("data", "Inputs, of shape (steps, batch, input).");
const W: ArgDef = arg("weight", "Weights of the inputs, of shape (directions, gates * hidden, input).");
const R: ArgDef = arg("recurrent", "Weights of the states, of shape (directions, gates * hidden, hidden).");
const B: ArgDef = arg("bias", "Biases of both, of shape (directions, 2 * gates * hidden).");
const H: ArgDef = arg("state", "Initial states, of shape (directions, batch, hidden).");
const C: ArgDef = arg("state_cell", "Initial cell states, of shape (directions, batch, hidden).");
const P: ArgDef = arg("peephole", "Peephole weights of the gates i, o and f, of shape (directions, 3 * hidden).");
const L: ArgDef = arg("sequence_length", "Lengths of the sequences, of shape (batch,), int32.");

/// Defines a recurrent layer, whose last input is optional.
macro_rules! layer {
    ($static:ident: $name:literal, $cell:expr, $inputs:expr, $outputs:literal, $doc:literal) => {
        #[doc = $doc]
        pub(crate) static $static: Operator<RecurrentParam> = Operator::new($name)
            .doc(concat!(
                $doc,
                "\n\nOutputs: the states of all steps (steps, directions, batch, hidden), which are 0 after the end of a sequence, and the \
                 last state (directions, batch, hidden). Not differentiable; use `RNN` for training. Source: ONNX."
            ))
            .inputs($inputs)
            .num_inputs_by(|p| {
                let all: &[ArgDef] = $inputs;
                if p.get::<RecurrentParam>().use_sequence_length { all.len() } else { all.len() - 1 }
            })
            .outputs(|_| $outputs)
            .shape(|p, io| shapes(p, io, $cell))
            .dtype(types)
            .forward(|ctx, ins, outs| {
                dispatch!(ins[0].dtype(), T in [f32, f64] => run::<T>(ctx, $cell, ins, outs),
                    other => Err(ctx.unsupported(other, &[DType::F32, DType::F64])))
            });
    };
}
layer!(VANILLA: "_onnx_RNN", |_| GeneralCell::Vanilla, &[X, W, R, B, H, L], 2, "A recurrent layer: h = f(W x + R h + b).");
layer!(GRU: "_onnx_GRU", |p| GeneralCell::Gru { linear_before_reset: p.linear_before_reset }, &[X, W, R, B, H, L], 2,
    "A layer of gated recurrent units (Cho et al., 2014) with gates z, r, h: h = (1 - z) g(W x + R (r h) + b) + z h.");
layer!(LSTM: "_onnx_LSTM", |p| GeneralCell::Lstm { input_forget: p.input_forget }, &[X, W, R, B, H, C, P, L], 3,
    "A layer of LSTM cells (Hochreiter and Schmidhuber, 1997) with gates i, o, f, c and peepholes.");

/// The number of directions.
fn num_directions(p: &RecurrentParam) -> usize {
    if p.direction == RecurrentDirection::Both { 2 } else { 1 }
}

fn shapes(p: &Params, io: &mut ShapeIo<'_>, cell: fn(&RecurrentParam) -> GeneralCell) -> Result<()> {
    let p = p.get::<RecurrentParam>();
    let (gates, d) = (cell(p).gates() as i64, num_directions(p) as i64);
    let (x, r) = (io.ins[0].clone(), io.ins[2].clone());
    ensure!(x.ndim().is_none_or(|n| n == 3), "data has shape {x}, expected (steps, batch, input)");
    ensure!(r.ndim().is_none_or(|n| n == 3), "recurrent has shape {r}, expected (directions, gates * hidden, hidden)");
    let hidden = r.dim(2);
    let times_hidden = |n: i64| if hidden < 0 { -1 } else { n * hidden };
    let (steps, batch) = (x.dim(0), x.dim(1));
    io.assign_in(1, &Shape::new(&[d, times_hidden(gates), x.dim(2)]))?;
    io.assign_in(2, &Shape::new(&[d, times_hidden(gates), hidden]))?;
    io.assign_in(3, &Shape::new(&[d, times_hidden(2 * gates)]))?;
    let state = Shape::new(&[d, batch, hidden]);
    io.assign_in(4, &state)?;
    let is_lstm = io.outs.len() == 3;
    if is_lstm {
        io.assign_in(5, &state)?;
        io.assign_in(6, &Shape::new(&[d, times_hidden(3)]))?;
        io.assign_out(2, &state)?;
    }
    if p.use_sequence_length {
        io.assign_in(io.ins.len() - 1, &Shape::new(&[batch]))?;
    }
    io.assign_out(0, &Shape::new(&[steps, d, batch, hidden]))?;
    io.assign_out(1, &state)
}

fn types(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let has_lengths = p.get::<RecurrentParam>().use_sequence_length;
    let num_floats = io.ins.len() - usize::from(has_lengths);
    if has_lengths {
        io.assign_in(num_floats, DType::I32)?;
    }
    let Some(dtype) = io.ins[..num_floats].iter().chain(io.outs.iter()).find_map(|d| *d) else { return Ok(()) };
    (0..num_floats).try_for_each(|i| io.assign_in(i, dtype))?;
    (0..io.outs.len()).try_for_each(|i| io.assign_out(i, dtype))
}

/// The function of an activation with ONNX's default alpha and beta, or `None` for a parameter that it lacks.
fn function(f: RecurrentFunction) -> (Function, Option<f32>, Option<f32>) {
    match f {
        RecurrentFunction::Relu => (Function::Relu, None, None),
        RecurrentFunction::Tanh => (Function::Tanh, None, None),
        RecurrentFunction::Sigmoid => (Function::Sigmoid, None, None),
        RecurrentFunction::Affine => (Function::Affine, Some(1.0), Some(0.0)),
        RecurrentFunction::LeakyRelu => (Function::LeakyRelu, Some(0.01), None),
        RecurrentFunction::ThresholdedRelu => (Function::ThresholdedRelu, Some(1.0), None),
        RecurrentFunction::ScaledTanh => (Function::ScaledTanh, Some(1.0), Some(1.0)),
        RecurrentFunction::HardSigmoid => (Function::HardSigmoid, Some(0.2), Some(0.5)),
        RecurrentFunction::Elu => (Function::Elu, Some(1.0), None),
        RecurrentFunction::Softsign => (Function::Softsign, None, None),
        RecurrentFunction::Softplus => (Function::Softplus, None, None),
    }
}

fn activations<T: RnnElement>(p: &RecurrentParam, cell: GeneralCell) -> Result<Vec<Activation<T>>> {
    use RecurrentFunction::{Sigmoid, Tanh};
    let default: &[RecurrentFunction] = match cell {
        GeneralCell::Vanilla => &[Tanh],
        GeneralCell::Gru { .. } => &[Sigmoid, Tanh],
        GeneralCell::Lstm { .. } => &[Sigmoid, Tanh, Tanh],
    };
    let num_activations = default.len() * num_directions(p);
    let functions = match p.activations.0.is_empty() {
        true => default.iter().copied().cycle().take(num_activations).collect(),
        false => p.activations.0.clone(),
    };
    ensure!(
        functions.len() == num_activations,
        "activations names {} functions, expected {num_activations}",
        functions.len()
    );
    let (mut alphas, mut betas) = (p.activation_alpha.0.iter(), p.activation_beta.0.iter());
    let activations = functions.into_iter().map(|f| {
        let (function, alpha, beta) = function(f);
        // Only functions with the parameter take an entry from the list.
        let alpha = alpha.map_or(0.0, |a| alphas.next().copied().unwrap_or(a));
        let beta = beta.map_or(0.0, |b| betas.next().copied().unwrap_or(b));
        Activation { function, alpha: MathFloat::of(alpha.into()), beta: MathFloat::of(beta.into()) }
    });
    Ok(activations.collect())
}

use ferromx_kernels::math::MathFloat;

fn run<T: RnnElement + Element>(
    ctx: &OpCtx<'_>,
    cell: fn(&RecurrentParam) -> GeneralCell,
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
) -> Result<()> {
    let p = ctx.params::<RecurrentParam>();
    let (x, r) = (ins[0].shape().to_usize(), ins[2].shape().to_usize());
    let cell = cell(p);
    let is_lstm = outs.len() == 3;
    let layer = GeneralLayer {
        cell,
        steps: x[0],
        batch: x[1],
        input: x[2],
        hidden: r[2],
        directions: num_directions(p),
        is_reverse: p.direction == RecurrentDirection::Reverse,
        activations: activations::<T>(p, cell)?,
        clip: p.clip.filter(|c| *c > 0.0).map(|c| MathFloat::of(c.into())),
    };
    let lengths = match p.use_sequence_length {
        true => Some(lengths(&ins[ins.len() - 1], layer.steps)?),
        false => None,
    };
    let inputs = GeneralInputs {
        x: ins[0].slice::<T>()?,
        w: ins[1].slice::<T>()?,
        r: ins[2].slice::<T>()?,
        b: ins[3].slice::<T>()?,
        h0: ins[4].slice::<T>()?,
        c0: if is_lstm { ins[5].slice::<T>()? } else { &[] },
        peepholes: if is_lstm { ins[6].slice::<T>()? } else { &[] },
        lengths: lengths.as_deref(),
    };
    // The kernel keeps the state of the current step in the outputs, so it needs all of them. A scratch buffer replaces one that is not
    // wanted.
    let mut scratch: Vec<Vec<T>> =
        outs.iter().map(|o| vec![T::default(); if o.wanted() { 0 } else { o.len() }]).collect();
    let mut slices = Vec::new();
    for (out, scratch) in outs.iter_mut().zip(&mut scratch) {
        slices.push(if out.wanted() { out.slice_mut::<T>()? } else { scratch.as_mut_slice() });
    }
    let mut slices = slices.into_iter();
    let mut next = || slices.next().unwrap_or_default();
    general_forward(&layer, &inputs, GeneralOutputs { y: next(), h: next(), c: next() });
    Ok(())
}

/// The lengths of the sequences.
///
/// # Errors
/// A length that is negative or exceeds the number of steps.
fn lengths(input: &In<'_>, steps: usize) -> Result<Vec<usize>> {
    let lengths = input.slice::<i32>()?.iter().map(|n| {
        usize::try_from(*n)
            .ok()
            .filter(|n| *n <= steps)
            .ok_or_else(|| Error::Value(format!("a sequence has length {n}, but there are {steps} steps")))
    });
    lengths.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};
    use ferromx_core::ndarray::NDArray;

    fn numbers(n: i64, dims: &[i64]) -> NDArray {
        let len: i64 = dims.iter().product();
        array(&(0..len).map(|i| ((i * 37 + n * 11) % 17) as f64 / 10.0 - 0.8).collect::<Vec<_>>(), dims)
    }

    /// Compares one step of a GRU of one unit with the formula.
    #[test]
    fn the_reset_gate_is_applied_before_or_after_the_product() {
        let (w, r) = (array(&[0.3f64, -0.2, 0.5], &[1, 3, 1]), array(&[0.1f64, 0.4, -0.7], &[1, 3, 1]));
        let b = array(&[0.0f64, 0.1, 0.2, 0.3, -0.1, 0.05], &[1, 6]);
        let (x, h): (f64, f64) = (1.5, 0.6);
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let (z, reset) = (sigmoid(0.3 * x + 0.1 * h + 0.3), sigmoid(-0.2 * x + 0.4 * h + 0.1 - 0.1));
        for linear in [false, true] {
            let inner = if linear { reset * (-0.7 * h + 0.05) } else { -0.7 * (reset * h) + 0.05 };
            let want = (1.0 - z) * (0.5 * x + 0.2 + inner).tanh() + z * h;
            let case = Case::new(&GRU, &[("linear_before_reset", if linear { "True" } else { "False" })]);
            let outs =
                case.run(&[array(&[x], &[1, 1, 1]), w.clone(), r.clone(), b.clone(), array(&[h], &[1, 1, 1])]).unwrap();
            assert!((outs[0].to_vec::<f64>().unwrap()[0] - want).abs() < 1e-12);
            assert_eq!(outs[0].to_vec::<f64>().unwrap(), outs[1].to_vec::<f64>().unwrap());
        }
    }

    #[test]
    fn states_after_the_end_of_a_sequence_are_zero() {
        let ins = |steps: i64, batch: i64| {
            let state = |n| numbers(n, &[2, batch, 4]);
            vec![
                numbers(1, &[steps, batch, 3]),
                numbers(2, &[2, 16, 3]),
                numbers(3, &[2, 16, 4]),
                numbers(4, &[2, 32]),
                state(5),
                state(6),
                numbers(7, &[2, 12]),
            ]
        };
        let mut all = ins(5, 2);
        all.push(array(&[5i32, 3], &[2]));
        let attrs = [("direction", "bidirectional"), ("use_sequence_length", "True"), ("clip", "0.9")];
        let long = Case::new(&LSTM, &attrs).run(&all).unwrap();
        // The second sequence alone, truncated to its length.
        let second = |a: &NDArray, axis: usize| {
            let dims: Vec<usize> = a.shape().to_usize().to_vec();
            let inner: usize = dims[axis + 1..].iter().product();
            let data = a.to_vec::<f64>().unwrap();
            let rows: Vec<f64> = data.chunks(dims[axis] * inner).flat_map(|c| c[inner..2 * inner].to_vec()).collect();
            let mut dims: Vec<i64> = dims.iter().map(|d| *d as i64).collect();
            dims[axis] = 1;
            array(&rows, &dims)
        };
        let mut one = ins(5, 2);
        one[0] = second(&one[0], 1).slice(0, 3).unwrap();
        (one[4], one[5]) = (second(&one[4], 1), second(&one[5], 1));
        let short = Case::new(&LSTM, &[("direction", "bidirectional"), ("clip", "0.9")]).run(&one).unwrap();
        let y = second(&long[0], 2).to_vec::<f64>().unwrap();
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(near(&y[..24], &short[0].to_vec::<f64>().unwrap()));
        assert!(y[24..].iter().all(|y| *y == 0.0));
        assert!(near(&second(&long[1], 1).to_vec::<f64>().unwrap(), &short[1].to_vec::<f64>().unwrap()));
        assert!(near(&second(&long[2], 1).to_vec::<f64>().unwrap(), &short[2].to_vec::<f64>().unwrap()));
    }

    #[test]
    fn wrong_numbers_of_activations_are_errors() {
        let ins = [
            numbers(1, &[1, 1, 1]),
            numbers(2, &[1, 3, 1]),
            numbers(3, &[1, 3, 1]),
            numbers(4, &[1, 6]),
            numbers(5, &[1, 1, 1]),
        ];
        let e = Case::new(&GRU, &[("activations", "[Relu]")]).run(&ins).unwrap_err();
        assert!(e.to_string().contains("names 1 functions, expected 2"), "{e}");
        assert!(Case::parse(&GRU, &[("activations", "[Relu, Cube]")]).is_err());
    }
}
