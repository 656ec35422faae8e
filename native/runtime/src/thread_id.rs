//! Ids of threads.

use std::sync::atomic::{AtomicU64, Ordering};

/// A unique, nonzero id of the calling thread.
pub(crate) fn thread_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static ID: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    ID.with(|id| *id)
}
