//! Operator definitions: static data for the engine, the C API, the Scala code generator and the documentation.
//!
//! - This file has [`OpDef`] and the properties of a call that it determines; `builder` has the functions that build one.
//! - `operator` has a definition with the type of its parameters, `operation` one with inputs and parameters, to be added to a graph.
//! - `args` has the tensor arguments, `kernel` the functions that compute and their context, `sparse_form` those on sparse arrays.
//! - `grad` has the gradients that operators declare, `fusion` their roles in fused kernels.

mod args;
mod builder;
pub mod fusion;
pub mod grad;
mod kernel;
mod operation;
mod operator;
mod sparse_form;

use std::borrow::Cow;
use std::sync::Arc;

use fusion::Role;
use grad::Grad;

use crate::context::DeviceType;
use crate::error::{Error, Result};
use crate::infer::{InferDType, InferShape};
use crate::params::{Attrs, FieldInfo, OpParams, Params};
use crate::subgraph::Subgraph;

pub use args::{ArgDef, Deps, Inputs, arg, check_count};
pub use kernel::{Cache, DynamicFn, ForeignFn, Forward, KernelFn, OpCtx, RandomKey, RandomSource};
pub use operation::{Operation, ParamOf};
pub use operator::{AnyOperator, Operator};
pub use sparse_form::{DenseForm, GradientStorage, OutputStorage, SparseCall, SparseFn, SparseForm, SparseRule};

/// Returns indices of inputs for the given parameters.
pub type InputIndices = fn(&Params) -> &[usize];

/// Returns the index of the input that is filled with a constant, and the constant; `None` if the parameters request no filling.
pub type FilledInput = fn(&Params) -> Option<(usize, f64)>;

/// Adds the graphs of an operator to its parameters.
pub type WithGraphs = fn(&Params, Vec<Arc<dyn Subgraph>>) -> Result<Params>;

/// The arity of a node in a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredNode {
    /// Number of inputs, auxiliary states included.
    pub inputs: usize,
    /// Indices of the auxiliary states, which are the last inputs.
    pub states: Vec<usize>,
    /// Number of outputs.
    pub outputs: usize,
}

/// Parses the parameters of a node in a file, whose attributes may be incomplete.
pub type ParseStored = fn(&Attrs, &StoredNode) -> Result<Params>;

/// Returns the names of inputs or outputs for the given parameters.
pub type Names = fn(&Params) -> Vec<String>;

/// The definition of an operator.
#[derive(Clone, Copy)]
pub struct OpDef {
    /// Name.
    pub name: &'static str,
    /// Alternative names.
    pub aliases: &'static [&'static str],
    /// Description: formula, shapes, source.
    pub doc: &'static str,
    /// Tensor inputs, mutable ones included.
    pub inputs: Inputs,
    /// Named inputs before the variadic ones.
    pub leading: &'static [ArgDef],
    /// Number of graphs and inputs in the metadata, which omits the auxiliary states of MXNet's oldest operators.
    pub listed: usize,
    /// Whether the metadata lists the parameters; MXNet omits those of some internal operators.
    pub lists_params: bool,
    /// Graph arguments, of type `Symbol`, which precede the tensor inputs.
    pub graph_args: &'static [ArgDef],
    /// Whether a node of the operator is replaced by its graph when it is created.
    pub expands: bool,
    /// Inputs that the operator mutates: auxiliary states, optimizer states.
    pub mutates: &'static [usize],
    /// Shape inference.
    pub infer_shape: InferShape,
    /// Element type inference.
    pub infer_dtype: InferDType,
    /// Computation on the CPU.
    pub forward: Forward,
    /// Gradient.
    pub grad: Grad,
    /// The sparse implementation; without one, the dense fallback runs.
    pub sparse: Option<SparseForm>,
    /// The storage types of the gradients that `simple_bind` allocates.
    pub gradient_storage: GradientStorage,
    /// Pairs (input, output) that may be the same memory.
    pub inplace: &'static [(usize, usize)],
    /// Whether the kernel handles [`Req::Add`](crate::storage::Req::Add).
    pub accumulates: bool,
    /// Whether the operator is elementwise on operands of equal shapes.
    pub pointwise: bool,
    /// Whether it broadcasts, and so is elementwise on operands of equal shapes.
    pub broadcasts: bool,
    /// Whether its kernel consists of loops, which can be recorded.
    pub consists_of_loops: bool,
    /// Index of the first scalar input: the operator is elementwise if this input and those after it have one element each.
    pub first_scalar: usize,
    /// Its role in epilogue fusion.
    pub role: Role,
    /// Whether it draws random numbers, so that common subexpression elimination must not merge its nodes.
    pub random: bool,
    /// Whether MXNet defines it in its oldest interface, so that monitors name gradients after the inputs.
    pub is_legacy: bool,
    /// Whether MXNet registers a name for a single input `data`; monitors show others as `input0`.
    pub names_data: bool,
    /// Whether MXNet registers names for outputs `output`, `output0`, ...; hooks show an index for others.
    pub names_outputs: bool,
    /// Initializers (as the JSON text of an `__init__` attribute) of variables that have none, by input.
    pub input_init: &'static [(usize, &'static str)],
    /// Metadata order of all arguments, if it is not "inputs, then parameters".
    pub arg_order: &'static [&'static str],
    parse: fn(&Attrs) -> Result<Params>,
    fields: fn() -> Vec<FieldInfo>,
    num_inputs: Option<fn(&Params) -> usize>,
    input_names: Option<Names>,
    mutates_by: Option<InputIndices>,
    fills: Option<FilledInput>,
    with_graphs: Option<WithGraphs>,
    num_outputs: fn(&Params) -> usize,
    num_visible: Option<fn(&Params) -> usize>,
    output_names: Option<Names>,
    parse_stored: Option<ParseStored>,
    title: Option<fn(&Params) -> &str>,
    ready: Option<fn(&Params) -> Result<()>>,
    reusable: Option<fn(&Params) -> bool>,
}

