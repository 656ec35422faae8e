//! Constants for the operators that other crates add to graphs. A constant carries the type of the operator's parameters, so that a
//! misspelt operator, an unknown parameter or too many inputs fail to compile.

use std::marker::PhantomData;

use ferromx_core::op::{Inputs, OpDef};
use ferromx_core::params::NoParams;

pub use crate::nn::leaky_relu::ActType as LeakyReluType;
pub use crate::nn::pooling::PoolType;
pub use crate::onnx::quantize::ByteType;
pub use crate::shape::pad::{PadMode, PadWidth};
use crate::{broadcast, control_flow, elemwise, index, init, linalg, nn, onnx, shape};

/// An operator with the type of its parameters.
pub struct Operator<P> {
    def: &'static OpDef,
    params: PhantomData<fn() -> P>,
}

impl<P> Operator<P> {
    const fn new(def: &'static OpDef) -> Operator<P> {
        Operator { def, params: PhantomData }
    }

    /// The definition.
    pub const fn def(&self) -> &'static OpDef {
        self.def
    }

    /// The name.
    pub const fn name(&self) -> &'static str {
        self.def.name
    }

    /// True if the operator takes this number of inputs. The last of several may be optional.
    pub const fn takes(&self, num_inputs: usize) -> bool {
        match self.def.inputs {
            Inputs::Fixed(inputs) => num_inputs <= inputs.len(),
            Inputs::Variadic { .. } => true,
        }
    }
}

/// Declares operators, and lists them with their parameters for the test below.
macro_rules! operators {
    ($($name:ident: $params:ty = $def:path;)*) => {
        $(
            #[doc = concat!("The operator that `", stringify!($def), "` defines.")]
            pub const $name: Operator<$params> = Operator::new(&$def);
        )*

        #[cfg(test)]
        fn fields() -> Vec<(&'static OpDef, Vec<ferromx_core::params::FieldInfo>)> {
            vec![$(($name.def(), <$params as ferromx_core::params::OpParams>::fields())),*]
        }
    };
}

