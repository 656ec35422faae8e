//! The operators. A family is one file or folder with metadata, inference, gradient and kernel of each operator side
//! by side; its `OPS` table is listed once, in [`registry`].

pub mod broadcast;
pub mod contrib;
pub mod control_flow;
pub mod custom;
pub mod definitions;
pub mod elemwise;
pub mod image;
pub mod index;
pub mod init;
pub mod internal;
pub mod linalg;
pub mod nn;
pub mod numpy;
pub mod onnx;
pub mod optimizer;
pub mod quantized;
pub mod random;
pub mod reduce;
pub mod registry;
pub mod rules;
pub mod shape;
pub mod sort;
pub mod sparse;
pub mod spatial;
#[cfg(test)]
#[allow(dead_code)] // Each family uses only some helpers.
mod testing;
