//! Iterators over RecordIO files of images: `ImageRecordIter`, its variants, and `ImageDetRecordIter`.

mod augment;
mod detection;
mod normal;
mod params;
mod records;
mod warp;

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
use super::{Batch, DataIter, Epoch};
use augment::{Augmenter, Image};
use detection::{DetectionAugmenter, Objects};
use normal::Normalizer;
use params::{
    AugmentParam, BatchParam, DetectionSourceParam, DetectionStdParam, JitterParam, MeanParam, MirrorParam,
    SourceParam, StdParam, group, refuse,
};
pub(super) use params::{bytes_fields, detection_fields, image_fields};
use records::{Record, Records, Source};

/// Length of the header that precedes detection labels: channels, height and width of the image, end of the labels.
const DETECTION_HEADER: usize = 4;

/// What the records are for: each task has its labels and its augmentation.
enum Task {
    Label { augmenter: Augmenter, label_width: usize },
    Objects { augmenter: DetectionAugmenter, label_width: usize, fill: f32 },
}

/// Decodes, augments and normalizes records.
struct Maker {
    task: Task,
    normalizer: Normalizer,
    channels: usize,
}

impl Maker {
    fn label_width(&self) -> usize {
        match &self.task {
            Task::Label { label_width, .. } => *label_width,
            Task::Objects { label_width, .. } => DETECTION_HEADER + label_width,
        }
    }

    /// Writes the data and the label of a record.
    fn make<T: Element>(&self, record: &Record, draws: &mut Draws, data: &mut [T], label: &mut [f32]) -> Result<()> {
        let image = Image::decode(record.image(), self.channels)?;
        let image = match &self.task {
            Task::Label { augmenter, .. } => {
                check_labels(record, label.len())?;
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
                clear_around(data, (image.height, image.width), (height, columns));
                return Ok(());
            }
        };
        self.normalizer.write(&image, draws, data);
        Ok(())
    }
}

/// Zeroes the pixels of each (height, width) plane outside of its top left (rows, columns).
fn clear_around<T: Element>(data: &mut [T], (height, width): (usize, usize), (rows, columns): (usize, usize)) {
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

/// Range of the objects among the labels of a record, and the length of one object.
fn objects(record: &Record) -> Result<(std::ops::Range<usize>, usize)> {
    let labels = &record.labels;
    let bad = || {
        Error::Format(format!(
            "the labels of image {} are not objects: expected the header length (at least 2), the object width (at least 5), the \
             rest of the header, and the objects",
            record.id
        ))
    };
    let number = |i: usize| labels.get(i).filter(|x| x.fract() == 0.0 && (0.0..1e6).contains(*x)).map(|x| *x as usize);
    let (header, width) = number(0).zip(number(1)).ok_or_else(bad)?;
    let length = labels.len().checked_sub(header).ok_or_else(bad)?;
    if header < 2 || width < 5 || !length.is_multiple_of(width) {
        return Err(bad());
    }
    Ok((header..labels.len(), width))
}

/// Reads records and makes batches from them.
struct Loader {
    records: Records,
    maker: Maker,
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
struct Common<'p> {
    source: Source<'p>,
    shape: &'p Shape,
    threads: i32,
    verbose: bool,
    shuffle: Option<u64>,
    seed: u64,
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
        let mut rows = memory::with_capacity(self.batch_size);
        rows.extend_from_slice(&self.order[self.next..end.min(n)]);
        if pad > 0 {
            // The first records of the next epoch fill up the batch.
            let next_order = self.records.order(self.shuffle, self.next_epoch);
            rows.extend(next_order.iter().cycle().take(pad));
        }
        self.next = end;
        let mut records = memory::with_capacity(rows.len());
        for i in &rows {
            memory::check()?;
            records.push(self.records.read(*i)?);
        }
        let (data, label) = dispatch!(self.dtype, T in [f32, u8, i8] => self.fill::<T>(&rows, &records)?,
            other => return Err(Error::Internal(format!("images of type {other}"))));
        Ok(Some(Batch {
            data: data.into(),
            label: label.into(),
            index: memory::collected(records.iter().map(|r| r.id)),
            pad,
        }))
    }
}

