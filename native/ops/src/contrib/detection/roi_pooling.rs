//! Pooling of regions of interest (RoI): `ROIAlign`, `RROIAlign`, `PSROIPooling`, `DeformablePSROIPooling`.

use ferromx_core::dtype::DType;
use ferromx_core::error::Result;
use ferromx_core::grad::{Backward, Grad};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{ArgDef, Deps, OpCtx, Operator, arg};
use ferromx_core::params::Params;
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{ensure, params};
use ferromx_kernels::detection::{
    AlignShape, BinGroups, DeformableBins, Maps, PositionSensitive, Regions, RoiAlign, RotatedAlign, max_pool_regions,
    offsets_backward, pool_regions, pool_regions_backward,
};
use ferromx_kernels::float::FloatElement;

use crate::precision::by_precision;
use crate::rules::no_gradient;

params! {
    /// Parameters of `ROIAlign`.
    pub struct RoiAlignParam {
        /// Number of bins of a region: (height, width).
        pooled_size: Shape = required;
        /// Scale from the regions' coordinates to those of the data, such as 1/16.
        spatial_scale: f32 = required, where 0.0..=1.0;
        /// Sampling points per bin and axis; -1 means `ceil(roi_size / pooled_size)`.
        sample_ratio: i32 = (-1);
        /// Whether each bin pools its own channels, as in R-FCN.
        position_sensitive: bool = false;
        /// Whether regions are shifted by -0.5 pixels, which aligns them with pixel centers.
        aligned: bool = false;
    }
}

params! {
    /// Parameters of `RROIAlign`.
    pub struct RotatedAlignParam {
        /// Number of bins of a region: (height, width).
        pooled_size: Shape = required;
        /// Scale from the regions' coordinates to those of the data, such as 1/16.
        spatial_scale: f32 = required, where 0.0..=1.0;
        /// Sampling points per bin and axis; -1 means `ceil(roi_size / pooled_size)`.
        sampling_ratio: i32 = (-1);
    }
}

/// The most sampling points of a region, which are kept in memory.
const MAX_POINTS: usize = 1 << 20;

/// The bins and sampling points that the parameters describe.
fn align_shape(pooled: &Shape, scale: f32, points: i32) -> Result<AlignShape> {
    let [height, width] = *pooled.dims() else {
        return Err(ferromx_core::error::Error::Value(format!(
            "pooled_size {pooled} must have two elements: (height, width)"
        )));
    };
    ensure!(height > 0 && width > 0, "pooled_size {pooled} must be positive");
    let points = usize::try_from(points).ok().filter(|n| *n > 0);
    let per_bin = points.map_or(1, |n| n.saturating_mul(n));
    let total = per_bin.saturating_mul(height as usize).saturating_mul(width as usize);
    ensure!(
        total <= MAX_POINTS,
        "pooled_size {pooled} with {} sampling points per axis of a bin gives more than {MAX_POINTS} points in a region: use fewer",
        points.unwrap_or(1)
    );
    Ok(AlignShape { bins: (height as usize, width as usize), scale: f64::from(scale), points })
}

/// The dimensions of data of shape (batch, channels, height, width).
fn maps(data: &Shape) -> Maps {
    let d = data.to_usize();
    Maps { images: d[0], channels: d[1], height: d[2], width: d[3] }
}

/// Checks the shapes of data and regions, whose rows have `roi_len` numbers. Returns the numbers of channels and of regions, -1 if unknown.
fn check_inputs(io: &mut ShapeIo<'_>, roi_len: i64) -> Result<(i64, i64)> {
    let (data, rois) = (io.ins[0].clone(), io.ins[1].clone());
    ensure!(data.ndim().is_none_or(|n| n == 4), "data has shape {data}, expected (batch, channel, height, width)");
    ensure!(rois.ndim().is_none_or(|n| n == 2), "rois has shape {rois}, expected (regions, {roi_len})");
    super::check_last_axis("rois", &rois, roi_len, "a region")?;
    io.assign_in(1, &Shape::new(&[-1, roi_len]))?;
    Ok((data.dim(1), rois.dim(0)))
}