impl OpDef {
    /// Parses attributes.
    ///
    /// # Errors
    /// Those of the parameter struct, with the operator's name.
    pub fn parse(&self, attrs: &Attrs) -> Result<Params> {
        let parse = |attrs: &Attrs| {
            let params = (self.parse)(attrs).and_then(|params| self.check_arity(&params).map(|()| params));
            params.map_err(|e| e.in_operator(self.name, self.name))
        };
        // Every variadic operator accepts its number of inputs, even if it is not listed among its parameters.
        let count = self.key_var_num_args();
        if count.is_empty() || !attrs.contains_key(count) || self.fields().iter().any(|f| f.name == count) {
            return parse(attrs);
        }
        parse(&attrs.iter().filter(|(k, _)| *k != count).map(|(k, v)| (k.clone(), v.clone())).collect())
    }

    /// Checks the numbers of inputs and outputs; see [`check_count`].
    fn check_arity(&self, params: &Params) -> Result<()> {
        check_count("inputs", self.num_inputs(params).unwrap_or(0))?;
        check_count("outputs", self.num_outputs(params))
    }

    /// Parses the attributes of a node in a file.
    ///
    /// # Errors
    /// See [`OpDef::parse`].
    pub fn parse_in_file(&self, attrs: &Attrs, stored: &StoredNode) -> Result<Params> {
        match self.parse_stored {
            Some(f) => f(attrs, stored).map_err(|e| e.in_operator(self.name, self.name)),
            None => self.parse(attrs),
        }
    }

