//! `LibSVMIter`: sparse examples from lines of `label column:value ...`.

use std::fs;
use std::ops::Range;

use ferromx_core::context::Context;
use ferromx_core::dispatch;
use ferromx_core::dtype::{DType, Element, bf16, f16};
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::memory;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params;
use ferromx_core::params::{Attrs, NumDType, OpParams};
use ferromx_core::shape::Shape;
use ferromx_core::sparse::{Array, SparseArray};

use super::mnist::IterContext;
use super::{Batch, DataIter, Epoch, check_round_batch, first_example, no_batch};

params! {
    /// Parameters of `LibSVMIter`.
    pub struct LibSvmParam {
        /// File with the examples, one per line: a label, then `column:value` pairs with columns counted from 0. Of a
        /// directory, all files are read.
        data_libsvm: String = required;
        /// Shape of one example: the number of columns.
        data_shape: Shape = required;
        /// File with the labels in the same format, where the first number of each line is skipped; NULL takes the labels from
        /// `data_libsvm`.
        label_libsvm: String = (String::from("NULL"));
        /// Shape of one label: the number of columns.
        label_shape: Shape = (Shape::new(&[1]));
        /// Number of parts into which the data is divided for distributed training.
        num_parts: i32 = 1, where 1..=i32::MAX;
        /// Index of the part to read.
        part_index: i32 = 0, where 0..=i32::MAX;
        /// Number of examples in a batch.
        batch_size: u32 = required, where 1..=u32::MAX;
        /// Must be True: examples from the start always fill up the last batch.
        round_batch: bool = true;
        /// Accepted for compatibility: the data is in memory, so nothing is prefetched.
        prefetch_buffer: u64 = 4;
        /// Accepted for compatibility: batches are in CPU memory.
        ctx: IterContext = (IterContext::Gpu);
        /// Type of data and labels; `float32` if None.
        dtype: Option<NumDType> = None;
    }
}

/// The content of a file: a sparse matrix in CSR layout, and the number at the start of each line.
#[derive(Default)]
struct Rows {
    /// The number at the start of each line, which is a label in a data file.
    first_numbers: Vec<f64>,
    /// Row offsets into `columns` and `values`, as in CSR.
    indptr: Vec<usize>,
    columns: Vec<i64>,
    values: Vec<f64>,
}

/// Reads the files and creates the iterator.
pub(super) fn create(attrs: &Attrs) -> Result<Box<dyn DataIter>> {
    let p = LibSvmParam::parse(attrs)?;
    ensure!(
        p.round_batch,
        "round_batch=False is not supported: the last batch is always filled up; leave the parameter out"
    );
    ensure!(p.part_index < p.num_parts, "part_index {} must be less than num_parts {}", p.part_index, p.num_parts);
    let columns = |shape: &Shape, name: &str| match shape.dims() {
        [n] if *n > 0 => Ok(*n),
        _ => Err(Error::Value(format!("{name} is {shape}: expected one dimension, the number of columns"))),
    };
    let data = Rows::read(&p.data_libsvm, columns(&p.data_shape, "data_shape")?)?;
    let label_columns = columns(&p.label_shape, "label_shape")?;
    let labels = match p.label_libsvm.as_str() {
        "NULL" => {
            ensure!(
                label_columns == 1,
                "label_shape is {}, but lines of {} have one label",
                p.label_shape,
                p.data_libsvm
            );
            None
        }
        path => Some(Rows::read(path, label_columns)?),
    };
    let n = data.first_numbers.len();
    if let Some(labels) = &labels {
        let num_labels = labels.first_numbers.len();
        ensure!(num_labels == n, "{} has {n} examples, but {} has {num_labels} labels", p.data_libsvm, p.label_libsvm);
    }
    let (parts, part) = (p.num_parts as usize, p.part_index as usize);
    let (start, end) = (n * part / parts, n * (part + 1) / parts);
    ensure!(start < end, "part {part} of {parts} of {} has no examples: there are {n}", p.data_libsvm);
    Ok(Box::new(LibSvm {
        data,
        labels,
        data_columns: p.data_shape.dim(0),
        label_columns,
        dtype: p.dtype.map_or(DType::F32, |d| d.0),
        batch_size: p.batch_size as usize,
        rows: start..end,
        next: start,
        overflow: 0,
        epoch: Epoch::default(),
        current: None,
    }))
}

