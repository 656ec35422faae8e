//! `_sg_mkldnn_selfatt_qk`, `_sg_mkldnn_selfatt_valatt`: self-attention in graphs that MXNet's oneDNN backend has rewritten.

use ferromx_core::ensure;
use ferromx_core::error::Result;
use ferromx_core::grad::Grad;
use ferromx_core::op::{AnyOperator, Operator, arg};
use ferromx_core::params;
use ferromx_core::params::Params;

use super::attention::{self, SELF_PROJECTIONS};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&FUSED_SELFATT_QK, &FUSED_SELFATT_VALATT];

params! {
    /// Parameters of `_sg_mkldnn_selfatt_qk` and `_sg_mkldnn_selfatt_valatt`.
    pub struct FusedAttentionParam {
        /// Number of heads.
        heads: i32 = required;
        /// Whether the operands are 8-bit integers; not supported.
        quantized: bool = false;
        /// Whether a quantized operator returns float32; floating-point operands always do.
        enable_float_output: bool = false;
        /// The calibrated minimum of the result; only for 8-bit integers.
        min_calib_range: Option<f32> = None;
        /// The calibrated maximum of the result; only for 8-bit integers.
        max_calib_range: Option<f32> = None;
    }
}

fn heads(p: &Params) -> Result<i32> {
    let p = p.get::<FusedAttentionParam>();
    ensure!(
        !p.quantized,
        "attention on 8-bit integers is only supported by oneDNN: dequantize the inputs and omit quantized"
    );
    ensure!(p.heads > 0, "heads={} must be positive", p.heads);
    Ok(p.heads)
}

pub(super) static FUSED_SELFATT_QK: Operator<FusedAttentionParam> = Operator::new("_sg_mkldnn_selfatt_qk")
    .doc(
        "The scores of multi-head self-attention, as _contrib_interleaved_matmul_selfatt_qk, which it replaces in graphs that MXNet \
         rewrote for oneDNN: projections of shape (length, batch, heads * 3 * dim) give shape (batch * heads, length, length).",
    )
    .inputs(&[SELF_PROJECTIONS])
    .shape(|p, io| attention::selfatt_qk_shape(heads(p)?, io))
    .forward(|ctx, ins, outs| attention::selfatt_qk(ctx, heads(ctx.params)?, ins, outs))
    .grad(Grad::None);

pub(super) static FUSED_SELFATT_VALATT: Operator<FusedAttentionParam> = Operator::new("_sg_mkldnn_selfatt_valatt")
    .doc(
        "The weighted values of multi-head self-attention, as _contrib_interleaved_matmul_selfatt_valatt, which it replaces in graphs \
         that MXNet rewrote for oneDNN: projections of shape (length, batch, heads * 3 * dim) and weights of shape (batch * heads, length, \
         length) give shape (length, batch, heads * dim).",
    )
    .inputs(&[SELF_PROJECTIONS, arg("attention", "The weights, of shape (batch * heads, length, length).")])
    .shape(|p, io| attention::selfatt_valatt_shape(heads(p)?, io))
    .forward(|ctx, ins, outs| attention::selfatt_valatt(ctx, heads(ctx.params)?, ins, outs))
    .grad(Grad::None);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contrib::attention::{SELFATT_QK, SELFATT_VALATT};
    use crate::testing::{Case, array};

    #[test]
    fn results_equal_the_replaced_operators() {
        let numbers = |n: i64, dims: &[i64]| array(&(0..n).map(|i| (i * 7 % 13) as f32).collect::<Vec<_>>(), dims);
        let (qkv, attention) = (numbers(72, &[3, 2, 12]), numbers(36, &[4, 3, 3]));
        let heads = [("heads", "2")];
        let run = |def, ins: &[_]| Case::new(def, &heads).run1(ins).unwrap().to_vec::<f32>().unwrap();
        let one = std::slice::from_ref(&qkv);
        assert_eq!(run(&FUSED_SELFATT_QK, one), run(&SELFATT_QK, one));
        let two = [qkv.clone(), attention];
        assert_eq!(run(&FUSED_SELFATT_VALATT, &two), run(&SELFATT_VALATT, &two));
        let e = Case::new(&FUSED_SELFATT_QK, &[("heads", "2"), ("quantized", "1")]).run1(one).unwrap_err().to_string();
        assert!(e.contains("dequantize"), "{e}");
    }
}