    /// The name of a call with these parameters in messages, if [`Operator::title_by`] sets one.
    pub fn title<'p>(&self, params: &'p Params) -> Option<&'p str> {
        self.title.map(|f| f(params))
    }

    /// Checks that a call with these parameters can run.
    ///
    /// # Errors
    /// Something is missing; the message says how to supply it.
    pub fn ready(&self, params: &Params) -> Result<()> {
        self.ready.map_or(Ok(()), |f| f(params))
    }

    /// True if several calls may share these parameters, as long as no user operator is [registered](crate::user_op::generation).
    pub fn reusable(&self, params: &Params) -> bool {
        let by_default = !matches!(self.forward, Forward::Foreign(_));
        self.reusable.map_or(by_default, |f| f(params))
    }

    /// The gradient of a call with these parameters; never [`Grad::By`].
    pub fn gradient(&self, params: &Params) -> Grad {
        match self.grad {
            Grad::By(f) => f(params),
            grad => grad,
        }
    }

    /// Adds the operator's graphs to its parameters.
    ///
    /// # Errors
    /// A wrong number of graphs, or graphs that contradict the parameters.
    pub fn attach(&self, params: Params, graphs: Vec<Arc<dyn Subgraph>>) -> Result<Params> {
        if graphs.len() != self.graph_args.len() {
            let names: Vec<_> = self.graph_args.iter().map(|a| a.name).collect();
            return Err(Error::Value(format!(
                "{} graphs were given; operator {} takes {}: {}",
                graphs.len(),
                self.name,
                names.len(),
                names.join(", ")
            )));
        }
        match self.with_graphs {
            Some(f) => f(&params, graphs).map_err(|e| e.in_operator(self.name, self.name)),
            None => Ok(params),
        }
    }

    /// The parameters, as the metadata lists them.
    pub fn fields(&self) -> Vec<FieldInfo> {
        (self.fields)()
    }

    /// Number of inputs, mutable ones included; `None` if the parameters do not determine it (variadic operators).
    pub fn num_inputs(&self, params: &Params) -> Option<usize> {
        match (self.num_inputs, self.inputs) {
            (Some(f), _) => Some(f(params)),
            (None, Inputs::Fixed(args)) => Some(args.len()),
            (None, Inputs::Variadic { .. }) => None,
        }
    }

    /// Indices of the inputs that the operator mutates.
    pub fn mutated<'p>(&self, params: &'p Params) -> &'p [usize] {
        self.mutates_by.map_or(self.mutates, |f| f(params))
    }

    /// Index and value of the input that the operator fills with a constant.
    pub fn filled(&self, params: &Params) -> Option<(usize, f64)> {
        self.fills.and_then(|f| f(params))
    }

    /// Names of `n` inputs.
    pub fn input_names(&self, params: &Params, n: usize) -> Vec<String> {
        match (self.input_names, self.inputs) {
            (Some(f), _) => f(params),
            (None, Inputs::Fixed(args)) => args.iter().take(n).map(|a| a.name.to_string()).collect(),
            (None, Inputs::Variadic { .. }) => (0..n).map(|i| format!("arg{i}")).collect(),
        }
    }

    /// Number of outputs, hidden ones included.
    pub fn num_outputs(&self, params: &Params) -> usize {
        (self.num_outputs)(params)
    }

    /// Number of visible outputs.
    pub fn num_visible(&self, params: &Params) -> usize {
        self.num_visible.map_or_else(|| self.num_outputs(params), |f| f(params))
    }

    /// Names of all outputs, without the node's name.
    pub fn output_names(&self, params: &Params) -> Vec<String> {
        match (self.output_names, self.num_outputs(params)) {
            (Some(f), _) => f(params),
            (None, 1) => vec!["output".into()],
            (None, n) => (0..n).map(|i| format!("output{i}")).collect(),
        }
    }

    /// The computation on a type of device.
    ///
    /// # Errors
    /// There is no backend for the device.
    pub fn forward_on(&self, device: DeviceType) -> Result<Forward> {
        match device {
            DeviceType::Gpu => Err(Error::Unsupported(format!("operator {} has no GPU kernel", self.name))),
            _ => Ok(self.forward),
        }
    }

    /// All arguments in metadata order: name, type string, description.
    pub fn arguments(&self) -> Vec<(&'static str, String, Cow<'static, str>)> {
        let tensors: Vec<ArgDef> = match self.inputs {
            Inputs::Fixed(args) => args.to_vec(),
            Inputs::Variadic { arg, .. } => vec![arg],
        };
        let mut all: Vec<_> = self
            .graph_args
            .iter()
            .chain(self.leading)
            .chain(&tensors)
            .take(self.listed)
            .map(|a| (a.name, a.type_string.to_string(), Cow::Borrowed(a.doc)))
            .collect();
        if self.lists_params {
            all.extend(self.fields().into_iter().map(|f| (f.name, f.type_string, f.doc)));
        }
        if !self.arg_order.is_empty() {
            all.sort_by_key(|a| self.arg_order.iter().position(|n| *n == a.0));
        }
        all
    }

    /// The parameter with the number of inputs; empty if the number is fixed.
    pub fn key_var_num_args(&self) -> &'static str {
        match self.inputs {
            Inputs::Variadic { count, .. } => count,
            Inputs::Fixed(_) => "",
        }
    }
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
        assert!(parse("num_args", "10").unwrap_err().to_string().contains("out of range"));
        assert!(parse("num_args", "x").unwrap_err().to_string().contains("'x' is not a valid int"));
        assert!(parse("dim", "1").unwrap_err().to_string().contains("Required parameter num_args"));
        assert!(parse("nun_args", "1").unwrap_err().to_string().contains("Possible Arguments: num_args, dim, eps"));
    }
}
