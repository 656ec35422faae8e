//! Parallel loops over fixed chunks, and the scratch memory of each thread.
//!
//! A chunk is the unit of work of a thread. So that results do not depend on the number of threads, the caller chooses the chunks by
//! the size of the work alone; they may depend on the number of threads only if the division changes no result. Each thread, the calling
//! one included, starts with a range of chunks of its own and then helps the others. An idle worker spins for several microseconds, then
//! yields, and finally sleeps. A loop that starts while another one runs, or within a chunk, runs on its calling thread. Starting a loop
//! costs about a microsecond, so work of less than about ten microseconds should stay in one chunk.
//!
//! - `pool`: the thread pool and `parallel_for`.
//! - `split`: parallel loops over index ranges and the rows of slices.
//! - `matrix`: matrix views, and parallel loops over the blocks of a matrix.
//! - `group`: parallel loops over several slices at once.
//! - `scratch`: scratch memory of a thread and aligned vectors.
//! - `list`: temporary lists that reuse memory.
#![allow(unsafe_code)]

mod group;
mod list;
mod matrix;
mod pool;
mod scratch;
mod split;
#[cfg(test)]
mod tests;

pub use group::Group;
pub(crate) use group::parallel_groups;
pub(crate) use list::List;
pub use matrix::{MatMut, MatRef};
pub(crate) use matrix::{parallel_blocks, parallel_blocks_of_groups};
pub use pool::{num_threads, parallel_for, set_num_threads};
pub use scratch::{AlignedVec, Pod, with_scratch};
pub use split::parallel_copy;
pub(crate) use split::{balanced_chunks, grain_for_all_threads, parallel_ranges, parallel_rows, parallel_rows2};
