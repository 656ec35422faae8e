//! The binary format of arrays: `.params` files, and single arrays as raw bytes.
//!
//! A file is a header (0x112, 0), a list of arrays and a list of names, all little-endian. An array has these fields: magic number, which
//! encodes the version; storage type; shape; context; type code; elements. A sparse array also has the shape of its values before its own
//! shape, and the types and shapes of its index arrays after the type code. Versions 0 to 3 are read; version 2 is written, or version 3
//! for arrays that need NumPy semantics (scalars and dimensions of 0).

use std::fs::{self, File};
use std::io::{BufReader, Cursor, ErrorKind, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;

use crate::context::Context;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::memory;
use crate::ndarray::NDArray;
use crate::semantics::is_numpy_shape;
use crate::shape::{Dims, Shape};
use crate::sparse::{Array, FormatCheck, SparseArray, StorageType};
use crate::storage::{self, Chunk};

const FILE_MAGIC: u64 = 0x112;
const MAGIC_V1: u32 = 0xF993_FAC8;
const MAGIC_V2: u32 = 0xF993_FAC9;
const MAGIC_V3: u32 = 0xF993_FACA;
/// Maximum rank of an array in MXNet.
const MAX_NDIM: usize = 32;

/// Smaller arrays of a mapped file are read.
const MIN_MAPPED_BYTES: usize = 1 << 16;

trait Source: Read + Seek {}

impl<T: Read + Seek> Source for T {}

/// A cursor over a file, with bounds checks. Elements are read directly into the memory of their array.
struct Reader<'a> {
    source: &'a mut dyn Source,
    /// The mapped file, whose memory arrays share if their elements are aligned in it.
    map: Option<Arc<Chunk>>,
    /// Size of the file in bytes.
    len: u64,
    offset: u64,
    /// Names the file in errors.
    name: &'a str,
}

