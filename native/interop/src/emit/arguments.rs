//! The types of arguments and results of rules.

use std::sync::Arc;

use ferromx_core::dtype::DType;

use super::is_symbolic;
use crate::error::{Error, Result};
use crate::ir::{Graph, Tensor, Value};
use crate::mapping::Kind;

/// A tensor of the graph that is being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorId(pub usize);

/// An integer that may be a symbolic dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymInt(pub i64);

/// Integers, some of which may be symbolic dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymInts(pub Vec<i64>);

/// A Rust type for arguments of rules.
pub(crate) trait Argument<'v>: Sized {
    /// The kind in the signature.
    const KIND: Kind;
    /// True if the argument may be absent.
    const IS_OPTIONAL: bool = false;

    /// The argument; `Ok(None)` if the value is of another kind.
    ///
    /// # Errors
    /// A value of the right kind that cannot be used, such as an unknown dimension.
    fn read(value: &'v Value) -> Result<Option<Self>>;
}

/// The arguments of a call of a rule. Omitted arguments are `Value::None`.
pub(crate) struct Arguments<'v> {
    values: &'v [Value],
    next: usize,
}

impl<'v> Arguments<'v> {
    pub(crate) fn new(values: &'v [Value]) -> Arguments<'v> {
        Arguments { values, next: 0 }
    }

    /// The next argument.
    pub(crate) fn next<T: Argument<'v>>(&mut self, name: &str) -> Result<T> {
        let value = self.values.get(self.next).unwrap_or(&Value::None);
        self.next += 1;
        T::read(value)?.ok_or_else(|| {
            let (kind, expected) = (value.kind(), T::KIND.name());
            Error::value(format!("argument {} ({name}) is a {kind}, not a {expected}", self.next))
        })
    }
}

/// Rejects symbolic dimensions.
fn known_dim(x: i64) -> Result<i64> {
    match is_symbolic(x) {
        true => Err(Error::NeedsValue("a dimension is unknown: give the shapes of the inputs".into())),
        false => Ok(x),
    }
}

macro_rules! arguments {
    ($($ty:ty: $kind:ident = |$value:ident| $read:expr;)*) => {$(
        impl<'v> Argument<'v> for $ty {
            const KIND: Kind = Kind::$kind;

            fn read($value: &'v Value) -> Result<Option<Self>> {
                $read
            }
        }
    )*};
}

arguments! {
    Value: Any = |value| Ok(Some(value.clone()));
    i64: Int = |value| value.int().map(known_dim).transpose();
    SymInt: Int = |value| Ok(value.int().map(SymInt));
    f64: Number = |value| Ok(value.number());
    // ONNX encodes Booleans as integers. An absent one is false.
    bool: Bool = |value| Ok(if *value == Value::None { Some(false) } else { value.int().map(|i| i != 0) });
    DType: Text = |value| match value {
        Value::Text(name) => name.parse().map(Some).map_err(Error::Value),
        _ => Ok(None),
    };
    Vec<i64>: List = |value| value.ints().map(|x| x.into_iter().map(known_dim).collect()).transpose();
    SymInts: List = |value| Ok(value.ints().map(SymInts));
    Vec<f64>: List = |value| Ok(match value {
        Value::List(items) => items.iter().map(Value::number).collect(),
        _ => None,
    });
    Vec<TensorId>: List = |value| match value {
        Value::List(items) => items.iter().map(TensorId::read).collect(),
        _ => Ok(None),
    };
    TensorId: Tensor = |value| Ok(match value {
        Value::TensorId(id) => Some(TensorId(*id)),
        _ => None,
    });
    Arc<Graph>: Graph = |value| Ok(match value {
        Value::Graph(graph) => Some(graph.clone()),
        _ => None,
    });
    &'v str: Text = |value| Ok(match value {
        Value::Text(text) => Some(text),
        _ => None,
    });
    &'v [Value]: List = |value| Ok(match value {
        Value::List(items) => Some(items),
        _ => None,
    });
    &'v Tensor: Tensor = |value| Ok(match value {
        Value::Tensor(tensor) => Some(tensor),
        _ => None,
    });
}

impl<'v, T: Argument<'v>> Argument<'v> for Option<T> {
    const KIND: Kind = T::KIND;
    const IS_OPTIONAL: bool = true;

    fn read(value: &'v Value) -> Result<Option<Self>> {
        match value {
            Value::None => Ok(Some(None)),
            value => Ok(T::read(value)?.map(Some)),
        }
    }
}

/// A Rust type for results of rules.
pub(crate) trait RuleResult {
    /// The kind in the signature.
    const KIND: Kind;

    /// The result as a value.
    fn value(self) -> Value;
}

macro_rules! results {
    ($($ty:ty: $kind:ident = |$x:ident| $made:expr;)*) => {$(
        impl RuleResult for $ty {
            const KIND: Kind = Kind::$kind;

            fn value(self) -> Value {
                let $x = self;
                $made
            }
        }

        impl From<$ty> for Value {
            fn from($x: $ty) -> Value {
                $made
            }
        }
    )*};
}

results! {
    bool: Bool = |x| Value::Bool(x);
    i64: Int = |x| Value::Int(x);
    SymInt: Int = |x| Value::Int(x.0);
    f64: Number = |x| Value::Float(x);
    DType: Text = |x| Value::Text(x.name().into());
    TensorId: Tensor = |x| Value::TensorId(x.0);
    SymInts: List = |x| Value::from(x.0);
    Vec<Value>: List = |x| Value::List(x);
    Vec<TensorId>: List = |x| Value::List(x.into_iter().map(Value::from).collect());
}

impl RuleResult for Value {
    const KIND: Kind = Kind::Any;

    fn value(self) -> Value {
        self
    }
}

impl RuleResult for Vec<i64> {
    const KIND: Kind = Kind::List;

    fn value(self) -> Value {
        self.into()
    }
}

impl RuleResult for &'static str {
    const KIND: Kind = Kind::Text;

    fn value(self) -> Value {
        self.into()
    }
}

impl From<&Value> for Value {
    fn from(value: &Value) -> Value {
        value.clone()
    }
}
