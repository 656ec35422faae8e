//! `FullyConnected`: the dense layer.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::Result;
use ferromx_core::fusion::{Fused, Role};
use ferromx_core::grad::{Backward, Entry, Grad, GradGraph, GradNode};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out, Req};
use ferromx_core::{dispatch, params};
use ferromx_kernels::float::Accum;
use ferromx_kernels::gemm::{Bias, Epilogue, MatMut, MatRef};
use ferromx_kernels::par::with_scratch;
use num_traits::Zero;

use super::fused::{ProductEpilogue, with_epilogue};
use crate::compose::op;
use crate::linalg::product::{EpilogueElement, MatrixElement, beta};

params! {
    /// Parameters of `FullyConnected`.
    pub struct FullyConnectedParam {
        /// Number of hidden units, which is the last dimension of the output.
        num_hidden: i32 = required, where 1..=i32::MAX;
        /// Whether there is no bias.
        no_bias: bool = false;
        /// Whether all dimensions of the data but the first are flattened; otherwise the last dimension is transformed and the
        /// others are kept.
        flatten: bool = true;
    }
}

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

pub(crate) static FULLY_CONNECTED: Operator<FullyConnectedParam> = Operator::new("FullyConnected").names_outputs()
    .aliases(&["_npx_fully_connected", "_sparse_FullyConnected"])
    .doc(
        "Applies a linear transformation: Y = X W^T + b.\n\n\
         Shapes, with n = num_hidden: data (batch, d1, ..., dk), weight (n, d1*...*dk), bias (n,), output (batch, n). With \
         flatten=False the data has shape (x1, ..., xm, d), the weight (n, d), and the output (x1, ..., xm, n).",
    )
    .inputs(&[
        arg("data", "The input, of shape (batch, ...)."),
        arg("weight", "The weights, of shape (num_hidden, features)."),
        arg("bias", "The bias, of shape (num_hidden,); absent with no_bias=True."),
    ])
    .num_inputs_by(|p| if p.get::<FullyConnectedParam>().no_bias { 2 } else { 3 })
    .shape(infer_shape)
    .forward(forward)
    .grad(Grad::Kernel(Backward::new(backward).inputs(Deps::Some(&[0, 1])).accumulates(), Some(compose)))
    .role(Role::Product { kernel: forward_fused, channels: |_, rank| rank - 1 });

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<FullyConnectedParam>();
    io.expect_inputs(if p.no_bias { &["data", "weight"] } else { &["data", "weight", "bias"] })?;
    // As in MXNet, the parameters stay unknown until the data has axes: programs look for `()` in partly inferred shapes.
    let Some(rank) = io.ins[0].ndim() else { return Ok(()) };
    let n = i64::from(p.num_hidden);
    // A bias of shape (n, 1) is also accepted.
    if !p.no_bias && *io.ins[2].dims() != [n, 1] {
        io.assign_in(2, &Shape::new(&[n]))?;
    }
    ferromx_core::ensure!(rank >= 1, "the data of FullyConnected is a scalar; give it at least one dimension");
    let features = if p.flatten { io.ins[0].product(1..) } else { io.ins[0].dim(rank - 1) };
    io.assign_in(1, &Shape::new(&[n, features]))?;
    let num_leading = if p.flatten { 1 } else { rank - 1 };
    let mut out: Dims = io.ins[0].dims()[..num_leading].into();
    out.push(n);
    io.assign_out(0, &Shape::from(out))?;
    // Infer dimensions of the data from the leading dimensions of the output and the features of the weights.
    let mut data = Shape::of_rank(rank);
    if let Some(dims) = data.dims_mut() {
        dims[..num_leading].copy_from_slice(&io.outs[0].dims()[..num_leading]);
        if !p.flatten || rank == 2 {
            dims[rank - 1] = io.ins[1].dim(1);
        }
    }
    io.assign_in(0, &data)
}

