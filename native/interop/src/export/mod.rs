//! The export process: converts an MXNet graph to an ONNX model. It reads the table of the import from right to left.
//!
//! Nodes are visited from the outputs to the inputs. For each one, the first process whose right side matches emits ONNX operators.
//!
//! - `match_pattern`: matches right sides with MXNet nodes.
//! - `bodies`: control flow operators and graphs in place of nodes.
//! - `dynamic_shapes`: shapes of graphs with dynamic inputs.
//! - `hooks`: the hooks of an export.

mod bodies;
mod dynamic_shapes;
mod hooks;
mod match_pattern;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_runtime::symbol::{Node as SymbolNode, Symbol};
use ferromx_runtime::symbol_infer::infer_dtypes;
use indexmap::IndexMap;

use crate::emit::{
    Builder, Emitter, Hooks, Mode, Names, Naming, NodeContext, NumpyShapes, Scope, Sink, framework_call, type_code,
};
use crate::error::{Error, Problem, Result};
use crate::ir::{Dim, ElementType, Framework, Graph, Model, Node, Tensor, Value, ValueInfo, WidenedInt};
use crate::mapping::Mappings;
use crate::mapping::ast::{Call, Direction, Expr, Process};
use crate::mxnet;
use hooks::ExportHooks;
use match_pattern::PatternMatch;

/// Default version of the operator set.
pub const DEFAULT_OPSET: i64 = 21;
/// Supported versions of the operator set.
pub const OPSETS: std::ops::RangeInclusive<i64> = 13..=25;

/// The MXNet graph of an export, with the known shapes and types of its tensors.
pub struct Source {
    /// The graph in framework-neutral form.
    graph: Graph,
    /// Number of uses of each value.
    uses: HashMap<String, usize>,
    /// The tensor of each value, by name.
    tensor_ids: HashMap<String, usize>,
    /// The name of each tensor.
    names: Vec<String>,
    /// The node that computes each value, by name.
    producers: HashMap<String, usize>,
    /// The elements of one-element constants, by tensor id.
    scalars: HashMap<usize, f64>,
    /// Control flow operators, by name.
    control_flow: HashMap<String, Arc<SymbolNode>>,
    /// Variables, by name.
    variables: HashMap<String, Arc<SymbolNode>>,
    /// The element type of each output in the imported model, if it is stored in a wider type.
    widened_outputs: Vec<Option<WidenedInt>>,
}

impl Source {
    /// A source without tensors, producers and uses.
    fn of(graph: Graph, symbol: &Symbol) -> Source {
        let named = |n: Arc<SymbolNode>| (n.name.to_string(), n);
        let control_flow = symbol.nodes().into_iter().filter(|n| !n.graphs.is_empty()).map(named).collect();
        let variables = symbol.nodes().into_iter().filter(|n| n.is_variable()).map(named).collect();
        Source {
            graph,
            uses: HashMap::new(),
            tensor_ids: HashMap::new(),
            names: Vec::new(),
            producers: HashMap::new(),
            scalars: HashMap::new(),
            control_flow,
            variables,
            widened_outputs: symbol.entries().iter().map(|e| element_type(&e.node)).collect(),
        }
    }

    /// Fills the tables of producers and uses.
    fn index(&mut self) {
        for (i, node) in self.graph.nodes.iter().enumerate() {
            self.producers.extend(node.outputs.iter().map(|o| (o.clone(), i)));
            node.inputs.iter().for_each(|name| *self.uses.entry(name.clone()).or_default() += 1);
        }
        self.graph.outputs.iter().for_each(|o| *self.uses.entry(o.name.clone()).or_default() += 1);
    }

    /// The tensor of a name.
    fn value(&self, name: &str) -> Value {
        self.tensor_ids.get(name).map_or(Value::None, |id| Value::TensorId(*id))
    }

    /// The index of an input in the model that the graph was imported from; inputs without one come last.
    fn input_index(&self, name: &str) -> usize {
        let index = self.variables.get(name).and_then(|node| node.attrs.read().get(mxnet::INPUT_INDEX)?.parse().ok());
        index.unwrap_or(usize::MAX)
    }

