//! User operators whose functions are C callbacks.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;

use ferromx_runtime::context::Context;
use ferromx_runtime::dtype::DType;
use ferromx_runtime::ensure;
use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::imperative::{self, Tensor};
use ferromx_runtime::params::Attrs;
use ferromx_runtime::semantics;
use ferromx_runtime::shape::Shape;
use ferromx_runtime::sparse::{Array, StorageType};
use ferromx_runtime::storage::Req;
use ferromx_runtime::user_op::{
    self, InferredArgs, UserOpBackward, UserOpFactory, UserOpForward, UserOpInstance, UserOperator,
};

use super::args::{raw, slice, tensors, text};
use super::guard;
use super::types::{
    CustomFunctionBwdFunc, CustomOpBackwardInferStorageTypeFunc, CustomOpBwdDepFunc, CustomOpCreateFunc,
    CustomOpDelFunc, CustomOpFBFunc, CustomOpInferShapeFunc, CustomOpInferStorageTypeFunc, CustomOpInferTypeFunc,
    CustomOpListFunc, CustomOpPropCreator, MXCallbackList, MXGenericCallback, NDArrayHandle,
};
use crate::handle::insert_tensor;

/// Indices of the callbacks of an operator. Those after `CREATE` may be missing.
mod prop {
    use crate::c::types::CustomOpPropCallbacks as Index;
    pub(super) const DELETE: usize = Index::kCustomOpPropDelete as usize;
    pub(super) const LIST_ARGUMENTS: usize = Index::kCustomOpPropListArguments as usize;
    pub(super) const LIST_OUTPUTS: usize = Index::kCustomOpPropListOutputs as usize;
    pub(super) const LIST_STATES: usize = Index::kCustomOpPropListAuxiliaryStates as usize;
    pub(super) const INFER_SHAPE: usize = Index::kCustomOpPropInferShape as usize;
    pub(super) const DECLARE_DEPENDENCY: usize = Index::kCustomOpPropDeclareBackwardDependency as usize;
    pub(super) const CREATE: usize = Index::kCustomOpPropCreateOperator as usize;
    pub(super) const INFER_TYPE: usize = Index::kCustomOpPropInferType as usize;
    pub(super) const INFER_STORAGE: usize = Index::kCustomOpPropInferStorageType as usize;
    pub(super) const INFER_GRADIENT_STORAGE: usize = Index::kCustomOpPropBackwardInferStorageType as usize;
}

/// Indices of the callbacks of an instance.
mod instance {
    use crate::c::types::CustomOpCallbacks as Index;
    pub(super) const DELETE: usize = Index::kCustomOpDelete as usize;
    pub(super) const FORWARD: usize = Index::kCustomOpForward as usize;
    pub(super) const BACKWARD: usize = Index::kCustomOpBackward as usize;
}

/// Indices of the callbacks of a function with a gradient.
mod function {
    use crate::c::types::CustomFunctionCallbacks as Index;
    pub(super) const BACKWARD: usize = Index::kCustomFunctionBackward as usize;
    pub(super) const DELETE: usize = Index::kCustomFunctionDelete as usize;
}

/// Tags that tell callbacks the role of each array.
mod tag {
    use std::ffi::c_int;
    pub(super) const INPUT: c_int = 0;
    pub(super) const OUTPUT: c_int = 1;
    pub(super) const INPUT_GRADIENT: c_int = 2;
    pub(super) const OUTPUT_GRADIENT: c_int = 3;
    pub(super) const STATE: c_int = 4;
}

/// The code of a storage type that is not known yet.
const UNKNOWN_STORAGE: c_int = -1;
/// Maximum rank of an array.
const MAX_RANK: c_int = 32;
/// Maximum number of names that an operator may list.
const MAX_NAMES: usize = 1 << 16;

/// Callbacks with their contexts. Dropping them calls the callback `delete`.
struct Callbacks {
    owner: String,
    list: Vec<(MXGenericCallback, *mut c_void)>,
    delete: usize,
}