impl<'a> Reader<'a> {
    fn new(source: &'a mut dyn Source, len: u64, name: &'a str) -> Reader<'a> {
        Reader { source, map: None, len, offset: 0, name }
    }

    /// Checks that the file has `n` more bytes, before memory for them is allocated.
    fn expect(&self, n: usize) -> Result<()> {
        if n as u64 <= self.len - self.offset {
            return Ok(());
        }
        Err(self.error(format!("it ends after {} bytes, but {n} more were expected at byte {}", self.len, self.offset)))
    }

    /// Fills `to` with the next bytes.
    fn read(&mut self, to: &mut [u8]) -> Result<()> {
        self.expect(to.len())?;
        self.source.read_exact(to).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof => self.error("it was truncated while it was read".into()),
            _ => Error::io(self.name, &e),
        })?;
        self.offset += to.len() as u64;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        self.read(&mut out)?;
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

    /// Reads a count of items of at least `item_bytes` each, which must fit the remaining bytes.
    fn count(&mut self, item_bytes: usize, items: &str) -> Result<usize> {
        let n = self.u64()?;
        let max = (self.len - self.offset) / item_bytes as u64;
        usize::try_from(n)
            .ok()
            .filter(|n| *n as u64 <= max)
            .ok_or_else(|| self.error(format!("its header gives {n} {items}, more than the file can hold")))
    }

    fn error(&self, reason: String) -> Error {
        Error::Format(format!("{} is not a complete array file: {reason}; save it or download it again", self.name))
    }

    /// Reads `ndim` dimensions, each by `dim`.
    fn dims(&mut self, ndim: i64, dim: impl Fn(&mut Self) -> Result<i64>) -> Result<Dims> {
        let n = usize::try_from(ndim).ok().filter(|n| *n <= MAX_NDIM);
        let n = n.ok_or_else(|| self.error(format!("an array has {ndim} dimensions")))?;
        (0..n)
            .map(|_| {
                let d = dim(self)?;
                if d < 0 { Err(self.error(format!("a dimension is {d}"))) } else { Ok(d) }
            })
            .collect()
    }

    /// Reads a rank and a shape; `None` for a placeholder without shape, whose rank is -1.
    fn shape(&mut self) -> Result<Option<Shape>> {
        match self.i32()? {
            -1 => Ok(None),
            ndim => Ok(Some(Shape::from(self.dims(i64::from(ndim), Self::i64)?))),
        }
    }

    /// [`shape`](Self::shape) without NumPy shape semantics, where a rank of 0 also belongs to a placeholder.
    fn shape_of_known_rank(&mut self) -> Result<Option<Shape>> {
        Ok(self.shape()?.filter(|shape| !shape.dims().is_empty()))
    }

    fn dtype(&mut self) -> Result<DType> {
        let code = self.i32()?;
        DType::from_code(code).ok_or_else(|| self.error(format!("type code {code} is unknown")))
    }

    /// Reads the elements of a dense array.
    fn elements(&mut self, shape: &Shape, dtype: DType) -> Result<NDArray> {
        let len = shape.checked_elements().map_err(|e| self.error(e.to_string()))?;
        self.expect(len * dtype.size())?;
        if let Some(array) = self.mapped_elements(shape, dtype, len * dtype.size())? {
            return Ok(array);
        }
        let array = NDArray::empty(shape, dtype, Context::default())?;
        storage::write_bytes(&array, |to| {
            let result = self.read(to);
            if dtype == DType::Bool {
                to.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
            }
            result
        })?;
        Ok(array)
    }

    /// The elements of a dense array in the mapped file, unless they are few or not aligned.
    fn mapped_elements(&mut self, shape: &Shape, dtype: DType, bytes: usize) -> Result<Option<NDArray>> {
        let offset = self.offset as usize;
        // Bytes of a boolean array other than 0 and 1 must be replaced.
        let is_mappable = bytes >= MIN_MAPPED_BYTES && offset.is_multiple_of(dtype.size()) && dtype != DType::Bool;
        let Some(map) = self.map.as_ref().filter(|_| is_mappable) else { return Ok(None) };
        let array = NDArray::view(map.clone(), offset, shape.clone(), dtype)?;
        self.source.seek_relative(bytes as i64).map_err(|e| Error::io(self.name, &e))?;
        self.offset += bytes as u64;
        Ok(Some(array))
    }

    /// Reads an array; `None` for a placeholder without shape.
    fn ndarray(&mut self) -> Result<Option<Array>> {
        let magic = self.u32()?;
        let shape = match magic {
            MAGIC_V2 | MAGIC_V3 => {
                let code = self.i32()?;
                let storage_type = StorageType::from_code(code).map_err(|e| self.error(e.to_string()))?;
                if storage_type != StorageType::Default {
                    return self.sparse(storage_type);
                }
                if magic == MAGIC_V3 { self.shape()? } else { self.shape_of_known_rank()? }
            }
            MAGIC_V1 => self.shape_of_known_rank()?,
            0 => None,
            ndim => Some(Shape::from(self.dims(i64::from(ndim), |file| file.u32().map(i64::from))?)),
        };
        let Some(shape) = shape else { return Ok(None) };
        let _device = (self.i32()?, self.i32()?);
        let dtype = self.dtype()?;
        Ok(Some(self.elements(&shape, dtype)?.into()))
    }

    /// Checks that the number of row pointers of a csr array fits its rows, before memory for them is allocated. `pointers` is their shape
    /// in the file.
    fn check_rows(&self, shape: &Shape, pointers: Option<Shape>) -> Result<()> {
        /// Maximum number of rows of an array without any stored arrays, not even row pointers.
        const MAX_EMPTY_ROWS: i64 = 1 << 24;
        let (rows, pointers) = (shape.dims().first().copied().unwrap_or(0), pointers.map_or(0, |p| p.dims()[0]));
        let is_consistent = if pointers == 0 { rows <= MAX_EMPTY_ROWS } else { rows.checked_add(1) == Some(pointers) };
        if is_consistent {
            return Ok(());
        }
        Err(self.error(format!("a csr array of {rows} rows has {pointers} row pointers")))
    }

    /// Reads a sparse array after its storage type.
    fn sparse(&mut self, storage_type: StorageType) -> Result<Option<Array>> {
        // Arrays without stored values have a dimension of 0 in all versions of the format.
        let stored = self.shape()?;
        let Some(shape) = self.shape()? else { return Ok(None) };
        let _device = (self.i32()?, self.i32()?);
        let dtype = self.dtype()?;
        let parts: Vec<(DType, Option<Shape>)> =
            (0..storage_type.num_aux()).map(|_| Ok((self.dtype()?, self.shape()?))).collect::<Result<_>>()?;
        let non_empty = |s: &Option<Shape>| s.clone().filter(|s| !s.dims().is_empty());
        if storage_type == StorageType::Csr {
            self.check_rows(&shape, parts.first().and_then(|(_, pointers)| non_empty(pointers)))?;
        }
        let empty = SparseArray::zeros(storage_type, &shape, dtype, Context::default());
        let array = empty.map_err(|e| self.error(e.to_string()))?;
        let Some(stored) = non_empty(&stored) else { return Ok(Some(array.into())) };
        let values = self.elements(&stored, dtype)?;
        array.set_values(&values).map_err(|e| self.error(e.to_string()))?;
        for (i, (dtype, shape)) in parts.iter().enumerate() {
            let shape = non_empty(shape).unwrap_or_else(|| Shape::new(&[0]));
            let indices = self.elements(&shape, *dtype)?;
            // A csr array that stores nothing may lack its row pointers.
            if !indices.is_empty() {
                array.set_indices(i, &indices).map_err(|e| self.error(e.to_string()))?;
            }
        }
        array.check_format(FormatCheck::Full).map_err(|e| self.error(e.to_string()))?;
        Ok(Some(array.into()))
    }
}

