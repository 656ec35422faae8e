//! The forward pass.

use super::geometry::ParameterRanges;
use super::{Cell, Geometry, RnnElement, Weights, cells, with_previous};
use crate::dropout::{dropout_apply, dropout_mask};
use crate::gemm::{Bias, Epilogue, MatMut, MatRef, gemm_fused};
use crate::par::{parallel_rows2, with_scratch};
use crate::rng::Philox;

/// Units of a time step per chunk.
const GRAIN: usize = 2048;

/// The inputs of [`forward`].
#[derive(Clone, Copy)]
pub struct Inputs<'a, T> {
    /// (steps, batch, input).
    pub x: &'a [T],
    /// All weights and biases, see [`Geometry::parameters`].
    pub parameters: &'a [T],
    /// Initial states, (layers x directions, batch, state).
    pub h0: &'a [T],
    /// Initial cell states of an LSTM, (layers x directions, batch, hidden).
    pub c0: &'a [T],
    /// Length of each sequence, if [`Geometry::has_lengths`].
    pub lengths: Option<&'a [usize]>,
}

/// The outputs of [`forward`].
pub struct Outputs<'a, T> {
    /// (steps, batch, output); zero past the end of a sequence.
    pub y: &'a mut [T],
    /// Last states, of the shape of `h0`.
    pub h: Option<&'a mut [T]>,
    /// Last cell states, of the shape of `c0`.
    pub c: Option<&'a mut [T]>,
    /// The data that [`backward`](super::backward()) needs, of [`Geometry::reserve`] elements.
    pub reserve: Option<&'a mut [T]>,
}

/// Runs the network. `random` generates the dropout masks; without it nothing is dropped.
///
/// # Panics
/// Panics if the lengths of the slices do not match the geometry.
pub fn forward<T: RnnElement>(g: &Geometry, ins: &Inputs<'_, T>, outs: Outputs<'_, T>, random: Option<&Philox>) {
    let Outputs { y, h, c, reserve } = outs;
    check(g, ins);
    assert_eq!(y.len(), g.items() * g.output(), "output of a recurrent network");
    let mut pass = ForwardPass { g, ins, last_h: h, last_c: c, random };
    match reserve {
        Some(memory) => {
            assert_eq!(memory.len(), g.reserve(), "reserve of a recurrent network");
            pass.run(memory, Blocks::PerLayer, y);
        }
        None => {
            let layer_len = g.layer_block() + if g.layers > 1 { g.between() } else { 0 };
            with_scratch(layer_len * g.layers.min(2), |memory| pass.run(memory, Blocks::Alternating, y));
        }
    }
}

pub(super) fn check<T>(g: &Geometry, ins: &Inputs<'_, T>) {
    let stacked = g.layers * g.directions() * g.batch;
    assert_eq!(ins.x.len(), g.items() * g.input, "input of a recurrent network");
    assert_eq!(ins.parameters.len(), g.parameters(), "parameters of a recurrent network");
    assert_eq!(ins.h0.len(), stacked * g.state(), "first states of a recurrent network");
    assert!(g.cell != Cell::Lstm || ins.c0.len() == stacked * g.hidden, "first cell states of a recurrent network");
    assert_eq!(ins.lengths.map_or(g.batch, <[usize]>::len), g.batch, "lengths of the sequences of a recurrent network");
    assert_eq!(ins.lengths.is_some(), g.has_lengths, "lengths of the sequences of a recurrent network");
}

/// How the layers divide the memory of a forward pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocks {
    /// Each layer has a block, which the backward pass reads.
    PerLayer,
    /// The layers use two blocks alternately.
    Alternating,
}

/// A forward pass: its inputs and the destinations of the last states.
struct ForwardPass<'a, T> {
    g: &'a Geometry,
    ins: &'a Inputs<'a, T>,
    last_h: Option<&'a mut [T]>,
    last_c: Option<&'a mut [T]>,
    random: Option<&'a Philox>,
}

