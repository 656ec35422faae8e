"""NumPy's elementwise operators: every function in every type, promotion of mixed types, comparisons, numbers."""

import numpy as np

from cases import ALL, FLOATS, INTS, OpCase, data, special, whole
from families.unary import RANGES, SINGLE, WHOLE_RANGES

UNARY = (
    "absolute arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil cos cosh degrees exp expm1 fix floor log log10 log1p log2 "
    "negative radians reciprocal rint sign sin sinh sqrt square tan tanh trunc"
).split()
PROPERTIES = "logical_not isnan isinf isfinite isposinf isneginf".split()
MIXED = "add subtract multiply mod power true_divide".split()
COMPARISONS = "equal not_equal greater greater_equal less less_equal".split()
WHOLE = "lcm bitwise_and bitwise_or bitwise_xor".split()


def cases():
    yield from unary()
    yield from binary()
    yield from mixed_types()
    yield from one_type()
    yield from comparisons()
    yield from numbers()


def unary():
    for name in UNARY + ["relu", "sigmoid"]:
        op = ("_npx_" if name in ("relu", "sigmoid") else "_npi_") + name
        plain = "abs" if name == "absolute" else name
        for dtype in ALL[:-1]:
            low, high = RANGES[plain] if dtype in FLOATS else WHOLE_RANGES.get(plain, RANGES[plain])
            grad = "all" if dtype in FLOATS else None
            yield OpCase(op, [data((2, 3), dtype, lo=low, hi=high)], train=grad is not None, grad=grad, np_shape=True,
                         rtol=1e-6 if dtype == "float64" and plain in SINGLE else None)
        yield OpCase(op, [special()], np_shape=True)
        yield OpCase(op, [data((), lo=RANGES[plain][0], hi=RANGES[plain][1])], np_shape=True, train=True, grad="all")
        yield OpCase(op, [np.zeros((0, 3), "float32")], np_shape=True)
    yield OpCase("_npi_absolute", [np.array([True])], np_shape=True)
    yield OpCase("_npi_abs", [data((2, 3))], np_shape=True)
    for name in PROPERTIES:
        for dtype in ALL:
            yield OpCase("_npi_" + name, [data((2, 3), dtype)], np_shape=True)
        for dtype in FLOATS:
            yield OpCase("_npi_" + name, [special(dtype)], np_shape=True)
        yield OpCase("_npi_" + name, [data((3,))], np_shape=True, train=True, grad="all")
        yield OpCase("_npi_" + name, [data(())], np_shape=True)
    for dtype in ALL:
        yield OpCase("_npi_bitwise_not", [data((2, 3), dtype)], np_shape=True)
        yield OpCase("_np_copy", [data((2, 3), dtype)], np_shape=True)
    yield OpCase("_np_copy", [data((2, 3))], np_shape=True, train=True, grad="all")
    for decimals in (-1, 0, 1, 2):
        for dtype in ("float32", "float64"):
            x = np.array([-2.5, 1.5, 0.5, 15.25, 25.0, 1234.625, np.nan, np.inf], dtype)
            yield OpCase("_npi_around", [x], {"decimals": decimals}, np_shape=True, train=True, grad="all")
    for dtype in INTS:
        yield OpCase("_npi_around", [data((2, 3), dtype)], {"decimals": 1}, np_shape=True)


def operands(name, shape, dtype, seed):
    low, high = (1, 3) if name in ("power", "mod", "true_divide") else (-2, 2)
    return data(shape, dtype, seed, low, high)


def binary():
    shapes = [((2, 3), (2, 3)), ((2, 1, 3), (4, 1)), ((), ()), ((3,), ()), ((2, 3), (3,)), ((1, 1), (2, 2))]
    for name in MIXED + ["arctan2", "hypot", "copysign", "ldexp"]:
        op = "_npi_" + name
        for a, b in shapes:
            yield OpCase(op, [operands(name, a, "float32", 1), operands(name, b, "float32", 2)], np_shape=True, train=True,
                         grad="all")
        yield OpCase(op, [operands(name, (2, 3), "float32", 1), operands(name, (3,), "float32", 2)], np_shape=True, train=True,
                     grad="all", req="add")
        for dtype in ("float16", "float64"):
            yield OpCase(op, [operands(name, (2, 3), dtype, 1), operands(name, (3,), dtype, 2)], np_shape=True, train=True,
                         grad="all", rtol=1e-6 if name == "ldexp" and dtype == "float64" else None)
        yield OpCase(op, [np.zeros((0, 3), "float32"), data((1,))], np_shape=True)
        yield OpCase(op, [data((2, 3)), data((2,))], np_shape=True)
        yield OpCase(op, [special(), special()[::-1].copy()], np_shape=True)
    for name in ("arctan2", "hypot"):
        yield OpCase("_npi_" + name, [data(3, "int32"), data(3, "int32")], np_shape=True)


