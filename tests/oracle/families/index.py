"""Lookup by index, selection by condition, and type conversion."""

import numpy as np

from cases import ALL, FLOATS, OpCase, data, whole


def cases():
    yield from embedding()
    yield from take()
    yield from pick()
    yield from one_hot()
    yield from where()
    yield from cast()
    yield from batch_take()


def embedding():
    sizes = {"input_dim": 5, "output_dim": 3}
    for op in ("Embedding",):
        for index in ALL:
            yield OpCase(op, [whole((2, 2), index, hi=4), data((5, 3))], sizes, train=True, grad=["weight"])
        for dtype in FLOATS:
            yield OpCase(op, [whole((2, 2), hi=4), data((5, 3), dtype)], dict(sizes, dtype=dtype), train=True,
                         grad=["weight"])
        for dtype in ("int32", "uint8", "int64", "int8"):
            yield OpCase(op, [whole((2, 2), hi=4), data((5, 3), dtype)], dict(sizes, dtype=dtype))
    yield OpCase("Embedding", [whole((3,), hi=4), data((5, 3))], sizes, train=True, grad=["weight"], req="add")
    yield OpCase("Embedding", [whole((1, 2, 2), hi=4), data((5, 3))], sizes, train=True, grad=["weight"])
    yield OpCase("Embedding", [np.array([-1, 5, 7, 2.7, -3], "float32"), data((5, 3))], sizes, train=True,
                 grad=["weight"], why="indices outside and between")
    yield OpCase("Embedding", [np.array([1, 1, 1], "float32"), data((5, 3))], sizes, train=True, grad=["weight"])
    yield OpCase("Embedding", [whole((2, 2), hi=4), data((4, 3))], sizes, why="weight of another size")
    yield OpCase("Embedding", [whole((2, 2), hi=4), data((5, 3))], {"input_dim": 5}, why="output_dim left out")
    yield OpCase("Embedding", [whole((2, 2), hi=4), data((5, 3))], sizes, train=True, grad="all",
                 why="gradient of the indices")


def take():
    for dtype in ALL:
        yield OpCase("take", [data((4, 2), dtype), whole((3,), "int32", hi=3)], train=True,
                     grad=["a"] if dtype in FLOATS else None)
        yield OpCase("take", [data((4, 2)), whole((3,), dtype, hi=3)], train=True, grad=["a"])
    for axis in (0, 1, 2, -1, -3, 3):
        for shape in ((2,), (2, 2)):
            yield OpCase("take", [data((2, 3, 2)), whole(shape, hi=1)], {"axis": axis}, train=True, grad=["a"])
    outside = np.array([-1, -5, 2.5, 3, 9], "float32")
    for mode in ("clip", "wrap", "raise"):
        for axis in (0, 1):
            yield OpCase("take", [data((4, 4)), outside], {"mode": mode, "axis": axis}, train=True, grad=["a"],
                         why="indices outside")
    yield OpCase("take", [data((4, 2)), whole((3,), hi=3)], {"mode": "raise"}, train=True, grad=["a"])
    yield OpCase("take", [data((4, 2)), np.array([1, 1, 1], "int32")], train=True, grad=["a"], req="add")
    yield OpCase("take", [data((4, 2)), whole((3,), hi=3)], train=True, grad="all", why="gradient of the indices")
    yield OpCase("take", [data((4, 2)), np.zeros((0,), "int32")], np_shape=True)
    yield OpCase("take", [data((4, 2)), np.array(2, "int32")], np_shape=True)


def pick():
    for dtype in ALL:
        yield OpCase("pick", [data((3, 4), dtype), whole((3,), hi=3)], train=True,
                     grad=["data"] if dtype in FLOATS else None)
        yield OpCase("pick", [data((3, 4)), whole((3,), dtype, hi=3)], train=True, grad=["data"])
    for axis, shape in ((0, (3, 2)), (1, (2, 2)), (2, (2, 3)), (-1, (2, 3)), (-3, (3, 2))):
        yield OpCase("pick", [data((2, 3, 2)), whole(shape, hi=1)], {"axis": axis}, train=True, grad=["data"])
    kept = ((3, 1), (3,))
    for shape in kept:
        yield OpCase("pick", [data((3, 4)), whole(shape, hi=3)], {"keepdims": True}, train=True, grad=["data"])
    yield OpCase("pick", [data((3, 4)), whole((3, 1), hi=3)], {"keepdims": False}, train=True, grad=["data"])
    for mode in ("clip", "wrap"):
        yield OpCase("pick", [data((4, 4)), np.array([-1, 5, -6, 2.5], "float32")], {"mode": mode}, train=True,
                     grad=["data"], why="indices outside")
    yield OpCase("pick", [data((3, 4)), whole((3,), hi=3)], {"mode": "raise"}, why="mode not offered")
    yield OpCase("pick", [data((3, 4)), whole((12,), hi=3)], {"axis": None}, why="flattened")
    yield OpCase("pick", [data((3, 4)), whole((1,), hi=3)], {"axis": None}, why="flattened")
    yield OpCase("pick", [data((3, 4)), whole((2,), hi=3)], why="index of another length")
    yield OpCase("pick", [data((3, 4)), whole((3,), hi=3)], train=True, grad="all", req="add")


