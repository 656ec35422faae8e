//! Backpropagation through time.

use super::cells;
use super::forward::{Direction, check};
use super::{Cell, Geometry, Inputs, RnnElement, Weights, previous};
use crate::dropout::dropout_apply;
use crate::gemm::{Epilogue, MatMut, MatRef, gemm};
use crate::par::{parallel_rows, parallel_rows2, with_scratch};
use std::ops::Range;

/// Units of a time step per chunk.
const GRAIN: usize = 2048;
/// Columns of the bias per chunk.
const COLUMNS: usize = 256;

/// Gradients of the outputs, and destinations for those of the inputs.
pub struct Gradients<'a, T> {
    /// With respect to the output.
    pub dy: &'a [T],
    /// With respect to the last states.
    pub dh: Option<&'a [T]>,
    /// With respect to the last cell states.
    pub dc: Option<&'a [T]>,
    /// With respect to the input.
    pub x: Option<&'a mut [T]>,
    /// With respect to the parameters.
    pub parameters: Option<&'a mut [T]>,
    /// With respect to the initial states.
    pub h0: Option<&'a mut [T]>,
    /// With respect to the initial cell states.
    pub c0: Option<&'a mut [T]>,
}

/// Computes gradients from the inputs, the output and the reserve of [`forward`](super::forward()).
///
/// # Panics
/// Panics if the lengths of the slices do not match the geometry.
pub fn backward<T: RnnElement>(g: &Geometry, ins: &Inputs<'_, T>, y: &[T], reserve: &[T], grads: Gradients<'_, T>) {
    check(g, ins);
    let size = g.items() * g.output();
    assert_eq!([y.len(), grads.dy.len()], [size; 2], "output of a recurrent network and its gradient");
    assert_eq!(reserve.len(), g.reserve(), "reserve of a recurrent network");
    let Gradients { dy, dh, dc, mut x, mut parameters, mut h0, mut c0 } = grads;
    // The gradient of a layer's output is the gradient of the next layer's input.
    let between = if g.layers > 1 { size } else { 0 };
    with_scratch(2 * between, |scratch: &mut [T]| {
        let (mut above, mut below) = scratch.split_at_mut(between);
        for layer in (0..g.layers).rev() {
            let block = &reserve[layer * (g.layer_block() + g.between())..];
            let top = layer + 1 == g.layers;
            let (y, dy) = if top { (y, dy) } else { (&block[g.layer_block()..][..size], &*above) };
            let pass = LayerPass { layer, stored: &block[..g.layer_block()], y, dy, dh, dc };
            let dx = if layer > 0 { Some(&mut *below) } else { x.as_deref_mut() };
            let out = InputGrads {
                x: dx,
                parameters: parameters.as_deref_mut(),
                h0: h0.as_deref_mut(),
                c0: c0.as_deref_mut(),
            };
            with_input(g, ins, reserve, layer, |x| run_layer(g, ins, x, &pass, out));
            if layer > 0 && g.dropout > 0.0 {
                let mask = &reserve[(layer - 1) * (g.layer_block() + g.between()) + g.layer_block() + size..][..size];
                dropout_apply(below, mask, above);
            } else {
                std::mem::swap(&mut above, &mut below);
            }
        }
    });
}

/// Calls `f` with the input of a layer, as in the forward pass.
fn with_input<T: RnnElement>(g: &Geometry, ins: &Inputs<'_, T>, reserve: &[T], layer: usize, f: impl FnOnce(&[T])) {
    let Some(below) = layer.checked_sub(1) else { return f(ins.x) };
    let size = g.items() * g.output();
    let y = &reserve[below * (g.layer_block() + g.between()) + g.layer_block()..];
    if g.dropout <= 0.0 {
        return f(&y[..size]);
    }
    with_scratch(size, |x: &mut [T]| {
        dropout_apply(&y[..size], &y[size..2 * size], x);
        f(x);
    });
}

/// The results of a layer's forward pass and the gradients of its outputs.
struct LayerPass<'a, T> {
    layer: usize,
    stored: &'a [T],
    y: &'a [T],
    dy: &'a [T],
    dh: Option<&'a [T]>,
    dc: Option<&'a [T]>,
}

/// Destinations of the gradients that a layer computes.
struct InputGrads<'a, T> {
    x: Option<&'a mut [T]>,
    parameters: Option<&'a mut [T]>,
    h0: Option<&'a mut [T]>,
    c0: Option<&'a mut [T]>,
}

