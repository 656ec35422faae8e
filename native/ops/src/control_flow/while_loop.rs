//! `_while_loop`: a graph again and again while a condition holds.

use std::sync::Arc;

use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::host::Subgraph;
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Deps, OpCtx, OpDef};
use ferromx_core::params::{Attrs, FieldInfo, OpParams, Params, Tuple};
use ferromx_core::shape::Shape;
use ferromx_core::storage::Req;
use ferromx_core::{ensure, params};

use super::frame::{Bound, clear, deliver, finish, kept, pick, same, truth, zeros_like};
use super::{attached, check_inputs, count, graph, infer_dtypes, infer_shapes, merge, merge_type, mutated, positions};

params! {
    /// Parameters of `_while_loop` as text.
    pub struct WhileText {
        /// Number of inputs, the graphs included.
        num_args: i32 = required, where 2..=i32::MAX;
        /// Number of outputs: those of every step, and then the last loop variables.
        num_outputs: i32 = required;
        /// Number of outputs that every step gives.
        num_out_data: i32 = required;
        /// The most steps, which is the length of the outputs that every step gives.
        max_iterations: i32 = required;
        /// For each input of the condition the input of the operator.
        cond_input_locs: Tuple<i64> = required;
        /// For each input of the step the input of the operator.
        func_input_locs: Tuple<i64> = required;
        /// Which inputs of the step are the loop variables.
        func_var_locs: Tuple<i64> = required;
    }
}

/// Parameters of `_while_loop`.
pub struct WhileParam {
    inputs: usize,
    outputs: usize,
    rows: usize,
    most: usize,
    cond_locs: Vec<usize>,
    func_locs: Vec<usize>,
    /// Inputs of the step that are loop variables.
    vars: Vec<usize>,
    graphs: Option<[Arc<dyn Subgraph>; 2]>,
    mutated: Vec<usize>,
}

impl OpParams for WhileParam {
    fn fields() -> Vec<FieldInfo> {
        WhileText::fields()
    }

    fn parse(attrs: &Attrs) -> Result<Self> {
        let p = WhileText::parse(attrs)?;
        let (outputs, rows) = (count(p.num_outputs, "num_outputs")?, count(p.num_out_data, "num_out_data")?);
        let highest = p.cond_input_locs.0.iter().chain(&p.func_input_locs.0).max().map_or(0, |i| *i + 1);
        // Before the inputs are there, num_args does not count them.
        let inputs = (p.num_args as usize - 2).max(usize::try_from(highest).unwrap_or(0));
        let vars = positions(&p.func_var_locs, p.func_input_locs.0.len(), "func_var_locs")?;
        ensure!(
            outputs == rows + vars.len(),
            "num_outputs is {outputs}, but num_out_data is {rows} and there are {} loop variables",
            vars.len()
        );
        Ok(WhileParam {
            inputs,
            outputs,
            rows,
            most: count(p.max_iterations, "max_iterations")?,
            cond_locs: positions(&p.cond_input_locs, inputs, "cond_input_locs")?,
            func_locs: positions(&p.func_input_locs, inputs, "func_input_locs")?,
            vars,
            graphs: None,
            mutated: vec![],
        })
    }
}

impl WhileParam {
    fn graphs(&self) -> Result<(&dyn Subgraph, &dyn Subgraph)> {
        let graphs = self.graphs.as_ref();
        Ok((attached(graphs.map(|g| &g[0]))?, attached(graphs.map(|g| &g[1]))?))
    }

    /// The inputs of the operator that are loop variables.
    fn var_inputs(&self) -> impl Iterator<Item = usize> {
        self.vars.iter().map(|v| self.func_locs[*v])
    }
}

