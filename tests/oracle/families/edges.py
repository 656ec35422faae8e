"""Edge cases: arrays without elements, special numbers, and unusual parameters and shapes that MXNet accepts."""

import numpy as np

from cases import INTS, OpCase, data, special, whole


def cases():
    yield from empty()
    yield from special_numbers()
    yield from integers()
    yield from repeated()
    yield from unknown_parameters()
    yield from odd_shapes()
    yield from long_tuples()
    yield from functions_of_integers()
    yield from repeated_axes()
    yield from mixed_types()
    yield from bounds_of_integers()
    yield from infinite_statistics()
    yield from lengths_of_zero()
    yield from unequal_rows()


def graded(op, inputs, attrs=None, **more):
    return OpCase(op, inputs, attrs or {}, train=True, grad="all", **more)


def empty():
    """Axes of length 0, and scalars."""
    for attrs in ({"indices": "(0, 1, 2)", "axis": "0"}, {"indices": "(0, 1)", "axis": "1"},
                  {"indices": "(0,)", "axis": "0", "sections": "3"}):
        for op in ("_npi_split", "_split_v2"):
            yield OpCase(op, [np.zeros((0, 0), "float32")], attrs, np_shape=True)
    for op in ("sum", "mean", "max", "norm"):
        yield OpCase(op, [np.array(3, "float32")], {"keepdims": "True"}, np_shape=True)
    yield OpCase("argmin", [np.array(3, "float32")], {"keepdims": "True"}, np_shape=True)
    yield OpCase("moments", [np.zeros((2, 0), "float32")], {"axes": "(0, 1)"}, np_shape=True)
    for op in ("_linalg_makediag", "_random_pdf_normal"):
        arrays = [np.zeros((2, 0), "float32")] + ([data(2), data(2, lo=1)] if "pdf" in op else [])
        yield graded(op, arrays, np_shape=True)
    yield OpCase("_eye", [], {"N": "0", "M": "3"}, np_shape=True)
    yield OpCase("_eye", [], {"N": "3", "M": "-1"})
    vector = data(3)
    yield graded("pick", [vector, whole(1, hi=2)])
    yield graded("pick", [vector, whole(1, hi=2)], {"keepdims": "True"})
    yield OpCase("pick", [vector, whole(1, hi=2)], np_shape=True)


def special_numbers():
    for op in ("relu", "sigmoid", "softsign", "gamma", "gammaln", "sqrt", "rsqrt", "abs", "log", "cbrt", "tanh"):
        yield graded(op, [special()])
    large = np.array([[1e30, 1e30], [3, 4]], "float32")
    yield OpCase("norm", [large], {"axis": "1"})
    yield OpCase("_npi_norm", [large], {"axis": "(1,)", "ord": "2"}, np_shape=True)
    yield OpCase("_npi_norm", [data((2, 4), lo=2, hi=5)], {"axis": "(1,)", "ord": "100"}, np_shape=True)


def integers():
    numbers = np.array([[5, -5, 7], [1, -1, 100]])
    divisors = np.array([[3, 3, 2], [2, -2, 7]])
    for dtype in INTS:
        x, y = [np.abs(v) if dtype == "uint8" else v for v in (numbers, divisors)]
        x, y = x.astype(dtype), y.astype(dtype)
        yield graded("broadcast_mod", [x, y])
        yield graded("_mod", [x, y])
        yield graded("_mod_scalar", [x], {"scalar": "3"})
        yield graded("_rmod_scalar", [x], {"scalar": "30"})
        yield graded("_mul_scalar", [x], {"scalar": "2.5"})
        yield graded("elemwise_div", [x, y])
        yield graded("square", [x])
        for low, high in ((-5, 150), (10, 300), (-300, 300), (-1.5, 1.5)):
            yield OpCase("clip", [x], {"a_min": str(low), "a_max": str(high)})
        yield graded("clip", [x], {"a_min": "-130", "a_max": "6"})
        for op in ("_np_sum", "_np_prod"):
            yield graded(op, [x], {"axis": "(1,)", "dtype": "float32"}, np_shape=True)
    for dtype in ("int32", "int64", "int8", "uint8"):
        for start, stop, num in ((0, 5, 3), (0, 10, 4), (5, 1, 4)):
            for endpoint in ("True", "False"):
                yield OpCase("_npi_linspace", [], {"start": str(start), "stop": str(stop), "num": str(num), "dtype": dtype,
                                                   "endpoint": endpoint}, np_shape=True)
    yield OpCase("_npi_flip", [data((2, 3))], {"axis": "None"}, np_shape=True)
    yield OpCase("_npi_flip", [data((2, 3))], {"axis": "()"}, np_shape=True)