fn run_layer<T: RnnElement>(
    g: &Geometry,
    ins: &Inputs<'_, T>,
    x: &[T],
    pass: &LayerPass<'_, T>,
    mut out: InputGrads<'_, T>,
) {
    let cells = if g.cell == Cell::Lstm { g.hidden } else { 0 };
    for direction in 0..g.directions() {
        let row = pass.layer * g.directions() + direction;
        let (h_at, c_at) = (row * g.batch * g.state(), row * g.batch * cells);
        let (h_at, c_at) = (h_at..h_at + g.batch * g.state(), c_at..c_at + g.batch * cells);
        let run = Direction {
            g,
            ranges: g.parameter_ranges(pass.layer, direction),
            parameters: ins.parameters,
            is_reverse: direction == 1,
            h0: &ins.h0[h_at.clone()],
            c0: if cells > 0 { &ins.c0[c_at.clone()] } else { &[] },
            lengths: ins.lengths,
        };
        let offset = direction * g.state();
        let stored = &pass.stored[g.direction_block(direction)];
        let (rows, states) = stored.split_at(g.items() * g.width());
        let states = if g.has_lengths { states } else { &pass.y[offset.min(pass.y.len())..] };
        let back = BackwardPass { run, rows, states, dy: &pass.dy[offset.min(pass.dy.len())..] };
        with_scratch(g.items() * back.width() + g.batch * back.carry(), |memory: &mut [T]| {
            let (dgates, carry) = memory.split_at_mut(g.items() * back.width());
            back.start_carry(carry, pass.dh.map(|dh| &dh[h_at.clone()]), pass.dc.map(|dc| &dc[c_at.clone()]));
            back.steps(dgates, carry, out.parameters.as_deref_mut());
            let (h0, c0) = (out.h0.as_deref_mut(), out.c0.as_deref_mut());
            back.store_carry(carry, h0.map(|h0| &mut h0[h_at.clone()]), c0.map(|c0| &mut c0[c_at.clone()]));
            if let Some(parameters) = &mut out.parameters {
                back.weights(x, dgates, parameters);
            }
            if let Some(dx) = &mut out.x {
                let dgates = MatRef::new(dgates, g.items(), g.gates(), back.width(), 1);
                let beta = if direction == 0 { T::ZERO } else { T::ONE };
                let dx = MatMut::row_major(dx, g.items(), back.run.ranges.input);
                gemm(T::ONE, dgates, back.run.wx(), beta, dx);
            }
        });
    }
}

/// The backward pass of one direction of one layer.
struct BackwardPass<'a, T> {
    run: Direction<'a, T>,
    /// The gates and cell states that the forward pass stored.
    rows: &'a [T],
    /// The states, starting at the first element of this direction.
    states: &'a [T],
    /// The gradient of the output, starting at the first element of this direction.
    dy: &'a [T],
}

