//! The log-likelihood of self-exciting point processes (Hawkes processes).

use ferromx_core::dtype::{DType, Element, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure};

use crate::precision::by_precision;
use crate::rules::{shapes_of_inputs, slice_if_wanted};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&HAWKESLL, &BACKWARD_HAWKESLL];

pub(super) static HAWKESLL: Operator = Operator::new("_contrib_hawkesll").names_outputs()
    .doc(
        "The log-likelihood of marked, self-exciting Hawkes processes with exponentially decaying excitation. Mark k of process i has \
         the intensity lda[i, k] + alpha[k] * beta[k] * sum of exp(-beta[k] * (t - s)) over its earlier points s. The result is, for \
         each process, the sum of the logarithms of the intensities at its points minus the integral of all intensities from 0 to \
         max_time; the second result has the states at max_time, from which the next interval continues. N is the number of processes, \
         K that of marks, T that of points (Laub, Taimre, Pollett, Hawkes Processes, 2015).",
    )
    .inputs(&[
        arg("lda", "The background intensities, of shape (N, K)."),
        arg("alpha", "The strength of the excitation by mark, of shape (K,)."),
        arg("beta", "Its decay rates, of shape (K,)."),
        arg("state", "The sums of decayed excitations of earlier points at time 0, of shape (N, K)."),
        arg("lags", "The times from point to point, of shape (N, T)."),
        arg("marks", "The marks of the points, of type int32, shape (N, T)."),
        arg("valid_length", "The number of points of each process, of shape (N,)."),
        arg("max_time", "The ends of the observed times, of shape (N,)."),
    ])
    .outputs(|_| 2)
    .output_names_by(|_| vec!["output".into(), "out_state".into()])
    .shape(hawkes_shape)
    .dtype(|_, io| {
        io.assign_in(5, DType::I32)?;
        let floats = [0, 1, 2, 3, 4, 6, 7];
        match floats.iter().find_map(|i| io.ins[*i]).or(io.outs[0]).or(io.outs[1]) {
            Some(d) => {
                floats.iter().try_for_each(|i| io.assign_in(*i, d))?;
                (0..2).try_for_each(|i| io.assign_out(i, d))
            }
            None => Ok(()),
        }
    })
    .forward(forward)
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| gradients(ctx, &ins[0], &ins[1..], outs)).ograds(Deps::Some(&[0])).inputs(Deps::All),
        None,
    ));

pub(super) static BACKWARD_HAWKESLL: Operator = Operator::new("_contrib_backward_hawkesll")
    .doc(
        "The gradients of `_contrib_hawkesll` for its eight inputs. Those of lda, alpha and beta come from the log-likelihood; the \
         others are 0.",
    )
    .inputs(&[
        arg("grad", "The gradient of the log-likelihoods."),
        arg("grad_states", "The gradient of the states; ignored."),
        arg("lda", "The background intensities."),
        arg("alpha", "The strength of the excitation."),
        arg("beta", "Its decay rates."),
        arg("state", "The states at time 0."),
        arg("lags", "The times from point to point."),
        arg("marks", "The marks of the points."),
        arg("valid_length", "The number of points of each process."),
        arg("max_time", "The ends of the observed times."),
    ])
    .listed(0)
    .outputs(|_| 8)
    .shape(|_, io| shapes_of_inputs(io, 2))
    .dtype(|_, io| {
        for k in 0..8 {
            if let Some(d) = io.ins[k + 2] {
                io.assign_out(k, d)?;
            }
        }
        Ok(())
    })
    .forward(|ctx, ins, outs| gradients(ctx, &ins[0], &ins[2..], outs));

fn hawkes_shape(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let matrix = |n: i64, m: i64| Shape::new(&[n, m]);
    let known = |s: &Shape, axis: usize| if s.ndim() == Some(2) { s.dim(axis) } else { -1 };
    let n = [0, 3, 4, 5].into_iter().map(|i| known(&io.ins[i], 0)).max().unwrap_or(-1);
    let k = [0, 3].into_iter().map(|i| known(&io.ins[i], 1)).max().unwrap_or(-1);
    let t = [4, 5].into_iter().map(|i| known(&io.ins[i], 1)).max().unwrap_or(-1);
    io.assign_in(0, &matrix(n, k))?;
    (1..3).try_for_each(|i| io.assign_in(i, &Shape::new(&[k])))?;
    io.assign_in(3, &matrix(n, k))?;
    (4..6).try_for_each(|i| io.assign_in(i, &matrix(n, t)))?;
    (6..8).try_for_each(|i| io.assign_in(i, &Shape::new(&[n])))?;
    io.assign_out(0, &Shape::new(&[n]))?;
    io.assign_out(1, &matrix(n, k))
}

