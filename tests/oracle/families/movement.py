"""Elements moved by blocks or by index arrays, borders, and assignment to parts of arrays."""

import numpy as np

from cases import ALL, FLOATS, OpCase, data, whole


def cases():
    yield from blocks()
    yield from borders()
    yield from nd()
    yield from assigned()
    yield from masked()


def blocks():
    for op, shape in (("depth_to_space", (1, 8, 2, 3)), ("space_to_depth", (1, 2, 4, 6))):
        for dtype in ALL:
            yield OpCase(op, [data(shape, dtype)], {"block_size": 2}, train=True, grad="all" if dtype in FLOATS else None)
        yield OpCase(op, [data(shape)], {"block_size": 2}, train=True, grad="all", req="add")
        yield OpCase(op, [data(shape)], {"block_size": 1}, train=True, grad="all")
        yield OpCase(op, [data(shape)], {"block_size": 3}, why="blocks do not fit")
        yield OpCase(op, [data(shape)], {"block_size": 0}, why="no block")
        yield OpCase(op, [data(shape[1:])], {"block_size": 2}, why="three axes")
    yield OpCase("depth_to_space", [data((2, 9, 1, 2))], {"block_size": 3}, train=True, grad="all")
    yield OpCase("space_to_depth", [data((2, 1, 3, 6))], {"block_size": 3}, train=True, grad="all")


def borders():
    flat, deep = (0, 0, 0, 0, 1, 2, 2, 1), (0, 0, 0, 0, 1, 0, 0, 1, 1, 1)
    for mode in ("constant", "edge", "reflect"):
        for dtype in FLOATS:
            yield OpCase("Pad", [data((1, 2, 3, 4), dtype)], {"mode": mode, "pad_width": flat}, train=True, grad="all")
        yield OpCase("Pad", [data((1, 2, 3, 4))], {"mode": mode, "pad_width": flat}, train=True, grad="all", req="add")
        yield OpCase("Pad", [data((1, 1, 2, 3, 2))], {"mode": mode, "pad_width": deep}, train=True, grad="all")
    yield OpCase("Pad", [data((1, 2, 2, 2))], {"mode": "constant", "pad_width": flat, "constant_value": 2.5})
    yield OpCase("Pad", [data((1, 2, 2, 2))], {"mode": "constant", "pad_width": (0, 0, 1, 0, 1, 1, 1, 1)},
                 why="channels have no border")
    yield OpCase("Pad", [data((2, 2))], {"mode": "edge", "pad_width": (0, 0, 1, 1)}, why="two axes")


def nd():
    points = np.array([[0, 1, 1], [2, 0, 0]], "float32")
    for dtype in ALL:
        grad = ["data"] if dtype in FLOATS else None
        yield OpCase("gather_nd", [data((2, 3), dtype), points], train=True, grad=grad)
        yield OpCase("scatter_nd", [data((3,), dtype), np.array([[0, 1, 1], [2, 0, 1]], "float32")], {"shape": (2, 3)},
                     train=True, grad=grad)
    for index in ("int32", "int64", "float64", "uint8"):
        yield OpCase("gather_nd", [data((2, 3)), points.astype(index)], train=True, grad=["data"])
        yield OpCase("scatter_nd", [data((3,)), np.array([[0, 1, 1], [2, 0, 1]], index)], {"shape": (2, 3)}, train=True,
                     grad=["data"])
    yield OpCase("gather_nd", [data((2, 3)), points], train=True, grad=["data"], req="add")
    yield OpCase("gather_nd", [data((4, 2, 3)), whole((1, 3), hi=3)], train=True, grad=["data"])
    yield OpCase("gather_nd", [data((4, 2, 3)), whole((2, 2, 2), hi=1)], train=True, grad=["data"])
    yield OpCase("gather_nd", [data((3,)), whole((2, 2), hi=1)], why="more coordinates than axes")
    yield OpCase("scatter_nd", [data((2, 3)), np.array([[2, 0]], "float32")], {"shape": (4, 3)}, train=True, grad=["data"])
    yield OpCase("scatter_nd", [data((2, 3)), np.array([[2, 0]], "float32")], {"shape": (4, 2)}, why="rows of another length")


def assigned():
    part = {"begin": (0, 1), "end": (2, 3)}
    for dtype in ALL:
        yield OpCase("_slice_assign", [data((3, 4), dtype), data((2, 2), dtype, seed=1)], part)
        yield OpCase("_slice_assign_scalar", [data((3, 4), dtype)], dict(part, scalar=2))
    steps = {"begin": (2, 0), "end": ("None", 4), "step": (-1, 2)}
    text = {k: "(" + ", ".join(map(str, v)) + ")" for k, v in steps.items()}
    yield OpCase("_slice_assign", [data((3, 4)), data((3, 2), seed=1)], text)
    yield OpCase("_slice_assign_scalar", [data((3, 4))], dict(text, scalar=-1.5))
    yield OpCase("_slice_assign", [data((3, 4)), data((2, 3), seed=1)], part, why="a part of another shape")
    indices = np.array([[0, 1], [2, 0]], "float32")
    for dtype in ALL:
        yield in_place("_scatter_set_nd", [data((2, 3), dtype), data((2,), dtype, seed=1), indices], {"shape": (2, 3)})
    yield OpCase("_identity_with_attr_like_rhs", [data((2, 3)), data((2, 3), seed=1)], train=True, grad="all")


def in_place(op, inputs, attrs=None, why=""):
    """A call that changes its first input."""
    return OpCase(op, inputs, attrs or {}, stypes=("default",) * len(inputs), in_place=True, np_shape=op.startswith("_np"), why=why)


def masked():
    mask = np.array([[1, 0, 1], [0, 0, 1]], "bool")
    for dtype in FLOATS + ("int32", "int64", "uint8", "int8"):
        yield in_place("_npi_boolean_mask_assign_scalar", [data((2, 3), dtype), mask], {"value": 2})
        yield in_place("_npi_boolean_mask_assign_tensor", [data((2, 3), dtype), mask, data((3,), dtype, seed=1)])
    yield in_place("_npi_boolean_mask_assign_scalar", [data((2, 3)), mask[0][:2]], {"value": 2})
    yield in_place("_npi_boolean_mask_assign_scalar", [data((2, 3)), mask[:, :2]], {"value": 2},
                 why="a mask of another shape")
    yield in_place("_npi_boolean_mask_assign_tensor", [data((2, 3)), mask[:, 0], data((1, 3), seed=1)])
    yield in_place("_npi_boolean_mask_assign_tensor", [data((2, 3)), mask, data((2,), seed=1)],
                 why="too few values")
