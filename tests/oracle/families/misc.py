"""Diagonals, coordinates, replaced elements, histograms, densities, point processes: operators without a family."""

import numpy as np

from cases import FLOATS, INTS, InferCase, OpCase, data, whole


def cases():
    yield from diagonals()
    yield from coordinates()
    yield from replacements()
    yield from counts()
    yield from scattered()
    yield from ranges()
    yield from choices()
    yield from densities()
    yield from hawkes()


def differentiable(op, inputs, attrs=None, grad="all", **more):
    return OpCase(op, inputs, attrs or {}, train=True, grad=grad, **more)


def diagonals():
    for dtype in FLOATS + INTS:
        yield OpCase("diag", [data((2, 3), dtype)], {"k": 1})
        yield OpCase("diag", [data((2,), dtype)])
    for k in (0, 1, -1, 2, -4):
        yield differentiable("diag", [data((3,))], {"k": k})
    for k in (0, 1, -1, 2):
        yield differentiable("diag", [data((3, 4))], {"k": k})
        yield differentiable("diag", [data((2, 3, 4))], {"k": k, "axis1": -1, "axis2": 1})
        yield differentiable("diag", [data((2, 3, 2, 3))], {"k": k, "axis1": 1, "axis2": 3}, req="add")
    yield OpCase("diag", [data((2, 3))], {"k": -5}, why="no such diagonal")
    yield OpCase("diag", [data((2, 3, 4))], {"axis1": 1, "axis2": -2}, why="one axis twice")
    yield OpCase("diag", [data((2, 3, 4))], {"axis1": 3}, why="no such axis")
    yield InferCase("diag", {"k": 1}, {"data": (4, 5)})
    yield InferCase("diag", {"k": 1}, {"data": (4,)})


def coordinates():
    for dtype in ("float32", "float64", "int32", "int64"):
        yield OpCase("_ravel_multi_index", [np.array([[3, 6, 6], [4, 5, 1]], dtype)], {"shape": (7, 6)})
        yield OpCase("_unravel_index", [np.array([22, 41, 37], dtype)], {"shape": (7, 6)})
    for op in ("_ravel_multi_index", "ravel_multi_index"):
        yield OpCase(op, [np.array([[3, 6], [4, 5], [1, 0]], "float32")], {"shape": (-1, 6, 2)})
        yield OpCase(op, [np.array([[9, -1, 6], [9, 5, -1]], "int64")], {"shape": (7, 6)}, why="outside")
    yield OpCase("_ravel_multi_index", [data((2, 3))], {}, why="no shape")
    yield OpCase("_ravel_multi_index", [data((2, 3))], {"shape": (2, 3, 4)}, why="another number of axes")
    yield OpCase("_ravel_multi_index", [data((2, 2, 2))], {"shape": (2, 3)}, why="not a matrix")
    for op in ("_unravel_index", "unravel_index"):
        yield OpCase(op, [np.array([5, 23, 12], "int32")], {"shape": (-1, 3, 2)})
        yield OpCase(op, [np.array([50, -3], "int64")], {"shape": (7, 6)}, why="outside")
    yield OpCase("_unravel_index", [data((2,))], {}, why="no shape")
    for attrs in ({}, {"axes": (1, 0)}, {"axes": (-1,)}, {"axes": (2, 2)}):
        yield OpCase("_contrib_index_array", [data((2, 3, 2))], attrs)
    yield OpCase("_contrib_index_array", [data((4,), "float16")])


