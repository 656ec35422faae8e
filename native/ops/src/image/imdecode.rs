//! `_imdecode`: a picture that is handed over with the call, as planes of one example of a batch.

use ferromx_core::dtype::{DType, Element, f16};
use ferromx_core::error::{Error, Result};
use ferromx_core::infer::ShapeIo;
use ferromx_core::op::{OpCtx, OpDef, arg};
use ferromx_core::params::{Attrs, FieldInfo, OpParams, Params, Plain};
use ferromx_core::shape::Shape;
use ferromx_core::storage::{In, Out};
use ferromx_core::{dispatch, ensure, params};

use super::decode::{Picture, decode};

params! {
    /// Parameters of `_imdecode` that the metadata lists.
    pub struct ImdecodeText {
        /// The position of the example in an output of four dimensions.
        index: Plain<i32> = required;
        /// The first column of the part that is taken.
        x0: Plain<i32> = required;
        /// The first row of the part.
        y0: Plain<i32> = required;
        /// The column behind the part.
        x1: Plain<i32> = required;
        /// The row behind the part; where it is y0, the part is the whole picture.
        y1: Plain<i32> = required;
        /// Number of channels: 1 for a gray picture, else the first ones of blue, green, red and alpha.
        c: Plain<i32> = required;
        /// Number of bytes of the encoded picture.
        size: Plain<i32> = required;
    }
}

/// Parameters of `_imdecode`: the part of the picture, decoded.
pub struct ImdecodeParam {
    index: usize,
    /// Channels, rows, columns.
    dims: [usize; 3],
    /// The planes of the channels.
    planes: Vec<u8>,
}

/// The parameter with the encoded picture.
const PICTURE: &str = "str_img";

impl OpParams for ImdecodeParam {
    fn fields() -> Vec<FieldInfo> {
        ImdecodeText::fields()
    }

    fn parse(attrs: &Attrs) -> Result<Self> {
        let mut attrs = attrs.clone();
        let text = attrs.shift_remove(PICTURE).ok_or_else(|| {
            Error::Param(format!(
                "{PICTURE} is missing: give the encoded picture, its bytes as characters U+0000 to U+00FF"
            ))
        })?;
        let p = ImdecodeText::parse(&attrs)?;
        let number = |n: Plain<i32>, name: &str| {
            usize::try_from(n.0).map_err(|_| Error::Param(format!("{name}={} must not be negative", n.0)))
        };
        let bytes: Vec<u8> = text.chars().map_while(|c| u8::try_from(u32::from(c)).ok()).collect();
        let size = number(p.size, "size")?;
        ensure!(
            size <= bytes.len(),
            "size is {size}, but {PICTURE} has {} bytes: a text from C ends at its first zero, so that pictures in memory are to be \
             decoded by MXFuncInvokeEx, or by _cvimdecode, which takes an array",
            bytes.len()
        );
        let channels = number(p.c, "c")?;
        let picture = decode(&bytes[..size], channels == 1)?;
        let mut corners = [number(p.x0, "x0")?, number(p.y0, "y0")?, number(p.x1, "x1")?, number(p.y1, "y1")?];
        if corners[1] == corners[3] {
            corners = [0, 0, picture.width, picture.height];
        }
        let planes = planes(&picture, channels, corners)?;
        let [x0, y0, x1, y1] = corners;
        Ok(ImdecodeParam { index: number(p.index, "index")?, dims: [channels, y1 - y0, x1 - x0], planes })
    }
}

/// The planes of the first channels of blue, green, red and alpha, or of the brightness, in a part of the picture.
fn planes(picture: &Picture, channels: usize, [x0, y0, x1, y1]: [usize; 4]) -> Result<Vec<u8>> {
    // As OpenCV gives them: brightness with alpha has three colours.
    let there = if picture.channels == 2 { 4 } else { picture.channels };
    ensure!((1..=there.max(1)).contains(&channels), "c={channels} channels of a picture that has {there}");
    let (width, height) = (picture.width, picture.height);
    ensure!(
        x0 < x1 && x1 <= width && y0 < y1 && y1 <= height,
        "the part ({x0}, {y0}) to ({x1}, {y1}) is no part of a picture of {width} x {height} pixels"
    );
    let gray = (channels == 1).then(|| picture.converted(1, true));
    let sample = |pixel: usize, channel: usize| match (&gray, picture.channels) {
        (Some(gray), _) => gray[pixel],
        (None, 2) => picture.samples[pixel * 2 + usize::from(channel == 3)],
        (None, n) => picture.samples[pixel * n + if channel < 3 { 2 - channel } else { 3 }],
    };
    let places = (0..channels).flat_map(|k| (y0..y1).flat_map(move |y| (x0..x1).map(move |x| (k, y, x))));
    Ok(places.map(|(k, y, x)| sample(y * width + x, k)).collect())
}

