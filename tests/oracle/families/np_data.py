"""NumPy's operators whose results depend on the data, and those without a family."""

import numpy as np

from cases import ALL, INTS, OpCase, data, whole


def cases():
    yield from indices()
    yield from uniques()
    yield from counts()
    yield from deletions()
    yield from others()
    yield from insertions()
    yield from pads()
    yield from random()


def called(op, inputs, attrs=None):
    return OpCase(op, inputs, attrs or {}, np_shape=True, imperative=True)


def graded(op, inputs, attrs=None, **more):
    return OpCase(op, inputs, attrs or {}, np_shape=True, train=True, grad="all", **more)


def plain(op, inputs, attrs=None):
    return OpCase(op, inputs, attrs or {}, np_shape=True)


def indices():
    for dtype in ALL:
        yield called("_npx_nonzero", [whole((2, 3, 2), dtype, hi=1)])
    for value in (0, 3):
        yield called("_npx_nonzero", [np.float32(value)])
    yield called("_npx_nonzero", [np.zeros((0, 2), "float32")])
    yield called("_npi_nonzero", [np.zeros((2, 2), "float32")])


def uniques():
    x = whole((6,), hi=3)
    everything = {"return_index": True, "return_inverse": True, "return_counts": True}
    for attrs in ({}, everything, {"return_counts": True}, {"return_inverse": True}, {"axis": 0}):
        yield called("_npi_unique", [x], attrs)
    for dtype in ALL[:-1]:
        yield called("_npi_unique", [whole((2, 3), dtype, hi=3)], everything)
    rows = np.array([[1, 2], [1, 2], [0, 5]], "int32")
    yield called("_npi_unique", [rows], {"axis": 0, **everything})
    yield called("_npi_unique", [rows.T.copy()], {"axis": 1, **everything})
    yield called("_npi_unique", [np.float32(3)], {"return_counts": True})
    yield called("_npi_unique", [np.zeros((0,), "float32")], {"return_inverse": True})
    yield called("_npi_unique", [np.zeros((0,), "float32")], {"axis": 1})


def counts():
    for dtype in INTS:
        yield called("_npi_bincount", [whole((6,), dtype, hi=4)])
        yield called("_npi_bincount", [whole((6,), dtype, hi=4)], {"minlength": 7})
    for dtype in ALL[1:-1]:
        yield called("_npi_bincount", [whole((6,), "int32", hi=4), data((6,), dtype)], {"has_weights": True})
    yield called("_npi_bincount", [np.array([1, -1], "int32")])
    yield called("_npi_bincount", [np.zeros((0,), "int32")], {"minlength": 3})
    yield called("_npi_bincount", [np.array([1.5], "float32")])
    yield called("_npi_bincount", [np.array([[1]], "int32")])


def deletions():
    a = data((2, 3))
    for attrs in ({"int_ind": 1}, {"int_ind": -1, "axis": 1}, {"int_ind": 1, "axis": 0}, {"int_ind": 7, "axis": 1},
                  {"start": 0, "stop": 2, "step": 1, "axis": 1}, {"step": -1, "axis": 1}, {"start": 2, "stop": 0, "step": -1, "axis": 1},
                  {"start": 0, "stop": 9, "step": 2}):
        yield called("_npi_delete", [a], attrs)
    for obj, attrs in (([0, 2], {"axis": 1}), ([0, 4], {}), ([1], {"axis": 0}), ([], {"axis": 0})):
        yield called("_npi_delete", [a, np.array(obj, "int64")], attrs)
    for dtype in ALL:
        yield called("_npi_delete", [data((2, 3), dtype)], {"int_ind": 1, "axis": 1})


def others():
    n = np.array([1, np.nan, np.inf, -np.inf, 0], "float32")
    for dtype in ("float16", "float32", "float64"):
        yield graded("_npi_nan_to_num", [n.astype(dtype)])
    yield graded("_npi_nan_to_num", [n], {"nan": 7, "posinf": 8, "neginf": 9})
    yield graded("_npi_nan_to_num", [n], {"copy": False})
    for dtype in INTS + ("bool",):
        yield plain("_npi_nan_to_num", [data((2, 3), dtype)])
    p, x = data((3,), lo=-1, hi=1), data((2, 3))
    for dtype in ("float32", "float64"):
        yield graded("_npi_polyval", [p.astype(dtype), x.astype(dtype)])
    yield graded("_npi_polyval", [p, data(())])
    for dtype in INTS:
        yield plain("_npi_polyval", [data((3,), dtype), data((2, 3), dtype)])
    yield plain("_npi_polyval", [np.zeros((0,), "float32"), x])
    yield plain("_npi_polyval", [p[None], x])
    yield plain("_npi_polyval", [p, x.astype("float64")])
    yield plain("_npi_share_memory", [x, data((2,), "int32")])
    yield plain("_npx_constraint_check", [np.array([True, True])])
    yield plain("_npx_constraint_check", [np.zeros((0,), bool)])
    yield plain("_npx_constraint_check", [x])
    yield graded("_npi_ediff1d", [x])
    yield graded("_npi_ediff1d", [x, data((2,))], {"to_begin_arr_given": True})
    yield graded("_npi_ediff1d", [x, data((2,)), data((1,))], {"to_begin_arr_given": True, "to_end_arr_given": True})
    yield graded("_npi_ediff1d", [x], {"to_begin_scalar": 3.5, "to_end_scalar": 4.5})
    yield graded("_npi_ediff1d", [x, data((2,))], {"to_end_arr_given": True, "to_begin_scalar": 1})
    yield plain("_npi_ediff1d", [data(())])
    for dtype in ALL[:-1]:
        yield plain("_npi_ediff1d", [data((2, 3), dtype)])


