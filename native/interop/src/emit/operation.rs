//! Calls of MXNet operators whose inputs and parameters are checked at compile time.

use ferromx_core::dtype::DType;
use ferromx_core::op::ParamOf;
use ferromx_core::params::{AnyDType, OptTuple, ParamValue, ShapeOrNone, Tuple};
use ferromx_core::shape::Shape;
use ferromx_ops::definitions::{ByteType, LeakyReluType, PadMode, PadWidth, PoolType};
use ferromx_ops::onnx::{Coordinates, DimExprs, NearestMode, ResizeMode};

use crate::ir::Value;

/// An operator with inputs and parameters, made by [`op!`].
pub(crate) type Operation = ferromx_core::op::Operation<Value, Value>;

/// An operator of [`ferromx_ops::definitions`] with its inputs and parameters, as [`ferromx_core::op!`] describes.
///
/// ```text
/// op!(SLICE_AXIS(x), axis: 0, begin: 0, end: n)
/// ```
macro_rules! op {
    ($operator:ident ($($inputs:tt)*) $($params:tt)*) => {
        ferromx_core::op!(ferromx_ops::definitions::$operator ($($inputs)*) $($params)*)
    };
}
pub(crate) use op;

// Integers are 64 bits wide, since they may be symbolic dimensions.
macro_rules! params_of {
    ($($value:ty => $($param:ty),+ => |$x:ident| $made:expr;)*) => {$($(
        impl ParamOf<Value, $param> for $value {
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
        impl ParamOf<Value, $param> for $param {
            fn value(self) -> Value {
                Value::Text(self.print())
            }
        }
    )*};
}
enumerations!(ByteType, LeakyReluType, PadMode, PoolType, Coordinates, NearestMode, ResizeMode);

/// An absent value selects the default.
impl<T, V: ParamOf<Value, T>> ParamOf<Value, T> for Option<V> {
    fn value(self) -> Value {
        self.map_or(Value::None, V::value)
    }
}
