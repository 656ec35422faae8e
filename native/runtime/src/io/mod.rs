//! Data iterators, which read batches of examples and labels from files.
//!
//! - `mnist`, `csv` and `libsvm` read data sets into memory, in the formats of these names;
//! - `image` decodes and augments images from RecordIO files, with `prefetch` to prepare batches in a thread;
//! - `recordio` reads and writes RecordIO files.

mod csv;
mod image;
mod libsvm;
mod mnist;
mod prefetch;
pub mod recordio;
#[cfg(test)]
mod test_file;

use ferromx_core::dispatch;
use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::memory;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::{Attrs, FieldInfo, OpParams};
use ferromx_core::sparse::Array;
use ferromx_core::storage::{read_bytes, write_bytes};
use ferromx_kernels::index::gather;

/// A batch of examples.
#[derive(Clone)]
pub struct Batch {
    /// The examples, one per row.
    pub data: Array,
    /// The labels, one per row.
    pub label: Array,
    /// Indices of the examples in the file.
    pub index: Vec<u64>,
    /// Number of examples at the end that only fill up the batch.
    pub pad: usize,
}

/// The start of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Epoch {
    /// Number of the epoch, from 0, which determines random order and augmentations.
    pub number: u64,
    /// Index of its first example. Those before it filled up the last batch of the previous epoch.
    pub first: u64,
}

/// An iterator over batches.
pub trait DataIter: Send {
    /// Rewinds to before the first batch.
    ///
    /// # Errors
    /// The file cannot be read any more.
    fn before_first(&mut self) -> Result<()>;
    /// Advances to the next batch; `false` at the end.
    ///
    /// # Errors
    /// The file is damaged.
    fn next(&mut self) -> Result<bool>;
    /// The current batch.
    ///
    /// # Errors
    /// `next` was not called yet, or returned `false`.
    fn batch(&self) -> Result<&Batch>;
    /// The start of the current epoch.
    fn epoch(&self) -> Epoch;
    /// Rewinds to before the first batch of an epoch that [`DataIter::epoch`] returned, for this iterator or one over the same data.
    ///
    /// # Errors
    /// The data have no such example.
    fn restart(&mut self, epoch: Epoch) -> Result<()>;
}

/// The index of the first example of an epoch, checked against the number of examples.
fn first_example(epoch: Epoch, examples: usize) -> Result<usize> {
    match usize::try_from(epoch.first) {
        Ok(first) if first <= examples => Ok(first),
        _ => Err(Error::Value(format!(
            "the epoch begins at example {} of only {examples}: the position was saved with other data",
            epoch.first
        ))),
    }
}

/// A kind of iterator.
pub struct IterDef {
    /// Name, such as `MNISTIter`.
    pub name: &'static str,
    /// Description: input files and batches.
    pub doc: &'static str,
    fields: fn() -> Vec<FieldInfo>,
    create: fn(&Attrs) -> Result<Box<dyn DataIter>>,
}

impl IterDef {
    /// The parameters.
    pub fn fields(&self) -> Vec<FieldInfo> {
        (self.fields)()
    }

    /// Creates an iterator. Unknown parameters are ignored with a warning, as in MXNet: programs pass the parameters of one iterator
    /// to another.
    ///
    /// # Errors
    /// Parameters that do not parse, files that are missing or damaged.
    pub fn create(&self, attrs: &Attrs) -> Result<Box<dyn DataIter>> {
        let fields = self.fields();
        let (supported, unknown): (Attrs, Attrs) = (attrs.iter().map(|(k, v)| (k.clone(), v.clone())))
            .partition(|(key, _)| fields.iter().any(|field| field.name == key));
        for key in unknown.keys() {
            log::warn!("{} has no parameter '{key}': it is ignored", self.name);
        }
        (self.create)(&supported).map_err(|e| e.in_operator(self.name, self.name))
    }
}

