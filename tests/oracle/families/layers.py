"""Layers other than convolution: FullyConnected, activations, normalization, dropout, softmax."""

import numpy as np

from cases import ALL, FLOATS, OpCase, data, layer, special, whole


def cases():
    yield from fully_connected()
    yield from activation()
    yield from leaky_relu()
    yield from batch_norm()
    yield from dropout()
    yield from softmax()


def fully_connected():
    def case(shape, hidden, attrs=None, dtype="float32", **more):
        attrs = dict({"num_hidden": hidden}, **(attrs or {}))
        flat = int(np.prod(shape[1:])) if attrs.get("flatten", True) else shape[-1]
        inputs = [data(shape, dtype), data((hidden, flat), dtype, seed=1)]
        if not attrs.get("no_bias"):
            inputs.append(data((hidden,), dtype, seed=2))
        return layer("FullyConnected", inputs, attrs, **more)

    for dtype in ALL:
        yield case((2, 3), 4, dtype=dtype)
    for dtype in FLOATS:
        yield case((2, 3), 4, {"no_bias": True}, dtype=dtype)
    for shape in ((2, 3, 2), (1, 1), (3, 1, 2, 2)):
        for flatten in (True, False):
            for no_bias in (False, True):
                yield case(shape, 3, {"flatten": flatten, "no_bias": no_bias})
    yield case((2, 3), 1)
    yield case((2, 3), 4, req="add")
    yield case((2, 3), 4, train=False, grad=None)
    yield case((17, 35), 19, why="across the tiles of a blocked kernel", rtol=1e-4)
    good = [data((2, 3)), data((4, 3), seed=1), data((4,), seed=2)]
    yield OpCase("FullyConnected", [good[0], data((4, 2)), good[2]], {"num_hidden": 4}, why="weight of another size")
    yield OpCase("FullyConnected", [good[0], good[1], data((3,))], {"num_hidden": 4}, why="bias of another size")
    yield OpCase("FullyConnected", good, {}, why="num_hidden left out")
    yield OpCase("FullyConnected", good, {"num_hidden": 0}, why="num_hidden below one")
    yield OpCase("FullyConnected", good, {"num_hidden": -3}, why="num_hidden below one")
    yield OpCase("FullyConnected", [good[0], data((4, 3), "float64"), good[2]], {"num_hidden": 4}, why="types differ")


def activation():
    for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign"):
        for dtype in ALL:
            yield layer("Activation", [data((2, 3), dtype)], {"act_type": kind})
        for shape in ((5,), (2, 1, 3), (1, 2, 2, 2)):
            yield layer("Activation", [data(shape)], {"act_type": kind})
        yield layer("Activation", [data((2, 3))], {"act_type": kind}, req="add")
        yield OpCase("Activation", [special()], {"act_type": kind}, why="special values")
        yield OpCase("Activation", [np.array([-90, -30, -15, 15, 30, 90], "float32")], {"act_type": kind})
        yield OpCase("Activation", [np.zeros((0, 2), "float32")], {"act_type": kind}, np_shape=True)
    yield OpCase("Activation", [data((2, 3))], {"act_type": "swish"}, why="no such function")
    yield OpCase("Activation", [data((2, 3))], {}, why="act_type left out")


def leaky_relu():
    for kind in ("leaky", "elu", "selu", "gelu"):
        for dtype in ALL:
            yield layer("LeakyReLU", [data((2, 3), dtype)], {"act_type": kind})
        for slope in ("0.5", "0"):
            yield layer("LeakyReLU", [data((2, 3, 2))], {"act_type": kind, "slope": slope})
        yield layer("LeakyReLU", [data((2, 3))], {"act_type": kind}, req="add")
        yield OpCase("LeakyReLU", [special()], {"act_type": kind}, why="special values")
    for dtype in ALL:
        yield layer("LeakyReLU", [data((2, 3), dtype), data((3,), dtype, seed=1, lo=0, hi=1)], {"act_type": "prelu"})
    for shape, slopes in (((2, 3, 2), (3,)), ((2, 3, 2), (1,)), ((2, 3, 2, 2), (3,)), ((2, 3), (2,))):
        yield layer("LeakyReLU", [data(shape), data(slopes, seed=1, lo=0, hi=1)], {"act_type": "prelu"})
    yield layer("LeakyReLU", [data((2, 3)), data((3,), seed=1)], {"act_type": "prelu"}, req="add")
    yield OpCase("LeakyReLU", [data((2, 3))], {"act_type": "rrelu"}, compare="first",
                 why="random slopes outside training: their mean")
    yield OpCase("LeakyReLU", [data((2, 3))], {"act_type": "rrelu", "lower_bound": "0.25", "upper_bound": "0.75"},
                 compare="first")
    yield OpCase("LeakyReLU", [data((2, 3))], {"act_type": "swish"}, why="no such function")


