//! Variable files: a header of 128 bytes, then the elements.

use bytes::Bytes;
use ferromx_core::dtype::DType;

use crate::error::{Error, Result};
use crate::ir::{ElementType, Tensor};

/// The length of the header in bytes.
const HEADER_BYTES: usize = 128;
/// Maximum number of dimensions in the header.
const MAX_RANK: usize = 8;

/// Parses the file of a variable. The tensor shares its bytes.
///
/// # Errors
/// Bytes that are not a variable file, or whose number differs from the header.
pub fn parse(bytes: Bytes) -> Result<Tensor> {
    let bad = |what: String| Error::format(format!("not a valid NNEF tensor: {what}"));
    if bytes.len() < HEADER_BYTES || bytes[..2] != [0x4e, 0xef] {
        return Err(bad("it begins with other bytes".into()));
    }
    if bytes[2..4] != [1, 0] {
        return Err(bad(format!("version {}.{} is not supported, only 1.0", bytes[2], bytes[3])));
    }
    let word = |i: usize| u32::from_le_bytes(std::array::from_fn(|k| bytes[4 + 4 * i + k])) as usize;
    let (length, rank) = (word(0), word(1));
    if rank > MAX_RANK {
        return Err(bad(format!("it has {rank} dimensions, more than {MAX_RANK}")));
    }
    let dims: Vec<usize> = (0..rank).map(|k| word(2 + k)).collect();
    let (bits, kind) = (word(10), word(11));
    let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).filter(|n| n.checked_mul(bits).is_some());
    let count = count.ok_or_else(|| bad(format!("its shape {dims:?} is larger than memory")))?;
    if length != (count * bits).div_ceil(8) || bytes.len() != HEADER_BYTES + length {
        return Err(bad(format!("{count} elements of {bits} bits do not take {} bytes", bytes.len() - HEADER_BYTES)));
    }
    let data = bytes.slice(HEADER_BYTES..);
    let dtype = match (kind, bits) {
        (0, 16) => DType::F16,
        (0, 32) => DType::F32,
        (0, 64) => DType::F64,
        (1, 8) => DType::U8,
        (4, 8) => DType::I8,
        (4, 32) => DType::I32,
        (4, 64) => DType::I64,
        (5, 1) => {
            let bits = (0..count).map(|i| data[i / 8] >> (7 - i % 8) & 1);
            return Ok(Tensor::new(DType::Bool, dims, bits.collect::<Vec<u8>>().into()));
        }
        _ => {
            let name = match kind {
                0 => "float",
                1 => "uint",
                2 | 3 => "quantized int",
                4 => "int",
                _ => "unknown type",
            };
            return Ok(Tensor { element: ElementType::Unsupported(format!("{name}{bits}")), dims, data: Bytes::new() });
        }
    };
    Ok(Tensor::new(dtype, dims, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bits: u32, kind: u32, dims: &[u32], data: &[u8]) -> Vec<u8> {
        let mut words = vec![data.len() as u32, dims.len() as u32];
        words.extend(dims);
        words.resize(10, 0);
        words.extend([bits, kind]);
        words.resize(31, 0);
        [&[0x4e, 0xef, 1, 0][..], &words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>(), data].concat()
    }

    #[test]
    fn elements_are_read_after_the_header() {
        let t = parse(file(32, 0, &[1, 2], &[0, 0, 128, 63, 0, 0, 0, 64]).into()).unwrap();
        assert_eq!((t.dims.as_slice(), t.to_array().unwrap().to_vec::<f32>().unwrap()), (&[1, 2][..], vec![1.0, 2.0]));
        let t = parse(file(1, 5, &[3], &[0b1010_0000]).into()).unwrap();
        assert_eq!(t.data.as_ref(), [1, 0, 1]);
        let t = parse(file(16, 4, &[1], &[0, 0]).into()).unwrap();
        assert!(t.to_array().unwrap_err().to_string().contains("element type int16"));
    }

    #[test]
    fn files_with_an_invalid_header_are_errors() {
        let error = |bytes: Vec<u8>| parse(bytes.into()).unwrap_err().to_string();
        assert!(error(vec![0; 200]).contains("it begins with other bytes"));
        assert!(error(file(32, 0, &[3], &[0; 8])).contains("3 elements of 32 bits do not take 8 bytes"));
        assert!(error(file(32, 0, &[u32::MAX, u32::MAX, u32::MAX], &[])).contains("larger than memory"));
        let mut deep = file(32, 0, &[], &[0; 4]);
        deep[8] = 9;
        assert!(error(deep).contains("9 dimensions"));
    }
}
