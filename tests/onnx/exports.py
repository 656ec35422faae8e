"""Records the results of MXNet 1.9.1 for operators that can be exported: `exports.py` writes `data/exports.jsonl`.

A line is a graph of one operator: its name, parameters, inputs and outputs. Inputs that are parameters of the model are marked. The test
`exported_operators_give_mxnets_values` of `native/interop` exports each, reads the model again and compares; `check_exports.py` runs the
models in ONNX Runtime. Needs MXNet 1.9.1, see `tests/oracle/README.md`.
"""

import json
import pathlib

import mxnet as mx
import numpy as np

HERE = pathlib.Path(__file__).parent


def numbers(*shape, seed=0, dtype="float32"):
    rng = np.random.default_rng(seed + 7 * len(shape) + sum(shape))
    return np.round(rng.normal(size=shape), 2).astype(dtype)


def positive(*shape, seed=0):
    return np.abs(numbers(*shape, seed=seed)) + np.float32(0.25)


class Parameter:
    """An input whose value belongs to the model."""

    def __init__(self, value):
        self.value = value


P = Parameter
X = numbers(2, 3)
IMAGES = numbers(1, 4, 6, 5)


def elementwise():
    for op in ["abs", "negative", "exp", "floor", "ceil", "sin", "cos", "tan", "tanh", "relu", "sigmoid", "square", "identity", "BlockGrad",
               "arctan", "arcsinh", "sinh", "cosh", "erf", "softsign", "hard_sigmoid", "cbrt", "expm1", "degrees", "radians", "trunc", "fix",
               "rint", "round", "logical_not", "sign", "make_loss", "MakeLoss", "zeros_like", "ones_like", "shape_array", "size_array"]:
        yield op, {}, [X]
    for op in ["log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"]:
        yield op, {}, [positive(2, 3)]
    for op in ["arcsin", "arccos", "arctanh"]:
        yield op, {}, [np.tanh(X) * np.float32(0.9)]
    for op in ["elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div", "_maximum", "_minimum", "_equal", "_greater", "_lesser_equal"]:
        yield op, {}, [X, numbers(2, 3, seed=5)]
    for op in ["add", "sub", "mul", "div", "maximum", "minimum", "equal", "not_equal", "greater", "greater_equal", "lesser", "lesser_equal",
               "logical_and", "logical_or", "logical_xor", "mod", "hypot"]:
        yield "broadcast_" + op, {}, [X, numbers(1, 3, seed=4)]
    yield "broadcast_power", {}, [positive(2, 3), numbers(1, 3)]
    yield "_power", {}, [positive(2, 3), X]
    for op in ["plus", "minus", "rminus", "mul", "div", "rdiv", "maximum", "minimum", "equal", "not_equal", "greater", "greater_equal",
               "lesser", "lesser_equal", "mod"]:
        yield f"_{op}_scalar", {"scalar": 0.7}, [X]
    yield "_power_scalar", {"scalar": 1.5}, [positive(2, 3)]
    yield "_rpower_scalar", {"scalar": 1.5}, [X]
    for op in ["rcbrt", "_contrib_round_ste", "_contrib_sign_ste", "_contrib_gradientmultiplier"]:
        yield op, {}, [X]
    for op in ["_logical_and", "_logical_or", "_logical_xor", "_mod", "_hypot"]:
        yield op, {}, [X, numbers(2, 3, seed=5)]
    yield "_contrib_quadratic", {"a": 2, "b": -1, "c": 0.5}, [X]
    yield "smooth_l1", {"scalar": 1.5}, [X]
    yield "SVMOutput", {}, [X, np.zeros(2, np.float32)]
    yield "clip", {"a_min": -0.5, "a_max": 0.5}, [X]
    yield "add_n", {"num_args": 3}, [X, numbers(2, 3, seed=2), numbers(2, 3, seed=3)]
    yield "where", {}, [np.array([[1, 0, 2], [0, 0, -1]], np.float32), X, numbers(2, 3, seed=2)]
    yield "Cast", {"dtype": "int32"}, [X * 3]
    for kind in ["relu", "sigmoid", "tanh", "softrelu", "softsign"]:
        yield "Activation", {"act_type": kind}, [X]
    for kind in ["leaky", "elu", "selu", "gelu", "rrelu"]:
        yield "LeakyReLU", {"act_type": kind}, [X]
    yield "LeakyReLU", {"act_type": "prelu"}, [IMAGES, P(numbers(4))]
    yield "LogisticRegressionOutput", {}, [X, numbers(2, 3)]
    yield "LinearRegressionOutput", {}, [X, numbers(2, 3)]


