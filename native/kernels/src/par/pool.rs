//! The thread pool behind [`parallel_for`].

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

/// Turns of the waiting loop before a thread without work lets others run; some twenty microseconds.
const SPINS: u32 = 2000;
/// How often a worker without work then lets others run before it goes to sleep: some hundred microseconds where nobody else
/// wants to. Waking it again costs as much as a small operator.
const YIELDS: u32 = 400;

/// The most chunks that are counted in half a word, with room for a vain claim of every worker. No loop has so many.
const MOST_CHUNKS: usize = u32::MAX as usize / 2;

type Panic = Box<dyn Any + Send>;

/// One parallel loop; lives on the stack of the thread that called [`parallel_for`].
struct Job<'a> {
    run: &'a (dyn Fn(usize) + Sync),
    chunks: usize,
    /// How many chunks the caller has claimed, in the upper half, and the workers, in the lower one.
    claimed: AtomicU64,
    /// Workers with a smaller index than this may take part.
    workers: usize,
    panic: Mutex<Option<Panic>>,
}

impl Job<'_> {
    /// The next chunk, if one is left: the caller takes the first ones and the workers the last ones, so that in one loop after the
    /// other a thread has the same part of the data, which is in its cache.
    fn claim(&self, caller: bool) -> Option<usize> {
        let claimed = self.claimed.fetch_add(if caller { 1 << 32 } else { 1 }, Ordering::Relaxed);
        let (first, last) = ((claimed >> 32) as usize, claimed as u32 as usize);
        let chunk = if caller { first } else { self.chunks.wrapping_sub(1 + last) };
        (first + last < self.chunks).then_some(chunk)
    }

    /// Claims and runs chunks until none is left. A panic ends its chunk only; the first one is kept for the caller.
    fn work(&self, caller: bool) {
        while let Some(chunk) = self.claim(caller) {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.run)(chunk))) {
                self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
            }
        }
    }
}

/// What callers and workers share. The job pointer is valid for as long as it stands in `job` or a worker that read it
/// there counts in `inside`: the caller withdraws it and waits for `inside` to be zero before the job dies.
struct Shared {
    job: AtomicPtr<Job<'static>>,
    /// Changes whenever a job is published.
    epoch: AtomicU32,
    /// Workers that may hold the job pointer.
    inside: AtomicUsize,
    /// The caller, once it sleeps until `inside` is zero. Whoever makes it zero, even without a job, wakes it.
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
    /// The workers, created when first needed. Held locked during a loop, which makes a second one run inline.
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

/// The count that the environment asks for, else the number of processors that this process may use.
fn default_threads() -> usize {
    let from = |name: &str| std::env::var(name).ok().and_then(|value| parse_threads(&value));
    from("MXNET_CPU_WORKER_NTHREADS")
        .or_else(|| from("OMP_NUM_THREADS"))
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// A positive count; of a list by nesting level, as OpenMP takes it ("4,2"), the outermost.
pub(super) fn parse_threads(value: &str) -> Option<usize> {
    value.split(',').next()?.trim().parse().ok().filter(|&count| count > 0)
}

/// The number of threads that a parallel loop uses at most, the calling one included.
///
/// At first this is `MXNET_CPU_WORKER_NTHREADS`, else `OMP_NUM_THREADS`, else the number of processors available to
/// the process (affinity and control group quota respected).
pub fn num_threads() -> usize {
    pool().threads.load(Ordering::Relaxed)
}

/// Sets [`num_threads`] for the loops started from now on and returns what it was. Zero counts as one.
pub fn set_num_threads(threads: usize) -> usize {
    pool().threads.swap(threads.max(1), Ordering::Relaxed)
}

/// Runs `f(0)`, …, `f(chunks - 1)`, each once, in any order, on the calling thread and the workers, and returns when
/// all have finished.
///
/// Called from within a chunk, or while another thread is in a parallel loop, it runs on the calling thread alone.
///
/// # Panics
/// When a chunk panics: with the payload of the first one, once every chunk that was started has ended. The pool stays
/// usable.
pub fn parallel_for(chunks: usize, f: impl Fn(usize) + Sync) {
    let pool = pool();
    let helpers = num_threads().min(chunks).saturating_sub(1);
    if helpers == 0 || chunks > MOST_CHUNKS {
        return (0..chunks).for_each(f);
    }
    let Ok(mut workers) = pool.workers.try_lock() else {
        return (0..chunks).for_each(f);
    };
    let outcome = pool.run(&mut workers, helpers, chunks, &f);
    drop(workers);
    if let Some(panic) = outcome {
        resume_unwind(panic);
    }
}

impl Pool {
    fn run(
        &self,
        workers: &mut Vec<Thread>,
        helpers: usize,
        chunks: usize,
        run: &(dyn Fn(usize) + Sync),
    ) -> Option<Panic> {
        while workers.len() < helpers {
            let (shared, index) = (self.shared.clone(), workers.len());
            let name = format!("ferromx-{}", index + 1);
            match std::thread::Builder::new().name(name).spawn(move || worker(&shared, index)) {
                Ok(handle) => workers.push(handle.thread().clone()),
                // No more threads to be had: those that are there, at least the caller, do the work.
                Err(_) => break,
            }
        }
        let job = Job { run, chunks, claimed: AtomicU64::new(0), workers: helpers, panic: Mutex::new(None) };
        let shared = &*self.shared;
        shared.job.store((&raw const job).cast_mut().cast(), Ordering::SeqCst);
        shared.epoch.fetch_add(1, Ordering::SeqCst);
        workers.iter().take(helpers).for_each(Thread::unpark);
        job.work(true);
        // After this store no worker can take up the pointer without being counted in `inside` before.
        shared.job.store(std::ptr::null_mut(), Ordering::SeqCst);
        shared.wait_for_workers();
        job.panic.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for some microseconds at most; whether the condition came to hold.
fn spin_until(condition: impl Fn() -> bool) -> bool {
    (0..SPINS).any(|_| {
        std::hint::spin_loop();
        condition()
    })
}

/// [`spin_until`] for longer, while no other thread wants the processor.
fn yield_until(condition: impl Fn() -> bool) -> bool {
    (0..YIELDS).any(|_| {
        std::thread::yield_now();
        condition()
    })
}

fn worker(shared: &Shared, index: usize) {
    let mut seen = 0;
    loop {
        let published = || shared.epoch.load(Ordering::SeqCst) != seen;
        if !published() && !spin_until(published) && !yield_until(published) {
            while !published() {
                std::thread::park();
            }
        }
        seen = shared.epoch.load(Ordering::SeqCst);
        shared.inside.fetch_add(1, Ordering::SeqCst);
        let job = shared.job.load(Ordering::SeqCst);
        // SAFETY: the pointer is null or was read after this thread had entered `inside`, and the caller does not let
        // the job die before `inside` is zero (see `Shared`).
        if let Some(job) = unsafe { job.as_ref() }
            && index < job.workers
        {
            job.work(false);
        }
        shared.leave();
    }
}
