//! Binds a symbol to arrays that it allocates or shares with another executor.

use std::sync::Arc;

use ferromx_core::context::Context;
use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, SparseArray, StorageType};
use ferromx_core::storage::Req;
use hashbrown::{HashMap, HashSet};

use super::{BoundStored, Devices, Executor};
use crate::passes::storage::{Storage, infer_storage};
use crate::symbol::{Node, Symbol};
use crate::symbol_infer::Inference;

/// The arguments of [`SimpleBind::bind`].
#[derive(Default)]
pub struct SimpleBind<'a> {
    /// Shapes of arguments by name; the others are inferred. Names that no argument has are ignored, as in MXNet.
    pub shapes: Vec<(String, Shape)>,
    /// Element types of arguments by name; the others are inferred, or 32-bit floats. Other names are ignored, as for shapes.
    pub dtypes: Vec<(String, DType)>,
    /// Storage types of arguments by name; the others have the type in their attribute `__storage_type__`, or are dense. The storage
    /// types of gradients are inferred. `None` makes all arrays dense.
    pub storage_types: Option<Vec<(String, StorageType)>>,
    /// Gradient requests in the order of the arguments.
    pub reqs: Vec<Req>,
    /// An executor to share memory and auxiliary states with.
    pub shared: Option<&'a Executor>,
    /// Arguments that use the array and gradient array of `shared`.
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
    /// Shapes that stay unknown, by name; shared arrays of other shapes; see also [`Executor::bind`].
    pub fn bind(&mut self, symbol: &Symbol) -> Result<Executor> {
        symbol.check_ready()?;
        let inference = Inference::new(symbol);
        let (shapes, types) =
            (inference.shapes_of_variables(&self.shapes)?, inference.dtypes_of_variables(&self.dtypes)?);
        drop(inference);
        let (aux_variables, arg_variables): (Vec<_>, Vec<_>) =
            symbol.variables().into_iter().partition(|(_, aux)| *aux);
        let split = |variables: &[(Arc<Node>, bool)]| -> (Vec<String>, Vec<Context>) {
            variables.iter().map(|(v, _)| (v.name.to_string(), self.devices.of_variable(&v.attrs.read()))).unzip()
        };
        let ((names, arg_contexts), (aux_names, aux_contexts)) = (split(&arg_variables), split(&aux_variables));
        ensure!(self.reqs.len() == names.len(), "{} gradient requests for {} arguments", self.reqs.len(), names.len());
        let is_requested: Vec<bool> = self.reqs.iter().map(|r| *r != Req::Null).collect();
        let storage = match &self.storage_types {
            Some(given) => infer_storage(symbol, given, &is_requested)?,
            None => None,
        };
        let storage_type = |list: fn(&Storage) -> &Vec<StorageType>, i: usize| {
            storage.as_ref().map_or(StorageType::Default, |storage| list(storage)[i])
        };
        let shared = self.shared.map(SharedArrays::of).unwrap_or_default();
        let mut memory = Memory::new(self.buffer.as_mut(), &self.shared_args);
        let (mut args, mut grads, mut aux) = (Vec::new(), Vec::new(), Vec::new());
        for (i, name) in names.iter().enumerate() {
            let (shape, dtype, context) = (&shapes.args[i], types.args[i].unwrap_or(DType::F32), arg_contexts[i]);
            let shared_arg = shared.args.get(name).filter(|_| memory.shared_args.contains(name.as_str()));
            let storage = storage_type(|s| &s.grads, i);
            grads.push(match (self.reqs[i], shared_arg.and_then(|(_, grad)| grad.as_ref())) {
                (Req::Null, _) => None,
                (_, Some(grad)) => Some(checked_shared(name, grad, shape, dtype, storage)?),
                (_, None) if storage == StorageType::Default => {
                    Some(memory.array(&format!("grad of {name}"), name, shape, dtype, context)?.into())
                }
                (_, None) => Some(zeros(name, shape, dtype, storage, context)?),
            });
            let storage = storage_type(|s| &s.args, i);
            args.push(match shared_arg {
                Some((array, _)) => checked_shared(name, array, shape, dtype, storage)?,
                None if storage == StorageType::Default => memory.array(name, name, shape, dtype, context)?.into(),
                None => zeros(name, shape, dtype, storage, context)?,
            });
        }
        for (i, name) in aux_names.iter().enumerate() {
            let (shape, dtype, context) = (&shapes.aux[i], types.aux[i].unwrap_or(DType::F32), aux_contexts[i]);
            let storage = storage_type(|s| &s.aux, i);
            aux.push(match shared.aux.get(name) {
                Some(array) => checked_shared(name, array, shape, dtype, storage)?,
                None => zeros(name, shape, dtype, storage, context)?,
            });
        }
        let bound = BoundStored { args, grads, reqs: self.reqs.clone(), aux };
        Executor::bind_stored(symbol, self.devices.clone(), bound, self.shared)
    }
}

