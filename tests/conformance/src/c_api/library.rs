//! The functions of the C API that the cases need, loaded from a built library, and safe wrappers of them.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

use ferromx_core::dtype::DType;
use ferromx_core::sparse::StorageType;
use ferromx_core::storage::Req;

use crate::golden::GoldenArray;
use crate::value::Array;

type Handle = *mut c_void;
type Text = *const c_char;
type Shapes = *const *const c_int;

/// The device type of the CPU.
const CPU: c_int = 1;

/// Declares the type of a table of C functions and loads it by name.
macro_rules! functions {
    ($($name:ident($($argument:ty),*);)*) => {
        #[allow(non_snake_case)]
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) -> c_int,)*
            MXGetLastError: unsafe extern "C" fn() -> Text,
        }

        impl Functions {
            fn load(library: &libloading::Library) -> Result<Functions, libloading::Error> {
                // SAFETY: the types are those of MXNet's c_api.h; `CApi` keeps the library loaded as long as the functions.
                unsafe {
                    Ok(Functions {
                        $($name: *library.get(stringify!($name).as_bytes())?,)*
                        MXGetLastError: *library.get(b"MXGetLastError")?,
                    })
                }
            }
        }
    };
}

functions! {
    MXSetIsNumpyShape(c_int, *mut c_int);
    MXAutogradSetIsTraining(c_int, *mut c_int);
    MXAutogradSetIsRecording(c_int, *mut c_int);
    MXAutogradMarkVariables(u32, *const Handle, *const u32, *const Handle);
    MXAutogradBackwardEx(
        u32, *const Handle, *const Handle, u32, *const Handle, c_int, c_int, c_int, *mut *mut Handle, *mut *mut c_int
    );
    MXNDArrayCreateEx64(*const i64, c_int, c_int, c_int, c_int, c_int, *mut Handle);
    MXNDArraySyncCopyFromCPU(Handle, *const c_void, usize);
    MXNDArraySyncCopyToCPU(Handle, *mut c_void, usize);
    MXNDArrayGetShapeEx64(Handle, *mut c_int, *mut *const i64);
    MXNDArrayGetDType(Handle, *mut c_int);
    MXNDArrayGetStorageType(Handle, *mut c_int);
    MXNDArrayFree(Handle);
    MXListAllOpNames(*mut u32, *mut *const Text);
    NNGetOpHandle(Text, *mut Handle);
    MXImperativeInvokeEx(
        Handle, c_int, *const Handle, *mut c_int, *mut *mut Handle, c_int, *const Text, *const Text, *mut *const c_int
    );
    MXSymbolCreateVariable(Text, *mut Handle);
    MXSymbolCreateAtomicSymbol(Handle, u32, *const Text, *const Text, *mut Handle);
    MXSymbolCompose(Handle, Text, u32, *const Text, *const Handle);
    MXSymbolCreateFromJSON(Text, *mut Handle);
    MXSymbolSaveToJSON(Handle, *mut Text);
    MXSymbolGetInternals(Handle, *mut Handle);
    MXSymbolListArguments(Handle, *mut u32, *mut *const Text);
    MXSymbolListAuxiliaryStates(Handle, *mut u32, *mut *const Text);
    MXSymbolListOutputs(Handle, *mut u32, *mut *const Text);
    MXSymbolListAttr(Handle, *mut u32, *mut *const Text);
    MXSymbolInferShapePartialEx(
        Handle, u32, *const Text, *const u32, *const c_int,
        *mut u32, *mut *const c_int, *mut Shapes,
        *mut u32, *mut *const c_int, *mut Shapes,
        *mut u32, *mut *const c_int, *mut Shapes,
        *mut c_int
    );
    MXSymbolInferTypePartial(
        Handle, u32, *const Text, *const c_int,
        *mut u32, *mut *const c_int, *mut u32, *mut *const c_int, *mut u32, *mut *const c_int,
        *mut c_int
    );
    MXSymbolFree(Handle);
    MXExecutorBind(
        Handle, c_int, c_int, u32, *const Handle, *const Handle, *const u32, u32, *const Handle, *mut Handle
    );
    MXExecutorForward(Handle, c_int);
    MXExecutorBackwardEx(Handle, u32, *const Handle, c_int);
    MXExecutorOutputs(Handle, *mut u32, *mut *const Handle);
    MXExecutorFree(Handle);
}

