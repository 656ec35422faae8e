//! Operators on padded sequences of different lengths: `SequenceMask`, `SequenceReverse`, `SequenceLast`.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params::{OpParams, Params};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::map::Load;
use ferromx_kernels::sequence::{Sequences, sequence_last, sequence_last_backward, sequence_mask, sequence_reverse};

use crate::rules::no_gradient;

params! {
    /// Parameters of `SequenceMask`.
    pub struct SequenceMaskParam {
        /// Whether `sequence_length` is an input; otherwise all sequences have full length.
        use_sequence_length: bool = false;
        /// The value of the steps after the end of a sequence.
        value: f32 = 0.0;
        /// The axis of the steps, 0 or 1; the other one is the batch.
        axis: i32 = 0, where 0..=1;
    }
}

params! {
    /// Parameters of `SequenceLast` and `SequenceReverse`.
    pub struct SequenceParam {
        /// Whether `sequence_length` is an input; otherwise all sequences have full length.
        use_sequence_length: bool = false;
        /// The axis of the steps, 0 or 1; the other one is the batch. `SequenceReverse` supports only 0.
        axis: i32 = 0, where 0..=1;
    }
}

/// The parameters of a sequence operator.
trait SequenceOp: OpParams {
    /// Whether `sequence_length` is an input.
    fn has_lengths(&self) -> bool;
    /// Whether the data has shape (batch, steps, ...) instead of (steps, batch, ...).
    fn is_batch_first(&self) -> bool;
}

impl SequenceOp for SequenceMaskParam {
    fn has_lengths(&self) -> bool {
        self.use_sequence_length
    }

    fn is_batch_first(&self) -> bool {
        self.axis == 1
    }
}

impl SequenceOp for SequenceParam {
    fn has_lengths(&self) -> bool {
        self.use_sequence_length
    }

    fn is_batch_first(&self) -> bool {
        self.axis == 1
    }
}

const ARGS: &[ArgDef] = &[
    arg("data", "The sequences, of shape (steps, batch, ...), or (batch, steps, ...) with axis=1."),
    arg("sequence_length", "With use_sequence_length, the number of steps of each sequence, of shape (batch,)."),
];

const fn sequence_op<P: SequenceOp>(name: &'static str) -> Operator<P> {
    Operator::new(name)
        .legacy()
        .inputs(ARGS)
        .num_inputs_by(|p| if p.get::<P>().has_lengths() { 2 } else { 1 })
        .dtype(infer_dtype)
}

pub(super) static SEQUENCE_MASK: Operator<SequenceMaskParam> = sequence_op("SequenceMask")
    .aliases(&["_npx_sequence_mask"])
    .doc(
        "Writes `value` to the steps after the end of each sequence: out[t, n, ...] = data[t, n, ...] where \
         t < sequence_length[n], else value. Without use_sequence_length it copies the data. The output has the shape of the data.",
    )
    .shape(same_shape::<SequenceMaskParam>)
    .forward(|ctx, ins, outs| mask(ctx, &ins[0], ins.get(1), ctx.params::<SequenceMaskParam>().value, &mut outs[0]))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            no_gradient_of_lengths(outs)?;
            if outs[0].wanted() { mask(ctx, &ins[0], ins.get(1), 0.0, &mut outs[0]) } else { Ok(()) }
        })
        .inputs(Deps::Some(&[1])),
        None,
    ));

pub(super) static SEQUENCE_REVERSE: Operator<SequenceParam> = sequence_op("SequenceReverse")
    .doc(
        "Reverses the order of the steps of each sequence: out[t, n, ...] = data[sequence_length[n] - 1 - t, n, ...] where \
         t < sequence_length[n], else data[t, n, ...]. Without use_sequence_length all steps are reversed. The steps lie along \
         axis 0. The output has the shape of the data.",
    )
    .shape(|p, io| {
        ensure!(!p.get::<SequenceParam>().is_batch_first(), "SequenceReverse supports only axis 0: transpose the data");
        same_shape::<SequenceParam>(p, io)
    })
    .forward(|ctx, ins, outs| reverse(ctx, &ins[0], ins.get(1), &mut outs[0]))
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            no_gradient_of_lengths(outs)?;
            if outs[0].wanted() { reverse(ctx, &ins[0], ins.get(1), &mut outs[0]) } else { Ok(()) }
        })
        .inputs(Deps::Some(&[1])),
        None,
    ));

