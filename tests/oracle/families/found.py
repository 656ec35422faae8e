"""Calls that the comparison of random calls (`tests/oracle/differ`) found to differ."""

import numpy as np

from cases import FLOATS, OpCase, data, whole


def cases():
    yield from numpy_calls()
    yield from integer_gradients()
    yield from matrices()
    yield from detection()
    yield from conversions()
    yield from edges()
    yield from truth_values()
    yield from special_values()
    yield from unusual_shapes()
    yield from spellings()
    yield from maxima_of_nan()
    yield from unusual_values()


def plain(op, inputs, attrs=None, **more):
    return OpCase(op, inputs, attrs or {}, np_shape=True, **more)


def numpy_calls():
    a = data((2, 3))
    for axis in ("None", (0, 0), (0, 0, 0), (1, 0, 1)):
        yield plain("_npi_flip", [a], {"axis": axis}, train=True, grad="all")
    yield plain("_npi_flip", [data(())], {"axis": (0,)}, why="no axes")
    for attrs, obj in (({"start": 1}, [0, 2]), ({"stop": 2}, [1]), ({"step": 1}, None), ({"start": 1, "step": 1}, None)):
        inputs = [a] if obj is None else [a, np.array(obj, "int64")]
        yield plain("_npi_delete", inputs, dict(attrs, axis=1), imperative=True)
    yield plain("_npi_bincount", [np.array([3, 1], "int32")], {"minlength": -1}, imperative=True)
    everything = {"return_index": True, "return_inverse": True, "return_counts": True}
    for shape, attrs in (((3, 0), {"axis": 0}), ((0, 3), {"axis": 1}), ((0,), {}), ((0, 3), everything)):
        yield plain("_npi_unique", [np.zeros(shape, "float32")], attrs, imperative=True)
    for dtype in FLOATS:
        x = np.array([1, -1, 2, -2, 3, -3, np.nan, 0.0, -0.0], dtype)
        signs = np.array([np.nan, np.nan, -0.0, -0.0, 0.0, 0.0, -1, -1, 1], dtype)
        yield plain("_npi_copysign", [x, signs])
    for scalar in ("-0.0", "0", "2"):
        yield plain("_npi_copysign_scalar", [data((6,))], {"scalar": scalar})
        yield plain("_npi_rcopysign_scalar", [np.array([0.0, -0.0, np.nan, -1], "float32")], {"scalar": scalar})
    for pvals in ((0.5, 0.5, 0.3), (0.5, 0.2, 0.1), (1.5,)):
        yield plain("_npi_multinomial", [np.array(pvals)], {"n": 4}, compare="shape")
    for op, dim in (("_npi_hstack", 0), ("_npi_hstack", -2), ("_npi_dstack", 0), ("_npi_dstack", 7)):
        yield plain(op, [a, data((2, 3), seed=1)], {"num_args": 2, "dim": dim})


def integer_gradients():
    """The gradient of a result of another type is truncated to the array's type before it is divided."""
    x = whole((2, 3), lo=1, hi=4)
    for op in ("_np_sum", "_np_prod", "_npi_mean"):
        for dtype in ("float16", "float64", "int32"):
            for of in ("uint8", "int32", "float32"):
                head = np.array([1.5, -3, 7]).astype(dtype)
                yield plain(op, [x.astype(of)], {"axis": 0, "dtype": dtype}, train=True, grad="all", head=[head])


def matrices():
    for matrix in ([[4, 1], [np.nan, 3]], [[np.inf, 1], [1, 3]], [[-1, 1], [1, 3]], [[0, 0], [0, 1]]):
        for op in ("_linalg_potrf", "_npi_cholesky"):
            yield plain(op, [np.array(matrix, "float32")])
    for op in ("_random_pdf_negative_binomial", "_random_pdf_gamma", "_random_pdf_normal"):
        parameters = [np.array([1.5, 3], "float32"), np.array([0.25, 0.5], "float32")]
        yield plain(op, [np.zeros((2, 0), "float32")] + parameters, train=True, grad="all")


def detection():
    for offsets in ((1.5, 0.5), (0.5, -1), (0, 1)):
        yield OpCase("_contrib_MultiBoxPrior", [data((1, 1, 2, 2))], {"offsets": offsets})
    rois = np.array([[0, 0, 0, 3, 3]], "float32")
    for scale in ("-0.25", "1.5", "1"):
        yield OpCase("_contrib_ROIAlign", [data((1, 4, 4, 4)), rois], {"pooled_size": (2, 2), "spatial_scale": scale})
        pooled = {"pooled_size": 2, "output_dim": 1, "spatial_scale": scale}
        yield OpCase("_contrib_PSROIPooling", [data((1, 4, 4, 4)), rois], pooled)


