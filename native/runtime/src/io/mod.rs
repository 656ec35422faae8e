//! Data iterators that read files: batches of arrays with labels.

mod csv;
mod image;
mod libsvm;
mod mnist;
mod prefetch;
pub mod recordio;

use ferromx_core::dispatch;
use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::{Attrs, FieldInfo, OpParams};
use ferromx_core::sparse::Array;

/// A batch of examples.
#[derive(Clone)]
pub struct Batch {
    /// The examples, one a row.
    pub data: Array,
    /// Their labels, one a row.
    pub label: Array,
    /// Positions of the examples in the file.
    pub index: Vec<u64>,
    /// How many examples at the end repeat earlier ones to fill the batch.
    pub pad: usize,
}

/// Where a pass begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pass {
    /// Number of the pass, from 0, which the order and the augmentations depend on where they are random.
    pub number: u64,
    /// Index of its first example: the last batch of the pass before may have taken some.
    pub first: u64,
}

/// A source of batches.
pub trait DataIter: Send {
    /// Goes back before the first batch.
    ///
    /// # Errors
    /// The file can no longer be read.
    fn before_first(&mut self) -> Result<()>;
    /// Goes to the next batch; `false` at the end.
    ///
    /// # Errors
    /// The file is damaged.
    fn next(&mut self) -> Result<bool>;
    /// The current batch.
    ///
    /// # Errors
    /// There is none before the first call of `next`.
    fn batch(&self) -> Result<&Batch>;
    /// Where the current pass began.
    fn pass(&self) -> Pass;
    /// Goes back before the first batch of a pass that [`DataIter::pass`] gave, of this iterator or of one like it.
    ///
    /// # Errors
    /// The data have no such example.
    fn restart(&mut self, pass: Pass) -> Result<()>;
}

/// The index of the first example of a pass, checked.
fn first_example(pass: Pass, examples: usize) -> Result<usize> {
    match usize::try_from(pass.first) {
        Ok(first) if first <= examples => Ok(first),
        _ => Err(Error::Value(format!(
            "the pass begins at example {} but there are {examples}: it was saved with other data",
            pass.first
        ))),
    }
}

/// A kind of iterator.
pub struct IterDef {
    /// Name, such as `MNISTIter`.
    pub name: &'static str,
    /// What it reads and yields.
    pub doc: &'static str,
    fields: fn() -> Vec<FieldInfo>,
    create: fn(&Attrs) -> Result<Box<dyn DataIter>>,
}

impl IterDef {
    /// The parameters.
    pub fn fields(&self) -> Vec<FieldInfo> {
        (self.fields)()
    }

    /// Makes an iterator. Parameters that it does not have are left out with a warning, since MXNet takes any, and programs give
    /// iterators those of others.
    ///
    /// # Errors
    /// Parameters that do not parse, files that are missing or damaged.
    pub fn create(&self, attrs: &Attrs) -> Result<Box<dyn DataIter>> {
        let fields = self.fields();
        let (known, unknown): (Attrs, Attrs) = (attrs.iter().map(|(k, v)| (k.clone(), v.clone())))
            .partition(|(key, _)| fields.iter().any(|field| field.name == key));
        for key in unknown.keys() {
            log::warn!("{} has no parameter '{key}': it is ignored", self.name);
        }
        (self.create)(&known).map_err(|e| e.in_operator(self.name, self.name))
    }
}

