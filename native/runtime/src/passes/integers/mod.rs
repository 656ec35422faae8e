//! Fuses quantized operators: products of dequantized operands, and sums and max pooling between dequantization and quantization, become
//! kernels on 8-bit integers. `sum_and_pool` matches the latter.
//!
//! A sequence starts at a convolution or matrix product of dequantized data, whose weights are dequantized or rounded as if they were. It
//! continues with a bias, batch normalization (in inference mode), ReLU or a clamp, and a quantization, as long as each is the only reader
//! of its predecessor. The last operator becomes the fused node, and the others become dead code.

mod sum_and_pool;

use ferromx_core::dtype::DType;
use ferromx_core::fusion::{Elementwise, Role};
use ferromx_core::grad::Entry;
use ferromx_core::params::Params;
use ferromx_ops::elemwise::ScalarParam;
use ferromx_ops::nn::ConvolutionParam;
use ferromx_ops::onnx::DequantizeLinearParam;
use ferromx_ops::quantized::{INTEGER_PRODUCT, IntegerProduct, Output, QuantizeV2Param, Scheme, Weights};
use hashbrown::HashMap;

use super::epilogue::{ADDITIONS, EpilogueArgs};
use crate::graph::{Action, Graph, GraphNode, entry};
use crate::symbol::OpCall;

const DEQUANTIZE_LINEAR: &str = "_onnx_DequantizeLinear";
const QUANTIZE_LINEAR: &str = "_onnx_QuantizeLinear";
const FAKE_QUANTIZE: &str = "_contrib_fake_quantize";
const DEQUANTIZE: &str = "_contrib_dequantize";
const QUANTIZE: &str = "_contrib_quantize_v2";
/// Operators that transpose a matrix.
const TRANSPOSES: [&str; 2] = ["transpose", "_np_transpose"];

/// Maximum number of products of two 8-bit integers whose sum cannot overflow 32 bits.
const MAX_DEPTH: usize = i32::MAX as usize / (255 * 255);

/// Fuses products, then sums and max pooling.
pub(crate) fn fuse(graph: &mut Graph, args: &EpilogueArgs<'_>) {
    let is_dequantized =
        |node: &GraphNode| node.op().is_some_and(|op| [DEQUANTIZE_LINEAR, DEQUANTIZE].contains(&op.def.name));
    if !graph.nodes.iter().any(is_dequantized) {
        return;
    }
    let mut readers: HashMap<Entry, Vec<usize>> = HashMap::new();
    for (i, node) in graph.nodes.iter().enumerate().filter(|(i, _)| args.needed[*i]) {
        node.inputs.iter().for_each(|e| readers.entry(*e).or_default().push(i));
    }
    let matcher = Matcher { args, readers };
    for i in (0..args.num_forward_nodes).filter(|i| args.needed[*i]) {
        let Some(mut sequence) = matcher.product(graph, i) else { continue };
        while matcher.append(graph, &mut sequence) {}
        let inputs = sequence.inputs();
        // In inference mode a normalization does not mutate its moving averages.
        let is_mutated = |e: &Entry| args.mutated.contains(e) && !sequence.normalization.contains(e);
        if inputs.iter().any(is_mutated) {
            continue;
        }
        let node = &mut graph.nodes[sequence.result.node as usize];
        node.inputs = inputs;
        node.action = Action::Fused { op: sequence.op, kernel: INTEGER_PRODUCT, params: Params::new(sequence.product) };
    }
    for i in (0..args.num_forward_nodes).filter(|i| args.needed[*i]) {
        let Some(replacement) = matcher.sum_or_pool(graph, i) else { continue };
        if !replacement.inputs.iter().any(|e| args.mutated.contains(e)) {
            let node = &mut graph.nodes[i];
            node.inputs = replacement.inputs;
            node.action = Action::Fused { op: replacement.op, kernel: replacement.kernel, params: replacement.params };
        }
    }
}

/// A quantized operand.
struct Quantized {
    data: Entry,
    scheme: Scheme,
    /// The quantization parameters: scale and zero point, or the ends of a range.
    quant_params: [Entry; 2],
    /// The axis along which the scales vary, if there are several.
    axis: i32,
}

/// The weights of a product.
struct WeightSource {
    weights: Weights,
    entry: Entry,
    /// The quantization parameters of integer weights.
    quant_params: Option<[Entry; 2]>,
    /// Whether the output channels are the first axis; else they are the last.
    is_channel_first: bool,
}

/// A product, and the operators that are fused with it so far.
struct Sequence {
    op: OpCall,
    product: IntegerProduct,
    data: Quantized,
    weight: WeightSource,
    bias: Option<Entry>,
    /// The parameters of the normalization.
    normalization: Vec<Entry>,
    /// The quantization parameters of the result.
    result_params: Vec<Entry>,
    /// The output of the last fused operator.
    result: Entry,
}

impl Sequence {
    /// The inputs of the fused node, in the order of [`IntegerProduct`].
    fn inputs(&self) -> Vec<Entry> {
        let mut inputs = vec![self.data.data, self.weight.entry];
        inputs.extend(self.bias);
        inputs.extend(&self.normalization);
        inputs.extend(self.data.quant_params);
        inputs.extend(self.weight.quant_params.iter().flatten());
        inputs.extend(&self.result_params);
        inputs
    }
}

