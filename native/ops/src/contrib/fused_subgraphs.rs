//! `_sg_mkldnn_conv`, `_sg_mkldnn_fully_connected`: nodes that MXNet's oneDNN backend substitutes for a subgraph, which they keep as an
//! attribute. Here the node is expanded to its subgraph, which the executor's passes fuse in their own way.

use ferromx_core::error::Error;
use ferromx_core::op::{AnyOperator, ArgDef, Operator};
use ferromx_core::params;
use ferromx_core::params::OpParams;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&FUSED_CONVOLUTION, &FUSED_FULLY_CONNECTED];

params! {
    /// Parameters of `_sg_mkldnn_conv`. The `with_` flags only repeat what the subgraph contains.
    pub struct FusedConvolutionParam {
        /// Whether the subgraph contains batch normalization.
        with_bn: bool = false;
        /// Whether the subgraph contains an activation of the convolution.
        with_act: bool = false;
        /// Whether the subgraph adds another array, the last input.
        with_sum: bool = false;
        /// Whether the subgraph contains an activation of the sum.
        with_postsum_act: bool = false;
        /// Whether data and added array are 8-bit integers; the bounds of their ranges are then the last inputs.
        quantized: bool = false;
        /// Whether a quantized operator returns float32 instead of 8-bit integers.
        enable_float_output: bool = false;
        /// The calibrated minimum of the result; only for 8-bit integers.
        min_calib_range: Option<f32> = None;
        /// The calibrated maximum of the result; only for 8-bit integers.
        max_calib_range: Option<f32> = None;
    }
}

params! {
    /// Parameters of `_sg_mkldnn_fully_connected`. `with_eltwise` only repeats what the subgraph contains.
    pub struct FusedFullyConnectedParam {
        /// Whether the subgraph contains an elementwise function.
        with_eltwise: bool = false;
        /// Whether data, weight and bias are 8-bit integers; the bounds of their ranges are then the last inputs.
        quantized: bool = false;
        /// Whether a quantized operator returns float32 instead of 8-bit integers.
        enable_float_output: bool = false;
        /// The calibrated minimum of the result; only for 8-bit integers.
        min_calib_range: Option<f32> = None;
        /// The calibrated maximum of the result; only for 8-bit integers.
        max_calib_range: Option<f32> = None;
        /// Whether each output channel's weights have their own range; then only data is 8-bit integers.
        channel_wise_quantize: Option<bool> = None;
    }
}

const SUBGRAPH: &[ArgDef] = &[ArgDef { name: "graph", doc: "The fused subgraph.", type_string: "Symbol" }];

/// The common part of both operator definitions. As in MXNet, their metadata lists no arguments.
const fn fused_subgraph<P: OpParams>(name: &'static str) -> Operator<P> {
    Operator::new(name)
        .expands(SUBGRAPH)
        .variadic("data", "The inputs of the subgraph, then the bounds of the ranges of 8-bit integers.", "num_args")
        .listed(0)
        .unlisted_params()
        .runnable_if(|_| {
            Err(Error::Unsupported(
                "it represents a subgraph, which is its first argument: load the symbol file that has it, or compose it of that \
                 graph and its inputs; to compute imperatively, call the operators of the subgraph"
                    .into(),
            ))
        })
}

pub(super) static FUSED_CONVOLUTION: Operator<FusedConvolutionParam> = fused_subgraph("_sg_mkldnn_conv").doc(
    "A convolution fused with the operators that follow it (batch normalization, an addition, activations) by MXNet's oneDNN backend: \
     graph(data, ...). The graph replaces the node and determines its shapes, types and gradients. With quantized, integer inputs are \
     dequantized by their ranges; the graph computes with the original weights, without quantizing them to 8 bits; and the result is \
     quantized to 8-bit integers by the calibrated range and returned with its bounds, unless enable_float_output is set. It cannot be \
     called on arrays.",
);

pub(super) static FUSED_FULLY_CONNECTED: Operator<FusedFullyConnectedParam> =
    fused_subgraph("_sg_mkldnn_fully_connected").doc(
        "A fully connected layer fused with an elementwise function by MXNet's oneDNN backend: graph(data, weight, bias). Like \
         _sg_mkldnn_conv, but weights and bias are 8-bit integers too, unless channel_wise_quantize is set.",
    );
