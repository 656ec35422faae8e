//! Backpropagation through time.

use super::cells;
use super::forward::{Direction, check};
use super::{Cell, Element, Geometry, Inputs, Weights, previous};
use crate::dropout::dropout_apply;
use crate::gemm::{Epilogue, MatMut, MatRef, gemm};
use crate::par::{parallel_rows, parallel_rows2, with_scratch};
use std::ops::Range;

/// Units of one step that make a chunk of parallel work.
const CHUNK: usize = 2048;
/// Columns of the bias that make a chunk of parallel work.
const COLUMNS: usize = 256;

/// Gradients: those that come, and places for those that are made.
pub struct Gradients<'a, T> {
    /// Of the output.
    pub dy: &'a [T],
    /// Of the last states.
    pub dh: Option<&'a [T]>,
    /// Of the last cell states.
    pub dc: Option<&'a [T]>,
    /// Of the input.
    pub x: Option<&'a mut [T]>,
    /// Of the parameters.
    pub parameters: Option<&'a mut [T]>,
    /// Of the first states.
    pub h0: Option<&'a mut [T]>,
    /// Of the first cell states.
    pub c0: Option<&'a mut [T]>,
}

/// Gradients from the inputs, the output and the reserve of [`forward`](super::forward()).
///
/// # Panics
/// When the lengths of the slices do not fit the geometry.
pub fn backward<T: Element>(g: &Geometry, ins: &Inputs<'_, T>, y: &[T], reserve: &[T], grads: Gradients<'_, T>) {
    check(g, ins);
    let size = g.items() * g.output();
    assert_eq!([y.len(), grads.dy.len()], [size; 2], "output of a recurrent network and its gradient");
    assert_eq!(reserve.len(), g.reserve(), "reserve of a recurrent network");
    let Gradients { dy, dh, dc, mut x, mut parameters, mut h0, mut c0 } = grads;
    // The gradient of a layer's output is that of the input of the layer above.
    let between = if g.layers > 1 { size } else { 0 };
    with_scratch(2 * between, |scratch: &mut [T]| {
        let (mut above, mut below) = scratch.split_at_mut(between);
        for layer in (0..g.layers).rev() {
            let block = &reserve[layer * (g.layer_block() + g.between())..];
            let top = layer + 1 == g.layers;
            let (y, dy) = if top { (y, dy) } else { (&block[g.layer_block()..][..size], &*above) };
            let place = Place { layer, kept: &block[..g.layer_block()], y, dy, dh, dc };
            let dx = if layer > 0 { Some(&mut *below) } else { x.as_deref_mut() };
            let out =
                Results { x: dx, parameters: parameters.as_deref_mut(), h0: h0.as_deref_mut(), c0: c0.as_deref_mut() };
            with_input(g, ins, reserve, layer, |x| run_layer(g, ins, x, &place, out));
            if layer > 0 && g.dropout > 0.0 {
                let mask = &reserve[(layer - 1) * (g.layer_block() + g.between()) + g.layer_block() + size..][..size];
                dropout_apply(below, mask, above);
            } else {
                std::mem::swap(&mut above, &mut below);
            }
        }
    });
}

/// Calls `f` with the input of a layer as it was in the forward pass.
fn with_input<T: Element>(g: &Geometry, ins: &Inputs<'_, T>, reserve: &[T], layer: usize, f: impl FnOnce(&[T])) {
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

/// A layer: what its forward pass left, and the gradients that reach it.
struct Place<'a, T> {
    layer: usize,
    kept: &'a [T],
    y: &'a [T],
    dy: &'a [T],
    dh: Option<&'a [T]>,
    dc: Option<&'a [T]>,
}

/// Gradients that a layer makes.
struct Results<'a, T> {
    x: Option<&'a mut [T]>,
    parameters: Option<&'a mut [T]>,
    h0: Option<&'a mut [T]>,
    c0: Option<&'a mut [T]>,
}

