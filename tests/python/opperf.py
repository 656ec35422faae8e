"""The calls of MXNet's operator benchmark (`benchmark/opperf`), by its categories, forward and backward, with its kind of inputs: normally
distributed arrays of a few shapes, also for indices, labels and lengths. Images and weights are smaller than there."""

import mxnet as mx
import numpy as np
from mxnet import autograd, nd

from record import record

SHAPES = ((1024, 1024), (10000, 1), (10000, 100))
PAIRS = ((1024, 1024), (10000, 10), (10000, 1))
IMAGES = ((4, 3, 64, 64), (4, 3, 500, 10))
# The number of elements, evenly spaced, that are recorded of a long result.
RECORDED = 64


class Whole:
    """An input of integers below a bound, where the benchmark passes one."""

    def __init__(self, shape, bound):
        self.shape, self.bound = shape, bound


def unary():
    for op in (
        "BlockGrad Flatten MakeLoss abs arccos arccosh arcsin arcsinh arctan arctanh argmax_channel cbrt ceil cos cosh degrees erf erfinv exp "
        "expm1 fix flatten floor gamma gammaln hard_sigmoid identity log log10 log1p log2 logical_not make_loss negative "
        "ones_like radians rcbrt reciprocal relu rint round rsqrt shape_array sigmoid sign sin sinh size_array softsign sqrt square "
        "stop_gradient tan tanh trunc zeros_like"
    ).split():
        for shape in SHAPES:
            yield op, [shape], {}
    for dtype in ("float16", "float32"):
        yield "amp_cast", [SHAPES[0]], {"dtype": dtype}
    for dtype in ("float16", "float64", "int32"):
        yield "cast", [SHAPES[0]], {"dtype": dtype}
    yield "amp_multicast", [SHAPES[0], SHAPES[0]], {"num_outputs": 2}
    yield "clip", [SHAPES[0]], {"a_min": -1, "a_max": 1}
    yield "smooth_l1", [SHAPES[0]], {"scalar": 0.5}


def binary():
    for op in (
        "add div equal greater greater_equal hypot lesser lesser_equal logical_and logical_or logical_xor maximum minimum minus mod mul "
        "not_equal plus power sub"
    ).split():
        for shape in PAIRS:
            yield "broadcast_" + op, [shape, shape], {}
        yield "broadcast_" + op, [(1024, 1), (1, 1024)], {}
    for op in "add div mul sub".split():
        for shape in PAIRS:
            yield "elemwise_" + op, [shape, shape], {}
    yield "add_n", [PAIRS[0]] * 3, {}
    yield "choose_element_0index", [(1024, 100), Whole((1024,), 100)], {}
    yield "fill_element_0index", [(1024, 100), (1024,), Whole((1024,), 100)], {}


def products():
    for shapes in (((1024, 1024), (1024, 1024)), ((1000, 10), (1000, 10)), ((1000, 1), (100, 1000))):
        for flags in ({}, {"transpose_b": True}):
            fits = shapes[0][1] == (shapes[1][1] if flags else shapes[1][0])
            if fits or shapes[1] == (100, 1000):
                left, right = shapes if fits else (shapes[1], shapes[0])
                if left[1] == right[1 if flags else 0]:
                    yield "dot", [left, right], flags
    yield "batch_dot", [(32, 256, 256), (32, 256, 256)], {}
    yield "batch_dot", [(32, 100, 10), (32, 10, 100)], {}
    yield "batch_dot", [(32, 100, 1), (32, 200, 1)], {"transpose_b": True}
    yield "khatri_rao", [(32, 32), (32, 32)], {}
    yield "khatri_rao", [(64, 64), (64, 64)], {}


