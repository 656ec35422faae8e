//! The types of the C API. Handles are opaque: they are indices into the handle table, never addresses.

use std::ffi::{c_char, c_int, c_void};

/// An array.
pub type NDArrayHandle = *mut c_void;
/// An operator.
pub type AtomicSymbolCreator = *mut c_void;
/// An operator, in NNVM's functions.
pub type OpHandle = *mut c_void;
/// A legacy array function.
pub type FunctionHandle = *const c_void;
/// A symbol.
pub type SymbolHandle = *mut c_void;
/// An operator of a graph.
#[allow(dead_code)] // For C programs.
pub type AtomicSymbolHandle = *mut c_void;
/// A symbol bound to arrays.
pub type ExecutorHandle = *mut c_void;
/// A kind of data iterator.
pub type DataIterCreator = *mut c_void;
/// A data iterator.
pub type DataIterHandle = *mut c_void;

/// A profiling object: domain, task, frame, event or counter.
pub type ProfileHandle = *mut c_void;
/// A [`DLManagedTensor`].
pub type DLManagedTensorHandle = *mut c_void;
/// An object of a packed function.
pub type MXNetObjectHandle = *mut c_void;

/// A DLPack tensor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLTensor {
    /// The memory.
    pub data: *mut c_void,
    /// Device type; 1 is the CPU.
    pub device_type: c_int,
    /// Device id.
    pub device_id: c_int,
    /// Number of dimensions.
    pub ndim: c_int,
    /// Type code of the elements: 0 signed, 1 unsigned, 2 floating-point, 4 bfloat.
    pub dtype_code: u8,
    /// Bits of an element.
    pub dtype_bits: u8,
    /// Number of vector lanes.
    pub dtype_lanes: u16,
    /// The dimensions.
    pub shape: *mut i64,
    /// Strides in elements; null if the tensor is contiguous.
    pub strides: *mut i64,
    /// Byte offset of the first element.
    pub byte_offset: u64,
}

/// A DLPack tensor with its owner.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// Data of the owner.
    pub manager_ctx: *mut c_void,
    /// Releases the tensor.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// An argument or the result of a packed function.
#[repr(C)]
#[derive(Clone, Copy)]
pub union MXNetValue {
    /// An integer.
    pub v_int64: i64,
    /// A floating-point number.
    pub v_float64: f64,
    /// A handle.
    pub v_handle: *mut c_void,
    /// A string.
    pub v_str: *const c_char,
}

/// A RecordIO file.
pub type RecordIOHandle = *mut c_void;
/// A key-value store.
pub type KVStoreHandle = *mut c_void;
/// A membership in a distributed job.
pub type FerroJobHandle = *mut c_void;
/// Updates the stored array of an integer key. Arguments: key, pushed array, stored array, user data. The callee owns both array handles.
pub type MXKVStoreUpdater = Option<unsafe extern "C" fn(c_int, NDArrayHandle, NDArrayHandle, *mut c_void)>;
/// Like `MXKVStoreUpdater`, for string keys.
pub type MXKVStoreStrUpdater = Option<unsafe extern "C" fn(*const c_char, NDArrayHandle, NDArrayHandle, *mut c_void)>;

/// A network bound for prediction.
pub type PredictorHandle = *mut c_void;
/// A packed function.
pub type MXNetFunctionHandle = *mut c_void;
/// A list of arrays from a file.
pub type NDListHandle = *mut c_void;

/// Called for each output that an executor computes. Arguments: name, array, user data. The callee owns the array handle.
pub type ExecutorMonitorCallback = Option<unsafe extern "C" fn(*const c_char, NDArrayHandle, *mut c_void)>;

/// A feature of the build.
#[repr(C)]
pub struct LibFeature {
    /// Name, such as `CPU_AVX2`.
    pub name: *const c_char,
    /// Whether it is enabled.
    pub enabled: bool,
}

// SAFETY: the name points to a string that is never freed or changed.
unsafe impl Send for LibFeature {}
// SAFETY: as above.
unsafe impl Sync for LibFeature {}

/// A graph that is called like an operator.
pub type CachedOpHandle = *mut c_void;
/// Called for each array of a cached operator. Arguments: name of the array, name of its operator, array. The callee owns the array handle.
pub type CachedOpMonitorCallback = Option<unsafe extern "C" fn(*const c_char, *const c_char, NDArrayHandle)>;

/// A callback of unknown type.
pub type MXGenericCallback = Option<unsafe extern "C" fn() -> c_int>;

/// A list of callbacks with their contexts.
#[repr(C)]
pub struct MXCallbackList {
    /// Number of callbacks.
    pub num_callbacks: c_int,
    /// The callbacks; each must be cast to its type.
    pub callbacks: *mut MXGenericCallback,
    /// The last argument of each callback.
    pub contexts: *mut *mut c_void,
}

/// Creates the callbacks of a custom operator. Arguments: operator type, number of parameters, their keys and values, the list to fill in.
/// Returns 0 on failure.
pub type CustomOpPropCreator = Option<
    unsafe extern "C" fn(*const c_char, c_int, *mut *const c_char, *mut *const c_char, *mut MXCallbackList) -> c_int,
