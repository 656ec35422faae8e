"""Matrix products: dot and batch_dot."""

import itertools

import numpy as np

from cases import ALL, FLOATS, OpCase, data


def case(op, left, right, attrs=None, dtype="float32", **more):
    floating = dtype in FLOATS
    return OpCase(op, [data(left, dtype), data(right, dtype, seed=1)], attrs or {}, train=floating,
                  grad="all" if floating else None, **more)


def cases():
    yield from dot()
    yield from batch_dot()


def transposed(shape, wanted):
    return shape[:-2] + (shape[-1], shape[-2]) if wanted else shape


def dot():
    for dtype in ALL:
        yield case("dot", (2, 3), (3, 4), dtype=dtype)
    for a, b in itertools.product((False, True), repeat=2):
        attrs = {"transpose_a": a, "transpose_b": b}
        yield case("dot", transposed((2, 3), a), transposed((3, 4), b), attrs)
    for left, right in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 2, 3), (3, 2)), ((2, 3), (3, 2, 2)),
                        ((2, 1, 3), (3, 2, 1)), ((1, 1), (1, 1)), ((1, 7), (7, 1)), ((7, 1), (1, 7))):
        yield case("dot", left, right)
    yield case("dot", (3, 2, 2), (3, 4), {"transpose_a": True})
    yield case("dot", (2, 3), (4, 2, 3), {"transpose_b": True})
    yield case("dot", (2, 3), (3, 4), req="add")
    yield case("dot", (17, 33), (33, 19), why="across the tiles of a blocked kernel")
    yield OpCase("dot", [data((2, 3)), data((2, 3))], why="inner sizes differ")
    yield OpCase("dot", [data((2, 3)), data((3, 2), "float64")], why="types differ")
    yield OpCase("dot", [np.array([[np.inf, 0], [np.nan, 1]], "float32"), data((2, 2))], why="special values")


def batch_dot():
    for dtype in ALL:
        yield case("batch_dot", (2, 2, 3), (2, 3, 2), dtype=dtype)
    for a, b in itertools.product((False, True), repeat=2):
        attrs = {"transpose_a": a, "transpose_b": b}
        yield case("batch_dot", transposed((2, 2, 3), a), transposed((2, 3, 4), b), attrs)
        yield case("batch_dot", transposed((2, 2, 3), a), transposed((2, 3, 4), b), attrs, req="add")
    yield case("batch_dot", (1, 1, 1), (1, 1, 1))
    yield case("batch_dot", (2, 2, 2, 3), (2, 2, 3, 2))
    yield OpCase("batch_dot", [data((2, 2, 3)), data((3, 3, 2))], why="batches differ")
    yield OpCase("batch_dot", [data((2, 2, 3)), data((2, 2, 3))], why="inner sizes differ")
    yield OpCase("batch_dot", [data((2, 3)), data((3, 2))], why="no batch axis")
