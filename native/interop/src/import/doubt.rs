//! What happens behind a node that could not be mapped: the check goes on, so that one check finds everything.
//!
//! Such a node's outputs become placeholders, of which is known what the model declares. A node behind it that cannot be mapped, either, is
//! tried again with other tensors in their place. What is said whatever stands there is wrong with the node itself, and is reported; what
//! depends on the placeholders is not.

use std::collections::{HashMap, HashSet};

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;

use super::eval::Surroundings;
use super::order::free_names;
use super::{Importer, builder};
use crate::error::{Error, Problem, Result};
use crate::ir::{Graph, Node, Value, ValueInfo};

/// Nodes that are mapped with other tensors in all of an import: what a model with many problems may cost.
const MAX_TRIALS: usize = 1 << 15;
/// Element types that are tried first, and all others.
const COMMON: [DType; 3] = [DType::F32, DType::I64, DType::Bool];
/// Numbers of dimensions that are tried.
const RANKS: [usize; 7] = [4, 3, 2, 1, 0, 5, 6];

/// What was found to be wrong, and what was tried.
#[derive(Default)]
pub(super) struct Doubts {
    /// The nodes that are being mapped, the innermost one last.
    pub within: Vec<String>,
    /// Nodes and problems that were reported: bodies of loops are mapped several times.
    reported: HashSet<String>,
    /// Whether there are placeholders.
    any: bool,
    /// How many nodes were mapped with other tensors.
    trials: usize,
    /// Whether a node is only tried.
    trying: bool,
}

/// What may stand in place of a placeholder: what is known of that stays.
#[derive(Clone, Copy)]
struct Guess {
    dtype: Option<DType>,
    rank: Option<usize>,
    /// The length of dimensions that are not known.
    length: Option<i64>,
    /// Whether it is a constant.
    constant: bool,
}

/// The forms in which a guess of type and rank is tried.
const FORMS: [(Option<i64>, bool); 3] = [(None, false), (Some(2), false), (Some(1), true)];