>;
/// Deletes a context.
pub type CustomOpDelFunc = Option<unsafe extern "C" fn(*mut c_void) -> c_int>;
/// Lists names; the list is terminated by null.
pub type CustomOpListFunc = Option<unsafe extern "C" fn(*mut *mut *mut c_char, *mut c_void) -> c_int>;
/// Infers shapes. Arguments: number of arrays, their ranks, their dimensions.
pub type CustomOpInferShapeFunc =
    Option<unsafe extern "C" fn(c_int, *mut c_int, *mut *mut c_int, *mut c_void) -> c_int>;
/// Infers element types. Arguments: number of arrays, their type codes.
pub type CustomOpInferTypeFunc = Option<unsafe extern "C" fn(c_int, *mut c_int, *mut c_void) -> c_int>;
/// Declares the dependencies of the gradient. Arguments: ids of output gradients, inputs and outputs; returns number and ids of those it
/// reads.
pub type CustomOpBwdDepFunc = Option<
    unsafe extern "C" fn(*const c_int, *const c_int, *const c_int, *mut c_int, *mut *mut c_int, *mut c_void) -> c_int,
>;
/// Creates an instance. Arguments: device, number of inputs, their shapes, ranks and types, the list of callbacks to fill in.
pub type CustomOpCreateFunc = Option<
    unsafe extern "C" fn(
        *const c_char,
        c_int,
        *mut *mut u32,
        *const c_int,
        *const c_int,
        *mut MXCallbackList,
        *mut c_void,
    ) -> c_int,
>;
/// Runs forward or backward. Arguments: number of arrays, the arrays, their tags, requests, whether in training mode.
pub type CustomOpFBFunc =
    Option<unsafe extern "C" fn(c_int, *mut *mut c_void, *mut c_int, *const c_int, c_int, *mut c_void) -> c_int>;
/// Computes the gradients of a function. Arguments: numbers of output and input gradients, the arrays, requests, whether in training mode.
pub type CustomFunctionBwdFunc =
    Option<unsafe extern "C" fn(c_int, c_int, *mut *mut c_void, *const c_int, c_int, *mut c_void) -> c_int>;

/// Infers storage types. Arguments: number of arrays, their codes.
pub type CustomOpInferStorageTypeFunc = Option<unsafe extern "C" fn(c_int, *mut c_int, *mut c_void) -> c_int>;
/// Infers the storage types of the gradients. Arguments: number of arrays, their codes, their tags.
pub type CustomOpBackwardInferStorageTypeFunc =
    Option<unsafe extern "C" fn(c_int, *mut c_int, *mut c_int, *mut c_void) -> c_int>;
/// Deletes the context of a function.
#[allow(dead_code)] // For C programs.
pub type CustomFunctionDelFunc = Option<unsafe extern "C" fn(*mut c_void) -> c_int>;

/// Indices of the callbacks of an operator.
#[repr(C)]
#[allow(non_camel_case_types, clippy::enum_variant_names, dead_code)] // C programs use all of them, by MXNet's names.
pub enum CustomOpPropCallbacks {
    kCustomOpPropDelete,
    kCustomOpPropListArguments,
    kCustomOpPropListOutputs,
    kCustomOpPropListAuxiliaryStates,
    kCustomOpPropInferShape,
    kCustomOpPropDeclareBackwardDependency,
    kCustomOpPropCreateOperator,
    kCustomOpPropInferType,
    kCustomOpPropInferStorageType,
    kCustomOpPropBackwardInferStorageType,
}

/// Indices of the callbacks of an operator's instance.
#[repr(C)]
#[allow(non_camel_case_types, clippy::enum_variant_names)] // MXNet's names.
pub enum CustomOpCallbacks {
    kCustomOpDelete,
    kCustomOpForward,
    kCustomOpBackward,
}

/// Indices of the callbacks of a recorded function.
#[repr(C)]
#[allow(non_camel_case_types, clippy::enum_variant_names)] // MXNet's names.
pub enum CustomFunctionCallbacks {
    kCustomFunctionBackward,
    kCustomFunctionDelete,
}

/// CUDA code in early versions of MXNet.
pub type RtcHandle = *mut c_void;
/// Compiled CUDA code.
pub type CudaModuleHandle = *mut c_void;
/// A kernel of compiled CUDA code.
pub type CudaKernelHandle = *mut c_void;
/// A device: two consecutive integers, type and id.
pub type ContextHandle = *const c_void;
/// Scheduling properties of a function for the engine.
pub type EngineFnPropertyHandle = *const c_void;
/// A variable of MXNet's engine.
pub type EngineVarHandle = *mut c_void;
/// An asynchronous function, which reports its completion by a callback. Arguments: run context, callback, parameter.
pub type EngineAsyncFunc = Option<unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void)>;
/// A synchronous function. Arguments: run context, parameter.
pub type EngineSyncFunc = Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>;
/// Frees the parameter of a function.
pub type EngineFuncParamDeleter = Option<unsafe extern "C" fn(*mut c_void)>;

/// A graph with attributes, in NNVM's functions.
pub type GraphHandle = *mut c_void;
/// Like `ExecutorMonitorCallback`, for predictors.
pub type PredMonitorCallback = ExecutorMonitorCallback;
/// Called for a command to a server. Arguments: command id, body, user data.
pub type MXKVStoreServerController = Option<unsafe extern "C" fn(c_int, *const c_char, *mut c_void)>;
