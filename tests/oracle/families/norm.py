"""Normalization of rows and by neighbors: LayerNorm, GroupNorm, InstanceNorm, LRN, L2Normalization."""

import numpy as np

from cases import FLOATS, InferCase, OpCase, data


def layer(op, inputs, attrs=None, **more):
    """A case in training mode with gradients of all inputs."""
    more.setdefault("train", True)
    more.setdefault("grad", "all")
    return OpCase(op, inputs, attrs or {}, **more)


def cases():
    yield from rows()
    yield from neighbors()


def affine(shape, count, dtype="float32", seed=0):
    return [data(shape, dtype, seed=seed), data((count,), dtype, seed=seed + 1), data((count,), dtype, seed=seed + 2)]


def rows():
    for dtype in FLOATS + ("int32",):
        floating = dtype in FLOATS
        more = {"train": floating, "grad": "all" if floating else None}
        if dtype == "float16":
            more.update(rtol=0.02, atol=0.02)  # MXNet rounds between the steps
        yield layer("LayerNorm", affine((2, 3, 4), 4, dtype), **more)
        yield layer("GroupNorm", affine((2, 4, 3), 2, dtype), {"num_groups": 2}, **more)
        yield layer("InstanceNorm", affine((2, 3, 4), 3, dtype), **more)
    for axis, shape in ((0, (3, 4)), (1, (2, 3, 4)), (-2, (2, 3, 4)), (-1, (5,)), (2, (2, 2, 3, 4)), (1, (2, 70, 33))):
        if np.prod(shape) > 1000:
            yield OpCase("LayerNorm", affine(shape, shape[axis]), {"axis": axis})
        else:
            yield layer("LayerNorm", affine(shape, shape[axis]), {"axis": axis})
    yield layer("LayerNorm", affine((3, 4), 4), {"output_mean_var": True})
    yield layer("LayerNorm", affine((3, 4), 4), {"eps": "0.5"})
    yield layer("LayerNorm", affine((3, 4), 4), req="add")
    yield OpCase("LayerNorm", affine((3, 4), 4), why="inference mode")
    yield OpCase("_npx_layer_norm", affine((3, 4), 4))
    yield layer("LayerNorm", [data((3, 4)) + 1000, data((4,)), data((4,))], why="a large mean", rtol=1e-3, atol=1e-3)
    for axis in (2, -3):
        yield OpCase("LayerNorm", affine((3, 4), 4), {"axis": axis}, why="no such axis")
    yield OpCase("LayerNorm", affine((3, 4), 3), why="gamma of another length")
    yield OpCase("LayerNorm", affine((0, 4), 4), np_shape=True, why="no rows")
    for groups, shape in ((1, (2, 3, 4)), (3, (2, 3, 2, 2)), (2, (1, 4, 2, 1, 3))):
        yield layer("GroupNorm", affine(shape, groups), {"num_groups": groups, "eps": "0.01"})
    yield layer("GroupNorm", affine((2, 4, 3), 2), {"num_groups": 2, "output_mean_var": True})
    yield layer("GroupNorm", affine((2, 4, 3), 2), {"num_groups": 2}, req="add")
    yield OpCase("GroupNorm", affine((2, 4, 3), 3), {"num_groups": 3}, why="groups that do not divide the channels")
    yield OpCase("GroupNorm", affine((2, 4), 1), why="too few axes")
    for shape in ((2, 3, 4, 2), (1, 2, 6), (2, 2, 2, 2, 2)):
        yield layer("InstanceNorm", affine(shape, shape[1]), {"eps": "0.01"})
    yield layer("InstanceNorm", affine((2, 3, 4), 3), req="add")
    yield OpCase("InstanceNorm", affine((2, 3, 4), 3), why="inference mode")
    for op in ("LayerNorm", "GroupNorm", "InstanceNorm"):
        yield InferCase(op, shapes={"data": (2, 4, 3)})
        yield InferCase(op, types={"data": "float32"})
    yield InferCase("LayerNorm", {"axis": 1, "output_mean_var": True}, shapes={"data": (0, 4, 3)})
    yield InferCase("GroupNorm", {"num_groups": 2, "output_mean_var": True}, shapes={"data": (0, 4, 3)})


def neighbors():
    for nsize in (1, 3, 5):
        yield layer("LRN", [data((2, 6, 2, 3))], {"nsize": nsize, "alpha": "0.5"})
    yield layer("LRN", [data((1, 5, 2, 2))], {"nsize": 3, "alpha": "0.1", "beta": "0.5", "knorm": 1})
    yield layer("LRN", [data((1, 5, 2, 2))], {"nsize": 3, "alpha": "0.1", "beta": "1.3", "knorm": "1.5"})
    yield layer("LRN", [data((1, 3, 9, 11))], {"nsize": 3, "alpha": "1"})
    yield layer("LRN", [data((1, 3, 2, 2))], {"nsize": 3}, req="add")
    for dtype in ("float16", "float64", "int32"):
        yield OpCase("LRN", [data((1, 3, 2, 2), dtype)], {"nsize": 3})
    yield OpCase("LRN", [data((1, 3, 2, 2))], {"nsize": 2}, why="an even window")
    yield OpCase("LRN", [data((1, 3, 2, 2))], why="no window")
    for mode in ("instance", "channel", "spatial"):
        for shape in ((2, 3), (2, 3, 4), (2, 3, 2, 2), (1, 2, 1, 2, 3)):
            yield layer("L2Normalization", [data(shape)], {"mode": mode})
        yield layer("L2Normalization", [data((2, 3, 4))], {"mode": mode, "eps": "0.5"}, req="add")
    for dtype in FLOATS + ("int32",):
        floating = dtype in FLOATS
        yield layer("L2Normalization", [data((2, 3), dtype)], train=floating, grad="all" if floating else None)
    for mode in ("instance", "channel", "spatial"):
        yield layer("L2Normalization", [data((5,))], {"mode": mode}, why="one axis")
    yield OpCase("L2Normalization", [data((2, 3))], {"mode": "row"}, why="no such mode")
    yield OpCase("L2Normalization", [np.zeros((2, 3), "float32")], why="nothing but eps")
