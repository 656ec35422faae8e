//! Operators with inputs and parameters that are checked at compile time, to be added to graphs.

use super::{OpDef, Operator};
use crate::params::{OpParams, ParamValue, PrintParams, ShapeOrNone};
use crate::shape::Shape;

/// An operator with its inputs and parameters, made by [`op!`](crate::op!). `I` represents inputs, `V` values of parameters.
pub struct Operation<I, V> {
    /// The operator.
    pub def: &'static OpDef,
    /// Its inputs.
    pub inputs: Vec<I>,
    /// The parameters that are set, by name.
    pub params: Vec<(&'static str, V)>,
}

impl<I, V> Operation<I, V> {
    /// The operator without inputs and parameters.
    pub fn new<P>(operator: &'static Operator<P>) -> Operation<I, V> {
        Operation { def: operator, inputs: Vec::new(), params: Vec::new() }
    }

    /// Adds an input.
    pub fn input(mut self, input: impl Into<I>) -> Operation<I, V> {
        self.inputs.push(input.into());
        self
    }

    /// Adds inputs.
    pub fn inputs<X: Into<I>>(mut self, inputs: impl IntoIterator<Item = X>) -> Operation<I, V> {
        self.inputs.extend(inputs.into_iter().map(X::into));
        self
    }

    /// Sets a parameter. `selector` returns the field `field`, whose type determines the accepted values.
    pub fn with<P: OpParams, T>(
        mut self,
        _operator: &Operator<P>,
        field: &'static str,
        _selector: fn(&P) -> &T,
        value: impl ParamOf<V, T>,
    ) -> Operation<I, V> {
        self.params.push((P::name_of(field), value.value()));
        self
    }
}

impl<I> Operation<I, String> {
    /// Sets the parameters that are not set yet, as in Rust's `..params`.
    pub fn with_rest<P: PrintParams>(mut self, _operator: &Operator<P>, params: &P) -> Operation<I, String> {
        for (name, value) in params.print() {
            if self.params.iter().all(|(given, _)| *given != name) {
                self.params.push((name, value));
            }
        }
        self
    }
}

/// An operator with its inputs and parameters, as an [`Operation`]. Too many inputs, a parameter that the operator does not have, and a
/// value of another type do not compile.
///
/// ```
/// # use ferromx_core::op::{Operation, Operator, arg};
/// # ferromx_core::params! {
/// #     /// Parameters of `sum`.
/// #     pub struct SumParam {
/// #         /// The axis.
/// #         axis: Option<i32> = None;
/// #         /// Whether it is kept.
/// #         keepdims: bool = false;
/// #     }
/// # }
/// static SUM: Operator<SumParam> = Operator::new("sum");
///
/// let x = "x";
/// let sum: Operation<&str, String> = ferromx_core::op!(SUM(x), axis: 1);
/// assert_eq!((sum.def.name, sum.inputs, sum.params), ("sum", vec!["x"], vec![("axis", "1".into())]));
///
/// // The other parameters are those of a struct, the inputs those of an iterator.
/// let p = SumParam { axis: None, keepdims: false };
/// let sum: Operation<&str, String> = ferromx_core::op!(SUM(..["x"]), keepdims: true, ..&p);
/// assert_eq!(sum.params, [("keepdims", "True".into()), ("axis", "None".into())]);
/// ```
///
/// Too many inputs:
/// ```compile_fail,E0080
/// # use ferromx_core::op::{Operation, Operator};
/// static COPY: Operator = Operator::new("copy");
/// let copy: Operation<&str, String> = ferromx_core::op!(COPY("x", "y"));
/// ```
///
/// A parameter that the operator does not have:
/// ```compile_fail,E0609
/// # use ferromx_core::op::{Operation, Operator};
/// static COPY: Operator = Operator::new("copy");
/// let copy: Operation<&str, String> = ferromx_core::op!(COPY("x"), axis: 1);
/// ```
///
/// A value of another type:
/// ```compile_fail,E0277
/// # use ferromx_core::op::{Operation, Operator};
/// # ferromx_core::params! {
/// #     /// Parameters of `sum`.
/// #     pub struct SumParam {
/// #         /// The axis.
/// #         axis: Option<i32> = None;
/// #     }
/// # }
/// static SUM: Operator<SumParam> = Operator::new("sum");
/// let sum: Operation<&str, String> = ferromx_core::op!(SUM("x"), axis: true);
/// ```
#[macro_export]
macro_rules! op {
    (@params $operator:expr, $operation:expr, $($param:ident: $value:expr,)* $(..$rest:expr)?) => {
        $operation
            $(.with(&$operator, stringify!($param), |p| &p.$param, $value))*
            $(.with_rest(&$operator, $rest))?
    };
    ($($operator:ident)::+ (..$inputs:expr) $(, $param:ident: $value:expr)* $(, ..$rest:expr)? $(,)?) => {
        $crate::op!(
            @params $($operator)::+, $crate::op::Operation::new(&$($operator)::+).inputs($inputs),
            $($param: $value,)* $(..$rest)?
        )
    };
    ($($operator:ident)::+ ($($input:expr),* $(,)?) $(, $param:ident: $value:expr)* $(, ..$rest:expr)? $(,)?) => {{
        const {
            assert!(
                $($operator)::+.takes(<[&str]>::len(&[$(stringify!($input)),*])),
                "too many inputs for this operator"
            );
        }
        $crate::op!(
            @params $($operator)::+, $crate::op::Operation::new(&$($operator)::+)$(.input($input))*,
            $($param: $value,)* $(..$rest)?
        )
    }};
}

/// A value for a parameter of type `T`, represented by a `V`.
pub trait ParamOf<V, T> {
    /// The value.
    fn value(self) -> V;
}

impl<T: ParamValue> ParamOf<String, T> for T {
    fn value(self) -> String {
        self.print()
    }
}

impl<T: ParamValue> ParamOf<String, T> for &T {
    fn value(self) -> String {
        self.print()
    }
}

impl<T: ParamValue> ParamOf<String, Option<T>> for T {
    fn value(self) -> String {
        self.print()
    }
}

impl ParamOf<String, ShapeOrNone> for Shape {
    fn value(self) -> String {
        self.print()
    }
}

macro_rules! lists {
    ($($param:ty),*) => {$(
        impl<const N: usize> ParamOf<String, $param> for [i64; N] {
            fn value(self) -> String {
                Shape::new(&self).print()
            }
        }
    )*};
}
lists!(Shape, ShapeOrNone);
