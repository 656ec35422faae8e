//! `_cond`: runs one of two graphs.

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

use super::bound::{Bound, is_true, node_state, pick, write_or_zero, write_output};
use super::{
    attached_graph, check_num_inputs, graph, infer_dtypes, infer_shapes, input_indices, mutated_inputs, to_count,
};

params! {
    /// Parameters of `_cond` as the metadata lists them.
    pub struct CondAttrs {
        /// Number of inputs including the graphs.
        num_args: i32 = required, where 3..=i32::MAX;
        /// Number of outputs of each branch.
        num_outputs: i32 = required;
        /// For each input of the condition, the index of the operator's input.
        cond_input_locs: Tuple<i64> = required;
        /// For each input of the then-branch, the index of the operator's input.
        then_input_locs: Tuple<i64> = required;
        /// For each input of the else-branch, the index of the operator's input.
        else_input_locs: Tuple<i64> = required;
    }
}

/// Parameters of `_cond`.
pub(super) struct CondParam {
    num_inputs: usize,
    num_outputs: usize,
    /// For each input of condition, then-branch and else-branch, the index of the operator's input.
    locs: [Vec<usize>; 3],
    graphs: Option<[Arc<dyn Subgraph>; 3]>,
    /// Inputs of the operator that a graph mutates.
    mutated: Vec<usize>,
}

/// The parameters that list the inputs of condition, then-branch and else-branch.
const LOCS: [&str; 3] = ["cond_input_locs", "then_input_locs", "else_input_locs"];

impl OpParams for CondParam {
    fn fields() -> Vec<FieldInfo> {
        CondAttrs::fields()
    }

    fn parse(attrs: &Attrs) -> Result<Self> {
        let p = CondAttrs::parse(attrs)?;
        let lists = [&p.cond_input_locs, &p.then_input_locs, &p.else_input_locs];
        let end = lists.iter().flat_map(|locs| &locs.0).max().map_or(0, |i| *i + 1);
        // Until the node is composed, num_args counts only the graphs.
        let num_inputs = (p.num_args.max(3) as usize - 3).max(usize::try_from(end).unwrap_or(0));
        let mut locs = [const { Vec::new() }; 3];
        for (i, list) in lists.iter().enumerate() {
            locs[i] = input_indices(list, num_inputs, LOCS[i])?;
        }
        let num_outputs = to_count(p.num_outputs, "num_outputs")?;
        Ok(CondParam { num_inputs, num_outputs, locs, graphs: None, mutated: vec![] })
    }
}

impl CondParam {
    fn graph(&self, i: usize) -> Result<&dyn Subgraph> {
        attached_graph(self.graphs.as_ref().map(|graphs| &graphs[i]))
    }
}

fn with_graphs(params: &Params, graphs: Vec<Arc<dyn Subgraph>>) -> Result<Params> {
    let p = params.get::<CondParam>();
    let graphs: [Arc<dyn Subgraph>; 3] =
        graphs.try_into().map_err(|_| Error::value("three subgraphs were expected"))?;
    for (i, graph) in graphs.iter().enumerate() {
        check_num_inputs(&**graph, p.locs[i].len(), LOCS[i])?;
        let num_outputs = if i == 0 { 1 } else { p.num_outputs };
        ensure!(
            graph.outputs() == num_outputs,
            "graph {i} has {} outputs, but {num_outputs} were expected",
            graph.outputs()
        );
    }
    let mutated = mutated_inputs(&[(&*graphs[0], &p.locs[0]), (&*graphs[1], &p.locs[1]), (&*graphs[2], &p.locs[2])]);
    Ok(Params::new(CondParam { locs: p.locs.clone(), graphs: Some(graphs), mutated, ..*p }))
}

