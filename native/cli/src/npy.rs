//! NumPy's `.npy` files.

use std::path::Path;

use ferromx_interop::ir::{ElementType, WidenedInt};
use ferromx_runtime::context::Context;
use ferromx_runtime::dtype::DType;
use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::file_format::write_atomically;
use ferromx_runtime::ndarray::NDArray;
use ferromx_runtime::shape::Shape;
use ferromx_runtime::storage;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Element types by their descriptions in the header.
const TYPES: [(&str, DType); 9] = [
    ("<f4", DType::F32),
    ("<f8", DType::F64),
    ("<f2", DType::F16),
    ("|u1", DType::U8),
    ("|i1", DType::I8),
    ("<i4", DType::I32),
    ("<i8", DType::I64),
    ("|b1", DType::Bool),
    ("bfloat16", DType::BF16),
];

/// Integer types that are widened when read, by their descriptions in the header.
const WIDENED: [(&str, WidenedInt); 4] =
    [("<u2", WidenedInt::U16), ("<i2", WidenedInt::I16), ("<u4", WidenedInt::U32), ("<u8", WidenedInt::U64)];

/// Reads an array. Integers of a type that arrays do not support are widened.
///
/// # Errors
/// The file cannot be read, is not a `.npy` file, or has an unsupported type or memory order.
pub(crate) fn read(path: &Path) -> Result<NDArray> {
    let bytes = std::fs::read(path).map_err(|e| Error::io(path.display(), &e))?;
    parse(&bytes).map_err(|e| Error::Format(format!("{}: {e}", path.display())))
}

fn parse(bytes: &[u8]) -> Result<NDArray> {
    let error = |what: &str| Error::Format(format!("not a valid .npy file: {what}"));
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| error("it begins with other bytes"))?;
    let (length, skip) = match rest {
        [1, _, a, b, ..] => (usize::from(u16::from_le_bytes([*a, *b])), 4),
        [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 6),
        _ => return Err(error("its version is unknown")),
    };
    let header = rest.get(skip..).and_then(|r| r.get(..length)).ok_or_else(|| error("its header is cut off"))?;
    let data = &rest[skip + length..];
    let header = std::str::from_utf8(header).map_err(|_| error("its header is not text"))?;
    let after = |key: &str| header.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
    let descr =
        after("descr").and_then(|r| r.strip_prefix('\'')?.split('\'').next()).ok_or_else(|| error("it has no type"))?;
    if after("fortran_order").is_some_and(|r| r.starts_with("True")) {
        return Err(error("its elements are in column order; save it with numpy.ascontiguousarray"));
    }
    let dims =
        after("shape").and_then(|r| r.strip_prefix('(')?.split(')').next()).ok_or_else(|| error("it has no shape"))?;
    let shape: Shape = format!("({dims})").parse().map_err(|e: String| error(&e))?;
    let widened = WIDENED.iter().find(|(name, _)| *name == descr).map(|(_, int)| *int);
    let supported = TYPES.iter().find(|(name, _)| *name == descr).map(|(_, dtype)| *dtype);
    let dtype = widened.map(WidenedInt::storage_dtype).or(supported).ok_or_else(|| {
        let known: Vec<_> = TYPES.iter().map(|(name, _)| *name).chain(WIDENED.iter().map(|(name, _)| *name)).collect();
        Error::Format(format!("elements of type '{descr}' are not supported; use {}", known.join(", ")))
    })?;
    let count = shape.checked_elements()?;
    let size = widened.map_or(dtype.size(), WidenedInt::size);
    if count.checked_mul(size) != Some(data.len()) {
        return Err(error("it has more or fewer elements than its shape says"));
    }
    if dtype == DType::Bool && data.iter().any(|b| *b > 1) {
        return Err(error("elements of type bool must be 0 or 1"));
    }
    let array = NDArray::empty(&shape, dtype, Context::default())?;
    match widened {
        Some(int) => storage::write_bytes(&array, |to| to.copy_from_slice(&int.widen(data))),
        None => storage::write_bytes(&array, |to| to.copy_from_slice(data)),
    }
    Ok(array)
}

/// Writes an array. If `element` is an integer type that the array stores widened, the elements are narrowed to it. NumPy has no
/// bfloat16, so such arrays are written as float32.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(path: &Path, array: &NDArray, element: Option<&ElementType>) -> Result<()> {
    if array.dtype() == DType::BF16 {
        let converted = NDArray::empty(array.shape(), DType::F32, Context::default())?;
        converted.copy_from_slice(&array.to_vec_as::<f32>()?)?;
        return write(path, &converted, None);
    }
    let widened = match element {
        Some(ElementType::Widened(int)) => Some(*int).filter(|int| int.storage_dtype() == array.dtype()),
        _ => None,
    };
    let descr = match widened {
        Some(int) => WIDENED.iter().find(|(_, known)| *known == int).map_or("", |(name, _)| name),
        None => TYPES.iter().find(|(_, d)| *d == array.dtype()).map_or("", |(name, _)| name),
    };
    let dims: String = array.shape().dims().iter().map(|d| format!("{d}, ")).collect();
    let dims = if array.shape().dims().len() == 1 { dims.trim_end() } else { dims.trim_end_matches(", ") };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}");
    // The format aligns the elements to 64 bytes.
    let unpadded = MAGIC.len() + 4 + header.len() + 1;
    header.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(64) - unpadded));
    header.push('\n');
    write_atomically(&path.display().to_string(), |file| {
        file.write_all(MAGIC)?;
        file.write_all(&[1, 0])?;
        file.write_all(&(header.len() as u16).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        storage::read_bytes(array, |bytes| match widened {
            Some(int) => file.write_all(&int.narrow(bytes)),
            None => file.write_all(bytes),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        for array in [
            NDArray::from_slice(&[1.5f32, -2.0, 3.0, 4.0], &[2, 2]).unwrap(),
            NDArray::from_slice(&[7i64], &[]).unwrap(),
            NDArray::from_slice::<u8>(&[], &[0, 3]).unwrap(),
            NDArray::from_slice(&[true, false], &[2]).unwrap(),
        ] {
            write(&path, &array, None).unwrap();
            let back = read(&path).unwrap();
            assert_eq!((back.shape(), back.dtype()), (array.shape(), array.dtype()));
            assert_eq!(storage::read_bytes(&back, <[u8]>::to_vec), storage::read_bytes(&array, <[u8]>::to_vec));
        }
        let ints = NDArray::from_slice(&[1i32, 0xffff, 0x18000], &[3]).unwrap();
        for (int, want) in [(WidenedInt::U16, [1, 0xffff, 0x8000]), (WidenedInt::I16, [1, -1, -0x8000])] {
            write(&path, &ints, Some(&ElementType::Widened(int))).unwrap();
            assert_eq!(read(&path).unwrap().to_vec::<i32>().unwrap(), want);
        }
    }

    #[test]
    fn invalid_files_are_errors() {
        assert!(parse(b"PK").unwrap_err().to_string().contains("it begins with other bytes"));
        let header = |text: &str| [MAGIC, &[1, 0, text.len() as u8, 0], text.as_bytes()].concat();
        let e = parse(&header("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }")).unwrap_err().to_string();
        assert!(e.contains("type '<c8' are not supported"), "{e}");
        let e = parse(&header("{'descr': '<f4', 'fortran_order': False, 'shape': (9,), }")).unwrap_err().to_string();
        assert!(e.contains("more or fewer"), "{e}");
    }
}