/// Checks the image index of every region. Regions with a negative index are skipped.
fn check_image_indices<T: FloatElement>(rois: &[T], roi_len: usize, maps: &Maps) -> Result<()> {
    for (i, roi) in rois.chunks_exact(roi_len).enumerate() {
        let image = roi[0].to_f64();
        ensure!(
            image < maps.images as f64,
            "region {i} belongs to image {image}, but there are {} images",
            maps.images
        );
    }
    let is_empty = maps.height == 0 || maps.width == 0;
    ensure!(!is_empty || rois.is_empty(), "the images have no pixels");
    Ok(())
}

/// Evaluates `$body` with `$T` bound to the type in which it computes, by the type of the first input.
macro_rules! float_type {
    ($ctx:expr, ($ins:ident, $outs:ident), |$T:ident| $body:expr) => {
        by_precision!(($ins, $outs), $ins[0].dtype(), $T for [F16] => $body, d => Err($ctx.unsupported(d, DType::FLOATS)))
    };
}

/// Pools each region into its bins.
fn pool<T: FloatElement>(ins: &[In<'_>], outs: &mut [Out<'_>], regions: &impl Regions<T::Acc>) -> Result<()> {
    pool_regions(ins[0].slice::<T>()?, &maps(ins[0].shape()), regions, outs[0].slice_mut()?);
    Ok(())
}

/// The gradient of the data, given the gradient `dy` of the output. That of the regions is 0.
fn pool_backward<T: FloatElement>(dy: &[T], outs: &mut [Out<'_>], regions: &impl Regions<T::Acc>) -> Result<()> {
    let maps = maps(outs[0].shape());
    if outs[0].wanted() {
        pool_regions_backward(dy, &maps, regions, outs[0].slice_mut()?);
    }
    no_gradient(&mut outs[1])
}

const ROIS: ArgDef = arg("rois", "The regions, of shape (regions, 5) with rows (image, left, top, right, bottom).");

pub(super) static ROI_ALIGN: Operator<RoiAlignParam> = Operator::new("_contrib_ROIAlign").names_outputs()
    .doc(
        "Pools regions of images (He et al., \"Mask R-CNN\", 2017): each bin of a region is the average of points on a regular \
         grid, interpolated between pixels.\n\n\
         Shapes: data (batch, channel, height, width), rois (regions, 5), output (regions, channel, pooled height, pooled width); \
         with position_sensitive the output has channel / (pooled height * pooled width) channels. A region with a negative image index \
         gives zeros. No gradient flows to the regions.",
    )
    .inputs(&[arg("data", "The images, of shape (batch, channel, height, width)."), ROIS])
    .shape(align_shapes)
    .forward(|ctx, ins, outs| {
        float_type!(ctx, (ins, outs), |T| pool::<T>(ins, outs, &roi_align::<T>(ctx, &ins[1], ins[0].shape())?))
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            float_type!(ctx, (ins, outs), |T| {
                let regions = roi_align::<T>(ctx, &ins[1], outs[0].shape())?;
                pool_backward(ins[0].slice::<T>()?, outs, &regions)
            })
        })
        .inputs(Deps::Some(&[1])),
        None,
    ));

/// ONNX's RoiAlign with mode max: each bin is the largest single term of the bilinear interpolations, not the largest sample.
pub(super) static MAX_ROI_ALIGN: Operator<RoiAlignParam> = Operator::new("_onnx_MaxRoiAlign")
    .doc(
        "Pools regions of images as `_contrib_ROIAlign` does, but each bin is the largest interpolation term of its points, that is, \
         the largest of the four neighboring pixels times their weights.\n\n\
         Shapes: data (batch, channel, height, width), rois (regions, 5), output (regions, channel, pooled height, pooled width). Not \
         differentiable. Source: RoiAlign of ONNX with mode max.",
    )
    .inputs(&[arg("data", "The images, of shape (batch, channel, height, width)."), ROIS])
    .shape(align_shapes)
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<RoiAlignParam>();
        ensure!(!p.position_sensitive, "position_sensitive=True is not supported: use _contrib_ROIAlign");
        float_type!(ctx, (ins, outs), |T| {
            let regions = roi_align::<T>(ctx, &ins[1], ins[0].shape())?;
            max_pool_regions(ins[0].slice::<T>()?, &maps(ins[0].shape()), &regions, outs[0].slice_mut::<T>()?);
            Ok(())
        })
    });

