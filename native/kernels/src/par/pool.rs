//! The thread pool of [`parallel_for`].

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Spins before an idle worker yields; about twenty microseconds.
const SPINS: u32 = 2000;
/// Yields before an idle worker sleeps: a few hundred microseconds on an otherwise idle processor. Waking it costs as much as a
/// small operator.
const YIELDS: u32 = 400;
/// A yield that takes longer has let another program run, often for milliseconds, during which the worker misses loops.
const LONG_YIELD: Duration = Duration::from_micros(100);
/// How long a worker does not yield before it sleeps, after a long yield: a sleeping thread is scheduled as soon as it is woken.
const CONTENDED: Duration = Duration::from_secs(1);

/// Maximum number of ranges that the chunks of a loop are divided into.
const MAX_RANGES: usize = 32;

type Panic = Box<dyn Any + Send>;

/// A parallel loop; lives on the stack of the thread that called [`parallel_for`].
///
/// The chunks are divided evenly into ranges, one per thread. A thread first claims the chunks of its own range, so that in successive
/// loops it works on the same part of the data, which is still in its cache; then it takes what other threads have left.
struct ParallelLoop<'a> {
    run: &'a (dyn Fn(usize) + Sync),
    chunks: usize,
    /// Number of workers that may take part.
    workers: usize,
    /// Number of claims of each range, including those that failed.
    claims: [Claims; MAX_RANGES],
    panic: Mutex<Option<Panic>>,
}

/// A counter on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Claims(AtomicUsize);

impl ParallelLoop<'_> {
    /// Claims and runs chunks until none is left. A panic ends its chunk only; the first payload is kept for the caller. `thread` is 0
    /// for the caller and 1 for the first worker.
    fn work(&self, thread: usize) {
        let ranges = (self.workers + 1).min(MAX_RANGES);
        for i in 0..ranges {
            let range = (thread + i) % ranges;
            let start_of = |range: usize| self.chunks / ranges * range + self.chunks % ranges * range / ranges;
            let (start, end) = (start_of(range), start_of(range + 1));
            while let Some(chunk) = self.claim(range, start, end) {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.run)(chunk))) {
                    self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
                }
            }
        }
    }

    /// The next chunk of a range from `start` to `end`, if one is left.
    fn claim(&self, range: usize, start: usize, end: usize) -> Option<usize> {
        let claims = &self.claims[range].0;
        let is_left = |claimed: usize| claimed < end - start;
        // An increment would take the cache line from the other threads.
        if !is_left(claims.load(Ordering::Relaxed)) {
            return None;
        }
        Some(claims.fetch_add(1, Ordering::Relaxed)).filter(|claimed| is_left(*claimed)).map(|claimed| start + claimed)
    }
}

/// The loop of a worker, on cache lines of its own: a worker that waits for a loop, or ends one, does not slow down the others.
///
/// It is null, a loop that the worker may take, or [`BUSY`] while the worker runs it. The caller takes back a loop that the worker has not
/// taken, and waits while the worker is busy, so it does not drop a loop in use.
#[repr(align(128))]
struct Slot(AtomicPtr<ParallelLoop<'static>>);

/// The address in the slot of a worker that runs a loop.
const BUSY: *mut ParallelLoop<'static> = std::ptr::dangling_mut();

impl Slot {
    fn is_empty(&self) -> bool {
        self.0.load(Ordering::SeqCst).is_null()
    }

    /// Takes the loop, if there is one.
    fn take(&self) -> Option<*const ParallelLoop<'static>> {
        let parallel_loop = self.0.load(Ordering::Relaxed);
        let is_loop = !parallel_loop.is_null() && parallel_loop != BUSY;
        (is_loop && self.replace(parallel_loop, BUSY)).then_some(parallel_loop.cast_const())
    }

    /// Replaces a pointer by another one; false if the slot does not hold it.
    fn replace(&self, from: *mut ParallelLoop<'static>, to: *mut ParallelLoop<'static>) -> bool {
        self.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }
}

/// The caller of a loop, while it sleeps until the workers are no longer busy. They wake it.
#[derive(Default)]
struct Caller {
    is_asleep: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl Caller {
    /// Returns when the slot is empty.
    fn wait_for(&self, slot: &Slot) {
        if slot.is_empty() || spin_until(|| slot.is_empty()) {
            return;
        }
        *self.thread() = Some(std::thread::current());
        self.is_asleep.store(true, Ordering::SeqCst);
        while !slot.is_empty() {
            std::thread::park();
        }
        self.is_asleep.store(false, Ordering::SeqCst);
        *self.thread() = None;
    }

    /// To be called by a worker that has emptied its slot.
    fn wake(&self) {
        if self.is_asleep.load(Ordering::SeqCst)
            && let Some(thread) = &*self.thread()
        {
            thread.unpark();
        }
    }

    fn thread(&self) -> MutexGuard<'_, Option<Thread>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Worker {
    thread: Thread,
    slot: Arc<Slot>,
}

struct Pool {
    caller: Caller,
    /// The workers, created on first use. Locked during a loop; a second loop then runs inline.
    workers: Mutex<Vec<Worker>>,
    threads: AtomicUsize,
}

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool {
        caller: Caller::default(),
        workers: Mutex::new(Vec::new()),
        threads: AtomicUsize::new(default_threads()),
    })
}