def insertions():
    a = data((2, 3))
    for attrs in ({"val": 9, "int_ind": 1}, {"val": 9}, {"int_ind": 4, "axis": 1, "val": 2.5}):
        yield plain("_npi_insert_scalar", [a], attrs)
    for shape, attrs in (((2,), {"int_ind": 1, "axis": 1}), ((2, 1), {"int_ind": 1, "axis": 1}), ((3,), {"int_ind": 0, "axis": 0}),
                         ((3,), {"int_ind": 2}), ((), {"int_ind": 2}), ((2, 3), {"int_ind": 1, "axis": 0})):
        yield plain("_npi_insert_scalar", [a, data(shape, seed=1)], attrs)
    yield plain("_npi_insert_scalar", [a, data((2,), "int32", 1)], {"int_ind": 2})
    yield plain("_npi_insert_slice", [a, data((1,), seed=1)], {"start": 0, "stop": 4, "step": 2})
    for shape, obj, attrs in (((2,), [0, 2], {"axis": 1}), ((2,), [2, 0], {}), ((3,), [1], {"axis": 0}), ((2,), [1], {"axis": 1}),
                              ((), [1, -1], {"axis": 1})):
        yield plain("_npi_insert_tensor", [a, data(shape, seed=1), np.array(obj)], attrs)
    for dtype in ALL[:-1]:
        yield plain("_npi_insert_scalar", [data((2, 3), dtype), data((2,), dtype, 1)], {"int_ind": 1, "axis": 1})


def pads():
    a, width = data((2, 3)), ((1, 2), (2, 1))
    yield graded("_npi_pad", [a], {"pad_width": width, "constant_value": 7})
    for mode in ("edge", "reflect", "symmetric", "maximum", "minimum"):
        yield graded("_npi_pad", [a], {"pad_width": width, "mode": mode})
    for mode, wide in (("reflect", ((1, 2), (5, 4))), ("symmetric", ((1, 2), (7, 7)))):
        yield plain("_npi_pad", [a], {"pad_width": wide, "mode": mode})
    yield plain("_npi_pad", [a[:1]], {"pad_width": ((1, 1), (0, 0)), "mode": "reflect"})
    yield plain("_npi_pad", [np.zeros((0, 2), "float32")], {"pad_width": ((1, 2), (1, 1))})
    for dtype in ALL:
        for mode in ("constant", "maximum", "symmetric"):
            yield plain("_npi_pad", [data((2, 3), dtype)], {"pad_width": ((0, 0), (0, 2)), "mode": mode, "constant_value": 1})


def random():
    low, high = np.zeros((2, 1), "float32"), np.ones((3,), "float32")
    for op, (a, b) in (("uniform", ("low", "high")), ("normal", ("loc", "scale")), ("gumbel", ("loc", "scale")),
                       ("logistic", ("loc", "scale"))):
        op = "_npi_" + op
        for inputs, attrs in (([low, high], {a: None, b: None}), ([high], {a: 1, b: None, "size": (2, 3)}), ([], {a: 1, b: 2}),
                              ([low, high], {a: None, b: None, "size": (4, 2, 3)}), ([low, high], {a: None, b: None, "size": (3, 2)}),
                              ([], {a: 1, b: 2, "size": (0, 2)})):
            yield OpCase(op, inputs, attrs, np_shape=True, compare="shape")
    for op, (a, b) in (("_npi_uniform_n", ("low", "high")), ("_npi_normal_n", ("loc", "scale"))):
        yield OpCase(op, [low, high], {a: None, b: None, "size": (4,)}, np_shape=True, compare="shape")
        yield OpCase(op, [], {a: 0, b: 1, "size": (4,), "dtype": "float64"}, np_shape=True, compare="shape")
    for op, a in (("exponential", "scale"), ("rayleigh", "scale"), ("pareto", "a"), ("weibull", "a"), ("powerd", "a")):
        for inputs, attrs in (([high], {a: None}), ([], {a: 2, "size": 3}), ([high], {a: None, "size": (2, 3)})):
            yield OpCase("_npi_" + op, inputs, attrs, np_shape=True, compare="shape")
    yield OpCase("_npi_gamma", [high, high], {"shape": None, "scale": None}, np_shape=True, compare="shape")
    yield OpCase("_npi_gamma", [], {"shape": 2, "scale": 1, "size": 3}, np_shape=True, compare="shape")
