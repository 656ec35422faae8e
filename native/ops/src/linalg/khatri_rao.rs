//! `khatri_rao`: the column-wise Kronecker product.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::Operator;
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure};
use ferromx_kernels::float::FloatElement;
use ferromx_kernels::linalg;

use crate::num_args::NumArgs;

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

pub(super) static KHATRI_RAO: Operator<NumArgs> = Operator::new("khatri_rao")
    .doc(
        "The column-wise Khatri-Rao product: column k of the output is the Kronecker product of the columns k of the inputs. Inputs of \
         shapes (r1, k), (r2, k), ... give an output of shape (r1 * r2 * ..., k); the row index of the last matrix varies fastest. It \
         has no gradient.",
    )
    .variadic("args", "The matrices, with the same number of columns.", "num_args")
    .shape(infer_shape)
    .forward(|ctx, ins, outs| {
        dispatch!(outs[0].dtype(), T in [f32, f64, f16, bf16] => forward::<T>(ins, &mut outs[0]),
            other => Err(ctx.unsupported(other, TYPES)))
    });

fn infer_shape(_: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    ensure!(!io.ins.is_empty(), "khatri_rao needs at least one matrix");
    let mut columns = io.outs[0].dim(1);
    let mut rows = 1;
    for i in 0..io.ins.len() {
        io.assign_in(i, &[-1, columns].into())?;
        columns = columns.max(io.ins[i].dim(1));
        rows = if rows < 0 || io.ins[i].dim(0) < 0 { -1 } else { rows * io.ins[i].dim(0) };
    }
    let with_columns = Shape::new(&[-1, columns]);
    (0..io.ins.len()).try_for_each(|i| io.assign_in(i, &with_columns))?;
    io.assign_out(0, &[rows, columns].into())
}

fn forward<T: FloatElement>(ins: &[In<'_>], out: &mut Out<'_>) -> Result<()> {
    let columns = out.shape().dim(1) as usize;
    let matrices = ins.iter().map(|m| Ok((m.slice::<T>()?, m.shape().dim(0) as usize))).collect::<Result<Vec<_>>>()?;
    linalg::khatri_rao(&matrices, columns, out.slice_mut::<T>()?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn columns_are_kronecker_products_of_the_columns() {
        let (a, b) = (array(&[1.0, -1.0, 2.0, -3.0], &[2, 2]), array(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0], &[3, 2]));
        let case = Case::new(&KHATRI_RAO, &[]);
        let product = case.run1(&[a, b]).unwrap();
        assert_eq!(product.shape(), &Shape::new(&[6, 2]));
        let want = [1.0, -4.0, 2.0, -5.0, 3.0, -6.0, 2.0, -12.0, 4.0, -15.0, 6.0, -18.0];
        assert_eq!(product.to_vec::<f64>().unwrap(), want);
        assert!(case.shapes(&[[2, 2].into(), [3, 3].into()]).is_err());
    }
}