pub(crate) static COND: Operator<CondAttrs> = Operator::new("_cond")
    .parsed_as::<CondParam>()
    .doc(
        "Runs one of two graphs: then_branch if the condition, an array of one element, is not zero, otherwise else_branch. Gradients \
         flow only through the branch that ran.",
    )
    .graphs(
        &[
            graph("cond", "The graph of the condition."),
            graph("then_branch", "The graph to run if it holds."),
            graph("else_branch", "The graph to run otherwise."),
        ],
        with_graphs,
    )
    .variadic("data", "The inputs of all graphs.", "num_args")
    .num_inputs_by(|p| p.get::<CondParam>().num_inputs)
    .input_names_by(|p| (0..p.get::<CondParam>().num_inputs).map(|i| format!("data{i}")).collect())
    .mutates_by(|p| &p.get::<CondParam>().mutated)
    .outputs(|p| p.get::<CondParam>().num_outputs)
    .shape(infer_shape)
    .dtype(infer_dtype)
    .foreign(forward)
    .random()
    .grad(Grad::Kernel(Backward::foreign(backward).inputs(Deps::All).outputs(Deps::All), None));

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<CondParam>();
    infer_shapes(p.graph(0)?, &p.locs[0], io.ins, &mut [Shape::unknown()])?;
    (1..3).try_for_each(|i| infer_shapes(p.graph(i)?, &p.locs[i], io.ins, io.outs))
}

fn infer_dtype(p: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    let p = p.get::<CondParam>();
    infer_dtypes(p.graph(0)?, &p.locs[0], io.ins, &mut [None])?;
    (1..3).try_for_each(|i| infer_dtypes(p.graph(i)?, &p.locs[i], io.ins, io.outs))
}

/// The state of a node between calls.
#[derive(Default)]
struct Branches {
    /// Condition, then-branch and else-branch, each bound when it is first needed.
    bound: [Option<Bound>; 3],
    /// The index of the branch that the last call took; 0 before the first call.
    taken: usize,
}

impl Branches {
    /// Runs graph `i`, after binding it unless it is already bound to these inputs.
    fn run(&mut self, ctx: &OpCtx<'_>, i: usize, ins: &[NDArray], mode: Mode) -> Result<&Bound> {
        let p = ctx.params::<CondParam>();
        let ins = pick(ins, &p.locs[i]);
        let reusable = self.bound[i].take().filter(|b| b.is_bound_to(&ins, mode));
        let bound = match reusable {
            Some(bound) => bound,
            None => Bound::new(p.graph(i)?, ctx.context, ins, mode, &[])?,
        };
        bound.forward(ctx.mode())?;
        Ok(self.bound[i].insert(bound))
    }
}

fn forward(ctx: &OpCtx<'_>, ins: &[NDArray], outs: &[NDArray], reqs: &[Req]) -> Result<()> {
    let state = node_state::<Branches>(ctx.cache);
    let mut branches = state.lock();
    let condition = is_true(&branches.run(ctx, 0, ins, Mode::Inference)?.outputs()[0])?;
    branches.taken = if condition { 1 } else { 2 };
    let taken = branches.taken;
    let branch = branches.run(ctx, taken, ins, ctx.mode())?;
    branch.outputs().iter().zip(outs).zip(reqs).try_for_each(|((from, to), req)| write_output(from, to, *req))
}

/// Inputs: gradients of the outputs, the inputs, the outputs. Outputs: gradients of the inputs that are not mutated.
fn backward(ctx: &OpCtx<'_>, ins: &[NDArray], igrads: &[NDArray], reqs: &[Req]) -> Result<()> {
    let p = ctx.params::<CondParam>();
    let (ograds, ins) = ins.split_at(p.num_outputs);
    let ins = &ins[..p.num_inputs];
    let state = node_state::<Branches>(ctx.cache);
    let mut branches = state.lock();
    if branches.taken == 0 {
        return Err(Error::value("the backward pass of _cond needs a forward pass first"));
    }
    let taken = branches.taken;
    let branch_ins = pick(ins, &p.locs[taken]);
    if !branches.bound[taken].as_ref().is_some_and(|b| b.is_bound_to(&branch_ins, Mode::Training)) {
        // The forward call ran for inference and bound no gradients.
        branches.run(ctx, taken, ins, Mode::Training)?;
    }
    let Some(branch) = &branches.bound[taken] else {
        return Err(Error::Internal("the branch that was taken is not bound".into()));
    };
    branch.backward(ograds, ctx.mode())?;
    let with_gradient = (0..p.num_inputs).filter(|i| !p.mutated.contains(i));
    for (k, i) in with_gradient.enumerate() {
        let input = p.locs[taken].iter().position(|loc| *loc == i);
        write_or_zero(input.and_then(|input| branch.grads[input].as_ref()), &igrads[k], reqs[k])?;
    }
    Ok(())
}
