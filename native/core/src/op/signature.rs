//! The inputs and outputs of operators: their numbers and names, and the inputs that are mutated or filled.

use super::{ArgDef, Inputs, OpDef};
use crate::params::Params;

/// Returns indices of inputs for the given parameters.
pub type InputIndices = fn(&Params) -> &[usize];

/// Returns the index of the input that is filled with a constant, and the constant; `None` if the parameters request no filling.
pub type FilledInput = fn(&Params) -> Option<(usize, f64)>;

/// Returns the names of inputs or outputs for the given parameters.
pub type Names = fn(&Params) -> Vec<String>;

/// Inputs and outputs.
#[derive(Clone, Copy)]
pub struct Signature {
    /// Tensor inputs, mutable ones included.
    pub inputs: Inputs,
    /// Named inputs before the variadic ones.
    pub leading: &'static [ArgDef],
    /// Graph arguments, of type `Symbol`, which precede the tensor inputs.
    pub graph_args: &'static [ArgDef],
    /// Whether a node of the operator is replaced by its graph when it is created.
    pub is_expanded: bool,
    /// Inputs that the operator mutates: auxiliary states, optimizer states.
    pub mutates: &'static [usize],
    /// Initializers (as the JSON text of an `__init__` attribute) of variables that have none, by input.
    pub input_init: &'static [(usize, &'static str)],
    pub(super) num_inputs: Option<fn(&Params) -> usize>,
    pub(super) input_names: Option<Names>,
    pub(super) mutates_by: Option<InputIndices>,
    pub(super) filled_input: Option<FilledInput>,
    pub(super) num_outputs: fn(&Params) -> usize,
    pub(super) num_visible: Option<fn(&Params) -> usize>,
    pub(super) output_names: Option<Names>,
}

impl Signature {
    /// The given inputs, none of them mutated, and one output.
    pub(super) const fn new(inputs: &'static [ArgDef]) -> Signature {
        Signature {
            inputs: Inputs::Fixed(inputs),
            leading: &[],
            graph_args: &[],
            is_expanded: false,
            mutates: &[],
            input_init: &[],
            num_inputs: None,
            input_names: None,
            mutates_by: None,
            filled_input: None,
            num_outputs: |_| 1,
            num_visible: None,
            output_names: None,
        }
    }
}

impl OpDef {
    /// Number of inputs, mutable ones included; `None` if the parameters do not determine it (variadic operators).
    pub fn num_inputs(&self, params: &Params) -> Option<usize> {
        match (self.signature.num_inputs, self.signature.inputs) {
            (Some(f), _) => Some(f(params)),
            (None, Inputs::Fixed(args)) => Some(args.len()),
            (None, Inputs::Variadic { .. }) => None,
        }
    }

    /// Indices of the inputs that the operator mutates.
    pub fn mutated<'p>(&self, params: &'p Params) -> &'p [usize] {
        self.signature.mutates_by.map_or(self.signature.mutates, |f| f(params))
    }

    /// Index and value of the input that the operator fills with a constant.
    pub fn filled(&self, params: &Params) -> Option<(usize, f64)> {
        self.signature.filled_input.and_then(|f| f(params))
    }

    /// Names of `n` inputs.
    pub fn input_names(&self, params: &Params, n: usize) -> Vec<String> {
        match (self.signature.input_names, self.signature.inputs) {
            (Some(f), _) => f(params),
            (None, Inputs::Fixed(args)) => args.iter().take(n).map(|a| a.name.to_string()).collect(),
            (None, Inputs::Variadic { .. }) => (0..n).map(|i| format!("arg{i}")).collect(),
        }
    }

    /// Number of outputs, hidden ones included.
    pub fn num_outputs(&self, params: &Params) -> usize {
        (self.signature.num_outputs)(params)
    }

    /// Number of visible outputs.
    pub fn num_visible(&self, params: &Params) -> usize {
        self.signature.num_visible.map_or_else(|| self.num_outputs(params), |f| f(params))
    }

    /// Names of all outputs, without the node's name.
    pub fn output_names(&self, params: &Params) -> Vec<String> {
        match (self.signature.output_names, self.num_outputs(params)) {
            (Some(f), _) => f(params),
            (None, 1) => vec!["output".into()],
            (None, n) => (0..n).map(|i| format!("output{i}")).collect(),
        }
    }

    /// The parameter with the number of inputs; empty if the number is fixed.
    pub fn key_var_num_args(&self) -> &'static str {
        match self.signature.inputs {
            Inputs::Variadic { count, .. } => count,
            Inputs::Fixed(_) => "",
        }
    }
}