/// All data iterators.
pub static ITERATORS: &[IterDef] = &[
    IterDef {
        name: "MNISTIter",
        doc: "Reads images and labels in the IDX format of the MNIST database (LeCun, Cortes, Burges, 1998).",
        fields: mnist::MnistParam::fields,
        create: mnist::create,
    },
    IterDef {
        name: "CSVIter",
        doc: "Reads examples and labels from files of comma-separated values, one example per line.",
        fields: csv::CsvParam::fields,
        create: csv::create,
    },
    IterDef {
        name: "LibSVMIter",
        doc: "Reads sparse examples from files in the format of LIBSVM, with columns counted from 0. Batches have storage type \
              csr, and so have labels that come from a separate file.",
        fields: libsvm::LibSvmParam::fields,
        create: libsvm::create,
    },
    IterDef {
        name: "ImageRecordIter",
        doc: "Reads labeled images (JPEG, PNG, BMP) from RecordIO files, augments them, and yields batches of shape \
              (batch_size, channels, height, width), which threads prepare ahead of time.",
        fields: image::image_fields,
        create: image::create,
    },
    IterDef {
        name: "ImageRecordIter_v1",
        doc: "The former name of ImageRecordIter, for batches of type float32.",
        fields: image::image_fields,
        create: image::create_v1,
    },
    IterDef {
        name: "ImageRecordUInt8Iter",
        doc: "Like ImageRecordIter, but yields unnormalized samples of type uint8.",
        fields: image::image_fields,
        create: image::create_u8,
    },
    IterDef {
        name: "ImageRecordUInt8Iter_v1",
        doc: "The former name of ImageRecordUInt8Iter.",
        fields: image::image_fields,
        create: image::create_u8,
    },
    IterDef {
        name: "ImageRecordInt8Iter",
        doc: "Like ImageRecordIter, but yields samples of type int8: x - mean, saturated.",
        fields: image::image_fields,
        create: image::create_i8,
    },
    IterDef {
        name: "ImageDetRecordIter",
        doc: "Reads images with bounding boxes from RecordIO files. A label holds channels, height and width of the image within \
              the batch, the number of values that follow, and the label of the record: header length, object width, the rest of \
              the header, and for each object its class, left, top, right and bottom as fractions of the image size.",
        fields: image::detection_fields,
        create: image::create_detection,
    },
];

/// Looks up an iterator by name.
///
/// # Errors
/// No iterator has this name.
pub fn find(name: &str) -> Result<&'static IterDef> {
    ITERATORS.iter().find(|d| d.name == name).ok_or_else(|| {
        let names: Vec<_> = ITERATORS.iter().map(|d| d.name).collect();
        Error::NotFound(format!("there is no data iterator '{name}'; there are {}", names.join(", ")))
    })
}

/// The file at `path`, or the files of the directory at `path` sorted by name.
fn files(path: &str) -> Result<Vec<String>> {
    let error = |e: &std::io::Error| Error::io(path, e);
    if !std::fs::metadata(path).map_err(|e| error(&e))?.is_dir() {
        return Ok(vec![path.to_string()]);
    }
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|e| error(&e))? {
        let entry = entry.map_err(|e| error(&e))?.path();
        if entry.is_file() {
            paths.push(entry.to_string_lossy().into_owned());
        }
    }
    paths.sort_unstable();
    ferromx_core::ensure!(!paths.is_empty(), "the directory {path} has no files");
    Ok(paths)
}

/// Refuses a last batch that needs examples from the start more than once, as MXNet does.
fn check_round_batch(pad: usize, num_examples: usize, batch_size: usize) -> Result<()> {
    ferromx_core::ensure!(
        pad <= num_examples,
        "number of input must be bigger than batch size: there are {num_examples} examples, and batch_size is {batch_size}"
    );
    Ok(())
}

/// Maximum size of the examples that only fill up a batch, if their number is not limited by the number of examples.
const MAX_PADDING_BYTES: usize = 1 << 30;

