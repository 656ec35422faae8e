//! Names of MXNet's that stand for things which the engine makes itself. They are listed; most cannot be called by name.

use std::borrow::Cow;

use ferromx_core::error::{Error, Result};
use ferromx_core::op::{ArgDef, OpDef};
use ferromx_core::params;
use ferromx_core::params::{Attrs, FieldInfo, OpParams, ParamValue};

/// The operators of this family.
pub static OPS: &[&OpDef] = &[&CACHED_OP, &CACHED_OP_THREAD_SAFE, &NDARRAY, &NATIVE, &NO_GRADIENT];

const ARRAYS: &[ArgDef] = &[ArgDef { name: "data", doc: "The inputs.", type_string: "NDArray-or-Symbol[]" }];

/// The address of a structure of a program, which a new engine cannot know.
#[derive(Clone, Debug)]
pub struct Pointer;

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

/// Declares the parameters of an operator that is made by other means than its name.
macro_rules! unnamed {
    ($name:ident, $how:literal) => {
        #[doc = concat!("No parameters: ", $how)]
        pub struct $name;

        impl OpParams for $name {
            fn fields() -> Vec<FieldInfo> {
                Vec::new()
            }

            fn parse(_: &Attrs) -> Result<Self> {
                Err(Error::Unsupported($how.into()))
            }
        }
    };
}
unnamed!(CachedParam, "a cached operator is made of a symbol by MXCreateCachedOp, not by its name");
unnamed!(AbsentParam, "it stands for a gradient that is not there and computes nothing");

/// A graph called as an operator.
pub static CACHED_OP: OpDef = OpDef::new("_CachedOp")
    .doc("A graph that is called like an operator; MXCreateCachedOp makes it. It cannot be called by name.")
    .inputs(ARRAYS)
    .params::<CachedParam>();

/// A graph called as an operator by several threads.
pub static CACHED_OP_THREAD_SAFE: OpDef = OpDef::new("_CachedOpThreadSafe")
    .doc("As `_CachedOp`, for several threads; every cached operator here is. It cannot be called by name.")
    .inputs(ARRAYS)
    .params::<CachedParam>();

/// The first form of user-defined operators on arrays.
pub static NDARRAY: OpDef = OpDef::new("_NDArray")
    .doc("User-defined operators of early versions, by the address of their callbacks, which is refused: use `Custom`.")
    .inputs(ARRAYS)
    .params::<NDArrayParam>();

/// The first form of user-defined operators on raw memory.
pub static NATIVE: OpDef = OpDef::new("_Native")
    .doc("User-defined operators of early versions, by the address of their callbacks, which is refused: use `Custom`.")
    .inputs(ARRAYS)
    .params::<NativeParam>();

/// Nothing.
pub static NO_GRADIENT: OpDef = OpDef::new("_NoGradient")
    .doc("Stands for a gradient that is not there. It cannot be called by name.")
    .inputs(&[])
    .params::<AbsentParam>();
