//! The operands of kernels: typed views of locked arrays.

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::ndarray::NDArray;
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::shape::Shape;

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

/// The memory of an operand, with shape and type.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) ptr: NonNull<u8>,
    pub(super) shape: &'a Shape,
    pub(super) len: usize,
    pub(super) dtype: DType,
}

/// An input operand of a kernel.
pub struct In<'a> {
    pub(super) view: View<'a>,
    /// The array; `None` for a block of an array in a chain.
    pub(super) array: Option<&'a NDArray>,
    pub(super) shared_with: Option<usize>,
}

/// An output operand of a kernel. Mutable inputs (auxiliary states, optimizer states) follow the outputs as `Out`s too.
pub struct Out<'a> {
    pub(super) view: View<'a>,
    pub(super) req: Req,
    pub(super) lifetime: PhantomData<&'a mut u8>,
}

// SAFETY: an `In` is a shared view of locked memory.
unsafe impl Sync for In<'_> {}
// SAFETY: as above.
unsafe impl Send for In<'_> {}
// SAFETY: an `Out` is an exclusive view of locked memory; writing takes `&mut self`.
unsafe impl Sync for Out<'_> {}
// SAFETY: as above.
unsafe impl Send for Out<'_> {}

pub(super) fn check_type(given: DType, expected: DType) -> Result<()> {
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
    pub(super) fn address(&self) -> usize {
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
    pub(super) fn address(&self) -> usize {
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
