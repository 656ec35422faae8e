//! `_imdecode`: decodes an image, which is passed as a parameter, into one example of a batch.

use ferromx_core::dtype::{DType, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, arg};
use ferromx_core::params::{Attrs, FieldInfo, OpParams, Params, TypeOnly};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};
use ferromx_kernels::image::{self, Crop};

use super::decode::{DecodedImage, decode};

params! {
    /// Parameters of `_imdecode` that the metadata lists.
    pub struct ImdecodeAttrs {
        /// The index of the example in a four-dimensional output.
        index: TypeOnly<i32> = required;
        /// The first column of the crop.
        x0: TypeOnly<i32> = required;
        /// The first row of the crop.
        y0: TypeOnly<i32> = required;
        /// The column after the last one of the crop.
        x1: TypeOnly<i32> = required;
        /// The row after the last one of the crop; if it equals y0, the crop is the whole image.
        y1: TypeOnly<i32> = required;
        /// Number of channels: 1 for grayscale, otherwise the first c of blue, green, red and alpha.
        c: TypeOnly<i32> = required;
        /// Number of bytes of the encoded image.
        size: TypeOnly<i32> = required;
    }
}

/// Parameters of `_imdecode`: the decoded and cropped image.
pub(super) struct ImdecodeParam {
    index: usize,
    /// The shape (channels, height, width) of the samples.
    dims: [usize; 3],
    /// The samples, one plane per channel.
    planes: Vec<u8>,
}

/// The parameter with the encoded image.
const ENCODED_IMAGE: &str = "str_img";

impl OpParams for ImdecodeParam {
    fn fields() -> Vec<FieldInfo> {
        ImdecodeAttrs::fields()
    }

    fn parse(attrs: &Attrs) -> Result<Self> {
        let mut attrs = attrs.clone();
        let text = attrs.shift_remove(ENCODED_IMAGE).ok_or_else(|| {
            Error::Param(format!(
                "{ENCODED_IMAGE} is missing: give the encoded image, its bytes as characters U+0000 to U+00FF"
            ))
        })?;
        let p = ImdecodeAttrs::parse(&attrs)?;
        let number = |n: TypeOnly<i32>, name: &str| {
            usize::try_from(n.0).map_err(|_| Error::Param(format!("{name}={} must not be negative", n.0)))
        };
        let bytes: Vec<u8> = text.chars().map_while(|c| u8::try_from(u32::from(c)).ok()).collect();
        let size = number(p.size, "size")?;
        ensure!(
            size <= bytes.len(),
            "size is {size}, but {ENCODED_IMAGE} has {} bytes: a C string ends at its first zero byte, so images in memory must be \
             decoded by MXFuncInvokeEx, or by _cvimdecode, which takes an array",
            bytes.len()
        );
        let channels = number(p.c, "c")?;
        let image = decode(&bytes[..size], channels == 1)?;
        let mut corners = [number(p.x0, "x0")?, number(p.y0, "y0")?, number(p.x1, "x1")?, number(p.y1, "y1")?];
        if corners[1] == corners[3] {
            corners = [0, 0, image.width, image.height];
        }
        let planes = planes(&image, channels, corners)?;
        let [x0, y0, x1, y1] = corners;
        Ok(ImdecodeParam { index: number(p.index, "index")?, dims: [channels, y1 - y0, x1 - x0], planes })
    }
}

