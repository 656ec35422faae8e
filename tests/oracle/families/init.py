"""Arrays made from nothing or like another array, and random ones (shapes and types only)."""

from cases import ALL, FLOATS, OpCase, data


def cases():
    for op in ("_zeros", "_ones"):
        for dtype in ALL:
            yield OpCase(op, [], {"shape": (2, 3), "dtype": dtype})
        yield OpCase(op, [], {"shape": (4,)})
        yield OpCase(op, [], {"shape": (2, 1, 2)})
        yield OpCase(op, [], {"shape": (0, 3)}, np_shape=True)
        yield OpCase(op, [], {"shape": ()}, np_shape=True)
        yield OpCase(op, [], {"shape": (2,), "dtype": "complex"}, why="no such type")
    for dtype in ALL:
        yield OpCase("_full", [], {"shape": (2, 3), "dtype": dtype, "value": 3})
        yield OpCase("_eye", [], {"N": 3, "dtype": dtype})
        for op in ("zeros_like", "ones_like"):
            yield OpCase(op, [data((2, 3), dtype)])
    yield OpCase("_full", [], {"shape": (2, 3), "value": "-1.25"})
    yield OpCase("_full", [], {"shape": (2, 3)}, why="value left out")
    for attrs in ({"N": 3, "M": 4, "k": 1}, {"N": 3, "M": 2, "k": -1}, {"N": 2, "k": 5}, {"N": 3, "M": 0}):
        yield OpCase("_eye", [], attrs)
    yield OpCase("_zeros_without_dtype", [], {"shape": (2, 3), "dtype": -1})
    yield OpCase("_zeros_without_dtype", [], {"shape": (2, 3), "dtype": 1})
    yield from ranges()
    yield from random()


def ranges():
    for dtype in FLOATS + ("uint8", "int8", "int32", "int64"):
        yield OpCase("_arange", [], {"start": 1, "stop": 6, "dtype": dtype})
    for attrs in ({"start": 0, "stop": 5}, {"start": 5}, {"start": 1, "stop": 2, "step": "0.25"},
                  {"start": 5, "stop": 0, "step": -2}, {"start": 0, "stop": 3, "repeat": 2},
                  {"start": 0, "stop": 1, "step": "0.3"}, {"start": 0, "step": 1, "infer_range": True},
                  {"start": 3, "stop": 3}, {"start": 0, "stop": 5, "step": 0}, {"start": 0, "stop": 5, "step": -1}):
        yield OpCase("_arange", [], attrs)
    for attrs in ({"start": 0, "stop": 1, "num": 5}, {"start": 0, "stop": 1, "num": 5, "endpoint": False},
                  {"start": 2, "stop": -2, "num": 3}, {"start": 1, "stop": 2, "num": 1}):
        yield OpCase("_linspace", [], attrs)
    for attrs in ({}, {"axis": 1}, {"start": 2, "step": "0.5"}, {"axis": -1, "repeat": 1}):
        yield OpCase("_contrib_arange_like", [data((2, 3))], attrs)


def random():
    """Random results cannot be compared; that they have the right shape and type can."""
    for op, attrs in (("_random_uniform", {"low": -1, "high": 2}), ("_random_normal", {"loc": 1, "scale": 2})):
        for dtype in FLOATS:
            yield OpCase(op, [], dict(attrs, shape=(2, 3), dtype=dtype), compare="shape")
        yield OpCase(op, [], {"shape": (2,)}, compare="shape")
        yield OpCase(op, [], {}, compare="shape", why="no shape")
        yield OpCase(op, [], {"shape": (2,), "dtype": "int32"}, compare="shape", why="not a floating-point type")
    for op in ("random_uniform", "uniform", "random_normal", "normal"):
        yield OpCase(op, [], {"shape": (2, 3)}, compare="shape")
    yield OpCase("_random_normal", [], {"shape": (2, 3), "scale": -1}, compare="shape", why="negative scale")
    yield OpCase("_random_uniform", [], {"shape": (2, 3), "low": 2, "high": 1}, compare="shape", why="low above high")
    for op, names in (("_random_uniform_like", {"low": 0, "high": 1}), ("_random_normal_like", {"loc": 0, "scale": 1})):
        for dtype in FLOATS:
            yield OpCase(op, [data((2, 3), dtype)], names, compare="shape")
    for op in ("_sample_uniform", "_sample_normal", "sample_uniform", "sample_normal"):
        for dtype in FLOATS:
            low, high = data((2,), dtype, lo=0, hi=1), data((2,), dtype, seed=1, lo=2, hi=3)
            yield OpCase(op, [low, high], {"shape": (3,), "dtype": dtype}, compare="shape")
        yield OpCase(op, [data((2, 2), lo=0, hi=1), data((2, 2), lo=2, hi=3)], {}, compare="shape")
        yield OpCase(op, [data((2,), lo=0, hi=1), data((2,), lo=2, hi=3)], {"shape": (2, 3)}, compare="shape")
        yield OpCase(op, [data((2,)), data((3,))], {"shape": (2,)}, compare="shape", why="shapes differ")
