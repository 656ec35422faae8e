//! The roles of operators in epilogue fusion: a plan fuses the normalization, residual and activation after a matrix product or convolution
//! into its kernel, which applies them while each tile of the result is in the cache.

use super::kernel::KernelFn;
use crate::params::Params;

/// How the operator can be fused with others: as a link of a chain of elementwise operators, or in the epilogue of a product.
#[derive(Clone, Copy)]
pub struct Fusion {
    /// Whether the operator is elementwise on operands of equal shapes.
    pub is_pointwise: bool,
    /// Whether it broadcasts, and so is elementwise on operands of equal shapes.
    pub is_broadcasting: bool,
    /// Whether its kernel consists of loops, which can be recorded.
    pub consists_of_loops: bool,
    /// Index of the first scalar input: the operator is elementwise if this input and those after it have one element each.
    pub first_scalar: usize,
    /// Its role in epilogue fusion.
    pub role: Role,
}

impl Fusion {
    /// No fusion.
    pub(super) const fn new() -> Fusion {
        Fusion {
            is_pointwise: false,
            is_broadcasting: false,
            consists_of_loops: false,
            first_scalar: usize::MAX,
            role: Role::None,
        }
    }
}

/// The role of an operator in epilogue fusion.
#[derive(Clone, Copy)]
pub enum Role {
    /// The operator is not fused.
    None,
    /// A matrix product or a convolution. The kernel has [`Fused`] parameters and computes
    /// `function(normalization(product + bias) + residual)`. Its inputs are those of the product, then those of the normalization except
    /// the first, then the residual.
    Product {
        /// The kernel, for float32 and float64.
        kernel: KernelFn,
        /// The channel axis of an output of the given rank.
        channels: fn(&Params, usize) -> usize,
    },
    /// A normalization that, in inference, is a scale and a shift for each channel of the first input. The function returns the channel
    /// axis of an input of the given rank.
    Normalization(fn(&Params, usize) -> Option<usize>),
    /// An elementwise function; `None` if product kernels do not support it.
    Function(fn(&Params) -> Option<Elementwise>),
}

/// The elementwise functions that product kernels apply.
#[derive(Clone, Copy, Debug)]
pub enum Elementwise {
    /// max(x, 0); NaN stays NaN.
    Relu,
    /// x if x > 0, otherwise x times the slope.
    Leaky(f64),
    /// Clamps to an interval; NaN stays NaN.
    Clamp {
        /// The lower bound.
        low: f64,
        /// The upper bound, which takes precedence if it is below the lower one.
        high: f64,
    },
    /// min(max(alpha * x + beta, 0), 1); NaN stays NaN.
    HardSigmoid {
        /// The slope.
        alpha: f64,
        /// The value at zero.
        beta: f64,
    },
    /// x times [`HardSigmoid`](Elementwise::HardSigmoid) of x.
    HardSwish {
        /// The slope.
        alpha: f64,
        /// The value at zero.
        beta: f64,
    },
    /// Any other function, in place, for float32 and float64.
    Map(fn(&mut [f32]), fn(&mut [f64])),
    /// x times any other function of x: with the logistic function, SiLU.
    Gated(fn(&mut [f32]), fn(&mut [f64])),
}

impl Elementwise {
    /// x times this function of x; `None` if product kernels do not support it.
    pub fn gated(self) -> Option<Elementwise> {
        match self {
            Elementwise::HardSigmoid { alpha, beta } => Some(Elementwise::HardSwish { alpha, beta }),
            Elementwise::Map(single, double) => Some(Elementwise::Gated(single, double)),
            _ => None,
        }
    }
}

/// Parameters of the kernel of a [`Role::Product`].
pub struct Fused {
    /// The parameters of the product.
    pub product: Params,
    /// The parameters of the normalization that follows, if any.
    pub normalization: Option<Params>,
    /// Whether a residual is added.
    pub has_residual: bool,
    /// The elementwise function that is applied last.
    pub function: Option<Elementwise>,
}
