//! `_foreach`: runs a graph for each row of the data and carries states from row to row.

use std::sync::Arc;

use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Deps, Mode, OpCtx, Operator};
use ferromx_core::params::{Attrs, FieldInfo, OpParams, Params, Tuple};
use ferromx_core::shape::Shape;
use ferromx_core::storage::Req;
use ferromx_core::subgraph::Subgraph;
use ferromx_core::{ensure, params};

use super::bound::{Bound, fill_zeros, node_state, write_or_zero, write_output, zeros_like};
use super::{attached_graph, check_num_inputs, graph, input_indices, merge, merge_type, to_count};

params! {
    /// Parameters of `_foreach` as the metadata lists them.
    pub struct ForeachAttrs {
        /// Number of inputs including the graph.
        num_args: i32 = required, where 1..=i32::MAX;
        /// Number of outputs: the stacked outputs of the iterations, then the final states.
        num_outputs: i32 = required;
        /// Number of outputs of an iteration, without states.
        num_out_data: i32 = required;
        /// For each state, the index of the graph's input.
        in_state_locs: Tuple<i64> = required;
        /// For each data input, the index of the graph's input.
        in_data_locs: Tuple<i64> = required;
        /// For each input that is constant over the loop, the index of the graph's input.
        remain_locs: Tuple<i64> = required;
    }
}

/// Parameters of `_foreach`.
pub(super) struct ForeachParam {
    /// Number of inputs of the operator: data, states, loop constants.
    num_inputs: usize,
    num_outputs: usize,
    /// Number of outputs of an iteration, without states.
    num_out_data: usize,
    /// For each input of the operator, the index of the graph's input.
    graph_inputs: Vec<usize>,
    num_data: usize,
    num_states: usize,
    body: Option<Arc<dyn Subgraph>>,
    /// Inputs of the operator that the graph mutates.
    mutated: Vec<usize>,
}

impl OpParams for ForeachParam {
    fn fields() -> Vec<FieldInfo> {
        ForeachAttrs::fields()
    }

    fn parse(attrs: &Attrs) -> Result<Self> {
        let p = ForeachAttrs::parse(attrs)?;
        let num_outputs = to_count(p.num_outputs, "num_outputs")?;
        let num_out_data = to_count(p.num_out_data, "num_out_data")?;
        let (num_data, num_states) = (p.in_data_locs.0.len(), p.in_state_locs.0.len());
        let all_locs =
            Tuple([&p.in_data_locs, &p.in_state_locs, &p.remain_locs].iter().flat_map(|l| l.0.clone()).collect());
        let graph_inputs = input_indices(&all_locs, all_locs.0.len(), "in_data_locs, in_state_locs or remain_locs")?;
        let mut sorted = graph_inputs.clone();
        sorted.sort_unstable();
        sorted.dedup();
        ensure!(sorted.len() == graph_inputs.len(), "in_data_locs, in_state_locs and remain_locs name an input twice");
        ensure!(
            num_outputs == num_out_data + num_states,
            "num_outputs is {num_outputs}, but num_out_data is {num_out_data} and there are {num_states} states"
        );
        ensure!(num_data > 0, "in_data_locs is empty: _foreach needs at least one data input");
        Ok(ForeachParam {
            num_inputs: p.num_args as usize - 1,
            num_outputs,
            num_out_data,
            graph_inputs,
            num_data,
            num_states,
            body: None,
            mutated: vec![],
        })
    }
}

fn with_graphs(params: &Params, graphs: Vec<Arc<dyn Subgraph>>) -> Result<Params> {
    let p = params.get::<ForeachParam>();
    let body = graphs.into_iter().next();
    let graph = attached_graph(body.as_ref())?;
    check_num_inputs(graph, p.graph_inputs.len(), "in_data_locs, in_state_locs and remain_locs together")?;
    ensure!(
        graph.outputs() == p.num_outputs,
        "the graph has {} outputs, but num_outputs is {}",
        graph.outputs(),
        p.num_outputs
    );
    ensure!(
        p.num_inputs == p.graph_inputs.len(),
        "{} inputs were given, but the graph has {}",
        p.num_inputs,
        p.graph_inputs.len()
    );
    let mutated = (0..p.num_inputs).filter(|i| graph.states().contains(&p.graph_inputs[*i])).collect();
    let graph_inputs = p.graph_inputs.clone();
    Ok(Params::new(ForeachParam { graph_inputs, body, mutated, ..*p }))
}

