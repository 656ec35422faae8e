//! A recurrent layer with configurable activations, peepholes, clipping, and the reset gate before or after the product, as ONNX
//! defines them. Forward only.
//!
//! As in [`super::forward()`], the inputs of all time steps are multiplied with the input weights in one matrix product.

use super::{RnnElement, Weights};
use crate::gemm::{Bias, Epilogue, MatMut, MatRef, gemm_fused};
use crate::par;

/// Elements of the gates per chunk.
const GRAIN: usize = 1 << 12;

/// An activation function with up to two parameters, alpha and beta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// max(x, 0).
    Relu,
    /// tanh(x).
    Tanh,
    /// 1 / (1 + exp(-x)).
    Sigmoid,
    /// alpha x + beta.
    Affine,
    /// x, or alpha x below 0.
    LeakyRelu,
    /// x if x >= alpha, else 0.
    ThresholdedRelu,
    /// alpha tanh(beta x).
    ScaledTanh,
    /// alpha x + beta, clamped to 0..=1.
    HardSigmoid,
    /// x, or alpha (exp(x) - 1) below 0.
    Elu,
    /// x / (1 + |x|).
    Softsign,
    /// log(1 + exp(x)).
    Softplus,
}

/// An activation function with its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Activation<T> {
    /// The function.
    pub function: Function,
    /// The first parameter, alpha.
    pub alpha: T,
    /// The second parameter, beta.
    pub beta: T,
}

impl<T: RnnElement> Activation<T> {
    #[inline]
    fn of(&self, x: T) -> T {
        let (zero, one) = (T::of(0.0), T::of(1.0));
        match self.function {
            Function::Relu => {
                if x > zero {
                    x
                } else {
                    zero
                }
            }
            Function::Tanh => x.tanh_(),
            Function::Sigmoid => x.sigmoid_(),
            Function::Affine => self.alpha * x + self.beta,
            Function::LeakyRelu => {
                if x < zero {
                    self.alpha * x
                } else {
                    x
                }
            }
            Function::ThresholdedRelu => {
                if x >= self.alpha {
                    x
                } else {
                    zero
                }
            }
            Function::ScaledTanh => self.alpha * (self.beta * x).tanh_(),
            Function::HardSigmoid => {
                let y = self.alpha * x + self.beta;
                if y < zero {
                    zero
                } else if y > one {
                    one
                } else {
                    y
                }
            }
            Function::Elu => {
                if x < zero {
                    self.alpha * x.expm1_()
                } else {
                    x
                }
            }
            Function::Softsign => x / (one + crate::math::MathFloat::abs(x)),
            Function::Softplus => x.softrelu_(),
        }
    }
}

/// The cell type, with its gates in the order of their weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeneralCell {
    /// h = f(W x + R h + b).
    Vanilla,
    /// Gates z, r, h.
    Gru {
        /// True if the reset gate multiplies the product with the state, false if it multiplies the state itself.
        linear_before_reset: bool,
    },
    /// Gates i, o, f, c.
    Lstm {
        /// True if the input and forget gates are coupled: f = 1 - i.
        input_forget: bool,
    },
}

impl GeneralCell {
    /// Number of gates of the cell.
    pub fn gates(self) -> usize {
        match self {
            GeneralCell::Vanilla => 1,
            GeneralCell::Gru { .. } => 3,
            GeneralCell::Lstm { .. } => 4,
        }
    }
}

/// A recurrent layer.
#[derive(Clone, Debug)]
pub struct GeneralLayer<T> {
    /// The cell.
    pub cell: GeneralCell,
    /// Maximum sequence length.
    pub steps: usize,
    /// Number of sequences.
    pub batch: usize,
    /// Size of an input.
    pub input: usize,
    /// Size of a state.
    pub hidden: usize,
    /// Number of directions, 1 or 2.
    pub directions: usize,
    /// True if the first direction runs backward.
    pub is_reverse: bool,
    /// Activations of each direction: f, then g for a GRU or LSTM, then h for an LSTM.
    pub activations: Vec<Activation<T>>,
    /// Bound of the absolute values of the activations' inputs.
    pub clip: Option<T>,
}

/// The inputs of [`general_forward`].
#[derive(Clone, Copy)]
pub struct GeneralInputs<'a, T> {
    /// Inputs, (steps, batch, input).
    pub x: &'a [T],
    /// Weights of the inputs, (directions, gates * hidden, input).
    pub w: &'a [T],
    /// Weights of the state, (directions, gates * hidden, hidden).
    pub r: &'a [T],
    /// Biases of both, (directions, 2 * gates * hidden).
    pub b: &'a [T],
    /// Initial states, (directions, batch, hidden).
    pub h0: &'a [T],
    /// Initial cell states of an LSTM.
    pub c0: &'a [T],
    /// Peephole weights of the gates i, o, f of an LSTM, (directions, 3 * hidden).
    pub peepholes: &'a [T],
    /// Lengths of the sequences; if absent, all have full length.
    pub lengths: Option<&'a [usize]>,
}

