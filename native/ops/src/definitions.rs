//! The operators that other crates add to graphs, under one name each. [`ferromx_core::op!`] takes them.

use ferromx_core::op::Operator;

pub use crate::nn::leaky_relu::ActType as LeakyReluType;
pub use crate::nn::pooling::PoolType;
pub use crate::quantized::ByteType;
pub use crate::shape::pad::{PadMode, PadWidth};
use crate::{broadcast, control_flow, elemwise, index, init, linalg, nn, num_args, onnx, shape};

/// Names operators, with the type of their parameters if they have some.
macro_rules! operators {
    ($($name:ident $(: $params:ty)? = $def:path;)*) => {$(
        #[doc = concat!("The operator that `", stringify!($def), "` defines.")]
        pub const $name: &Operator $(<$params>)? = &$def;
    )*};
}

operators! {
    ADD = broadcast::promotion::ADD;
    ADD_N: num_args::NumArgs = elemwise::binary::ADD_N;
    AROUND: elemwise::parametric::AroundParam = elemwise::parametric::AROUND;
    BITWISE_AND = broadcast::promotion::BITWISE_AND;
    BITWISE_OR = broadcast::promotion::BITWISE_OR;
    BROADCAST_ADD = broadcast::binary::ADD;
    BROADCAST_DIV = broadcast::binary::DIV;
    BROADCAST_LIKE: broadcast::expand::BroadcastLikeParam = broadcast::expand::BROADCAST_LIKE;
    BROADCAST_MAXIMUM = broadcast::binary::MAXIMUM;
    BROADCAST_MINIMUM = broadcast::binary::MINIMUM;
    BROADCAST_MUL = broadcast::binary::MUL;
    BROADCAST_SUB = broadcast::binary::SUB;
    BROADCAST_TO: broadcast::expand::NpBroadcastToParam = broadcast::expand::NP_BROADCAST_TO;
    CAST: elemwise::identity::CastParam = elemwise::identity::CAST;
    CLIP: elemwise::parametric::ClipParam = elemwise::parametric::CLIP;
    CONCAT: shape::join::ConcatParam = shape::join::CONCAT;
    COND: control_flow::branch::CondAttrs = control_flow::branch::COND;
    COPY = elemwise::identity::COPY;
    DEQUANTIZE_LINEAR: onnx::quantize::DequantizeLinearParam = onnx::quantize::DEQUANTIZE_LINEAR;
    DIV_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::DIV;
    EQUAL = broadcast::compare::EQUAL;
    EXPAND_DIMS: shape::axes::ExpandDimParam = shape::axes::EXPAND_DIMS;
    FFT: linalg::transforms::FftParam = linalg::transforms::FFT;
    FLIP: shape::flip::FlipParam = shape::flip::FLIP;
    FOREACH: control_flow::foreach::ForeachAttrs = control_flow::foreach::FOREACH;
    FULL: init::FullParam = init::FULL;
    GREATER = broadcast::compare::GREATER;
    GREATER_EQUAL = broadcast::compare::GREATER_EQUAL;
    HARD_SIGMOID: elemwise::parametric::HardSigmoidParam = elemwise::parametric::HARD_SIGMOID;
    IFFT: linalg::transforms::FftParam = linalg::transforms::IFFT;
    INTERPOLATE: onnx::sampling::InterpolateParam = onnx::sampling::INTERPOLATE;
    LEAKY_RELU: nn::leaky_relu::LeakyReluParam = nn::leaky_relu::LEAKY_RELU;
    LESS = broadcast::compare::LESS;
    LESS_EQUAL = broadcast::compare::LESS_EQUAL;
    MAXIMUM_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::MAXIMUM;
    MINIMUM_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::MINIMUM;
    MINUS_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::MINUS;
    MOD = broadcast::promotion::MOD;
    MOVEAXIS: shape::axes::MoveaxisParam = shape::axes::MOVEAXIS;
    MULTIPLY = broadcast::promotion::MULTIPLY;
    MUL_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::MUL;
    NEGATIVE = elemwise::unary::NEGATIVE;
    NOT_EQUAL = broadcast::compare::NOT_EQUAL;
    NPX_RESHAPE: shape::reshape::NpxReshapeParam = shape::reshape::NPX_RESHAPE;
    PAD: shape::pad::PadParam = shape::pad::NP_PAD;
    PLUS_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::PLUS;
    POOLING: nn::pooling::PoolingParam = nn::pooling::POOLING;
    POWER = broadcast::promotion::POWER;
    POWER_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::POWER;
    QUANTIZE_LINEAR: onnx::quantize::QuantizeLinearParam = onnx::quantize::QUANTIZE_LINEAR;
    RDIV_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::RDIV;
    RELU = elemwise::unary::RELU;
    RESHAPE: shape::reshape::NpReshapeParam = shape::reshape::NP_RESHAPE;
    RMINUS_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::RMINUS;
    RPOWER_SCALAR: elemwise::scalar::ScalarParam = elemwise::scalar::RPOWER;
    SHAPE_ARRAY = elemwise::identity::SHAPE_ARRAY;
    SIGMOID = elemwise::unary::SIGMOID;
    SLICE: shape::slice::SliceParam = shape::slice::SLICE;
    SLICE_AXIS: shape::slice::SliceAxisParam = shape::slice::SLICE_AXIS;
    SQUEEZE: shape::axes::NpSqueezeParam = shape::axes::NP_SQUEEZE;
    STACK: shape::join::StackParam = shape::join::STACK;
    SUBTRACT = broadcast::promotion::SUBTRACT;
    SYMBOLIC_EXPAND: onnx::symbolic_shape::SymbolicShapeParam = onnx::symbolic_shape::EXPAND;
    SYMBOLIC_FULL: onnx::symbolic_shape::SymbolicFullParam = onnx::symbolic_shape::FULL;
    SYMBOLIC_RANGE: onnx::symbolic_shape::SymbolicRangeParam = onnx::symbolic_shape::RANGE;
    SYMBOLIC_RESHAPE: onnx::symbolic_shape::SymbolicShapeParam = onnx::symbolic_shape::RESHAPE;
    SYMBOLIC_RESIZE: onnx::resize::SymbolicResizeParam = onnx::resize::RESIZE;
    SYMBOLIC_SLICE: onnx::symbolic_shape::SymbolicSliceParam = onnx::symbolic_shape::SLICE;
    TAKE: index::take::TakeParam = index::take::TAKE;
    TANH = elemwise::unary::TANH;
    TRUE_DIVIDE = broadcast::promotion::TRUE_DIVIDE;
    WHERE = broadcast::select::NP_WHERE;
    WHERE_RSCALAR: broadcast::select::WhereScalarParam = broadcast::select::WHERE_RSCALAR;
    WHERE_SCALAR2: broadcast::select::WhereScalar2Param = broadcast::select::WHERE_SCALAR2;
    WHILE_LOOP: control_flow::while_loop::WhileAttrs = control_flow::while_loop::WHILE_LOOP;
    ZEROS_LIKE = elemwise::identity::ZEROS_LIKE;
}