    /// The node of which a tensor is the first output.
    fn producer(&self, tensor_id: usize) -> Option<usize> {
        let name = self.names.get(tensor_id)?;
        self.producers.get(name).copied().filter(|n| self.graph.nodes[*n].outputs[0] == *name)
    }

    /// The element of a one-element constant.
    fn scalar(&self, tensor_id: usize) -> Option<f64> {
        self.scalars.get(&tensor_id).copied()
    }
}

/// The recorded element type of a node.
fn element_type(node: &SymbolNode) -> Option<WidenedInt> {
    WidenedInt::from_name(node.attrs.read().get(mxnet::ELEMENT_TYPE)?)
}

/// An export in progress.
struct Exporter<'t> {
    emitter: Emitter<'t>,
    sink: Sink,
    hooks: ExportHooks,
}

impl<'t> NodeContext<'t> for Exporter<'t> {
    fn emitter(&self) -> &Emitter<'t> {
        &self.emitter
    }

    fn emitter_mut(&mut self) -> &mut Emitter<'t> {
        &mut self.emitter
    }

    fn sink(&mut self) -> Option<(&mut Sink, &mut Builder)> {
        Some((&mut self.sink, &mut self.emitter.builder))
    }

    fn graph(&mut self, _: &Graph, _: HashMap<String, Value>) -> Result<Vec<Value>> {
        Err(Error::value("a graph of the framework can only be mapped in an import"))
    }

    fn problem_count(&self) -> usize {
        0
    }
}

/// Export options.
#[derive(Clone, Default)]
pub struct ExportOptions {
    /// Shapes of inputs by name; -1 is a dynamic dimension.
    pub shapes: Vec<(String, Shape)>,
    /// Element types of inputs by name; float32 if absent.
    pub dtypes: Vec<(String, DType)>,
    /// Names for the outputs, in their order; by default those of the symbol.
    pub outputs: Vec<String>,
    /// The first inputs of the model, in order, including unused ones. Other inputs follow them.
    pub inputs: Vec<ValueInfo>,
    /// Version of the operator set.
    pub opset: Option<i64>,
    /// The user's hooks: `before` returns MXNet operators, `prepare` a node of any operator set.
    pub hooks: Option<Arc<dyn Hooks>>,
    /// Operators, rules and processes that the program adds to the table.
    pub mappings: Option<Arc<Mappings>>,
}

/// Writes a symbol with its parameters as a model.
///
/// # Errors
/// All operators that ONNX cannot express, with the names of the nodes.
pub fn export(symbol: &Symbol, params: &IndexMap<String, NDArray>, options: &ExportOptions) -> Result<Model> {
    let _numpy = NumpyShapes::set();
    let flat = symbol.expanded();
    let symbol = flat.as_ref().unwrap_or(symbol);
    let opset = options.opset.unwrap_or(DEFAULT_OPSET);
    if !OPSETS.contains(&opset) {
        return Err(Error::value(format!(
            "version {opset} of the operator set cannot be exported; use {} to {}",
            OPSETS.start(),
            OPSETS.end()
        )));
    }
    let mut opsets: IndexMap<String, i64> = [(String::new(), opset)].into_iter().collect();
    for domain in options.mappings.iter().flat_map(|added| added.domains()) {
        opsets.insert(domain.into(), added_version(options, domain));
    }
    let mut emitter = Emitter::new(Framework::Onnx, options.mappings.as_deref(), opsets.clone(), Mode::Build)?;
    let source = read_source(symbol, params, options, &mut emitter.builder)?;
    let mut sink = Sink::default();
    for (name, tensor_id) in &source.tensor_ids {
        sink.names.insert(*tensor_id, name.clone());
        sink.used.insert(name.clone());
    }
    let hooks = ExportHooks { hooks: options.hooks.clone(), ..ExportHooks::default() };
    let mut exporter = Exporter { emitter, sink, hooks };
    let nodes = nodes(&mut exporter, &source, opset)?;
    let mut graph = Graph { nodes, ..Graph::default() };
    add_values(&mut graph, &mut exporter, &source, params, options)?;
    opsets.extend(exporter.hooks.opsets);
    let mut used = HashSet::new();
    hooks::domains(&graph.nodes, &mut used);
    opsets.retain(|domain, _| domain.is_empty() || used.contains(domain));
    Ok(Model { framework: Framework::Onnx, graph, opsets, ..Model::default() })
}

