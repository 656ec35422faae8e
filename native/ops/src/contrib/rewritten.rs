//! `_sg_mkldnn_conv`, `_sg_mkldnn_fully_connected`: parts of graphs that MXNet's oneDNN backend has put together into one node, which
//! keeps the part as a graph. Here the graph takes the node's place, where plans fuse it without a name for that.

use ferromx_core::error::Error;
use ferromx_core::op::{ArgDef, OpDef};
use ferromx_core::params;

/// The operators of this file.
pub static OPS: &[&OpDef] = &[&FUSED_CONVOLUTION, &FUSED_FULLY_CONNECTED];

params! {
    /// Parameters of `_sg_mkldnn_conv`. Which operators the part has, the graph says; the flags about it repeat that.
    pub struct FusedConvolutionParam {
        /// Whether batch normalisation is in the part.
        with_bn: bool = false;
        /// Whether an activation of the convolution is in the part.
        with_act: bool = false;
        /// Whether the addition of another array, the last input, is in the part.
        with_sum: bool = false;
        /// Whether an activation of the sum is in the part.
        with_postsum_act: bool = false;
        /// Whether data and the array to be added are 8-bit integers; the ends of their ranges are then the last inputs.
        quantized: bool = false;
        /// Whether the result of 8-bit integers is of type float32, and not 8-bit integers itself.
        enable_float_output: bool = false;
        /// The smallest result that calibration has found; of 8-bit integers alone.
        min_calib_range: Option<f32> = None;
        /// The largest result that calibration has found; of 8-bit integers alone.
        max_calib_range: Option<f32> = None;
    }
}

params! {
    /// Parameters of `_sg_mkldnn_fully_connected`. Which operators the part has, the graph says; the flag about it repeats that.
    pub struct FusedFullyConnectedParam {
        /// Whether a function of the elements is in the part.
        with_eltwise: bool = false;
        /// Whether data, weight and bias are 8-bit integers; the ends of their ranges are then the last inputs.
        quantized: bool = false;
        /// Whether the result of 8-bit integers is of type float32, and not 8-bit integers itself.
        enable_float_output: bool = false;
        /// The smallest result that calibration has found; of 8-bit integers alone.
        min_calib_range: Option<f32> = None;
        /// The largest result that calibration has found; of 8-bit integers alone.
        max_calib_range: Option<f32> = None;
        /// Whether the weights of every output have a range of their own: of 8-bit integers there is then data alone.
        channel_wise_quantize: Option<bool> = None;
    }
}

const PART: &[ArgDef] = &[ArgDef { name: "graph", doc: "The part of a graph.", type_string: "Symbol" }];

/// What both operators are; MXNet's metadata lists no argument of them.
const fn rewritten(name: &'static str) -> OpDef {
    OpDef::new(name)
        .expands(PART)
        .variadic("data", "The inputs of the part, then the ends of ranges of 8-bit integers.", "num_args")
        .listed(0)
        .unlisted_params()
        .ready_if(|_| {
            Err(Error::Unsupported(
                "it stands for a part of a graph, which it has as its first argument: load the symbol file that has it, or compose it \
                 of that graph and its inputs; on arrays, call the operators of the part"
                    .into(),
            ))
        })
}

/// A convolution and what follows it.
pub static FUSED_CONVOLUTION: OpDef = rewritten("_sg_mkldnn_conv").params::<FusedConvolutionParam>().doc(
    "A convolution with what follows it (batch normalisation, an addition, activations), as MXNet's oneDNN backend writes it into graphs: \
     graph(data, ...). The graph takes the place of the node, so that its shapes, types and gradients are those of the graph. With \
     quantized, integers become the numbers that they stand for, from their ranges; the graph computes with the weights as they are, \
     without rounding them to 8 bits; and the result becomes 8-bit integers with the ends of their range, by the calibrated range, unless \
     enable_float_output asks for numbers. It cannot be called on arrays.",
);

/// A fully connected layer and what follows it.
pub static FUSED_FULLY_CONNECTED: OpDef =
    rewritten("_sg_mkldnn_fully_connected").params::<FusedFullyConnectedParam>().doc(
        "A fully connected layer with a function of its elements, as MXNet's oneDNN backend writes it into graphs: graph(data, weight, \
         bias). As _sg_mkldnn_conv, with weights and bias of 8-bit integers too, unless channel_wise_quantize says that they are numbers.",
    );
