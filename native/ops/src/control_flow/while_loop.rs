//! `_while_loop`: runs a graph while a condition holds.

use std::sync::Arc;

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Deps, Mode, OpCtx, Operator};
use ferromx_core::params::{Attrs, FieldInfo, OpParams, Params, Tuple};
use ferromx_core::shape::Shape;
use ferromx_core::storage::Req;
use ferromx_core::subgraph::Subgraph;
use ferromx_core::{ensure, params};

use super::bound::{Bound, fill_zeros, is_true, node_state, pick, write_or_zero, write_output, zeros_like};
use super::{
    attached_graph, check_num_inputs, graph, infer_dtypes, infer_shapes, input_indices, merge, merge_type,
    mutated_inputs, to_count,
};

params! {
    /// Parameters of `_while_loop` as the metadata lists them.
    pub struct WhileAttrs {
        /// Number of inputs including the graphs.
        num_args: i32 = required, where 2..=i32::MAX;
        /// Number of outputs: the stacked outputs of the iterations, then the final loop variables.
        num_outputs: i32 = required;
        /// Number of outputs of an iteration, without loop variables.
        num_out_data: i32 = required;
        /// Maximum number of iterations, which is the length of the stacked outputs.
        max_iterations: i32 = required;
        /// For each input of the condition, the index of the operator's input.
        cond_input_locs: Tuple<i64> = required;
        /// For each input of the loop body, the index of the operator's input.
        func_input_locs: Tuple<i64> = required;
        /// For each loop variable, the index of the loop body's input.
        func_var_locs: Tuple<i64> = required;
    }
}

/// Parameters of `_while_loop`.
pub(super) struct WhileParam {
    num_inputs: usize,
    num_outputs: usize,
    /// Number of outputs of an iteration, without loop variables.
    num_out_data: usize,
    max_iterations: usize,
    /// For each input of the condition, the index of the operator's input.
    cond_locs: Vec<usize>,
    /// For each input of the loop body, the index of the operator's input.
    func_locs: Vec<usize>,
    /// Indices of the loop body's inputs that are loop variables.
    vars: Vec<usize>,
    /// The condition and the loop body.
    graphs: Option<[Arc<dyn Subgraph>; 2]>,
    /// Inputs of the operator that a graph mutates.
    mutated: Vec<usize>,
}

impl OpParams for WhileParam {
    fn fields() -> Vec<FieldInfo> {
        WhileAttrs::fields()
    }

    fn parse(attrs: &Attrs) -> Result<Self> {
        let p = WhileAttrs::parse(attrs)?;
        let num_outputs = to_count(p.num_outputs, "num_outputs")?;
        let num_out_data = to_count(p.num_out_data, "num_out_data")?;
        let end = p.cond_input_locs.0.iter().chain(&p.func_input_locs.0).max().map_or(0, |i| *i + 1);
        // Until the node is composed, num_args counts only the graphs.
        let num_inputs = (p.num_args as usize - 2).max(usize::try_from(end).unwrap_or(0));
        let vars = input_indices(&p.func_var_locs, p.func_input_locs.0.len(), "func_var_locs")?;
        ensure!(
            num_outputs == num_out_data + vars.len(),
            "num_outputs is {num_outputs}, but num_out_data is {num_out_data} and there are {} loop variables",
            vars.len()
        );
        Ok(WhileParam {
            num_inputs,
            num_outputs,
            num_out_data,
            max_iterations: to_count(p.max_iterations, "max_iterations")?,
            cond_locs: input_indices(&p.cond_input_locs, num_inputs, "cond_input_locs")?,
            func_locs: input_indices(&p.func_input_locs, num_inputs, "func_input_locs")?,
            vars,
            graphs: None,
            mutated: vec![],
        })
    }
}

impl WhileParam {
    /// The condition and the loop body.
    fn graphs(&self) -> Result<(&dyn Subgraph, &dyn Subgraph)> {
        let graphs = self.graphs.as_ref();
        Ok((attached_graph(graphs.map(|g| &g[0]))?, attached_graph(graphs.map(|g| &g[1]))?))
    }

    /// Indices of the operator's inputs that are loop variables.
    fn var_inputs(&self) -> impl Iterator<Item = usize> {
        self.vars.iter().map(|v| self.func_locs[*v])
    }
}