def mixed_types():
    for name in MIXED:
        for a in ALL:
            for b in ALL:
                one = a == b
                floats = a in FLOATS, b in FLOATS
                if name == "true_divide" and not one and floats in ((True, True), (False, False)):
                    continue  # MXNet lacks these.
                if name in ("subtract", "mod") and not one and floats == (False, False) or {a, b} == {"uint8", "int8"}:
                    continue
                if one and a == "bool" and name in ("subtract", "mod"):
                    continue
                grad = [n for n, float_ in zip(("lhs", "rhs"), floats) if float_] or None
                yield OpCase("_npi_" + name, [operands(name, (2, 3), a, 1), operands(name, (3,), b, 2)], np_shape=True,
                             train=grad is not None, grad=grad)
    yield OpCase("_npi_add", [np.array([2**24 + 1]), np.array([1], "int32")], np_shape=True)
    yield OpCase("_npi_power", [np.array([3, 2, 0, -2], "int32"), np.array([15, -1, 0, 3], "int32")], np_shape=True)
    yield OpCase("_npi_true_divide", [np.array([3, 2, 0, -2], "int32"), np.array([15, 0, 0, 3], "int32")], np_shape=True)
    yield OpCase("_npi_mod", [np.array([3, 2, 0, -7], "int32"), np.array([-15, 0, 0, 3], "int32")], np_shape=True)


def one_type():
    for name in WHOLE:
        for dtype in INTS + ("bool", "float32"):
            yield OpCase("_npi_" + name, [data((2, 3), dtype, 1), data((3,), dtype, 2)], np_shape=True)
        yield OpCase("_npi_" + name, [data((), "int32", 1), data((), "int32", 2)], np_shape=True)
    for name in ("copysign", "ldexp"):
        for dtype in INTS:
            yield OpCase("_npi_" + name, [data((2, 3), dtype, 1), data((3,), dtype, 2)], np_shape=True)
        yield OpCase("_npi_" + name, [data((2, 3)), data((3,), "int32")], np_shape=True)


def comparisons():
    for name in COMPARISONS:
        for dtype in ALL:
            yield OpCase("_npi_" + name, [whole((2, 3), dtype, 1, 0, 3), whole((3,), dtype, 2, 0, 3)], np_shape=True)
            # MXNet treats 1.5 as true when it compares booleans.
            for scalar, is_int in ((1, 1), (1.5, 0))[: 1 if dtype == "bool" else 2]:
                yield OpCase("_npi_" + name + "_scalar", [whole((2, 3), dtype, 1, 0, 3)],
                             {"scalar": scalar, "is_int": is_int}, np_shape=True)
        yield OpCase("_npi_" + name, [special(), special()[::-1].copy()], np_shape=True)
        yield OpCase("_npi_" + name, [data(()), data((2,))], np_shape=True, train=True, grad="all")
        yield OpCase("_npi_" + name, [np.zeros((0, 2), "float32"), data((2,))], np_shape=True)
        yield OpCase("_npi_" + name, [data((2,)), data((2,), "int32")], np_shape=True)
        yield OpCase("_npi_" + name + "_scalar", [special()], {"scalar": 0.5, "is_int": 0}, np_shape=True, train=True, grad="all")


def numbers():
    names = (
        "add subtract rsubtract multiply mod rmod true_divide rtrue_divide power rpower arctan2 rarctan2 copysign rcopysign ldexp "
        "rldexp hypot maximum minimum"
    ).split()
    for name in names:
        op = "_npi_" + name + "_scalar"
        # MXNet cannot differentiate these two.
        grad = None if "copysign" in name else "all"
        for dtype in ALL:
            for scalar, is_int in ((2, 1), (1.5, 0)):
                floating = dtype in FLOATS
                yield OpCase(op, [data((2, 3), dtype, lo=1, hi=3)], {"scalar": scalar, "is_int": is_int}, np_shape=True,
                             train=floating, grad=grad if floating else None,
                             rtol=1e-6 if name == "rldexp" and dtype == "float64" else None)
        yield OpCase(op, [data((), lo=1, hi=3)], {"scalar": -2.5, "is_int": 0}, np_shape=True)
        yield OpCase(op, [data((2, 1), lo=1, hi=3)], {"scalar": 2.5, "is_int": 0}, np_shape=True, train=True, grad=grad,
                     req="add")
        yield OpCase(op, [data((2, 3), lo=-3, hi=-1)], {"scalar": 2.5, "is_int": 0}, np_shape=True)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "lcm"):
        for dtype in ("uint8", "int8", "int32", "int64", "bool", "float32"):
            yield OpCase("_npi_" + name + "_scalar", [data((2, 3), dtype)], {"scalar": 6, "is_int": 1}, np_shape=True)
    yield OpCase("_npi_bitwise_xor_scalar", [data((2, 3), "int32")], {"scalar": -6}, np_shape=True)
