//! The parser of NNEF graphs.

use crate::error::{Position, Result};
use crate::ir::Value;
use crate::mapping::lexer::{Cursor, Token};

/// Maximum nesting depth of lists.
const MAX_DEPTH: usize = 8;

/// An argument of an operator.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Argument {
    /// A number, string or Boolean.
    Value(Value),
    /// The name of a tensor.
    Name(String),
    /// `[a, b]` or `(a, b)`.
    List(Vec<Argument>),
}

/// `results = op<element>(arguments);`
#[derive(Clone, Debug)]
pub(super) struct Statement {
    /// Names of the results.
    pub results: Vec<String>,
    /// The operator.
    pub op: String,
    /// `scalar`, `integer` or `logical`, if given.
    pub element: Option<String>,
    /// The arguments, with their names if given.
    pub arguments: Vec<(Option<String>, Argument)>,
    /// Position in the file.
    pub position: Position,
}

/// The syntax tree of a graph.
#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    /// Name.
    pub name: String,
    /// Names of the inputs.
    pub inputs: Vec<String>,
    /// Names of the outputs.
    pub outputs: Vec<String>,
    /// Statements.
    pub statements: Vec<Statement>,
}

/// Parses a graph.
///
/// # Errors
/// A text that is not a graph of version 1.0, with the line.
pub(super) fn graph(file: &str, text: &str) -> Result<Text> {
    let mut p = Parser { c: Cursor::new(file, text)? };
    if !p.c.takes_name("version") {
        return Err(p.c.unexpected("'version'"));
    }
    match p.c.take() {
        Token::Float(1.0) => p.c.expect(";")?,
        _ => return Err(p.c.error("only version 1.0 of NNEF is known")),
    }
    while p.c.takes_name("extension") {
        // Extensions are accepted here; the constructs that they allow are rejected.
        while !p.c.takes(";") {
            p.c.name("the name of an extension")?;
        }
    }
    if p.c.takes_name("fragment") {
        return Err(p.c.error(
            "operators that a model defines are not mapped: flatten it, so that only those of the standard are left",
        ));
    }
    if !p.c.takes_name("graph") {
        return Err(p.c.unexpected("'graph'"));
    }
    let mut graph = Text { name: p.c.name("the name of the graph")?, ..Text::default() };
    p.c.expect("(")?;
    graph.inputs = p.names(")")?;
    p.c.expect("->")?;
    p.c.expect("(")?;
    graph.outputs = p.names(")")?;
    p.c.expect("{")?;
    while !p.c.takes("}") {
        graph.statements.push(p.statement()?);
    }
    match p.c.peek() {
        Token::End => Ok(graph),
        _ => Err(p.c.unexpected("the end of the file")),
    }
}

struct Parser<'a> {
    c: Cursor<'a>,
}

impl Parser<'_> {
    fn names(&mut self, end: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        while !self.c.takes(end) {
            names.push(self.c.name("the name of a tensor")?);
            if !self.c.takes(",") && !matches!(self.c.peek(), Token::Sign(s) if *s == end) {
                return Err(self.c.unexpected(&format!("',' or '{end}'")));
            }
        }
        Ok(names)
    }

    fn statement(&mut self) -> Result<Statement> {
        let position = self.c.position();
        let results = if self.c.takes("(") {
            self.names(")")?
        } else if self.c.takes("[") {
            self.names("]")?
        } else {
            let mut names = vec![self.c.name("the name of a result")?];
            while self.c.takes(",") {
                names.push(self.c.name("the name of a result")?);
            }
            names
        };
        self.c.expect("=")?;
        let op = self.c.name("an operator")?;
        let element = match self.c.takes("<") {
            true => {
                let name = self.c.name("an element type")?;
                self.c.expect(">")?;
                Some(name)
            }
            false => None,
        };
        if !self.c.takes("(") {
            return Err(self.c.unexpected("'(' (a flat graph is made of operators, not of formulas)"));
        }
        let mut arguments = Vec::new();
        while !self.c.takes(")") {
            let name = match (self.c.peek().clone(), self.c.peek_at(1)) {
                (Token::Name(name), Token::Sign("=")) => {
                    self.c.take();
                    self.c.take();
                    Some(name)
                }
                _ => None,
            };
            arguments.push((name, self.argument(0)?));
            if !self.c.takes(",") && !matches!(self.c.peek(), Token::Sign(")")) {
                return Err(self.c.unexpected("',' or ')'"));
            }
        }
        self.c.expect(";")?;
        Ok(Statement { results, op, element, arguments, position })
    }

    fn argument(&mut self, depth: usize) -> Result<Argument> {
        if depth > MAX_DEPTH {
            return Err(self.c.error(format!("lists nest deeper than {MAX_DEPTH}")));
        }
        for (begin, end) in [("[", "]"), ("(", ")")] {
            if self.c.takes(begin) {
                let mut items = Vec::new();
                while !self.c.takes(end) {
                    items.push(self.argument(depth + 1)?);
                    if !self.c.takes(",") && !matches!(self.c.peek(), Token::Sign(s) if *s == end) {
                        return Err(self.c.unexpected(&format!("',' or '{end}'")));
                    }
                }
                return Ok(Argument::List(items));
            }
        }
        let negative = self.c.takes("-");
        let argument = match self.c.peek().clone() {
            Token::Int(i) => Argument::Value(Value::Int(if negative { -i } else { i })),
            Token::Float(x) => Argument::Value(Value::Float(if negative { -x } else { x })),
            Token::Text(text) if !negative => Argument::Value(Value::Text(text)),
            Token::Name(name) if !negative => match name.as_str() {
                "true" => Argument::Value(Value::Bool(true)),
                "false" => Argument::Value(Value::Bool(false)),
                _ => Argument::Name(name),
            },
            _ => return Err(self.c.unexpected("a value or the name of a tensor")),
        };
        self.c.take();
        Ok(argument)
    }
}
