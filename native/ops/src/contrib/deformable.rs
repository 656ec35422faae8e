//! `_contrib_DeformableConvolution` and `_contrib_ModulatedDeformableConvolution`: convolutions with learned offsets of the taps.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params::{OpParams, Params};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, param_enum, params};
use ferromx_kernels::conv::{
    ConvShape, DeformGrads, DeformInputs, DeformShape, conv_add_bias, conv_backward_bias, deform_backward,
    deform_forward,
};

use crate::nn::spatial::{first_items, sizes, triple};

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&DEFORMABLE_CONVOLUTION, &MODULATED_DEFORMABLE_CONVOLUTION];

param_enum! {
    /// Axis order.
    pub enum DeformLayout { Ncdhw = "NCDHW", Nchw = "NCHW", Ncw = "NCW" }
}

params! {
    /// Parameters of `_contrib_DeformableConvolution`.
    pub struct DeformableParam {
        /// Size of the window, (height, width).
        kernel: Shape = required;
        /// Stride of the window; 1 by default.
        stride: Shape = (Shape::new(&[]));
        /// Dilation: distance between neighboring taps of the window; 1 by default.
        dilate: Shape = (Shape::new(&[]));
        /// Zero padding at both ends of each axis; 0 by default.
        pad: Shape = (Shape::new(&[]));
        /// Number of output channels.
        num_filter: i32 = required, where 1..=i32::MAX;
        /// Number of channel groups, which are convolved separately.
        num_group: i32 = 1, where 1..=i32::MAX;
        /// Number of groups of input channels, each with its own offsets.
        num_deformable_group: i32 = 1, where 1..=i32::MAX;
        /// Maximum of temporary memory in megabytes; accepted for compatibility, ignored.
        workspace: u64 = 1024;
        /// Whether the bias is omitted.
        no_bias: bool = false;
        /// Axis order; only NCHW is supported.
        layout: Option<DeformLayout> = None;
    }
}

params! {
    /// Parameters of `_contrib_ModulatedDeformableConvolution`.
    pub struct ModulatedParam {
        /// Size of the window, (height, width).
        kernel: Shape = required;
        /// Stride of the window; 1 by default.
        stride: Shape = (Shape::new(&[]));
        /// Dilation: distance between neighboring taps of the window; 1 by default.
        dilate: Shape = (Shape::new(&[]));
        /// Zero padding at both ends of each axis; 0 by default.
        pad: Shape = (Shape::new(&[]));
        /// Number of output channels.
        num_filter: u32 = required, where 1..=u32::MAX;
        /// Number of channel groups, which are convolved separately.
        num_group: u32 = 1, where 1..=u32::MAX;
        /// Number of groups of input channels, each with its own offsets.
        num_deformable_group: u32 = 1, where 1..=u32::MAX;
        /// Maximum of temporary memory in megabytes; accepted for compatibility, ignored.
        workspace: u64 = 1024;
        /// Whether the bias is omitted.
        no_bias: bool = false;
        /// Number of images per im2col; accepted for compatibility, ignored.
        im2col_step: u32 = 64;
        /// Axis order; only NCHW is supported.
        layout: Option<DeformLayout> = None;
    }
}

/// The parameters that both operators share.
struct Settings<'a> {
    /// `kernel`, `stride`, `pad` and `dilate`.
    window: [&'a Shape; 4],
    filters: i64,
    groups: i64,
    offset_groups: i64,
    no_bias: bool,
    layout: Option<DeformLayout>,
}

/// The parameters of a deformable convolution.
trait Deformable: OpParams {
    /// Whether taps are scaled by a modulation mask.
    const HAS_MASK: bool;
    fn settings(&self) -> Settings<'_>;
}

macro_rules! deformable {
    ($($param:ident $modulated:literal)*) => {$(
        impl Deformable for $param {
            const HAS_MASK: bool = $modulated;
            fn settings(&self) -> Settings<'_> {
                Settings {
                    window: [&self.kernel, &self.stride, &self.pad, &self.dilate],
                    filters: self.num_filter.into(),
                    groups: self.num_group.into(),
                    offset_groups: self.num_deformable_group.into(),
                    no_bias: self.no_bias,
                    layout: self.layout,
                }
            }
        }
    )*};
}
deformable!(DeformableParam false ModulatedParam true);

const TYPES: &[DType] = &[DType::F32, DType::F64];

const DATA: ArgDef = arg("data", "The images, of shape (batch, channel, height, width).");
const OFFSET: ArgDef = arg(
    "offset",
    "The offsets of the taps in pixels, of shape (batch, num_deformable_group * kernel_height * kernel_width * 2, out_height, \
     out_width): (y, x) for each tap.",
);
const WEIGHT: ArgDef =
    arg("weight", "The weights, of shape (num_filter, channel/num_group, kernel_height, kernel_width).");
const BIAS: ArgDef = arg("bias", "The bias, of shape (num_filter,); absent with no_bias=True.");

