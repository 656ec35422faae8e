//! Composition of symbols: applies operators to inputs, and substitutes variables of a graph.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::op::{Inputs, OpDef, check_count};
use ferromx_core::params::{Attrs, Params};
use ferromx_core::subgraph::Subgraph;
use ferromx_ops::registry;

use super::node::is_hidden;
use super::subgraph_ops::{expand, subgraph_call};
use super::{Node, NodeEntry, OpCall, Symbol, SymbolSubgraph};

/// Keys of attributes that users write as `ctx_group` and graphs store as `__ctx_group__`.
pub(super) const HIDDEN_KEYS: &[&str] = &["ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage"];

/// The name under which a node keeps an attribute.
pub(super) fn stored_key(key: &str) -> String {
    if HIDDEN_KEYS.contains(&key) { format!("__{key}__") } else { key.into() }
}

/// An operator with parameters, but without inputs.
#[derive(Clone)]
pub struct AtomicSymbol {
    op: &'static str,
    /// The parameters.
    attrs: Attrs,
    /// The attributes that are not parameters, such as `__ctx_group__`.
    hidden_attrs: Attrs,
    /// The name of the node, if `compose` gets none.
    name: Option<String>,
}

impl Symbol {
    /// The operator of a symbol with a single node, without its inputs.
    ///
    /// # Errors
    /// A group or a variable.
    pub fn to_atomic(&self) -> Result<AtomicSymbol> {
        let node = self.single_node()?;
        let op = node.op().ok_or_else(|| Error::Value(format!("'{}' is a variable, not an operator", node.name)))?;
        let attrs = node.attrs.read().clone();
        let (hidden_attrs, attrs) = attrs.into_iter().partition(|(key, _)| is_hidden(key));
        Ok(AtomicSymbol { op: op.name, attrs, hidden_attrs, name: None })
    }
}

impl AtomicSymbol {
    /// Checks name and parameters of an operator.
    ///
    /// # Errors
    /// No such operator, parameters that do not parse.
    pub fn new(op: &str, given: Attrs) -> Result<AtomicSymbol> {
        let (name, def) = registry::find(op)?;
        // Of equal keys, the first one counts.
        let mut attrs = Attrs::new();
        for (key, value) in given {
            attrs.entry(stored_key(&key)).or_insert(value);
        }
        let mut with_count = attrs.clone();
        if let Inputs::Variadic { count, .. } = def.signature.inputs {
            with_count.entry(count.into()).or_insert_with(|| (def.signature.graph_args.len() + 1).to_string());
        }
        def.parse(&with_count)?;
        Ok(AtomicSymbol { op: name, attrs, hidden_attrs: Attrs::new(), name: None })
    }

    /// Name of the operator as given: its name or an alias.
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// The parameters.
    pub fn attrs(&self) -> &Attrs {
        &self.attrs
    }

    /// Adds an attribute to the node. `name` is its name.
    ///
    /// # Errors
    /// A parameter that the operator does not accept.
    pub fn set_attr(&mut self, key: &str, value: &str) -> Result<()> {
        if key == "name" {
            self.name = Some(value.into());
            return Ok(());
        }
        let key = stored_key(key);
        if is_hidden(&key) {
            self.hidden_attrs.insert(key, value.into());
            return Ok(());
        }
        let mut attrs = self.attrs.clone();
        attrs.insert(key, value.into());
        self.attrs = AtomicSymbol::new(self.op, attrs)?.attrs;
        Ok(())
    }

    /// Creates the node. Inputs are all positional or all by name; missing ones become variables named `node_input`.
    ///
    /// # Errors
    /// Too many inputs, an unknown or repeated input name, an input with several outputs, named inputs for a variadic operator.
    pub fn compose(&self, name: &str, args: &[Symbol], keys: Option<&[String]>) -> Result<Symbol> {
        let (_, def) = registry::find(self.op)?;
        let name = if name.is_empty() { self.name.clone() } else { Some(name.to_string()) };
        let name = name.unwrap_or_else(|| automatic_name(self.op));
        let locate = |e: Error| e.in_operator(self.op, &name);
        let (graphs, args) = args.split_at(def.signature.graph_args.len().min(args.len()));
        let inputs = args.iter().enumerate().map(|(i, a)| single_output(a, i)).collect::<Result<Vec<_>>>();
        let inputs = inputs.map_err(locate)?;
        let node = match def.signature.is_expanded {
            true => self.subgraph_node(def, &name, inputs, graphs),
            false => self.operator_node(def, &name, inputs, keys, graphs),
        };
        Ok(all_outputs(node.map_err(locate)?))
    }

