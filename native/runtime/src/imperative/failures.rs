//! Deferred errors. MXNet runs kernels asynchronously: a call succeeds once shapes and types are inferred, and an error of the kernel is
//! reported by the first wait for an array that depends on it, or by `wait_all`. Programs rely on this. Here kernels run within the call,
//! so an error is stored with the arrays that it left invalid.

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

/// An error that was not reported yet, shared by all arrays that depend on the failed kernel; `None` once it was reported.
pub(super) type Failure = Arc<Mutex<Option<Error>>>;

#[derive(Default)]
struct Unreported {
    /// The memory of arrays with invalid content.
    arrays: Vec<(Weak<Chunk>, Failure)>,
    /// The first failure whose arrays were all dropped; only [`wait_all`] reports it.
    orphan: Option<Failure>,
}

static UNREPORTED: LazyLock<Mutex<Unreported>> = LazyLock::new(Mutex::default);
/// Whether [`UNREPORTED`] may hold anything, so that calls without failures take no lock.
static HAS_UNREPORTED: AtomicBool = AtomicBool::new(false);

/// Whether errors of kernels are reported immediately, as by MXNet's `NaiveEngine`.
static IS_NAIVE_ENGINE: LazyLock<bool> =
    LazyLock::new(|| std::env::var("MXNET_ENGINE_TYPE").is_ok_and(|engine| engine.trim() == "NaiveEngine"));

/// Runs `f` with errors of kernels deferred until their results are read, unless `MXNET_ENGINE_TYPE` is `NaiveEngine`.
pub fn deferring<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            DEFERRING.set(self.0);
        }
    }
    let _restore = Restore(DEFERRING.replace(!*IS_NAIVE_ENGINE));
    f()
}

impl Unreported {
    /// Removes reported failures and dropped arrays.
    fn prune(&mut self) {
        let Unreported { arrays, orphan } = self;
        arrays.retain(|(chunk, failure)| {
            let is_pending = failure.lock().is_some();
            let is_alive = chunk.strong_count() > 0;
            if is_pending && !is_alive {
                orphan.get_or_insert_with(|| failure.clone());
            }
            is_pending && is_alive
        });
        if orphan.as_ref().is_some_and(|failure| failure.lock().is_none()) {
            *orphan = None;
        }
        HAS_UNREPORTED.store(!arrays.is_empty() || orphan.is_some(), Ordering::Release);
    }
}

/// The first failure that one of the arrays depends on.
pub(super) fn find<'a>(arrays: impl IntoIterator<Item = &'a NDArray>) -> Option<Failure> {
    if !HAS_UNREPORTED.load(Ordering::Acquire) {
        return None;
    }
    let unreported = UNREPORTED.lock();
    let failure = |array: &NDArray| {
        let unreported_entry =
            unreported.arrays.iter().find(|(chunk, _)| std::ptr::eq(chunk.as_ptr(), Arc::as_ptr(array.chunk())));
        unreported_entry.map(|(_, failure)| failure).filter(|failure| failure.lock().is_some()).cloned()
    };
    arrays.into_iter().find_map(failure)
}

/// Marks arrays as depending on a failed kernel.
pub(crate) fn mark<'a>(arrays: impl IntoIterator<Item = &'a NDArray>, failure: &Failure) {
    let mut unreported = UNREPORTED.lock();
    unreported.arrays.extend(arrays.into_iter().map(|array| (Arc::downgrade(array.chunk()), failure.clone())));
    unreported.prune();
}

/// Returns the error of a failure, unless it was reported before.
fn report(failure: &Failure) -> Result<()> {
    let error = failure.lock().take();
    UNREPORTED.lock().prune();
    error.map_or(Ok(()), Err)
}

/// Waits for an array: reports the failure that it depends on, unless it was reported before.
///
/// # Errors
/// The error of the kernel.
pub fn wait(array: &NDArray) -> Result<()> {
    find([array]).map_or(Ok(()), |failure| report(&failure))
}

/// Waits for all arrays: reports the first unreported failure and discards the others.
///
/// # Errors
/// The error of the kernel.
pub fn wait_all() -> Result<()> {
    if !HAS_UNREPORTED.load(Ordering::Acquire) {
        return Ok(());
    }
    let mut unreported = std::mem::take(&mut *UNREPORTED.lock());
    let failures =
        unreported.orphan.take().into_iter().chain(unreported.arrays.into_iter().map(|(_, failure)| failure));
    let first = failures.fold(None, |first: Option<Error>, failure| {
        let error = failure.lock().take();
        first.or(error)
    });
    UNREPORTED.lock().prune();
    first.map_or(Ok(()), Err)
}

/// Runs a kernel that reads `ins`, unless an input depends on a failure. Returns its failure, or the input's, if errors are deferred.
///
/// # Errors
/// The error of the kernel, or of one that an input depends on, if errors are not deferred.
pub(crate) fn run_or_defer<'a>(
    ins: impl IntoIterator<Item = &'a NDArray>,
    kernel: impl FnOnce() -> Result<()>,
) -> Result<Option<Failure>> {
    let failure = match find(ins) {
        Some(failure) => failure,
        None => match kernel() {
            Err(error) if DEFERRING.get() => return Ok(Some(Arc::new(Mutex::new(Some(error))))),
            other => return other.map(|()| None),
        },
    };
    if DEFERRING.get() { Ok(Some(failure)) } else { report(&failure).map(|()| None) }
}

/// Runs a kernel that reads `ins` and writes `outs`. If errors are deferred, a failure is stored with `outs`.
///
/// # Errors
/// As for [`run_or_defer`].
pub(super) fn run<'a>(
    ins: impl IntoIterator<Item = &'a NDArray>,
    outs: impl IntoIterator<Item = &'a NDArray> + Clone,
    kernel: impl FnOnce() -> Result<()>,
) -> Result<()> {
    if let Some(failure) = run_or_defer(ins.into_iter().chain(outs.clone()), kernel)? {
        mark(outs, &failure);
    }
    Ok(())
}
