"""Unary mathematics: every function in every type, at special values, and its gradient."""

import numpy as np

from cases import ALL, FLOATS, OpCase, data, special

# Function -> range of arguments whose values and derivatives are finite and well conditioned.
RANGES = {
    "abs": (-2, 2), "sign": (-2, 2), "round": (-3, 3), "rint": (-3, 3), "ceil": (-3, 3), "floor": (-3, 3),
    "trunc": (-3, 3), "fix": (-3, 3), "square": (-2, 2), "sqrt": (1, 4), "rsqrt": (1, 4), "cbrt": (1, 3),
    "rcbrt": (1, 3), "exp": (-2, 2), "log": (1, 4), "log10": (1, 4), "log2": (1, 4), "log1p": (0, 3),
    "expm1": (-2, 2), "gamma": (1, 3), "gammaln": (1, 3), "logical_not": (-1, 1), "erf": (-2, 2),
    "erfinv": (-0.75, 0.75), "reciprocal": (1, 3), "negative": (-2, 2), "sin": (-3, 3), "cos": (-3, 3),
    "tan": (-1, 1), "arcsin": (-0.75, 0.75), "arccos": (-0.75, 0.75), "arctan": (-2, 2), "sinh": (-2, 2),
    "cosh": (-2, 2), "tanh": (-2, 2), "arcsinh": (-2, 2), "arccosh": (2, 4), "arctanh": (-0.75, 0.75),
    "degrees": (-3, 3), "radians": (-3, 3), "relu": (-2, 2), "sigmoid": (-3, 3), "softsign": (-2, 2),
    "hard_sigmoid": (-4, 4), "smooth_l1": (-2, 2), "_copy": (-2, 2), "BlockGrad": (-2, 2), "make_loss": (-2, 2),
    "zeros_like": (-2, 2), "ones_like": (-2, 2),
}
# Functions whose whole-number arguments are narrower, since C leaves infinity and rounding to one undefined there.
WHOLE_RANGES = {"erfinv": (0, 0), "arctanh": (0, 0), "erf": (-1, 1)}
# Functions in double precision that MXNet partly computes in single precision.
SINGLE = {"degrees", "radians", "gamma", "gammaln", "erf", "erfinv"}
WITHOUT_GRADIENT = {"logical_not", "shape_array", "size_array"}
ALIASES = ("identity", "stop_gradient", "fix", "_sparse_abs", "_sparse_sqrt", "_npi_absolute", "_npi_negative")


def cases():
    for op, (low, high) in RANGES.items():
        for dtype in ALL:
            grad = "all" if dtype in FLOATS and op not in WITHOUT_GRADIENT else None
            first, last = (low, high) if dtype in FLOATS else WHOLE_RANGES.get(op, (low, high))
            yield OpCase(op, [data((2, 3), dtype, lo=first, hi=last)], train=grad is not None, grad=grad,
                         rtol=1e-6 if dtype == "float64" and op in SINGLE else None)
        yield OpCase(op, [special()], why="special values")
        yield OpCase(op, [data((2, 1, 3), lo=low, hi=high)], train=True, req="add",
                     grad=None if op in WITHOUT_GRADIENT else "all")
        yield OpCase(op, [np.zeros((0, 3), "float32")], np_shape=True)
        yield OpCase(op, [data((), lo=low, hi=high)], np_shape=True)
    for op in ALIASES:
        yield OpCase(op, [data((2, 3), lo=1, hi=3)], train=True, grad="all")
    yield from parameters()
    yield from rounding()
    yield from shapes()


def parameters():
    for attrs in ({"alpha": 0.25, "beta": 0.25}, {"alpha": "0.5"}, {"beta": 0}):
        yield OpCase("hard_sigmoid", [data((3, 4), lo=-4, hi=4)], attrs, train=True, grad="all")
    for scalar in (0.5, 1.0, 3, "2.0"):
        yield OpCase("smooth_l1", [data((3, 4))], {"scalar": scalar}, train=True, grad="all")
    for op in ("gamma", "gammaln"):
        yield OpCase(op, [np.array([-2.5, -0.5, 0.25, 0.5, 5.0, 10.5, 30.0, 0.0, -1.0], "float32")])
    for op in ("exp", "expm1", "sinh", "cosh", "tanh", "sigmoid", "erf"):
        yield OpCase(op, [np.array([-100, -20, -1e-5, 1e-5, 20, 80, 100], "float32")], why="large and small")
    yield OpCase("erfinv", [np.array([-1, -0.999, 0.999, 1, 1.5, 0], "float32")])


def rounding():
    halves = np.arange(-3.5, 4, 0.5)
    for op in ("round", "rint", "ceil", "floor", "trunc", "fix"):
        for dtype in FLOATS:
            yield OpCase(op, [halves.astype(dtype)], why="halves")


def shapes():
    for shape in ((2, 3), (1,), (2, 1, 4, 1)):
        yield OpCase("shape_array", [data(shape)])
        yield OpCase("size_array", [data(shape)])
    for dtype in ALL:
        yield OpCase("shape_array", [data((2, 3), dtype)])
        yield OpCase("size_array", [data((2, 3), dtype)])