def shapes():
    x = numbers(2, 3, 4)
    yield "transpose", {"axes": (2, 0, 1)}, [x]
    yield "transpose", {}, [x]
    yield "Reshape", {"shape": (0, -1)}, [x]
    yield "Flatten", {}, [x]
    yield "expand_dims", {"axis": 1}, [x]
    yield "squeeze", {"axis": (1,)}, [numbers(2, 1, 3)]
    yield "squeeze", {}, [numbers(2, 1, 3)]
    yield "Concat", {"dim": 1, "num_args": 2}, [x, numbers(2, 1, 4)]
    yield "stack", {"axis": 1, "num_args": 2}, [X, numbers(2, 3, seed=2)]
    yield "SwapAxis", {"dim1": 0, "dim2": 2}, [x]
    yield "slice", {"begin": (0, 1), "end": (2, None)}, [x]
    yield "slice", {"begin": (None, None, -1), "end": (None, None, None), "step": (1, 1, -2)}, [x]
    yield "slice_axis", {"axis": 1, "begin": 1, "end": None}, [x]
    yield "slice_like", {}, [x, numbers(1, 2, 3)]
    yield "slice_like", {"axes": (1,)}, [x, numbers(9, 2, 3)]
    yield "SliceChannel", {"num_outputs": 2, "axis": 2}, [x]
    yield "SliceChannel", {"num_outputs": 3, "axis": 1, "squeeze_axis": True}, [x]
    yield "_split_v2", {"indices": (0, 1), "axis": 1}, [x]
    yield "tile", {"reps": (2, 1, 2)}, [x]
    yield "repeat", {"repeats": 2, "axis": 1}, [x]
    yield "repeat", {"repeats": 2}, [x]
    yield "reverse", {"axis": (1, 2)}, [x]
    yield "broadcast_to", {"shape": (2, 0, 4)}, [numbers(2, 3, 1)]
    yield "broadcast_axis", {"axis": (0, 2), "size": (2, 4)}, [numbers(1, 3, 1)]
    yield "broadcast_like", {}, [numbers(2, 1, 4), x]
    yield "broadcast_like", {"lhs_axes": (1,), "rhs_axes": (0,)}, [numbers(2, 1, 4), numbers(5, 2)]
    yield "reshape_like", {}, [x, numbers(4, 6)]
    yield "take", {"axis": 1}, [x, np.array([[2, 0]], np.float32)]
    yield "gather_nd", {}, [x, np.array([[0, 1], [2, 0]], np.float32)]
    yield "one_hot", {"depth": 4}, [np.array([1, 3, 0], np.float32)]
    yield "one_hot", {"depth": 4, "on_value": 2, "off_value": -1, "dtype": "int32"}, [np.array([1, 3, 0], np.float32)]
    yield "pick", {"axis": 1}, [x, np.array([[0, 1, 2, 1], [2, 2, 0, 1]], np.float32)]
    yield "pick", {"axis": -1, "keepdims": True}, [x, np.array([[0, 1, 2], [2, 2, 0]], np.float32)]
    yield "batch_take", {}, [X, np.array([1, 2], np.int32)]
    yield "scatter_nd", {"shape": (3, 4)}, [np.array([2, 3], np.float32), np.array([[0, 2], [1, 3]], np.int64)]
    yield "col2im", {"output_size": (3, 4), "kernel": (2, 2), "pad": (0, 1)}, [numbers(1, 8, 10)]
    yield "depth_to_space", {"block_size": 2}, [numbers(1, 8, 2, 3)]
    yield "space_to_depth", {"block_size": 2}, [numbers(1, 2, 4, 6)]
    for mode in ["constant", "edge", "reflect"]:
        yield "Pad", {"mode": mode, "pad_width": (0, 0, 0, 0, 1, 2, 2, 1), "constant_value": 3 if mode == "constant" else 0}, [IMAGES]
    yield "Crop", {"num_args": 1, "offset": (1, 2), "h_w": (3, 2)}, [IMAGES]
    yield "Crop", {"num_args": 2, "center_crop": True}, [IMAGES, numbers(1, 1, 2, 3)]
    yield "_zeros", {"shape": (2, 3)}, []
    yield "_ones", {"shape": (2, 3), "dtype": "int32"}, []
    yield "_full", {"shape": (2,), "value": 2.5}, []
    yield "_arange", {"start": 1, "stop": 7, "step": 2}, []
    yield "_contrib_arange_like", {"axis": 1, "start": 2}, [x]
    yield "_contrib_arange_like", {}, [x]
    yield "argsort", {}, [x]
    yield "argsort", {"axis": 1, "is_ascend": False, "dtype": "int32"}, [x]
    yield "sort", {"axis": 1}, [x]
    for kind in ["indices", "value", "both"]:
        yield "topk", {"k": 2, "ret_typ": kind}, [x]