/// Shape rule of pooling with regions of five numbers.
fn align_shapes(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<RoiAlignParam>();
    let bins = align_shape(&p.pooled_size, p.spatial_scale, p.sample_ratio)?.bins;
    let (mut channels, regions) = check_inputs(io, 5)?;
    let (height, width) = (bins.0 as i64, bins.1 as i64);
    if p.position_sensitive && channels >= 0 {
        ensure!(
            channels % (height * width) == 0,
            "{channels} channels are not a multiple of the {} bins",
            height * width
        );
        channels /= height * width;
    }
    io.assign_out(0, &Shape::new(&[regions, channels, height, width]))
}

fn roi_align<'a, T: FloatElement>(ctx: &OpCtx<'_>, rois: &In<'a>, data: &Shape) -> Result<RoiAlign<'a, T>> {
    let p = ctx.params::<RoiAlignParam>();
    let (rois, maps) = (rois.slice::<T>()?, maps(data));
    check_image_indices(rois, 5, &maps)?;
    let is_inverted = |roi: &[T]| roi[3] < roi[1] || roi[4] < roi[2];
    ensure!(
        !p.aligned || !rois.chunks_exact(5).any(is_inverted),
        "a region has a negative width or height: its row must be (image, left, top, right, bottom)"
    );
    let shape = align_shape(&p.pooled_size, p.spatial_scale, p.sample_ratio)?;
    Ok(RoiAlign { rois, maps, shape, position_sensitive: p.position_sensitive, aligned: p.aligned })
}

pub(super) static RROI_ALIGN: Operator<RotatedAlignParam> = Operator::new("_contrib_RROIAlign")
    .doc(
        "Pools rotated regions (Ma et al., \"Arbitrary-Oriented Scene Text Detection via Rotation Proposals\", 2018): each \
         bin of a region is the average of points on a regular grid, interpolated between pixels.\n\n\
         Shapes: data (batch, channel, height, width), rois (regions, 6), output (regions, channel, pooled height, pooled width). \
         Not differentiable.",
    )
    .inputs(&[
        arg("data", "The images, of shape (batch, channel, height, width)."),
        arg("rois", "The regions, of shape (regions, 6) with rows (image, x, y, width, height, degrees), where (x, y) is the center."),
    ])
    .shape(|p, io| {
        let p = p.get::<RotatedAlignParam>();
        let bins = align_shape(&p.pooled_size, p.spatial_scale, p.sampling_ratio)?.bins;
        let (channels, regions) = check_inputs(io, 6)?;
        io.assign_out(0, &Shape::new(&[regions, channels, bins.0 as i64, bins.1 as i64]))
    })
    .forward(|ctx, ins, outs| {
        let p = ctx.params::<RotatedAlignParam>();
        float_type!(ctx, (ins, outs), |T| {
            let (rois, maps) = (ins[1].slice::<T>()?, maps(ins[0].shape()));
            check_image_indices(rois, 6, &maps)?;
            let shape = align_shape(&p.pooled_size, p.spatial_scale, p.sampling_ratio)?;
            pool::<T>(ins, outs, &RotatedAlign { rois, maps, shape })
        })
    });

params! {
    /// Parameters of `PSROIPooling`.
    pub struct PsRoiParam {
        /// Scale from the regions' coordinates to those of the data, such as 1/16.
        spatial_scale: f32 = required, where 0.0..=1.0;
        /// Channels of the output.
        output_dim: i32 = required, where 1..=i32::MAX;
        /// Number of bins of a region along each axis.
        pooled_size: i32 = required, where 1..=4096;
        /// Number of channel groups along each axis; 0 means the number of bins.
        group_size: i32 = 0, where 0..=4096;
    }
}

