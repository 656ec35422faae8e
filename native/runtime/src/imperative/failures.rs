//! Errors that are reported where a result is read. MXNet runs kernels behind the caller's back: a call succeeds once shapes and types
//! are inferred, and what the kernel complains about is reported by the first wait for an array that depends on it, or by the wait
//! for everything. Programs rely on it. Kernels here run within the call, so a failure is kept with the arrays it left unwritten.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::storage::Chunk;
use parking_lot::Mutex;

thread_local! {
    static DEFERRING: Cell<bool> = const { Cell::new(false) };
}

/// An error that was not reported yet; all arrays that depend on the failed kernel share it.
pub type Failure = Arc<Mutex<Option<Error>>>;

#[derive(Default)]
struct Unreported {
    /// The memory of arrays without a valid content.
    arrays: Vec<(Weak<Chunk>, Failure)>,
    /// The first failure whose arrays are all gone: only the wait for everything reports it.
    orphan: Option<Failure>,
}

static UNREPORTED: LazyLock<Mutex<Unreported>> = LazyLock::new(Mutex::default);
/// Whether [`UNREPORTED`] may hold anything, so that calls without failures take no lock.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether this process reports errors of kernels at once, as MXNet's engine for debugging does.
static AT_ONCE: LazyLock<bool> =
    LazyLock::new(|| std::env::var("MXNET_ENGINE_TYPE").is_ok_and(|engine| engine.trim() == "NaiveEngine"));

/// Runs `f` with errors of kernels kept for whoever reads their results, unless `MXNET_ENGINE_TYPE` is `NaiveEngine`.
pub fn deferring<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            DEFERRING.set(self.0);
        }
    }
    let _restore = Restore(DEFERRING.replace(!*AT_ONCE));
    f()
}

impl Unreported {
    /// Forgets what was reported, and arrays that are gone.
    fn tidy(&mut self) {
        let Unreported { arrays, orphan } = self;
        arrays.retain(|(chunk, failure)| {
            let pending = failure.lock().is_some();
            let alive = chunk.strong_count() > 0;
            if pending && !alive {
                orphan.get_or_insert_with(|| failure.clone());
            }
            pending && alive
        });
        if orphan.as_ref().is_some_and(|failure| failure.lock().is_none()) {
            *orphan = None;
        }
        ANY.store(!arrays.is_empty() || orphan.is_some(), Ordering::Release);
    }
}

/// The failure that one of the arrays depends on.
pub fn of<'a>(arrays: impl IntoIterator<Item = &'a NDArray>) -> Option<Failure> {
    if !ANY.load(Ordering::Acquire) {
        return None;
    }
    let unreported = UNREPORTED.lock();
    let failure = |array: &NDArray| {
        let found =
            unreported.arrays.iter().find(|(chunk, _)| std::ptr::eq(chunk.as_ptr(), Arc::as_ptr(array.chunk())));
        found.map(|(_, failure)| failure).filter(|failure| failure.lock().is_some()).cloned()
    };
    arrays.into_iter().find_map(failure)
}

/// Says that the arrays depend on a failed kernel.
pub fn mark<'a>(arrays: impl IntoIterator<Item = &'a NDArray>, failure: &Failure) {
    let mut unreported = UNREPORTED.lock();
    unreported.arrays.extend(arrays.into_iter().map(|array| (Arc::downgrade(array.chunk()), failure.clone())));
    unreported.tidy();
}

/// Reports a failure, for the first and last time.
fn report(failure: &Failure) -> Result<()> {
    let error = failure.lock().take();
    UNREPORTED.lock().tidy();
    error.map_or(Ok(()), Err)
}

/// Reports the failure that an array depends on, if it was not reported before.
///
/// # Errors
/// That of the kernel.
pub fn wait(array: &NDArray) -> Result<()> {
    of([array]).map_or(Ok(()), |failure| report(&failure))
}

/// Reports the first failure that was not reported before and forgets all others.
///
/// # Errors
/// That of the kernel.
pub fn wait_all() -> Result<()> {
    if !ANY.load(Ordering::Acquire) {
        return Ok(());
    }
    let mut unreported = std::mem::take(&mut *UNREPORTED.lock());
    let failures =
        unreported.orphan.take().into_iter().chain(unreported.arrays.into_iter().map(|(_, failure)| failure));
    let first = failures.fold(None, |first: Option<Error>, failure| {
        let error = failure.lock().take();
        first.or(error)
    });
    UNREPORTED.lock().tidy();
    first.map_or(Ok(()), Err)
}

/// Runs a kernel that reads `ins`. If it fails, or one of the arrays depends on a failure, returns that where errors are deferred.
///
/// # Errors
/// That of the kernel, or of one that an array depends on, where errors are not deferred.
pub fn run_or_give_up<'a>(
    ins: impl IntoIterator<Item = &'a NDArray>,
    kernel: impl FnOnce() -> Result<()>,
) -> Result<Option<Failure>> {
    let failure = match of(ins) {
        Some(failure) => failure,
        None => match kernel() {
            Err(error) if DEFERRING.get() => return Ok(Some(Arc::new(Mutex::new(Some(error))))),
            other => return other.map(|()| None),
        },
    };
    if DEFERRING.get() { Ok(Some(failure)) } else { report(&failure).map(|()| None) }
}

/// Runs a kernel that reads `ins` and writes `outs`, with which a failure is kept where errors are deferred.
///
/// # Errors
/// As for [`run_or_give_up`].
pub fn run<'a>(
    ins: impl IntoIterator<Item = &'a NDArray>,
    outs: impl IntoIterator<Item = &'a NDArray> + Clone,
    kernel: impl FnOnce() -> Result<()>,
) -> Result<()> {
    if let Some(failure) = run_or_give_up(ins.into_iter().chain(outs.clone()), kernel)? {
        mark(outs, &failure);
    }
    Ok(())
}