def reductions():
    x = numbers(2, 3, 4)
    for op in ["sum", "mean", "max", "min", "prod"]:
        yield op, {"axis": 1}, [x]
        yield op, {"axis": (0, 2), "keepdims": True}, [x]
        yield op, {}, [x]
    yield "sum", {"axis": 1, "exclude": True}, [x]
    yield "norm", {"axis": 1}, [x]
    yield "norm", {"axis": (0, 1), "ord": 1, "keepdims": True}, [x]
    for op in ["argmax", "argmin"]:
        yield op, {"axis": 1}, [x]
        yield op, {"axis": 2, "keepdims": True}, [x]
    yield "argmax_channel", {}, [X]
    for mode in ["instance", "channel", "spatial"]:
        yield "L2Normalization", {"mode": mode}, [IMAGES]
    for op in ["softmax", "log_softmax"]:
        yield op, {"axis": 1}, [x]
        yield op, {"temperature": 2.0}, [x]
    yield "softmin", {}, [x]
    yield "SoftmaxActivation", {"mode": "channel"}, [IMAGES]
    yield "SoftmaxOutput", {}, [X, np.zeros(2, np.float32)]


def layers():
    weight, bias = P(numbers(6, 4, 3, 2)), P(numbers(6))
    yield "Convolution", {"kernel": (3, 2), "num_filter": 6, "pad": (1, 0), "stride": (2, 1)}, [IMAGES, weight, bias]
    yield "Convolution", {"kernel": (3, 3), "num_filter": 8, "num_group": 2, "no_bias": True, "dilate": (2, 1)}, [IMAGES, P(numbers(8, 2, 3, 3))]
    yield "Deconvolution", {"kernel": (3, 2), "num_filter": 3, "stride": (2, 1), "pad": (1, 0), "adj": (1, 0)}, [IMAGES, P(numbers(4, 3, 3, 2))]
    yield "FullyConnected", {"num_hidden": 5}, [IMAGES, P(numbers(5, 120)), P(numbers(5))]
    yield "FullyConnected", {"num_hidden": 5, "no_bias": True, "flatten": False}, [numbers(2, 3, 4), P(numbers(5, 4))]
    yield "Embedding", {"input_dim": 7, "output_dim": 3}, [np.array([[1, 6, 0]], np.float32), P(numbers(7, 3))]
    stats = [P(numbers(4)), P(numbers(4, seed=1)), P(numbers(4, seed=2)), P(positive(4))]
    yield "BatchNorm", {"fix_gamma": False}, [IMAGES, *stats]
    yield "BatchNorm", {"eps": 1e-5}, [IMAGES, *stats]
    yield "_contrib_BatchNormWithReLU", {"fix_gamma": False}, [IMAGES, *stats]
    yield "LayerNorm", {}, [numbers(2, 3, 4), P(numbers(4)), P(numbers(4, seed=1))]
    yield "InstanceNorm", {}, [IMAGES, P(numbers(4)), P(numbers(4, seed=1))]
    yield "GroupNorm", {"num_groups": 2}, [IMAGES, P(numbers(2)), P(numbers(2, seed=1))]
    yield "LRN", {"nsize": 3}, [IMAGES]
    yield "Dropout", {}, [X]
    for kind in ["max", "avg", "sum"]:
        yield "Pooling", {"kernel": (3, 2), "pool_type": kind, "stride": (2, 1), "pad": (1, 1)}, [IMAGES]
    yield "Pooling", {"kernel": (3, 2), "pool_type": "lp", "p_value": 2, "stride": (2, 1)}, [IMAGES]
    yield "Pooling", {"kernel": (2, 2), "pool_type": "max", "stride": (2, 2), "pooling_convention": "full"}, [IMAGES]
    yield "Pooling", {"kernel": (1, 1), "pool_type": "avg", "global_pool": True}, [IMAGES]
    yield "_contrib_AdaptiveAvgPooling2D", {"output_size": (4, 3)}, [IMAGES]
    yield "_contrib_AdaptiveAvgPooling2D", {"output_size": (1, 1)}, [IMAGES]
    for corners in [True, False]:
        yield "_contrib_BilinearResize2D", {"height": 9, "width": 7, "align_corners": corners}, [IMAGES]
    yield "UpSampling", {"scale": 2, "sample_type": "nearest", "num_args": 1}, [IMAGES]
    yield "UpSampling", {"scale": 2, "sample_type": "bilinear", "num_args": 2, "num_filter": 4}, [IMAGES, P(numbers(4, 1, 4, 4))]
    yield "dot", {}, [X, numbers(3, 4)]
    yield "dot", {"transpose_a": True}, [numbers(3, 2), numbers(3, 4)]
    yield "batch_dot", {}, [numbers(2, 3, 4), numbers(2, 4, 5)]
    yield "batch_dot", {"transpose_a": True, "transpose_b": True}, [numbers(2, 4, 3), numbers(2, 5, 4)]
    yield "_linalg_gemm2", {"transpose_b": True, "alpha": 0.5}, [numbers(2, 3, 4), numbers(2, 5, 4)]
    yield "_contrib_div_sqrt_dim", {}, [numbers(2, 3, 4)]
    both = numbers(4, 2, 12)
    yield "_contrib_interleaved_matmul_selfatt_qk", {"heads": 2}, [both]
    yield "_contrib_interleaved_matmul_selfatt_valatt", {"heads": 2}, [both, positive(4, 4, 4)]
    yield "_contrib_interleaved_matmul_encdec_qk", {"heads": 2}, [numbers(3, 2, 8), numbers(4, 2, 16)]
    yield "_contrib_interleaved_matmul_encdec_valatt", {"heads": 2}, [numbers(4, 2, 16), positive(4, 3, 4)]
    steps, lengths = numbers(4, 3, 2), np.array([2, 4, 1], np.float32)
    yield "SequenceMask", {"use_sequence_length": True, "value": -7}, [steps, lengths]
    yield "SequenceMask", {"use_sequence_length": True, "axis": 1}, [numbers(3, 4), lengths]
    yield "SequenceMask", {}, [steps]
    yield "SequenceReverse", {"use_sequence_length": True}, [steps, lengths]
    yield "SequenceReverse", {}, [steps]
    yield "SequenceLast", {}, [steps]


