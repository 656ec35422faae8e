//! The NNEF front end: reads models in the Khronos Group's Neural Network Exchange Format, version 1.0. A model is a folder with
//! `graph.nnef` and a file `LABEL.dat` for each variable.
//!
//! - `parse`: the syntax of `graph.nnef`; `read`: its conversion to the framework-neutral form; `tensor`: the files of variables.

mod parse;
mod read;
mod tensor;

use std::path::Path;

pub use read::graph as read;
pub use tensor::parse as tensor;

use crate::error::{Error, Result};
use crate::external::External;
use crate::ir::Model;

/// Maximum length of a graph file in bytes.
const MAX_TEXT: u64 = 1 << 26;

/// Reads a model: a folder, or the file `graph.nnef` in it. Variables are read only from the folder, symbolic links resolved.
///
/// # Errors
/// See [`read()`]; I/O errors; quantization parameters (`graph.quant`), which are not supported.
pub fn load(path: &Path) -> Result<Model> {
    let file = if path.is_dir() { path.join("graph.nnef") } else { path.to_path_buf() };
    let io = |e: std::io::Error| Error::io(file.display(), &e);
    let size = std::fs::metadata(&file).map_err(io)?.len();
    if size > MAX_TEXT {
        return Err(Error::format(format!("{}: a graph of {size} bytes is larger than {MAX_TEXT}", file.display())));
    }
    let text = std::fs::read_to_string(&file).map_err(io)?;
    let folder = file.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.join("graph.quant").exists() {
        return Err(Error::unsupported(format!(
            "{}: quantization parameters are not supported: export the model without them",
            folder.join("graph.quant").display()
        )));
    }
    let files = External::within(folder)?;
    let name = file.file_name().map_or("graph.nnef".into(), |n| n.to_string_lossy());
    read(&name, &text, &|label| tensor(files.file(&format!("{label}.dat"))?))
}
