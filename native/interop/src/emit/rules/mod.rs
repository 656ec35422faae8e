//! The built-in rules: functions on values that mapping processes call.
//!
//! The macro `rules!` declares them as typed functions, from which their signatures follow. An invertible rule also has an inverse, for
//! exports.
//!
//! - `lists`: values other than tensors: presence, choices, lists of numbers.
//! - `tensors`: shapes, types, known elements, and operators by name; `elements`: single elements, activations, quantization and padding;
//!   `symbolic`: ranges of symbolic integers.
//! - `windows`: the windows of convolution and pooling; `coordinates`: indices, crops, frames; `resize`: Resize.
//! - `masks`: attention masks; `recurrent`: recurrent networks; `signal`: signal processing; `nnef`: NNEF.
//! - `control`: operators with subgraphs, inlined or unrolled; `loops`: those with conditions that are computed at run time;
//!   `subgraphs`: their bodies; `batched`: Scan of operator set 8.
//! - `sequences`: sequences of tensors, which are lists during the import.
//! - `export_nodes`: ONNX operators with several outputs; `dimension_exprs`: expressions of dimensions in exports.

mod batched;
mod control;
mod coordinates;
mod dimension_exprs;
mod elements;
mod export_nodes;
mod lists;
mod loops;
mod masks;
mod nnef;
mod recurrent;
mod resize;
mod sequences;
mod signal;
mod subgraphs;
mod symbolic;
mod tensors;
mod windows;

use std::collections::HashMap;
use std::sync::OnceLock;

use ferromx_core::context::Context;
use ferromx_core::dtype::{DType, Element};
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;

use super::{Scope, TensorId};
use crate::error::{Error, Result};
use crate::ir::Value;
use crate::mapping::Signature;

/// The implementation of a rule.
pub type Forward = fn(&mut Scope<'_, '_>, &[Value]) -> Result<Value>;

/// The inverse of a rule: from its result and its known arguments to the first argument.
pub type Reverse = fn(&Value, &[Option<Value>]) -> Option<Value>;

/// A named rule.
pub struct Rule {
    /// Name, arguments and result.
    pub signature: Signature,
    /// Description, for listings.
    pub doc: &'static str,
    /// Implementation.
    pub forward: Forward,
    /// Inverse with respect to the first argument.
    pub reverse: Option<Reverse>,
}

/// Declares rules as functions with typed arguments, and lists them in `RULES`. The documentation of a rule is what listings show. After
/// the body, `reversed` gives the inverse.
///
/// ```text
/// rules! {
///     /// One dimension, which may be unknown.
///     fn size(s, tensor: TensorId, axis: i64) -> SymInt {
///         ...
///     }
/// }
/// ```
macro_rules! rules {
    ($($(#[doc = $doc:literal])+ fn $name:ident($s:tt $(, $arg:ident: $ty:ty)* $(,)?) -> $result:ty $body:block
        $(reversed $reverse:expr;)?)*) => {
        $(
            $(#[doc = $doc])+
            #[allow(clippy::too_many_arguments, reason = "mapping files name the arguments by their positions")]
            pub(super) fn $name($s: &mut $crate::emit::Scope<'_, '_>, $($arg: $ty),*) -> $crate::error::Result<$result> $body
        )*

        pub(super) static RULES: &[$crate::emit::rules::Rule] = &[$($crate::emit::rules::Rule {
            signature: $crate::mapping::Signature {
                name: ::std::borrow::Cow::Borrowed(stringify!($name)),
                params: ::std::borrow::Cow::Borrowed(&[$($crate::mapping::Param {
                    name: ::std::borrow::Cow::Borrowed(stringify!($arg)),
                    kind: <$ty as $crate::emit::Argument<'_>>::KIND,
                    is_optional: <$ty as $crate::emit::Argument<'_>>::IS_OPTIONAL,
                }),*]),
                result: <$result as $crate::emit::RuleResult>::KIND,
            },
            doc: concat!($($doc),+).trim_ascii(),
            forward: |scope, args| {
                #[allow(unused_mut, unused_variables, reason = "a rule may have no arguments")]
                let mut arguments = $crate::emit::Arguments::new(args);
                $(let $arg = arguments.next::<$ty>(stringify!($arg))?;)*
                $name(scope, $($arg),*).map($crate::emit::RuleResult::value)
            },
            reverse: $crate::emit::rules::rules!(@reverse $($reverse)?),
        }),*];
    };
    (@reverse) => { None };
    (@reverse $reverse:expr) => { Some($reverse) };
}
use rules;

/// All rules.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    [
        nnef::RULES,
        batched::RULES,
        control::RULES,
        coordinates::RULES,
        dimension_exprs::RULES,
        elements::RULES,
        export_nodes::RULES,
        lists::RULES,
        masks::RULES,
        recurrent::RULES,
        resize::RULES,
        sequences::RULES,
        signal::RULES,
        symbolic::RULES,
        tensors::RULES,
        windows::RULES,
    ]
    .into_iter()
    .flatten()
}

