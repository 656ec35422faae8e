//! The C and JNI interfaces of FerroMX. Both are thin: they check handles and arguments, call the runtime, and convert results and
//! errors.

pub mod c;
mod gradient_names;
mod guard;
pub mod handle;
mod jni;
mod sparse;

#[global_allocator]
static ALLOCATOR: ferromx_runtime::storage::ReservingAllocator = ferromx_runtime::storage::ReservingAllocator;
