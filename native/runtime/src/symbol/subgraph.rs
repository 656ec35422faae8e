//! Symbols that operators hold as parameters, such as loop bodies. `executor::subgraph` infers and runs them.

use std::collections::VecDeque;

use ferromx_core::dtype::DType;
use ferromx_core::shape::Shape;
use parking_lot::Mutex;

use super::Symbol;

/// A result of inference, for inputs and outputs each, and the arguments that gave it.
pub(crate) struct CachedInference<T> {
    /// Whether NumPy shape semantics were on.
    pub is_numpy: bool,
    /// What was known.
    pub given: (Vec<T>, Vec<T>),
    /// The result.
    pub inferred: (Vec<T>, Vec<T>),
}

/// Results of inference, oldest first. Inference visits each node at least twice, so without a cache the time would double with every
/// level of nesting.
pub(crate) type InferenceCache<T> = Mutex<VecDeque<CachedInference<T>>>;

/// A symbol as the subgraph of an operator. Its inputs are all variables in the order of [`Symbol::list_inputs`].
pub(crate) struct SymbolSubgraph {
    /// The graph.
    pub symbol: Symbol,
    /// For each variable, whether it is an auxiliary state.
    pub is_aux: Vec<bool>,
    /// Indices of the auxiliary states.
    pub states: Vec<usize>,
    /// Inferred shapes.
    pub shapes: InferenceCache<Shape>,
    /// Inferred types.
    pub dtypes: InferenceCache<Option<DType>>,
}

impl SymbolSubgraph {
    /// Wraps a symbol.
    pub(crate) fn new(symbol: &Symbol) -> SymbolSubgraph {
        let is_aux: Vec<bool> = symbol.variables().iter().map(|v| v.is_aux).collect();
        let states = (0..is_aux.len()).filter(|i| is_aux[*i]).collect();
        SymbolSubgraph {
            symbol: symbol.clone(),
            is_aux,
            states,
            shapes: InferenceCache::default(),
            dtypes: InferenceCache::default(),
        }
    }
}
