//! What the operator metadata of MXNet says about an operator.

use std::borrow::Cow;

use super::{ArgDef, Inputs, OpDef};

/// Names, description and listed arguments.
#[derive(Clone, Copy)]
pub struct Metadata {
    /// Alternative names.
    pub aliases: &'static [&'static str],
    /// Description: formula, shapes, source.
    pub doc: &'static str,
    /// Number of graphs and inputs in the metadata, which omits the auxiliary states of MXNet's oldest operators.
    pub num_listed_inputs: usize,
    /// Whether the metadata lists the parameters; MXNet omits those of some internal operators.
    pub has_listed_params: bool,
    /// Metadata order of all arguments, if it is not "inputs, then parameters".
    pub arg_order: &'static [&'static str],
    /// Whether MXNet defines it in its oldest interface, so that monitors name gradients after the inputs.
    pub is_legacy: bool,
    /// Whether MXNet registers a name for a single input `data`; monitors show others as `input0`.
    pub has_data_name: bool,
    /// Whether MXNet registers names for outputs `output`, `output0`, ...; hooks show an index for others.
    pub has_output_names: bool,
}

impl Metadata {
    /// No description; all arguments are listed.
    pub(super) const fn new() -> Metadata {
        Metadata {
            aliases: &[],
            doc: "",
            num_listed_inputs: usize::MAX,
            has_listed_params: true,
            arg_order: &[],
            is_legacy: false,
            has_data_name: false,
            has_output_names: false,
        }
    }
}

impl OpDef {
    /// All arguments in metadata order: name, type string, description.
    pub fn arguments(&self) -> Vec<(&'static str, String, Cow<'static, str>)> {
        let tensors: Vec<ArgDef> = match self.signature.inputs {
            Inputs::Fixed(args) => args.to_vec(),
            Inputs::Variadic { arg, .. } => vec![arg],
        };
        let mut all: Vec<_> = self
            .signature
            .graph_args
            .iter()
            .chain(self.signature.leading)
            .chain(&tensors)
            .take(self.metadata.num_listed_inputs)
            .map(|a| (a.name, a.type_string.to_string(), Cow::Borrowed(a.doc)))
            .collect();
        if self.metadata.has_listed_params {
            all.extend(self.fields().into_iter().map(|f| (f.name, f.type_string, f.doc)));
        }
        let order = self.metadata.arg_order;
        if !order.is_empty() {
            all.sort_by_key(|a| order.iter().position(|n| *n == a.0));
        }
        all
    }
}