/// The arrays of a file and their names: one name per array, or none.
pub struct Loaded {
    /// The arrays, on `cpu(0)`; `None` for placeholders without shape.
    pub arrays: Vec<Option<Array>>,
    /// The names, such as `arg:fc1_weight`.
    pub names: Vec<String>,
}

/// Reads a `.params` file from memory; `name` names it in errors.
///
/// # Errors
/// The bytes are not a `.params` file, or they are truncated.
pub fn from_bytes(bytes: &[u8], name: &str) -> Result<Loaded> {
    read_file(&mut Reader::new(&mut Cursor::new(bytes), bytes.len() as u64, name))
}

fn read_file(r: &mut Reader<'_>) -> Result<Loaded> {
    let magic = r.u64()?;
    if magic != FILE_MAGIC {
        return Err(r.error(format!("it begins with {magic:#x} instead of {FILE_MAGIC:#x}")));
    }
    r.u64()?;
    let n = r.count(4, "arrays")?;
    let mut arrays = memory::with_capacity(n);
    for _ in 0..n {
        memory::check()?;
        arrays.push(r.ndarray()?);
    }
    let n = r.count(8, "names")?;
    let mut names = memory::with_capacity(n);
    for _ in 0..n {
        memory::check()?;
        let len = r.count(1, "bytes of a name")?;
        let mut name = memory::filled(0, len);
        r.read(&mut name)?;
        names.push(String::from_utf8(name).map_err(|_| r.error("a name is not UTF-8".into()))?);
    }
    if !names.is_empty() && names.len() != arrays.len() {
        return Err(r.error(format!("it has {} names for {} arrays", names.len(), arrays.len())));
    }
    Ok(Loaded { arrays, names })
}

/// Reads a `.params` file.
///
/// # Errors
/// An I/O error; see also [`from_bytes`].
pub fn load(path: &str) -> Result<Loaded> {
    let error = |e: std::io::Error| Error::io(path, &e);
    let mut file = File::open(path).map_err(error)?;
    let metadata = file.metadata().map_err(error)?;
    if metadata.is_file() {
        return read_file(&mut Reader::new(&mut BufReader::new(file), metadata.len(), path));
    }
    // The size of a pipe is unknown until its end.
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(error)?;
    from_bytes(&bytes, path)
}

/// Like [`load`], but large arrays share the memory of the mapped file; see [`Chunk::mapped`] for what the caller guarantees.
///
/// # Errors
/// As for [`load`].
pub fn load_mapped(path: &str) -> Result<Loaded> {
    let error = |e: std::io::Error| Error::io(path, &e);
    let file = File::open(path).map_err(error)?;
    let metadata = file.metadata().map_err(error)?;
    if !metadata.is_file() || metadata.len() < MIN_MAPPED_BYTES as u64 {
        return load(path);
    }
    let map = Chunk::mapped(&file, Context::default()).map_err(error)?;
    let len = metadata.len().min(map.bytes() as u64);
    read_file(&mut Reader { map: Some(map), ..Reader::new(&mut BufReader::new(file), len, path) })
}