/// Refuses a batch whose padding would take more than [`MAX_PADDING_BYTES`].
fn check_padding(pad: usize, row_bytes: usize, num_examples: usize, batch_size: usize) -> Result<()> {
    ferromx_core::ensure!(
        pad <= num_examples || pad.saturating_mul(row_bytes) <= MAX_PADDING_BYTES,
        "batch_size is {batch_size}, but there are only {num_examples} examples: choose a smaller one"
    );
    Ok(())
}

fn no_batch() -> Error {
    Error::Value("there is no current batch: call next() and check that it is true".into())
}

/// Casts an array to `dtype`.
fn convert(array: NDArray, dtype: DType) -> Result<NDArray> {
    if array.dtype() == dtype {
        return Ok(array);
    }
    let values = array.to_vec_as::<f64>()?;
    dispatch!(dtype, T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        let values: Vec<T> = memory::collected(values.into_iter().map(T::from_f64));
        NDArray::from_slice(&values, array.shape().dims())
    }, other => Err(Error::Unsupported(format!("data of type {other} cannot be read"))))
}

/// An iterator over examples that are all in memory.
struct InMemory {
    data: NDArray,
    label: NDArray,
    order: Vec<usize>,
    batch_size: usize,
    last_batch: LastBatch,
    /// Examples from the start that filled up the last batch of this epoch. The next epoch begins after them.
    overflow: usize,
    next: usize,
    epoch: Epoch,
    current: Option<Batch>,
}

/// The treatment of an incomplete last batch.
#[derive(Clone, Copy, PartialEq)]
enum LastBatch {
    /// Drop it.
    Discard,
    /// Keep examples of the batch before, at the same positions; a first batch is filled up with examples from the start.
    Pad,
    /// Fill it up with examples from the start, which the next epoch then skips.
    RollOver,
}

impl InMemory {
    /// The position in `order` of element `i` of the epoch, which may be past its end in the last batch.
    fn position(&self, i: usize) -> usize {
        let len = self.order.len();
        if i >= len && self.last_batch == LastBatch::Pad && i >= self.batch_size {
            i - self.batch_size
        } else {
            i % len
        }
    }

    /// The rows `index` of `source`.
    fn rows(source: &NDArray, index: &[usize]) -> Result<NDArray> {
        let mut shape = source.shape().clone();
        if let Some(d) = shape.dims_mut() {
            d[0] = index.len() as i64;
        }
        let out = NDArray::empty(&shape, source.dtype(), source.context())?;
        let (num_rows, row_bytes) = (source.shape().dim(0) as usize, Self::row_bytes(source));
        read_bytes(source, |from| write_bytes(&out, |to| gather(from, (1, num_rows, row_bytes), index, to)));
        Ok(out)
    }

    fn row_bytes(array: &NDArray) -> usize {
        array.byte_range().len() / (array.shape().dim(0) as usize).max(1)
    }

    /// Checks that the padding of the next batch is bounded by the data or small.
    fn check_pad(&self, pad: usize) -> Result<()> {
        let (num_examples, batch_size) = (self.order.len(), self.batch_size);
        match self.last_batch {
            LastBatch::Discard => Ok(()),
            LastBatch::RollOver => check_round_batch(pad, num_examples, batch_size),
            LastBatch::Pad => {
                // Each example also has an index.
                let row_bytes = Self::row_bytes(&self.data) + Self::row_bytes(&self.label) + 2 * size_of::<u64>();
                check_padding(pad, row_bytes, num_examples, batch_size)
            }
        }
    }
}

impl DataIter for InMemory {
    fn before_first(&mut self) -> Result<()> {
        self.next = std::mem::take(&mut self.overflow);
        self.epoch = Epoch { number: self.epoch.number.wrapping_add(1), first: self.next as u64 };
        self.current = None;
        Ok(())
    }