/// The bins and channel groups that the parameters describe.
fn bin_groups(pooled: i32, group: i32, scale: f32) -> BinGroups {
    let groups = if group == 0 { pooled } else { group };
    BinGroups { bins: pooled as usize, groups: groups as usize, scale: f64::from(scale) }
}

/// Shape rule of position-sensitive pooling.
fn ps_shape(io: &mut ShapeIo<'_>, layout: &BinGroups, output_dim: i32) -> Result<()> {
    let (channels, regions) = check_inputs(io, 5)?;
    let num_channels = i64::from(output_dim) * (layout.groups * layout.groups) as i64;
    ensure!(
        channels < 0 || channels == num_channels,
        "the data has {channels} channels, expected output_dim * group_size * group_size = {num_channels}"
    );
    let bins = layout.bins as i64;
    io.assign_out(0, &Shape::new(&[regions, i64::from(output_dim), bins, bins]))
}

/// An argument that MXNet's metadata lists with the type `Symbol`.
const fn symbol(name: &'static str, doc: &'static str) -> ArgDef {
    ArgDef { name, doc, type_string: "Symbol" }
}

const PS_DATA: ArgDef =
    symbol("data", "The images, of shape (batch, output_dim * group_size * group_size, height, width).");
const PS_ROIS: ArgDef = symbol("rois", ROIS.doc);

pub(super) static PS_ROI_POOLING: Operator<PsRoiParam> = Operator::new("_contrib_PSROIPooling").legacy()
    .doc(
        "Position-sensitive pooling of regions (Dai et al., \"R-FCN\", 2016): each bin of a region is the average of the pixels that \
         it touches, taken from the bin's own channels.\n\n\
         Shapes: data (batch, output_dim * group_size^2, height, width), rois (regions, 5), output (regions, output_dim, \
         pooled_size, pooled_size). No gradient flows to the regions.",
    )
    .inputs(&[PS_DATA, PS_ROIS])
    .shape(|p, io| {
        let p = p.get::<PsRoiParam>();
        ps_shape(io, &bin_groups(p.pooled_size, p.group_size, p.spatial_scale), p.output_dim)
    })
    .forward(|ctx, ins, outs| {
        float_type!(ctx, (ins, outs), |T| pool::<T>(ins, outs, &ps_regions::<T>(ctx, &ins[1], ins[0].shape())?))
    })
    .grad(Grad::Kernel(
        Backward::new(|ctx, ins, outs| {
            float_type!(ctx, (ins, outs), |T| {
                let regions = ps_regions::<T>(ctx, &ins[1], outs[0].shape())?;
                pool_backward(ins[0].slice::<T>()?, outs, &regions)
            })
        })
        .inputs(Deps::Some(&[1])),
        None,
    ));

fn ps_regions<'a, T: FloatElement>(ctx: &OpCtx<'_>, rois: &In<'a>, data: &Shape) -> Result<PositionSensitive<'a, T>> {
    let p = ctx.params::<PsRoiParam>();
    let (rois, maps) = (rois.slice::<T>()?, maps(data));
    check_image_indices(rois, 5, &maps)?;
    let layout = bin_groups(p.pooled_size, p.group_size, p.spatial_scale);
    Ok(PositionSensitive { rois, maps, layout, channels: p.output_dim as usize })
}

params! {
    /// Parameters of `DeformablePSROIPooling`.
    pub struct DeformablePsRoiParam {
        /// Scale from the regions' coordinates to those of the data, such as 1/16.
        spatial_scale: f32 = required, where 0.0..=1.0;
        /// Channels of the output.
        output_dim: i32 = required, where 1..=i32::MAX;
        /// Number of channel groups along each axis.
        group_size: i32 = required, where 1..=4096;
        /// Number of bins of a region along each axis.
        pooled_size: i32 = required, where 1..=4096;
        /// Number of parts of a region along each axis, each with its own offset; 0 means the number of bins.
        part_size: i32 = 0, where 0..=4096;
        /// Sampling points per bin and axis.
        sample_per_part: i32 = 1, where 1..=4096;
        /// The scale of the offsets.
        trans_std: f32 = 0.0, where 0.0..=1.0;
        /// Whether there are no offsets.
        no_trans: bool = false;
    }
}

