//! Networks with trained parameters for prediction.

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::file_format::Loaded;
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::Mode;
use ferromx_core::shape::Shape;
use ferromx_core::storage::Req;
use ferromx_ops::sparse::cast::to_dense;

use crate::executor::{Bound, Executor, Monitor};
use crate::symbol::Symbol;
use crate::symbol_infer::{infer_dtypes, infer_shapes};

/// A symbol with trained parameters.
#[derive(Clone)]
pub struct Network {
    symbol: Symbol,
    params: Vec<(String, NDArray)>,
    dtypes: Vec<(String, DType)>,
    context: Context,
}

/// A network bound for fixed input shapes.
pub struct Predictor {
    network: Network,
    inputs: Vec<String>,
    executor: Executor,
}

impl Network {
    /// A network from a symbol and the content of a `.params` file, whose names begin with `arg:` or `aux:`. `dtypes` has element types of
    /// arguments that are not inferred from the parameters.
    ///
    /// # Errors
    /// Arrays without names, out of memory.
    pub fn new(symbol: Symbol, params: Loaded, dtypes: Vec<(String, DType)>, context: Context) -> Result<Network> {
        ensure!(
            params.names.len() == params.arrays.len(),
            "the parameters have no names: save them with the names of arguments and auxiliary states"
        );
        let name = |n: String| n.strip_prefix("arg:").or(n.strip_prefix("aux:")).map_or(n.clone(), str::to_string);
        let params = (params.names.into_iter().zip(params.arrays))
            .filter_map(|(n, array)| Some((name(n), array?)))
            .map(|(n, array)| {
                let array = to_dense(&array)?;
                Ok((n, if array.context() == context { array } else { array.to_context(context)? }))
            })
            .collect::<Result<_>>()?;
        Ok(Network { symbol, params, dtypes, context })
    }

    /// The network with other outputs: `names` are outputs, or nodes whose first output is taken.
    ///
    /// # Errors
    /// There is no such output or node.
    pub fn with_outputs(mut self, names: &[String]) -> Result<Network> {
        let internals = self.symbol.internals();
        let listed = internals.list_outputs();
        let outputs = names.iter().map(|name| {
            let output = format!("{name}_output");
            let index = listed.iter().position(|n| n == name || *n == output).ok_or_else(|| {
                Error::NotFound(format!("there is no output '{name}'; there are {}", listed.join(", ")))
            })?;
            internals.output(index)
        });
        self.symbol = Symbol::group(&outputs.collect::<Result<Vec<_>>>()?);
        Ok(self)
    }

    /// Binds the network for these input shapes. Arguments that are neither inputs nor parameters, such as labels, are zero. Shapes of
    /// inputs that the network does not have are ignored, as in MXNet; such an input cannot be set.
    ///
    /// # Errors
    /// Shapes that are inconsistent with the parameters or cannot be inferred.
    pub fn bind(&self, inputs: &[(String, Shape)]) -> Result<Predictor> {
        let arguments = self.symbol.list_arguments();
        let aux_states = self.symbol.list_auxiliary_states();
        let has_variable = |name: &str| arguments.iter().chain(&aux_states).any(|n| n == name);
        let params: Vec<_> = self.params.iter().filter(|(name, _)| has_variable(name)).collect();
        let mut shapes: Vec<_> = params.iter().map(|(n, a)| (n.clone(), a.shape().clone())).collect();
        shapes.extend(inputs.iter().filter(|(name, _)| has_variable(name)).cloned());
        let mut dtypes: Vec<_> = params.iter().map(|(n, a)| (n.clone(), a.dtype())).collect();
        dtypes.extend(self.dtypes.iter().filter(|(n, _)| !params.iter().any(|(p, _)| p == n)).cloned());
        let (shapes, dtypes) = (infer_shapes(&self.symbol, &shapes)?, infer_dtypes(&self.symbol, &dtypes)?);
        let array = |name: &String, shape: &Shape, dtype: Option<DType>| match params.iter().find(|(n, _)| n == name) {
            Some((_, array)) => Ok(array.clone()),
            None => {
                ensure!(shape.is_known(), "the shape of {name} cannot be inferred: give it as an input");
                NDArray::zeros(shape, dtype.unwrap_or(DType::F32), self.context)
            }
        };
        let bind_all = |names: &[String], shapes: &[Shape], dtypes: &[Option<DType>]| {
            let each = names.iter().zip(shapes).zip(dtypes);
            each.map(|((n, s), d)| array(n, s, *d)).collect::<Result<Vec<_>>>()
        };
        let args = bind_all(&arguments, &shapes.args, &dtypes.args)?;
        let aux = bind_all(&aux_states, &shapes.aux, &dtypes.aux)?;
        let (grads, reqs) = (vec![None; args.len()], vec![Req::Null; args.len()]);
        let executor = Executor::bind(&self.symbol, self.context, Bound { args, grads, reqs, aux }, None)?;
        let inputs = inputs.iter().map(|(name, _)| name.clone()).collect();
        Ok(Predictor { network: self.clone(), inputs, executor })
    }

    /// Binds the network once per thread; the predictors share the parameters.
    ///
    /// # Errors
    /// `num_threads` is 0; see also [`Network::bind`].
    pub fn bind_many(&self, inputs: &[(String, Shape)], num_threads: usize) -> Result<Vec<Predictor>> {
        ensure!(num_threads > 0, "num_threads is 0: use at least one thread");
        let mut all = Vec::new();
        for _ in 0..num_threads {
            all.push(self.bind(inputs)?);
        }
        Ok(all)
    }
}

impl Predictor {
    /// The network, to bind it again for other shapes.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Overwrites an input.
    ///
    /// # Errors
    /// There is no such input, or it has a different number of elements.
    pub fn set_input(&self, name: &str, data: &[f32]) -> Result<()> {
        let arguments = self.network.symbol.list_arguments();
        let index = arguments.iter().position(|n| n == name).filter(|_| self.inputs.iter().any(|n| n == name));
        let index = index.ok_or_else(|| {
            Error::NotFound(format!("there is no input '{name}'; the inputs are {}", self.inputs.join(", ")))
        })?;
        self.executor.args()[index].copy_from_slice_as(data)
    }

    /// Computes the outputs.
    ///
    /// # Errors
    /// Errors of the operators.
    pub fn forward(&self) -> Result<()> {
        self.executor.forward(Mode::Inference)
    }

    /// Runs step `step` of the network and returns the number of remaining steps. A step past the end does nothing.
    ///
    /// # Errors
    /// The operator's errors.
    pub fn partial_forward(&self, step: usize) -> Result<usize> {
        self.executor.partial_forward(step)
    }

    /// Installs a monitor of all outputs, and of inputs if `monitor_all` is set, or removes it.
    pub fn set_monitor(&self, monitor: Option<Monitor>, monitor_all: bool) {
        self.executor.set_monitor(monitor, monitor_all);
    }

    /// Output `index`.
    ///
    /// # Errors
    /// There are fewer outputs.
    pub fn output(&self, index: usize) -> Result<NDArray> {
        let outputs = self.executor.output_tensors();
        let output = outputs.get(index).ok_or_else(|| {
            Error::NotFound(format!("output {index} was requested, but the network has {}", outputs.len()))
        })?;
        output.array()
    }
}
