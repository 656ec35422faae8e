//! ⚠ Memory-mapped files.

#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;

use bytes::Bytes;
use memmap2::Mmap;

use crate::error::{Error, Result};

/// Files below this size are read as a whole.
const SMALL: u64 = 1 << 16;

/// The content of a file: mapped, so that nothing is read before it is needed and nothing is copied.
///
/// A file that another program changes while it is mapped changes under the reader's hands: every use of the bytes is checked on
/// its own, so that gives wrong numbers or an error. Truncating it ends the process, as it does every program that maps files.
///
/// # Errors
/// The system refuses.
pub fn open(path: &Path) -> Result<Bytes> {
    let io = |e: std::io::Error| Error::Engine(ferromx_core::error::Error::io(path.display(), &e));
    let file = File::open(path).map_err(io)?;
    if file.metadata().map_err(io)?.len() < SMALL {
        return std::fs::read(path).map(Bytes::from).map_err(io);
    }
    // SAFETY: the mapping is private and read-only, and lives as long as the `Bytes` that own it.
    let map = unsafe { Mmap::map(&file) }.map_err(io)?;
    Ok(Bytes::from_owner(map))
}
