//! Writes control flow operators: `_cond` as If, `_foreach` as Scan, `_while_loop` as Loop. Bodies refer to outer values by name, as ONNX
//! allows; their inputs are only scanned rows, states and loop-carried values.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferromx_core::dtype::DType;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_runtime::symbol::{Node as SymbolNode, Symbol};
use ferromx_runtime::symbol_infer::{infer_dtypes, infer_shapes};
use indexmap::IndexMap;

use super::{Exporter, Source, nodes};
use crate::error::{Error, Result};
use crate::ir::{Dim, ElementType, Graph, Node, Value, ValueInfo};
use crate::mxnet;

/// The ONNX nodes of a graph, and the names and indices of its outputs.
#[derive(Default)]
struct Subgraph {
    nodes: Vec<Node>,
    outputs: Vec<(String, usize)>,
}

/// Writes a control flow operator and returns the nodes that it covers.
pub(super) fn write(
    exporter: &mut Exporter<'_>,
    source: &Source,
    i: usize,
    op: &SymbolNode,
    opset: i64,
) -> Result<Vec<usize>> {
    let node = &source.graph.nodes[i];
    let mut writer = Writer { exporter, source, node, opset };
    match node.op.as_str() {
        "_cond" => writer.cond(&op.graphs)?,
        "_foreach" => writer.foreach(&op.graphs)?,
        "_while_loop" => writer.while_loop(&op.graphs)?,
        other => return Err(Error::unsupported(format!("{other} with subgraphs cannot be exported"))),
    }
    Ok(vec![i])
}

/// Replaces a node by a graph on the tensors of its variables.
pub(super) fn write_composed(
    exporter: &mut Exporter<'_>,
    source: &Source,
    i: usize,
    graph: &Symbol,
    variables: &[usize],
    opset: i64,
) -> Result<()> {
    let node = &source.graph.nodes[i];
    let mut writer = Writer { exporter, source, node, opset };
    let mut subgraph = writer.splice(graph, variables, "hook")?;
    for (output, (name, _)) in node.outputs.iter().zip(subgraph.outputs) {
        let copy = writer.unique("output");
        subgraph.nodes.push(Node { name: copy, ..Writer::operator("Identity", vec![name], output) });
    }
    writer.exporter.sink.nodes.extend(subgraph.nodes);
    Ok(())
}

/// Writes one control flow operator.
struct Writer<'a, 't> {
    exporter: &'a mut Exporter<'t>,
    source: &'a Source,
    node: &'a Node,
    opset: i64,
}

fn info(name: &str, shape: &Shape, dtype: Option<DType>) -> ValueInfo {
    let dim = |d: &i64| usize::try_from(*d).map_or(Dim::Unknown, Dim::Known);
    let dims = shape.ndim_is_known().then(|| shape.dims().iter().map(dim).collect());
    ValueInfo { name: name.into(), element: dtype.map(ElementType::DType), dims, non_tensor_kind: None }
}

impl Writer<'_, '_> {
    /// The indices in a parameter.
    fn indices(&self, parameter: &str) -> Result<Vec<usize>> {
        let value = self.node.attributes.get(parameter).and_then(Value::ints);
        let value =
            value.ok_or_else(|| Error::value(format!("{parameter} of {} is not a list of numbers", self.node.op)))?;
        Ok(value.into_iter().filter_map(|i| usize::try_from(i).ok()).collect())
    }

    fn int_param(&self, parameter: &str) -> usize {
        let value = self.node.attributes.get(parameter).and_then(Value::int);
        value.and_then(|n| usize::try_from(n).ok()).unwrap_or_default()
    }

    /// The index of an input tensor of the operator.
    fn input(&self, index: usize) -> Result<usize> {
        let name = self.node.inputs.get(index);
        let tensor_id = name.and_then(|name| self.source.tensor_ids.get(name)).copied();
        tensor_id.ok_or_else(|| Error::value(format!("{} has no input {index}", self.node.op)))
    }

    fn unique(&mut self, suffix: &str) -> String {
        let name = format!("{}/{suffix}", self.node.name);
        self.exporter.sink.unique(&name)
    }

