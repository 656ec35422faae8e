"""Operators on arrays of sparse storage: which storage the result has, its values, gradients, lazy steps of optimizers."""

import itertools

import numpy as np

from cases import FLOATS, OpCase, data, whole

KINDS = ("default", "csr", "row_sparse")
ZERO_KEEPERS = ("abs", "sign", "round", "rint", "ceil", "floor", "trunc", "fix", "square", "sqrt", "cbrt", "expm1", "log1p",
                "sin", "tan", "arcsin", "arctan", "sinh", "tanh", "arcsinh", "arctanh", "degrees", "radians", "relu",
                "negative", "_copy", "BlockGrad", "make_loss", "zeros_like")
OTHERS = ("cos", "exp", "sigmoid", "reciprocal", "ones_like", "softsign")
BINARY = ("elemwise_add", "elemwise_sub", "elemwise_mul", "_grad_add", "_maximum", "_minimum", "_hypot")
SCALAR = ("_plus_scalar", "_minus_scalar", "_mul_scalar", "_div_scalar", "_equal_scalar", "_not_equal_scalar",
          "_greater_scalar", "_greater_equal_scalar", "_lesser_scalar", "_lesser_equal_scalar", "_scatter_plus_scalar",
          "_scatter_minus_scalar", "_rminus_scalar", "_power_scalar")


def holes(shape, dtype="float32", seed=0, lo=-2.0, hi=2.0):
    """Data of which two thirds are zero, with an empty first row."""
    values = data(shape, dtype, seed, lo, hi)
    keep = whole(shape, "int32", seed + 5, 0, 2) == 0
    keep[0] = False
    return np.where(keep, values, np.zeros_like(values))


def cases():
    yield from cast()
    yield from unary()
    yield from binary()
    yield from scalar()
    yield from dot()
    yield from rows()
    yield from reductions()
    yield from embedding()
    yield from optimizers()
    yield from steps()


def call(op, inputs, stypes, attrs=None, **more):
    return OpCase(op, inputs, attrs or {}, imperative=True, stypes=tuple(stypes), **more)


def cast():
    for dtype in FLOATS + ("int32", "int64", "uint8", "int8"):
        for a, b in itertools.product(KINDS, KINDS):
            if "default" not in (a, b) and a != b:
                continue  # MXNet only casts from and to the default storage
            yield call("cast_storage", [holes((4, 3), dtype)], [a], {"stype": b})
    for b in KINDS:
        if b != "csr":
            yield call("cast_storage", [holes((3, 2, 2))], ["row_sparse"], {"stype": b})
        yield call("cast_storage", [np.zeros((3, 2), "float32")], ["default"], {"stype": b}, why="nothing is stored")
        yield call("cast_storage", [data((4,))], ["default"], {"stype": b})
        yield call("cast_storage", [data((2, 2, 2))], ["default"], {"stype": b})


def unary():
    for op in ZERO_KEEPERS + OTHERS:
        for kind in ("csr", "row_sparse"):
            yield call(op, [holes((4, 3), lo=-0.9, hi=0.9)], [kind])
    for kind in ("csr", "row_sparse"):
        yield call("square", [np.zeros((3, 2), "float32")], [kind], why="nothing is stored")
        for dtype in ("float64", "float16", "int32"):
            yield call("abs", [holes((4, 3), dtype)], [kind])
        for low, high in ((-1, 1), (0, 1), (-0.5, 0)):
            yield call("clip", [holes((4, 3))], [kind], {"a_min": low, "a_max": high})
        yield call("square", [holes((4, 3))], [kind], grad=["data"], grad_stypes=("default",), train=True)
    yield call("square", [holes((4, 3))], ["row_sparse"], grad=["data"], grad_stypes=("row_sparse",), train=True)