operators! {
    ADD: NoParams = broadcast::promotion::ADD;
    AROUND: elemwise::parametric::AroundParam = elemwise::parametric::AROUND;
    BITWISE_AND: NoParams = broadcast::promotion::BITWISE_AND;
    BITWISE_OR: NoParams = broadcast::promotion::BITWISE_OR;
    BROADCAST_ADD: NoParams = broadcast::binary::ADD;
    BROADCAST_DIV: NoParams = broadcast::binary::DIV;
    BROADCAST_LIKE: broadcast::expand::BroadcastLikeParam = broadcast::expand::BROADCAST_LIKE;
    BROADCAST_MAXIMUM: NoParams = broadcast::binary::MAXIMUM;
    BROADCAST_MINIMUM: NoParams = broadcast::binary::MINIMUM;
    BROADCAST_MUL: NoParams = broadcast::binary::MUL;
    BROADCAST_SUB: NoParams = broadcast::binary::SUB;
    BROADCAST_TO: broadcast::expand::NpBroadcastToParam = broadcast::expand::NP_BROADCAST_TO;
    CAST: elemwise::identity::CastParam = elemwise::identity::CAST;
    CLIP: elemwise::parametric::ClipParam = elemwise::parametric::CLIP;
    CONCAT: shape::join::ConcatParam = shape::join::CONCAT;
    COND: control_flow::branch::CondAttrs = control_flow::branch::COND;
    COPY: NoParams = elemwise::identity::COPY;
    DEQUANTIZE_LINEAR: onnx::quantize::DequantizeLinearParam = onnx::quantize::DEQUANTIZE_LINEAR;
    DIV_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::DIV;
    EQUAL: NoParams = broadcast::compare::EQUAL;
    EXPAND_DIMS: shape::axes::ExpandDimParam = shape::axes::EXPAND_DIMS;
    FFT: linalg::transforms::FftParam = linalg::transforms::FFT;
    FLIP: shape::flip::FlipParam = shape::flip::FLIP;
    FOREACH: control_flow::foreach::ForeachAttrs = control_flow::foreach::FOREACH;
    FULL: init::FullParam = init::FULL;
    GREATER: NoParams = broadcast::compare::GREATER;
    GREATER_EQUAL: NoParams = broadcast::compare::GREATER_EQUAL;
    HARD_SIGMOID: elemwise::parametric::HardSigmoidParam = elemwise::parametric::HARD_SIGMOID;
    IFFT: linalg::transforms::FftParam = linalg::transforms::IFFT;
    INTERPOLATE: onnx::sampling::InterpolateParam = onnx::sampling::INTERPOLATE;
    LEAKY_RELU: nn::leaky_relu::LeakyReluParam = nn::leaky_relu::LEAKY_RELU;
    LESS: NoParams = broadcast::compare::LESS;
    LESS_EQUAL: NoParams = broadcast::compare::LESS_EQUAL;
    MAXIMUM_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::MAXIMUM;
    MINIMUM_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::MINIMUM;
    MINUS_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::MINUS;
    MOD: NoParams = broadcast::promotion::MOD;
    MOVEAXIS: shape::axes::MoveaxisParam = shape::axes::MOVEAXIS;
    MULTIPLY: NoParams = broadcast::promotion::MULTIPLY;
    MUL_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::MUL;
    NEGATIVE: NoParams = elemwise::unary::NEGATIVE;
    NOT_EQUAL: NoParams = broadcast::compare::NOT_EQUAL;
    NPX_RESHAPE: shape::reshape::NpxReshapeParam = shape::reshape::NPX_RESHAPE;
    PAD: shape::pad::PadParam = shape::pad::NP_PAD;
    PLUS_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::PLUS;
    POOLING: nn::pooling::PoolingParam = nn::pooling::POOLING;
    POWER: NoParams = broadcast::promotion::POWER;
    POWER_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::POWER;
    QUANTIZE_LINEAR: onnx::quantize::QuantizeLinearParam = onnx::quantize::QUANTIZE_LINEAR;
    RDIV_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::RDIV;
    RELU: NoParams = elemwise::unary::RELU;
    RESHAPE: shape::reshape::NpReshapeParam = shape::reshape::NP_RESHAPE;
    RMINUS_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::RMINUS;
    RPOWER_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::RPOWER;
    SHAPE_ARRAY: NoParams = elemwise::identity::SHAPE_ARRAY;
    SIGMOID: NoParams = elemwise::unary::SIGMOID;
    SLICE: shape::slice::SliceParam = shape::slice::SLICE;
    SLICE_AXIS: shape::slice::SliceAxisParam = shape::slice::SLICE_AXIS;
    SQUEEZE: shape::axes::NpSqueezeParam = shape::axes::NP_SQUEEZE;
    STACK: shape::join::StackParam = shape::join::STACK;
    SUBTRACT: NoParams = broadcast::promotion::SUBTRACT;
    SYMBOLIC_EXPAND: onnx::symbolic_shape::SymbolicShapeParam = onnx::symbolic_shape::EXPAND;
    SYMBOLIC_FULL: onnx::symbolic_shape::SymbolicFullParam = onnx::symbolic_shape::FULL;
    SYMBOLIC_RANGE: onnx::symbolic_shape::SymbolicRangeParam = onnx::symbolic_shape::RANGE;
    SYMBOLIC_RESHAPE: onnx::symbolic_shape::SymbolicShapeParam = onnx::symbolic_shape::RESHAPE;
    SYMBOLIC_RESIZE: onnx::resize::SymbolicResizeParam = onnx::resize::RESIZE;
    SYMBOLIC_SLICE: onnx::symbolic_shape::SymbolicSliceParam = onnx::symbolic_shape::SLICE;
    TAKE: index::take::TakeParam = index::take::TAKE;
    TANH: NoParams = elemwise::unary::TANH;
    TRUE_DIVIDE: NoParams = broadcast::promotion::TRUE_DIVIDE;
    WHERE: NoParams = broadcast::select::NP_WHERE;
    WHERE_RSCALAR: broadcast::select::WhereScalarParam = broadcast::select::WHERE_RSCALAR;
    WHERE_SCALAR2: broadcast::select::WhereScalar2Param = broadcast::select::WHERE_SCALAR2;
    WHILE_LOOP: control_flow::while_loop::WhileAttrs = control_flow::while_loop::WHILE_LOOP;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_types_match_the_definitions() {
        for (def, fields) in fields() {
            assert_eq!(def.fields(), fields, "{}", def.name);
        }
    }
}
