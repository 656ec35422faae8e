//! Automatic mixed precision: inserts casts so that some operators run in a 16-bit type and others in float32.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::infer::DTypeIo;

use crate::graph::{Graph, entry};
use crate::passes::infer::{self, Entries};
use crate::symbol::{DTYPE_ATTR, Node, NodeEntry, Symbol};
use crate::symbol_infer::infer_dtypes;

/// An operator that runs in float32 if a parameter has one of the given values.
pub struct ConditionalOp {
    /// The operator.
    pub op: String,
    /// The parameter.
    pub param: String,
    /// Its values.
    pub values: Vec<String>,
}

/// The rules of automatic mixed precision.
pub struct AmpRules {
    /// The 16-bit type: float16 or bfloat16.
    pub target: DType,
    /// Operators that run in the 16-bit type.
    pub target_ops: HashSet<String>,
    /// Operators that run in float32.
    pub fp32_ops: HashSet<String>,
    /// Operators whose inputs are all cast to the widest type among them.
    pub widest_ops: HashSet<String>,
    /// Operators that run in float32 for some values of a parameter.
    pub conditional: Vec<ConditionalOp>,
    /// Names of nodes to keep in float32.
    pub excluded: HashSet<String>,
    /// Variables that hold trained parameters; they get their types as attributes.
    pub model_params: HashSet<String>,
    /// Types of the other variables.
    pub data: Vec<(String, DType)>,
    /// Whether parameters that are read in the 16-bit type are stored in it, instead of being cast in the graph.
    pub cast_params: bool,
}

/// The entry of the new graph for an entry of the original graph.
struct MappedEntry {
    entry: NodeEntry,
    /// The type in the new graph; `None` if it depends on parameters of unknown type.
    dtype: Option<DType>,
    /// The type in the original graph.
    original_dtype: Option<DType>,
    /// The casts of the entry.
    casts: Vec<(DType, NodeEntry)>,
}

/// Rebuilds the graph with casts.
struct Pass<'p> {
    rules: &'p AmpRules,
    mapped: HashMap<(*const Node, u32), MappedEntry>,
    /// Known types of outputs of the new graph.
    types: HashMap<(*const Node, u32), DType>,
    /// Parameters that are stored in the 16-bit type.
    stored_in_target: HashSet<String>,
}

impl Symbol {
    /// Inserts casts so that every operator runs in the precision of its rule. As in MXNet, outputs are float32, and parameters get their
    /// type as the attribute `__dtype__`.
    ///
    /// # Errors
    /// A type other than float16 and bfloat16; inconsistent types in the original or the new graph.
    pub fn reduced_precision(&self, rules: &AmpRules) -> Result<Symbol> {
        ensure!(
            rules.target.is_half(),
            "Only float16 and bfloat16 target_dtypes are supported yet, target_dtype={}",
            rules.target
        );
        if let Some(flat) = self.expanded() {
            return flat.reduced_precision(rules);
        }
        let nodes = self.nodes();
        let types = original_dtypes(self, rules)?;
        let mut pass = Pass { rules, mapped: HashMap::new(), types: HashMap::new(), stored_in_target: HashSet::new() };
        for (i, node) in nodes.iter().enumerate() {
            pass.convert_node(node, types.of_node(i))?;
        }
        let outputs = self.outputs.iter().map(|e| pass.convert_output(e)).collect::<Result<_>>()?;
        let result = Symbol { outputs };
        pass.annotate(&nodes)?;
        infer_dtypes(&result, &data_types(&result, rules))?;
        Ok(result)
    }
}

/// The types of `rules.data` for the variables of the graph.
fn data_types(symbol: &Symbol, rules: &AmpRules) -> Vec<(String, DType)> {
    let names = symbol.list_inputs();
    rules.data.iter().filter(|(name, _)| names.contains(name)).cloned().collect()
}

/// The types of all entries before the pass. As in MXNet, types that variables have as attributes do not count: the pass sets them.
fn original_dtypes(symbol: &Symbol, rules: &AmpRules) -> Result<Entries<Option<DType>>> {
    let (mut graph, _) = Graph::from_symbol(symbol);
    for node in graph.nodes.iter_mut().filter(|node| node.attrs.contains_key(DTYPE_ATTR)) {
        Arc::make_mut(&mut node.attrs).shift_remove(DTYPE_ATTR);
    }
    let mut dtypes = Entries::new(&graph, None);
    for (i, node) in graph.nodes.iter().enumerate().filter(|(_, node)| node.op().is_none()) {
        dtypes[entry(i, 0)] = rules.data.iter().find(|(name, _)| *name == node.name).map(|(_, dtype)| *dtype);
    }
    infer::dtypes(&graph, dtypes)
}

