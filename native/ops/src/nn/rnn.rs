//! `RNN`: several layers of recurrent units over whole sequences.

use ferromx_core::dtype::{DType, Element};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, param_enum, params};
use ferromx_kernels::par::with_scratch;
use ferromx_kernels::rng::Philox;
use ferromx_kernels::rnn::{self, Cell, Clip, Geometry, Gradients, Inputs, Outputs};

use crate::rules::no_gradient;

param_enum! {
    /// Kind of recurrent unit.
    pub enum Mode { Gru = "gru", Lstm = "lstm", Relu = "rnn_relu", Tanh = "rnn_tanh" }
}

params! {
    /// Parameters of `RNN`.
    pub struct RnnParam {
        /// Number of units per layer and direction.
        state_size: u32 = required, where 1..=u32::MAX;
        /// Number of layers.
        num_layers: u32 = required, where 1..=u32::MAX;
        /// Whether each layer also runs from the last step to the first; the outputs of both directions are concatenated.
        bidirectional: bool = false;
        /// Kind of unit.
        mode: Mode = required;
        /// The dropout probability in training between layers.
        p: f32 = 0.0, where 0.0..=1.0;
        /// Whether the last states are also outputs.
        state_outputs: bool = false;
        /// Size to which an LSTM projects its output; none by default.
        projection_size: Option<i32> = None;
        /// The smallest value of an LSTM's cell state; goes with lstm_state_clip_max.
        lstm_state_clip_min: Option<f64> = None;
        /// The largest value of an LSTM's cell state; goes with lstm_state_clip_min.
        lstm_state_clip_max: Option<f64> = None;
        /// Whether a cell state that is NaN is clipped to the smallest value.
        lstm_state_clip_nan: bool = false;
        /// Whether the last input holds the lengths of the sequences.
        use_sequence_length: bool = false;
    }
}

impl RnnParam {
    fn is_lstm(&self) -> bool {
        self.mode == Mode::Lstm
    }

    /// The geometry of the network for data of shape (steps, batch, input).
    fn geometry(&self, steps: usize, batch: usize, input: usize) -> Result<Geometry> {
        let projection = match self.projection_size {
            None => None,
            Some(_) if !self.is_lstm() => {
                return Err(Error::value("projection_size is for mode='lstm' only: leave it out"));
            }
            Some(size) => Some(usize::try_from(size).ok().filter(|p| *p > 0).ok_or_else(|| {
                Error::Value(format!("projection_size is {size}: it must be at least 1, or left out"))
            })?),
        };
        let clip = match (self.lstm_state_clip_min, self.lstm_state_clip_max) {
            (Some(min), Some(max)) if self.is_lstm() => {
                ensure!(min <= max, "lstm_state_clip_min is {min}, above lstm_state_clip_max, which is {max}");
                Some(Clip { min, max, clip_nan: self.lstm_state_clip_nan })
            }
            (None, None) => None,
            (Some(_), Some(_)) => {
                return Err(Error::value("lstm_state_clip_* are for mode='lstm' only: leave them out"));
            }
            _ => {
                return Err(Error::value(
                    "lstm_state_clip_min and lstm_state_clip_max must be given together: give both or neither",
                ));
            }
        };
        Ok(Geometry {
            cell: match self.mode {
                Mode::Gru => Cell::Gru,
                Mode::Lstm => Cell::Lstm,
                Mode::Relu => Cell::Relu,
                Mode::Tanh => Cell::Tanh,
            },
            layers: self.num_layers as usize,
            bidirectional: self.bidirectional,
            steps,
            batch,
            input,
            hidden: self.state_size as usize,
            projection,
            clip,
            dropout: if self.num_layers > 1 { self.p.into() } else { 0.0 },
            has_lengths: self.use_sequence_length,
        })
    }