/// The version in which operators of a program's domain are written.
fn added_version(options: &ExportOptions, domain: &str) -> i64 {
    options.mappings.as_ref().map_or(1, |added| added.schema.written_version(domain))
}

/// Reads the graph and infers the shapes and types of all its values.
fn read_source(
    symbol: &Symbol,
    params: &IndexMap<String, NDArray>,
    options: &ExportOptions,
    builder: &mut Builder,
) -> Result<Source> {
    let graph = mxnet::graph(symbol)?;
    let internals = symbol.internals();
    let mut shapes: Vec<(String, Shape)> = Vec::new();
    let mut dtypes: Vec<(String, DType)> = Vec::new();
    for name in symbol.list_inputs() {
        match params.get(&name) {
            Some(array) => {
                shapes.push((name.clone(), array.shape().clone()));
                dtypes.push((name, array.dtype()));
            }
            None => {
                shapes.extend(options.shapes.iter().filter(|(n, _)| *n == name).cloned());
                dtypes.extend(options.dtypes.iter().filter(|(n, _)| *n == name).cloned());
            }
        }
    }
    let shapes = dynamic_shapes::infer(&internals, shapes)?;
    let types = infer_dtypes(&internals, &dtypes)?.outputs;
    let mut source = Source::of(graph, symbol);
    for ((e, shape), dtype) in internals.entries().iter().zip(shapes).zip(types) {
        let name = mxnet::value_name(&e.node, e.index as usize);
        let tensor_id = match params.get(&name).filter(|_| e.node.is_variable()) {
            Some(array) => builder.constant(&name, array.clone()),
            None => builder.input(&name, shape, dtype.or(Some(DType::F32)), None),
        };
        if let Some([x]) = params.get(&name).filter(|a| a.len() == 1).and_then(|a| a.to_vec_as::<f64>().ok()).as_deref()
        {
            source.scalars.insert(tensor_id, *x);
        }
        source.tensor_ids.insert(name.clone(), tensor_id);
        source.names.resize(source.names.len().max(tensor_id + 1), String::new());
        source.names[tensor_id] = name;
    }
    source.index();
    Ok(source)
}

/// The ONNX nodes for all MXNet nodes, in topological order.
fn nodes(exporter: &mut Exporter<'_>, source: &Source, opset: i64) -> Result<Vec<Node>> {
    let mut covered = vec![false; source.graph.nodes.len()];
    let mut problems: Vec<Problem> = Vec::new();
    // Nodes are visited from the outputs to the inputs, so the nodes for each come in reverse order.
    let mut emitted = Vec::new();
    for i in (0..source.graph.nodes.len()).rev() {
        if covered[i] {
            continue;
        }
        match node(exporter, source, i, opset) {
            Ok(nodes) => {
                nodes.into_iter().for_each(|n| covered[n] = true);
                emitted.push(std::mem::take(&mut exporter.sink.nodes));
            }
            // An error of user code keeps its cause.
            Err(e) if e.is_foreign() => return Err(e),
            Err(e) => problems.extend(e.at(source.graph.nodes[i].label())),
        }
    }
    match problems.is_empty() {
        true => Ok(emitted.into_iter().rev().flatten().collect()),
        false => Err(Error::Model(problems)),
    }
}

