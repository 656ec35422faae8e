//! What functions return by pointer: owned by this thread, valid until the same function is called on it again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_void};

/// Everything that one function returned last.
#[derive(Default)]
struct Returned {
    texts: Vec<CString>,
    lists: Vec<Vec<*const c_void>>,
}

thread_local! {
    static RETURNED: RefCell<HashMap<&'static str, Returned>> = RefCell::default();
}

/// Builds the results of one call.
pub struct Ret(Returned);

impl Ret {
    /// Starts the results of a call.
    pub fn new() -> Ret {
        Ret(Returned::default())
    }

    /// A string.
    pub fn text(&mut self, s: &str) -> *const c_char {
        // The bytes of a CString do not move when the vector of CStrings grows.
        self.0.texts.push(CString::new(s.replace('\0', "\\0")).unwrap_or_default());
        self.0.texts[self.0.texts.len() - 1].as_ptr()
    }

    /// A list of strings.
    pub fn texts<S: AsRef<str>>(&mut self, items: impl IntoIterator<Item = S>) -> *const *const c_char {
        let list: Vec<*const c_void> = items.into_iter().map(|s| self.text(s.as_ref()).cast()).collect();
        self.list(list).cast()
    }

    /// A list of handles or pointers.
    pub fn list(&mut self, items: Vec<*const c_void>) -> *const *const c_void {
        self.0.lists.push(items);
        self.0.lists[self.0.lists.len() - 1].as_ptr()
    }

    /// Keeps the results until `function` is called on this thread again.
    pub fn keep(self, function: &'static str) {
        RETURNED.with_borrow_mut(|all| all.insert(function, self.0));
    }
}
