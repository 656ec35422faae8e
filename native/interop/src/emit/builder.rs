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

use super::dimensions::{Dimensions, Dims, Function, UNNAMED, is_unknown};
use super::scalars;
use super::symbolic;
use super::{Handle, Operation, op};
use crate::error::{Error, Result};
use crate::ir::{Dim, Value, WidenedInt};
use crate::mapping::ast::Operator;
use crate::mxnet;

/// Maximum number of elements of a folded constant that is larger than its inputs, such as a tensor of zeros.
const MAX_GROWN: usize = 1 << 24;
/// Maximum number of elements of a tensor: more than any array has, and few enough that shape arithmetic cannot overflow.
const MAX_ELEMENTS: i64 = 1 << 36;
/// Constants up to this many bytes are always folded.
const SMALL_FOLD: usize = 1 << 12;
/// Maximum number of bytes of folded constants in a graph, in addition to a multiple of the model's constants.
const MAX_FOLDED: usize = 1 << 28;
/// Bytes of folded constants for each byte of the model's constants.
const FOLDED_PER_BYTE: usize = 4;
/// Maximum number of elements of an integer tensor whose symbolic elements are propagated.
const MAX_FOLLOWED: usize = 1 << 10;

/// The known facts about a tensor of the graph.
pub struct TensorInfo {
    /// Name of its variable if it is a constant.
    pub name: String,
    /// Its entry in the graph. Constants get one at their first use.
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
    pub partly: Option<NDArray>,
    /// The element type in the model, if [`TensorInfo::dtype`] only holds its elements.
    pub widened: Option<WidenedInt>,
    /// True for a parameter of the model, which may be trained.
    pub is_parameter: bool,
    /// True for a placeholder and for tensors that depend on one.
    pub is_from_placeholder: bool,
}

impl TensorInfo {
    /// Its entry in the graph; a constant that nothing reads has none.
    pub fn symbol(&self) -> Option<&Symbol> {
        self.symbol.as_ref()
    }
}

/// The graph that is being built.
pub struct Builder {
    tensors: Vec<TensorInfo>,
    /// The names of nodes, each with the last suffix that made it unique.
    names: HashMap<String, usize>,
    /// True if a model is executed by folding, so that random operators are computed, too.
    executing: bool,
    /// Remaining bytes for folded constants.
    fold_budget: usize,
    dimensions: Dimensions,
    /// The subgraphs that are being built, the innermost one last: name and first tensor.
    inner: Vec<(String, usize)>,
    /// Tensors that operators mutate.
    states: HashSet<usize>,
    /// Tensors that operators read without mutating them.
    read: HashSet<usize>,
    /// Copies of mutated tensors, for operators that only read them.
    copies: HashMap<usize, usize>,
    /// The calls that dequantized constants, and those that transposed the results.
    dequantized: HashMap<usize, Folded>,
    /// Results of such calls that were added to the graph.
    unfolded: HashMap<usize, usize>,
}

/// The attribute with the subgraph of an operator.
const INNER: &str = "__subgraph_name__";

/// True if equal inputs always give equal outputs.
fn is_pure(def: &OpDef) -> bool {
    !def.random && !matches!(def.forward, Forward::Foreign(_)) && def.name != "Custom"
}

/// Operators that plans compute on integers if both operands are dequantized.
const INTEGER_PRODUCTS: [&str; 3] = ["Convolution", "FullyConnected", "_npi_matmul"];

/// A call whose result was folded.
#[derive(Clone)]
struct Folded {
    call: OpCall,
    attrs: Attrs,
    name: String,
    ins: Vec<usize>,
}

/// The attributes of a variable of a known shape and type.
fn described(shape: &Shape, dtype: Option<DType>) -> Attrs {
    let mut attrs = Attrs::new();
    if shape.is_known() {
        // Legacy semantics read an empty shape and dimensions of 0 as unknown.
        let plain = !shape.dims().contains(&0) && !shape.dims().is_empty();
        let key = if plain { "__shape__" } else { "__np_shape__" };
        attrs.insert(key.into(), Value::from(shape.dims().to_vec()).to_string());
    }
    if let Some(dtype) = dtype {
        attrs.insert("__dtype__".into(), dtype.code().to_string());
    }
    attrs
}