def conversions():
    """Integers from infinities, from numbers just below them, and logarithms that are exactly 0."""
    numbers = np.array([0, 1, 2, -1, 3], "int8")
    for dtype in ("int8", "uint8", "int32", "int64", "bool"):
        for scalar in ("1.5", "-2", "0"):
            yield OpCase("_rdiv_scalar", [numbers.astype(dtype)], {"scalar": scalar})
    for op in ("_npi_hanning", "_npi_hamming", "_npi_blackman"):
        for dtype in ("int32", "float32", "float64"):
            yield plain(op, [], {"M": 9, "dtype": dtype})
    for dtype in FLOATS:
        yield OpCase("gammaln", [np.array([1, 2, 3, 4.5], dtype)])
    heads = [np.array([[1, -0.5, 0], [0.25, 0, 0]], "float16")]
    truths = np.array([[True, True, False], [True, False, True]])
    yield plain("_np_cumsum", [truths], {"axis": 1, "dtype": "float16"}, train=True, grad="all", head=heads)


def edges():
    for shape in ((3,), (3, 3), (3, 4), (4, 3), (2, 5), (2, 3, 4), (0, 0), (0, 3), ()):
        yield plain("_npi_identity", [], {"shape": shape})
    step = [data((2, 3)), data((2, 3), seed=1), np.zeros((2, 3), "float32"), np.zeros((2, 3), "float32")]
    for rescale_grad in ([2], [2, 3], [[2, 3, 4]]):
        yield OpCase("_adamw_update", step + [np.array(rescale_grad, "float32")], {"lr": "0.5", "eta": 1, "wd": "0.125"})
    for count in (3, 4):
        rows = [np.zeros((3, 2), "float32"), np.zeros(count, "int32"), data((count, 2))]
        yield OpCase("_contrib_index_copy", rows, why="%d indices for 3 rows" % count)
    yield plain("_contrib_AdaptiveAvgPooling2D", [np.zeros((1, 2, 5, 0), "float32")], {"output_size": (2, 2)})
    scales = {"scale_height": "1.5", "scale_width": "0.5", "mode": "to_even_up"}
    yield plain("_contrib_BilinearResize2D", [np.zeros((1, 2, 0, 7), "float32")], scales)
    scores = data((1, 2, 4)) + 0
    scores[0, 1, 3] = np.nan
    yield OpCase("CTCLoss", [scores, np.array([[1], [3]], "float32")], train=True, grad=("data",))
    boxes = np.array([[0.25, 0.9, 0, 0, 1, 1], [0.75, 0.8, 0, 0, 1, 0.875], [1.5, 0.7, 0, 0, 1, 1], [-0.5, 0.6, 0, 0, 1, 1]], "float32")
    for background in (-1, 0, 1):
        yield OpCase("_contrib_box_nms", [boxes], {"id_index": 0, "background_id": background}, why="classes with fractions")
    for rescale_grad in ("-1", "0"):
        yield OpCase("signsgd_update", [data((2, 3)), data((2, 3), seed=1)], {"lr": "0.25", "wd": "0.5", "rescale_grad": rescale_grad})
    yield OpCase("SoftmaxActivation", [data((3, 2))], {"mode": "channel"}, why="too few axes")
    yield plain("Dropout", [np.zeros((0, 3), "float16")], {"p": "0.5"}, train=True)
    channels = [np.array(x, "float32") for x in ([1.5, 0.5], [0.25, -0.5], [0.5, -1], [1, 2])]
    for ndev in (4, 0):
        shared = {"key": "shared", "ndev": ndev, "fix_gamma": 0, "eps": "0.125"}
        yield OpCase("_contrib_SyncBatchNorm", [data((3, 2, 2))] + channels, shared)


def truth_values():
    """Gradients of arrays of type bool: a sum of truth values is true if one of them is."""
    truths = np.array([[True, True, False], [True, False, True]])
    heads = [np.array([[1, -0.5, 0], [0, 0, 0]], "float32")]
    for req in ("write", "add"):
        graded = {"train": True, "grad": "all", "req": req}
        yield OpCase("Cast", [truths], {"dtype": "float32"}, head=heads, **graded)
        for attrs in ({}, {"axis": 0}, {"axis": 1, "keepdims": True}):
            yield OpCase("sum", [truths], attrs, **graded)
        for op in ("_np_copy", "Flatten"):
            yield plain(op, [truths], **graded)
    for dtype in ("float32", "float64", "int32"):
        heads = [np.array([[1, -0.5, 0.5], [-1, 1, -1]]).astype(dtype)]
        for axis in (0, 1):
            yield plain("_np_cumsum", [truths], {"axis": axis, "dtype": dtype}, train=True, grad="all", head=heads)


