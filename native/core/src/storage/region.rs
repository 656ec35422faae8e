//! The locks of an operation: of all chunks that it reads or writes, in address order.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::chunk::{Access, Chunk, lock, unlock};
use super::ndarray::NDArray;
use super::replacement::Replacement;

static NEXT_REGION: AtomicU64 = AtomicU64::new(1);

/// Sorts chunks by address, so that operations cannot deadlock, and removes duplicates. A chunk is locked for writing if any of its
/// duplicates is written.
fn sort_for_locking<C: Deref<Target = Chunk>, const N: usize>(chunks: &mut SmallVec<[(C, Access); N]>) {
    let address = |c: &C| std::ptr::from_ref::<Chunk>(c) as usize;
    chunks.sort_unstable_by_key(|(c, access)| (address(c), *access));
    chunks.dedup_by(|b, a| address(&a.0) == address(&b.0));
}

/// The locks of an operation that runs once; see [`Region`] for plans.
pub(super) struct Locks<'a>(SmallVec<[(&'a Chunk, Access); 8]>);

impl<'a> Locks<'a> {
    /// Locks the chunks of the arrays that are read and of those that are written.
    pub(super) fn acquire(
        reads: impl IntoIterator<Item = &'a NDArray>,
        writes: impl IntoIterator<Item = &'a NDArray>,
    ) -> Locks<'a> {
        let mut chunks = SmallVec::new();
        chunks.extend(reads.into_iter().map(|a| (&**a.chunk(), Access::Read)));
        chunks.extend(writes.into_iter().map(|a| (&**a.chunk(), Access::Write)));
        sort_for_locking(&mut chunks);
        chunks.iter().for_each(|(c, access)| lock(c, *access));
        Locks(chunks)
    }
}

impl Drop for Locks<'_> {
    fn drop(&mut self) {
        for (chunk, access) in self.0.iter().rev() {
            // SAFETY: `acquire` acquired exactly these locks.
            unsafe { unlock(chunk, *access) }
        }
    }
}

/// The chunks that a plan accesses, in address order, and how it accesses them.
pub struct Region {
    pub(super) id: u64,
    chunks: SmallVec<[(Arc<Chunk>, Access); 6]>,
}

impl Region {
    /// The chunks of the arrays that are read and of those that are written.
    pub fn new<'a>(
        reads: impl IntoIterator<Item = &'a NDArray>,
        writes: impl IntoIterator<Item = &'a NDArray>,
    ) -> Region {
        let mut chunks: SmallVec<[(Arc<Chunk>, Access); 6]> =
            reads.into_iter().map(|a| (a.chunk().clone(), Access::Read)).collect();
        chunks.extend(writes.into_iter().map(|a| (a.chunk().clone(), Access::Write)));
        sort_for_locking(&mut chunks);
        Region { id: NEXT_REGION.fetch_add(1, Ordering::Relaxed), chunks }
    }

    /// Acquires all locks.
    pub fn lock(&mut self) -> RegionGuard<'_> {
        self.chunks.iter().for_each(|(chunk, access)| lock(chunk, *access));
        RegionGuard { region: self }
    }

    /// Locks `new` instead of `old` from now on. `None`, without a change, if `old` is not locked or is written, or if `new` is locked as
    /// another operand or has another size. Calls and chains with these locks fail until the replacement is applied to them.
    pub fn replace(&mut self, old: &NDArray, new: &NDArray) -> Option<Replacement> {
        let is_read = self.covers(old, Access::Read) && !self.covers(old, Access::Write);
        if !is_read || self.covers(new, Access::Read) || old.byte_range().len() != new.byte_range().len() {
            return None;
        }
        let id = NEXT_REGION.fetch_add(1, Ordering::Relaxed);
        let replacement = Replacement::new(old, new, [self.id, id]);
        self.chunks.iter_mut().filter(|(c, _)| Arc::ptr_eq(c, old.chunk())).for_each(|(c, _)| *c = new.chunk().clone());
        sort_for_locking(&mut self.chunks);
        self.id = id;
        Some(replacement)
    }

    /// True if the region locks the array's chunk for this access, or a stronger one.
    pub fn covers(&self, array: &NDArray, access: Access) -> bool {
        let address = Arc::as_ptr(array.chunk()) as usize;
        match self.chunks.binary_search_by_key(&address, |(c, _)| Arc::as_ptr(c) as usize) {
            Ok(i) => self.chunks[i].1 <= access,
            Err(_) => false,
        }
    }
}

/// Proof that the locks of a [`Region`] are held; dropping it releases them and increments the versions of written chunks.
pub struct RegionGuard<'r> {
    pub(super) region: &'r mut Region,
}

impl Drop for RegionGuard<'_> {
    fn drop(&mut self) {
        for (chunk, access) in self.region.chunks.iter().rev() {
            // SAFETY: `Region::lock` acquired exactly these locks.
            unsafe { unlock(chunk, *access) }
        }
    }
}
