//! The ONNX operators that rules emit in exports.

use crate::ir::Value;

/// Declares the operators as variants with their attributes as fields, so that a wrong operator or attribute does not compile.
macro_rules! onnx_ops {
    ($($op:ident { $($attribute:ident),* })*) => {
        /// An ONNX operator with its attributes; those that are `Value::None` are omitted.
        #[derive(Clone, Debug)]
        #[allow(clippy::upper_case_acronyms, reason = "the names are those of ONNX")]
        pub(crate) enum OnnxOp {
            $(
                #[doc = concat!("`", stringify!($op), "`.")]
                $op {
                    $(
                        #[doc = concat!("The attribute `", stringify!($attribute), "`.")]
                        $attribute: Value,
                    )*
                },
            )*
        }

        impl OnnxOp {
            /// The name of the operator.
            pub(super) fn name(&self) -> &'static str {
                match self {
                    $(OnnxOp::$op { .. } => stringify!($op),)*
                }
            }

            /// The attributes.
            pub(super) fn attributes(self) -> Vec<(&'static str, Value)> {
                match self {
                    $(OnnxOp::$op { $($attribute),* } => vec![$((stringify!($attribute), $attribute)),*],)*
                }
            }
        }

        /// Operators and attributes.
        #[cfg(test)]
        const DECLARED: &[(&str, &[&str])] = &[$((stringify!($op), &[$(stringify!($attribute)),*])),*];
    };
}

onnx_ops! {
    Add {}
    Concat { axis }
    Div {}
    GRU { hidden_size, direction, linear_before_reset }
    Gather {}
    LSTM { hidden_size, direction }
    Max {}
    Min {}
    Mul {}
    RNN { hidden_size, direction, activations }
    Range {}
    Reshape {}
    Shape {}
    Slice {}
    Split { axis }
    Squeeze {}
    Sub {}
    TopK { axis, largest }
    Transpose { perm }
    Unique { axis }
    Unsqueeze {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Framework;

    #[test]
    fn onnx_has_the_operators_and_their_attributes() {
        let schema = Framework::Onnx.schema().unwrap();
        for (op, attributes) in DECLARED {
            let descriptor = schema.find("", op, schema.written_version("")).unwrap_or_else(|| panic!("{op}"));
            for attribute in *attributes {
                assert!(descriptor.attribute(attribute).is_some(), "{op} has no attribute {attribute}");
            }
        }
    }
}