pub(crate) static FOREACH: Operator<ForeachAttrs> = Operator::new("_foreach")
    .parsed_as::<ForeachParam>()
    .doc(
        "Runs a graph for each row of the data along the first axis: (out, states) = fn(row, states, others). The outputs are the \
         stacked outputs of the iterations and the final states. Gradients flow through all iterations.",
    )
    .graphs(&[graph("fn", "The graph of one iteration.")], with_graphs)
    .variadic("data", "The data, then the initial states, then the loop constants.", "num_args")
    .num_inputs_by(|p| p.get::<ForeachParam>().num_inputs)
    .input_names_by(|p| (0..p.get::<ForeachParam>().num_inputs).map(|i| format!("data{i}")).collect())
    .mutates_by(|p| &p.get::<ForeachParam>().mutated)
    .outputs(|p| p.get::<ForeachParam>().num_outputs)
    .shape(infer_shape)
    .dtype(infer_dtype)
    .foreign(forward)
    .random()
    .grad(Grad::Kernel(Backward::foreign(backward).inputs(Deps::All).outputs(Deps::All), None));

/// The shape of a row of the data. A row of a vector has shape (1,), like the result of [`NDArray::at`].
fn row_shape(shape: &Shape) -> Shape {
    match shape.dims() {
        _ if !shape.ndim_is_known() => Shape::unknown(),
        [_, rest @ ..] if !rest.is_empty() => Shape::new(rest),
        _ => Shape::new(&[1]),
    }
}

/// The shape of one iteration's output, given that of the stacked outputs.
fn unstacked_shape(shape: &Shape) -> Shape {
    if shape.ndim_is_known() { Shape::new(shape.dims().get(1..).unwrap_or(&[])) } else { Shape::unknown() }
}

/// The shape of `num_rows` stacked rows.
fn stacked_shape(row: &Shape, num_rows: i64) -> Shape {
    if !row.ndim_is_known() {
        return Shape::unknown();
    }
    Shape::new(&[&[num_rows], row.dims()].concat())
}

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<ForeachParam>();
    let body = attached_graph(p.body.as_ref())?;
    let mut ins = vec![Shape::unknown(); p.graph_inputs.len()];
    let mut outs = vec![Shape::unknown(); p.num_outputs];
    let mut num_iterations = -1;
    for shape in io.ins[..p.num_data].iter().chain(&io.outs[..p.num_out_data]).filter(|s| s.ndim_is_known()) {
        ensure!(!shape.dims().is_empty(), "data of _foreach is a scalar: give it at least one dimension");
        ensure!(
            num_iterations < 0 || shape.dim(0) < 0 || shape.dim(0) == num_iterations,
            "data of _foreach has {num_iterations} and {} rows",
            shape.dim(0)
        );
        num_iterations = num_iterations.max(shape.dim(0));
    }
    for (i, input) in p.graph_inputs.iter().enumerate() {
        let known = if i < p.num_data { row_shape(&io.ins[i]) } else { io.ins[i].clone() };
        merge(&mut ins[*input], &known, "an input of the loop")?;
    }
    for (k, out) in outs.iter_mut().enumerate() {
        *out = if k < p.num_out_data { unstacked_shape(&io.outs[k]) } else { io.outs[k].clone() };
    }
    // A state has the same shape before and after an iteration.
    for s in 0..p.num_states {
        let input = p.graph_inputs[p.num_data + s];
        merge(&mut outs[p.num_out_data + s], &ins[input].clone(), "a state of the loop")?;
        merge(&mut ins[input], &outs[p.num_out_data + s].clone(), "a state of the loop")?;
    }
    body.infer_shape(&mut ins, &mut outs)?;
    for s in 0..p.num_states {
        let input = p.graph_inputs[p.num_data + s];
        merge(&mut ins[input], &outs[p.num_out_data + s].clone(), "a state of the loop")?;
    }
    for (i, input) in p.graph_inputs.iter().enumerate() {
        match i < p.num_data {
            // A row shape of (1,) may be that of a vector or of a matrix with one column, so the rank of the data decides.
            true if io.ins[i].dims().len() == 1 => io.assign_in(i, &Shape::new(&[num_iterations]))?,
            true => io.assign_in(i, &stacked_shape(&ins[*input], num_iterations))?,
            false => io.assign_in(i, &ins[*input])?,
        }
    }
    for (k, out) in outs.iter().enumerate() {
        io.assign_out(k, &if k < p.num_out_data { stacked_shape(out, num_iterations) } else { out.clone() })?;
    }
    Ok(())
}