impl<T: RnnElement> BackwardPass<'_, T> {
    /// Number of gradients per time step and sequence: those of the gates' pre-activations and, for a GRU, of the recurrent term of
    /// gate n.
    fn width(&self) -> usize {
        self.run.g.gates() + if self.run.g.cell == Cell::Gru { self.run.g.hidden } else { 0 }
    }

    /// Number of gradients carried from time step to time step, per sequence: those of the state and, for an LSTM, of the cell
    /// state and of the output before the projection.
    fn carry(&self) -> usize {
        let cells = match (self.run.g.cell, self.run.g.projection) {
            (Cell::Lstm, None) => 1,
            (Cell::Lstm, Some(_)) => 2,
            _ => 0,
        };
        self.run.g.state() + cells * self.run.g.hidden
    }

    /// Copies the gradients of the last states, and of the cell states of an LSTM, to the carried gradients; the others are zero.
    fn start_carry(&self, carry: &mut [T], dh: Option<&[T]>, dc: Option<&[T]>) {
        let g = self.run.g;
        carry.fill(T::ZERO);
        for (n, row) in carry.chunks_mut(self.carry()).enumerate() {
            let (h, c) = row.split_at_mut(g.state());
            if let Some(dh) = dh {
                h.copy_from_slice(&dh[n * g.state()..][..g.state()]);
            }
            if let Some(dc) = dc.filter(|_| g.cell == Cell::Lstm) {
                c[..g.hidden].copy_from_slice(&dc[n * g.hidden..][..g.hidden]);
            }
        }
    }

    /// Copies the carried gradients to those of the initial states.
    fn store_carry(&self, carry: &[T], mut h0: Option<&mut [T]>, mut c0: Option<&mut [T]>) {
        let g = self.run.g;
        for (n, row) in carry.chunks(self.carry()).enumerate() {
            if let Some(h0) = &mut h0 {
                h0[n * g.state()..][..g.state()].copy_from_slice(&row[..g.state()]);
            }
            if let Some(c0) = c0.as_deref_mut().filter(|_| g.cell == Cell::Lstm) {
                c0[n * g.hidden..][..g.hidden].copy_from_slice(&row[g.state()..][..g.hidden]);
            }
        }
    }

    /// Pairs (column, rows): the gradients starting at `column` are those of the products with these rows of the recurrent weights.
    fn recurrent(&self) -> impl Iterator<Item = (usize, Range<usize>)> + use<T> {
        let (gates, n) = (self.run.g.gates(), self.run.g.hidden);
        let pairs = match self.run.g.cell {
            Cell::Gru => [(0, 0..2 * n), (3 * n, 2 * n..3 * n)],
            _ => [(0, 0..gates), (0, 0..0)],
        };
        pairs.into_iter().filter(|(_, rows)| !rows.is_empty())
    }

    /// Runs the time steps in reverse. Writes gate gradients to `dgates`, initial-state gradients to `carry`, and projection-weight
    /// gradients to `parameters`.
    fn steps(&self, dgates: &mut [T], carry: &mut [T], mut parameters: Option<&mut [T]>) {
        let (run, g) = (&self.run, self.run.g);
        let (step_len, state) = (g.batch * self.width(), g.state());
        let recurrent: Vec<(usize, usize, Weights<'_, T>)> = (self.recurrent())
            .map(|(col, rows)| {
                let weights = run.wh().block(rows.start, 0, rows.len(), state);
                (col, rows.len(), Weights::new(weights, g.steps))
            })
            .collect();
        let wr = run.wr().map(|wr| Weights::new(wr, g.steps));
        if let (Some(parameters), true) = (parameters.as_deref_mut(), wr.is_some()) {
            parameters[run.ranges.wr.clone()].fill(T::ZERO);
        }
        for t in run.order().rev() {
            let now = &mut dgates[t * step_len..(t + 1) * step_len];
            if let Some(wr) = &wr {
                self.project(t, wr, carry, parameters.as_deref_mut());
            }
            self.gates(t, now, carry);
            for (col, rows, weights) in &recurrent {
                let grads = MatRef::new(&now[(*col).min(step_len)..], g.batch, *rows, self.width(), 1);
                let dh = MatMut::new(carry, g.batch, state, self.carry());
                weights.product(grads, T::ONE, dh, &Epilogue::default());
            }
        }
    }

    /// True if sequence `n` has ended at time step `t`.
    fn has_ended(&self, t: usize, n: usize) -> bool {
        self.run.lengths.is_some_and(|lengths| t >= lengths[n])
    }

    /// Propagates the gradient of the projected output to the output before the projection.
    fn project(&self, t: usize, wr: &Weights<'_, T>, carry: &mut [T], parameters: Option<&mut [T]>) {
        let (run, g) = (&self.run, self.run.g);
        let size = g.state();
        with_scratch(g.batch * size, |total: &mut [T]| {
            for (n, (total, row)) in total.chunks_mut(size).zip(carry.chunks_mut(self.carry())).enumerate() {
                if self.has_ended(t, n) {
                    total.fill(T::ZERO);
                    continue;
                }
                total.copy_from_slice(&row[..size]);
                cells::add_rows(&self.dy[(t * g.batch + n) * g.output()..][..size], size, total);
                row[..size].fill(T::ZERO);
            }
            let total = MatRef::row_major(total, g.batch, size);
            let unprojected = MatMut::new(&mut carry[size + g.hidden..], g.batch, g.hidden, self.carry());
            wr.product(total, T::ZERO, unprojected, &Epilogue::default());
            if let Some(parameters) = parameters {
                let h = &self.rows[t * g.batch * g.width() + 5 * g.hidden..];
                let dwr = MatMut::row_major(&mut parameters[run.ranges.wr.clone()], size, g.hidden);
                gemm(T::ONE, total.t(), MatRef::new(h, g.batch, g.hidden, g.width(), 1), T::ONE, dwr);
            }
        });
    }

    /// Computes the gradients of the gates of one time step. Sequences that have ended have gradient zero and keep their carry.
    fn gates(&self, t: usize, dgates: &mut [T], carry: &mut [T]) {
        let (run, g) = (&self.run, self.run.g);
        let grain = GRAIN.div_ceil(g.hidden.max(1));
        let (step_len, state) = (g.batch * g.width(), g.state());
        let before = previous(self.rows, step_len, t, run.is_reverse, g.steps);
        let (h_prev, stride) = self.state_before(t);
        parallel_rows2((dgates, self.width()), (carry, self.carry()), grain, |n, dgates, carry| {
            if self.has_ended(t, n) {
                return dgates.fill(T::ZERO);
            }
            let row = &self.rows[t * step_len + n * g.width()..][..g.width()];
            if g.projection.is_some() {
                let (dc, dh) = carry[state..].split_at_mut(g.hidden);
                let row = &row[..5 * g.hidden];
                return cells::lstm_backward(row, run.cell_before(before, n), dgates, dh, dc, g.clip);
            }
            let (dh, dc) = carry.split_at_mut(state);
            cells::add_rows(&self.dy[(t * g.batch + n) * g.output()..][..state], state, dh);
            match g.cell {
                Cell::Lstm => cells::lstm_backward(row, run.cell_before(before, n), dgates, dh, dc, g.clip),
                Cell::Gru => cells::gru_backward(row, &h_prev[n * stride..][..state], dgates, dh),
                Cell::Tanh | Cell::Relu => cells::vanilla_backward(g.cell == Cell::Relu, row, dgates, dh),
            }
        });
    }

    /// The states before time step `t`, and the stride between neighboring sequences.
    fn state_before(&self, t: usize) -> (&[T], usize) {
        let (run, g) = (&self.run, self.run.g);
        match previous(self.states, g.batch * run.stride(), t, run.is_reverse, g.steps) {
            Some(h) => (h, run.stride()),
            None => (run.h0, g.state()),
        }
    }

    /// Computes the gradients of the input and recurrent weights and of the biases.
    fn weights(&self, x: &[T], dgates: &[T], out: &mut [T]) {
        let (run, g) = (&self.run, self.run.g);
        let (items, width, gates, state) = (g.items(), self.width(), g.gates(), g.state());
        let all = MatRef::new(dgates, items, width, width, 1);
        let dwx = MatMut::row_major(&mut out[run.ranges.wx.clone()], gates, run.ranges.input);
        let x = MatRef::row_major(x, items, run.ranges.input);
        gemm(T::ONE, all.block(0, 0, items, gates).t(), x, T::ZERO, dwx);
        // The previous states of all computed time steps but the first one are contiguous in `states`.
        let rest = items.saturating_sub(g.batch);
        let (first, later, earlier) = if run.is_reverse { (rest, 0, g.batch) } else { (0, g.batch, 0) };
        for (col, rows) in self.recurrent() {
            let start = run.ranges.wh.start + rows.start * state;
            let dwh = &mut out[start..start + rows.len() * state];
            if g.steps == 0 {
                dwh.fill(T::ZERO);
                continue;
            }
            let h0 = MatRef::row_major(run.h0, g.batch, state);
            let grads = all.block(first, col, g.batch, rows.len());
            gemm(T::ONE, grads.t(), h0, T::ZERO, MatMut::row_major(dwh, rows.len(), state));
            if rest > 0 {
                let h = MatRef::new(&self.states[earlier * run.stride()..], rest, state, run.stride(), 1);
                let grads = all.block(later, col, rest, rows.len());
                gemm(T::ONE, grads.t(), h, T::ONE, MatMut::row_major(dwh, rows.len(), state));
            }
        }
        sum_rows(dgates, width, &mut out[run.ranges.bx.clone()]);
        let bh = run.ranges.bh.start;
        for (col, rows) in self.recurrent() {
            sum_rows(&dgates[col.min(dgates.len())..], width, &mut out[bh + rows.start..bh + rows.end]);
        }
    }
}

/// Sums the first columns of a matrix with row stride `stride` over its rows.
fn sum_rows<T: RnnElement>(rows: &[T], stride: usize, sums: &mut [T]) {
    parallel_rows(sums, COLUMNS, 1, |i, sums| {
        sums.fill(T::ZERO);
        cells::add_rows(&rows[(i * COLUMNS).min(rows.len())..], stride, sums);
    });
}
