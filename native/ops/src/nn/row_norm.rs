//! Normalization of rows by their mean and variance: `LayerNorm`, `GroupNorm`, `InstanceNorm`.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params::{OpParams, Params};
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::AxisShape;
use ferromx_kernels::float::{FloatElement, with_wide};
use ferromx_kernels::map::Store;
use ferromx_kernels::norm::{Affine, RowNormGrads, row_norm_backward, row_norm_forward};
use ferromx_kernels::par::with_scratch;

use crate::precision::by_precision;

params! {
    /// Parameters of `LayerNorm`.
    pub struct LayerNormParam {
        /// The axis to normalize along; a negative one counts from the end.
        axis: i32 = (-1);
        /// Added to the variance for numerical stability.
        eps: f32 = 1e-5;
        /// Whether the mean and the standard deviation are also outputs.
        output_mean_var: bool = false;
    }
}

params! {
    /// Parameters of `GroupNorm`.
    pub struct GroupNormParam {
        /// Number of groups that the channels are divided into.
        num_groups: i32 = 1;
        /// Added to the variance for numerical stability.
        eps: f32 = 1e-5;
        /// Whether the mean and the standard deviation are also outputs.
        output_mean_var: bool = false;
    }
}

params! {
    /// Parameters of `InstanceNorm`.
    pub struct InstanceNormParam {
        /// Added to the variance for numerical stability.
        eps: f32 = 1e-3;
    }
}

/// The rows of the data that are normalized, and the shapes of the other operands.
struct Rows {
    /// The data as (outer, axis, inner), with a row along `axis`.
    shape: AxisShape,
    /// Whether gamma and beta have one element per element of a row, instead of one per group of rows.
    per_element: bool,
    /// Shape of gamma and beta.
    affine: Shape,
    /// Shape of the mean and the standard deviation.
    stats: Shape,
}

/// The parameters of a row normalization.
trait RowNorm: OpParams {
    /// Added to the variance.
    fn eps(&self) -> f32;
    /// The rows of data of known rank. Unknown dimensions are 0 in `shape` and -1 in the other shapes.
    fn rows(&self, data: &Shape) -> Result<Rows>;
}

/// The number of elements; 0 if a dimension is unknown.
fn num_elements(dims: &[i64]) -> usize {
    dims.iter().fold(1, |size, d| size.saturating_mul((*d).max(0) as usize))
}

impl RowNorm for LayerNormParam {
    fn eps(&self) -> f32 {
        self.eps
    }

    fn rows(&self, data: &Shape) -> Result<Rows> {
        let dims = data.dims();
        let rank = dims.len() as i64;
        let axis = if self.axis < 0 { i64::from(self.axis) + rank } else { i64::from(self.axis) };
        ensure!(
            (0..rank).contains(&axis),
            "Channel axis out of range: axis={}; data of {rank} dimensions has the axes -{rank} to {}",
            self.axis,
            rank - 1
        );
        let axis = axis as usize;
        let mut stats = Dims::from_slice(dims);
        stats[axis] = 1;
        let shape = AxisShape {
            outer: num_elements(&dims[..axis]),
            axis: num_elements(&dims[axis..=axis]),
            inner: num_elements(&dims[axis + 1..]),
        };
        Ok(Rows { shape, per_element: true, affine: Shape::new(&dims[axis..=axis]), stats: stats.into() })
    }
}

impl RowNorm for GroupNormParam {
    fn eps(&self) -> f32 {
        self.eps
    }

    fn rows(&self, data: &Shape) -> Result<Rows> {
        let dims = data.dims();
        ensure!(dims.len() >= 3, "GroupNorm needs data of at least three dimensions, but it is {data}");
        let groups = i64::from(self.num_groups);
        ensure!(groups >= 1, "num_groups is {groups}; use 1 or more");
        ensure!(
            dims[1] < 0 || dims[1] % groups == 0,
            "# of channels must be divisible by # of groups: {} channels, {groups} groups",
            dims[1]
        );
        let axis = num_elements(&dims[1..]) / groups as usize;
        let shape = AxisShape { outer: num_elements(&dims[..1]) * groups as usize, axis, inner: 1 };
        Ok(Rows { shape, per_element: false, affine: [groups].into(), stats: [dims[0], groups].into() })
    }
}

impl RowNorm for InstanceNormParam {
    fn eps(&self) -> f32 {
        self.eps
    }

