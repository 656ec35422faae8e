//! Binding: from a symbol and arrays to a plan.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Forward, KernelFn};
use ferromx_core::params::{Attrs, Params};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{Call, Chunk, Region, Req};
use parking_lot::Mutex;

use super::Executor;
use super::place::{self, Placement};
use super::plan::{Plan, Step, copy_kernel, zero_kernel};
use crate::graph::{Action, Graph, entry, op_call};
use crate::passes::gradient::{self, gradient};
use crate::passes::infer::{self, Entries};
use crate::symbol::Symbol;

/// The arrays that a symbol is bound to, in the order of its arguments and auxiliary states.
pub struct Bound {
    /// Arguments.
    pub args: Vec<NDArray>,
    /// Where gradients go.
    pub grads: Vec<Option<NDArray>>,
    /// What to do with them.
    pub reqs: Vec<Req>,
    /// Auxiliary states.
    pub aux: Vec<NDArray>,
}

/// A gradient to compute: for which argument, the entry, the array, and whether to add.
struct Target {
    entry: Option<Entry>,
    array: NDArray,
    req: Req,
}

impl Executor {
    /// Binds a symbol.
    ///
    /// # Errors
    /// Arrays that are missing, contradict each other or the graph; a gradient through an operator that has none; no memory.
    pub fn bind(symbol: &Symbol, context: Context, bound: Bound, shared: Option<&Executor>) -> Result<Executor> {
        check(symbol, &bound)?;
        let (mut graph, ys) = Graph::from_symbol(symbol);
        let variables = variable_entries(symbol, &graph);
        let mut external: HashMap<Entry, NDArray> = HashMap::new();
        for (e, array) in variables.args.iter().zip(&bound.args).chain(variables.aux.iter().zip(&bound.aux)) {
            external.insert(*e, array.clone());
        }
        let forward_nodes = graph.nodes.len();
        let wanted: Vec<usize> = (0..bound.args.len()).filter(|i| bound.reqs[*i] != Req::Null).collect();
        let mut heads: Vec<Option<Entry>> = vec![None; ys.len()];
        let mut targets: Vec<Target> = Vec::new();
        if !wanted.is_empty() {
            let mut head_grads = Vec::new();
            for (i, y) in ys.iter().enumerate() {
                let head = graph.variable(&format!("head_grad{i}"), Attrs::new());
                heads[i] = Some(head).filter(|_| !graph.node(*y).op().is_some_and(gradient::is_loss));
                head_grads.push(head);
            }
            let xs: Vec<Entry> = wanted.iter().map(|i| variables.args[*i]).collect();
            let request = gradient::Request { ys: &ys, head_grads: &head_grads, xs: &xs, again: false };
            let entries = gradient(&mut graph, &request)?;
            for (i, entry) in wanted.iter().zip(entries) {
                let array = bound.grads[*i].clone().ok_or_else(|| {
                    Error::Value(format!(
                        "argument {} has a gradient request but no gradient array",
                        symbol.list_arguments()[*i]
                    ))
                })?;
                targets.push(Target { entry, array, req: bound.reqs[*i] });
            }
            // Heads that no gradient reads need no array and no argument of `backward`.
            let used = graph.needed_for(targets.iter().filter_map(|t| t.entry));
            for (head, e) in heads.iter_mut().zip(&head_grads) {
                *head = head.filter(|_| used[e.node as usize]);
            }
        }
        refuse_dynamic(&graph)?;
        let (shapes, dtypes) = infer_all(&graph, &external, &ys, &heads)?;
        let mut head_arrays = vec![None; ys.len()];
        for (i, head) in heads.iter().enumerate() {
            if let Some(e) = head {
                let array = NDArray::zeros(&shapes[*e], dtypes[*e].unwrap_or(DType::F32), context)?;
                external.insert(*e, array.clone());
                head_arrays[i] = Some(array);
            }
        }
        let compiler = Compiler { graph: &graph, forward_nodes, ys: &ys, context, shapes: &shapes, dtypes: &dtypes };
        let shared_arena = shared.map(|e| e.plan.lock().arena.clone());
        let (plan, outputs) = compiler.compile(external, &targets, shared_arena)?;
        Ok(Executor {
            symbol: symbol.clone(),
            context,
            args: bound.args,
            grads: bound.grads,
            reqs: bound.reqs,
            aux: bound.aux,
            outputs,
            head_grads: head_arrays,
            plan: Mutex::new(plan),
            monitor: Mutex::new(None),
        })
    }
}

