//! Finds chains: elementwise operators on arrays of one shape that run together, block by block.
//!
//! A chain runs at the position of its last member in the topological order, which delays the other members. This is correct because a
//! chain takes no more members once an operator outside reads one of its entries, and because members never read an entry that an
//! operator mutates. Results are bit-identical, since elementwise kernels do not depend on block boundaries.

use ferromx_core::dtype::DType;
use ferromx_core::grad::Entry;
use ferromx_core::shape::Shape;
use hashbrown::{HashMap, HashSet};

use super::infer::Entries;
use crate::graph::{Action, Graph, GraphNode, entry};

/// The order in which nodes run.
pub(crate) struct Schedule {
    /// The nodes of each step: one node, or the members of a chain in topological order.
    pub steps: Vec<Vec<usize>>,
}

/// The input of the pass.
pub(crate) struct ChainArgs<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// Whether each node runs.
    pub needed: &'a [bool],
    /// The nodes after these compute gradients. No chain contains both kinds.
    pub num_forward_nodes: usize,
    /// Shapes of all entries.
    pub shapes: &'a Entries<Shape>,
    /// Types of all entries.
    pub dtypes: &'a Entries<Option<DType>>,
    /// Entries that an operator mutates, and their aliases.
    pub mutated: &'a HashSet<Entry>,
}

impl Schedule {
    /// The schedule in which elementwise nodes form chains.
    pub(crate) fn fused(args: &ChainArgs<'_>) -> Schedule {
        let chain_of = vec![None; args.graph.nodes.len()];
        let mut builder = ChainBuilder { args, chains: Vec::new(), chain_of, readers: HashMap::new() };
        let mut chain_ending_at: HashMap<usize, usize> = HashMap::new();
        let needed = |nodes: std::ops::Range<usize>| nodes.filter(|i| args.needed[*i]);
        needed(0..args.num_forward_nodes).for_each(|i| builder.visit(i));
        builder.chains.iter_mut().for_each(|c| c.is_open = false);
        needed(args.num_forward_nodes..args.graph.nodes.len()).for_each(|i| builder.visit(i));
        for (id, chain) in builder.chains.iter().enumerate() {
            if let Some(last) = chain.nodes.last() {
                chain_ending_at.insert(*last, id);
            }
        }
        let mut steps = Vec::new();
        for i in (0..args.graph.nodes.len()).filter(|i| args.needed[*i]) {
            match (builder.chain_of[i], chain_ending_at.get(&i)) {
                (None, _) => steps.push(vec![i]),
                (Some(_), Some(chain)) => steps.push(std::mem::take(&mut builder.chains[*chain].nodes)),
                (Some(_), None) => {}
            }
        }
        Schedule { steps }
    }
}

/// Index of the first scalar input of a node. Every block of a chain reads the same scalar.
pub(crate) fn first_scalar(node: &GraphNode) -> usize {
    match &node.action {
        Action::Forward(op) => op.def.fusion.first_scalar,
        _ => usize::MAX,
    }
}

/// Maximum number of members of a chain, which bounds its scratch memory.
const MAX_LEN: usize = 64;

struct Chain {
    nodes: Vec<usize>,
    is_open: bool,
    /// The chain that has its members now.
    merged_into: Option<usize>,
}

/// Builds the chains, node by node in topological order.
struct ChainBuilder<'a> {
    args: &'a ChainArgs<'a>,
    chains: Vec<Chain>,
    /// The chain of each member.
    chain_of: Vec<Option<usize>>,
    /// For each entry that no chain computes, the chain that last read it. Another reader joins it, so that the array is read once.
    readers: HashMap<Entry, usize>,
}

impl ChainBuilder<'_> {
    /// Adds node `i` to a chain if it is elementwise, and closes chains that it reads from outside.
    fn visit(&mut self, i: usize) {
        let node = &self.args.graph.nodes[i];
        let is_elementwise = self.is_elementwise(i, node);
        let mut joined: Option<usize> = None;
        let num_arrays = first_scalar(node).min(node.inputs.len());
        if is_elementwise {
            let arrays = &node.inputs[..num_arrays];
            let mut candidates: Vec<usize> = arrays.iter().filter_map(|e| self.chain_of[e.node as usize]).collect();
            candidates.extend(arrays.iter().filter_map(|e| self.readers.get(e)).map(|c| self.find(*c)));
            for chain in candidates {
                joined = self.join(joined, chain, i);
            }
            let chain = joined.unwrap_or_else(|| {
                self.chains.push(Chain { nodes: Vec::new(), is_open: true, merged_into: None });
                self.chains.len() - 1
            });
            self.chains[chain].nodes.push(i);
            self.chain_of[i] = Some(chain);
            joined = Some(chain);
        }
        for (k, e) in node.inputs.iter().enumerate() {
            let producer = self.chain_of[e.node as usize];
            match (producer, joined) {
                (Some(producing_chain), _) if producer != joined => self.chains[producing_chain].is_open = false,
                (None, Some(chain)) if k < num_arrays => {
                    self.readers.insert(*e, chain);
                }
                _ => {}
            }
        }
    }

    /// The chain that `chain` was merged into, or itself.
    fn find(&self, mut chain: usize) -> usize {
        while let Some(other) = self.chains[chain].merged_into {
            chain = other;
        }
        chain
    }

    /// Adds node `i` to `chain` if possible, and merges `chain` with the chain that the node has `joined`, if any. Returns the chain of the
    /// node.
    fn join(&mut self, joined: Option<usize>, chain: usize, i: usize) -> Option<usize> {
        let is_joinable = |c: &Chain| {
            let shape = |node: usize| &self.args.shapes[entry(node, 0)];
            c.is_open && c.nodes.first().is_some_and(|first| shape(*first) == shape(i))
        };
        if joined == Some(chain) || !is_joinable(&self.chains[chain]) {
            return joined;
        }
        let Some(other) = joined else {
            return Some(chain).filter(|c| self.chains[*c].nodes.len() < MAX_LEN);
        };
        if self.chains[other].nodes.len() + self.chains[chain].nodes.len() >= MAX_LEN {
            return joined;
        }
        let members = std::mem::take(&mut self.chains[chain].nodes);
        self.chains[chain].is_open = false;
        members.iter().for_each(|node| self.chain_of[*node] = Some(other));
        self.chains[chain].merged_into = Some(other);
        let target = &mut self.chains[other].nodes;
        target.extend(members);
        target.sort_unstable();
        joined
    }

    /// Whether a node may be a member of a chain. Its scalars must be inputs of the chain.
    fn is_elementwise(&self, i: usize, node: &GraphNode) -> bool {
        let args = self.args;
        let is_declared = match &node.action {
            Action::Forward(op) => {
                let def = op.def;
                let is_elementwise =
                    def.fusion.is_pointwise || def.fusion.is_broadcasting || def.fusion.first_scalar != usize::MAX;
                is_elementwise && op.mutated().is_empty() && !def.kernels.is_random
            }
            Action::Backward { backward, .. } => backward.is_pointwise,
            Action::Variable | Action::Fused { .. } => false,
        };
        let shape = &args.shapes[entry(i, 0)];
        let has_same_shape = |e: &Entry| args.shapes[*e] == *shape && args.dtypes[*e].is_some_and(|d| d != DType::Bool);
        is_declared
            && shape.is_known()
            && node.inputs.iter().enumerate().all(|(k, e)| {
                let is_supported = if k < first_scalar(node) {
                    has_same_shape(e)
                } else {
                    args.shapes[*e].checked_elements().is_ok_and(|n| n == 1)
                };
                is_supported && !args.mutated.contains(e)
            })
            && (0..node.num_outputs).all(|k| has_same_shape(&entry(i, k)))
    }
}