    /// A new tensor with a unique name.
    fn tensor(&mut self, suffix: &str, shape: Shape, dtype: Option<DType>) -> (String, usize) {
        let name = self.unique(suffix);
        let tensor_id = self.exporter.emitter.builder.input(&name, shape, dtype, None);
        self.exporter.sink.names.insert(tensor_id, name.clone());
        (name, tensor_id)
    }

    fn name_of(&mut self, tensor_id: usize) -> Result<String> {
        self.exporter.name_of(&Value::TensorId(tensor_id))
    }

    fn operator(op: &str, inputs: Vec<String>, output: &str) -> Node {
        Node { name: output.into(), op: op.into(), inputs, outputs: vec![output.into()], ..Node::default() }
    }

    /// The ONNX nodes of a graph whose variables are bound to these tensors. Other values get new names that begin with the
    /// operator's name and `prefix`.
    fn splice(&mut self, graph: &Symbol, variables: &[usize], prefix: &str) -> Result<Subgraph> {
        let names = graph.list_inputs();
        let known: HashMap<&String, usize> = names.iter().zip(variables.iter().copied()).collect();
        let info = |n: &String| known.get(n).map(|id| self.exporter.emitter.builder.info(*id));
        let shapes: Vec<_> = names.iter().filter_map(|n| Some((n.clone(), info(n)?.shape.clone()))).collect();
        let types: Vec<_> = names.iter().filter_map(|n| Some((n.clone(), info(n)?.dtype?))).collect();
        let internals = graph.internals();
        let shapes = infer_shapes(&internals, &shapes)?.outputs;
        let types = infer_dtypes(&internals, &types)?.outputs;
        let mut inner = Source::of(mxnet::graph(graph)?, graph);
        let mut renamed: HashMap<String, String> = HashMap::new();
        for ((e, shape), dtype) in internals.entries().iter().zip(shapes).zip(types) {
            let old = mxnet::value_name(&e.node, e.index as usize);
            let (name, tensor_id) = match known.get(&old).filter(|_| e.node.is_variable()) {
                Some(tensor_id) => (self.name_of(*tensor_id)?, *tensor_id),
                None => self.tensor(&format!("{prefix}/{old}"), shape, dtype.or(Some(DType::F32))),
            };
            inner.names.resize(inner.names.len().max(tensor_id + 1), String::new());
            inner.names[tensor_id].clone_from(&name);
            if let Some(x) = self.source.scalar(tensor_id) {
                inner.scalars.insert(tensor_id, x);
            }
            inner.tensor_ids.insert(name.clone(), tensor_id);
            renamed.insert(old, name);
        }
        let rename = |name: &mut String| {
            if let Some(new) = renamed.get(name) {
                name.clone_from(new);
            }
        };
        inner.control_flow = std::mem::take(&mut inner.control_flow)
            .into_iter()
            .filter_map(|(name, node)| Some((renamed.get(&name)?.clone(), node)))
            .collect();
        for node in &mut inner.graph.nodes {
            node.inputs.iter_mut().chain(&mut node.outputs).for_each(rename);
            rename(&mut node.name);
        }
        inner.graph.outputs.iter_mut().for_each(|o| rename(&mut o.name));
        inner.index();
        let nodes = nodes(self.exporter, &inner, self.opset)?;
        let outputs =
            inner.graph.outputs.iter().filter_map(|o| Some((o.name.clone(), *inner.tensor_ids.get(&o.name)?)));
        Ok(Subgraph { outputs: outputs.collect(), nodes })
    }

    /// A subgraph attribute. ONNX requires distinct outputs that inner nodes produce; others are copied.
    fn body(
        &mut self,
        suffix: &str,
        inputs: Vec<ValueInfo>,
        mut nodes: Vec<Node>,
        outputs: &[(String, usize)],
    ) -> Value {
        let mut output_infos: Vec<ValueInfo> = Vec::new();
        for (name, tensor_id) in outputs {
            let t = self.exporter.emitter.builder.info(*tensor_id);
            let (shape, dtype) = (t.shape.clone(), t.dtype);
            let mut name = name.clone();
            let is_inner = nodes.iter().any(|n| n.outputs.contains(&name));
            if !is_inner || output_infos.iter().any(|o| o.name == name) {
                let copy = self.unique(&format!("{suffix}/copy"));
                nodes.push(Self::operator("Identity", vec![name], &copy));
                name = copy;
            }
            output_infos.push(info(&name, &shape, dtype));
        }
        let name = self.unique(suffix);
        Value::Graph(Arc::new(Graph { name, nodes, inputs, outputs: output_infos, ..Graph::default() }))
    }