fn with_graphs(params: &Params, graphs: Vec<Arc<dyn Subgraph>>) -> Result<Params> {
    let p = params.get::<WhileParam>();
    let graphs: [Arc<dyn Subgraph>; 2] = graphs.try_into().map_err(|_| Error::value("two graphs were expected"))?;
    check_inputs(&*graphs[0], p.cond_locs.len(), "cond_input_locs")?;
    check_inputs(&*graphs[1], p.func_locs.len(), "func_input_locs")?;
    ensure!(graphs[0].outputs() == 1, "the condition has {} outputs; it must have one", graphs[0].outputs());
    ensure!(
        graphs[1].outputs() == p.outputs,
        "the graph of a step has {} outputs, but num_outputs is {}",
        graphs[1].outputs(),
        p.outputs
    );
    let mutated = mutated(&[(&*graphs[0], &p.cond_locs), (&*graphs[1], &p.func_locs)]);
    Ok(Params::new(WhileParam {
        cond_locs: p.cond_locs.clone(),
        func_locs: p.func_locs.clone(),
        vars: p.vars.clone(),
        graphs: Some(graphs),
        mutated,
        ..*p
    }))
}

/// The loop with a condition.
pub static WHILE_LOOP: OpDef = OpDef::new("_while_loop")
    .doc(
        "Runs a graph while a condition on its loop variables holds, at most max_iterations times: (out, variables) = \
         func(variables, others) while cond(variables, others) is not zero. The outputs are those of the steps, stacked to \
         max_iterations rows of which those beyond the last step are zero, and the loop variables after the last step. Gradients \
         flow through all steps, not through the condition.",
    )
    .graphs(&[graph("cond", "The graph of the condition."), graph("func", "The graph of one step.")], with_graphs)
    .variadic("data", "The inputs of both graphs.", "num_args")
    .params::<WhileParam>()
    .num_inputs_by(|p| p.get::<WhileParam>().inputs)
    .input_names_by(|p| (0..p.get::<WhileParam>().inputs).map(|i| format!("data{i}")).collect())
    .mutates_by(|p| &p.get::<WhileParam>().mutated)
    .outputs(|p| p.get::<WhileParam>().outputs)
    .shape(infer_shape)
    .dtype(infer_dtype)
    .host(forward)
    .random()
    .grad(Grad::Kernel(Backward::host(backward).inputs(Deps::All).outputs(Deps::All), None));

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<WhileParam>();
    let (cond, func) = p.graphs()?;
    infer_shapes(cond, &p.cond_locs, io.ins, &mut [Shape::unknown()])?;
    let mut outs = io.outs.to_vec();
    for out in &mut outs[..p.rows] {
        *out = if out.ndim_is_known() { Shape::new(out.dims().get(1..).unwrap_or(&[])) } else { Shape::unknown() };
    }
    let share = |ins: &mut [Shape], outs: &mut [Shape]| -> Result<()> {
        for (v, i) in p.var_inputs().enumerate() {
            merge(&mut outs[p.rows + v], &ins[i].clone(), "a loop variable")?;
            merge(&mut ins[i], &outs[p.rows + v].clone(), "a loop variable")?;
        }
        Ok(())
    };
    share(io.ins, &mut outs)?;
    infer_shapes(func, &p.func_locs, io.ins, &mut outs)?;
    share(io.ins, &mut outs)?;
    for (k, out) in outs.iter().enumerate() {
        let stacked = k < p.rows && out.ndim_is_known();
        let shape = if stacked { Shape::new(&[&[p.most as i64], out.dims()].concat()) } else { out.clone() };
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
        merge_type(&mut io.outs[p.rows + v], io.ins[i], "a loop variable")?;
        merge_type(&mut io.ins[i], io.outs[p.rows + v], "a loop variable")?;
    }
    Ok(())
}

/// The steps that were needed so far, each with its condition, and how many the last call took.
#[derive(Default)]
struct Steps {
    conds: Vec<Bound>,
    bound: Vec<Bound>,
    sums: Vec<Option<NDArray>>,
    taken: usize,
    train: bool,
    /// What one step after the other runs in where no gradients are asked for.
    turning: Option<Turning>,
    /// Whether the steps are not those of the last call, which asked for no gradients.
    stale: bool,
}

/// A step and its condition, bound to variables of their own: what a step makes becomes the variables of the next one, so that a loop
/// takes the same memory however long it is.
struct Turning {
    ins: Vec<NDArray>,
    variables: Vec<NDArray>,
    cond: Bound,
    step: Bound,
}