pub(super) static SEQUENCE_LAST: Operator<SequenceParam> = sequence_op("SequenceLast")
    .doc(
        "Takes the last step of each sequence: out[n, ...] = data[sequence_length[n] - 1, n, ...], or data[steps - 1, n, ...] \
         without use_sequence_length. The output has shape (batch, ...).",
    )
    .shape(last_shape)
    .forward(last)
    .grad(Grad::Kernel(Backward::new(last_backward).inputs(Deps::Some(&[1])), None));

/// Checks the data, and infers the shape of the lengths from it and the batch size from the lengths.
fn infer_lengths<P: SequenceOp>(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let (has_lengths, batch_first) = (p.get::<P>().has_lengths(), p.get::<P>().is_batch_first());
    io.expect_inputs(if has_lengths { &["data", "sequence_length"] } else { &["data"] })?;
    let Some(n) = io.ins[0].ndim() else { return Ok(()) };
    ensure!(n >= 2, "The data array must be of rank 2 or greater, but it is {}", io.ins[0]);
    if !has_lengths {
        return Ok(());
    }
    let batch_axis = usize::from(!batch_first);
    let batch = Shape::new(&[io.ins[0].dim(batch_axis)]);
    io.assign_in(1, &batch)?;
    let mut data = Shape::of_rank(n);
    if let Some(dims) = data.dims_mut() {
        dims[batch_axis] = io.ins[1].dim(0);
    }
    io.assign_in(0, &data)
}

fn same_shape<P: SequenceOp>(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let out = io.outs[0].clone();
    io.assign_in(0, &out)?;
    infer_lengths::<P>(p, io)?;
    let data = io.ins[0].clone();
    io.assign_out(0, &data)
}

fn last_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    infer_lengths::<SequenceParam>(p, io)?;
    let Some(n) = io.ins[0].ndim() else { return Ok(()) };
    let steps_axis = usize::from(p.get::<SequenceParam>().is_batch_first());
    let out: Dims = (0..n).filter(|i| *i != steps_axis).map(|i| io.ins[0].dim(i)).collect();
    io.assign_out(0, &Shape::from(out))?;
    let mut data: Dims = io.outs[0].dims().into();
    data.insert(steps_axis, -1);
    io.assign_in(0, &Shape::from(data))
}

/// The lengths have the type of the data unless theirs is known.
fn infer_dtype(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let Some(data) = io.ins[0].or(io.outs[0]) else { return Ok(()) };
    io.assign_in(0, data)?;
    io.assign_out(0, data)?;
    match io.ins.get(1) {
        Some(None) => io.assign_in(1, data),
        _ => Ok(()),
    }
}

/// The dimensions of the sequences in data of shape `shape`.
fn sequences(shape: &Shape, batch_first: bool) -> Sequences {
    let dims = shape.to_usize();
    let (steps, batch) = if batch_first { (dims[1], dims[0]) } else { (dims[0], dims[1]) };
    Sequences { steps, batch, inner: dims[2..].iter().product(), batch_first }
}

/// Reads the lengths, which must lie within `range`. Without lengths, all sequences have all steps.
fn lengths(
    ctx: &OpCtx<'_>,
    input: Option<&In<'_>>,
    shape: &Sequences,
    range: std::ops::RangeInclusive<usize>,
) -> Result<Vec<usize>> {
    let Some(input) = input else { return Ok(vec![shape.steps; shape.batch]) };
    let lengths = dispatch!(input.dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
            input.slice::<T>()?.iter().map(|n| Load::<i64>::lane(*n)).collect::<Vec<i64>>()
        },
        other => return Err(ctx.unsupported(other, crate::elemwise::family::NUMERIC)));
    let is_valid = |n: &i64| usize::try_from(*n).is_ok_and(|n| range.contains(&n));
    if let Some(i) = lengths.iter().position(|n| !is_valid(n)) {
        return Err(ferromx_core::error::Error::Value(format!(
            "sequence_length[{i}] is {}, but sequences of {} have {} to {} steps",
            lengths[i],
            ctx.op,
            range.start(),
            shape.steps
        )));
    }
    Ok(lengths.into_iter().map(|n| n as usize).collect())
}

/// Evaluates `$body` with `$T` bound to the element type for `$dtype`.
macro_rules! with_element_type {
    ($ctx:expr, $dtype:expr, |$T:ident| $body:expr) => {
        dispatch!($dtype, $T in [f32, f64, f16, bf16, u8, i8, i32, i64, bool] => { $body; Ok(()) },
            other => Err($ctx.unsupported(other, &DType::ALL)))
    };
}

