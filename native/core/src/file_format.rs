//! The binary format of arrays: `.params` files, and single arrays as raw bytes.
//!
//! A file is a header (0x112, 0), a list of arrays and a list of names, all little-endian. An array is a magic number with the
//! version, storage type, shape, context, type code and the elements. Versions 0 to 3 are read; version 2 is written, version 3
//! for arrays that need numpy semantics (scalars and dimensions of 0).

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::context::Context;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ndarray::NDArray;
use crate::shape::{Dims, Shape};
use crate::storage;

const FILE_MAGIC: u64 = 0x112;
const MAGIC_V1: u32 = 0xF993_FAC8;
const MAGIC_V2: u32 = 0xF993_FAC9;
const MAGIC_V3: u32 = 0xF993_FACA;
const DENSE: i32 = 0;
/// No array has more dimensions in MXNet.
const MAX_NDIM: usize = 32;

/// A reader that knows where it is and never reads beyond the end.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    what: &'a str,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(n).filter(|end| *end <= self.bytes.len());
        let Some(end) = end else {
            return Err(self.error(format!(
                "it ends after {} bytes, but {n} more were expected at byte {}",
                self.bytes.len(),
                self.at
            )));
        };
        let part = &self.bytes[self.at..end];
        self.at = end;
        Ok(part)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// A count of items that take at least `item` bytes each, so that it cannot exceed what is left.
    fn count(&mut self, item: usize, of: &str) -> Result<usize> {
        let n = self.u64()?;
        let left = (self.bytes.len() - self.at) / item;
        usize::try_from(n)
            .ok()
            .filter(|n| *n <= left)
            .ok_or_else(|| self.error(format!("it announces {n} {of}, more than it can hold")))
    }

    fn error(&self, what: String) -> Error {
        Error::Format(format!("{} is no complete array file: {what}; save it again or download it anew", self.what))
    }

    fn dims(&mut self, ndim: i64, wide: bool) -> Result<Dims> {
        let n = usize::try_from(ndim).ok().filter(|n| *n <= MAX_NDIM);
        let n = n.ok_or_else(|| self.error(format!("an array has {ndim} dimensions")))?;
        (0..n)
            .map(|_| {
                let d = if wide { self.i64()? } else { i64::from(self.u32()?) };
                if d < 0 { Err(self.error(format!("a dimension is {d}"))) } else { Ok(d) }
            })
            .collect()
    }

    /// One array; `None` for a place holder without shape.
    fn ndarray(&mut self) -> Result<Option<NDArray>> {
        let magic = self.u32()?;
        let (ndim, wide, numpy) = match magic {
            MAGIC_V2 | MAGIC_V3 => {
                let storage_type = self.i32()?;
                if storage_type != DENSE {
                    return Err(Error::Unsupported(format!(
                        "{} holds an array of storage type {storage_type} (1 row_sparse, 2 csr), which this build cannot read: \
                         convert it to default storage before saving",
                        self.what
                    )));
                }
                (i64::from(self.i32()?), true, magic == MAGIC_V3)
            }
            MAGIC_V1 => (i64::from(self.i32()?), true, false),
            ndim => (i64::from(ndim), false, false),
        };
        if (ndim == 0 && !numpy) || ndim == -1 {
            return Ok(None);
        }
        let shape = Shape::from(self.dims(ndim, wide)?);
        let _device = (self.i32()?, self.i32()?);
        let code = self.i32()?;
        let dtype = DType::from_code(code).ok_or_else(|| self.error(format!("type code {code} is unknown")))?;
        let len = shape.checked_elements().map_err(|e| self.error(e.to_string()))?;
        let bytes = self.take(len * dtype.size())?;
        let array = NDArray::empty(&shape, dtype, Context::default())?;
        storage::write_bytes(&array, |to| match dtype {
            DType::Bool => to.iter_mut().zip(bytes).for_each(|(t, b)| *t = u8::from(*b != 0)),
            _ => to.copy_from_slice(bytes),
        });
        Ok(Some(array))
    }
}

/// Arrays and their names. There are as many names as arrays, or none.
pub struct Loaded {
    /// The arrays, on `cpu(0)`; `None` for empty place holders.
    pub arrays: Vec<Option<NDArray>>,
    /// The names, such as `arg:fc1_weight`.
    pub names: Vec<String>,
}

/// Reads a `.params` file from memory; `what` names it in messages.
///
/// # Errors
/// Bytes that are no such file or only part of one.
pub fn from_bytes(bytes: &[u8], what: &str) -> Result<Loaded> {
    let mut r = Reader { bytes, at: 0, what };
    let magic = r.u64()?;
    if magic != FILE_MAGIC {
        return Err(r.error(format!("it begins with {magic:#x} instead of {FILE_MAGIC:#x}")));
    }
    r.u64()?;
    let n = r.count(4, "arrays")?;
    let arrays = (0..n).map(|_| r.ndarray()).collect::<Result<Vec<_>>>()?;
    let n = r.count(8, "names")?;
    let mut names = Vec::with_capacity(n);
    for _ in 0..n {
        let len = r.count(1, "bytes of a name")?;
        let name = r.take(len)?;
        names.push(String::from_utf8(name.to_vec()).map_err(|_| r.error("a name is no UTF-8".into()))?);
    }
    if !names.is_empty() && names.len() != arrays.len() {
        return Err(r.error(format!("it has {} names for {} arrays", names.len(), arrays.len())));
    }
    Ok(Loaded { arrays, names })
}

