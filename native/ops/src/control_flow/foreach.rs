//! `_foreach`: a graph for each row of the data, with states that go from row to row.

use std::sync::Arc;

use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::host::Subgraph;
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Deps, OpCtx, OpDef};
use ferromx_core::params::{Attrs, FieldInfo, OpParams, Params, Tuple};
use ferromx_core::shape::Shape;
use ferromx_core::storage::Req;
use ferromx_core::{ensure, params};

use super::frame::{Bound, clear, deliver, finish, kept, zeros_like};
use super::{attached, check_inputs, count, graph, merge, merge_type, positions};

params! {
    /// Parameters of `_foreach` as text.
    pub struct ForeachText {
        /// Number of inputs, the graph included.
        num_args: i32 = required, where 1..=i32::MAX;
        /// Number of outputs: those of every step, and then the last states.
        num_outputs: i32 = required;
        /// Number of outputs that every step gives.
        num_out_data: i32 = required;
        /// Which inputs of the graph are the states, in their order among the inputs of the operator.
        in_state_locs: Tuple<i64> = required;
        /// Which inputs of the graph are rows of the data, in their order among the inputs of the operator.
        in_data_locs: Tuple<i64> = required;
        /// Which inputs of the graph are the same in every step.
        remain_locs: Tuple<i64> = required;
    }
}

/// Parameters of `_foreach`.
pub struct ForeachParam {
    /// Inputs of the operator, which are data, states, and what is the same in every step.
    inputs: usize,
    outputs: usize,
    /// Outputs that every step gives.
    rows: usize,
    /// For each input of the operator the input of the graph.
    places: Vec<usize>,
    data: usize,
    states: usize,
    body: Option<Arc<dyn Subgraph>>,
    /// Inputs of the operator that the graph changes.
    mutated: Vec<usize>,
}

impl OpParams for ForeachParam {
    fn fields() -> Vec<FieldInfo> {
        ForeachText::fields()
    }

    fn parse(attrs: &Attrs) -> Result<Self> {
        let p = ForeachText::parse(attrs)?;
        let (outputs, rows) = (count(p.num_outputs, "num_outputs")?, count(p.num_out_data, "num_out_data")?);
        let (data, states) = (p.in_data_locs.0.len(), p.in_state_locs.0.len());
        let all = Tuple([&p.in_data_locs, &p.in_state_locs, &p.remain_locs].iter().flat_map(|l| l.0.clone()).collect());
        let places = positions(&all, all.0.len(), "in_data_locs, in_state_locs or remain_locs")?;
        let mut sorted = places.clone();
        sorted.sort_unstable();
        sorted.dedup();
        ensure!(sorted.len() == places.len(), "in_data_locs, in_state_locs and remain_locs name an input twice");
        ensure!(
            outputs == rows + states,
            "num_outputs is {outputs}, but num_out_data is {rows} and there are {states} states"
        );
        ensure!(data > 0, "in_data_locs is empty: a loop needs data whose rows it goes through");
        let inputs = p.num_args as usize - 1;
        Ok(ForeachParam { inputs, outputs, rows, places, data, states, body: None, mutated: vec![] })
    }
}

fn with_graphs(params: &Params, graphs: Vec<Arc<dyn Subgraph>>) -> Result<Params> {
    let p = params.get::<ForeachParam>();
    let body = graphs.into_iter().next();
    let graph = attached(body.as_ref())?;
    check_inputs(graph, p.places.len(), "in_data_locs, in_state_locs and remain_locs together")?;
    ensure!(
        graph.outputs() == p.outputs,
        "the graph has {} outputs, but num_outputs is {}",
        graph.outputs(),
        p.outputs
    );
    ensure!(p.inputs == p.places.len(), "{} inputs were given for {} of the graph", p.inputs, p.places.len());
    let mutated = (0..p.inputs).filter(|i| graph.states().contains(&p.places[*i])).collect();
    let places = p.places.clone();
    Ok(Params::new(ForeachParam { places, body, mutated, ..*p }))
}

/// The loop over rows.
pub static FOREACH: OpDef = OpDef::new("_foreach")
    .doc(
        "Runs a graph for each row of the data along the first axis: (out, states) = fn(row, states, others). The outputs are the \
         rows' outputs, stacked, and the states after the last row. Gradients flow through all steps.",
    )
    .graphs(&[graph("fn", "The graph of one step.")], with_graphs)
    .variadic("data", "The data, then the first states, then what is the same in every step.", "num_args")
    .params::<ForeachParam>()
    .num_inputs_by(|p| p.get::<ForeachParam>().inputs)
    .input_names_by(|p| (0..p.get::<ForeachParam>().inputs).map(|i| format!("data{i}")).collect())
    .mutates_by(|p| &p.get::<ForeachParam>().mutated)
    .outputs(|p| p.get::<ForeachParam>().outputs)
    .shape(infer_shape)
    .dtype(infer_dtype)
    .host(forward)
    .random()
    .grad(Grad::Kernel(Backward::host(backward).inputs(Deps::All).outputs(Deps::All), None));

