//! The types of the C API. Handles are opaque: they are numbers that the handle table checks, never addresses.

use std::ffi::{c_char, c_void};

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
