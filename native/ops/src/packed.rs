//! Weights that kernels pack once for their loops. Nodes that need the same packed weights share one copy, for example those of the
//! executors that serve concurrent requests with the same parameters.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;

/// Identifies an array and its contents: see [`In::version`](ferromx_core::storage::In::version).
pub(crate) type Version = (u64, u64, usize);

/// Packed weights while a node uses them. The lock is held while they are packed, so that concurrent nodes wait for them.
type Slot = Arc<Mutex<Weak<dyn Any + Send + Sync>>>;

/// The packed weights of one version of an array, each with its layout.
type Slots = Vec<(Box<dyn Any + Send>, Slot)>;

/// Packed weights by the types of layout and weights, and by the version of their source.
type Table = HashMap<(TypeId, Version), Slots>;

/// The packed weights of all nodes.
static PACKED: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

/// The packed weights that a node uses. `L` is the layout, which with the version of the source determines the weights.
pub(crate) struct Packed<L, W> {
    source: Option<(Version, L)>,
    weights: Option<Arc<W>>,
}

impl<L, W> Default for Packed<L, W> {
    fn default() -> Self {
        Packed { source: None, weights: None }
    }
}

impl<L: PartialEq + Clone + Send + 'static, W: Send + Sync + 'static> Packed<L, W> {
    /// True if this node or another has packed the weights.
    pub(crate) fn is_packed(&mut self, version: Version, layout: &L) -> bool {
        if self.is_from(version, layout) {
            return true;
        }
        let found = find::<L, W>(&PACKED.lock(), version, layout);
        let Some(weights) = found.and_then(|slot| shared(&slot.lock())) else { return false };
        (self.source, self.weights) = (Some((version, layout.clone())), Some(weights));
        true
    }

    fn is_from(&self, version: Version, layout: &L) -> bool {
        self.weights.is_some() && self.source.as_ref().is_some_and(|(v, l)| *v == version && l == layout)
    }

    /// The packed weights. `pack` gets older weights of the same layout that no other node uses, to pack into the same memory.
    ///
    /// # Errors
    /// Errors of `pack`.
    pub(crate) fn get<E>(
        &mut self,
        version: Version,
        layout: L,
        pack: impl FnOnce(Option<W>) -> Result<W, E>,
    ) -> Result<Arc<W>, E> {
        if let Some(weights) = self.weights.as_ref().filter(|_| self.is_from(version, &layout)) {
            return Ok(weights.clone());
        }
        let old = self.weights.take().filter(|_| self.source.as_ref().is_some_and(|(_, old)| *old == layout));
        let slot = find_or_add::<L, W>(version, &layout);
        let mut shared_weights = slot.lock();
        let weights = match shared(&shared_weights) {
            Some(weights) => weights,
            None => {
                let weights = Arc::new(pack(old.and_then(Arc::into_inner))?);
                let any: Arc<dyn Any + Send + Sync> = weights.clone();
                *shared_weights = Arc::downgrade(&any);
                weights
            }
        };
        (self.source, self.weights) = (Some((version, layout)), Some(weights.clone()));
        Ok(weights)
    }
}

fn shared<W: Send + Sync + 'static>(weights: &Weak<dyn Any + Send + Sync>) -> Option<Arc<W>> {
    weights.upgrade()?.downcast().ok()
}

fn find<L: PartialEq + 'static, W: 'static>(table: &Table, version: Version, layout: &L) -> Option<Slot> {
    let slots = table.get(&(TypeId::of::<(L, W)>(), version))?;
    slots.iter().find(|(other, _)| other.downcast_ref::<L>() == Some(layout)).map(|(_, slot)| slot.clone())
}

