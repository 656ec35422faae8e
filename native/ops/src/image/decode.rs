//! `_cvimdecode` and `_cvimread`: decoding of JPEG, PNG and BMP images.

use ferromx_core::dtype::DType;
use ferromx_core::error::{Error, Result};
use ferromx_core::ndarray::NDArray;
use ferromx_core::op::{AnyOperator, OpCtx, Operator, array_arg};
use ferromx_core::storage::read_slice;
use ferromx_core::{ensure, memory, params};
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;

/// The operators of this file.
pub(super) static OPS: &[&dyn AnyOperator] = &[&CV_DECODE, &CV_READ];

/// The maximum number of pixels of an image, so that a small file cannot exhaust the memory.
const MAX_PIXELS: usize = 1 << 27;

/// Upper bound of the decoder's memory per pixel: three samples, their 16-bit coefficients, and the output.
const DECODER_BYTES_PER_PIXEL: usize = 16;

params! {
    /// Parameters of `_cvimdecode`.
    pub struct DecodeParam {
        /// 1 to decode to three channels, 0 to decode to grayscale.
        flag: i32 = 1;
        /// Whether the channel order is RGB; otherwise it is BGR.
        to_rgb: bool = true;
    }
}

pub(super) static CV_DECODE: Operator<DecodeParam> = Operator::new("_cvimdecode")
    .aliases(&["_npi_cvimdecode"])
    .doc(
        "Decodes a JPEG, PNG or BMP image. Alpha channels are dropped, 16-bit samples are truncated to 8 bits; EXIF orientation is not \
         applied. Imperative only, since the size depends on the data.\n\n\
         Shapes: buf (bytes,) of type uint8, output (height, width, 3) or, with flag=0, (height, width, 1). Not differentiable.",
    )
    .inputs(&[array_arg("buf", "The encoded image, of type uint8.")])
    .dynamic(|ctx, ins| {
        let p = ctx.params::<DecodeParam>();
        if ins[0].dtype() != DType::U8 {
            return Err(ctx.unsupported(ins[0].dtype(), &[DType::U8]));
        }
        let data = read_slice::<u8, _>(&ins[0], memory::copied)?;
        output(ctx, &data, p.flag, p.to_rgb)
    });

params! {
    /// Parameters of `_cvimread`.
    pub struct ReadParam {
        /// The path of the file.
        filename: String = required;
        /// 1 to decode to three channels, 0 to decode to grayscale.
        flag: i32 = 1;
        /// Whether the channel order is RGB; otherwise it is BGR.
        to_rgb: bool = true;
    }
}

pub(super) static CV_READ: Operator<ReadParam> = Operator::new("_cvimread")
    .aliases(&["_npi_cvimread"])
    .doc(
        "Reads a JPEG, PNG or BMP file; see _cvimdecode. It runs on arrays only. Output: (height, width, 3) or, with flag=0, \
         (height, width, 1), of type uint8. Not differentiable.",
    )
    .inputs(&[])
    .dynamic(|ctx, _| {
        let p = ctx.params::<ReadParam>();
        let data = std::fs::read(&p.filename).map_err(|e| Error::io(&p.filename, &e))?;
        output(ctx, &data, p.flag, p.to_rgb).map_err(|e| match e {
            Error::Format(message) => Error::Format(format!("{}: {message}", p.filename)),
            other => other,
        })
    });

/// Decodes an image to an array of shape (height, width, channels).
fn output(ctx: &OpCtx<'_>, data: &[u8], flag: i32, to_rgb: bool) -> Result<Vec<NDArray>> {
    ensure!(matches!(flag, 0 | 1), "flag {flag} is unknown: use 1 (color) or 0 (gray)");
    let gray = flag == 0;
    let image = decode(data, gray)?;
    let channels = if gray { 1 } else { 3 };
    let pixels = image.converted(channels, if to_rgb { ChannelOrder::Rgb } else { ChannelOrder::Bgr });
    let shape = [image.height as i64, image.width as i64, channels as i64];
    Ok(vec![NDArray::from_slice(&pixels, &shape)?.to_context(ctx.context)?])
}

/// The order of the channels of a color image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelOrder {
    /// Red first.
    Rgb,
    /// Blue first, as in OpenCV.
    Bgr,
}

/// A decoded image of one (gray), two (gray, alpha), three (RGB) or four (RGBA) channels.
pub struct DecodedImage {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Number of channels.
    pub channels: usize,
    /// The samples, as (height, width, channels).
    pub samples: Vec<u8>,
}

