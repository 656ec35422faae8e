"""Layers on 8-bit integers. MXNet has many of them through oneDNN only, so this family runs with it."""

import numpy as np

from cases import OpCase, data

ONEDNN = True


def cases():
    yield from conversions()
    yield from calibration()
    yield from layers()
    yield from products()


def number(x):
    return np.array([x], "float32")


def integers(shape, dtype="int8", seed=0):
    low, high = (-127, 128) if dtype == "int8" else (0, 256)
    return np.random.RandomState(seed + 5).randint(low, high, shape).astype(dtype)


def sums(shape, seed=0):
    return np.random.RandomState(seed).randint(-50000, 50001, shape).astype("int32")


def conversions():
    numbers = data((5, 7), lo=-3, hi=3) * np.float32(1.01)
    for kind in ("int8", "uint8"):
        for low, high in ((-2, 3), (-4, 1), (0, 2)):
            yield OpCase("_contrib_quantize", [numbers, number(low), number(high)], {"out_type": kind})
        for dtype_range in ((-2, 3), (0, 1)):
            yield OpCase("_contrib_dequantize", [integers((4, 6), kind)] + [number(x) for x in dtype_range])
    yield OpCase("_contrib_quantize", [numbers, number(-1), number(1)], {"out_type": "auto"}, why="no such type")
    for kind in ("int8", "uint8", "auto"):
        for calibrated in ({}, {"min_calib_range": -1, "max_calib_range": 2}, {"min_calib_range": 0, "max_calib_range": 2},
                           {"min_calib_range": -5, "max_calib_range": 2}):
            yield OpCase("_contrib_quantize_v2", [numbers], dict(calibrated, out_type=kind))
            small = {k: v * 1e-5 for k, v in calibrated.items()}
            yield OpCase("_contrib_requantize", [sums((6, 9)), number(-3), number(3)], dict(small, out_type=kind))
    for kind in ("int8", "uint8"):
        yield OpCase("_contrib_quantize_v2", [integers((2, 3), kind)],
                     {"out_type": kind, "min_calib_range": -1, "max_calib_range": 2}, why="integers already")
        for given in ("int8", "uint8"):
            yield OpCase("_contrib_quantize_v2", [integers((2, 3), given)], {"out_type": kind}, why="integers already")
    yield OpCase("_contrib_requantize", [integers((2, 3)), number(-3), number(3)], why="8 bits already")


def calibration():
    for bins, merged in ((41, 15), (101, 31), (40, 15), (201, 51)):
        for seed in range(3):
            rng = np.random.RandomState(seed)
            numbers = (rng.randn(3000), rng.exponential(size=2000) - 1, rng.standard_cauchy(500))[seed]
            counts, edges = np.histogram(numbers, bins=bins, range=(-5, 5))
            # MXNet computes in single precision.
            yield OpCase("_contrib_calibrate_entropy", [counts.astype("float32"), edges.astype("float32")],
                         {"num_quantized_bins": merged}, rtol=1e-3)
    few = [np.ones(5, "float32"), np.arange(6, dtype="float32")]
    yield OpCase("_contrib_calibrate_entropy", few, {"num_quantized_bins": 7}, refuse=True, why="more quantized bins than bins")
    yield OpCase("_contrib_calibrate_entropy", [few[0], few[0]], {"num_quantized_bins": 3}, why="an edge is missing")