fn run_layer<T: Element>(g: &Geometry, ins: &Inputs<'_, T>, x: &[T], place: &Place<'_, T>, mut out: Results<'_, T>) {
    let cells = if g.cell == Cell::Lstm { g.hidden } else { 0 };
    for direction in 0..g.directions() {
        let row = place.layer * g.directions() + direction;
        let (h_at, c_at) = (row * g.batch * g.state(), row * g.batch * cells);
        let (h_at, c_at) = (h_at..h_at + g.batch * g.state(), c_at..c_at + g.batch * cells);
        let run = Direction {
            g,
            places: g.places(place.layer, direction),
            parameters: ins.parameters,
            reverse: direction == 1,
            h0: &ins.h0[h_at.clone()],
            c0: if cells > 0 { &ins.c0[c_at.clone()] } else { &[] },
            lengths: ins.lengths,
        };
        let offset = direction * g.state();
        let kept = &place.kept[g.direction_block(direction)];
        let (rows, states) = kept.split_at(g.items() * g.width());
        let states = if g.lengths { states } else { &place.y[offset.min(place.y.len())..] };
        let back = Back { run, rows, states, dy: &place.dy[offset.min(place.dy.len())..] };
        with_scratch(g.items() * back.width() + g.batch * back.carry(), |memory: &mut [T]| {
            let (dgates, carry) = memory.split_at_mut(g.items() * back.width());
            carry.fill(T::ZERO);
            for (n, row) in carry.chunks_mut(back.carry()).enumerate() {
                let (dh, dc) = row.split_at_mut(g.state());
                if let Some(from) = place.dh {
                    dh.copy_from_slice(&from[h_at.start + n * g.state()..][..g.state()]);
                }
                if let Some(from) = place.dc.filter(|_| cells > 0) {
                    dc[..cells].copy_from_slice(&from[c_at.start + n * cells..][..cells]);
                }
            }
            back.steps(dgates, carry, out.parameters.as_deref_mut());
            for (n, row) in carry.chunks(back.carry()).enumerate() {
                if let Some(h0) = &mut out.h0 {
                    h0[h_at.start + n * g.state()..][..g.state()].copy_from_slice(&row[..g.state()]);
                }
                if let Some(c0) = out.c0.as_deref_mut().filter(|_| cells > 0) {
                    c0[c_at.start + n * cells..][..cells].copy_from_slice(&row[g.state()..][..cells]);
                }
            }
            if let Some(parameters) = &mut out.parameters {
                back.weights(x, dgates, parameters);
            }
            if let Some(dx) = &mut out.x {
                let dgates = MatRef::new(dgates, g.items(), g.gates(), back.width(), 1);
                let beta = if direction == 0 { T::ZERO } else { T::ONE };
                let dx = MatMut::row_major(dx, g.items(), back.run.places.input);
                gemm(T::ONE, dgates, back.run.wx(), beta, dx);
            }
        });
    }
}

/// One direction of one layer.
struct Back<'a, T> {
    run: Direction<'a, T>,
    /// What the forward pass left of gates and cell states.
    rows: &'a [T],
    /// The states, from the first element of this direction on.
    states: &'a [T],
    /// The gradient of the output, from the first element of this direction on.
    dy: &'a [T],
}

