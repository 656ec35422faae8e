//! `CumProd`: cumulative products.

use ferromx_core::dispatch;
use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::op::Operator;
use ferromx_core::params;
use ferromx_core::shape::Shape;
use ferromx_kernels::map::Arith;
use ferromx_kernels::scan::{Direction, cumprod};

use crate::axes::outer_len_inner;

params! {
    /// Parameters of `_onnx_CumProd`.
    pub struct CumProdParam {
        /// The axis along which to multiply; a negative one counts from the end.
        axis: i32 = required;
        /// Whether element i of the result excludes element i of the input.
        exclusive: bool = false;
        /// Whether products accumulate from the end.
        reverse: bool = false;
    }
}

pub(super) static CUM_PROD: Operator<CumProdParam> = Operator::new("_onnx_CumProd")
    .doc(
        "The cumulative product along an axis: element i is the product of the elements up to and including i, or excluding i if \
         `exclusive`. Not differentiable. Source: CumProd of ONNX.",
    )
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<CumProdParam>();
        let dims = ins[0].shape().to_usize();
        let dims = outer_len_inner(&dims, Shape::axis(p.axis.into(), dims.len())?);
        let direction = if p.reverse { Direction::Reverse } else { Direction::Forward };
        dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16, u8, i8, i32, i64] => {
            cumprod::<T, <T as Arith>::Lane>(ins[0].slice::<T>()?, dims, p.exclusive, direction, outs[0].slice_mut::<T>()?);
            Ok(())
        }, other => Err(ctx.unsupported(other, &[DType::F32, DType::F64, DType::I32, DType::I64])))
    });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};
    use ferromx_core::error::Result;

    fn run(attrs: &[(&str, &str)]) -> Result<Vec<f64>> {
        let x = array(&[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
        Case::new(&CUM_PROD, attrs).run1(&[x])?.to_vec::<f64>()
    }

    #[test]
    fn products_accumulate_along_an_axis() {
        assert_eq!(run(&[("axis", "1")]).unwrap(), [1.0, 2.0, 6.0, 4.0, 20.0, 120.0]);
        assert_eq!(run(&[("axis", "0"), ("reverse", "True")]).unwrap(), [4.0, 10.0, 18.0, 4.0, 5.0, 6.0]);
        assert_eq!(run(&[("axis", "-1"), ("exclusive", "True")]).unwrap(), [1.0, 1.0, 2.0, 1.0, 4.0, 20.0]);
        assert_eq!(
            run(&[("axis", "1"), ("exclusive", "1"), ("reverse", "1")]).unwrap(),
            [6.0, 3.0, 1.0, 30.0, 6.0, 1.0]
        );
    }
}
