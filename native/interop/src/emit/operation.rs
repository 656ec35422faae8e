//! Calls of MXNet operators whose inputs and parameters are checked at compile time.

use std::marker::PhantomData;

use ferromx_core::dtype::DType;
use ferromx_core::params::{AnyDType, OptTuple, ParamValue, ShapeOrNone, Tuple};
use ferromx_core::shape::Shape;
use ferromx_ops::definitions::{ByteType, LeakyReluType, Operator, PadMode, PadWidth, PoolType};
use ferromx_ops::onnx::{Coordinates, DimExprs, NearestMode, ResizeMode};

use crate::ir::Value;

/// An operator with inputs and parameters of type `P`, made by [`op!`].
pub(crate) struct Operation<P> {
    pub(super) operator: &'static str,
    pub(super) inputs: Vec<Value>,
    pub(super) params: Vec<(&'static str, Value)>,
    types: PhantomData<fn() -> P>,
}

impl<P> Operation<P> {
    /// The operator on these inputs.
    pub(crate) fn new(operator: &Operator<P>, inputs: Vec<Value>) -> Operation<P> {
        Operation { operator: operator.name(), inputs, params: Vec::new(), types: PhantomData }
    }

    /// Sets a parameter. `field` selects the field of this name, whose type determines the accepted values.
    pub(crate) fn with<T>(mut self, name: &'static str, _field: fn(&P) -> &T, value: impl ParamOf<T>) -> Operation<P> {
        self.params.push((name, value.value()));
        self
    }
}

/// An operator of [`ferromx_ops::definitions`] with its inputs and parameters. Too many inputs, a parameter that the operator does not have
/// and a value of another type do not compile.
///
/// ```text
/// op!(SLICE_AXIS(x), axis: 0, begin: 0, end: n)
/// ```
macro_rules! op {
    ($operator:ident($($input:expr),* $(,)?) $(, $param:ident: $value:expr)* $(,)?) => {{
        const {
            assert!(
                ferromx_ops::definitions::$operator.takes(<[&str]>::len(&[$(stringify!($input)),*])),
                "the operator takes fewer inputs"
            );
        }
        $crate::emit::Operation::new(
            &ferromx_ops::definitions::$operator,
            vec![$($crate::ir::Value::from($input)),*],
        )$(.with(stringify!($param), |p| &p.$param, $value))*
    }};
}
pub(crate) use op;

/// A value for a parameter of type `T`. Integers are 64 bits wide, since they may be symbolic dimensions.
pub(crate) trait ParamOf<T> {
    /// The value.
    fn value(self) -> Value;
}

macro_rules! params_of {
    ($($value:ty => $($param:ty),+ => |$x:ident| $made:expr;)*) => {$($(
        impl ParamOf<$param> for $value {
            fn value(self) -> Value {
                let $x = self;
                $made
            }
        }
    )+)*};
}

params_of! {
    i64 => i32, i64, Option<i32> => |x| Value::Int(x);
    i32 => i32, i64, Option<i32> => |x| Value::Int(x.into());
    usize => i32 => |x| Value::Int(x as i64);
    bool => bool, Option<bool> => |x| Value::Bool(x);
    f64 => f32, f64 => |x| Value::Float(x);
    String => DimExprs => |x| Value::Text(x);
    DType => AnyDType => |x| x.into();
    Vec<i64> => Shape, ShapeOrNone, Tuple<i64> => |x| x.into();
    Vec<Value> => OptTuple => |x| Value::List(x);
    Vec<[i64; 2]> => PadWidth => |x| Value::List(x.into_iter().map(|pair| pair.to_vec().into()).collect());
    // An integer or floating-point number of a mapping file.
    Value => f64 => |x| x;
}

/// An enumeration is passed as its text.
macro_rules! enumerations {
    ($($param:ty),*) => {$(
        impl ParamOf<$param> for $param {
            fn value(self) -> Value {
                Value::Text(self.print())
            }
        }
    )*};
}
enumerations!(ByteType, LeakyReluType, PadMode, PoolType, Coordinates, NearestMode, ResizeMode);

/// An absent value selects the default.
impl<T, V: ParamOf<T>> ParamOf<T> for Option<V> {
    fn value(self) -> Value {
        self.map_or(Value::None, V::value)
    }
}
