//! Builds an MXNet graph: adds operators by name, infers shapes and types, folds constants.
//!
//! - This file has the tensors of the graph: inputs, constants, subgraphs. `dims` has their symbolic dimensions.
//! - `apply` adds calls of operators, of which `scalars` replaces those with a one-element constant. `fold` computes those with constant
//!   inputs, and `nodes` adds the others to the graph.

mod apply;
mod dims;
mod fold;
mod nodes;
mod scalars;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_core::shape::Shape;
use ferromx_ops::definitions::COPY;
use ferromx_runtime::symbol::{NodeEntry, Symbol};

use super::TensorId;
use super::dimensions::{Dimensions, Dims, is_symbolic};
use crate::error::{Error, Result};
use crate::ir::{Dim, Value, WidenedInt};
use crate::mxnet;
use fold::Folded;

/// The budget for folded constants in bytes, apart from the share that depends on the size of the parameters.
const FOLD_BUDGET: usize = 1 << 28;
/// Bytes that each byte of a parameter adds to the budget for folded constants.
const FOLD_BUDGET_PER_BYTE: usize = 4;
/// Maximum number of elements of a tensor: more than any array has, but few enough that shape arithmetic cannot overflow.
const MAX_ELEMENTS: i64 = 1 << 36;

/// The known facts about a tensor of the graph.
pub struct TensorInfo {
    /// Name of its variable if it is a constant.
    pub name: String,
    /// Its entry in the graph. A constant gets one at its first use.
    symbol: Option<Symbol>,
    /// Shape, with -1 for unknown dimensions.
    pub shape: Shape,
    /// Element type.
    pub dtype: Option<DType>,
    /// Its elements, if they are known.
    pub value: Option<NDArray>,
    /// Dimensions; unknown ones are symbolic, so that equal ones compare equal.
    pub dims: Option<Dims>,
    /// The elements of an integer tensor, some of them symbolic.
    pub symbolic_value: Option<NDArray>,
    /// The element type in the model, if it is an integer type that is stored as the wider [`TensorInfo::dtype`].
    pub widened: Option<WidenedInt>,
    /// True for a parameter of the model, which may be trained.
    pub is_parameter: bool,
    /// True for a placeholder of a failed node's output, and for tensors that depend on one.
    pub is_from_placeholder: bool,
}

impl TensorInfo {
    /// The tensor's entry in the graph; a constant without readers has none.
    pub fn symbol(&self) -> Option<&Symbol> {
        self.symbol.as_ref()
    }
}

/// What a model is mapped for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Its graph, in which operators on constants are folded.
    Build,
    /// Its results: all operators are computed immediately, even random ones.
    Execute,
}

/// The graph that is being built.
pub struct Builder {
    tensors: Vec<TensorInfo>,
    /// The names of nodes, each with the last suffix that made it unique.
    names: HashMap<String, usize>,
    mode: Mode,
    /// Remaining bytes for folded constants.
    fold_budget: usize,
    dimensions: Dimensions,
    /// The subgraphs under construction, the innermost one last: name and first tensor.
    open_subgraphs: Vec<(String, usize)>,
    /// Tensors that operators mutate.
    mutated: HashSet<usize>,
    /// Tensors that operators read without mutating them.
    read_only: HashSet<usize>,
    /// Copies of mutated tensors, for operators that only read them.
    copies: HashMap<usize, usize>,
    /// Folded calls that dequantized constants or transposed the results, by result.
    dequantized: HashMap<usize, Folded>,
    /// The outputs of nodes that repeat a folded call in the graph, by the call's result.
    unfolded: HashMap<usize, usize>,
}

/// The attributes of a variable that declare its shape and type.
fn variable_attrs(shape: &Shape, dtype: Option<DType>) -> Attrs {
    let mut attrs = Attrs::new();
    if shape.is_known() {
        // Legacy semantics read an empty shape and dimensions of 0 as unknown.
        let is_legacy = !shape.dims().contains(&0) && !shape.dims().is_empty();
        let key = if is_legacy { "__shape__" } else { "__np_shape__" };
        attrs.insert(key.into(), Value::from(shape.dims().to_vec()).to_string());
    }
    if let Some(dtype) = dtype {
        attrs.insert("__dtype__".into(), dtype.code().to_string());
    }
    attrs
}

/// Rejects shapes that no array can have.
pub(crate) fn check_shape(shape: &Shape) -> Result<()> {
    let mut known = shape.dims().iter().filter(|d| **d > 0);
    let elements = known.try_fold(1i64, |n, d| n.checked_mul(*d)).filter(|n| *n <= MAX_ELEMENTS);
    match elements {
        Some(_) => Ok(()),
        None => Err(Error::value(format!("the shape {shape} is too large for an array"))),
    }
}

