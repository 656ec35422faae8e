//! `ROIPooling`: max pooling of regions of interest.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::{DTypeIo, ShapeIo};
use ferromx_core::op::{Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::float::FloatElement;
use ferromx_kernels::par::with_scratch;
use ferromx_kernels::roi_pool::{RoiPoolShape, roi_pool, roi_pool_backward};

use super::{TYPES, expect_images, image_size, pair};
use crate::precision::by_precision;
use crate::rules::no_gradient;

params! {
    /// Parameters of `ROIPooling`.
    pub struct RoiPoolingParam {
        /// Height and width of the output for each region.
        pooled_size: Shape = required;
        /// The scale from the regions' coordinates to pixels of the data, from 0 to 1.
        spatial_scale: f32 = required, where 0.0..=1.0;
    }
}

pub(super) static ROI_POOLING: Operator<RoiPoolingParam> = Operator::new("ROIPooling").legacy()
    .aliases(&["_npx_roi_pooling"])
    .doc(
        "Divides each region of an image into pooled_size bins and takes the maximum of each bin, 0 if a bin is empty \
         (Girshick, \"Fast R-CNN\", 2015).\n\n\
         A region is (image, x1, y1, x2, y2): the index of its image, and two corners, which are multiplied by spatial_scale, rounded, \
         and inclusive. Bins overlap if pooled_size does not divide the region; the region is cropped to the image. The index of the \
         image is truncated; the result of a region whose image does not exist is 0. \
         Shapes: data (batch, channel, height, width), rois (regions, 5), output (regions, channel) + pooled_size. The regions have no \
         gradient.",
    )
    .inputs(&[
        arg("data", "The images, of shape (batch, channel, height, width)."),
        arg("rois", "The regions, of shape (regions, 5): image, x1, y1, x2, y2."),
    ])
    .outputs(|_| 2)
    .visible(|_| 1)
    .output_names_by(|_| vec!["output".into(), "maxidx".into()])
    .shape(infer_shape)
    .dtype(infer_dtype)
    .forward(forward)
    .grad(Grad::Kernel(
        Backward::new(backward).ograds(Deps::Some(&[0])).inputs(Deps::Some(&[1])).outputs(Deps::Some(&[1])),
        None,
    ));

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let pooled = &p.get::<RoiPoolingParam>().pooled_size;
    ensure!(pooled.dims().len() == 2, "pooled_size {pooled} must be two numbers, (height, width)");
    let [height, width] = pair("pooled_size", pooled, 1)?.map(|d| d as i64);
    expect_images("data", &io.ins[0])?;
    io.assign_in(1, &Shape::new(&[io.outs[0].dim(0), 5]))?;
    io.assign_in(0, &Shape::new(&[-1, io.outs[0].dim(1), -1, -1]))?;
    let out = Shape::new(&[io.ins[1].dim(0), io.ins[0].dim(1), height, width]);
    (0..2).try_for_each(|i| io.assign_out(i, &out))
}

fn infer_dtype(_: &Params, io: &mut DTypeIo<'_>) -> Result<()> {
    io.assign_out(1, DType::I32)?;
    let Some(d) = io.ins[0].or(io.ins[1]).or(io.outs[0]) else { return Ok(()) };
    (0..2).try_for_each(|i| io.assign_in(i, d))?;
    io.assign_out(0, d)
}

/// The dimensions of a call on images of shape `data`.
fn roi_shape(p: &RoiPoolingParam, data: &Shape) -> Result<RoiPoolShape> {
    let dims = data.to_usize();
    Ok(RoiPoolShape {
        batch: dims[0],
        channels: dims[1],
        input: image_size(data),
        output: pair("pooled_size", &p.pooled_size, 1)?,
        scale: f64::from(p.spatial_scale),
    })
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => forward_as::<T>(ctx, ins, outs),
        other => Err(ctx.unsupported(other, TYPES)))
}

fn forward_as<T: FloatElement>(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let s = roi_shape(ctx.params(), ins[0].shape())?;
    let (x, rois) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?);
    let [out, indices] = outs else { return Err(Error::Internal("ROIPooling has two outputs".into())) };
    let y = out.slice_mut::<T>()?;
    match indices.wanted() {
        true => roi_pool(&s, x, rois, y, indices.slice_mut::<i32>()?),
        false => with_scratch(y.len(), |indices: &mut [i32]| roi_pool(&s, x, rois, y, indices)),
    }
    Ok(())
}

/// Inputs: gradient of the output, regions, indices of the maxima. Outputs: gradients of data and regions.
fn backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    no_gradient(&mut outs[1])?;
    if !outs[0].wanted() {
        return Ok(());
    }
    let s = roi_shape(ctx.params(), outs[0].shape())?;
    by_precision!((ins, outs), ins[0].dtype(), T for [F16, BF16] => {
        let (dy, rois, indices) = (ins[0].slice::<T>()?, ins[1].slice::<T>()?, ins[2].slice::<i32>()?);
        roi_pool_backward(&s, rois, indices, dy, outs[0].slice_mut::<T>()?);
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    #[test]
    fn bins_are_pooled_and_gradients_go_to_their_maxima() {
        let image = array(&(0..36).map(f64::from).collect::<Vec<_>>(), &[1, 1, 6, 6]);
        let rois = array(&[0.0, 0.0, 0.0, 3.0, 3.0, 0.0, 1.5, 2.5, 4.5, 9.0], &[2, 5]);
        let case = Case::new(&ROI_POOLING, &[("pooled_size", "(2, 2)"), ("spatial_scale", "1")]);
        let y = case.run1(&[image.clone(), rois.clone()]).unwrap().to_vec::<f64>().unwrap();
        assert_eq!(y, [7.0, 9.0, 19.0, 21.0, 33.0, 35.0, 0.0, 0.0]);
        let head = array(&(1..9).map(f64::from).collect::<Vec<_>>(), &[2, 1, 2, 2]);
        let grad = case.backward(&[image.clone(), rois], &[head]).unwrap()[0].to_vec::<f64>().unwrap();
        assert_eq!((grad[7], grad[9], grad[19], grad[21], grad[33], grad[35]), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0));
        assert_eq!(grad.iter().sum::<f64>(), 21.0);
    }

    #[test]
    fn regions_of_missing_images_are_zero() {
        let case = Case::new(&ROI_POOLING, &[("pooled_size", "(1, 1)"), ("spatial_scale", "1")]);
        let image = array(&[2.0; 4], &[1, 1, 2, 2]);
        for (image_index, expected) in [(-1.0, 0.0), (1.0, 0.0), (f64::NAN, 0.0), (-0.4, 2.0)] {
            let rois = array(&[image_index, 0.0, 0.0, 1.0, 1.0], &[1, 5]);
            assert_eq!(case.run1(&[image.clone(), rois.clone()]).unwrap().to_vec::<f64>().unwrap(), [expected]);
            let grad = case.backward(&[image.clone(), rois], &[array(&[1.0], &[1, 1, 1, 1])]).unwrap();
            assert_eq!(grad[0].to_vec::<f64>().unwrap().iter().sum::<f64>(), expected / 2.0);
        }
    }
}
