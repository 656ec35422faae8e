//! `quantized_rnn`: recurrent networks on sequences of 8-bit integers.

use ferromx_core::dtype::DType;
use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params::{Attrs, FieldInfo, OpParams, Params};
use ferromx_core::storage::{In, Out};
use ferromx_kernels::par::with_scratch;

use crate::nn::rnn::{Mode, RNN, RnnParam, forward_from};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&QUANTIZED_RNN];

/// Number of inputs of `RNN` with mode `lstm`, which come first.
const NUM_RNN_INPUTS: usize = 4;

pub(super) static QUANTIZED_RNN: Operator<QuantizedRnnParam> = Operator::new("_contrib_quantized_rnn")
    .doc(
        "`RNN` with mode='lstm' on data of 8-bit integers q that represent (q - data_shift) / data_scale, as `_contrib_quantize_asym` \
         makes them. Weights, states and the output are of type float32, and so is the computation. The shapes are those of RNN.",
    )
    .inputs(&[
        arg("data", "The sequences, of type uint8 and shape (steps, batch, input)."),
        arg("parameters", "All weights and biases, concatenated."),
        arg("state", "The initial states, of shape (layers x directions, batch, state)."),
        arg("state_cell", "The initial cell states."),
        arg("data_scale", "The scale of the data, of shape (1,)."),
        arg("data_shift", "The shift of the data, of shape (1,)."),
    ])
    .outputs(|p| RNN.num_outputs(rnn_params(p)))
    .visible(|p| RNN.num_visible(rnn_params(p)))
    .output_names_by(|p| RNN.output_names(rnn_params(p)))
    .shape(infer_shape)
    .dtype(infer_dtype)
    .forward(forward)
    .grad(Grad::Zero)
    .random();

/// The parameters of `RNN`. As in MXNet, unknown attributes are ignored, because the quantization pass adds `quantized`.
pub(super) struct QuantizedRnnParam(Params);

impl OpParams for QuantizedRnnParam {
    fn fields() -> Vec<FieldInfo> {
        RnnParam::fields()
    }

    fn parse(attrs: &Attrs) -> Result<Self> {
        let fields = Self::fields();
        let is_known = |name: &str| fields.iter().any(|f| f.name == name);
        let known: Attrs =
            attrs.iter().filter(|(name, _)| is_known(name)).map(|(k, v)| (k.clone(), v.clone())).collect();
        RnnParam::parse(&known).map(|p| QuantizedRnnParam(Params::new(p)))
    }
}

/// The parameters of `RNN`.
fn rnn_params(p: &Params) -> &Params {
    &p.get::<QuantizedRnnParam>().0
}

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let rnn = rnn_params(p).get::<RnnParam>();
    ensure!(rnn.mode == Mode::Lstm, "quantized_rnn supports only mode='lstm': dequantize the data and use RNN");
    ensure!(
        !rnn.use_sequence_length,
        "quantized_rnn does not support sequence lengths: dequantize the data and use RNN"
    );
    (RNN.inference.shape)(rnn_params(p), &mut ShapeIo { ins: &mut io.ins[..NUM_RNN_INPUTS], outs: &mut *io.outs })?;
    (NUM_RNN_INPUTS..io.ins.len()).try_for_each(|i| io.assign_in(i, &[1].into()))
}

fn infer_dtype(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    io.assign_in(0, DType::U8)?;
    (1..io.ins.len()).try_for_each(|i| io.assign_in(i, DType::F32))?;
    (0..io.outs.len()).try_for_each(|k| io.assign_out(k, DType::F32))
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let (scale, shift) = (super::range_end(&ins[NUM_RNN_INPUTS])?, super::range_end(&ins[NUM_RNN_INPUTS + 1])?);
    let data = ins[0].slice::<u8>()?;
    with_scratch(data.len(), |x: &mut [f32]| {
        x.iter_mut().zip(data).for_each(|(x, q)| *x = (f32::from(*q) - shift) / scale);
        forward_from::<f32>(&OpCtx { params: rnn_params(ctx.params), ..*ctx }, x, &ins[..NUM_RNN_INPUTS], outs)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn results_are_those_of_rnn_on_dequantized_data() {
        let attrs = [("state_size", "2"), ("num_layers", "1"), ("mode", "lstm"), ("state_outputs", "True")];
        let integers = [0u8, 64, 128, 255, 30, 200];
        let numbers: Vec<f32> = integers.iter().map(|q| (f32::from(*q) - 100.0) / 50.0).collect();
        let weights: Vec<f32> = (0..56).map(|i| (i * 7 % 13) as f32 / 10.0 - 0.6).collect();
        let rest = || [array(&weights, &[56]), array(&[0.5f32, -0.5], &[1, 1, 2]), array(&[0.25f32, 0.0], &[1, 1, 2])];
        let [w, h, c] = rest();
        let want = Case::new(&RNN, &attrs).run(&[array(&numbers, &[2, 1, 3]), w, h, c]).unwrap();
        let [w, h, c] = rest();
        let ins = [array(&integers, &[2, 1, 3]), w, h, c, array(&[50f32], &[1]), array(&[100f32], &[1])];
        let got = Case::new(&QUANTIZED_RNN, &attrs).run(&ins).unwrap();
        for k in 0..3 {
            assert_eq!(got[k].to_vec::<f32>().unwrap(), want[k].to_vec::<f32>().unwrap());
        }
    }

    #[test]
    fn unsupported_modes_and_sequence_lengths_are_errors() {
        for wrong in [("mode", "gru"), ("use_sequence_length", "True")] {
            let mut attrs = vec![("state_size", "2"), ("num_layers", "1"), ("mode", "lstm")];
            attrs.retain(|a| a.0 != wrong.0);
            attrs.push(wrong);
            let e = Case::new(&QUANTIZED_RNN, &attrs).shapes(&vec![[2, 1, 3].into(); 6]).unwrap_err().to_string();
            assert!(e.contains("dequantize the data and use RNN"), "{e}");
        }
    }
}