impl Builder {
    /// An empty graph.
    pub fn new(mode: Mode) -> Builder {
        Builder {
            tensors: Vec::new(),
            names: HashMap::new(),
            mode,
            fold_budget: FOLD_BUDGET,
            dimensions: Dimensions::default(),
            open_subgraphs: Vec::new(),
            mutated: HashSet::new(),
            read_only: HashSet::new(),
            copies: HashMap::new(),
            dequantized: HashMap::new(),
            unfolded: HashMap::new(),
        }
    }

    /// True if all operators are computed immediately.
    pub fn is_executing(&self) -> bool {
        self.mode == Mode::Execute
    }

    /// The known facts about a tensor.
    pub fn info(&self, tensor_id: usize) -> &TensorInfo {
        &self.tensors[tensor_id]
    }

    fn push(&mut self, info: TensorInfo) -> usize {
        self.tensors.push(info);
        self.tensors.len() - 1
    }

    /// An unused node name: `base`, with a number appended if it is taken.
    pub fn unique(&mut self, base: &str) -> String {
        let base = if base.is_empty() { "node" } else { base };
        let mut name = base.to_string();
        let mut n = self.names.get(base).copied().unwrap_or(0);
        while self.names.contains_key(&name) {
            n += 1;
            name = format!("{base}_{n}");
        }
        self.names.insert(base.to_string(), n);
        self.names.entry(name.clone()).or_insert(0);
        name
    }

    /// An input of the graph.
    pub fn input(&mut self, name: &str, shape: Shape, dtype: Option<DType>, dims: Option<Dims>) -> usize {
        let name = self.unique(name);
        let attrs = variable_attrs(&shape, dtype);
        let symbol = Some(Symbol::variable(&name, attrs));
        let dims = dims.or_else(|| self.named_dims(&shape));
        self.push(TensorInfo {
            name,
            symbol,
            shape,
            dtype,
            value: None,
            dims,
            symbolic_value: None,
            widened: None,
            is_parameter: false,
            is_from_placeholder: false,
        })
    }

    /// Records the declared dimensions of a dynamic input: known lengths and names.
    pub fn record_dims(&self, tensor_id: usize, dims: &[Dim]) {
        let TensorInfo { shape, symbol: Some(symbol), .. } = &self.tensors[tensor_id] else { return };
        if shape.is_known() || shape.ndim() != Some(dims.len()) {
            return;
        }
        let [variable] = symbol.entries() else { return };
        let mut attrs = variable.node.attrs.write();
        // -1 is unknown in both semantics, 0 only in the legacy one.
        let key = if shape.dims().contains(&0) { "__np_shape__" } else { "__shape__" };
        attrs.insert(key.into(), Value::from(shape.dims().to_vec()).to_string());
        for (k, dim) in dims.iter().enumerate().filter(|(k, _)| shape.dim(*k) < 0) {
            if let Dim::Named(name) = dim {
                attrs.insert(mxnet::dim_name_key(k), name.clone());
            }
        }
    }

    /// Records the index of an input in the model, so that an export keeps the order.
    pub fn record_input_index(&mut self, tensor_id: usize, index: usize) {
        let TensorInfo { symbol: Some(symbol), .. } = &self.tensors[tensor_id] else { return };
        let [variable] = symbol.entries() else { return };
        variable.node.attrs.write().insert(mxnet::INPUT_INDEX.into(), index.to_string());
    }

    /// Records that the elements of a tensor have a narrower type in the model.
    pub(super) fn mark_widened(&mut self, tensor_id: usize, int: WidenedInt) {
        self.tensors[tensor_id].widened = Some(int);
    }

    /// A placeholder for the output of a node that could not be mapped.
    pub fn placeholder(&mut self, name: &str, shape: Shape, dtype: Option<DType>) -> usize {
        let tensor_id = self.input(name, shape, dtype, None);
        self.tensors[tensor_id].is_from_placeholder = true;
        tensor_id
    }

    /// Marks a tensor that depends on placeholders.
    pub fn mark_from_placeholder(&mut self, tensor_id: usize) {
        self.tensors[tensor_id].is_from_placeholder = true;
    }

    /// The current size of the graph, for [`Builder::roll_back`].
    pub fn checkpoint(&self) -> usize {
        self.tensors.len()
    }