    fn input_names(&self) -> Vec<&'static str> {
        let mut names = vec!["data", "parameters", "state"];
        if self.is_lstm() {
            names.push("state_cell");
        }
        if self.use_sequence_length {
            names.push("sequence_length");
        }
        names
    }

    /// The number of visible outputs; `reserve` follows them.
    pub(crate) fn num_visible(&self) -> usize {
        match (self.state_outputs, self.is_lstm()) {
            (false, _) => 1,
            (true, false) => 2,
            (true, true) => 3,
        }
    }
}

pub(crate) static RNN: Operator<RnnParam> = Operator::new("RNN").names_outputs()
    .aliases(&["_npx_rnn"])
    .doc(
        "Runs layers of recurrent units over sequences.\n\n\
         rnn_tanh and rnn_relu: h = f(W x + b + R h' + c), with the state h' of the step before. lstm: i, f, o = sigmoid(...), \
         g = tanh(...) of such sums, c = f c' + i g, h = o tanh(c), and with projection_size h = P (o tanh(c)). gru: r, z = \
         sigmoid(...), n = tanh(W x + b + r (R h' + c)), h = (1 - z) n + z h'.\n\n\
         Shapes, with D = 1 or, if bidirectional, 2 directions, L layers and S = projection_size or state_size: data (steps, \
         batch, input), state (L D, batch, S), state_cell (L D, batch, state_size), sequence_length (batch,), output (steps, \
         batch, D S); with state_outputs, the final states follow, with the shapes of the initial states. With \
         use_sequence_length, past the end of a sequence its output is zero and its states keep their values, and the backward \
         direction starts at its last step.\n\n\
         The vector `parameters` holds, for each layer and direction, W of (gates state_size, input of the layer), R of (gates \
         state_size, S) and P of (S, state_size), row by row, and after all of these, for each layer and direction, the biases b \
         and c. Gates are in the order i, f, g, o and r, z, n. See Hochreiter and Schmidhuber (1997), Cho et al. (2014), Sak et \
         al. (2014).",
    )
    .inputs(&[
        arg("data", "The sequences, of shape (steps, batch, input)."),
        arg("parameters", "All weights and biases, concatenated."),
        arg("state", "The initial states, of shape (layers x directions, batch, state)."),
        arg("state_cell", "The initial cell states; with mode='lstm' only."),
        arg("sequence_length", "The length of each sequence; with use_sequence_length=True only."),
    ])
    .num_inputs_by(|p| p.get::<RnnParam>().input_names().len())
    .input_names_by(|p| p.get::<RnnParam>().input_names().into_iter().map(String::from).collect())
    .outputs(|p| p.get::<RnnParam>().num_visible() + 1)
    .visible(|p| p.get::<RnnParam>().num_visible())
    .output_names_by(|p| {
        let visible = ["output", "state_output", "statecell_output"].into_iter().take(p.get::<RnnParam>().num_visible());
        visible.chain(["reserve"]).map(String::from).collect()
    })
    .shape(infer_shape)
    .dtype(infer_dtype)
    .forward(forward)
    .grad(Grad::Kernel(Backward::new(backward).inputs(Deps::All).outputs(Deps::All), None))
    .random();

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<RnnParam>();
    io.expect_inputs(&p.input_names())?;
    io.assign_in(0, &Shape::of_rank(3))?;
    io.assign_in(2, &Shape::of_rank(3))?;
    io.assign_out(0, &Shape::of_rank(3))?;
    let known = Shape::new(&[io.outs[0].dim(0), io.outs[0].dim(1), -1]);
    io.assign_in(0, &known)?;
    let batch = io.ins[2].dim(1);
    io.assign_in(0, &Shape::new(&[-1, batch, -1]))?;
    let [steps, batch, input] = [0, 1, 2].map(|i| io.ins[0].dim(i));
    let size = |n: i64| usize::try_from(n).unwrap_or(0);
    let g = p.geometry(size(steps), size(batch), size(input))?;
    let stacked = (g.layers * g.directions()) as i64;
    io.assign_out(0, &Shape::new(&[steps, batch, g.output() as i64]))?;
    if input >= 0 {
        let parameters = i64::try_from(g.parameters()).unwrap_or(i64::MAX);
        io.assign_in(1, &Shape::new(&[parameters]))?;
    } else {
        io.assign_in(1, &Shape::of_rank(1))?;
    }
    let state = Shape::new(&[stacked, batch, g.state() as i64]);
    io.assign_in(2, &state)?;
    let cell = Shape::new(&[stacked, batch, g.hidden as i64]);
    if p.is_lstm() {
        io.assign_in(3, &cell)?;
    }
    if p.use_sequence_length {
        io.assign_in(io.ins.len() - 1, &Shape::new(&[batch]))?;
    }
    let visible = p.num_visible();
    for (k, shape) in [state, cell].iter().enumerate().take(visible - 1) {
        io.assign_out(k + 1, shape)?;
    }
    let reserve = if steps >= 0 && batch >= 0 { i64::try_from(g.reserve()).unwrap_or(i64::MAX) } else { -1 };
    io.assign_out(visible, &Shape::new(&[reserve]))
}

