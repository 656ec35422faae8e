//! Parameters of the iterators over packed images, in groups that several iterators share.

use ferromx_core::error::Result;
use ferromx_core::params::{Attrs, FieldInfo, NumDType, OpParams, Tuple, refuse_unknown};
use ferromx_core::shape::Shape;
use ferromx_core::{param_enum, params};

use crate::io::mnist::IterContext;

params! {
    /// Source of the records.
    pub struct SourceParam {
        /// Text file with the labels, one record per line: image id, labels and image path, separated by tabs. If empty, the labels
        /// come from the records.
        path_imglist: String = (String::new());
        /// RecordIO file with the images, or a directory of such files.
        path_imgrec: String = (String::new());
        /// Index of the RecordIO file: key and byte offset, one record per line. Without it, the file is scanned once.
        path_imgidx: String = (String::new());
        /// The sequence of augmentations; `aug_default` is the only one.
        aug_seq: String = (String::from("aug_default"));
        /// Number of labels per image.
        label_width: i32 = 1, where 1..=i32::MAX;
        /// Shape of one image: (channels, height, width) with 1, 3 or 4 channels.
        data_shape: Shape = required;
        /// Number of threads that decode images.
        preprocess_threads: i32 = 4, where 1..=i32::MAX;
        /// Whether to log the number of records.
        verbose: bool = true;
        /// Number of parts into which the data is divided for distributed training.
        num_parts: i32 = 1, where 1..=i32::MAX;
        /// Index of the part to read.
        part_index: i32 = 0, where 0..=i32::MAX;
        /// Accepted for compatibility: batches are in CPU memory.
        device_id: i32 = 0;
        /// Accepted for compatibility: all records of the part are shuffled together.
        shuffle_chunk_size: u64 = 0;
        /// Second seed of the order, combined with `seed`.
        shuffle_chunk_seed: i32 = 0;
        /// Seed of the augmentation; `seed` if None.
        seed_aug: Option<i32> = None;
        /// Whether to shuffle the records in every epoch.
        shuffle: bool = false;
        /// Seed of the order.
        seed: i32 = 0;
    }
}

params! {
    /// Source of the records of `ImageDetRecordIter`.
    pub struct DetectionSourceParam {
        /// Text file with the labels of the records; see ImageRecordIter.
        path_imglist: String = (String::new());
        /// RecordIO file with the images, or a directory of such files.
        path_imgrec: String = (String::from("./data/imgrec.rec"));
        /// The sequence of augmentations; `det_aug_default` is the only one.
        aug_seq: String = (String::from("det_aug_default"));
        /// Number of labels per image; -1 if it varies.
        label_width: i32 = (-1), where -1..=i32::MAX;
        /// Shape of one image: (channels, height, width) with 1, 3 or 4 channels.
        data_shape: Shape = required;
        /// Number of threads that decode images.
        preprocess_threads: i32 = 4, where 1..=i32::MAX;
        /// Whether to log the number of records.
        verbose: bool = true;
        /// Number of parts into which the data is divided for distributed training.
        num_parts: i32 = 1, where 1..=i32::MAX;
        /// Index of the part to read.
        part_index: i32 = 0, where 0..=i32::MAX;
        /// Accepted for compatibility: all records of the part are shuffled together.
        shuffle_chunk_size: u64 = 0;
        /// Second seed of the order, combined with `seed`.
        shuffle_chunk_seed: i32 = 0;
        /// Length to which the labels of an image are padded; 0 takes the largest number of labels.
        label_pad_width: i32 = 0, where 0..=i32::MAX;
        /// Value of the label padding.
        label_pad_value: f32 = (-1.0);
        /// Whether to shuffle the records in every epoch.
        shuffle: bool = false;
        /// Seed of the order and of the augmentation.
        seed: i32 = 0;
    }
}

