//! Writes the metadata of all operators as JSON lines, read through the C API of the freshly built `libmxnet`.
//!
//! Usage: `dump_ops [LIBRARY [OUTPUT]]`. The defaults are the library next to this program, and standard output.
#![allow(unsafe_code)]

use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::path::PathBuf;
use std::ptr::{null, null_mut};

use libloading::{Library, Symbol, library_filename};
use serde_json::{Map, Value, json};

type ListAllOpNames = unsafe extern "C" fn(*mut u32, *mut *const *const c_char) -> c_int;
type GetOpHandle = unsafe extern "C" fn(*const c_char, *mut *const c_void) -> c_int;
type Text = *mut *const c_char;
type Texts = *mut *const *const c_char;
type AtomicSymbolInfo =
    unsafe extern "C" fn(*const c_void, Text, Text, *mut u32, Texts, Texts, Texts, Text, Text) -> c_int;
type GetLastError = unsafe extern "C" fn() -> *const c_char;

struct Api<'l> {
    list: Symbol<'l, ListAllOpNames>,
    handle: Symbol<'l, GetOpHandle>,
    info: Symbol<'l, AtomicSymbolInfo>,
    last_error: Symbol<'l, GetLastError>,
}

fn text(p: *const c_char) -> String {
    // SAFETY: the library returns null-terminated strings, which are valid until its next call; this copies them before.
    unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned()
}

fn texts(p: *const *const c_char, n: u32) -> Vec<String> {
    // SAFETY: the library returned `n` strings there.
    (0..n as usize).map(|i| text(unsafe { *p.add(i) })).collect()
}

impl Api<'_> {
    fn check(&self, status: c_int) -> Result<(), Box<dyn Error>> {
        // SAFETY: takes no argument.
        if status == 0 { Ok(()) } else { Err(text(unsafe { (self.last_error)() }).into()) }
    }

    fn names(&self) -> Result<Vec<String>, Box<dyn Error>> {
        let (mut n, mut list) = (0, null());
        // SAFETY: both pointers are to variables of the right type.
        self.check(unsafe { (self.list)(&mut n, &mut list) })?;
        Ok(texts(list, n))
    }

    fn describe(&self, name: &str) -> Result<Value, Box<dyn Error>> {
        let c_name = std::ffi::CString::new(name)?;
        let mut handle = null();
        // SAFETY: the string is null-terminated, and the out-parameter points to a variable of the right type.
        self.check(unsafe { (self.handle)(c_name.as_ptr(), &mut handle) })?;
        let (mut op, mut desc, mut key) = (null(), null(), null());
        let (mut n, mut names, mut types, mut docs) = (0, null(), null(), null());
        // SAFETY: the handle came from the library, and all pointers are to variables of the right type.
        self.check(unsafe {
            (self.info)(handle, &mut op, &mut desc, &mut n, &mut names, &mut types, &mut docs, &mut key, null_mut())
        })?;
        let rows = texts(names, n).into_iter().zip(texts(types, n)).zip(texts(docs, n));
        let mut line = Map::new();
        line.insert("name".into(), name.into());
        line.insert("args".into(), rows.map(|((name, ty), doc)| json!([name, ty, doc])).collect());
        line.insert("desc".into(), text(desc).into());
        if !text(key).is_empty() {
            line.insert("key_var_num_args".into(), text(key).into());
        }
        Ok(Value::Object(line))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let beside = || Ok::<_, std::io::Error>(std::env::current_exe()?.with_file_name(library_filename("mxnet")));
    let path = arguments.next().map_or_else(beside, Ok)?;
    // SAFETY: the library's initializers only set up tables.
    let library = unsafe { Library::new(&path) }.map_err(|e| format!("cannot load {}: {e}", path.display()))?;
    // SAFETY: the types are those of the functions in the library.
    let api = unsafe {
        Api {
            list: library.get(b"MXListAllOpNames")?,
            handle: library.get(b"NNGetOpHandle")?,
            info: library.get(b"MXSymbolGetAtomicSymbolInfo")?,
            last_error: library.get(b"MXGetLastError")?,
        }
    };
    let mut lines = String::new();
    // Gradients cannot be called, so code generators do not need their metadata.
    for name in api.names()?.into_iter().filter(|name| !name.starts_with("_backward")) {
        lines.push_str(&api.describe(&name)?.to_string());
        lines.push('\n');
    }
    match arguments.next() {
        // An unchanged file keeps its time stamp, so that builds that depend on it do not run again.
        Some(file) if std::fs::read_to_string(&file).is_ok_and(|old| old == lines) => Ok(()),
        Some(file) => Ok(std::fs::write(file, lines)?),
        None => Ok(std::io::stdout().write_all(lines.as_bytes())?),
    }
}
