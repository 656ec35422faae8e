//! The signatures of rules.

use std::borrow::Cow;
use std::fmt;

use crate::ir::Value;

/// The kind of an argument or result of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anything, or nothing.
    Any,
    /// An integer.
    Int,
    /// An integer or a floating-point number.
    Number,
    /// A Boolean.
    Bool,
    /// Text.
    Text,
    /// A list.
    List,
    /// A tensor of the graph.
    Tensor,
    /// A graph of the framework.
    Graph,
}

impl Kind {
    /// All kinds with their names in signatures.
    pub const ALL: [(&'static str, Kind); 8] = [
        ("any", Kind::Any),
        ("int", Kind::Int),
        ("number", Kind::Number),
        ("bool", Kind::Bool),
        ("text", Kind::Text),
        ("list", Kind::List),
        ("tensor", Kind::Tensor),
        ("graph", Kind::Graph),
    ];

    /// The name in signatures.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("any", |(name, _)| name)
    }

    /// True if a value is of this kind.
    pub fn takes(self, value: &Value) -> bool {
        match self {
            Kind::Any => true,
            Kind::Int => matches!(value, Value::Int(_)),
            Kind::Number => matches!(value, Value::Int(_) | Value::Float(_)),
            Kind::Bool => matches!(value, Value::Bool(_)),
            Kind::Text => matches!(value, Value::Text(_)),
            Kind::List => matches!(value, Value::List(_)),
            Kind::Tensor => matches!(value, Value::TensorId(_)),
            Kind::Graph => matches!(value, Value::Graph(_)),
        }
    }
}

/// An argument of a rule.
#[derive(Clone, Debug)]
pub struct Param {
    /// Name.
    pub name: Cow<'static, str>,
    /// Its kind.
    pub kind: Kind,
    /// True if it may be `none`; trailing optional arguments may also be omitted.
    pub is_optional: bool,
}

/// The name, arguments and result of a rule.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Name.
    pub name: Cow<'static, str>,
    /// Arguments.
    pub params: Cow<'static, [Param]>,
    /// The kind of the result.
    pub result: Kind,
}

impl Signature {
    /// True if the rule takes `n` arguments.
    pub fn takes(&self, n: usize) -> bool {
        let required = self.params.iter().rposition(|p| !p.is_optional).map_or(0, |i| i + 1);
        (required..=self.params.len()).contains(&n)
    }

    /// Arguments and result, as in `(list, n: int) -> list`.
    pub fn text(&self) -> String {
        let param = |p: &Param| {
            let mark = if p.is_optional { "?" } else { "" };
            let kind = if p.kind == Kind::Any { String::new() } else { format!(": {}", p.kind.name()) };
            format!("{}{mark}{kind}", p.name)
        };
        let params: Vec<String> = self.params.iter().map(param).collect();
        format!("({}) -> {}", params.join(", "), self.result.name())
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, self.text())
    }
}