/// Integer parameters with any value: indices that are clipped to the axis, and fill values.
const ANY_NUMBER: [&str; 13] = [
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

/// True if operators can compute with the integers of a parameter.
fn is_moderate(value: &Value) -> bool {
    match value {
        Value::Int(i) => (-MAX_ELEMENTS..=MAX_ELEMENTS).contains(i),
        Value::List(items) => items.iter().all(is_moderate),
        _ => true,
    }
}

/// True if a value contains a symbolic dimension.
fn is_symbolic(value: &Value) -> bool {
    match value {
        Value::Int(i) => is_unknown(*i),
        Value::List(items) => items.iter().any(is_symbolic),
        _ => false,
    }
}

fn whole(dims: Vec<i64>) -> Vec<Value> {
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
    /// An empty graph. With `executing`, all operators are computed at once, even random ones.
    pub fn new(executing: bool) -> Builder {
        Builder {
            tensors: Vec::new(),
            names: HashMap::new(),
            executing,
            fold_budget: MAX_FOLDED,
            dimensions: Dimensions::default(),
            inner: Vec::new(),
            states: HashSet::new(),
            read: HashSet::new(),
            copies: HashMap::new(),
            dequantized: HashMap::new(),
            unfolded: HashMap::new(),
        }
    }

    /// True if all operators are computed at once.
    pub fn is_executing(&self) -> bool {
        self.executing
    }

    /// The known facts about a tensor.
    pub fn info(&self, handle: usize) -> &TensorInfo {
        &self.tensors[handle]
    }

    fn push(&mut self, info: TensorInfo) -> usize {
        self.tensors.push(info);
        self.tensors.len() - 1
    }

    /// An unused node name: the requested one, or one that begins with it.
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
        let attrs = described(&shape, dtype);
        let symbol = Some(Symbol::variable(&name, attrs));
        let dims = dims.or_else(|| self.named_dims(&shape));
        self.push(TensorInfo {
            name,
            symbol,
            shape,
            dtype,
            value: None,
            dims,
            partly: None,
            widened: None,
            is_parameter: false,
            is_from_placeholder: false,
        })
    }

    /// Records the declared dimensions of a dynamic input: known lengths and names.
    pub fn keep_dims(&self, handle: usize, dims: &[Dim]) {
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
    pub fn keep_index(&mut self, handle: usize, index: usize) {
        let TensorInfo { symbol: Some(symbol), .. } = &self.tensors[handle] else { return };
        let [variable] = symbol.entries() else { return };
        variable.node.attrs.write().insert(mxnet::INPUT_INDEX.into(), index.to_string());
    }

    /// Records that a tensor holds the elements of a narrower type.
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

    /// The current size of the graph, for [`Builder::forget`].
    pub fn mark(&self) -> usize {
        self.tensors.len()
    }

    /// Removes the tensors added after [`Builder::mark`]. Their names stay reserved.
    pub fn forget(&mut self, mark: usize) {
        self.tensors.truncate(mark);
        self.states.retain(|h| *h < mark);
        self.read.retain(|h| *h < mark);
        self.copies.retain(|h, copy| *h < mark && *copy < mark);
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
            partly: None,
            widened: None,
            is_parameter: false,
            is_from_placeholder: false,
        })
    }

    /// A parameter of the model: a constant that stays a variable because it may be trained.
    pub fn parameter(&mut self, name: &str, value: NDArray) -> usize {
        let bytes = value.len() * value.dtype().size();
        self.fold_budget = self.fold_budget.saturating_add(bytes.saturating_mul(FOLDED_PER_BYTE));
        let handle = self.constant(name, value);
        self.tensors[handle].is_parameter = true;
        handle
    }

    /// An integer tensor with symbolic elements.
    pub fn numbers(&mut self, name: &str, items: &[i64], shape: &[i64]) -> Result<usize> {
        let value = NDArray::from_slice(items, shape)?;
        if items.iter().all(|x| !is_unknown(*x)) {
            return Ok(self.constant(name, value));
        }
        Err(Error::NeedsValue("a tensor that depends on unknown dimensions has no operator here".into()))
    }

    /// A new symbolic dimension.
    pub fn new_dim(&mut self) -> i64 {
        self.dimensions.fresh()
    }

    /// The dimension that is missing from `known`, so that both have equally many elements. Binding the graph reports a remainder.
    pub fn missing_dim(&mut self, all: &[i64], known: &[i64]) -> Option<i64> {
        let (all, known) = (self.dimensions.product(all)?, self.dimensions.product(known)?);
        self.dimensions.over(all, known)
    }

    /// The combination of two integers, which may be symbolic.
    ///
    /// # Errors
    /// The result cannot be represented.
    pub fn combined(&mut self, operator: Operator, a: i64, b: i64) -> Result<Value> {
        let made = match operator {
            Operator::Plus => self.dimensions.plus(a, b),
            Operator::Minus => self.dimensions.minus(a, b),
            Operator::Times => self.dimensions.times(a, b),
            Operator::Over => self.dimensions.over(a, b),
            _ => self.dimensions.remainder(a, b),
        };
        let unknown = || Error::NeedsValue("a dimension is not known: give the shapes of the inputs".into());
        made.map(Value::Int).ok_or_else(unknown)
    }

    /// The order of two integers, which may be symbolic; `None` if it is not known.
    pub fn compared(&self, a: i64, b: i64) -> Option<Ordering> {
        match () {
            () if a == b => Some(Ordering::Equal),
            () if self.dimensions.is_above(a, b) => Some(Ordering::Greater),
            () if self.dimensions.is_above(b, a) => Some(Ordering::Less),
            () => None,
        }
    }

    /// The product of dimensions.
    pub fn product(&mut self, dims: &[i64]) -> Option<i64> {
        self.dimensions.product(dims)
    }

    /// The larger of two dimensions.
    pub fn larger(&mut self, a: i64, b: i64) -> Option<i64> {
        self.dimensions.extreme(Function::Most, a, b)
    }

    /// Integers as parameters of a dynamic operator: the tensors whose dimensions occur in them, and an expression for each integer. The
    /// first inputs are those in `given`.
    ///
    /// # Errors
    /// A dimension that no tensor of the graph has.
    pub fn expressions(&self, given: &[usize], dims: &[i64]) -> Result<(Vec<Value>, Vec<String>)> {
        let mut inputs = given.to_vec();
        let mut atom = |atom: i64| {
            let own = inputs.iter().enumerate().find_map(|(i, h)| Some((i, self.axis_of(*h, atom)?)));
            let (input, axis) = match own {
                Some(found) => found,
                None => {
                    let (holder, axis) = self.holder_of(atom)?;
                    inputs.push(holder);
                    (inputs.len() - 1, axis)
                }
            };
            Some(format!("#{input}.{axis}"))
        };
        let written: Option<Vec<String>> = dims.iter().map(|d| self.dimensions.write(*d, &mut atom)).collect();
        let unknown = || Error::NeedsValue("a dimension is not known: give the shapes of the inputs".into());
        let written = written.ok_or_else(unknown)?;
        Ok((inputs.into_iter().map(Value::Handle).collect(), written))
    }

    /// The axis of a tensor with this symbolic dimension.
    fn axis_of(&self, handle: usize, dim: i64) -> Option<usize> {
        self.tensors[handle].dims.as_ref()?.iter().position(|d| *d == dim)
    }

    /// The symbolic dimension for a dimension name of the model.
    pub fn dim_of_name(&mut self, known: &mut Vec<(String, i64)>, name: &str) -> i64 {
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
    pub fn holder_of(&self, dim: i64) -> Option<(usize, usize)> {
        let of = |(h, t): (usize, &TensorInfo)| {
            t.symbol.as_ref()?;
            Some((h, self.axis_of(h, dim)?))
        };
        self.tensors.iter().enumerate().find_map(of)
    }

    /// The tensor as a symbol; a constant becomes a variable.
    pub fn symbol(&mut self, handle: usize) -> Symbol {
        if let Some(symbol) = &self.tensors[handle].symbol {
            return symbol.clone();
        }
        let wanted = self.tensors[handle].name.clone();
        let name = self.unique(&wanted);
        let info = &mut self.tensors[handle];
        let symbol = Symbol::variable(&name, described(&info.shape, info.dtype));
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

    /// Adds an operator and returns its visible outputs. Inputs are tensors, lists of tensors, numbers (which become scalars of the type
    /// of the first tensor), or `None` for optional inputs at the end.
    ///
    /// # Errors
    /// Inputs and parameters that the operator does not accept.
    pub fn apply(&mut self, op: &str, name: &str, inputs: &[Value], params: &[(&str, Value)]) -> Result<Vec<usize>> {
        if params.iter().any(|(_, value)| is_symbolic(value)) {
            return self.apply_dynamic(op, name, inputs, params);
        }
        if let Some((key, value)) = params.iter().find(|(k, v)| !ANY_NUMBER.contains(k) && !is_moderate(v)) {
            return Err(Error::value(format!("the parameter {key} of {op} would be {value}: no array is as large")));
        }
        if let (true, Some((op, data, x))) = (params.is_empty(), scalars::with_number(self, op, inputs)) {
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
        let made = self.apply(operation.operator, name, &operation.inputs, &operation.params)?;
        Ok(Handle(made[0]))
    }

    /// Adds the dynamic form of an operator, whose parameters are expressions of dimensions.
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
        let dims = |value: &Value| value.ints().filter(|dims| dims.iter().all(|d| *d >= 0 || is_unknown(*d)));
        let (dynamic_op, lists): (&str, Vec<(&str, Option<Vec<Value>>)>) = match (op, rank) {
            ("_npx_reshape" | "_np_reshape", _) => {
                (SYMBOLIC_RESHAPE.name(), vec![("shape", dims(param("newshape")).map(whole))])
            }
            ("_npi_broadcast_to", _) => (SYMBOLIC_EXPAND.name(), vec![("shape", dims(param("shape")).map(whole))]),
            ("_full", _) => (SYMBOLIC_FULL.name(), vec![("shape", dims(param("shape")).map(whole))]),
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
                let known: Vec<_> = params.iter().filter(|(_, v)| is_symbolic(v)).map(|(key, _)| *key).collect();
                let what = known.join(" and ");
                Error::NeedsValue(format!(
                    "the {what} of {op} follows from a dimension that is not known: give the shapes of the inputs"
                ))
            };
            numbers.extend(list.as_ref().ok_or_else(unknown)?.iter().filter_map(Value::int));
        }
        let (ins, written) = self.expressions(&given, &numbers)?;
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
        let (mut apart, mut repeated, mut joined) = (Vec::new(), Vec::new(), Vec::new());
        for (d, r) in dims.iter().zip(reps) {
            apart.extend([1, *d]);
            repeated.extend([*r, *d]);
            joined.push(self.dimensions.times(*d, *r).ok_or_else(unknown)?);
        }
        let apart = self.emit(&format!("{name}/apart"), op!(NPX_RESHAPE(Handle(data)), newshape: apart))?;
        let repeated = self.emit(&format!("{name}/repeated"), op!(BROADCAST_TO(apart), shape: repeated))?;
        Ok(vec![self.emit(name, op!(NPX_RESHAPE(repeated), newshape: joined))?.0])
    }

    /// As [`Builder::apply`], with parameters as text, and with subgraphs.
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
        if let Some(values) = constant.filter(|_| self.executing || is_pure(call.def))
            && let Some(made) = self.fold(&call, name, values)?
        {
            let is_weight = match op {
                "transpose" | "_np_transpose" => self.dequantized.contains_key(&ins[0]),
                _ => op == DEQUANTIZE_LINEAR.name() && self.tensors[ins[0]].shape.dims().len() >= 2,
            };
            if is_weight {
                self.dequantized.insert(made[0], Folded { call, attrs, name: name.to_string(), ins });
            }
            return Ok(made);
        }
        if INTEGER_PRODUCTS.contains(&op)
            && self.is_dequantized(ins[0])
            && let Some(weights) = self.unfolded(ins[1])?
        {
            ins[1] = weights;
        }
        if matches!(call.def.forward, Forward::Dynamic(_)) && self.executing {
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

    /// Dequantized weights as a node, so that a plan finds their integers; `None` if `handle` is something else.
    fn unfolded(&mut self, handle: usize) -> Result<Option<usize>> {
        if let Some(made) = self.unfolded.get(&handle) {
            return Ok(Some(*made));
        }
        let Some(Folded { call, attrs, name, mut ins }) = self.dequantized.get(&handle).cloned() else {
            return Ok(None);
        };
        ins[0] = self.unfolded(ins[0])?.unwrap_or(ins[0]);
        let made = self.add(&call, &attrs, &name, &ins, &[])?[0];
        self.unfolded.insert(handle, made);
        Ok(Some(made))
    }

    fn call(&self, op: &str, attrs: &Attrs, inputs: usize, graphs: &[Symbol]) -> Result<OpCall> {
        let (name, def) = registry::find(op)?;
        let mut attrs = attrs.clone();
        if let Inputs::Variadic { count, .. } = def.inputs {
            attrs.entry(count.into()).or_insert_with(|| (inputs + graphs.len()).to_string());
        }
        let params = attach(def, def.parse(&attrs)?, graphs)?;
        // Shape rules and kernels rely on the count. A subgraph operator counts its subgraphs, too.
        if let (Some(required), true) = (def.num_inputs(&params), graphs.is_empty())
            && inputs < required
        {
            return Err(Error::value(format!("{op} takes {required} inputs, but {inputs} are given")));
        }
        Ok(OpCall { name, def, params })
    }

    /// Flattens the inputs and turns numbers into tensors.
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

    /// Folds an operator with constant inputs, unless its result would be much larger than the inputs.
    fn fold(&mut self, call: &OpCall, name: &str, values: Vec<NDArray>) -> Result<Option<Vec<usize>>> {
        let given: usize = values.iter().map(NDArray::len).sum();
        if !self.executing && !matches!(call.def.forward, Forward::Dynamic(_)) {
            let mut ins: Vec<Shape> = values.iter().map(|v| v.shape().clone()).collect();
            let mut outs = vec![Shape::unknown(); call.def.num_outputs(&call.params)];
            (call.def.infer_shape)(&call.params, &mut ShapeIo { ins: &mut ins, outs: &mut outs })
                .map_err(|e| call.locate(e, name, values.len()))?;
            let made = outs.iter().filter_map(|s| s.checked_elements().ok()).max().unwrap_or(0);
            let size = values.iter().map(|v| v.dtype().size()).max().unwrap_or(size_of::<f64>());
            let bytes = made.saturating_mul(size);
            if made > MAX_GROWN.max(given.saturating_mul(2)) || (bytes > SMALL_FOLD && bytes > self.fold_budget) {
                return Ok(None);
            }
        }
        let mut outs = Arrays::new();
        imperative::invoke(call, Some(Context::default()), &values, &mut outs, false)?;
        let made: usize = outs.iter().map(|a| a.len() * a.dtype().size()).sum();
        if !self.executing && made > SMALL_FOLD {
            self.fold_budget = self.fold_budget.saturating_sub(made);
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
        let own = self.with_own_states(call, ins)?;
        let ins = own.as_slice();
        let (shapes, dims) = self.infer_shapes(call, name, ins)?;
        shapes.iter().try_for_each(check_shape)?;
        let dtypes = self.infer_dtypes(call, name, ins)?;
        let followed = self.follow(call, ins, (&shapes, dtypes.first().copied().flatten()))?;
        let symbols: Vec<Symbol> = graphs.iter().cloned().chain(ins.iter().map(|h| self.symbol(*h))).collect();
        let name = self.unique(name);
        let is_from_placeholder = ins.iter().any(|h| self.tensors[*h].is_from_placeholder);
        let mut atomic = AtomicSymbol::new(call.name, attrs.clone())?;
        if let Some((inner, _)) = self.inner.last() {
            atomic.set_attr(INNER, inner);
        }
        let symbol = atomic.compose(&name, &symbols, None)?;
        let mut outs = Vec::new();
        for (k, (shape, dims)) in shapes.into_iter().zip(dims).take(symbol.num_outputs()).enumerate() {
            let dims = match dims {
                Some(dims) => Some(dims.iter().map(|d| if *d == UNNAMED { self.new_dim() } else { *d }).collect()),
                None => self.named_dims(&shape),
            };
            let partly = followed.as_ref().and_then(|arrays| arrays.get(k).cloned());
            let dtype = dtypes[k];
            // All elements are known, so it is a constant.
            let known = partly.as_ref().filter(|a| !symbolic::has_unknown(a));
            if let (Some(array), Some(dtype)) = (known, dtype) {
                let value = symbolic::converted(array, dtype)?;
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
                partly,
                widened: None,
                is_parameter: false,
                is_from_placeholder,
            }));
        }
        Ok(outs)
    }

    /// The inputs of an operator, with copies of parameters that one operator mutates and others read: exporters store equal parameters
    /// once.
    fn with_own_states(&mut self, call: &OpCall, ins: &[usize]) -> Result<Vec<usize>> {
        let mut own = Vec::with_capacity(ins.len());
        for (i, h) in ins.iter().copied().enumerate() {
            let is_state = call.def.mutates.contains(&i);
            let is_shared =
                if is_state { self.read.contains(&h) || self.states.contains(&h) } else { self.states.contains(&h) };
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
                self.states.insert(used)
            } else {
                self.read.insert(used)
            };
            own.push(used);
        }
        Ok(own)
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
        // A shape rule may reject unknown dimensions; then the sampled shapes are used.
        if let Err(e) = inferred
            && (known || probed.iter().any(Option::is_none))
        {
            return Err(e.into());
        }
        for (shape, dims) in shapes.iter_mut().zip(&probed) {
            if let Some(dims) = dims {
                *shape = Shape::new(&dims.iter().map(|d| if is_unknown(*d) { -1 } else { *d }).collect::<Dims>());
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

    /// Propagates symbolic integers through an operator.
    fn follow(
        &mut self,
        call: &OpCall,
        ins: &[usize],
        outs: (&[Shape], Option<DType>),
    ) -> Result<Option<Vec<NDArray>>> {
        if !ins.iter().any(|h| self.tensors[*h].partly.is_some()) {
            return Ok(None);
        }
        let mut values = Vec::with_capacity(ins.len());
        for h in ins {
            let info = &self.tensors[*h];
            // A number of the model must not be mistaken for a symbolic dimension.
            let value = info.value.as_ref().filter(|v| v.dtype() != DType::I64 || !symbolic::has_unknown(v));
            match info.partly.as_ref().or(value).filter(|a| a.len() <= MAX_FOLLOWED) {
                Some(array) => values.push(array.clone()),
                None => return Ok(None),
            }
        }
        symbolic::follow(&mut self.dimensions, call, values, outs)
    }

    /// Starts a subgraph that all new operators belong to, until [`Builder::leave`].
    pub fn enter(&mut self, wanted: &str) -> usize {
        let name = self.unique(&format!("{wanted}/graph"));
        self.inner.push((name, self.tensors.len()));
        self.inner.len()
    }

    /// Ends a subgraph and those nested in it. Its dimensions cannot be used outside.
    pub fn leave(&mut self, level: usize) {
        if let Some((_, first)) = self.inner.drain(level.saturating_sub(1)..).next() {
            self.tensors[first..].iter_mut().for_each(|t| t.dims = None);
        }
    }

    /// Copies of tensors, made by operators even for constants.
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

    /// The shape of a tensor as a tensor of 64-bit integers: dimensions `start..end`.
    pub fn shape_of(&mut self, name: &str, handle: usize, start: usize, end: usize) -> Result<usize> {
        let info = &self.tensors[handle];
        let dims = info.dims.clone();
        let known = dims.as_ref().and_then(|d| d.get(start..end)).map(Dims::from_slice);
        if let Some(known) = &known
            && known.iter().all(|d| !is_unknown(*d))
        {
            return self.numbers(name, known, &[known.len() as i64]);
        }
        let all = self.emit(name, op!(SHAPE_ARRAY(Handle(handle))))?.0;
        if let Some(dims) = dims {
            self.tensors[all].partly = Some(NDArray::from_slice(&dims, &[dims.len() as i64])?);
            if start == 0 && end == dims.len() {
                return Ok(all);
            }
        }
        Ok(self.emit(name, op!(SLICE_AXIS(Handle(all)), axis: 0, begin: start as i64, end: end as i64))?.0)
    }
}