def random_numbers():
    for op in "exponential gamma generalized_negative_binomial negative_binomial normal poisson uniform".split():
        attrs = {"negative_binomial": {"k": 1, "p": 1}}.get(op, {})
        for shape in SHAPES:
            yield "random_" + op, [], {"shape": shape, **attrs}
    yield "random_randint", [], {"low": 0, "high": 5, "shape": SHAPES[0]}
    for op, parameters in (("exponential", 1), ("poisson", 1), ("normal", 2), ("uniform", 2), ("gamma", 2), ("negative_binomial", 2)):
        yield "sample_" + op, [np.array(p, "float32") for p in ([1.0, 8.5], [0.4, 0.77])[:parameters]], {"shape": (2,)}
    yield "sample_generalized_negative_binomial", [np.array(p, "float32") for p in ([2.0, 2.5], [0.4, 0.77])], {"shape": (2,)}
    yield "sample_multinomial", [np.array([[0.4, 0.6], [0.1, 0.9]], "float32")], {"shape": (2,)}
    yield "shuffle", [SHAPES[0]], {}
    for op in "normal uniform exponential gamma poisson".split():
        yield "%s_like" % op, [SHAPES[0]], {}


def reductions():
    for op in "max max_axis mean min min_axis nanprod nansum norm prod sum sum_axis".split():
        for shape in SHAPES:
            for axis in ((), 0, (0, 1)) if op != "norm" else (0, (0, 1)):
                yield op, [shape], {"axis": axis}
    for op in "argmax argmin".split():
        for shape in SHAPES:
            yield op, [shape], {"axis": 0}
    yield "moments", [SHAPES[0]], {"axes": (0, 1)}


def sorting():
    for op in "argsort sort topk".split():
        for shape in SHAPES:
            yield op, [shape], {"axis": 0}
    yield "topk", [SHAPES[0]], {"k": 3, "ret_typ": "both"}


def indexing():
    for shape, index in zip(SHAPES, ((1, 1024), (1, 1), (1, 100))):
        yield "take", [shape, index], {"axis": 0}
        yield "gather_nd", [shape, Whole((1, 1), 1)], {}
        yield "slice", [shape], {"begin": 0, "end": 1}
        yield "slice_axis", [shape], {"axis": 0, "begin": 0, "end": 1}
        yield "slice_like", [shape, (100, 1)], {"axes": (0, 1)}
        yield "where", [shape, shape, shape], {}
        yield "one_hot", [shape[:1]], {"depth": 10}
        yield "pick", [shape, shape[:1]], {"axis": 1}
        yield "batch_take", [shape, np.arange(shape[0], dtype="int32") % shape[1]], {}
        yield "_contrib_index_copy", [shape, Whole((1,), 1), (1,) + shape[1:]], {}
        yield "_contrib_boolean_mask", [shape, shape[:1]], {}
    yield "Embedding", [(1024, 16), (16, 9)], {"input_dim": 16, "output_dim": 9}
    yield "scatter_nd", [(1024,), Whole((1, 1024), 1024)], {"shape": (1024,)}
    yield "ravel_multi_index", [Whole((2, 1024), 10)], {"shape": (1024, 1024)}
    yield "unravel_index", [Whole((1024,), 1000)], {"shape": (1024, 1024)}


def shapes():
    for op in ("depth_to_space", "space_to_depth"):
        yield op, [(1, 4, 2, 4)], {"block_size": 2}
        yield op, [(10, 25, 10, 100)], {"block_size": 5}
    for shape in SHAPES:
        yield "transpose", [shape], {}
        yield "swapaxes", [shape], {"dim1": 0, "dim2": 1}
        for op in ("flip", "reverse"):
            yield op, [shape], {"axis": 0}
        yield "split", [shape], {"num_outputs": 1, "axis": 0}
        yield "_split_v2", [shape], {"indices": (0,), "sections": 2, "axis": 0}
        yield "squeeze", [(1,) + shape], {"axis": 0}
        yield "expand_dims", [shape], {"axis": 0}
        yield "reshape", [shape], {"shape": (shape[1], shape[0])}
        yield "reshape_like", [shape, (shape[1], shape[0])], {}
        yield "diag", [shape], {"k": 1} if shape[1] > 1 else {}
        yield "repeat", [shape], {"repeats": 2, "axis": 0}
        yield "tile", [shape], {"reps": 2}
        yield "concat", [shape] * 3, {"dim": 0}
        yield "stack", [shape] * 3, {}
        yield "broadcast_axis", [(1,) + shape], {"axis": 0, "size": 2}
        yield "broadcast_like", [(1, shape[1]), shape], {}
        yield "broadcast_to", [(1, shape[1])], {"shape": shape}
        yield "cumsum", [shape], {"axis": 0}
        yield "_contrib_arange_like", [shape], {"axis": 0}
    yield "pad", [(1, 4, 2, 4)], {"mode": "constant", "pad_width": (0, 0, 0, 0, 1, 1, 1, 1)}
    yield "pad", [(10, 25, 10, 100)], {"mode": "edge", "pad_width": (0, 0, 0, 0, 1, 1, 1, 1)}


