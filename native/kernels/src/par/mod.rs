//! Parallel loops over fixed chunks, and the memory that they share or keep.
//!
//! A loop is cut into chunks by its caller, from the size of the work alone, so that results do not depend on the
//! number of threads. The calling thread takes part; chunks are claimed one by one, the first ones by the calling thread
//! and the last ones by the workers; workers without work spin for some microseconds, then let others run while they look
//! on, and at last sleep. A loop started while another one runs, or from within a chunk, runs on its calling thread.
//! Starting a loop costs about a microsecond: work below some ten microseconds is better left in one chunk.
#![allow(unsafe_code)]

mod group;
mod list;
mod matrix;
mod pool;
mod scratch;
mod split;
#[cfg(test)]
mod tests;

pub use group::{Group, parallel_groups};
pub use list::List;
pub use matrix::{MatMut, MatRef, parallel_blocks};
pub use pool::{num_threads, parallel_for, set_num_threads};
pub use scratch::{AlignedVec, Plain, with_scratch};
pub use split::{chunks, fair_chunks, parallel_ranges, parallel_rows, parallel_rows2};
