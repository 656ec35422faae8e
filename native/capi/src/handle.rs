//! Handles: numbers by which callers refer to objects. A handle encodes the slot of its object and the slot's generation, so that null
//! handles, freed handles and numbers that are not handles are detected.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferromx_runtime::cached_op::CachedOp;
use ferromx_runtime::error::{Error, Result};
use ferromx_runtime::executor::Executor;
use ferromx_runtime::imperative::{Tensor, Tensors};
use ferromx_runtime::io::DataIter;
use ferromx_runtime::io::recordio::{Reader, Writer};
use ferromx_runtime::kvstore::{KvStore, Member};
use ferromx_runtime::op::OpDef;
use ferromx_runtime::predict::Predictor;
use ferromx_runtime::profiler::ProfilerObject;
use ferromx_runtime::registry;
use ferromx_runtime::symbol::{AnnotatedGraph, AtomicSymbol, Symbol};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::gradient_names;
use crate::objects::{NdList, PackedObject};

/// The content of a symbol handle. `MXSymbolCompose` changes it in place.
pub enum SymbolState {
    /// An operator without its inputs.
    Atomic(AtomicSymbol),
    /// A graph.
    Graph(Symbol),
}

/// The object of a handle.
#[derive(Clone)]
pub enum Object {
    /// An array.
    Tensor(Arc<Tensor>),
    /// A symbol.
    Symbol(Arc<RwLock<SymbolState>>),
    /// An executor.
    Executor(Arc<Executor>),
    /// A data iterator.
    DataIter(Arc<Mutex<Box<dyn DataIter>>>),
    /// A network bound for prediction.
    Predictor(Arc<Predictor>),
    /// A graph that is called like an operator.
    CachedOp(Arc<CachedOp>),
    /// A list of arrays from a file.
    NdList(Arc<NdList>),
    /// A RecordIO file open for reading.
    RecordReader(Arc<Mutex<Reader>>),
    /// A RecordIO file open for writing.
    RecordWriter(Arc<Mutex<Writer>>),
    /// A key-value store.
    KvStore(Arc<KvStore>),
    /// A membership in a distributed job.
    Job(Arc<Member>),
    /// A profiling object of the user.
    ProfilerObject(Arc<ProfilerObject>),
    /// An object of a packed function.
    Packed(Arc<PackedObject>),
    /// A graph with attributes.
    Graph(Arc<AnnotatedGraph>),
}

impl Object {
    fn kind(&self) -> &'static str {
        match self {
            Object::Tensor(_) => "NDArray",
            Object::Symbol(_) => "Symbol",
            Object::Executor(_) => "Executor",
            Object::DataIter(_) => "DataIter",
            Object::Predictor(_) => "Predictor",
            Object::CachedOp(_) => "CachedOp",
            Object::NdList(_) => "NDList",
            Object::RecordReader(_) => "RecordIO reader",
            Object::RecordWriter(_) => "RecordIO writer",
            Object::KvStore(_) => "KVStore",
            Object::Job(_) => "Job",
            Object::ProfilerObject(_) => "Profile",
            Object::Packed(_) => "Object",
            Object::Graph(_) => "Graph",
        }
    }
}

struct Slot {
    generation: u32,
    object: Option<Object>,
}

struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// One of the tables. The alignment keeps the locks on separate cache lines.
#[repr(align(128))]
struct Stripe(RwLock<Table>);

/// The handle table, in stripes. Each thread creates its objects in one stripe, so that threads do not contend for a lock unless they
/// share objects.
static STRIPES: [Stripe; 1 << STRIPE_BITS] =
    [const { Stripe(RwLock::new(Table { slots: Vec::new(), free: Vec::new() })) }; 1 << STRIPE_BITS];

thread_local! {
    /// The stripe in which this thread creates objects.
    static STRIPE: usize = {
        static NUM_THREADS: AtomicUsize = AtomicUsize::new(0);
        NUM_THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES.len()
    };
}

/// Layout of a handle: bits 0 to 31 are the slot number plus one, bits 32 to 61 the generation. The low bits of the slot number are the
/// stripe, the others the index in its table. Bit 62 marks operator handles.
const SLOT_BITS: u32 = 32;
const STRIPE_BITS: u32 = 4;
const GENERATION_MASK: u32 = 0x3FFF_FFFF;
const OPERATOR: u64 = 1 << 62;
/// Bit 61 marks operator handles that are names of gradients.
const GRADIENT: u64 = 1 << 61;

/// Creates a handle of an object.
pub fn insert(object: Object) -> u64 {
    let stripe = STRIPE.try_with(|stripe| *stripe).unwrap_or(0);
    let mut table = STRIPES[stripe].0.write();
    let index = match table.free.pop() {
        Some(index) => index,
        None => {
            table.slots.push(Slot { generation: 0, object: None });
            (table.slots.len() - 1) as u32
        }
    };
    let slot = &mut table.slots[index as usize];
    slot.object = Some(object);
    let number = (u64::from(index) << STRIPE_BITS) | stripe as u64;
    (u64::from(slot.generation) << SLOT_BITS) | (number + 1)
}

