"""NumPy's statistics, running sums, constants and choices."""

import numpy as np

from cases import ALL, FLOATS, OpCase, data, distinct


def cases():
    yield from moments()
    yield from averages()
    yield from percentiles()
    yield from running()
    yield from constants()
    yield from choices()


def graded(op, inputs, attrs=None, grad="all", **more):
    return OpCase(op, inputs, attrs or {}, np_shape=True, train=True, grad=grad, **more)


def plain(op, inputs, attrs=None, **more):
    return OpCase(op, inputs, attrs or {}, np_shape=True, **more)


def moments():
    for op in ("_npi_std", "_npi_var"):
        x = data((2, 3, 4))
        for attrs in ({}, {"axis": 1}, {"axis": (0, -1)}, {"axis": (0, 2), "keepdims": True}, {"axis": "()"}, {"ddof": 1, "axis": 1},
                      {"ddof": 3, "axis": 1}, {"axis": (0, 0)}, {"axis": 3}):
            yield plain(op, [x], attrs)
        for dtype in FLOATS:  # MXNet truncates the mean of integers.
            yield plain(op, [data((2, 5), dtype)], {"axis": 1})
            for to in ("float32", "float64", "int32"):
                yield plain(op, [data((2, 5), dtype)], {"axis": 0, "dtype": to})
        yield plain(op, [data(())])
        yield plain(op, [np.zeros((0, 3), "float32")], {"axis": 0})


def averages():
    a, w = data((2, 3)), data((2, 3), seed=1, lo=1, hi=2)
    for attrs in ({}, {"axis": 1}, {"axis": (0, 1)}):
        yield graded("_npi_average", [a, w], attrs)
    yield graded("_npi_average", [a, w[0]], {"axis": 1})
    yield graded("_npi_average", [data((2, 3, 4)), w[0]], {"axis": 1})
    yield plain("_npi_average", [a, w], {"axis": 1, "returned": True})
    yield plain("_npi_average", [a, w[0]], {"axis": 1, "returned": True})
    yield graded("_npi_average", [a], {"weighted": False, "axis": 0})
    yield plain("_npi_average", [a], {"weighted": False, "axis": 0, "returned": True})
    for dtype in ALL[:-1]:
        yield plain("_npi_average", [data((2, 3), dtype), data((2, 3), dtype, seed=1, lo=1, hi=2)], {"axis": 1})
    yield plain("_npi_average", [a, w[0]])
    yield plain("_npi_average", [data((2, 3, 4)), data((3, 4))], {"axis": (1, 2)})
    yield plain("_npi_average", [a, w[0].astype("float64")], {"axis": 1})


def percentiles():
    a = distinct((3, 4))
    for interpolation in ("linear", "lower", "higher", "nearest", "midpoint"):
        yield plain("_npi_percentile", [a], {"q_scalar": 35, "interpolation": interpolation})
    q = np.array([10, 50, 90], "float32")
    for attrs in ({}, {"axis": 1}, {"axis": 0, "keepdims": True}):
        yield plain("_npi_percentile", [a, q], attrs)
    yield plain("_npi_percentile", [distinct((2, 3, 4))], {"q_scalar": 30, "axis": (0, 2)})
    for dtype in ALL[:-1]:
        yield plain("_npi_percentile", [distinct((3, 4), dtype), q], rtol={"float16": 1e-3, "float64": 1e-6}.get(dtype))
    yield plain("_npi_percentile", [a, np.array([10, 50], "int32")])
    yield plain("_npi_percentile", [a, np.float32(50)])
    yield plain("_npi_percentile", [np.array([1, np.nan, 3], "float32")], {"q_scalar": 35})
    yield plain("_npi_percentile", [a, q[None]])


def running():
    a = data((2, 3, 4))
    for attrs in ({}, {"axis": 0}, {"axis": 1}, {"axis": 2}):
        yield graded("_np_cumsum", [a], attrs)
    yield plain("_np_cumsum", [a], {"axis": 3})
    yield graded("cumsum", [a], {"axis": 1})
    yield graded("_np_cumsum", [data(())])
    yield plain("_np_cumsum", [np.zeros((0, 3), "float32")], {"axis": 1})
    for dtype in ALL:
        yield plain("_np_cumsum", [data((2, 3), dtype)], {"axis": 1})
        for to in ("float16", "float32", "float64", "int8", "int32", "int64"):
            yield plain("_np_cumsum", [data((2, 3), dtype)], {"axis": 1, "dtype": to})
    yield graded("_np_cumsum", [data((2, 3))], {"axis": 1, "dtype": "float64"})
    for attrs in ({}, {"n": 2, "axis": 1}, {"n": 0}, {"axis": 0}):
        yield graded("_npi_diff", [a], attrs)
    for attrs in ({"n": 5}, {"n": -1}):
        yield plain("_npi_diff", [a], attrs)
    for dtype in ALL[:-1]:
        yield plain("_npi_diff", [data((2, 3), dtype)])


