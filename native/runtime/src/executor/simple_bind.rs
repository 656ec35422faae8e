//! Binding that allocates the arrays, or shares them with another executor.

use std::collections::HashMap;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::Req;

use super::{BoundStored, Devices, Executor};
use crate::passes::storage::{Storage, infer_storage};
use crate::symbol::Symbol;
use crate::symbol_infer::{infer_dtypes, infer_shapes};

/// The arguments of [`SimpleBind::bind`].
#[derive(Default)]
pub struct SimpleBind<'a> {
    /// Shapes of arguments by name; the others are inferred.
    pub shapes: Vec<(String, Shape)>,
    /// Element types of arguments by name; the others are inferred, or 32-bit floats.
    pub dtypes: Vec<(String, DType)>,
    /// Storage types of arguments by name; the others have the type in their attribute `__storage_type__`, or are dense. The storage
    /// types of gradients and outputs are inferred.
    pub storage_types: Vec<(String, StorageType)>,
    /// Gradient requests in the order of the arguments.
    pub reqs: Vec<Req>,
    /// An executor to share memory and auxiliary states with.
    pub shared: Option<&'a Executor>,
    /// Arguments that use the same array and gradient array as in `shared`.
    pub shared_args: Vec<String>,
    /// Arrays for the other arguments, by name, and for their gradients, as `grad of NAME`. Missing or too small ones are replaced by
    /// new arrays.
    pub buffer: Option<Vec<(String, NDArray)>>,
    /// The devices.
    pub devices: Devices,
}

impl SimpleBind<'_> {
    /// Infers shapes and types, allocates zeros where no array is shared, and binds.
    ///
    /// # Errors
    /// Shapes that stay unknown, by name; shared arrays of other shapes; those of [`Executor::bind`].
    pub fn bind(&mut self, symbol: &Symbol) -> Result<Executor> {
        symbol.check_ready()?;
        let shapes = infer_shapes(symbol, &self.shapes)?;
        let types = infer_dtypes(symbol, &self.dtypes)?;
        let names = symbol.list_arguments();
        ensure!(self.reqs.len() == names.len(), "{} gradient requests for {} arguments", self.reqs.len(), names.len());
        let wanted: Vec<bool> = self.reqs.iter().map(|r| *r != Req::Null).collect();
        let storage = infer_storage(symbol, &self.storage_types, &wanted)?;
        let of = |list: fn(&Storage) -> &Vec<StorageType>, i: usize| {
            storage.as_ref().map_or(StorageType::Default, |storage| list(storage)[i])
        };
        let shared = self.shared.map(Shared::of).unwrap_or_default();
        let contexts = |aux: bool| -> Vec<Context> {
            let variables = symbol.variables().into_iter().filter(|v| v.1 == aux);
            variables.map(|(node, _)| self.devices.of_variable(&node.attrs.read())).collect()
        };
        let (arg_contexts, aux_contexts) = (contexts(false), contexts(true));
        let (mut args, mut grads, mut aux) = (Vec::new(), Vec::new(), Vec::new());
        for (i, name) in names.iter().enumerate() {
            let (shape, dtype, context) = (&shapes.args[i], types.args[i].unwrap_or(DType::F32), arg_contexts[i]);
            let of_old = shared.args.get(name).filter(|_| self.shared_args.contains(name));
            let storage = of(|s| &s.grads, i);
            grads.push(match (self.reqs[i], of_old.and_then(|(_, grad)| grad.as_ref())) {
                (Req::Null, _) => None,
                (_, Some(grad)) => Some(same(name, grad, shape, dtype, storage)?),
                (_, None) if storage == StorageType::Default => {
                    Some(self.array(&format!("grad of {name}"), name, shape, dtype, context)?.into())
                }
                (_, None) => Some(zeros(name, shape, dtype, storage, context)?),
            });
            let storage = of(|s| &s.args, i);
            args.push(match of_old {
                Some((array, _)) => same(name, array, shape, dtype, storage)?,
                None if storage == StorageType::Default => self.array(name, name, shape, dtype, context)?.into(),
                None => zeros(name, shape, dtype, storage, context)?,
            });
        }
        for (i, name) in symbol.list_auxiliary_states().iter().enumerate() {
            let (shape, dtype, context) = (&shapes.aux[i], types.aux[i].unwrap_or(DType::F32), aux_contexts[i]);
            let storage = of(|s| &s.aux, i);
            aux.push(match shared.aux.get(name) {
                Some(array) => same(name, array, shape, dtype, storage)?,
                None => zeros(name, shape, dtype, storage, context)?,
            });
        }
        let bound = BoundStored { args, grads, reqs: self.reqs.clone(), aux };
        Executor::bind_stored(symbol, self.devices.clone(), bound, self.shared)
    }

    /// A new array for argument `of` or its gradient, in the memory of the buffer's array `name` if there is a buffer.
    fn array(&mut self, name: &str, of: &str, shape: &Shape, dtype: DType, context: Context) -> Result<NDArray> {
        let is_shared = self.shared_args.iter().any(|n| n == of);
        let Some(buffer) = self.buffer.as_mut().filter(|_| !is_shared) else {
            return dense_zeros(of, shape, dtype, context);
        };
        let known = buffer.iter().position(|(n, _)| n == name);
        if let Some(array) = known.map(|i| &buffer[i].1)
            && shape.is_known()
            && array.dtype() == dtype
            && array.context() == context
            && array.len() >= shape.num_elements()
        {
            return NDArray::view(array.chunk().clone(), array.byte_range().start, shape.clone(), dtype);
        }
        let array = dense_zeros(of, shape, dtype, context)?;
        match known {
            Some(i) => buffer[i].1 = array.clone(),
            None => buffer.push((name.to_string(), array.clone())),
        }
        Ok(array)
    }
}

