//! Evaluates the expressions of a process for a node.

use std::cmp::Ordering;

use super::{Names, Naming, Scope, framework_call, is_symbolic, rules};
use crate::error::{Error, Result};
use crate::ir::Value;
use crate::mapping::ast::{Call, Definition, Expr, Operator};

impl Scope<'_, '_> {
    /// The value of an expression, whose outermost operator is named by `naming`.
    ///
    /// # Errors
    /// Errors of rules and operators.
    pub fn eval(&mut self, e: &Expr, names: &Names<'_>, naming: Naming) -> Result<Value> {
        Ok(match e {
            Expr::Literal(value) => value.clone(),
            Expr::Name(name, _) => self.resolve(name, names, naming)?,
            Expr::List(items) => Value::List(self.eval_all(items, names, Naming::Operator)?),
            Expr::Outputs(items) => Value::List(self.eval_all(items, names, naming)?),
            Expr::Call(call) => self.call(call, names, naming)?,
            Expr::Pick(e, index) => match self.eval(e, names, naming)? {
                Value::List(mut items) if *index < items.len() => items.swap_remove(*index),
                Value::List(items) => {
                    return Err(Error::value(format!("element {index} of {} is wanted", items.len())));
                }
                single if *index == 0 => single,
                other => return Err(Error::value(format!("element {index} of a {} is wanted", other.kind()))),
            },
            Expr::Negative(e) => match self.eval(e, names, Naming::Operator)? {
                Value::Int(i) => Value::Int(i.wrapping_neg()),
                Value::Float(x) => Value::Float(-x),
                other => return Err(Error::value(format!("minus a {}", other.kind()))),
            },
            Expr::Not(e) => Value::Bool(!self.eval(e, names, Naming::Operator)?.is_true()),
            Expr::Binary(operator, a, b) => self.binary(*operator, a, b, names)?,
            Expr::If(condition, yes, no) => {
                let chosen = if self.eval(condition, names, Naming::Operator)?.is_true() { yes } else { no };
                self.eval(chosen, names, naming)?
            }
        })
    }

    fn resolve(&mut self, name: &str, names: &Names<'_>, naming: Naming) -> Result<Value> {
        if let Some(value) = names.get(name).or_else(|| self.definitions.get(name)) {
            return Ok(value.clone());
        }
        // Definitions are evaluated at their first use, so conditions can guard them.
        let process = self.process;
        if let Some((name, e)) = process.lets.iter().find(|(n, _)| n == name) {
            let value = self.eval(e, names, naming)?;
            self.definitions.insert(name, value.clone());
            return Ok(value);
        }
        // An attribute of the node, or its default. The table has checked that some version of the operator has it.
        let default = || {
            let descriptor = self.context.emitter().descriptor(self.node).ok()?;
            descriptor.attribute(name).map(|a| a.default.clone())
        };
        Ok(self.node.attributes.get(name).cloned().or_else(default).unwrap_or_default())
    }

    fn eval_all(&mut self, items: &[Expr], names: &Names<'_>, naming: Naming) -> Result<Vec<Value>> {
        items.iter().map(|e| self.eval(e, names, naming)).collect()
    }

    fn call(&mut self, call: &Call, names: &Names<'_>, naming: Naming) -> Result<Value> {
        let table = self.context.emitter().table;
        let signature = table.signature(&call.name);
        if signature.is_none() && self.context.sink().is_some() {
            return framework_call(self, call, names, None);
        }
        let args = self.eval_all(&call.args, names, Naming::Operator)?;
        if let Some(signature) = signature {
            let result = match (rules::find(&call.name), table.definition(&call.name)) {
                (Some(rule), _) => (rule.forward)(self, &args),
                (None, Some(rule)) => self.call_definition(rule, args, naming),
                (None, None) => Err(Error::value("the rule is not defined")),
            };
            return result.map_err(|e| match e {
                Error::Value(text) => Error::Value(format!("rule {signature}: {text}")),
                other => other,
            });
        }
        let mut params = Vec::new();
        for (key, e) in &call.named {
            params.push((key.as_str(), self.eval(e, names, Naming::Operator)?));
        }
        self.operator(&call.name, args, params, naming)
    }