    /// The output of a condition as a Boolean scalar, whose nodes are added to `subgraph`.
    fn scalar_condition(&mut self, suffix: &str, subgraph: &mut Subgraph) -> Result<(String, usize)> {
        let Some((mut name, tensor_id)) = subgraph.outputs.first().cloned() else {
            return Err(Error::value("a condition has no output"));
        };
        let t = self.exporter.emitter.builder.info(tensor_id);
        let (rank, is_bool) = (t.shape.ndim(), t.dtype == Some(DType::Bool));
        if rank != Some(0) {
            let shape = self.exporter.integers(&format!("{suffix}/shape"), &[], &[0])?;
            let (scalar, _) = self.tensor(&format!("{suffix}/single"), Shape::new(&[]), None);
            let inputs = vec![name, self.name_of(shape)?];
            subgraph.nodes.push(Self::operator("Reshape", inputs, &scalar));
            name = scalar;
        }
        let (end, tensor_id) = self.tensor(&format!("{suffix}/truth"), Shape::new(&[]), Some(DType::Bool));
        let mut node = Self::operator(if is_bool { "Identity" } else { "Cast" }, vec![name], &end);
        if !is_bool {
            node.attributes.insert("to".into(), Value::Int(9));
        }
        subgraph.nodes.push(node);
        Ok((end, tensor_id))
    }

    fn push(&mut self, before: Vec<Node>, node: Node) {
        self.exporter.sink.nodes.extend(before);
        self.exporter.sink.nodes.push(node);
    }

    fn inputs_at(&self, parameter: &str) -> Result<Vec<usize>> {
        self.indices(parameter)?.into_iter().map(|index| self.input(index)).collect()
    }

    fn cond(&mut self, graphs: &[Symbol]) -> Result<()> {
        let [test, then, otherwise] = graphs else { return Err(Error::value("_cond needs three subgraphs")) };
        let variables = self.inputs_at("cond_input_locs")?;
        let mut condition = self.splice(test, &variables, "condition")?;
        let (condition_name, _) = self.scalar_condition("condition", &mut condition)?;
        let mut attributes = IndexMap::new();
        for (key, graph, locs) in
            [("then_branch", then, "then_input_locs"), ("else_branch", otherwise, "else_input_locs")]
        {
            let variables = self.inputs_at(locs)?;
            let subgraph = self.splice(graph, &variables, key)?;
            attributes.insert(key.to_string(), self.body(key, Vec::new(), subgraph.nodes, &subgraph.outputs));
        }
        let (name, outputs) = (self.node.name.clone(), self.node.outputs.clone());
        let node = Node { name, op: "If".into(), inputs: vec![condition_name], outputs, attributes, ..Node::default() };
        self.push(condition.nodes, node);
        Ok(())
    }

