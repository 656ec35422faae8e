//! Adds calls of operators by name, with symbolic parameters and lists of inputs.

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{Forward, Inputs};
use ferromx_core::params::Attrs;
use ferromx_core::shape::Shape;
use ferromx_ops::definitions::{DEQUANTIZE_LINEAR, SYMBOLIC_EXPAND, SYMBOLIC_FULL, SYMBOLIC_RESHAPE, SYMBOLIC_SLICE};
use ferromx_ops::registry;
use ferromx_runtime::symbol::{OpCall, Symbol, attach};

use super::fold::{Folded, INTEGER_PRODUCTS, is_pure};
use super::{Builder, MAX_ELEMENTS, scalars};
use crate::emit::dimensions::is_symbolic;
use crate::emit::{Operation, TensorId, op};
use crate::error::{Error, Result};
use crate::ir::Value;

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

/// The variant of an operator whose parameters may be expressions of dimensions.
struct DynamicVariant {
    op: &'static str,
    /// Lists of integers and absent values, by parameter.
    lists: Vec<(&'static str, Vec<Value>)>,
}

/// The dynamic variant of an operator whose first input has this rank; `None` if there is none for these parameters.
fn dynamic_variant<'v>(
    op: &str,
    rank: Option<usize>,
    param: impl Fn(&str) -> &'v Value,
) -> Result<Option<DynamicVariant>> {
    let shape = |key: &str| {
        let dims = param(key).ints().filter(|dims| dims.iter().all(|d| *d >= 0 || is_symbolic(*d)))?;
        Some(("shape", dims.into_iter().map(Value::Int).collect()))
    };
    let variant = match (op, rank) {
        ("_npx_reshape" | "_np_reshape", _) => shape("newshape").map(|shape| (SYMBOLIC_RESHAPE.name(), vec![shape])),
        ("_npi_broadcast_to", _) => shape("shape").map(|shape| (SYMBOLIC_EXPAND.name(), vec![shape])),
        ("_full", _) => shape("shape").map(|shape| (SYMBOLIC_FULL.name(), vec![shape])),
        ("slice", Some(_)) => {
            let list = |key| match param(key) {
                Value::List(items) => Some((key, items.clone())),
                _ => None,
            };
            let lists: Option<Vec<_>> = ["begin", "end", "step"].into_iter().map(list).collect();
            lists.map(|lists| (SYMBOLIC_SLICE.name(), lists))
        }
        ("slice_axis", Some(rank)) => {
            let axis = Shape::axis(param("axis").int().unwrap_or(0), rank)?;
            let list = |key| {
                let mut items = vec![Value::None; rank];
                items[axis] = param(key).clone();
                (key, items)
            };
            Some((SYMBOLIC_SLICE.name(), ["begin", "end"].map(list).to_vec()))
        }
        _ => None,
    };
    Ok(variant.map(|(op, lists)| DynamicVariant { op, lists }))
}

