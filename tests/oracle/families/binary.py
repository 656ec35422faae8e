"""Two-operand arithmetic and comparison: elementwise, with broadcasting, and with a scalar."""

import numpy as np

from cases import ALL, FLOATS, INTS, OpCase, data, whole

SAME_SHAPE = ("elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div", "_grad_add", "_mod", "_power", "_maximum",
              "_minimum", "_hypot")
COMPARE = ("_equal", "_not_equal", "_greater", "_greater_equal", "_lesser", "_lesser_equal", "_logical_and",
           "_logical_or", "_logical_xor")
BROADCAST = ("broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div", "broadcast_mod", "broadcast_power",
             "broadcast_maximum", "broadcast_minimum", "broadcast_hypot")
BROADCAST_COMPARE = ("broadcast_equal", "broadcast_not_equal", "broadcast_greater", "broadcast_greater_equal",
                     "broadcast_lesser", "broadcast_lesser_equal", "broadcast_logical_and", "broadcast_logical_or",
                     "broadcast_logical_xor")
SCALAR = ("_plus_scalar", "_minus_scalar", "_rminus_scalar", "_mul_scalar", "_div_scalar", "_rdiv_scalar",
          "_mod_scalar", "_rmod_scalar", "_power_scalar", "_rpower_scalar", "_maximum_scalar", "_minimum_scalar",
          "_hypot_scalar")
SCALAR_COMPARE = ("_equal_scalar", "_not_equal_scalar", "_greater_scalar", "_greater_equal_scalar", "_lesser_scalar",
                  "_lesser_equal_scalar", "_logical_and_scalar", "_logical_or_scalar", "_logical_xor_scalar")
ALIASES = ("_plus", "_add", "_Plus", "_sub", "_minus", "_Minus", "_mul", "_Mul", "_div", "_Div", "_Mod", "_Power",
           "_Maximum", "_Minimum", "_Hypot", "_Equal", "_Not_Equal", "_Greater", "_Greater_Equal", "_Lesser",
           "_Lesser_Equal", "_Logical_And", "_Logical_Or", "_Logical_Xor", "broadcast_plus", "broadcast_minus",
           "_sparse_elemwise_add", "_sparse_elemwise_mul")
SCALAR_ALIASES = ("_PlusScalar", "_MinusScalar", "_RMinusScalar", "_MulScalar", "_DivScalar", "_RDivScalar",
                  "_ModScalar", "_RModScalar", "_PowerScalar", "_RPowerScalar", "_MaximumScalar", "_MinimumScalar",
                  "_HypotScalar", "_EqualScalar", "_NotEqualScalar", "_GreaterScalar", "_GreaterEqualScalar",
                  "_LesserScalar", "_LesserEqualScalar", "_LogicalAndScalar", "_LogicalOrScalar", "_LogicalXorScalar")


def operands(op, left, right, dtype="float32"):
    """Second operands away from zero where the operator divides by them; bases positive for powers."""
    name = op.lower()
    if any(part in name for part in ("div", "mod")):
        return [data(left, dtype, lo=-3, hi=3), divisor(right, dtype, seed=1)]
    if "power" in name:
        return [data(left, dtype, lo=1, hi=2), data(right, dtype, seed=1, lo=0, hi=2)]
    if op in COMPARE or op in BROADCAST_COMPARE:
        return [whole(left, dtype, hi=2), whole(right, dtype, seed=1, hi=2)]
    return [data(left, dtype), data(right, dtype, seed=1)]


def divisor(shape, dtype, seed=0):
    return np.ones(shape, bool) if dtype == "bool" else data(shape, dtype, seed, lo=1, hi=3)


def cases():
    for op in SAME_SHAPE + COMPARE:
        yield from same_shape(op)
    for op in BROADCAST + BROADCAST_COMPARE:
        yield from broadcast(op)
    for op in SCALAR + SCALAR_COMPARE:
        yield from scalar(op)
    for op in ALIASES:
        yield OpCase(op, operands(op, (2, 3), (2, 3)))
    for op in SCALAR_ALIASES:
        yield OpCase(op, [data((2, 3), lo=1, hi=2)], {"scalar": 1.5})
    yield from add_n()
    yield from clip()


def differentiable(op):
    return op in SAME_SHAPE or op in BROADCAST or op in SCALAR


def gradients(op, dtype="float32"):
    wanted = differentiable(op) and dtype in FLOATS
    return {"train": wanted, "grad": "all" if wanted else None}


def same_shape(op):
    for dtype in ALL:
        yield OpCase(op, operands(op, (2, 3), (2, 3), dtype), **gradients(op, dtype))
    yield OpCase(op, operands(op, (2, 1, 3), (2, 1, 3)), req="add", **gradients(op))
    yield OpCase(op, operands(op, (0, 2), (0, 2)), np_shape=True)
    yield OpCase(op, operands(op, (), ()), np_shape=True)
    yield OpCase(op, operands(op, (2, 3), (3, 2)), why="shapes differ")
    yield OpCase(op, [data((2, 3)), data((2, 3), "float64")], why="types differ")
    yield OpCase(op, meeting_specials())