def special_values():
    numbers = [np.nan, np.inf, -np.inf, 1, -1]
    for dtype in ("int8", "uint8"):
        bounds = [np.array([-2], "float32"), np.array([3], "float32")]
        yield OpCase("_contrib_quantize", [np.array(numbers, "float32")] + bounds, {"out_type": dtype})
    points = [np.array([[1, 2, 1], [2, 0, 3]], "float32"), np.array([-1.5, 2], "float32"), np.array([0.5, -0.25], "float32")]
    for op in ("_random_pdf_negative_binomial", "_random_pdf_generalized_negative_binomial"):
        yield OpCase(op, points, train=True, grad=["sample"])
    for dtype in FLOATS:
        x = np.array([np.nan, 1, np.nan, -1, -0.0, 0.0], dtype)
        y = np.array([1, np.nan, -1, np.nan, 0.0, -0.0], dtype)
        yield plain("_npi_copysign", [x, y], train=True, grad="all")
    yield OpCase("arcsinh", [np.array([1e30, -1e20, 1e10, 3], "float32")], train=True, grad="all")
    step = [np.array(x, "float32") for x in ([1, np.inf, 1, 1], [1, 1, np.inf, 1], [1, 1, 1, np.inf])]
    for momentum in ("0.9", "0"):
        for wd in ("0.125", "0"):
            yield OpCase("nag_mom_update", step, {"lr": "0.25", "momentum": momentum, "wd": wd})
    for mode in ("wrap", "clip"):
        yield OpCase("pick", [data((6, 9)), np.array([np.nan, 1e30, -1e30, 3e9, -3e9, 4], "float32")], {"mode": mode})
        yield OpCase("pick", [data((2, 9)), np.array([2**32 + 4, -(2**31) - 1], "int64")], {"mode": mode})
    rows = np.array([[1, 1e30, 3, 4], [1, 2, 3, 4]], "float32")
    yield OpCase("LayerNorm", [rows, data((4,)), data((4,), seed=1)], train=True, grad="all")
    yield OpCase("InstanceNorm", [rows[None], data((2,)), data((2,), seed=1)], train=True, grad="all")
    channels = [np.array(x, "float32") for x in ([1.5, 0.5], [0.25, -0.5], [0.5, -1], [1, 2])]
    nan = np.array([[np.nan, 1], [2, 3]], "float32")
    # In training mode, because a Scala executor always runs the backward pass in training mode.
    yield OpCase("BatchNorm", [nan] + channels, {"fix_gamma": False, "use_global_stats": True}, train=True, grad="all")
    for corners in ((np.inf, 0, 3, 3), (0, 0, np.inf, 3), (-np.inf, 0, 2, 3), (0, 0, np.nan, 3), (0, 0, -np.inf, 3)):
        roi = np.array([[0, *corners]], "float32")
        yield OpCase("_contrib_ROIAlign", [data((1, 1, 4, 4)), roi], {"pooled_size": (2, 2), "spatial_scale": "1"})


