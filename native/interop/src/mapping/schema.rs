//! Operator descriptors: every version of a framework's operators with their inputs, outputs and attributes.

use std::collections::HashMap;

use super::lexer::{Cursor, Token};
use crate::error::Result;
use crate::ir::{ArgDescriptor, Arity, AttributeDescriptor, AttributeKind, OpDescriptor, Value};

/// The descriptors of a framework.
pub struct Schema {
    /// The newest version of the operator set that is described, by domain.
    newest: HashMap<&'static str, i64>,
    /// By domain and operator, versions ascending.
    operators: HashMap<(&'static str, String), Vec<OpDescriptor>>,
}

impl Schema {
    /// Reads descriptor files, each given as domain, name and content.
    ///
    /// # Errors
    /// A syntax error, with its file and line.
    pub fn read(files: &[(&'static str, (&'static str, &'static str))]) -> Result<Schema> {
        let mut schema = Schema { newest: HashMap::new(), operators: HashMap::new() };
        for (domain, (file, text)) in files {
            read(&mut schema, domain, file, text)?;
        }
        Ok(schema)
    }

    /// The descriptor of an operator in a version of the operator set.
    pub fn find(&self, domain: &str, op: &str, version: i64) -> Option<&OpDescriptor> {
        self.versions(domain, op).iter().rev().find(|d| d.since <= version)
    }

    /// All versions of an operator, ascending; none if there is no such operator.
    pub fn versions(&self, domain: &str, op: &str) -> &[OpDescriptor] {
        // The map's key cannot be borrowed for less than 'static. There are two domains, so a scan is cheap.
        let domain = self.newest.keys().find(|d| **d == domain);
        domain.and_then(|d| self.operators.get(&(*d, op.to_string()))).map_or(&[], Vec::as_slice)
    }

    /// The newest version of a domain's operator set.
    pub fn newest(&self, domain: &str) -> Option<i64> {
        self.newest.get(domain).copied()
    }

    /// All operators of a domain, by name.
    pub fn operators(&self, domain: &str) -> Vec<&str> {
        let mut names: Vec<_> = self.operators.keys().filter(|(d, _)| *d == domain).map(|(_, n)| n.as_str()).collect();
        names.sort_unstable();
        names
    }
}

fn read(schema: &mut Schema, domain: &'static str, file: &'static str, text: &str) -> Result<()> {
    let mut c = Cursor::new(file, text)?;
    if !c.takes_name("opset") {
        return Err(c.unexpected("'opset' with the newest version"));
    }
    schema.newest.insert(domain, c.int("the newest version of the operator set")?);
    while *c.peek() != Token::End {
        let op = descriptor(&mut c)?;
        let versions = schema.operators.entry((domain, op.name.clone())).or_default();
        if versions.last().is_some_and(|earlier| earlier.since >= op.since) {
            return Err(c.error(format!("the versions of {} are not in ascending order", op.name)));
        }
        versions.push(op);
    }
    Ok(())
}

fn descriptor(c: &mut Cursor<'_>) -> Result<OpDescriptor> {
    let name = c.name("an operator")?;
    c.expect("@")?;
    let since = c.int("a version")?;
    let inputs = arguments(c)?;
    c.expect("->")?;
    let outputs = arguments(c)?;
    let mut attributes = Vec::new();
    // The next operator begins with a name and an @, an attribute with a name and a colon.
    while matches!(c.peek_at(1), Token::Sign(":")) {
        attributes.push(attribute(c)?);
        c.takes(",");
    }
    Ok(OpDescriptor { name, since, inputs, outputs, attributes })
}

fn arguments(c: &mut Cursor<'_>) -> Result<Vec<ArgDescriptor>> {
    c.expect("(")?;
    let mut args = Vec::new();
    while !c.takes(")") {
        let name = c.name("an argument")?;
        let arity = if c.takes("?") {
            Arity::Optional
        } else if c.takes("*") {
            Arity::Many
        } else {
            Arity::One
        };
        args.push(ArgDescriptor { name, arity });
        c.takes(",");
    }
    Ok(args)
}

fn attribute(c: &mut Cursor<'_>) -> Result<AttributeDescriptor> {
    let name = c.name("an attribute")?;
    c.expect(":")?;
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
        _ => AttributeKind::Other,
    };
    let optional = c.takes("?");
    let default = if c.takes("=") { literal(c)? } else { Value::None };
    let required = !optional && matches!(default, Value::None);
    Ok(AttributeDescriptor { name, kind, default, required })
}

fn literal(c: &mut Cursor<'_>) -> Result<Value> {
    if c.takes("[") {
        let mut items = Vec::new();
        while !c.takes("]") {
            items.push(literal(c)?);
            c.takes(",");
        }
        return Ok(Value::List(items));
    }
    for (name, value) in [("true", true), ("false", false)] {
        if c.takes_name(name) {
            return Ok(Value::Bool(value));
        }
    }
    let negative = c.takes("-");
    let value = match c.take() {
        Token::Int(i) => Value::Int(if negative { -i } else { i }),
        Token::Float(x) => Value::Float(if negative { -x } else { x }),
        Token::Text(t) if !negative => Value::Text(t),
        _ => return Err(c.error("a default value was expected before this")),
    };
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framework::Framework;

    #[test]
    fn operators_are_described_by_version() {
        let s = Framework::Onnx.schema().unwrap();
        let clip = |v| s.find("", "Clip", v).unwrap();
        assert_eq!((clip(6).inputs.len(), clip(11).inputs.len(), clip(6).attributes.len()), (1, 3, 2));
        let softmax = s.find("", "Softmax", 13).unwrap().attribute("axis").unwrap();
        assert_eq!((softmax.kind, &softmax.default, softmax.required), (AttributeKind::Int, &Value::Int(-1), false));
        assert!(s.find("", "Gelu", 19).is_none());
        assert!(s.newest("").unwrap() >= 25);
    }
}