/// Operators whose output shapes depend on the content of their inputs have no place in a plan.
fn refuse_dynamic(graph: &Graph) -> Result<()> {
    for node in &graph.nodes {
        if let Action::Forward(op) = &node.action
            && matches!(op.def.forward, Forward::Dynamic(_))
        {
            return Err(no_plan(op.name, &node.name));
        }
    }
    Ok(())
}

fn no_plan(op: &'static str, node: &str) -> Error {
    let why = "the shape of its output depends on the content of its inputs, which no graph can be planned for: call it on arrays";
    Error::Unsupported(why.into()).in_operator(op, node)
}

fn check(symbol: &Symbol, bound: &Bound) -> Result<()> {
    let (names, aux) = (symbol.list_arguments(), symbol.list_auxiliary_states());
    let n = names.len();
    ensure!(
        bound.args.len() == n,
        "{} argument arrays were given; the symbol has {n}: {}",
        bound.args.len(),
        names.join(", ")
    );
    ensure!(
        bound.aux.len() == aux.len(),
        "{} auxiliary state arrays were given; the symbol has {}: {}",
        bound.aux.len(),
        aux.len(),
        aux.join(", ")
    );
    ensure!(
        bound.grads.len() == n && bound.reqs.len() == n,
        "{} gradient arrays and {} gradient requests were given for {n} arguments",
        bound.grads.len(),
        bound.reqs.len()
    );
    for ((name, arg), grad) in names.iter().zip(&bound.args).zip(&bound.grads) {
        if let Some(g) = grad {
            ensure!(
                g.shape() == arg.shape() && g.dtype() == arg.dtype(),
                "the gradient of argument {name} is {} {}, but the argument is {} {}",
                g.shape(),
                g.dtype(),
                arg.shape(),
                arg.dtype()
            );
        }
    }
    Ok(())
}

struct VariableEntries {
    args: Vec<Entry>,
    aux: Vec<Entry>,
}

/// The entries of arguments and auxiliary states; the graph has the symbol's nodes in the same order.
fn variable_entries(symbol: &Symbol, graph: &Graph) -> VariableEntries {
    let is_aux: Vec<bool> = symbol.variables().into_iter().map(|(_, aux)| aux).collect();
    let nodes = (0..graph.nodes.len()).filter(|i| matches!(graph.nodes[*i].action, Action::Variable));
    let (mut args, mut aux) = (Vec::new(), Vec::new());
    for (i, is_aux) in nodes.zip(is_aux) {
        if is_aux { aux.push(entry(i, 0)) } else { args.push(entry(i, 0)) }
    }
    VariableEntries { args, aux }
}

/// Infers all shapes and types, and checks what was given against what was inferred.
fn infer_all(
    graph: &Graph,
    external: &HashMap<Entry, NDArray>,
    ys: &[Entry],
    heads: &[Option<Entry>],
) -> Result<(Entries<Shape>, Entries<Option<DType>>)> {
    let mut shapes = Entries::new(graph, Shape::unknown());
    let mut dtypes = Entries::new(graph, None);
    for (e, array) in external {
        shapes[*e] = array.shape().clone();
        dtypes[*e] = Some(array.dtype());
    }
    let mut shapes = infer::shapes(graph, shapes)?;
    let mut dtypes = infer::dtypes(graph, dtypes)?;
    if heads.iter().any(Option::is_some) {
        for (y, head) in ys.iter().zip(heads) {
            if let Some(head) = head {
                shapes[*head] = shapes[*y].clone();
                dtypes[*head] = dtypes[*y];
            }
        }
        shapes = infer::shapes(graph, shapes)?;
        dtypes = infer::dtypes(graph, dtypes)?;
    }
    for (e, array) in external {
        let name = &graph.node(*e).name;
        ensure!(
            shapes[*e] == *array.shape(),
            "argument {name}: Shape inconsistent, Provided={}, inferred shape={}",
            array.shape(),
            shapes[*e]
        );
    }
    for y in ys {
        let node = graph.node(*y);
        ensure!(
            shapes[*y].is_known(),
            "the shape of output {} cannot be inferred (known so far: {}): give the shapes of more arguments",
            node.name,
            shapes[*y]
        );
    }
    Ok((shapes, dtypes))
}

