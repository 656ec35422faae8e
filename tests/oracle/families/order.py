"""Sorting: topk, sort and argsort."""

import numpy as np

from cases import ALL, OpCase, distinct, whole


def cases():
    yield from topk()
    for op in ("sort", "argsort"):
        yield from sorting(op)


def topk():
    for dtype in ALL:
        yield OpCase("topk", [distinct((2, 5), dtype)], {"k": 3})
        yield OpCase("topk", [distinct((2, 5), dtype)], {"k": 2, "ret_typ": "both", "dtype": "int32"})
    for kind in ("value", "indices", "mask", "both"):
        for ascend in (False, True):
            for axis, k in ((-1, 2), (0, 1), (1, 3), (None, 4), (2, 0)):
                attrs = {"axis": axis, "k": k, "ret_typ": kind, "is_ascend": ascend}
                grad = "all" if kind == "value" else None
                yield OpCase("topk", [distinct((2, 3, 4))], attrs, train=grad is not None, grad=grad)
    for dtype in ("float16", "float32", "float64", "uint8", "int32", "int64", "int8"):
        yield OpCase("topk", [distinct((2, 5))], {"k": 2, "dtype": dtype})
    yield OpCase("topk", [distinct((2, 5))], {"k": 3, "ret_typ": "value"}, train=True, grad="all", req="add")
    yield OpCase("topk", [distinct((2, 5))], {"k": 3, "ret_typ": "both"}, train=True, grad="all")
    yield OpCase("topk", [distinct((2, 5))], {"k": 6}, why="more than there are")
    yield OpCase("topk", [distinct((2, 5))], {"k": -1}, why="negative count")
    yield OpCase("topk", [distinct((2, 5))], {"axis": 2}, why="no such axis")
    yield OpCase("topk", [distinct((300,))], {"k": 2, "dtype": "uint8"}, why="index type too small")
    yield OpCase("topk", [whole((2, 6), hi=2)], {"k": 4, "ret_typ": "value"}, why="ties")


def sorting(op):
    grad = "all" if op == "sort" else None
    for dtype in ALL:
        yield OpCase(op, [distinct((2, 5), dtype)])
    for axis in (-1, 0, 1, 2, None, -3, 3):
        for ascend in (True, False):
            yield OpCase(op, [distinct((2, 3, 4))], {"axis": axis, "is_ascend": ascend}, train=grad is not None,
                         grad=grad)
    yield OpCase(op, [distinct((7,))])
    yield OpCase(op, [distinct((1,))])
    yield OpCase(op, [distinct((2, 40))])
    if op == "sort":
        yield OpCase(op, [whole((3, 6), hi=2)], why="ties")
        yield OpCase(op, [np.array([[3, np.inf, -1, -np.inf, 0]], "float32")], why="infinities")
    else:
        yield OpCase(op, [np.array([[2, 1, 2, 1, 0, 2, 0]], "float32")], why="ties keep their order")
        for dtype in ("float16", "float32", "float64", "uint8", "int32", "int64"):
            yield OpCase(op, [distinct((2, 5))], {"dtype": dtype})