    fn rows(&self, data: &Shape) -> Result<Rows> {
        let dims = data.dims();
        ensure!(dims.len() >= 2, "InstanceNorm needs data of at least two dimensions, but it is {data}");
        let shape = AxisShape { outer: num_elements(&dims[..2]), axis: num_elements(&dims[2..]), inner: 1 };
        Ok(Rows { shape, per_element: false, affine: Shape::new(&dims[1..2]), stats: Shape::new(&dims[..2]) })
    }
}

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

/// Defines a row normalization operator.
const fn row_norm<P: RowNorm>(name: &'static str, args: &'static [ArgDef]) -> Operator<P> {
    Operator::new(name)
        .names_outputs()
        .inputs(args)
        .outputs(|_| 3)
        .shape(infer_shape::<P>)
        .forward(forward::<P>)
        .output_names_by(|_| vec!["output".into(), "mean".into(), "std".into()])
        .grad(Grad::Kernel(
            Backward::new(backward::<P>)
                .ograds(Deps::Some(&[0]))
                .inputs(Deps::Some(&[0, 1]))
                .outputs(Deps::Some(&[1, 2])),
            None,
        ))
}

pub(super) static LAYER_NORM: Operator<LayerNormParam> = row_norm(
    "LayerNorm",
    &[
        arg("data", "The input."),
        arg("gamma", "The scale of each index along `axis`, of shape (length of the axis,)."),
        arg("beta", "The offset of each index along `axis`, of shape (length of the axis,)."),
    ],
)
.aliases(&["_npx_layer_norm"])
.doc(
    "Normalizes along one axis: out = (data - mean) / sqrt(var + eps) * gamma + beta, with the mean and the (biased) variance of \
     the elements along the axis (Ba, Kiros and Hinton, 2016).\n\n\
     With output_mean_var, the mean and the standard deviation sqrt(var + eps) are also outputs, of the shape of the data with \
     length 1 along the axis; no gradient flows through them.",
)
.visible(|p| if p.get::<LayerNormParam>().output_mean_var { 3 } else { 1 });

pub(super) static GROUP_NORM: Operator<GroupNormParam> = row_norm(
    "GroupNorm",
    &[
        arg("data", "The input, of shape (batch, channel, ...), with three dimensions or more."),
        arg("gamma", "The scale of each group, of shape (num_groups,)."),
        arg("beta", "The offset of each group, of shape (num_groups,)."),
    ],
)
.doc(
    "Normalizes groups of channels: out = (data - mean) / sqrt(var + eps) * gamma + beta, with the mean and the (biased) variance \
     of a group of channels of one example (Wu and He, 2018).\n\n\
     Consecutive channels form a group. With output_mean_var, the mean and the standard deviation sqrt(var + eps) are outputs \
     too, of shape (batch, num_groups); no gradient flows through them.",
)
.visible(|p| if p.get::<GroupNormParam>().output_mean_var { 3 } else { 1 });

pub(super) static INSTANCE_NORM: Operator<InstanceNormParam> = row_norm(
    "InstanceNorm",
    &[
        arg("data", "The input, of shape (batch, channel, ...)."),
        arg("gamma", "The scale of each channel, of shape (channel,)."),
        arg("beta", "The offset of each channel, of shape (channel,)."),
    ],
)
.legacy()
.doc(
    "Normalizes each channel of each example: out = (data - mean) / sqrt(var + eps) * gamma + beta, with the mean and the \
     (biased) variance over the axes after the channels (Ulyanov, Vedaldi and Lempitsky, 2016).",
)
.visible(|_| 1)
.output_names_by(|_| vec!["output".into(), "mean".into(), "var".into()]);

fn infer_shape<P: RowNorm>(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    io.expect_inputs(&["data", "gamma", "beta"])?;
    let out = io.outs[0].clone();
    io.assign_in(0, &out)?;
    if !io.ins[0].ndim_is_known() {
        return Ok(());
    }
    let rows = p.get::<P>().rows(&io.ins[0])?;
    (1..3).try_for_each(|i| io.assign_in(i, &rows.affine))?;
    (1..3).try_for_each(|i| io.assign_out(i, &rows.stats))?;
    let data = io.ins[0].clone();
    io.assign_out(0, &data)
}

fn affine<'a, A>(rows: &Rows, gamma: &'a [A], beta: &'a [A]) -> Affine<'a, A> {
    if rows.per_element { Affine::PerElement(gamma, beta) } else { Affine::PerRow(gamma, beta) }
}