def updates():
    """Steps of the optimizers, for each shape of weight; states are positive, as a variance is."""
    counts = {
        "sgd_update": 2, "sgd_mom_update": 3, "signsgd_update": 2, "signum_update": 3, "adam_update": 4, "ftml_update": 5, "ftrl_update": 4,
        "nag_mom_update": 3, "rmsprop_update": 3, "rmspropalex_update": 5, "lamb_update_phase1": 4,
    }  # fmt: skip
    more = {"ftml_update": {"t": 1}, "lamb_update_phase1": {"t": 1, "wd": 0.1}}
    for op, count in counts.items():
        for shape in SHAPES:
            attrs = {"wd": 0.1, **({} if op == "lamb_update_phase1" else {"lr": 0.1}), **more.get(op, {})}
            yield op, [shape] * count, attrs
    for op, count in (("mp_sgd_update", 2), ("mp_sgd_mom_update", 3), ("mp_nag_mom_update", 3), ("mp_lamb_update_phase1", 4)):
        attrs = {"t": 1, "wd": 0.1} if "lamb" in op else {"lr": 0.1}
        yield op, [SHAPES[0]] * (count + 1), attrs
    for ratio in ((1, 1024), (1,), (1, 1)):
        yield "lamb_update_phase2", [SHAPES[0], SHAPES[0], ratio, ratio], {"lr": 0.1}
        yield "mp_lamb_update_phase2", [SHAPES[0], SHAPES[0], ratio, ratio, SHAPES[0]], {"lr": 0.1}
    for op, count in (("multi_sgd_update", 2), ("multi_sgd_mom_update", 3), ("multi_mp_sgd_update", 3), ("multi_mp_sgd_mom_update", 4)):
        yield op, [SHAPES[0]] * 2 * count, {"num_weights": 2, "lrs": (0.1, 0.1), "wds": (0.2, 0.2)}
    for op, count in (("preloaded_multi_sgd_update", 2), ("preloaded_multi_sgd_mom_update", 3)):
        rates = [np.array([0.1, 0.1], "float32")] * 2
        yield op, [SHAPES[0]] * 2 * count + rates, {"num_weights": 2}
    yield "multi_all_finite", [SHAPES[0]] * 2, {"num_arrays": 2}
    yield "multi_sum_sq", [SHAPES[0]] * 2, {"num_arrays": 2}
    yield "multi_lars", [(2,)] * 4, {"eta": 0.1, "eps": 0.1}
    yield "all_finite", [SHAPES[0]], {}
    yield "reset_arrays", [SHAPES[0]] * 2, {"num_arrays": 2}


def convolutions():
    for kind in ("avg", "max", "sum"):
        for globally in (False, True):
            more = {"pool_type": kind, "global_pool": globally}
            yield "Pooling", [(4, 3, 256)], {"kernel": (3,), "stride": (1,), "pad": (1,), **more}
            yield "Pooling", [(4, 3, 64, 64)], {"kernel": (3, 3), "stride": (1, 1), "pad": (0, 0), **more}
    yield "Convolution", [(4, 3, 256), (64, 3, 3), (64,)], {"kernel": (3,), "stride": (1,), "dilate": (1,), "pad": (0,), "num_filter": 64, "layout": "NCW"}
    yield "Convolution", [(4, 3, 64, 64), (64, 3, 3, 3), (64,)], {
        "kernel": (3, 3), "stride": (1, 1), "dilate": (1, 1), "pad": (0, 0), "num_filter": 64, "layout": "NCHW"}  # fmt: skip
    yield "Deconvolution", [(4, 3, 256), (3, 64, 3), (64,)], {"kernel": (3,), "stride": (1,), "pad": (0,), "adj": (0,), "num_filter": 64, "no_bias": False}
    yield "Deconvolution", [(4, 3, 32, 32), (3, 16, 3, 3), (16,)], {
        "kernel": (3, 3), "stride": (1, 1), "pad": (0, 0), "num_filter": 16, "no_bias": False, "layout": "NCHW"}  # fmt: skip
    for kernel in ((3,), (3, 3)):
        ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
        yield "im2col", [(4, 3, 64, 64)], {"kernel": kernel, "stride": ones, "dilate": ones, "pad": zeros}
    yield "col2im", [(4, 64, 256)], {"output_size": (16, 16), "kernel": (1, 1), "stride": (1, 1)}
    yield "col2im", [(4, 64, 256)], {"output_size": (32, 8), "kernel": (1, 1), "stride": (1, 1), "pad": (0, 0)}


