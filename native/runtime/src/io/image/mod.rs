//! Iterators over RecordIO files of images: `ImageRecordIter`, its variants, and `ImageDetRecordIter`.
//!
//! - `params` has the parameters, in groups that several iterators share;
//! - `records` locates and reads the records;
//! - `augment` decodes and augments images, with `warp` for rotation, shear and scale, and `detection` augments images with bounding boxes;
//! - `normalize` writes the samples to a batch.

mod augment;
mod detection;
mod normalize;
mod params;
mod records;
mod warp;

use std::path::Path;
use std::sync::Mutex;

use ferromx_core::context::Context;
use ferromx_core::dispatch;
use ferromx_core::dtype::{DType, Element};
use ferromx_core::ensure;
use ferromx_core::error::{Error, Result};
use ferromx_core::memory;
use ferromx_core::ndarray::NDArray;
use ferromx_core::params::Attrs;
use ferromx_core::shape::Shape;
use ferromx_core::storage::write_slice;
use ferromx_kernels::rng::{Draws, Philox};

use super::prefetch::{Prefetch, Producer};
use super::{Batch, DataIter, Epoch, check_padding, check_round_batch};
use augment::{Augmenter, Image};
use detection::{DetectionAugmenter, Objects};
use normalize::{Normalizer, read_mean_image, write_mean_image};
use params::{
    AugmentParam, BatchParam, DetectionSourceParam, DetectionStdParam, MeanParam, MirrorParam, SourceParam, StdParam,
    parse_group,
};
pub(super) use params::{detection_fields, image_fields};
use records::{Record, Records, Source};

/// Length of the header that precedes detection labels: channels, height and width of the image, end of the labels.
const DETECTION_HEADER: usize = 4;

/// The task that images are prepared for, which determines their labels and augmentation.
enum Task {
    /// Classification or regression.
    Label { augmenter: Augmenter, label_width: usize },
    /// Object detection. Labels are padded with `fill`.
    Objects { augmenter: DetectionAugmenter, label_width: usize, fill: f32 },
}

/// Decodes, augments and normalizes records.
struct Preprocessor {
    task: Task,
    normalizer: Normalizer,
    channels: usize,
}

impl Preprocessor {
    fn label_width(&self) -> usize {
        match &self.task {
            Task::Label { label_width, .. } => *label_width,
            Task::Objects { label_width, .. } => DETECTION_HEADER + label_width,
        }
    }

    /// Writes the data and the label of a record.
    fn process<T: Element>(&self, record: &Record, draws: &mut Draws, data: &mut [T], label: &mut [f32]) -> Result<()> {
        let image = Image::decode(record.image(), self.channels)?;
        let image = match &self.task {
            Task::Label { augmenter, .. } => {
                label.copy_from_slice(&record.labels);
                augmenter.apply(image, draws)?
            }
            Task::Objects { augmenter, fill, .. } => {
                let (range, width) = objects(record)?;
                let mut objects = Objects { rows: record.labels[range.clone()].to_vec(), width };
                let (image, (height, columns)) = augmenter.apply(image, &mut objects, draws)?;
                let (header, rest) = label.split_at_mut(DETECTION_HEADER);
                let end = range.start + objects.rows.len();
                rest[..range.start].copy_from_slice(&record.labels[..range.start]);
                rest[range.start..end].copy_from_slice(&objects.rows);
                rest[end..].fill(*fill);
                let numbers = [self.channels, height, columns, end];
                header.iter_mut().zip(numbers).for_each(|(h, n)| *h = n as f32);
                self.normalizer.write(&image, draws, data);
                zero_padding(data, (image.height, image.width), (height, columns));
                return Ok(());
            }
        };
        self.normalizer.write(&image, draws, data);
        Ok(())
    }
}

/// Zeroes the pixels of each (height, width) plane outside its top left (rows, columns).
fn zero_padding<T: Element>(data: &mut [T], (height, width): (usize, usize), (rows, columns): (usize, usize)) {
    for plane in data.chunks_exact_mut(height * width) {
        plane[..rows * width].chunks_exact_mut(width).for_each(|row| row[columns..].fill(T::from_f32(0.0)));
        plane[rows * width..].fill(T::from_f32(0.0));
    }
}

