//! Memory-mapped files.

#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;

use bytes::Bytes;
use memmap2::Mmap;

use crate::error::{Error, Result};

/// Smaller files are read instead of mapped.
const MIN_MAPPED_BYTES: u64 = 1 << 16;

/// The content of a file, memory-mapped: pages are read when they are needed and nothing is copied.
///
/// If another program writes to the file, the bytes change. Readers validate what they use, so the result is wrong numbers or an error.
/// If another program truncates the file, access to the lost pages ends the process, as in every program that maps files.
///
/// # Errors
/// The file cannot be opened or mapped.
pub(crate) fn open(path: &Path) -> Result<Bytes> {
    let io = |e: std::io::Error| Error::io(path.display(), &e);
    let file = File::open(path).map_err(io)?;
    if file.metadata().map_err(io)?.len() < MIN_MAPPED_BYTES {
        return std::fs::read(path).map(Bytes::from).map_err(io);
    }
    // SAFETY: the mapping is private and read-only, and the `Bytes` own it. Another program may change the file: readers validate every
    // byte that they use, as the documentation of this function says.
    let map = unsafe { Mmap::map(&file) }.map_err(io)?;
    Ok(Bytes::from_owner(map))
}