/// All operands have one type; only that of the lengths may differ.
fn infer_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let p = p.get::<RnnParam>();
    let lengths = if p.use_sequence_length { io.ins.len() - 1 } else { io.ins.len() };
    let known = io.ins[..lengths].iter().chain(io.outs.iter()).flatten().next().copied();
    let Some(dtype) = known else { return Ok(()) };
    (0..lengths).try_for_each(|i| io.assign_in(i, dtype))?;
    if p.use_sequence_length && io.ins[lengths].is_none() {
        io.assign_in(lengths, dtype)?;
    }
    (0..io.outs.len()).try_for_each(|k| io.assign_out(k, dtype))
}

const TYPES: &[DType] = &[DType::F32, DType::F64];

/// Reads the lengths of the sequences and checks them.
fn lengths(input: Option<&In<'_>>, steps: usize) -> Result<Option<Vec<usize>>> {
    let Some(input) = input else { return Ok(None) };
    let values: Vec<f64> = dispatch!(input.dtype(), T in [f32, f64, half::f16, half::bf16, u8, i8, i32, i64] => {
        Ok(input.slice::<T>()?.iter().map(|x| x.to_f64()).collect())
    }, d => Err(Error::Value(format!("sequence_length has type {d}: use a numeric type"))))?;
    let check = |(n, x): (usize, f64)| {
        ensure!(
            x >= 0.0 && x <= steps as f64 && x.fract() == 0.0,
            "sequence_length[{n}] is {x}: it must be an integer from 0 to the number of steps, {steps}"
        );
        Ok(x as usize)
    };
    values.into_iter().enumerate().map(check).collect::<Result<Vec<_>>>().map(Some)
}

fn geometry(p: &RnnParam, data: &Shape) -> Result<Geometry> {
    let dims = data.to_usize();
    p.geometry(dims[0], dims[1], dims[2])
}