/// The samples of a crop, of shape (channels, height, width). One channel is the luma; several are the first of blue, green, red and
/// alpha.
fn planes(image: &DecodedImage, channels: usize, [x0, y0, x1, y1]: [usize; 4]) -> Result<Vec<u8>> {
    // As in OpenCV, gray with alpha is decoded to four channels.
    let available = if image.channels == 2 { 4 } else { image.channels };
    ensure!((1..=available.max(1)).contains(&channels), "c={channels} channels of an image that has {available}");
    let (width, height) = (image.width, image.height);
    ensure!(
        x0 < x1 && x1 <= width && y0 < y1 && y1 <= height,
        "the crop ({x0}, {y0}) to ({x1}, {y1}) is not within an image of {width} x {height} pixels"
    );
    let crop = Crop { x: x0..x1, y: y0..y1 };
    let plane_of =
        |from: &[u8], sources: &[usize], num_channels| image::crop_planes(from, (width, num_channels), sources, &crop);
    Ok(match image.channels {
        _ if channels == 1 => plane_of(&image.to_gray(), &[0], 1),
        2 => plane_of(&image.samples, &[0, 0, 0, 1][..channels], 2),
        n => plane_of(&image.samples, &[2, 1, 0, 3][..channels], n),
    })
}

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&IMDECODE];

const TYPES: &[DType] = &[DType::F32, DType::F64, DType::F16, DType::U8, DType::I8, DType::I32, DType::I64];