// SAFETY: by the contract of the C API callbacks may be called on any thread, with their contexts.
unsafe impl Send for Callbacks {}
// SAFETY: as above.
unsafe impl Sync for Callbacks {}

impl Callbacks {
    fn new(owner: &str, list: &MXCallbackList, delete: usize) -> Result<Callbacks> {
        let n = usize::try_from(list.num_callbacks).unwrap_or(0);
        let callbacks = slice(list.callbacks.cast_const(), n, "callbacks")?;
        let contexts = slice(list.contexts.cast_const(), n, "contexts")?;
        let list = callbacks.iter().copied().zip(contexts.iter().copied()).collect();
        Ok(Callbacks { owner: owner.into(), list, delete })
    }

    /// The callback at an index, with its context.
    fn get(&self, index: usize, what: &str) -> Result<(unsafe extern "C" fn() -> c_int, *mut c_void)> {
        match self.list.get(index) {
            Some((Some(callback), context)) => Ok((*callback, *context)),
            _ => Err(Error::Value(format!("{} gives no callback {what}", self.owner))),
        }
    }

    fn has(&self, index: usize) -> bool {
        matches!(self.list.get(index), Some((Some(_), _)))
    }

    /// Checks the status of a callback, which is 0 on failure.
    fn check(&self, returned: c_int, what: &str) -> Result<()> {
        ensure!(returned != 0, "the callback {what} of {} failed: see its output", self.owner);
        Ok(())
    }
}

/// The callback at an index, cast to its function pointer type, with its context.
macro_rules! callback {
    ($callbacks:expr, $index:expr, $what:literal, $type:ty) => {{
        let (callback, context) = $callbacks.get($index, $what)?;
        // SAFETY: by the contract of the C API the callback at this index has the signature of `$type`, which is an `Option` of a function
        // pointer and has the same representation as the non-null pointer that it is transmuted from.
        let callback = unsafe { std::mem::transmute::<unsafe extern "C" fn() -> c_int, $type>(callback) };
        match callback {
            Some(callback) => (callback, context),
            None => return Err(Error::Internal("a callback is null".into())),
        }
    }};
}

impl Drop for Callbacks {
    fn drop(&mut self) {
        let delete = || -> Result<()> {
            if self.has(self.delete) {
                let (delete, context) = callback!(self, self.delete, "delete", CustomOpDelFunc);
                // SAFETY: drop runs once, and nothing calls the callbacks afterwards.
                unsafe { delete(context) };
            }
            Ok(())
        };
        // Drop cannot report an error.
        let _ignored = delete();
    }
}

struct Factory {
    op_type: String,
    creator: unsafe extern "C" fn(
        *const c_char,
        c_int,
        *mut *const c_char,
        *mut *const c_char,
        *mut MXCallbackList,
    ) -> c_int,
}

fn c_string(s: &str) -> Result<CString> {
    CString::new(s).map_err(|_| Error::Value(format!("'{s}' has a zero byte, which C strings cannot have")))
}

impl UserOpFactory for Factory {
    fn make(&self, attrs: &Attrs) -> Result<Arc<dyn UserOperator>> {
        let name = c_string(&self.op_type)?;
        let keys = attrs.keys().map(|k| c_string(k)).collect::<Result<Vec<_>>>()?;
        let values = attrs.values().map(|v| c_string(v)).collect::<Result<Vec<_>>>()?;
        let mut key_list: Vec<_> = keys.iter().map(|k| k.as_ptr()).collect();
        let mut value_list: Vec<_> = values.iter().map(|v| v.as_ptr()).collect();
        let mut list =
            MXCallbackList { num_callbacks: 0, callbacks: std::ptr::null_mut(), contexts: std::ptr::null_mut() };
        let n = keys.len() as c_int;
        // SAFETY: by the contract of `MXCustomOpRegister`; the strings and lists outlive the call.
        let status =
            unsafe { (self.creator)(name.as_ptr(), n, key_list.as_mut_ptr(), value_list.as_mut_ptr(), &raw mut list) };
        let owner = format!("custom operator '{}'", self.op_type);
        ensure!(status != 0, "{owner} could not be created with its parameters: see its output");
        let mut operator = Operator {
            callbacks: Callbacks::new(&owner, &list, prop::DELETE)?,
            inputs: Vec::new(),
            outputs: Vec::new(),
            states: Vec::new(),
            reads_output_gradients: true,
        };
        operator.inputs = operator.names(prop::LIST_ARGUMENTS)?;
        operator.outputs = operator.names(prop::LIST_OUTPUTS)?;
        operator.states = operator.names(prop::LIST_STATES)?;
        operator.reads_output_gradients = operator.declared_output_gradients()?;
        Ok(Arc::new(operator))
    }
}

