//! Data iterators.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::imperative::Tensor;
use ferromx_runtime::io::{self, IterDef};
use parking_lot::Mutex;

use super::args::{attrs, id, put, raw};
use super::guard;
use super::ret::{Ret, put_handle};
use super::types::{DataIterCreator, DataIterHandle, NDArrayHandle};
use crate::handle::{self, Object, data_iter, insert, insert_tensor};

/// The definition of a kind of iterator. Its handle is its index in `ITERATORS` plus one, since 0 is the null handle.
fn definition(creator: DataIterCreator) -> Result<&'static IterDef> {
    io::ITERATORS.get((id(creator) as usize).wrapping_sub(1)).ok_or_else(|| {
        Error::NotFound(format!("{creator:p} is not a kind of data iterator: get one from MXListDataIters"))
    })
}

/// Lists the kinds of data iterators. The list is valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXListDataIters(out_size: *mut u32, out_array: *mut *mut DataIterCreator) -> c_int {
    guard(|| {
        let mut ret = Ret::new();
        put(out_size, io::ITERATORS.len() as u32, "out_size")?;
        put(out_array, ret.list((1..=io::ITERATORS.len() as u64).map(raw).collect::<Vec<*mut c_void>>()), "out_array")?;
        ret.keep("MXListDataIters");
        Ok(())
    })
}

/// Describes a kind of data iterator: name, description, parameters with type strings and descriptions. All pointers are valid
/// until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXDataIterGetIterInfo(
    creator: DataIterCreator,
    name: *mut *const c_char,
    description: *mut *const c_char,
    num_args: *mut u32,
    arg_names: *mut *mut *const c_char,
    arg_type_infos: *mut *mut *const c_char,
    arg_descriptions: *mut *mut *const c_char,
) -> c_int {
    guard(|| {
        let def = definition(creator)?;
        let fields = def.fields();
        let mut ret = Ret::new();
        put(name, ret.text(def.name), "name")?;
        put(description, ret.text(def.doc), "description")?;
        put(num_args, fields.len() as u32, "num_args")?;
        put(arg_names, ret.texts(fields.iter().map(|f| f.name)), "arg_names")?;
        put(arg_type_infos, ret.texts(fields.iter().map(|f| &f.type_string)), "arg_type_infos")?;
        put(arg_descriptions, ret.texts(fields.iter().map(|f| &f.doc)), "arg_descriptions")?;
        ret.keep("MXDataIterGetIterInfo");
        Ok(())
    })
}

/// Creates a data iterator.
#[unsafe(no_mangle)]
pub extern "C" fn MXDataIterCreateIter(
    handle: DataIterCreator,
    num_param: u32,
    keys: *mut *const c_char,
    vals: *mut *const c_char,
    out: *mut DataIterHandle,
) -> c_int {
    guard(|| {
        let (def, attrs) = (definition(handle)?, attrs(keys, vals, num_param as usize)?);
        put_handle(out, || Ok(insert(Object::DataIter(Arc::new(Mutex::new(def.create(&attrs)?))))))
    })
}

/// Frees a data iterator; null is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn MXDataIterFree(handle: DataIterHandle) -> c_int {
    guard(|| handle::free(id(handle), "DataIter"))
}

/// Advances to the next batch; `out` is 0 at the end.
#[unsafe(no_mangle)]
pub extern "C" fn MXDataIterNext(handle: DataIterHandle, out: *mut c_int) -> c_int {
    guard(|| put(out, c_int::from(data_iter(id(handle))?.lock().next()?), "out"))
}

/// Rewinds to before the first batch.
#[unsafe(no_mangle)]
pub extern "C" fn MXDataIterBeforeFirst(handle: DataIterHandle) -> c_int {
    guard(|| data_iter(id(handle))?.lock().before_first())
}

/// Returns the examples of the batch as a new handle.
#[unsafe(no_mangle)]
pub extern "C" fn MXDataIterGetData(handle: DataIterHandle, out: *mut NDArrayHandle) -> c_int {
    guard(|| {
        let data = data_iter(id(handle))?.lock().batch()?.data.clone();
        put_handle(out, || Ok(insert_tensor(Tensor::new(data))))
    })
}

/// Returns the labels of the batch as a new handle.
#[unsafe(no_mangle)]
pub extern "C" fn MXDataIterGetLabel(handle: DataIterHandle, out: *mut NDArrayHandle) -> c_int {
    guard(|| {
        let label = data_iter(id(handle))?.lock().batch()?.label.clone();
        put_handle(out, || Ok(insert_tensor(Tensor::new(label))))
    })
}

/// Returns the indices of the batch's examples in the file, valid until the next call on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn MXDataIterGetIndex(handle: DataIterHandle, out_index: *mut *mut u64, out_size: *mut u64) -> c_int {
    guard(|| {
        let index = data_iter(id(handle))?.lock().batch()?.index.clone();
        let mut ret = Ret::new();
        put(out_size, index.len() as u64, "out_size")?;
        put(out_index, ret.list(index), "out_index")?;
        ret.keep("MXDataIterGetIndex");
        Ok(())
    })
}

/// Returns the number of examples at the end of the batch that are padding.
#[unsafe(no_mangle)]
pub extern "C" fn MXDataIterGetPadNum(handle: DataIterHandle, pad: *mut c_int) -> c_int {
    guard(|| put(pad, data_iter(id(handle))?.lock().batch()?.pad as c_int, "pad"))
}