impl DecodedImage {
    /// The samples converted to one channel, or to three in the given order.
    pub fn converted(&self, channels: usize, order: ChannelOrder) -> Vec<u8> {
        if channels == 1 {
            return self.to_gray();
        }
        let pixels = self.samples.chunks_exact(self.channels);
        let mut samples = memory::with_capacity(3 * pixels.len());
        for [r, g, b] in pixels.map(|p| if p.len() < 3 { [p[0]; 3] } else { [p[0], p[1], p[2]] }) {
            samples.extend_from_slice(&match order {
                ChannelOrder::Rgb => [r, g, b],
                ChannelOrder::Bgr => [b, g, r],
            });
        }
        samples
    }

    /// The samples converted to one channel.
    pub fn to_gray(&self) -> Vec<u8> {
        let pixels = self.samples.chunks_exact(self.channels);
        memory::collected(pixels.map(|p| if p.len() < 3 { p[0] } else { gray([p[0], p[1], p[2]]) }))
    }
}

/// The luma of a color (ITU-R BT.601), with weights of 14 bits.
fn gray([r, g, b]: [u8; 3]) -> u8 {
    ((4899 * u32::from(r) + 9617 * u32::from(g) + 1868 * u32::from(b) + (1 << 13)) >> 14) as u8
}

/// Decodes an image. With `gray`, JPEG and PNG images are decoded to one channel. As in OpenCV, the formats differ in the luma.
///
/// # Errors
/// Damaged data, a format other than JPEG, PNG and BMP, or too many pixels.
pub fn decode(data: &[u8], gray: bool) -> Result<DecodedImage> {
    match data {
        [0xff, 0xd8, ..] => jpeg(data, gray),
        [0x89, b'P', b'N', b'G', ..] => png(data, gray),
        [b'B', b'M', ..] => bmp(data),
        [] => Err(Error::Format("there is no image: the data is empty".into())),
        _ => Err(Error::Format("the data is not a JPEG, PNG or BMP image".into())),
    }
}

fn damaged(format: &str, e: impl std::fmt::Display) -> Error {
    Error::Format(format!("the {format} image is damaged: {e}"))
}

/// Checks the dimensions (width, height) and the memory that decoding needs.
fn check_size(format: &str, size: Option<(usize, usize)>) -> Result<(usize, usize)> {
    let (width, height) = size.ok_or_else(|| damaged(format, "it has no size"))?;
    let pixels = width.saturating_mul(height);
    if pixels == 0 || pixels > MAX_PIXELS {
        return Err(Error::Format(format!(
            "a {format} image of {width} x {height} pixels is refused: between 1 and {MAX_PIXELS} pixels are expected"
        )));
    }
    memory::ensure_available(pixels * DECODER_BYTES_PER_PIXEL)?;
    Ok((width, height))
}

/// The number of scans of a JPEG image: one in a baseline file, about ten in a progressive one.
fn num_scans(data: &[u8]) -> usize {
    const START_OF_SCAN: u8 = 0xDA;
    let (mut scans, mut offset) = (0, 2);
    // A segment is FF, a marker, and a length that includes its own two bytes. The data of a scan extends to the next marker.
    while let Some(&[prefix, marker, high, low]) = data.get(offset..offset + 4) {
        if prefix != 0xFF || matches!(marker, 0x00 | 0x01 | 0xD0..=0xD7 | 0xFF) {
            offset += 1;
            continue;
        }
        scans += usize::from(marker == START_OF_SCAN);
        offset += 2 + usize::from(u16::from_be_bytes([high, low])).max(2);
    }
    scans
}

/// The pixels per byte of a file that are decoded without question, however large the image is.
const PIXELS_PER_BYTE: usize = 1024;

/// Refuses JPEG images with too many scans for their number of bytes. A scan of a few bytes still visits all pixels, so a small
/// malicious file could keep the decoder busy for minutes.
fn check_scans(scans: usize, pixels: usize, bytes: usize) -> Result<()> {
    if scans.saturating_mul(pixels) > MAX_PIXELS + PIXELS_PER_BYTE * bytes {
        return Err(Error::Format(format!(
            "a JPEG image of {pixels} pixels in {scans} scans and {bytes} bytes is refused, because such files serve to keep programs \
             busy; save it as a baseline JPEG"
        )));
    }
    Ok(())
}