fn find_or_add<L: PartialEq + Clone + Send + 'static, W: Send + Sync + 'static>(version: Version, layout: &L) -> Slot {
    let mut table = PACKED.lock();
    if let Some(slot) = find::<L, W>(&table, version, layout) {
        return slot;
    }
    // Remove the slots of weights that were freed.
    table.retain(|_, slots| {
        slots.retain(|(_, slot)| is_used(slot));
        !slots.is_empty()
    });
    let empty: Weak<dyn Any + Send + Sync> = Weak::<W>::new();
    let slot: Slot = Arc::new(Mutex::new(empty));
    table.entry((TypeId::of::<(L, W)>(), version)).or_default().push((Box::new(layout.clone()), slot.clone()));
    slot
}

/// Whether a node uses or packs the weights of a slot.
fn is_used(slot: &Slot) -> bool {
    // The table holds one reference; any other belongs to a node that is packing the weights.
    Arc::strong_count(slot) > 1 || slot.lock().strong_count() > 0
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Barrier;

    use super::*;

    /// A layout of its own for each test, because the table is that of the process.
    type Layout = (&'static str, usize);

    fn get(node: &mut Packed<Layout, Vec<u8>>, version: u64, layout: Layout, byte: u8) -> Arc<Vec<u8>> {
        let pack = |old: Option<Vec<u8>>| {
            let mut bytes = old.unwrap_or_else(|| vec![0; 64]);
            bytes.fill(byte);
            Ok::<_, Infallible>(bytes)
        };
        let Ok(weights) = node.get((1, version, 0), layout, pack);
        weights
    }

    #[test]
    fn nodes_share_weights_of_one_version_and_layout() {
        let layout = ("share", 1);
        let (mut a, mut b, mut c) = (Packed::default(), Packed::default(), Packed::default());
        assert!(!a.is_packed((1, 1, 0), &layout));
        let first = get(&mut a, 1, layout, 5);
        assert!(b.is_packed((1, 1, 0), &layout) && !c.is_packed((1, 2, 0), &layout));
        assert!(Arc::ptr_eq(&first, &get(&mut b, 1, layout, 6)));
        assert!(!Arc::ptr_eq(&first, &get(&mut c, 1, ("share", 2), 7)));
        assert_eq!(get(&mut c, 2, layout, 8)[0], 8);
        assert_eq!((get(&mut a, 1, layout, 9)[0], first[0]), (5, 5));
    }

    #[test]
    fn changed_weights_are_packed_into_memory_that_no_other_node_uses() {
        let layout = ("change", 1);
        let (mut a, mut b) = (Packed::default(), Packed::default());
        let address = get(&mut a, 1, layout, 1).as_ptr();
        assert_eq!(get(&mut a, 2, layout, 2).as_ptr(), address);
        let shared = get(&mut b, 2, layout, 3);
        assert_eq!(shared.as_ptr(), address);
        assert_eq!(get(&mut a, 3, layout, 4)[0], 4);
        assert_eq!(shared[0], 2, "the other node keeps its weights");
    }

    #[test]
    fn weights_are_freed_with_the_last_node_and_errors_leave_none() {
        let layout = ("free", 1);
        let mut a = Packed::default();
        let weak = Arc::downgrade(&get(&mut a, 1, layout, 1));
        drop(a);
        assert!(weak.upgrade().is_none());
        let mut b: Packed<Layout, Vec<u8>> = Packed::default();
        assert_eq!(b.get((1, 1, 0), layout, |_| Err("failed")), Err("failed"));
        assert!(!b.is_packed((1, 1, 0), &layout));
        assert_eq!(get(&mut b, 1, layout, 2)[0], 2);
        drop(b);
        get(&mut Packed::default(), 7, ("free", 2), 1);
        let table = PACKED.lock();
        assert!(find::<Layout, Vec<u8>>(&table, (1, 1, 0), &layout).is_none(), "the table is cleaned");
    }

    #[test]
    fn concurrent_nodes_pack_once() {
        let start = Barrier::new(8);
        let addresses: Vec<usize> = std::thread::scope(|scope| {
            let run = || {
                let mut node = Packed::default();
                start.wait();
                let address = get(&mut node, 1, ("concurrent", 1), 1).as_ptr() as usize;
                start.wait();
                address
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(run)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(addresses.iter().all(|a| *a == addresses[0]));
    }
}