/// The inputs of one process.
struct PointProcess<'a, T> {
    background: &'a [T],
    alpha: &'a [T],
    beta: &'a [T],
    state: &'a [T],
    lags: &'a [T],
    marks: &'a [i32],
    max_time: f64,
}

/// Splits the inputs into processes. Checks lengths and marks.
fn processes<'a, T: Element>(ins: &[In<'a>]) -> Result<Vec<PointProcess<'a, T>>> {
    let (n, k) = (ins[0].shape().dim(0) as usize, ins[0].shape().dim(1) as usize);
    let points = ins[4].shape().dim(1) as usize;
    let (lengths, ends) = (ins[6].slice::<T>()?, ins[7].slice::<T>()?);
    let mut processes = Vec::with_capacity(n);
    for i in 0..n {
        let length = lengths[i].to_f64();
        ensure!(
            (0.0..=points as f64).contains(&length),
            "valid_length {length} of process {i} is not within 0 to {points}"
        );
        let valid = i * points..i * points + length as usize;
        let marks = &ins[5].slice::<i32>()?[valid.clone()];
        if let Some(mark) = marks.iter().find(|m| !(0..k as i32).contains(*m)) {
            ensure!(false, "mark {mark} of process {i} is not within 0 to {}", k as i64 - 1);
        }
        processes.push(PointProcess {
            background: &ins[0].slice()?[i * k..(i + 1) * k],
            alpha: ins[1].slice()?,
            beta: ins[2].slice()?,
            state: &ins[3].slice()?[i * k..(i + 1) * k],
            lags: &ins[4].slice()?[valid],
            marks,
            max_time: ends[i].to_f64(),
        });
    }
    Ok(processes)
}

/// The running state of a mark.
#[derive(Clone, Copy, Default)]
struct Mark {
    /// The sum of decayed excitations at the last point.
    state: f64,
    /// Its derivative with respect to beta.
    dstate_dbeta: f64,
    /// The time of the last point.
    last_time: f64,
    /// The derivatives of the log-likelihood with respect to background intensity, alpha and beta.
    derivatives: [f64; 3],
}

/// The end of an interval without points.
#[derive(Clone, Copy)]
enum Until {
    /// The time of a point, where the logarithm of the intensity is part of the likelihood.
    Point(f64),
    /// The end of the process.
    MaxTime,
}

