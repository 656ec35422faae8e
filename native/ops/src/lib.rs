//! The operators. A family is one file or folder with metadata, inference, gradient and kernel of each operator side
//! by side; its `OPS` table is listed once, in [`registry`].
//!
//! - Arithmetic: `elemwise` on arrays of one shape, `broadcast` with broadcasting, `reduce` along axes, `linalg` on matrices.
//! - Elements and their order: `init` creates arrays, `random` draws them, `shape` moves elements, `index` gathers and scatters
//!   them, `sort` orders them.
//! - Networks: `nn` and `spatial` are layers, `quantized` layers on 8-bit integers, `optimizer` updates weights, `image` prepares
//!   and decodes images.
//! - `contrib` and `onnx` contain the operators of MXNet's `contrib` namespace, and those that only ONNX has.
//! - `control_flow` runs subgraphs, `custom` the operators of users. `internal` lists names that cannot be called.
//! - `sparse` has what the sparse forms of operators share, and operators that only exist for sparse arrays.
//! - `packed` shares weights that were packed for the loops of kernels.
//! - `compose` names the operators of composed gradients.
//! - `rules` has shared inference rules, `axes` the axes of reductions, `movement` helpers of operators that move elements, `num_args` the
//!   parameters of operators that only count their inputs.
//! - `definitions` names operators for crates that build graphs.
//!
//! Operators whose names begin with `_np_`, `_npi_` or `_npx_` form MXNet's NumPy interface. They follow NumPy where it differs
//! from MXNet's older operators: operands of different types are promoted, comparisons return booleans, and a result without axes
//! has the shape ().

mod axes;
mod broadcast;
mod compose;
pub mod contrib;
mod control_flow;
pub mod custom;
pub mod definitions;
pub mod elemwise;
pub mod image;
mod index;
mod init;
mod internal;
mod linalg;
pub mod movement;
pub mod nn;
mod num_args;
pub mod onnx;
mod optimizer;
mod packed;
mod precision;
pub mod quantized;
mod random;
mod reduce;
pub mod registry;
mod rules;
pub mod shape;
mod sort;
pub mod sparse;
mod spatial;
#[cfg(test)]
#[allow(dead_code)] // Each family uses only some helpers.
mod testing;