fn with_graphs(params: &Params, graphs: Vec<Arc<dyn Subgraph>>) -> Result<Params> {
    let p = params.get::<WhileParam>();
    let graphs: [Arc<dyn Subgraph>; 2] = graphs.try_into().map_err(|_| Error::value("two subgraphs were expected"))?;
    check_num_inputs(&*graphs[0], p.cond_locs.len(), "cond_input_locs")?;
    check_num_inputs(&*graphs[1], p.func_locs.len(), "func_input_locs")?;
    ensure!(graphs[0].outputs() == 1, "the condition has {} outputs; it must have one", graphs[0].outputs());
    ensure!(
        graphs[1].outputs() == p.num_outputs,
        "the subgraph of an iteration has {} outputs, but num_outputs is {}",
        graphs[1].outputs(),
        p.num_outputs
    );
    let mutated = mutated_inputs(&[(&*graphs[0], &p.cond_locs), (&*graphs[1], &p.func_locs)]);
    Ok(Params::new(WhileParam {
        cond_locs: p.cond_locs.clone(),
        func_locs: p.func_locs.clone(),
        vars: p.vars.clone(),
        graphs: Some(graphs),
        mutated,
        ..*p
    }))
}

pub(crate) static WHILE_LOOP: Operator<WhileAttrs> = Operator::new("_while_loop")
    .parsed_as::<WhileParam>()
    .doc(
        "Runs a graph while a condition on its loop variables holds, at most max_iterations times: (out, variables) = \
         func(variables, others) while cond(variables, others) is not zero. The outputs are those of the iterations, stacked to \
         max_iterations rows, zero after the last iteration, and the final loop variables. Gradients \
         flow through all iterations, not through the condition.",
    )
    .graphs(&[graph("cond", "The graph of the condition."), graph("func", "The graph of one iteration.")], with_graphs)
    .variadic("data", "The inputs of both graphs.", "num_args")
    .num_inputs_by(|p| p.get::<WhileParam>().num_inputs)
    .input_names_by(|p| (0..p.get::<WhileParam>().num_inputs).map(|i| format!("data{i}")).collect())
    .mutates_by(|p| &p.get::<WhileParam>().mutated)
    .outputs(|p| p.get::<WhileParam>().num_outputs)
    .shape(infer_shape)
    .dtype(infer_dtype)
    .foreign(forward)
    .random()
    .grad(Grad::Kernel(Backward::foreign(backward).inputs(Deps::All).outputs(Deps::All), None));

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<WhileParam>();
    let (cond, func) = p.graphs()?;
    infer_shapes(cond, &p.cond_locs, io.ins, &mut [Shape::unknown()])?;
    let mut outs = io.outs.to_vec();
    for out in &mut outs[..p.num_out_data] {
        *out = if out.ndim_is_known() { Shape::new(out.dims().get(1..).unwrap_or(&[])) } else { Shape::unknown() };
    }
    let unify_variables = |ins: &mut [Shape], outs: &mut [Shape]| -> Result<()> {
        for (v, i) in p.var_inputs().enumerate() {
            merge(&mut outs[p.num_out_data + v], &ins[i].clone(), "a loop variable")?;
            merge(&mut ins[i], &outs[p.num_out_data + v].clone(), "a loop variable")?;
        }
        Ok(())
    };
    unify_variables(io.ins, &mut outs)?;
    infer_shapes(func, &p.func_locs, io.ins, &mut outs)?;
    unify_variables(io.ins, &mut outs)?;
    for (k, out) in outs.iter().enumerate() {
        let is_stacked = k < p.num_out_data && out.ndim_is_known();
        let shape =
            if is_stacked { Shape::new(&[&[p.max_iterations as i64], out.dims()].concat()) } else { out.clone() };
        io.assign_out(k, &shape)?;
    }
    Ok(())
}

fn infer_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let p = p.get::<WhileParam>();
    let (cond, func) = p.graphs()?;
    infer_dtypes(cond, &p.cond_locs, io.ins, &mut [None])?;
    infer_dtypes(func, &p.func_locs, io.ins, io.outs)?;
    for (v, i) in p.var_inputs().enumerate() {
        merge_type(&mut io.outs[p.num_out_data + v], io.ins[i], "a loop variable")?;
        merge_type(&mut io.ins[i], io.outs[p.num_out_data + v], "a loop variable")?;
    }
    Ok(())
}

/// The state of a node between calls.
#[derive(Default)]
struct Iterations {
    /// The condition before each iteration, bound to the loop variables of that iteration.
    conds: Vec<Bound>,
    /// The iterations, each bound to the loop variables that the previous one computed.
    bound: Vec<Bound>,
    /// The sum of the gradients over all iterations, for each input of the loop body that is constant over the loop.
    sums: Vec<Option<NDArray>>,
    /// Number of iterations that the last call ran.
    num_run: usize,
    /// The loop without gradients.
    inference: Option<InferenceLoop>,
    /// Whether the bound iterations hold the values of the last call, which then ran with gradients.
    is_current: bool,
}

