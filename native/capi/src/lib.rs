//! The C and JNI interfaces of FerroMX. Both are thin: they check handles and arguments, call the runtime, and convert results and
//! errors.
//!
//! - [`c`]: MXNet's C API; `jni`: the native methods of the Scala library.
//! - [`handle`]: the table of handles, with `objects`, which only the C API has; `panics`: the messages of caught panics.
//! - `sparse`: the components of sparse arrays; `gradient_names`: the names of MXNet's gradient operators.

pub mod c;
mod gradient_names;
pub mod handle;
mod jni;
mod objects;
mod panics;
mod sparse;

#[global_allocator]
static ALLOCATOR: ferromx_runtime::memory::ReservingAllocator = ferromx_runtime::memory::ReservingAllocator;