def unusual_shapes():
    for dtype in ("int32", "uint8"):
        coefficients, x = whole(3, dtype, lo=1), whole(4, dtype, lo=1)
        yield plain("_npi_polyval", [coefficients, x], train=True, grad="all", req="add")
    everything = {"return_index": True, "return_inverse": True, "return_counts": True}
    for axis in (0, -1, 1):
        yield plain("_npi_unique", [np.array(1.5, "float32")], {"axis": axis, **everything}, imperative=True)
    for op in ("_npi_argmax", "_npi_argmin", "argmax", "argmin"):
        for axis in (0, 1):
            yield plain(op, [np.zeros((2, 0), "float32")], {"axis": axis})
        yield plain(op, [np.zeros((0, 0), "float32")], {"axis": 1}, why="no elements to compare")
    for shape in ((), (1,), (1, 1), (2,)):
        yield plain("Reshape", [data(shape)], train=True, grad="all")
    for channels in (1, 2, 3, 4, 5):
        image = (np.arange(24 * channels) ** 2 % 251).astype("uint8").reshape((4, 6, channels))
        for interp in (1, 3):
            yield OpCase("_image_resize", [image], {"size": (3, 2), "interp": interp})
    for kernel in (1, 3):
        for stride in (1, 2):
            for groups in (1, 2):
                attrs = {"kernel": (kernel, kernel), "pad": (2, 2), "stride": (stride, stride), "num_filter": 2, "num_group": groups}
                arrays = [np.zeros((2, 2, 5, 0), "float32"), data((2, 2 // groups, kernel, kernel)), data((2,))]
                yield plain("Convolution", arrays, attrs, train=True, grad="all")
    empty = [np.zeros((2, 2, 0), "float32"), np.zeros((0, 2, 3), "float32")]
    for op, arrays in (("_linalg_gemm2", empty), ("_linalg_gemm", empty + [data((2, 2, 3))])):
        yield plain(op, arrays, {"axis": 0}, train=True, grad="all")
    attrs = {"kernel": (3,), "num_filter": 1, "no_bias": True, "target_shape": (3,)}
    yield plain("Deconvolution", [np.zeros((1, 2, 0), "float32"), data((2, 1, 3))], attrs, why="too large a target")


def spellings():
    """Texts of parameters in other forms."""
    x = data((2, 3))
    for text in ("[2, 1)", "(2 L, 1)", " (2, 1)", "(2, 1) ", "2, 1", "", "(2, 1", "(2,, 1)"):
        yield OpCase("tile", [x], {"reps": text})
    for text in (" 1", "1 ", "+1", "01", "1L", "1.0", "True", "1,", ""):
        yield OpCase("softmax", [x], {"axis": text})
    for text in (" 0.5", "+.5", "0.5f", "5e-1", "0.5 ", "True", "0.5,", ""):
        yield OpCase("LeakyReLU", [x], {"act_type": "leaky", "slope": text})
    yield OpCase("Crop", [data((1, 2, 3, 4))], {"num_args": " 1", "h_w": "(2, 2)"})


def maxima_of_nan():
    x = data((1, 2, 4, 5))
    x[0, 0, 1, 2] = x[0, 1, 3, 4] = np.nan
    strided = {"kernel": (2, 2), "stride": (2, 2), "pooling_convention": "full"}
    for attrs in ({"kernel": (2, 2)}, strided, {"kernel": (3, 3), "pad": (1, 1)}, {"global_pool": "1"}):
        yield OpCase("Pooling_v1", [x], dict(attrs, pool_type="max"), train=True, grad="all")
    for shape in ((0, 3), (2, 0), (2, 0, 3)):
        yield plain("LeakyReLU", [np.zeros(shape, "float32"), data(3)], {"act_type": "prelu"}, train=True, grad="all")


def unusual_values():
    numbers = data((4,))
    for dtype in ("float32", "float64", "int32"):
        for index in (-1, -0.75, -0.25, 0.75, 3, 3.25, 4):
            if dtype != "int32" or index == int(index):
                yield OpCase("take", [numbers, np.array([0, index], dtype)], {"mode": "raise"}, imperative=True)
    regions = np.array([[image, 0, 0, 3, 3] for image in (-5, -1, -0.5, 0, 1.5, 2, 7, np.nan)], "float32")
    yield OpCase("ROIPooling", [data((2, 2, 4, 4)), regions], {"pooled_size": (2, 2), "spatial_scale": "1"}, train=True, grad=["data"])
    for dtype in ("float32", "float64"):
        scores, label = np.array(2, dtype), np.array(1, dtype)
        for attrs in ({}, {"use_linear": True}):
            yield plain("SVMOutput", [scores, label], attrs, train=True, grad=["data"])
            yield plain("SVMOutput", [scores, np.array(0, dtype)], attrs, train=True, grad=["data"])
    for dtype in ("float32", "float64", "int32", "int64", "uint8"):
        yield plain("_histogram", [np.array([0, 1, 2], dtype)], {"bin_cnt": 0, "range": (0, 4)})
    yield OpCase("_histogram", [numbers], {"bin_cnt": -1, "range": (0, 4)}, why="a negative number of bins")
    matrix = data((2, 3))
    for attrs in ({"step": 3}, {"step": 2, "start": 1}, {"step": -1, "stop": 0}, {"start": 0, "stop": 1}):
        yield plain("_npi_delete", [matrix], dict(attrs, int_ind=2, axis=1), imperative=True, why="a slice precedes an index")
    pooled = {"spatial_scale": "1", "output_dim": 1, "group_size": 1, "pooled_size": 2, "sample_per_part": 1}
    arrays = [data((1, 1, 4, 4)), np.array([[0, 0, 0, 3, 3]], "float32"), data((1, 2, 2, 2))]
    for scale in (-0.5, 0.0, 1.0, 1.5):
        yield OpCase("_contrib_DeformablePSROIPooling", arrays, dict(pooled, part_size=2, trans_std=scale), imperative=True)
    for text in ("L ", " L", "LL", "L x", ""):
        yield plain("_npi_eigvalsh", [np.array([[2, 1], [1, 3]], "float64")], {"UPLO": text})
