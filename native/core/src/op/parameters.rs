//! Parsing of an operator's parameters.

use std::sync::Arc;

use super::{Forward, OpDef, check_count};
use crate::error::{Error, Result};
use crate::params::{Attrs, FieldInfo, OpParams, Params};
use crate::subgraph::Subgraph;

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

/// The functions that parse, list and complete parameters.
#[derive(Clone, Copy)]
pub struct Parameters {
    pub(super) parse: fn(&Attrs) -> Result<Params>,
    pub(super) fields: fn() -> Vec<FieldInfo>,
    pub(super) ignores: Option<fn(&str) -> bool>,
    pub(super) parse_stored: Option<ParseStored>,
    pub(super) with_graphs: Option<WithGraphs>,
    pub(super) is_reusable: Option<fn(&Params) -> bool>,
    pub(super) title: Option<fn(&Params) -> &str>,
}

impl Parameters {
    /// Parameters of type `P`.
    pub(super) const fn of<P: OpParams>() -> Parameters {
        Parameters {
            parse: parse_as::<P>,
            fields: P::fields,
            ignores: None,
            parse_stored: None,
            with_graphs: None,
            is_reusable: None,
            title: None,
        }
    }
}

/// Parses attributes as parameters of type `P`.
pub(super) fn parse_as<P: OpParams>(attrs: &Attrs) -> Result<Params> {
    P::parse(attrs).map(Params::new)
}

impl OpDef {
    /// Parses attributes.
    ///
    /// # Errors
    /// See [`OpParams::parse`]; the errors name the operator.
    pub fn parse(&self, attrs: &Attrs) -> Result<Params> {
        let parse = |attrs: &Attrs| {
            let params = (self.parameters.parse)(attrs).and_then(|params| self.check_arity(&params).map(|()| params));
            params.map_err(|e| e.in_operator(self.name, self.name))
        };
        // Every variadic operator accepts its number of inputs, even if it is not listed among its parameters.
        let count = self.key_var_num_args();
        let is_ignored = |k: &str| {
            self.parameters.ignores.is_some_and(|f| f(k))
                || (k == count && !count.is_empty() && !self.fields().iter().any(|f| f.name == count))
        };
        if !attrs.keys().any(|k| is_ignored(k)) {
            return parse(attrs);
        }
        parse(&attrs.iter().filter(|(k, _)| !is_ignored(k)).map(|(k, v)| (k.clone(), v.clone())).collect())
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
        match self.parameters.parse_stored {
            Some(f) => f(attrs, stored).map_err(|e| e.in_operator(self.name, self.name)),
            None => self.parse(attrs),
        }
    }

    /// Adds the operator's graphs to its parameters.
    ///
    /// # Errors
    /// A wrong number of graphs, or graphs that contradict the parameters.
    pub fn attach(&self, params: Params, graphs: Vec<Arc<dyn Subgraph>>) -> Result<Params> {
        if graphs.len() != self.signature.graph_args.len() {
            let names: Vec<_> = self.signature.graph_args.iter().map(|a| a.name).collect();
            return Err(Error::Value(format!(
                "{} graphs were given; operator {} takes {}: {}",
                graphs.len(),
                self.name,
                names.len(),
                names.join(", ")
            )));
        }
        match self.parameters.with_graphs {
            Some(f) => f(&params, graphs).map_err(|e| e.in_operator(self.name, self.name)),
            None => Ok(params),
        }
    }

    /// The parameters, as the metadata lists them.
    pub fn fields(&self) -> Vec<FieldInfo> {
        (self.parameters.fields)()
    }

    /// True if several calls may share these parameters, as long as no user operator is [registered](crate::user_op::generation).
    pub fn is_reusable(&self, params: &Params) -> bool {
        let by_default = !matches!(self.kernels.forward, Forward::Foreign(_));
        self.parameters.is_reusable.map_or(by_default, |f| f(params))
    }

    /// The name of a call with these parameters in messages, if [`Operator::title_by`](super::Operator::title_by) sets one.
    pub fn title<'p>(&self, params: &'p Params) -> Option<&'p str> {
        self.parameters.title.map(|f| f(params))
    }
}
