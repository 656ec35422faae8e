//! Array memory: chunks with locks and versions, and checked typed views of them for kernels.
//!
//! - `pool` reuses blocks of memory, which `pages` gets from the system;
//! - `foreign` has memory of other libraries and processes;
//! - `chain` has the operands of chains of elementwise kernels, and `operands` passes operands to kernels without allocating;
//! - `reserve` is the global allocator, which survives the end of memory.
//!
//! This module is the only one of the crate with `unsafe`. Its guarantees: no other slice overlaps a kernel's mutable slice, memory is
//! always initialized, and it outlives every view of it.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::lock_api::RawRwLock as _;
use smallvec::SmallVec;

use crate::context::{Context, DeviceType};
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::ndarray::NDArray;
use crate::shape::Shape;

mod chain;
mod foreign;
mod loops;
mod operands;
pub mod pages;
mod pool;
mod reserve;

pub use chain::{Block, Blocks, Chain, ChainCall, Operand};
use foreign::Origin;
pub use loops::{FloatLoop, LOOP_MULTIPLE, LoopOperand, LoopRecorder};
use pool::{Allocated, POOL};
pub use pool::{memory_in_use, release_cached_memory};
pub use reserve::{ReservingAllocator, reserve_in_use};

pub use pages::ALIGN;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A block of memory that arrays share. Every access holds its lock; every write increments its version.
pub struct Chunk {
    ptr: NonNull<u8>,
    bytes: usize,
    context: Context,
    id: u64,
    lock: parking_lot::RawRwLock,
    version: AtomicU64,
    is_exposed: AtomicBool,
    /// Whether the whole block, whose size may exceed `bytes`, was zero when it was allocated.
    was_zero: bool,
    origin: Origin,
}

// SAFETY: the memory is reached only through views that hold `lock`.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// Allocates at least `bytes` bytes with unspecified but initialized content. On `cpu_shared` other processes can map them.
    pub fn new(bytes: usize, context: Context) -> Result<Arc<Chunk>> {
        match context.device_type {
            DeviceType::CpuShared => Chunk::shared(bytes, context),
            _ => Ok(Arc::new(Chunk::of_pool(POOL.allocate(bytes)?, bytes, context))),
        }
    }

    /// Allocates at least `bytes` zero bytes. Fresh memory is zero already and is not touched.
    pub fn zeros(bytes: usize, context: Context) -> Result<Arc<Chunk>> {
        if context.device_type == DeviceType::CpuShared {
            return Chunk::shared(bytes, context);
        }
        let block = POOL.allocate(bytes)?;
        if !block.is_zero {
            // SAFETY: the block has these bytes, and nothing else refers to it.
            unsafe { block.start.write_bytes(0, bytes) };
        }
        Ok(Arc::new(Chunk::of_pool(block, bytes, context)))
    }

    fn of_pool(block: Allocated, bytes: usize, context: Context) -> Chunk {
        let mut chunk = Chunk::with(block.start, bytes, context, Origin::Pool);
        chunk.was_zero = block.is_zero;
        chunk
    }

    fn with(ptr: NonNull<u8>, bytes: usize, context: Context, origin: Origin) -> Chunk {
        Chunk {
            ptr,
            bytes,
            context,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            lock: parking_lot::RawRwLock::INIT,
            version: AtomicU64::new(0),
            // Writes to memory from outside the pool cannot be observed.
            is_exposed: AtomicBool::new(!matches!(origin, Origin::Pool)),
            was_zero: false,
            origin,
        }
    }

    /// The device that the memory belongs to.
    pub fn context(&self) -> Context {
        self.context
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Identity and version of the content: data derived from the content is valid as long as this pair stays the same. `None` once a
    /// raw pointer was handed out, because writes through it cannot be observed.
    pub fn version(&self) -> Option<(u64, u64)> {
        match self.is_exposed.load(Ordering::Relaxed) {
            true => None,
            false => Some((self.id, self.version.load(Ordering::Acquire))),
        }
    }

    /// A raw pointer for foreign code that does not write.
    pub fn address(&self) -> *const u8 {
        self.ptr.as_ptr()
    }

    /// A raw pointer for foreign code that may write; [`Chunk::version`] is `None` from now on.
    pub fn expose(&self) -> *mut u8 {
        self.is_exposed.store(true, Ordering::Relaxed);
        self.ptr.as_ptr()
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Origin::Pool = self.origin {
            let is_unchanged = *self.version.get_mut() == 0 && !*self.is_exposed.get_mut();
            POOL.release(Allocated { start: self.ptr, is_zero: self.was_zero && is_unchanged }, self.bytes);
        }
    }
}

