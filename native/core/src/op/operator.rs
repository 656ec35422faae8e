//! Operators with the type of their parameters.

use std::marker::PhantomData;
use std::ops::Deref;

use super::{Inputs, OpDef};
use crate::params::NoParams;

/// An operator whose parameters are of type `P`.
///
/// ```
/// use ferromx_core::op::{Operator, arg};
///
/// ferromx_core::params! {
///     /// Parameters of `example`.
///     pub struct ExampleParam {
///         /// The scale.
///         scale: f32 = 1.0;
///     }
/// }
/// static EXAMPLE: Operator<ExampleParam> =
///     Operator::new("example").doc("Scales an array.").inputs(&[arg("data", "The array.")]);
/// assert_eq!(EXAMPLE.fields()[0].name, "scale");
/// ```
pub struct Operator<P = NoParams> {
    pub(super) def: OpDef,
    params: PhantomData<fn() -> P>,
}

impl<P> Operator<P> {
    /// The operator of a definition whose parameters are of type `P`.
    pub(super) const fn of(def: OpDef) -> Operator<P> {
        Operator { def, params: PhantomData }
    }

    /// The name.
    pub const fn name(&self) -> &'static str {
        self.def.name
    }

    /// True if the operator takes this number of inputs. The last of several may be optional.
    pub const fn takes(&self, num_inputs: usize) -> bool {
        match self.def.signature.inputs {
            Inputs::Fixed(inputs) => num_inputs <= inputs.len(),
            Inputs::Variadic { .. } => true,
        }
    }
}

impl<P> Clone for Operator<P> {
    fn clone(&self) -> Operator<P> {
        *self
    }
}

impl<P> Copy for Operator<P> {}

impl<P> Deref for Operator<P> {
    type Target = OpDef;

    fn deref(&self) -> &OpDef {
        &self.def
    }
}

/// An operator with parameters of any type, as an item of a list of operators.
pub trait AnyOperator: Sync {
    /// The definition.
    fn def(&self) -> &OpDef;
}

impl<P> AnyOperator for Operator<P> {
    fn def(&self) -> &OpDef {
        &self.def
    }
}

impl Deref for dyn AnyOperator {
    type Target = OpDef;

    fn deref(&self) -> &OpDef {
        self.def()
    }
}