def layers():
    ends = [number(-2), number(3)]
    for dtype in ("int8", "uint8"):
        if dtype == "int8":
            yield OpCase("_contrib_quantized_act", [integers((3, 5), dtype)] + ends, {"act_type": "relu"})
        yield OpCase("_contrib_quantized_act", [integers((3, 5), dtype)] + ends, {"act_type": "tanh"}, why="not a rectifier")
        for shape in ((2, 3, 4), (3, 2), (2, 1, 3, 2)):
            yield OpCase("_contrib_quantized_flatten", [integers(shape, dtype)] + ends)
        for kind in ("max", "avg"):
            for attrs in ({"kernel": (2, 2)}, {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0)},
                          {"kernel": (2, 2), "stride": (2, 2), "pooling_convention": "full"},
                          {"kernel": (2, 2), "global_pool": True},
                          {"kernel": (3, 3), "pad": (1, 1), "count_include_pad": False}):
                yield OpCase("_contrib_quantized_pooling", [integers((2, 3, 5, 6), dtype)] + ends, dict(attrs, pool_type=kind))
        yield OpCase("_contrib_quantized_pooling", [integers((2, 3, 5, 6), dtype)] + ends,
                     {"kernel": (2, 2), "pool_type": "sum"}, why="no sums")
        two = [integers((2, 3, 2), dtype), integers((2, 3, 2), dtype, 1)]
        for ranges in ((-2, 3, -1, 1), (-1, 1, -4, 2), (-1, 1, -1, 1)):
            for dim in (0, 1):
                yield OpCase("_contrib_quantized_concat", two + [number(x) for x in ranges], {"num_args": 2, "dim": dim})
    for index in ("float32", "int32"):
        yield OpCase("_contrib_quantized_embedding", [np.array([[2, 0], [1, 1]], index), integers((3, 4))] + ends,
                     {"input_dim": 3, "output_dim": 4})
    for dtype in ("int8", "uint8"):
        state = [data((3,), seed=s, lo=0.5, hi=2) for s in range(4)]
        inputs = [integers((2, 3, 4, 4), dtype)] + state + ends
        yield OpCase("_contrib_quantized_batch_norm", inputs, {"min_calib_range": -4, "max_calib_range": 4, "fix_gamma": False},
                     compare="shape", why="oneDNN rounds the weights too")


def products():
    ends = [number(-2), number(3), number(-1), number(0.5)]
    for dtype in ("int8", "uint8"):
        for shape, hidden, flatten in (((2, 12), 4, True), ((3, 2, 5), 3, True), ((1, 70), 17, True)):
            features = int(np.prod(shape[1:])) if flatten else shape[-1]
            weight = integers((hidden, features), seed=1)
            attrs = {"num_hidden": hidden, "flatten": flatten}
            yield OpCase("_contrib_quantized_fully_connected", [integers(shape, dtype), weight] + ends, dict(attrs, no_bias=True))
            yield OpCase("_contrib_quantized_fully_connected",
                         [integers(shape, dtype), weight, integers((hidden,), seed=2)] + ends + [number(-1), number(0.25)], attrs)
        pair = [integers((3, 4), dtype), integers((3, 4), dtype, 1), number(-2), number(3), number(-1), number(1)]
        yield OpCase("_contrib_quantized_elemwise_add", pair, {"min_calib_range": -2, "max_calib_range": "2.5"})
        yield OpCase("_contrib_quantized_elemwise_add", pair, compare="shape", why="oneDNN rounds to single precision")
        if dtype == "int8":
            yield OpCase("_contrib_quantized_elemwise_mul", pair)
            yield OpCase("_contrib_quantized_elemwise_mul", pair, {"enable_float_output": True})
            yield OpCase("_contrib_quantized_elemwise_mul", pair, {"min_calib_range": -2, "max_calib_range": "2.5"}, compare="shape",
                         why="cut off, not rounded")
    for attrs, shape in (({"kernel": (2, 2)}, (2, 3, 5, 6)), ({"kernel": (3, 3), "pad": (1, 1), "stride": (2, 1)}, (1, 4, 5, 5)),
                         ({"kernel": (1, 1)}, (2, 3, 4, 4)), ({"kernel": (2, 2), "dilate": (2, 2)}, (1, 2, 6, 6))):
        weight = integers((4, shape[1]) + attrs["kernel"], seed=1)
        yield OpCase("_contrib_quantized_conv", [integers(shape, "uint8"), weight] + ends,
                     dict(attrs, num_filter=4, no_bias=True), compare="first", why="the range of bytes is not that of int8")
