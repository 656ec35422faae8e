//! Runs imported models on arrays.

use std::collections::HashMap;

use ferromx_core::context::Context;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_core::storage::Req;
use ferromx_runtime::executor::{Bound, Executor};
use ferromx_runtime::op::Mode;

use crate::emit::NumpyShapes;
use crate::error::{Error, Result};
use crate::import::{self, ImportOptions, Imported};
use crate::ir::Model;

/// True if a graph can be planned, that is if no shape depends on data.
pub fn can_be_planned(imported: &Imported) -> bool {
    !imported.symbol.is_dynamic()
}

/// Binds an imported model to inputs, for inference.
///
/// # Errors
/// Inputs that are missing or have a wrong shape or type.
pub fn bind(imported: &Imported, inputs: &HashMap<String, NDArray>) -> Result<Executor> {
    let _numpy = NumpyShapes::set();
    let array = |name: &String| {
        let found = imported.args.get(name).or_else(|| imported.aux.get(name)).or_else(|| inputs.get(name));
        found.cloned().ok_or_else(|| Error::value(format!("there is no value for the input '{name}'")))
    };
    let args = imported.symbol.list_arguments().iter().map(array).collect::<Result<Vec<_>>>()?;
    let aux = imported.symbol.list_auxiliary_states().iter().map(array).collect::<Result<_>>()?;
    let (grads, reqs) = (vec![None; args.len()], vec![Req::Null; args.len()]);
    Ok(Executor::bind(&imported.symbol, Context::default(), Bound { args, grads, reqs, aux }, None)?)
}

/// Binds an imported model to inputs and computes its outputs.
///
/// # Errors
/// Inputs that are missing or have a wrong shape or type; errors of the operators.
pub fn bind_and_run(imported: &Imported, inputs: &HashMap<String, NDArray>) -> Result<Vec<NDArray>> {
    let _numpy = NumpyShapes::set();
    let executor = bind(imported, inputs)?;
    executor.forward(Mode::Inference)?;
    Ok(executor.output_tensors().iter().map(|y| y.array()).collect::<Result<_, _>>()?)
}

/// How a model was run.
pub enum Run {
    /// As this graph. It may contain the values of inputs that determine shapes; see [`run`].
    Graph(Box<Imported>),
    /// Node by node, because shapes depend on data.
    Executed,
}

/// Runs a model on inputs, in the first of these ways that works: as a planned graph; as a graph specialized to the values of its integer,
/// Boolean and one-element inputs; node by node, which allows shapes that depend on data.
///
/// # Errors
/// Inputs that are missing or have a wrong shape or type, all parts of the model that cannot be mapped, errors of the operators.
pub fn run(model: &Model, inputs: HashMap<String, NDArray>) -> Result<(Vec<NDArray>, Run)> {
    for info in &model.graph.inputs {
        check_input(info, inputs.get(&info.name))?;
    }
    let may_determine_shapes = |array: &NDArray| array.len() <= 1 || !array.dtype().is_float();
    for with_values in [false, true] {
        let mut options = ImportOptions::default();
        for (name, array) in &inputs {
            if with_values && may_determine_shapes(array) {
                options.values.insert(name.clone(), array.clone());
            } else {
                options.shapes.insert(name.clone(), array.shape().dims().to_vec());
            }
        }
        match import::import(model, &options) {
            Ok(imported) if can_be_planned(&imported) => {
                return Ok((bind_and_run(&imported, &inputs)?, Run::Graph(Box::new(imported))));
            }
            Err(e) if !e.needs_values() => return Err(e),
            _ => {}
        }
    }
    Ok((import::execute(model, inputs)?, Run::Executed))
}

fn check_input(info: &crate::ir::ValueInfo, given: Option<&NDArray>) -> Result<()> {
    let Some(array) = given else {
        return Err(Error::value(format!("there is no value for the input '{}'", info.name)));
    };
    if let Some(element) = &info.element
        && element.dtype()? != array.dtype()
    {
        return Err(Error::value(format!("the input '{}' is {element}, but {} was given", info.name, array.dtype())));
    }
    let mut shape: Shape = info.shape();
    if !shape.assign(array.shape()) {
        return Err(Error::value(format!(
            "the input '{}' has shape {}, but {} was given",
            info.name,
            info.shape(),
            array.shape()
        )));
    }
    Ok(())
}
