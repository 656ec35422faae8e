//! Errors of reading, mapping and writing models.

use std::fmt;

/// Result of the functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One problem of a model, and its location.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The label of the node ([`crate::ir::Node::label`]), or another location in the model such as `input 'x'`.
    pub location: String,
    /// The problem and what to do about it.
    pub message: String,
    /// True if the mapping could succeed if the values of inputs were given.
    pub needs_value: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)
    }
}

/// A position in a file. Lines and columns count from 1.
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
    /// The file is malformed.
    #[error("{0}")]
    Format(String),
    /// A feature that FerroMX does not have.
    #[error("{0}")]
    Unsupported(String),
    /// An argument that a mapping rule does not accept.
    #[error("{0}")]
    Value(String),
    /// Mapping needs the value of a tensor that is known only when the model runs.
    #[error("{0}")]
    NeedsValue(String),
    /// A syntax error in a mapping file, a descriptor file or an NNEF graph.
    #[error("{file}:{position}: {message}")]
    Mapping {
        /// The file.
        file: String,
        /// The position in the file.
        position: Position,
        /// The problem.
        message: String,
    },
    /// All problems of a model.
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

    /// The error of an operation on a file.
    pub(crate) fn io(path: impl fmt::Display, e: &std::io::Error) -> Error {
        Error::Engine(ferromx_core::error::Error::io(path, e))
    }

    /// True if the mapping could succeed if the values of inputs were given.
    pub fn needs_values(&self) -> bool {
        match self {
            Error::NeedsValue(_) => true,
            Error::Model(problems) => problems.iter().all(|p| p.needs_value),
            _ => false,
        }
    }

    /// True if a hook of the importing program failed, rather than the import.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Error::Engine(e) if e.cause().is_some())
    }

    /// The error as problems at a location. Problems of a subgraph get the location as a prefix.
    pub fn at(self, location: impl Into<String>) -> Vec<Problem> {
        let location = location.into();
        match self {
            Error::Model(inner) => {
                inner.into_iter().map(|p| Problem { location: format!("{location} / {}", p.location), ..p }).collect()
            }
            other => {
                let needs_value = matches!(other, Error::NeedsValue(_));
                vec![Problem { location, message: other.to_string(), needs_value }]
            }
        }
    }
}