/// The iterators there are.
pub static ITERATORS: &[IterDef] = &[
    IterDef {
        name: "MNISTIter",
        doc: "Reads images and labels in the IDX format of the MNIST database (LeCun, Cortes, Burges, 1998).",
        fields: mnist::MnistParam::fields,
        create: mnist::create,
    },
    IterDef {
        name: "CSVIter",
        doc: "Reads examples and labels from files of comma-separated values, one example a line.",
        fields: csv::CsvParam::fields,
        create: csv::create,
    },
    IterDef {
        name: "LibSVMIter",
        doc: "Reads sparse examples from files in the format of LIBSVM, with columns counted from 0. Batches are of storage type \
              csr; so are labels that have a file of their own.",
        fields: libsvm::LibSvmParam::fields,
        create: libsvm::create,
    },
    IterDef {
        name: "ImageRecordIter",
        doc: "Reads labelled pictures (JPEG, PNG, BMP) from RecordIO files, changes them at random where that is asked for, and \
              yields numbers of shape (batch_size, channels, height, width), made ahead by threads.",
        fields: image::image_fields,
        create: image::create,
    },
    IterDef {
        name: "ImageRecordIter_v1",
        doc: "The former name of ImageRecordIter, for numbers of type float32.",
        fields: image::image_fields,
        create: image::create_v1,
    },
    IterDef {
        name: "ImageRecordUInt8Iter",
        doc: "As ImageRecordIter, but yields the samples of the pictures as they are, of type uint8.",
        fields: image::bytes_fields,
        create: image::create_u8,
    },
    IterDef {
        name: "ImageRecordUInt8Iter_v1",
        doc: "The former name of ImageRecordUInt8Iter.",
        fields: image::bytes_fields,
        create: image::create_u8,
    },
    IterDef {
        name: "ImageRecordInt8Iter",
        doc: "As ImageRecordIter, but yields the samples of the pictures, 127 for those above, of type int8.",
        fields: image::bytes_fields,
        create: image::create_i8,
    },
    IterDef {
        name: "ImageDetRecordIter",
        doc: "Reads pictures with objects from RecordIO files. A label is the number of channels, height and width of the picture \
              within the batch, the number of labels that follow, and those of the record: length of the header, numbers of an \
              object, the rest of the header, and for each object class, left, top, right, bottom as parts of the picture.",
        fields: image::detection_fields,
        create: image::create_detection,
    },
];

/// The iterator of this name.
///
/// # Errors
/// There is none.
pub fn find(name: &str) -> Result<&'static IterDef> {
    ITERATORS.iter().find(|d| d.name == name).ok_or_else(|| {
        let names: Vec<_> = ITERATORS.iter().map(|d| d.name).collect();
        Error::NotFound(format!("there is no data iterator '{name}'; there are {}", names.join(", ")))
    })
}