fn check_labels(record: &Record, expected: usize) -> Result<()> {
    ensure!(
        record.labels.len() == expected,
        "image {} has {} labels, but label_width is {expected}",
        record.id,
        record.labels.len()
    );
    Ok(())
}

/// The range of the objects in the labels of a record, and the length of one object.
fn objects(record: &Record) -> Result<(std::ops::Range<usize>, usize)> {
    let labels = &record.labels;
    let invalid = || {
        Error::Format(format!(
            "the labels of image {} are not objects: expected the header length (at least 2), the object width (at least 5), the \
             rest of the header, and the objects",
            record.id
        ))
    };
    let integer = |i: usize| labels.get(i).filter(|x| x.fract() == 0.0 && (0.0..1e6).contains(*x)).map(|x| *x as usize);
    let (header, width) = integer(0).zip(integer(1)).ok_or_else(invalid)?;
    let length = labels.len().checked_sub(header).ok_or_else(invalid)?;
    if header < 2 || width < 5 || !length.is_multiple_of(width) {
        return Err(invalid());
    }
    Ok((header..labels.len(), width))
}

/// Maximum images in memory while a mean image is computed.
const MEAN_CHUNK: usize = 256;

/// Reads records and produces batches.
struct Loader {
    records: Records,
    preprocessor: Preprocessor,
    dtype: DType,
    /// Height and width of images.
    size: (usize, usize),
    batch_size: usize,
    round_batch: bool,
    num_threads: usize,
    shuffle: Option<u64>,
    /// Seed of the augmentations.
    seed: u64,
    /// Number of the next epoch.
    next_epoch: u64,
    order: Vec<usize>,
    next: usize,
}

/// The parameters that classification and detection share.
struct CommonParams<'p> {
    source: Source<'p>,
    shape: &'p Shape,
    /// The file of the mean image, or an empty string.
    mean_image: &'p str,
    threads: i32,
    verbose: bool,
    shuffle: Option<u64>,
    seed: u64,
}

/// The common parameters of `$p`, a [`SourceParam`] or a [`DetectionSourceParam`].
macro_rules! common_params {
    ($p:ident, $mean:ident, index: $index:expr, seed: $seed:expr) => {
        CommonParams {
            source: Source {
                records: &$p.path_imgrec,
                index: $index,
                list: &$p.path_imglist,
                num_parts: $p.num_parts as usize,
                part: $p.part_index as usize,
            },
            shape: &$p.data_shape,
            mean_image: &$mean.mean_img,
            threads: $p.preprocess_threads,
            verbose: $p.verbose,
            shuffle: $p.shuffle.then(|| combined_seed($p.seed, $p.shuffle_chunk_seed)),
            seed: $seed,
        }
    };
}

impl Producer for Loader {
    fn start(&mut self, epoch: Epoch) -> Result<()> {
        self.order = self.records.order(self.shuffle, epoch.number);
        self.next_epoch = epoch.number.wrapping_add(1);
        self.next = if self.round_batch { epoch.first as usize % self.order.len() } else { 0 };
        Ok(())
    }

    fn produce(&mut self) -> Result<Option<Batch>> {
        let n = self.order.len();
        if self.next >= n {
            return Ok(None);
        }
        let end = self.next + self.batch_size;
        let pad = end.saturating_sub(n);
        if self.round_batch {
            check_round_batch(pad, n, self.batch_size)?;
        } else {
            let image_bytes = self.preprocessor.channels * self.size.0 * self.size.1 * self.dtype.size();
            check_padding(pad, image_bytes, n, self.batch_size)?;
        }
        let mut rows = memory::with_capacity(self.batch_size);
        rows.extend_from_slice(&self.order[self.next..end.min(n)]);
        if pad > 0 {
            // The first records of the next epoch fill up the batch.
            let next_order = self.records.order(self.shuffle, self.next_epoch);
            rows.extend(next_order.iter().cycle().take(pad));
        }
        // The padding repeats after `n` rows; the repetitions are copied.
        let num_distinct = rows.len() - pad.saturating_sub(n);
        self.next = end;
        let records = self.read(&rows[..num_distinct])?;
        let (data, label) = dispatch!(self.dtype, T in [f32, u8, i8] => self.preprocess::<T>(&rows, &records)?,
            other => return Err(Error::Internal(format!("images of type {other}"))));
        Ok(Some(Batch {
            data: data.into(),
            label: label.into(),
            index: memory::collected((0..rows.len()).map(|k| records[first_copy(k, num_distinct, n)].id)),
            pad,
        }))
    }
}

