//! The objects of handles that only MXNet's C API has.

use std::ffi::CString;
use std::sync::Arc;

/// The arrays of a file, converted to float32.
pub struct NdList(pub(crate) Vec<ListItem>);

/// An array of an [`NdList`].
pub(crate) struct ListItem {
    /// Name; empty if the file has no names.
    pub name: CString,
    /// Elements.
    pub data: Vec<f32>,
    /// Shape.
    pub shape: Vec<u32>,
}

/// An argument or result of a packed function.
pub enum PackedObject {
    /// An integer.
    Integer(i64),
    /// A list of objects.
    List(Vec<Arc<PackedObject>>),
}
