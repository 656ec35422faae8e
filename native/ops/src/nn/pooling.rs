//! `Pooling` in one, two and three dimensions.

use ferromx_core::dtype::{DType, bf16, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::{Dims, Shape};
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, param_enum, params};
use ferromx_kernels::float::FloatElement;
use ferromx_kernels::pool::{PoolConvention, PoolKind, PoolPower, PoolShape, pool_backward, pool_forward};

use super::spatial::{first_items, sizes, triple};

param_enum! {
    /// The reduction of a window.
    pub enum PoolType { Avg = "avg", Lp = "lp", Max = "max", Sum = "sum" }
}

param_enum! {
    /// How the number of windows is rounded.
    pub enum Convention { Full = "full", Same = "same", Valid = "valid" }
}

param_enum! {
    /// Order of the dimensions.
    pub enum PoolLayout {
        Ncdhw = "NCDHW", Nchw = "NCHW", Ncw = "NCW", Ndhwc = "NDHWC", Nhwc = "NHWC", Nwc = "NWC"
    }
}

params! {
    /// Parameters of `Pooling`.
    pub struct PoolingParam {
        /// Size of the window: (width,), (height, width) or (depth, height, width). Not needed with `global_pool`.
        kernel: Shape = (Shape::new(&[]));
        /// The reduction of a window: the average, the p-norm, the maximum or the sum.
        pool_type: PoolType = (PoolType::Max);
        /// Whether one window covers the whole input; kernel, stride and pad are then ignored.
        global_pool: bool = false;
        /// Accepted for compatibility: turns off cuDNN on a GPU.
        cudnn_off: bool = false;
        /// Number of windows: `valid` rounds down, `full` rounds up, `same` gives the input's size divided by the stride.
        pooling_convention: Convention = (Convention::Valid);
        /// Stride of the windows; 1 by default.
        stride: Shape = (Shape::new(&[]));
        /// Padding at both ends of each dimension; 0 by default.
        pad: Shape = (Shape::new(&[]));
        /// The p of the p-norm: 1, 2 or 3. Needed with pool_type `lp`.
        p_value: Option<i32> = None;
        /// Whether the average divides by the size of the window with padding (the default) or without.
        count_include_pad: Option<bool> = None;
        /// Order of the dimensions; by default NCW, NCHW or NCDHW.
        layout: Option<PoolLayout> = None;
    }
}

const TYPES: &[DType] = &[DType::F16, DType::F32, DType::F64, DType::BF16];

pub(crate) static POOLING: Operator<PoolingParam> = Operator::new("Pooling").names_data().names_outputs()
    .aliases(&["_npx_pooling"])
    .doc(
        "Computes the maximum, the average, the sum or the p-norm of sliding windows of the input.\n\n\
         Shapes in two dimensions: data (batch, channel, height, width), output (batch, channel, out_height, out_width), where \
         an output size is floor((size + 2*pad - kernel) / stride) + 1 with pooling_convention `valid`, the same rounded up with \
         `full`, and ceil(size / stride) with `same`. The gradient of the maximum goes to the first of equal elements.",
    )
    .inputs(&[arg("data", "The input, of shape (batch, channel, spatial dimensions...), or channels last as `layout` says.")])
    .shape(infer_shape)
    .forward(forward)
    .grad(Grad::Kernel(Backward::new(backward).inputs(Deps::All).outputs(Deps::All), None));

impl PoolingParam {
    fn channels_last(&self) -> bool {
        matches!(self.layout, Some(PoolLayout::Ndhwc | PoolLayout::Nhwc | PoolLayout::Nwc))
    }

    /// The number of spatial dimensions of an input of `ndim` dimensions. Checks the parameters against it.
    fn num_spatial(&self, ndim: usize) -> Result<usize> {
        ensure!((3..=5).contains(&ndim), "Pooling: Input data should be 3D, 4D or 5D, but it has {ndim} dimensions");
        let n = ndim - 2;
        let expected = match self.layout {
            None => n,
            Some(PoolLayout::Ncw | PoolLayout::Nwc) => 1,
            Some(PoolLayout::Nchw | PoolLayout::Nhwc) => 2,
            Some(PoolLayout::Ncdhw | PoolLayout::Ndhwc) => 3,
        };
        ensure!(expected == n, "the layout has {} dimensions, but the input has {ndim}", expected + 2);
        if !self.global_pool {
            let k = self.kernel.dims().len();
            ensure!(k == n, "kernel {} has {k} numbers, but the input has {n} spatial dimensions", self.kernel);
        }
        Ok(n)
    }

    pub(crate) fn kind(&self) -> Result<PoolKind> {
        Ok(match self.pool_type {
            PoolType::Max => PoolKind::Max,
            PoolType::Avg => PoolKind::Average { count_include_pad: self.count_include_pad.unwrap_or(true) },
            PoolType::Sum => PoolKind::Sum,
            PoolType::Lp => PoolKind::Power(match self.p_value {
                Some(1) => PoolPower::One,
                Some(2) => PoolPower::Two,
                Some(3) => PoolPower::Three,
                Some(p) => return Err(Error::Value(format!("p_value {p} is not supported: use 1, 2 or 3"))),
                None => return Err(Error::Value("pool_type lp needs p_value: give 1, 2 or 3".into())),
            }),
        })
    }

