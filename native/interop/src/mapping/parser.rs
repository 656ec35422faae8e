//! The parser of mapping files. `docs/onnx-mappings.md` describes the language.

use super::ast::{Call, Declaration, Definition, Direction, Expr, Mapping, Operator, Process};
use super::lexer::{Cursor, Token};
use super::schema;
use super::signature::{Kind, Param, Signature};
use crate::error::Result;
use crate::ir::{Arity, Value};

/// Maximum nesting depth of expressions.
const MAX_DEPTH: usize = 100;

/// The operators, rules and processes of a file.
///
/// # Errors
/// A syntax error, with line and column.
pub(super) fn mapping(file: &str, text: &str) -> Result<Mapping> {
    let lines = text.lines().collect();
    let mut p = Parser { cursor: Cursor::new(file, text)?, file, lines, domain: String::new(), depth: 0 };
    let mut out = Mapping::default();
    while *p.cursor.peek() != Token::End {
        let keyword = match (p.cursor.peek(), p.cursor.peek_at(1)) {
            (Token::Name(name), Token::Name(_) | Token::Text(_)) => name.clone(),
            _ => String::new(),
        };
        match keyword.as_str() {
            "domain" => {
                p.cursor.take();
                match p.cursor.peek().clone() {
                    Token::Text(domain) => p.domain = domain,
                    _ => return Err(p.cursor.error("the domain must be a string: domain \"com.microsoft\"")),
                }
                p.cursor.take();
            }
            "operator" => out.operators.push(p.declaration()?),
            "rule" => out.rules.push(p.definition()?),
            _ => out.processes.push(p.process()?),
        }
    }
    Ok(out)
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    file: &'a str,
    lines: Vec<&'a str>,
    domain: String,
    depth: usize,
}