#[cfg(test)]
mod tests {
    use ferromx_core::params::Attrs;

    use super::*;
    use crate::symbol::OpCall;

    struct Net(Graph);

    impl Net {
        fn add(&mut self, op: &str, inputs: &[Entry], attrs: &[(&str, &str)]) -> Entry {
            let attrs: Attrs = attrs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            self.0.push(op, Action::Forward(OpCall::new(op, &attrs).unwrap()), inputs.to_vec(), attrs)
        }

        fn steps(&self, outputs: &[Entry], mutated: &[Entry]) -> Vec<Vec<usize>> {
            let mut shapes = Entries::new(&self.0, Shape::new(&[2, 3]));
            for (i, node) in self.0.nodes.iter().enumerate().filter(|(_, n)| n.name == "sum") {
                shapes[entry(i, 0)] = Shape::new(&[1]);
                assert_eq!(node.num_outputs, 1);
            }
            let needed = self.0.needed_for(outputs.iter().copied());
            let dtypes = Entries::new(&self.0, Some(DType::F32));
            let args = ChainArgs {
                graph: &self.0,
                needed: &needed,
                num_forward_nodes: self.0.nodes.len(),
                shapes: &shapes,
                dtypes: &dtypes,
                mutated: &mutated.iter().copied().collect(),
            };
            let has_operator = |step: &Vec<usize>| step.iter().any(|i| self.0.nodes[*i].op().is_some());
            Schedule::fused(&args).steps.into_iter().filter(has_operator).collect()
        }
    }

    #[test]
    fn branches_that_merge_form_one_chain() {
        let mut net = Net(Graph::default());
        let (a, b) = (net.0.variable("a", Attrs::new()), net.0.variable("b", Attrs::new()));
        let x = net.add("sin", &[a], &[]);
        let y = net.add("exp", &[b], &[]);
        let z = net.add("elemwise_mul", &[x, y], &[]);
        let unused = net.add("cos", &[z], &[]);
        assert_eq!(net.steps(&[z], &[]), [[2, 3, 4]]);
        assert_eq!(net.steps(&[unused], &[]), [[2, 3, 4, 5]]);
        assert_eq!(net.steps(&[z], &[b]), [vec![3], vec![2, 4]]);
    }

    #[test]
    fn a_reader_outside_of_the_chain_closes_it() {
        let mut net = Net(Graph::default());
        let a = net.0.variable("a", Attrs::new());
        let x = net.add("sin", &[a], &[]);
        let total = net.add("sum", &[x], &[]);
        let y = net.add("exp", &[x], &[]);
        let z = net.add("cos", &[y], &[]);
        assert_eq!(net.steps(&[total, z], &[]), vec![vec![1], vec![2], vec![3, 4]]);
    }

    #[test]
    fn readers_of_one_array_join_one_chain() {
        let mut net = Net(Graph::default());
        let a = net.0.variable("a", Attrs::new());
        let (x, y) = (net.add("sin", &[a], &[]), net.add("cos", &[a], &[]));
        assert_eq!(net.steps(&[x, y], &[]), [[1, 2]]);
    }

    #[test]
    fn a_reader_of_an_array_joins_the_chain_that_its_other_reader_was_merged_into() {
        let mut net = Net(Graph::default());
        let (a, b) = (net.0.variable("a", Attrs::new()), net.0.variable("b", Attrs::new()));
        let (x, y) = (net.add("sin", &[a], &[]), net.add("exp", &[b], &[]));
        let z = net.add("elemwise_mul", &[x, y], &[]);
        let w = net.add("cos", &[b], &[]);
        assert_eq!(net.steps(&[z, w], &[]), [[2, 3, 4, 5]]);
    }
}