/// A library that exports MXNet's C API.
pub(super) struct CApi {
    functions: Functions,
    _library: libloading::Library,
}

/// A handle that is freed when it is dropped.
pub(super) struct Owned<'l> {
    handle: Handle,
    free: unsafe extern "C" fn(Handle) -> c_int,
    library: &'l CApi,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the library returned the handle, which nothing else frees.
        unsafe { (self.free)(self.handle) };
    }
}

/// Names of a symbol that the library lists.
#[derive(Clone, Copy)]
pub(super) enum Names {
    Arguments,
    AuxiliaryStates,
    Outputs,
}

/// A list for arguments, outputs and auxiliary states.
pub(super) type Inferred<T> = [Vec<T>; 3];

/// An argument of an executor: its value, its gradient, and how the gradient is written.
pub(super) type Argument<'l> = (Owned<'l>, Option<Owned<'l>>, Req);

/// Texts as C strings, with pointers to them.
struct Texts {
    pointers: Vec<Text>,
    _owned: Vec<CString>,
}

impl Texts {
    fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Texts, String> {
        let owned: Vec<CString> = texts.into_iter().map(c_string).collect::<Result<_, String>>()?;
        Ok(Texts { pointers: owned.iter().map(|t| t.as_ptr()).collect(), _owned: owned })
    }
}

fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|e| e.to_string())
}

fn handles<'a, 'l: 'a>(owned: impl IntoIterator<Item = &'a Owned<'l>>) -> Vec<Handle> {
    owned.into_iter().map(|o| o.handle).collect()
}

/// A copy of `len` elements that the library keeps until its next call.
fn copied<T: Copy>(from: *const T, len: usize) -> Vec<T> {
    // SAFETY: the library returned the list with its length on this thread, which has not called it since.
    if len == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(from, len) }.to_vec() }
}

/// A copy of a string of the library.
fn text(from: Text) -> String {
    // SAFETY: the library returned the text on this thread, which has not called it since.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()
}

impl CApi {
    /// Loads a library.
    ///
    /// # Errors
    /// It cannot be loaded, or lacks a function.
    pub(super) fn open(path: &Path) -> Result<CApi, String> {
        let describe = |e: libloading::Error| format!("{}: {e}", path.display());
        // SAFETY: loading MXNet's library runs its initializers alone.
        let library = unsafe { libloading::Library::new(path) }.map_err(describe)?;
        let api = CApi { functions: Functions::load(&library).map_err(describe)?, _library: library };
        // MXNet registers its oldest operators when they are first listed.
        // SAFETY: the results are local variables.
        api.checked(unsafe { (api.functions.MXListAllOpNames)(&mut 0, &mut null()) })?;
        Ok(api)
    }

    fn checked(&self, status: c_int) -> Result<(), String> {
        // SAFETY: the function has no preconditions.
        if status == 0 { Ok(()) } else { Err(text(unsafe { (self.functions.MXGetLastError)() })) }
    }

