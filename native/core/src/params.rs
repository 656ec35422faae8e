//! Typed operator parameters. A [`params!`](crate::params!) declaration defines the struct, the parser with range checks, and the
//! operator metadata, whose type strings equal those of MXNet 1.9.1. `values` has the types of parameters.

use std::any::Any;
use std::borrow::Cow;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::error::{Error, Result};

mod values;

pub use values::*;

/// Attributes as text, in the order in which they were given.
pub type Attrs = IndexMap<String, String>;

/// A parameter, as the operator metadata lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    /// Parameter name.
    pub name: &'static str,
    /// Description: meaning, unit and range.
    pub doc: Cow<'static, str>,
    /// MXNet's type string, such as `int, optional, default='1'`.
    pub type_string: String,
}

/// The parameters of an operator; implemented by [`params!`](crate::params!).
pub trait OpParams: Any + Send + Sync + Sized {
    /// The parameters in metadata order.
    fn fields() -> Vec<FieldInfo>;
    /// Parses the attributes. Names that begin and end with `__` belong to the graph and are ignored.
    ///
    /// # Errors
    /// An unknown name, a missing required parameter, invalid text, a value out of range.
    fn parse(attrs: &Attrs) -> Result<Self>;
    /// The name of the parameter in this field of the struct; they differ if the name is not a Rust identifier.
    fn name_of(field: &'static str) -> &'static str {
        field
    }
}

/// Parameters with a text form; implemented by [`params!`](crate::params!).
pub trait PrintParams: OpParams {
    /// All parameters by name, as text that [`OpParams::parse`] accepts.
    fn print(&self) -> Vec<(&'static str, String)>;
}

/// A numeric type of parameters that can have a range.
pub trait Ranged: PartialEq + Display {
    /// The largest value of the type; the description of a range up to it omits the upper bound.
    const LARGEST: Self;
}

macro_rules! ranged {
    ($($t:ty),*) => {$(
        impl Ranged for $t {
            const LARGEST: $t = <$t>::MAX;
        }
    )*};
}
ranged!(i32, u32, i64, u64, f32, f64);

/// A range in words, such as `at least 1` or `from 0 to 1`.
pub fn range_text<T: Ranged>(range: &RangeInclusive<T>) -> String {
    match (range.start(), range.end()) {
        (low, high) if *high == T::LARGEST => format!("at least {low}"),
        (low, high) if low == high => format!("{low} only"),
        (low, high) => format!("from {low} to {high}"),
    }
}

/// Builds the metadata type string of a field.
pub fn type_string<T: ParamValue>(default: Option<&T>) -> String {
    match default {
        _ if T::TYPE_ONLY => T::type_name().into(),
        None => format!("{}, required", T::type_name()),
        Some(d) => format!("{}{}optional, default={}", T::type_name(), T::SEPARATOR, d.print_default()),
    }
}

/// Parses one field.
pub fn parse_field<T: ParamValue>(attrs: &Attrs, name: &str, default: Option<T>) -> Result<T> {
    match (attrs.get(name), default) {
        (Some(text), _) => T::parse(text).map_err(|reason| invalid_value(name, &T::type_name(), text, &reason)),
        (None, Some(d)) => Ok(d),
        (None, None) => Err(Error::Param(format!("Required parameter {name} of {} is not presented", T::type_name()))),
    }
}

/// The error for a text that is not a value of the parameter, with MXNet's words first.
fn invalid_value(name: &str, type_name: &str, text: &str, reason: &str) -> Error {
    let is_enumeration = type_name.starts_with('{');
    Error::Param(if is_enumeration {
        format!("Invalid Input: '{text}', valid values are: {type_name} (parameter {name})")
    } else {
        format!("Invalid Parameter format for {name} expect {type_name} but value='{text}': {reason}")
    })
}

/// The error message for a value outside the range, in MXNet's words.
pub fn range_error<T: Ranged>(value: &T, name: &str, range: &RangeInclusive<T>) -> String {
    let (low, high) = (range.start(), range.end());
    if *high == T::LARGEST {
        format!("value {value} for Parameter {name} should be greater equal to {low}")
    } else {
        format!("value {value} for Parameter {name} exceed bound [{low},{high}]")
    }
}

/// Returns an error for an attribute that is not among the fields.
pub fn refuse_unknown(attrs: &Attrs, fields: &[&str]) -> Result<()> {
    let hidden = |k: &str| k.len() > 4 && k.starts_with("__") && k.ends_with("__");
    match attrs.keys().find(|k| !fields.contains(&k.as_str()) && !hidden(k)) {
        None => Ok(()),
        Some(k) if fields.is_empty() => {
            Err(Error::Param(format!("Cannot find argument '{k}': there are no parameters")))
        }
        Some(k) => Err(Error::Param(format!("Cannot find argument '{k}', Possible Arguments: {}", fields.join(", ")))),
    }
}

/// Declares an operator's parameters.
///
/// Each field has a doc comment (its description in metadata and ScalaDoc), a type, and either `required` or a default (one token, or an
/// expression in parentheses). `where lo..=hi` adds a range, which is checked and described; `as "text"` sets a name that is not a Rust
/// identifier.
///
/// ```
/// ferromx_core::params! {
///     /// Parameters of `Example`.
///     pub struct ExampleParam {
///         /// Number of groups.
///         num: i32 = required, where 1..=100;
///         /// Whether to add a bias.
///         flag: bool = true;
///     }
/// }
/// use ferromx_core::params::{OpParams, Attrs};
/// assert_eq!(ExampleParam::fields()[0].doc, "Number of groups. Range: from 1 to 100.");
/// assert_eq!(ExampleParam::fields()[1].type_string, "boolean, optional, default=1");
/// let attrs: Attrs = [("num".to_string(), "200".to_string())].into_iter().collect();
/// assert!(ExampleParam::parse(&attrs).is_err());
/// ```
#[macro_export]
macro_rules! params {
    (@default required) => { None };
    (@default ($default:expr)) => { Some($default) };
    (@default $default:tt) => { Some($default) };
    (@check $name:expr, $value:expr,) => {};
    (@check $name:expr, $value:expr, $range:expr) => {
        if !($range).contains($value) {
            return Err($crate::error::Error::Param($crate::params::range_error($value, $name, &$range)));
        }
    };
    (@doc $doc:expr,) => { ::std::borrow::Cow::Borrowed($doc) };
    (@doc $doc:expr, $range:expr) => {
        ::std::borrow::Cow::Owned(format!("{} Range: {}.", $doc, $crate::params::range_text(&$range)))
    };
    ($(#[$meta:meta])* $vis:vis struct $struct:ident {
        $($(#[doc = $doc:literal])+ $name:ident $(as $text:literal)? : $ty:ty = $default:tt $(, where $range:expr)?;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        $vis struct $struct { $($(#[doc = $doc])+ pub $name: $ty,)* }

        impl $crate::params::OpParams for $struct {
            fn fields() -> Vec<$crate::params::FieldInfo> {
                vec![$($crate::params::FieldInfo {
                    name: $crate::params!(@name $name $($text)?),
                    doc: $crate::params!(@doc concat!($($doc),+).trim_ascii(), $($range)?),
                    type_string: $crate::params::type_string::<$ty>(
                        Option::<$ty>::as_ref(&$crate::params!(@default $default))),
                },)*]
            }
            fn parse(attrs: &$crate::params::Attrs) -> $crate::error::Result<Self> {
                $crate::params::refuse_unknown(attrs, &[$($crate::params!(@name $name $($text)?)),*])?;
                $(
                    let $name: $ty = $crate::params::parse_field(
                        attrs, $crate::params!(@name $name $($text)?), $crate::params!(@default $default))?;
                    $crate::params!(@check $crate::params!(@name $name $($text)?), &$name, $($range)?);
                )*
                Ok($struct { $($name),* })
            }
            #[inline]
            fn name_of(field: &'static str) -> &'static str {
                match field {
                    $(stringify!($name) => $crate::params!(@name $name $($text)?),)*
                    _ => field,
                }
            }
        }

        impl $crate::params::PrintParams for $struct {
            #[inline]
            fn print(&self) -> Vec<(&'static str, String)> {
                vec![$(($crate::params!(@name $name $($text)?), $crate::params::ParamValue::print(&self.$name))),*]
            }
        }
    };
    (@name $name:ident) => { stringify!($name) };
    (@name $name:ident $text:literal) => { $text };
}

/// The parameters of an operator without any. As in MXNet, it accepts and ignores all attributes.
#[derive(Clone, Debug)]
pub struct NoParams {}

impl OpParams for NoParams {
    fn fields() -> Vec<FieldInfo> {
        Vec::new()
    }

    fn parse(_: &Attrs) -> Result<Self> {
        Ok(NoParams {})
    }
}

impl PrintParams for NoParams {
    fn print(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// The parsed parameters of an operator call; cloning shares them.
#[derive(Clone)]
pub struct Params(Arc<dyn Any + Send + Sync>);

impl Params {
    /// Wraps parsed parameters.
    pub fn new<P: Any + Send + Sync>(p: P) -> Params {
        Params(Arc::new(p))
    }

    /// The parameters, if they are of this type.
    pub fn downcast<P: Any>(&self) -> Option<&P> {
        self.0.downcast_ref()
    }

    /// The parameters as the type that the operator declares.
    ///
    /// # Panics
    /// Panics if the operator declares a different type: a mistake in its definition, which any test of it finds.
    #[track_caller]
    #[expect(clippy::panic, reason = "a mistake in an operator's definition")]
    pub fn get<P: Any>(&self) -> &P {
        match self.downcast() {
            Some(p) => p,
            None => panic!("operator parameters are not of type {}", std::any::type_name::<P>()),
        }
    }
}

impl std::fmt::Debug for Params {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Params")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;

    params! {
        /// Parameters of different types.
        struct VariedParam {
            /// A renamed one.
            n as "N": i64 = required;
            /// A number that needs all digits.
            scale: f64 = 0.1;
            /// A number that needs all digits of its type.
            slope: f32 = 0.1;
            /// An absent one.
            axis: Option<i32> = None;
            /// A shape that may be absent.
            axes: ShapeOrNone = (ShapeOrNone(None));
            /// A shape of unknown rank.
            shape: Shape = (Shape::unknown());
            /// A tuple with absent items.
            begin: OptTuple = (OptTuple(Vec::new()));
            /// A Boolean.
            flag: bool = false;
        }
    }

    #[test]
    fn printed_parameters_are_parsed_to_the_same_ones() {
        let parse = |attrs: &[(&str, &str)]| {
            VariedParam::parse(&attrs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()).unwrap()
        };
        let given = [("axis", "-1"), ("axes", "(0, 2)"), ("shape", "(2, -1)"), ("begin", "(None, 3)"), ("flag", "1")];
        for more in [&[][..], &given, &[("scale", "-1e-300"), ("slope", "1e30"), ("begin", "(1,)"), ("axes", "()")]] {
            let p = parse(&[&[("N", "5")], more].concat());
            let printed = p.print();
            let attrs: Vec<_> = printed.iter().map(|(k, v)| (*k, v.as_str())).collect();
            assert_eq!(format!("{:?}", parse(&attrs)), format!("{p:?}"));
        }
        assert_eq!(["n", "scale"].map(VariedParam::name_of), ["N", "scale"]);
    }
}