params! {
    /// How batches are made.
    pub struct BatchParam {
        /// Number of images in a batch.
        batch_size: u32 = required, where 1..=u32::MAX;
        /// Images from the start fill up the last batch. If true, the next epoch skips them; otherwise it begins at the start.
        round_batch: bool = true;
        /// Number of batches to prefetch in a background thread.
        prefetch_buffer: u64 = 4, where 0..=1024;
        /// Accepted for compatibility: batches are in CPU memory.
        ctx: IterContext = (IterContext::Gpu);
        /// Type of the data. ImageRecordIter supports float32 (the default), uint8 and int8, the other iterators only their default.
        dtype: Option<NumDType> = None;
    }
}

params! {
    /// Augmentation of labeled images.
    pub struct AugmentParam {
        /// First resizes the shorter side to this many pixels; -1 keeps it.
        resize: i32 = (-1), where -1..=1 << 16;
        /// Whether to crop at a random offset; otherwise crops are centered.
        rand_crop: bool = false;
        /// Whether to crop a random area with a random aspect ratio and resize it, as is usual for ImageNet.
        random_resized_crop: bool = false;
        /// Largest deviation of the random aspect ratio (width to height) from 1. It applies to the crop with random_resized_crop, and
        /// otherwise stretches the image.
        max_aspect_ratio: f32 = 0.0;
        /// Lower bound of the random aspect ratio; if given, max_aspect_ratio is the upper bound.
        min_aspect_ratio: Option<f32> = None;
        /// Largest side of a square crop that is resized to data_shape; -1 crops to data_shape.
        max_crop_size: i32 = (-1), where -1..=1 << 16;
        /// Smallest side of a square crop that is resized to data_shape; -1 crops to data_shape.
        min_crop_size: i32 = (-1), where -1..=1 << 16;
        /// Largest area of a random crop, as a fraction of the image. With random_resized_crop only.
        max_random_area: f32 = 1.0, where 0.0..=1.0;
        /// Smallest area of a random crop, as a fraction of the image. With random_resized_crop only.
        min_random_area: f32 = 1.0, where 0.0..=1.0;
        /// Largest deviation of the random brightness scale from 1.
        brightness: f32 = 0.0, where 0.0..=f32::MAX;
        /// Largest deviation of the random contrast scale from 1.
        contrast: f32 = 0.0, where 0.0..=f32::MAX;
        /// Largest deviation of the random saturation scale from 1.
        saturation: f32 = 0.0, where 0.0..=f32::MAX;
        /// Standard deviation of the PCA color noise.
        pca_noise: f32 = 0.0, where 0.0..=f32::MAX;
        /// Value of the pixels that padding, rotation and shear add.
        fill_value: i32 = 255, where 0..=255;
        /// Interpolation: 0 nearest neighbor, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos, 9 bicubic to enlarge and area to shrink, 10 a
        /// random one of the first five.
        inter_method: i32 = 1, where 0..=10;
        /// Pixels added on each side before the crop.
        pad: i32 = 0, where 0..=1 << 16;
    }
}

params! {
    /// Augmentation of images with bounding boxes.
    pub struct DetectionAugmentParam {
        /// First resizes the shorter side to this many pixels; -1 keeps it.
        resize: i32 = (-1), where -1..=1 << 16;
        /// Probability of padding the image at a random offset.
        rand_pad_prob: f32 = 0.0, where 0.0..=1.0;
        /// Largest ratio of the padded size to the image size.
        max_pad_scale: f32 = 1.0, where 1.0..=64.0;
        /// Probability of mirroring the image.
        rand_mirror_prob: f32 = 0.0, where 0.0..=1.0;
        /// Value of the pixels that padding adds.
        fill_value: i32 = 127, where 0..=255;
        /// Interpolation; see ImageRecordIter.
        inter_method: i32 = 1, where 0..=10;
        /// How to resize the image to data_shape: `force` changes the aspect ratio, `fit` keeps it, `shrink` keeps it and never enlarges.
        /// The rest is 0.
        resize_mode: ResizeMode = (ResizeMode::Force);
    }
}

param_enum! {
    /// How to resize an image to the size of the batch.
    pub enum ResizeMode { Fit = "fit", Force = "force", Shrink = "shrink" }
}

