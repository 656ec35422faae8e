//! Error recovery: the import continues after a node that cannot be mapped, so that it reports all problems.
//!
//! The outputs of such a node become placeholders with the declared types and shapes. If a node that reads placeholders fails, too, it is
//! mapped again with tensors of guessed types and shapes instead. A problem that occurs for all guesses is the node's own and is reported;
//! one that depends on the guesses is not.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;

use super::Importer;
use super::match_pattern::GraphContext;
use crate::emit::check_shape;
use crate::error::{Error, Problem, Result};
use crate::ir::{Graph, Node, Value, ValueInfo};

/// Maximum number of attempts with guesses in one import, which bounds the time for a model with many problems.
const MAX_ATTEMPTS: usize = 1 << 15;
/// Element types that are tried first, then all others.
const COMMON: [DType; 3] = [DType::F32, DType::I64, DType::Bool];
/// Ranks that are tried.
const RANKS: [usize; 7] = [4, 3, 2, 1, 0, 5, 6];

/// The state of error recovery.
#[derive(Default)]
pub(super) struct Diagnosis {
    /// The nodes that are being mapped, the innermost one last.
    pub within: Vec<String>,
    /// Nodes and problems already reported: a loop body is mapped several times.
    reported: HashSet<String>,
    /// True if there are placeholders.
    has_placeholders: bool,
    /// Number of attempts with guesses.
    num_attempts: usize,
    /// True during an attempt.
    is_trying: bool,
    /// The graphs that were mapped outside attempts, by their address in the model.
    visited: HashSet<usize>,
}

impl Diagnosis {
    /// Records that a graph is mapped, so that its problems are reported.
    pub(super) fn visit(&mut self, graph: &Graph) {
        if !self.is_trying {
            self.visited.insert(std::ptr::from_ref(graph) as usize);
        }
    }
}

/// A guess of the unknown properties of a placeholder.
#[derive(Clone, Copy)]
struct Guess {
    dtype: Option<DType>,
    rank: Option<usize>,
    /// The length of unknown dimensions.
    length: Option<i64>,
    /// True if the tensor has a known value.
    is_constant: bool,
}

/// How attempts with all forms of a guess end.
enum Outcome {
    /// One succeeds, or fails for a reason that another value of a placeholder could remove.
    NotOwnProblem,
    /// All fail, with different problems.
    DifferentProblems,
    /// All fail with this problem.
    SameProblem(Error),
}

/// The values of `length` and `is_constant` that are tried for each type and rank.
const FORMS: [(Option<i64>, bool); 3] = [(None, false), (Some(2), false), (Some(1), true)];

