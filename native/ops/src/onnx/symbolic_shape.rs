//! Operators whose parameters are expressions over the dimensions of their inputs, so that one graph serves inputs of any size. Of all
//! inputs but the first, only the shapes are used.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{Deps, OpCtx, Operator};
use ferromx_core::params::{AnyDType, OptTuple, Params};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};

use super::dim_expr::DimExprs;
use crate::broadcast::backward::sum_to;
use crate::broadcast::expand::broadcast_to;
use crate::compose::op;
use crate::init::{RangeRounding, fill, fill_range};
use crate::rules::{self, complete_from_size, no_gradient};
use crate::shape::slice::{SliceParam, slice_region, slice_shape};

params! {
    /// Parameters of `_onnx_Reshape` and `_onnx_Expand`.
    pub struct SymbolicShapeParam {
        /// The dimensions: integers, or expressions over the inputs' dimensions, such as `#0.1*8` for eight times axis 1 of input 0.
        shape: DimExprs = required;
    }
}

pub(crate) static RESHAPE: Operator<SymbolicShapeParam> = Operator::new("_onnx_Reshape")
    .doc(
        "Reshapes the first input to a shape that is calculated from the inputs' dimensions, without copying. Of all other inputs only the \
         shapes are used. Source: Reshape of ONNX.",
    )
    .variadic("data", "The array, then the arrays whose dimensions the expressions use.", "num_args")
    .shape(|p, io| {
        has_data(io.ins.len())?;
        let mut out = Shape::new(&p.get::<SymbolicShapeParam>().shape.dims(&shapes(io.ins))?);
        if io.ins[0].is_known() {
            io.ins[0].checked_elements()?;
        }
        complete_from_size(&mut out, &io.ins[0]);
        ensure!(
            !io.ins[0].is_known() || !out.is_known() || io.ins[0].num_elements() == out.num_elements(),
            "cannot reshape {} to {out}: the numbers of elements differ",
            io.ins[0]
        );
        io.assign_out(0, &out)
    })
    .dtype(first_dtype)
    .view()
    .grad(Grad::Compose(|g, n| {
        let mut grads = vec![None; n.inputs.len()];
        grads[0] = Some(g.op(op!(shape::reshape::RESHAPE_LIKE(n.ograds[0], n.inputs[0])))?);
        Ok(grads)
    }));

pub(crate) static EXPAND: Operator<SymbolicShapeParam> = Operator::new("_onnx_Expand")
    .doc(
        "Broadcasts the first input to a shape that is calculated from the inputs' dimensions. Of all other inputs only the shapes are \
         used. Source: Expand of ONNX.",
    )
    .variadic("data", "The array, then the arrays whose dimensions the expressions use.", "num_args")
    .shape(expand_shape)
    .dtype(first_dtype)
    .forward(broadcast_to)
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            others_have_no_gradient(outs)?;
            let (from, to) = (ins[0].shape().to_usize(), outs[0].shape().to_usize());
            if outs[0].wanted() { sum_to(ctx, &ins[0], (&from, &to), &mut outs[0]) } else { Ok(()) }
        }),
        None,
    ));

fn expand_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    has_data(io.ins.len())?;
    let to = p.get::<SymbolicShapeParam>().shape.dims(&shapes(io.ins))?;
    let from = &io.ins[0];
    let Some(rank) = from.ndim() else { return Ok(()) };
    let is_broadcastable = rank <= to.len() && {
        let trailing = &to[to.len() - rank..];
        from.dims().iter().zip(trailing).all(|(have, want)| *have < 0 || *want < 0 || *have == 1 || have == want)
    };
    ensure!(is_broadcastable, "shape {from} is not broadcastable to {}", Shape::new(&to));
    io.assign_out(0, &Shape::new(&to))
}

params! {
    /// Parameters of `_onnx_Slice`.
    pub struct SymbolicSliceParam {
        /// The first index along each axis: an integer, an expression over the inputs' dimensions, or None for the natural start.
        begin: DimExprs = required;
        /// The end (exclusive) along each axis; None is the natural end.
        end: DimExprs = required;
        /// The step along each axis; None is 1.
        step: DimExprs = (DimExprs::empty());
    }
}

impl SymbolicSliceParam {
    /// The parameters of `slice` for inputs of these shapes, or `None` if they depend on an unknown dimension.
    fn resolved(&self, shapes: &[&Shape]) -> Result<Option<SliceParam>> {
        let values = (self.begin.values(shapes)?, self.end.values(shapes)?, self.step.values(shapes)?);
        let (Some(begin), Some(end), Some(step)) = values else { return Ok(None) };
        Ok(Some(SliceParam { begin: OptTuple(begin), end: OptTuple(end), step: OptTuple(step) }))
    }
}