impl Loader {
    /// Decodes records on several threads. Each record has its own random stream, so results do not depend on the scheduling.
    fn fill<T: Element>(&self, rows: &[usize], records: &[Record]) -> Result<(NDArray, NDArray)> {
        let (n, channels, width) = (rows.len(), self.maker.channels, self.maker.label_width());
        let dims = [n, channels, self.size.0, self.size.1];
        let data = NDArray::empty(&Shape::from_usize(&dims), T::DTYPE, Context::default())?;
        let mut labels = memory::filled(0f32, n.saturating_mul(width));
        let random = Philox::new(self.seed, self.next_epoch);
        let failed = Mutex::new(None::<(usize, Error)>);
        write_slice::<T, _>(&data, |out| {
            let row = out.len() / n;
            let work = Mutex::new(out.chunks_exact_mut(row).zip(labels.chunks_exact_mut(width)).enumerate());
            let take = || work.lock().ok().and_then(|mut work| work.next());
            let run = || {
                while let Some((k, (data, label))) = take() {
                    let mut draws = random.draws(rows[k] as u64);
                    if let Err(e) = memory::catch(|| self.maker.make(&records[k], &mut draws, data, label))
                        && let Ok(mut first) = failed.lock()
                        && first.as_ref().is_none_or(|(i, _)| *i > k)
                    {
                        *first = Some((k, e));
                    }
                }
            };
            std::thread::scope(|scope| {
                for _ in 1..self.num_threads.min(n) {
                    // If no more threads can be created, the existing ones do the work.
                    if std::thread::Builder::new().spawn_scoped(scope, run).is_err() {
                        break;
                    }
                }
                run();
            });
        })?;
        if let Some((k, e)) = failed.into_inner().unwrap_or(None) {
            return Err(self.records.locate_error(rows[k], e));
        }
        // As in MXNet, single labels make a batch of shape (batch_size,).
        let shape = if matches!(self.maker.task, Task::Label { label_width: 1, .. }) {
            vec![n as i64]
        } else {
            vec![n as i64, width as i64]
        };
        Ok((data, NDArray::from_slice(&labels, &shape)?))
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
    common: Common<'_>,
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
    let loader = Loader {
        records,
        maker: Maker { task, normalizer, channels },
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
    Ok(Box::new(Prefetch::new(loader, batch.prefetch_buffer as usize)))
}

/// Combines two seeds.
fn seed_of(seed: i32, second: i32) -> u64 {
    u64::from(seed as u32) | u64::from(second as u32) << 32
}

fn check_sequence(given: &str, only: &str) -> Result<()> {
    ensure!(given == only, "aug_seq is '{given}': '{only}' is the only sequence of augmentations here");
    Ok(())
}

/// The requested element type, which must be one of `possible`; the first is the default.
fn dtype_of(batch: &BatchParam, possible: &[DType]) -> Result<DType> {
    let dtype = batch.dtype.map_or(possible[0], |d| d.0);
    let names: Vec<_> = possible.iter().map(|d| d.name()).collect();
    ensure!(possible.contains(&dtype), "dtype is {dtype}, but this iterator yields {}", names.join(", "));
    Ok(dtype)
}

/// `ImageRecordIter`.
pub(super) fn create(attrs: &Attrs) -> Result<Box<dyn DataIter>> {
    params::check_image(attrs)?;
    labelled(attrs, &[DType::F32, DType::U8, DType::I8])
}

/// `ImageRecordIter_v1`.
pub(super) fn create_v1(attrs: &Attrs) -> Result<Box<dyn DataIter>> {
    params::check_image(attrs)?;
    labelled(attrs, &[DType::F32])
}

/// `ImageRecordUInt8Iter` and `ImageRecordUInt8Iter_v1`.
pub(super) fn create_u8(attrs: &Attrs) -> Result<Box<dyn DataIter>> {
    params::check_bytes(attrs)?;
    labelled(attrs, &[DType::U8])
}

/// `ImageRecordInt8Iter`.
pub(super) fn create_i8(attrs: &Attrs) -> Result<Box<dyn DataIter>> {
    params::check_bytes(attrs)?;
    labelled(attrs, &[DType::I8])
}

fn labelled(attrs: &Attrs, possible: &[DType]) -> Result<Box<dyn DataIter>> {
    let (p, batch): (SourceParam, BatchParam) = (group(attrs)?, group(attrs)?);
    check_sequence(&p.aug_seq, "aug_default")?;
    let dtype = dtype_of(&batch, possible)?;
    if dtype != DType::F32 {
        // Integer batches are not normalized.
        refuse::<MeanParam>(attrs)?;
        refuse::<StdParam>(attrs)?;
        refuse::<JitterParam>(attrs)?;
    }
    let dims = dims_of(&p.data_shape)?;
    let mirror: MirrorParam = group(attrs)?;
    let normalizer =
        Normalizer::new(&group::<MeanParam>(attrs)?, &group::<StdParam>(attrs)?, group(attrs)?, mirror, dims)?;
    let augmenter = Augmenter { param: group::<AugmentParam>(attrs)?, warp: group(attrs)?, size: (dims[1], dims[2]) };
    augmenter.check()?;
    let task = Task::Label { augmenter, label_width: p.label_width as usize };
    let common = Common {
        source: Source {
            records: &p.path_imgrec,
            index: &p.path_imgidx,
            list: &p.path_imglist,
            num_parts: p.num_parts as usize,
            part: p.part_index as usize,
        },
        shape: &p.data_shape,
        threads: p.preprocess_threads,
        verbose: p.verbose,
        shuffle: p.shuffle.then(|| seed_of(p.seed, p.shuffle_chunk_seed)),
        seed: seed_of(p.seed_aug.unwrap_or(p.seed), 1),
    };
    open(common, &batch, dtype, normalizer, |_| Ok(task))
}

/// `ImageDetRecordIter`.
pub(super) fn create_detection(attrs: &Attrs) -> Result<Box<dyn DataIter>> {
    params::check_detection(attrs)?;
    let (p, batch): (DetectionSourceParam, BatchParam) = (group(attrs)?, group(attrs)?);
    check_sequence(&p.aug_seq, "det_aug_default")?;
    let dtype = dtype_of(&batch, &[DType::F32])?;
    let dims = dims_of(&p.data_shape)?;
    let std = group::<DetectionStdParam>(attrs)?.to_std();
    let (jitter, mirror) = (group(&Attrs::new())?, group(&Attrs::new())?);
    let normalizer = Normalizer::new(&group::<MeanParam>(attrs)?, &std, jitter, mirror, dims)?;
    let augmenter = DetectionAugmenter::new(group(attrs)?, group(attrs)?, &group(attrs)?, (dims[1], dims[2]))?;
    let common = Common {
        source: Source {
            records: &p.path_imgrec,
            index: "",
            list: &p.path_imglist,
            num_parts: p.num_parts as usize,
            part: p.part_index as usize,
        },
        shape: &p.data_shape,
        threads: p.preprocess_threads,
        verbose: p.verbose,
        shuffle: p.shuffle.then(|| seed_of(p.seed, p.shuffle_chunk_seed)),
        seed: seed_of(p.seed, 1),
    };
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