/// Writes one MXNet node and returns the nodes that the process covers.
fn node(exporter: &mut Exporter<'_>, source: &Source, i: usize, opset: i64) -> Result<Vec<usize>> {
    if let Some(op) = source.control_flow.get(&source.graph.nodes[i].name) {
        return bodies::write(exporter, source, i, op, opset);
    }
    if hooks::write(exporter, source, i, opset)? {
        return Ok(vec![i]);
    }
    let mut reasons: Vec<String> = Vec::new();
    let table = exporter.emitter.table;
    for process in table.processes() {
        if process.direction == Direction::Import || (!process.domain.is_empty() && !table.is_added(process)) {
            continue;
        }
        let version = exporter.emitter.version(exporter.emitter.schema.domain_of(&process.domain, &process.left.name));
        if !(process.since..=process.until).contains(&version) {
            continue;
        }
        if let Some(covered) = apply(exporter, source, i, process, &mut reasons)? {
            return Ok(covered);
        }
    }
    Err(no_match(&source.graph.nodes[i], opset, &reasons))
}

/// Writes a node by a process and returns the nodes that it covers; `None` with a reason if the process does not match.
fn apply<'t>(
    exporter: &mut Exporter<'t>,
    source: &Source,
    i: usize,
    process: &'t Process,
    reasons: &mut Vec<String>,
) -> Result<Option<Vec<usize>>> {
    let table = exporter.emitter.table;
    let mut matching = PatternMatch { source, table, process, names: Names::new(), covered: Vec::new() };
    if let Err(why) = matching.node(i) {
        if matching.covered.len() == 1 || (matching.covered.len() > 1 && reasons.is_empty()) {
            reasons.push(why);
        }
        return Ok(None);
    }
    let (names, covered) = (matching.names, matching.covered);
    let mxnet_node = &source.graph.nodes[i];
    let mut scope = Scope::new(&mut *exporter, mxnet_node, mxnet_node.name.clone(), process);
    for (condition, why) in &process.conditions {
        if !scope.eval(condition, &names, Naming::Operator)?.is_true() {
            reasons.push(if why.is_empty() { "a condition does not hold".into() } else { why.clone() });
            return Ok(None);
        }
    }
    write(&mut scope, process, &names, mxnet_node)?;
    let emitted = &exporter.sink.nodes;
    let is_missing = |o: &String| source.uses.contains_key(o) && !emitted.iter().any(|n| n.outputs.contains(o));
    match mxnet_node.outputs.iter().position(is_missing) {
        Some(k) => Err(Error::unsupported(format!("its output {k} is used, but cannot be exported"))),
        None => Ok(Some(covered)),
    }
}

/// The error for a node that no process matches, with the distinct reasons.
fn no_match(node: &Node, opset: i64, reasons: &[String]) -> Error {
    let op = &node.op;
    if let Some(own) = node.attributes.get("op_type").filter(|_| op == mxnet::USER_OPERATOR) {
        return Error::unsupported(format!(
            "'{own}' is a user-defined operator, which ONNX does not have: export it as a node of a custom domain (userOperator), or \
             compose it of other operators with an ExportHook"
        ));
    }
    let mut seen = HashSet::new();
    let distinct: Vec<&str> = reasons.iter().map(String::as_str).filter(|reason| seen.insert(*reason)).collect();
    Error::unsupported(match distinct.is_empty() {
        true => format!("there is no process for {op} in version {opset} of the operator set"),
        false => format!("no process for {op} matches: {}", distinct.join("; ")),
    })
}

/// Emits the framework's side of a process.
fn write(scope: &mut Scope<'_, '_>, process: &Process, names: &Names<'_>, mxnet_node: &Node) -> Result<()> {
    if scope.context.emitter().table.signature(&process.left.name).is_none() {
        framework_call(scope, &process.left, names, Some(&mxnet_node.outputs))?;
        return Ok(());
    }
    // The results of a rule have other names than the outputs.
    let emitted = match scope.eval(&Expr::Call(process.left.clone()), names, Naming::Operator)? {
        Value::List(items) => items,
        single => vec![single],
    };
    if emitted.len() < mxnet_node.outputs.len() {
        let (given, wanted) = (emitted.len(), mxnet_node.outputs.len());
        return Err(Error::value(format!(
            "the rule {} returns {given} outputs instead of {wanted}",
            process.left.name
        )));
    }
    for (output, value) in mxnet_node.outputs.iter().zip(emitted).filter(|(_, v)| *v != Value::None) {
        if let Some((sink, _)) = scope.context.sink() {
            scope.name = sink.unique(&format!("{}/output", mxnet_node.name));
        }
        let args = vec![Expr::Literal(value)];
        let copy = Call { name: "Identity".into(), args, named: Vec::new(), position: process.left.position };
        framework_call(scope, &copy, &Names::new(), Some(std::slice::from_ref(output)))?;
    }
    Ok(())
}