pub(crate) static SLICE: Operator<SymbolicSliceParam> = Operator::new("_onnx_Slice")
    .doc(
        "Slices the first input, with bounds that are calculated from the inputs' dimensions. Of all other inputs only the shapes are \
         used. Source: Slice of ONNX.",
    )
    .variadic("data", "The array, then the arrays whose dimensions the expressions use.", "num_args")
    .shape(|p, io| {
        has_data(io.ins.len())?;
        match p.get::<SymbolicSliceParam>().resolved(&shapes(io.ins))? {
            Some(p) => io.assign_out(0, &slice_shape(&io.ins[0], &p.begin, &p.end, &p.step)?),
            None => io.ins[0].ndim().map_or(Ok(()), |rank| io.assign_out(0, &Shape::of_rank(rank))),
        }
    })
    .dtype(first_dtype)
    .forward(|ctx, ins, outs| {
        let p = resolved_slice(ctx, ins)?;
        slice_region(&p, ins[0].shape())?.read(&ins[0], &mut outs[0])
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            others_have_no_gradient(outs)?;
            // `ins[0]` is the gradient of the output.
            let p = resolved_slice(ctx, &ins[1..])?;
            if outs[0].wanted() { slice_region(&p, outs[0].shape())?.read_backward(&ins[0], &mut outs[0]) } else { Ok(()) }
        })
        .inputs(Deps::All),
        None,
    ));

fn resolved_slice(ctx: &OpCtx<'_>, ins: &[In<'_>]) -> Result<SliceParam> {
    let shapes: Vec<&Shape> = ins.iter().map(In::shape).collect();
    let resolved = ctx.params::<SymbolicSliceParam>().resolved(&shapes)?;
    resolved.ok_or_else(|| Error::Internal("a slice of an unknown shape".into()))
}

params! {
    /// Parameters of `_onnx_Full`.
    pub struct SymbolicFullParam {
        /// The dimensions: integers, or expressions over the inputs' dimensions, such as `#0.1*8` for eight times axis 1 of input 0.
        shape: DimExprs = required;
        /// The element type.
        dtype: AnyDType = (AnyDType(DType::F32));
        /// The value of every element.
        value: f64 = required;
    }
}

pub(crate) static FULL: Operator<SymbolicFullParam> = Operator::new("_onnx_Full")
    .doc(
        "An array of one repeated value, of a shape that is calculated from the inputs' dimensions. Only the shapes of the inputs are \
         used. Source: ConstantOfShape of ONNX.",
    )
    .variadic("data", "The arrays whose dimensions are used.", "num_args")
    .shape(|p, io| io.assign_out(0, &Shape::new(&p.get::<SymbolicFullParam>().shape.dims(&shapes(io.ins))?)))
    .dtype(|p, io| io.assign_out(0, p.get::<SymbolicFullParam>().dtype.0))
    .forward(|ctx, _, outs| fill(&mut outs[0], ctx.params::<SymbolicFullParam>().value))
    .grad(Grad::Zero);

params! {
    /// Parameters of `_onnx_Range`.
    pub struct SymbolicRangeParam {
        /// Start, limit (exclusive) and step: integers, or expressions over the inputs' dimensions.
        range: DimExprs = required;
        /// The element type.
        dtype: AnyDType = (AnyDType(DType::I64));
    }
}

pub(crate) static RANGE: Operator<SymbolicRangeParam> = Operator::new("_onnx_Range")
    .doc(
        "Evenly spaced integers whose start, limit and step are calculated from the inputs' dimensions. Only the shapes of the inputs are \
         used. Source: Range of ONNX.",
    )
    .variadic("data", "The arrays whose dimensions are used.", "num_args")
    .shape(|p, io| match range(p.get::<SymbolicRangeParam>(), &shapes(io.ins))? {
        Some((_, _, count)) => io.assign_out(0, &Shape::new(&[count])),
        None => io.assign_out(0, &Shape::of_rank(1)),
    })
    .dtype(|p, io| io.assign_out(0, p.get::<SymbolicRangeParam>().dtype.0))
    .forward(|ctx, ins, outs| {
        let shapes: Vec<&Shape> = ins.iter().map(In::shape).collect();
        let (start, step, _) = range(ctx.params(), &shapes)?.unwrap_or((0, 1, 0));
        fill_range(&mut outs[0], start as f64, step as f64, 1, RangeRounding::Converted)
    })
    .grad(Grad::Zero);

