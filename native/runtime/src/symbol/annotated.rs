//! Graphs with attributes for NNVM's C functions, and the passes that convert graphs to and from JSON.

use std::collections::BTreeMap;

use ferromx_core::error::{Error, Result};
use parking_lot::RwLock;
use serde_json::Value;

use super::Symbol;

/// The attribute types with a JSON representation.
const TYPES: [&str; 6] = ["int", "list_int", "list_shape", "list_str", "size_t", "str"];

/// The available passes.
const PASSES: [&str; 2] = ["LoadJSON", "SaveJSON"];

/// The attribute that holds a graph as JSON.
const JSON: &str = "json";

/// An attribute of a graph.
#[derive(Clone)]
enum Attribute {
    /// A type of [`TYPES`] and a value of that type.
    Plain(&'static str, Value),
    /// Outputs of nodes.
    Entries,
}

/// A symbol with attributes. Attributes are set in place; passes create new graphs.
pub struct AnnotatedGraph {
    symbol: Symbol,
    attributes: RwLock<BTreeMap<String, Attribute>>,
}

/// Whether a value has the type.
fn has_type(type_name: &str, value: &Value) -> bool {
    let all_elements = |test: fn(&Value) -> bool| value.as_array().is_some_and(|list| list.iter().all(test));
    match type_name {
        "int" => value.is_i64(),
        "size_t" => value.is_u64(),
        "str" => value.is_string(),
        "list_int" => all_elements(Value::is_i64),
        "list_str" => all_elements(Value::is_string),
        "list_shape" => all_elements(|shape| has_type("list_int", shape)),
        _ => false,
    }
}

/// `["TYPE", VALUE]` with MXNet's white space: elements that are strings or lists are on separate lines.
fn to_json(type_name: &str, value: &Value) -> String {
    let flat = |list: &[Value]| format!("[{}]", list.iter().map(Value::to_string).collect::<Vec<_>>().join(", "));
    let value = match (type_name, value) {
        ("list_str" | "list_shape", Value::Array(list)) if !list.is_empty() => {
            let lines =
                list.iter().map(|e| format!("\n    {}", e.as_array().map_or_else(|| e.to_string(), |l| flat(l))));
            format!("[{}]", lines.collect::<Vec<_>>().join(", "))
        }
        (_, Value::Array(list)) => flat(list),
        _ => value.to_string(),
    };
    format!("[\"{type_name}\", {value}]")
}

impl AnnotatedGraph {
    /// The graph of a symbol, without attributes.
    pub fn new(symbol: Symbol) -> AnnotatedGraph {
        AnnotatedGraph { symbol, attributes: RwLock::default() }
    }

    /// The outputs of the graph.
    pub fn symbol(&self) -> &Symbol {
        &self.symbol
    }

    /// Sets an attribute from `["TYPE", VALUE]`.
    ///
    /// # Errors
    /// Malformed text, an unknown type, a value of another type.
    pub fn set_json(&self, key: &str, text: &str) -> Result<()> {
        let malformed = || {
            Error::Value(format!(
                "attribute '{key}' is {text}: JSON of the form [\"TYPE\", VALUE] was expected, Expect '['"
            ))
        };
        let value: Value = serde_json::from_str(text).map_err(|_| malformed())?;
        let Some([Value::String(type_name), value]) = value.as_array().map(Vec::as_slice) else {
            return Err(malformed());
        };
        let registered = TYPES.iter().find(|t| *t == type_name).ok_or_else(|| {
            Error::Value(format!(
                "Typename {type_name} has not been registered via DMLC_JSON_ENABLE_ANY: use one of {}",
                TYPES.join(", ")
            ))
        })?;
        if !has_type(registered, value) {
            return Err(Error::Value(format!(
                "attribute '{key}' is {value}, which is not a value of type {type_name}"
            )));
        }
        self.attributes.write().insert(key.into(), Attribute::Plain(registered, value.clone()));
        Ok(())
    }