def meeting_specials():
    values = np.array([0.0, 1.0, -1.5, np.inf, -np.inf, np.nan], "float32")
    left, right = np.meshgrid(values, values)
    return [left.copy(), right.copy()]


PAIRS = (((2, 3), (2, 1)), ((2, 1), (1, 3)), ((2, 3, 2), (1, 3, 1)), ((1,), (3,)), ((2, 3, 1, 2), (1, 3, 2, 2)),
         ((1, 1), (2, 3)), ((2, 1, 2, 1, 2), (1, 3, 1, 2, 1)), ((2, 1, 1, 2, 1, 1), (2, 3, 1, 2, 1, 2)))


def broadcast(op):
    for dtype in ALL:
        yield OpCase(op, operands(op, (2, 3), (1, 3), dtype), **gradients(op, dtype))
    for left, right in PAIRS:
        yield OpCase(op, operands(op, left, right), **gradients(op))
    yield OpCase(op, operands(op, (2, 3), (2, 1)), req="add", **gradients(op))
    yield OpCase(op, operands(op, (0, 3), (1, 3)), np_shape=True)
    yield OpCase(op, operands(op, (2, 3), (3,)), np_shape=True, why="ranks differ")
    yield OpCase(op, operands(op, (2, 3), (3,)), why="ranks differ")
    yield OpCase(op, operands(op, (2, 3), (2, 2)), why="shapes do not broadcast")
    yield OpCase(op, operands(op, (), (2, 2)), np_shape=True)
    yield OpCase(op, meeting_specials())


def scalar(op):
    if op in SCALAR_COMPARE:
        values = lambda dtype: whole((2, 3), dtype, hi=3)  # noqa: E731
    elif any(part in op for part in ("power", "rdiv", "rmod")):
        values = lambda dtype: divisor((2, 3), dtype)  # noqa: E731
    else:
        values = lambda dtype: data((2, 3), dtype)  # noqa: E731
    for dtype in ALL:
        yield OpCase(op, [values(dtype)], {"scalar": 2}, **gradients(op, dtype))
    for number in ("0.5", "-1.5", "3", "1e-3"):
        yield OpCase(op, [values("float32")], {"scalar": number}, **gradients(op))
    for dtype in ("int32", "uint8", "int64"):
        yield OpCase(op, [values(dtype)], {"scalar": "2.5", "is_int": False}, why="fraction against whole numbers")
        yield OpCase(op, [values(dtype)], {"scalar": "3", "is_int": True})
    yield OpCase(op, [values("float32")], {"scalar": 0}, why="zero")
    yield OpCase(op, [values("float32")], {}, why="scalar left out")
    yield OpCase(op, [values("float32")], {"scalar": "2.0"}, req="add", **gradients(op))
    yield OpCase(op, [meeting_specials()[0]], {"scalar": "1.5"}, why="special values")
    yield OpCase(op, [np.zeros((0, 3), "float32")], {"scalar": "1.5"}, np_shape=True)
    yield OpCase(op, [values("float32")], {"scalar": "abc"}, why="not a number")


def add_n():
    for op in ("add_n", "ElementWiseSum"):
        for count in (1, 2, 3, 5):
            arrays = [data((2, 3), seed=i) for i in range(count)]
            yield OpCase(op, arrays, {"num_args": count}, train=True, grad="all")
    for dtype in ALL:
        arrays = [data((2, 3), dtype, seed=i) for i in range(3)]
        yield OpCase("add_n", arrays, {"num_args": 3}, train=True, grad="all" if dtype in FLOATS else None)
    yield OpCase("add_n", [data((2, 3)), data((2, 3))], {"num_args": 2}, train=True, grad="all", req="add")
    yield OpCase("add_n", [data((2, 3)), data((3, 2))], {"num_args": 2}, why="shapes differ")
    yield OpCase("add_n", [], {"num_args": 0}, why="no arguments")


def clip():
    for dtype in ALL:
        low = 0 if dtype in ("uint8", "bool") else -1
        yield OpCase("clip", [data((3, 4), dtype)], {"a_min": low, "a_max": 1}, train=True,
                     grad="all" if dtype in FLOATS else None)
    for low, high in ((-0.5, 1.25), (0, 0), (1, -1), ("-inf", "inf")):
        yield OpCase("clip", [data((3, 4))], {"a_min": low, "a_max": high}, train=True, grad="all")
    yield OpCase("clip", [np.array([np.nan, np.inf, -np.inf, 1, -1, 0.25], "float32")], {"a_min": -1, "a_max": 1},
                 train=True, grad="all", why="special values and the bounds themselves")
    yield OpCase("clip", [data((3, 4))], {"a_min": -1}, why="bound left out")
    for dtype in INTS:
        for low, high in (("-inf", "inf"), ("nan", 1), (-1, "nan"), (-1e20, 1e20), (-1, 1e20), (-1e20, 1), (300, 400), (-400, -300)):
            yield OpCase("clip", [data((3, 4), dtype)], {"a_min": low, "a_max": high}, train=True, grad="all",
                         why="bounds beyond the integers")