fn infer_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let p = p.get::<ForeachParam>();
    let body = attached_graph(p.body.as_ref())?;
    let mut ins = vec![None; p.graph_inputs.len()];
    p.graph_inputs.iter().enumerate().for_each(|(i, input)| ins[*input] = io.ins[i]);
    let mut outs = io.outs.to_vec();
    for s in 0..p.num_states {
        let input = p.graph_inputs[p.num_data + s];
        merge_type(&mut ins[input], outs[p.num_out_data + s], "a state of the loop")?;
        merge_type(&mut outs[p.num_out_data + s], ins[input], "a state of the loop")?;
    }
    body.infer_dtype(&mut ins, &mut outs)?;
    for (i, input) in p.graph_inputs.iter().enumerate() {
        merge_type(&mut io.ins[i], ins[*input], "an input of the loop")?;
    }
    for (k, out) in outs.into_iter().enumerate() {
        merge_type(&mut io.outs[k], out, "an output of the loop")?;
    }
    Ok(())
}

/// The state of a node between calls.
#[derive(Default)]
struct Iterations {
    /// The iterations, each bound to its rows of the data and to the states of the previous iteration.
    bound: Vec<Bound>,
    /// The sum of the gradients over all iterations, for each input of the graph that is constant over the loop.
    sums: Vec<Option<NDArray>>,
}

/// Binds the iterations unless they are already bound to these arrays.
fn bind(ctx: &OpCtx<'_>, p: &ForeachParam, ins: &[NDArray], mode: Mode, iterations: &mut Iterations) -> Result<()> {
    let body = attached_graph(p.body.as_ref())?;
    let n = ins.first().map_or(0, |data| data.shape().dim(0) as usize);
    let mut all_bound = iterations.bound.len() == n;
    let inputs_of = |t: usize, previous: Option<&Bound>| -> Result<Vec<NDArray>> {
        let mut inputs = vec![None; p.graph_inputs.len()];
        for (i, input) in p.graph_inputs.iter().enumerate() {
            inputs[*input] = Some(match previous {
                _ if i < p.num_data => ins[i].at(t)?,
                Some(previous) if i < p.num_data + p.num_states => {
                    previous.outputs()[p.num_out_data + i - p.num_data].clone()
                }
                _ => ins[i].clone(),
            });
        }
        Ok(inputs.into_iter().flatten().collect())
    };
    for t in 0..n {
        all_bound = all_bound && {
            let previous = t.checked_sub(1).map(|t| &iterations.bound[t]);
            iterations.bound[t].is_bound_to(&inputs_of(t, previous)?, mode)
        };
    }
    if all_bound {
        return Ok(());
    }
    iterations.bound.clear();
    iterations.sums = vec![None; p.graph_inputs.len()];
    for i in (p.num_data + p.num_states..p.num_inputs).filter(|i| mode == Mode::Training && ins[*i].dtype().is_float())
    {
        iterations.sums[p.graph_inputs[i]] = Some(zeros_like(&ins[i])?);
    }
    for t in 0..n {
        let inputs = inputs_of(t, iterations.bound.last())?;
        iterations.bound.push(Bound::new(body, ctx.context, inputs, mode, &iterations.sums)?);
    }
    Ok(())
}