    /// The handle that a function returns through its last argument.
    fn owned(
        &self,
        free: unsafe extern "C" fn(Handle) -> c_int,
        make: impl FnOnce(*mut Handle) -> c_int,
    ) -> Result<Owned<'_>, String> {
        let mut handle = null_mut();
        self.checked(make(&mut handle))?;
        Ok(Owned { handle, free, library: self })
    }

    fn own_arrays(&self, handles: Vec<Handle>) -> Vec<Owned<'_>> {
        let free = self.functions.MXNDArrayFree;
        handles.into_iter().map(|handle| Owned { handle, free, library: self }).collect()
    }

    /// Whether zero-size and zero-dimensional arrays exist.
    pub(super) fn set_numpy_shape(&self, is_on: bool) -> Result<(), String> {
        // SAFETY: the previous state is written to a local variable; the same holds below.
        self.checked(unsafe { (self.functions.MXSetIsNumpyShape)(is_on.into(), &mut 0) })
    }

    pub(super) fn set_training(&self, is_on: bool) -> Result<(), String> {
        // SAFETY: as above.
        self.checked(unsafe { (self.functions.MXAutogradSetIsTraining)(is_on.into(), &mut 0) })
    }

    pub(super) fn set_recording(&self, is_on: bool) -> Result<(), String> {
        // SAFETY: as above.
        self.checked(unsafe { (self.functions.MXAutogradSetIsRecording)(is_on.into(), &mut 0) })
    }

    /// A dense array with the values of a stored one.
    pub(super) fn array(&self, stored: &GoldenArray) -> Result<Owned<'_>, String> {
        self.array_of(stored.dtype, &stored.shape, &stored.bytes)
    }

    /// A dense array.
    pub(super) fn array_of(&self, dtype: DType, shape: &[i64], bytes: &[u8]) -> Result<Owned<'_>, String> {
        let (dims, ndim) = (shape.as_ptr(), shape.len() as c_int);
        let array = self.owned(self.functions.MXNDArrayFree, |out| {
            // SAFETY: `dims` has `ndim` elements.
            unsafe { (self.functions.MXNDArrayCreateEx64)(dims, ndim, CPU, 0, 0, dtype.code(), out) }
        })?;
        let len = bytes.len() / dtype.size();
        // SAFETY: there are `len` elements of the array's type.
        self.checked(unsafe { (self.functions.MXNDArraySyncCopyFromCPU)(array.handle, bytes.as_ptr().cast(), len) })?;
        Ok(array)
    }

    /// The operator with this name.
    fn operator(&self, name: &str) -> Result<Handle, String> {
        let (name, mut handle) = (c_string(name)?, null_mut());
        // SAFETY: the name ends in 0.
        self.checked(unsafe { (self.functions.NNGetOpHandle)(name.as_ptr(), &mut handle) })?;
        Ok(handle)
    }

    /// Calls an operator on arrays. If `in_place`, the output is written to the first of them and nothing is returned.
    pub(super) fn invoke<'l, 'a>(
        &'l self,
        op: &str,
        attrs: impl IntoIterator<Item = (&'a str, &'a str)>,
        inputs: impl IntoIterator<Item = &'a Owned<'l>>,
        in_place: bool,
    ) -> Result<Vec<Owned<'l>>, String>
    where
        'l: 'a,
    {
        let (keys, values): (Vec<&str>, Vec<&str>) = attrs.into_iter().unzip();
        let (keys, values) = (Texts::new(keys)?, Texts::new(values)?);
        let inputs = handles(inputs);
        let mut given = inputs.first().copied().filter(|_| in_place);
        let (mut num_outputs, mut outputs) = match &mut given {
            Some(output) => (1, std::ptr::from_mut(output)),
            None => (0, null_mut()),
        };
        // SAFETY: each list has the length that is passed with it; the given output outlives the call.
        self.checked(unsafe {
            (self.functions.MXImperativeInvokeEx)(
                self.operator(op)?,
                inputs.len() as c_int,
                inputs.as_ptr(),
                &mut num_outputs,
                &mut outputs,
                keys.pointers.len() as c_int,
                keys.pointers.as_ptr(),
                values.pointers.as_ptr(),
                &mut null(),
            )
        })?;
        let made = if in_place { Vec::new() } else { copied(outputs, num_outputs as usize) };
        Ok(self.own_arrays(made))
    }

    /// Attaches gradient arrays, which backward passes overwrite, to arrays.
    pub(super) fn mark_variables(&self, arrays: &[&Owned<'_>], gradients: &[Owned<'_>]) -> Result<(), String> {
        let reqs = vec![Req::Write as u32; arrays.len()];
        let (arrays, gradients) = (handles(arrays.iter().copied()), handles(gradients));
        // SAFETY: the three lists have the same length.
        self.checked(unsafe {
            (self.functions.MXAutogradMarkVariables)(
                arrays.len() as u32,
                arrays.as_ptr(),
                reqs.as_ptr(),
                gradients.as_ptr(),
            )
        })
    }

    /// Computes the gradients of marked arrays from those of recorded outputs.
    pub(super) fn backward(&self, outputs: &[Owned<'_>], heads: &[Owned<'_>], is_train: bool) -> Result<(), String> {
        let (outputs, heads) = (handles(outputs), handles(heads));
        let heads_or_null = if heads.is_empty() { null() } else { heads.as_ptr() };
        // SAFETY: there is a head gradient for each output, or none; no gradients are requested as results.
        self.checked(unsafe {
            (self.functions.MXAutogradBackwardEx)(
                outputs.len() as u32,
                outputs.as_ptr(),
                heads_or_null,
                0,
                null(),
                0,
                0,
                is_train.into(),
                null_mut(),
                null_mut(),
            )
        })
    }

    pub(super) fn variable(&self, name: &str) -> Result<Owned<'_>, String> {
        let name = c_string(name)?;
        // SAFETY: the name ends in 0.
        self.owned(self.functions.MXSymbolFree, |out| unsafe {
            (self.functions.MXSymbolCreateVariable)(name.as_ptr(), out)
        })
    }

    /// The symbol of one operator, named `name`.
    pub(super) fn symbol<'l, 'a>(
        &'l self,
        op: &str,
        attrs: impl IntoIterator<Item = (&'a str, &'a str)>,
        name: &str,
        inputs: &[Owned<'l>],
    ) -> Result<Owned<'l>, String> {
        let (keys, values): (Vec<&str>, Vec<&str>) = attrs.into_iter().unzip();
        let (keys, values, name) = (Texts::new(keys)?, Texts::new(values)?, c_string(name)?);
        let (op, num_attrs) = (self.operator(op)?, keys.pointers.len() as u32);
        let symbol = self.owned(self.functions.MXSymbolFree, |out| {
            let (keys, values) = (keys.pointers.as_ptr(), values.pointers.as_ptr());
            // SAFETY: there are `num_attrs` keys and values.
            unsafe { (self.functions.MXSymbolCreateAtomicSymbol)(op, num_attrs, keys, values, out) }
        })?;
        let (len, inputs) = (inputs.len() as u32, handles(inputs));
        // SAFETY: there are `len` inputs; they have no keys.
        self.checked(unsafe {
            (self.functions.MXSymbolCompose)(symbol.handle, name.as_ptr(), len, null(), inputs.as_ptr())
        })?;
        Ok(symbol)
    }

    pub(super) fn symbol_of_json(&self, json: &str) -> Result<Owned<'_>, String> {
        let json = c_string(json)?;
        // SAFETY: the text ends in 0.
        self.owned(self.functions.MXSymbolFree, |out| unsafe {
            (self.functions.MXSymbolCreateFromJSON)(json.as_ptr(), out)
        })
    }
}