def repeated():
    """Gradients of equal eigenvalues and singular values."""
    for matrix in (np.eye(3), np.diag([1.0, 2, 2])):
        yield graded("_linalg_syevd", [matrix], head=[np.ones((3, 3)), np.array([1.0, 2, 4])])
    for matrix in (np.eye(2), np.array([[2.0, 0, 0], [0, 2, 0]])):
        shapes = [(2, 2), (2,), matrix.shape]
        yield graded("_npi_svd", [matrix], head=[np.ones(s) for s in shapes], np_shape=True)


def unknown_parameters():
    """Operators without parameters do not look at any."""
    one = data((2, 3), lo=1)
    for op in ("relu", "exp", "gamma", "zeros_like", "BlockGrad", "Flatten", "shape_array"):
        yield OpCase(op, [one], {"axis": "1"})
    for op in ("elemwise_add", "broadcast_maximum", "_npi_add"):
        yield OpCase(op, [one, one], {"axis": "1"})


def odd_shapes():
    x = data((2, 3))
    yield OpCase("FullyConnected", [x, data((4, 3)), data((4, 1))], {"num_hidden": "4"})
    for other in ("int32", "float16", "uint8"):
        yield OpCase("slice_like", [data((3, 3)), np.ones((2, 2), other)])
    for gamma in ((1, 1), (1, 3)):
        yield graded("LeakyReLU", [x, data(gamma, lo=0)], {"act_type": "prelu"})
    for gamma in ((3,), ()):
        yield graded("LeakyReLU", [data(3), data(gamma, lo=0)], {"act_type": "prelu"}, np_shape=True)
    for op, more in (("lamb_update_phase2", 0), ("mp_lamb_update_phase2", 1)):
        for norms in ((1, 4), (2, 1)):
            yield OpCase(op, [x, x, data(norms, lo=1), data(norms, lo=1, seed=1)] + [x] * more, {"lr": "0.25"},
                         compare="data" if more == 0 else "first")
    labels = whole((2, 1, 2, 2), hi=2)
    scores = data((2, 3, 2, 2))
    yield graded("SoftmaxOutput", [scores, labels], {"multi_output": "True"})
    yield graded("SoftmaxOutput", [scores, np.abs(data(scores.shape, seed=1))], {"multi_output": "True"})
    for normalization in ("null", "batch", "valid"):
        yield graded("SoftmaxOutput", [x, np.abs(data((2, 3), seed=1))], {"normalization": normalization, "grad_scale": "0.5"})
    for attrs in ({}, {"pad": "(1,)"}, {"stride": "(2,)"}):
        yield graded("im2col", [data((2, 2, 3, 5))], {"kernel": "(2,)", **attrs})
    maps = data((2, 4, 5, 5))
    region = np.array([[-0.4, 0, 0, 3, 3], [1, 1, 1, 4, 4]], "float32")
    yield OpCase("ROIPooling", [maps, region], {"pooled_size": "(2, 2)", "spatial_scale": "1"})
    yield OpCase("_contrib_ROIAlign", [maps, region], {"pooled_size": "(2, 2)", "spatial_scale": "1"})
    yield OpCase("_contrib_PSROIPooling", [maps, region], {"output_dim": "1", "pooled_size": "2", "spatial_scale": "1"})
    lengths = [np.array([4, 4], "float32"), np.array([2, 2], "float32")]
    used = {"use_data_lengths": "True", "use_label_lengths": "True"}
    yield OpCase("CTCLoss", [data((4, 2, 5)), np.array([[0, 2, 3], [2, 0, 3]], "float32")] + lengths, used)
    rows = np.array([[-1, .5, .1, .1, .2, .2], [1, .4, .1, .1, .2, .2], [-2, .3, .3, .3, .4, .4], [2, .6, .5, .5, .7, .8]], "float32")
    for background in ("-1", "-2", "2"):
        yield OpCase("_contrib_box_nms", [rows], {"coord_start": "2", "score_index": "1", "id_index": "0",
                                                  "background_id": background})
    for scale in ("0.7", "1.3", "0.9"):
        for size in (5, 10, 7):
            yield OpCase("_contrib_BilinearResize2D", [data((1, 1, size, size))], {"scale_height": scale, "scale_width": scale})