impl<T: Element> PointProcess<'_, T> {
    /// The log-likelihood, and for each mark its state at `max_time` with the derivatives.
    fn run(&self) -> (f64, Vec<Mark>) {
        let mut marks: Vec<Mark> = self.state.iter().map(|s| Mark { state: s.to_f64(), ..Mark::default() }).collect();
        let (mut time, mut likelihood) = (0.0, 0.0);
        for (lag, &k) in self.lags.iter().zip(self.marks) {
            let k = k as usize;
            time += lag.to_f64();
            let (intensity, integral) = self.advance(k, Until::Point(time), &mut marks[k]);
            likelihood += intensity.ln() - integral;
            marks[k].state += 1.0;
        }
        for (k, mark) in marks.iter_mut().enumerate() {
            likelihood -= self.advance(k, Until::MaxTime, mark).1;
        }
        (likelihood, marks)
    }

    /// Advances mark `k`, and returns the intensity there and its integral since the last point.
    fn advance(&self, k: usize, until: Until, mark: &mut Mark) -> (f64, f64) {
        let (background, alpha, beta) = (self.background[k].to_f64(), self.alpha[k].to_f64(), self.beta[k].to_f64());
        let time = match until {
            Until::Point(time) => time,
            Until::MaxTime => self.max_time,
        };
        let elapsed = time - mark.last_time;
        let decay = (-beta * elapsed).exp();
        let state = mark.state * decay;
        let dstate_dbeta = (mark.dstate_dbeta - mark.state * elapsed) * decay;
        let intensity = background + alpha * beta * state;
        let decayed = mark.state - state;
        let integral = background * elapsed + alpha * decayed;
        let dintegral_dbeta = alpha * (mark.dstate_dbeta - dstate_dbeta);
        let weight = match until {
            Until::Point(_) => 1.0 / intensity,
            Until::MaxTime => 0.0,
        };
        mark.derivatives[0] += weight - elapsed;
        mark.derivatives[1] += weight * beta * state - decayed;
        mark.derivatives[2] += weight * alpha * (state + beta * dstate_dbeta) - dintegral_dbeta;
        (mark.state, mark.dstate_dbeta, mark.last_time) = (state, dstate_dbeta, time);
        (intensity, integral)
    }
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    by_precision!((ins, outs), ins[0].dtype(), T for [F16] => {
        let k = ins[1].len();
        for (i, process) in processes::<T>(ins)?.iter().enumerate() {
            let (likelihood, marks) = process.run();
            if outs[0].wanted() {
                outs[0].slice_mut::<T>()?[i] = T::from_f64(likelihood);
            }
            if outs[1].wanted() {
                let states = outs[1].slice_mut::<T>()?[i * k..(i + 1) * k].iter_mut();
                states.zip(&marks).for_each(|(out, mark)| *out = T::from_f64(mark.state));
            }
        }
        Ok(())
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
}

/// The gradients of the background, alpha and beta; those of the other inputs are 0.
fn gradients(ctx: &OpCtx<'_>, grad: &In<'_>, inputs: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    for out in outs.iter_mut().filter(|out| out.wanted()) {
        out.bytes_mut()?.fill(0);
    }
    dispatch!(grad.dtype(), T in [f32, f64, f16] => {
        let (grad, k) = (grad.slice::<T>()?, inputs[1].len());
        let [background, alpha, beta, ..] = outs else { return Ok(()) };
        let mut targets = [slice_if_wanted::<T>(background)?, slice_if_wanted(alpha)?, slice_if_wanted(beta)?];
        for (i, process) in processes::<T>(inputs)?.iter().enumerate() {
            for (m, mark) in process.run().1.iter().enumerate() {
                for ((out, derivative), index) in targets.iter_mut().zip(mark.derivatives).zip([i * k + m, m, m]) {
                    if let Some(out) = out.get_mut(index) {
                        *out = T::from_f64(out.to_f64() + grad[i].to_f64() * derivative);
                    }
                }
            }
        }
        Ok(())
    }, d => Err(ctx.unsupported(d, DType::FLOATS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close, vector};

    fn inputs() -> Vec<ferromx_core::ndarray::NDArray> {
        vec![
            array(&[1.5, 2.0, 0.5, 0.75], &[2, 2]),
            vector(DType::F64, &[0.2, 0.3]),
            vector(DType::F64, &[1.0, 2.0]),
            array(&[0.0, 0.5, 1.0, 0.25], &[2, 2]),
            array(&[0.1, 0.2, 0.3, 0.6, 0.4, 9.0], &[2, 3]),
            array(&[0i32, 1, 0, 1, 0, 7], &[2, 3]),
            vector(DType::F64, &[3.0, 2.0]),
            vector(DType::F64, &[2.0, 1.5]),
        ]
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let case = Case::new(&HAWKESLL, &[]);
        let ins = inputs();
        let value = |ins: &[ferromx_core::ndarray::NDArray]| {
            case.run(ins).unwrap()[0].to_vec::<f64>().unwrap().iter().sum::<f64>()
        };
        let grads = case.backward(&ins, &[array(&[1.0, 1.0], &[2]), array(&[0.0; 4], &[2, 2])]).unwrap();
        for input in 0..3 {
            let base = ins[input].to_vec::<f64>().unwrap();
            let differences: Vec<f64> = (0..base.len())
                .map(|i| {
                    let likelihood_at = |shift: f64| {
                        let (mut shifted, mut ins) = (base.clone(), inputs());
                        shifted[i] += shift;
                        ins[input] = array(&shifted, ins[input].shape().dims());
                        value(&ins)
                    };
                    (likelihood_at(1e-6) - likelihood_at(-1e-6)) / 2e-6
                })
                .collect();
            close(&grads[input].to_vec::<f64>().unwrap(), &differences, 1e-6);
        }
    }

    #[test]
    fn invalid_marks_and_lengths_are_errors() {
        let mut ins = inputs();
        ins[6] = vector(DType::F64, &[3.0, 3.0]);
        assert!(Case::new(&HAWKESLL, &[]).run(&ins).unwrap_err().to_string().contains("mark 7 of process 1"));
        ins[6] = vector(DType::F64, &[4.0, 1.0]);
        assert!(Case::new(&HAWKESLL, &[]).run(&ins).unwrap_err().to_string().contains("valid_length 4"));
    }
}