impl Exporter<'_> {
    /// The name of a tensor in the model.
    fn name_of(&mut self, value: &Value) -> Result<String> {
        self.sink.name_of(&self.emitter.builder, value)
    }
}

/// Adds constants, inputs and outputs to the graph.
fn add_values(
    graph: &mut Graph,
    exporter: &mut Exporter<'_>,
    source: &Source,
    params: &IndexMap<String, NDArray>,
    options: &ExportOptions,
) -> Result<()> {
    let used = bodies::used_names(&graph.nodes);
    let heads: Vec<&String> = source.graph.outputs.iter().map(|o| &o.name).collect();
    let names = &exporter.sink.names;
    let mut by_name: Vec<(&String, usize)> = names.iter().map(|(id, n)| (n, *id)).collect();
    by_name.sort();
    let mut constants = IndexMap::new();
    for (name, tensor_id) in by_name {
        if (used.contains(name) || heads.contains(&name))
            && let Some(array) = &exporter.emitter.builder.info(tensor_id).value
        {
            constants.insert(name.clone(), Tensor::from_array(array));
        }
    }
    let info = |name: &str| {
        let t = source.tensor_ids.get(name).map(|id| exporter.emitter.builder.info(*id));
        let attrs = source.variables.get(name).map(|node| node.attrs.read().clone()).unwrap_or_default();
        let unknown =
            |k: usize| attrs.get(&mxnet::dim_name_key(k)).map_or(Dim::Unknown, |name| Dim::Named(name.clone()));
        let dim = |(k, d): (usize, &i64)| usize::try_from(*d).map_or_else(|_| unknown(k), Dim::Known);
        let dims = t.filter(|t| t.shape.ndim_is_known()).map(|t| t.shape.dims().iter().enumerate().map(dim).collect());
        let declared = source.variables.get(name).filter(|_| !params.contains_key(name));
        let element = match declared.and_then(|node| element_type(node)) {
            Some(int) => Some(ElementType::Widened(int)),
            None => t.and_then(|t| t.dtype).map(ElementType::DType),
        };
        ValueInfo { name: name.to_string(), element, dims, non_tensor_kind: None }
    };
    // An input such as a training label may have no reader among the emitted nodes.
    let is_needed = |name: &String| !params.contains_key(name) && (used.contains(name) || heads.contains(&name));
    let mut inputs: Vec<ValueInfo> =
        source.graph.inputs.iter().filter(|i| is_needed(&i.name)).map(|i| info(&i.name)).collect();
    inputs.sort_by_key(|i| source.input_index(&i.name));
    graph.inputs = order_inputs(inputs, &options.inputs);
    let mut outs = Vec::new();
    for (k, head) in heads.iter().enumerate() {
        let wanted = options.outputs.get(k).cloned().unwrap_or_else(|| (*head).clone());
        let widened = source.widened_outputs.get(k).copied().flatten();
        outs.push(Output { wanted, info: info(head), widened });
    }
    graph.constants = constants;
    widen_inputs(graph, &mut exporter.sink)?;
    name_outputs(graph, &mut exporter.sink, outs)
}

/// A node that converts a tensor to an element type.
fn conversion(name: String, from: &str, to: &str, element: &ElementType) -> Result<Node> {
    Ok(Node {
        name,
        op: "Cast".into(),
        inputs: vec![from.into()],
        outputs: vec![to.into()],
        attributes: [("to".to_string(), Value::Int(type_code(element)?))].into_iter().collect(),
        ..Node::default()
    })
}

