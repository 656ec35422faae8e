//! What can go wrong between frameworks.

use std::fmt;

/// Result of the functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One thing that is wrong with a model, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The node, as [`crate::ir::Node::label`] gives it, or another place such as `input 'x'`.
    pub place: String,
    /// What is wrong there and what to do about it.
    pub message: String,
    /// Whether the values of inputs would help: the graph depends on them, and was mapped without.
    pub needs_value: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// A position in a text, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// An error of reading, mapping or writing a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The file is not what it should be.
    #[error("{0}")]
    Format(String),
    /// Something that cannot be represented here.
    #[error("{0}")]
    Unsupported(String),
    /// A mapping rule was given what it does not take.
    #[error("{0}")]
    Value(String),
    /// A graph cannot be made without the value of a tensor that only running the model gives.
    #[error("{0}")]
    NeedsValue(String),
    /// A text is wrong: a mapping file, descriptors of operators, a graph of NNEF.
    #[error("{file}:{position}: {message}")]
    Mapping {
        /// The file.
        file: String,
        /// Where in the file.
        position: Position,
        /// What is wrong.
        message: String,
    },
    /// Everything that is wrong with a model.
    #[error("{}", list(.0))]
    Model(Vec<Problem>),
    /// An error of the engine.
    #[error(transparent)]
    Engine(#[from] ferromx_core::error::Error),
}

fn list(problems: &[Problem]) -> String {
    let lines: Vec<_> = problems.iter().map(|p| format!("\n  {p}")).collect();
    let what = if problems.len() == 1 { "problem" } else { "problems" };
    format!("the model cannot be mapped: {} {what}{}", problems.len(), lines.concat())
}

impl Error {
    /// An [`Error::Format`].
    pub fn format(message: impl Into<String>) -> Error {
        Error::Format(message.into())
    }

    /// An [`Error::Unsupported`].
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::Unsupported(message.into())
    }

    /// An [`Error::Value`].
    pub fn value(message: impl Into<String>) -> Error {
        Error::Value(message.into())
    }

    /// Whether nothing is wrong with the model but that values of its inputs are needed to map it.
    pub fn needs_values(&self) -> bool {
        match self {
            Error::NeedsValue(_) => true,
            Error::Model(problems) => problems.iter().all(|p| p.needs_value),
            _ => false,
        }
    }

    /// Whether code of the program that asked for the import failed, rather than something of the model.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Error::Engine(e) if e.cause().is_some())
    }

    /// The error as a problem of a place.
    pub fn at(self, place: impl Into<String>) -> Vec<Problem> {
        let place = place.into();
        match self {
            Error::Model(inner) => {
                inner.into_iter().map(|p| Problem { place: format!("{place} / {}", p.place), ..p }).collect()
            }
            other => {
                let needs_value = matches!(other, Error::NeedsValue(_));
                vec![Problem { place, message: other.to_string(), needs_value }]
            }
        }
    }
}
