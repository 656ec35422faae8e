//! The errors of the engine. A message says what was given, what was expected and what to do.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::dtype::DType;

/// Result of every fallible function of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The cause of an error in foreign code, such as a JVM exception. Two are equal only if they are the same object.
#[derive(Clone)]
pub struct Cause(Arc<dyn Any + Send + Sync>);

impl Cause {
    /// Wraps the object.
    pub fn new(object: impl Any + Send + Sync) -> Cause {
        Cause(Arc::new(object))
    }

    /// The object, if it is a `T`.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cause")
    }
}

impl PartialEq for Cause {
    fn eq(&self, other: &Cause) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// An error of the engine. `Display` gives the message that users of all languages see.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// Two sources disagree about the shape of one argument or output (MXNet's `InferShapeError`).
    #[error("Shape inconsistent, Provided={provided}, inferred shape={inferred}")]
    ShapeInconsistent {
        /// The argument or output, such as `argument 1`.
        argument: String,
        /// The shape that was known before.
        provided: String,
        /// The shape that the operator's rule infers.
        inferred: String,
    },
    /// Two sources disagree about the element type of one argument or output.
    #[error("Type inconsistent, Provided={provided}, inferred type={inferred}")]
    DTypeInconsistent {
        /// The argument or output, such as `argument 1`.
        argument: String,
        /// The type that was known before.
        provided: DType,
        /// The type that the operator's rule infers.
        inferred: DType,
    },
    /// A shape or a value that is invalid for the operator.
    #[error("{0}")]
    Value(String),
    /// A parameter is missing, unknown or invalid.
    #[error("{0}")]
    Param(String),
    /// The operator has no kernel for this element type.
    #[error("operator {op} does not take {given}; it takes {accepted}: convert with Cast first")]
    UnsupportedDType {
        /// Operator name.
        op: String,
        /// The given type.
        given: DType,
        /// The supported types, separated by commas.
        accepted: String,
    },
    /// The gradient of an operator without gradient was requested.
    #[error(
        "Operator {0} is non-differentiable because it didn't register FGradient attribute: put BlockGrad before it or request no \
         gradient (grad_req null) for its inputs"
    )]
    NotDifferentiable(String),
    /// A malformed file or buffer.
    #[error("{0}")]
    Format(String),
    /// An I/O error of the operating system.
    #[error("{path}: {message}")]
    Io {
        /// The file.
        path: String,
        /// The system's message.
        message: String,
    },
    /// A null, invalid or freed handle, or an unknown name.
    #[error("{0}")]
    NotFound(String),
    /// An unsupported feature, such as running on a GPU.
    #[error("{0}")]
    Unsupported(String),
    /// An allocation failed.
    #[error("out of memory: {0} bytes were requested; use smaller arrays or batches, or free some with dispose()")]
    OutOfMemory(usize),
    /// An error of foreign code that the engine called.
    #[error("{message}")]
    Foreign {
        /// Its message.
        message: String,
        /// Its cause, such as the exception it threw.
        cause: Cause,
    },
    /// A violated invariant: a bug in the engine.
    #[error("internal error: {0}; please report it with the program that led here")]
    Internal(String),
    /// An error with the operator in which it happened.
    #[error("Error in operator {node}: {source}{}", detail(.source, .op, .node))]
    InOperator {
        /// Operator name.
        op: String,
        /// Name of the graph node, or the operator's name again for imperative calls.
        node: String,
        /// The error.
        source: Box<Error>,
    },
}

/// Exception classes of Python at the start of messages, which MXNet's Python package raises.
pub const EXCEPTION_CLASSES: [&str; 3] = ["IndexError: ", "TypeError: ", "ValueError: "];

/// The suffix of the message of [`Error::InOperator`]: the argument, and the operator with its node if their names differ.
fn detail(source: &Error, op: &str, node: &str) -> String {
    let argument = match source {
        Error::ShapeInconsistent { argument, .. } | Error::DTypeInconsistent { argument, .. } => {
            format!("{argument} of ")
        }
        _ => String::new(),
    };
    match (argument.is_empty(), op == node) {
        (true, true) => String::new(),
        (_, true) => format!(" ({argument}{op})"),
        (_, false) => format!(" ({argument}{op} '{node}')"),
    }
}

impl Error {
    /// A [`Error::Value`].
    pub fn value(message: impl Into<String>) -> Error {
        Error::Value(message.into())
    }

    /// Adds the name of the argument to an error that has only its index: `argument 1` becomes `argument 1 (weight)`.
    pub fn name_argument(mut self, names: &[String]) -> Error {
        if let Error::ShapeInconsistent { argument, .. } | Error::DTypeInconsistent { argument, .. } = &mut self
            && let Some(index) = argument.strip_prefix("argument ")
            && let Some(name) = index.parse::<usize>().ok().and_then(|i| names.get(i))
        {
            *argument = format!("argument {index} ({name})");
        }
        self
    }

    /// The cause, if the error comes from foreign code.
    pub fn cause(&self) -> Option<&Cause> {
        match self {
            Error::Foreign { cause, .. } => Some(cause),
            Error::InOperator { source, .. } => source.cause(),
            _ => None,
        }
    }

    /// Adds the operator and node, unless the error already has them.
    pub fn in_operator(self, op: &str, node: &str) -> Error {
        match self {
            Error::InOperator { .. } => self,
            e => Error::InOperator { op: op.into(), node: node.into(), source: Box::new(e) },
        }
    }

    /// Removes an exception class of [`EXCEPTION_CLASSES`] from the start of the message, so that Python raises an `MXNetError`.
    pub fn without_class(self) -> Error {
        match self {
            Error::Value(text) => {
                let rest = EXCEPTION_CLASSES.iter().find_map(|class| text.strip_prefix(class));
                Error::Value(rest.unwrap_or(&text).into())
            }
            Error::InOperator { op, node, source } => {
                Error::InOperator { op, node, source: Box::new(source.without_class()) }
            }
            e => e,
        }
    }

    /// An I/O error of a file.
    pub fn io(path: impl std::fmt::Display, e: &std::io::Error) -> Error {
        Error::Io { path: path.to_string(), message: e.to_string() }
    }
}

/// Returns a [`Error::Value`] with a formatted message unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($cond:expr, $($arg:tt)+) => {
        if !$cond {
            return Err($crate::error::Error::Value(format!($($arg)+)));
        }
    };
}