def batch_take():
    for dtype in ALL:
        yield OpCase("batch_take", [data((3, 4), dtype), whole((3,), "int32", hi=3)])


def one_hot():
    for index in ALL:
        yield OpCase("one_hot", [whole((3,), index, hi=3)], {"depth": 4})
    for dtype in ALL:
        yield OpCase("one_hot", [whole((3,), hi=3)], {"depth": 4, "dtype": dtype})
    for shape in ((2, 2), (1,), (2, 1, 2)):
        yield OpCase("one_hot", [whole(shape, hi=3)], {"depth": 4, "on_value": 2, "off_value": "-0.5"})
    yield OpCase("one_hot", [np.array([-1, 4, 2.5, 0], "float32")], {"depth": 4}, why="indices outside and between")
    yield OpCase("one_hot", [whole((3,), hi=3)], {"depth": 0}, why="no depth")
    yield OpCase("one_hot", [whole((3,), hi=3)], {}, why="depth left out")
    yield OpCase("one_hot", [whole((3,), hi=3)], {"depth": 4}, train=True, grad="all")
    yield OpCase("one_hot", [np.array(2, "float32")], {"depth": 4}, np_shape=True)


def where():
    for dtype in ALL:
        arrays = [data((2, 3), dtype), data((2, 3), dtype, seed=1)]
        yield OpCase("where", [whole((2, 3), hi=1)] + arrays, train=True, grad=["x", "y"] if dtype in FLOATS else None)
        yield OpCase("where", [whole((2, 3), dtype, hi=1), data((2, 3)), data((2, 3), seed=1)], train=True,
                     grad=["x", "y"])
    values = [data((3, 2)), data((3, 2), seed=1)]
    yield OpCase("where", [np.array([0, 1, 2], "float32")] + values, train=True, grad=["x", "y"], why="rows")
    yield OpCase("where", [np.array([[0, -1], [np.nan, 0.5], [-0.0, 1]], "float32")] + values, train=True,
                 grad=["x", "y"])
    yield OpCase("where", [whole((3, 2), hi=1)] + values, train=True, grad="all", req="add")
    yield OpCase("where", [whole((2,), hi=1)] + values, why="condition of another length")
    yield OpCase("where", [whole((3, 2), hi=1), data((3, 2)), data((3, 1))], why="shapes differ")


def cast():
    values = {"float": data((2, 3), lo=0, hi=3), "small": whole((2, 3), "int32", lo=0, hi=100)}
    for source in ALL:
        for target in ALL:
            array = values["float"] if source in FLOATS else values["small"]
            yield OpCase("Cast", [array.astype(source)], {"dtype": target}, train=True,
                         grad="all" if source in FLOATS and target in FLOATS else None)
    yield OpCase("cast", [data((2, 3))], {"dtype": "int32"}, why="towards zero")
    yield OpCase("Cast", [np.array([65504, 65520, 1e-8, 6e-8, 1.0009765, np.inf, np.nan], "float32")],
                 {"dtype": "float16"}, why="rounding, overflow, subnormals")
    yield OpCase("Cast", [np.array([1e300, 1e-300, 0.1, 16777217.0], "float64")], {"dtype": "float32"})
    yield OpCase("Cast", [np.array([2**31 + 5, -1, 300], "int64")], {"dtype": "int32"}, why="wraps")
    yield OpCase("Cast", [np.array([300, -1, 255], "int32")], {"dtype": "uint8"}, why="wraps")
    yield OpCase("Cast", [np.array([0, 0.5, -2, np.nan], "float32")], {"dtype": "bool"})
    yield OpCase("Cast", [data((2, 3))], {"dtype": "complex64"}, why="no such type")
    yield OpCase("Cast", [data((2, 3))], {}, why="type left out")
    yield OpCase("Cast", [data((2, 3))], {"dtype": "float64"}, train=True, grad="all", req="add")
    yield OpCase("amp_cast", [data((2, 3))], {"dtype": "float16"}, train=True, grad="all")
    yield OpCase("amp_cast", [whole((2, 3), "int32")], {"dtype": "float16"})