/// The outputs of [`general_forward`].
pub struct GeneralOutputs<'a, T> {
    /// States of all time steps, (steps, directions, batch, hidden); zeros past the end of a sequence.
    pub y: &'a mut [T],
    /// Last states, (directions, batch, hidden).
    pub h: &'a mut [T],
    /// Last cell states of an LSTM.
    pub c: &'a mut [T],
}

/// The computation of one direction.
struct DirectionRun<'a, T: RnnElement + 'static> {
    layer: &'a GeneralLayer<T>,
    is_reverse: bool,
    activations: &'a [Activation<T>],
    recurrent: Vec<Weights<'a, T>>,
    /// Recurrent bias, which a GRU adds separately.
    bias: &'a [T],
    peepholes: &'a [T],
    lengths: Option<&'a [usize]>,
}

/// Computes a recurrent layer.
///
/// # Panics
/// Panics if a length does not match.
pub fn general_forward<T: RnnElement>(
    layer: &GeneralLayer<T>,
    ins: &GeneralInputs<'_, T>,
    outs: GeneralOutputs<'_, T>,
) {
    let (g, hidden, state) = (layer.cell.gates() * layer.hidden, layer.hidden, layer.batch * layer.hidden);
    outs.y.fill(T::of(0.0));
    outs.h.copy_from_slice(ins.h0);
    outs.c.copy_from_slice(ins.c0);
    let num_activations = layer.activations.len() / layer.directions;
    for d in 0..layer.directions {
        let (w, r) =
            (&ins.w[d * g * layer.input..(d + 1) * g * layer.input], &ins.r[d * g * hidden..(d + 1) * g * hidden]);
        let b = &ins.b[2 * d * g..2 * (d + 1) * g];
        // Input and recurrent bias are merged, except for the last gate of a GRU with `linear_before_reset`: its recurrent bias
        // is multiplied by the reset gate.
        let num_merged = if layer.cell == (GeneralCell::Gru { linear_before_reset: true }) { 2 * hidden } else { g };
        let bias: Vec<T> = (0..g).map(|k| if k < num_merged { b[k] + b[g + k] } else { b[k] }).collect();
        let mut projected = vec![T::of(0.0); layer.steps * layer.batch * g];
        gemm_fused(
            T::of(1.0),
            MatRef::row_major(ins.x, layer.steps * layer.batch, layer.input),
            MatRef::row_major(w, g, layer.input).t(),
            T::of(0.0),
            MatMut::row_major(&mut projected, layer.steps * layer.batch, g),
            &Epilogue { bias: Bias::PerCol(&bias), ..Epilogue::default() },
        );
        let run = DirectionRun {
            layer,
            is_reverse: d == 1 || layer.is_reverse,
            activations: &layer.activations[d * num_activations..(d + 1) * num_activations],
            recurrent: recurrent_weights(layer, r),
            bias: &b[g + 2.min(layer.cell.gates() - 1) * hidden..],
            peepholes: if ins.peepholes.is_empty() {
                &[]
            } else {
                &ins.peepholes[d * 3 * hidden..(d + 1) * 3 * hidden]
            },
            lengths: ins.lengths,
        };
        let c = if outs.c.is_empty() { &mut [][..] } else { &mut outs.c[d * state..(d + 1) * state] };
        run.steps(&projected, d, outs.y, &mut outs.h[d * state..(d + 1) * state], c);
    }
}

/// The recurrent weights of a direction; those of a GRU's last gate are separate.
fn recurrent_weights<'a, T: RnnElement>(layer: &GeneralLayer<T>, r: &'a [T]) -> Vec<Weights<'a, T>> {
    let hidden = layer.hidden;
    let rows = |from: usize, n: usize| {
        Weights::new(MatRef::row_major(&r[from * hidden..(from + n) * hidden], n, hidden).t(), layer.steps)
    };
    match layer.cell {
        GeneralCell::Gru { .. } => vec![rows(0, 2 * hidden), rows(2 * hidden, hidden)],
        _ => vec![rows(0, layer.cell.gates() * hidden)],
    }
}

