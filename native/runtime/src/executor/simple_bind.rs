//! Binding with arrays that are made for the purpose, or shared with another executor.

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_core::storage::Req;

use super::{Bound, Executor};
use crate::symbol::Symbol;
use crate::symbol_infer::{infer_dtypes, infer_shapes};

/// What [`SimpleBind::bind`] is told besides symbol and device.
#[derive(Default)]
pub struct SimpleBind<'a> {
    /// Shapes of arguments by name; the others are inferred.
    pub shapes: Vec<(String, Shape)>,
    /// Element types of arguments by name; the others are inferred, or 32-bit floats.
    pub dtypes: Vec<(String, DType)>,
    /// Gradient requests in the order of the arguments.
    pub reqs: Vec<Req>,
    /// An executor to share memory with, and its auxiliary states.
    pub shared: Option<&'a Executor>,
    /// Arguments that are the same array, with the same gradient, as in `shared`.
    pub shared_args: Vec<String>,
    /// Arrays by name for the other arguments. One that is too small or missing is replaced by a new one.
    pub buffer: Option<Vec<(String, NDArray)>>,
    /// The device of everything.
    pub context: Context,
}

impl<'a> SimpleBind<'a> {
    /// Infers shapes and types, makes arrays of zeros where none are shared, and binds.
    ///
    /// # Errors
    /// Shapes that stay unknown, by name; shared arrays of other shapes; those of [`Executor::bind`].
    pub fn bind(&mut self, symbol: &Symbol) -> Result<Executor> {
        symbol.check_ready()?;
        let shapes = infer_shapes(symbol, &self.shapes)?;
        let types = infer_dtypes(symbol, &self.dtypes)?;
        let names = symbol.list_arguments();
        ensure!(self.reqs.len() == names.len(), "{} gradient requests for {} arguments", self.reqs.len(), names.len());
        let (mut args, mut grads, mut aux) = (Vec::new(), Vec::new(), Vec::new());
        for (i, name) in names.iter().enumerate() {
            let (shape, dtype) = (&shapes.args[i], types.args[i].unwrap_or(DType::F32));
            let shared = self.shared_argument(name);
            let array = match shared.and_then(|(executor, k)| executor.args.get(k)) {
                Some(array) => same(name, array, shape, dtype)?,
                None => self.argument(name, shape, dtype)?,
            };
            grads.push(match (self.reqs[i], shared.and_then(|(executor, k)| executor.grads.get(k)?.as_ref())) {
                (Req::Null, _) => None,
                (_, Some(grad)) => Some(same(name, grad, shape, dtype)?),
                (_, None) => Some(NDArray::zeros(shape, dtype, self.context)?),
            });
            args.push(array);
        }
        for (i, name) in symbol.list_auxiliary_states().iter().enumerate() {
            let (shape, dtype) = (&shapes.aux[i], types.aux[i].unwrap_or(DType::F32));
            aux.push(match self.shared.and_then(|e| e.aux.get(position(&e.symbol.list_auxiliary_states(), name)?)) {
                Some(array) => same(name, array, shape, dtype)?,
                None => zeros(name, shape, dtype, self.context)?,
            });
        }
        Executor::bind(symbol, self.context, Bound { args, grads, reqs: self.reqs.clone(), aux }, self.shared)
    }

    /// Where an argument that is to be shared lies in the other executor.
    fn shared_argument(&self, name: &str) -> Option<(&'a Executor, usize)> {
        let executor = self.shared?;
        self.shared_args.iter().any(|n| n == name).then_some(())?;
        Some((executor, position(&executor.symbol.list_arguments(), name)?))
    }

    /// An argument of its own, in the buffer's memory if there is a buffer.
    fn argument(&mut self, name: &str, shape: &Shape, dtype: DType) -> Result<NDArray> {
        let is_shared = self.shared_args.iter().any(|n| n == name);
        let Some(buffer) = self.buffer.as_mut().filter(|_| !is_shared) else {
            return zeros(name, shape, dtype, self.context);
        };
        let known = buffer.iter().position(|(n, _)| n == name);
        if let Some(array) = known.map(|i| &buffer[i].1)
            && shape.is_known()
            && array.dtype() == dtype
            && array.len() >= shape.num_elements()
        {
            return NDArray::view(array.chunk().clone(), array.byte_range().start, shape.clone(), dtype);
        }
        let array = zeros(name, shape, dtype, self.context)?;
        match known {
            Some(i) => buffer[i].1 = array.clone(),
            None => buffer.push((name.to_string(), array.clone())),
        }
        Ok(array)
    }
}

fn position(names: &[String], name: &str) -> Option<usize> {
    names.iter().position(|n| n == name)
}

fn zeros(name: &str, shape: &Shape, dtype: DType, context: Context) -> Result<NDArray> {
    ensure!(shape.is_known(), "the shape of {name} cannot be inferred (known so far: {shape}): give it to simple_bind");
    NDArray::zeros(shape, dtype, context)
}

/// A shared array, if it is what is needed.
fn same(name: &str, array: &NDArray, shape: &Shape, dtype: DType) -> Result<NDArray> {
    ensure!(
        array.shape() == shape && array.dtype() == dtype,
        "{name} is {} {} in the shared executor, but {shape} {dtype} is needed: shared arrays must be alike",
        array.shape(),
        array.dtype()
    );
    Ok(array.clone())
}