/// The shape of a row of the data; the row of a vector has the shape (1,), as [`NDArray::at`] gives it.
fn row(shape: &Shape) -> Shape {
    match shape.dims() {
        _ if !shape.ndim_is_known() => Shape::unknown(),
        [_, rest @ ..] if !rest.is_empty() => Shape::new(rest),
        _ => Shape::new(&[1]),
    }
}

/// The shape of what a step gives for a row of an output.
fn unstacked(shape: &Shape) -> Shape {
    if shape.ndim_is_known() { Shape::new(shape.dims().get(1..).unwrap_or(&[])) } else { Shape::unknown() }
}

/// The shape of `n` stacked rows.
fn stacked(row: &Shape, n: i64) -> Shape {
    if !row.ndim_is_known() {
        return Shape::unknown();
    }
    Shape::new(&[&[n], row.dims()].concat())
}

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<ForeachParam>();
    let body = attached(p.body.as_ref())?;
    let mut ins = vec![Shape::unknown(); p.places.len()];
    let mut outs = vec![Shape::unknown(); p.outputs];
    let mut steps = -1;
    for shape in io.ins[..p.data].iter().chain(&io.outs[..p.rows]).filter(|s| s.ndim_is_known()) {
        ensure!(!shape.dims().is_empty(), "data of _foreach is a scalar: give it at least one dimension");
        ensure!(
            steps < 0 || shape.dim(0) < 0 || shape.dim(0) == steps,
            "data of _foreach has {steps} and {} rows",
            shape.dim(0)
        );
        steps = steps.max(shape.dim(0));
    }
    for (i, place) in p.places.iter().enumerate() {
        let known = if i < p.data { row(&io.ins[i]) } else { io.ins[i].clone() };
        merge(&mut ins[*place], &known, "an input of the loop")?;
    }
    for (k, out) in outs.iter_mut().enumerate() {
        *out = if k < p.rows { unstacked(&io.outs[k]) } else { io.outs[k].clone() };
    }
    // States keep their shapes.
    for s in 0..p.states {
        let place = p.places[p.data + s];
        merge(&mut outs[p.rows + s], &ins[place].clone(), "a state of the loop")?;
        merge(&mut ins[place], &outs[p.rows + s].clone(), "a state of the loop")?;
    }
    body.infer_shape(&mut ins, &mut outs)?;
    for s in 0..p.states {
        let place = p.places[p.data + s];
        merge(&mut ins[place], &outs[p.rows + s].clone(), "a state of the loop")?;
    }
    for (i, place) in p.places.iter().enumerate() {
        match i < p.data {
            // A vector's rows do not tell that it is one.
            true if io.ins[i].dims().len() == 1 => io.assign_in(i, &Shape::new(&[steps]))?,
            true => io.assign_in(i, &stacked(&ins[*place], steps))?,
            false => io.assign_in(i, &ins[*place])?,
        }
    }
    for (k, out) in outs.iter().enumerate() {
        io.assign_out(k, &if k < p.rows { stacked(out, steps) } else { out.clone() })?;
    }
    Ok(())
}

fn infer_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let p = p.get::<ForeachParam>();
    let body = attached(p.body.as_ref())?;
    let mut ins = vec![None; p.places.len()];
    p.places.iter().enumerate().for_each(|(i, place)| ins[*place] = io.ins[i]);
    let mut outs = io.outs.to_vec();
    for s in 0..p.states {
        let place = p.places[p.data + s];
        merge_type(&mut ins[place], outs[p.rows + s], "a state of the loop")?;
        merge_type(&mut outs[p.rows + s], ins[place], "a state of the loop")?;
    }
    body.infer_dtype(&mut ins, &mut outs)?;
    for (i, place) in p.places.iter().enumerate() {
        merge_type(&mut io.ins[i], ins[*place], "an input of the loop")?;
    }
    for (k, out) in outs.into_iter().enumerate() {
        merge_type(&mut io.outs[k], out, "an output of the loop")?;
    }
    Ok(())
}

/// The steps of a loop, bound to their rows and to the states of the step before.
#[derive(Default)]
struct Steps {
    bound: Vec<Bound>,
    /// Sums of the gradients of what is the same in every step, by input of the graph.
    sums: Vec<Option<NDArray>>,
}

