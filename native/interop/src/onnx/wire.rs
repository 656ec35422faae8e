//! Checks the number and nesting of a file's messages before they are decoded. A message of a few encoded bytes can take hundreds of bytes
//! of memory, so that the file size does not bound the memory for it.

use crate::error::{Error, Result};

/// Maximum nesting depth of messages; deeper files are rejected.
const MAX_DEPTH: usize = 64;
/// Maximum number of messages in one file: nodes, attributes, tensors, dimensions.
const MAX_MESSAGES: usize = 8_000_000;
/// Maximum number of elements in packed lists, which take up to eight times their encoded size in memory.
const MAX_NUMBERS: usize = 256 << 20;

/// The kinds of messages and other length-delimited fields.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Model,
    Graph,
    Function,
    Node,
    Attribute,
    Tensor,
    Sparse,
    Value,
    Type,
    TensorType,
    Shape,
    /// A message without nested messages.
    Leaf,
    /// A packed list of numbers.
    Numbers,
    /// Text or raw bytes.
    Bytes,
}

/// The kind of a length-delimited field of a message, by its number in `onnx.proto`.
fn field(kind: Kind, tag: u64) -> Kind {
    use Kind::*;
    match (kind, tag) {
        (Model, 7) | (Attribute, 6 | 11) => Graph,
        (Model, 25) => Function,
        (Graph, 1) | (Function, 7) => Node,
        (Graph, 5) | (Attribute, 5 | 10) | (Sparse, 1 | 2) => Tensor,
        (Graph, 11..=13) | (Function, 12) => Value,
        (Graph, 15) | (Attribute, 22 | 23) => Sparse,
        (Node, 5) | (Function, 11) => Attribute,
        (Value, 2) | (Attribute, 14 | 15) => Type,
        (Type, 1) => TensorType,
        (TensorType, 2) => Shape,
        (Model, 8 | 14) | (Function, 9) | (Shape, 1) | (Tensor, 13) | (Type, 4 | 5 | 8 | 9) => Leaf,
        (Attribute, 7 | 8) | (Tensor, 1 | 4 | 5 | 7 | 10 | 11) | (Sparse, 3) => Numbers,
        _ => Bytes,
    }
}

/// Counts what decoding a file would create.
struct Scan {
    num_messages: usize,
    num_numbers: usize,
}

/// Checks that the bytes are a well-formed message within the limits of depth and number.
///
/// # Errors
/// A truncated file, one that is not a protocol buffer, or one that exceeds the limits.
pub(super) fn check(bytes: &[u8]) -> Result<()> {
    Scan { num_messages: 0, num_numbers: 0 }.message(bytes, Kind::Model, 0)
}

fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let Some((byte, rest)) = bytes.split_first() else { return Err(truncated()) };
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Error::format("this is not an ONNX file: a number has more than ten bytes"))
}

fn truncated() -> Error {
    Error::format("this is not an ONNX file, or only the beginning of one: it ends in the middle of a field")
}

fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Result<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(n).ok_or_else(truncated)?;
    *bytes = rest;
    Ok(head)
}

impl Scan {
    fn message(&mut self, mut bytes: &[u8], kind: Kind, depth: usize) -> Result<()> {
        self.num_messages += 1;
        if self.num_messages > MAX_MESSAGES {
            return Err(Error::format(format!("the file has more than {MAX_MESSAGES} nodes, attributes and tensors")));
        }
        if depth > MAX_DEPTH {
            return Err(Error::format(format!("the file nests graphs and attributes deeper than {MAX_DEPTH}")));
        }
        while !bytes.is_empty() {
            let key = varint(&mut bytes)?;
            match key & 7 {
                0 => {
                    varint(&mut bytes)?;
                    self.count_numbers(1)?;
                }
                1 => {
                    take(&mut bytes, 8)?;
                    self.count_numbers(1)?;
                }
                5 => {
                    take(&mut bytes, 4)?;
                    self.count_numbers(1)?;
                }
                2 => {
                    let n = usize::try_from(varint(&mut bytes)?).map_err(|_| truncated())?;
                    let part = take(&mut bytes, n)?;
                    match field(kind, key >> 3) {
                        // Even an empty string takes memory.
                        Kind::Bytes => self.count_numbers(3)?,
                        Kind::Numbers => self.count_numbers(n)?,
                        inner => self.message(part, inner, depth + 1)?,
                    }
                }
                wire => {
                    return Err(Error::format(format!(
                        "this is not an ONNX file: a field has the unknown wire type {wire}"
                    )));
                }
            }
        }
        Ok(())
    }

    fn count_numbers(&mut self, n: usize) -> Result<()> {
        self.num_numbers = self.num_numbers.saturating_add(n);
        if self.num_numbers > MAX_NUMBERS {
            return Err(Error::format(format!(
                "the file has more than {MAX_NUMBERS} numbers outside raw data: save its tensors as raw_data"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_truncated_or_not_onnx_are_errors() {
        assert!(check(b"\x08\x07").is_ok());
        assert!(check(b"\x3a\x05\x0a").unwrap_err().to_string().contains("ends in the middle"));
        assert!(check(b"\x0f").unwrap_err().to_string().contains("wire type 7"));
        assert!(check(&[0xff; 11]).unwrap_err().to_string().contains("more than ten bytes"));
    }

    #[test]
    fn deeply_nested_graphs_are_errors() {
        // A graph with nested graph attributes.
        let mut bytes = vec![];
        for _ in 0..40 {
            for tag in [6u8, 5, 1] {
                let mut outer = vec![(tag << 3) | 2];
                let mut n = bytes.len();
                while n >= 0x80 {
                    outer.push((n as u8 & 0x7f) | 0x80);
                    n >>= 7;
                }
                outer.push(n as u8);
                outer.extend(&bytes);
                bytes = outer;
            }
        }
        let mut model = vec![(7 << 3) | 2, (bytes.len() & 0x7f) as u8 | 0x80, (bytes.len() >> 7) as u8];
        model.extend(&bytes);
        assert!(check(&model).unwrap_err().to_string().contains("deeper than 64"));
    }
}
