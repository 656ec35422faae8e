//! Subgraphs of operators, such as loop bodies: how they are inferred, and run in their own executors.

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Mode;
use ferromx_core::semantics::is_numpy_shape;
use ferromx_core::shape::Shape;
use ferromx_core::storage::Req;
use ferromx_core::subgraph::{BoundGraph, Subgraph};

use super::compile::no_plan;
use super::{Bound, Executor};
use crate::graph::Graph;
use crate::passes::infer::{self, Entries};
use crate::symbol::{CachedInference, InferenceCache, SymbolSubgraph};

/// Maximum number of cached inference results of a graph.
const MAX_CACHED: usize = 16;

impl SymbolSubgraph {
    /// Infers shapes or types of inputs and outputs.
    fn infer<T: Clone + Default + PartialEq>(
        &self,
        cache: &InferenceCache<T>,
        ins: &mut [T],
        outs: &mut [T],
        infer: impl FnOnce(&Graph, Entries<T>) -> Result<Entries<T>>,
    ) -> Result<()> {
        let is_numpy = is_numpy_shape();
        let is_match = |f: &&CachedInference<T>| f.is_numpy == is_numpy && f.given.0 == *ins && f.given.1 == *outs;
        let cached = cache.lock().iter().find(is_match).map(|f| f.inferred.clone());
        if let Some((inferred_ins, inferred_outs)) = cached {
            ins.clone_from_slice(&inferred_ins);
            outs.clone_from_slice(&inferred_outs);
            return Ok(());
        }
        let given = (ins.to_vec(), outs.to_vec());
        let (graph, outputs) = Graph::from_symbol(&self.symbol);
        let variables: Vec<_> = graph.variables().collect();
        let mut values = Entries::new(&graph, T::default());
        for (e, value) in outputs.iter().zip(outs.iter()).chain(variables.iter().zip(ins.iter())) {
            values[*e] = value.clone();
        }
        let values = infer(&graph, values)?;
        variables.iter().zip(ins.iter_mut()).for_each(|(e, value)| *value = values[*e].clone());
        outputs.iter().zip(outs.iter_mut()).for_each(|(e, value)| *value = values[*e].clone());
        let mut cache = cache.lock();
        if cache.len() == MAX_CACHED {
            cache.pop_front();
        }
        cache.push_back(CachedInference { is_numpy, given, inferred: (ins.to_vec(), outs.to_vec()) });
        Ok(())
    }
}

impl Subgraph for SymbolSubgraph {
    fn inputs(&self) -> usize {
        self.is_aux.len()
    }

    fn outputs(&self) -> usize {
        self.symbol.num_outputs()
    }

    fn states(&self) -> &[usize] {
        &self.states
    }

    fn infer_shape(&self, ins: &mut [Shape], outs: &mut [Shape]) -> Result<()> {
        self.infer(&self.shapes, ins, outs, infer::shapes)
    }

    fn infer_dtype(&self, ins: &mut [Option<DType>], outs: &mut [Option<DType>]) -> Result<()> {
        self.infer(&self.dtypes, ins, outs, infer::dtypes)
    }

    fn bind(&self, context: Context, ins: &[NDArray], grads: &[Option<(NDArray, Req)>]) -> Result<Box<dyn BoundGraph>> {
        let mut bound = Bound { args: vec![], grads: vec![], reqs: vec![], aux: vec![] };
        for ((array, grad), is_aux) in ins.iter().zip(grads).zip(&self.is_aux) {
            if *is_aux {
                bound.aux.push(array.clone());
                continue;
            }
            bound.args.push(array.clone());
            bound.grads.push(grad.as_ref().map(|(array, _)| array.clone()));
            bound.reqs.push(grad.as_ref().map_or(Req::Null, |(_, req)| *req));
        }
        if let Some(node) = self.symbol.nodes().iter().find(|n| n.op().is_some_and(|op| op.is_dynamic())) {
            return Err(no_plan(node.op().map_or("", |op| op.name), &node.name));
        }
        Ok(Box::new(BoundExecutor(Executor::bind(&self.symbol, context, bound, None)?)))
    }
}

/// A subgraph with its own executor.
struct BoundExecutor(Executor);

impl BoundGraph for BoundExecutor {
    fn outputs(&self) -> &[NDArray] {
        self.0.outputs()
    }

    fn forward(&self, mode: Mode) -> Result<()> {
        self.0.forward(mode)
    }

    fn backward(&self, ograds: &[NDArray], mode: Mode) -> Result<()> {
        self.0.backward(ograds, mode)
    }
}
