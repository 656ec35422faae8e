//! Prefetching: a background thread produces batches ahead of their use.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use ferromx_core::error::{Error, Result};
use ferromx_core::memory;

use super::{Batch, DataIter, Epoch, no_batch};

/// Produces the batches of one epoch after the other.
pub(super) trait Producer: Send + 'static {
    /// Starts an epoch at its first example. Those before it filled up the last batch of the previous epoch.
    ///
    /// # Errors
    /// The source cannot be read any more.
    fn start(&mut self, epoch: Epoch) -> Result<()>;
    /// The next batch; `None` at the end of the epoch.
    ///
    /// # Errors
    /// The source is damaged.
    fn produce(&mut self) -> Result<Option<Batch>>;
}

/// A thread that fills a channel with the batches of one epoch. It ends with the epoch, with the first error, or when the receiver is
/// dropped, and returns the producer.
struct Worker<P> {
    batches: Receiver<Result<Batch>>,
    thread: JoinHandle<P>,
}

/// An iterator with prefetching.
pub(super) struct Prefetch<P: Producer> {
    /// The producer; `None` while a worker has it.
    idle_producer: Option<P>,
    worker: Option<Worker<P>>,
    buffer: usize,
    current: Option<Batch>,
    /// The epoch that started last.
    epoch: Epoch,
    /// The epoch after it. The padding of the current batch belongs to it.
    next_epoch: Epoch,
    /// Whether the epoch is over and `before_first` was not called yet.
    has_ended: bool,
}

impl<P: Producer> Prefetch<P> {
    /// Keeps at most `buffer` finished batches.
    pub(super) fn new(producer: P, buffer: usize) -> Prefetch<P> {
        Prefetch {
            idle_producer: Some(producer),
            worker: None,
            buffer,
            current: None,
            epoch: Epoch::default(),
            next_epoch: Epoch::default(),
            has_ended: false,
        }
    }

    /// Stops the worker, if there is one, and takes the producer back.
    fn stop(&mut self) -> Result<()> {
        if let Some(Worker { batches, thread }) = self.worker.take() {
            // Dropping the receiver ends a worker that is blocked in `send`.
            drop(batches);
            self.idle_producer = thread.join().ok();
        }
        match self.idle_producer {
            Some(_) => Ok(()),
            None => Err(Error::Internal("the prefetching thread panicked".into())),
        }
    }

    fn start(&mut self) -> Result<()> {
        self.stop()?;
        let Some(mut producer) = self.idle_producer.take() else { return Ok(()) };
        self.epoch = self.next_epoch;
        self.next_epoch = Epoch { number: self.epoch.number.wrapping_add(1), first: 0 };
        if let Err(e) = producer.start(self.epoch) {
            self.idle_producer = Some(producer);
            return Err(e);
        }
        let (sender, batches) = sync_channel(self.buffer);
        let run = move || {
            while let Some(batch) = memory::catch(|| producer.produce()).transpose() {
                let is_error = batch.is_err();
                if sender.send(batch).is_err() || is_error {
                    break;
                }
            }
            producer
        };
        let thread = std::thread::Builder::new().name("ferromx-reader".into()).spawn(run);
        let thread = thread.map_err(|e| Error::Unsupported(format!("cannot start the prefetching thread: {e}")))?;
        self.worker = Some(Worker { batches, thread });
        Ok(())
    }
}

impl<P: Producer> DataIter for Prefetch<P> {
    fn before_first(&mut self) -> Result<()> {
        self.current = None;
        self.has_ended = false;
        self.stop()
    }

    fn next(&mut self) -> Result<bool> {
        self.current = None;
        if self.has_ended {
            return Ok(false);
        }
        if self.worker.is_none() {
            self.start()?;
        }
        let batch = self.worker.as_ref().and_then(|w| w.batches.recv().ok());
        if batch.as_ref().is_none_or(Result::is_err) {
            self.has_ended = true;
            self.stop()?;
        }
        self.current = batch.transpose()?;
        if let Some(batch) = &self.current {
            self.next_epoch.first = batch.pad as u64;
        }
        Ok(self.current.is_some())
    }

    fn batch(&self) -> Result<&Batch> {
        self.current.as_ref().ok_or_else(no_batch)
    }

    fn epoch(&self) -> Epoch {
        if self.worker.is_some() || self.has_ended { self.epoch } else { self.next_epoch }
    }

    fn restart(&mut self, epoch: Epoch) -> Result<()> {
        self.before_first()?;
        self.next_epoch = epoch;
        Ok(())
    }
}

impl<P: Producer> Drop for Prefetch<P> {
    fn drop(&mut self) {
        // No caller can get an error of the worker any more.
        let _ignored = self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferromx_core::ndarray::NDArray;

    struct Counter {
        next: usize,
        fails_at: usize,
    }

    impl Producer for Counter {
        fn start(&mut self, _: Epoch) -> Result<()> {
            self.next = 0;
            Ok(())
        }

        fn produce(&mut self) -> Result<Option<Batch>> {
            self.next += 1;
            ferromx_core::ensure!(self.next != self.fails_at, "damaged");
            let array = NDArray::from_slice(&[self.next as f32], &[1])?;
            let batch = Batch { data: array.clone().into(), label: array.into(), index: vec![], pad: self.next };
            Ok((self.next <= 5).then_some(batch))
        }
    }

    fn epoch(it: &mut impl DataIter) -> Vec<usize> {
        std::iter::from_fn(|| it.next().unwrap().then(|| it.batch().unwrap().pad)).collect()
    }

    #[test]
    fn epochs_restart_after_they_were_interrupted() {
        let mut it = Prefetch::new(Counter { next: 0, fails_at: 0 }, 2);
        assert!(it.batch().is_err());
        assert_eq!(epoch(&mut it), [1, 2, 3, 4, 5]);
        assert!(!it.next().unwrap());
        it.before_first().unwrap();
        assert!(it.next().unwrap() && it.next().unwrap());
        it.before_first().unwrap();
        assert_eq!(epoch(&mut it), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn errors_arrive_in_order() {
        let mut it = Prefetch::new(Counter { next: 0, fails_at: 3 }, 4);
        assert!(it.next().unwrap() && it.next().unwrap());
        assert!(it.next().unwrap_err().to_string().contains("damaged"));
        assert!(!it.next().unwrap());
        it.before_first().unwrap();
        assert!(it.next().unwrap());
    }
}
