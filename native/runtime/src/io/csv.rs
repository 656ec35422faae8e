//! `CSVIter`: examples and labels from comma-separated values.

use std::fs;

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::memory;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params;
use ferromx_core::params::{Attrs, NumDType, OpParams};
use ferromx_core::shape::{Dims, Shape};

use super::mnist::IterContext;
use super::{DataIter, Epoch, InMemory, LastBatch};

params! {
    /// Parameters of `CSVIter`.
    pub struct CsvParam {
        /// File with the examples, one per line.
        data_csv: String = required;
        /// Shape of one example.
        data_shape: Shape = required;
        /// File with the labels, one per line; NULL makes all labels 0.
        label_csv: String = (String::from("NULL"));
        /// Shape of one label.
        label_shape: Shape = (Shape::new(&[1]));
        /// Number of examples in a batch.
        batch_size: u32 = required, where 1..=u32::MAX;
        /// If true, examples from the start fill up the last batch, and the next epoch skips them; otherwise the last batch keeps
        /// examples of the batch before in the positions that are left, and the next epoch begins at the start.
        round_batch: bool = true;
        /// Accepted for compatibility: the data is in memory, so nothing is prefetched.
        prefetch_buffer: u64 = 4;
        /// Accepted for compatibility: batches are in CPU memory.
        ctx: IterContext = (IterContext::Gpu);
        /// Type of data and labels; `float32` if None.
        dtype: Option<NumDType> = None;
    }
}

/// Reads both files and creates the iterator.
pub(super) fn create(attrs: &Attrs) -> Result<Box<dyn DataIter>> {
    let p = CsvParam::parse(attrs)?;
    let dtype = p.dtype.map_or(DType::F32, |d| d.0);
    let data = read(&p.data_csv, &p.data_shape, dtype)?;
    let n = data.shape().dim(0) as u64;
    let label = match p.label_csv.as_str() {
        "NULL" => NDArray::zeros(&batch_shape(n as i64, &p.label_shape), dtype, data.context())?,
        path => read(path, &p.label_shape, dtype)?,
    };
    let num_labels = label.shape().dim(0);
    ensure!(num_labels == n as i64, "{} has {n} examples, but {} has {num_labels} labels", p.data_csv, p.label_csv);
    // As in MXNet, labels of shape (1,) make a batch of shape (batch_size,).
    let label = if p.label_shape.dims() == [1] { label.reshape(&Shape::new(&[num_labels]))? } else { label };
    Ok(Box::new(InMemory {
        data,
        label,
        order: memory::collected(0..n as usize),
        batch_size: p.batch_size as usize,
        last_batch: if p.round_batch { LastBatch::RollOver } else { LastBatch::Pad },
        overflow: 0,
        next: 0,
        epoch: Epoch::default(),
        current: None,
    }))
}

/// The shape (n, *example).
fn batch_shape(n: i64, example: &Shape) -> Shape {
    let mut dims = Dims::from_slice(&[n]);
    dims.extend_from_slice(example.dims());
    Shape::from(dims)
}

fn read(path: &str, example: &Shape, dtype: DType) -> Result<NDArray> {
    let width = example.checked_elements()?;
    let text = fs::read_to_string(path).map_err(|e| Error::io(path, &e))?;
    let mut values: Vec<f64> = Vec::new();
    let mut rows = 0;
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let before = values.len();
        memory::reserve(&mut values, line.len().div_ceil(2) + 1);
        for field in line.split(',') {
            values.push(
                field.trim().parse().map_err(|_| {
                    Error::Format(format!("{path}, line {}: '{}' is not a number", i + 1, field.trim()))
                })?,
            );
        }
        let num_values = values.len() - before;
        if num_values != width {
            return Err(Error::Format(format!(
                "{path}, line {}: {num_values} values, but the shape {example} has {width}",
                i + 1
            )));
        }
        rows += 1;
    }
    ensure!(rows > 0, "{path} has no examples");
    super::convert(NDArray::from_slice(&values, batch_shape(rows, example).dims())?, dtype)
}

#[cfg(test)]
mod tests {
    use super::super::test_file::TestFile;
    use super::*;

    fn iter(text: &str) -> Result<Box<dyn DataIter>> {
        let file = TestFile::with(text);
        let attrs = [("data_csv", &*file), ("data_shape", "(2,)"), ("batch_size", "2")];
        create(&attrs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())
    }

    #[test]
    fn batches_wrap_around() {
        let mut it = iter("1,2\n3,4\n\n5,6\n").unwrap();
        assert!(it.next().unwrap() && it.next().unwrap());
        let b = it.batch().unwrap();
        assert_eq!((b.data.dense().unwrap().to_vec::<f32>().unwrap(), b.pad), (vec![5., 6., 1., 2.], 1));
        assert_eq!(b.label.shape(), &[2].into());
    }

    #[test]
    fn parameters_of_other_iterators_are_ignored() {
        let file = TestFile::with("1,2\n3,4\n");
        let attrs = [("data_csv", &*file), ("data_shape", "(2,)"), ("batch_size", "2"), ("rand_mirror", "1")];
        let attrs: Attrs = attrs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let mut it = super::super::find("CSVIter").unwrap().create(&attrs).unwrap();
        assert!(it.next().unwrap());
        assert_eq!(it.batch().unwrap().data.dense().unwrap().to_vec::<f32>().unwrap(), [1., 2., 3., 4.]);
    }

    #[test]
    fn malformed_lines_are_named() {
        assert!(iter("1,2\n3\n").err().unwrap().to_string().contains("line 2: 1 values"));
        assert!(iter("1,2\n3,x4\n").err().unwrap().to_string().contains("line 2: 'x4' is not a number"));
        assert!(iter("\n").err().unwrap().to_string().contains("no examples"));
    }
}