/// Adds a Cast from each input of a widened integer type to the type that stores its elements.
fn widen_inputs(graph: &mut Graph, sink: &mut Sink) -> Result<()> {
    let mut conversions = Vec::new();
    for input in &graph.inputs {
        let Some(ElementType::Widened(int)) = input.element else { continue };
        let widened = sink.unique(&format!("{}/{}", input.name, int.storage_dtype()));
        let rename = |name: &mut String| {
            if *name == input.name {
                name.clone_from(&widened);
            }
        };
        bodies::rename_everywhere(&mut graph.nodes, &rename);
        conversions.push(conversion(widened.clone(), &input.name, &widened, &ElementType::DType(int.storage_dtype()))?);
    }
    graph.nodes.splice(..0, conversions);
    Ok(())
}

/// An output of the model.
#[derive(Clone)]
struct Output {
    /// The requested name.
    wanted: String,
    /// The value of the graph.
    info: ValueInfo,
    /// The element type of the output, if its elements are stored in a wider type.
    widened: Option<WidenedInt>,
}

/// The inputs of `first`, including those that the graph does not use, then the other inputs.
fn order_inputs(inputs: Vec<ValueInfo>, first: &[ValueInfo]) -> Vec<ValueInfo> {
    let (mut known, mut ordered) = (inputs, Vec::new());
    for info in first {
        match known.iter().position(|i| i.name == info.name) {
            Some(k) => ordered.push(known.remove(k)),
            None => ordered.push(info.clone()),
        }
    }
    ordered.extend(known);
    ordered
}

/// Names the outputs as requested, with an Identity for each output that has another name and a Cast for each of another type.
fn name_outputs(graph: &mut Graph, sink: &mut Sink, mut outs: Vec<Output>) -> Result<()> {
    let mut used_names: HashSet<String> = HashSet::new();
    for k in 0..outs.len() {
        let Output { wanted, mut info, widened } = outs[k].clone();
        let made_by_node = graph.nodes.iter().any(|n| n.outputs.contains(&info.name));
        if wanted == info.name && made_by_node && widened.is_none() && used_names.insert(wanted.clone()) {
            graph.outputs.push(info);
            continue;
        }
        // An output may be an input of the model.
        let is_input = graph.inputs.iter().any(|i| i.name == info.name);
        if wanted == info.name && is_input && widened.is_none() && used_names.insert(wanted.clone()) {
            graph.outputs.push(info);
            continue;
        }
        let name = if used_names.contains(&wanted) { sink.unique(&wanted) } else { wanted };
        used_names.insert(name.clone());
        let mut source = info.name.clone();
        // An inner value with the name of an output is renamed.
        if !sink.used.insert(name.clone()) && !graph.inputs.iter().any(|i| i.name == name) {
            let other = sink.unique(&format!("{name}/inner"));
            let rename = |n: &mut String| {
                if *n == name {
                    n.clone_from(&other);
                }
            };
            bodies::rename_everywhere(&mut graph.nodes, &rename);
            graph.outputs.iter_mut().for_each(|o| rename(&mut o.name));
            outs.iter_mut().for_each(|out| rename(&mut out.info.name));
            if let Some(tensor) = graph.constants.shift_remove(&name) {
                graph.constants.insert(other.clone(), tensor);
            }
            rename(&mut source);
        }
        let node = sink.unique(&format!("{name}/output"));
        let copy = match widened {
            Some(int) => {
                info.element = Some(ElementType::Widened(int));
                conversion(node, &source, &name, &ElementType::Widened(int))?
            }
            None => {
                let (inputs, outputs) = (vec![source], vec![name.clone()]);
                Node { name: node, op: "Identity".into(), inputs, outputs, ..Node::default() }
            }
        };
        graph.nodes.push(copy);
        info.name = name;
        graph.outputs.push(info);
    }
    Ok(())
}