/// Allocates arrays, or takes them from a buffer.
struct Memory<'a> {
    /// See [`SimpleBind::buffer`].
    buffer: Option<&'a mut Vec<(String, NDArray)>>,
    /// The first array of each name in the buffer.
    by_name: HashMap<String, usize>,
    /// See [`SimpleBind::shared_args`].
    shared_args: HashSet<&'a str>,
}

impl<'a> Memory<'a> {
    fn new(buffer: Option<&'a mut Vec<(String, NDArray)>>, shared_args: &'a [String]) -> Memory<'a> {
        let names = buffer.iter().flat_map(|arrays| arrays.iter()).map(|(name, _)| name.clone()).enumerate();
        let mut by_name = HashMap::new();
        names.for_each(|(i, name)| _ = by_name.entry(name).or_insert(i));
        Memory { by_name, buffer, shared_args: shared_args.iter().map(String::as_str).collect() }
    }

    /// An array for argument `arg` or its gradient: in the memory of the buffer's array `name`, or a new one that the buffer keeps.
    fn array(&mut self, name: &str, arg: &str, shape: &Shape, dtype: DType, context: Context) -> Result<NDArray> {
        let is_shared = self.shared_args.contains(arg);
        let Some(buffer) = self.buffer.as_mut().filter(|_| !is_shared) else {
            return dense_zeros(arg, shape, dtype, context);
        };
        let index = self.by_name.get(name).copied();
        if let Some(array) = index.map(|i| &buffer[i].1)
            && shape.is_known()
            && array.dtype() == dtype
            && array.context() == context
            && array.len() >= shape.num_elements()
        {
            return NDArray::view(array.chunk().clone(), array.byte_range().start, shape.clone(), dtype);
        }
        let array = dense_zeros(arg, shape, dtype, context)?;
        match index {
            Some(i) => buffer[i].1 = array.clone(),
            None => {
                self.by_name.insert(name.into(), buffer.len());
                buffer.push((name.into(), array.clone()));
            }
        }
        Ok(array)
    }
}

/// The arrays of another executor by name: arguments with their gradients, and auxiliary states.
#[derive(Default)]
struct SharedArrays {
    args: HashMap<String, (Array, Option<Array>)>,
    aux: HashMap<String, Array>,
}

impl SharedArrays {
    fn of(executor: &Executor) -> SharedArrays {
        let (names, aux) = (executor.symbol.list_arguments(), executor.symbol.list_auxiliary_states());
        let arrays = executor.stored_args().into_iter().zip(executor.stored_grads());
        SharedArrays {
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

/// Returns a shared array if it has the inferred shape, type and storage type.
///
/// # Errors
/// It differs.
fn checked_shared(name: &str, array: &Array, shape: &Shape, dtype: DType, storage: StorageType) -> Result<Array> {
    ensure!(
        array.shape() == shape && array.dtype() == dtype && array.storage_type() == storage,
        "{name} is {} {} ({}) in the shared executor, but {shape} {dtype} ({storage}) is needed: bind without sharing it",
        array.shape(),
        array.dtype(),
        array.storage_type()
    );
    Ok(array.clone())
}