impl<T: RnnElement> ForwardPass<'_, T> {
    /// Runs layer after layer in `memory`.
    fn run(&mut self, memory: &mut [T], blocks: Blocks, y: &mut [T]) {
        let g = self.g;
        let has_next = |layer: usize| match blocks {
            Blocks::PerLayer => layer + 1 < g.layers,
            Blocks::Alternating => g.layers > 1,
        };
        let size = |layer: usize| g.layer_block() + if has_next(layer) { g.between() } else { 0 };
        let (mut current, mut rest) = memory.split_at_mut(size(0));
        let mut below: &mut [T] = &mut [];
        for layer in 0..g.layers {
            if layer > 0 {
                let next = if blocks == Blocks::Alternating && layer >= 2 {
                    std::mem::take(&mut below)
                } else {
                    let (next, tail) = std::mem::take(&mut rest).split_at_mut(size(layer));
                    rest = tail;
                    next
                };
                below = std::mem::replace(&mut current, next);
            }
            let (reserve, out) = current.split_at_mut(g.layer_block());
            let top = layer + 1 == g.layers;
            let out: &mut [T] = if top { &mut *y } else { &mut out[..g.items() * g.output()] };
            match layer {
                0 => self.run_layer(layer, self.ins.x, reserve, out),
                _ => with_dropped(g, &mut below[g.layer_block()..], self.random, |x| {
                    self.run_layer(layer, x, reserve, out)
                }),
            }
        }
    }

    fn run_layer(&mut self, layer: usize, x: &[T], reserve: &mut [T], y: &mut [T]) {
        let (g, ins) = (self.g, self.ins);
        for direction in 0..g.directions() {
            let row = layer * g.directions() + direction;
            let (states, cells) = (g.batch * g.state(), g.batch * g.hidden);
            let run = Direction {
                g,
                ranges: g.parameter_ranges(layer, direction),
                parameters: ins.parameters,
                is_reverse: direction == 1,
                h0: &ins.h0[row * states..(row + 1) * states],
                c0: if g.cell == Cell::Lstm { &ins.c0[row * cells..(row + 1) * cells] } else { &[] },
                lengths: ins.lengths,
            };
            let reserve = &mut reserve[g.direction_block(direction)];
            // The output may be empty.
            let y = &mut y[(direction * g.state()).min(g.items() * g.output())..];
            run.forward(x, reserve, y);
            if let Some(h) = &mut self.last_h {
                run.last_state(reserve, y, &mut h[row * states..(row + 1) * states]);
            }
            if let Some(c) = &mut self.last_c {
                run.last_cell(reserve, &mut c[row * cells..(row + 1) * cells]);
            }
        }
    }
}

/// Calls `f` with the input of a layer: the output of the layer below times a new dropout mask. `below` is that output, followed by
/// room for the mask.
fn with_dropped<T: RnnElement>(g: &Geometry, below: &mut [T], random: Option<&Philox>, f: impl FnOnce(&[T])) {
    if g.dropout <= 0.0 {
        return f(below);
    }
    let (y, mask) = below.split_at_mut(g.items() * g.output());
    let Some(random) = random else {
        mask.fill(T::ONE);
        return f(y);
    };
    dropout_mask(random, g.dropout, mask);
    with_scratch(y.len(), |x: &mut [T]| {
        dropout_apply(y, mask, x);
        f(x);
    });
}

/// One direction of one layer.
pub(super) struct Direction<'a, T> {
    pub g: &'a Geometry,
    pub ranges: ParameterRanges,
    pub parameters: &'a [T],
    pub is_reverse: bool,
    pub h0: &'a [T],
    pub c0: &'a [T],
    pub lengths: Option<&'a [usize]>,
}