/// An operator whose properties are callbacks.
struct Operator {
    callbacks: Callbacks,
    inputs: Vec<String>,
    outputs: Vec<String>,
    states: Vec<String>,
    reads_output_gradients: bool,
}

impl Operator {
    /// Calls a callback that lists names; the list is terminated by null.
    fn names(&self, index: usize) -> Result<Vec<String>> {
        if index == prop::LIST_STATES && !self.callbacks.has(index) {
            return Ok(Vec::new());
        }
        let (list, context) = callback!(self.callbacks, index, "list", CustomOpListFunc);
        let mut names: *mut *mut c_char = std::ptr::null_mut();
        // SAFETY: by the contract of the C API.
        self.callbacks.check(unsafe { list(&raw mut names, context) }, "list")?;
        let mut all = Vec::new();
        while !names.is_null() && all.len() < MAX_NAMES {
            // SAFETY: the list is null-terminated, and its end was not reached yet.
            let name = unsafe { names.add(all.len()).read() };
            if name.is_null() {
                break;
            }
            all.push(text(name, "a name")?.into_owned());
        }
        Ok(all)
    }

    /// True if the backward pass depends on an output gradient. Array ids count output gradients, inputs and outputs, in this order.
    fn declared_output_gradients(&self) -> Result<bool> {
        if !self.callbacks.has(prop::DECLARE_DEPENDENCY) {
            return Ok(true);
        }
        let (declare, context) =
            callback!(self.callbacks, prop::DECLARE_DEPENDENCY, "declare_backward_dependency", CustomOpBwdDepFunc);
        let (ins, outs) = (self.inputs.len() as c_int, self.outputs.len() as c_int);
        let range = |from: c_int, n: c_int| (from..from + n).collect::<Vec<c_int>>();
        let (ograds, ins, outs) = (range(0, outs), range(outs, ins), range(outs + ins, outs));
        let (mut n, mut list): (c_int, *mut c_int) = (0, std::ptr::null_mut());
        // SAFETY: by the contract of the C API; the lists outlive the call.
        let returned =
            unsafe { declare(ograds.as_ptr(), ins.as_ptr(), outs.as_ptr(), &raw mut n, &raw mut list, context) };
        self.callbacks.check(returned, "declare_backward_dependency")?;
        let dependencies = slice(list.cast_const(), usize::try_from(n).unwrap_or(0), "dependencies")?;
        Ok(dependencies.iter().any(|d| ograds.contains(d)))
    }

    fn counts(&self) -> (usize, usize, usize) {
        (self.inputs.len(), self.outputs.len(), self.states.len())
    }

    /// Splits a list with an element for each array into those of inputs, outputs and states.
    fn split<T>(&self, mut all: Vec<T>) -> InferredArgs<T> {
        let (ins, outs, _) = self.counts();
        let states = all.split_off(ins + outs);
        let outs = all.split_off(ins);
        InferredArgs { ins: all, outs, states }
    }
}

/// The dimensions as C callbacks expect them: an unknown dimension is 0, or -1 in NumPy semantics.
fn c_dims(shape: &Shape) -> Vec<c_int> {
    let dims = if semantics::is_numpy_shape() { shape.dims().into() } else { shape.to_legacy() };
    dims.iter().map(|d| c_int::try_from(*d).unwrap_or(c_int::MAX)).collect()
}

impl UserOperator for Operator {
    fn inputs(&self) -> Vec<String> {
        self.inputs.clone()
    }