    fn next(&mut self) -> Result<bool> {
        let num_remaining = self.order.len().saturating_sub(self.next);
        if num_remaining == 0 || (num_remaining < self.batch_size && self.last_batch == LastBatch::Discard) {
            self.current = None;
            return Ok(false);
        }
        let pad = self.batch_size.saturating_sub(num_remaining);
        self.check_pad(pad)?;
        if self.last_batch == LastBatch::RollOver {
            self.overflow = pad % self.order.len();
        }
        let batch = self.next..self.next + self.batch_size;
        let index: Vec<usize> = memory::collected(batch.map(|i| self.order[self.position(i)]));
        self.next += self.batch_size;
        let (data, label) = (Self::rows(&self.data, &index)?, Self::rows(&self.label, &index)?);
        let index = memory::collected(index.into_iter().map(|i| i as u64));
        self.current = Some(Batch { data: data.into(), label: label.into(), index, pad });
        Ok(true)
    }

    fn batch(&self) -> Result<&Batch> {
        self.current.as_ref().ok_or_else(no_batch)
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn restart(&mut self, epoch: Epoch) -> Result<()> {
        self.next = first_example(epoch, self.order.len())?;
        self.epoch = epoch;
        self.overflow = 0;
        self.current = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_last_batch_is_padded_rolled_over_or_discarded() {
        let make = |last_batch| InMemory {
            data: NDArray::from_slice(&[0f32, 1., 2., 3., 4.], &[5, 1]).unwrap(),
            label: NDArray::from_slice(&[0f32, 1., 2., 3., 4.], &[5]).unwrap(),
            order: (0..5).collect(),
            batch_size: 2,
            last_batch,
            overflow: 0,
            next: 0,
            epoch: Epoch::default(),
            current: None,
        };
        let epoch = |it: &mut InMemory| {
            it.before_first().unwrap();
            let mut batches = Vec::new();
            while it.next().unwrap() {
                let b = it.batch().unwrap();
                batches.push((b.data.dense().unwrap().to_vec::<f32>().unwrap(), b.pad));
            }
            batches
        };
        let padded = [(vec![0., 1.], 0), (vec![2., 3.], 0), (vec![4., 0.], 1)];
        let mut it = make(LastBatch::RollOver);
        assert!(it.batch().is_err());
        assert_eq!(epoch(&mut it), padded);
        assert_eq!(epoch(&mut it), [(vec![1., 2.], 0), (vec![3., 4.], 0)]);
        assert_eq!(epoch(&mut it), padded);
        it.before_first().unwrap();
        let begun = it.epoch();
        assert_eq!(begun, Epoch { number: 4, first: 1 });
        let mut other = make(LastBatch::RollOver);
        other.restart(begun).unwrap();
        assert!(other.next().unwrap() && it.next().unwrap());
        assert_eq!(other.batch().unwrap().index, it.batch().unwrap().index);
        assert!(other.restart(Epoch { number: 0, first: 6 }).is_err());
        let mut it = make(LastBatch::Pad);
        let kept = [(vec![0., 1.], 0), (vec![2., 3.], 0), (vec![4., 3.], 1)];
        assert_eq!(epoch(&mut it), kept);
        assert_eq!(epoch(&mut it), kept);
        let mut it = InMemory { batch_size: 7, ..make(LastBatch::Pad) };
        assert_eq!(epoch(&mut it), [(vec![0., 1., 2., 3., 4., 0., 1.], 2)]);
        let mut it = InMemory { batch_size: 1_000_000_000, ..make(LastBatch::Pad) };
        assert!(it.next().unwrap_err().to_string().contains("there are only 5 examples"));
        let mut it = InMemory { batch_size: 10, ..make(LastBatch::RollOver) };
        assert_eq!(epoch(&mut it), [(vec![0., 1., 2., 3., 4., 0., 1., 2., 3., 4.], 5)]);
        let mut it = InMemory { batch_size: 11, ..make(LastBatch::RollOver) };
        assert!(it.next().unwrap_err().to_string().contains("number of input must be bigger than batch size"));
        let mut it = make(LastBatch::Discard);
        assert_eq!((it.next(), it.next(), it.next()), (Ok(true), Ok(true), Ok(false)));
        it.before_first().unwrap();
        assert_eq!(it.next(), Ok(true));
    }
}