fn put_shape(out: &mut Vec<u8>, shape: &Shape) {
    out.extend((shape.dims().len() as i32).to_le_bytes());
    shape.dims().iter().for_each(|d| out.extend(d.to_le_bytes()));
}

fn put_context_and_type(out: &mut Vec<u8>, context: Context, dtype: DType) {
    out.extend((context.device_type as i32).to_le_bytes());
    out.extend(context.device_id.to_le_bytes());
    out.extend(dtype.code().to_le_bytes());
}

/// An array to be written: its header, and the arrays whose elements follow it.
struct Serialized {
    header: Vec<u8>,
    elements: Vec<NDArray>,
}

impl Serialized {
    /// # Errors
    /// A sparse array with inconsistent components.
    fn of(array: &Array) -> Result<Serialized> {
        let mut out = Vec::new();
        // MXNet loads an array only with the shape semantics with which it was saved. The older format cannot store an array without axes.
        let has_numpy_shape = is_numpy_shape() && array.storage_type() == StorageType::Default;
        let magic = if has_numpy_shape || array.shape().dims().is_empty() { MAGIC_V3 } else { MAGIC_V2 };
        out.extend(magic.to_le_bytes());
        out.extend((array.storage_type() as i32).to_le_bytes());
        let elements = match array {
            Array::Dense(a) => {
                put_shape(&mut out, a.shape());
                put_context_and_type(&mut out, a.context(), a.dtype());
                vec![a.clone()]
            }
            Array::Sparse(a) => {
                let data = a.components()?.data;
                let indices = a.stored_indices();
                put_shape(&mut out, data.shape());
                put_shape(&mut out, a.shape());
                put_context_and_type(&mut out, a.context(), a.dtype());
                for component in &indices {
                    out.extend(component.dtype().code().to_le_bytes());
                    put_shape(&mut out, component.shape());
                }
                [data].into_iter().chain(indices).collect()
            }
        };
        Ok(Serialized { header: out, elements })
    }

    fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        out.write_all(&self.header)?;
        self.elements.iter().try_for_each(|elements| storage::read_bytes(elements, |bytes| out.write_all(bytes)))
    }
}

/// Serializes one array.
///
/// # Errors
/// A sparse array with inconsistent components.
pub fn array_to_bytes(array: &Array) -> Result<Vec<u8>> {
    let Serialized { header: mut out, elements } = Serialized::of(array)?;
    for part in &elements {
        storage::read_bytes(part, |bytes| {
            memory::reserve(&mut out, bytes.len());
            out.extend_from_slice(bytes);
        });
    }
    Ok(out)
}

/// Deserializes one array.
///
/// # Errors
/// The bytes are not an array, or they are truncated; the array is a placeholder without shape.
pub fn array_from_bytes(bytes: &[u8]) -> Result<Array> {
    Reader::new(&mut Cursor::new(bytes), bytes.len() as u64, "the buffer")
        .ndarray()?
        .ok_or_else(|| Error::Format("the buffer contains an empty array".into()))
}

/// Writes arrays to a file, with one name per array or no names; see [`write_atomically`].
///
/// # Errors
/// An I/O error; a number of names that is neither zero nor that of the arrays; a sparse array with inconsistent components.
pub fn save(path: &str, arrays: &[Array], names: &[String]) -> Result<()> {
    crate::ensure!(
        names.is_empty() || names.len() == arrays.len(),
        "{} names were given for {} arrays: give one name per array, or none",
        names.len(),
        arrays.len()
    );
    let mut contents = memory::with_capacity(arrays.len());
    for array in arrays {
        contents.push(Serialized::of(array)?);
    }
    write_atomically(path, |file| {
        file.write_all(&FILE_MAGIC.to_le_bytes())?;
        file.write_all(&0u64.to_le_bytes())?;
        file.write_all(&(arrays.len() as u64).to_le_bytes())?;
        for content in &contents {
            content.write(file)?;
        }
        file.write_all(&(names.len() as u64).to_le_bytes())?;
        for name in names {
            file.write_all(&(name.len() as u64).to_le_bytes())?;
            file.write_all(name.as_bytes())?;
        }
        Ok(())
    })
}