static NEXT_REGION: AtomicU64 = AtomicU64::new(1);

/// Sorts chunks by address, so that operations cannot deadlock, and removes duplicates: a chunk is locked for writing if any use
/// writes.
fn sort_for_locking<C: Deref<Target = Chunk>, const N: usize>(chunks: &mut SmallVec<[(C, bool); N]>) {
    let address = |c: &C| std::ptr::from_ref::<Chunk>(c) as usize;
    chunks.sort_unstable_by_key(|(c, write)| (address(c), !*write));
    chunks.dedup_by(|b, a| address(&a.0) == address(&b.0));
}

fn lock(chunk: &Chunk, write: bool) {
    if write { chunk.lock.lock_exclusive() } else { chunk.lock.lock_shared() }
}

/// Releases a lock of [`lock`]; increments the version of a written chunk.
///
/// # Safety
/// The caller holds this lock, and no reference to memory under it remains.
unsafe fn unlock(chunk: &Chunk, write: bool) {
    // SAFETY: by the contract of this function.
    unsafe {
        if write {
            chunk.version.fetch_add(1, Ordering::Release);
            chunk.lock.unlock_exclusive();
        } else {
            chunk.lock.unlock_shared();
        }
    }
}

/// The locks of an operation that runs once; see [`Region`] for plans.
struct Locks<'a>(SmallVec<[(&'a Chunk, bool); 8]>);

impl<'a> Locks<'a> {
    fn acquire(
        reads: impl IntoIterator<Item = &'a NDArray>,
        writes: impl IntoIterator<Item = &'a NDArray>,
    ) -> Locks<'a> {
        let mut chunks = SmallVec::new();
        chunks.extend(reads.into_iter().map(|a| (&**a.chunk(), false)));
        chunks.extend(writes.into_iter().map(|a| (&**a.chunk(), true)));
        sort_for_locking(&mut chunks);
        chunks.iter().for_each(|(c, write)| lock(c, *write));
        Locks(chunks)
    }
}

impl Drop for Locks<'_> {
    fn drop(&mut self) {
        for (chunk, write) in self.0.iter().rev() {
            // SAFETY: `acquire` acquired exactly these locks.
            unsafe { unlock(chunk, *write) }
        }
    }
}

/// The chunks that a plan accesses, in address order, each with whether it is written.
pub struct Region {
    id: u64,
    chunks: SmallVec<[(Arc<Chunk>, bool); 6]>,
}

impl Region {
    /// The chunks of the arrays that are read and of those that are written.
    pub fn new<'a>(
        reads: impl IntoIterator<Item = &'a NDArray>,
        writes: impl IntoIterator<Item = &'a NDArray>,
    ) -> Region {
        let mut chunks: SmallVec<[(Arc<Chunk>, bool); 6]> =
            reads.into_iter().map(|a| (a.chunk().clone(), false)).collect();
        chunks.extend(writes.into_iter().map(|a| (a.chunk().clone(), true)));
        sort_for_locking(&mut chunks);
        Region { id: NEXT_REGION.fetch_add(1, Ordering::Relaxed), chunks }
    }

    /// Acquires all locks.
    pub fn lock(&mut self) -> RegionGuard<'_> {
        self.chunks.iter().for_each(|(chunk, write)| lock(chunk, *write));
        RegionGuard { region: self }
    }

    /// True if the region locks the array's chunk, for writing if `write`.
    fn covers(&self, array: &NDArray, write: bool) -> bool {
        let address = Arc::as_ptr(array.chunk()) as usize;
        match self.chunks.binary_search_by_key(&address, |(c, _)| Arc::as_ptr(c) as usize) {
            Ok(i) => self.chunks[i].1 || !write,
            Err(_) => false,
        }
    }
}

/// Proof that the locks of a [`Region`] are held; dropping it releases them and increments the versions of written chunks.
pub struct RegionGuard<'r> {
    region: &'r mut Region,
}

impl Drop for RegionGuard<'_> {
    fn drop(&mut self) {
        for (chunk, write) in self.region.chunks.iter().rev() {
            // SAFETY: `Region::lock` acquired exactly these locks.
            unsafe { unlock(chunk, *write) }
        }
    }
}