/// The part of a cast's name that identifies the output, between the node's name and `_amp_cast`.
fn output_suffix(e: &NodeEntry) -> String {
    let Some(op) = e.node.op() else { return String::new() };
    let name = op.def.output_names(&op.params).into_iter().nth(e.index as usize);
    match name.filter(|_| op.def.metadata.has_output_names) {
        Some(name) => format!("_{name}"),
        None => format!("_{}", e.index),
    }
}

/// Creates a node of an operator with one attribute.
fn op_node(op: &str, name: String, inputs: Vec<NodeEntry>, attr: (&str, String)) -> Result<Arc<Node>> {
    Node::operator(op, name, inputs, [(attr.0.to_string(), attr.1)].into_iter().collect())
}

impl Pass<'_> {
    fn find(&mut self, e: &NodeEntry) -> Result<&mut MappedEntry> {
        let key = (Arc::as_ptr(&e.node), e.index);
        self.mapped
            .get_mut(&key)
            .ok_or_else(|| Error::Internal(format!("'{}' was not visited before the nodes that use it", e.node.name)))
    }

    /// The entry of the new graph, without a cast.
    fn uncast(&mut self, e: &NodeEntry) -> Result<NodeEntry> {
        Ok(self.find(e)?.entry.clone())
    }

    /// The entry, cast to a type unless it is an integer.
    fn cast(&mut self, e: &NodeEntry, dtype: DType) -> Result<NodeEntry> {
        let mapped = self.find(e)?;
        if mapped.dtype == Some(dtype) || mapped.dtype.is_some_and(|d| !d.is_float()) {
            return Ok(mapped.entry.clone());
        }
        if let Some((_, cast)) = mapped.casts.iter().find(|(to, _)| *to == dtype) {
            return Ok(cast.clone());
        }
        let name = format!("{}{}_amp_cast_{dtype}", e.node.name, output_suffix(e));
        let node = op_node("amp_cast", name, vec![mapped.entry.clone()], ("dtype", dtype.name().into()))?;
        let cast = NodeEntry { node, index: 0 };
        mapped.casts.push((dtype, cast.clone()));
        self.types.insert((Arc::as_ptr(&cast.node), 0), dtype);
        Ok(cast)
    }

    /// The entry as the input of an operator that runs in float32. Variables need no cast.
    fn cast_to_fp32(&mut self, e: &NodeEntry) -> Result<NodeEntry> {
        if e.node.is_variable() { self.uncast(e) } else { self.cast(e, DType::F32) }
    }

    /// The entry as the input of an operator that runs in the 16-bit type.
    fn cast_to_target(&mut self, e: &NodeEntry) -> Result<NodeEntry> {
        let (is_param, dtype) = (self.rules.model_params.contains(e.node.name.as_str()), self.find(e)?.original_dtype);
        if e.node.is_variable() && self.rules.cast_params && is_param && dtype.is_none_or(DType::is_float) {
            self.stored_in_target.insert(e.node.name.to_string());
            return self.uncast(e);
        }
        self.cast(e, self.rules.target)
    }

    fn needs_fp32(&self, node: &Node, op: &str) -> bool {
        let attrs = node.attrs.read();
        let applies = |c: &&ConditionalOp| c.op == op && attrs.get(&c.param).is_some_and(|v| c.values.contains(v));
        self.rules.fp32_ops.contains(op) || self.rules.conditional.iter().any(|c| applies(&c))
    }

    /// The inputs of a node, cast to the widest type among them, and whether that type is known. If not, `amp_multicast` finds it at run
    /// time.
    fn cast_to_widest(&mut self, node: &Node) -> Result<(Vec<NodeEntry>, bool)> {
        let mut are_known = true;
        let mut has_fp32 = false;
        for e in &node.inputs {
            let mapped = self.find(e)?;
            let is_known = matches!(mapped.dtype, Some(DType::F32 | DType::F16 | DType::BF16));
            are_known &= is_known;
            has_fp32 |= mapped.dtype == Some(DType::F32) || mapped.casts.iter().any(|(to, _)| *to == DType::F32);
        }
        if are_known {
            let inputs = node.inputs.iter().map(|e| if has_fp32 { self.cast(e, DType::F32) } else { self.uncast(e) });
            return Ok((inputs.collect::<Result<_>>()?, true));
        }
        let first = &node.inputs[0];
        let name = format!("{}{}_amp_multicast", first.node.name, output_suffix(first));
        let inputs = node.inputs.iter().map(|e| self.uncast(e)).collect::<Result<Vec<_>>>()?;
        let multicast = op_node("amp_multicast", name, inputs, ("num_outputs", node.inputs.len().to_string()))?;
        let outputs = (0..node.inputs.len() as u32).map(|index| NodeEntry { node: multicast.clone(), index });
        Ok((outputs.collect(), false))
    }

    /// Copies a node with casts of its inputs, and records the types of its outputs.
    fn convert_node(&mut self, node: &Arc<Node>, original_dtypes: &[Option<DType>]) -> Result<()> {
        let is_float = |dtype: &Option<DType>| dtype.is_none_or(DType::is_float);
        let (inputs, types) = match node.op() {
            None => (Vec::new(), vec![None]),
            Some(op) if self.rules.excluded.contains(node.name.as_str()) || self.needs_fp32(node, op.def.name) => {
                let inputs = node.inputs.iter().map(|e| self.cast_to_fp32(e)).collect::<Result<_>>()?;
                (inputs, original_dtypes.iter().map(|d| d.or(Some(DType::F32))).collect())
            }
            Some(op) if self.rules.target_ops.contains(op.def.name) => {
                let inputs = node.inputs.iter().map(|e| self.cast_to_target(e)).collect::<Result<_>>()?;
                (
                    inputs,
                    original_dtypes.iter().map(|d| if is_float(d) { Some(self.rules.target) } else { *d }).collect(),
                )
            }
            Some(op) if self.rules.widest_ops.contains(op.def.name) && !node.inputs.is_empty() => {
                let (inputs, is_known) = self.cast_to_widest(node)?;
                let types = if is_known {
                    self.infer_outputs(node, &inputs, original_dtypes.len())?
                } else {
                    vec![None; original_dtypes.len()]
                };
                (inputs, types)
            }
            Some(_) => {
                let inputs = node.inputs.iter().map(|e| self.uncast(e)).collect::<Result<Vec<_>>>()?;
                let types = self.infer_outputs(node, &inputs, original_dtypes.len())?;
                (inputs, types)
            }
        };
        let copy = node.with_inputs(inputs);
        for (index, (dtype, original_dtype)) in types.into_iter().zip(original_dtypes).enumerate() {
            let entry = NodeEntry { node: copy.clone(), index: index as u32 };
            if let Some(dtype) = dtype {
                self.types.insert((Arc::as_ptr(&copy), index as u32), dtype);
            }
            let mapped = MappedEntry { entry, dtype, original_dtype: *original_dtype, casts: Vec::new() };
            self.mapped.insert((Arc::as_ptr(node), index as u32), mapped);
        }
        Ok(())
    }

    /// The output types of a node, inferred from its inputs; unknown unless all are known.
    fn infer_outputs(&self, node: &Node, inputs: &[NodeEntry], outputs: usize) -> Result<Vec<Option<DType>>> {
        let unknown = vec![None; outputs];
        let (Some(op), false) = (node.op(), inputs.is_empty()) else { return Ok(unknown) };
        let mut ins: Vec<Option<DType>> =
            inputs.iter().map(|e| self.types.get(&(Arc::as_ptr(&e.node), e.index)).copied()).collect();
        let mut outs = unknown.clone();
        let is_valid = (op.def.inference.dtype)(&op.params, &mut DTypeIo { ins: &mut ins, outs: &mut outs }).is_ok();
        let are_known = is_valid && ins.iter().chain(&outs).all(Option::is_some);
        Ok(if are_known { outs } else { unknown })
    }

    /// An output of the graph, cast to float32 unless it is an integer.
    fn convert_output(&mut self, e: &NodeEntry) -> Result<NodeEntry> {
        self.cast(e, DType::F32)
    }

    /// Sets the types of parameters as attributes; -1 means unknown.
    fn annotate(&mut self, nodes: &[Arc<Node>]) -> Result<()> {
        let rules = self.rules;
        for node in nodes.iter().filter(|n| n.is_variable() && rules.model_params.contains(n.name.as_str())) {
            let target = rules.target;
            let is_stored_in_target = self.stored_in_target.contains(node.name.as_str());
            let mapped = self.find(&NodeEntry { node: node.clone(), index: 0 })?;
            let dtype = if is_stored_in_target { Some(target) } else { mapped.original_dtype };
            let code = dtype.map_or(-1, |d| d.code());
            mapped.entry.node.attrs.write().insert(DTYPE_ATTR.into(), code.to_string());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ferromx_core::params::Attrs;

    use super::*;

    fn rules() -> AmpRules {
        let set = |names: &[&str]| names.iter().map(|n| n.to_string()).collect();
        let softrelu =
            ConditionalOp { op: "Activation".into(), param: "act_type".into(), values: vec!["softrelu".into()] };
        AmpRules {
            target: DType::F16,
            target_ops: set(&["FullyConnected"]),
            fp32_ops: set(&["softmax"]),
            widest_ops: set(&["elemwise_add"]),
            conditional: vec![softrelu],
            excluded: set(&[]),
            model_params: set(&[]),
            data: vec![("d".into(), DType::F32), ("a".into(), DType::F32)],
            cast_params: false,
        }
    }

    fn var(name: &str) -> Symbol {
        Symbol::variable(name, Attrs::new())
    }

    fn layer() -> Symbol {
        let attrs = [("num_hidden", "2"), ("no_bias", "True")];
        Symbol::op("FullyConnected", "fc", &[var("d"), var("w")], &attrs).unwrap()
    }

    /// Names of the nodes and of their inputs.
    fn structure(symbol: &Symbol) -> Vec<String> {
        let inputs = |n: &Arc<Node>| n.inputs.iter().map(|e| e.node.name.to_string()).collect::<Vec<_>>().join(" ");
        symbol.nodes().iter().filter(|n| !n.is_variable()).map(|n| format!("{}({})", n.name, inputs(n))).collect()
    }

    #[test]
    fn casts_are_inserted_as_in_mxnet() {
        let fc = layer();
        let softmax = Symbol::op("softmax", "sm", std::slice::from_ref(&fc), &[]).unwrap();
        let relu = Symbol::op("relu", "re", std::slice::from_ref(&fc), &[]).unwrap();
        let sum = Symbol::op("elemwise_add", "y", &[fc.clone(), relu], &[]).unwrap();
        let fc_nodes = ["d_amp_cast_float16(d)", "w_amp_cast_float16(w)", "fc(d_amp_cast_float16 w_amp_cast_float16)"];
        let expect = |symbol: Symbol, rest: &[&str]| {
            let nodes: Vec<&str> = fc_nodes.iter().chain(rest).copied().collect();
            assert_eq!(structure(&symbol.reduced_precision(&rules()).unwrap()), nodes);
        };
        expect(softmax.clone(), &["fc_output_amp_cast_float32(fc)", "sm(fc_output_amp_cast_float32)"]);
        expect(sum.clone(), &["re(fc)", "y(fc re)", "y_output_amp_cast_float32(y)"]);
        expect(
            Symbol::group(&[softmax, sum]),
            &[
                "fc_output_amp_cast_float32(fc)",
                "sm(fc_output_amp_cast_float32)",
                "re(fc)",
                "re_0_amp_cast_float32(re)",
                "y(fc_output_amp_cast_float32 re_0_amp_cast_float32)",
            ],
        );
        expect(
            Symbol::op("elemwise_add", "y", &[fc, var("a")], &[]).unwrap(),
            &[
                "fc_output_amp_multicast(fc a)",
                "y(fc_output_amp_multicast fc_output_amp_multicast)",
                "y_output_amp_cast_float32(y)",
            ],
        );
    }

    fn type_of(symbol: &Symbol) -> Option<String> {
        let weight = symbol.nodes().into_iter().find(|n| *n.name == "w")?;
        weight.attrs.read().get(DTYPE_ATTR).cloned()
    }

    #[test]
    fn parameters_get_their_type_as_an_attribute() {
        let mut rules = rules();
        rules.model_params.insert("w".into());
        let fp32 = layer().reduced_precision(&rules).unwrap();
        assert_eq!(type_of(&fp32).as_deref(), Some("0"));
        rules.cast_params = true;
        let fp16 = layer().reduced_precision(&rules).unwrap();
        assert_eq!(type_of(&fp16).as_deref(), Some("2"));
        assert_eq!(structure(&fp16)[1], "fc(d_amp_cast_float16 w)");
        rules.excluded.insert("fc".into());
        assert_eq!(structure(&layer().reduced_precision(&rules).unwrap()), ["fc(d w)"]);
        rules.target = DType::I8;
        assert!(
            layer()
                .reduced_precision(&rules)
                .map(|_| ())
                .unwrap_err()
                .to_string()
                .contains("Only float16 and bfloat16")
        );
    }
}