impl Owned<'_> {
    /// The value of an array, made dense if it is sparse.
    pub(super) fn value(&self) -> Result<Array, String> {
        if self.storage_type()? != StorageType::Default {
            return self.to_storage(StorageType::Default)?.value();
        }
        let functions = &self.library.functions;
        let (mut ndim, mut dims, mut code) = (0, null(), 0);
        // SAFETY: the handle is that of an array; the results are local variables.
        self.library.checked(unsafe { (functions.MXNDArrayGetDType)(self.handle, &mut code) })?;
        // SAFETY: as above.
        self.library.checked(unsafe { (functions.MXNDArrayGetShapeEx64)(self.handle, &mut ndim, &mut dims) })?;
        let len = usize::try_from(ndim).map_err(|_| "an output of unknown shape".to_owned())?;
        let shape = copied(dims, len);
        let dtype = DType::from_code(code).ok_or_else(|| format!("{code} is no element type"))?;
        let len = shape.iter().product::<i64>() as usize;
        let mut bytes = vec![0; len * dtype.size()];
        let data = bytes.as_mut_ptr().cast();
        // SAFETY: there is room for `len` elements of the array's type.
        self.library.checked(unsafe { (functions.MXNDArraySyncCopyToCPU)(self.handle, data, len) })?;
        Ok(Array { dtype, shape, bytes })
    }

    pub(super) fn storage_type(&self) -> Result<StorageType, String> {
        let mut code = 0;
        // SAFETY: the handle is that of an array.
        let status = unsafe { (self.library.functions.MXNDArrayGetStorageType)(self.handle, &mut code) };
        self.library.checked(status)?;
        StorageType::from_code(code).map_err(|e| e.to_string())
    }

    /// The internals of a symbol, as a new handle.
    pub(super) fn internals(&self) -> Result<Owned<'_>, String> {
        let functions = &self.library.functions;
        // SAFETY: the handle is that of a symbol.
        self.library.owned(functions.MXSymbolFree, |out| unsafe { (functions.MXSymbolGetInternals)(self.handle, out) })
    }

    pub(super) fn names(&self, of: Names) -> Result<Vec<String>, String> {
        let functions = &self.library.functions;
        let (mut len, mut list) = (0, null());
        let function = match of {
            Names::Arguments => functions.MXSymbolListArguments,
            Names::AuxiliaryStates => functions.MXSymbolListAuxiliaryStates,
            Names::Outputs => functions.MXSymbolListOutputs,
        };
        // SAFETY: the handle is that of a symbol.
        self.library.checked(unsafe { function(self.handle, &mut len, &mut list) })?;
        Ok(copied(list, len as usize).into_iter().map(text).collect())
    }

    /// Keys, each `node$key`, and values.
    pub(super) fn attributes(&self) -> Result<Vec<(String, String)>, String> {
        let (mut len, mut list) = (0, null());
        // SAFETY: the handle is that of a symbol; there are `len` pairs.
        self.library.checked(unsafe { (self.library.functions.MXSymbolListAttr)(self.handle, &mut len, &mut list) })?;
        Ok(copied(list, 2 * len as usize).chunks_exact(2).map(|pair| (text(pair[0]), text(pair[1]))).collect())
    }

    pub(super) fn to_json(&self) -> Result<String, String> {
        let mut json = null();
        // SAFETY: the handle is that of a symbol.
        let status = unsafe { (self.library.functions.MXSymbolSaveToJSON)(self.handle, &mut json) };
        self.library.checked(status)?;
        Ok(text(json))
    }

    /// Infers shapes; `None` for those that stay unknown.
    pub(super) fn infer_shapes(&self, known: &[(&str, &[i64])]) -> Result<Inferred<Option<Vec<i64>>>, String> {
        let keys = Texts::new(known.iter().map(|(name, _)| *name))?;
        let mut ends = vec![0];
        ends.extend(known.iter().scan(0, |end, (_, dims)| {
            *end += dims.len() as u32;
            Some(*end)
        }));
        let dims: Vec<c_int> = known.iter().flat_map(|(_, dims)| dims.iter().map(|d| *d as c_int)).collect();
        let (mut len, mut ndim, mut data) = ([0; 3], [null(); 3], [null(); 3]);
        let ([args, outputs, aux], [arg_ndim, output_ndim, aux_ndim]) = (&mut len, &mut ndim);
        let [arg_data, output_data, aux_data] = &mut data;
        // SAFETY: shape i has the dimensions between ends i and i + 1; the results are local variables.
        let status = unsafe {
            (self.library.functions.MXSymbolInferShapePartialEx)(
                self.handle,
                known.len() as u32,
                keys.pointers.as_ptr(),
                ends.as_ptr(),
                dims.as_ptr(),
                args,
                arg_ndim,
                arg_data,
                outputs,
                output_ndim,
                output_data,
                aux,
                aux_ndim,
                aux_data,
                &mut 0,
            )
        };
        self.library.checked(status)?;
        Ok([0, 1, 2].map(|list| {
            let (ndim, data) = (copied(ndim[list], len[list] as usize), copied(data[list], len[list] as usize));
            let shape = |(ndim, dims): (&c_int, &*const c_int)| {
                let ndim = usize::try_from(*ndim).ok()?;
                Some(copied(*dims, ndim).into_iter().map(i64::from).collect())
            };
            ndim.iter().zip(&data).map(shape).collect()
        }))
    }

    /// Infers element types; `None` for those that stay unknown.
    pub(super) fn infer_dtypes(&self, known: &[(&str, DType)]) -> Result<Inferred<Option<DType>>, String> {
        let keys = Texts::new(known.iter().map(|(name, _)| *name))?;
        let codes: Vec<c_int> = known.iter().map(|(_, dtype)| dtype.code()).collect();
        let (mut len, mut data) = ([0; 3], [null(); 3]);
        let ([args, outputs, aux], [arg_data, output_data, aux_data]) = (&mut len, &mut data);
        // SAFETY: the lists have the given lengths; the results are local variables.
        let status = unsafe {
            (self.library.functions.MXSymbolInferTypePartial)(
                self.handle,
                known.len() as u32,
                keys.pointers.as_ptr(),
                codes.as_ptr(),
                args,
                arg_data,
                outputs,
                output_data,
                aux,
                aux_data,
                &mut 0,
            )
        };
        self.library.checked(status)?;
        Ok([0, 1, 2].map(|list| copied(data[list], len[list] as usize).into_iter().map(DType::from_code).collect()))
    }
}