/// One iteration and its condition, bound to a single set of loop variables. The results of an iteration are copied back into the
/// variables, so that memory does not grow with the number of iterations.
struct InferenceLoop {
    ins: Vec<NDArray>,
    variables: Vec<NDArray>,
    cond: Bound,
    iteration: Bound,
}

impl InferenceLoop {
    fn new(ctx: &OpCtx<'_>, p: &WhileParam, ins: &[NDArray]) -> Result<InferenceLoop> {
        let (cond, func) = p.graphs()?;
        let mut loop_ins = ins.to_vec();
        let mut variables = Vec::with_capacity(p.vars.len());
        for i in p.var_inputs() {
            loop_ins[i] = zeros_like(&ins[i])?;
            variables.push(loop_ins[i].clone());
        }
        let bind = |graph, locs| Bound::new(graph, ctx.context, pick(&loop_ins, locs), Mode::Inference, &[]);
        let (cond, iteration) = (bind(cond, &p.cond_locs)?, bind(func, &p.func_locs)?);
        Ok(InferenceLoop { ins: ins.to_vec(), variables, cond, iteration })
    }

    /// Copies the outputs of an iteration into the loop variables. An output that shares memory with a variable is first copied to a
    /// temporary array, because it could be overwritten before it is read.
    fn advance(&self, new_values: &[NDArray]) -> Result<()> {
        let is_variable = |array: &NDArray| self.variables.iter().any(|v| Arc::ptr_eq(v.chunk(), array.chunk()));
        let copy = |array: &NDArray| {
            let copy = zeros_like(array)?;
            copy.copy_from(array)?;
            Ok(copy)
        };
        let temporaries: Vec<Option<NDArray>> = new_values
            .iter()
            .map(|array| is_variable(array).then(|| copy(array)).transpose())
            .collect::<Result<_>>()?;
        for ((variable, array), temporary) in self.variables.iter().zip(new_values).zip(&temporaries) {
            variable.copy_from(temporary.as_ref().unwrap_or(array))?;
        }
        Ok(())
    }
}

/// Runs the loop without gradients. Each iteration overwrites the previous one, after its outputs were written to their rows.
fn run_inference(
    ctx: &OpCtx<'_>,
    p: &WhileParam,
    (ins, outs): (&[NDArray], &[NDArray]),
    reqs: &[Req],
    iterations: &mut Iterations,
) -> Result<()> {
    let inference = match iterations.inference.take().filter(|t| t.ins.iter().zip(ins).all(|(a, b)| a.is_same_view(b)))
    {
        Some(inference) => inference,
        None => InferenceLoop::new(ctx, p, ins)?,
    };
    let inference = iterations.inference.insert(inference);
    iterations.is_current = false;
    for (variable, i) in inference.variables.iter().zip(p.var_inputs()) {
        variable.copy_from(&ins[i])?;
    }
    let mut num_run = 0;
    while num_run < p.max_iterations {
        inference.cond.forward(ctx.mode())?;
        if !is_true(&inference.cond.outputs()[0])? {
            break;
        }
        inference.iteration.forward(ctx.mode())?;
        let (out_data, variables) = inference.iteration.outputs().split_at(p.num_out_data);
        for (k, output) in out_data.iter().enumerate() {
            write_or_zero(Some(output), &outs[k].at(num_run)?, reqs[k])?;
        }
        inference.advance(variables)?;
        num_run += 1;
    }
    for k in 0..p.num_out_data {
        (num_run..p.max_iterations).try_for_each(|t| write_or_zero(None, &outs[k].at(t)?, reqs[k]))?;
    }
    inference
        .variables
        .iter()
        .enumerate()
        .try_for_each(|(v, x)| write_output(x, &outs[p.num_out_data + v], reqs[p.num_out_data + v]))
}

