//! Applies a process: matches its pattern with nodes, then evaluates its result.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use super::Importer;
use super::dimensions::is_unknown;
use super::order::Wiring;
use crate::error::{Error, Result};
use crate::ir::{Arity, Graph, Node, Value};
use crate::mapping::ast::{Call, Definition, Expr, Operator, Process};
use crate::mapping::rules::Named;

/// The values of a process's names.
pub type Names<'p> = HashMap<&'p str, Value>;

/// The context of rules: the graph that is being built and the node that is being mapped.
pub struct Scope<'a, 't> {
    /// The import.
    pub importer: &'a mut Importer<'t>,
    /// The node that is mapped.
    pub node: &'a Node,
    /// The name that its operator gets.
    pub name: String,
    /// Set by a rule if the value of a tensor is missing.
    pub wanted_value: bool,
    /// The process that is applied.
    process: &'a Process,
    /// The `let` definitions evaluated so far.
    defined: HashMap<&'a str, Value>,
}

/// A graph with its wiring.
pub(super) struct Surroundings<'a, 'g> {
    /// The graph.
    pub graph: &'g Graph,
    /// Its wiring.
    pub wiring: &'a Wiring<'g>,
}

/// A process that is matched.
struct Match<'m, 'g, 'p> {
    around: &'m Surroundings<'m, 'g>,
    domain: &'p str,
    names: Names<'p>,
    /// Values inside of the pattern, each with its uses in the pattern: a node and its input.
    inner: HashMap<&'g str, HashSet<(*const Node, usize)>>,
}

/// Matches the pattern of a process with a node and returns the values of its names. The error text says why it does not match.
pub(super) fn matches<'p>(
    importer: &mut Importer<'_>,
    around: &Surroundings<'_, '_>,
    node: &Node,
    process: &'p Process,
) -> Result<Result<Names<'p>, String>> {
    let (names, inner) = (Names::new(), HashMap::new());
    let mut matching = Match { around, domain: &process.domain, names, inner };
    if let Err(why) = match_call(importer, &mut matching, node, &process.left, true)? {
        return Ok(Err(why));
    }
    // A value with uses outside of the pattern must be kept.
    for (value, uses) in &matching.inner {
        if around.wiring.uses.get(value) != Some(&uses.len()) {
            return Ok(Err(format!("the value '{value}' inside of it has other uses")));
        }
    }
    Ok(Ok(matching.names))
}

/// True if the pattern of a process has several operators.
pub(super) fn is_nested(process: &Process) -> bool {
    process.left.args.iter().any(|e| matches!(e, Expr::Call(_)))
}

fn match_call<'p>(
    importer: &mut Importer<'_>,
    matching: &mut Match<'_, '_, 'p>,
    node: &Node,
    pattern: &'p Call,
    root: bool,
) -> Result<Result<(), String>> {
    if node.op != pattern.name || node.domain != importer.schema.domain_of(matching.domain, &pattern.name) {
        return Ok(Err(format!("{} is no {}", node.label(), pattern.name)));
    }
    let variadic = matches!(pattern.args.last(), Some(Expr::Name(_, Arity::Many)));
    if !variadic && node.inputs.iter().skip(pattern.args.len()).any(|i| !i.is_empty()) {
        return Ok(Err(format!("it has {} inputs", node.inputs.len())));
    }
    let nested = pattern.args.iter().any(|e| !matches!(e, Expr::Name(..)));
    let either = importer.framework.is_commutative(&node.op) && pattern.args.len() == 2 && nested;
    let orders: &[[usize; 2]] = match either {
        true => &[[0, 1], [1, 0]],
        false => &[[0, 1]],
    };
    let before = (matching.names.clone(), matching.inner.clone());
    let mut found = Ok(());
    for order in orders {
        (matching.names, matching.inner) = before.clone();
        found = inputs(importer, matching, node, pattern, *order)?;
        if found.is_ok() {
            break;
        }
    }
    match found {
        Ok(()) => attributes(importer, node, pattern, &mut matching.names, root),
        Err(why) => Ok(Err(why)),
    }
}