def activations():
    for shape in SHAPES:
        for kind in ("leaky", "elu", "selu", "gelu"):
            yield "LeakyReLU", [shape], {"act_type": kind, "slope": 0.1}
        yield "LeakyReLU", [shape, (1,)], {"act_type": "prelu"}
        for kind in ("relu", "sigmoid", "softrelu", "softsign", "tanh"):
            yield "Activation", [shape], {"act_type": kind}
        yield "hard_sigmoid", [shape], {"alpha": 0.25, "beta": 0.5}
        for op in ("softmax", "log_softmax", "softmin"):
            yield op, [shape], {"axis": -1, "temperature": 0.5}
        yield "SoftmaxActivation", [shape], {}


def layers():
    for flatten, weight in ((True, (64, 3 * 64 * 64)), (False, (64, 64))):
        yield "FullyConnected", [IMAGES[0], weight, (64,)], {"num_hidden": 64, "flatten": flatten}
        yield "FullyConnected", [IMAGES[0], weight], {"num_hidden": 64, "flatten": flatten, "no_bias": True}
    for shape in IMAGES:
        channels = shape[1:2]
        yield "BatchNorm", [shape] + [channels] * 4, {}
        yield "_contrib_SyncBatchNorm", [shape] + [channels] * 4, {"key": "k%d" % shape[2]}
        yield "InstanceNorm", [shape] + [channels] * 2, {}
        yield "LayerNorm", [shape, shape[:1], shape[:1]], {"axis": 0}
        yield "GroupNorm", [shape, (1,), (1,)], {"num_groups": 1}
        yield "LRN", [shape], {"nsize": 3}
        for mode in ("channel", "instance", "spatial"):
            yield "L2Normalization", [shape], {"mode": mode}
        for mode in ("training", "always"):
            yield "Dropout", [shape], {"p": 0.5, "mode": mode}
        yield "SoftmaxOutput", [shape, (shape[0],) + shape[2:]], {"multi_output": True}
        for op in "LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput".split():
            yield op, [shape, shape], {}
    yield "SVMOutput", [(4, 30), (4,)], {}
    yield "SoftmaxOutput", [(4, 30), (4,)], {}
    for mode, gates in (("rnn_relu", 1), ("rnn_tanh", 1), ("lstm", 4), ("gru", 3)):
        states = [(1, 4, 8)] * (2 if mode == "lstm" else 1)
        yield "RNN", [(32, 4, 4), (gates * 8 * (4 + 8 + 2),)] + states, {"mode": mode, "state_size": 8, "num_layers": 1}
    yield "Correlation", [(4, 3, 32, 32)] * 2, {"kernel_size": 3, "max_displacement": 2, "stride1": 2, "stride2": 2}
    yield "BilinearSampler", [(4, 2, 64, 64)] * 2, {}
    yield "GridGenerator", [(4, 2, 64, 64)], {"transform_type": "warp", "target_shape": (64, 6)}
    yield "GridGenerator", [(64, 6)], {"transform_type": "affine", "target_shape": (64, 6)}
    yield "SpatialTransformer", [(4, 2, 64, 6), (4, 6)], {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": (64, 6)}
    yield "UpSampling", [(4, 3, 32, 10)], {"scale": 4, "sample_type": "nearest"}
    yield "UpSampling", [(4, 3, 32, 10), (3, 1, 4, 4)], {"scale": 2, "sample_type": "bilinear", "num_filter": 3, "num_args": 2}
    regions = np.random.RandomState(3).uniform(-0.9, 0.9, (32, 5)) * [1, 20, 20, 60, 60]
    yield "ROIPooling", [(4, 3, 64, 64), regions.astype("float32")], {"pooled_size": (2, 2), "spatial_scale": 0.5}
    yield "Crop", [(4, 3, 64, 64)], {"h_w": (2, 2), "num_args": 1}
    yield "_contrib_BilinearResize2D", [(4, 3, 64, 64)], {"height": 32, "width": 48}
    yield "_contrib_AdaptiveAvgPooling2D", [(4, 3, 64, 64)], {"output_size": 7}
    yield "_contrib_ROIAlign", [(4, 3, 64, 64), np.array([[0, 1, 1, 30, 40]], "float32")], {"pooled_size": (2, 2), "spatial_scale": 0.5}
    # SequenceLast is omitted, because its gradient crashes MXNet.
    for op in "SequenceMask SequenceReverse".split():
        yield op, [(128, 32, 16)], {}
        yield op, [(128, 32, 16), np.arange(1, 33, dtype="float32")], {"use_sequence_length": True}


def losses():
    yield "smooth_l1", [SHAPES[2]], {"scalar": 0.1}
    yield "softmax_cross_entropy", [(1024, 100), Whole((1024,), 100)], {}
    # The benchmark's labels are normally distributed: MXNet reads probabilities at negative indices.
    yield "CTCLoss", [(50, 10, 20), Whole((10, 10), 19)], {"blank_label": "last"}
    yield "CTCLoss", [(50, 10, 20), np.tile(np.array([3, 5, -1, -1], "float32"), (10, 1))], {"blank_label": "last"}
    # MXNet counts labels that equal the blank twice (docs/differences.md).
    yield "CTCLoss", [(50, 10, 20), (np.arange(100, dtype="float32") % 19 + 1).reshape(10, 10)], {}
    yield "ctc_loss", [(50, 10, 20), Whole((10, 10), 20)], {}


def linear_algebra():
    square, n = (128, 128), 128
    positive = np.eye(n, dtype="float32") * n + 1
    lower = np.tril(np.ones(square, "float32")) + n * np.eye(n, dtype="float32")
    for op in "det inverse potrf potri slogdet sumlogdiag".split():
        yield "linalg_" + op, [lower if op == "potri" else positive], {}
    for op in "extractdiag extracttrian gelqf".split():
        yield "linalg_" + op, [square], {}
    yield "linalg_makediag", [(128,)], {}
    yield "linalg_maketrian", [(136,)], {}
    yield "linalg_syrk", [square], {"transpose": False}
    yield "linalg_syevd", [positive + np.diag(np.arange(n)).astype("float32")], {}
    yield "linalg_gemm", [square] * 3, {}
    yield "linalg_gemm2", [square] * 2, {}
    yield "linalg_trmm", [lower, square], {}
    yield "linalg_trsm", [lower, square], {}


def others():
    yield "_histogram", [SHAPES[2]], {"bin_cnt": 10, "range": (-1, 1)}
    yield "_contrib_quadratic", [SHAPES[0]], {"a": 1, "b": 2, "c": 3}
    yield "_contrib_div_sqrt_dim", [SHAPES[0]], {}
    yield "_contrib_allclose", [SHAPES[0], SHAPES[0]], {}
    yield "_contrib_box_iou", [(64, 4), (64, 4)], {}
    yield "_contrib_box_nms", [(64, 6)], {}
    yield "cast_storage", [SHAPES[1]], {"stype": "csr"}
    yield "linalg_gemm2", [(4, 16, 16)] * 2, {"transpose_a": True}


CATEGORIES = (unary, binary, products, random_numbers, reductions, sorting, indexing, shapes, updates, convolutions, activations, layers,
              losses, linear_algebra, others)  # fmt: skip
# Results that are random, and vectors whose signs depend on the LAPACK.
SHAPE_ONLY = ("random_", "sample_", "_like", "shuffle", "Dropout", "linalg_syevd", "linalg_gelqf")
# MXNet does not differentiate these, or not with respect to labels; FerroMX does.
NOT_DIFFERENTIATED = ("batch_take", "shuffle", "softmax_cross_entropy")
# MXNet forgets to write one of the states (docs/differences.md).
STATES_DIFFER = ("mp_lamb_update_phase2",)


def function(op):
    spaces = (nd, nd.contrib, nd.linalg, nd.sparse, nd.random, nd._internal)
    names = (op, op.replace("_contrib_", ""), op.replace("_sparse_", ""), op.replace("linalg_", ""), "_" + op)
    return next(getattr(space, name) for space in spaces for name in names if hasattr(space, name))


def array(described, positive, rng):
    if isinstance(described, np.ndarray):
        return nd.array(described, dtype=described.dtype)
    if isinstance(described, Whole):
        return nd.array(rng.randint(0, described.bound, described.shape))
    values = rng.normal(size=described)
    return nd.array(np.abs(values) + 0.1 if positive else values)


def sample(x):
    """Evenly spaced elements of an array."""
    flat = x.asnumpy().reshape(-1)
    return flat[:: max(1, flat.size // RECORDED)]


def run(name, op, described, attrs, is_update):
    rng = np.random.RandomState(7)
    inputs = [array(d, is_update and i > 1, rng) for i, d in enumerate(described)]
    if op.startswith(("mp_", "multi_mp")):
        return run_mixed(name, op, inputs, attrs)
    # MXNet's gradient of selu is wrong (docs/differences.md).
    is_left_out = is_update or op in NOT_DIFFERENTIATED or attrs.get("act_type") == "selu"
    differentiated = [] if is_left_out else inputs
    for x in differentiated:
        x.attach_grad()
    with autograd.record(train_mode=not is_update):
        outputs = function(op)(*inputs, **attrs, **given_outputs(op, inputs, attrs))
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    keep(name, op, outputs)
    if is_update:
        keep(name + " states", op, inputs)
    if not differentiated:
        return
    try:
        autograd.backward(outputs)
        keep(name + " gradients", op, [x.grad for x in inputs])
    except (mx.base.MXNetError, ValueError):
        # Calls that MXNet cannot differentiate are only run forward.
        record(name + " has gradients", False)


def given_outputs(op, inputs, attrs):
    """Multi-tensor updates need outputs, since MXNet does not infer their shapes: the weights."""
    count = attrs.get("num_weights")
    if not count:
        return {}
    each = len(inputs) // count
    return {"out": [inputs[i * each] for i in range(count)]}


def run_mixed(name, op, inputs, attrs):
    """Steps that keep a copy of the weight in single precision: weights and gradients are of half precision."""
    count = attrs.get("num_weights", 1)
    each = len(inputs) // count
    halves = (0,) if op == "mp_lamb_update_phase2" else (0, 1)
    inputs = [x.astype("float16") if i % each in halves else x for i, x in enumerate(inputs)]
    outputs = function(op)(*inputs, **attrs, **given_outputs(op, inputs, attrs))
    keep(name, op, outputs if isinstance(outputs, (list, tuple)) else [outputs])
    if op not in STATES_DIFFER:
        keep(name + " states", op, inputs)


def keep(name, op, arrays):
    for i, x in enumerate(arrays):
        record("%s %d shape" % (name, i), x.shape)
        if not any(word in op for word in SHAPE_ONLY):
            # With equal head gradients those of gamma are sums that cancel.
            record("%s %d" % (name, i), sample(x), within=1e-3 if "Norm" in op else 0)


def main():
    for category in CATEGORIES:
        for number, (op, described, attrs) in enumerate(category()):
            name = "%s/%s/%d" % (category.__name__, op, number)
            try:
                run(name, op, described, attrs, category is updates)
            except Exception as error:  # noqa: BLE001: refused calls are counted, and must be refused by both
                print(name, type(error).__name__, str(error).split("Stack trace")[0][:300].replace("\n", " "))
                record(name + " runs", False)


main()