impl DeformablePsRoiParam {
    /// The number of parts along each axis.
    fn num_parts(&self) -> usize {
        (if self.part_size == 0 { self.pooled_size } else { self.part_size }) as usize
    }
}

pub(super) static DEFORMABLE_PS_ROI_POOLING: Operator<DeformablePsRoiParam> = Operator::new("_contrib_DeformablePSROIPooling").legacy()
    .doc(
        "Position-sensitive pooling of regions whose bins are shifted by offsets (Dai et al., \"Deformable Convolutional Networks\", \
         2017): each bin is the average of points, interpolated between pixels of the bin's own channels and shifted by offset * \
         trans_std * size of the region.\n\n\
         Shapes: data (batch, output_dim * group_size^2, height, width), rois (regions, 5), trans (regions, 2 * classes, part_size, \
         part_size) with x before y and output_dim a multiple of classes; output (regions, output_dim, pooled_size, pooled_size). No \
         gradient flows to the regions.",
    )
    .inputs(&[PS_DATA, PS_ROIS, symbol("trans", "The offsets, of shape (regions, 2 * classes, part_size, part_size).")])
    .num_inputs_by(|p| if p.get::<DeformablePsRoiParam>().no_trans { 2 } else { 3 })
    .shape(deformable_shape)
    .forward(|ctx, ins, outs| {
        float_type!(ctx, (ins, outs), |T| pool::<T>(ins, outs, &deformable::<T>(ctx, &ins[1..], ins[0].shape())?))
    })
    .grad(Grad::Kernel(Backward::new(deformable_backward).inputs(Deps::All), None));

fn deformable_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<DeformablePsRoiParam>();
    if let Some(trans) = io.ins.get(2).filter(|t| t.ndim_is_known()).cloned() {
        let (regions, parts) = (io.ins[1].dim(0), p.num_parts() as i64);
        io.assign_in(2, &Shape::new(&[regions, -1, parts, parts]))?;
        let trans_channels = trans.dim(1);
        ensure!(
            trans_channels < 0
                || trans_channels > 0 && trans_channels % 2 == 0 && i64::from(p.output_dim) % (trans_channels / 2) == 0,
            "trans has {trans_channels} channels, expected two for each class, and output_dim {} a multiple of the number of classes",
            p.output_dim
        );
    }
    ps_shape(io, &bin_groups(p.pooled_size, p.group_size, p.spatial_scale), p.output_dim)
}

/// The shifted bins. `ins` are the regions and, unless `no_trans`, the offsets.
fn deformable<'a, T: FloatElement>(ctx: &OpCtx<'_>, ins: &[In<'a>], data: &Shape) -> Result<DeformableBins<'a, T>> {
    let p = ctx.params::<DeformablePsRoiParam>();
    let (rois, maps) = (ins[0].slice::<T>()?, maps(data));
    check_image_indices(rois, 5, &maps)?;
    Ok(DeformableBins {
        rois,
        offsets: ins.get(1).map(In::slice::<T>).transpose()?,
        maps,
        layout: bin_groups(p.pooled_size, p.group_size, p.spatial_scale),
        channels: p.output_dim as usize,
        classes: ins.get(1).map_or(1, |t| t.shape().dim(1) as usize / 2),
        parts: p.num_parts(),
        points: p.sample_per_part as usize,
        offset_scale: f64::from(p.trans_std),
    })
}

/// Inputs: gradient of the output, data, regions, offsets. Outputs: gradients of the last three.
fn deformable_backward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    float_type!(ctx, (ins, outs), |T| {
        let regions = deformable::<T>(ctx, &ins[2..], ins[1].shape())?;
        let dy = ins[0].slice::<T>()?;
        if let Some(offsets) = outs.get_mut(2).filter(|o| o.wanted()) {
            offsets_backward(dy, ins[1].slice()?, &regions, offsets.slice_mut()?);
        }
        pool_backward(dy, outs, &regions)
    })
}