/// The files that a path names: a file, or those of a directory in the order of their names.
fn files(path: &str) -> Result<Vec<String>> {
    let error = |e: &std::io::Error| Error::io(path, e);
    if !std::fs::metadata(path).map_err(|e| error(&e))?.is_dir() {
        return Ok(vec![path.to_string()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|e| error(&e))? {
        let entry = entry.map_err(|e| error(&e))?.path();
        if entry.is_file() {
            found.push(entry.to_string_lossy().into_owned());
        }
    }
    found.sort_unstable();
    ferromx_core::ensure!(!found.is_empty(), "the directory {path} has no files");
    Ok(found)
}

fn no_batch() -> Error {
    Error::Value("there is no current batch: call next() and check that it is true".into())
}

/// The array in another element type.
fn convert(array: NDArray, dtype: DType) -> Result<NDArray> {
    if array.dtype() == dtype {
        return Ok(array);
    }
    let values = array.to_vec_as::<f64>()?;
    dispatch!(dtype, T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        let values: Vec<T> = values.into_iter().map(T::from_f64).collect();
        NDArray::from_slice(&values, array.shape().dims())
    }, other => Err(Error::Unsupported(format!("data of type {other} cannot be read"))))
}

/// Examples in memory, served in batches: what both file formats come to.
struct InMemory {
    data: NDArray,
    label: NDArray,
    order: Vec<u64>,
    batch_size: usize,
    rest: Rest,
    /// Examples from the start that filled up the last batch of this pass.
    overflow: usize,
    next: usize,
    pass: Pass,
    current: Option<Batch>,
}

/// What becomes of examples that do not fill a batch.
#[derive(Clone, Copy, PartialEq)]
enum Rest {
    /// They are left out.
    Dropped,
    /// Examples from the start fill the batch up.
    Padded,
    /// So they do, and the next pass begins behind them.
    Continued,
}

impl InMemory {
    fn rows(&self, source: &NDArray, index: &[u64]) -> Result<NDArray> {
        let mut shape = source.shape().clone();
        if let Some(d) = shape.dims_mut() {
            d[0] = index.len() as i64;
        }
        let out = NDArray::empty(&shape, source.dtype(), source.context())?;
        for (to, from) in index.iter().enumerate() {
            out.slice(to, to + 1)?.copy_from(&source.slice(*from as usize, *from as usize + 1)?)?;
        }
        Ok(out)
    }
}

impl DataIter for InMemory {
    fn before_first(&mut self) -> Result<()> {
        self.next = std::mem::take(&mut self.overflow);
        self.pass = Pass { number: self.pass.number.wrapping_add(1), first: self.next as u64 };
        self.current = None;
        Ok(())
    }

    fn next(&mut self) -> Result<bool> {
        let left = self.order.len().saturating_sub(self.next);
        if left == 0 || (left < self.batch_size && self.rest == Rest::Dropped) {
            self.current = None;
            return Ok(false);
        }
        let pad = self.batch_size.saturating_sub(left);
        if self.rest == Rest::Continued {
            self.overflow = pad % self.order.len();
        }
        let index: Vec<u64> =
            (self.next..self.next + self.batch_size).map(|i| self.order[i % self.order.len()]).collect();
        self.next += self.batch_size;
        let (data, label) = (self.rows(&self.data, &index)?, self.rows(&self.label, &index)?);
        self.current = Some(Batch { data: data.into(), label: label.into(), index, pad });
        Ok(true)
    }

    fn batch(&self) -> Result<&Batch> {
        self.current.as_ref().ok_or_else(no_batch)
    }

    fn pass(&self) -> Pass {
        self.pass
    }

    fn restart(&mut self, pass: Pass) -> Result<()> {
        self.next = first_example(pass, self.order.len())?;
        self.pass = pass;
        self.overflow = 0;
        self.current = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_batches_are_padded_or_dropped() {
        let make = |rest| InMemory {
            data: NDArray::from_slice(&[0f32, 1., 2., 3., 4.], &[5, 1]).unwrap(),
            label: NDArray::from_slice(&[0f32, 1., 2., 3., 4.], &[5]).unwrap(),
            order: (0..5).collect(),
            batch_size: 2,
            rest,
            overflow: 0,
            next: 0,
            pass: Pass::default(),
            current: None,
        };
        let pass = |it: &mut InMemory| {
            it.before_first().unwrap();
            let mut seen = Vec::new();
            while it.next().unwrap() {
                let b = it.batch().unwrap();
                seen.push((b.data.dense().unwrap().to_vec::<f32>().unwrap(), b.pad));
            }
            seen
        };
        let padded = [(vec![0., 1.], 0), (vec![2., 3.], 0), (vec![4., 0.], 1)];
        let mut it = make(Rest::Continued);
        assert!(it.batch().is_err());
        assert_eq!(pass(&mut it), padded);
        assert_eq!(pass(&mut it), [(vec![1., 2.], 0), (vec![3., 4.], 0)]);
        assert_eq!(pass(&mut it), padded);
        it.before_first().unwrap();
        let begun = it.pass();
        assert_eq!(begun, Pass { number: 4, first: 1 });
        let mut other = make(Rest::Continued);
        other.restart(begun).unwrap();
        assert!(other.next().unwrap() && it.next().unwrap());
        assert_eq!(other.batch().unwrap().index, it.batch().unwrap().index);
        assert!(other.restart(Pass { number: 0, first: 6 }).is_err());
        let mut it = make(Rest::Padded);
        assert_eq!(pass(&mut it), padded);
        assert_eq!(pass(&mut it), padded);
        let mut it = make(Rest::Dropped);
        assert_eq!((it.next(), it.next(), it.next()), (Ok(true), Ok(true), Ok(false)));
        it.before_first().unwrap();
        assert_eq!(it.next(), Ok(true));
    }
}