impl Loader {
    /// The mean image in a file. If the file does not exist, it is created: the mean of all images before they are normalized.
    fn mean_image(&mut self, path: &str) -> Result<Vec<f32>> {
        let dims = [self.preprocessor.channels, self.size.0, self.size.1];
        if Path::new(path).exists() {
            return read_mean_image(path, dims);
        }
        log::info!("computing the mean of {} images for {path}", self.records.len());
        let normalizer = std::mem::replace(&mut self.preprocessor.normalizer, Normalizer::identity()?);
        let mean = self.mean_of_images()?;
        self.preprocessor.normalizer = normalizer;
        write_mean_image(path, dims, &mean)?;
        Ok(mean)
    }

    fn mean_of_images(&mut self) -> Result<Vec<f32>> {
        let image_len = self.preprocessor.channels * self.size.0 * self.size.1;
        let mut sums = memory::filled(0f64, image_len);
        self.order = self.records.order(None, 0);
        let order = self.order.clone();
        for rows in order.chunks(self.batch_size.min(MEAN_CHUNK)) {
            let records = self.read(rows)?;
            let (images, _) = self.preprocess::<f32>(rows, &records)?;
            for image in images.to_vec::<f32>()?.chunks_exact(image_len) {
                sums.iter_mut().zip(image).for_each(|(sum, x)| *sum += f64::from(*x));
            }
        }
        Ok(sums.iter().map(|sum| (sum / order.len() as f64) as f32).collect())
    }

    /// Reads records and checks the number of their labels.
    fn read(&mut self, rows: &[usize]) -> Result<Vec<Record>> {
        let mut records = memory::with_capacity(rows.len());
        for i in rows {
            memory::check()?;
            let record = self.records.read(*i)?;
            if let Task::Label { label_width, .. } = self.preprocessor.task {
                check_labels(&record, label_width).map_err(|e| self.records.locate_error(*i, e))?;
            }
            records.push(record);
        }
        Ok(records)
    }

    /// Data and labels of a batch. `records` are those of the first rows; the other rows repeat them.
    fn preprocess<T: Element>(&self, rows: &[usize], records: &[Record]) -> Result<(NDArray, NDArray)> {
        let (n, channels, width) = (rows.len(), self.preprocessor.channels, self.preprocessor.label_width());
        let dims = [n, channels, self.size.0, self.size.1];
        let data = NDArray::empty(&Shape::from_usize(&dims), T::DTYPE, Context::default())?;
        let mut labels = memory::filled(0f32, n.saturating_mul(width));
        write_slice::<T, _>(&data, |out| {
            let example_len = out.len() / n;
            let examples = out.chunks_exact_mut(example_len).zip(labels.chunks_exact_mut(width));
            self.preprocess_records(rows, records, examples)?;
            for k in records.len()..n {
                let from = first_copy(k, records.len(), self.order.len());
                out.copy_within(from * example_len..(from + 1) * example_len, k * example_len);
                labels.copy_within(from * width..(from + 1) * width, k * width);
            }
            Ok(())
        })??;
        // As in MXNet, single labels make a batch of shape (batch_size,).
        let shape = if matches!(self.preprocessor.task, Task::Label { label_width: 1, .. }) {
            vec![n as i64]
        } else {
            vec![n as i64, width as i64]
        };
        Ok((data, NDArray::from_slice(&labels, &shape)?))
    }