const fn deformable_convolution<P: Deformable>(name: &'static str, args: &'static [ArgDef]) -> Operator<P> {
    Operator::new(name)
        .inputs(args)
        .num_inputs_by(|p| 3 + usize::from(P::HAS_MASK) + usize::from(!p.get::<P>().settings().no_bias))
        .shape(infer_shape::<P>)
        .forward(forward::<P>)
        .grad(Grad::Kernel(Backward::new(backward::<P>).inputs(Deps::All), None))
}

pub(super) static DEFORMABLE_CONVOLUTION: Operator<DeformableParam> =
    deformable_convolution("_contrib_DeformableConvolution", &[DATA, OFFSET, WEIGHT, BIAS]).legacy().doc(
        "A convolution whose taps are shifted by offsets (Dai et al., \"Deformable convolutional networks\", 2017): tap (i, j) of \
         output pixel (y, x) reads the data, interpolated bilinearly, at row y*stride + i*dilate - pad + offset_down and the \
         column likewise; points outside the image count as 0. The shapes are those of `Convolution`.",
    );

pub(super) static MODULATED_DEFORMABLE_CONVOLUTION: Operator<ModulatedParam> = deformable_convolution(
    "_contrib_ModulatedDeformableConvolution",
    &[
        DATA,
        OFFSET,
        arg(
            "mask",
            "The scales of the taps, of shape (batch, num_deformable_group * kernel_height * kernel_width, out_height, out_width).",
        ),
        WEIGHT,
        BIAS,
    ],
)
.doc(
    "A convolution whose taps are shifted by offsets and scaled by a mask (Zhu et al., \"Deformable ConvNets v2\", 2019). It differs \
     from `_contrib_DeformableConvolution` also in that pixels outside the image are 0, so that a point less than a pixel outside \
     interpolates between the border and 0.",
);

/// The geometry for data of shape (batch, channels, height, width), after checking the parameters. Unknown sizes are 0.
fn shape<P: Deformable>(p: &P, data: &Shape) -> Result<DeformShape> {
    let s = p.settings();
    ensure!(
        data.ndim().is_none_or(|n| n == 4)
            && s.window[0].dims().len() == 2
            && !matches!(s.layout, Some(DeformLayout::Ncw | DeformLayout::Ncdhw)),
        "deformable convolutions are two-dimensional, but the kernel is {}, the data {data}, the layout {:?}",
        s.window[0],
        s.layout
    );
    let channels = data.dim(1);
    ensure!(
        s.filters % s.groups == 0 && (channels < 0 || channels % s.groups == 0 && channels % s.offset_groups == 0),
        "num_group {} must divide num_filter {} and the {channels} channels, and num_deformable_group {} must divide the channels",
        s.groups,
        s.filters,
        s.offset_groups
    );
    let [kernel, stride, pad, dilate] = s.window;
    let conv = ConvShape {
        batch: data.dim(0).max(0) as usize,
        groups: s.groups as usize,
        in_channels: channels.max(0) as usize,
        out_channels: s.filters as usize,
        input: sizes(data.dims().get(2..).unwrap_or(&[])),
        kernel: triple("kernel", kernel, 2, 1, 1)?,
        stride: triple("stride", &first_items(stride, 2), 2, 1, 1)?,
        pad: triple("pad", &first_items(pad, 2), 2, 0, 0)?,
        dilate: triple("dilate", &first_items(dilate, 2), 2, 1, 1)?,
    };
    Ok(DeformShape {
        conv: conv.with_bounded_strides(),
        offset_groups: s.offset_groups as usize,
        zero_border: P::HAS_MASK,
    })
}

fn infer_shape<P: Deformable>(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<P>();
    let s = p.settings();
    let d = shape(p, &io.ins[0])?;
    let weight_index = 2 + usize::from(P::HAS_MASK);
    let num_inputs = weight_index + 1 + usize::from(!s.no_bias);
    ensure!(io.ins.len() == num_inputs, "{num_inputs} inputs were expected, but {} were given", io.ins.len());
    if !s.no_bias {
        io.assign_in(weight_index + 1, &[s.filters].into())?;
    }
    let (channels, kernel_height, kernel_width) = (io.ins[0].dim(1), s.window[0].dim(0), s.window[0].dim(1));
    let group_channels = if channels < 0 { -1 } else { channels / s.groups };
    io.assign_in(weight_index, &[s.filters, group_channels, kernel_height, kernel_width].into())?;
    let out = d.conv.output();
    let out_size = |axis: usize| if io.ins[0].dim(axis + 1) < 0 { -1 } else { out[axis] as i64 };
    let (height, width) = (out_size(1), out_size(2));
    ensure!(height != 0 && width != 0, "kernel {} exceeds the input {}", s.window[0], io.ins[0]);
    let num_taps = s.offset_groups * kernel_height * kernel_width;
    let batch = io.ins[0].dim(0);
    io.assign_in(1, &[batch, 2 * num_taps, height, width].into())?;
    if P::HAS_MASK {
        io.assign_in(2, &[batch, num_taps, height, width].into())?;
    }
    io.assign_out(0, &[batch, s.filters, height, width].into())
}

