//! The parameters of the iterators over packed pictures, in groups that they share.

use std::fmt::Debug;

use ferromx_core::error::{Error, Result};
use ferromx_core::params::{Attrs, FieldInfo, NumDType, OpParams, Tuple, refuse_unknown};
use ferromx_core::shape::Shape;
use ferromx_core::{param_enum, params};

use crate::io::mnist::IterContext;

params! {
    /// Where records come from.
    pub struct SourceParam {
        /// Text file with the labels of the records, one record a line: its number, the labels, the picture's path, separated by
        /// tabs. Without one the labels are those in the records.
        path_imglist: String = (String::new());
        /// RecordIO file with the pictures, or a directory of such files.
        path_imgrec: String = (String::new());
        /// Index of the RecordIO file: a record's key and its position, one record a line. It saves reading the file through once.
        path_imgidx: String = (String::new());
        /// The sequence of augmentations; `aug_default` is the only one.
        aug_seq: String = (String::from("aug_default"));
        /// Labels of a picture.
        label_width: i32 = 1, where 1..=i32::MAX;
        /// Shape of one picture: (channels, height, width) with 1, 3 or 4 channels.
        data_shape: Shape = required;
        /// Threads that decode pictures.
        preprocess_threads: i32 = 4, where 1..=i32::MAX;
        /// Whether to write what is read to the log.
        verbose: bool = true;
        /// Into how many parts the data is divided for distributed training.
        num_parts: i32 = 1, where 1..=i32::MAX;
        /// Which of the parts to read.
        part_index: i32 = 0, where 0..=i32::MAX;
        /// Accepted for compatibility: batches are in host memory.
        device_id: i32 = 0;
        /// Accepted for compatibility: all records of the part are shuffled, whatever their size.
        shuffle_chunk_size: u64 = 0;
        /// A second seed of the order, added to `seed`.
        shuffle_chunk_seed: i32 = 0;
        /// Seed of the augmentations; `seed` if None.
        seed_aug: Option<i32> = None;
        /// Whether each pass has another order.
        shuffle: bool = false;
        /// Seed of the order.
        seed: i32 = 0;
    }
}

params! {
    /// Where records of pictures with objects come from.
    pub struct DetectionSourceParam {
        /// Text file with the labels of the records; see ImageRecordIter.
        path_imglist: String = (String::new());
        /// RecordIO file with the pictures, or a directory of such files.
        path_imgrec: String = (String::from("./data/imgrec.rec"));
        /// The sequence of augmentations; `det_aug_default` is the only one.
        aug_seq: String = (String::from("det_aug_default"));
        /// Labels of a picture; -1 if their number differs from picture to picture.
        label_width: i32 = (-1), where -1..=i32::MAX;
        /// Shape of one picture: (channels, height, width) with 1, 3 or 4 channels.
        data_shape: Shape = required;
        /// Threads that decode pictures.
        preprocess_threads: i32 = 4, where 1..=i32::MAX;
        /// Whether to write what is read to the log.
        verbose: bool = true;
        /// Into how many parts the data is divided for distributed training.
        num_parts: i32 = 1, where 1..=i32::MAX;
        /// Which of the parts to read.
        part_index: i32 = 0, where 0..=i32::MAX;
        /// Accepted for compatibility: all records of the part are shuffled, whatever their size.
        shuffle_chunk_size: u64 = 0;
        /// A second seed of the order, added to `seed`.
        shuffle_chunk_seed: i32 = 0;
        /// To how many labels each picture's are filled up; 0 takes the most that a picture has.
        label_pad_width: i32 = 0, where 0..=i32::MAX;
        /// What labels are filled up with.
        label_pad_value: f32 = (-1.0);
        /// Whether each pass has another order.
        shuffle: bool = false;
        /// Seed of the order and of the augmentations.
        seed: i32 = 0;
    }
}

params! {
    /// How batches are made.
    pub struct BatchParam {
        /// Pictures in a batch.
        batch_size: u32 = required, where 1..=u32::MAX;
        /// Whether the next pass goes on after the pictures that filled up the last batch; else it begins with the first.
        round_batch: bool = true;
        /// How many batches are made ahead, by a thread of their own.
        prefetch_buffer: u64 = 4, where 0..=1024;
        /// Accepted for compatibility: batches are in host memory.
        ctx: IterContext = (IterContext::Gpu);
        /// Type of the pictures; None is the iterator's own. ImageRecordIter takes float32, uint8 and int8, the others their own.
        dtype: Option<NumDType> = None;
    }
}

