//! Records of packed images: their location in the files, their order and their content.

use std::collections::HashMap;
use std::fs;

use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::memory;
use ferromx_kernels::rng::Philox;

use crate::io::recordio::Reader;

/// Bytes of a record's header: number of labels, label, id, second id.
const HEADER_BYTES: usize = 24;

/// A record: an encoded image with its labels.
pub(super) struct Record {
    /// Identifier of the image.
    pub id: u64,
    pub labels: Vec<f32>,
    bytes: Vec<u8>,
    /// Offset of the encoded image in `bytes`.
    start: usize,
}

impl Record {
    fn new(bytes: Vec<u8>) -> Result<Record> {
        let too_short =
            || Error::Format(format!("a record of {} bytes is too short for its header and labels", bytes.len()));
        let header = bytes.get(..HEADER_BYTES).ok_or_else(too_short)?;
        let word = |i: usize| [header[i], header[i + 1], header[i + 2], header[i + 3]];
        let count = u32::from_le_bytes(word(0)) as usize;
        let id = u64::from(u32::from_le_bytes(word(8))) | u64::from(u32::from_le_bytes(word(12))) << 32;
        let (labels, start) = match count {
            0 => (vec![f32::from_le_bytes(word(4))], HEADER_BYTES),
            _ => {
                let end = count.checked_mul(4).and_then(|n| n.checked_add(HEADER_BYTES)).ok_or_else(too_short)?;
                let numbers = bytes.get(HEADER_BYTES..end).ok_or_else(too_short)?.chunks_exact(4);
                (memory::collected(numbers.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))), end)
            }
        };
        Ok(Record { id, labels, bytes, start })
    }

    /// The encoded image.
    pub(super) fn image(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// The records of one part of the data set.
pub(super) struct Records {
    files: Vec<String>,
    /// File index and byte offset of each record.
    locations: Vec<(u32, u64)>,
    /// The index of the file read last, and its reader.
    reader: Option<(u32, Reader)>,
    /// Labels by image id; if present, they replace those in the records.
    labels: Option<HashMap<u64, Vec<f32>>>,
}

/// The files that records are read from, and the part to read.
pub(super) struct Source<'p> {
    /// RecordIO file, or directory of such files.
    pub records: &'p str,
    /// Index file; empty if there is none.
    pub index: &'p str,
    /// File with the labels; empty if there is none.
    pub list: &'p str,
    pub num_parts: usize,
    pub part: usize,
}

impl Records {
    /// Locates the records of the part.
    pub(super) fn open(source: &Source<'_>) -> Result<Records> {
        ensure!(!source.records.is_empty(), "path_imgrec is missing: name the RecordIO file with the images");
        ensure!(
            source.part < source.num_parts,
            "part_index {} must be less than num_parts {}",
            source.part,
            source.num_parts
        );
        let files = crate::io::files(source.records)?;
        let locations = match source.index {
            "" => scan(&files, source)?,
            index => {
                ensure!(
                    files.len() == 1,
                    "path_imgidx belongs to one file, but path_imgrec {} is a directory",
                    source.records
                );
                read_index(index, source)?
            }
        };
        ensure!(
            !locations.is_empty(),
            "part {} of {} of {} has no records",
            source.part,
            source.num_parts,
            source.records
        );
        let labels = if source.list.is_empty() { None } else { Some(read_list(source.list)?) };
        Ok(Records { files, locations, reader: None, labels })
    }

    pub(super) fn len(&self) -> usize {
        self.locations.len()
    }

    /// Reads record `i`.
    pub(super) fn read(&mut self, i: usize) -> Result<Record> {
        let (file, position) = self.locations[i];
        if self.reader.as_ref().is_none_or(|(current, _)| *current != file) {
            self.reader = Some((file, Reader::open(&self.files[file as usize])?));
        }
        let Some((_, reader)) = &mut self.reader else { return Err(Error::Internal("no file is open".into())) };
        if reader.tell() != position {
            reader.seek(position)?;
        }
        let bytes = reader.read()?.ok_or_else(|| {
            Error::Format(format!(
                "{} has no record at byte {position}: the file has changed or the index belongs to another file",
                self.files[file as usize]
            ))
        })?;
        let mut record = Record::new(bytes).map_err(|e| self.locate_error(i, e))?;
        if let Some(labels) = &self.labels {
            let list_labels = labels.get(&record.id);
            record.labels = list_labels.cloned().ok_or_else(|| {
                self.locate_error(i, Error::Format(format!("path_imglist has no labels for image {}", record.id)))
            })?;
        }
        Ok(record)
    }

