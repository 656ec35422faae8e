//! What a mapping file says.

use crate::ir::{Arity, Value};

/// An operation on values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Operator {
    Or,
    And,
    Equal,
    Differs,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Plus,
    Minus,
    Times,
    Over,
    Modulo,
}

/// An expression: a pattern where it stands on the side that is matched, a recipe where it stands on the side that is made.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A number, text, `true`, `false` or `none`.
    Literal(Value),
    /// An input, an attribute, or what a `let` defines. The arity matters in patterns.
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
    /// `a == b` and the like.
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
    /// Where it stands in the file.
    pub line: usize,
}

/// In which direction a process works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `<->`: both.
    Both,
    /// `->`: import only.
    Import,
    /// `<-`: export only.
    Export,
}

/// A mapping process: a form of the framework, and the form of ours that means the same.
#[derive(Clone, Debug)]
pub struct Process {
    /// Name, for messages and listings: the label, or the framework's operator.
    pub name: String,
    /// Domain of the framework's operator.
    pub domain: String,
    /// The first version of the operator set for which it holds.
    pub since: i64,
    /// The last one.
    pub until: i64,
    /// The framework's side.
    pub left: Call,
    /// Our side.
    pub right: Expr,
    /// In which direction it works.
    pub direction: Direction,
    /// Definitions that our side uses.
    pub lets: Vec<(String, Expr)>,
    /// Conditions; all must hold.
    pub conditions: Vec<(Expr, String)>,
    /// Attributes that do not matter, with the reason.
    pub unused: Vec<String>,
    /// The file.
    pub file: String,
    /// The line.
    pub line: usize,
}

impl Expr {
    /// Calls `f` for this expression and all inside of it.
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

impl Call {
    /// Calls `f` for all expressions inside.
    pub fn visit<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        self.args.iter().for_each(|e| e.visit(f));
        self.named.iter().for_each(|(_, e)| e.visit(f));
    }
}

impl Process {
    /// Every expression of our side: definitions, conditions and the result.
    pub fn visit_right<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        self.lets.iter().for_each(|(_, e)| e.visit(f));
        self.conditions.iter().for_each(|(e, _)| e.visit(f));
        self.right.visit(f);
    }
}