impl Rows {
    fn read(path: &str, width: i64) -> Result<Rows> {
        let mut rows = Rows { indptr: vec![0], ..Rows::default() };
        for file in super::files(path)? {
            let text = fs::read_to_string(&file).map_err(|e| Error::io(&file, &e))?;
            for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
                rows.parse_line(line, width).map_err(|e| Error::Format(format!("{file}, line {}: {e}", i + 1)))?;
            }
        }
        ensure!(!rows.first_numbers.is_empty(), "{path} has no examples");
        Ok(rows)
    }

    /// Appends the row of a line.
    fn parse_line(&mut self, line: &str, width: i64) -> Result<(), String> {
        let parse_number = |text: &str| text.parse::<f64>().map_err(|_| format!("'{text}' is not a number"));
        let mut fields = line.split_whitespace();
        memory::reserve(&mut self.first_numbers, 1);
        memory::reserve(&mut self.indptr, 1);
        // A field has at least three characters and a space.
        memory::reserve(&mut self.columns, line.len() / 4 + 1);
        memory::reserve(&mut self.values, line.len() / 4 + 1);
        self.first_numbers.push(parse_number(fields.next().unwrap_or_default())?);
        let start = self.columns.len();
        for field in fields {
            let (column, value) =
                field.split_once(':').ok_or_else(|| format!("'{field}' is not of the form column:value"))?;
            let column = column.parse::<i64>().map_err(|_| format!("'{column}' is not a column index"))?;
            if !(0..width).contains(&column) {
                return Err(format!("column {column} is beyond the {width} columns that the shape allows"));
            }
            self.columns.push(column);
            self.values.push(parse_number(value)?);
        }
        sort_columns(&mut self.columns[start..], &mut self.values[start..])?;
        self.indptr.push(self.columns.len());
        Ok(())
    }

    /// The rows `index` as a CSR matrix of `width` columns.
    fn matrix(&self, index: &[usize], width: i64, dtype: DType) -> Result<SparseArray> {
        let num_stored = index.iter().map(|i| self.indptr[i + 1] - self.indptr[*i]).sum();
        let (mut columns, mut values) = (memory::with_capacity(num_stored), memory::with_capacity(num_stored));
        let mut indptr = memory::with_capacity(index.len() + 1);
        indptr.push(0i64);
        for i in index {
            let range = self.indptr[*i]..self.indptr[i + 1];
            columns.extend_from_slice(&self.columns[range.clone()]);
            values.extend_from_slice(&self.values[range]);
            indptr.push(columns.len() as i64);
        }
        let (rows, stored) = (index.len() as i64, columns.len() as i64);
        SparseArray::csr(
            &Shape::new(&[rows, width]),
            to_array(&values, dtype)?,
            NDArray::from_slice(&indptr, &[rows + 1])?,
            NDArray::from_slice(&columns, &[stored])?,
        )
    }
}

fn to_array(values: &[f64], dtype: DType) -> Result<NDArray> {
    if values.is_empty() {
        return NDArray::zeros(&Shape::new(&[0]), dtype, Context::default());
    }
    dispatch!(dtype, T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
        let values: Vec<T> = memory::collected(values.iter().map(|x| T::from_f64(*x)));
        NDArray::from_slice(&values, &[values.len() as i64])
    }, other => Err(Error::Unsupported(format!("data of type {other} cannot be read"))))
}

struct LibSvm {
    data: Rows,
    /// Labels from `label_libsvm`; if `None`, the labels are the first numbers of `data`.
    labels: Option<Rows>,
    /// Number of columns of the data.
    data_columns: i64,
    /// Number of columns of `labels`.
    label_columns: i64,
    dtype: DType,
    batch_size: usize,
    /// The rows of the part to read.
    rows: Range<usize>,
    /// The first row of the next batch.
    next: usize,
    /// Number of rows from the start that filled up the last batch of this epoch. The next epoch begins after them.
    overflow: usize,
    epoch: Epoch,
    current: Option<Batch>,
}

impl DataIter for LibSvm {
    fn before_first(&mut self) -> Result<()> {
        let start = std::mem::take(&mut self.overflow);
        self.epoch = Epoch { number: self.epoch.number.wrapping_add(1), first: start as u64 };
        self.next = self.rows.start + start;
        self.current = None;
        Ok(())
    }