struct Compiler<'a> {
    graph: &'a Graph,
    forward_nodes: usize,
    ys: &'a [Entry],
    context: Context,
    shapes: &'a Entries<Shape>,
    dtypes: &'a Entries<Option<DType>>,
}

/// A step before its operands are checked.
struct Draft {
    op: &'static str,
    node: usize,
    kernel: KernelFn,
    params: Params,
    ins: Vec<NDArray>,
    outs: Vec<(NDArray, Req)>,
}

impl Compiler<'_> {
    fn compile(
        &self,
        external: HashMap<Entry, NDArray>,
        targets: &[Target],
        arena: Option<Arc<Chunk>>,
    ) -> Result<(Plan, Vec<NDArray>)> {
        let needed = self.graph.needed_for(self.ys.iter().copied().chain(targets.iter().filter_map(|t| t.entry)));
        let outputs: HashSet<Entry> = self.ys.iter().copied().filter(|y| !external.contains_key(y)).collect();
        let kept: HashSet<Entry> = self.ys.iter().copied().chain(targets.iter().filter_map(|t| t.entry)).collect();
        let (direct, requests) = self.direct_targets(targets, &external, &needed);
        let mut outside = external;
        outside.extend(direct);
        let placement = place::place(&place::Request {
            graph: self.graph,
            needed: &needed,
            shapes: self.shapes,
            dtypes: self.dtypes,
            external: &outside,
            outputs: &outputs,
            kept: &kept,
            context: self.context,
            arena,
        })?;
        let mut drafts = Vec::new();
        let mut forward_steps = 0;
        for i in (0..self.graph.nodes.len()).filter(|i| needed[*i] && !placement.elided[*i]) {
            if let Some(draft) = self.draft(i, &placement, &requests)? {
                drafts.push(draft);
            }
            if i < self.forward_nodes {
                forward_steps = drafts.len();
            }
        }
        self.finish_targets(targets, &outside, &placement, &requests, &mut drafts)?;
        let missing = |e: &Entry| Error::Internal(format!("output {} has no place", self.graph.node(*e).name));
        let output_arrays =
            self.ys.iter().map(|y| placement.arrays[*y].clone().ok_or_else(|| missing(y))).collect::<Result<_>>()?;
        Ok((self.seal(drafts, forward_steps, placement)?, output_arrays))
    }

    /// Gradients that their kernel can write straight into their array. Those to be added need a kernel that adds, and must not be
    /// read by others.
    fn direct_targets(
        &self,
        targets: &[Target],
        external: &HashMap<Entry, NDArray>,
        needed: &[bool],
    ) -> (HashMap<Entry, NDArray>, HashMap<Entry, Req>) {
        let mut direct = HashMap::new();
        let mut requests = HashMap::new();
        for t in targets {
            let Some(e) = t.entry else { continue };
            let node = self.graph.node(e);
            let shared_memory = |a: &NDArray| ferromx_core::storage::overlap(a, &t.array);
            let fits = !external.contains_key(&e)
                && !direct.contains_key(&e)
                && !self.ys.contains(&e)
                && (e.node as usize) >= self.forward_nodes
                && self.shapes[e] == *t.array.shape()
                && self.dtypes[e] == Some(t.array.dtype())
                && !external.values().chain(direct.values()).any(shared_memory);
            let adds = match &node.action {
                Action::Variable => false,
                Action::Forward(op) => op.def.accumulates,
                Action::Backward { backward, .. } => backward.accumulates,
            };
            let readers =
                self.graph.nodes.iter().enumerate().filter(|(i, n)| needed[*i] && n.inputs.contains(&e)).count();
            let view = matches!(&node.action, Action::Forward(op) if matches!(op.def.forward, Forward::View));
            let possible = if t.req == Req::Add {
                adds && readers == 0 && targets.iter().filter(|o| o.entry == t.entry).count() == 1
            } else {
                !view
            };
            if fits && possible {
                direct.insert(e, t.array.clone());
                requests.insert(e, t.req);
            }
        }
        (direct, requests)
    }

    fn draft(&self, i: usize, placement: &Placement, requests: &HashMap<Entry, Req>) -> Result<Option<Draft>> {
        let node = &self.graph.nodes[i];
        let (op, kernel, mutates): (_, KernelFn, &[usize]) = match &node.action {
            Action::Variable => return Ok(None),
            Action::Forward(op) => match op.def.forward_on(self.context.device_type)? {
                Forward::Kernel(k) => (op, k, op.def.mutates),
                Forward::View => (op, copy_kernel as KernelFn, &[]),
                Forward::Dynamic(_) => return Err(no_plan(op.name, &node.name)),
            },
            Action::Backward { op, backward, .. } => (op, backward.kernel, &[]),
        };
        let view = matches!(&node.action, Action::Forward(op) if matches!(op.def.forward, Forward::View));
        let place_of = |e: &Entry| {
            placement.arrays[*e]
                .clone()
                .ok_or_else(|| Error::Internal(format!("an input of {} has no place", node.name)))
        };
        let read = if view { &node.inputs[..1] } else { &node.inputs[..] };
        let ins: Vec<NDArray> = read.iter().map(place_of).collect::<Result<_>>()?;
        let mut outs = Vec::new();
        for k in 0..node.num_outputs {
            let e = entry(i, k);
            match &placement.arrays[e] {
                Some(a) => outs.push((a.clone(), requests.get(&e).copied().unwrap_or(Req::Write))),
                None => outs.push((self.nobody(e, &placement.arena)?, Req::Null)),
            }
        }
        outs.extend(mutates.iter().filter_map(|m| Some((ins.get(*m)?.clone(), Req::Write))));
        Ok(Some(Draft { op: op.name, node: i, kernel, params: op.params.clone(), ins, outs }))
    }

    /// An array of the right shape and type for an output that nobody wants, without memory of its own where the arena is large
    /// enough: it is never touched.
    fn nobody(&self, e: Entry, arena: &Arc<Chunk>) -> Result<NDArray> {
        let (shape, dtype) = (&self.shapes[e], self.dtypes[e].unwrap_or(DType::F32));
        NDArray::view(arena.clone(), 0, shape.clone(), dtype).or_else(|_| NDArray::empty(shape, dtype, self.context))
    }

    /// Adds the copies and additions for gradients that no kernel could write straight into their array.
    fn finish_targets(
        &self,
        targets: &[Target],
        outside: &HashMap<Entry, NDArray>,
        placement: &Placement,
        requests: &HashMap<Entry, Req>,
        drafts: &mut Vec<Draft>,
    ) -> Result<()> {
        let add = op_call("_grad_add", &Attrs::new())?;
        let Forward::Kernel(add_kernel) = add.def.forward else {
            return Err(Error::Internal("_grad_add has no kernel".into()));
        };
        for t in targets {
            let draft = |op, kernel, ins: Vec<NDArray>, node: u32| Draft {
                op,
                node: node as usize,
                kernel,
                params: add.params.clone(),
                ins,
                outs: vec![(t.array.clone(), Req::Write)],
            };
            match t.entry {
                Some(e)
                    if requests.contains_key(&e)
                        && outside[&e].byte_range() == t.array.byte_range()
                        && Arc::ptr_eq(outside[&e].chunk(), t.array.chunk()) => {}
                Some(e) => {
                    let source = placement.arrays[e].clone().ok_or_else(|| {
                        Error::Internal(format!("the gradient {} has no place", self.graph.node(e).name))
                    })?;
                    let source = source.reshape(t.array.shape())?;
                    drafts.push(match t.req {
                        Req::Add => draft("_grad_add", add_kernel, vec![t.array.clone(), source], e.node),
                        _ => draft("_copy", copy_kernel, vec![source], e.node),
                    });
                }
                None if t.req == Req::Add => {}
                None => drafts.push(draft("_zeros", zero_kernel, vec![], 0)),
            }
        }
        Ok(())
    }

    /// Checks the operands of all steps and takes the chunks together under one region.
    fn seal(&self, drafts: Vec<Draft>, forward_steps: usize, placement: Placement) -> Result<Plan> {
        let reads = drafts.iter().flat_map(|d| &d.ins);
        let writes = drafts.iter().flat_map(|d| d.outs.iter().filter(|(_, r)| *r != Req::Null).map(|(a, _)| a));
        let region = Region::new(reads, writes);
        let steps = drafts
            .into_iter()
            .map(|d| {
                let node = &self.graph.nodes[d.node];
                let call = Call::new(&region, &d.ins, d.outs.iter().map(|(a, r)| (a, *r)))
                    .map_err(|e| e.in_operator(d.op, &node.name))?;
                let name = |e: &Entry, array: &NDArray| match self.graph.node(*e).op() {
                    None => (self.graph.node(*e).name.clone(), array.clone()),
                    Some(_) => (self.output_name(*e), array.clone()),
                };
                let visible = (0..node.num_visible().min(node.num_outputs)).map(|k| entry(d.node, k));
                Ok(Step {
                    op: d.op,
                    node: node.name.clone(),
                    kernel: d.kernel,
                    params: d.params,
                    cache: node.cache.clone(),
                    call,
                    inputs: node.inputs.iter().zip(&d.ins).map(|(e, a)| name(e, a)).collect(),
                    outputs: visible
                        .zip(&d.outs)
                        .filter(|(_, (_, r))| *r != Req::Null)
                        .map(|(e, (a, _))| name(&e, a))
                        .collect(),
                })
            })
            .collect::<Result<_>>()?;
        Ok(Plan { region, steps, forward_steps, arena: placement.arena, context: self.context })
    }

    fn output_name(&self, e: Entry) -> String {
        let node = self.graph.node(e);
        let names = match &node.action {
            Action::Forward(op) => op.def.output_names(&op.params),
            _ => Vec::new(),
        };
        format!(
            "{}_{}",
            node.name,
            names.get(e.index as usize).cloned().unwrap_or_else(|| format!("output{}", e.index))
        )
    }
}