params! {
    /// What is done with each picture.
    pub struct AugmentParam {
        /// Scales the shorter side to this many pixels before anything else; -1 leaves it.
        resize: i32 = (-1), where -1..=1 << 16;
        /// Whether the part that is cut out lies anywhere; else in the middle.
        rand_crop: bool = false;
        /// Whether a part of random size and shape is cut out and scaled, as is usual for ImageNet.
        random_resized_crop: bool = false;
        /// How much the ratio of width to height of a random part may differ from 1; without random_resized_crop, by how much the
        /// picture's own is changed.
        max_aspect_ratio: f32 = 0.0;
        /// With this, max_aspect_ratio and this are the bounds of the ratio.
        min_aspect_ratio: Option<f32> = None;
        /// Largest side of a square that is cut out and scaled; -1 cuts out data_shape.
        max_crop_size: i32 = (-1), where -1..=1 << 16;
        /// Smallest side of a square that is cut out and scaled; -1 cuts out data_shape.
        min_crop_size: i32 = (-1), where -1..=1 << 16;
        /// Largest area of a random part, of the whole. With random_resized_crop only.
        max_random_area: f32 = 1.0, where 0.0..=1.0;
        /// Smallest area of a random part, of the whole. With random_resized_crop only.
        min_random_area: f32 = 1.0, where 0.0..=1.0;
        /// How much the factor of the brightness may differ from 1.
        brightness: f32 = 0.0, where 0.0..=f32::MAX;
        /// How much the factor of the contrast may differ from 1.
        contrast: f32 = 0.0, where 0.0..=f32::MAX;
        /// How much the factor of the saturation may differ from 1.
        saturation: f32 = 0.0, where 0.0..=f32::MAX;
        /// Deviation of the weights of the principal components of colour that are added.
        pca_noise: f32 = 0.0, where 0.0..=f32::MAX;
        /// Samples of the pixels that `pad` adds.
        fill_value: i32 = 255, where 0..=255;
        /// How pictures are scaled: 0 nearest pixel, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos, 9 bicubic where they become larger and
        /// area where smaller, 10 one of the first five at random.
        inter_method: i32 = 1, where 0..=10;
        /// Pixels added on each side before the part is cut out.
        pad: i32 = 0, where 0..=1 << 16;
    }
}

params! {
    /// What is done with objects and their picture.
    pub struct DetectionAugmentParam {
        /// Scales the shorter side to this many pixels before anything else; -1 leaves it.
        resize: i32 = (-1), where -1..=1 << 16;
        /// Probability of putting the picture in a random place of a larger one.
        rand_pad_prob: f32 = 0.0, where 0.0..=1.0;
        /// Largest side of the larger picture, of that of the picture.
        max_pad_scale: f32 = 1.0, where 1.0..=64.0;
        /// Probability of mirroring the picture.
        rand_mirror_prob: f32 = 0.0, where 0.0..=1.0;
        /// Samples of pixels that are added.
        fill_value: i32 = 127, where 0..=255;
        /// How pictures are scaled; see ImageRecordIter.
        inter_method: i32 = 1, where 0..=10;
        /// How the picture gets the size of data_shape: `force` changes its proportions, `fit` scales it as large as it can be,
        /// `shrink` scales it down where it is too large; the rest of the batch is 0.
        resize_mode: ResizeMode = (ResizeMode::Force);
    }
}

param_enum! {
    /// How a picture gets the size of the batch.
    pub enum ResizeMode { Fit = "fit", Force = "force", Shrink = "shrink" }
}

