//! The types of the C API. Handles are opaque: they are numbers that the handle table checks, never addresses.

use std::ffi::{c_char, c_int, c_void};

/// An array.
pub type NDArrayHandle = *mut c_void;
/// An operator.
pub type AtomicSymbolCreator = *mut c_void;
/// An operator, as nnvm's functions name it.
pub type OpHandle = *mut c_void;
/// A legacy function on arrays.
pub type FunctionHandle = *const c_void;
/// A symbol.
pub type SymbolHandle = *mut c_void;
/// A symbol bound to arrays.
pub type ExecutorHandle = *mut c_void;
/// A kind of data iterator.
pub type DataIterCreator = *mut c_void;
/// A data iterator.
pub type DataIterHandle = *mut c_void;

/// Something that the profiler measures for a user.
pub type ProfileHandle = *mut c_void;
/// A [`DLManagedTensor`].
pub type DLManagedTensorHandle = *mut c_void;
/// An object of a packed function.
pub type MXNetObjectHandle = *mut c_void;

/// An array in DLPack's form.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLTensor {
    /// The memory.
    pub data: *mut c_void,
    /// Kind of device; 1 is the host's processor.
    pub device_type: c_int,
    /// Number of the device.
    pub device_id: c_int,
    /// Number of dimensions.
    pub ndim: c_int,
    /// Kind of the elements: 0 signed, 1 unsigned, 2 floating-point, 4 bfloat.
    pub dtype_code: u8,
    /// Bits of an element.
    pub dtype_bits: u8,
    /// Elements of a vector.
    pub dtype_lanes: u16,
    /// The dimensions.
    pub shape: *mut i64,
    /// Elements from one index of each axis to the next; null if elements lie one after the other.
    pub strides: *mut i64,
    /// Where the elements begin in the memory.
    pub byte_offset: u64,
}

/// An array in DLPack's form that somebody owns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLManagedTensor {
    /// The array.
    pub dl_tensor: DLTensor,
    /// The owner's.
    pub manager_ctx: *mut c_void,
    /// Gives the array back to its owner.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// An argument or the result of a packed function.
#[repr(C)]
#[derive(Clone, Copy)]
pub union MXNetValue {
    /// An integer.
    pub v_int64: i64,
    /// A number.
    pub v_float64: f64,
    /// A handle.
    pub v_handle: *mut c_void,
    /// A string.
    pub v_str: *const c_char,
}

/// A file of records.
pub type RecordIOHandle = *mut c_void;
/// A key-value store.
pub type KVStoreHandle = *mut c_void;
/// Updates what is stored under a number: key, what was pushed, what is stored, the pointer given when it was installed. It owns both
/// arrays' handles.
pub type MXKVStoreUpdater = Option<unsafe extern "C" fn(c_int, NDArrayHandle, NDArrayHandle, *mut c_void)>;
/// Updates what is stored under a name; otherwise as `MXKVStoreUpdater`.
pub type MXKVStoreStrUpdater = Option<unsafe extern "C" fn(*const c_char, NDArrayHandle, NDArrayHandle, *mut c_void)>;

/// A network that is ready for prediction.
pub type PredictorHandle = *mut c_void;
/// A packed function.
pub type MXNetFunctionHandle = *mut c_void;
/// A list of arrays that was read from a file.
pub type NDListHandle = *mut c_void;

/// Called with the name and the array of each output that an executor computes, and the pointer given when it was installed.
/// The callee owns the array's handle.
pub type ExecutorMonitorCallback = Option<unsafe extern "C" fn(*const c_char, NDArrayHandle, *mut c_void)>;

/// What this build has or lacks.
#[repr(C)]
pub struct LibFeature {
    /// Name, such as `CPU_AVX2`.
    pub name: *const c_char,
    /// Whether it is there.
    pub enabled: bool,
}

/// A graph that is called like an operator.
pub type CachedOpHandle = *mut c_void;
/// Called with the names of an array and its operator, and the array, whose handle the callee owns.
pub type CachedOpMonitorCallback = Option<unsafe extern "C" fn(*const c_char, *const c_char, NDArrayHandle)>;

