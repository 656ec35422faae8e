"""Reductions: sums, products, extrema, norms, and the positions of extrema."""

import numpy as np

from cases import ALL, FLOATS, OpCase, data, distinct, special, whole

SUMS = ("sum", "mean", "prod", "nansum", "nanprod", "max", "min")
ALIASES = ("sum_axis", "max_axis", "min_axis", "_sparse_sum", "_sparse_mean")
AXES = (None, "()", 0, 1, -1, (0, 2), (-1, 0), (0, 1, 2), (1,), 3, (0, 0))


def cases():
    for op in SUMS:
        yield from reduction(op)
    for op in ALIASES:
        yield OpCase(op, [data((2, 3))], {"axis": 1}, train=True, grad="all")
    yield from norm()
    for op in ("argmax", "argmin"):
        yield from position(op)
    yield from argmax_channel()


def reduction(op):
    for dtype in ALL:
        grad = "all" if dtype in FLOATS else None
        yield OpCase(op, [data((2, 3), dtype)], {"axis": 1}, train=grad is not None, grad=grad)
        yield OpCase(op, [data((2, 3), dtype)], train=grad is not None, grad=grad)
    for axis in AXES:
        for keepdims in (False, True):
            yield OpCase(op, [data((2, 3, 2), lo=0.5, hi=1.5)], {"axis": axis, "keepdims": keepdims}, train=True,
                         grad="all")
    for axis in (0, (1,), (0, 2), (-1, 0)):
        yield OpCase(op, [data((2, 3, 2))], {"axis": axis, "exclude": True}, train=True, grad="all")
    yield OpCase(op, [data((2, 1, 2, 1, 3))], {"axis": (1, 4)}, train=True, grad="all", req="add")
    yield OpCase(op, [data((2, 2, 2, 2, 2, 2))], {"axis": (1, 3, 5)}, why="many alternating axes")
    yield OpCase(op, [whole((3, 4), hi=2)], {"axis": 1}, train=True, grad="all", why="ties and zeros")
    yield OpCase(op, [special().reshape(3, 4)], {"axis": 1}, train=True, grad="all", why="special values")
    yield OpCase(op, [np.array([[np.nan, 1, 2], [np.nan] * 3], "float32")], {"axis": 1}, train=True, grad="all")
    for shape, axis in (((0, 3), 0), ((0, 3), 1), ((0,), None), ((), None)):
        yield OpCase(op, [np.ones(shape, "float32")], {"axis": axis}, np_shape=True)
    yield OpCase(op, [data((1,))], {"axis": 0}, train=True, grad="all")
    yield OpCase(op, [data((70, 3), lo=0.9, hi=1.2)], {"axis": 0}, train=True, grad="all", rtol=1e-4)
    yield OpCase(op, [np.full((2, 3000), 1.0, "float16")], {"axis": 1}, why="half sum above its whole numbers")


def norm():
    for dtype in ALL:
        grad = "all" if dtype in FLOATS else None
        for order in (1, 2):
            yield OpCase("norm", [data((2, 3), dtype, lo=1, hi=2)], {"ord": order, "axis": 1}, train=bool(grad),
                         grad=grad)
    for order in (1, 2):
        for axis in (None, 0, -1, (0, 1), (1, 2), (0, 2)):
            for keepdims in (False, True):
                attrs = {"ord": order, "axis": axis, "keepdims": keepdims}
                yield OpCase("norm", [data((2, 3, 2), lo=0.5)], attrs, train=True, grad="all")
    yield OpCase("norm", [data((2, 3))], {"ord": 3}, why="order not offered")
    yield OpCase("norm", [data((2, 3))], {"axis": 2}, why="no such axis")
    yield OpCase("norm", [np.zeros((2, 3), "float32")], {"axis": 1}, train=True, grad="all", why="norm zero")
    for out in ("int32", "float32", "float64"):
        yield OpCase("norm", [data((2, 3))], {"out_dtype": out})


def position(op):
    for dtype in ALL:
        yield OpCase(op, [distinct((3, 4), dtype)], {"axis": 1})
    for axis in (None, 0, 1, -1, 2, 3, -4):
        for keepdims in (False, True):
            yield OpCase(op, [distinct((2, 3, 4))], {"axis": axis, "keepdims": keepdims})
    yield OpCase(op, [whole((3, 4), hi=1)], {"axis": 1}, why="ties")
    yield OpCase(op, [np.array([[1, np.nan, 3], [np.nan, 2, 5], [3, 2, np.nan]], "float32")], {"axis": 1}, why="NaN")
    yield OpCase(op, [np.array([[np.inf, 1, np.inf], [-np.inf, 0, -np.inf]], "float32")], {"axis": 1})
    yield OpCase(op, [data((1,))], {"axis": 0})
    yield OpCase(op, [np.zeros((0, 3), "float32")], {"axis": 0}, np_shape=True)
    yield OpCase(op, [np.zeros((0, 3), "float32")], {"axis": 1}, np_shape=True)


def argmax_channel():
    for dtype in ALL:
        yield OpCase("argmax_channel", [distinct((3, 4), dtype)])
    yield OpCase("argmax_channel", [distinct((2, 3, 2))])