params! {
    /// How pictures are turned, sheared and scaled at random, and their colours changed.
    pub struct WarpParam {
        /// Largest angle by which a picture is turned, in degrees, either way.
        max_rotate_angle: i32 = 0, where 0..=360;
        /// Largest ratio by which rows are moved against each other, either way.
        max_shear_ratio: f32 = 0.0, where 0.0..=100.0;
        /// Largest factor of the size.
        max_random_scale: f32 = 1.0, where 0.0..=1000.0;
        /// Smallest factor of the size.
        min_random_scale: f32 = 1.0, where 0.0..=1000.0;
        /// Largest width and height of a picture that is turned or scaled.
        max_img_size: f32 = 1e10, where 0.0..=f32::MAX;
        /// Smallest width and height of a picture that is turned or scaled.
        min_img_size: f32 = 0.0, where 0.0..=f32::MAX;
        /// Largest change of the hue, of 180 for the whole circle.
        random_h: i32 = 0, where 0..=180;
        /// Largest change of the saturation, of 255.
        random_s: i32 = 0, where 0..=255;
        /// Largest change of the lightness, of 255.
        random_l: i32 = 0, where 0..=255;
        /// Angle by which every picture is turned, in degrees; max_rotate_angle counts if it is not positive.
        rotate: i32 = (-1), where -1..=360;
    }
}

params! {
    /// How the colours of pictures with objects change at random.
    pub struct DetectionColorParam {
        /// Largest change of the hue, of 180 for the whole circle.
        max_random_hue: i32 = 0, where 0..=180;
        /// Probability of changing the hue.
        random_hue_prob: f32 = 0.0, where 0.0..=1.0;
        /// Largest change of the saturation, of 255.
        max_random_saturation: i32 = 0, where 0..=255;
        /// Probability of changing the saturation.
        random_saturation_prob: f32 = 0.0, where 0.0..=1.0;
        /// Largest change of the lightness, of 255.
        max_random_illumination: i32 = 0, where 0..=255;
        /// Probability of changing the lightness.
        random_illumination_prob: f32 = 0.0, where 0.0..=1.0;
        /// How much the factor of the samples may differ from 1.
        max_random_contrast: f32 = 0.0, where 0.0..=1.0;
        /// Probability of changing the contrast.
        random_contrast_prob: f32 = 0.0, where 0.0..=1.0;
    }
}

params! {
    /// Which random parts are cut out of pictures with objects: one number for every sampler, or one for all.
    pub struct DetectionCropParam {
        /// Probability of cutting a part out.
        rand_crop_prob: f32 = 0.0, where 0.0..=1.0;
        /// Smallest side of a square of the part's area, of that of the picture.
        min_crop_scales: Tuple<f32> = (Tuple(vec![0.0]));
        /// Largest side of a square of the part's area.
        max_crop_scales: Tuple<f32> = (Tuple(vec![1.0]));
        /// Smallest ratio of width to height, in pixels.
        min_crop_aspect_ratios: Tuple<f32> = (Tuple(vec![1.0]));
        /// Largest ratio of width to height, in pixels.
        max_crop_aspect_ratios: Tuple<f32> = (Tuple(vec![1.0]));
        /// Smallest share of what the part and an object cover together that both cover.
        min_crop_overlaps: Tuple<f32> = (Tuple(vec![0.0]));
        /// Largest share of what the part and an object cover together that both cover.
        max_crop_overlaps: Tuple<f32> = (Tuple(vec![1.0]));
        /// Smallest share of the part that an object covers.
        min_crop_sample_coverages: Tuple<f32> = (Tuple(vec![0.0]));
        /// Largest share of the part that an object covers.
        max_crop_sample_coverages: Tuple<f32> = (Tuple(vec![1.0]));
        /// Smallest share of an object that the part covers.
        min_crop_object_coverages: Tuple<f32> = (Tuple(vec![0.0]));
        /// Largest share of an object that the part covers.
        max_crop_object_coverages: Tuple<f32> = (Tuple(vec![1.0]));
        /// Number of samplers, which are tried in a random order.
        num_crop_sampler: i32 = 1, where 0..=1000;
        /// Which objects are left out: `center` those whose middle is outside of the part, `overlap` those of which the part covers
        /// too little.
        crop_emit_mode: CropEmitMode = (CropEmitMode::Center);
        /// What share of an object the part has to cover with `overlap`.
        emit_overlap_thresh: f32 = 0.3, where 0.0..=1.0;
        /// How many parts a sampler tries.
        max_crop_trials: Shape = (Shape::new(&[25]));
    }
}

param_enum! {
    /// Which objects are left out of a part of a picture.
    pub enum CropEmitMode { Center = "center", Overlap = "overlap" }
}