/// Refuses large JPEG and BMP images of few bytes. Two bits of JPEG encode at most 64 pixels and two bytes of BMP at most 255, but the
/// decoders also visit all pixels of an image whose data ends early or skips pixels.
fn check_density(format: &str, pixels: usize, bytes: usize) -> Result<()> {
    const ALWAYS_DECODED: usize = 1 << 24;
    if pixels > ALWAYS_DECODED + PIXELS_PER_BYTE * bytes {
        return Err(Error::Format(format!(
            "a {format} image of {pixels} pixels in {bytes} bytes is refused, because most of its data is missing; check that the file \
             is complete"
        )));
    }
    Ok(())
}

fn options() -> DecoderOptions {
    DecoderOptions::new_safe().set_strict_mode(true).set_max_width(MAX_PIXELS).set_max_height(MAX_PIXELS)
}

fn jpeg(data: &[u8], gray: bool) -> Result<DecodedImage> {
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(data), options());
    decoder.decode_headers().map_err(|e| damaged("JPEG", e))?;
    let (width, height) = check_size("JPEG", decoder.dimensions())?;
    check_scans(num_scans(data), width * height, data.len())?;
    check_density("JPEG", width * height, data.len())?;
    let input = decoder.input_colorspace();
    let to_luma = input == Some(ColorSpace::Luma) || gray && input == Some(ColorSpace::YCbCr);
    let (space, channels) = if to_luma { (ColorSpace::Luma, 1) } else { (ColorSpace::RGB, 3) };
    decoder.set_options(options().jpeg_set_out_colorspace(space));
    let samples = decoder.decode().map_err(|e| damaged("JPEG", e))?;
    check_samples("JPEG", DecodedImage { width, height, channels, samples })
}

fn png(data: &[u8], gray: bool) -> Result<DecodedImage> {
    let mut decoder = png::Decoder::new(std::io::Cursor::new(data));
    // Samples of 16 bits are converted to gray before they are truncated to 8 bits.
    let truncation = if gray { png::Transformations::IDENTITY } else { png::Transformations::STRIP_16 };
    decoder.set_transformations(png::Transformations::EXPAND | truncation);
    let mut reader = decoder.read_info().map_err(|e| damaged("PNG", e))?;
    let info = reader.info();
    let (width, height) = check_size("PNG", Some((info.width as usize, info.height as usize)))?;
    let size = reader.output_buffer_size().ok_or_else(|| damaged("PNG", "its size is unknown"))?;
    let mut samples = memory::filled(0, size);
    let frame = reader.next_frame(&mut samples).map_err(|e| damaged("PNG", e))?;
    samples.truncate(frame.buffer_size());
    let mut channels = frame.color_type.samples();
    if gray {
        let is_16_bit = frame.bit_depth == png::BitDepth::Sixteen;
        (samples, channels) = (png_gray(&samples, channels, is_16_bit), 1);
    }
    check_samples("PNG", DecodedImage { width, height, channels, samples })
}

/// The gray samples of a PNG image: the first channel, or the luma with the weights and the rounding of libpng.
fn png_gray(samples: &[u8], channels: usize, is_16_bit: bool) -> Vec<u8> {
    let luma = |[r, g, b]: [u64; 3], half: u64| (9797 * r + 19234 * g + 3737 * b + half) >> 15;
    if is_16_bit {
        let sample = |p: &[u8], i: usize| u64::from(u16::from_be_bytes([p[2 * i], p[2 * i + 1]]));
        memory::collected(samples.chunks_exact(2 * channels).map(|p| match channels {
            1 | 2 => p[0],
            _ => (luma([0, 1, 2].map(|i| sample(p, i)), 1 << 14) >> 8) as u8,
        }))
    } else {
        memory::collected(samples.chunks_exact(channels).map(|p| match channels {
            1 | 2 => p[0],
            _ => luma([0, 1, 2].map(|i| u64::from(p[i])), 0) as u8,
        }))
    }
}

fn bmp(data: &[u8]) -> Result<DecodedImage> {
    let mut decoder = zune_bmp::BmpDecoder::new_with_options(ZCursor::new(data), options());
    decoder.decode_headers().map_err(|e| damaged("BMP", format!("{e:?}")))?;
    let (width, height) = check_size("BMP", decoder.dimensions())?;
    check_density("BMP", width * height, data.len())?;
    check_rows(data, width, height)?;
    let channels = decoder.colorspace().map_or(0, |c| c.num_components());
    let samples = decoder.decode().map_err(|e| damaged("BMP", format!("{e:?}")))?;
    check_samples("BMP", DecodedImage { width, height, channels, samples })
}