impl Turning {
    fn new(ctx: &OpCtx<'_>, p: &WhileParam, ins: &[NDArray]) -> Result<Turning> {
        let (cond, func) = p.graphs()?;
        let mut inner = ins.to_vec();
        let mut variables = Vec::with_capacity(p.vars.len());
        for i in p.var_inputs() {
            inner[i] = zeros_like(&ins[i])?;
            variables.push(inner[i].clone());
        }
        let bind = |graph, locs| Bound::new(graph, ctx.context, pick(&inner, locs), false, &[]);
        let (cond, step) = (bind(cond, &p.cond_locs)?, bind(func, &p.func_locs)?);
        Ok(Turning { ins: ins.to_vec(), variables, cond, step })
    }

    /// The outputs of a step become its variables. What shares memory with a variable is copied before any of them changes.
    fn advance(&self, made: &[NDArray]) -> Result<()> {
        let is_variable = |array: &NDArray| self.variables.iter().any(|v| Arc::ptr_eq(v.chunk(), array.chunk()));
        let copy = |array: &NDArray| {
            let copy = zeros_like(array)?;
            copy.copy_from(array)?;
            Ok(copy)
        };
        let apart: Vec<Option<NDArray>> =
            made.iter().map(|array| is_variable(array).then(|| copy(array)).transpose()).collect::<Result<_>>()?;
        for ((variable, array), copied) in self.variables.iter().zip(made).zip(&apart) {
            variable.copy_from(copied.as_ref().unwrap_or(array))?;
        }
        Ok(())
    }
}

/// Runs the loop without keeping what its steps made; each is delivered to the rows of the outputs at once.
fn turn(
    ctx: &OpCtx<'_>,
    p: &WhileParam,
    (ins, outs): (&[NDArray], &[NDArray]),
    reqs: &[Req],
    steps: &mut Steps,
) -> Result<()> {
    let turning = match steps.turning.take().filter(|t| t.ins.iter().zip(ins).all(|(a, b)| same(a, b))) {
        Some(turning) => turning,
        None => Turning::new(ctx, p, ins)?,
    };
    let turning = steps.turning.insert(turning);
    steps.stale = true;
    for (variable, i) in turning.variables.iter().zip(p.var_inputs()) {
        variable.copy_from(&ins[i])?;
    }
    let mut taken = 0;
    while taken < p.most {
        turning.cond.forward(false)?;
        if !truth(&turning.cond.outputs()[0])? {
            break;
        }
        turning.step.forward(false)?;
        let (rows, variables) = turning.step.outputs().split_at(p.rows);
        for (k, row) in rows.iter().enumerate() {
            finish(Some(row), &outs[k].at(taken)?, reqs[k])?;
        }
        turning.advance(variables)?;
        taken += 1;
    }
    for k in 0..p.rows {
        (taken..p.most).try_for_each(|t| finish(None, &outs[k].at(t)?, reqs[k]))?;
    }
    turning.variables.iter().enumerate().try_for_each(|(v, x)| deliver(x, &outs[p.rows + v], reqs[p.rows + v]))
}

