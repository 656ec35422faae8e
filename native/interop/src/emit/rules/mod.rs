//! The named rules: functions on values that mapping processes call.
//!
//! A rule has a name, a signature, an implementation and, if it is invertible, an inverse that the exporter uses.

mod aligned;
mod batched;
mod control;
mod coordinates;
mod elements;
mod extents;
mod lists;
mod loops;
mod recurrent;
mod resize;
mod signal;
mod symbolic;
mod tensors;
mod windows;
mod written;

use std::collections::HashMap;
use std::sync::OnceLock;

use ferromx_core::shape::Shape;

use crate::emit::{Scope, is_unknown};
use crate::error::{Error, Result};
use crate::ir::Value;
use crate::mapping::{Kind, Param, Signature};

/// The implementation of a rule.
pub type Forward = fn(&mut Scope<'_, '_>, &[Value]) -> Result<Value>;

/// The inverse: from the result and the known arguments to the first argument.
pub type Reverse = fn(&Value, &[Option<Value>]) -> Option<Value>;

/// A named rule.
pub struct Rule {
    /// Name.
    pub name: &'static str,
    /// Arguments and result, as in `(list, n) -> list`. A `?` marks arguments that may be left out.
    pub signature: &'static str,
    /// Description, for listings.
    pub doc: &'static str,
    /// Implementation.
    pub forward: Forward,
    /// Inverse in the first argument.
    pub reverse: Option<Reverse>,
}

impl Rule {
    const fn new(name: &'static str, signature: &'static str, doc: &'static str, forward: Forward) -> Rule {
        Rule { name, signature, doc, forward, reverse: None }
    }

    const fn reversed(mut self, f: Reverse) -> Rule {
        self.reverse = Some(f);
        self
    }
}

/// All rules that are built in.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    [
        aligned::RULES,
        batched::RULES,
        lists::RULES,
        tensors::RULES,
        windows::RULES,
        resize::RULES,
        control::RULES,
        recurrent::RULES,
        elements::RULES,
        extents::RULES,
        symbolic::RULES,
        coordinates::RULES,
        signal::RULES,
        written::RULES,
    ]
    .into_iter()
    .flatten()
}

/// The signature of a built-in rule.
pub fn signature(name: &str) -> Option<&'static Signature> {
    static BY_NAME: OnceLock<HashMap<&'static str, Signature>> = OnceLock::new();
    let read = |rule: &'static Rule| {
        let inner = rule.signature.split(')').next().unwrap_or("").trim_start_matches('(');
        let names = inner.split(',').map(str::trim).filter(|a| !a.is_empty());
        let param = |a: &'static str| Param {
            name: a.trim_end_matches('?').into(),
            kind: Kind::Any,
            is_optional: a.ends_with('?'),
        };
        (rule.name, Signature { name: rule.name.into(), params: names.map(param).collect(), result: Kind::Any })
    };
    BY_NAME.get_or_init(|| all().map(read).collect()).get(name)
}

/// The built-in rule of a name.
pub fn find(name: &str) -> Option<&'static Rule> {
    static BY_NAME: OnceLock<HashMap<&'static str, &'static Rule>> = OnceLock::new();
    BY_NAME.get_or_init(|| all().map(|r| (r.name, r)).collect()).get(name).copied()
}

/// An argument as an integer.
fn int(args: &[Value], i: usize) -> Result<i64> {
    let value = args.get(i).unwrap_or(&Value::None);
    let x =
        value.int().ok_or_else(|| Error::value(format!("argument {} is a {}, not an integer", i + 1, value.kind())));
    x.and_then(known_dim)
}

/// A number that is not a symbolic dimension.
fn known_dim(x: i64) -> Result<i64> {
    match is_unknown(x) {
        true => Err(Error::NeedsValue("a dimension is not known: give the shapes of the inputs".into())),
        false => Ok(x),
    }
}

/// An argument as a list of known integers.
fn ints(args: &[Value], i: usize) -> Result<Vec<i64>> {
    open_ints(args, i)?.into_iter().map(known_dim).collect()
}

/// An argument as a list of integers, which may include symbolic dimensions.
fn open_ints(args: &[Value], i: usize) -> Result<Vec<i64>> {
    let value = args.get(i).unwrap_or(&Value::None);
    value
        .ints()
        .ok_or_else(|| Error::value(format!("argument {} is a {}, not a list of integers", i + 1, value.kind())))
}

/// An argument as a list.
fn list(args: &[Value], i: usize) -> Result<&[Value]> {
    match args.get(i) {
        Some(Value::List(items)) => Ok(items),
        other => {
            Err(Error::value(format!("argument {} is a {}, not a list", i + 1, other.map_or("nothing", Value::kind))))
        }
    }
}

/// An argument as text.
fn text(args: &[Value], i: usize) -> Result<&str> {
    match args.get(i) {
        Some(Value::Text(text)) => Ok(text),
        other => {
            Err(Error::value(format!("argument {} is a {}, not a text", i + 1, other.map_or("nothing", Value::kind))))
        }
    }
}

/// An argument as a tensor of the graph.
fn handle(args: &[Value], i: usize) -> Result<usize> {
    match args.get(i) {
        Some(Value::Handle(h)) => Ok(*h),
        other => {
            Err(Error::value(format!("argument {} is a {}, not a tensor", i + 1, other.map_or("nothing", Value::kind))))
        }
    }
}

/// Most elements of a constant that a rule creates.
const MAX_MADE: usize = 1 << 24;

/// The number of elements of a constant that a rule creates, checked against the limit.
fn made_elements(shape: &Shape) -> Result<usize> {
    let n = shape.checked_elements()?;
    match n <= MAX_MADE {
        true => Ok(n),
        false => Err(Error::value(format!("a constant of shape {shape} would be made, which is too large"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn rules_have_names_and_signatures_of_their_own() {
        let mut seen = HashSet::new();
        for rule in all() {
            assert!(seen.insert(rule.name), "{} is there twice", rule.name);
            assert!(ferromx_ops::registry::find(rule.name).is_err(), "{} is the name of an operator, too", rule.name);
            assert!(rule.signature.starts_with('(') && rule.signature.contains(") -> "), "{}", rule.name);
            assert!(!rule.doc.is_empty(), "{}", rule.name);
        }
        let rule = signature("default_to").unwrap();
        assert!(rule.takes(2) && !rule.takes(1) && !rule.takes(3));
    }
}