def binary():
    for op in BINARY:
        for kinds in itertools.product(KINDS, KINDS):
            if kinds != ("default", "default"):
                yield call(op, [holes((4, 3)), holes((4, 3), seed=1)], kinds)
    for kind in ("csr", "row_sparse"):
        yield call("elemwise_add", [holes((4, 3), "float64"), holes((4, 3), "float64", seed=1)], [kind, kind])
        yield call("elemwise_add", [np.zeros((4, 3), "float32"), np.zeros((4, 3), "float32")], [kind, kind])
        yield call("elemwise_mul", [np.zeros((4, 3), "float32"), holes((4, 3))], [kind, "default"])
        yield call("elemwise_add", [holes((4, 3)), holes((3, 3))], [kind, kind], why="shapes differ")
    ones = np.ones((4, 3), "float32")
    for kind in KINDS:
        yield call("_scatter_elemwise_div", [holes((4, 3)), holes((4, 3), seed=2) + ones * 3], ["row_sparse", kind])
    for op in ("broadcast_mul", "broadcast_div", "broadcast_add", "broadcast_sub"):
        for shape in ((4, 3), (4, 1), (1, 3), (1, 1), (3,)):
            if op == "broadcast_div" and shape == (4, 3):
                continue  # MXNet requires elemwise_div here
            yield call(op, [holes((4, 3)), data(shape, lo=1, hi=3)], ["csr", "default"])
        yield call(op, [holes((4, 3)), data((4, 1), lo=1, hi=3)], ["row_sparse", "default"])
    for kinds in (("row_sparse",) * 3, ("default", "row_sparse", "row_sparse"), ("csr",) * 3):
        yield call("add_n", [holes((4, 3), seed=i) for i in range(3)], kinds, {"num_args": 3})
    for kinds in itertools.product(("default", "csr"), ("default",), ("default",)):
        yield call("where", [holes((4, 3)), data((4, 3)), data((4, 3), seed=3)], kinds)


def scalar():
    for op in SCALAR:
        for kind in ("csr", "row_sparse"):
            for value in (2, 0, -1.5):
                if value or op != "_div_scalar":
                    yield call(op, [holes((4, 3))], [kind], {"scalar": value})


def dot():
    for dtype in ("float32", "float64"):
        for transposed in (False, True):
            attrs = {"transpose_a": transposed}
            lhs = holes((4, 5) if not transposed else (5, 4), dtype)
            for kind in ("default", "row_sparse"):
                yield call("dot", [lhs, holes((5, 3), dtype, 1)], ["csr", kind], attrs)
            if dtype == "float32":  # the front end creates sparse gradients of this type only
                for kind in ("default", "row_sparse"):
                    yield call("dot", [lhs, data((5, 3))], ["csr", "default"], attrs, grad=["rhs"],
                               grad_stypes=(kind,), train=True)
    for stype in ("default", "row_sparse", "csr"):
        for transposed in (False, True):
            yield call("dot", [holes((4, 4)), data((4, 3))], ["csr", "default"],
                       {"transpose_a": transposed, "forward_stype": stype})
            yield call("dot", [data((3, 4)), holes((4, 4))], ["default", "csr"],
                       {"transpose_b": transposed, "forward_stype": stype})
    for transposed in (False, True):
        yield call("dot", [data((3, 4)), holes((4, 4))], ["default", "csr"], {"transpose_b": transposed})
        yield call("dot", [holes((4, 4)), data((3, 4))], ["csr", "default"], {"transpose_b": True, "transpose_a": transposed})
    yield call("dot", [holes((4, 4)), holes((4, 4), seed=1)], ["csr", "csr"])
    yield call("dot", [holes((4, 4)), holes((4, 4), seed=1)], ["row_sparse", "row_sparse"])
    yield call("dot", [holes((4, 5)), data((4, 3))], ["csr", "default"], why="lengths differ")


def rows():
    x = holes((5, 3))
    for begin, end in (((1,), (4,)), ((0, 1), (5, 3)), ((-3,), (-1,)), ((None, 1), (None, 2))):
        yield call("slice", [x], ["csr"], {"begin": begin, "end": end})
    yield call("slice", [x], ["row_sparse"], {"begin": (1,), "end": (4,)})
    for dim in (0, 1):
        yield call("Concat", [x, holes((5, 3), seed=1)], ["csr", "csr"], {"num_args": 2, "dim": dim})
    yield call("Concat", [x, holes((2, 3), seed=1)], ["csr", "csr"], {"num_args": 2, "dim": 0})
    yield call("Concat", [x, holes((2, 3), seed=1)], ["csr", "default"], {"num_args": 2, "dim": 0})
    for mode in ("clip", "wrap"):
        yield call("take", [x, np.array([4, 0, 2, 7, -1], "float32")], ["csr", "default"], {"mode": mode})
    for dtype in ("float32", "int64"):
        yield call("_sparse_retain", [x, np.array([0, 2, 4], dtype)], ["row_sparse", "default"])
    yield call("_sparse_retain", [x, np.array([1, 3], "int64")], ["row_sparse", "default"], grad=["data"],
               grad_stypes=("row_sparse",), train=True)
    for axis in (None, 1):
        yield call("_contrib_getnnz", [x], ["csr"], {"axis": axis})
    edges = np.arange(1, 26, dtype="float32").reshape(5, 5) * (whole((5, 5), seed=2, hi=1))
    yield call("_contrib_edge_id", [edges, np.array([0, 1, 4, 2], "float32"), np.array([0, 3, 4, 2], "float32")],
               ["csr", "default", "default"])