impl<T: RnnElement> DirectionRun<'_, T> {
    /// The time step that sequence `n` computes as step `s`, or `None` past its end.
    fn time(&self, s: usize, n: usize) -> Option<usize> {
        let len = self.lengths.map_or(self.layer.steps, |l| l[n]);
        (s < len).then(|| if self.is_reverse { len - 1 - s } else { s })
    }

    fn clipped(&self, x: T) -> T {
        match self.layer.clip {
            Some(limit) if x > limit => limit,
            Some(limit) if x < -limit => -limit,
            _ => x,
        }
    }

    fn steps(&self, projected: &[T], direction: usize, y: &mut [T], h: &mut [T], c: &mut [T]) {
        let (layer, hidden) = (self.layer, self.layer.hidden);
        let g = layer.cell.gates() * hidden;
        let mut gates = vec![T::of(0.0); layer.batch * g];
        for s in 0..layer.steps {
            for (n, gates) in gates.chunks_exact_mut(g.max(1)).enumerate() {
                if let Some(t) = self.time(s, n) {
                    gates.copy_from_slice(&projected[(t * layer.batch + n) * g..][..g]);
                }
            }
            match layer.cell {
                GeneralCell::Gru { linear_before_reset } => self.gru(linear_before_reset, &mut gates, s, h),
                GeneralCell::Vanilla => self.vanilla(&mut gates, s, h),
                GeneralCell::Lstm { input_forget } => self.lstm(input_forget, &mut gates, s, h, c),
            }
            for (n, h) in h.chunks_exact(hidden.max(1)).enumerate() {
                if let Some(t) = self.time(s, n) {
                    let start = ((t * layer.directions + direction) * layer.batch + n) * hidden;
                    y[start..start + hidden].copy_from_slice(h);
                }
            }
        }
    }

    /// Calls `f` with the gates and the state of each sequence that has not ended.
    fn for_each_running(&self, s: usize, gates: &mut [T], h: &mut [T], f: impl Fn(&mut [T], &mut [T]) + Sync) {
        let (hidden, g) = (self.layer.hidden, self.layer.cell.gates() * self.layer.hidden);
        par::parallel_rows2((gates, g), (h, hidden), (GRAIN / g.max(1)).max(1), |n, gates, h| {
            if self.time(s, n).is_some() {
                f(gates, h);
            }
        });
    }

    /// gates += h R^T for `cols` columns of the gates starting at `first`, where R is the recurrent weight matrix `index`.
    fn product(&self, index: usize, first: usize, cols: usize, h: &[T], gates: &mut [T]) {
        let (batch, hidden) = (self.layer.batch, self.layer.hidden);
        let mut all = MatMut::row_major(gates, batch, self.layer.cell.gates() * hidden);
        let h = MatRef::row_major(h, batch, hidden);
        self.recurrent[index].product(h, T::of(1.0), all.block(0, first, batch, cols), &Epilogue::default());
    }

    fn vanilla(&self, gates: &mut [T], s: usize, h: &mut [T]) {
        self.product(0, 0, self.layer.hidden, h, gates);
        self.for_each_running(s, gates, h, |gates, h| {
            h.iter_mut().zip(gates).for_each(|(h, x)| *h = self.activations[0].of(self.clipped(*x)));
        });
    }

    fn gru(&self, linear_before_reset: bool, gates: &mut [T], s: usize, h: &mut [T]) {
        let (batch, hidden) = (self.layer.batch, self.layer.hidden);
        let (f, g) = (self.activations[0], self.activations[1]);
        self.product(0, 0, 2 * hidden, h, gates);
        let mut state = h.to_vec();
        if linear_before_reset {
            // The product with the state and its bias, which the reset gate multiplies.
            let epilogue = Epilogue { bias: Bias::PerCol(self.bias), ..Epilogue::default() };
            let (a, c) = (MatRef::row_major(h, batch, hidden), MatMut::row_major(&mut state, batch, hidden));
            self.recurrent[1].product(a, T::of(0.0), c, &epilogue);
            self.for_each_running(s, gates, &mut state, |gates, state| {
                for (k, x) in state.iter().enumerate() {
                    let reset = f.of(self.clipped(gates[hidden + k]));
                    gates[2 * hidden + k] = gates[2 * hidden + k] + reset * *x;
                }
            });
        } else {
            self.for_each_running(s, gates, &mut state, |gates, state| {
                state.iter_mut().zip(&gates[hidden..]).for_each(|(h, r)| *h = *h * f.of(self.clipped(*r)));
            });
            self.product(1, 2 * hidden, hidden, &state, gates);
        }
        self.for_each_running(s, gates, h, |gates, h| {
            for (k, h) in h.iter_mut().enumerate() {
                let update = f.of(self.clipped(gates[k]));
                let new = g.of(self.clipped(gates[2 * hidden + k]));
                *h = new + update * (*h - new);
            }
        });
    }

    fn lstm(&self, input_forget: bool, gates: &mut [T], s: usize, h: &mut [T], c: &mut [T]) {
        let hidden = self.layer.hidden;
        let (f, g, out) = (self.activations[0], self.activations[1], self.activations[2]);
        self.product(0, 0, 4 * hidden, h, gates);
        let peephole = |gate: usize, k: usize, c: T| match self.peepholes.get(gate * hidden + k) {
            Some(p) => *p * c,
            None => T::of(0.0),
        };
        self.for_each_running(s, gates, c, |gates, c| {
            for (k, c) in c.iter_mut().enumerate() {
                let input = f.of(self.clipped(gates[k] + peephole(0, k, *c)));
                let forget = match input_forget {
                    true => T::of(1.0) - input,
                    false => f.of(self.clipped(gates[2 * hidden + k] + peephole(2, k, *c))),
                };
                let new = g.of(self.clipped(gates[3 * hidden + k]));
                *c = forget * *c + input * new;
                // The output gate's peephole reads the new cell state.
                gates[k] = gates[hidden + k] + peephole(1, k, *c);
                gates[hidden + k] = out.of(*c);
            }
        });
        self.for_each_running(s, gates, h, |gates, h| {
            for (k, h) in h.iter_mut().enumerate() {
                *h = f.of(self.clipped(gates[k])) * gates[hidden + k];
            }
        });
    }
}