    /// The node of an operator that is replaced by its subgraph.
    fn subgraph_node(&self, def: &OpDef, name: &str, inputs: Vec<NodeEntry>, graphs: &[Symbol]) -> Result<Arc<Node>> {
        expand(def, name, &self.attrs, &inputs, graphs)?;
        let op = subgraph_call(self.op, &self.attrs)?;
        let mut attrs = self.attrs.clone();
        attrs.extend(self.hidden_attrs.clone());
        Ok(Node::new(name, op, inputs, graphs.to_vec(), attrs))
    }

    /// The node of any other operator, with variables for missing inputs.
    fn operator_node(
        &self,
        def: &'static OpDef,
        name: &str,
        inputs: Vec<NodeEntry>,
        keys: Option<&[String]>,
        graphs: &[Symbol],
    ) -> Result<Arc<Node>> {
        let mut attrs = self.attrs.clone();
        let mut count = graphs.len() + inputs.len();
        if let Inputs::Variadic { count: key, .. } = def.signature.inputs {
            ensure!(
                keys.is_none() || inputs.is_empty(),
                "{} takes any number of inputs: pass them by position, not by name",
                self.op
            );
            let text = attrs.entry(key.into()).or_insert_with(|| count.to_string());
            count = text.trim().parse().unwrap_or(count);
            check_count("inputs", count)?;
        }
        let params = attach(def, def.parse(&attrs)?, graphs)?;
        attrs.extend(self.hidden_attrs.clone());
        let names = def.input_names(&params, def.num_inputs(&params).unwrap_or(count));
        let inputs: Vec<NodeEntry> = match_inputs(inputs, keys, &names)?
            .into_iter()
            .zip(&names)
            .map(|(input, arg)| input.unwrap_or_else(|| automatic_variable(name, arg, &attrs)))
            .collect();
        set_initializers(def, &inputs);
        Ok(Node::new(name, OpCall { name: self.op, def, params }, inputs, graphs.to_vec(), attrs))
    }
}

/// A symbol with all visible outputs of a node.
fn all_outputs(node: Arc<Node>) -> Symbol {
    Symbol { outputs: (0..node.num_visible() as u32).map(|index| NodeEntry { node: node.clone(), index }).collect() }
}

/// Attaches subgraphs to the parameters of an operator.
///
/// # Errors
/// Subgraphs that the operator does not accept.
pub fn attach(def: &OpDef, params: Params, graphs: &[Symbol]) -> Result<Params> {
    if graphs.is_empty() && def.signature.graph_args.is_empty() {
        return Ok(params);
    }
    def.attach(params, graphs.iter().map(|graph| Arc::new(SymbolSubgraph::new(graph)) as Arc<dyn Subgraph>).collect())
}