    fn outputs(&self) -> Vec<String> {
        self.outputs.clone()
    }

    fn states(&self) -> Vec<String> {
        self.states.clone()
    }

    fn infer_shape(&self, ins: &[Shape], _: &[Shape]) -> Result<InferredArgs<Shape>> {
        let (infer, context) = callback!(self.callbacks, prop::INFER_SHAPE, "infer_shape", CustomOpInferShapeFunc);
        let (n_ins, n_outs, n_states) = self.counts();
        let n = n_ins + n_outs + n_states;
        let mut dims: Vec<Vec<c_int>> = ins.iter().map(c_dims).collect();
        dims.resize(n, Vec::new());
        let mut ranks: Vec<c_int> = dims.iter().map(|d| d.len() as c_int).collect();
        let mut shapes: Vec<*mut c_int> = dims.iter_mut().map(|d| d.as_mut_ptr()).collect();
        // SAFETY: by the contract of the C API; the lists outlive the call. The callback may replace the pointers to dimensions by its own.
        let returned = unsafe { infer(n as c_int, ranks.as_mut_ptr(), shapes.as_mut_ptr(), context) };
        self.callbacks.check(returned, "infer_shape")?;
        let read = |(rank, dims): (&c_int, &*mut c_int)| {
            ensure!(*rank <= MAX_RANK, "{} inferred a shape of {rank} dimensions", self.callbacks.owner);
            let Ok(rank) = usize::try_from(*rank) else { return Ok(Shape::unknown()) };
            let dims: Vec<i64> = slice(dims.cast_const(), rank, "shape")?.iter().map(|d| i64::from(*d)).collect();
            Ok(if semantics::is_numpy_shape() { Shape::new(&dims) } else { Shape::from_legacy(&dims) })
        };
        Ok(self.split(ranks.iter().zip(&shapes).map(read).collect::<Result<_>>()?))
    }

    fn infer_dtype(&self, ins: &[Option<DType>], _: &[Option<DType>]) -> Result<InferredArgs<Option<DType>>> {
        let (n_ins, n_outs, n_states) = self.counts();
        if !self.callbacks.has(prop::INFER_TYPE) {
            let first = ins.iter().flatten().next().copied();
            return Ok(self.split(vec![first; n_ins + n_outs + n_states]));
        }
        let (infer, context) = callback!(self.callbacks, prop::INFER_TYPE, "infer_type", CustomOpInferTypeFunc);
        let mut types: Vec<c_int> = ins.iter().map(|d| d.map_or(-1, DType::code)).collect();
        types.resize(n_ins + n_outs + n_states, -1);
        // SAFETY: by the contract of the C API; the list outlives the call.
        let returned = unsafe { infer(types.len() as c_int, types.as_mut_ptr(), context) };
        self.callbacks.check(returned, "infer_type")?;
        Ok(self.split(types.into_iter().map(DType::from_code).collect()))
    }

    fn infer_storage(&self, ins: &[StorageType]) -> Result<Option<InferredArgs<StorageType>>> {
        if !self.callbacks.has(prop::INFER_STORAGE) {
            return Ok(None);
        }
        let (infer, context) =
            callback!(self.callbacks, prop::INFER_STORAGE, "infer_storage_type", CustomOpInferStorageTypeFunc);
        let (n_ins, n_outs, n_states) = self.counts();
        let mut types: Vec<c_int> = ins.iter().map(|t| *t as c_int).collect();
        types.resize(n_ins + n_outs + n_states, UNKNOWN_STORAGE);
        // SAFETY: by the contract of the C API; the list outlives the call.
        let returned = unsafe { infer(types.len() as c_int, types.as_mut_ptr(), context) };
        self.callbacks.check(returned, "infer_storage_type")?;
        Ok(Some(self.split(types.into_iter().map(StorageType::from_code).collect::<Result<_>>()?)))
    }

