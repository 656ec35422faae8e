//! Graphs inside operators, such as the body of a loop.

use crate::context::Context;
use crate::dtype::DType;
use crate::error::Result;
use crate::mode::Mode;
use crate::ndarray::NDArray;
use crate::shape::Shape;
use crate::storage::Req;

/// A graph inside an operator: the body or condition of a loop, or a branch.
pub trait Subgraph: Send + Sync {
    /// Number of inputs.
    fn inputs(&self) -> usize;

    /// Number of outputs.
    fn outputs(&self) -> usize;

    /// Indices of the inputs that the graph mutates.
    fn states(&self) -> &[usize];

    /// Fills in unknown shapes of inputs and outputs.
    ///
    /// # Errors
    /// Shapes that contradict each other.
    fn infer_shape(&self, ins: &mut [Shape], outs: &mut [Shape]) -> Result<()>;

    /// Fills in unknown element types of inputs and outputs.
    ///
    /// # Errors
    /// Types that contradict each other.
    fn infer_dtype(&self, ins: &mut [Option<DType>], outs: &mut [Option<DType>]) -> Result<()>;

    /// Binds the graph to these inputs and compiles it. The gradient of each input is written to its array in `grads`, if it has one.
    ///
    /// # Errors
    /// Arrays of wrong shapes or types; an operator without gradient; no memory.
    fn bind(&self, context: Context, ins: &[NDArray], grads: &[Option<(NDArray, Req)>]) -> Result<Box<dyn BoundGraph>>;
}

/// A [`Subgraph`] bound to arrays.
pub trait BoundGraph: Send {
    /// The outputs, which the next forward call overwrites.
    fn outputs(&self) -> &[NDArray];

    /// Computes the outputs.
    ///
    /// # Errors
    /// Errors of the operators.
    fn forward(&self, mode: Mode) -> Result<()>;

    /// Computes the gradients of the inputs from those of the outputs.
    ///
    /// # Errors
    /// Errors of the operators.
    fn backward(&self, ograds: &[NDArray], mode: Mode) -> Result<()>;
}
