//! Results that the library owns and functions return by pointer. Each is kept in thread-local storage until the thread calls the same
//! function again.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_void};

use ferromx_runtime::error::Result;
use ferromx_runtime::imperative::Tensor;
use ferromx_runtime::sparse::Array;

use super::args::{put, raw};
use super::types::NDArrayHandle;
use crate::handle::insert_tensor;

/// The results of the last call of one function.
#[derive(Default)]
struct Returned {
    texts: Vec<CString>,
    lists: Vec<Box<dyn Any>>,
}

/// The handles and storage types of the outputs of an operator call.
#[derive(Default)]
struct Invoked {
    handles: Vec<NDArrayHandle>,
    storage_types: Vec<c_int>,
}

thread_local! {
    static RETURNED: RefCell<HashMap<&'static str, Returned>> = RefCell::default();
    static INVOKED: RefCell<Invoked> = RefCell::default();
}

/// Builds the results of one call.
pub struct Ret(Returned);

impl Ret {
    /// Starts the results of a call.
    pub fn new() -> Ret {
        Ret(Returned::default())
    }

    /// Adds a string.
    pub fn text(&mut self, s: &str) -> *const c_char {
        // The bytes of a CString do not move when the vector of CStrings grows.
        self.0.texts.push(CString::new(s.replace('\0', "\\0")).unwrap_or_default());
        self.0.texts[self.0.texts.len() - 1].as_ptr()
    }

    /// Adds a list of strings.
    pub fn texts<S: AsRef<str>>(&mut self, items: impl IntoIterator<Item = S>) -> *mut *const c_char {
        let list: Vec<*const c_char> = items.into_iter().map(|s| self.text(s.as_ref())).collect();
        self.list(list)
    }

    /// Adds a list of numbers, handles or pointers, which is not reallocated.
    pub fn list<T: 'static>(&mut self, mut items: Vec<T>) -> *mut T {
        let p = items.as_mut_ptr();
        self.0.lists.push(Box::new(items));
        p
    }

    /// Adds a list of new array handles, null for `None`.
    pub fn arrays<'a, A: Clone + Into<Array> + 'a>(
        &mut self,
        items: impl IntoIterator<Item = Option<&'a A>>,
    ) -> *mut NDArrayHandle {
        let handle = |a: &A| raw(insert_tensor(Tensor::new(a.clone())));
        self.list(items.into_iter().map(|a| a.map_or(std::ptr::null_mut(), handle)).collect())
    }

    /// Keeps the results until `function` is called on this thread again.
    pub fn keep(self, function: &'static str) {
        // The results of the previous call are dropped after the borrow ends.
        let _previous = RETURNED.with_borrow_mut(|all| all.insert(function, self.0));
    }
}

/// Returns a list of strings and its length through pointers.
pub fn put_texts<S: AsRef<str>>(
    function: &'static str,
    items: &[S],
    size: *mut u32,
    out: *mut *mut *const c_char,
) -> Result<()> {
    let mut ret = Ret::new();
    put(size, items.len() as u32, "out_size")?;
    put(out, ret.texts(items), "out_str_array")?;
    ret.keep(function);
    Ok(())
}

/// Returns a string through a pointer.
pub fn put_text(function: &'static str, text: &str, out: *mut *const c_char) -> Result<()> {
    let mut ret = Ret::new();
    put(out, ret.text(text), "out")?;
    ret.keep(function);
    Ok(())
}

/// Returns a string, or null if there is none, and whether there is one.
pub fn put_optional_text(
    function: &'static str,
    text: Option<&str>,
    out: *mut *const c_char,
    success: *mut c_int,
) -> Result<()> {
    put(success, c_int::from(text.is_some()), "success")?;
    match text {
        Some(text) => put_text(function, text, out),
        None => put(out, std::ptr::null(), "out"),
    }
}

/// Returns a new handle through a pointer; the caller frees it.
pub fn put_handle(out: *mut *mut c_void, new: impl FnOnce() -> Result<u64>) -> Result<()> {
    // Write to the out-parameter first, so that no handle is created if the pointer is null.
    put(out, std::ptr::null_mut(), "out")?;
    put(out, raw(new()?), "out")
}

/// The handles and storage types of an operator's outputs as lists, which are valid until the next call of this function on this thread.
pub fn invoked(outputs: impl Iterator<Item = (u64, c_int)>) -> (*mut NDArrayHandle, *const c_int) {
    INVOKED.with_borrow_mut(|last| {
        last.handles.clear();
        last.storage_types.clear();
        for (handle, storage_type) in outputs {
            last.handles.push(raw(handle));
            last.storage_types.push(storage_type);
        }
        (last.handles.as_mut_ptr(), last.storage_types.as_ptr())
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn read(p: *const c_char) -> String {
        // SAFETY: the results of `put_text` and `put_texts` are null-terminated and valid until the next call of the same function.
        unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned()
    }

    #[test]
    fn results_stay_valid_until_the_function_is_called_again() {
        let (mut text, mut other) = (std::ptr::null(), std::ptr::null());
        put_text("test_one", "first", &mut text).unwrap();
        put_text("test_other", "a\0b", &mut other).unwrap();
        let (mut size, mut list) = (0, std::ptr::null_mut());
        put_texts("test_list", &["x", "y"], &mut size, &mut list).unwrap();
        assert_eq!((read(text), read(other), size), ("first".into(), "a\\0b".into(), 2));
        // SAFETY: the list has two elements.
        assert_eq!(unsafe { [read(*list), read(*list.add(1))] }, ["x", "y"]);
        put_text("test_one", "second", &mut text).unwrap();
        assert_eq!((read(text), read(other)), ("second".into(), "a\\0b".into()));
    }

    #[test]
    fn lists_of_numbers_do_not_move() {
        let mut ret = Ret::new();
        let lists = [1u32, 2, 3].map(|n| ret.list(vec![n; 2]));
        // SAFETY: each list has two elements, which `ret` owns.
        assert_eq!(lists.map(|list| unsafe { (*list, *list.add(1)) }), [(1, 1), (2, 2), (3, 3)]);
    }
}
