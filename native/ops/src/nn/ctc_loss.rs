//! `CTCLoss`: connectionist temporal classification.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, param_enum, params};
use ferromx_kernels::ctc::{CtcShape, ctc_loss, ctc_loss_backward};
use ferromx_kernels::float::FloatElement;
use ferromx_kernels::map::Load;

use crate::elemwise::family::NUMERIC;
use crate::precision::by_precision;
use crate::rules::no_gradient;

param_enum! {
    /// Which class is the blank.
    pub enum BlankLabel { First = "first", Last = "last" }
}

params! {
    /// Parameters of `CTCLoss`.
    pub struct CtcLossParam {
        /// Whether `data_lengths` is an input; otherwise all frames are used.
        use_data_lengths: bool = false;
        /// Whether `label_lengths` is an input; otherwise a sequence of labels ends before the first padding.
        use_label_lengths: bool = false;
        /// `first`: class 0 is the blank, labels are from 1 and 0 is padding. `last`: the last class is the blank, labels are from
        /// 0 and -1 is padding.
        blank_label: BlankLabel = (BlankLabel::First);
    }
}

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

pub(super) static CTC_LOSS: Operator<CtcLossParam> = Operator::new("CTCLoss")
    .aliases(&["ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss"])
    .doc(
        "Connectionist temporal classification (Graves et al., 2006): out[n] = -log p(labels of n | data), with the probability \
         summed over all alignments of the labels with the frames. The operator applies softmax to the data.\n\n\
         Shapes: data (frames, batch, classes), label (batch, longest), data_lengths and label_lengths (batch,), output (batch,). \
         Labels that do not fit into their frames have loss and gradient 0. No gradient flows to labels and lengths.",
    )
    .inputs(&[
        arg("data", "The scores of the classes before softmax, of shape (frames, batch, classes)."),
        arg("label", "The sequences of classes, padded, of shape (batch, longest)."),
        arg("data_lengths", "With use_data_lengths, the number of frames of each sequence, of shape (batch,)."),
        arg("label_lengths", "With use_label_lengths, the number of labels of each sequence, of shape (batch,)."),
    ])
    .num_inputs_by(|p| {
        let p = p.get::<CtcLossParam>();
        2 + usize::from(p.use_data_lengths) + usize::from(p.use_label_lengths)
    })
    .input_names_by(|p| input_names(p.get()).into_iter().map(String::from).collect())
    .outputs(|_| 2)
    .visible(|_| 1)
    .shape(infer_shape)
    .dtype(infer_dtype)
    .forward(forward)
    .grad(Grad::Kernel(Backward::new(backward).ograds(Deps::Some(&[0])).outputs(Deps::Some(&[1])), None));

fn input_names(p: &CtcLossParam) -> Vec<&'static str> {
    let lengths = [(p.use_data_lengths, "data_lengths"), (p.use_label_lengths, "label_lengths")];
    let lengths = lengths.into_iter().filter(|(used, _)| *used).map(|(_, name)| name);
    ["data", "label"].into_iter().chain(lengths).collect()
}

/// The hidden output holds the gradients of the losses with respect to the data, of shape (batch, frames, classes).
fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    io.expect_inputs(&input_names(p.get()))?;
    io.assign_in(0, &Shape::of_rank(3))?;
    io.assign_in(1, &Shape::of_rank(2))?;
    let batch = Shape::new(&[io.ins[0].dim(1).max(io.ins[1].dim(0))]);
    io.assign_out(0, &batch)?;
    (2..io.ins.len()).try_for_each(|i| io.assign_in(i, &batch))?;
    let batch = io.outs[0].dim(0);
    io.assign_in(0, &Shape::new(&[-1, batch, -1]))?;
    io.assign_in(1, &Shape::new(&[batch, -1]))?;
    let (frames, longest) = (io.ins[0].dim(0), io.ins[1].dim(1));
    ensure!(
        frames < 0 || frames >= longest,
        "The max number of labels cannot exceed the maximum sequence length of the data: {longest} labels, {frames} frames"
    );
    io.assign_out(1, &Shape::new(&[batch, frames, io.ins[0].dim(2)]))
}

/// Labels and lengths have the type of the data unless theirs is known.
fn infer_dtype(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let Some(d) = io.ins[0].or(io.outs[0]) else { return Ok(()) };
    io.assign_in(0, d)?;
    (0..2).try_for_each(|i| io.assign_out(i, d))?;
    (1..io.ins.len()).try_for_each(|i| if io.ins[i].is_none() { io.assign_in(i, d) } else { Ok(()) })
}

fn integers(ctx: &OpCtx<'_>, input: &In<'_>) -> Result<Vec<i64>> {
    dispatch!(input.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        Ok(input.slice::<T>()?.iter().map(|n| Load::<i64>::lane(*n)).collect())
    }, other => Err(ctx.unsupported(other, NUMERIC)))
}