params! {
    /// Random rotation, shear, scale and color.
    pub struct WarpParam {
        /// Largest random rotation in degrees, in either direction.
        max_rotate_angle: i32 = 0, where 0..=360;
        /// Largest random shear, in either direction.
        max_shear_ratio: f32 = 0.0, where 0.0..=100.0;
        /// Largest random scale.
        max_random_scale: f32 = 1.0, where 0.0..=1000.0;
        /// Smallest random scale.
        min_random_scale: f32 = 1.0, where 0.0..=1000.0;
        /// Largest width and height after random scaling, in pixels.
        max_img_size: f32 = 1e10, where 0.0..=f32::MAX;
        /// Smallest width and height after random scaling, in pixels.
        min_img_size: f32 = 0.0, where 0.0..=f32::MAX;
        /// Largest random shift of the hue, where 180 is the full circle.
        random_h: i32 = 0, where 0..=180;
        /// Largest random shift of the saturation, which ranges from 0 to 255.
        random_s: i32 = 0, where 0..=255;
        /// Largest random shift of the lightness, which ranges from 0 to 255.
        random_l: i32 = 0, where 0..=255;
        /// Fixed rotation of every image in degrees, if positive; otherwise max_rotate_angle applies.
        rotate: i32 = (-1), where -1..=360;
    }
}

params! {
    /// Color jitter of `ImageDetRecordIter`.
    pub struct DetectionColorParam {
        /// Largest random shift of the hue, where 180 is the full circle.
        max_random_hue: i32 = 0, where 0..=180;
        /// Probability of shifting the hue.
        random_hue_prob: f32 = 0.0, where 0.0..=1.0;
        /// Largest random shift of the saturation, which ranges from 0 to 255.
        max_random_saturation: i32 = 0, where 0..=255;
        /// Probability of shifting the saturation.
        random_saturation_prob: f32 = 0.0, where 0.0..=1.0;
        /// Largest random shift of the lightness, which ranges from 0 to 255.
        max_random_illumination: i32 = 0, where 0..=255;
        /// Probability of shifting the lightness.
        random_illumination_prob: f32 = 0.0, where 0.0..=1.0;
        /// Largest deviation of the random contrast scale from 1.
        max_random_contrast: f32 = 0.0, where 0.0..=1.0;
        /// Probability of changing the contrast.
        random_contrast_prob: f32 = 0.0, where 0.0..=1.0;
    }
}

params! {
    /// Random crops of `ImageDetRecordIter`. Lists have one value per sampler, or one for all samplers.
    pub struct DetectionCropParam {
        /// Probability of cropping.
        rand_crop_prob: f32 = 0.0, where 0.0..=1.0;
        /// Smallest scale of a crop: the square root of its area as a fraction of the image.
        min_crop_scales: Tuple<f32> = (Tuple(vec![0.0]));
        /// Largest scale of a crop: the square root of its area as a fraction of the image.
        max_crop_scales: Tuple<f32> = (Tuple(vec![1.0]));
        /// Smallest aspect ratio (width to height) of a crop.
        min_crop_aspect_ratios: Tuple<f32> = (Tuple(vec![1.0]));
        /// Largest aspect ratio (width to height) of a crop.
        max_crop_aspect_ratios: Tuple<f32> = (Tuple(vec![1.0]));
        /// Smallest intersection over union of crop and object.
        min_crop_overlaps: Tuple<f32> = (Tuple(vec![0.0]));
        /// Largest intersection over union of crop and object.
        max_crop_overlaps: Tuple<f32> = (Tuple(vec![1.0]));
        /// Smallest fraction of the crop that an object covers.
        min_crop_sample_coverages: Tuple<f32> = (Tuple(vec![0.0]));
        /// Largest fraction of the crop that an object covers.
        max_crop_sample_coverages: Tuple<f32> = (Tuple(vec![1.0]));
        /// Smallest fraction of an object that the crop covers.
        min_crop_object_coverages: Tuple<f32> = (Tuple(vec![0.0]));
        /// Largest fraction of an object that the crop covers.
        max_crop_object_coverages: Tuple<f32> = (Tuple(vec![1.0]));
        /// Number of samplers; they are tried in random order.
        num_crop_sampler: i32 = 1, where 0..=1000;
        /// Which objects are dropped: `center` drops those whose center is outside of the crop, `overlap` those of which the crop covers
        /// at most emit_overlap_thresh.
        crop_emit_mode: CropEmitMode = (CropEmitMode::Center);
        /// Fraction of an object that the crop must cover to keep it with `overlap`.
        emit_overlap_thresh: f32 = 0.3, where 0.0..=1.0;
        /// Number of crops that each sampler tries.
        max_crop_trials: Shape = (Shape::new(&[25]));
    }
}

