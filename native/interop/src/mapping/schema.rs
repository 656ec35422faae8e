//! Operator descriptors: every version of a framework's operators with their inputs, outputs and attributes.

use std::collections::HashMap;

use super::ast::Declaration;
use super::lexer::{Cursor, Token};
use crate::error::{Error, Result};
use crate::ir::{ArgDescriptor, Arity, AttributeDescriptor, AttributeKind, OpDescriptor, Value};

/// The descriptors of a framework.
pub struct Schema {
    /// The framework's own descriptors, if these extend them.
    base: Option<&'static Schema>,
    /// The newest operator set version of each domain that has descriptors.
    newest: HashMap<&'static str, i64>,
    /// By domain and operator, versions ascending.
    operators: HashMap<String, HashMap<String, Vec<OpDescriptor>>>,
}

impl Schema {
    /// Reads descriptor files, each given as domain, name and content.
    ///
    /// # Errors
    /// A syntax error, with its file and line.
    pub fn read(files: &[(&'static str, (&'static str, &'static str))]) -> Result<Schema> {
        let mut schema = Schema { base: None, newest: HashMap::new(), operators: HashMap::new() };
        for (domain, (file, text)) in files {
            read(&mut schema, domain, file, text)?;
        }
        Ok(schema)
    }

    /// Extends the descriptors of a framework by those of a program.
    ///
    /// # Errors
    /// An operator that the framework already has, or that is described twice.
    pub fn extended(base: &'static Schema, declarations: &[Declaration]) -> Result<Schema> {
        let mut schema = Schema { base: Some(base), newest: HashMap::new(), operators: HashMap::new() };
        for added in declarations {
            let (domain, op) = (&added.domain, &added.descriptor);
            let error =
                |message: String| Error::Mapping { file: added.file.clone(), position: added.position, message };
            if !base.versions(domain, &op.name).is_empty() {
                return Err(error(format!(
                    "the framework already has an operator {}: remove its description",
                    op.name
                )));
            }
            let versions = schema.operators.entry(domain.clone()).or_default().entry(op.name.clone()).or_default();
            if versions.last().is_some_and(|earlier| earlier.since >= op.since) {
                let text = format!("{} is already described for version {} or a later one", op.name, op.since);
                return Err(error(text));
            }
            versions.push(op.clone());
        }
        Ok(schema)
    }

    /// The descriptor of an operator in a version of the operator set.
    pub fn find(&self, domain: &str, op: &str, version: i64) -> Option<&OpDescriptor> {
        self.versions(domain, op).iter().rev().find(|d| d.since <= version)
    }

    /// All versions of an operator, ascending; none if there is no such operator.
    pub fn versions(&self, domain: &str, op: &str) -> &[OpDescriptor] {
        let own = self.operators.get(domain).and_then(|operators| operators.get(op));
        match (own, self.base) {
            (Some(versions), _) => versions,
            (None, Some(base)) => base.versions(domain, op),
            (None, None) => &[],
        }
    }

    /// True if a domain has an operator of this name.
    pub fn has(&self, op: &str) -> bool {
        self.operators.values().any(|operators| operators.contains_key(op))
            || self.base.is_some_and(|base| base.has(op))
    }

    /// The newest version of a domain's operator set, if that is known.
    pub fn newest(&self, domain: &str) -> Option<i64> {
        self.newest.get(domain).copied().or_else(|| self.base?.newest(domain))
    }

    /// The version in which an export writes a domain by default: that of the newest descriptor.
    pub fn written_version(&self, domain: &str) -> i64 {
        let described = |schema: &Schema| {
            let operators = schema.operators.get(domain)?;
            operators.values().flatten().map(|op| op.since).max()
        };
        described(self).or_else(|| described(self.base?)).unwrap_or(1)
    }

    /// The domain of an operator in a mapping file: the file's domain if it has the operator, otherwise the framework's own.
    pub fn domain_of<'d>(&self, domain: &'d str, op: &str) -> &'d str {
        if domain.is_empty() || self.versions(domain, op).is_empty() { "" } else { domain }
    }

