//! The thread pool of [`parallel_for`].

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Spins before an idle worker yields; about twenty microseconds.
const SPINS: u32 = 2000;
/// Yields before an idle worker sleeps: some hundred microseconds on an otherwise idle processor. Waking it costs as much as a
/// small operator.
const YIELDS: u32 = 400;
/// A yield that takes longer has let another program run, often for milliseconds, during which the worker misses loops.
const LONG_YIELD: Duration = Duration::from_micros(100);
/// How long a worker does not yield before it sleeps, after a long yield: a sleeping thread is scheduled as soon as it is woken.
const CONTENDED: Duration = Duration::from_secs(1);

/// Maximum number of chunks of a parallel loop: the 32-bit halves of [`Job::claimed`] also count one failed claim per worker.
const MAX_CHUNKS: usize = u32::MAX as usize / 2;

type Panic = Box<dyn Any + Send>;

/// A parallel loop; lives on the stack of the thread that called [`parallel_for`].
struct Job<'a> {
    run: &'a (dyn Fn(usize) + Sync),
    chunks: usize,
    /// Number of chunks claimed by the caller (upper half) and by the workers (lower half).
    claimed: AtomicU64,
    /// Only workers with a smaller index take part.
    workers: usize,
    panic: Mutex<Option<Panic>>,
}

impl Job<'_> {
    /// The next chunk, if one is left. The caller takes the first ones and the workers the last ones, so that in successive loops
    /// a thread works on the same range of the data, which is still in its cache.
    fn claim(&self, caller: bool) -> Option<usize> {
        let claimed = self.claimed.fetch_add(if caller { 1 << 32 } else { 1 }, Ordering::Relaxed);
        let (first, last) = ((claimed >> 32) as usize, claimed as u32 as usize);
        let chunk = if caller { first } else { self.chunks.wrapping_sub(1 + last) };
        (first + last < self.chunks).then_some(chunk)
    }

    /// Claims and runs chunks until none is left. A panic ends its chunk only; the first payload is kept for the caller.
    fn work(&self, caller: bool) {
        while let Some(chunk) = self.claim(caller) {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.run)(chunk))) {
                self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
            }
        }
    }
}

/// State shared by callers and workers. The job pointer is valid while it is stored in `job`, or while a worker that read it is
/// counted in `inside`: before the job is dropped, the caller clears `job` and waits for `inside` to become zero.
struct Shared {
    job: AtomicPtr<Job<'static>>,
    /// Incremented whenever a job is published.
    epoch: AtomicU32,
    /// Number of workers that may hold the job pointer.
    inside: AtomicUsize,
    /// The caller, while it sleeps until `inside` is zero. The worker that makes `inside` zero wakes it, even if it found no job.
    waiting: Mutex<Option<Thread>>,
}

impl Shared {
    /// Returns when `inside` is zero.
    fn wait_for_workers(&self) {
        let empty = || self.inside.load(Ordering::SeqCst) == 0;
        if empty() || spin_until(empty) {
            return;
        }
        *self.waiting() = Some(std::thread::current());
        while !empty() {
            std::thread::park();
        }
        *self.waiting() = None;
    }

    fn leave(&self) {
        if self.inside.fetch_sub(1, Ordering::SeqCst) == 1
            && let Some(caller) = &*self.waiting()
        {
            caller.unpark();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Thread>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Pool {
    shared: Arc<Shared>,
    /// The workers, created on first use. Locked during a loop; a second loop then runs inline.
    workers: Mutex<Vec<Thread>>,
    threads: AtomicUsize,
}

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool {
        shared: Arc::new(Shared {
            job: AtomicPtr::default(),
            epoch: AtomicU32::new(0),
            inside: AtomicUsize::new(0),
            waiting: Mutex::new(None),
        }),
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
    if max_workers == 0 || chunks > MAX_CHUNKS {
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
        &self,
        workers: &mut Vec<Thread>,
        max_workers: usize,
        chunks: usize,
        run: &(dyn Fn(usize) + Sync),
    ) -> Option<Panic> {
        while workers.len() < max_workers {
            let (shared, index) = (self.shared.clone(), workers.len());
            let name = format!("ferromx-{}", index + 1);
            match std::thread::Builder::new().name(name).spawn(move || worker(&shared, index)) {
                Ok(handle) => workers.push(handle.thread().clone()),
                // If no more threads can be created, the existing ones (at least the caller) do the work.
                Err(_) => break,
            }
        }
        let job = Job { run, chunks, claimed: AtomicU64::new(0), workers: max_workers, panic: Mutex::new(None) };
        let shared = &*self.shared;
        shared.job.store((&raw const job).cast_mut().cast(), Ordering::SeqCst);
        shared.epoch.fetch_add(1, Ordering::SeqCst);
        workers.iter().take(max_workers).for_each(Thread::unpark);
        job.work(true);
        // After this store no worker can read the pointer without having been counted in `inside` first.
        shared.job.store(std::ptr::null_mut(), Ordering::SeqCst);
        shared.wait_for_workers();
        job.panic.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Spins for at most some microseconds; returns true as soon as the condition holds.
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
    /// Waits for at most some hundred microseconds; returns true as soon as the condition holds.
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

fn worker(shared: &Shared, index: usize) {
    let (mut last_epoch, mut waiting) = (0, Waiting::default());
    loop {
        let published = || shared.epoch.load(Ordering::SeqCst) != last_epoch;
        if !waiting.wait_until(published) {
            while !published() {
                std::thread::park();
            }
        }
        last_epoch = shared.epoch.load(Ordering::SeqCst);
        shared.inside.fetch_add(1, Ordering::SeqCst);
        let job = shared.job.load(Ordering::SeqCst);
        // SAFETY: the pointer is null or was read after this thread was counted in `inside`, and the caller does not drop the job
        // before `inside` is zero (see `Shared`).
        if let Some(job) = unsafe { job.as_ref() }
            && index < job.workers
        {
            job.work(false);
        }
        shared.leave();
    }
}