/// Reads the input `name` of lengths, each of which must be at most `max`.
fn lengths(ctx: &OpCtx<'_>, name: &str, input: &In<'_>, max: usize) -> Result<Vec<usize>> {
    let check = |(i, n): (usize, i64)| {
        usize::try_from(n).ok().filter(|n| *n <= max).ok_or_else(|| {
            Error::Value(format!("CTCLoss: {name}[{i}] is {n}, but it must be a number from 0 to {max}"))
        })
    };
    integers(ctx, input)?.into_iter().enumerate().map(check).collect()
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<CtcLossParam>();
    let dims = ins[0].shape().to_usize();
    let (frames, batch, classes) = (dims[0], dims[1], dims[2]);
    ensure!(
        classes > 0 || batch == 0,
        "CTCLoss needs classes, the blank among them, but the data is {}",
        ins[0].shape()
    );
    let (blank, padding) = match p.blank_label {
        BlankLabel::First => (0, 0),
        BlankLabel::Last => (classes.saturating_sub(1), -1),
    };
    let longest = ins[1].shape().dim(1).max(0) as usize;
    let mut optional = ins[2..].iter();
    let mut next_lengths =
        |name: &str, max: usize| optional.next().map(|input| lengths(ctx, name, input, max)).transpose();
    let data_lengths = if p.use_data_lengths { next_lengths("data_lengths", frames)? } else { None };
    let label_lengths = if p.use_label_lengths { next_lengths("label_lengths", longest)? } else { None };
    let all_labels = integers(ctx, &ins[1])?;
    let labels = (0..batch).map(|n| {
        let row = &all_labels[n * longest..(n + 1) * longest];
        let len = match &label_lengths {
            Some(lengths) => lengths[n],
            None => row.iter().position(|l| *l == padding).unwrap_or(longest),
        };
        // Any negative label is padding too, and ends the labels.
        let len = row[..len].iter().position(|l| *l < 0).unwrap_or(len);
        let class = |l: &i64| usize::try_from(*l).ok().filter(|l| *l < classes);
        row[..len].iter().map(|l| class(l).ok_or(*l)).collect::<Result<Vec<usize>, i64>>().map_err(|l| {
            Error::Value(format!(
                "CTCLoss: label {l} of sequence {n} is invalid: there are {classes} classes, of which {blank} is the blank"
            ))
        })
    });
    let labels = labels.collect::<Result<Vec<_>>>()?;
    let data_lengths = data_lengths.unwrap_or_else(|| vec![frames; batch]);
    let shape = CtcShape { frames, batch, classes, blank };
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => forward_as::<T>(&shape, &ins[0], &labels, &data_lengths, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn forward_as<T: FloatElement>(
    shape: &CtcShape,
    data: &In<'_>,
    labels: &[Vec<usize>],
    lengths: &[usize],
    outs: &mut [Out<'_>],
) -> Result<()> {
    let [loss, grad] = outs else { return Err(Error::Internal("CTCLoss has two outputs".into())) };
    let grad = if grad.wanted() { grad.slice_mut::<T>()? } else { &mut [] };
    ctc_loss(shape, data.slice::<T>()?, labels, lengths, loss.slice_mut::<T>()?, grad);
    Ok(())
}

/// Inputs: gradient of the losses, the hidden output. Outputs: gradients of all inputs.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    outs[1..].iter_mut().try_for_each(no_gradient)?;
    if !outs[0].wanted() {
        return Ok(());
    }
    let dims = outs[0].shape().to_usize();
    let shape = CtcShape { frames: dims[0], batch: dims[1], classes: dims[2], blank: 0 };
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
        ctc_loss_backward(&shape, ins[0].slice::<T>()?, ins[1].slice::<T>()?, outs[0].slice_mut::<T>()?);
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close, numbers};
    use ferromx_core::ndarray::NDArray;

    fn scores(frames: i64, batch: i64, classes: i64) -> NDArray {
        numbers(&[frames, batch, classes])
    }

    #[test]
    fn the_loss_sums_over_all_alignments() {
        // Two frames and one label: label-label, blank-label, label-blank.
        let x = scores(2, 1, 3);
        let p: Vec<Vec<f64>> = x
            .to_vec::<f64>()
            .unwrap()
            .chunks(3)
            .map(|row| {
                let sum: f64 = row.iter().map(|x| x.exp()).sum();
                row.iter().map(|x| x.exp() / sum).collect()
            })
            .collect();
        let want = -(p[0][2] * p[1][2] + p[0][0] * p[1][2] + p[0][2] * p[1][0]).ln();
        let loss = Case::new(&CTC_LOSS, &[]).run1(&[x, array(&[2i32], &[1, 1])]).unwrap();
        close(&loss.to_vec::<f64>().unwrap(), &[want], 1e-9);
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let labels = |l: &[i32]| array(l, &[2, 3]);
        Case::new(&CTC_LOSS, &[]).check_gradient(&[scores(5, 2, 4), labels(&[1, 2, 0, 3, 3, 1])]);
        Case::new(&CTC_LOSS, &[("blank_label", "last")])
            .check_gradient(&[scores(5, 2, 4), labels(&[0, 1, -1, 2, 2, 0])]);
        let both = [("use_data_lengths", "1"), ("use_label_lengths", "1")];
        let (frames, count) = (array(&[4i32, 5], &[2]), array(&[2i32, 0], &[2]));
        Case::new(&CTC_LOSS, &both).check_gradient(&[scores(5, 2, 4), labels(&[1, 2, 3, 3, 1, 2]), frames, count]);
    }

    #[test]
    fn invalid_labels_are_errors() {
        let run = |labels: [i32; 2]| Case::new(&CTC_LOSS, &[]).run1(&[scores(3, 1, 4), array(&labels, &[1, 2])]);
        assert!(run([1, 4]).is_err());
        assert!(run([3, -1]).is_ok());
        let ins = [scores(3, 1, 4), array(&[1i32, 2], &[1, 2]), array(&[4i32], &[1])];
        assert!(Case::new(&CTC_LOSS, &[("use_data_lengths", "1")]).run1(&ins).is_err());
    }
}