impl Builder {
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
            return self.apply(op, name, &[Value::TensorId(data)], &[("scalar", Value::Float(x))]);
        }
        let given = params.iter().filter(|(_, value)| !matches!(value, Value::None));
        let attrs = given.map(|(key, value)| (key.to_string(), value.to_string())).collect();
        self.apply_with(op, name, inputs, attrs, &[])
    }

    /// Adds an operator and returns its first output.
    ///
    /// # Errors
    /// As [`Builder::apply`].
    pub(crate) fn emit(&mut self, name: &str, operation: Operation) -> Result<TensorId> {
        let outputs = self.apply(operation.def.name, name, &operation.inputs, &operation.params)?;
        Ok(TensorId(outputs[0]))
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
        let rank = given.first().and_then(|id| self.tensors[*id].shape.ndim());
        let unknown = || {
            let symbolic: Vec<_> = params.iter().filter(|(_, v)| has_symbolic_dim(v)).map(|(key, _)| *key).collect();
            Error::NeedsValue(format!(
                "the {} of {op} depends on an unknown dimension: give the shapes of the inputs",
                symbolic.join(" and ")
            ))
        };
        let DynamicVariant { op: dynamic_op, lists } = dynamic_variant(op, rank, param)?.ok_or_else(unknown)?;
        let numbers: Vec<i64> = lists.iter().flat_map(|(_, list)| list).filter_map(Value::int).collect();
        let (ins, written) = self.dim_exprs(&given, &numbers)?;
        let slice_dims = if dynamic_op == SYMBOLIC_SLICE.name() { self.slice_dims(given[0], &lists) } else { None };
        let num_symbols = self.dimensions.num_symbols();
        let mut written = written.into_iter();
        let mut attrs = Attrs::new();
        for (key, list) in lists {
            let each = |v: &Value| v.int().and_then(|_| written.next()).unwrap_or_else(|| "None".into());
            let items: Vec<String> = list.iter().map(each).collect();
            attrs.insert(key.into(), format!("({})", items.join(", ")));
        }
        for key in
            ["value", "dtype"].iter().filter(|key| dynamic_op == SYMBOLIC_FULL.name() && *param(key) != Value::None)
        {
            attrs.insert(key.to_string(), param(key).to_string());
        }
        let outputs = self.apply_with(dynamic_op, name, &ins, attrs, &[])?;
        // Sample lengths do not show how the bounds of a slice are clipped to its axis.
        if let (Some(known), Some(dims)) = (slice_dims, self.tensors[outputs[0]].dims.as_mut()) {
            for (d, known) in dims.iter_mut().zip(known) {
                if let Some(known) = known.filter(|_| self.dimensions.is_new_atom(*d, num_symbols)) {
                    *d = known;
                }
            }
        }
        Ok(outputs)
    }

    /// The dimensions of a slice, of which some may be unknown. `lists` has its begins, ends and steps.
    fn slice_dims(&mut self, data: usize, lists: &[(&str, Vec<Value>)]) -> Option<Vec<Option<i64>>> {
        let dims = self.tensors[data].dims.clone()?;
        let bound = |key: &str, axis: usize| {
            let list = lists.iter().find(|(k, _)| *k == key).and_then(|(_, list)| list.get(axis));
            list.and_then(Value::int)
        };
        let mut len = |(axis, n): (usize, &i64)| match bound("step", axis) {
            None | Some(1) => self.dimensions.slice_len(*n, bound("begin", axis), bound("end", axis)),
            Some(_) => None,
        };
        Some(dims.iter().enumerate().map(&mut len).collect())
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
        let split = self.emit(&format!("{name}/apart"), op!(NPX_RESHAPE(TensorId(data)), newshape: split))?;
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
        let constant: Option<Vec<NDArray>> = ins.iter().map(|id| self.tensors[*id].value.clone()).collect();
        if let Some(values) = constant.filter(|_| self.is_executing() || is_pure(call.def))
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
        if matches!(call.def.kernels.forward, Forward::Dynamic(_)) && self.is_executing() {
            return Err(Error::NeedsValue(format!("{op} needs the values of its inputs")));
        }
        self.add(&call, &attrs, name, &ins, graphs)
    }

    pub(super) fn call(&self, op: &str, attrs: &Attrs, num_inputs: usize, graphs: &[Symbol]) -> Result<OpCall> {
        let (name, def) = registry::find(op)?;
        let mut attrs = attrs.clone();
        if let Inputs::Variadic { count, .. } = def.signature.inputs {
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
    pub(super) fn inputs(&mut self, op: &str, inputs: &[Value]) -> Result<Vec<usize>> {
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
        let dtype = flat.iter().find_map(|v| if let Value::TensorId(id) = v { self.tensors[*id].dtype } else { None });
        let mut ins = Vec::with_capacity(flat.len());
        for value in flat {
            ins.push(match value {
                Value::TensorId(id) => *id,
                Value::Tensor(t) => {
                    let array = t.to_array()?;
                    self.constant("constant", array)
                }
                number => {
                    let Some(x) = number.number() else {
                        return Err(Error::value(format!("an input of {op} is {}, not a tensor", number.kind())));
                    };
                    let scalar = NDArray::zeros(&Shape::new(&[]), dtype.unwrap_or(DType::F32), Context::default())?;
                    scalar.copy_from_slice_as(&[x])?;
                    self.constant("constant", scalar)
                }
            });
        }
        Ok(ins)
    }
}