/// Matches sequences of operators.
struct Matcher<'a> {
    args: &'a EpilogueArgs<'a>,
    readers: HashMap<Entry, Vec<usize>>,
}

/// The operator whose first output is `e`, and its inputs.
fn operator(graph: &Graph, e: Entry) -> Option<(&OpCall, &[Entry])> {
    let node = &graph.nodes[e.node as usize];
    match &node.action {
        Action::Forward(op) if e.index == 0 => Some((op, &node.inputs)),
        _ => None,
    }
}

/// Whether a node transposes a matrix.
fn is_matrix_transpose(node: &GraphNode) -> bool {
    let swaps = |axes: &String| {
        let axes: String = axes.chars().filter(|c| c.is_ascii_digit() || *c == '-').collect();
        ["", "10"].contains(&axes.as_str())
    };
    node.op().is_some_and(|op| TRANSPOSES.contains(&op.def.name)) && node.attrs.get("axes").is_none_or(swaps)
}

impl Matcher<'_> {
    fn dims(&self, e: Entry) -> &[i64] {
        self.args.shapes[e].dims()
    }

    fn num_elements(&self, e: Entry) -> usize {
        self.args.shapes[e].num_elements()
    }

    /// The quantized operand that is dequantized to `e`.
    fn dequantized(&self, graph: &Graph, e: Entry) -> Option<Quantized> {
        let (op, inputs) = operator(graph, e)?;
        let (scheme, axis) = match op.def.name {
            DEQUANTIZE_LINEAR => (Scheme::Linear, op.params.get::<DequantizeLinearParam>().axis),
            DEQUANTIZE => (Scheme::Range { multiplier: 1.0 }, 0),
            _ => return None,
        };
        let is_byte = matches!(self.args.dtypes[inputs[0]], Some(DType::I8 | DType::U8));
        is_byte.then(|| Quantized { data: inputs[0], scheme, quant_params: [inputs[1], inputs[2]], axis })
    }

    fn has_one_scale(&self, x: &Quantized) -> bool {
        x.quant_params.iter().all(|e| self.num_elements(*e) == 1)
    }

    /// The sequence that consists of node `i`, if that is a product of dequantized operands.
    fn product(&self, graph: &Graph, i: usize) -> Option<Sequence> {
        let result = entry(i, 0);
        let (op, inputs) = operator(graph, result)?;
        let (data, weight) = (*inputs.first()?, *inputs.get(1)?);
        let is_matmul = op.def.name == "_npi_matmul" && self.dims(weight).len() == 2 && self.dims(data).len() >= 2;
        let convolution = (op.def.name == "Convolution").then(|| op.params.get::<ConvolutionParam>());
        let is_supported = match convolution {
            Some(p) => self.dims(weight).len() <= 4 && !p.channels_last(),
            None => is_matmul || op.def.name == "FullyConnected",
        };
        if !is_supported || self.args.dtypes[result] != Some(DType::F32) {
            return None;
        }
        let data = self.dequantized(graph, data).filter(|x| self.has_one_scale(x))?;
        let weight = match convolution {
            Some(_) => self.weights(graph, weight, !is_matmul)?,
            None => self.matrix_weights(graph, weight, !is_matmul)?,
        };
        let dims = self.dims(weight.entry);
        let channels = if weight.is_channel_first { dims.first() } else { dims.last() };
        if self.num_elements(weight.entry) > MAX_DEPTH.saturating_mul(usize::try_from(*channels?).ok()?) {
            return None;
        }
        let bias = inputs.get(2).copied();
        let product = IntegerProduct {
            params: (!is_matmul).then(|| op.params.clone()),
            is_transposed: weight.is_channel_first,
            data: data.scheme,
            weights: weight.weights,
            has_bias: bias.is_some(),
            normalization: None,
            clamp: None,
            output: Output::Float,
        };
        let (normalization, result_params) = (Vec::new(), Vec::new());
        Some(Sequence { op: op.clone(), product, data, weight, bias, normalization, result_params, result })
    }

    /// The weights of a matrix product, which reads the matrix before a transposition.
    fn matrix_weights(&self, graph: &Graph, e: Entry, is_channel_first: bool) -> Option<WeightSource> {
        let (_, inputs) = operator(graph, e)?;
        match is_matrix_transpose(&graph.nodes[e.node as usize]) {
            true => self.weights(graph, inputs[0], !is_channel_first),
            false => self.weights(graph, e, is_channel_first),
        }
    }

    /// Integer weights with one scale, or one per output channel, or floating-point weights that are rounded to such.
    fn weights(&self, graph: &Graph, e: Entry, is_channel_first: bool) -> Option<WeightSource> {
        let (op, inputs) = operator(graph, e)?;
        if op.def.name == FAKE_QUANTIZE && is_channel_first {
            return Some(WeightSource {
                weights: Weights::Float,
                entry: inputs[0],
                quant_params: None,
                is_channel_first,
            });
        }
        let quantized = match op.def.name {
            "_mul_scalar" => {
                let quantized = self.dequantized(graph, inputs[0]).filter(|x| x.scheme != Scheme::Linear)?;
                let multiplier = op.params.get::<ScalarParam>().scalar as f32;
                Quantized { scheme: Scheme::Range { multiplier }, ..quantized }
            }
            _ => self.dequantized(graph, e)?,
        };
        let rank = self.dims(e).len() as i32;
        let axis = if quantized.axis < 0 { quantized.axis + rank } else { quantized.axis };
        let is_per_channel = axis == if is_channel_first { 0 } else { rank - 1 };
        let [scales, _] = quantized.quant_params;
        let is_supported = is_per_channel || quantized.scheme != Scheme::Linear || self.num_elements(scales) == 1;
        is_supported.then_some(WeightSource {
            weights: Weights::Integers(quantized.scheme),
            entry: quantized.data,
            quant_params: Some(quantized.quant_params),
            is_channel_first,
        })
    }

    /// Appends the only reader of the sequence's result if it can be fused; returns whether it was.
    fn append(&self, graph: &Graph, sequence: &mut Sequence) -> bool {
        let result = sequence.result;
        let reader = match self.readers.get(&result).map(Vec::as_slice) {
            Some([reader]) if !self.args.live_out.contains(&result) && *reader < self.args.num_forward_nodes => *reader,
            _ => return false,
        };
        let is_read =
            |k: usize| self.readers.contains_key(&entry(reader, k)) || self.args.live_out.contains(&entry(reader, k));
        let node = &graph.nodes[reader];
        let Action::Forward(op) = &node.action else { return false };
        let is_fused = match op.def.fusion.role {
            _ if sequence.product.output != Output::Float => false,
            Role::None => self.append_quantization(sequence, op, node) || self.append_bias(sequence, op, node),
            _ if sequence.product.clamp.is_some() || (1..node.num_outputs).any(is_read) => false,
            Role::Normalization(axis) => self.append_normalization(sequence, op, node, axis),
            Role::Function(function) => {
                sequence.product.clamp = match function(&op.params) {
                    Some(Elementwise::Relu) => Some([0.0, f32::INFINITY]),
                    Some(Elementwise::Clamp { low, high }) => Some([low as f32, high as f32]),
                    _ => None,
                };
                sequence.product.clamp.is_some()
            }
            Role::Product { .. } => false,
        };
        if is_fused {
            sequence.result = entry(reader, 0);
        }
        is_fused
    }

    /// The result of a quantization with one scale, or a calibrated range.
    fn quantization(&self, op: &OpCall, inputs: &[Entry]) -> Option<Output> {
        match op.def.name {
            QUANTIZE_LINEAR => inputs[1..].iter().all(|e| self.num_elements(*e) == 1).then_some(Output::Linear),
            QUANTIZE => match op.params.get::<QuantizeV2Param>() {
                QuantizeV2Param { min_calib_range: Some(min), max_calib_range: Some(max), .. } if min <= max => {
                    Some(Output::Range { min: *min, max: *max })
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn append_quantization(&self, sequence: &mut Sequence, op: &OpCall, node: &GraphNode) -> bool {
        let Some(output) = self.quantization(op, &node.inputs).filter(|_| node.inputs[0] == sequence.result) else {
            return false;
        };
        sequence.product.output = output;
        sequence.result_params = node.inputs[1..].to_vec();
        true
    }

    /// Appends the addition of a bias per column, which `matmul` has no input for.
    fn append_bias(&self, sequence: &mut Sequence, op: &OpCall, node: &GraphNode) -> bool {
        let product = &mut sequence.product;
        if !ADDITIONS.contains(&op.def.name) || product.params.is_some() || product.has_bias || product.clamp.is_some()
        {
            return false;
        }
        let bias = node.inputs[usize::from(node.inputs[0] == sequence.result)];
        let (dims, result_dims) = (self.dims(bias), self.dims(sequence.result));
        let is_row = dims.last() == result_dims.last()
            && dims.len() <= result_dims.len()
            && dims.iter().rev().skip(1).all(|d| *d == 1);
        if bias == sequence.result || !is_row || self.args.dtypes[bias] != Some(DType::F32) {
            return false;
        }
        sequence.bias = Some(bias);
        product.has_bias = true;
        true
    }

    fn append_normalization(
        &self,
        sequence: &mut Sequence,
        op: &OpCall,
        node: &GraphNode,
        axis: fn(&Params, usize) -> Option<usize>,
    ) -> bool {
        let rank = self.dims(sequence.result).len();
        let is_convolution = sequence.op.params.downcast::<ConvolutionParam>().is_some();
        let channels = if is_convolution { 1 } else { rank - 1 };
        let can_fuse = self.args.is_inference
            && sequence.product.normalization.is_none()
            && node.inputs[0] == sequence.result
            && axis(&op.params, rank) == Some(channels);
        if can_fuse {
            sequence.normalization = node.inputs[1..].to_vec();
            sequence.product.normalization = Some(op.params.clone());
        }
        can_fuse
    }
}