    fn next(&mut self) -> Result<bool> {
        let Range { start, end } = self.rows;
        if self.next >= end {
            self.current = None;
            return Ok(false);
        }
        let batch = self.next..self.next + self.batch_size;
        let pad = batch.end.saturating_sub(end);
        check_round_batch(pad, end - start, self.batch_size)?;
        let index: Vec<usize> = memory::collected(batch.map(|i| start + (i - start) % (end - start)));
        self.overflow = pad % (end - start);
        self.next += self.batch_size;
        let data = self.data.matrix(&index, self.data_columns, self.dtype)?;
        let label = match &self.labels {
            Some(labels) => Array::from(labels.matrix(&index, self.label_columns, self.dtype)?),
            None => {
                let first_numbers: Vec<f64> = memory::collected(index.iter().map(|i| self.data.first_numbers[*i]));
                Array::from(to_array(&first_numbers, self.dtype)?)
            }
        };
        let index = memory::collected(index.into_iter().map(|i| i as u64));
        self.current = Some(Batch { data: data.into(), label, index, pad });
        Ok(true)
    }

    fn batch(&self) -> Result<&Batch> {
        self.current.as_ref().ok_or_else(no_batch)
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn restart(&mut self, epoch: Epoch) -> Result<()> {
        let Range { start, end } = self.rows;
        self.next = start + first_example(epoch, end - start)?;
        self.epoch = epoch;
        self.overflow = 0;
        self.current = None;
        Ok(())
    }
}

/// Sorts the pairs of a line by column.
fn sort_columns(columns: &mut [i64], values: &mut [f64]) -> Result<(), String> {
    if !columns.is_sorted() {
        let mut pairs: Vec<(i64, f64)> = memory::with_capacity(columns.len());
        pairs.extend(columns.iter().copied().zip(values.iter().copied()));
        pairs.sort_by_key(|(column, _)| *column);
        for (i, pair) in pairs.into_iter().enumerate() {
            (columns[i], values[i]) = pair;
        }
    }
    match columns.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("the line has column {} twice", pair[0])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_file::TestFile;
    use super::*;

    fn iter(text: &str, more: &[(&str, &str)]) -> Result<Box<dyn DataIter>> {
        let file = TestFile::with(text);
        let attrs = [("data_libsvm", &*file), ("data_shape", "(3,)"), ("batch_size", "3")];
        create(&attrs.iter().chain(more).map(|(k, v)| (k.to_string(), v.to_string())).collect())
    }

    #[test]
    fn batches_are_sparse_and_wrap_around() {
        let mut it = iter("1.0 0:0.5 2:1.2\n-2.0\n\n-3.0 0:0.6 1:2.4 2:1.2\n4 2:-1.2\n", &[]).unwrap();
        assert!(it.next().unwrap());
        let b = it.batch().unwrap();
        let data = b.data.sparse().unwrap();
        assert_eq!(data.stored_values().to_vec::<f32>().unwrap(), [0.5, 1.2, 0.6, 2.4, 1.2]);
        assert_eq!(data.stored_indices()[0].to_vec::<i64>().unwrap(), [0, 2, 2, 5]);
        assert_eq!(data.stored_indices()[1].to_vec::<i64>().unwrap(), [0, 2, 0, 1, 2]);
        assert_eq!(b.label.dense().unwrap().to_vec::<f32>().unwrap(), [1.0, -2.0, -3.0]);
        assert!(it.next().unwrap());
        let b = it.batch().unwrap();
        assert_eq!((b.label.dense().unwrap().to_vec::<f32>().unwrap(), b.pad), (vec![4.0, 1.0, -2.0], 2));
        assert!(!it.next().unwrap());
        it.before_first().unwrap();
        assert!(it.next().unwrap());
        assert_eq!(it.batch().unwrap().label.dense().unwrap().to_vec::<f32>().unwrap(), [-3.0, 4.0, 1.0]);
    }

    #[test]
    fn a_batch_of_more_than_twice_the_examples_is_an_error() {
        let mut it = iter("1 0:1\n2 1:1\n", &[("batch_size", "1000000000")]).unwrap();
        assert!(it.next().unwrap_err().to_string().contains("number of input must be bigger than batch size"));
    }

    #[test]
    fn malformed_lines_are_named() {
        let error = |text: &str| iter(text, &[]).err().unwrap().to_string();
        assert!(error("1 0:1\n2 x\n").contains("line 2: 'x' is not of the form column:value"));
        assert!(error("1 3:1\n").contains("column 3 is beyond the 3 columns"));
        assert!(error("1 1:1 1:2\n").contains("column 1 twice"));
        assert!(error("\n").contains("no examples"));
        let e = iter("1 0:1\n", &[("round_batch", "False")]).err().unwrap().to_string();
        assert!(e.contains("round_batch=False"), "{e}");
    }
}