/// A request: how an operation writes an output, with the codes of the C API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Req {
    /// The output has no readers and is not written.
    Null = 0,
    /// Overwrite.
    Write = 1,
    /// Overwrite memory that is shared with an input. The engine treats it as a `Write` with shared operands.
    Inplace = 2,
    /// Add to the old content.
    Add = 3,
}

impl Req {
    /// From the code of the C API.
    pub fn from_code(code: u32) -> Result<Req> {
        Ok(match code {
            0 => Req::Null,
            1 => Req::Write,
            2 => Req::Inplace,
            3 => Req::Add,
            _ => {
                return Err(Error::Value(format!(
                    "gradient request {code} is unknown: use 0 (null), 1 (write) or 3 (add)"
                )));
            }
        })
    }
}

#[derive(Clone)]
struct Slot {
    ptr: NonNull<u8>,
    array: NDArray,
    req: Req,
    /// For an input: index of the output that is exactly the same memory.
    shared_with: Option<usize>,
}

/// The view of an array whose first element is at `ptr`.
fn view_of(ptr: NonNull<u8>, array: &NDArray) -> View<'_> {
    View { ptr, shape: array.shape(), len: array.len(), dtype: array.dtype() }
}

impl Slot {
    fn view(&self) -> View<'_> {
        view_of(self.ptr, &self.array)
    }
}

/// The operands of a kernel call, checked once: in bounds, locked by a region, and disjoint, unless an input and an output are exactly
/// the same memory.
#[derive(Clone)]
pub struct Call {
    region: u64,
    ins: SmallVec<[Slot; 4]>,
    outs: SmallVec<[Slot; 2]>,
}

// SAFETY: the pointers are into chunks that `array` keeps alive, used only under their locks.
unsafe impl Send for Call {}
// SAFETY: as above.
unsafe impl Sync for Call {}

impl Call {
    /// Checks the operands.
    ///
    /// # Errors
    /// An array that the region does not lock, outputs that overlap, or an input that partially overlaps an output.
    pub fn new<'a>(
        region: &Region,
        ins: impl IntoIterator<Item = &'a NDArray>,
        outs: impl IntoIterator<Item = (&'a NDArray, Req)>,
    ) -> Result<Call> {
        let ins: SmallVec<[&NDArray; 6]> = ins.into_iter().collect();
        let outs: SmallVec<[(&NDArray, Req); 4]> = outs.into_iter().collect();
        if outs.iter().any(|(array, req)| *req != Req::Null && !region.covers(array, true)) {
            return Err(Error::Internal("an output is not locked for writing".into()));
        }
        if ins.iter().any(|array| !region.covers(array, false)) {
            return Err(Error::Internal("an input is not locked".into()));
        }
        let shared = find_shared_outputs(&ins, &outs)?;
        let slot =
            |array: &NDArray, req, shared_with| Slot { ptr: start(array), array: array.clone(), req, shared_with };
        Ok(Call {
            region: region.id,
            ins: ins.iter().zip(shared).map(|(array, shared_with)| slot(array, Req::Null, shared_with)).collect(),
            outs: outs.iter().map(|(array, req)| slot(array, *req, None)).collect(),
        })
    }

    /// Runs a kernel on the operands.
    ///
    /// # Errors
    /// Those of the kernel; a guard of another region.
    pub fn with<R>(
        &self,
        guard: &mut RegionGuard<'_>,
        kernel: impl FnOnce(&[In<'_>], &mut [Out<'_>]) -> Result<R>,
    ) -> Result<R> {
        if guard.region.id != self.region {
            return Err(Error::Internal("a call runs under the locks of another region".into()));
        }
        let ins = self.ins.iter().map(|s| In { view: s.view(), array: Some(&s.array), shared_with: s.shared_with });
        let outs = self.outs.iter().map(|s| Out { view: s.view(), req: s.req, lifetime: PhantomData });
        operands::with_operands(ins, outs, |ins, outs| kernel(ins, outs))
    }

    /// Index of the output that shares the memory of input `i`.
    pub fn shares_memory(&self, i: usize) -> Option<usize> {
        self.ins[i].shared_with
    }
}

