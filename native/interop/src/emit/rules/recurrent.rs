//! Rules for recurrent networks. ONNX has separate tensors for input weights, recurrent weights and biases; `RNN` has one vector, with the
//! gates in another order.

use ferromx_core::dtype::DType;

use super::export_nodes::emit_onnx;
use super::{needs_shapes, rules};
use crate::emit::{OnnxOp, Scope, TensorId, framework_node, op};
use crate::error::{Error, Result};
use crate::ir::Value;

rules! {
    /// The parameter vector of RNN from the weights of ONNX, with the gates in this order: the input and state weights of each direction,
    /// then their biases.
    fn recurrent_params(s, w: TensorId, r: TensorId, b: Option<TensorId>, order: Vec<i64>) -> TensorId {
        let gates = order.len() as i64;
        let shape = s.info(w).shape.clone();
        if !shape.is_known() || shape.dims().len() != 3 || shape.dim(1) % gates != 0 {
            return Err(Error::value(format!("weights of shape {shape} do not have {gates} gates")));
        }
        let (directions, hidden, inputs) = (shape.dim(0), shape.dim(1) / gates, shape.dim(2));
        let order = s.integers("gates", &order)?;
        // The weights of one direction as a vector, with the gates in MXNet's order. `tensor` has shape
        // (directions, groups * gates * hidden, width); biases have two groups, weights one.
        let gate_weights = |s: &mut Scope<'_, '_>, tensor: TensorId, direction: i64, groups: i64, width: i64| {
            let slice = s.emit(op!(SLICE_AXIS(tensor), axis: 0, begin: direction, end: direction + 1))?;
            let by_gate = s.emit(op!(NPX_RESHAPE(slice), newshape: vec![groups, gates, hidden, width]))?;
            let reordered = s.emit(op!(TAKE(by_gate, order), axis: 1))?;
            s.emit(op!(NPX_RESHAPE(reordered), newshape: vec![-1]))
        };
        let mut parts = Vec::new();
        for direction in 0..directions {
            parts.push(gate_weights(s, w, direction, 1, inputs)?);
            parts.push(gate_weights(s, r, direction, 1, hidden)?);
        }
        for direction in 0..directions {
            // The biases of the input come first, then those of the state.
            parts.push(match b {
                None => {
                    let dtype = s.info(w).dtype.unwrap_or(DType::F32);
                    s.emit(op!(FULL(), shape: vec![2 * gates * hidden], value: 0.0, dtype: dtype))?
                }
                Some(biases) => gate_weights(s, biases, direction, 2, 1)?,
            });
        }
        s.emit(op!(CONCAT(parts), dim: 0))
    }

    /// For export: the layers of RNN as operators of the framework, with the outputs of RNN. The parameters are one tensor or the tensors
    /// concatenated to it; states are the initial states, and the initial cells of an LSTM.
    fn recurrent_nodes(
        s, data: TensorId, parameters: Value, states: &[Value], mode: &str, layers: i64, bidirectional: bool, hidden: i64,
    ) -> Vec<Value> {
        let inputs = s.info(data).shape.dim(2);
        if inputs < 0 || !(1..=256).contains(&layers) {
            return Err(needs_shapes("the size of the input is unknown"));
        }
        let order = gate_order(mode)?;
        let directions = if bidirectional { 2 } else { 1 };
        let vector = match parameters {
            Value::TensorId(id) => TensorId(id),
            list => s.emit(op!(CONCAT(list), dim: 0))?,
        };
        if s.info(vector).value.is_none() {
            return Err(Error::unsupported("the parameters of RNN must be given to export it"));
        }
        let weights = weights(s, vector, order, Sizes { layers, directions, hidden, inputs })?;
        let states: Vec<&Value> = states.iter().filter(|v| **v != Value::None).collect();
        let mut data = Value::from(data);
        let mut final_states: Vec<Vec<Value>> = vec![Vec::new(); states.len()];
        for (layer, [w, r, b]) in weights.into_iter().enumerate() {
            let mut ins = vec![data, w.into(), r.into(), b.into(), Value::None];
            for state in &states {
                ins.push(slice_states(s, state, layer as i64 * directions, directions, layers * directions)?);
            }
            let outs = framework_node(s, onnx_layer(mode, hidden, bidirectional), ins, 1 + states.len())?;
            for (final_states, out) in final_states.iter_mut().zip(&outs[1..]) {
                final_states.push(out.clone());
            }
            // (steps, directions, batch, hidden) becomes (steps, batch, directions * hidden).
            let transpose = OnnxOp::Transpose { perm: Value::from(vec![0, 2, 1, 3]) };
            let transposed = emit_onnx(s, transpose, vec![outs[0].clone()])?;
            let shape = s.integers("shape", &[0, 0, directions * hidden])?;
            data = emit_onnx(s, OnnxOp::Reshape {}, vec![transposed, shape.into()])?;
        }
        let mut results = vec![data];
        for states in final_states {
            let concat = OnnxOp::Concat { axis: Value::Int(0) };
            results.push(if layers == 1 { states[0].clone() } else { emit_onnx(s, concat, states)? });
        }
        Ok(results)
    }
}