/// The slot number of a handle. For null it is that of the first slot; [`find`] rejects null.
fn slot_number(handle: u64) -> usize {
    ((handle & u64::from(u32::MAX)) as usize).saturating_sub(1)
}

fn stripe_of(handle: u64) -> &'static RwLock<Table> {
    &STRIPES[slot_number(handle) % STRIPES.len()].0
}

/// Creates an array handle.
pub fn insert_tensor(tensor: impl Into<Arc<Tensor>>) -> u64 {
    insert(Object::Tensor(tensor.into()))
}

/// Creates a symbol handle.
pub fn insert_symbol(symbol: Symbol) -> u64 {
    insert(Object::Symbol(Arc::new(RwLock::new(SymbolState::Graph(symbol)))))
}

fn find<'t>(table: &'t Table, handle: u64, kind: &str) -> Result<(usize, &'t Object)> {
    if handle == 0 {
        return Err(Error::NotFound(format!("the {kind} handle is null: an existing {kind} was expected")));
    }
    let index = slot_number(handle) >> STRIPE_BITS;
    let not_a_handle = || {
        Error::NotFound(format!(
            "{handle:#x} is not a handle of kind {kind} of this library: pass a handle that one of its functions returned"
        ))
    };
    let slot = table.slots.get(index).filter(|_| handle & u64::from(u32::MAX) != 0).ok_or_else(not_a_handle)?;
    let generation = handle >> SLOT_BITS;
    match &slot.object {
        Some(object) if u64::from(slot.generation) == generation => Ok((index, object)),
        _ if generation > u64::from(slot.generation) => Err(not_a_handle()),
        _ => Err(Error::NotFound(format!(
            "the {kind} of handle {handle:#x} was already disposed: use it before it is disposed, or create a new one"
        ))),
    }
}

fn wrong_kind(handle: u64, object: &Object, kind: &str) -> Error {
    Error::NotFound(format!("handle {handle:#x} is of kind {}, but {kind} was expected", object.kind()))
}