def long_tuples():
    """More numbers than there are axes."""
    image = data((1, 2, 5, 4))
    for op in ("Pooling", "Pooling_v1"):
        yield OpCase(op, [image], {"kernel": "(2, 2)", "stride": "(1, 2, 3)", "pad": "(1, 0, 1)", "pool_type": "sum"})
    yield OpCase("Pooling", [data((1, 2, 6))], {"kernel": "(2,)", "pad": "(1, 1, 1)", "pool_type": "avg"})
    yield OpCase("_contrib_AdaptiveAvgPooling2D", [image], {"output_size": "(2, 3, 4)"})
    yield OpCase("GridGenerator", [data((2, 6))], {"transform_type": "affine", "target_shape": "(3, 2, 2)"})
    for target in ("(3, 2)", "(3, 2, 3)", "(3, 0)"):
        yield OpCase("Deconvolution", [data((1, 2, 3)), data((2, 1, 3))],
                     {"kernel": "(3,)", "num_filter": "1", "no_bias": "True", "target_shape": target})
    yield OpCase("Deconvolution", [data((1, 1, 3, 3)), data((1, 1, 3, 3))],
                 {"kernel": "(3, 3)", "num_filter": "1", "no_bias": "True", "target_shape": "(0,)"})


def functions_of_integers():
    """Integers are computed in double precision and truncated."""
    for dtype in INTS:
        x = np.array([0, 1, 2, 3, 5, 16, 19, 50, 100]).astype(dtype)
        for op in ("sigmoid", "tanh", "expm1", "erf", "sqrt", "cbrt", "arctan", "log1p"):
            yield OpCase(op, [x])
        yield OpCase("exp", [x[:6]])
        yield graded("sigmoid", [x])


def repeated_axes():
    """An axis that is given twice is reversed twice; no repetition leaves one axis."""
    for axes in ("(1, 1)", "(0, 1, 0)", "(1, 1, 1)"):
        yield graded("reverse", [data((2, 3))], {"axis": axes})
    for axis in ("0", "1", "None"):
        yield OpCase("repeat", [data((2, 3))], {"repeats": "0", "axis": axis}, np_shape=True)


def mixed_types():
    """Types of which some take no part in mixed precision; lengths for functions that do not take them."""
    for types in (("uint8", "float16"), ("float64", "float16"), ("float16", "uint8"), ("int32", "float32", "float16"), ("float16", "float64")):
        arrays = [np.array([1, 2], t) for t in types]
        for narrow in ("False", "True"):
            yield OpCase("amp_multicast", arrays, {"num_outputs": str(len(types)), "cast_narrow": narrow})
    for op in ("log_softmax", "softmin"):
        yield OpCase(op, [data((2, 3))], {"use_length": "True"})


def bounds_of_integers():
    """Bounds that are no integers, or that no element reaches."""
    numbers = {"int8": [4, -2, 3, 0, -4, -1, 127], "uint8": [4, 2, 0, 1, 255, 200, 199], "int32": [4, -2, 3, 0, -4, -1, 300]}
    for dtype, values in numbers.items():
        for low, high in (("-1", "-0.25"), ("-1.5", "1.5"), ("0.5", "200")):
            yield graded("clip", [np.array(values, dtype)], {"a_min": low, "a_max": high})


def infinite_statistics():
    """Infinities in windows, rows and channels."""
    rows = np.array([[1, 2, 3, 4], [-np.inf, 1e30, -1.5, 2], [np.inf, 1, 2, 3], [np.nan, 1, 2, 3]], "float32")
    ones = np.ones(4, "float32")
    yield OpCase("LayerNorm", [rows, ones, 0 * ones], {"output_mean_var": "True"})
    yield OpCase("LayerNorm", [np.repeat(rows, 20, axis=1), np.ones(80, "float32"), np.zeros(80, "float32")], {"output_mean_var": "True"})
    x, ones = data((2, 2, 3)), np.ones(2, "float32")
    means, variances = np.array([np.inf, 1], "float32"), np.array([1, np.inf], "float32")
    attrs = {"use_global_stats": "True", "fix_gamma": "False"}
    yield graded("BatchNorm", [x, ones, 0 * ones, means, variances], attrs)
    image = np.array([[[[-np.inf, -np.inf, 1, -np.inf, np.nan, 2]]]], "float32")
    for dtype in ("float32", "float16", "float64"):
        yield graded("Pooling", [image.astype(dtype)], {"kernel": "(1, 2)", "pool_type": "max"})
        beyond = {"kernel": "(3, 1)", "pad": "(1, 1)", "pool_type": "max", "pooling_convention": "full"}
        yield graded("Pooling", [data((1, 2, 3, 3), dtype)], beyond)
    regions = np.array([[0, 0, 0, 1, 0], [0, 0, 1, 1, 1]], "float32")
    image = np.array([[[[-np.inf, -np.inf], [np.nan, 1]]]], "float32")
    yield OpCase("ROIPooling", [image, regions], {"pooled_size": "(1, 2)", "spatial_scale": "1"}, train=True, grad=["data"])