    /// Preprocesses records in several threads into `examples`, the data and label of each row. Each record has its own random stream, so
    /// results do not depend on the scheduling.
    fn preprocess_records<'a, T: Element>(
        &self,
        rows: &[usize],
        records: &[Record],
        examples: impl Iterator<Item = (&'a mut [T], &'a mut [f32])> + Send,
    ) -> Result<()> {
        let random = Philox::new(self.seed, self.next_epoch);
        let first_failure = Mutex::new(None::<(usize, Error)>);
        let work = Mutex::new(examples.take(records.len()).enumerate());
        let next_item = || work.lock().ok().and_then(|mut work| work.next());
        let run = || {
            while let Some((k, (data, label))) = next_item() {
                let mut draws = random.draws(rows[k] as u64);
                if let Err(e) = memory::catch(|| self.preprocessor.process(&records[k], &mut draws, data, label))
                    && let Ok(mut first) = first_failure.lock()
                    && first.as_ref().is_none_or(|(i, _)| *i > k)
                {
                    *first = Some((k, e));
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.num_threads.min(records.len()) {
                // If no more threads can be created, the existing ones do the work.
                if std::thread::Builder::new().spawn_scoped(scope, run).is_err() {
                    break;
                }
            }
            run();
        });
        match first_failure.into_inner().unwrap_or(None) {
            Some((k, e)) => Err(self.records.locate_error(rows[k], e)),
            None => Ok(()),
        }
    }
}

/// The first row that equals row `k` of a batch, whose rows from `num_distinct` on repeat with this period.
fn first_copy(k: usize, num_distinct: usize, period: usize) -> usize {
    match k.checked_sub(num_distinct) {
        None => k,
        Some(repeated) => num_distinct - period + repeated % period,
    }
}

/// Checks `data_shape` and returns (channels, height, width).
fn dims_of(shape: &Shape) -> Result<[usize; 3]> {
    match *shape.to_usize() {
        [c @ (1 | 3 | 4), h @ 1..=65536, w @ 1..=65536] => Ok([c, h, w]),
        _ => Err(Error::Value(format!(
            "data_shape is {shape}: (channels, height, width) with 1, 3 or 4 channels and at least one pixel was expected"
        ))),
    }
}

/// Opens the files and creates the iterator; `task` creates the task from the records.
fn open(
    common: CommonParams<'_>,
    batch: &BatchParam,
    dtype: DType,
    normalizer: Normalizer,
    task: impl FnOnce(&mut Records) -> Result<Task>,
) -> Result<Box<dyn DataIter>> {
    let [channels, height, width] = dims_of(common.shape)?;
    let mut records = Records::open(&common.source)?;
    let task = task(&mut records)?;
    if common.verbose {
        log::info!("{}: {} records, batches of {}", common.source.records, records.len(), batch.batch_size);
    }
    let num_cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut loader = Loader {
        records,
        preprocessor: Preprocessor { task, normalizer, channels },
        dtype,
        size: (height, width),
        batch_size: batch.batch_size as usize,
        round_batch: batch.round_batch,
        num_threads: (common.threads as usize).min(num_cpus),
        shuffle: common.shuffle,
        seed: common.seed,
        next_epoch: 0,
        order: Vec::new(),
        next: 0,
    };
    // Samples of type uint8 are not normalized.
    if !common.mean_image.is_empty() && dtype != DType::U8 {
        loader.preprocessor.normalizer.mean_image = Some(loader.mean_image(common.mean_image)?);
    }
    Ok(Box::new(Prefetch::new(loader, batch.prefetch_buffer as usize)))
}

/// Combines two seeds.
fn combined_seed(seed: i32, second: i32) -> u64 {
    u64::from(seed as u32) | u64::from(second as u32) << 32
}

fn check_sequence(given: &str, only: &str) -> Result<()> {
    ensure!(given == only, "aug_seq is '{given}': '{only}' is the only sequence of augmentations here");
    Ok(())
}

/// The requested element type, which must be one of `supported`; the first is the default.
fn dtype_of(batch: &BatchParam, supported: &[DType]) -> Result<DType> {
    let dtype = batch.dtype.map_or(supported[0], |d| d.0);
    let names: Vec<_> = supported.iter().map(|d| d.name()).collect();
    ensure!(supported.contains(&dtype), "dtype is {dtype}, but this iterator yields {}", names.join(", "));
    Ok(dtype)
}