impl<T: RnnElement> Direction<'_, T> {
    /// The weights of the input, (gates, input).
    pub(super) fn wx(&self) -> MatRef<'_, T> {
        MatRef::row_major(&self.parameters[self.ranges.wx.clone()], self.g.gates(), self.ranges.input)
    }

    /// The recurrent weights, (gates, state).
    pub(super) fn wh(&self) -> MatRef<'_, T> {
        MatRef::row_major(&self.parameters[self.ranges.wh.clone()], self.g.gates(), self.g.state())
    }

    /// The weights of the projection, (state, hidden), if there is one.
    pub(super) fn wr(&self) -> Option<MatRef<'_, T>> {
        let size = self.g.projection?;
        Some(MatRef::row_major(&self.parameters[self.ranges.wr.clone()], size, self.g.hidden))
    }

    /// The time steps in the order in which they are computed.
    pub(super) fn order(&self) -> impl DoubleEndedIterator<Item = usize> + use<T> {
        let (steps, reverse) = (self.g.steps, self.is_reverse);
        (0..steps).map(move |s| if reverse { steps - 1 - s } else { s })
    }

    /// The indices of the sequences that have ended at time step `t`.
    pub(super) fn ended(&self, t: usize) -> impl Iterator<Item = usize> {
        self.lengths.into_iter().flatten().enumerate().filter(move |(_, len)| t >= **len).map(|(n, _)| n)
    }

    /// The stride between the states of neighboring sequences: that of the output, or of a separate buffer if sequences have
    /// lengths.
    pub(super) fn stride(&self) -> usize {
        if self.g.has_lengths { self.g.state() } else { self.g.output() }
    }

    /// Runs all time steps. `y` starts at the first element of this direction.
    fn forward(&self, x: &[T], reserve: &mut [T], y: &mut [T]) {
        let g = self.g;
        let (rows, states) = reserve.split_at_mut(g.items() * g.width());
        let (gates, width) = (g.gates(), g.width());
        let (bx, bh) = (&self.parameters[self.ranges.bx.clone()], &self.parameters[self.ranges.bh.clone()]);
        with_scratch(gates, |bias: &mut [T]| {
            // The GRU's gate n treats the biases of input and state separately.
            let has_separate_biases = g.cell == Cell::Gru;
            bias.iter_mut()
                .zip(bx.iter().zip(bh))
                .for_each(|(b, (x, h))| *b = if has_separate_biases { *x } else { *x + *h });
            let x = MatRef::row_major(x, g.items(), self.ranges.input);
            let epilogue = Epilogue { bias: Bias::PerCol(bias), ..Epilogue::default() };
            let sums = MatMut::new(rows, g.items(), gates, width);
            gemm_fused(T::ONE, x, self.wx().t(), T::ZERO, sums, &epilogue);
        });
        if !g.has_lengths {
            return self.steps(rows, y);
        }
        self.steps(rows, states);
        for t in 0..g.steps {
            for n in 0..g.batch {
                let item = t * g.batch + n;
                y[item * g.output()..][..g.state()].copy_from_slice(&states[item * g.state()..][..g.state()]);
            }
            self.ended(t).for_each(|n| y[(t * g.batch + n) * g.output()..][..g.state()].fill(T::ZERO));
        }
    }

    /// Runs the time steps. `rows`, (steps, batch, width), starts with the input terms of the gates; `states` gets the states of
    /// all time steps and sequences, with a stride of [`Direction::stride`].
    fn steps(&self, rows: &mut [T], states: &mut [T]) {
        let g = self.g;
        let (step_len, stride) = (g.batch * g.width(), self.stride());
        let wh = Weights::new(self.wh().t(), g.steps);
        let wr = self.wr().map(|wr| Weights::new(wr.t(), g.steps));
        // The last sequence of a time step has no padding after its state.
        let extent = (g.batch * stride).saturating_sub(stride - g.state());
        let sums = if g.cell == Cell::Gru { g.batch * g.gates() } else { 0 };
        with_scratch(sums, |sums: &mut [T]| {
            for t in self.order() {
                let (before, now) = with_previous(rows, step_len, t, self.is_reverse);
                let now = &mut now[..step_len];
                let (h_before, h) = with_previous(states, g.batch * stride, t, self.is_reverse);
                let h = &mut h[..extent];
                let (h_prev, h_stride) = h_before.map_or((self.h0, g.state()), |h| (h, stride));
                let product = MatRef::new(h_prev, g.batch, g.state(), h_stride, 1);
                match g.cell {
                    Cell::Gru => {
                        let bias = Bias::PerCol(&self.parameters[self.ranges.bh.clone()]);
                        let c = MatMut::row_major(sums, g.batch, g.gates());
                        wh.product(product, T::ZERO, c, &Epilogue { bias, ..Epilogue::default() });
                    }
                    _ => {
                        let c = MatMut::new(now, g.batch, g.gates(), g.width());
                        wh.product(product, T::ONE, c, &Epilogue::default());
                    }
                }
                self.gates(now, before, sums, (h_prev, h_stride), h);
                if let Some(wr) = &wr {
                    let hidden = MatRef::new(&now[5 * g.hidden..], g.batch, g.hidden, g.width(), 1);
                    wr.product(hidden, T::ZERO, MatMut::new(h, g.batch, g.state(), stride), &Epilogue::default());
                }
                self.copy_ended(t, now, before, (h_prev, h_stride), h);
            }
        });
    }

    /// The previous cell state of sequence `n`, from the rows of the previous time step.
    pub(super) fn cell_before<'s>(&'s self, before: Option<&'s [T]>, n: usize) -> &'s [T] {
        let (width, hidden) = (self.g.width(), self.g.hidden);
        match before {
            Some(rows) => &rows[n * width + 4 * hidden..][..hidden],
            None => &self.c0[n * hidden..][..hidden],
        }
    }

    /// Computes the gates and states of one time step.
    fn gates(&self, now: &mut [T], before: Option<&[T]>, sums: &[T], (h_prev, h_stride): (&[T], usize), h: &mut [T]) {
        let g = self.g;
        let grain = GRAIN.div_ceil(g.hidden.max(1));
        parallel_rows2((now, g.width()), (h, self.stride()), grain, |n, row, out| match g.cell {
            Cell::Tanh | Cell::Relu => cells::vanilla_forward(g.cell == Cell::Relu, row, out),
            Cell::Gru => {
                let sums = &sums[n * g.gates()..][..g.gates()];
                cells::gru_forward(row, sums, &h_prev[n * h_stride..][..g.hidden], out);
            }
            Cell::Lstm if g.projection.is_some() => {
                let (row, out) = row.split_at_mut(5 * g.hidden);
                cells::lstm_forward(row, self.cell_before(before, n), out, g.clip);
            }
            Cell::Lstm => cells::lstm_forward(row, self.cell_before(before, n), out, g.clip),
        });
    }

    /// Keeps the states of the sequences that have ended.
    fn copy_ended(
        &self,
        t: usize,
        now: &mut [T],
        before: Option<&[T]>,
        (h_prev, h_stride): (&[T], usize),
        h: &mut [T],
    ) {
        let g = self.g;
        for n in self.ended(t) {
            h[n * self.stride()..][..g.state()].copy_from_slice(&h_prev[n * h_stride..][..g.state()]);
            if g.cell == Cell::Lstm {
                let c = &mut now[n * g.width() + 4 * g.hidden..][..g.hidden];
                c.copy_from_slice(self.cell_before(before, n));
            }
        }
    }

    /// Copies the state after the last computed time step to `out`.
    fn last_state(&self, reserve: &[T], y: &[T], out: &mut [T]) {
        let g = self.g;
        let states = if g.has_lengths { &reserve[g.items() * g.width()..] } else { y };
        for (n, out) in out.chunks_mut(g.state().max(1)).enumerate() {
            let from = match self.order().next_back() {
                Some(t) => &states[(t * g.batch + n) * self.stride()..],
                None => &self.h0[n * g.state()..],
            };
            out.copy_from_slice(&from[..g.state()]);
        }
    }

    /// Copies the cell state after the last computed time step to `out`.
    fn last_cell(&self, rows: &[T], out: &mut [T]) {
        let g = self.g;
        let step_len = g.batch * g.width();
        let last = self.order().next_back().map(|t| &rows[t * step_len..]);
        for (n, out) in out.chunks_mut(g.hidden.max(1)).enumerate() {
            out.copy_from_slice(self.cell_before(last, n));
        }
    }
}