/// Runs the loop and keeps its iterations for the backward pass, reusing those that are already bound to these arrays. Returns the final
/// loop variables.
fn run(ctx: &OpCtx<'_>, p: &WhileParam, ins: &[NDArray], iterations: &mut Iterations) -> Result<Vec<NDArray>> {
    let (cond, func) = p.graphs()?;
    if iterations.bound.is_empty() {
        iterations.sums = vec![None; p.func_locs.len()];
        let is_constant_with_gradient =
            |input: &usize| !p.vars.contains(input) && ins[p.func_locs[*input]].dtype().is_float();
        for input in (0..p.func_locs.len()).filter(is_constant_with_gradient) {
            iterations.sums[input] = Some(zeros_like(&ins[p.func_locs[input]])?);
        }
    }
    let mut current = ins.to_vec();
    (iterations.num_run, iterations.is_current) = (0, true);
    while iterations.num_run < p.max_iterations {
        let t = iterations.num_run;
        bind_iteration(&mut iterations.conds, t, pick(&current, &p.cond_locs), Mode::Inference, |ins| {
            Bound::new(cond, ctx.context, ins, Mode::Inference, &[])
        })?;
        iterations.conds[t].forward(ctx.mode())?;
        if !is_true(&iterations.conds[t].outputs()[0])? {
            break;
        }
        let sums = &iterations.sums;
        bind_iteration(&mut iterations.bound, t, pick(&current, &p.func_locs), Mode::Training, |ins| {
            Bound::new(func, ctx.context, ins, Mode::Training, sums)
        })?;
        iterations.bound[t].forward(ctx.mode())?;
        for (v, i) in p.var_inputs().enumerate() {
            current[i] = iterations.bound[t].outputs()[p.num_out_data + v].clone();
        }
        iterations.num_run += 1;
    }
    Ok(p.var_inputs().map(|i| current[i].clone()).collect())
}

/// Binds iteration `t` unless it is already bound to these inputs.
fn bind_iteration(
    bound: &mut Vec<Bound>,
    t: usize,
    ins: Vec<NDArray>,
    mode: Mode,
    make: impl FnOnce(Vec<NDArray>) -> Result<Bound>,
) -> Result<()> {
    if bound.get(t).is_some_and(|b| b.is_bound_to(&ins, mode)) {
        return Ok(());
    }
    bound.truncate(t);
    bound.push(make(ins)?);
    Ok(())
}

fn forward(ctx: &OpCtx<'_>, ins: &[NDArray], outs: &[NDArray], reqs: &[Req]) -> Result<()> {
    let p = ctx.params::<WhileParam>();
    let state = node_state::<Iterations>(ctx.cache);
    let mut iterations = state.lock();
    if !ctx.is_train {
        return run_inference(ctx, p, (ins, outs), reqs, &mut iterations);
    }
    let variables = run(ctx, p, ins, &mut iterations)?;
    for k in 0..p.num_out_data {
        for t in 0..p.max_iterations {
            let row =
                iterations.bound.get(t).filter(|_| t < iterations.num_run).map(|iteration| &iteration.outputs()[k]);
            write_or_zero(row, &outs[k].at(t)?, reqs[k])?;
        }
    }
    variables
        .iter()
        .enumerate()
        .try_for_each(|(v, array)| write_output(array, &outs[p.num_out_data + v], reqs[p.num_out_data + v]))
}

/// Inputs: gradients of the outputs, the inputs, the outputs. Outputs: gradients of the inputs that are not mutated.
fn backward(ctx: &OpCtx<'_>, ins: &[NDArray], igrads: &[NDArray], reqs: &[Req]) -> Result<()> {
    let p = ctx.params::<WhileParam>();
    let (ograds, ins) = ins.split_at(p.num_outputs);
    let ins = &ins[..p.num_inputs];
    let state = node_state::<Iterations>(ctx.cache);
    let mut iterations = state.lock();
    if !iterations.is_current {
        // The forward call ran for inference and bound no gradients.
        run(ctx, p, ins, &mut iterations)?;
    }
    iterations.sums.iter().flatten().for_each(fill_zeros);
    let var_grads = ograds[p.num_out_data..].iter().map(|g| g.to_context(ctx.context)).collect::<Result<Vec<_>>>()?;
    for t in (0..iterations.num_run).rev() {
        let iteration = &iterations.bound[t];
        let mut head_grads = ograds[..p.num_out_data].iter().map(|rows| rows.at(t)).collect::<Result<Vec<_>>>()?;
        head_grads.extend(var_grads.iter().cloned());
        iteration.backward(&head_grads, ctx.mode())?;
        for (var_grad, input) in var_grads.iter().zip(&p.vars) {
            write_or_zero(iteration.grads[*input].as_ref(), var_grad, Req::Write)?;
        }
    }
    let with_gradient = (0..p.num_inputs).filter(|i| !p.mutated.contains(i));
    for (k, i) in with_gradient.enumerate() {
        let var_grad = p.var_inputs().position(|var| var == i).map(|v| &var_grads[v]);
        let constant_grad =
            || p.func_locs.iter().position(|loc| *loc == i).and_then(|input| iterations.sums[input].as_ref());
        write_or_zero(var_grad.or_else(constant_grad), &igrads[k], reqs[k])?;
    }
    Ok(())
}