/// The arrays of another executor by name: arguments with their gradients, and auxiliary states.
#[derive(Default)]
struct Shared {
    args: HashMap<String, (Array, Option<Array>)>,
    aux: HashMap<String, Array>,
}

impl Shared {
    fn of(executor: &Executor) -> Shared {
        let (names, aux) = (executor.symbol.list_arguments(), executor.symbol.list_auxiliary_states());
        let arrays = executor.stored_args().into_iter().zip(executor.stored_grads());
        Shared {
            args: names.into_iter().zip(arrays).collect(),
            aux: aux.into_iter().zip(executor.stored_aux()).collect(),
        }
    }
}

fn zeros(name: &str, shape: &Shape, dtype: DType, storage: StorageType, context: Context) -> Result<Array> {
    if storage == StorageType::Default {
        return Ok(dense_zeros(name, shape, dtype, context)?.into());
    }
    ensure_known(name, shape)?;
    let array = SparseArray::zeros(storage, shape, dtype, context);
    Ok(array.map_err(|e| Error::Value(format!("{name} cannot be {storage}: {e}")))?.into())
}

fn ensure_known(name: &str, shape: &Shape) -> Result<()> {
    ensure!(shape.is_known(), "the shape of {name} cannot be inferred (known so far: {shape}): give it to simple_bind");
    Ok(())
}

fn dense_zeros(name: &str, shape: &Shape, dtype: DType, context: Context) -> Result<NDArray> {
    ensure_known(name, shape)?;
    NDArray::zeros(shape, dtype, context)
}

/// A shared array, checked to have the needed shape, type and storage.
fn same(name: &str, array: &Array, shape: &Shape, dtype: DType, storage: StorageType) -> Result<Array> {
    ensure!(
        array.shape() == shape && array.dtype() == dtype && array.storage_type() == storage,
        "{name} is {} {} ({}) in the shared executor, but {shape} {dtype} ({storage}) is needed: shared arrays must be alike",
        array.shape(),
        array.dtype(),
        array.storage_type()
    );
    Ok(array.clone())
}