/// Matches the inputs of a pattern. `order` gives the indices of the node's inputs for the first two.
fn inputs<'p>(
    importer: &mut Importer<'_>,
    matching: &mut Match<'_, '_, 'p>,
    node: &Node,
    pattern: &'p Call,
    order: [usize; 2],
) -> Result<Result<(), String>> {
    for (i, part) in pattern.args.iter().enumerate() {
        let i = order.get(i).copied().unwrap_or(i);
        let input = node.inputs.get(i).map_or("", String::as_str);
        match part {
            Expr::Name(name, Arity::Many) => {
                let rest = node.inputs.get(i..).unwrap_or(&[]);
                let items = rest.iter().map(|n| importer.value(n)).collect::<Result<_>>()?;
                matching.names.insert(name, Value::List(items));
            }
            Expr::Name(name, arity) => {
                if input.is_empty() && *arity == Arity::One {
                    return Ok(Err(format!("its input {name} is absent")));
                }
                let value = importer.value(input)?;
                if matching.names.get(name.as_str()).is_some_and(|earlier| *earlier != value) {
                    return Ok(Err(format!("{name} is not the same tensor twice")));
                }
                matching.names.insert(name, value);
            }
            Expr::Call(inner) => {
                if let Err(why) = producer(importer, matching, node, inner, i)? {
                    return Ok(Err(why));
                }
            }
            literal => {
                let Some(expected) = constant(literal) else { return Ok(Err("the pattern is no value".into())) };
                if importer.known_number(input)?.is_none_or(|x| !close(&expected, x)) {
                    return Ok(Err(format!("its input {i} is not {expected}")));
                }
            }
        }
    }
    Ok(Ok(()))
}

/// True if a constant equals a number of the pattern in single precision.
fn close(expected: &Value, x: f64) -> bool {
    expected
        .number()
        .is_some_and(|e| e == x || (matches!(expected, Value::Float(_)) && (e - x).abs() <= 1e-6 * e.abs()))
}

/// Matches an inner operator of a pattern with the producer of a node's input.
fn producer<'p>(
    importer: &mut Importer<'_>,
    matching: &mut Match<'_, '_, 'p>,
    node: &Node,
    inner: &'p Call,
    i: usize,
) -> Result<Result<(), String>> {
    let Surroundings { graph, wiring } = *matching.around;
    let made = node.inputs.get(i).and_then(|input| wiring.producer.get_key_value(input.as_str()));
    let Some((value, producer)) = made.map(|(value, p)| (*value, &graph.nodes[*p])) else {
        return Ok(Err(format!("no {} makes its input {i}", inner.name)));
    };
    // Patterns follow first outputs only.
    if producer.outputs[0] != value {
        return Ok(Err(format!("{} makes it as another output", producer.label())));
    }
    if importer.made_by_hook(value) {
        return Ok(Err(format!("a hook made {}", producer.label())));
    }
    matching.inner.entry(value).or_default().insert((std::ptr::from_ref(node), i));
    match_call(importer, matching, producer, inner, false)
}

fn constant(e: &Expr) -> Option<Value> {
    match e {
        Expr::Literal(value) => Some(value.clone()),
        Expr::Negative(e) => match constant(e)? {
            Value::Int(i) => Some(Value::Int(-i)),
            Value::Float(x) => Some(Value::Float(-x)),
            _ => None,
        },
        Expr::List(items) => items.iter().map(constant).collect::<Option<_>>().map(Value::List),
        _ => None,
    }
}

/// Attributes of the outermost operator are known by their own names; those of others must be named or have their default.
fn attributes<'p>(
    importer: &mut Importer<'_>,
    node: &Node,
    pattern: &'p Call,
    names: &mut Names<'p>,
    root: bool,
) -> Result<Result<(), String>> {
    let descriptor = importer.descriptor(node)?;
    for a in &descriptor.attributes {
        let value = node.attributes.get(&a.name).cloned().unwrap_or_else(|| a.default.clone());
        match pattern.named.iter().find(|(key, _)| *key == a.name) {
            Some((_, Expr::Name(name, _))) => drop(names.insert(name, value)),
            Some((_, e)) => {
                if constant(e).is_none_or(|expected| expected != value) {
                    return Ok(Err(format!("its attribute {} is {value}", a.name)));
                }
            }
            None if root => {}
            None if value == a.default => {}
            None => return Ok(Err(format!("the attribute {} of {} is {value}", a.name, node.label()))),
        }
    }
    Ok(Ok(()))
}

impl<'a, 't> Scope<'a, 't> {
    /// The scope of a process applied to a node.
    pub fn new(importer: &'a mut Importer<'t>, node: &'a Node, name: String, process: &'a Process) -> Scope<'a, 't> {
        Scope { importer, node, name, wanted_value: false, process, defined: HashMap::new() }
    }

