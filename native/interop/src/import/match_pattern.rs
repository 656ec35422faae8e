//! Matches the pattern of a process with nodes of a model.

use std::collections::{HashMap, HashSet};

use super::Importer;
use super::order::Wiring;
use crate::emit::Names;
use crate::error::Result;
use crate::ir::{Arity, Graph, Node, Value};
use crate::mapping::ast::{Call, Expr, Process};

/// A graph with its wiring.
pub(super) struct GraphContext<'a, 'g> {
    /// The graph.
    pub graph: &'g Graph,
    /// Its wiring.
    pub wiring: &'a Wiring<'g>,
}

/// The state of matching one process.
struct Match<'m, 'g, 'p> {
    context: &'m GraphContext<'m, 'g>,
    process: &'p Process,
    names: Names<'p>,
    /// Values between the nodes of the pattern, each with its uses by the pattern: a node and an input index.
    inner_values: HashMap<&'g str, HashSet<(*const Node, usize)>>,
}

/// Matches the pattern of a process with a node and returns the values of its names. The error text says why it does not match.
pub(super) fn matches<'p>(
    importer: &mut Importer<'_>,
    context: &GraphContext<'_, '_>,
    node: &Node,
    process: &'p Process,
) -> Result<Result<Names<'p>, String>> {
    let (names, inner_values) = (Names::new(), HashMap::new());
    let mut matching = Match { context, process, names, inner_values };
    if let Err(why) = match_call(importer, &mut matching, node, &process.left)? {
        return Ok(Err(why));
    }
    // The pattern must not cover a value that other nodes use.
    for (value, uses) in &matching.inner_values {
        if context.wiring.uses.get(value) != Some(&uses.len()) {
            return Ok(Err(format!("the value '{value}' inside it has other uses")));
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
) -> Result<Result<(), String>> {
    if node.op != pattern.name
        || node.domain != importer.emitter.schema.domain_of(&matching.process.domain, &pattern.name)
    {
        return Ok(Err(format!("{} is not {}", node.label(), pattern.name)));
    }
    let is_variadic = matches!(pattern.args.last(), Some(Expr::Name(_, Arity::Many)));
    if !is_variadic && node.inputs.iter().skip(pattern.args.len()).any(|i| !i.is_empty()) {
        return Ok(Err(format!("it has {} inputs", node.inputs.len())));
    }
    let is_nested_pattern = pattern.args.iter().any(|e| !matches!(e, Expr::Name(..)));
    let try_swapped =
        importer.emitter.framework.is_commutative(&node.op) && pattern.args.len() == 2 && is_nested_pattern;
    let orders: &[[usize; 2]] = match try_swapped {
        true => &[[0, 1], [1, 0]],
        false => &[[0, 1]],
    };
    let before = (matching.names.clone(), matching.inner_values.clone());
    let mut matched = Ok(());
    for order in orders {
        (matching.names, matching.inner_values) = before.clone();
        matched = match_inputs(importer, matching, node, pattern, *order)?;
        if matched.is_ok() {
            break;
        }
    }
    match matched {
        Ok(()) => match_attributes(importer, matching, node, pattern),
        Err(why) => Ok(Err(why)),
    }
}

/// Matches the inputs of a pattern. `order` gives the node's input indices for its first two inputs.
fn match_inputs<'p>(
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
                if let Err(why) = match_producer(importer, matching, node, inner, i)? {
                    return Ok(Err(why));
                }
            }
            literal => {
                let Some(expected) = constant(literal) else { return Ok(Err("the pattern is not a value".into())) };
                if importer.known_number(input)?.is_none_or(|x| !is_close(&expected, x)) {
                    return Ok(Err(format!("its input {i} is not {expected}")));
                }
            }
        }
    }
    Ok(Ok(()))
}

/// True if a constant equals a number of the pattern, up to the precision of float32 for floating-point numbers.
fn is_close(expected: &Value, x: f64) -> bool {
    expected
        .number()
        .is_some_and(|e| e == x || (matches!(expected, Value::Float(_)) && (e - x).abs() <= 1e-6 * e.abs()))
}

/// Matches an inner operator of a pattern with the producer of the node's input `i`.
fn match_producer<'p>(
    importer: &mut Importer<'_>,
    matching: &mut Match<'_, '_, 'p>,
    node: &Node,
    inner: &'p Call,
    i: usize,
) -> Result<Result<(), String>> {
    let GraphContext { graph, wiring } = *matching.context;
    let found = node.inputs.get(i).and_then(|input| wiring.producer.get_key_value(input.as_str()));
    let Some((value, producer)) = found.map(|(value, p)| (*value, &graph.nodes[*p])) else {
        return Ok(Err(format!("its input {i} is not the output of {}", inner.name)));
    };
    // A nested operator of a pattern means its first output.
    if producer.outputs[0] != value {
        return Ok(Err(format!("it is another output of {}", producer.label())));
    }
    if importer.made_by_hook(value) {
        return Ok(Err(format!("a hook made {}", producer.label())));
    }
    matching.inner_values.entry(value).or_default().insert((std::ptr::from_ref(node), i));
    match_call(importer, matching, producer, inner)
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

/// Matches the attributes of a pattern. Expressions refer to attributes of the outermost operator by name; an inner operator must have the
/// default value of every attribute that the pattern does not name.
fn match_attributes<'p>(
    importer: &mut Importer<'_>,
    matching: &mut Match<'_, '_, 'p>,
    node: &Node,
    pattern: &'p Call,
) -> Result<Result<(), String>> {
    let is_outermost = std::ptr::eq(pattern, &matching.process.left);
    let descriptor = importer.emitter.descriptor(node)?;
    for a in &descriptor.attributes {
        let value = node.attributes.get(&a.name).cloned().unwrap_or_else(|| a.default.clone());
        match pattern.named.iter().find(|(key, _)| *key == a.name) {
            Some((_, Expr::Name(name, _))) => drop(matching.names.insert(name, value)),
            Some((_, e)) => {
                if constant(e).is_none_or(|expected| expected != value) {
                    return Ok(Err(format!("its attribute {} is {value}", a.name)));
                }
            }
            None if is_outermost => {}
            None if value == a.default => {}
            None => return Ok(Err(format!("the attribute {} of {} is {value}", a.name, node.label()))),
        }
    }
    Ok(Ok(()))
}
