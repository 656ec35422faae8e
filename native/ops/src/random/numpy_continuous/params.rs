//! The parameters of the continuous distributions of the NumPy interface.

use ferromx_core::dtype::DType;
use ferromx_core::params;
use ferromx_core::params::{FloatDType, OpParams, ShapeOrNone};

/// The parameters of an operator that samples from a distribution.
pub(super) trait DistributionParams: OpParams {
    /// The parameters of the distribution; `None` for those that are array inputs.
    fn scalars(&self) -> Vec<Option<f64>>;
    /// The requested shape.
    fn size(&self) -> &ShapeOrNone;
    /// The type of the result.
    fn dtype(&self) -> DType {
        DType::F32
    }
}

/// Implements [`DistributionParams`] for a struct with these parameters of the distribution, `size` and, if it is named, `dtype`.
macro_rules! distribution_params {
    ($params:ident, [$($scalar:ident),*] $(, $dtype:ident)?) => {
        impl DistributionParams for $params {
            fn scalars(&self) -> Vec<Option<f64>> {
                vec![$(self.$scalar.map(f64::from)),*]
            }
            fn size(&self) -> &ShapeOrNone {
                &self.size
            }
            $(
                fn dtype(&self) -> DType {
                    self.$dtype.0
                }
            )?
        }
    };
}

params! {
    /// Parameters of `_npi_uniform` and `_npi_uniform_n`.
    pub struct UniformParam {
        /// The lower bound.
        low: Option<f32> = required;
        /// The upper bound.
        high: Option<f32> = required;
        /// The shape of the result, to which arrays are broadcast; by default their common shape.
        size: ShapeOrNone = (ShapeOrNone(None));
        /// The device, such as `cpu(0)`.
        ctx: String = ("cpu".to_string());
        /// The element type.
        dtype: FloatDType = (FloatDType(DType::F32));
    }
}

distribution_params!(UniformParam, [low, high], dtype);

params! {
    /// Parameters of `_npi_normal` and `_npi_normal_n`.
    pub struct NormalParam {
        /// The mean.
        loc: Option<f32> = required;
        /// The standard deviation, not negative.
        scale: Option<f32> = required;
        /// The shape of the result, to which arrays are broadcast; by default their common shape.
        size: ShapeOrNone = (ShapeOrNone(None));
        /// The device, such as `cpu(0)`.
        ctx: String = ("cpu".to_string());
        /// The element type.
        dtype: FloatDType = (FloatDType(DType::F32));
    }
}

distribution_params!(NormalParam, [loc, scale], dtype);

params! {
    /// Parameters of `_npi_gumbel` and `_npi_logistic`.
    pub struct LocScaleParam {
        /// The location.
        loc: Option<f32> = required;
        /// The scale, not negative.
        scale: Option<f32> = required;
        /// The shape of the result, to which arrays are broadcast; by default their common shape.
        size: ShapeOrNone = (ShapeOrNone(None));
        /// The device, such as `cpu(0)`.
        ctx: String = ("cpu".to_string());
    }
}

distribution_params!(LocScaleParam, [loc, scale]);

params! {
    /// Parameters of `_npi_gamma`.
    pub struct GammaParam {
        /// The shape of the distribution, positive.
        shape: Option<f32> = required;
        /// Its scale.
        scale: Option<f32> = required;
        /// The shape of the result, to which arrays are broadcast; by default their common shape.
        size: ShapeOrNone = (ShapeOrNone(None));
        /// The device, such as `cpu(0)`.
        ctx: String = ("cpu".to_string());
        /// The element type.
        dtype: FloatDType = (FloatDType(DType::F32));
    }
}

distribution_params!(GammaParam, [shape, scale], dtype);

params! {
    /// Parameters of `_npi_exponential` and `_npi_rayleigh`.
    pub struct ScaleParam {
        /// The scale, not negative.
        scale: Option<f32> = (Some(1.0));
        /// The shape of the result, to which arrays are broadcast; by default their common shape.
        size: ShapeOrNone = (ShapeOrNone(None));
        /// The device, such as `cpu(0)`.
        ctx: String = ("cpu".to_string());
    }
}

distribution_params!(ScaleParam, [scale]);

params! {
    /// Parameters of `_npi_pareto` and `_npi_weibull`.
    pub struct ExponentParam {
        /// The exponent, positive.
        a: Option<f32> = None;
        /// The shape of the result, to which arrays are broadcast; by default their common shape.
        size: ShapeOrNone = (ShapeOrNone(None));
        /// The device, such as `cpu(0)`.
        ctx: String = ("cpu".to_string());
    }
}

distribution_params!(ExponentParam, [a]);

params! {
    /// Parameters of `_npi_powerd`.
    pub struct PowerParam {
        /// The exponent, positive.
        a: Option<f32> = None;
        /// The shape of the result, to which arrays are broadcast; by default their common shape.
        size: ShapeOrNone = (ShapeOrNone(None));
    }
}

distribution_params!(PowerParam, [a]);