impl<'l> Owned<'l> {
    /// The array with another storage type.
    pub(super) fn to_storage(&self, storage: StorageType) -> Result<Owned<'l>, String> {
        let outputs = self.library.invoke("cast_storage", [("stype", storage.name())], [self], false)?;
        outputs.into_iter().next().ok_or_else(|| "cast_storage has no output".to_owned())
    }

    /// Binds a symbol to arrays.
    pub(super) fn bind(&self, arguments: &[Argument<'l>], aux: &[Owned<'l>]) -> Result<Owned<'l>, String> {
        let functions = &self.library.functions;
        let args = handles(arguments.iter().map(|(value, _, _)| value));
        let grads: Vec<Handle> =
            arguments.iter().map(|(_, gradient, _)| gradient.as_ref().map_or(null_mut(), |g| g.handle)).collect();
        let reqs: Vec<u32> = arguments.iter().map(|(_, _, req)| *req as u32).collect();
        let aux = handles(aux);
        // SAFETY: the lists of arguments have the same length, the states the length passed with them. The executor keeps the arrays.
        self.library.owned(functions.MXExecutorFree, |out| unsafe {
            (functions.MXExecutorBind)(
                self.handle,
                CPU,
                0,
                args.len() as u32,
                args.as_ptr(),
                grads.as_ptr(),
                reqs.as_ptr(),
                aux.len() as u32,
                aux.as_ptr(),
                out,
            )
        })
    }

    /// Runs an executor forwards and returns its outputs.
    pub(super) fn forward(&self, is_train: bool) -> Result<Vec<Owned<'l>>, String> {
        let functions = &self.library.functions;
        // SAFETY: the handle is that of an executor; the same holds below.
        self.library.checked(unsafe { (functions.MXExecutorForward)(self.handle, is_train.into()) })?;
        let (mut len, mut outputs) = (0, null());
        // SAFETY: as above.
        self.library.checked(unsafe { (functions.MXExecutorOutputs)(self.handle, &mut len, &mut outputs) })?;
        Ok(self.library.own_arrays(copied(outputs, len as usize)))
    }

    /// Runs an executor backwards.
    pub(super) fn executor_backward(&self, heads: &[Owned<'_>], is_train: bool) -> Result<(), String> {
        let heads = handles(heads);
        let functions = &self.library.functions;
        // SAFETY: the list of head gradients has the given length.
        self.library.checked(unsafe {
            (functions.MXExecutorBackwardEx)(self.handle, heads.len() as u32, heads.as_ptr(), is_train.into())
        })
    }
}
