//! Tensor data in other files of the model's directory. Off by default, so that a model cannot make the import read other files.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::mapped_file;

/// The files from which tensor data may be read.
#[derive(Default)]
pub struct External {
    directory: Option<PathBuf>,
    /// Files that are already mapped.
    mapped: Mutex<Vec<(PathBuf, Bytes)>>,
    /// Locations of files that could not be read. Only the first tensor of a file reports the error.
    failed: Mutex<HashSet<String>>,
}

impl External {
    /// Rejects all external data.
    pub fn refused() -> External {
        External::default()
    }

    /// Allows files in this directory and its subdirectories, after symbolic links are resolved.
    ///
    /// # Errors
    /// The directory cannot be resolved.
    pub fn within(directory: &Path) -> Result<External> {
        let io = |e: std::io::Error| Error::io(directory.display(), &e);
        Ok(External { directory: Some(directory.canonicalize().map_err(io)?), ..External::default() })
    }

    /// The bytes of a tensor. `entry` gives the values of its keys `location`, `offset` and `length`; `expected` is its size in bytes.
    ///
    /// # Errors
    /// External data is not allowed, its file is outside the directory, or its length is wrong.
    pub fn data<'a>(&self, entry: impl Fn(&str) -> Option<&'a str>, expected: usize) -> Result<Bytes> {
        let location = entry("location").ok_or_else(|| Error::format("external data has no location"))?;
        let number = |key: &str, default: usize| match entry(key) {
            None => Ok(default),
            Some(text) => {
                text.parse().map_err(|_| Error::format(format!("the {key} '{text}' of external data is not a number")))
            }
        };
        let file = self.file(location).map_err(|e| match self.is_first_failure(location) {
            true => e,
            // An error without problems has been reported.
            false => Error::Model(Vec::new()),
        })?;
        let offset = number("offset", 0)?;
        let length = number("length", expected)?;
        let end = offset.checked_add(length).filter(|end| *end <= file.len() && length == expected);
        let end = end.ok_or_else(|| {
            Error::format(format!(
                "external data '{location}' from {offset}, {length} bytes long, is not in the file of {} bytes or not {expected} \
                 bytes long",
                file.len()
            ))
        })?;
        Ok(file.slice(offset..end))
    }

    fn is_first_failure(&self, location: &str) -> bool {
        let mut failed = match self.failed.lock() {
            Ok(failed) => failed,
            Err(poisoned) => poisoned.into_inner(),
        };
        failed.insert(location.to_string())
    }

    /// The content of a file, by its path relative to the directory.
    ///
    /// # Errors
    /// External data is not allowed, the file is outside the directory, or it cannot be read.
    pub fn file(&self, location: &str) -> Result<Bytes> {
        let Some(directory) = &self.directory else {
            return Err(Error::format(format!(
                "its data is in the file '{location}', and reading other files is not allowed: allow it with --external-data, or with \
                 externalData = true in Scala"
            )));
        };
        let path =
            directory.join(location).canonicalize().map_err(|e| Error::io(directory.join(location).display(), &e))?;
        if !path.starts_with(directory) || !path.is_file() {
            return Err(Error::format(format!(
                "external data '{location}' is not a file in the directory of the model"
            )));
        }
        let mut mapped = match self.mapped.lock() {
            Ok(mapped) => mapped,
            Err(poisoned) => poisoned.into_inner(),
        };
        if let Some((_, bytes)) = mapped.iter().find(|(p, _)| *p == path) {
            return Ok(bytes.clone());
        }
        let bytes = mapped_file::open(&path)?;
        mapped.push((path, bytes.clone()));
        Ok(bytes)
    }
}
