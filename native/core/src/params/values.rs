//! The types of parameters: their text, and their names and defaults in MXNet's metadata.

use std::borrow::Cow;

use crate::dtype::DType;
use crate::shape::{Shape, split_tuple};

/// The type of an operator parameter.
pub trait ParamValue: Sized {
    /// The type name that starts the metadata's type string, such as `int (non-negative)`.
    fn type_name() -> Cow<'static, str>;
    /// Parses the attribute text.
    fn parse(text: &str) -> Result<Self, String>;
    /// The attribute text, which [`ParamValue::parse`] accepts.
    fn print(&self) -> String;
    /// The default in the metadata; MXNet quotes some types.
    fn print_default(&self) -> String {
        self.print()
    }
    /// The default as an item of a tuple, for which MXNet prints fewer digits.
    fn print_default_item(&self) -> String {
        self.print()
    }
    /// The separator between the type and `optional`; enumerations have no space after the comma.
    const SEPARATOR: &'static str = ", ";
    /// Whether the type string is only the type.
    const TYPE_ONLY: bool = false;
}

/// Whether the text denotes an absent value.
fn is_none(text: &str) -> bool {
    text.trim() == "None"
}

macro_rules! int_param {
    ($($t:ty, $name:literal, $quoted:literal;)*) => {$(
        impl ParamValue for $t {
            fn type_name() -> Cow<'static, str> { $name.into() }
            fn parse(text: &str) -> Result<Self, String> {
                text.trim().parse().map_err(|_| format!("'{text}' is not a valid {} ({} to {})", $name, <$t>::MIN, <$t>::MAX))
            }
            fn print(&self) -> String { self.to_string() }
            fn print_default(&self) -> String { if $quoted { format!("'{self}'") } else { self.to_string() } }
        }
    )*};
}
int_param! {
    i32, "int", true;
    u32, "int (non-negative)", false;
    i64, "long", false;
    u64, "long (non-negative)", false;
}

/// C's `%.{digits}g`: the shortest of fixed and exponent form with that many significant digits, without trailing zeros.
pub fn print_g(x: f64, digits: usize) -> String {
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.into();
    }
    if x == 0.0 {
        return if x.is_sign_negative() { "-0" } else { "0" }.into();
    }
    let sci = format!("{:.*e}", digits - 1, x);
    let (mantissa, exp) = sci.split_once('e').unwrap_or((&sci, "0"));
    let exp: i32 = exp.parse().unwrap_or(0);
    let trim = |s: &str| match s.contains('.') {
        true => s.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => s.to_string(),
    };
    if exp < -4 || exp >= digits as i32 {
        let sign = if exp < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), exp.abs());
    }
    trim(&format!("{:.*}", (digits as i32 - 1 - exp).max(0) as usize, x))
}

/// Parses a number, which may have a suffix as in C: `0.5f`. As in MXNet, nothing may follow it, not even a space.
fn parse_float(text: &str) -> Result<f64, String> {
    let trimmed = text.trim_start();
    let is_number = |text: &&str| text.ends_with(|c: char| c.is_ascii_digit() || c == '.');
    let number = trimmed.strip_suffix(['f', 'F']).filter(is_number).unwrap_or(trimmed);
    number.parse().map_err(|_| format!("'{text}' is not a number"))
}

impl ParamValue for f32 {
    fn type_name() -> Cow<'static, str> {
        "float".into()
    }
    fn parse(text: &str) -> Result<Self, String> {
        parse_float(text).map(|x| x as f32)
    }
    fn print(&self) -> String {
        print_g(f64::from(*self), 9)
    }
    fn print_default_item(&self) -> String {
        print_g(f64::from(*self), 6)
    }
}

impl ParamValue for f64 {
    fn type_name() -> Cow<'static, str> {
        "double".into()
    }
    fn parse(text: &str) -> Result<Self, String> {
        parse_float(text)
    }
    fn print(&self) -> String {
        print_g(*self, 17)
    }
}

impl ParamValue for bool {
    fn type_name() -> Cow<'static, str> {
        "boolean".into()
    }
    fn parse(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(format!("'{text}' is not a boolean: write True or False")),
        }
    }
    fn print(&self) -> String {
        if *self { "True" } else { "False" }.into()
    }
    fn print_default(&self) -> String {
        if *self { "1" } else { "0" }.into()
    }
}

impl ParamValue for String {
    fn type_name() -> Cow<'static, str> {
        "string".into()
    }
    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }
    fn print(&self) -> String {
        self.clone()
    }
    fn print_default(&self) -> String {
        format!("'{self}'")
    }
}

impl ParamValue for char {
    fn type_name() -> Cow<'static, str> {
        "char".into()
    }
    fn parse(text: &str) -> Result<Self, String> {
        let mut chars = text.trim_ascii().chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) => Ok(c),
            _ => Err(format!("'{text}' is not a single character")),
        }
    }
    fn print(&self) -> String {
        self.to_string()
    }
}

