//! The ONNX front end: converts files to the framework-neutral form and back.
//!
//! - [`proto`]: the messages of a file; `wire`: limits that are checked before decoding.
//! - `read` and `write`: the conversion of messages; `types`: element types by code; `functions`: inlining of model-local functions.

mod functions;
pub mod proto;
mod read;
mod types;
mod wire;
mod write;

use std::path::Path;

pub use read::model as read;
pub(crate) use types::{code_of, code_of_element, element_type};
pub use write::{save, to_bytes};

pub use crate::external::External;

use crate::error::Result;
use crate::ir::Model;
use crate::mapped_file::open;

/// Reads a file that contains all its tensors.
///
/// # Errors
/// See [`read()`]; I/O errors.
pub fn load(path: &Path) -> Result<Model> {
    read(open(path)?, &External::refused())
}

/// Reads a file whose tensors may be stored in other files of its directory.
///
/// # Errors
/// See [`read()`]; I/O errors.
pub fn load_with_external_data(path: &Path) -> Result<Model> {
    let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let external = External::within(directory)?;
    read(open(path)?, &external)
}