    fn convention(&self) -> PoolConvention {
        match self.pooling_convention {
            Convention::Valid => PoolConvention::Valid,
            Convention::Full => PoolConvention::Full,
            Convention::Same => PoolConvention::Same,
        }
    }

    /// The geometry for the kernels. Unknown sizes are 0 in the input and 1 in the output.
    pub(crate) fn shape(&self, data: &Shape) -> Result<PoolShape> {
        let dims = data.dims();
        let n = self.num_spatial(dims.len())?;
        let (batch, rest) = (dims[0].max(0) as usize, &dims[1..]);
        let (channels, spatial) = match self.channels_last() {
            true => (rest[n], &rest[..n]),
            false => (rest[0], &rest[1..]),
        };
        let channels = channels.max(0) as usize;
        let input = sizes(spatial);
        let (planes, inner) = if self.channels_last() { (batch, channels) } else { (batch * channels, 1) };
        if self.global_pool {
            return Ok(PoolShape { planes, input, inner, kernel: input, stride: [1; 3], pad: [0; 3], output: [1; 3] });
        }
        let kernel = triple("kernel", &self.kernel, n, 1, 1)?;
        let stride = triple("stride", &first_items(&self.stride, n), n, 1, 1)?;
        let pad = triple("pad", &first_items(&self.pad, n), n, 0, 0)?;
        let mut output = [1; 3];
        for i in 3 - n..3 {
            if spatial[i + n - 3] < 0 {
                continue;
            }
            output[i] = self.convention().output_size(input[i], kernel[i], stride[i], pad[i]).ok_or_else(|| {
                Error::Value(format!("kernel {} does not fit the input {data} with pad {}", self.kernel, self.pad))
            })?;
        }
        Ok(PoolShape { planes, input, inner, kernel, stride, pad, output })
    }
}

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    infer_with(p.get(), io)
}

/// Shape inference for `Pooling` and `Pooling_v1`.
pub(super) fn infer_with(p: &PoolingParam, io: &mut ShapeIo<'_>) -> Result<()> {
    let Some(ndim) = io.ins[0].ndim() else { return Ok(()) };
    p.kind()?;
    let n = p.num_spatial(ndim)?;
    let shape = p.shape(&io.ins[0])?;
    let first_spatial = if p.channels_last() { 1 } else { 2 };
    let mut out: Dims = io.ins[0].dims().into();
    for i in 0..n {
        if out[first_spatial + i] >= 0 || p.global_pool {
            out[first_spatial + i] = shape.output[3 - n + i] as i64;
        }
    }
    io.assign_out(0, &Shape::from(out))
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16] => forward_as::<T>(ctx, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn forward_as<T: FloatElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<PoolingParam>();
    pool_forward(&p.shape(ins[0].shape())?, p.kind()?, ins[0].slice::<T>()?, outs[0].slice_mut::<T>()?);
    Ok(())
}

/// Inputs: gradient of the output, data, output. Output: gradient of the data.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    dispatch!(ins[0].dtype(), T in [f32, f64, f16, bf16] => backward_as::<T>(ctx, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn backward_as<T: FloatElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<PoolingParam>();
    let (dy, x, y) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<T>()?);
    if outs[0].wanted() {
        pool_backward(&p.shape(ins[1].shape())?, p.kind()?, x, y, dy, outs[0].slice_mut::<T>()?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(attrs: &[(&str, &str)], data: &[i64]) -> Result<Shape> {
        let p = POOLING.parse(&attrs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())?;
        let (mut ins, mut outs) = ([Shape::new(data)], [Shape::unknown()]);
        infer_shape(&p, &mut ShapeIo { ins: &mut ins, outs: &mut outs })?;
        Ok(outs[0].clone())
    }

    #[test]
    fn output_sizes_follow_the_pooling_convention() {
        let k = ("kernel", "(3, 3)");
        assert_eq!(out(&[k, ("stride", "(2, 2)")], &[1, 4, 8, 9]).unwrap(), [1, 4, 3, 4].into());
        assert_eq!(
            out(&[k, ("stride", "(2, 2)"), ("pooling_convention", "full")], &[1, 4, 8, 9]).unwrap(),
            [1, 4, 4, 4].into()
        );
        assert_eq!(out(&[("global_pool", "1")], &[1, 4, 8, 9]).unwrap(), [1, 4, 1, 1].into());
        assert_eq!(out(&[k, ("layout", "NHWC")], &[1, 8, 9, 4]).unwrap(), [1, 6, 7, 4].into());
        assert_eq!(out(&[k], &[-1, 4, -1, 9]).unwrap(), [-1, 4, -1, 7].into());
        assert!(out(&[k], &[1, 4, 2, 9]).is_err());
        assert!(out(&[k], &[1, 4, 9]).is_err());
        assert!(out(&[k, ("pool_type", "lp")], &[1, 4, 9, 9]).is_err());
    }
}
