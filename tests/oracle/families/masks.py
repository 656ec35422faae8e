"""Operators whose result depends on a mask, and look-ups kept under other names."""

import numpy as np

from cases import ALL, FLOATS, OpCase, data, whole


def cases():
    mask = np.array([1, 0, 2, 0, 1], "float32")
    for dtype in ALL:
        yield OpCase("_contrib_boolean_mask", [data((5, 3), dtype), mask], imperative=True)
    for kind in FLOATS + ("int32", "int64", "uint8", "int8"):
        yield OpCase("_contrib_boolean_mask", [data((5, 2)), mask.astype(kind)], imperative=True)
    for shape in ((5,), (5, 1, 2), (5, 2, 2, 2)):
        yield OpCase("_contrib_boolean_mask", [data(shape), mask], imperative=True)
    yield OpCase("_contrib_boolean_mask", [data((5, 2)), mask], {"axis": 0}, imperative=True)
    yield OpCase("_contrib_boolean_mask", [data((5, 2)), mask[:4]], imperative=True, why="a shorter mask")
    yield OpCase("_contrib_boolean_mask", [data((5, 2)), np.ones((5, 2), "float32")], imperative=True, why="a matrix as mask")
    for index in ("float32", "int32", "int64"):
        yield OpCase("_contrib_SparseEmbedding", [whole((2, 3), index, hi=3), data((4, 5))], {"input_dim": 4, "output_dim": 5})