    fn foreach(&mut self, graphs: &[Symbol]) -> Result<()> {
        let [step] = graphs else { return Err(Error::value("_foreach needs one subgraph")) };
        let (data, states, captured) =
            (self.indices("in_data_locs")?, self.indices("in_state_locs")?, self.indices("remain_locs")?);
        let mut variables = vec![0; data.len() + states.len() + captured.len()];
        let (mut inputs, mut state_infos, mut row_infos, mut before) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (k, index) in states.iter().enumerate() {
            let outer = self.input(data.len() + k)?;
            inputs.push(self.name_of(outer)?);
            let t = self.exporter.emitter.builder.info(outer);
            let (shape, dtype) = (t.shape.clone(), t.dtype);
            let (name, tensor_id) = self.tensor(&format!("state{k}"), shape.clone(), dtype);
            state_infos.push(info(&name, &shape, dtype));
            variables[*index] = tensor_id;
        }
        for (k, index) in data.iter().enumerate() {
            let outer = self.input(k)?;
            inputs.push(self.name_of(outer)?);
            let t = self.exporter.emitter.builder.info(outer);
            let (dtype, row) = (t.dtype, t.shape.dims().get(1..).unwrap_or(&[]).to_vec());
            let (name, tensor_id) = self.tensor(&format!("row{k}"), Shape::new(&row), dtype);
            row_infos.push(info(&name, &Shape::new(&row), dtype));
            variables[*index] = tensor_id;
            if row.is_empty() {
                // A row of a vector has the shape (1,) here and () in ONNX.
                let axes = self.exporter.integers(&format!("{name}/axes"), &[0], &[1])?;
                let (reshaped, tensor_id) = self.tensor(&format!("row{k}/wide"), Shape::new(&[1]), dtype);
                before.push(Self::operator("Unsqueeze", vec![name, self.name_of(axes)?], &reshaped));
                variables[*index] = tensor_id;
            }
        }
        for (k, index) in captured.iter().enumerate() {
            variables[*index] = self.input(data.len() + states.len() + k)?;
        }
        let subgraph = self.splice(step, &variables, "step")?;
        before.extend(subgraph.nodes);
        let num_scan_outputs = self.int_param("num_out_data").min(subgraph.outputs.len());
        let (scan_outputs, final_states) = subgraph.outputs.split_at(num_scan_outputs);
        let body_outputs = [final_states, scan_outputs].concat();
        let body = self.body("step", [state_infos, row_infos].concat(), before, &body_outputs);
        let (scan_outputs, final_states) = self.node.outputs.split_at(num_scan_outputs);
        let count = Value::Int(data.len() as i64);
        let attributes = [("body".to_string(), body), ("num_scan_inputs".to_string(), count)].into_iter().collect();
        let (name, outputs) = (self.node.name.clone(), [final_states, scan_outputs].concat());
        self.push(Vec::new(), Node { name, op: "Scan".into(), inputs, outputs, attributes, ..Node::default() });
        Ok(())
    }

    fn while_loop(&mut self, graphs: &[Symbol]) -> Result<()> {
        let [test, round] = graphs else { return Err(Error::value("_while_loop needs two subgraphs")) };
        let num_scan_outputs = self.int_param("num_out_data");
        let (test_locs, round_locs, variable_indices) =
            (self.indices("cond_input_locs")?, self.indices("func_input_locs")?, self.indices("func_var_locs")?);
        // The condition of the first iteration reads the initial values.
        let initial = self.inputs_at("cond_input_locs")?;
        let mut start = self.splice(test, &initial, "start")?;
        let (first_condition, _) = self.scalar_condition("start", &mut start)?;
        let max_iterations = [self.int_param("max_iterations") as i64];
        let max_iterations = self.exporter.integers(&format!("{}/most", self.node.name), &max_iterations, &[])?;
        let mut inputs = vec![self.name_of(max_iterations)?, first_condition];
        let (counter, _) = self.tensor("counter", Shape::new(&[]), Some(DType::I64));
        let (before, _) = self.tensor("before", Shape::new(&[]), Some(DType::Bool));
        let mut infos = vec![
            info(&counter, &Shape::new(&[]), Some(DType::I64)),
            info(&before, &Shape::new(&[]), Some(DType::Bool)),
        ];
        let mut variables = self.inputs_at("func_input_locs")?;
        for (k, index) in variable_indices.iter().enumerate() {
            let outer = self.input(round_locs[*index])?;
            inputs.push(self.name_of(outer)?);
            let t = self.exporter.emitter.builder.info(outer);
            let (shape, dtype) = (t.shape.clone(), t.dtype);
            let (name, tensor_id) = self.tensor(&format!("variable{k}"), shape.clone(), dtype);
            infos.push(info(&name, &shape, dtype));
            variables[*index] = tensor_id;
        }
        let subgraph = self.splice(round, &variables, "round")?;
        // The condition of the next iteration reads the outputs of this one.
        let mut next = Vec::new();
        for loc in test_locs {
            let var = variable_indices.iter().position(|index| round_locs[*index] == loc);
            next.push(match var.and_then(|v| subgraph.outputs.get(num_scan_outputs + v)) {
                Some((_, tensor_id)) => *tensor_id,
                None => self.input(loc)?,
            });
        }
        let mut after = self.splice(test, &next, "after")?;
        let condition = self.scalar_condition("after", &mut after)?;
        let body = [subgraph.nodes, after.nodes].concat();
        let (scan_outputs, final_values) = subgraph.outputs.split_at(num_scan_outputs.min(subgraph.outputs.len()));
        let body_outputs = [vec![condition], final_values.to_vec(), scan_outputs.to_vec()].concat();
        let attributes = [("body".to_string(), self.body("round", infos, body, &body_outputs))].into_iter().collect();
        let (scan_names, mut outputs) =
            (self.node.outputs[..num_scan_outputs].to_vec(), self.node.outputs[num_scan_outputs..].to_vec());
        let mut after = Vec::new();
        for (name, (_, tensor_id)) in scan_names.iter().zip(scan_outputs) {
            outputs.push(self.unique("rows"));
            self.pad_rows(&outputs[outputs.len() - 1].clone(), *tensor_id, name, &mut after)?;
        }
        let name = self.node.name.clone();
        self.push(start.nodes, Node { name, op: "Loop".into(), inputs, outputs, attributes, ..Node::default() });
        self.exporter.sink.nodes.extend(after);
        Ok(())
    }

