//! Operator definitions: static data for the engine, the C API, the Scala code generator and the documentation.
//!
//! - This file has [`OpDef`], which groups the properties of an operator by purpose.
//! - Each group has a file, with the methods that read it: `metadata`, `signature`, `parameters`, `inference`, `kernel` (with the context
//!   of kernels), `grad` (the gradients that operators declare) and `fusion` (their roles in fused kernels).
//! - `sparse_form` has the functions on sparse arrays, `args` the tensor arguments.
//! - `builder` has the functions that build a definition.
//! - `operator` has a definition with the type of its parameters, `operation` one with inputs and parameters, to be added to a graph.

mod args;
mod builder;
pub mod fusion;
pub mod grad;
mod inference;
mod kernel;
mod metadata;
mod operation;
mod operator;
mod parameters;
mod signature;
mod sparse_form;

use fusion::Fusion;
use grad::Gradient;

pub use crate::mode::Mode;
pub use args::{ArgDef, Deps, Inputs, arg, array_arg, check_count};
pub use inference::Inference;
pub use kernel::{Cache, DynamicFn, ForeignFn, Forward, KernelFn, Kernels, OpCtx, RandomKey, RandomSource};
pub use metadata::Metadata;
pub use operation::{Operation, ParamOf};
pub use operator::{AnyOperator, Operator};
pub use parameters::{Parameters, ParseStored, StoredNode, WithGraphs};
pub use signature::{FilledInput, InputIndices, Names, Signature};
pub use sparse_form::{DenseForm, GradientStorage, OutputStorage, SparseCall, SparseFn, SparseForm, SparseRule};

/// The definition of an operator.
#[derive(Clone, Copy)]
pub struct OpDef {
    /// Name.
    pub name: &'static str,
    /// Names, description and listed arguments.
    pub metadata: Metadata,
    /// Inputs and outputs.
    pub signature: Signature,
    /// The functions that parse, list and complete parameters.
    pub parameters: Parameters,
    /// The rules for shapes and element types.
    pub inference: Inference,
    /// The computation on dense arrays.
    pub kernels: Kernels,
    /// The computation on sparse arrays; without one, the dense fallback runs.
    pub sparse: Option<SparseForm>,
    /// The gradient.
    pub gradient: Gradient,
    /// How the operator can be fused with others.
    pub fusion: Fusion,
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::params! {
        /// Parameters of the test operator.
        struct TestParam {
            /// Number of arguments.
            num_args: i32 = required, where 1..=9;
            /// The axis.
            dim: i32 = 1;
            /// A small constant.
            eps: f64 = (f64::from(1e-3f32));
        }
    }

    static TEST: Operator<TestParam> = Operator::new("Test")
        .inputs(&[arg("lhs", "The left one."), arg("rhs", "The right one.")])
        .arg_order(&["lhs", "num_args", "dim", "eps", "rhs"]);

    #[test]
    fn metadata_has_the_order_and_the_type_strings_of_mxnet() {
        let all: Vec<_> = TEST.arguments().into_iter().map(|(n, t, _)| format!("{n}: {t}")).collect();
        assert_eq!(
            all,
            [
                "lhs: NDArray-or-Symbol",
                "num_args: int, required",
                "dim: int, optional, default='1'",
                "eps: double, optional, default=0.0010000000474974513",
                "rhs: NDArray-or-Symbol"
            ]
        );
    }

    #[test]
    fn invalid_parameters_are_errors() {
        let parse = |k: &str, v: &str| TEST.parse(&[(k.to_string(), v.to_string())].into_iter().collect());
        let parsed = parse("num_args", "3").unwrap();
        let p = parsed.get::<TestParam>();
        assert_eq!((p.num_args, p.dim, p.eps), (3, 1, f64::from(1e-3f32)));
        assert!(
            parse("num_args", "10").unwrap_err().to_string().contains("value 10 for Parameter num_args exceed bound")
        );
        assert!(
            parse("num_args", "x").unwrap_err().to_string().contains("format for num_args expect int but value='x': ")
        );
        assert!(parse("dim", "1").unwrap_err().to_string().contains("Required parameter num_args"));
        assert!(parse("nun_args", "1").unwrap_err().to_string().contains("Possible Arguments: num_args, dim, eps"));
    }
}