/// The name of a node without a name: `fullyconnected0`, `fullyconnected1`, ...
fn automatic_name(op: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{}{}", op.to_lowercase(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A variable for an omitted input. As in MXNet, it has the attributes of the operator.
pub(super) fn automatic_variable(node: &str, arg: &str, attrs: &Attrs) -> NodeEntry {
    NodeEntry { node: Node::variable(&format!("{node}_{arg}"), attrs.clone()), index: 0 }
}

/// Gives variables without an initializer the one of their input, as MXNet does: also those that the program has created.
pub(super) fn set_initializers(def: &OpDef, inputs: &[NodeEntry]) {
    for (i, init) in def.signature.input_init {
        if let Some(input) = inputs.get(*i).filter(|input| input.node.is_variable()) {
            input.node.attrs.write().entry("__init__".into()).or_insert_with(|| (*init).into());
        }
    }
}

/// The output of a symbol, which must be the only one because it is input `index` of an operator.
fn single_output(symbol: &Symbol, index: usize) -> Result<NodeEntry> {
    match symbol.outputs.as_slice() {
        [entry] => Ok(entry.clone()),
        many => Err(Error::Value(format!(
            "input {index} is a symbol of {} outputs; an input must be a single output: choose one with get(index)",
            many.len()
        ))),
    }
}

/// Assigns inputs, positional or by name, to the operator's inputs `names`.
fn match_inputs(inputs: Vec<NodeEntry>, keys: Option<&[String]>, names: &[String]) -> Result<Vec<Option<NodeEntry>>> {
    let list = names.join(", ");
    let mut matched: Vec<Option<NodeEntry>> = vec![None; names.len()];
    match keys {
        None => {
            ensure!(inputs.len() <= names.len(), "Input:[{list}] was expected, but {} inputs were given", inputs.len());
            matched.iter_mut().zip(inputs).for_each(|(p, input)| *p = Some(input));
        }
        Some(keys) => {
            for (key, input) in keys.iter().zip(inputs) {
                let Some(i) = names.iter().position(|n| n == key) else {
                    return Err(Error::Value(format!("there is no input '{key}'; the inputs are {list}")));
                };
                ensure!(matched[i].is_none(), "input '{key}' was given twice");
                matched[i] = Some(input);
            }
        }
    }
    Ok(matched)
}

impl Symbol {
    /// An operator applied to inputs by position; see [`AtomicSymbol`].
    pub fn op(op: &str, name: &str, inputs: &[Symbol], attrs: &[(&str, &str)]) -> Result<Symbol> {
        let attrs = attrs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        AtomicSymbol::new(op, attrs)?.compose(name, inputs, None)
    }

    /// Replaces variables of this graph by other symbols, by name or in the order of [`Symbol::list_inputs`].
    ///
    /// # Errors
    /// A name that no variable has, too many symbols, a symbol with several outputs.
    pub fn substitute(&self, args: &[Symbol], keys: Option<&[String]>) -> Result<Symbol> {
        let names = self.list_inputs();
        let inputs: Vec<NodeEntry> =
            args.iter().enumerate().map(|(i, a)| single_output(a, i)).collect::<Result<_>>()?;
        let matched = match_inputs(inputs, keys, &names)?;
        let replacement: HashMap<String, NodeEntry> =
            names.into_iter().zip(matched).filter_map(|(n, p)| Some((n, p?))).collect();
        Ok(self.rebuild(|node| replacement.get(node.name.as_str()).cloned()))
    }

    /// A copy that shares no node with this symbol.
    pub fn deep_copy(&self) -> Symbol {
        self.rebuild(|_| None)
    }

    /// The same graph with another name for its output node.
    ///
    /// # Errors
    /// The symbol is a group.
    pub fn renamed(&self, name: &str) -> Result<Symbol> {
        let old = self.outputs.first().filter(|_| self.name().is_some());
        let Some(old) = old else {
            return Err(Error::Value("only a symbol with one node has a name; this symbol is a group".into()));
        };
        let node = Arc::new(Node {
            name: name.to_string().into(),
            op: old.node.op.clone(),
            inputs: old.node.inputs.clone(),
            graphs: old.node.graphs.clone(),
            attrs: old.node.attrs.clone(),
        });
        Ok(Symbol { outputs: self.outputs.iter().map(|e| NodeEntry { node: node.clone(), index: e.index }).collect() })
    }

    /// Copies the graph; `replace` may substitute variables.
    fn rebuild(&self, replace: impl Fn(&Node) -> Option<NodeEntry>) -> Symbol {
        let mut copies: HashMap<*const Node, NodeEntry> = HashMap::new();
        let copied = |copies: &HashMap<*const Node, NodeEntry>, e: &NodeEntry| {
            let copy = &copies[&Arc::as_ptr(&e.node)];
            NodeEntry { node: copy.node.clone(), index: if e.node.is_variable() { copy.index } else { e.index } }
        };
        for node in self.nodes() {
            let replaced = if node.is_variable() { replace(&node) } else { None };
            let entry = replaced.unwrap_or_else(|| {
                let inputs = node.inputs.iter().map(|e| copied(&copies, e)).collect();
                NodeEntry { node: node.with_inputs(inputs), index: 0 }
            });
            copies.insert(Arc::as_ptr(&node), entry);
        }
        Symbol { outputs: self.outputs.iter().map(|e| copied(&copies, e)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn var(name: &str) -> Symbol {
        Symbol::variable(name, Attrs::new())
    }

    #[test]
    fn missing_inputs_become_variables() {
        let s = AtomicSymbol::new("reshape_like", Attrs::new()).unwrap().compose("r", &[], None).unwrap();
        assert_eq!(s.list_arguments(), ["r_lhs", "r_rhs"]);
        assert_eq!(s.list_outputs(), ["r_output"]);
    }

    #[test]
    fn variables_get_the_initializer_of_their_input() {
        let init = |s: &Symbol, name: &str| {
            let node = s.nodes().into_iter().find(|node| *node.name == name).unwrap();
            node.attrs.read().get("__init__").cloned()
        };
        let slope = Some(r#"["Constant", {"value": 0.25}]"#.to_string());
        let rectifier = |inputs: &[Symbol]| Symbol::op("LeakyReLU", "p", inputs, &[("act_type", "prelu")]).unwrap();
        assert_eq!(init(&rectifier(&[var("x")]), "p_gamma"), slope);
        let own = var("slope");
        let s = rectifier(&[var("x"), own.clone()]);
        assert_eq!((init(&s, "slope"), init(&s, "x"), own.attr("__init__")), (slope.clone(), None, slope));
        let one: Attrs = [("__init__".to_string(), r#"["one", {}]"#.to_string())].into_iter().collect();
        let s = rectifier(&[var("x"), Symbol::variable("slope", one)]);
        assert_eq!(init(&s, "slope").as_deref(), Some(r#"["one", {}]"#));
        let attrs = [("scale", "2"), ("sample_type", "bilinear"), ("num_filter", "3")];
        let s = Symbol::op("UpSampling", "up", &[var("x")], &attrs).unwrap();
        assert_eq!(init(&s, "up_weight").as_deref(), Some(r#"["bilinear", {}]"#));
        let variables: Vec<Symbol> = ["x", "g", "b", "m", "v"].map(var).to_vec();
        let s = Symbol::op("BatchNorm", "bn", &variables, &[]).unwrap();
        assert_eq!(init(&s, "m").as_deref(), Some(r#"["zero", {}]"#));
        assert_eq!(init(&s, "v").as_deref(), Some(r#"["one", {}]"#));
    }

    #[test]
    fn inputs_by_name_are_checked() {
        let a = AtomicSymbol::new("reshape_like", Attrs::new()).unwrap();
        let s = a.compose("r", &[var("x")], Some(&["rhs".into()])).unwrap();
        assert_eq!(s.list_arguments(), ["r_lhs", "x"]);
        let e = a.compose("r", &[var("x")], Some(&["zhs".into()])).err().unwrap();
        assert!(e.to_string().contains("there is no input 'zhs'; the inputs are lhs, rhs"), "{e}");
        assert!(a.compose("r", &[var("x"), var("y"), var("z")], None).is_err());
    }

    #[test]
    fn graphs_are_substituted_and_copied() {
        let f = Symbol::op("Flatten", "f", &[var("x")], &[]).unwrap();
        let g = Symbol::op("Flatten", "g", &[var("y")], &[]).unwrap();
        let h = g.substitute(&[f], Some(&["y".into()])).unwrap();
        assert_eq!(h.list_arguments(), ["x"]);
        assert_eq!(g.list_arguments(), ["y"]);
        let copy = h.deep_copy();
        copy.set_attr("k", "v").unwrap();
        assert_eq!(h.attr("k"), None);
    }
}