impl Importer<'_> {
    /// Reports problems of the graph that is being mapped.
    pub(super) fn report(&mut self, problems: Vec<Problem>) {
        let within = self.diagnosis.within.join(" / ");
        let outer = |inner: String| if within.is_empty() { inner } else { format!("{within} / {inner}") };
        for problem in problems.into_iter().map(|p| Problem { location: outer(p.location), ..p }) {
            if self.diagnosis.is_trying || self.diagnosis.reported.insert(problem.to_string()) {
                self.problems.push(problem);
            }
        }
    }

    /// Reports a problem of the whole model.
    pub(super) fn report_model(&mut self, e: Error) {
        for problem in e.at("model") {
            if self.diagnosis.reported.insert(problem.to_string()) {
                self.problems.push(problem);
            }
        }
    }

    /// Reports a node's problem, unless placeholders cause it or it has been reported.
    pub(super) fn node_failed(&mut self, context: &GraphContext<'_, '_>, node: &Node, e: Error) {
        let key = format!("{:?} {} {:?} {:?}", self.diagnosis.within, node.label(), node.inputs, node.outputs);
        if self.diagnosis.reported.contains(&key) {
            return;
        }
        if let Some(own) = self.own_problem(context, node, e) {
            self.report(own.at(node.label()));
            if !self.diagnosis.is_trying {
                self.diagnosis.reported.insert(key);
            }
        }
    }

    /// Counts an attempt. True if it exceeds the limit.
    pub(super) fn has_tried_enough(&mut self) -> bool {
        self.diagnosis.num_attempts += 1;
        self.diagnosis.num_attempts > MAX_ATTEMPTS
    }

    /// True during an attempt.
    pub(super) fn is_trying(&self) -> bool {
        self.diagnosis.is_trying
    }

    /// Reports that the check is incomplete if the limit was reached.
    pub(super) fn report_limit(&mut self) {
        if self.diagnosis.num_attempts > MAX_ATTEMPTS {
            let text = "it has too many problems, so some later nodes were not checked: fix these first";
            self.report(Error::unsupported(text).at("model"));
        }
    }

    /// Checks the subgraphs of a node that could not be mapped.
    pub(super) fn check_subgraphs(&mut self, node: &Node) {
        if self.diagnosis.is_trying || self.emitter.builder.is_executing() {
            return;
        }
        self.diagnosis.within.push(node.label());
        for value in node.attributes.values() {
            let Value::Graph(graph) = value else { continue };
            if self.diagnosis.visited.contains(&(Arc::as_ptr(graph) as usize)) {
                continue;
            }
            let inputs = graph.inputs.iter().map(|i| (i.name.clone(), self.placeholder(&i.name, Some(i)))).collect();
            if let Err(e) = self.subgraph(graph, inputs) {
                self.report(e.at(format!("graph '{}'", graph.name)));
            }
        }
        self.diagnosis.within.pop();
    }

    /// Placeholders for the outputs of a node that could not be mapped.
    pub(super) fn placeholders(&mut self, graph: &Graph, node: &Node) -> Vec<Value> {
        let mut placeholder = |name: &String| match name.as_str() {
            "" => Value::None,
            _ => self.placeholder(name, graph.values.get(name)),
        };
        node.outputs.iter().map(&mut placeholder).collect()
    }

    /// A placeholder with the declared type and shape.
    pub(super) fn placeholder(&mut self, name: &str, info: Option<&ValueInfo>) -> Value {
        let shape = info.map_or(Shape::unknown(), ValueInfo::shape);
        let shape = if check_shape(&shape).is_ok() { shape } else { Shape::unknown() };
        let dtype = info.and_then(|i| i.element.as_ref()).and_then(|e| e.dtype().ok());
        self.diagnosis.has_placeholders = true;
        Value::TensorId(self.emitter.builder.placeholder(name, shape, dtype))
    }

    /// Marks the outputs of a node that reads placeholders, even if it reads only their shapes.
    pub(super) fn propagate_placeholders(&mut self, node: &Node, outputs: &[Value]) {
        if self.diagnosis.has_placeholders && !self.inputs_from_placeholders(node).is_empty() {
            for output in outputs {
                if let Value::TensorId(id) = output {
                    self.emitter.builder.mark_from_placeholder(*id);
                }
            }
        }
    }

    /// The inputs of a node and its subgraphs that depend on placeholders.
    pub(super) fn inputs_from_placeholders(&self, node: &Node) -> Vec<(String, usize)> {
        let mut names: Vec<&str> = node.inputs.iter().map(String::as_str).chain(node.free_names()).collect();
        names.sort_unstable();
        names.dedup();
        let from_placeholders = |name: &str| match self.value(name) {
            Ok(Value::TensorId(id)) if self.emitter.builder.info(id).is_from_placeholder => {
                Some((name.to_string(), id))
            }
            _ => None,
        };
        names.into_iter().filter_map(from_placeholders).collect()
    }

    /// The problem that a node has for most guesses of its placeholders; `None` if some guess lets it be mapped.
    fn own_problem(&mut self, context: &GraphContext<'_, '_>, node: &Node, e: Error) -> Option<Error> {
        if matches!(&e, Error::Model(problems) if problems.is_empty()) {
            return None;
        }
        let from_placeholders = self.inputs_from_placeholders(node);
        if from_placeholders.is_empty() || self.diagnosis.is_trying || self.known_operator(node).is_err() {
            return Some(e);
        }
        // A placeholder is a tensor, not a sequence.
        if node.op.starts_with("Sequence") || node.op == "ConcatFromSequence" {
            return None;
        }
        let needs_values = e.needs_values();
        if needs_values && !self.lacks_value(node) {
            return None;
        }
        let (dtypes, ranks) = self.guesses(node, &from_placeholders);
        // All types with two ranks, and all ranks with two types.
        let pairs = dtypes.iter().enumerate().flat_map(|(i, dtype)| {
            let ranks = ranks.iter().enumerate();
            ranks.filter_map(move |(k, rank)| (i < 2 || k < 2).then_some((*dtype, *rank)))
        });
        let pairs: Vec<_> = pairs.collect();
        let mut candidates: Vec<(Error, usize)> = Vec::new();
        for (dtype, rank) in pairs.iter().copied() {
            let guess = Guess { dtype, rank, length: None, is_constant: false };
            match self.attempt_forms(context, node, &from_placeholders, guess, needs_values) {
                Outcome::NotOwnProblem => return None,
                Outcome::DifferentProblems => {}
                Outcome::SameProblem(e) => match candidates.iter_mut().find(|(c, _)| c.to_string() == e.to_string()) {
                    Some((_, times)) => *times += 1,
                    None => candidates.push((e, 1)),
                },
            }
        }
        if self.any_mixture_maps(context, node, &from_placeholders) {
            return None;
        }
        let most_frequent = candidates.into_iter().max_by_key(|(_, times)| *times);
        most_frequent.filter(|(_, times)| 2 * times > pairs.len()).map(|(e, _)| e)
    }

    /// Maps a node with all forms of a type and a rank. `needs_values` says whether the node's problem is an unknown value.
    fn attempt_forms(
        &mut self,
        context: &GraphContext<'_, '_>,
        node: &Node,
        from_placeholders: &[(String, usize)],
        guess: Guess,
        needs_values: bool,
    ) -> Outcome {
        let mut common: Option<Error> = None;
        let mut is_same = true;
        for (length, is_constant) in FORMS {
            let guess = Guess { length, is_constant, ..guess };
            match self.attempt(context, node, from_placeholders, &|_| guess) {
                // The missing value may not depend on placeholders.
                Err(Error::Model(inner)) if inner.is_empty() => return Outcome::NotOwnProblem,
                Err(e) if e.needs_values() == needs_values || (needs_values && !is_constant) => {
                    is_same &= common.as_ref().is_none_or(|earlier| earlier.to_string() == e.to_string());
                    common = Some(e);
                }
                _ => return Outcome::NotOwnProblem,
            }
        }
        match common.filter(|_| is_same) {
            Some(e) => Outcome::SameProblem(e),
            None => Outcome::DifferentProblems,
        }
    }

    /// True if an input that does not depend on placeholders has unknown elements. Symbolic dimensions may come from placeholders.
    fn lacks_value(&self, node: &Node) -> bool {
        node.inputs.iter().any(|name| match self.value(name) {
            Ok(Value::TensorId(id)) => {
                let info = self.emitter.builder.info(id);
                !info.is_from_placeholder && info.value.is_none() && info.symbolic_value.is_none()
            }
            _ => false,
        })
    }

    /// Element types and ranks that placeholders may have, those of the other inputs first.
    fn guesses(&self, node: &Node, from_placeholders: &[(String, usize)]) -> (Vec<Option<DType>>, Vec<Option<usize>>) {
        let infos: Vec<_> = from_placeholders.iter().map(|(_, id)| self.emitter.builder.info(*id)).collect();
        let others = node.inputs.iter().filter_map(|name| match self.value(name) {
            Ok(Value::TensorId(id)) => Some(self.emitter.builder.info(id)),
            _ => None,
        });
        let (mut dtypes, mut ranks) = (vec![None], vec![None]);
        let others: Vec<_> = others.collect();
        if infos.iter().any(|i| i.dtype.is_none()) {
            let known = others.iter().filter_map(|i| i.dtype);
            dtypes = known.chain(COMMON).chain(DType::ALL).map(Some).collect();
        }
        if infos.iter().any(|i| !i.shape.ndim_is_known()) {
            ranks = others.iter().filter_map(|i| i.shape.ndim()).chain(RANKS).map(Some).collect();
        }
        let mut seen = HashSet::new();
        dtypes.retain(|d| seen.insert(*d));
        let mut seen = HashSet::new();
        ranks.retain(|r| seen.insert(*r));
        (dtypes, ranks)
    }

    /// True if a node with several placeholders can be mapped with a different guess for each.
    fn any_mixture_maps(
        &mut self,
        context: &GraphContext<'_, '_>,
        node: &Node,
        from_placeholders: &[(String, usize)],
    ) -> bool {
        let plain = Guess { dtype: None, rank: None, length: None, is_constant: false };
        let pairs = |n: usize| (0..n * n).map(move |i| (i / n, i % n)).filter(|(a, b)| a != b);
        for one in 0..if from_placeholders.len() > 1 { from_placeholders.len() } else { 0 } {
            for (a, b) in pairs(COMMON.len()) {
                let guess = |i| Guess { dtype: Some(if i == one { COMMON[a] } else { COMMON[b] }), ..plain };
                if self.attempt(context, node, from_placeholders, &guess).is_ok() {
                    return true;
                }
            }
            for (a, b) in pairs(RANKS.len()) {
                let guess = |i| Guess { rank: Some(if i == one { RANKS[a] } else { RANKS[b] }), ..plain };
                if self.attempt(context, node, from_placeholders, &guess).is_ok() {
                    return true;
                }
            }
        }
        false
    }

    /// Maps a node with guesses for its placeholders, then removes the created operators.
    fn attempt(
        &mut self,
        context: &GraphContext<'_, '_>,
        node: &Node,
        from_placeholders: &[(String, usize)],
        guess: &dyn Fn(usize) -> Guess,
    ) -> Result<()> {
        if self.has_tried_enough() {
            return Ok(());
        }
        let checkpoint = self.emitter.builder.checkpoint();
        let problems = std::mem::take(&mut self.problems);
        let scope = self.guessed_scope(from_placeholders, guess);
        self.scopes.push(scope);
        self.diagnosis.is_trying = true;
        let result = self.map(context, node);
        self.diagnosis.is_trying = false;
        self.scopes.pop();
        self.emitter.builder.roll_back(checkpoint);
        let inner = std::mem::replace(&mut self.problems, problems);
        if inner.is_empty() { result.map(|_| ()) } else { Err(Error::Model(inner)) }
    }

    /// Guessed tensors for the names of placeholders.
    fn guessed_scope(
        &mut self,
        from_placeholders: &[(String, usize)],
        guess: &dyn Fn(usize) -> Guess,
    ) -> HashMap<String, Value> {
        let mut scope = HashMap::new();
        for (i, (name, placeholder)) in from_placeholders.iter().enumerate() {
            let guess = guess(i);
            let info = self.emitter.builder.info(*placeholder);
            let dtype = info.dtype.or(guess.dtype);
            let dims: Option<Vec<i64>> = match (info.shape.ndim_is_known(), guess.rank) {
                (true, _) => Some(info.shape.dims().to_vec()),
                (false, rank) => rank.map(|rank| vec![-1; rank]),
            };
            let length = guess.length.unwrap_or(-1);
            let shape = dims.map(|dims| dims.iter().map(|d| if *d < 0 { length } else { *d }).collect::<Vec<_>>());
            let shape = shape.map_or(Shape::unknown(), |dims| Shape::new(&dims));
            let is_small = shape.checked_elements().is_ok_and(|n| n <= 1 << 16);
            let zeros = |shape: &Shape| NDArray::zeros(shape, dtype.unwrap_or(DType::F32), Context::default()).ok();
            let tensor_id = match Some(&shape).filter(|_| guess.is_constant && is_small).and_then(zeros) {
                Some(array) => self.emitter.builder.constant(name, array),
                None => self.emitter.builder.placeholder(name, shape, dtype),
            };
            scope.insert(name.clone(), Value::TensorId(tensor_id));
        }
        scope
    }
}
