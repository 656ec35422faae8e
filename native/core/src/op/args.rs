//! The tensor arguments of operators, as the metadata lists them.

use crate::error::{Error, Result};

/// Maximum number of inputs, or outputs, of an operator.
const MAX_ARITY: usize = 1 << 20;

/// Checks a number of inputs or outputs that parameters request, so that it cannot exhaust memory.
///
/// # Errors
/// The number is above 2^20.
pub fn check_count(items: &str, count: usize) -> Result<()> {
    let text = || format!("the parameters request {count} {items}, but an operator has at most {MAX_ARITY}");
    if count <= MAX_ARITY { Ok(()) } else { Err(Error::Param(text())) }
}

/// A tensor argument, as the operator metadata lists it.
#[derive(Clone, Copy, Debug)]
pub struct ArgDef {
    /// Argument name.
    pub name: &'static str,
    /// Meaning and shape.
    pub doc: &'static str,
    /// MXNet's type string.
    pub type_string: &'static str,
}

/// A tensor argument of the usual type `NDArray-or-Symbol`.
pub const fn arg(name: &'static str, doc: &'static str) -> ArgDef {
    ArgDef { name, doc, type_string: "NDArray-or-Symbol" }
}

/// An argument that is an array and cannot be a symbol.
pub const fn array_arg(name: &'static str, doc: &'static str) -> ArgDef {
    ArgDef { name, doc, type_string: "NDArray" }
}

/// The tensor inputs of an operator.
#[derive(Clone, Copy)]
pub enum Inputs {
    /// A fixed list; parameters may omit some of the last ones, see [`OpDef::input_names`](super::OpDef::input_names).
    Fixed(&'static [ArgDef]),
    /// Any number of inputs; a parameter holds the number.
    Variadic {
        /// The argument, of type `NDArray-or-Symbol[]`.
        arg: ArgDef,
        /// The parameter with the number of inputs (`key_var_num_args`); filled in from the call if absent.
        count: &'static str,
    },
}

/// A selection of inputs or outputs.
#[derive(Clone, Copy, Debug)]
pub enum Deps {
    /// None.
    None,
    /// All; in a selection of output gradients, those of the visible outputs.
    All,
    /// Those with these indices.
    Some(&'static [usize]),
}

impl Deps {
    /// The selected indices out of `n`; indices of `n` and above (inputs that the parameters omit) are skipped.
    pub fn indices(self, n: usize) -> impl Iterator<Item = usize> {
        let (list, all): (&'static [usize], usize) = match self {
            Deps::None => (&[], 0),
            Deps::All => (&[], n),
            Deps::Some(list) => (list, 0),
        };
        (0..all).chain(list.iter().copied().filter(move |i| *i < n))
    }
}