def constants():
    for attrs in ({"start": 5}, {"start": 2, "stop": 5}, {"start": 3, "stop": 3}, {"start": 5, "stop": 3}, {"start": 0},
                  {"start": 0, "stop": 1, "step": 0.25}, {"start": 1, "stop": 4, "repeat": 2},
                  {"start": 5, "stop": 1, "step": -2, "dtype": "int32"}, {"start": 1, "stop": 2, "step": 0},
                  {"start": 5.5, "dtype": "int32"}, {"start": 1, "infer_range": True}, {"start": 3, "dtype": "float16"}):
        yield plain("_npi_arange", [], attrs)
    for attrs in ({"N": 3}, {"N": 2, "M": 3, "k": 1}, {"N": 0}, {"N": 2, "M": 0}, {"N": 2, "M": "None", "k": -1, "dtype": "int32"},
                  {"N": -1}):
        yield plain("_npi_eye", [], attrs)
    for op in ("_npi_ones", "_npi_zeros"):
        for attrs in ({"shape": (2, 3)}, {}, {"shape": "()"}, {"shape": (0, 2), "dtype": "bool"}, {"shape": 2, "dtype": "int8"}):
            yield plain(op, [], attrs)
    for attrs in ({"shape": (2, 2)}, {"shape": (3,), "dtype": "bool"}, {"shape": (0, 0)}):
        yield plain("_npi_identity", [], attrs)
    for dtype in ALL:
        yield plain("_npi_full_like", [data((2, 3), dtype)], {"fill_value": 2.5})
        yield plain("_npi_full_like", [data((2, 3))], {"fill_value": 2.5, "dtype": dtype})
    yield graded("_npi_full_like", [data((2, 3))], {"fill_value": 2.5})
    yield plain("_npi_full_like", [data(())], {"fill_value": 2.5})
    for attrs in ({"dimensions": (2, 3)}, {"dimensions": (2,), "dtype": "float32"}, {"dimensions": (0, 2)}, {"dimensions": "()"}):
        yield plain("_npi_indices", [], attrs)
    for attrs in ({"num": 3}, {"num": 4, "endpoint": False}, {"num": 1}, {"num": 0}, {"num": 4, "base": 2, "dtype": "float64"},
                  {"num": -1}):
        yield plain("_npi_logspace", [], {"start": 0, "stop": 2, **attrs}, rtol=1e-6)
    for op in ("_npi_hanning", "_npi_hamming", "_npi_blackman"):
        for attrs in ({"M": 5}, {"M": 1}, {"M": 0}, {"M": 4, "dtype": "float64"}, {}, {"M": -2}):
            yield plain(op, [], attrs, atol=1e-6)


def choices():
    c, x, y = data((2, 3), "int32", lo=0, hi=0.5), data((2, 3)), data((2, 3), seed=1)
    for cond in (c, c.astype("float32"), c.astype(bool)):
        yield graded("_npi_where", [cond, x, y], grad=["x", "y"])
    yield graded("_npi_where", [c[:, :1], x, data(())], grad=["x", "y"])
    yield graded("_npi_where", [data(()), x[:1], y[:, :1]], grad=["x", "y"])
    for dtype in ALL:
        yield plain("_npi_where", [c, x.astype(dtype), y.astype(dtype)])
        yield plain("_npi_where", [c.astype(dtype), x, y])
        for op in ("_npi_where_lscalar", "_npi_where_rscalar"):
            yield plain(op, [c, data((2, 3), dtype)], {"scalar": 2})
    yield plain("_npi_where", [c, x, y.astype("int32")])
    yield plain("_npi_where", [c[:, :2], x, x])
    for op in ("_npi_where_lscalar", "_npi_where_rscalar"):
        yield plain(op, [c, x], {"scalar": 2.5})
        yield plain(op, [c[:, :1], x], {"scalar": 2.5})
        yield plain(op, [c, x[0]], {"scalar": 2.5})
    yield plain("_npi_where_scalar2", [c], {"x": 1.5, "y": 2})
    yield plain("_npi_where_scalar2", [x])