def reductions():
    for op in ("sum", "mean"):
        for kind in ("csr", "row_sparse"):
            for axis in (0, 1, None, (0, 1), -1):
                for keep in (False, True):
                    yield call(op, [holes((4, 3))], [kind], {"axis": axis, "keepdims": keep})
        yield call(op, [holes((4, 3), "float64")], ["csr"], {"axis": 0})
        yield call(op, [holes((4, 3))], ["csr"], {"axis": 0, "exclude": True})
    for kind in ("csr", "row_sparse"):
        for order in (1, 2):
            for axis in (None, 0, 1):
                yield call("norm", [holes((4, 3))], [kind], {"ord": order, "axis": axis})
        yield call("norm", [holes((4, 3))], [kind], {"keepdims": True})
    for axis in (0, 1):
        for keep in (False, True):
            yield call("_square_sum", [holes((4, 3))], ["row_sparse"], {"axis": axis, "keepdims": keep})


def embedding():
    sizes = {"input_dim": 6, "output_dim": 3}
    for sparse, kind in ((True, "row_sparse"), (False, "default")):
        for index in ("float32", "int32"):
            yield call("Embedding", [whole((2, 3), index, hi=4), data((6, 3))], ["default", "default"],
                       dict(sizes, sparse_grad=sparse), grad=["weight"], grad_stypes=(kind,), train=True)


def optimizers():
    states = {"sgd_update": (), "sgd_mom_update": ("mom",), "adam_update": ("mean", "var"), "ftrl_update": ("z", "n"),
              "_sparse_adagrad_update": ("history",)}
    for op, names in states.items():
        attrs = {"lr": 0.5}
        if op != "_sparse_adagrad_update":
            attrs["wd"] = 0.25
        if op == "sgd_mom_update":
            attrs["momentum"] = 0.5
        for kinds in (("default", "default"), ("row_sparse", "row_sparse"), ("row_sparse", "default")):
            if op == "ftrl_update" and kinds != ("row_sparse", "row_sparse"):
                continue
            if op == "_sparse_adagrad_update" and kinds[0] != kinds[1]:
                continue
            for extra in ({}, {"lazy_update": False}, {"rescale_grad": 0.5, "clip_gradient": 0.5}):
                if "lazy_update" in extra and (op in ("ftrl_update", "_sparse_adagrad_update")
                                               or kinds[0] == "row_sparse"):
                    continue
                start = [data((5, 3), seed=7 + i, lo=0.5, hi=2) for i in range(len(names))]
                yield call(op, [data((5, 3), lo=0.5, hi=2), holes((5, 3), seed=3)] + start,
                           [kinds[0], "row_sparse"] + [kinds[1]] * len(names), dict(attrs, **extra), changed=names, in_place=True)
    for dtype in ("float32", "float64", "float16"):
        for extra in ({}, {"rescale_grad": 0.5, "clip_gradient": 0.5, "epsilon": 0.25}):
            yield call("_contrib_group_adagrad_update",
                       [data((5, 3), dtype, lo=0.5, hi=2), holes((5, 3), dtype, seed=3), data((5, 1), dtype, lo=0.5, hi=2)],
                       ["default", "row_sparse", "default"], dict(extra, lr=0.5), changed=("history",), in_place=True)


def steps():
    for begin, end, step in (((0, 1), (5, 3), (1, 1)), ((1,), (4,), (1,)), ((0, 1), (5, 3), (None, 1)), ((1,), (4,), (2,))):
        yield call("slice", [holes((5, 3))], ["csr"], {"begin": begin, "end": end, "step": step})