macro_rules! getters {
    ($($(#[$meta:meta])* $name:ident -> $variant:ident($ty:ty), $kind:literal;)*) => {$(
        $(#[$meta])*
        ///
        /// # Errors
        /// A null or freed handle, a handle of another kind, or a number that is no handle.
        pub fn $name(handle: u64) -> Result<$ty> {
            let table = stripe_of(handle).read();
            match find(&table, handle, $kind)?.1 {
                Object::$variant(x) => Ok(x.clone()),
                other => Err(wrong_kind(handle, other, $kind)),
            }
        }
    )*};
}

getters! {
    /// The array of a handle.
    tensor -> Tensor(Arc<Tensor>), "NDArray";
    /// The symbol of a handle, which composing may change.
    symbol_state -> Symbol(Arc<RwLock<SymbolState>>), "Symbol";
    /// The executor of a handle.
    executor -> Executor(Arc<Executor>), "Executor";
    /// The data iterator of a handle.
    data_iter -> DataIter(Arc<Mutex<Box<dyn DataIter>>>), "DataIter";
    /// The predictor of a handle.
    predictor -> Predictor(Arc<Predictor>), "Predictor";
    /// The cached operator of a handle.
    cached_op -> CachedOp(Arc<CachedOp>), "CachedOp";
    /// The list of arrays of a handle.
    nd_list -> NdList(Arc<NdList>), "NDList";
    /// The RecordIO reader of a handle.
    record_reader -> RecordReader(Arc<Mutex<Reader>>), "RecordIO reader";
    /// The RecordIO writer of a handle.
    record_writer -> RecordWriter(Arc<Mutex<Writer>>), "RecordIO writer";
    /// The key-value store of a handle.
    kv_store -> KvStore(Arc<KvStore>), "KVStore";
    /// The membership in a distributed job of a handle.
    job -> Job(Arc<Member>), "Job";
    /// The profiling object of a handle.
    profiler_object -> ProfilerObject(Arc<ProfilerObject>), "Profile";
    /// The object of packed functions of a handle.
    packed -> Packed(Arc<PackedObject>), "Object";
    /// The graph with attributes of a handle.
    graph -> Graph(Arc<AnnotatedGraph>), "Graph";
}

/// The arrays of several handles.
///
/// # Errors
/// As for [`tensor`].
pub fn tensors(handles: impl Iterator<Item = u64>) -> Result<Tensors> {
    let mut found = Tensors::new();
    // Most arrays of a call are in one stripe, so the lock is kept until a handle of another stripe follows.
    let mut locked: Option<(&RwLock<Table>, RwLockReadGuard<'_, Table>)> = None;
    for handle in handles {
        let stripe = stripe_of(handle);
        if !locked.as_ref().is_some_and(|(held, _)| std::ptr::eq(*held, stripe)) {
            // Two threads that each hold one stripe and wait for the other's would deadlock, so release one before locking the next.
            drop(locked.take());
            locked = Some((stripe, stripe.read()));
        }
        let Some((_, table)) = &locked else { continue };
        match find(table, handle, "NDArray")?.1 {
            Object::Tensor(tensor) => found.push(tensor.clone()),
            other => return Err(wrong_kind(handle, other, "NDArray")),
        }
    }
    Ok(found)
}

/// The graph of a symbol handle.
///
/// # Errors
/// Errors of [`symbol_state`]; parameters of an operator without inputs that do not parse.
pub fn symbol(handle: u64) -> Result<Symbol> {
    let state = symbol_state(handle)?;
    let state = state.read();
    match &*state {
        SymbolState::Graph(s) => Ok(s.clone()),
        SymbolState::Atomic(a) => a.compose("", &[], None),
    }
}

/// Frees a handle of one kind; null is ignored.
///
/// # Errors
/// A freed handle, a handle of another kind, or a number that is no handle.
pub fn free(handle: u64, kind: &'static str) -> Result<()> {
    if handle == 0 {
        return Ok(());
    }
    let mut table = stripe_of(handle).write();
    let (index, object) = find(&table, handle, kind)?;
    if object.kind() != kind {
        return Err(wrong_kind(handle, object, kind));
    }
    let slot = &mut table.slots[index];
    let object = slot.object.take();
    slot.generation = (slot.generation + 1) & GENERATION_MASK;
    table.free.push(index as u32);
    drop(table);
    drop(object);
    Ok(())
}

/// The number of live handles, for leak checks.
pub fn live() -> usize {
    let live = |table: &Table| table.slots.len() - table.free.len();
    STRIPES.iter().map(|stripe| live(&stripe.0.read())).sum()
}

/// The handle of an operator's name or alias, or of a gradient's name. It is never freed.
///
/// # Errors
/// There is no such operator.
pub fn operator(name: &str) -> Result<u64> {
    if let Ok(index) = gradient_names::NAMES.binary_search(&name) {
        return Ok(OPERATOR | GRADIENT | (index as u64 + 1));
    }
    let (name, _) = registry::find(name)?;
    let index = registry::names()
        .binary_search(&name)
        .map_err(|_| Error::Internal(format!("operator {name} is not listed")))?;
    Ok(OPERATOR | (index as u64 + 1))
}

/// The name of a gradient, if the handle refers to one.
pub fn gradient_name(handle: u64) -> Option<&'static str> {
    let index = (handle & !(OPERATOR | GRADIENT)).checked_sub(1)?;
    let is_gradient = handle & (OPERATOR | GRADIENT) == OPERATOR | GRADIENT;
    gradient_names::NAMES.get(index as usize).copied().filter(|_| is_gradient)
}

/// Name and definition of an operator handle.
///
/// # Errors
/// A value that [`operator`] did not return, or the handle of a gradient's name.
pub fn operator_of(handle: u64) -> Result<(&'static str, &'static OpDef)> {
    if let Some(name) = gradient_name(handle) {
        return Err(Error::Unsupported(format!(
            "{name} is the gradient of an operator, which cannot be called by name: record the operator with autograd, or bind it \
             and call backward"
        )));
    }
    let entry = match handle & OPERATOR {
        0 => None,
        _ => registry::entry(((handle & !OPERATOR) as usize).wrapping_sub(1)),
    };
    entry.ok_or_else(|| {
        Error::NotFound(format!(
            "{handle:#x} is not an operator handle: get one from NNGetOpHandle or MXListAllOpNames"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradient_names_have_handles_that_cannot_be_called() {
        let handle = operator("_backward_Activation").unwrap();
        assert_eq!(gradient_name(handle), Some("_backward_Activation"));
        assert!(operator_of(handle).map(|_| ()).unwrap_err().to_string().contains("cannot be called by name"));
        assert_eq!(gradient_name(operator("relu").unwrap()), None);
        assert!(operator("_backward_nothing").is_err());
    }

    #[test]
    fn freed_null_and_invalid_handles_are_errors() {
        let h = insert_tensor(Tensor::default());
        assert!(tensor(h).is_ok());
        assert!(executor(h).err().unwrap().to_string().contains("of kind NDArray, but Executor was expected"));
        free(h, "NDArray").unwrap();
        assert!(tensor(h).err().unwrap().to_string().contains("already disposed"));
        assert!(free(h, "NDArray").is_err());
        assert!(tensor(0).err().unwrap().to_string().contains("null"));
        assert!(tensor(0xdead_beef_0000).err().unwrap().to_string().contains("not a handle of kind NDArray"));
        let again = insert_tensor(Tensor::default());
        assert_ne!(h, again);
        assert!(tensor(h).is_err());
        free(again, "NDArray").unwrap();
    }

    #[test]
    fn handles_created_by_one_thread_are_valid_in_others() {
        let handles: Vec<u64> = std::thread::scope(|scope| {
            let create = || (0..100).map(|_| insert_tensor(Tensor::default())).collect::<Vec<_>>();
            let threads: Vec<_> = (0..STRIPES.len() + 1).map(|_| scope.spawn(create)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let mut unique = handles.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), handles.len());
        assert_eq!(tensors(handles.iter().copied()).unwrap().len(), handles.len());
        for handle in handles {
            free(handle, "NDArray").unwrap();
            assert!(tensor(handle).err().unwrap().to_string().contains("already disposed"));
        }
    }
}