/// For every input: index of the output that is exactly the same memory.
///
/// # Errors
/// Outputs that overlap, or an input that partially overlaps an output.
fn find_shared_outputs(ins: &[&NDArray], outs: &[(&NDArray, Req)]) -> Result<SmallVec<[Option<usize>; 6]>> {
    let is_written = |i: usize| outs[i].1 != Req::Null;
    outs.iter().filter(|(_, req)| *req != Req::Null).try_for_each(|(array, _)| array.check_writable())?;
    for i in 1..outs.len() {
        if is_written(i) && (0..i).any(|k| is_written(k) && overlap(outs[i].0, outs[k].0)) {
            return Err(Error::Value("two outputs of one operator share memory: give each its own array".into()));
        }
    }
    let mut shared = SmallVec::new();
    for array in ins {
        let output = (0..outs.len()).find(|k| is_written(*k) && overlap(outs[*k].0, array));
        if output.is_some_and(|k| outs[k].0.byte_range() != array.byte_range()) {
            return Err(Error::Internal("an input partially overlaps an output".into()));
        }
        shared.push(output);
    }
    Ok(shared)
}

/// Runs a kernel once. A kernel that runs repeatedly uses a [`Region`] and a [`Call`].
///
/// # Errors
/// Those of [`Call::new`] and of the kernel.
pub fn call_once<R>(
    ins: &[&NDArray],
    outs: &[(&NDArray, Req)],
    kernel: impl FnOnce(&[In<'_>], &mut [Out<'_>]) -> Result<R>,
) -> Result<R> {
    let (mut kernel, mut result) = (Some(kernel), None);
    run_once(ins, outs, &mut |ins, outs| result = kernel.take().map(|kernel| kernel(ins, outs)))?;
    result.unwrap_or_else(|| Err(Error::Internal("a kernel did not run".into())))
}

/// [`call_once`] without type parameters, so that it is compiled only once.
fn run_once(
    ins: &[&NDArray],
    outs: &[(&NDArray, Req)],
    kernel: &mut dyn FnMut(&[In<'_>], &mut [Out<'_>]),
) -> Result<()> {
    let shared = find_shared_outputs(ins, outs)?;
    let _locks = Locks::acquire(ins.iter().copied(), outs.iter().map(|(array, _)| *array));
    let mut inputs: SmallVec<[In<'_>; 6]> = SmallVec::new();
    inputs.extend(ins.iter().zip(shared).map(|(array, shared_with)| {
        let view = view_of(start(array), array);
        In { view, array: Some(array), shared_with }
    }));
    let mut outputs: SmallVec<[Out<'_>; 4]> = SmallVec::new();
    outputs.extend(outs.iter().map(|(array, req)| {
        let view = view_of(start(array), array);
        Out { view, req: *req, lifetime: PhantomData }
    }));
    kernel(&inputs, &mut outputs);
    Ok(())
}

/// True if two arrays share a byte.
pub fn overlap(a: &NDArray, b: &NDArray) -> bool {
    let (ra, rb) = (a.byte_range(), b.byte_range());
    Arc::ptr_eq(a.chunk(), b.chunk()) && ra.start < rb.end && rb.start < ra.end
}

fn start(array: &NDArray) -> NonNull<u8> {
    let range = array.byte_range();
    debug_assert!(range.end <= array.chunk().bytes);
    // SAFETY: NDArray keeps its byte range inside its chunk.
    unsafe { array.chunk().ptr.add(range.start) }
}

/// The memory of an operand, with shape and type.
#[derive(Clone, Copy)]
struct View<'a> {
    ptr: NonNull<u8>,
    shape: &'a Shape,
    len: usize,
    dtype: DType,
}

/// An input operand of a kernel.
pub struct In<'a> {
    view: View<'a>,
    /// The array; `None` for a block of an array in a chain.
    array: Option<&'a NDArray>,
    shared_with: Option<usize>,
}

/// An output operand of a kernel. Mutable inputs (auxiliary states, optimizer states) follow the outputs as `Out`s too.
pub struct Out<'a> {
    view: View<'a>,
    req: Req,
    lifetime: PhantomData<&'a mut u8>,
}

// SAFETY: an `In` is a shared view of locked memory.
unsafe impl Sync for In<'_> {}
// SAFETY: as above.
unsafe impl Send for In<'_> {}
// SAFETY: an `Out` is an exclusive view of locked memory; writing takes `&mut self`.
unsafe impl Sync for Out<'_> {}
// SAFETY: as above.
unsafe impl Send for Out<'_> {}