/// The inputs of the kernels, with the elements `x` of the data.
fn kernel_inputs<'a, T: Element>(
    p: &RnnParam,
    x: &'a [T],
    ins: &[In<'a>],
    lengths: Option<&'a [usize]>,
) -> Result<Inputs<'a, T>> {
    let c0: &[T] = if p.is_lstm() { ins[3].slice()? } else { &[] };
    Ok(Inputs { x, parameters: ins[1].slice()?, h0: ins[2].slice()?, c0, lengths })
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    dispatch!(ins[0].dtype(), T in [f32, f64] => forward_from::<T>(ctx, ins[0].slice()?, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

/// The elements of an output; `None` if it is absent or not wanted.
fn wanted_slice<'o, T: Element>(out: Option<&'o mut Out<'_>>) -> Result<Option<&'o mut [T]>> {
    out.filter(|o| o.wanted()).map(|o| o.slice_mut::<T>()).transpose()
}

/// Runs the network on the data `x`, which replaces the elements of the first input: only the shape of that is used.
pub(crate) fn forward_from<T: rnn::RnnElement + Element>(
    ctx: &OpCtx<'_>,
    x: &[T],
    ins: &[In<'_>],
    outs: &mut [Out<'_>],
) -> Result<()> {
    let p = ctx.params::<RnnParam>();
    let mut g = geometry(p, ins[0].shape())?;
    let sequence = if p.use_sequence_length { ins.last() } else { None };
    let lengths = lengths(sequence, g.steps)?;
    let ins = kernel_inputs::<T>(p, x, ins, lengths.as_deref())?;
    let [y, states @ .., reserve] = outs else { return Err(Error::Internal("RNN has no outputs".into())) };
    let random = (ctx.is_train && g.dropout > 0.0).then(|| {
        let key = ctx.random.next_key();
        Philox::new(key.seed, key.stream)
    });
    if random.is_none() && !reserve.wanted() {
        g.dropout = 0.0;
    }
    let mut states = states.iter_mut();
    let (h, c) = (wanted_slice::<T>(states.next())?, wanted_slice::<T>(states.next())?);
    let reserve = wanted_slice::<T>(Some(reserve))?;
    let discarded_len = if y.wanted() { 0 } else { y.len() };
    with_scratch(discarded_len, |discarded: &mut [T]| {
        let y = if y.wanted() { y.slice_mut::<T>()? } else { discarded };
        rnn::forward(&g, &ins, Outputs { y, h, c, reserve }, random.as_ref());
        Ok(())
    })
}

/// Inputs: gradients of the visible outputs, the inputs, all outputs. Outputs: gradients of the inputs.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    dispatch!(ins[0].dtype(), T in [f32, f64] => backward_as::<T>(ctx, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn backward_as<T: rnn::RnnElement + Element>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<RnnParam>();
    let (ograds, ins) = ins.split_at(p.num_visible());
    let (ins, results) = ins.split_at(p.input_names().len());
    let g = geometry(p, ins[0].shape())?;
    let sequence = if p.use_sequence_length { ins.last() } else { None };
    let lengths = lengths(sequence, g.steps)?;
    let inputs = kernel_inputs::<T>(p, ins[0].slice()?, ins, lengths.as_deref())?;
    let (dh, dc) = (ograds.get(1).map(In::slice::<T>).transpose()?, ograds.get(2).map(In::slice::<T>).transpose()?);
    let (outs, lengths_grad) = outs.split_at_mut(if p.is_lstm() { 4 } else { 3 });
    lengths_grad.iter_mut().try_for_each(no_gradient)?;
    let mut outs = outs.iter_mut();
    let gradients = Gradients {
        dy: ograds[0].slice()?,
        dh,
        dc,
        x: wanted_slice(outs.next())?,
        parameters: wanted_slice(outs.next())?,
        h0: wanted_slice(outs.next())?,
        c0: wanted_slice(outs.next())?,
    };
    rnn::backward(&g, &inputs, results[0].slice()?, results[p.num_visible()].slice()?, gradients);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close};

    fn numbers(n: usize, seed: usize) -> Vec<f64> {
        (0..n).map(|i| ((i * 37 + seed * 11 + i * i % 13) % 29) as f64 / 20.0 - 0.7).collect()
    }

    /// Inputs for 3 steps, 2 sequences and 2 features.
    fn inputs_of(case: &[(&str, &str)], lengths: Option<&[f64]>) -> Vec<ferromx_core::ndarray::NDArray> {
        let p = RNN.parse(&case.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()).unwrap();
        let p = p.get::<RnnParam>();
        let g = p.geometry(3, 2, 2).unwrap();
        let stacked = g.layers * g.directions();
        let (h, c) = ([stacked as i64, 2, g.state() as i64], [stacked as i64, 2, g.hidden as i64]);
        let mut ins = vec![
            array(&numbers(12, 1), &[3, 2, 2]),
            array(&numbers(g.parameters(), 2), &[g.parameters() as i64]),
            array(&numbers(stacked * 2 * g.state(), 3), &h),
        ];
        if p.is_lstm() {
            ins.push(array(&numbers(stacked * 2 * g.hidden, 4), &c));
        }
        ins.extend(lengths.map(|l| array(&l.iter().map(|x| *x as f32).collect::<Vec<_>>(), &[2])));
        ins
    }

    #[test]
    fn gradients_of_every_mode_agree_with_finite_differences() {
        for mode in ["lstm", "gru", "rnn_tanh", "rnn_relu"] {
            for bidirectional in ["True", "False"] {
                for layers in ["1", "3"] {
                    let attrs = [
                        ("mode", mode),
                        ("state_size", "3"),
                        ("num_layers", layers),
                        ("bidirectional", bidirectional),
                        ("state_outputs", "True"),
                    ];
                    Case::new(&RNN, &attrs).check_gradient(&inputs_of(&attrs, None));
                    let attrs = [&attrs[..], &[("use_sequence_length", "True")]].concat();
                    Case::new(&RNN, &attrs).check_gradient(&inputs_of(&attrs, Some(&[2.0, 3.0])));
                }
            }
        }
    }

    #[test]
    fn gradients_with_projection_and_clipping_agree_with_finite_differences() {
        let attrs = [
            ("mode", "lstm"),
            ("state_size", "3"),
            ("num_layers", "2"),
            ("bidirectional", "True"),
            ("state_outputs", "True"),
            ("projection_size", "2"),
            ("lstm_state_clip_min", "-0.4"),
            ("lstm_state_clip_max", "0.3"),
        ];
        Case::new(&RNN, &attrs).check_gradient(&inputs_of(&attrs, None));
        let attrs = [&attrs[..], &[("use_sequence_length", "True")]].concat();
        Case::new(&RNN, &attrs).check_gradient(&inputs_of(&attrs, Some(&[1.0, 3.0])));
    }

    #[test]
    fn a_sequence_length_is_equivalent_to_a_shorter_sequence() {
        let attrs =
            [("mode", "gru"), ("state_size", "2"), ("num_layers", "2"), ("bidirectional", "1"), ("state_outputs", "1")];
        let with = [&attrs[..], &[("use_sequence_length", "True")]].concat();
        let ins = inputs_of(&with, Some(&[2.0, 2.0]));
        let masked = Case::new(&RNN, &with).run(&ins).unwrap();
        let mut short = ins[..3].to_vec();
        short[0] = ins[0].slice(0, 2).unwrap().to_context(ins[0].context()).unwrap();
        let short = Case::new(&RNN, &attrs).run(&short).unwrap();
        let values = |a: &ferromx_core::ndarray::NDArray| a.to_vec::<f64>().unwrap();
        close(&values(&masked[0])[..16], &values(&short[0]), 1e-12);
        assert_eq!(values(&masked[0])[16..], [0.0; 8]);
        close(&values(&masked[1]), &values(&short[1]), 1e-12);
    }

    #[test]
    fn the_gradient_uses_the_dropout_mask_of_the_forward_pass() {
        let attrs = [("mode", "rnn_relu"), ("state_size", "3"), ("num_layers", "2"), ("p", "0.5")];
        let ins = inputs_of(&attrs, None);
        Case::new(&RNN, &attrs).train().check_gradient(&ins);
        let training = Case::new(&RNN, &attrs).train().run1(&ins).unwrap();
        let inference = Case::new(&RNN, &attrs).run1(&ins).unwrap();
        assert_ne!(training.to_vec::<f64>().unwrap(), inference.to_vec::<f64>().unwrap());
    }

    #[test]
    fn incompatible_parameters_are_errors() {
        let error = |attrs: &[(&str, &str)]| {
            let attrs = [&[("state_size", "3"), ("num_layers", "1")], attrs].concat();
            let ins = vec![Shape::new(&[3, 2, 2]); if attrs.iter().any(|a| a.1 == "lstm") { 4 } else { 3 }];
            Case::new(&RNN, &attrs).shapes(&ins).unwrap_err().to_string()
        };
        assert!(error(&[("mode", "gru"), ("projection_size", "2")]).contains("mode='lstm' only"));
        assert!(error(&[("mode", "lstm"), ("lstm_state_clip_min", "0")]).contains("must be given together"));
        assert!(error(&[("mode", "lstm"), ("projection_size", "0")]).contains("at least 1"));
    }
}
