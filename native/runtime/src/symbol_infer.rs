//! Shape and type inference on symbols.

use std::collections::HashMap;

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::Entry;
use ferromx_core::shape::Shape;

use crate::graph::{Action, Graph, entry};
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

fn infer<T: Clone>(
    symbol: &Symbol,
    unknown: T,
    given: &[(String, T)],
    run: impl FnOnce(&Graph, Entries<T>) -> Result<Entries<T>>,
) -> Result<Inferred<T>> {
    let (graph, ys) = Graph::from_symbol(symbol);
    let variables: Vec<(Entry, bool)> = (0..graph.nodes.len())
        .filter(|i| matches!(graph.nodes[*i].action, Action::Variable))
        .map(|i| entry(i, 0))
        .zip(symbol.variables().into_iter().map(|(_, aux)| aux))
        .collect();
    let by_name: HashMap<&str, Entry> = variables.iter().map(|(e, _)| (graph.node(*e).name.as_str(), *e)).collect();
    let mut known = Entries::new(&graph, unknown);
    for (name, value) in given {
        let e = by_name.get(name.as_str()).ok_or_else(|| {
            Error::NotFound(format!(
                "there is no argument '{name}'; the arguments are {}",
                symbol.list_inputs().join(", ")
            ))
        })?;
        known[*e] = value.clone();
    }
    let known = run(&graph, known)?;
    let of =
        |wanted: bool| variables.iter().filter(|(_, aux)| *aux == wanted).map(|(e, _)| known[*e].clone()).collect();
    Ok(Inferred { args: of(false), outputs: ys.iter().map(|y| known[*y].clone()).collect(), aux: of(true) })
}

/// Infers shapes from those given by name. Shapes that cannot be inferred stay partly unknown.
///
/// # Errors
/// A name that no variable has; inconsistent shapes.
pub fn infer_shapes(symbol: &Symbol, given: &[(String, Shape)]) -> Result<Inferred<Shape>> {
    infer(symbol, Shape::unknown(), given, infer::shapes)
}

/// Infers element types from those given by name. Types that cannot be inferred stay unknown; there is no default.
///
/// # Errors
/// A name that no variable has; inconsistent types.
pub fn infer_dtypes(symbol: &Symbol, given: &[(String, DType)]) -> Result<Inferred<Option<DType>>> {
    let given: Vec<_> = given.iter().map(|(n, d)| (n.clone(), Some(*d))).collect();
    infer(symbol, None, &given, infer::dtypes)
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