/// A callback of unknown type.
pub type MXGenericCallback = Option<unsafe extern "C" fn() -> c_int>;

/// Callbacks and what each is called with.
#[repr(C)]
pub struct MXCallbackList {
    /// How many there are.
    pub num_callbacks: c_int,
    /// The callbacks, each to be cast to its type.
    pub callbacks: *mut MXGenericCallback,
    /// The last argument of each.
    pub contexts: *mut *mut c_void,
}

/// Fills in the callbacks of an operator: type, number of parameters, their keys and values, the list. Returns 0 if it fails.
pub type CustomOpPropCreator = Option<
    unsafe extern "C" fn(*const c_char, c_int, *mut *const c_char, *mut *const c_char, *mut MXCallbackList) -> c_int,
>;
/// Deletes what a context stands for.
pub type CustomOpDelFunc = Option<unsafe extern "C" fn(*mut c_void) -> c_int>;
/// Lists names; the list ends with null.
pub type CustomOpListFunc = Option<unsafe extern "C" fn(*mut *mut *mut c_char, *mut c_void) -> c_int>;
/// Completes shapes: number of arrays, their ranks, their dimensions.
pub type CustomOpInferShapeFunc =
    Option<unsafe extern "C" fn(c_int, *mut c_int, *mut *mut c_int, *mut c_void) -> c_int>;
/// Completes element types: number of arrays, their codes.
pub type CustomOpInferTypeFunc = Option<unsafe extern "C" fn(c_int, *mut c_int, *mut c_void) -> c_int>;
/// Says what the gradient reads: numbers of output gradients, inputs and outputs go in, those that are read come out.
pub type CustomOpBwdDepFunc = Option<
    unsafe extern "C" fn(*const c_int, *const c_int, *const c_int, *mut c_int, *mut *mut c_int, *mut c_void) -> c_int,
>;
/// Makes an instance: device, number of inputs, their shapes, ranks and types, the list of its callbacks.
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
/// Runs forward or backward: number of arrays, the arrays, what each is, requests, whether training.
pub type CustomOpFBFunc =
    Option<unsafe extern "C" fn(c_int, *mut *mut c_void, *mut c_int, *const c_int, c_int, *mut c_void) -> c_int>;
/// Computes gradients of a function: numbers of output and input gradients, the arrays, requests, whether training.
pub type CustomFunctionBwdFunc =
    Option<unsafe extern "C" fn(c_int, c_int, *mut *mut c_void, *const c_int, c_int, *mut c_void) -> c_int>;

/// CUDA code of MXNet's early versions.
pub type RtcHandle = *mut c_void;
/// Compiled CUDA code.
pub type CudaModuleHandle = *mut c_void;
/// A kernel of compiled CUDA code.
pub type CudaKernelHandle = *mut c_void;
/// A device: its kind and its number, two integers one after the other.
pub type ContextHandle = *const c_void;
/// How the engine is to treat a function.
pub type EngineFnPropertyHandle = *const c_void;
/// A variable of MXNet's engine.
pub type EngineVarHandle = *mut c_void;
/// A function that says by a callback when it has finished: run context, callback, parameter.
pub type EngineAsyncFunc = Option<unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void)>;
/// A function that has finished when it returns: run context, parameter.
pub type EngineSyncFunc = Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>;
/// Frees the parameter of a function.
pub type EngineFuncParamDeleter = Option<unsafe extern "C" fn(*mut c_void)>;

/// A graph with attributes, as nnvm's functions have it.
pub type GraphHandle = *mut c_void;
/// As `ExecutorMonitorCallback`, for networks that predict.
pub type PredMonitorCallback = ExecutorMonitorCallback;
/// Called with a command for a server: its number, its text, the pointer given when it was installed.
pub type MXKVStoreServerController = Option<unsafe extern "C" fn(c_int, *const c_char, *mut c_void)>;