    /// The value of an expression. The outermost operator gets the node's name.
    ///
    /// # Errors
    /// Those of rules and operators.
    pub fn eval(&mut self, e: &Expr, names: &Names<'_>, outermost: bool) -> Result<Value> {
        Ok(match e {
            Expr::Literal(value) => value.clone(),
            Expr::Name(name, _) => self.name_of(name, names, outermost)?,
            Expr::List(items) => Value::List(self.each(items, names, false)?),
            Expr::Outputs(items) => Value::List(self.each(items, names, outermost)?),
            Expr::Call(call) => self.call(call, names, outermost)?,
            Expr::Pick(e, index) => match self.eval(e, names, outermost)? {
                Value::List(mut items) if *index < items.len() => items.swap_remove(*index),
                Value::List(items) => {
                    return Err(Error::value(format!("element {index} of {} is wanted", items.len())));
                }
                single if *index == 0 => single,
                other => return Err(Error::value(format!("element {index} of a {} is wanted", other.kind()))),
            },
            Expr::Negative(e) => match self.eval(e, names, false)? {
                Value::Int(i) => Value::Int(i.wrapping_neg()),
                Value::Float(x) => Value::Float(-x),
                other => return Err(Error::value(format!("minus a {}", other.kind()))),
            },
            Expr::Not(e) => Value::Bool(!self.eval(e, names, false)?.is_true()),
            Expr::Binary(operator, a, b) => self.binary(*operator, a, b, names)?,
            Expr::If(condition, yes, no) => {
                let chosen = if self.eval(condition, names, false)?.is_true() { yes } else { no };
                self.eval(chosen, names, outermost)?
            }
        })
    }

    fn name_of(&mut self, name: &str, names: &Names<'_>, outermost: bool) -> Result<Value> {
        if let Some(value) = names.get(name).or_else(|| self.defined.get(name)) {
            return Ok(value.clone());
        }
        // Definitions are evaluated at their first use, so conditions can guard them.
        let process = self.process;
        if let Some((name, e)) = process.lets.iter().find(|(n, _)| n == name) {
            let value = self.eval(e, names, outermost)?;
            self.defined.insert(name, value.clone());
            return Ok(value);
        }
        // An attribute of the node, or its default. The table has checked that some version of the operator has it.
        let default = || {
            let descriptor = self.importer.descriptor(self.node).ok()?;
            descriptor.attribute(name).map(|a| a.default.clone())
        };
        Ok(self.node.attributes.get(name).cloned().or_else(default).unwrap_or_default())
    }

    fn each(&mut self, items: &[Expr], names: &Names<'_>, outermost: bool) -> Result<Vec<Value>> {
        items.iter().map(|e| self.eval(e, names, outermost)).collect()
    }

    fn call(&mut self, call: &Call, names: &Names<'_>, outermost: bool) -> Result<Value> {
        let rule = self.importer.table.rule(&call.name);
        if self.importer.sink.is_some() && rule.is_none() {
            return crate::export::framework_call(self, call, names, None);
        }
        let args = self.each(&call.args, names, false)?;
        if let Some(rule) = rule {
            let made = match rule {
                Named::BuiltIn(rule) => (rule.forward)(self, &args),
                Named::Defined(rule) => self.defined_rule(rule, args, outermost),
            };
            return made.map_err(|e| match e {
                Error::Value(text) => Error::Value(format!("rule {}: {text}", rule.label())),
                other => other,
            });
        }
        let mut params = Vec::new();
        for (key, e) in &call.named {
            params.push((key.as_str(), self.eval(e, names, false)?));
        }
        self.operator(&call.name, args, params, outermost)
    }

    /// The result of a rule that a mapping file defines.
    fn defined_rule(&mut self, rule: &Definition, args: Vec<Value>, outermost: bool) -> Result<Value> {
        let mut names = Names::new();
        let given = args.into_iter().chain(std::iter::repeat(Value::None));
        for (i, (param, value)) in rule.params.iter().zip(given).enumerate() {
            let is_absent = param.is_optional && value == Value::None;
            if !is_absent && !param.kind.takes(&value) {
                let (kind, name) = (value.kind(), &param.name);
                return Err(Error::value(format!(
                    "argument {} ({name}) is a {kind}, not a {}",
                    i + 1,
                    param.kind.name()
                )));
            }
            names.insert(&param.name, value);
        }
        let made = self.eval(&rule.body, &names, outermost)?;
        match rule.result.takes(&made) {
            true => Ok(made),
            false => Err(Error::value(format!("its result is a {}, not a {}", made.kind(), rule.result.name()))),
        }
    }

    /// The domain of an operator of the framework that the process names.
    pub fn domain_of(&self, op: &str) -> String {
        self.importer.schema.domain_of(&self.process.domain, op).to_string()
    }