    /// All operators of a domain, by name.
    pub fn operators(&self, domain: &str) -> Vec<&str> {
        let mut names: Vec<_> =
            self.operators.get(domain).into_iter().flat_map(HashMap::keys).map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

fn read(schema: &mut Schema, domain: &'static str, file: &'static str, text: &str) -> Result<()> {
    let mut c = Cursor::new(file, text)?;
    if !c.accept_name("opset") {
        return Err(c.unexpected("'opset' with the newest version"));
    }
    schema.newest.insert(domain, c.int("the newest version of the operator set")?);
    while *c.peek() != Token::End {
        let op = descriptor(&mut c)?;
        let versions = schema.operators.entry(domain.to_string()).or_default().entry(op.name.clone()).or_default();
        if versions.last().is_some_and(|earlier| earlier.since >= op.since) {
            return Err(c.error(format!("the versions of {} are not in ascending order", op.name)));
        }
        versions.push(op);
    }
    Ok(())
}

/// Parses an operator descriptor: `Name@version(inputs) -> (outputs) attributes`. The version is 1 if it is omitted.
///
/// # Errors
/// Unexpected tokens.
pub(super) fn descriptor(c: &mut Cursor<'_>) -> Result<OpDescriptor> {
    let name = c.name("an operator")?;
    let since = if c.accept("@") { c.int("a version")? } else { 1 };
    let inputs = arguments(c)?;
    c.expect("->")?;
    let outputs = arguments(c)?;
    let mut attributes = Vec::new();
    // An attribute begins with a name and a colon. So does a process with a label, but an operator and its inputs follow.
    while matches!(c.peek_at(1), Token::Punctuation(":")) && !matches!(c.peek_at(3), Token::Punctuation("(")) {
        attributes.push(attribute(c)?);
        c.accept(",");
    }
    Ok(OpDescriptor { name, since, inputs, outputs, attributes })
}

fn arguments(c: &mut Cursor<'_>) -> Result<Vec<ArgDescriptor>> {
    c.expect("(")?;
    let mut args = Vec::new();
    while !c.accept(")") {
        let name = c.name("an argument")?;
        let arity = if c.accept("?") {
            Arity::Optional
        } else if c.accept("*") {
            Arity::Many
        } else {
            Arity::One
        };
        args.push(ArgDescriptor { name, arity });
        if !c.accept(",") && !matches!(c.peek(), Token::Punctuation(")")) {
            return Err(c.unexpected("',' or ')'"));
        }
    }
    Ok(args)
}

fn attribute(c: &mut Cursor<'_>) -> Result<AttributeDescriptor> {
    let name = c.name("an attribute")?;
    c.expect(":")?;
    let position = c.position();
    let kind = match c.name("the kind of an attribute")?.as_str() {
        "int" => AttributeKind::Int,
        "ints" => AttributeKind::Ints,
        "float" => AttributeKind::Float,
        "floats" => AttributeKind::Floats,
        "string" => AttributeKind::Text,
        "strings" => AttributeKind::Texts,
        "tensor" => AttributeKind::Tensor,
        "graph" => AttributeKind::Graph,
        "bool" => AttributeKind::Bool,
        "pairs" => AttributeKind::Pairs,
        "sparse_tensor" | "type" => AttributeKind::Other,
        other => {
            let known = "int, ints, float, floats, string, strings, tensor, graph, bool, pairs";
            return Err(c.error_at(position, format!("'{other}' is not a kind of attribute; there are {known}")));
        }
    };
    let is_optional = c.accept("?");
    let default = if c.accept("=") { literal(c)? } else { Value::None };
    let is_required = !is_optional && matches!(default, Value::None);
    Ok(AttributeDescriptor { name, kind, default, is_required })
}

fn literal(c: &mut Cursor<'_>) -> Result<Value> {
    if c.accept("[") {
        let mut items = Vec::new();
        while !c.accept("]") {
            items.push(literal(c)?);
            c.accept(",");
        }
        return Ok(Value::List(items));
    }
    for (name, value) in [("true", true), ("false", false)] {
        if c.accept_name(name) {
            return Ok(Value::Bool(value));
        }
    }
    let is_negative = c.accept("-");
    let value = match c.take() {
        Token::Int(i) => Value::Int(if is_negative { -i } else { i }),
        Token::Float(x) => Value::Float(if is_negative { -x } else { x }),
        Token::Text(t) if !is_negative => Value::Text(t),
        _ => return Err(c.error("a default value was expected before this")),
    };
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Framework;

    #[test]
    fn descriptors_are_found_by_version() {
        let s = Framework::Onnx.schema().unwrap();
        let clip = |v| s.find("", "Clip", v).unwrap();
        assert_eq!((clip(6).inputs.len(), clip(11).inputs.len(), clip(6).attributes.len()), (1, 3, 2));
        let softmax = s.find("", "Softmax", 13).unwrap().attribute("axis").unwrap();
        assert_eq!((softmax.kind, &softmax.default, softmax.is_required), (AttributeKind::Int, &Value::Int(-1), false));
        assert!(s.find("", "Gelu", 19).is_none());
        assert!(s.newest("").unwrap() >= 25);
    }
}