fn forward(ctx: &OpCtx<'_>, ins: &[NDArray], outs: &[NDArray], reqs: &[Req]) -> Result<()> {
    let p = ctx.params::<ForeachParam>();
    let state = node_state::<Iterations>(ctx.cache);
    let mut iterations = state.lock();
    bind(ctx, p, ins, ctx.mode(), &mut iterations)?;
    for (t, iteration) in iterations.bound.iter().enumerate() {
        iteration.forward(ctx.mode())?;
        for k in 0..p.num_out_data {
            write_output(&iteration.outputs()[k], &outs[k].at(t)?, reqs[k])?;
        }
    }
    for s in 0..p.num_states {
        let last =
            iterations.bound.last().map_or(&ins[p.num_data + s], |iteration| &iteration.outputs()[p.num_out_data + s]);
        write_output(last, &outs[p.num_out_data + s], reqs[p.num_out_data + s])?;
    }
    Ok(())
}

/// Inputs: gradients of the outputs, the inputs, the outputs. Outputs: gradients of the inputs that are not mutated.
fn backward(ctx: &OpCtx<'_>, ins: &[NDArray], igrads: &[NDArray], reqs: &[Req]) -> Result<()> {
    let p = ctx.params::<ForeachParam>();
    let (ograds, ins) = ins.split_at(p.num_outputs);
    let ins = &ins[..p.num_inputs];
    let state = node_state::<Iterations>(ctx.cache);
    let mut iterations = state.lock();
    let has_gradients = iterations.bound.first().is_some_and(|b| b.grads.iter().any(Option::is_some));
    bind(ctx, p, ins, Mode::Training, &mut iterations)?;
    if !has_gradients {
        // The forward call ran for inference and bound no gradients.
        iterations.bound.iter().try_for_each(|iteration| iteration.forward(ctx.mode()))?;
    }
    iterations.sums.iter().flatten().for_each(fill_zeros);
    // The gradients of the states after the current iteration.
    let state_grads = ograds[p.num_out_data..].iter().map(|g| g.to_context(ctx.context)).collect::<Result<Vec<_>>>()?;
    let with_gradient: Vec<usize> = (0..p.num_inputs).filter(|i| !p.mutated.contains(i)).collect();
    for (t, iteration) in iterations.bound.iter().enumerate().rev() {
        let mut head_grads = Vec::with_capacity(p.num_outputs);
        for rows in &ograds[..p.num_out_data] {
            head_grads.push(rows.at(t)?);
        }
        head_grads.extend(state_grads.iter().cloned());
        iteration.backward(&head_grads, ctx.mode())?;
        for (s, state_grad) in state_grads.iter().enumerate() {
            match &iteration.grads[p.graph_inputs[p.num_data + s]] {
                Some(grad) => state_grad.copy_from(grad)?,
                None => fill_zeros(state_grad),
            }
        }
        for (k, i) in with_gradient.iter().enumerate().filter(|(_, i)| **i < p.num_data) {
            let to = igrads[k].at(t)?;
            write_or_zero(iteration.grads[p.graph_inputs[*i]].as_ref(), &to, reqs[k])?;
        }
    }
    for (k, i) in with_gradient.iter().enumerate().filter(|(_, i)| **i >= p.num_data) {
        let grad = if *i < p.num_data + p.num_states {
            Some(&state_grads[i - p.num_data])
        } else {
            iterations.sums[p.graph_inputs[*i]].as_ref()
        };
        write_or_zero(grad, &igrads[k], reqs[k])?;
    }
    Ok(())
}