    fn infer_gradient_storage(
        &self,
        ograds: &[StorageType],
        ins: &[StorageType],
        outs: &[StorageType],
        states: &[StorageType],
    ) -> Result<Option<Vec<StorageType>>> {
        if !self.callbacks.has(prop::INFER_GRADIENT_STORAGE) {
            return Ok(None);
        }
        let index = prop::INFER_GRADIENT_STORAGE;
        let (infer, context) =
            callback!(self.callbacks, index, "infer_storage_type_backward", CustomOpBackwardInferStorageTypeFunc);
        let mut types: Vec<c_int> = Vec::new();
        let mut tags: Vec<c_int> = Vec::new();
        let mut add = |tag: c_int, codes: &mut dyn Iterator<Item = c_int>| {
            types.extend(codes);
            tags.resize(types.len(), tag);
        };
        add(tag::OUTPUT_GRADIENT, &mut ograds.iter().map(|t| *t as c_int));
        add(tag::INPUT, &mut ins.iter().map(|t| *t as c_int));
        add(tag::OUTPUT, &mut outs.iter().map(|t| *t as c_int));
        add(tag::INPUT_GRADIENT, &mut ins.iter().map(|_| UNKNOWN_STORAGE));
        add(tag::STATE, &mut states.iter().map(|t| *t as c_int));
        // SAFETY: by the contract of the C API; the lists outlive the call.
        let returned = unsafe { infer(types.len() as c_int, types.as_mut_ptr(), tags.as_mut_ptr(), context) };
        self.callbacks.check(returned, "infer_storage_type_backward")?;
        let gradients = types.iter().zip(&tags).filter(|(_, tag)| **tag == tag::INPUT_GRADIENT);
        gradients.map(|(code, _)| StorageType::from_code(*code)).collect::<Result<_>>().map(Some)
    }

    fn reads_output_gradients(&self) -> bool {
        self.reads_output_gradients
    }

    fn create(&self, context: Context, shapes: &[Shape], dtypes: &[DType]) -> Result<Box<dyn UserOpInstance>> {
        let (create, state) = callback!(self.callbacks, prop::CREATE, "create_operator", CustomOpCreateFunc);
        let device = c_string(&context.to_string())?;
        let mut dims: Vec<Vec<u32>> = shapes.iter().map(|s| s.dims().iter().map(|d| *d as u32).collect()).collect();
        let mut lists: Vec<*mut u32> = dims.iter_mut().map(|d| d.as_mut_ptr()).collect();
        let ranks: Vec<c_int> = dims.iter().map(|d| d.len() as c_int).collect();
        let types: Vec<c_int> = dtypes.iter().map(|d| d.code()).collect();
        let mut list =
            MXCallbackList { num_callbacks: 0, callbacks: std::ptr::null_mut(), contexts: std::ptr::null_mut() };
        // SAFETY: by the contract of the C API; strings and lists outlive the call.
        let returned = unsafe {
            create(
                device.as_ptr(),
                shapes.len() as c_int,
                lists.as_mut_ptr(),
                ranks.as_ptr(),
                types.as_ptr(),
                &raw mut list,
                state,
            )
        };
        self.callbacks.check(returned, "create_operator")?;
        Ok(Box::new(Instance(Callbacks::new(&self.callbacks.owner, &list, instance::DELETE)?)))
    }
}

/// New handles of arrays, which the callback frees.
fn handles<'a>(arrays: impl IntoIterator<Item = &'a Array>) -> Vec<*mut c_void> {
    arrays.into_iter().map(|a| raw(insert_tensor(Tensor::new(a.clone())))).collect()
}

/// An instance of a user operator.
struct Instance(Callbacks);

impl Instance {
    /// Calls the callback at `index` with groups of arrays and their tags.
    fn call(&self, index: usize, what: &str, groups: &[(c_int, &[Array])], reqs: &[Req], is_train: bool) -> Result<()> {
        let (run, context) = callback!(self.0, index, "forward or backward", CustomOpFBFunc);
        let mut arrays = handles(groups.iter().flat_map(|(_, arrays)| *arrays));
        let mut tags: Vec<c_int> = groups.iter().flat_map(|(tag, arrays)| arrays.iter().map(|_| *tag)).collect();
        let reqs: Vec<c_int> = reqs.iter().map(|r| *r as c_int).collect();
        // SAFETY: by the contract of the C API; the lists outlive the call.
        let returned = unsafe {
            run(
                arrays.len() as c_int,
                arrays.as_mut_ptr(),
                tags.as_mut_ptr(),
                reqs.as_ptr(),
                c_int::from(is_train),
                context,
            )
        };
        self.0.check(returned, what)
    }
}

