//! The C and JNI faces of FerroMX. Both are thin: they check handles and arguments, call the runtime, and turn results and
//! errors into what their callers expect.

pub mod c;
mod gradient_names;
mod guard;
pub mod handle;
mod jni;
mod sparse;

#[global_allocator]
static ALLOCATOR: ferromx_core::storage::ReservingAllocator = ferromx_core::storage::ReservingAllocator;