def replacements():
    for dtype in FLOATS + INTS:
        yield OpCase("_contrib_index_copy", [data((3, 2), dtype), np.array([2, 0], "int64"), data((2, 2), dtype, seed=1)])
    for index in ("int32", "float32"):
        yield OpCase("_contrib_index_copy", [data((3,)), np.array([2, 2], index), data((2,), seed=1)], why="a row twice")
    for req in ("write", "add"):
        yield differentiable("_contrib_index_copy", [data((4, 2, 3)), np.array([3, 1], "int64"), data((2, 2, 3), seed=1)],
                             grad=["old_tensor", "new_tensor"], req=req)
    yield OpCase("_contrib_index_copy", [data((3, 2)), np.array([2, 0], "int64"), data((3, 2))], why="three rows for two")
    yield OpCase("_contrib_index_copy", [data((3, 2)), np.array([2, 3], "int64"), data((2, 2))], refuse=True, why="outside")
    numbers = np.array([0, 2], "float32")
    yield OpCase("fill_element_0index", [data((2, 3)), data((2,), seed=1), numbers], imperative=True, states=[])
    yield OpCase("fill_element_0index", [data((2, 3)), data((3,)), numbers], why="lengths differ")
    yield OpCase("_onehot_encode", [numbers, data((2, 3))], imperative=True, states=[], like=[1])
    yield OpCase("_onehot_encode", [numbers, data((3, 3))], why="lengths differ")
    for joined in ([(4,), (2,), (3,)], [(1,)]):
        inputs = [data(s, seed=i) for i, s in enumerate(joined)]
        yield differentiable("_rnn_param_concat", inputs, {"num_args": len(joined), "dim": 0})


def counts():
    for dtype in ("float32", "float64", "int32", "int64", "uint8"):
        values = whole((20,), dtype, lo=0, hi=9)
        yield OpCase("_histogram", [values, np.array([0, 1, 5, 7], dtype)])
    values = data((5, 8), lo=-3, hi=3)
    for attrs in ({"bin_cnt": 4, "range": (-2, 2)}, {"bin_cnt": 7, "range": (-3, 3)}, {"bin_cnt": 1, "range": (0, 1)},
                  {"bin_cnt": 10, "range": (-1.3, 2.9)}):
        yield OpCase("_histogram", [values], attrs)
    yield OpCase("_histogram", [np.array([0, 1, np.nan, 2], "float32"), np.array([0, 1, 2], "float32")])
    yield OpCase("_histogram", [values], {"bin_cnt": 4}, why="no range")
    a = data((2, 3))
    for other, attrs in ((a, {}), (a + np.float32(1e-3), {}), (a + np.float32(1e-3), {"atol": "1e-2"}),
                         (a * np.float32(1.01), {"rtol": "0.1", "atol": 0})):
        yield OpCase("_contrib_allclose", [a, other], attrs)
    nan = np.array([1, np.nan], "float32")
    for attrs in ({}, {"equal_nan": False}):
        yield OpCase("_contrib_allclose", [nan, nan], attrs)
    yield OpCase("_contrib_allclose", [np.array([np.inf], "float32"), np.array([np.inf], "float32")])
    yield OpCase("_contrib_allclose", [np.array([np.inf], "float32"), np.array([-np.inf], "float32")])
    yield OpCase("_contrib_allclose", [data((2,)), data((3,))], refuse=True, why="shapes differ")


def scattered():
    for dtype in FLOATS + INTS:
        yield OpCase("_scatter_plus_scalar", [data((2, 3), dtype)], {"scalar": 2})
        yield OpCase("_scatter_minus_scalar", [data((2, 3), dtype)], {"scalar": 2})
        yield OpCase("_scatter_elemwise_div", [data((2, 3), dtype), data((2, 3), dtype, seed=1, lo=1)])
    yield differentiable("_scatter_elemwise_div", [data((2, 3)), data((2, 3), seed=1, lo=1)])


def ranges():
    for dtype in FLOATS + INTS:
        yield OpCase("_linspace", [], {"start": 1, "stop": 9, "num": 4, "dtype": dtype})
    for attrs in ({"start": 0, "stop": 1, "num": 7}, {"start": 2, "stop": -2, "num": 3, "endpoint": False},
                  {"start": 0, "stop": "0.7", "num": 8}, {"start": 5, "stop": 6, "num": 1}):
        yield OpCase("_linspace", [], attrs)
    yield OpCase("_linspace", [], {"start": 1, "stop": 2}, why="no num")
    for dtype in FLOATS + INTS:
        yield OpCase("_contrib_arange_like", [data((2, 3), dtype)], {"start": 1, "step": 2})
    for attrs in ({"repeat": 2}, {"axis": 0}, {"axis": -1, "start": 3}, {"axis": 1, "step": "0.25"}):
        yield OpCase("_contrib_arange_like", [data((2, 4))], attrs)
    yield OpCase("_contrib_arange_like", [data((2, 4))], {"axis": 2}, why="no such axis")


