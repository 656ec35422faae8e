//! The syntax tree of mapping files.

use super::Signature;
use crate::error::Position;
use crate::ir::{Arity, OpDescriptor, Value};

/// A binary operator of the mapping language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// An expression. On the side that is matched it is a pattern, on the side that is created it is evaluated.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A number, text, `true`, `false` or `none`.
    Literal(Value),
    /// An input, an attribute, or a name that a `let` defines. The arity matters in patterns.
    Name(String, Arity),
    /// `[a, b]`: a list of values.
    List(Vec<Expr>),
    /// `(a, b)`: several outputs.
    Outputs(Vec<Expr>),
    /// A rule or an operator with its inputs and parameters.
    Call(Call),
    /// `a.1`: one of several outputs or elements.
    Pick(Box<Expr>, usize),
    /// `-a`.
    Negative(Box<Expr>),
    /// `not a`.
    Not(Box<Expr>),
    /// A binary operator: `a == b`.
    Binary(Operator, Box<Expr>, Box<Expr>),
    /// `if a then b else c`.
    If(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// A rule or an operator with its inputs and parameters.
#[derive(Clone, Debug)]
pub struct Call {
    /// Name of a rule or an operator.
    pub name: String,
    /// Inputs in order.
    pub args: Vec<Expr>,
    /// Inputs and parameters by name.
    pub named: Vec<(String, Expr)>,
    /// Position in the file.
    pub position: Position,
}

/// The direction in which a process applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `<->`: both.
    Both,
    /// `->`: import only.
    Import,
    /// `<-`: export only.
    Export,
}

impl Direction {
    /// The arrow in the source.
    pub fn arrow(self) -> &'static str {
        match self {
            Direction::Both => "<->",
            Direction::Import => "->",
            Direction::Export => "<-",
        }
    }
}

/// A mapping process: a pattern of framework operators and the equivalent MXNet operators.
#[derive(Clone, Debug)]
pub struct Process {
    /// Name, for messages and listings: the label, or the framework's operator.
    pub name: String,
    /// Domain of the framework's operator.
    pub domain: String,
    /// First operator set version for which it applies.
    pub since: i64,
    /// Last operator set version for which it applies.
    pub until: i64,
    /// The framework's side.
    pub left: Call,
    /// MXNet's side.
    pub right: Expr,
    /// Direction.
    pub direction: Direction,
    /// `let` definitions.
    pub lets: Vec<(String, Expr)>,
    /// Conditions, all of which must hold, with the reason that is reported if one does not.
    pub conditions: Vec<(Expr, String)>,
    /// Attributes that the process ignores.
    pub unused: Vec<String>,
    /// The file.
    pub file: String,
    /// Where it begins.
    pub position: Position,
    /// The source lines.
    pub text: String,
}

/// A named rule defined in a mapping file.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Name, arguments and result.
    pub signature: Signature,
    /// The expression of the result.
    pub body: Expr,
    /// The file.
    pub file: String,
    /// Where it begins.
    pub position: Position,
    /// The source lines.
    pub text: String,
}

/// The descriptor of an operator in a mapping file, for operators that the framework does not describe.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// Domain.
    pub domain: String,
    /// Inputs, outputs and attributes.
    pub descriptor: OpDescriptor,
    /// The file.
    pub file: String,
    /// Where it begins.
    pub position: Position,
}

/// The content of a mapping file.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    /// Descriptors of operators.
    pub operators: Vec<Declaration>,
    /// Rules.
    pub rules: Vec<Definition>,
    /// Processes.
    pub processes: Vec<Process>,
}

impl Expr {
    /// Calls `f` for this expression and all its subexpressions.
    pub fn visit<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        f(self);
        match self {
            Expr::Literal(_) | Expr::Name(..) => {}
            Expr::List(items) | Expr::Outputs(items) => items.iter().for_each(|e| e.visit(f)),
            Expr::Call(call) => call.visit(f),
            Expr::Pick(e, _) | Expr::Negative(e) | Expr::Not(e) => e.visit(f),
            Expr::Binary(_, a, b) => [a, b].into_iter().for_each(|e| e.visit(f)),
            Expr::If(a, b, c) => [a, b, c].into_iter().for_each(|e| e.visit(f)),
        }
    }
}

impl Expr {
    /// Calls `f` for this expression and all its subexpressions, until the first error.
    pub fn try_visit<'e, E>(&'e self, mut f: impl FnMut(&'e Expr) -> Result<(), E>) -> Result<(), E> {
        let mut result = Ok(());
        self.visit(&mut |e| {
            if result.is_ok() {
                result = f(e);
            }
        });
        result
    }
}

impl Call {
    /// The inputs and parameters.
    pub fn parts(&self) -> impl Iterator<Item = &Expr> {
        self.args.iter().chain(self.named.iter().map(|(_, e)| e))
    }

    /// Calls `f` for the inputs and parameters, and all their subexpressions.
    pub fn visit<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        self.parts().for_each(|e| e.visit(f));
    }
}