/// The number of rows and of features of the data as a matrix.
pub(crate) fn rows_and_features(p: &FullyConnectedParam, data: &Shape) -> (usize, usize) {
    let split = if p.flatten { 1 } else { data.dims().len() - 1 };
    (data.product(..split) as usize, data.product(split..) as usize)
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16] => forward_as::<T>(ctx, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn forward_as<T: MatrixElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<FullyConnectedParam>();
    let (m, k) = rows_and_features(p, ins[0].shape());
    let n = p.num_hidden as usize;
    let x = MatRef::row_major(ins[0].slice::<T>()?, m, k);
    let w = MatRef::row_major(ins[1].slice::<T>()?, n, k).t();
    let bias = if p.no_bias { None } else { Some(ins[2].slice::<T>()?) };
    let y = MatMut::row_major(outs[0].slice_mut::<T>()?, m, n);
    match (ctx.cache, ins[1].version()) {
        // Training changes the weights at every step, so packing them would not pay off.
        (Some(cache), Some(version)) if !ctx.is_train => T::product_with_constant(cache, version, x, w, bias, y),
        _ => T::product(x, w, 0.0, bias, y),
    }
    Ok(())
}

/// The kernel with a fused epilogue.
fn forward_fused(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let fused = ctx.params::<Fused>();
    let p = fused.product.get::<FullyConnectedParam>();
    dispatch!(ins[0].dtype(), T in [f32, f64] => {
        let bias = if p.no_bias { None } else { Some(ins[2].slice::<T>()?) };
        let rest = if p.no_bias { &ins[2..] } else { &ins[3..] };
        let (m, k) = rows_and_features(p, ins[0].shape());
        let n = p.num_hidden as usize;
        with_epilogue(fused, n, bias, rest, |epilogue: &ProductEpilogue<'_, T>| {
            let ProductEpilogue { scale, bias, residual, activation } = *epilogue;
            let x = MatRef::row_major(ins[0].slice::<T>()?, m, k);
            let w = MatRef::row_major(ins[1].slice::<T>()?, n, k).t();
            let y = MatMut::row_major(outs[0].slice_mut::<T>()?, m, n);
            let epilogue = Epilogue {
                scale,
                bias: bias.map_or(Bias::None, Bias::PerCol),
                residual: residual.map(|residual| MatRef::row_major(residual, m, n)),
                activation,
            };
            let constant = ctx.cache.zip(ins[1].version()).filter(|_| !ctx.is_train);
            T::product_with_epilogue(constant, x, w, &epilogue, y);
            Ok(())
        })
    }, other => Err(ctx.unsupported(other, &[DType::F32, DType::F64])))
}

/// Inputs: gradient of the output, data, weight. Outputs: gradients of data, weight, bias.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16] => backward_as::<T>(ctx, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn backward_as<T: MatrixElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<FullyConnectedParam>();
    let (m, k) = rows_and_features(p, ins[1].shape());
    let n = p.num_hidden as usize;
    let dy = MatRef::row_major(ins[0].slice::<T>()?, m, n);
    if outs[0].wanted() {
        let w = MatRef::row_major(ins[2].slice::<T>()?, n, k);
        let beta = beta(&outs[0]);
        T::product(dy, w, beta, None, MatMut::row_major(outs[0].slice_mut::<T>()?, m, k));
    }
    if outs[1].wanted() {
        let x = MatRef::row_major(ins[1].slice::<T>()?, m, k);
        let beta = beta(&outs[1]);
        T::product(dy.t(), x, beta, None, MatMut::row_major(outs[1].slice_mut::<T>()?, n, k));
    }
    if !p.no_bias && outs[2].wanted() {
        let add = outs[2].req() == Req::Add;
        column_sums(ins[0].slice::<T>()?, n, add, outs[2].slice_mut::<T>()?);
    }
    Ok(())
}