impl UserOpInstance for Instance {
    fn forward(&mut self, c: &UserOpForward<'_>) -> Result<()> {
        let groups = [(tag::INPUT, c.ins), (tag::OUTPUT, c.outs), (tag::STATE, c.states)];
        self.call(instance::FORWARD, "forward", &groups, c.reqs, c.is_train)
    }

    fn backward(&mut self, c: &UserOpBackward<'_>) -> Result<()> {
        let groups = [
            (tag::OUTPUT_GRADIENT, c.ograds),
            (tag::INPUT, c.ins),
            (tag::OUTPUT, c.outs),
            (tag::INPUT_GRADIENT, c.igrads),
            (tag::STATE, c.states),
        ];
        self.call(instance::BACKWARD, "backward", &groups, c.reqs, c.is_train)
    }
}

/// A recorded function whose gradient is a callback.
struct Function(Callbacks);

impl UserOpInstance for Function {
    fn forward(&mut self, _: &UserOpForward<'_>) -> Result<()> {
        Err(Error::Internal("a recorded function cannot run again".into()))
    }

    fn backward(&mut self, c: &UserOpBackward<'_>) -> Result<()> {
        let (run, context) = callback!(self.0, function::BACKWARD, "backward", CustomFunctionBwdFunc);
        let mut arrays = handles(c.ograds.iter().chain(c.igrads));
        let reqs: Vec<c_int> = c.reqs.iter().map(|r| *r as c_int).collect();
        let (ograds, igrads) = (c.ograds.len() as c_int, c.igrads.len() as c_int);
        // SAFETY: by the contract of the C API; the lists outlive the call.
        let returned =
            unsafe { run(ograds, igrads, arrays.as_mut_ptr(), reqs.as_ptr(), c_int::from(c.is_train), context) };
        self.0.check(returned, "backward")
    }
}

/// Registers a user operator for `Custom`. `creator` fills the list with the callbacks of the operator, in the order of
/// `CustomOpPropCallbacks`: delete, list arguments, outputs and auxiliary states, infer shapes, declare the dependencies of the gradient,
/// create an instance, infer types, infer storage types, infer storage types of gradients. An instance has the callbacks delete, forward
/// and backward. Callbacks return 0 on failure. They own the array handles that they get.
#[unsafe(no_mangle)]
pub extern "C" fn MXCustomOpRegister(op_type: *const c_char, creator: CustomOpPropCreator) -> c_int {
    guard(|| {
        let op_type = text(op_type, "op_type")?.into_owned();
        let creator = creator.ok_or_else(|| Error::Value("the pointer creator is null".into()))?;
        user_op::register(&op_type.clone(), Arc::new(Factory { op_type, creator }));
        Ok(())
    })
}

/// Records a function that computed `outputs` from `inputs`. Its callbacks are backward and delete; backward gets handles of the output
/// gradients and of arrays for the input gradients, which it frees.
#[unsafe(no_mangle)]
pub extern "C" fn MXCustomFunctionRecord(
    num_inputs: c_int,
    inputs: *mut NDArrayHandle,
    num_outputs: c_int,
    outputs: *mut NDArrayHandle,
    callbacks: *mut MXCallbackList,
) -> c_int {
    guard(|| {
        let inputs = tensors(inputs, super::args::count(num_inputs, "num_inputs")?, "inputs")?;
        let outputs = tensors(outputs, super::args::count(num_outputs, "num_outputs")?, "outputs")?;
        let list = slice(callbacks.cast_const(), 1, "callbacks")?;
        let callbacks = Callbacks::new("the function", &list[0], function::DELETE)?;
        imperative::record_function(Box::new(Function(callbacks)), &inputs, &outputs)
    })
}