/// The thread count from the environment, else the number of processors available to the process.
fn default_threads() -> usize {
    let from = |name: &str| std::env::var(name).ok().and_then(|value| parse_threads(&value));
    from("MXNET_CPU_WORKER_NTHREADS")
        .or_else(|| from("OMP_NUM_THREADS"))
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Parses a positive count. Of an OpenMP list with one count per nesting level ("4,2"), takes the first, the outermost level.
pub(super) fn parse_threads(value: &str) -> Option<usize> {
    value.split(',').next()?.trim().parse().ok().filter(|&count| count > 0)
}

/// The maximum number of threads of a parallel loop, including the calling one.
///
/// Initially this is `MXNET_CPU_WORKER_NTHREADS`, else `OMP_NUM_THREADS`, else the number of processors available to the process
/// (respecting affinity and control group quota).
pub fn num_threads() -> usize {
    pool().threads.load(Ordering::Relaxed)
}

/// Sets [`num_threads`] for subsequent loops and returns the old value. Zero counts as one.
pub fn set_num_threads(threads: usize) -> usize {
    pool().threads.swap(threads.max(1), Ordering::Relaxed)
}

/// Runs `f(0)`, …, `f(chunks - 1)`, each once, in any order, on the calling thread and the workers, and returns when all have
/// finished.
///
/// If called from within a chunk, or while another thread runs a parallel loop, it runs on the calling thread alone.
///
/// # Panics
/// Panics if a chunk panics, with the payload of the first panic, after all started chunks have ended. The pool remains usable.
#[inline]
pub fn parallel_for(chunks: usize, f: impl Fn(usize) + Sync) {
    run_chunks(chunks, &f);
}

/// [`parallel_for`] without its type parameter, so that it is compiled once.
fn run_chunks(chunks: usize, f: &(dyn Fn(usize) + Sync)) {
    let pool = pool();
    let max_workers = num_threads().min(chunks).saturating_sub(1);
    if max_workers == 0 {
        return (0..chunks).for_each(f);
    }
    let Ok(mut workers) = pool.workers.try_lock() else {
        return (0..chunks).for_each(f);
    };
    let outcome = pool.run(&mut workers, max_workers, chunks, f);
    drop(workers);
    if let Some(panic) = outcome {
        resume_unwind(panic);
    }
}

impl Pool {
    fn run(
        &'static self,
        workers: &mut Vec<Worker>,
        max_workers: usize,
        chunks: usize,
        run: &(dyn Fn(usize) + Sync),
    ) -> Option<Panic> {
        while workers.len() < max_workers {
            let (index, slot) = (workers.len(), Arc::new(Slot(AtomicPtr::default())));
            let (name, of_worker) = (format!("ferromx-{}", index + 1), slot.clone());
            match std::thread::Builder::new().name(name).spawn(move || worker(index, &of_worker, &self.caller)) {
                Ok(handle) => workers.push(Worker { thread: handle.thread().clone(), slot }),
                // If no more threads can be created, the existing ones (at least the caller) do the work.
                Err(_) => break,
            }
        }
        let workers = &workers[..max_workers.min(workers.len())];
        let parallel_loop =
            ParallelLoop { run, chunks, workers: max_workers, claims: Default::default(), panic: Mutex::new(None) };
        let pointer: *mut ParallelLoop<'static> = (&raw const parallel_loop).cast_mut().cast();
        workers.iter().for_each(|worker| worker.slot.0.store(pointer, Ordering::Release));
        workers.iter().for_each(|worker| worker.thread.unpark());
        parallel_loop.work(0);
        for Worker { slot, .. } in workers {
            if !slot.is_empty() && !slot.replace(pointer, std::ptr::null_mut()) {
                self.caller.wait_for(slot);
            }
        }
        parallel_loop.panic.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Spins for at most about twenty microseconds; returns true as soon as the condition holds.
fn spin_until(condition: impl Fn() -> bool) -> bool {
    (0..SPINS).any(|_| {
        std::hint::spin_loop();
        condition()
    })
}

/// How an idle worker waits before it sleeps.
#[derive(Default)]
struct Waiting {
    /// When the worker may yield again, after a long yield.
    contended_until: Option<Instant>,
}

impl Waiting {
    /// Waits for at most a few hundred microseconds; returns true as soon as the condition holds.
    fn wait_until(&mut self, condition: impl Fn() -> bool) -> bool {
        condition() || spin_until(&condition) || self.yield_until(condition)
    }

    /// Like [`spin_until`], but yields to other threads and waits longer, unless other programs run on this processor.
    fn yield_until(&mut self, condition: impl Fn() -> bool) -> bool {
        let mut before = Instant::now();
        if self.contended_until.is_some_and(|until| before < until) {
            return false;
        }
        for _ in 0..YIELDS {
            std::thread::yield_now();
            let after = Instant::now();
            if after - before > LONG_YIELD {
                self.contended_until = Some(after + CONTENDED);
                return condition();
            }
            if condition() {
                return true;
            }
            before = after;
        }
        false
    }
}

fn worker(index: usize, slot: &Slot, caller: &Caller) {
    let mut waiting = Waiting::default();
    loop {
        if !waiting.wait_until(|| !slot.is_empty()) {
            while slot.is_empty() {
                std::thread::park();
            }
        }
        if let Some(parallel_loop) = slot.take() {
            // SAFETY: the loop was in the slot when it was taken, and the caller does not drop it before the slot is empty.
            unsafe { &*parallel_loop }.work(index + 1);
            slot.0.store(std::ptr::null_mut(), Ordering::SeqCst);
            caller.wake();
        }
    }
}