params! {
    /// Whether pictures are mirrored.
    pub struct MirrorParam {
        /// Whether every picture is mirrored.
        mirror: bool = false;
        /// Whether every second picture, at random, is mirrored.
        rand_mirror: bool = false;
    }
}

params! {
    /// How samples become numbers: ((x - mean) * contrast + illumination) * scale / std.
    pub struct MeanParam {
        /// File of arrays with a mean for each sample, of shape data_shape; it takes the place of the means of channels.
        mean_img: String = (String::new());
        /// Mean of red, or of gray.
        mean_r: f32 = 0.0;
        /// Mean of green.
        mean_g: f32 = 0.0;
        /// Mean of blue.
        mean_b: f32 = 0.0;
        /// Mean of alpha.
        mean_a: f32 = 0.0;
    }
}

params! {
    /// Divisors of samples.
    pub struct StdParam {
        /// Divisor of red, or of gray.
        std_r: f32 = 1.0;
        /// Divisor of green.
        std_g: f32 = 1.0;
        /// Divisor of blue.
        std_b: f32 = 1.0;
        /// Divisor of alpha.
        std_a: f32 = 1.0;
        /// Factor of all samples.
        scale: f32 = 1.0;
    }
}

params! {
    /// [`StdParam`] where 0 stands for 1.
    pub struct DetectionStdParam {
        /// Divisor of red, or of gray; 0 is 1.
        std_r: f32 = 0.0;
        /// Divisor of green; 0 is 1.
        std_g: f32 = 0.0;
        /// Divisor of blue; 0 is 1.
        std_b: f32 = 0.0;
        /// Divisor of alpha; 0 is 1.
        std_a: f32 = 0.0;
        /// Factor of all samples.
        scale: f32 = 1.0;
    }
}

params! {
    /// Random changes of samples.
    pub struct JitterParam {
        /// How much the factor of a picture's samples may differ from 1.
        max_random_contrast: f32 = 0.0, where 0.0..=f32::MAX;
        /// Largest number added to a picture's samples, or taken from them.
        max_random_illumination: f32 = 0.0, where 0.0..=f32::MAX;
    }
}

/// The attributes that belong to one group of parameters.
pub(super) fn group<P: OpParams>(attrs: &Attrs) -> Result<P> {
    let fields = P::fields();
    let own = attrs.iter().filter(|(key, _)| fields.iter().any(|f| f.name == *key));
    P::parse(&own.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// Refuses every parameter of a group that differs from its default.
pub(super) fn refuse<P: OpParams + Debug>(attrs: &Attrs) -> Result<()> {
    let default = format!("{:?}", P::parse(&Attrs::new())?);
    for field in P::fields() {
        let Some(text) = attrs.get(field.name) else { continue };
        let given = P::parse(&Attrs::from([(field.name.to_string(), text.clone())]))?;
        if format!("{given:?}") != default {
            return Err(Error::Unsupported(format!(
                "{}={text} is not possible here: leave it out ({})",
                field.name, field.type_string
            )));
        }
    }
    Ok(())
}

macro_rules! iterators {
    ($($(#[$meta:meta])* $fields:ident, $check:ident = [$($group:ty),*];)*) => {$(
        $(#[$meta])*
        pub(in crate::io) fn $fields() -> Vec<FieldInfo> {
            [$(<$group>::fields()),*].concat()
        }

        /// Refuses parameters that are unknown.
        pub(super) fn $check(attrs: &Attrs) -> Result<()> {
            let fields = $fields();
            refuse_unknown(attrs, &fields.iter().map(|f| f.name).collect::<Vec<_>>())
        }
    )*};
}
iterators! {
    /// The parameters of `ImageRecordIter`.
    image_fields, check_image =
        [SourceParam, BatchParam, AugmentParam, MirrorParam, MeanParam, StdParam, JitterParam, WarpParam];
    /// The parameters of the iterators over samples as they are.
    bytes_fields, check_bytes = [SourceParam, BatchParam, AugmentParam, WarpParam];
    /// The parameters of `ImageDetRecordIter`.
    detection_fields, check_detection =
        [DetectionSourceParam, BatchParam, DetectionAugmentParam, DetectionCropParam, DetectionColorParam, MeanParam, DetectionStdParam];
}