def batch_norm():
    def case(shape, attrs=None, dtype="float32", **more):
        attrs = attrs or {}
        channels = shape[attrs.get("axis", 1)]
        small = dtype if dtype == "float64" else "float32"
        state = [data((channels,), small, seed=1, lo=0.5), data((channels,), small, seed=2),
                 data((channels,), small, seed=3), data((channels,), small, seed=4, lo=0.5, hi=2)]
        more.setdefault("rtol", 1e-3 if dtype != "float16" else 2e-2)
        more.setdefault("atol", 1e-4 if dtype != "float16" else 2e-2)
        return layer("BatchNorm", [data(shape, dtype)] + state, attrs, **more)

    for dtype in ALL:
        yield case((2, 3, 2), {"fix_gamma": False}, dtype)
    for fix in (True, False):
        for use_global in (True, False):
            for shape in ((3, 2), (2, 2, 3), (2, 2, 2, 2)):
                attrs = {"fix_gamma": fix, "use_global_stats": use_global}
                yield case(shape, attrs)
                yield case(shape, attrs, train=False, grad=None)
    for axis, shape in ((0, (2, 3)), (-1, (2, 2, 3)), (2, (2, 2, 3)), (3, (2, 2, 2, 2))):
        yield case(shape, {"axis": axis, "fix_gamma": False})
    for attrs in ({"eps": "1e-2"}, {"eps": "1e-5", "momentum": "0.5"}, {"momentum": 0}, {"momentum": 1},
                  {"output_mean_var": True}, {"output_mean_var": True, "use_global_stats": True},
                  {"cudnn_off": True}):
        yield case((2, 3, 2), dict(attrs, fix_gamma=False), grad=None if "output_mean_var" in attrs else "all")
    yield case((2, 3, 2), {"fix_gamma": False}, req="add")
    yield case((1, 3, 1, 1), {"fix_gamma": False}, why="one element per channel")
    yield case((2, 2, 2, 1, 2), {"fix_gamma": False})
    good = [data((2, 3)), data((3,)), data((3,)), data((3,)), data((3,), lo=1)]
    yield OpCase("BatchNorm", good[:1] + [data((2,))] + good[2:], {}, refuse=True, why="gamma of another size")
    yield OpCase("BatchNorm", good, {"axis": 2}, why="no such axis")
    yield OpCase("BatchNorm", good, {"eps": "1e-8"}, why="tiny eps")


def dropout():
    for dtype in ALL:
        yield OpCase("Dropout", [data((2, 3), dtype)], {"p": "0.5"}, why="outside training it does nothing")
        yield OpCase("Dropout", [data((20, 3), dtype)], {"p": "0.5"}, train=True, compare="shape")
    yield layer("Dropout", [data((2, 3))], {"p": 0}, why="drops nothing")
    yield OpCase("Dropout", [data((2, 3))], {"p": "0.5", "mode": "always"}, compare="shape")
    yield OpCase("Dropout", [data((2, 3))], {"p": "0.5", "axes": (0,)}, train=True, compare="shape")
    yield OpCase("Dropout", [data((2, 3))], {"p": "1.5"}, why="probability above one")
    yield OpCase("Dropout", [data((2, 3))], {"p": "-0.5"}, why="probability below zero")
    yield OpCase("Dropout", [data((2, 3))], {"p": "0.5", "mode": "never"}, why="no such mode")


def softmax():
    for op in ("softmax", "log_softmax", "softmin"):
        for dtype in ALL:
            yield layer(op, [data((2, 3), dtype)])
        for axis, shape in ((0, (3, 2)), (1, (2, 3, 2)), (-1, (4,)), (-2, (2, 3, 2)), (2, (1, 2, 3, 2))):
            yield layer(op, [data(shape)], {"axis": axis})
        for attrs in ({"temperature": "0.5"}, {"temperature": 2, "axis": 0}, {"temperature": "None"}):
            yield layer(op, [data((2, 3))], attrs)
        for source in FLOATS:
            for target in FLOATS:
                yield layer(op, [data((2, 3), source)], {"dtype": target})
        yield layer(op, [data((2, 3))], req="add")
        yield OpCase(op, [np.array([[1000, 0, -1000], [np.inf, 0, 1], [-np.inf, 0, 1], [np.nan, 0, 1]], "float32")],
                     why="large and special values")
        yield layer(op, [data((2, 1))], why="one class")
        yield OpCase(op, [data((2, 3))], {"axis": 2}, why="no such axis")
        yield OpCase(op, [np.zeros((0, 3), "float32")], {"axis": -1}, np_shape=True)
    for length in ("int32", "int64"):
        lengths = np.array([1, 3], length)
        yield OpCase("softmax", [data((2, 3)), lengths], {"use_length": True}, train=True, grad=["data"])
    lengths = whole((2, 2), "int32", lo=1, hi=3)
    yield OpCase("softmax", [data((2, 3, 2)), lengths], {"use_length": True, "axis": 1}, train=True, grad=["data"])
    for mode in ("instance", "channel"):
        yield layer("SoftmaxActivation", [data((2, 3, 2))], {"mode": mode})