/// `ImageRecordIter`.
pub(super) fn create(attrs: &Attrs) -> Result<Box<dyn DataIter>> {
    params::check_image(attrs)?;
    create_classification(attrs, &[DType::F32, DType::U8, DType::I8])
}

/// `ImageRecordIter_v1`.
pub(super) fn create_v1(attrs: &Attrs) -> Result<Box<dyn DataIter>> {
    params::check_image(attrs)?;
    create_classification(attrs, &[DType::F32])
}

/// `ImageRecordUInt8Iter` and `ImageRecordUInt8Iter_v1`.
pub(super) fn create_u8(attrs: &Attrs) -> Result<Box<dyn DataIter>> {
    params::check_image(attrs)?;
    create_classification(attrs, &[DType::U8])
}

/// `ImageRecordInt8Iter`.
pub(super) fn create_i8(attrs: &Attrs) -> Result<Box<dyn DataIter>> {
    params::check_image(attrs)?;
    create_classification(attrs, &[DType::I8])
}

fn create_classification(attrs: &Attrs, supported: &[DType]) -> Result<Box<dyn DataIter>> {
    let (p, batch): (SourceParam, BatchParam) = (parse_group(attrs)?, parse_group(attrs)?);
    check_sequence(&p.aug_seq, "aug_default")?;
    let dtype = dtype_of(&batch, supported)?;
    let dims = dims_of(&p.data_shape)?;
    let mirror: MirrorParam = parse_group(attrs)?;
    let mean: MeanParam = parse_group(attrs)?;
    let normalizer = Normalizer::new(&mean, &parse_group::<StdParam>(attrs)?, parse_group(attrs)?, mirror)?;
    let augmenter =
        Augmenter { param: parse_group::<AugmentParam>(attrs)?, warp: parse_group(attrs)?, size: (dims[1], dims[2]) };
    augmenter.check()?;
    let task = Task::Label { augmenter, label_width: p.label_width as usize };
    let seed = combined_seed(p.seed_aug.unwrap_or(p.seed), 1);
    let common = common_params!(p, mean, index: &p.path_imgidx, seed: seed);
    open(common, &batch, dtype, normalizer, |_| Ok(task))
}

/// `ImageDetRecordIter`.
pub(super) fn create_detection(attrs: &Attrs) -> Result<Box<dyn DataIter>> {
    params::check_detection(attrs)?;
    let (p, batch): (DetectionSourceParam, BatchParam) = (parse_group(attrs)?, parse_group(attrs)?);
    check_sequence(&p.aug_seq, "det_aug_default")?;
    let dtype = dtype_of(&batch, &[DType::F32])?;
    let dims = dims_of(&p.data_shape)?;
    let std = parse_group::<DetectionStdParam>(attrs)?.to_std();
    let (jitter, mirror) = (parse_group(&Attrs::new())?, parse_group(&Attrs::new())?);
    let mean: MeanParam = parse_group(attrs)?;
    let normalizer = Normalizer::new(&mean, &std, jitter, mirror)?;
    let augmenter =
        DetectionAugmenter::new(parse_group(attrs)?, parse_group(attrs)?, &parse_group(attrs)?, (dims[1], dims[2]))?;
    let common = common_params!(p, mean, index: "", seed: combined_seed(p.seed, 1));
    open(common, &batch, dtype, normalizer, |records| {
        let mut max_labels = 0;
        for i in 0..records.len() {
            let record = records.read(i)?;
            if let Ok(expected) = usize::try_from(p.label_width) {
                check_labels(&record, expected).map_err(|e| records.locate_error(i, e))?;
            }
            objects(&record).map_err(|e| records.locate_error(i, e))?;
            max_labels = max_labels.max(record.labels.len());
        }
        let label_width = if p.label_pad_width > 0 { p.label_pad_width as usize } else { max_labels };
        ensure!(label_width >= max_labels, "label_pad_width is {label_width}, but an image has {max_labels} labels");
        Ok(Task::Objects { augmenter, label_width, fill: p.label_pad_value })
    })
}

#[cfg(test)]
mod tests;