fn mask(ctx: &OpCtx<'_>, data: &In<'_>, lengths_input: Option<&In<'_>>, value: f32, out: &mut Out<'_>) -> Result<()> {
    use ferromx_core::dtype::Element;
    let shape = sequences(data.shape(), ctx.params::<SequenceMaskParam>().is_batch_first());
    let lengths = lengths(ctx, lengths_input, &shape, 0..=usize::MAX)?;
    with_element_type!(ctx, data.dtype(), |T| sequence_mask(
        &shape,
        &lengths,
        T::from_f32(value),
        data.slice::<T>()?,
        out.slice_mut::<T>()?
    ))
}

fn reverse(ctx: &OpCtx<'_>, data: &In<'_>, lengths_input: Option<&In<'_>>, out: &mut Out<'_>) -> Result<()> {
    let shape = sequences(data.shape(), ctx.params::<SequenceParam>().is_batch_first());
    let lengths = lengths(ctx, lengths_input, &shape, 0..=shape.steps)?;
    with_element_type!(ctx, data.dtype(), |T| sequence_reverse(
        &shape,
        &lengths,
        data.slice::<T>()?,
        out.slice_mut::<T>()?
    ))
}

fn last(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let shape = sequences(ins[0].shape(), ctx.params::<SequenceParam>().is_batch_first());
    let lengths = last_lengths(ctx, ins.get(1), &shape)?;
    with_element_type!(ctx, ins[0].dtype(), |T| sequence_last(
        &shape,
        &lengths,
        ins[0].slice::<T>()?,
        outs[0].slice_mut::<T>()?
    ))
}

fn last_lengths(ctx: &OpCtx<'_>, input: Option<&In<'_>>, shape: &Sequences) -> Result<Vec<usize>> {
    ensure!(shape.steps > 0 || shape.batch == 0, "SequenceLast: sequences without steps have no last one");
    lengths(ctx, input, shape, 1..=shape.steps)
}

/// Inputs: gradient of the output, lengths. Outputs: gradients of the data and the lengths.
fn last_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    no_gradient_of_lengths(outs)?;
    if !outs[0].wanted() {
        return Ok(());
    }
    let shape = sequences(outs[0].shape(), ctx.params::<SequenceParam>().is_batch_first());
    let lengths = last_lengths(ctx, ins.get(1), &shape)?;
    with_element_type!(ctx, ins[0].dtype(), |T| sequence_last_backward(
        &shape,
        &lengths,
        ins[0].slice::<T>()?,
        outs[0].slice_mut::<T>()?
    ))
}

/// Zeroes the gradient of the lengths, if they are an input.
fn no_gradient_of_lengths(outs: &mut [Out<'_>]) -> Result<()> {
    outs.get_mut(1).map_or(Ok(()), no_gradient)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn gradients_agree_with_finite_differences() {
        let x = || array(&(0..12).map(f64::from).collect::<Vec<_>>(), &[3, 2, 2]);
        let lengths = |n: &[i32]| array(n, &[n.len() as i64]);
        for def in [&*SEQUENCE_MASK, &*SEQUENCE_REVERSE, &*SEQUENCE_LAST] {
            Case::new(def, &[]).check_gradient(&[x()]);
            Case::new(def, &[("use_sequence_length", "1")]).check_gradient(&[x(), lengths(&[1, 3])]);
        }
        for def in [&*SEQUENCE_MASK, &*SEQUENCE_LAST] {
            Case::new(def, &[("use_sequence_length", "1"), ("axis", "1")]).check_gradient(&[x(), lengths(&[1, 2, 2])]);
        }
    }

    #[test]
    fn lengths_out_of_range_are_errors() {
        let run = |def, n: [i64; 2]| {
            let x = array(&[1f32, 2.0, 3.0, 4.0], &[2, 2]);
            Case::new(def, &[("use_sequence_length", "1")]).run(&[x, array(&n, &[2])])
        };
        assert!(run(&SEQUENCE_LAST, [1, 0]).is_err());
        assert!(run(&SEQUENCE_LAST, [1, 3]).unwrap_err().to_string().contains("sequence_length[1] is 3"));
        assert!(run(&SEQUENCE_REVERSE, [3, 1]).is_err());
        assert!(run(&SEQUENCE_MASK, [-1, 1]).is_err());
        assert!(run(&SEQUENCE_MASK, [0, 9]).is_ok());
    }
}