    /// Adds the location of record `i` to an error.
    pub(super) fn locate_error(&self, i: usize, e: Error) -> Error {
        let (file, position) = self.locations[i];
        Error::Format(format!("{}, record at byte {position}: {e}", self.files[file as usize]))
    }

    /// The order of the records in an epoch.
    pub(super) fn order(&self, shuffle: Option<u64>, epoch: u64) -> Vec<usize> {
        match shuffle {
            Some(seed) => Philox::new(seed, epoch).permutation(self.len()),
            None => memory::collected(0..self.len()),
        }
    }
}

/// Locates the records that begin in the part's range of bytes, counted over all files.
fn scan(files: &[String], source: &Source<'_>) -> Result<Vec<(u32, u64)>> {
    let sizes = files
        .iter()
        .map(|f| fs::metadata(f).map(|m| m.len()).map_err(|e| Error::io(f, &e)))
        .collect::<Result<Vec<_>>>()?;
    let part_bytes = sizes.iter().sum::<u64>().div_ceil(source.num_parts as u64).next_multiple_of(4);
    let bounds = part_bytes * source.part as u64..part_bytes * (source.part as u64 + 1);
    let (mut locations, mut before) = (Vec::new(), 0);
    for (i, (file, size)) in files.iter().zip(sizes).enumerate() {
        let mut reader = Reader::open(file)?;
        while let Some(position) = reader.skip()? {
            if bounds.contains(&(before + position)) {
                memory::reserve(&mut locations, 1);
                locations.push((i as u32, position));
            }
        }
        if reader.tell() != size {
            return Err(Error::Format(format!("{file} is damaged: its last record is cut off")));
        }
        before += size;
    }
    Ok(locations)
}

/// Locates the records of the part by an index file.
fn read_index(index: &str, source: &Source<'_>) -> Result<Vec<(u32, u64)>> {
    let text = fs::read_to_string(index).map_err(|e| Error::io(index, &e))?;
    let mut locations = Vec::new();
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let position = line.split_whitespace().nth(1).and_then(|p| p.parse::<u64>().ok());
        memory::reserve(&mut locations, 1);
        locations.push((
            0,
            position.ok_or_else(|| {
                Error::Format(format!("{index}, line {}: a key and a byte offset were expected", i + 1))
            })?,
        ));
    }
    locations.sort_unstable();
    let part_len = locations.len().div_ceil(source.num_parts);
    Ok(memory::collected(locations.into_iter().skip(part_len * source.part).take(part_len)))
}

/// Reads the labels of a list file, by image id.
fn read_list(path: &str) -> Result<HashMap<u64, Vec<f32>>> {
    let text = fs::read_to_string(path).map_err(|e| Error::io(path, &e))?;
    let mut labels = HashMap::new();
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        memory::check()?;
        let malformed = |reason: &str| {
            Error::Format(format!(
                "{path}, line {}: {reason}; an image id, labels and a path, separated by tabs, were expected",
                i + 1
            ))
        };
        let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
        let [id, numbers @ .., _] = &fields[..] else { return Err(malformed("there are too few fields")) };
        let id = id.parse::<u64>().map_err(|_| malformed(&format!("'{id}' is not an image id")))?;
        let numbers = numbers
            .iter()
            .map(|n| n.parse::<f32>().map_err(|_| malformed(&format!("'{n}' is not a number"))))
            .collect::<Result<Vec<_>>>()?;
        if numbers.is_empty() {
            return Err(malformed("there are no labels"));
        }
        labels.insert(id, numbers);
    }
    Ok(labels)
}