    /// Adds an operator of ours. A single output is not wrapped in a list.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn operator(
        &mut self,
        op: &str,
        mut args: Vec<Value>,
        params: Vec<(&str, Value)>,
        outermost: bool,
    ) -> Result<Value> {
        let (_, def) = ferromx_ops::registry::find(op)?;
        // Inputs may be given by name, too.
        let mut attrs = Vec::new();
        for (key, value) in params {
            let index = match def.inputs {
                ferromx_core::op::Inputs::Fixed(inputs) => inputs.iter().position(|a| a.name == key),
                ferromx_core::op::Inputs::Variadic { .. } => None,
            };
            match index {
                Some(i) => {
                    args.resize(args.len().max(i + 1), Value::None);
                    args[i] = value;
                }
                None => attrs.push((key, value)),
            }
        }
        let name = match outermost {
            true => self.name.clone(),
            false => format!("{}/{}", self.name, op.trim_start_matches('_').to_lowercase()),
        };
        let outs = self.importer.builder.apply(op, &name, &args, &attrs)?;
        let mut values: Vec<Value> = outs.into_iter().map(Value::Handle).collect();
        Ok(if values.len() == 1 { values.remove(0) } else { Value::List(values) })
    }

    /// A constant list of 64-bit integers.
    ///
    /// # Errors
    /// Out of memory.
    pub fn operator_constant(&mut self, what: &str, items: &[i64]) -> Result<Value> {
        let array = ferromx_core::ndarray::NDArray::from_slice(items, &[items.len() as i64])?;
        let name = format!("{}/{what}", self.name);
        Ok(Value::Handle(self.importer.builder.constant(&name, array)))
    }

    fn binary(&mut self, operator: Operator, a: &Expr, b: &Expr, names: &Names<'_>) -> Result<Value> {
        let left = self.eval(a, names, false)?;
        match operator {
            Operator::And if !left.is_true() => return Ok(Value::Bool(false)),
            Operator::Or if left.is_true() => return Ok(Value::Bool(true)),
            _ => {}
        }
        let right = self.eval(b, names, false)?;
        if let (Value::Int(x), Value::Int(y)) = (&left, &right)
            && (is_unknown(*x) || is_unknown(*y))
        {
            return self.of_dimensions(operator, *x, *y);
        }
        let ordered = |f: fn(&f64, &f64) -> bool| match (left.number(), right.number()) {
            (Some(x), Some(y)) => Ok(Value::Bool(f(&x, &y))),
            _ => Err(Error::value(format!("a {} and a {} have no order", left.kind(), right.kind()))),
        };
        match operator {
            Operator::And | Operator::Or => Ok(Value::Bool(right.is_true())),
            Operator::Equal => Ok(Value::Bool(left == right)),
            Operator::Differs => Ok(Value::Bool(left != right)),
            Operator::Less => ordered(f64::lt),
            Operator::LessEqual => ordered(f64::le),
            Operator::Greater => ordered(f64::gt),
            Operator::GreaterEqual => ordered(f64::ge),
            Operator::Plus if matches!((&left, &right), (Value::List(_), Value::List(_))) => match (left, right) {
                (Value::List(mut x), Value::List(y)) => {
                    x.extend(y);
                    Ok(Value::List(x))
                }
                _ => Ok(Value::None),
            },
            _ => arithmetic(operator, &left, &right),
        }
    }
}

impl Scope<'_, '_> {
    /// Combines or compares two integers of which at least one is symbolic.
    fn of_dimensions(&mut self, operator: Operator, a: i64, b: i64) -> Result<Value> {
        let order = self.importer.builder.compared(a, b);
        let holds = match operator {
            Operator::Equal => order.map(Ordering::is_eq),
            Operator::Differs => order.map(Ordering::is_ne),
            Operator::Less => order.map(Ordering::is_lt),
            Operator::LessEqual => order.map(Ordering::is_le),
            Operator::Greater => order.map(Ordering::is_gt),
            Operator::GreaterEqual => order.map(Ordering::is_ge),
            _ => return self.importer.builder.combined(operator, a, b),
        };
        let unknown =
            || Error::NeedsValue("a dimension decides the form of the graph: give the shapes of the inputs".into());
        holds.map(Value::Bool).ok_or_else(unknown)
    }
}

fn arithmetic(operator: Operator, left: &Value, right: &Value) -> Result<Value> {
    let bad = || Error::value(format!("{left} and {right} cannot be combined"));
    let whole = |v: &Value| matches!(v, Value::Int(_) | Value::Bool(_)).then(|| v.int()).flatten();
    if let (Some(x), Some(y)) = (whole(left), whole(right)) {
        return match operator {
            Operator::Plus => x.checked_add(y),
            Operator::Minus => x.checked_sub(y),
            Operator::Times => x.checked_mul(y),
            Operator::Over => x.checked_div(y),
            _ => x.checked_rem_euclid(y),
        }
        .map(Value::Int)
        .ok_or_else(bad);
    }
    match (left.number(), right.number()) {
        (Some(x), Some(y)) => Ok(Value::Float(match operator {
            Operator::Plus => x + y,
            Operator::Minus => x - y,
            Operator::Times => x * y,
            Operator::Over => x / y,
            _ => x.rem_euclid(y),
        })),
        _ => Err(bad()),
    }
}
