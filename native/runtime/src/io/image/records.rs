//! Records of pictures: where they lie, in which order they come, what stands in them.

use std::collections::HashMap;
use std::fs;

use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_kernels::rng::Philox;

use crate::io::recordio::Reader;

/// Bytes before the labels of a record: number of labels, label, id, second id.
const HEADER: usize = 24;

/// A record of a picture.
pub(super) struct Record {
    /// The picture's number.
    pub id: u64,
    pub labels: Vec<f32>,
    bytes: Vec<u8>,
    start: usize,
}

impl Record {
    fn new(bytes: Vec<u8>) -> Result<Record> {
        let short =
            || Error::Format(format!("a record of {} bytes is too short for its header and labels", bytes.len()));
        let header = bytes.get(..HEADER).ok_or_else(short)?;
        let word = |i: usize| [header[i], header[i + 1], header[i + 2], header[i + 3]];
        let count = u32::from_le_bytes(word(0)) as usize;
        let id = u64::from(u32::from_le_bytes(word(8))) | u64::from(u32::from_le_bytes(word(12))) << 32;
        let (labels, start) = match count {
            0 => (vec![f32::from_le_bytes(word(4))], HEADER),
            _ => {
                let end = count.checked_mul(4).and_then(|n| n.checked_add(HEADER)).ok_or_else(short)?;
                let numbers = bytes.get(HEADER..end).ok_or_else(short)?.chunks_exact(4);
                (numbers.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(), end)
            }
        };
        Ok(Record { id, labels, bytes, start })
    }

    /// The encoded picture.
    pub fn picture(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// The records of a part of some files.
pub(super) struct Records {
    files: Vec<String>,
    /// File and position of each record.
    places: Vec<(u32, u64)>,
    open: Option<(u32, Reader)>,
    /// Labels that take the place of those in the records, by id.
    labels: Option<HashMap<u64, Vec<f32>>>,
}

/// Where records come from.
pub(super) struct Source<'p> {
    pub records: &'p str,
    /// Empty if there is none.
    pub index: &'p str,
    /// Empty if there is none.
    pub list: &'p str,
    pub num_parts: usize,
    pub part: usize,
}

impl Records {
    /// Finds the records of a part.
    pub fn open(source: &Source<'_>) -> Result<Records> {
        ensure!(!source.records.is_empty(), "path_imgrec is missing: name the RecordIO file with the pictures");
        ensure!(
            source.part < source.num_parts,
            "part_index {} is not below num_parts {}",
            source.part,
            source.num_parts
        );
        let files = crate::io::files(source.records)?;
        let places = match source.index {
            "" => scan(&files, source)?,
            index => {
                ensure!(
                    files.len() == 1,
                    "path_imgidx belongs to one file, but path_imgrec {} is a directory",
                    source.records
                );
                indexed(index, source)?
            }
        };
        ensure!(
            !places.is_empty(),
            "part {} of {} of {} has no records",
            source.part,
            source.num_parts,
            source.records
        );
        let labels = if source.list.is_empty() { None } else { Some(read_list(source.list)?) };
        Ok(Records { files, places, open: None, labels })
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Reads a record.
    pub fn read(&mut self, i: usize) -> Result<Record> {
        let (file, position) = self.places[i];
        if self.open.as_ref().is_none_or(|(open, _)| *open != file) {
            self.open = Some((file, Reader::open(&self.files[file as usize])?));
        }
        let Some((_, reader)) = &mut self.open else { return Err(Error::Internal("no file is open".into())) };
        if reader.tell() != position {
            reader.seek(position)?;
        }
        let bytes = reader.read()?.ok_or_else(|| {
            Error::Format(format!(
                "{} has no record at byte {position}: it was changed or its index is of another file",
                self.files[file as usize]
            ))
        })?;
        let mut record = Record::new(bytes).map_err(|e| self.at(i, e))?;
        if let Some(labels) = &self.labels {
            let found = labels.get(&record.id);
            record.labels = found.cloned().ok_or_else(|| {
                self.at(i, Error::Format(format!("path_imglist has no labels for picture {}", record.id)))
            })?;
        }
        Ok(record)
    }

    /// Adds the place of a record to an error.
    pub fn at(&self, i: usize, e: Error) -> Error {
        let (file, position) = self.places[i];
        Error::Format(format!("{}, record at byte {position}: {e}", self.files[file as usize]))
    }

    /// The order of a pass.
    pub fn order(&self, shuffle: Option<u64>, pass: u64) -> Vec<usize> {
        match shuffle {
            Some(seed) => Philox::new(seed, pass).permutation(self.len()),
            None => (0..self.len()).collect(),
        }
    }
}

/// The records that begin in a part of all bytes of the files.
fn scan(files: &[String], source: &Source<'_>) -> Result<Vec<(u32, u64)>> {
    let sizes = files
        .iter()
        .map(|f| fs::metadata(f).map(|m| m.len()).map_err(|e| Error::io(f, &e)))
        .collect::<Result<Vec<_>>>()?;
    let step = sizes.iter().sum::<u64>().div_ceil(source.num_parts as u64).next_multiple_of(4);
    let bounds = step * source.part as u64..step * (source.part as u64 + 1);
    let (mut places, mut before) = (Vec::new(), 0);
    for (i, (file, size)) in files.iter().zip(sizes).enumerate() {
        let mut reader = Reader::open(file)?;
        while let Some(position) = reader.skip()? {
            if bounds.contains(&(before + position)) {
                places.push((i as u32, position));
            }
        }
        if reader.tell() != size {
            return Err(Error::Format(format!("{file} is damaged: its last record is cut off")));
        }
        before += size;
    }
    Ok(places)
}

/// The records of a part of an index.
fn indexed(index: &str, source: &Source<'_>) -> Result<Vec<(u32, u64)>> {
    let text = fs::read_to_string(index).map_err(|e| Error::io(index, &e))?;
    let mut places = Vec::new();
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let position = line.split_whitespace().nth(1).and_then(|p| p.parse::<u64>().ok());
        places.push((
            0,
            position
                .ok_or_else(|| Error::Format(format!("{index}, line {}: a key and a position were expected", i + 1)))?,
        ));
    }
    places.sort_unstable();
    let step = places.len().div_ceil(source.num_parts);
    Ok(places.into_iter().skip(step * source.part).take(step).collect())
}

/// The labels of a list, by id.
fn read_list(path: &str) -> Result<HashMap<u64, Vec<f32>>> {
    let text = fs::read_to_string(path).map_err(|e| Error::io(path, &e))?;
    let mut labels = HashMap::new();
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let bad = |what: &str| {
            Error::Format(format!(
                "{path}, line {}: {what}; a number, labels and a path, separated by tabs, were expected",
                i + 1
            ))
        };
        let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
        let [id, numbers @ .., _] = &fields[..] else { return Err(bad("there are too few fields")) };
        let id = id.parse::<u64>().map_err(|_| bad(&format!("'{id}' is no number of a picture")))?;
        let numbers = numbers
            .iter()
            .map(|n| n.parse::<f32>().map_err(|_| bad(&format!("'{n}' is no label"))))
            .collect::<Result<Vec<_>>>()?;
        if numbers.is_empty() {
            return Err(bad("there are no labels"));
        }
        labels.insert(id, numbers);
    }
    Ok(labels)
}