fn forward<P: RowNorm>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => forward_as::<P, T>(ctx, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn forward_as<P: RowNorm, T: FloatElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<P>();
    let rows = p.rows(ins[0].shape())?;
    let num_rows = rows.shape.outer * rows.shape.inner;
    let (x, gamma, beta) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
    with_scratch(2 * num_rows, |stats: &mut [T::Acc]| {
        let (mean, std) = stats.split_at_mut(num_rows);
        let y = outs[0].slice_mut::<T>()?;
        with_wide(gamma, |gamma| {
            with_wide(beta, |beta| {
                let eps = f64::from(p.eps());
                row_norm_forward(rows.shape, affine(&rows, gamma, beta), eps, x, y, (mean, std));
            });
        });
        for (out, stat) in outs[1..].iter_mut().zip([mean, std]) {
            if out.wanted() {
                <T as Store<T::Acc>>::store(stat, out.slice_mut::<T>()?);
            }
        }
        Ok(())
    })
}

/// Inputs: gradient of the output, data, gamma, mean, standard deviation. Outputs: gradients of data, gamma, beta.
fn backward<P: RowNorm>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => backward_as::<P, T>(ctx, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn backward_as<P: RowNorm, T: FloatElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let rows = ctx.params::<P>().rows(ins[1].shape())?;
    let (y_grad, x, gamma) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
    let (mean, std) = (ins[3].slice::<T>()?, ins[4].slice::<T>()?);
    let has_x_grad = outs[0].wanted();
    let discarded_len = if has_x_grad { 0 } else { x.len() };
    let num_params = gamma.len();
    with_scratch(discarded_len, |discarded: &mut [T]| {
        with_scratch(2 * num_params, |param_grads: &mut [T::Acc]| {
            let (gamma_grad, beta_grad) = param_grads.split_at_mut(num_params);
            let x_grad = if has_x_grad { outs[0].slice_mut::<T>()? } else { discarded };
            let grads = RowNormGrads { x: x_grad, gamma: &mut *gamma_grad, beta: &mut *beta_grad };
            with_wide(gamma, |gamma| {
                with_wide(mean, |mean| {
                    with_wide(std, |std| {
                        let stats = (mean, std);
                        row_norm_backward(rows.shape, affine(&rows, gamma, gamma), stats, x, y_grad, grads);
                    });
                });
            });
            for (out, grad) in outs[1..].iter_mut().zip([gamma_grad, beta_grad]) {
                if out.wanted() {
                    <T as Store<T::Acc>>::store(grad, out.slice_mut::<T>()?);
                }
            }
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    fn operands(dims: &[i64], values: usize) -> Vec<ferromx_core::ndarray::NDArray> {
        let n = dims.iter().product::<i64>();
        let x: Vec<f64> = (0..n).map(|i| (i * 7 % 11) as f64 / 4.0 - 1.0).collect();
        let values: Vec<f64> = (0..values).map(|i| 0.5 + i as f64 / 3.0).collect();
        let values = array(&values, &[values.len() as i64]);
        vec![array(&x, dims), values.clone(), values]
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        Case::new(&LAYER_NORM, &[("axis", "1"), ("eps", "0.01")]).check_gradient(&operands(&[2, 4, 3], 4));
        Case::new(&LAYER_NORM, &[]).check_gradient(&operands(&[4, 5], 5));
        Case::new(&GROUP_NORM, &[("num_groups", "2")]).check_gradient(&operands(&[2, 4, 3], 2));
        Case::new(&INSTANCE_NORM, &[]).check_gradient(&operands(&[2, 3, 4], 3));
    }

    #[test]
    fn invalid_axes_and_groups_are_errors() {
        let shapes = |dims: &[i64]| [Shape::new(dims), Shape::unknown(), Shape::unknown()];
        assert!(Case::new(&LAYER_NORM, &[("axis", "2")]).shapes(&shapes(&[2, 3])).is_err());
        assert!(Case::new(&GROUP_NORM, &[("num_groups", "3")]).shapes(&shapes(&[2, 4, 2])).is_err());
        assert!(Case::new(&GROUP_NORM, &[("num_groups", "0")]).shapes(&shapes(&[2, 4, 2])).is_err());
        assert!(Case::new(&INSTANCE_NORM, &[]).shapes(&shapes(&[2])).is_err());
    }
}