/// The operators of this file.
pub static OPS: &[&OpDef] = &[&IMDECODE];

const TYPES: &[DType] = &[DType::F32, DType::F64, DType::F16, DType::U8, DType::I8, DType::I32, DType::I64];

/// A picture as an example of a batch.
pub static IMDECODE: OpDef = OpDef::new("_imdecode")
    .doc(
        "Decodes a JPEG, PNG or BMP picture, whose bytes are the characters of the parameter str_img, takes the part from (x0, y0) to \
         (x1, y1), and subtracts the mean: output = part - mean, in planes of blue, green and red.\n\n\
         Shapes: mean (c, height, width), or without elements for none; output the same, or (n, c, height, width), of which example index \
         is written. Not differentiable. A text of C cannot hold a zero byte: C programs call it by MXFuncInvokeEx.",
    )
    .inputs(&[arg("mean", "What is subtracted, of the part's shape (c, height, width); without elements, nothing is.")])
    .params::<ImdecodeParam>()
    .reusable_if(|_| false)
    .shape(infer_shape)
    .forward(forward);

fn infer_shape(p: &Params, io: &mut ShapeIo<'_>) -> Result<()> {
    let p = p.get::<ImdecodeParam>();
    let part = Shape::new(&p.dims.map(|d| d as i64));
    if !io.ins[0].dims().contains(&0) {
        io.assign_in(0, &part)?;
    }
    if io.outs[0].ndim() != Some(4) {
        return io.assign_out(0, &part);
    }
    let examples = io.outs[0].dim(0);
    ensure!(
        examples < 0 || (p.index as i64) < examples,
        "index {} is beyond the {examples} examples of the output",
        p.index
    );
    io.assign_out(0, &Shape::new(&[&[examples], part.dims()].concat()))
}

fn forward(ctx: &OpCtx<'_>, ins: &[In<'_>], outs: &mut [Out<'_>]) -> Result<()> {
    let p = ctx.params::<ImdecodeParam>();
    let out = &mut outs[0];
    let begin = if out.shape().ndim() == Some(4) { p.index * p.planes.len() } else { 0 };
    dispatch!(out.dtype(), T in [f32, f64, f16, u8, i8, i32, i64] => {
        let mean = ins[0].slice::<T>()?;
        let to = &mut out.slice_mut::<T>()?[begin..begin + p.planes.len()];
        if mean.is_empty() {
            to.iter_mut().zip(&p.planes).for_each(|(to, x)| *to = T::from_f64(f64::from(*x)));
        } else {
            let rows = to.iter_mut().zip(&p.planes).zip(mean);
            rows.for_each(|((to, x), mean)| *to = T::from_f64(f64::from(*x) - mean.to_f64()));
        }
        Ok(())
    }, other => Err(ctx.unsupported(other, TYPES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    /// Two rows of three pixels: samples 5, 15, 25, ... in the order of the file.
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
            (PICTURE, text),
        ];
        for (key, value) in changes {
            attrs.retain(|(k, _)| k != key);
            attrs.push((key, value));
        }
        Case::parse(&IMDECODE, &attrs)
    }

    // What MXNet 1.9.1 gives through MXFuncInvokeEx for these pictures.
    #[test]
    fn planes_are_blue_green_red_without_the_mean() {
        let rgb = png(png::ColorType::Rgb);
        let y = case(&rgb, &[]).unwrap().run1(&[array(&[1f32; 18], &[3, 2, 3])]).unwrap();
        assert_eq!(y.shape().dims(), [3, 2, 3]);
        let blue = [24f32, 54., 84., 114., 144., 174.];
        let want = [0f32, 10., 20.].iter().flat_map(|d| blue.map(|b| b - d)).collect::<Vec<_>>();
        assert_eq!(y.to_vec::<f32>().unwrap(), want);
        let part = [("x0", "1"), ("y0", "1"), ("x1", "3"), ("y1", "2")];
        let y = case(&rgb, &part).unwrap().run1(&[array(&[0f64; 0], &[0])]).unwrap();
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
    fn what_does_not_fit_is_an_error() {
        let (rgb, gray) = (png(png::ColorType::Rgb), png(png::ColorType::Grayscale));
        let error =
            |text: &str, changes: &[(&'static str, &str)]| case(text, changes).map(|_| ()).unwrap_err().to_string();
        assert!(error(&gray, &[]).contains("c=3 channels of a picture that has 1"));
        assert!(error(&rgb, &[("c", "0")]).contains("c=0 channels"));
        assert!(error(&rgb, &[("x1", "9"), ("y1", "9")]).contains("no part of a picture of 3 x 2"));
        assert!(error(&rgb, &[("size", "999999")]).contains("MXFuncInvokeEx"));
        assert!(error("hello world", &[]).contains("no JPEG, PNG or BMP"));
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