    /// An attribute as JSON; `None` if there is none of this name.
    ///
    /// # Errors
    /// The attribute is a list of outputs, which has no JSON representation.
    pub fn json(&self, key: &str) -> Result<Option<String>> {
        match self.attributes.read().get(key) {
            None => Ok(None),
            Some(Attribute::Plain(type_name, value)) => Ok(Some(to_json(type_name, value))),
            Some(Attribute::Entries) => {
                Err(Error::Value(format!("attribute '{key}' is a list of outputs, which has no JSON representation")))
            }
        }
    }

    /// Sets an attribute to the outputs of a symbol. They are not stored, because no function reads them.
    pub fn set_entries(&self, key: &str) {
        self.attributes.write().insert(key.into(), Attribute::Entries);
    }

    /// Applies passes one after the other.
    ///
    /// # Errors
    /// An unknown pass; `LoadJSON` without the attribute `json` or with invalid JSON.
    pub fn apply(&self, passes: &[String]) -> Result<AnnotatedGraph> {
        let mut symbol = self.symbol.clone();
        let mut attributes = self.attributes.read().clone();
        for pass in passes {
            match pass.as_str() {
                "SaveJSON" => {
                    attributes.insert(JSON.into(), Attribute::Plain("str", symbol.to_json().into()));
                }
                "LoadJSON" => match attributes.get(JSON) {
                    Some(Attribute::Plain("str", Value::String(text))) => symbol = Symbol::from_json(text)?,
                    _ => {
                        let text = "Graph attr dependency json is required by pass LoadJSON but is not available The attribute is \
                                    provided by pass SaveJSON";
                        return Err(Error::value(text));
                    }
                },
                other => {
                    return Err(Error::NotFound(format!(
                        "Cannot find pass {other} in the registry; the passes here are {}: graphs are optimized when they are bound",
                        PASSES.join(", ")
                    )));
                }
            }
        }
        Ok(AnnotatedGraph { symbol, attributes: RwLock::new(attributes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_keep_type_and_value() {
        let graph = AnnotatedGraph::new(Symbol::variable("x", Default::default()));
        for (given, expected) in [
            (r#"["str","a"]"#, "[\"str\", \"a\"]"),
            (r#"["list_int",[1,2]]"#, "[\"list_int\", [1, 2]]"),
            (r#"["list_str",["x","y"]]"#, "[\"list_str\", [\n    \"x\", \n    \"y\"]]"),
            (r#"["list_shape",[[1,2]]]"#, "[\"list_shape\", [\n    [1, 2]]]"),
        ] {
            graph.set_json("k", given).unwrap();
            assert_eq!(graph.json("k").unwrap().unwrap(), expected);
        }
        assert!(graph.set_json("k", r#"["float",1.5]"#).unwrap_err().to_string().contains("Typename float"));
        assert!(graph.set_json("k", r#"["int","a"]"#).unwrap_err().to_string().contains("not a value of type int"));
        assert!(graph.set_json("k", "hello").unwrap_err().to_string().contains("Expect '['"));
        assert_eq!(graph.json("none").unwrap(), None);
    }

    #[test]
    fn passes_convert_graphs_to_and_from_json() {
        let symbol = Symbol::op("Flatten", "f", &[Symbol::variable("x", Default::default())], &[]).unwrap();
        let names = |passes: &[&str]| passes.iter().map(|p| p.to_string()).collect::<Vec<_>>();
        let graph = AnnotatedGraph::new(symbol.clone());
        let loaded = graph.apply(&names(&["SaveJSON", "LoadJSON"])).unwrap();
        assert_eq!(loaded.symbol().to_json(), symbol.to_json());
        let error = |passes: &[&str]| graph.apply(&names(passes)).map(|_| ()).unwrap_err().to_string();
        assert!(error(&["LoadJSON"]).contains("provided by pass SaveJSON"));
        assert!(error(&["Fold"]).contains("Cannot find pass Fold"));
    }
}
