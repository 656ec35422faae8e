//! RecordIO: a container of binary records, the format of packed data sets.
//!
//! A record is a sequence of parts: the magic number, a word with kind (3 bits) and length (29 bits), and the payload, padded with
//! zeros to a multiple of four bytes. A payload that contains the magic number at a multiple of four bytes is split there, and the number
//! is omitted, so that a reader can find the start of a record from any offset.

use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};

use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};

/// The magic number that every part begins with.
const MAGIC: [u8; 4] = 0xCED7_230A_u32.to_le_bytes();
/// Records are shorter than this many bytes.
const MAX_LENGTH: usize = 1 << 29;

/// The position of a part in its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Whole = 0,
    First = 1,
    Middle = 2,
    Last = 3,
}

/// Writes records to a file.
pub struct Writer {
    file: BufWriter<File>,
    path: String,
    position: u64,
}

impl Writer {
    /// Creates a file, or truncates an existing one.
    ///
    /// # Errors
    /// I/O errors.
    pub fn create(path: &str) -> Result<Writer> {
        let file = File::create(path).map_err(|e| Error::io(path, &e))?;
        Ok(Writer { file: BufWriter::new(file), path: path.into(), position: 0 })
    }

    /// Appends a record.
    ///
    /// # Errors
    /// A record of 2^29 bytes or more; I/O errors.
    pub fn write(&mut self, record: &[u8]) -> Result<()> {
        ensure!(
            record.len() < MAX_LENGTH,
            "cannot write a record of {} bytes to {}: records must be shorter than {MAX_LENGTH} bytes",
            record.len(),
            self.path
        );
        let mut start = 0;
        for (i, word) in record.chunks_exact(4).enumerate() {
            if word == MAGIC {
                let kind = if start == 0 { Kind::First } else { Kind::Middle };
                self.write_part(kind, &record[start..4 * i])?;
                start = 4 * i + 4;
            }
        }
        self.write_part(if start == 0 { Kind::Whole } else { Kind::Last }, &record[start..])
    }

    fn write_part(&mut self, kind: Kind, bytes: &[u8]) -> Result<()> {
        let header = (kind as u32) << 29 | bytes.len() as u32;
        let padding = &[0; 3][..bytes.len().next_multiple_of(4) - bytes.len()];
        for field in [&MAGIC, &header.to_le_bytes(), bytes, padding] {
            self.file.write_all(field).map_err(|e| Error::io(&self.path, &e))?;
            self.position += field.len() as u64;
        }
        Ok(())
    }

    /// Byte offset of the next record.
    pub fn tell(&self) -> u64 {
        self.position
    }

    /// Flushes the buffer to the operating system.
    ///
    /// # Errors
    /// I/O errors.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(|e| Error::io(&self.path, &e))
    }
}

