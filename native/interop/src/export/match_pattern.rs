//! Matches the right side of a process with MXNet nodes and binds its names.

use std::collections::HashMap;

use ferromx_core::op::Inputs;
use ferromx_ops::registry;

use super::Source;
use crate::emit::{Names, rules};
use crate::ir::{AttributeDescriptor, Node, Value};
use crate::mapping::Table;
use crate::mapping::ast::{Call, Expr, Process};
use crate::mxnet;

/// Parameters that affect speed or memory but not results.
const IRRELEVANT_PARAMS: [&str; 10] = [
    "workspace",
    "cudnn_off",
    "cudnn_tune",
    "num_args",
    "min_calib_range",
    "max_calib_range",
    "is_int",
    "ctx",
    "forward_stype",
    "grad_scale",
];

/// A process that is being matched.
pub(super) struct PatternMatch<'a, 'p> {
    /// The MXNet graph.
    pub source: &'a Source,
    /// The table that the process belongs to.
    pub table: &'p Table,
    /// The process.
    pub process: &'p Process,
    /// The names bound so far.
    pub names: Names<'p>,
    /// The MXNet nodes that the process covers, the outermost one first.
    pub covered: Vec<usize>,
}

/// The operator's registered name. Processes may use an alias.
fn main_name(name: &str) -> &str {
    registry::find(name).map_or(name, |(_, def)| def.name)
}

impl<'p> PatternMatch<'_, 'p> {
    /// Matches the right side with a node. The error text says why it does not match.
    pub(super) fn node(&mut self, node: usize) -> Result<(), String> {
        let process = self.process;
        match &process.right {
            Expr::Call(call) => self.call(call, node),
            // Several outputs of one operator, or only its first one.
            Expr::Pick(e, 0) => match &**e {
                Expr::Call(call) => self.call(call, node),
                _ => Err("the right side is not an operator".into()),
            },
            Expr::Outputs(items) => {
                let mut first = None;
                for (k, item) in items.iter().enumerate() {
                    match item {
                        Expr::Pick(e, index) if *index == k => first = first.or(Some(&**e)),
                        _ => return Err("the right side lists its outputs separately".into()),
                    }
                }
                match first {
                    Some(e) => match self.definition(e) {
                        Expr::Call(call) => self.call(call, node),
                        _ => Err("the right side is not an operator".into()),
                    },
                    None => Err("the right side has no outputs".into()),
                }
            }
            _ => Err("the right side is not an operator".into()),
        }
    }

    /// The definition of a `let` name, or the expression itself.
    fn definition(&self, e: &'p Expr) -> &'p Expr {
        if let Expr::Name(name, _) = e
            && let Some((_, value)) = self.process.lets.iter().find(|(n, _)| n == name)
        {
            return value;
        }
        e
    }

    fn call(&mut self, call: &'p Call, node: usize) -> Result<(), String> {
        let n = &self.source.graph.nodes[node];
        if n.op != main_name(&call.name) {
            return Err(format!("it is not {}", call.name));
        }
        let is_outermost = self.covered.is_empty();
        if !is_outermost && self.source.uses.get(&n.outputs[0]).copied().unwrap_or(0) != 1 {
            return Err(format!("{} '{}' has other uses", n.op, n.name));
        }
        self.covered.push(node);
        let (_, def) = registry::find(&n.op).map_err(|e| e.to_string())?;
        let descriptor = mxnet::descriptor(def);
        let is_variadic = matches!(def.signature.inputs, Inputs::Variadic { .. });
        let inputs: Vec<Value> = n.inputs.iter().map(|name| self.source.value(name)).collect();
        let mut named: HashMap<usize, &'p Expr> = HashMap::new();
        for (key, e) in &call.named {
            if let Some(at) = descriptor.inputs.iter().position(|a| a.name == *key) {
                named.insert(at, e);
            }
        }
        match call.args.as_slice() {
            [one] if is_variadic => self.expr(one, &Value::List(inputs.clone()))?,
            args => {
                let count = args.len().max(named.keys().max().map_or(0, |k| k + 1));
                if inputs.len() > count {
                    return Err(format!("it has {} inputs", inputs.len()));
                }
                for i in 0..count {
                    if let Some(e) = args.get(i).or(named.get(&i).copied()) {
                        self.expr(e, inputs.get(i).unwrap_or(&Value::None))?;
                    }
                }
            }
        }
        for a in &descriptor.attributes {
            self.parameter(call, n, a)?;
        }
        Ok(())
    }

    fn parameter(&mut self, call: &'p Call, n: &Node, a: &AttributeDescriptor) -> Result<(), String> {
        let value = n.attributes.get(&a.name).cloned().unwrap_or_default();
        match call.named.iter().find(|(key, _)| *key == a.name) {
            Some((_, e)) => self.expr(e, &value).map_err(|why| format!("its parameter {} is {value}: {why}", a.name)),
            None if IRRELEVANT_PARAMS.contains(&a.name.as_str()) || value.eq_as_f32(&a.default) => Ok(()),
            None => Err(format!("its parameter {} is {value}", a.name)),
        }
    }

    /// Matches an expression with an input or parameter.
    fn expr(&mut self, e: &'p Expr, value: &Value) -> Result<(), String> {
        match self.definition(e) {
            Expr::Name(name, _) => match self.names.get(name.as_str()) {
                Some(earlier) if earlier == value => Ok(()),
                Some(earlier) => Err(format!("{name} is {earlier} elsewhere")),
                None => {
                    self.names.insert(name, value.clone());
                    Ok(())
                }
            },
            Expr::Call(call) => match self.table.signature(&call.name) {
                Some(_) => {
                    let known: Vec<Option<Value>> = call.args.iter().map(|a| self.known(a)).collect();
                    match (rules::find(&call.name).and_then(|rule| rule.reverse), call.args.first()) {
                        (Some(reverse), Some(first)) => {
                            let given =
                                reverse(value, &known).ok_or_else(|| format!("{} cannot be {value}", call.name))?;
                            self.expr(first, &given)
                        }
                        // A rule without an inverse binds no names, so its value is not checked.
                        _ => Ok(()),
                    }
                }
                None => match value {
                    Value::TensorId(id) => match self.source.producer(*id) {
                        Some(node) => self.call(call, node),
                        None => Err(format!("an input is not the output of {}", call.name)),
                    },
                    _ => Err(format!("an input is not the output of {}", call.name)),
                },
            },
            other => match (self.known(other), value) {
                (Some(expected), _) if expected.eq_as_f32(value) => Ok(()),
                (Some(expected), Value::TensorId(id))
                    if self.source.scalar(*id).is_some_and(|x| Some(x) == expected.number()) =>
                {
                    Ok(())
                }
                (Some(expected), _) => Err(format!("{expected} was expected")),
                (None, _) => Ok(()),
            },
        }
    }

    /// The value of an expression, if it consists of literals and bound names.
    fn known(&self, e: &'p Expr) -> Option<Value> {
        match self.definition(e) {
            Expr::Literal(value) => Some(value.clone()),
            Expr::Name(name, _) => self.names.get(name.as_str()).cloned(),
            Expr::List(items) => items.iter().map(|e| self.known(e)).collect::<Option<_>>().map(Value::List),
            Expr::Negative(e) => match self.known(e)? {
                Value::Int(i) => Some(Value::Int(-i)),
                Value::Float(x) => Some(Value::Float(-x)),
                _ => None,
            },
            _ => None,
        }
    }
}