/// A tuple as MXNet prints it: `[1,2]`.
fn print_tuple<T>(items: &[T], f: impl Fn(&T) -> String) -> String {
    let parts: Vec<_> = items.iter().map(f).collect();
    format!("[{}]", parts.join(","))
}

impl ParamValue for Shape {
    fn type_name() -> Cow<'static, str> {
        "Shape(tuple)".into()
    }
    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
    }
    fn print(&self) -> String {
        self.to_string()
    }
}

/// `Shape or None`: a shape that may be absent, which differs from the empty shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct ShapeOrNone(pub Option<Shape>);

impl ParamValue for ShapeOrNone {
    fn type_name() -> Cow<'static, str> {
        "Shape or None".into()
    }
    fn parse(text: &str) -> Result<Self, String> {
        if is_none(text) { Ok(ShapeOrNone(None)) } else { text.parse().map(|s| ShapeOrNone(Some(s))) }
    }
    fn print(&self) -> String {
        self.0.as_ref().map_or("None".into(), Shape::to_string)
    }
}

/// A tuple whose items may be absent (`(None, 3)`), as in slices; its metadata type is `Shape(tuple)`. None is the empty tuple.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct OptTuple(pub Vec<Option<i64>>);

impl ParamValue for OptTuple {
    fn type_name() -> Cow<'static, str> {
        "Shape(tuple)".into()
    }
    fn parse(text: &str) -> Result<Self, String> {
        let item = |t: &str| if is_none(t) { Ok(None) } else { i64::parse(t).map(Some) };
        if is_none(text.trim()) {
            return Ok(OptTuple::default());
        }
        split_tuple(text)?.into_iter().map(item).collect::<Result<_, _>>().map(OptTuple)
    }
    fn print(&self) -> String {
        print_tuple(&self.0, |x| x.map_or("None".into(), |x| x.to_string()))
    }
}

/// `tuple of <T>`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Tuple<T>(pub Vec<T>);

impl<T: ParamValue> ParamValue for Tuple<T> {
    fn type_name() -> Cow<'static, str> {
        format!("tuple of <{}>", T::type_name()).into()
    }
    fn parse(text: &str) -> Result<Self, String> {
        split_tuple(text)?.into_iter().map(T::parse).collect::<Result<_, _>>().map(Tuple)
    }
    fn print(&self) -> String {
        print_tuple(&self.0, T::print)
    }
    fn print_default(&self) -> String {
        print_tuple(&self.0, T::print_default_item)
    }
}

impl<T: ParamValue> ParamValue for Option<T> {
    fn type_name() -> Cow<'static, str> {
        // MXNet lists None among the values of an optional enumeration.
        let inner = T::type_name();
        match inner.strip_prefix('{') {
            Some(values) => format!("{{None, {values}").into(),
            None => format!("{inner} or None").into(),
        }
    }
    fn parse(text: &str) -> Result<Self, String> {
        // As in MXNet, an optional number may be followed by spaces, and an optional integer by the suffix of Python 2.
        let text = text.trim_end();
        let is_integer = || ["int", "long"].contains(&&*T::type_name());
        let number = text.strip_suffix('L').filter(|n| n.ends_with(|c: char| c.is_ascii_digit()) && is_integer());
        if is_none(text) { Ok(None) } else { T::parse(number.unwrap_or(text)).map(Some) }
    }
    fn print(&self) -> String {
        self.as_ref().map_or("None".into(), T::print)
    }
    fn print_default(&self) -> String {
        // Types that quote their default also quote an absent one.
        let quotes = T::type_name() == "int" || T::type_name().starts_with('{');
        match self {
            None if quotes => "'None'".into(),
            None => "None".into(),
            Some(x) => x.print_default(),
        }
    }
    const SEPARATOR: &'static str = T::SEPARATOR;
}

/// A parameter whose type string is only the type, without `required` or a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeOnly<T>(pub T);

impl<T: ParamValue> ParamValue for TypeOnly<T> {
    fn type_name() -> Cow<'static, str> {
        T::type_name()
    }
    fn parse(text: &str) -> Result<Self, String> {
        T::parse(text).map(TypeOnly)
    }
    fn print(&self) -> String {
        self.0.print()
    }
    const TYPE_ONLY: bool = true;
}

/// A parameter whose type string lacks the type before `optional` or `required`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Untyped<T>(pub T);

impl<T: ParamValue> ParamValue for Untyped<T> {
    fn type_name() -> Cow<'static, str> {
        "".into()
    }
    fn parse(text: &str) -> Result<Self, String> {
        T::parse(text).map(Untyped)
    }
    fn print(&self) -> String {
        self.0.print()
    }
}

