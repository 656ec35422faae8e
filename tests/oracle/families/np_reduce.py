"""NumPy's reductions: axes, types of results, numbers without axes, arrays without elements."""

import numpy as np

from cases import ALL, FLOATS, OpCase, data, distinct, special

SUMS = ("_np_sum", "_np_prod", "_npi_mean")
AXES = ({}, {"axis": 1}, {"axis": (0, -1)}, {"axis": (0, 2), "keepdims": True}, {"axis": "()"}, {"keepdims": True})


def cases():
    yield from sums()
    yield from extremes()
    yield from logic()
    yield from positions()


def sums():
    for op in SUMS:
        x = data((2, 3, 4), lo=0.5, hi=1.5)
        for attrs in AXES:
            yield OpCase(op, [x], attrs, np_shape=True, train=True, grad="all")
        yield OpCase(op, [x], {"axis": 1}, np_shape=True, train=True, grad="all", req="add" if op != "_npi_mean" else "write")
        yield OpCase(op, [data((), lo=1, hi=2)], np_shape=True, train=True, grad="all")
        yield OpCase(op, [data((), lo=1, hi=2)], {"axis": 0}, np_shape=True)
        for axis in ((0, 0), 3, -4):
            yield OpCase(op, [x], {"axis": axis}, np_shape=True)
        yield OpCase(op, [x], {"initial": 2.5}, np_shape=True)
        for dtype in ALL:
            floating = dtype in FLOATS
            yield OpCase(op, [data((2, 3), dtype, lo=1, hi=2)], {"axis": 1}, np_shape=True, train=floating,
                         grad="all" if floating else None)
            for to in ("float16", "float32", "float64", "int32", "int64", "int8", "bool"):
                if to == "bool" and op == "_np_prod" or dtype == "bool" and to in ("float16", "int8", "bool") and op != "_npi_mean":
                    continue  # MXNet lacks these.
                both = floating and to in FLOATS
                yield OpCase(op, [data((2, 3), dtype, lo=1, hi=2)], {"axis": 0, "dtype": to}, np_shape=True, train=both,
                             grad="all" if both else None)
        yield OpCase(op, [special()], np_shape=True)
    yield OpCase("_np_product", [data((2, 3))], {"axis": 1}, np_shape=True)
    yield OpCase("_np_sum", [np.zeros((0, 3), "float32")], np_shape=True)
    yield OpCase("_np_sum", [np.zeros((0, 3), "float32")], {"axis": 0}, np_shape=True)


def extremes():
    for op in ("_np_max", "_np_min"):
        for attrs in AXES:
            yield OpCase(op, [distinct((2, 3, 4))], attrs, np_shape=True, train=True, grad="all")
        for dtype in ALL:
            yield OpCase(op, [data((2, 3), dtype)], {"axis": 1}, np_shape=True)
        yield OpCase(op, [data(())], np_shape=True, train=True, grad="all")
        for attrs in ({}, {"axis": 0}, {"axis": 1}):
            yield OpCase(op, [np.zeros((0, 3), "float32")], attrs, np_shape=True)
        yield OpCase(op, [special()], np_shape=True)
        yield OpCase(op, [data((2, 3))], {"initial": 2.5}, np_shape=True)
        yield OpCase(op, [np.array([1, 3, 3, 1], "float32")], np_shape=True, train=True, grad="all", why="ties")
        yield OpCase(op.replace("_np_", "_np_a"), [data((2, 3))], np_shape=True)


def logic():
    for op in ("_np_any", "_np_all", "_np_sometrue"):
        for attrs in AXES[: 6 if op != "_np_sometrue" else 1]:
            yield OpCase(op, [data((2, 3, 4), "bool")], attrs, np_shape=True)
        for dtype in ALL:
            yield OpCase(op, [data((3, 4), dtype, lo=0, hi=1)], {"axis": 1}, np_shape=True)
        for attrs in ({}, {"axis": 0}, {"axis": 1}):
            yield OpCase(op, [np.zeros((0, 3), "float32")], attrs, np_shape=True)
        yield OpCase(op, [special()], np_shape=True)
        yield OpCase(op, [data(())], np_shape=True)


def positions():
    for op in ("_npi_argmax", "_npi_argmin"):
        for attrs in ({}, {"axis": 1}, {"axis": -2, "keepdims": True}, {"keepdims": True}, {"axis": 3}):
            yield OpCase(op, [distinct((2, 3, 4))], attrs, np_shape=True)
        for dtype in ALL[:-1]:
            yield OpCase(op, [data((3, 4), dtype)], {"axis": 0}, np_shape=True)
        yield OpCase(op, [data(())], np_shape=True)
        yield OpCase(op, [np.array([1, np.nan, 3, np.nan], "float32")], np_shape=True)
        yield OpCase(op, [np.zeros((0, 3), "float32")], np_shape=True)
        yield OpCase(op, [np.zeros((0, 3), "float32")], {"axis": 1}, np_shape=True)
        yield OpCase(op, [data((2, 3))], {"axis": 1}, np_shape=True, train=True, grad="all")