/// The input arrays; `ins` starts with the data.
fn inputs<'a, P: Deformable, T: ferromx_core::dtype::Element>(ins: &[In<'a>]) -> Result<DeformInputs<'a, T>> {
    let num_masks = usize::from(P::HAS_MASK);
    Ok(DeformInputs {
        data: ins[0].slice::<T>()?,
        offset: ins[1].slice::<T>()?,
        mask: if P::HAS_MASK { Some(ins[2].slice::<T>()?) } else { None },
        weights: ins[2 + num_masks].slice::<T>()?,
    })
}

fn forward<P: Deformable>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<P>();
    let s = shape(p, ins[0].shape())?;
    dispatch!(ins[0].dtype(), T in [f32, f64] => {
        let y = outs[0].slice_mut::<T>()?;
        deform_forward(&s, &inputs::<P, T>(ins)?, y);
        if !p.settings().no_bias {
            conv_add_bias(s.conv.batch, ins[ins.len() - 1].slice::<T>()?, y);
        }
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

/// Inputs: gradient of the output, then all inputs. Outputs: gradients of all inputs.
fn backward<P: Deformable>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<P>();
    let s = shape(p, ins[1].shape())?;
    dispatch!(ins[0].dtype(), T in [f32, f64] => {
        let dy = ins[0].slice::<T>()?;
        let inputs = inputs::<P, T>(&ins[1..])?;
        let mut grads = outs.iter_mut().map(|o| if o.wanted() { o.slice_mut::<T>().map(Some) } else { Ok(None) });
        let mut next = || grads.next().transpose().map(Option::flatten);
        let (data, offset) = (next()?, next()?);
        let mask = if P::HAS_MASK { next()? } else { None };
        let (weights, bias) = (next()?, next()?);
        deform_backward(&s, &inputs, dy, DeformGrads { data, offset, mask, weights });
        if let Some(bias) = bias {
            conv_backward_bias(s.conv.batch, dy, bias);
        }
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array, close};
    use ferromx_core::ndarray::NDArray;

    fn numbers(dims: &[i64], scale: f64, shift: f64) -> NDArray {
        let n = dims.iter().product::<i64>();
        array(&(0..n).map(|i| (i * 7 % 13) as f64 * scale + shift).collect::<Vec<_>>(), dims)
    }

    const ATTRS: &[(&str, &str)] = &[
        ("kernel", "(2, 2)"),
        ("num_filter", "4"),
        ("num_group", "2"),
        ("num_deformable_group", "2"),
        ("pad", "(1, 0)"),
        ("stride", "(2, 1)"),
    ];

    #[test]
    fn gradients_agree_with_finite_differences() {
        let (data, offset) = (numbers(&[1, 4, 3, 4], 0.2, -1.0), numbers(&[1, 16, 2, 3], 0.17, -0.93));
        let (weight, bias) = (numbers(&[4, 2, 2, 2], 0.1, -0.5), numbers(&[4], 0.3, 0.0));
        let plain = [data.clone(), offset.clone(), weight.clone(), bias.clone()];
        Case::new(&DEFORMABLE_CONVOLUTION, ATTRS).check_gradient(&plain);
        let modulated = [data, offset, numbers(&[1, 8, 2, 3], 0.07, 0.1), weight, bias];
        Case::new(&MODULATED_DEFORMABLE_CONVOLUTION, ATTRS).check_gradient(&modulated);
    }

    #[test]
    fn zero_offsets_give_an_ordinary_convolution() {
        let (data, weight) = (numbers(&[2, 4, 3, 4], 0.2, -1.0), numbers(&[4, 2, 2, 2], 0.1, -0.5));
        let plain: Vec<_> = ATTRS.iter().filter(|(k, _)| *k != "num_deformable_group").copied().collect();
        let no_bias = |attrs: &[(&'static str, &'static str)]| [attrs, &[("no_bias", "True")]].concat();
        let (_, convolution) = crate::registry::find("Convolution").unwrap();
        let want = Case::new(convolution, &no_bias(&plain)).run1(&[data.clone(), weight.clone()]).unwrap();
        let offset = numbers(&[2, 16, 2, 3], 0.0, 0.0);
        let ins = [data.clone(), offset.clone(), weight.clone()];
        let got = Case::new(&DEFORMABLE_CONVOLUTION, &no_bias(ATTRS)).run1(&ins).unwrap();
        close(&got.to_vec::<f64>().unwrap(), &want.to_vec::<f64>().unwrap(), 1e-12);
        let ins = [data, offset, numbers(&[2, 8, 2, 3], 0.0, 1.0), weight];
        let got = Case::new(&MODULATED_DEFORMABLE_CONVOLUTION, &no_bias(ATTRS)).run1(&ins).unwrap();
        close(&got.to_vec::<f64>().unwrap(), &want.to_vec::<f64>().unwrap(), 1e-12);
    }
}