impl<T: Element> Back<'_, T> {
    /// Gradients per step and sequence: of the sums of the gates and, for a GRU, of the state's part of the gate n.
    fn width(&self) -> usize {
        self.run.g.gates() + if self.run.g.cell == Cell::Gru { self.run.g.hidden } else { 0 }
    }

    /// Gradients that go from step to step, per sequence: of the state, of an LSTM's cell state, and of its output before the
    /// projection.
    fn carry(&self) -> usize {
        let cells = match (self.run.g.cell, self.run.g.projection) {
            (Cell::Lstm, None) => 1,
            (Cell::Lstm, Some(_)) => 2,
            _ => 0,
        };
        self.run.g.state() + cells * self.run.g.hidden
    }

    /// Columns of the gradients of the gates that belong to rows of the recurrent weights.
    fn recurrent(&self) -> impl Iterator<Item = (usize, Range<usize>)> + use<T> {
        let (gates, n) = (self.run.g.gates(), self.run.g.hidden);
        let parts = match self.run.g.cell {
            Cell::Gru => [(0, 0..2 * n), (3 * n, 2 * n..3 * n)],
            _ => [(0, 0..gates), (0, 0..0)],
        };
        parts.into_iter().filter(|(_, rows)| !rows.is_empty())
    }

    /// Goes back step by step; leaves the gradients of the gates, and of the first states in `carry`. The gradients of the
    /// projection's weights go to `parameters`.
    fn steps(&self, dgates: &mut [T], carry: &mut [T], mut parameters: Option<&mut [T]>) {
        let (run, g) = (&self.run, self.run.g);
        let (wide, state) = (g.batch * self.width(), g.state());
        let recurrent: Vec<(usize, usize, Weights<'_, T>)> = (self.recurrent())
            .map(|(col, rows)| {
                let weights = run.wh().block(rows.start, 0, rows.len(), state);
                (col, rows.len(), Weights::new(weights, g.steps))
            })
            .collect();
        let wr = run.wr().map(|wr| Weights::new(wr, g.steps));
        if let (Some(parameters), true) = (parameters.as_deref_mut(), wr.is_some()) {
            parameters[run.places.wr.clone()].fill(T::ZERO);
        }
        for t in run.order().rev() {
            let now = &mut dgates[t * wide..(t + 1) * wide];
            if let Some(wr) = &wr {
                self.project(t, wr, carry, parameters.as_deref_mut());
            }
            self.gates(t, now, carry);
            for (col, rows, weights) in &recurrent {
                let part = MatRef::new(&now[(*col).min(wide)..], g.batch, *rows, self.width(), 1);
                let dh = MatMut::new(carry, g.batch, state, self.carry());
                weights.product(part, T::ONE, dh, &Epilogue::default());
            }
        }
    }

    /// Whether sequence `n` is over at step `t`.
    fn over(&self, t: usize, n: usize) -> bool {
        self.run.lengths.is_some_and(|lengths| t >= lengths[n])
    }

    /// Takes the gradient of the projected output back to the output before the projection.
    fn project(&self, t: usize, wr: &Weights<'_, T>, carry: &mut [T], parameters: Option<&mut [T]>) {
        let (run, g) = (&self.run, self.run.g);
        let size = g.state();
        with_scratch(g.batch * size, |total: &mut [T]| {
            for (n, (total, row)) in total.chunks_mut(size).zip(carry.chunks_mut(self.carry())).enumerate() {
                if self.over(t, n) {
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
                let dwr = MatMut::row_major(&mut parameters[run.places.wr.clone()], size, g.hidden);
                gemm(T::ONE, total.t(), MatRef::new(h, g.batch, g.hidden, g.width(), 1), T::ONE, dwr);
            }
        });
    }

    /// Gradients of the gates of one step: zero for sequences that are over, which keep what they carry.
    fn gates(&self, t: usize, dgates: &mut [T], carry: &mut [T]) {
        let (run, g) = (&self.run, self.run.g);
        let grain = CHUNK.div_ceil(g.hidden.max(1));
        let (wide, state) = (g.batch * g.width(), g.state());
        let before = previous(self.rows, wide, t, run.reverse, g.steps);
        let (h_prev, stride) = self.state_before(t);
        parallel_rows2((dgates, self.width()), (carry, self.carry()), grain, |n, dgates, carry| {
            if self.over(t, n) {
                return dgates.fill(T::ZERO);
            }
            let row = &self.rows[t * wide + n * g.width()..][..g.width()];
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
                Cell::Tanh | Cell::Relu => cells::plain_backward(g.cell == Cell::Relu, row, dgates, dh),
            }
        });
    }

    /// The state before step `t`, and the distance of neighbouring sequences.
    fn state_before(&self, t: usize) -> (&[T], usize) {
        let (run, g) = (&self.run, self.run.g);
        match previous(self.states, g.batch * run.stride(), t, run.reverse, g.steps) {
            Some(h) => (h, run.stride()),
            None => (run.h0, g.state()),
        }
    }

    /// Gradients of the weights of input and state and of the biases.
    fn weights(&self, x: &[T], dgates: &[T], out: &mut [T]) {
        let (run, g) = (&self.run, self.run.g);
        let (items, width, gates, state) = (g.items(), self.width(), g.gates(), g.state());
        let all = MatRef::new(dgates, items, width, width, 1);
        let dwx = MatMut::row_major(&mut out[run.places.wx.clone()], gates, run.places.input);
        let x = MatRef::row_major(x, items, run.places.input);
        gemm(T::ONE, all.block(0, 0, items, gates).t(), x, T::ZERO, dwx);
        // All steps but the first computed one follow a step whose states lie among the others.
        let rest = items.saturating_sub(g.batch);
        let (first, later, earlier) = if run.reverse { (rest, 0, g.batch) } else { (0, g.batch, 0) };
        for (col, rows) in self.recurrent() {
            let at = run.places.wh.start + rows.start * state;
            let dwh = &mut out[at..at + rows.len() * state];
            if g.steps == 0 {
                dwh.fill(T::ZERO);
                continue;
            }
            let h0 = MatRef::row_major(run.h0, g.batch, state);
            let part = all.block(first, col, g.batch, rows.len());
            gemm(T::ONE, part.t(), h0, T::ZERO, MatMut::row_major(dwh, rows.len(), state));
            if rest > 0 {
                let h = MatRef::new(&self.states[earlier * run.stride()..], rest, state, run.stride(), 1);
                let part = all.block(later, col, rest, rows.len());
                gemm(T::ONE, part.t(), h, T::ONE, MatMut::row_major(dwh, rows.len(), state));
            }
        }
        sum_rows(dgates, width, &mut out[run.places.bx.clone()]);
        let bh = run.places.bh.start;
        for (col, rows) in self.recurrent() {
            sum_rows(&dgates[col.min(dgates.len())..], width, &mut out[bh + rows.start..bh + rows.end]);
        }
    }
}

/// Sums of the first columns of rows that are `stride` elements apart.
fn sum_rows<T: Element>(rows: &[T], stride: usize, sums: &mut [T]) {
    parallel_rows(sums, COLUMNS, 1, |i, sums| {
        sums.fill(T::ZERO);
        cells::add_rows(&rows[(i * COLUMNS).min(rows.len())..], stride, sums);
    });
}
