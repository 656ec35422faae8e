//! `MNISTIter`: images and labels in IDX format.

use std::fs;

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::memory;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::{Attrs, NumDType, OpParams};
use ferromx_core::{param_enum, params};

use super::{DataIter, Epoch, InMemory, LastBatch};

param_enum! {
    /// The memory of batches.
    pub enum IterContext { Cpu = "cpu", Gpu = "gpu" }
}

params! {
    /// Parameters of `MNISTIter`.
    pub struct MnistParam {
        /// File with the images, in IDX format.
        image: String = (String::from("./train-images-idx3-ubyte"));
        /// File with the labels, in IDX format.
        label: String = (String::from("./train-labels-idx1-ubyte"));
        /// Number of examples in a batch.
        batch_size: i32 = 128, where 1..=i32::MAX;
        /// Whether to shuffle the examples, once, when the iterator is created.
        shuffle: bool = true;
        /// Whether an image is a vector instead of an array of shape (1, rows, columns).
        flat: bool = false;
        /// Seed of the shuffle.
        seed: i32 = 0;
        /// Whether to keep the size of the data set out of the log.
        silent: bool = false;
        /// Number of parts into which the data is divided for distributed training.
        num_parts: i32 = 1, where 1..=i32::MAX;
        /// Index of the part to read.
        part_index: i32 = 0, where 0..=i32::MAX;
        /// Accepted for compatibility: the data is in memory, so nothing is prefetched.
        prefetch_buffer: u64 = 4;
        /// Accepted for compatibility: batches are in CPU memory.
        ctx: IterContext = (IterContext::Gpu);
        /// Type of the data; `float32` if None.
        dtype: Option<NumDType> = None;
    }
}

/// Reads both files and creates the iterator.
pub(super) fn create(attrs: &Attrs) -> Result<Box<dyn DataIter>> {
    let p = MnistParam::parse(attrs)?;
    let (images, pixels) = read_idx(&p.image, 3)?;
    let (labels, classes) = read_idx(&p.label, 1)?;
    let (n, rows, columns) = (images[0], images[1], images[2]);
    ensure!(n == labels[0], "{} holds {n} images, but {} holds {} labels", p.image, p.label, labels[0]);
    ensure!(p.part_index < p.num_parts, "part_index {} must be less than num_parts {}", p.part_index, p.num_parts);
    let mut order: Vec<usize> = memory::collected(0..n);
    if p.shuffle {
        shuffle(&mut order, p.seed as u64);
    }
    let (parts, part) = (p.num_parts as usize, p.part_index as usize);
    let order = memory::copied(&order[n * part / parts..n * (part + 1) / parts]);
    let dims = match p.flat {
        true => vec![n as i64, (rows * columns) as i64],
        false => vec![n as i64, 1, rows as i64, columns as i64],
    };
    if !p.silent {
        log::info!("MNISTIter: {n} images of {rows}x{columns} from {}, batches of {}", p.image, p.batch_size);
    }
    let data: Vec<f32> = memory::collected(pixels.iter().map(|x| f32::from(*x) / 256.0));
    let label: Vec<f32> = memory::collected(classes.iter().map(|x| f32::from(*x)));
    let data = super::convert(NDArray::from_slice(&data, &dims)?, p.dtype.map_or(DType::F32, |d| d.0))?;
    Ok(Box::new(InMemory {
        data,
        label: NDArray::from_slice(&label, &[n as i64])?,
        order,
        batch_size: p.batch_size as usize,
        last_batch: LastBatch::Discard,
        overflow: 0,
        next: 0,
        epoch: Epoch::default(),
        current: None,
    }))
}

