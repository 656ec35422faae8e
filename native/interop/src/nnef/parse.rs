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
    let mut p = Parser { cursor: Cursor::new(file, text)? };
    if !p.cursor.accept_name("version") {
        return Err(p.cursor.unexpected("'version'"));
    }
    match p.cursor.take() {
        Token::Float(1.0) => p.cursor.expect(";")?,
        _ => return Err(p.cursor.error("only version 1.0 of NNEF is supported")),
    }
    while p.cursor.accept_name("extension") {
        // Extensions are accepted here; the constructs that they allow are rejected.
        while !p.cursor.accept(";") {
            p.cursor.name("the name of an extension")?;
        }
    }
    if p.cursor.accept_name("fragment") {
        return Err(p.cursor.error(
            "fragments (operators that a model defines) are not supported: flatten the model, so that only standard operators are left",
        ));
    }
    if !p.cursor.accept_name("graph") {
        return Err(p.cursor.unexpected("'graph'"));
    }
    let mut graph = Text { name: p.cursor.name("the name of the graph")?, ..Text::default() };
    p.cursor.expect("(")?;
    graph.inputs = p.names(")")?;
    p.cursor.expect("->")?;
    p.cursor.expect("(")?;
    graph.outputs = p.names(")")?;
    p.cursor.expect("{")?;
    while !p.cursor.accept("}") {
        graph.statements.push(p.statement()?);
    }
    match p.cursor.peek() {
        Token::End => Ok(graph),
        _ => Err(p.cursor.unexpected("the end of the file")),
    }
}

struct Parser<'a> {
    cursor: Cursor<'a>,
}

impl Parser<'_> {
    fn names(&mut self, end: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        while !self.cursor.accept(end) {
            names.push(self.cursor.name("the name of a tensor")?);
            if !self.cursor.accept(",") && !matches!(self.cursor.peek(), Token::Punctuation(s) if *s == end) {
                return Err(self.cursor.unexpected(&format!("',' or '{end}'")));
            }
        }
        Ok(names)
    }

    fn statement(&mut self) -> Result<Statement> {
        let position = self.cursor.position();
        let results = if self.cursor.accept("(") {
            self.names(")")?
        } else if self.cursor.accept("[") {
            self.names("]")?
        } else {
            let mut names = vec![self.cursor.name("the name of a result")?];
            while self.cursor.accept(",") {
                names.push(self.cursor.name("the name of a result")?);
            }
            names
        };
        self.cursor.expect("=")?;
        let op = self.cursor.name("an operator")?;
        let element = match self.cursor.accept("<") {
            true => {
                let name = self.cursor.name("an element type")?;
                self.cursor.expect(">")?;
                Some(name)
            }
            false => None,
        };
        if !self.cursor.accept("(") {
            return Err(self.cursor.unexpected("'(' (a flat graph consists of operators, not of formulas)"));
        }
        let mut arguments = Vec::new();
        while !self.cursor.accept(")") {
            let name = match (self.cursor.peek().clone(), self.cursor.peek_at(1)) {
                (Token::Name(name), Token::Punctuation("=")) => {
                    self.cursor.take();
                    self.cursor.take();
                    Some(name)
                }
                _ => None,
            };
            arguments.push((name, self.argument(0)?));
            if !self.cursor.accept(",") && !matches!(self.cursor.peek(), Token::Punctuation(")")) {
                return Err(self.cursor.unexpected("',' or ')'"));
            }
        }
        self.cursor.expect(";")?;
        Ok(Statement { results, op, element, arguments, position })
    }

    fn argument(&mut self, depth: usize) -> Result<Argument> {
        if depth > MAX_DEPTH {
            return Err(self.cursor.error(format!("lists are nested deeper than {MAX_DEPTH}")));
        }
        for (begin, end) in [("[", "]"), ("(", ")")] {
            if self.cursor.accept(begin) {
                let mut items = Vec::new();
                while !self.cursor.accept(end) {
                    items.push(self.argument(depth + 1)?);
                    if !self.cursor.accept(",") && !matches!(self.cursor.peek(), Token::Punctuation(s) if *s == end) {
                        return Err(self.cursor.unexpected(&format!("',' or '{end}'")));
                    }
                }
                return Ok(Argument::List(items));
            }
        }
        let is_negative = self.cursor.accept("-");
        let argument = match self.cursor.peek().clone() {
            Token::Int(i) => Argument::Value(Value::Int(if is_negative { -i } else { i })),
            Token::Float(x) => Argument::Value(Value::Float(if is_negative { -x } else { x })),
            Token::Text(text) if !is_negative => Argument::Value(Value::Text(text)),
            Token::Name(name) if !is_negative => match name.as_str() {
                "true" => Argument::Value(Value::Bool(true)),
                "false" => Argument::Value(Value::Bool(false)),
                _ => Argument::Name(name),
            },
            _ => return Err(self.cursor.unexpected("a value or the name of a tensor")),
        };
        self.cursor.take();
        Ok(argument)
    }
}