def lengths_of_zero():
    """Lengths that parameters determine, in both semantics, and arrays without elements."""
    for op, attrs in (("_npi_blackman", {"M": "0"}), ("_npi_eye", {"N": "0"}), ("_npi_logspace", {"start": "0", "stop": "2", "num": "0"}),
                      ("_linspace", {"start": "0", "stop": "2", "num": "0"}), ("_npi_uniform", {"size": "(0, 2)", "low": "0", "high": "1"})):
        yield OpCase(op, [], attrs)
        yield OpCase(op, [], attrs, np_shape=True)
    for offset in ("-1", "0", "1"):
        for op in ("_linalg_makediag", "_linalg_maketrian"):
            yield graded(op, [np.zeros((2, 0), "float32")], {"offset": offset}, np_shape=True)
    nothing = np.zeros(0, "float32")
    yield OpCase("LayerNorm", [nothing.reshape((2, 0, 3)), nothing, nothing], {"axis": "1"}, np_shape=True, train=True, grad=["gamma", "beta"])
    yield OpCase("_contrib_arange_like", [data((2, 3))], {"start": "2", "step": "0"})
    yield OpCase("_np_squeeze", [data((1, 1, 2))], {"axis": "(0, -3)"}, np_shape=True)
    yield graded("_contrib_BilinearResize2D", [data((1, 2, 3, 2))], {"height": "5", "width": "3", "scale_width": "0.5"})
    boxes = [data((1, 3, 4), lo=0), data((1, 2, 5), lo=0), data((1, 2, 3))]
    yield OpCase("_contrib_MultiBoxTarget", boxes, {"negative_mining_ratio": "1", "negative_mining_thresh": "0"})


def unequal_rows():
    """Rows of which some are not finite, and arrays without elements that come with others."""
    x = data((2, 3, 2))
    x[0, 0, 1] = np.nan
    yield graded("LeakyReLU", [x, data(3, lo=0)], {"act_type": "prelu"})
    rows = data((3, 4), lo=2, hi=5)
    rows[1, 0], rows[2, 3] = -np.inf, np.nan
    yield OpCase("_npi_norm", [rows], {"axis": "(1,)", "ord": "100"}, np_shape=True)
    yield OpCase("_npi_norm", [np.zeros((2, 0, 4))], {"axis": "(0, 1)", "flag": "0"}, np_shape=True)
    nothing = np.zeros((0, 3, 4), "float32")
    yield OpCase("_npi_average", [nothing, data(3)], {"axis": "1"}, np_shape=True)
    yield graded("_npi_tensorsolve", [data(1), data(1)], np_shape=True)
    yield graded("prod", [np.array([[1, 0, np.nan, 2], [1, np.nan, 3, 2], [0, 0, np.nan, 2]], "float32")], {"axis": "1"})
    boxes = np.array([[0, 0.9, 0.1, 0.1, np.inf, 0.4], [0, 0.8, 0.1, 0.1, np.inf, 0.4], [0, 0.7, 0, 0, 1, 1], [0, 0.6, 0, 0, 1, 0.9]], "float32")
    yield graded("_contrib_box_nms", [boxes], {"overlap_thresh": "0.5"})
    for dtype in ("int32", "int64", "uint8", "float16", "float32"):
        for count, ends in (("10", "(0, 25)"), ("4", "(3, 20)"), ("10", "(-1.3, 2.9)")):
            if dtype != "uint8" or "-" not in ends:
                yield OpCase("_histogram", [np.arange(26).astype(dtype)], {"bin_cnt": count, "range": ends})
    for mode in ("constant", "edge", "reflect"):
        yield OpCase("_npi_pad", [data(3)], {"pad_width": "(1, 2)", "mode": mode}, np_shape=True)
