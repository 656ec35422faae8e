"""The cases of the ONNX interpreter: small models with inputs, by family."""

from dataclasses import dataclass, field, replace as replaced

import numpy as np
from onnx import helper


@dataclass
class Case:
    name: str
    nodes: list
    inputs: dict
    outputs: list
    constants: dict = field(default_factory=dict)
    opset: int = 18
    reference: bool = False


def numbers(shape, dtype="float32", seed=0):
    rng = np.random.default_rng(seed + 7 * len(shape) + sum(shape))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith(("int", "uint")):
        return rng.integers(1, 9, shape).astype(dtype)
    return np.round(rng.normal(size=shape), 3).astype(dtype)


def one(op, arrays, name=None, opset=18, constants=(), outputs=1, **attributes):
    """A model of one operator. Inputs whose positions are in `constants` are part of the model; `None` is absent."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(arrays)]
    made = [f"y{i}" for i in range(outputs)]
    given = {n: np.asarray(a) for i, (n, a) in enumerate(zip(names, arrays)) if a is not None and i not in constants}
    fixed = {n: np.asarray(a) for i, (n, a) in enumerate(zip(names, arrays)) if a is not None and i in constants}
    node = helper.make_node(op, names, made, name="node", **attributes)
    return Case(name or op, [node], given, made, fixed, opset)


def ints(*values):
    return np.array(values, dtype=np.int64)


def elementwise():
    x = numbers((2, 3))
    for op in ["Abs", "Neg", "Exp", "Floor", "Ceil", "Sign", "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh", "Tanh", "Erf"]:
        yield one(op, [x])
    for op in ["Relu", "LeakyRelu", "Elu", "Selu", "Sigmoid", "HardSigmoid", "HardSwish", "Softplus", "Softsign", "Mish", "Celu", "ThresholdedRelu"]:
        yield one(op, [x])
    for op in ["Sqrt", "Log", "Reciprocal"]:
        yield one(op, [np.abs(x) + 0.5])
    for op in ["Asin", "Acos", "Atanh"]:
        yield one(op, [np.tanh(x) * 0.9])
    yield one("Acosh", [np.abs(x) + 1])
    yield one("Round", [np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.3], dtype=np.float32)])
    for op in ["Add", "Sub", "Mul", "Div"]:
        yield one(op, [numbers((2, 3)), numbers((3,), seed=1)], f"{op}_broadcast")
        yield one(op, [numbers((2, 1, 3), "int64"), numbers((4, 1), "int64", 1)], f"{op}_int64")
    yield one("Div", [ints(-7, 7, -7, 7), ints(2, 2, -2, -2)], "Div_truncates")
    yield one("Pow", [np.abs(x), np.array(2.5, dtype=np.float32)])
    yield one("Pow", [x, np.array([1, 2, 3], dtype=np.int64)], "Pow_integer_exponent")
    yield one("Mod", [ints(-7, 7, -7, 7), ints(3, 3, -3, -3)])
    for op in ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"]:
        yield one(op, [numbers((3, 2), "int32"), numbers((2,), "int32", 1)])
    for op in ["And", "Or", "Xor"]:
        yield one(op, [numbers((3, 2), "bool"), numbers((2,), "bool", 1)])
    yield one("Not", [numbers((4,), "bool")])
    yield one("Where", [numbers((2, 3), "bool"), x, numbers((3,))])
    for op in ["Max", "Min", "Sum", "Mean"]:
        yield one(op, [x, numbers((3,)), numbers((1, 1), seed=3)])
    yield one("Clip", [x, np.float32(-0.5), np.float32(0.5)], "Clip_constants", constants=(1, 2))
    yield one("Clip", [x, np.float32(-0.5)], "Clip_low")
    yield one("Clip", [x, None, np.float32(0.5)], "Clip_high")
    yield one("Clip", [x], "Clip_version_6", opset=6, min=-0.3, max=0.4)
    yield one("Cast", [np.array([-1.7, 0.0, 2.9], dtype=np.float32)], "Cast_to_int", to=7)
    yield one("Cast", [np.array([-1.7, 0.0, 2.9], dtype=np.float32)], "Cast_to_bool", to=9)
    yield one("CastLike", [numbers((3,), "int32"), x])
    yield one("IsNaN", [np.array([1, np.nan, np.inf], dtype=np.float32)])
    yield one("IsInf", [np.array([1, -np.inf, np.inf], dtype=np.float32)])
    yield one("IsInf", [np.array([1, -np.inf, np.inf], dtype=np.float32)], "IsInf_negative", detect_positive=0)
    yield one("PRelu", [numbers((2, 3, 2)), numbers((3, 1))])
    yield one("Gelu", [x], opset=20)
    yield one("Gelu", [x], "Gelu_tanh", opset=20, approximate="tanh")
    yield one("Shrink", [x], bias=0.2, lambd=0.4)
    yield one("Identity", [numbers((), "float32")], "Identity_scalar")


def layers():
    x, w = numbers((1, 4, 7, 6)), numbers((6, 4, 3, 2))
    yield one("Conv", [x, w], constants=(1,))
    absolute = helper.make_node("Abs", ["v"], ["s"], name="s")
    nodes = [absolute, helper.make_node("BatchNormalization", ["x", "s", "s", "s", "s"], ["y"], name="y")]
    yield Case("BatchNormalization_of_computed_statistics", nodes, {"x": x, "v": numbers((4,), seed=5)}, ["y"])
    yield one("Conv", [x, w, numbers((6,))], "Conv_pads", constants=(1, 2), pads=[1, 0, 1, 0], strides=[2, 1])
    yield one("Conv", [x, w], "Conv_asymmetric", constants=(1,), pads=[0, 1, 2, 0])
    yield one("Conv", [x, w], "Conv_same_upper", constants=(1,), auto_pad="SAME_UPPER", strides=[2, 2])
    yield one("Conv", [x, w], "Conv_same_lower", constants=(1,), auto_pad="SAME_LOWER")
    yield one("Conv", [x, numbers((8, 2, 3, 3))], "Conv_groups", constants=(1,), group=2, dilations=[2, 1])
    yield one("Conv", [numbers((2, 3, 9)), numbers((4, 3, 3))], "Conv_1d", constants=(1,))
    yield one("Conv", [numbers((1, 2, 4, 4, 4)), numbers((3, 2, 2, 2, 2))], "Conv_3d", constants=(1,))
    yield one("MaxPool", [x], kernel_shape=[3, 2], strides=[2, 2])
    yield one("MaxPool", [x], "MaxPool_pads", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    yield one("AveragePool", [x], kernel_shape=[3, 2], strides=[2, 1])
    yield one("AveragePool", [x], "AveragePool_pads", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    yield one("AveragePool", [x], "AveragePool_count", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    yield one("AveragePool", [x], "AveragePool_ceil", opset=19, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, pads=[1, 0, 0, 1], count_include_pad=1)
    yield one("MaxPool", [x], "MaxPool_ceil", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, pads=[1, 0, 0, 1])
    yield one("LpPool", [x], kernel_shape=[2, 3], p=2)
    yield one("ConvTranspose", [x, numbers((4, 3, 3, 2))], constants=(1,), strides=[2, 1], pads=[1, 0, 1, 0])
    yield one("ConvTranspose", [x, numbers((4, 3, 3, 2)), numbers((3,))], "ConvTranspose_asymmetric", constants=(1, 2), pads=[1, 0, 0, 1], output_padding=[1, 0], strides=[2, 2])
    yield one("LayerNormalization", [numbers((2, 3, 4)), numbers((3, 4))], "LayerNormalization_axes", constants=(1,), axis=1, outputs=3)
    yield one("GroupNormalization", [x, numbers((4,)), numbers((4,), seed=1)], opset=21, constants=(1, 2), num_groups=2)
    yield one("GlobalAveragePool", [x])
    yield one("GlobalMaxPool", [x])
    stats = [numbers((4,)), numbers((4,), seed=1), numbers((4,), seed=2), np.abs(numbers((4,), seed=3)) + 0.5]
    yield one("BatchNormalization", [x, *stats], constants=(1, 2, 3, 4), opset=15, epsilon=1e-3)
    yield one("InstanceNormalization", [x, numbers((4,)), numbers((4,), seed=1)], constants=(1, 2))
    yield one("LayerNormalization", [numbers((2, 3, 4)), numbers((4,)), numbers((4,), seed=1)], constants=(1, 2))
    yield one("LRN", [x], size=3)
    yield one("MatMul", [numbers((2, 3)), numbers((3, 4))])
    yield one("MatMul", [numbers((2, 1, 3, 4)), numbers((5, 4, 2))], "MatMul_broadcast")
    yield one("MatMul", [numbers((4,)), numbers((4, 3))], "MatMul_vector")
    yield one("Gemm", [numbers((2, 3)), numbers((4, 3)), numbers((4,))], constants=(1, 2), transB=1)
    yield one("Gemm", [numbers((3, 2)), numbers((3, 4)), numbers((2, 1))], "Gemm_scaled", transA=1, alpha=0.5, beta=2.0)
    yield one("Softmax", [numbers((2, 3, 4))], axis=1)
    yield one("Softmax", [numbers((2, 3, 4))], "Softmax_flat", opset=11, axis=1)
    yield one("LogSoftmax", [numbers((2, 3))])
    yield one("Dropout", [numbers((2, 3))])


def shapes():
    x = numbers((2, 3, 4))
    yield one("Reshape", [x, ints(0, -1)], constants=(1,))
    yield one("Reshape", [x, ints(4, 6)], "Reshape_given")
    yield one("Flatten", [x])
    yield one("Flatten", [x], "Flatten_2", axis=2)
    yield one("Flatten", [x], "Flatten_0", axis=0)
    yield one("Transpose", [x], perm=[2, 0, 1])
    yield one("Transpose", [x], "Transpose_reverse")
    yield one("Squeeze", [numbers((1, 3, 1, 2)), ints(0)], constants=(1,))
    yield one("Squeeze", [numbers((1, 3, 1, 2))], "Squeeze_all")
    yield one("Unsqueeze", [x, ints(0, -1)], constants=(1,))
    yield one("Concat", [x, numbers((2, 1, 4))], axis=1)
    yield one("Split", [numbers((5, 2)), ints(2, 3)], constants=(1,), outputs=2)
    yield one("Split", [numbers((2, 7))], "Split_uneven", outputs=3, num_outputs=3, axis=1)
    yield one("Slice", [x, ints(1, -3), ints(2, 100), ints(0, 2)], constants=(1, 2, 3))
    yield one("Slice", [x, ints(-1, 3), ints(-100, 0), ints(1, 2), ints(-1, -2)], "Slice_backwards", constants=(1, 2, 3, 4))
    yield one("Gather", [x, np.array([[0, -1]], dtype=np.int64)], axis=1)
    yield one("GatherND", [x, np.array([[0, 1], [1, 2]], dtype=np.int64)])
    yield one("Expand", [numbers((3, 1)), ints(2, 1, 4)], constants=(1,))
    yield one("Tile", [numbers((2, 3)), ints(2, 2)], constants=(1,))
    yield one("Shape", [x], start=1)
    yield one("Size", [x])
    yield one("ConstantOfShape", [ints(2, 3)], value=helper.make_tensor("v", 7, [1], [5]))
    yield one("ConstantOfShape", [ints(2, 3)], "ConstantOfShape_bool", value=helper.make_tensor("v", 9, [1], [True]))
    yield one("Range", [np.int64(3), np.int64(12), np.int64(4)])
    yield one("Range", [np.float32(1), np.float32(-1), np.float32(-0.5)], "Range_float", constants=(0, 1, 2))
    yield one("NonZero", [numbers((3, 4), "int32") % 3])
    yield one("Trilu", [numbers((4, 5))])
    yield one("Trilu", [numbers((4, 5)), np.int64(-1)], "Trilu_lower", constants=(1,), upper=0)
    yield one("DepthToSpace", [numbers((1, 8, 2, 3))], blocksize=2)
    yield one("DepthToSpace", [numbers((1, 8, 2, 3))], "DepthToSpace_crd", blocksize=2, mode="CRD")
    yield one("SpaceToDepth", [numbers((1, 2, 4, 6))], blocksize=2)
    yield one("CumSum", [numbers((2, 5)), np.int64(1)], constants=(1,), exclusive=1)
    yield one("CumSum", [numbers((2, 5)), np.int64(1)], "CumSum_reverse", constants=(1,), reverse=1)
    yield one("TopK", [numbers((3, 6)), ints(2)], constants=(1,), outputs=2)
    yield one("ArgMax", [numbers((3, 6))], axis=1)
    yield one("ArgMin", [np.array([[1, 0, 0]], dtype=np.float32)], "ArgMin_last", axis=1, select_last_index=1, keepdims=0)
    yield one("Pad", [numbers((2, 3)), ints(1, 0, 0, 2), np.float32(7)], constants=(1, 2))
    yield one("Pad", [numbers((2, 4)), ints(1, 1, 0, 2)], "Pad_reflect", constants=(1,), mode="reflect")
    yield one("Einsum", [numbers((2, 3)), numbers((3, 4))], equation="ij,jk->ki")


def reductions():
    x = numbers((2, 3, 4))
    for op in ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSumExp"]:
        yield one(op, [x, ints(-1, 0)], constants=(1,))
        yield one(op, [x], f"{op}_all", keepdims=0)
    yield one("ReduceLogSum", [np.abs(x), ints(1)], constants=(1,))
    yield one("ReduceSum", [x, ints()], "ReduceSum_none", constants=(1,), noop_with_empty_axes=1)
    yield one("ReduceMean", [x], "ReduceMean_version_13", opset=13, axes=[1])
    yield one("ReduceSum", [numbers((2, 3), "int32"), ints(1)], "ReduceSum_int32", constants=(1,))


def images():
    x = numbers((1, 2, 3, 4))
    yield one("Resize", [numbers((1, 2, 10, 10)), None, np.array([1, 1, 1.3, 1.3], np.float32)], "Resize_rounds_in_single_precision", constants=(2,))
    for mode in ["nearest", "linear", "cubic"]:
        for coordinates in ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"]:
            attributes = dict(mode=mode, coordinate_transformation_mode=coordinates)
            yield one("Resize", [x, None, np.array([1, 1, 2, 1.5], np.float32)], f"Resize_{mode}_{coordinates}", constants=(2,), **attributes)
    yield one("Resize", [x, None, None, ints(1, 2, 2, 7)], "Resize_sizes", constants=(3,), mode="linear")
    yield one("Resize", [numbers((1, 1, 6, 6)), None, np.array([0.5, 0.6], np.float32)], "Resize_antialias", constants=(2,), mode="cubic", antialias=1, axes=[2, 3])
    yield one("Resize", [x, None, np.array([1, 1, 1.6, 2], np.float32)], "Resize_floor", constants=(2,), nearest_mode="floor", coordinate_transformation_mode="asymmetric")
    crop = one("Resize", [x, np.array([0, 0, 0.2, 0.3, 1, 1, 0.9, 1.4], np.float32), None, ints(1, 2, 3, 5)], "Resize_crop", constants=(1, 3), mode="linear", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9.0)
    crop.reference = True
    yield crop


def graphs():
    """Chains that fold, constants, and sub-graphs."""
    x = numbers((2, 3, 4))
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["b"], axis=0),
        helper.make_node("Unsqueeze", ["b", "axis"], ["b1"]),
        helper.make_node("Concat", ["b1", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"zero": np.int64(0), "axis": ints(0), "rest": ints(-1)}
    yield Case("shape_chain", nodes, {"x": x}, ["y"], {k: np.asarray(v) for k, v in constants.items()})
    nodes = [
        helper.make_node("Constant", [], ["c"], value_floats=[1.0, 2.0, 3.0, 4.0]),
        helper.make_node("Mul", ["x", "c"], ["m"]),
        helper.make_node("Add", ["m", "m"], ["y"]),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    linear = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["y"])]
    yield Case("linear", linear, {"x": x}, ["y"], {"w": numbers((4, 5)), "b": numbers((5,))})
    gelu = [
        helper.make_node("Div", ["x", "root"], ["d"]),
        helper.make_node("Erf", ["d"], ["e"]),
        helper.make_node("Add", ["e", "one"], ["p"]),
        helper.make_node("Mul", ["x", "p"], ["m"]),
        helper.make_node("Mul", ["m", "half"], ["y"]),
    ]
    scalars = {"root": np.float32(2) ** 0.5, "one": np.float32(1), "half": np.float32(0.5)}
    yield Case("gelu", gelu, {"x": x}, ["y"], {k: np.asarray(v, dtype=np.float32) for k, v in scalars.items()})
    yield Case("constants_and_two_outputs", nodes, {"x": x}, ["z", "m"])
    make = helper.make_node
    linear = [make("MatMul", ["x", "w"], ["m"]), make("Add", ["b", "m"], ["y"])]
    yield Case("Linear, bias first", linear, {"x": x}, ["y"], {"w": numbers((4, 5)), "b": numbers((5,))})
    erf = [make("Div", ["x", "root"], ["d"]), make("Erf", ["d"], ["e"]), make("Add", ["one", "e"], ["p"])]
    scalars = {k: np.asarray(v, dtype=np.float32) for k, v in scalars.items()}
    halved = [make("Mul", ["half", "x"], ["h"]), make("Mul", ["p", "h"], ["y"])]
    yield Case("Gelu, halved first", erf + halved, {"x": x}, ["y"], scalars)
    halved = [make("Mul", ["p", "half"], ["h"]), make("Mul", ["h", "x"], ["y"])]
    yield Case("Gelu, halved last", erf + halved, {"x": x}, ["y"], scalars)
    parameters = {"gamma": numbers((4,)), "beta": numbers((4,), seed=1), "two": np.float32(2), "eps": np.float32(1e-5)}
    for opset in (13, 18):
        # Reduces the last axis: the axes are an attribute before version 18, an input since then.
        axes = {"axes": [-1]} if opset < 18 else {}
        mean = lambda x, y: make("ReduceMean", [x] + ([] if opset < 18 else ["last"]), [y], **axes)
        normal = [
            mean("x", "m"),
            make("Sub", ["x", "m"], ["c"]),
            make("Pow", ["c", "two"], ["s"]),
            mean("s", "v"),
            make("Add", ["v", "eps"], ["a"]),
            make("Sqrt", ["a"], ["r"]),
            make("Div", ["c", "r"], ["n"]),
            make("Mul", ["n", "gamma"], ["g"]),
            make("Add", ["g", "beta"], ["y"]),
        ]
        constants = parameters | ({} if opset < 18 else {"last": ints(-1)})
        constants = {k: np.asarray(v) for k, v in constants.items()}
        yield Case(f"LayerNorm of opset {opset}", normal, {"x": x}, ["y"], constants, opset=opset)
    yield Case("LayerNorm with its center", normal, {"x": x}, ["y", "c"], constants, opset=18)


def losses():
    x, t = numbers((3, 5)), np.array([0, 4, 2], dtype=np.int64)
    for reduction in ["none", "sum", "mean"]:
        yield one("NegativeLogLikelihoodLoss", [x, t], f"NegativeLogLikelihoodLoss_{reduction}", reduction=reduction)
        yield one("SoftmaxCrossEntropyLoss", [x, t], f"SoftmaxCrossEntropyLoss_{reduction}", reduction=reduction)
    w = np.array([0.5, 1, 2, 1, 3], dtype=np.float32)
    yield one("SoftmaxCrossEntropyLoss", [x, np.array([1, 7, 2], dtype=np.int64), w], "SoftmaxCrossEntropyLoss_ignored", ignore_index=7, outputs=2)


def attention():
    q, k, v = numbers((2, 4, 3, 8)), numbers((2, 2, 5, 8), seed=1), numbers((2, 2, 5, 6), seed=2)
    for case in [
        one("Attention", [q, k, v], "Attention_groups", opset=23),
        one("Attention", [q, k, v], "Attention_causal", opset=23, is_causal=1, scale=0.3, softcap=2.0),
        one("Attention", [numbers((2, 3, 8)), numbers((2, 5, 8), seed=1), numbers((2, 5, 8), seed=2), numbers((3, 5), "bool")], "Attention_mask", opset=23, q_num_heads=2, kv_num_heads=2),
        one("RotaryEmbedding", [q, numbers((2, 3, 4)), numbers((2, 3, 4), seed=5)], opset=23),
        one("RotaryEmbedding", [q, numbers((9, 2)), numbers((9, 2), seed=5), np.array([[0, 2, 4], [8, 1, 3]], dtype=np.int64)], "RotaryEmbedding_interleaved", opset=23, interleaved=1, rotary_embedding_dim=4),
    ]:
        case.reference = True
        yield case


def indexing():
    x = numbers((3, 4))
    yield one("GatherElements", [x, np.array([[0, -1], [3, 2]], dtype=np.int64)], constants=(1,), axis=1)
    yield one("GatherElements", [x, np.array([[2, 0, 1, -3]], dtype=np.int64)], "GatherElements_axis_0")
    yield one("ScatterND", [x, np.array([[2], [0]], dtype=np.int64), numbers((2, 4), seed=3)], opset=13)
    indices, updates = np.array([[0, 2, 1, 0], [-1, 0, 0, 0]], dtype=np.int64), numbers((2, 4), seed=4)
    for reduction in ["none", "add", "mul", "max", "min"]:
        slots = np.array([[0, 1, 2, 0], [1, 0, 1, 2]], dtype=np.int64) if reduction == "none" else indices
        yield one("ScatterElements", [x, slots, updates], f"ScatterElements_{reduction}", reduction=reduction)
        yield one("ScatterND", [x, np.array([[2], [2 if reduction != "none" else 0]], dtype=np.int64), updates], f"ScatterND_{reduction}", reduction=reduction)
    yield one("ScatterElements", [x, slots[:, :2], updates[:, :2]], "ScatterElements_axis", opset=13, axis=1)
    yield one("Unique", [np.array([3, 1, 3, 2], dtype=np.float32)], "Unique_unsorted", outputs=4, sorted=0)
    yield one("GatherND", [numbers((2, 3, 4)), np.array([[1], [2]], dtype=np.int64)], "GatherND_batches", batch_dims=1)
    yield one("Compress", [x, np.array([False, True, True, False, True])], "Compress_flat")
    yield one("OneHot", [ints(1, -1, 5), ints(4), np.array([2, 7], dtype=np.float32)], constants=(1,), axis=0)
    yield one("ReverseSequence", [numbers((4, 3)), ints(1, 4, 2)], time_axis=0, batch_axis=1)
    yield one("ReverseSequence", [numbers((3, 4)), ints(1, 4, 2)], "ReverseSequence_batch_first", time_axis=1, batch_axis=0)
    yield one("Unique", [np.array([3, 1, 3, 2], dtype=np.float32)], outputs=4)
    yield one("EyeLike", [numbers((3, 4), "int32")], k=1, dtype=1)
    yield one("BitShift", [np.array([1, 200, 3], dtype=np.uint8), np.array([1, 2, 3], dtype=np.uint8)], direction="LEFT")


def quantized():
    x = numbers((2, 3, 4))
    scale, zero = np.array([0.02, 0.05, 0.01], dtype=np.float32), np.array([0, 10, -4], dtype=np.int8)
    yield one("QuantizeLinear", [x, np.float32(0.03), np.uint8(128)])
    yield one("QuantizeLinear", [x, scale, zero], "QuantizeLinear_axis", axis=1)
    yield one("DequantizeLinear", [numbers((2, 3, 4), "int8"), scale, zero], axis=1)
    yield one("DynamicQuantizeLinear", [x], outputs=3)
    yield one("MatMulInteger", [numbers((2, 3), "uint8"), numbers((3, 4), "uint8", 1), np.uint8(2), np.uint8(3)])
    yield one("ConvInteger", [numbers((1, 2, 4, 4), "uint8"), numbers((3, 2, 2, 2), "uint8"), np.uint8(3)], constants=(1,), pads=[1, 1, 0, 0])
    images, kernels, matrix = bytes_of((2, 2, 5, 5), 1), signed_bytes((3, 2, 3, 3), 2), signed_bytes((4, 3), 3)
    scales, wide = np.array([0.011, 0.007, 0.005], np.float32), np.array([-3000, 50, 4000], np.int32)
    given = [images, np.float32(0.02), np.uint8(117), kernels, scales, np.zeros(3, np.int8), np.float32(0.31), np.uint8(99), wide]
    yield one("QLinearConv", given, constants=tuple(range(1, 9)), pads=[1, 1, 1, 1], strides=[2, 2])
    given = [bytes_of((2, 5, 4), 4), np.float32(0.02), np.uint8(117), matrix, scales, np.array([1, -2, 0], np.int8), np.float32(0.07), np.uint8(9)]
    yield one("QLinearMatMul", given, constants=tuple(range(1, 8)))
    yield from dequantized()


def signed_bytes(shape, seed):
    return bytes_of(shape, seed).view(np.int8)


class Quantized:
    """Nodes of a network whose layers stand between DequantizeLinear and QuantizeLinear."""

    def __init__(self):
        self.nodes, self.constants = [], {}

    def constant(self, array):
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def node(self, op, *inputs, **attributes):
        output = f"t{len(self.nodes)}"
        inputs = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"{op}_{len(self.nodes)}", **attributes))
        return output

    def rounded(self, x, scale, zero):
        """Quantizes and dequantizes."""
        scale, zero = self.constant(np.float32(scale)), self.constant(zero)
        return self.node("DequantizeLinear", self.node("QuantizeLinear", x, scale, zero), scale, zero)

    def weights(self, integers, scales, axis=0):
        scales = np.asarray(scales, np.float32)
        return self.node("DequantizeLinear", integers, scales, np.zeros(scales.shape, integers.dtype), axis=axis)

    def case(self, name, x, y):
        return Case(name, self.nodes, {"x": x}, [y], self.constants)


def dequantized():
    """Layers that a bound network computes on integers."""
    net = Quantized()
    x = net.rounded("x", 0.02, np.uint8(117))
    conv = lambda x, w, b: net.node("Conv", x, w, b, pads=[1, 1, 1, 1])
    scales = np.array([0.004, 0.002, 0.007, 0.003], np.float32)
    bias = net.weights(np.array([5000, -70, 0, 900], np.int32), np.float32(0.02) * scales)
    y = net.rounded(net.node("Relu", conv(x, net.weights(signed_bytes((4, 4, 3, 3), 5), scales), bias)), 0.05, np.uint8(0))
    bias = net.weights(np.array([1, -2, 300, -4000], np.int32), np.float32(0.05) * np.float32(0.003))
    y = net.rounded(conv(y, net.weights(signed_bytes((4, 4, 3, 3), 6), 0.003), bias), 0.21, np.int8(-5))
    y = net.rounded(net.node("Relu", net.node("Add", y, x)), 0.13, np.uint8(3))
    yield net.case("convolutions between quantized tensors", numbers((2, 4, 6, 6)), y)
    net = Quantized()
    x = net.rounded("x", 0.02, np.int8(-3))
    y = net.node("MatMul", x, net.weights(signed_bytes((6, 5), 7), [0.01, 0.02, 0.03, 0.005, 0.002], axis=1))
    y = net.rounded(net.node("Add", y, numbers((5,))), 0.03, np.uint8(120))
    weights = bytes_of((4, 5), 8)
    weights = net.node("DequantizeLinear", weights, np.float32(0.01), np.uint8(131))
    y = net.node("Gemm", y, weights, np.array([0.25, -0.5, 1.0, 0.0], np.float32), transB=1)
    yield net.case("matrix products between quantized tensors", numbers((3, 6)), net.node("Sigmoid", y))
    net = Quantized()
    yield net.case("quantized weights", numbers((2, 3, 6)), net.node("MatMul", "x", net.weights(signed_bytes((6, 5), 9), 0.01)))


def recurrent():
    x, h = numbers((4, 2, 3)), 5
    for op, gates, attributes in [("LSTM", 4, {}), ("GRU", 3, {"linear_before_reset": 1}), ("RNN", 1, {})]:
        for direction, d in [("forward", 1), ("reverse", 1), ("bidirectional", 2)]:
            weights = [numbers((d, gates * h, 3)), numbers((d, gates * h, h), seed=1), numbers((d, 2 * gates * h), seed=2)]
            outputs = 3 if op == "LSTM" else 2
            yield one(op, [x, *weights], f"{op}_{direction}", constants=(1, 2, 3), outputs=outputs, hidden_size=h, direction=direction, **attributes)
    weights = lambda gates, d: [numbers((d, gates * h, 3)), numbers((d, gates * h, h), seed=1), numbers((d, 2 * gates * h), seed=2)]
    lengths = np.array([2, 4], dtype=np.int32)
    yield one("GRU", [x, *weights(3, 2), lengths], "GRU_reset_before", constants=(1, 2, 3), outputs=2, hidden_size=h, direction="bidirectional")
    yield one("GRU", [x, *weights(3, 1)], "GRU_activations", constants=(1, 2, 3), outputs=2, hidden_size=h, clip=0.5, activations=["HardSigmoid", "Softsign"])
    yield one("RNN", [x, *weights(1, 2), lengths], "RNN_lengths", constants=(1, 2, 3), outputs=2, hidden_size=h, direction="bidirectional", activations=["Relu", "Affine"], activation_alpha=[0.5], activation_beta=[0.1])
    peepholes = [None, None, numbers((1, 15), seed=6)]
    yield one("LSTM", [x, *weights(4, 1), lengths, *peepholes], "LSTM_peepholes", constants=(1, 2, 3), outputs=3, hidden_size=h, direction="reverse")
    states = [numbers((1, 2, h), seed=4), numbers((1, 2, h), seed=5)]
    yield one("LSTM", [x, numbers((1, 20, 3)), numbers((1, 20, h)), None, None, *states], "LSTM_states", constants=(1, 2), outputs=3, hidden_size=h)


def control():
    """Branches and loops with known conditions and lengths."""
    f = lambda name, shape=(): helper.make_tensor_value_info(name, 1, shape)
    branch = lambda op: helper.make_graph([helper.make_node(op, ["x"], ["r"])], op, [], [f("r", (3,))])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg"))
    yield Case("If", [node], {"c": np.array(False), "x": numbers((3,))}, ["y"])
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "x"], ["w"]), helper.make_node("Identity", ["w"], ["s"]), helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [helper.make_tensor_value_info("i", 7, ()), helper.make_tensor_value_info("c", 9, ()), f("v", (3,))],
        [helper.make_tensor_value_info("d", 9, ()), f("w", (3,)), f("s", (3,))],
    )
    loop = helper.make_node("Loop", ["n", "", "x"], ["last", "all"], body=body)
    yield Case("Loop", [loop], {"n": np.int64(3), "x": numbers((3,))}, ["last", "all"])
    step = helper.make_graph(
        [helper.make_node("Add", ["state", "in"], ["next"]), helper.make_node("Identity", ["next"], ["out"])],
        "step",
        [f("state", (2,)), f("in", (2,))],
        [f("next", (2,)), f("out", (2,))],
    )
    scan = helper.make_node("Scan", ["x0", "xs"], ["last", "all"], body=step, num_scan_inputs=1)
    yield Case("Scan", [scan], {"x0": numbers((2,)), "xs": numbers((3, 2))}, ["last", "all"])
    # Decided by the data.
    for positive in (True, False):
        x = np.abs(numbers((3,))) * (1 if positive else -1)
        test = [helper.make_node("ReduceSum", ["x"], ["t"], keepdims=0), helper.make_node("Greater", ["t", "zero"], ["c"])]
        yield Case("If of data", test + [node], {"x": x.astype(np.float32)}, ["y"], {"zero": np.float32(0)})
    more = helper.make_graph(
        [
            helper.make_node("Add", ["v", "step"], ["w"]),
            helper.make_node("ReduceSum", ["w"], ["t"], keepdims=0),
            helper.make_node("Less", ["t", "limit"], ["d"]),
        ],
        "more",
        [helper.make_tensor_value_info("i", 7, ()), helper.make_tensor_value_info("c", 9, ()), f("v", (3,))],
        [helper.make_tensor_value_info("d", 9, ()), f("w", (3,))],
    )
    outside = [helper.make_node("Abs", ["x"], ["step"])]
    until = helper.make_node("Loop", ["", "always", "x"], ["last"], body=more)
    given = {"always": np.array(True), "limit": np.float32(20)}
    yield Case("Loop until", outside + [until], {"x": numbers((3,))}, ["last"], given)
    counted = helper.make_graph(
        [helper.make_node("Mul", ["v", "step"], ["w"]), helper.make_node("Identity", ["c"], ["d"])],
        "counted",
        [helper.make_tensor_value_info("i", 7, ()), helper.make_tensor_value_info("c", 9, ()), f("v", (3,))],
        [helper.make_tensor_value_info("d", 9, ()), f("w", (3,))],
    )
    length = [helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0), helper.make_node("Cast", ["m"], ["n"], to=7)]
    rounds = helper.make_node("Loop", ["n", "", "x"], ["last"], body=counted)
    yield Case("Loop of a computed length", length + outside + [rounds], {"x": np.float32([1.5, 3.5, 0.5])}, ["last"])
    rows = helper.make_graph(
        [helper.make_node("Mul", ["v", "step"], ["w"]), helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Neg", ["w"], ["r"])],
        "rows",
        [helper.make_tensor_value_info("i", 7, ()), helper.make_tensor_value_info("c", 9, ()), f("v", (3,))],
        [helper.make_tensor_value_info("d", 9, ()), f("w", (3,)), f("r", (3,))],
    )
    collected = helper.make_node("Loop", ["n", "", "x"], ["last", "all"], body=rows)
    given = {"n": np.array(300, np.int64), "step": np.float32(0.99)}
    yield Case("Loop of 300 rounds with rows", [collected], {"x": numbers((3,))}, ["last", "all"], given)
    scan = helper.make_node(
        "Scan", ["x0", "xs"], ["last", "all"], body=step, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1],
        scan_input_directions=[1], scan_output_directions=[1],
    )
    yield Case("Scan of 300 steps", [scan], {"x0": numbers((2,)), "xs": numbers((2, 300))}, ["last", "all"])
    single = helper.make_graph(
        [helper.make_node("Add", ["state", "in"], ["next"]), helper.make_node("Mul", ["in", "in"], ["out"])],
        "single",
        [f("state"), f("in")],
        [f("next"), f("out")],
    )
    sums = helper.make_node("Scan", ["x0", "xs"], ["last", "all"], body=single, num_scan_inputs=1)
    yield Case("Scan of numbers", [sums], {"x0": np.float32(1), "xs": numbers((260,))}, ["last", "all"])
    yield from scans_of_batches(step)


def scans_of_batches(step):
    """Scan as version 8 has it: batches first, sequences of several lengths."""
    f = lambda name, shape=(): helper.make_tensor_value_info(name, 1, shape)
    both = helper.make_graph(
        [
            helper.make_node("Add", ["state", "a"], ["sum"]),
            helper.make_node("Mul", ["sum", "b"], ["next"]),
            helper.make_node("Identity", ["next"], ["whole"]),
            helper.make_node("ReduceMax", ["b"], ["most"], keepdims=0),
        ],
        "both",
        [f("state", (2,)), f("a", (2,)), f("b", (2,))],
        [f("next", (2,)), f("whole", (2,)), f("most")],
    )

    def scan(name, lengths, shape, body=step, rows=1, **attributes):
        given = {"x0": numbers(shape[:1] + shape[2:])}
        given |= {f"xs{i}": numbers(shape, seed=i + 1) for i in range(rows)}
        made = ["last", "all"] if body is step else ["last", "all", "most"]
        node = helper.make_node("Scan", ["" if lengths is None else "n", *given], made, body=body, num_scan_inputs=rows, **attributes)
        inputs = given if lengths is None else {"n": ints(*lengths)} | given
        return Case(name, [node], inputs, made, opset=8)

    yield scan("Scan of version 8", None, (1, 3, 2))
    yield scan("Scan of a batch", None, (3, 4, 2), directions=[1])
    yield scan("Scan of two inputs of a batch", None, (2, 3, 2), both, 2, directions=[0, 1])
    yield scan("Scan of lengths", [4, 2, 1], (3, 4, 2))
    yield scan("Scan of lengths from their ends", [1, 4, 3], (3, 4, 2), both, 2, directions=[0, 1])
    yield scan("Scan of a large batch", None, (20, 14, 2), directions=[1])
    yield scan("Scan of lengths of a large batch", [1 + 5 * i % 14 for i in range(20)], (20, 14, 2), both, 2, directions=[1, 0])


def sampling():
    x, grid = numbers((2, 3, 4, 5)), np.round(np.tanh(numbers((2, 3, 2, 2))) * 1.4, 3)
    for mode in ["bilinear", "nearest", "bicubic"]:
        for padding in ["zeros", "border", "reflection"]:
            for corners in [0, 1]:
                name = f"GridSample_{mode}_{padding}_{corners}"
                yield one("GridSample", [x, grid], name, opset=16, mode=mode, padding_mode=padding, align_corners=corners)
    yield one("GridSample", [numbers((1, 2, 3, 4, 2)), np.tanh(numbers((1, 2, 2, 1, 3)))], "GridSample_3d", opset=20, mode="linear")
    yield one("AffineGrid", [numbers((2, 2, 3)), ints(2, 3, 4, 5)], opset=20, constants=(1,))
    yield one("AffineGrid", [numbers((1, 3, 4)), ints(1, 1, 2, 3, 2)], "AffineGrid_3d", opset=20, constants=(1,), align_corners=1)
    rois, batches = np.array([[1, 1, 8, 9], [0, 2, 5.5, 7]], np.float32), ints(0, 1)
    for mode in ["avg", "max"]:
        for half in ["half_pixel", "output_half_pixel"]:
            yield one("RoiAlign", [x, rois, batches], f"RoiAlign_{mode}_{half}", mode=mode, coordinate_transformation_mode=half, output_height=2, output_width=3, spatial_scale=0.5, sampling_ratio=2)
    yield one("RoiAlign", [x, rois, batches], "RoiAlign_adaptive", output_height=2, output_width=2, spatial_scale=0.5)
    yield one("MaxRoiPool", [x, np.array([[0, 0, 0, 7, 6], [1, 2, 2, 8, 8]], np.float32)], pooled_shape=[2, 2], spatial_scale=0.5)
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]], np.float32)
    scores = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.1, 0.2, 0.9, 0.3, 0.2, 0.8]]], np.float32)
    yield one("NonMaxSuppression", [boxes, scores, ints(3), np.float32([0.5]), np.float32([0.25])], constants=(2, 3, 4))
    yield one("NonMaxSuppression", [np.abs(boxes) + 0.5, scores, ints(2)], "NonMaxSuppression_center", constants=(2,), center_point_box=1)
    weights, offset = numbers((4, 3, 2, 2)), np.round(numbers((2, 8, 5, 4)) * 0.5, 2)
    yield one("DeformConv", [x, weights, offset, numbers((4,)), np.abs(numbers((2, 4, 5, 4)))], opset=19, constants=(1, 3), pads=[1, 0, 1, 0])
    yield one("DeformConv", [x, weights, offset[:, :, :4]], "DeformConv_asymmetric", opset=19, constants=(1,), pads=[1, 0, 0, 0])
    yield one("Col2Im", [numbers((1, 12, 6)), ints(3, 4), ints(2, 2)], constants=(1, 2))
    yield one("Col2Im", [numbers((1, 4, 15)), ints(4, 4), ints(2, 2)], "Col2Im_pads", constants=(1, 2), pads=[0, 0, 0, 2])
    yield one("MaxPool", [x], "MaxPool_indices", outputs=2, kernel_shape=[2, 2], dilations=[2, 1], pads=[1, 0, 0, 1], ceil_mode=1, strides=[2, 2])
    yield one("MaxPool", [numbers((1, 1, 4, 4), "uint8")], "MaxPool_uint8", kernel_shape=[2, 2])
    yield one("MaxUnpool", [np.array([[[[5, 6], [7, 8]]]], np.float32), np.array([[[[5, 7], [13, 15]]]], np.int64)], kernel_shape=[2, 2], strides=[2, 2])
    yield one("AveragePool", [x], "AveragePool_dilations", opset=19, kernel_shape=[2, 2], dilations=[2, 3], pads=[1, 0, 1, 1])
    yield one("LpPool", [x], "LpPool_dilations", opset=18, kernel_shape=[2, 2], dilations=[2, 2], p=3)
    yield one("CenterCropPad", [numbers((4, 5)), ints(6, 2)], constants=(1,))


def signal():
    for op in ["HannWindow", "HammingWindow", "BlackmanWindow"]:
        yield one(op, [np.int64(7)], constants=(0,))
        yield one(op, [np.int64(6)], f"{op}_symmetric", constants=(0,), periodic=0)
    yield one("MelWeightMatrix", [np.int64(8), np.int64(16), np.int64(8192), np.float32(0), np.float32(4096)], constants=(0, 1, 2, 3, 4))
    for n in [4, 5]:
        x = numbers((2, n, 1))
        yield one("DFT", [x], f"DFT_{n}", axis=1)
        yield one("DFT", [x], f"DFT_onesided_{n}", axis=1, onesided=1)
        yield one("DFT", [numbers((2, n, 2))], f"DFT_complex_{n}", axis=1)
        yield one("DFT", [numbers((2, n, 2))], f"DFT_inverse_{n}", axis=1, inverse=1)
    yield one("DFT", [numbers((2, 5, 1)), np.int64(8)], "DFT_length", constants=(1,), axis=1)
    yield one("STFT", [numbers((1, 16, 1)), np.int64(4), np.hanning(8).astype(np.float32)], constants=(1, 2))
    yield one("STFT", [numbers((1, 16, 1)), np.int64(3), None, np.int64(5)], "STFT_length", constants=(1, 3), onesided=0)
    counted = dict(min_gram_length=1, max_gram_length=2, max_skip_count=1, ngram_counts=[0, 2], ngram_indexes=[0, 2, 1], pool_int64s=[2, 3, 5, 4])
    for mode in ["TF", "IDF", "TFIDF"]:
        yield one("TfIdfVectorizer", [np.array([[5, 4, 2, 5, 3, 4]], np.int32)], f"TfIdfVectorizer_{mode}", mode=mode, weights=[1.0, 10.0, 0.5], **counted)


def microsoft():
    """Operators of ONNX Runtime."""
    ours = lambda op, arrays, name=None, **more: one(op, arrays, name, domain="com.microsoft", **more)
    x = numbers((2, 3, 8))
    yield ours("Gelu", [x], "com.microsoft.Gelu")
    yield ours("QuickGelu", [x])
    packed, scales = bytes_of((5, 2, 8), 4), np.abs(numbers((10,), seed=2))
    for name, zeros in [("symmetric", None), ("zero_points", bytes_of((5,), 5))]:
        fixed = (1, 2) if zeros is None else (1, 2, 3)
        given = [numbers((2, 24)), packed, scales] + ([] if zeros is None else [zeros])
        yield ours("MatMulNBits", given, f"MatMulNBits_{name}", constants=fixed, K=24, N=5, bits=4, block_size=16)
    yield ours("FastGelu", [x])
    yield ours("FastGelu", [x, numbers((8,))], "FastGelu_bias", constants=(1,))
    yield ours("BiasGelu", [x, numbers((8,))], constants=(1,))
    yield ours("FusedMatMul", [numbers((2, 4, 3)), numbers((2, 5, 4), seed=1)], transA=1, transB=1, alpha=0.5)
    yield ours("FusedGemm", [numbers((2, 3)), numbers((3, 4)), numbers((4,))], activation="Relu", constants=(1, 2))
    images, w = numbers((1, 2, 5, 5)), numbers((3, 2, 3, 3))
    yield ours("FusedConv", [images, w, numbers((3,))], constants=(1, 2), activation="Relu", pads=[1, 1, 1, 1])
    yield ours("FusedConv", [images, w, numbers((3,)), numbers((1, 3, 3, 3))], "FusedConv_sum", constants=(1, 2), activation="LeakyRelu", activation_params=[0.3])
    gamma, beta, skip = numbers((8,)), numbers((8,), seed=1), numbers((2, 3, 8), seed=2)
    yield one("SimplifiedLayerNormalization", [x, gamma], constants=(1,))
    yield ours("SkipLayerNormalization", [x, skip, gamma, beta], constants=(2, 3), outputs=1)
    yield ours("SkipLayerNormalization", [x, skip, gamma, beta, numbers((8,), seed=3)], "SkipLayerNormalization_bias", constants=(2, 3, 4), epsilon=1e-3)
    yield ours("SkipSimplifiedLayerNormalization", [x, skip, gamma], constants=(2,))
    words, mask = np.array([[1, 2, 0], [4, 3, 3]], np.int32), np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    tables = [numbers((5, 8)), numbers((4, 8), seed=1), numbers((2, 8), seed=2)]
    yield ours("EmbedLayerNormalization", [words, mask, *tables, gamma, beta, mask], constants=(2, 3, 4, 5, 6), outputs=2)
    weights, bias = numbers((8, 24)), numbers((24,))
    yield ours("Attention", [x, weights, bias], "com.microsoft.Attention", constants=(1, 2), num_heads=2)
    yield ours("Attention", [x, weights, bias, mask], "com.microsoft.Attention_mask", constants=(1, 2), num_heads=2)
    yield ours("Attention", [x, weights, bias, np.array([2, 3], np.int32)], "com.microsoft.Attention_lengths", constants=(1, 2), num_heads=2)
    yield ours("Attention", [x, weights, bias, None, numbers((2, 2, 2, 5, 4))], "com.microsoft.Attention_past", constants=(1, 2), outputs=2, num_heads=2, unidirectional=1)
    yield ours("MultiHeadAttention", [x, numbers((2, 4, 8), seed=1), numbers((2, 4, 8), seed=2)], num_heads=2)
    yield ours("MultiHeadAttention", [x, skip, skip, bias, np.array([[1, 1, 0], [1, 1, 1]], np.int32)], "MultiHeadAttention_mask", constants=(3,), num_heads=4, scale=0.3)
    # 8-bit integers with scales and zero points.
    a, b = (bytes_of((1, 2, 4, 4), seed) for seed in (5, 6))
    scale = lambda x: np.float32(x)
    zero = lambda x: np.uint8(x)
    quantized = lambda op, arrays, **more: ours(op, arrays, f"com.microsoft.{op}", constants=[k for k, x in enumerate(arrays) if x.ndim < 2], **more)
    yield quantized("QLinearAveragePool", [a, scale(0.021), zero(100), scale(0.017), zero(120)], kernel_shape=[2, 2], strides=[1, 1])
    yield quantized("QLinearConcat", [scale(0.037), zero(120), a, scale(0.021), zero(100), b, scale(0.033), zero(90)], axis=1)
    yield ours("QLinearWhere", [a > 100, a, scale(0.021), zero(100), b, scale(0.033), zero(90), scale(0.037), zero(120)], "com.microsoft.QLinearWhere", constants=(2, 3, 5, 6, 7, 8))
    rows, weights = bytes_of((2, 8), 7), (bytes_of((8, 3), 8).astype(np.int16) - 128).astype(np.int8)
    yield ours("MatMulIntegerToFloat", [rows, weights, scale(0.021), np.array([0.01, 0.02, 0.03], np.float32), zero(7), np.int8(0)], "com.microsoft.MatMulIntegerToFloat", constants=(1, 2, 3, 4, 5))
    yield ours("DynamicQuantizeMatMul", [numbers((2, 8)), weights, scale(0.021), np.int8(3)], "com.microsoft.DynamicQuantizeMatMul", constants=(1, 2, 3))
    yield ours("QGemm", [rows, scale(0.021), zero(7), weights, scale(0.013), np.int8(0), np.array([5, -70, 90], np.int32), scale(0.113), zero(120)], "com.microsoft.QGemm", constants=tuple(range(1, 9)))
    rows_of = [rows, scale(0.021), zero(7), weights.T.copy(), np.array([0.01, 0.02, 0.03], np.float32), np.zeros(3, np.int8), np.array([5, -70, 90], np.int32)]
    yield ours("QGemm", rows_of, "com.microsoft.QGemm of rows", constants=tuple(range(1, 7)), transB=1)


def narrow():
    """Integers of types that our arrays do not have: results wrap around."""
    values = {
        "int16": ([-32768, -300, -7, 0, 9, 32767], [3, 300, -5, 7, 200, 32767]),
        "uint16": ([0, 7, 300, 40000, 65535, 12], [3, 300, 5, 40000, 2, 13]),
        "uint32": ([0, 7, 70000, 4000000000, 4294967295, 12], [3, 90000, 70000, 4000000000, 2, 13]),
        "uint64": ([0, 7, 70000, 4000000000, 1 << 40, 12], [3, 90000, 70000, 40, 2, 13]),
    }
    for dtype, (left, right) in values.items():
        a, b = np.array(left, dtype), np.array(right, dtype)
        for op in ["Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", "Less", "GreaterOrEqual", "Equal", "BitwiseAnd", "BitwiseXor"]:
            # ONNX Runtime has no kernels for these.
            without = dtype in ("int16", "uint16") and op not in ("Mod", "BitwiseAnd", "BitwiseXor", "Equal", "Less", "GreaterOrEqual")
            if not (dtype == "uint64" and op in ("Sub", "Mul")):
                yield replaced(one(op, [a, b], f"{op}_{dtype}"), reference=without)
        yield one("BitwiseNot", [a], f"BitwiseNot_{dtype}") if dtype != "uint64" else one("Where", [a > 7, a, b], "Where_uint64")
        if dtype != "int16":
            for direction in ["LEFT", "RIGHT"]:
                yield replaced(one("BitShift", [a, np.array([1, 2, 3, 1, 15, 4], dtype)], f"BitShift_{direction}_{dtype}", direction=direction), reference=dtype == "uint16")
        code = helper.np_dtype_to_tensor_dtype(a.dtype)
        yield one("Cast", [np.array([-70000, -3, 9, 40000, 70000], np.int64)], f"Cast_to_{dtype}", to=code) if dtype != "uint64" else one("Cast", [ints(3, 9)], "Cast_to_uint64", to=code)
        yield one("Cast", [a], f"Cast_from_{dtype}", to=1)
        yield one("Gather", [a, ints(2, 0)], f"Gather_{dtype}", constants=(1,))
        yield one("Concat", [a, b], f"Concat_{dtype}", constants=(1,), axis=0)
        nodes = [helper.make_node("Mul", ["a", "b"], ["p"], name="p"), helper.make_node("Cast", ["p"], ["q"], name="q", to=7), helper.make_node("Neg", ["q"], ["r"], name="r")]
        yield Case(f"chain_{dtype}", nodes, {"a": a[1:3], "b": b[1:3]}, ["p", "r"], reference=True)
    x = numbers((2, 6), seed=3)
    for dtype, zero in [("int16", -200), ("uint16", 40000)]:
        given = [x, np.float32(0.0013), np.array(zero, dtype)]
        yield one("QuantizeLinear", given, f"QuantizeLinear_{dtype}", constants=(1, 2), opset=21)
        q = np.arange(12).reshape(2, 6).astype(dtype) * 5000
        scales, zeros = np.array([0.5, 0.013], np.float32), np.array([3, zero], dtype)
        yield one("DequantizeLinear", [q, scales, zeros], f"DequantizeLinear_{dtype}", constants=(1, 2), opset=21, axis=0)


def bytes_of(shape, seed):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def sequences():
    """Sequences of tensors, which exist only while a model is imported."""
    node, x = helper.make_node, numbers((2, 6))
    at = lambda source, position, to: node("SequenceAt", [source, f"p{position}"], [to], name=to)
    positions = {f"p{p}": np.array(p, np.int64) for p in (0, 1, -1)}

    def made(name, nodes, outputs, **more):
        return Case(name, nodes, {"x": x, **more.pop("inputs", {})}, outputs, {**positions, **more}, 18)

    for name, split, keep in [("sizes", ints(1, 2, 3), 1), ("length", np.array(4, np.int64), 1), ("ones", None, 1), ("removed", None, 0)]:
        inputs, constants = (["x"], {}) if split is None else (["x", "split"], {"split": split})
        split_node = node("SplitToSequence", inputs, ["s"], name="s", axis=1, keepdims=keep)
        nodes = [split_node, at("s", 0, "a"), at("s", -1, "b"), node("SequenceLength", ["s"], ["n"], name="n")]
        yield made(f"SplitToSequence_{name}", nodes, ["a", "b", "n"], **constants)
    construct = node("SequenceConstruct", ["x", "x2"], ["s"], name="s")
    two = {"inputs": {"x2": numbers((2, 6), seed=3)}}
    for axis, new_axis in [(1, 0), (-1, 1)]:
        joined = node("ConcatFromSequence", ["s"], ["y"], name="y", axis=axis, new_axis=new_axis)
        yield made(f"ConcatFromSequence_{new_axis}", [construct, joined], ["y"], **dict(two))
    changed = [construct, node("SequenceInsert", ["s", "x", "p1"], ["t"], name="t"), node("SequenceErase", ["t", "p0"], ["u"], name="u"), node("Identity", ["u"], ["v"], name="v")]
    yield made("SequenceInsert_and_SequenceErase", [*changed, node("ConcatFromSequence", ["v"], ["y"], name="y", axis=0)], ["y"], **dict(two))
    info = lambda name: helper.make_tensor_value_info(name, 1, None)
    body = helper.make_graph([node("Mul", ["e", "f"], ["g"], name="g")], "body", [info("e"), info("f")], [info("g")])
    mapped = [construct, node("SequenceMap", ["s", "x"], ["t"], name="t", body=body), node("ConcatFromSequence", ["t"], ["y"], name="y", axis=0)]
    yield made("SequenceMap", mapped, ["y"], **dict(two))
    of = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None))
    carried = lambda name: helper.make_value_info(name, of)
    counter = [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("c", 9, [])]
    inner = [node("Gather", ["x", "i"], ["r"], name="r"), node("SequenceInsert", ["q", "r"], ["qo"], name="qo"), node("Identity", ["c"], ["co"], name="co")]
    loop_body = helper.make_graph(inner, "body", [*counter, carried("q")], [helper.make_tensor_value_info("co", 9, []), carried("qo")])
    loop = [node("SequenceEmpty", [], ["q0"], name="q0"), node("Loop", ["trips", "", "q0"], ["s"], name="loop", body=loop_body), node("ConcatFromSequence", ["s"], ["y"], name="y", axis=0)]
    yield made("SequenceInsert_in_a_loop", loop, ["y"], trips=np.array(2, np.int64))


FAMILIES = {f.__name__: f for f in [elementwise, layers, shapes, reductions, images, graphs, losses, attention, indexing, quantized, recurrent, control, sampling, signal, microsoft, narrow, sequences]}
