//! Batches made ahead by a thread of their own.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use ferromx_core::error::{Error, Result};

use super::{Batch, DataIter, Pass, no_batch};

/// What makes batches, one pass after the other.
pub(super) trait Producer: Send + 'static {
    /// Starts a pass; examples before its first were in the last batch that was taken of the pass before.
    ///
    /// # Errors
    /// The source can no longer be read.
    fn start(&mut self, pass: Pass) -> Result<()>;
    /// The next batch; `None` at the end of the pass.
    ///
    /// # Errors
    /// The source is damaged.
    fn produce(&mut self) -> Result<Option<Batch>>;
}

/// A thread that fills a buffer with the batches of one pass. It ends with the pass, with the first error, or when nobody takes
/// its batches any more, and hands the producer back.
struct Worker<P> {
    batches: Receiver<Result<Batch>>,
    thread: JoinHandle<P>,
}

/// An iterator whose batches are made ahead.
pub(super) struct Prefetch<P: Producer> {
    /// The producer between two passes; `None` while a worker has it.
    idle: Option<P>,
    worker: Option<Worker<P>>,
    buffer: usize,
    current: Option<Batch>,
    /// The pass that was begun last.
    pass: Pass,
    /// The pass after it; the examples at the end of the batch that was taken last belong to it.
    following: Pass,
    /// The pass is over; it begins anew with `before_first`.
    ended: bool,
}

impl<P: Producer> Prefetch<P> {
    /// At most `buffer` batches wait for being taken.
    pub fn new(producer: P, buffer: usize) -> Prefetch<P> {
        Prefetch {
            idle: Some(producer),
            worker: None,
            buffer,
            current: None,
            pass: Pass::default(),
            following: Pass::default(),
            ended: false,
        }
    }

    /// Ends the worker, if there is one, and takes the producer back.
    fn stop(&mut self) -> Result<()> {
        if let Some(Worker { batches, thread }) = self.worker.take() {
            // A worker that waits for room in the buffer sees that nobody will make any.
            drop(batches);
            self.idle = thread.join().ok();
        }
        match self.idle {
            Some(_) => Ok(()),
            None => Err(Error::Internal("the thread that reads ahead has ended by a panic".into())),
        }
    }

    fn start(&mut self) -> Result<()> {
        self.stop()?;
        let Some(mut producer) = self.idle.take() else { return Ok(()) };
        self.pass = self.following;
        self.following = Pass { number: self.pass.number.wrapping_add(1), first: 0 };
        if let Err(e) = producer.start(self.pass) {
            self.idle = Some(producer);
            return Err(e);
        }
        let (sender, batches) = sync_channel(self.buffer);
        let run = move || {
            while let Some(batch) = producer.produce().transpose() {
                let failed = batch.is_err();
                if sender.send(batch).is_err() || failed {
                    break;
                }
            }
            producer
        };
        let thread = std::thread::Builder::new().name("ferromx-reader".into()).spawn(run);
        let thread =
            thread.map_err(|e| Error::Unsupported(format!("no thread that reads ahead can be started: {e}")))?;
        self.worker = Some(Worker { batches, thread });
        Ok(())
    }
}

impl<P: Producer> DataIter for Prefetch<P> {
    fn before_first(&mut self) -> Result<()> {
        self.current = None;
        self.ended = false;
        self.stop()
    }

    fn next(&mut self) -> Result<bool> {
        self.current = None;
        if self.ended {
            return Ok(false);
        }
        if self.worker.is_none() {
            self.start()?;
        }
        let batch = self.worker.as_ref().and_then(|w| w.batches.recv().ok());
        if batch.as_ref().is_none_or(Result::is_err) {
            self.ended = true;
            self.stop()?;
        }
        self.current = batch.transpose()?;
        if let Some(batch) = &self.current {
            self.following.first = batch.pad as u64;
        }
        Ok(self.current.is_some())
    }

    fn batch(&self) -> Result<&Batch> {
        self.current.as_ref().ok_or_else(no_batch)
    }

    fn pass(&self) -> Pass {
        if self.worker.is_some() || self.ended { self.pass } else { self.following }
    }

    fn restart(&mut self, pass: Pass) -> Result<()> {
        self.before_first()?;
        self.following = pass;
        Ok(())
    }
}

impl<P: Producer> Drop for Prefetch<P> {
    fn drop(&mut self) {
        // The producer is dropped with the iterator; how its thread ended no longer matters to anybody.
        let _ended = self.stop();
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
        fn start(&mut self, _pass: Pass) -> Result<()> {
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

    fn pass(it: &mut impl DataIter) -> Vec<usize> {
        std::iter::from_fn(|| it.next().unwrap().then(|| it.batch().unwrap().pad)).collect()
    }

    #[test]
    fn passes_repeat_whenever_they_are_broken_off() {
        let mut it = Prefetch::new(Counter { next: 0, fails_at: 0 }, 2);
        assert!(it.batch().is_err());
        assert_eq!(pass(&mut it), [1, 2, 3, 4, 5]);
        assert!(!it.next().unwrap());
        it.before_first().unwrap();
        assert!(it.next().unwrap() && it.next().unwrap());
        it.before_first().unwrap();
        assert_eq!(pass(&mut it), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn errors_arrive_in_their_place() {
        let mut it = Prefetch::new(Counter { next: 0, fails_at: 3 }, 4);
        assert!(it.next().unwrap() && it.next().unwrap());
        assert!(it.next().unwrap_err().to_string().contains("damaged"));
        assert!(!it.next().unwrap());
        it.before_first().unwrap();
        assert!(it.next().unwrap());
    }
}
