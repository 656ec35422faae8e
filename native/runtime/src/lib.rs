//! Graphs, execution, automatic differentiation, data and files: the facade that the C and JNI faces call.

pub mod symbol;

/// The version that files and `MXGetVersion` give: 1.9.1.
pub const MXNET_VERSION: i32 = 10901;
