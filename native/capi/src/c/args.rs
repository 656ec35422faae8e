//! Checked access to arguments and out-parameters.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;

use ferromx_runtime::context::Context;
use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::executor::Devices;
use ferromx_runtime::imperative::Tensors;
use ferromx_runtime::ndarray::NDArray;
use ferromx_runtime::params::Attrs;
use ferromx_runtime::semantics;
use ferromx_runtime::shape::Shape;
use ferromx_runtime::sparse::Array;
use ferromx_runtime::symbol::Symbol;
use smallvec::SmallVec;

use super::number::Integer;
use super::types::{NDArrayHandle, SymbolHandle};
use crate::handle;

/// Keys and values.
pub type Pairs<'a> = SmallVec<[(Cow<'a, str>, Cow<'a, str>); 8]>;

/// The caller's pointer that is passed to its callback.
#[derive(Clone, Copy)]
pub struct UserData(pub *mut c_void);

// SAFETY: the library does not dereference the pointer; by the contract of the C API the callback may be called on any thread that runs the
// executor or uses the store.
unsafe impl Send for UserData {}
// SAFETY: as above.
unsafe impl Sync for UserData {}

impl UserData {
    /// The pointer. A closure that calls this captures the whole `UserData`, which may move to another thread, unlike its field.
    pub fn pointer(self) -> *mut c_void {
        self.0
    }
}

fn null(what: &str) -> Error {
    Error::Value(format!("the pointer {what} is null"))
}

/// Converts an opaque handle of the C API to a number.
pub fn id(handle: *const c_void) -> u64 {
    handle.addr() as u64
}

/// Converts a number to an opaque handle of the C API, which is never dereferenced.
pub fn raw(handle: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(handle as usize)
}

/// A C string. Invalid UTF-8 is replaced.
pub fn text<'a>(p: *const c_char, what: &str) -> Result<Cow<'a, str>> {
    if p.is_null() {
        return Err(null(what));
    }
    // SAFETY: `p` is not null; by the contract of the C API it points to a null-terminated string that does not change during the call.
    Ok(unsafe { CStr::from_ptr(p) }.to_string_lossy())
}

/// A C string that may be null.
pub fn optional_text<'a>(p: *const c_char) -> Option<Cow<'a, str>> {
    text(p, "").ok()
}

/// The shape of a new array, from its dimensions in NumPy or legacy semantics.
pub fn array_shape<D: Integer>(dims: *const D, ndim: usize) -> Result<Shape> {
    let dims: Vec<i64> = slice(dims, ndim, "shape")?.iter().map(|d| d.to_i64()).collect();
    semantics::array_shape_from_user(&dims)
}

/// `n` values. Null is allowed if `n` is 0.
pub fn slice<'a, T>(p: *const T, n: usize, what: &str) -> Result<&'a [T]> {
    if n == 0 {
        return Ok(&[]);
    }
    if p.is_null() {
        return Err(null(what));
    }
    if n > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Error::Value(format!("{what} cannot have {n} elements")));
    }
    if !p.is_aligned() {
        return Err(Error::Value(format!("the pointer {what} is not aligned to its elements")));
    }
    // SAFETY: `p` is aligned and not null, and the size does not exceed `isize::MAX`; by the contract of the C API it points to `n`
    // values, which do not change during the call.
    Ok(unsafe { std::slice::from_raw_parts(p, n) })
}

/// Converts a signed count, which must not be negative.
pub fn count(n: c_int, what: &str) -> Result<usize> {
    usize::try_from(n).map_err(|_| Error::Value(format!("{what} is {n}: the number of elements cannot be negative")))
}

/// `n` C strings.
pub fn texts(p: *mut *const c_char, n: usize, what: &str) -> Result<Vec<String>> {
    slice(p, n, what)?.iter().map(|s| Ok(text(*s, what)?.into_owned())).collect()
}

/// `n` keys and values.
pub fn pairs<'a>(keys: *mut *const c_char, values: *mut *const c_char, n: usize) -> Result<Pairs<'a>> {
    let (keys, values) = (slice(keys, n, "keys")?, slice(values, n, "vals")?);
    keys.iter().zip(values).map(|(k, v)| Ok((text(*k, "keys")?, text(*v, "vals")?))).collect()
}

/// [`pairs`] as attributes.
pub fn attrs(keys: *mut *const c_char, values: *mut *const c_char, n: usize) -> Result<Attrs> {
    Ok(pairs(keys, values, n)?.into_iter().map(|(k, v)| (k.into_owned(), v.into_owned())).collect())
}

/// [`pairs`] as attributes; of equal keys, the first one counts.
pub fn first_attrs(keys: *mut *const c_char, values: *mut *const c_char, n: usize) -> Result<Attrs> {
    let mut attrs = Attrs::new();
    for (key, value) in pairs(keys, values, n)? {
        attrs.entry(key.into_owned()).or_insert_with(|| value.into_owned());
    }
    Ok(attrs)
}

