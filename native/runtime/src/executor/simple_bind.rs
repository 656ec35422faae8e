//! Binds a symbol to arrays that it allocates or shares with another executor.

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
use crate::passes::storage::infer_storage;
use crate::symbol::{Symbol, Variable};
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
        let specs = self.specs(symbol)?;
        let shared = self.shared.map(SharedArrays::of).unwrap_or_default();
        let mut memory = Memory::new(self.buffer.as_mut(), &self.shared_args);
        let (mut args, mut grads) = (Vec::new(), Vec::new());
        for ((arg, grad), req) in specs.args.iter().zip(&specs.grads).zip(&self.reqs) {
            let shared_arg = shared.args.get(&arg.name).filter(|_| memory.shared_args.contains(arg.name.as_str()));
            grads.push(match (req, shared_arg.and_then(|(_, grad)| grad.as_ref())) {
                (Req::Null, _) => None,
                (_, Some(array)) => Some(grad.checked_shared(array)?),
                (_, None) => Some(memory.array(&format!("grad of {}", grad.name), grad)?),
            });
            args.push(match shared_arg {
                Some((array, _)) => arg.checked_shared(array)?,
                None => memory.array(&arg.name, arg)?,
            });
        }
        let aux = specs.aux.iter().map(|spec| match shared.aux.get(&spec.name) {
            Some(array) => spec.checked_shared(array),
            None => spec.zeros(),
        });
        let bound = BoundStored { args, grads, reqs: self.reqs.clone(), aux: aux.collect::<Result<_>>()? };
        Executor::bind_stored(symbol, self.devices.clone(), bound, self.shared)
    }

    /// Infers the properties of the arrays to bind.
    fn specs(&self, symbol: &Symbol) -> Result<Specs> {
        let inference = Inference::new(symbol);
        let shapes = inference.shapes_of_variables(&self.shapes)?;
        let dtypes = inference.dtypes_of_variables(&self.dtypes)?;
        let (aux, args): (Vec<_>, Vec<_>) = symbol.variables().into_iter().partition(|v| v.is_aux);
        ensure!(self.reqs.len() == args.len(), "{} gradient requests for {} arguments", self.reqs.len(), args.len());
        let is_requested: Vec<bool> = self.reqs.iter().map(|r| *r != Req::Null).collect();
        let storage = match &self.storage_types {
            Some(given) => infer_storage(symbol, given, &is_requested)?,
            None => None,
        };
        let specs = |variables: &[Variable], shapes: &[Shape], dtypes: &[Option<DType>], storage: Option<&Vec<_>>| {
            let spec = |(i, v): (usize, &Variable)| VariableSpec {
                name: v.node.name.to_string(),
                shape: shapes[i].clone(),
                dtype: dtypes[i].unwrap_or(DType::F32),
                storage_type: storage.map_or(StorageType::Default, |types| types[i]),
                context: self.devices.of_variable(&v.node.attrs.read()),
            };
            variables.iter().enumerate().map(spec).collect()
        };
        let storage = storage.as_ref();
        Ok(Specs {
            args: specs(&args, &shapes.args, &dtypes.args, storage.map(|s| &s.args)),
            grads: specs(&args, &shapes.args, &dtypes.args, storage.map(|s| &s.grads)),
            aux: specs(&aux, &shapes.aux, &dtypes.aux, storage.map(|s| &s.aux)),
        })
    }
}

/// The properties of the arrays to bind.
struct Specs {
    args: Vec<VariableSpec>,
    /// The gradients of the arguments, with the names of the arguments.
    grads: Vec<VariableSpec>,
    aux: Vec<VariableSpec>,
}

/// The properties of a variable's array or gradient array.
struct VariableSpec {
    /// The name of the variable.
    name: String,
    shape: Shape,
    dtype: DType,
    storage_type: StorageType,
    context: Context,
}

impl VariableSpec {
    /// A new array of zeros.
    fn zeros(&self) -> Result<Array> {
        if self.storage_type == StorageType::Default {
            return Ok(self.dense_zeros()?.into());
        }
        self.check_known()?;
        let array = SparseArray::zeros(self.storage_type, &self.shape, self.dtype, self.context);
        Ok(array.map_err(|e| Error::Value(format!("{} cannot be {}: {e}", self.name, self.storage_type)))?.into())
    }

    fn dense_zeros(&self) -> Result<NDArray> {
        self.check_known()?;
        NDArray::zeros(&self.shape, self.dtype, self.context)
    }

    fn check_known(&self) -> Result<()> {
        let VariableSpec { name, shape, .. } = self;
        ensure!(
            shape.is_known(),
            "the shape of {name} cannot be inferred (known so far: {shape}): give it to simple_bind"
        );
        Ok(())
    }

    /// Returns a shared array if it has these properties.
    ///
    /// # Errors
    /// It differs.
    fn checked_shared(&self, array: &Array) -> Result<Array> {
        let VariableSpec { name, shape, dtype, storage_type, .. } = self;
        ensure!(
            array.shape() == shape && array.dtype() == *dtype && array.storage_type() == *storage_type,
            "{name} is {} {} ({}) in the shared executor, but {shape} {dtype} ({storage_type}) is needed: bind without sharing it",
            array.shape(),
            array.dtype(),
            array.storage_type()
        );
        Ok(array.clone())
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

    /// An array for a variable or its gradient: in the memory of the buffer's array `key`, or a new one that the buffer keeps. Sparse
    /// arrays are always new.
    fn array(&mut self, key: &str, spec: &VariableSpec) -> Result<Array> {
        if spec.storage_type != StorageType::Default {
            return spec.zeros();
        }
        let is_shared = self.shared_args.contains(spec.name.as_str());
        let Some(buffer) = self.buffer.as_mut().filter(|_| !is_shared) else {
            return spec.zeros();
        };
        let index = self.by_name.get(key).copied();
        if let Some(array) = index.map(|i| &buffer[i].1)
            && spec.shape.is_known()
            && array.dtype() == spec.dtype
            && array.context() == spec.context
            && array.len() >= spec.shape.num_elements()
        {
            let view = NDArray::view(array.chunk().clone(), array.byte_range().start, spec.shape.clone(), spec.dtype)?;
            return Ok(view.into());
        }
        let array = spec.dense_zeros()?;
        match index {
            Some(i) => buffer[i].1 = array.clone(),
            None => {
                self.by_name.insert(key.into(), buffer.len());
                buffer.push((key.into(), array.clone()));
            }
        }
        Ok(array.into())
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