impl Importer<'_> {
    /// Reports problems of the graph that is being mapped.
    pub(super) fn report(&mut self, problems: Vec<Problem>) {
        let around = self.doubts.within.join(" / ");
        let outer = |place: String| if around.is_empty() { place } else { format!("{around} / {place}") };
        for problem in problems.into_iter().map(|p| Problem { place: outer(p.place), ..p }) {
            if self.doubts.trying || self.doubts.reported.insert(problem.to_string()) {
                self.problems.push(problem);
            }
        }
    }

    /// How much was reported so far.
    pub(crate) fn problem_count(&self) -> usize {
        self.problems.len()
    }

    /// Reports what is wrong with a node, unless placeholders are to blame, or it was reported before.
    pub(super) fn node_failed(&mut self, around: &Surroundings<'_, '_>, node: &Node, e: Error) {
        let key = format!("{:?} {} {:?} {:?}", self.doubts.within, node.label(), node.inputs, node.outputs);
        if self.doubts.reported.contains(&key) {
            return;
        }
        if let Some(own) = self.own_fault(around, node, e) {
            self.report(own.at(node.label()));
            if !self.doubts.trying {
                self.doubts.reported.insert(key);
            }
        }
    }

    /// Whether no more nodes are to be tried; counts those that are.
    pub(super) fn has_tried_enough(&mut self) -> bool {
        self.doubts.trials += 1;
        self.doubts.trials > MAX_TRIALS
    }

    /// Whether a node is only tried.
    pub(super) fn is_trying(&self) -> bool {
        self.doubts.trying
    }

    /// Says so if not everything was looked at.
    pub(super) fn report_limit(&mut self) {
        if self.doubts.trials > MAX_TRIALS {
            let text =
                "so much in it cannot be mapped that not all of what depends on that was looked at: mend this first";
            self.report(Error::unsupported(text).at("model"));
        }
    }

    /// Looks for problems in the graphs inside of a node that could not be mapped.
    pub(super) fn look_inside(&mut self, node: &Node) {
        if self.doubts.trying || self.builder.is_executing() {
            return;
        }
        self.doubts.within.push(node.label());
        for value in node.attributes.values() {
            let Value::Graph(graph) = value else { continue };
            let inputs = graph.inputs.iter().map(|i| (i.name.clone(), self.placeholder(&i.name, Some(i)))).collect();
            if let Err(e) = self.graph(graph, inputs) {
                self.report(e.at(format!("graph '{}'", graph.name)));
            }
        }
        self.doubts.within.pop();
    }

    /// Placeholders for the outputs of a node that could not be mapped.
    pub(super) fn placeholders(&mut self, graph: &Graph, node: &Node) -> Vec<Value> {
        let mut place = |name: &String| match name.as_str() {
            "" => Value::None,
            _ => self.placeholder(name, graph.values.get(name)),
        };
        node.outputs.iter().map(&mut place).collect()
    }

    /// A tensor of which is known what the model declares.
    pub(super) fn placeholder(&mut self, name: &str, info: Option<&ValueInfo>) -> Value {
        let shape = info.map_or(Shape::unknown(), ValueInfo::shape);
        let shape = if builder::check_shape(&shape).is_ok() { shape } else { Shape::unknown() };
        let dtype = info.and_then(|i| i.element.as_ref()).and_then(|e| e.ours().ok());
        self.doubts.any = true;
        Value::Handle(self.builder.placeholder(name, shape, dtype))
    }

    /// What a node makes of placeholders follows from them, even where only their shapes were looked at.
    pub(super) fn pass_on_doubts(&mut self, node: &Node, outputs: &[Value]) {
        if self.doubts.any && !self.doubtful(node).is_empty() {
            for output in outputs {
                if let Value::Handle(h) = output {
                    self.builder.doubt(*h);
                }
            }
        }
    }

    /// The inputs of a node, and what graphs inside of it use, that follow from placeholders.
    pub(super) fn doubtful(&self, node: &Node) -> Vec<(String, usize)> {
        let mut names: Vec<&str> = node.inputs.iter().map(String::as_str).chain(free_names(node)).collect();
        names.sort_unstable();
        names.dedup();
        let doubtful = |name: &str| match self.value(name) {
            Ok(Value::Handle(h)) if self.builder.info(h).is_doubtful => Some((name.to_string(), h)),
            _ => None,
        };
        names.into_iter().filter_map(doubtful).collect()
    }

    /// What is wrong with a node whatever stands for the placeholders at it.
    fn own_fault(&mut self, around: &Surroundings<'_, '_>, node: &Node, e: Error) -> Option<Error> {
        if matches!(&e, Error::Model(problems) if problems.is_empty()) {
            return None;
        }
        let doubtful = self.doubtful(node);
        if doubtful.is_empty() || self.doubts.trying || self.known_operator(node).is_err() {
            return Some(e);
        }
        let needed = e.needs_values();
        if needed && !self.lacks_value(node) {
            return None;
        }
        let (dtypes, ranks) = self.guesses(node, &doubtful);
        let mut said: Vec<(Error, usize)> = Vec::new();
        // All types with two ranks, and all ranks with two types.
        let pairs = dtypes.iter().enumerate().flat_map(|(i, dtype)| {
            let ranks = ranks.iter().enumerate();
            ranks.filter_map(move |(k, rank)| (i < 2 || k < 2).then_some((*dtype, *rank)))
        });
        let pairs: Vec<_> = pairs.collect();
        for (dtype, rank) in pairs.iter().copied() {
            let mut same: Option<Error> = None;
            let mut differs = false;
            for (length, constant) in FORMS {
                let guess = Guess { dtype, rank, length, constant };
                match self.tried(around, node, &doubtful, &|_| guess) {
                    // A value that is needed may be another one than those that are not known because of the placeholders.
                    Err(Error::Model(inner)) if inner.is_empty() => return None,
                    Err(other) if other.needs_values() == needed || (needed && !constant) => {
                        differs |= same.as_ref().is_some_and(|earlier| earlier.to_string() != other.to_string());
                        same = Some(other);
                    }
                    _ => return None,
                }
            }
            if let Some(same) = same.filter(|_| !differs) {
                match said.iter_mut().find(|(earlier, _)| earlier.to_string() == same.to_string()) {
                    Some((_, times)) => *times += 1,
                    None => said.push((same, 1)),
                }
            }
        }
        if self.mixtures_fit(around, node, &doubtful) {
            return None;
        }
        let most = said.into_iter().max_by_key(|(_, times)| *times);
        most.filter(|(_, times)| 2 * times > pairs.len()).map(|(e, _)| e)
    }

    /// Whether an input that has nothing to do with placeholders has elements of which nothing is known. Dimensions that have names may
    /// be those of placeholders.
    fn lacks_value(&self, node: &Node) -> bool {
        node.inputs.iter().any(|name| match self.value(name) {
            Ok(Value::Handle(h)) => {
                let info = self.builder.info(h);
                !info.is_doubtful && info.value.is_none() && info.partly.is_none()
            }
            _ => false,
        })
    }

    /// Element types and ranks that placeholders may have, those of the other inputs first.
    fn guesses(&self, node: &Node, doubtful: &[(String, usize)]) -> (Vec<Option<DType>>, Vec<Option<usize>>) {
        let infos: Vec<_> = doubtful.iter().map(|(_, h)| self.builder.info(*h)).collect();
        let others = node.inputs.iter().filter_map(|name| match self.value(name) {
            Ok(Value::Handle(h)) => Some(self.builder.info(h)),
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

    /// Whether a node with several placeholders can be mapped if they differ from each other.
    fn mixtures_fit(&mut self, around: &Surroundings<'_, '_>, node: &Node, doubtful: &[(String, usize)]) -> bool {
        let plain = Guess { dtype: None, rank: None, length: None, constant: false };
        let pairs = |n: usize| (0..n * n).map(move |i| (i / n, i % n)).filter(|(a, b)| a != b);
        for one in 0..if doubtful.len() > 1 { doubtful.len() } else { 0 } {
            for (a, b) in pairs(COMMON.len()) {
                let guess = |i| Guess { dtype: Some(if i == one { COMMON[a] } else { COMMON[b] }), ..plain };
                if self.tried(around, node, doubtful, &guess).is_ok() {
                    return true;
                }
            }
            for (a, b) in pairs(RANKS.len()) {
                let guess = |i| Guess { rank: Some(if i == one { RANKS[a] } else { RANKS[b] }), ..plain };
                if self.tried(around, node, doubtful, &guess).is_ok() {
                    return true;
                }
            }
        }
        false
    }

    /// Maps a node with other tensors in place of its placeholders, and forgets what was made.
    fn tried(
        &mut self,
        around: &Surroundings<'_, '_>,
        node: &Node,
        doubtful: &[(String, usize)],
        guess: &dyn Fn(usize) -> Guess,
    ) -> Result<()> {
        if self.has_tried_enough() {
            return Ok(());
        }
        let mark = self.builder.mark();
        let problems = std::mem::take(&mut self.problems);
        let scope = self.scope_of(doubtful, guess);
        self.scopes.push(scope);
        self.doubts.trying = true;
        let made = self.map(around, node);
        self.doubts.trying = false;
        self.scopes.pop();
        self.builder.forget(mark);
        let inner = std::mem::replace(&mut self.problems, problems);
        if inner.is_empty() { made.map(|_| ()) } else { Err(Error::Model(inner)) }
    }

    /// Other tensors for names that stand for placeholders.
    fn scope_of(&mut self, doubtful: &[(String, usize)], guess: &dyn Fn(usize) -> Guess) -> HashMap<String, Value> {
        let mut scope = HashMap::new();
        for (i, (name, placeholder)) in doubtful.iter().enumerate() {
            let guess = guess(i);
            let info = self.builder.info(*placeholder);
            let dtype = info.dtype.or(guess.dtype);
            let dims: Option<Vec<i64>> = match (info.shape.ndim_is_known(), guess.rank) {
                (true, _) => Some(info.shape.dims().to_vec()),
                (false, rank) => rank.map(|rank| vec![-1; rank]),
            };
            let length = guess.length.unwrap_or(-1);
            let shape = dims.map(|dims| dims.iter().map(|d| if *d < 0 { length } else { *d }).collect::<Vec<_>>());
            let shape = shape.map_or(Shape::unknown(), |dims| Shape::new(&dims));
            let small = shape.checked_elements().is_ok_and(|n| n <= 1 << 16);
            let zeros = |shape: &Shape| NDArray::zeros(shape, dtype.unwrap_or(DType::F32), Context::default()).ok();
            let handle = match Some(&shape).filter(|_| guess.constant && small).and_then(zeros) {
                Some(array) => self.builder.constant(name, array),
                None => self.builder.placeholder(name, shape, dtype),
            };
            scope.insert(name.clone(), Value::Handle(handle));
        }
        scope
    }
}