/// See [`Executor::reshape`].
pub(super) fn reshape(
    old: &Executor,
    partial_shaping: bool,
    allow_up_sizing: bool,
    shapes: &[(String, Shape)],
) -> Result<Executor> {
    let inferred = crate::symbol_infer::infer_shapes(&old.symbol, shapes)?;
    let given = |name: &str| shapes.iter().any(|(n, _)| n == name);
    let adapt = |name: &str, array: &NDArray, shape: &Shape| -> Result<NDArray> {
        if array.shape() == shape {
            return Ok(array.clone());
        }
        ensure!(shape.is_known(), "the shape of {name} cannot be inferred (known so far: {shape}): give it to reshape");
        ensure!(
            given(name) || partial_shaping,
            "the shape of {name} changes from {} to {shape} although it was not given: allow it with partial_shaping",
            array.shape()
        );
        if shape.num_elements() <= array.len() {
            return NDArray::view(array.chunk().clone(), array.byte_range().start, shape.clone(), array.dtype());
        }
        ensure!(
            allow_up_sizing,
            "the new shape {shape} of {name} is larger than {}: allow new memory with allow_up_sizing",
            array.shape()
        );
        NDArray::zeros(shape, array.dtype(), old.context)
    };
    let names = old.symbol.list_arguments();
    let args: Vec<NDArray> =
        (names.iter().zip(&old.args).zip(&inferred.args)).map(|((n, a), s)| adapt(n, a, s)).collect::<Result<_>>()?;
    let grads = (names.iter().zip(&old.grads).zip(&inferred.args))
        .map(|((n, g), s)| g.as_ref().map(|g| adapt(n, g, s)).transpose())
        .collect::<Result<_>>()?;
    let aux_names = old.symbol.list_auxiliary_states();
    let aux =
        (aux_names.iter().zip(&old.aux).zip(&inferred.aux)).map(|((n, a), s)| adapt(n, a, s)).collect::<Result<_>>()?;
    let bound = Bound { args, grads, reqs: old.reqs.clone(), aux };
    Executor::bind(&old.symbol, old.context, bound, Some(old))
}