pub(super) static IMDECODE: Operator<ImdecodeParam> = Operator::new("_imdecode")
    .doc(
        "Decodes a JPEG, PNG or BMP image, whose bytes are the characters of the parameter str_img, crops it from (x0, y0) to (x1, y1), \
         and subtracts the mean: output = crop - mean, with the channels blue, green and red.\n\n\
         Shapes: mean (c, height, width), or empty for none; output the same, or (n, c, height, width), of which the example `index` is \
         written. Not differentiable. A C string cannot hold a zero byte: C programs call it through MXFuncInvokeEx.",
    )
    .inputs(&[arg("mean", "The mean to subtract, of the crop's shape (c, height, width); empty for none.")])
    .reusable_if(|_| false)
    .shape(infer_shape)
    .forward(forward);

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<ImdecodeParam>();
    let crop = Shape::new(&p.dims.map(|d| d as i64));
    if !io.ins[0].dims().contains(&0) {
        io.assign_in(0, &crop)?;
    }
    if io.outs[0].ndim() != Some(4) {
        return io.assign_out(0, &crop);
    }
    let examples = io.outs[0].dim(0);
    ensure!(
        examples < 0 || (p.index as i64) < examples,
        "index {} is beyond the {examples} examples of the output",
        p.index
    );
    io.assign_out(0, &Shape::new(&[&[examples], crop.dims()].concat()))
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<ImdecodeParam>();
    let out = &mut outs[0];
    let begin = if out.shape().ndim() == Some(4) { p.index * p.planes.len() } else { 0 };
    dispatch!(out.dtype(), T in [f32, f64, f16, u8, i8, i32, i64] => {
        let mean = Some(ins[0].slice::<T>()?).filter(|mean| !mean.is_empty());
        image::subtract_mean(&p.planes, mean, &mut out.slice_mut::<T>()?[begin..begin + p.planes.len()]);
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    /// A PNG image of 3 x 2 pixels with samples 5, 15, 25, ..., as a parameter.
    fn png(color: png::ColorType) -> String {
        let mut data = Vec::new();
        let mut encoder = png::Encoder::new(&mut data, 3, 2);
        encoder.set_color(color);
        let samples: Vec<u8> = (0..6 * color.samples()).map(|i| i as u8 * 10 + 5).collect();
        encoder.write_header().unwrap().write_image_data(&samples).unwrap();
        data.into_iter().map(char::from).collect()
    }

    fn case(text: &str, changes: &[(&'static str, &str)]) -> Result<Case> {
        let size = text.chars().count().to_string();
        let mut attrs = vec![
            ("index", "0"),
            ("x0", "0"),
            ("y0", "0"),
            ("x1", "0"),
            ("y1", "0"),
            ("c", "3"),
            ("size", &size),
            (ENCODED_IMAGE, text),
        ];
        for (key, value) in changes {
            attrs.retain(|(k, _)| k != key);
            attrs.push((key, value));
        }
        Case::parse(&IMDECODE, &attrs)
    }

    // The expected values are those of MXNet 1.9.1, called through MXFuncInvokeEx.
    #[test]
    fn planes_are_blue_green_and_red_minus_the_mean() {
        let rgb = png(png::ColorType::Rgb);
        let y = case(&rgb, &[]).unwrap().run1(&[array(&[1f32; 18], &[3, 2, 3])]).unwrap();
        assert_eq!(y.shape().dims(), [3, 2, 3]);
        let blue = [24f32, 54., 84., 114., 144., 174.];
        let want = [0f32, 10., 20.].iter().flat_map(|d| blue.map(|b| b - d)).collect::<Vec<_>>();
        assert_eq!(y.to_vec::<f32>().unwrap(), want);
        let crop = [("x0", "1"), ("y0", "1"), ("x1", "3"), ("y1", "2")];
        let y = case(&rgb, &crop).unwrap().run1(&[array(&[0f64; 0], &[0])]).unwrap();
        assert_eq!(
            (y.shape().dims(), y.to_vec::<f64>().unwrap()),
            (&[3, 1, 2][..], vec![145., 175., 135., 165., 125., 155.])
        );
        let y = case(&rgb, &[]).unwrap().run1(&[array(&[100u8; 18], &[3, 2, 3])]).unwrap();
        assert_eq!(y.to_vec::<u8>().unwrap()[..6], [181, 211, 241, 15, 45, 75]);
        let y = case(&rgb, &[("c", "1")]).unwrap().run1(&[array(&[1f32; 6], &[1, 2, 3])]).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [12., 42., 72., 102., 132., 162.]);
    }

    #[test]
    fn alpha_is_the_fourth_channel() {
        let rgba = png(png::ColorType::Rgba);
        let y = case(&rgba, &[("c", "4")]).unwrap().run1(&[array(&[0u8; 0], &[0])]).unwrap();
        let y = y.to_vec::<u8>().unwrap();
        assert_eq!((y[0], y[6], y[12], y[18]), (25, 15, 5, 35));
        let la = png(png::ColorType::GrayscaleAlpha);
        let y = case(&la, &[("c", "4")]).unwrap().run1(&[array(&[0u8; 0], &[0])]).unwrap().to_vec::<u8>().unwrap();
        assert_eq!((y[0], y[6], y[12], y[18]), (5, 5, 5, 15));
    }

    #[test]
    fn invalid_channels_and_crops_are_errors() {
        let (rgb, gray) = (png(png::ColorType::Rgb), png(png::ColorType::Grayscale));
        let error =
            |text: &str, changes: &[(&'static str, &str)]| case(text, changes).map(|_| ()).unwrap_err().to_string();
        assert!(error(&gray, &[]).contains("c=3 channels of an image that has 1"));
        assert!(error(&rgb, &[("c", "0")]).contains("c=0 channels"));
        assert!(error(&rgb, &[("x1", "9"), ("y1", "9")]).contains("not within an image of 3 x 2"));
        assert!(error(&rgb, &[("size", "999999")]).contains("MXFuncInvokeEx"));
        assert!(error("hello world", &[]).contains("not a JPEG, PNG or BMP image"));
        assert!(
            Case::parse(&IMDECODE, &[("index", "0")])
                .map(|_| ())
                .unwrap_err()
                .to_string()
                .contains("str_img is missing")
        );
        let batch = |index: &str, dims: &[i64]| {
            let ins = [Shape::new(&[3, 2, 3])];
            case(&rgb, &[("index", index)])
                .unwrap()
                .shapes_both(&ins, &[Shape::new(dims)])
                .map(|(_, outs)| outs[0].clone())
        };
        assert_eq!(batch("1", &[2, 3, 2, 3]).unwrap().dims(), [2, 3, 2, 3]);
        assert!(batch("2", &[2, 3, 2, 3]).unwrap_err().to_string().contains("beyond the 2 examples"));
        assert!(batch("0", &[2, 3, 2, 4]).is_err());
    }
}
