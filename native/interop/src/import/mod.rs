//! The import process: converts a model in framework-neutral form to an MXNet graph.
//!
//! Nodes are visited in topological order. For each one, the first process whose pattern and conditions match emits MXNet operators.
//! Operators with constant inputs are folded, so that importing a graph whose inputs all have values executes it. [`execute`] runs models
//! whose shapes depend on data in this way.
//!
//! - `order`: the topological order; `match_pattern`: matches patterns with nodes.
//! - `diagnose`: continues after nodes that cannot be mapped; `check`: checks that the result can be bound.
//! - `hooks`: the hooks of an import.

mod check;
mod diagnose;
mod hooks;
mod match_pattern;
mod order;

use std::collections::HashMap;
use std::sync::Arc;

use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_runtime::symbol::Symbol;
use indexmap::IndexMap;

pub use check::check;
use diagnose::Diagnosis;
use hooks::Hooked;
use match_pattern::GraphContext;

use crate::emit::{
    ADVICE, Builder, Dims, Emitter, Hooks, Mode, Naming, NodeContext, NumpyShapes, Scope, Sink, check_shape,
};
use crate::error::{Error, Problem, Result};
use crate::ir::{Dim, Graph, Model, Node, Value, ValueInfo};
use crate::mapping::Mappings;

/// Import options.
#[derive(Clone, Default)]
pub struct ImportOptions {
    /// Fixed shapes of inputs by name; -1 leaves a dimension dynamic.
    pub shapes: HashMap<String, Vec<i64>>,
    /// Values of inputs by name, which become constants of the graph.
    pub values: HashMap<String, NDArray>,
    /// The user's hooks.
    pub hooks: Option<Arc<dyn Hooks>>,
    /// Operators, rules and processes that the program adds to the table.
    pub mappings: Option<Arc<Mappings>>,
}

/// A model as an MXNet graph.
pub struct Imported {
    /// The graph.
    pub symbol: Symbol,
    /// Parameters and constants.
    pub args: IndexMap<String, NDArray>,
    /// Auxiliary states.
    pub aux: IndexMap<String, NDArray>,
    /// The required inputs, in the order of the model.
    pub inputs: Vec<ValueInfo>,
    /// The names of the outputs in the model, in the order of the graph's outputs.
    pub outputs: Vec<String>,
}

impl Imported {
    /// The parameters, constants and auxiliary states by name, as an export takes them.
    pub fn params(&self) -> IndexMap<String, NDArray> {
        self.args.iter().chain(&self.aux).map(|(name, array)| (name.clone(), array.clone())).collect()
    }
}

/// An import in progress.
struct Importer<'t> {
    emitter: Emitter<'t>,
    /// Values by name: one map for each nested graph, the innermost last.
    scopes: Vec<HashMap<String, Value>>,
    problems: Vec<Problem>,
    diagnosis: Diagnosis,
    hooked: Hooked,
}

/// Maximum nesting depth of subgraphs.
const MAX_DEPTH: usize = 24;

/// Maximum number of nodes of branches and loops that an import maps. Nodes of an unrolled loop count for each iteration.
const MAX_MAPPED: usize = 1 << 18;

impl<'t> NodeContext<'t> for Importer<'t> {
    fn emitter(&self) -> &Emitter<'t> {
        &self.emitter
    }

    fn emitter_mut(&mut self) -> &mut Emitter<'t> {
        &mut self.emitter
    }

    fn sink(&mut self) -> Option<(&mut Sink, &mut Builder)> {
        None
    }

    fn graph(&mut self, graph: &Graph, inputs: HashMap<String, Value>) -> Result<Vec<Value>> {
        self.subgraph(graph, inputs)
    }

    fn problem_count(&self) -> usize {
        self.problems.len()
    }
}