param_enum! {
    /// Which objects a crop drops.
    pub enum CropEmitMode { Center = "center", Overlap = "overlap" }
}

params! {
    /// Mirroring.
    pub struct MirrorParam {
        /// Whether to mirror every image.
        mirror: bool = false;
        /// Whether to mirror images with probability 0.5.
        rand_mirror: bool = false;
    }
}

params! {
    /// Means for normalization: ((x - mean) * contrast + illumination) * scale / std. Samples of type int8 are x - round(mean), saturated;
    /// those of type uint8 are not normalized.
    pub struct MeanParam {
        /// NDArray file with the mean image, of shape data_shape. It overrides the channel means. If the file does not exist, it is
        /// created: the mean of all images of the file or part, augmented but not normalized.
        mean_img: String = (String::new());
        /// Mean of red, or of gray; rounded for int8, without effect on uint8.
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
    /// Divisors and scale for normalization to float32.
    pub struct StdParam {
        /// Divisor of red, or of gray, for float32.
        std_r: f32 = 1.0;
        /// Divisor of green.
        std_g: f32 = 1.0;
        /// Divisor of blue.
        std_b: f32 = 1.0;
        /// Divisor of alpha.
        std_a: f32 = 1.0;
        /// Scale of the normalized samples of type float32.
        scale: f32 = 1.0;
    }
}

params! {
    /// [`StdParam`] of `ImageDetRecordIter`, where 0 means 1.
    pub struct DetectionStdParam {
        /// Divisor of red, or of gray; 0 means 1.
        std_r: f32 = 0.0;
        /// Divisor of green; 0 means 1.
        std_g: f32 = 0.0;
        /// Divisor of blue; 0 means 1.
        std_b: f32 = 0.0;
        /// Divisor of alpha; 0 means 1.
        std_a: f32 = 0.0;
        /// Scale of the normalized samples.
        scale: f32 = 1.0;
    }
}

params! {
    /// Random contrast and illumination.
    pub struct JitterParam {
        /// Largest deviation of the random contrast scale from 1.
        max_random_contrast: f32 = 0.0, where 0.0..=f32::MAX;
        /// Largest random offset that is added to or subtracted from the samples of an image.
        max_random_illumination: f32 = 0.0, where 0.0..=f32::MAX;
    }
}

/// Parses the attributes that belong to one group of parameters.
pub(super) fn parse_group<P: OpParams>(attrs: &Attrs) -> Result<P> {
    let fields = P::fields();
    let members = attrs.iter().filter(|(key, _)| fields.iter().any(|f| f.name == *key));
    P::parse(&members.map(|(key, value)| (key.clone(), value.clone())).collect())
}

macro_rules! iterators {
    ($($(#[$meta:meta])* $fields:ident, $check:ident = [$($group:ty),*];)*) => {$(
        $(#[$meta])*
        pub(in crate::io) fn $fields() -> Vec<FieldInfo> {
            [$(<$group>::fields()),*].concat()
        }

        /// Rejects unknown parameters.
        pub(super) fn $check(attrs: &Attrs) -> Result<()> {
            let fields = $fields();
            refuse_unknown(attrs, &fields.iter().map(|f| f.name).collect::<Vec<_>>())
        }
    )*};
}
iterators! {
    /// The parameters of `ImageRecordIter` and its variants.
    image_fields, check_image =
        [SourceParam, BatchParam, AugmentParam, MirrorParam, MeanParam, StdParam, JitterParam, WarpParam];
    /// The parameters of `ImageDetRecordIter`.
    detection_fields, check_detection =
        [DetectionSourceParam, BatchParam, DetectionAugmentParam, DetectionCropParam, DetectionColorParam, MeanParam, DetectionStdParam];
}