/// Writes the sum of each of the `n` columns of a matrix to `sums`, or adds it to them.
fn column_sums<T: MatrixElement>(matrix: &[T], n: usize, add: bool, sums: &mut [T]) {
    with_scratch(n, |totals: &mut [T::Acc]| {
        totals.fill(T::Acc::zero());
        for row in matrix.chunks_exact(n) {
            totals.iter_mut().zip(row).for_each(|(sum, x)| *sum += T::Acc::of(*x));
        }
        for (sum, total) in sums.iter_mut().zip(&*totals) {
            *sum = if add { (T::Acc::of(*sum) + *total).store() } else { total.store() };
        }
    });
}

/// The gradient, composed of operators that are themselves differentiable.
fn compose(g: &mut dyn GradGraph, n: &GradNode<'_>) -> Result<Vec<Option<Entry>>> {
    let p = n.params.get::<FullyConnectedParam>();
    let mut dy = n.ograds[0];
    let (data, weight) = (n.inputs[0], n.inputs[1]);
    let mut x = data;
    if p.flatten {
        x = g.op(op!(shape::reshape::FLATTEN(x)))?;
    } else {
        dy = g.op(op!(shape::reshape::RESHAPE(dy), shape: [-1, p.num_hidden.into()]))?;
        x = g.op(op!(shape::reshape::RESHAPE(x), shape: [-1, 0], reverse: true))?;
    }
    let dx = g.op(op!(linalg::dot::DOT(dy, weight)))?;
    let dx = g.op(op!(shape::reshape::RESHAPE_LIKE(dx, data)))?;
    let dw = g.op(op!(linalg::dot::DOT(dy, x), transpose_a: true))?;
    let mut grads = vec![Some(dx), Some(dw)];
    if !p.no_bias {
        let db = g.op(op!(reduce::sums::SUM(dy), axis: [0]))?;
        grads.push(Some(g.op(op!(shape::reshape::RESHAPE_LIKE(db, n.inputs[2])))?));
    }
    Ok(grads)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(attrs: &[(&str, &str)], mut ins: Vec<Shape>, out: Shape) -> Result<(Vec<Shape>, Shape)> {
        let p = FULLY_CONNECTED.parse(&attrs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())?;
        let mut outs = [out];
        infer_shape(&p, &mut ShapeIo { ins: &mut ins, outs: &mut outs })?;
        Ok((ins, outs[0].clone()))
    }

    #[test]
    fn shapes_of_parameters_are_inferred_from_the_data() {
        let unknown = || vec![Shape::new(&[-1, 3, 4]), Shape::unknown(), Shape::unknown()];
        let (ins, out) = shapes(&[("num_hidden", "5")], unknown(), Shape::unknown()).unwrap();
        assert_eq!((&ins[1], &ins[2], &out), (&[5, 12].into(), &[5].into(), &[-1, 5].into()));
        let (ins, _) = shapes(&[("num_hidden", "5")], unknown(), Shape::new(&[7, 5])).unwrap();
        assert_eq!(ins[0], [7, 3, 4].into());
        let (ins, out) = shapes(&[("num_hidden", "5"), ("flatten", "False")], unknown(), Shape::unknown()).unwrap();
        assert_eq!((&ins[1], &out), (&[5, 4].into(), &[-1, 3, 5].into()));
        let (ins, _) = shapes(&[("num_hidden", "5")], vec![Shape::unknown(); 3], Shape::new(&[7, 5])).unwrap();
        assert_eq!(ins, vec![Shape::unknown(); 3]);
        let e = shapes(&[("num_hidden", "5"), ("no_bias", "1")], unknown(), Shape::unknown()).unwrap_err();
        assert!(e.to_string().contains("Input:[data, weight]"), "{e}");
        let bad = vec![Shape::new(&[2, 3]), Shape::new(&[5, 4]), Shape::unknown()];
        let e = shapes(&[("num_hidden", "5")], bad, Shape::unknown()).unwrap_err();
        assert_eq!(e.to_string(), "Shape inconsistent, Provided=[5,4], inferred shape=[5,3]");
    }
}