/// Writes to a temporary file in the same folder and renames it, so that an interrupted save leaves the old file unchanged.
///
/// # Errors
/// An I/O error.
pub fn write_atomically(path: &str, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
    let temporary = format!("{path}.{}.tmp", std::process::id());
    let write_and_rename = || -> std::io::Result<()> {
        let mut file = std::io::BufWriter::new(fs::File::create(&temporary)?);
        write(&mut file)?;
        file.into_inner().map_err(|e| e.into_error())?.sync_all()?;
        fs::rename(&temporary, Path::new(path))
    };
    write_and_rename().map_err(|e| {
        let _ = fs::remove_file(&temporary);
        Error::io(path, &e)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(arrays: &[NDArray], names: &[String]) -> Vec<u8> {
        file_of(&arrays.iter().cloned().map(Array::Dense).collect::<Vec<_>>(), names)
    }

    fn file_of(arrays: &[Array], names: &[String]) -> Vec<u8> {
        saved(arrays, names, |path| fs::read(path).unwrap())
    }

    /// Saves arrays and runs `f` on the path of the file.
    fn saved<R>(arrays: &[Array], names: &[String], f: impl FnOnce(&str) -> R) -> R {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("arrays.params");
        let path = path.to_string_lossy();
        save(&path, arrays, names).unwrap();
        f(&path)
    }

    #[test]
    fn arrays_of_every_type_round_trip() {
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
            assert_eq!(array_to_bytes(&a.clone().into()), array_to_bytes(b.as_ref().unwrap()));
        }
    }

    #[test]
    fn shape_semantics_choose_the_format_of_an_array() {
        let magic = |dims: &[i64]| {
            let array = NDArray::zeros(&Shape::new(dims), DType::F32, Context::default()).unwrap();
            u32::from_le_bytes(array_to_bytes(&array.into()).unwrap()[..4].try_into().unwrap())
        };
        assert_eq!([magic(&[2]), magic(&[0, 2]), magic(&[])], [MAGIC_V2, MAGIC_V2, MAGIC_V3]);
        crate::semantics::set_numpy_shape_code(1).unwrap();
        assert_eq!([magic(&[2]), magic(&[0, 2]), magic(&[])], [MAGIC_V3; 3]);
        crate::semantics::set_numpy_shape_code(0).unwrap();
    }

    #[test]
    fn files_are_read_like_bytes() {
        let numbers: Vec<f32> = (0..100_000).map(|i| i as f32).collect();
        let arrays = [
            NDArray::from_slice(&[7u8], &[1]).unwrap().into(),
            NDArray::from_slice(&numbers, &[100_000]).unwrap().into(),
        ];
        let back = saved(&arrays, &["a".into(), "b".into()], |path| {
            let back = load(path).unwrap();
            fs::OpenOptions::new().write(true).open(path).unwrap().set_len(400_000).unwrap();
            let message = load(path).err().unwrap().to_string();
            assert!(message.contains("it ends after 400000 bytes"), "{message}");
            back
        });
        assert_eq!(back.names, ["a", "b"]);
        for (a, b) in arrays.iter().zip(&back.arrays) {
            assert_eq!(array_to_bytes(a), array_to_bytes(b.as_ref().unwrap()));
        }
        assert!(matches!(load("/no/such/file"), Err(Error::Io { .. })));
        let message = load("/dev/null").err().unwrap().to_string();
        assert!(message.contains("it ends after 0 bytes"), "{message}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not map files")]
    fn mapped_arrays_are_those_of_the_file_if_they_are_aligned() {
        const LEN: i64 = 20_000;
        let numbers: Vec<f32> = (0..LEN).map(|i| i as f32).collect();
        let integers: Vec<i64> = (0..LEN).collect();
        let arrays = [
            NDArray::from_slice(&numbers, &[LEN]).unwrap(),
            NDArray::from_slice(&[1u8], &[1]).unwrap(),
            NDArray::from_slice(&numbers, &[LEN]).unwrap(),
            NDArray::from_slice(&integers, &[LEN]).unwrap(),
            NDArray::from_slice(&[true; 70_000], &[70_000]).unwrap(),
        ];
        let all = arrays.clone().map(Array::Dense);
        saved(&all, &[], |path| {
            let back = load_mapped(path).unwrap();
            // Arrays keep the file.
            fs::remove_file(path).unwrap();
            let back: Vec<NDArray> = back.arrays.iter().map(|a| a.as_ref().unwrap().dense().unwrap().clone()).collect();
            for (a, b) in arrays.iter().zip(&back) {
                assert_eq!(array_to_bytes(&a.clone().into()), array_to_bytes(&b.clone().into()));
            }
            let is_mapped = |a: &NDArray| Arc::ptr_eq(a.chunk(), back[0].chunk());
            // After the array of one byte, no array is aligned.
            assert_eq!(back.iter().map(is_mapped).collect::<Vec<_>>(), [true, false, false, false, false]);
            back[0].copy_from_slice(&numbers).unwrap();
        });
        let two = [arrays[0].clone().into(), arrays[2].clone().into()];
        saved(&two, &[], |path| {
            let file = load_mapped(path).unwrap();
            let chunk = |i: usize| file.arrays[i].as_ref().unwrap().dense().unwrap().chunk().clone();
            assert!(Arc::ptr_eq(&chunk(0), &chunk(1)));
            drop(file);
            fs::OpenOptions::new().write(true).open(path).unwrap().set_len(100_000).unwrap();
            assert!(load_mapped(path).err().unwrap().to_string().contains("it ends after 100000 bytes"));
            fs::write(path, [1, 2, 3]).unwrap();
            assert!(load_mapped(path).err().unwrap().to_string().contains("it ends after 3 bytes"));
        });
        assert!(matches!(load_mapped("/no/such/file"), Err(Error::Io { .. })));
    }

    #[test]
    fn row_counts_without_row_pointers_do_not_allocate() {
        let array = SparseArray::zeros(StorageType::Csr, &Shape::new(&[2, 3]), DType::F32, Context::default()).unwrap();
        let mut bytes = file_of(&[array.into()], &[]);
        assert!(from_bytes(&bytes, "test").is_ok());
        let shape: Vec<u8> = [2i64, 3].iter().flat_map(|n| n.to_le_bytes()).collect();
        let offset = bytes.windows(16).position(|part| part == shape).unwrap();
        bytes[offset..offset + 8].copy_from_slice(&(1i64 << 40).to_le_bytes());
        let message = from_bytes(&bytes, "test").err().unwrap().to_string();
        assert!(message.contains("1099511627776 rows"), "{message}");
    }

    #[test]
    fn sparse_arrays_round_trip_and_corrupt_ones_are_errors() {
        let (indptr, indices) = (NDArray::from_slice(&[0i64, 1, 3], &[3]), NDArray::from_slice(&[2i64, 0, 1], &[3]));
        let values = NDArray::from_slice(&[1f32, 2.0, 3.0], &[3]).unwrap();
        let shape = Shape::new(&[2, 3]);
        let arrays: Vec<Array> = vec![
            SparseArray::csr(&shape, values, indptr.unwrap(), indices.unwrap()).unwrap().into(),
            SparseArray::zeros(StorageType::Csr, &shape, DType::F64, Context::default()).unwrap().into(),
            SparseArray::zeros(StorageType::RowSparse, &shape, DType::F16, Context::default()).unwrap().into(),
        ];
        let bytes = file_of(&arrays, &[]);
        let back = from_bytes(&bytes, "test").unwrap();
        for (a, b) in arrays.iter().zip(&back.arrays) {
            assert_eq!(array_to_bytes(a), array_to_bytes(b.as_ref().unwrap()));
        }
        // Miri takes a second per file.
        for n in (0..bytes.len()).step_by(if cfg!(miri) { 101 } else { 1 }) {
            assert!(from_bytes(&bytes[..n], "test").is_err(), "{n} bytes");
        }
        let mut wrong = bytes;
        let column = wrong.windows(8).position(|w| w == 3i64.to_le_bytes()).unwrap();
        wrong[column] = 1;
        assert!(from_bytes(&wrong, "test").is_err());
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
        assert!(
            from_bytes(&bytes, "test").map(|_| ()).unwrap_err().to_string().contains("more than the file can hold")
        );
        let mut bytes = file(&[NDArray::from_slice(&[1f32], &[1]).unwrap()], &[]);
        bytes[36..44].copy_from_slice(&i64::MAX.to_le_bytes());
        assert!(from_bytes(&bytes, "test").is_err());
    }
}