fn check_type(given: DType, expected: DType) -> Result<()> {
    if given == expected { Ok(()) } else { Err(wrong_type(given, expected)) }
}

#[cold]
fn wrong_type(given: DType, expected: DType) -> Error {
    Error::Internal(format!("a kernel for {expected} was called with an array of {given}"))
}

#[cold]
fn shared_memory() -> Error {
    Error::Internal("a kernel without in-place support got an input that shares memory with an output".into())
}

impl<'a> In<'a> {
    /// Element type.
    pub fn dtype(&self) -> DType {
        self.view.dtype
    }

    /// The shape, fully known.
    pub fn shape(&self) -> &'a Shape {
        self.view.shape
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.view.len
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Index of the output that shares the memory, if any.
    pub fn shared_with(&self) -> Option<usize> {
        self.shared_with
    }

    /// Cache key for data derived from the content: chunk, version, offset.
    pub fn version(&self) -> Option<(u64, u64, usize)> {
        let array = self.array?;
        array.chunk().version().map(|(id, v)| (id, v, array.byte_range().start))
    }

    /// The address of the first element.
    fn address(&self) -> usize {
        self.view.ptr.as_ptr() as usize
    }

    /// The elements.
    ///
    /// # Errors
    /// A different element type; memory shared with an output (the kernel must use [`in_out`]).
    pub fn slice<T: Element>(&self) -> Result<&'a [T]> {
        check_type(self.dtype(), T::DTYPE)?;
        if self.shared_with.is_some() {
            return Err(shared_memory());
        }
        // SAFETY: locked, in bounds, aligned to 64 plus a multiple of the element size, initialized, of this type; no output, and hence
        // no mutable slice, overlaps it.
        Ok(unsafe { std::slice::from_raw_parts(self.view.ptr.as_ptr().cast(), self.len()) })
    }

    /// The raw bytes; see [`In::slice`].
    pub fn bytes(&self) -> Result<&'a [u8]> {
        if self.shared_with.is_some() {
            return Err(shared_memory());
        }
        // SAFETY: as in `slice`; every byte is initialized.
        Ok(unsafe { std::slice::from_raw_parts(self.view.ptr.as_ptr(), self.len() * self.dtype().size()) })
    }
}

impl Out<'_> {
    /// Element type.
    pub fn dtype(&self) -> DType {
        self.view.dtype
    }

    /// The shape, fully known.
    pub fn shape(&self) -> &Shape {
        self.view.shape
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.view.len
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The request. Kernels get `Null`, `Write` and, if their operator declares it, `Add`.
    pub fn req(&self) -> Req {
        self.req
    }

    /// True if the result is wanted.
    pub fn wanted(&self) -> bool {
        self.req != Req::Null
    }

    /// The address of the first element.
    fn address(&self) -> usize {
        self.view.ptr.as_ptr() as usize
    }

    /// The elements for writing (and reading, for `Add` and mutable inputs).
    ///
    /// # Errors
    /// A different element type; an output that is not wanted.
    pub fn slice_mut<T: Element>(&mut self) -> Result<&mut [T]> {
        check_type(self.dtype(), T::DTYPE)?;
        self.check_wanted()?;
        // SAFETY: locked for writing, in bounds, aligned, initialized, of this type; `Call::new` checked that no other output overlaps
        // it, and an input that shares its memory gives no slice.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.view.ptr.as_ptr().cast(), self.view.len) })
    }

    /// The raw bytes; see [`Out::slice_mut`]. Elements of type bool must stay 0 or 1.
    pub fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        self.check_wanted()?;
        // SAFETY: as in `slice_mut`.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.view.ptr.as_ptr(), self.view.len * self.view.dtype.size()) })
    }

    /// The elements as another type of the same size, for kernels that only move them; see [`Out::slice_mut`].
    ///
    /// # Errors
    /// A type of a different size, or one for which some bit pattern is invalid; an output that is not wanted.
    pub fn slice_mut_as<T: Element>(&mut self) -> Result<&mut [T]> {
        if T::DTYPE.size() != self.dtype().size() || T::DTYPE == DType::Bool {
            return Err(Error::Internal(format!("elements of {} cannot be moved as {}", self.dtype(), T::DTYPE)));
        }
        self.check_wanted()?;
        // SAFETY: as in `slice_mut`; a type of the same size has the same alignment, and every bit pattern is valid (bool was refused).
        Ok(unsafe { std::slice::from_raw_parts_mut(self.view.ptr.as_ptr().cast(), self.view.len) })
    }

    fn check_wanted(&self) -> Result<()> {
        if self.wanted() {
            Ok(())
        } else {
            Err(Error::Internal("a kernel wrote an output that was not requested".into()))
        }
    }
}

