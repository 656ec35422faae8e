//! Operators whose parameters are calculated from dimensions of their inputs, so that a graph fits inputs of any size. What follows their
//! first input are tensors of which only the shapes matter.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{Deps, OpCtx, OpDef};
use ferromx_core::params::{AnyDType, OptTuple, Params};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::movement;

use super::extents::Extents;
use crate::broadcast::binary::sum_to;
use crate::init::{Steps, equal_steps, fill};
use crate::rules::{complete_from_size, no_gradient};
use crate::shape::moves::{by_size, source, target};
use crate::shape::slice::{SliceParam, slice_region, slice_shape};

params! {
    /// Parameters of `_onnx_Reshape` and `_onnx_Expand`.
    pub struct OpenShapeParam {
        /// The dimensions: integers, or expressions of dimensions of the inputs, such as `#0.1*8` of the second one of the first input.
        shape: Extents = required;
    }
}

/// A reshape.
pub static RESHAPE: OpDef = OpDef::new("_onnx_Reshape")
    .doc(
        "Gives the first input a shape that is calculated from dimensions of the inputs; the elements are not copied. Of the inputs behind \
         the first one only the shapes matter. Source: Reshape of ONNX.",
    )
    .variadic("data", "The array, and those whose dimensions are used.", "num_args")
    .params::<OpenShapeParam>()
    .shape(|p, io| {
        has_data(io.ins.len())?;
        let mut out = Shape::new(&p.get::<OpenShapeParam>().shape.dims(&shapes(io.ins))?);
        if io.ins[0].is_known() {
            io.ins[0].checked_elements()?;
        }
        complete_from_size(&mut out, &io.ins[0]);
        ensure!(
            !io.ins[0].is_known() || !out.is_known() || io.ins[0].num_elements() == out.num_elements(),
            "cannot reshape {} to {out}, which has another number of elements",
            io.ins[0]
        );
        io.assign_out(0, &out)
    })
    .dtype(first_dtype)
    .view()
    .grad(Grad::Compose(|g, n| {
        let mut grads = vec![None; n.inputs.len()];
        grads[0] = Some(g.apply1("reshape_like", &[n.ograds[0], n.inputs[0]], &[])?);
        Ok(grads)
    }));

/// A broadcast.
pub static EXPAND: OpDef = OpDef::new("_onnx_Expand")
    .doc(
        "Broadcasts the first input to a shape that is calculated from dimensions of the inputs. Of the inputs behind the first one only \
         the shapes matter. Source: Expand of ONNX.",
    )
    .variadic("data", "The array, and those whose dimensions are used.", "num_args")
    .params::<OpenShapeParam>()
    .shape(expand_shape)
    .dtype(first_dtype)
    .forward(|_, ins, outs| {
        let (from, to) = (ins[0].shape().to_usize(), outs[0].shape().to_usize());
        by_size!(ins[0].dtype(), |T| {
            movement::broadcast_to(source::<T>(&ins[0])?, &from, (target::<T>(&mut outs[0])?, &to));
        });
        Ok(())
    })
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
    let to = p.get::<OpenShapeParam>().shape.dims(&shapes(io.ins))?;
    let from = &io.ins[0];
    let Some(rank) = from.ndim() else { return Ok(()) };
    let fits = rank <= to.len() && {
        let behind = &to[to.len() - rank..];
        from.dims().iter().zip(behind).all(|(have, want)| *have < 0 || *want < 0 || *have == 1 || have == want)
    };
    ensure!(fits, "shape {from} is not broadcastable to {}", Shape::new(&to));
    io.assign_out(0, &Shape::new(&to))
}

params! {
    /// Parameters of `_onnx_Slice`.
    pub struct OpenSliceParam {
        /// The first index along each axis: an integer, an expression of dimensions of the inputs, or None for the natural start.
        begin: Extents = required;
        /// The end (exclusive) along each axis; None is the natural end.
        end: Extents = required;
        /// The step along each axis; None is 1.
        step: Extents = (Extents::none());
    }
}

impl OpenSliceParam {
    /// The parameters of `slice` for inputs of these shapes; nothing as long as one of them is not known.
    fn resolved(&self, shapes: &[&Shape]) -> Result<Option<SliceParam>> {
        let values = (self.begin.values(shapes)?, self.end.values(shapes)?, self.step.values(shapes)?);
        let (Some(begin), Some(end), Some(step)) = values else { return Ok(None) };
        Ok(Some(SliceParam { begin: OptTuple(begin), end: OptTuple(end), step: OptTuple(step) }))
    }
}

/// A slice.
pub static SLICE: OpDef = OpDef::new("_onnx_Slice")
    .doc(
        "The region of the first input whose ends are calculated from dimensions of the inputs. Of the inputs behind the first one only the \
         shapes matter. Source: Slice of ONNX.",
    )
    .variadic("data", "The array, and those whose dimensions are used.", "num_args")
    .params::<OpenSliceParam>()
    .shape(|p, io| {
        has_data(io.ins.len())?;
        match p.get::<OpenSliceParam>().resolved(&shapes(io.ins))? {
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
            // The gradient of the output stands before the inputs.
            let p = resolved_slice(ctx, &ins[1..])?;
            if outs[0].wanted() { slice_region(&p, outs[0].shape())?.read_back(&ins[0], &mut outs[0]) } else { Ok(()) }
        })
        .inputs(Deps::All),
        None,
    ));