/// Runs the loop, binding steps that are not there or not bound to the arrays at hand. Returns the loop variables at its end.
fn run(ctx: &OpCtx<'_>, p: &WhileParam, ins: &[NDArray], train: bool, steps: &mut Steps) -> Result<Vec<NDArray>> {
    let (cond, func) = p.graphs()?;
    if train && !steps.train {
        steps.bound.clear();
        steps.train = true;
    }
    if steps.bound.is_empty() {
        steps.sums = vec![None; p.func_locs.len()];
        let constant = |place: &usize| !p.vars.contains(place) && train && ins[p.func_locs[*place]].dtype().is_float();
        for place in (0..p.func_locs.len()).filter(constant) {
            steps.sums[place] = Some(zeros_like(&ins[p.func_locs[place]])?);
        }
    }
    let mut current = ins.to_vec();
    (steps.taken, steps.stale) = (0, false);
    while steps.taken < p.most {
        let t = steps.taken;
        renew(&mut steps.conds, t, pick(&current, &p.cond_locs), false, |ins| {
            Bound::new(cond, ctx.context, ins, false, &[])
        })?;
        steps.conds[t].forward(ctx.is_train)?;
        if !truth(&steps.conds[t].outputs()[0])? {
            break;
        }
        let sums = &steps.sums;
        renew(&mut steps.bound, t, pick(&current, &p.func_locs), train, |ins| {
            Bound::new(func, ctx.context, ins, steps.train, sums)
        })?;
        steps.bound[t].forward(ctx.is_train)?;
        for (v, i) in p.var_inputs().enumerate() {
            current[i] = steps.bound[t].outputs()[p.rows + v].clone();
        }
        steps.taken += 1;
    }
    Ok(p.var_inputs().map(|i| current[i].clone()).collect())
}

/// Binds step `t` anew unless it is bound to these inputs.
fn renew(
    bound: &mut Vec<Bound>,
    t: usize,
    ins: Vec<NDArray>,
    train: bool,
    make: impl FnOnce(Vec<NDArray>) -> Result<Bound>,
) -> Result<()> {
    if bound.get(t).is_some_and(|b| b.fits(&ins, train)) {
        return Ok(());
    }
    bound.truncate(t);
    bound.push(make(ins)?);
    Ok(())
}

fn forward(ctx: &OpCtx<'_>, ins: &[NDArray], outs: &[NDArray], reqs: &[Req]) -> Result<()> {
    let p = ctx.params::<WhileParam>();
    let kept = kept::<Steps>(ctx.cache);
    let mut steps = kept.lock();
    if !ctx.is_train {
        return turn(ctx, p, (ins, outs), reqs, &mut steps);
    }
    let last = run(ctx, p, ins, true, &mut steps)?;
    for k in 0..p.rows {
        for t in 0..p.most {
            let row = steps.bound.get(t).filter(|_| t < steps.taken).map(|step| &step.outputs()[k]);
            finish(row, &outs[k].at(t)?, reqs[k])?;
        }
    }
    last.iter().enumerate().try_for_each(|(v, array)| deliver(array, &outs[p.rows + v], reqs[p.rows + v]))
}

/// Inputs: gradients of the outputs, the inputs, the outputs. Outputs: gradients of the inputs that are not changed.
fn backward(ctx: &OpCtx<'_>, ins: &[NDArray], igrads: &[NDArray], reqs: &[Req]) -> Result<()> {
    let p = ctx.params::<WhileParam>();
    let (ograds, ins) = ins.split_at(p.outputs);
    let ins = &ins[..p.inputs];
    let kept = kept::<Steps>(ctx.cache);
    let mut steps = kept.lock();
    if !steps.train || steps.stale {
        // The forward call did not know that a gradient would be asked for.
        run(ctx, p, ins, true, &mut steps)?;
    }
    steps.sums.iter().flatten().for_each(clear);
    let vars = ograds[p.rows..].iter().map(|g| g.to_context(ctx.context)).collect::<Result<Vec<_>>>()?;
    for t in (0..steps.taken).rev() {
        let step = &steps.bound[t];
        let mut heads = ograds[..p.rows].iter().map(|rows| rows.at(t)).collect::<Result<Vec<_>>>()?;
        heads.extend(vars.iter().cloned());
        step.backward(&heads, ctx.is_train)?;
        for (var, place) in vars.iter().zip(&p.vars) {
            finish(step.grads[*place].as_ref(), var, Req::Write)?;
        }
    }
    let differentiated = (0..p.inputs).filter(|i| !p.mutated.contains(i));
    for (k, i) in differentiated.enumerate() {
        let var = p.var_inputs().position(|var| var == i).map(|v| &vars[v]);
        let constant = || p.func_locs.iter().position(|loc| *loc == i).and_then(|place| steps.sums[place].as_ref());
        finish(var.or_else(constant), &igrads[k], reqs[k])?;
    }
    Ok(())
}