/// Reads a `.params` file.
///
/// # Errors
/// No such file, or those of [`from_bytes`].
pub fn load(path: &str) -> Result<Loaded> {
    from_bytes(&fs::read(path).map_err(|e| Error::io(path, &e))?, path)
}

/// One array as bytes.
pub fn array_to_bytes(array: &NDArray) -> Vec<u8> {
    let mut out = Vec::with_capacity(array.byte_range().len() + 128);
    let dims = array.shape().dims();
    let numpy = dims.is_empty() || dims.contains(&0);
    out.extend(if numpy { MAGIC_V3 } else { MAGIC_V2 }.to_le_bytes());
    out.extend(DENSE.to_le_bytes());
    out.extend((dims.len() as i32).to_le_bytes());
    dims.iter().for_each(|d| out.extend(d.to_le_bytes()));
    out.extend((array.context().device_type as i32).to_le_bytes());
    out.extend(array.context().device_id.to_le_bytes());
    out.extend(array.dtype().code().to_le_bytes());
    storage::read_bytes(array, |b| out.extend_from_slice(b));
    out
}

/// One array from bytes.
///
/// # Errors
/// Bytes that are no array or only part of one.
pub fn array_from_bytes(bytes: &[u8]) -> Result<NDArray> {
    let mut r = Reader { bytes, at: 0, what: "the buffer" };
    r.ndarray()?.ok_or_else(|| Error::Format("the buffer holds an empty array".into()))
}

/// Writes arrays, with as many names or none, to a file. The file appears whole or not at all.
///
/// # Errors
/// The system refuses; names and arrays differ in number.
pub fn save(path: &str, arrays: &[NDArray], names: &[String]) -> Result<()> {
    crate::ensure!(
        names.is_empty() || names.len() == arrays.len(),
        "{} names were given for {} arrays: give one each, or none",
        names.len(),
        arrays.len()
    );
    write_whole(path, |file| {
        file.write_all(&FILE_MAGIC.to_le_bytes())?;
        file.write_all(&0u64.to_le_bytes())?;
        file.write_all(&(arrays.len() as u64).to_le_bytes())?;
        for array in arrays {
            file.write_all(&array_to_bytes(array))?;
        }
        file.write_all(&(names.len() as u64).to_le_bytes())?;
        for name in names {
            file.write_all(&(name.len() as u64).to_le_bytes())?;
            file.write_all(name.as_bytes())?;
        }
        Ok(())
    })
}

/// Writes a file through a temporary neighbour, so that an interrupted save leaves the old file as it was.
///
/// # Errors
/// The system refuses.
pub fn write_whole(path: &str, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
    let temporary = format!("{path}.{}.tmp", std::process::id());
    let attempt = || -> std::io::Result<()> {
        let mut file = std::io::BufWriter::new(fs::File::create(&temporary)?);
        write(&mut file)?;
        file.into_inner().map_err(|e| e.into_error())?.sync_all()?;
        fs::rename(&temporary, Path::new(path))
    };
    attempt().map_err(|e| {
        let _ = fs::remove_file(&temporary);
        Error::io(path, &e)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(arrays: &[NDArray], names: &[String]) -> Vec<u8> {
        let path = std::env::temp_dir().join(format!("ferromx-format-{}-{}", std::process::id(), arrays.len()));
        let path = path.to_string_lossy();
        save(&path, arrays, names).unwrap();
        let bytes = fs::read(&*path).unwrap();
        fs::remove_file(&*path).unwrap();
        bytes
    }

    #[test]
    fn arrays_of_every_kind_survive() {
        let arrays = [
            NDArray::from_slice(&[1f32, f32::NAN, -0.0], &[3]).unwrap(),
            NDArray::from_slice(&[i64::MAX, -1], &[2, 1]).unwrap(),
            NDArray::from_slice(&[true, false], &[2]).unwrap(),
            NDArray::from_slice(&[7f64], &[]).unwrap(),
            NDArray::from_slice::<u8>(&[], &[0, 3]).unwrap(),
        ];
        let names: Vec<String> = (0..5).map(|i| format!("arg:x{i}")).collect();
        let back = from_bytes(&file(&arrays, &names), "test").unwrap();
        assert_eq!(back.names, names);
        for (a, b) in arrays.iter().zip(&back.arrays) {
            assert_eq!(array_to_bytes(a), array_to_bytes(b.as_ref().unwrap()));
        }
    }

    #[test]
    fn every_truncation_is_an_error() {
        let bytes = file(&[NDArray::from_slice(&[1f32, 2.0], &[2]).unwrap()], &["w".into()]);
        for n in 0..bytes.len() {
            assert!(from_bytes(&bytes[..n], "test").is_err(), "{n} bytes");
        }
        assert!(from_bytes(&bytes, "test").is_ok());
    }

    #[test]
    fn hostile_counts_do_not_allocate() {
        let mut bytes = file(&[NDArray::from_slice(&[1f32], &[1]).unwrap()], &[]);
        bytes[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(from_bytes(&bytes, "test").map(|_| ()).unwrap_err().to_string().contains("more than it can hold"));
        let mut bytes = file(&[NDArray::from_slice(&[1f32], &[1]).unwrap()], &[]);
        bytes[36..44].copy_from_slice(&i64::MAX.to_le_bytes());
        assert!(from_bytes(&bytes, "test").is_err());
    }
}