fn resolved_slice(ctx: &OpCtx<'_>, ins: &[In<'_>]) -> Result<SliceParam> {
    let shapes: Vec<&Shape> = ins.iter().map(In::shape).collect();
    let resolved = ctx.params::<OpenSliceParam>().resolved(&shapes)?;
    resolved.ok_or_else(|| ferromx_core::error::Error::Internal("a slice of an unknown shape".into()))
}

params! {
    /// Parameters of `_onnx_Full`.
    pub struct OpenFullParam {
        /// The dimensions: integers, or expressions of dimensions of the inputs, such as `#0.1*8` of the second one of the first input.
        shape: Extents = required;
        /// The element type.
        dtype: AnyDType = (AnyDType(DType::F32));
        /// The value of every element.
        value: f64 = required;
    }
}

/// One value.
pub static FULL: OpDef = OpDef::new("_onnx_Full")
    .doc(
        "One value everywhere, in a shape that is calculated from dimensions of the inputs, of which only the shapes matter. Source: \
         ConstantOfShape of ONNX.",
    )
    .variadic("data", "The arrays whose dimensions are used.", "num_args")
    .params::<OpenFullParam>()
    .shape(|p, io| io.assign_out(0, &Shape::new(&p.get::<OpenFullParam>().shape.dims(&shapes(io.ins))?)))
    .dtype(|p, io| io.assign_out(0, p.get::<OpenFullParam>().dtype.0))
    .forward(|ctx, _, outs| fill(&mut outs[0], ctx.params::<OpenFullParam>().value))
    .grad(Grad::Zero);

params! {
    /// Parameters of `_onnx_Range`.
    pub struct OpenRangeParam {
        /// Start, limit (exclusive) and step: integers, or expressions of dimensions of the inputs.
        range: Extents = required;
        /// The element type.
        dtype: AnyDType = (AnyDType(DType::I64));
    }
}

/// Equally spaced integers.
pub static RANGE: OpDef = OpDef::new("_onnx_Range")
    .doc(
        "Equally spaced integers whose start, limit and step are calculated from dimensions of the inputs, of which only the shapes matter. \
         Source: Range of ONNX.",
    )
    .variadic("data", "The arrays whose dimensions are used.", "num_args")
    .params::<OpenRangeParam>()
    .shape(|p, io| match range(p.get::<OpenRangeParam>(), &shapes(io.ins))? {
        Some((_, _, count)) => io.assign_out(0, &Shape::new(&[count])),
        None => io.assign_out(0, &Shape::of_rank(1)),
    })
    .dtype(|p, io| io.assign_out(0, p.get::<OpenRangeParam>().dtype.0))
    .forward(|ctx, ins, outs| {
        let shapes: Vec<&Shape> = ins.iter().map(In::shape).collect();
        let (start, step, _) = range(ctx.params(), &shapes)?.unwrap_or((0, 1, 0));
        equal_steps(&mut outs[0], start as f64, step as f64, 1, Steps::Converted)
    })
    .grad(Grad::Zero);

/// Start, step and number of the integers of a range.
fn range(p: &OpenRangeParam, shapes: &[&Shape]) -> Result<Option<(i64, i64, i64)>> {
    let Some(values) = p.range.values(shapes)? else { return Ok(None) };
    let [Some(start), Some(limit), Some(step)] = values[..] else {
        return Err(ferromx_core::error::Error::Value(format!(
            "a range has a start, a limit and a step; {} numbers were given",
            values.len()
        )));
    };
    ensure!(step != 0, "a range with a step of 0 never ends");
    let distance = i128::from(limit) - i128::from(start);
    let step_wide = i128::from(step);
    let count = if (distance > 0) == (step > 0) { (distance + step_wide - step_wide.signum()) / step_wide } else { 0 };
    let count = i64::try_from(count).ok().filter(|n| *n < 1 << 36);
    let too_long =
        || ferromx_core::error::Error::Value(format!("no array is as long as a range from {start} to {limit}"));
    Ok(Some((start, step, count.ok_or_else(too_long)?)))
}

pub(super) fn has_data(num_inputs: usize) -> Result<()> {
    ensure!(num_inputs > 0, "there is no data: give an array, and those whose dimensions are used");
    Ok(())
}

pub(super) fn shapes(ins: &[Shape]) -> Vec<&Shape> {
    ins.iter().collect()
}

/// The output has the type of the first input; those of the others do not matter.
pub(super) fn first_dtype(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    has_data(io.ins.len())?;
    if let Some(dtype) = io.ins[0].or(io.outs[0]) {
        io.assign_in(0, dtype)?;
        io.assign_out(0, dtype)?;
    }
    Ok(())
}

pub(super) fn others_have_no_gradient(outs: &mut [Out<'_>]) -> Result<()> {
    outs[1..].iter_mut().try_for_each(no_gradient)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, numbers};

    #[test]
    fn parameters_follow_dimensions() {
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
    fn gradients_go_to_the_first_input() {
        let (x, like) = (numbers(&[2, 6]), numbers(&[3, 1]));
        Case::new(&SLICE, &[("begin", "(None, #1.0-1)"), ("end", "(None, -#1.1)")])
            .check_gradient(&[x.clone(), like.clone()]);
        Case::new(&EXPAND, &[("shape", "(#1.0, #0.0, #0.1)")]).check_gradient(&[x, like]);
    }
}