/// Input and output of an elementwise kernel; the input is `None` if it shares the output's memory.
///
/// # Errors
/// A different element type.
pub fn in_out<'s, T: Element, U: Element>(
    input: &'s In<'_>,
    output: &'s mut Out<'_>,
) -> Result<(Option<&'s [T]>, &'s mut [U])> {
    if input.shared_with.is_none() {
        return Ok((Some(input.slice::<T>()?), output.slice_mut::<U>()?));
    }
    check_type(input.dtype(), T::DTYPE)?;
    if T::DTYPE != U::DTYPE || input.view.ptr != output.view.ptr {
        return Err(Error::Internal("an input shares memory with an output of a different type or address".into()));
    }
    Ok((None, output.slice_mut::<U>()?))
}

/// Runs `f` on the array's bytes, locked for reading.
pub fn read_bytes<R>(array: &NDArray, f: impl FnOnce(&[u8]) -> R) -> R {
    let _locks = Locks::acquire([array], []);
    // SAFETY: locked for reading while `f` runs; in bounds and initialized.
    f(unsafe { std::slice::from_raw_parts(start(array).as_ptr(), array.byte_range().len()) })
}

/// Runs `f` on the array's bytes, locked for writing. Elements of type bool must stay 0 or 1.
pub fn write_bytes<R>(array: &NDArray, f: impl FnOnce(&mut [u8]) -> R) -> R {
    let _locks = Locks::acquire([], [array]);
    // SAFETY: locked for writing while `f` runs; in bounds and initialized.
    f(unsafe { std::slice::from_raw_parts_mut(start(array).as_ptr(), array.byte_range().len()) })
}

/// Locks an array of elements of type `dtype` for reading or, if `is_written`, for writing.
fn lock_elements(array: &NDArray, dtype: DType, is_written: bool) -> Result<Locks<'_>> {
    check_type(array.dtype(), dtype)?;
    if is_written {
        array.check_writable()?;
        Ok(Locks::acquire([], [array]))
    } else {
        Ok(Locks::acquire([array], []))
    }
}

/// Runs `f` on the array's elements, locked for reading.
///
/// # Errors
/// `T` is not the array's element type.
pub fn read_slice<T: Element, R>(array: &NDArray, f: impl FnOnce(&[T]) -> R) -> Result<R> {
    let _locks = lock_elements(array, T::DTYPE, false)?;
    // SAFETY: locked for reading while `f` runs; in bounds, aligned, initialized, of this type.
    Ok(f(unsafe { std::slice::from_raw_parts(start(array).as_ptr().cast(), array.len()) }))
}

/// Runs `f` on the array's elements, locked for writing.
///
/// # Errors
/// `T` is not the array's element type; the array is read-only.
pub fn write_slice<T: Element, R>(array: &NDArray, f: impl FnOnce(&mut [T]) -> R) -> Result<R> {
    let _locks = lock_elements(array, T::DTYPE, true)?;
    // SAFETY: locked for writing while `f` runs; in bounds, aligned, initialized, of this type.
    Ok(f(unsafe { std::slice::from_raw_parts_mut(start(array).as_ptr().cast(), array.len()) }))
}

/// Copies the bytes of an array to another of the same size; they may overlap.
///
/// # Errors
/// Different sizes; a read-only target.
pub fn copy(source: &NDArray, target: &NDArray) -> Result<()> {
    target.check_writable()?;
    let bytes = source.byte_range().len();
    if bytes != target.byte_range().len() {
        return Err(Error::Internal("a copy between arrays of different sizes".into()));
    }
    let _locks = Locks::acquire([source], [target]);
    // SAFETY: both are locked and in bounds; `ptr::copy` allows overlap.
    unsafe { std::ptr::copy(start(source).as_ptr(), start(target).as_ptr(), bytes) };
    Ok(())
}

/// The bytes of a slice of elements.
pub fn as_bytes<T: Element>(items: &[T]) -> &[u8] {
    // SAFETY: every `Element` is a scalar without padding bytes.
    unsafe { std::slice::from_raw_parts(items.as_ptr().cast(), std::mem::size_of_val(items)) }
}