impl Parser<'_> {
    /// The source lines from `first` to the last token taken, without their common indentation.
    fn text_from(&self, first: usize) -> String {
        let lines = self.lines.get(first - 1..self.cursor.last_line()).unwrap_or(&[]);
        let indent = |line: &&str| line.len() - line.trim_start().len();
        let common = lines.iter().filter(|l| !l.trim().is_empty()).map(indent).min().unwrap_or(0);
        let line = |line: &&str| line.get(common..).unwrap_or("").trim_end().to_string();
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// `operator Name(X, B?) -> (Y) gain: float = 1.0`
    fn declaration(&mut self) -> Result<Declaration> {
        self.cursor.take();
        let position = self.cursor.position();
        let descriptor = schema::descriptor(&mut self.cursor)?;
        Ok(Declaration { domain: self.domain.clone(), descriptor, file: self.file.into(), position })
    }

    /// `rule name(list, n?: int) -> list = expression`
    fn definition(&mut self) -> Result<Definition> {
        let first = self.cursor.position().line;
        self.cursor.take();
        let position = self.cursor.position();
        let name = self.cursor.name("the name of the rule")?;
        self.cursor.expect("(")?;
        let mut params: Vec<Param> = Vec::new();
        while !self.cursor.accept(")") {
            let position = self.cursor.position();
            let param = self.cursor.name("an argument")?;
            let is_optional = self.cursor.accept("?");
            let kind = if self.cursor.accept(":") { self.kind()? } else { Kind::Any };
            if params.iter().any(|p| p.name == param) {
                return Err(self.cursor.error_at(position, format!("the argument '{param}' occurs twice")));
            }
            if !is_optional && params.last().is_some_and(|p| p.is_optional) {
                return Err(self.cursor.error_at(position, format!("'{param}' follows an optional argument")));
            }
            params.push(Param { name: param.into(), kind, is_optional });
            if !self.cursor.accept(",") && !matches!(self.cursor.peek(), Token::Punctuation(")")) {
                return Err(self.cursor.unexpected("',' or ')'"));
            }
        }
        let result = if self.cursor.accept("->") { self.kind()? } else { Kind::Any };
        self.cursor.expect("=")?;
        let body = self.expression()?;
        let text = self.text_from(first);
        let signature = Signature { name: name.into(), params: params.into(), result };
        Ok(Definition { signature, body, file: self.file.into(), position, text })
    }

    /// The kind of a value.
    fn kind(&mut self) -> Result<Kind> {
        let position = self.cursor.position();
        let name = self.cursor.name("the kind of a value")?;
        Kind::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind).ok_or_else(|| {
            let known = Kind::ALL.map(|(name, _)| name).join(", ");
            self.cursor.error_at(position, format!("'{name}' is not a kind of value; there are {known}"))
        })
    }

    /// `label: Pattern [11..17] -> result let a = b if condition unused attribute`
    fn process(&mut self) -> Result<Process> {
        let position = self.cursor.position();
        let label = match (self.cursor.peek().clone(), self.cursor.peek_at(1)) {
            (Token::Name(label), Token::Punctuation(":")) => {
                self.cursor.take();
                self.cursor.take();
                Some(label)
            }
            _ => None,
        };
        let left = self.call()?;
        let (since, until) = if self.cursor.accept("[") { self.range()? } else { (1, i64::MAX) };
        let direction = match self.cursor.peek() {
            Token::Punctuation("<->") => Direction::Both,
            Token::Punctuation("->") => Direction::Import,
            Token::Punctuation("<-") => Direction::Export,
            _ => return Err(self.cursor.unexpected("one of '<->', '->' and '<-'")),
        };
        self.cursor.take();
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
            position,
            text: String::new(),
        };
        self.clauses(&mut process)?;
        process.text = self.text_from(position.line);
        Ok(process)
    }

    fn range(&mut self) -> Result<(i64, i64)> {
        let since = self.cursor.int("the first version of the operator set")?;
        self.cursor.expect("..")?;
        let until = if let Token::Int(_) = self.cursor.peek() { self.cursor.int("a version")? } else { i64::MAX };
        self.cursor.expect("]")?;
        Ok((since, until))
    }

    fn clauses(&mut self, process: &mut Process) -> Result<()> {
        loop {
            if self.cursor.accept_name("let") {
                let name = self.cursor.name("a name")?;
                self.cursor.expect("=")?;
                process.lets.push((name, self.expression()?));
            } else if self.cursor.accept_name("if") {
                let condition = self.expression()?;
                let why = match (self.cursor.accept_name("else"), self.cursor.peek().clone()) {
                    (true, Token::Text(why)) => {
                        self.cursor.take();
                        why
                    }
                    (true, _) => return Err(self.cursor.unexpected("the reason as a string")),
                    (false, _) => String::new(),
                };
                process.conditions.push((condition, why));
            } else if self.cursor.accept_name("unused") {
                process.unused.push(self.cursor.name("an attribute")?);
                while self.cursor.accept(",") {
                    process.unused.push(self.cursor.name("an attribute")?);
                }
            } else {
                return Ok(());
            }
        }
    }

    fn call(&mut self) -> Result<Call> {
        let position = self.cursor.position();
        let name = self.cursor.name("an operator")?;
        self.cursor.expect("(")?;
        let (mut args, mut named) = (Vec::new(), Vec::new());
        while !self.cursor.accept(")") {
            match (self.cursor.peek().clone(), self.cursor.peek_at(1)) {
                (Token::Name(key), Token::Punctuation(":")) => {
                    self.cursor.take();
                    self.cursor.take();
                    named.push((key, self.expression()?));
                }
                _ if named.is_empty() => args.push(self.expression()?),
                _ => return Err(self.cursor.error("positional inputs must precede named ones")),
            }
            if !self.cursor.accept(",") && !matches!(self.cursor.peek(), Token::Punctuation(")")) {
                return Err(self.cursor.unexpected("',' or ')'"));
            }
        }
        Ok(Call { name, args, named, position })
    }

    fn expression(&mut self) -> Result<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.cursor.error(format!("expressions are nested deeper than {MAX_DEPTH}")));
        }
        let expression = if self.cursor.accept_name("if") {
            let condition = self.expression()?;
            if !self.cursor.accept_name("then") {
                return Err(self.cursor.unexpected("'then'"));
            }
            let then = self.expression()?;
            if !self.cursor.accept_name("else") {
                return Err(self.cursor.unexpected("'else'"));
            }
            Expr::If(Box::new(condition), Box::new(then), Box::new(self.expression()?))
        } else {
            self.binary(0)?
        };
        self.depth -= 1;
        Ok(expression)
    }

    /// The operator at the cursor and its precedence, if that is at least `min_precedence`.
    fn operator(&self, min_precedence: usize) -> Option<(Operator, usize)> {
        let found = match self.cursor.peek() {
            Token::Name(n) if n == "or" => (Operator::Or, 0),
            Token::Name(n) if n == "and" => (Operator::And, 1),
            Token::Punctuation(s) => match *s {
                "==" => (Operator::Equal, 2),
                "!=" => (Operator::NotEqual, 2),
                "<" => (Operator::Less, 2),
                "<=" => (Operator::LessEqual, 2),
                ">" => (Operator::Greater, 2),
                ">=" => (Operator::GreaterEqual, 2),
                "+" => (Operator::Add, 3),
                "-" => (Operator::Subtract, 3),
                "*" => (Operator::Multiply, 4),
                "/" => (Operator::Divide, 4),
                "%" => (Operator::Modulo, 4),
                _ => return None,
            },
            _ => return None,
        };
        (found.1 >= min_precedence).then_some(found)
    }

    /// An expression of operators whose precedence is at least `min_precedence`.
    fn binary(&mut self, min_precedence: usize) -> Result<Expr> {
        let mut left = self.unary()?;
        while let Some((operator, precedence)) = self.operator(min_precedence) {
            self.cursor.take();
            let right = self.binary(precedence + 1)?;
            left = Expr::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr> {
        if self.cursor.accept("-") {
            return Ok(match self.unary()? {
                Expr::Literal(Value::Int(i)) => Expr::Literal(Value::Int(-i)),
                Expr::Literal(Value::Float(x)) => Expr::Literal(Value::Float(-x)),
                other => Expr::Negative(Box::new(other)),
            });
        }
        if self.cursor.accept_name("not") {
            return Ok(Expr::Not(Box::new(self.unary()?)));
        }
        let mut e = self.primary()?;
        while self.cursor.accept(".") {
            let index = self.cursor.int("the number of an output")?;
            let index = usize::try_from(index).map_err(|_| self.cursor.error("outputs count from 0"))?;
            e = Expr::Pick(Box::new(e), index);
        }
        Ok(e)
    }

    fn items(&mut self, end: &str) -> Result<Vec<Expr>> {
        let mut items = Vec::new();
        while !self.cursor.accept(end) {
            items.push(self.expression()?);
            if !self.cursor.accept(",") && !matches!(self.cursor.peek(), Token::Punctuation(s) if *s == end) {
                return Err(self.cursor.unexpected(&format!("',' or '{end}'")));
            }
        }
        Ok(items)
    }

    fn primary(&mut self) -> Result<Expr> {
        match (self.cursor.peek().clone(), self.cursor.peek_at(1)) {
            (Token::Name(_), Token::Punctuation("(")) => return Ok(Expr::Call(self.call()?)),
            (Token::Name(name), after) => {
                // A star without a right operand marks a variadic input.
                let star = matches!(after, Token::Punctuation("*"))
                    && matches!(self.cursor.peek_at(2), Token::Punctuation("," | ")"));
                self.cursor.take();
                return Ok(match name.as_str() {
                    "true" => Expr::Literal(Value::Bool(true)),
                    "false" => Expr::Literal(Value::Bool(false)),
                    "none" => Expr::Literal(Value::None),
                    _ if self.cursor.accept("?") => Expr::Name(name, Arity::Optional),
                    _ if star => {
                        self.cursor.take();
                        Expr::Name(name, Arity::Many)
                    }
                    _ => Expr::Name(name, Arity::One),
                });
            }
            _ => {}
        }
        if self.cursor.accept("[") {
            return Ok(Expr::List(self.items("]")?));
        }
        if self.cursor.accept("(") {
            let mut items = self.items(")")?;
            return Ok(if items.len() == 1 { items.remove(0) } else { Expr::Outputs(items) });
        }
        let literal = match self.cursor.peek().clone() {
            Token::Int(i) => Value::Int(i),
            Token::Float(x) => Value::Float(x),
            Token::Text(t) => Value::Text(t),
            _ => return Err(self.cursor.unexpected("a value, a name or a call")),
        };
        self.cursor.take();
        Ok(Expr::Literal(literal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_parsed_with_their_clauses() {
        let text = "# a comment\nConv(X, W, B?) [1..10] <-> Convolution(X, W, B, kernel: kernel_shape)\n  \
                    let a = [1, -2.5]\n  if group == 1 and not a else \"why\"\n  unused auto_pad, pads\nRelu(X) -> relu(X)\n";
        let all = mapping("t", text).unwrap().processes;
        assert_eq!(all.len(), 2);
        let conv = &all[0];
        assert_eq!((conv.since, conv.until, conv.position.line, conv.direction), (1, 10, 2, Direction::Both));
        assert_eq!((conv.lets.len(), conv.conditions[0].1.as_str(), conv.unused.len()), (1, "why", 2));
        assert!(matches!(&conv.left.args[2], Expr::Name(n, Arity::Optional) if n == "B"));
    }

    #[test]
    fn errors_name_line_and_column() {
        let error = |text: &str| mapping("f.map", text).unwrap_err().to_string();
        let e = error("Relu(X)\n  relu(X)");
        assert!(e.starts_with("f.map:2:3: one of '<->', '->' and '<-' was expected, but 'relu' was found"), "{e}");
        let e = error("Relu(X) -> relu(X");
        assert!(e.starts_with("f.map:1:18: ',' or ')' was expected, but the end of the file was found"), "{e}");
        assert!(error("\n ü(X)").starts_with("f.map:2:2: unexpected character 'ü'"));
        assert!(error(&format!("A() -> {}1", "[".repeat(500))).contains("deeper"));
        assert!(error("rule f(a, a) = a").starts_with("f.map:1:11: the argument 'a' occurs twice"));
        assert!(error("rule f(a?, b) = a").starts_with("f.map:1:12: 'b' follows an optional argument"));
        assert!(
            error("rule f(a: float) = a").starts_with("f.map:1:11: 'float' is not a kind of value; there are any, int")
        );
    }

    #[test]
    fn rules_and_operator_descriptors_are_parsed() {
        let text = "domain \"org.example\"\noperator Squash@2(X, B?) -> (Y) gain: float = 1.5, mode: string?\n\
                    twice: Squash(X) -> relu(X)\nrule pairs(list, n?: int) -> list =\n  [list, n]\noperator(X) -> relu(X)\n";
        let file = mapping("t", text).unwrap();
        let squash = &file.operators[0];
        assert_eq!(
            (squash.domain.as_str(), squash.descriptor.name.as_str(), squash.descriptor.since),
            ("org.example", "Squash", 2)
        );
        assert_eq!((squash.descriptor.inputs.len(), squash.descriptor.attributes.len()), (2, 2));
        let pairs = &file.rules[0];
        let signature = &pairs.signature;
        assert_eq!(signature.to_string(), "pairs(list, n?: int) -> list");
        assert_eq!(pairs.text, "rule pairs(list, n?: int) -> list =\n  [list, n]");
        assert!(!signature.takes(0) && signature.takes(1) && signature.takes(2) && !signature.takes(3));
        let names: Vec<_> = file.processes.iter().map(|p| (p.name.as_str(), p.left.name.as_str())).collect();
        assert_eq!(names, [("twice", "Squash"), ("operator", "operator")]);
    }
}