/// Fisher-Yates shuffle with a multiplicative congruential generator (Lehmer; Steele and Vigna, 2021).
fn shuffle(items: &mut [usize], seed: u64) {
    let mut state = (u128::from(seed) << 1 | 1).wrapping_mul(0xDA94_2042_E4DD_58B5_9E37_79B9_7F4A_7C15);
    let mut random = |n: usize| {
        state = state.wrapping_mul(0xDA94_2042_E4DD_58B5);
        ((u128::from((state >> 64) as u64) * n as u128) >> 64) as usize
    };
    for i in (1..items.len()).rev() {
        items.swap(i, random(i + 1));
    }
}

/// Reads an IDX file of unsigned bytes with `ndim` dimensions. Returns dimensions and data.
fn read_idx(path: &str, ndim: usize) -> Result<(Vec<usize>, Vec<u8>)> {
    let bytes = fs::read(path).map_err(|e| Error::io(path, &e))?;
    let invalid = |reason: String| Error::Format(format!("{path} is not an IDX file of {ndim} dimensions: {reason}"));
    let u32_at = |i: usize| bytes.get(4 * i..4 * i + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err(invalid("it is compressed; unpack it with gunzip first".into()));
    }
    let magic = u32_at(0).ok_or_else(|| invalid("it is empty".into()))?;
    if magic != 0x800 + ndim as u32 {
        return Err(invalid(format!("it begins with {magic:#x} instead of {:#x}", 0x800 + ndim)));
    }
    let dims: Vec<usize> = (1..=ndim)
        .map(|i| u32_at(i).map(|d| d as usize).ok_or_else(|| invalid("its header is cut off".into())))
        .collect::<Result<_>>()?;
    let header = 4 * (ndim + 1);
    let expected = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).unwrap_or(usize::MAX);
    if bytes.len() - header != expected {
        return Err(invalid(format!(
            "its header gives {dims:?} = {expected} bytes, but {} follow",
            bytes.len() - header
        )));
    }
    Ok((dims, memory::copied(&bytes[header..])))
}

#[cfg(test)]
mod tests {
    use super::super::test_file::TestFile;
    use super::*;

    /// Files of three images, without the last `cut` bytes, and of their labels.
    fn files(cut: usize) -> (TestFile, TestFile) {
        let mut images = vec![0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1];
        images.extend([0, 128, 64, 255, 1, 2]);
        images.truncate(images.len() - cut);
        (TestFile::with(images), TestFile::with([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]))
    }

    fn attrs(image: &str, label: &str, more: &[(&str, &str)]) -> Attrs {
        let all = [("image", image), ("label", label), ("batch_size", "2")];
        all.iter().chain(more).map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }

    #[test]
    fn pixels_are_scaled_and_the_last_batch_is_dropped() {
        let (i, l) = files(0);
        let mut it = create(&attrs(&i, &l, &[("shuffle", "False")])).unwrap();
        assert!(it.next().unwrap());
        let b = it.batch().unwrap();
        assert_eq!(b.data.shape(), &[2, 1, 2, 1].into());
        assert_eq!(b.data.dense().unwrap().to_vec::<f32>().unwrap(), [0.0, 0.5, 0.25, 255.0 / 256.0]);
        assert_eq!(b.label.dense().unwrap().to_vec::<f32>().unwrap(), [7.0, 8.0]);
        assert!(!it.next().unwrap());
    }

    #[test]
    fn damaged_files_are_named() {
        let (i, l) = files(1);
        let e = create(&attrs(&i, &l, &[])).err().unwrap().to_string();
        assert!(e.contains(&*i) && e.contains("= 6 bytes, but 5 follow"), "{e}");
        assert!(create(&attrs("/no/such", &l, &[])).err().unwrap().to_string().contains("/no/such"));
        assert!(create(&attrs(&l, &l, &[])).err().unwrap().to_string().contains("0x801 instead of 0x803"));
    }

    #[test]
    fn a_seed_fixes_the_order() {
        let order = |seed| {
            let mut v: Vec<usize> = (0..100).collect();
            shuffle(&mut v, seed);
            v
        };
        assert_eq!(order(3), order(3));
        assert_ne!(order(3), order(4));
        let mut sorted = order(5);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }
}