def choices():
    """Random results cannot be compared; that they have the right shape and type can."""
    for dtype in ("int32", "uint8", "float16", "float32", "float64"):
        rows = np.array([[0.25, 0.75], [0.5, 0.5]], "float32")
        yield OpCase("_sample_multinomial", [rows], {"shape": 3, "dtype": dtype}, compare="shape")
    for dtype in FLOATS:
        rows = np.array([[0.25, 0.75], [0.5, 0.5]], dtype)
        for attrs in ({}, {"shape": (2, 3), "get_prob": True}, {"get_prob": True}):
            yield OpCase("sample_multinomial", [rows], attrs, compare="shape")
    yield OpCase("sample_multinomial", [np.array([0.25, 0.75], "float32")], {}, compare="shape")
    yield OpCase("sample_multinomial", [np.array([0, 1, 0], "float32")], {"shape": 4, "get_prob": True}, why="one class")
    yield OpCase("sample_multinomial", [np.array([0, 1, 0], "int32")], {}, why="integers")
    yield OpCase("_sample_unique_zipfian", [], {"range_max": 10, "shape": (2, 6)}, compare="shape")
    for dtype in FLOATS + INTS:
        for op in ("_shuffle", "shuffle"):
            yield OpCase(op, [data((4, 2), dtype)], compare="shape")


def densities():
    pairs = {"uniform": ((0, 0.25), (2, 3)), "normal": ((0, 1), (0.5, 2)), "gamma": ((0.5, 2), (1, 0.25)),
             "exponential": ((0.5, 2),), "poisson": ((0.5, 2),), "negative_binomial": ((1.5, 3), (0.25, 0.5)),
             "generalized_negative_binomial": ((0.5, 2), (0.25, 1))}
    points = {"float": np.array([[0.5, 1.25, 1.75], [0.25, 1, 2]]), "whole": np.array([[1.0, 2, 4], [3, 1, 5]])}
    for name, parameters in pairs.items():
        x = points["whole" if "poisson" in name or "binomial" in name else "float"]
        for dtype in FLOATS:
            inputs = [x.astype(dtype)] + [np.array(p, dtype) for p in parameters]
            for attrs in ({}, {"is_log": True}):
                yield differentiable("_random_pdf_" + name, inputs, attrs, rtol=2e-2 if dtype == "float16" else 1e-4,
                                     atol=1e-2 if dtype == "float16" else 1e-5)
        same = [x[:, 0].astype("float32")] + [np.array(p, "float32") for p in parameters]
        yield OpCase("random_pdf_" + name, same, rtol=1e-4)
        yield OpCase("random_pdf_" + name, [data((3, 2))] + same[1:], why="shapes that do not fit")
    simplex = np.array([[[0.25, 0.5, 0.25], [0.125, 0.125, 0.75]], [[0.5, 0.25, 0.25], [0.75, 0.125, 0.125]]])
    for dtype in FLOATS:
        alpha = np.array([[0.5, 1, 2], [3, 0.75, 1.5]], dtype)
        for attrs in ({}, {"is_log": True}):
            yield differentiable("_random_pdf_dirichlet", [simplex.astype(dtype), alpha], attrs,
                                 rtol=3e-2 if dtype == "float16" else 1e-4, atol=3e-2 if dtype == "float16" else 1e-5)
    outside = [np.array([[-1, 5, 1]], "float32"), np.array([0], "float32"), np.array([2], "float32")]
    yield OpCase("_random_pdf_uniform", outside, why="points outside")


def hawkes():
    for dtype in ("float32", "float64"):
        inputs = [np.array([[1.5, 2], [0.5, 0.75]], dtype), np.array([0.25, 0.5], dtype), np.array([1, 2], dtype),
                  np.array([[0, 0.5], [1, 0.25]], dtype), np.array([[0.25, 0.5, 0.125], [0.5, 0.75, 9]], dtype),
                  np.array([[0, 1, 0], [1, 1, 0]], "int32"), np.array([3, 2], dtype), np.array([2, 1.5], dtype)]
        yield differentiable("_contrib_hawkesll", inputs, grad=["lda", "alpha", "beta"], rtol=1e-4)