/// For each gate of ONNX's operator for a mode, its index among MXNet's gates.
fn gate_order(mode: &str) -> Result<&'static [i64]> {
    match mode {
        "lstm" => Ok(&[0, 3, 1, 2]),
        "gru" => Ok(&[1, 0, 2]),
        "rnn_tanh" | "rnn_relu" => Ok(&[0]),
        other => Err(Error::unsupported(format!("the mode {other} is not supported"))),
    }
}

/// ONNX's operator for a layer. [`gate_order`] has checked the mode.
fn onnx_layer(mode: &str, hidden: i64, bidirectional: bool) -> OnnxOp {
    let hidden_size = Value::Int(hidden);
    let direction = if bidirectional { "bidirectional".into() } else { Value::None };
    match mode {
        "lstm" => OnnxOp::LSTM { hidden_size, direction },
        "gru" => OnnxOp::GRU { hidden_size, direction, linear_before_reset: Value::Int(1) },
        _ => {
            let num_directions = if bidirectional { 2 } else { 1 };
            let relu = Value::List(vec!["Relu".into(); num_directions]);
            OnnxOp::RNN { hidden_size, direction, activations: if mode == "rnn_relu" { relu } else { Value::None } }
        }
    }
}

/// Reads the parameter vector of RNN tensor by tensor.
struct WeightReader<'s, 'a, 't> {
    scope: &'s mut Scope<'a, 't>,
    vector: TensorId,
    offset: i64,
}

impl WeightReader<'_, '_, '_> {
    /// The next weights as a tensor of shape (1, gates * hidden, width), with the gates in the framework's order.
    fn next(&mut self, order: &[i64], hidden: i64, width: i64) -> Result<TensorId> {
        let gates = order.len() as i64;
        let end = self.offset + gates * hidden * width;
        let s = &mut *self.scope;
        let slice = s.emit(op!(SLICE_AXIS(self.vector), axis: 0, begin: self.offset, end: end))?;
        self.offset = end;
        let by_gate = s.emit(op!(NPX_RESHAPE(slice), newshape: vec![1, gates, hidden, width]))?;
        let order = s.integers("gates", order)?;
        let reordered = s.emit(op!(TAKE(by_gate, order), axis: 1))?;
        s.emit(op!(NPX_RESHAPE(reordered), newshape: vec![1, gates * hidden, width]))
    }

    fn concat(&mut self, tensors: Vec<TensorId>, axis: i64) -> Result<TensorId> {
        self.scope.emit(op!(CONCAT(tensors), dim: axis))
    }
}

/// The numbers of layers and directions of an RNN, and the sizes of its hidden state and input.
struct Sizes {
    layers: i64,
    directions: i64,
    hidden: i64,
    inputs: i64,
}

/// ONNX's tensors W, R and B of each layer, from the parameter vector of RNN, which has the biases after all weights.
fn weights(s: &mut Scope<'_, '_>, vector: TensorId, order: &[i64], sizes: Sizes) -> Result<Vec<[TensorId; 3]>> {
    let Sizes { layers, directions, hidden, inputs } = sizes;
    let mut reader = WeightReader { scope: s, vector, offset: 0 };
    let mut matrices = Vec::new();
    for layer in 0..layers {
        let width = if layer == 0 { inputs } else { directions * hidden };
        let (mut w, mut r) = (Vec::new(), Vec::new());
        for _ in 0..directions {
            w.push(reader.next(order, hidden, width)?);
            r.push(reader.next(order, hidden, hidden)?);
        }
        matrices.push([reader.concat(w, 0)?, reader.concat(r, 0)?]);
    }
    let mut layer_weights = Vec::new();
    for [w, r] in matrices {
        let mut biases = Vec::new();
        for _ in 0..directions {
            let (x, h) = (reader.next(order, hidden, 1)?, reader.next(order, hidden, 1)?);
            biases.push(reader.concat(vec![x, h], 1)?);
        }
        let all = reader.concat(biases, 0)?;
        let b = reader.scope.emit(op!(NPX_RESHAPE(all), newshape: vec![directions, -1]))?;
        layer_weights.push([w, r, b]);
    }
    Ok(layer_weights)
}

/// Rows `begin..begin + n` of the `num_rows` states of all layers and directions.
fn slice_states(s: &mut Scope<'_, '_>, states: &Value, begin: i64, n: i64, num_rows: i64) -> Result<Value> {
    if n == num_rows {
        return Ok(states.clone());
    }
    let (begin, end) = (s.integers("begin", &[begin])?, s.integers("end", &[begin + n])?);
    let axis = s.integers("axis", &[0])?;
    emit_onnx(s, OnnxOp::Slice {}, vec![states.clone(), begin.into(), end.into(), axis.into()])
}
