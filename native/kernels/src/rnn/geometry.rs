//! Sizes, and where the weights of a layer lie among all parameters.

use std::ops::Range;

/// Kind of recurrent unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// h = tanh(W x + b + R h' + c).
    Tanh,
    /// h = max(0, W x + b + R h' + c).
    Relu,
    /// Gates i, f, g, o: c = f c' + i g, h = o tanh(c), with sigmoids and, for g, tanh.
    Lstm,
    /// Gates r, z, n: n = tanh(W x + b + r (R h' + c)), h = (1 - z) n + z h'.
    Gru,
}

/// Limits of the cell state of an LSTM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clip {
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// Whether a state that is no number becomes `min`.
    pub nan: bool,
}

/// A network and the size of its data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Geometry {
    /// Kind of unit.
    pub cell: Cell,
    /// Layers on top of each other.
    pub layers: usize,
    /// Whether each layer also runs from the last step to the first.
    pub bidirectional: bool,
    /// Steps of the sequences.
    pub steps: usize,
    /// Sequences.
    pub batch: usize,
    /// Numbers that enter per step and sequence.
    pub input: usize,
    /// Units per layer and direction.
    pub hidden: usize,
    /// Size to which an LSTM projects its output.
    pub projection: Option<usize>,
    /// Limits of the cell state.
    pub clip: Option<Clip>,
    /// Share of the outputs of each layer but the last that is dropped.
    pub dropout: f64,
    /// Whether sequences have lengths of their own.
    pub lengths: bool,
}

/// Places of the weights of one direction of one layer among the parameters.
pub(super) struct Places {
    /// Columns of `wx`.
    pub input: usize,
    /// (gates x hidden, input).
    pub wx: Range<usize>,
    /// (gates x hidden, state).
    pub wh: Range<usize>,
    /// (state, hidden) with a projection, else empty.
    pub wr: Range<usize>,
    /// Bias of the input's part.
    pub bx: Range<usize>,
    /// Bias of the state's part.
    pub bh: Range<usize>,
}

impl Geometry {
    /// One or two.
    pub fn directions(&self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    /// Numbers that make the state `h` of one direction.
    pub fn state(&self) -> usize {
        self.projection.unwrap_or(self.hidden)
    }

    /// Numbers that leave a layer per step and sequence.
    pub fn output(&self) -> usize {
        self.directions() * self.state()
    }

    /// Gates times units: the rows of a matrix of weights.
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

    /// Weights of one direction of a layer.
    fn weights(&self, layer: usize) -> usize {
        let projection = self.projection.map_or(0, |p| p * self.hidden);
        self.gates() * (self.layer_input(layer) + self.state()) + projection
    }

    /// Number of parameters: for each layer and direction the weights of input, state and projection, then for each layer and
    /// direction the biases of input and state, the order of cuDNN and MXNet.
    pub fn parameters(&self) -> usize {
        let weights: usize = (0..self.layers).map(|l| self.weights(l)).sum();
        self.directions() * (weights + self.layers * 2 * self.gates())
    }

    pub(super) fn places(&self, layer: usize, direction: usize) -> Places {
        let (gates, input, state) = (self.gates(), self.layer_input(layer), self.state());
        let before: usize = (0..layer).map(|l| self.weights(l)).sum();
        let mut at = self.directions() * before + direction * self.weights(layer);
        let mut take = |len: usize| {
            at += len;
            at - len..at
        };
        let (wx, wh) = (take(gates * input), take(gates * state));
        let wr = take(self.projection.map_or(0, |p| p * self.hidden));
        let weights: usize = (0..self.layers).map(|l| self.weights(l)).sum();
        let bias = self.directions() * weights + (layer * self.directions() + direction) * 2 * gates;
        Places { input, wx, wh, wr, bx: bias..bias + gates, bh: bias + gates..bias + 2 * gates }
    }

    /// Rows of one step and sequence in the reserve: the gates, then the cell state (LSTM) and the unprojected output, or the state's
    /// part of the gate n (GRU).
    pub(super) fn width(&self) -> usize {
        match self.cell {
            Cell::Tanh | Cell::Relu => self.hidden,
            Cell::Gru => 4 * self.hidden,
            Cell::Lstm if self.projection.is_some() => 6 * self.hidden,
            Cell::Lstm => 5 * self.hidden,
        }
    }

    /// Sequences times steps.
    pub(super) fn items(&self) -> usize {
        self.steps * self.batch
    }

    /// Elements that a layer keeps for its gradient, all directions together, without its output.
    pub(super) fn layer_block(&self) -> usize {
        let states = if self.lengths { self.state() } else { 0 };
        self.directions() * self.items() * (self.width() + states)
    }

    /// Elements of the output of a layer below another one, with the mask of its dropout.
    pub(super) fn between(&self) -> usize {
        self.items() * self.output() * if self.dropout > 0.0 { 2 } else { 1 }
    }

    /// Elements that the forward pass keeps for the gradient.
    pub fn reserve(&self) -> usize {
        self.layers * self.layer_block() + self.layers.saturating_sub(1) * self.between()
    }

    /// The part of a layer's block that belongs to a direction: gates, and states where sequences have lengths.
    pub(super) fn direction_block(&self, direction: usize) -> Range<usize> {
        let len = self.layer_block() / self.directions();
        direction * len..(direction + 1) * len
    }
}
