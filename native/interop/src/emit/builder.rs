//! Builds an MXNet graph: adds operators by name, infers shapes and types, folds constants.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Forward, Inputs, OpDef};
use ferromx_core::params::Attrs;
use ferromx_core::shape::Shape;
use ferromx_ops::definitions::{
    COPY, DEQUANTIZE_LINEAR, SYMBOLIC_EXPAND, SYMBOLIC_FULL, SYMBOLIC_RESHAPE, SYMBOLIC_SLICE,
};
use ferromx_ops::registry;
use ferromx_runtime::imperative::{self, Arrays};
use ferromx_runtime::symbol::{AtomicSymbol, NodeEntry, OpCall, Symbol, attach};

use super::dimensions::{Dimensions, Dims, Function, UNKNOWN_DIM, is_symbolic};
use super::scalars;
use super::symbolic;
use super::{Handle, Operation, op};
use crate::error::{Error, Result};
use crate::ir::{Dim, Value, WidenedInt};
use crate::mapping::ast::Operator;
use crate::mxnet;

/// Maximum number of elements of a folded constant that is larger than its inputs, such as a tensor of zeros.
const MAX_EXPANDED: usize = 1 << 24;
/// Maximum number of elements of a tensor: more than any array has, and few enough that shape arithmetic cannot overflow.
const MAX_ELEMENTS: i64 = 1 << 36;
/// Constants up to this many bytes are folded whatever the budget is.
const SMALL_CONSTANT_BYTES: usize = 1 << 12;
/// The budget for folded constants in bytes, without the share of the model's parameters.
const FOLD_BUDGET: usize = 1 << 28;
/// Bytes that each byte of a parameter adds to the budget for folded constants.
const FOLD_BUDGET_PER_BYTE: usize = 4;
/// Maximum number of elements of an integer tensor whose symbolic elements are propagated.
const MAX_PROPAGATED: usize = 1 << 10;

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

