//! The sizes of a recurrent network, and the ranges of each layer's weights within the parameters.

use std::ops::Range;

/// Kind of recurrent unit. In the formulas, x is the input, h' and c' are the previous state and cell state, W and R the input and
/// recurrent weights, and b and b' their biases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// h = tanh(W x + b + R h' + b').
    Tanh,
    /// h = max(0, W x + b + R h' + b').
    Relu,
    /// Gates i, f, g, o: c = f c' + i g, h = o tanh(c), with sigmoids and, for g, tanh.
    Lstm,
    /// Gates r, z, n: n = tanh(W x + b + r (R h' + b')), h = (1 - z) n + z h', with sigmoids for r and z.
    Gru,
}

/// Clipping of an LSTM's cell state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clip {
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// True if NaN becomes `min`.
    pub clip_nan: bool,
}

/// A recurrent network and the size of its data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Geometry {
    /// Type of the cell.
    pub cell: Cell,
    /// Number of stacked layers.
    pub layers: usize,
    /// True if each layer also runs backward in time.
    pub bidirectional: bool,
    /// Number of time steps.
    pub steps: usize,
    /// Number of sequences.
    pub batch: usize,
    /// Size of the input per time step and sequence.
    pub input: usize,
    /// Number of units per layer and direction.
    pub hidden: usize,
    /// Size to which an LSTM projects its output.
    pub projection: Option<usize>,
    /// Clipping of the cell state.
    pub clip: Option<Clip>,
    /// Dropout rate between layers.
    pub dropout: f64,
    /// True if sequences have individual lengths.
    pub has_lengths: bool,
}

/// Ranges of the weights of one direction of one layer within the parameters.
pub(super) struct ParameterRanges {
    /// Columns of `wx`.
    pub input: usize,
    /// (gates x hidden, input).
    pub wx: Range<usize>,
    /// (gates x hidden, state).
    pub wh: Range<usize>,
    /// (state, hidden) with a projection, else empty.
    pub wr: Range<usize>,
    /// Input bias.
    pub bx: Range<usize>,
    /// Recurrent bias.
    pub bh: Range<usize>,
}

impl Geometry {
    /// Number of directions, one or two.
    pub fn directions(&self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    /// Size of the state `h` of one direction.
    pub fn state(&self) -> usize {
        self.projection.unwrap_or(self.hidden)
    }

    /// Size of a layer's output per time step and sequence.
    pub fn output(&self) -> usize {
        self.directions() * self.state()
    }

    /// Number of gates x units: the rows of the weight matrices.
    pub(super) fn gates(&self) -> usize {
        let gates = match self.cell {
            Cell::Tanh | Cell::Relu => 1,
            Cell::Lstm => 4,
            Cell::Gru => 3,
        };
        gates * self.hidden
    }

    fn layer_input(&self, layer: usize) -> usize {
        if layer == 0 { self.input } else { self.output() }
    }

    /// Number of weights of one direction of a layer.
    fn weights(&self, layer: usize) -> usize {
        let projection = self.projection.map_or(0, |p| p.saturating_mul(self.hidden));
        self.gates().saturating_mul(self.layer_input(layer) + self.state()).saturating_add(projection)
    }

    /// Number of parameters. Their order is that of cuDNN and MXNet: for each layer and direction the weights of input, state and
    /// projection, then for each layer and direction the biases of input and state.
    pub fn parameters(&self) -> usize {
        let biases = self.layers.saturating_mul(2 * self.gates());
        self.weights_below(self.layers).saturating_add(biases).saturating_mul(self.directions())
    }

    /// Number of weights of one direction of the layers below a layer. Layers above the first are equal.
    fn weights_below(&self, layer: usize) -> usize {
        match layer.checked_sub(1) {
            None => 0,
            Some(upper) => self.weights(1).saturating_mul(upper).saturating_add(self.weights(0)),
        }
    }

    pub(super) fn parameter_ranges(&self, layer: usize, direction: usize) -> ParameterRanges {
        let (gates, input, state) = (self.gates(), self.layer_input(layer), self.state());
        let mut end = self.directions() * self.weights_below(layer) + direction * self.weights(layer);
        let mut take = |len: usize| {
            end += len;
            end - len..end
        };
        let (wx, wh) = (take(gates * input), take(gates * state));
        let wr = take(self.projection.map_or(0, |p| p * self.hidden));
        let bias =
            self.directions() * self.weights_below(self.layers) + (layer * self.directions() + direction) * 2 * gates;
        ParameterRanges { input, wx, wh, wr, bx: bias..bias + gates, bh: bias + gates..bias + 2 * gates }
    }

    /// Elements in the reserve per time step and sequence: the gates, followed for an LSTM by the cell state and, with a
    /// projection, the output before it, or for a GRU by the recurrent term of gate n.
    pub(super) fn width(&self) -> usize {
        match self.cell {
            Cell::Tanh | Cell::Relu => self.hidden,
            Cell::Gru => 4 * self.hidden,
            Cell::Lstm if self.projection.is_some() => 6 * self.hidden,
            Cell::Lstm => 5 * self.hidden,
        }
    }

    /// Number of time steps x sequences.
    pub(super) fn items(&self) -> usize {
        self.steps * self.batch
    }

    /// Elements in the reserve per layer, over all directions, without its output.
    pub(super) fn layer_block(&self) -> usize {
        let states = if self.has_lengths { self.state() } else { 0 };
        self.directions() * self.items() * (self.width() + states)
    }

    /// Elements in the reserve between two layers: the output of the lower one and its dropout mask.
    pub(super) fn between(&self) -> usize {
        self.items() * self.output() * if self.dropout > 0.0 { 2 } else { 1 }
    }

    /// Elements of the reserve, which the forward pass stores for the backward pass.
    pub fn reserve(&self) -> usize {
        let between = self.layers.saturating_sub(1).saturating_mul(self.between());
        self.layers.saturating_mul(self.layer_block()).saturating_add(between)
    }

    /// The range of a direction in a layer's part of the reserve: gates, and states if sequences have lengths.
    pub(super) fn direction_block(&self, direction: usize) -> Range<usize> {
        let len = self.layer_block() / self.directions();
        direction * len..(direction + 1) * len
    }
}