/// Reads records from a file.
pub struct Reader {
    file: BufReader<File>,
    path: String,
    position: u64,
}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// I/O errors.
    pub fn open(path: &str) -> Result<Reader> {
        let file = File::open(path).map_err(|e| Error::io(path, &e))?;
        Ok(Reader { file: BufReader::with_capacity(1 << 16, file), path: path.into(), position: 0 })
    }

    /// The next record; `None` at the end of the file.
    ///
    /// # Errors
    /// A damaged file; I/O errors.
    pub fn read(&mut self) -> Result<Option<Vec<u8>>> {
        let Some((kind, length)) = self.read_header()? else { return Ok(None) };
        let mut record = Vec::new();
        self.read_payload(length, &mut record)?;
        if kind == Kind::First {
            loop {
                let (kind, length) = self.next_part()?;
                record.extend(MAGIC);
                self.read_payload(length, &mut record)?;
                if kind == Kind::Last {
                    break;
                }
            }
        }
        Ok(Some(record))
    }

    /// Skips the next record and returns its byte offset; `None` at the end of the file.
    ///
    /// # Errors
    /// As for [`Reader::read`].
    pub fn skip(&mut self) -> Result<Option<u64>> {
        let start = self.position;
        let Some((mut kind, mut length)) = self.read_header()? else { return Ok(None) };
        // As in `read`, a middle or last part that does not follow a first one is a separate record.
        let is_whole = kind != Kind::First;
        loop {
            let padded = length.next_multiple_of(4);
            self.file.seek_relative(padded as i64).map_err(|e| Error::io(&self.path, &e))?;
            self.position += padded as u64;
            if is_whole || kind == Kind::Last {
                return Ok(Some(start));
            }
            (kind, length) = self.next_part()?;
        }
    }

    /// Reads the header of a part that continues a record.
    fn next_part(&mut self) -> Result<(Kind, usize)> {
        let offset = self.position;
        match self.read_header()? {
            Some((kind @ (Kind::Middle | Kind::Last), length)) => Ok((kind, length)),
            Some(_) => Err(self.damaged(offset, "a new record begins before the previous one ends")),
            None => Err(self.damaged(offset, "it ends in the middle of a record")),
        }
    }

    /// Reads kind and length of the part at the current position; `None` at the end of the file.
    fn read_header(&mut self) -> Result<Option<(Kind, usize)>> {
        let offset = self.position;
        let mut header = [0; 8];
        match self.fill(&mut header)? {
            0 => return Ok(None),
            8 => {}
            _ => return Err(self.damaged(offset, "it ends in the middle of a record's header")),
        }
        if header[..4] != MAGIC {
            return Err(self.damaged(offset, "no record begins there"));
        }
        let number = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let kind = match number >> 29 {
            0 => Kind::Whole,
            1 => Kind::First,
            2 => Kind::Middle,
            3 => Kind::Last,
            other => return Err(self.damaged(offset, &format!("the part kind {other} is unknown"))),
        };
        Ok(Some((kind, number as usize & (MAX_LENGTH - 1))))
    }

    /// Appends the payload of a part to a record. Memory grows with the bytes that are read, not with the announced length.
    fn read_payload(&mut self, length: usize, record: &mut Vec<u8>) -> Result<()> {
        let (offset, before) = (self.position, record.len());
        let padded = length.next_multiple_of(4) as u64;
        let read = (&mut self.file).take(padded).read_to_end(record).map_err(|e| Error::io(&self.path, &e))?;
        self.position += read as u64;
        if (read as u64) < padded {
            return Err(self.damaged(offset, &format!("the header gives {padded} bytes, but {read} follow")));
        }
        record.truncate(before + length);
        Ok(())
    }

    /// Reads until `buffer` is full or the file ends; returns the number of bytes read.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io(&self.path, &e)),
            }
        }
        self.position += filled as u64;
        Ok(filled)
    }

    fn damaged(&self, offset: u64, reason: &str) -> Error {
        Error::Format(format!("{} is not a RecordIO file or is damaged: at byte {offset}, {reason}", self.path))
    }

    /// Byte offset of the next record.
    pub fn tell(&self) -> u64 {
        self.position
    }

    /// Seeks to the record at a byte offset.
    ///
    /// # Errors
    /// I/O errors.
    pub fn seek(&mut self, position: u64) -> Result<()> {
        self.file.seek(SeekFrom::Start(position)).map_err(|e| Error::io(&self.path, &e))?;
        self.position = position;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_file::TestFile;
    use super::*;

    fn records() -> Vec<Vec<u8>> {
        let magic = MAGIC.to_vec();
        let join = |parts: &[&[u8]]| parts.concat();
        vec![
            vec![],
            b"abc".to_vec(),
            magic.clone(),
            join(&[b"1234", &magic, &magic, b"5"]),
            join(&[b"123", &magic]),
            join(&[&magic, &magic, &magic, b"ab"]),
            vec![7; 1001],
        ]
    }

    #[test]
    fn records_survive_a_round_trip() {
        let path = TestFile::new();
        let mut writer = Writer::create(&path).unwrap();
        let mut starts = Vec::new();
        for record in records() {
            starts.push(writer.tell());
            writer.write(&record).unwrap();
        }
        writer.flush().unwrap();
        let mut reader = Reader::open(&path).unwrap();
        for record in records() {
            assert_eq!(reader.read().unwrap().unwrap(), record);
        }
        assert_eq!((reader.read().unwrap(), reader.tell()), (None, writer.tell()));
        reader.seek(starts[3]).unwrap();
        assert_eq!(reader.read().unwrap().unwrap(), records()[3]);
        reader.seek(0).unwrap();
        let skipped: Vec<u64> = std::iter::from_fn(|| reader.skip().unwrap()).collect();
        assert_eq!(skipped, starts);
    }

    #[test]
    fn the_file_layout_matches_the_format() {
        let path = TestFile::new();
        let mut writer = Writer::create(&path).unwrap();
        writer.write(&[b"1234", &MAGIC[..], b"5"].concat()).unwrap();
        writer.flush().unwrap();
        let first = [&MAGIC[..], &[4, 0, 0, 0x20], b"1234"].concat();
        let last = [&MAGIC[..], &[1, 0, 0, 0x60], b"5\0\0\0"].concat();
        assert_eq!(std::fs::read(&*path).unwrap(), [first, last].concat());
    }

    #[test]
    fn damaged_files_are_errors() {
        let path = TestFile::new();
        let mut writer = Writer::create(&path).unwrap();
        writer.write(&[b"1234", &MAGIC[..], b"5678"].concat()).unwrap();
        writer.flush().unwrap();
        let whole = std::fs::read(&*path).unwrap();
        for length in 1..whole.len() {
            std::fs::write(&*path, &whole[..length]).unwrap();
            let e = Reader::open(&path).unwrap().read().unwrap_err().to_string();
            assert!(e.contains(&*path) && e.contains("damaged"), "{e}");
        }
        std::fs::write(&*path, b"something else").unwrap();
        let e = Reader::open(&path).unwrap().read().unwrap_err().to_string();
        assert!(e.contains("at byte 0, no record begins there"), "{e}");
        assert!(Reader::open("/no/such").is_err());
    }
}