/// The graph that is being built.
pub struct Builder {
    tensors: Vec<TensorInfo>,
    /// The names of nodes, each with the last suffix that made it unique.
    names: HashMap<String, usize>,
    /// True if a model is executed: all operators are folded, even random ones.
    is_executing: bool,
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

/// The attribute with the name of the subgraph to which a node belongs.
const SUBGRAPH_NAME: &str = "__subgraph_name__";

/// True if the outputs depend only on the inputs, so that a call can be folded.
fn is_pure(def: &OpDef) -> bool {
    !def.random && !matches!(def.forward, Forward::Foreign(_)) && def.name != "Custom"
}

/// Operators that plans compute on 8-bit integers if both operands are dequantized.
const INTEGER_PRODUCTS: [&str; 3] = ["Convolution", "FullyConnected", "_npi_matmul"];

/// A call whose result was folded.
#[derive(Clone)]
struct Folded {
    call: OpCall,
    attrs: Attrs,
    name: String,
    ins: Vec<usize>,
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

/// Integer parameters that may have any value: indices that are clipped to the axis, and fill values.
const UNBOUNDED_PARAMS: [&str; 13] = [
    "begin",
    "end",
    "scalar",
    "a_min",
    "a_max",
    "value",
    "fill_value",
    "constant_value",
    "on_value",
    "off_value",
    "start",
    "stop",
    "max_output_boxes_per_class",
];

/// True if the integers of a parameter are small enough that operators do not overflow.
fn is_in_range(value: &Value) -> bool {
    match value {
        Value::Int(i) => (-MAX_ELEMENTS..=MAX_ELEMENTS).contains(i),
        Value::List(items) => items.iter().all(is_in_range),
        _ => true,
    }
}

/// True if a value contains a symbolic dimension.
fn has_symbolic_dim(value: &Value) -> bool {
    match value {
        Value::Int(i) => is_symbolic(*i),
        Value::List(items) => items.iter().any(has_symbolic_dim),
        _ => false,
    }
}

fn int_values(dims: Vec<i64>) -> Vec<Value> {
    dims.into_iter().map(Value::Int).collect()
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
    /// An empty graph. If `is_executing` is true, all operators are computed at once, even random ones.
    pub fn new(is_executing: bool) -> Builder {
        Builder {
            tensors: Vec::new(),
            names: HashMap::new(),
            is_executing,
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

    /// True if all operators are computed at once.
    pub fn is_executing(&self) -> bool {
        self.is_executing
    }

    /// The known facts about a tensor.
    pub fn info(&self, handle: usize) -> &TensorInfo {
        &self.tensors[handle]
    }

    fn push(&mut self, info: TensorInfo) -> usize {
        self.tensors.push(info);
        self.tensors.len() - 1
    }

    /// An unused node name: the requested one, or that with a suffix.
    pub fn unique(&mut self, wanted: &str) -> String {
        let wanted = if wanted.is_empty() { "node" } else { wanted };
        let mut name = wanted.to_string();
        let mut n = self.names.get(wanted).copied().unwrap_or(0);
        while self.names.contains_key(&name) {
            n += 1;
            name = format!("{wanted}_{n}");
        }
        self.names.insert(wanted.to_string(), n);
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
    pub fn record_dims(&self, handle: usize, dims: &[Dim]) {
        let TensorInfo { shape, symbol: Some(symbol), .. } = &self.tensors[handle] else { return };
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
    pub fn record_input_index(&mut self, handle: usize, index: usize) {
        let TensorInfo { symbol: Some(symbol), .. } = &self.tensors[handle] else { return };
        let [variable] = symbol.entries() else { return };
        variable.node.attrs.write().insert(mxnet::INPUT_INDEX.into(), index.to_string());
    }

    /// Records that the elements of a tensor have a narrower type in the model.
    pub(super) fn mark_widened(&mut self, handle: usize, int: WidenedInt) {
        self.tensors[handle].widened = Some(int);
    }

    /// A placeholder for the output of a node that could not be mapped.
    pub fn placeholder(&mut self, name: &str, shape: Shape, dtype: Option<DType>) -> usize {
        let handle = self.input(name, shape, dtype, None);
        self.tensors[handle].is_from_placeholder = true;
        handle
    }

    /// Marks a tensor that depends on placeholders.
    pub fn mark_from_placeholder(&mut self, handle: usize) {
        self.tensors[handle].is_from_placeholder = true;
    }

    /// The current size of the graph, for [`Builder::roll_back`].
    pub fn checkpoint(&self) -> usize {
        self.tensors.len()
    }

    /// Removes the tensors added after [`Builder::checkpoint`]. Their names stay reserved.
    pub fn roll_back(&mut self, checkpoint: usize) {
        self.tensors.truncate(checkpoint);
        self.mutated.retain(|h| *h < checkpoint);
        self.read_only.retain(|h| *h < checkpoint);
        self.copies.retain(|h, copy| *h < checkpoint && *copy < checkpoint);
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
        let handle = self.constant(name, value);
        self.tensors[handle].is_parameter = true;
        handle
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

    /// A new symbolic dimension.
    pub fn new_dim(&mut self) -> i64 {
        self.dimensions.new_atom()
    }

    /// The dimension that `known` lacks to have as many elements as `all`. If the division is not exact, binding the graph fails.
    pub fn missing_dim(&mut self, all: &[i64], known: &[i64]) -> Option<i64> {
        let (all, known) = (self.dimensions.product(all)?, self.dimensions.product(known)?);
        self.dimensions.floor_div(all, known)
    }

    /// The combination of two integers, which may be symbolic.
    ///
    /// # Errors
    /// The result cannot be represented.
    pub fn combine(&mut self, operator: Operator, a: i64, b: i64) -> Result<Value> {
        let result = match operator {
            Operator::Add => self.dimensions.plus(a, b),
            Operator::Subtract => self.dimensions.minus(a, b),
            Operator::Multiply => self.dimensions.times(a, b),
            Operator::Divide => self.dimensions.floor_div(a, b),
            _ => self.dimensions.remainder(a, b),
        };
        let unknown = || Error::NeedsValue("a dimension is unknown: give the shapes of the inputs".into());
        result.map(Value::Int).ok_or_else(unknown)
    }

    /// The order of two integers, which may be symbolic; `None` if it is not known.
    pub fn compare(&self, a: i64, b: i64) -> Option<Ordering> {
        match () {
            () if a == b => Some(Ordering::Equal),
            () if self.dimensions.is_greater(a, b) => Some(Ordering::Greater),
            () if self.dimensions.is_greater(b, a) => Some(Ordering::Less),
            () => None,
        }
    }

    /// The product of dimensions.
    pub fn product(&mut self, dims: &[i64]) -> Option<i64> {
        self.dimensions.product(dims)
    }

    /// The larger of two dimensions.
    pub fn max_dim(&mut self, a: i64, b: i64) -> Option<i64> {
        self.dimensions.min_or_max(Function::Max, a, b)
    }

    /// Integers as a parameter of a dynamic operator: an expression for each integer, and the inputs whose dimensions occur in them. The
    /// inputs begin with those in `given`.
    ///
    /// # Errors
    /// A dimension that no tensor of the graph has.
    pub fn dim_exprs(&self, given: &[usize], dims: &[i64]) -> Result<(Vec<Value>, Vec<String>)> {
        let mut inputs = given.to_vec();
        let mut atom = |atom: i64| {
            let own = inputs.iter().enumerate().find_map(|(i, h)| Some((i, self.axis_of(*h, atom)?)));
            let (input, axis) = match own {
                Some(found) => found,
                None => {
                    let (holder, axis) = self.tensor_with_dim(atom)?;
                    inputs.push(holder);
                    (inputs.len() - 1, axis)
                }
            };
            Some(format!("#{input}.{axis}"))
        };
        let written: Option<Vec<String>> = dims.iter().map(|d| self.dimensions.write(*d, &mut atom)).collect();
        let unknown = || Error::NeedsValue("a dimension is unknown: give the shapes of the inputs".into());
        let written = written.ok_or_else(unknown)?;
        Ok((inputs.into_iter().map(Value::Handle).collect(), written))
    }

    /// The axis of a tensor with this symbolic dimension.
    fn axis_of(&self, handle: usize, dim: i64) -> Option<usize> {
        self.tensors[handle].dims.as_ref()?.iter().position(|d| *d == dim)
    }

    /// The symbolic dimension for a dimension name of the model; `known` has those of the names seen before.
    pub fn dim_by_name(&mut self, known: &mut Vec<(String, i64)>, name: &str) -> i64 {
        if let Some((_, dim)) = known.iter().find(|(n, _)| n == name) {
            return *dim;
        }
        let dim = self.new_dim();
        known.push((name.to_string(), dim));
        dim
    }

    fn named_dims(&mut self, shape: &Shape) -> Option<Dims> {
        shape.ndim_is_known().then(|| shape.dims().iter().map(|d| if *d < 0 { self.new_dim() } else { *d }).collect())
    }

    /// A tensor of the graph with this symbolic dimension, and the axis.
    pub fn tensor_with_dim(&self, dim: i64) -> Option<(usize, usize)> {
        let of = |(h, t): (usize, &TensorInfo)| {
            t.symbol.as_ref()?;
            Some((h, self.axis_of(h, dim)?))
        };
        self.tensors.iter().enumerate().find_map(of)
    }

    /// The symbol of a tensor. A constant becomes a variable.
    pub fn symbol(&mut self, handle: usize) -> Symbol {
        if let Some(symbol) = &self.tensors[handle].symbol {
            return symbol.clone();
        }
        let wanted = self.tensors[handle].name.clone();
        let name = self.unique(&wanted);
        let info = &mut self.tensors[handle];
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

    /// Adds an operator and returns its visible outputs. An input is a tensor, a list of tensors, a number, which becomes a scalar of the
    /// first tensor's type, or `None` for an optional input at the end.
    ///
    /// # Errors
    /// Inputs and parameters that the operator does not accept.
    pub fn apply(&mut self, op: &str, name: &str, inputs: &[Value], params: &[(&str, Value)]) -> Result<Vec<usize>> {
        if params.iter().any(|(_, value)| has_symbolic_dim(value)) {
            return self.apply_dynamic(op, name, inputs, params);
        }
        if let Some((key, value)) = params.iter().find(|(k, v)| !UNBOUNDED_PARAMS.contains(k) && !is_in_range(v)) {
            return Err(Error::value(format!(
                "the parameter {key} of {op} would be {value}, which exceeds the size of any array"
            )));
        }
        if let (true, Some((op, data, x))) = (params.is_empty(), scalars::scalar_variant(self, op, inputs)) {
            return self.apply(op, name, &[Value::Handle(data)], &[("scalar", Value::Float(x))]);
        }
        let given = params.iter().filter(|(_, value)| !matches!(value, Value::None));
        let attrs = given.map(|(key, value)| (key.to_string(), value.to_string())).collect();
        self.apply_with(op, name, inputs, attrs, &[])
    }

    /// Adds an operator and returns its first output.
    ///
    /// # Errors
    /// As [`Builder::apply`].
    pub(crate) fn emit<P>(&mut self, name: &str, operation: Operation<P>) -> Result<Handle> {
        let outputs = self.apply(operation.operator, name, &operation.inputs, &operation.params)?;
        Ok(Handle(outputs[0]))
    }

    /// Adds an operator with symbolic parameters as its dynamic variant, whose parameters are expressions of dimensions.
    fn apply_dynamic(
        &mut self,
        op: &str,
        name: &str,
        inputs: &[Value],
        params: &[(&str, Value)],
    ) -> Result<Vec<usize>> {
        let given = self.inputs(op, inputs)?;
        if let ("tile", [data], Some(reps)) = (op, given.as_slice(), params.iter().find_map(|(_, v)| v.ints())) {
            return self.tile_dynamic(*data, name, &reps);
        }
        let param = |key: &str| params.iter().find(|(k, _)| *k == key).map_or(&Value::None, |(_, value)| value);
        let rank = given.first().and_then(|h| self.tensors[*h].shape.ndim());
        let dims = |value: &Value| value.ints().filter(|dims| dims.iter().all(|d| *d >= 0 || is_symbolic(*d)));
        let (dynamic_op, lists): (&str, Vec<(&str, Option<Vec<Value>>)>) = match (op, rank) {
            ("_npx_reshape" | "_np_reshape", _) => {
                (SYMBOLIC_RESHAPE.name(), vec![("shape", dims(param("newshape")).map(int_values))])
            }
            ("_npi_broadcast_to", _) => (SYMBOLIC_EXPAND.name(), vec![("shape", dims(param("shape")).map(int_values))]),
            ("_full", _) => (SYMBOLIC_FULL.name(), vec![("shape", dims(param("shape")).map(int_values))]),
            ("slice", Some(_)) => {
                let list = |key| match param(key) {
                    Value::List(items) => Some(items.clone()),
                    _ => None,
                };
                (SYMBOLIC_SLICE.name(), ["begin", "end", "step"].map(|key| (key, list(key))).to_vec())
            }
            ("slice_axis", Some(rank)) => {
                let axis = Shape::axis(param("axis").int().unwrap_or(0), rank)?;
                let list = |key| {
                    let mut items = vec![Value::None; rank];
                    items[axis] = param(key).clone();
                    Some(items)
                };
                (SYMBOLIC_SLICE.name(), ["begin", "end"].map(|key| (key, list(key))).to_vec())
            }
            _ => ("", vec![("", None)]),
        };
        let mut numbers = Vec::new();
        for (_, list) in &lists {
            let unknown = || {
                let known: Vec<_> = params.iter().filter(|(_, v)| has_symbolic_dim(v)).map(|(key, _)| *key).collect();
                let what = known.join(" and ");
                Error::NeedsValue(format!(
                    "the {what} of {op} depends on an unknown dimension: give the shapes of the inputs"
                ))
            };
            numbers.extend(list.as_ref().ok_or_else(unknown)?.iter().filter_map(Value::int));
        }
        let (ins, written) = self.dim_exprs(&given, &numbers)?;
        let mut written = written.into_iter();
        let mut attrs = Attrs::new();
        for (key, list) in lists {
            let each = |v: &Value| v.int().and_then(|_| written.next()).unwrap_or_else(|| "None".into());
            let items: Vec<String> = list.iter().flatten().map(each).collect();
            attrs.insert(key.into(), format!("({})", items.join(", ")));
        }
        for key in
            ["value", "dtype"].iter().filter(|key| dynamic_op == SYMBOLIC_FULL.name() && *param(key) != Value::None)
        {
            attrs.insert(key.to_string(), param(key).to_string());
        }
        self.apply_with(dynamic_op, name, &ins, attrs, &[])
    }

    /// Tiles a tensor: inserts an axis before each axis, broadcasts it, and merges both by a reshape.
    fn tile_dynamic(&mut self, data: usize, name: &str, reps: &[i64]) -> Result<Vec<usize>> {
        let dims = self.tensors[data].dims.clone().filter(|dims| dims.len() == reps.len());
        let unknown =
            || Error::NeedsValue("the shape of the repeated tensor is unknown: give the shapes of the inputs".into());
        let dims = dims.ok_or_else(unknown)?;
        let (mut split, mut repeated, mut merged) = (Vec::new(), Vec::new(), Vec::new());
        for (d, r) in dims.iter().zip(reps) {
            split.extend([1, *d]);
            repeated.extend([*r, *d]);
            merged.push(self.dimensions.times(*d, *r).ok_or_else(unknown)?);
        }
        let split = self.emit(&format!("{name}/apart"), op!(NPX_RESHAPE(Handle(data)), newshape: split))?;
        let repeated = self.emit(&format!("{name}/repeated"), op!(BROADCAST_TO(split), shape: repeated))?;
        Ok(vec![self.emit(name, op!(NPX_RESHAPE(repeated), newshape: merged))?.0])
    }

    /// Like [`Builder::apply`], but with parameters as text and with subgraphs.
    ///
    /// # Errors
    /// As [`Builder::apply`].
    pub fn apply_with(
        &mut self,
        op: &str,
        name: &str,
        inputs: &[Value],
        attrs: Attrs,
        graphs: &[Symbol],
    ) -> Result<Vec<usize>> {
        let mut ins = self.inputs(op, inputs)?;
        let call = self.call(op, &attrs, ins.len(), graphs)?;
        let constant: Option<Vec<NDArray>> = ins.iter().map(|h| self.tensors[*h].value.clone()).collect();
        if let Some(values) = constant.filter(|_| self.is_executing || is_pure(call.def))
            && let Some(folded) = self.fold(&call, name, values)?
        {
            let is_weight = match op {
                "transpose" | "_np_transpose" => self.dequantized.contains_key(&ins[0]),
                _ => op == DEQUANTIZE_LINEAR.name() && self.tensors[ins[0]].shape.dims().len() >= 2,
            };
            if is_weight {
                self.dequantized.insert(folded[0], Folded { call, attrs, name: name.to_string(), ins });
            }
            return Ok(folded);
        }
        if INTEGER_PRODUCTS.contains(&op)
            && self.is_dequantized(ins[0])
            && let Some(weights) = self.unfolded(ins[1])?
        {
            ins[1] = weights;
        }
        if matches!(call.def.forward, Forward::Dynamic(_)) && self.is_executing {
            return Err(Error::NeedsValue(format!("{op} needs the values of its inputs")));
        }
        self.add(&call, &attrs, name, &ins, graphs)
    }

    /// True if `DequantizeLinear` computes the tensor when the graph runs.
    fn is_dequantized(&self, handle: usize) -> bool {
        let symbol = self.tensors[handle].symbol.as_ref();
        let node = symbol.and_then(|symbol| symbol.entries().first()).map(|e| &e.node);
        node.and_then(|node| node.op.as_ref()).is_some_and(|op| op.def.name == DEQUANTIZE_LINEAR.name())
    }

    /// Repeats the folded call that dequantized these weights as a node of the graph, so that a plan finds the integers; `None` if
    /// `handle` is not the result of such a call.
    fn unfolded(&mut self, handle: usize) -> Result<Option<usize>> {
        if let Some(output) = self.unfolded.get(&handle) {
            return Ok(Some(*output));
        }
        let Some(Folded { call, attrs, name, mut ins }) = self.dequantized.get(&handle).cloned() else {
            return Ok(None);
        };
        ins[0] = self.unfolded(ins[0])?.unwrap_or(ins[0]);
        let output = self.add(&call, &attrs, &name, &ins, &[])?[0];
        self.unfolded.insert(handle, output);
        Ok(Some(output))
    }

    fn call(&self, op: &str, attrs: &Attrs, num_inputs: usize, graphs: &[Symbol]) -> Result<OpCall> {
        let (name, def) = registry::find(op)?;
        let mut attrs = attrs.clone();
        if let Inputs::Variadic { count, .. } = def.inputs {
            attrs.entry(count.into()).or_insert_with(|| (num_inputs + graphs.len()).to_string());
        }
        let params = attach(def, def.parse(&attrs)?, graphs)?;
        // Shape inference and kernels rely on the number of inputs, which includes the subgraphs of a control flow operator.
        if let (Some(required), true) = (def.num_inputs(&params), graphs.is_empty())
            && num_inputs < required
        {
            return Err(Error::value(format!("{op} takes {required} inputs, but {num_inputs} were given")));
        }
        Ok(OpCall { name, def, params })
    }

    /// Flattens lists of inputs and converts numbers to constants.
    fn inputs(&mut self, op: &str, inputs: &[Value]) -> Result<Vec<usize>> {
        let mut flat: Vec<&Value> = Vec::new();
        for input in inputs {
            match input {
                Value::List(items) => flat.extend(items),
                other => flat.push(other),
            }
        }
        while let Some(Value::None) = flat.last() {
            flat.pop();
        }
        let dtype = flat.iter().find_map(|v| if let Value::Handle(h) = v { self.tensors[*h].dtype } else { None });
        let mut ins = Vec::with_capacity(flat.len());
        for value in flat {
            ins.push(match value {
                Value::Handle(h) => *h,
                Value::Tensor(t) => {
                    let array = t.to_array()?;
                    self.constant("constant", array)
                }
                number => {
                    let Some(x) = number.number() else {
                        return Err(Error::value(format!("an input of {op} is {}, not a tensor", number.kind())));
                    };
                    let scalar = NDArray::zeros(&Shape::new(&[]), dtype.unwrap_or(DType::F32), Context::default())?;
                    ferromx_runtime::arrays::write_converted(&scalar, [x].into_iter())?;
                    self.constant("constant", scalar)
                }
            });
        }
        Ok(ins)
    }

    /// Folds an operator with constant inputs. `None` if the result is much larger than the inputs or exceeds the budget.
    fn fold(&mut self, call: &OpCall, name: &str, values: Vec<NDArray>) -> Result<Option<Vec<usize>>> {
        let num_in: usize = values.iter().map(NDArray::len).sum();
        if !self.is_executing && !matches!(call.def.forward, Forward::Dynamic(_)) {
            let mut ins: Vec<Shape> = values.iter().map(|v| v.shape().clone()).collect();
            let mut outs = vec![Shape::unknown(); call.def.num_outputs(&call.params)];
            (call.def.infer_shape)(&call.params, &mut ShapeIo { ins: &mut ins, outs: &mut outs })
                .map_err(|e| call.locate(e, name, values.len()))?;
            let num_out = outs.iter().filter_map(|s| s.checked_elements().ok()).max().unwrap_or(0);
            let size = values.iter().map(|v| v.dtype().size()).max().unwrap_or(size_of::<f64>());
            let bytes = num_out.saturating_mul(size);
            let is_expanded = num_out > MAX_EXPANDED.max(num_in.saturating_mul(2));
            if is_expanded || (bytes > SMALL_CONSTANT_BYTES && bytes > self.fold_budget) {
                return Ok(None);
            }
        }
        let mut outs = Arrays::new();
        imperative::invoke(call, Some(Context::default()), &values, &mut outs, false)?;
        let bytes: usize = outs.iter().map(|a| a.len() * a.dtype().size()).sum();
        if !self.is_executing && bytes > SMALL_CONSTANT_BYTES {
            self.fold_budget = self.fold_budget.saturating_sub(bytes);
        }
        let visible = call.def.num_visible(&call.params);
        let named = |k: usize| if visible == 1 { name.to_string() } else { format!("{name}_{k}") };
        Ok(Some(outs.into_iter().take(visible).enumerate().map(|(k, a)| self.constant(&named(k), a)).collect()))
    }

    /// Adds a node.
    fn add(
        &mut self,
        call: &OpCall,
        attrs: &Attrs,
        name: &str,
        ins: &[usize],
        graphs: &[Symbol],
    ) -> Result<Vec<usize>> {
        let unshared = self.with_unshared_states(call, ins)?;
        let ins = unshared.as_slice();
        let (shapes, dims) = self.infer_shapes(call, name, ins)?;
        shapes.iter().try_for_each(check_shape)?;
        let dtypes = self.infer_dtypes(call, name, ins)?;
        let values = self.propagate(call, ins, (&shapes, dtypes.first().copied().flatten()))?;
        let symbols: Vec<Symbol> = graphs.iter().cloned().chain(ins.iter().map(|h| self.symbol(*h))).collect();
        let name = self.unique(name);
        let is_from_placeholder = ins.iter().any(|h| self.tensors[*h].is_from_placeholder);
        let mut atomic = AtomicSymbol::new(call.name, attrs.clone())?;
        if let Some((subgraph, _)) = self.open_subgraphs.last() {
            atomic.set_attr(SUBGRAPH_NAME, subgraph);
        }
        let symbol = atomic.compose(&name, &symbols, None)?;
        let mut outs = Vec::new();
        for (k, (shape, dims)) in shapes.into_iter().zip(dims).take(symbol.num_outputs()).enumerate() {
            let dims = match dims {
                Some(dims) => Some(dims.iter().map(|d| if *d == UNKNOWN_DIM { self.new_dim() } else { *d }).collect()),
                None => self.named_dims(&shape),
            };
            let symbolic_value = values.as_ref().and_then(|arrays| arrays.get(k).cloned());
            let dtype = dtypes[k];
            // An output whose elements are all known is a constant.
            let known = symbolic_value.as_ref().filter(|a| !symbolic::has_symbolic(a));
            if let (Some(array), Some(dtype)) = (known, dtype) {
                let value = symbolic::convert(array, dtype)?;
                outs.push(self.constant(&name, value));
                continue;
            }
            let symbol = Some(symbol.output(k)?);
            outs.push(self.push(TensorInfo {
                name: name.clone(),
                symbol,
                shape,
                dtype,
                value: None,
                dims,
                symbolic_value,
                widened: None,
                is_parameter: false,
                is_from_placeholder,
            }));
        }
        Ok(outs)
    }

    /// The inputs of an operator, with copies of parameters that one operator mutates and another reads. Models share such parameters,
    /// since exporters store parameters with equal elements once.
    fn with_unshared_states(&mut self, call: &OpCall, ins: &[usize]) -> Result<Vec<usize>> {
        let mut unshared = Vec::with_capacity(ins.len());
        for (i, h) in ins.iter().copied().enumerate() {
            let is_state = call.def.mutates.contains(&i);
            let is_shared = if is_state {
                self.read_only.contains(&h) || self.mutated.contains(&h)
            } else {
                self.mutated.contains(&h)
            };
            let known = self.tensors[h].value.clone().filter(|_| is_shared);
            let used = match (known, self.copies.get(&h).copied().filter(|_| !is_state)) {
                (None, _) => h,
                (Some(_), Some(copy)) => copy,
                (Some(value), None) => {
                    let array = NDArray::empty(value.shape(), value.dtype(), Context::default())?;
                    array.copy_from(&value)?;
                    let name = self.tensors[h].name.clone();
                    let copy = self.parameter(&name, array);
                    if !is_state {
                        self.copies.insert(h, copy);
                    }
                    copy
                }
            };
            if is_state {
                self.mutated.insert(used)
            } else {
                self.read_only.insert(used)
            };
            unshared.push(used);
        }
        Ok(unshared)
    }

    fn infer_shapes(&mut self, call: &OpCall, name: &str, ins: &[usize]) -> Result<(Vec<Shape>, Vec<Option<Dims>>)> {
        let n = call.def.num_outputs(&call.params);
        let infer = |mut shapes: Vec<Shape>| {
            let mut outs = vec![Shape::unknown(); n];
            (call.def.infer_shape)(&call.params, &mut ShapeIo { ins: &mut shapes, outs: &mut outs })
                .map_err(|e| call.locate(e, name, ins.len()))
                .map(|()| outs)
        };
        let known = ins.iter().all(|h| self.tensors[*h].shape.is_known());
        let inferred = infer(ins.iter().map(|h| self.tensors[*h].shape.clone()).collect());
        let mut shapes = inferred.clone().unwrap_or_else(|_| vec![Shape::unknown(); n]);
        let dims: Option<Vec<Dims>> = ins.iter().map(|h| self.tensors[*h].dims.clone()).collect();
        let probed = match dims {
            Some(dims) if !known => {
                symbolic::probe(&mut self.dimensions, call.def.name, &dims, &shapes, |sample| infer(sample).ok())
            }
            _ => vec![None; n],
        };
        // Shape inference may reject unknown dimensions; then the dimensions from samples are used.
        if let Err(e) = inferred
            && (known || probed.iter().any(Option::is_none))
        {
            return Err(e.into());
        }
        for (shape, dims) in shapes.iter_mut().zip(&probed) {
            if let Some(dims) = dims {
                *shape = Shape::new(&dims.iter().map(|d| if is_symbolic(*d) { -1 } else { *d }).collect::<Dims>());
            }
        }
        Ok((shapes, probed))
    }

    fn infer_dtypes(&self, call: &OpCall, name: &str, ins: &[usize]) -> Result<Vec<Option<DType>>> {
        let mut types: Vec<_> = ins.iter().map(|h| self.tensors[*h].dtype).collect();
        let mut outs = vec![None; call.def.num_outputs(&call.params)];
        (call.def.infer_dtype)(&call.params, &mut DTypeIo { ins: &mut types, outs: &mut outs })
            .map_err(|e| call.locate(e, name, ins.len()))?;
        Ok(outs)
    }

    /// The values of an operator's outputs if some inputs have symbolic elements; `None` if they are not known.
    fn propagate(
        &mut self,
        call: &OpCall,
        ins: &[usize],
        outs: (&[Shape], Option<DType>),
    ) -> Result<Option<Vec<NDArray>>> {
        if !ins.iter().any(|h| self.tensors[*h].symbolic_value.is_some()) {
            return Ok(None);
        }
        let mut values = Vec::with_capacity(ins.len());
        for h in ins {
            let info = &self.tensors[*h];
            // An integer of the model in the range of symbols must not be mistaken for one.
            let value = info.value.as_ref().filter(|v| v.dtype() != DType::I64 || !symbolic::has_symbolic(v));
            match info.symbolic_value.as_ref().or(value).filter(|a| a.len() <= MAX_PROPAGATED) {
                Some(array) => values.push(array.clone()),
                None => return Ok(None),
            }
        }
        symbolic::propagate(&mut self.dimensions, call, values, outs)
    }

    /// Starts a subgraph, to which new operators belong until [`Builder::end_subgraph`]. Returns its nesting level.
    pub fn begin_subgraph(&mut self, wanted: &str) -> usize {
        let name = self.unique(&format!("{wanted}/graph"));
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
    /// Those of the operator.
    pub fn copies(&mut self, name: &str, tensors: &[Handle]) -> Result<Vec<Handle>> {
        let call = self.call(COPY.name(), &Attrs::new(), 1, &[])?;
        tensors.iter().map(|h| Ok(Handle(self.add(&call, &Attrs::new(), name, &[h.0], &[])?[0]))).collect()
    }

    /// The tensor of an operator's output.
    pub fn handle_of(&self, entry: &NodeEntry) -> Option<usize> {
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

    /// The dimensions `start..end` of a tensor as a tensor of 64-bit integers.
    pub fn shape_of(&mut self, name: &str, handle: usize, start: usize, end: usize) -> Result<usize> {
        let info = &self.tensors[handle];
        let dims = info.dims.clone();
        let known = dims.as_ref().and_then(|d| d.get(start..end)).map(Dims::from_slice);
        if let Some(known) = &known
            && known.iter().all(|d| !is_symbolic(*d))
        {
            return self.numbers(name, known, &[known.len() as i64]);
        }
        let all = self.emit(name, op!(SHAPE_ARRAY(Handle(handle))))?.0;
        if let Some(dims) = dims {
            self.tensors[all].symbolic_value = Some(NDArray::from_slice(&dims, &[dims.len() as i64])?);
            if start == 0 && end == dims.len() {
                return Ok(all);
            }
        }
        Ok(self.emit(name, op!(SLICE_AXIS(Handle(all)), axis: 0, begin: start as i64, end: end as i64))?.0)
    }
}