impl<'t> Importer<'t> {
    fn new(emitter: Emitter<'t>) -> Importer<'t> {
        Importer {
            emitter,
            scopes: vec![HashMap::new()],
            problems: Vec::new(),
            diagnosis: Diagnosis::default(),
            hooked: Hooked::default(),
        }
    }

    /// The value of a name; `Value::None` for the empty name.
    ///
    /// # Errors
    /// An error without problems if the producer could not be mapped, which has been reported.
    fn value(&self, name: &str) -> Result<Value> {
        if name.is_empty() {
            return Ok(Value::None);
        }
        match self.scopes.iter().rev().find_map(|s| s.get(name)) {
            Some(value) => Ok(value.clone()),
            None => Err(Error::Model(Vec::new())),
        }
    }

    /// True if a hook produced the value of a name, so that patterns must not match its producer.
    fn made_by_hook(&self, name: &str) -> bool {
        self.hooked.has_produced(name)
    }

    /// The element of a name's value, if it is a constant of one element.
    fn known_number(&self, name: &str) -> Result<Option<f64>> {
        let Value::TensorId(id) = self.value(name)? else { return Ok(None) };
        let Some(array) = self.emitter.builder.info(id).value.as_ref().filter(|a| a.len() == 1) else {
            return Ok(None);
        };
        Ok(array.to_vec_as::<f64>()?.first().copied())
    }

    /// Maps a graph with these input values and returns its outputs. Problems are collected, and placeholders replace the outputs of nodes
    /// that cannot be mapped.
    ///
    /// # Errors
    /// Subgraphs that are nested too deeply; a failed hook.
    fn subgraph(&mut self, graph: &Graph, inputs: HashMap<String, Value>) -> Result<Vec<Value>> {
        if self.scopes.len() > MAX_DEPTH {
            return Err(Error::format(format!("graphs are nested deeper than {MAX_DEPTH}")));
        }
        self.diagnosis.visit(graph);
        let rewritten = hooks::rewrite_nodes(self, graph).map_err(|e| self.fail(e))?;
        let graph = rewritten.as_ref().unwrap_or(graph);
        let outside = |name: &str| self.scopes.iter().any(|s| s.contains_key(name));
        let (wiring, problems) = order::wire(graph, outside);
        self.report(problems);
        let mut scope = inputs;
        for (name, tensor) in &graph.constants {
            let value = match tensor.to_array() {
                Ok(array) => {
                    let tensor_id = self.emitter.builder.parameter(name, array);
                    self.emitter.builder.record_element_type(tensor_id, Some(&tensor.element));
                    Value::TensorId(tensor_id)
                }
                Err(e) => {
                    self.report(e.at(format!("initializer '{name}'")));
                    let dims = tensor.dims.iter().map(|d| Dim::Known(*d)).collect();
                    let info = ValueInfo { name: name.clone(), element: None, dims: Some(dims), non_tensor_kind: None };
                    self.placeholder(name, Some(&info))
                }
            };
            scope.insert(name.clone(), value);
        }
        for name in graph.unread_constants.iter().map(String::as_str).chain(wiring.missing_values.iter().copied()) {
            let value = self.placeholder(name, graph.values.get(name));
            scope.insert(name.to_string(), value);
        }
        for info in &graph.inputs {
            if let Some(Value::TensorId(id)) = scope.get(&info.name) {
                self.emitter.builder.record_element_type(*id, info.element.as_ref());
            }
        }
        self.scopes.push(scope);
        let context = GraphContext { graph, wiring: &wiring };
        for i in &wiring.order {
            self.node(&context, &graph.nodes[*i]);
        }
        let outputs = graph.outputs.iter().map(|o| self.value(&o.name)).collect();
        self.scopes.pop();
        outputs
    }

    fn node(&mut self, context: &GraphContext<'_, '_>, node: &Node) {
        // Execution stops at the first problem.
        if self.hooked.failed.is_some() || (self.emitter.builder.is_executing() && !self.problems.is_empty()) {
            return;
        }
        if self.is_trying() && self.has_tried_enough() {
            return;
        }
        // The file size bounds the number of nodes of the main graph.
        if !self.emitter.builder.is_executing() && self.scopes.len() > 2 {
            self.emitter.unrolling.num_mapped += 1;
            if self.emitter.unrolling.num_mapped > MAX_MAPPED {
                let text = format!("its branches and unrolled loops have more than {MAX_MAPPED} nodes");
                self.report_model(Error::unsupported(text));
                return;
            }
        }
        self.diagnosis.within.push(node.label());
        let result = self.with_hooks(node, |importer| importer.map(context, node));
        let result = result.and_then(|values| self.with_element_types(context.graph, node, values));
        self.diagnosis.within.pop();
        let values = match result {
            Ok(values) => {
                self.propagate_placeholders(node, &values);
                values
            }
            Err(e) if e.is_foreign() => {
                self.fail(e);
                return;
            }
            Err(e) => {
                self.node_failed(context, node, e);
                self.check_subgraphs(node);
                self.placeholders(context.graph, node)
            }
        };
        if let Some(scope) = self.scopes.last_mut() {
            scope.extend(node.outputs.iter().cloned().zip(values));
        }
    }

    /// The outputs of a node, with their element types in the model recorded.
    fn with_element_types(&mut self, graph: &Graph, node: &Node, mut values: Vec<Value>) -> Result<Vec<Value>> {
        let inputs = node.inputs.iter().map(|name| self.value(name)).collect::<Result<Vec<_>>>()?;
        let declared = |name: &str| {
            let output = || graph.outputs.iter().find(|o| o.name == name);
            graph.values.get(name).or_else(output).and_then(|info| info.element.clone())
        };
        self.emitter.builder.widen(node, declared, &inputs, &mut values)?;
        Ok(values)
    }

    /// Ends the import with the first error of a hook.
    fn fail(&mut self, e: Error) -> Error {
        self.hooked.failed.get_or_insert_with(|| e.clone());
        e
    }

    /// Checks that the table has a process for a node's operator, and checks the node against the operator's descriptor.
    fn known_operator(&self, node: &Node) -> Result<()> {
        let (descriptor, version) = (self.emitter.descriptor(node)?, self.emitter.version_of(node));
        match self.emitter.table.for_import(&node.domain, &node.op, version).next() {
            None => Err(Error::unsupported(format!(
                "there is no process for {} of version {version} of the operator set: {ADVICE}",
                node.op
            ))),
            Some(_) if node.has_unread_attribute => Err(Error::Model(Vec::new())),
            Some(_) => descriptor.check(node),
        }
    }

    /// The outputs of a node by the first process that matches.
    fn map(&mut self, context: &GraphContext<'_, '_>, node: &Node) -> Result<Vec<Value>> {
        self.known_operator(node)?;
        let (version, table) = (self.emitter.version_of(node), self.emitter.table);
        for input in &node.inputs {
            self.value(input)?;
        }
        let name = if node.name.is_empty() { node.outputs.iter().find(|o| !o.is_empty()) } else { Some(&node.name) };
        let name = name.cloned().unwrap_or_default();
        let (mut reasons, mut needs_value) = (Vec::new(), false);
        for process in table.for_import(&node.domain, &node.op, version) {
            let names = match match_pattern::matches(self, context, node, process)? {
                Ok(names) => names,
                Err(why) => {
                    reasons.push(why);
                    continue;
                }
            };
            let mut scope = Scope::new(&mut *self, node, name.clone(), process);
            let mut failed_condition = None;
            for (condition, why) in &process.conditions {
                match scope.eval(condition, &names, Naming::Operator) {
                    Ok(value) if value.is_true() => continue,
                    Ok(_) => failed_condition = Some(why.clone()),
                    // If the condition of a pattern of several operators fails, their own processes may still apply.
                    Err(e) if match_pattern::is_nested(process) && !e.is_foreign() => {
                        failed_condition = Some(e.to_string());
                    }
                    Err(e) => return Err(e),
                }
                break;
            }
            if let Some(why) = failed_condition {
                needs_value |= scope.needs_value;
                reasons.push(if why.is_empty() { "a condition does not hold".into() } else { why });
                continue;
            }
            let value = scope.eval(&process.right, &names, Naming::Node)?;
            return outputs(node, value);
        }
        Err(no_match(node, &reasons, needs_value))
    }
}

/// The error for a node that no process matches, with the reason of each.
fn no_match(node: &Node, reasons: &[String], needs_value: bool) -> Error {
    let mut distinct: Vec<&str> = reasons.iter().map(String::as_str).collect();
    distinct.dedup();
    let text = format!("no process for {} matches: {}", node.op, distinct.join("; "));
    if needs_value { Error::NeedsValue(text) } else { Error::Unsupported(text) }
}

/// The outputs of a node from the result of a process.
fn outputs(node: &Node, value: Value) -> Result<Vec<Value>> {
    let values = match value {
        Value::List(values) => values,
        single => vec![single],
    };
    for (k, name) in node.outputs.iter().enumerate() {
        if !name.is_empty() && !matches!(values.get(k), Some(Value::TensorId(_) | Value::List(_))) {
            return Err(Error::unsupported(format!(
                "its output {k} ('{name}') is not computed by the process for {}",
                node.op
            )));
        }
    }
    Ok(values.into_iter().chain(std::iter::repeat(Value::None)).take(node.outputs.len()).collect())
}

/// Adds the inputs of a model to the graph.
fn add_inputs(importer: &mut Importer<'_>, model: &Model, options: &ImportOptions) -> Result<HashMap<String, Value>> {
    let inputs = &model.graph.inputs;
    let mut given_names = options.shapes.keys().chain(options.values.keys());
    if let Some(name) = given_names.find(|name| !inputs.iter().any(|i| i.name == **name)) {
        let known: Vec<_> = inputs.iter().map(|i| i.name.as_str()).collect();
        return Err(Error::value(format!("the model has no input '{name}'; its inputs are {}", known.join(", "))));
    }
    let mut scope = HashMap::new();
    let mut named_dims = Vec::new();
    for (index, info) in inputs.iter().enumerate() {
        let value = match options.values.get(&info.name) {
            Some(array) => Value::TensorId(importer.emitter.builder.constant(&info.name, array.clone())),
            None => match shape_and_dtype(info, options) {
                Ok((shape, dtype)) => {
                    let builder = &mut importer.emitter.builder;
                    let dims = shape.ndim_is_known().then(|| symbolic_dims(builder, info, &shape, &mut named_dims));
                    let tensor_id = builder.input(&info.name, shape, dtype, dims);
                    builder.record_dims(tensor_id, info.dims.as_deref().unwrap_or_default());
                    builder.record_input_index(tensor_id, index);
                    Value::TensorId(tensor_id)
                }
                Err(e) => {
                    importer.problems.extend(e.at(format!("input '{}'", info.name)));
                    let is_tensor = info.non_tensor_kind.is_none();
                    importer.placeholder(&info.name, is_tensor.then_some(info))
                }
            },
        };
        scope.insert(info.name.clone(), value);
    }
    Ok(scope)
}

/// The shape of an input, declared or given, and its declared type.
///
/// # Errors
/// A value that is no tensor; an unsupported type; inconsistent shapes.
fn shape_and_dtype(info: &ValueInfo, options: &ImportOptions) -> Result<(Shape, Option<DType>)> {
    if let Some(kind) = info.non_tensor_kind {
        return Err(Error::unsupported(format!("its type is {kind}; only tensors are supported")));
    }
    let dtype = info.element.as_ref().map(|e| e.dtype()).transpose()?;
    let mut shape = info.shape();
    if let Some(given) = options.shapes.get(&info.name) {
        let given = Shape::new(given);
        if !shape.assign(&given) {
            return Err(Error::value(format!("its shape is {}, but {given} was given for it", info.shape())));
        }
    }
    check_shape(&shape)?;
    Ok((shape, dtype))
}

/// The dimensions of an input: lengths, and symbols for unknown ones. Those of the same name are equal in all inputs.
fn symbolic_dims(builder: &mut Builder, info: &ValueInfo, shape: &Shape, named: &mut Vec<(String, i64)>) -> Dims {
    let declared = |k: usize| info.dims.as_ref().and_then(|dims| dims.get(k));
    let dim = |(k, d): (usize, &i64)| match declared(k) {
        _ if *d >= 0 => *d,
        Some(Dim::Named(name)) => builder.dim_by_name(named, name),
        _ => builder.new_dim(),
    };
    shape.dims().iter().enumerate().map(dim).collect()
}

/// Maps a model to an MXNet graph.
///
/// # Errors
/// All parts of the model that cannot be mapped, with the names of the nodes.
pub fn import(model: &Model, options: &ImportOptions) -> Result<Imported> {
    let (mut importer, values) = run(model, options, Mode::Build)?;
    let mut heads = Vec::new();
    for (info, value) in model.graph.outputs.iter().zip(&values) {
        let Value::TensorId(id) = value else {
            let text = format!("the output '{}' is a sequence; only tensors are supported", info.name);
            return Err(Error::unsupported(text));
        };
        let output = importer.emitter.builder.described_output(&info.name, *id)?;
        heads.push(importer.emitter.builder.symbol(output));
    }
    let symbol = Symbol::group(&heads);
    let aux_names = symbol.list_auxiliary_states();
    let names = symbol.list_inputs();
    let (mut args, mut aux) = (IndexMap::new(), IndexMap::new());
    for (name, array) in importer.emitter.builder.parameters().filter(|(n, _)| names.iter().any(|m| m == n)) {
        let target = if aux_names.iter().any(|n| n == name) { &mut aux } else { &mut args };
        target.insert(name.to_string(), array.clone());
    }
    let inputs =
        model.graph.inputs.iter().filter(|i| names.contains(&i.name) && !args.contains_key(&i.name)).cloned().collect();
    let outputs = model.graph.outputs.iter().map(|o| o.name.clone()).collect();
    Ok(Imported { symbol, args, aux, inputs, outputs })
}

/// Executes a model by mapping it with the values of all its inputs. Shapes may depend on data.
///
/// # Errors
/// Inputs that are missing or have a wrong shape or type, all parts of the model that cannot be mapped, errors of the operators.
pub fn execute(model: &Model, inputs: HashMap<String, NDArray>) -> Result<Vec<NDArray>> {
    if let Some(info) = model.graph.inputs.iter().find(|i| !inputs.contains_key(&i.name)) {
        return Err(Error::value(format!("there is no value for the input '{}'", info.name)));
    }
    let options = ImportOptions { values: inputs, ..ImportOptions::default() };
    let (importer, values) = run(model, &options, Mode::Execute)?;
    let value = |v: Value| match v {
        Value::TensorId(id) => importer.emitter.builder.info(id).value.clone(),
        _ => None,
    };
    values.into_iter().map(|v| value(v).ok_or_else(|| Error::format("an output has no value"))).collect()
}

fn run<'t>(model: &Model, options: &'t ImportOptions, mode: Mode) -> Result<(Importer<'t>, Vec<Value>)> {
    let numpy = NumpyShapes::set();
    let emitter = Emitter::new(model.framework, options.mappings.as_deref(), model.opsets.clone(), mode)?;
    let mut importer = Importer::new(emitter);
    importer.hooked = Hooked::new(options.hooks.clone());
    importer.problems.clone_from(&model.problems);
    let inputs = add_inputs(&mut importer, model, options)?;
    let result = importer.subgraph(&model.graph, inputs);
    importer.report_limit();
    drop(numpy);
    if let Some(e) = importer.hooked.failed.take() {
        return Err(e);
    }
    if !importer.problems.is_empty() {
        return Err(Error::Model(importer.problems));
    }
    Ok((importer, result?))
}