/// The rule of a name.
pub fn find(name: &str) -> Option<&'static Rule> {
    static BY_NAME: OnceLock<HashMap<&'static str, &'static Rule>> = OnceLock::new();
    BY_NAME.get_or_init(|| all().map(|r| (r.signature.name.as_ref(), r)).collect()).get(name).copied()
}

/// The signature of a rule.
pub fn signature(name: &str) -> Option<&'static Signature> {
    find(name).map(|rule| &rule.signature)
}

/// Maximum number of elements of a constant that a rule creates.
const MAX_CONSTANT_LEN: usize = 1 << 24;

/// The number of elements of a constant of this shape.
///
/// # Errors
/// It exceeds [`MAX_CONSTANT_LEN`].
fn constant_len(dims: &[i64]) -> Result<usize> {
    let shape = Shape::new(dims);
    let n = shape.checked_elements()?;
    match n <= MAX_CONSTANT_LEN {
        true => Ok(n),
        false => Err(Error::value(format!("a constant of shape {shape} would be too large"))),
    }
}

/// An array of these elements, converted to a type.
fn array<T: Element>(dims: &[i64], dtype: DType, items: Vec<T>) -> Result<NDArray> {
    let array = NDArray::zeros(&Shape::new(dims), dtype, Context::default())?;
    array.copy_from_slice_as(&items)?;
    Ok(array)
}

/// The error for a dimension that must be known.
fn needs_shapes(what: &str) -> Error {
    Error::NeedsValue(format!("{what}: give the shapes of the inputs"))
}

impl Scope<'_, '_> {
    /// The rank of a tensor.
    fn rank(&self, tensor: TensorId) -> Result<usize> {
        self.info(tensor).shape.ndim().ok_or_else(|| needs_shapes("the number of dimensions is unknown"))
    }

    /// The dimensions of a tensor; unknown ones are symbolic.
    fn dims(&self, tensor: TensorId) -> Result<Vec<i64>> {
        self.rank(tensor)?;
        let info = self.info(tensor);
        let dims = info.dims.as_ref().map(|dims| dims.to_vec());
        let dims = dims.or_else(|| info.shape.is_known().then(|| info.shape.dims().to_vec()));
        dims.ok_or_else(|| needs_shapes(&format!("the shape {} is not fully known", info.shape)))
    }

    /// The element type of a tensor.
    fn dtype(&self, tensor: TensorId) -> Result<DType> {
        let unknown =
            || Error::value("the element type of a tensor is unknown: the model does not declare that of its input");
        self.info(tensor).dtype.ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn rules_have_unique_names_and_descriptions() {
        let mut seen = HashSet::new();
        for rule in all() {
            let name = rule.signature.name.as_ref();
            assert!(seen.insert(name), "there are two rules {name}");
            assert!(ferromx_ops::registry::find(name).is_err(), "{name} is the name of an operator, too");
            assert!(!rule.doc.is_empty(), "{name}");
        }
    }

    #[test]
    fn signatures_follow_from_the_argument_types() {
        let text = |name: &str| signature(name).map(ToString::to_string).unwrap();
        assert_eq!(text("size"), "size(tensor: tensor, axis: int) -> int");
        assert_eq!(text("shape_tensor"), "shape_tensor(tensor: tensor, start: int, end?: int) -> tensor");
        let rule = signature("default_to").unwrap();
        assert!(rule.takes(2) && !rule.takes(1) && !rule.takes(3));
    }
}