/// The array of a handle.
pub fn array(handle: NDArrayHandle) -> Result<NDArray> {
    handle::tensor(id(handle))?.array()
}

/// The arrays of `n` handles, of any storage type.
pub fn stored(handles: *const NDArrayHandle, n: usize, what: &str) -> Result<Vec<Array>> {
    tensors(handles, n, what)?.iter().map(|t| t.stored()).collect()
}

/// The tensors of `n` handles.
pub fn tensors(handles: *const NDArrayHandle, n: usize, what: &str) -> Result<Tensors> {
    handle::tensors(slice(handles, n, what)?.iter().map(|h| id(*h)))
}

/// The arrays of `n` handles.
pub fn arrays(handles: *const NDArrayHandle, n: usize, what: &str) -> Result<Vec<NDArray>> {
    slice(handles, n, what)?.iter().map(|h| array(*h)).collect()
}

/// The objects of `n` handles, `None` for null handles. A null list means `n` null handles.
pub fn optional<T>(
    handles: *const NDArrayHandle,
    n: usize,
    get: impl Fn(NDArrayHandle) -> Result<T>,
) -> Result<Vec<Option<T>>> {
    if handles.is_null() {
        return Ok((0..n).map(|_| None).collect());
    }
    slice(handles, n, "handles")?.iter().map(|h| if h.is_null() { Ok(None) } else { get(*h).map(Some) }).collect()
}

/// The symbols of `n` handles.
pub fn symbols(handles: *const SymbolHandle, n: usize, what: &str) -> Result<Vec<Symbol>> {
    slice(handles, n, what)?.iter().map(|h| handle::symbol(id(*h))).collect()
}

/// The devices of a graph: the default, and those of `ctx_group` names.
pub fn devices(
    default: (c_int, c_int),
    n: u32,
    names: *mut *const c_char,
    device_types: *const c_int,
    device_ids: *const c_int,
) -> Result<Devices> {
    let n = n as usize;
    let names = texts(names, n, "map_keys")?;
    let codes = slice(device_types, n, "map_dev_types")?.iter().zip(slice(device_ids, n, "map_dev_ids")?);
    let contexts = codes.map(|(t, id)| Context::from_codes(*t, *id)).collect::<Result<Vec<_>>>()?;
    let default = Context::from_codes(default.0, default.1)?;
    Ok(Devices { default, groups: names.into_iter().zip(contexts).collect() })
}

/// Calls a method of a struct whose fields are the parameters of the C function, inside the guard. The method gets the function's name.
macro_rules! call_with_parameters {
    ($args:ident.$method:ident($function:literal) { $($parameter:ident),* }) => {
        $crate::c::guard(|| $args { $($parameter),* }.$method($function))
    };
}
pub(super) use call_with_parameters;