def recurrent():
    gates = {"rnn_relu": 1, "rnn_tanh": 1, "gru": 3, "lstm": 4}
    for mode, g in gates.items():
        for both, count in [(False, 1), (True, 2)]:
            d, h, i = 1 + both, 3, 2
            sizes = [g * h * ((i if layer == 0 else d * h) + h + 2) * d for layer in range(count)]
            states = [numbers(count * d, 2, h)] + ([numbers(count * d, 2, h, seed=3)] if mode == "lstm" else [])
            attrs = {"mode": mode, "state_size": h, "num_layers": count, "bidirectional": both, "state_outputs": True}
            yield "RNN", attrs, [numbers(4, 2, i), P(numbers(sum(sizes)) * np.float32(0.5)), *states]


def images():
    yield "_contrib_ROIAlign", {"pooled_size": (2, 2), "spatial_scale": 0.5, "sample_ratio": 2}, [IMAGES, np.array([[0, 1, 1, 8, 9], [0, 0, 2, 5, 7]], np.float32)]
    yield "_contrib_ROIAlign", {"pooled_size": (2, 3), "spatial_scale": 1, "aligned": True}, [IMAGES, np.array([[0, 0.5, 1, 3, 4]], np.float32)]
    yield "ROIPooling", {"pooled_size": (2, 2), "spatial_scale": 0.5}, [IMAGES, np.array([[0, 0, 0, 7, 9]], np.float32)]
    yield "BilinearSampler", {}, [IMAGES, np.tanh(numbers(1, 2, 3, 3))]
    theta = np.array([[0.8, 0.1, 0.05, -0.1, 0.9, 0.02]], np.float32)
    yield "GridGenerator", {"transform_type": "affine", "target_shape": (3, 4)}, [theta]
    yield "SpatialTransformer", {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": (3, 4)}, [IMAGES, theta]
    yield "_contrib_MultiBoxPrior", {"sizes": (0.5, 0.25), "ratios": (1, 2)}, [IMAGES]
    anchors = np.array([[[0.1, 0.2, 0.5, 0.6], [0.3, 0.1, 0.9, 0.8]]], np.float32)
    for form in ["corner", "center"]:
        yield "_contrib_box_decode", {"std0": 0.1, "std1": 0.1, "std2": 0.2, "std3": 0.2, "format": form}, [numbers(2, 2, 4), anchors]
    boxes = np.array([[[0, 0.9, 0, 0, 1, 1], [0, 0.8, 0.1, 0, 1.1, 1], [1, 0.7, 0, 0.1, 1, 1.1], [0, 0.6, 2, 2, 3, 3]],
                      [[1, 0.2, 0, 0, 1, 1], [1, 0.05, 3, 3, 4, 4], [0, 0.5, 0, 0, 2, 2], [1, 0.9, 5, 5, 6, 6]]], np.float32)
    yield "_contrib_box_nms", {"overlap_thresh": 0.5, "valid_thresh": 0.1, "coord_start": 2, "score_index": 1, "force_suppress": True}, [boxes]
    yield "_contrib_box_nms", {"overlap_thresh": 0.5, "valid_thresh": 0.1, "coord_start": 2, "score_index": 1, "id_index": 0}, [boxes]
    yield "_contrib_box_nms", {"overlap_thresh": 0.5, "coord_start": 2, "score_index": 1, "topk": 2, "in_format": "center", "out_format": "center"}, [boxes]
    probabilities = np.array([[[0.1, 0.2, 0.6, 0.1], [0.7, 0.2, 0.3, 0.1], [0.2, 0.6, 0.1, 0.8]]], np.float32)
    corners = np.array([[[0.1, 0.1, 0.5, 0.5], [0.12, 0.1, 0.5, 0.52], [0.5, 0.5, 0.9, 0.9], [0.13, 0.12, 0.5, 0.5]]], np.float32)
    for force in [True, False]:
        yield "_contrib_MultiBoxDetection", {"force_suppress": force, "threshold": 0.4}, [probabilities, numbers(1, 16) * np.float32(0.1), corners]
    yield "_contrib_boolean_mask", {}, [numbers(3, 2), np.array([1, 0, 2], np.float32)]
    offsets = numbers(1, 18, 4, 3)
    inputs = [IMAGES, offsets, positive(1, 9, 4, 3), P(numbers(2, 4, 3, 3)), P(numbers(2))]
    yield "_contrib_ModulatedDeformableConvolution", {"kernel": (3, 3), "num_filter": 2}, inputs


def chance():
    yield "_random_normal", {"shape": (2, 3), "loc": 1}, []
    yield "_random_uniform", {"shape": (2, 3), "high": 2}, []
    yield "_random_uniform_like", {}, [X]
    yield "_random_normal_like", {}, [X]
    yield "_sample_multinomial", {"shape": (4,)}, [np.full((2, 3), 1 / 3, np.float32)]


def plain(array):
    array = np.asarray(array)
    data = [float(f"{x:.9g}") for x in array.ravel()] if array.dtype.kind == "f" else array.ravel().tolist()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": data}


def record(op, attrs, inputs, random=False):
    values = [i.value if isinstance(i, Parameter) else i for i in inputs]
    attrs = {k: str(v) for k, v in attrs.items()}
    nodes = [{"op": "null", "name": f"x{i}", "inputs": []} for i in range(len(inputs))]
    nodes.append({"op": op, "name": "y", "attrs": attrs, "inputs": [[i, 0, 0] for i in range(len(inputs))]})
    graph = {"nodes": nodes, "arg_nodes": list(range(len(inputs))), "heads": [[len(inputs), 0, 0]]}
    graph = mx.sym.load_json(json.dumps(graph))
    # The operator itself determines its number of outputs.
    graph = graph.get_internals()
    graph = mx.sym.Group([graph[i] for i in range(len(graph.list_outputs())) if graph.list_outputs()[i].startswith("y")])
    arrays = {f"x{i}": mx.nd.array(v, dtype=v.dtype) for i, v in enumerate(values)}
    aux = {n: arrays[n] for n in graph.list_auxiliary_states()}
    args = {n: arrays[n] for n in graph.list_arguments()}
    if op == "LeakyReLU":
        # The mask is only for the gradient.
        graph = graph[0]
    outputs = [o.asnumpy() for o in graph.bind(mx.cpu(), args, aux_states=aux).forward(is_train=False)]
    made = {"op": op, "attrs": attrs, "inputs": [], "outputs": [plain(o) for o in outputs]}
    if random:
        made["random"] = True
    for value, given in zip(values, inputs):
        made["inputs"].append({**plain(value), **({"parameter": True} if isinstance(given, Parameter) else {})})
    return made


def main():
    lines = []
    for family in [elementwise, shapes, reductions, layers, recurrent, images, chance]:
        for op, attrs, inputs in family():
            try:
                lines.append(json.dumps(record(op, attrs, inputs, family is chance), separators=(",", ":")))
            except Exception as e:
                raise SystemExit(f"{op} {attrs}: {e}") from e
    (HERE / "data" / "exports.jsonl").write_text("\n".join(lines) + "\n")
    print(len(lines), "operators")


if __name__ == "__main__":
    main()
