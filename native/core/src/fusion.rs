//! What operators say about fusing: a plan appends what follows a product to the product's kernel, which finishes each part of its
//! result while it is in the cache.

use crate::op::KernelFn;
use crate::params::Params;

/// The part that an operator can take in a fused kernel.
#[derive(Clone, Copy)]
pub enum Role {
    /// None.
    None,
    /// A product of matrices or a convolution. The kernel has [`Fused`] parameters and computes
    /// `function(normalisation(product + bias) + residual)`; its inputs are those of the product, then those of the
    /// normalisation but the first, then the residual.
    Product {
        /// The kernel, for float32 and float64.
        kernel: KernelFn,
        /// The axis of the channels of an output of a given number of dimensions.
        channels: fn(&Params, usize) -> usize,
    },
    /// Outside of training, a factor and a summand for each channel of the first input: the function gives the axis of the channels
    /// of an input of a given number of dimensions.
    Normalisation(fn(&Params, usize) -> Option<usize>),
    /// A function of each element, if product kernels have it.
    Function(fn(&Params) -> Option<Elementwise>),
}

/// The functions of one element that product kernels apply.
#[derive(Clone, Copy, Debug)]
pub enum Elementwise {
    /// max(x, 0), with NaN kept.
    Relu,
    /// x above 0, a multiple of it otherwise.
    Leaky(f64),
    /// Limited to an interval, with NaN kept.
    Clamp {
        /// The least value.
        low: f64,
        /// The largest value, which wins if it is the smaller one.
        high: f64,
    },
    /// Another function, for float32 and float64: it replaces each element by its value.
    Map(fn(&mut [f32]), fn(&mut [f64])),
}

/// Parameters of the kernel of a [`Role::Product`].
pub struct Fused {
    /// Those of the product.
    pub product: Params,
    /// Those of the normalisation that follows.
    pub normalisation: Option<Params>,
    /// Whether an array is added.
    pub residual: bool,
    /// The function applied to the sum.
    pub function: Option<Elementwise>,
}