    /// Removes the tensors added after [`Builder::checkpoint`]. Their names stay reserved.
    pub fn roll_back(&mut self, checkpoint: usize) {
        self.tensors.truncate(checkpoint);
        self.mutated.retain(|id| *id < checkpoint);
        self.read_only.retain(|id| *id < checkpoint);
        self.copies.retain(|id, copy| *id < checkpoint && *copy < checkpoint);
    }

    /// A constant tensor. It becomes a parameter of the graph if an operator reads it.
    pub fn constant(&mut self, name: &str, value: NDArray) -> usize {
        let (shape, dtype) = (value.shape().clone(), value.dtype());
        let dims = Some(Dims::from_slice(shape.dims()));
        let name = name.to_string();
        self.push(TensorInfo {
            name,
            symbol: None,
            shape,
            dtype: Some(dtype),
            value: Some(value),
            dims,
            symbolic_value: None,
            widened: None,
            is_parameter: false,
            is_from_placeholder: false,
        })
    }

    /// A parameter of the model: a constant that must stay a variable, since it may be trained.
    pub fn parameter(&mut self, name: &str, value: NDArray) -> usize {
        let bytes = value.len() * value.dtype().size();
        self.fold_budget = self.fold_budget.saturating_add(bytes.saturating_mul(FOLD_BUDGET_PER_BYTE));
        let tensor_id = self.constant(name, value);
        self.tensors[tensor_id].is_parameter = true;
        tensor_id
    }

    /// A constant integer tensor.
    ///
    /// # Errors
    /// A symbolic element.
    pub fn numbers(&mut self, name: &str, items: &[i64], shape: &[i64]) -> Result<usize> {
        let value = NDArray::from_slice(items, shape)?;
        if items.iter().all(|x| !is_symbolic(*x)) {
            return Ok(self.constant(name, value));
        }
        Err(Error::NeedsValue("a tensor that depends on unknown dimensions cannot be computed here".into()))
    }

    /// The symbol of a tensor. A constant becomes a variable.
    pub fn symbol(&mut self, tensor_id: usize) -> Symbol {
        if let Some(symbol) = &self.tensors[tensor_id].symbol {
            return symbol.clone();
        }
        let base = self.tensors[tensor_id].name.clone();
        let name = self.unique(&base);
        let info = &mut self.tensors[tensor_id];
        let symbol = Symbol::variable(&name, variable_attrs(&info.shape, info.dtype));
        info.name = name;
        info.symbol = Some(symbol.clone());
        symbol
    }

    /// The constants of the graph by the names of their variables.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &NDArray)> {
        let of = |t| -> Option<(&str, &NDArray)> {
            let t: &TensorInfo = t;
            t.symbol.as_ref()?;
            Some((t.name.as_str(), t.value.as_ref()?))
        };
        self.tensors.iter().filter_map(of)
    }

    /// Starts a subgraph: new operators belong to it until [`Builder::end_subgraph`]. Returns its nesting level.
    pub fn begin_subgraph(&mut self, base: &str) -> usize {
        let name = self.unique(&format!("{base}/graph"));
        self.open_subgraphs.push((name, self.tensors.len()));
        self.open_subgraphs.len()
    }

    /// Ends a subgraph and those nested in it. Their symbolic dimensions are forgotten, since outer nodes cannot refer to inner tensors.
    pub fn end_subgraph(&mut self, level: usize) {
        if let Some((_, first)) = self.open_subgraphs.drain(level.saturating_sub(1)..).next() {
            self.tensors[first..].iter_mut().for_each(|t| t.dims = None);
        }
    }

    /// Adds a copy operator for each tensor, even for constants.
    ///
    /// # Errors
    /// The operator's errors.
    pub fn copies(&mut self, name: &str, tensors: &[TensorId]) -> Result<Vec<TensorId>> {
        let call = self.call(COPY.name(), &Attrs::new(), 1, &[])?;
        tensors.iter().map(|id| Ok(TensorId(self.add(&call, &Attrs::new(), name, &[id.0], &[])?[0]))).collect()
    }

    /// The tensor of an operator's output.
    pub fn tensor_id_of(&self, entry: &NodeEntry) -> Option<usize> {
        let is = |symbol: &Symbol| match symbol.entries() {
            [e] => Arc::ptr_eq(&e.node, &entry.node) && e.index == entry.index,
            _ => false,
        };
        self.tensors.iter().position(|t| t.symbol.as_ref().is_some_and(is))
    }

    /// The tensor of a variable, by name.
    pub fn variable(&self, name: &str) -> Option<usize> {
        let is = |symbol: &Symbol| symbol.entries().first().is_some_and(|e| e.node.is_variable());
        self.tensors.iter().position(|t| t.name == name && t.symbol.as_ref().is_some_and(is))
    }
}
