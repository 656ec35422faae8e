//! The parser of mapping files. `docs/onnx-mappings.md` describes the language.

use super::ast::{Call, Direction, Expr, Operator, Process};
use super::lexer::{Cursor, Token};
use crate::error::Result;
use crate::ir::{Arity, Value};

/// Deepest nesting of expressions.
const MAX_DEPTH: usize = 100;

/// The processes of a file.
///
/// # Errors
/// A syntax error, with its line.
pub(super) fn processes(file: &str, text: &str) -> Result<Vec<Process>> {
    let mut p = Parser { c: Cursor::new(file, text)?, file, domain: String::new(), depth: 0 };
    let mut out = Vec::new();
    while *p.c.peek() != Token::End {
        if p.c.takes_name("domain") {
            match p.c.take() {
                Token::Text(domain) => p.domain = domain,
                _ => return Err(p.c.error("the domain is written as a text: domain \"com.microsoft\"")),
            }
        } else {
            out.push(p.process()?);
        }
    }
    Ok(out)
}

struct Parser<'a> {
    c: Cursor<'a>,
    file: &'a str,
    domain: String,
    depth: usize,
}

impl Parser<'_> {
    /// `label: Pattern [11..17] -> result let a = b if condition unused attribute`
    fn process(&mut self) -> Result<Process> {
        let line = self.c.line();
        let label = match (self.c.peek().clone(), self.c.peek_at(1)) {
            (Token::Name(label), Token::Sign(":")) => {
                self.c.take();
                self.c.take();
                Some(label)
            }
            _ => None,
        };
        let left = self.call()?;
        let (since, until) = if self.c.takes("[") { self.range()? } else { (1, i64::MAX) };
        let direction = match self.c.take() {
            Token::Sign("<->") => Direction::Both,
            Token::Sign("->") => Direction::Import,
            Token::Sign("<-") => Direction::Export,
            _ => return Err(self.c.error("one of <->, -> and <- was expected before this")),
        };
        let right = self.expression()?;
        let mut process = Process {
            name: label.unwrap_or_else(|| left.name.clone()),
            domain: self.domain.clone(),
            since,
            until,
            left,
            right,
            direction,
            lets: Vec::new(),
            conditions: Vec::new(),
            unused: Vec::new(),
            file: self.file.into(),
            line,
        };
        self.clauses(&mut process)?;
        Ok(process)
    }

    fn range(&mut self) -> Result<(i64, i64)> {
        let since = self.c.int("the first version of the operator set")?;
        self.c.expect("..")?;
        let until = if let Token::Int(_) = self.c.peek() { self.c.int("a version")? } else { i64::MAX };
        self.c.expect("]")?;
        Ok((since, until))
    }

    fn clauses(&mut self, process: &mut Process) -> Result<()> {
        loop {
            if self.c.takes_name("let") {
                let name = self.c.name("a name")?;
                self.c.expect("=")?;
                process.lets.push((name, self.expression()?));
            } else if self.c.takes_name("if") {
                let condition = self.expression()?;
                let why = match (self.c.takes_name("else"), self.c.peek().clone()) {
                    (true, Token::Text(why)) => {
                        self.c.take();
                        why
                    }
                    (true, _) => return Err(self.c.unexpected("the reason as a text")),
                    (false, _) => String::new(),
                };
                process.conditions.push((condition, why));
            } else if self.c.takes_name("unused") {
                process.unused.push(self.c.name("an attribute")?);
                while self.c.takes(",") {
                    process.unused.push(self.c.name("an attribute")?);
                }
            } else {
                return Ok(());
            }
        }
    }

    fn call(&mut self) -> Result<Call> {
        let line = self.c.line();
        let name = self.c.name("an operator")?;
        self.c.expect("(")?;
        let (mut args, mut named) = (Vec::new(), Vec::new());
        while !self.c.takes(")") {
            match (self.c.peek().clone(), self.c.peek_at(1)) {
                (Token::Name(key), Token::Sign(":")) => {
                    self.c.take();
                    self.c.take();
                    named.push((key, self.expression()?));
                }
                _ if named.is_empty() => args.push(self.expression()?),
                _ => return Err(self.c.error("positional inputs must precede named ones")),
            }
            if !self.c.takes(",") && !matches!(self.c.peek(), Token::Sign(")")) {
                return Err(self.c.unexpected("',' or ')'"));
            }
        }
        Ok(Call { name, args, named, line })
    }

    fn expression(&mut self) -> Result<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.c.error(format!("expressions nest deeper than {MAX_DEPTH}")));
        }
        let made = if self.c.takes_name("if") {
            let condition = self.expression()?;
            if !self.c.takes_name("then") {
                return Err(self.c.unexpected("'then'"));
            }
            let yes = self.expression()?;
            if !self.c.takes_name("else") {
                return Err(self.c.unexpected("'else'"));
            }
            Expr::If(Box::new(condition), Box::new(yes), Box::new(self.expression()?))
        } else {
            self.binary(0)?
        };
        self.depth -= 1;
        Ok(made)
    }

    /// The operator at the cursor if its precedence is at least `level`.
    fn operator(&self, level: usize) -> Option<(Operator, usize)> {
        let found = match self.c.peek() {
            Token::Name(n) if n == "or" => (Operator::Or, 0),
            Token::Name(n) if n == "and" => (Operator::And, 1),
            Token::Sign(s) => match *s {
                "==" => (Operator::Equal, 2),
                "!=" => (Operator::Differs, 2),
                "<" => (Operator::Less, 2),
                "<=" => (Operator::LessEqual, 2),
                ">" => (Operator::Greater, 2),
                ">=" => (Operator::GreaterEqual, 2),
                "+" => (Operator::Plus, 3),
                "-" => (Operator::Minus, 3),
                "*" => (Operator::Times, 4),
                "/" => (Operator::Over, 4),
                "%" => (Operator::Modulo, 4),
                _ => return None,
            },
            _ => return None,
        };
        (found.1 >= level).then_some(found)
    }

    fn binary(&mut self, level: usize) -> Result<Expr> {
        let mut left = self.unary()?;
        while let Some((operator, binds)) = self.operator(level) {
            self.c.take();
            let right = self.binary(binds + 1)?;
            left = Expr::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr> {
        if self.c.takes("-") {
            return Ok(match self.unary()? {
                Expr::Literal(Value::Int(i)) => Expr::Literal(Value::Int(-i)),
                Expr::Literal(Value::Float(x)) => Expr::Literal(Value::Float(-x)),
                other => Expr::Negative(Box::new(other)),
            });
        }
        if self.c.takes_name("not") {
            return Ok(Expr::Not(Box::new(self.unary()?)));
        }
        let mut e = self.primary()?;
        while self.c.takes(".") {
            let index = self.c.int("the number of an output")?;
            let index = usize::try_from(index).map_err(|_| self.c.error("outputs count from 0"))?;
            e = Expr::Pick(Box::new(e), index);
        }
        Ok(e)
    }

    fn items(&mut self, end: &str) -> Result<Vec<Expr>> {
        let mut items = Vec::new();
        while !self.c.takes(end) {
            items.push(self.expression()?);
            if !self.c.takes(",") && !matches!(self.c.peek(), Token::Sign(s) if *s == end) {
                return Err(self.c.unexpected(&format!("',' or '{end}'")));
            }
        }
        Ok(items)
    }

    fn primary(&mut self) -> Result<Expr> {
        match (self.c.peek().clone(), self.c.peek_at(1)) {
            (Token::Name(_), Token::Sign("(")) => return Ok(Expr::Call(self.call()?)),
            (Token::Name(name), after) => {
                // A star without a right operand marks a variadic input.
                let star = matches!(after, Token::Sign("*")) && matches!(self.c.peek_at(2), Token::Sign("," | ")"));
                self.c.take();
                return Ok(match name.as_str() {
                    "true" => Expr::Literal(Value::Bool(true)),
                    "false" => Expr::Literal(Value::Bool(false)),
                    "none" => Expr::Literal(Value::None),
                    _ if self.c.takes("?") => Expr::Name(name, Arity::Optional),
                    _ if star => {
                        self.c.take();
                        Expr::Name(name, Arity::Many)
                    }
                    _ => Expr::Name(name, Arity::One),
                });
            }
            _ => {}
        }
        if self.c.takes("[") {
            return Ok(Expr::List(self.items("]")?));
        }
        if self.c.takes("(") {
            let mut items = self.items(")")?;
            return Ok(if items.len() == 1 { items.remove(0) } else { Expr::Outputs(items) });
        }
        let literal = match self.c.peek().clone() {
            Token::Int(i) => Value::Int(i),
            Token::Float(x) => Value::Float(x),
            Token::Text(t) => Value::Text(t),
            _ => return Err(self.c.unexpected("a value, a name or a call")),
        };
        self.c.take();
        Ok(Expr::Literal(literal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_read() {
        let text = "# a comment\nConv(X, W, B?) [1..10] <-> Convolution(X, W, B, kernel: kernel_shape)\n  \
                    let a = [1, -2.5]\n  if group == 1 and not a else \"why\"\n  unused auto_pad, pads\nRelu(X) -> relu(X)\n";
        let all = processes("t", text).unwrap();
        assert_eq!(all.len(), 2);
        let conv = &all[0];
        assert_eq!((conv.since, conv.until, conv.line, conv.direction), (1, 10, 2, Direction::Both));
        assert_eq!((conv.lets.len(), conv.conditions[0].1.as_str(), conv.unused.len()), (1, "why", 2));
        assert!(matches!(&conv.left.args[2], Expr::Name(n, Arity::Optional) if n == "B"));
    }

    #[test]
    fn errors_name_the_line() {
        let e = processes("f.map", "Relu(X)\n  relu(X)").unwrap_err().to_string();
        assert!(e.starts_with("f.map:2: one of <->, -> and <-"), "{e}");
        let e = processes("f.map", "Relu(X) -> relu(X").unwrap_err().to_string();
        assert!(e.contains("',' or ')' was expected, but the end of the file was found"), "{e}");
        assert!(processes("f", &format!("A() -> {}1", "[".repeat(500))).unwrap_err().to_string().contains("deeper"));
    }
}
