//! Arrays and their memory: chunks with locks and versions, and checked typed views of them for kernels.
//!
//! - `ndarray` has dense arrays, each a range of a `chunk`, and `elements` reads and writes them;
//! - `pool` reuses blocks of memory, which `pages` gets from the system, and `foreign` has memory of other libraries and processes;
//! - `region` has the locks of an operation, and `operands` the views of locked arrays that kernels get;
//! - `call` checks the operands of one kernel call, and `chain` those of a chain of elementwise kernels;
//! - `blocks` runs a chain block by block, and can record the `loops` of its kernels;
//! - `replacement` lets a plan read another array than the one that it was compiled with;
//! - `single_precision` lets a kernel compute 16-bit operands in single precision;
//! - `operand_lists` passes operands to kernels without allocating.
//!
//! This module and `memory::reserve` are the only ones of the crate with `unsafe`. Its guarantees: no other slice overlaps a kernel's
//! mutable slice, memory is always initialized, and it outlives every view of it.
#![allow(unsafe_code)]

mod blocks;
mod call;
mod chain;
mod chunk;
mod elements;
mod foreign;
mod loops;
pub mod ndarray;
mod operand_lists;
mod operands;
pub mod pages;
mod pool;
mod region;
mod replacement;
mod single_precision;

pub use blocks::{Block, Blocks};
pub use call::{Call, call_once};
pub use chain::{Chain, ChainCall, Operand};
pub use chunk::{Access, Chunk};
pub use elements::{as_bytes, copy, from_bytes, read_bytes, read_slice, write_bytes, write_slice};
pub use loops::{FloatLoop, LOOP_MULTIPLE, LoopOperand, LoopRecorder};
pub use ndarray::overlap;
pub use operands::{In, Out, Req, in_out};
pub use pages::ALIGN;
pub use pool::{memory_in_use, release_cached_memory};
pub use region::{Region, RegionGuard};
pub use replacement::Replacement;
pub use single_precision::HalfConversion;