/// Declares an enumeration type for parameters, with its text values in MXNet's order.
#[macro_export]
macro_rules! param_enum {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $name { $($(#[$vmeta])* #[doc = concat!("`", $text, "`.")] $variant),+ }

        impl $crate::params::ParamValue for $name {
            fn type_name() -> std::borrow::Cow<'static, str> { $crate::params::enum_type(&[$($text),+]).into() }
            fn parse(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err($crate::params::enum_error(text, &[$($text),+])),
                }
            }
            fn print(&self) -> String { match self { $(Self::$variant => $text),+ }.into() }
            fn print_default(&self) -> String { format!("'{}'", self.print()) }
            const SEPARATOR: &'static str = ",";
        }
    };
}

/// The type string of an enumeration: `{'a', 'b'}`.
pub fn enum_type(values: &[&str]) -> String {
    let quoted: Vec<_> = values.iter().map(|v| format!("'{v}'")).collect();
    format!("{{{}}}", quoted.join(", "))
}

/// The error message for a text that is not among the values.
pub fn enum_error(text: &str, values: &[&str]) -> String {
    format!("'{text}' is not one of {}", values.join(", "))
}

/// A `dtype` parameter restricted to a set of types; `SET` lists them in alphabetical order of their names.
macro_rules! dtype_set {
    ($($(#[$meta:meta])* $name:ident [$($d:ident),+];)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(pub DType);

        impl $name {
            const SET: &'static [DType] = &[$(DType::$d),+];
        }

        impl ParamValue for $name {
            fn type_name() -> Cow<'static, str> {
                enum_type(&Self::SET.iter().map(|d| d.name()).collect::<Vec<_>>()).into()
            }
            fn parse(text: &str) -> Result<Self, String> {
                Self::SET.iter().find(|d| d.name() == text).map(|d| $name(*d)).ok_or_else(|| {
                    enum_error(text, &Self::SET.iter().map(|d| d.name()).collect::<Vec<_>>())
                })
            }
            fn print(&self) -> String { self.0.name().into() }
            fn print_default(&self) -> String { format!("'{}'", self.0.name()) }
            const SEPARATOR: &'static str = ",";
        }
    )*};
}
dtype_set! {
    /// All element types.
    AnyDType [BF16, Bool, F16, F32, F64, I32, I64, I8, U8];
    /// All types but `bool`.
    NumDType [BF16, F16, F32, F64, I32, I64, I8, U8];
    /// The floating-point types.
    FloatDType [F16, F32, F64];
    /// The types that `norm` accumulates in.
    NormDType [F16, F32, F64, I32, I64, I8];
    /// The output types of Bernoulli samples.
    BernoulliDType [Bool, F16, F32, F64, I32, U8];
    /// The output types of NumPy sums.
    SumDType [Bool, F16, F32, F64, I32, I64, I8];
    /// The types of indices.
    IndexDType [F16, F32, F64, I32, I64, U8];
    /// The output types of sampled class indices.
    ClassDType [F16, F32, F64, I32, U8];
}

/// An optional floating-point type whose type string quotes `'None'`, as random operators have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SampleDType(pub Option<DType>);

impl ParamValue for SampleDType {
    fn type_name() -> Cow<'static, str> {
        enum_type(&["None", "float16", "float32", "float64"]).into()
    }
    fn parse(text: &str) -> Result<Self, String> {
        Ok(SampleDType(Option::<FloatDType>::parse(text)?.map(|d| d.0)))
    }
    fn print(&self) -> String {
        self.0.map_or("None", DType::name).into()
    }
    fn print_default(&self) -> String {
        format!("'{}'", self.print())
    }
    const SEPARATOR: &'static str = ",";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_read_in_any_case() {
        for text in ["True", "true", "TRUE", "1"] {
            assert_eq!(bool::parse(text), Ok(true), "{text}");
        }
        for text in ["False", "false", "FALSE", "0"] {
            assert_eq!(bool::parse(text), Ok(false), "{text}");
        }
        assert!(bool::parse("yes").unwrap_err().contains("write True or False"));
    }

    #[test]
    fn none_is_a_tuple_without_items() {
        let items = |text| OptTuple::parse(text).map(|t| t.0);
        assert_eq!(items("None"), Ok(vec![]));
        assert_eq!(items("(None,)"), Ok(vec![None]));
        assert_eq!(items("[None, 3]"), Ok(vec![None, Some(3)]));
    }

    #[test]
    fn integers_have_no_suffix_and_are_no_booleans() {
        assert_eq!(i32::parse(" 3 "), Ok(3));
        for text in ["3L", "True", "3.0", "3,"] {
            assert!(i32::parse(text).unwrap_err().contains("is not a valid int"), "{text}");
        }
        assert_eq!(Option::<i32>::parse("3L "), Ok(Some(3)));
        assert_eq!(Option::<f64>::parse("0.5 "), Ok(Some(0.5)));
        assert_eq!(Option::<f64>::parse("None"), Ok(None));
        assert_eq!(Option::<f64>::parse("None "), Ok(None));
    }

    #[test]
    fn numbers_may_have_the_suffix_of_c() {
        assert_eq!(f32::parse("0.5f"), Ok(0.5));
        assert_eq!(f64::parse(" 2.F"), Ok(2.0));
        assert_eq!(f64::parse("inf"), Ok(f64::INFINITY));
        for text in ["f", "0.5ff", "0.5d", "", "0.5 ", "True"] {
            assert!(f64::parse(text).unwrap_err().contains("is not a number"), "{text}");
        }
    }
}
