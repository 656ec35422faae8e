//! Shape and type inference on symbols.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::shape::Shape;
use hashbrown::{HashMap, HashSet};

use crate::graph::Graph;
use crate::passes::infer::{self, Entries};
use crate::symbol::Symbol;

/// Inferred values of arguments, outputs and auxiliary states, each list in listing order.
pub struct Inferred<T> {
    /// Arguments.
    pub args: Vec<T>,
    /// Outputs.
    pub outputs: Vec<T>,
    /// Auxiliary states.
    pub aux: Vec<T>,
}

/// Infers shapes and types of a symbol's variables and outputs.
pub struct Inference {
    graph: Graph,
    outputs: Vec<Entry>,
    /// The variables, each with whether it is an auxiliary state.
    variables: Vec<(Entry, bool)>,
}

impl Inference {
    /// Builds the graph of a symbol.
    pub fn new(symbol: &Symbol) -> Inference {
        let (graph, outputs) = Graph::from_symbol(symbol);
        let is_aux = symbol.variables().into_iter().map(|v| v.is_aux);
        let variables = graph.variables().zip(is_aux).collect();
        Inference { graph, outputs, variables }
    }

    /// See [`infer_shapes`].
    ///
    /// # Errors
    /// A name that no variable has; inconsistent shapes.
    pub fn shapes(&self, given: &[(String, Shape)]) -> Result<Inferred<Shape>> {
        self.infer(Shape::unknown(), given.iter().map(|(name, shape)| (name.as_str(), shape.clone())), infer::shapes)
    }

    /// As [`Inference::shapes`], but as in MXNet's binding, shapes of names that no variable has are ignored.
    ///
    /// # Errors
    /// Inconsistent shapes.
    pub fn shapes_of_variables(&self, given: &[(String, Shape)]) -> Result<Inferred<Shape>> {
        let names = self.variable_names();
        let given = given.iter().map(|(name, shape)| (name.as_str(), shape.clone()));
        self.infer(Shape::unknown(), given.filter(|(name, _)| names.contains(name)), infer::shapes)
    }

    /// See [`infer_dtypes`].
    ///
    /// # Errors
    /// A name that no variable has; inconsistent types.
    pub fn dtypes(&self, given: &[(String, DType)]) -> Result<Inferred<Option<DType>>> {
        self.infer(None, given.iter().map(|(name, dtype)| (name.as_str(), Some(*dtype))), infer::dtypes)
    }

    /// As [`Inference::dtypes`], but as in MXNet's binding, types of names that no variable has are ignored.
    ///
    /// # Errors
    /// Inconsistent types.
    pub fn dtypes_of_variables(&self, given: &[(String, DType)]) -> Result<Inferred<Option<DType>>> {
        let names = self.variable_names();
        let given = given.iter().map(|(name, dtype)| (name.as_str(), Some(*dtype)));
        self.infer(None, given.filter(|(name, _)| names.contains(name)), infer::dtypes)
    }

    fn variable_names(&self) -> HashSet<&str> {
        self.variables.iter().map(|(e, _)| self.graph.node(*e).name.as_str()).collect()
    }

    fn infer<'a, T: Clone>(
        &self,
        unknown: T,
        given: impl Iterator<Item = (&'a str, T)>,
        run: impl FnOnce(&Graph, Entries<T>) -> Result<Entries<T>>,
    ) -> Result<Inferred<T>> {
        let name = |e: &Entry| self.graph.node(*e).name.as_str();
        // Several variables may have the same name; a value applies to all of them.
        let mut by_name: HashMap<&str, Vec<Entry>> = HashMap::new();
        self.variables.iter().for_each(|(e, _)| by_name.entry(name(e)).or_default().push(*e));
        let mut values = Entries::new(&self.graph, unknown);
        for (given, value) in given {
            let entries = by_name.get(given).ok_or_else(|| {
                let all: Vec<&str> = self.variables.iter().map(|(e, _)| name(e)).collect();
                Error::NotFound(format!("there is no argument '{given}'; the arguments are {}", all.join(", ")))
            })?;
            entries.iter().for_each(|e| values[*e] = value.clone());
        }
        let values = run(&self.graph, values)?;
        let value = |(e, _): &(Entry, bool)| values[*e].clone();
        Ok(Inferred {
            args: self.variables.iter().filter(|(_, is_aux)| !is_aux).map(value).collect(),
            outputs: self.outputs.iter().map(|e| values[*e].clone()).collect(),
            aux: self.variables.iter().filter(|(_, is_aux)| *is_aux).map(value).collect(),
        })
    }
}

/// Infers shapes from those given by name. Shapes that cannot be inferred stay partly unknown.
///
/// # Errors
/// A name that no variable has; inconsistent shapes.
pub fn infer_shapes(symbol: &Symbol, given: &[(String, Shape)]) -> Result<Inferred<Shape>> {
    Inference::new(symbol).shapes(given)
}

/// Infers element types from those given by name. Types that cannot be inferred stay unknown; there is no default.
///
/// # Errors
/// A name that no variable has; inconsistent types.
pub fn infer_dtypes(symbol: &Symbol, given: &[(String, DType)]) -> Result<Inferred<Option<DType>>> {
    Inference::new(symbol).dtypes(given)
}

/// The names of `n` given values: `keys`, or the first `n` arguments.
///
/// # Errors
/// Keys and values differ in number, or there are more values than arguments.
pub fn argument_names(symbol: &Symbol, keys: Option<Vec<String>>, n: usize) -> Result<Vec<String>> {
    let names = keys.unwrap_or_else(|| symbol.list_arguments().into_iter().take(n).collect());
    if names.len() != n {
        return Err(Error::Value(format!("{n} values were given for {} arguments", names.len())));
    }
    Ok(names)
}

impl<T> Inferred<T> {
    /// Whether a predicate holds for all values.
    pub fn all(&self, f: impl Fn(&T) -> bool) -> bool {
        self.args.iter().chain(&self.outputs).chain(&self.aux).all(f)
    }
}