/// Writes a result through a pointer.
pub fn put<T>(out: *mut T, value: T, what: &str) -> Result<()> {
    if out.is_null() {
        return Err(null(what));
    }
    // SAFETY: `out` is not null; by the contract of the C API it points to memory for one value.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes several results to consecutive memory.
pub fn put_all<T: Copy>(out: *mut T, values: &[T], what: &str) -> Result<()> {
    if out.is_null() && !values.is_empty() {
        return Err(null(what));
    }
    for (i, value) in values.iter().enumerate() {
        // SAFETY: `out` is not null; by the contract of the C API it points to memory for this many values.
        unsafe { out.add(i).write(*value) };
    }
    Ok(())
}

/// Reads the value that a pointer points to.
pub fn get<T: Copy>(p: *const T, what: &str) -> Result<T> {
    Ok(slice(p, 1, what)?[0])
}

/// Copies the elements of an array to caller memory for `n` elements.
pub fn copy_to(array: &NDArray, data: *mut c_void, n: usize) -> Result<()> {
    check_size(array, n)?;
    if n > 0 && data.is_null() {
        return Err(null("data"));
    }
    ferromx_runtime::storage::read_bytes(array, |from| {
        if !is_separate(from, data)? {
            return Ok(());
        }
        // SAFETY: by the contract of the C API `data` has room for `n` elements, the number in `from`; `is_separate` checked that they do
        // not overlap. Initialized bytes may be read as `MaybeUninit`.
        let (from, to) = unsafe {
            let data = data.cast::<MaybeUninit<u8>>();
            (
                std::slice::from_raw_parts(from.as_ptr().cast(), from.len()),
                std::slice::from_raw_parts_mut(data, from.len()),
            )
        };
        ferromx_runtime::parallel_copy(from, to);
        Ok(())
    })
}

/// False if `data` is the memory of the elements themselves, which `MXNDArrayGetData` returns. Then there is nothing to copy.
///
/// # Errors
/// Memory that partly overlaps the elements.
fn is_separate(elements: &[u8], data: *const c_void) -> Result<bool> {
    let (own, other) = (elements.as_ptr().addr(), data.addr());
    ferromx_runtime::ensure!(
        own == other || own.abs_diff(other) >= elements.len(),
        "the memory overlaps that of the array, but starts {} bytes apart; copy through other memory",
        own.abs_diff(other)
    );
    Ok(own != other)
}

/// Copies numbers to caller memory for `n` numbers.
pub fn copy_numbers(numbers: &[f32], data: *mut f32, n: usize) -> Result<()> {
    ferromx_runtime::ensure!(n == numbers.len(), "the output has {} numbers, but there is room for {n}", numbers.len());
    if n > 0 && data.is_null() {
        return Err(null("data"));
    }
    // SAFETY: `data` is not null if `n` is not 0; by the contract of the C API it has room for `n` numbers, and it does not overlap memory
    // of the library.
    unsafe { std::ptr::copy_nonoverlapping(numbers.as_ptr(), data, n) };
    Ok(())
}

/// Copies `n` elements from caller memory to an array.
pub fn copy_from(array: &NDArray, data: *const c_void, n: usize) -> Result<()> {
    check_size(array, n)?;
    array.check_writable()?;
    if n > 0 && data.is_null() {
        return Err(null("data"));
    }
    let is_bool = array.dtype() == ferromx_runtime::dtype::DType::Bool;
    ferromx_runtime::storage::write_bytes(array, |to| {
        if is_separate(to, data)? {
            // SAFETY: by the contract of the C API `data` has `n` elements, the number in `to`; they do not overlap, as above.
            ferromx_runtime::parallel_copy(unsafe { std::slice::from_raw_parts(data.cast::<u8>(), to.len()) }, to);
        }
        if is_bool {
            to.iter_mut().for_each(|b| *b = u8::from(*b != 0));
        }
        Ok(())
    })
}

fn check_size(array: &NDArray, n: usize) -> Result<()> {
    ferromx_runtime::ensure!(
        n == array.len(),
        "the array of shape {} has {} elements, but {n} elements were to be copied: pass the array's number of elements",
        array.shape(),
        array.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_copied_between_arrays_and_the_memory_of_a_caller() {
        let array = NDArray::from_slice(&[1f32, 2.0, 3.0], &[3]).unwrap();
        let mut memory = [0f32; 3];
        copy_to(&array, memory.as_mut_ptr().cast(), 3).unwrap();
        assert_eq!(memory, [1.0, 2.0, 3.0]);
        copy_from(&array, [4f32, 5.0, 6.0].as_ptr().cast(), 3).unwrap();
        assert_eq!(array.to_vec::<f32>().unwrap(), [4.0, 5.0, 6.0]);
        // Bytes other than 0 and 1 would be invalid values of `bool`.
        let flags = NDArray::from_slice(&[false, false], &[2]).unwrap();
        copy_from(&flags, [0u8, 7].as_ptr().cast(), 2).unwrap();
        assert_eq!(flags.to_vec::<bool>().unwrap(), [false, true]);
        assert!(copy_to(&array, memory.as_mut_ptr().cast(), 2).is_err());
        assert!(copy_from(&array, std::ptr::null(), 3).is_err());
        copy_numbers(&[7.0, 8.0], memory.as_mut_ptr(), 2).unwrap();
        assert_eq!(memory, [7.0, 8.0, 3.0]);
    }

    #[test]
    fn an_array_may_be_copied_to_its_own_memory() {
        let array = NDArray::from_slice(&[1f32, 2.0], &[2]).unwrap();
        let own = array.chunk().expose();
        copy_to(&array, own.cast(), 2).unwrap();
        copy_from(&array, own.cast_const().cast(), 2).unwrap();
        assert_eq!(array.to_vec::<f32>().unwrap(), [1.0, 2.0]);
        let shifted = own.cast_const().wrapping_add(4).cast();
        assert!(copy_from(&array, shifted, 2).unwrap_err().to_string().contains("4 bytes apart"));
    }

    #[test]
    fn lists_are_read_and_written() {
        let mut keys = [c"a".as_ptr(), c"b".as_ptr()];
        let mut values = [c"1".as_ptr(), c"2".as_ptr()];
        let read = pairs(keys.as_mut_ptr(), values.as_mut_ptr(), 2).unwrap();
        assert_eq!(read[1], ("b".into(), "2".into()));
        keys[1] = std::ptr::null();
        assert!(texts(keys.as_mut_ptr(), 2, "keys").unwrap_err().to_string().contains("the pointer keys is null"));
        let numbers = [1u32, 2, 3];
        assert_eq!(slice(numbers.as_ptr(), 3, "numbers"), Ok(&numbers[..]));
        assert_eq!(slice(std::ptr::null::<u32>(), 0, "numbers"), Ok(&[][..]));
        assert!(slice(numbers.as_ptr().cast::<u8>().wrapping_add(1).cast::<u32>(), 1, "numbers").is_err());
        assert!(slice(numbers.as_ptr(), usize::MAX, "numbers").is_err());
        let mut out = [0u32; 3];
        put_all(out.as_mut_ptr(), &numbers, "out").unwrap();
        put(&raw mut out[0], 9, "out").unwrap();
        assert_eq!((out, get(&raw const out[0], "out")), ([9, 2, 3], Ok(9)));
    }
}