/// Checks that a BMP image without run-length encoding has all its rows: the decoder does not notice that indices into a palette are
/// missing.
fn check_rows(data: &[u8], width: usize, height: usize) -> Result<()> {
    let field = |at: usize, len: usize| -> usize {
        let bytes = data.get(at..at + len).unwrap_or_default();
        bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
    };
    // The header of OS/2 has 12 bytes and no field for the compression.
    let (bits_per_pixel, compression) =
        if field(14, 4) == 12 { (field(24, 2), 0) } else { (field(28, 2), field(30, 4)) };
    const RUN_LENGTHS: [usize; 2] = [1, 2];
    if RUN_LENGTHS.contains(&compression) {
        return Ok(());
    }
    // Rows are padded to multiples of four bytes; the padding of the last one may be missing.
    let row_bits = width.saturating_mul(bits_per_pixel);
    let expected =
        row_bits.div_ceil(32).saturating_mul(4).saturating_mul(height - 1).saturating_add(row_bits.div_ceil(8));
    let given = data.len().saturating_sub(field(10, 4));
    if given < expected {
        return Err(damaged("BMP", format!("its pixels have {given} bytes, expected {expected}")));
    }
    Ok(())
}

/// Checks that the decoder produced all samples.
fn check_samples(format: &str, image: DecodedImage) -> Result<DecodedImage> {
    let expected = image.width * image.height * image.channels;
    if image.channels == 0 || image.samples.len() != expected {
        return Err(damaged(format, format!("it has {} samples, expected {expected}", image.samples.len())));
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, array};

    /// A BMP image of 3 x 2 pixels. BMP stores rows from bottom to top as (blue, green, red), padded to multiples of 4 bytes.
    fn image() -> Vec<u8> {
        let mut bytes = b"BM".to_vec();
        let rows = [[0u8, 0, 255, 0, 255, 0, 255, 0, 0, 0, 0, 0], [0, 0, 255, 0, 255, 0, 10, 20, 30, 0, 0, 0]];
        let size = 54 + 24u32;
        bytes.extend(size.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(54u32.to_le_bytes());
        bytes.extend(40u32.to_le_bytes());
        bytes.extend(3i32.to_le_bytes());
        bytes.extend(2i32.to_le_bytes());
        bytes.extend(1u16.to_le_bytes());
        bytes.extend(24u16.to_le_bytes());
        bytes.extend([0; 24]);
        rows.iter().for_each(|r| bytes.extend(r));
        bytes
    }

    fn decoded(data: &[u8], attrs: &[(&str, &str)]) -> Result<NDArray> {
        Case::new(&CV_DECODE, attrs).run1(&[array(data, &[data.len() as i64])])
    }

    #[test]
    fn bmp_decodes_to_color_and_gray() {
        let y = decoded(&image(), &[]).unwrap();
        assert_eq!(y.shape().dims(), [2, 3, 3]);
        let want = [255, 0, 0, 0, 255, 0, 30, 20, 10, 255, 0, 0, 0, 255, 0, 0, 0, 255];
        assert_eq!(y.to_vec::<u8>().unwrap(), want);
        let y = decoded(&image(), &[("flag", "0")]).unwrap();
        assert_eq!((y.shape().dims(), y.to_vec::<u8>().unwrap()), (&[2, 3, 1][..], vec![76, 150, 22, 76, 150, 29]));
        let y = decoded(&image(), &[("to_rgb", "False")]).unwrap();
        assert_eq!(y.to_vec::<u8>().unwrap()[..3], [0, 0, 255]);
    }

    #[test]
    fn png_decodes_without_alpha() {
        let mut data = Vec::new();
        let mut encoder = png::Encoder::new(&mut data, 2, 1);
        encoder.set_color(png::ColorType::Rgba);
        encoder.write_header().unwrap().write_image_data(&[1, 2, 3, 0, 4, 5, 6, 255]).unwrap();
        assert_eq!(decoded(&data, &[]).unwrap().to_vec::<u8>().unwrap(), [1, 2, 3, 4, 5, 6]);
        // 9797 * 4 + 19234 * 5 + 3737 * 6 = 157780, which is 4.8 times 2^15.
        assert_eq!(decoded(&data, &[("flag", "0")]).unwrap().to_vec::<u8>().unwrap(), [1, 4]);
        let e = decoded(&data[..data.len() - 20], &[]).unwrap_err().to_string();
        assert!(e.contains("the PNG image is damaged"), "{e}");
    }

    #[test]
    fn png_of_16_bits_is_converted_to_gray_before_it_is_truncated() {
        let mut data = Vec::new();
        let mut encoder = png::Encoder::new(&mut data, 1, 1);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Sixteen);
        encoder.write_header().unwrap().write_image_data(&[1, 255, 1, 255, 0, 255]).unwrap();
        assert_eq!(decoded(&data, &[]).unwrap().to_vec::<u8>().unwrap(), [1, 1, 0]);
        assert_eq!(decoded(&data, &[("flag", "0")]).unwrap().to_vec::<u8>().unwrap(), [1]);
    }

    #[test]
    fn damaged_data_is_an_error() {
        for data in [&b"nonsense"[..], &[0xff, 0xd8, 0xff, 0xe0, 0, 16], &image()[..30], &image()[..60]] {
            let e = decoded(data, &[]).unwrap_err().to_string();
            assert!(e.contains("damaged") || e.contains("not a JPEG, PNG or BMP image"), "{e}");
        }
        let mut huge = image();
        huge[18..26].copy_from_slice(&[255, 255, 255, 127, 255, 255, 255, 127]);
        assert!(decoded(&huge, &[]).is_err());
        let e = Case::new(&CV_READ, &[("filename", "/does/not/exist.png")]).run1(&[]).unwrap_err().to_string();
        assert!(e.contains("exist.png"), "{e}");
    }

    #[test]
    fn images_with_a_palette_need_all_rows() {
        let mut bytes = [&image()[..54], &[10, 20, 30, 0, 40, 50, 60, 0], &[1, 1, 1, 0, 0, 0, 0]].concat();
        bytes[10] = 54 + 8;
        bytes[28] = 8;
        bytes[46] = 2;
        let y = decoded(&bytes, &[]).unwrap();
        assert_eq!(y.to_vec::<u8>().unwrap(), [[30, 20, 10].repeat(3), [60, 50, 40].repeat(3)].concat());
        let e = decoded(&bytes[..bytes.len() - 1], &[]).unwrap_err().to_string();
        assert!(e.contains("its pixels have 6 bytes, expected 7"), "{e}");
    }

    #[test]
    fn scans_are_counted_and_limited() {
        let segment = |marker: u8, body: &[u8]| [&[0xff, marker, 0, body.len() as u8 + 2], body].concat();
        // The application segment contains the bytes of a start of scan. The data of the first scan contains a stuffed byte and a restart
        // marker.
        let scans = [segment(0xda, &[1]), vec![7, 0xff, 0, 0xff, 0xd1, 9], segment(0xda, &[2]), vec![1, 2, 0xff, 0xd9]];
        let data = [vec![0xff, 0xd8], segment(0xe1, &[0xff, 0xda, 0, 2]), scans.concat()].concat();
        assert_eq!(num_scans(&data), 2);
        assert_eq!(num_scans(&[0xff, 0xd8]), 0);
        assert_eq!(check_scans(10, 12_000_000, 2_000_000), Ok(()));
        let e = check_scans(10, 120_000_000, 300_000).unwrap_err().to_string();
        assert!(e.contains("120000000 pixels in 10 scans and 300000 bytes"), "{e}");
    }

    #[test]
    fn large_images_of_few_bytes_are_refused() {
        let palette = [[10, 20, 30, 0], [40, 50, 60, 0]].concat();
        let encoded = |width: i32, height: i32, runs: &[u8]| {
            let mut bytes = image()[..54].to_vec();
            bytes[10] = 54 + 8;
            bytes[18..22].copy_from_slice(&width.to_le_bytes());
            bytes[22..26].copy_from_slice(&height.to_le_bytes());
            bytes[28] = 8;
            bytes[30] = 1;
            bytes[46] = 2;
            [&bytes, &palette[..], runs].concat()
        };
        let y = decoded(&encoded(3, 2, &[3, 1, 0, 0, 3, 0, 0, 1]), &[]).unwrap();
        assert_eq!(y.to_vec::<u8>().unwrap(), [[30, 20, 10].repeat(3), [60, 50, 40].repeat(3)].concat());
        let e = decoded(&encoded(1 << 13, 1 << 14, &[3, 1, 0, 1]), &[]).unwrap_err().to_string();
        assert!(e.contains("a BMP image of 134217728 pixels in 66 bytes is refused"), "{e}");
        assert_eq!(check_density("JPEG", 48_000_000, 100_000), Ok(()));
        assert!(check_density("JPEG", 48_000_000, 1000).is_err());
    }
}