/// Binds the steps unless they are bound to these arrays already.
fn bind(ctx: &OpCtx<'_>, p: &ForeachParam, ins: &[NDArray], train: bool, steps: &mut Steps) -> Result<()> {
    let body = attached(p.body.as_ref())?;
    let n = ins.first().map_or(0, |data| data.shape().dim(0) as usize);
    let mut fits = steps.bound.len() == n;
    let inputs_of = |t: usize, before: Option<&Bound>| -> Result<Vec<NDArray>> {
        let mut inputs = vec![None; p.places.len()];
        for (i, place) in p.places.iter().enumerate() {
            inputs[*place] = Some(match before {
                _ if i < p.data => ins[i].at(t)?,
                Some(before) if i < p.data + p.states => before.outputs()[p.rows + i - p.data].clone(),
                _ => ins[i].clone(),
            });
        }
        Ok(inputs.into_iter().flatten().collect())
    };
    for t in 0..n {
        fits = fits && {
            let before = t.checked_sub(1).map(|t| &steps.bound[t]);
            steps.bound[t].fits(&inputs_of(t, before)?, train)
        };
    }
    if fits {
        return Ok(());
    }
    steps.bound.clear();
    steps.sums = vec![None; p.places.len()];
    for i in (p.data + p.states..p.inputs).filter(|i| train && ins[*i].dtype().is_float()) {
        steps.sums[p.places[i]] = Some(zeros_like(&ins[i])?);
    }
    for t in 0..n {
        let inputs = inputs_of(t, steps.bound.last())?;
        steps.bound.push(Bound::new(body, ctx.context, inputs, train, &steps.sums)?);
    }
    Ok(())
}

fn forward(ctx: &OpCtx<'_>, ins: &[NDArray], outs: &[NDArray], reqs: &[Req]) -> Result<()> {
    let p = ctx.params::<ForeachParam>();
    let kept = kept::<Steps>(ctx.cache);
    let mut steps = kept.lock();
    bind(ctx, p, ins, ctx.is_train, &mut steps)?;
    for (t, step) in steps.bound.iter().enumerate() {
        step.forward(ctx.is_train)?;
        for k in 0..p.rows {
            deliver(&step.outputs()[k], &outs[k].at(t)?, reqs[k])?;
        }
    }
    for s in 0..p.states {
        let last = steps.bound.last().map_or(&ins[p.data + s], |step| &step.outputs()[p.rows + s]);
        deliver(last, &outs[p.rows + s], reqs[p.rows + s])?;
    }
    Ok(())
}

/// Inputs: gradients of the outputs, the inputs, the outputs. Outputs: gradients of the inputs that are not changed.
fn backward(ctx: &OpCtx<'_>, ins: &[NDArray], igrads: &[NDArray], reqs: &[Req]) -> Result<()> {
    let p = ctx.params::<ForeachParam>();
    let (ograds, ins) = ins.split_at(p.outputs);
    let ins = &ins[..p.inputs];
    let kept = kept::<Steps>(ctx.cache);
    let mut steps = kept.lock();
    let bound_before = steps.bound.first().is_some_and(|b| b.grads.iter().any(Option::is_some));
    bind(ctx, p, ins, true, &mut steps)?;
    if !bound_before {
        // The forward call did not know that a gradient would be asked for.
        steps.bound.iter().try_for_each(|step| step.forward(ctx.is_train))?;
    }
    steps.sums.iter().flatten().for_each(clear);
    // Gradients of the states after the step at hand.
    let states = ograds[p.rows..].iter().map(|g| g.to_context(ctx.context)).collect::<Result<Vec<_>>>()?;
    let differentiated: Vec<usize> = (0..p.inputs).filter(|i| !p.mutated.contains(i)).collect();
    for (t, step) in steps.bound.iter().enumerate().rev() {
        let mut heads = Vec::with_capacity(p.outputs);
        for rows in &ograds[..p.rows] {
            heads.push(rows.at(t)?);
        }
        heads.extend(states.iter().cloned());
        step.backward(&heads, ctx.is_train)?;
        for (s, state) in states.iter().enumerate() {
            match &step.grads[p.places[p.data + s]] {
                Some(grad) => state.copy_from(grad)?,
                None => clear(state),
            }
        }
        for (k, i) in differentiated.iter().enumerate().filter(|(_, i)| **i < p.data) {
            let to = igrads[k].at(t)?;
            finish(step.grads[p.places[*i]].as_ref(), &to, reqs[k])?;
        }
    }
    for (k, i) in differentiated.iter().enumerate().filter(|(_, i)| **i >= p.data) {
        let total = if *i < p.data + p.states { Some(&states[i - p.data]) } else { steps.sums[p.places[*i]].as_ref() };
        finish(total, &igrads[k], reqs[k])?;
    }
    Ok(())
}