    /// Pads the scan output of a Loop with zeros: `_while_loop` returns a row for each of `max_iterations`.
    fn pad_rows(&mut self, rows: &str, row: usize, whole: &str, nodes: &mut Vec<Node>) -> Result<()> {
        let rank = self.exporter.emitter.builder.info(row).shape.ndim();
        let rank = rank.ok_or_else(|| Error::value(format!("the number of dimensions of '{whole}' is unknown")))?;
        let max_iterations = self.int_param("max_iterations") as i64;
        let mut constant = |what: &str, items: &[i64]| {
            let tensor_id = self.exporter.integers(&format!("{whole}/{what}"), items, &[items.len() as i64])?;
            self.exporter.name_of(&Value::TensorId(tensor_id))
        };
        let (max_rows, first) = (constant("most", &[max_iterations])?, constant("first", &[0])?);
        let (before, after) = (constant("before", &vec![0; rank + 1])?, constant("after", &vec![0; rank])?);
        let shape = self.unique("shape");
        nodes.push(Self::operator("Shape", vec![rows.into()], &shape));
        let length = self.unique("length");
        nodes.push(Self::operator("Gather", vec![shape, first], &length));
        let num_missing = self.unique("missing");
        nodes.push(Self::operator("Sub", vec![max_rows, length], &num_missing));
        let pads = self.unique("pads");
        let mut concat = Self::operator("Concat", vec![before, num_missing, after], &pads);
        concat.attributes.insert("axis".into(), Value::Int(0));
        nodes.push(concat);
        // The output may have the loop's name.
        let name = self.unique("lengthened");
        nodes.push(Node { name, ..Self::operator("Pad", vec![rows.into(), pads], whole) });
        Ok(())
    }
}

/// The names of values that nodes and their subgraphs use.
pub(super) fn used_names(nodes: &[Node]) -> HashSet<String> {
    let inner = |n: &Node| n.free_names().into_iter().map(str::to_string).collect::<Vec<_>>();
    nodes.iter().flat_map(|n| n.inputs.iter().cloned().chain(inner(n))).collect()
}

/// Renames a value in nodes and their subgraphs.
pub(super) fn rename_everywhere(nodes: &mut [Node], rename: &impl Fn(&mut String)) {
    for node in nodes {
        node.inputs.iter_mut().chain(&mut node.outputs).for_each(rename);
        for value in node.attributes.values_mut() {
            if let Value::Graph(graph) = value {
                let graph = Arc::make_mut(graph);
                rename_everywhere(&mut graph.nodes, rename);
                graph.outputs.iter_mut().for_each(|o| rename(&mut o.name));
            }
        }
    }
}

impl Exporter<'_> {
    /// A constant of 64-bit integers.
    fn integers(&mut self, name: &str, items: &[i64], shape: &[i64]) -> Result<usize> {
        Ok(self.emitter.builder.constant(name, NDArray::from_slice(items, shape)?))
    }
}
