//! Names that MXNet lists for operators the engine creates itself. They are listed for compatibility; most cannot be called by name.

use std::borrow::Cow;

use ferromx_core::error::{Error, Result};
use ferromx_core::op::{AnyOperator, ArgDef, Operator};
use ferromx_core::params;
use ferromx_core::params::{Attrs, FieldInfo, OpParams, ParamValue};

/// The operators of this family.
pub(crate) static OPS: &[&dyn AnyOperator] = &[&CACHED_OP, &CACHED_OP_THREAD_SAFE, &NDARRAY, &NATIVE, &NO_GRADIENT];

const ARRAYS: &[ArgDef] = &[ArgDef { name: "data", doc: "The inputs.", type_string: "NDArray-or-Symbol[]" }];

/// The address of a struct of callbacks. Parsing it is an error: the operators that take it are not supported.
#[derive(Clone, Debug)]
pub(crate) struct Pointer;

impl ParamValue for Pointer {
    fn type_name() -> Cow<'static, str> {
        "ptr".into()
    }

    fn parse(_: &str) -> Result<Self, String> {
        Err("addresses of callbacks are not taken: register the operator with MXCustomOpRegister and call Custom"
            .into())
    }

    fn print(&self) -> String {
        String::new()
    }
}

params! {
    /// Parameters of `_NDArray`.
    pub struct NDArrayParam {
        /// The callbacks.
        info: Pointer = required;
    }
}

params! {
    /// Parameters of `_Native`.
    pub struct NativeParam {
        /// The callbacks.
        info: Pointer = required;
        /// Whether the gradient reads that of the output.
        need_top_grad: bool = true;
    }
}

/// Declares the parameters of an operator that cannot be called by name; parsing them is an error with the given reason.
macro_rules! not_callable {
    ($name:ident, $reason:literal) => {
        #[doc = concat!("No parameters: ", $reason)]
        pub(crate) struct $name;

        impl OpParams for $name {
            fn fields() -> Vec<FieldInfo> {
                Vec::new()
            }

            fn parse(_: &Attrs) -> Result<Self> {
                Err(Error::Unsupported($reason.into()))
            }
        }
    };
}
not_callable!(CachedParam, "a cached operator is created from a symbol by MXCreateCachedOp, not by its name");
not_callable!(AbsentParam, "it represents a missing gradient and computes nothing");

/// A graph called as an operator.
pub(crate) static CACHED_OP: Operator<CachedParam> = Operator::new("_CachedOp")
    .doc("A graph that is called like an operator; MXCreateCachedOp creates it. It cannot be called by name.")
    .inputs(ARRAYS);

/// A graph called as an operator by several threads.
pub(crate) static CACHED_OP_THREAD_SAFE: Operator<CachedParam> = Operator::new("_CachedOpThreadSafe")
    .doc("`_CachedOp` for use by several threads, which every cached operator supports. It cannot be called by name.")
    .inputs(ARRAYS);

/// A user operator on arrays, of the interface that `Custom` replaced.
pub(crate) static NDARRAY: Operator<NDArrayParam> = Operator::new("_NDArray")
    .doc("User operators of early versions, given by the address of their callbacks; not supported: use `Custom`.")
    .inputs(ARRAYS);

/// A user operator on raw memory, of the interface that `Custom` replaced.
pub(crate) static NATIVE: Operator<NativeParam> = Operator::new("_Native")
    .doc("User operators of early versions, given by the address of their callbacks; not supported: use `Custom`.")
    .inputs(ARRAYS);

/// The absence of a gradient.
pub(crate) static NO_GRADIENT: Operator<AbsentParam> =
    Operator::new("_NoGradient").doc("Represents a missing gradient. It cannot be called by name.").inputs(&[]);
