"""Layers of old networks, losses and statistics that few programs use."""

import numpy as np

from cases import FLOATS, INTS, InferCase, OpCase, data, distinct, layer


def cases():
    yield from batch_norm()
    yield from convolution()
    yield from pooling()
    yield from svm()
    yield from sparse_reg()
    yield from moments()
    yield from khatri_rao()


def batch_norm():
    def case(op, shape, attrs=None, dtype="float32", **more):
        c = (shape[1],)
        stat = "float32" if dtype == "float16" else dtype
        inputs = [data(shape, dtype), data(c, stat, seed=1), data(c, stat, seed=2), data(c, stat, seed=3)]
        inputs.append(data(c, stat, seed=4, lo=0.5, hi=2))
        more.setdefault("grad", ["data", "gamma", "beta"])
        return layer(op, inputs, dict({"key": "k%d" % shape[1]} if "Sync" in op else {}, **(attrs or {})), **more)

    for op in ("BatchNorm_v1", "_contrib_SyncBatchNorm"):
        for fix_gamma in (True, False):
            for use_global_stats in (True, False):
                attrs = {"fix_gamma": fix_gamma, "use_global_stats": use_global_stats}
                yield case(op, (3, 2, 2, 2), attrs)
                yield case(op, (3, 2, 2, 2), attrs, train=False, grad=None)
        yield case(op, (3, 2, 2, 2), {"output_mean_var": True, "fix_gamma": False})
        yield case(op, (4, 3, 1, 2), {"momentum": "0.5", "eps": "0.1"})
        yield InferCase(op, {"key": "k"} if "Sync" in op else {}, shapes={"data": (3, 4, 2, 2)})
        yield InferCase(op, {"key": "k"} if "Sync" in op else {}, types={"data": "float16"})


def convolution():
    def case(shape, filters, kernel, attrs=None, dtype="float32", **more):
        attrs = dict({"kernel": kernel, "num_filter": filters}, **(attrs or {}))
        inputs = [data(shape, dtype), data((filters, shape[1] // attrs.get("num_group", 1)) + kernel, dtype, seed=1)]
        if not attrs.get("no_bias"):
            inputs.append(data((filters,), dtype, seed=2))
        return layer("Convolution_v1", inputs, attrs, **more)

    for dtype in FLOATS + ("int32",):
        yield case((1, 2, 4, 4), 3, (2, 2), dtype=dtype)
    yield case((2, 4, 5, 4), 4, (3, 2), {"stride": (2, 1), "pad": (1, 0), "dilate": (1, 2), "num_group": 2})
    yield case((1, 2, 4, 4), 3, (3, 3), {"no_bias": True, "pad": (1, 1)}, req="add")
    yield case((1, 2, 5), 3, (2,), grad=None, why="one dimension")
    yield case((1, 2, 4, 4), 3, (5, 5), grad=None, why="larger than the image")
    yield InferCase("Convolution_v1", {"kernel": (2, 2), "num_filter": 4}, shapes={"data": (1, 2, 5, 6)})


def pooling():
    for kind in ("max", "avg", "sum"):
        for convention in ("valid", "full"):
            for attrs, shape in (
                ({"kernel": (2, 2)}, (1, 2, 4, 5)),
                ({"kernel": (2, 2), "stride": (2, 2)}, (2, 1, 5, 3)),
                ({"kernel": (3, 2), "stride": (2, 1), "pad": (1, 1)}, (1, 2, 5, 4)),
                ({"kernel": (2, 2), "stride": (2, 2), "pad": (1, 1)}, (1, 1, 3, 3)),
            ):
                attrs = dict(attrs, pool_type=kind, pooling_convention=convention)
                yield layer("Pooling_v1", [distinct(shape)], attrs)
        yield layer("Pooling_v1", [distinct((1, 2, 3, 4))], {"global_pool": True, "pool_type": kind, "kernel": (1, 1)})
        yield layer("Pooling_v1", [distinct((1, 2, 4, 4))], {"kernel": (2, 2), "pool_type": kind}, req="add")
    for dtype in FLOATS + ("int32",):
        yield layer("Pooling_v1", [distinct((1, 2, 3, 3), dtype)], {"kernel": (2, 2)})
    yield layer("Pooling_v1", [np.ones((1, 1, 3, 3), "float32")], {"kernel": (2, 2)}, why="equal elements")
    yield layer("Pooling_v1", [distinct((1, 2, 5))], {"kernel": (2,)}, why="one dimension")
    yield layer("Pooling_v1", [distinct((1, 2, 3, 3))], {"kernel": (5, 5)}, why="larger than the image")


def svm():
    for dtype in FLOATS + ("int32",):
        floating = dtype in FLOATS
        yield layer("SVMOutput", [data((3, 4), dtype), np.array([0, 3, 1], dtype)], grad=["data"] if floating else None)
    for attrs in ({"use_linear": True}, {"margin": "0.5", "regularization_coefficient": 2}, {"margin": "0.5", "use_linear": True}):
        yield layer("SVMOutput", [data((3, 4)), np.array([0, 3, 1], "float32")], attrs, grad=["data"])
    yield layer("SVMOutput", [data((2, 2, 3)), np.array([[0, 2], [1, 1]], "float32")], grad=["data"])
    yield layer("SVMOutput", [data((3, 4)), np.array([0, 3, 1], "float32")], grad=["data"], req="add")
    yield layer("SVMOutput", [data((3, 4)), np.array([0, 3], "float32")], grad=["data"], why="a label is missing")
    yield InferCase("SVMOutput", shapes={"data": (2, 3, 4)})


def sparse_reg():
    def activations(shape):
        return [(np.abs(data(shape)) / 4 + 0.25).astype("float32"), np.full(shape[1:], 0.25, "float32")]

    for attrs in ({}, {"penalty": "0.5"}, {"sparseness_target": "0.3", "momentum": "0.5", "penalty": "0.1"}):
        yield layer("IdentityAttachKLSparseReg", activations((3, 4)), attrs, grad=["data"])
    yield layer("IdentityAttachKLSparseReg", activations((3, 4)), train=False, grad=None)
    yield InferCase("IdentityAttachKLSparseReg", shapes={"data": (3, 4)})


def moments():
    for dtype in FLOATS + INTS + ("bool",):
        yield layer("moments", [data((3, 4), dtype)], {"axes": (0,)}, rtol=0.01 if dtype == "float16" else None)
    for axes in ((0,), (1,), (2,), (-1,), (0, 2), (1, 2), (0, 1, 2), (2, 0)):
        for keepdims in (False, True):
            yield layer("moments", [data((2, 3, 4))], {"axes": axes, "keepdims": keepdims})
    yield layer("moments", [data((2, 3, 4))], {"axes": (0,)}, req="add")
    yield layer("moments", [data((2, 3))], why="no axes")
    yield layer("moments", [data((2, 3))], {"axes": (2,)}, why="no such axis")


def khatri_rao():
    def case(inputs, **more):
        return OpCase("khatri_rao", inputs, {"num_args": len(inputs)}, **more)

    for dtype in FLOATS + ("int32",):
        yield case([data((2, 3), dtype), data((4, 3), dtype)])
    yield case([data((2, 3))])
    yield case([data((2, 3)), data((1, 3)), data((4, 3))])
    yield case([data((2, 3)), data((4, 2))], why="other columns")
    yield case([data((2, 3)), data((4,))], why="a vector")