    /// The result of a rule that a mapping file defines.
    fn call_definition(&mut self, rule: &Definition, args: Vec<Value>, naming: Naming) -> Result<Value> {
        let mut names = Names::new();
        let given = args.into_iter().chain(std::iter::repeat(Value::None));
        for (i, (param, value)) in rule.signature.params.iter().zip(given).enumerate() {
            let is_absent = param.is_optional && value == Value::None;
            if !is_absent && !param.kind.takes(&value) {
                let (kind, name) = (value.kind(), &param.name);
                return Err(Error::value(format!(
                    "argument {} ({name}) is a {kind}, not a {}",
                    i + 1,
                    param.kind.name()
                )));
            }
            names.insert(param.name.as_ref(), value);
        }
        let result = self.eval(&rule.body, &names, naming)?;
        match rule.signature.result.takes(&result) {
            true => Ok(result),
            false => {
                Err(Error::value(format!("its result is a {}, not a {}", result.kind(), rule.signature.result.name())))
            }
        }
    }

    fn binary(&mut self, operator: Operator, a: &Expr, b: &Expr, names: &Names<'_>) -> Result<Value> {
        let left = self.eval(a, names, Naming::Operator)?;
        match operator {
            Operator::And if !left.is_true() => return Ok(Value::Bool(false)),
            Operator::Or if left.is_true() => return Ok(Value::Bool(true)),
            _ => {}
        }
        let right = self.eval(b, names, Naming::Operator)?;
        if let (Value::Int(x), Value::Int(y)) = (&left, &right)
            && (is_symbolic(*x) || is_symbolic(*y))
        {
            return self.combine_or_compare(operator, *x, *y);
        }
        let ordered = |f: fn(&f64, &f64) -> bool| match (left.number(), right.number()) {
            (Some(x), Some(y)) => Ok(Value::Bool(f(&x, &y))),
            _ => Err(Error::value(format!("a {} and a {} cannot be compared", left.kind(), right.kind()))),
        };
        match operator {
            Operator::And | Operator::Or => Ok(Value::Bool(right.is_true())),
            Operator::Equal => Ok(Value::Bool(left == right)),
            Operator::NotEqual => Ok(Value::Bool(left != right)),
            Operator::Less => ordered(f64::lt),
            Operator::LessEqual => ordered(f64::le),
            Operator::Greater => ordered(f64::gt),
            Operator::GreaterEqual => ordered(f64::ge),
            Operator::Add if matches!((&left, &right), (Value::List(_), Value::List(_))) => match (left, right) {
                (Value::List(mut x), Value::List(y)) => {
                    x.extend(y);
                    Ok(Value::List(x))
                }
                _ => Ok(Value::None),
            },
            _ => arithmetic(operator, &left, &right),
        }
    }

    /// Combines or compares two integers of which at least one is symbolic.
    fn combine_or_compare(&mut self, operator: Operator, a: i64, b: i64) -> Result<Value> {
        let order = self.builder().compare(a, b);
        let holds = match operator {
            Operator::Equal => order.map(Ordering::is_eq),
            Operator::NotEqual => order.map(Ordering::is_ne),
            Operator::Less => order.map(Ordering::is_lt),
            Operator::LessEqual => order.map(Ordering::is_le),
            Operator::Greater => order.map(Ordering::is_gt),
            Operator::GreaterEqual => order.map(Ordering::is_ge),
            _ => return self.builder().combine(operator, a, b),
        };
        let unknown = || {
            Error::NeedsValue("a dimension determines the structure of the graph: give the shapes of the inputs".into())
        };
        holds.map(Value::Bool).ok_or_else(unknown)
    }
}

fn arithmetic(operator: Operator, left: &Value, right: &Value) -> Result<Value> {
    let error = || Error::value(format!("{left} and {right} cannot be combined"));
    let int = |v: &Value| matches!(v, Value::Int(_) | Value::Bool(_)).then(|| v.int()).flatten();
    if let (Some(x), Some(y)) = (int(left), int(right)) {
        return match operator {
            Operator::Add => x.checked_add(y),
            Operator::Subtract => x.checked_sub(y),
            Operator::Multiply => x.checked_mul(y),
            Operator::Divide => x.checked_div(y),
            _ => x.checked_rem_euclid(y),
        }
        .map(Value::Int)
        .ok_or_else(error);
    }
    match (left.number(), right.number()) {
        (Some(x), Some(y)) => Ok(Value::Float(match operator {
            Operator::Add => x + y,
            Operator::Subtract => x - y,
            Operator::Multiply => x * y,
            Operator::Divide => x / y,
            _ => x.rem_euclid(y),
        })),
        _ => Err(error()),
    }
}