/// Start, step and number of elements of a range, or `None` if they depend on an unknown dimension.
fn range(p: &SymbolicRangeParam, shapes: &[&Shape]) -> Result<Option<(i64, i64, i64)>> {
    let Some(values) = p.range.values(shapes)? else { return Ok(None) };
    let [Some(start), Some(limit), Some(step)] = values[..] else {
        return Err(Error::Value(format!(
            "a range has three numbers (start, limit, step), but {} were given",
            values.len()
        )));
    };
    ensure!(step != 0, "a range with a step of 0 never ends");
    let distance = i128::from(limit) - i128::from(start);
    let step_wide = i128::from(step);
    let count = if (distance > 0) == (step > 0) { (distance + step_wide - step_wide.signum()) / step_wide } else { 0 };
    let count = i64::try_from(count).ok().filter(|n| *n < 1 << 36);
    let too_long = || Error::Value(format!("a range from {start} to {limit} by {step} exceeds the largest array"));
    Ok(Some((start, step, count.ok_or_else(too_long)?)))
}

/// Checks that there is a first input.
pub(super) fn has_data(num_inputs: usize) -> Result<()> {
    ensure!(
        num_inputs > 0,
        "no inputs were given: expected the data, then the arrays whose dimensions the expressions use"
    );
    Ok(())
}

pub(super) fn shapes(ins: &[Shape]) -> Vec<&Shape> {
    ins.iter().collect()
}

/// Like [`rules::first_dtype`], with an error if there is no input.
pub(super) fn first_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    has_data(io.ins.len())?;
    rules::first_dtype(p, io)
}

/// Writes zeros to the gradients of all inputs but the first.
pub(super) fn others_have_no_gradient(outs: &mut [Out<'_>]) -> Result<()> {
    outs[1..].iter_mut().try_for_each(no_gradient)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, numbers};

    #[test]
    fn parameters_are_calculated_from_the_dimensions_of_the_inputs() {
        let (x, like) = (numbers(&[2, 6]), numbers(&[3, 1]));
        let reshaped =
            Case::new(&RESHAPE, &[("shape", "(#0.0, #1.0, div(#0.1,#1.0))")]).run1(&[x.clone(), like.clone()]).unwrap();
        assert_eq!(reshaped.shape().dims(), [2, 3, 2]);
        assert!(Case::new(&RESHAPE, &[("shape", "(#1.0, 5)")]).run1(&[x.clone(), like.clone()]).is_err());
        let sliced = Case::new(&SLICE, &[("begin", "(None, #1.0-1)"), ("end", "(None, -#1.1)")]);
        let first = array(&[0.0f64, 1.0, 2.0, 3.0, 4.0, 5.0], &[1, 6]);
        assert_eq!(sliced.run1(&[first, like.clone()]).unwrap().to_vec::<f64>().unwrap(), [2.0, 3.0, 4.0]);
        let expanded = Case::new(&EXPAND, &[("shape", "(#1.0, #0.0, #0.1)")]).run1(&[x.clone(), like.clone()]).unwrap();
        assert_eq!(expanded.shape().dims(), [3, 2, 6]);
        let full = Case::new(&FULL, &[("shape", "(#0.0+1,)"), ("value", "2"), ("dtype", "int64")]);
        assert_eq!(full.run1(std::slice::from_ref(&x)).unwrap().to_vec::<i64>().unwrap(), [2, 2, 2]);
        let range = |text: &str| {
            Case::new(&RANGE, &[("range", text)]).run1(std::slice::from_ref(&x)).map(|r| r.to_vec::<i64>().unwrap())
        };
        assert_eq!(range("(1, #0.1, 2)").unwrap(), [1, 3, 5]);
        assert_eq!(range("(#0.1, 0, -4)").unwrap(), [6, 2]);
        assert_eq!(range("(#0.1, 0, 1)").unwrap(), [0i64; 0]);
        assert!(range("(0, #0.1, 0)").is_err() && range("(0, 9000000000000000000, 1)").is_err());
    }

    #[test]
    fn only_the_first_input_has_a_gradient() {
        let (x, like) = (numbers(&[2, 6]), numbers(&[3, 1]));
        Case::new(&SLICE, &[("begin", "(None, #1.0-1)"), ("end", "(None, -#1.1)")])
            .check_gradient(&[x.clone(), like.clone()]);
        Case::new(&EXPAND, &[("shape", "(#1.0, #0.0, #0.1)")]).check_gradient(&[x, like]);
    }
}