/// The bytes as elements.
///
/// # Errors
/// The bytes are not aligned, or not a multiple of the element size; elements of type bool.
pub fn from_bytes<T: Element>(bytes: &[u8]) -> Result<&[T]> {
    let size = std::mem::size_of::<T>();
    if !bytes.len().is_multiple_of(size) || !bytes.as_ptr().cast::<T>().is_aligned() || T::DTYPE == DType::Bool {
        return Err(Error::Internal(format!("{} bytes are not an aligned array of {}", bytes.len(), T::DTYPE)));
    }
    // SAFETY: aligned, a whole number of elements, initialized, and every bit pattern is valid (bool was refused).
    Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_reused() {
        let p = Chunk::new(123_456, Context::default()).unwrap().ptr;
        let q = Chunk::new(123_456, Context::default()).unwrap().ptr;
        assert_eq!(p, q);
        assert_eq!(q.as_ptr() as usize % ALIGN, 0);
    }

    #[test]
    fn zeros_are_zero_in_fresh_and_reused_blocks() {
        // A size that no other test allocates, smaller for Miri, which reads a byte in a microsecond.
        const BYTES: usize = if cfg!(miri) { 7_777 } else { 777_777 };
        for _ in 0..3 {
            let chunk = Chunk::zeros(BYTES, Context::default()).unwrap();
            let array = NDArray::view(chunk, 0, Shape::new(&[BYTES as i64]), DType::U8).unwrap();
            assert!(read_bytes(&array, |bytes| bytes.iter().all(|byte| *byte == 0)));
            write_bytes(&array, |bytes| bytes.fill(7));
        }
    }

    #[test]
    fn blocks_stay_zero_until_they_are_written() {
        // Size classes that no other test allocates.
        let is_zero = |bytes: usize, touch: fn(&NDArray)| {
            let chunk = Chunk::zeros(bytes, Context::default()).unwrap();
            touch(&NDArray::view(chunk, 0, Shape::new(&[bytes as i64]), DType::U8).unwrap());
            let block = POOL.allocate(bytes).unwrap();
            let is_zero = block.is_zero;
            POOL.release(block, bytes);
            is_zero
        };
        assert!(is_zero(1_100_000, |_| ()));
        assert!(is_zero(1_100_000, |array| assert_eq!(read_bytes(array, |bytes| bytes[9]), 0)));
        assert!(!is_zero(1_100_000, |array| write_bytes(array, |bytes| bytes[9] = 1)));
        assert!(!is_zero(1_700_000, |array| _ = array.chunk().expose()));
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(matches!(Chunk::new(usize::MAX, Context::default()), Err(Error::OutOfMemory(_))));
    }

    #[test]
    fn overlapping_operands_are_detected() {
        let a = NDArray::from_slice(&[1f32, 2.0, 3.0, 4.0], &[4]).unwrap();
        let (lo, hi, mid) = (a.slice(0, 2).unwrap(), a.slice(2, 4).unwrap(), a.slice(1, 3).unwrap());
        let mut region = Region::new([&lo], [&hi, &mid]);
        assert!(Call::new(&region, [&lo], [(&hi, Req::Write)]).is_ok());
        assert!(Call::new(&region, [&lo], [(&mid, Req::Write)]).is_err());
        assert!(Call::new(&region, [], [(&hi, Req::Write), (&mid, Req::Write)]).is_err());
        let in_place = Call::new(&region, [&lo], [(&lo, Req::Write)]).unwrap();
        let mut guard = region.lock();
        in_place
            .with(&mut guard, |ins, outs| {
                assert!(ins[0].slice::<f32>().is_err());
                let (input, output) = in_out::<f32, f32>(&ins[0], &mut outs[0])?;
                assert!(input.is_none());
                output[0] = 7.0;
                Ok(())
            })
            .unwrap();
        drop(guard);
        assert_eq!(a.to_vec::<f32>().unwrap(), [7.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn writes_increment_the_version_and_exposed_chunks_have_none() {
        let a = NDArray::from_slice(&[1f32], &[1]).unwrap();
        let v = a.chunk().version();
        a.copy_from_slice(&[2f32]).unwrap();
        assert_ne!(v, a.chunk().version());
        a.chunk().expose();
        assert_eq!(a.chunk().version(), None);
    }
}
